//! Runs whose process is gone: whoever drives runs next goes on with them, beside its own work (E9.9).

use folio::runner::{Runner, RunnerError};
use folio::store::{ErrorKind, RunRow};
use tokio::task::JoinSet;

use crate::error::Failure;
use crate::output::Output;

/// Runs that are being brought to their end beside something else.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    driving: JoinSet<(RunRow, Result<folio::engine::NodeResult, RunnerError>)>,
}

impl Leftovers {
    /// Takes up every run that has not ended and that no living process drives.
    pub(crate) async fn take_up(runner: &Runner, output: &Output) -> Result<Self, Failure> {
        runner.end_leftover_turns().await?;
        let mut driving = JoinSet::new();
        for row in runner.unfinished().await? {
            output.note(format_args!(
                "going on with {} ({}), whose process is gone",
                row.handle, row.title
            ));
            let runner = runner.clone();
            driving.spawn(async move {
                let driven = runner.drive(row.id).await;
                (row, driven)
            });
        }
        Ok(Self { driving })
    }

    /// Waits until all have ended, and says how. Why one could not be taken up is said and does no harm to the others.
    pub(crate) async fn finish(mut self, output: &Output) {
        while let Some(Ok((row, driven))) = self.driving.join_next().await {
            match driven {
                Ok(result) => output.note(format_args!("{} ended: {}", row.handle, result.status)),
                // Another process was quicker.
                Err(RunnerError::Store(error)) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => output.note(format_args!("{} cannot be taken up: {error}", row.handle)),
            }
        }
    }
}
