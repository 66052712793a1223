//! Frames of Chat Completions, as OpenAI and similar servers send them.

use serde_json::{Value, json};

use super::{Answer, PartialCall, count_at, text_at};
use crate::model::Usage;
use crate::provider::failure::is_error;

/// Stop reasons that mean an early end: of OpenRouter and Mistral, of vLLM and SGLang, of DeepSeek.
const EARLY_STOP_REASONS: [&str; 3] = ["error", "abort", "insufficient_system_resource"];

impl Answer {
    pub(super) fn take_chat(&mut self, frame: &Value) {
        if is_error(frame) {
            return self.fail(frame);
        }
        // Some servers send the usage with the last choice, some after it, Moonshot inside it, and Groq beside it.
        let usage = ["/usage", "/choices/0/usage", "/x_groq/usage"].iter();
        let mut counted = usage.filter_map(|at| usage_of(frame.pointer(at)?, self.tokens_max));
        if let Some(usage) = counted.next() {
            self.usage = Some(usage);
        }
        let mut choices = frame.get("choices").and_then(Value::as_array).into_iter().flatten();
        let Some(choice) = choices.find(|choice| count_at(choice, "/index").unwrap_or(0) == 0) else {
            return;
        };
        self.has_begun = true;
        if let Some(delta) = choice.get("delta") {
            let thought = ["/reasoning_content", "/reasoning"].map(|pointer| text_at(delta, pointer));
            self.think(thought.into_iter().find(|text| !text.is_empty()).unwrap_or_default());
            match delta.get("content") {
                Some(Value::String(text)) => self.say(text),
                Some(Value::Array(parts)) => parts.iter().for_each(|part| self.take_part(part)),
                _ => {}
            }
            let refusal = text_at(delta, "/refusal");
            self.is_refused |= !refusal.is_empty();
            self.say(refusal);
            let calls = delta.get("tool_calls").and_then(Value::as_array);
            for call in calls.into_iter().flatten() {
                self.take_call(call);
            }
        }
        match text_at(choice, "/finish_reason") {
            stop if EARLY_STOP_REASONS.contains(&stop) => self.fail(&json!({"error": {"code": stop}})),
            stop => self.end_with(stop),
        }
    }

    /// A content part of Mistral's reasoning models.
    fn take_part(&mut self, part: &Value) {
        match text_at(part, "/type") {
            "thinking" => {
                let thoughts = part.get("thinking").and_then(Value::as_array);
                for thought in thoughts.into_iter().flatten() {
                    self.think(text_at(thought, "/text"));
                }
            }
            _ => self.say(text_at(part, "/text")),
        }
    }

    /// A call, or a piece of one.
    fn take_call(&mut self, piece: &Value) {
        let index = count_at(piece, "/index");
        let (id, name) = (text_at(piece, "/id"), text_at(piece, "/function/name"));
        let args = match piece.pointer("/function/arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            // Ollama and some gateways send an object instead of a string.
            Some(other) => other.to_string(),
        };
        let known = self.known_call(index, id).filter(|call| !is_another(call, id, name));
        let Some(call) = known else {
            return self.begin(PartialCall {
                index,
                id: id.to_owned(),
                name: name.to_owned(),
                args,
                ..PartialCall::default()
            });
        };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        call.args.push_str(&args);
    }

    /// The call that a piece may belong to: the last one with its index or its id, or, without either, the last one.
    fn known_call(&mut self, index: Option<u64>, id: &str) -> Option<&mut PartialCall> {
        let has_id = |call: &PartialCall| !id.is_empty() && call.id == id;
        let found = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None => self.calls.iter().rposition(has_id),
        };
        match (found, index) {
            (Some(at), _) => self.calls.get_mut(at),
            (None, None) => self.calls.last_mut(),
            (None, Some(_)) => None,
        }
    }
}

/// Whether a piece begins another call than `call` although it has the same index. Some servers give each call the
/// index 0, or none; some repeat id and name in each piece; some send no ids.
fn is_another(call: &PartialCall, id: &str, name: &str) -> bool {
    if name.is_empty() || call.name.is_empty() {
        return false;
    }
    if id.is_empty() || call.id.is_empty() {
        return name != call.name || call.is_whole();
    }
    id != call.id
}

/// `None` if no usage was reported.
fn usage_of(usage: &Value, tokens_max: u64) -> Option<Usage> {
    let count = |pointer: &str| count_at(usage, pointer).unwrap_or(0);
    let completion_tokens = count("/completion_tokens");
    // Without the tokens read the usage is not known (E9.10).
    let all_but_said = || count_at(usage, "/total_tokens")?.checked_sub(completion_tokens);
    let tokens_in = count_at(usage, "/prompt_tokens").or_else(all_but_said)?;
    let reasoning = count("/completion_tokens_details/reasoning_tokens");
    // xAI and Google's server do not include reasoning in the completion tokens, but in the total. A total above the
    // requested limit is wrong.
    let rest = count("/total_tokens").saturating_sub(tokens_in);
    let tokens_out = completion_tokens.max(rest.min(tokens_max.saturating_add(reasoning)));
    let details = "/prompt_tokens_details";
    let cached =
        count_at(usage, &format!("{details}/cached_tokens")).or_else(|| count_at(usage, "/prompt_cache_hit_tokens"));
    let written = ["cache_creation_tokens", "cache_write_tokens"];
    let usage = Usage {
        tokens_in,
        tokens_cached: cached.unwrap_or(0).min(tokens_in),
        tokens_cache_written: written
            .iter()
            .find_map(|name| count_at(usage, &format!("{details}/{name}")))
            .unwrap_or(0),
        tokens_out,
        tokens_reasoning: reasoning,
        micro_usd: None,
    };
    (usage.tokens_in.saturating_add(usage.tokens_out) > 0).then_some(usage)
}
