//! Runs whose process is gone: which of them another process may resume on its own (E9.9).

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use folio_engine::run::RunSummary;
use folio_memory::Timestamp;
use folio_store::{ErrorKind, RunRow};
use tokio::task::JoinHandle;

use crate::busy::Busy;
use crate::dispatch::{Driven, Until};
use crate::error::RunnerError;
use crate::runner::Runner;

/// How long everything in a leftover run must have waited until a process that is there for something else gives it up.
pub const LEFTOVER_PATIENCE: Duration = Duration::from_secs(2);

/// How long the process that submitted a run may take to begin driving it: it may have to wait ten seconds for a store
/// that others write to.
const BEGIN_TIME_MAX: Duration = Duration::from_secs(15);

/// A run that has not ended and that no living process drives.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Leftover {
    /// The run's row.
    pub row: RunRow,
    /// The run as its last commit left it.
    pub summary: RunSummary,
    /// What keeps this process from resuming it on its own; `None` if nothing does.
    pub hindrance: Option<Hindrance>,
}

/// What keeps a process from resuming a leftover run on its own. If there is more than one reason, it is the first one
/// of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hindrance {
    /// It was submitted a moment ago and was never driven: its submitter is about to drive it, and would find its own
    /// run taken.
    BeingBegun,
    /// Its process ended again and again while the same work was under way, which may be what ends it. It continues
    /// only if somebody asks for it.
    BrokenOff,
    /// It asks a person, and none is here: driving it here would answer in the person's place (E9.14).
    NeedsPerson,
    /// It is paused, so there is nothing to do before somebody continues it.
    Paused,
}

/// The runs that [`Runner::resume_leftovers`] resumed. They go on if this is dropped.
#[derive(Debug)]
pub struct ResumedRuns {
    drives: VecDeque<(RunRow, JoinHandle<Result<Driven, RunnerError>>)>,
}

impl ResumedRuns {
    /// Waits for the next one, and returns how far it was driven; `None` if there are no more. One whose runtime has
    /// ended is left out. If the future is dropped, the next call returns the same run.
    pub async fn next(&mut self) -> Option<(RunRow, Result<Driven, RunnerError>)> {
        while let Some((_, drive)) = self.drives.front_mut() {
            let joined = drive.await;
            if let (Some((row, _)), Ok(driven)) = (self.drives.pop_front(), joined) {
                return Some((row, driven));
            }
        }
        None
    }

    /// Waits for all of them, and returns how far each was driven.
    pub async fn join_all(mut self) -> Vec<(RunRow, Result<Driven, RunnerError>)> {
        let mut driven = Vec::with_capacity(self.drives.len());
        while let Some(next) = self.next().await {
            driven.push(next);
        }
        driven
    }

    /// Stops all of them at once, and gives the runs up where they are.
    pub async fn shutdown(mut self) {
        for (_, drive) in &self.drives {
            drive.abort();
        }
        while self.next().await.is_some() {}
    }
}

impl Hindrance {
    /// What hinders a process at `now` that is there with a person or without one.
    fn of(row: &RunRow, summary: &RunSummary, needs_person: bool, now: Timestamp) -> Option<Self> {
        if is_being_begun(row, now) {
            Some(Self::BeingBegun)
        } else if summary.needs_manual_resume() {
            Some(Self::BrokenOff)
        } else if needs_person {
            Some(Self::NeedsPerson)
        } else if summary.stands_paused() {
            Some(Self::Paused)
        } else {
            None
        }
    }
}

impl Runner {
    /// The runs that have not ended and that no living process drives, oldest first, and whether this process may resume
    /// them on its own. Of runs that have not changed since the last call only the rows are read.
    ///
    /// # Errors
    ///
    /// As [`Runner::unfinished`].
    pub async fn leftovers(&self) -> Result<Vec<Leftover>, RunnerError> {
        let workspace = self.workspace();
        let rows = self.unfinished().await?;
        let now = workspace.now();
        let lineage = workspace.store().lineage();
        let mut known = self.shared.seen.known(&rows, lineage);
        let changed: Vec<RunRow> = rows
            .iter()
            .filter(|row| !known.contains_key(&row.id))
            .cloned()
            .collect();
        let summaries = workspace.runs_so_far(&changed).await?;
        let mut unreadable = HashSet::new();
        for row in &changed {
            let summary = match summaries.get(&row.id) {
                Some(summary) => summary.clone(),
                // An older version wrote its last commit.
                None => match self.load(row.id).await {
                    Ok(run) => run.summary(),
                    Err(error) => {
                        // What cannot be read for the moment is read again.
                        unreadable.extend((error.kind() == ErrorKind::Unavailable).then_some(row.id));
                        RunSummary::default()
                    }
                },
            };
            known.insert(row.id, summary);
        }
        let leftovers: Vec<Leftover> = rows
            .into_iter()
            .map(|row| {
                let summary = known.remove(&row.id).unwrap_or_default();
                let hindrance = Hindrance::of(&row, &summary, self.has_nobody_to_answer(&summary), now);
                Leftover {
                    row,
                    summary,
                    hindrance,
                }
            })
            .collect();
        let readable = leftovers.iter().filter(|one| !unreadable.contains(&one.row.id));
        self.shared
            .seen
            .keep(readable.map(|one| (&one.row, one.summary.clone())), lineage);
        Ok(leftovers)
    }

    /// What lists show of the run of `row`: what its last commit says, which is `known`, or, if an older version wrote
    /// that commit, what its journal says. That a journal cannot be read is reported by whoever drives the run.
    pub async fn summary_of(&self, row: &RunRow, known: Option<RunSummary>) -> RunSummary {
        match known {
            Some(known) => known,
            None => self.load(row.id).await.map(|run| run.summary()).unwrap_or_default(),
        }
    }

    /// Resumes every leftover run that nothing [hinders](Hindrance), each in a task of its own, and ends the turns of
    /// runs whose process died just before it ended them. For the start of a program: each run is driven to its end, or
    /// until it waits only for the person who was there where it was submitted, to whom questions stay open.
    /// [`Runner::leave`] gives them up where they are.
    ///
    /// # Errors
    ///
    /// `Store`. The failure of one run is among the results, and does not affect the others.
    pub async fn resume_leftovers(&self) -> Result<ResumedRuns, RunnerError> {
        self.end_leftover_turns(Duration::ZERO).await?;
        let due = self.leftovers().await?.into_iter();
        let due = due.filter(|leftover| leftover.hindrance.is_none());
        let drives = due.map(|Leftover { row, .. }| {
            let (runner, run) = (self.clone(), row.id);
            let drive = tokio::spawn(async move {
                let busy = Busy::default().begin();
                let until = Until::Asked(LEFTOVER_PATIENCE);
                runner.drive_for(run, until, Some(&busy), || ()).await
            });
            (row, drive)
        });
        Ok(ResumedRuns {
            drives: drives.collect(),
        })
    }
}

/// Whether `row` is a run that was submitted a moment ago and was never driven.
fn is_being_begun(row: &RunRow, now: Timestamp) -> bool {
    // The clocks of two processes may differ a little; a time far ahead comes from a clock that was wrong.
    let apart = now.since(row.created_at).max(row.created_at.since(now));
    !row.was_driven && apart < BEGIN_TIME_MAX
}

#[cfg(test)]
mod tests {
    use folio_engine::Run;
    use folio_memory::id::RunHandle;
    use folio_memory::{RunId, Seq};

    use super::*;

    const SUBMITTED: Timestamp = Timestamp::from_millis(1_000_000);

    fn row(was_driven: bool) -> RunRow {
        RunRow {
            id: RunId::derived(&["r"]),
            handle: RunHandle(1),
            title: String::new(),
            status: Run::RUNNING.to_owned(),
            created_at: SUBMITTED,
            updated_at: SUBMITTED,
            head: Seq(1),
            driven: false,
            was_driven,
            forgotten: None,
        }
    }

    #[test]
    fn new_run_is_not_resumed_within_its_grace_period() {
        let later = |millis| SUBMITTED.plus(Duration::from_millis(millis));
        assert!(is_being_begun(&row(false), later(0)));
        assert!(is_being_begun(&row(false), later(14_999)));
        assert!(!is_being_begun(&row(false), later(15_000)));
        // Its driver is gone.
        assert!(!is_being_begun(&row(true), later(0)));
        // It was written by a clock that ran ahead.
        let early = |millis| SUBMITTED.minus(Duration::from_millis(millis));
        assert!(is_being_begun(&row(false), early(14_999)));
        assert!(!is_being_begun(&row(false), early(15_000)));
    }

    #[test]
    fn first_of_several_hindrances_is_told() {
        let mut summary = RunSummary {
            broken_off: RunSummary::BROKEN_OFF_MAX,
            paused: true,
            ..RunSummary::default()
        };
        let of = |was_driven, summary: &RunSummary, needs_person| {
            Hindrance::of(&row(was_driven), summary, needs_person, SUBMITTED)
        };
        assert_eq!(of(false, &summary, true), Some(Hindrance::BeingBegun));
        assert_eq!(of(true, &summary, true), Some(Hindrance::BrokenOff));
        summary.broken_off -= 1;
        assert_eq!(of(true, &summary, true), Some(Hindrance::NeedsPerson));
        assert_eq!(of(true, &summary, false), Some(Hindrance::Paused));
        summary.paused = false;
        assert_eq!(of(true, &summary, false), None);
    }
}
