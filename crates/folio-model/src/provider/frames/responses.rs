//! Frames of OpenAI's Responses. Each frame contains its type.

use serde_json::Value;

use super::{Answer, PartialCall, count_at, text_at};
use crate::model::Usage;
use crate::provider::failure::is_error;

impl Answer {
    pub(super) fn take_response(&mut self, frame: &Value) {
        let kind = text_at(frame, "/type");
        self.has_begun |= kind.starts_with("response.") && kind != "response.failed";
        match kind {
            "response.output_text.delta" => self.say(text_at(frame, "/delta")),
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                self.think(text_at(frame, "/delta"));
            }
            "response.output_item.added" => self.begin_item(frame),
            "response.function_call_arguments.delta" => {
                let piece = PartialCall {
                    index: count_at(frame, "/output_index"),
                    item: text_at(frame, "/item_id").to_owned(),
                    ..PartialCall::default()
                };
                if let Some(call) = self.known_item(&piece) {
                    call.args.push_str(text_at(frame, "/delta"));
                }
            }
            "response.output_item.done" => self.end_item(frame),
            "response.completed" | "response.incomplete" => self.end_response(frame),
            "response.failed" => self.fail(frame.get("response").unwrap_or(frame)),
            _ if kind.starts_with("response.refusal") => {
                self.is_refused = true;
                self.say(text_at(frame, "/delta"));
            }
            _ if is_error(frame) => self.fail(frame),
            _ => {}
        }
    }

    fn begin_item(&mut self, frame: &Value) {
        let Some(item) = frame.get("item").filter(|item| is_call(item)) else {
            return;
        };
        self.begin(PartialCall {
            args: String::new(),
            ..call_of(item, count_at(frame, "/output_index"))
        });
    }

    /// The end of an item contains the complete call, whatever was received before.
    fn end_item(&mut self, frame: &Value) {
        let Some(item) = frame.get("item").filter(|item| is_call(item)) else {
            return;
        };
        let finished = call_of(item, count_at(frame, "/output_index"));
        match self.known_item(&finished) {
            Some(call) if !finished.args.is_empty() => call.args = finished.args,
            Some(_) => {}
            None => self.begin(finished),
        }
    }

    /// The call that is meant: the one with its index; for servers without indexes, the one with its id; without
    /// either, the last one.
    fn known_item(&mut self, target: &PartialCall) -> Option<&mut PartialCall> {
        let has = |name: &str, of: &str| !of.is_empty() && name == of;
        let is_target = |call: &&mut PartialCall| match target.index {
            Some(_) => call.index == target.index,
            None if target.item.is_empty() && target.id.is_empty() => true,
            None => has(&call.item, &target.item) || has(&call.id, &target.id) || has(&call.id, &target.item),
        };
        self.calls.iter_mut().rev().find(is_target)
    }

    fn end_response(&mut self, frame: &Value) {
        let Some(response) = frame.get("response") else { return };
        self.stop = Some(text_at(response, "/status").to_owned());
        self.is_refused |= text_at(response, "/incomplete_details/reason") == "content_filter";
        self.usage = response.get("usage").and_then(usage_of);
        // Some servers send everything at once, at the end.
        let items = || response.get("output").and_then(Value::as_array).into_iter().flatten();
        if self.calls.is_empty() {
            let calls = items().filter(|item| is_call(item));
            calls.for_each(|item| self.begin(call_of(item, None)));
        }
        let parts = || items().filter_map(|item| item.get("content")?.as_array()).flatten();
        self.is_refused |= parts().any(|part| text_at(part, "/type") == "refusal");
        if self.text.is_empty() {
            parts().for_each(|part| match text_at(part, "/type") {
                "output_text" => self.say(text_at(part, "/text")),
                "refusal" => self.say(text_at(part, "/refusal")),
                _ => {}
            });
        }
        self.is_done = true;
    }
}

fn is_call(item: &Value) -> bool {
    text_at(item, "/type") == "function_call"
}

fn call_of(item: &Value, index: Option<u64>) -> PartialCall {
    PartialCall {
        index,
        item: text_at(item, "/id").to_owned(),
        id: text_at(item, "/call_id").to_owned(),
        name: text_at(item, "/name").to_owned(),
        args: text_at(item, "/arguments").to_owned(),
        is_given: false,
    }
}

/// `None` if no usage was reported, or not the tokens read: without them it is not known (E9.10).
fn usage_of(usage: &Value) -> Option<Usage> {
    let count = |pointer: &str| count_at(usage, pointer).unwrap_or(0);
    Some(Usage {
        tokens_in: count_at(usage, "/input_tokens").filter(|tokens| *tokens > 0)?,
        tokens_cached: count("/input_tokens_details/cached_tokens"),
        tokens_cache_written: 0,
        tokens_out: count("/output_tokens"),
        tokens_reasoning: count("/output_tokens_details/reasoning_tokens"),
        micro_usd: None,
    })
}
