//! Rows that tell where to look for what is due: one for each thing for which an entry is watched.

use folio_memory::keeping::{Watch, Watched};
use folio_memory::{EntryHandle, EntryId, Timestamp};
use rusqlite::{Connection, params};

use super::entry;
use super::error::{Failure, damaged};
use super::place::{Place, SpaceId, from_column};
use crate::upkeep::{WatchAnswer, WatchPlace, WatchQuery, watch_code};

fn code(watch: Watch) -> Result<i64, Failure> {
    Ok(watch_code(watch)?)
}

/// Changes the rows of the entry at `place` from `old` to `new`.
pub(super) fn update(conn: &Connection, place: Place, old: &[Watched], new: &[Watched]) -> Result<(), Failure> {
    for ended_watch in old.iter().filter(|watched| !new.contains(watched)) {
        remove(conn, place, ended_watch.what, ended_watch.at)?;
    }
    let sql = "INSERT INTO watch (space, what, at, place, since) VALUES (?1, ?2, ?3, ?4, ?5)
               ON CONFLICT (space, what, at, place) DO UPDATE SET since = ?5";
    for added in new.iter().filter(|watched| !old.contains(watched)) {
        conn.prepare_cached(sql)?.execute(params![
            place.space(),
            code(added.what)?,
            added.at.as_nanos(),
            place,
            added.since.as_nanos()
        ])?;
    }
    Ok(())
}

/// Stops watching the entry at `place` for `watch`.
pub(super) fn remove(conn: &Connection, place: Place, watch: Watch, at: Timestamp) -> Result<(), Failure> {
    let sql = "DELETE FROM watch WHERE space = ?1 AND what = ?2 AND at = ?3 AND place = ?4";
    let row = params![place.space(), code(watch)?, at.as_nanos(), place];
    conn.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

/// The places of the entries that match `query`, with their times.
pub(super) fn places(
    conn: &Connection,
    space: SpaceId,
    query: &WatchQuery,
) -> Result<Vec<(Timestamp, Place)>, Failure> {
    let after = query.after.map_or((Timestamp::MIN, Place::start(space)), |after| {
        (after.at, Place::of(space, after.entry.0))
    });
    let sql = "SELECT at, place FROM watch WHERE space = ?1 AND what = ?2 AND (at, place) > (?3, ?4) AND at <= ?5
               AND since <= ?6 ORDER BY at, place LIMIT ?7";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![
        space,
        code(query.what)?,
        after.0.as_nanos(),
        after.1,
        query.until.as_nanos(),
        query.idle_since.as_nanos(),
        query.limit
    ])?;
    let mut places = Vec::new();
    while let Some(row) = rows.next()? {
        places.push((Timestamp::from_nanos(row.get(0)?), row.get(1)?));
    }
    Ok(places)
}

/// The entries that match `query`.
pub(super) fn entries(conn: &Connection, space: SpaceId, query: &WatchQuery) -> Result<WatchAnswer, Failure> {
    let places = places(conn, space, query)?;
    let is_full = places.len() >= usize::try_from(query.limit).unwrap_or(usize::MAX);
    let next = places.last().filter(|_| is_full).map(|(at, place)| WatchPlace {
        at: *at,
        entry: EntryHandle(place.number()),
    });
    let mut entries = Vec::with_capacity(places.len());
    for (_, place) in places {
        let missing = || damaged("a watch", format!("e{} is not there", place.number()));
        entries.push(entry::by_place(conn, place)?.ok_or_else(missing)?);
    }
    Ok(WatchAnswer { entries, next })
}

/// Up to `limit` entries of `space` that had expired by `by` without a revision that says so, in the order in which
/// they expired.
pub(super) fn ended(
    conn: &Connection,
    space: Option<SpaceId>,
    by: Timestamp,
    limit: u32,
) -> Result<Vec<(EntryId, Timestamp)>, Failure> {
    let Some(space) = space else { return Ok(Vec::new()) };
    let select_ended = |watch| {
        Ok::<_, Failure>(format!(
            "SELECT * FROM (SELECT at, place FROM watch WHERE space = ?1 AND what = {} AND at <= ?2 ORDER BY at, place LIMIT ?3)",
            code(watch)?
        ))
    };
    let (live, unnoted) = (select_ended(Watch::Live)?, select_ended(Watch::Unnoted)?);
    let sql = format!(
        "SELECT entry.id, due.at FROM ({live} UNION ALL {unnoted}) AS due CROSS JOIN entry ON entry.place = due.place
         ORDER BY due.at, due.place LIMIT ?3"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![space, by.as_nanos(), limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: [u8; 16] = row.get(0).map_err(|error| damaged("the id of an entry", error))?;
        found.push((EntryId::from_bytes(id), Timestamp::from_nanos(row.get(1)?)));
    }
    Ok(found)
}

/// Whether any entry of `space` had expired by `by` without a revision that says so: a quick form of [`ended`] that is
/// asked before each call of a model.
pub(super) fn has_ended(conn: &Connection, space: SpaceId, by: Timestamp) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM watch WHERE space = ?1 AND what = ?3 AND at <= ?2)
               OR EXISTS (SELECT 1 FROM watch WHERE space = ?1 AND what = ?4 AND at <= ?2)";
    let (live, unnoted) = (code(Watch::Live)?, code(Watch::Unnoted)?);
    Ok(conn
        .prepare_cached(sql)?
        .query_row(params![space, by.as_nanos(), live, unnoted], |row| row.get(0))?)
}

/// The number of observations of `space` that are neither archived nor expired at `now`; counts no further than
/// `limit`.
pub(super) fn live(conn: &Connection, space: SpaceId, now: Timestamp, limit: u64) -> Result<u64, Failure> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM watch WHERE space = ?1 AND what = ?2 AND at > ?3 LIMIT ?4)";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let count = conn
        .prepare_cached(sql)?
        .query_row(params![space, code(Watch::Live)?, now.as_nanos(), limit], |row| {
            row.get(0)
        })?;
    Ok(from_column(count))
}

/// Whether the entry at `place` is watched as `watched` says.
pub(super) fn is_watched(conn: &Connection, place: Place, watched: &Watched) -> Result<bool, Failure> {
    let sql =
        "SELECT EXISTS (SELECT 1 FROM watch WHERE space = ?1 AND what = ?2 AND at = ?3 AND place = ?4 AND since = ?5)";
    let row = params![
        place.space(),
        code(watched.what)?,
        watched.at.as_nanos(),
        place,
        watched.since.as_nanos()
    ];
    Ok(conn.prepare_cached(sql)?.query_row(row, |row| row.get(0))?)
}
