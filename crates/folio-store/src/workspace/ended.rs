//! Noting that the time of entries is past (M7.1.8). Queries are right without it: this is for those who look back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use data_encoding::HEXLOWER;
use folio_memory::{Actor, Change, FieldChange, Role};
use sha2::{Digest, Sha256};

use super::{Workspace, WorkspaceError, Write};

/// Entries that one commit notes.
const BATCH: u32 = 500;

/// How soon a reader looks again.
const PAUSE: Duration = Duration::from_secs(1);

impl Workspace {
    /// Notes every entry whose time is past, each by one revision that is stamped with the end itself. How many.
    ///
    /// Any number of processes may do so at once. Pinned and archived entries do not end.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn note_ended(&self) -> Result<u64, WorkspaceError> {
        let actor = Actor::new(Role::Cleaner, "expiry");
        let mut noted = 0;
        // Others may have a clock that is ahead.
        self.look_how_late_it_is().await?;
        loop {
            let ended = self.inner.store.ended(&self.inner.space, self.now(), BATCH).await?;
            if ended.is_empty() {
                return Ok(noted);
            }
            let mut key = Sha256::new();
            let mut changes = Vec::with_capacity(ended.len());
            for (entry, end) in &ended {
                key.update(entry.to_bytes());
                key.update(end.as_nanos().to_be_bytes());
                changes.push(Change::PatchEntry {
                    entry: *entry,
                    fields: vec![FieldChange::Expired(*end)],
                    expected_version: None,
                    base_version: None,
                });
            }
            let key = HEXLOWER.encode(&key.finalize());
            let write = Write {
                idempotency_key: Some(format!("expired/{key}")),
                ..Write::of(changes)
            };
            let committed = self.record(&actor, write).await?.committed;
            if committed.replayed {
                // Another process notes the same at this moment, and goes on with the rest.
                return Ok(noted);
            }
            noted += committed.entries.iter().filter(|entry| entry.changed).count() as u64;
        }
    }

    /// What a reader does besides reading: now and then it has somebody look for what has ended. It neither waits for
    /// that nor hears of it.
    pub(super) fn notice_ended(&self) {
        let now = self.now().as_nanos();
        let due = self.inner.looks_again.load(Ordering::Relaxed);
        let next = now.saturating_add(i64::try_from(PAUSE.as_nanos()).unwrap_or(i64::MAX));
        let is_ours = now >= due
            && self
                .inner
                .looks_again
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_ours && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let workspace = self.clone();
            // Whoever reads next looks again, should this fail.
            drop(runtime.spawn(async move { workspace.note_ended().await }));
        }
    }
}
