//! The live stream of everything that is committed to a space.

use aide::axum::ApiRouter;
use aide::axum::routing::get_with;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use folio::memory::Seq;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::{describe_event_stream, describe_operation};
use crate::http::problem::Problem;
use crate::http::query::{Fields, QueryParams};
use crate::http::space_events::{self, SpaceMessage};
use crate::http::sse;

pub(super) fn routes() -> ApiRouter<App> {
    let live = describe_event_stream::<SpaceMessage>(describe_operation(
        "space_events",
        "memory",
        "Streams the commits of a space as they happen",
    ));
    ApiRouter::new().api_route("/events", get_with(events, live))
}

/// The start of the stream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct After {
    /// The last commit that the client knows; where a header can be set, use `Last-Event-ID` instead. Without either,
    /// the stream begins with the next commit.
    after: Option<u64>,
}

impl Fields for After {}

async fn events(
    caller: Caller,
    State(app): State<App>,
    QueryParams(params): QueryParams<After>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = sse::last_event(&headers)?.or(params.after);
    let head = caller.workspace.head().await?;
    // A caller that may not read the log gets the refusal now and not within the stream.
    caller.workspace.changes(Seq(u64::MAX >> 1), 1).await?;
    Ok(space_events::stream(caller.workspace, caller.permit, after, head, app.stopping).into_response())
}
