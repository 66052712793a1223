//! Answers that come in one piece although a stream was asked for: some servers and gateways ignore that. The answer is
//! there and paid for, so it counts.

use folio_memory::readable::read_unrounded;
use serde_json::{Value, json};

use super::{Answer, text_at};
use crate::provider::failure::is_error;
use crate::provider::wire::Wire;

impl Answer {
    /// Applies the `body` of an answer that has no frames. Returns whether it is a complete answer.
    pub(in crate::provider) fn take_whole(&mut self, wire: Wire, body: &[u8]) -> bool {
        let Ok(mut body) = read_unrounded::<Value>(body) else {
            return false;
        };
        if is_error(&body) {
            return false;
        }
        match wire {
            Wire::Chat => {
                as_pieces(&mut body);
                self.take_chat(&body);
            }
            Wire::Messages if text_at(&body, "/type") == "message" => self.take_whole_message(&body),
            Wire::Responses if body.get("output").is_some_and(Value::is_array) => {
                self.take_response(&json!({"type": "response.completed", "response": body}));
            }
            Wire::Messages | Wire::Responses => {}
            // Without the parameter for events, it is a list of what would be frames.
            Wire::Gemini => match body {
                Value::Array(frames) => frames.iter().for_each(|frame| self.take_content(frame)),
                frame => self.take_content(&frame),
            },
        }
        let is_whole = self.has_begun && self.problem.is_none();
        self.is_done |= is_whole;
        is_whole
    }

    fn take_whole_message(&mut self, body: &Value) {
        self.take_message(&json!({"type": "message_start", "message": {"usage": body["usage"]}}));
        let blocks = body.get("content").and_then(Value::as_array).into_iter().flatten();
        for (index, block) in blocks.enumerate() {
            self.take_message(&json!({"type": "content_block_start", "index": index, "content_block": block}));
        }
        self.take_message(&json!({
            "type": "message_delta", "delta": {"stop_reason": body["stop_reason"]}, "usage": body["usage"]
        }));
    }
}

/// Makes the messages of `body` what a stream would bring of them.
fn as_pieces(body: &mut Value) {
    let choices = body.get_mut("choices").and_then(Value::as_array_mut);
    for choice in choices.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(message) = choice.remove("message") {
            choice.insert("delta".to_owned(), message);
        }
    }
}
