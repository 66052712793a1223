//! Extracts the answer from the output of an agent program. Each form is parsed as its program documents it, and
//! everything else is skipped: programs add events with every version.

use std::collections::BTreeMap;

use folio_memory::excerpt::cut;
use folio_memory::readable::{read_unrounded, readable};
use serde::Deserialize;
use serde_json::Value;

use crate::error::ModelErrorKind;
use crate::model::Usage;

/// Maximum length, in characters, of a program's own words about a failure.
const PROBLEM_CHARS: usize = 400;

/// The output format of an agent program, or the protocol that it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentForm {
    /// Its answer, as text.
    #[default]
    Text,
    /// The output of `claude -p` with `--output-format json` or `stream-json`.
    Claude,
    /// The output of `codex exec --json`.
    Codex,
    /// The output of `gemini` with `--output-format json` or `stream-json`.
    Gemini,
    /// The output of `opencode run --format json`.
    Opencode,
    /// A conversation by the Agent Client Protocol.
    Acp,
    /// An agent on another machine, reached by the Agent2Agent protocol.
    A2a,
    /// A tool that runs may call, for example of an MCP server: the task is an argument of its call.
    Tool,
}

/// What was extracted from an output.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ParsedOutput {
    /// The answer.
    pub(super) text: Option<String>,
    /// What the program reports of whole steps, or of all that it did.
    reported: Option<Usage>,
    /// What it says of single calls of its model, by the id of the reply, each the last time that it says so.
    calls: BTreeMap<String, Usage>,
    /// Why there is no answer, in the words of the program.
    pub(super) problem: Option<String>,
    /// Whether an error code of the program says that nobody is logged in.
    pub(super) is_unauthorised: bool,
}

impl AgentForm {
    /// The name in the settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Acp => "acp",
            Self::A2a => "a2a",
            Self::Tool => "tool",
        }
    }

    /// Parses the complete output of a program.
    pub(super) fn read(self, output: &[u8]) -> ParsedOutput {
        let text = String::from_utf8_lossy(output);
        if self == Self::Text {
            let text = text.trim();
            return ParsedOutput {
                text: (!text.is_empty()).then(|| text.to_owned()),
                ..ParsedOutput::default()
            };
        }
        let mut heard = ParsedOutput::default();
        for event in events_in(&text) {
            match self {
                Self::Text | Self::Acp | Self::A2a | Self::Tool => {}
                Self::Claude => heard.claude(&event),
                Self::Codex => heard.codex(&event),
                Self::Gemini => heard.gemini(&event),
                Self::Opencode => heard.opencode(&event),
            }
        }
        heard
    }

    /// The kind of a failure: by codes, never by words (E9.4).
    pub(super) fn kind_of(self, exit_code: i32, is_unauthorised: bool) -> ModelErrorKind {
        match (self, exit_code) {
            _ if is_unauthorised => ModelErrorKind::Unauthorised,
            (Self::Gemini, 41) => ModelErrorKind::Unauthorised,
            (Self::Gemini, 42 | 52) => ModelErrorKind::Invalid,
            _ => ModelErrorKind::Failed,
        }
    }
}

/// The objects of an output: one per line, one over several lines, or a list of them. Everything else is skipped.
fn events_in(text: &str) -> Vec<Value> {
    let each = |value| match value {
        Value::Array(values) => values,
        value => vec![value],
    };
    if let Ok(document) = read_unrounded::<Value>(text.trim().as_bytes()) {
        return each(document);
    }
    let lines = text
        .lines()
        .filter_map(|line| read_unrounded::<Value>(line.as_bytes()).ok());
    let events: Vec<Value> = lines.flat_map(each).filter(Value::is_object).collect();
    if !events.is_empty() {
        return events;
    }
    // A warning may precede an object over several lines.
    let start = text.find("\n{").map_or(0, |at| at + 1);
    let rest = readable(&text.as_bytes()[start..]);
    let mut values = serde_json::Deserializer::from_slice(&rest).into_iter::<Value>();
    values.next().and_then(Result::ok).into_iter().collect()
}

impl ParsedOutput {
    /// What was used up, as far as the program reported it. One that was ended had no time to report the whole: then it
    /// is what it said of its model's calls, which is too little rather than nothing.
    pub(super) fn usage(&self) -> Option<Usage> {
        let calls = || self.calls.values().copied().reduce(sum);
        self.reported.or_else(calls)
    }

    fn claude(&mut self, event: &Value) {
        if event["type"] == "assistant"
            && let Some(reply) = text_at(event, "/message/id")
            && let Some(usage) = plausible(claude_usage(&event["message"]["usage"]))
        {
            self.calls.insert(reply, usage);
        }
        if event["type"] != "result" {
            return;
        }
        let result = text_at(event, "/result");
        if event["is_error"] == true || result.is_none() {
            self.fail(result.or_else(|| text_at(event, "/subtype")));
        } else {
            self.text = result;
        }
        self.add(Usage {
            micro_usd: micro_usd(event, "/total_cost_usd"),
            ..claude_usage(&event["usage"])
        });
    }

    fn codex(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("item.completed") if event.pointer("/item/type").is_some_and(|kind| kind == "agent_message") => {
                self.text = text_at(event, "/item/text").or(self.text.take());
            }
            Some("turn.completed") => {
                let usage = &event["usage"];
                self.add(Usage {
                    tokens_in: count(usage, "/input_tokens"),
                    tokens_cached: count(usage, "/cached_input_tokens"),
                    tokens_out: count(usage, "/output_tokens"),
                    tokens_reasoning: count(usage, "/reasoning_output_tokens"),
                    ..Usage::default()
                });
                // The program recovered from an earlier error.
                self.problem = None;
            }
            Some("turn.failed") => self.fail(text_at(event, "/error/message")),
            Some("error") => self.fail(text_at(event, "/message")),
            _ => {}
        }
    }

    fn gemini(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("message") if event["role"] == "assistant" => {
                let Some(content) = event["content"].as_str() else {
                    return;
                };
                match &mut self.text {
                    Some(text) if event["delta"] == true => text.push_str(content),
                    text => *text = Some(content.to_owned()),
                }
            }
            // What it said before a tool call is not its answer.
            Some("tool_use") => self.text = None,
            Some("result") => {
                let stats = &event["stats"];
                self.add(Usage {
                    tokens_in: count(stats, "/input_tokens"),
                    tokens_cached: count(stats, "/cached"),
                    tokens_out: count(stats, "/output_tokens"),
                    ..Usage::default()
                });
                if event["status"] == "error" {
                    self.fail(text_at(event, "/error/message"));
                } else {
                    self.problem = None;
                }
            }
            Some("error") => self.fail(text_at(event, "/message")),
            Some(_) => {}
            // The whole output is one object.
            None => {
                self.text = text_at(event, "/response").or(self.text.take());
                if !event["error"].is_null() {
                    self.fail(text_at(event, "/error/message"));
                }
                let models = event.pointer("/stats/models").and_then(Value::as_object);
                for model in models.into_iter().flatten().map(|(_, model)| model) {
                    let reasoning_tokens = count(model, "/tokens/thoughts");
                    self.add(Usage {
                        tokens_in: count(model, "/tokens/prompt"),
                        tokens_cached: count(model, "/tokens/cached"),
                        tokens_out: count(model, "/tokens/candidates") + reasoning_tokens,
                        tokens_reasoning: reasoning_tokens,
                        ..Usage::default()
                    });
                }
            }
        }
    }

    fn opencode(&mut self, event: &Value) {
        let part = &event["part"];
        match event["type"].as_str() {
            // What it said before it used a tool is not its answer.
            Some("step_start") => self.text = None,
            Some("text") => {
                if let Some(more) = part["text"].as_str() {
                    let text = self.text.get_or_insert_default();
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(more);
                }
            }
            Some("step_finish") => {
                let (cached, written) = (count(part, "/tokens/cache/read"), count(part, "/tokens/cache/write"));
                let reasoning_tokens = count(part, "/tokens/reasoning");
                self.add(Usage {
                    tokens_in: count(part, "/tokens/input") + cached + written,
                    tokens_cached: cached,
                    tokens_cache_written: written,
                    tokens_out: count(part, "/tokens/output") + reasoning_tokens,
                    tokens_reasoning: reasoning_tokens,
                    micro_usd: micro_usd(part, "/cost"),
                });
            }
            Some("error") => {
                self.is_unauthorised |= event
                    .pointer("/error/name")
                    .is_some_and(|name| name == "ProviderAuthError");
                self.fail(text_at(event, "/error/data/message").or_else(|| text_at(event, "/error/name")));
            }
            _ => {}
        }
    }

    fn fail(&mut self, message: Option<String>) {
        let message = message.unwrap_or_else(|| "it did not say why".to_owned());
        self.problem = Some(format!("it failed: {}", cut(&message, PROBLEM_CHARS)));
    }

    /// Adds the usage of one step.
    fn add(&mut self, more: Usage) {
        if let Some(more) = plausible(more) {
            self.reported = Some(self.reported.map_or(more, |before| sum(before, more)));
        }
    }
}

/// The usage unless it says nothing: a step that reports nothing did not cost nothing; a step may report only money.
fn plausible(usage: Usage) -> Option<Usage> {
    let is_report = usage.tokens_in + usage.tokens_out > 0 || usage.micro_usd.unwrap_or(0) > 0;
    is_report.then_some(usage)
}

fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        tokens_in: one.tokens_in + other.tokens_in,
        tokens_cached: one.tokens_cached + other.tokens_cached,
        tokens_cache_written: one.tokens_cache_written + other.tokens_cache_written,
        tokens_out: one.tokens_out + other.tokens_out,
        tokens_reasoning: one.tokens_reasoning + other.tokens_reasoning,
        micro_usd: match (one.micro_usd, other.micro_usd) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0) + other.unwrap_or(0)),
        },
    }
}

fn claude_usage(usage: &Value) -> Usage {
    let (cached, written) = (
        count(usage, "/cache_read_input_tokens"),
        count(usage, "/cache_creation_input_tokens"),
    );
    Usage {
        tokens_in: count(usage, "/input_tokens") + cached + written,
        tokens_cached: cached,
        tokens_cache_written: written,
        tokens_out: count(usage, "/output_tokens"),
        ..Usage::default()
    }
}

fn text_at(value: &Value, pointer: &str) -> Option<String> {
    let text = value.pointer(pointer)?.as_str()?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}

/// A number of tokens. A number that is too large to be true counts as 0.
fn count(value: &Value, pointer: &str) -> u64 {
    let tokens = value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    if tokens > u64::from(u32::MAX) { 0 } else { tokens }
}

/// An amount in dollars, converted to millionths.
fn micro_usd(value: &Value, pointer: &str) -> Option<u64> {
    micro_usd_of(value.pointer(pointer)?.as_f64()?)
}

/// Converts dollars to millionths.
pub(super) fn micro_usd_of(usd: f64) -> Option<u64> {
    let micro = (usd * 1_000_000.0).ceil();
    if !(0.0..=1e12).contains(&micro) {
        return None;
    }
    // A whole number within the range that was just checked.
    format!("{micro:.0}").parse().ok()
}
