//! What the frames of an answer say, in each language.

mod chat;
mod gemini;
mod messages;
mod responses;

use folio_memory::readable::{read, read_unrounded};
use serde_json::{Value, json};

use super::wire::Wire;
use crate::model::{Delta, Usage};

/// Calls that one answer may want.
const CALLS_MAX: usize = 1000;

/// A call, as far as it came.
#[derive(Debug, Default)]
struct PartialCall {
    /// Where it stands, if that was said.
    index: Option<u64>,
    /// What Responses call the item that it is, whose pieces have that name. Its own id is another one.
    item: String,
    id: String,
    name: String,
    args: String,
    /// They came whole with its beginning.
    is_given: bool,
}

impl PartialCall {
    /// Whether nothing is missing in its arguments.
    fn is_whole(&self) -> bool {
        read::<Value>(self.args.as_bytes()).is_ok()
    }
}

/// A call as it was wanted.
#[derive(Debug)]
pub(super) struct WantedCall {
    /// May be empty.
    pub(super) id: String,
    pub(super) name: String,
    /// The text that it is, if it could not be read; `None` where nothing came.
    pub(super) args: Option<Value>,
}

/// An answer, as far as it came.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    /// The longest that it was to be, in tokens.
    tokens_max: u64,
    /// What was not handed on yet.
    pub(super) pieces: Vec<Delta>,
    /// Why the model stopped, in the provider's word.
    pub(super) stop: Option<String>,
    pub(super) usage: Option<Usage>,
    /// Whether the end came.
    pub(super) is_done: bool,
    /// Whether anything of it came.
    pub(super) has_begun: bool,
    /// Whether the model, or what watches over it, says in words of their own that it will not answer.
    pub(super) is_refused: bool,
    /// What the provider says of a failure.
    pub(super) error: Option<Value>,
    /// Why it cannot be read.
    pub(super) problem: Option<&'static str>,
    calls: Vec<PartialCall>,
}

impl Answer {
    /// Nothing of one that was to be so long yet.
    pub(super) fn of(tokens_max: u32) -> Self {
        Self {
            tokens_max: u64::from(tokens_max),
            ..Self::default()
        }
    }

    /// Takes in what one frame says; what is no frame of this answer's kind says nothing.
    pub(super) fn take_in(&mut self, wire: Wire, data: &str) {
        let data = data.trim();
        if self.is_done || self.problem.is_some() || data.is_empty() {
            return;
        }
        // Some send it at the end of Messages, too, which have an end of their own.
        if data == "[DONE]" {
            self.is_done = wire == Wire::Chat;
            return;
        }
        // Some providers give the arguments of calls as part of the frame.
        let Ok(frame) = read_unrounded::<Value>(data.as_bytes()) else {
            self.problem = Some("its answer could not be read");
            return;
        };
        match wire {
            Wire::Chat => self.take_chat(&frame),
            Wire::Messages => self.take_message(&frame),
            Wire::Responses => self.take_response(&frame),
            Wire::Gemini => self.take_content(&frame),
        }
    }

    /// What all of it cost, if that came: with the end, or in Chat Completions alone, where nothing is counted before. What some count at
    /// the beginning has nothing of what is written.
    pub(super) fn whole_usage(&self, wire: Wire) -> Option<Usage> {
        let is_whole = self.stop.is_some() || wire == Wire::Chat;
        self.usage.filter(|_| is_whole).and_then(Usage::possible)
    }

    /// The calls that it wants, in the order in which they began.
    pub(super) fn wanted(&mut self) -> Vec<WantedCall> {
        let calls = std::mem::take(&mut self.calls).into_iter().map(|call| WantedCall {
            args: match call.args.trim() {
                "" => None,
                // Some write that where a tool takes nothing.
                "null" => None,
                args => Some(read_unrounded(args.as_bytes()).unwrap_or_else(|_| json!(call.args))),
            },
            id: call.id,
            name: call.name,
        });
        calls.collect()
    }

    fn say(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.push_str(text);
            self.pieces.push(Delta::Text(text.to_owned()));
        }
    }

    fn think(&mut self, text: &str) {
        if !text.is_empty() {
            self.pieces.push(Delta::Thought(text.to_owned()));
        }
    }

    fn begin(&mut self, call: PartialCall) {
        let is_far = call.index.is_some_and(|index| index >= CALLS_MAX as u64);
        if is_far || self.calls.len() >= CALLS_MAX {
            self.problem = Some("its answer wants more calls than an answer may");
        } else {
            self.calls.push(call);
        }
    }

    fn fail(&mut self, error: &Value) {
        self.error.get_or_insert_with(|| error.clone());
    }
}

/// The text at `pointer`; nothing, if there is none.
fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn count_at(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}
