//! The only ways in which a row of the log changes after it was written: its content is erased, compressed, or, once
//! only numbers are left of it, merged with its neighbours.

use folio_memory::{RunId, Seq};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use super::error::{Failure, damaged};
use super::packed::{self, Packed};
use super::place::{Place, from_column, to_column};

/// The content of the record column if the record is packed.
pub(super) const PACKED_RECORD: &str = "{}";

/// The place of a commit, and the two columns of its record.
pub(super) const COLUMNS: &str = "log.place, record, CASE WHEN record = '{}' THEN \
                                  (SELECT bytes FROM packed_log WHERE packed_log.place = log.place) END";

/// The commits that changed the entry at `place` after the one that added it.
pub(super) fn touches(conn: &Connection, place: Place) -> Result<Vec<Seq>, Failure> {
    let mut statement = conn.prepare_cached("SELECT seq FROM touch WHERE what = 'e' AND place = ?1")?;
    let seqs = statement.query_map([place], |row| Ok(Seq(from_column(row.get(0)?))))?;
    Ok(seqs.collect::<Result<_, _>>()?)
}

/// Up to `limit` commits after `after` that wrote to the run with the id `id` at `place`, or added one of its pages, in
/// order.
pub(super) fn commits_of_run(
    conn: &Connection,
    place: Place,
    id: RunId,
    after: Seq,
    limit: u32,
) -> Result<Vec<Seq>, Failure> {
    let sql = "SELECT seq FROM touch WHERE what = 'r' AND place = ?1 AND seq > ?3
               UNION SELECT created_seq FROM page WHERE run = ?2 AND space = ?4 AND created_seq > ?3
               ORDER BY 1 LIMIT ?5";
    let mut statement = conn.prepare_cached(sql)?;
    let values = params![place, id.to_bytes(), to_column(after.0), place.space(), limit];
    let seqs = statement.query_map(values, |row| Ok(Seq(from_column(row.get(0)?))))?;
    Ok(seqs.collect::<Result<_, _>>()?)
}

/// The record of the commit at `place`, as JSON.
pub(super) fn record_text(conn: &Connection, place: Place) -> Result<Option<String>, Failure> {
    let mut statement = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM log WHERE place = ?1"))?;
    let text = statement.query_row([place], |row| {
        Ok(text_of(row.get_ref(1)?, row.get_ref(2)?).map(|text| text.into_owned()))
    });
    let text = text.optional()?.transpose();
    text.map_err(|reason| damaged(&format!("commit {}", place.number()), reason))
}

/// The text in the two columns of a text that may be packed.
pub(super) fn text_of<'r>(plain: ValueRef<'r>, bytes: ValueRef<'r>) -> Result<std::borrow::Cow<'r, str>, String> {
    match bytes {
        ValueRef::Null => plain.as_str().map(Into::into).map_err(|error| error.to_string()),
        bytes => {
            let bytes = bytes.as_blob().map_err(|error| error.to_string())?;
            packed::unpack(bytes).map(Into::into)
        }
    }
}

/// Replaces the record of the commit at `place`.
pub(super) fn rewrite(conn: &Connection, place: Place, record: &str) -> Result<(), Failure> {
    set_record(conn, place, record)?;
    packed::remove(conn, Packed::Record, place)
}

/// Writes another text into the record column of the commit at `place`.
pub(super) fn set_record(conn: &Connection, place: Place, record: &str) -> Result<(), Failure> {
    let sql = "UPDATE log SET record = ?2 WHERE place = ?1";
    conn.prepare_cached(sql)?.execute(params![place, record])?;
    Ok(())
}

/// Makes the commit at `place` stand for others, too. Its key is dropped: any retry would have come long ago.
pub(super) fn fold_into(conn: &Connection, place: Place, record: &str) -> Result<(), Failure> {
    let sql = "UPDATE log SET record = ?2, key = NULL WHERE place = ?1";
    conn.prepare_cached(sql)?.execute(params![place, record])?;
    packed::remove(conn, Packed::Record, place)
}

/// Removes the row of a commit for which another one stands.
pub(super) fn remove(conn: &Connection, place: Place) -> Result<(), Failure> {
    conn.prepare_cached("DELETE FROM log WHERE place = ?1")?
        .execute([place])?;
    packed::remove(conn, Packed::Record, place)
}
