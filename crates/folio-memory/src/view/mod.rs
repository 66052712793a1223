//! What a model reads of memory: lines in sections, within a budget of tokens, with a receipt (M7.8 V1 to V7).
//!
//! The view of a scratchbook and the assembled context use the same fitting: [`fit`]. The same entries, budget and
//! tokenizer give the same bytes. Nothing here reads a clock: lines contain no instants, and the caller decides
//! beforehand what is live.

mod book;
mod fit;
mod line;
mod place;
mod prompt;
mod receipt;
mod rollup;

pub(crate) use book::HEADING;
pub use book::{BookSections, Offer, Render, Shown, ViewSection, folded, parts_of, render, sections_of};
pub use fit::{Leftover, Part, fit};
pub use line::{
    Audience, Candidate, beyond_title, candidate, candidate_for, is_blank, is_hidden, is_untrusted, one_line,
    strip_unsafe_chars,
};
pub use place::{Message, Placement, Request, Speaker, place};
pub use prompt::planner_block;
pub use receipt::{Folded, Omitted, Receipt, Rendered, SectionReceipt, TOLD};
pub use rollup::{PageCounts, PageLines, PageTail, is_settled, rollup};

#[cfg(test)]
mod tests;
