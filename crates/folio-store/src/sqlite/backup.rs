//! Copies of the file: of a store that is in use, and back.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::error::Failure;
use super::migrate::{self, MIGRATIONS};
use super::open::{set_up, sync_folder_of};
use crate::error::StoreError;
use crate::store::OwnerId;

/// Copies aside that are made of one file, at most.
const ASIDE_MAX: u32 = 1_000;

/// Copies all that `conn` sees into a file at `to`, which is whole and durable once it has its name. Whether it was made: what
/// is there already stays.
pub(super) fn copy(conn: &Connection, to: &Path) -> Result<bool, Failure> {
    let mut unfinished = to.to_owned().into_os_string();
    unfinished.push(format!("-{}", OwnerId::random().0));
    let unfinished = PathBuf::from(unfinished);
    let copied = copy_by(conn, &unfinished, to);
    // It has its name by now, or is of no use.
    std::fs::remove_file(&unfinished).unwrap_or_default();
    copied
}

fn copy_by(conn: &Connection, unfinished: &Path, to: &Path) -> Result<bool, Failure> {
    conn.execute("VACUUM INTO ?1", [unfinished.to_string_lossy()])?;
    std::fs::File::open(unfinished)
        .and_then(|file| file.sync_all())
        .map_err(|error| unavailable("back up to", to, error))?;
    // A link, because a renamed file would take the place of what is there.
    let is_new = match std::fs::hard_link(unfinished, to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        linked => linked
            .map(|()| true)
            .map_err(|error| unavailable("back up to", to, error))?,
    };
    sync_folder_of(to).map_err(|error| unavailable("back up to", to, error))?;
    Ok(is_new)
}

/// The same for whoever wants a file of his own.
pub(super) fn copy_anew(conn: &Connection, to: &Path) -> Result<(), Failure> {
    // Before a long time is spent on it.
    if to.exists() || !copy(conn, to)? {
        return Err(StoreError::Invalid(format!("{} is there already, and stays as it is", to.display())).into());
    }
    Ok(())
}

/// Makes a store at `to` of the copy at `from`, or of a store that is in use there. What is at `to` is moved aside if it may be
/// `replaced`; where to.
///
/// # Errors
///
/// `NotFound` if there is nothing at `from`; `Invalid` if that is no store of this program, or if something is at `to` that may
/// not be replaced; `Corrupt` if it is damaged; `Unavailable`, also
/// if a process has `to` open.
pub fn restore(from: &Path, to: &Path, replaced: bool) -> Result<Option<PathBuf>, StoreError> {
    let location = from.display().to_string();
    if !from.exists() {
        return Err(StoreError::NotFound {
            what: "file",
            name: location,
        });
    }
    let done = checked(from, &location).and_then(|conn| {
        let aside = if to.exists() && replaced {
            Some(move_aside(to)?)
        } else {
            None
        };
        copy_anew(&conn, to)?;
        Ok(aside)
    });
    done.map_err(|failure| failure.into_error("restore", &location))
}

/// A connection to the store at `from`, which is found whole.
fn checked(from: &Path, location: &str) -> Result<Connection, Failure> {
    let path = std::path::absolute(from).unwrap_or_else(|_| from.to_owned());
    let mut conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    set_up(&mut conn)?;
    if migrate::identify(&conn, location, MIGRATIONS)? == 0 {
        return Err(StoreError::Invalid(format!("{location} is empty")).into());
    }
    let found: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        return Ok(conn);
    }
    Err(super::error::damaged(location, found))
}

/// Gives the store at `path` another name, unless somebody has it open.
fn move_aside(path: &Path) -> Result<PathBuf, Failure> {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let conn = Connection::open_with_flags(&whole, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Who leaves the write-ahead log has to be alone, and takes everything that is in it into the file.
    let mode: Result<String, _> = conn.query_row("PRAGMA journal_mode = delete", [], |row| row.get(0));
    if !mode.is_ok_and(|mode| mode == "delete") {
        return Err(StoreError::Unavailable {
            doing: "replace",
            location: path.display().to_string(),
            reason: "another process has it open; end that one first".to_owned(),
            source: None,
        }
        .into());
    }
    drop(conn);
    for number in 1..=ASIDE_MAX {
        let mut aside = whole.clone().into_os_string();
        aside.push(format!(".replaced-{number}"));
        let aside = PathBuf::from(aside);
        if !aside.exists() {
            std::fs::rename(&whole, &aside).map_err(|error| unavailable("move", path, error))?;
            return Ok(aside);
        }
    }
    let reason = format!("there are {ASIDE_MAX} copies of {} already", path.display());
    Err(StoreError::Invalid(reason).into())
}

fn unavailable(doing: &'static str, path: &Path, error: io::Error) -> StoreError {
    StoreError::Unavailable {
        doing,
        location: path.display().to_string(),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    }
}
