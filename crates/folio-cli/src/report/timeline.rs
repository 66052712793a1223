//! A turn as a timeline for people: when after its beginning, how long, and what a decision used.

use std::fmt::Write as _;
use std::time::Duration;

use folio::Timestamp;
use folio::memory::TurnId;
use folio::memory::counted::counted;
use folio::store::workspace::TraceEntry;
use serde_json::Value;

use super::trace::{detail_text, status_in_words};
use super::{instant, printable};
use crate::output::Style;

/// How many characters of a detail a line shows.
const DETAIL_CHARS: usize = 160;

/// The lines of `turn`, each with its distance from the turn's beginning.
pub(crate) fn text(turn: TurnId, began: Option<Timestamp>, lines: &[TraceEntry], style: Style) -> String {
    let mut out = String::new();
    let Some(first) = lines.iter().map(start_of).min() else {
        return format!("nothing is known about {turn}\n");
    };
    let began = began.map_or(first, |began| began.min(first));
    let elapsed = lines.iter().map(|line| line.at.since(began)).max().unwrap_or_default();
    let heading = format!(
        "{turn}, from {}, {} in {}",
        instant(began),
        span(elapsed),
        counted(lines.len() as u64, "line")
    );
    // Writing to a string cannot fail.
    let _written = writeln!(out, "{}", style.strong(heading));
    for line in lines {
        let _written = writeln!(out, "{}", render_line(line, began, style));
    }
    out
}

fn render_line(line: &TraceEntry, began: Timestamp, style: Style) -> String {
    let offset = format!("+{}", span(start_of(line).since(began)));
    // What a node of a run did is indented below the run, everything else below the turn.
    let depth = match (&line.node, line.component.as_str()) {
        (Some(_), _) => 2,
        (None, "turn") => 0,
        (None, _) => 1,
    };
    let indent = "  ".repeat(depth);
    let mut text = format!(
        "{} {indent}{} {}",
        style.faint(format_args!("{offset:>10}")),
        style.faint(&line.component),
        style.strong(&line.operation)
    );
    if let Some(kind) = &line.entry_type {
        text.push_str(&format!(" {kind}"));
    }
    text.push_str(&format!(" by {}", printable(&line.source)));
    let detail = line.detail.as_ref().and_then(Value::as_object);
    match status_in_words(&line.status, detail) {
        "success" => {}
        status @ ("failed" | "denied" | "rejected") => text.push_str(&format!(" {}", style.bad(status))),
        status => text.push_str(&format!(" {}", style.warning(printable(status)))),
    }
    if let Some(us) = line.duration_us {
        text.push_str(&format!(" ({})", span(Duration::from_micros(us))));
    }
    if !line.used.is_empty() {
        let used: Vec<_> = line.used.iter().map(ToString::to_string).collect();
        text.push_str(&format!(" using {}", used.join(", ")));
    }
    let said = detail.map(detail_text).unwrap_or_default();
    if !said.is_empty() {
        text.push_str(&format!(": {}", super::first_line(&said, DETAIL_CHARS)));
    }
    text
}

/// When the event began: its time is that of its end.
fn start_of(line: &TraceEntry) -> Timestamp {
    line.at.minus(Duration::from_micros(line.duration_us.unwrap_or(0)))
}

/// A duration in a suitable unit.
fn span(length: Duration) -> String {
    let us = length.as_micros();
    match us {
        0..1_000 => format!("{us}µs"),
        1_000..1_000_000 => format!("{}.{}ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}.{:03}s", us / 1_000_000, us % 1_000_000 / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeline_duration_is_shown_in_a_fitting_unit() {
        let of = |us| span(Duration::from_micros(us));
        assert_eq!(
            (of(7), of(1_250), of(61_002_000)),
            ("7µs".into(), "1.2ms".into(), "61.002s".into())
        );
    }
}
