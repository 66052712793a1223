//! How a conversation ended: with an answer, or why without one.

use std::time::Duration;

use agent_client_protocol::v1::schema::{PromptResponse, StopReason};
use agent_client_protocol::{Error, ErrorCode};
use folio_process::Ended;

use super::failed::{self, EndedProgram};
use super::heard::SessionState;
use super::{ConversationEnd, PROBLEM_CHARS, SESSION_TIMEOUT, Stage, is_lost};
use crate::agent::answer::{AgentAnswer, Failed, FailedPrompt};
use crate::agent::printed::{PRINTED_CHARS, end_of};
use crate::error::ModelErrorKind;
use crate::model::{StopCause, Usage};

/// A conversation that has ended, with what is known about it.
pub(super) struct EndedConversation {
    pub(super) ended: Result<ConversationEnd, Error>,
    pub(super) heard: SessionState,
    /// The stage at which it ended.
    pub(super) stage: Stage,
    pub(super) program: EndedProgram,
    /// The time that the program had.
    pub(super) time: Duration,
    /// How many bytes it might say.
    pub(super) output_bytes_max: usize,
}

impl EndedConversation {
    /// The program's answer.
    ///
    /// # Errors
    ///
    /// Why there is none, with the end of what it said and the permissions that it did not get.
    pub(super) fn into_answer(self) -> Result<AgentAnswer, FailedPrompt> {
        let Self {
            ended,
            heard,
            stage,
            program,
            ..
        } = self;
        let usage = heard.cost_only_usage();
        if heard.has_too_much_output {
            let kind = match stage {
                Stage::Beginning => ModelErrorKind::Invalid,
                Stage::Working => ModelErrorKind::Unknown,
            };
            let bytes = self.output_bytes_max;
            let message = format!("it said more than {bytes} bytes (`output_bytes`) and was ended");
            let failed = (kind, message);
            return Err(FailedPrompt { failed, usage });
        }
        let said = said_at_the_end(&heard);
        let refused = heard.permissions.not_granted();
        let (kind, message) = match ended {
            Ok(ConversationEnd::Answered(response)) => return read_prompt_response(response, heard),
            Ok(ConversationEnd::Stopped(why)) => {
                let (kind, message) = stop_failure(&why, &heard);
                let failed = (kind, format!("{message}{said}"));
                return Err(FailedPrompt { failed, usage });
            }
            Ok(ConversationEnd::Ended(Ended::Cancelled, _)) => (ModelErrorKind::Unknown, "it was stopped".to_owned()),
            Ok(ConversationEnd::Ended(_, stage)) => {
                let seconds = match stage {
                    Stage::Beginning => SESSION_TIMEOUT.min(self.time).as_secs(),
                    Stage::Working => self.time.as_secs(),
                };
                failed::too_slow(stage, seconds, &program)
            }
            Ok(ConversationEnd::Failed(error)) | Err(error) if error.code == ErrorCode::AUTH_REQUIRED => {
                failed::nobody_is_logged_in(&error)
            }
            Ok(ConversationEnd::Failed(error)) => failed::failed(&error),
            Err(error) => failed::conversation_failure(stage, &error, is_lost(&error, &heard), &program),
        };
        let failed = (kind, format!("{message}{refused}{said}"));
        Err(FailedPrompt { failed, usage })
    }
}

/// The note with the end of what it said before it ended without an answer; empty if it said nothing (E9.4).
fn said_at_the_end(heard: &SessionState) -> String {
    match heard.text.trim() {
        "" => String::new(),
        text => format!("\nit said:\n{}", end_of(text, PRINTED_CHARS)),
    }
}

/// The failure of a program that stopped, with its own reason.
fn stop_failure(reason: &str, heard: &SessionState) -> Failed {
    let reason: String = reason.escape_debug().take(PROBLEM_CHARS).collect();
    (
        ModelErrorKind::Failed,
        format!("it stopped: {reason}{}", heard.permissions.not_granted()),
    )
}

fn read_prompt_response(response: PromptResponse, heard: SessionState) -> Result<AgentAnswer, FailedPrompt> {
    let usage = response.usage.map(|usage| {
        let (cached, written) = (
            usage.cached_read_tokens.unwrap_or(0),
            usage.cached_write_tokens.unwrap_or(0),
        );
        let reasoning_tokens = usage.thought_tokens.unwrap_or(0);
        Usage {
            tokens_in: usage.input_tokens.saturating_add(cached).saturating_add(written),
            tokens_cached: cached,
            tokens_cache_written: written,
            tokens_out: usage.output_tokens.saturating_add(reasoning_tokens),
            tokens_reasoning: reasoning_tokens,
            micro_usd: heard.micro_usd,
        }
    });
    let usage = usage.and_then(Usage::if_possible).or_else(|| heard.cost_only_usage());
    let stop = match response.stop_reason {
        StopReason::EndTurn => StopCause::Done,
        StopReason::MaxTokens => StopCause::Length,
        StopReason::Refusal => StopCause::Refusal,
        reason => {
            let why = serde_json::to_value(reason).ok();
            let why = why
                .as_ref()
                .and_then(|why| why.as_str())
                .unwrap_or("it did not say why");
            let failed = stop_failure(why, &heard);
            return Err(FailedPrompt { failed, usage });
        }
    };
    if heard.text.trim().is_empty() && stop != StopCause::Refusal {
        let refused = heard.permissions.not_granted();
        let failed = (ModelErrorKind::Failed, format!("it said nothing{refused}"));
        return Err(FailedPrompt { failed, usage });
    }
    Ok(AgentAnswer {
        text: heard.text,
        stop,
        usage,
        permissions: heard.permissions.lines(),
    })
}
