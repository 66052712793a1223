//! Runs compared: with another run, and with what is stored of them.

use aide::axum::ApiRouter;
use aide::axum::routing::get_with;
use axum::middleware;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::describe_operation;
use crate::http::guard::{LONG_RESPONSE_TIMEOUT, declare_response_time};
use crate::http::problem::Problem;
use crate::http::query::{Fields, Nothing, QueryParams, parse_cursor};
use crate::wire::diff::{DiffPart, NodePlace};
use crate::wire::{DiffShape, ReplayShape};

/// The default number of nodes of a comparison.
const NODES_DEFAULT: u32 = 1_000;
/// A part of a comparison ends with the node whose outputs bring it to so many bytes: each node may come with two outputs
/// of up to 64 KiB.
const BYTES_MAX: usize = 4 * 1024 * 1024;
const GROUP: &str = "runs";

pub(super) fn routes() -> ApiRouter<App> {
    // Both read the whole journal.
    let long_time = middleware::from_fn_with_state(LONG_RESPONSE_TIMEOUT, declare_response_time);
    ApiRouter::new()
        .api_route(
            "/runs/{run}/diff/{other}",
            get_with(
                diff,
                describe_operation(
                    "diff_runs",
                    GROUP,
                    "Compares two runs: what was done, what came out and what it cost",
                ),
            )
            .layer(long_time.clone()),
        )
        .api_route(
            "/runs/{run}/replay",
            get_with(
                replay,
                describe_operation(
                    "replay_run",
                    GROUP,
                    "Folds the journal of a run from its first event and compares the result with what is stored",
                ),
            )
            .layer(long_time),
        )
}

/// The part of a comparison.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct PartOfDiff {
    /// The maximum number of nodes that differ; 1,000 if not given. A part ends earlier if it has 4 MiB of outputs.
    #[schemars(range(min = 1, max = 10_000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there.
    cursor: Option<String>,
}

impl Fields for PartOfDiff {}

async fn diff(caller: Caller, QueryParams(params): QueryParams<PartOfDiff>) -> Result<Answer<DiffShape>, Problem> {
    let after: Option<NodePlace> = parse_cursor(params.cursor.as_deref())?;
    let limit = params.limit.unwrap_or(NODES_DEFAULT) as usize;
    let one = caller.run_row().await?;
    let other = caller.workspace.run(caller.path_param("other")?).await?;
    let (first, second) = (caller.runner.load(one.id).await?, caller.runner.load(other.id).await?);
    let now = caller.workspace.now();
    let compared = tokio::task::spawn_blocking(move || {
        let part = DiffPart {
            after: after.as_ref(),
            nodes: limit,
            bytes: BYTES_MAX,
        };
        DiffShape::of((&one, &*first), (&other, &*second), part, now)
    });
    let diff = compared.await;
    let diff = diff.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
    Ok(Answer::of(diff))
}

async fn replay(caller: Caller, _: QueryParams<Nothing>) -> Result<Answer<ReplayShape>, Problem> {
    let row = caller.run_row().await?;
    let replayed = caller.runner.replay(row.id).await?;
    Ok(Answer::of(ReplayShape::of(&row, replayed)))
}
