//! From the outcome of a model call to the event that records it.

use std::time::Duration;

use folio_memory::Timestamp;
use folio_memory::counted::counted;
use serde_json::Value;

use super::ModelSpec;
use super::repair::is_too_deep;
use crate::event::Event;
use crate::node::NodeId;
use crate::result::{Failure, StopReason};
use crate::run::state::Run;
use crate::spend::Spend;
use crate::talk::Reply;

/// How many times in a row a model is asked before it counts as unavailable.
const ATTEMPTS_MAX: u32 = 5;
/// The same, if another model can be asked instead.
const ATTEMPTS_MAX_OF_MANY: u32 = 2;
/// The pause before the second attempt; each further pause is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, unless the provider asks for a longer one; and the longest that is waited if another model can be
/// asked.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The longest pause that a provider is granted; a longer one is cut to this.
const PAUSE_WANTED_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The code of a call that was stopped because nobody wants its answer any more.
const STOPPED: &str = "cancelled";
/// The code of the failure of a program that was ended, or whose end nobody saw.
const OUTCOME_UNKNOWN: &str = "agent_outcome_unknown";

/// The failure of a program that was running when its driver died (E9.12, E9.17).
pub(super) fn lost() -> Failure {
    Failure {
        code: OUTCOME_UNKNOWN.to_owned(),
        message: "the program was running when its driver died, so what it did is unknown; it was not restarted"
            .to_owned(),
        reason: StopReason::OutcomeUnknown,
        may_retry: false,
    }
}

/// The outcome of a model call.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelAnswer {
    /// The model answered.
    Replied {
        /// The answer.
        reply: Reply,
        /// The usage, as the provider counts it; `None` if it does not say. The engine calculates the money.
        used: Option<Spend>,
        /// The address of the model, as people write it.
        model: String,
    },
    /// The model did not answer.
    Failed(ModelFailure),
    /// The call was stopped before the model answered.
    Stopped {
        /// What an agent program had reported to have used by then; `None` if nobody knows, so that what was set aside
        /// counts. The engine calculates the money.
        used: Option<Spend>,
    },
}

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFailure {
    /// The kind of failure, which decides what happens next.
    pub kind: ModelFailureKind,
    /// Why it failed, in words that contain neither a prompt nor a key.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// What it used nevertheless.
    pub used: FailedCallUsage,
}

/// What a failed model call used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailedCallUsage {
    /// What follows from the kind of failure: nothing, or what was set aside.
    #[default]
    ByKind,
    /// An unknown amount: what was set aside counts.
    Unknown,
    /// What the model itself reported. The engine calculates the money.
    Known(Spend),
}

impl ModelFailure {
    /// A failure without a time to wait or a reported cost.
    #[must_use]
    pub fn new(kind: ModelFailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            used: FailedCallUsage::ByKind,
        }
    }
}

/// The kinds of failure of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelFailureKind {
    /// The key was refused: asking again cannot help.
    Unauthorised,
    /// The model refused the request.
    Refused,
    /// The provider wants to be asked later.
    RateLimited,
    /// The request does not fit into the model's window.
    TooLong,
    /// The model could not be reached, or did not begin: nothing was requested that costs something.
    Unreached,
    /// The model did not answer in time, or broke off: the cost is not known.
    Unavailable,
    /// The model did not answer within the `timeout` of its task. It is not asked again, because the task may take no
    /// longer.
    TimedOut,
    /// The answer could not be read.
    Malformed,
    /// The model does not exist, or does not accept the request: asking again cannot help.
    Invalid,
    /// It is a program that the run is not allowed to start.
    Denied,
    /// A program worked by itself and ended without an answer. It is not asked again, because what it did stays done.
    Failed,
    /// A program worked by itself and was ended before it was done: nobody knows what it did.
    Unknown,
}

impl ModelFailureKind {
    /// Whether asking again can help.
    fn may_retry(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::Unreached | Self::Unavailable | Self::Malformed
        )
    }

    /// Whether the model may have begun, so that the call may have cost something.
    fn has_begun(self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::TimedOut | Self::Malformed | Self::Failed | Self::Unknown
        )
    }

    /// The reason why a task ends that is given up because of it.
    fn reason(self) -> StopReason {
        match self {
            Self::Unauthorised => StopReason::Auth,
            Self::Refused => StopReason::Refused,
            Self::TooLong => StopReason::WindowFull,
            Self::Invalid => StopReason::InvalidInput,
            Self::Denied => StopReason::PolicyDenied,
            Self::Unknown => StopReason::OutcomeUnknown,
            Self::RateLimited
            | Self::Unreached
            | Self::Unavailable
            | Self::TimedOut
            | Self::Malformed
            | Self::Failed => StopReason::RetriesExhausted,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Unauthorised => "model_unauthorised",
            Self::Refused => "model_refused",
            Self::RateLimited => "model_rate_limited",
            Self::TooLong => "model_too_long",
            Self::Unreached | Self::Unavailable => "model_unavailable",
            Self::TimedOut => "timed_out",
            Self::Malformed => "model_malformed",
            Self::Invalid => "model_invalid",
            Self::Denied => "agent_not_allowed",
            Self::Failed => "agent_failed",
            Self::Unknown => OUTCOME_UNKNOWN,
        }
    }
}

impl Run {
    /// The event that records the outcome of the model call for `node`.
    ///
    /// Unknown usage counts as what was set aside, unless the call was refused before the model began (E9.10).
    #[must_use]
    pub fn model_answered(
        &self,
        node: NodeId,
        answer: ModelAnswer,
        duration: Duration,
        now: Timestamp,
    ) -> Option<Event> {
        let index = self.index(node).ok()?;
        let agent = self.agent(index)?;
        let pending = agent.pending?;
        let model = self.model_for(index, pending.purpose.role()).map(|(model, _)| model);
        Some(match answer {
            ModelAnswer::Replied {
                mut reply,
                used,
                model: address,
            } => {
                keep_deep_arguments_as_text(&mut reply);
                Event::Replied {
                    node,
                    call: pending.call,
                    spent: used.map_or(pending.reserved, |used| priced(used, model)),
                    model: address,
                    duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
                    mended: self.is_repaired(index, pending.purpose, &reply),
                    reply: Box::new(reply),
                }
            }
            ModelAnswer::Stopped { used } => match (self.nodes[index].cancel, used) {
                // The node ends as soon as this is recorded.
                (Some(cancel), Some(used)) => Event::AskFailed {
                    node,
                    call: pending.call,
                    failure: Failure {
                        code: STOPPED.to_owned(),
                        message: "it was stopped; what it had reported to have used by then counts".to_owned(),
                        reason: cancel.reason(),
                        may_retry: false,
                    },
                    spent: priced(used, model),
                    retry_at: None,
                },
                _ => self.skipped_event(index),
            },
            ModelAnswer::Failed(failure) => {
                let again_at = again_at(&failure, agent.failures, model, now);
                // An attempt after the deadline would be of no use.
                let deadline = self.deadline_around(index);
                let retry_at = again_at.filter(|at| deadline.is_none_or(|deadline| *at < deadline));
                let spent = match failure.used {
                    FailedCallUsage::Known(used) => priced(used, model),
                    FailedCallUsage::ByKind if !failure.kind.has_begun() => Spend::default(),
                    FailedCallUsage::Unknown | FailedCallUsage::ByKind => pending.reserved,
                };
                let (kind, wanted, mut message) = (failure.kind, failure.retry_after, failure.message);
                if let (Some(wait), Some(_), None, Some(at)) = (wanted, again_at, retry_at, deadline) {
                    message.push_str(&self.too_late(wait, at, now));
                }
                if let (ModelFailureKind::TooLong, Some(model)) = (kind, model) {
                    let window = model.window;
                    message.push_str(&format!(
                        "; if its context holds less than {window} tokens, set its `window`"
                    ));
                }
                // A call that began just before the time was over, and would have been made again: what is left of the
                // time is kept for handing back results (E9.10).
                let is_cut_by_deadline = again_at.is_some() && retry_at.is_none() && self.is_late(index, now);
                if is_cut_by_deadline {
                    message.push_str("; its time is almost up");
                } else if kind.may_retry() && retry_at.is_none() {
                    let attempts = counted((agent.failures + 1).into(), "attempt");
                    message.push_str(&format!(" (given up after {attempts})"));
                }
                Event::AskFailed {
                    node,
                    call: pending.call,
                    failure: Failure {
                        code: kind.code().to_owned(),
                        message,
                        reason: if is_cut_by_deadline {
                            StopReason::Deadline
                        } else {
                            kind.reason()
                        },
                        may_retry: kind.may_retry(),
                    },
                    spent,
                    retry_at,
                }
            }
        })
    }

    /// Why nobody waits as long as a provider wants: the task or the run ends at `deadline`.
    fn too_late(&self, wait: Duration, deadline: Timestamp, now: Timestamp) -> String {
        let owner = if self.time.deadline == Some(deadline) {
            "run"
        } else {
            "task"
        };
        let (wait_secs, left) = (wait.as_secs(), deadline.since(now).as_secs());
        format!("; it asks to wait {wait_secs} s, but the {owner} has only {left} s left")
    }
}

/// Keeps arguments that are nested too deep as text, which nothing takes for arguments; the model is told so (E9.13).
fn keep_deep_arguments_as_text(reply: &mut Reply) {
    for call in &mut reply.calls {
        if is_too_deep(&call.args) {
            call.args = Value::String(call.args.to_string());
        }
    }
}

/// What a call cost that `used` this. A program may report its cost; otherwise the cost follows from the price, plus
/// any reported surcharge.
fn priced(used: Spend, model: Option<&ModelSpec>) -> Spend {
    let price = model.and_then(|model| model.price);
    Spend {
        micro_usd: used.micro_usd.saturating_add(price.map_or(0, |price| price.of(&used))),
        model_calls: 1,
        ..used
    }
}

/// When to ask again after the `failure` of `model`, which has failed `failures` times before; `None` if it is given
/// up.
fn again_at(failure: &ModelFailure, failures: u32, model: Option<&ModelSpec>, now: Timestamp) -> Option<Timestamp> {
    // If another model can be asked, the wait is shorter.
    let (attempts_max, wait_max) = match model.and_then(ModelSpec::usable_fallback) {
        Some(_) => (ATTEMPTS_MAX_OF_MANY, PAUSE_MAX),
        None => (ATTEMPTS_MAX, Duration::MAX),
    };
    let wanted = failure.retry_after.map(|wait| wait.min(PAUSE_WANTED_MAX));
    let is_waited_for = wanted.is_none_or(|wait| wait <= wait_max);
    let may_retry = failure.kind.may_retry() && is_waited_for && failures + 1 < attempts_max;
    may_retry.then(|| now.plus(wanted.unwrap_or_else(|| pause_after(failures))))
}

fn pause_after(failures: u32) -> Duration {
    PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_retry_pause_doubles_up_to_one_minute() {
        let seconds: Vec<u64> = [0, 1, 2, 3, 10, 40].iter().map(|n| pause_after(*n).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 60, 60]);
    }
}
