//! Begins a run whose journal comes in several parts.

use folio_memory::keeping::Redaction;
use folio_memory::{RunId, TraceNote, Warning};

use super::record::{forget_request_if, observations_in};
use super::{Workspace, WorkspaceError, long_text, redact};
use crate::commit::Commit;
use crate::error::StoreError;
use crate::parts::{CommittedParts, Giving, Parts, in_parts};

/// What was found in the parts that were passed on.
#[derive(Debug, Default)]
struct Passed {
    warnings: Vec<Warning>,
    observations: u64,
}

impl Workspace {
    /// Writes the commits that `parts` yields as if they were one, without the secrets in them. The first one begins a
    /// run, and the others continue it.
    ///
    /// # Errors
    ///
    /// As [`Workspace::commit`] for the first one, and as [`Store::commit_parts`](crate::Store::commit_parts);
    /// `Invalid` for one that does not belong to that run.
    pub async fn commit_parts(&self, parts: Parts) -> Result<CommittedParts, WorkspaceError> {
        let (sender, cleaned) = in_parts();
        let cleaning = self.clean_parts(parts, sender);
        let writing = self.inner.store.commit_parts(cleaned);
        let (passed, written) = tokio::join!(cleaning, writing);
        // If cleaning failed, the writer only sees the end of the parts, so the error of cleaning comes first.
        let (passed, actor) = passed?;
        let committed = written?;
        self.saw(committed.head, committed.at);
        if !passed.warnings.is_empty()
            && let Some(actor) = actor
        {
            let note = TraceNote::new(committed.at, &actor, "memory", "commit");
            self.note(note.with_warnings(&passed.warnings));
        }
        if passed.observations > 0 && !committed.first.replayed {
            Box::pin(self.note_added(passed.observations, committed.at)).await;
        }
        Ok(committed)
    }

    /// Passes on `parts`, each without its secrets, until their end or until nobody receives them.
    async fn clean_parts(
        &self,
        mut parts: Parts,
        sender: Giving,
    ) -> Result<(Passed, Option<folio_memory::Actor>), WorkspaceError> {
        let policy = self.policy().await?;
        let (mut passed, mut first_part) = (Passed::default(), None);
        while let Some(mut commit) = parts.next().await? {
            self.expect_own(&commit)?;
            let run = commit.record.run.as_ref().map(|append| append.run);
            match &first_part {
                None => {
                    // Only the first part is checked: the later ones hold what the engine makes of its events, and what
                    // a fork copies from the log of the space, as it was checked when it was written.
                    self.authorise_write(&commit.actor, &commit.record.changes, run, None, &policy)
                        .await?;
                    if let Some(request) = self.request_under(commit.idempotency_key.as_deref()) {
                        commit.record.request = Some(request);
                    }
                    first_part = Some((commit.actor.clone(), run));
                }
                Some((_, of)) => expect_run(*of, run)?,
            }
            passed.clean(&mut commit, policy.redaction)?;
            if !sender.give(commit).await {
                return Ok((passed, first_part.map(|(actor, _)| actor)));
            }
        }
        sender.end().await;
        Ok((passed, first_part.map(|(actor, _)| actor)))
    }
}

impl Passed {
    fn clean(&mut self, commit: &mut Commit, redaction: Redaction) -> Result<(), WorkspaceError> {
        redact::refuse_secret_threads(&commit.record.changes, redaction)?;
        let warnings = redact::clean_commit(commit, redaction);
        forget_request_if(!warnings.is_empty(), &mut commit.record);
        long_text::move_out(commit);
        self.observations += observations_in(&commit.record.changes);
        for warning in warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        Ok(())
    }
}

fn expect_run(of: Option<RunId>, run: Option<RunId>) -> Result<(), StoreError> {
    if of.is_some() && of == run {
        return Ok(());
    }
    let message = "all parts of one write must be of the same run, and one is of another".to_owned();
    Err(StoreError::Invalid(message))
}
