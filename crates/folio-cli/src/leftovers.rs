//! Runs whose process is gone: whoever drives runs goes on with them, beside its own work (E9.9).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use folio::Timestamp;
use folio::memory::{RunId, Seq};
use folio::runner::{Driven, Runner, RunnerError};
use folio::store::{ErrorKind, RunRow};
use tokio::task::{JoinError, JoinSet};

use crate::commands::interrupted;
use crate::error::Failure;
use crate::output::Output;

/// How long a server waits before it looks again.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Runs of others that are taken up while it goes on with as many, if nobody says.
const MOST: usize = 8;
/// How long what is under way has to end when the program was told to.
const GRACE: Duration = Duration::from_secs(10);

/// How long everything in a run waits until it is given up here: whoever answers it writes to its journal, and it is taken up again.
const PATIENCE: Duration = Duration::from_secs(2);

/// A run, and what came of driving it here.
type Ended = (RunRow, Result<Driven, RunnerError>);

/// Runs that are being brought to their end beside something else.
#[derive(Debug)]
pub(crate) struct Leftovers {
    driving: JoinSet<Ended>,
    most: usize,
    /// Where those stand that were given up because they wait, and when they are due even if nobody writes to them.
    waiting: HashMap<RunId, (Seq, Option<Timestamp>)>,
}

impl Default for Leftovers {
    fn default() -> Self {
        Self {
            driving: JoinSet::new(),
            most: MOST,
            waiting: HashMap::new(),
        }
    }
}

impl Leftovers {
    /// Takes up every run that has not ended and that no living process drives. Where nobody is there to answer, those that ask something are
    /// left to whoever can.
    pub(crate) async fn take_up(runner: &Runner, output: &Output) -> Result<Self, Failure> {
        runner.end_leftover_turns().await?;
        let mut leftovers = Self::default();
        let rows = runner.unfinished().await?;
        let asking = match runner.has_person() {
            true => HashSet::new(),
            false => asking(runner, &rows).await?,
        };
        for row in rows {
            if asking.contains(&row.id) {
                output.note(format_args!("{} waits for a person, and nobody is here", row.handle));
            } else {
                leftovers.go_on_with(row, runner, output);
            }
        }
        Ok(leftovers)
    }

    /// Waits until each has ended, or waits for somebody itself, and says how. Why one could not be taken up is said and does no harm to the
    /// others. Who wants the program to end has each given up where it is.
    pub(crate) async fn finish(mut self, runner: &Runner, output: &Output) -> Result<(), Failure> {
        let leave = interrupted()?;
        tokio::select! {
            () = self.all_ended(output) => {}
            () = leave => {
                runner.leave();
                let _in_time = tokio::time::timeout(GRACE, self.all_ended(output)).await;
            }
        }
        Ok(())
    }

    async fn all_ended(&mut self, output: &Output) {
        while let Some(ended) = self.driving.join_next().await {
            said(&ended, output);
        }
    }

    /// Goes on with them and, from now on, with whatever else loses its process, until this is dropped.
    ///
    /// A run is taken up if nobody drives it, and nothing happens in it, from one look to the next: one that was submitted
    /// just now has a driver in a moment.
    pub(crate) async fn keep_going_on(mut self, runner: &Runner, output: &Output) {
        self.go_on(runner, output).await;
    }

    /// The same until `end`, with up to `most` of them at one moment. Then nothing more is begun, what is under way has ten seconds
    /// to end, and each run is given up where it is.
    pub(crate) async fn work(
        mut self,
        runner: &Runner,
        output: &Output,
        most: Option<usize>,
        end: impl Future<Output = ()>,
    ) {
        self.most = most.unwrap_or(self.most);
        tokio::select! {
            () = self.go_on(runner, output) => {}
            () = end => {}
        }
        runner.leave();
        let _in_time = tokio::time::timeout(GRACE, self.all_ended(output)).await;
    }

    async fn go_on(&mut self, runner: &Runner, output: &Output) {
        let mut again = tokio::time::interval(LOOK_EVERY);
        again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut seen: HashMap<RunId, Seq> = HashMap::new();
        // What cannot be gone on with here: it needs a model, or a folder, that only another machine has.
        let mut given_up: HashSet<RunId> = HashSet::new();
        loop {
            tokio::select! {
                Some(ended) = self.driving.join_next() => {
                    if let Ok((row, Ok(Driven::Waits { until, head }))) = &ended {
                        self.waiting.insert(row.id, (*head, *until));
                    }
                    given_up.extend(said(&ended, output));
                }
                _ = again.tick() => {
                    // If the store is away, it is looked at again when it may be back.
                    let Ok(rows) = runner.unfinished().await else { continue };
                    let before = std::mem::take(&mut seen);
                    let now = runner.workspace().now();
                    for row in rows.into_iter().filter(|row| !given_up.contains(&row.id)) {
                        let has_waited = match self.waiting.get(&row.id) {
                            Some((head, until)) if row.head == *head && until.is_none_or(|until| now < until) => continue,
                            waiting => waiting.is_some(),
                        };
                        let is_left = has_waited || before.get(&row.id) == Some(&row.head);
                        if is_left && self.driving.len() < self.most {
                            self.go_on_with(row, runner, output);
                        } else {
                            seen.insert(row.id, row.head);
                        }
                    }
                }
            }
        }
    }

    fn go_on_with(&mut self, row: RunRow, runner: &Runner, output: &Output) {
        output.note(format_args!(
            "going on with {} ({}), whose process is gone",
            row.handle, row.title
        ));
        self.waiting.remove(&row.id);
        let runner = runner.clone();
        self.driving.spawn(async move {
            let driven = runner.drive_while_due(row.id, PATIENCE).await;
            (row, driven)
        });
    }
}

/// Those of `rows` that ask people something, as their last commits say.
async fn asking(runner: &Runner, rows: &[RunRow]) -> Result<HashSet<RunId>, Failure> {
    let workspace = runner.workspace();
    let ids = rows.iter().map(|row| row.id).collect();
    let said = workspace.store().runs_so_far(workspace.space(), ids).await?;
    let asking = said.into_iter().filter(|(_, so_far)| so_far.asks > 0);
    Ok(asking.map(|(run, _)| run).collect())
}

/// Says how a run ended here, and gives it if it is not to be tried here again.
fn said(ended: &Result<Ended, JoinError>, output: &Output) -> Option<RunId> {
    let (row, driven) = match ended {
        Ok(ended) => ended,
        // Its claim stays until the process ends, so it is not tried here again. The others go on.
        Err(broken) => {
            output.note(format_args!("a run is driven no further here: {broken}"));
            return None;
        }
    };
    match driven {
        Ok(Driven::Ended(result)) => output.note(format_args!("{} ended: {}", row.handle, result.status)),
        Ok(Driven::Waits { .. }) => output.note(format_args!("{} waits; `folio show {0}` says for what", row.handle)),
        Err(RunnerError::Leaving) => {}
        // Another process was quicker, or took it over.
        Err(RunnerError::Store(error)) if error.kind() == ErrorKind::Conflict => {}
        Err(error @ RunnerError::Store(store)) if store.kind() == ErrorKind::Unavailable => {
            output.note(format_args!("{} waits for its store: {error}", row.handle));
        }
        Err(error) => {
            output.note(format_args!("{} cannot be taken up: {error}", row.handle));
            return Some(row.id);
        }
    }
    None
}
