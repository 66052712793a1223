//! What somebody wants of a run: one event, written onto what the journal says by then.

use std::borrow::Cow;
use std::sync::Arc;

use folio_engine::{Event, NodeId, Run, projection};
use folio_memory::{Actor, RunId, Seq, roles};
use folio_store::workspace::WorkspaceError;
use folio_store::{Commit, Expected, Record, RequestKey, RunAppend, StoreError, Workspace};

use crate::error::RunnerError;
use crate::runner::Runner;
use crate::watch::Watch;

/// What became of something that somebody wants of a run.
#[derive(Debug)]
pub(crate) enum Requested {
    /// It stands in the journal.
    Recorded(Box<Event>),
    /// There was nothing to record.
    Nothing,
    /// The run has ended.
    Ended,
}

impl Runner {
    /// The same for something that may be asked for again: what was recorded under the key of `asked` is not done a second time, and a
    /// second request that is another one is refused with `KeyReused`.
    #[must_use]
    pub fn asked_under(&self, asked: RequestKey) -> Self {
        Self {
            asked: Some(Arc::new(asked)),
            ..self.clone()
        }
    }

    /// The same for something that cannot be asked for twice.
    pub(crate) fn without_key(&self) -> Self {
        Self {
            asked: None,
            ..self.clone()
        }
    }

    /// Under what is recorded what is asked for.
    pub(crate) fn key(&self) -> Option<String> {
        self.asked.as_ref().map(|asked| asked.key().to_owned())
    }

    /// Where what is asked for is written.
    pub(crate) fn written_to(&self) -> Cow<'_, Workspace> {
        let workspace = &self.shared.workspace;
        match &self.asked {
            None => Cow::Borrowed(workspace),
            Some(asked) => Cow::Owned(workspace.asked_under((**asked).clone())),
        }
    }

    /// Writes what somebody wants of a run into its journal.
    pub(crate) async fn request(
        &self,
        run: RunId,
        by: &Actor,
        make: impl Fn(&Run) -> Result<Option<Event>, RunnerError>,
    ) -> Result<Requested, RunnerError> {
        roles::may_steer(by)?;
        let workspace = &*self.written_to();
        let actor = by.clone().in_run(run);
        if let Some(asked) = &self.asked
            && workspace.is_recorded(&actor, asked.key()).await?
        {
            return Ok(Requested::Nothing);
        }
        workspace.keep_up().await?;
        let slot = self.shared.folds.slot(run);
        let (requested, nodes) = {
            // Whoever asks something else of the run meanwhile waits, and reads on from what comes of it.
            let mut kept = slot.lock().await;
            let requested = self.write(workspace, &actor, run, &mut kept, make).await;
            (requested, kept.as_ref().map(|kept| kept.run().len()))
        };
        self.shared.folds.leave(run, slot, nodes);
        let (requested, written) = requested?;
        if let Some(written) = written {
            self.wake_elsewhere(run, written).await;
        }
        Ok(requested)
    }

    /// The same with the run as it is `kept`, or was; and the commit that was written.
    async fn write(
        &self,
        workspace: &Workspace,
        actor: &Actor,
        run: RunId,
        kept: &mut Option<Arc<Watch>>,
        make: impl Fn(&Run) -> Result<Option<Event>, RunnerError>,
    ) -> Result<(Requested, Option<Seq>), RunnerError> {
        // Somebody may write to the journal in between; the request is then made on what it says now.
        for _ in 0..100 {
            let mut folded = self.shared.own(run, kept.take()).await?;
            let made = match folded.run().result() {
                Some(_) => Ok(Err(Requested::Ended)),
                None => make(folded.run()).map(|made| made.ok_or(Requested::Nothing)),
            };
            let mut event = match made {
                Ok(Ok(event)) => event,
                // What is not written has changed nothing.
                Ok(Err(instead)) => {
                    *kept = Some(Arc::new(folded));
                    return Ok((instead, None));
                }
                Err(error) => {
                    *kept = Some(Arc::new(folded));
                    return Err(error);
                }
            };
            workspace.clean_event(&mut event);
            let now = workspace.now();
            let head = folded.head();
            folded.foresee(now, &event)?;
            let changes = projection::changes(folded.run(), &event);
            let append = RunAppend {
                run,
                events: vec![event.clone()],
                status: None,
                title: None,
                so_far: Some(folded.run().so_far()),
            };
            let commit = Commit {
                space: workspace.space().clone(),
                at: now,
                actor: actor.clone(),
                idempotency_key: self.key(),
                expected: vec![Expected::RunHead { run, head, fence: None }],
                record: Record {
                    run: Some(append),
                    ..Record::of(changes)
                },
                blobs: Vec::new(),
            };
            match workspace.commit(commit).await {
                Ok(committed) => {
                    *kept = folded.came(now, &event).await.map(Arc::new);
                    return Ok((Requested::Recorded(Box::new(event)), Some(committed.seq)));
                }
                Err(WorkspaceError::Store(StoreError::StaleRun { .. })) => tokio::task::yield_now().await,
                Err(error) => return Err(error.into()),
            }
        }
        Err(RunnerError::Store(StoreError::Unavailable {
            doing: "write to",
            location: workspace.store().location(),
            reason: "the run's journal grew 100 times while the request was being written".to_owned(),
            source: None,
        }))
    }

    pub(crate) async fn must_go_on(
        &self,
        run: RunId,
        by: &Actor,
        make: impl Fn(&Run) -> Result<Option<Event>, RunnerError>,
    ) -> Result<(), RunnerError> {
        match self.request(run, by, make).await? {
            Requested::Recorded(_) | Requested::Nothing => Ok(()),
            Requested::Ended => Err(RunnerError::Ended),
        }
    }
}

/// Whether the part `node` of `run` has ended, so that nothing can become of what somebody wants of it.
pub(crate) fn has_ended(run: &Run, node: Option<NodeId>) -> bool {
    node.and_then(|node| run.node(node))
        .is_some_and(|view| view.result.is_some())
}
