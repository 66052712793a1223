//! Checks whether the rows of every space follow from its log.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::hash::Hash;

use folio_memory::counted::counted;
use folio_memory::id::TurnHandle;
use folio_memory::terms::terms_of;
use folio_memory::text::{self, EntryTerms};
use folio_memory::turn::export::part_bodies;
use folio_memory::{Entry, EntryHandle, EntryId, Link, Page, PageId, RunId, Seq, Timestamp, TraceNote, Turn, TurnId};

use super::column::{count, encode_text, get};
use super::error::Failure;
use super::patience::Wait;
use super::reach::Call;
use super::session::{Purpose, Session};
use super::{Inner, blob, entry, journal, page, policy, run, text as index, turn, watch};
use crate::body::{parse_hash, unpack};
use crate::checkup::CHUNK;
use crate::checkup::findings::{Counts, Findings};
use crate::checkup::problem::Problem;
use crate::checkup::rebuilt::{
    HELD_BYTES, Later, Named, Ready, Rebuilt, Rest, RunColumns, StoredRows, lasting_watches, parts_of,
};
use crate::checkup::rows::Rows;
use crate::commit::BlobHash;
use crate::place::{SpaceId, Touched, to_column};
use crate::store::{Checkup, LogRow};

pub(super) async fn check(inner: &Inner) -> Result<Checkup, Failure> {
    let mut findings = Findings::default();
    let client = inner.connections.take(Call::Reads, Wait::begin()).await?;
    let rows = client.query("SELECT id, name FROM all_spaces()", &[]).await?;
    drop(client);
    findings.add_checked(counted(rows.len() as u64, "space"));
    let (mut counts, mut bodies) = (Counts::default(), 0);
    for row in &rows {
        let space = SpaceId(get(row, 0)?);
        let name: String = get(row, 1)?;
        let wait = Wait::begin();
        let client = inner.connections.take(Call::Reads, wait).await?;
        let session = Session::begin(client, space, Purpose::Read, wait, &inner.reach);
        let mut replay = Replay {
            session: &session,
            rebuilt: Rebuilt::default(),
            findings: Findings::default(),
            bodies: 0,
            indexed: None,
        };
        replay.run().await?;
        counts += replay.rebuilt.counts;
        bodies += replay.bodies;
        findings.add_space(&name, replay.findings);
    }
    for rows in counts.row_counts() {
        findings.add_checked(rows.rebuilt_message(rows.wanted));
    }
    findings.add_checked(format!("{}, each against its hash", counted(bodies, "body")));
    Ok(findings.into())
}

/// Rebuilds the rows of one space from its log.
struct Replay<'s> {
    session: &'s Session,
    rebuilt: Rebuilt,
    findings: Findings,
    bodies: u64,
    /// The commit up to which words are indexed.
    indexed: Option<Seq>,
}

/// The hash of a turn's export, if the turn has one; the inner `None` means that it is not a hash.
fn export_of(turn: &Turn) -> Option<Option<[u8; 32]>> {
    let ended = turn.ended.as_ref()?;
    Some(parse_hash(&ended.end.export)).filter(|_| !ended.end.export.is_empty())
}

impl Replay<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        self.indexed = index::indexed(self.session).await?.map(|indexed| indexed.seq);
        loop {
            let rows = match read(journal::changes(self.session, self.rebuilt.last(), CHUNK).await)? {
                Ok(rows) => rows,
                Err(reason) => {
                    // Later commits cannot be rebuilt without this one.
                    self.findings.add(|| reason);
                    return Ok(());
                }
            };
            if rows.is_empty() {
                break;
            }
            for part in parts_of(&rows) {
                self.take_in(part).await?;
            }
        }
        self.rest().await?;
        self.check_notes().await?;
        self.check_bodies().await?;
        self.check_totals().await
    }

    /// Takes in the next commits, and compares what can be compared.
    async fn take_in(&mut self, rows: &[LogRow]) -> Result<(), Failure> {
        let named = Named::by(rows);
        let stored = StoredRows {
            entries: stored_rows(self.session, &named.entries).await?,
            pages: stored_rows(self.session, &named.pages).await?,
            turns: stored_rows(self.session, &named.turns).await?,
        };
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
        self.compare_entries(&entries, &stored.entries).await?;
        self.compare_pages(&pages, &stored.pages).await?;
        self.compare_turns(&turns).await?;
        self.check_links(&links).await?;
        self.check_touches(&touches).await?;
        self.check_later(&later, rows, &stored).await?;
        match self.rebuilt.take_held(HELD_BYTES) {
            Some(held) => self.compare_ahead(held).await,
            None => Ok(()),
        }
    }

    /// Compares entries that are being rebuilt with all that is recorded as touching them later.
    async fn compare_ahead(&mut self, held: Vec<Entry>) -> Result<(), Failure> {
        let states = journal::states_since(self.session, &held, self.rebuilt.last()).await;
        // If a commit cannot be read, the check ends there, and does not compare what it may have changed.
        let Ok(mut states) = read(states)? else { return Ok(()) };
        let mut held = held.into_iter();
        loop {
            let chunk: Vec<Entry> = held.by_ref().take(CHUNK as usize).collect();
            if chunk.is_empty() {
                return Ok(());
            }
            let ids: Vec<EntryId> = chunk.iter().map(|entry| entry.id).collect();
            let stored = stored_rows(self.session, &ids).await?;
            let mut ready = Vec::with_capacity(chunk.len());
            for entry in chunk {
                let ahead = states.remove(&entry.id);
                let is_right = stored.has(&entry.id, ahead.as_ref().unwrap_or(&entry));
                if is_right || !self.rebuilt.may_doubt() {
                    ready.push(ahead.unwrap_or(entry));
                } else {
                    self.rebuilt.doubt(entry);
                }
            }
            self.compare_entries(&ready, &stored).await?;
        }
    }

    /// Checks commits that name entries which were compared ahead, and are not recorded as touching them.
    async fn check_later(&mut self, later: &[Later], rows: &[LogRow], stored: &StoredRows) -> Result<(), Failure> {
        let touches = later.iter().map(|later| (Touched::Entry, later.handle.0, later.seq));
        let unrecorded: HashSet<_> = self.unrecorded(touches).await?.into_iter().collect();
        let mut seqs_of = BTreeMap::<_, Vec<Seq>>::new();
        for Later { entry, handle, seq } in later {
            if unrecorded.contains(&(Touched::Entry.letter().to_owned(), handle.0, *seq)) {
                seqs_of.entry((*handle, *entry)).or_default().push(*seq);
            }
        }
        for ((_, id), seqs) in seqs_of {
            let Some(now) = stored.entries.get(&id) else { continue };
            let last = Seq(seqs[0].0.saturating_sub(1));
            let before = journal::states_at(self.session, std::slice::from_ref(now), last).await?;
            if let Some(before) = before.into_entries().pop() {
                self.rebuilt.look_again((before, now), &seqs, rows, &mut self.findings);
            }
        }
        Ok(())
    }

    async fn rest(&mut self) -> Result<(), Failure> {
        let Rest {
            entries,
            pages,
            turns,
            runs,
            policy,
            last_export,
        } = self.rebuilt.take_rest();
        for chunk in entries.chunks(CHUNK as usize) {
            let ids: Vec<EntryId> = chunk.iter().map(|entry| entry.id).collect();
            let stored = stored_rows(self.session, &ids).await?;
            self.compare_entries(chunk, &stored).await?;
        }
        for chunk in pages.chunks(CHUNK as usize) {
            let ids: Vec<PageId> = chunk.iter().map(|page| page.id).collect();
            let stored = stored_rows(self.session, &ids).await?;
            self.compare_pages(chunk, &stored).await?;
        }
        for chunk in turns.chunks(CHUNK as usize) {
            self.compare_turns(chunk).await?;
        }
        if let Some((turn, export)) = last_export {
            self.check_parts(turn, export).await?;
        }
        for chunk in runs.chunks(CHUNK as usize) {
            self.compare_runs(chunk).await?;
        }
        match read(policy::read(self.session).await)? {
            Ok(found) if found == policy => {}
            Ok(_) => self.findings.report(Problem::Policy),
            Err(reason) => self.findings.add(|| reason),
        }
        Ok(())
    }

    async fn check_links(&mut self, links: &[(Seq, Link)]) -> Result<(), Failure> {
        if links.is_empty() {
            return Ok(());
        }
        let (mut seqs, mut src, mut rel, mut dst) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (seq, link) in links {
            seqs.push(to_column(seq.0));
            src.push(link.src.as_str());
            rel.push(link.rel.as_str());
            dst.push(link.dst.as_str());
        }
        let sql = "SELECT made.seq FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) AS made (seq, src, rel, dst)
                   LEFT JOIN link ON link.space = $1 AND link.src = made.src AND link.rel = made.rel AND link.dst = made.dst
                   WHERE link.src IS NULL";
        for row in self
            .session
            .query(sql, &[&self.session.space.0, &seqs, &src, &rel, &dst])
            .await?
        {
            let seq = count(&row, 0)?;
            self.findings.report(Problem::Link(Seq(seq)));
        }
        Ok(())
    }

    async fn check_touches(&mut self, touches: &[(Touched, u64, Seq)]) -> Result<(), Failure> {
        for (letter, number, seq) in self.unrecorded(touches.iter().copied()).await? {
            self.findings.report(Problem::Touch(&letter, number, seq));
        }
        Ok(())
    }

    /// Those of `touches` that are not recorded: the letter of the kind, its number, the commit.
    async fn unrecorded(
        &self,
        touches: impl Iterator<Item = (Touched, u64, Seq)>,
    ) -> Result<Vec<(String, u64, Seq)>, Failure> {
        let (mut letters, mut numbers, mut seqs) = (Vec::new(), Vec::new(), Vec::new());
        for (touched, number, seq) in touches {
            letters.push(touched.letter());
            numbers.push(to_column(number));
            seqs.push(to_column(seq.0));
        }
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT made.what, made.number, made.seq
                   FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS made (what, number, seq)
                   LEFT JOIN touch ON touch.space = $1 AND touch.what = made.what AND touch.number = made.number
                       AND touch.seq = made.seq WHERE touch.seq IS NULL";
        let rows = self
            .session
            .query(sql, &[&self.session.space.0, &letters, &numbers, &seqs])
            .await?;
        let unrecorded = rows
            .iter()
            .map(|row| Ok((get(row, 0)?, count(row, 1)?, Seq(count(row, 2)?))));
        unrecorded.collect()
    }

    async fn compare_entries(&mut self, expected: &[Entry], stored: &Rows<EntryId, Entry>) -> Result<(), Failure> {
        for entry in expected {
            let name = format_args!("entry {}", entry.handle);
            stored.compare(&entry.id, entry, name, &mut self.findings);
        }
        for chunk in expected.chunks(CHUNK as usize) {
            self.compare_filing(chunk).await?;
            self.compare_terms(chunk).await?;
            self.compare_watches(chunk).await?;
            self.compare_texts(chunk).await?;
            self.compare_bodies(chunk).await?;
        }
        Ok(())
    }

    async fn compare_filing(&mut self, expected: &[Entry]) -> Result<(), Failure> {
        let mut filed = HashMap::new();
        let sql = "SELECT number, kind, type, status, owner, pinned, expires_at, superseded, confidence FROM entry
                   WHERE space = $1 AND number = ANY($2)";
        let numbers: Vec<i64> = expected.iter().map(|entry| to_column(entry.handle.0)).collect();
        for row in self.session.query(sql, &[&self.session.space.0, &numbers]).await? {
            let columns: (String, Option<String>, String, String) =
                (get(&row, 1)?, get(&row, 2)?, get(&row, 3)?, get(&row, 4)?);
            let states: (bool, Option<i64>, bool, Option<f64>) =
                (get(&row, 5)?, get(&row, 6)?, get(&row, 7)?, get(&row, 8)?);
            filed.insert(count(&row, 0)?, (columns, states));
        }
        for entry in expected {
            let fields = &entry.fields;
            let columns = (
                entry.kind.as_str().to_owned(),
                fields.type_name.as_deref().map(|name| encode_text(name).into_owned()),
                fields.status.as_str().to_owned(),
                encode_text(fields.owner.as_str()).into_owned(),
            );
            let states = (
                fields.pin_rank.is_some(),
                fields.lifetime.expires_at().map(Timestamp::as_nanos),
                fields.superseded_by.is_some(),
                fields.confidence.map(folio_memory::Confidence::value),
            );
            self.compare_columns(&entry.handle, filed.get(&entry.handle.0), &(columns, states), "entry");
        }
        Ok(())
    }

    fn compare_columns<T: PartialEq>(&mut self, handle: &impl Display, found: Option<&T>, expected: &T, label: &str) {
        if found != Some(expected) {
            self.findings.report(Problem::Columns(format_args!("{label} {handle}")));
        }
    }

    async fn compare_terms(&mut self, expected: &[Entry]) -> Result<(), Failure> {
        let (mut terms, mut numbers) = (Vec::new(), Vec::new());
        for entry in expected {
            for term in terms_of(&entry.fields) {
                terms.push(encode_text(&term).into_owned());
                numbers.push(to_column(entry.handle.0));
            }
        }
        self.rebuilt.counts.terms += terms.len() as u64;
        let sql = "SELECT made.number, made.term FROM unnest($2::text[], $3::bigint[]) AS made (term, number)
                   LEFT JOIN entry_term AS found ON found.space = $1 AND found.term = made.term AND found.number = made.number
                   WHERE found.number IS NULL";
        for row in self
            .session
            .query(sql, &[&self.session.space.0, &terms, &numbers])
            .await?
        {
            let entry = EntryHandle(count(&row, 0)?);
            self.findings.report(Problem::Term(entry, get(&row, 1)?));
        }
        Ok(())
    }

    async fn compare_watches(&mut self, expected: &[Entry]) -> Result<(), Failure> {
        let (mut codes, mut due_times, mut numbers, mut since_times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut kinds = HashMap::new();
        for entry in expected {
            for watched in lasting_watches(entry) {
                let code = watch::code(watched.what)?;
                kinds.insert(code, watched.what);
                codes.push(code);
                due_times.push(watched.at.as_nanos());
                numbers.push(to_column(entry.handle.0));
                since_times.push(watched.since.as_nanos());
            }
        }
        self.rebuilt.counts.watched += codes.len() as u64;
        let sql = "SELECT made.number, made.what
                   FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS made (what, at, number, since)
                   LEFT JOIN watch ON watch.space = $1 AND watch.what = made.what AND watch.at = made.at
                       AND watch.number = made.number AND watch.since = made.since
                   WHERE watch.number IS NULL";
        let rows = self
            .session
            .query(
                sql,
                &[&self.session.space.0, &codes, &due_times, &numbers, &since_times],
            )
            .await?;
        for row in rows {
            let (entry, code): (_, i64) = (EntryHandle(count(&row, 0)?), get(&row, 1)?);
            if let Some(watch) = kinds.get(&code) {
                self.findings.report(Problem::Watch(entry, *watch));
            }
        }
        Ok(())
    }

    async fn compare_texts(&mut self, entries: &[Entry]) -> Result<(), Failure> {
        let Some(until) = self.indexed else { return Ok(()) };
        let numbers: Vec<i64> = entries.iter().map(|entry| to_column(entry.handle.0)).collect();
        let sql = "SELECT number, length, words FROM entry_text WHERE space = $1 AND number = ANY($2)";
        let mut found = HashMap::new();
        for row in self.session.query(sql, &[&self.session.space.0, &numbers]).await? {
            found.insert(count(&row, 0)?, (count(&row, 1)?, get::<Vec<String>>(&row, 2)?));
        }
        for entry in entries.iter().filter(|entry| entry.updated_seq <= until) {
            let mut expected = None;
            if text::is_searchable(entry.kind) {
                let mut whole = entry.clone();
                index::fill_in_text(self.session, &mut whole).await?;
                let (words, length) = index::weighted(&EntryTerms::of(&whole.fields));
                expected = Some((length, words.into_keys().collect::<Vec<_>>()));
            }
            if found.get(&entry.handle.0) != expected.as_ref() {
                self.findings.report(Problem::Words(entry.handle));
            }
        }
        Ok(())
    }

    async fn compare_bodies(&mut self, expected: &[Entry]) -> Result<(), Failure> {
        for entry in expected {
            let Some(body) = &entry.fields.body_ref else { continue };
            let hashes: Vec<_> = body.hashes().filter_map(|hash| parse_hash(hash)).collect();
            let stored_hashes = blob::stored_hashes(self.session, &hashes).await?;
            if hashes.iter().any(|hash| !stored_hashes.contains(hash)) {
                self.findings.report(Problem::Text(entry.handle));
            }
        }
        Ok(())
    }

    async fn compare_pages(&mut self, expected: &[Page], stored: &Rows<PageId, Page>) -> Result<(), Failure> {
        let sql = "SELECT page.number, page.role, page.run, page.thread, parent.id FROM page
                   LEFT JOIN page AS parent ON parent.space = page.space AND parent.number = page.parent
                   WHERE page.space = $1 AND page.number = ANY($2)";
        for chunk in expected.chunks(CHUNK as usize) {
            let numbers: Vec<i64> = chunk.iter().map(|page| to_column(page.handle.0)).collect();
            let mut filed = HashMap::new();
            for row in self.session.query(sql, &[&self.session.space.0, &numbers]).await? {
                let words: (String, Option<String>) = (get(&row, 1)?, get(&row, 3)?);
                let ids: (Option<Vec<u8>>, Option<Vec<u8>>) = (get(&row, 2)?, get(&row, 4)?);
                filed.insert(count(&row, 0)?, (words, ids));
            }
            for page in chunk {
                let name = format_args!("page {}", page.handle);
                stored.compare(&page.id, page, name, &mut self.findings);
                let fields = &page.fields;
                let words = (
                    fields.role.as_str().to_owned(),
                    fields.thread.as_ref().map(|thread| encode_text(&thread.0).into_owned()),
                );
                let ids = (
                    fields.run.map(|run| run.to_bytes().to_vec()),
                    fields.parent.map(|parent| parent.to_bytes().to_vec()),
                );
                self.compare_columns(&page.handle, filed.get(&page.handle.0), &(words, ids), "page");
            }
        }
        Ok(())
    }

    async fn compare_runs(&mut self, expected: &[(RunId, RunColumns)]) -> Result<(), Failure> {
        let ids: Vec<RunId> = expected.iter().map(|(id, _)| *id).collect();
        let stored = stored_rows(self.session, &ids).await?;
        for (id, columns) in expected {
            let name = format_args!("run {}", columns.handle);
            stored.compare(id, columns, name, &mut self.findings);
        }
        Ok(())
    }

    async fn compare_turns(&mut self, expected: &[Turn]) -> Result<(), Failure> {
        let ids: Vec<TurnId> = expected.iter().map(|turn| turn.begun.id).collect();
        let stored = stored_rows(self.session, &ids).await?;
        let numbers: Vec<i64> = expected.iter().map(|turn| to_column(turn.handle.0)).collect();
        let sql = "SELECT number, thread, run FROM turn WHERE space = $1 AND number = ANY($2)";
        let mut filed = HashMap::new();
        for row in self.session.query(sql, &[&self.session.space.0, &numbers]).await? {
            let columns: (String, Option<Vec<u8>>) = (get(&row, 1)?, get(&row, 2)?);
            filed.insert(count(&row, 0)?, columns);
        }
        let hashes: Vec<_> = expected.iter().filter_map(export_of).flatten().collect();
        let exports = blob::stored_hashes(self.session, &hashes).await?;
        for turn in expected {
            let new_turn = &turn.begun;
            let name = format_args!("turn {}", turn.handle);
            stored.compare(&new_turn.id, turn, name, &mut self.findings);
            let columns = (
                encode_text(&new_turn.thread.0).into_owned(),
                new_turn.run.map(|run| run.to_bytes().to_vec()),
            );
            self.compare_columns(&turn.handle, filed.get(&turn.handle.0), &columns, "turn");
            if export_of(turn).is_some_and(|hash| hash.is_none_or(|hash| !exports.contains(&hash))) {
                self.findings.report(Problem::Export(turn.handle));
            }
        }
        Ok(())
    }

    /// Whether all parts of the body `export` are there, if it is there itself.
    async fn check_parts(&mut self, turn: TurnHandle, export: String) -> Result<(), Failure> {
        let found = blob::read(Some(self.session), &BlobHash(export)).await;
        // That it is missing or damaged is found elsewhere.
        let body = match found {
            Ok(body) => body,
            Err(Failure::Refused(_) | Failure::Damaged(_)) => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let parts: Vec<_> = part_bodies(&body).iter().map(|part| parse_hash(part)).collect();
        let hashes: Vec<[u8; 32]> = parts.iter().flatten().copied().collect();
        let stored = blob::stored_hashes(self.session, &hashes).await?;
        if parts.iter().any(|part| part.is_none_or(|part| !stored.contains(&part))) {
            self.findings.report(Problem::ExportPart(turn));
        }
        Ok(())
    }

    /// Whether the notes of the trace can be read.
    async fn check_notes(&mut self) -> Result<(), Failure> {
        let sql = "SELECT number, note FROM trace WHERE space = $1 AND number > $2 ORDER BY number LIMIT $3";
        let mut last = 0_i64;
        loop {
            let rows = self
                .session
                .query(sql, &[&self.session.space.0, &last, &i64::from(CHUNK)])
                .await?;
            let Some(end) = rows.last() else { return Ok(()) };
            last = get(end, 0)?;
            for row in &rows {
                if let Err(error) = serde_json::from_str::<TraceNote>(get(row, 1)?) {
                    let number = count(row, 0)?;
                    self.findings.report(Problem::Note(number, &error));
                }
            }
        }
    }

    /// Whether every body matches the hash under which it is kept.
    async fn check_bodies(&mut self) -> Result<(), Failure> {
        let sql = "SELECT hash, size, encoding, bytes FROM blob WHERE space = $1 AND hash > $2 ORDER BY hash LIMIT 1";
        let mut last: Vec<u8> = Vec::new();
        while let Some(row) = self.session.one(sql, &[&self.session.space.0, &last]).await? {
            self.bodies += 1;
            last = get(&row, 0)?;
            if let Err(reason) = unpack(&last, count(&row, 1)?, get(&row, 2)?, get(&row, 3)?) {
                self.findings.report(Problem::Body(&last, &reason));
            }
        }
        Ok(())
    }

    /// Whether there are rows that do not come from the log.
    async fn check_totals(&mut self) -> Result<(), Failure> {
        for counted in self.rebuilt.counts.row_counts() {
            let sql = format!(
                "SELECT count(*) FROM {} WHERE space = $1 AND {}",
                counted.table, counted.which
            );
            let row = self.session.one(&sql, &[&self.session.space.0]).await?;
            counted.compare(row.map_or(Ok(0), |row| count(&row, 0))?, &mut self.findings);
        }
        let ends = super::commit::ends(self.session).await?;
        let (last, numbers) = (self.rebuilt.last(), self.rebuilt.numbers);
        if ends.head != last || ends.entries != numbers {
            self.findings.add(|| {
                format!(
                    "the last numbers recorded are those of commit {}, not of {last}",
                    ends.head
                )
            });
        }
        Ok(())
    }
}

/// The stored rows of `ids`. If a row cannot be read, each is read by itself, so that damage does not hide other rows.
async fn stored_rows<T: ById>(session: &Session, ids: &[T::Id]) -> Result<Rows<T::Id, T>, Failure> {
    let mut rows = Rows::default();
    if let Ok(found) = read(T::by_ids(session, ids).await)? {
        found.into_iter().for_each(|(id, row)| rows.insert(id, Ok(row)));
        return Ok(rows);
    }
    for id in ids {
        match read(T::by_ids(session, &[*id]).await)? {
            Ok(found) => found.into_iter().for_each(|(id, row)| rows.insert(id, Ok(row))),
            Err(reason) => rows.insert(*id, Err(reason)),
        }
    }
    Ok(rows)
}

/// Types whose rows are found by their ids.
trait ById: Sized {
    type Id: Copy + Eq + Hash + Send + Sync;

    /// The rows of `ids`, in no order; `Damaged` if one of them cannot be read.
    fn by_ids(
        session: &Session,
        ids: &[Self::Id],
    ) -> impl Future<Output = Result<Vec<(Self::Id, Self)>, Failure>> + Send;
}

impl ById for Entry {
    type Id = EntryId;

    async fn by_ids(session: &Session, ids: &[EntryId]) -> Result<Vec<(EntryId, Self)>, Failure> {
        let found = entry::by_ids(session, ids).await?;
        Ok(found.into_iter().map(|(entry, _)| (entry.id, entry)).collect())
    }
}

impl ById for Page {
    type Id = PageId;

    async fn by_ids(session: &Session, ids: &[PageId]) -> Result<Vec<(PageId, Self)>, Failure> {
        let found = page::by_ids(session, ids).await?;
        Ok(found.into_iter().map(|page| (page.id, page)).collect())
    }
}

impl ById for Turn {
    type Id = TurnId;

    async fn by_ids(session: &Session, ids: &[TurnId]) -> Result<Vec<(TurnId, Self)>, Failure> {
        let found = turn::by_ids(session, ids).await?;
        Ok(found.into_iter().map(|turn| (turn.begun.id, turn)).collect())
    }
}

impl ById for RunColumns {
    type Id = RunId;

    async fn by_ids(session: &Session, ids: &[RunId]) -> Result<Vec<(RunId, Self)>, Failure> {
        run::run_columns(session, ids).await
    }
}

/// Turns damage of one row into a finding, so that the check goes on.
fn read<T>(row: Result<T, Failure>) -> Result<Result<T, String>, Failure> {
    match row {
        Err(Failure::Damaged(reason)) => Ok(Err(reason)),
        row => row.map(Ok),
    }
}
