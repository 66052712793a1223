//! Templates: text and values of a plan that contain `{{ … }}`, filled in with what a step may see.
//!
//! The language is that of Jinja, without anything that could reach outside or differ between two runs. A name that
//! does not exist is an error, never an empty text. Three rules are our own:
//!
//! - A string without `{{`, `{%` and `{#` is taken unchanged.
//! - A string that is exactly one `{{ expression }}` keeps the type of its value: a list stays a list. Everywhere else,
//!   also with white space around it, values become text, lists and objects as compact JSON. Where only a list is
//!   allowed, the white space does not count.
//! - After `results.` a `-` belongs to the name: `results.list-files.output` needs no brackets.

mod bounds;
mod error;
mod filters;
mod marks;
mod source;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

pub use error::{TemplateError, TemplateErrorKind};
pub(crate) use source::output_paths;
pub use source::{is_reference, is_template, single_expression};

use source::Source;
pub(crate) use view::{Breaks, Told};

/// The most steps of work of one template before it is stopped.
const FUEL: u64 = 5_000_000;

/// The largest text or value that one template may produce, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 8 << 20;

/// The longest template, in bytes. This also bounds how deeply a template can nest values.
pub const TEMPLATE_BYTES_MAX: usize = 64 << 10;

/// The deepest nesting of lists and objects in what a template produces.
const DEPTH_MAX: usize = 100;

/// Does what `work` does with `template`. What the library for templates does not expect makes it panic: that is a
/// mistake of this one template, and must not end who fills it in.
fn without_panic<T>(template: &str, work: impl FnOnce() -> Result<T, TemplateError>) -> Result<T, TemplateError> {
    // Nothing half-done is seen afterwards: what was filled in so far is dropped, and the environment never changes.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(TemplateError::of_panic(template)))
}

/// Fills in templates. Built once and shared: it holds no state of a run.
#[derive(Debug)]
pub struct Templates {
    /// Set up for the first template, because a process that only reads and writes memory needs none.
    environment: LazyLock<Environment<'static>>,
}

/// What the templates of one step may name.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The inputs of the plan, an object that templates name `inputs`.
    pub inputs: Arc<Value>,
    /// Everything else by its name: `item`, `index`, `run`, `goal`, `result`. A later one hides an earlier one of the
    /// same name.
    pub variables: Vec<(String, Arc<Value>)>,
    /// The results that the step depends on, by slug; templates name them `results`. Each is an object `{task_id,
    /// status, notes, output, severity, stop_reason}`.
    pub results: BTreeMap<String, Arc<Value>>,
}

/// The names that a template reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// The inputs: `x` for `inputs.x`.
    pub inputs: BTreeSet<String>,
    /// The results: `list-files` for `results.list-files.output`.
    pub results: BTreeSet<String>,
    /// The fields of results that must exist: `list-files` and `output` for `results.list-files.output.files`.
    pub fields: BTreeSet<(String, String)>,
    /// Every other name that the template does not define itself.
    pub variables: BTreeSet<String>,
    /// Whether it uses `results` as a whole, so that the results it reads cannot be listed.
    pub all_results: bool,
}

impl References {
    /// Whether they include what others than the author of the plan and the user of the run wrote: results, and what is
    /// derived from them, such as the items of a list.
    pub(crate) fn include_others(&self) -> bool {
        let is_own = |name: &String| matches!(name.as_str(), "goal" | "index" | "inputs" | "run");
        self.all_results || !self.results.is_empty() || !self.variables.iter().all(is_own)
    }

    fn merge(&mut self, other: Self) {
        self.inputs.extend(other.inputs);
        self.results.extend(other.results);
        self.fields.extend(other.fields);
        self.variables.extend(other.variables);
        self.all_results |= other.all_results;
    }
}

impl Default for Templates {
    fn default() -> Self {
        Self::new()
    }
}

impl Templates {
    /// The template language, which is set up when it is first needed.
    pub fn new() -> Self {
        Self {
            environment: LazyLock::new(|| language(UndefinedBehavior::Strict)),
        }
    }

    /// Fills in `template` as text.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] if the template cannot be parsed, names something that does not exist, fails, or produces too
    /// much.
    pub fn render_text(&self, template: &str, scope: &Scope) -> Result<String, TemplateError> {
        if !is_template(template) {
            return Ok(template.to_owned());
        }
        self.text(template, scope, None)
    }

    /// Like [`Templates::render_text`], but what expressions yield is put into the text as `told` says.
    ///
    /// # Errors
    ///
    /// As for [`Templates::render_text`].
    pub(crate) fn render_told(&self, template: &str, scope: &Scope, told: Told) -> Result<String, TemplateError> {
        if !is_template(template) {
            return Ok(template.to_owned());
        }
        self.text(template, scope, Some(told))
    }

    /// Fills in every string of `value`. Keys of objects are taken unchanged.
    ///
    /// # Errors
    ///
    /// As for [`Templates::render_text`]; the error's `path` names the string of `value` that failed.
    pub fn render_value(&self, value: &Value, scope: &Scope) -> Result<Value, TemplateError> {
        let mut room = OUTPUT_BYTES_MAX;
        self.value(value, scope, &mut room)
    }

    /// The value of an expression, for example of the bare reference `results.scan.output.files`.
    ///
    /// # Errors
    ///
    /// As for [`Templates::render_text`].
    pub fn eval(&self, expression: &str, scope: &Scope) -> Result<Value, TemplateError> {
        self.evaluate(expression, scope)
    }

    /// Whether the expression is true by Jinja's rules: empty texts, lists and objects, `0` and null are not.
    ///
    /// # Errors
    ///
    /// As for [`Templates::render_text`].
    pub fn eval_condition(&self, expression: &str, scope: &Scope) -> Result<bool, TemplateError> {
        Ok(match self.eval(expression, scope)? {
            Value::Null => false,
            Value::Bool(holds) => holds,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
        })
    }

    /// The items of `list`: a list that is written out (with its strings filled in), a bare reference, or one `{{
    /// expression }}`.
    ///
    /// # Errors
    ///
    /// As for [`Templates::render_text`], and if the value is not a list.
    pub fn eval_list(&self, list: &Value, scope: &Scope) -> Result<Vec<Value>, TemplateError> {
        let found = match list {
            Value::String(text) if !is_template(text) => self.eval(text, scope)?,
            // A text cannot be a list, so white space around the expression does not count.
            Value::String(text) => self.render_value(&Value::from(text.trim()), scope)?,
            other => self.render_value(other, scope)?,
        };
        match found {
            Value::Array(items) => Ok(items),
            other => Err(TemplateError::not_a_list(list, &other)),
        }
    }

    fn text(&self, template: &str, scope: &Scope, told: Option<Told>) -> Result<String, TemplateError> {
        let source = Source::of_text(template)?;
        let mut sink = Capped { text: Vec::new() };
        without_panic(template, || {
            let compiled = self
                .environment
                .template_from_named_str("template", &source.rewritten)
                .map_err(|error| TemplateError::of_syntax(&error, template))?;
            compiled
                .render_captured_to(view::context(scope, &source, told), &mut sink)
                .map_err(|error| TemplateError::of_rendering(&error, &source.rewritten, scope))
        })?;
        // Every piece was written from a `str`, so this is valid UTF-8.
        Ok(String::from_utf8(sink.text).unwrap_or_default())
    }

    fn evaluate(&self, expression: &str, scope: &Scope) -> Result<Value, TemplateError> {
        let source = Source::of_expression(expression)?;
        let found = without_panic(expression, || {
            self.environment
                .compile_expression_owned(source.rewritten.clone())
                .map_err(|error| TemplateError::of_syntax(&error, expression))?
                .eval(view::context(scope, &source, None))
                .map_err(|error| TemplateError::of_rendering(&error, &source.rewritten, scope))
        })?;
        if found.kind() == ValueKind::Undefined {
            return Err(TemplateError::of_undefined(source.rewritten.trim(), scope));
        }
        let mut room = OUTPUT_BYTES_MAX;
        view::to_json(&found, &mut room, DEPTH_MAX)
            .map_err(|error| TemplateError::of_rendering(&error, &source.rewritten, scope))
    }

    fn value(&self, value: &Value, scope: &Scope, room: &mut usize) -> Result<Value, TemplateError> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
            Value::String(text) => {
                let rendered = if !is_template(text) {
                    Value::String(text.clone())
                } else if let Some(expression) = single_expression(text) {
                    self.evaluate(expression, scope)?
                } else {
                    Value::String(self.text(text, scope, None)?)
                };
                *room = room
                    .checked_sub(view::json_bytes(&rendered))
                    .ok_or_else(|| TemplateError::too_large(text))?;
                Ok(rendered)
            }
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(at, item)| {
                    self.value(item, scope, room)
                        .map_err(|error| error.below(&format!("[{at}]")))
                })
                .collect(),
            Value::Object(entries) => entries
                .iter()
                .map(|(key, entry)| match self.value(entry, scope, room) {
                    Ok(entry) => Ok((key.clone(), entry)),
                    Err(error) => Err(error.below(key)),
                })
                .collect(),
        }
    }
}

/// The template language. `strictness` decides how a name that does not exist is treated.
///
/// Only for templates that went through [`readable_text`] or [`readable_expression`], which add what bounds the size of
/// values.
pub fn language(strictness: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(strictness);
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    // With this, errors carry the piece of the template that failed.
    environment.set_debug(true);
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        environment.set_syntax(syntax);
    }
    // `debug` prints internals. `namespace` lets a loop nest values without limit.
    environment.remove_global("debug");
    environment.remove_global("namespace");
    environment.set_formatter(view::format_value);
    bounds::add(&mut environment);
    filters::add(&mut environment);
    environment
}

/// A template rewritten so that [`language`] may run it.
///
/// # Errors
///
/// [`TemplateError`] if it is too long, or names another template.
pub fn readable_text(template: &str) -> Result<String, TemplateError> {
    Source::of_text(template).map(|source| source.rewritten)
}

/// An expression rewritten so that [`language`] may run it.
///
/// # Errors
///
/// [`TemplateError`] if it is too long.
pub fn readable_expression(expression: &str) -> Result<String, TemplateError> {
    Source::of_expression(expression).map(|source| source.rewritten)
}

/// Whether an error of [`language`] says that a limit of size was reached.
pub fn is_too_large(error: &minijinja::Error) -> bool {
    bounds::is_too_large(error)
}

/// The names that the template strings in `value` read. Checks the syntax, and that every filter and test exists.
///
/// # Errors
///
/// [`TemplateError`] for the first template that cannot be parsed.
pub fn references(value: &Value) -> Result<References, TemplateError> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(References::default()),
        Value::String(text) => references_of_text(text),
        Value::Array(items) => {
            let mut all = References::default();
            for (at, item) in items.iter().enumerate() {
                all.merge(references(item).map_err(|error| error.below(&format!("[{at}]")))?);
            }
            Ok(all)
        }
        Value::Object(entries) => {
            let mut all = References::default();
            for (key, entry) in entries {
                all.merge(references(entry).map_err(|error| error.below(key))?);
            }
            Ok(all)
        }
    }
}

/// The names that one template reads; see [`references`].
///
/// # Errors
///
/// [`TemplateError`] if it cannot be parsed.
pub fn references_of_text(template: &str) -> Result<References, TemplateError> {
    if !is_template(template) {
        return Ok(References::default());
    }
    let source = Source::of_text(template)?;
    let undeclared = CHECKER
        .environment
        .template_from_named_str("template", &source.rewritten)
        .map_err(|error| TemplateError::of_syntax(&error, template))?
        .undeclared_variables(false);
    source.check_filters(&CHECKER.environment, template)?;
    Ok(source.references(undeclared, &CHECKER.environment))
}

/// The names that one expression, written without `{{ }}`, reads; see [`references`].
///
/// # Errors
///
/// [`TemplateError`] if it cannot be parsed.
pub fn references_of_expression(expression: &str) -> Result<References, TemplateError> {
    let source = Source::of_expression(expression)?;
    let undeclared = CHECKER
        .environment
        .compile_expression(&source.rewritten)
        .map_err(|error| TemplateError::of_syntax(&error, expression))?
        .undeclared_variables(false);
    source.check_filters(&CHECKER.environment, expression)?;
    Ok(source.references(undeclared, &CHECKER.environment))
}

/// Parses templates without filling them in; it keeps nothing of any plan.
static CHECKER: LazyLock<Templates> = LazyLock::new(Templates::new);

/// A writer that accepts text up to the limit and refuses the rest.
struct Capped {
    text: Vec<u8>,
}

impl io::Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > OUTPUT_BYTES_MAX {
            return Err(io::Error::other(view::TOO_LARGE));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
