//! Threads: the view of the scratchbook, its items, the history of the conversation, and results too large for a
//! prompt.

use std::io::Cursor;
use std::sync::Arc;

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use axum::middleware;
use axum::routing::post;
use folio::memory::evict::{LIMIT_TOKENS, ResultOf};
use folio::memory::id::{EntryRef, Ref};
use folio::memory::passage::Part;
use folio::memory::scratchbook::{ItemInput, ItemPatch, ScratchItem, page_of};
use folio::memory::tokens::for_model;
use folio::memory::{Entry, EntryKind, Status, Tag};
use folio::runner::COMPACTOR_TIME;
use folio::store::workspace::{BookFilter, Eviction, Offload, ViewRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::observations::{Base, Why};
use crate::http::answer::{Answer, Made};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::describe_operation;
use crate::http::guard::{RESPONSE_TIMEOUT, declare_response_time};
use crate::http::input::{Body, MayBody, Raw, read_json, unreadable};
use crate::http::problem::Problem;
use crate::http::query::{Fields, Nothing, QueryParams, check_exclusive, invalid_value_problem};
use crate::wire::{Conversation, EvictedShape, List, PassageShape, ReadOn, SaidShape, ViewShape, Written};

/// The default number of items in a list.
const LIMIT_DEFAULT: usize = 40;
/// The default number of bytes of a text in one answer.
const READ_BYTES: u32 = 32 * 1024;
const BOOK_GROUP: &str = "scratchbook";
const LONG_GROUP: &str = "long texts";

pub(super) fn routes() -> ApiRouter<App> {
    let items = "/threads/{thread}/scratchbook/items";
    ApiRouter::new()
        .api_route(
            "/threads/{thread}/scratchbook",
            get_with(
                view,
                describe_operation(
                    "view_scratchbook",
                    BOOK_GROUP,
                    "Returns the view of a scratchbook for a model, with its receipt",
                ),
            ),
        )
        .api_route(
            items,
            get_with(
                list,
                describe_operation(
                    "list_items",
                    BOOK_GROUP,
                    "Lists the items of a scratchbook, most urgent first",
                ),
            )
            .post_with(
                add,
                describe_operation("add_item", BOOK_GROUP, "Adds a note, a todo or a task to a scratchbook"),
            ),
        )
        .api_route(
            &format!("{items}/{{item}}"),
            get_with(show, describe_operation("get_item", BOOK_GROUP, "Returns one item")).patch_with(
                update,
                describe_operation(
                    "update_item",
                    BOOK_GROUP,
                    "Updates an item; fields that are left out stay unchanged",
                ),
            ),
        )
        .api_route(
            &format!("{items}/{{item}}/complete"),
            post_with(
                complete,
                describe_operation("complete_item", BOOK_GROUP, "Marks an item as done"),
            ),
        )
        .api_route(
            &format!("{items}/{{item}}/pin"),
            post_with(pin, describe_operation("pin_item", BOOK_GROUP, "Pins an item")),
        )
        .api_route(
            &format!("{items}/{{item}}/unpin"),
            post_with(unpin, describe_operation("unpin_item", BOOK_GROUP, "Unpins an item")),
        )
        // The same operations under the shorter paths that other programs rely on.
        .route("/threads/{thread}/scratchbook/{item}/complete", post(complete))
        .route("/threads/{thread}/scratchbook/{item}/pin", post(pin))
        .route("/threads/{thread}/scratchbook/{item}/unpin", post(unpin))
}

/// Returns the routes that take or return long texts.
pub(super) fn long_routes() -> ApiRouter<App> {
    // If the model does not answer within its time, the operation continues without its answer.
    let time = middleware::from_fn_with_state(COMPACTOR_TIME + RESPONSE_TIMEOUT, declare_response_time);
    ApiRouter::new()
        .api_route(
            "/threads/{thread}/history",
            post_with(
                offload,
                describe_operation("offload", LONG_GROUP, "Offloads the older messages of a conversation"),
            )
            .layer(time)
            .get_with(
                said,
                describe_operation(
                    "read_history",
                    LONG_GROUP,
                    "Returns offloaded messages by their numbers",
                ),
            ),
        )
        .api_route(
            "/threads/{thread}/evict",
            post_with(
                evict,
                describe_operation(
                    "evict",
                    LONG_GROUP,
                    "Puts a large result away and returns a preview of it",
                ),
            ),
        )
        .api_route(
            "/blobs/{reference}",
            get_with(
                blob,
                describe_operation("read_blob", LONG_GROUP, "Returns a part of a long text"),
            ),
        )
}

/// The budget of a view.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Budget {
    /// The budget in tokens; by default that of the space's policy.
    #[schemars(range(min = 0, max = 100_000))]
    view_token_limit: Option<u32>,
    /// The maximum number of lines of one section; by default that of the space's policy.
    #[schemars(range(min = 1, max = 200))]
    max_rendered_items: Option<u32>,
    /// The size of the model's context window in tokens; a view takes a fifth of it at most.
    window: Option<u32>,
    /// The model whose tokens are counted, such as `gpt-5` or `claude-sonnet-4-5`; without it, tokens are estimated.
    model: Option<String>,
}

impl Fields for Budget {}

async fn view(caller: Caller, QueryParams(budget): QueryParams<Budget>) -> Result<Answer<ViewShape>, Problem> {
    let (workspace, thread) = (&caller.workspace, caller.thread());
    let request = ViewRequest {
        turn: caller.actor.turn.map(Ref::Id),
        view_token_limit: budget.view_token_limit,
        max_rendered_items: budget.max_rendered_items,
        window: budget.window,
        ..ViewRequest::of(thread.clone())
    };
    let tokens = for_model(budget.model.as_deref().unwrap_or_default());
    let view = workspace.view(request, &tokens).await?;
    let items = workspace.book_items(&thread, BookFilter::beside_a_view()).await?.items;
    Ok(Answer::of(ViewShape::of(&view, &items)))
}

/// A filter for items.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Filter {
    /// Only items of one of these kinds: `note`, `todo`, `task`.
    kind: Vec<String>,
    /// Only items in one of these statuses; without it, all except archived ones.
    status: Vec<String>,
    /// Only items with all of these tags.
    tags: Vec<String>,
    /// Include archived items.
    all: bool,
    /// The maximum number of items; 40 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there.
    cursor: Option<String>,
}

impl Fields for Filter {}

async fn list(caller: Caller, QueryParams(params): QueryParams<Filter>) -> Result<Answer<List<ScratchItem>>, Problem> {
    let workspace = &caller.workspace;
    let known = |name: &String| Status::ALL.into_iter().find(|status| status.as_str() == name);
    let kinds: Vec<_> = params.kind.iter().filter_map(|name| EntryKind::parse(name)).collect();
    let status: Vec<_> = params.status.iter().filter_map(known).collect();
    let tags = Tag::parse_query_tags(&params.tags);
    let is_impossible = kinds.is_empty() && !params.kind.is_empty() || status.is_empty() && !params.status.is_empty();
    let (Some(tags), false) = (tags, is_impossible) else {
        return Ok(Answer::of(List::whole(Vec::new(), workspace.head().await?.0)));
    };
    let filter = BookFilter {
        kinds,
        status: if params.all && status.is_empty() {
            Status::ALL.into()
        } else {
            status
        },
        tags,
        limit: params
            .limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(LIMIT_DEFAULT),
        cursor: params.cursor,
    };
    let items = workspace.book_items(&caller.thread(), filter).await?;
    Ok(Answer::of(List::of(&items, ScratchItem::of)))
}

async fn add(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(input): Body<ItemInput>,
) -> Result<Made<Written<ScratchItem>>, Problem> {
    let thread = caller.thread();
    let written = caller
        .workspace
        .add_item(&caller.actor, &thread, input, caller.own_key())
        .await?;
    let thread = percent_encoding::utf8_percent_encode(&thread.0, percent_encoding::NON_ALPHANUMERIC);
    let space = caller.workspace.space();
    let place = format!(
        "/v1/spaces/{space}/threads/{thread}/scratchbook/items/{}",
        written.entry.id
    );
    Ok(Made::of(shape(&caller, &written))
        .version(written.entry.version)
        .with_location(place))
}

fn shape(caller: &Caller, written: &folio::store::Written) -> Written<ScratchItem> {
    let item = ScratchItem::of(&written.entry);
    caller.with_ended_turn_warning(Written::of(item, &written.warnings, written.replayed).over(&written.conflicts))
}

/// Returns the item that the path names, if it is in the scratchbook that the path names.
async fn item_of(caller: &Caller) -> Result<Entry, Problem> {
    let item: EntryRef = caller.path_param("item")?;
    let entry = caller.workspace.entry(item).await?;
    let thread = caller.thread();
    if entry.page == page_of(caller.workspace.space(), &thread).0 {
        return Ok(entry);
    }
    let detail = format!("{} is not in the scratchbook of {thread}", entry.handle);
    Err(Problem::not_found("not_found", detail))
}

async fn show(caller: Caller, _: QueryParams<Nothing>) -> Result<Answer<ScratchItem>, Problem> {
    let entry = item_of(&caller).await?;
    Ok(Answer::of(ScratchItem::of(&entry)).version(entry.version))
}

async fn update(
    caller: Caller,
    QueryParams(base): QueryParams<Base>,
    Raw(body, _): Raw<ItemPatch>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let patch = ItemPatch::from_json(body).map_err(|error| unreadable(&error))?;
    let item = Ref::Id(item_of(&caller).await?.id);
    let guard = base.guard(&caller);
    let written = caller
        .workspace
        .update_item_under(&caller.actor, item, patch, guard)
        .await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

/// The same, but accepts an observation as well, which belongs to all threads of its space.
async fn item_or_observation(caller: &Caller) -> Result<EntryRef, Problem> {
    let entry = caller.workspace.entry(caller.path_param("item")?).await?;
    match entry.kind {
        EntryKind::Observation => Ok(Ref::Id(entry.id)),
        _ => Ok(Ref::Id(item_of(caller).await?.id)),
    }
}

async fn complete(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(input): MayBody<Why>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let item = item_or_observation(&caller).await?;
    let guard = input.guard(&caller);
    let written = caller.workspace.complete_item_under(&caller.actor, item, guard).await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

async fn pin(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(input): MayBody<Why>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let item = item_or_observation(&caller).await?;
    let guard = input.guard(&caller);
    let written = caller.workspace.pin_item_under(&caller.actor, item, guard).await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

async fn unpin(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(input): MayBody<Why>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let item = item_or_observation(&caller).await?;
    let guard = input.guard(&caller);
    let written = caller.workspace.unpin_item_under(&caller.actor, item, guard).await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
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
    /// The number of messages at the end that always stay.
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
        open_work: None,
        compactor: caller.runner.compactor(),
    };
    let offloaded = caller
        .workspace
        .offload(&caller.actor, &caller.thread(), &conversation.messages, &options)
        .await?;
    Ok(Answer::of(Conversation::of(offloaded)))
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
}

impl Fields for Range {}

async fn said(caller: Caller, QueryParams(params): QueryParams<Range>) -> Result<Answer<SaidShape>, Problem> {
    let is_from_to = params.from.or(params.to).is_some();
    check_exclusive(&[("range", params.range.is_some()), ("from`/`to", is_from_to)])?;
    let (from, to) = match params.range.as_deref() {
        None => (params.from.unwrap_or(1), params.to.unwrap_or(u64::MAX)),
        Some(text) => lines("range", text)?,
    };
    let messages = caller.workspace.said(&caller.thread(), from, to).await?;
    Ok(Answer::of(SaidShape::of(messages)))
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
    let evicted = caller
        .workspace
        .evict(&caller.actor, Cursor::new(text.into_bytes()), options)
        .await?;
    Ok(Answer::of(EvictedShape::of(evicted)))
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
