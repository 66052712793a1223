//! Turns a copy into a store, and checks a copy.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::backup::{Unfinished, check_name_is_free, is_there, unavailable};
use super::error::{Failure, damaged, explained, is_damaged_file};
use super::migrate::{self, MIGRATIONS};
use super::open::{Target, check_length, make_folders, read_only_uri, set_up, with_suffix};
use super::{busy, check, foreign_log, token};
use crate::error::StoreError;
use crate::store::Checkup;

/// How thoroughly a copy is checked before it becomes a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Everything is compared with the log, as the doctor does.
    AtEverything,
    /// Only the integrity of the pages is checked.
    AtPages,
}

/// The outcome of restoring a copy.
#[derive(Debug)]
pub enum Restored {
    /// The copy is a store now.
    Done {
        /// The new path of the store that was there before.
        replaced: Option<PathBuf>,
        /// What was checked; `None` if only the pages were.
        checkup: Option<Checkup>,
        /// How many tokens are no longer valid although the copy says so, because they were revoked in the store that
        /// was replaced. `None` if there was no such store, or it could not be read.
        revoked: Option<usize>,
    },
    /// The copy is damaged, and nothing was changed.
    Damaged(Checkup),
}

/// Creates a store at `to` from the copy at `from`, or from a store that is in use there. If what is at `to` may be
/// `replaced`, it gets another name, but only once the copy is complete and has been checked, and what was revoked
/// there stays revoked.
///
/// # Errors
///
/// `NotFound` if there is nothing at `from`; `Invalid` if that is not a store of this program, or if something at `to`,
/// or left behind beside it, may not be replaced; `Corrupt` if the pages of the copy are damaged; `Unavailable`, also
/// if a process has `to` open.
pub fn restore(from: &Path, to: &Path, replaced: bool, look: Look) -> Result<Restored, StoreError> {
    let location = from.display().to_string();
    if !from.exists() {
        return Err(StoreError::NotFound {
            what: "file",
            name: location,
        });
    }
    for path in [from, to] {
        if path.is_dir() {
            return Err(StoreError::Invalid(format!(
                "{} is a folder, not a file",
                path.display()
            )));
        }
    }
    if matches!((from.canonicalize(), to.canonicalize()), (Ok(from), Ok(to)) if from == to) {
        return Err(StoreError::Invalid(format!("{location} cannot replace itself")));
    }
    // A name that leads to the store stays; what it leads to is replaced.
    let followed = if to.is_symlink() { to.canonicalize().ok() } else { None };
    let to = followed.as_deref().unwrap_or(to);
    let done = checked(from, &location).and_then(|conn| {
        if let Some(folder) = to.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            make_folders(folder).map_err(|error| unavailable("create", folder, error))?;
        }
        let is_new = !replaced || check_name_is_free(to).is_ok();
        if is_new {
            // Checked first, because copying may take long.
            check_name_is_free(to)?;
        }
        let lock = if is_new { None } else { lock_exclusively(to)? };
        let copy = Unfinished::of(&conn, to)?;
        // A store that cannot be read may be replaced all the same.
        let revocations = lock.as_ref().and_then(|locked| token::revocations(locked).ok());
        let (checkup, revoked) = made_ready(&copy, &location, look, revocations.as_deref())?;
        let checkup = match checkup {
            Some(checkup) if !checkup.problems.is_empty() => return Ok(Restored::Damaged(checkup)),
            checkup => checkup,
        };
        let replaced = match is_new {
            false => Some(copy.take_place(to)?),
            true if copy.take_name(to)? => None,
            true => return Err(is_there(to)),
        };
        Ok(Restored::Done {
            replaced,
            checkup,
            revoked,
        })
    });
    done.map_err(|failure| failure.into_error("restore", &location))
}

/// Checks everything in the copy at `path`, which this version has made, as the doctor does.
///
/// # Errors
///
/// `Unavailable`, or what is wrong with the file. Other damage is an answer.
pub fn look_over(path: &Path) -> Result<Checkup, StoreError> {
    let report = to_read(path).and_then(|conn| check::check(&conn));
    report.map_err(|failure| failure.into_error("look over", &path.display().to_string()))
}

/// Checks a copy that has no name yet, in the newest format, and revokes the tokens of `revocations` in it. Returns
/// what was found, and how many tokens were revoked. The copy is on the disk in the end.
fn made_ready(
    copy: &Unfinished,
    location: &str,
    look: Look,
    revocations: Option<&[token::Revocation]>,
) -> Result<(Option<Checkup>, Option<usize>), Failure> {
    let mut conn = Connection::open_with_flags(&copy.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set_up(&mut conn)?;
    // Nobody else knows of the copy: if this is interrupted, it is thrown away.
    conn.execute_batch("PRAGMA journal_mode = memory; PRAGMA synchronous = off; PRAGMA secure_delete = fast")?;
    let checkup = match look {
        Look::AtPages => None,
        Look::AtEverything => {
            let found = migrate::identify(&conn, location, MIGRATIONS)?;
            // The copy from which it is made stays unchanged.
            migrate::bring_up_to_date(&conn, &Target::of_no_file(location), found, MIGRATIONS)?;
            Some(check::check(&conn)?)
        }
    };
    let revoked = revocations.map(|list| token::revoke_each(&conn, list)).transpose()?;
    drop(conn);
    let synced = std::fs::File::open(&copy.path).and_then(|file| file.sync_all());
    synced.map_err(|error| unavailable("write to", &copy.path, error))?;
    Ok((checkup, revoked))
}

/// A connection to the copy at `from` that only reads.
fn to_read(from: &Path) -> Result<Connection, Failure> {
    let path = std::path::absolute(from).unwrap_or_else(|_| from.to_owned());
    // Reading a copy must not leave anything beside it.
    let name = if with_suffix(&path, "-wal").exists() || with_suffix(&path, "-shm").exists() {
        path
    } else {
        read_only_uri(&path)
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let mut conn = Connection::open_with_flags(name, flags)?;
    set_up(&mut conn)?;
    Ok(conn)
}

/// A connection to the store at `from`, whose pages were checked.
fn checked(from: &Path, location: &str) -> Result<Connection, Failure> {
    let conn = to_read(from)?;
    check_length(from, location)?;
    foreign_log::refuse(&conn, from, location)?;
    if migrate::identify(&conn, location, MIGRATIONS)? == 0 {
        return Err(StoreError::Invalid(format!("{location} is empty")).into());
    }
    let found: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        return Ok(conn);
    }
    Err(damaged(location, found))
}

/// Locks the store at `path` against all others for as long as the result lives; fails if anybody has it open. `None`
/// if there is no store, or it is damaged beyond use: nobody can open that.
fn lock_exclusively(path: &Path) -> Result<Option<Connection>, Failure> {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if !whole.exists() {
        return Ok(None);
    }
    let has_it_open = || StoreError::Unavailable {
        doing: "replace",
        location: path.display().to_string(),
        reason: "another process has it open; end that process first".to_owned(),
        source: None,
    };
    let connected = Connection::open_with_flags(&whole, OpenFlags::SQLITE_OPEN_READ_WRITE).and_then(|conn| {
        // Only a connection that is alone can leave WAL mode, and this moves everything in the write-ahead log into the
        // file.
        let mode: String = conn.query_row("PRAGMA journal_mode = delete", [], |row| row.get(0))?;
        conn.execute_batch("BEGIN EXCLUSIVE")?;
        Ok((conn, mode))
    });
    match connected {
        Ok((conn, mode)) if mode == "delete" => Ok(Some(conn)),
        Ok(_) => Err(has_it_open().into()),
        Err(error) if busy::is_busy(&error) => Err(has_it_open().into()),
        Err(error) if is_damaged_file(&error) => Ok(None),
        Err(error) => Err(explained(error, "replace", &path.display().to_string()).into()),
    }
}
