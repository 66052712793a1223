//! A run or a part of it, as the target of an operation.

use aide::OperationInput;
use aide::generate::GenContext;
use aide::openapi::Operation;
use axum::extract::{FromRequest, FromRequestParts as _, Request};
use folio::engine::NodeId;
use folio::store::RunRow;
use schemars::JsonSchema;
use serde::Deserialize;

use super::runs::{self, load_run_in_full};
use crate::http::answer::Accepted;
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::input::MayBody;
use crate::http::problem::Problem;
use crate::http::query::{Nothing, QueryParams};
use crate::wire::run::RunInFull;

/// The run that the path names, and the part of it that the body names.
#[derive(Debug)]
pub(super) struct PartOfRun {
    pub(super) caller: Caller,
    pub(super) row: RunRow,
    /// The node whose subtree is meant; `None` for the whole run.
    pub(super) node: Option<NodeId>,
}

/// The part of a run to which an operation applies.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct PartInput {
    /// The path or id of a node: only this node and everything below it; without it, the whole run.
    node: Option<String>,
}

impl FromRequest<App> for PartOfRun {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, app).await?;
        QueryParams::<Nothing>::from_request_parts(&mut parts, app).await?;
        let MayBody(input) = MayBody::<PartInput>::from_request(Request::from_parts(parts, body), app).await?;
        caller.may_steer()?;
        let row = caller.run_row().await?;
        let node = node_named(&caller, &row, input.node).await?;
        Ok(Self { caller, row, node })
    }
}

impl OperationInput for PartOfRun {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        MayBody::<PartInput>::operation_input(context, operation);
    }
}

impl PartOfRun {
    /// Returns the current run, now that the request is durable.
    pub(super) async fn accepted(&self) -> Result<Accepted<RunInFull>, Problem> {
        load_run_in_full(&self.caller, &self.row).await.map(Accepted::of)
    }
}

/// Returns the node of a run that `name` names; `None` without a name.
async fn node_named(caller: &Caller, row: &RunRow, name: Option<String>) -> Result<Option<NodeId>, Problem> {
    let Some(text) = name else { return Ok(None) };
    let run = caller.runner.load(row.id).await?;
    Ok(Some(runs::node_named(row, &run, &text)?.id))
}
