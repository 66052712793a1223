//! The limits of a run or of a part of it: everybody may read them, people may change them (E9.10).

use aide::axum::ApiRouter;
use aide::axum::routing::get_with;
use folio::Timestamp;
use folio::engine::event::NewLimits;
use folio::engine::spend::Allowance;
use folio::engine::{NodeId, Run};
use folio::store::RunRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steer::{Part, find_part};
use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::describe_operation;
use crate::http::input::{Body, body_invalid};
use crate::http::problem::Problem;
use crate::http::query::QueryParams;
use crate::wire::run::LimitShape;

const GROUP: &str = "people";

pub(super) fn routes() -> ApiRouter<App> {
    let get = describe_operation(
        "get_limits",
        GROUP,
        "Returns the limits of a run or of a part of it, and what is used",
    );
    let change = describe_operation("change_limits", GROUP, "Changes limits of a run or of a part of it");
    ApiRouter::new().api_route(
        "/runs/{run}/limits",
        get_with(limits, get).patch_with(change_limits, change),
    )
}

/// The limits of a run or of a part of it.
#[derive(Debug, Serialize, JsonSchema)]
struct LimitsShape {
    run_id: String,
    node_id: String,
    path: String,
    /// Its own limits. The limits of everything around it apply as well.
    limits: Vec<LimitShape>,
    /// The limit on the number of nodes, and how many nodes its plans have. Null for a part that sets no such limit
    /// itself.
    nodes: Option<NodesShape>,
    /// The time by which it has to end; null if it has none, and for a part that sets no such limit itself.
    deadline: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NodesShape {
    limit: u32,
    used: usize,
}

impl LimitsShape {
    fn of(row: &RunRow, run: &Run, node: NodeId, now: Timestamp) -> Self {
        let view = run.node(node);
        Self {
            run_id: row.id.to_string(),
            node_id: node.to_string(),
            path: view.map_or("", |view| view.path).to_owned(),
            limits: view
                .and_then(|view| view.purse)
                .map(LimitShape::all_of)
                .unwrap_or_default(),
            nodes: run.nodes_within(node).map(|(used, limit)| NodesShape { limit, used }),
            deadline: run.deadline_of(node, now),
        }
    }
}

/// New limits. A limit that is left out stays unchanged.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LimitsInput {
    /// Input and output tokens together.
    tokens: Option<u64>,
    /// Input tokens of models.
    tokens_in: Option<u64>,
    /// The part of the input tokens that the provider reads from its cache.
    tokens_cached: Option<u64>,
    /// Output tokens of models.
    tokens_out: Option<u64>,
    /// The cost in millionths of a US dollar.
    micro_usd: Option<u64>,
    /// The number of model calls.
    model_calls: Option<u64>,
    /// The number of tool calls.
    tool_calls: Option<u64>,
    /// Bytes of the journal and of the pages together.
    bytes: Option<u64>,
    /// The number of nodes of the whole tree, or of a part that has such a limit of its own.
    nodes: Option<u32>,
    /// The time by which the run has to end, or a part that has a time limit of its own.
    deadline: Option<Timestamp>,
}

impl From<LimitsInput> for NewLimits {
    fn from(input: LimitsInput) -> Self {
        Self {
            allowance: Allowance {
                tokens: input.tokens,
                tokens_in: input.tokens_in,
                tokens_cached: input.tokens_cached,
                tokens_out: input.tokens_out,
                micro_usd: input.micro_usd,
                model_calls: input.model_calls,
                tool_calls: input.tool_calls,
                bytes: input.bytes,
            },
            nodes: input.nodes,
            deadline: input.deadline,
            ..Self::default()
        }
    }
}

/// Returns the current limits, with what is used and set aside.
async fn limits(caller: Caller, QueryParams(part): QueryParams<Part>) -> Result<Answer<LimitsShape>, Problem> {
    let (row, run, node) = find_part(&caller, part).await?;
    Ok(Answer::of(LimitsShape::of(&row, &run, node, caller.workspace.now())))
}

/// Changes limits, never below what is used and set aside. Work that a limit had stopped and that has not returned a
/// result yet continues. Only for people.
async fn change_limits(
    caller: Caller,
    QueryParams(part): QueryParams<Part>,
    Body(input): Body<LimitsInput>,
) -> Result<Answer<LimitsShape>, Problem> {
    caller.may_steer()?;
    let (row, _, node) = find_part(&caller, part).await?;
    let part = Some(node).filter(|node| *node != NodeId::root(row.id));
    let limits = NewLimits::from(input);
    if limits == NewLimits::default() {
        return Err(body_invalid("the body names no limit"));
    }
    caller
        .runner
        .change_limits(row.id, part, |_| limits, &caller.actor)
        .await?;
    let run = caller.runner.load(row.id).await?;
    Ok(Answer::of(LimitsShape::of(&row, &run, node, caller.workspace.now())))
}
