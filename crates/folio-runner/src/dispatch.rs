//! Runs that others drive: handed over to workers, and followed by their journals.
//!
//! What a run has to do is in its journal, so handing it over only means announcing it. Announcing it twice, late, or
//! to a worker that is about to end does no harm: whoever drives a run claims it first, under a fence.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::{NodeResult, Run};
use folio_memory::id::Ref;
use folio_memory::{RunId, Seq, SpaceName, Timestamp};
use folio_store::RunRow;

use crate::busy::BusyRun;
use crate::error::RunnerError;
use crate::runner::Runner;
use crate::watch::Watch;

/// How long after the handover the first check is made whether somebody took the run; the interval then doubles each
/// time.
const FIRST_CHECK_DELAY: Duration = Duration::from_secs(2);
/// The longest interval between these checks.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// How often in a row a refusal has to be reported before it is believed: a worker that finds the run in its store
/// drives it all the same, some seconds later.
const MIN_REFUSALS: u32 = 3;

/// Has other processes drive runs.
#[async_trait]
pub trait Dispatch: Debug + Send + Sync {
    /// Has `run` of `space` driven, whose journal ends at `head`. When this returns, somebody will drive it. A repeated
    /// call with the same `head` is the same request.
    ///
    /// # Errors
    ///
    /// `Dispatch` if nobody could be told. Whether the request arrived is then unknown; repeating it is safe.
    async fn dispatch(&self, space: &SpaceName, run: RunId, head: Seq) -> Result<(), RunnerError>;

    /// What became of that request. An implementation that cannot tell answers `Taken`.
    ///
    /// # Errors
    ///
    /// `Dispatch` if it cannot be found out now.
    async fn fate(&self, _space: &SpaceName, _run: RunId, _head: Seq) -> Result<Fate, RunnerError> {
        Ok(Fate::Taken)
    }
}

/// The state of a request to have a run driven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The request is not carried out completely yet.
    Open,
    /// Somebody drove the run.
    Taken,
    /// Nobody will ever carry out this request.
    Refused {
        /// Who refused it.
        at: String,
        /// Why it was refused.
        reason: String,
    },
}

/// How far a run was driven.
#[derive(Debug, Clone, PartialEq)]
pub enum Driven {
    /// The run has ended.
    Ended(NodeResult),
    /// The run was driven to where everything waits.
    Waits {
        /// When something becomes due even if nobody writes to the journal; `None` if never.
        until: Option<Timestamp>,
        /// How long that takes. By the clock alone it might seem longer: the time of a space may be ahead of it.
        wait: Option<Duration>,
        /// Where the journal ended when the run was given up.
        head: Seq,
    },
}

/// How far a run is to be driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// To its end.
    Ended,
    /// To its end, or until everything has waited for this long.
    Idle(Duration),
    /// The same; questions to a person who was there where the run was submitted stay open for that person.
    IdleOrAsked(Duration),
    /// To its end, or until it has waited this long for a person who was there where it was submitted.
    Asked(Duration),
}

impl Until {
    /// Whether questions stay open for a person who was there where the run was submitted.
    pub(crate) fn leaves_questions_open(self) -> bool {
        matches!(self, Self::IdleOrAsked(_) | Self::Asked(_))
    }

    /// How long everything in `run` has to wait before the run is given up.
    pub(crate) fn patience(self, run: &Run) -> Option<Duration> {
        match self {
            Self::Ended => None,
            Self::Idle(patience) | Self::IdleOrAsked(patience) => Some(patience),
            Self::Asked(patience) => Some(patience).filter(|_| run.count_requests() > 0),
        }
    }
}

impl Runner {
    /// Drives a run here until it has ended, or until nothing of it has been under way for `patience` and nothing
    /// becomes due within another `patience`: it waits for a person, or for a point in time. What it waits for is in
    /// its journal; whoever drives it next, then or when somebody writes to the journal, continues it.
    ///
    /// # Errors
    ///
    /// As [`Runner::drive`].
    pub async fn drive_while_due(&self, run: RunId, patience: Duration) -> Result<Driven, RunnerError> {
        self.drive_for(run, Until::Idle(patience), None, || ()).await
    }

    /// Drives a run here whose process is gone: to its end, or, if there is a `patience`, as
    /// [`Runner::drive_while_due`] does, for a process that is there for another run. Then questions stay open for the
    /// person who was there where the run was submitted, even if nobody is there to answer here (E9.14). The run counts
    /// as `busy` while it does more than wait. `claimed` is called once no other process can take it over.
    ///
    /// # Errors
    ///
    /// As [`Runner::drive`].
    pub async fn drive_leftover(
        &self,
        run: RunId,
        patience: Option<Duration>,
        busy: &BusyRun,
        claimed: impl FnOnce(),
    ) -> Result<Driven, RunnerError> {
        let until = patience.map_or(Until::Ended, Until::IdleOrAsked);
        self.drive_for(run, until, Some(busy), claimed).await
    }

    /// Drives a run here until it has ended, or until for `patience` it has waited only for a person who was there
    /// where it was submitted.
    ///
    /// # Errors
    ///
    /// As [`Runner::drive`]; `Leaving` if it waits for a person.
    pub async fn drive_until_asked(&self, run: RunId, patience: Duration) -> Result<NodeResult, RunnerError> {
        match self.drive_for(run, Until::Asked(patience), None, || ()).await? {
            Driven::Ended(result) => Ok(result),
            Driven::Waits { .. } => Err(RunnerError::Leaving),
        }
    }

    /// Starts nothing more in the runs that are driven here. Each is given up as soon as what is under way has ended;
    /// whoever drives it next continues it. For the end of a process.
    pub fn leave(&self) {
        self.shared.leaving.cancel();
    }

    /// Waits until somebody has called [`Runner::leave`].
    pub async fn wait_for_leave(&self) {
        self.shared.leaving.cancelled().await;
    }

    /// Whether other processes drive its runs.
    #[must_use]
    pub fn has_dispatcher(&self) -> bool {
        self.shared.options.dispatch.is_some()
    }

    /// Has `run` driven by others, or here if there are none, and waits until it has ended, whatever the outcome. For a
    /// run that others drive only its row is read: a thousand of them cost one query at a time. A run that is driven
    /// here counts as `busy` while it does more than wait.
    ///
    /// # Errors
    ///
    /// As [`Runner::drive`].
    pub async fn ensure_driven_to_end(&self, run: RunId, busy: &BusyRun) -> Result<(), RunnerError> {
        let Some(others) = &self.shared.options.dispatch else {
            return self.drive_counted(run, busy).await.map(drop);
        };
        let workspace = self.workspace();
        let mut now = self.hand_over(&**others, run).await?;
        let follower = self.shared.others.follow(workspace, run, now.head);
        let refused = self.wait_for_refusal(&**others, run, now.head);
        let ended = async {
            while !now.has_ended() {
                follower.wait_for_foreign_write().await;
                now = workspace.store().run(workspace.space(), Ref::Id(run)).await?;
                follower.set_head(now.head);
            }
            Ok(())
        };
        // Each branch makes progress while the other queries the store.
        tokio::select! {
            ended = ended => ended,
            error = refused => Err(error),
        }
    }

    /// Has `run` driven by others, unless it has ended. Returns its row before that.
    async fn hand_over(&self, others: &dyn Dispatch, run: RunId) -> Result<RunRow, RunnerError> {
        let workspace = self.workspace();
        let row = workspace.store().run(workspace.space(), Ref::Id(run)).await?;
        if !row.has_ended() {
            others.dispatch(workspace.space(), run, row.head).await?;
        }
        Ok(row)
    }

    /// Returns why nobody will drive `run`, which was handed over when its journal ended at `head`; waits forever once
    /// somebody has driven it.
    ///
    /// A worker on another store does not find the run. The journal does not show this, so whoever only reads the
    /// journal would wait forever.
    async fn wait_for_refusal(&self, others: &dyn Dispatch, run: RunId, head: Seq) -> RunnerError {
        let workspace = self.workspace();
        let mut pause = FIRST_CHECK_DELAY;
        let mut refusal_count = 0;
        loop {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_CHECK_INTERVAL);
            let row = workspace.store().run(workspace.space(), Ref::Id(run)).await;
            // A driver may have given up the run again; the journal has grown then.
            let is_taken = row.is_ok_and(|row| row.driven || row.has_ended() || row.head != head);
            let fate = if is_taken {
                Ok(Fate::Taken)
            } else {
                others.fate(workspace.space(), run, head).await
            };
            match fate {
                Ok(Fate::Refused { at, reason }) => {
                    refusal_count += 1;
                    if refusal_count == MIN_REFUSALS {
                        return RunnerError::Dispatch { at, reason };
                    }
                }
                Ok(Fate::Taken) => return std::future::pending().await,
                Ok(Fate::Open) => refusal_count = 0,
                // If nobody can be asked now, ask again later.
                Err(_) => {}
            }
        }
    }

    /// Has `run` driven by others, and waits until it has ended.
    pub(crate) async fn drive_elsewhere(&self, others: &dyn Dispatch, run: RunId) -> Result<NodeResult, RunnerError> {
        let workspace = self.workspace();
        let handed_over = self.hand_over(others, run).await?;
        let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), run);
        let refused = self.wait_for_refusal(others, run, handed_over.head);
        tokio::pin!(refused);
        loop {
            let events = tokio::select! {
                events = watch.next() => events?,
                error = &mut refused => return Err(error),
            };
            if events.is_none() {
                break;
            }
        }
        let result = watch.run().result().cloned();
        Ok(result.expect("a run that is read to its end has a result"))
    }

    /// Tells the dispatcher that somebody wrote to the journal of `run`, which now ends at `head`.
    pub(crate) async fn wake_elsewhere(&self, run: RunId, head: Seq) {
        if let Some(others) = &self.shared.options.dispatch {
            // What was written is durable, and workers look for runs that nobody drives.
            let _found_later = others.dispatch(self.workspace().space(), run, head).await;
        }
    }
}
