//! Decides the outcome of a commit: everything is looked up and decided before anything is written. The same for every
//! store; each only looks up the [`Facts`] in its own way.

mod bodies;
mod erasing;
mod memory_effect;
mod order;
mod planned;
mod turns;
mod written;

use std::collections::HashMap;

use folio_engine::Event;
use folio_memory::history::FieldConflict;
use folio_memory::id::RunHandle;
use folio_memory::keeping::watched;
use folio_memory::terms::terms_of;
use folio_memory::{
    Change, Entry, EntryHandle, EntryId, FieldChange, KeptPolicy, Link, NewEntry, NewPage, Page, PageHandle, PageId,
    Relation, RunId, Seq, Timestamp, Turn, TurnId, history,
};

pub(crate) use self::bodies::{Bodies, body_hashes, brings_only};
pub(crate) use self::order::CIRCLE_MAX;
pub(crate) use self::planned::{ErasedEntry, Planned, PlannedEntry, PlannedPage, PlannedRun, PlannedTurn};
pub(crate) use self::written::{OverlappingName, PlannedWrites, enclosing_paths, names_overlap};
use crate::commit::{Committed, CommittedEntry, Expected, RunAppend};
use crate::error::{StoreError, not_found};
use crate::place::{Place, SpaceId};
use crate::prepare::Prepared;
use crate::store::{LogRow, OwnerId};

/// The state of one space as a commit finds it, while nobody else writes there.
pub(crate) trait Facts {
    /// Why something could not be looked up.
    type Failure: From<StoreError>;

    /// The place of the page with the id `id`.
    fn page_place(&mut self, id: PageId) -> Result<Option<Place>, Self::Failure>;
    /// The page with the id `id`.
    fn page(&mut self, id: PageId) -> Result<Option<Page>, Self::Failure>;
    /// The place of the entry with the id `id`.
    fn entry_place(&mut self, id: EntryId) -> Result<Option<Place>, Self::Failure>;
    /// The entry with the id `id` at `place`.
    fn entry(&mut self, id: EntryId, place: Place) -> Result<Option<Entry>, Self::Failure>;
    /// The entries to which links of the relation `rel` lead from the entry `id`; asked only of the relations that may
    /// not close a circle.
    fn led_to(&mut self, rel: Relation, id: EntryId) -> Result<Vec<EntryId>, Self::Failure>;
    /// The fields of `entry` that were changed since its version `base`, each with the version that last changed it.
    fn changed_since(&mut self, entry: &Entry, base: u32) -> Result<HashMap<&'static str, u32>, Self::Failure>;
    /// The place of the run with the id `id`.
    fn run_place(&mut self, id: RunId) -> Result<Option<Place>, Self::Failure>;
    /// The last commit that wrote to the run at `place`.
    fn run_head(&mut self, place: Place) -> Result<Seq, Self::Failure>;
    /// The driver of the run at `place`, and the fence of its last claim.
    fn driver(&mut self, place: Place) -> Result<(Option<OwnerId>, u64), Self::Failure>;
    /// The names held by runs other than the one at `own` that overlap with any of `names`.
    fn overlapping_names(&mut self, own: Place, names: &[String]) -> Result<Vec<OverlappingName>, Self::Failure>;
    /// The version of the policy.
    fn policy_version(&mut self) -> Result<u32, Self::Failure>;
    /// The policy.
    fn policy(&mut self) -> Result<KeptPolicy, Self::Failure>;
    /// The turn with the id `id`.
    fn turn(&mut self, id: TurnId) -> Result<Option<Turn>, Self::Failure>;
    /// Whether a body with the hash `hash` is stored.
    fn is_kept(&mut self, hash: &str) -> Result<bool, Self::Failure>;
}

/// The last numbers assigned in a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) head: Seq,
    pub(crate) at: Timestamp,
    pub(crate) entries: u64,
    pub(crate) pages: u64,
    pub(crate) runs: u64,
    pub(crate) turns: u64,
}

/// Decides the outcome of `commit` in `space`, whose last numbers are `ends`; a new space contains nothing.
///
/// # Errors
///
/// Why the commit is refused, or could not be decided.
pub(crate) fn decide<'c, F: Facts>(
    facts: &mut F,
    space: SpaceId,
    ends: Ends,
    commit: &'c Prepared,
) -> Result<Decided<'c>, F::Failure> {
    let (seq, at, ends) = match commit.taken_over {
        Some(seq) => (seq, commit.at, numbers_before_copied_commit(commit, seq, ends)?),
        None => (Seq(ends.head.0 + 1), instant_of(commit, ends.at), ends),
    };
    let mut plan = Plan {
        facts,
        space,
        seq,
        at,
        ends,
        pages: Planned::default(),
        entries: Planned::default(),
        links: Vec::new(),
        named_entries: Vec::new(),
        named_pages: Vec::new(),
        gone: Vec::new(),
        run: None,
        policy: None,
        turns: Vec::new(),
        writes: None,
    };
    plan.expect(&commit.expected)?;
    for (change, fields_json) in commit.record.changes.iter().zip(&commit.fields_json) {
        plan.change(change, fields_json.as_deref().unwrap_or_default())?;
    }
    if let Some(append) = &commit.record.run {
        plan.append(append)?;
    }
    if commit.expected.contains(&Expected::NoCircle) {
        plan.expect_no_circle(&commit.record.changes)?;
    }
    plan.expect_bodies(commit)?;
    let (seq, at, mut ends) = (plan.seq, plan.at, plan.ends);
    (ends.head, ends.at) = (seq, at);
    Ok(Decided {
        seq,
        at,
        ends,
        pages: plan.pages.items,
        entries: plan.entries.items,
        links: plan.links,
        named_entries: plan.named_entries,
        named_pages: plan.named_pages,
        gone: plan.gone,
        run: plan.run,
        policy: plan.policy.and_then(|(kept, is_changed)| is_changed.then_some(kept)),
        turns: plan.turns,
        writes: plan.writes,
    })
}

/// Refuses `commit` if its request differs from that of the earlier commit `first` with the same key. If one of them
/// has no fingerprint, the requests count as the same.
///
/// # Errors
///
/// `KeyReused`.
pub(crate) fn check_repeated(commit: &Prepared, first: &LogRow) -> Result<(), StoreError> {
    match (&commit.record.request, &first.record.request) {
        (Some(request), Some(first_request)) if request != first_request => Err(StoreError::KeyReused),
        _ => Ok(()),
    }
}

/// What a commit will write, once all of it is decided.
#[derive(Debug)]
pub(crate) struct Decided<'c> {
    pub(crate) seq: Seq,
    pub(crate) at: Timestamp,
    /// The last numbers assigned once it is written.
    pub(crate) ends: Ends,
    pub(crate) pages: Vec<PlannedPage<'c>>,
    pub(crate) entries: Vec<PlannedEntry<'c>>,
    pub(crate) links: Vec<&'c Link>,
    named_entries: Vec<NamedEntry>,
    named_pages: Vec<(PageId, PageHandle)>,
    /// Entries whose content is erased.
    pub(crate) gone: Vec<ErasedEntry>,
    pub(crate) run: Option<PlannedRun<'c>>,
    /// The policy, if it changes.
    pub(crate) policy: Option<KeptPolicy>,
    pub(crate) turns: Vec<PlannedTurn>,
    /// What calls of a run write from then on, if that changes.
    pub(crate) writes: Option<PlannedWrites<'c>>,
}

impl Decided<'_> {
    /// The answer for the writer.
    pub(crate) fn answer(self) -> Committed {
        let Self { entries, .. } = &self;
        let named = |(id, index, changed, conflicts): &NamedEntry| {
            let planned = &entries[*index];
            let version = planned.entry.as_ref().map_or(1, |entry| entry.version);
            CommittedEntry {
                id: *id,
                handle: EntryHandle(planned.place.number()),
                version,
                changed: *changed,
                conflicts: conflicts.clone(),
            }
        };
        Committed {
            seq: self.seq,
            at: self.at,
            replayed: false,
            entries: self.named_entries.iter().map(named).collect(),
            run: self
                .run
                .as_ref()
                .map(|run| (run.append.run, RunHandle(run.place.number()))),
            pages: self.named_pages,
        }
    }
}

/// For a change of an entry: its id, its index in the list, whether it changes anything, and what it overwrites.
type NamedEntry = (EntryId, usize, bool, Vec<FieldConflict>);

/// The time of `commit`: not before that of the last one, `before`, whatever the clock says (M7.1.9). A commit that
/// adds an item to a scratchbook has a time of its own, by which items are ordered (seed 003).
fn instant_of(commit: &Prepared, before: Timestamp) -> Timestamp {
    let is_ordered = commit.record.changes.iter().any(|change| match change {
        Change::AddEntry(new) => new.kind.is_item(),
        _ => false,
    });
    if is_ordered && commit.at <= before {
        Timestamp::from_nanos(before.as_nanos().saturating_add(1))
    } else {
        commit.at.max(before)
    }
}

/// The last numbers before `commit`, which has the number `seq` in another store: it must follow the existing commits.
/// The numbers of entries for which it only stands count as assigned.
fn numbers_before_copied_commit(commit: &Prepared, seq: Seq, ends: Ends) -> Result<Ends, StoreError> {
    let folded = commit.record.folded;
    let before = Seq(folded.map_or(seq, |folded| folded.from).0.saturating_sub(1));
    if ends.head != before {
        return Err(StoreError::StaleSpace {
            found: ends.head,
            expected: before,
        });
    }
    if commit.at < ends.at {
        return Err(StoreError::Invalid(format!(
            "commit {seq} is older than the one before"
        )));
    }
    let entries = ends.entries + folded.map_or(0, |folded| folded.entries);
    Ok(Ends { entries, ..ends })
}

/// A commit that is being decided.
struct Plan<'p, 'c, F> {
    facts: &'p mut F,
    space: SpaceId,
    seq: Seq,
    at: Timestamp,
    ends: Ends,
    pages: Planned<PageId, PlannedPage<'c>>,
    entries: Planned<EntryId, PlannedEntry<'c>>,
    links: Vec<&'c Link>,
    named_entries: Vec<NamedEntry>,
    named_pages: Vec<(PageId, PageHandle)>,
    gone: Vec<ErasedEntry>,
    run: Option<PlannedRun<'c>>,
    /// The policy, once it was looked up, and whether it changes.
    policy: Option<(KeptPolicy, bool)>,
    turns: Vec<PlannedTurn>,
    writes: Option<PlannedWrites<'c>>,
}

impl<'c, F: Facts> Plan<'_, 'c, F> {
    fn expect(&mut self, expected: &'c [Expected]) -> Result<(), F::Failure> {
        for expected in expected {
            match expected {
                Expected::RunHead { run, head, fence } => {
                    self.expect_run(*run, *head, *fence)?;
                }
                Expected::SpaceHead(head) if self.ends.head > *head => {
                    return Err(StoreError::StaleSpace {
                        found: self.ends.head,
                        expected: *head,
                    }
                    .into());
                }
                // What the commit adds is looked at once all of it is there.
                Expected::SpaceHead(_) | Expected::NoCircle => {}
                Expected::Writes { run, names } => self.expect_to_write(*run, names)?,
                Expected::MayReplace { by, entries } => self.expect_to_replace(*by, entries)?,
                Expected::MayWait { entry, others } => self.expect_to_wait(*entry, others)?,
                Expected::Policy(expected) => {
                    let (found, expected) = (self.facts.policy_version()?, *expected);
                    if found != expected {
                        return Err(StoreError::OtherPolicy { found, expected }.into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Requires that the journal of a run ends at `head`, and that `fence`, if given, is still the current one.
    fn expect_run(&mut self, run: RunId, head: Seq, fence: Option<u64>) -> Result<(), F::Failure> {
        let place = self.facts.run_place(run)?.ok_or_else(|| not_found("run", run))?;
        if let Some(fence) = fence {
            let (owner, current) = self.facts.driver(place)?;
            // Checked first, because a driver that lost the run must stop, and not read again.
            if owner.is_none() || current != fence {
                let detail = if owner.is_none() {
                    "it was given up"
                } else {
                    "it was taken over"
                };
                return Err(StoreError::RunTaken {
                    run: run.to_string(),
                    detail: Some(detail.to_owned()),
                }
                .into());
            }
        }
        let found = self.facts.run_head(place)?;
        if found == head {
            Ok(())
        } else {
            Err(StoreError::StaleRun {
                run: run.to_string(),
                found,
                expected: head,
            }
            .into())
        }
    }

    /// Requires that nobody else writes what calls of `run` write.
    fn expect_to_write(&mut self, run: RunId, names: &'c [String]) -> Result<(), F::Failure> {
        let place = self.facts.run_place(run)?.ok_or_else(|| not_found("run", run))?;
        let (_, fence) = self.facts.driver(place)?;
        let mut overtaken = Vec::new();
        let met = if names.is_empty() {
            Vec::new()
        } else {
            self.facts.overlapping_names(place, names)?
        };
        for OverlappingName {
            name,
            run,
            place,
            is_driven,
        } in met
        {
            if is_driven {
                let head = self.ends.head;
                return Err(StoreError::WrittenElsewhere { name, run, head }.into());
            }
            overtaken.push(place);
        }
        overtaken.sort_unstable();
        overtaken.dedup();
        self.writes = Some(PlannedWrites {
            run,
            place,
            fence,
            names,
            overtaken,
        });
        Ok(())
    }

    fn change(&mut self, change: &'c Change, fields_json: &'c str) -> Result<(), F::Failure> {
        match change {
            Change::EnsurePage(new) => self.ensure_page(new, fields_json),
            Change::SetPageStatus { page, status } => self.set_page_status(*page, status),
            Change::AddEntry(new) => self.add_entry(new, fields_json),
            Change::PatchEntry {
                entry,
                fields,
                expected_version,
                base_version,
            } => self.patch_entry(*entry, fields, *expected_version, *base_version),
            Change::EraseEntry {
                entry,
                why,
                expected_version,
            } => self.erase_entry(*entry, *why, *expected_version),
            Change::AddLink(link) => self.add_link(link),
            Change::BeginTurn(new) => self.begin_turn(new),
            Change::EndTurn { turn, end } => self.end_turn(*turn, end),
            Change::SetPolicy { .. } | Change::RegisterType { .. } => self.change_policy(change),
            other => Err(StoreError::Invalid(format!("this store does not know the change {other:?}")).into()),
        }
    }

    fn ensure_page(&mut self, new: &'c NewPage, fields_json: &'c str) -> Result<(), F::Failure> {
        let index = match self.find_page(new.id)? {
            Some(index) => index,
            None => {
                let parent = new.fields.parent.map(|parent| self.page_place(parent)).transpose()?;
                self.ends.pages += 1;
                let place = Place::of(self.space, self.ends.pages);
                let new_page = Some((new, fields_json, parent));
                self.pages.add(
                    new.id,
                    PlannedPage {
                        place,
                        new: new_page,
                        page: None,
                        is_changed: false,
                    },
                )
            }
        };
        self.named_pages
            .push((new.id, PageHandle(self.pages.items[index].place.number())));
        Ok(())
    }

    fn set_page_status(&mut self, id: PageId, status: &str) -> Result<(), F::Failure> {
        let index = self.find_page(id)?.ok_or_else(|| not_found("page", id))?;
        let planned = &mut self.pages.items[index];
        if planned.page.is_none() {
            planned.page = match planned.new {
                Some((new, ..)) => Some(Page::added(
                    new.clone(),
                    PageHandle(planned.place.number()),
                    self.seq,
                    self.at,
                )),
                None => self.facts.page(id)?,
            };
        }
        if let Some(page) = planned.page.as_mut().filter(|page| page.fields.status != status) {
            page.set_status(status, self.at);
            planned.is_changed = true;
        }
        Ok(())
    }

    fn add_entry(&mut self, new: &'c NewEntry, fields_json: &'c str) -> Result<(), F::Failure> {
        if self.find_entry(new.id)?.is_some() {
            return Err(StoreError::Invalid(format!("entry {} exists already", new.id)).into());
        }
        let page = self.page_place(new.page)?;
        self.ends.entries += 1;
        let place = Place::of(self.space, self.ends.entries);
        let new_entry = Some((new, fields_json, page));
        let planned = PlannedEntry {
            place,
            new: new_entry,
            entry: None,
            old_terms: Vec::new(),
            old_watched: Vec::new(),
            is_changed: false,
        };
        let index = self.entries.add(new.id, planned);
        self.named_entries.push((new.id, index, true, Vec::new()));
        Ok(())
    }

    fn patch_entry(
        &mut self,
        id: EntryId,
        changes: &[FieldChange],
        expected: Option<u32>,
        base: Option<u32>,
    ) -> Result<(), F::Failure> {
        let index = self.find_entry(id)?.ok_or_else(|| not_found("entry", id))?;
        let (seq, at) = (self.seq, self.at);
        let found = self.current(index, id)?;
        let (handle, version) = (found.handle, found.version);
        let is_changed = !found.is_unchanged_by(changes);
        if let Some(expected) = expected.filter(|expected| is_changed && *expected != version) {
            return Err(StoreError::StaleVersion {
                entry: handle.to_string(),
                found: version,
                expected,
            }
            .into());
        }
        let mut conflicts = Vec::new();
        if is_changed {
            if let Some(base) = base.filter(|base| *base < version) {
                let found = found.clone();
                let changed = self.facts.changed_since(&found, base)?;
                conflicts = history::conflicts(&found, changes, base, |field| changed.get(field).copied());
            }
            let entry = self.current(index, id)?;
            let mut status = entry.fields.status;
            for change in changes {
                if let FieldChange::Status(next) = change {
                    if !status.may_become(*next) {
                        return Err(StoreError::Invalid(format!("{handle} is {status}, which is final")).into());
                    }
                    status = *next;
                }
            }
            if entry.fields.erased.is_some() {
                return Err(StoreError::Invalid(format!("the content of {handle} was erased, which is final")).into());
            }
            entry.patch(changes, seq, at);
            self.entries.items[index].is_changed = true;
        }
        self.named_entries.push((id, index, is_changed, conflicts));
        Ok(())
    }

    /// The entry number `index` of this commit, as its changes so far make it.
    fn current(&mut self, index: usize, id: EntryId) -> Result<&mut Entry, F::Failure> {
        let (seq, at) = (self.seq, self.at);
        let planned = &mut self.entries.items[index];
        let handle = EntryHandle(planned.place.number());
        Ok(match (&mut planned.entry, planned.new) {
            (Some(entry), _) => entry,
            (none, Some((new, ..))) => none.insert(Entry::added(new.clone(), handle, seq, at)),
            (none, None) => {
                let found = self
                    .facts
                    .entry(id, planned.place)?
                    .ok_or_else(|| not_found("entry", id))?;
                planned.old_terms = terms_of(&found.fields);
                planned.old_watched = watched(&found);
                none.insert(found)
            }
        })
    }

    fn add_link(&mut self, link: &'c Link) -> Result<(), F::Failure> {
        for end in [&link.src, &link.dst] {
            if let Some(id) = end.strip_prefix(EntryId::PREFIX).and_then(|id| id.parse().ok()) {
                self.find_entry(id)?.ok_or_else(|| not_found("entry", end))?;
            } else if let Some(id) = end.strip_prefix(PageId::PREFIX).and_then(|id| id.parse().ok()) {
                self.page_place(id)?;
            } else {
                return Err(StoreError::Invalid(format!("{end:?} is not the id of an entry or a page")).into());
            }
        }
        self.links.push(link);
        Ok(())
    }

    fn change_policy(&mut self, change: &Change) -> Result<(), F::Failure> {
        let (kept, is_changed) = match &mut self.policy {
            Some(looked_up) => looked_up,
            none => none.insert((self.facts.policy()?, false)),
        };
        let found = kept.version;
        let changes = kept.apply(change, self.seq);
        if let Change::SetPolicy {
            expected_version: Some(expected),
            ..
        } = change
            && changes
            && *expected != found
        {
            let expected = *expected;
            return Err(StoreError::StalePolicy { found, expected }.into());
        }
        *is_changed |= changes;
        Ok(())
    }

    fn append(&mut self, append: &'c RunAppend) -> Result<(), F::Failure> {
        let found = self.facts.run_place(append.run)?;
        let starts = matches!(append.events.first(), Some(Event::RunStarted { .. }));
        let place = match (found, starts) {
            (Some(place), false) => place,
            (None, true) => {
                self.ends.runs += 1;
                Place::of(self.space, self.ends.runs)
            }
            (None, false) => return Err(not_found("run", append.run).into()),
            (Some(_), true) => {
                return Err(StoreError::Invalid(format!("run {} has started already", append.run)).into());
            }
        };
        self.run = Some(PlannedRun {
            append,
            place,
            is_new: starts,
        });
        Ok(())
    }

    fn page_place(&mut self, id: PageId) -> Result<Place, F::Failure> {
        let index = self.find_page(id)?.ok_or_else(|| not_found("page", id))?;
        Ok(self.pages.items[index].place)
    }

    fn find_page(&mut self, id: PageId) -> Result<Option<usize>, F::Failure> {
        if let Some(index) = self.pages.by_id.get(&id) {
            return Ok(Some(*index));
        }
        let found = self.facts.page_place(id)?;
        Ok(found.map(|place| {
            self.pages.add(
                id,
                PlannedPage {
                    place,
                    new: None,
                    page: None,
                    is_changed: false,
                },
            )
        }))
    }

    fn find_entry(&mut self, id: EntryId) -> Result<Option<usize>, F::Failure> {
        if let Some(index) = self.entries.by_id.get(&id) {
            return Ok(Some(*index));
        }
        let found = self.facts.entry_place(id)?;
        Ok(found.map(|place| {
            let planned = PlannedEntry {
                place,
                new: None,
                entry: None,
                old_terms: Vec::new(),
                old_watched: Vec::new(),
                is_changed: false,
            };
            self.entries.add(id, planned)
        }))
    }
}
