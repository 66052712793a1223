//! Rewrites the log: removes the content of entries from every commit that added or changed them, and that of turns from
//! those that began and ended them.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use super::error::{Failure, damaged};
use super::place::{Place, SpaceId};
use super::{blob, rewrite, text, trace};
use crate::body::parse_hash;
use crate::plan::{Bodies, Erased};
use crate::rewritten::CleanedRecord;

/// Sets whether content deleted from now on is overwritten at once, also in free space.
pub(super) fn overwrite_deleted(conn: &Connection, overwrite: bool) -> Result<(), Failure> {
    // FAST overwrites deleted content on pages that are written anyway, at no cost.
    let setting = if overwrite { "ON" } else { "FAST" };
    Ok(conn.query_row(&format!("PRAGMA secure_delete = {setting}"), [], |_| Ok(()))?)
}

/// Removes the content of `erased` from the log of `space`, and the bodies to which nothing else refers.
pub(super) fn remove_content(conn: &Connection, space: SpaceId, erased: &Erased) -> Result<(), Failure> {
    let mut commits: BTreeSet<_> = erased.first_commits().collect();
    for entry in &erased.entries {
        commits.extend(rewrite::touches(conn, entry.place)?);
    }
    let mut eraser = erased.eraser();
    let mut bodies = BTreeSet::new();
    for seq in commits {
        let place = Place::of(space, seq.0);
        let Some(text) = rewrite::record_text(conn, place)? else {
            continue;
        };
        let cleaned = CleanedRecord::of(&text, &mut eraser);
        if let Some(cleaned) = cleaned.map_err(|error| damaged(&format!("commit {seq}"), error))? {
            let cleaned = cleaned?;
            rewrite::rewrite(conn, place, &cleaned.text)?;
            bodies.extend(cleaned.bodies);
        }
    }
    for entry in &erased.entries {
        trace::forget_entry(conn, space, entry.id)?;
        text::remove(conn, entry.place)?;
    }
    for hash in unreferenced_bodies(conn, space, bodies)? {
        if let Some(bytes) = parse_hash(&hash) {
            blob::delete(conn, space, &bytes)?;
        }
    }
    Ok(())
}

/// Those of `bodies` that no commit of `space` names. Searches the whole log, once for all of them; only needed if the
/// erased content had bodies.
fn unreferenced_bodies(
    conn: &Connection,
    space: SpaceId,
    bodies: BTreeSet<String>,
) -> Result<BTreeSet<String>, Failure> {
    let Some(mut sought) = Bodies::of(bodies) else {
        return Ok(BTreeSet::new());
    };
    let sql = format!("SELECT {} FROM log WHERE place BETWEEN ?1 AND ?2", rewrite::COLUMNS);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![Place::start(space), Place::end(space)])?;
    while let Some(row) = rows.next()? {
        let text = rewrite::text_of(row.get_ref(1)?, row.get_ref(2)?);
        if sought.all_are_in(&text.map_err(|error| damaged("a commit", error))?) {
            break;
        }
    }
    Ok(sought.missed())
}
