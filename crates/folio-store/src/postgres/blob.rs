//! Bodies, kept under the hash of their content.

use std::collections::HashSet;

use folio_memory::Timestamp;
use folio_memory::entry::BodyRef;

use super::column::{count, get};
use super::error::{Failure, damaged, not_found};
use super::lookup::looked_up;
use super::session::Session;
use super::unclaimed;
use crate::body::{self, Packed, parse_hash, text_beginning, unpack};
use crate::commit::BlobHash;
use crate::place::to_column;

/// Which of several bodies are stored.
pub(super) const WHICH_KEPT: &str = looked_up!("hash", "blob", "hash", "bytea");

/// Those of `hashes` under which a body is stored.
pub(super) async fn stored_hashes(session: &Session, hashes: &[[u8; 32]]) -> Result<HashSet<[u8; 32]>, Failure> {
    if hashes.is_empty() {
        return Ok(HashSet::new());
    }
    let hashes: Vec<&[u8]> = hashes.iter().map(<[u8; 32]>::as_slice).collect();
    let rows = session.query(WHICH_KEPT, &[&session.space.0, &hashes]).await?;
    rows.iter()
        .map(|row| <[u8; 32]>::try_from(get::<&[u8]>(row, 0)?).map_err(|error| damaged("a body", error)))
        .collect()
}

/// Stores `blob`, unless it is there already; returns whether it is new.
pub(super) async fn insert(session: &Session, blob: &Packed) -> Result<bool, Failure> {
    let sql =
        "INSERT INTO blob (space, hash, size, encoding, bytes) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    let hash = blob.hash.as_slice();
    let written = session
        .execute(
            sql,
            &[
                &session.space.0,
                &hash,
                &to_column(blob.size),
                &blob.encoding,
                &blob.bytes,
            ],
        )
        .await?;
    Ok(written > 0)
}

/// Deletes the body with the hash `hash`, if there is one.
pub(super) async fn delete(session: &Session, hash: &[u8]) -> Result<(), Failure> {
    let sql = "DELETE FROM blob WHERE space = $1 AND hash = $2";
    session.execute(sql, &[&session.space.0, &hash]).await?;
    unclaimed::forget(session, hash).await
}

/// The bytes of the body with the hash `hash`.
pub(super) async fn read(session: Option<&Session>, hash: &BlobHash) -> Result<Vec<u8>, Failure> {
    let missing = || not_found("blob", hash);
    let (session, digest) = (session.ok_or_else(missing)?, parse_hash(&hash.0).ok_or_else(missing)?);
    let sql = "SELECT size, encoding, bytes FROM blob WHERE space = $1 AND hash = $2";
    let row = session.one(sql, &[&session.space.0, &digest.as_slice()]).await?;
    let row = row.ok_or_else(missing)?;
    unpack(&digest, count(&row, 0)?, get(&row, 1)?, get(&row, 2)?)
        .map_err(|why| Failure::Damaged(format!("body {hash} {why}")))
}

/// The first `max` bytes of the text kept as `text`. `None` if it is missing or damaged, which is for the doctor to
/// tell.
pub(super) async fn beginning(session: &Session, text: &BodyRef, max: usize) -> Result<Option<String>, Failure> {
    let sql = "SELECT encoding, bytes FROM blob WHERE space = $1 AND hash = $2";
    let mut bytes: Vec<u8> = Vec::new();
    for hash in text.hashes().filter_map(|hash| parse_hash(hash)) {
        let Some(row) = session.one(sql, &[&session.space.0, &hash.as_slice()]).await? else {
            return Ok(None);
        };
        let Some(part) = body::beginning(get(&row, 0)?, get(&row, 1)?, max - bytes.len()) else {
            return Ok(None);
        };
        bytes.extend(part);
        if bytes.len() >= max {
            break;
        }
    }
    Ok(Some(text_beginning(bytes)))
}

/// Records that the body `hash` arrived at `at`, before anything refers to it.
pub(super) async fn record_arrival(session: &Session, hash: &[u8], at: Timestamp, is_new: bool) -> Result<(), Failure> {
    let sql = if is_new {
        "INSERT INTO unclaimed (space, hash, at) VALUES ($1, $2, $3) ON CONFLICT (space, hash) DO UPDATE SET at = $3"
    } else {
        // The body arrives once more, from a writer that has yet to refer to it.
        "UPDATE unclaimed SET at = $3 WHERE space = $1 AND hash = $2 AND at < 9223372036854775807"
    };
    session.execute(sql, &[&session.space.0, &hash, &at.as_nanos()]).await?;
    Ok(())
}
