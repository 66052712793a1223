//! Rows of entries.

use folio_memory::id::EntryRef;
use folio_memory::terms::terms_of;
use folio_memory::{Entry, EntryFields, EntryHandle, EntryId, EntryKind, PageId, Seq, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::error::{Failure, damaged, not_found};
use super::packed::{self, Packed};
use super::place::{Place, SpaceId, from_column, to_column};
use super::text;

// `COLUMNS` as a macro, for statements that are assembled at compile time: every patch runs one.
macro_rules! columns {
    () => {
        "place, id, (SELECT page.id FROM page WHERE page.place = entry.page), kind, version, \
         created_at, updated_at, created_seq, updated_seq, fields, CASE WHEN status = 'archived' THEN \
         (SELECT bytes FROM packed_entry WHERE packed_entry.place = entry.place) END"
    };
}

/// The columns that [`from_row`] reads.
pub(super) const COLUMNS: &str = columns!();

/// Restricts rows to memory, in exactly the words of the partial indexes: otherwise SQLite does not know that those
/// have every row.
///
/// Kinds are compared one by one, because for a list of them SQLite builds a table in each statement that writes a row.
pub(super) const IS_MEMORY_SQL: &str = "kind <> 'log' AND kind <> 'step' AND kind <> 'summary'";

/// Restricts rows to those of runs, in the same way.
pub(super) const OF_RUNS: &str = "(kind = 'log' OR kind = 'step' OR kind = 'summary')";

/// The kinds that are memory, as a list in SQL.
pub(super) fn memory_kinds() -> String {
    let kinds = EntryKind::memory().map(|kind| format!("'{kind}'"));
    kinds.collect::<Vec<_>>().join(", ")
}

/// The place of the entry with the id `id`.
pub(super) fn place_of(conn: &Connection, space: SpaceId, id: EntryId) -> Result<Option<Place>, Failure> {
    let sql = "SELECT place FROM entry WHERE id = ?1 AND space = ?2";
    Ok(conn
        .prepare_cached(sql)?
        .query_row(params![id.to_bytes(), space], |row| row.get(0))
        .optional()?)
}

/// The entry with the id `id`.
pub(super) fn by_id(conn: &Connection, space: SpaceId, id: EntryId) -> Result<Option<Entry>, Failure> {
    let sql = concat!("SELECT ", columns!(), " FROM entry WHERE id = ?1 AND space = ?2");
    one(conn, sql, params![id.to_bytes(), space])
}

/// The entry at `place`.
pub(super) fn by_place(conn: &Connection, place: Place) -> Result<Option<Entry>, Failure> {
    one(
        conn,
        concat!("SELECT ", columns!(), " FROM entry WHERE place = ?1"),
        params![place],
    )
}

/// The entry to which `entry` refers.
pub(super) fn read(conn: &Connection, space: Option<SpaceId>, entry: EntryRef) -> Result<Entry, Failure> {
    let missing = || not_found("entry", entry);
    let space = space.ok_or_else(missing)?;
    let found = match entry {
        EntryRef::Id(id) => by_id(conn, space, id)?,
        EntryRef::Handle(handle) => by_place(conn, Place::of(space, handle.0))?,
    };
    Ok(found.ok_or_else(missing)?)
}

/// Inserts the row of an entry that a commit adds, and its terms.
pub(super) fn insert(conn: &Connection, row: &EntryRow<'_>) -> Result<(), Failure> {
    let sql = "INSERT INTO entry (place, space, id, page, kind, type, status, owner, pinned, expires_at, superseded,
               confidence, version, created_at, updated_at, created_seq, updated_seq, fields)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";
    let fields = row.fields;
    let (pinned, expires_at, superseded, confidence) = filters(fields);
    conn.prepare_cached(sql)?.execute(params![
        row.place,
        row.place.space(),
        row.id.to_bytes(),
        row.page,
        row.kind.as_str(),
        fields.type_name,
        fields.status.as_str(),
        fields.owner.as_str(),
        pinned,
        expires_at,
        superseded,
        confidence,
        row.version,
        row.created_at.as_nanos(),
        row.updated_at.as_nanos(),
        to_column(row.created_seq.0),
        to_column(row.updated_seq.0),
        row.fields_json,
    ])?;
    insert_terms(conn, row.place, &terms_of(fields))
}

/// Updates the row of an entry that a commit changed; `old_terms` are those by which it was found before.
pub(super) fn update(conn: &Connection, row: &EntryRow<'_>, old_terms: &[String]) -> Result<(), Failure> {
    let sql = "UPDATE entry SET type = ?2, status = ?3, owner = ?4, pinned = ?5, expires_at = ?6, superseded = ?7,
               confidence = ?8, version = ?9, updated_at = ?10, updated_seq = ?11, fields = ?12 WHERE place = ?1";
    let fields = row.fields;
    let (pinned, expires_at, superseded, confidence) = filters(fields);
    conn.prepare_cached(sql)?.execute(params![
        row.place,
        fields.type_name,
        fields.status.as_str(),
        fields.owner.as_str(),
        pinned,
        expires_at,
        superseded,
        confidence,
        row.version,
        row.updated_at.as_nanos(),
        to_column(row.updated_seq.0),
        row.fields_json,
    ])?;
    packed::remove(conn, Packed::Body, row.place)?;
    let terms = terms_of(fields);
    if old_terms != terms {
        let mut delete = conn.prepare_cached("DELETE FROM entry_term WHERE term = ?1 AND entry = ?2")?;
        for term in old_terms {
            delete.execute(params![term, row.place])?;
        }
        insert_terms(conn, row.place, &terms)?;
    }
    Ok(())
}

/// The values of an entry's row.
#[derive(Debug)]
pub(super) struct EntryRow<'e> {
    pub(super) place: Place,
    pub(super) id: EntryId,
    pub(super) page: Place,
    pub(super) kind: EntryKind,
    pub(super) version: u32,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) created_seq: Seq,
    pub(super) updated_seq: Seq,
    pub(super) fields: &'e EntryFields,
    pub(super) fields_json: &'e str,
}

impl<'e> EntryRow<'e> {
    /// The row of `entry` in its current state.
    pub(super) fn of(entry: &'e Entry, place: Place, page: Place, fields_json: &'e str) -> Self {
        Self {
            place,
            id: entry.id,
            page,
            kind: entry.kind,
            version: entry.version,
            created_at: entry.created_at,
            updated_at: entry.updated_at,
            created_seq: entry.created_seq,
            updated_seq: entry.updated_seq,
            fields: &entry.fields,
            fields_json,
        }
    }
}

/// The columns by which lists filter: pinned, expires_at, superseded, confidence.
pub(super) fn filters(fields: &EntryFields) -> (bool, Option<i64>, bool, Option<f64>) {
    (
        fields.pin_rank.is_some(),
        fields.lifetime.expires_at().map(Timestamp::as_nanos),
        fields.superseded_by.is_some(),
        fields.confidence.map(folio_memory::Confidence::value),
    )
}

/// Whether the columns by which lists filter match `entry`.
pub(super) fn has_columns(conn: &Connection, place: Place, entry: &Entry) -> Result<bool, Failure> {
    let sql = "SELECT count(*) FROM entry WHERE place = ?1 AND id = ?2 AND kind = ?3 AND type IS ?4 AND status = ?5
               AND owner = ?6 AND pinned = ?7 AND expires_at IS ?8 AND superseded = ?9 AND confidence IS ?10";
    let fields = &entry.fields;
    let (pinned, expires_at, superseded, confidence) = filters(fields);
    let found: i64 = conn.prepare_cached(sql)?.query_row(
        params![
            place,
            entry.id.to_bytes(),
            entry.kind.as_str(),
            fields.type_name,
            fields.status.as_str(),
            fields.owner.as_str(),
            pinned,
            expires_at,
            superseded,
            confidence,
        ],
        |row| row.get(0),
    )?;
    Ok(found == 1)
}

/// Whether the entry at `place` can be found by `term`.
pub(super) fn is_found_by(conn: &Connection, place: Place, term: &str) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM entry_term WHERE term = ?1 AND entry = ?2)";
    Ok(conn
        .prepare_cached(sql)?
        .query_row(params![term, place], |row| row.get(0))?)
}

/// Whether some entry of `space` can be found by `term`.
pub(super) fn is_any_found_by(conn: &Connection, space: SpaceId, term: &str) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM entry_term WHERE term = ?1 AND entry BETWEEN ?2 AND ?3)";
    let values = params![term, Place::start(space), Place::end(space)];
    Ok(conn.prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
}

/// The number of the newest entry of `space`; zero if there is none.
pub(super) fn last_number(conn: &Connection, space: SpaceId) -> Result<u64, Failure> {
    let sql = "SELECT max(place) FROM entry WHERE place BETWEEN ?1 AND ?2";
    let last: Option<Place> = conn
        .prepare_cached(sql)?
        .query_row(params![Place::start(space), Place::end(space)], |row| row.get(0))?;
    Ok(last.map_or(0, Place::number))
}

/// The number of the last entry that existed at commit `seq`; zero if there was none.
///
/// Numbers are assigned in the order of commits, so a binary search finds it.
pub(super) fn last_at(conn: &Connection, space: SpaceId, seq: Seq) -> Result<u64, Failure> {
    let sql = "SELECT place, created_seq FROM entry WHERE place BETWEEN ?1 AND ?2 ORDER BY place LIMIT 1";
    let mut next = conn.prepare_cached(sql)?;
    let (mut lower, mut upper) = (0, last_number(conn, space)? + 1);
    while lower + 1 < upper {
        let middle = Place::of(space, lower + (upper - lower) / 2);
        let found = next
            .query_row(params![middle, Place::of(space, upper - 1)], |row| {
                Ok((row.get::<_, Place>(0)?.number(), from_column(row.get(1)?)))
            })
            .optional()?;
        match found {
            Some((number, created_seq)) if created_seq <= seq.0 => lower = number,
            _ => upper = middle.number(),
        }
    }
    Ok(lower)
}

/// Whether `space` has fewer than `count` entries that are memory in their own right, not written by runs on their
/// pages.
pub(super) fn has_less_memory_than(conn: &Connection, space: SpaceId, count: u64) -> Result<bool, Failure> {
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM entry INDEXED BY entry_list WHERE kind IN ({}) AND page BETWEEN ?1 AND ?2
         AND {IS_MEMORY_SQL} LIMIT ?3)",
        memory_kinds()
    );
    let found: i64 = conn.prepare_cached(&sql)?.query_row(
        params![Place::start(space), Place::end(space), to_column(count)],
        |row| row.get(0),
    )?;
    Ok(from_column(found) < count)
}

/// The places of the entries that changed after commit `seq`, without those added since; only those that are memory in
/// their own right, not written by runs on their pages.
pub(super) fn changed_after(conn: &Connection, space: SpaceId, seq: Seq) -> Result<Vec<Place>, Failure> {
    let sql = format!(
        "SELECT place FROM entry INDEXED BY entry_changed WHERE space = ?1 AND updated_seq > ?2
         AND version > 1 AND {IS_MEMORY_SQL} AND created_seq <= ?2"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let places = statement.query_map(params![space, to_column(seq.0)], |row| row.get(0))?;
    Ok(places.collect::<Result<_, _>>()?)
}

/// The same for the entries between two places, in order, read in the order of places.
pub(super) fn changed_between(conn: &Connection, range: (Place, Place), seq: Seq) -> Result<Vec<Place>, Failure> {
    let sql = format!(
        "SELECT place FROM entry NOT INDEXED WHERE place BETWEEN ?1 AND ?2 AND updated_seq > ?3
         AND version > 1 AND {IS_MEMORY_SQL} AND created_seq <= ?3 ORDER BY place"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let places = statement.query_map(params![range.0, range.1, to_column(seq.0)], |row| row.get(0))?;
    Ok(places.collect::<Result<_, _>>()?)
}

/// Adds the terms for values in contexts to entries that were written before such terms existed.
pub(super) fn add_context_terms(conn: &Connection) -> Result<(), Failure> {
    let mut statement = conn.prepare("SELECT place, fields FROM entry WHERE fields LIKE '%\"context\":%'")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let place: Place = row.get(0)?;
        let fields: EntryFields = serde_json::from_str(row.get_ref(1)?.as_str().unwrap_or_default())
            .map_err(|error| damaged(&format!("entry {}", place.number()), error))?;
        insert_terms(conn, place, &terms_of(&fields))?;
    }
    Ok(())
}

fn insert_terms(conn: &Connection, place: Place, terms: &[String]) -> Result<(), Failure> {
    if terms.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO entry_term (term, entry) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    let mut insert = conn.prepare_cached(sql)?;
    for term in terms {
        insert.execute(params![term, place])?;
    }
    Ok(())
}

fn one(conn: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<Option<Entry>, Failure> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(from_row).transpose()
}

/// Reads [`COLUMNS`].
pub(super) fn from_row(row: &Row<'_>) -> Result<Entry, Failure> {
    let handle = EntryHandle(row.get::<_, Place>(0)?.number());
    let name = || format!("entry {handle}");
    let kind = row.get_ref(3)?.as_str().ok().and_then(EntryKind::parse);
    let fields = row.get_ref(9)?.as_str().map_err(|error| damaged(&name(), error))?;
    let mut fields: EntryFields = serde_json::from_str(fields).map_err(|error| damaged(&name(), error))?;
    if let Some(body) = row
        .get_ref(10)?
        .as_blob_or_null()
        .map_err(|error| damaged(&name(), error))?
    {
        fields.body = packed::unpack(body).map_err(|error| damaged(&name(), error))?;
    }
    Ok(Entry {
        id: EntryId::from_bytes(row.get(1)?),
        handle,
        page: PageId::from_bytes(row.get(2)?),
        kind: kind.ok_or_else(|| damaged(&name(), "its kind is unknown"))?,
        version: row.get(4)?,
        created_at: Timestamp::from_nanos(row.get(5)?),
        updated_at: Timestamp::from_nanos(row.get(6)?),
        created_seq: Seq(from_column(row.get(7)?)),
        updated_seq: Seq(from_column(row.get(8)?)),
        fields,
    })
}

/// Writes the fields of the entry at `place` without its body, which is packed.
pub(super) fn set_fields(conn: &Connection, place: Place, fields_json: &str) -> Result<(), Failure> {
    let sql = "UPDATE entry SET fields = ?2 WHERE place = ?1";
    conn.prepare_cached(sql)?.execute(params![place, fields_json])?;
    Ok(())
}

/// Removes the row of a tombstone, and the rows that refer to it.
pub(super) fn remove(conn: &Connection, place: Place) -> Result<(), Failure> {
    conn.prepare_cached("DELETE FROM entry WHERE place = ?1")?
        .execute([place])?;
    conn.prepare_cached("DELETE FROM touch WHERE what = 'e' AND place = ?1")?
        .execute([place])?;
    text::remove(conn, place)
}
