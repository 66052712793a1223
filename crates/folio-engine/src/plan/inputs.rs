//! The inputs that a run is started with.

use std::borrow::Cow;
use std::collections::BTreeMap;

use folio_memory::excerpt::cut;
use folio_memory::numbers::quote_oversized_numbers;
use serde_json::{Map, Value};

use super::nearest::{did_you_mean, listed};
use super::spanned::AS_A_TEXT;
use super::{InputKind, Plan, json};

/// What is wrong with one input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A required input was not given.
    #[error("the input `{name}` is missing: {description}")]
    Missing {
        /// The name of the input.
        name: String,
        /// What the input is for, or at least its type.
        description: String,
    },
    /// The plan has no such input.
    #[error("the plan has no input `{name}`; {hint}")]
    Unknown {
        /// The name as it was given.
        name: String,
        /// The names that the plan has.
        hint: String,
    },
    /// The value is of another type.
    #[error("the input `{name}` must be {expected}, not {given}")]
    WrongType {
        /// The name of the input.
        name: String,
        /// The type of the input.
        expected: &'static str,
        /// The value as it was given, cut off if it is long.
        given: String,
    },
    /// A path that names nothing: it would silently mean the folder that the run is started from, and let the run read
    /// that folder.
    #[error("the input `{name}` is empty; name a file or a folder, such as `.` for this folder")]
    Empty {
        /// The name of the input.
        name: String,
    },
    /// Reading the text would lose part of what it says.
    #[error("the input `{name}` would not keep what was written: {why}")]
    Unkept {
        /// The name of the input.
        name: String,
        /// What would be lost.
        why: String,
    },
}

impl InputKind {
    /// Whether `value` is of this kind.
    pub fn accepts(self, value: &Value) -> bool {
        match self {
            Self::String | Self::Path => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Object => value.is_object(),
        }
    }

    /// The kind with its article, for messages.
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::Path => "a path",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }

    /// Whether `value` is of this kind but names nothing.
    fn is_blank(self, value: &Value) -> bool {
        self == Self::Path && value.as_str().is_some_and(|path| path.trim().is_empty())
    }

    /// Reads a text, such as a command-line argument, as this kind; `None` if it is not of this kind.
    ///
    /// # Errors
    ///
    /// What would be lost: digits of a whole number, or a key that occurs twice.
    pub(super) fn read(self, text: &str) -> Result<Option<Value>, String> {
        let value = match self {
            Self::String | Self::Path => return Ok(Some(Value::String(text.to_owned()))),
            Self::Boolean => match text.trim() {
                "true" | "yes" | "on" | "1" => Value::Bool(true),
                "false" | "no" | "off" | "0" => Value::Bool(false),
                _ => return Ok(None),
            },
            Self::List if !text.trim_start().starts_with('[') => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                items.map(Value::from).collect()
            }
            Self::Integer | Self::Number | Self::List | Self::Object => match json::read(text.trim()) {
                Ok(reading) => match reading.errors.into_iter().next() {
                    Some(duplicate_error) => return Err(duplicate_error.message),
                    None => reading.root.to_json(),
                },
                Err(error) if matches!(quote_oversized_numbers(text.as_bytes()), Cow::Owned(_)) => {
                    return Err(match self {
                        // In quotes it would be no number.
                        Self::Integer | Self::Number => error.message.replace(AS_A_TEXT, ""),
                        _ => error.message,
                    });
                }
                Err(_) => return Ok(None),
            },
        };
        Ok(self.accepts(&value).then_some(value))
    }
}

/// Fills in defaults and converts `provided` to the types of the plan's inputs.
///
/// A text is read as the type of its input: `"5"` as an integer, `"a, b"` as a list, `"yes"` as a boolean.
///
/// # Errors
///
/// Every input that is missing, unknown, of another type, or a path that is empty, in the order of their names.
pub fn check_inputs(plan: &Plan, provided: &BTreeMap<String, Value>) -> Result<Map<String, Value>, Vec<InputError>> {
    let mut inputs = Map::new();
    let mut errors = Vec::new();
    for (name, spec) in &plan.inputs {
        let value = match (provided.get(name), &spec.default) {
            (Some(Value::String(text)), _) => match spec.kind.read(text) {
                Ok(parsed) => parsed,
                Err(why) => {
                    let name = name.clone();
                    errors.push(InputError::Unkept { name, why });
                    continue;
                }
            },
            (Some(value), _) if spec.kind.accepts(value) => Some(value.clone()),
            (Some(_), _) => None,
            (None, Some(default)) => Some(default.clone()),
            (None, None) => {
                let about = if spec.description.is_empty() {
                    spec.kind.described()
                } else {
                    &spec.description
                };
                errors.push(InputError::Missing {
                    name: name.clone(),
                    description: about.to_owned(),
                });
                continue;
            }
        };
        match value {
            Some(value) if spec.kind.is_blank(&value) => errors.push(InputError::Empty { name: name.clone() }),
            Some(mut value) => {
                value.sort_all_objects();
                inputs.insert(name.clone(), value);
            }
            None => errors.push(InputError::WrongType {
                name: name.clone(),
                expected: spec.kind.described(),
                given: provided.get(name).map(shown).unwrap_or_default(),
            }),
        }
    }
    for name in provided.keys().filter(|name| !plan.inputs.contains_key(*name)) {
        let names = || plan.inputs.keys().map(String::as_str);
        let hint = did_you_mean(name, names()).unwrap_or_else(|| match plan.inputs.len() {
            0 => "it has none".to_owned(),
            _ => format!("it has {}", listed(names())),
        });
        errors.push(InputError::Unknown {
            name: name.clone(),
            hint,
        });
    }
    if errors.is_empty() { Ok(inputs) } else { Err(errors) }
}

fn shown(value: &Value) -> String {
    const CHARS_MAX: usize = 60;
    cut(&value.to_string(), CHARS_MAX)
}
