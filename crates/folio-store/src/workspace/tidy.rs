//! Tidying: archives and erases what is due, in batches, by any process that runs it.
//!
//! Each batch is one commit that expects the versions that were read. So any number of processes may tidy at once: a
//! second one finds nothing to do.

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use folio_memory::entry::Status;
use folio_memory::keeping::{ArchivedFor, Due, ErasedFor, Watch, due, eviction_key};
use folio_memory::{Actor, Change, Entry, EntryHandle, EntryId, FieldChange, Role, Timestamp};
use serde::Serialize;

use super::policy::PolicyInForce;
use super::{Workspace, WorkspaceError, Write};
use crate::error::StoreError;
use crate::upkeep::{Compaction, WatchPlace, WatchQuery};

/// How many entries one commit archives or erases.
const BATCH: u32 = 500;
/// How many batches of one kind are carried out at a time; the rest is left for the next time.
const BATCHES: usize = 40;
/// How often a batch is tried if others change its entries meanwhile.
const ATTEMPTS: u32 = 4;
/// Maximum number of adds between two quota checks; for a small quota, a twentieth of it.
const ADDS_PER_QUOTA_CHECK: u64 = 128;
/// How many observations above the quota one add archives. What is left goes with later adds, or when somebody tidies:
/// whoever adds waits for it.
const ARCHIVED_PER_ADD: usize = 2 * BATCH as usize;
/// How long tidying is skipped after nothing was due.
const TIDY: Duration = Duration::from_secs(1);
/// How long the pieces of a text are kept before the text is complete: longer than any program is likely to keep
/// writing one.
const UNCLAIMED: Duration = Duration::from_hours(7 * 24);

/// The outcome of tidying.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Tidied {
    /// How many entries were archived, by reason.
    pub archived: BTreeMap<ArchivedFor, u64>,
    /// How many entries were erased, by reason.
    pub erased: BTreeMap<ErasedFor, u64>,
    /// How many archived entries were packed and take less room now.
    pub packed: u64,
    /// How many tombstones were reduced to their numbers.
    pub buried: u64,
    /// How many pieces of texts were discarded because their writer ended before the text did.
    pub given_up: u64,
    /// Whether more is left to do than is done at a time.
    pub more: bool,
}

impl Tidied {
    /// Whether there was nothing to do.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the outcome of a further step; `more` is taken from the last one.
    pub fn add(&mut self, other: Self) {
        for (why, count) in other.archived {
            *self.archived.entry(why).or_default() += count;
        }
        for (why, count) in other.erased {
            *self.erased.entry(why).or_default() += count;
        }
        self.packed += other.packed;
        self.buried += other.buried;
        self.given_up += other.given_up;
        self.more = other.more;
    }

    fn count(&mut self, due: Due, count: usize) {
        if count == 0 {
            return;
        }
        let number = match due {
            Due::Archive(why) => self.archived.entry(why).or_default(),
            Due::Erase(why) => self.erased.entry(why).or_default(),
        };
        *number += count as u64;
    }
}

impl Workspace {
    /// Archives and erases what is due at `now` by the policy of the space, and compacts what is kept.
    ///
    /// Does a bounded amount at a time, and reports if there is more. Doing it twice, or in several processes at once,
    /// has no further effect. What was done is in the log, with the reason.
    ///
    /// # Errors
    ///
    /// As [`Workspace::record`]; what was done before stays done.
    pub async fn tidy(&self, now: Timestamp) -> Result<Tidied, WorkspaceError> {
        let policy = self.policy().await?;
        let mut tidied = Tidied::default();
        for (watch, until, idle_since) in due_watches(&policy, now) {
            let query = WatchQuery {
                what: watch,
                until,
                idle_since,
                after: None,
                limit: BATCH,
            };
            self.do_what_is_due(&policy, query, now, &mut tidied).await?;
        }
        let most = BATCHES * BATCH as usize;
        self.keep_quota(&policy, now, (0, most), &mut tidied).await?;
        self.compact(&policy, now, &mut tidied).await?;
        Ok(tidied)
    }

    /// Tidies now, unless it was just done, found nothing to do, and memory has not changed since.
    pub(super) async fn tidy_unless_done(&self) -> Result<(), WorkspaceError> {
        let (mark, now) = (self.mark().await?, self.now());
        if !self.was_recently_tidy(mark, now, TIDY) && self.tidy(now).await?.is_nothing() {
            self.remember_tidy(mark, now);
        }
        Ok(())
    }

    async fn do_what_is_due(
        &self,
        policy: &PolicyInForce,
        mut query: WatchQuery,
        now: Timestamp,
        tidied: &mut Tidied,
    ) -> Result<(), WorkspaceError> {
        let mut done_of = 0;
        while done_of < BATCHES {
            let mut answer = self.inner.store.watched(self.space(), &query).await?;
            self.show_last_changes(&mut answer.entries).await?;
            let personal = self.personal_since(&answer.entries, &policy.retention, now).await?;
            let decide = |entry: &Entry| {
                let since = personal.get(&entry.id).copied().unwrap_or(entry.updated_at);
                due(entry, since, &policy.retention, now)
            };
            let mut sorted: Vec<(Due, Vec<Entry>)> = Vec::new();
            for entry in answer.entries {
                let Some(due) = decide(&entry) else { continue };
                match sorted.iter_mut().find(|(other, _)| *other == due) {
                    Some((_, entries)) => entries.push(entry),
                    None => sorted.push((due, vec![entry])),
                }
            }
            // A batch in which nothing is due yet does not count: otherwise it would be read again each time, and
            // nothing after it ever.
            done_of += usize::from(!sorted.is_empty());
            for (due, entries) in sorted {
                let entries = entries.iter().map(|entry| (entry.id, entry.version)).collect();
                let done = self.carry_out(due, entries, now, &decide).await?;
                tidied.count(due, done);
            }
            query.after = answer.next;
            if query.after.is_none() {
                return Ok(());
            }
        }
        tidied.more = true;
        Ok(())
    }

    /// Carries out `due` on `entries` at these versions in one commit; returns how many were changed in the end.
    async fn carry_out(
        &self,
        due: Due,
        mut entries: Vec<(EntryId, u32)>,
        now: Timestamp,
        decide: &(dyn Fn(&Entry) -> Option<Due> + Send + Sync),
    ) -> Result<usize, WorkspaceError> {
        for attempt in 1.. {
            if entries.is_empty() {
                break;
            }
            let changes = entries.iter().map(|(id, version)| change(due, *id, *version)).collect();
            let write = Write {
                at: Some(now),
                reason: Some(reason(due)),
                ..Write::of(changes)
            };
            match self.record(&Actor::new(Role::Reflector, "tidy"), write).await {
                // Another process may have done the very same.
                Ok(recorded) => return Ok(recorded.committed.entries.iter().filter(|entry| entry.changed).count()),
                // Somebody has changed one of the entries, so they are checked again.
                Err(WorkspaceError::Store(StoreError::StaleVersion { .. } | StoreError::Invalid(_)))
                    if attempt < ATTEMPTS =>
                {
                    let mut current = Vec::with_capacity(entries.len());
                    for (id, _) in entries {
                        let mut found = Vec::from_iter(self.stored_entry_if_there(id).await?);
                        self.show_last_changes(&mut found).await?;
                        let due_still = found.iter().filter(|entry| decide(entry) == Some(due));
                        current.extend(due_still.map(|entry| (id, entry.version)));
                    }
                    entries = current;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    /// Archives live observations above the quota once there are more than `slack` above it (M7.6.46), at most `most`.
    /// Returns how many more may be added before the next check.
    async fn keep_quota(
        &self,
        policy: &PolicyInForce,
        now: Timestamp,
        (slack, most): (u64, usize),
        tidied: &mut Tidied,
    ) -> Result<u64, WorkspaceError> {
        let quota = policy.quota.live_observations;
        // The exact count matters only if something is to be archived.
        let enough = quota.saturating_add(slack);
        let store = &self.inner.store;
        let live = store
            .live_observations(self.space(), now, enough.saturating_add(1))
            .await?;
        if live <= enough {
            return Ok(enough - live);
        }
        let over = store
            .live_observations(self.space(), now, u64::MAX)
            .await?
            .saturating_sub(quota);
        // The entries to go first, as many as go now; the last of them is on top.
        let over = usize::try_from(over).unwrap_or(usize::MAX);
        tidied.more |= over > most;
        let over = over.min(most);
        let mut candidates = BinaryHeap::new();
        let mut query = WatchQuery {
            what: Watch::Live,
            until: Timestamp::MAX,
            idle_since: Timestamp::MAX,
            // Expired entries do not count.
            after: Some(WatchPlace {
                at: now,
                entry: EntryHandle(u64::MAX),
            }),
            limit: BATCH,
        };
        while query.after.is_some() {
            let answer = self.inner.store.watched(self.space(), &query).await?;
            let keys = answer.entries.iter().filter_map(|entry| {
                let key = eviction_key(entry, policy.types(), now)?;
                Some((key, entry.id, entry.version))
            });
            for candidate in keys {
                candidates.push(candidate);
                if candidates.len() > over {
                    candidates.pop();
                }
            }
            query.after = answer.next;
        }
        let candidates = candidates.into_sorted_vec();
        let due = Due::Archive(ArchivedFor::Quota);
        // The entry may have been pinned meanwhile.
        let may_go = |entry: &Entry| eviction_key(entry, policy.types(), now).is_some();
        let decide = |entry: &Entry| (entry.fields.status != Status::Archived && may_go(entry)).then_some(due);
        for batch in candidates.chunks(BATCH as usize) {
            let entries = batch.iter().map(|(_, id, version)| (*id, *version)).collect();
            let done = self.carry_out(due, entries, now, &decide).await?;
            tidied.count(due, done);
        }
        Ok(slack)
    }

    async fn compact(&self, policy: &PolicyInForce, now: Timestamp, tidied: &mut Tidied) -> Result<(), WorkspaceError> {
        let compaction = Compaction {
            bury_until: policy.retention.tombstone().map(|after| now.minus(after)),
            give_up_until: Some(now.minus(UNCLAIMED)),
            notes: Some(policy.trace.kept(now)),
            limit: BATCH,
        };
        for _ in 0..BATCHES {
            let done = self.inner.store.compact(self.space(), compaction).await?;
            tidied.packed += done.packed;
            tidied.buried += done.buried;
            tidied.given_up += done.given_up;
            if !done.more {
                return Ok(());
            }
        }
        tidied.more = true;
        Ok(())
    }

    /// Notes that observations were added, and from time to time checks the quota. A failure is left to the next check:
    /// the added observations are there.
    pub(super) async fn note_added(&self, count: u64, now: Timestamp) {
        let left = self.inner.adds_left.fetch_sub(count.cast_signed(), Ordering::Relaxed);
        if left > count.cast_signed() {
            return;
        }
        self.inner
            .adds_left
            .store(ADDS_PER_QUOTA_CHECK.cast_signed(), Ordering::Relaxed);
        let Ok(_only) = self.inner.quota_kept.try_lock() else {
            return;
        };
        let Ok(policy) = self.policy().await else { return };
        let slack = policy.quota.live_observations / 20;
        let adds = slack.clamp(1, ADDS_PER_QUOTA_CHECK);
        let kept = self
            .keep_quota(&policy, now, (slack, ARCHIVED_PER_ADD), &mut Tidied::default())
            .await;
        // Others may add as well, so the next check comes before the space can be full, and at the latest with the
        // first add above the quota.
        let left = kept.map_or(adds, |room| (room / 8).max(adds.min(room.saturating_add(1))));
        let left = i64::try_from(left).unwrap_or(i64::MAX);
        // Adds made meanwhile are counted.
        let begun_with = ADDS_PER_QUOTA_CHECK.cast_signed();
        self.inner
            .adds_left
            .fetch_add(left.saturating_sub(begun_with), Ordering::Relaxed);
    }
}

/// Where something may be due at `now`: the watch, until when it must be due, and since when the entry must be idle.
fn due_watches(policy: &PolicyInForce, now: Timestamp) -> Vec<(Watch, Timestamp, Timestamp)> {
    let retention = &policy.retention;
    let (archive, purge) = (retention.archive_after(), retention.purge_after());
    let before = |after| now.minus(after);
    let mut all = Vec::new();
    if let Some(after) = retention.pii_archive_after() {
        all.push((Watch::Personal, before(after), Timestamp::MAX));
    }
    if let Some(after) = retention.archive_resolved_after() {
        all.push((Watch::Resolved, before(after), Timestamp::MAX));
    }
    match (archive, purge) {
        (Some(after), _) => all.extend([Watch::Live, Watch::Past].map(|watch| (watch, now, before(after)))),
        (None, Some(after)) => {
            all.extend([Watch::Live, Watch::Past].map(|watch| (watch, before(after), Timestamp::MAX)));
        }
        (None, None) => {}
    }
    if let Some(after) = purge {
        all.push((Watch::Ending, before(after), Timestamp::MAX));
    }
    all
}

fn change(due: Due, entry: EntryId, version: u32) -> Change {
    let expected_version = Some(version);
    match due {
        Due::Archive(why) => Change::PatchEntry {
            entry,
            fields: vec![
                FieldChange::Status(Status::Archived),
                FieldChange::ArchivedFor(Some(why)),
            ],
            expected_version,
            base_version: None,
        },
        Due::Erase(why) => Change::EraseEntry {
            entry,
            why,
            expected_version,
        },
    }
}

fn reason(due: Due) -> String {
    match due {
        Due::Archive(why) => why.to_string(),
        Due::Erase(why) => why.to_string(),
    }
}
