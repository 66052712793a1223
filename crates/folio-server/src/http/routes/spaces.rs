//! The spaces that the caller can open, and the caller's role there.

use aide::axum::ApiRouter;
use aide::axum::routing::get_with;
use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::access::Permit;
use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::describe::describe_operation;
use crate::http::problem::Problem;
use crate::http::query::{Nothing, QueryParams};
use crate::wire::List;

pub(super) fn routes() -> ApiRouter<App> {
    ApiRouter::new().api_route(
        "/v1/spaces",
        get_with(
            spaces,
            describe_operation(
                "list_spaces",
                "memory",
                "Lists the spaces that the caller can open, with the caller's role there",
            ),
        ),
    )
}

/// A space, with the caller's role and name.
#[derive(Debug, Serialize, JsonSchema)]
struct SpaceShape {
    space: String,
    /// The caller's role there: `human`, `client`, `tool`, ….
    role: String,
    /// The caller's name; empty if there is none.
    name: String,
}

/// Returns the one space that the caller may use.
async fn spaces(
    State(app): State<App>,
    Extension(permit): Extension<Permit>,
    _: QueryParams<Nothing>,
) -> Result<Answer<List<SpaceShape>>, Problem> {
    let runner = app.runner_for(&permit)?;
    let workspace = runner.workspace();
    let as_of = workspace.head().await?.0;
    let own_space = SpaceShape {
        space: workspace.space().to_string(),
        role: permit.actor.role.to_string(),
        name: permit.actor.name,
    };
    Ok(Answer::of(List::whole(vec![own_space], as_of)))
}
