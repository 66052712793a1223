//! `folio trace`: what happened, in order.

use clap::Args;
use folio::engine::Run;
use folio::memory::Seq;
use folio::memory::id::{EntryRef, RunRef, TurnRef};
use folio::store::ErrorKind;
use folio::store::workspace::TraceQuery;

use super::Context;
use super::people::runner;
use crate::arguments::{entry_ref, run_ref};
use crate::error::{Exit, Failure};
use crate::report::list::{List, remark};
use crate::report::run::path_of;
use crate::report::timeline;
use crate::report::trace::TraceLine;

/// `folio trace`. The global `--turn` restricts it to one turn, shown as a timeline.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// Only what happened in this run: r3 or run_…
    #[arg(long, value_parser = run_ref)]
    run: Option<RunRef>,
    /// Only what happened to this entry: e42 or obs_…
    #[arg(long, value_parser = entry_ref)]
    entry: Option<EntryRef>,
    /// Only what this component did: scratch_page, scratchbook, page, engine, …
    #[arg(long, value_name = "NAME")]
    component: Option<String>,
    /// Start after this commit [default: show the last lines]
    #[arg(long, value_name = "SEQ")]
    since: Option<u64>,
    /// Maximum number of lines
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Continue where an earlier list ended: with older lines or, with --since, newer ones
    #[arg(long)]
    cursor: Option<String>,
}

/// Gives each line the path of its node in `run` in place of its id, for people.
fn name_nodes(list: &mut List<TraceLine>, run: &Run) {
    for line in &mut list.items {
        let node = line.node_id.as_deref().and_then(|id| id.parse().ok());
        if let Some(view) = node.and_then(|node| run.node(node)) {
            line.node_id = Some(path_of(&view).to_owned());
        }
    }
}

/// Carries out `folio trace`.
pub(crate) async fn run(context: &Context<'_>, trace: Trace) -> Result<Exit, Failure> {
    let workspace = context.workspace_outside_turn_if_any().await?;
    // Only the flag counts: whoever works in a turn may want to see more than that turn.
    let (turn, began) = match context.settings.turn_flag {
        None => (None, None),
        Some(turn) => match (workspace.turn(turn).await, turn) {
            (Ok(known), _) => (Some(known.begun.id), Some(known.started_at)),
            // Turns may be kept elsewhere; what was done in them is shown all the same.
            (Err(error), TurnRef::Id(id)) if error.kind() == ErrorKind::NotFound => (Some(id), None),
            (Err(error), _) => return Err(error.into()),
        },
    };
    let is_start = trace.cursor.is_none();
    let query = TraceQuery {
        run: trace.run,
        turn,
        entry: trace.entry,
        component: trace.component,
        since: trace.since.map(Seq),
        limit: trace.limit as usize,
        cursor: trace.cursor,
    };
    let head = workspace.head().await?;
    let part = workspace.trace_part(query).await?;
    let mut list = TraceLine::listed(&part, is_start);
    let unsearched = (part.as_of < head).then(|| unsearched_line(part.as_of));
    if let Some(turn) = turn.filter(|_| !context.output.is_json()) {
        context
            .output
            .styled(&timeline::text(turn, began, &part.lines, context.output.style()))?;
        if let Some(remark) = remark(&list, "").filter(|remark| !remark.is_empty()) {
            context.output.note(remark);
        }
        unsearched.iter().for_each(|line| context.output.note(line));
        return Ok(Exit::Done);
    }
    if let Some(run) = trace.run.filter(|_| !context.output.is_json()) {
        let runner = runner(context).await?;
        let row = runner.row(run).await?;
        name_nodes(&mut list, &*runner.load(row.id).await?);
    }
    context.output.report(&list)?;
    if let Some(remark) = remark(&list, "no events") {
        context.output.note(remark);
    }
    unsearched.iter().for_each(|line| context.output.note(line));
    Ok(Exit::Done)
}

/// A line saying that commits after `as_of` were not searched, because the turn or the run had ended long before.
fn unsearched_line(as_of: Seq) -> String {
    format!(
        "it ended long before commit {as_of}, so nothing after that was searched; --since {as_of} shows what follows"
    )
}
