//! `result_read`: a range of an earlier result.

mod range;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use self::range::{Part, search, taken};
use crate::arguments::parse;
use crate::context::{ToolContext, ToolLimits};
use crate::response::{FailureKind, ToolError, ToolResponse, Truncated};
use crate::tool::{ArgKind, Effect, Tool, ToolRequest, ToolSpec};

/// Reads from what was done before.
#[derive(Debug)]
pub(super) struct ResultRead {
    spec: ToolSpec,
}

impl Default for ResultRead {
    fn default() -> Self {
        Self {
            spec: ToolSpec::new(
                "result_read",
                Effect::Read,
                "Reads a part of an earlier result of this run: by bytes (`from`, `to`), by lines \
                 (`lines: 10-20`), or the lines that hold a text (`search`). Returns `text`, `from`, `to`, \
                 `total_bytes`, `total_lines` and, if there is more, `truncated` and the arguments that read \
                 on in `next`; a search returns `matches` [{line, text}] and `count`.",
            )
            .required(
                "node",
                ArgKind::Text,
                "The task whose result it is (`scan/find-marks`), or a reference as `blob:…`.",
            )
            .optional("from", ArgKind::Count, "The first byte, counted from 0.")
            .optional("to", ArgKind::Count, "The byte to stop before.")
            .optional("lines", ArgKind::Text, "Lines, counted from 1: `10-20`, `10-` or `10`.")
            .optional(
                "search",
                ArgKind::Text,
                "Plain text to look for; capital letters make no difference.",
            )
            .optional("max_bytes", ArgKind::Count, "How much text to return at most."),
        }
    }
}

#[derive(Deserialize)]
struct Args {
    node: String,
    from: Option<usize>,
    to: Option<usize>,
    lines: Option<String>,
    search: Option<String>,
    max_bytes: Option<usize>,
}

#[async_trait]
impl Tool for ResultRead {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        match result_read(request, context).await {
            Ok((outputs, notes, truncated)) => ToolResponse {
                truncated,
                ..ToolResponse::ok(request, outputs, notes)
            },
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}

async fn result_read(
    request: &ToolRequest,
    context: &ToolContext,
) -> Result<(Value, String, Option<Truncated>), ToolError> {
    let args: Args = parse(request)?;
    let part = wanted(&args)?;
    let max_bytes = max_bytes(&args, &context.limits);
    let bytes = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(ToolError::cancelled()),
        read = context.results.read(&args.node) => read.map_err(|why| {
            ToolError::new(FailureKind::NotFound, "no_result", why)
        })?,
    };
    let node = &args.node;
    if let Part::Search(words) = &part {
        let (matches, count) = search(&bytes, words, max_bytes);
        let shown = matches.len();
        let notes = format!("{node}: {count} lines hold the text, {shown} of them shown");
        let outputs = json!({
            "matches": matches,
            "count": count,
            "total_bytes": bytes.len(),
            "truncated": count > shown as u64,
        });
        return Ok((outputs, notes, None));
    }
    let taken = taken(&bytes, &part, max_bytes);
    let text = String::from_utf8_lossy(&bytes[taken.from..taken.to]);
    let truncated = taken.next.is_some();
    let mut next = taken.next.unwrap_or_default();
    if truncated {
        next["node"] = json!(node);
    }
    let outputs = json!({
        "text": text,
        "from": taken.from,
        "to": taken.to,
        "from_line": taken.from_line,
        "total_bytes": bytes.len(),
        "total_lines": range::lines_of(&bytes),
        "encoding_lossy": matches!(text, std::borrow::Cow::Owned(_)),
        "truncated": truncated,
        "next": next,
    });
    let notes = format!("{node}: bytes {} to {} of {}", taken.from, taken.to, bytes.len());
    let cut = truncated.then_some(Truncated {
        kept_bytes: (taken.to - taken.from) as u64,
        total_bytes: bytes.len() as u64,
    });
    Ok((outputs, notes, cut))
}

fn max_bytes(args: &Args, limits: &ToolLimits) -> usize {
    args.max_bytes
        .unwrap_or(limits.result_bytes)
        .clamp(1, limits.result_bytes_max)
}

fn wanted(args: &Args) -> Result<Part, ToolError> {
    let by_bytes = args.from.is_some() || args.to.is_some();
    match (&args.lines, &args.search) {
        (None, None) => {
            let (from, to) = (args.from.unwrap_or(0), args.to.unwrap_or(usize::MAX));
            if to < from {
                return Err(ToolError::invalid(format!(
                    "result_read: `to` ({to}) comes before `from` ({from})"
                )));
            }
            Ok(Part::Bytes { from, to })
        }
        (Some(lines), None) if !by_bytes => Part::lines(lines),
        (None, Some(words)) if !by_bytes && !words.is_empty() => Ok(Part::Search(words.to_lowercase())),
        (None, Some(words)) if words.is_empty() => Err(ToolError::invalid("result_read: `search` is empty")),
        _ => Err(ToolError::invalid(
            "result_read: give one of `from`/`to`, `lines` and `search`",
        )),
    }
}
