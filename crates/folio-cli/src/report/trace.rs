//! A line of the trace as seed 004 writes it, with where it belongs.

use std::fmt::{self, Write as _};

pub(crate) use folio_server::wire::TraceLine;
use serde_json::Value;

use super::{instant, printable};
use crate::output::{Report, Style};

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
