//! How many bytes of a run's journal and pages an event counts as (E9.10).
//!
//! The number follows from the event alone, so every fold of a journal counts the same, and it is computed without
//! serializing the event. It measures what the event holds, not what a store makes of it: 256 bytes for each event,
//! which covers its names, times and numbers and the entry that it writes on a page; the texts that people read twice,
//! because pages hold them too; everything else once. An output that is kept beside the journal counts with its full
//! size.

use folio_memory::value_bytes;
use serde_json::Value;

use super::{BookView, Event, PlanDifference, Proposal, Question};
use crate::result::{Evidence, Failure, Finding, NodeResult, Output, Verdict};
use crate::talk::{Reply, Wanted};

/// What every event counts as, apart from its texts and values.
const EVENT: u64 = 256;
/// What each node id counts as where an event lists several.
const NODE: u64 = 32;

impl Event {
    /// How many bytes of its run's journal and pages the event counts as: 256, the texts that stand on pages twice, and
    /// other texts and values once. What the run was granted and where it was submitted are not counted, because they
    /// are not its work.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        EVENT
            + match self {
                Self::RunStarted { goal, plan, inputs, .. } => {
                    let inputs = inputs
                        .iter()
                        .map(|(name, value)| journal_bytes(name) + value_bytes(value));
                    journal_and_page_bytes(goal) + value_bytes(plan) + inputs.sum::<u64>()
                }
                Self::Expanded { items, set_aside, .. } => {
                    let named = set_aside.iter().flat_map(|set_aside| set_aside.named.keys());
                    items.iter().map(value_bytes).sum::<u64>() + named.map(journal_bytes).sum::<u64>()
                }
                Self::Started { call, writes, .. } => journal_and_page_bytes(call) + all(writes, journal_bytes),
                Self::AttemptFailed { failure, .. } | Self::AskFailed { failure, .. } => of_failure(failure),
                Self::Finished { result, .. } => of_result(result),
                Self::Briefed { memory, book, .. } => journal_bytes(memory) + of_book(book.as_deref()),
                Self::Compacted { text, book, .. } => journal_and_page_bytes(text) + of_book(book.as_deref()),
                Self::RollUps { parts, .. } => count(parts.len()) * NODE,
                Self::SessionBegan { program, session, .. } => journal_bytes(program) + journal_bytes(session),
                Self::Replied { reply, model, .. } => of_reply(reply) + journal_bytes(model),
                Self::Rejected { problems: lines, .. } | Self::SentBack { gaps: lines, .. } => {
                    all(lines, journal_and_page_bytes)
                }
                Self::PassedOn { reason, .. } => journal_and_page_bytes(reason),
                Self::Decided {
                    by,
                    reason,
                    first,
                    executor,
                    ..
                } => {
                    let executor = executor.as_deref().map_or(0, journal_bytes);
                    journal_bytes(by) + journal_and_page_bytes(reason) + first.as_ref().map_or(0, of_wanted) + executor
                }
                Self::Planned {
                    steps, reason, kept, ..
                } => value_bytes(steps) + journal_and_page_bytes(reason) + count(kept.len()) * NODE,
                Self::PlanEdited {
                    steps,
                    kept,
                    difference,
                    by,
                    ..
                } => {
                    value_bytes(steps)
                        + count(kept.len()) * NODE
                        + of_difference(difference)
                        + journal_and_page_bytes(by)
                }
                Self::ApprovalAsked { approval, .. } => {
                    journal_and_page_bytes(&approval.tool) + value_bytes(&approval.args)
                }
                Self::PlanRejected { reason, by, .. } | Self::CallRejected { reason, by, .. } => {
                    journal_and_page_bytes(reason) + journal_and_page_bytes(by)
                }
                Self::PlanApproved { by, .. }
                | Self::CallApproved { by, .. }
                | Self::LimitsChanged { by, .. }
                | Self::Paused { by, .. }
                | Self::Continued { by, .. }
                | Self::CancelRequested { by, .. } => journal_and_page_bytes(by),
                Self::Wants { calls, refused, .. } => {
                    let refused = refused
                        .iter()
                        .map(|(call, why)| journal_bytes(call) + journal_and_page_bytes(why));
                    calls.iter().map(of_wanted).sum::<u64>() + refused.sum::<u64>()
                }
                Self::Proposed { proposal, .. } => of_proposal(proposal),
                Self::Checked { verdicts, begins, .. } => {
                    let writes = begins.as_ref().map_or(0, |begins| all(&begins.writes, journal_bytes));
                    verdicts.iter().map(of_verdict).sum::<u64>() + writes
                }
                Self::Questioned { question, .. } => of_question(question),
                Self::Answered { answer, by, .. } => journal_and_page_bytes(answer) + journal_and_page_bytes(by),
                Self::Resumed { in_flight, .. } => count(in_flight.len()) * NODE,
                Self::Compacting { .. } | Self::Asked { .. } | Self::Spent { .. } | Self::FormatRaised { .. } => 0,
            }
    }
}

fn count(length: usize) -> u64 {
    length as u64
}

/// The size of a text that only the journal holds.
fn journal_bytes(text: impl AsRef<str>) -> u64 {
    count(text.as_ref().len())
}

/// The size of a text that the journal and a page hold.
fn journal_and_page_bytes(text: impl AsRef<str>) -> u64 {
    2 * journal_bytes(text)
}

fn all<'t>(texts: &'t [String], each: impl Fn(&'t String) -> u64) -> u64 {
    texts.iter().map(each).sum()
}

fn of_failure(failure: &Failure) -> u64 {
    journal_bytes(&failure.code) + journal_and_page_bytes(&failure.message)
}

fn of_output(output: &Output) -> u64 {
    match output {
        Output::Inline(inline) => of_value(&inline.value()),
        Output::Blob { bytes, .. } => *bytes,
    }
}

/// The size of a value. Null is left out of an event, so it counts as nothing.
fn of_value(value: &Value) -> u64 {
    if value.is_null() { 0 } else { value_bytes(value) }
}

fn of_evidence(evidence: &Evidence) -> u64 {
    let optional = |text: &Option<String>| text.as_deref().map_or(0, journal_bytes);
    journal_bytes(&evidence.kind) + journal_bytes(&evidence.id) + optional(&evidence.hash) + optional(&evidence.span)
}

fn of_verdict(verdict: &Verdict) -> u64 {
    let finding_bytes = match &verdict.finding {
        Finding::Met => 0,
        Finding::Unmet(why) | Finding::Unverifiable(why) => journal_and_page_bytes(why),
    };
    journal_bytes(&verdict.criterion) + finding_bytes
}

fn of_result(result: &NodeResult) -> u64 {
    journal_and_page_bytes(&result.notes)
        + of_output(&result.output)
        + result.evidence.iter().map(of_evidence).sum::<u64>()
        + result.verdicts.iter().map(of_verdict).sum::<u64>()
        + result.wrote
}

fn of_proposal(proposal: &Proposal) -> u64 {
    // The notes count once here: a page holds them only when they become the result.
    journal_bytes(&proposal.notes)
        + proposal.whole_notes.as_deref().map_or(0, journal_and_page_bytes)
        + of_output(&proposal.output)
        + proposal.evidence.iter().map(of_evidence).sum::<u64>()
        + proposal.claims.iter().map(of_verdict).sum::<u64>()
        + proposal.wrote
}

fn of_book(book: Option<&BookView>) -> u64 {
    book.map_or(0, |book| journal_bytes(&book.text))
}

fn of_wanted(wanted: &Wanted) -> u64 {
    journal_bytes(&wanted.id) + journal_bytes(&wanted.tool) + of_value(&wanted.args)
}

fn of_reply(reply: &Reply) -> u64 {
    let permissions = all(&reply.permissions, journal_bytes);
    journal_bytes(&reply.text) + reply.calls.iter().map(of_wanted).sum::<u64>() + permissions
}

fn of_difference(difference: &PlanDifference) -> u64 {
    let names = [
        &difference.kept,
        &difference.added,
        &difference.changed,
        &difference.dropped,
    ];
    names.into_iter().map(|names| all(names, journal_and_page_bytes)).sum()
}

fn of_question(question: &Question) -> u64 {
    let default = question.default.as_deref().map_or(0, journal_bytes);
    journal_bytes(&question.call)
        + journal_and_page_bytes(&question.text)
        + all(&question.options, journal_bytes)
        + default
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::node::NodeId;
    use crate::result::Outcome;

    fn finished(result: NodeResult) -> Event {
        Event::Finished {
            node: NodeId::root(folio_memory::RunId::derived(&["test"])),
            result: Box::new(result),
        }
    }

    #[test]
    fn event_bytes_count_notes_twice_and_output_once_e9_10() {
        let mut result = NodeResult::new(Outcome::Ok, "ten chars.");
        assert_eq!(finished(result.clone()).bytes(), 256 + 20);
        result.output = Output::of(json!({"text": "four", "n": [1, true]}));
        // Two keys and a string by their length, 8 for whatever else there is.
        let output = 8 + (4 + 4) + (1 + 8 + 8 + 8);
        assert_eq!(finished(result.clone()).bytes(), 256 + 20 + output);
        result.output = Output::Blob {
            hash: "0".repeat(64),
            bytes: 70_000,
        };
        result.wrote = 500;
        assert_eq!(finished(result).bytes(), 256 + 20 + 70_000 + 500);
    }

    #[test]
    fn run_grants_and_submission_are_not_counted_in_event_bytes_e9_10() {
        let started = |run| Event::RunStarted {
            format: super::super::FORMAT,
            goal: "goal".to_owned(),
            plan: json!({}),
            inputs: BTreeMap::new(),
            deadline: None,
            run,
        };
        assert_eq!(
            started(Value::Null).bytes(),
            started(json!({"folder": "/somewhere"})).bytes()
        );
    }
}
