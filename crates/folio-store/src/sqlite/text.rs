//! The index of words: it lags behind the log, and catches up when somebody searches.
//!
//! Adding an entry writes nothing here. A search first lets the writer catch up, in a series of short transactions, so
//! it finds everything that was committed before, by any process. If nothing can be written, it reads what is not
//! indexed. The pure analyser decides what the terms are; FTS5
//! stores them and knows nothing of languages.

use std::collections::BTreeSet;
use std::time::Duration;

use folio_memory::text::{self, EntryTerms, INDEXED_BYTES};
use folio_memory::{Entry, EntryId, Seq};
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::time::Instant;

use super::erase::overwrite_deleted;
use super::error::{Failure, damaged};
use super::place::{Place, SpaceId, from_column, to_column};
use super::{blob, entry, journal, rewrite};
use crate::fold;

/// How many commits the index may be behind before it catches up without a search.
pub(super) const FAR_BEHIND_COMMITS: u64 = 2_000;
/// How long a transaction goes on indexing; others wait for it.
const INDEXING_TIME_LIMIT: Duration = Duration::from_millis(10);
/// The most commits in such a transaction.
const COMMITS_MAX: u32 = 512;
/// How many pages of the index one step of [`clean_up`] rewrites.
const PAGES_CLEANED: i64 = 250;

/// The table with the terms of `space`.
pub(super) fn table(space: SpaceId) -> String {
    format!("entry_text_{}", space.0)
}

/// The commit up to which `space` is indexed by the rules of this version. `None` if nobody has searched it yet.
pub(super) fn indexed(conn: &Connection, space: SpaceId) -> Result<Option<Seq>, Failure> {
    let sql = "SELECT seq FROM text_index WHERE space = ?1 AND version = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let seq = statement
        .query_row(params![space, text::VERSION], |row| row.get(0))
        .optional()?;
    Ok(seq.map(|seq| Seq(from_column(seq))))
}

/// Whether `space` has an index, by whatever rules.
fn exists(conn: &Connection, space: SpaceId) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM text_index WHERE space = ?1)";
    Ok(conn.prepare_cached(sql)?.query_row([space], |row| row.get(0))?)
}

/// The spaces that have an index.
pub(super) fn spaces(conn: &Connection) -> Result<Vec<SpaceId>, Failure> {
    let mut statement = conn.prepare_cached("SELECT space FROM text_index ORDER BY space")?;
    let spaces = statement.query_map([], |row| row.get(0))?;
    Ok(spaces.collect::<Result<_, _>>()?)
}

/// The spaces with an index that is at least `far` commits behind.
pub(super) fn far_behind(conn: &Connection, far: u64) -> Result<Vec<SpaceId>, Failure> {
    let spaces = {
        let mut statement = conn.prepare_cached("SELECT space, seq FROM text_index ORDER BY space")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, from_column(row.get(1)?))))?;
        rows.collect::<Result<Vec<(SpaceId, u64)>, _>>()?
    };
    let mut behind = Vec::new();
    for (space, seq) in spaces {
        let head = journal::last(conn, space)?.map_or(0, |(head, _)| head.0);
        if head.saturating_sub(seq) >= far {
            behind.push(space);
        }
    }
    Ok(behind)
}

/// Indexes what has been committed to `space` since, for a limited time; returns the commit that it has reached.
///
/// Starts over if there is no index, or one by other rules.
pub(super) fn catch_up(conn: &Connection, space: SpaceId) -> Result<Seq, Failure> {
    let start = Instant::now();
    let since = match indexed(conn, space)? {
        Some(seq) => seq,
        None => {
            begin(conn, space)?;
            Seq(0)
        }
    };
    let mut places = BTreeSet::new();
    let mut until = since;
    let sql = format!(
        "SELECT {} FROM log WHERE place > ?1 AND place <= ?2 ORDER BY place LIMIT ?3",
        rewrite::COLUMNS
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![Place::of(space, since.0), Place::end(space), COMMITS_MAX])?;
    while let Some(row) = rows.next()? {
        let (seq, ids) = touched(row)?;
        until = seq;
        for id in ids {
            if let Some(place) = entry::place_of(conn, space, id)?
                && places.insert(place)
            {
                write(conn, place)?;
            }
        }
        if start.elapsed() >= INDEXING_TIME_LIMIT {
            break;
        }
    }
    let sql = "UPDATE text_index SET seq = ?2 WHERE space = ?1";
    conn.prepare_cached(sql)?.execute(params![space, to_column(until.0)])?;
    Ok(until)
}

/// The places of the entries that the index does not have as they are: it has come up to commit `indexed`. All, if there
/// is no index.
pub(super) fn unindexed(conn: &Connection, space: SpaceId, indexed: Option<Seq>) -> Result<Vec<Place>, Failure> {
    let Some(indexed) = indexed else {
        let mut statement = conn.prepare_cached("SELECT place FROM entry WHERE place > ?1 AND place <= ?2")?;
        let places = statement.query_map(params![Place::of(space, 0), Place::end(space)], |row| row.get(0))?;
        return Ok(places.collect::<Result<_, _>>()?);
    };
    let sql = format!(
        "SELECT {} FROM log WHERE place > ?1 AND place <= ?2 ORDER BY place",
        rewrite::COLUMNS
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![Place::of(space, indexed.0), Place::end(space)])?;
    let mut places = BTreeSet::new();
    while let Some(row) = rows.next()? {
        for id in touched(row)?.1 {
            places.extend(entry::place_of(conn, space, id)?);
        }
    }
    Ok(places.into_iter().collect())
}

/// The number of the commit in a `row` of the log, and the entries that it touches.
fn touched(row: &Row<'_>) -> Result<(Seq, Vec<EntryId>), Failure> {
    let seq = Seq(row.get::<_, Place>(0)?.number());
    let name = || format!("commit {seq}");
    let record = rewrite::text_of(row.get_ref(1)?, row.get_ref(2)?).map_err(|error| damaged(&name(), error))?;
    let ids = fold::touched(&record).map_err(|error| damaged(&name(), error))?;
    Ok((seq, ids))
}

/// Removes the terms of the entry at `place` from the index, so that it is not found any more.
///
/// Its terms may stay in the file until [`clean_up`] is done. An entry that is committed again is indexed again, so to
/// erase it, its text must be removed as well.
pub(super) fn remove(conn: &Connection, place: Place) -> Result<(), Failure> {
    if exists(conn, place.space())? {
        let sql = format!("DELETE FROM {} WHERE rowid = ?1", table(place.space()));
        conn.prepare_cached(&sql)?.execute([place])?;
    }
    Ok(())
}

/// Rewrites a part of the index of `space` without what was removed; returns whether that was the last part.
///
/// Each part has its own transaction, so that others can write in between; commits made meanwhile may make it take
/// longer. What was freed in the file is overwritten at once; after the last part the write-ahead log must be moved
/// into the file.
pub(super) fn clean_up(conn: &Connection, space: SpaceId) -> Result<bool, Failure> {
    if indexed(conn, space)?.is_none() {
        return discard(conn, space).map(|()| true);
    }
    overwrite_deleted(conn, true)?;
    let before = conn.total_changes();
    let table = table(space);
    let sql = format!("INSERT INTO {table} ({table}, rank) VALUES ('merge', ?1)");
    // A negative number merges everything there is, not only what has become too much.
    let merged = conn.prepare_cached(&sql)?.execute([-PAGES_CLEANED]);
    overwrite_deleted(conn, false)?;
    merged?;
    // The statement itself counts as one change.
    Ok(conn.total_changes() - before < 2)
}

/// Deletes an index by rules of another version, if there is one: the next search makes a new one anyway.
fn discard(conn: &Connection, space: SpaceId) -> Result<(), Failure> {
    if !exists(conn, space)? {
        return Ok(());
    }
    overwrite_deleted(conn, true)?;
    let discarded = conn.execute_batch(&format!("DROP TABLE IF EXISTS {}", table(space)));
    overwrite_deleted(conn, false)?;
    discarded?;
    let sql = "DELETE FROM text_index WHERE space = ?1";
    conn.prepare_cached(sql)?.execute([space])?;
    Ok(())
}

/// Creates an empty index.
fn begin(conn: &Connection, space: SpaceId) -> Result<(), Failure> {
    let table = table(space);
    conn.execute_batch(&format!(
        "DROP TABLE IF EXISTS {table};
         CREATE VIRTUAL TABLE {table} USING fts5
             (title, body, tags, content = '', contentless_delete = 1, tokenize = 'ascii');"
    ))?;
    let sql = "INSERT INTO text_index (space, seq, version) VALUES (?1, 0, ?2)
               ON CONFLICT DO UPDATE SET seq = 0, version = excluded.version";
    conn.prepare_cached(sql)?.execute(params![space, text::VERSION])?;
    Ok(())
}

/// Replaces the beginning of a long text in `entry` by as much of the whole as is searched.
pub(super) fn fill_in_text(conn: &Connection, space: SpaceId, entry: &mut Entry) -> Result<(), Failure> {
    if let Some(text) = &entry.fields.body_ref
        && let Some(text) = blob::beginning(conn, space, text, INDEXED_BYTES)?
    {
        entry.fields.body = text;
    }
    Ok(())
}

/// Indexes the current terms of the entry at `place`.
fn write(conn: &Connection, place: Place) -> Result<(), Failure> {
    let entry = entry::by_place(conn, place)?;
    let Some(mut entry) = entry.filter(|entry| text::is_searchable(entry.kind)) else {
        return remove(conn, place);
    };
    fill_in_text(conn, place.space(), &mut entry)?;
    let terms = EntryTerms::of(&entry.fields);
    let sql = format!(
        "REPLACE INTO {} (rowid, title, body, tags) VALUES (?1, ?2, ?3, ?4)",
        table(place.space())
    );
    let [title, body, tags] = [&terms.title, &terms.body, &terms.tags].map(|terms| terms.join(" "));
    conn.prepare_cached(&sql)?.execute(params![place, title, body, tags])?;
    Ok(())
}

#[cfg(test)]
mod tests;
