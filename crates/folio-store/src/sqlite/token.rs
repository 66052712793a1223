//! Access tokens of servers.

use folio_memory::{Role, SpaceName, Timestamp};
use rusqlite::{Connection, Row, params};

use super::error::{Failure, damaged};
use crate::access::KeptToken;
use crate::error::StoreError;

/// The most tokens in a file, including those that are no longer valid.
const MAX_TOKENS: i64 = 10_000;

/// Stores `token`. If its id is known, only sets when that token expires and whether it is revoked.
pub(super) fn keep(conn: &Connection, token: &KeptToken) -> Result<(), Failure> {
    let count: i64 = conn.query_row("SELECT count(*) FROM token WHERE id <> ?1", [&token.id], |row| {
        row.get(0)
    })?;
    if count >= MAX_TOKENS {
        let reason = format!("there are {MAX_TOKENS} access tokens already, the most that a store can keep");
        return Err(StoreError::Invalid(reason).into());
    }
    let sql = "INSERT INTO token (id, space, role, name, hash, created_at, expires_at, revoked_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
               ON CONFLICT (id) DO UPDATE SET expires_at = ?7, revoked_at = ?8";
    let nanos = |at: Option<Timestamp>| at.map(Timestamp::as_nanos);
    conn.prepare_cached(sql)?.execute(params![
        token.id,
        token.space.as_str(),
        token.role.as_str(),
        token.name,
        token.hash,
        token.created_at.as_nanos(),
        nanos(token.expires_at),
        nanos(token.revoked_at),
    ])?;
    Ok(())
}

/// All tokens, oldest first.
pub(super) fn list(conn: &Connection) -> Result<Vec<KeptToken>, Failure> {
    let sql =
        "SELECT id, space, role, name, hash, created_at, expires_at, revoked_at FROM token ORDER BY created_at, id";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut tokens = Vec::new();
    while let Some(row) = rows.next()? {
        tokens.push(read(row)?);
    }
    Ok(tokens)
}

/// A token that was revoked, and when.
#[derive(Debug)]
pub(super) struct Revocation {
    id: String,
    at: i64,
}

/// The tokens that were revoked.
pub(super) fn revocations(conn: &Connection) -> Result<Vec<Revocation>, Failure> {
    if !has_tokens(conn)? {
        return Ok(Vec::new());
    }
    let mut statement = conn.prepare("SELECT id, revoked_at FROM token WHERE revoked_at IS NOT NULL")?;
    let rows = statement.query_map([], |row| {
        Ok(Revocation {
            id: row.get(0)?,
            at: row.get(1)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Revokes those of `revocations` that exist here and are still valid; returns how many.
pub(super) fn revoke_each(conn: &Connection, revocations: &[Revocation]) -> Result<usize, Failure> {
    if revocations.is_empty() || !has_tokens(conn)? {
        return Ok(0);
    }
    let mut statement = conn.prepare("UPDATE token SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL")?;
    let mut count = 0;
    for Revocation { id, at } in revocations {
        count += statement.execute(params![id, at])?;
    }
    Ok(count)
}

/// Whether the format of the file has tokens.
fn has_tokens(conn: &Connection) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'token')";
    Ok(conn.query_row(sql, [], |row| row.get(0))?)
}

fn read(row: &Row<'_>) -> Result<KeptToken, Failure> {
    let role: String = row.get(2)?;
    let space: String = row.get(1)?;
    let at = |column| {
        row.get::<_, Option<i64>>(column)
            .map(|nanos| nanos.map(Timestamp::from_nanos))
    };
    Ok(KeptToken {
        id: row.get(0)?,
        space: SpaceName::parse(&space).map_err(|error| damaged("the space of a token", error))?,
        role: Role::parse(&role).ok_or_else(|| damaged("the role of a token", &role))?,
        name: row.get(3)?,
        hash: row.get(4)?,
        created_at: Timestamp::from_nanos(row.get(5)?),
        expires_at: at(6)?,
        revoked_at: at(7)?,
    })
}
