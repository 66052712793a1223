//! The life of entries apart from plain changes: they are confirmed, claimed, replaced, reopened, restored.

use std::time::Duration;

use folio_memory::entry::{Outcome, check_text, without_nul};
use folio_memory::history::{self, Recorded, Version};
use folio_memory::id::{EntryRef, Ref};
use folio_memory::lifecycle;
use folio_memory::query::MAX_LIMIT;
use folio_memory::roles::{self, Operation};
use folio_memory::view::is_blank;
use folio_memory::{Actor, Change, Entry, EntryKind, EntryQuery, FieldChange, Invalid, Link, Owner, Relation, Status};

use super::patch::{Guard, Trying};
use super::{Workspace, WorkspaceError, Write, Written};
use crate::commit::Expected;
use crate::error::StoreError;

/// How often an operation is retried because of concurrent changes.
const ATTEMPTS: u32 = 8;

impl Workspace {
    /// Confirms that an entry still holds: its lifetime starts anew, with its original length (M7.1.6).
    ///
    /// # Errors
    ///
    /// `Conflict` if it is archived, or the actor is a tool; `Invalid` if it is a step, a block of a log or a summary,
    /// which only their writers change; `NotFound`.
    pub async fn confirm(&self, actor: &Actor, entry: EntryRef, guard: Guard) -> Result<Written, WorkspaceError> {
        let changes = |current: &Entry| Ok((lifecycle::confirm(current, self.now())?, Vec::new()));
        self.patch_under(actor, entry, guard, Trying::to("confirm"), &[], changes)
            .await
    }

    /// Marks an entry as done, or as resolved if it is knowledge (M7.5.41). Doing so twice has no further effect.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is a step, a block of a log or a summary, which only their writers change; `Conflict` if it is
    /// archived or the actor may not change it; `NotFound`.
    pub async fn complete(&self, actor: &Actor, entry: EntryRef, guard: Guard) -> Result<Written, WorkspaceError> {
        let changes = |current: &Entry| drop_if_unchanged(current, lifecycle::complete(current)?);
        self.patch_under(actor, entry, guard, Trying::to("complete"), &[], changes)
            .await
    }

    /// Marks an observation as resolved, and records whether it came true: calibration counts this (M7.11.6).
    ///
    /// # Errors
    ///
    /// As [`Workspace::complete`].
    pub async fn resolve_as(
        &self,
        actor: &Actor,
        entry: EntryRef,
        outcome: Outcome,
        guard: Guard,
    ) -> Result<Written, WorkspaceError> {
        let changes = |current: &Entry| {
            let mut changes = lifecycle::complete(current)?;
            changes.push(FieldChange::Outcome(Some(outcome)));
            drop_if_unchanged(current, changes)
        };
        self.patch_under(actor, entry, guard, Trying::to("complete"), &[], changes)
            .await
    }

    /// Makes resolved entries active and done ones open again (M7.5.39). A live entry stays unchanged.
    ///
    /// # Errors
    ///
    /// As [`Workspace::complete`].
    pub async fn reopen(&self, actor: &Actor, entry: EntryRef, guard: Guard) -> Result<Written, WorkspaceError> {
        let changes = |current: &Entry| Ok((lifecycle::reopen(current)?, Vec::new()));
        self.patch_under(actor, entry, guard, Trying::to("update"), &[], changes)
            .await
    }

    /// Takes an entry out of the archive, back to the status that it had before (M7.5.39). Only for people.
    ///
    /// # Errors
    ///
    /// `Conflict` unless the actor is a person; `NotFound`.
    pub async fn restore(&self, actor: &Actor, entry: EntryRef, guard: Guard) -> Result<Written, WorkspaceError> {
        if let Err(denied) = roles::check_permission(actor, Operation::Restore, false, &entry.to_string()) {
            let refused = WorkspaceError::Refused(denied);
            let archived = self.read_entry(entry).await.ok();
            self.note_refusal(actor, "restore", archived.as_ref(), &refused);
            return Err(refused);
        }
        let versions = self.versions(entry).await?;
        let is_archived = |version: &&Version| version.entry.fields.status == Status::Archived;
        let before = versions
            .iter()
            .rev()
            .skip_while(is_archived)
            .map(|version| version.entry.fields.status)
            .next();
        let changes = |current: &Entry| {
            if current.fields.erased.is_some() {
                let message = format!("the content of {} was erased, so it stays archived", current.handle);
                return Err(Invalid::new("archived", "status", message).into());
            }
            Ok((lifecycle::restore(current, before), Vec::new()))
        };
        self.patch_under(actor, entry, guard, Trying::to("restore"), &[], changes)
            .await
    }

    /// Claims a piece of work for `owner`, for as long as `lease` says or until it is done (M7.4.35). The same owner
    /// may claim it again, which renews the lease.
    ///
    /// # Errors
    ///
    /// `Conflict` names the owner who has claimed it, also where the same request claimed it before and lost it since;
    /// `Invalid` if it is not open work, or names what has to be done before it; `NotFound`.
    pub async fn claim(
        &self,
        actor: &Actor,
        entry: EntryRef,
        owner: &Owner,
        lease: Option<Duration>,
        guard: Guard,
    ) -> Result<Written, WorkspaceError> {
        let entry = self.read_entry(entry).await?.id;
        let expected = [Expected::MayBegin { entry }];
        let trying = Trying::to("claim").expecting(&expected);
        let changes = |current: &Entry| Ok((lifecycle::claim(current, owner, lease, self.now())??, Vec::new()));
        let written = self
            .patch_under(actor, Ref::Id(entry), guard, trying, &[], changes)
            .await?;
        // Whoever repeats a request that claimed it wants to know whether it is still theirs.
        if written.replayed
            && let Ok(Err(other)) = lifecycle::claim(&written.entry, owner, lease, self.now())
        {
            return Err(other.into());
        }
        Ok(written)
    }

    /// Gives up a piece of work that `owner` has claimed, so that it is open again.
    ///
    /// # Errors
    ///
    /// `Conflict` names the owner who has claimed it; `NotFound`.
    pub async fn give_up(
        &self,
        actor: &Actor,
        entry: EntryRef,
        owner: &Owner,
        guard: Guard,
    ) -> Result<Written, WorkspaceError> {
        let changes = |current: &Entry| Ok((lifecycle::give_up(current, owner)??, Vec::new()));
        self.patch_under(actor, entry, guard, Trying::to("update"), &[], changes)
            .await
    }

    /// Replaces the only occurrence of `old` in an entry's text by `new` (M7.4.36).
    ///
    /// # Errors
    ///
    /// `Invalid` if it does not occur, or more than once, or if nobody may change the text; `NotFound`.
    pub async fn str_replace(
        &self,
        actor: &Actor,
        entry: EntryRef,
        old: &str,
        new: &str,
        guard: Guard,
    ) -> Result<Written, WorkspaceError> {
        let mut attempt = 1;
        let mut corrected = Vec::new();
        let new = without_nul(new.to_owned(), &mut corrected);
        loop {
            let read = self.read_entry(entry).await?;
            let whole = self.whole_text(&read).await?;
            let mut is_another = false;
            let changes = |current: &Entry| {
                lifecycle::check_may_change(current)?;
                let (now, then) = (&current.fields, &read.fields);
                is_another = (&now.body, &now.body_ref) != (&then.body, &then.body_ref);
                if is_another {
                    let source = StoreError::StaleVersion {
                        entry: current.handle.to_string(),
                        found: current.version,
                        expected: read.version,
                    };
                    let current = Box::new(current.clone());
                    let at = self.now();
                    return Err(WorkspaceError::Stale { current, at, source });
                }
                let text = lifecycle::str_replace(&whole, old, &new)?;
                check_text(&text, "content")?;
                if is_blank(&text) {
                    return Err(Invalid::new("content_empty", "content", "would be empty").into());
                }
                drop_if_unchanged(current, vec![FieldChange::Body(text)])
            };
            let written = self
                .try_patch(actor, entry, guard.clone(), Trying::to("update"), &[], changes)
                .await;
            // The text was changed after it was read in full.
            if !is_another || attempt == ATTEMPTS {
                if let Err(error) = &written {
                    self.note_failed_patch(actor, "update", entry, error).await;
                }
                return Ok(written?.after(corrected));
            }
            attempt += 1;
        }
    }

    /// Puts `new` in the place of `old`: `old` is settled from now on, and the two are linked (M7.4.37). With an
    /// expected version, an entry that was changed meanwhile is left alone.
    ///
    /// # Errors
    ///
    /// `Conflict` if `old` is archived or at another version; `Invalid` if `new` leads back to `old`, or is archived or
    /// past its lifetime; `NotFound`.
    pub async fn supersede(
        &self,
        actor: &Actor,
        old: EntryRef,
        new: EntryRef,
        guard: Guard,
    ) -> Result<Written, WorkspaceError> {
        self.supersede_as(actor, old, new, None, guard).await
    }

    /// Like [`Workspace::supersede`], and records whether what `old` said came true, if known: calibration counts this
    /// (M7.11.6).
    ///
    /// # Errors
    ///
    /// As [`Workspace::supersede`].
    pub async fn supersede_as(
        &self,
        actor: &Actor,
        old: EntryRef,
        new: EntryRef,
        outcome: Option<Outcome>,
        guard: Guard,
    ) -> Result<Written, WorkspaceError> {
        let (old, new) = (self.read_entry(old).await?, self.read_entry(new).await?);
        let expected = [Expected::MayReplace {
            by: new.id,
            entries: vec![old.id],
        }];
        let link = Change::AddLink(Link {
            src: new.id.to_string(),
            rel: Relation::Supersedes,
            dst: old.id.to_string(),
        });
        let changes = |current: &Entry| {
            lifecycle::check_may_change(current)?;
            let mut changes = vec![FieldChange::SupersededBy(Some(new.id))];
            changes.extend(outcome.map(|outcome| FieldChange::Outcome(Some(outcome))));
            drop_if_unchanged(current, changes)
        };
        let trying = Trying::to("supersede").expecting(&expected);
        self.patch_under(actor, Ref::Id(old.id), guard, trying, &[link], changes)
            .await
    }

    /// Archives every resolved observation that is not pinned, all or none (M7.5.43), with `reason`. Returns how many
    /// there were.
    ///
    /// # Errors
    ///
    /// `Conflict` if the actor is neither a person nor one that tidies, or if others keep changing the entries;
    /// `Unavailable`.
    pub async fn clear_resolved(&self, actor: &Actor, reason: Option<String>) -> Result<u64, WorkspaceError> {
        let note_name = ("scratch_page", "clear_resolved");
        self.authorise(actor, Operation::Archive, "what is resolved", note_name)?;
        let mut attempt = 1;
        loop {
            let changes = self.all_resolved().await?;
            let count = changes.len() as u64;
            if count == 0 {
                return Ok(0);
            }
            let write = Write {
                reason: Some(reason.clone().unwrap_or_else(|| "clear_resolved".to_owned())),
                ..Write::of(changes)
            };
            match self.record(actor, write).await {
                Ok(_) => return Ok(count),
                Err(WorkspaceError::Store(StoreError::StaleVersion { .. })) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    async fn all_resolved(&self) -> Result<Vec<Change>, WorkspaceError> {
        let mut query = EntryQuery {
            kinds: vec![EntryKind::Observation],
            status: vec![Status::Resolved],
            pinned: Some(false),
            include_expired: true,
            include_superseded: true,
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        let mut changes = Vec::new();
        loop {
            let answer = self.read_entries(&query).await?;
            changes.extend(answer.items.iter().map(|entry| Change::PatchEntry {
                entry: entry.id,
                fields: vec![FieldChange::Status(Status::Archived)],
                expected_version: Some(entry.version),
                base_version: None,
            }));
            match answer.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(changes),
            }
        }
    }

    /// Returns the versions of an entry, oldest first: what each changed, and what it overwrote.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn versions(&self, entry: EntryRef) -> Result<Vec<Version>, WorkspaceError> {
        let handle = self.read_entry(entry).await?.handle;
        let revisions = self.history(entry).await?;
        let recorded = revisions.into_iter().map(|revision| Recorded {
            seq: revision.seq,
            at: revision.at,
            actor: revision.actor,
            change: revision.change,
            reason: revision.reason,
        });
        Ok(history::versions(handle, recorded))
    }
}

/// Returns `changes`, or none if they would leave everything as it is.
fn drop_if_unchanged(
    current: &Entry,
    changes: Vec<FieldChange>,
) -> Result<(Vec<FieldChange>, Vec<folio_memory::Warning>), WorkspaceError> {
    let is_there = current.is_unchanged_by(&changes);
    Ok((if is_there { Vec::new() } else { changes }, Vec::new()))
}
