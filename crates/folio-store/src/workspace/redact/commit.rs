//! Finds the texts of a commit; those of its events are found in `event`.

use folio_memory::keeping::Redaction;
use folio_memory::turn::Decision;
use folio_memory::{Change, EntryFields, EntryKind, FieldChange, SpacePolicy, Warning};

use super::Cleaner;
use super::event::{Renamed, clean_event_with};
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
    let so_far = commit.record.run.as_mut().and_then(|append| append.so_far.as_mut());
    if let Some(path) = so_far.and_then(|so_far| so_far.forked_at.as_mut()) {
        cleaner.text(path, "node");
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
pub(super) fn clean_decisions(cleaner: &mut Cleaner, decisions: &mut [Decision]) {
    for decision in decisions {
        cleaner.text(&mut decision.verdict, "decision");
        cleaner.texts(&mut decision.reasons, "decision");
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
