//! An item of a scratchbook as people read it.

use std::fmt::{self, Write as _};

pub(crate) use folio::memory::scratchbook::ScratchItem;
use folio::memory::view::beyond_title;

use super::{first_line, printable};
use crate::output::{Report, Style};

/// Characters of its text that a line shows.
const LINE_CHARS: usize = 120;

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
        let body = first_line(beyond_title(&self.title, &self.body), LINE_CHARS);
        match (body.is_empty(), self.title.is_empty()) {
            (true, _) => {}
            (false, true) => write!(out, " {body}")?,
            (false, false) => write!(out, " — {body}")?,
        }
        for tag in &self.tags {
            write!(out, " {}", style.faint(format_args!("#{tag}")))?;
        }
        out.push('\n');
        Ok(())
    }
}
