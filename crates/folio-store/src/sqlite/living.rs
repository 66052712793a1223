//! The indexes of live entries in memory, one for each space that is queried often, and how they are kept exact.
//!
//! An index is built from one state of the file, and updated to every later one by what has changed in between, whoever
//! changed it. So its answer is the same as that of the file at the commit that the asking transaction sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use folio_memory::{Entry, EntryKind, Seq, SpaceName, Status, Timestamp};
use parking_lot::Mutex;
use rusqlite::{Connection, params};

use super::entry::{self, IS_MEMORY_SQL, from_row, memory_kinds};
use super::error::{Failure, damaged};
use super::journal;
use super::open::Target;
use super::place::{Place, SpaceId};
use crate::live::{Builder, Facts, LiveIndex, LiveOptions, Missing, NEWS_MAX, Ready, Space, Spaces, State};

/// The indexes of a store's spaces.
#[derive(Debug)]
pub(super) struct Living {
    target: Target,
    spaces: Arc<Spaces>,
    is_closing: Arc<AtomicBool>,
    makers: Mutex<Vec<JoinHandle<()>>>,
}

impl Living {
    pub(super) fn new(options: LiveOptions, target: Target) -> Self {
        Self {
            target,
            spaces: Arc::new(Spaces::new(options)),
            is_closing: Arc::default(),
            makers: Mutex::default(),
        }
    }

    /// Whether the space `name` has an index, so that a list takes only microseconds.
    pub(super) fn is_ready(&self, name: &SpaceName) -> bool {
        let space = self.spaces.space(name);
        space.is_some_and(|space| {
            let state = space.state.try_read();
            state.is_some_and(|state| matches!(*state, State::Ready(_)))
        })
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
        if self.spaces.options.bytes_max == 0 {
            return Ok(None);
        }
        let known = self.spaces.space_for_query(name);
        {
            let state = known.state.read();
            if let Some(index) = state.index_for(head, now) {
                return question(index).map(Some);
            }
            match state.missing(head) {
                Missing::Time | Missing::News { .. } => {}
                Missing::Index => {
                    drop(state);
                    if !self.begin(conn, space, head, &known)? {
                        return Ok(None);
                    }
                }
                Missing::Unattainable => return Ok(None),
            }
        }
        let mut state = known.state.write();
        let State::Ready(ready) = &mut *state else {
            return Ok(None);
        };
        if ready.seq > head {
            return Ok(None);
        }
        if ready.seq < head {
            match catch_up(conn, space, ready, head) {
                Ok(true) => {}
                Ok(false) => {
                    // This query is answered without the index, as all are until it has been built anew.
                    known.drop_outdated(&mut state, self.spaces.options.after);
                    drop(state);
                    self.begin(conn, space, head, &known)?;
                    return Ok(None);
                }
                Err(failure) => {
                    // The index may have some of the news, and not others.
                    known.drop_index(&mut state);
                    return Err(failure);
                }
            }
        }
        let index = known.advanced(&mut state, now, self.spaces.options.bytes_max);
        let answer = index.map(question).transpose();
        let is_size_check_due = state.is_size_check_due();
        drop(state);
        if is_size_check_due {
            self.spaces.make_room();
        }
        answer
    }

    /// Starts to build an index if the space is worth one. Returns true if there is one already.
    fn begin(&self, conn: &Connection, space: SpaceId, head: Seq, known: &Arc<Space>) -> Result<bool, Failure> {
        let options = &self.spaces.options;
        if !known.is_asked_beyond(options.after) || entry::last_at(conn, space, head)? < options.from {
            return Ok(false);
        }
        match known.begin_making() {
            Builder::Caller => {}
            Builder::Other => return Ok(false),
            Builder::Done => return Ok(true),
        }
        if options.after > 0 {
            self.build_in_background(space, known);
            return Ok(false);
        }
        let is_ready = known.settle_built(build_index(conn, space, options.bytes_max, &self.is_closing));
        self.spaces.make_room();
        is_ready
    }

    fn build_in_background(&self, space: SpaceId, known: &Arc<Space>) {
        let (target, is_closing) = (self.target.clone(), Arc::clone(&self.is_closing));
        let (spaces, made) = (Arc::clone(&self.spaces), Arc::clone(known));
        let maker = std::thread::Builder::new()
            .name("folio-index".to_owned())
            .spawn(move || {
                let built = target.connect_reader().and_then(|conn| {
                    conn.execute_batch("BEGIN")?;
                    build_index(&conn, space, spaces.options.bytes_max, &is_closing)
                });
                // Read errors are reported to whoever queries the data; the index is tried again later.
                made.settle(built.unwrap_or_default());
                spaces.make_room();
            });
        match maker {
            Ok(maker) => {
                let mut makers = self.makers.lock();
                makers.retain(|maker| !maker.is_finished());
                makers.push(maker);
            }
            // Without a thread there is no index, and everything else works.
            Err(_) => known.settle(State::None),
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
    let seq = journal::last(conn, space)?.map_or(Seq(0), |(head, _)| head);
    let last = entry::last_number(conn, space)?;
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
    Ok(State::Ready(Box::new(Ready { index, seq, last })))
}

/// Selects the memory between two places.
fn newer() -> String {
    let columns = entry::COLUMNS;
    format!("SELECT {columns} FROM entry WHERE place > ?1 AND place <= ?2 AND {IS_MEMORY_SQL} ORDER BY place")
}

/// Brings the index to commit `head`, the last one that the transaction of `conn` sees; false if so much has changed
/// that the index should be built anew in the background. Then, and after an error, it may have a part of the news.
fn catch_up(conn: &Connection, space: SpaceId, ready: &mut Ready, head: Seq) -> Result<bool, Failure> {
    let changed = entry::changed_after(conn, space, ready.seq)?;
    if changed.len() > NEWS_MAX {
        return Ok(false);
    }
    for place in changed.iter().copied() {
        if let Some(entry) = entry::by_place(conn, place)? {
            take_in(conn, &mut ready.index, &entry, place)?;
        }
    }
    let last = entry::last_number(conn, space)?;
    let mut statement = conn.prepare_cached(&newer())?;
    let mut rows = statement.query(params![Place::of(space, ready.last), Place::end(space)])?;
    let mut left = NEWS_MAX - changed.len();
    while let Some(row) = rows.next()? {
        let Some(remaining) = left.checked_sub(1) else {
            return Ok(false);
        };
        left = remaining;
        let place: Place = row.get(0)?;
        take_in(conn, &mut ready.index, &from_row(row)?, place)?;
    }
    (ready.seq, ready.last) = (head, last);
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
            State::Ready(ready) => ready.index.bytes(),
            state => panic!("{state:?}"),
        };
        let (store, [one, other]) = two_spaces(bytes * 3 / 2).await;
        for (asked, left) in [(&one, &other), (&other, &one), (&one, &other)] {
            ask(&store, asked).await;
            assert!(store.living.is_ready(asked) && !store.living.is_ready(left));
        }
    }

    /// An empty index at commit `number`, which added the entry of that number.
    fn index_at(number: u64) -> Ready {
        Ready {
            index: LiveIndex::default(),
            seq: Seq(number),
            last: number,
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
        catch_up(&conn, space, &mut index_at(9_990), Seq(10_000)).unwrap();
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
        let head = Seq(u64::try_from(many).unwrap());
        assert!(!catch_up(&conn, space, &mut index_at(0), head).unwrap());
        assert!(catch_up(&conn, space, &mut index_at(10), head).unwrap());
    }
}
