//! Rows that tell where to look for what is due: one for each thing for which an entry is watched.

use folio_memory::keeping::Watch;
use folio_memory::{EntryHandle, EntryId, Timestamp};

use super::column::{count, id, instant};
use super::entry;
use super::error::{Failure, damaged};
use super::session::Session;
use crate::place::{from_column, to_column};
pub(super) use crate::upkeep::watch_code as code;
use crate::upkeep::{WatchAnswer, WatchPlace, WatchQuery};

/// Stops watching entry `number` for `watch`.
pub(super) async fn remove(session: &Session, number: u64, watch: Watch, at: Timestamp) -> Result<(), Failure> {
    let sql = "DELETE FROM watch WHERE space = $1 AND what = $2 AND at = $3 AND number = $4";
    session
        .execute(
            sql,
            &[&session.space.0, &code(watch)?, &at.as_nanos(), &to_column(number)],
        )
        .await?;
    Ok(())
}

/// The numbers of the entries that match `query`, with their times.
pub(super) async fn numbers(session: &Session, query: &WatchQuery) -> Result<Vec<(Timestamp, u64)>, Failure> {
    let after = query
        .after
        .map_or((Timestamp::MIN, 0), |after| (after.at, after.entry.0));
    let sql = "SELECT at, number FROM watch WHERE space = $1 AND what = $2 AND (at, number) > ($3, $4) AND at <= $5
               AND since <= $6 ORDER BY at, number LIMIT $7";
    let rows = session
        .query(
            sql,
            &[
                &session.space.0,
                &code(query.what)?,
                &after.0.as_nanos(),
                &to_column(after.1),
                &query.until.as_nanos(),
                &query.idle_since.as_nanos(),
                &i64::from(query.limit),
            ],
        )
        .await?;
    rows.iter().map(|row| Ok((instant(row, 0)?, count(row, 1)?))).collect()
}

/// The entries that match `query`.
pub(super) async fn entries(session: &Session, query: &WatchQuery) -> Result<WatchAnswer, Failure> {
    let found = numbers(session, query).await?;
    let is_full = found.len() >= usize::try_from(query.limit).unwrap_or(usize::MAX);
    let next = found.last().filter(|_| is_full).map(|(at, number)| WatchPlace {
        at: *at,
        entry: EntryHandle(*number),
    });
    let numbers: Vec<u64> = found.iter().map(|(_, number)| *number).collect();
    let mut by_number: std::collections::HashMap<_, _> = entry::by_numbers(session, &numbers)
        .await?
        .into_iter()
        .map(|entry| (entry.handle.0, entry))
        .collect();
    let mut entries = Vec::with_capacity(numbers.len());
    for number in numbers {
        let missing = || damaged("a watch", format!("e{number} is not there"));
        entries.push(by_number.remove(&number).ok_or_else(missing)?);
    }
    Ok(WatchAnswer { entries, next })
}

/// Up to `limit` entries that had expired by `by` without a revision that says so, in the order in which they expired.
pub(super) async fn ended(session: &Session, by: Timestamp, limit: u32) -> Result<Vec<(EntryId, Timestamp)>, Failure> {
    let sql = "SELECT entry.id, due.at FROM (
                   (SELECT at, number FROM watch WHERE space = $1 AND what = $4 AND at <= $2 ORDER BY at, number LIMIT $3)
                   UNION ALL
                   (SELECT at, number FROM watch WHERE space = $1 AND what = $5 AND at <= $2 ORDER BY at, number LIMIT $3)
               ) AS due JOIN entry ON entry.space = $1 AND entry.number = due.number
               ORDER BY due.at, due.number LIMIT $3";
    let rows = session
        .query(
            sql,
            &[
                &session.space.0,
                &by.as_nanos(),
                &i64::from(limit),
                &code(Watch::Live)?,
                &code(Watch::Unnoted)?,
            ],
        )
        .await?;
    rows.iter()
        .map(|row| Ok((EntryId::from_bytes(id(row, 0, "an entry")?), instant(row, 1)?)))
        .collect()
}

/// The number of observations that are neither archived nor expired at `now`; counts no further than `limit`.
pub(super) async fn live(session: &Session, now: Timestamp, limit: u64) -> Result<u64, Failure> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM watch WHERE space = $1 AND what = $2 AND at > $3 LIMIT $4) AS live";
    let row = session
        .one(
            sql,
            &[
                &session.space.0,
                &code(Watch::Live)?,
                &now.as_nanos(),
                &to_column(limit),
            ],
        )
        .await?;
    row.map_or(Ok(0), |row| Ok(from_column(row.try_get(0)?)))
}
