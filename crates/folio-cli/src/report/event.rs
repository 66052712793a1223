//! What happens in a run, event by event: lines for programs and for people.

use folio::Timestamp;
use folio::engine::run::NodeKind;
use folio::engine::{Event, NodeId, Outcome, Run};
use serde::Serialize;
use serde_json::{Value, json};

use super::run::{ResultShape, colored, note_of};
use super::tree::seconds;
use crate::output::Style;

/// One thing that happened in a run: a line of the stream.
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
    /// `event`, which was just applied to `run`.
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
                let mut more = json!({"title": run.title(*node), "attempt": attempt, "call": call});
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
            Event::Finished { node, result } => {
                let mut more = json!(ResultShape::of(result));
                more["title"] = json!(run.title(*node));
                more
            }
            Event::CancelRequested { by, .. } => json!({"by": by}),
            Event::Resumed { in_flight } => {
                json!({"in_flight": in_flight.iter().map(ToString::to_string).collect::<Vec<_>>()})
            }
            // As it stands in the journal, without what every line has.
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

/// One thing that happened, as a line for people: `[12.3s] ok   survey/files  10 files`. Nothing for what only matters
/// to programs.
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
        let gap = if text.is_empty() { "" } else { "  " };
        Some(format!(
            "{} {status} {path}{gap}{}",
            style.faint(format_args!("[{elapsed:>6}]")),
            style.faint(text)
        ))
    };
    match event {
        Event::Finished { node, result } => {
            let view = run.node(*node)?;
            // Groups are how a plan is written, not something that is done.
            let grouping = matches!(view.kind, NodeKind::Parallel | NodeKind::Sequence);
            if grouping && result.status == Outcome::Ok {
                return None;
            }
            line(result.status.as_str(), *node, &note_of(result))
        }
        Event::AttemptFailed { node, failure, .. } => line("retry", *node, &failure.message),
        Event::CancelRequested { by, .. } => Some(format!("[{elapsed:>6}] cancelling, as {by} asked")),
        Event::Resumed { in_flight } => Some(format!("[{elapsed:>6}] taken up again, {} in flight", in_flight.len())),
        Event::Decided { node, .. } => line("decided", *node, &event.in_words()),
        Event::Planned { node, .. } => line("planned", *node, &event.in_words()),
        Event::ApprovalAsked { node, .. } => line("waits", *node, &event.in_words()),
        Event::PlanApproved { node, .. } | Event::CallApproved { node, .. } => {
            line("approved", *node, &event.in_words())
        }
        Event::PlanRejected { node, .. } | Event::CallRejected { node, .. } => {
            line("rejected", *node, &event.in_words())
        }
        Event::LimitsChanged { .. } => Some(format!("[{elapsed:>6}] limits changed, as {}", event.in_words())),
        Event::PlanEdited { node, .. } => line("edited", *node, &event.in_words()),
        Event::AskFailed { node, retry_at, .. } => {
            let what = if retry_at.is_some() { "retry" } else { "no answer" };
            line(what, *node, &event.in_words())
        }
        Event::Rejected { node, .. } => line("rejected", *node, &event.in_words()),
        Event::PassedOn { node, .. } => line("passed on", *node, &event.in_words()),
        Event::SentBack { node, .. } => line("again", *node, &event.in_words()),
        Event::Compacted { node, .. } => line("put away", *node, &event.in_words()),
        Event::RollUps { node, .. } => line("roll-ups", *node, &event.in_words()),
        Event::Spent { node, .. } => line("limit", *node, &event.in_words()),
        Event::Questioned { node, .. } => line("question", *node, &event.in_words()),
        Event::Answered { node, .. } => line("answer", *node, &event.in_words()),
        Event::Paused { by, .. } => Some(format!("[{elapsed:>6}] paused, as {by} asked")),
        Event::Continued { by, .. } => Some(format!("[{elapsed:>6}] goes on, as {by} asked")),
        Event::FormatRaised { .. } => Some(format!("[{elapsed:>6}] {}", event.in_words())),
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
        | Event::Checked { .. } => None,
    }
}
