//! What a program is told in its restored session if it was working when its driver died (E9.17).

use serde_json::{Deserializer, Value};

/// What is known about an earlier prompt in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlierPrompt {
    /// The session has no prompt: the driver died before sending it.
    Untold,
    /// The task was sent, and is not answered yet.
    Told,
    /// The session does not show it.
    Unseen,
}

const UNDELIVERED_PREFIX: &str =
    "You may have begun with this before and been interrupted. Look at what is there before you change anything.\n\n";
const CONTINUE_PROMPT: &str = "You were interrupted while you worked on this task. Go on from where you were: look at what is done already, do nothing twice, and \
                    end with the one JSON object that the task asks for.";
const MAYBE_DELIVERED_PREFIX: &str = "You may have been interrupted while you worked on the task below in this session. If so, go on from where you were: look at what is done \
                      already, and do nothing twice. If you had answered, answer the same again.\n\n";

/// The prompt to send now for `task`.
pub(super) fn prompt(before: EarlierPrompt, task: &str) -> String {
    match before {
        EarlierPrompt::Untold => format!("{UNDELIVERED_PREFIX}{task}"),
        EarlierPrompt::Told => CONTINUE_PROMPT.to_owned(),
        EarlierPrompt::Unseen => format!("{MAYBE_DELIVERED_PREFIX}{task}"),
    }
}

/// Whether `text`, its last message, contains a JSON object with all of `required`: an answer that was cut off does
/// not.
pub(super) fn is_answer(text: &str, required: &[String]) -> bool {
    text.match_indices('{').any(|(at, _)| {
        let first = Deserializer::from_str(&text[at..]).into_iter::<Value>().next();
        let Some(Ok(Value::Object(object))) = first else {
            return false;
        };
        required.iter().all(|name| object.contains_key(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_object_with_required_fields_is_an_answer_e9_17() {
        let required = ["notes".to_owned()];
        let is_answer = |text: &str| is_answer(text, &required);
        assert!(is_answer(
            "Done.\n```json\n{\"status\": \"ok\", \"notes\": \"It ticks.\"}\n```"
        ));
        assert!(is_answer("a { b\n{\"notes\": \"{\"}"), "whatever stands before it");
        for text in ["", "Done.", "{\"status\": \"ok\"}", "{\"notes\": \"It ti"] {
            assert!(!is_answer(text), "{text}");
        }
    }
}
