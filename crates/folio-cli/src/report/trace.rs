//! A line of the trace as seed 004 writes it, with where it belongs.

use std::fmt::{self, Write as _};

use folio::Timestamp;
use folio::store::workspace::TraceEntry;
use serde::Serialize;
use serde_json::Value;

use super::{instant, printable};
use crate::output::{Report, Style};

/// One thing that happened.
#[derive(Debug, Serialize)]
pub(crate) struct TraceLine {
    timestamp: Timestamp,
    component: String,
    operation: String,
    observation_id: Option<String>,
    observation_type: Option<String>,
    source: String,
    status: String,
    turn_id: Option<String>,
    run_id: Option<String>,
    node_id: Option<String>,
    seq: u64,
    duration_us: Option<u64>,
    detail: Option<Value>,
    /// The entries that a decision used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    used: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_id: Option<String>,
}

impl TraceLine {
    /// `entry` as programs read it.
    pub(crate) fn of(entry: &TraceEntry) -> Self {
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
            detail: entry.detail.clone(),
            used: entry.used.iter().map(ToString::to_string).collect(),
            page_id: entry.page.map(|page| page.to_string()),
        }
    }
}

impl Report for TraceLine {
    /// `#12 10:30:00.123Z scratch_page add_observation risk_alert by wine_search: likes Burgundy`.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let seq = style.faint(format_args!("#{:<5}", self.seq));
        let at = style.faint(format_args!("{:<24}", instant(self.timestamp)));
        write!(
            out,
            "{seq} {at} {:<12} {}",
            self.component,
            style.strong(&self.operation)
        )?;
        if let Some(kind) = &self.observation_type {
            write!(out, " {kind}")?;
        }
        if let Some(node) = &self.node_id {
            write!(out, " {}", style.faint(node))?;
        }
        write!(out, " by {}", printable(&self.source))?;
        match self.status.as_str() {
            "success" => {}
            "failed" | "denied" | "rejected" => write!(out, " {}", style.bad(&self.status))?,
            "warning" => write!(out, " {}", style.warning("warning"))?,
            status => write!(out, " {status}")?,
        }
        if let Some(us) = self.duration_us {
            write!(out, " {}.{:03} ms", us / 1000, us % 1000)?;
        }
        if !self.used.is_empty() {
            write!(out, " using {}", self.used.join(", "))?;
        }
        if let Some(detail) = &self.detail {
            write!(out, ": {}", said(detail))?;
        }
        out.push('\n');
        Ok(())
    }
}

/// A detail for people: words as they are, anything else as JSON.
fn said(detail: &Value) -> String {
    match detail {
        Value::String(text) => printable(text),
        other => printable(&other.to_string()),
    }
}
