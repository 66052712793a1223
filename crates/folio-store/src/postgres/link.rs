//! Rows of links.

use std::collections::{HashMap, HashSet};

use folio_memory::{EntryId, Link, Relation};
use tokio_postgres::Row;

use super::column::get;
use super::error::{Failure, damaged};
use super::session::{Session, Write, values};
use crate::place::SpaceId;

/// Stores `links`, except those that are there already.
pub(super) fn insert<'l>(space: SpaceId, links: impl IntoIterator<Item = &'l Link>) -> Write {
    let (mut from, mut rels, mut to) = (Vec::new(), Vec::new(), Vec::new());
    for link in links {
        from.push(link.src.clone());
        rels.push(link.rel.as_str());
        to.push(link.dst.clone());
    }
    let sql = "INSERT INTO link (space, src, rel, dst)
               SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[]) ON CONFLICT DO NOTHING";
    Write::new(sql, values![space.0, from, rels, to])
}

/// The links that begin or end at `end`, sorted.
pub(super) async fn list(session: &Session, end: &str) -> Result<Vec<Link>, Failure> {
    // Ends are written ids, which never contain this character.
    if end.contains('\0') {
        return Ok(Vec::new());
    }
    let sql = "SELECT src, rel, dst FROM link WHERE space = $1 AND src = $2
               UNION SELECT src, rel, dst FROM link WHERE space = $1 AND dst = $2";
    let mut links = Vec::new();
    for row in session.query(sql, &[&session.space.0, &end]).await? {
        links.push(of_row(&row)?);
    }
    links.sort();
    Ok(links)
}

/// The links of the relation `rel` that lead on from `entries`, however indirectly.
pub(super) async fn leading_on(
    session: &Session,
    rel: Relation,
    entries: &[EntryId],
) -> Result<HashMap<(Relation, EntryId), Vec<EntryId>>, Failure> {
    let sql = "WITH RECURSIVE led (src, dst) AS (
                   SELECT src, dst FROM link WHERE space = $1 AND rel = $2 AND src = ANY ($3::text[])
                   UNION
                   SELECT link.src, link.dst FROM led JOIN link
                       ON link.space = $1 AND link.rel = $2 AND link.src = led.dst)
               SELECT src, dst FROM led";
    let from: Vec<String> = entries.iter().map(EntryId::to_string).collect();
    let mut leading: HashMap<_, Vec<EntryId>> = HashMap::new();
    for row in session.query(sql, &[&session.space.0, &rel.as_str(), &from]).await? {
        let (src, dst): (&str, &str) = (get(&row, 0)?, get(&row, 1)?);
        if let (Ok(src), Ok(dst)) = (src.parse(), dst.parse()) {
            leading.entry((rel, src)).or_default().push(dst);
        }
    }
    Ok(leading)
}

/// The entries from which links of the relation `rel` lead to each of `entries`.
pub(super) async fn leading_to(
    session: &Session,
    rel: Relation,
    entries: &[EntryId],
) -> Result<HashMap<EntryId, Vec<EntryId>>, Failure> {
    let sql = "SELECT src, dst FROM link WHERE space = $1 AND dst = ANY ($3::text[]) AND rel = $2";
    let ids: Vec<String> = entries.iter().map(EntryId::to_string).collect();
    let mut leading: HashMap<_, Vec<EntryId>> = HashMap::new();
    for row in session.query(sql, &[&session.space.0, &rel.as_str(), &ids]).await? {
        let (src, dst): (&str, &str) = (get(&row, 0)?, get(&row, 1)?);
        if let (Ok(src), Ok(dst)) = (src.parse(), dst.parse()) {
            leading.entry(dst).or_default().push(src);
        }
    }
    Ok(leading)
}

/// Those of `links` that exist.
pub(super) async fn kept(session: &Session, links: &[Link]) -> Result<HashSet<Link>, Failure> {
    let is_written = |link: &&Link| !link.src.contains('\0') && !link.dst.contains('\0');
    let (mut from, mut rels, mut to) = (Vec::new(), Vec::new(), Vec::new());
    for link in links.iter().filter(is_written) {
        from.push(link.src.as_str());
        rels.push(link.rel.as_str());
        to.push(link.dst.as_str());
    }
    // Each is looked up by itself, as in `looked_up`.
    let sql = "SELECT found.* FROM unnest($2::text[], $3::text[], $4::text[]) AS wanted (src, rel, dst)
               CROSS JOIN LATERAL (SELECT src, rel, dst FROM link WHERE space = $1 AND link.src = wanted.src
                   AND link.rel = wanted.rel AND link.dst = wanted.dst OFFSET 0) AS found";
    let rows = session.query(sql, &[&session.space.0, &from, &rels, &to]).await?;
    rows.iter().map(of_row).collect()
}

fn of_row(row: &Row) -> Result<Link, Failure> {
    let rel: &str = get(row, 1)?;
    let rel = Relation::parse(rel).ok_or_else(|| damaged("a link", format!("the relation {rel:?} is unknown")))?;
    Ok(Link {
        src: get(row, 0)?,
        rel,
        dst: get(row, 2)?,
    })
}
