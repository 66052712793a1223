//! From the pieces of an answer to the whole.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use folio_memory::canonical;
use futures_util::StreamExt as _;
use genai::chat::{ChatStream, ChatStreamEvent, RawFrameRef, StopReason, StreamEnd};
use serde_json::{Value, json};

use super::failure::Failures;
use super::wire::Wire;
use crate::error::{ModelError, ModelErrorKind};
use crate::model::{Delta, Reply, StopCause, ToolCall, Usage};

/// Bytes that an answer may have as it is sent.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What goes by on the wire and is not in what the library makes of it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    bytes: AtomicU64,
    /// The model, or what watches over it, will not answer.
    refused: AtomicBool,
}

impl Seen {
    pub(super) fn look_at(&self, frame: RawFrameRef<'_>) {
        self.bytes.fetch_add(frame.data.len() as u64, Ordering::Relaxed);
        // Each word stands in few frames, so that few are read twice.
        let may_refuse = ["refusal", "content_filter", "blockReason"];
        if may_refuse.iter().any(|word| frame.data.contains(word)) && frame.json().is_some_and(|data| is_refusal(&data))
        {
            self.refused.store(true, Ordering::Relaxed);
        }
    }
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
    mut stream: ChatStream,
    seen: &Arc<Seen>,
    failures: Failures<'_>,
    pieces: &mut (dyn FnMut(Delta) + Send),
) -> Result<Reply, ModelError> {
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        if seen.bytes.load(Ordering::Relaxed) > ANSWER_BYTES_MAX {
            let message = format!("its answer has more than {ANSWER_BYTES_MAX} bytes");
            return Err(failures.error(ModelErrorKind::Malformed, message));
        }
        match event {
            Ok(ChatStreamEvent::Chunk(chunk)) => {
                text.push_str(&chunk.content);
                pieces(Delta::Text(chunk.content));
            }
            Ok(ChatStreamEvent::ReasoningChunk(chunk)) => pieces(Delta::Thought(chunk.content)),
            Ok(ChatStreamEvent::End(end)) => return whole(text, end, seen, failures),
            Ok(
                ChatStreamEvent::Start
                | ChatStreamEvent::ThoughtSignatureChunk(_)
                | ChatStreamEvent::ToolCallChunk(_)
                | ChatStreamEvent::Heartbeat,
            ) => {}
            // Gemini gives nothing at all for a prompt that it blocks, which the library takes for a mistake.
            Err(_) if seen.refused.load(Ordering::Relaxed) => return Ok(refusal(text)),
            Err(error) => return Err(failures.of(&error)),
        }
    }
    Err(failures.cut_off())
}

fn refusal(text: String) -> Reply {
    Reply {
        text,
        tool_calls: Vec::new(),
        stop: StopCause::Refusal,
        usage: None,
    }
}

fn whole(text: String, end: StreamEnd, seen: &Seen, failures: Failures<'_>) -> Result<Reply, ModelError> {
    let stop = end.captured_stop_reason.clone();
    if stop.is_none() && failures.target.wire != Wire::Chat {
        // The library makes an end of its own where there was none. Some that speak as Chat Completions give no reason.
        return Err(failures.cut_off());
    }
    let usage = end.captured_usage.as_ref().and_then(usage_of);
    let is_cut = matches!(stop, Some(StopReason::MaxTokens(_)));
    let mut tool_calls = named_apart(end.captured_into_tool_calls().unwrap_or_default());
    let all = tool_calls.len();
    if is_cut {
        // A call whose arguments were cut off is none.
        tool_calls.retain(|call| call.args.is_object());
    }
    let cause = match &stop {
        _ if tool_calls.len() < all => StopCause::Length,
        _ if !tool_calls.is_empty() => StopCause::ToolCalls,
        _ if seen.refused.load(Ordering::Relaxed) => StopCause::Refusal,
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
fn named_apart(calls: Vec<genai::chat::ToolCall>) -> Vec<ToolCall> {
    let mut taken = HashSet::new();
    let named = calls.into_iter().zip(1_usize..).map(|(call, number)| {
        let mut id = call.call_id;
        if id.is_empty() || !taken.insert(id.clone()) {
            id = format!("{id}#{number}");
            taken.insert(id.clone());
        }
        ToolCall {
            id,
            tool: call.fn_name,
            args: match call.fn_arguments {
                Value::Null => json!({}),
                Value::String(text) if text.trim().is_empty() => json!({}),
                args => canonical(args),
            },
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
