//! `folio runs`: the runs of a space.

use std::collections::hash_map::Entry;

use clap::Args;
use folio::Workspace;
use folio::engine::Run;
use folio::memory::id::{Ref, RunHandle};
use folio::runner::{Watch, row_as_of};
use folio::store::{RunQuery, RunRow};
use folio_server::run_origins::origin_handles;

use super::Context;
use super::people::is_driven;
use crate::error::{Exit, Failure};
use crate::report::list::{List, remark};
use crate::report::run::{INTERRUPTED, PAUSED, RunLine};

/// `folio runs`.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Only runs in this state: running (not ended), interrupted (no process drives them
    /// although something is due), paused, ok, partial, failed,
    /// cancelled, forgotten; repeatable, any may match
    #[arg(long)]
    status: Vec<String>,
    /// Maximum number of results
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Continue after this run, the last one of an earlier list: r3
    #[arg(long, value_name = "RUN", value_parser = run_handle)]
    cursor: Option<RunHandle>,
}

/// The state of a run, as lists show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// A status as programs read it.
    Status(&'static str),
    /// The run has something to do, and no process drives it.
    Interrupted,
    /// The run is paused.
    Paused,
}

impl Standing {
    /// All states.
    fn all() -> impl Iterator<Item = Self> {
        let [running, ended @ ..] = Run::STATUSES.map(Self::Status);
        [running, Self::Interrupted, Self::Paused].into_iter().chain(ended)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Status(status) => status,
            Self::Interrupted => INTERRUPTED,
            Self::Paused => PAUSED,
        }
    }

    /// The status in the store, which does not know whether a run is interrupted or paused.
    fn status(self) -> &'static str {
        match self {
            Self::Status(status) => status,
            Self::Interrupted | Self::Paused => Run::RUNNING,
        }
    }

    fn matches(self, run: &RunLine) -> bool {
        match self {
            Self::Status(status) => run.has_status(status),
            Self::Interrupted => run.is_interrupted(),
            Self::Paused => run.is_paused(),
        }
    }
}

/// The states called `names`. A name that no run can have is not a mistake but matches nothing (M7.2.13); a note lists
/// the existing ones.
fn standings_named(context: &Context<'_>, names: &[String]) -> Vec<Standing> {
    let mut standings = Vec::new();
    for name in names {
        if let Some(standing) = Standing::all().find(|standing| standing.as_str() == name) {
            standings.push(standing);
            continue;
        }
        let all: Vec<_> = Standing::all().map(Standing::as_str).collect();
        let all = all.join(", ");
        context.output.note(format_args!("no run can be {name:?}; use {all}"));
    }
    standings
}

fn run_handle(text: &str) -> Result<RunHandle, String> {
    text.parse().map_err(|_| "not a handle like r3".to_owned())
}

/// Each of `rows` with what lists show of it. For a run whose last event was written by an older version, this comes
/// from its journal.
async fn lines_of(workspace: &Workspace, mut rows: Vec<RunRow>) -> Result<Vec<RunLine>, Failure> {
    for row in rows.iter_mut().filter(|row| !row.has_ended()) {
        let has_driver = is_driven(workspace, row.id).await?;
        // The run may have ended by now.
        *row = workspace.run(Ref::Id(row.id)).await?;
        row.driven = has_driver && !row.has_ended();
    }
    let mut summaries = workspace.runs_so_far(&rows).await?;
    for row in &mut rows {
        if let Entry::Vacant(unknown) = summaries.entry(row.id) {
            let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), row.id);
            watch.catch_up().await?;
            unknown.insert(watch.run().summary());
            *row = row_as_of(watch.run(), row.clone());
        }
    }
    let origins = origin_handles(workspace, &rows, summaries.values()).await?;
    let line = |row: &RunRow| {
        let summary = summaries.get(&row.id).cloned().unwrap_or_default();
        let origin = summary.forked_from.and_then(|origin| origins.get(&origin).cloned());
        RunLine::of(row, summary, workspace.now()).forked_from(origin)
    };
    Ok(rows.iter().map(line).collect())
}

/// Carries out `folio runs`.
pub(crate) async fn run(context: &Context<'_>, runs: Runs) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let standings = standings_named(context, &runs.status);
    if let Some(run) = runs.cursor {
        // A forgotten run is a cursor, too.
        workspace.store().run(workspace.space(), Ref::Handle(run)).await?;
    }
    // One more than asked for, to learn whether there are more.
    let fetch_limit = runs.limit as usize + 1;
    let mut query = RunQuery {
        status: standings.iter().map(|standing| standing.status().to_owned()).collect(),
        before: runs.cursor.map(|handle| handle.0),
        limit: runs.limit + 1,
    };
    let is_match = |line: &RunLine| runs.status.is_empty() || standings.iter().any(|standing| standing.matches(line));
    let is_nothing = standings.is_empty() && !runs.status.is_empty();
    let mut lines = Vec::new();
    while !is_nothing && lines.len() < fetch_limit {
        let rows = workspace.runs(&query).await?;
        let (row_count, last) = (rows.len(), rows.last().map(|row| row.handle.0));
        lines.extend(lines_of(&workspace, rows).await?.into_iter().filter(is_match));
        if row_count < fetch_limit {
            break;
        }
        query.before = last;
    }
    let goes_on = lines.len() >= fetch_limit;
    lines.truncate(runs.limit as usize);
    let last = lines.last().map(|line| line.handle().to_owned());
    let as_of = workspace.head().await?.0;
    let mut list = List::whole(lines, as_of);
    if goes_on {
        (list.total, list.next) = (None, last);
    }
    context.output.report(&list)?;
    if let Some(remark) = remark(&list, "no run matches") {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
