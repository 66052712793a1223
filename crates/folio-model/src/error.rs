//! Why a model did not answer, sorted by what the caller does next.

use std::time::Duration;

/// What the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// Put the key right; trying again cannot help.
    Unauthorised,
    /// Ask something else: the model will not answer this.
    Refused,
    /// Wait, then ask again.
    RateLimited,
    /// Ask for less: the request does not fit the model's window.
    TooLong,
    /// Ask again later.
    Unavailable,
    /// Ask again, with what was wrong: the answer could not be read.
    Malformed,
}

/// Why a model did not answer. Never holds a prompt or a key.
#[derive(Debug, thiserror::Error)]
#[error("{model} did not answer: {message}")]
pub struct ModelError {
    /// Which model, as people write it.
    pub model: String,
    /// What the caller does next.
    pub kind: ModelErrorKind,
    /// Why, in words.
    pub message: String,
    /// How long the provider wants to be left alone.
    pub retry_after: Option<Duration>,
}
