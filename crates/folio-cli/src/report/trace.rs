//! A line of the trace in the format of seed 004, with where it belongs.

use std::fmt::{self, Write as _};

use folio::memory::counted::counted;

pub(crate) use folio_server::wire::TraceLine;
use serde_json::{Map, Value};

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
        match status_in_words(&self.status, self.detail.as_ref()) {
            "success" => {}
            status @ ("failed" | "denied" | "rejected") => write!(out, " {}", style.bad(status))?,
            status => write!(out, " {}", style.warning(printable(status)))?,
        }
        if let Some(us) = self.duration_us {
            write!(out, " {}.{:03} ms", us / 1000, us % 1000)?;
        }
        if !self.used.is_empty() {
            write!(out, " using {}", self.used.join(", "))?;
        }
        let said = self.detail.as_ref().map(detail_text).unwrap_or_default();
        if !said.is_empty() {
            write!(out, ": {said}")?;
        }
        out.push('\n');
        Ok(())
    }
}

/// How the operation of a line ended: for a node, its outcome, which says more than the status.
pub(super) fn status_in_words<'l>(status: &'l str, detail: Option<&'l Map<String, Value>>) -> &'l str {
    match detail.and_then(|detail| detail.get("outcome")).and_then(Value::as_str) {
        Some("ok") => "success",
        Some(outcome) => outcome,
        None => status,
    }
}

/// A detail for people: text as it is, receipts and queries in a few words, anything else name by name.
pub(super) fn detail_text(parts: &Map<String, Value>) -> String {
    let text = match (parts.get("receipt"), parts.get("filters")) {
        (Some(receipt), _) => receipt_text(receipt, parts.get("omitted")),
        (_, Some(Value::Object(filters))) => query_text(filters, parts),
        _ => fields_text(parts),
    };
    printable(&text)
}

/// The receipt of a view: `315 of 600 tokens: pinned 258, notes 57; 2 left out`.
fn receipt_text(receipt: &Value, omitted: Option<&Value>) -> String {
    let number = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64).unwrap_or(0);
    let mut text = format!(
        "{} of {}",
        number(receipt, "tokens"),
        counted(number(receipt, "budget"), "token")
    );
    let sections = receipt.get("sections").and_then(Value::as_array);
    let parts: Vec<String> = sections
        .into_iter()
        .flatten()
        .filter(|section| number(section, "tokens") > 0)
        .map(|section| format!("{} {}", value_text(&section["section"]), number(section, "tokens")))
        .collect();
    if !parts.is_empty() {
        let _infallible = write!(text, ": {}", parts.join(", "));
    }
    if let Some(omitted) = omitted.and_then(Value::as_u64).filter(|omitted| *omitted > 0) {
        let _infallible = write!(text, "; {omitted} left out");
    }
    text
}

/// A query and its outcome: `4 of 17, where kinds=note,todo limit=4`.
fn query_text(filters: &Map<String, Value>, parts: &Map<String, Value>) -> String {
    let mut text = match (parts.get("returned"), parts.get("total"), parts.get("error")) {
        (Some(returned), Some(total), _) => format!("{returned} of {total}"),
        (_, _, Some(error)) => value_text(error),
        _ => String::new(),
    };
    if !filters.is_empty() {
        let _infallible = write!(text, ", where {}", pairs(filters));
    }
    text
}

/// What was noticed, decided or changed, followed by its confidence and other fields: `likes Burgundy
/// (confidence=0.9)`.
fn fields_text(parts: &Map<String, Value>) -> String {
    let mut rest = parts.clone();
    // The line says it as its status.
    rest.remove("outcome");
    // The reason for a change says more than the names of the changed fields.
    if let (Some(Value::String(reason)), true, 2) = (rest.get("reason"), rest.contains_key("fields"), rest.len()) {
        return reason.clone();
    }
    let mut first = Vec::new();
    for (name, between) in [
        ("code", ""),
        ("error", ""),
        ("text", ""),
        ("verdict", ""),
        ("reasons", "; "),
        ("fields", ", "),
    ] {
        match rest.remove(name) {
            Some(Value::String(text)) => first.push(text),
            Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
                let items: Vec<_> = items.iter().filter_map(Value::as_str).collect();
                first.push(items.join(between));
            }
            Some(other) => drop(rest.insert(name.to_owned(), other)),
            None => {}
        }
    }
    first.retain(|part| !part.is_empty());
    // Words need no name.
    if let (Some(Value::String(reason)), 1) = (rest.get("reason"), rest.len()) {
        return match first.is_empty() {
            true => reason.clone(),
            false => format!("{} ({reason})", first.join(": ")),
        };
    }
    match (first.is_empty(), rest.is_empty()) {
        (false, true) => first.join(": "),
        (false, false) => format!("{} ({})", first.join(": "), pairs(&rest)),
        (true, _) => pairs(&rest),
    }
}

fn pairs(parts: &Map<String, Value>) -> String {
    let pairs: Vec<String> = parts
        .iter()
        .map(|(name, value)| format!("{name}={}", value_text(value)))
        .collect();
    pairs.join(" ")
}

/// A value in a line: lists of words with commas, single words as they are.
fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) if !text.contains(char::is_whitespace) => text.clone(),
        Value::Array(items) if items.iter().all(|item| item.is_string() || item.is_number()) => {
            items.iter().map(value_text).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}
