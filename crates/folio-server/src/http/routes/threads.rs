//! Threads: the scratchbook as a model reads it, its items, what was said, and what is too large to be said.

use std::io::Cursor;
use std::sync::Arc;

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use axum::routing::post;
use folio::memory::evict::{LIMIT_TOKENS, ResultOf};
use folio::memory::id::{EntryRef, Ref};
use folio::memory::passage::Part;
use folio::memory::scratchbook::{ItemInput, ItemPatch, ScratchItem, page_of};
use folio::memory::tokens::for_model;
use folio::memory::{Entry, EntryKind, Status, Tag};
use folio::store::workspace::{BookFilter, Eviction, Offload, ViewRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::observations::{Base, Why};
use crate::http::answer::{Answer, Made};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::about;
use crate::http::input::{Body, MayBody, Raw, read_json, unreadable};
use crate::http::problem::Problem;
use crate::http::query::{Asked, Fields, Nothing, one_question, wrong};
use crate::wire::{Conversation, EvictedShape, List, PassageShape, ReadOn, SaidShape, ViewShape, Written};

/// Items that a list gives when nothing is said.
const LIMIT_DEFAULT: usize = 40;
/// Bytes of a text that one answer gives when nothing is said.
const READ_BYTES: u32 = 32 * 1024;
const BOOK: &str = "scratchbook";
const LONG: &str = "long texts";

pub(super) fn routes() -> ApiRouter<App> {
    let items = "/threads/{thread}/scratchbook/items";
    ApiRouter::new()
        .api_route(
            "/threads/{thread}/scratchbook",
            get_with(
                view,
                about(
                    "view_scratchbook",
                    BOOK,
                    "Gives the scratchbook as a model reads it, with its receipt",
                ),
            ),
        )
        .api_route(
            items,
            get_with(
                list,
                about(
                    "list_items",
                    BOOK,
                    "Lists the items of a scratchbook, most urgent first",
                ),
            )
            .post_with(add, about("add_item", BOOK, "Adds a note, a todo or a task")),
        )
        .api_route(
            &format!("{items}/{{item}}"),
            get_with(show, about("get_item", BOOK, "Gives one item")).patch_with(
                update,
                about("update_item", BOOK, "Changes an item; what is left out stays"),
            ),
        )
        .api_route(
            &format!("{items}/{{item}}/complete"),
            post_with(complete, about("complete_item", BOOK, "Marks an item as done")),
        )
        .api_route(
            &format!("{items}/{{item}}/pin"),
            post_with(pin, about("pin_item", BOOK, "Pins an item to the top")),
        )
        .api_route(
            &format!("{items}/{{item}}/unpin"),
            post_with(unpin, about("unpin_item", BOOK, "Takes the pin of an item away")),
        )
        // The same under the shorter paths that others were promised.
        .route("/threads/{thread}/scratchbook/{item}/complete", post(complete))
        .route("/threads/{thread}/scratchbook/{item}/pin", post(pin))
        .route("/threads/{thread}/scratchbook/{item}/unpin", post(unpin))
}

/// What takes and gives long texts.
pub(super) fn long_routes() -> ApiRouter<App> {
    ApiRouter::new()
        .api_route(
            "/threads/{thread}/history",
            get_with(
                said,
                about(
                    "read_history",
                    LONG,
                    "Gives messages that were put away, by their numbers",
                ),
            )
            .post_with(
                offload,
                about("offload", LONG, "Puts the older messages of a conversation away"),
            ),
        )
        .api_route(
            "/threads/{thread}/evict",
            post_with(
                evict,
                about("evict", LONG, "Gives something short that stands for a large result"),
            ),
        )
        .api_route(
            "/blobs/{reference}",
            get_with(blob, about("read_blob", LONG, "Gives a part of a long text")),
        )
}

/// How much a model can read.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Budget {
    /// Tokens that it may have; without it, as the policy of the space says.
    #[schemars(range(min = 0, max = 100_000))]
    view_token_limit: Option<u32>,
    /// Lines that one section has at most; without it, as the policy of the space says.
    #[schemars(range(min = 1, max = 200))]
    max_rendered_items: Option<u32>,
    /// Tokens of the model's window: a view has a fifth of it at most.
    window: Option<u32>,
    /// Whose tokens are counted: `gpt-5`, `claude-sonnet-4-5`; without it, they are estimated.
    model: Option<String>,
}

impl Fields for Budget {}

async fn view(caller: Caller, Asked(budget): Asked<Budget>) -> Result<Answer<ViewShape>, Problem> {
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

/// Which items.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Filter {
    /// Of one of these kinds: `note`, `todo`, `task`.
    kind: Vec<String>,
    /// In one of these statuses; without it, all but the archived.
    status: Vec<String>,
    /// With all of these tags.
    tags: Vec<String>,
    /// Archived ones, too.
    all: bool,
    /// How many at most; 40 if it is not said.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// Where to go on: `next` of the answer before.
    cursor: Option<String>,
}

impl Fields for Filter {}

async fn list(caller: Caller, Asked(asked): Asked<Filter>) -> Result<Answer<List<ScratchItem>>, Problem> {
    let workspace = &caller.workspace;
    let known = |name: &String| Status::ALL.into_iter().find(|status| status.as_str() == name);
    let kinds: Vec<_> = asked.kind.iter().filter_map(|name| EntryKind::parse(name)).collect();
    let status: Vec<_> = asked.status.iter().filter_map(known).collect();
    let tags = Tag::asked_for(&asked.tags);
    let is_impossible = kinds.is_empty() && !asked.kind.is_empty() || status.is_empty() && !asked.status.is_empty();
    let (Some(tags), false) = (tags, is_impossible) else {
        return Ok(Answer::of(List::whole(Vec::new(), workspace.head().await?.0)));
    };
    let filter = BookFilter {
        kinds,
        status: if asked.all && status.is_empty() {
            Status::ALL.into()
        } else {
            status
        },
        tags,
        limit: asked
            .limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(LIMIT_DEFAULT),
        cursor: asked.cursor,
    };
    let items = workspace.book_items(&caller.thread(), filter).await?;
    Ok(Answer::of(List::of(&items, ScratchItem::of)))
}

async fn add(
    caller: Caller,
    _: Asked<Nothing>,
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
        .at(place))
}

fn shape(caller: &Caller, written: &folio::store::Written) -> Written<ScratchItem> {
    let item = ScratchItem::of(&written.entry);
    caller.warned(Written::of(item, &written.warnings, written.replayed).over(&written.conflicts))
}

/// The item that the path names, which is in the scratchbook that it names.
async fn item_of(caller: &Caller) -> Result<Entry, Problem> {
    let item: EntryRef = caller.named("item")?;
    let entry = caller.workspace.entry(item).await?;
    let thread = caller.thread();
    if entry.page == page_of(caller.workspace.space(), &thread).0 {
        return Ok(entry);
    }
    let detail = format!("{} is not in the scratchbook of {thread}", entry.handle);
    Err(Problem::not_found("not_found", detail))
}

async fn show(caller: Caller, _: Asked<Nothing>) -> Result<Answer<ScratchItem>, Problem> {
    let entry = item_of(&caller).await?;
    Ok(Answer::of(ScratchItem::of(&entry)).version(entry.version))
}

async fn update(
    caller: Caller,
    Asked(base): Asked<Base>,
    Raw(given, _): Raw<ItemPatch>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let patch = ItemPatch::from_json(given).map_err(|error| unreadable(&error))?;
    let item = Ref::Id(item_of(&caller).await?.id);
    let guard = base.guard(&caller);
    let written = caller
        .workspace
        .update_item_under(&caller.actor, item, patch, guard)
        .await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

/// The same, or an observation, which every thread of its space has.
async fn item_or_observation(caller: &Caller) -> Result<EntryRef, Problem> {
    let entry = caller.workspace.entry(caller.named("item")?).await?;
    match entry.kind {
        EntryKind::Observation => Ok(Ref::Id(entry.id)),
        _ => Ok(Ref::Id(item_of(caller).await?.id)),
    }
}

async fn complete(
    caller: Caller,
    _: Asked<Nothing>,
    MayBody(why): MayBody<Why>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let item = item_or_observation(&caller).await?;
    let guard = why.guard(&caller);
    let written = caller.workspace.complete_item_under(&caller.actor, item, guard).await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

async fn pin(
    caller: Caller,
    _: Asked<Nothing>,
    MayBody(why): MayBody<Why>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let item = item_or_observation(&caller).await?;
    let guard = why.guard(&caller);
    let written = caller.workspace.pin_item_under(&caller.actor, item, guard).await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

async fn unpin(
    caller: Caller,
    _: Asked<Nothing>,
    MayBody(why): MayBody<Why>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let item = item_or_observation(&caller).await?;
    let guard = why.guard(&caller);
    let written = caller.workspace.unpin_item_under(&caller.actor, item, guard).await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

/// A conversation, and when its older messages are put away.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Talk {
    /// The messages, in the form of OpenAI, of Anthropic, or of both.
    messages: Value,
    /// Tokens of the window.
    #[serde(default = "window_tokens")]
    window: u32,
    /// From which share of the window on something is put away.
    #[serde(default = "share")]
    #[schemars(range(min = 0, max = 1))]
    share: f64,
    /// Messages at the end that always stay.
    #[serde(default = "keep")]
    keep: usize,
    /// Tokens of the message that stands for what was put away.
    #[serde(default = "summary_tokens")]
    summary: u32,
    /// Whether to put away whatever need not stay, however little there is.
    #[serde(default)]
    force: bool,
    /// Whose tokens are counted.
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

async fn offload(caller: Caller, _: Asked<Nothing>, Raw(given, _): Raw<Talk>) -> Result<Answer<Conversation>, Problem> {
    // A bare list is the messages.
    let talk: Talk = match given {
        Value::Array(_) => read_json(serde_json::json!({ "messages": given }).to_string().as_bytes())?,
        given => read_json(given.to_string().as_bytes())?,
    };
    let how = Offload {
        window_tokens: talk.window,
        share: talk.share,
        keep_last: talk.keep,
        summary_tokens: talk.summary,
        force: talk.force,
        tokens: Arc::new(for_model(talk.model.as_deref().unwrap_or_default())),
        open_work: None,
        compactor: caller.runner.compactor(),
    };
    let offloaded = caller
        .workspace
        .offload(&caller.actor, &caller.thread(), &talk.messages, &how)
        .await?;
    Ok(Answer::of(Conversation::of(offloaded)))
}

/// Which messages, by their numbers, counted from 1.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Range {
    /// The first; 1 if it is not said.
    from: Option<u64>,
    /// The last; without it, to the end.
    to: Option<u64>,
    /// Both at once: `10:20`, `10:` or `10`.
    range: Option<String>,
}

impl Fields for Range {}

async fn said(caller: Caller, Asked(asked): Asked<Range>) -> Result<Answer<SaidShape>, Problem> {
    let is_from_to = asked.from.or(asked.to).is_some();
    one_question(&[("range", asked.range.is_some()), ("from`/`to", is_from_to)])?;
    let (from, to) = match asked.range.as_deref() {
        None => (asked.from.unwrap_or(1), asked.to.unwrap_or(u64::MAX)),
        Some(text) => lines("range", text)?,
    };
    let said = caller.workspace.said(&caller.thread(), from, to).await?;
    Ok(Answer::of(SaidShape::of(said)))
}

/// `10:20`, `10:` or `10`.
fn lines(name: &str, text: &str) -> Result<(u64, u64), Problem> {
    match Part::lines(text) {
        Some(Part::Lines { from, to }) => Ok((from, to)),
        _ => Err(wrong(name, text, "as 10:20, 10: or 10")),
    }
}

/// A result, and what it may cost.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Large {
    /// The result: a text, or anything as JSON.
    #[serde(alias = "tool_result", alias = "content")]
    result: Value,
    /// Tokens that the result, or what stands for it, may cost.
    #[serde(default = "limit_tokens", alias = "limit_tokens", alias = "token_limit")]
    limit: u32,
    /// Which tool gave it.
    #[serde(default, alias = "tool_id")]
    tool: String,
    /// What it is of; what can be read again where it came from is never put away.
    #[serde(default)]
    of: ResultOf,
    /// Whose tokens are counted.
    #[serde(default)]
    model: Option<String>,
}

fn limit_tokens() -> u32 {
    LIMIT_TOKENS
}

async fn evict(caller: Caller, _: Asked<Nothing>, Body(large): Body<Large>) -> Result<Answer<EvictedShape>, Problem> {
    let text = match large.result {
        Value::String(text) => text,
        other => folio::memory::canonical::canonical(other).to_string(),
    };
    let how = Eviction {
        tool: large.tool,
        of: large.of,
        limit_tokens: large.limit,
        tokens: Arc::new(for_model(large.model.as_deref().unwrap_or_default())),
    };
    let evicted = caller
        .workspace
        .evict(&caller.actor, Cursor::new(text.into_bytes()), how)
        .await?;
    Ok(Answer::of(EvictedShape::of(evicted)))
}

/// Which part of a text; its beginning if nothing is said.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Passage {
    /// The first byte, counted from 0; of a search where it goes on.
    from: Option<u64>,
    /// The byte to stop before.
    to: Option<u64>,
    /// Lines, counted from 1: `10:20`, `10:` or `10`.
    lines: Option<String>,
    /// The lines that hold this text, whatever its capital letters.
    search: Option<String>,
    /// How much text at most, in bytes; 32 KiB if it is not said.
    #[schemars(range(min = 1, max = 16_777_216))]
    max_bytes: Option<u32>,
}

impl Fields for Passage {}

async fn blob(caller: Caller, Asked(asked): Asked<Passage>) -> Result<Answer<PassageShape>, Problem> {
    // A search goes on at `from`.
    let is_from_to = asked.to.is_some() || (asked.from.is_some() && asked.search.is_none());
    one_question(&[
        ("lines", asked.lines.is_some()),
        ("search", asked.search.is_some()),
        ("from`/`to", is_from_to),
    ])?;
    let from = asked.from.unwrap_or(0);
    let part = match (asked.lines.as_deref(), &asked.search) {
        (Some(text), _) => {
            let (from, to) = lines("lines", text)?;
            Part::Lines { from, to }
        }
        (None, Some(words)) if words.is_empty() => return Err(wrong("search", words, "a text")),
        (None, Some(words)) => Part::Search {
            words: words.clone(),
            from,
        },
        (None, None) => {
            let to = asked.to.unwrap_or(u64::MAX);
            if from > to {
                return Err(wrong("to", &to.to_string(), "no less than `from`"));
            }
            Part::Bytes { from, to }
        }
    };
    let max_bytes = usize::try_from(asked.max_bytes.unwrap_or(READ_BYTES)).unwrap_or(usize::MAX);
    let read = caller
        .workspace
        .read_body(caller.name("reference"), &part, max_bytes)
        .await?;
    Ok(Answer::of(PassageShape::of(
        read,
        asked.search.as_deref(),
        ReadOn::Query,
    )))
}
