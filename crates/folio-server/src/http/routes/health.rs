//! Health of the server: whether it is alive, whether it is ready, and its metrics.

use std::time::Duration;

use aide::axum::ApiRouter;
use aide::axum::routing::get_with;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use folio::Workspace;
use folio::memory::{RunId, Seq};
use folio::store::RunQuery;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::access::{HEALTH_PATH, Permit};
use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::describe::{describe_media_type, describe_operation};
use crate::http::metrics;
use crate::http::problem::Problem;

const GROUP: &str = "health";
/// How long the store may take to answer before it counts as unavailable.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn routes() -> ApiRouter<App> {
    ApiRouter::new()
        .api_route(
            HEALTH_PATH,
            get_with(
                alive,
                describe_operation("healthz", GROUP, "Checks whether the process is alive"),
            ),
        )
        .api_route(
            "/metrics",
            get_with(
                show_metrics,
                describe_media_type(
                    describe_operation("metrics", GROUP, "Returns metrics in the format of Prometheus"),
                    METRICS,
                ),
            ),
        )
        .api_route(
            "/readyz",
            get_with(
                ready,
                describe_operation("readyz", GROUP, "Checks whether the server and its store are ready"),
            ),
        )
}

/// The media type of the metrics.
const METRICS: &str = "application/openmetrics-text";

/// Returns the current metrics.
async fn show_metrics(
    State(app): State<App>,
    Extension(permit): Extension<Permit>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let runner = app.runner_for(&permit)?;
    let text = app.metrics.text(&runner, app.spaces.is_first(&permit.space)).await?;
    Ok(metrics::answer(text, accept.unwrap_or_default()))
}

/// The process is alive.
#[derive(Debug, Serialize, JsonSchema)]
struct Alive {
    status: &'static str,
}

/// The server is ready.
#[derive(Debug, Serialize, JsonSchema)]
struct Ready {
    status: &'static str,
    /// The space that the caller may use.
    space: String,
    /// The last commit of that space.
    head: u64,
}

/// Answers that the process is alive.
async fn alive() -> Answer<Alive> {
    Answer::of(Alive { status: "ok" })
}

/// Answers whether the store responds.
async fn ready(State(app): State<App>, Extension(permit): Extension<Permit>) -> Result<Answer<Ready>, Problem> {
    let runner = app.runner_for(&permit)?;
    let workspace = runner.workspace();
    let head = head_of(workspace).await?;
    Ok(Answer::of(Ready {
        status: "ok",
        space: workspace.space().to_string(),
        head: head.0,
    }))
}

/// Returns the last commit if the store can be read and its writer responds.
async fn head_of(workspace: &Workspace) -> Result<Seq, Problem> {
    let (store, space) = (workspace.store(), workspace.space());
    let check = async {
        let head = workspace.head().await?;
        // A list takes the path of every read; the last commit may be answered without it.
        let query = RunQuery {
            limit: 1,
            ..RunQuery::default()
        };
        store.runs(space, &query).await?;
        // A write that changes nothing, because the run does not exist, but takes the path of every write.
        let unknown_run = RunId::derived(&["readyz"]);
        store.release_run(space, unknown_run, 0).await?;
        Ok(head)
    };
    tokio::time::timeout(READY_TIMEOUT, check).await.map_err(|_| {
        let detail = format!("the store did not answer for {} seconds", READY_TIMEOUT.as_secs());
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_slow", detail)
    })?
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use folio::{Folio, SpaceName};
    use folio_testkit::{Fault, FaultyStore};

    use super::*;

    async fn ready_error_with(how: impl FnOnce(&FaultyStore)) -> String {
        let open = Folio::open("memory:").await.unwrap();
        let store = Arc::new(FaultyStore::new(Arc::clone(open.store())));
        how(&store);
        let workspace = Folio::on(store.clone()).workspace(SpaceName::main());
        if store.commits() == 0 {
            // Whatever becomes of it.
            let observation = serde_json::json!({"content": "x"});
            let observation = folio::ObservationInput::from_json(&observation).unwrap();
            let actor = folio::Actor::new(folio::Role::Human, "");
            drop(workspace.add_observation(&actor, observation, None).await);
        }
        let problem = head_of(&workspace).await.unwrap_err();
        format!("{} {}", problem.status(), problem.code())
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_fails_when_the_store_is_gone_or_stalls() {
        assert_eq!(
            ready_error_with(|store| store.fail(1, Fault::Gone)).await,
            "503 store_unavailable"
        );
        assert_eq!(ready_error_with(FaultyStore::stall_runs).await, "503 too_slow");
    }
}
