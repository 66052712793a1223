//! What a commit did, in names: whoever wants to know more asks for what is named.

use folio::Timestamp;
use folio::memory::{Change, EntryId, PageId, RunId, TurnId};
use folio::store::LogRow;
use schemars::JsonSchema;
use serde::Serialize;

/// A commit.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CommitShape {
    /// Its number in the space.
    pub seq: u64,
    /// When.
    pub timestamp: Timestamp,
    /// Who: the role, and the name if there is one.
    pub by: String,
    /// In which turn.
    pub turn_id: Option<TurnId>,
    /// In which run, or of which.
    pub run_id: Option<RunId>,
    /// What it did to memory, in order.
    pub changes: Vec<ChangeShape>,
    /// What happened in the run, in order.
    pub events: Vec<&'static str>,
}

/// One thing that a commit did to memory.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ChangeShape {
    /// What was done.
    pub change: &'static str,
    /// The entry that it was done to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation_id: Option<EntryId>,
    /// What sort of content that holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// The page that it was done to, or on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_id: Option<PageId>,
    /// The fields that were set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<&'static str>,
}

impl CommitShape {
    /// `row` as programs read it.
    #[must_use]
    pub fn of(row: &LogRow) -> Self {
        let run = row.record.run.as_ref();
        Self {
            seq: row.seq.0,
            timestamp: row.at,
            by: row.actor.to_string(),
            turn_id: row.actor.turn,
            run_id: run.map(|append| append.run).or(row.actor.run),
            changes: row.record.changes.iter().map(ChangeShape::of).collect(),
            events: run.map_or_else(Vec::new, |append| {
                append.events.iter().map(|event| event.name()).collect()
            }),
        }
    }
}

impl ChangeShape {
    fn of(change: &Change) -> Self {
        let named = |change| Self {
            change,
            observation_id: None,
            kind: None,
            page_id: None,
            fields: Vec::new(),
        };
        match change {
            Change::EnsurePage(page) => Self {
                page_id: Some(page.id),
                ..named("add_page")
            },
            Change::SetPageStatus { page, .. } => Self {
                page_id: Some(*page),
                ..named("set_page_status")
            },
            Change::AddEntry(entry) => Self {
                observation_id: Some(entry.id),
                kind: Some(entry.kind.as_str()),
                page_id: Some(entry.page),
                ..named("add_entry")
            },
            Change::PatchEntry { entry, fields, .. } => Self {
                observation_id: Some(*entry),
                fields: fields.iter().map(|field| field.field()).collect(),
                ..named("update_entry")
            },
            Change::EraseEntry { entry, .. } => Self {
                observation_id: Some(*entry),
                ..named("erase_entry")
            },
            Change::AddLink(_) => named("add_link"),
            Change::BeginTurn(_) => named("begin_turn"),
            Change::EndTurn { .. } => named("end_turn"),
            Change::SetPolicy { .. } | Change::RegisterType { .. } => named("set_policy"),
            _ => named("change"),
        }
    }
}
