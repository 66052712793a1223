//! Rows of the log, and what is read from them: changes, revisions of an entry, the journal of a run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use folio_memory::{Actor, Entry, EntryId, RunId, Seq, Timestamp, TurnId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::{Failure, damaged, not_found};
use super::place::{Place, SpaceId, Touched, from_column, to_column};
use super::{entry, rewrite, run};
use crate::error::StoreError;
use crate::fold::{self, RecordByteBudget, Revisions, States};
use crate::prepare::Prepared;
use crate::store::{Journal, LogRow, Revision, RunCommits};

/// The last commit of `space` and its time.
pub(super) fn last(conn: &Connection, space: SpaceId) -> Result<Option<(Seq, Timestamp)>, Failure> {
    let sql = "SELECT place, at FROM log WHERE place BETWEEN ?1 AND ?2 ORDER BY place DESC LIMIT 1";
    let row = conn
        .prepare_cached(sql)?
        .query_row(params![Place::start(space), Place::end(space)], |row| {
            Ok((
                Seq(row.get::<_, Place>(0)?.number()),
                Timestamp::from_nanos(row.get(1)?),
            ))
        });
    Ok(row.optional()?)
}

/// The time at which expiry is judged for memory as of commit `seq`, when asked at `now`: what was live then and has
/// expired since belongs to memory as it was. Dropped commits leave their numbers, but not their times.
pub(super) fn expiry_time_at(
    conn: &Connection,
    space: SpaceId,
    seq: Seq,
    now: Timestamp,
) -> Result<Timestamp, Failure> {
    let sql = "SELECT at FROM log WHERE place BETWEEN ?1 AND ?2 ORDER BY place DESC LIMIT 1";
    let mut statement = conn.prepare_cached(sql)?;
    let places = params![Place::start(space), Place::of(space, seq.0)];
    let came_to = statement.query_row(places, |row| row.get(0)).optional()?;
    Ok(came_to.map_or(now, Timestamp::from_nanos).min(now))
}

/// The time of the commit at `place`.
pub(super) fn commit_time(conn: &Connection, place: Place) -> Result<Option<Timestamp>, Failure> {
    let mut statement = conn.prepare_cached("SELECT at FROM log WHERE place = ?1")?;
    Ok(statement
        .query_row(params![place], |row| row.get(0))
        .optional()?
        .map(Timestamp::from_nanos))
}

/// The commit of `space` with the idempotency key `key`.
pub(super) fn with_key(conn: &Connection, space: SpaceId, key: &str) -> Result<Option<LogRow>, Failure> {
    let mut statement = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM log WHERE key = ?1 AND space = ?2"))?;
    let mut rows = statement.query(params![key, space])?;
    rows.next()?.map(|row| from_row(conn, row)).transpose()
}

pub(super) fn insert(conn: &Connection, place: Place, at: Timestamp, commit: &Prepared) -> Result<(), Failure> {
    let sql = "INSERT INTO log (place, space, at, key, actor, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let row = params![
        place,
        place.space(),
        at.as_nanos(),
        commit.key,
        commit.actor_json,
        commit.record_json
    ];
    conn.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

/// Records that commit `seq` touched the row at `place`.
pub(super) fn touch(conn: &Connection, kind: Touched, place: Place, seq: Seq) -> Result<(), Failure> {
    let sql = "INSERT INTO touch (what, place, seq) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    conn.prepare_cached(sql)?
        .execute(params![kind.letter(), place, to_column(seq.0)])?;
    Ok(())
}

/// Whether it is recorded that commit `seq` touched the row at `place`.
pub(super) fn is_touched(conn: &Connection, kind: Touched, place: Place, seq: Seq) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM touch WHERE what = ?1 AND place = ?2 AND seq = ?3)";
    Ok(conn
        .prepare_cached(sql)?
        .query_row(params![kind.letter(), place, to_column(seq.0)], |row| row.get(0))?)
}

/// The last commit that touched the row at `place`; zero if there is none.
pub(super) fn last_touch(conn: &Connection, kind: Touched, place: Place) -> Result<Seq, Failure> {
    let sql = "SELECT max(seq) FROM touch WHERE what = ?1 AND place = ?2";
    let seq: Option<i64> = conn
        .prepare_cached(sql)?
        .query_row(params![kind.letter(), place], |row| row.get(0))?;
    Ok(Seq(from_column(seq.unwrap_or(0))))
}

/// Up to `limit` commits of `space` after `since`, as far as there is [`RecordByteBudget`] for them.
pub(super) fn changes(conn: &Connection, space: SpaceId, since: Seq, limit: u32) -> Result<Vec<LogRow>, Failure> {
    let sql = format!("SELECT {COLUMNS} FROM log WHERE place > ?1 AND place <= ?2 ORDER BY place LIMIT ?3");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![Place::of(space, since.0), Place::end(space), limit])?;
    let (mut changes, mut room) = (Vec::new(), RecordByteBudget::of_changes());
    while let Some(row) = rows.next()? {
        changes.push(from_row(conn, row)?);
        if !take_row(&mut room, row) {
            break;
        }
    }
    Ok(changes)
}

/// Takes the record in [`COLUMNS`]. Returns whether there is room for another one.
fn take_row(room: &mut RecordByteBudget, row: &Row<'_>) -> bool {
    let bytes = |column| row.get_ref(column).ok()?.as_bytes_or_null().ok()?.map(<[u8]>::len);
    room.take(bytes(4).unwrap_or_default(), bytes(5).unwrap_or_default())
}

/// The last commit of `space` after `since`, up to `until`, that changed memory in `turn`.
pub(super) fn last_in_turn(
    conn: &Connection,
    space: SpaceId,
    turn: TurnId,
    since: Seq,
    until: Seq,
) -> Result<Option<Seq>, Failure> {
    let sql = format!(
        "SELECT {COLUMNS} FROM log WHERE place > ?1 AND place <= ?2 AND instr(actor, ?3) > 0 ORDER BY place DESC"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let places = (Place::of(space, since.0), Place::of(space, until.0));
    let mut rows = statement.query(params![places.0, places.1, turn.to_string()])?;
    while let Some(row) = rows.next()? {
        let commit = from_row(conn, row)?;
        if commit.actor.turn == Some(turn) && commit.record.may_change_memory() {
            return Ok(Some(commit.seq));
        }
    }
    Ok(None)
}

/// The commit at `place`.
pub(super) fn commit_at(conn: &Connection, place: Place) -> Result<Option<LogRow>, Failure> {
    let mut statement = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM log WHERE place = ?1"))?;
    let mut rows = statement.query(params![place])?;
    rows.next()?.map(|row| from_row(conn, row)).transpose()
}

/// Passes the commits that added and changed the entry at `place` to `each`, one at a time and in order.
fn commits_of_entry(
    conn: &Connection,
    place: Place,
    created: Seq,
    mut each: impl FnMut(LogRow),
) -> Result<(), Failure> {
    let sql = format!(
        "SELECT {COLUMNS} FROM log WHERE place = ?1 UNION ALL
         SELECT {COLUMNS} FROM (SELECT seq FROM touch WHERE what = 'e' AND place = ?2 AND seq > ?4 ORDER BY seq)
         CROSS JOIN log ON log.place = ?3 + seq"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let space = place.space();
    let (start, created) = (Place::start(space), to_column(created.0));
    let mut rows = statement.query(params![Place::of(space, from_column(created)), place, start, created])?;
    while let Some(row) = rows.next()? {
        each(from_row(conn, row)?);
    }
    Ok(())
}

/// The fields of `entry` that were changed since its version `base`, each with the version that last changed it;
/// without the commit that is being made.
pub(super) fn changed_since(
    conn: &Connection,
    entry: &Entry,
    space: SpaceId,
    base: u32,
) -> Result<HashMap<&'static str, u32>, Failure> {
    let place = Place::of(space, entry.handle.0);
    let Some(entry) = entry::by_place(conn, place)?.filter(|entry| entry.version > base) else {
        return Ok(HashMap::new());
    };
    // The usual case: the entry was changed once in between.
    if entry.version - base == 1
        && let Some(last) = commit_at(conn, Place::of(space, entry.updated_seq.0))?
        && let Some(changed) = fold::changed_last(&entry, &last)
    {
        return Ok(changed);
    }
    Ok(revisions(conn, place, &entry)?.changed_since(base))
}

/// The revisions of one entry, oldest first.
pub(super) fn history(conn: &Connection, space: Option<SpaceId>, id: EntryId) -> Result<Vec<Revision>, Failure> {
    let missing = || not_found("entry", id);
    let found = space
        .map(|space| entry::by_id(conn, space, id))
        .transpose()?
        .flatten()
        .ok_or_else(missing)?;
    let place = Place::of(space.ok_or_else(missing)?, found.handle.0);
    Ok(revisions(conn, place, &found)?.made)
}

/// The revisions of each of the entries `ids`, oldest first. A commit that touched many of them is read once.
pub(super) fn histories(
    conn: &Connection,
    space: Option<SpaceId>,
    ids: &[EntryId],
) -> Result<Vec<Vec<Revision>>, Failure> {
    let mut touched = conn.prepare_cached("SELECT seq FROM touch WHERE what = 'e' AND place = ?1 AND seq > ?2")?;
    let (mut all, mut commits) = (Vec::with_capacity(ids.len()), BTreeMap::<i64, Vec<usize>>::new());
    for (number, id) in ids.iter().enumerate() {
        let found = space.map(|space| entry::by_id(conn, space, *id)).transpose()?.flatten();
        let (Some(space), Some(found)) = (space, found) else {
            return Err(not_found("entry", *id).into());
        };
        let created = to_column(found.created_seq.0);
        commits.entry(created).or_default().push(number);
        for seq in touched.query_map(params![Place::of(space, found.handle.0), created], |row| row.get(0))? {
            commits.entry(seq?).or_default().push(number);
        }
        all.push(Revisions::of(&found));
    }
    for (seq, of) in commits {
        let Some(space) = space else { continue };
        if let Some(commit) = commit_at(conn, Place::of(space, from_column(seq)))? {
            of.into_iter().for_each(|number: usize| all[number].take_in(&commit));
        }
    }
    Ok(all.into_iter().map(|revisions| revisions.made).collect())
}

fn revisions(conn: &Connection, place: Place, found: &Entry) -> Result<Revisions, Failure> {
    let mut revisions = Revisions::of(found);
    commits_of_entry(conn, place, found.created_seq, |commit| revisions.take_in(&commit))?;
    Ok(revisions)
}

/// The entries at `places` as they were at commit `last`, for readers, in their order, without those that did not
/// exist.
pub(super) fn as_of(conn: &Connection, places: &[Place], last: Seq) -> Result<Vec<Entry>, Failure> {
    Ok(states_at(conn, places, last)?.into_readable())
}

/// The states of the entries at `places` at commit `last`.
pub(super) fn states_at(conn: &Connection, places: &[Place], last: Seq) -> Result<States, Failure> {
    // A commit that touched many of them is read once.
    let (mut found, mut commits) = (Vec::with_capacity(places.len()), BTreeSet::new());
    let mut touched =
        conn.prepare_cached("SELECT seq FROM touch WHERE what = 'e' AND place = ?1 AND seq > ?2 AND seq <= ?3")?;
    for place in places {
        let Some(entry) = entry::by_place(conn, *place)?.filter(|entry| entry.created_seq <= last) else {
            continue;
        };
        let of_space = |seq: i64| Place::of(place.space(), from_column(seq));
        commits.insert(of_space(to_column(entry.created_seq.0)));
        let seqs = params![place, to_column(entry.created_seq.0), to_column(last.0)];
        for seq in touched.query_map(seqs, |row| row.get(0))? {
            commits.insert(of_space(seq?));
        }
        found.push(entry);
    }
    let mut states = States::of(&found);
    for place in commits {
        if let Some(commit) = commit_at(conn, place)? {
            states.take_in(&commit);
        }
    }
    Ok(states)
}

/// Those of `entries`, in their states at commit `last`, that were changed since, in their present states according to
/// the commits that are recorded as touching them.
pub(super) fn states_since(
    conn: &Connection,
    space: SpaceId,
    entries: &[Entry],
    last: Seq,
) -> Result<HashMap<EntryId, Entry>, Failure> {
    let (mut changed, mut commits) = (Vec::new(), BTreeSet::new());
    let mut touched = conn.prepare_cached("SELECT seq FROM touch WHERE what = 'e' AND place = ?1 AND seq > ?2")?;
    for entry in entries {
        let seqs = params![Place::of(space, entry.handle.0), to_column(last.0)];
        let seqs = touched.query_map(seqs, |row| row.get(0).map(from_column))?;
        let seqs = seqs.collect::<Result<Vec<u64>, _>>()?;
        changed.extend((!seqs.is_empty()).then(|| entry.clone()));
        commits.extend(seqs);
    }
    let mut states = States::from(changed);
    for seq in commits {
        if let Some(commit) = commit_at(conn, Place::of(space, seq))? {
            states.take_in(&commit);
        }
    }
    Ok(states
        .into_entries()
        .into_iter()
        .map(|entry| (entry.id, entry))
        .collect())
}

/// Those of the entries `ids` that existed at commit `last`, as they were then.
pub(super) fn entries_as_of(
    conn: &Connection,
    space: SpaceId,
    ids: &[EntryId],
    last: Seq,
) -> Result<Vec<Entry>, Failure> {
    let (mut found, mut changed) = (Vec::with_capacity(ids.len()), Vec::new());
    for id in ids {
        match entry::by_id(conn, space, *id)? {
            Some(entry) if entry.updated_seq <= last => found.push(entry),
            Some(entry) => changed.push(Place::of(space, entry.handle.0)),
            None => {}
        }
    }
    found.extend(as_of(conn, &changed, last)?);
    Ok(found)
}

/// The events of `id` after `since`, up to the commit that brings them to `bytes`.
pub(super) fn of_run(
    conn: &Connection,
    space: Option<SpaceId>,
    id: RunId,
    since: Seq,
    bytes: usize,
) -> Result<Journal, Failure> {
    let missing = || not_found("run", id);
    let space = space.ok_or_else(missing)?;
    let (place, status) = run::place_and_status(conn, space, id)?.ok_or_else(missing)?;
    fold::refuse_forgotten(place.number(), &status)?;
    let sql = "SELECT log.place, log.at, log.record
               FROM (SELECT seq FROM touch WHERE what = 'r' AND place = ?1 AND seq > ?3 ORDER BY seq)
               CROSS JOIN log ON log.place = ?2 + seq";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![place, Place::start(space), to_column(since.0)])?;
    let mut part = fold::Part::after(since, bytes);
    while let Some(row) = rows.next()? {
        if part.is_full() {
            break;
        }
        let seq = Seq(row.get::<_, Place>(0)?.number());
        let at = Timestamp::from_nanos(row.get(1)?);
        let name = || format!("commit {seq}");
        let record = row.get_ref(2)?.as_str().map_err(|error| damaged(&name(), error))?;
        if !part.take(seq, at, record).map_err(|error| damaged(&name(), error))? {
            break;
        }
    }
    Ok(part.journal)
}

/// The commits with events of `id` after `since`, up to the one that brings their records to `bytes`.
pub(super) fn commits_of_run(
    conn: &Connection,
    space: Option<SpaceId>,
    id: RunId,
    since: Seq,
    bytes: usize,
) -> Result<RunCommits, Failure> {
    let missing = || not_found("run", id);
    let space = space.ok_or_else(missing)?;
    let (place, status) = run::place_and_status(conn, space, id)?.ok_or_else(missing)?;
    fold::refuse_forgotten(place.number(), &status)?;
    let sql = format!(
        "SELECT {COLUMNS} FROM (SELECT seq FROM touch WHERE what = 'r' AND place = ?1 AND seq > ?3 ORDER BY seq)
         CROSS JOIN log ON log.place = ?2 + seq"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![place, Place::start(space), to_column(since.0)])?;
    let (mut commits, mut room, mut has_room) = (Vec::new(), RecordByteBudget::of(bytes), true);
    while let Some(row) = rows.next()? {
        if !has_room {
            let is_whole = false;
            return Ok(RunCommits { commits, is_whole });
        }
        commits.push(from_row(conn, row)?);
        has_room = take_row(&mut room, row);
    }
    let is_whole = true;
    Ok(RunCommits { commits, is_whole })
}

/// The columns that [`from_row`] reads.
pub(super) const COLUMNS: &str = "log.place, at, key, actor, record, CASE WHEN record = '{}' THEN \
                                  (SELECT bytes FROM packed_log WHERE packed_log.place = log.place) END";

/// Reads [`COLUMNS`].
fn from_row(conn: &Connection, row: &Row<'_>) -> Result<LogRow, Failure> {
    as_known(row).map_err(|failure| too_new(conn, row).map_or(failure, Failure::Refused))
}

/// The error that a newer version wrote the commit in `row`, if that is why it cannot be read.
fn too_new(conn: &Connection, row: &Row<'_>) -> Option<StoreError> {
    let place: Place = row.get(0).ok()?;
    let text = rewrite::text_of(row.get_ref(4).ok()?, row.get_ref(5).ok()?).ok()?;
    let run = fold::run_of(&text)?;
    let journal = of_run(conn, Some(place.space()), run, Seq(0), usize::MAX).ok()?;
    fold::too_new(run, &journal, Seq(place.number()))
}

fn as_known(row: &Row<'_>) -> Result<LogRow, Failure> {
    let seq = Seq(row.get::<_, Place>(0)?.number());
    let name = || format!("commit {seq}");
    let text =
        |column| -> Result<_, Failure> { row.get_ref(column)?.as_str().map_err(|error| damaged(&name(), error)) };
    let record = rewrite::text_of(row.get_ref(4)?, row.get_ref(5)?).map_err(|error| damaged(&name(), error))?;
    let record = fold::record_of(&record).map_err(|error| damaged(&name(), error))?;
    let actor: Actor = serde_json::from_str(text(3)?).map_err(|error| damaged(&name(), error))?;
    Ok(LogRow {
        seq,
        at: Timestamp::from_nanos(row.get(1)?),
        actor,
        idempotency_key: row.get(2)?,
        record,
    })
}
