//! The format of the file: which program it belongs to, how old it is, and how it is migrated to the newest format.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::error::{Failure, damaged};
use super::open::Target;
use super::{backup, entry};
use crate::error::{StoreError, refuse_newer};

/// "Foli" in the header marks a file as ours.
const APPLICATION_ID: i64 = 0x466F_6C69;

/// A step from one format to the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    /// The SQL of the step, executed in one transaction.
    pub(super) sql: &'static str,
    /// What SQL cannot do; runs after it in the same transaction.
    pub(super) then: Option<Then>,
    /// Whether the step changes existing data, so that a copy of the file is kept.
    pub(super) changes_data: bool,
}

/// The part of a step that is code.
type Then = fn(&Connection) -> Result<(), Failure>;

/// All steps, in order. A file has format n once the first n steps are done; a published step never changes.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration {
        sql: include_str!("migrations/0001_start.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0002_policy.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0003_trace.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0004_turn.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0005_text.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0006_find.sql"),
        then: Some(entry::add_context_terms),
        changes_data: true,
    },
    Migration {
        sql: include_str!("migrations/0007_keeping.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0008_ending.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0009_one_watch.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0010_token.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0011_unclaimed.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0012_pages.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0013_kinds.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0014_written.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0015_open_turns.sql"),
        then: None,
        changes_data: false,
    },
    Migration {
        sql: include_str!("migrations/0016_trace_at.sql"),
        then: None,
        changes_data: false,
    },
];

/// The format of the file; zero for an empty one.
///
/// # Errors
///
/// `Invalid` if it belongs to another program, `TooNew` if a newer version of this one has written it.
pub(super) fn identify(conn: &Connection, location: &str, migrations: &[Migration]) -> Result<u32, Failure> {
    // In one statement, because another process may be creating the file at this moment.
    let sql = "SELECT application_id, user_version, NOT EXISTS (SELECT 1 FROM sqlite_schema)
               FROM pragma_application_id, pragma_user_version";
    let (application, found, is_empty): (i64, i64, bool) =
        conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    if application == 0 && found == 0 && is_empty {
        return Ok(0);
    }
    if application != APPLICATION_ID {
        let reason = format!("{location} is an SQLite file of another program; name another file for folio");
        return Err(StoreError::Invalid(reason).into());
    }
    let found = u32::try_from(found).map_err(|_| damaged("the format number", found))?;
    refuse_newer(found, migrations.len(), location)?;
    Ok(found)
}

/// Whether a file with format `found` has all of `migrations`.
pub(super) fn is_newest(found: u32, migrations: &[Migration]) -> bool {
    usize::try_from(found).is_ok_and(|found| found >= migrations.len())
}

/// Takes all missing steps, or none.
pub(super) fn bring_up_to_date(
    conn: &Connection,
    target: &Target,
    found: u32,
    migrations: &[Migration],
) -> Result<(), Failure> {
    let missing = |found: u32| &migrations[usize::try_from(found).unwrap_or(usize::MAX).min(migrations.len())..];
    if missing(found).is_empty() {
        return Ok(());
    }
    if found > 0
        && missing(found).iter().any(|step| step.changes_data)
        && let Some(file) = &target.file
    {
        back_up(conn, file, found)?;
    }
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let migrated = take_steps(conn, target, migrations, missing);
    match migrated {
        Ok(()) => Ok(conn.execute_batch("COMMIT")?),
        Err(failure) => {
            // The first failure is the one to report; a transaction that cannot be rolled back ends with the
            // connection.
            conn.execute_batch("ROLLBACK").unwrap_or_default();
            Err(failure)
        }
    }
}

fn take_steps<'m>(
    conn: &Connection,
    target: &Target,
    migrations: &'m [Migration],
    missing: impl Fn(u32) -> &'m [Migration],
) -> Result<(), Failure> {
    // Checked again now that no other process can write: another one may have been faster.
    let found = identify(conn, &target.location, migrations)?;
    for step in missing(found) {
        conn.execute_batch(step.sql)?;
        if let Some(then) = step.then {
            then(conn)?;
        }
    }
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", migrations.len().to_string())?;
    Ok(())
}

/// Where the copy of a file with format `found` goes.
pub(super) fn backup_path(file: &Path, found: u32) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".backup-v{found}"));
    name.into()
}

/// How the names of all copies of `file` begin.
pub(super) fn backup_prefix(file: &Path) -> String {
    format!("{}.backup-v", file.display())
}

/// Copies the current file to a place beside it. An existing copy stays, because it was made before anything was
/// changed.
fn back_up(conn: &Connection, file: &Path, found: u32) -> Result<(), Failure> {
    let backup = backup_path(file, found);
    if backup.exists() {
        return Ok(());
    }
    backup::copy(conn, &backup)?;
    Ok(())
}

#[cfg(test)]
mod tests;
