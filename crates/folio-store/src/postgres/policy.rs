//! The policy of each space: one row, derived from the log.

use folio_memory::KeptPolicy;
use tokio_postgres::Row;

use super::column::{get, seq, version};
use super::error::{Failure, damaged};
use super::session::{Session, Write, values};
use crate::error::StoreError;
use crate::place::{SpaceId, to_column};

pub(super) const READ: &str = "SELECT version, changed_seq, policy FROM policy WHERE space = $1";
const READ_NEWER: &str = "SELECT version, changed_seq, policy FROM policy WHERE space = $1 AND version > $2";

/// The policy; that of a new space if none has been set.
pub(super) async fn read(session: &Session) -> Result<KeptPolicy, Failure> {
    let row = session.one(READ, &[&session.space.0]).await?;
    Ok(row.as_ref().map(kept).transpose()?.unwrap_or_default())
}

/// The policy if its version is above `known`. Otherwise its document is not read: it may have a thousand types, and
/// somebody asks for every single change.
pub(super) async fn read_newer(session: &Session, known: u32) -> Result<Option<KeptPolicy>, Failure> {
    let row = session.one(READ_NEWER, &[&session.space.0, &i64::from(known)]).await?;
    row.as_ref().map(kept).transpose()
}

fn kept(row: &Row) -> Result<KeptPolicy, Failure> {
    Ok(KeptPolicy {
        version: version(row, 0)?,
        changed_seq: seq(row, 1)?,
        policy: serde_json::from_str(get(row, 2)?).map_err(|error| damaged("the policy of a space", error))?,
    })
}

pub(super) fn write(space: SpaceId, kept: &KeptPolicy) -> Result<Write, StoreError> {
    let policy = serde_json::to_string(&kept.policy)
        .map_err(|error| StoreError::Invalid(format!("the policy cannot be written as JSON: {error}")))?;
    let sql = "INSERT INTO policy (space, version, changed_seq, policy) VALUES ($1, $2, $3, $4)
               ON CONFLICT (space) DO UPDATE SET version = $2, changed_seq = $3, policy = $4";
    let values = values![space.0, i64::from(kept.version), to_column(kept.changed_seq.0), policy];
    Ok(Write::new(sql, values))
}
