//! A view as programs read it.

use folio::Entry;
use folio::memory::scratchbook::ScratchItem;
use folio::memory::view::{Placement, Receipt, Rendered};
use folio::store::workspace::View;
use schemars::JsonSchema;
use serde::Serialize;

/// The view of a scratchbook.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ViewShape {
    /// What a model reads.
    pub view: String,
    /// What that costs.
    pub tokens: u32,
    /// Where it stands in what a model is sent.
    pub placement: Placement,
    /// The commit up to which it knows.
    pub as_of: u64,
    /// What it holds, shortens and leaves out.
    pub receipt: Receipt,
    /// The items of the scratchbook that it was made of, as long as they are few.
    pub items: Vec<ScratchItem>,
}

impl ViewShape {
    /// `view` of `items` in its wire form.
    pub fn of(view: &View, items: &[Entry]) -> Self {
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

/// What pages have come to.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RollupShape {
    /// What a model reads.
    pub rollup: String,
    /// What that costs.
    pub tokens: u32,
    /// What it holds, shortens and leaves out.
    pub receipt: Receipt,
}

impl RollupShape {
    /// `rendered` in its wire form.
    pub fn of(rendered: Rendered) -> Self {
        Self {
            rollup: rendered.text,
            tokens: rendered.receipt.tokens,
            receipt: rendered.receipt,
        }
    }
}
