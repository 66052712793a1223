//! Checks whether the file is intact, and whether its rows follow from the log.

use std::collections::BTreeMap;
use std::hash::Hash;

use folio_memory::counted::counted;
use folio_memory::id::TurnHandle;
use folio_memory::terms::terms_of;
use folio_memory::turn::export::part_bodies;
use folio_memory::{Entry, Link, Page, Seq, TraceNote, Turn};
use rusqlite::{Connection, params};

use super::error::{Failure, is_damaged_file};
use super::packed::{self, Packed};
use super::place::{Place, SpaceId, Touched, from_column};
use super::{blob, entry, journal, page, policy, run, text_check, turn, watch};
use crate::checkup::CHUNK;
use crate::checkup::findings::{Counts, Findings};
use crate::checkup::problem::Problem;
use crate::checkup::rebuilt::{HELD_BYTES, Later, Named, Ready, Rebuilt, Rest, StoredRows, lasting_watches, parts_of};
use crate::checkup::rows::Rows;
use crate::commit::BlobHash;
use crate::store::{Checkup, LogRow};

/// The most lines that are reported about the pages of one database.
const LINES_OF_PAGES: usize = 10;

/// Runs all checks. A check that cannot be made is reported as a problem and does not stop the others.
pub(super) fn check(conn: &Connection) -> Result<Checkup, Failure> {
    check_holding(conn, HELD_BYTES)
}

/// The same, with at most about `bytes_max` of entries that are being rebuilt in memory.
fn check_holding(conn: &Connection, bytes_max: usize) -> Result<Checkup, Failure> {
    let mut findings = Findings::default();
    let pages = check_file(conn, &mut findings);
    was_checked("the pages and indexes of the file", pages, &mut findings)?;
    let foreign = check_schema(conn, &mut findings);
    was_checked("the schema of the file", foreign, &mut findings)?;
    let names = spaces(conn);
    let spaces = match names {
        Ok(spaces) => spaces,
        failed => {
            was_checked("the spaces", failed, &mut findings)?;
            Vec::new()
        }
    };
    findings.add_checked(counted(spaces.len() as u64, "space"));
    let mut counts = Counts::default();
    let mut is_whole = true;
    for (space, name) in spaces {
        let mut replay = Replay {
            conn,
            space,
            bytes_max,
            rebuilt: Rebuilt::default(),
            findings: Findings::default(),
        };
        let replayed = replay.run();
        is_whole &= was_checked("the rest of the space", replayed, &mut replay.findings)?;
        counts += replay.rebuilt.counts;
        findings.add_space(&name, replay.findings);
    }
    if is_whole {
        // Rows that were not read were not counted, either.
        let totals = check_totals(conn, &counts, &mut findings);
        was_checked("the number of rows", totals, &mut findings)?;
    }
    let words = text_check::check(conn, &mut findings);
    was_checked("the index of words", words, &mut findings)?;
    let bodies = check_blobs(conn, &mut findings);
    was_checked("the bodies", bodies, &mut findings)?;
    Ok(findings.into())
}

fn spaces(conn: &Connection) -> Result<Vec<(SpaceId, String)>, Failure> {
    let mut statement = conn.prepare("SELECT id, name FROM space ORDER BY id")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns whether the check of `subject` could be made. Damage that prevents it is added to the findings.
///
/// # Errors
///
/// Any failure that is not damage of the file.
fn was_checked<T>(subject: &str, done: Result<T, Failure>, findings: &mut Findings) -> Result<bool, Failure> {
    let Err(failure) = done else { return Ok(true) };
    let reason = match failure {
        Failure::Damaged(reason) => reason,
        Failure::Sql(error) if is_damage(&error) => error.to_string(),
        other => return Err(other),
    };
    findings.add(|| format!("{subject} could not be checked: {reason}"));
    Ok(false)
}

/// Whether `error` reports a damaged file: its pages, or the content of a row.
fn is_damage(error: &rusqlite::Error) -> bool {
    // An error without a code comes from reading a row, not from the database.
    error.sqlite_error_code().is_none() || is_damaged_file(error)
}

/// SQLite's own check of its pages and indexes.
fn check_file(conn: &Connection, findings: &mut Findings) -> Result<(), Failure> {
    let mut statement = conn.prepare("PRAGMA integrity_check(20)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let found: String = row.get(0)?;
        // The problems of one database come in one row, below its name. They are limited, to leave room for other
        // problems.
        let problem_lines = found.lines().filter(|line| *line != "ok" && !line.starts_with("***"));
        for line in problem_lines.take(LINES_OF_PAGES) {
            findings.add(|| line.to_owned());
        }
    }
    findings.add_checked("the pages and indexes of the file");
    Ok(())
}

/// Whether the file contains what acts by itself, or stands in for a table. A store has none of it, so somebody put it
/// there; no connection of Folio obeys it.
fn check_schema(conn: &Connection, findings: &mut Findings) -> Result<(), Failure> {
    let sql = "SELECT type, name, tbl_name FROM sqlite_schema WHERE type IN ('trigger', 'view') ORDER BY name";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, name, table): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        findings.add(|| format!("the file contains the {kind} {name:?} (on {table:?}), which Folio did not make"));
    }
    Ok(())
}

/// How far the log was read.
enum Progress {
    ThereIsMore,
    AtEnd,
    Unreadable,
}

/// Rebuilds the rows of one space from its log.
struct Replay<'c> {
    conn: &'c Connection,
    space: SpaceId,
    /// How much the entries that are being rebuilt may take.
    bytes_max: usize,
    rebuilt: Rebuilt,
    findings: Findings,
}

impl Replay<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            match self.read_on()? {
                Progress::ThereIsMore => {}
                Progress::AtEnd => return self.rest(),
                // Later commits cannot be rebuilt without this one.
                Progress::Unreadable => return Ok(()),
            }
        }
    }

    /// Reads and takes in the next commits.
    fn read_on(&mut self) -> Result<Progress, Failure> {
        let rows = match read(journal::changes(self.conn, self.space, self.rebuilt.last(), CHUNK))? {
            Ok(rows) => rows,
            Err(reason) => {
                self.findings.add(|| reason);
                return Ok(Progress::Unreadable);
            }
        };
        if rows.is_empty() {
            return Ok(Progress::AtEnd);
        }
        for part in parts_of(&rows) {
            self.take_in(part)?;
        }
        Ok(Progress::ThereIsMore)
    }

    /// Takes in the next commits, and compares what can be compared.
    fn take_in(&mut self, rows: &[LogRow]) -> Result<(), Failure> {
        let stored = self.stored_rows(&Named::by(rows))?;
        for row in rows {
            self.rebuilt.commit(row, &stored, &mut self.findings);
        }
        let Ready {
            entries,
            pages,
            turns,
            links,
            touches,
            later,
        } = self.rebuilt.take_ready();
        self.compare(&entries, &pages, &stored)?;
        turns.iter().try_for_each(|turn| self.compare_turn(turn))?;
        self.check_links(&links)?;
        self.check_touches(&touches)?;
        self.check_later(&later, rows, &stored)?;
        match self.rebuilt.take_held(self.bytes_max) {
            Some(held) => self.compare_ahead(held),
            None => Ok(()),
        }
    }

    /// Compares entries that are being rebuilt with all that is recorded as touching them later.
    fn compare_ahead(&mut self, held: Vec<Entry>) -> Result<(), Failure> {
        let (conn, space) = (self.conn, self.space);
        // If a commit cannot be read, the check ends there, and does not compare what it may have changed.
        let Ok(mut states) = read(journal::states_since(conn, space, &held, self.rebuilt.last()))? else {
            return Ok(());
        };
        let mut held = held.into_iter();
        loop {
            let chunk: Vec<Entry> = held.by_ref().take(CHUNK as usize).collect();
            if chunk.is_empty() {
                return Ok(());
            }
            let stored = StoredRows {
                entries: look_up_each(chunk.iter().map(|entry| &entry.id), |id| entry::by_id(conn, space, *id))?,
                ..StoredRows::default()
            };
            let mut ready = Vec::with_capacity(chunk.len());
            for entry in chunk {
                let ahead = states.remove(&entry.id);
                let is_right = stored.entries.has(&entry.id, ahead.as_ref().unwrap_or(&entry));
                if is_right || !self.rebuilt.may_doubt() {
                    ready.push(ahead.unwrap_or(entry));
                } else {
                    self.rebuilt.doubt(entry);
                }
            }
            self.compare(&ready, &[], &stored)?;
        }
    }

    /// Checks commits that name entries which were compared ahead, and are not recorded as touching them.
    fn check_later(&mut self, later: &[Later], rows: &[LogRow], stored: &StoredRows) -> Result<(), Failure> {
        let mut unrecorded = BTreeMap::<_, Vec<Seq>>::new();
        for Later { entry, handle, seq } in later {
            if !journal::is_touched(self.conn, Touched::Entry, Place::of(self.space, handle.0), *seq)? {
                unrecorded.entry((*handle, *entry)).or_default().push(*seq);
            }
        }
        for ((handle, id), seqs) in unrecorded {
            let last = Seq(seqs[0].0.saturating_sub(1));
            let before = journal::states_at(self.conn, &[Place::of(self.space, handle.0)], last)?;
            let before = before.into_entries().pop();
            if let Some(pair) = before.zip(stored.entries.get(&id)) {
                self.rebuilt.look_again(pair, &seqs, rows, &mut self.findings);
            }
        }
        Ok(())
    }

    /// The stored rows of everything that is `named`.
    fn stored_rows(&self, named: &Named) -> Result<StoredRows, Failure> {
        let (conn, space) = (self.conn, self.space);
        Ok(StoredRows {
            entries: look_up_each(&named.entries, |id| entry::by_id(conn, space, *id))?,
            pages: look_up_each(&named.pages, |id| page::by_id(conn, space, *id))?,
            turns: look_up_each(&named.turns, |id| turn::by_id(conn, space, *id))?,
        })
    }

    fn rest(&mut self) -> Result<(), Failure> {
        let (conn, space) = (self.conn, self.space);
        let Rest {
            entries,
            pages,
            turns,
            runs,
            policy,
            last_export,
        } = self.rebuilt.take_rest();
        for chunk in entries.chunks(CHUNK as usize) {
            let stored = StoredRows {
                entries: look_up_each(chunk.iter().map(|entry| &entry.id), |id| entry::by_id(conn, space, *id))?,
                ..StoredRows::default()
            };
            self.compare(chunk, &[], &stored)?;
        }
        for chunk in pages.chunks(CHUNK as usize) {
            let stored = StoredRows {
                pages: look_up_each(chunk.iter().map(|page| &page.id), |id| page::by_id(conn, space, *id))?,
                ..StoredRows::default()
            };
            self.compare(&[], chunk, &stored)?;
        }
        for (id, columns) in runs {
            let found = look_up_each([&id], |id| run::run_columns(conn, space, *id))?;
            found.compare(
                &id,
                &columns,
                format_args!("run {}", columns.handle),
                &mut self.findings,
            );
        }
        for turn in &turns {
            self.compare_turn(turn)?;
        }
        if let Some((turn, export)) = last_export {
            self.check_parts(turn, export)?;
        }
        match read(policy::read(conn, Some(space)))? {
            Ok(found) if found == policy => {}
            Ok(_) => self.findings.report(Problem::Policy),
            Err(reason) => self.findings.add(|| reason),
        }
        self.check_notes()
    }

    fn compare(&mut self, entries: &[Entry], pages: &[Page], stored: &StoredRows) -> Result<(), Failure> {
        for entry in entries {
            let name = format_args!("entry {}", entry.handle);
            stored.entries.compare(&entry.id, entry, name, &mut self.findings);
            self.compare_filing(entry)?;
        }
        for page in pages {
            let name = format_args!("page {}", page.handle);
            stored.pages.compare(&page.id, page, name, &mut self.findings);
            if !page::has_columns(self.conn, Place::of(self.space, page.handle.0), page)? {
                self.findings.report(Problem::Columns(name));
            }
        }
        Ok(())
    }

    /// Whether an entry can be found by every index that should contain it.
    fn compare_filing(&mut self, entry: &Entry) -> Result<(), Failure> {
        let handle = entry.handle;
        let place = Place::of(self.space, handle.0);
        if !entry::has_columns(self.conn, place, entry)? {
            self.findings.report(Problem::Columns(format_args!("entry {handle}")));
        }
        for watched in lasting_watches(entry) {
            self.rebuilt.counts.watched += 1;
            if !watch::is_watched(self.conn, place, &watched)? {
                self.findings.report(Problem::Watch(handle, watched.what));
            }
        }
        if let Some(body) = &entry.fields.body_ref {
            for hash in body.hashes() {
                if !blob::is_kept(self.conn, self.space, hash)? {
                    self.findings.report(Problem::Text(handle));
                    break;
                }
            }
        }
        for term in terms_of(&entry.fields) {
            self.rebuilt.counts.terms += 1;
            if !entry::is_found_by(self.conn, place, &term)? {
                self.findings.report(Problem::Term(handle, &term));
            }
        }
        Ok(())
    }

    fn compare_turn(&mut self, turn: &Turn) -> Result<(), Failure> {
        let (conn, space) = (self.conn, self.space);
        let name = format_args!("turn {}", turn.handle);
        let found = look_up_each([&turn.begun.id], |id| turn::by_id(conn, space, *id))?;
        found.compare(&turn.begun.id, turn, name, &mut self.findings);
        if !turn::has_columns(conn, Place::of(space, turn.handle.0), turn)? {
            self.findings.report(Problem::Columns(name));
        }
        let export = turn.ended.as_ref().map_or("", |ended| &*ended.end.export);
        if !export.is_empty() && !blob::is_kept(conn, space, export)? {
            self.findings.report(Problem::Export(turn.handle));
        }
        Ok(())
    }

    /// Whether all parts of the body `export` are there, if it is there itself.
    fn check_parts(&mut self, turn: TurnHandle, export: String) -> Result<(), Failure> {
        // That it is missing or damaged is found elsewhere.
        let body = match blob::read(self.conn, Some(self.space), &BlobHash(export)) {
            Ok(body) => body,
            Err(Failure::Refused(_) | Failure::Damaged(_)) => return Ok(()),
            Err(failure) => return Err(failure),
        };
        for part in part_bodies(&body) {
            if !blob::is_kept(self.conn, self.space, &part)? {
                self.findings.report(Problem::ExportPart(turn));
                break;
            }
        }
        Ok(())
    }

    /// Whether the notes of the trace can be read.
    fn check_notes(&mut self) -> Result<(), Failure> {
        let sql = "SELECT place, note FROM trace WHERE place BETWEEN ?1 AND ?2";
        let mut statement = self.conn.prepare(sql)?;
        let mut rows = statement.query([Place::start(self.space), Place::end(self.space)])?;
        while let Some(row) = rows.next()? {
            if let Err(error) = serde_json::from_str::<TraceNote>(row.get_ref(1)?.as_str().unwrap_or_default()) {
                let number = row.get::<_, Place>(0)?.number();
                self.findings.report(Problem::Note(number, &error));
            }
        }
        Ok(())
    }

    fn check_links(&mut self, links: &[(Seq, Link)]) -> Result<(), Failure> {
        let sql = "SELECT EXISTS (SELECT 1 FROM link WHERE space = ?1 AND src = ?2 AND rel = ?3 AND dst = ?4)";
        for (seq, link) in links {
            let values = params![self.space, link.src, link.rel.as_str(), link.dst];
            let exists: bool = self.conn.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
            if !exists {
                self.findings.report(Problem::Link(*seq));
            }
        }
        Ok(())
    }

    fn check_touches(&mut self, touches: &[(Touched, u64, Seq)]) -> Result<(), Failure> {
        for (touched, number, seq) in touches {
            if !journal::is_touched(self.conn, *touched, Place::of(self.space, *number), *seq)? {
                self.findings.report(Problem::Touch(touched.letter(), *number, *seq));
            }
        }
        Ok(())
    }
}

/// What `ask` finds for each of `ids`.
fn look_up_each<'i, I: Copy + Eq + Hash + 'i, T>(
    ids: impl IntoIterator<Item = &'i I>,
    ask: impl Fn(&I) -> Result<Option<T>, Failure>,
) -> Result<Rows<I, T>, Failure> {
    let mut rows = Rows::default();
    for id in ids {
        if let Some(found) = read(ask(id))?.transpose() {
            rows.insert(*id, found);
        }
    }
    Ok(rows)
}

/// Turns damage of one row into a finding, so that the check goes on.
fn read<T>(row: Result<T, Failure>) -> Result<Result<T, String>, Failure> {
    match row {
        Err(Failure::Damaged(reason)) => Ok(Err(reason)),
        row => row.map(Ok),
    }
}

/// Whether there are rows that do not come from the log.
fn check_totals(conn: &Connection, counts: &Counts, findings: &mut Findings) -> Result<(), Failure> {
    for rows in counts.row_counts() {
        let sql = format!("SELECT count(*) FROM {} WHERE {}", rows.table, rows.which);
        let found: i64 = conn.query_row(&sql, [], |row| row.get(0))?;
        findings.add_checked(rows.rebuilt_message(from_column(found)));
        rows.compare(from_column(found), findings);
    }
    Ok(())
}

/// Whether every body matches the hash under which it is kept.
fn check_blobs(conn: &Connection, findings: &mut Findings) -> Result<(), Failure> {
    let mut statement = conn.prepare("SELECT hash, size, encoding, bytes FROM blob ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut count = 0_u64;
    while let Some(row) = rows.next()? {
        count += 1;
        let hash: Vec<u8> = row.get(0)?;
        let encoding: String = row.get(2)?;
        if let Err(reason) = crate::body::unpack(&hash, from_column(row.get(1)?), &encoding, row.get(3)?) {
            findings.report(Problem::Body(&hash, &reason));
        }
    }
    findings.add_checked(format!("{}, each against its hash", counted(count, "body")));
    for (packed_kind, label) in [(Packed::Body, "entry e"), (Packed::Record, "commit ")] {
        packed::each(conn, packed_kind, |place, text| {
            if let Err(reason) = text {
                findings.add(|| format!("the packed text of {label}{} {reason}", place.number()));
            }
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
