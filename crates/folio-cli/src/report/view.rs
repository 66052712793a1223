//! A view as programs and people read it.

use std::fmt;

pub(crate) use folio_server::wire::{RollupShape, ViewShape};

use super::printable;
use crate::output::{Report, Style};

impl Report for ViewShape {
    /// The text as a model gets it.
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        out.push_str(&printable(&self.view));
        // A truncated line has no newline.
        if !self.view.is_empty() && !self.view.ends_with('\n') {
            out.push('\n');
        }
        Ok(())
    }
}

impl Report for RollupShape {
    /// The text as a model gets it.
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        out.push_str(&printable(&self.rollup));
        Ok(())
    }
}
