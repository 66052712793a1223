//! What must hold for a result to count.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// One thing that must hold for the result of a task or of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Criterion {
    /// Its id, unique among the criteria of its plan or task: `c1`, `c2`, … by position unless written; `c2.1`, `c2.2`,
    /// … if its step is there to meet `c2` (E9.6).
    pub id: String,
    /// What must hold, in words (a template).
    pub text: String,
    /// How the criterion is checked.
    pub check: Check,
    /// Whether the result fails if it is not met. If `false`, the finding is only reported.
    pub required: bool,
}

/// How a criterion is checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// A model reads the result and decides.
    Judge,
    /// A program is run and must end with a given exit code.
    Command {
        /// The program and its arguments (templates).
        argv: Vec<String>,
        /// The exit code that means success.
        exit: i32,
    },
    /// A file must exist.
    FileExists {
        /// Its path (a template).
        path: String,
    },
    /// Some part of a text must match a regular expression.
    Regex {
        /// The expression, in the syntax of the `regex` crate.
        pattern: String,
        /// A reference to the text; without it, the text output of the result, or its notes.
        of: Option<String>,
    },
    /// A value must satisfy a JSON schema.
    JsonSchema {
        /// The schema.
        schema: Value,
        /// A reference to the value; without it, the output of the result.
        of: Option<String>,
    },
    /// The result must not be empty.
    ResultNonempty,
    /// A person decides.
    Human,
}

/// The id out of `ids` that `name` means: the equal one, or else, with `c1` for `c2.1`, the one with that number within
/// its step (E9.6).
pub(crate) fn resolve_criterion_id<'c>(name: &str, ids: impl Iterator<Item = &'c str> + Clone) -> Option<&'c str> {
    let number = name.strip_prefix('c');
    let by_number = |id: &&str| id.rsplit_once('.').is_some_and(|(_, last)| Some(last) == number);
    let is_exact = |id: &&str| *id == name;
    ids.clone().find(is_exact).or_else(|| ids.clone().find(by_number))
}

impl Check {
    /// Whether the engine can check it without a model and without a person.
    pub fn is_machine(&self) -> bool {
        !matches!(self, Self::Judge | Self::Human)
    }

    /// What the check demands, in words; used as the text of a criterion that has none.
    pub fn describe(&self) -> String {
        match self {
            Self::Judge => "a judge accepts the result".to_owned(),
            Self::Command { argv, exit } => {
                format!("`{}` ends with exit code {exit}", argv.join(" "))
            }
            Self::FileExists { path } => format!("the file {path} exists"),
            Self::Regex { pattern, of: None } => format!("the result matches `{pattern}`"),
            Self::Regex { pattern, of: Some(of) } => format!("{of} matches `{pattern}`"),
            Self::JsonSchema { of: None, .. } => "the output satisfies its schema".to_owned(),
            Self::JsonSchema { of: Some(of), .. } => format!("{of} satisfies its schema"),
            Self::ResultNonempty => "the result is not empty".to_owned(),
            Self::Human => "a person accepts the result".to_owned(),
        }
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Command<'a> {
            argv: &'a [String],
            exit: i32,
        }
        #[derive(Serialize)]
        struct Regex<'a> {
            pattern: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            of: Option<&'a str>,
        }
        #[derive(Serialize)]
        struct JsonSchema<'a> {
            schema: &'a Value,
            #[serde(skip_serializing_if = "Option::is_none")]
            of: Option<&'a str>,
        }
        match self {
            Self::Judge => return serializer.serialize_str("judge"),
            Self::ResultNonempty => return serializer.serialize_str("result_nonempty"),
            Self::Human => return serializer.serialize_str("human"),
            Self::Command { .. } | Self::FileExists { .. } | Self::Regex { .. } | Self::JsonSchema { .. } => {}
        }
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Self::Judge | Self::ResultNonempty | Self::Human => {}
            Self::Command { argv, exit } => {
                map.serialize_entry("command", &Command { argv, exit: *exit })?;
            }
            Self::FileExists { path } => map.serialize_entry("file_exists", path)?,
            Self::Regex { pattern, of } => map.serialize_entry(
                "regex",
                &Regex {
                    pattern,
                    of: of.as_deref(),
                },
            )?,
            Self::JsonSchema { schema, of } => {
                map.serialize_entry(
                    "json_schema",
                    &JsonSchema {
                        schema,
                        of: of.as_deref(),
                    },
                )?;
            }
        }
        map.end()
    }
}
