//! `folio patterns`: what was noticed repeatedly, and `folio calibration`: how reliable it is.

use clap::Args;

use super::Context;
use crate::error::{Exit, Failure};
use crate::report::list::{List, remark};
use crate::report::observation::Observation;
use crate::report::turn::ReliabilityShape;

/// `folio patterns`.
#[derive(Debug, Args)]
pub(crate) struct Patterns {
    /// Look for new patterns first, among the newest 5,000 observations; the end of a turn does that where something was
    /// noticed
    #[arg(long)]
    find: bool,
    /// Maximum number of results
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// `folio calibration`.
#[derive(Debug, Args)]
pub(crate) struct Calibration {}

/// Carries out `folio patterns`.
pub(crate) async fn run(context: &Context<'_>, patterns: Patterns) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    if patterns.find {
        workspace.find_patterns(&context.actor()).await?;
    }
    let now = workspace.now();
    let list = List::of(&workspace.patterns(patterns.limit).await?, |entry| {
        Observation::of(entry, now)
    });
    context.output.report(&list)?;
    if let Some(remark) = remark(
        &list,
        "no patterns yet; three similar observations from two turns make one",
    ) {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}

/// Carries out `folio calibration`.
pub(crate) async fn calibration(context: &Context<'_>) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let as_of = workspace.head().await?.0;
    let rows = workspace.calibration().await?;
    let list = List::whole(rows.into_iter().map(ReliabilityShape).collect(), as_of);
    context.output.report(&list)?;
    if let Some(remark) = remark(&list, "no data yet; resolve observations with --confirmed or --refuted") {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
