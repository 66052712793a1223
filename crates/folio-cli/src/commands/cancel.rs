//! `folio cancel`: cancels a run, or a part of it.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use folio::engine::{NodeId, Run};
use folio::memory::id::RunRef;
use folio::runner::Runner;

use super::Context;
use super::people::{note_run_ended, runner};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::report::printable;
use crate::report::run::RunLine;

/// `folio cancel`.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// Only this node: the path of its step names, such as survey/files, or its id
    #[arg(long, value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    node: Option<String>,
}

/// Carries out `folio cancel`.
pub(crate) async fn run(context: &Context<'_>, cancel: Cancel) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let row = runner.row(cancel.run).await?;
    let node = match &cancel.node {
        Some(name) => Some(node_called(&runner, &row, name).await?),
        None => None,
    };
    if row.has_ended() {
        note_run_ended(context, &row);
        let (row, run) = runner.seen(row.id).await?;
        context
            .output
            .report(&RunLine::of(&row, run.summary(), runner.workspace().now()))?;
        return Ok(Exit::Done);
    }
    if let Some(node) = node {
        note_ended(context, &runner, &row, node).await?;
    }
    runner.cancel(row.id, node, &context.actor()).await?;
    if node.is_none() && !row.driven {
        // No process drives the run, so the cancellation is carried out here. Nothing new begins in a run that is
        // being cancelled.
        runner.drive(row.id).await?;
    }
    let (row, run) = runner.seen(row.id).await?;
    context
        .output
        .report(&RunLine::of(&row, run.summary(), runner.workspace().now()))?;
    Ok(Exit::Done)
}

/// Notes that the part `node` of a run has already ended, so that the request has no effect.
pub(super) async fn note_ended(
    context: &Context<'_>,
    runner: &Runner,
    row: &folio::store::RunRow,
    node: NodeId,
) -> Result<(), Failure> {
    let run = runner.load(row.id).await?;
    if let Some(view) = run.node(node)
        && let Some(result) = view.result
    {
        let (path, status) = (printable(view.path), result.status);
        context
            .output
            .note(format_args!("{path} of {} has already ended: {status}", row.handle));
    }
    Ok(())
}

/// The node of a run called `name`, by its path or its id.
pub(super) async fn node_called(runner: &Runner, row: &folio::store::RunRow, name: &str) -> Result<NodeId, Failure> {
    node_of(&*runner.load(row.id).await?, row, name)
}

/// The same in a run that is already loaded.
pub(super) fn node_of(run: &Run, row: &folio::store::RunRow, name: &str) -> Result<NodeId, Failure> {
    run.node_named(name).map(|view| view.id).ok_or_else(|| {
        Failure::new(
            Exit::NotFound,
            "not_found",
            format!("run {} has no node {name}", row.handle),
        )
        .hint(format!(
            "`folio show {} --json` lists the paths of its nodes",
            row.handle
        ))
    })
}
