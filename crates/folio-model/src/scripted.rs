//! A model for tests that answers by a script.
//!
//! A script is a list of cues. Each says which requests it matches, and the answer to them. Requests may come in any
//! order and at the same time: the first cue that matches and is not used up answers. A request without a cue is an
//! error that says what was asked and what the script expects. [`ScriptedModel::finish`] fails if there was such a
//! request, even if its caller made do without an answer, or if something was never asked.
//!
//! ```
//! use folio_model::{Role, ScriptedModel, When};
//! use serde_json::json;
//!
//! let model = ScriptedModel::new([
//!     When::role(Role::Planner).contains("look at the house").json(&json!({"steps": []})),
//!     When::contains_all(["count", "windows"]).calls([("grep", json!({"pattern": "window"}))]),
//!     When::any().text("There are four.").times(2),
//! ]);
//! assert!(model.finish().is_err(), "nobody asked");
//! ```

mod cue;
mod file;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use folio_memory::excerpt::cut;
use parking_lot::Mutex;

pub use cue::{Answer, Cue, Uses, When};
pub use file::ScriptError;

use crate::error::{ModelError, ModelErrorKind};
use crate::model::{Delta, Model, Reply, Request};

/// How many requests are kept for tests to inspect.
const KEPT_REQUESTS_MAX: usize = 10_000;
/// How many requests that no cue answered are kept for [`ScriptedModel::finish`].
const KEPT_UNEXPECTED_MAX: usize = 1_000;
/// How many characters of the last message an error contains.
const MESSAGE_CHARS_MAX: usize = 200;
/// How many cues or requests an error lists.
const LISTED_MAX: usize = 20;

/// A model that answers by its script.
#[derive(Debug)]
pub struct ScriptedModel {
    name: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    cues: Vec<Cue>,
    /// How often each cue has answered.
    used: Vec<u32>,
    asked: Vec<Request>,
    /// The requests that no cue answered, one line each.
    unexpected: Vec<String>,
}

/// The error for requests that differ from what a script expects: one line for each cue that has not answered as often
/// as its script says, and for each request that no cue answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the script does not fit what was asked: {}", listed(.0))]
pub struct ScriptMismatch(pub Vec<String>);

impl ScriptMismatch {
    /// What differs in one line: the first twenty, and how many more there are.
    #[must_use]
    pub fn listed(&self) -> String {
        listed(&self.0)
    }
}

fn listed(lines: &[String]) -> String {
    let mut list = lines.iter().take(LISTED_MAX).cloned().collect::<Vec<_>>().join("; ");
    if lines.len() > LISTED_MAX {
        let _infallible = write!(list, "; and {} more", lines.len() - LISTED_MAX);
    }
    list
}

impl ScriptedModel {
    /// Creates a model that answers by `cues`.
    #[must_use]
    pub fn new(cues: impl IntoIterator<Item = Cue>) -> Self {
        let cues: Vec<Cue> = cues.into_iter().collect();
        Self {
            name: "scripted".to_owned(),
            state: Mutex::new(State {
                used: vec![0; cues.len()],
                cues,
                asked: Vec::new(),
                unexpected: Vec::new(),
            }),
        }
    }

    /// Creates a model that answers by the script in a file (docs/models.md, "Scripts").
    ///
    /// # Errors
    ///
    /// With the path, and what is wrong with the file.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let mut model = Self::new(file::read(path)?);
        model.name = format!("scripted:{}", path.display());
        Ok(model)
    }

    /// The requests so far, in order, including those that no cue answered. At most the first 10,000.
    #[must_use]
    pub fn asked(&self) -> Vec<Request> {
        self.state().asked.clone()
    }

    /// Checks that everything that the script expects was asked, and nothing else.
    ///
    /// # Errors
    ///
    /// With the requests that no cue answered (the first 1,000), and the cues that were not used, or not often enough.
    pub fn finish(&self) -> Result<(), ScriptMismatch> {
        let state = self.state();
        let unexpected = state.unexpected.iter().map(|asked| format!("no cue answers {asked}"));
        let unused = state.unused(|cue, used| matches!(cue.uses, Uses::Times(times) if used < times));
        let unused = unused.iter().map(|cue| format!("unused {cue}"));
        let lines: Vec<String> = unexpected.chain(unused).collect();
        if lines.is_empty() {
            Ok(())
        } else {
            Err(ScriptMismatch(lines))
        }
    }

    /// No panic can leave the state half changed while it is locked.
    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    fn error(&self, kind: ModelErrorKind, message: String, retry_after: Option<Duration>) -> ModelError {
        ModelError {
            retry_after,
            ..ModelError::new(self.name.as_str(), kind, message)
        }
    }
}

impl State {
    /// The cues for which `is_unused` holds, one line each, with their numbers.
    fn unused(&self, is_unused: impl Fn(&Cue, u32) -> bool) -> Vec<String> {
        let numbered = self.cues.iter().zip(&self.used).enumerate();
        numbered
            .filter(|(_, (cue, used))| is_unused(cue, **used))
            .map(|(at, (cue, used))| match (used, cue.uses) {
                (0, _) | (_, Uses::Always) => format!("cue {} ({})", at + 1, cue.when),
                (used, Uses::Times(times)) => format!("cue {} ({}; {used} of {times})", at + 1, cue.when),
            })
            .collect()
    }

    /// Finds the cue that answers `request`, and counts its use.
    fn take(&mut self, request: &Request) -> Option<Cue> {
        let at = self.cues.iter().zip(&self.used).position(|(cue, used)| {
            let is_left = match cue.uses {
                Uses::Times(times) => *used < times,
                Uses::Always => true,
            };
            is_left && cue.when.matches(request)
        })?;
        self.used[at] = self.used[at].saturating_add(1);
        Some(self.cues[at].clone())
    }

    /// Keeps that no cue answers `request`; returns the error text for it.
    fn nothing_answers(&mut self, request: &Request) -> String {
        let last = request.messages.last().map_or("", |message| message.text.as_str());
        let asked = format!("{:?}, asked of the {}", cut(last, MESSAGE_CHARS_MAX), request.role);
        let left = self.unused(|cue, used| match cue.uses {
            Uses::Times(times) => used < times,
            Uses::Always => true,
        });
        let left = if left.is_empty() {
            "nothing".to_owned()
        } else {
            listed(&left)
        };
        let text = format!("no cue of the script answers {asked}; left in it: {left}");
        if self.unexpected.len() < KEPT_UNEXPECTED_MAX {
            self.unexpected.push(asked);
        }
        text
    }
}

#[async_trait]
impl Model for ScriptedModel {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        let cue = {
            let mut state = self.state();
            if state.asked.len() < KEPT_REQUESTS_MAX {
                state.asked.push(request.clone());
            }
            match state.take(request) {
                Some(cue) => cue,
                None => return Err(self.error(ModelErrorKind::Invalid, state.nothing_answers(request), None)),
            }
        };
        if !cue.latency.is_zero() {
            tokio::time::sleep(cue.latency).await;
        }
        let (text, tool_calls) = match cue.answer {
            Answer::Error {
                kind,
                message,
                retry_after,
            } => return Err(self.error(kind, message, retry_after)),
            Answer::Reply { text, tool_calls } => (text, tool_calls),
        };
        // Word by word, for consumers that show pieces.
        for piece in text.split_inclusive(' ') {
            pieces(Delta::Text(piece.to_owned()));
        }
        Ok(Reply {
            stop: cue.stop,
            text,
            tool_calls,
            usage: cue.usage,
            permissions: Vec::new(),
        })
    }

    fn left_over(&self) -> Vec<String> {
        let mismatch = self.finish().err().map(|mismatch| mismatch.0);
        let labelled = |line| format!("{}: {line}", self.name);
        mismatch.into_iter().flatten().map(labelled).collect()
    }
}

#[cfg(test)]
mod tests;
