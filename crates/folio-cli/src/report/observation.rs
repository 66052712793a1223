//! An observation in the format of seed 002, with what became of it since.

use std::fmt::{self, Write as _};

use folio::Timestamp;
use folio::memory::Entry;
use folio::store::workspace::Consolidated;
use serde::Serialize;

pub(crate) use folio_server::wire::Observation;

use super::{erased_text, first_line, instant, printable, shortened_note, state_suffix};
use crate::output::{Report, Style};

/// How many characters of its text a line shows.
const LINE_CHARS: usize = 160;

impl Report for Observation {
    /// One line.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let type_name = self.type_name.as_deref().unwrap_or(self.kind);
        let kind = if type_name.contains("alert") {
            style.bad(type_name)
        } else {
            type_name.to_owned()
        };
        write!(out, "{} [{kind}/{}", style.strong(&self.handle), self.status)?;
        out.push_str(state_suffix(self.state, self.superseded_by.is_some()));
        if let Some(confidence) = self.confidence {
            // The full number is shown with all details of one observation, and in JSON.
            write!(out, " {}", (confidence * 1000.0).round() / 1000.0)?;
        }
        out.push(']');
        let (title, text) = (printable(&self.title), first_line(&self.content, LINE_CHARS));
        match (title.is_empty(), text.is_empty()) {
            (true, true) => {}
            (true, false) => write!(out, " {text}")?,
            (false, true) => write!(out, " {title}")?,
            (false, false) => write!(out, " {title} — {text}")?,
        }
        if let Some(why) = self.erased {
            write!(out, " {}", style.faint(erased_text(why)))?;
        }
        for tag in &self.tags {
            write!(out, " {}", style.faint(format_args!("#{tag}")))?;
        }
        out.push('\n');
        Ok(())
    }
}

/// Everything about one observation.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct InFull(pub(crate) Observation);

impl Report for InFull {
    /// Its fields, then its text.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let seen = &self.0;
        let mut line = |name: &str, value: String| writeln!(out, "{} {value}", style.faint(format_args!("{name:<11}")));
        line(
            "handle",
            format!("{} {}", style.strong(&seen.handle), seen.observation_id),
        )?;
        line("type", seen.type_name.clone().unwrap_or_default())?;
        line("status", format!("{} ({})", seen.status, seen.state))?;
        if let Some(confidence) = seen.confidence {
            line("confidence", confidence.to_string())?;
        }
        line("owner", seen.owner.clone())?;
        if !seen.tags.is_empty() {
            line("tags", seen.tags.join(" "))?;
        }
        line("expires", seen.expires_at.map_or_else(|| "never".to_owned(), instant))?;
        line("created", instant(seen.created_at))?;
        line(
            "updated",
            format!("{} (version {})", instant(seen.updated_at), seen.version),
        )?;
        let by = seen
            .source
            .tool
            .as_ref()
            .map_or_else(String::new, |tool| format!(", tool {tool}"));
        let run = seen
            .source
            .run_id
            .as_ref()
            .map_or_else(String::new, |run| format!(", {run}"));
        line("source", format!("{}{by}{run}", seen.trust))?;
        let values = [
            ("claimed", &seen.claimed_source),
            ("context", &seen.context),
            ("metadata", &seen.metadata),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                line(name, value.to_string())?;
            }
        }
        if let Some(outcome) = seen.outcome {
            line("outcome", outcome.to_owned())?;
        }
        if let Some(by) = &seen.superseded_by {
            line("replaced by", by.clone())?;
        }
        if !seen.title.is_empty() {
            write!(out, "\n{}\n", style.strong(printable(&seen.title)))?;
        }
        match seen.erased {
            Some(why) => writeln!(out, "\n{}", style.faint(erased_text(why)))?,
            None => writeln!(out, "\n{}", printable(seen.content.trim_end()))?,
        }
        if let Some(notice) = shortened_note(seen.content_ref.as_ref(), &seen.content) {
            writeln!(out, "\n{}", style.faint(format_args!("{notice}; --whole shows all")))?;
        }
        Ok(())
    }
}

/// The outcome of superseding several observations by one.
#[derive(Debug, Serialize)]
pub(crate) struct Superseded {
    superseded: Vec<Observation>,
    /// Those that somebody changed in the meantime, left as they are.
    left: Vec<Observation>,
}

impl Superseded {
    /// The outcome, at `now`.
    pub(crate) fn of(consolidated: &Consolidated, now: Timestamp) -> Self {
        let shapes = |entries: &[Entry]| entries.iter().map(|entry| Observation::of(entry, now)).collect();
        Self {
            superseded: shapes(&consolidated.superseded),
            left: shapes(&consolidated.left),
        }
    }
}

impl Report for Superseded {
    /// A line for each that was superseded.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.superseded.iter().try_for_each(|one| one.text(out, style))
    }
}
