//! Notes that the lifetime of entries has ended (M7.1.8). Queries are right without these notes; they are for readers
//! of the history.

use std::sync::atomic::Ordering;

use data_encoding::HEXLOWER;
use folio_memory::entry::ImportedTimes;
use folio_memory::keeping::hides_last_change;
use folio_memory::{Actor, Change, Entry, FieldChange, Role};
use sha2::{Digest, Sha256};

use super::{Workspace, WorkspaceError, Write};

/// How many entries one commit notes.
const BATCH: u32 = 500;
/// How often the same expiries are noted under another key, because those of before noted none.
const ATTEMPTS: u32 = 64;

/// How long readers wait before one of them looks again: a second.
const PAUSE_NANOS: i64 = 1_000_000_000;

impl Workspace {
    /// Gives those of `entries` whose end an earlier version noted the time of their last change, which the note hid.
    pub(super) async fn show_last_changes(&self, entries: &mut [Entry]) -> Result<(), WorkspaceError> {
        for entry in entries.iter_mut().filter(|entry| hides_last_change(entry)) {
            let revisions = self.inner.store.history(self.space(), entry.id).await?;
            let last = revisions
                .into_iter()
                .rev()
                .find(|revision| !only_notes_end(&revision.change));
            if let Some(last) = last {
                entry.updated_at = match last.change {
                    Change::AddEntry(new) => ImportedTimes::times(new.fields.brought, last.at).1,
                    _ => last.at,
                };
            }
        }
        Ok(())
    }

    /// Notes every entry whose lifetime has ended with one revision each, stamped with the end itself. Returns how many
    /// were noted.
    ///
    /// Any number of processes may do this at once. Pinned and archived entries do not expire.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn note_ended(&self) -> Result<u64, WorkspaceError> {
        let actor = Actor::new(Role::Cleaner, "expiry");
        let mut noted_count = 0;
        let mut last = (Vec::new(), 0);
        // Another process may have a clock that is ahead.
        self.load_latest_instant().await?;
        loop {
            let ended = self.inner.store.ended(&self.inner.space, self.now(), BATCH).await?;
            if ended.is_empty() {
                return Ok(noted_count);
            }
            // The commit under the key may have found an entry pinned, which has been unpinned since: then what has
            // ended is noted under another key.
            let attempt = if last.0 == ended { last.1 + 1 } else { 0 };
            if attempt == ATTEMPTS {
                return Ok(noted_count);
            }
            let mut key = Sha256::new();
            let mut changes = Vec::with_capacity(ended.len());
            for (entry, end) in &ended {
                key.update(entry.to_bytes());
                key.update(end.as_nanos().to_be_bytes());
                changes.push(Change::PatchEntry {
                    entry: *entry,
                    fields: vec![FieldChange::Ended(*end)],
                    expected_version: None,
                    base_version: None,
                });
            }
            if attempt > 0 {
                key.update(attempt.to_be_bytes());
            }
            let key = HEXLOWER.encode(&key.finalize());
            let write = Write {
                // A clock that is ahead for a moment must not take the space with it only because somebody reads.
                at: ended.iter().map(|(_, end)| *end).max(),
                idempotency_key: Some(format!("expired/{key}")),
                ..Write::of(changes)
            };
            let committed = self.record(&actor, write).await?.committed;
            if !committed.replayed {
                noted_count += committed.entries.iter().filter(|entry| entry.changed).count() as u64;
            }
            last = (ended, attempt);
        }
    }

    /// Starts, at most once a second and never two at a time, a background search for entries whose lifetime has ended.
    /// Readers call this; they neither wait for the search nor see its result.
    pub(super) fn notice_ended(&self) {
        let now = self.now().as_nanos();
        let next_look = self.inner.looks_again.load(Ordering::Relaxed);
        // Somebody may have set the clock back.
        let is_far = next_look < i64::MAX && next_look.saturating_sub(now) > PAUSE_NANOS;
        let is_ours = (now >= next_look || is_far)
            && self
                .inner
                .looks_again
                .compare_exchange(next_look, i64::MAX, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !is_ours {
            return;
        }
        let search = Search(self.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // If this fails, a later reader looks again.
            drop(runtime.spawn(async move { search.0.note_ended().await }));
        }
    }
}

/// A background search. No other one begins before it has ended: both would note the same entries.
struct Search(Workspace);

impl Drop for Search {
    fn drop(&mut self) {
        let next = self.0.now().as_nanos().saturating_add(PAUSE_NANOS);
        self.0.inner.looks_again.store(next, Ordering::Relaxed);
    }
}

/// Whether `change` notes, as earlier versions did, that a lifetime has ended, and does nothing else.
fn only_notes_end(change: &Change) -> bool {
    matches!(change, Change::PatchEntry { fields, .. } if matches!(fields[..], [FieldChange::Expired(_)]))
}
