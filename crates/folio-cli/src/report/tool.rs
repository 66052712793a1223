//! What became of a tool's answer, and what it may see.

use std::fmt::{self, Write as _};

use folio::Timestamp;
use folio::memory::tool_exchange::{ContextItem, Correction, Rejection};
use folio::store::workspace::Ingested;
use serde::Serialize;

use super::first_line;
use super::observation::Observation;
use crate::output::{Report, Style};

/// What became of the items of an answer.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    stored: Vec<Observation>,
    rejected: Vec<Rejection>,
    warnings: Vec<Correction>,
    /// How many of the stored ones were there before.
    #[serde(skip_serializing_if = "is_zero")]
    replayed: usize,
    /// How many wait until the store can be written.
    #[serde(skip_serializing_if = "is_zero")]
    spooled: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Answer {
    /// `ingested` as programs read it.
    pub(crate) fn of(ingested: &Ingested, now: Timestamp) -> Self {
        Self {
            stored: ingested
                .stored
                .iter()
                .map(|entry| Observation::of(entry, now))
                .collect(),
            rejected: ingested.rejected.clone(),
            warnings: ingested.warnings.clone(),
            replayed: ingested.replayed,
            spooled: ingested.spooled,
        }
    }
}

impl Report for Answer {
    /// The stored ones; what was not stored is told beside the answer.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.stored.iter().try_for_each(|stored| stored.text(out, style))
    }
}

/// What a tool may see of what it asked for.
#[derive(Debug, Serialize)]
pub(crate) struct Seen {
    scratch_page_context: Vec<ContextItem>,
}

impl Seen {
    /// `found` as seed 004 writes it.
    pub(crate) fn of(found: Vec<ContextItem>) -> Self {
        Self {
            scratch_page_context: found,
        }
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
