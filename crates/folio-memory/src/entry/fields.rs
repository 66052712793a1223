//! An entry as it stands.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::body::BodyRef;
use super::{Brought, Confidence, EntryKind, Lifetime, Outcome, Owner, Pii, State, Status, Tag};
use crate::actor::{Source, Trust};
use crate::id::{EntryHandle, EntryId, PageId, Seq};
use crate::keeping::{ArchivedFor, ErasedFor};
use crate::time::Timestamp;

/// What an entry carries besides its identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryFields {
    /// The registered type of an observation (`risk_alert` …).
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// One line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The text; what seeds 002 and 004 call `content`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Where the whole text is, if it is too long to stand here: then `body` is its beginning (M7.3.29).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_ref: Option<BodyRef>,
    /// Structured parts of a log block, a step or a summary: actions, results, artifacts, remaining, questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Value>,
    /// Where it stands.
    pub status: Status,
    /// How sure its writer was; only observations have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Words to find it by, in the order given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// Who should act.
    pub owner: Owner,
    /// What it is about, as dotted paths can reach it (`goal_id`, `user.id`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// Anything else; kept, not searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// The stage that a task is in, in its writer's words; of a step, how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How far a task is, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Whether it is pinned to its page, and in which place: a lower rank comes first.
    #[serde(default, rename = "pin", skip_serializing_if = "Option::is_none")]
    pub pin_rank: Option<u32>,
    /// Until when whoever claimed it is expected to be at it (M7.4.35).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// How long it holds.
    #[serde(default, skip_serializing_if = "Lifetime::is_unlimited")]
    pub lifetime: Lifetime,
    /// The end of its time, once somebody has noticed that it is past (M7.1.8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<Timestamp>,
    /// When somebody last said that it still holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validated_at: Option<Timestamp>,
    /// How far it may be believed.
    pub trust: Trust,
    /// Where it came from. Empty for what a run writes itself: its page and its commit say which run.
    #[serde(default, skip_serializing_if = "Source::is_empty")]
    pub source: Source,
    /// Where its writer said that it came from: kept, never believed (M7.3.31).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_source: Option<Value>,
    /// In which iteration of a plan it was written, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// The entry that took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<EntryId>,
    /// Whether it came true, as far as somebody has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What of persons its texts name or once named, sorted; a policy decides what follows (M7.6.48).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pii: Vec<Pii>,
    /// Why keeping the space small put it away; nothing if somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_for: Option<ArchivedFor>,
    /// Why its content is gone. What is left says that there was something, when, from whom and why it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased: Option<ErasedFor>,
    /// Its times in the place that it was brought from; nothing for what was made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought: Option<Brought>,
}

impl EntryFields {
    /// Fields of an entry of `kind` with nothing in them, in the first status of its family.
    #[must_use]
    pub fn new(kind: EntryKind, owner: Owner, trust: Trust) -> Self {
        Self {
            type_name: None,
            title: String::new(),
            body: String::new(),
            body_ref: None,
            parts: None,
            status: match kind.family() {
                super::Family::Knowledge => Status::Active,
                super::Family::Work => Status::Open,
            },
            confidence: None,
            tags: Vec::new(),
            owner,
            context: None,
            metadata: None,
            phase: None,
            progress: None,
            pin_rank: None,
            lease_until: None,
            lifetime: Lifetime::Unlimited,
            expired_at: None,
            validated_at: None,
            trust,
            source: Source::default(),
            claimed_source: None,
            iteration: None,
            superseded_by: None,
            outcome: None,
            pii: Vec::new(),
            archived_for: None,
            erased: None,
            brought: None,
        }
    }
}

/// An entry as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// For ever.
    pub id: EntryId,
    /// In its space. Also its place on the page: entries of a page are ordered by it.
    pub handle: EntryHandle,
    /// The page that it stands on.
    pub page: PageId,
    /// What sort of content it holds.
    pub kind: EntryKind,
    /// Counts its revisions, from 1.
    pub version: u32,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The commit that added it.
    pub created_seq: Seq,
    /// The commit that last changed it.
    pub updated_seq: Seq,
    /// What it carries.
    pub fields: EntryFields,
}

impl Entry {
    /// Where it stands at `now`, as a reader cares. What something else took the place of is settled.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> State {
        let fields = &self.fields;
        match fields.status.state_at(fields.lifetime, fields.pin_rank.is_some(), now) {
            State::Live if fields.superseded_by.is_some() => State::Settled,
            state => state,
        }
    }
}
