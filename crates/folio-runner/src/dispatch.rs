//! Runs that others drive: handed over to whoever has workers, and followed by their journals.
//!
//! What a run is owed is in its journal, so that handing it over is no more than saying that it is there. Saying it twice, late,
//! or to a worker that is gone in a moment does no harm: whoever drives a run claims it first, under a fence.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::{NodeResult, Run};
use folio_memory::id::Ref;
use folio_memory::{RunId, Seq, SpaceName, Timestamp};
use folio_store::RunRow;

use crate::busy::BusyRun;
use crate::error::RunnerError;
use crate::grants;
use crate::runner::Runner;
use crate::watch::Watch;

/// After how long it is asked for the first time whether somebody took a run that was handed over; each time later twice as late.
const ASKED_AFTER: Duration = Duration::from_secs(2);
/// But never later than this.
const ASKED_AFTER_MAX: Duration = Duration::from_secs(60);
/// How often in a row it has to be said that nobody takes it until that is believed: a worker that finds it in its store drives it all
/// the same, some seconds later.
const REFUSED_MAX: u32 = 3;

/// Has runs driven by others.
#[async_trait]
pub trait Dispatch: Debug + Send + Sync {
    /// Has `run` of `space` driven, whose journal ends at `head`. Somebody will when this returns. Asked again with the same
    /// `head`, it is the same request.
    ///
    /// # Errors
    ///
    /// `Dispatch` if nobody could be told. Whether somebody was is then unknown; asking again is safe.
    async fn dispatch(&self, space: &SpaceName, run: RunId, head: Seq) -> Result<(), RunnerError>;

    /// What became of that request. Whoever cannot say, says that it was taken.
    ///
    /// # Errors
    ///
    /// `Dispatch` if it cannot be found out now.
    async fn fate(&self, _space: &SpaceName, _run: RunId, _head: Seq) -> Result<Fate, RunnerError> {
        Ok(Fate::Taken)
    }
}

/// What became of a request to have a run driven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Nobody has done all that it asks for yet.
    Open,
    /// Somebody drove the run.
    Taken,
    /// Nobody ever will for this request: why.
    Refused {
        /// Who says so.
        at: String,
        /// Why.
        reason: String,
    },
}

/// How far a run was driven.
#[derive(Debug, Clone, PartialEq)]
pub enum Driven {
    /// To its end.
    Ended(NodeResult),
    /// To where everything waits.
    Waits {
        /// When something becomes due even if nobody writes to the journal; `None`: never.
        until: Option<Timestamp>,
        /// Where its journal ended when it was given up.
        head: Seq,
    },
}

/// How far a run is to be driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// To its end.
    Ended,
    /// Or to where everything has waited for so long.
    Idle(Duration),
    /// The same, and nobody answers in the place of whoever was there where it was submitted.
    IdleOrAsked(Duration),
    /// Or to where it has waited for a person for so long, who was there then.
    Asked(Duration),
}

impl Until {
    /// Whether what somebody is to answer who was there where `run` was submitted is left to them.
    pub(crate) fn leaves_to_person(self, run: &Run) -> bool {
        matches!(self, Self::IdleOrAsked(_) | Self::Asked(_)) && grants::is_attended(run)
    }

    /// How long everything in `run` has to wait before it is given up.
    pub(crate) fn patience(self, run: &Run) -> Option<Duration> {
        match self {
            Self::Ended => None,
            Self::Idle(patience) | Self::IdleOrAsked(patience) => Some(patience),
            Self::Asked(patience) => {
                let asks = !run.questions().is_empty() || !run.waiting().is_empty();
                Some(patience).filter(|_| asks)
            }
        }
    }
}

impl Runner {
    /// Drives a run here until it has ended, or until nothing of it has been under way for `patience` and nothing becomes due
    /// within another: it waits for a person, or for a time. What it waits for is in its journal; whoever drives it next, then
    /// or when somebody writes to the journal, goes on with it.
    ///
    /// # Errors
    ///
    /// As [`Runner::drive`].
    pub async fn drive_while_due(&self, run: RunId, patience: Duration) -> Result<Driven, RunnerError> {
        self.drive_for(run, Until::Idle(patience), None).await
    }

    /// The same, for whoever is there for another run: what somebody was there to answer, where the run was submitted, waits for them, also
    /// where nobody is there who answers here (E9.14).
    ///
    /// # Errors
    ///
    /// As [`Runner::drive`].
    pub async fn drive_aside(&self, run: RunId, patience: Duration) -> Result<Driven, RunnerError> {
        self.drive_for(run, Until::IdleOrAsked(patience), None).await
    }

    /// Drives a run here until it has ended, or until it has waited for nothing but a person for `patience` who was there where it was
    /// submitted.
    ///
    /// # Errors
    ///
    /// As [`Runner::drive`]; `Leaving` if it waits for a person.
    pub async fn drive_until_asked(&self, run: RunId, patience: Duration) -> Result<NodeResult, RunnerError> {
        match self.drive_for(run, Until::Asked(patience), None).await? {
            Driven::Ended(result) => Ok(result),
            Driven::Waits { .. } => Err(RunnerError::Leaving),
        }
    }

    /// Begins nothing more in the runs that are driven here. Each is given up as soon as what is under way has ended; whoever
    /// drives it next goes on with it. For the end of a process.
    pub fn leave(&self) {
        self.shared.leaving.cancel();
    }

    /// Waits until somebody has called [`Runner::leave`].
    pub async fn left(&self) {
        self.shared.leaving.cancelled().await;
    }

    /// Whether others drive its runs.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.shared.options.dispatch.is_some()
    }

    /// Has `run` driven by others, or here if there are none, and waits until it has ended, whatever it comes to. Of a run that
    /// others drive nothing is read but where it is: a thousand of them cost one question at a time. One that is driven here counts as
    /// `busy` while it does more than wait.
    ///
    /// # Errors
    ///
    /// As [`Runner::drive`].
    pub async fn see_to(&self, run: RunId, busy: &BusyRun) -> Result<(), RunnerError> {
        let Some(others) = &self.shared.options.dispatch else {
            return self.drive_counted(run, busy).await.map(drop);
        };
        let workspace = self.workspace();
        let mut now = self.hand_over(&**others, run).await?;
        let followed = self.shared.others.follow(workspace, run, now.head);
        let refused = self.refused(&**others, run, now.head);
        let ended = async {
            while !now.has_ended() {
                followed.foreign().await;
                now = workspace.store().run(workspace.space(), Ref::Id(run)).await?;
                followed.knows(now.head);
            }
            Ok(())
        };
        // Each goes on while the other asks the store.
        tokio::select! {
            ended = ended => ended,
            error = refused => Err(error),
        }
    }

    /// Has `run` driven by others, unless it has ended. Says where it was.
    async fn hand_over(&self, others: &dyn Dispatch, run: RunId) -> Result<RunRow, RunnerError> {
        let workspace = self.workspace();
        let row = workspace.store().run(workspace.space(), Ref::Id(run)).await?;
        if !row.has_ended() {
            others.dispatch(workspace.space(), run, row.head).await?;
        }
        Ok(row)
    }

    /// Why nobody will drive `run`, which was handed over when its journal ended at `head`; waits for ever once somebody has.
    ///
    /// A worker on another store finds no such run. Nothing of that is in the journal, so whoever only reads it would wait for ever.
    async fn refused(&self, others: &dyn Dispatch, run: RunId, head: Seq) -> RunnerError {
        let workspace = self.workspace();
        let mut pause = ASKED_AFTER;
        let mut times = 0;
        loop {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(ASKED_AFTER_MAX);
            let row = workspace.store().run(workspace.space(), Ref::Id(run)).await;
            // Whoever drove it may have let go of it again: then its journal says more than it did.
            let is_taken = row.is_ok_and(|row| row.driven || row.has_ended() || row.head != head);
            let fate = if is_taken {
                Ok(Fate::Taken)
            } else {
                others.fate(workspace.space(), run, head).await
            };
            match fate {
                Ok(Fate::Refused { at, reason }) => {
                    times += 1;
                    if times == REFUSED_MAX {
                        return RunnerError::Dispatch { at, reason };
                    }
                }
                Ok(Fate::Taken) => return std::future::pending().await,
                Ok(Fate::Open) => times = 0,
                // Whoever cannot be asked now is asked later.
                Err(_) => {}
            }
        }
    }

    /// Has `run` driven by others, and waits until it has ended.
    pub(crate) async fn drive_elsewhere(&self, others: &dyn Dispatch, run: RunId) -> Result<NodeResult, RunnerError> {
        let workspace = self.workspace();
        let handed_over = self.hand_over(others, run).await?;
        let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), run);
        let refused = self.refused(others, run, handed_over.head);
        tokio::pin!(refused);
        loop {
            let news = tokio::select! {
                news = watch.next() => news?,
                error = &mut refused => return Err(error),
            };
            if news.is_none() {
                break;
            }
        }
        let result = watch.run().result().cloned();
        Ok(result.expect("a run that is read to its end has a result"))
    }

    /// Tells whoever has runs driven by others that somebody wrote to the journal of `run`, which now ends at `head`.
    pub(crate) async fn wake_elsewhere(&self, run: RunId, head: Seq) {
        if let Some(others) = &self.shared.options.dispatch {
            // What was written is durable, and workers look for what nobody drives.
            let _found_later = others.dispatch(self.workspace().space(), run, head).await;
        }
    }
}
