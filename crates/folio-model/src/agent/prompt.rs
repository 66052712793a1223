//! The prompt of an agent program: a single text, since it has no conversation.

use std::fmt::Write as _;

use serde_json::Value;

use crate::model::{Request, Speaker};

/// All of `request` as one text, with the form of the answer at the end, where it is not forgotten.
#[must_use]
pub fn of(request: &Request) -> String {
    let mut text = String::new();
    for message in &request.messages {
        let heading = match message.speaker {
            Speaker::System | Speaker::User => "",
            Speaker::Assistant if message.text.is_empty() => "# What you asked\n",
            Speaker::Assistant => "# What you answered before\n",
            Speaker::Tool => "# What was answered\n",
        };
        // The only tool call of an agent is its question.
        let questions = message
            .tool_calls
            .iter()
            .filter_map(|call| call.args["question"].as_str());
        let lines = std::iter::once(message.text.trim_end()).chain(questions);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        let _ = write!(text, "{heading}{}\n\n", lines.join("\n"));
    }
    if let Some(schema) = &request.answer_schema {
        let _ = write!(
            text,
            "# Your answer\nThe last thing that you say is one JSON object, with nothing after it, that satisfies this JSON Schema:\n{schema}\n"
        );
    }
    text
}

/// The names of the fields that an answer to `request` must have.
pub(super) fn required_of(request: &Request) -> Vec<String> {
    let required = request.answer_schema.as_ref().and_then(|schema| schema.get("required"));
    let names = required.and_then(Value::as_array).into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}
