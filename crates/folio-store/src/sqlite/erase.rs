//! Rewriting the log: the content of entries is taken out of every commit that added or changed them.

use std::collections::BTreeSet;

use folio_memory::keeping::Eraser;
use rusqlite::{Connection, params};

use super::error::{Failure, damaged};
use super::place::{Place, SpaceId};
use super::{blob, rewrite, text, trace};
use crate::body::parse_hash;
use crate::fold::{self, Rewritten};
use crate::plan::{Bodies, Gone};

/// Makes what is deleted from now on be overwritten at once, in free space too.
pub(super) fn overwrite_deleted(conn: &Connection, overwrite: bool) -> Result<(), Failure> {
    // FAST overwrites what lies on pages that are written anyway, and costs nothing.
    let how = if overwrite { "ON" } else { "FAST" };
    Ok(conn.query_row(&format!("PRAGMA secure_delete = {how}"), [], |_| Ok(()))?)
}

/// Takes the content of `gone` out of the log of `space`, and out of the bodies that only they referred to.
pub(super) fn take_out(conn: &Connection, space: SpaceId, gone: &[Gone]) -> Result<(), Failure> {
    let mut commits = BTreeSet::new();
    for entry in gone {
        commits.insert(entry.created);
        commits.extend(rewrite::touches(conn, entry.place)?);
    }
    let mut eraser = Eraser::of(gone.iter().map(|entry| entry.id));
    let mut bodies = BTreeSet::new();
    for seq in commits {
        let place = Place::of(space, seq.0);
        let Some(text) = rewrite::record_text(conn, place)? else {
            continue;
        };
        let mut record: Rewritten =
            serde_json::from_str(&text).map_err(|error| damaged(&format!("commit {seq}"), error))?;
        let mut is_changed = false;
        for change in &mut record.changes {
            is_changed |= eraser.clean(change);
        }
        is_changed |= record.forget_reason();
        if is_changed {
            record.forget_request();
            let rest = fold::record_json(&record)?;
            bodies.extend(fold::hashes_in(&text).difference(&fold::hashes_in(&rest)).cloned());
            rewrite::rewrite(conn, place, &rest)?;
        }
    }
    for entry in gone {
        trace::forget_entry(conn, space, entry.id)?;
        text::remove(conn, entry.place)?;
    }
    for hash in unnamed(conn, space, bodies)? {
        if let Some(bytes) = parse_hash(&hash) {
            blob::delete(conn, space, &bytes)?;
        }
    }
    Ok(())
}

/// Those of `bodies` that no commit of `space` names. Looks through the whole log, once for all of them, which only what had a body costs.
fn unnamed(conn: &Connection, space: SpaceId, bodies: BTreeSet<String>) -> Result<BTreeSet<String>, Failure> {
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
