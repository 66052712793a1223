//! The one shape of a write.

use std::fmt;

use data_encoding::HEXLOWER;
use folio_engine::Event;
use folio_engine::run::SoFar;
use folio_memory::canonical::digest_of;
use folio_memory::history::FieldConflict;
use folio_memory::id::RunHandle;
use folio_memory::{Actor, Change, EntryHandle, EntryId, PageHandle, PageId, RunId, Seq, SpaceName, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The version of [`Record`] that this build writes.
pub const RECORD_FORMAT: u32 = 1;

/// Bytes from which a commit is large.
const LARGE: u64 = 128 * 1024;

/// One write: everything in it is there, or nothing is.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Whose memory it changes.
    pub space: SpaceName,
    /// When, by the writer's clock. The store keeps instants of a space from running backwards.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// A second commit of the space with the same key does nothing and answers as the first did. If the records of both say what was
    /// asked for, and it is not the same, the second is refused.
    pub idempotency_key: Option<String>,
    /// What must hold, or nothing is written.
    pub expected: Vec<Expected>,
    /// What happens.
    pub record: Record,
    /// Bodies that the record refers to by hash. A body that is there already is not written again.
    pub blobs: Vec<Blob>,
}

impl Commit {
    /// Whether it has so much to be hashed, compressed and written out that it is prepared on a thread where that may take its time.
    /// Counts until that is known, and nothing is written out for it.
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

/// What a commit must find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// The journal of a run ends at this commit, and the writer still holds the run under this fence.
    RunHead {
        /// The run.
        run: RunId,
        /// Where its journal ends.
        head: Seq,
        /// The number under which the writer claimed it; `None` for those who only ask something of a run.
        fence: Option<u64>,
    },
    /// The space has not grown beyond this commit.
    SpaceHead(Seq),
    /// The policy of the space is at this version: what the writer went by still holds. A replay is not asked.
    Policy(u32),
    /// What calls of a run write from this commit on, all of it, meets nothing that calls of another run write whose driver may write (E9.15).
    /// The run has these names until a commit says otherwise, or its driver may not write any more. Comes behind the run's
    /// [`RunHead`](Self::RunHead).
    ///
    /// A run that has a name which is met, and whose driver is silent for longer than its lease or is gone, is given up in its name: what it
    /// writes later is refused by its fence.
    Writes {
        /// The run.
        run: RunId,
        /// Paths, whose parts stand between `/`. Two meet if they are the same, or one is inside of the other.
        names: Vec<String>,
    },
}

/// What a commit does: the part that the log keeps for ever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version of this form.
    #[serde(rename = "v")]
    pub format: u32,
    /// Changes of memory, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// What happened in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunAppend>,
    /// Why, in the writer's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was asked for under the key of this commit, if whoever did said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Fingerprint>,
    /// If nothing but numbers is left of this commit: which others it stands for. A row of the log like any other, but the
    /// numbers before it are not gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<Folded>,
}

/// An idempotency key, and what is asked for under it: asked for something else under the same key, a store refuses that and
/// does not answer as it did the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    key: String,
    request: Fingerprint,
}

impl RequestKey {
    /// `key`, for the request that `parts` say; `secret` is what the caller calls it by.
    ///
    /// What is asked for may hold what is forgotten later. So it is hashed together with the secret, which is not kept where `key` is
    /// made of it, and little of the hash is.
    #[must_use]
    pub fn new(key: impl Into<String>, secret: &str, parts: &[&[u8]]) -> Self {
        let digest = digest_of([secret.as_bytes()].iter().chain(parts).copied());
        let request = Fingerprint(HEXLOWER.encode(&digest[..Fingerprint::BYTES]));
        Self {
            key: key.into(),
            request,
        }
    }

    /// What the commit is known by.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What its record says of what is asked for.
    #[must_use]
    pub fn request(&self) -> &Fingerprint {
        &self.request
    }

    /// What a commit with the key `key` says of its request: nothing if it is another key.
    pub(crate) fn request_under(&self, key: Option<&str>) -> Option<Fingerprint> {
        (key == Some(self.key.as_str())).then(|| self.request.clone())
    }
}

/// Who asks for something under a key, and where: what two callers, or one caller in two places, call alike are two things.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// How it came here: `http`, `mcp`, `cli`.
    pub surface: &'a str,
    /// What is to be done: a method, a tool, a command.
    pub verb: &'a str,
    /// Where: a path, a thread.
    pub place: &'a str,
    /// Whoever asks.
    pub actor: &'a Actor,
    /// The token that was shown: two of one role and one name are two callers.
    pub token: Option<&'a str>,
}

impl Asking<'_> {
    /// What the store knows the request by that its caller calls `key`, and that says `parts`. The caller's own key is not in it: it may hold
    /// what must not be kept.
    #[must_use]
    pub fn under(&self, key: &str, parts: &[&[u8]]) -> RequestKey {
        let actor = self.actor.to_string();
        // Without a token it is as it always was.
        let whose = [self.verb, self.place, &actor, key].into_iter().chain(self.token);
        let digest = HEXLOWER.encode(&digest_of(whose.map(str::as_bytes)));
        RequestKey::new(format!("{}:{digest}", self.surface), key, parts)
    }
}

/// Enough of the hash of a request to tell another one from it: 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    const BYTES: usize = 8;
}

/// What is left of commits whose content was erased long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folded {
    /// The first of the commits; the last is the one that says so.
    pub from: Seq,
    /// How many entries they had added.
    pub entries: u64,
}

impl Record {
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
        }
    }
}

/// New events of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunAppend {
    /// The run. A first event `run_started` makes it.
    pub run: RunId,
    /// The events, in order.
    pub events: Vec<Event>,
    /// What the run's row says from now on; `None` leaves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The run's one-line title; only with the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What lists tell of the run from now on. It follows from the journal, and stands here so that nobody has to fold that; versions that did
    /// not write it yet leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub so_far: Option<SoFar>,
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

/// A body that is kept under the hash of its content.
#[derive(Clone)]
pub struct Blob {
    digest: [u8; 32],
    hash: BlobHash,
    bytes: Vec<u8>,
}

impl Blob {
    /// Names `bytes`.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        let hash = BlobHash(HEXLOWER.encode(&digest));
        Self { digest, hash, bytes }
    }

    /// Its name, which is always that of its bytes.
    #[must_use]
    pub fn hash(&self) -> &BlobHash {
        &self.hash
    }

    /// Its name as 32 bytes.
    pub(crate) fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Its bytes, as they were given.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes alone.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.hash, self.bytes.len())
    }
}

/// What a commit came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its number in the space.
    pub seq: Seq,
    /// When, as it stands in the log.
    pub at: Timestamp,
    /// Whether an earlier commit with the same key did it.
    pub replayed: bool,
    /// The entries that it added or changed, in the order of its changes.
    pub entries: Vec<CommittedEntry>,
    /// The pages that it added or found, in the order of its changes.
    pub pages: Vec<(PageId, PageHandle)>,
    /// The run that it added to.
    pub run: Option<(RunId, RunHandle)>,
}

/// An entry that a commit added or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedEntry {
    /// Its id.
    pub id: EntryId,
    /// Its handle.
    pub handle: EntryHandle,
    /// Its version after this commit.
    pub version: u32,
    /// Whether anything of it changed: a patch that asks for what is there already changes nothing.
    pub changed: bool,
    /// What it wrote over that others had changed since the version that its writer had read. A replay does not say.
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
    fn bodies_changes_and_events_count_together() {
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
