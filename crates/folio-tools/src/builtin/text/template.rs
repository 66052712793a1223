//! Templates and expressions, in the language that plans use.

use std::io;
use std::sync::LazyLock;

use folio_engine::template::{self, TemplateError};
use minijinja::value::{Serde, Value as Seen};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::Value;

use super::given::Given;
use super::room::Room;
use crate::response::{FailureKind, ToolError};

/// Built once: creating an environment costs more than most templates.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = template::language(UndefinedBehavior::SemiStrict);
    environment.set_recursion_limit(64);
    environment
});

/// The environment, with its lifetime shortened to that of the values read with it.
fn environment<'a>() -> &'a Environment<'a> {
    &ENVIRONMENT
}

fn to_template_value(value: &Value) -> Seen {
    Seen::from(Serde(value))
}

pub(super) fn fill_in(given: &Given<'_>) -> Result<Value, ToolError> {
    let Some(text) = given.text("template") else {
        return Err(given.wrong("`template` is missing"));
    };
    let mut names = data(given);
    if let Some(value) = given.value() {
        names.push(("value".to_owned(), to_template_value(value)));
    }
    let readable = template::readable_text(text).map_err(|error| unreadable(given, &error))?;
    let template = Template::new(given, &readable)?;
    template.text(names, &mut given.room("text")).map(Value::String)
}

/// Fills in the template for every item, with `item` and `index` (counted from 1).
pub(super) fn fill_in_each(given: &Given<'_>, items: &[Value], text: &str) -> Result<Value, ToolError> {
    let readable = template::readable_text(text).map_err(|error| unreadable(given, &error))?;
    let template = Template::new(given, &readable)?;
    let shared = data(given);
    let mut room = given.room("text");
    let mut texts = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        given.check_wanted()?;
        let text = template.text(with_item(&shared, index, item), &mut room)?;
        texts.push(Value::String(text));
    }
    Ok(Value::Array(texts))
}

/// Keeps the items for which the expression holds.
pub(super) fn filter_items(given: &Given<'_>, items: &[Value], expression: &str) -> Result<Value, ToolError> {
    let failed = |error: &Error| given.wrong(&format!("`where` {}", explained(error)));
    let readable = template::readable_expression(expression).map_err(|error| unreadable(given, &error))?;
    let compiled = environment()
        .compile_expression(&readable)
        .map_err(|error| failed(&error))?;
    let shared = data(given);
    let mut kept = Vec::new();
    for (index, item) in items.iter().enumerate() {
        given.check_wanted()?;
        let result = compiled
            .eval(names(with_item(&shared, index, item)))
            .map_err(|error| too_large(given, &error).unwrap_or_else(|| failed(&error)))?;
        if result.is_true() {
            kept.push(item.clone());
        }
    }
    Ok(Value::Array(kept))
}

fn data(given: &Given<'_>) -> Vec<(String, Seen)> {
    match given.get("data") {
        Some(Value::Object(data)) => data
            .iter()
            .map(|(name, value)| (name.clone(), to_template_value(value)))
            .collect(),
        _ => Vec::new(),
    }
}

fn with_item(shared: &[(String, Seen)], index: usize, item: &Value) -> Vec<(String, Seen)> {
    let mut names = shared.to_vec();
    names.push(("item".to_owned(), to_template_value(item)));
    names.push(("index".to_owned(), Seen::from(index + 1)));
    names
}

fn names(names: Vec<(String, Seen)>) -> Seen {
    Seen::from_pairs(names)
}

struct Template<'a> {
    compiled: minijinja::Template<'a, 'a>,
    given: &'a Given<'a>,
}

impl<'a> Template<'a> {
    fn new(given: &'a Given<'a>, readable: &'a str) -> Result<Self, ToolError> {
        let compiled = environment()
            .template_from_str(readable)
            .map_err(|error| given.wrong(&explained(&error)))?;
        Ok(Self { compiled, given })
    }

    fn text(&self, with: Vec<(String, Seen)>, room: &mut Room<'_>) -> Result<String, ToolError> {
        let mut sink = Capped {
            text: Vec::new(),
            bytes_max: room.left(),
            full: false,
        };
        match self.compiled.render_captured_to(names(with), &mut sink) {
            Ok(_) => {
                room.take(sink.text.len())?;
                Ok(String::from_utf8_lossy(&sink.text).into_owned())
            }
            Err(_) if sink.full => Err(room.full()),
            Err(error) => Err(too_large(self.given, &error).unwrap_or_else(|| self.given.wrong(&explained(&error)))),
        }
    }
}

fn unreadable(given: &Given<'_>, error: &TemplateError) -> ToolError {
    given.wrong(&format!("cannot be filled in: {error}"))
}

/// The error for a template or expression whose intermediate values are too large.
fn too_large(given: &Given<'_>, error: &Error) -> Option<ToolError> {
    let message = || format!("text {}: its intermediate texts and lists are too long", given.op);
    template::is_too_large(error).then(|| ToolError::new(FailureKind::TooLarge, "output_too_large", message()))
}

/// Explains what is wrong with a template, and where.
fn explained(error: &Error) -> String {
    let line = match error.line() {
        Some(line) if line > 1 => format!("line {line}: "),
        _ => String::new(),
    };
    let problem = match (error.kind(), error.detail()) {
        (ErrorKind::UndefinedError, Some(detail)) => detail.to_owned(),
        (ErrorKind::UndefinedError, None) => "a name in it does not exist".to_owned(),
        (ErrorKind::OutOfFuel, _) => "it takes too many steps".to_owned(),
        (kind, None) => kind.to_string(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
    };
    format!("cannot be filled in: {line}{problem}")
}

/// Takes text up to a limit and refuses the rest.
struct Capped {
    text: Vec<u8>,
    bytes_max: usize,
    full: bool,
}

impl io::Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > self.bytes_max {
            self.full = true;
            return Err(io::Error::other("the text is too long"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
