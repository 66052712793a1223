//! Bodies, kept under the hash of their content.

use folio_memory::entry::BodyRef;
use rusqlite::{Connection, OptionalExtension, params};

use super::error::{Failure, not_found};
use super::place::{SpaceId, from_column, to_column};
use super::unclaimed;
use crate::body::{self, Packed, parse_hash, text_beginning, unpack};
use crate::commit::BlobHash;

/// Stores `blob`, unless it is there already; returns whether it is new.
pub(super) fn insert(conn: &Connection, space: SpaceId, blob: &Packed) -> Result<bool, Failure> {
    let sql = "INSERT INTO blob (space, hash, size, encoding, bytes) VALUES (?1, ?2, ?3, ?4, ?5)
               ON CONFLICT (hash, space) DO NOTHING";
    let row = params![space, blob.hash, to_column(blob.size), blob.encoding, blob.bytes];
    Ok(conn.prepare_cached(sql)?.execute(row)? > 0)
}

/// Deletes the body with the hash `hash`, if there is one.
pub(super) fn delete(conn: &Connection, space: SpaceId, hash: &[u8; 32]) -> Result<(), Failure> {
    let sql = "DELETE FROM blob WHERE hash = ?1 AND space = ?2";
    conn.prepare_cached(sql)?.execute(params![hash, space])?;
    unclaimed::forget(conn, space, hash)
}

/// Whether there is a body with the hash `hash`.
pub(super) fn is_kept(conn: &Connection, space: SpaceId, hash: &str) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM blob WHERE hash = ?1 AND space = ?2)";
    let Some(hash) = parse_hash(hash) else {
        return Ok(false);
    };
    Ok(conn
        .prepare_cached(sql)?
        .query_row(params![hash, space], |row| row.get(0))?)
}

/// The bytes of the body with the hash `hash`.
pub(super) fn read(conn: &Connection, space: Option<SpaceId>, hash: &BlobHash) -> Result<Vec<u8>, Failure> {
    let missing = || not_found("blob", hash);
    let (space, digest) = (space.ok_or_else(missing)?, parse_hash(&hash.0).ok_or_else(missing)?);
    let sql = "SELECT size, encoding, bytes FROM blob WHERE hash = ?1 AND space = ?2";
    let row = conn
        .prepare_cached(sql)?
        .query_row(params![digest, space], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?))
        })
        .optional()?;
    let (size, encoding, bytes) = row.ok_or_else(missing)?;
    unpack(&digest, from_column(size), &encoding, bytes).map_err(|why| Failure::Damaged(format!("body {hash} {why}")))
}

/// The first `max` bytes of the text kept as `text`. `None` if it is missing or damaged, which is for the doctor to
/// tell.
pub(super) fn beginning(
    conn: &Connection,
    space: SpaceId,
    text: &BodyRef,
    max: usize,
) -> Result<Option<String>, Failure> {
    let sql = "SELECT encoding, bytes FROM blob WHERE hash = ?1 AND space = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut bytes: Vec<u8> = Vec::new();
    for hash in text.hashes().filter_map(|hash| parse_hash(hash)) {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
        let stored = statement.query_row(params![hash, space], read).optional()?;
        let part = stored.and_then(|(encoding, stored)| body::beginning(&encoding, stored, max - bytes.len()));
        let Some(part) = part else {
            return Ok(None);
        };
        bytes.extend(part);
        if bytes.len() >= max {
            break;
        }
    }
    Ok(Some(text_beginning(bytes)))
}
