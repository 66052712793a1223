//! `folio runs`: the runs of a space.

use clap::Args;
use folio::Workspace;
use folio::runner::{Watch, row_as_of};
use folio::store::{RunQuery, RunRow};

use super::Context;
use super::people::is_driven;
use crate::error::{Exit, Failure};
use crate::report::list::{List, remark};
use crate::report::run::RunLine;

/// What a run can be.
const STATUSES: [&str; 5] = ["running", "ok", "partial", "failed", "cancelled"];

/// `folio runs`.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Only in this status: running, ok, partial, failed, cancelled; several mean any of them
    #[arg(long)]
    status: Vec<String>,
    /// How many at most
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// A run that goes on, as it says itself whether it is paused; one that has ended by its row.
async fn line_of(workspace: &Workspace, mut row: RunRow) -> Result<RunLine, Failure> {
    if row.status != "running" {
        return Ok(RunLine::of(&row, None));
    }
    row.driven = is_driven(workspace, row.id).await?;
    let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), row.id);
    watch.catch_up().await?;
    Ok(RunLine::of(&row_as_of(watch.run(), row), Some(watch.run())))
}

/// Carries out `folio runs`.
pub(crate) async fn run(context: &Context<'_>, runs: Runs) -> Result<Exit, Failure> {
    let workspace = context.workspace().await?;
    for name in runs.status.iter().filter(|name| !STATUSES.contains(&name.as_str())) {
        let note = format_args!("no run can be {name:?}");
        context.output.note(note);
    }
    let query = RunQuery {
        status: runs.status,
        limit: runs.limit,
        ..RunQuery::default()
    };
    let mut lines = Vec::new();
    for row in workspace.runs(&query).await? {
        lines.push(line_of(&workspace, row).await?);
    }
    let list = List::whole(lines, workspace.head().await?.0);
    context.output.report(&list)?;
    if let Some(remark) = remark(&list, "no run matches") {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
