//! A view as programs and people read it.

use std::fmt;

use folio::Entry;
use folio::memory::view::{Placement, Receipt, Rendered};
use folio::store::workspace::View;
use serde::Serialize;

use super::item::ScratchItem;
use super::printable;
use crate::output::{Report, Style};

/// The view of a scratchbook.
#[derive(Debug, Serialize)]
pub(crate) struct ViewShape {
    pub(crate) view: String,
    tokens: u32,
    placement: Placement,
    as_of: u64,
    pub(crate) receipt: Receipt,
    /// The items of the scratchbook that it was made of, as long as they are few.
    items: Vec<ScratchItem>,
}

impl ViewShape {
    /// `view` of `items` in its wire form.
    pub(crate) fn of(view: &View, items: &[Entry]) -> Self {
        Self {
            view: view.rendered.text.clone(),
            tokens: view.rendered.receipt.tokens,
            placement: view.placement,
            as_of: view.as_of.0,
            receipt: view.rendered.receipt.clone(),
            items: items.iter().map(ScratchItem::of).collect(),
        }
    }
}

impl Report for ViewShape {
    /// The text as a model gets it.
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        out.push_str(&printable(&self.view));
        // A line that is cut has no end of its own.
        if !self.view.is_empty() && !self.view.ends_with('\n') {
            out.push('\n');
        }
        Ok(())
    }
}

/// What pages have come to.
#[derive(Debug, Serialize)]
pub(crate) struct RollupShape {
    rollup: String,
    tokens: u32,
    receipt: Receipt,
}

impl RollupShape {
    /// `rendered` in its wire form.
    pub(crate) fn of(rendered: Rendered) -> Self {
        Self {
            rollup: rendered.text,
            tokens: rendered.receipt.tokens,
            receipt: rendered.receipt,
        }
    }
}

impl Report for RollupShape {
    /// The text as a model gets it.
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        out.push_str(&printable(&self.rollup));
        Ok(())
    }
}
