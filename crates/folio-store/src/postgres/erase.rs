//! Rewrites the log: removes the content of entries from every commit that added or changed them, that of turns from
//! those that began and ended them, and that of runs from those that wrote to them.

use std::collections::BTreeSet;

use folio_memory::keeping::Eraser;
use folio_memory::{RunId, Seq};

use super::error::{Failure, damaged, not_found};
use super::session::Session;
use super::{blob, journal, page, rewrite, run, text, trace, unclaimed};
use crate::body::parse_hash;
use crate::plan::{Bodies, Erased};
use crate::rewritten::{self, CleanedRecord, RUN_PART_BYTES, RUN_PART_COMMITS};

/// Removes the content of `erased` from the log, and the bodies to which nothing else refers.
pub(super) async fn remove_content(session: &Session, erased: &Erased) -> Result<(), Failure> {
    let mut commits: BTreeSet<_> = erased.first_commits().collect();
    for entry in &erased.entries {
        commits.extend(rewrite::touches(session, entry.place.number()).await?);
    }
    let mut eraser = erased.eraser();
    let mut bodies = BTreeSet::new();
    for seq in commits {
        clean(session, seq, &mut eraser, &mut bodies).await?;
    }
    for entry in &erased.entries {
        trace::forget_entry(session, entry.id).await?;
        text::remove(session, entry.place.number()).await?;
    }
    for run in &erased.runs {
        trace::forget_run(session, run.id).await?;
        run::forget(session, run.place.number()).await?;
    }
    delete_unreferenced(session, bodies).await
}

/// Removes from the log a part of what the forgotten run `id` said, beginning after commit `after`; returns where the
/// next part begins, if there is one. Which bodies go is decided with the last part.
pub(super) async fn remove_run_part(session: Option<&Session>, id: RunId, after: Seq) -> Result<Option<Seq>, Failure> {
    let missing = || not_found("run", id);
    let session = session.ok_or_else(missing)?;
    let found = run::by_ids(session, &[id]).await?.remove(&id).ok_or_else(missing)?;
    rewritten::must_be_forgotten(found.number, &found.before)?;
    let mut eraser = Eraser::of_run(id);
    let mut bodies = BTreeSet::new();
    let commits = rewrite::commits_of_run(session, found.number, id, after, RUN_PART_COMMITS).await?;
    let is_last = commits.len() < RUN_PART_COMMITS as usize;
    let (mut next, mut bytes) = (after, 0);
    let mut commits = commits.into_iter();
    while let Some(seq) = (bytes < RUN_PART_BYTES).then(|| commits.next()).flatten() {
        bytes += clean(session, seq, &mut eraser, &mut bodies).await?;
        next = seq;
    }
    page::erase_of_run(session, id, after, next).await?;
    trace::forget_run(session, id).await?;
    let is_over = is_last && commits.len() == 0;
    if is_over {
        bodies.extend(unclaimed::set_aside_before(session).await?);
        delete_unreferenced(session, bodies).await?;
    } else {
        unclaimed::set_aside(session, &bodies).await?;
    }
    Ok((!is_over).then_some(next))
}

/// Removes from commit `seq` what `eraser` erases, and adds to `bodies` those that it no longer names. Returns how many
/// bytes were read.
async fn clean(
    session: &Session,
    seq: Seq,
    eraser: &mut Eraser,
    bodies: &mut BTreeSet<String>,
) -> Result<usize, Failure> {
    let Some(text) = rewrite::record_text(session, seq).await? else {
        return Ok(0);
    };
    let cleaned = CleanedRecord::of(&text, eraser);
    if let Some(cleaned) = cleaned.map_err(|error| damaged(&format!("commit {seq}"), error))? {
        let cleaned = cleaned?;
        rewrite::rewrite(session, seq, &cleaned.text).await?;
        bodies.extend(cleaned.bodies);
    }
    Ok(text.len())
}

/// Deletes those of `bodies` that no commit names.
async fn delete_unreferenced(session: &Session, bodies: BTreeSet<String>) -> Result<(), Failure> {
    let unreferenced = unreferenced_bodies(session, bodies.clone()).await?;
    for (hash, bytes) in bodies.iter().filter_map(|hash| Some((hash, parse_hash(hash)?))) {
        if unreferenced.contains(hash) {
            blob::delete(session, &bytes).await?;
        } else {
            unclaimed::keep_for_others(session, &bytes).await?;
        }
    }
    Ok(())
}

/// Those of `bodies` that no commit names. Searches the whole log of the space, part by part and once for all of them;
/// only needed if the erased content had bodies.
async fn unreferenced_bodies(session: &Session, bodies: BTreeSet<String>) -> Result<BTreeSet<String>, Failure> {
    let Some(mut sought) = Bodies::of(bodies) else {
        return Ok(BTreeSet::new());
    };
    let mut read = Seq(0);
    while let Some((last, texts)) = journal::texts_after(session, read).await? {
        if texts.iter().any(|text| sought.all_are_in(text)) {
            break;
        }
        read = last;
    }
    Ok(sought.missed())
}
