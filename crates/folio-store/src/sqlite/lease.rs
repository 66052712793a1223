//! Whether a process that drives runs is still there.
//!
//! Two signs must agree. It holds a lock on a file beside the database, which the kernel takes away the moment the process
//! is gone, so a run whose driver was killed can be taken up at once. And it says every few seconds that it goes on, so
//! that one which hangs can be replaced; when it wakes up again, its fence is no longer the current one.

use std::collections::{HashMap, HashSet};
use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use folio_memory::{RunId, SpaceName};
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::error::Failure;
use crate::error::StoreError;
use crate::private;
use crate::store::OwnerId;

/// The database's clock, in milliseconds: one clock for all processes.
const NOW: &str = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// Rows of owners that were silent for this long are of no use to anybody.
const FORGOTTEN_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

/// The owners that live in this process, and a way to ask after others.
#[derive(Debug)]
pub(super) struct Owners {
    /// The database file; none if it is in memory, where nobody else can be.
    file: Option<PathBuf>,
    lease: Duration,
    here: Mutex<Here>,
}

#[derive(Debug, Default)]
struct Here {
    /// Locked files. `None` where another store of this process holds the lock for the same owner.
    locks: HashMap<OwnerId, Option<File>>,
    runs: HashSet<(SpaceName, RunId)>,
}

impl Owners {
    /// Nobody yet.
    pub(super) fn new(file: Option<PathBuf>, lease: Duration) -> Self {
        Self {
            file,
            lease,
            here: Mutex::default(),
        }
    }

    /// How long somebody who drives runs counts as alive without saying that he goes on.
    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// How often those who drive runs say that they go on.
    pub(super) fn renewed_every(&self) -> Duration {
        self.lease / 3
    }

    /// Notes that somebody of this process drives `run`.
    pub(super) fn drives(&self, space: &SpaceName, run: RunId) {
        self.here().runs.insert((space.clone(), run));
    }

    /// Notes that nobody of this process drives `run` any more.
    pub(super) fn gave_up(&self, space: &SpaceName, run: RunId) {
        self.here().runs.remove(&(space.clone(), run));
    }

    /// Whether anybody of this process drives a run.
    pub(super) fn are_driving(&self) -> bool {
        !self.here().runs.is_empty()
    }

    /// Makes `owner` visibly alive. Does nothing if it is already.
    pub(super) fn hold(&self, owner: &OwnerId) -> Result<(), Failure> {
        let mut here = self.here();
        if here
            .locks
            .get(owner)
            .is_some_and(|lock| lock.is_some() || self.file.is_none())
        {
            return Ok(());
        }
        let lock = match &self.file {
            None => None,
            Some(file) => {
                remove_left_over(file);
                let path = lock_path(file, owner);
                take(&path).map_err(|error| StoreError::Unavailable {
                    doing: "lock",
                    location: path.display().to_string(),
                    reason: error.to_string(),
                    source: Some(Box::new(error)),
                })?
            }
        };
        here.locks.insert(owner.clone(), lock);
        Ok(())
    }

    /// Says that `owner` goes on.
    pub(super) fn renew(&self, conn: &Connection, owner: &OwnerId) -> Result<(), Failure> {
        renew(conn, owner, self.lease)
    }

    /// Says that all owners of this process go on for so long, and forgets those who are long gone.
    pub(super) fn renew_all(&self, conn: &Connection, lease: Duration) -> Result<(), Failure> {
        let owners: Vec<_> = self.here().locks.keys().cloned().collect();
        for owner in owners {
            renew(conn, &owner, lease)?;
        }
        conn.prepare_cached(&format!("DELETE FROM owner WHERE until < {NOW} - {FORGOTTEN_AFTER_MS}"))?
            .execute([])?;
        Ok(())
    }

    /// Whether `owner` is there and goes on.
    pub(super) fn is_alive(&self, conn: &Connection, owner: &OwnerId) -> Result<bool, Failure> {
        if self.here().locks.contains_key(owner) {
            return Ok(true);
        }
        let Some(file) = &self.file else { return Ok(false) };
        let sql = format!("SELECT until >= {NOW} FROM owner WHERE id = ?1");
        let goes_on = conn
            .prepare_cached(&sql)?
            .query_row([&owner.0], |row| row.get(0))
            .optional()?;
        Ok(goes_on.unwrap_or(false) && is_locked(&lock_path(file, owner)))
    }

    /// What can be said of an `owner` that is alive.
    pub(super) fn describe(&self, owner: &OwnerId) -> Option<String> {
        if self.here().locks.contains_key(owner) {
            return Some("another runner of this process".to_owned());
        }
        let text = std::fs::read_to_string(lock_path(self.file.as_deref()?, owner)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn here(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        let locks = std::mem::take(&mut self.here().locks);
        for (owner, lock) in locks {
            if let (Some(file), Some(lock)) = (&self.file, lock) {
                // What stays behind is removed by the next process that drives runs.
                std::fs::remove_file(lock_path(file, &owner)).unwrap_or_default();
                drop(lock);
            }
        }
    }
}

/// Says that `owner` goes on for so long.
fn renew(conn: &Connection, owner: &OwnerId, lease: Duration) -> Result<(), Failure> {
    let sql = format!(
        "INSERT INTO owner (id, until) VALUES (?1, {NOW} + ?2) ON CONFLICT (id) DO UPDATE SET until = excluded.until"
    );
    conn.prepare_cached(&sql)?.execute(params![owner.0, millis(lease)])?;
    Ok(())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

/// The file by whose lock others see that `owner` is alive.
fn lock_path(file: &Path, owner: &OwnerId) -> PathBuf {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name = if !owner.0.is_empty() && owner.0.len() <= 64 && owner.0.chars().all(plain) {
        owner.0.clone()
    } else {
        HEXLOWER.encode(&Sha256::digest(owner.0.as_bytes())[..16])
    };
    let mut path = file.as_os_str().to_owned();
    path.push(format!("{INFIX}{name}{SUFFIX}"));
    path.into()
}

const INFIX: &str = "-owner-";
const SUFFIX: &str = ".lock";

/// Makes and locks the file at `path`; `None` if a namesake in this process has it.
fn take(path: &Path) -> std::io::Result<Option<File>> {
    // Somebody who looks whether the lock is held, holds it himself for a moment; so does somebody who tidies up, and he
    // may also remove the file before it is locked.
    for _ in 0..100 {
        let mut file = private::options().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) if path.exists() => {
                file.set_len(0)?;
                writeln!(file, "process {}", std::process::id())?;
                return Ok(Some(file));
            }
            Ok(()) | Err(TryLockError::WouldBlock) => {
                #[expect(clippy::disallowed_methods, reason = "on the thread of the store, for a moment")]
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

/// Whether somebody holds the lock at `path`.
fn is_locked(path: &Path) -> bool {
    // A shared lock, so that two who look at the same time do not take each other for the owner.
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Removes the lock files of processes that are gone.
fn remove_left_over(file: &Path) {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        return;
    };
    let Ok(found) = std::fs::read_dir(folder) else { return };
    let prefix = format!("{name}{INFIX}");
    for path in found.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let is_lock = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.strip_prefix(&prefix).is_some_and(|rest| rest.ends_with(SUFFIX)));
        if is_lock
            && let Ok(lock) = File::open(&path)
            && lock.try_lock().is_ok()
        {
            // Removed while locked: its owner, should it just be making it, sees that it is gone and makes another.
            std::fs::remove_file(&path).unwrap_or_default();
        }
    }
}
