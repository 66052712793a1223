//! The one place from which commits go to the store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use folio_memory::keeping::Redaction;
use folio_memory::{
    Actor, Change, Entry, EntryId, EntryKind, FieldChange, Invalid, Pii, Seq, SpaceName, Timestamp, TraceNote, Warning,
};

use super::{PolicyInForce, Workspace, WorkspaceError, long_text, redact};
use crate::commit::{Blob, Commit, Committed, Expected, Record, RunAppend};
use crate::error::StoreError;

/// How often a write is checked again because the policy of its space changed meanwhile.
const POLICIES_MAX: u32 = 8;

/// A write to be made: atomically, all of it or nothing.
#[derive(Debug, Clone, Default)]
pub struct Write {
    /// Changes of memory, in order.
    pub changes: Vec<Change>,
    /// The time of the commit; the present instant by default. A caller that computed with an instant gives it here.
    pub at: Option<Timestamp>,
    /// Events of a run.
    pub run: Option<RunAppend>,
    /// What must hold; otherwise nothing is written.
    pub expected: Vec<Expected>,
    /// Bodies that the changes and events refer to by hash.
    pub blobs: Vec<Blob>,
    /// The idempotency key: a second write with the same key does nothing.
    pub idempotency_key: Option<String>,
    /// The reason, in the writer's words.
    pub reason: Option<String>,
    /// Whether added entries keep the personal data with which they are flagged, beside what is found in them: it may
    /// have been in an earlier version, which does not come with them. Otherwise only what is found is flagged.
    pub keeps_pii: bool,
    /// The version of the policy under which the changes were drafted, unless it was just read from the store. If
    /// another version is in force, nothing is written, and the caller drafts them again.
    pub drafted_under: Option<u32>,
}

impl Write {
    /// A write of `changes` and nothing else.
    #[must_use]
    pub fn of(changes: Vec<Change>) -> Self {
        Self {
            changes,
            ..Self::default()
        }
    }
}

/// What was written, as it is in the log.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The outcome of the commit.
    pub committed: Committed,
    /// The changes and events without the secrets that were in them. Fold these, not the input: a process that resumes
    /// a run later sees only these.
    pub record: Record,
    /// What was redacted.
    pub warnings: Vec<Warning>,
}

/// Bodies that are already redacted, and the personal data found in them. The policy under which they were cleaned is
/// in [`Write::drafted_under`].
#[derive(Debug, Clone, Default)]
pub(super) struct Cleaned {
    pub(super) blobs: Vec<Blob>,
    pub(super) pii: Vec<Pii>,
}

impl Cleaned {
    /// Flags the personal data found in the bodies on the entry that names them.
    fn note_in(&self, changes: &mut [Change]) {
        for change in changes {
            if let Change::AddEntry(new) = change
                && new.fields.body_ref.is_some()
            {
                new.fields.set(&[FieldChange::PiiFound(self.pii.clone())]);
            }
        }
    }
}

/// A write that is attempted again if the policy of its space changes meanwhile.
struct Pending {
    at: Timestamp,
    /// As it was left by the last attempt: without secrets, and long texts only with their beginnings.
    record: Record,
    blobs: Vec<Blob>,
    expected: Vec<Expected>,
    idempotency_key: Option<String>,
    keeps_pii: bool,
    /// What the last attempt replaced, if there was one.
    cleaned_by: Option<Redaction>,
    /// What was redacted.
    warnings: Vec<Warning>,
}

impl Pending {
    /// The commit for the next attempt, by `policy`; with the bodies that are `cleaned` already.
    fn commit(
        &mut self,
        space: &SpaceName,
        actor: &Actor,
        policy: &PolicyInForce,
        cleaned: &Cleaned,
    ) -> Result<Commit, Invalid> {
        let mut expected = self.expected.clone();
        expected.push(Expected::Policy(policy.version()));
        let mut commit = Commit {
            space: space.clone(),
            at: self.at,
            actor: actor.clone(),
            idempotency_key: self.idempotency_key.clone(),
            expected,
            record: std::mem::replace(&mut self.record, Record::of(Vec::new())),
            blobs: std::mem::take(&mut self.blobs),
        };
        // On a further attempt a long text is only there with its beginning, so it is not redacted again without need.
        if self.cleaned_by != Some(policy.redaction) {
            redact::refuse_secret_threads(&commit.record.changes, policy.redaction)?;
            let flagged = match self.keeps_pii {
                true => pii_in(&commit.record.changes),
                false => HashMap::new(),
            };
            self.warnings
                .extend(redact::clean_commit(&mut commit, policy.redaction));
            for change in &mut commit.record.changes {
                if let Change::AddEntry(new) = change
                    && let Some(pii) = flagged.get(&new.id)
                {
                    new.fields.set(&[FieldChange::PiiFound(pii.clone())]);
                }
            }
            forget_request_if(!self.warnings.is_empty(), &mut commit.record);
            self.cleaned_by = Some(policy.redaction);
        } else {
            // The actor is set anew in each attempt.
            redact::clean_actor(&mut commit.actor, policy.redaction);
        }
        long_text::move_out(&mut commit);
        cleaned.note_in(&mut commit.record.changes);
        self.record = commit.record.clone();
        self.blobs = commit.blobs.clone();
        commit.blobs.extend(cleaned.blobs.iter().cloned());
        Ok(commit)
    }
}

impl Workspace {
    /// Writes `write` in the name of `actor`; durable when this returns.
    ///
    /// Secrets are replaced first. A body that changes by this gets another hash, which the events of the same write
    /// then name.
    ///
    /// # Errors
    ///
    /// `Refused` if the actor's role does not allow all of it; otherwise as [`Store::commit`](crate::Store::commit).
    pub async fn record(&self, actor: &Actor, write: Write) -> Result<Recorded, WorkspaceError> {
        self.record_seen(actor, write, None).await
    }

    /// The same for callers that have read the entry to be changed.
    pub(super) async fn record_seen(
        &self,
        actor: &Actor,
        write: Write,
        seen: Option<&Entry>,
    ) -> Result<Recorded, WorkspaceError> {
        self.record_cleaned(actor, write, seen, Cleaned::default()).await
    }

    /// The same with bodies that were cleaned while they were read.
    pub(super) async fn record_cleaned(
        &self,
        actor: &Actor,
        write: Write,
        seen: Option<&Entry>,
        cleaned: Cleaned,
    ) -> Result<Recorded, WorkspaceError> {
        let run = write.run.as_ref().map(|append| append.run);
        let mut policy = self.policy_to_go_by(&write).await?;
        let mut pending = Pending {
            at: self.instant_for(&write, seen),
            record: Record {
                run: write.run,
                reason: write.reason,
                request: self.request_under(write.idempotency_key.as_deref()),
                ..Record::of(write.changes)
            },
            blobs: write.blobs,
            expected: write.expected,
            idempotency_key: write.idempotency_key,
            keeps_pii: write.keeps_pii,
            cleaned_by: None,
            warnings: Vec::new(),
        };
        let may_try_again = |attempt| write.drafted_under.is_none() && attempt < POLICIES_MAX;
        let mut attempt = 1;
        let committed = loop {
            let changes = &pending.record.changes;
            if let Err(refused) = self.authorise_write(actor, changes, run, seen, &policy).await {
                // It may be allowed by the present policy.
                let (found, expected) = (self.policy().await?, policy.version());
                if found.version() == expected || attempt >= POLICIES_MAX {
                    return Err(refused);
                }
                if write.drafted_under.is_some() {
                    let found = found.version();
                    return Err(StoreError::OtherPolicy { found, expected }.into());
                }
                (policy, attempt) = (found, attempt + 1);
                continue;
            }
            let commit = pending.commit(self.space(), actor, &policy, &cleaned)?;
            match self.inner.store.commit(commit).await {
                Ok(committed) => break committed,
                Err(StoreError::OtherPolicy { .. }) if may_try_again(attempt) => {
                    attempt += 1;
                    policy = self.policy().await?;
                }
                Err(error) => return Err(error.into()),
            }
        };
        let Pending { record, warnings, .. } = pending;
        self.saw_commit(&committed);
        // A repeated request made nothing: the pages that it would have needed may be missing.
        let ensured = record.changes.iter().filter(|_| !committed.replayed);
        for change in ensured {
            if let Change::EnsurePage(page) = change {
                self.remember(page.id);
            }
        }
        self.count_observations(observations_in(&record.changes), &committed)
            .await;
        Ok(Recorded {
            committed,
            record,
            warnings,
        })
    }

    /// The instant of `write`, whose caller has `seen` the entry to be changed.
    fn instant_for(&self, write: &Write, seen: Option<&Entry>) -> Timestamp {
        let at = write.at.unwrap_or_else(|| self.now());
        if !seen.is_some_and(|entry| entry.kind.is_item()) {
            return at;
        }
        // Items are ordered by when they last changed (seed 003).
        let last = self.inner.committed_at.load(Ordering::Relaxed);
        at.max(Timestamp::from_nanos(last.saturating_add(1)))
    }

    /// Counts the observations that `committed` added, of which there may be too many now.
    async fn count_observations(&self, added: u64, committed: &Committed) {
        if added > 0 && !committed.replayed {
            Box::pin(self.note_added(added, committed.at)).await;
        }
    }

    /// Refuses a commit for another space.
    pub(super) fn expect_own(&self, commit: &Commit) -> Result<(), StoreError> {
        if commit.space == self.inner.space {
            return Ok(());
        }
        let message = format!(
            "a commit for space {} was handed to space {}",
            commit.space, self.inner.space
        );
        Err(StoreError::Invalid(message))
    }

    fn saw_commit(&self, committed: &Committed) {
        self.saw(committed.seq, committed.at);
    }

    /// Takes in the latest seq and instant of the space.
    pub(super) fn saw(&self, head: Seq, at: Timestamp) {
        self.inner.notebook.saw(head);
        let nanos = at.as_nanos();
        self.inner.latest.fetch_max(nanos, Ordering::Relaxed);
        self.inner.committed_at.fetch_max(nanos, Ordering::Relaxed);
    }

    /// The policy by which `write` is checked and redacted. The cached one is good enough: the commit finds out whether
    /// it still holds.
    async fn policy_to_go_by(&self, write: &Write) -> Result<Arc<PolicyInForce>, WorkspaceError> {
        let policy = self.policy_as_known().await?;
        match write.drafted_under {
            Some(expected) if expected != policy.version() => {
                let found = policy.version();
                Err(StoreError::OtherPolicy { found, expected }.into())
            }
            _ => Ok(policy),
        }
    }

    /// Writes a commit that was assembled elsewhere, without the secrets in it. A commit that expects a policy is
    /// checked and redacted by that policy.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is for another space, `Refused` if the actor's role does not allow all of it, otherwise as
    /// [`Store::commit`](crate::Store::commit).
    pub async fn commit(&self, mut commit: Commit) -> Result<Committed, WorkspaceError> {
        self.expect_own(&commit)?;
        let expected = commit.expected.iter().find_map(|expected| match expected {
            Expected::Policy(version) => Some(*version),
            _ => None,
        });
        let policy = match expected {
            Some(_) => self.policy_as_known().await?,
            None => self.policy().await?,
        };
        if let Some(expected) = expected.filter(|expected| *expected != policy.version()) {
            let found = policy.version();
            return Err(StoreError::OtherPolicy { found, expected }.into());
        }
        // A commit that expects the end of a run's journal writes what the engine makes of its events, whoever it acts
        // for: the store checks the end and the fence, and nothing has to be read at every step.
        let writes_a_journal = |expected: &Expected| matches!(expected, Expected::RunHead { .. });
        if !commit.expected.iter().any(writes_a_journal) {
            let run = commit.record.run.as_ref().map(|append| append.run);
            self.authorise_write(&commit.actor, &commit.record.changes, run, None, &policy)
                .await?;
        }
        if let Some(request) = self.request_under(commit.idempotency_key.as_deref()) {
            commit.record.request = Some(request);
        }
        redact::refuse_secret_threads(&commit.record.changes, policy.redaction)?;
        let warnings = redact::clean_commit(&mut commit, policy.redaction);
        forget_request_if(!warnings.is_empty(), &mut commit.record);
        long_text::move_out(&mut commit);
        let added = observations_in(&commit.record.changes);
        let actor = (!warnings.is_empty()).then(|| commit.actor.clone());
        let committed = self.inner.store.commit(commit).await?;
        self.saw_commit(&committed);
        if let Some(actor) = actor {
            let note = TraceNote::new(committed.at, &actor, "memory", "commit");
            self.note(note.with_warnings(&warnings));
        }
        self.count_observations(added, &committed).await;
        Ok(committed)
    }
}

/// Drops the fingerprint of a request from which something was redacted: guesses could be tested against it.
pub(super) fn forget_request_if(something_was_taken_out: bool, record: &mut Record) {
    if something_was_taken_out {
        record.request = None;
    }
}

/// The personal data with which the entries that `changes` adds are flagged.
fn pii_in(changes: &[Change]) -> HashMap<EntryId, Vec<Pii>> {
    let flagged = changes.iter().filter_map(|change| match change {
        Change::AddEntry(new) if !new.fields.pii.is_empty() => Some((new.id, new.fields.pii.clone())),
        _ => None,
    });
    flagged.collect()
}

/// How many observations `changes` adds.
pub(super) fn observations_in(changes: &[Change]) -> u64 {
    let is_added = |change: &&Change| matches!(change, Change::AddEntry(new) if new.kind == EntryKind::Observation);
    changes.iter().filter(is_added).count() as u64
}
