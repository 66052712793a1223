//! The single form in which everything is written.

use std::fmt;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use folio_engine::Event;
use folio_engine::run::RunSummary;
use folio_memory::canonical::digest_of;
use folio_memory::history::FieldConflict;
use folio_memory::id::RunHandle;
use folio_memory::{Actor, Change, EntryHandle, EntryId, PageHandle, PageId, RunId, Seq, SpaceName, Timestamp, TurnId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The version of [`Record`] that this build writes.
pub const RECORD_FORMAT: u32 = 1;

/// Size in bytes from which a commit counts as large.
const LARGE: u64 = 128 * 1024;

/// An atomic write.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The space to which the commit belongs.
    pub space: SpaceName,
    /// The time of the commit by the writer's clock. The store makes sure that the times of a space never run
    /// backwards.
    pub at: Timestamp,
    /// The actor who makes the commit.
    pub actor: Actor,
    /// A second commit in the space with the same key does nothing and returns the answer of the first. If the records
    /// of both say what was requested and the requests differ, the second is refused.
    pub idempotency_key: Option<String>,
    /// Preconditions; if one does not hold, nothing is written.
    pub expected: Vec<Expected>,
    /// What the commit does.
    pub record: Record,
    /// Bodies that the record refers to by hash. A body that the store already has is not written again.
    pub blobs: Vec<Blob>,
}

impl Commit {
    /// Whether hashing, compressing and serialising the commit takes so long that it belongs on a thread for blocking
    /// work. Counts sizes only until that is clear, and serialises nothing.
    pub(crate) fn is_large(&self) -> bool {
        let blobs = self.blobs.iter().map(|blob| blob.bytes().len() as u64);
        let changes = self.record.changes.iter().map(Change::bytes);
        let events = self
            .record
            .run
            .iter()
            .flat_map(|run| run.events.iter().map(Event::bytes));
        let mut all = blobs.chain(changes).chain(events);
        let room = all.try_fold(LARGE - 1, |room: u64, bytes| room.checked_sub(bytes));
        room.is_none()
    }
}

/// A precondition of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// The journal of a run ends at this commit, and the writer still holds the run under this fence.
    RunHead {
        /// The run.
        run: RunId,
        /// Where its journal ends.
        head: Seq,
        /// The fence with which the writer claimed the run; `None` for those who only request something of a run.
        fence: Option<u64>,
    },
    /// The space has not grown beyond this commit.
    SpaceHead(Seq),
    /// Memory has not been changed in this turn after this commit, so what was read as of it is all that the turn wrote
    /// (M7.6.47).
    TurnHead {
        /// The turn.
        turn: TurnId,
        /// The last commit that the writer has read.
        head: Seq,
    },
    /// The policy of the space is at this version, so the rules that the writer followed still apply. Not checked for a
    /// replay.
    Policy(u32),
    /// The resources that calls of this run write from this commit on, as a complete list. None of them may overlap
    /// with what calls of another run write while the driver of that run may still write (E9.15). The run holds these
    /// names until a commit says otherwise or its driver may no longer write. Must come after the run's
    /// [`RunHead`](Self::RunHead).
    ///
    /// If another run holds an overlapping name, and its driver is gone or has been silent for longer than its lease,
    /// that run is released in its driver's name: the fence then refuses whatever that driver writes later.
    Writes {
        /// The run.
        run: RunId,
        /// Paths with `/` between their parts. Two overlap if they are the same or one lies inside the other.
        names: Vec<String>,
    },
    /// An entry may take the place of others (M7.4.37): lists show it, or it has the place of all of them already, and
    /// neither it nor what took its place, and so on, is one of them.
    MayReplace {
        /// The entry.
        by: EntryId,
        /// The others.
        entries: Vec<EntryId>,
    },
    /// A piece of work may be made to wait for others: none of them is that piece or waits for it, however indirectly.
    MayWait {
        /// The piece of work.
        entry: EntryId,
        /// The others.
        others: Vec<EntryId>,
    },
    /// A piece of work may be begun, unless it has begun already: everything that it waits for is done (M7.4.35).
    MayBegin {
        /// The piece of work.
        entry: EntryId,
    },
    /// With what the commit adds, no entry takes its own place and no piece of work waits for itself. For a commit
    /// whose writer has looked before, but not at what others wrote since. As in that look, not more than ten thousand
    /// entries are followed.
    NoCircle,
}

/// What a commit does: the part that the log keeps for ever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version of this format.
    #[serde(rename = "v")]
    pub format: u32,
    /// Changes of memory, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// New events of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunAppend>,
    /// Why the commit was made, in the writer's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A fingerprint of the request that was made under the commit's key, if the caller gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Fingerprint>,
    /// Set if only numbers are left of this commit: which other commits it stands for. It is a row of the log like any
    /// other, but the missing numbers before it are not gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<Folded>,
    /// The run in which everything that the commit holds was done first: a fork repeats it, in the name of whoever did it
    /// there. The writer's words for why the commit was made say so, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<RunId>,
}

/// An idempotency key with a fingerprint of its request. A store refuses a different request under the same key instead
/// of returning the first answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    key: String,
    request: Fingerprint,
}

impl RequestKey {
    /// The key `key` for the request that consists of `parts`; `secret` is the caller's own key.
    ///
    /// The request may contain something that is forgotten later. Therefore it is hashed together with the secret,
    /// which is not stored where `key` is derived from it, and only a short part of the hash is kept.
    #[must_use]
    pub fn new(key: impl Into<String>, secret: &str, parts: &[&[u8]]) -> Self {
        let digest = digest_of([secret.as_bytes()].iter().chain(parts).copied());
        let request = Fingerprint(HEXLOWER.encode(&digest[..Fingerprint::BYTES]));
        Self {
            key: key.into(),
            request,
        }
    }

    /// The idempotency key of the commit.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The fingerprint of the request, as the record keeps it.
    #[must_use]
    pub fn request(&self) -> &Fingerprint {
        &self.request
    }

    /// The fingerprint for a commit with the key `key`; `None` if that is another key.
    pub(crate) fn request_under(&self, key: Option<&str>) -> Option<Fingerprint> {
        (key == Some(self.key.as_str())).then(|| self.request.clone())
    }
}

/// The caller of a request with a key, and its target. The same key from two callers, or for two targets, names two
/// requests.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// The surface by which the request came: `http`, `mcp`, `cli`.
    pub surface: &'a str,
    /// What is requested: a method, a tool, a command.
    pub verb: &'a str,
    /// The target: a path, a thread.
    pub place: &'a str,
    /// The actor who makes the request.
    pub actor: &'a Actor,
    /// The access token that was presented: two tokens with the same role and name are two callers.
    pub token: Option<&'a str>,
}

impl Asking<'_> {
    /// The key under which the store knows the request that its caller names `key` and that consists of `parts`. It
    /// does not contain the caller's own key, which may hold something that must not be kept.
    #[must_use]
    pub fn under(&self, key: &str, parts: &[&[u8]]) -> RequestKey {
        let actor = self.actor.to_string();
        // Without a token the key is the same as before tokens existed.
        let identity = [self.verb, self.place, &actor, key].into_iter().chain(self.token);
        let digest = HEXLOWER.encode(&digest_of(identity.map(str::as_bytes)));
        RequestKey::new(format!("{}:{digest}", self.surface), key, parts)
    }
}

/// Enough of a request's hash to tell it from others: 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    const BYTES: usize = 8;
}

/// What is left of commits whose content was erased long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folded {
    /// The first of the commits; the last one is the commit with this record.
    pub from: Seq,
    /// How many entries they had added.
    pub entries: u64,
}

impl Record {
    /// Whether memory may be something else afterwards, as far as that can be told without the entries: a change of any
    /// counts, of the step of a plan as well, and one that changes nothing.
    pub(crate) fn may_change_memory(&self) -> bool {
        self.changes.iter().any(|change| match change {
            Change::AddEntry(new) => new.kind.is_memory(),
            Change::PatchEntry { .. } | Change::EraseEntry { .. } => true,
            _ => false,
        })
    }

    /// A record of `changes` and nothing else.
    #[must_use]
    pub fn of(changes: Vec<Change>) -> Self {
        Self {
            format: RECORD_FORMAT,
            changes,
            run: None,
            reason: None,
            request: None,
            folded: None,
            copied_from: None,
        }
    }
}

/// New events of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunAppend {
    /// The run. A first event `run_started` creates it.
    pub run: RunId,
    /// The events, in order.
    pub events: Vec<Event>,
    /// The new status in the run's row; `None` leaves it unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The run's one-line title; only with the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What lists show of the run from now on. It can be derived from the journal, and is stored so that lists need not
    /// fold that. Older versions, which did not write it, leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub so_far: Option<RunSummary>,
}

/// The SHA-256 of a body, as 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobHash(pub String);

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A body, kept under the hash of its content. Cheap to clone.
#[derive(Clone)]
pub struct Blob {
    digest: [u8; 32],
    hash: BlobHash,
    bytes: Arc<Vec<u8>>,
}

impl Blob {
    /// Makes a body of `bytes` and computes its hash.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        let hash = BlobHash(HEXLOWER.encode(&digest));
        Self {
            digest,
            hash,
            bytes: Arc::new(bytes),
        }
    }

    /// The body's hash, which always matches its bytes.
    #[must_use]
    pub fn hash(&self) -> &BlobHash {
        &self.hash
    }

    /// The hash as 32 bytes.
    pub(crate) fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The body's bytes, as they were given.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes alone.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        Arc::unwrap_or_clone(self.bytes)
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.hash, self.bytes.len())
    }
}

/// The outcome of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The commit's number in the space.
    pub seq: Seq,
    /// The time of the commit, as the log has it.
    pub at: Timestamp,
    /// Whether an earlier commit with the same key was found, so that nothing was written now.
    pub replayed: bool,
    /// The entries that the commit added or changed, in the order of its changes.
    pub entries: Vec<CommittedEntry>,
    /// The pages that the commit added or found, in the order of its changes.
    pub pages: Vec<(PageId, PageHandle)>,
    /// The run to which the commit added events.
    pub run: Option<(RunId, RunHandle)>,
}

/// An entry that a commit added or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedEntry {
    /// The entry's id.
    pub id: EntryId,
    /// The entry's handle.
    pub handle: EntryHandle,
    /// Its version after this commit.
    pub version: u32,
    /// Whether the entry changed at all: a patch that sets what is already there changes nothing.
    pub changed: bool,
    /// Fields that the commit overwrote although others had changed them since the version that the writer had read.
    /// Empty for a replay.
    pub conflicts: Vec<FieldConflict>,
}

#[cfg(test)]
mod tests {
    use folio_memory::{EntryFields, EntryKind, NewEntry, Owner, Role, Trust};
    use serde_json::json;

    use super::*;

    fn commit(record: Record, blobs: Vec<Blob>) -> Commit {
        Commit {
            space: SpaceName::main(),
            at: Timestamp::default(),
            actor: Actor::new(Role::Human, "ada"),
            idempotency_key: None,
            expected: Vec::new(),
            record,
            blobs,
        }
    }

    fn of_a_run(event: Event) -> Record {
        let run = RunAppend {
            run: RunId::derived(&["run"]),
            events: vec![event],
            status: None,
            title: None,
            so_far: None,
        };
        Record {
            run: Some(run),
            ..Record::of(Vec::new())
        }
    }

    #[test]
    fn commit_size_counts_bodies_changes_and_events() {
        let half = "x".repeat(usize::try_from(LARGE / 2).unwrap());
        let mut fields = EntryFields::new(EntryKind::Note, Owner::agent(), Trust::User);
        fields.body.clone_from(&half);
        let note = Change::AddEntry(Box::new(NewEntry {
            id: EntryId::derived(&["note"]),
            page: PageId::derived(&["page"]),
            kind: EntryKind::Note,
            fields,
        }));
        let blob = Blob::new(half.clone().into_bytes());
        let expanded = |items| Event::Expanded {
            node: folio_engine::NodeId::root(RunId::derived(&["run"])),
            items,
            set_aside: None,
            limits: None,
        };
        for (is_large, record, blobs) in [
            (false, Record::of(Vec::new()), vec![]),
            (false, Record::of(vec![note.clone()]), vec![]),
            (false, Record::of(Vec::new()), vec![blob.clone()]),
            (true, Record::of(vec![note.clone()]), vec![blob]),
            (true, Record::of(vec![note.clone(), note]), vec![]),
            (false, of_a_run(expanded(vec![json!(half)])), vec![]),
            (true, of_a_run(expanded(vec![json!(half), json!(half)])), vec![]),
        ] {
            assert_eq!(commit(record, blobs).is_large(), is_large);
        }
    }
}
