//! Rewrites the log: removes the content of entries from every commit that added or changed them, and that of turns from
//! those that began and ended them.

use std::collections::BTreeSet;

use folio_memory::Seq;

use super::error::{Failure, damaged};
use super::session::Session;
use super::{blob, journal, rewrite, text, trace};
use crate::body::parse_hash;
use crate::plan::{Bodies, Erased};
use crate::rewritten::CleanedRecord;

/// Removes the content of `erased` from the log, and the bodies to which nothing else refers.
pub(super) async fn remove_content(session: &Session, erased: &Erased) -> Result<(), Failure> {
    let mut commits: BTreeSet<_> = erased.first_commits().collect();
    for entry in &erased.entries {
        commits.extend(rewrite::touches(session, entry.place.number()).await?);
    }
    let mut eraser = erased.eraser();
    let mut bodies = BTreeSet::new();
    for seq in commits {
        let Some(text) = rewrite::record_text(session, seq).await? else {
            continue;
        };
        let cleaned = CleanedRecord::of(&text, &mut eraser);
        if let Some(cleaned) = cleaned.map_err(|error| damaged(&format!("commit {seq}"), error))? {
            let cleaned = cleaned?;
            rewrite::rewrite(session, seq, &cleaned.text).await?;
            bodies.extend(cleaned.bodies);
        }
    }
    for entry in &erased.entries {
        trace::forget_entry(session, entry.id).await?;
        text::remove(session, entry.place.number()).await?;
    }
    for hash in unreferenced_bodies(session, bodies).await? {
        if let Some(bytes) = parse_hash(&hash) {
            blob::delete(session, &bytes).await?;
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
