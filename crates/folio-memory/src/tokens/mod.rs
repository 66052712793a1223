//! Counting the tokens of a text: exactly if the model's vocabulary is published, otherwise by an estimate on the high
//! side (M7.8 V3).

mod estimate;
mod likely;
mod vocabulary;

use std::fmt;

pub use estimate::Estimate;
pub use likely::Likely;
pub use vocabulary::{Counter, Vocabulary, for_model};

/// A tokenizer: the exact one of a model if it is known, or an estimate.
pub trait Tokens: fmt::Debug + Send + Sync {
    /// The number of tokens of `text`, or slightly more.
    ///
    /// Counts of parts do not add up, and a longer text can cost less than its beginning, so a text that has to fit
    /// must be counted as a whole.
    fn count(&self, text: &str) -> u32;

    /// The method of counting, for a receipt: `o200k_base`, `o200k_base × 1.2, estimated`, `estimated`. Counts by one
    /// method are reused for the same method, so different ways of counting must have different names.
    fn method(&self) -> String;
}

#[cfg(test)]
mod tests;
