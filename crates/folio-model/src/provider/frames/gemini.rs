//! Frames of Gemini's `generateContent`: each is an answer that continues the one before.

use serde_json::Value;

use super::{Answer, PartialCall, count_at, text_at};
use crate::model::Usage;
use crate::provider::failure::is_error;

impl Answer {
    pub(super) fn take_content(&mut self, frame: &Value) {
        if is_error(frame) {
            return self.fail(frame);
        }
        if let Some(usage) = frame.get("usageMetadata").and_then(usage_of) {
            self.usage = Some(usage);
        }
        let blocked = text_at(frame, "/promptFeedback/blockReason");
        if !blocked.is_empty() {
            // Such an answer contains nothing else.
            self.is_refused = true;
            self.stop = Some(blocked.to_owned());
        }
        self.has_begun |= frame.get("candidates").is_some() || !blocked.is_empty();
        let parts = frame.pointer("/candidates/0/content/parts").and_then(Value::as_array);
        parts
            .into_iter()
            .flatten()
            .for_each(|part| self.take_content_part(part));
        self.end_with(text_at(frame, "/candidates/0/finishReason"));
        self.is_done |= self.stop.is_some();
    }

    fn take_content_part(&mut self, part: &Value) {
        if let Some(call) = part.get("functionCall") {
            let args = call.get("args").filter(|args| !args.is_null());
            self.begin(PartialCall {
                id: text_at(call, "/id").to_owned(),
                name: text_at(call, "/name").to_owned(),
                args: args.map_or_else(String::new, Value::to_string),
                is_given: true,
                ..PartialCall::default()
            });
        } else if part.get("thought").and_then(Value::as_bool) == Some(true) {
            self.think(text_at(part, "/text"));
        } else {
            self.say(text_at(part, "/text"));
        }
    }
}

/// `None` if no usage was reported. The count of what was written does not include reasoning.
fn usage_of(usage: &Value) -> Option<Usage> {
    let count = |pointer: &str| count_at(usage, pointer).unwrap_or(0);
    let thought = count("/thoughtsTokenCount");
    let tokens_out = count("/candidatesTokenCount").saturating_add(thought);
    let prompt = count_at(usage, "/promptTokenCount");
    let prompt = prompt.map(|prompt| prompt.saturating_add(count("/toolUsePromptTokenCount")));
    // Without the tokens read the usage is not known (E9.10).
    let all_but_said = || count_at(usage, "/totalTokenCount")?.checked_sub(tokens_out);
    let tokens_in = prompt.or_else(all_but_said).filter(|tokens| *tokens > 0)?;
    Some(Usage {
        tokens_in,
        tokens_cached: count("/cachedContentTokenCount"),
        tokens_cache_written: 0,
        tokens_out,
        tokens_reasoning: thought,
        micro_usd: None,
    })
}
