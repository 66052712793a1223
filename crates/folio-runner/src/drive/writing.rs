//! Writes what a run gathered, and takes in what somebody else wrote meanwhile.

use folio_engine::Event;
use folio_memory::{Actor, Role, Seq, Timestamp};
use folio_store::{Commit, Committed, Expected, Journal, Record, RunAppend, StoreError};

use super::{Done, Drive};
use crate::error::RunnerError;
use crate::pending_writes::Writing;
use crate::steps::status_of;
use crate::watch::{has_known_end, lost_end};

/// How often in a row a commit is rebuilt because somebody else wrote to the journal in between.
const CONFLICTS_MAX: u32 = 100;

impl Drive {
    /// Writes what was gathered, and waits for it.
    pub(super) async fn write_and_wait(&mut self) -> Result<(), RunnerError> {
        self.update_pages_text().await;
        let (commit, writing) = self.next_commit();
        let written = self.written_to(commit).await;
        self.handle_write_result(writing, written).await
    }

    /// Starts to write what was gathered while the run goes on.
    pub(super) async fn write_in_background(&mut self) {
        self.update_pages_text().await;
        let (commit, writing) = self.next_commit();
        let written = tokio::spawn(self.written_to(commit));
        self.pending_writes.write(writing, written);
    }

    /// Writes `commit`. If something would be lost otherwise, an outage of the store is waited out.
    fn written_to(&self, commit: Commit) -> impl Future<Output = Result<Committed, RunnerError>> + Send + use<> {
        let patience = self.patience.would_lose().then(|| self.patience.clone());
        let workspace = self.shared.workspace.clone();
        async move {
            match patience {
                Some(patience) => Box::pin(patience.commit(commit)).await,
                None => Ok(workspace.commit(commit).await?),
            }
        }
    }

    /// Notes whether something would be lost if the run were given up: of `outcomes`, of others that are not durable,
    /// or of what is under way.
    pub(super) fn note_would_lose(&self, outcomes: &[Done]) {
        let mut outcomes = outcomes.iter().chain(self.pending_writes.undurable_outcomes());
        let would_lose =
            outcomes.any(Done::is_lost_if_unrecorded) || self.under_way.calls.values().any(|call| !call.is_repeatable);
        self.patience.set_would_lose(would_lose);
    }

    /// The commit that writes the gathered batch.
    fn next_commit(&mut self) -> (Commit, Writing<Done>) {
        let (mut batch, mut writing) = self.pending_writes.take();
        writing.patched = self.remove_archived_patches(&mut batch.changes);
        let workspace = &self.shared.workspace;
        let (id, head) = (self.run.id(), self.followed.head());
        let append = RunAppend {
            run: id,
            events: batch.events,
            status: status_of(&self.run),
            title: None,
            so_far: Some(self.run.summary()),
        };
        let mut expected = vec![
            Expected::RunHead {
                run: id,
                head,
                fence: Some(self.fence),
            },
            Expected::Policy(self.memory.policy.version()),
        ];
        writing.writes = self.locks.names_to_store(&self.run);
        if let Some(names) = writing.writes.clone() {
            expected.push(Expected::Writes { run: id, names });
        }
        let commit = Commit {
            space: workspace.space().clone(),
            at: self.time.now(workspace),
            actor: self.actor(),
            idempotency_key: None,
            expected,
            record: Record {
                run: Some(append),
                ..Record::of(batch.changes)
            },
            blobs: batch.blobs,
        };
        (commit, writing)
    }

    /// Handles the outcome of a write, and begins the calls of the batch.
    ///
    /// If somebody else wrote to the journal in between (a request to stop) or changed the policy, nothing was written.
    /// The run is then folded anew with that in it, and the outcomes of what was durably begun are applied again.
    pub(super) async fn handle_write_result(
        &mut self,
        writing: Writing<Done>,
        written: Result<Committed, RunnerError>,
    ) -> Result<(), RunnerError> {
        match written {
            Ok(committed) => {
                self.written(writing, &committed);
                Ok(())
            }
            Err(RunnerError::Store(error)) if self.can_retry_commit(&error, &writing.patched).await? => {
                self.refused(writing, &error).await
            }
            Err(error) => Err(error),
        }
    }

    /// Begins what waited for the write.
    fn written(&mut self, writing: Writing<Done>, committed: &Committed) {
        self.conflicts = 0;
        self.unrecorded = None;
        self.follow_to(committed.seq, Some(committed.at));
        if let Some(names) = writing.writes {
            self.locks.mark_stored(names, &self.run);
        }
        match &mut self.pages {
            // It was found in the log, which does not say the handles.
            _ if committed.replayed => self.pages = None,
            Some(pages) => pages.set_handles(&committed.pages),
            None => {}
        }
        self.pending_writes.mark_written(writing.batch);
        self.bodies.mark_written(&writing.bodies);
        let workspace = &self.shared.workspace;
        writing.notes.into_iter().for_each(|note| workspace.note(note));
        for call in writing.calls {
            self.begin(call, writing.batch);
        }
        for ask in writing.asks {
            self.begin_asking(ask, writing.batch);
        }
        for compaction in writing.compactions {
            self.begin_compacting(compaction, writing.batch);
        }
        for check in writing.checks {
            self.begin_checking(check, Some(writing.batch));
        }
        for (executor, question) in writing.called_off {
            self.call_off(executor.as_deref(), question);
        }
        for outcome in writing.outcomes {
            if let Done::Session(session, batch) = outcome {
                let ask_future = session.confirm_recorded();
                self.unpolled_calls.push(Box::pin(
                    async move { Ok(Done::Asked(Box::new(ask_future.await), batch)) },
                ));
            }
        }
        self.note_would_lose(&[]);
    }

    /// Folds the run anew after a write that the store refused, and applies the outcomes again.
    async fn refused(&mut self, writing: Writing<Done>, error: &StoreError) -> Result<(), RunnerError> {
        // Waiting for what other runs write does not count as a conflict: it takes as long as they do.
        if let StoreError::WrittenElsewhere { name, run, head } = error {
            self.locks.note_refusal(&self.shared.workspace, name, *run, *head);
        } else {
            self.conflicts += 1;
        }
        if self.conflicts > CONFLICTS_MAX {
            return Err(self.too_many_conflicts());
        }
        if matches!(error, StoreError::OtherPolicy { .. }) {
            let read = || self.shared.workspace.policy();
            self.memory.renew(self.patience.outlast(read).await?);
        }
        self.note_sleep();
        let read = || self.shared.read(self.run.id());
        let now = self.patience.outlast(read).await?;
        self.read_foreign_writes().await?;
        self.run = now.run;
        self.bodies.clear_unwritten();
        self.pages = None;
        self.configure_run();
        self.locks.follow(&self.run);
        self.follow_to(now.head, now.at);
        self.note_lacking();
        let mut outcomes = self.pending_writes.discard_pending(writing);
        outcomes.retain(|outcome| match outcome {
            Done::Call(_, batch)
            | Done::Asked(_, batch)
            | Done::Session(_, batch)
            | Done::PutAway(_, batch)
            | Done::Checked(_, Some(batch), _) => self.pending_writes.has_written(*batch),
            Done::Checked(_, None, _) => true,
        });
        // What was begun ahead is discarded.
        self.under_way.calls.retain(|_, call| {
            let counts = self.pending_writes.has_written(call.batch);
            if !counts {
                call.cancel.cancel();
            }
            counts
        });
        self.record_sleep().await?;
        self.conclude_all(outcomes).await
    }

    /// Notes what this process lacks of what the rest of the run needs.
    fn note_lacking(&mut self) {
        self.lacking = self.shared.check_needs(&self.run.needs()).err();
    }

    fn too_many_conflicts(&self) -> RunnerError {
        RunnerError::Store(StoreError::Unavailable {
            doing: "write to",
            location: self.shared.workspace.store().location(),
            reason: format!("others wrote to the run's journal {CONFLICTS_MAX} times in a row"),
            source: None,
        })
    }

    /// In whose name the run's journal is written.
    pub(super) fn actor(&self) -> Actor {
        Actor {
            turn: self.memory.turn,
            ..Actor::new(Role::Planner, "runner").in_run(self.run.id())
        }
    }

    /// Takes in what others wrote to the journal.
    pub(super) async fn catch_up(&mut self) -> Result<(), RunnerError> {
        self.note_sleep();
        let journal = self.read_foreign_writes().await?;
        // Whoever asked for something wrote that onto the run's pages.
        self.pages = None;
        for (at, event) in &journal.events {
            self.run
                .apply(*at, event)
                .map_err(|source| self.journal_error(source))?;
        }
        // An edit may need what this process does not have, and another edit or the end of the run may need it no more.
        let is_edit = |event: &Event| matches!(event, Event::PlanEdited { .. });
        if self.lacking.is_some() || journal.events.iter().any(|(_, event)| is_edit(event)) {
            self.note_lacking();
        }
        if journal.head > self.followed.head() {
            self.follow_to(journal.head, journal.events.last().map(|(at, _)| *at));
        }
        Ok(())
    }

    /// Notes that `run` knows the journal up to commit `head`, recorded at `at`.
    fn follow_to(&mut self, head: Seq, at: Option<Timestamp>) {
        self.followed.set_head(head);
        self.followed_at = at;
    }

    /// What others wrote to the journal. Fails if one of them drives the run by now, or if a part of the journal that
    /// is known here is lost.
    async fn read_foreign_writes(&mut self) -> Result<Journal, RunnerError> {
        let workspace = &self.shared.workspace;
        let (store, space, known) = (workspace.store(), workspace.space(), self.followed.head());
        let run = self.run.id();
        let read = || store.journal(space, run, known);
        let journal = self.patience.outlast(read).await?;
        // Only then: what was read is of the same store, or of an earlier one. If it lacks what is known of the journal,
        // whoever drives the run next begins with what is there.
        let read = || has_known_end(&**store, space, run, known, self.followed_at);
        if !self.patience.outlast(read).await? {
            return Err(lost_end(&**store).into());
        }
        // Others ask for something; what a driver writes says that this one was away for longer than its lease.
        let is_of_a_driver = |event: &Event| {
            matches!(
                event,
                Event::Resumed { .. } | Event::Started { .. } | Event::Finished { .. }
            )
        };
        if journal.events.iter().any(|(_, event)| is_of_a_driver(event)) {
            let detail = Some("it was taken over".to_owned());
            let run = self.run.id().to_string();
            return Err(StoreError::RunTaken { run, detail }.into());
        }
        Ok(journal)
    }
}
