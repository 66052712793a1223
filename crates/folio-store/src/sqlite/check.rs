//! Whether the file is whole, and whether its rows follow from the log.

use rusqlite::Connection;

use super::error::Failure;
use crate::store::Checkup;

/// Looks at everything.
pub(super) fn check(conn: &Connection) -> Result<Checkup, Failure> {
    let mut problems = Vec::new();
    let mut statement = conn.prepare("PRAGMA integrity_check(20)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            problems.push(line);
        }
    }
    Ok(Checkup { checked: vec!["the file".to_owned()], problems })
}
