//! What asking an agent program came to, whichever form it speaks.

use folio_process::ProcessError;

use crate::error::ModelErrorKind;
use crate::model::{StopCause, Usage};

/// The answer of the program.
#[derive(Debug)]
pub(super) struct AgentAnswer {
    pub(super) text: String,
    pub(super) stop: StopCause,
    pub(super) usage: Option<Usage>,
    /// What it asked to be allowed, and what it was answered, one line each.
    pub(super) permissions: Vec<String>,
}

/// The kind of a failure, and the message.
pub(super) type Failed = (ModelErrorKind, String);

/// A failure, and its usage nevertheless, if the program reported one.
#[derive(Debug)]
pub(super) struct FailedPrompt {
    pub(super) failed: Failed,
    pub(super) usage: Option<Usage>,
}

impl From<Failed> for FailedPrompt {
    fn from(failed: Failed) -> Self {
        Self { failed, usage: None }
    }
}

/// The failure of a program that could not be started; if it never started, it had no effect.
pub(super) fn not_started(error: &ProcessError) -> Failed {
    match error {
        ProcessError::NotStarted { .. } => {
            let message = format!("it was not started: {error}; put `command` right");
            (ModelErrorKind::Invalid, message)
        }
        _ => (ModelErrorKind::Unknown, error.to_string()),
    }
}
