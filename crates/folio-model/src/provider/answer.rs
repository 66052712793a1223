//! Assembles the pieces of an answer.

use std::time::Duration;

use folio_memory::call_ids::make_ids_unique;
use folio_memory::canonical;
use folio_memory::readable::read;
use genai::chat::StopReason;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::failure::{Failures, is_code};
use super::fetch::Fetched;
use super::frames::{Answer, WantedCall};
use super::wire::Wire;
use crate::error::{ModelError, ModelErrorKind};
use crate::model::{Delta, Reply, StopCause, ToolCall, Usage};

/// How long to wait after the stop reason for what may follow: the usage and the end marker.
const REST_WAIT: Duration = Duration::from_secs(2);

/// Reads a complete answer from its frames, which ends at `ends_at` at the latest.
pub(super) async fn read_frames(
    mut fetched: Fetched<'_>,
    failures: Failures<'_>,
    pieces: &mut (dyn FnMut(Delta) + Send),
    ends_at: Instant,
) -> Result<Reply, ModelError> {
    let wire = failures.target.wire;
    let mut answer = Answer::of(failures.request.tokens_max);
    // Until when the rest is waited for, once there was a stop reason.
    let mut rest_until = None;
    loop {
        let frame = match fetched.next(rest_until).await {
            Ok(frame) => frame,
            // After the stop reason nothing has to follow, not even the end of the connection: the answer is complete.
            Err(_) if answer.stop.is_some() => None,
            // Usage that is reported before the stop reason may be partial.
            Err(failure) => return Err(failure),
        };
        let (was_stopped, calls_before) = (answer.stop.is_some(), answer.bytes_of_calls());
        match &frame {
            Some(frame) => answer.take_in(wire, frame),
            None => {
                // A partial frame at the end does not invalidate what came before it.
                let last = fetched.take_unterminated_frame();
                answer.take_in(wire, last.as_deref().filter(|data| is_whole(data)).unwrap_or_default());
            }
        }
        // Some servers say at each piece why they stop, and go on.
        let goes_on = was_stopped && (!answer.pieces.is_empty() || answer.bytes_of_calls() > calls_before);
        rest_until = match rest_until {
            _ if answer.stop.is_none() || goes_on => None,
            None => Some(ends_at.min(Instant::now() + REST_WAIT)),
            begun => begun,
        };
        answer.pieces.drain(..).for_each(&mut *pieces);
        let usage = answer.whole_usage(wire);
        if let Some(problem) = answer.problem {
            return Err(failures.error(ModelErrorKind::Malformed, problem).costing(usage));
        }
        if let Some(error) = &answer.error {
            return Err(failures.of_event(error, answer.has_begun).costing(usage));
        }
        // Some servers send no end marker after the stop reason, and some of Chat Completions no stop reason.
        let is_ended = match answer.stop {
            Some(_) => answer.is_done || frame.is_none(),
            None => wire == Wire::Chat && answer.is_done && answer.has_begun,
        };
        if is_ended {
            return reply_from_frames(answer, failures);
        }
        if frame.is_none() && !answer.has_begun && answer.take_whole(wire, fetched.bytes_outside_frames()) {
            answer.pieces.drain(..).for_each(&mut *pieces);
            return match &answer.error {
                Some(error) => Err(failures.of_event(error, true).costing(answer.whole_usage(wire))),
                None => reply_from_frames(answer, failures),
            };
        }
        if frame.is_none() || answer.is_done {
            return Err(match answer.has_begun {
                true => failures.cut_off().costing(usage),
                false => failures.of_no_answer(fetched.bytes_outside_frames()),
            });
        }
    }
}

fn is_whole(data: &str) -> bool {
    data.trim() == "[DONE]" || read::<Value>(data.as_bytes()).is_ok()
}

/// The reply that the frames make up.
fn reply_from_frames(mut answer: Answer, failures: Failures<'_>) -> Result<Reply, ModelError> {
    let usage = answer.usage.and_then(Usage::if_plausible);
    let malformed = |message: &str| Err(failures.error(ModelErrorKind::Malformed, message).costing(usage));
    let mut calls = answer.take_wanted_calls();
    let (stop, all) = (answer.stop.map(StopReason::from), calls.len());
    if matches!(stop, Some(StopReason::MaxTokens(_))) {
        // A call whose arguments were cut off does not count.
        calls.retain(|call| !call.name.is_empty() && call.args.as_ref().is_some_and(Value::is_object));
    } else if calls.iter().any(|call| call.name.is_empty()) {
        return malformed("its answer requests a call without the name of a tool");
    }
    let mut tool_calls: Vec<ToolCall> = calls.into_iter().map(tool_call_from).collect();
    // Some providers send no ids, or the same one for each call.
    make_ids_unique(tool_calls.iter_mut().map(|call| &mut call.id));
    let cause = match &stop {
        _ if tool_calls.len() < all => StopCause::Length,
        _ if !tool_calls.is_empty() => StopCause::ToolCalls,
        _ if answer.is_refused => StopCause::Refusal,
        Some(StopReason::ContentFilter(_)) => StopCause::Refusal,
        Some(StopReason::MaxTokens(_)) => StopCause::Length,
        Some(StopReason::Other(reason)) if answer.text.is_empty() => {
            let reason = Some(reason).filter(|reason| is_code(reason));
            let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
            return malformed(&format!("it stopped for another reason{reason} and gave no answer"));
        }
        _ => StopCause::Done,
    };
    Ok(Reply {
        text: answer.text,
        tool_calls,
        stop: cause,
        usage,
        permissions: Vec::new(),
    })
}

fn tool_call_from(call: WantedCall) -> ToolCall {
    ToolCall {
        id: call.id,
        tool: call.name,
        args: call.args.map_or_else(|| json!({}), canonical),
    }
}
