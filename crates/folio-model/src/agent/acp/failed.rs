//! Why a conversation failed, in words that the author of the settings understands: never those of the library, nor
//! JSON.

use agent_client_protocol::{Error, ErrorCode};
use folio_memory::excerpt::short_line;
use folio_process::printed;
use serde_json::Value;

use super::{PROBLEM_CHARS, Stage};
use crate::agent::answer::Failed;
use crate::error::ModelErrorKind;

/// The advice for failures before the program was given the task.
const COMMAND_HINT: &str = "`command` must start a program that speaks the Agent Client Protocol";

/// What is known about a program that has ended.
#[derive(Debug, Default)]
pub(super) struct EndedProgram {
    pub(super) exit_code: Option<i32>,
    /// The last line of its output that was not a message.
    pub(super) stray: Option<String>,
    /// The last line that it printed to standard error.
    pub(super) last_error: Option<String>,
}

impl EndedProgram {
    /// What it printed, to be appended to an error message.
    pub(super) fn output_suffix(&self) -> String {
        printed(self.stray.as_deref(), self.last_error.as_deref())
    }

    fn exit_code(&self) -> String {
        self.exit_code
            .map_or_else(String::new, |code| format!(" (exit code {code})"))
    }
}

/// The failure for exceeding a time limit, at `stage`.
pub(super) fn too_slow(stage: Stage, seconds: u64, gone: &EndedProgram) -> Failed {
    let last_output = gone.output_suffix();
    match stage {
        Stage::Beginning => {
            let message =
                format!("it was not ready for the task after {seconds} s and was ended{last_output}; {COMMAND_HINT}");
            (ModelErrorKind::Invalid, message)
        }
        Stage::Working => {
            let message = format!("it took longer than {seconds} s and was ended{last_output}");
            (ModelErrorKind::Unknown, message)
        }
    }
}

/// The failure if the conversation broke off at `stage` with `error`.
pub(super) fn conversation_failure(stage: Stage, error: &Error, is_lost: bool, gone: &EndedProgram) -> Failed {
    let (code, last_output) = (gone.exit_code(), gone.output_suffix());
    let message = match stage {
        Stage::Working => {
            return (
                ModelErrorKind::Unknown,
                format!("it ended before it was done{code}{last_output}"),
            );
        }
        Stage::Beginning if is_lost => {
            format!("it ended before it was told the task{code}{last_output}; {COMMAND_HINT}")
        }
        Stage::Beginning => match version_of(error) {
            Some(version) => {
                format!("it speaks version {version} of the Agent Client Protocol, and Folio speaks version 1")
            }
            None if is_unreadable(error) => {
                format!("its answers do not follow the Agent Client Protocol{last_output}; {COMMAND_HINT}")
            }
            None => format!("it refuses to begin: {}{last_output}", in_words(error)),
        },
    };
    (ModelErrorKind::Invalid, message)
}

/// The failure if it answered the task with an error, or with something that is not an answer.
pub(super) fn failed(error: &Error) -> Failed {
    let message = if is_unreadable(error) {
        "its answer to the task does not follow the Agent Client Protocol".to_owned()
    } else {
        format!("it failed: {}", in_words(error))
    };
    (ModelErrorKind::Failed, message)
}

pub(super) fn nobody_is_logged_in(error: &Error) -> Failed {
    let message = format!(
        "nobody is logged in: {}; log in with the program itself",
        in_words(error)
    );
    (ModelErrorKind::Unauthorised, message)
}

/// Whether the error comes from the library, which could not parse a message.
fn is_unreadable(error: &Error) -> bool {
    let is_of_version = text_of(error).is_some_and(|text| text.contains("ACP protocol version"));
    error.code == ErrorCode::PARSE_ERROR || is_of_version
}

/// The protocol version of the program, if it is another one. The library reports it only in a text.
fn version_of(error: &Error) -> Option<u64> {
    let rest = text_of(error)?.strip_prefix("unsupported ACP protocol version ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn text_of(error: &Error) -> Option<&str> {
    let data = error.data.as_ref()?;
    let keys = ["details", "message", "error", "reason"].iter();
    data.as_str()
        .or_else(|| keys.filter_map(|name| data.get(*name)).find_map(Value::as_str))
}

/// The program's own words, in one line of bounded length: its message, and its details if they are a text.
fn in_words(error: &Error) -> String {
    let detail = text_of(error).unwrap_or_default();
    let both = match error.message.trim() {
        "" if detail.is_empty() => return format!("error {} without a message", i32::from(error.code)),
        "" => detail.to_owned(),
        message if detail.is_empty() || message.contains(detail) => message.to_owned(),
        message => format!("{message}: {detail}"),
    };
    short_line(&both, PROBLEM_CHARS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn acp_error_text_is_one_line_without_json() {
        let of = |message: &str, data: Value| in_words(&Error::new(-32603, message).data(data));
        assert_eq!(
            of("Internal error", json!({"details": "boom\nagain", "n": [1]})),
            "Internal error: boom again"
        );
        assert_eq!(of("Internal error", json!({"stack": {"a": 1}})), "Internal error");
        assert_eq!(of("", json!("boom")), "boom");
        assert_eq!(of("", json!(null)), "error -32603 without a message");
        assert_eq!(of(&"x".repeat(1_000), json!(null)).chars().count(), PROBLEM_CHARS);
    }
}
