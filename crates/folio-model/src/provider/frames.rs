//! Parses the frames of an answer, for each protocol.

mod chat;
mod gemini;
mod messages;
mod responses;
mod whole;

use folio_memory::readable::{read, read_unrounded};
use serde_json::{Value, json};

use super::wire::Wire;
use crate::model::{Delta, Usage};

/// The maximum number of calls in one answer.
const CALLS_MAX: usize = 1000;

/// A call that is still being received.
#[derive(Debug, Default)]
struct PartialCall {
    /// Its index, if one was given.
    index: Option<u64>,
    /// The id of the item in the Responses protocol, by which its pieces refer to it. The id of the call is a different
    /// one.
    item: String,
    id: String,
    name: String,
    args: String,
    /// Whether the arguments came with the beginning of the call.
    is_given: bool,
}

impl PartialCall {
    /// Whether the arguments are complete.
    fn is_whole(&self) -> bool {
        read::<Value>(self.args.as_bytes()).is_ok()
    }
}

/// A call that the model requests.
#[derive(Debug)]
pub(super) struct WantedCall {
    /// May be empty.
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments; a string with the text if it could not be parsed; `None` if nothing came.
    pub(super) args: Option<Value>,
}

/// An answer that is still being received.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    /// The maximum number of tokens that was requested.
    tokens_max: u64,
    /// Pieces that were not passed on yet.
    pub(super) pieces: Vec<Delta>,
    /// The stop reason, in the provider's term.
    pub(super) stop: Option<String>,
    pub(super) usage: Option<Usage>,
    /// Whether the end was received.
    pub(super) is_done: bool,
    /// Whether any part of the answer was received.
    pub(super) has_begun: bool,
    /// Whether the model, or a filter, explicitly refuses to answer.
    pub(super) is_refused: bool,
    /// The error that the provider reports.
    pub(super) error: Option<Value>,
    /// Why the answer cannot be parsed.
    pub(super) problem: Option<&'static str>,
    calls: Vec<PartialCall>,
}

impl Answer {
    /// An empty answer with a limit of `tokens_max`.
    pub(super) fn of(tokens_max: u32) -> Self {
        Self {
            tokens_max: u64::from(tokens_max),
            ..Self::default()
        }
    }

    /// Applies the data of one frame; data of another kind is ignored.
    pub(super) fn take_in(&mut self, wire: Wire, data: &str) {
        let data = data.trim();
        if self.is_done || self.problem.is_some() || data.is_empty() {
            return;
        }
        // Some servers send it after Messages, too, which have an end marker of their own.
        if data == "[DONE]" {
            self.is_done = wire == Wire::Chat;
            return;
        }
        // Some providers send the arguments of calls as part of the frame, so numbers must not be rounded.
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

    /// The complete usage, if it was received: with the stop reason; in Chat Completions also without it, because no
    /// part of the usage is reported earlier there. A count at the beginning does not include what is written.
    pub(super) fn whole_usage(&self, wire: Wire) -> Option<Usage> {
        let is_whole = self.stop.is_some() || wire == Wire::Chat;
        self.usage.filter(|_| is_whole).and_then(Usage::if_plausible)
    }

    /// How much of calls was received, in bytes.
    pub(super) fn bytes_of_calls(&self) -> usize {
        let calls = self.calls.iter();
        calls.map(|call| call.name.len() + call.args.len()).sum()
    }

    /// The calls that the model requests, in the order in which they began.
    pub(super) fn take_wanted_calls(&mut self) -> Vec<WantedCall> {
        let calls = std::mem::take(&mut self.calls).into_iter().map(|call| WantedCall {
            args: match call.args.trim() {
                "" => None,
                // Some models write this for a tool without arguments.
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

    /// Notes the reason of the end. Some servers send an empty one with each piece before the end.
    fn end_with(&mut self, stop: &str) {
        if !stop.is_empty() {
            self.stop = Some(stop.to_owned());
        }
    }

    fn begin(&mut self, call: PartialCall) {
        let is_far = call.index.is_some_and(|index| index >= CALLS_MAX as u64);
        if is_far || self.calls.len() >= CALLS_MAX {
            self.problem = Some("its answer requests more calls than are allowed");
        } else {
            self.calls.push(call);
        }
    }

    fn fail(&mut self, error: &Value) {
        self.error.get_or_insert_with(|| error.clone());
    }
}

/// The text at `pointer`; empty if there is none.
fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn count_at(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}
