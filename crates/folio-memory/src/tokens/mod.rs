//! What a text costs a model: exactly where its vocabulary is published, otherwise no less than that (M7.8 V3).

mod estimate;
mod vocabulary;

use std::fmt;

pub use estimate::Estimate;
pub use vocabulary::{Counter, Vocabulary, for_model};

/// The seam of a tokenizer: the exact one of a model where it is known, an estimate otherwise.
pub trait Tokens: fmt::Debug + Send + Sync {
    /// How many tokens `text` is, or a little more.
    ///
    /// Parts do not add up, and a longer text can cost less than its beginning: what has to fit is counted as a whole.
    fn count(&self, text: &str) -> u32;

    /// How it counts, for a receipt: `o200k_base`, `o200k_base × 1.2, estimated`, `estimated`. What was counted in one way stands for
    /// whoever counts in that way, so two that count otherwise are called otherwise.
    fn method(&self) -> String;
}

#[cfg(test)]
mod tests;
