//! What a commit did, by name only: a client that needs more reads the named entries, pages and runs.

use folio::Timestamp;
use folio::memory::{Change, EntryId, PageId, RunId, TurnId};
use folio::store::LogRow;
use schemars::JsonSchema;
use serde::Serialize;

/// A commit of a space.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CommitShape {
    /// Its number in the space.
    pub seq: u64,
    /// When it was made.
    pub timestamp: Timestamp,
    /// Who made it: the role, and the name if there is one.
    pub by: String,
    /// The turn in which it was made.
    pub turn_id: Option<TurnId>,
    /// The run whose events it holds, or in which it was made.
    pub run_id: Option<RunId>,
    /// The changes that it made to memory, in order.
    pub changes: Vec<ChangeShape>,
    /// The names of the run's events that it holds, in order.
    pub events: Vec<&'static str>,
    /// The run in which everything that it holds was done first, if a fork repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<RunId>,
}

/// One change that a commit made to memory.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ChangeShape {
    /// The name of the change, such as `add_entry`.
    pub change: &'static str,
    /// The id of the changed entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation_id: Option<EntryId>,
    /// The kind of the added entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// The id of the changed page, or of the page that holds the added entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_id: Option<PageId>,
    /// The names of the fields that were set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<&'static str>,
}

impl CommitShape {
    /// Returns `row` in its wire form.
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
            copied_from: row.record.copied_from,
        }
    }
}

impl ChangeShape {
    fn of(change: &Change) -> Self {
        let shape_named = |change| Self {
            change,
            observation_id: None,
            kind: None,
            page_id: None,
            fields: Vec::new(),
        };
        match change {
            Change::EnsurePage(page) if page.fields.names_next_iteration() => Self {
                page_id: Some(page.id),
                ..shape_named("set_page_iteration")
            },
            Change::EnsurePage(page) => Self {
                page_id: Some(page.id),
                ..shape_named("add_page")
            },
            Change::SetPageStatus { page, .. } => Self {
                page_id: Some(*page),
                ..shape_named("set_page_status")
            },
            Change::AddEntry(entry) => Self {
                observation_id: Some(entry.id),
                kind: Some(entry.kind.as_str()),
                page_id: Some(entry.page),
                ..shape_named("add_entry")
            },
            Change::PatchEntry { entry, fields, .. } => Self {
                observation_id: Some(*entry),
                fields: fields.iter().map(|field| field.field()).collect(),
                ..shape_named("update_entry")
            },
            Change::EraseEntry { entry, .. } => Self {
                observation_id: Some(*entry),
                ..shape_named("erase_entry")
            },
            Change::AddLink(_) => shape_named("add_link"),
            Change::BeginTurn(_) => shape_named("begin_turn"),
            Change::EndTurn { .. } => shape_named("end_turn"),
            Change::EraseTurn { .. } => shape_named("erase_turn"),
            Change::EraseRun { .. } => shape_named("erase_run"),
            Change::SetPolicy { .. } | Change::RegisterType { .. } => shape_named("set_policy"),
            _ => shape_named("change"),
        }
    }
}
