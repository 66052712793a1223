//! The policy of each space: one row, derived from the log.

use folio_memory::{KeptPolicy, Seq};
use rusqlite::{Connection, OptionalExtension, params};

use super::error::{Failure, damaged};
use super::place::{SpaceId, from_column, to_column};
use crate::error::StoreError;

/// The policy of `space`; that of a new space if none has been set.
pub(super) fn read(conn: &Connection, space: Option<SpaceId>) -> Result<KeptPolicy, Failure> {
    Ok(read_newer(conn, space, 0)?.unwrap_or_default())
}

/// The policy of `space` if its version is above `known`. Otherwise its document is not read: it may have a thousand
/// types, and somebody asks for every single change.
pub(super) fn read_newer(conn: &Connection, space: Option<SpaceId>, known: u32) -> Result<Option<KeptPolicy>, Failure> {
    let Some(space) = space else { return Ok(None) };
    let sql = "SELECT version, changed_seq, policy FROM policy WHERE space = ?1 AND version > ?2";
    let row = conn.prepare_cached(sql)?.query_row(params![space, known], |row| {
        Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
    });
    let Some((version, changed_seq, policy)) = row.optional()? else {
        return Ok(None);
    };
    Ok(Some(KeptPolicy {
        version,
        changed_seq: Seq(from_column(changed_seq)),
        policy: serde_json::from_str(&policy).map_err(|error| damaged("the policy of a space", error))?,
    }))
}

/// The version of the policy of `space`; zero if none has been set.
pub(super) fn version(conn: &Connection, space: SpaceId) -> Result<u32, Failure> {
    let sql = "SELECT version FROM policy WHERE space = ?1";
    let version = conn.prepare_cached(sql)?.query_row([space], |row| row.get(0));
    Ok(version.optional()?.unwrap_or(0))
}

/// Writes the row of `space`.
pub(super) fn write(conn: &Connection, space: SpaceId, kept: &KeptPolicy) -> Result<(), Failure> {
    let policy = serde_json::to_string(&kept.policy)
        .map_err(|error| StoreError::Invalid(format!("the policy cannot be written as JSON: {error}")))?;
    let sql = "INSERT INTO policy (space, version, changed_seq, policy) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT (space) DO UPDATE SET version = ?2, changed_seq = ?3, policy = ?4";
    let row = params![space, kept.version, to_column(kept.changed_seq.0), policy];
    conn.prepare_cached(sql)?.execute(row)?;
    Ok(())
}
