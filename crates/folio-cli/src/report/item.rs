//! An item of a scratchbook as seed 003 writes it.

use std::fmt::{self, Write as _};

use folio::Entry;
use folio::memory::entry::BodyRef;
use serde::Serialize;

use super::{first_line, printable};
use crate::output::{Report, Style};

/// Characters of its text that a line shows.
const LINE_CHARS: usize = 120;

/// A note, a todo or a task.
#[derive(Debug, Serialize)]
pub(crate) struct ScratchItem {
    handle: String,
    item_id: String,
    kind: &'static str,
    status: &'static str,
    title: String,
    body: String,
    /// Of a long text, `body` is the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_ref: Option<BodyRef>,
    tags: Vec<String>,
    pinned: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<f64>,
    created_at_nanoseconds: i64,
    updated_at_nanoseconds: i64,
    version: u32,
}

impl ScratchItem {
    /// `entry` as an item.
    pub(crate) fn of(entry: &Entry) -> Self {
        let fields = &entry.fields;
        Self {
            handle: entry.handle.to_string(),
            item_id: entry.id.to_string(),
            kind: entry.kind.as_str(),
            status: fields.status.as_str(),
            title: fields.title.clone(),
            body: fields.body.clone(),
            body_ref: fields.body_ref.clone(),
            tags: fields.tags.iter().map(ToString::to_string).collect(),
            pinned: fields.pin_rank.is_some(),
            phase: fields.phase.clone(),
            progress: fields.progress,
            created_at_nanoseconds: entry.created_at.as_nanos(),
            updated_at_nanoseconds: entry.updated_at.as_nanos(),
            version: entry.version,
        }
    }
}

impl Report for ScratchItem {
    /// One line: `e42 [task/in_progress] title (phase, 60%) — body… #tag`.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let status = match self.status {
            "done" | "resolved" => style.good(self.status),
            "blocked" => style.warning(self.status),
            status => status.to_owned(),
        };
        write!(out, "{} [{}/{status}]", style.strong(&self.handle), self.kind)?;
        if self.pinned {
            write!(out, " {}", style.warning("pinned"))?;
        }
        if !self.title.is_empty() {
            write!(out, " {}", printable(&self.title))?;
        }
        let progress = self.progress.map(|progress| format!("{:.0}%", progress * 100.0));
        let stage: Vec<_> = self
            .phase
            .iter()
            .map(|phase| printable(phase))
            .chain(progress)
            .collect();
        if !stage.is_empty() {
            write!(out, " ({})", stage.join(", "))?;
        }
        let body = first_line(&self.body, LINE_CHARS);
        if !body.is_empty() && body != self.title {
            write!(out, " — {body}")?;
        }
        for tag in &self.tags {
            write!(out, " {}", style.faint(format_args!("#{tag}")))?;
        }
        out.push('\n');
        Ok(())
    }
}
