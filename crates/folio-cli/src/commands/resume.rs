//! `folio resume`: goes on with runs whose process is gone.

use clap::Args;
use folio::memory::id::RunRef;

use super::Context;
use super::run::{Driving, Minds};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::follow;

/// `folio resume`.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Which run: r3 or run_… [default: all that did not end, the oldest first]
    #[arg(value_parser = run_ref)]
    run: Option<RunRef>,
    #[command(flatten)]
    minds: Minds,
    #[command(flatten)]
    driving: Driving,
}

/// Carries out `folio resume`.
pub(crate) async fn run(context: &Context<'_>, resume: Resume) -> Result<Exit, Failure> {
    let runner = resume.minds.runner(context, &resume.driving, false).await?;
    let rows = match resume.run {
        Some(run) => vec![runner.row(run).await?],
        None => runner.unfinished().await?,
    };
    if rows.is_empty() {
        context.output.note("every run has ended");
    }
    let mut worst = Exit::Done;
    for row in rows {
        let exit = follow::drive(context, &runner, row.id).await?;
        if exit == Exit::Cancelled {
            return Ok(exit);
        }
        if exit != Exit::Done {
            worst = exit;
        }
    }
    Ok(worst)
}
