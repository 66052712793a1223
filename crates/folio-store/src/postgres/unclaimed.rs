//! Bodies that arrive before anything refers to them.

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use folio_memory::Timestamp;

use super::blob;
use super::column::get;
use super::error::Failure;
use super::session::Session;
use crate::body::parse_hash;
use crate::plan::{body_hashes, brings_only};
use crate::prepare::Prepared;
use crate::rewritten::SET_ASIDE;

/// How many bodies are dropped at a time: with pieces of a mebibyte each, this takes a few milliseconds.
const AT_A_TIME: u32 = 32;

/// Whether `commit` brings bodies or refers to them.
pub(super) fn is_concerned(commit: &Prepared) -> bool {
    !commit.blobs.is_empty() || body_hashes(commit).next().is_some()
}

/// Stores the bodies of `commit`, which was made at `at`, and records which bodies are referred to now.
pub(super) async fn keep(session: &Session, commit: &Prepared, at: Timestamp) -> Result<(), Failure> {
    let is_ahead = brings_only(commit);
    for body in &commit.blobs {
        let is_new = blob::insert(session, body).await?;
        if is_ahead {
            blob::record_arrival(session, &body.hash, at, is_new).await?;
        } else {
            forget(session, &body.hash).await?;
        }
    }
    for hash in body_hashes(commit).filter_map(|hash| parse_hash(hash)) {
        forget(session, &hash).await?;
    }
    Ok(())
}

/// Stops tracking the body `hash`: something refers to it, or it is gone.
pub(super) async fn forget(session: &Session, hash: &[u8]) -> Result<(), Failure> {
    let sql = "DELETE FROM unclaimed WHERE space = $1 AND hash = $2";
    session.execute(sql, &[&session.space.0, &hash]).await?;
    Ok(())
}

/// Sets `bodies` aside, of which it is to be found out later whether anything refers to them.
pub(super) async fn set_aside(session: &Session, bodies: &BTreeSet<String>) -> Result<(), Failure> {
    let hashes: Vec<Vec<u8>> = bodies
        .iter()
        .filter_map(|hash| Some(parse_hash(hash)?.to_vec()))
        .collect();
    if hashes.is_empty() {
        return Ok(());
    }
    let sql =
        "INSERT INTO unclaimed (space, hash, at) SELECT space, hash, $3 FROM blob WHERE space = $1 AND hash = ANY($2)
               ON CONFLICT (space, hash) DO UPDATE SET at = $3";
    session.execute(sql, &[&session.space.0, &hashes, &SET_ASIDE]).await?;
    Ok(())
}

/// The bodies that were set aside.
pub(super) async fn set_aside_before(session: &Session) -> Result<Vec<String>, Failure> {
    let sql = "SELECT hash FROM unclaimed WHERE space = $1 AND at = $2";
    let rows = session.query(sql, &[&session.space.0, &SET_ASIDE]).await?;
    rows.iter().map(|row| Ok(HEXLOWER.encode(get(row, 0)?))).collect()
}

/// Takes back that the body `hash` was set aside: something refers to it.
pub(super) async fn keep_for_others(session: &Session, hash: &[u8]) -> Result<(), Failure> {
    let sql = "DELETE FROM unclaimed WHERE space = $1 AND hash = $2 AND at = $3";
    session.execute(sql, &[&session.space.0, &hash, &SET_ASIDE]).await?;
    Ok(())
}

/// Drops bodies that came at `until` or earlier and to which nothing refers; returns how many, and whether there may be
/// more.
pub(super) async fn drop_unclaimed(session: &Session, until: Timestamp) -> Result<(u64, bool), Failure> {
    let sql = "SELECT hash FROM unclaimed WHERE space = $1 AND at <= $2 ORDER BY at LIMIT $3";
    let values: (_, _, _) = (session.space.0, until.as_nanos(), i64::from(AT_A_TIME));
    let rows = session.query(sql, &[&values.0, &values.1, &values.2]).await?;
    for row in &rows {
        blob::delete(session, get(row, 0)?).await?;
    }
    Ok((rows.len() as u64, rows.len() >= AT_A_TIME as usize))
}
