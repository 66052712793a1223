//! Requests to a run: one event, made from what the journal says by then.

use std::borrow::Cow;
use std::sync::Arc;

use folio_engine::event::FORMAT;
use folio_engine::{Event, NodeId, Run, projection};
use folio_memory::{Actor, RunId, roles};
use folio_store::workspace::WorkspaceError;
use folio_store::{Commit, Expected, Record, RequestKey, RunAppend, StoreError, Workspace};

use crate::error::RunnerError;
use crate::memory::turn_of;
use crate::runner::Runner;

/// What became of a request to a run.
#[derive(Debug)]
pub(crate) enum Requested {
    /// It is recorded in the journal.
    Recorded(Box<Event>),
    /// There was nothing to record.
    Nothing,
    /// The run has ended.
    Ended,
}

impl Runner {
    /// A runner for a request that may be repeated: what was recorded under `key` is not done a second
    /// time, and a different request under the same key is refused with `KeyReused`.
    #[must_use]
    pub fn asked_under(&self, key: RequestKey) -> Self {
        Self {
            request_key: Some(Arc::new(key)),
            ..self.clone()
        }
    }

    /// A runner for a request that cannot be made twice.
    pub(crate) fn without_key(&self) -> Self {
        Self {
            request_key: None,
            ..self.clone()
        }
    }

    /// The key under which the request is recorded.
    pub(crate) fn key(&self) -> Option<String> {
        self.request_key.as_ref().map(|key| key.key().to_owned())
    }

    /// The workspace that the request is written to.
    pub(crate) fn workspace_for_write(&self) -> Cow<'_, Workspace> {
        let workspace = &self.shared.workspace;
        match &self.request_key {
            None => Cow::Borrowed(workspace),
            Some(key) => Cow::Owned(workspace.asked_under((**key).clone())),
        }
    }

    /// Whether the request of `by` under the key of [`Runner::asked_under`] is recorded.
    ///
    /// # Errors
    ///
    /// `Store`: `KeyReused` if it was a different request.
    pub(crate) async fn is_request_recorded(&self, by: &Actor) -> Result<bool, RunnerError> {
        match &self.request_key {
            Some(key) => Ok(self.workspace_for_write().is_recorded(by, key.key()).await?),
            None => Ok(false),
        }
    }

    /// Writes a request into the journal of a run.
    pub(crate) async fn request(
        &self,
        run: RunId,
        by: &Actor,
        make_event: impl Fn(&Run) -> Result<Option<Event>, RunnerError>,
    ) -> Result<Requested, RunnerError> {
        roles::may_steer(by)?;
        let workspace = &*self.workspace_for_write();
        let mut actor = by.clone().in_run(run);
        if let Some(key) = &self.request_key
            && workspace.is_recorded(&actor, key.key()).await?
        {
            return Ok(Requested::Nothing);
        }
        workspace.keep_up().await?;
        // Somebody may write to the journal in between; the request is then made from what it says now.
        for _ in 0..100 {
            // Of a run of very many nodes, what was read is there for a request that follows, also if this one takes too
            // long.
            let mut folded = Box::pin(self.shared.folded(run)).await?;
            let head = folded.head();
            // What people do in a run belongs to the run's turn, unless they work in one of their own.
            actor.turn = by.turn.or_else(|| turn_of(&folded));
            if folded.result().is_some() {
                return Ok(Requested::Ended);
            }
            let Some(mut event) = make_event(&folded)? else {
                return Ok(Requested::Nothing);
            };
            workspace.clean_event(&mut event);
            let now = workspace.now();
            let refused = |source| RunnerError::Journal { run, source };
            // Only a version that knows the language of the plan may drive the run from here on.
            let is_raised = matches!(event, Event::PlanEdited { .. }) && folded.format() < FORMAT;
            let raised = is_raised.then_some(Event::FormatRaised { format: FORMAT });
            if let Some(raised) = &raised {
                folded.apply_ahead(now, raised).map_err(refused)?;
            }
            folded.apply_ahead(now, &event).map_err(refused)?;
            // Titles may refer to outputs.
            let bodies = self.bodies();
            let changes = bodies
                .with_outputs_loaded(&folded, |run| projection::changes(run, &event))
                .await?;
            let append = RunAppend {
                run,
                events: raised.into_iter().chain([event.clone()]).collect(),
                status: None,
                title: None,
                so_far: Some(folded.summary()),
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
            let count = 1 + u64::from(is_raised);
            match workspace.commit(commit).await {
                Ok(committed) => {
                    if committed.at == now && !committed.replayed {
                        folded.note_recorded(committed.seq, now, count);
                    }
                    // Others may want to read it.
                    drop(folded);
                    self.shared.others.wake(run);
                    self.wake_elsewhere(run, committed.seq).await;
                    return Ok(Requested::Recorded(Box::new(event)));
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

    pub(crate) async fn request_unless_ended(
        &self,
        run: RunId,
        by: &Actor,
        make_event: impl Fn(&Run) -> Result<Option<Event>, RunnerError>,
    ) -> Result<(), RunnerError> {
        match self.request(run, by, make_event).await? {
            Requested::Recorded(_) | Requested::Nothing => Ok(()),
            Requested::Ended => Err(RunnerError::Ended),
        }
    }
}

/// Whether the part `node` of `run` has ended, so that a request to it has no effect.
pub(crate) fn has_ended(run: &Run, node: Option<NodeId>) -> bool {
    node.and_then(|node| run.node(node))
        .is_some_and(|view| view.result.is_some())
}
