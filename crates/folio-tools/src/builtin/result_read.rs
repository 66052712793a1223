//! `result_read`: a range of an earlier result.

use async_trait::async_trait;
use folio_memory::passage::{self, Part, PartRead, Passage, Reading, SearchResult};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::arguments::parse;
use crate::context::{ToolContext, ToolLimits};
use crate::response::{FailureKind, ToolError, ToolResponse, Truncated};
use crate::tool::{ArgKind, Effect, Tool, ToolRequest, ToolSpec};

/// Reads a range of an earlier result.
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
                // A model with a small context window gets only the first sentence.
                "Reads a part of an earlier result: bytes, lines or matches. Bytes are `from` and `to`, lines `lines` as \
                 `10-20`, and matches the lines with the text `search`.",
            )
            .returns(
                "Returns `text`, `from`, `to`, `total_bytes`, `total_lines` and, if there is more, `truncated` and the \
                 arguments that read on in `next`; a search returns `matches` [{line, text}] and `count`, and goes on \
                 at `from`.",
            )
            .gives(&[
                ("text", "string"),
                ("matches", "array"),
                ("count", "integer"),
                ("truncated", "boolean"),
            ])
            .required(
                "node",
                ArgKind::Text,
                "The task (`scan/find-marks`), or what was put away: `e42`, `/large_tool_results/e42`.",
            )
            .optional(
                "field",
                ArgKind::Text,
                "`stdout`, `files[0].path`.",
            )
            .optional("from", ArgKind::Count, "The first byte, from 0.")
            .optional("to", ArgKind::Count, "The byte to stop before.")
            .optional("lines", ArgKind::Text, "From 1: `10-20`, `10-` or `10`.")
            .optional(
                "search",
                ArgKind::Text,
                "Plain text in any case.",
            )
            .optional("max_bytes", ArgKind::Count, "The most text."),
        }
    }
}

#[derive(Deserialize)]
struct Args {
    node: String,
    field: Option<String>,
    from: Option<u64>,
    to: Option<u64>,
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
    let mut args: Args = parse(request)?;
    // Models tend to fill in optional arguments.
    args.field = args.field.filter(|field| !field.is_empty());
    let part = requested_part(&args)?;
    let read = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(ToolError::cancelled()),
        read = read(&args, &part, context) => read.map_err(|why| ToolError::new(FailureKind::NotFound, "no_result", why))?,
    };
    let PartRead {
        reading,
        total_bytes,
        total_lines,
    } = read;
    match reading {
        Reading::Found(found) => Ok(found_lines(&args, &found, total_bytes)),
        Reading::Passage(passage) => Ok(passage_read(&args, &passage, total_bytes, total_lines)),
    }
}

async fn read(args: &Args, part: &Part, context: &ToolContext) -> Result<PartRead, String> {
    let max_bytes = max_bytes(args, &context.limits);
    match &args.field {
        Some(field) => {
            let text = context.results.read_field(&args.node, field).await?;
            Ok(passage::read(&text, part, max_bytes))
        }
        None => context.results.read_part(&args.node, part, max_bytes).await,
    }
}

/// The arguments of a call that reads on: the same ones, with `part` replaced.
fn next_call_args(args: &Args, part: &[(&str, Value)]) -> Value {
    let mut next = Map::from_iter([("node".to_owned(), json!(args.node))]);
    next.extend(args.field.iter().map(|field| ("field".to_owned(), json!(field))));
    next.extend(part.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Value::Object(next)
}

/// What was read, in words.
fn describe_source(args: &Args) -> String {
    match &args.field {
        Some(field) => format!("{field} of {}", args.node),
        None => args.node.clone(),
    }
}

fn found_lines(args: &Args, found: &SearchResult, total_bytes: u64) -> (Value, String, Option<Truncated>) {
    let (count, shown_count) = (found.count, found.matches.len());
    let hold = if count == 1 { "line holds" } else { "lines hold" };
    let notes = format!(
        "{}: {count} {hold} the text, {shown_count} of them shown",
        describe_source(args)
    );
    let next = found
        .next
        .map(|from| next_call_args(args, &[("search", json!(args.search)), ("from", json!(from))]));
    let outputs = json!({
        "matches": found.matches,
        "count": count,
        "total_bytes": total_bytes,
        "truncated": next.is_some(),
        "next": next,
    });
    (outputs, notes, None)
}

fn passage_read(
    args: &Args,
    passage: &Passage,
    total_bytes: u64,
    total_lines: u64,
) -> (Value, String, Option<Truncated>) {
    let text = passage.text();
    let next = passage.next.as_ref().map(|part| match part {
        Part::Lines { from, to: u64::MAX } => next_call_args(args, &[("lines", json!(format!("{from}-")))]),
        Part::Lines { from, to } => next_call_args(args, &[("lines", json!(format!("{from}-{to}")))]),
        Part::Bytes { from, to: u64::MAX } | Part::Search { from, .. } => {
            next_call_args(args, &[("from", json!(from))])
        }
        Part::Bytes { from, to } => next_call_args(args, &[("from", json!(from)), ("to", json!(to))]),
    });
    let truncated = next.is_some();
    let outputs = json!({
        "text": text,
        "from": passage.from,
        "to": passage.to,
        "from_line": passage.from_line,
        "total_bytes": total_bytes,
        "total_lines": total_lines,
        "encoding_lossy": std::str::from_utf8(&passage.bytes).is_err(),
        "truncated": truncated,
        "next": next,
    });
    let notes = format!(
        "{}: bytes {} to {} of {total_bytes}",
        describe_source(args),
        passage.from,
        passage.to
    );
    let cut = truncated.then_some(Truncated {
        kept_bytes: passage.to - passage.from,
        total_bytes,
    });
    (outputs, notes, cut)
}

fn max_bytes(args: &Args, limits: &ToolLimits) -> usize {
    args.max_bytes
        .unwrap_or(limits.result_bytes)
        .clamp(1, limits.result_bytes_max)
}

fn requested_part(args: &Args) -> Result<Part, ToolError> {
    let by_bytes = args.from.is_some() || args.to.is_some();
    match (&args.lines, &args.search) {
        (None, None) => {
            let (from, to) = (args.from.unwrap_or(0), args.to.unwrap_or(u64::MAX));
            if to < from {
                return Err(ToolError::invalid(format!(
                    "result_read: `to` ({to}) comes before `from` ({from})"
                )));
            }
            Ok(Part::Bytes { from, to })
        }
        (Some(lines), None) if !by_bytes => Part::lines(lines).ok_or_else(|| {
            ToolError::invalid(format!(
                "result_read: `lines` must be of the form `10-20`, `10-` or `10`, not `{lines}`"
            ))
        }),
        (None, Some(words)) if words.is_empty() => Err(ToolError::invalid("result_read: `search` is empty")),
        (None, Some(words)) if args.to.is_none() => Ok(Part::Search {
            words: words.clone(),
            from: args.from.unwrap_or(0),
        }),
        _ => Err(ToolError::invalid(
            "result_read: give one of `from`/`to`, `lines` and `search`",
        )),
    }
}
