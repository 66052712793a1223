//! `folio runs`: the runs of a space.

use clap::Args;
use folio::store::RunQuery;

use super::Context;
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
}

/// Carries out `folio runs`.
pub(crate) async fn run(context: &Context<'_>, runs: Runs) -> Result<Exit, Failure> {
    let workspace = context.workspace().await?;
    let query = RunQuery {
        status: runs.status,
        limit: runs.limit,
        ..RunQuery::default()
    };
    let rows = workspace.runs(&query).await?;
    let list = List::whole(rows.iter().map(RunLine::of).collect(), workspace.head().await?.0);
    context.output.report(&list)?;
    if let Some(remark) = remark(&list, "no run matches") {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
