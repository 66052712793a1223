//! Whether the write-ahead log beside a file belongs to it.
//!
//! SQLite reads the log that lies beside a file as part of it, whichever file it was written for: nothing in the log
//! tells. So a file that was copied over a store that had been killed would show what the other store contained, and be
//! overwritten with it. But a log of commits only grows: what the file alone says of them has to be there with the log,
//! too.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use super::error::{FOREIGN_LOG, Failure};
use super::open::{has_log, immutable_uri, made_at};
use super::place::Place;
use crate::error::StoreError;

/// How many commits at each end of the log are compared.
const COMPARED: u32 = 4;
/// How long after a contradiction both are read again: another process may be moving the log into the file.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Refuses a `file` whose commits are other ones than those that `conn` finds in it together with the log beside it.
/// Until that is known, closing `conn` moves nothing of the log into the file.
pub(super) fn refuse(conn: &Connection, file: &Path, location: &str) -> Result<(), Failure> {
    let file = made_at(file);
    if !has_log(&file) {
        return Ok(());
    }
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let contradicts = || commits_alone(&file).is_ok_and(|commits| contradict(&commits, conn).unwrap_or(false));
    if contradicts() {
        #[expect(
            clippy::disallowed_methods,
            reason = "a store is opened on a thread that may wait, and this is rare"
        )]
        std::thread::sleep(LOOK_AGAIN);
        if contradicts() {
            return Err(StoreError::Corrupt {
                location: location.to_owned(),
                reason: FOREIGN_LOG.to_owned(),
                source: None,
            }
            .into());
        }
    }
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(())
}

/// The first and the last commits in `file` without the log beside it, in order, each with its time. Fails if the file
/// alone is not whole, which is no damage.
fn commits_alone(file: &Path) -> rusqlite::Result<Vec<(Place, i64)>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(immutable_uri(file), flags)?;
    let sql = "SELECT * FROM (SELECT place, at FROM log ORDER BY place LIMIT ?1)
               UNION SELECT * FROM (SELECT place, at FROM log ORDER BY place DESC LIMIT ?1) ORDER BY 1";
    let mut statement = conn.prepare(sql)?;
    let commits = statement.query_map([COMPARED], |row| Ok((row.get(0)?, row.get(1)?)))?;
    commits.collect()
}

/// Whether `conn` finds other commits in the places of `commits`, or fewer. Commits of which nothing is left may have
/// gone meanwhile, but never the last one of a space.
fn contradict(commits: &[(Place, i64)], conn: &Connection) -> rusqlite::Result<bool> {
    let mut statement = conn.prepare("SELECT at FROM log WHERE place = ?1")?;
    for (place, at) in commits {
        let found: Option<i64> = statement.query_row([place], |row| row.get(0)).optional()?;
        if found.is_some_and(|found| found != *at) {
            return Ok(true);
        }
    }
    let Some((last, _)) = commits.last() else {
        return Ok(false);
    };
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM log WHERE place BETWEEN ?1 AND ?2)";
    conn.query_row(sql, params![last, Place::end(last.space())], |row| row.get(0))
}
