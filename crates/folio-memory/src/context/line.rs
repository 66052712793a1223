//! One entry as one line (view rule V4), at three lengths.

use std::fmt::Write as _;

use super::Candidate;
use crate::actor::Trust;
use crate::entry::{Entry, EntryKind};

/// Characters of text in a full, a short and a head line.
const CHARS: [usize; 3] = [480, 140, 48];

/// `entry` as a candidate for a view: `e42 [task/in_progress] title (phase, 60%) — body… #tag`.
///
/// An observation says how sure it is, and from whom it is if that is a stranger. No instants, so the same state gives the same bytes.
#[must_use]
pub fn candidate(entry: &Entry) -> Candidate {
    let [full, short, head] = CHARS.map(|chars| line(entry, chars));
    Candidate {
        name: entry.handle.to_string(),
        lengths: [full, short, head],
        cut: false,
    }
}

fn line(entry: &Entry, chars: usize) -> String {
    let fields = &entry.fields;
    let is_head = chars == CHARS[2];
    let kind = fields
        .type_name
        .as_deref()
        .filter(|_| entry.kind == EntryKind::Observation);
    let mut line = format!(
        "{} [{}/{}]",
        entry.handle,
        kind.unwrap_or(entry.kind.as_str()),
        fields.status
    );
    let title = one_line(&fields.title);
    let body = one_line(&fields.body);
    if !title.is_empty() {
        line.push(' ');
        line.push_str(&cut(&title, chars));
    }
    let mut remarks: Vec<String> = Vec::new();
    remarks.extend(fields.phase.as_deref().map(one_line).filter(|phase| !phase.is_empty()));
    remarks.extend(fields.progress.map(|progress| format!("{:.0}%", progress * 100.0)));
    if entry.kind == EntryKind::Observation {
        remarks.extend(
            fields
                .confidence
                .map(|confidence| format!("{:.0}% sure", confidence.value() * 100.0)),
        );
        remarks.extend(match fields.trust {
            Trust::Imported => Some("imported".to_owned()),
            Trust::ToolExternal => Some("from outside".to_owned()),
            Trust::ToolInternal | Trust::Model | Trust::User => None,
        });
    }
    if !remarks.is_empty() && !is_head {
        // Writing to a string does not fail.
        let _infallible = write!(line, " ({})", remarks.join(", "));
    }
    let room = chars.saturating_sub(title.chars().count());
    if title.is_empty() {
        line.push(' ');
        line.push_str(&cut(&body, chars));
    } else if !body.is_empty() && body != title && !is_head && room > 20 {
        line.push_str(" — ");
        line.push_str(&cut(body.strip_prefix(&title).map_or(&*body, str::trim_start), room));
    }
    if !is_head {
        for tag in &fields.tags {
            line.push_str(" #");
            line.push_str(tag.as_str());
        }
    }
    line
}

/// White space, line ends included, as single spaces; nothing that a terminal or a prompt would act upon.
fn one_line(text: &str) -> String {
    let shown: String = text
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| !c.is_control())
        .collect();
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text`, or its beginning with a sign that there is more.
pub(super) fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}
