//! Why a template could not be filled in.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use folio_memory::excerpt::{cut, one_line};
use minijinja::ErrorKind;
use serde_json::Value;

use super::marks::unmarked;
use super::{OUTPUT_BYTES_MAX, Scope, bounds, view};

/// Why a template could not be filled in: which expression failed, what is wrong, and what exists instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The kind of failure.
    pub kind: TemplateErrorKind,
    /// The piece of the template that failed.
    pub expression: String,
    /// What is wrong with it.
    pub reason: String,
    /// The line in the template, counted from 1.
    pub line: Option<u32>,
    /// What to write instead.
    pub hint: Option<String>,
    /// The path of the string within a larger value, for example `files[2].name`; empty for a single template.
    pub path: String,
}

/// The kinds of failure of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateErrorKind {
    /// It cannot be parsed.
    Syntax,
    /// It names something that does not exist.
    Undefined,
    /// It took too many steps.
    TooExpensive,
    /// The template is too long, or produces too much.
    TooLarge,
    /// An operation in it failed.
    Failed,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "`{}`", self.expression)?;
        if let Some(line) = self.line.filter(|line| *line > 1) {
            write!(f, " on line {line}")?;
        }
        write!(f, ": {}", self.reason)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TemplateError {}

impl TemplateError {
    pub(super) fn of_syntax(error: &minijinja::Error, template: &str) -> Self {
        Self {
            kind: TemplateErrorKind::Syntax,
            expression: excerpt(template),
            reason: error.detail().unwrap_or("it cannot be read").to_owned(),
            line: error.line().and_then(|line| u32::try_from(line).ok()),
            hint: None,
            path: String::new(),
        }
    }

    pub(super) fn of_panic(template: &str) -> Self {
        Self {
            kind: TemplateErrorKind::Failed,
            expression: excerpt(template),
            reason: "it cannot be filled in: something in it is called in a way that the language does not provide for"
                .to_owned(),
            line: None,
            hint: Some("`loop.cycle()` needs at least one argument, for example".to_owned()),
            path: String::new(),
        }
    }

    pub(super) fn of_rendering(error: &minijinja::Error, source: &str, scope: &Scope) -> Self {
        let piece = error
            .range()
            .and_then(|range| source.get(start_of_path(source, range.start)..range.end));
        let piece = unmarked(piece.unwrap_or(source));
        let piece = piece.trim();
        let line = error.line().and_then(|line| u32::try_from(line).ok());
        let detail = error.detail().unwrap_or_default();
        let (kind, reason) = match error.kind() {
            ErrorKind::UndefinedError => {
                let filtered = error.range().and_then(|range| filtered_expression(source, &range));
                return Self {
                    line,
                    ..Self::of_undefined(
                        &filtered.map_or(piece.to_owned(), |filtered| unmarked(&filtered)),
                        scope,
                    )
                };
            }
            ErrorKind::OutOfFuel => (
                TemplateErrorKind::TooExpensive,
                "it takes more steps than a template may".to_owned(),
            ),
            ErrorKind::WriteFailure => {
                return Self {
                    line,
                    ..Self::too_large(&unmarked(source))
                };
            }
            _ if bounds::is_too_large(error) => {
                return Self {
                    line,
                    ..Self::too_large(&unmarked(source))
                };
            }
            ErrorKind::SyntaxError => (TemplateErrorKind::Syntax, detail.to_owned()),
            kind if detail.is_empty() => (TemplateErrorKind::Failed, kind.to_string()),
            kind => (TemplateErrorKind::Failed, format!("{kind}: {detail}")),
        };
        Self {
            kind,
            expression: excerpt(piece),
            reason,
            line,
            hint: None,
            path: String::new(),
        }
    }

    /// Says at which point of the path in `piece` a name is missing, and which names exist there.
    pub(super) fn of_undefined(piece: &str, scope: &Scope) -> Self {
        let mut reason = "it does not exist".to_owned();
        let mut hint = None;
        for path in paths_in(piece) {
            if let Some(missing) = first_missing(&path, scope) {
                reason = format!("there is no `{}` in {}", missing.name, missing.parent);
                hint = missing.hint;
                break;
            }
        }
        Self {
            kind: TemplateErrorKind::Undefined,
            expression: excerpt(piece),
            reason,
            line: None,
            hint,
            path: String::new(),
        }
    }

    pub(super) fn too_large(template: &str) -> Self {
        Self {
            kind: TemplateErrorKind::TooLarge,
            expression: excerpt(template),
            reason: format!("it gives more than {OUTPUT_BYTES_MAX} bytes"),
            line: None,
            hint: None,
            path: String::new(),
        }
    }

    pub(super) fn not_a_list(list: &Value, found: &Value) -> Self {
        let expression = match list {
            Value::String(text) => excerpt(text),
            other => excerpt(&other.to_string()),
        };
        Self {
            kind: TemplateErrorKind::Failed,
            expression,
            reason: format!("it is {}, not a list", view::kind_of(found)),
            line: None,
            hint: match found {
                Value::Object(entries) => Some(format!(
                    "it has {}",
                    some_of(&Vec::from_iter(entries.keys().cloned().collect::<BTreeSet<_>>()))
                )),
                _ => None,
            },
            path: String::new(),
        }
    }

    pub(super) fn standing_alone(statement: &str) -> Self {
        Self {
            kind: TemplateErrorKind::Syntax,
            expression: format!("{{% {statement} %}}"),
            reason: format!("`{statement}` does not exist here: a template stands alone"),
            line: None,
            hint: None,
            path: String::new(),
        }
    }

    /// The same error, seen from one level further out: `segment` is a key, or an index in brackets.
    pub(super) fn below(mut self, segment: &str) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') {
            ""
        } else {
            "."
        };
        self.path = format!("{segment}{separator}{}", self.path);
        self
    }
}

/// The expression up to the filter at `range`: the missing value is the operand of the filter. `None` if there is no
/// filter.
fn filtered_expression(source: &str, range: &Range<usize>) -> Option<String> {
    let before = source.get(..range.start)?;
    if !before.trim_end().ends_with('|') {
        return None;
    }
    let open_positions = ["{{", "{%"].into_iter().filter_map(|open| before.rfind(open));
    let start = open_positions.max().map_or(0, |open| open + 2);
    Some(source.get(start..range.end)?.trim().to_owned())
}

/// The start of the path that continues at `at`: the error of `a.b.c` may point to `.c` alone.
fn start_of_path(source: &str, at: usize) -> usize {
    let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '[' | ']' | '"' | '\'');
    let starts_inside = source.get(at..).is_some_and(|rest| rest.starts_with(['.', '[']));
    match source.get(..at) {
        Some(before) if starts_inside => before.trim_end_matches(belongs).len(),
        _ => at,
    }
}

/// The beginning of `text` on one line, with results named as plans write them.
pub(super) fn excerpt(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    let mut line = one_line(text);
    while let Some((before, after)) = line.split_once("results[\"")
        && let Some((slug, after)) = after.split_once("\"]")
    {
        line = format!("{before}results.{slug}{after}");
    }
    cut(&line, CHARS_MAX)
}

fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let listed = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// Keywords of the language, which are not names.
const WORDS: [&str; 14] = [
    "or", "and", "not", "in", "is", "if", "else", "for", "true", "false", "none", "True", "False", "None",
];

/// The dotted paths in a piece of code, each as long as possible: `a.b[0]["c"]` is `a`, `b`, `0`, `c`. Names of filters
/// and tests, and keywords of the language, are not paths.
fn paths_in(piece: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut rest = piece;
    let mut is_test = false;
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '"' || c == '\'') {
        rest = &rest[at..];
        if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            rest = rest[1..].find(quote).map_or("", |end| &rest[end + 2..]);
            continue;
        }
        let before = piece[..piece.len() - rest.len()].trim_end();
        let mut path = Vec::new();
        loop {
            let length = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            path.push(rest[..length].to_owned());
            rest = &rest[length..];
            while let Some(tail) = rest.strip_prefix('[')
                && let Some(end) = tail.find(']')
            {
                path.push(tail[..end].trim_matches(['"', '\'', ' ']).to_owned());
                rest = &tail[end + 1..];
            }
            match rest.strip_prefix('.') {
                Some(tail) => rest = tail,
                None => break,
            }
        }
        let is_word = path.len() == 1 && WORDS.contains(&path[0].as_str());
        if !is_word && !is_test && !before.ends_with('|') {
            paths.push(path);
        } else if is_word && path[0] != "not" {
            is_test = path[0] == "is";
            continue;
        }
        is_test = is_test && is_word;
    }
    paths
}

struct Missing {
    parent: String,
    name: String,
    hint: Option<String>,
}

fn names_in_words<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    if names.is_empty() {
        Some("it has nothing".to_owned())
    } else {
        Some(format!("it has {}", some_of(&names)))
    }
}

fn first_missing(path: &[String], scope: &Scope) -> Option<Missing> {
    let (root, below) = path.split_first()?;
    let mut parent = root.clone();
    let mut below = below.iter();
    let mut value: &Value = match root.as_str() {
        "inputs" => &scope.inputs,
        "results" => {
            let slug = below.next()?;
            match scope.results.get(slug) {
                Some(result) => {
                    parent = format!("`results.{slug}`");
                    result
                }
                None => {
                    let hint = names_in_words(scope.results.keys().map(String::as_str));
                    return Some(Missing {
                        parent: "`results`".to_owned(),
                        name: slug.clone(),
                        hint,
                    });
                }
            }
        }
        name => match scope.variables.iter().rev().find(|(variable, _)| variable == name) {
            Some((_, value)) => value,
            // A name followed by something was defined by the template itself, such as the variable of a loop.
            None if below.next().is_some() => return None,
            None => {
                let variables = scope.variables.iter().map(|(name, _)| name.as_str());
                let hint = names_in_words(["inputs", "results"].into_iter().chain(variables));
                return Some(Missing {
                    parent: "the scope of the template".to_owned(),
                    name: root.clone(),
                    hint,
                });
            }
        },
    };
    parent = if parent.starts_with('`') {
        parent
    } else {
        format!("`{parent}`")
    };
    for name in below {
        let (found, hint) = match value {
            Value::Object(entries) => (
                entries.get(name),
                names_in_words(entries.keys().map(String::as_str).collect::<BTreeSet<_>>()),
            ),
            Value::Array(items) => {
                let found = name.parse::<usize>().ok().and_then(|at| items.get(at));
                (found, Some(format!("it is a list of {}", items.len())))
            }
            other => {
                let parent = format!("{parent}, which is {}", view::kind_of(other));
                return Some(Missing {
                    parent,
                    name: name.clone(),
                    hint: None,
                });
            }
        };
        match found {
            Some(found) => value = found,
            None => {
                return Some(Missing {
                    parent,
                    name: name.clone(),
                    hint,
                });
            }
        }
        parent = format!("{}.{name}`", parent.trim_end_matches('`'));
    }
    None
}
