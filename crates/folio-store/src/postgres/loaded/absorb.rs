//! Takes in what a commit changes, so that the next one is decided by the state that it leaves.

use folio_engine::Run;
use folio_memory::{Entry, EntryHandle, Link, Page, PageHandle, Relation, Seq, Timestamp};

use super::super::rows::Rows;
use super::{Loaded, LoadedEntry, LoadedPage, LoadedRun, LoadedTurn};
use crate::place::{Place, Touched};
use crate::plan::{Decided, PlannedEntry, PlannedPage, PlannedRun, PlannedTurn, PlannedWrites};
use crate::prepare::Prepared;

impl Loaded {
    /// Takes in the outcome of `commit`, as `decided`.
    pub(in super::super) fn absorb(&mut self, commit: &Prepared, decided: &Decided<'_>, rows: &mut Rows) {
        let (seq, at) = (decided.seq, decided.at);
        for planned in &decided.pages {
            self.absorb_page(planned, seq, at);
        }
        for planned in &decided.entries {
            if planned.new.is_none() && planned.entry.is_some() {
                // The record contains the request, even if it changes nothing, and erasing must find it.
                rows.touch(Touched::Entry, planned.place.number(), seq);
            }
            self.absorb_entry(planned, seq, at);
        }
        self.absorb_order(&decided.links);
        if let Some(planned) = &decided.run {
            rows.touch(Touched::Run, planned.place.number(), seq);
            self.absorb_run(planned, seq, at);
        }
        if let Some(planned) = &decided.writes {
            self.absorb_writes(planned);
        }
        for planned in &decided.turns {
            self.absorb_turn(planned);
        }
        if let Some(turn) = commit.turn_written {
            self.turns_written.insert(turn, seq);
        }
        if let Some(kept) = &decided.policy {
            self.policy = (kept.clone(), true);
        }
        self.kept.extend(commit.blobs.iter().map(|body| body.hash));
    }

    fn absorb_page(&mut self, planned: &PlannedPage<'_>, seq: Seq, at: Timestamp) {
        match (planned.new, &planned.page) {
            (Some((new, _, parent)), page) => {
                let handle = PageHandle(planned.place.number());
                let now = page
                    .clone()
                    .unwrap_or_else(|| Page::added(new.clone(), handle, seq, at));
                let loaded = LoadedPage {
                    now,
                    parent: parent.map(Place::number),
                    is_new: true,
                    is_changed: false,
                };
                self.pages.insert(new.id, loaded);
            }
            (None, Some(page)) if planned.is_changed => {
                if let Some(loaded) = self.pages.get_mut(&page.id) {
                    (loaded.now, loaded.is_changed) = (page.clone(), true);
                }
            }
            (None, _) => {}
        }
    }

    fn absorb_entry(&mut self, planned: &PlannedEntry<'_>, seq: Seq, at: Timestamp) {
        match (planned.new, &planned.entry) {
            (Some((new, _, page)), entry) => {
                let handle = EntryHandle(planned.place.number());
                let now = entry
                    .clone()
                    .unwrap_or_else(|| Entry::added(new.clone(), handle, seq, at));
                let loaded = LoadedEntry {
                    now,
                    page: page.number(),
                    before: None,
                    is_changed: false,
                };
                self.entries.insert(new.id, loaded);
            }
            (None, Some(entry)) if planned.is_changed => {
                if let Some(loaded) = self.entries.get_mut(&entry.id) {
                    (loaded.now, loaded.is_changed) = (entry.clone(), true);
                }
            }
            (None, _) => {}
        }
    }

    /// Takes in those of `links` that must not close a circle.
    fn absorb_order(&mut self, links: &[&Link]) {
        let has_order = |rel| matches!(rel, Relation::Blocks | Relation::Supersedes);
        for link in links.iter().filter(|link| has_order(link.rel)) {
            if let (Ok(src), Ok(dst)) = (link.src.parse(), link.dst.parse()) {
                self.leading.entry((link.rel, src)).or_default().push(dst);
                if link.rel == Relation::Blocks {
                    self.waited_for.entry(dst).or_default().push(src);
                }
            }
        }
    }

    fn absorb_run(&mut self, planned: &PlannedRun<'_>, seq: Seq, at: Timestamp) {
        let append = planned.append;
        if planned.is_new {
            let loaded = LoadedRun {
                number: planned.place.number(),
                head: seq,
                owner: None,
                fence: 0,
                before: Run::RUNNING.to_owned(),
                status: append.status.clone(),
                begun: Some((append.title.clone().unwrap_or_default(), seq, at)),
            };
            self.by_number.insert(loaded.number, append.run);
            self.runs.insert(append.run, loaded);
        } else if let Some(loaded) = self.runs.get_mut(&append.run) {
            loaded.head = seq;
            if append.status.is_some() {
                loaded.status.clone_from(&append.status);
            }
        }
    }

    fn absorb_writes(&mut self, planned: &PlannedWrites<'_>) {
        self.written.absorb(planned);
        for place in &planned.overtaken {
            let overtaken = self.by_number.get(&place.number());
            if let Some(run) = overtaken.and_then(|run| self.runs.get_mut(run)) {
                run.owner = None;
            }
        }
    }

    fn absorb_turn(&mut self, planned: &PlannedTurn) {
        let id = planned.turn.begun.id;
        let is_new = planned.is_new || self.turns.get(&id).is_some_and(|known| known.is_new);
        let loaded = LoadedTurn {
            now: planned.turn.clone(),
            is_new,
            is_changed: true,
        };
        self.turns.insert(id, loaded);
    }
}
