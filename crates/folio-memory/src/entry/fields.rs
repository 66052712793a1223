//! The fields of an entry.

use crate::excerpt::cut;
use crate::view;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::body::BodyRef;
use super::{Confidence, EntryKind, ImportedTimes, Lifetime, Outcome, Owner, Pii, State, Status, Tag};
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
    /// The title, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The text; called `content` in seeds 002 and 004.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Where the whole text is kept if it is too long for the entry; `body` is then its beginning (M7.3.29).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_ref: Option<BodyRef>,
    /// Structured parts of a log block, a step or a summary: actions, results, artifacts, remaining, questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Value>,
    /// The entry's status.
    pub status: Status,
    /// How sure the writer was; only observations have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Tags to find the entry by, in the order given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// Who should act.
    pub owner: Owner,
    /// What the entry is about, as JSON that dotted paths can reach (`goal_id`, `user.id`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// Any other data; kept but not searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// The stage of a task in its writer's words; for a step, how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The progress of a task, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// The rank of the pin if the entry is pinned to its page; lower ranks come first.
    #[serde(default, rename = "pin", skip_serializing_if = "Option::is_none")]
    pub pin_rank: Option<u32>,
    /// Until when the claim on the entry holds (M7.4.35).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// The entry's lifetime.
    #[serde(default, skip_serializing_if = "Lifetime::is_unlimited")]
    pub lifetime: Lifetime,
    /// The end of the lifetime, set once somebody has noticed that it is past (M7.1.8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<Timestamp>,
    /// When somebody last confirmed that the entry still holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validated_at: Option<Timestamp>,
    /// How far to believe the content.
    pub trust: Trust,
    /// Where the entry came from. Empty for what a run writes itself: the page and the commit name the run.
    #[serde(default, skip_serializing_if = "Source::is_empty")]
    pub source: Source,
    /// The source that the writer claimed: kept, never believed (M7.3.31).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_source: Option<Value>,
    /// The iteration of the plan in which the entry was written, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// The entry that replaced this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<EntryId>,
    /// Whether it came true, if somebody has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The kinds of personal data in its texts, now or in earlier revisions, sorted. A policy decides what follows
    /// (M7.6.48).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pii: Vec<Pii>,
    /// Which retention rule archived the entry; `None` if a writer did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_for: Option<ArchivedFor>,
    /// Why the content was erased. The tombstone tells that there was an entry, when, by whom, and why its content is
    /// gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased: Option<ErasedFor>,
    /// The entry's original times if it was brought in; `None` if it was made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought: Option<ImportedTimes>,
}

impl EntryFields {
    /// Creates empty fields for an entry of `kind`, with the first status of its family.
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

    /// Whether `text` is what the entry shows of a longer text that is kept beside it. A caller who sends that back has
    /// read no more of it, and does not mean to cut the text.
    #[must_use]
    pub fn is_beginning(&self, text: &str) -> bool {
        self.body_ref.is_some() && self.body == text
    }
}

/// An entry in its current form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The entry's permanent id.
    pub id: EntryId,
    /// The entry's handle in its space. It is also its position: entries of a page are ordered by handle.
    pub handle: EntryHandle,
    /// The page that it stands on.
    pub page: PageId,
    /// The kind of content that the entry holds.
    pub kind: EntryKind,
    /// Counts the entry's revisions, from 1.
    pub version: u32,
    /// When the entry was added.
    pub created_at: Timestamp,
    /// When the entry last changed.
    pub updated_at: Timestamp,
    /// The commit that added the entry.
    pub created_seq: Seq,
    /// The commit that last changed the entry.
    pub updated_seq: Seq,
    /// What the entry carries.
    pub fields: EntryFields,
}

impl Entry {
    /// Who wrote the entry, as the role and the name, if it was not a call of a run: a client or a person, for example.
    #[must_use]
    pub fn writer_beside_run(&self) -> Option<String> {
        const WRITER_CHARS: usize = 60;
        let source = &self.fields.source;
        let writer = source.principal.as_deref().filter(|_| source.node.is_none())?;
        Some(cut(&view::one_line(writer), WRITER_CHARS))
    }

    /// The entry's state at `now`. A superseded entry is settled.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> State {
        let fields = &self.fields;
        match fields.status.state_at(fields.lifetime, fields.pin_rank.is_some(), now) {
            State::Live if fields.superseded_by.is_some() => State::Settled,
            state => state,
        }
    }
}
