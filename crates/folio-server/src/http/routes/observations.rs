//! Observations: the list, and one of them.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use folio::memory::id::EntryRef;
use folio::memory::query::DEFAULT_LIMIT;
use folio::memory::{EntryKind, EntryQuery, Status, Tag};

use crate::http::app::App;
use crate::http::problem::Problem;
use crate::http::query::{Asked, Named};
use crate::http::wire::list::List;
use crate::http::wire::observation::ObservationShape;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/observations", get(list))
        .route("/observations/{observation}", get(show))
}

/// `?type=&status=&tags=&limit=&cursor=`: newest first. Any of the types and statuses, all of the tags.
async fn list(
    State(app): State<App>,
    Named(space): Named<String>,
    asked: Asked,
) -> Result<Json<List<ObservationShape>>, Problem> {
    let workspace = app.workspace_of(&space)?;
    let asked = asked.check(&["type", "status", "tags", "limit", "cursor"])?;
    let family = EntryKind::Observation.family();
    let query = EntryQuery {
        types: asked.many("type").map(str::to_owned).collect(),
        status: asked.many_of("status", "active, pending_review, resolved or archived", |name| {
            Status::parse_in(name, family)
        })?,
        tags: asked.many_of("tags", "a tag of 1 to 64 bytes", |tag| Tag::parse(tag).ok())?,
        limit: asked.limit(DEFAULT_LIMIT)?,
        cursor: asked.one("cursor")?.map(str::to_owned),
        ..EntryQuery::default()
    };
    let now = workspace.now();
    let answer = workspace.observations(query).await?;
    Ok(Json(List::of(&answer, |entry| ObservationShape::of(entry, now))))
}

/// One, whatever state it is in.
async fn show(
    State(app): State<App>,
    Named((space, name)): Named<(String, String)>,
    asked: Asked,
) -> Result<Json<ObservationShape>, Problem> {
    let workspace = app.workspace_of(&space)?;
    asked.check(&[])?;
    let entry: EntryRef = name.parse()?;
    let entry = workspace.entry(entry).await?;
    if entry.kind != EntryKind::Observation {
        let detail = format!("{} is a {}, not an observation", entry.handle, entry.kind);
        return Err(Problem::not_found("not_found", detail).hint("it stands on a page: /pages/PAGE/entries shows it"));
    }
    Ok(Json(ObservationShape::of(&entry, workspace.now())))
}
