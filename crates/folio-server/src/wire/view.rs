//! Views and roll-ups in their wire form.

use folio::Entry;
use folio::memory::scratchbook::ScratchItem;
use folio::memory::view::{Placement, Receipt, Rendered};
use folio::store::workspace::View;
use schemars::JsonSchema;
use serde::Serialize;

/// The view of a scratchbook.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ViewShape {
    /// The text for the model.
    pub view: String,
    /// The number of tokens of the text.
    pub tokens: u32,
    /// Where the view belongs in a request to a model.
    pub placement: Placement,
    /// The last commit that the view takes into account.
    pub as_of: u64,
    /// The receipt: what is shown whole, shortened and left out.
    pub receipt: Receipt,
    /// The first forty live items of the scratchbook.
    pub items: Vec<ScratchItem>,
}

impl ViewShape {
    /// Returns `view`, with the `items` beside it, in its wire form.
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

/// The roll-up of the pages that a page contains.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RollupShape {
    /// The text for the model.
    pub rollup: String,
    /// The number of tokens of the text.
    pub tokens: u32,
    /// The receipt: what is shown whole, shortened and left out.
    pub receipt: Receipt,
}

impl RollupShape {
    /// Returns `rendered` in its wire form.
    pub fn of(rendered: Rendered) -> Self {
        Self {
            rollup: rendered.text,
            tokens: rendered.receipt.tokens,
            receipt: rendered.receipt,
        }
    }
}
