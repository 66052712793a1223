//! Why a model did not answer, sorted by what the caller does next.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::Usage;

/// What the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// Ask again later: it was not reached, or would not begin, so nothing was used up.
    Unreached,
    /// Ask again later: it did not answer in time, or broke off, and what it used up is not known.
    Unavailable,
    /// Ask again, with what was wrong: the answer could not be read.
    Malformed,
    /// Put the request or the settings right: there is no such model, or it does not take what was asked.
    Invalid,
    /// Look at what it did: a program that works by itself ended without an answer.
    Failed,
    /// Look at what it did: a program that works by itself was ended before it was done, and nobody knows how far it came.
    Unknown,
}

/// Why a model did not answer. Never holds a key, nor a prompt that anybody was asked: only what stands in for a model
/// in tests tells the beginning of what it has no answer to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    /// What it used up nevertheless.
    pub used: UsedUp,
}

/// What a model used up that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UsedUp {
    /// What follows from the kind of its failure.
    #[default]
    ByKind,
    /// Something, and nobody says how much: it had begun.
    Unknown,
    /// What it said itself.
    Known(Box<Usage>),
}

impl ModelError {
    /// One of which nobody says how long to wait, nor what it cost.
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

    /// The same, of one that says what it cost, if it does.
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
