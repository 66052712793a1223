//! Rows of entries.

use folio_memory::id::EntryRef;
use folio_memory::{Entry, EntryFields, EntryHandle, EntryId, EntryKind, PageId, Seq, Tag, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::error::{Failure, damaged, not_found};
use super::place::{Place, SpaceId, from_column, to_column};

/// What [`from_row`] reads.
pub(super) const COLUMNS: &str = "place, id, (SELECT page.id FROM page WHERE page.place = entry.page), kind, version, \
                                  created_at, updated_at, created_seq, updated_seq, fields";

/// Where the entry called `id` stands.
pub(super) fn place_of(conn: &Connection, space: SpaceId, id: EntryId) -> Result<Option<Place>, Failure> {
    let sql = "SELECT place FROM entry WHERE id = ?1 AND space = ?2";
    Ok(conn
        .prepare_cached(sql)?
        .query_row(params![id.to_bytes(), space], |row| row.get(0))
        .optional()?)
}

/// The entry called `id`.
pub(super) fn by_id(conn: &Connection, space: SpaceId, id: EntryId) -> Result<Option<Entry>, Failure> {
    one(conn, "id = ?1 AND space = ?2", params![id.to_bytes(), space])
}

/// The entry at `place`.
pub(super) fn at(conn: &Connection, place: Place) -> Result<Option<Entry>, Failure> {
    one(conn, "place = ?1", params![place])
}

/// The entry that `entry` names.
pub(super) fn read(conn: &Connection, space: Option<SpaceId>, entry: EntryRef) -> Result<Entry, Failure> {
    let missing = || not_found("entry", entry);
    let space = space.ok_or_else(missing)?;
    let found = match entry {
        EntryRef::Id(id) => by_id(conn, space, id)?,
        EntryRef::Handle(handle) => at(conn, Place::of(space, handle.0))?,
    };
    Ok(found.ok_or_else(missing)?)
}

/// Writes the row of an entry that a commit adds, and its tags.
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
    insert_tags(conn, row.place, &fields.tags)
}

/// Writes what a commit has changed of an entry whose tags were `old_tags`.
pub(super) fn update(conn: &Connection, row: &EntryRow<'_>, old_tags: &[Tag]) -> Result<(), Failure> {
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
    if old_tags != fields.tags {
        let mut delete = conn.prepare_cached("DELETE FROM entry_tag WHERE tag = ?1 AND entry = ?2")?;
        for tag in old_tags {
            delete.execute(params![tag.as_str(), row.place])?;
        }
        insert_tags(conn, row.place, &fields.tags)?;
    }
    Ok(())
}

/// What is written of an entry.
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
    /// The row of `entry` as it stands.
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

/// Whether the columns by which lists filter say what `entry` says.
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

/// Whether the entry at `place` can be found by `tag`.
pub(super) fn is_tagged(conn: &Connection, place: Place, tag: &Tag) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM entry_tag WHERE tag = ?1 AND entry = ?2)";
    Ok(conn
        .prepare_cached(sql)?
        .query_row(params![tag.as_str(), place], |row| row.get(0))?)
}

fn insert_tags(conn: &Connection, place: Place, tags: &[Tag]) -> Result<(), Failure> {
    if tags.is_empty() {
        return Ok(());
    }
    // A writer may have given a tag twice.
    let sql = "INSERT INTO entry_tag (tag, entry) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    let mut insert = conn.prepare_cached(sql)?;
    for tag in tags {
        insert.execute(params![tag.as_str(), place])?;
    }
    Ok(())
}

fn one(conn: &Connection, which: &str, values: &[&dyn ToSql]) -> Result<Option<Entry>, Failure> {
    let mut statement = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM entry WHERE {which}"))?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(from_row).transpose()
}

/// Reads [`COLUMNS`].
pub(super) fn from_row(row: &Row<'_>) -> Result<Entry, Failure> {
    let handle = EntryHandle(row.get::<_, Place>(0)?.number());
    let name = || format!("entry {handle}");
    let kind = row.get_ref(3)?.as_str().ok().and_then(EntryKind::parse);
    let fields = row.get_ref(9)?.as_str().map_err(|error| damaged(&name(), error))?;
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
        fields: serde_json::from_str(fields).map_err(|error| damaged(&name(), error))?,
    })
}
