//! Rewriting the log: the content of entries is taken out of every commit that added or changed them.

use std::collections::BTreeSet;

use folio_memory::keeping::Eraser;
use rusqlite::{Connection, params};

use super::error::{Failure, damaged};
use super::place::{Place, SpaceId};
use super::{blob, rewrite, text, trace};
use crate::body::parse_hash;
use crate::fold::{self, Rewritten};
use crate::plan::Gone;

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
    for hash in bodies {
        if let Some(bytes) = parse_hash(&hash)
            && !is_named(conn, space, &hash)?
        {
            blob::delete(conn, space, &bytes)?;
        }
    }
    Ok(())
}

/// Whether any commit of `space` names the body `hash`. Looks at the whole log, which only what had a body costs.
fn is_named(conn: &Connection, space: SpaceId, hash: &str) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM log WHERE place BETWEEN ?1 AND ?2 AND instr(record, ?3))";
    let range = params![Place::start(space), Place::end(space), hash];
    let in_plain: bool = conn.prepare_cached(sql)?.query_row(range, |row| row.get(0))?;
    if in_plain {
        return Ok(true);
    }
    let sql = "SELECT place FROM packed_log WHERE place BETWEEN ?1 AND ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![Place::start(space), Place::end(space)])?;
    while let Some(row) = rows.next()? {
        let text = rewrite::record_text(conn, row.get(0)?)?;
        if text.is_some_and(|text| text.contains(hash)) {
            return Ok(true);
        }
    }
    Ok(false)
}
