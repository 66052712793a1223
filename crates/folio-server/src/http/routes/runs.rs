//! Runs: the list, one of them, its tree, its events, and the request to stop it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use folio::engine::{Outcome, Run, projection};
use folio::memory::id::{Ref, RunHandle};
use folio::memory::query::MAX_LIMIT;
use folio::memory::{PageHandle, PageId, PageQuery, RunId};
use folio::runner::Watch;
use folio::store::{RunQuery, RunRow, StoreError, Workspace, WorkspaceError};
use serde::Deserialize;

use super::part::{Accepted, PartOfRun};
use crate::http::app::App;
use crate::http::problem::Problem;
use crate::http::query::{Asked, Named};
use crate::http::sse;
use crate::http::wire::list::List;
use crate::http::wire::run::{RunInFull, RunShape, TreeShape};

/// Runs that a list gives when nothing is said.
const LIMIT_DEFAULT: u32 = 100;
/// Who stops, answers or pauses over HTTP.
pub(super) const WHO: &str = "an HTTP client";

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/runs", get(list))
        .route("/runs/{run}", get(show))
        .route("/runs/{run}/tree", get(tree))
        .route("/runs/{run}/events", get(events))
        .route("/runs/{run}/cancel", post(cancel))
}

/// `?status=&limit=&cursor=`: newest first.
async fn list(
    State(app): State<App>,
    Named(space): Named<String>,
    asked: Asked,
) -> Result<Json<List<RunShape>>, Problem> {
    let workspace = app.workspace_of(&space)?;
    let asked = asked.check(&["status", "limit", "cursor"])?;
    let wanted = "running, ok, partial, skipped, cancelled or failed";
    let ends = [
        Outcome::Ok,
        Outcome::Partial,
        Outcome::Skipped,
        Outcome::Cancelled,
        Outcome::Failed,
    ];
    let is_status = |name: &str| name == "running" || ends.iter().any(|outcome| outcome.as_str() == name);
    let status = asked.many_of("status", wanted, |name| is_status(name).then(|| name.to_owned()))?;
    let limit = asked.limit(LIMIT_DEFAULT)?;
    let before = asked.parsed::<RunHandle>("cursor", "what `next` of an earlier answer was")?;
    let as_of = workspace.head().await?.0;
    let query = RunQuery {
        status,
        before: before.map(|handle| handle.0),
        limit: limit + 1,
    };
    let rows = workspace.runs(&query).await?;
    let items = rows.iter().map(RunShape::of).collect();
    Ok(Json(List::part(items, limit, as_of, |run| run.handle().to_owned())))
}

/// The run with its result, counts and pages.
async fn show(
    State(app): State<App>,
    Named((space, name)): Named<(String, String)>,
    asked: Asked,
) -> Result<Json<RunInFull>, Problem> {
    asked.check(&[])?;
    full(&app, &space, &name).await.map(Json)
}

pub(super) async fn full(app: &App, space: &str, name: &str) -> Result<RunInFull, Problem> {
    let row = app.run_row(space, name).await?;
    let run = app.runner.load(row.id).await?;
    in_full(app.runner.workspace(), &row, &run).await
}

/// `run` with its row, its counts and its pages.
pub(crate) async fn in_full(workspace: &Workspace, row: &RunRow, run: &Run) -> Result<RunInFull, Problem> {
    let pages = main_pages(workspace, row.id).await?;
    Ok(RunInFull::of(row, run, pages))
}

/// The handles of the pages that a run has besides its branches.
async fn main_pages(workspace: &Workspace, run: RunId) -> Result<BTreeMap<&'static str, String>, Problem> {
    let mut pages = BTreeMap::new();
    let wanted = [
        ("workspace", projection::workspace_page(run)),
        ("main", projection::main_page(run)),
        ("plan", projection::plan_page(run)),
        ("summary", projection::summary_page(run)),
        ("report", projection::report_page(run)),
    ];
    for (name, id) in wanted {
        match workspace.page(Ref::Id(id)).await {
            Ok(page) => drop(pages.insert(name, page.handle.to_string())),
            Err(WorkspaceError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(pages)
}

/// Every node, and the event that the live stream goes on after.
async fn tree(
    State(app): State<App>,
    Named((space, name)): Named<(String, String)>,
    asked: Asked,
) -> Result<Json<TreeShape>, Problem> {
    asked.check(&[])?;
    let row = app.run_row(&space, &name).await?;
    let mut watch = watch_of(&app, &row);
    let events = watch.read().await?.len() as u64;
    let pages = handles_of(app.runner.workspace(), row.id).await?;
    Ok(Json(TreeShape::of(&row, watch.run(), events, &pages)))
}

/// The handles of all pages of a run.
async fn handles_of(workspace: &Workspace, run: RunId) -> Result<HashMap<PageId, PageHandle>, Problem> {
    let mut handles = HashMap::new();
    let mut query = PageQuery {
        run: Some(run),
        limit: MAX_LIMIT,
        ..PageQuery::default()
    };
    loop {
        let pages = workspace.pages(&query).await?;
        handles.extend(pages.iter().map(|page| (page.id, page.handle)));
        match pages.last() {
            Some(last) if pages.len() >= MAX_LIMIT as usize => query.after = Some(last.handle.0),
            _ => return Ok(handles),
        }
    }
}

/// What happens, from the event after the header `Last-Event-ID` or, where no header can be set, `?after=`.
async fn events(
    State(app): State<App>,
    Named((space, name)): Named<(String, String)>,
    asked: Asked,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let asked = asked.check(&["after"])?;
    let row = app.run_row(&space, &name).await?;
    let after = match headers.get("last-event-id") {
        Some(id) => id.to_str().ok().and_then(|id| id.parse().ok()).ok_or_else(|| {
            let detail = format!("the header Last-Event-ID is {id:?}, which is not the id of an event");
            Problem::invalid("last_event_id_invalid", detail).hint("ids of events are 1, 2, 3 …; 0 is before the first")
        })?,
        None => asked.parsed("after", "the id of an event")?.unwrap_or(0),
    };
    Ok(sse::stream(watch_of(&app, &row), after, app.stopping.clone()))
}

fn watch_of(app: &App, row: &RunRow) -> Watch {
    let workspace = app.runner.workspace();
    Watch::new(Arc::clone(workspace.store()), workspace.space().clone(), row.id)
}

/// Asks for the run, or a part of it, to be stopped.
async fn cancel(State(app): State<App>, part: PartOfRun) -> Result<Accepted, Problem> {
    app.runner.cancel(part.run, part.node, WHO).await?;
    part.accepted(&app).await
}

/// Reads a body of JSON; one that is empty says nothing.
pub(super) fn read_body<T: Default + for<'de> Deserialize<'de>>(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<T, Problem> {
    let body = body.map_err(|error| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(error.status(), "body_too_large", error.body_text()),
        status => Problem::new(status, "body_invalid", error.body_text()),
    })?;
    if body.is_empty() {
        return Ok(T::default());
    }
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let detail = format!("the body is said to be {kind:?}");
        return Err(
            Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "body_not_json", detail).hint("send application/json"),
        );
    }
    serde_json::from_slice(&body).map_err(|error| {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "body_invalid",
            format!("the body cannot be read: {error}"),
        )
    })
}
