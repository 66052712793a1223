//! What this disk can do at best: the yardstick to which benchmarks compare their own figures.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::Instant;

use super::error::Failure;
use crate::error::StoreError;

/// Measures how long each of `count` synchronisations of a small append takes in `folder`.
///
/// # Errors
///
/// `Unavailable` if the folder cannot be written.
pub fn syncs(folder: &Path, count: usize) -> Result<Vec<Duration>, StoreError> {
    let path = folder.join("yardstick.bin");
    let measure = || -> std::io::Result<Vec<Duration>> {
        let mut file = File::create(&path)?;
        (0..count)
            .map(|_| {
                file.write_all(&[7; 512])?;
                let began = Instant::now();
                file.sync_data()?;
                Ok(began.elapsed())
            })
            .collect()
    };
    measure().map_err(|error| StoreError::Unavailable {
        doing: "write to",
        location: path.display().to_string(),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    })
}

/// Measures how long each of `count` bare SQLite commits of one row of `bytes` takes, in a new file at `path`, as
/// durable as the store's own (write-ahead log, a full sync for every commit).
///
/// # Errors
///
/// `Unavailable` if the file cannot be written.
pub fn bare_commits(path: &Path, count: usize, bytes: usize) -> Result<Vec<Duration>, StoreError> {
    let measure = || -> rusqlite::Result<Vec<Duration>> {
        let conn = Connection::open(path)?;
        conn.execute_batch("PRAGMA journal_mode = wal; PRAGMA synchronous = full; CREATE TABLE log (id INTEGER PRIMARY KEY, record BLOB)")?;
        let row = vec![b'x'; bytes];
        let mut insert = conn.prepare("INSERT INTO log (record) VALUES (?1)")?;
        (0..count)
            .map(|_| {
                let began = Instant::now();
                insert.execute([&row])?;
                Ok(began.elapsed())
            })
            .collect()
    };
    measure().map_err(|error| Failure::Sql(error).into_error("write to", &path.display().to_string()))
}
