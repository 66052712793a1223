//! Rewriting the log: the content of entries is taken out of every commit that added or changed them.

use std::collections::BTreeSet;

use folio_memory::keeping::Eraser;

use super::column::get;
use super::error::{Failure, damaged};
use super::session::Session;
use super::{blob, rewrite, text, trace};
use crate::body::parse_hash;
use crate::fold::{self, Rewritten};
use crate::plan::Gone;

/// Takes the content of `gone` out of the log, and out of the bodies that only they referred to.
pub(super) async fn take_out(session: &Session, gone: &[Gone]) -> Result<(), Failure> {
    let mut commits = BTreeSet::new();
    for entry in gone {
        commits.insert(entry.created);
        commits.extend(rewrite::touches(session, entry.place.number()).await?);
    }
    let mut eraser = Eraser::of(gone.iter().map(|entry| entry.id));
    let mut bodies = BTreeSet::new();
    for seq in commits {
        let Some(text) = rewrite::record_text(session, seq).await? else {
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
            rewrite::rewrite(session, seq, &rest).await?;
        }
    }
    for entry in gone {
        trace::forget_entry(session, entry.id).await?;
        text::remove(session, entry.place.number()).await?;
    }
    for hash in bodies {
        if let Some(bytes) = parse_hash(&hash)
            && !is_named(session, &hash).await?
        {
            blob::delete(session, &bytes).await?;
        }
    }
    Ok(())
}

/// Whether any commit names the body `hash`. Looks at the whole log of the space, which only what had a body costs.
async fn is_named(session: &Session, hash: &str) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM log WHERE space = $1 AND strpos(record, $2) > 0)";
    let row = session.one(sql, &[&session.space.0, &hash]).await?;
    if row.map_or(Ok(false), |row| get(&row, 0))? {
        return Ok(true);
    }
    let sql = "SELECT record, packed FROM log WHERE space = $1 AND packed IS NOT NULL";
    for row in session.query(sql, &[&session.space.0]).await? {
        let text = rewrite::text_of(get(&row, 0)?, get(&row, 1)?).map_err(|error| damaged("a commit", error))?;
        if text.contains(hash) {
            return Ok(true);
        }
    }
    Ok(false)
}
