//! Long texts: the history of a conversation, and results too large for a prompt.

use std::io::Cursor;
use std::sync::Arc;

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use axum::middleware;
use folio::memory::evict::{LIMIT_TOKENS, ResultOf};
use folio::memory::passage::Part;
use folio::memory::tokens::for_model;
use folio::runner::COMPACTOR_TIME;
use folio::store::workspace::{Eviction, Offload};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::describe_operation;
use crate::http::guard::{RESPONSE_TIMEOUT, declare_response_time};
use crate::http::input::{Body, Raw, read_json};
use crate::http::problem::Problem;
use crate::http::query::{Fields, Nothing, QueryParams, check_exclusive, invalid_value_problem, parse_cursor};
use crate::wire::long::FOUND_MAX;
use crate::wire::{Conversation, EvictedShape, PassageShape, ReadOn, SaidShape};

/// The default number of bytes of a text in one answer.
const READ_BYTES: u32 = 32 * 1024;
/// The most messages of a history in one answer.
const MESSAGES_MAX: u32 = 10_000;
const GROUP: &str = "long texts";

/// Returns the routes that take or return long texts.
pub(super) fn routes() -> ApiRouter<App> {
    // If the model does not answer within its time, the operation continues without its answer.
    let time = middleware::from_fn_with_state(COMPACTOR_TIME + RESPONSE_TIMEOUT, declare_response_time);
    ApiRouter::new()
        .api_route(
            "/threads/{thread}/history",
            post_with(
                offload,
                describe_operation("offload", GROUP, "Offloads the older messages of a conversation"),
            )
            .layer(time)
            .get_with(
                said,
                describe_operation("read_history", GROUP, "Returns offloaded messages by their numbers"),
            ),
        )
        .api_route(
            "/threads/{thread}/evict",
            post_with(
                evict,
                describe_operation("evict", GROUP, "Puts a large result away and returns a preview of it"),
            ),
        )
        .api_route(
            "/blobs/{reference}",
            get_with(
                blob,
                describe_operation("read_blob", GROUP, "Returns a part of a long text"),
            ),
        )
}

/// A conversation, and when to offload its older messages.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Talk {
    /// The messages, in the format of OpenAI or Anthropic, or a mixture of both.
    messages: Value,
    /// The size of the model's context window in tokens.
    #[serde(default = "window_tokens")]
    window: u32,
    /// The share of the window from which on messages are offloaded.
    #[serde(default = "share")]
    #[schemars(range(min = 0, max = 1))]
    share: f64,
    /// The number of messages at the end that stay, as far as there is room for them.
    #[serde(default = "keep")]
    keep: usize,
    /// The budget in tokens of the message that replaces the offloaded ones.
    #[serde(default = "summary_tokens")]
    summary: u32,
    /// Whether to offload all messages that need not stay, however few they are.
    #[serde(default)]
    force: bool,
    /// The model whose tokens are counted; without it, tokens are estimated.
    #[serde(default)]
    model: Option<String>,
}

fn window_tokens() -> u32 {
    Offload::default().window_tokens
}

fn share() -> f64 {
    Offload::default().share
}

fn keep() -> usize {
    Offload::default().keep_last
}

fn summary_tokens() -> u32 {
    Offload::default().summary_tokens
}

async fn offload(
    caller: Caller,
    _: QueryParams<Nothing>,
    Raw(body, _): Raw<Talk>,
) -> Result<Answer<Conversation>, Problem> {
    // A body that is only a list is the list of messages.
    let conversation: Talk = match body {
        Value::Array(_) => read_json(serde_json::json!({ "messages": body }).to_string().as_bytes())?,
        object => read_json(object.to_string().as_bytes())?,
    };
    let options = Offload {
        window_tokens: conversation.window,
        share: conversation.share,
        keep_last: conversation.keep,
        summary_tokens: conversation.summary,
        force: conversation.force,
        tokens: Arc::new(for_model(conversation.model.as_deref().unwrap_or_default())),
        has_view: true,
        compactor: caller.runner.compactor(),
        task: None,
    };
    caller.check_key().await?;
    let offloaded = caller
        .workspace
        .offload(&caller.actor, &caller.thread(), &conversation.messages, &options)
        .await?;
    let is_written = offloaded.block.is_some();
    Ok(Answer::of(Conversation {
        turn_warnings: caller.ended_turn_warning().filter(|_| is_written).into_iter().collect(),
        ..Conversation::of(offloaded)
    }))
}

/// A range of messages, by their numbers, counted from 1.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Range {
    /// The first message; 1 if not given.
    from: Option<u64>,
    /// The last message; without it, the range extends to the end.
    to: Option<u64>,
    /// Both in one: `10:20`, `10:` or `10`.
    range: Option<String>,
    /// Only messages that contain all of these words, ignoring case; at most 100.
    search: Option<String>,
    /// The maximum number of messages; 10,000 if not given.
    #[schemars(range(min = 1, max = 10_000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there with the same filters.
    cursor: Option<String>,
    /// Whether `messages` repeats `items`, for programs that know them by that name; `false` leaves it out.
    messages: Option<bool>,
}

impl Fields for Range {}

async fn said(caller: Caller, QueryParams(params): QueryParams<Range>) -> Result<Answer<SaidShape>, Problem> {
    let is_from_to = params.from.or(params.to).is_some();
    check_exclusive(&[("range", params.range.is_some()), ("from`/`to", is_from_to)])?;
    let (from, to) = match params.range.as_deref() {
        None => (params.from.unwrap_or(1), params.to.unwrap_or(u64::MAX)),
        Some(text) => lines("range", text)?,
    };
    if from == 0 {
        return Err(invalid_value_problem("from", "0", "at least 1"));
    }
    if from > to {
        return Err(invalid_value_problem("to", &to.to_string(), "at least `from`"));
    }
    let from = parse_cursor(params.cursor.as_deref())?.unwrap_or(from).max(from);
    let (workspace, thread) = (&caller.workspace, caller.thread());
    let as_of = workspace.head().await?.0;
    let messages = match params.search.as_deref() {
        None => {
            let limit = u64::from(params.limit.unwrap_or(MESSAGES_MAX));
            let last = to.min(from.saturating_add(limit - 1));
            let mut said = workspace.said(&thread, from, last).await?;
            // What the limit leaves out is asked for as well.
            let more = (last < to.min(said.total)).then(|| last + 1);
            said.next = said.next.or(more);
            said
        }
        Some(words) if words.trim().is_empty() => return Err(invalid_value_problem("search", words, "a text")),
        Some(words) => {
            let most = params.limit.and_then(|limit| usize::try_from(limit).ok());
            let most = most.map_or(FOUND_MAX, |limit| limit.min(FOUND_MAX));
            workspace.search_said(&thread, words, (from, to), most).await?
        }
    };
    let said = SaidShape::of(messages, as_of);
    Ok(Answer::of(if params.messages == Some(false) {
        said.once()
    } else {
        said
    }))
}

/// Parses a range such as `10:20`, `10:` or `10`.
fn lines(name: &str, text: &str) -> Result<(u64, u64), Problem> {
    match Part::lines(text) {
        Some(Part::Lines { from, to }) => Ok((from, to)),
        _ => Err(invalid_value_problem(name, text, "a range such as 10:20, 10: or 10")),
    }
}

/// A tool's result, and the number of tokens that it may take in a prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Large {
    /// The result: a text, or any other JSON value.
    #[serde(alias = "tool_result", alias = "content")]
    result: Value,
    /// The limit in tokens of the result, or of the preview that replaces it.
    #[serde(default = "limit_tokens", alias = "limit_tokens", alias = "token_limit")]
    limit: u32,
    /// The tool that returned the result.
    #[serde(default, alias = "tool_id")]
    tool: String,
    /// What the result is the result of; one that can be read again from its origin is never put away.
    #[serde(default)]
    of: ResultOf,
    /// The model whose tokens are counted; without it, tokens are estimated.
    #[serde(default)]
    model: Option<String>,
}

fn limit_tokens() -> u32 {
    LIMIT_TOKENS
}

async fn evict(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(large): Body<Large>,
) -> Result<Answer<EvictedShape>, Problem> {
    let text = match large.result {
        Value::String(text) => text,
        other => folio::memory::canonical::canonical(other).to_string(),
    };
    let options = Eviction {
        tool: large.tool,
        of: large.of,
        limit_tokens: large.limit,
        tokens: Arc::new(for_model(large.model.as_deref().unwrap_or_default())),
    };
    caller.check_key().await?;
    let evicted = caller
        .workspace
        .evict(&caller.actor, Cursor::new(text.into_bytes()), options)
        .await?;
    let is_written = evicted.kept.is_some();
    Ok(Answer::of(EvictedShape {
        turn_warnings: caller.ended_turn_warning().filter(|_| is_written).into_iter().collect(),
        ..EvictedShape::of(evicted)
    }))
}

/// A part of a text; by default its beginning.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Passage {
    /// The first byte, counted from 0; for a search, the position at which it continues.
    from: Option<u64>,
    /// The position after the last byte.
    to: Option<u64>,
    /// A range of lines, counted from 1: `10:20`, `10:` or `10`.
    lines: Option<String>,
    /// Only the lines that contain this text, ignoring case.
    search: Option<String>,
    /// The maximum length of the returned text in bytes; 32 KiB if not given.
    #[schemars(range(min = 1, max = 16_777_216))]
    max_bytes: Option<u32>,
}

impl Fields for Passage {}

async fn blob(caller: Caller, QueryParams(params): QueryParams<Passage>) -> Result<Answer<PassageShape>, Problem> {
    // For a search, `from` is the position at which it continues.
    let is_from_to = params.to.is_some() || (params.from.is_some() && params.search.is_none());
    check_exclusive(&[
        ("lines", params.lines.is_some()),
        ("search", params.search.is_some()),
        ("from`/`to", is_from_to),
    ])?;
    let from = params.from.unwrap_or(0);
    let part = match (params.lines.as_deref(), &params.search) {
        (Some(text), _) => {
            let (from, to) = lines("lines", text)?;
            Part::Lines { from, to }
        }
        (None, Some(words)) if words.is_empty() => return Err(invalid_value_problem("search", words, "a text")),
        (None, Some(words)) => Part::Search {
            words: words.clone(),
            from,
        },
        (None, None) => {
            let to = params.to.unwrap_or(u64::MAX);
            if from > to {
                return Err(invalid_value_problem("to", &to.to_string(), "at least `from`"));
            }
            Part::Bytes { from, to }
        }
    };
    let max_bytes = usize::try_from(params.max_bytes.unwrap_or(READ_BYTES)).unwrap_or(usize::MAX);
    let read = caller
        .workspace
        .read_body(caller.name("reference"), &part, max_bytes)
        .await?;
    Ok(Answer::of(PassageShape::of(
        read,
        params.search.as_deref(),
        ReadOn::Query,
    )))
}
