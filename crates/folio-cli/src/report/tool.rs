//! What became of a tool's answer, and what it may see.

use std::fmt::{self, Write as _};

pub(crate) use folio_server::wire::{Seen, TakenIn};

use super::first_line;
use crate::output::{Report, Style};

impl Report for TakenIn {
    /// The stored ones; what was not stored is told beside the answer.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.stored.iter().try_for_each(|stored| stored.text(out, style))
    }
}

impl Report for Seen {
    /// One line each.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        for item in &self.scratch_page_context {
            let handle = style.strong(format_args!("{:<5}", item.handle.to_string()));
            let type_name = item.type_name.as_deref().unwrap_or("observation");
            writeln!(out, "{handle} [{type_name}] {}", first_line(&item.content, 160))?;
        }
        Ok(())
    }
}
