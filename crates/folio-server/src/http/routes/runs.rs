//! Runs: the list, one run, its tree, nodes and events, and the request to cancel it.

use std::collections::HashMap;
use std::sync::Arc;

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use folio::engine::{NodeView, Run, projection};
use folio::memory::id::{Ref, RunHandle};
use folio::runner::{Runner, Watch};
use folio::store::{RunQuery, RunRow, StoreError, Workspace, WorkspaceError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::part::PartOfRun;
use super::start::start;
use crate::http::answer::{Accepted, Answer};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::{describe_event_stream, describe_operation};
use crate::http::problem::Problem;
use crate::http::query::{Fields, Nothing, QueryParams, invalid_value_problem, parse_cursor};
use crate::http::sse::{self, RunMessage};
use crate::run_origins::origin_handles;
use crate::run_pages::{main_pages, page_handles};
use crate::wire::List;
use crate::wire::run::{HeldUpShape, NodeInFull, RunInFull, RunShape, TreePart, TreeShape};

/// The default number of runs in a list.
const LIMIT_DEFAULT: u32 = 100;
/// The default number of nodes of a tree.
const TREE_NODES: u32 = 10_000;
const GROUP: &str = "runs";

pub(super) fn routes() -> ApiRouter<App> {
    let live = describe_event_stream::<RunMessage>(describe_operation(
        "run_events",
        GROUP,
        "Streams the events of a run as they happen",
    ));
    ApiRouter::new()
        .api_route(
            "/runs",
            get_with(list, describe_operation("list_runs", GROUP, "Lists runs, newest first")).post_with(
                start,
                describe_operation("start_run", GROUP, "Starts a run from a plan or a goal"),
            ),
        )
        .api_route(
            "/runs/{run}",
            get_with(
                show,
                describe_operation("get_run", GROUP, "Returns a run with its result, counts and pages"),
            ),
        )
        .api_route(
            "/runs/{run}/tree",
            get_with(
                tree,
                describe_operation("run_tree", GROUP, "Returns the tree of a run, node by node"),
            ),
        )
        .api_route(
            "/runs/{run}/nodes/{node}",
            get_with(
                node,
                describe_operation(
                    "run_node",
                    GROUP,
                    "Returns a node of a run with its result, evidence and cost",
                ),
            ),
        )
        .api_route("/runs/{run}/events", get_with(events, live))
        .api_route(
            "/runs/{run}/cancel",
            post_with(
                cancel,
                describe_operation("cancel_run", GROUP, "Cancels a run or a part of it"),
            ),
        )
}

/// A filter for runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Filter {
    /// Only runs in one of these statuses.
    #[schemars(with = "Vec<Status>")]
    status: Vec<String>,
    /// The maximum number of runs; 100 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there.
    cursor: Option<String>,
}

impl Fields for Filter {}

/// The status of a run.
// Only for the description: any other status is accepted and matches no run (M7.2.13).
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its description is used")]
enum Status {
    Running,
    Ok,
    Partial,
    Failed,
    Cancelled,
    Forgotten,
}

async fn list(caller: Caller, QueryParams(params): QueryParams<Filter>) -> Result<Answer<List<RunShape>>, Problem> {
    let workspace = &caller.workspace;
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    let before: Option<RunHandle> = parse_cursor(params.cursor.as_deref())?;
    let as_of = workspace.head().await?.0;
    let query = RunQuery {
        status: params.status,
        before: before.map(|handle| handle.0),
        limit: limit + 1,
    };
    let rows = workspace.runs(&query).await?;
    let summaries = workspace.runs_so_far(&rows).await?;
    let origins = origin_handles(workspace, &rows, summaries.values()).await?;
    let now = workspace.now();
    let shape = |row: &RunRow| {
        let summary = summaries.get(&row.id);
        let origin = summary.and_then(|summary| origins.get(&summary.forked_from?).cloned());
        RunShape::of(row, summary, now).forked_from(origin)
    };
    let items = rows.iter().map(shape).collect();
    let list = List::part(items, limit, as_of, |run: &RunShape| run.handle().to_owned());
    Ok(Answer::of(list.from_start(before.is_none())))
}

/// Returns the run with its result, counts and pages.
async fn show(caller: Caller, _: QueryParams<Nothing>) -> Result<Answer<RunInFull>, Problem> {
    let row = caller.run_row().await?;
    load_run_in_full(&caller, &row).await.map(Answer::of)
}

/// Returns the current run of `row`.
pub(super) async fn load_run_in_full(caller: &Caller, row: &RunRow) -> Result<RunInFull, Problem> {
    let (row, run) = caller.runner.seen(row.id).await?;
    render_run_in_full(&caller.runner, &caller.workspace, &row, &run).await
}

/// Returns `run` with its row, its counts, its pages, and what holds it up.
pub(crate) async fn render_run_in_full(
    runner: &Runner,
    workspace: &Workspace,
    row: &RunRow,
    run: &Run,
) -> Result<RunInFull, Problem> {
    let pages = main_pages(workspace, run).await?;
    let held_up = runner.held_up_now(row).await?;
    let held_up = held_up.map(|(held_up, by)| HeldUpShape::of(held_up, &by));
    Ok(RunInFull::of(row, run, pages, held_up, workspace.now()))
}

/// The part of a run's tree.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct PartOfTree {
    /// The maximum number of nodes; 10,000 if not given.
    #[schemars(range(min = 1, max = 100_000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there. Nodes that were added meanwhile may be missing: the
    /// events after `last_event_id` of the first answer tell them.
    cursor: Option<String>,
}

impl Fields for PartOfTree {}

/// Returns the nodes, and the event after which the live stream continues.
async fn tree(caller: Caller, QueryParams(params): QueryParams<PartOfTree>) -> Result<Answer<TreeShape>, Problem> {
    let row = caller.run_row().await?;
    let run = caller.runner.load(row.id).await?;
    let after = match params.cursor.as_deref() {
        None => None,
        Some(text) => {
            let known = run.node_named(text);
            let expected = "the value of `next` in an earlier answer about this run";
            Some(known.ok_or_else(|| invalid_value_problem("cursor", text, expected))?.id)
        }
    };
    let part = TreePart {
        last_event_id: run.events(),
        after,
        limit: params.limit.unwrap_or(TREE_NODES) as usize,
    };
    let pages = page_handles(&caller.workspace, row.id).await?;
    Ok(Answer::of(TreeShape::of(&row, &run, part, &pages)))
}

/// Returns one node, named by its path or its id.
async fn node(caller: Caller, _: QueryParams<Nothing>) -> Result<Answer<NodeInFull>, Problem> {
    let row = caller.run_row().await?;
    let run = caller.runner.load(row.id).await?;
    let name = caller.name("node");
    let view = node_named(&row, &run, name)?;
    let page = projection::branch_page(&run, view.id);
    let pages = match caller.workspace.page(Ref::Id(page)).await {
        Ok(page) => HashMap::from([(page.id, page.handle)]),
        Err(WorkspaceError::Store(StoreError::NotFound { .. })) => HashMap::new(),
        Err(error) => return Err(error.into()),
    };
    // The arguments are filled in again rather than read, so nothing has looked for secrets in them.
    let args = run.args_of_call(view.id).map(|mut args| {
        caller.workspace.clean_value(&mut args);
        args
    });
    Ok(Answer::of(NodeInFull::of(&run, &view, args, &pages)))
}

/// Returns the node of `run` whose path or id is `name`.
pub(super) fn node_named<'r>(row: &RunRow, run: &'r Run, name: &str) -> Result<NodeView<'r>, Problem> {
    run.node_named(name)
        .ok_or_else(|| Problem::not_found("not_found", format!("{} has no node {name}", row.handle)))
}

/// The start of the stream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct After {
    /// The last event that the client knows; where a header can be set, use `Last-Event-ID` instead.
    after: Option<u64>,
}

impl Fields for After {}

/// Streams the events after the one that the header `Last-Event-ID` names or, where no header can be set, `?after=`.
async fn events(
    caller: Caller,
    app: axum::extract::State<App>,
    QueryParams(params): QueryParams<After>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let row = caller.run_row().await?;
    let after = sse::last_event(&headers)?.or(params.after).unwrap_or(0);
    let feed = app.0.feeds.of(caller.workspace.space(), watch_of(&caller, &row));
    Ok(sse::stream(feed, caller.permit, (after, row.head), app.0.stopping).into_response())
}

fn watch_of(caller: &Caller, row: &RunRow) -> Watch {
    let workspace = &caller.workspace;
    Watch::new(Arc::clone(workspace.store()), workspace.space().clone(), row.id)
}

/// Requests that the run or a part of it be cancelled.
async fn cancel(part: PartOfRun) -> Result<Accepted<RunInFull>, Problem> {
    part.caller
        .keyed_runner()
        .cancel(part.row.id, part.node, &part.caller.actor)
        .await?;
    part.accepted().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_filter_accepts_exactly_the_run_statuses() {
        let asked = schemars::schema_for!(Status);
        let asked: Vec<_> = asked.get("enum").unwrap().as_array().unwrap().iter().collect();
        assert_eq!(asked, Run::STATUSES);
    }
}
