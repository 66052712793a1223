//! Copies of the file, and a place for them.

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

/// Copies aside that are made of one file, at most.
const ASIDE_MAX: u32 = 1_000;

/// What a store is called whose place another one took, behind its name.
const REPLACED: &str = ".replaced-";

/// What SQLite puts beside a file, and takes for a part of whatever has the name of that file.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Copies all that `conn` sees into a file at `to`, which is whole and durable once it has its name. Whether it was made: what
/// is there already stays.
pub(super) fn copy(conn: &Connection, to: &Path) -> Result<bool, Failure> {
    Unfinished::of(conn, to)?.take_name(to)
}

/// The same for whoever wants a file of his own.
pub(super) fn copy_anew(conn: &Connection, to: &Path) -> Result<(), Failure> {
    // Before a long time is spent on it.
    nothing_at(to)?;
    if copy(conn, to)? { Ok(()) } else { Err(is_there(to)) }
}

/// Refuses a name that a file has, and one that leftovers of another file would be taken for a part of.
pub(super) fn nothing_at(to: &Path) -> Result<(), Failure> {
    if to.exists() {
        return Err(is_there(to));
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let reason = format!(
            "there is no folder {}, so {} cannot be made",
            folder.display(),
            to.display()
        );
        return Err(StoreError::Invalid(reason).into());
    }
    let left = BESIDE.iter().map(|suffix| with(to, suffix)).find(|path| path.exists());
    left.map_or(Ok(()), |left| {
        let (left, to) = (left.display(), to.display());
        let reason =
            format!("{left} is of another store, and would be read as a part of {to}: put it beside that store first");
        Err(StoreError::Invalid(reason).into())
    })
}

pub(super) fn is_there(to: &Path) -> Failure {
    StoreError::Invalid(format!("{} is there already, and stays as it is", to.display())).into()
}

/// What the names of copies end with that are not whole yet.
const UNFINISHED: &str = ".unfinished";

/// A copy that is whole and durable, and has no name yet that anybody looks for. It is locked: what nobody holds is left of somebody who died.
pub(super) struct Unfinished {
    /// Where it is until then.
    pub(super) path: PathBuf,
    _lock: File,
}

impl Unfinished {
    /// A copy of all that `conn` sees, beside `to`.
    pub(super) fn of(conn: &Connection, to: &Path) -> Result<Self, Failure> {
        let cannot = |error| unavailable("back up to", to, error);
        let to_write = std::path::absolute(to).map_err(cannot)?;
        remove_left_over(&to_write);
        let unfinished = Self::begin(&to_write).map_err(|error| not_begun(error, to))?;
        // As bytes: names of files need not be text.
        let name = ToSqlOutput::Borrowed(ValueRef::Text(unfinished.path.as_os_str().as_bytes()));
        conn.execute("VACUUM INTO ?1", [name])
            .map_err(|error| not_copied(error, to))?;
        File::open(&unfinished.path)
            .and_then(|file| file.sync_all())
            .map_err(cannot)?;
        Ok(unfinished)
    }

    /// An empty file of nobody else, locked.
    fn begin(to: &Path) -> io::Result<Self> {
        loop {
            let path = with(to, &format!("-{}{UNFINISHED}", OwnerId::random().0));
            let lock = private::options().write(true).create_new(true).open(&path)?;
            lock.lock()?;
            // Whoever tidies up may have found it before it was locked.
            if path.exists() {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    /// Gives it the name `to`, unless something has that name.
    pub(super) fn take_name(self, to: &Path) -> Result<bool, Failure> {
        // A link, because a renamed file would take the place of what is there.
        let is_new = match std::fs::hard_link(&self.path, to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            linked => linked
                .map(|()| true)
                .map_err(|error| unavailable("back up to", to, error))?,
        };
        sync_folder_of(to).map_err(|error| unavailable("back up to", to, error))?;
        Ok(is_new)
    }

    /// Gives it the name `to`, and what has that name another one; which. There is a store at `to` at every moment.
    pub(super) fn take_place(self, to: &Path) -> Result<PathBuf, Failure> {
        if let Ok(before) = to.metadata() {
            // Whoever shares the store with others has set its rights once.
            let same = std::fs::set_permissions(&self.path, before.permissions());
            same.map_err(|error| unavailable("replace", to, error))?;
        }
        let aside = Aside::of(to)?;
        let placed = aside.make().and_then(|()| {
            // A renamed file takes the place of what is there, all at once.
            std::fs::rename(&self.path, to).inspect_err(|_| aside.unlink())
        });
        if let Err(error) = placed {
            aside.put_back();
            return Err(unavailable("replace", to, error).into());
        }
        sync_folder_of(to).map_err(|error| StoreError::Unavailable {
            doing: "make sure of",
            location: to.display().to_string(),
            reason: format!("{error}; what was there before is {} now", aside.name.display()),
            source: Some(Box::new(error)),
        })?;
        Ok(aside.name)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It has its name by now, or is of no use.
        std::fs::remove_file(&self.path).unwrap_or_default();
    }
}

/// Removes copies in the folder of `to` that nobody is making any more. That one cannot be removed keeps nobody from making his.
fn remove_left_over(to: &Path) {
    let beside = to.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    for path in beside.into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let owner = name
            .strip_suffix(UNFINISHED.as_bytes())
            .and_then(|name| name.rsplit(|byte| *byte == b'-').next());
        if owner.is_some_and(is_drawn)
            && path.symlink_metadata().is_ok_and(|about| about.is_file())
            && let Ok(left) = File::open(&path)
            && left.try_lock().is_ok()
        {
            std::fs::remove_file(&path).unwrap_or_default();
        }
    }
}

/// Whether `name` is one as [`OwnerId::random`] gives it.
fn is_drawn(name: &[u8]) -> bool {
    name.len() == 32 && name.iter().all(u8::is_ascii_hexdigit)
}

/// Other names for a file and what SQLite put beside it.
struct Aside {
    /// Those that are there, with what they are called then.
    moved: Vec<(PathBuf, PathBuf)>,
    /// The file that is there, as it is called then.
    file: Option<(PathBuf, PathBuf)>,
    /// What people are told of.
    name: PathBuf,
}

impl Aside {
    /// Names that nothing has yet.
    fn of(to: &Path) -> Result<Self, Failure> {
        let whole = std::path::absolute(to).unwrap_or_else(|_| to.to_owned());
        for number in 1..=ASIDE_MAX {
            let aside = with(&whole, &format!("{REPLACED}{number}"));
            let beside = BESIDE.map(|suffix| (with(&whole, suffix), with(&aside, suffix)));
            if aside.exists() || beside.iter().any(|(_, name)| name.exists()) {
                continue;
            }
            let moved: Vec<_> = beside.into_iter().filter(|(path, _)| path.exists()).collect();
            let name = match moved.first() {
                Some((_, beside)) if !whole.exists() => beside.clone(),
                _ => aside.clone(),
            };
            let file = whole.exists().then_some((whole, aside));
            return Ok(Self { moved, file, name });
        }
        let reason = format!("there are {ASIDE_MAX} copies of {} already", to.display());
        Err(StoreError::Invalid(reason).into())
    }

    /// Moves what stands beside the file, and gives the file a second name.
    fn make(&self) -> io::Result<()> {
        for (path, aside) in &self.moved {
            std::fs::rename(path, aside)?;
        }
        self.file
            .as_ref()
            .map_or(Ok(()), |(file, aside)| std::fs::hard_link(file, aside))
    }

    /// Takes the second name of the file away.
    fn unlink(&self) {
        if let Some((_, aside)) = &self.file {
            std::fs::remove_file(aside).unwrap_or_default();
        }
    }

    /// Puts back what stood beside the file, as far as that can be done.
    fn put_back(&self) {
        for (path, aside) in &self.moved {
            std::fs::rename(aside, path).unwrap_or_default();
        }
    }
}

/// Whether what is at `path` is another store than `file` beside which it stands: one that was replaced, with what SQLite put beside it, or a
/// copy that somebody makes.
pub(super) fn is_copy(file: &Path, path: &Path) -> bool {
    let end = path.as_os_str().as_bytes().strip_prefix(file.as_os_str().as_bytes());
    end.is_some_and(|end| end.starts_with(REPLACED.as_bytes()) || end.ends_with(UNFINISHED.as_bytes()))
}

/// `path` with `suffix` behind its name.
fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// Why there is no file to copy to: what is wrong with the place is said of that.
fn not_begun(error: io::Error, to: &Path) -> StoreError {
    let to = std::path::absolute(to).unwrap_or_else(|_| to.to_owned());
    let (location, why) = obstacle(&to).unwrap_or_else(|| (to.display().to_string(), error));
    StoreError::Unavailable {
        doing: "write to",
        location,
        reason: in_words(&why),
        source: Some(Box::new(why)),
    }
}

/// Why the copy was not made: what is wrong with the place where it goes is said of that place.
fn not_copied(error: rusqlite::Error, to: &Path) -> Failure {
    match error.sqlite_error_code() {
        // A name alone is in a folder, too.
        Some(ErrorCode::CannotOpen)
            if let Some((place, why)) = obstacle(&std::path::absolute(to).unwrap_or_else(|_| to.to_owned())) =>
        {
            StoreError::Unavailable {
                doing: "write to",
                location: place,
                reason: in_words(&why),
                source: Some(Box::new(why)),
            }
            .into()
        }
        // Only the copy is written.
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
