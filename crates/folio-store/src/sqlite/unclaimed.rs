//! Bodies that arrive before anything refers to them. A long text comes in pieces, and only after the last one is there
//! an entry for it; if its writer ends in between, nothing ever refers to the pieces, and they are dropped in time.

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use folio_memory::Timestamp;
use rusqlite::{Connection, params};

use super::blob;
use super::error::Failure;
use super::place::SpaceId;
use crate::body::parse_hash;
use crate::plan::{body_hashes, brings_only};
use crate::prepare::Prepared;
use crate::rewritten::SET_ASIDE;

/// How many bodies are dropped at a time: with pieces of a mebibyte each, this takes a few milliseconds.
const AT_A_TIME: u32 = 32;

/// Stores the bodies of `commit`, which was made at `at`, and records which bodies are referred to now.
pub(super) fn keep(conn: &Connection, space: SpaceId, commit: &Prepared, at: Timestamp) -> Result<(), Failure> {
    let is_ahead = brings_only(commit);
    for body in &commit.blobs {
        let is_new = blob::insert(conn, space, body)?;
        if is_new && is_ahead {
            let sql = "INSERT OR REPLACE INTO unclaimed (space, hash, at) VALUES (?1, ?2, ?3)";
            conn.prepare_cached(sql)?
                .execute(params![space, body.hash, at.as_nanos()])?;
        } else if is_ahead {
            // The body arrives once more, from a writer that has yet to refer to it.
            let sql = "UPDATE unclaimed SET at = ?3 WHERE space = ?1 AND hash = ?2 AND at < ?4";
            conn.prepare_cached(sql)?
                .execute(params![space, body.hash, at.as_nanos(), SET_ASIDE])?;
        } else {
            forget(conn, space, &body.hash)?;
        }
    }
    for hash in body_hashes(commit).filter_map(|hash| parse_hash(hash)) {
        forget(conn, space, &hash)?;
    }
    Ok(())
}

/// Stops tracking the body `hash`: something refers to it, or it is gone.
pub(super) fn forget(conn: &Connection, space: SpaceId, hash: &[u8; 32]) -> Result<(), Failure> {
    let sql = "DELETE FROM unclaimed WHERE space = ?1 AND hash = ?2";
    conn.prepare_cached(sql)?.execute(params![space, hash])?;
    Ok(())
}

/// Sets `bodies` aside, of which it is to be found out later whether anything refers to them.
pub(super) fn set_aside(conn: &Connection, space: SpaceId, bodies: &BTreeSet<String>) -> Result<(), Failure> {
    let sql = "INSERT OR REPLACE INTO unclaimed (space, hash, at)
               SELECT space, hash, ?3 FROM blob WHERE hash = ?2 AND space = ?1";
    for hash in bodies.iter().filter_map(|hash| parse_hash(hash)) {
        conn.prepare_cached(sql)?.execute(params![space, hash, SET_ASIDE])?;
    }
    Ok(())
}

/// The bodies that were set aside.
pub(super) fn set_aside_before(conn: &Connection, space: SpaceId) -> Result<Vec<String>, Failure> {
    let sql = "SELECT hash FROM unclaimed WHERE space = ?1 AND at = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let hashes = statement.query_map(params![space, SET_ASIDE], |row| row.get::<_, [u8; 32]>(0))?;
    Ok(hashes
        .map(|hash| Ok(HEXLOWER.encode(&hash?)))
        .collect::<Result<_, rusqlite::Error>>()?)
}

/// Takes back that the body `hash` was set aside: something refers to it.
pub(super) fn keep_for_others(conn: &Connection, space: SpaceId, hash: &[u8; 32]) -> Result<(), Failure> {
    let sql = "DELETE FROM unclaimed WHERE space = ?1 AND hash = ?2 AND at = ?3";
    conn.prepare_cached(sql)?.execute(params![space, hash, SET_ASIDE])?;
    Ok(())
}

/// Drops bodies that came at `until` or earlier and to which nothing refers; returns how many, and whether there may be
/// more.
pub(super) fn drop_unclaimed(conn: &Connection, space: SpaceId, until: Timestamp) -> Result<(u64, bool), Failure> {
    let sql = "SELECT hash FROM unclaimed WHERE space = ?1 AND at <= ?2 ORDER BY at LIMIT ?3";
    let found = conn
        .prepare_cached(sql)?
        .query_map(params![space, until.as_nanos(), AT_A_TIME], |row| row.get(0))?
        .collect::<Result<Vec<[u8; 32]>, _>>()?;
    for hash in &found {
        blob::delete(conn, space, hash)?;
    }
    Ok((found.len() as u64, found.len() >= AT_A_TIME as usize))
}
