//! From the pieces of an answer to the whole.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_memory::canonical;
use futures_util::StreamExt as _;
use genai::Error;
use genai::chat::{ChatStream, ChatStreamEvent, RawFrameRef, StopReason, StreamEnd};
use serde_json::{Value, json};

use super::failure::Failures;
use super::frames::{Answer, WantedCall};
use super::wire::Wire;
use crate::error::{ModelError, ModelErrorKind};
use crate::model::{Delta, Reply, StopCause, ToolCall, Usage};

/// Bytes that an answer may have as it is sent.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What goes by on the wire and is not in what the library makes of it.
#[derive(Debug)]
pub(super) struct Seen {
    wire: Wire,
    bytes: AtomicU64,
    /// The model, or what watches over it, will not answer.
    refused: AtomicBool,
    /// What the frames say, where the library is not trusted with it.
    answer: Mutex<Answer>,
}

impl Seen {
    pub(super) fn new(wire: Wire) -> Self {
        Self {
            wire,
            bytes: AtomicU64::new(0),
            refused: AtomicBool::new(false),
            answer: Mutex::default(),
        }
    }

    pub(super) fn look_at(&self, frame: RawFrameRef<'_>) {
        let before = self.bytes.fetch_add(frame.data.len() as u64, Ordering::Relaxed);
        if before > ANSWER_BYTES_MAX {
            return;
        }
        // Each word stands in few frames, so that few are read twice.
        let may_refuse = ["refusal", "content_filter", "blockReason"];
        if may_refuse.iter().any(|word| frame.data.contains(word)) && frame.json().is_some_and(|data| is_refusal(&data))
        {
            self.refused.store(true, Ordering::Relaxed);
        }
        if is_read_here(self.wire) {
            self.answer().take_in(self.wire, frame.data);
        }
    }

    fn answer(&self) -> MutexGuard<'_, Answer> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// What came to an end before its time, or was no answer at all.
    fn cut_off(&self, failures: Failures<'_>) -> ModelError {
        if self.bytes.load(Ordering::Relaxed) == 0 {
            let message = "its answer could not be read: nothing in it is a piece of an answer";
            return failures.error(ModelErrorKind::Malformed, message);
        }
        failures.cut_off()
    }
}

/// Whether answers of `wire` are read from their frames, and not by the library.
pub(super) fn is_read_here(wire: Wire) -> bool {
    matches!(wire, Wire::Chat | Wire::Messages)
}

/// Whether a frame says that there will be no answer, in the places where each provider says so.
fn is_refusal(frame: &Value) -> bool {
    let says = |pointer: &str| {
        let found = frame.pointer(pointer).and_then(Value::as_str);
        found.is_some_and(|text| !text.is_empty())
    };
    says("/choices/0/delta/refusal")
        || frame["type"]
            .as_str()
            .is_some_and(|name| name.starts_with("response.refusal"))
        || frame.pointer("/response/incomplete_details/reason") == Some(&json!("content_filter"))
        || says("/promptFeedback/blockReason")
}

/// Reads an answer to its end.
pub(super) async fn read(
    stream: ChatStream,
    seen: &Arc<Seen>,
    failures: Failures<'_>,
    pieces: &mut (dyn FnMut(Delta) + Send),
) -> Result<Reply, ModelError> {
    if is_read_here(seen.wire) {
        read_frames(stream, seen, failures, pieces).await
    } else {
        read_events(stream, seen, failures, pieces).await
    }
}

fn check_size(seen: &Seen, failures: Failures<'_>) -> Result<(), ModelError> {
    if seen.bytes.load(Ordering::Relaxed) > ANSWER_BYTES_MAX {
        let message = format!("its answer has more than {ANSWER_BYTES_MAX} bytes");
        return Err(failures.error(ModelErrorKind::Malformed, message));
    }
    Ok(())
}

/// Where the frames themselves are read: the library only fetches them.
async fn read_frames(
    mut stream: ChatStream,
    seen: &Seen,
    failures: Failures<'_>,
    pieces: &mut (dyn FnMut(Delta) + Send),
) -> Result<Reply, ModelError> {
    loop {
        let event = stream.next().await;
        check_size(seen, failures)?;
        let new = std::mem::take(&mut seen.answer().pieces);
        new.into_iter().for_each(&mut *pieces);
        let mut answer = seen.answer();
        if let Some(problem) = answer.problem {
            return Err(failures.error(ModelErrorKind::Malformed, problem));
        }
        if let Some(error) = &answer.error {
            return Err(failures.of_event(error));
        }
        // Some that speak as Chat Completions give no reason, some no end after it.
        let is_ended = answer.is_done && (answer.stop.is_some() || seen.wire == Wire::Chat);
        let is_ended = is_ended || event.is_none() && answer.stop.is_some() && seen.wire == Wire::Chat;
        if is_ended {
            return said(&mut answer, seen, failures);
        }
        match event {
            None => return Err(seen.cut_off(failures)),
            Some(Ok(ChatStreamEvent::End(_))) => return Err(seen.cut_off(failures)),
            Some(Err(error @ (Error::WebStream { .. } | Error::HttpError { .. } | Error::WebModelCall { .. }))) => {
                return Err(failures.of(&error));
            }
            // What the library cannot make of a frame is not asked for.
            Some(Ok(_) | Err(_)) => {}
        }
    }
}

/// The reply that the frames make.
fn said(answer: &mut Answer, seen: &Seen, failures: Failures<'_>) -> Result<Reply, ModelError> {
    let stop = answer.stop.take().map(StopReason::from);
    let is_cut = matches!(stop, Some(StopReason::MaxTokens(_)));
    if answer.has_nameless_call() && !is_cut {
        let message = "its answer wants a call and does not say of what";
        return Err(failures.error(ModelErrorKind::Malformed, message));
    }
    let text = std::mem::take(&mut answer.text);
    whole(text, stop, answer.usage, answer.wanted(), seen, failures)
}

/// Where the library reads them.
async fn read_events(
    mut stream: ChatStream,
    seen: &Seen,
    failures: Failures<'_>,
    pieces: &mut (dyn FnMut(Delta) + Send),
) -> Result<Reply, ModelError> {
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        check_size(seen, failures)?;
        match event {
            Ok(ChatStreamEvent::Chunk(chunk)) => {
                text.push_str(&chunk.content);
                pieces(Delta::Text(chunk.content));
            }
            Ok(ChatStreamEvent::ReasoningChunk(chunk)) => pieces(Delta::Thought(chunk.content)),
            Ok(ChatStreamEvent::End(end)) => return ended(text, end, seen, failures),
            Ok(
                ChatStreamEvent::Start
                | ChatStreamEvent::ThoughtSignatureChunk(_)
                | ChatStreamEvent::ToolCallChunk(_)
                | ChatStreamEvent::Heartbeat,
            ) => {}
            // Gemini gives nothing at all for a prompt that it blocks, which the library takes for a mistake.
            Err(_) if seen.is_refused() => return Ok(refusal(text)),
            Err(error) => return Err(failures.of(&error)),
        }
    }
    Err(seen.cut_off(failures))
}

fn refusal(text: String) -> Reply {
    Reply {
        text,
        tool_calls: Vec::new(),
        stop: StopCause::Refusal,
        usage: None,
    }
}

/// The reply that the library made.
fn ended(text: String, end: StreamEnd, seen: &Seen, failures: Failures<'_>) -> Result<Reply, ModelError> {
    let Some(stop) = end.captured_stop_reason.clone() else {
        // The library makes an end of its own where there was none.
        return Err(seen.cut_off(failures));
    };
    let usage = end.captured_usage.as_ref().and_then(usage_of);
    let calls = end.captured_into_tool_calls().unwrap_or_default();
    let calls = calls.into_iter().map(|call| WantedCall {
        id: call.call_id,
        name: call.fn_name,
        args: match call.fn_arguments {
            Value::Null => None,
            Value::String(text) if text.trim().is_empty() => None,
            args => Some(args),
        },
    });
    whole(text, Some(stop), usage, calls.collect(), seen, failures)
}

fn whole(
    text: String,
    stop: Option<StopReason>,
    usage: Option<Usage>,
    mut calls: Vec<WantedCall>,
    seen: &Seen,
    failures: Failures<'_>,
) -> Result<Reply, ModelError> {
    let is_cut = matches!(stop, Some(StopReason::MaxTokens(_)));
    let all = calls.len();
    if is_cut {
        // A call whose arguments were cut off is none.
        calls.retain(|call| !call.name.is_empty() && call.args.as_ref().is_some_and(Value::is_object));
    }
    let tool_calls = named_apart(calls);
    let cause = match &stop {
        _ if tool_calls.len() < all => StopCause::Length,
        _ if !tool_calls.is_empty() => StopCause::ToolCalls,
        _ if seen.is_refused() => StopCause::Refusal,
        Some(StopReason::ContentFilter(_)) => StopCause::Refusal,
        Some(StopReason::MaxTokens(_)) => StopCause::Length,
        Some(StopReason::Other(_)) if text.is_empty() => {
            return Err(failures.error(
                ModelErrorKind::Malformed,
                "it stopped for a reason of its own and said nothing",
            ));
        }
        _ => StopCause::Done,
    };
    Ok(Reply {
        text,
        tool_calls,
        stop: cause,
        usage,
    })
}

/// Calls with ids that are there and differ. Some providers have none, and the library then counts from 0 in each piece.
fn named_apart(calls: Vec<WantedCall>) -> Vec<ToolCall> {
    let mut taken = HashSet::new();
    let named = calls.into_iter().zip(1_usize..).map(|(call, number)| {
        let mut id = call.id;
        if id.is_empty() {
            id = format!("call_{number}");
        }
        if !taken.insert(id.clone()) {
            id = format!("{id}#{number}");
            taken.insert(id.clone());
        }
        ToolCall {
            id,
            tool: call.name,
            args: call.args.map_or_else(|| json!({}), canonical),
        }
    });
    named.collect()
}

/// `None` if the provider did not say: nothing that was asked costs nothing.
fn usage_of(usage: &genai::chat::Usage) -> Option<Usage> {
    let count = |tokens: Option<i32>| u64::try_from(tokens.unwrap_or(0)).unwrap_or(0);
    let prompt = usage.prompt_tokens_details.as_ref();
    let completion = usage.completion_tokens_details.as_ref();
    let usage = Usage {
        tokens_in: count(usage.prompt_tokens),
        tokens_cached: count(prompt.and_then(|details| details.cached_tokens)),
        tokens_cache_written: count(prompt.and_then(|details| details.cache_creation_tokens)),
        tokens_out: count(usage.completion_tokens),
        tokens_reasoning: count(completion.and_then(|details| details.reasoning_tokens)),
        micro_usd: None,
    };
    (usage.tokens_in + usage.tokens_out > 0).then_some(usage)
}
