//! From the pieces of an answer to the whole.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use folio_memory::canonical;
use futures_util::StreamExt as _;
use genai::chat::{ChatStream, ChatStreamEvent, RawFrameRef, StopReason, StreamEnd};
use serde_json::{Value, json};

use super::failure::Failures;
use super::fetch::{ANSWER_BYTES_MAX, Fetched};
use super::frames::{Answer, WantedCall};
use super::wire::Wire;
use crate::error::{ModelError, ModelErrorKind};
use crate::model::{Delta, Reply, StopCause, ToolCall, Usage};

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

    fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// What came to an end before its time, or was no answer at all.
    fn cut_off(&self, failures: Failures<'_>) -> ModelError {
        if self.bytes.load(Ordering::Relaxed) == 0 {
            return failures.no_answer();
        }
        failures.cut_off()
    }
}

/// Whether a frame says that there will be no answer, in the places where each provider says so.
fn is_refusal(frame: &Value) -> bool {
    let says = |pointer: &str| {
        let found = frame.pointer(pointer).and_then(Value::as_str);
        found.is_some_and(|text| !text.is_empty())
    };
    frame["type"]
        .as_str()
        .is_some_and(|name| name.starts_with("response.refusal"))
        || frame.pointer("/response/incomplete_details/reason") == Some(&json!("content_filter"))
        || says("/promptFeedback/blockReason")
}

/// Reads an answer to its end from its frames.
pub(super) async fn read_frames(
    mut fetched: Fetched<'_>,
    failures: Failures<'_>,
    pieces: &mut (dyn FnMut(Delta) + Send),
) -> Result<Reply, ModelError> {
    let wire = failures.target.wire;
    let mut answer = Answer::default();
    loop {
        let frame = fetched.next().await?;
        match &frame {
            Some(frame) => answer.take_in(wire, frame),
            None => {
                // What broke off in the middle of a frame is no reason to doubt what came before.
                let last = fetched.unended();
                answer.take_in(wire, last.as_deref().filter(|data| is_whole(data)).unwrap_or_default());
            }
        }
        answer.pieces.drain(..).for_each(&mut *pieces);
        if let Some(problem) = answer.problem {
            return Err(failures.error(ModelErrorKind::Malformed, problem));
        }
        if let Some(error) = &answer.error {
            return Err(failures.of_event(error));
        }
        // Some that speak as Chat Completions give no reason, some no end after it.
        let is_ended = match wire {
            Wire::Chat => answer.is_done && answer.has_begun || frame.is_none() && answer.stop.is_some(),
            _ => answer.is_done && answer.stop.is_some(),
        };
        if is_ended {
            return said(answer, failures);
        }
        if frame.is_none() || answer.is_done {
            return Err(match answer.has_begun {
                true => failures.cut_off(),
                false => failures.of_no_answer(fetched.outside()),
            });
        }
    }
}

fn is_whole(data: &str) -> bool {
    data.trim() == "[DONE]" || serde_json::from_str::<Value>(data).is_ok()
}

/// The reply that the frames make.
fn said(mut answer: Answer, failures: Failures<'_>) -> Result<Reply, ModelError> {
    let calls = answer.wanted();
    let end = End {
        text: answer.text,
        stop: answer.stop.map(StopReason::from),
        usage: answer.usage,
        is_refused: answer.is_refused,
    };
    if !end.is_cut() && calls.iter().any(|call| call.name.is_empty()) {
        let message = "its answer wants a call and does not say of what";
        return Err(failures.error(ModelErrorKind::Malformed, message));
    }
    end.reply(calls, failures)
}

/// Reads an answer to its end as the library hands it on.
pub(super) async fn read_events(
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
    let end = End {
        text,
        stop: Some(stop),
        usage,
        is_refused: seen.is_refused(),
    };
    end.reply(calls.collect(), failures)
}

/// What an answer is besides its calls.
struct End {
    text: String,
    stop: Option<StopReason>,
    usage: Option<Usage>,
    is_refused: bool,
}

impl End {
    fn is_cut(&self) -> bool {
        matches!(self.stop, Some(StopReason::MaxTokens(_)))
    }

    fn reply(self, mut calls: Vec<WantedCall>, failures: Failures<'_>) -> Result<Reply, ModelError> {
        let all = calls.len();
        if self.is_cut() {
            // A call whose arguments were cut off is none.
            calls.retain(|call| !call.name.is_empty() && call.args.as_ref().is_some_and(Value::is_object));
        }
        let tool_calls = named_apart(calls);
        let cause = match &self.stop {
            _ if tool_calls.len() < all => StopCause::Length,
            _ if !tool_calls.is_empty() => StopCause::ToolCalls,
            _ if self.is_refused => StopCause::Refusal,
            Some(StopReason::ContentFilter(_)) => StopCause::Refusal,
            Some(StopReason::MaxTokens(_)) => StopCause::Length,
            Some(StopReason::Other(_)) if self.text.is_empty() => {
                return Err(failures.error(
                    ModelErrorKind::Malformed,
                    "it stopped for a reason of its own and said nothing",
                ));
            }
            _ => StopCause::Done,
        };
        Ok(Reply {
            text: self.text,
            tool_calls,
            stop: cause,
            usage: self.usage,
        })
    }
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
            id = format!("{id}-{number}");
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
