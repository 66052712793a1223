//! What a search has found.

use std::fmt::{self, Write as _};

use folio::Timestamp;
use folio::memory::text::{Snippet, snippet};
use folio::memory::{Entry, TextQuery};
use serde::Serialize;

use super::observation::state_name;
use super::printable;
use crate::output::{Report, Style};

/// Characters of a title that are shown.
const TITLE_CHARS: usize = 80;
/// Characters of a text that are shown.
const TEXT_CHARS: usize = 120;

/// An entry, and where it has what was searched for.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    handle: String,
    entry_id: String,
    kind: &'static str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_name: Option<String>,
    status: &'static str,
    state: &'static str,
    /// Higher is better; comparable within one answer.
    score: Option<f64>,
    title: String,
    #[serde(skip)]
    marked_title: Snippet,
    /// The part of its text with most of the words, in pieces.
    snippet: Snippet,
    tags: Vec<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl Found {
    /// `entry`, which was found by `words`, as it stands at `now`.
    pub(crate) fn of(entry: &Entry, score: Option<f64>, words: &TextQuery, now: Timestamp) -> Self {
        let fields = &entry.fields;
        Self {
            handle: entry.handle.to_string(),
            entry_id: entry.id.to_string(),
            kind: entry.kind.as_str(),
            type_name: fields.type_name.clone(),
            status: fields.status.as_str(),
            state: state_name(entry.state(now)),
            score,
            title: fields.title.clone(),
            marked_title: snippet(&fields.title, words, TITLE_CHARS),
            snippet: snippet(&fields.body, words, TEXT_CHARS),
            tags: fields.tags.iter().map(ToString::to_string).collect(),
            created_at: entry.created_at,
            updated_at: entry.updated_at,
        }
    }
}

impl Report for Found {
    /// One line: `e42 [note/active] title — … the text around the words … #tag`.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let kind = self.type_name.as_deref().unwrap_or(self.kind);
        write!(out, "{} [{kind}/{}]", style.strong(&self.handle), self.status)?;
        let parts = [marked(&self.marked_title, style), marked(&self.snippet, style)];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        write!(out, " {}", parts.join(" — "))?;
        for tag in &self.tags {
            write!(out, " {}", style.faint(format_args!("#{tag}")))?;
        }
        out.push('\n');
        Ok(())
    }
}

fn marked(snippet: &Snippet, style: Style) -> String {
    let part = |part: &folio::memory::text::SnippetPart| {
        let text = printable(&part.text);
        if part.hit { style.good(text) } else { text }
    };
    snippet.parts.iter().map(part).collect()
}
