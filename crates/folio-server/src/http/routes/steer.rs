//! What people do to the plan of a run: read it, change it; and their yes and no to what waits for it.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use folio::engine::event::{Always, PlanDifference};
use folio::engine::plan::{ShownStep, to_markdown};
use folio::engine::{NodeId, Run};
use folio::store::RunRow;
use folio::{Actor, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::part::Accepted;
use super::runs::{WHO, full, read_body};
use crate::http::app::App;
use crate::http::problem::Problem;
use crate::http::query::{Asked, Named};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/runs/{run}/plan", get(plan).put(edit_plan))
        .route("/runs/{run}/fork", post(fork))
        .route("/approvals/{approval}", post(decide))
}

/// The plan of a run, or of a part of it.
#[derive(Debug, Serialize)]
struct PlanShape {
    run_id: String,
    node_id: String,
    path: String,
    plan_version: u32,
    /// In the form in which plans are written.
    steps: Value,
    states: Vec<StateShape>,
    /// The same steps as people edit them.
    markdown: String,
}

#[derive(Debug, Serialize)]
struct StateShape {
    id: String,
    title: String,
    /// `waiting`, `running`, or how it ended.
    status: String,
    /// Whether an edit may change it.
    editable: bool,
}

impl PlanShape {
    fn of(row: &RunRow, run: &Run, node: NodeId) -> Result<Self, Problem> {
        let path = run.node(node).map_or("", |view| view.path);
        let plan = run.shown_plan(node).ok_or_else(|| {
            let what = if path.is_empty() { "the run" } else { path };
            Problem::not_found("no_plan", format!("{what} has no plan yet"))
        })?;
        let mut states = Vec::new();
        plan.steps.iter().for_each(|step| add_states(step, &mut states));
        Ok(Self {
            run_id: row.id.to_string(),
            node_id: node.to_string(),
            path: path.to_owned(),
            plan_version: plan.version,
            steps: plan.steps.iter().map(|shown| json!(shown.step)).collect(),
            states,
            markdown: to_markdown(&plan.steps),
        })
    }

    fn answered(self) -> Response {
        let version = format!("\"{}\"", self.plan_version);
        ([(header::ETAG, version)], Json(self)).into_response()
    }
}

fn add_states(shown: &ShownStep, states: &mut Vec<StateShape>) {
    let status = match (&shown.outcome, shown.mark) {
        (Some(outcome), _) => outcome.clone(),
        (None, ' ') => "waiting".to_owned(),
        (None, _) => "running".to_owned(),
    };
    states.push(StateShape {
        id: shown.slug.clone(),
        title: shown.title.clone(),
        status,
        editable: shown.is_open,
    });
    shown.members.iter().for_each(|member| add_states(member, states));
}

/// The run of the path and the part of it that `?node=` names by its path or its id.
async fn place(app: &App, space: &str, name: &str, asked: Asked) -> Result<(RunRow, Run, NodeId), Problem> {
    let asked = asked.check(&["node"])?;
    let row = app.run_row(space, name).await?;
    let run = app.runner.load(row.id).await?;
    let node = match asked.parsed::<String>("node", "the path or the id of a node")? {
        None => NodeId::root(row.id),
        Some(name) => {
            let by_id = name.parse::<NodeId>().ok().filter(|id| run.node(*id).is_some());
            let found = by_id.or_else(|| run.node_at(&name).map(|view| view.id));
            found.ok_or_else(|| Problem::not_found("not_found", format!("{} has no node {name}", row.handle)))?
        }
    };
    Ok((row, run, node))
}

/// `?node=`: the plan as it stands; the header `ETag` is its version.
async fn plan(
    State(app): State<App>,
    Named((space, name)): Named<(String, String)>,
    asked: Asked,
) -> Result<Response, Problem> {
    let (row, run, node) = place(&app, &space, &name, asked).await?;
    Ok(PlanShape::of(&row, &run, node)?.answered())
}

/// What became of an edit.
#[derive(Debug, Serialize)]
struct EditedShape {
    #[serde(flatten)]
    plan: PlanShape,
    difference: PlanDifference,
}

/// Makes the body the plan: `{"steps": […]}`, or YAML, or markdown as a GET gives it. `If-Match` is the version that it was made
/// of; another one is a conflict.
async fn edit_plan(
    State(app): State<App>,
    Named((space, name)): Named<(String, String)>,
    asked: Asked,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let (row, _, node) = place(&app, &space, &name, asked).await?;
    let body = body.map_err(|error| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(error.status(), "body_too_large", error.body_text()),
        status => Problem::new(status, "body_invalid", error.body_text()),
    })?;
    let text = std::str::from_utf8(&body).map_err(|error| {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "body_invalid",
            format!("the body is no text: {error}"),
        )
    })?;
    let version = version_wanted(&headers)?;
    let (_, difference) = app.runner.edit_plan(row.id, Some(node), text, version, WHO).await?;
    let run = app.runner.load(row.id).await?;
    let plan = PlanShape::of(&row, &run, node)?;
    let etag = format!("\"{}\"", plan.plan_version);
    Ok(([(header::ETAG, etag)], Json(EditedShape { plan, difference })).into_response())
}

/// Where another run is to begin.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ForkInput {
    /// The node that is to be done anew: its path or its id.
    at: Option<String>,
    /// Whether nothing of it begins before somebody says so.
    paused: bool,
}

/// Begins another run from the moment before a node of this one began. It is driven here, unless it is to be paused.
async fn fork(
    State(app): State<App>,
    Named((space, name)): Named<(String, String)>,
    asked: Asked,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Accepted, Problem> {
    asked.check(&[])?;
    let input: ForkInput = read_body(&headers, body)?;
    let row = app.run_row(&space, &name).await?;
    let run = app.runner.load(row.id).await?;
    let Some(at) = input.at else {
        let missing = "`at` is missing: the path or the id of a node";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "body_invalid", missing));
    };
    let by_id = at.parse::<NodeId>().ok().filter(|id| run.node(*id).is_some());
    let node = by_id.or_else(|| run.node_at(&at).map(|view| view.id));
    let node = node.ok_or_else(|| Problem::not_found("not_found", format!("{} has no node {at}", row.handle)))?;
    let who = Actor::new(Role::Human, WHO);
    let thread = folio::ThreadKey::main();
    let (id, _) = app.runner.fork(row.id, node, thread, who, input.paused).await?;
    if !input.paused {
        let driver = app.runner.clone();
        // Whoever asked reads how it ends from its events.
        tokio::spawn(async move { drop(driver.drive(id).await) });
    }
    Ok((StatusCode::CREATED, Json(full(&app, &space, &id.to_string()).await?)))
}

/// A yes or a no.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Decision {
    approve: Option<bool>,
    /// With a yes to a call: what of the run needs no other yes from now on.
    always: Option<Always>,
    /// With a no: why.
    reason: String,
}

/// Says yes or no to what waits for it: `{"approve": true, "always": "tool"|"arguments"}`, `{"approve": false, "reason": …}`.
async fn decide(
    State(app): State<App>,
    Named((space, approval)): Named<(String, String)>,
    asked: Asked,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Accepted, Problem> {
    asked.check(&[])?;
    let decision: Decision = read_body(&headers, body)?;
    let missing = || Problem::not_found("no_approval", format!("nothing waits for a yes at {approval}"));
    let (name, node) = approval.split_once('.').ok_or_else(missing)?;
    let node: NodeId = node.parse().map_err(|_| missing())?;
    let row = app.run_row(&space, name).await?;
    let who = Actor::new(Role::Human, WHO);
    match decision.approve {
        Some(true) => app.runner.approve(row.id, node, decision.always, &who).await?,
        Some(false) => app.runner.reject(row.id, node, &decision.reason, &who).await?,
        None => {
            let missing = "`approve` is missing: true or false";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "body_invalid", missing));
        }
    }
    Ok((StatusCode::ACCEPTED, Json(full(&app, &space, name).await?)))
}

/// The version that the header `If-Match` names; none if it is not there or is `*`.
fn version_wanted(headers: &HeaderMap) -> Result<Option<u32>, Problem> {
    let Some(value) = headers.get(header::IF_MATCH) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let version = text.trim_start_matches("W/").trim_matches('"').parse();
    version.map(Some).map_err(|_| {
        let detail = format!("the header If-Match is {value:?}, which is not the version of a plan");
        Problem::invalid("if_match_invalid", detail).hint("the header ETag of a GET, or plan_version in its answer")
    })
}
