//! What a commit does to memory, and how a page or an entry follows from its changes.
//!
//! A stored change is a revision: the log keeps it forever, and every other row of a store can be rebuilt from the log
//! with the functions of this file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Trust;
use crate::entry::{
    BodyRef, Confidence, Entry, EntryFields, EntryKind, ImportedTimes, Lifetime, Outcome, Owner, Pii, Status, Tag,
};
use crate::id::{EntryHandle, EntryId, PageHandle, PageId, RunId, Seq, TurnId};
use crate::keeping::{ArchivedFor, ErasedFor, RunTombstone};
use crate::link::Link;
use crate::page::{Page, PageFields};
use crate::policy::{SpacePolicy, TypePolicy};
use crate::time::Timestamp;
use crate::turn::{NewTurn, TurnEnd};

/// A page to be added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewPage {
    /// The page's id. It is often derived, so that two writers who need the same page create only one.
    pub id: PageId,
    /// What the page carries.
    #[serde(flatten)]
    pub fields: PageFields,
}

/// An entry to be added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewEntry {
    /// The entry's id.
    pub id: EntryId,
    /// The page that the entry is added to.
    pub page: PageId,
    /// The kind of content that the entry holds.
    pub kind: EntryKind,
    /// What the entry carries.
    #[serde(flatten)]
    pub fields: EntryFields,
}

/// One field set to a new value. A patch is a list of these, so patches of different fields do not conflict (M7.4.33).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FieldChange {
    /// A new title.
    Title(String),
    /// A new body text.
    Body(String),
    /// Where the whole text is kept; `body` is then its beginning. `Body` clears this field, so it must come after
    /// `Body`.
    BodyRef(Option<BodyRef>),
    /// New structured parts.
    Parts(Option<Value>),
    /// A new status.
    Status(Status),
    /// Restores the entry from the archive into this status. No other change leaves the archive.
    Restored(Status),
    /// A new confidence.
    Confidence(Confidence),
    /// A new list of tags, which replaces the old one.
    Tags(Vec<Tag>),
    /// A new owner.
    Owner(Owner),
    /// A new context.
    Context(Option<Value>),
    /// New metadata.
    Metadata(Option<Value>),
    /// A new phase.
    Phase(Option<String>),
    /// A new progress.
    Progress(Option<f64>),
    /// Pins the entry at this rank, or unpins it.
    PinRank(Option<u32>),
    /// Claims the entry until this instant; `None` sets no end.
    LeaseUntil(Option<Timestamp>),
    /// A new lifetime.
    Lifetime(Lifetime),
    /// The lifetime ended at this instant. Has no effect unless that is still its end, so a late report changes
    /// nothing. It is no change by a writer: the time of the last change stays as it is.
    Ended(Timestamp),
    /// The same as earlier versions noted it: the instant also became the time of the last change, and hid when that
    /// was.
    Expired(Timestamp),
    /// The entry was confirmed to still hold.
    ValidatedAt(Timestamp),
    /// The entry that replaced this one.
    SupersededBy(Option<EntryId>),
    /// Whether the observation came true; `None` withdraws the verdict.
    Outcome(Option<Outcome>),
    /// Personal data found in the new texts. It is added to what was found before, since earlier revisions still
    /// contain that.
    PiiFound(Vec<Pii>),
    /// Which retention rule archived the entry; `None` if a writer did, or if it is no longer archived.
    ArchivedFor(Option<ArchivedFor>),
    /// How far to believe the entry from now on, since somebody less trusted has rewritten it.
    Trust(Trust),
    /// Placeholder for a change whose content was erased. It changes nothing but still counts as a change.
    Erased,
}

impl FieldChange {
    /// The field's name in its written form.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Title(_) => "title",
            Self::Body(_) => "body",
            Self::BodyRef(_) => "body_ref",
            Self::Parts(_) => "parts",
            Self::Status(_) | Self::Restored(_) => "status",
            Self::Confidence(_) => "confidence",
            Self::Tags(_) => "tags",
            Self::Owner(_) => "owner",
            Self::Context(_) => "context",
            Self::Metadata(_) => "metadata",
            Self::Phase(_) => "phase",
            Self::Progress(_) => "progress",
            Self::PinRank(_) => "pin",
            Self::LeaseUntil(_) => "lease_until",
            Self::Lifetime(_) => "lifetime",
            Self::Ended(_) | Self::Expired(_) => "expired_at",
            Self::ValidatedAt(_) => "validated_at",
            Self::SupersededBy(_) => "superseded_by",
            Self::Outcome(_) => "outcome",
            Self::PiiFound(_) => "pii",
            Self::ArchivedFor(_) => "archived_for",
            Self::Trust(_) => "trust",
            Self::Erased => "erased",
        }
    }

    pub(crate) fn apply(&self, fields: &mut EntryFields) {
        match self.clone() {
            Self::Title(title) => fields.title = title,
            Self::Body(body) => {
                fields.body = body;
                fields.body_ref = None;
            }
            Self::BodyRef(body_ref) => fields.body_ref = body_ref,
            Self::Parts(parts) => fields.parts = parts,
            Self::Status(status) => {
                fields.status = status;
                if status == Status::Archived {
                    // A rule that archives the entry sets its reason in the next change.
                    fields.archived_for = None;
                }
            }
            Self::Restored(status) => {
                fields.status = status;
                fields.archived_for = None;
            }
            Self::Confidence(confidence) => fields.confidence = Some(confidence),
            Self::Tags(tags) => fields.tags = tags,
            Self::Owner(owner) => fields.owner = owner,
            Self::Context(context) => fields.context = context,
            Self::Metadata(metadata) => fields.metadata = metadata,
            Self::Phase(phase) => fields.phase = phase,
            Self::Progress(progress) => fields.progress = progress,
            Self::PinRank(rank) => fields.pin_rank = rank,
            Self::LeaseUntil(until) => fields.lease_until = until,
            Self::Lifetime(lifetime) => {
                fields.lifetime = lifetime;
                fields.expired_at = None;
            }
            Self::Ended(at) | Self::Expired(at) => {
                let is_its_end = fields.lifetime.expires_at() == Some(at);
                if is_its_end && fields.pin_rank.is_none() && fields.status != Status::Archived {
                    fields.expired_at = Some(at);
                }
            }
            Self::ValidatedAt(at) => fields.validated_at = Some(at),
            Self::SupersededBy(by) => fields.superseded_by = by,
            Self::Outcome(outcome) => fields.outcome = outcome,
            Self::PiiFound(found) => {
                fields.pii.extend(found);
                fields.pii.sort_unstable();
                fields.pii.dedup();
            }
            Self::ArchivedFor(why) => fields.archived_for = why,
            Self::Trust(trust) => fields.trust = trust,
            Self::Erased => {}
        }
    }
}

/// One change of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// Adds a page. If a page with its id exists, nothing happens, unless that is one which stays from one iteration of a
    /// run to the next: then it is of the new page's iteration from now on, if that is a later one.
    EnsurePage(Box<NewPage>),
    /// Sets a page's status.
    SetPageStatus {
        /// The page.
        page: PageId,
        /// The new status.
        status: String,
    },
    /// Adds an entry. Its page must exist or be added earlier in the same commit.
    AddEntry(Box<NewEntry>),
    /// Changes fields of an entry.
    PatchEntry {
        /// The entry.
        entry: EntryId,
        /// The field changes, in the order in which they are applied.
        fields: Vec<FieldChange>,
        /// The version that the entry must have, if given (M7.4.34).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u32>,
        /// The version that the writer had read, if given. A field that others have changed since, and that this patch
        /// changes as well, is a conflict: this patch wins, and the history records what it overwrote (M7.4.33).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base_version: Option<u32>,
    },
    /// Adds a link, unless it exists.
    AddLink(Link),
    /// Begins a turn.
    BeginTurn(Box<NewTurn>),
    /// Ends a turn, which happens only once.
    EndTurn {
        /// The turn.
        turn: TurnId,
        /// How the turn ended.
        end: Box<TurnEnd>,
    },
    /// Replaces the whole policy of the space.
    SetPolicy {
        /// The new policy.
        policy: Box<SpacePolicy>,
        /// The version that the policy must have, if given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u32>,
    },
    /// Registers an observation type, unless one with its name is registered already (M7.3.22).
    RegisterType {
        /// The name of the type.
        name: String,
        /// The settings of the type.
        as_type: TypePolicy,
    },
    /// Erases the content of an entry from all of its revisions: the log is rewritten (M7.6.50).
    EraseEntry {
        /// The entry.
        entry: EntryId,
        /// Why the content is erased.
        why: ErasedFor,
        /// The version that the entry must have, if given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u32>,
    },
    /// Erases what was said in a turn: its input, and the reasons of its decisions. The log is rewritten (M7.6.50).
    EraseTurn {
        /// The turn.
        turn: TurnId,
    },
    /// Forgets a run that has ended: from then on nobody reads its journal, and its title and what the journal says are
    /// erased. The log is rewritten part by part after this change (M7.6.50). The same commit gives the run its status.
    EraseRun {
        /// The run.
        run: RunId,
        /// What stays known of it.
        left: RunTombstone,
    },
}

impl Entry {
    /// Builds the entry that `new` becomes.
    #[must_use]
    pub fn added(new: NewEntry, handle: EntryHandle, seq: Seq, at: Timestamp) -> Self {
        let (created_at, updated_at) = ImportedTimes::times(new.fields.brought, at);
        Self {
            id: new.id,
            handle,
            page: new.page,
            kind: new.kind,
            version: 1,
            created_at,
            updated_at,
            created_seq: seq,
            updated_seq: seq,
            fields: new.fields,
        }
    }

    /// Whether applying `changes` would leave every field as it is.
    #[must_use]
    pub fn is_unchanged_by(&self, changes: &[FieldChange]) -> bool {
        self.fields.is_unchanged_by(changes)
    }

    /// Applies `changes` and increments the version.
    pub fn patch(&mut self, changes: &[FieldChange], seq: Seq, at: Timestamp) {
        self.fields.set(changes);
        self.version += 1;
        // Noting the end of the lifetime is not an update by a writer.
        self.updated_at = match changes {
            [FieldChange::Ended(_)] => self.updated_at,
            [FieldChange::Expired(end)] => self.updated_at.max(*end),
            _ => at,
        };
        self.updated_seq = seq;
    }
}

impl EntryFields {
    /// Whether applying `changes` would leave every field as it is.
    #[must_use]
    pub fn is_unchanged_by(&self, changes: &[FieldChange]) -> bool {
        // Most changes only set another status, for which the fields need not be cloned.
        let mut statuses = changes
            .iter()
            .filter(|change| matches!(change, FieldChange::Status(_) | FieldChange::Restored(_)));
        if let (Some(FieldChange::Status(new_status)), None) = (statuses.next(), statuses.next())
            && *new_status != self.status
        {
            return false;
        }
        let mut fields = self.clone();
        fields.set(changes);
        fields == *self && !changes.contains(&FieldChange::Erased)
    }

    /// Applies `changes` in order.
    pub fn set(&mut self, changes: &[FieldChange]) {
        changes.iter().for_each(|change| change.apply(self));
    }
}

impl Page {
    /// Builds the page that `new` becomes.
    #[must_use]
    pub fn added(new: NewPage, handle: PageHandle, seq: Seq, at: Timestamp) -> Self {
        let (created_at, updated_at) = ImportedTimes::times(new.fields.brought, at);
        Self {
            id: new.id,
            handle,
            version: 1,
            created_at,
            updated_at,
            created_seq: seq,
            fields: new.fields,
        }
    }

    /// Takes in that the page was ensured as `new`, and increments the version if that changed anything; returns whether
    /// it did.
    pub fn ensure(&mut self, new: &PageFields, at: Timestamp) -> bool {
        let is_later = new.iteration > self.fields.iteration;
        let changes = is_later && new.names_next_iteration() && self.fields.role == new.role;
        if changes {
            self.fields.iteration = new.iteration;
            self.version += 1;
            self.updated_at = at;
        }
        changes
    }

    /// Sets the status and increments the version.
    pub fn set_status(&mut self, status: &str, at: Timestamp) {
        status.clone_into(&mut self.fields.status);
        self.version += 1;
        self.updated_at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_is_stored_without_changing_the_confidence_m7_11_6() {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::User);
        fields.confidence = Some(Confidence::clamped(0.9).0);
        let new = NewEntry {
            id: EntryId::derived(&["e"]),
            page: PageId::derived(&["p"]),
            kind: EntryKind::Observation,
            fields,
        };
        let mut entry = Entry::added(new, EntryHandle(1), Seq(1), Timestamp::default());
        entry.patch(
            &[FieldChange::Outcome(Some(Outcome::Refuted))],
            Seq(2),
            Timestamp::default(),
        );
        assert_eq!(entry.fields.outcome, Some(Outcome::Refuted));
        assert_eq!(entry.fields.confidence, Some(Confidence::clamped(0.9).0));
        let written = serde_json::to_value(FieldChange::Outcome(Some(Outcome::Refuted))).unwrap();
        assert_eq!(written, serde_json::json!({"outcome": "refuted"}));
    }
}
