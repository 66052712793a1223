//! A view of a scratchbook.

use folio::memory::view::{Placement, Receipt};
use folio::store::workspace::View;
use serde::Serialize;

/// What a model reads, and what of memory it holds and does not.
#[derive(Debug, Serialize)]
pub(crate) struct ViewShape {
    view: String,
    tokens: u32,
    placement: Placement,
    as_of: u64,
    receipt: Receipt,
}

impl ViewShape {
    /// `view` in its wire form.
    pub(crate) fn of(view: &View) -> Self {
        let rendered = &view.rendered;
        Self {
            view: rendered.text.clone(),
            tokens: rendered.receipt.tokens,
            placement: view.placement,
            as_of: view.as_of.0,
            receipt: rendered.receipt.clone(),
        }
    }
}
