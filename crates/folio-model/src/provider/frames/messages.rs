//! Frames of Anthropic's Messages. What each is stands in it; the name beside it is not needed.

use serde_json::Value;

use super::{Answer, PartialCall, count_at, text_at};

impl Answer {
    pub(super) fn take_message(&mut self, frame: &Value) {
        match text_at(frame, "/type") {
            "message_start" => self.count_message(frame.pointer("/message/usage")),
            "content_block_start" => self.begin_block(frame),
            "content_block_delta" => self.take_block(frame),
            "message_delta" => {
                self.count_message(frame.get("usage"));
                if let Some(stop) = frame.pointer("/delta/stop_reason").and_then(Value::as_str) {
                    self.stop = Some(stop.to_owned());
                }
            }
            "message_stop" => self.is_done = true,
            "error" => self.fail(frame),
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
                // Empty where its pieces follow.
                let input = block.get("input").and_then(Value::as_object);
                let args = input.filter(|input| !input.is_empty());
                self.begin(PartialCall {
                    index: count_at(frame, "/index"),
                    id: text_at(block, "/id").to_owned(),
                    name: text_at(block, "/name").to_owned(),
                    args: args.map_or_else(String::new, |args| Value::Object(args.clone()).to_string()),
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
                // What the provider calls by itself stands at places of its own.
                if let Some(call) = self.calls.iter_mut().rev().find(|call| call.index == index) {
                    call.args.push_str(text_at(delta, "/partial_json"));
                }
            }
            _ => {}
        }
    }

    /// What was read comes with the beginning, what was written with the end; some gateways send all of it with the end.
    fn count_message(&mut self, counted: Option<&Value>) {
        let Some(counted) = counted else { return };
        let mut usage = self.usage.unwrap_or_default();
        let cached = count_at(counted, "/cache_read_input_tokens").unwrap_or(0);
        let written = count_at(counted, "/cache_creation_input_tokens").unwrap_or(0);
        if let Some(read) = count_at(counted, "/input_tokens") {
            usage.tokens_in = read.saturating_add(cached).saturating_add(written);
        }
        if cached > 0 || written > 0 {
            (usage.tokens_cached, usage.tokens_cache_written) = (cached, written);
        }
        if let Some(out) = count_at(counted, "/output_tokens") {
            usage.tokens_out = out;
        }
        if let Some(thought) = count_at(counted, "/output_tokens_details/thinking_tokens") {
            usage.tokens_reasoning = thought;
        }
        let is_counted = usage.tokens_in.saturating_add(usage.tokens_out) > 0;
        self.usage = is_counted.then_some(usage);
    }
}
