//! The indexes of live entries in memory, one for each space that is queried often, and how they are kept exact.
//!
//! An index is built from one state of the file, and updated to every later one by what has changed in between, whoever
//! changed it. So its answer is the same as that of the file at the commit that the asking transaction sees.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use folio_memory::{Entry, EntryKind, Seq, SpaceName, Status, Timestamp};
use parking_lot::{Mutex, RwLock};
use rusqlite::{Connection, params};

use super::entry::{self, IS_MEMORY_SQL, from_row, memory_kinds};
use super::error::{Failure, damaged};
use super::journal;
use super::open::Target;
use super::place::{Place, SpaceId, to_column};
use crate::live::{Facts, Held, LiveIndex, LiveOptions, NEWS_MAX, indexes_to_drop};

/// Up to this many entries, reading them is faster than finding the first that is needed.
const FEW_ENTRIES: u64 = 128;

/// The indexes of a store's spaces.
#[derive(Debug)]
pub(super) struct Living {
    options: LiveOptions,
    target: Target,
    spaces: Arc<Spaces>,
    is_closing: Arc<AtomicBool>,
    makers: Mutex<Vec<JoinHandle<()>>>,
}

/// The spaces for which a list was requested.
#[derive(Debug, Default)]
struct Spaces {
    known: Mutex<HashMap<SpaceName, Arc<Space>>>,
    /// The number of queries so far.
    questions: AtomicU64,
}

#[derive(Debug, Default)]
struct Space {
    asked: AtomicU32,
    /// The number of the last query.
    asked_at: AtomicU64,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    None,
    /// A thread is building the index.
    InTheMaking,
    /// The index would need more memory than allowed.
    TooLarge,
    /// The index is up to date to this commit.
    Ready(Box<LiveIndex>, Seq),
}

impl Living {
    pub(super) fn new(options: LiveOptions, target: Target) -> Self {
        Self {
            options,
            target,
            spaces: Arc::default(),
            is_closing: Arc::default(),
            makers: Mutex::default(),
        }
    }

    /// Whether the space `name` has an index, so that a list takes only microseconds.
    pub(super) fn is_ready(&self, name: &SpaceName) -> bool {
        let spaces = self.spaces.known.lock();
        let state = spaces
            .get(name)
            .and_then(|space| space.state.try_read().map(|state| matches!(*state, State::Ready(..))));
        state.unwrap_or(false)
    }

    /// Asks `question` of the index of `space` at commit `head`, the last one that the transaction of `conn` sees;
    /// `None` if no index can answer.
    pub(super) fn ask<T>(
        &self,
        conn: &Connection,
        (name, space): (&SpaceName, SpaceId),
        head: Seq,
        now: Timestamp,
        question: impl FnOnce(&LiveIndex) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        if self.options.bytes_max == 0 {
            return Ok(None);
        }
        let known = self.spaces.space_for_query(name);
        {
            let state = known.state.read();
            match &*state {
                State::Ready(index, seq) if *seq == head && index.is_at(now) => return question(index).map(Some),
                State::Ready(_, seq) if *seq <= head => {}
                State::None => {
                    drop(state);
                    if !self.begin(conn, space, head, &known)? {
                        return Ok(None);
                    }
                }
                // The transaction sees less than the index contains.
                State::Ready(..) | State::InTheMaking | State::TooLarge => return Ok(None),
            }
        }
        let mut state = known.state.write();
        let State::Ready(index, seq) = &mut *state else {
            return Ok(None);
        };
        if *seq > head {
            return Ok(None);
        }
        if *seq < head {
            // An error in between leaves an index that matches neither state.
            let caught_up = catch_up(conn, space, index, *seq);
            *seq = head;
            match caught_up {
                Ok(true) => {}
                Ok(false) => {
                    *state = State::None;
                    drop(state);
                    // This query is answered without the index, as all are until it has been built anew.
                    known.asked.store(self.options.after, Ordering::Relaxed);
                    self.begin(conn, space, head, &known)?;
                    return Ok(None);
                }
                Err(failure) => {
                    *state = State::None;
                    return Err(failure);
                }
            }
        }
        if index.has_outgrown(self.options.bytes_max) {
            known.asked.store(0, Ordering::Relaxed);
            *state = State::None;
            return Ok(None);
        }
        let is_looked_at = index.is_looked_at();
        let answer = if index.advance(now) {
            question(index).map(Some)
        } else {
            Ok(None)
        };
        drop(state);
        if is_looked_at {
            self.spaces.make_room(self.options.bytes_of_all_max);
        }
        answer
    }

    /// Starts to build an index if the space is worth one. Returns true if there is one already.
    fn begin(&self, conn: &Connection, space: SpaceId, head: Seq, known: &Arc<Space>) -> Result<bool, Failure> {
        let ask_count = known.asked.fetch_add(1, Ordering::Relaxed);
        if ask_count < self.options.after || entry::last_at(conn, space, head)? < self.options.from {
            return Ok(false);
        }
        let mut state = known.state.write();
        if !matches!(*state, State::None) {
            return Ok(matches!(*state, State::Ready(..)));
        }
        if self.options.after == 0 {
            *state = build_index(conn, space, self.options.bytes_max, &self.is_closing)?;
            let is_ready = matches!(*state, State::Ready(..));
            drop(state);
            self.spaces.make_room(self.options.bytes_of_all_max);
            return Ok(is_ready);
        }
        *state = State::InTheMaking;
        let (target, known, is_closing) = (self.target.clone(), Arc::clone(known), Arc::clone(&self.is_closing));
        let (bytes_max, bytes_of_all_max) = (self.options.bytes_max, self.options.bytes_of_all_max);
        let spaces = Arc::clone(&self.spaces);
        let maker = std::thread::Builder::new()
            .name("folio-index".to_owned())
            .spawn(move || {
                let built = target.connect_reader().and_then(|conn| {
                    conn.execute_batch("BEGIN")?;
                    build_index(&conn, space, bytes_max, &is_closing)
                });
                // Read errors are reported to whoever queries the data; the index is tried again later.
                known.asked.store(0, Ordering::Relaxed);
                *known.state.write() = built.unwrap_or_default();
                spaces.make_room(bytes_of_all_max);
            });
        match maker {
            Ok(maker) => {
                let mut makers = self.makers.lock();
                makers.retain(|maker| !maker.is_finished());
                makers.push(maker);
            }
            // Without a thread there is no index, and everything else works.
            Err(_) => *state = State::None,
        }
        Ok(false)
    }
}

impl Spaces {
    /// The space `name`, of which a list is requested now.
    fn space_for_query(&self, name: &SpaceName) -> Arc<Space> {
        let mut spaces = self.known.lock();
        let space = match spaces.get(name) {
            Some(known) => Arc::clone(known),
            None => Arc::clone(spaces.entry(name.clone()).or_default()),
        };
        let now = self.questions.fetch_add(1, Ordering::Relaxed);
        space.asked_at.store(now, Ordering::Relaxed);
        space
    }

    /// Drops indexes until the others take no more than `bytes_max`. The caller must not hold any of them.
    fn make_room(&self, bytes_max: usize) {
        let spaces: Vec<_> = {
            let spaces = self.known.lock();
            spaces.values().map(Arc::clone).collect()
        };
        let indexes = spaces.into_iter().filter_map(|space| {
            let bytes = match &*space.state.read() {
                State::Ready(index, _) => index.bytes(),
                _ => return None,
            };
            let asked_at = space.asked_at.load(Ordering::Relaxed);
            Some(Held { asked_at, bytes, space })
        });
        for space in indexes_to_drop(indexes.collect(), bytes_max) {
            space.asked.store(0, Ordering::Relaxed);
            *space.state.write() = State::None;
        }
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.is_closing.store(true, Ordering::Relaxed);
        for maker in self.makers.get_mut().drain(..) {
            // A thread that panicked has reported it.
            maker.join().unwrap_or_default();
        }
    }
}

/// Builds an index of `space` as the transaction of `conn` sees it.
fn build_index(conn: &Connection, space: SpaceId, bytes_max: usize, is_closing: &AtomicBool) -> Result<State, Failure> {
    let head = journal::last(conn, space)?.map_or(Seq(0), |(head, _)| head);
    let mut index = LiveIndex::default();
    let sql = format!(
        "SELECT place, page, kind, type, status, owner, pinned, expires_at, confidence FROM entry INDEXED BY entry_list
         WHERE kind IN ({}) AND page BETWEEN ?1 AND ?2 AND {IS_MEMORY_SQL}
         AND status <> 'archived' AND NOT superseded ORDER BY place",
        memory_kinds()
    );
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query(params![Place::start(space), Place::end(space)])?;
    let mut count = 0_u64;
    while let Some(row) = rows.next()? {
        let (place, page): (Place, Place) = (row.get(0)?, row.get(1)?);
        let name = || format!("entry {}", place.number());
        let text = |column| {
            let text: Result<&str, _> = row.get_ref(column)?.as_str();
            text.map_err(|error| damaged(&name(), error))
        };
        let expires_at: Option<i64> = row.get(7)?;
        let is_pinned: bool = row.get(6)?;
        index.put(&Facts {
            number: place.number(),
            page: page.number(),
            kind: EntryKind::parse(text(2)?).ok_or_else(|| damaged(&name(), "its kind is unknown"))?,
            type_name: row
                .get_ref(3)?
                .as_str_or_null()
                .map_err(|error| damaged(&name(), error))?,
            status: Status::parse(text(4)?).ok_or_else(|| damaged(&name(), "its status is unknown"))?,
            owner: text(5)?,
            confidence: row.get(8)?,
            is_pinned,
            expires_at: expires_at.filter(|_| !is_pinned).map(Timestamp::from_nanos),
            terms: &[],
        });
        count += 1;
        if count.is_multiple_of(65_536) {
            if is_closing.load(Ordering::Relaxed) {
                return Ok(State::None);
            }
            if index.bytes() > bytes_max {
                return Ok(State::TooLarge);
            }
        }
    }
    let mut statement = conn.prepare("SELECT term, entry FROM entry_term WHERE entry BETWEEN ?1 AND ?2")?;
    let mut found = statement.query(params![Place::start(space), Place::end(space)])?;
    let mut words = index.words();
    while let Some(row) = found.next()? {
        let place: Place = row.get(1)?;
        let term = row.get_ref(0)?.as_str().map_err(|error| damaged("a word", error))?;
        words.add(term, place.number());
        if words.len().is_multiple_of(65_536) && is_closing.load(Ordering::Relaxed) {
            return Ok(State::None);
        }
    }
    words.finish();
    if index.bytes() > bytes_max {
        return Ok(State::TooLarge);
    }
    Ok(State::Ready(Box::new(index), head))
}

/// Selects the memory between two places that was added after a commit.
fn newer() -> String {
    let columns = entry::COLUMNS;
    format!(
        "SELECT {columns} FROM entry WHERE place > ?1 AND place <= ?2 AND {IS_MEMORY_SQL}
         AND created_seq > ?3 ORDER BY place"
    )
}

/// Updates the index by what has changed after commit `seq`; false if that is so much that the index should be built
/// anew in the background.
fn catch_up(conn: &Connection, space: SpaceId, index: &mut LiveIndex, seq: Seq) -> Result<bool, Failure> {
    let changed = entry::changed_after(conn, space, seq)?;
    if changed.len() > NEWS_MAX {
        return Ok(false);
    }
    for place in changed.iter().copied() {
        if let Some(entry) = entry::by_place(conn, place)? {
            take_in(conn, index, &entry, place)?;
        }
    }
    let mut last = index.last_number();
    // Runs may have written a lot behind the newest entry of memory: what is already known is not read again.
    if entry::last_number(conn, space)?.saturating_sub(last) > FEW_ENTRIES {
        last = last.max(entry::last_at(conn, space, seq)?);
    }
    let mut statement = conn.prepare_cached(&newer())?;
    let mut rows = statement.query(params![Place::of(space, last), Place::end(space), to_column(seq.0)])?;
    let mut left = NEWS_MAX - changed.len();
    while let Some(row) = rows.next()? {
        let Some(remaining) = left.checked_sub(1) else {
            return Ok(false);
        };
        left = remaining;
        let place: Place = row.get(0)?;
        take_in(conn, index, &from_row(row)?, place)?;
    }
    Ok(true)
}

fn take_in(conn: &Connection, index: &mut LiveIndex, entry: &Entry, place: Place) -> Result<(), Failure> {
    let sql = "SELECT page FROM entry WHERE place = ?1";
    let page: Place = conn.prepare_cached(sql)?.query_row(params![place], |row| row.get(0))?;
    index.take_in(entry, page.number());
    Ok(())
}

#[cfg(test)]
mod tests {
    use folio_memory::{
        Actor, Change, EntryFields, EntryId, EntryQuery, NewEntry, NewPage, Owner, PageFields, PageId, PageRole, Role,
        Trust,
    };
    use rusqlite::StatementStatus;

    use super::super::migrate::MIGRATIONS;
    use super::super::{OpenOptions, SqliteStore};
    use super::*;
    use crate::commit::{Commit, Record};
    use crate::store::Store as _;

    /// A store with two spaces of a few entries, whose indexes may take this many bytes together.
    async fn two_spaces(bytes_of_all_max: usize) -> (Arc<SqliteStore>, [SpaceName; 2]) {
        let options = OpenOptions {
            live: LiveOptions {
                bytes_of_all_max,
                ..LiveOptions::at_once()
            },
            ..OpenOptions::in_memory()
        };
        let store = SqliteStore::open(&options).unwrap();
        let spaces = ["one", "other"].map(|name| SpaceName::parse(name).unwrap());
        for space in &spaces {
            let page = PageId::derived(&["page"]);
            let mut changes = vec![Change::EnsurePage(Box::new(NewPage {
                id: page,
                fields: PageFields::new(PageRole::Note, "A page", Owner::agent()),
            }))];
            changes.extend((0..9).map(|number| {
                Change::AddEntry(Box::new(NewEntry {
                    id: EntryId::derived(&["note", &number.to_string()]),
                    page,
                    kind: EntryKind::Note,
                    fields: EntryFields::new(EntryKind::Note, Owner::agent(), Trust::User),
                }))
            }));
            let commit = Commit {
                space: space.clone(),
                at: Timestamp::default(),
                actor: Actor::new(Role::Human, "ada"),
                idempotency_key: None,
                expected: Vec::new(),
                record: Record::of(changes),
                blobs: Vec::new(),
            };
            store.commit(commit).await.unwrap();
        }
        (store, spaces)
    }

    #[tokio::test]
    async fn querying_a_space_evicts_the_least_recently_queried_index() {
        let ask = async |store: &SqliteStore, space: &SpaceName| {
            let query = EntryQuery {
                kinds: vec![EntryKind::Note],
                ..EntryQuery::default()
            };
            let answer = store.entries(space, &query, Timestamp::default()).await;
            assert_eq!(answer.unwrap().total, 9);
        };
        let (store, [one, other]) = two_spaces(usize::MAX).await;
        ask(&store, &one).await;
        ask(&store, &other).await;
        assert!(store.living.is_ready(&one) && store.living.is_ready(&other));
        let space = store.living.spaces.space_for_query(&one);
        let bytes = match &*space.state.read() {
            State::Ready(index, _) => index.bytes(),
            state => panic!("{state:?}"),
        };
        let (store, [one, other]) = two_spaces(bytes * 3 / 2).await;
        for (asked, left) in [(&one, &other), (&other, &one), (&one, &other)] {
            ask(&store, asked).await;
            assert!(store.living.is_ready(asked) && !store.living.is_ready(left));
        }
    }

    #[test]
    fn catching_up_reads_only_entries_changed_since_the_index() {
        let conn = Connection::open_in_memory().unwrap();
        for step in MIGRATIONS {
            conn.execute_batch(step.sql).unwrap();
        }
        let space = SpaceId(1);
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
            INSERT INTO entry SELECT ?1 + i, 1, CAST(i AS BLOB), ?1 + 1, 'log', NULL, 'active', 'agent', 0, NULL, 0, NULL, 1, i, i, i, i, '{}'
            FROM n";
        conn.execute(sql, [Place::of(space, 0).raw()]).unwrap();
        let mut index = LiveIndex::default();
        catch_up(&conn, space, &mut index, Seq(9_990)).unwrap();
        let statement = conn.prepare_cached(&newer()).unwrap();
        let steps = statement.get_status(StatementStatus::VmStep);
        assert!((1..500).contains(&steps), "{steps}");
    }

    #[test]
    fn index_too_far_behind_is_not_caught_up() {
        let conn = Connection::open_in_memory().unwrap();
        for step in MIGRATIONS {
            conn.execute_batch(step.sql).unwrap();
        }
        let space = SpaceId(1);
        let fields = EntryFields::new(EntryKind::Note, Owner::agent(), Trust::User);
        let fields = serde_json::to_string(&fields).unwrap();
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
            INSERT INTO entry SELECT ?1 + i, 1, CAST(printf('%016d', i) AS BLOB), ?1 + 1, 'note', NULL, 'active',
                'agent', 0, NULL, 0, NULL, 1, i, i, i, i, ?3 FROM n";
        let many = i64::try_from(NEWS_MAX).unwrap() + 10;
        conn.execute(sql, params![Place::of(space, 0).raw(), many, fields])
            .unwrap();
        let sql = "INSERT INTO page (place, space, id, role, version, created_at, updated_at, created_seq, fields)
            SELECT ?1 + 1, 1, zeroblob(16), 'note', 1, 1, 1, 1, '{}'";
        conn.execute(sql, [Place::of(space, 0).raw()]).unwrap();
        let mut index = LiveIndex::default();
        assert!(!catch_up(&conn, space, &mut index, Seq(0)).unwrap());
        let mut index = LiveIndex::default();
        assert!(catch_up(&conn, space, &mut index, Seq(10)).unwrap());
    }
}
