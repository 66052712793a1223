//! Counting by a published vocabulary, and the vocabularies of models.

use super::{Estimate, Likely, Tokens};

/// A vocabulary that is compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vocabulary {
    /// The vocabulary of GPT-4o, GPT-4.1, GPT-5, the o models and gpt-oss.
    O200k,
    /// The vocabulary of GPT-4, GPT-3.5 and the third-generation embeddings.
    Cl100k,
}

impl Vocabulary {
    /// The name under which the vocabulary is published.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::O200k => "o200k_base",
            Self::Cl100k => "cl100k_base",
        }
    }
}

impl Tokens for Vocabulary {
    /// Counts exactly as the models do, treating special tokens in the text as plain text. The first count loads the
    /// vocabulary, which takes about a tenth of a second per process.
    fn count(&self, text: &str) -> u32 {
        match tiktoken::get_encoding(self.as_str()) {
            Some(encoding) => u32::try_from(encoding.count(text)).unwrap_or(u32::MAX),
            None => Estimate.count(text),
        }
    }

    fn method(&self) -> String {
        self.as_str().to_owned()
    }
}

/// How the tokens of a model are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Exactly.
    Exact(Vocabulary),
    /// By the vocabulary of another model, multiplied by this many percent and rounded up.
    Scaled(Vocabulary, u32),
    /// By what current vocabularies are likely to count.
    Likely(Likely),
    /// By an estimate that needs no vocabulary.
    Estimated(Estimate),
}

impl Tokens for Counter {
    fn count(&self, text: &str) -> u32 {
        match self {
            Self::Exact(vocabulary) => vocabulary.count(text),
            Self::Scaled(vocabulary, percent) => {
                let scaled = u64::from(vocabulary.count(text)) * u64::from(*percent);
                u32::try_from(scaled.div_ceil(100)).unwrap_or(u32::MAX)
            }
            Self::Likely(likely) => likely.count(text),
            Self::Estimated(estimate) => estimate.count(text),
        }
    }

    fn method(&self) -> String {
        match self {
            Self::Exact(vocabulary) => vocabulary.method(),
            Self::Scaled(vocabulary, percent) => {
                format!("{} × {}, estimated", vocabulary.as_str(), f64::from(*percent) / 100.0)
            }
            Self::Likely(likely) => likely.method(),
            Self::Estimated(estimate) => estimate.method(),
        }
    }
}

/// Vendors without a published vocabulary: the prefix of their models' names, and their counts in percent of
/// o200k_base.
const SCALED: [(&str, u32); 2] = [("claude", 120), ("gemini", 110)];

/// Returns the counter for `model`.
///
/// The name may have a provider before it (`anthropic:`, `openai/`). For a model that
/// nothing is known of, the counter is [`Likely`]; without a name, [`Estimate`].
#[must_use]
pub fn for_model(model: &str) -> Counter {
    let name = model.to_ascii_lowercase();
    let name = name.rsplit('/').next().unwrap_or_default();
    let name = name.strip_prefix("ft:").unwrap_or(name);
    // `openai:gpt-4o`, `v1:gpt-4o` in an address, `gpt-4o:team::id` for a fine-tuned one: one of the parts is the
    // model.
    let known = name.split(':').find_map(|part| {
        let scaled = SCALED.iter().find(|(start, _)| part.starts_with(start));
        if let Some((_, percent)) = scaled {
            return Some(Counter::Scaled(Vocabulary::O200k, *percent));
        }
        match tiktoken::model_to_encoding(part)? {
            "o200k_base" | "o200k_harmony" => Some(Counter::Exact(Vocabulary::O200k)),
            "cl100k_base" => Some(Counter::Exact(Vocabulary::Cl100k)),
            _ => None,
        }
    });
    known.unwrap_or(match name {
        "" => Counter::Estimated(Estimate),
        _ => Counter::Likely(Likely),
    })
}
