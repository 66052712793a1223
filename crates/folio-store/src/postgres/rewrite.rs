//! The only ways in which a row of the log changes after it was written: its content is erased, compressed, or, once
//! only numbers are left of it, merged with its neighbours.

use std::borrow::Cow;

use folio_memory::{RunId, Seq};
use tokio_postgres::types::ToSql;

use super::column::{get, seq};
use super::error::{Failure, damaged};
use super::session::Session;
use crate::packed;
use crate::place::to_column;

/// The content of the record column if the record is packed.
const PACKED_RECORD: &str = "{}";

/// The commits that changed entry `number` after the one that added it.
pub(super) async fn touches(session: &Session, number: u64) -> Result<Vec<Seq>, Failure> {
    let sql = "SELECT seq FROM touch WHERE space = $1 AND what = 'e' AND number = $2";
    let rows = session.query(sql, &[&session.space.0, &to_column(number)]).await?;
    rows.iter().map(|row| seq(row, 0)).collect()
}

/// Up to `limit` commits after `after` that wrote to the run with the id `id` and the number `number`, or added one of
/// its pages, in order.
pub(super) async fn commits_of_run(
    session: &Session,
    number: u64,
    id: RunId,
    after: Seq,
    limit: u32,
) -> Result<Vec<Seq>, Failure> {
    let sql = "SELECT seq FROM touch WHERE space = $1 AND what = 'r' AND number = $2 AND seq > $4
               UNION SELECT created_seq FROM page WHERE space = $1 AND run = $3 AND created_seq > $4
               ORDER BY 1 LIMIT $5";
    let id = id.to_bytes();
    let values: [&(dyn ToSql + Sync); 5] = [
        &session.space.0,
        &to_column(number),
        &id.as_slice(),
        &to_column(after.0),
        &i64::from(limit),
    ];
    let rows = session.query(sql, &values).await?;
    rows.iter().map(|row| seq(row, 0)).collect()
}

/// The record of commit `seq`, as JSON.
pub(super) async fn record_text(session: &Session, seq: Seq) -> Result<Option<String>, Failure> {
    let sql = "SELECT record, packed FROM log WHERE space = $1 AND seq = $2";
    let Some(row) = session.one(sql, &[&session.space.0, &to_column(seq.0)]).await? else {
        return Ok(None);
    };
    let text = text_of(get(&row, 0)?, get(&row, 1)?).map_err(|reason| damaged(&format!("commit {seq}"), reason))?;
    Ok(Some(text.into_owned()))
}

/// The text in the two columns of a text that may be packed.
pub(super) fn text_of<'r>(plain: &'r str, packed: Option<&'r [u8]>) -> Result<Cow<'r, str>, String> {
    match packed {
        None => Ok(plain.into()),
        Some(bytes) => packed::unpack(bytes).map(Into::into),
    }
}

/// Replaces the record of commit `seq`.
pub(super) async fn rewrite(session: &Session, seq: Seq, record: &str) -> Result<(), Failure> {
    let sql = "UPDATE log SET record = $3, packed = NULL WHERE space = $1 AND seq = $2";
    session
        .execute(sql, &[&session.space.0, &to_column(seq.0), &record])
        .await?;
    Ok(())
}

/// Stores the record of commit `seq` as `packed`.
pub(super) async fn pack(session: &Session, seq: Seq, packed: &[u8]) -> Result<(), Failure> {
    let sql = "UPDATE log SET record = $3, packed = $4 WHERE space = $1 AND seq = $2";
    session
        .execute(sql, &[&session.space.0, &to_column(seq.0), &PACKED_RECORD, &packed])
        .await?;
    Ok(())
}

/// Makes commit `seq` stand for others, too. Its key is dropped: any retry would have come long ago.
pub(super) async fn fold_into(session: &Session, seq: Seq, record: &str) -> Result<(), Failure> {
    let sql = "UPDATE log SET record = $3, packed = NULL, key = NULL WHERE space = $1 AND seq = $2";
    session
        .execute(sql, &[&session.space.0, &to_column(seq.0), &record])
        .await?;
    Ok(())
}

/// Removes the row of a commit for which another one stands.
pub(super) async fn remove(session: &Session, seq: Seq) -> Result<(), Failure> {
    let sql = "DELETE FROM log WHERE space = $1 AND seq = $2";
    session.execute(sql, &[&session.space.0, &to_column(seq.0)]).await?;
    Ok(())
}
