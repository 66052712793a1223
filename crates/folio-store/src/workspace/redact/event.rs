//! Finds the texts of an event of a run.

use std::collections::BTreeMap;

use folio_engine::event::{Proposal, Question};
use folio_engine::talk::{Reply, Wanted};
use folio_engine::{Event, Finding, NodeResult, Output, Verdict};
use folio_memory::keeping::Redaction;

use super::Cleaner;

/// Old hashes, with the new hash and size of the bodies that changed.
pub(super) type Renamed = BTreeMap<String, (String, u64)>;

/// Replaces what `mode` says in one event that refers to no body.
pub(crate) fn clean_event(event: &mut Event, mode: Redaction) {
    clean_event_with(&mut Cleaner::new(mode), event, &Renamed::new());
}

pub(super) fn clean_event_with(cleaner: &mut Cleaner, event: &mut Event, renamed: &Renamed) {
    match event {
        Event::RunStarted {
            goal,
            plan,
            inputs,
            run,
            ..
        } => {
            cleaner.text(goal, "goal");
            cleaner.value(plan, "plan");
            cleaner.values(inputs.values_mut(), "inputs");
            cleaner.value(run, "run");
        }
        Event::Expanded { items, .. } => cleaner.values(items, "items"),
        Event::AttemptFailed { failure, .. } => cleaner.text(&mut failure.message, "failure"),
        Event::AskFailed { failure, .. } => cleaner.text(&mut failure.message, "failure"),
        Event::Finished { result, .. } => clean_result(cleaner, result, renamed),
        Event::Started { call, writes, .. } => {
            cleaner.text(call, "call");
            cleaner.texts(writes, "writes");
        }
        Event::Briefed { memory: text, book, .. } | Event::Compacted { text, book, .. } => {
            cleaner.text(text, "memory");
            cleaner.texts(book.iter_mut().map(|book| &mut book.text), "memory");
        }
        Event::Replied { reply, model, .. } => {
            clean_reply(cleaner, reply);
            cleaner.text(model, "model");
        }
        // A session cannot be resumed under another name; but a name that holds a secret is not kept.
        Event::SessionBegan { session, .. } => cleaner.text(session, "session"),
        Event::PassedOn { reason, .. } => cleaner.text(reason, "reason"),
        Event::Rejected { problems: lines, .. } | Event::SentBack { gaps: lines, .. } => {
            cleaner.texts(lines, "problems");
        }
        Event::Decided {
            reason,
            first,
            executor,
            ..
        } => {
            cleaner.texts(executor, "executor");
            cleaner.text(reason, "reason");
            clean_calls(cleaner, first);
        }
        Event::Planned { steps, reason, .. } => {
            cleaner.value(steps, "steps");
            cleaner.text(reason, "reason");
        }
        Event::PlanApproved { by, .. }
        | Event::CallApproved { by, .. }
        | Event::LimitsChanged { by, .. }
        | Event::CancelRequested { by, .. }
        | Event::Paused { by, .. }
        | Event::Continued { by, .. } => cleaner.text(by, "by"),
        Event::PlanRejected { reason, by, .. } | Event::CallRejected { reason, by, .. } => {
            cleaner.text(reason, "reason");
            cleaner.text(by, "by");
        }
        Event::ApprovalAsked { approval, .. } => cleaner.value(&mut approval.args, "args"),
        Event::PlanEdited { steps, by, .. } => {
            cleaner.value(steps, "steps");
            cleaner.text(by, "by");
        }
        Event::Wants { calls, refused, .. } => {
            clean_calls(cleaner, calls);
            clean_refused(cleaner, refused);
        }
        Event::Proposed { proposal, .. } => clean_proposal(cleaner, proposal, renamed),
        Event::Checked { verdicts, begins, .. } => {
            clean_verdicts(cleaner, verdicts);
            cleaner.texts(begins.iter_mut().flat_map(|begins| &mut begins.writes), "writes");
        }
        Event::Questioned { question, .. } => clean_question(cleaner, question),
        Event::Answered { answer, by, .. } => {
            cleaner.text(answer, "answer");
            cleaner.text(by, "by");
        }
        Event::Asked { .. }
        | Event::Compacting { .. }
        | Event::RollUps { .. }
        | Event::Spent { .. }
        | Event::Resumed { .. }
        | Event::FormatRaised { .. } => {}
    }
}

fn clean_reply(cleaner: &mut Cleaner, reply: &mut Reply) {
    cleaner.text(&mut reply.text, "reply");
    cleaner.texts(&mut reply.permissions, "reply");
    let ids: Vec<String> = reply.calls.iter().map(|call| call.id.clone()).collect();
    clean_calls(cleaner, &mut reply.calls);
    if reply.calls.iter().zip(&ids).any(|(call, id)| call.id != *id) {
        // Calls whose ids differed only in their secrets must still be told apart.
        reply.make_call_ids_unique();
    }
}

fn clean_calls<'c>(cleaner: &mut Cleaner, calls: impl IntoIterator<Item = &'c mut Wanted>) {
    for call in calls {
        cleaner.id(&mut call.id);
        cleaner.text(&mut call.tool, "tool");
        cleaner.value(&mut call.args, "args");
    }
}

/// Cleans the ids of refused calls, and why they were refused.
fn clean_refused(cleaner: &mut Cleaner, refused: &mut BTreeMap<String, String>) {
    let clean = |(mut id, mut why): (String, String)| {
        cleaner.id(&mut id);
        cleaner.text(&mut why, "refused");
        (id, why)
    };
    *refused = std::mem::take(refused).into_iter().map(clean).collect();
}

fn clean_proposal(cleaner: &mut Cleaner, proposal: &mut Proposal, renamed: &Renamed) {
    cleaner.text(&mut proposal.notes, "notes");
    cleaner.texts(&mut proposal.whole_notes, "notes");
    clean_output(cleaner, &mut proposal.output, renamed);
    cleaner.texts(
        proposal.evidence.iter_mut().map(|evidence| &mut evidence.id),
        "evidence",
    );
    clean_verdicts(cleaner, &mut proposal.claims);
}

fn clean_question(cleaner: &mut Cleaner, question: &mut Question) {
    cleaner.text(&mut question.text, "question");
    cleaner.texts(&mut question.options, "options");
    cleaner.texts(&mut question.default, "default");
}

fn clean_output(cleaner: &mut Cleaner, output: &mut Output, renamed: &Renamed) {
    match output {
        // The value may be shared with the run in memory; it is copied only if something must be replaced.
        Output::Inline(inline) if cleaner.is_needed_for(&inline.value()) => cleaner.value(inline.value_mut(), "output"),
        Output::Inline(_) => {}
        Output::Blob { hash, bytes } => {
            if let Some((new_hash, new_bytes)) = renamed.get(hash) {
                new_hash.clone_into(hash);
                *bytes = *new_bytes;
            }
        }
    }
}

fn clean_verdicts(cleaner: &mut Cleaner, verdicts: &mut [Verdict]) {
    for verdict in verdicts {
        match &mut verdict.finding {
            Finding::Unmet(text) | Finding::Unverifiable(text) => cleaner.text(text, "verdicts"),
            Finding::Met => {}
        }
    }
}

fn clean_result(cleaner: &mut Cleaner, result: &mut NodeResult, renamed: &Renamed) {
    cleaner.text(&mut result.notes, "notes");
    clean_output(cleaner, &mut result.output, renamed);
    cleaner.texts(result.evidence.iter_mut().map(|evidence| &mut evidence.id), "evidence");
    clean_verdicts(cleaner, &mut result.verdicts);
}
