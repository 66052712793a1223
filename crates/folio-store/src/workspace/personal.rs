//! Since when entries have personal data. The log tells, the entry does not: the entry may be older than the personal
//! data in it, in this store or where it was brought from.

use std::collections::{HashMap, HashSet};

use folio_memory::keeping::{RetentionPolicy, brings_personal_data, due};
use folio_memory::{Change, Entry, EntryId, Seq, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use super::{Workspace, WorkspaceError};

/// For how many entries this is remembered at most: about 2 MiB. Forgotten ones are looked up again.
const KNOWN_MAX: usize = 32_768;

/// Since when entries have had personal data, as far as it was looked up. This never changes.
#[derive(Debug, Default)]
pub(super) struct PersonalSince(Mutex<HashMap<EntryId, Timestamp>>);

impl PersonalSince {
    fn get(&self, id: EntryId) -> Option<Timestamp> {
        self.locked().get(&id).copied()
    }

    fn insert(&self, id: EntryId, since: Timestamp) {
        let mut known = self.locked();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(id, since);
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<EntryId, Timestamp>> {
        self.0.lock()
    }
}

/// The time of a commit, and the entries that it added with personal data.
struct Added {
    at: Timestamp,
    personal: HashSet<EntryId>,
}

impl Workspace {
    /// Since when those of `entries` have had personal data for which this matters at `now`. Treat the others as if
    /// they always had.
    pub(super) async fn personal_since(
        &self,
        entries: &[Entry],
        retention: &RetentionPolicy,
        now: Timestamp,
    ) -> Result<HashMap<EntryId, Timestamp>, WorkspaceError> {
        let mut since = HashMap::new();
        let mut commits = HashMap::new();
        for entry in entries.iter().filter(|entry| !entry.fields.pii.is_empty()) {
            let from = |since| due(entry, since, retention, now);
            // The clock of the place that it was brought from says nothing about when it came here.
            let is_brought = entry.fields.brought.is_some();
            let came_at_last = if is_brought { now } else { entry.updated_at };
            let found = if entry.version == 1 && !is_brought {
                entry.created_at
            } else if from(entry.created_at) == from(came_at_last) {
                came_at_last
            } else {
                self.looked_up(entry, &mut commits).await?
            };
            since.insert(entry.id, found);
        }
        Ok(since)
    }

    async fn looked_up(&self, entry: &Entry, commits: &mut HashMap<Seq, Added>) -> Result<Timestamp, WorkspaceError> {
        let known = &self.inner.personal;
        if let Some(since) = known.get(entry.id) {
            return Ok(since);
        }
        let since = match self.added_with(entry, commits).await? {
            Some(at) => at,
            None => {
                let revisions = self.inner.store.history(self.space(), entry.id).await?;
                let first = revisions.iter().find(|revision| brings_personal_data(&revision.change));
                first.map_or(entry.updated_at, |revision| revision.at)
            }
        };
        known.insert(entry.id, since);
        Ok(since)
    }

    /// When `entry` was added, if it was added with personal data. Entries brought in together are in one commit, which
    /// is read once.
    async fn added_with(
        &self,
        entry: &Entry,
        commits: &mut HashMap<Seq, Added>,
    ) -> Result<Option<Timestamp>, WorkspaceError> {
        let seq = entry.created_seq;
        if !commits.contains_key(&seq) {
            let before = Seq(seq.0.saturating_sub(1));
            let rows = self.inner.store.changes(self.space(), before, 1).await?;
            for row in rows.into_iter().filter(|row| row.seq == seq) {
                let personal = row.record.changes.iter().filter_map(|change| match change {
                    Change::AddEntry(new) if brings_personal_data(change) => Some(new.id),
                    _ => None,
                });
                let (at, personal) = (row.at, personal.collect());
                commits.insert(seq, Added { at, personal });
            }
        }
        let added = commits.get(&seq).filter(|added| added.personal.contains(&entry.id));
        Ok(added.map(|added| added.at))
    }
}
