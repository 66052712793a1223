//! The answer to a call: a text for the model and the same as JSON for programs, together within a limit of tokens.

use std::borrow::Cow;

use folio::memory::scratchbook::tools::ANSWER_TOKENS;
use folio::memory::tokens::{Counter, Tokens, Vocabulary};
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, InputRequiredResult};
use serde_json::{Map, Value, json};

use crate::http::problem::Problem;

/// Fields of the structured part that may be left out, in this order: first those that the text shows as well, then
/// those that a writer may have made long, and at last those of a failure.
const OMITTABLE_FIELDS: [&str; 16] = [
    "view",
    "body",
    "content",
    "items",
    "goal",
    "result",
    "approvals",
    "questions",
    "claimed_source",
    "metadata",
    "context",
    "props",
    "tags",
    "errors",
    "detail",
    "hints",
];
/// Fields that hold an entry (what was claimed, and what is there instead of an earlier version), whose fields may be
/// left out in the same way.
const ENTRY_FIELDS: [&str; 2] = ["claimed", "current"];
/// The most tokens that a failure shows of its detail, which may repeat what it was given.
const DETAIL_TOKENS: u32 = 1_200;
/// A field with no more tokens than this is not worth leaving out.
const MIN_OMITTED_TOKENS: u32 = 20;
/// An upper bound for the tokens that any present model counts.
const UPPER_BOUND_COUNTER: Counter = Counter::Scaled(Vocabulary::O200k, 120);
/// The most tokens of a text that the answer to a write repeats: its writer has it.
const ECHO_TOKENS: u32 = 60;
/// The field that tells programs which fields were left out.
const LEFT_OUT: &str = "left_out";

/// The reply to a call of a tool.
#[derive(Debug)]
pub(super) enum Reply {
    /// An answer.
    Answer(Answer),
    /// A task that the call has begun.
    Begun(Box<CreateTaskResult>),
    /// Forms for a person: the call continues when they are answered.
    Asks(Box<InputRequiredResult>),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl Reply {
    /// Converts the reply into the form in which it is sent.
    pub(super) fn into_response(self, tokens: &Counter) -> CallToolResponse {
        match self {
            Self::Answer(answer) => answer.into_result(tokens).into(),
            Self::Begun(task) => CallToolResponse::Task(*task),
            Self::Asks(request) => CallToolResponse::InputRequired(*request),
        }
    }
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// For the model: compact, with handles.
    pub(super) text: String,
    /// For programs: the same as JSON.
    pub(super) structured: Value,
    /// The most tokens that both may have together.
    pub(super) limit: u32,
}

impl Answer {
    /// Creates an answer within the usual limit.
    pub(super) fn new(text: String, structured: Value) -> Self {
        Self {
            text,
            structured,
            limit: ANSWER_TOKENS,
        }
    }

    /// Sets the items: `full`, in the shape that programs get on every surface, if that stays within the limit,
    /// otherwise `brief`, marked as such.
    pub(super) fn put_items(&mut self, full: Vec<Value>, brief: Vec<Value>, tokens: &Counter) {
        self.structured["items"] = Value::Array(full);
        if self.excess(tokens) > 0 {
            self.structured["items"] = Value::Array(brief);
            self.structured["brief"] = true.into();
        }
    }

    /// Returns how many tokens are left for more text.
    pub(super) fn room(&self, tokens: &Counter) -> u32 {
        let used = tokens
            .count(&self.text)
            .saturating_add(tokens.count(&self.structured.to_string()));
        self.limit.saturating_sub(used)
    }

    /// Returns by how many tokens the answer exceeds its limit. For a model whose tokens can only be estimated, an
    /// answer that the estimate finds too long is counted by an upper bound instead, since the estimate counts names
    /// and numbers at about twice their tokens.
    pub(super) fn excess(&self, tokens: &Counter) -> u32 {
        let structured = self.structured.to_string();
        let overrun = |tokens: &Counter| {
            let total = tokens.count(&self.text).saturating_add(tokens.count(&structured));
            total.saturating_sub(self.limit)
        };
        match (overrun(tokens), tokens) {
            (1.., Counter::Estimated(_)) => overrun(&UPPER_BOUND_COUNTER),
            (excess, _) => excess,
        }
    }

    /// Returns the answer to a write, without the long texts that the call gave, and with their names.
    pub(super) fn without_echo(mut self, tokens: &Counter) -> Self {
        let Value::Object(fields) = &mut self.structured else {
            return self;
        };
        let is_long = |value: &Value| tokens.count(&value.to_string()) > ECHO_TOKENS;
        let long = ["body", "content"]
            .into_iter()
            .filter(|field| fields.get(*field).is_some_and(is_long));
        let long: Vec<_> = long.collect();
        for field in &long {
            fields.remove(*field);
        }
        if !long.is_empty() {
            fields.insert(LEFT_OUT.to_owned(), json!(long));
        }
        self
    }

    /// Converts the answer into the form in which it is sent. If it is too long, the structured part leaves out what
    /// the text says as well, and names those fields.
    pub(super) fn into_result(mut self, tokens: &Counter) -> CallToolResult {
        let earlier = self.structured.get(LEFT_OUT).and_then(Value::as_array);
        let mut left_out = earlier.cloned().unwrap_or_default();
        for field in OMITTABLE_FIELDS {
            if self.excess(tokens) == 0 {
                break;
            }
            let Value::Object(fields) = &mut self.structured else {
                break;
            };
            let mut has_gone = remove_if_long(fields, field, tokens);
            for entry in ENTRY_FIELDS {
                let inner = fields.get_mut(entry).and_then(Value::as_object_mut);
                has_gone |= inner.is_some_and(|fields| remove_if_long(fields, field, tokens));
            }
            if has_gone {
                left_out.push(field.into());
                fields.insert(LEFT_OUT.to_owned(), json!(left_out));
            }
        }
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(self.structured);
        result
    }
}

/// Removes `field` if it is long, and returns whether it did.
fn remove_if_long(fields: &mut Map<String, Value>, field: &str, tokens: &Counter) -> bool {
    let is_large = |value: &Value| tokens.count(&value.to_string()) > MIN_OMITTED_TOKENS;
    fields.get(field).is_some_and(is_large) && fields.remove(field).is_some()
}

/// Returns the beginning of `text` that costs at most `room` tokens: whole characters, and whole lines where that is
/// not much less. It has at least one character, so that reading on part by part comes to an end.
pub(super) fn truncate_to_tokens<'t>(text: &'t str, room: u32, tokens: &dyn Tokens) -> &'t str {
    // Few texts have more than eight bytes a token.
    let max_bytes = usize::try_from(room).unwrap_or(usize::MAX).saturating_mul(8);
    let (mut fits, mut end) = (0, text.floor_char_boundary(max_bytes));
    if tokens.count(&text[..end]) <= room {
        fits = end;
    }
    // Finds the longest beginning that fits, to within a hundredth.
    while fits < end && end - fits > end / 100 {
        let middle = text.floor_char_boundary(fits + (end - fits) / 2);
        if middle <= fits {
            break;
        }
        if tokens.count(&text[..middle]) <= room {
            fits = middle;
        } else {
            end = middle;
        }
    }
    if fits == text.len() {
        return text;
    }
    let line = text[..fits].rfind('\n').map(|at| at + 1).filter(|at| *at > fits / 2);
    let first = text.chars().next().map_or(0, char::len_utf8);
    &text[..line.unwrap_or(fits).max(first)]
}

/// Returns `text`, or its beginning within `room` tokens and an ellipsis.
pub(super) fn excerpt<'t>(text: &'t str, room: u32, tokens: &dyn Tokens) -> Cow<'t, str> {
    match truncate_to_tokens(text, room, tokens) {
        whole if whole.len() == text.len() => text.into(),
        beginning => format!("{}…", beginning.trim_end()).into(),
    }
}

/// Returns a failure as content that the model reads: what went wrong and what to do, so that it can try again. It is
/// within the same limit as an answer.
pub(super) fn failed(problem: Problem, tokens: &Counter) -> CallToolResult {
    let detail = excerpt(problem.detail(), DETAIL_TOKENS, tokens).into_owned();
    let problem = problem.with_detail(detail);
    let mut result = Answer::new(problem.text(), json!(problem)).into_result(tokens);
    result.is_error = Some(true);
    result
}
