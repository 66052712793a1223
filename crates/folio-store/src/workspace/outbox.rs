//! The outbox: a file beside the store in which answers of tools wait while the store cannot be written; each is
//! delivered once (M7.3.26).
//!
//! It holds one line of JSON for each answer, appended and flushed to disk. The lines contain the ids of the entries,
//! so delivering a line twice, because the process died before the file was emptied, adds nothing. The file is locked
//! while it is read or written, but not while its lines are delivered: further answers are appended meanwhile, however
//! long the store takes. A lock file beside it keeps others from delivering the same lines, and from forgetting what is
//! under way. What was delivered is removed only when all of it is delivered; lines of a newer version stay for that
//! version.

mod forgetting;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use folio_memory::tool_exchange::Channel;
use folio_memory::trace::{FAILED, REJECTED};
use folio_memory::{Actor, Change, NewEntry, SpaceName, ThreadKey, Timestamp, TraceNote};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use super::ingest::Ready;
use super::operation_notes::error_detail;
use super::{Workspace, WorkspaceError, redact};
use crate::error::StoreError;
use crate::private;

pub(super) use forgetting::Unwanted;

/// The format version of a line.
const FORMAT: u32 = 1;
/// How many bytes may wait. Beyond that, the store has been gone for longer than a file beside it can bridge.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// One answer that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Spooled {
    v: u32,
    space: SpaceName,
    actor: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<ThreadKey>,
    at: Timestamp,
    items: Vec<SpooledItem>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SpooledItem {
    channel: Channel,
    index: usize,
    new: Box<NewEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registers: Option<Change>,
}

/// The outcome of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Delivered {
    /// Items that are in memory now and were not before.
    pub items: usize,
    /// Items that existed already: an earlier delivery was interrupted before it emptied the file.
    pub replayed: usize,
    /// Items that the store does not accept. They are in the trace.
    pub rejected: usize,
    /// Lines that cannot be read, for example because the process died while writing them. They are kept in a file
    /// beside the outbox.
    pub damaged: usize,
}

impl Spooled {
    pub(super) fn of(
        space: &SpaceName,
        actor: &Actor,
        thread: Option<&ThreadKey>,
        at: Timestamp,
        ready: &[Ready],
    ) -> Self {
        let item = |item: &Ready| SpooledItem {
            channel: item.channel,
            index: item.index,
            new: item.new.clone(),
            registers: item.registers.clone(),
        };
        Self {
            v: FORMAT,
            space: space.clone(),
            actor: actor.clone(),
            thread: thread.cloned(),
            at,
            items: ready.iter().map(item).collect(),
        }
    }

    /// The items as they are recorded. An item with an expiry held when it was noticed, so that instant is recorded as
    /// its validation, from which its lifetime is measured (M7.1.6): one that is recorded later, even after it expired,
    /// gets the same lifetime again when somebody confirms it.
    fn ready(&self) -> Vec<Ready> {
        let item = |item: &SpooledItem| {
            let mut new = item.new.clone();
            if new.fields.lifetime.expires_at().is_some() {
                new.fields.validated_at.get_or_insert(self.at);
            }
            Ready {
                channel: item.channel,
                index: item.index,
                new,
                registers: item.registers.clone(),
            }
        };
        self.items.iter().map(item).collect()
    }
}

impl Workspace {
    /// Returns the same space with a file in which answers of tools wait while the store cannot be written. Set it
    /// once, before anything is written; a second call changes nothing.
    #[must_use]
    pub fn with_outbox(self, file: PathBuf) -> Self {
        self.inner.outbox.get_or_init(|| file);
        self
    }

    /// The file in which answers of tools wait, if any.
    #[must_use]
    pub fn outbox(&self) -> Option<&Path> {
        self.inner.outbox.get().map(PathBuf::as_path)
    }

    /// Puts `spooled` into the outbox; it is on disk when this returns. The error is the reason in words.
    pub(super) async fn spool(&self, mut spooled: Spooled) -> Result<(), String> {
        let Some(file) = self.outbox().map(Path::to_owned) else {
            return Err("there is no outbox beside this store".to_owned());
        };
        let mode = self.redaction_in_trouble();
        for item in &mut spooled.items {
            redact::clean_new(&mut item.new, item.registers.as_mut(), mode);
        }
        let line = serde_json::to_string(&spooled).map_err(|error| error.to_string())?;
        let written = tokio::task::spawn_blocking(move || append(&file, &line));
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("the outbox cannot be written: {error}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Delivers what waits in the outbox, once. Does nothing if there is no outbox, if nothing waits, or if another
    /// process is delivering it.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the file or the store cannot be used: then everything keeps waiting.
    pub async fn deliver_outbox(&self) -> Result<Delivered, WorkspaceError> {
        let Some(file) = self.outbox().filter(|_| self.has_waiting()) else {
            return Ok(Delivered::default());
        };
        let path = file.to_owned();
        let opened = tokio::task::spawn_blocking(move || take(&path)).await;
        let contents = opened.map_err(io::Error::other).and_then(|opened| opened);
        let Some((delivering, bytes)) = contents.map_err(|error| self.outbox_failed("read", error))? else {
            return Ok(Delivered::default());
        };
        let mut delivered = Delivered::default();
        // Lines written by a newer version, which will deliver them.
        let mut others = Vec::new();
        let mut damaged = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if is_newer(line) {
                others.extend_from_slice(line);
                others.push(b'\n');
                continue;
            }
            let Ok(spooled) = serde_json::from_slice::<Spooled>(line) else {
                delivered.damaged += 1;
                damaged.extend_from_slice(line);
                damaged.push(b'\n');
                continue;
            };
            let mut space = self.clone();
            if spooled.space != *self.space() {
                space = self.beside(spooled.space.clone());
            }
            let ready = spooled.ready();
            // Items are recorded now, with the lifetimes meant when they were made.
            let at = spooled.at.max(space.now());
            let batch = space
                .write_items(&spooled.actor, &ready, spooled.thread.as_ref(), at)
                .await
                .inspect_err(|error| {
                    // In the trace of its own space: no other learns who noticed something there.
                    let note = TraceNote::new(self.now(), &spooled.actor, "scratch_page", "deliver_observations");
                    space.note(note.with_status(FAILED).with_detail(error_detail(error)));
                })?;
            delivered.items += batch.stored.len() - batch.replayed;
            delivered.replayed += batch.replayed;
            delivered.rejected += batch.rejected.len();
            for rejection in &batch.rejected {
                let note = TraceNote::new(self.now(), &spooled.actor, "scratch_page", "deliver_observations");
                space.note(note.with_status(REJECTED).with_detail(json!(rejection)));
            }
            let note = TraceNote::new(self.now(), &spooled.actor, "scratch_page", "deliver_observations");
            space.note(note.with_detail(json!({
                "items": batch.stored.len() - batch.replayed, "replayed": batch.replayed, "noticed_at": spooled.at,
            })));
        }
        if others == bytes {
            return Ok(delivered);
        }
        let path = file.to_owned();
        let emptied = tokio::task::spawn_blocking(move || {
            let removed = remove(&path, &bytes, &damaged, &others);
            drop(delivering);
            removed
        });
        let emptied = emptied.await;
        let emptied = emptied.map_err(io::Error::other).and_then(|emptied| emptied);
        emptied.map_err(|error| self.outbox_failed("empty", error))?;
        if delivered.damaged > 0 {
            let note = self.noted("scratch_page", "deliver_observations").with_status(FAILED);
            self.note(note.with_detail(json!({"damaged_lines": delivered.damaged})));
        }
        Ok(delivered)
    }

    /// Whether something waits in the outbox.
    fn has_waiting(&self) -> bool {
        let length = self.outbox().and_then(|file| std::fs::metadata(file).ok());
        length.is_some_and(|metadata| metadata.len() > 0)
    }

    /// Delivers what waits in the outbox, for as long as it takes. Returns whether that was done `until` then, or failed
    /// for another reason than the store.
    pub(super) async fn older_are_delivered(&self, until: Instant) -> bool {
        if !self.has_waiting() {
            return true;
        }
        let workspace = self.clone();
        // Goes on even if nobody waits for it any more: it would begin at the first line again.
        let delivering = tokio::spawn(async move { workspace.deliver_outbox().await });
        match tokio::time::timeout_at(until, delivering).await {
            Ok(Ok(Err(WorkspaceError::Store(StoreError::Unavailable { location, .. })))) => {
                self.outbox().is_some_and(|file| file.display().to_string() == location)
            }
            Ok(_) => true,
            Err(_) => false,
        }
    }

    /// Removes what is `unwanted` from the outbox and from its file of damaged lines; only counts if `changes` is
    /// false. Returns the number of items and lines.
    pub(super) async fn forget_waiting(&self, unwanted: Unwanted, changes: bool) -> Result<usize, WorkspaceError> {
        let Some(path) = self.outbox().map(Path::to_owned) else {
            return Ok(0);
        };
        let done = tokio::task::spawn_blocking(move || forgetting::forget(&path, &unwanted, changes)).await;
        let done = done.map_err(io::Error::other).and_then(|done| done);
        done.map_err(|error| self.outbox_failed("clean", error))
    }

    fn outbox_failed(&self, doing: &'static str, error: io::Error) -> WorkspaceError {
        let location = self.outbox().map(|file| file.display().to_string()).unwrap_or_default();
        let store = StoreError::Unavailable {
            doing,
            location,
            reason: error.to_string(),
            source: Some(Box::new(error)),
        };
        store.into()
    }
}

/// Whether a newer version wrote `line`. Only the version field is known to be readable.
fn is_newer(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    serde_json::from_slice(line).is_ok_and(|Version { v }| v > FORMAT)
}

/// Appends `line`, durably. An earlier line that was not completed stays a line of its own.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let is_new = !path.exists();
    if is_new && let Some(folder) = path.parent() {
        private::make_folders(folder)?;
    }
    let mut file = private::options().read(true).append(true).create(true).open(path)?;
    file.lock()?;
    let length = file.metadata()?.len();
    if length + line.len() as u64 > BYTES_MAX {
        let message = format!("{length} bytes are waiting already; the limit is {BYTES_MAX}");
        return Err(io::Error::new(io::ErrorKind::StorageFull, message));
    }
    let mut text = String::with_capacity(line.len() + 2);
    if length > 0 {
        let mut last = [0];
        file.seek(io::SeekFrom::Start(length - 1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.push('\n');
        }
    }
    text.push_str(line);
    text.push('\n');
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Half a line would only be in the way. If cutting it off fails too, it counts as damaged later.
        file.set_len(length).unwrap_or_default();
        return Err(error);
    }
    if is_new && let Some(folder) = path.parent() {
        // The entry of the file in its folder must be durable, too. Where folders cannot be synced, nothing more can be
        // done.
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .unwrap_or_default();
    }
    Ok(())
}

/// Takes the right to deliver what waits, until the returned lock is dropped, and reads it; `None` if nothing waits or
/// another process is delivering it.
fn take(path: &Path) -> io::Result<Option<(File, Vec<u8>)>> {
    let mut file = match File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let delivering = open_delivery_lock(path)?;
    match delivering.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
        Err(std::fs::TryLockError::Error(error)) => return Err(error),
    }
    // Earlier versions hold this lock while they deliver.
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
        Err(std::fs::TryLockError::Error(error)) => return Err(error),
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some((delivering, bytes)))
}

/// Opens the file that is locked while lines of the outbox at `path` are delivered or forgotten.
fn open_delivery_lock(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".delivering");
    private::options().append(true).create(true).open(name)
}

/// The file for unreadable lines of the outbox at `path`.
fn damaged_lines_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    name.into()
}

/// Removes `delivered`, the bytes that the file at `path` began with, except for the lines of `others`, after saving
/// unreadable lines elsewhere. What was appended since stays. Does nothing if the file begins with something else by
/// now, because an earlier version has delivered it as well: what is delivered twice is stored once.
fn remove(path: &Path, delivered: &[u8], damaged: &[u8], others: &[u8]) -> io::Result<()> {
    let mut file = File::options().read(true).write(true).open(path)?;
    file.lock()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let Some(appended) = bytes.strip_prefix(delivered) else {
        return Ok(());
    };
    let left = [others, appended].concat();
    if !damaged.is_empty() {
        let mut damaged_file = private::options()
            .append(true)
            .create(true)
            .open(damaged_lines_path(path))?;
        damaged_file.write_all(damaged)?;
        damaged_file.sync_all()?;
    }
    if !left.is_empty() {
        // The lines are first appended, then written to the front: if the process dies in between, they are in the file
        // twice and are still delivered once. A fragment of a delivered line may then remain, which counts as damaged.
        let length = file.seek(io::SeekFrom::End(0))?;
        let written = file.write_all(b"\n").and_then(|()| file.write_all(&left));
        if let Err(error) = written.and_then(|()| file.sync_all()) {
            file.set_len(length).unwrap_or_default();
            return Err(error);
        }
        file.rewind()?;
        file.write_all(&left)?;
        file.sync_all()?;
    }
    file.set_len(left.len() as u64)?;
    file.sync_all()
}
