//! How people steer the plan of a run: read and edit it, fork the run, and approve or reject what waits.

use std::sync::Arc;

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use axum::extract::State;
use axum::middleware;
use folio::engine::event::{Always, PlanDifference};
use folio::engine::plan::to_markdown;
use folio::engine::run::{ForkAt, PendingApproval, RequestRef as AskedOf, plan_versions};
use folio::engine::{NodeId, Run};
use folio::runner::{Folded, ForkOptions, RunnerError, Watch};
use folio::store::RunRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::runs::{load_run_in_full, node_named};
use super::start;
use crate::http::answer::{Accepted, Answer, Made};
use crate::http::app::App;
use crate::http::caller::{Caller, IfMatch};
use crate::http::describe::{MARKDOWN, describe_operation};
use crate::http::guard::{LONG_RESPONSE_TIMEOUT, declare_response_time};
use crate::http::input::{Body, Kinds, Text, body_invalid};
use crate::http::problem::Problem;
use crate::http::query::{Fields, Nothing, QueryParams};
use crate::wire::Written;
use crate::wire::plan::PlanVersionShape;
use crate::wire::run::RunInFull;
use crate::wire::{List, StepState};

const GROUP: &str = "people";

pub(super) fn routes() -> ApiRouter<App> {
    let time = middleware::from_fn_with_state(LONG_RESPONSE_TIMEOUT, declare_response_time);
    ApiRouter::new()
        .api_route(
            "/runs/{run}/plan",
            get_with(
                plan,
                describe_operation(
                    "get_plan",
                    GROUP,
                    "Returns the current plan of a run or of a part of it",
                ),
            )
            .put_with(
                edit_plan,
                describe_operation("edit_plan", GROUP, "Replaces the plan of a run or of a part of it"),
            ),
        )
        .api_route(
            "/runs/{run}/plan/versions",
            get_with(
                versions,
                describe_operation(
                    "plan_versions",
                    GROUP,
                    "Lists all versions of the plan of a run or of a part of it",
                ),
            ),
        )
        .api_route(
            "/runs/{run}/fork",
            post_with(
                fork,
                describe_operation(
                    "fork_run",
                    GROUP,
                    "Forks a run: starts another run from a moment of this one",
                ),
            )
            .layer(time),
        )
        .api_route(
            "/approvals/{approval}",
            post_with(
                decide,
                describe_operation(
                    "decide_approval",
                    GROUP,
                    "Approves or rejects a waiting plan, call or check",
                ),
            ),
        )
}

/// The part of a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Part {
    /// The path or id of a node; without it, the whole run.
    node: Option<String>,
}

impl Fields for Part {}

/// The plan of a run or of a part of it.
#[derive(Debug, Serialize, JsonSchema)]
struct PlanShape {
    run_id: String,
    node_id: String,
    path: String,
    plan_version: u32,
    /// The steps in the plan format.
    steps: Value,
    states: Vec<StepState>,
    /// The same steps as markdown, the form for editing.
    markdown: String,
}

impl PlanShape {
    fn of(row: &RunRow, run: &Run, node: NodeId) -> Result<Self, Problem> {
        let path = run.node(node).map_or("", |view| view.path);
        let plan = run.shown_plan(node).ok_or_else(|| {
            let subject = if path.is_empty() { "the run" } else { path };
            Problem::not_found("no_plan", format!("{subject} has no plan yet"))
        })?;
        Ok(Self {
            run_id: row.id.to_string(),
            node_id: node.to_string(),
            path: path.to_owned(),
            plan_version: plan.version,
            steps: plan.steps.iter().map(|shown| json!(shown.step)).collect(),
            states: StepState::all_of(&plan.steps),
            markdown: to_markdown(&plan.steps),
        })
    }
}

/// Returns the run that the path names, and the node of it that `?node=` names by its path or id.
pub(super) async fn find_part(caller: &Caller, part: Part) -> Result<(RunRow, Folded, NodeId), Problem> {
    let row = caller.run_row().await?;
    let run = caller.runner.load(row.id).await?;
    let node = match part.node {
        None => NodeId::root(row.id),
        Some(name) => node_named(&row, &run, &name)?.id,
    };
    Ok((row, run, node))
}

/// Returns the current plan; the header `ETag` holds its version.
async fn plan(caller: Caller, QueryParams(part): QueryParams<Part>) -> Result<Answer<PlanShape>, Problem> {
    let (row, run, node) = find_part(&caller, part).await?;
    let plan = PlanShape::of(&row, &run, node)?;
    let version = plan.plan_version;
    Ok(Answer::of(plan).version(version))
}

/// Returns every version of the plan, the first one first.
async fn versions(
    caller: Caller,
    QueryParams(part): QueryParams<Part>,
) -> Result<Answer<List<PlanVersionShape>>, Problem> {
    let (row, _, node) = find_part(&caller, part).await?;
    let workspace = &caller.workspace;
    let as_of = workspace.head().await?.0;
    let mut watch = Watch::new(Arc::clone(workspace.store()), workspace.space().clone(), row.id);
    let journal = watch.read().await?;
    let versions =
        plan_versions(row.id, node, &journal).map_err(|source| RunnerError::Journal { run: row.id, source })?;
    let items = versions.into_iter().map(PlanVersionShape::of).collect();
    Ok(Answer::of(List::whole(items, as_of)))
}

/// The result of an edit: the new plan and its differences from the one before.
#[derive(Debug, Serialize, JsonSchema)]
struct EditedShape {
    #[serde(flatten)]
    plan: PlanShape,
    #[schemars(with = "Value")]
    difference: PlanDifference,
}

/// A plan as a text.
#[derive(Debug)]
struct PlanText;

impl Kinds for PlanText {
    const KINDS: &'static [&'static str] = &[
        "application/json",
        "application/yaml",
        "application/x-yaml",
        "text/yaml",
        MARKDOWN,
        "text/plain",
    ];
}

/// Replaces the plan by the body: `{"steps": […]}`, YAML, or markdown as GET returns it. `If-Match` names the version
/// that was edited; the text may name it instead, and the default is 1. Any other current version is a conflict. `*`
/// matches any version.
async fn edit_plan(
    caller: Caller,
    QueryParams(part): QueryParams<Part>,
    Text(bytes, _): Text<PlanText>,
) -> Result<Answer<EditedShape>, Problem> {
    caller.may_steer()?;
    let (row, run, node) = find_part(&caller, part).await?;
    let text = std::str::from_utf8(&bytes).map_err(|error| body_invalid(format!("the body is not a text: {error}")))?;
    let version = match caller.if_match {
        IfMatch::Any => run.shown_plan(node).map(|plan| plan.version),
        if_match => if_match.version(),
    };
    let (_, difference) = caller
        .runner
        .edit_plan(row.id, Some(node), text, version, &caller.actor)
        .await?;
    let run = caller.runner.load(row.id).await?;
    let plan = PlanShape::of(&row, &run, node)?;
    let version = plan.plan_version;
    Ok(Answer::of(EditedShape { plan, difference }).version(version))
}

/// The moment at which a fork begins: give exactly one of `at` and `before_limit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForkInput {
    /// The path or id of the node that is to be carried out again.
    #[serde(default)]
    at: Option<String>,
    /// Whether the fork begins at the moment before a limit first stopped anything.
    #[serde(default)]
    before_limit: bool,
    /// Whether the fork begins paused, so no call begins until somebody continues it.
    #[serde(default)]
    paused: bool,
}

/// Forks the run at the moment before one of its nodes began, or before a limit stopped anything. The fork is driven
/// here unless it begins paused.
async fn fork(
    caller: Caller,
    State(app): State<App>,
    _: QueryParams<Nothing>,
    Body(input): Body<ForkInput>,
) -> Result<Made<Written<RunInFull>>, Problem> {
    caller.may_steer()?;
    let row = caller.run_row().await?;
    // A key that was used for something else is refused even if the node is not there.
    caller.check_key().await?;
    let at = match &input.at {
        Some(node) if !input.before_limit => {
            let run = caller.runner.load(row.id).await?;
            ForkAt::Node(node_named(&row, &run, node)?.id)
        }
        None if input.before_limit => ForkAt::Limit,
        _ => return Err(body_invalid("set either `at` to a node or `before_limit` to true")),
    };
    let (actor, thread) = (caller.actor.clone(), caller.thread());
    let place = if input.paused {
        None
    } else {
        caller.take_run_slot(&app.driving).await?
    };
    let (keyed_runner, source) = (caller.keyed_runner(), row.id);
    let recording = Box::pin(async move {
        let options = ForkOptions {
            paused: input.paused,
            ..ForkOptions::default()
        };
        let forked = keyed_runner.fork(source, at, thread, actor, options).await?;
        Ok((forked.id, forked.replayed))
    });
    start::begin(&caller, &app, place, recording).await
}

/// An approval or a rejection.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Decision {
    approve: bool,
    /// When approving a call: which calls of the run need no further approval from now on, every call of the `tool`, or
    /// only those with the same `arguments`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    always: Option<Always>,
    /// When rejecting: the reason.
    #[serde(default)]
    reason: String,
}

/// Approves or rejects what waits under the name that `list_questions` gives:
/// `{"approve": true, "always": "tool"|"arguments"}` or `{"approve": false, "reason": …}`.
async fn decide(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(decision): Body<Decision>,
) -> Result<Accepted<RunInFull>, Problem> {
    caller.may_steer()?;
    let approval = caller.name("approval");
    let missing = || Problem::not_found("no_approval", format!("nothing waits for approval at {approval}"));
    let (name, reference) = approval.split_once('.').ok_or_else(missing)?;
    let reference: AskedOf = reference.parse().map_err(|_| missing())?;
    let row = caller.run_called(name).await?;
    let (runner, actor) = (caller.keyed_runner(), &caller.actor);
    if decision.approve {
        if decision.always.is_some()
            && let Some(PendingApproval::Plan(_) | PendingApproval::Check(_)) =
                runner.load(row.id).await?.pending_approval_at(reference.node)
        {
            return Err(body_invalid(
                "`always` applies only to calls, and no call waits there; leave it out",
            ));
        }
        runner.approve(row.id, reference, decision.always, actor).await?;
    } else {
        runner.reject(row.id, reference, &decision.reason, actor).await?;
    }
    load_run_in_full(&caller, &row).await.map(Accepted::of)
}
