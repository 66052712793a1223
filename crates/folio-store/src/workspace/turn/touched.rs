//! Finds in the log which entries a turn touched (M7.6.47).

use std::collections::{BTreeMap, HashMap};

use folio_memory::turn::Turn;
use folio_memory::{Change, Entry, EntryId, Seq, TurnId};

use super::super::{Workspace, WorkspaceError};
use crate::fold::fold;
use crate::store::LogRow;

/// How many commits can be read in about the time of reading the history of one entry.
const COMMITS_PER_HISTORY: u64 = 16;
/// How many commits are read at once.
const COMMITS_AT_ONCE: u32 = 256;

/// The version that a turn found of each entry that it touched; `None` if it added the entry.
pub(super) type Found = BTreeMap<EntryId, Option<u32>>;

impl Workspace {
    /// Which of `entries`, given as of `as_of`, `turn` touched by then.
    pub(super) async fn touched_by(&self, turn: &Turn, entries: &[Entry], as_of: Seq) -> Result<Found, WorkspaceError> {
        let (id, began) = (turn.begun.id, turn.started_seq);
        let changed = entries.iter().filter(|entry| entry.updated_seq >= began);
        let changed: Vec<&Entry> = changed.collect();
        let mut found = Found::new();
        // The log of a run is long, and little of it concerns memory. But the histories of many entries changed by one
        // commit would read that commit once for each.
        let commits = (as_of.0 + 1).saturating_sub(began.0);
        let unresolved = if commits <= COMMITS_PER_HISTORY.saturating_mul(changed.len() as u64) {
            self.touched_in_log(turn, &changed, as_of, &mut found).await?
        } else {
            changed
        };
        for entry in unresolved {
            if let Some(version) = self.found_by(id, entry, began, as_of).await? {
                found.insert(entry.id, version);
            }
        }
        Ok(found)
    }

    /// Reads the log from the beginning of `turn` to `as_of`, once for all of `changed`, and returns the entries for
    /// which it does not say enough.
    async fn touched_in_log<'e>(
        &self,
        turn: &Turn,
        changed: &[&'e Entry],
        as_of: Seq,
        found: &mut Found,
    ) -> Result<Vec<&'e Entry>, WorkspaceError> {
        let mut trails: HashMap<EntryId, Trail<'e>> =
            changed.iter().map(|entry| (entry.id, Trail::of(entry))).collect();
        let mut read = Seq(turn.started_seq.0.saturating_sub(1));
        while read < as_of && !trails.is_empty() {
            let left = u32::try_from(as_of.0 - read.0).unwrap_or(u32::MAX);
            let limit = left.min(COMMITS_AT_ONCE);
            let rows = self.inner.store.changes(&self.inner.space, read, limit).await?;
            let Some(last) = rows.last().map(|row| row.seq) else {
                break;
            };
            for row in rows.iter().filter(|row| row.seq <= as_of) {
                follow(&mut trails, row, turn.begun.id, found);
            }
            read = last;
        }
        let mut unresolved = Vec::new();
        for trail in trails.into_values().filter(|trail| trail.is_of_turn) {
            // If there is only one change of an entry that did change, that is the one.
            if trail.changes == 1 {
                found.insert(trail.entry.id, Some(trail.entry.version.saturating_sub(1)));
            } else {
                unresolved.push(trail.entry);
            }
        }
        Ok(unresolved)
    }

    /// If `turn` changed `entry` from `began` on: the version that it found, `None` if it added the entry.
    async fn found_by(
        &self,
        turn: TurnId,
        entry: &Entry,
        began: Seq,
        as_of: Seq,
    ) -> Result<Option<Option<u32>>, WorkspaceError> {
        let history = self.inner.store.history(&self.inner.space, entry.id).await?;
        let of_turn = history
            .iter()
            .filter(|revision| revision.seq >= began && revision.seq <= as_of)
            .find(|revision| revision.actor.turn == Some(turn));
        Ok(of_turn.map(|revision| found_before(&revision.change, revision.version)))
    }
}

/// What the log says about an entry, as far as it was read.
struct Trail<'e> {
    entry: &'e Entry,
    /// Its state, if it was added since.
    state: Option<Entry>,
    /// If it existed before: how many changes of it were requested, and whether one was the turn's. A change to what an
    /// entry already has changes nothing, and whether one is such a change is unknown here.
    changes: u32,
    is_of_turn: bool,
}

impl<'e> Trail<'e> {
    fn of(entry: &'e Entry) -> Self {
        Self {
            entry,
            state: None,
            changes: 0,
            is_of_turn: false,
        }
    }
}

/// Reads `row`. Entries for which the answer is found are no longer followed.
fn follow(trails: &mut HashMap<EntryId, Trail<'_>>, row: &LogRow, turn: TurnId, found: &mut Found) {
    let is_of_turn = row.actor.turn == Some(turn);
    for change in &row.record.changes {
        let id = match change {
            Change::AddEntry(new) => new.id,
            Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => *entry,
            _ => continue,
        };
        let Some(trail) = trails.get_mut(&id) else { continue };
        let is_changed = fold(&mut trail.state, trail.entry.handle, change, id, row.seq, row.at);
        match &trail.state {
            Some(state) if is_changed && is_of_turn => {
                found.insert(id, found_before(change, state.version));
                trails.remove(&id);
            }
            Some(_) => {}
            None => {
                trail.changes = trail.changes.saturating_add(1);
                trail.is_of_turn |= is_of_turn;
            }
        }
    }
}

/// The version that `change`, which made `version`, found of its entry.
fn found_before(change: &Change, version: u32) -> Option<u32> {
    match change {
        Change::AddEntry(_) => None,
        _ => Some(version.saturating_sub(1)),
    }
}
