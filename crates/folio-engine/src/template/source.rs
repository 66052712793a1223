//! Parses the text of a template far enough to know which results, inputs, filters and tests it names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::LazyLock;

use minijinja::{Environment, context};

use super::marks::{mark, spent};
use super::{References, TEMPLATE_BYTES_MAX, TemplateError, TemplateErrorKind};

/// Whether `text` contains anything to fill in.
pub fn is_template(text: &str) -> bool {
    text.as_bytes()
        .windows(2)
        .any(|pair| matches!(pair, b"{{" | b"{%" | b"{#"))
}

/// The expression, if `text` is exactly one `{{ expression }}`, with nothing around it except white space that it
/// strips itself (`{{-`).
pub fn single_expression(text: &str) -> Option<&str> {
    let (from_left, from_right) = (text.trim_start(), text.trim_end());
    let text = if from_left.starts_with("{{-") { from_left } else { text };
    let text = if from_right.ends_with("-}}") {
        text.trim_end()
    } else {
        text
    };
    let inner = text.strip_prefix("{{")?.strip_suffix("}}")?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    let inner = inner.strip_suffix(['-', '+']).unwrap_or(inner);
    // `{{ a }} and {{ b }}` also starts and ends with braces, but what is between them is not an expression.
    let expression = Source::of_expression(inner).ok()?;
    CHECKER
        .compile_expression(&expression.rewritten)
        .is_ok()
        .then_some(inner)
}

/// Whether `text` is a bare reference such as `results.scan.output.files[0]`: a path and nothing else.
pub fn is_reference(text: &str) -> bool {
    let mut rest = text.trim();
    if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return false;
    }
    let may_have_dash = rest.starts_with("results.");
    rest = &rest[word_length(rest)..];
    let mut is_first = true;
    while !rest.is_empty() {
        rest = if let Some(tail) = rest.strip_prefix('.') {
            let belongs = |c: char| c.is_ascii_alphanumeric() || c == '_' || (c == '-' && is_first && may_have_dash);
            let length = tail.find(|c: char| !belongs(c)).unwrap_or(tail.len());
            if length == 0 {
                return false;
            }
            &tail[length..]
        } else if let Some((inside, tail)) = rest.strip_prefix('[').and_then(|tail| tail.split_once(']')) {
            let is_quoted = |quote: char| {
                inside.len() > 2
                    && inside.starts_with(quote)
                    && inside.ends_with(quote)
                    && !inside[1..inside.len() - 1].contains(quote)
            };
            let is_index = !inside.is_empty() && inside.chars().all(|c| c.is_ascii_digit());
            if !(is_index || is_quoted('"') || is_quoted('\'')) {
                return false;
            }
            tail
        } else {
            return false;
        };
        is_first = false;
    }
    true
}

static CHECKER: LazyLock<Environment<'static>> = LazyLock::new(Environment::empty);

/// The most pieces of one expression, not counting commas. The template language parses expressions by recursion and
/// has no limit of its own: `- - - … 1` would crash the whole process.
const PIECES_MAX: usize = 2_000;

/// The most statements of one template. Each can put the value before it into another list, and values are dropped by
/// recursion.
const STATEMENTS_MAX: usize = 2_000;

/// The most `elif` of one template; each is nested in the one before.
const ELIFS_MAX: usize = 200;

/// The only keywords by which the output of a template can be kept in a name.
const KEEPS_TEXT: &[&str] = &["macro", "endset", "filter", "call", "recursive"];

/// A template in the form that the template language runs, and the names in it.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The template with `results.list-files` written as `results["list-files"]`.
    pub(super) rewritten: String,
    results: BTreeSet<String>,
    fields: BTreeSet<(String, String)>,
    inputs: BTreeSet<String>,
    all_results: bool,
    /// The filters and the tests by name, each with the line where it occurs first.
    filters: BTreeMap<String, usize>,
    tests: BTreeMap<String, usize>,
    statements: usize,
    elifs: usize,
    /// Whether output of the template may be kept in a name.
    keeps_text: bool,
}

impl Source {
    pub(super) fn of_text(template: &str) -> Result<Self, TemplateError> {
        check_length(template)?;
        let mut source = Self {
            keeps_text: KEEPS_TEXT.iter().any(|word| template.contains(word)),
            ..Self::default()
        };
        let mut rest = template;
        while let Some(at) = rest
            .as_bytes()
            .windows(2)
            .position(|pair| matches!(pair, b"{{" | b"{%" | b"{#"))
        {
            source.copy_text(&rest[..at], rest[at + 2..].starts_with('-'));
            source.rewritten.push_str(&rest[at..at + 2]);
            let (kind, inside) = (rest.as_bytes()[at + 1], &rest[at + 2..]);
            rest = match kind {
                b'#' => source.copy_through(inside, "#}"),
                b'%' if is_raw(inside) => source.copy_raw(inside),
                b'%' => source.code(inside, Some("%}"))?,
                _ => source.code(inside, Some("}}"))?,
            };
        }
        source.copy_text(rest, false);
        Ok(source)
    }

    pub(super) fn of_expression(expression: &str) -> Result<Self, TemplateError> {
        check_length(expression)?;
        let mut source = Self::default();
        source.code(expression, None)?;
        Ok(source)
    }

    /// The names that the template reads, given those that it does not define itself (`undeclared`).
    ///
    /// Results and inputs are those that occur in the text, because for `x[:2]` and for the operands of `{% filter %}`
    /// and `{% with %}` the template language does not report which names are read. A name too many only costs looking
    /// up a result that is not used.
    pub(super) fn references(self, undeclared: HashSet<String>, environment: &Environment<'_>) -> References {
        let built_in: BTreeSet<&str> = environment.globals().map(|(name, _)| name).collect();
        References {
            inputs: self.inputs,
            results: self.results,
            fields: self.fields,
            all_results: self.all_results,
            variables: undeclared
                .into_iter()
                .filter(|name| !matches!(name.as_str(), "results" | "inputs") && !built_in.contains(name.as_str()))
                .collect(),
        }
    }

    /// The results that are named, or `None` if they cannot be listed.
    pub(super) fn named_results(&self) -> Option<&BTreeSet<String>> {
        (!self.all_results).then_some(&self.results)
    }

    /// Checks that all filters and tests exist. The template language itself notices an unknown one only when it is
    /// reached.
    pub(super) fn check_filters(&self, environment: &Environment<'_>, template: &str) -> Result<(), TemplateError> {
        let exists = |name: &str, test: &str| {
            environment
                .compile_expression_owned(format!("name is {test}"))
                .and_then(|expression| expression.eval(context! { name }))
                .is_ok_and(|found| found.is_true())
        };
        let unknown_in = |used: &BTreeMap<String, usize>, kind| {
            let unknown = used.iter().filter(|(name, _)| !exists(name, kind));
            unknown
                .map(|(name, line)| (*line, format!("{kind} `{name}`")))
                .collect::<Vec<_>>()
        };
        let mut unknown = unknown_in(&self.filters, "filter");
        unknown.extend(unknown_in(&self.tests, "test"));
        unknown.sort();
        let Some((line, _)) = unknown.first() else {
            return Ok(());
        };
        let names: Vec<&str> = unknown.iter().map(|(_, name)| name.as_str()).collect();
        Err(TemplateError {
            kind: TemplateErrorKind::Syntax,
            expression: super::error::excerpt(template),
            reason: format!("there is no {}", names.join(" and no ")),
            line: u32::try_from(*line).ok(),
            hint: None,
            path: String::new(),
        })
    }

    /// The current line, counted from 1.
    fn line(&self) -> usize {
        self.rewritten.matches('\n').count() + 1
    }

    /// Copies text of the template. Text that may be kept in a name instead of being written, as in a macro, is
    /// charged, because a loop can write it any number of times.
    fn copy_text(&mut self, text: &str, is_cut_after: bool) {
        let is_cut_before = ["-}}", "-%}", "-#}"].iter().any(|end| self.rewritten.ends_with(end));
        self.copy_charged(text, is_cut_before, is_cut_after, ["", ""]);
    }

    fn copy_charged(&mut self, text: &str, is_cut_before: bool, is_cut_after: bool, delimiters: [&str; 2]) {
        // White space that is stripped has to stay next to its tag.
        let at = match text.char_indices().find(|(_, c)| !c.is_whitespace()) {
            Some((at, c)) => Some(at + c.len_utf8()),
            None => (!text.is_empty() && !is_cut_before && !is_cut_after).then_some(0),
        };
        let Some(at) = at.filter(|_| self.keeps_text) else {
            return self.rewritten.push_str(text);
        };
        let [before, after] = delimiters;
        let pieces = [&text[..at], before, &spent(text.len()), after, &text[at..]];
        self.rewritten.extend(pieces);
    }

    fn copy_through<'a>(&mut self, inside: &'a str, end: &str) -> &'a str {
        let length = inside.find(end).map_or(inside.len(), |at| at + end.len());
        self.rewritten.push_str(&inside[..length]);
        &inside[length..]
    }

    fn copy_raw<'a>(&mut self, inside: &'a str) -> &'a str {
        let end = inside.match_indices("{%").find(|(at, _)| {
            inside[at + 2..]
                .trim_start_matches(['-', '+'])
                .trim_start()
                .starts_with("endraw")
        });
        let length = end.map_or(inside.len(), |(at, _)| at);
        let begin = inside[..length].find("%}").map_or(length, |at| at + 2);
        let (begin, text) = inside[..length].split_at(begin);
        self.rewritten.push_str(begin);
        let is_cut_after = inside[length..].starts_with("{%-");
        self.copy_charged(
            text,
            begin.ends_with("-%}"),
            is_cut_after,
            ["{% endraw %}", "{% raw %}"],
        );
        match inside[length..].strip_prefix("{%") {
            Some(tail) => {
                self.rewritten.push_str("{%");
                self.copy_through(tail, "%}")
            }
            None => "",
        }
    }

    /// Copies code up to and including `end`, recording names and marking what can grow. Returns what follows.
    fn code<'a>(&mut self, code: &'a str, end: Option<&str>) -> Result<&'a str, TemplateError> {
        let start = self.rewritten.len();
        let rest = self.plain_code(code, end)?;
        let plain = self.rewritten.split_off(start);
        let is_ended = end.filter(|end| plain.ends_with(end));
        let inside = is_ended.map_or(&*plain, |end| &plain[..plain.len() - end.len()]);
        self.rewritten.push_str(&mark(inside, end == Some("%}")));
        self.rewritten.push_str(is_ended.unwrap_or_default());
        Ok(rest)
    }

    fn plain_code<'a>(&mut self, code: &'a str, end: Option<&str>) -> Result<&'a str, TemplateError> {
        let mut nesting = 0_usize;
        let mut pieces = 0_usize;
        let mut rest = code;
        let mut before = Before::Nothing;
        let mut is_first_word = end == Some("%}");
        while let Some(c) = rest.chars().next() {
            if nesting == 0
                && let Some(end) = end
                && rest.starts_with(end)
            {
                self.rewritten.push_str(end);
                return Ok(&rest[end.len()..]);
            }
            let (piece, tail) = rest.split_at(piece_length(rest, c));
            self.rewritten.push_str(piece);
            rest = tail;
            match c {
                c if c.is_whitespace() => continue,
                '(' | '[' | '{' => nesting += 1,
                ')' | ']' | '}' => nesting = nesting.saturating_sub(1),
                _ => {}
            }
            pieces += usize::from(c != ',');
            if pieces > PIECES_MAX {
                return Err(too_long(code, "pieces in one expression", PIECES_MAX));
            }
            if is_first_word && is_name_start(c) {
                is_first_word = false;
                self.count_statement(code, piece)?;
                if piece == "filter" {
                    before = Before::Pipe;
                    continue;
                }
            }
            (before, rest) = self.read_piece(before, piece, rest);
        }
        Ok(rest)
    }

    /// Counts a statement of `code` that begins with `word`.
    fn count_statement(&mut self, code: &str, word: &str) -> Result<(), TemplateError> {
        if matches!(word, "include" | "import" | "from" | "extends" | "block") {
            return Err(TemplateError::standing_alone(word));
        }
        self.statements += 1;
        self.elifs += usize::from(word == "elif");
        if self.statements > STATEMENTS_MAX {
            return Err(too_long(code, "statements", STATEMENTS_MAX));
        }
        if self.elifs > ELIFS_MAX {
            return Err(too_long(code, "`elif`", ELIFS_MAX));
        }
        Ok(())
    }

    /// Records the name that `piece` is, by what comes `before` it. Returns what the next piece comes after, and `rest`
    /// without what was read of it.
    fn read_piece<'a>(&mut self, before: Before, piece: &str, rest: &'a str) -> (Before, &'a str) {
        let is_name = piece.starts_with(is_name_start);
        let next = match (before, piece) {
            (Before::Pipe, name) if is_name => {
                if !self.filters.contains_key(name) {
                    self.filters.insert(name.to_owned(), self.line());
                }
                Before::Name
            }
            (Before::Is, "not") => Before::Is,
            (Before::Is, name) if is_name => {
                if !self.tests.contains_key(name) {
                    self.tests.insert(name.to_owned(), self.line());
                }
                Before::Name
            }
            (Before::Dot, _) if is_name => Before::Name,
            (_, "results") => return (Before::Name, self.result_name(rest)),
            (_, "inputs") => {
                if let Some((name, _)) = name_after(rest, false) {
                    self.inputs.insert(name.to_owned());
                }
                Before::Name
            }
            (_, "is") => Before::Is,
            (_, "|") => Before::Pipe,
            (_, ".") => Before::Dot,
            _ if is_name => Before::Name,
            _ => Before::Nothing,
        };
        (next, rest)
    }

    /// Reads the name after `results`: records the slug and writes it so that a `-` in it is not a minus.
    fn result_name<'a>(&mut self, rest: &'a str) -> &'a str {
        let Some((slug, tail)) = name_after(rest, true) else {
            self.all_results = true;
            return rest;
        };
        self.results.insert(slug.to_owned());
        if let Some((field, after)) = name_after(tail, false)
            && !may_be_missing(after)
        {
            self.fields.insert((slug.to_owned(), field.to_owned()));
        }
        if rest.trim_start().starts_with('[') {
            return rest;
        }
        self.rewritten.push_str(&format!("[\"{slug}\"]"));
        tail
    }
}

/// The kind of the previous piece of code, as far as it matters.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    Name,
    Dot,
    Pipe,
    Is,
}

fn check_length(template: &str) -> Result<(), TemplateError> {
    if template.len() <= TEMPLATE_BYTES_MAX {
        return Ok(());
    }
    Err(TemplateError {
        kind: TemplateErrorKind::TooLarge,
        expression: super::error::excerpt(template),
        reason: format!(
            "the template has {} bytes; at most {TEMPLATE_BYTES_MAX} are read",
            template.len()
        ),
        line: None,
        hint: None,
        path: String::new(),
    })
}

fn too_long(code: &str, unit: &str, limit: usize) -> TemplateError {
    TemplateError {
        kind: TemplateErrorKind::TooLarge,
        expression: super::error::excerpt(code),
        reason: format!("there are more than {limit} {unit}"),
        line: None,
        hint: None,
        path: String::new(),
    }
}

fn is_raw(inside: &str) -> bool {
    let code = inside.trim_start_matches(['-', '+']).trim_start();
    code.strip_prefix("raw")
        .is_some_and(|tail| !tail.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

/// The name in `.name` or `["name"]` at the start of `rest`, and what follows it.
fn name_after(rest: &str, is_slug: bool) -> Option<(&str, &str)> {
    let rest = rest.trim_start();
    if let Some(tail) = rest.strip_prefix('.') {
        let tail = tail.trim_start();
        let belongs = |c: char| c.is_ascii_alphanumeric() || c == '_' || (is_slug && c == '-');
        let length = tail.find(|c: char| !belongs(c)).unwrap_or(tail.len());
        return (length > 0).then(|| tail.split_at(length));
    }
    let tail = rest.strip_prefix('[')?.trim_start();
    let quote = tail.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let length = tail[1..].find(quote)?;
    let after = tail[length + 2..].trim_start().strip_prefix(']')?;
    Some((&tail[1..=length], after))
}

/// The paths in the output of the step `slug` that `template` names, such as `output.rooms`; without those that may be
/// missing.
pub(crate) fn output_paths(template: &str, slug: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (at, word) in template.match_indices("results") {
        let Some((name, tail)) = name_after(&template[at + word.len()..], true) else {
            continue;
        };
        let Some(("output", mut rest)) = name_after(tail, false).filter(|_| name == slug) else {
            continue;
        };
        let mut path = "output".to_owned();
        while let Some((key, after)) = name_after(rest, false).filter(|(_, after)| !after.starts_with('(')) {
            path.push('.');
            path.push_str(key);
            rest = after;
        }
        if !may_be_missing(rest) {
            paths.push(path);
        }
    }
    paths
}

/// Whether a name followed by `after` may be missing: the template tests whether it exists or has a default for it, or
/// it is called and is thus a method, not a field.
fn may_be_missing(after: &str) -> bool {
    let after = after.trim_start();
    let is_for_nothing =
        |filter: &str| filter.trim_start().starts_with("default") || filter.trim_start().starts_with("d(");
    after.starts_with('(') || after.starts_with("is ") || after.strip_prefix('|').is_some_and(is_for_nothing)
}

pub(super) fn string_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    rest.len()
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// How much of `rest`, which begins with `c`, is read as one piece.
fn piece_length(rest: &str, c: char) -> usize {
    match c {
        '"' | '\'' => string_length(rest, c),
        // A number is read as one piece, so that the `e` of `1e5` is not a name.
        c if is_name_start(c) || c.is_ascii_digit() => word_length(rest),
        c => c.len_utf8(),
    }
}

pub(super) fn word_length(rest: &str) -> usize {
    rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(rest.len())
}
