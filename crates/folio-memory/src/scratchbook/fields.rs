//! Which values the fields of an item may have.

use crate::entry::{EntryKind, Status};
use crate::excerpt::one_line;
use crate::view::is_blank;
use crate::warning::Invalid;

/// The maximum length of a title, in bytes.
pub(super) const MAX_TITLE_BYTES: usize = 512;
/// The maximum length of a task's phase, in bytes.
pub(super) const MAX_PHASE_BYTES: usize = 512;

/// The status that `text` names for an item of `kind`. Seed 003 calls every item that is not done open, so `open` means
/// active for a note.
pub(super) fn status_of(kind: EntryKind, text: &str) -> Result<Status, Invalid> {
    let family = kind.family();
    let status = match (kind, text) {
        (EntryKind::Note, "open") => Some(Status::Active),
        _ => Status::parse_in(text, family),
    };
    status.ok_or_else(|| {
        let statuses = Status::ALL.into_iter().filter(|status| status.is_of(family));
        let names: Vec<_> = statuses.map(Status::as_str).collect();
        let message = format!("a {kind} cannot be {text:?}; it can be {}", names.join(", "));
        Invalid::new("status_invalid", "status", message)
    })
}

pub(super) fn check_is_of_kind(kind: EntryKind, phase: Option<&str>, progress: Option<f64>) -> Result<(), Invalid> {
    if kind == EntryKind::Task || (phase.is_none() && progress.is_none()) {
        return Ok(());
    }
    let field = if phase.is_some() { "phase" } else { "progress" };
    let message = format!("only a task has phase and progress; this is a {kind}");
    Err(Invalid::new("field_not_of_kind", field, message))
}

/// Returns `text` as a title of one line. A longer text is cut to its beginning, for callers that keep the rest
/// elsewhere.
#[must_use]
pub fn short_title(text: &str) -> String {
    let line = one_line(text);
    if line.len() <= MAX_TITLE_BYTES {
        return line;
    }
    format!(
        "{}…",
        &line[..line.floor_char_boundary(MAX_TITLE_BYTES - '…'.len_utf8())]
    )
}

/// As [`short_title`], but refuses an empty title.
pub(crate) fn checked_title(title: &str) -> Result<String, Invalid> {
    let line = short_title(title);
    if is_blank(&line) {
        let message = "there is neither a title nor a body";
        return Err(Invalid::new("title_empty", "title", message));
    }
    Ok(line)
}

/// Returns `title` in one line if it fits completely.
pub(super) fn whole_title(title: &str) -> Result<String, Invalid> {
    check_title(&one_line(title))?;
    checked_title(title)
}

/// Checks that all of `line` fits in a title.
pub(crate) fn check_title(line: &str) -> Result<(), Invalid> {
    let bytes = line.len();
    if bytes > MAX_TITLE_BYTES {
        let message = format!("{bytes} bytes are more than {MAX_TITLE_BYTES}; put longer text in the body");
        return Err(Invalid::new("title_too_long", "title", message));
    }
    Ok(())
}

/// Checks that `phase` is no longer than the name of a phase may be.
pub(crate) fn checked_phase(phase: String) -> Result<String, Invalid> {
    let bytes = phase.len();
    if bytes > MAX_PHASE_BYTES {
        let message = format!("{bytes} bytes are more than {MAX_PHASE_BYTES}; put longer text in the body");
        return Err(Invalid::new("phase_too_long", "phase", message));
    }
    Ok(phase)
}

pub(crate) fn checked_progress(progress: f64) -> Result<f64, Invalid> {
    if (0.0..=1.0).contains(&progress) {
        // Adding zero turns -0.0 into 0.0.
        Ok(progress + 0.0)
    } else {
        Err(Invalid::new(
            "progress_invalid",
            "progress",
            format!("{progress} is not from 0 to 1"),
        ))
    }
}
