//! The rows of one space, rebuilt from its log.
//!
//! The log is read once, in order. A row that never changed is compared at once with the change that added it, and a page
//! or a turn when it has reached the state that is stored. Entries that were changed are held until the end, or until
//! they take too much memory: then their later changes are looked up ahead ([`Rebuilt::take_held`]).

mod ahead;

use std::collections::{HashMap, HashSet};

use folio_engine::{Event, Run};
use folio_memory::id::{RunHandle, TurnHandle};
use folio_memory::keeping::{self, Watch, Watched};
use folio_memory::turn::TurnEnd;
use folio_memory::{
    Change, Entry, EntryHandle, EntryId, KeptPolicy, Link, NewEntry, NewPage, Page, PageHandle, PageId, RunId, Seq,
    Timestamp, Turn, TurnId,
};

pub(crate) use self::ahead::HELD_BYTES;
use self::ahead::Held;
use super::findings::{Counts, Findings};
use super::rows::Rows;
use crate::commit::RunAppend;
use crate::fold;
use crate::place::Touched;
use crate::store::LogRow;

/// The ids of things to which some commits refer.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub(crate) entries: Vec<EntryId>,
    pub(crate) pages: Vec<PageId>,
    pub(crate) turns: Vec<TurnId>,
}

impl Named {
    /// Those in the commits of `rows`.
    pub(crate) fn by(rows: &[LogRow]) -> Self {
        let mut named = Self::default();
        for change in rows.iter().flat_map(|row| &row.record.changes) {
            match change {
                Change::AddEntry(new) => named.entries.push(new.id),
                Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => named.entries.push(*entry),
                Change::EnsurePage(new) => named.pages.push(new.id),
                Change::SetPageStatus { page, .. } => named.pages.push(*page),
                Change::BeginTurn(new) => named.turns.push(new.id),
                Change::EndTurn { turn, .. } | Change::EraseTurn { turn } => named.turns.push(*turn),
                _ => {}
            }
        }
        named
    }
}

/// How many changes are taken in at a time, unless one commit has more: the rows of all that they name are in memory.
const CHANGES_AT_ONCE: usize = 1_000;

/// `rows` in parts of a bounded number of changes.
pub(crate) fn parts_of(rows: &[LogRow]) -> impl Iterator<Item = &[LogRow]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut changes = 0;
        let count = rest.iter().take_while(|row| {
            let has_room = changes < CHANGES_AT_ONCE;
            changes += row.record.changes.len();
            has_room
        });
        let (part, others) = rest.split_at(count.count());
        rest = others;
        (!part.is_empty()).then_some(part)
    })
}

/// The stored rows of the things to which some commits refer.
#[derive(Debug, Default)]
pub(crate) struct StoredRows {
    pub(crate) entries: Rows<EntryId, Entry>,
    pub(crate) pages: Rows<PageId, Page>,
    pub(crate) turns: Rows<TurnId, Turn>,
}

/// What can be compared by now.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    pub(crate) entries: Vec<Entry>,
    pub(crate) pages: Vec<Page>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) links: Vec<(Seq, Link)>,
    /// Which commits should be recorded as touching what: the kind, its number, the commit.
    pub(crate) touches: Vec<(Touched, u64, Seq)>,
    /// Which commits name entries that were compared ahead.
    pub(crate) later: Vec<Later>,
}

/// A commit that names an entry that was compared ahead. If it is recorded as touching the entry, it was read then;
/// otherwise it must not change anything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Later {
    pub(crate) entry: EntryId,
    pub(crate) handle: EntryHandle,
    pub(crate) seq: Seq,
}

/// What can be compared once the whole log was read.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) entries: Vec<Entry>,
    pub(crate) pages: Vec<Page>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) runs: Vec<(RunId, RunColumns)>,
    pub(crate) policy: KeptPolicy,
    /// The turn whose export the next one is based on, and the hash of that export.
    pub(crate) last_export: Option<(TurnHandle, String)>,
}

/// What the row of a run contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RunColumns {
    pub(crate) handle: RunHandle,
    pub(crate) title: String,
    pub(crate) status: String,
}

/// What the log has produced so far.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    pub(crate) counts: Counts,
    /// The numbers of entries that were assigned so far; of some entries only the number is left.
    pub(crate) numbers: u64,
    last: (Seq, Timestamp),
    /// Entries that were changed, in their state so far.
    held: Held,
    /// Pages that were changed and have not reached the state that is stored.
    pages: HashMap<PageId, Page>,
    /// Every page that was added.
    added_pages: HashSet<PageId>,
    policy: KeptPolicy,
    /// Turns that have not reached the state that is stored.
    turns: HashMap<TurnId, Turn>,
    last_ended: LastEnded,
    runs: HashMap<RunId, RunColumns>,
    ready: Ready,
}

impl Default for Rebuilt {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            numbers: 0,
            last: (Seq(0), Timestamp::MIN),
            held: Held::default(),
            pages: HashMap::new(),
            added_pages: HashSet::new(),
            policy: KeptPolicy::default(),
            turns: HashMap::new(),
            last_ended: LastEnded::default(),
            runs: HashMap::new(),
            ready: Ready::default(),
        }
    }
}

impl Rebuilt {
    /// The last commit that was read.
    pub(crate) fn last(&self) -> Seq {
        self.last.0
    }

    /// Takes in the next commit; `stored` has the rows to which it refers. Adds what is impossible to the findings.
    pub(crate) fn commit(&mut self, row: &LogRow, stored: &StoredRows, findings: &mut Findings) {
        let (last, last_at) = self.last;
        let folded = row.record.folded;
        let first = folded.map_or(row.seq, |folded| folded.from);
        if first.0 != last.0 + 1 {
            findings.add(|| format!("commit {last} is followed by commit {first}"));
        }
        self.numbers += folded.map_or(0, |folded| folded.entries);
        if row.at < last_at {
            findings.add(|| format!("commit {} is older than the one before", row.seq));
        }
        self.last = (row.seq, row.at);
        self.counts.commits += 1;
        for change in &row.record.changes {
            self.change(row, change, stored, findings);
        }
        if let Some(append) = &row.record.run {
            self.append(row, append, findings);
        }
    }

    /// Takes what can be compared by now.
    pub(crate) fn take_ready(&mut self) -> Ready {
        std::mem::take(&mut self.ready)
    }

    /// Takes what can be compared once the log was read to its end.
    pub(crate) fn take_rest(&mut self) -> Rest {
        let turns: Vec<Turn> = std::mem::take(&mut self.turns).into_values().collect();
        turns.iter().for_each(|turn| self.last_ended.add(turn));
        Rest {
            entries: std::mem::take(&mut self.held).into_entries(),
            pages: std::mem::take(&mut self.pages).into_values().collect(),
            turns,
            runs: std::mem::take(&mut self.runs).into_iter().collect(),
            policy: std::mem::take(&mut self.policy),
            last_export: std::mem::take(&mut self.last_ended).export(),
        }
    }

    fn change(&mut self, row: &LogRow, change: &Change, stored: &StoredRows, findings: &mut Findings) {
        let seq = row.seq;
        match change {
            Change::EnsurePage(new) => self.ensure_page(row, new, stored, findings),
            Change::SetPageStatus { page, status } => self.set_page_status(row, *page, status, stored, findings),
            Change::AddEntry(new) => self.add_entry(row, new, stored),
            Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => {
                self.patch_entry(row, change, *entry, stored, findings);
            }
            Change::AddLink(link) => self.ready.links.push((seq, link.clone())),
            Change::BeginTurn(new) => {
                self.counts.turns += 1;
                let new_turn = Turn::begun((**new).clone(), TurnHandle(self.counts.turns), seq, row.at);
                self.turns.insert(new.id, new_turn);
            }
            Change::EndTurn { turn, end } => self.end_turn(row, *turn, end, stored, findings),
            Change::EraseTurn { turn } => self.erase_turn(row, *turn, stored, findings),
            Change::EraseRun { run, .. } => match self.runs.get_mut(run) {
                // The same commit says its new status.
                Some(run) => run.title.clear(),
                None => findings.add(|| format!("commit {seq} erases {run}, which does not exist")),
            },
            Change::SetPolicy { .. } | Change::RegisterType { .. } => {
                self.policy.apply(change, seq);
            }
            other => findings.add(|| format!("commit {seq} has an unknown change {other:?}")),
        }
    }

    fn ensure_page(&mut self, row: &LogRow, new: &NewPage, stored: &StoredRows, findings: &mut Findings) {
        if !self.added_pages.insert(new.id) {
            if let Some(page) = self.pages.get_mut(&new.id) {
                page.ensure(&new.fields, row.at);
                self.settle_page(new.id, stored);
            } else if stored
                .pages
                .get(&new.id)
                .is_none_or(|found| found.clone().ensure(&new.fields, row.at))
            {
                // A page that was compared and dropped no longer changes, so this must not change anything.
                findings.add(|| format!("{} does not have the iteration that commit {} gave it", new.id, row.seq));
            }
            return;
        }
        self.counts.pages += 1;
        let page = Page::added(new.clone(), PageHandle(self.counts.pages), row.seq, row.at);
        self.pages.insert(new.id, page);
        self.settle_page(new.id, stored);
    }

    /// Has a page compared if it has reached the version that is stored.
    fn settle_page(&mut self, id: PageId, stored: &StoredRows) {
        let wanted = stored.pages.get(&id).map(|found| found.version);
        if self.pages.get(&id).map(|page| page.version) == wanted {
            self.ready.pages.extend(self.pages.remove(&id));
        }
    }

    fn set_page_status(
        &mut self,
        row: &LogRow,
        id: PageId,
        status: &str,
        stored: &StoredRows,
        findings: &mut Findings,
    ) {
        match self.pages.get_mut(&id) {
            Some(page) if page.fields.status != status => {
                page.set_status(status, row.at);
                self.settle_page(id, stored);
            }
            Some(_) => {}
            // A page that was compared and dropped no longer changes, so this must not change anything.
            None if self.added_pages.contains(&id) => {
                if stored.pages.get(&id).is_none_or(|found| found.fields.status != status) {
                    findings.add(|| format!("{id} does not have the status that commit {} gave it", row.seq));
                }
            }
            None => findings.add(|| format!("commit {} changes {id}, which does not exist", row.seq)),
        }
    }

    fn add_entry(&mut self, row: &LogRow, new: &NewEntry, stored: &StoredRows) {
        self.counts.entries += 1;
        self.numbers += 1;
        let entry = Entry::added(new.clone(), EntryHandle(self.numbers), row.seq, row.at);
        if stored.entries.get(&new.id).is_some_and(|found| found.version == 1) {
            self.ready.entries.push(entry);
        } else {
            self.held.insert(entry);
        }
    }

    fn patch_entry(
        &mut self,
        row: &LogRow,
        change: &Change,
        id: EntryId,
        stored: &StoredRows,
        findings: &mut Findings,
    ) {
        let held = self.held.remove(id);
        let is_being_made = held.is_some();
        let mut state = held;
        if let (None, Some(found)) = (&state, stored.entries.get(&id)) {
            if found.version > 1 {
                self.ready.later.push(Later {
                    entry: id,
                    handle: found.handle,
                    seq: row.seq,
                });
                return;
            }
            // An entry that was compared and dropped never changes, so this must not change anything.
            state = Some(found.clone());
        }
        let Some(handle) = state.as_ref().map(|entry| entry.handle) else {
            findings.add(|| format!("commit {} changes {id}, which does not exist", row.seq));
            return;
        };
        let changed = fold::fold(&mut state, handle, change, id, row.seq, row.at);
        if let Some(entry) = state.filter(|_| is_being_made || changed) {
            // A change in the commit that added the entry is found with the addition.
            if changed && entry.created_seq != row.seq {
                self.ready.touches.push((Touched::Entry, handle.0, row.seq));
            }
            self.held.insert(entry);
        }
    }

    fn end_turn(&mut self, row: &LogRow, id: TurnId, end: &TurnEnd, stored: &StoredRows, findings: &mut Findings) {
        let seq = row.seq;
        let found = stored.turns.get(&id);
        let Some(turn) = self.turns.get_mut(&id) else {
            match found {
                // It was compared and dropped when it ended.
                Some(_) => findings.add(|| format!("commit {seq} ends {id}, which had ended")),
                None => findings.add(|| format!("commit {seq} ends {id}, which does not exist")),
            }
            return;
        };
        if !turn.end(end.clone(), seq, row.at) {
            findings.add(|| format!("commit {seq} ends {id}, which had ended"));
        } else if found == Some(&*turn) {
            self.last_ended.add(turn);
            self.ready.turns.extend(self.turns.remove(&id));
        }
    }

    fn erase_turn(&mut self, row: &LogRow, id: TurnId, stored: &StoredRows, findings: &mut Findings) {
        if let Some(turn) = self.turns.get_mut(&id) {
            turn.erase();
        } else if let Some(mut turn) = stored.turns.get(&id).cloned() {
            // A turn that was compared and dropped no longer changes, so this must not change anything.
            if turn.erase() {
                self.turns.insert(id, turn);
            }
        } else {
            findings.add(|| format!("commit {} erases {id}, which does not exist", row.seq));
        }
    }

    /// Begins a run, or takes in what a commit says of it.
    fn append(&mut self, row: &LogRow, append: &RunAppend, findings: &mut Findings) {
        if matches!(append.events.first(), Some(Event::RunStarted { .. })) {
            self.counts.runs += 1;
            let run = RunColumns {
                handle: RunHandle(self.counts.runs),
                title: append.title.clone().unwrap_or_default(),
                status: Run::RUNNING.to_owned(),
            };
            self.runs.insert(append.run, run);
        }
        let Some(run) = self.runs.get_mut(&append.run) else {
            findings.add(|| format!("{} in commit {} was never started", append.run, row.seq));
            return;
        };
        if let Some(status) = &append.status {
            run.status.clone_from(status);
        }
        self.ready.touches.push((Touched::Run, run.handle.0, row.seq));
    }
}

/// The turn that ended last, whose export the next one is based on. Parts of older ones can be made again from the
/// entries.
#[derive(Debug, Default)]
struct LastEnded(Option<((Seq, TurnHandle), String)>);

impl LastEnded {
    fn add(&mut self, turn: &Turn) {
        let Some(ended) = &turn.ended else { return };
        let key = (ended.end.as_of, turn.handle);
        if self.0.as_ref().is_none_or(|(last, _)| *last <= key) {
            self.0 = Some((key, ended.end.export.clone()));
        }
    }

    /// The turn and its export, if it has one.
    fn export(self) -> Option<(TurnHandle, String)> {
        let ((_, turn), export) = self.0?;
        Some((turn, export)).filter(|(_, export)| !export.is_empty())
    }
}

/// What `entry` is watched for, without watches that end with the first look.
pub(crate) fn lasting_watches(entry: &Entry) -> Vec<Watched> {
    let mut watched = keeping::watched(entry);
    watched.retain(|watched| !matches!(watched.what, Watch::Archived | Watch::Tombstone));
    watched
}
