//! Rows of pages.

use folio_memory::id::PageRef;
use folio_memory::page_tree::ParentOf;
use folio_memory::{Page, PageHandle, PageId, PageQuery, RunId, Seq, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::error::{Failure, damaged, not_found};
use super::place::{Place, SpaceId, from_column, to_column};
use crate::prepare::page_fields_json;

/// The place of the page with the id `id`.
pub(super) fn place_of(conn: &Connection, space: SpaceId, id: PageId) -> Result<Option<Place>, Failure> {
    let sql = "SELECT place FROM page WHERE id = ?1 AND space = ?2";
    Ok(conn
        .prepare_cached(sql)?
        .query_row(params![id.to_bytes(), space], |row| row.get(0))
        .optional()?)
}

/// The place of the page with the id `id`, and the run to which it belongs.
pub(super) fn place_and_run(
    conn: &Connection,
    space: SpaceId,
    id: PageId,
) -> Result<Option<(Place, Option<RunId>)>, Failure> {
    let sql = "SELECT place, run FROM page WHERE id = ?1 AND space = ?2";
    let found = conn
        .prepare_cached(sql)?
        .query_row(params![id.to_bytes(), space], |row| {
            Ok((row.get(0)?, row.get::<_, Option<[u8; 16]>>(1)?.map(RunId::from_bytes)))
        });
    Ok(found.optional()?)
}

/// The page with the id `id`.
pub(super) fn by_id(conn: &Connection, space: SpaceId, id: PageId) -> Result<Option<Page>, Failure> {
    one(conn, "id = ?1 AND space = ?2", params![id.to_bytes(), space])
}

/// The page at `place`.
pub(super) fn at(conn: &Connection, place: Place) -> Result<Option<Page>, Failure> {
    one(conn, "place = ?1", params![place])
}

/// The page to which `page` refers.
pub(super) fn read(conn: &Connection, space: Option<SpaceId>, page: PageRef) -> Result<Page, Failure> {
    let missing = || not_found("page", page);
    let space = space.ok_or_else(missing)?;
    let found = match page {
        PageRef::Id(id) => by_id(conn, space, id)?,
        PageRef::Handle(handle) => at(conn, Place::of(space, handle.0))?,
    };
    Ok(found.ok_or_else(missing)?)
}

/// The pages that match `query`.
pub(super) fn list(conn: &Connection, space: Option<SpaceId>, query: &PageQuery) -> Result<Vec<Page>, Failure> {
    let Some(space) = space else { return Ok(Vec::new()) };
    let Some((mut sql, mut values)) = wanted(conn, space, query)? else {
        return Ok(Vec::new());
    };
    let (comparison, order) = if query.newest_first {
        ("<", "DESC")
    } else {
        (">", "ASC")
    };
    if let Some(number) = query.after {
        sql += &format!(" AND place {comparison} ?");
        values.push(place_value(Place::of(space, number)));
    }
    values.push(i64::from(query.limit()).into());
    let mut statement = conn.prepare_cached(&format!("{SELECT} {sql} ORDER BY place {order} LIMIT ?"))?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut pages = Vec::new();
    while let Some(row) = rows.next()? {
        pages.push(from_row(row)?);
    }
    Ok(pages)
}

/// The number of pages that match `query`.
pub(super) fn count(conn: &Connection, space: Option<SpaceId>, query: &PageQuery) -> Result<u64, Failure> {
    let Some(space) = space else { return Ok(0) };
    let Some((sql, values)) = wanted(conn, space, query)? else {
        return Ok(0);
    };
    let mut statement = conn.prepare_cached(&format!("SELECT count(*) FROM page WHERE {sql}"))?;
    let count = statement.query_row(params_from_iter(values), |row| row.get(0))?;
    Ok(from_column(count))
}

/// Which page contains each page: of `root` and all pages below it or, without a root, of all pages.
pub(super) fn parents(
    conn: &Connection,
    space: Option<SpaceId>,
    root: Option<PageHandle>,
) -> Result<Vec<ParentOf>, Failure> {
    let Some(space) = space else { return Ok(Vec::new()) };
    let (sql, [from, to]) = match root {
        Some(root) => {
            let sql = "WITH RECURSIVE below (place, parent) AS (
                           SELECT place, parent FROM page WHERE place BETWEEN ?1 AND ?2
                           UNION SELECT page.place, page.parent FROM below JOIN page ON page.parent = below.place)
                       SELECT place, parent FROM below";
            (sql, [Place::of(space, root.0); 2])
        }
        None => {
            let sql = "SELECT place, parent FROM page WHERE place BETWEEN ?1 AND ?2";
            (sql, [Place::start(space), Place::end(space)])
        }
    };
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![from, to])?;
    let mut parents = Vec::new();
    while let Some(row) = rows.next()? {
        let (page, parent): (Place, Option<Place>) = (row.get(0)?, row.get(1)?);
        parents.push(ParentOf {
            page: PageHandle(page.number()),
            parent: parent.map(|parent| PageHandle(parent.number())),
        });
    }
    Ok(parents)
}

/// The filters of `query` in SQL; `None` if it refers to a page that does not exist.
fn wanted(conn: &Connection, space: SpaceId, query: &PageQuery) -> Result<Option<(String, Vec<Value>)>, Failure> {
    let mut sql = "place BETWEEN ? AND ?".to_owned();
    let mut values = vec![place_value(Place::start(space)), place_value(Place::end(space))];
    if let Some(parent) = query.parent {
        let Some(parent) = place_of(conn, space, parent)? else {
            return Ok(None);
        };
        sql += " AND parent = ?";
        values.push(place_value(parent));
    }
    if let Some(run) = query.run {
        sql += " AND run = ?";
        values.push(run.to_bytes().to_vec().into());
    }
    if let Some(thread) = &query.thread {
        sql += " AND thread = ?";
        values.push(thread.0.clone().into());
    }
    if !query.roles.is_empty() {
        sql += &format!(" AND role IN ({})", vec!["?"; query.roles.len()].join(", "));
        values.extend(query.roles.iter().map(|role| Value::from(role.as_str().to_owned())));
    }
    Ok(Some((sql, values)))
}

/// Inserts the row of a page that a commit adds.
pub(super) fn insert(
    conn: &Connection,
    place: Place,
    parent: Option<Place>,
    page: &Page,
    fields_json: &str,
) -> Result<(), Failure> {
    let sql = "INSERT INTO page (place, space, id, parent, role, run, thread, version, created_at, updated_at, created_seq, fields)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    conn.prepare_cached(sql)?.execute(params![
        place,
        place.space(),
        page.id.to_bytes(),
        parent,
        page.fields.role.as_str(),
        page.fields.run.map(RunId::to_bytes),
        page.fields.thread.as_ref().map(|thread| thread.0.as_str()),
        page.version,
        page.created_at.as_nanos(),
        page.updated_at.as_nanos(),
        to_column(page.created_seq.0),
        fields_json,
    ])?;
    Ok(())
}

/// Whether the columns by which the page at `place` is found match `page`.
pub(super) fn has_columns(conn: &Connection, place: Place, page: &Page) -> Result<bool, Failure> {
    let sql = "SELECT count(*) FROM page WHERE place = ?1 AND role = ?2 AND run IS ?3 AND thread IS ?4
               AND parent IS (SELECT place FROM page WHERE id = ?5 AND space = ?6)";
    let fields = &page.fields;
    let found: i64 = conn.prepare_cached(sql)?.query_row(
        params![
            place,
            fields.role.as_str(),
            fields.run.map(RunId::to_bytes),
            fields.thread.as_ref().map(|thread| thread.0.as_str()),
            fields.parent.map(PageId::to_bytes),
            place.space(),
        ],
        |row| row.get(0),
    )?;
    Ok(found == 1)
}

/// Updates the row of a page that a commit changed.
pub(super) fn update(conn: &Connection, space: SpaceId, page: &Page, fields_json: &str) -> Result<(), Failure> {
    let sql = "UPDATE page SET version = ?2, updated_at = ?3, fields = ?4 WHERE place = ?1";
    let place = Place::of(space, page.handle.0);
    conn.prepare_cached(sql)?
        .execute(params![place, page.version, page.updated_at.as_nanos(), fields_json])?;
    Ok(())
}

/// Erases what the pages of the run with the id `id` that commits after `after`, up to `last`, added are about.
pub(super) fn erase_of_run(conn: &Connection, space: SpaceId, id: RunId, after: Seq, last: Seq) -> Result<(), Failure> {
    let condition = "run = ?1 AND place BETWEEN ?2 AND ?3 AND created_seq > ?4 AND created_seq <= ?5";
    let mut statement = conn.prepare_cached(&format!("{SELECT} {condition}"))?;
    let (start, end) = (Place::start(space), Place::end(space));
    let mut rows = statement.query(params![
        id.to_bytes(),
        start,
        end,
        to_column(after.0),
        to_column(last.0)
    ])?;
    let mut pages = Vec::new();
    while let Some(row) = rows.next()? {
        pages.push(from_row(row)?);
    }
    for mut page in pages {
        if page.erase() {
            update(conn, space, &page, &page_fields_json(&page.fields)?)?;
        }
    }
    Ok(())
}

const SELECT: &str = "SELECT place, id, version, created_at, updated_at, created_seq, fields FROM page WHERE";

fn one(conn: &Connection, condition: &str, values: impl rusqlite::Params) -> Result<Option<Page>, Failure> {
    let mut statement = conn.prepare_cached(&format!("{SELECT} {condition}"))?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(from_row).transpose()
}

/// Reads the columns of [`SELECT`].
pub(super) fn from_row(row: &Row<'_>) -> Result<Page, Failure> {
    let place: Place = row.get(0)?;
    let handle = PageHandle(place.number());
    Ok(Page {
        id: PageId::from_bytes(row.get(1)?),
        handle,
        version: row.get(2)?,
        created_at: Timestamp::from_nanos(row.get(3)?),
        updated_at: Timestamp::from_nanos(row.get(4)?),
        created_seq: Seq(from_column(row.get(5)?)),
        fields: serde_json::from_str(
            row.get_ref(6)?
                .as_str()
                .map_err(|e| damaged(&format!("page {handle}"), e))?,
        )
        .map_err(|error| damaged(&format!("page {handle}"), error))?,
    })
}

pub(super) fn place_value(place: Place) -> Value {
    Value::Integer(place.raw())
}
