//! A run, or a part of it, that somebody wants something of.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use folio::engine::NodeId;
use folio::memory::RunId;
use folio::store::RunRow;
use serde::Deserialize;

use super::runs::{full, read_body};
use crate::http::app::App;
use crate::http::problem::Problem;
use crate::http::query::{Asked, Named};
use crate::http::wire::run::RunInFull;

/// What is answered to a request that is durable, and that whoever drives the run acts on.
pub(super) type Accepted = (StatusCode, Json<RunInFull>);

/// The run that the path names, and the part of it that the body names.
#[derive(Debug)]
pub(super) struct PartOfRun {
    space: String,
    name: String,
    pub(super) run: RunId,
    /// Only this node and what is below it; the whole run if none.
    pub(super) node: Option<NodeId>,
}

/// What the body may say.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PartInput {
    node: Option<String>,
}

impl FromRequest<App> for PartOfRun {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let Named((space, name)) = Named::<(String, String)>::from_request_parts(&mut parts, app).await?;
        Asked::from_request_parts(&mut parts, app).await?.check(&[])?;
        let headers = parts.headers.clone();
        let body = Bytes::from_request(Request::from_parts(parts, body), app).await;
        let input: PartInput = read_body(&headers, body)?;
        let row = app.run_row(&space, &name).await?;
        let node = node_named(app, &row, input.node).await?;
        Ok(Self {
            space,
            name,
            run: row.id,
            node,
        })
    }
}

impl PartOfRun {
    /// The run as it is now that the request is durable.
    pub(super) async fn accepted(&self, app: &App) -> Result<Accepted, Problem> {
        Ok((StatusCode::ACCEPTED, Json(full(app, &self.space, &self.name).await?)))
    }
}

/// The node of a run that a body names; none if it names none.
async fn node_named(app: &App, row: &RunRow, name: Option<String>) -> Result<Option<NodeId>, Problem> {
    let Some(text) = name else { return Ok(None) };
    let wrong = |error| {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "body_invalid",
            format!("node: {error}"),
        )
    };
    let node: NodeId = text.parse().map_err(wrong)?;
    let run = app.runner.load(row.id).await?;
    let missing = || Problem::not_found("not_found", format!("{} has no node {node}", row.handle));
    run.node(node).ok_or_else(missing)?;
    Ok(Some(node))
}
