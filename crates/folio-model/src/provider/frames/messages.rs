//! Frames of Anthropic's Messages. Each frame contains its type; the event name is not needed.

use serde_json::Value;

use super::{Answer, PartialCall, count_at, text_at};
use crate::model::Usage;
use crate::provider::failure::is_error;

impl Answer {
    pub(super) fn take_message(&mut self, frame: &Value) {
        let kind = text_at(frame, "/type");
        // Keep-alive events may come first.
        self.has_begun |= kind.starts_with("message") || kind.starts_with("content_block");
        match kind {
            "message_start" => self.count_message(frame.pointer("/message/usage")),
            "content_block_start" => self.begin_block(frame),
            "content_block_delta" => self.take_block(frame),
            "message_delta" => {
                self.count_message(frame.get("usage"));
                self.end_with(text_at(frame, "/delta/stop_reason"));
            }
            "message_stop" => self.is_done = true,
            _ if is_error(frame) => self.fail(frame),
            _ => {}
        }
    }

    fn begin_block(&mut self, frame: &Value) {
        let Some(block) = frame.get("content_block") else {
            return;
        };
        match text_at(block, "/type") {
            "text" => self.say(text_at(block, "/text")),
            "thinking" => self.think(text_at(block, "/thinking")),
            "tool_use" => {
                // Empty if the arguments follow in pieces.
                let input = block.get("input").and_then(Value::as_object);
                let args = input.filter(|input| !input.is_empty());
                self.begin(PartialCall {
                    index: count_at(frame, "/index"),
                    id: text_at(block, "/id").to_owned(),
                    name: text_at(block, "/name").to_owned(),
                    args: args.map_or_else(String::new, |args| Value::Object(args.clone()).to_string()),
                    is_given: args.is_some(),
                    ..PartialCall::default()
                });
            }
            _ => {}
        }
    }

    fn take_block(&mut self, frame: &Value) {
        let Some(delta) = frame.get("delta") else { return };
        match text_at(delta, "/type") {
            "text_delta" => self.say(text_at(delta, "/text")),
            "thinking_delta" => self.think(text_at(delta, "/thinking")),
            "input_json_delta" => {
                let index = count_at(frame, "/index");
                // Calls that the provider makes itself have indexes of their own.
                let more = text_at(delta, "/partial_json");
                let call = self.calls.iter_mut().rev().find(|call| call.index == index);
                if let Some(call) = call.filter(|_| !more.is_empty()) {
                    // Pieces replace arguments that came with the beginning.
                    if std::mem::take(&mut call.is_given) {
                        call.args.clear();
                    }
                    call.args.push_str(more);
                }
            }
            _ => {}
        }
    }

    /// The tokens read are reported at the beginning, those written at the end; some gateways report everything at the
    /// end, and zeros before. Until the tokens read are reported, the usage is not known (E9.10).
    fn count_message(&mut self, counted: Option<&Value>) {
        let Some(counted) = counted else { return };
        if self.usage.is_none() && count_at(counted, "/input_tokens").is_none() {
            return;
        }
        let before = self.usage.unwrap_or_default();
        let count = |pointer: &str, before| count_at(counted, pointer).filter(|count| *count > 0).unwrap_or(before);
        let cached = count("/cache_read_input_tokens", before.tokens_cached);
        let written = count("/cache_creation_input_tokens", before.tokens_cache_written);
        let both = |usage: Usage| usage.tokens_cached.saturating_add(usage.tokens_cache_written);
        let read = count("/input_tokens", before.tokens_in.saturating_sub(both(before)));
        let usage = Usage {
            tokens_in: read.saturating_add(cached).saturating_add(written),
            tokens_cached: cached,
            tokens_cache_written: written,
            tokens_out: count("/output_tokens", before.tokens_out),
            tokens_reasoning: count("/output_tokens_details/thinking_tokens", before.tokens_reasoning),
            micro_usd: None,
        };
        self.usage = (usage.tokens_in > 0).then_some(usage);
    }
}
