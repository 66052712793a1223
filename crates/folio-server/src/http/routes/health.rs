//! Whether the server is there, and whether it can work.

use aide::axum::ApiRouter;
use aide::axum::routing::get_with;
use axum::extract::State;
use axum::response::Response;
use folio::memory::RunId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::describe::{about, giving};
use crate::http::metrics;
use crate::http::problem::Problem;

const GROUP: &str = "health";

pub(super) fn routes() -> ApiRouter<App> {
    ApiRouter::new()
        .api_route(
            "/healthz",
            get_with(alive, about("healthz", GROUP, "Whether the process answers")),
        )
        .api_route(
            "/metrics",
            get_with(
                counts,
                giving(
                    about("metrics", GROUP, "What is counted, as Prometheus reads it"),
                    METRICS,
                ),
            ),
        )
        .api_route(
            "/readyz",
            get_with(ready, about("readyz", GROUP, "Whether the store answers, too")),
        )
}

/// What metrics are written in.
const METRICS: &str = "application/openmetrics-text";

/// What is counted, as it is now.
async fn counts(State(app): State<App>) -> Result<Response, Problem> {
    app.metrics.text(&app.runner).await.map(metrics::answer)
}

/// That it answers.
#[derive(Debug, Serialize, JsonSchema)]
struct Alive {
    status: &'static str,
}

/// That it can work.
#[derive(Debug, Serialize, JsonSchema)]
struct Ready {
    status: &'static str,
    /// The space that is served.
    space: String,
    /// The last commit of that space.
    head: u64,
}

/// The process answers.
async fn alive() -> Answer<Alive> {
    Answer::of(Alive { status: "ok" })
}

/// The store answers, too.
async fn ready(State(app): State<App>) -> Result<Answer<Ready>, Problem> {
    let workspace = app.runner.workspace();
    let head = workspace.head().await?;
    // A write that changes nothing, for there is no such run: it goes the way of every write.
    let nothing = RunId::derived(&["readyz"]);
    workspace.store().release_run(workspace.space(), nothing, 0).await?;
    Ok(Answer::of(Ready {
        status: "ok",
        space: workspace.space().to_string(),
        head: head.0,
    }))
}
