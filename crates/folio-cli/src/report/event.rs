//! The events of a run, as lines for programs and for people.

use folio::Timestamp;
use folio::engine::run::{NodeKind, NodeView, PlanMode};
use folio::engine::{Event, NodeId, Outcome, Run};
use folio_server::wire::ResultShape;
use serde::Serialize;
use serde_json::{Value, json};

use super::run::{colored, note_of};
use super::tree::seconds;
use crate::output::Style;

/// One event of a run: a line of the stream.
#[derive(Debug, Serialize)]
pub(crate) struct EventLine {
    event: &'static str,
    at: Timestamp,
    run_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(flatten)]
    more: Value,
}

impl EventLine {
    /// The line for `event`, which was just applied to `run`.
    pub(crate) fn of(run: &Run, at: Timestamp, event: &Event) -> Self {
        let more = match event {
            Event::RunStarted { goal, .. } => json!({"title": run.plan().title, "goal": goal}),
            Event::Expanded { node, .. } => json!({"children": run.children(*node).len()}),
            Event::Started {
                node,
                attempt,
                call,
                writes,
                ..
            } => {
                let mut more = json!({"title": run.label(*node), "attempt": attempt, "call": call});
                if !writes.is_empty() {
                    more["writes"] = json!(writes);
                }
                more
            }
            Event::AttemptFailed {
                attempt,
                failure,
                retry_at,
                ..
            } => {
                json!({"attempt": attempt, "code": failure.code, "message": failure.message, "retry_at": retry_at})
            }
            Event::Finished { node, .. } => {
                let view = run.node(*node);
                let mut more = json!(view.as_ref().and_then(ResultShape::of));
                more["title"] = json!(run.label(*node));
                more["duration_us"] = json!(view.as_ref().and_then(duration_us_of));
                more
            }
            Event::CancelRequested { by, .. } => json!({"by": by}),
            Event::Resumed {
                in_flight,
                uncounted_us,
            } => {
                let in_flight: Vec<_> = in_flight.iter().map(ToString::to_string).collect();
                json!({"in_flight": in_flight, "uncounted_us": uncounted_us})
            }
            // The event as in the journal, without the fields that every line has.
            of_a_model => {
                let mut more = json!(of_a_model);
                if let Some(fields) = more.as_object_mut() {
                    fields.remove("event");
                    fields.remove("node");
                }
                more
            }
        };
        let node = event.node();
        Self {
            event: event.name(),
            at,
            run_id: run.id().to_string(),
            node_id: node.map(|node| node.to_string()),
            path: node.and_then(|node| run.node(node)).map(|view| view.path.to_owned()),
            more,
        }
    }
}

/// How long it took from its start to its end, in microseconds; `None` if it never began.
fn duration_us_of(view: &NodeView<'_>) -> Option<u64> {
    let (from, to) = view.started_at.zip(view.finished_at)?;
    Some(u64::try_from(to.since(from).as_micros()).unwrap_or(u64::MAX))
}

/// One event as a line for people: `[ 12.3s] ok        survey/files  10 files`. `None` for what only matters to
/// programs.
pub(crate) fn event_text(run: &Run, at: Timestamp, event: &Event, style: Style) -> Option<String> {
    let elapsed = run
        .started_at()
        .map(|start| seconds(at.since(start)))
        .unwrap_or_default();
    let line = |status: &str, node: NodeId, text: &str| {
        let view = run.node(node);
        let path = view
            .map(|view| if view.path.is_empty() { "run" } else { view.path })
            .unwrap_or_default();
        let status = format!("{status:<9}");
        let status = status.replacen(status.trim_end(), &colored(style, status.trim_end()), 1);
        let text = super::first_line(text, 120);
        let separator = if text.is_empty() { "" } else { "  " };
        Some(format!(
            "{} {status} {path}{separator}{}",
            style.faint(format_args!("[{elapsed:>6}]")),
            style.faint(text)
        ))
    };
    // A command for a part names the part; for the whole run there is nothing to name.
    let part = |node: &Option<NodeId>| {
        node.and_then(|node| run.node(node))
            .map_or_else(String::new, |view| view.path.to_owned())
    };
    let request_line = |action: &str, node: &Option<NodeId>, by: &str| {
        let part = part(node);
        let separator = if part.is_empty() { "" } else { " " };
        let reason = match by {
            Run::DEADLINE => "because its time is up".to_owned(),
            by => format!("at the request of {by}"),
        };
        Some(format!("[{elapsed:>6}] {action}{separator}{part}, {reason}"))
    };
    match event {
        Event::Finished { node, result } => {
            let view = run.node(*node)?;
            // Groups only structure a plan, and do nothing by themselves.
            let grouping = matches!(view.kind, NodeKind::Parallel | NodeKind::Sequence);
            if grouping && result.status == Outcome::Ok {
                return None;
            }
            line(result.status.as_str(), *node, &note_of(result))
        }
        Event::AttemptFailed { node, failure, .. } => line("retry", *node, &failure.message),
        Event::CancelRequested { node, by } => request_line("cancelling", node, by),
        Event::Resumed { in_flight, .. } => {
            let uncounted = event.uncounted();
            Some(match (in_flight.len(), uncounted.is_zero()) {
                // Its driver is still there: the machine slept, or its clock was set forward.
                (0, false) => format!("[{elapsed:>6}] {} do not count: nobody drove it", seconds(uncounted)),
                (count, true) => format!("[{elapsed:>6}] resumed, {count} in flight"),
                (count, false) => format!(
                    "[{elapsed:>6}] resumed, {count} in flight; {} in which nobody drove it do not count",
                    seconds(uncounted)
                ),
            })
        }
        Event::LimitsChanged { limits, by, .. } => Some(format!(
            "[{elapsed:>6}] limits changed, as {by}: {}",
            limits.in_plan_words()
        )),
        Event::Paused { node, by } => request_line("paused", node, by),
        Event::Continued { node, by } => request_line("continued", node, by),
        Event::FormatRaised { .. } => Some(format!("[{elapsed:>6}] {}", event.in_words())),
        other => line(label_of(other)?, other.node()?, &other.in_words()),
    }
}

/// What the line of an event begins with that is told in its own words; `None` for what only matters to programs.
fn label_of(event: &Event) -> Option<&'static str> {
    Some(match event {
        // Where plans are switched off, nothing was decided.
        Event::Decided { by, .. } if by == PlanMode::Never.as_str() => return None,
        Event::Decided { .. } => "decided",
        Event::Planned { .. } => "planned",
        Event::PlanEdited { .. } => "edited",
        Event::ApprovalAsked { .. } => "waits",
        Event::PlanApproved { .. } | Event::CallApproved { .. } => "approved",
        Event::PlanRejected { .. } | Event::CallRejected { .. } | Event::Rejected { .. } => "rejected",
        Event::AskFailed { retry_at: Some(_), .. } => "retry",
        Event::AskFailed { retry_at: None, .. } => "no answer",
        Event::PassedOn { .. } => "passed on",
        Event::SentBack { .. } => "again",
        Event::Compacted { .. } => "compacted",
        Event::RollUps { .. } => "roll-ups",
        Event::Spent { .. } => "limit",
        Event::Questioned { .. } => "question",
        Event::Answered { .. } => "answer",
        Event::RunStarted { .. }
        | Event::Expanded { .. }
        | Event::Started { .. }
        | Event::Briefed { .. }
        | Event::Asked { .. }
        | Event::SessionBegan { .. }
        | Event::Compacting { .. }
        | Event::Replied { .. }
        | Event::Wants { .. }
        | Event::Proposed { .. }
        | Event::Checked { .. }
        // These have lines of their own.
        | Event::Finished { .. }
        | Event::AttemptFailed { .. }
        | Event::CancelRequested { .. }
        | Event::Resumed { .. }
        | Event::LimitsChanged { .. }
        | Event::Paused { .. }
        | Event::Continued { .. }
        | Event::FormatRaised { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use folio::engine::event::FORMAT;
    use folio::engine::plan::{self, Known};
    use folio::engine::template::Templates;
    use std::time::Duration;

    use folio::memory::RunId;

    use super::*;

    #[test]
    fn finished_event_of_a_plan_states_its_duration() {
        let (mut run, at) = begun();
        let root = NodeId::root(run.id());
        let roof = run.node_at("roof").map(|view| view.id).unwrap();
        let later = at.plus(Duration::from_millis(250));
        let ends = |node: NodeId| Event::Finished {
            node,
            result: Box::new(folio::engine::NodeResult::new(Outcome::Ok, "")),
        };
        for (node, at) in [(roof, at), (root, later)] {
            run.apply(at, &ends(node)).unwrap();
        }
        let line = json!(EventLine::of(&run, later, &ends(root)));
        assert_eq!((&line["status"], &line["duration_us"]), (&json!("ok"), &json!(250_000)));
    }

    /// A run of one step that was taken up at that moment.
    fn begun() -> (Run, Timestamp) {
        let id = RunId::derived(&["r"]);
        let mut run = Run::new(id, Arc::new(Templates::new()));
        let steps = json!({"title": "t", "steps": [{"id": "roof", "do": {"tool": "wait", "args": {"ms": 1}}}]});
        let plan = plan::from_value(&steps, &Known::default()).unwrap();
        let at = Timestamp::from_millis(1);
        let started = Event::RunStarted {
            format: FORMAT,
            goal: String::new(),
            plan: json!(plan),
            inputs: BTreeMap::new(),
            deadline: None,
            run: json!({}),
        };
        run.apply(at, &started).unwrap();
        let expanded = Event::Expanded {
            node: NodeId::root(id),
            items: Vec::new(),
            set_aside: None,
            limits: None,
        };
        run.apply(at, &expanded).unwrap();
        (run, at)
    }

    #[test]
    fn cancel_and_pause_event_lines_name_their_node() {
        let (run, at) = begun();
        let by = || "ada".to_owned();
        let lines = [None, run.node_at("roof").map(|view| view.id)].map(|node| {
            let events = [
                Event::CancelRequested { node, by: by() },
                Event::Paused { node, by: by() },
                Event::Continued { node, by: by() },
            ];
            events.map(|event| event_text(&run, at, &event, Style::default()).unwrap())
        });
        assert_eq!(
            lines[0],
            [
                "[  0.0s] cancelling, at the request of ada",
                "[  0.0s] paused, at the request of ada",
                "[  0.0s] continued, at the request of ada"
            ]
        );
        assert_eq!(
            lines[1],
            [
                "[  0.0s] cancelling roof, at the request of ada",
                "[  0.0s] paused roof, at the request of ada",
                "[  0.0s] continued roof, at the request of ada"
            ]
        );
    }
}
