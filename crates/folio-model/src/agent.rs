//! Agents that do a task by themselves and are asked like models: agent programs, and agents on other machines (E9.17).
//!
//! - `settings`: how an agent is named, started or reached
//! - `prompt`: the text that it is given
//! - `remote`, `a2a`: an agent on another machine, and the protocol for it; `tool`: an agent that is a tool
//! - `acp`: a conversation by the Agent Client Protocol, in which its permission requests are answered
//! - `again`: what it is told when it continues a session
//! - `events`: extracts the answer from its output

mod a2a;
mod acp;
mod again;
mod events;
mod prompt;
mod remote;
mod settings;
mod tool;

use std::ffi::OsString;
use std::path::Path;

use async_trait::async_trait;
use folio_memory::tokens::{Estimate, Tokens as _};
use folio_process::{Ended, Program, Tail, Whole};

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
/// How many characters of its output, and of its standard error, a failure quotes from the end.
const PRINTED_CHARS: usize = 1_500;
/// How many bytes of its standard error are kept, from the end.
const ERROR_BYTES: usize = 16 * 1024;

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
        if place.session.is_some() && self.settings.form != AgentForm::Acp {
            let message = "it was at work when its driver died, and only one with the form acp can continue a session";
            return Err(self.error(ModelErrorKind::Unknown, message));
        }
        let limits = self.settings.limits();
        if self.settings.form == AgentForm::Acp {
            let required = prompt::required_of(request);
            let result = acp::converse(&program, input, required, &self.settings, limits, place).await;
            let conversation = result.map_err(
                |acp::FailedPrompt {
                     failed: (kind, message),
                     usage,
                 }| {
                    let usage = usage.map(|usage| with_tokens(usage, request));
                    self.error(kind, message).costing(usage)
                },
            )?;
            pieces(Delta::Text(conversation.text.clone()));
            return Ok(Reply {
                text: conversation.text,
                tool_calls: Vec::new(),
                stop: conversation.stop,
                usage: conversation.usage.map(|usage| with_tokens(usage, request)),
                permissions: conversation.permissions,
            });
        }
        let (mut output, mut errors) = (Whole::new(self.settings.output_bytes()), Tail::new(ERROR_BYTES));
        let input = Some(input.into_bytes());
        let result = folio_process::run(&program, input, limits, &place.stop, &mut output, &mut errors).await;
        let finished = result.map_err(|error| {
            let (kind, message) = acp::not_started(&error);
            self.error(kind, message)
        })?;
        let (output, errors) = (output.bytes, errors.bytes());
        let last = last_line(errors).or_else(|| last_line(&output));
        // What it says last is often all that anybody learns of what it did (E9.4): in its own words, not in the form
        // that they came in, if they can be told apart.
        let parsed = self.settings.form.read(&output);
        let printed = printed_at_the_end(parsed.text.as_deref().map_or(&output, str::as_bytes), errors);
        let last_output = format!("{}{printed}", folio_process::printed(None, last.as_deref()));
        let unknown = |message: String| Err(self.error(ModelErrorKind::Unknown, message));
        match finished.ended {
            Ended::ByItself => {}
            Ended::Cancelled => return unknown(format!("it was stopped{printed}")),
            Ended::TimedOut => {
                let seconds = limits.time.as_secs();
                return unknown(format!("it took longer than {seconds} s and was ended{last_output}"));
            }
            Ended::Stopped => {
                let bytes = self.settings.output_bytes();
                return unknown(format!("it printed more than {bytes} bytes and was ended{printed}"));
            }
        }
        let Some(code) = finished.exit_code() else {
            let signal = finished.signal().unwrap_or_default();
            return unknown(format!("it was ended by signal {signal}{last_output}"));
        };
        let usage = parsed.usage.map(|usage| with_tokens(usage, request));
        let ended = (code != 0).then(|| format!("it ended with exit code {code}{last_output}"));
        // Its own error message is more useful than the exit code.
        if let Some(problem) = parsed.problem.map(|problem| format!("{problem}{printed}")).or(ended) {
            let kind = self.settings.form.kind_of(code, parsed.is_unauthorised);
            return Err(self.error(kind, problem).costing(usage));
        }
        let Some(text) = parsed.text else {
            let message = format!(
                "its output contains no answer in the form {}{last_output}",
                self.settings.form.as_str()
            );
            return Err(self.error(ModelErrorKind::Failed, message).costing(usage));
        };
        pieces(Delta::Text(text.clone()));
        Ok(Reply {
            text,
            tool_calls: Vec::new(),
            stop: StopCause::Done,
            usage,
            permissions: Vec::new(),
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
/// nothing: the prompt's, and those of the longest answer.
fn with_tokens(usage: Usage, request: &Request) -> Usage {
    if usage.tokens_in + usage.tokens_out > 0 {
        return usage;
    }
    Usage {
        tokens_in: u64::from(Estimate.count(&prompt::of(request))),
        tokens_out: u64::from(request.tokens_max),
        ..usage
    }
}

/// The note with the end of what it printed; empty if that is at most one line, which its message has already.
fn printed_at_the_end(output: &[u8], errors: &[u8]) -> String {
    let (output, errors) = (String::from_utf8_lossy(output), String::from_utf8_lossy(errors));
    let (output, errors) = (output.trim(), errors.trim());
    if output.lines().chain(errors.lines()).nth(1).is_none() {
        return String::new();
    }
    let parts = [("it printed", output), ("on standard error", errors)];
    let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
    parts
        .map(|(where_to, text)| format!("\n{where_to}:\n{}", end_of(text, PRINTED_CHARS)))
        .collect()
}

/// The last `max` characters of `text`, marked as such if there are more.
fn end_of(text: &str, max: usize) -> String {
    match text.char_indices().rev().nth(max - 1) {
        Some((start, _)) if start > 0 => format!("[…] {}", &text[start..]),
        _ => text.to_owned(),
    }
}

fn last_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod acp_tests;
#[cfg(test)]
mod awaited;
#[cfg(test)]
mod tests;
