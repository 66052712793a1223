//! Turns errors of SQLite into messages that people understand.

use rusqlite::{ErrorCode, ffi};

use crate::error::StoreError;
pub(super) use crate::error::not_found;

/// Why a file with a second name is not opened.
pub(super) const OTHER_NAMES: &str = "it has another name, too (a hard link), and what is written under one name would be lost under the other; \
    keep the name that has a -wal beside it, or either if none has, and remove the others; to copy a store, use `folio backup`";

/// Why a file is not a store.
pub(super) const NO_DATABASE: &str = "it is not an SQLite file";
/// Why an empty file is not a store.
pub(super) const CUT_OFF: &str = "it is empty, but the log of a store lies beside it: if the store was renamed, put it back in place of \
    the empty file; otherwise keep that log, and restore the file from a backup";
/// Why no store is created where only the log of one exists.
pub(super) const WITHOUT_FILE: &str = "there is no such file, but its -wal is there: if the store was renamed, put it back; if it was \
    removed on purpose, end the processes that have it open and remove its -wal and -shm, too; otherwise keep them, and restore it from a backup";
/// Why a file is not opened beside which the log of another one lies.
pub(super) const FOREIGN_LOG: &str = "its -wal belongs to another file: it was left behind by a killed process when this file was put in \
    place of that one; move the -wal and the -shm away, or back to the file that they belong to";
/// What to do if the disk is full.
const DISK_FULL: &str = "the disk is full; free some space and try again";
/// What to do if a file may not become larger.
const SIZE_LIMIT: &str =
    "its files are as large as this process may make them (`ulimit -f`); raise that limit and try again";
/// What may be the reason if a write failed although the disk has room.
const NOT_WRITTEN: &str = "the disk did not take what was written: a quota may be used up, or the disk has a fault";
/// How near to the limit a file is that has reached it, in bytes: a write comes in pieces of at most a page.
const PIECE_BYTES: u64 = 64 * 1024;

/// Why a step of the embedded store failed, before the caller adds what the step belonged to.
#[derive(Debug)]
pub(super) enum Failure {
    /// The call is refused. Nothing was written for it.
    Refused(StoreError),
    /// The call is refused, and what was already written for it must be undone.
    Undone(StoreError),
    /// An error of the database.
    Sql(rusqlite::Error),
    /// Something that was read cannot be right.
    Damaged(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl Failure {
    /// The error for a caller that was `doing` something at `location`.
    pub(super) fn into_error(self, doing: &'static str, location: &str) -> StoreError {
        match self {
            Self::Refused(error) | Self::Undone(error) => error,
            Self::Sql(error) => explained(error, doing, location),
            Self::Damaged(reason) => StoreError::Corrupt {
                location: location.to_owned(),
                reason,
                source: None,
            },
        }
    }
}

/// The failure that `label` could not be read.
pub(super) fn damaged(label: &str, error: impl std::fmt::Display) -> Failure {
    Failure::Damaged(format!("{label} cannot be read: {error}"))
}

/// The failure to read `label`, which is damage if a column does not hold JSON as it must.
pub(super) fn json_or_damaged(label: &str, error: rusqlite::Error) -> Failure {
    match &error {
        rusqlite::Error::SqliteFailure(_, Some(message)) if message.contains("malformed JSON") => {
            damaged(label, message)
        }
        _ => error.into(),
    }
}

/// A copy of `error`, for another caller that it affects as well.
pub(super) fn repeated(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => rusqlite::Error::SqliteFailure(*code, message.clone()),
        other => rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ERROR), Some(other.to_string())),
    }
}

/// `error` with advice on what to do about it.
pub(super) fn explained(error: rusqlite::Error, doing: &'static str, location: &str) -> StoreError {
    let location = location.to_owned();
    let Some(code) = error.sqlite_error_code() else {
        // An error without a code comes from reading a row: a column does not hold what it must.
        let reason = format!("a row cannot be read: {error}");
        return StoreError::Corrupt {
            location,
            reason,
            source: Some(Box::new(error)),
        };
    };
    let extended = error.sqlite_error().map(|error| error.extended_code);
    let reason = match code {
        ErrorCode::DatabaseCorrupt => "its pages contradict each other; restore it from a backup",
        ErrorCode::NotADatabase => NO_DATABASE,
        ErrorCode::ConstraintViolation => "its rows contradict each other; run the doctor",
        ErrorCode::DiskFull => DISK_FULL,
        ErrorCode::ReadOnly => "the file or its folder is not writable, or its disk was full when it was opened",
        ErrorCode::PermissionDenied => "permission denied",
        ErrorCode::CannotOpen => "the file cannot be opened",
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            "other processes had it locked for ten seconds, one of them all the time or many in turn; try again, or find out which"
        }
        // The index of the write-ahead log is extended before anything is read; only that step fails this way on a full
        // disk.
        ErrorCode::SystemIoFailure if extended == Some(ffi::SQLITE_IOERR_SHMSIZE) => DISK_FULL,
        ErrorCode::SystemIoFailure if is_write(extended) => match has_reached_size_limit(&location) {
            true => SIZE_LIMIT,
            false => NOT_WRITTEN,
        },
        ErrorCode::SystemIoFailure => "the disk reports a fault",
        ErrorCode::TooBig => "a text or body is larger than a row can be",
        _ => "the database reports a fault",
    };
    let corrupt = matches!(
        code,
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation
    );
    let (reason, source) = (reason.to_owned(), Some(Box::new(Said(error)) as _));
    if corrupt {
        StoreError::Corrupt {
            location,
            reason,
            source,
        }
    } else {
        StoreError::Unavailable {
            doing,
            location,
            reason,
            source,
        }
    }
}

/// What SQLite said. The library has it once more as the cause of its error, in nearly the same words with a number in
/// front, which would be repeated to people.
#[derive(Debug)]
struct Said(rusqlite::Error);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Said {}

/// Whether the extended code of an error is that of a write: SQLite tells a full disk apart, but no other reason.
fn is_write(extended: Option<std::ffi::c_int>) -> bool {
    let writes = [
        ffi::SQLITE_IOERR_WRITE,
        ffi::SQLITE_IOERR_TRUNCATE,
        ffi::SQLITE_IOERR_FSYNC,
        ffi::SQLITE_IOERR_SHMMAP,
    ];
    extended.is_some_and(|extended| writes.contains(&extended))
}

/// Whether the store at `location`, or a file beside it, is as large as files of this process may be.
fn has_reached_size_limit(location: &str) -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    let Some(limit) = limit else { return false };
    let sizes = ["", "-wal", "-journal", "-shm"].map(|suffix| std::fs::metadata(format!("{location}{suffix}")));
    let sizes = sizes.into_iter().flatten().map(|file| file.len());
    sizes
        .max()
        .is_some_and(|size| size.saturating_add(PIECE_BYTES) >= limit)
}

/// Whether `error` reports a full disk.
pub(super) fn is_disk_full(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { reason, .. } if reason == DISK_FULL)
}

/// Whether `error` reports a file that is damaged, or not a database at all.
pub(super) fn is_damaged_file(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
    )
}

#[cfg(test)]
mod tests {
    use folio_memory::causes::causes;

    use super::*;

    #[test]
    fn words_of_sqlite_are_a_cause_once() {
        let said = Some("database or disk is full".to_owned());
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), said);
        let error = explained(error, "write to", "folio.db");
        let causes: Vec<_> = causes(&error).skip(1).map(ToString::to_string).collect();
        assert_eq!(causes, ["database or disk is full"]);
    }

    #[test]
    fn disk_full_is_reported_whichever_file_could_not_grow() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_SHMSIZE] {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let told = explained(error, "open", "folio.db").to_string();
            assert!(told.contains("the disk is full"), "{told}");
        }
    }
}
