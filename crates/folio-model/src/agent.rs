//! Agent programs: a command that does a task by itself, asked as a model is (E9.17).
//!
//! - `settings`: how a program is named and started
//! - `prompt`: what it is told
//! - `process`: the program at work: in a process group of its own, within limits, and never longer than whoever started it
//! - `events`: from what it prints to its answer

mod events;
mod process;
mod prompt;
mod settings;

use std::ffi::OsString;
use std::path::Path;

use async_trait::async_trait;

pub use events::AgentForm;
pub use settings::{AgentPrompt, AgentSettings, AgentsSection};

use crate::error::{ModelError, ModelErrorKind};
use crate::model::{Delta, Model, Place, Reply, Request, StopCause};
use process::{Ended, Started};

/// Characters of the last line that a program printed, in the words of its failure.
const LAST_LINE_CHARS: usize = 200;

/// An agent program that can be asked. Nothing of it is started before.
#[derive(Debug, Clone)]
pub struct AgentProgram {
    name: String,
    settings: AgentSettings,
    /// The whole environment of the program.
    environment: Vec<(OsString, OsString)>,
}

impl AgentProgram {
    /// The program `name`, which is started with nothing in its environment but `environment`.
    #[must_use]
    pub fn new(name: &str, settings: AgentSettings, environment: &[(String, String)]) -> Self {
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
        Self {
            name: format!("agent:{name}"),
            settings,
            environment: environment.collect(),
        }
    }

    fn error(&self, kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
        ModelError {
            model: self.name.clone(),
            kind,
            message: message.into(),
            retry_after: None,
        }
    }

    /// The command line and the text for standard input.
    fn start<'s>(&'s self, prompt: String, folder: &'s Path) -> Result<Started<'s>, ModelError> {
        let Some((program, arguments)) = self.settings.command.split_first() else {
            return Err(self.error(ModelErrorKind::Invalid, "its command is empty"));
        };
        let mut arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let input = match self.settings.prompt {
            AgentPrompt::Stdin => prompt,
            AgentPrompt::Argument => {
                arguments.push(prompt.into());
                String::new()
            }
        };
        Ok(Started {
            program,
            arguments,
            environment: &self.environment,
            folder,
            input,
            limits: self.settings.limits(),
        })
    }
}

#[async_trait]
impl Model for AgentProgram {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        self.reply_in(request, &Place::default(), pieces).await
    }

    fn command(&self) -> Option<&[String]> {
        Some(&self.settings.command)
    }

    fn folder(&self) -> Option<&str> {
        self.settings.folder.as_deref()
    }

    async fn reply_in(
        &self,
        request: &Request,
        place: &Place,
        pieces: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, ModelError> {
        let Some(folder) = &place.folder else {
            return Err(self.error(ModelErrorKind::Invalid, "there is no folder that it may work in"));
        };
        let started = self.start(prompt::of(request), folder)?;
        let printed = process::run(started, &place.stop)
            .await
            .map_err(|reason| self.error(ModelErrorKind::Invalid, reason))?;
        let last = last_line(&printed.errors).or_else(|| last_line(&printed.output));
        let said = last.map_or_else(String::new, |line| format!("; its last line: {line}"));
        let limits = self.settings.limits();
        let ended = match printed.ended {
            Ended::ByItself(0) => None,
            Ended::ByItself(code) => Some(format!("it ended with exit code {code}")),
            Ended::BySignal(signal) => {
                let message = format!("it was ended by signal {signal}{said}");
                return Err(self.error(ModelErrorKind::Unknown, message));
            }
            Ended::Stopped => return Err(self.error(ModelErrorKind::Unknown, "it was stopped")),
            Ended::TimedOut => {
                let message = format!("it took longer than {} s and was ended{said}", limits.time.as_secs());
                return Err(self.error(ModelErrorKind::Unknown, message));
            }
            Ended::TooLoud => {
                let message = format!("it printed more than {} bytes and was ended", limits.output_bytes);
                return Err(self.error(ModelErrorKind::Unknown, message));
            }
        };
        let heard = self.settings.form.read(&printed.output);
        // What it says of itself is worth more than a number.
        if let Some(problem) = heard.problem.or_else(|| ended.map(|ended| format!("{ended}{said}"))) {
            let kind = match printed.ended {
                Ended::ByItself(code) => self.settings.form.kind_of(code, heard.is_unauthorised),
                _ => ModelErrorKind::Failed,
            };
            return Err(self.error(kind, problem));
        }
        let Some(text) = heard.text else {
            let message = format!(
                "what it printed holds no answer in the form {}{said}",
                self.settings.form.as_str()
            );
            return Err(self.error(ModelErrorKind::Failed, message));
        };
        pieces(Delta::Text(text.clone()));
        Ok(Reply {
            text,
            tool_calls: Vec::new(),
            stop: StopCause::Done,
            usage: heard.usage,
        })
    }
}

fn last_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(LAST_LINE_CHARS).collect())
}

#[cfg(test)]
mod tests;
