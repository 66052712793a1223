//! Why a model did not answer, classified by what the caller can do about it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::Usage;

/// The kind of a failure: what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// Correct the key; retrying cannot help.
    Unauthorised,
    /// Ask something else: the model refuses to answer this.
    Refused,
    /// Wait, then retry.
    RateLimited,
    /// Ask for less: the request does not fit the model's window.
    TooLong,
    /// Retry later: the model was not reached, or did not begin, so nothing was used up.
    Unreached,
    /// Retry later: the model did not answer in time, or broke off, and what it used up is unknown.
    Unavailable,
    /// Retry and say what was wrong: the answer could not be parsed.
    Malformed,
    /// Correct the request or the settings: there is no such model, or it does not accept the request.
    Invalid,
    /// Check what it did: an agent ended without an answer.
    Failed,
    /// Check what it did: an agent was stopped before it was done, and how far it came is unknown.
    Unknown,
}

/// Why a model did not answer. Never contains a key, and never a prompt, except for test models, which quote the
/// beginning of a request that they have no answer to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{model} did not answer: {message}")]
pub struct ModelError {
    /// The address of the model.
    pub model: String,
    /// What the caller can do about it.
    pub kind: ModelErrorKind,
    /// The reason, as text.
    pub message: String,
    /// How long the provider wants no requests.
    pub retry_after: Option<Duration>,
    /// What was used up nevertheless.
    pub used: UsedUp,
}

/// What a model used up although it did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UsedUp {
    /// Follows from the kind of the failure.
    #[default]
    ByKind,
    /// An unknown amount: the model had begun.
    Unknown,
    /// What the model reported.
    Known(Box<Usage>),
}

impl ModelError {
    /// Creates an error without a retry time, and with the usage that follows from its kind.
    #[must_use]
    pub fn new(model: impl Into<String>, kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            kind,
            message: message.into(),
            retry_after: None,
            used: UsedUp::ByKind,
        }
    }

    /// Sets the reported usage, if there is any.
    #[must_use]
    pub fn costing(self, usage: Option<Usage>) -> Self {
        Self {
            used: match usage {
                Some(usage) => UsedUp::Known(Box::new(usage)),
                None => self.used,
            },
            ..self
        }
    }
}
