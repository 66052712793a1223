//! Rows of links.

use std::collections::HashSet;

use folio_memory::{EntryId, Link, Relation};
use rusqlite::{Connection, params};

use super::error::{Failure, damaged};
use super::place::SpaceId;

/// Stores `link`, unless it is there already.
pub(super) fn insert(conn: &Connection, space: SpaceId, link: &Link) -> Result<(), Failure> {
    let sql = "INSERT INTO link (space, src, rel, dst) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    conn.prepare_cached(sql)?
        .execute(params![space, link.src, link.rel.as_str(), link.dst])?;
    Ok(())
}

/// The links that begin or end at `end`, sorted.
pub(super) fn list(conn: &Connection, space: Option<SpaceId>, end: &str) -> Result<Vec<Link>, Failure> {
    let sql = "SELECT src, rel, dst FROM link WHERE space = ?1 AND src = ?2
               UNION SELECT src, rel, dst FROM link WHERE space = ?1 AND dst = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![space, end])?;
    let mut links = Vec::new();
    while let Some(row) = rows.next()? {
        let rel: String = row.get(1)?;
        let rel = Relation::parse(&rel).ok_or_else(|| damaged("a link", format!("the relation {rel:?} is unknown")))?;
        links.push(Link {
            src: row.get(0)?,
            rel,
            dst: row.get(2)?,
        });
    }
    links.sort();
    Ok(links)
}

/// The entries to which links of the relation `rel` lead from the entry `id`.
pub(super) fn led_to(conn: &Connection, space: SpaceId, rel: Relation, id: EntryId) -> Result<Vec<EntryId>, Failure> {
    let sql = "SELECT dst FROM link WHERE space = ?1 AND src = ?2 AND rel = ?3";
    ends(conn, sql, space, rel, id)
}

/// The entries from which links of the relation `rel` lead to the entry `id`.
pub(super) fn leading_to(
    conn: &Connection,
    space: SpaceId,
    rel: Relation,
    id: EntryId,
) -> Result<Vec<EntryId>, Failure> {
    let sql = "SELECT src FROM link WHERE space = ?1 AND dst = ?2 AND rel = ?3";
    ends(conn, sql, space, rel, id)
}

fn ends(conn: &Connection, sql: &str, space: SpaceId, rel: Relation, id: EntryId) -> Result<Vec<EntryId>, Failure> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![space, id.to_string(), rel.as_str()])?;
    let mut ends = Vec::new();
    while let Some(row) = rows.next()? {
        ends.extend(row.get::<_, String>(0)?.parse::<EntryId>().ok());
    }
    Ok(ends)
}

/// Those of `links` that exist.
pub(super) fn kept(conn: &Connection, space: Option<SpaceId>, links: Vec<Link>) -> Result<HashSet<Link>, Failure> {
    let Some(space) = space else { return Ok(HashSet::new()) };
    let sql = "SELECT 1 FROM link WHERE space = ?1 AND src = ?2 AND rel = ?3 AND dst = ?4";
    let mut statement = conn.prepare_cached(sql)?;
    let mut kept = HashSet::new();
    for link in links {
        if statement.exists(params![space, link.src, link.rel.as_str(), link.dst])? {
            kept.insert(link);
        }
    }
    Ok(kept)
}
