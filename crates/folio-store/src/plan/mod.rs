//! Decides the outcome of a commit: everything is looked up and decided before anything is written. The same for every
//! store; each only looks up the [`Facts`] in its own way.

mod bodies;
mod entries;
mod erasing;
mod expected;
mod memory_effect;
mod order;
mod pages;
mod planned;
mod turns;
mod written;

use std::collections::HashMap;

use folio_engine::Event;
use folio_memory::history::FieldConflict;
use folio_memory::id::RunHandle;
use folio_memory::{
    Change, Entry, EntryHandle, EntryId, KeptPolicy, Link, Page, PageHandle, PageId, Relation, RunId, Seq, Timestamp,
    Turn, TurnId,
};

pub(crate) use self::bodies::{Bodies, body_hashes, brings_only};
pub(crate) use self::order::CIRCLE_MAX;
pub(crate) use self::planned::{Erased, ErasedEntry, Planned, PlannedEntry, PlannedPage, PlannedRun, PlannedTurn};
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
    /// The pieces of work for which the entry `id` has to wait, done or not.
    fn waited_for(&mut self, id: EntryId) -> Result<Vec<EntryId>, Self::Failure>;
    /// The fields of `entry` that were changed since its version `base`, each with the version that last changed it.
    fn changed_since(&mut self, entry: &Entry, base: u32) -> Result<HashMap<&'static str, u32>, Self::Failure>;
    /// The place of the run with the id `id`.
    fn run_place(&mut self, id: RunId) -> Result<Option<Place>, Self::Failure>;
    /// The last commit that wrote to the run at `place`.
    fn run_head(&mut self, place: Place) -> Result<Seq, Self::Failure>;
    /// The status of the run at `place`.
    fn run_status(&mut self, place: Place) -> Result<String, Self::Failure>;
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
    /// The last commit after `since` that changed memory in the turn with the id `id`, if there is one.
    fn turn_written(&mut self, id: TurnId, since: Seq) -> Result<Option<Seq>, Self::Failure>;
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
        is_taken_over: commit.taken_over.is_some(),
        space,
        seq,
        at,
        ends,
        pages: Planned::default(),
        entries: Planned::default(),
        links: Vec::new(),
        named_entries: Vec::new(),
        named_pages: Vec::new(),
        gone: Erased::default(),
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
    /// The entries, turns and runs whose content is erased.
    pub(crate) gone: Erased,
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
    /// Whether another store has made the commit, which is not decided anew.
    is_taken_over: bool,
    space: SpaceId,
    seq: Seq,
    at: Timestamp,
    ends: Ends,
    pages: Planned<PageId, PlannedPage<'c>>,
    entries: Planned<EntryId, PlannedEntry<'c>>,
    links: Vec<&'c Link>,
    named_entries: Vec<NamedEntry>,
    named_pages: Vec<(PageId, PageHandle)>,
    gone: Erased,
    run: Option<PlannedRun<'c>>,
    /// The policy, once it was looked up, and whether it changes.
    policy: Option<(KeptPolicy, bool)>,
    turns: Vec<PlannedTurn>,
    writes: Option<PlannedWrites<'c>>,
}

impl<'c, F: Facts> Plan<'_, 'c, F> {
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
            Change::EraseTurn { turn } => self.erase_turn(*turn),
            Change::EraseRun { run, .. } => self.erase_run(*run),
            Change::SetPolicy { .. } | Change::RegisterType { .. } => self.change_policy(change),
            other => Err(StoreError::Invalid(format!("this store does not know the change {other:?}")).into()),
        }
    }

    fn add_link(&mut self, link: &'c Link) -> Result<(), F::Failure> {
        for end in [&link.src, &link.dst] {
            if let Some(id) = end.strip_prefix(EntryId::PREFIX).and_then(|id| id.parse().ok()) {
                let found = self.find_entry(id)?;
                // A link stays in the log when an entry that it names is dropped.
                if found.is_none() && !self.is_taken_over {
                    return Err(not_found("entry", end).into());
                }
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
}
