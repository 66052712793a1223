//! What changes of an item mean for its fields.

use super::fields::{check_is_of_kind, checked_phase, checked_progress, status_of, whole_title};
use super::{ItemPatch, read_only};
use crate::change::FieldChange;
use crate::entry::{Entry, Status, Tag, check_text, without_nul};
use crate::lifecycle::outcome_reset;
use crate::view::is_blank;
use crate::warning::{Invalid, Warning};

/// Returns the field changes that `patch` means for `item`, in a fixed order, and the warnings about corrected values:
/// NUL is removed from texts.
///
/// # Errors
///
/// The first field that is wrong; `field_immutable` for a read-only field with a value other than the present one, or `archived` if the item is archived, which is final for updates (M7.5.39).
/// `title_too_long` for a title of more than 512 bytes, because it must not overwrite the body. `phase_too_long` for a
/// phase of more than 512 bytes.
pub fn patch(item: &Entry, patch: ItemPatch) -> Result<(Vec<FieldChange>, Vec<Warning>), Invalid> {
    read_only::check_unchanged(item, &patch.said_again)?;
    let (mut changes, mut warnings) = (clear(item, &patch.cleared)?, Vec::new());
    if let Some(title) = patch.title {
        changes.push(FieldChange::Title(new_title(title, &mut warnings)?));
    }
    // Answers show only the beginning of a long text, and that must not replace the whole.
    if let Some(body) = patch.body.filter(|text| !item.fields.is_beginning(text)) {
        if patch.said_again.contains_key("body_ref") && item.fields.body_ref.is_some() {
            let message = "cannot be changed: body is only the beginning of a long text; \
                           to replace it, send the new text without body_ref";
            return Err(Invalid::new("field_immutable", "body_ref", message));
        }
        let body = without_nul(body, &mut warnings);
        check_text(&body, "body")?;
        changes.push(FieldChange::Body(body));
    }
    if let Some(text) = patch.status {
        let status = status_of(item.kind, &text)?;
        changes.push(FieldChange::Status(status));
        changes.extend(outcome_reset(item, status));
    }
    if let Some(tags) = patch.tags {
        changes.push(FieldChange::Tags(Tag::parse_all(tags.iter().map(String::as_str))?));
    }
    check_is_of_kind(item.kind, patch.phase.as_deref(), patch.progress)?;
    if let Some(phase) = patch.phase {
        let phase = checked_phase(without_nul(phase, &mut warnings))?;
        changes.push(FieldChange::Phase(Some(phase).filter(|p| !p.is_empty())));
    }
    let progress = match patch.progress {
        Some(progress) => Some(progress_as_said(progress, item, &changes, &mut warnings)?),
        None => progress_by_status(item, &changes),
    };
    changes.extend(progress.map(FieldChange::Progress));
    if item.fields.lease_until.is_some() && is_put_to_other_work(item, &changes) {
        // A claim ends with the status that it was made for (M7.4.35).
        changes.push(FieldChange::LeaseUntil(None));
    }
    // A repeated request for what already holds, such as after a lost answer, succeeds (M7.4.34).
    if item.fields.status == Status::Archived && !item.is_unchanged_by(&changes) {
        let message = format!("{} is archived, which is final; add a new item", item.handle);
        return Err(Invalid::new("archived", "status", message));
    }
    Ok((changes, warnings))
}

/// The error that a field cannot be empty.
pub(crate) fn cannot_be_null(field: &str) -> Invalid {
    Invalid::new(
        "field_not_cleared",
        field,
        "cannot be null; leave it out to keep its value",
    )
}

/// The field changes that clear the fields `cleared` of `item`. A field that is empty already stays so.
fn clear(item: &Entry, cleared: &[String]) -> Result<Vec<FieldChange>, Invalid> {
    let fields = &item.fields;
    let mut changes = Vec::new();
    for name in cleared {
        changes.extend(match name.as_str() {
            "body" => (!fields.body.is_empty()).then(|| FieldChange::Body(String::new())),
            "tags" => (!fields.tags.is_empty()).then(|| FieldChange::Tags(Vec::new())),
            "phase" => fields.phase.is_some().then_some(FieldChange::Phase(None)),
            "progress" => fields.progress.is_some().then_some(FieldChange::Progress(None)),
            _ => return Err(cannot_be_null(name)),
        });
    }
    Ok(changes)
}

fn new_title(title: String, warnings: &mut Vec<Warning>) -> Result<String, Invalid> {
    let title = without_nul(title, warnings);
    if is_blank(&title) {
        return Err(Invalid::new(
            "title_empty",
            "title",
            "cannot be empty; leave it out to keep its value",
        ));
    }
    whole_title(&title)
}

/// The progress that somebody reports of `item`, to which `changes` are made.
fn progress_as_said(
    progress: f64,
    item: &Entry,
    changes: &[FieldChange],
    warnings: &mut Vec<Warning>,
) -> Result<Option<f64>, Invalid> {
    let progress = checked_progress(progress)?;
    if progress < 1.0 && is_done_after(item, changes) {
        // Work that is done has full progress (M7.5.41), also where a caller sends back what it read before.
        let message = "progress of what is done is 1; reopen it to set less";
        warnings.push(Warning::new("progress_of_done", message, progress, 1));
        return Ok(Some(1.0));
    }
    Ok(Some(progress))
}

/// The progress that follows from a change of status, if nobody reports any; `None` if it stays as it is.
fn progress_by_status(item: &Entry, changes: &[FieldChange]) -> Option<Option<f64>> {
    let was_done = item.fields.status == Status::Done;
    let is_cleared = changes.contains(&FieldChange::Progress(None));
    if !is_cleared && !was_done && changes.contains(&FieldChange::Status(Status::Done)) {
        // Work that becomes done has full progress, whether by an update or by completing it (M7.5.41).
        return Some(Some(1.0));
    }
    let was_complete = was_done && item.fields.progress.is_some_and(|progress| progress >= 1.0);
    // A reopened item is no longer complete, and nobody has said how far it is.
    (was_complete && changes.iter().any(is_reopening)).then_some(None)
}

/// Whether `changes` give `item` another status of work to be done.
fn is_put_to_other_work(item: &Entry, changes: &[FieldChange]) -> bool {
    let same = FieldChange::Status(item.fields.status);
    changes.iter().any(|change| is_reopening(change) && *change != same)
}

/// Whether `item` is done once `changes` are made.
fn is_done_after(item: &Entry, changes: &[FieldChange]) -> bool {
    let status = changes.iter().rev().find_map(|change| match change {
        FieldChange::Status(status) => Some(*status),
        _ => None,
    });
    status.unwrap_or(item.fields.status) == Status::Done
}

/// Whether `change` turns something into work to be done.
fn is_reopening(change: &FieldChange) -> bool {
    matches!(
        change,
        FieldChange::Status(Status::Open | Status::InProgress | Status::Blocked)
    )
}
