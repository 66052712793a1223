//! Criteria and their checks.

use crate::plan::cursor::At;
use crate::plan::errors::code;
use crate::plan::spanned::Tree;
use crate::plan::{Check, Criterion, keys};

use super::Decoder;

/// The most criteria of one plan or task: every one of them is looked at when a result is checked.
const CRITERIA_MAX: usize = 1_000;
/// The most characters of a criterion's id.
const ID_MAX: usize = 64;

impl<'a> Decoder<'a> {
    /// The criteria of a plan or a task. Those that a step adds to the ones that it is there to meet are named after
    /// the first of these: `c2.1` in a step that satisfies `c2` (E9.6).
    pub(super) fn criteria(&mut self, at: &At<'a>, satisfies: &[String]) -> Vec<Criterion> {
        let Some(at) = self.field(at, "criteria") else {
            return Vec::new();
        };
        let Some(items) = at.items() else {
            self.faults.wrong_type(&at, "a list of criteria");
            return Vec::new();
        };
        if items.len() > CRITERIA_MAX {
            let message = format!("{} criteria; at most {CRITERIA_MAX} are allowed", items.len());
            self.faults.add(&at, code::OVER_CAP, message);
        }
        let allowed_items = items.iter().take(CRITERIA_MAX);
        let mut criteria: Vec<Criterion> = allowed_items.filter_map(|item| self.criterion(item)).collect();
        number_the_unnamed(&mut criteria, satisfies.first().map(String::as_str));
        // They live as long as their run, so no spare capacity is kept.
        criteria.shrink_to_fit();
        criteria
    }

    fn criterion(&mut self, at: &At<'a>) -> Option<Criterion> {
        let mut criterion = Criterion {
            id: String::new(),
            text: String::new(),
            check: Check::Judge,
            required: true,
        };
        if let Tree::String(text) = &at.node.tree {
            if text.is_empty() {
                self.faults.bad_value(at, "a criterion is empty; say what must hold");
            }
            criterion.text.clone_from(text);
            return Some(criterion);
        }
        if !self.is_object(at, "a criterion: a text, or `{text, check}`") {
            return None;
        }
        self.faults.unknown_keys(at, keys::CRITERION, "a criterion");
        if let Some(id) = self.field(at, "id") {
            criterion.id = self.criterion_id(&id);
        }
        if let Some(check) = self.field(at, "check") {
            criterion.check = self.check(&check);
        }
        criterion.required = self.flag(at, "required").unwrap_or(true);
        criterion.text = match self.field(at, "text") {
            None if criterion.check.is_machine() => criterion.check.describe(),
            _ => self.required_text(at, "text", "what must hold, in words"),
        };
        Some(criterion)
    }

    fn criterion_id(&mut self, at: &At<'a>) -> String {
        let id = self.text(at).unwrap_or_default();
        if !is_plain_id(&id) && matches!(at.node.tree, Tree::String(_)) {
            let error = self
                .faults
                .bad_value(at, format!("{id:?} cannot be the id of a criterion"));
            error.with_hint("use up to 64 letters, digits, `.`, `_` and `-`");
        }
        id
    }

    fn check(&mut self, at: &At<'a>) -> Check {
        const EXPECTED: &str = "`judge`, `human`, `result_nonempty`, or an object such as `{regex: …}`";
        match &at.node.tree {
            Tree::String(name) if keys::CHECK.contains(&name.as_str()) => {
                let error = self
                    .faults
                    .bad_value(at, format!("the check `{name}` needs more than its name"));
                error.with_hint(format!("write `{{{name}: …}}`"));
                Check::Judge
            }
            Tree::String(_) => self
                .one_of(
                    at,
                    &[
                        ("judge", SimpleCheck::Judge),
                        ("human", SimpleCheck::Human),
                        ("result_nonempty", SimpleCheck::Nonempty),
                    ],
                )
                .map_or(Check::Judge, SimpleCheck::check),
            Tree::Object(entries) => {
                self.faults.unknown_keys(at, keys::CHECK, "a check");
                let known: Vec<&str> = entries
                    .iter()
                    .map(|entry| entry.key.as_str())
                    .filter(|key| keys::CHECK.contains(key))
                    .collect();
                match known.as_slice() {
                    [name] => self.machine_check(at, name),
                    [] if !entries.is_empty() => Check::Judge,
                    _ => {
                        self.faults
                            .bad_value(at, format!("a check is exactly one of {}", keys::CHECK.join(", ")));
                        Check::Judge
                    }
                }
            }
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::List(_) => {
                self.faults.wrong_type(at, EXPECTED);
                Check::Judge
            }
        }
    }

    fn machine_check(&mut self, at: &At<'a>, name: &str) -> Check {
        let Some(value) = at.key(name) else {
            return Check::Judge;
        };
        let is_object = matches!(value.node.tree, Tree::Object(_));
        match name {
            "command" => self.command(&value),
            "file_exists" if is_object => {
                self.faults
                    .unknown_keys(&value, keys::FILE_EXISTS, "a file_exists check");
                Check::FileExists {
                    path: self.required_text(&value, "path", "the file that must exist"),
                }
            }
            "file_exists" => Check::FileExists {
                path: self.text(&value).unwrap_or_default(),
            },
            "regex" if is_object => {
                self.faults.unknown_keys(&value, keys::REGEX, "a regex check");
                let pattern = self.required_text(&value, "pattern", "the expression that must match");
                Check::Regex {
                    pattern,
                    of: self.field(&value, "of").and_then(|of| self.expression(&of)),
                }
            }
            "regex" => Check::Regex {
                pattern: self.text(&value).unwrap_or_default(),
                of: None,
            },
            _ => {
                if !self.is_object(&value, "`{schema, of}`") {
                    return Check::Judge;
                }
                self.faults
                    .unknown_keys(&value, keys::JSON_SCHEMA, "a json_schema check");
                let schema = match self.field(&value, "schema") {
                    Some(schema) => schema.node.to_json(),
                    None => {
                        self.faults
                            .missing(&value, "schema", "the schema that must be satisfied");
                        serde_json::Value::Bool(true)
                    }
                };
                Check::JsonSchema {
                    schema,
                    of: self.field(&value, "of").and_then(|of| self.expression(&of)),
                }
            }
        }
    }

    fn command(&mut self, at: &At<'a>) -> Check {
        let (argv_at, exit) = match &at.node.tree {
            Tree::Object(_) => {
                self.faults.unknown_keys(at, keys::COMMAND, "a command check");
                let exit = self
                    .field(at, "exit")
                    .map(|exit| self.exit_code(&exit))
                    .unwrap_or_default();
                (self.field(at, "argv"), exit)
            }
            _ => (Some(at.clone()), 0),
        };
        let Some(argv_at) = argv_at else {
            self.faults.missing(at, "argv", "the program and its arguments");
            return Check::Command { argv: Vec::new(), exit };
        };
        if matches!(argv_at.node.tree, Tree::String(_)) {
            let error = self
                .faults
                .wrong_type(&argv_at, "a list: the program and its arguments");
            error.with_hint("no shell is involved; write `[\"cargo\", \"test\"]`");
            return Check::Command { argv: Vec::new(), exit };
        }
        let argv = self.texts(&argv_at);
        if argv.is_empty() && argv_at.items().is_some() {
            self.faults.bad_value(&argv_at, "the command has no program");
        }
        Check::Command { argv, exit }
    }

    fn exit_code(&mut self, at: &At<'a>) -> i32 {
        // As in JSON Schema, `1.0` is a whole number.
        let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
        let is_code = |code: &f64| range.contains(code) && code.fract() == 0.0;
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        let code = match &at.node.tree {
            Tree::Number(number) => number.as_f64().filter(is_code).map(|code| code as i32),
            _ => None,
        };
        if code.is_none() {
            self.faults.wrong_type(at, "an exit code");
        }
        code.unwrap_or_default()
    }
}

#[derive(Clone, Copy)]
enum SimpleCheck {
    Judge,
    Human,
    Nonempty,
}

impl SimpleCheck {
    fn check(self) -> Check {
        match self {
            Self::Judge => Check::Judge,
            Self::Human => Check::Human,
            Self::Nonempty => Check::ResultNonempty,
        }
    }
}

/// Whether `id` is a valid id of a criterion.
fn is_plain_id(id: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    (1..=ID_MAX).contains(&id.len()) && id.bytes().all(is_plain)
}

/// Gives ids to criteria without one, by position: below `above`, the criterion that they serve, if there is one and
/// its id leaves room.
fn number_the_unnamed(criteria: &mut [Criterion], above: Option<&str>) {
    let above = above.filter(|id| is_plain_id(id));
    for at in 0..criteria.len() {
        if criteria[at].id.is_empty() {
            let make_id = |number: usize| {
                let below = above.map(|above| format!("{above}.{number}"));
                below
                    .filter(|id| id.len() <= ID_MAX)
                    .unwrap_or_else(|| format!("c{number}"))
            };
            let is_taken = |id: &String| criteria.iter().any(|other| other.id == *id);
            criteria[at].id = (at + 1..).map(make_id).find(|id| !is_taken(id)).unwrap_or_default();
        }
    }
}
