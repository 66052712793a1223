//! Cues: which requests they match, and the answers.

use std::fmt;
use std::time::Duration;

use folio_memory::excerpt::cut;
use serde_json::Value;

use crate::error::ModelErrorKind;
use crate::model::{Request, Role, StopCause, ToolCall, Usage};

/// Which requests a cue matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct When {
    pub(super) role: Option<Role>,
    pub(super) contains: Vec<String>,
}

impl When {
    /// Matches any request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches a request in this role.
    #[must_use]
    pub fn role(role: Role) -> Self {
        Self {
            role: Some(role),
            contains: Vec::new(),
        }
    }

    /// Matches a request whose messages contain each of `parts`.
    #[must_use]
    pub fn contains_all<T: Into<String>>(parts: impl IntoIterator<Item = T>) -> Self {
        Self {
            role: None,
            contains: parts.into_iter().map(Into::into).collect(),
        }
    }

    /// Also requires that one of the messages contains `part`: in its text, or in the arguments of a call.
    #[must_use]
    pub fn contains(mut self, part: impl Into<String>) -> Self {
        self.contains.push(part.into());
        self
    }

    /// Answers with a text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Cue {
        self.answers(Answer::Reply {
            text: text.into(),
            tool_calls: Vec::new(),
        })
    }

    /// Answers with a JSON value, as text.
    #[must_use]
    pub fn json(self, value: &Value) -> Cue {
        self.text(value.to_string())
    }

    /// Answers with tool calls: names and arguments. Their ids are `call_1`, `call_2` and so on.
    #[must_use]
    pub fn calls<T: Into<String>>(self, calls: impl IntoIterator<Item = (T, Value)>) -> Cue {
        let numbered = calls.into_iter().zip(1_usize..);
        let tool_calls = numbered.map(|((tool, args), number)| ToolCall {
            id: format!("call_{number}"),
            tool: tool.into(),
            args,
        });
        let tool_calls = tool_calls.collect();
        self.answers(Answer::Reply {
            text: String::new(),
            tool_calls,
        })
    }

    /// Fails with an error of this kind.
    #[must_use]
    pub fn error(self, kind: ModelErrorKind) -> Cue {
        self.answers(Answer::Error {
            kind,
            message: "its script says so".to_owned(),
            retry_after: None,
        })
    }

    pub(super) fn answers(self, answer: Answer) -> Cue {
        let stop = match &answer {
            Answer::Reply { tool_calls, .. } if !tool_calls.is_empty() => StopCause::ToolCalls,
            _ => StopCause::Done,
        };
        Cue {
            when: self,
            answer,
            stop,
            usage: None,
            latency: Duration::ZERO,
            uses: Uses::Times(1),
        }
    }

    pub(super) fn matches(&self, request: &Request) -> bool {
        let has = |part: &str| {
            request.messages.iter().any(|message| {
                let in_calls = || message.tool_calls.iter().any(|call| value_contains(part, &call.args));
                message.text.contains(part) || in_calls()
            })
        };
        self.role.is_none_or(|role| role == request.role) && self.contains.iter().all(|part| has(part))
    }
}

/// Whether a value contains `part`: in its JSON form, or in one of its strings, with quotes and line breaks unescaped.
fn value_contains(part: &str, value: &Value) -> bool {
    fn in_texts(part: &str, value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains(part),
            Value::Array(items) => items.iter().any(|item| in_texts(part, item)),
            Value::Object(fields) => fields.values().any(|field| in_texts(part, field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    in_texts(part, value) || value.to_string().contains(part)
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Some(role) => write!(f, "{role}")?,
            None => f.write_str("any role")?,
        }
        for (at, part) in self.contains.iter().enumerate() {
            let part = cut(part, 80);
            write!(f, "{} {part:?}", if at == 0 { ", with" } else { " and" })?;
        }
        Ok(())
    }
}

/// The answer of a cue.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A text, calls of tools, or both.
    Reply {
        /// The text.
        text: String,
        /// The calls.
        tool_calls: Vec<ToolCall>,
    },
    /// An error.
    Error {
        /// What the caller can do about it.
        kind: ModelErrorKind,
        /// The reason, as text.
        message: String,
        /// How long the model wants no requests.
        retry_after: Option<Duration>,
    },
}

/// How often a cue answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uses {
    /// Exactly this many times.
    Times(u32),
    /// Any number of times, including never.
    Always,
}

/// One cue of a script: which requests it matches, and the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Cue {
    pub(super) when: When,
    pub(super) answer: Answer,
    pub(super) stop: StopCause,
    pub(super) usage: Option<Usage>,
    pub(super) latency: Duration,
    pub(super) uses: Uses,
}

impl Cue {
    /// Adds a text to the calls.
    #[must_use]
    pub fn saying(mut self, answer_text: impl Into<String>) -> Self {
        if let Answer::Reply { text, .. } = &mut self.answer {
            *text = answer_text.into();
        }
        self
    }

    /// Answers `times` times; with 0 it never answers.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.uses = Uses::Times(times);
        self
    }

    /// Answers any number of times, including never.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.uses = Uses::Always;
        self
    }

    /// Sets the reported usage. Without it, no usage is reported.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Delays the answer. Under a paused tokio clock this takes no real time.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Sets the stop cause, for answers that are cut off or refused. Otherwise it is done, or requests its calls.
    #[must_use]
    pub fn stop(mut self, stop: StopCause) -> Self {
        self.stop = stop;
        self
    }

    /// Sets how long the model wants no requests. Only for errors; ignored otherwise.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        if let Answer::Error { retry_after, .. } = &mut self.answer {
            *retry_after = Some(wait);
        }
        self
    }
}
