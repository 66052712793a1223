//! Pages: the list, one of them as JSON or markdown, what is on it, and what it contains.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use folio::memory::id::PageRef;
use folio::memory::{EntryQuery, Order, PageHandle, PageQuery, PageRole};

use crate::http::app::App;
use crate::http::problem::Problem;
use crate::http::query::{Asked, Named, wrong};
use crate::http::wire::list::List;
use crate::http::wire::page::{EntryShape, PageShape};

/// Pages and entries that a list gives when nothing is said.
const LIMIT_DEFAULT: u32 = 100;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/pages", get(list))
        .route("/pages/{page}", get(show))
        .route("/pages/{page}/entries", get(entries))
        .route("/pages/{page}/children", get(children))
}

/// `?run=&role=&limit=&cursor=`: in the order in which they were added.
async fn list(
    State(app): State<App>,
    Named(space): Named<String>,
    asked: Asked,
) -> Result<Json<List<PageShape>>, Problem> {
    let workspace = app.workspace_of(&space)?;
    let asked = asked.check(&["run", "role", "limit", "cursor"])?;
    let names: Vec<&str> = PageRole::ALL.iter().map(|role| role.as_str()).collect();
    let limit = asked.limit(LIMIT_DEFAULT)?;
    let run = match asked.one("run")? {
        Some(name) => Some(app.run_row(&space, name).await?.id),
        None => None,
    };
    let after = asked.parsed::<PageHandle>("cursor", "what `next` of an earlier answer was")?;
    let query = PageQuery {
        roles: asked.many_of("role", &format!("one of {}", names.join(", ")), PageRole::parse)?,
        run,
        after: after.map(|handle| handle.0),
        limit,
        ..PageQuery::default()
    };
    let as_of = workspace.head().await?.0;
    let mut pages = workspace.pages(&query).await?;
    // The store gives 1,000 at most, so whether there are more is a question of its own.
    if let Some(last) = pages.last().filter(|_| pages.len() == limit as usize) {
        let more = PageQuery {
            after: Some(last.handle.0),
            limit: 1,
            ..query
        };
        pages.extend(workspace.pages(&more).await?);
    }
    let items = pages.iter().map(PageShape::of).collect();
    Ok(Json(List::part(items, limit, as_of, |page| page.handle().to_owned())))
}

/// The page; as markdown if its name ends in `.md`.
async fn show(
    State(app): State<App>,
    Named((space, name)): Named<(String, String)>,
    asked: Asked,
) -> Result<Response, Problem> {
    let workspace = app.workspace_of(&space)?;
    asked.check(&[])?;
    if let Some(name) = name.strip_suffix(".md") {
        let markdown = workspace.page_markdown(name.parse()?).await?;
        return Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], markdown).into_response());
    }
    let page = workspace.page(name.parse()?).await?;
    Ok(Json(PageShape::of(&page)).into_response())
}

/// `?limit=&cursor=`: oldest first; `?tail=N`: the last N, oldest of them first.
async fn entries(
    State(app): State<App>,
    Named((space, name)): Named<(String, String)>,
    asked: Asked,
) -> Result<Json<List<EntryShape>>, Problem> {
    let workspace = app.workspace_of(&space)?;
    let asked = asked.check(&["tail", "limit", "cursor"])?;
    let page: PageRef = name.parse()?;
    let tail: Option<u32> = asked.parsed("tail", "a number from 1 to 1000")?;
    if let Some(n) = tail {
        if !(1..=folio::memory::query::MAX_LIMIT).contains(&n) {
            return Err(wrong("tail", &n.to_string(), "a number from 1 to 1000"));
        }
        if asked.one("limit")?.or(asked.one("cursor")?).is_some() {
            return Err(Problem::invalid(
                "query_invalid",
                "`tail` cannot be combined with `limit` or `cursor`",
            ));
        }
    }
    let query = EntryQuery {
        page: Some(workspace.page(page).await?.id),
        include_expired: true,
        include_superseded: true,
        order: if tail.is_some() { Order::Newest } else { Order::Oldest },
        limit: tail.map_or_else(|| asked.limit(LIMIT_DEFAULT), Ok)?,
        cursor: asked.one("cursor")?.map(str::to_owned),
        ..EntryQuery::default()
    };
    let mut answer = workspace.entries(&query).await?;
    if tail.is_some() {
        answer.items.reverse();
        answer.next = None;
    }
    Ok(Json(List::of(&answer, EntryShape::of)))
}

/// The pages that it contains, in the order in which they were added.
async fn children(
    State(app): State<App>,
    Named((space, name)): Named<(String, String)>,
    asked: Asked,
) -> Result<Json<List<PageShape>>, Problem> {
    let workspace = app.workspace_of(&space)?;
    asked.check(&[])?;
    let page = workspace.page(name.parse()?).await?;
    let as_of = workspace.head().await?.0;
    let children = workspace.children(page.id).await?;
    Ok(Json(List::whole(children.iter().map(PageShape::of).collect(), as_of)))
}
