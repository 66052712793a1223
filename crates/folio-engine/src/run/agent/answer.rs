//! From the outcome of a model call to the event that records it.

use std::time::Duration;

use folio_memory::Timestamp;
use folio_memory::counted::counted;
use serde_json::Value;

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
    Stopped,
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
        let asked_model = self.model_for(index, pending.purpose.role()).map(|(model, _)| model);
        let price = asked_model.and_then(|model| model.price);
        // If another model can be asked, the wait is shorter.
        let (attempts_max, wanted_max) = match asked_model.and_then(|model| model.usable_fallback()) {
            Some(_) => (ATTEMPTS_MAX_OF_MANY, PAUSE_MAX),
            None => (ATTEMPTS_MAX, Duration::MAX),
        };
        let call = pending.call;
        let priced = |used: Spend| Spend {
            // A program may report its cost; otherwise the cost follows from the price, plus any reported surcharge.
            micro_usd: used.micro_usd.saturating_add(price.map_or(0, |price| price.of(&used))),
            model_calls: 1,
            ..used
        };
        match answer {
            ModelAnswer::Replied { mut reply, used, model } => {
                // Kept as text, which nothing takes for arguments; the model is told so (E9.13).
                for call in &mut reply.calls {
                    if is_too_deep(&call.args) {
                        call.args = Value::String(call.args.to_string());
                    }
                }
                let spent = used.map_or(pending.reserved, priced);
                let mended = self.is_repaired(index, pending.purpose, &reply);
                Some(Event::Replied {
                    node,
                    call,
                    reply: Box::new(reply),
                    spent,
                    model,
                    duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
                    mended,
                })
            }
            ModelAnswer::Stopped => Some(self.skipped_event(index)),
            ModelAnswer::Failed(failure) => {
                use ModelFailureKind as Kind;
                let may_retry = matches!(
                    failure.kind,
                    Kind::RateLimited | Kind::Unreached | Kind::Unavailable | Kind::Malformed
                );
                let has_begun = matches!(
                    failure.kind,
                    Kind::Unavailable | Kind::TimedOut | Kind::Malformed | Kind::Failed | Kind::Unknown
                );
                let wanted = failure.retry_after;
                let retry_after = wanted.map(|wait| wait.min(PAUSE_WANTED_MAX));
                let is_waited_for = retry_after.is_none_or(|wait| wait <= wanted_max);
                let again_at = (may_retry && is_waited_for && agent.failures + 1 < attempts_max)
                    .then(|| now.plus(retry_after.unwrap_or_else(|| pause_after(agent.failures))));
                // An attempt after the deadline would be of no use.
                let deadline = self.deadline_around(index);
                let retry_at = again_at.filter(|at| deadline.is_none_or(|deadline| *at < deadline));
                let mut message = failure.message;
                if let (Some(wait), Some(_), None, Some(at)) = (wanted, again_at, retry_at, deadline) {
                    let deadline_owner = if deadline == self.time.deadline { "run" } else { "task" };
                    let (wait_secs, left) = (wait.as_secs(), at.since(now).as_secs());
                    let why =
                        format!("; it asks to wait {wait_secs} s, but the {deadline_owner} has only {left} s left");
                    message.push_str(&why);
                }
                if may_retry && retry_at.is_none() {
                    let attempts = agent.failures + 1;
                    message.push_str(&format!(" (given up after {})", counted(attempts.into(), "attempt")));
                }
                let reason = match failure.kind {
                    Kind::Unauthorised => StopReason::Auth,
                    Kind::Refused => StopReason::Refused,
                    Kind::TooLong => StopReason::WindowFull,
                    Kind::Invalid => StopReason::InvalidInput,
                    Kind::Denied => StopReason::PolicyDenied,
                    Kind::Unknown => StopReason::OutcomeUnknown,
                    Kind::RateLimited
                    | Kind::Unreached
                    | Kind::Unavailable
                    | Kind::TimedOut
                    | Kind::Malformed
                    | Kind::Failed => StopReason::RetriesExhausted,
                };
                Some(Event::AskFailed {
                    node,
                    call,
                    failure: Failure {
                        code: code_of(failure.kind).to_owned(),
                        message,
                        reason,
                        may_retry,
                    },
                    spent: match failure.used {
                        FailedCallUsage::Known(used) => priced(used),
                        FailedCallUsage::ByKind if !has_begun => Spend::default(),
                        FailedCallUsage::Unknown | FailedCallUsage::ByKind => pending.reserved,
                    },
                    retry_at,
                })
            }
        }
    }
}

fn pause_after(failures: u32) -> Duration {
    PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(PAUSE_MAX)
}

fn code_of(kind: ModelFailureKind) -> &'static str {
    match kind {
        ModelFailureKind::Unauthorised => "model_unauthorised",
        ModelFailureKind::Refused => "model_refused",
        ModelFailureKind::RateLimited => "model_rate_limited",
        ModelFailureKind::TooLong => "model_too_long",
        ModelFailureKind::Unreached | ModelFailureKind::Unavailable => "model_unavailable",
        ModelFailureKind::TimedOut => "timed_out",
        ModelFailureKind::Malformed => "model_malformed",
        ModelFailureKind::Invalid => "model_invalid",
        ModelFailureKind::Denied => "agent_not_allowed",
        ModelFailureKind::Failed => "agent_failed",
        ModelFailureKind::Unknown => OUTCOME_UNKNOWN,
    }
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
