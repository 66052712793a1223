//! `folio show`: everything about one run, or about one part of it.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use folio::Workspace;
use folio::engine::Run;
use folio::memory::id::{Ref, RunRef};
use folio::runner::{Watch, row_as_of};
use folio::store::RunRow;
use folio_server::run_pages::page_handles;
use folio_server::wire::HeldUpShape;

use super::Context;
use super::cancel::node_of;
use super::people::runner;
use crate::arguments::run_ref;
use crate::calls::Calls;
use crate::error::{Exit, Failure};
use crate::follow;
use crate::report::part::{Moment, PartInFull};
use crate::report::run_in_full::InFull;

/// `folio show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// Maximum nodes to show. A larger tree is folded: finished parts, and neighbours that are alike, become one line
    /// each [default: 1000; with --json, all nodes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: Option<u32>,
    /// Show only this node, with its result, its calls and its limits: the path of its step names, such as
    /// survey/files, or its id; run is the run itself
    #[arg(long, value_name = "NODE", conflicts_with = "limit", value_parser = NonEmptyStringValueParser::new())]
    node: Option<String>,
}

/// Carries out `folio show`.
pub(crate) async fn run(context: &Context<'_>, show: Show) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let row = workspace.run(show.run).await?;
    let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), row.id);
    let mut calls = Calls::default();
    match show.node {
        None => watch.catch_up().await?,
        Some(_) => watch.catch_up_with(|at, event| calls.take(at, event)).await?,
    }
    let row = row_as_of(watch.run(), row);
    // If no process drives the run although something is due, its clock stands at the last moment when one did.
    let now = workspace.now();
    let goes_on = row.driven || watch.run().summary().waits_at(now);
    let now = if goes_on { now } else { row.updated_at };
    if let Some(name) = &show.node {
        let moment = Moment {
            is_driven: goes_on,
            now,
        };
        return show_part(context, &workspace, (&row, watch.run()), (name, &calls), moment).await;
    }
    let held_up = runner(context).await?.held_up_now(&row).await?;
    let held_up = held_up.map(|(held_up, by)| HeldUpShape::of(held_up, &by));
    let pages = page_handles(&workspace, row.id).await?;
    let summary = follow::summary(&workspace, &row, watch.run(), held_up).await?;
    let shown = InFull::of(summary, watch.run(), &pages, goes_on, now);
    let origin = match shown.forked_from().and_then(|id| id.parse().ok()) {
        // The other run may be gone.
        Some(id) => workspace.run(Ref::Id(id)).await.ok(),
        None => None,
    };
    let origin = origin.map(|row| row.handle.to_string());
    let shown = shown.with_origin(origin).offering(context.output);
    context.output.report(&shown.limited_to(show.limit))?;
    Ok(Exit::Done)
}

/// Shows the part of `run` that is called `name`, and its `calls`.
async fn show_part(
    context: &Context<'_>,
    workspace: &Workspace,
    (row, run): (&RunRow, &Run),
    (name, calls): (&str, &Calls),
    moment: Moment,
) -> Result<Exit, Failure> {
    let node = node_of(run, row, name)?;
    let view = run.node(node).expect("a node that was found by its name");
    let pages = page_handles(workspace, row.id).await?;
    // They are filled in again rather than read, so nothing has looked for secrets in them.
    let args = run.args_of_call(node).map(|mut args| {
        workspace.clean_value(&mut args);
        args
    });
    let made = calls.of_part(run, node);
    let handle = row.handle.to_string();
    let part = PartInFull::of((run, &handle), &view, &pages, (args, made), moment);
    context.output.report(&part.repeating(context.output.options()))?;
    Ok(Exit::Done)
}
