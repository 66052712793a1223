//! What a commit does to memory, and how a page or an entry follows from its changes.
//!
//! A stored change is a revision: the log keeps it for ever, and every row that a store keeps besides can be made again
//! from the log with the functions of this file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::entry::{
    BodyRef, Brought, Confidence, Entry, EntryFields, EntryKind, Lifetime, Outcome, Owner, Pii, Status, Tag,
};
use crate::id::{EntryHandle, EntryId, PageHandle, PageId, Seq, TurnId};
use crate::keeping::{ArchivedFor, ErasedFor};
use crate::link::Link;
use crate::page::{Page, PageFields};
use crate::policy::{SpacePolicy, TypePolicy};
use crate::time::Timestamp;
use crate::turn::{NewTurn, TurnEnd};

/// A page to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewPage {
    /// Its id; often derived, so that two who need the same page make one.
    pub id: PageId,
    /// What it carries.
    #[serde(flatten)]
    pub fields: PageFields,
}

/// An entry to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewEntry {
    /// Its id.
    pub id: EntryId,
    /// The page that it goes onto.
    pub page: PageId,
    /// What sort of content it holds.
    pub kind: EntryKind,
    /// What it carries.
    #[serde(flatten)]
    pub fields: EntryFields,
}

/// One field set to a new value. A patch is a list of these, so two patches of different fields both hold (M7.4.33).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FieldChange {
    /// Another title.
    Title(String),
    /// Another text.
    Body(String),
    /// The whole text is kept there, and `body` is its beginning. Another body takes it away; so this comes after that.
    BodyRef(Option<BodyRef>),
    /// Other parts.
    Parts(Option<Value>),
    /// Another status.
    Status(Status),
    /// Taken out of the archive, into a status. Nothing else leads out of it.
    Restored(Status),
    /// Another confidence.
    Confidence(Confidence),
    /// Other tags, all of them.
    Tags(Vec<Tag>),
    /// Another owner.
    Owner(Owner),
    /// Another context.
    Context(Option<Value>),
    /// Other metadata.
    Metadata(Option<Value>),
    /// Another phase.
    Phase(Option<String>),
    /// Other progress.
    Progress(Option<f64>),
    /// Pinned, moved or unpinned.
    PinRank(Option<u32>),
    /// Claimed until then, or for as long as it takes.
    LeaseUntil(Option<Timestamp>),
    /// Another end.
    Lifetime(Lifetime),
    /// Its time was past at this instant. Holds only if that still is its end, so whoever notices late changes nothing.
    Expired(Timestamp),
    /// Confirmed.
    ValidatedAt(Timestamp),
    /// Replaced.
    SupersededBy(Option<EntryId>),
    /// It came true, it did not, or nobody says so any more.
    Outcome(Option<Outcome>),
    /// Personal data was found in the new texts. It is added to what was found before, which earlier revisions still hold.
    PiiFound(Vec<Pii>),
    /// Put away to keep the space small, or no longer so.
    ArchivedFor(Option<ArchivedFor>),
    /// What stood here was content, and is gone. Changes nothing, but counts as the change that it was.
    Erased,
}

impl FieldChange {
    /// The field's name as it is written.
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
            Self::Expired(_) => "expired_at",
            Self::ValidatedAt(_) => "validated_at",
            Self::SupersededBy(_) => "superseded_by",
            Self::Outcome(_) => "outcome",
            Self::PiiFound(_) => "pii",
            Self::ArchivedFor(_) => "archived_for",
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
                    // Whoever has another reason than that somebody wants it says so next.
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
            Self::Expired(at) => {
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
            Self::Erased => {}
        }
    }
}

/// One change of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// Adds a page, unless one with its id is there already: then it is left as it is, and this change does nothing.
    EnsurePage(Box<NewPage>),
    /// Sets a page's status.
    SetPageStatus {
        /// Which page.
        page: PageId,
        /// To what.
        status: String,
    },
    /// Adds an entry. Its page is there, or is added earlier in the same commit.
    AddEntry(Box<NewEntry>),
    /// Changes fields of an entry.
    PatchEntry {
        /// Which entry.
        entry: EntryId,
        /// The fields, in the order in which they are set.
        fields: Vec<FieldChange>,
        /// If given, the version that the entry must have (M7.4.34).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u32>,
        /// If given, the version that the writer had read. What others changed since then and this changes too is a
        /// conflict: this one holds, and history says what it wrote over (M7.4.33).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base_version: Option<u32>,
    },
    /// Adds an edge, unless it is there.
    AddLink(Link),
    /// Begins a turn.
    BeginTurn(Box<NewTurn>),
    /// Ends a turn, which happens once.
    EndTurn {
        /// Which turn.
        turn: TurnId,
        /// What came of it.
        end: Box<TurnEnd>,
    },
    /// Replaces what holds in the space, all of it.
    SetPolicy {
        /// What holds from now on.
        policy: Box<SpacePolicy>,
        /// If given, the version that the policy must have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u32>,
    },
    /// Registers an observation type, unless one of its name is registered (M7.3.22).
    RegisterType {
        /// Its name.
        name: String,
        /// What is known of it.
        as_type: TypePolicy,
    },
    /// Takes the content of an entry away for good, from all of its revisions too: the log is rewritten (M7.6.50).
    EraseEntry {
        /// Which entry.
        entry: EntryId,
        /// Why.
        why: ErasedFor,
        /// If given, the version that the entry must have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u32>,
    },
}

impl Entry {
    /// The entry that `new` becomes.
    #[must_use]
    pub fn added(new: NewEntry, handle: EntryHandle, seq: Seq, at: Timestamp) -> Self {
        let (created_at, updated_at) = Brought::times(new.fields.brought, at);
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

    /// Whether setting `changes` would leave every field as it is.
    #[must_use]
    pub fn already_has(&self, changes: &[FieldChange]) -> bool {
        self.fields.already_has(changes)
    }

    /// Sets `changes` and counts the revision.
    pub fn patch(&mut self, changes: &[FieldChange], seq: Seq, at: Timestamp) {
        self.fields.set(changes);
        self.version += 1;
        // That its time is past is no news of the entry: it is stamped with the instant at which that came to be.
        self.updated_at = match changes {
            [FieldChange::Expired(end)] => self.updated_at.max(*end),
            _ => at,
        };
        self.updated_seq = seq;
    }
}

impl EntryFields {
    /// Whether setting `changes` would leave every field as it is.
    #[must_use]
    pub fn already_has(&self, changes: &[FieldChange]) -> bool {
        // The usual change is another status, and that needs no copy of everything else.
        let mut statuses = changes
            .iter()
            .filter(|change| matches!(change, FieldChange::Status(_) | FieldChange::Restored(_)));
        if let (Some(FieldChange::Status(only)), None) = (statuses.next(), statuses.next())
            && *only != self.status
        {
            return false;
        }
        let mut fields = self.clone();
        fields.set(changes);
        fields == *self && !changes.contains(&FieldChange::Erased)
    }

    /// Sets `changes`, in their order.
    pub fn set(&mut self, changes: &[FieldChange]) {
        changes.iter().for_each(|change| change.apply(self));
    }
}

impl Page {
    /// The page that `new` becomes.
    #[must_use]
    pub fn added(new: NewPage, handle: PageHandle, seq: Seq, at: Timestamp) -> Self {
        let (created_at, updated_at) = Brought::times(new.fields.brought, at);
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

    /// Sets the status and counts the revision.
    pub fn set_status(&mut self, status: &str, at: Timestamp) {
        status.clone_into(&mut self.fields.status);
        self.version += 1;
        self.updated_at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Trust;

    #[test]
    fn a_mark_is_kept_beside_the_confidence_and_leaves_it_as_it_was_m7_11_6() {
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
