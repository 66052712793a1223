//! Opening the file: where it is, which program it belongs to, and how connections to it are set up.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::backup::remove_left_over;
use super::busy;
use super::closing::Open;
use super::error::{CUT_OFF, Failure, NO_DATABASE, OTHER_NAMES, WITHOUT_FILE, explained};
use super::foreign_log;
use super::migrate::{self, MIGRATIONS, Migration};
use super::moved::Places;
use crate::error::StoreError;
use crate::live::LiveOptions;
use crate::private;
use crate::upkeep::OUTBOX_SUFFIX;

/// The path that stands for a store without a file, which is gone when it is closed.
pub const IN_MEMORY: &str = "memory:";

/// How many bytes of the write-ahead log stay on disk after a checkpoint: more than it usually has, so that it is
/// overwritten instead of being truncated and extended again each time.
const WAL_BYTES_KEPT: u32 = 32 * 1024 * 1024;

/// Size in bytes of the smallest file that SQLite creates.
const BYTES_MIN: u64 = 512;

/// The longest suffix with which SQLite names a file beside the store.
const JOURNAL_SUFFIX: &str = "-journal";
/// The most links that are followed to find where a file is created; the system follows no more.
const LINKS_MAX: u32 = 40;
/// How often, and how far apart, a file with two names is looked at before it is refused.
const NAMED_TRIES: u32 = 5;
const NAMED_PAUSE: Duration = Duration::from_millis(20);

/// How long a statement waits for another process before it gives up.
pub(super) const BUSY_WAIT: Duration = Duration::from_secs(10);

/// What to open, and how.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The file; created, with its folders, if it does not exist. [`IN_MEMORY`] for none.
    pub path: PathBuf,
    /// How long a process that drives runs may be silent before another process may take them over.
    pub lease: Duration,
    /// How large the file may become; `None` for as large as the disk allows.
    pub bytes_max: Option<u64>,
    /// The indexes of live entries in memory. Answers are the same without them.
    pub live: LiveOptions,
    /// Whether a file that nobody else has open is only read, as it is, if its disk is too full to open it otherwise.
    /// For programs that end soon: what others write once there is room again is not seen. Default: no.
    pub reads_if_full: bool,
}

impl OpenOptions {
    /// Options for the file at `path`, with a lease of fifteen seconds.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            lease: Duration::from_secs(15),
            bytes_max: None,
            live: LiveOptions::default(),
            reads_if_full: false,
        }
    }

    /// Options for a store without a file.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::at(IN_MEMORY)
    }
}

/// The database that connections lead to.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The location as people see it.
    pub(super) location: String,
    /// The file; `None` if everything is in memory.
    pub(super) file: Option<PathBuf>,
    name: PathBuf,
    /// Whether neither the file nor anything beside it can be written, so that it can only be read.
    is_read_only: bool,
    pages_max: Option<u64>,
    /// The identities of the files when they were prepared for writing.
    places: Arc<OnceLock<Places>>,
    /// Counts as open; `None` if everything is in memory.
    _open: Option<Arc<Open>>,
}

impl Target {
    /// The target that `options` name.
    pub(super) fn of(options: &OpenOptions) -> Self {
        static UNIQUE: AtomicU64 = AtomicU64::new(1);
        let location = options.path.display().to_string();
        let pages_max = options.bytes_max.map(|bytes| (bytes / 4096).max(1));
        if location == IN_MEMORY {
            // A name that begins with a slash makes SQLite share one such database among the connections of a process.
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
            // Absolute, so that SQLite does not take a path that begins with `file:` for a URI.
            let file = std::path::absolute(&options.path).unwrap_or_else(|_| options.path.clone());
            let is_read_only = may_only_be_read(&file);
            let name = if is_read_only {
                read_only_uri(&file)
            } else {
                file.clone()
            };
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

    /// The same file, only read and as it is; `None` if it has a log, part of which would be missing.
    pub(super) fn as_it_is(&self) -> Option<Self> {
        let file = self
            .file
            .as_deref()
            .filter(|file| !self.is_read_only && !has_log(file))?;
        Some(Self {
            name: read_only_uri(file),
            is_read_only: true,
            ..self.clone()
        })
    }

    /// A target with the location `location` but without a file of its own, so that no copy is kept before it is
    /// changed.
    pub(super) fn of_no_file(location: &str) -> Self {
        Self {
            location: location.to_owned(),
            ..Self::of(&OpenOptions::in_memory())
        }
    }

    /// Creates missing folders and the file, checks which program the file belongs to, and migrates it to the newest
    /// format.
    ///
    /// Returns the connection to write with.
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
            self.check_only_name(file)?;
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
            // Another connection may have set the same value first.
            self.places.set(places).unwrap_or_default();
        }
        Ok(conn)
    }

    /// Checks that the file, and what lies beside it, is still where it was when it was opened. Costs a microsecond or
    /// two.
    ///
    /// # Errors
    ///
    /// `Unavailable`, with what happened and what to do.
    pub(super) fn check_in_place(&self, doing: &'static str) -> Result<(), StoreError> {
        self.places
            .get()
            .map_or(Ok(()), |places| places.check(doing, &self.location))
    }

    /// Checks that `file` exists, or can be created with nothing in its way: a file that is created and then refused
    /// would be in the way when the right one is put there.
    fn may_be_made(&self, file: &Path) -> Result<(), StoreError> {
        if file.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir()) {
            return Err(self.unwritable("it is a device, a pipe or a socket, not a file"));
        }
        let target_file = made_at(file);
        // The names of the files beside it are longer. SQLite itself only says that it cannot open something.
        for suffix in [JOURNAL_SUFFIX, OUTBOX_SUFFIX] {
            if let Err(error) = with_suffix(&target_file, suffix).symlink_metadata()
                && error.kind() == std::io::ErrorKind::InvalidFilename
                && (suffix == JOURNAL_SUFFIX || !file.exists())
            {
                return Err(self.unavailable("create", self.location.clone(), error));
            }
        }
        // The log first: another process that is creating the store meanwhile creates the file before it.
        match log_of(&target_file).metadata() {
            // Even an empty one: a process that has the file open under another name may write to it.
            Ok(_) if !file.exists() => Err(self.unwritable(WITHOUT_FILE)),
            _ => Ok(()),
        }
    }

    /// Refuses a file with a second name. Under each name it would have another log, and both would be written into the
    /// one file, so that what one wrote is lost in what the other did.
    fn check_only_name(&self, file: &Path) -> Result<(), StoreError> {
        let has_others = || file.metadata().is_ok_and(|about| about.is_file() && about.nlink() > 1);
        for _ in 0..NAMED_TRIES {
            if !has_others() {
                return Ok(());
            }
            // A copy that becomes a store has two names for a moment, or until somebody cleans up if it was killed then.
            remove_left_over(&made_at(file));
            #[expect(
                clippy::disallowed_methods,
                reason = "a store is opened on a thread that may wait, and this is rare"
            )]
            std::thread::sleep(NAMED_PAUSE);
        }
        Err(self.unwritable(OTHER_NAMES))
    }

    /// A connection that can only read.
    pub(super) fn connect_reader(&self) -> Result<Connection, Failure> {
        // A read-only connection could not recover the write-ahead log after a crash, so it is opened for both where
        // possible.
        let mut conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // Connections that are open already keep the original file: a new one must not read from another file.
        self.check_in_place("read from")?;
        set_up(&mut conn)?;
        conn.execute_batch("PRAGMA query_only = on; PRAGMA cache_size = -4000")?;
        Ok(conn)
    }

    fn prepare_connection(&self, mut conn: Connection, migrations: &[Migration]) -> Result<Connection, Failure> {
        set_up(&mut conn)?;
        // Before anything is written: this may be the file of another program.
        if let Some(file) = &self.file {
            check_length(file, &self.location)?;
            foreign_log::refuse(&conn, file, &self.location)?;
        }
        let found = migrate::identify(&conn, &self.location, migrations)?;
        if self.is_read_only {
            return match migrate::is_newest(found, migrations) {
                true => Ok(conn),
                false => Err(self
                    .unwritable("it must be migrated to the newest format, but cannot be written to")
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
            // Two processes that create the same file may meet here, where SQLite does not wait by itself.
            busy::retry_while_busy(BUSY_WAIT, || {
                conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
            })?;
        }
        if let Some(pages) = self.pages_max {
            conn.execute_batch(&format!("PRAGMA max_page_count = {pages}"))?;
        }
        migrate::bring_up_to_date(&conn, self, found, migrations)?;
        Ok(conn)
    }

    /// A connection with the flags `requested`, or a read-only one where nothing else is possible.
    fn connect(&self, requested: OpenFlags) -> rusqlite::Result<Connection> {
        let possible = if self.is_read_only {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        } else {
            requested
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

    /// The error for `failure` to open, with what the file system says about the file if SQLite gives no reason.
    fn explained(&self, failure: Failure) -> StoreError {
        let cannot_open = matches!(&failure, Failure::Sql(error) if matches!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly | rusqlite::ErrorCode::SystemIoFailure)
        ));
        match (failure, self.file.as_deref()) {
            (Failure::Sql(_), Some(_)) if cannot_open && self.is_read_only => {
                self.unwritable("it was not closed: the log beside it can only be read if the folder is writable")
            }
            (Failure::Sql(error), Some(file)) if cannot_open => match obstacle(file) {
                Some((path, cause)) => self.unavailable("open", path, cause),
                None => explained(error, "open", &self.location),
            },
            (failure, _) => failure.into_error("open", &self.location),
        }
    }

    fn unavailable(&self, doing: &'static str, location: String, cause: std::io::Error) -> StoreError {
        StoreError::Unavailable {
            doing,
            location,
            reason: in_words(&cause),
            source: Some(Box::new(cause)),
        }
    }
}

/// Refuses a file that is too short for SQLite, which would take it for an empty one and initialise it.
///
/// An empty file alone is a store that is still to be created: creating one begins like that, and so do programs that
/// draw a temporary name. With a write-ahead log beside it, which SQLite would discard, it was a store that lost its
/// content: the log is written after the first page.
pub(super) fn check_length(file: &Path, location: &str) -> Result<(), Failure> {
    // Errors are reported when the file is read. The log first: another process that is creating the store meanwhile
    // makes the file longer before that.
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

/// Whether there is anything in the write-ahead log of `file`.
pub(super) fn has_log(file: &Path) -> bool {
    log_of(file).metadata().is_ok_and(|log| log.len() > 0)
}

/// The path of the write-ahead log of `file`.
fn log_of(file: &Path) -> PathBuf {
    with_suffix(file, "-wal")
}

/// The path beside `file` whose name has this `suffix`.
pub(super) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Whether the file exists and can be read, but nothing can be written beside it: its folder belongs to somebody else,
/// or the whole file system is read-only.
fn may_only_be_read(file: &Path) -> bool {
    let may = |path: &Path, rights| rustix::fs::access(path, rights).is_ok();
    let folder = file.parent().unwrap_or(file);
    may(file, rustix::fs::Access::READ_OK) && !may(folder, rustix::fs::Access::WRITE_OK)
}

/// The URI with which SQLite reads `file` without writing anything beside it.
///
/// If another process has it open, or left it behind, there is a write-ahead log, which is read as well. Otherwise the
/// file is opened as immutable.
pub(super) fn read_only_uri(file: &Path) -> PathBuf {
    match has_log(file) {
        true => uri(file, "mode=ro"),
        false => immutable_uri(file),
    }
}

/// The URI with which SQLite reads `file` alone, without locks and without the write-ahead log beside it.
pub(super) fn immutable_uri(file: &Path) -> PathBuf {
    uri(file, "immutable=1")
}

fn uri(file: &Path, how: &str) -> PathBuf {
    let mut name = "file:".to_owned();
    for byte in file.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => name.push(char::from(*byte)),
            byte => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name.push('?');
    name.push_str(how);
    name.into()
}

fn flags(requested: OpenFlags) -> OpenFlags {
    requested | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI
}

/// Sets up what every connection needs.
pub(super) fn set_up(conn: &mut Connection) -> Result<(), Failure> {
    conn.busy_handler(Some(busy::patience(BUSY_WAIT)))?;
    conn.set_prepared_statement_cache_capacity(96);
    // Otherwise a statement is planned again whenever a bound value could affect its plan.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // A store has neither triggers nor views. Those in a file that somebody else made would act with each write.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.execute_batch(
        "PRAGMA foreign_keys = off; PRAGMA trusted_schema = off; PRAGMA cell_size_check = on; PRAGMA temp_store = memory",
    )?;
    Ok(())
}

/// Creates the file for its owner alone, if it does not exist and can be created. The files that SQLite creates beside
/// it get the same permissions. If the name is a dangling link, the file is created at its target.
fn make_private(file: &Path) {
    // If it cannot be created, SQLite reports why.
    let _made = private::options().write(true).create_new(true).open(made_at(file));
}

/// The path at which `file` is created: its target, if it is a link.
pub(super) fn made_at(file: &Path) -> PathBuf {
    let mut file = file.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(leads_to) = file.read_link() else { break };
        file = file
            .parent()
            .map_or_else(|| leads_to.clone(), |folder| folder.join(&leads_to));
    }
    file
}

/// Creates `folder` and all missing folders above it for their owner alone, durably, so that their names survive a
/// power loss.
pub(super) fn make_folders(folder: &Path) -> std::io::Result<()> {
    let missing: Vec<_> = folder
        .ancestors()
        .take_while(|f| !f.as_os_str().is_empty() && !f.exists())
        .collect();
    private::make_folders(folder)?;
    for made_folder in missing {
        sync_folder_of(made_folder)?;
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

/// What prevents `file` from being opened, as far as the file system tells: the path, and the reason.
///
/// Only checks permissions. Opening and closing the file here would drop the locks that SQLite holds on it.
pub(super) fn obstacle(file: &Path) -> Option<(String, std::io::Error)> {
    let both = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    if file.is_dir() {
        return Some((file.display().to_string(), std::io::ErrorKind::IsADirectory.into()));
    }
    // The write-ahead log and its index lie beside the file, so the folder must be writable as well.
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
        Kind::NotADirectory | Kind::AlreadyExists => "a part of its path is a file, not a folder".to_owned(),
        Kind::StorageFull => "the disk is full".to_owned(),
        Kind::InvalidFilename => "its name, or that of a file beside it, is too long".to_owned(),
        _ => error.to_string(),
    }
}
