//! `folio show`: everything about one run.

use clap::Args;
use folio::memory::id::{Ref, RunRef};
use folio::runner::{Watch, row_as_of};
use folio_server::run_pages::page_handles;
use folio_server::wire::HeldUpShape;

use super::Context;
use super::people::runner;
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::follow;
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
}

/// Carries out `folio show`.
pub(crate) async fn run(context: &Context<'_>, show: Show) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let row = workspace.run(show.run).await?;
    let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), row.id);
    watch.catch_up().await?;
    let row = row_as_of(watch.run(), row);
    // If no process drives the run although something is due, its clock stands at the last moment when one did.
    let now = workspace.now();
    let goes_on = row.driven || watch.run().summary().waits_at(now);
    let now = if goes_on { now } else { row.updated_at };
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
    context
        .output
        .report(&shown.with_origin(origin).limited_to(show.limit))?;
    Ok(Exit::Done)
}
