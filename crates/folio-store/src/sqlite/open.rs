//! Opening the file: where it is, whose it is, and how connections to it are set up.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::busy;
use super::closing::Open;
use super::error::{CUT_OFF, Failure, NO_DATABASE, WITHOUT_FILE, explained};
use super::migrate::{self, MIGRATIONS, Migration};
use super::moved::Places;
use crate::error::StoreError;
use crate::live::LiveOptions;
use crate::private;

/// The path that stands for a store without a file, gone when it is closed.
pub const IN_MEMORY: &str = "memory:";

/// Bytes that the write-ahead log keeps on disk after it was moved: more than it usually has, so that it is written over, and not cut off
/// and grown again each time.
const WAL_BYTES_KEPT: u32 = 32 * 1024 * 1024;

/// Bytes of the smallest file that SQLite makes.
const BYTES_MIN: u64 = 512;

/// Links that are followed to where a file is made; the system follows no more.
const LINKS_MAX: u32 = 40;

/// How long a statement waits for another process before it gives up.
pub(super) const BUSY_WAIT: Duration = Duration::from_secs(10);

/// What is opened, and how.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The file; made, with its folders, if it is not there. [`IN_MEMORY`] for none.
    pub path: PathBuf,
    /// How long a process that drives runs may be silent before another one may take them over.
    pub lease: Duration,
    /// How large the file may become; `None` for as large as the disk allows.
    pub bytes_max: Option<u64>,
    /// The indexes of live entries in memory. Answers are the same without them.
    pub live: LiveOptions,
}

impl OpenOptions {
    /// The file at `path`, with a lease of fifteen seconds.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            lease: Duration::from_secs(15),
            bytes_max: None,
            live: LiveOptions::default(),
        }
    }

    /// A store without a file.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::at(IN_MEMORY)
    }
}

/// What connections lead to.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// As people see it.
    pub(super) location: String,
    /// The file; none if everything is in memory.
    pub(super) file: Option<PathBuf>,
    name: PathBuf,
    /// Whether nothing can be written to the file or beside it, so that it is read only.
    is_read_only: bool,
    pages_max: Option<u64>,
    /// Where it was when it was made ready to be written to.
    places: Arc<OnceLock<Places>>,
    /// Says that it is open; none if everything is in memory.
    _open: Option<Arc<Open>>,
}

impl Target {
    /// What `options` name.
    pub(super) fn of(options: &OpenOptions) -> Self {
        static UNIQUE: AtomicU64 = AtomicU64::new(1);
        let location = options.path.display().to_string();
        let pages_max = options.bytes_max.map(|bytes| (bytes / 4096).max(1));
        if location == IN_MEMORY {
            // A name beginning with a slash makes SQLite share one such database among the connections of a process.
            let number = UNIQUE.fetch_add(1, Ordering::Relaxed);
            let name = PathBuf::from(format!("file:/folio-{number}?vfs=memdb"));
            Self {
                location,
                file: None,
                name,
                is_read_only: false,
                pages_max,
                places: Arc::default(),
                _open: None,
            }
        } else {
            // Absolute, so that SQLite does not take a path that begins with `file:` for something else.
            let file = std::path::absolute(&options.path).unwrap_or_else(|_| options.path.clone());
            let is_read_only = may_only_be_read(&file);
            let name = if is_read_only { as_it_is(&file) } else { file.clone() };
            Self {
                location,
                file: Some(file),
                name,
                is_read_only,
                pages_max,
                places: Arc::default(),
                _open: Some(Open::new()),
            }
        }
    }

    /// One that is called `location` and has no file of its own: none of which a copy is kept before it is changed.
    pub(super) fn of_no_file(location: &str) -> Self {
        Self {
            location: location.to_owned(),
            ..Self::of(&OpenOptions::in_memory())
        }
    }

    /// Makes the folders and the file if they are missing, checks whose file it is, and brings it to the newest format.
    ///
    /// The connection that comes back is the one to write with.
    pub(super) fn prepare(&self) -> Result<Connection, StoreError> {
        self.prepare_with(MIGRATIONS)
    }

    /// The same with another list of migrations.
    pub(super) fn prepare_with(&self, migrations: &[Migration]) -> Result<Connection, StoreError> {
        if let Some(folder) = self.file.as_deref().and_then(Path::parent) {
            make_folders(folder).map_err(|error| self.unavailable("create", folder.display().to_string(), error))?;
        }
        if let Some(file) = &self.file {
            self.may_be_made(file)?;
            make_private(file);
        }
        let conn = self
            .connect(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)
            .map_err(Failure::from)
            .and_then(|conn| self.prepare_connection(conn, migrations))
            .map_err(|failure| self.explained(failure))?;
        if let Some(file) = self.file.as_deref().filter(|_| !self.is_read_only)
            && let Some(places) = Places::of(file)
        {
            // Whoever was first has the same.
            self.places.set(places).unwrap_or_default();
        }
        Ok(conn)
    }

    /// That the file is still where it was when it was opened, with what stands beside it. Costs a microsecond or two.
    ///
    /// # Errors
    ///
    /// `Unavailable`, with what happened and what to do.
    pub(super) fn is_at_its_place(&self, doing: &'static str) -> Result<(), StoreError> {
        self.places
            .get()
            .map_or(Ok(()), |places| places.check(doing, &self.location))
    }

    /// That `file` is there, or can be made with nothing in its way: one that is made and then refused would stand in the way of whoever
    /// puts the right one there.
    fn may_be_made(&self, file: &Path) -> Result<(), StoreError> {
        if file.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir()) {
            return Err(self.unwritable("it is a device, a pipe or a socket, not a file"));
        }
        let made = made_at(file);
        // The log first: whoever makes the store meanwhile has made the file before.
        match log_of(&made).metadata() {
            // What SQLite makes beside it has a longer name.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidFilename && !file.exists() => {
                Err(self.unavailable("create", self.location.clone(), error))
            }
            // An empty one, too: whoever has the file open under another name may write to it.
            Ok(_) if !file.exists() => Err(self.unwritable(WITHOUT_FILE)),
            _ => Ok(()),
        }
    }

    /// A connection that can only read.
    pub(super) fn connect_reader(&self) -> Result<Connection, Failure> {
        // A read-only connection could not recover the write-ahead log after a crash, so it is opened for both where that is possible.
        let mut conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // Those that are open already go on with the file that was there: a new one must not read from another.
        self.is_at_its_place("read from")?;
        set_up(&mut conn)?;
        conn.execute_batch("PRAGMA query_only = on; PRAGMA cache_size = -4000")?;
        Ok(conn)
    }

    fn prepare_connection(&self, mut conn: Connection, migrations: &[Migration]) -> Result<Connection, Failure> {
        set_up(&mut conn)?;
        // Before anything that writes: this may be the file of another program.
        if let Some(file) = &self.file {
            long_enough(file, &self.location)?;
        }
        let found = migrate::identify(&conn, &self.location, migrations)?;
        if self.is_read_only {
            return match migrate::is_newest(found, migrations) {
                true => Ok(conn),
                false => Err(self
                    .unwritable("it has to be brought to the newest format, and cannot be written to")
                    .into()),
            };
        }
        conn.execute_batch(&format!(
            "PRAGMA page_size = 4096;
             PRAGMA synchronous = full;
             PRAGMA secure_delete = fast;
             PRAGMA cache_size = -16000;
             PRAGMA journal_size_limit = {WAL_BYTES_KEPT};"
        ))?;
        if self.file.is_some() {
            // Two processes that make the same file may meet here, where SQLite does not wait by itself.
            busy::insist(BUSY_WAIT, || {
                conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
            })?;
        }
        if let Some(pages) = self.pages_max {
            conn.execute_batch(&format!("PRAGMA max_page_count = {pages}"))?;
        }
        migrate::bring_up_to_date(&conn, self, found, migrations)?;
        Ok(conn)
    }

    /// A connection as it is `wanted`, or one that can only read where nothing else is possible.
    fn connect(&self, wanted: OpenFlags) -> rusqlite::Result<Connection> {
        let possible = if self.is_read_only {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        } else {
            wanted
        };
        Connection::open_with_flags(&self.name, flags(possible))
    }

    fn unwritable(&self, reason: &str) -> StoreError {
        StoreError::Unavailable {
            doing: "open",
            location: self.location.clone(),
            reason: reason.to_owned(),
            source: None,
        }
    }

    /// `failure` to open, with what the file system says about the file if SQLite does not say.
    fn explained(&self, failure: Failure) -> StoreError {
        let cannot_open = matches!(&failure, Failure::Sql(error) if matches!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly | rusqlite::ErrorCode::SystemIoFailure)
        ));
        match (failure, self.file.as_deref()) {
            (Failure::Sql(_), Some(_)) if cannot_open && self.is_read_only => {
                self.unwritable("it was not closed: what stands in the log beside it can only be read where the folder can be written to")
            }
            (Failure::Sql(error), Some(file)) if cannot_open => match obstacle(file) {
                Some((path, why)) => self.unavailable("open", path, why),
                None => explained(error, "open", &self.location),
            },
            (failure, _) => failure.into_error("open", &self.location),
        }
    }

    fn unavailable(&self, doing: &'static str, location: String, why: std::io::Error) -> StoreError {
        StoreError::Unavailable {
            doing,
            location,
            reason: in_words(&why),
            source: Some(Box::new(why)),
        }
    }
}

/// Refuses a file that is too short to be one of SQLite, which takes it for an empty one and would make it new.
///
/// An empty file alone is a store that is still to be made: whoever makes one makes that first, and so do programs that draw a name. With a
/// write-ahead log beside it, which SQLite would throw away, it was a store and lost what it had: the log comes later than the first page.
pub(super) fn long_enough(file: &Path, location: &str) -> Result<(), Failure> {
    // What cannot be asked for is told when it is read. The log first: whoever makes the store meanwhile has made the file longer before.
    let length = |path: &Path| path.metadata().map_or(0, |about| about.len());
    let has_log = length(&log_of(file)) > 0;
    let bytes = file.metadata().map_or(BYTES_MIN, |about| about.len());
    let reason = match bytes {
        0 if has_log => CUT_OFF,
        1..BYTES_MIN => NO_DATABASE,
        _ => return Ok(()),
    };
    Err(StoreError::Corrupt {
        location: location.to_owned(),
        reason: reason.to_owned(),
        source: None,
    }
    .into())
}

/// Where the write-ahead log of `file` is.
fn log_of(file: &Path) -> PathBuf {
    beside(file, "-wal")
}

/// Where that stands beside `file` whose name has this `suffix`.
pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Whether the file is there and can be read, and nothing can be written beside it: its folder is not ours, or the whole file system is
/// not to be written to.
fn may_only_be_read(file: &Path) -> bool {
    let may = |path: &Path, what| rustix::fs::access(path, what).is_ok();
    let folder = file.parent().unwrap_or(file);
    may(file, rustix::fs::Access::READ_OK) && !may(folder, rustix::fs::Access::WRITE_OK)
}

/// The address under which SQLite reads `file` without writing anything beside it.
///
/// Where somebody else has it open, or left it, there is a write-ahead log, which is read with it. Otherwise the file is taken for one that
/// nobody changes.
pub(super) fn as_it_is(file: &Path) -> PathBuf {
    let is_used = log_of(file).metadata().is_ok_and(|log| log.len() > 0);
    let mut name = "file:".to_owned();
    for byte in file.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => name.push(char::from(*byte)),
            byte => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name.push_str(if is_used { "?mode=ro" } else { "?immutable=1" });
    name.into()
}

fn flags(wanted: OpenFlags) -> OpenFlags {
    wanted | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI
}

/// What every connection needs.
pub(super) fn set_up(conn: &mut Connection) -> Result<(), Failure> {
    conn.busy_handler(Some(busy::patience(BUSY_WAIT)))?;
    conn.set_prepared_statement_cache_capacity(96);
    // Otherwise a statement is planned anew whenever a value is bound that the plan might depend on.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.execute_batch(
        "PRAGMA foreign_keys = off; PRAGMA trusted_schema = off; PRAGMA cell_size_check = on; PRAGMA temp_store = memory",
    )?;
    Ok(())
}

/// Makes the file for its owner alone, if there is none and it can be made. What SQLite makes beside it is as it is. Where the name is a link
/// that leads nowhere, the file is made where it leads.
fn make_private(file: &Path) {
    // If it cannot be made, SQLite says why.
    let _made = private::options().write(true).create_new(true).open(made_at(file));
}

/// Where `file` is made: where it leads, if it is a link.
fn made_at(file: &Path) -> PathBuf {
    let mut file = file.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(leads_to) = file.read_link() else { break };
        file = file
            .parent()
            .map_or_else(|| leads_to.clone(), |folder| folder.join(&leads_to));
    }
    file
}

/// Makes `folder` and what is missing above it for its owner alone, so that the names survive a loss of power, too.
pub(super) fn make_folders(folder: &Path) -> std::io::Result<()> {
    let missing: Vec<_> = folder
        .ancestors()
        .take_while(|f| !f.as_os_str().is_empty() && !f.exists())
        .collect();
    private::make_folders(folder)?;
    for made in missing {
        sync_folder_of(made)?;
    }
    Ok(())
}

/// Makes the name `path` durable.
pub(super) fn sync_folder_of(path: &Path) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|f| !f.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// What keeps `file` from being opened, as far as the file system tells: which path, and why.
///
/// Asks for permissions only. Opening and closing the file here would drop the locks that SQLite holds on it.
pub(super) fn obstacle(file: &Path) -> Option<(String, std::io::Error)> {
    let both = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    if file.is_dir() {
        return Some((file.display().to_string(), std::io::ErrorKind::IsADirectory.into()));
    }
    // Beside the file stand its write-ahead log and its index, so the folder must be writable as well.
    let folder = file.parent()?;
    let paths = if file.exists() {
        [file, folder]
    } else {
        [folder, folder]
    };
    paths.into_iter().find_map(|path| {
        let why = rustix::fs::access(path, both).err()?;
        Some((path.display().to_string(), why.into()))
    })
}

pub(super) fn in_words(error: &std::io::Error) -> String {
    use std::io::ErrorKind as Kind;
    match error.kind() {
        Kind::PermissionDenied => "permission denied".to_owned(),
        Kind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        Kind::IsADirectory => "it is a folder, not a file".to_owned(),
        Kind::NotADirectory | Kind::AlreadyExists => "something on the way to it is a file, not a folder".to_owned(),
        Kind::StorageFull => "the disk is full".to_owned(),
        Kind::InvalidFilename => "its name, or that of what is kept beside it, is too long".to_owned(),
        _ => error.to_string(),
    }
}
