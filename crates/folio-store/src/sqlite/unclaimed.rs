//! Bodies that came before whatever names them. A long text goes by in pieces, and only behind the last one there is an entry
//! for it; if its writer ends in between, nothing ever names the pieces, and they are given up in time.

use folio_memory::Timestamp;
use rusqlite::{Connection, params};

use super::blob;
use super::error::Failure;
use super::place::SpaceId;
use crate::body::parse_hash;
use crate::plan::{brings_only, named};
use crate::prepare::Prepared;

/// Bodies that are given up at a time: with a piece of a mebibyte each, a few milliseconds.
const AT_A_TIME: u32 = 32;

/// Keeps the bodies of `commit`, which was made at `at`, and notes which of all bodies have a name now.
pub(super) fn keep(conn: &Connection, space: SpaceId, commit: &Prepared, at: Timestamp) -> Result<(), Failure> {
    let is_ahead = brings_only(commit);
    for body in &commit.blobs {
        let is_new = blob::insert(conn, space, body)?;
        if is_new && is_ahead {
            let sql = "INSERT OR REPLACE INTO unclaimed (space, hash, at) VALUES (?1, ?2, ?3)";
            conn.prepare_cached(sql)?
                .execute(params![space, body.hash, at.as_nanos()])?;
        } else if is_ahead {
            // It comes once more, for somebody who has yet to name it.
            let sql = "UPDATE unclaimed SET at = ?3 WHERE space = ?1 AND hash = ?2";
            conn.prepare_cached(sql)?
                .execute(params![space, body.hash, at.as_nanos()])?;
        } else {
            forget(conn, space, &body.hash)?;
        }
    }
    for hash in named(commit).filter_map(|hash| parse_hash(hash)) {
        forget(conn, space, &hash)?;
    }
    Ok(())
}

/// Does not look at the body `hash` any more: it has a name, or is gone.
pub(super) fn forget(conn: &Connection, space: SpaceId, hash: &[u8; 32]) -> Result<(), Failure> {
    let sql = "DELETE FROM unclaimed WHERE space = ?1 AND hash = ?2";
    conn.prepare_cached(sql)?.execute(params![space, hash])?;
    Ok(())
}

/// Gives up bodies that came at `until` or before and that nothing names; how many, and whether there may be more.
pub(super) fn give_up(conn: &Connection, space: SpaceId, until: Timestamp) -> Result<(u64, bool), Failure> {
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
