//! Whether the file is whole, and whether its rows follow from the log.
//!
//! The log is read once, in order. A row that never changed is compared with the change that added it at once; one that
//! was changed is made again from its changes and compared at the end, so no more than those are held in memory.

mod runs;
mod turns;

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use folio_memory::keeping::{self, Watch};
use folio_memory::terms::terms_of;
use folio_memory::{
    Change, Entry, EntryHandle, EntryId, KeptPolicy, NewEntry, Page, PageHandle, PageId, Seq, Timestamp, Turn, TurnId,
};
use rusqlite::{Connection, OptionalExtension, params};

use self::runs::Told;
use super::error::Failure;
use super::journal::{self, Touched};
use super::packed::{self, Packed};
use super::place::{Place, SpaceId, from_column};
use super::{blob, entry, page, policy, text_check, watch};
use crate::fold;
use crate::store::{Checkup, LogRow};

/// Most problems that are told; beyond, one knows that it is bad.
const TOLD: usize = 20;
const CHUNK: u32 = 500;

/// Looks at everything.
pub(super) fn check(conn: &Connection) -> Result<Checkup, Failure> {
    let mut findings = Findings::default();
    check_file(conn, &mut findings)?;
    let spaces = {
        let mut statement = conn.prepare("SELECT id, name FROM space ORDER BY id")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<Result<Vec<(SpaceId, String)>, _>>()?
    };
    findings.checked.push(format!("{} spaces", spaces.len()));
    let mut rebuilt = Counts::default();
    for (space, name) in spaces {
        let mut replay = Replay::new(conn, space, name, &mut findings);
        replay.run()?;
        rebuilt += replay.counts;
    }
    check_totals(conn, &rebuilt, &mut findings)?;
    text_check::check(conn, &mut findings)?;
    check_blobs(conn, &mut findings)?;
    Ok(Checkup {
        checked: findings.checked,
        problems: findings.problems,
    })
}

#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) checked: Vec<String>,
    problems: Vec<String>,
}

impl Findings {
    pub(super) fn add(&mut self, problem: impl FnOnce() -> String) {
        if self.problems.len() < TOLD {
            self.problems.push(problem());
        }
    }
}

/// How many rows the log accounts for.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    commits: u64,
    entries: u64,
    pages: u64,
    runs: u64,
    turns: u64,
    terms: u64,
    watched: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.commits += other.commits;
        self.entries += other.entries;
        self.pages += other.pages;
        self.runs += other.runs;
        self.turns += other.turns;
        self.terms += other.terms;
        self.watched += other.watched;
    }
}

/// SQLite's own look at its pages and indexes.
fn check_file(conn: &Connection, findings: &mut Findings) -> Result<(), Failure> {
    let mut statement = conn.prepare("PRAGMA integrity_check(20)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            findings.add(|| line);
        }
    }
    findings.checked.push("the pages and indexes of the file".to_owned());
    Ok(())
}

/// Makes the rows of one space again.
struct Replay<'c, 'f> {
    conn: &'c Connection,
    space: SpaceId,
    name: String,
    findings: &'f mut Findings,
    counts: Counts,
    /// The numbers of entries that were given so far; of some only the number is left.
    numbers: u64,
    last: (Seq, Timestamp),
    /// Entries and pages that were changed, as far as they are made.
    entries: HashMap<EntryId, Entry>,
    pages: HashMap<PageId, Page>,
    policy: KeptPolicy,
    turns: HashMap<TurnId, Turn>,
    /// By their numbers.
    runs: HashMap<u64, Told>,
}

impl<'c, 'f> Replay<'c, 'f> {
    fn new(conn: &'c Connection, space: SpaceId, name: String, findings: &'f mut Findings) -> Self {
        let last = (Seq(0), Timestamp::MIN);
        Self {
            conn,
            space,
            name,
            findings,
            counts: Counts::default(),
            numbers: 0,
            last,
            entries: HashMap::new(),
            pages: HashMap::new(),
            policy: KeptPolicy::default(),
            turns: HashMap::new(),
            runs: HashMap::new(),
        }
    }

    fn run(&mut self) -> Result<(), Failure> {
        loop {
            let rows = match journal::changes(self.conn, self.space, self.last.0, CHUNK) {
                Err(Failure::Damaged(reason)) => {
                    self.problem(|| reason);
                    return Ok(());
                }
                rows => rows?,
            };
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                self.commit(row)?;
            }
        }
        for entry in std::mem::take(&mut self.entries).into_values() {
            self.compare_entry(&entry)?;
        }
        for page in std::mem::take(&mut self.pages).into_values() {
            self.compare_page(&page)?;
        }
        match read(policy::read(self.conn, Some(self.space)))? {
            Ok(found) if found == self.policy => {}
            Ok(_) => self.problem(|| "the policy is not what the log makes of it".to_owned()),
            Err(reason) => self.problem(|| reason),
        }
        self.compare_runs()?;
        self.compare_turns()
    }

    fn problem(&mut self, problem: impl FnOnce() -> String) {
        let name = &self.name;
        self.findings.add(|| format!("space {name}: {}", problem()));
    }

    fn commit(&mut self, row: &LogRow) -> Result<(), Failure> {
        let (last, last_at) = self.last;
        let folded = row.record.folded;
        let first = folded.map_or(row.seq, |folded| folded.from);
        if first.0 != last.0 + 1 {
            self.problem(|| format!("after commit {last} comes {first}"));
        }
        self.numbers += folded.map_or(0, |folded| folded.entries);
        if row.at < last_at {
            self.problem(|| format!("commit {} is older than the one before", row.seq));
        }
        self.last = (row.seq, row.at);
        self.counts.commits += 1;
        for change in &row.record.changes {
            self.change(row, change)?;
        }
        if let Some(append) = &row.record.run {
            self.append(row, append)?;
        }
        Ok(())
    }

    fn change(&mut self, row: &LogRow, change: &Change) -> Result<(), Failure> {
        match change {
            Change::EnsurePage(new) => self.ensure_page(row, new),
            Change::SetPageStatus { page, status } => self.set_page_status(row, *page, status),
            Change::AddEntry(new) => self.add_entry(row, new),
            Change::BeginTurn(_) | Change::EndTurn { .. } => {
                self.turn(row, change);
                Ok(())
            }
            Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => {
                self.patch_entry(row, change, *entry)
            }
            Change::AddLink(link) => {
                let sql = "SELECT EXISTS (SELECT 1 FROM link WHERE space = ?1 AND src = ?2 AND rel = ?3 AND dst = ?4)";
                let values = params![self.space, link.src, link.rel.as_str(), link.dst];
                let exists: bool = self.conn.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
                if !exists {
                    self.problem(|| format!("the link of commit {} is missing", row.seq));
                }
                Ok(())
            }
            Change::SetPolicy { .. } | Change::RegisterType { .. } => {
                self.policy.apply(change, row.seq);
                Ok(())
            }
            other => {
                self.problem(|| format!("commit {} has an unknown change {other:?}", row.seq));
                Ok(())
            }
        }
    }

    fn ensure_page(&mut self, row: &LogRow, new: &folio_memory::NewPage) -> Result<(), Failure> {
        let place = page::place_of(self.conn, self.space, new.id)?;
        // Ids are given once, so whoever comes after the one who made the page finds a number that was given before.
        if place.is_some_and(|place| place.number() <= self.counts.pages) {
            return Ok(());
        }
        self.counts.pages += 1;
        let page = Page::added(new.clone(), PageHandle(self.counts.pages), row.seq, row.at);
        self.pages.insert(new.id, page);
        // Most pages are never changed again, and need not be kept.
        let found = page::by_id(self.conn, self.space, new.id)?;
        if found.is_some_and(|found| found.version == 1)
            && let Some(page) = self.pages.remove(&new.id)
        {
            self.compare_page(&page)?;
        }
        Ok(())
    }

    fn set_page_status(&mut self, row: &LogRow, id: PageId, status: &str) -> Result<(), Failure> {
        match self.pages.get_mut(&id) {
            Some(page) if page.fields.status != status => {
                page.set_status(status, row.at);
                Ok(())
            }
            Some(_) => Ok(()),
            // A page that was compared and let go has never been changed.
            None => self.unchanged_page(row, id, status),
        }
    }

    fn unchanged_page(&mut self, row: &LogRow, id: PageId, status: &str) -> Result<(), Failure> {
        let found = page::by_id(self.conn, self.space, id)?;
        if found.is_none_or(|found| found.fields.status != status) {
            self.problem(|| format!("{id} has not the status that commit {} gave it", row.seq));
        }
        Ok(())
    }

    fn add_entry(&mut self, row: &LogRow, new: &NewEntry) -> Result<(), Failure> {
        self.counts.entries += 1;
        self.numbers += 1;
        let made = Entry::added(new.clone(), EntryHandle(self.numbers), row.seq, row.at);
        let place = Place::of(self.space, self.numbers);
        let sql = "SELECT version FROM entry WHERE place = ?1";
        let version: Option<u32> = self
            .conn
            .prepare_cached(sql)?
            .query_row([place], |row| row.get(0))
            .optional()?;
        if version == Some(1) {
            return self.compare_entry(&made);
        }
        self.entries.insert(new.id, made);
        Ok(())
    }

    fn patch_entry(&mut self, row: &LogRow, change: &Change, id: EntryId) -> Result<(), Failure> {
        let mut state = match self.entries.remove(&id) {
            Some(entry) => Some(entry),
            // One that was compared and let go has never been changed, so this must change nothing.
            None => entry::by_id(self.conn, self.space, id)?,
        };
        let Some(EntryHandle(number)) = state.as_ref().map(|entry| entry.handle) else {
            self.problem(|| format!("commit {} changes {id}, which is not there", row.seq));
            return Ok(());
        };
        let changed = fold::fold(&mut state, EntryHandle(number), change, id, row.seq, row.at);
        if let Some(entry) = state.filter(|entry| changed || entry.version > 1) {
            let created = entry.created_seq;
            self.entries.insert(id, entry);
            if changed {
                self.expect_touch(Touched::Entry, number, created, row.seq)?;
            }
        }
        Ok(())
    }

    fn expect_touch(&mut self, what: Touched, number: u64, created: Seq, seq: Seq) -> Result<(), Failure> {
        // What a commit changes of what it has added itself is found with the addition.
        if created == seq {
            return Ok(());
        }
        let place = Place::of(self.space, number);
        if !journal::is_touched(self.conn, what, place, seq)? {
            self.problem(|| {
                format!(
                    "{}{number} does not know of commit {seq}, which changed it",
                    what.letter()
                )
            });
        }
        Ok(())
    }

    fn compare_page(&mut self, made: &Page) -> Result<(), Failure> {
        let found = read(page::by_id(self.conn, self.space, made.id));
        match found? {
            Ok(Some(found)) if found == *made => {}
            Ok(Some(_)) => self.problem(|| format!("page {} is not what the log makes of it", made.handle)),
            Ok(None) => self.problem(|| format!("page {} is missing", made.handle)),
            Err(reason) => self.problem(|| reason),
        }
        Ok(())
    }

    fn compare_entry(&mut self, made: &Entry) -> Result<(), Failure> {
        let place = Place::of(self.space, made.handle.0);
        let terms = terms_of(&made.fields);
        self.counts.terms += terms.len() as u64;
        match read(entry::at(self.conn, place))? {
            Ok(Some(found)) if found == *made => {}
            Ok(Some(_)) => self.problem(|| format!("entry {} is not what the log makes of it", made.handle)),
            Ok(None) => self.problem(|| format!("entry {} is missing", made.handle)),
            Err(reason) => self.problem(|| reason),
        }
        if !entry::has_columns(self.conn, place, made)? {
            self.problem(|| format!("entry {} is filed under something that it is not", made.handle));
        }
        for watched in keeping::watched(made)
            .iter()
            .filter(|watched| !is_passing(watched.what))
        {
            self.counts.watched += 1;
            if !watch::is_watched(self.conn, place, watched)? {
                self.problem(|| {
                    format!(
                        "entry {} is not watched for being {}",
                        made.handle,
                        watched.what.as_str()
                    )
                });
            }
        }
        if let Some(body) = &made.fields.body_ref {
            for hash in body.hashes() {
                if !blob::is_kept(self.conn, self.space, hash)? {
                    self.problem(|| format!("the whole text of entry {} is missing", made.handle));
                    break;
                }
            }
        }
        for term in terms {
            if !entry::is_found_by(self.conn, place, &term)? {
                let shown = term.replace(char::is_control, " ");
                self.problem(|| format!("entry {} cannot be found by its word {:?}", made.handle, shown.trim()));
            }
        }
        Ok(())
    }
}

/// Whether it is watched only until somebody has looked once.
fn is_passing(what: Watch) -> bool {
    matches!(what, Watch::Archived | Watch::Tombstone)
}

/// Damage of one row is a finding, not the end of the check.
fn read<T>(row: Result<T, Failure>) -> Result<Result<T, String>, Failure> {
    match row {
        Err(Failure::Damaged(reason)) => Ok(Err(reason)),
        row => row.map(Ok),
    }
}

/// Whether there are rows that the log knows nothing of.
fn check_totals(conn: &Connection, rebuilt: &Counts, findings: &mut Findings) -> Result<(), Failure> {
    let cases = [
        ("commits", "log", rebuilt.commits),
        ("entries", "entry", rebuilt.entries),
        ("pages", "page", rebuilt.pages),
        ("runs", "run", rebuilt.runs),
        ("turns", "turn", rebuilt.turns),
        ("words that entries are found by", "entry_term", rebuilt.terms),
        ("watches", "watch WHERE what NOT IN (5, 6)", rebuilt.watched),
    ];
    for (what, table, wanted) in cases {
        let found: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
        let found = from_column(found);
        findings
            .checked
            .push(format!("{found} {what}, made again from the log"));
        if found != wanted {
            findings.add(|| format!("there are {found} {what}, but the log makes {wanted}"));
        }
    }
    Ok(())
}

/// Whether every body has the hash that it is kept under.
fn check_blobs(conn: &Connection, findings: &mut Findings) -> Result<(), Failure> {
    let mut statement = conn.prepare("SELECT hash, size, encoding, bytes FROM blob ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut count = 0_u64;
    while let Some(row) = rows.next()? {
        count += 1;
        let hash: Vec<u8> = row.get(0)?;
        let encoding: String = row.get(2)?;
        if let Err(reason) = crate::body::unpack(&hash, from_column(row.get(1)?), &encoding, row.get(3)?) {
            findings.add(|| format!("body {} {reason}", HEXLOWER.encode(&hash)));
        }
    }
    findings.checked.push(format!("{count} bodies against their hashes"));
    for (what, of) in [(Packed::Body, "entry e"), (Packed::Record, "commit ")] {
        packed::each(conn, what, |place, text| {
            if let Err(reason) = text {
                findings.add(|| format!("what is packed of {of}{} {reason}", place.number()));
            }
        })?;
    }
    Ok(())
}
