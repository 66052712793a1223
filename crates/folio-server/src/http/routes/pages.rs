//! Pages: the list, one page as JSON or markdown, its entries, its child pages, and additions.

use aide::axum::ApiRouter;
use aide::axum::routing::get_with;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use folio::memory::id::{PageRef, Ref};
use folio::memory::query::MAX_LIMIT;
use folio::memory::tokens::for_model;
use folio::memory::{EntryQuery, Order, PageHandle, PageQuery, PageRole};
use folio::store::workspace::PageInput;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::http::answer::{Answer, Made};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::{MARKDOWN, describe_media_type, describe_operation};
use crate::http::input::{Body, body_invalid};
use crate::http::problem::Problem;
use crate::http::query::{Fields, Nothing, QueryParams, parse_cursor};
use crate::wire::{EntryShape, List, PageShape, RollupShape, Written};

/// The default number of pages or entries in a list.
const LIMIT_DEFAULT: u32 = 100;
/// The default budget of a roll-up, in tokens.
const ROLLUP_TOKENS: u32 = 800;
const GROUP: &str = "pages";

pub(super) fn routes() -> ApiRouter<App> {
    let markdown = describe_media_type(
        describe_operation("get_page", GROUP, "Returns a page, as markdown if its name ends in .md"),
        MARKDOWN,
    );
    ApiRouter::new()
        .api_route(
            "/pages",
            get_with(
                list,
                describe_operation("list_pages", GROUP, "Lists pages in the order in which they were added"),
            )
            .post_with(add, describe_operation("add_page", GROUP, "Adds a page")),
        )
        .api_route(
            "/pages/{page}",
            get_with(show, move |operation| {
                markdown(operation.response::<200, axum::Json<PageShape>>())
            }),
        )
        .api_route(
            "/pages/{page}/entries",
            get_with(
                entries,
                describe_operation("list_entries", GROUP, "Lists the entries of a page, oldest first"),
            )
            .post_with(
                append,
                describe_operation(
                    "append_entry",
                    GROUP,
                    "Appends an entry to a page; existing entries are never rewritten",
                ),
            ),
        )
        .api_route(
            "/pages/{page}/children",
            get_with(
                children,
                describe_operation("list_children", GROUP, "Lists the pages that a page contains"),
            ),
        )
        .api_route(
            "/pages/{page}/rollup",
            get_with(
                rollup,
                describe_operation(
                    "page_rollup",
                    GROUP,
                    "Returns the roll-up of the pages that a page contains",
                ),
            ),
        )
}

/// A filter for pages.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Filter {
    /// Only pages of this run: `r3` or `run_…`.
    run: Option<String>,
    /// Only pages of one of these roles: `workspace`, `scratchpad_root`, `scratchpad_exec`, `plan`, `note`, ….
    role: Vec<String>,
    /// The maximum number of pages; 100 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there.
    cursor: Option<String>,
}

impl Fields for Filter {}

async fn list(caller: Caller, QueryParams(params): QueryParams<Filter>) -> Result<Answer<List<PageShape>>, Problem> {
    let workspace = &caller.workspace;
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    let run = match &params.run {
        Some(name) => Some(caller.run_called(name).await?.id),
        None => None,
    };
    let after: Option<PageHandle> = parse_cursor(params.cursor.as_deref())?;
    // A role that does not exist matches no page (M7.2.13).
    let roles: Vec<PageRole> = params.role.iter().filter_map(|name| PageRole::parse(name)).collect();
    let is_impossible = roles.is_empty() && !params.role.is_empty();
    let query = PageQuery {
        roles,
        run,
        after: after.map(|handle| handle.0),
        ..PageQuery::default()
    };
    let as_of = workspace.head().await?.0;
    let pages = if is_impossible {
        Vec::new()
    } else {
        workspace.first_pages(query, limit as usize + 1).await?
    };
    let items = pages.iter().map(PageShape::of).collect();
    let list = List::part(items, limit, as_of, |page: &PageShape| page.handle.clone());
    Ok(Answer::of(list.from_start(after.is_none())))
}

/// A new page.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewPage {
    /// The title.
    title: String,
    /// The page that is to contain it: `p7` or `page_…`.
    #[serde(default)]
    parent: Option<String>,
    /// The page role: `note` (the default), `workspace`, `scratchpad_root`, `scratchpad_exec`, `plan` or
    /// `iteration_summary`.
    #[serde(default)]
    role: Option<String>,
    /// The tags.
    #[serde(default)]
    tags: Vec<String>,
}

async fn add(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(new): Body<NewPage>,
) -> Result<Made<Written<PageShape>>, Problem> {
    let role = match new.role.as_deref() {
        None => None,
        Some(name) => {
            let known = PageRole::parse(name).filter(|role| !role.is_standing());
            Some(
                known
                    .ok_or_else(|| body_invalid(format!("role: {name:?} is not a role of pages that can be added")))?,
            )
        }
    };
    let parent = match new.parent.as_deref() {
        None => None,
        Some(name) => Some(name.parse().map_err(|error| body_invalid(format!("parent: {error}")))?),
    };
    let input = PageInput {
        title: new.title,
        parent,
        role,
        tags: new.tags,
    };
    let added = caller
        .workspace
        .new_page_under(&caller.actor, input, caller.own_key())
        .await?;
    let page = &added.page;
    let place = format!("/v1/spaces/{}/pages/{}", caller.workspace.space(), page.id);
    let shape = caller.with_ended_turn_warning(Written::of(PageShape::of(page), &added.warnings, added.replayed));
    Ok(Made::of(shape).version(page.version).with_location(place))
}

/// Returns the page, as markdown if its name ends in `.md`.
async fn show(caller: Caller, _: QueryParams<Nothing>) -> Result<Response, Problem> {
    if let Some(name) = caller.name("page").strip_suffix(".md") {
        let page: PageRef = name.parse().map_err(page_not_found)?;
        let mut markdown = caller.workspace.page_markdown(page).await?;
        let page = caller.workspace.page(page).await?;
        markdown.push_str(&caller.runner.waiting_section(&page).await?);
        return Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], markdown).into_response());
    }
    let page = caller.workspace.page(caller.path_param("page")?).await?;
    Ok(Answer::<_>::of(PageShape::of(&page))
        .version(page.version)
        .into_response())
}

fn page_not_found(error: folio::memory::id::IdError) -> Problem {
    Problem::from(error).with_status(axum::http::StatusCode::NOT_FOUND)
}

/// A filter for the entries of a page.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Entries {
    /// Only the last N entries, the oldest of them first.
    #[schemars(range(min = 1, max = 1000))]
    tail: Option<u32>,
    /// The maximum number of entries; 100 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there.
    cursor: Option<String>,
}

impl Fields for Entries {}

async fn entries(
    caller: Caller,
    QueryParams(params): QueryParams<Entries>,
) -> Result<Answer<List<EntryShape>>, Problem> {
    let workspace = &caller.workspace;
    if params.tail.is_some() && (params.limit.is_some() || params.cursor.is_some()) {
        return Err(Problem::invalid(
            "query_invalid",
            "`tail` cannot be combined with `limit` or `cursor`",
        ));
    }
    let query = EntryQuery {
        page: Some(workspace.page(caller.path_param("page")?).await?.id),
        include_superseded: true,
        order: if params.tail.is_some() {
            Order::Newest
        } else {
            Order::Oldest
        },
        limit: params.tail.or(params.limit).unwrap_or(LIMIT_DEFAULT).min(MAX_LIMIT),
        cursor: params.cursor,
        ..EntryQuery::default()
    };
    let mut answer = workspace.entries(&query).await?;
    if params.tail.is_some() {
        answer.items.reverse();
        answer.next = None;
    }
    Ok(Answer::of(List::of(&answer, EntryShape::of)))
}

/// A new entry for a page.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewEntry {
    /// The heading above the text.
    #[serde(default)]
    title: String,
    /// The text, in markdown.
    #[serde(default, alias = "content", alias = "text")]
    body: String,
    /// The tags.
    #[serde(default)]
    tags: Vec<String>,
}

async fn append(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(new): Body<NewEntry>,
) -> Result<Made<Written<EntryShape>>, Problem> {
    let page: PageRef = caller.path_param("page")?;
    let key = caller.own_key();
    let written = caller
        .workspace
        .append(&caller.actor, page, &new.title, new.body, &new.tags, key)
        .await?;
    let place = format!("/v1/spaces/{}/pages/{page}/entries", caller.workspace.space());
    let shape = caller.with_ended_turn_warning(Written::of(
        EntryShape::of(&written.entry),
        &written.warnings,
        written.replayed,
    ));
    Ok(Made::of(shape).version(written.entry.version).with_location(place))
}

/// The part of a page's children.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ChildrenPart {
    /// The maximum number of pages; 1000 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there.
    cursor: Option<String>,
}

impl Fields for ChildrenPart {}

/// Returns the pages that a page contains, in the order in which they were added.
async fn children(
    caller: Caller,
    QueryParams(params): QueryParams<ChildrenPart>,
) -> Result<Answer<List<PageShape>>, Problem> {
    let workspace = &caller.workspace;
    let page = workspace.page(caller.path_param("page")?).await?;
    let limit = params.limit.unwrap_or(MAX_LIMIT);
    let after: Option<PageHandle> = parse_cursor(params.cursor.as_deref())?;
    let as_of = workspace.head().await?.0;
    let query = PageQuery {
        parent: Some(page.id),
        after: after.map(|handle| handle.0),
        ..PageQuery::default()
    };
    let children = workspace.first_pages(query, limit as usize + 1).await?;
    let items = children.iter().map(PageShape::of).collect();
    let list = List::part(items, limit, as_of, |page: &PageShape| page.handle.clone());
    Ok(Answer::of(list.from_start(after.is_none())))
}

/// The budget of a roll-up.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Budget {
    /// The budget in tokens; 800 if not given.
    budget: Option<u32>,
    /// The model whose tokens are counted; without it, tokens are estimated.
    model: Option<String>,
}

impl Fields for Budget {}

async fn rollup(caller: Caller, QueryParams(params): QueryParams<Budget>) -> Result<Answer<RollupShape>, Problem> {
    let page = caller.workspace.page(caller.path_param("page")?).await?;
    let tokens = for_model(params.model.as_deref().unwrap_or_default());
    let budget = params.budget.unwrap_or(ROLLUP_TOKENS);
    let rendered = caller.workspace.rollup(Ref::Id(page.id), budget, &tokens).await?;
    Ok(Answer::of(RollupShape::of(rendered)))
}
