//! Rows of links.

use folio_memory::{Link, Relation};

use super::column::get;
use super::error::{Failure, damaged};
use super::session::{Session, Write, values};
use crate::place::SpaceId;

/// Keeps `link`, unless it is there.
pub(super) fn insert(space: SpaceId, link: &Link) -> Write {
    let sql = "INSERT INTO link (space, src, rel, dst) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    Write::new(
        sql,
        values![space.0, link.src.clone(), link.rel.as_str(), link.dst.clone()],
    )
}

/// The links that begin or end at `end`, sorted.
pub(super) async fn list(session: &Session, end: &str) -> Result<Vec<Link>, Failure> {
    // Ends are written ids, which have no such character.
    if end.contains('\0') {
        return Ok(Vec::new());
    }
    let sql = "SELECT src, rel, dst FROM link WHERE space = $1 AND src = $2
               UNION SELECT src, rel, dst FROM link WHERE space = $1 AND dst = $2";
    let mut links = Vec::new();
    for row in session.query(sql, &[&session.space.0, &end]).await? {
        let rel: &str = get(&row, 1)?;
        let rel = Relation::parse(rel).ok_or_else(|| damaged("a link", format!("the relation {rel:?} is unknown")))?;
        links.push(Link {
            src: get(&row, 0)?,
            rel,
            dst: get(&row, 2)?,
        });
    }
    links.sort();
    Ok(links)
}
