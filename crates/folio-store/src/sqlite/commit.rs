//! Applying one commit: everything is looked up and decided first, and only what will hold is written.

mod erasing;
mod turns;

use folio_engine::Event;
use folio_memory::history::FieldConflict;
use folio_memory::id::RunHandle;
use folio_memory::keeping::watched;
use folio_memory::terms::terms_of;
use folio_memory::{
    Change, Entry, EntryHandle, EntryId, EntryKind, FieldChange, KeptPolicy, Link, NewEntry, NewPage, Page, PageHandle,
    PageId, RunId, Seq, Timestamp, history,
};

use super::erase::Gone;
use super::error::{Failure, not_found};
use super::journal;
use super::place::{Place, SpaceId};
use super::planned::{Planned, PlannedEntry, PlannedPage, PlannedRun};
use super::prepare::Prepared;
use super::scope::{Ends, Scope};
use super::turn::PlannedTurn;
use super::{entry, erase, link, page, policy, replay, run, unclaimed};
use crate::commit::{Committed, CommittedEntry, Expected, RunAppend};
use crate::error::StoreError;

/// Writes `commit`, or finds that it was written before.
///
/// # Errors
///
/// `Refused` with nothing written, or whatever the database says; then the transaction must be rolled back.
pub(super) fn apply(scope: &mut Scope<'_>, commit: &Prepared) -> Result<Committed, Failure> {
    let known = scope.space(&commit.space)?;
    if let (Some(space), Some(key)) = (known, &commit.key)
        && let Some(row) = journal::with_key(scope.conn, space, key)?
    {
        return replay::committed(scope.conn, space, &row);
    }
    // A space without commits has no row. It gets one when it is certain that this commit will be its first.
    let space = known.map_or_else(|| scope.next_space(), Ok)?;
    let ends = scope.ends(space)?;
    let mut plan = Plan {
        scope,
        space,
        seq: Seq(ends.head.0 + 1),
        at: instant_of(commit, ends.at),
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
    };
    plan.expect(&commit.expected, known.is_some())?;
    for (change, fields_json) in commit.record.changes.iter().zip(&commit.fields_json) {
        plan.change(change, fields_json.as_deref().unwrap_or_default())?;
    }
    if let Some(append) = &commit.record.run {
        plan.append(append)?;
    }
    unclaimed::expect_named(plan.scope.conn, space, commit)?;
    plan.write(commit, known.is_none())
}

/// When `commit` is made: not before the last one, `before`, whatever the clock says (M7.1.9). A commit that adds an item to a
/// scratchbook has an instant of its own, by which items are ordered (seed 003).
fn instant_of(commit: &Prepared, before: Timestamp) -> Timestamp {
    let is_ordered = commit.record.changes.iter().any(|change| match change {
        Change::AddEntry(new) => matches!(new.kind, EntryKind::Note | EntryKind::Todo | EntryKind::Task),
        _ => false,
    });
    if is_ordered && commit.at <= before {
        Timestamp::from_nanos(before.as_nanos().saturating_add(1))
    } else {
        commit.at.max(before)
    }
}

/// What a commit will come to.
struct Plan<'p, 'w, 'c> {
    scope: &'p mut Scope<'w>,
    space: SpaceId,
    seq: Seq,
    at: Timestamp,
    ends: Ends,
    pages: Planned<PageId, PlannedPage<'c>>,
    entries: Planned<EntryId, PlannedEntry<'c>>,
    links: Vec<&'c Link>,
    /// For each change of an entry: which, whether it changes anything, and what it writes over.
    named_entries: Vec<(EntryId, usize, bool, Vec<FieldConflict>)>,
    named_pages: Vec<(PageId, PageHandle)>,
    /// Entries whose content goes.
    gone: Vec<Gone>,
    run: Option<PlannedRun<'c>>,
    /// The policy, once somebody had to look, and whether it changes.
    policy: Option<(KeptPolicy, bool)>,
    turns: Vec<PlannedTurn>,
}

impl<'c> Plan<'_, '_, 'c> {
    fn expect(&mut self, expected: &[Expected], space_is_known: bool) -> Result<(), Failure> {
        for expected in expected {
            match expected {
                Expected::RunHead { run, .. } if !space_is_known => return Err(not_found("run", run).into()),
                Expected::RunHead { run, head, fence } => {
                    run::expect_head(self.scope, self.space, *run, *head, *fence)?;
                }
                Expected::SpaceHead(head) if self.ends.head > *head => {
                    return Err(StoreError::StaleSpace {
                        found: self.ends.head,
                        expected: *head,
                    }
                    .into());
                }
                Expected::SpaceHead(_) => {}
                Expected::Policy(expected) => {
                    let (found, expected) = (self.scope.policy_version(self.space)?, *expected);
                    if found != expected {
                        return Err(StoreError::OtherPolicy { found, expected }.into());
                    }
                }
            }
        }
        Ok(())
    }

    fn change(&mut self, change: &'c Change, fields_json: &'c str) -> Result<(), Failure> {
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

    fn ensure_page(&mut self, new: &'c NewPage, fields_json: &'c str) -> Result<(), Failure> {
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

    fn set_page_status(&mut self, id: PageId, status: &str) -> Result<(), Failure> {
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
                None => page::by_id(self.scope.conn, self.space, id)?,
            };
        }
        if let Some(page) = planned.page.as_mut().filter(|page| page.fields.status != status) {
            page.set_status(status, self.at);
            planned.is_changed = true;
        }
        Ok(())
    }

    fn add_entry(&mut self, new: &'c NewEntry, fields_json: &'c str) -> Result<(), Failure> {
        if self.find_entry(new.id)?.is_some() {
            return Err(StoreError::Invalid(format!("there is an entry {} already", new.id)).into());
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
    ) -> Result<(), Failure> {
        let index = self.find_entry(id)?.ok_or_else(|| not_found("entry", id))?;
        let (seq, at) = (self.seq, self.at);
        let (conn, space) = (self.scope.conn, self.space);
        let entry = self.current(index, id)?;
        let handle = entry.handle;
        let is_changed = !entry.already_has(changes);
        if let Some(expected) = expected.filter(|expected| is_changed && *expected != entry.version) {
            return Err(StoreError::StaleVersion {
                entry: handle.to_string(),
                found: entry.version,
                expected,
            }
            .into());
        }
        let mut conflicts = Vec::new();
        if is_changed {
            if let Some(base) = base.filter(|base| *base < entry.version) {
                let changed = journal::changed_since(conn, entry, space, base)?;
                conflicts = history::conflicts(entry, changes, base, |field| changed.get(field).copied());
            }
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

    /// The entry number `index` of this commit as its changes up to here make it.
    fn current(&mut self, index: usize, id: EntryId) -> Result<&mut Entry, Failure> {
        let (seq, at) = (self.seq, self.at);
        let planned = &mut self.entries.items[index];
        let handle = EntryHandle(planned.place.number());
        Ok(match (&mut planned.entry, planned.new) {
            (Some(entry), _) => entry,
            (none, Some((new, ..))) => none.insert(Entry::added(new.clone(), handle, seq, at)),
            (none, None) => {
                let found = entry::at(self.scope.conn, planned.place)?.ok_or_else(|| not_found("entry", id))?;
                planned.old_terms = terms_of(&found.fields);
                planned.old_watched = watched(&found);
                none.insert(found)
            }
        })
    }

    fn add_link(&mut self, link: &'c Link) -> Result<(), Failure> {
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

    fn change_policy(&mut self, change: &Change) -> Result<(), Failure> {
        let (kept, is_changed) = match &mut self.policy {
            Some(looked_up) => looked_up,
            none => none.insert((policy::read(self.scope.conn, Some(self.space))?, false)),
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

    fn append(&mut self, append: &'c RunAppend) -> Result<(), Failure> {
        let found = self.scope.run(self.space, append.run)?;
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

    fn page_place(&mut self, id: PageId) -> Result<Place, Failure> {
        let index = self.find_page(id)?.ok_or_else(|| not_found("page", id))?;
        Ok(self.pages.items[index].place)
    }

    fn find_page(&mut self, id: PageId) -> Result<Option<usize>, Failure> {
        if let Some(index) = self.pages.by_id.get(&id) {
            return Ok(Some(*index));
        }
        let found = self.scope.page(self.space, id)?;
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

    fn find_entry(&mut self, id: EntryId) -> Result<Option<usize>, Failure> {
        if let Some(index) = self.entries.by_id.get(&id) {
            return Ok(Some(*index));
        }
        let found = entry::place_of(self.scope.conn, self.space, id)?;
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

    fn write(self, commit: &Prepared, is_new_space: bool) -> Result<Committed, Failure> {
        let Self {
            scope,
            space,
            seq,
            at,
            mut ends,
            pages,
            entries,
            links,
            named_entries,
            named_pages,
            gone,
            run,
            policy,
            turns,
        } = self;
        let conn = scope.conn;
        if is_new_space {
            scope.add_space(&commit.space, space)?;
        }
        if !gone.is_empty() {
            erase::overwrite_deleted(conn, true)?;
        }
        journal::insert(conn, Place::of(space, seq.0), at, commit)?;
        for planned in &pages.items {
            planned.write(conn, seq, at)?;
        }
        for planned in &entries.items {
            planned.write(conn, seq, at)?;
        }
        for link in links {
            link::insert(conn, space, link)?;
        }
        unclaimed::keep(conn, space, commit, at)?;
        if let Some(run) = &run {
            run.write(conn, seq, at)?;
            scope.wrote_run(space, run.append.run, run.place, seq);
        }
        for planned in &turns {
            planned.write(conn)?;
        }
        if let Some((kept, true)) = &policy {
            policy::write(conn, space, kept)?;
            scope.wrote_policy(space, kept.version);
        }
        if !gone.is_empty() {
            erase::take_out(conn, space, &gone)?;
            erase::overwrite_deleted(conn, false)?;
        }
        (ends.head, ends.at) = (seq, at);
        scope.committed(space, ends);
        let named = |(id, index, changed, conflicts): (EntryId, usize, bool, Vec<FieldConflict>)| {
            let planned: &PlannedEntry<'_> = &entries.items[index];
            let version = planned.entry.as_ref().map_or(1, |entry| entry.version);
            CommittedEntry {
                id,
                handle: EntryHandle(planned.place.number()),
                version,
                changed,
                conflicts,
            }
        };
        Ok(Committed {
            seq,
            at,
            replayed: false,
            entries: named_entries.into_iter().map(named).collect(),
            pages: named_pages,
            run: run.map(|run| -> (RunId, RunHandle) { (run.append.run, RunHandle(run.place.number())) }),
        })
    }
}
