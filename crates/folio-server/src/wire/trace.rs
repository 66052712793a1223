//! A line of the trace as seed 004 writes it, with where it belongs.

use folio::Timestamp;
use folio::store::workspace::{TraceEntry, TracePart};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::List;

/// One thing that happened.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TraceLine {
    /// When.
    pub timestamp: Timestamp,
    /// Which part of the program.
    pub component: String,
    /// What was done.
    pub operation: String,
    /// The entry that it was done to.
    pub observation_id: Option<String>,
    /// The type of the observation, or the kind of another entry.
    pub observation_type: Option<String>,
    /// Who: the name, or the role if there is none.
    pub source: String,
    /// How it went: `success`, `warning`, `denied`, `rejected` or `failed`.
    pub status: String,
    /// In which turn.
    pub turn_id: Option<String>,
    /// In which run.
    pub run_id: Option<String>,
    /// At which node of the run.
    pub node_id: Option<String>,
    /// The commit.
    pub seq: u64,
    /// How long it took, in microseconds, if that was measured.
    pub duration_us: Option<u64>,
    /// More, by name: `text` for a few words, `fields` that changed, `verdict` of a decision, `outcome` of what finished, `code` and
    /// `error` of what was not done, `filters` of a question, the `reason` that was given.
    pub detail: Option<Map<String, Value>>,
    /// The entries that a decision used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<String>,
    /// The page that it was done to, if it was no entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_id: Option<String>,
}

impl TraceLine {
    /// What a question came to, which began at the start of its list or went on with it: if not all is here, more lines than these match,
    /// and nobody counted them.
    pub fn listed(part: &TracePart, is_start: bool, as_of: u64) -> List<Self> {
        let lines = part.lines.iter().map(Self::of).collect();
        List {
            next: part.next.clone(),
            at_least: part.next.is_some() || !is_start,
            ..List::whole(lines, as_of)
        }
    }

    /// `entry` as programs read it.
    pub fn of(entry: &TraceEntry) -> Self {
        Self {
            timestamp: entry.at,
            component: entry.component.clone(),
            operation: entry.operation.clone(),
            observation_id: entry.entry.map(|entry| entry.to_string()),
            observation_type: entry.entry_type.clone(),
            source: entry.source.clone(),
            status: entry.status.clone(),
            turn_id: entry.turn.map(|turn| turn.to_string()),
            run_id: entry.run.map(|run| run.to_string()),
            node_id: entry.node.map(|node| node.to_string()),
            seq: entry.seq.0,
            duration_us: entry.duration_us,
            detail: entry.detail.as_ref().and_then(Value::as_object).cloned(),
            used: entry.used.iter().map(ToString::to_string).collect(),
            page_id: entry.page.map(|page| page.to_string()),
        }
    }
}
