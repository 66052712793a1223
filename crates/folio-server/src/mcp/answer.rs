//! What a call comes to: a text for the model, the same as JSON for programs, both together within a limit of tokens.

use folio::memory::scratchbook::tools::ANSWER_TOKENS;
use folio::memory::tokens::{Counter, Tokens, Vocabulary};
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, InputRequiredResult};
use serde_json::{Map, Value, json};

use crate::http::problem::Problem;

/// Fields of what is structured that the text says as well, and behind them those into which a writer may have put much, in the order in
/// which they go.
const REPEATED: [&str; 13] = [
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
];
/// Where what is claimed stands, of which the same holds.
const WITHIN: &str = "claimed";
/// Tokens of a field that nothing is gained by leaving out.
const MUCH: u32 = 20;
/// As many tokens as any model of today makes of an answer.
const AS_MANY: Counter = Counter::Scaled(Vocabulary::O200k, 120);
/// Says which fields went, for programs.
const LEFT_OUT: &str = "left_out";

/// What a call of a tool comes to.
#[derive(Debug)]
pub(super) enum Reply {
    /// It is answered.
    Answer(Answer),
    /// It goes on as a task.
    Begun(Box<CreateTaskResult>),
    /// It goes on when a person has answered.
    Asks(Box<InputRequiredResult>),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl Reply {
    /// The reply as it is sent.
    pub(super) fn sent(self, tokens: &Counter) -> CallToolResponse {
        match self {
            Self::Answer(answer) => answer.sent(tokens).into(),
            Self::Begun(task) => CallToolResponse::Task(*task),
            Self::Asks(forms) => CallToolResponse::InputRequired(*forms),
        }
    }
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// For the model: compact, with handles.
    pub(super) text: String,
    /// For programs: the same as JSON.
    pub(super) structured: Value,
    /// Tokens that both may have together.
    pub(super) limit: u32,
}

impl Answer {
    /// An answer within the usual limit.
    pub(super) fn new(text: String, structured: Value) -> Self {
        Self {
            text,
            structured,
            limit: ANSWER_TOKENS,
        }
    }

    /// Its items: `whole`, as programs get them on every surface, where both are within the limit; `brief`, and that they are, where not.
    pub(super) fn put_items(&mut self, whole: Vec<Value>, brief: Vec<Value>, tokens: &Counter) {
        self.structured["items"] = Value::Array(whole);
        if self.excess(tokens) > 0 {
            self.structured["items"] = Value::Array(brief);
            self.structured["brief"] = true.into();
        }
    }

    /// How many tokens it has more than it may have. Where nobody knows whose tokens they are, the estimate, which makes twice as many of
    /// names and numbers, has the last word only in what it finds short enough.
    pub(super) fn excess(&self, tokens: &Counter) -> u32 {
        let structured = self.structured.to_string();
        let beyond = |tokens: &Counter| {
            let both = tokens.count(&self.text).saturating_add(tokens.count(&structured));
            both.saturating_sub(self.limit)
        };
        match (beyond(tokens), tokens) {
            (1.., Counter::Estimated(_)) => beyond(&AS_MANY),
            (excess, _) => excess,
        }
    }

    /// The answer as it is sent. Where both are too much, what is structured leaves out what the text says as well, and names it.
    pub(super) fn sent(mut self, tokens: &Counter) -> CallToolResult {
        let mut left_out = Vec::new();
        for field in REPEATED {
            if self.excess(tokens) == 0 {
                break;
            }
            let Value::Object(fields) = &mut self.structured else {
                break;
            };
            let has_gone = take_much(fields, field, tokens);
            let within = fields.get_mut(WITHIN).and_then(Value::as_object_mut);
            if has_gone || within.is_some_and(|fields| take_much(fields, field, tokens)) {
                left_out.push(field);
                fields.insert(LEFT_OUT.to_owned(), json!(left_out));
            }
        }
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(self.structured);
        result
    }
}

/// Takes away `field`, if there is much in it.
fn take_much(fields: &mut Map<String, Value>, field: &str, tokens: &Counter) -> bool {
    let is_much = |value: &Value| tokens.count(&value.to_string()) > MUCH;
    fields.get(field).is_some_and(is_much) && fields.remove(field).is_some()
}

/// The beginning of `text` that costs at most `room` tokens: whole characters, whole lines where that is not much less, and
/// something of it in any case, so that whoever reads on comes to an end.
pub(super) fn beginning<'t>(text: &'t str, room: u32, tokens: &dyn Tokens) -> &'t str {
    // Few texts have more than eight bytes a token.
    let most = usize::try_from(room).unwrap_or(usize::MAX).saturating_mul(8);
    let (mut fits, mut end) = (0, text.floor_char_boundary(most));
    if tokens.count(&text[..end]) <= room {
        fits = end;
    }
    // The longest that fits, to within a hundredth.
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

/// A failure as the model reads it: what went wrong and what to do, as content, so that it can try again.
pub(super) fn failed(problem: &Problem) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(problem.text())]);
    result.structured_content = Some(json!(problem));
    result
}
