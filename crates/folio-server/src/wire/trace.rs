//! Lines of the trace in the form of seed 004, with the turn, run and node of each.

use folio::Timestamp;
use folio::store::workspace::{TraceEntry, TracePart};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::List;

/// One line of the trace.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TraceLine {
    /// When it happened.
    pub timestamp: Timestamp,
    /// The part of the program that did it.
    pub component: String,
    /// The operation.
    pub operation: String,
    /// The id of the entry concerned.
    pub observation_id: Option<String>,
    /// The type of the observation, or the kind of any other entry.
    pub observation_type: Option<String>,
    /// Who did it: the name, or the role if there is no name.
    pub source: String,
    /// The outcome: `success`, `warning`, `denied`, `rejected` or `failed`.
    pub status: String,
    /// The turn in which it happened.
    pub turn_id: Option<String>,
    /// The run in which it happened.
    pub run_id: Option<String>,
    /// The node of the run at which it happened.
    pub node_id: Option<String>,
    /// The number of the commit.
    pub seq: u64,
    /// The duration in microseconds, if it was measured.
    pub duration_us: Option<u64>,
    /// Details by name: `text` (a short description), `fields` (the changed fields), `verdict` (of a decision),
    /// `outcome` (of a finished node), `code` and `error` (of a failure or refusal), `filters` (of a query), `reason`
    /// (as given).
    pub detail: Option<Map<String, Value>>,
    /// The entries that a decision used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<String>,
    /// The id of the page concerned, if it was not an entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_id: Option<String>,
}

impl TraceLine {
    /// Returns `part` as a list. If it is not the whole list, because more follows or because it began after a cursor,
    /// the total is only a lower bound: the other lines were not counted.
    pub fn listed(part: &TracePart, is_start: bool) -> List<Self> {
        let lines = part.lines.iter().map(Self::of).collect();
        List {
            next: part.next.clone(),
            at_least: part.next.is_some() || !is_start,
            ..List::whole(lines, part.as_of.0)
        }
    }

    /// Returns `entry` in its wire form.
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
