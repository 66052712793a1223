//! Threads: the view of the scratchbook, and its items.

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use axum::routing::post;
use folio::memory::id::{EntryRef, Ref};
use folio::memory::scratchbook::{ItemInput, ItemPatch, ScratchItem, page_of};
use folio::memory::tokens::for_model;
use folio::memory::{Entry, EntryKind, PageId, Status, Tag};
use folio::store::workspace::{BookFilter, ViewRequest};
use schemars::JsonSchema;
use serde::Deserialize;

use super::observations::{Base, Whole, Why};
use crate::http::answer::{Answer, Made};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::describe_operation;
use crate::http::input::{Body, MayBody, Raw, unreadable};
use crate::http::problem::Problem;
use crate::http::query::{Fields, Nothing, QueryParams};
use crate::wire::{List, ViewShape, Written};

/// The default number of items in a list.
const LIMIT_DEFAULT: usize = 40;
const GROUP: &str = "scratchbook";

pub(super) fn routes() -> ApiRouter<App> {
    let items = "/threads/{thread}/scratchbook/items";
    ApiRouter::new()
        .api_route(
            "/threads/{thread}/scratchbook",
            get_with(
                view,
                describe_operation(
                    "view_scratchbook",
                    GROUP,
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
                    GROUP,
                    "Lists the items of a scratchbook, most urgent first",
                ),
            )
            .post_with(
                add,
                describe_operation("add_item", GROUP, "Adds a note, a todo or a task to a scratchbook"),
            ),
        )
        .api_route(
            &format!("{items}/{{item}}"),
            get_with(show, describe_operation("get_item", GROUP, "Returns one item")).patch_with(
                update,
                describe_operation(
                    "update_item",
                    GROUP,
                    "Updates an item; fields that are left out stay unchanged",
                ),
            ),
        )
        .api_route(
            &format!("{items}/{{item}}/complete"),
            post_with(
                complete,
                describe_operation("complete_item", GROUP, "Marks an item as done"),
            ),
        )
        .api_route(
            &format!("{items}/{{item}}/pin"),
            post_with(pin, describe_operation("pin_item", GROUP, "Pins an item")),
        )
        .api_route(
            &format!("{items}/{{item}}/unpin"),
            post_with(unpin, describe_operation("unpin_item", GROUP, "Unpins an item")),
        )
        // The same operations under the shorter paths that other programs rely on.
        .route("/threads/{thread}/scratchbook/{item}/complete", post(complete))
        .route("/threads/{thread}/scratchbook/{item}/pin", post(pin))
        .route("/threads/{thread}/scratchbook/{item}/unpin", post(unpin))
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
    let kinds: Vec<_> = params.kind.iter().filter_map(|name| EntryKind::parse(name)).collect();
    let status: Vec<_> = params
        .status
        .iter()
        .flat_map(|name| Status::parse_filter(name))
        .collect();
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

pub(super) fn shape(caller: &Caller, written: &folio::store::Written) -> Written<ScratchItem> {
    let item = ScratchItem::of(&written.entry);
    caller.with_ended_turn_warning(Written::of(item, &written.warnings, written.replayed).over(&written.conflicts))
}

/// Returns the item that the path names, if it is in the scratchbook that the path names.
async fn item_of(caller: &Caller) -> Result<Entry, Problem> {
    let item: EntryRef = caller.path_param("item")?;
    let entry = caller.workspace.entry(item).await?;
    let thread = caller.thread();
    if entry.page == book_of(caller) {
        return Ok(entry);
    }
    let detail = format!("{} is not in the scratchbook of {thread}", entry.handle);
    Err(Problem::not_found("not_found", detail))
}

async fn show(caller: Caller, QueryParams(params): QueryParams<Whole>) -> Result<Answer<ScratchItem>, Problem> {
    let mut entry = item_of(&caller).await?;
    if params.whole {
        entry = caller.workspace.in_whole(entry).await?;
    }
    Ok(Answer::of(ScratchItem::of(&entry)).version(entry.version))
}

async fn update(
    caller: Caller,
    QueryParams(base): QueryParams<Base>,
    Raw(body, _): Raw<ItemPatch>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let patch = ItemPatch::from_json(body).map_err(|error| unreadable(&error))?;
    let item = item_to_change(&caller, &[]).await?;
    let guard = base.guard(&caller);
    let written = caller
        .workspace
        .update_item_under(&caller.actor, item, patch, guard)
        .await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

/// Returns which item the path names, to change it: one of the scratchbook that the path names, or an entry of one of
/// the kinds `beside`. A caller may change an item of its own that it may not read (M7.7).
pub(super) async fn item_to_change(caller: &Caller, beside: &[EntryKind]) -> Result<EntryRef, Problem> {
    let item = caller.path_param("item")?;
    match caller.workspace.entry_place(item).await {
        Ok(place) if place.page == book_of(caller) || beside.contains(&place.kind) => Ok(Ref::Id(place.id)),
        // Says why not, as far as the caller may know.
        _ => Ok(Ref::Id(item_of(caller).await?.id)),
    }
}

/// The page of the scratchbook that the path names.
fn book_of(caller: &Caller) -> PageId {
    page_of(caller.workspace.space(), &caller.thread()).0
}

/// An observation belongs to all threads of its space.
const OF_ALL_THREADS: [EntryKind; 1] = [EntryKind::Observation];

async fn complete(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(input): MayBody<Why>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let item = item_to_change(&caller, &OF_ALL_THREADS).await?;
    let guard = input.guard(&caller);
    let written = caller.workspace.complete(&caller.actor, item, guard).await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

async fn pin(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(input): MayBody<Why>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let item = item_to_change(&caller, &OF_ALL_THREADS).await?;
    let guard = input.guard(&caller);
    let written = caller.workspace.pin_item_under(&caller.actor, item, guard).await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

async fn unpin(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(input): MayBody<Why>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let item = item_to_change(&caller, &OF_ALL_THREADS).await?;
    let guard = input.guard(&caller);
    let written = caller.workspace.unpin_item_under(&caller.actor, item, guard).await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}
