//! Whether the rows of every space follow from its log.
//!
//! The log is read once, in order. A row that never changed is compared with the change that added it at once; one that
//! was changed is made again from its changes and compared at the end, so no more than those are held in memory.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use folio_memory::id::{RunHandle, TurnHandle};
use folio_memory::keeping::{self, Watch};
use folio_memory::terms::terms_of;
use folio_memory::text::{self, EntryTerms};
use folio_memory::{
    Change, Entry, EntryHandle, EntryId, KeptPolicy, NewEntry, Page, PageHandle, PageId, RunId, Seq, Timestamp, Turn,
    TurnId,
};

use super::column::{count, get, kept};
use super::error::Failure;
use super::session::{Purpose, Session};
use super::{Inner, blob, entry, journal, page, policy, run, text as index, turn, watch};
use crate::body::{parse_hash, unpack};
use crate::fold;
use crate::place::{SpaceId, to_column};
use crate::store::{Checkup, LogRow};

/// Most problems that are told; beyond, one knows that it is bad.
const TOLD: usize = 20;
/// Commits that are read at a time, and entries that are compared at a time.
const CHUNK: u32 = 500;

/// Looks at everything.
pub(super) async fn check(inner: &Inner) -> Result<Checkup, Failure> {
    let mut findings = Checkup {
        checked: Vec::new(),
        problems: Vec::new(),
    };
    let client = inner.readers.get().await?;
    let rows = client.query("SELECT id, name FROM all_spaces()", &[]).await?;
    drop(client);
    findings.checked.push(format!("{} spaces", rows.len()));
    let mut counts = Counts::default();
    for row in &rows {
        let space = SpaceId(get(row, 0)?);
        let name: String = get(row, 1)?;
        let session = Session::begin(inner.readers.get().await?, space, Purpose::Read);
        let mut replay = Replay::new(&session, name);
        replay.run().await?;
        counts.add(&replay.counts);
        for problem in replay.problems {
            if findings.problems.len() < TOLD {
                findings.problems.push(format!("space {}: {problem}", replay.name));
            }
        }
    }
    for (what, counted) in counts.named() {
        findings
            .checked
            .push(format!("{counted} {what}, made again from the log"));
    }
    findings
        .checked
        .push(format!("{} bodies against their hashes", counts.bodies));
    Ok(findings)
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
    bodies: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.commits += other.commits;
        self.entries += other.entries;
        self.pages += other.pages;
        self.runs += other.runs;
        self.turns += other.turns;
        self.terms += other.terms;
        self.watched += other.watched;
        self.bodies += other.bodies;
    }

    fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("commits", self.commits),
            ("entries", self.entries),
            ("pages", self.pages),
            ("runs", self.runs),
            ("turns", self.turns),
            ("words that entries are found by", self.terms),
            ("watches", self.watched),
        ]
    }
}

/// Makes the rows of one space again.
struct Replay<'s> {
    session: &'s Session,
    name: String,
    problems: Vec<String>,
    counts: Counts,
    /// The numbers of entries that were given so far; of some only the number is left.
    numbers: u64,
    last: (Seq, Timestamp),
    /// Entries and pages that were changed, as far as they are made.
    entries: HashMap<EntryId, Entry>,
    pages: HashMap<PageId, Page>,
    policy: KeptPolicy,
    turns: HashMap<TurnId, Turn>,
    /// Their numbers, titles and statuses.
    runs: HashMap<RunId, (u64, String, String)>,
    /// Entries that can be compared.
    ready: Vec<Entry>,
    /// What commits should be noted to have touched: what, its number, the commit.
    touches: Vec<(&'static str, u64, Seq)>,
    index: Option<Seq>,
}

impl<'s> Replay<'s> {
    fn new(session: &'s Session, name: String) -> Self {
        Self {
            session,
            name,
            problems: Vec::new(),
            counts: Counts::default(),
            numbers: 0,
            last: (Seq(0), Timestamp::MIN),
            entries: HashMap::new(),
            pages: HashMap::new(),
            policy: KeptPolicy::default(),
            turns: HashMap::new(),
            runs: HashMap::new(),
            ready: Vec::new(),
            touches: Vec::new(),
            index: None,
        }
    }

    async fn run(&mut self) -> Result<(), Failure> {
        self.index = index::indexed(self.session).await?.map(|indexed| indexed.seq);
        loop {
            let rows = match journal::changes(self.session, self.last.0, CHUNK).await {
                Err(Failure::Damaged(reason)) => {
                    self.problems.push(reason);
                    return Ok(());
                }
                rows => rows?,
            };
            if rows.is_empty() {
                break;
            }
            self.chunk(&rows).await?;
        }
        let entries = std::mem::take(&mut self.entries);
        self.ready.extend(entries.into_values());
        self.compare_entries().await?;
        self.compare_pages().await?;
        self.compare_runs().await?;
        self.compare_turns().await?;
        if read(policy::read(self.session).await, &mut self.problems)?.is_some_and(|found| found != self.policy) {
            self.problems
                .push("the policy is not what the log makes of it".to_owned());
        }
        self.check_bodies().await?;
        self.check_totals().await
    }

    /// Takes in some commits.
    async fn chunk(&mut self, rows: &[LogRow]) -> Result<(), Failure> {
        let changes = || rows.iter().flat_map(|row| &row.record.changes);
        let ids: Vec<EntryId> = changes()
            .filter_map(|change| match change {
                Change::AddEntry(new) => Some(new.id),
                Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => Some(*entry),
                _ => None,
            })
            .collect();
        let there: HashMap<EntryId, Entry> = match entry::by_ids(self.session, &ids).await {
            Err(Failure::Damaged(reason)) => {
                self.problems.push(reason);
                return Ok(());
            }
            found => found?.into_iter().map(|(entry, _)| (entry.id, entry)).collect(),
        };
        let mut links = Vec::new();
        for row in rows {
            self.commit(row, &there);
            for change in &row.record.changes {
                if let Change::AddLink(link) = change {
                    links.push((row.seq, link));
                }
            }
        }
        self.check_links(&links).await?;
        self.compare_entries().await?;
        self.check_touches().await
    }

    fn commit(&mut self, row: &LogRow, there: &HashMap<EntryId, Entry>) {
        let (last, last_at) = self.last;
        let folded = row.record.folded;
        let first = folded.map_or(row.seq, |folded| folded.from);
        if first.0 != last.0 + 1 {
            self.problems.push(format!("after commit {last} comes {first}"));
        }
        self.numbers += folded.map_or(0, |folded| folded.entries);
        if row.at < last_at {
            self.problems
                .push(format!("commit {} is older than the one before", row.seq));
        }
        self.last = (row.seq, row.at);
        self.counts.commits += 1;
        for change in &row.record.changes {
            self.change(row, change, there);
        }
        if let Some(append) = &row.record.run {
            if matches!(append.events.first(), Some(folio_engine::Event::RunStarted { .. })) {
                self.counts.runs += 1;
                let title = append.title.clone().unwrap_or_default();
                let made = (self.counts.runs, title, run::RUNNING.to_owned());
                self.runs.insert(append.run, made);
            }
            match self.runs.get_mut(&append.run) {
                Some((number, _, status)) => {
                    if let Some(now) = &append.status {
                        status.clone_from(now);
                    }
                    self.touches.push((journal::RUN, *number, row.seq));
                }
                None => self
                    .problems
                    .push(format!("{} of commit {} has not begun", append.run, row.seq)),
            }
        }
    }

    fn change(&mut self, row: &LogRow, change: &Change, there: &HashMap<EntryId, Entry>) {
        match change {
            Change::EnsurePage(new) => {
                if !self.pages.contains_key(&new.id) {
                    self.counts.pages += 1;
                    let handle = PageHandle(self.counts.pages);
                    self.pages
                        .insert(new.id, Page::added((**new).clone(), handle, row.seq, row.at));
                }
            }
            Change::SetPageStatus { page, status } => match self.pages.get_mut(page) {
                Some(page) if page.fields.status != *status => page.set_status(status, row.at),
                Some(_) => {}
                None => self
                    .problems
                    .push(format!("commit {} changes {page}, which is not there", row.seq)),
            },
            Change::AddEntry(new) => self.add_entry(row, new, there),
            Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => {
                self.patch_entry(row, change, *entry, there);
            }
            Change::BeginTurn(new) => {
                self.counts.turns += 1;
                let made = Turn::begun((**new).clone(), TurnHandle(self.counts.turns), row.seq, row.at);
                self.turns.insert(new.id, made);
            }
            Change::EndTurn { turn, end } => {
                let ended = self
                    .turns
                    .get_mut(turn)
                    .map(|made| made.end((**end).clone(), row.seq, row.at));
                if ended != Some(true) {
                    self.problems.push(format!(
                        "commit {} ends {turn}, which is not there or had ended",
                        row.seq
                    ));
                }
            }
            Change::SetPolicy { .. } | Change::RegisterType { .. } => {
                self.policy.apply(change, row.seq);
            }
            Change::AddLink(_) => {}
            other => self
                .problems
                .push(format!("commit {} has an unknown change {other:?}", row.seq)),
        }
    }

    fn add_entry(&mut self, row: &LogRow, new: &NewEntry, there: &HashMap<EntryId, Entry>) {
        self.counts.entries += 1;
        self.numbers += 1;
        let made = Entry::added(new.clone(), EntryHandle(self.numbers), row.seq, row.at);
        if there.get(&new.id).is_some_and(|found| found.version == 1) {
            self.ready.push(made);
        } else {
            self.entries.insert(new.id, made);
        }
    }

    fn patch_entry(&mut self, row: &LogRow, change: &Change, id: EntryId, there: &HashMap<EntryId, Entry>) {
        // One that was compared and let go has never been changed, so this must change nothing.
        let mut state = self.entries.remove(&id).or_else(|| there.get(&id).cloned());
        let Some(handle) = state.as_ref().map(|entry| entry.handle) else {
            self.problems
                .push(format!("commit {} changes {id}, which is not there", row.seq));
            return;
        };
        let changed = fold::fold(&mut state, handle, change, id, row.seq, row.at);
        if let Some(entry) = state.filter(|entry| changed || entry.version > 1) {
            // What a commit changes of what it has added itself is found with the addition.
            if changed && entry.created_seq != row.seq {
                self.touches.push((journal::ENTRY, handle.0, row.seq));
            }
            self.entries.insert(id, entry);
        }
    }

    async fn check_links(&mut self, links: &[(Seq, &folio_memory::Link)]) -> Result<(), Failure> {
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
            self.problems.push(format!("the link of commit {seq} is missing"));
        }
        Ok(())
    }

    async fn check_touches(&mut self) -> Result<(), Failure> {
        let touches = std::mem::take(&mut self.touches);
        let (mut what, mut numbers, mut seqs) = (Vec::new(), Vec::new(), Vec::new());
        for (letter, number, seq) in touches {
            what.push(letter);
            numbers.push(to_column(number));
            seqs.push(to_column(seq.0));
        }
        let sql = "SELECT made.what, made.number, made.seq
                   FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS made (what, number, seq)
                   LEFT JOIN touch ON touch.space = $1 AND touch.what = made.what AND touch.number = made.number
                       AND touch.seq = made.seq WHERE touch.seq IS NULL";
        for row in self
            .session
            .query(sql, &[&self.session.space.0, &what, &numbers, &seqs])
            .await?
        {
            let (what, number, seq): (&str, i64, i64) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
            self.problems.push(format!(
                "{what}{number} does not know of commit {seq}, which changed it"
            ));
        }
        Ok(())
    }

    /// Compares the entries that are ready with those that are there.
    async fn compare_entries(&mut self) -> Result<(), Failure> {
        let ready = std::mem::take(&mut self.ready);
        for made in ready.chunks(CHUNK as usize) {
            self.compare_rows(made).await?;
            self.compare_terms(made).await?;
            self.compare_watches(made).await?;
            self.compare_texts(made).await?;
            self.compare_bodies(made).await?;
        }
        Ok(())
    }

    async fn compare_rows(&mut self, made: &[Entry]) -> Result<(), Failure> {
        let space = self.session.space.0;
        let ids: Vec<EntryId> = made.iter().map(|entry| entry.id).collect();
        let found = entry::by_ids(self.session, &ids).await;
        let Some(found) = read(found, &mut self.problems)? else {
            return Ok(());
        };
        let found: HashMap<EntryId, Entry> = found.into_iter().map(|(entry, _)| (entry.id, entry)).collect();
        let mut filed = HashMap::new();
        let sql = "SELECT number, kind, type, status, owner, pinned, expires_at, superseded, confidence FROM entry
                   WHERE space = $1 AND number = ANY($2)";
        let numbers: Vec<i64> = made.iter().map(|entry| to_column(entry.handle.0)).collect();
        for row in self.session.query(sql, &[&space, &numbers]).await? {
            let columns: (String, Option<String>, String, String) =
                (get(&row, 1)?, get(&row, 2)?, get(&row, 3)?, get(&row, 4)?);
            let states: (bool, Option<i64>, bool, Option<f64>) =
                (get(&row, 5)?, get(&row, 6)?, get(&row, 7)?, get(&row, 8)?);
            filed.insert(count(&row, 0)?, (columns, states));
        }
        for made in made {
            match found.get(&made.id) {
                Some(found) if found == made => {}
                Some(_) => self
                    .problems
                    .push(format!("entry {} is not what the log makes of it", made.handle)),
                None => {
                    self.problems.push(format!("entry {} is missing", made.handle));
                    continue;
                }
            }
            let fields = &made.fields;
            let columns = (
                made.kind.as_str().to_owned(),
                fields.type_name.as_deref().map(|name| kept(name).into_owned()),
                fields.status.as_str().to_owned(),
                kept(fields.owner.as_str()).into_owned(),
            );
            let states = (
                fields.pin_rank.is_some(),
                fields.lifetime.expires_at().map(Timestamp::as_nanos),
                fields.superseded_by.is_some(),
                fields.confidence.map(folio_memory::Confidence::value),
            );
            if filed.get(&made.handle.0) != Some(&(columns, states)) {
                self.problems
                    .push(format!("entry {} is filed under something that it is not", made.handle));
            }
        }
        Ok(())
    }

    async fn compare_terms(&mut self, made: &[Entry]) -> Result<(), Failure> {
        let (mut terms, mut numbers) = (Vec::new(), Vec::new());
        for entry in made {
            for term in terms_of(&entry.fields) {
                terms.push(kept(&term).into_owned());
                numbers.push(to_column(entry.handle.0));
            }
        }
        self.counts.terms += terms.len() as u64;
        let sql = "SELECT made.number, made.term FROM unnest($2::text[], $3::bigint[]) AS made (term, number)
                   LEFT JOIN entry_term AS found ON found.space = $1 AND found.term = made.term AND found.number = made.number
                   WHERE found.number IS NULL";
        for row in self
            .session
            .query(sql, &[&self.session.space.0, &terms, &numbers])
            .await?
        {
            let (number, term): (i64, &str) = (get(&row, 0)?, get(&row, 1)?);
            let shown = term.replace(char::is_control, " ");
            let problem = format!("entry e{number} cannot be found by its word {:?}", shown.trim());
            self.problems.push(problem);
        }
        Ok(())
    }

    async fn compare_watches(&mut self, made: &[Entry]) -> Result<(), Failure> {
        let (mut what, mut at, mut numbers, mut since) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for entry in made {
            let lasting = |what| !matches!(what, Watch::Archived | Watch::Tombstone);
            for watched in keeping::watched(entry).iter().filter(|watched| lasting(watched.what)) {
                what.push(watch::code(watched.what)?);
                at.push(watched.at.as_nanos());
                numbers.push(to_column(entry.handle.0));
                since.push(watched.since.as_nanos());
            }
        }
        self.counts.watched += what.len() as u64;
        let sql = "SELECT made.number, made.what
                   FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS made (what, at, number, since)
                   LEFT JOIN watch ON watch.space = $1 AND watch.what = made.what AND watch.at = made.at
                       AND watch.number = made.number AND watch.since = made.since
                   WHERE watch.number IS NULL";
        let rows = self
            .session
            .query(sql, &[&self.session.space.0, &what, &at, &numbers, &since])
            .await?;
        for row in rows {
            let (number, what): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
            self.problems
                .push(format!("entry e{number} is not watched for what has the number {what}"));
        }
        Ok(())
    }

    async fn compare_texts(&mut self, made: &[Entry]) -> Result<(), Failure> {
        let Some(until) = self.index else { return Ok(()) };
        let numbers: Vec<i64> = made.iter().map(|entry| to_column(entry.handle.0)).collect();
        let sql = "SELECT number, length, words FROM entry_text WHERE space = $1 AND number = ANY($2)";
        let mut found = HashMap::new();
        for row in self.session.query(sql, &[&self.session.space.0, &numbers]).await? {
            found.insert(count(&row, 0)?, (count(&row, 1)?, get::<Vec<String>>(&row, 2)?));
        }
        for entry in made.iter().filter(|entry| entry.updated_seq <= until) {
            let wanted = text::is_searchable(entry.kind).then(|| {
                let (words, length) = index::weighted(&EntryTerms::of(&entry.fields));
                (length, words.into_keys().collect::<Vec<_>>())
            });
            if found.get(&entry.handle.0) != wanted.as_ref() {
                self.problems.push(format!(
                    "the words of entry {} are not what is indexed of it",
                    entry.handle
                ));
            }
        }
        Ok(())
    }

    async fn compare_bodies(&mut self, made: &[Entry]) -> Result<(), Failure> {
        for entry in made {
            let Some(body) = &entry.fields.body_ref else { continue };
            let hashes: Vec<_> = body.hashes().filter_map(|hash| parse_hash(hash)).collect();
            let there = blob::which_kept(self.session, &hashes).await?;
            if hashes.iter().any(|hash| !there.contains(hash)) {
                self.problems
                    .push(format!("the whole text of entry {} is missing", entry.handle));
            }
        }
        Ok(())
    }

    async fn compare_pages(&mut self) -> Result<(), Failure> {
        let made: Vec<Page> = std::mem::take(&mut self.pages).into_values().collect();
        for made in made.chunks(CHUNK as usize) {
            let ids: Vec<_> = made.iter().map(|page| page.id).collect();
            let found = page::by_ids(self.session, &ids).await;
            let Some(found) = read(found, &mut self.problems)? else {
                continue;
            };
            let found: HashMap<PageId, Page> = found.into_iter().map(|page| (page.id, page)).collect();
            for made in made {
                match found.get(&made.id) {
                    Some(found) if found == made => {}
                    Some(_) => self
                        .problems
                        .push(format!("page {} is not what the log makes of it", made.handle)),
                    None => self.problems.push(format!("page {} is missing", made.handle)),
                }
            }
        }
        Ok(())
    }

    async fn compare_runs(&mut self) -> Result<(), Failure> {
        let made = std::mem::take(&mut self.runs);
        let ids: Vec<RunId> = made.keys().copied().collect();
        let found = run::told(self.session, &ids).await?;
        for (id, made) in made {
            let handle = RunHandle(made.0);
            match found.get(&id) {
                Some(found) if *found == made => {}
                Some(found) if found.0 == made.0 => self
                    .problems
                    .push(format!("run {handle} is not what the log makes of it")),
                _ => self.problems.push(format!("{id} is not {handle}")),
            }
        }
        Ok(())
    }

    async fn compare_turns(&mut self) -> Result<(), Failure> {
        let made: Vec<Turn> = std::mem::take(&mut self.turns).into_values().collect();
        for made in made.chunks(CHUNK as usize) {
            let ids: Vec<TurnId> = made.iter().map(|turn| turn.begun.id).collect();
            let found = turn::by_ids(self.session, &ids).await;
            let Some(found) = read(found, &mut self.problems)? else {
                continue;
            };
            let found: HashMap<TurnId, Turn> = found.into_iter().map(|turn| (turn.begun.id, turn)).collect();
            for made in made {
                match found.get(&made.begun.id) {
                    Some(found) if found == made => {}
                    Some(_) => self
                        .problems
                        .push(format!("turn {} is not what the log makes of it", made.handle)),
                    None => self.problems.push(format!("turn {} is missing", made.handle)),
                }
            }
        }
        Ok(())
    }

    /// Whether every body has the hash that it is kept under.
    async fn check_bodies(&mut self) -> Result<(), Failure> {
        let sql = "SELECT hash, size, encoding, bytes FROM blob WHERE space = $1 AND hash > $2 ORDER BY hash LIMIT 1";
        let mut last: Vec<u8> = Vec::new();
        while let Some(row) = self.session.one(sql, &[&self.session.space.0, &last]).await? {
            self.counts.bodies += 1;
            last = get(&row, 0)?;
            if let Err(reason) = unpack(&last, count(&row, 1)?, get(&row, 2)?, get(&row, 3)?) {
                self.problems.push(format!("body {} {reason}", HEXLOWER.encode(&last)));
            }
        }
        Ok(())
    }

    /// Whether there are rows that the log knows nothing of.
    async fn check_totals(&mut self) -> Result<(), Failure> {
        let tables = ["log", "entry", "page", "run", "turn", "entry_term", "watch"];
        for (table, (what, wanted)) in tables.into_iter().zip(self.counts.named()) {
            let some = if table == "watch" {
                " AND what NOT IN (5, 6)"
            } else {
                ""
            };
            let sql = format!("SELECT count(*) FROM {table} WHERE space = $1{some}");
            let row = self.session.one(&sql, &[&self.session.space.0]).await?;
            let found = row.map_or(Ok(0), |row| count(&row, 0))?;
            if found != wanted {
                self.problems
                    .push(format!("there are {found} {what}, but the log makes {wanted}"));
            }
        }
        let ends = super::commit::ends(self.session).await?;
        if ends.head != self.last.0 || ends.entries != self.numbers {
            let problem = format!(
                "the last numbers given are those of commit {}, not of {}",
                ends.head, self.last.0
            );
            self.problems.push(problem);
        }
        Ok(())
    }
}

/// Damage of one row is a finding, not the end of the check.
fn read<T>(row: Result<T, Failure>, problems: &mut Vec<String>) -> Result<Option<T>, Failure> {
    match row {
        Err(Failure::Damaged(reason)) => {
            problems.push(reason);
            Ok(None)
        }
        row => row.map(Some),
    }
}
