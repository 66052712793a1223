//! What a call comes to: a text for the model, the same as JSON for programs, both together within a limit of tokens.

use folio::memory::scratchbook::tools::ANSWER_TOKENS;
use folio::memory::tokens::Tokens;
use folio::store::workspace::ScratchAnswer;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, InputRequiredResult};
use serde_json::{Value, json};

use crate::http::problem::Problem;

/// Fields of what is structured that the text says as well, in the order in which they go.
const REPEATED: [&str; 6] = ["view", "body", "content", "items", "goal", "result"];

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
    pub(super) fn sent(self, tokens: &dyn Tokens) -> CallToolResponse {
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

    /// The answer as it is sent. Where both are too much, what is structured leaves out what the text says as well.
    pub(super) fn sent(mut self, tokens: &dyn Tokens) -> CallToolResult {
        let room = self.limit.saturating_sub(tokens.count(&self.text));
        for field in REPEATED {
            if tokens.count(&self.structured.to_string()) <= room {
                break;
            }
            if let Value::Object(fields) = &mut self.structured {
                fields.remove(field);
            }
        }
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(self.structured);
        result
    }
}

impl From<ScratchAnswer> for Answer {
    fn from(answer: ScratchAnswer) -> Self {
        Self::new(answer.text, answer.structured)
    }
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
