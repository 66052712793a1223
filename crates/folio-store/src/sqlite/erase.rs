//! Rewrites the log: removes the content of entries from every commit that added or changed them, that of turns from
//! those that began and ended them, and that of runs from those that wrote to them.

use std::collections::BTreeSet;

use folio_memory::keeping::Eraser;
use folio_memory::{RunId, Seq};
use rusqlite::{Connection, params};

use super::error::{Failure, damaged, not_found};
use super::place::{Place, SpaceId};
use super::{blob, page, rewrite, run, text, trace, unclaimed};
use crate::body::parse_hash;
use crate::plan::{Bodies, Erased};
use crate::rewritten::{self, CleanedRecord, RUN_PART_BYTES, RUN_PART_COMMITS};

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
        clean(conn, Place::of(space, seq.0), &mut eraser, &mut bodies)?;
    }
    for entry in &erased.entries {
        trace::forget_entry(conn, space, entry.id)?;
        text::remove(conn, entry.place)?;
    }
    for run in &erased.runs {
        trace::forget_run(conn, space, run.id)?;
        run::forget(conn, run.place)?;
    }
    delete_unreferenced(conn, space, bodies)
}

/// Removes from the log of `space` a part of what the forgotten run `id` said, beginning after commit `after`; returns
/// where the next part begins, if there is one. Which bodies go is decided with the last part.
pub(super) fn remove_run_part(
    conn: &Connection,
    space: SpaceId,
    id: RunId,
    after: Seq,
) -> Result<Option<Seq>, Failure> {
    let (place, status) = run::place_and_status(conn, space, id)?.ok_or_else(|| not_found("run", id))?;
    rewritten::must_be_forgotten(place.number(), &status)?;
    overwrite_deleted(conn, true)?;
    let mut eraser = Eraser::of_run(id);
    let mut bodies = BTreeSet::new();
    let commits = rewrite::commits_of_run(conn, place, id, after, RUN_PART_COMMITS)?;
    let is_last = commits.len() < RUN_PART_COMMITS as usize;
    let (mut next, mut bytes) = (after, 0);
    let mut commits = commits.into_iter();
    while let Some(seq) = (bytes < RUN_PART_BYTES).then(|| commits.next()).flatten() {
        bytes += clean(conn, Place::of(space, seq.0), &mut eraser, &mut bodies)?;
        next = seq;
    }
    page::erase_of_run(conn, space, id, after, next)?;
    trace::forget_run(conn, space, id)?;
    let is_over = is_last && commits.len() == 0;
    if is_over {
        bodies.extend(unclaimed::set_aside_before(conn, space)?);
        delete_unreferenced(conn, space, bodies)?;
    } else {
        unclaimed::set_aside(conn, space, &bodies)?;
    }
    overwrite_deleted(conn, false)?;
    Ok((!is_over).then_some(next))
}

/// Removes from the commit at `place` what `eraser` erases, and adds to `bodies` those that it no longer names. Returns
/// how many bytes were read.
fn clean(
    conn: &Connection,
    place: Place,
    eraser: &mut Eraser,
    bodies: &mut BTreeSet<String>,
) -> Result<usize, Failure> {
    let Some(text) = rewrite::record_text(conn, place)? else {
        return Ok(0);
    };
    let cleaned = CleanedRecord::of(&text, eraser);
    if let Some(cleaned) = cleaned.map_err(|error| damaged(&format!("commit {}", place.number()), error))? {
        let cleaned = cleaned?;
        rewrite::rewrite(conn, place, &cleaned.text)?;
        bodies.extend(cleaned.bodies);
    }
    Ok(text.len())
}

/// Deletes those of `bodies` that no commit of `space` names.
fn delete_unreferenced(conn: &Connection, space: SpaceId, bodies: BTreeSet<String>) -> Result<(), Failure> {
    let unreferenced = unreferenced_bodies(conn, space, bodies.clone())?;
    for (hash, bytes) in bodies.iter().filter_map(|hash| Some((hash, parse_hash(hash)?))) {
        if unreferenced.contains(hash) {
            blob::delete(conn, space, &bytes)?;
        } else {
            unclaimed::keep_for_others(conn, space, &bytes)?;
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
