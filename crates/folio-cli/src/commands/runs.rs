//! `folio runs`: the runs of a space.

use clap::Args;
use folio::Workspace;
use folio::engine::Run;
use folio::memory::id::{Ref, RunHandle};
use folio::runner::{Watch, row_as_of};
use folio::store::{RunQuery, RunRow};

use super::Context;
use super::people::is_driven;
use crate::error::{Exit, Failure};
use crate::report::list::{List, remark};
use crate::report::run::RunLine;

/// `folio runs`.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Only in this status: running, ok, partial, failed, cancelled; several mean any of them
    #[arg(long)]
    status: Vec<String>,
    /// How many at most
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Go on after the run that an earlier answer ended with: r3
    #[arg(long, value_name = "RUN", value_parser = run_handle)]
    cursor: Option<RunHandle>,
}

fn run_handle(text: &str) -> Result<RunHandle, String> {
    text.parse().map_err(|_| "no handle of a run, as r3 is".to_owned())
}

/// Each of `rows` with what lists tell of it. Of a run whose last event an older version wrote, its journal does.
async fn lines_of(workspace: &Workspace, mut rows: Vec<RunRow>) -> Result<Vec<RunLine>, Failure> {
    for row in rows.iter_mut().filter(|row| !row.has_ended()) {
        let driven = is_driven(workspace, row.id).await?;
        // It may have ended by now.
        *row = workspace.run(Ref::Id(row.id)).await?;
        row.driven = driven && !row.has_ended();
    }
    let told = workspace.runs_so_far(&rows).await?;
    let mut lines = Vec::new();
    for row in rows {
        if let Some(so_far) = told.get(&row.id) {
            lines.push(RunLine::of(&row, *so_far));
            continue;
        }
        let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), row.id);
        watch.catch_up().await?;
        lines.push(RunLine::of(&row_as_of(watch.run(), row), watch.run().so_far()));
    }
    Ok(lines)
}

/// Carries out `folio runs`.
pub(crate) async fn run(context: &Context<'_>, runs: Runs) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    for name in runs
        .status
        .iter()
        .filter(|name| !Run::STATUSES.contains(&name.as_str()))
    {
        let note = format_args!("no run can be {name:?}");
        context.output.note(note);
    }
    let query = RunQuery {
        status: runs.status,
        before: runs.cursor.map(|handle| handle.0),
        // One more, so that it is known whether there are more.
        limit: runs.limit + 1,
    };
    let mut rows = workspace.runs(&query).await?;
    let goes_on = rows.len() > runs.limit as usize;
    rows.truncate(runs.limit as usize);
    let last = rows.last().map(|row| row.handle.to_string());
    let as_of = workspace.head().await?.0;
    let mut list = List::whole(lines_of(&workspace, rows).await?, as_of);
    if goes_on {
        (list.total, list.next) = (None, last);
    }
    context.output.report(&list)?;
    if let Some(remark) = remark(&list, "no run matches") {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
