//! Copies of the store's file, and putting a copy in its place.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ffi};

use super::error::{Failure, explained};
use super::open::{in_words, obstacle, sync_folder_of};
use crate::error::StoreError;
use crate::private;
use crate::store::OwnerId;

/// The most replaced stores that are kept beside one file.
const ASIDE_MAX: u32 = 1_000;

/// The suffix for the name of a store that was replaced by another one.
const REPLACED: &str = ".replaced-";

/// The suffixes of the files that SQLite puts beside a database, and takes for part of any file with the matching name.
const COMPANION_SUFFIXES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Copies all that `conn` sees into a file at `to`, which is complete and durable once it has its name. Returns whether
/// the copy was made: an existing file is not replaced.
pub(super) fn copy(conn: &Connection, to: &Path) -> Result<bool, Failure> {
    Unfinished::of(conn, to)?.take_name(to)
}

/// The same, but fails if a file exists already.
pub(super) fn copy_anew(conn: &Connection, to: &Path) -> Result<(), Failure> {
    // Checked first, because copying may take long.
    check_name_is_free(to)?;
    if copy(conn, to)? { Ok(()) } else { Err(is_there(to)) }
}

/// Refuses a name that is taken by a file, or beside which leftovers of another file would be taken for part of the
/// copy.
pub(super) fn check_name_is_free(to: &Path) -> Result<(), Failure> {
    if to.exists() {
        return Err(is_there(to));
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let reason = format!(
            "there is no folder {}, so {} cannot be created",
            folder.display(),
            to.display()
        );
        return Err(StoreError::Invalid(reason).into());
    }
    let left = COMPANION_SUFFIXES
        .iter()
        .map(|suffix| with(to, suffix))
        .find(|path| path.exists());
    left.map_or(Ok(()), |left| {
        let (left, to) = (left.display(), to.display());
        let reason = format!(
            "{left} belongs to another store, but would be read as part of {to}: move it back to that store first"
        );
        Err(StoreError::Invalid(reason).into())
    })
}

pub(super) fn is_there(to: &Path) -> Failure {
    StoreError::Invalid(format!("{} exists already and is not overwritten", to.display())).into()
}

/// The suffix of copies that are not complete yet.
const UNFINISHED: &str = ".unfinished";
/// What SQLite adds to the name of a file for its rollback journal.
const JOURNAL: &str = "-journal";

/// A copy that is complete and durable, but does not have its final name yet. It is locked while it is being made: an
/// unlocked one was left behind by a process that died.
pub(super) struct Unfinished {
    /// The path of the copy until it gets its name.
    pub(super) path: PathBuf,
    _lock: File,
}

impl Unfinished {
    /// Copies all that `conn` sees into a file beside `to`.
    pub(super) fn of(conn: &Connection, to: &Path) -> Result<Self, Failure> {
        let cannot = |error| unavailable("back up to", to, error);
        let to_write = std::path::absolute(to).map_err(cannot)?;
        remove_left_over(&to_write);
        let unfinished = Self::begin(&to_write).map_err(|error| not_begun(error, to))?;
        // As bytes, because file names need not be UTF-8.
        let name = ToSqlOutput::Borrowed(ValueRef::Text(unfinished.path.as_os_str().as_bytes()));
        conn.execute("VACUUM INTO ?1", [name])
            .map_err(|error| not_copied(error, to))?;
        File::open(&unfinished.path)
            .and_then(|file| file.sync_all())
            .map_err(cannot)?;
        Ok(unfinished)
    }

    /// Creates a new, empty, locked file.
    fn begin(to: &Path) -> io::Result<Self> {
        loop {
            let path = with(to, &format!("-{}{UNFINISHED}", OwnerId::random().0));
            let lock = private::options().write(true).create_new(true).open(&path)?;
            lock.lock()?;
            // A process that cleans up may have removed the file before it was locked.
            if path.exists() {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    /// Gives the copy the name `to`, unless that name is taken.
    pub(super) fn take_name(self, to: &Path) -> Result<bool, Failure> {
        // A hard link, because renaming would replace an existing file.
        let is_new = match std::fs::hard_link(&self.path, to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            linked => linked
                .map(|()| true)
                .map_err(|error| unavailable("back up to", to, error))?,
        };
        sync_folder_of(to).map_err(|error| unavailable("back up to", to, error))?;
        Ok(is_new)
    }

    /// Gives the copy the name `to`, and another name to the file that had it; returns that other name. There is a
    /// store at `to` at every moment.
    pub(super) fn take_place(self, to: &Path) -> Result<PathBuf, Failure> {
        if let Ok(before) = to.metadata() {
            // The owner of a shared store may have set its permissions.
            let same = std::fs::set_permissions(&self.path, before.permissions());
            same.map_err(|error| unavailable("replace", to, error))?;
        }
        let backup = Aside::of(to)?;
        let placed = backup.make().and_then(|()| {
            // Renaming replaces the existing file atomically.
            std::fs::rename(&self.path, to).inspect_err(|_| backup.unlink())
        });
        if let Err(error) = placed {
            backup.put_back();
            return Err(unavailable("replace", to, error).into());
        }
        sync_folder_of(to).map_err(|error| StoreError::Unavailable {
            doing: "sync",
            location: to.display().to_string(),
            reason: format!(
                "{error}; the store that was there before is now {}",
                backup.name.display()
            ),
            source: Some(Box::new(error)),
        })?;
        Ok(backup.name)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // The copy has its final name by now, or is of no use.
        std::fs::remove_file(&self.path).unwrap_or_default();
    }
}

/// Removes copies in the folder of `to` that nobody is making any more. A failure does not prevent a new copy.
pub(super) fn remove_left_over(to: &Path) {
    let siblings = to.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    for path in siblings.into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        // What SQLite left beside it goes with it, or afterwards.
        let base = name.strip_suffix(JOURNAL.as_bytes());
        let is_orphan = base.is_some_and(|base| !path.with_file_name(OsStr::from_bytes(base)).exists());
        let owner = base
            .filter(|_| is_orphan)
            .unwrap_or(name)
            .strip_suffix(UNFINISHED.as_bytes())
            .and_then(|name| name.rsplit(|byte| *byte == b'-').next());
        if owner.is_some_and(is_drawn)
            && path.symlink_metadata().is_ok_and(|about| about.is_file())
            && let Ok(left) = File::open(&path)
            && left.try_lock().is_ok()
        {
            std::fs::remove_file(&path).unwrap_or_default();
            if !is_orphan {
                std::fs::remove_file(with(&path, JOURNAL)).unwrap_or_default();
            }
        }
    }
}

/// How many bytes are written of a copy that is being made, but not yet complete, at `to`; 0 if none is.
#[must_use]
pub fn bytes_copied_to(to: &Path) -> u64 {
    let Some(start) = to.file_name().map(|name| [name.as_bytes(), b"-"].concat()) else {
        return 0;
    };
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    let siblings = std::fs::read_dir(folder.unwrap_or(Path::new(".")));
    let is_unfinished = |name: &OsStr| {
        let owner = name.as_bytes().strip_prefix(&start[..]);
        owner
            .and_then(|owner| owner.strip_suffix(UNFINISHED.as_bytes()))
            .is_some_and(is_drawn)
    };
    let copies = siblings.into_iter().flatten().flatten();
    copies
        .filter(|file| is_unfinished(&file.file_name()))
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .max()
        .unwrap_or(0)
}

/// Whether `name` looks like one from [`OwnerId::random`].
fn is_drawn(name: &[u8]) -> bool {
    name.len() == 32 && name.iter().all(u8::is_ascii_hexdigit)
}

/// The new names for a file and for what SQLite put beside it.
struct Aside {
    /// The existing files beside it, each with its new name.
    moved: Vec<(PathBuf, PathBuf)>,
    /// The file itself, if it exists, with its new name.
    file: Option<(PathBuf, PathBuf)>,
    /// The name that is reported to people.
    name: PathBuf,
}

impl Aside {
    /// Chooses names that are not taken yet.
    fn of(to: &Path) -> Result<Self, Failure> {
        let whole = std::path::absolute(to).unwrap_or_else(|_| to.to_owned());
        for number in 1..=ASIDE_MAX {
            let candidate = with(&whole, &format!("{REPLACED}{number}"));
            let beside = COMPANION_SUFFIXES.map(|suffix| (with(&whole, suffix), with(&candidate, suffix)));
            if candidate.exists() || beside.iter().any(|(_, name)| name.exists()) {
                continue;
            }
            let moved: Vec<_> = beside.into_iter().filter(|(path, _)| path.exists()).collect();
            let name = match moved.first() {
                Some((_, beside)) if !whole.exists() => beside.clone(),
                _ => candidate.clone(),
            };
            let file = whole.exists().then_some((whole, candidate));
            return Ok(Self { moved, file, name });
        }
        let reason = format!("there are {ASIDE_MAX} copies of {} already", to.display());
        Err(StoreError::Invalid(reason).into())
    }

    /// Renames the files beside the store's file, and gives that file a second name.
    fn make(&self) -> io::Result<()> {
        for (path, backup) in &self.moved {
            std::fs::rename(path, backup)?;
        }
        self.file
            .as_ref()
            .map_or(Ok(()), |(file, backup)| std::fs::hard_link(file, backup))
    }

    /// Removes the second name of the file.
    fn unlink(&self) {
        if let Some((_, backup)) = &self.file {
            std::fs::remove_file(backup).unwrap_or_default();
        }
    }

    /// Moves the files beside the store's file back, as far as possible.
    fn put_back(&self) {
        for (path, backup) in &self.moved {
            std::fs::rename(backup, path).unwrap_or_default();
        }
    }
}

/// Whether the file at `path`, which lies beside the store `file`, belongs to another store: one that was replaced,
/// with the files of SQLite beside it, or a copy that is being made.
pub(super) fn is_copy(file: &Path, path: &Path) -> bool {
    let end = path.as_os_str().as_bytes().strip_prefix(file.as_os_str().as_bytes());
    end.is_some_and(|end| end.starts_with(REPLACED.as_bytes()) || end.ends_with(UNFINISHED.as_bytes()))
}

/// `path` with `suffix` appended to its name.
fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// The error if a copy could not be created. An obstacle in its path is reported with its own location.
fn not_begun(error: io::Error, to: &Path) -> StoreError {
    let to = std::path::absolute(to).unwrap_or_else(|_| to.to_owned());
    let (location, cause) = obstacle(&to).unwrap_or_else(|| (to.display().to_string(), error));
    StoreError::Unavailable {
        doing: "write to",
        location,
        reason: in_words(&cause),
        source: Some(Box::new(cause)),
    }
}

/// The error if the copy failed. An obstacle in its path is reported with its own location.
fn not_copied(error: rusqlite::Error, to: &Path) -> Failure {
    match error.sqlite_error_code() {
        // A bare file name lies in a folder, too.
        Some(ErrorCode::CannotOpen)
            if let Some((place, cause)) = obstacle(&std::path::absolute(to).unwrap_or_else(|_| to.to_owned())) =>
        {
            StoreError::Unavailable {
                doing: "write to",
                location: place,
                reason: in_words(&cause),
                source: Some(Box::new(cause)),
            }
            .into()
        }
        // Only the copy is written, so the fault is there.
        Some(ErrorCode::SystemIoFailure) if is_of_writing(&error) => {
            explained(error, "write to", &to.display().to_string()).into()
        }
        Some(ErrorCode::DiskFull | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            explained(error, "write to", &to.display().to_string()).into()
        }
        _ => error.into(),
    }
}

fn is_of_writing(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    !matches!(code, Some(ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ))
}

pub(super) fn unavailable(doing: &'static str, path: &Path, error: io::Error) -> StoreError {
    StoreError::Unavailable {
        doing,
        location: path.display().to_string(),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    }
}
