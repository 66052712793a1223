//! Finds the texts of a commit.

use std::collections::BTreeMap;

use folio_engine::talk::Wanted;
use folio_engine::{Event, Finding, NodeResult, Output, Verdict};
use folio_memory::keeping::Redaction;
use folio_memory::turn::Decision;
use folio_memory::{Change, EntryFields, EntryKind, FieldChange, SpacePolicy, Warning};

use super::Cleaner;
use crate::commit::{Blob, Commit};

/// Replaces in `commit` what `mode` says, flags personal data that stays, and returns warnings about what it replaced.
///
/// A body that changes is kept under the hash of its new content, and the events of the commit refer to that hash.
pub(crate) fn clean_commit(commit: &mut Commit, mode: Redaction) -> Vec<Warning> {
    let mut cleaner = Cleaner::new(mode);
    cleaner.name(&mut commit.actor.name, "name");
    if let Some(key) = &mut commit.idempotency_key {
        cleaner.key(key);
    }
    let renamed = clean_blobs(&mut cleaner, &mut commit.blobs);
    for change in &mut commit.record.changes {
        clean_change(&mut cleaner, change);
    }
    if let Some(reason) = &mut commit.record.reason {
        cleaner.text(reason, "reason");
    }
    if let Some(run) = &mut commit.record.run {
        if let Some(title) = &mut run.title {
            cleaner.text(title, "title");
        }
        for event in &mut run.events {
            clean_event_with(&mut cleaner, event, &renamed);
        }
    }
    cleaner.into_warnings()
}

/// Old hashes, with the new hash and size of the bodies that changed.
pub(super) type Renamed = BTreeMap<String, (String, u64)>;

fn clean_blobs(cleaner: &mut Cleaner, blobs: &mut [Blob]) -> Renamed {
    let mut renamed = Renamed::new();
    for blob in blobs {
        if let Some(clean) = cleaner.bytes(blob.bytes(), "body") {
            let clean = Blob::new(clean);
            let bytes = clean.bytes().len() as u64;
            renamed.insert(blob.hash().0.clone(), (clean.hash().0.clone(), bytes));
            *blob = clean;
        }
    }
    renamed
}

pub(super) fn clean_change(cleaner: &mut Cleaner, change: &mut Change) {
    match change {
        Change::EnsurePage(page) => {
            let fields = &mut page.fields;
            cleaner.text(&mut fields.title, "title");
            cleaner.owner(&mut fields.owner);
            if let Some(branch) = &mut fields.branch_id {
                cleaner.text(branch, "branch_id");
            }
            cleaner.tags(&mut fields.tags);
            if let Some(props) = &mut fields.props {
                cleaner.value(props, "props");
            }
        }
        Change::SetPageStatus { status, .. } => cleaner.text(status, "status"),
        Change::BeginTurn(turn) => {
            cleaner.text(&mut turn.input, "input");
            clean_decisions(cleaner, &mut turn.decisions);
        }
        Change::EndTurn { end, .. } => clean_decisions(cleaner, &mut end.decisions),
        Change::AddEntry(entry) => {
            let body = if entry.kind == EntryKind::Observation {
                "content"
            } else {
                "body"
            };
            cleaner.take_pii();
            clean_fields(cleaner, &mut entry.fields, body);
            entry.fields.pii = cleaner.take_pii();
        }
        Change::PatchEntry { fields, .. } => {
            cleaner.take_pii();
            for field in fields.iter_mut() {
                clean_field(cleaner, field);
            }
            let found = cleaner.take_pii();
            if !found.is_empty() {
                fields.push(FieldChange::PiiFound(found));
            }
        }
        Change::SetPolicy { policy, .. } => clean_policy(cleaner, policy),
        Change::RegisterType { name, .. } => cleaner.type_name(name),
        // A link has only ids. A new kind of change in the model must be added here.
        _ => {}
    }
}

/// Cleans the policy as the JSON that it is written as, so that no section is missed.
fn clean_policy(cleaner: &mut Cleaner, policy: &mut SpacePolicy) {
    let Ok(mut value) = serde_json::to_value(&*policy) else {
        return;
    };
    if cleaner.is_needed_for(&value) {
        cleaner.value(&mut value, "policy");
        // A redacted text is still a text, so this parses; and if some section were more particular, losing the
        // document would be better than keeping its secret on disk.
        *policy = serde_json::from_value(value).unwrap_or_default();
    }
}

/// Reasons quote tags and words of an input.
fn clean_decisions(cleaner: &mut Cleaner, decisions: &mut [Decision]) {
    for decision in decisions {
        cleaner.text(&mut decision.verdict, "decision");
        for reason in &mut decision.reasons {
            cleaner.text(reason, "decision");
        }
    }
}

pub(super) fn clean_fields(cleaner: &mut Cleaner, fields: &mut EntryFields, body: &str) {
    cleaner.text(&mut fields.title, "title");
    cleaner.text(&mut fields.body, body);
    cleaner.tags(&mut fields.tags);
    if let Some(name) = &mut fields.type_name {
        cleaner.type_name(name);
    }
    if let Some(phase) = &mut fields.phase {
        cleaner.text(phase, "phase");
    }
    cleaner.owner(&mut fields.owner);
    let source = &mut fields.source;
    for name in [&mut source.principal, &mut source.tool].into_iter().flatten() {
        cleaner.name(name, "source");
    }
    let values = [
        (&mut fields.parts, "parts"),
        (&mut fields.context, "context"),
        (&mut fields.metadata, "metadata"),
        (&mut fields.claimed_source, "source"),
    ];
    for (value, name) in values {
        if let Some(value) = value {
            cleaner.value(value, name);
        }
    }
}

fn clean_field(cleaner: &mut Cleaner, field: &mut FieldChange) {
    let name = field.field();
    match field {
        FieldChange::Title(text) | FieldChange::Body(text) | FieldChange::Phase(Some(text)) => cleaner.text(text, name),
        FieldChange::Tags(tags) => cleaner.tags(tags),
        FieldChange::Owner(owner) => cleaner.owner(owner),
        FieldChange::Parts(Some(value)) | FieldChange::Context(Some(value)) | FieldChange::Metadata(Some(value)) => {
            cleaner.value(value, name);
        }
        // Numbers, instants, names and states.
        _ => {}
    }
}

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
            inputs.values_mut().for_each(|input| cleaner.value(input, "inputs"));
            cleaner.value(run, "run");
        }
        Event::Expanded { items, .. } => items.iter_mut().for_each(|item| cleaner.value(item, "items")),
        Event::AttemptFailed { failure, .. } => cleaner.text(&mut failure.message, "failure"),
        Event::Finished { result, .. } => clean_result(cleaner, result, renamed),
        Event::CancelRequested { by, .. } => cleaner.text(by, "by"),
        Event::Started { call, writes, .. } => {
            cleaner.text(call, "call");
            writes.iter_mut().for_each(|name| cleaner.text(name, "writes"));
        }
        Event::Briefed { memory: text, book, .. } | Event::Compacted { text, book, .. } => {
            cleaner.text(text, "memory");
            book.iter_mut().for_each(|book| cleaner.text(&mut book.text, "memory"));
        }
        Event::Replied { reply, model, .. } => {
            cleaner.text(&mut reply.text, "reply");
            reply
                .permissions
                .iter_mut()
                .for_each(|line| cleaner.text(line, "reply"));
            let ids: Vec<String> = reply.calls.iter().map(|call| call.id.clone()).collect();
            reply.calls.iter_mut().for_each(|call| clean_wanted(cleaner, call));
            if reply.calls.iter().zip(&ids).any(|(call, id)| call.id != *id) {
                // Calls whose ids differed only in their secrets must still be told apart.
                reply.make_call_ids_unique();
            }
            cleaner.text(model, "model");
        }
        Event::AskFailed { failure, .. } => cleaner.text(&mut failure.message, "failure"),
        // A session cannot be resumed under another name; but a name that holds a secret is not kept.
        Event::SessionBegan { session, .. } => cleaner.text(session, "session"),
        Event::PassedOn { reason, .. } => cleaner.text(reason, "reason"),
        Event::Rejected { problems: lines, .. } | Event::SentBack { gaps: lines, .. } => {
            lines.iter_mut().for_each(|line| cleaner.text(line, "problems"));
        }
        Event::Decided {
            reason,
            first,
            executor,
            ..
        } => {
            executor.iter_mut().for_each(|name| cleaner.text(name, "executor"));
            cleaner.text(reason, "reason");
            first.iter_mut().for_each(|call| clean_wanted(cleaner, call));
        }
        Event::Planned { steps, reason, .. } => {
            cleaner.value(steps, "steps");
            cleaner.text(reason, "reason");
        }
        Event::PlanApproved { by, .. } | Event::CallApproved { by, .. } | Event::LimitsChanged { by, .. } => {
            cleaner.text(by, "by");
        }
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
            calls.iter_mut().for_each(|call| clean_wanted(cleaner, call));
            *refused = std::mem::take(refused)
                .into_iter()
                .map(|(mut id, mut why)| {
                    cleaner.id(&mut id);
                    cleaner.text(&mut why, "refused");
                    (id, why)
                })
                .collect();
        }
        Event::Proposed { proposal, .. } => {
            cleaner.text(&mut proposal.notes, "notes");
            if let Some(notes) = &mut proposal.whole_notes {
                cleaner.text(notes, "notes");
            }
            clean_output(cleaner, &mut proposal.output, renamed);
            proposal
                .evidence
                .iter_mut()
                .for_each(|evidence| cleaner.text(&mut evidence.id, "evidence"));
            clean_verdicts(cleaner, &mut proposal.claims);
        }
        Event::Checked { verdicts, begins, .. } => {
            clean_verdicts(cleaner, verdicts);
            let names = begins.iter_mut().flat_map(|begins| &mut begins.writes);
            names.for_each(|name| cleaner.text(name, "writes"));
        }
        Event::Questioned { question, .. } => {
            cleaner.text(&mut question.text, "question");
            question
                .options
                .iter_mut()
                .for_each(|option| cleaner.text(option, "options"));
            question
                .default
                .iter_mut()
                .for_each(|default| cleaner.text(default, "default"));
        }
        Event::Answered { answer, by, .. } => {
            cleaner.text(answer, "answer");
            cleaner.text(by, "by");
        }
        Event::Paused { by, .. } | Event::Continued { by, .. } => cleaner.text(by, "by"),
        Event::Asked { .. }
        | Event::Compacting { .. }
        | Event::RollUps { .. }
        | Event::Spent { .. }
        | Event::Resumed { .. }
        | Event::FormatRaised { .. } => {}
    }
}

fn clean_wanted(cleaner: &mut Cleaner, call: &mut Wanted) {
    cleaner.id(&mut call.id);
    cleaner.text(&mut call.tool, "tool");
    cleaner.value(&mut call.args, "args");
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
    for evidence in &mut result.evidence {
        cleaner.text(&mut evidence.id, "evidence");
    }
    clean_verdicts(cleaner, &mut result.verdicts);
}
