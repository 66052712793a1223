//! Refuses that an entry takes its own place or waits for itself. This is decided here, where nobody else can write:
//! two writers who had both looked before would each see only half of the cycle.

use std::collections::{BTreeSet, HashMap, HashSet};

use folio_memory::entry::{State, Status};
use folio_memory::lifecycle::is_blocking;
use folio_memory::{Change, Entry, EntryHandle, EntryId, Invalid, Relation};

use super::{Facts, Plan};
use crate::error::{StoreError, not_found};

/// How many pieces of work are checked for a cycle.
pub(crate) const CIRCLE_MAX: usize = 10_000;

impl<F: Facts> Plan<'_, '_, F> {
    /// Requires that lists show `by`, unless it has the place of all `entries` already, and that neither it nor
    /// whatever took its place, and so on, is one of `entries`.
    pub(super) fn expect_to_replace(&mut self, by: EntryId, entries: &[EntryId]) -> Result<(), F::Failure> {
        let successor = self.look_at(by)?.ok_or_else(|| not_found("entry", by))?;
        let by = successor.handle;
        if let Some(state_name) = name_if_unseen(successor.state(self.at))
            && !self.have_successor(entries, successor.id)?
        {
            let message = format!("{by} is {state_name}, so the entries that it replaces would just disappear");
            return Err(StoreError::Unmet(Invalid::new("superseded_by_unseen", "by", message)).into());
        }
        // A file brought in by an earlier version may have held a cycle: each entry is visited once.
        let mut seen = HashSet::new();
        let mut next = Some(successor);
        while let Some(entry) = next.filter(|entry| seen.insert(entry.id)) {
            if entries.contains(&entry.id) {
                let message = match entry.handle {
                    found if found == by => format!("{by} cannot replace itself"),
                    found => format!("{by} cannot replace {found}, which has already replaced it"),
                };
                return Err(StoreError::Unmet(Invalid::new("supersede_cycle", "by", message)).into());
            }
            next = match entry.fields.superseded_by {
                Some(successor) => self.look_at(successor)?,
                None => None,
            };
        }
        Ok(())
    }

    fn have_successor(&mut self, entries: &[EntryId], by: EntryId) -> Result<bool, F::Failure> {
        for id in entries {
            let entry = self.look_at(*id)?;
            if entry.is_none_or(|entry| entry.fields.superseded_by != Some(by)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Requires that none of `others` is `entry` or waits for it, however indirectly.
    pub(super) fn expect_to_wait(&mut self, entry: EntryId, others: &[EntryId]) -> Result<(), F::Failure> {
        let waiting = self.handle_of(entry)?;
        let mut seen = HashSet::from([entry]);
        let mut left = vec![entry];
        while let Some(id) = left.pop() {
            if others.contains(&id) {
                let found = self.handle_of(id)?;
                let message = format!("{waiting} would wait for itself, by way of {found}");
                return Err(StoreError::Unmet(Invalid::new("blocks_itself", "after", message)).into());
            }
            if seen.len() > CIRCLE_MAX {
                let message = format!("more than {CIRCLE_MAX} pieces of work wait for {waiting}");
                return Err(StoreError::Unmet(Invalid::new("blocks_itself", "after", message)).into());
            }
            let more = self.facts.led_to(Relation::Blocks, id)?;
            left.extend(more.into_iter().filter(|id| seen.insert(*id)));
        }
        Ok(())
    }

    /// Requires that everything that `entry` waits for is done, unless it has begun.
    pub(super) fn expect_to_begin(&mut self, entry: EntryId) -> Result<(), F::Failure> {
        let work = self.look_at(entry)?.ok_or_else(|| not_found("entry", entry))?;
        if work.fields.status != Status::Open {
            return Ok(());
        }
        let mut before = BTreeSet::new();
        for id in self.facts.waited_for(entry)? {
            let blocker = self.look_at(id)?.filter(|_| id != entry);
            before.extend(
                blocker
                    .filter(|blocker| is_blocking(blocker, self.at))
                    .map(|blocker| blocker.handle),
            );
        }
        if before.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = before.iter().map(EntryHandle::to_string).collect();
        let message = format!(
            "{} waits for {}, which must be done first",
            work.handle,
            names.join(", ")
        );
        Err(StoreError::Unmet(Invalid::new("not_claimable", "status", message)).into())
    }

    /// Requires that none of the entries that `changes` add takes its own place, and that none of the links that they
    /// add makes a piece of work wait for itself or an entry take its own place, by way of one another or of what is
    /// there.
    pub(super) fn expect_no_circle(&mut self, changes: &[Change]) -> Result<(), F::Failure> {
        let (mut successors, mut links) = (HashMap::new(), HashMap::<(Relation, EntryId), Vec<EntryId>>::new());
        for change in changes {
            match change {
                Change::AddEntry(new) => successors.extend(new.fields.superseded_by.map(|by| (new.id, by))),
                Change::AddLink(link) if matches!(link.rel, Relation::Blocks | Relation::Supersedes) => {
                    if let (Ok(src), Ok(dst)) = (link.src.parse(), link.dst.parse()) {
                        links.entry((link.rel, src)).or_default().push(dst);
                    }
                }
                _ => {}
            }
        }
        let mut left = CIRCLE_MAX;
        for (entry, by) in &successors {
            let (mut next, mut seen) = (Some(*by), HashSet::new());
            while let Some(id) = next.filter(|id| left > 0 && seen.insert(*id)) {
                if id == *entry {
                    let message = format!("{by} has taken the place of {entry}, and {entry} that of {by}");
                    return Err(StoreError::Unmet(Invalid::new("supersede_cycle", "superseded_by", message)).into());
                }
                left -= 1;
                next = match successors.get(&id) {
                    Some(by) => Some(*by),
                    None => self.look_at(id)?.and_then(|entry| entry.fields.superseded_by),
                };
            }
        }
        for ((rel, src), added) in &links {
            let mut seen: HashSet<EntryId> = added.iter().copied().collect();
            let mut next: Vec<EntryId> = added.clone();
            while let Some(id) = next.pop().filter(|_| left > 0) {
                if id == *src {
                    let (code, does) = match rel {
                        Relation::Supersedes => ("supersede_cycle", "take its own place"),
                        _ => ("blocks_itself", "wait for itself"),
                    };
                    let message = format!("{src} would {does}");
                    return Err(StoreError::Unmet(Invalid::new(code, "dst", message)).into());
                }
                left -= 1;
                let more = self.facts.led_to(*rel, id)?;
                let more = more
                    .into_iter()
                    .chain(links.get(&(*rel, id)).into_iter().flatten().copied());
                next.extend(more.filter(|id| seen.insert(*id)));
            }
        }
        Ok(())
    }

    /// The entry `id` as this commit finds it. It does not count as one that the commit names.
    fn look_at(&mut self, id: EntryId) -> Result<Option<Entry>, F::Failure> {
        match self.facts.entry_place(id)? {
            Some(place) => self.facts.entry(id, place),
            None => Ok(None),
        }
    }

    fn handle_of(&mut self, id: EntryId) -> Result<EntryHandle, F::Failure> {
        let place = self.facts.entry_place(id)?.ok_or_else(|| not_found("entry", id))?;
        Ok(EntryHandle(place.number()))
    }
}

/// What hides an entry in `state` from lists, if anything does.
fn name_if_unseen(state: State) -> Option<&'static str> {
    match state {
        State::Live | State::Settled => None,
        State::Archived => Some("archived"),
        State::Expired => Some("expired"),
    }
}
