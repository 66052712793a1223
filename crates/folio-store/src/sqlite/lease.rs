//! Tells whether a process that drives runs is still alive.
//!
//! Two signs must agree. The process holds a lock on a file beside the database, which the kernel releases the moment
//! the process is gone, so that a run whose driver was killed can be taken over at once. And it renews its lease every
//! few seconds, so that a process that hangs can be replaced; when it wakes up again, its fence is no longer the
//! current one. After the whole machine slept, or its clock was set forward, all leases have expired: therefore an
//! owner that holds its lock gets time to renew its lease while somebody watches (decision 0096).

use std::collections::{HashMap, HashSet};
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use folio_memory::{RunId, SpaceName};
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::error::Failure;
use crate::error::{StoreError, released_owner};
use crate::private;
use crate::silence::{Life, RENEWAL_GRACE, Silence, millis};
use crate::store::OwnerId;

/// The database's clock in milliseconds: one clock for all processes.
const NOW: &str = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// Rows of owners that were silent for this long are deleted.
const FORGOTTEN_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

/// The owners in this process, and a way to ask about others.
#[derive(Debug)]
pub(super) struct Owners {
    /// The database file; `None` if it is in memory, where there are no other processes.
    file: Option<PathBuf>,
    lease: Duration,
    here: Mutex<Here>,
}

#[derive(Debug, Default)]
struct Here {
    /// Locked files. `None` where another store of this process holds the lock for the same owner.
    locks: HashMap<OwnerId, Option<File>>,
    /// The runs that are driven, each with its driver.
    runs: HashMap<(SpaceName, RunId), OwnerId>,
    /// Owners of other processes that are there but were silent when last looked at.
    silent: HashMap<OwnerId, Silence>,
    /// Owners that claim nothing any more, although a claim of theirs may still be under way.
    released: HashSet<OwnerId>,
}

impl Owners {
    pub(super) fn new(file: Option<PathBuf>, lease: Duration) -> Self {
        Self {
            file,
            lease,
            here: Mutex::default(),
        }
    }

    /// How long a driver of runs counts as alive without renewing its lease.
    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// How often drivers of runs renew their leases.
    pub(super) fn renewed_every(&self) -> Duration {
        self.lease / 3
    }

    /// Records that `owner`, in this process, drives `run`.
    pub(super) fn record_driving(&self, space: &SpaceName, run: RunId, owner: &OwnerId) {
        let mut here = self.here();
        if !here.released.contains(owner) {
            here.runs.insert((space.clone(), run), owner.clone());
        }
    }

    /// Records that no owner in this process drives `run` any more.
    pub(super) fn record_release(&self, space: &SpaceName, run: RunId) {
        self.here().runs.remove(&(space.clone(), run));
    }

    /// Whether any owner in this process drives a run.
    pub(super) fn are_driving(&self) -> bool {
        !self.here().runs.is_empty()
    }

    /// Takes the lock by which others see that `owner` is alive. Does nothing if it is held already. Refused if the owner
    /// was released.
    pub(super) fn hold(&self, owner: &OwnerId) -> Result<(), Failure> {
        let mut here = self.here();
        if here.released.contains(owner) {
            return Err(released_owner().into());
        }
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
                take(&path, file).map_err(|error| StoreError::Unavailable {
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

    /// Frees the lock of `owner`, which drives nothing any more, or is taken not to.
    pub(super) fn release(&self, owner: &OwnerId) {
        let mut here = self.here();
        here.released.insert(owner.clone());
        here.runs.retain(|_, driver| driver != owner);
        let lock = here.locks.remove(owner).flatten();
        if let (Some(file), Some(lock)) = (&self.file, lock) {
            remove(file, owner, lock);
        }
    }

    /// Renews the lease of `owner`.
    pub(super) fn renew(&self, conn: &Connection, owner: &OwnerId) -> Result<(), Failure> {
        renew(conn, owner, self.lease)
    }

    /// Renews the leases of all owners in this process for `lease`, and deletes the rows of those long gone.
    pub(super) fn renew_all(&self, conn: &Connection, lease: Duration) -> Result<(), Failure> {
        let owners: Vec<_> = self.here().locks.keys().cloned().collect();
        for owner in owners {
            renew(conn, &owner, lease)?;
        }
        conn.prepare_cached(&format!("DELETE FROM owner WHERE until < {NOW} - {FORGOTTEN_AFTER_MS}"))?
            .execute([])?;
        Ok(())
    }

    /// Whether `owner` is alive, as far as is known.
    pub(super) fn is_alive(&self, conn: &Connection, owner: &OwnerId) -> Result<bool, Failure> {
        Ok(self.life_of(conn, owner)? != Life::Gone)
    }

    /// Whether `owner` is there and goes on.
    pub(super) fn life_of(&self, conn: &Connection, owner: &OwnerId) -> Result<Life, Failure> {
        if self.here().locks.contains_key(owner) {
            return Ok(Life::GoesOn);
        }
        let Some(file) = &self.file else { return Ok(Life::Gone) };
        if !may_be_locked(&lock_path(file, owner)) {
            self.here().silent.remove(owner);
            return Ok(Life::Gone);
        }
        let sql = format!("SELECT (SELECT until FROM owner WHERE id = ?1), {NOW}");
        let lease_row = conn
            .prepare_cached(&sql)?
            .query_row([&owner.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let patience = self.renewed_every() + RENEWAL_GRACE;
        let mut here = self.here();
        let mut silence = here.silent.remove(owner);
        let life = Silence::judged(&mut silence, lease_row, Instant::now(), patience);
        if let Some(silence) = silence {
            here.silent.insert(owner.clone(), silence);
        }
        Ok(life)
    }

    /// Forgets for how long owners have been silent: nobody could write. Each has to be silent while it could.
    pub(super) fn forget_silence(&self) {
        self.here().silent.clear();
    }

    /// A description of an `owner` that is alive.
    pub(super) fn describe(&self, owner: &OwnerId) -> Option<String> {
        if self.here().locks.contains_key(owner) {
            return Some("another runner of this process".to_owned());
        }
        let text = std::fs::read_to_string(lock_path(self.file.as_deref()?, owner)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn here(&self) -> MutexGuard<'_, Here> {
        self.here.lock()
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        let locks = std::mem::take(&mut self.here().locks);
        for (owner, lock) in locks {
            if let (Some(file), Some(lock)) = (&self.file, lock) {
                remove(file, &owner, lock);
            }
        }
    }
}

/// Removes the file by whose lock others see that `owner` is alive, and then the lock.
fn remove(store: &Path, owner: &OwnerId, lock: File) {
    // A file that stays behind is removed by the next process that drives runs.
    std::fs::remove_file(lock_path(store, owner)).unwrap_or_default();
    drop(lock);
}

/// Renews the lease of `owner` for `lease`.
fn renew(conn: &Connection, owner: &OwnerId, lease: Duration) -> Result<(), Failure> {
    let sql = format!(
        "INSERT INTO owner (id, until) VALUES (?1, {NOW} + ?2) ON CONFLICT (id) DO UPDATE SET until = excluded.until"
    );
    conn.prepare_cached(&sql)?.execute(params![owner.0, millis(lease)])?;
    Ok(())
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

/// Creates and locks the file at `path`, which whoever may open the store may open, too; `None` if another store of
/// this process has locked it for the same owner.
fn take(path: &Path, store: &Path) -> std::io::Result<Option<File>> {
    // A process that checks whether the lock is held holds it itself for a moment; so does one that cleans up, which
    // may also remove the file before it is locked.
    for _ in 0..100 {
        let mut file = private::options().create(true).truncate(false).write(true).open(path)?;
        private::share_as(&file, store);
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

/// Whether the lock at `path` is held, or cannot be checked: the file belongs to another user, or no more files can be
/// opened. Then the owner's lease decides.
fn may_be_locked(path: &Path) -> bool {
    match File::open(path) {
        // A shared lock, so that two processes that check at the same time do not take each other for the owner.
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
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
            // Removed while locked: an owner that is just creating it sees that it is gone and creates another.
            std::fs::remove_file(&path).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn owner(name: &str) -> OwnerId {
        OwnerId(name.to_owned())
    }

    #[test]
    fn owner_with_unreadable_lock_goes_on_until_its_lease_expires() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("folio.db");
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE owner (id TEXT PRIMARY KEY, until INTEGER NOT NULL)")
            .unwrap();
        let lease = Duration::from_secs(60);
        let owners = Owners::new(Some(file.clone()), lease);
        let (hidden, gone) = (owner("hidden"), owner("gone"));
        for owner in [&hidden, &gone] {
            renew(&conn, owner, lease).unwrap();
        }
        // A link to itself, which nobody can open.
        let lock = lock_path(&file, &hidden);
        symlink(&lock, &lock).unwrap();
        assert_eq!(owners.life_of(&conn, &hidden).unwrap(), Life::GoesOn);
        assert_eq!(owners.life_of(&conn, &gone).unwrap(), Life::Gone);
        conn.execute("UPDATE owner SET until = 0", []).unwrap();
        assert_eq!(owners.life_of(&conn, &hidden).unwrap(), Life::Silent);
    }

    #[test]
    fn lock_file_gets_the_permissions_of_its_store() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("folio.db");
        File::create(&file).unwrap();
        for mode in [0o600, 0o660, 0o644] {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let (owners, owner) = (
                Owners::new(Some(file.clone()), Duration::from_secs(60)),
                owner(&mode.to_string()),
            );
            owners.hold(&owner).unwrap();
            let lock = lock_path(&file, &owner).metadata().unwrap();
            assert_eq!(lock.permissions().mode() & 0o777, mode, "{mode:o}");
        }
    }
}
