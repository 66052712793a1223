//! Runs whose process is gone: any process that drives runs resumes them, beside its own work (E9.9).

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use folio::SpaceName;
use folio::engine::run::RunSummary;
use folio::memory::{RunId, Seq};
use folio::runner::{Busy, BusyRun, Driven, Hindrance, LEFTOVER_PATIENCE, Leftover, Runner, RunnerError};
use folio::store::{ErrorKind, RunRow, StoreError};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::commands::interrupted;
use crate::commands::people::nobody_to_ask;
use crate::error::Failure;
use crate::output::Output;

/// How often a server looks for such runs.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The pause after a look, as a multiple of its duration, if that is longer: thousands of runs that only wait cost a
/// server next to nothing.
const PAUSE_FACTOR: u32 = 20;
/// The longest pause, however slow the store is.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// How often a server looks for runs that have ended and whose turns go on, and how long ago they must have ended: the
/// store may have been unavailable just then, here or in another process.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);
/// How many runs of others are driven at the same time by default. Those that only wait do not count.
const DRIVEN_RUNS_MAX: usize = 8;
/// The same including those that wait, for a person or for a time: they are kept in memory.
const HELD_RUNS_MAX: usize = 256;
/// How long what is under way has to end when the program was told to.
const END_GRACE: Duration = Duration::from_secs(10);

/// Whether the store is a file of another user. If so, a note says which of its runs are left alone, or, for a process
/// that is there for all runs (`Kept`), that it leaves them alone. What those runs may do is recorded in that file,
/// and the user here has allowed none of it.
pub(crate) async fn are_of_another_user(
    runner: &Runner,
    output: &Output,
    waiting: WaitingRuns,
) -> Result<bool, Failure> {
    let location = runner.workspace().store().location();
    let me = rustix::process::geteuid().as_raw();
    // A store that is not a file has no owner.
    let is_of_another = std::fs::metadata(&location).is_ok_and(|file| file.uid() != me);
    if is_of_another {
        let rows = runner.unfinished().await?;
        let left: Vec<_> = rows.iter().map(|row| row.handle.to_string()).collect();
        if waiting == WaitingRuns::Kept || !left.is_empty() {
            let run_list = if left.is_empty() {
                String::new()
            } else {
                format!(": {}", left.join(", "))
            };
            output.advise(format_args!(
                "{location} belongs to another user, so runs in it whose process is gone are not resumed{run_list}; `folio resume RUN` resumes one, with everything that its user allowed it"
            ));
        }
    }
    Ok(is_of_another)
}

/// A run by its space and its id.
type RunKey = (SpaceName, RunId);

/// A run, its space, and the outcome of driving it here.
type EndedRun = (SpaceName, RunRow, Result<Driven, RunnerError>);

/// What to do with a run in which everything waits, for a person or for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitingRuns {
    /// Keep driving it, so that an answer takes effect at once.
    Kept,
    /// Give it up where it is, so that nobody has to wait for it.
    GivenUp,
}

/// Runs that are driven to their end beside something else.
#[derive(Debug)]
pub(crate) struct Leftovers {
    driving: JoinSet<EndedRun>,
    max_driven: usize,
    busy: Busy,
    waiting: WaitingRuns,
    /// The runs that were reported as left alone.
    reported_not_resumed: HashSet<RunKey>,
    /// The space that this process is there for; others are named where their runs are reported.
    own_space: Option<SpaceName>,
    outage: Outage,
}

/// Whether the store can be written to. While it cannot, as when its disk is full, one run at a time is tried, so that
/// not every run is reported with every look.
#[derive(Debug, Default, PartialEq, Eq)]
enum Outage {
    #[default]
    None,
    /// The store refused what a run had to write. The run that is being tried, if any.
    Lasts(Option<RunKey>),
}

impl Default for Leftovers {
    fn default() -> Self {
        Self {
            driving: JoinSet::new(),
            max_driven: DRIVEN_RUNS_MAX,
            busy: Busy::default(),
            waiting: WaitingRuns::Kept,
            reported_not_resumed: HashSet::new(),
            own_space: None,
            outage: Outage::None,
        }
    }
}

impl Leftovers {
    /// Resumes every run that has not ended and that no living process drives. If nobody is there to answer, a program
    /// that is there for another run leaves runs that ask something to a process that can answer.
    pub(crate) async fn resume_unfinished(
        runner: &Runner,
        output: &Output,
        waiting: WaitingRuns,
    ) -> Result<Self, Failure> {
        runner.end_leftover_turns(Duration::ZERO).await?;
        let mut leftovers = Self {
            waiting,
            own_space: Some(runner.workspace().space().clone()),
            ..Self::default()
        };
        for Leftover { row, hindrance, .. } in runner.leftovers().await? {
            match (hindrance, waiting) {
                (Some(Hindrance::BeingBegun), WaitingRuns::GivenUp) => output.note(format_args!(
                    "{} was submitted a moment ago and is left to the process that submitted it",
                    row.handle
                )),
                // A process that is there for all runs looks again later.
                (Some(Hindrance::BeingBegun), WaitingRuns::Kept) => {}
                (Some(Hindrance::BrokenOff), _) => leftovers.note_not_resumed(runner, &row, output),
                // A process that is there for all runs was told that nobody answers.
                (Some(Hindrance::NeedsPerson), WaitingRuns::GivenUp) => {
                    output.note(nobody_to_ask(runner, &row, output.options()).await);
                }
                _ => {
                    let busy = leftovers.busy.begin();
                    let note = leftovers.resumed_note(&row, runner);
                    leftovers.spawn_drive(row, busy, runner, Some((note, output)));
                }
            }
        }
        Ok(leftovers)
    }

    /// Waits until each run has ended or was given up, and reports how. A run that could not be resumed is reported
    /// and does not affect the others. If the program is asked to end, each run is given up where it is.
    pub(crate) async fn finish(mut self, runner: &Runner, output: &Output) -> Result<(), Failure> {
        let leave = interrupted()?;
        tokio::select! {
            () = self.wait_for_all(output) => {}
            () = leave => {
                runner.leave();
                let _in_time = tokio::time::timeout(END_GRACE, self.wait_for_all(output)).await;
            }
        }
        Ok(())
    }

    async fn wait_for_all(&mut self, output: &Output) {
        while let Some(ended) = self.driving.join_next().await {
            self.report_end(&ended, output);
        }
    }

    /// Drives these runs and, from now on, every other one that loses its process in a space of `runners`, up to `most`
    /// of them at a time, until `end`. There may be more runners each time; one that is there stays. At the end nothing
    /// more is begun, work under way has ten seconds to finish, and each run is given up where it is.
    ///
    /// A run is resumed if no process drives it, and nothing happens in it, between two looks; a run that was
    /// submitted but never driven, fifteen seconds after its submission.
    pub(crate) async fn keep_resuming(
        mut self,
        runners: impl Fn() -> Vec<Runner>,
        output: &Output,
        most: Option<usize>,
        end: impl Future<Output = ()>,
    ) {
        self.max_driven = most.unwrap_or(self.max_driven);
        tokio::select! {
            () = self.resume_regularly(&runners, output) => {}
            () = end => {}
        }
        runners().iter().for_each(Runner::leave);
        let _in_time = tokio::time::timeout(END_GRACE, self.wait_for_all(output)).await;
    }

    async fn resume_regularly(&mut self, runners: impl Fn() -> Vec<Runner>, output: &Output) {
        let mut again = tokio::time::interval(POLL_INTERVAL);
        again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut seen: HashMap<SpaceName, HashMap<RunId, Seq>> = HashMap::new();
        // Runs that cannot be resumed here: they need a model, or a folder, that only another machine has.
        let mut given_up: HashSet<RunKey> = HashSet::new();
        // When the turns of runs that have ended were last ended in each space.
        let mut tidied: HashMap<SpaceName, Instant> = HashMap::new();
        tidied.extend(self.own_space.iter().map(|space| (space.clone(), Instant::now())));
        let mut rounds = 0;
        loop {
            tokio::select! {
                Some(ended) = self.driving.join_next() => {
                    given_up.extend(self.report_end(&ended, output));
                }
                _ = again.tick() => {
                    let mut all = runners();
                    // Each is the first one in its turn, so that the places are not always taken by the same one.
                    let first = rounds % all.len().max(1);
                    all.rotate_left(first);
                    rounds += 1;
                    let began = Instant::now();
                    for runner in all {
                        let space = runner.workspace().space();
                        if let Some(age) = age_to_tidy(tidied.get(space).copied(), Instant::now())
                            && runner.end_leftover_turns(age).await.is_ok()
                        {
                            tidied.insert(space.clone(), Instant::now());
                        }
                        let seen = seen.entry(space.clone()).or_default();
                        self.resume_abandoned(&runner, output, seen, &given_up).await;
                    }
                    again.reset_after(pause_after(began.elapsed()));
                }
            }
        }
    }

    /// Resumes the runs of `runner` that were left as they were `seen` before, and notes how those are that are left
    /// now. If the store cannot be reached, the next look may succeed.
    async fn resume_abandoned(
        &mut self,
        runner: &Runner,
        output: &Output,
        seen: &mut HashMap<RunId, Seq>,
        given_up: &HashSet<RunKey>,
    ) {
        let workspace = runner.workspace();
        let Ok(mut left) = runner.leftovers().await else {
            return;
        };
        self.end_outage_if_claimed(workspace.space(), left.iter().map(|leftover| leftover.row.id));
        left.retain(|leftover| leftover.hindrance != Some(Hindrance::BeingBegun));
        let heads = left.iter().map(|leftover| (leftover.row.id, leftover.row.head));
        let before = std::mem::replace(seen, heads.collect());
        let is_left = |row: &RunRow| {
            let key = (workspace.space().clone(), row.id);
            before.get(&row.id) == Some(&row.head) && !given_up.contains(&key)
        };
        for Leftover { row, hindrance, .. } in left.into_iter().filter(|leftover| is_left(&leftover.row)) {
            if hindrance == Some(Hindrance::BrokenOff) {
                self.note_not_resumed(runner, &row, output);
                continue;
            }
            if matches!(self.outage, Outage::Lasts(Some(_))) {
                continue;
            }
            if let Some(busy) = self.reserve_place() {
                seen.remove(&row.id);
                let note = match &mut self.outage {
                    Outage::None => Some((self.resumed_note(&row, runner), output)),
                    Outage::Lasts(tried) => {
                        *tried = Some((runner.workspace().space().clone(), row.id));
                        None
                    }
                };
                self.spawn_drive(row, busy, runner, note);
            }
        }
    }

    /// Ends the outage if the run that is tried could be claimed: then it is not among those that nobody drives.
    fn end_outage_if_claimed(&mut self, space: &SpaceName, mut undriven: impl Iterator<Item = RunId>) {
        if let Outage::Lasts(Some((tried_space, tried))) = &self.outage
            && tried_space == space
            && !undriven.any(|run| run == *tried)
        {
            self.outage = Outage::None;
        }
    }

    /// Reserves a place for one more run.
    fn reserve_place(&self) -> Option<BusyRun> {
        let with_waiting = HELD_RUNS_MAX.max(self.max_driven);
        let has_room = self.driving.len() < with_waiting && self.busy.runs() < self.max_driven;
        has_room.then(|| self.busy.begin())
    }

    /// Notes once that a run is not resumed automatically, and what the user can do.
    fn note_not_resumed(&mut self, runner: &Runner, row: &RunRow, output: &Output) {
        let space = runner.workspace().space();
        if self.reported_not_resumed.insert((space.clone(), row.id)) {
            let of = self.of(space);
            let again = if of.is_empty() { output.options() } else { "" };
            output.note(format_args!("{of}{}", not_resumed_note(row, again)));
        }
    }

    /// The beginning of a note on a run of `space`: handles are those of its space.
    fn of(&self, space: &SpaceName) -> String {
        match &self.own_space {
            Some(own) if own != space => format!("space {space}: "),
            _ => String::new(),
        }
    }

    fn resumed_note(&self, row: &RunRow, runner: &Runner) -> String {
        let of = self.of(runner.workspace().space());
        let (run, title) = (row.handle, &row.title);
        format!("{of}resuming {run} ({title}), which no process drives")
    }

    /// Drives the run of `row`; `note` is printed when it has been claimed: several processes may try that at once.
    fn spawn_drive(&mut self, row: RunRow, busy: BusyRun, runner: &Runner, note: Option<(String, &Output)>) {
        let space = runner.workspace().space().clone();
        let patience = match self.waiting {
            WaitingRuns::Kept => None,
            WaitingRuns::GivenUp => Some(LEFTOVER_PATIENCE),
        };
        let (runner, note) = (runner.clone(), note.map(|(note, output)| (note, output.clone())));
        self.driving.spawn(async move {
            let claimed = || {
                if let Some((note, output)) = note {
                    output.note(note);
                }
            };
            let outcome = runner.drive_leftover(row.id, patience, &busy, claimed).await;
            (space, row, outcome)
        });
    }

    /// Reports how a run ended here, and returns it if it is not to be tried here again.
    fn report_end(&mut self, ended: &Result<EndedRun, JoinError>, output: &Output) -> Option<RunKey> {
        let (space, row, outcome) = match ended {
            Ok(ended) => ended,
            // The claim on the run stays until the process ends, so it is not tried here again. The others go on.
            Err(broken) => {
                output.note(format_args!("a run stopped here: {broken}"));
                return None;
            }
        };
        let (of, run) = (self.of(space), row.handle);
        let is_refused = matches!(outcome, Err(RunnerError::Store(StoreError::Unavailable { .. })));
        let is_new_outage = is_refused && self.outage == Outage::None;
        let is_tried = matches!(&self.outage, Outage::Lasts(Some(tried)) if *tried == (space.clone(), row.id));
        if is_refused && (is_new_outage || is_tried) {
            self.outage = Outage::Lasts(None);
        } else if is_tried {
            self.outage = Outage::None;
        }
        match outcome {
            Ok(Driven::Ended(result)) => output.note(format_args!("{of}{run} ended: {}", result.status)),
            Ok(Driven::Waits { .. }) => {
                let again = if of.is_empty() { output.options() } else { "" };
                output.note(format_args!(
                    "{of}{run} waits; `folio show {run}{again}` shows what for"
                ));
            }
            Err(RunnerError::Leaving) => {}
            // Another process was quicker, or took over the run.
            Err(RunnerError::Store(error)) if error.kind() == ErrorKind::Conflict => {}
            Err(error @ RunnerError::Store(StoreError::Unavailable { .. })) => {
                if is_new_outage {
                    output.note(format_args!(
                        "{of}{run} waits for its store, and so do others: {error}; they are tried again until it works"
                    ));
                }
            }
            Err(error) => {
                output.note(format_args!("{of}{run} cannot be resumed: {error}"));
                return Some((space.clone(), row.id));
            }
        }
        None
    }
}

/// How long a server rests after a look that took so long.
fn pause_after(look: Duration) -> Duration {
    (look * PAUSE_FACTOR).clamp(POLL_INTERVAL, MAX_POLL_INTERVAL)
}

/// How long ago runs must have ended whose turns are to be ended now, given when that was last done in their space;
/// `None`: not now.
fn age_to_tidy(tidied: Option<Instant>, now: Instant) -> Option<Duration> {
    match tidied {
        None => Some(Duration::ZERO),
        Some(at) => (now.duration_since(at) >= TIDY_INTERVAL).then_some(TIDY_INTERVAL),
    }
}

/// The note on a run that is not resumed automatically because its process ended again and again.
/// `again` are the options that another command needs to use the same space.
pub(crate) fn not_resumed_note(row: &RunRow, again: &str) -> String {
    format!(
        "{0} is not resumed automatically: its process ended {1} times in a row while the same work was under way. \
         `folio show {0}{again}` shows what; `folio resume {0}{again}` tries again, `folio cancel {0}{again}` ends it",
        row.handle,
        RunSummary::BROKEN_OFF_MAX
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use folio::engine::Run;
    use folio::memory::Timestamp;
    use folio::memory::id::RunHandle;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn looking_for_runs_takes_at_most_a_twentieth_of_the_time() {
        for (look, pause) in [(0, 2_000), (100, 2_000), (200, 4_000), (3_000, 10_000)] {
            assert_eq!(pause_after(Duration::from_millis(look)), Duration::from_millis(pause));
        }
    }

    fn row(number: u64, submitted: Timestamp, was_driven: bool) -> RunRow {
        RunRow {
            id: RunId::derived(&["r", &number.to_string()]),
            handle: RunHandle(number),
            title: String::new(),
            status: Run::RUNNING.to_owned(),
            created_at: submitted,
            updated_at: submitted,
            head: Seq(1),
            driven: false,
            was_driven,
            forgotten: None,
        }
    }

    #[test]
    fn store_that_refuses_every_run_is_reported_once_until_a_run_is_claimed() {
        let mut leftovers = Leftovers::default();
        let output = Output::new(&Arguments::parse_from(["folio", "--quiet", "runs"]).global);
        let space = SpaceName::main();
        let rows = [1, 2, 3].map(|number| row(number, Timestamp::from_millis(0), true));
        let refused = |row: &RunRow| {
            let error = StoreError::Unavailable {
                doing: "write to",
                location: "folio.db".to_owned(),
                reason: "its disk is full".to_owned(),
                source: None,
            };
            Ok((space.clone(), row.clone(), Err(RunnerError::Store(error))))
        };
        for row in &rows {
            leftovers.report_end(&refused(row), &output);
        }
        assert_eq!(leftovers.outage, Outage::Lasts(None));
        let tried = (space.clone(), rows[1].id);
        leftovers.outage = Outage::Lasts(Some(tried.clone()));
        // What another run meets meanwhile says nothing about the one that is tried.
        leftovers.report_end(&refused(&rows[0]), &output);
        leftovers.end_outage_if_claimed(&space, rows.iter().map(|row| row.id));
        assert_eq!(leftovers.outage, Outage::Lasts(Some(tried)));
        leftovers.report_end(&refused(&rows[1]), &output);
        assert_eq!(leftovers.outage, Outage::Lasts(None));
        leftovers.outage = Outage::Lasts(Some((space.clone(), rows[1].id)));
        leftovers.end_outage_if_claimed(&space, rows[2..].iter().map(|row| row.id));
        assert_eq!(leftovers.outage, Outage::None);
    }

    #[test]
    fn turns_that_stayed_open_are_looked_for_again_and_again() {
        let start = Instant::now();
        assert_eq!(
            age_to_tidy(None, start),
            Some(Duration::ZERO),
            "a space that is new here"
        );
        assert_eq!(age_to_tidy(Some(start), start + TIDY_INTERVAL / 2), None);
        // The store may have been unavailable when a run of this process ended, or of another one.
        assert_eq!(age_to_tidy(Some(start), start + TIDY_INTERVAL), Some(TIDY_INTERVAL));
    }
}
