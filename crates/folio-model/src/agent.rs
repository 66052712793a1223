//! Agents that do a task by themselves and are asked like models: agent programs, and agents on other machines (E9.17).
//!
//! - `settings`: how an agent is named, started or reached
//! - `prompt`: the text that it is given
//! - `remote`, `a2a`: an agent on another machine, and the protocol for it; `tool`: an agent that is a tool
//! - `acp`: a conversation by the Agent Client Protocol, in which its permission requests are answered
//! - `again`: what it is told when it continues a session
//! - `once`: a program that is started with the task and prints its answer; `events` extracts that from its output, and
//!   `printed` quotes the output where there is none
//! - `answer`: what asking a program came to

mod a2a;
mod acp;
mod again;
mod answer;
mod events;
mod once;
mod printed;
mod prompt;
mod remote;
mod settings;
mod tool;

use std::ffi::OsString;
use std::path::Path;

use async_trait::async_trait;
use folio_memory::tokens::{Estimate, Tokens as _};
use folio_process::Program;

pub use acp::AgentGrant;
pub use events::AgentForm;
pub use prompt::of as task_text;
pub use remote::RemoteAgent;
pub use settings::{AgentPrompt, AgentSettings, AgentToAsk, AgentsSection, command_line};
pub use tool::ToolAgent;

use crate::error::{ModelError, ModelErrorKind};
use crate::model::{Delta, Model, Place, Reply, Request, Speaker, StopCause, Usage, Worker};

/// The maximum length of one argument of a program in bytes: the limit of Linux, without the terminating zero.
const ARGUMENT_BYTES_MAX: usize = 128 * 1024 - 1;

/// An agent program that can be asked. Nothing is started before that.
#[derive(Debug, Clone)]
pub struct AgentProgram {
    name: String,
    settings: AgentSettings,
    /// The complete environment of the program.
    environment: Vec<(OsString, OsString)>,
}

impl AgentProgram {
    /// The program `name`, with nothing in its environment but `environment`.
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
        ModelError::new(self.name.as_str(), kind, message)
    }

    /// Why `prompt` cannot be its last argument, if it is passed that way.
    fn argument_problem(&self, prompt: &str) -> Option<String> {
        let is_argument = self.settings.prompt == AgentPrompt::Argument && self.settings.form != AgentForm::Acp;
        let reason = if !is_argument {
            return None;
        } else if prompt.len() > ARGUMENT_BYTES_MAX {
            let bytes = prompt.len();
            format!("the task has {bytes} bytes, and an argument can have at most {ARGUMENT_BYTES_MAX}")
        } else if prompt.contains('\0') {
            "the task contains a zero byte, which an argument cannot".to_owned()
        } else {
            return None;
        };
        Some(format!("{reason}: `prompt = \"stdin\"` lets it read the task"))
    }

    /// The program to start, and the text for its standard input.
    fn start(&self, prompt: String, folder: &Path) -> Result<(Program, String), ModelError> {
        let Some((program, arguments)) = self.settings.command.split_first() else {
            return Err(self.error(ModelErrorKind::Invalid, "its command is empty"));
        };
        let mut arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let input = match self.settings.prompt {
            // With this protocol, the task is passed in the conversation.
            _ if self.settings.form == AgentForm::Acp => prompt,
            AgentPrompt::Stdin => prompt,
            AgentPrompt::Argument => {
                arguments.push(prompt.into());
                String::new()
            }
        };
        let program = Program {
            name: program.clone(),
            args: arguments,
            folder: folder.to_owned(),
            environment: self.environment.clone(),
        };
        Ok((program, input))
    }
}

#[async_trait]
impl Model for AgentProgram {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        self.reply_in(request, &Place::default(), pieces).await
    }

    fn worker(&self) -> Option<Worker<'_>> {
        Some(Worker::Program(&self.settings.command))
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
        let task = prompt::of(request);
        if let Some(reason) = self.argument_problem(&task) {
            // What it did and answered stays, although it cannot be told what is wrong with its answer.
            let answer = last_answer(request).ok_or_else(|| self.error(ModelErrorKind::Invalid, reason))?;
            return Ok(reply_without_asking(answer));
        }
        let (program, input) = self.start(task, folder)?;
        let settings = &self.settings;
        let asked = if settings.form == AgentForm::Acp {
            let required = prompt::required_of(request);
            acp::converse(&program, input, required, settings, settings.limits(), place).await
        } else {
            once::run(&program, input, settings, place).await
        };
        let usage_of = |usage: Option<Usage>| usage.map(|usage| with_tokens(usage, request));
        let answer = asked.map_err(|failed| {
            let (kind, message) = failed.failed;
            self.error(kind, message).costing(usage_of(failed.usage))
        })?;
        pieces(Delta::Text(answer.text.clone()));
        Ok(Reply {
            usage: usage_of(answer.usage),
            text: answer.text,
            tool_calls: Vec::new(),
            stop: answer.stop,
            permissions: answer.permissions,
        })
    }
}

/// Its last answer from earlier requests, if there is one.
fn last_answer(request: &Request) -> Option<&str> {
    let messages = request.messages.iter().rev();
    let mut answers = messages.filter(|message| message.speaker == Speaker::Assistant && !message.text.is_empty());
    answers.next().map(|message| message.text.as_str())
}

/// The earlier answer again, without asking.
fn reply_without_asking(answer: &str) -> Reply {
    Reply {
        text: answer.to_owned(),
        tool_calls: Vec::new(),
        stop: StopCause::Done,
        usage: Some(Usage {
            micro_usd: Some(0),
            ..Usage::default()
        }),
        permissions: Vec::new(),
    }
}

/// The usage that it reports. If that is only money, the tokens are those that are set aside for a program that reports
/// nothing: the prompt's, and those of the longest answer. Nobody answers without reading.
fn with_tokens(usage: Usage, request: &Request) -> Usage {
    if usage.tokens_in > 0 {
        return usage;
    }
    let is_money_only = usage.tokens_out == 0;
    Usage {
        tokens_in: u64::from(Estimate.count(&prompt::of(request))),
        tokens_out: if is_money_only {
            u64::from(request.tokens_max)
        } else {
            usage.tokens_out
        },
        ..usage
    }
}

#[cfg(test)]
mod acp_tests;
#[cfg(test)]
mod awaited;
#[cfg(test)]
mod tests;
