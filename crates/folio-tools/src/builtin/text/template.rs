//! Templates and expressions, in the language that plans use.

use std::io;
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value as Seen, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::Value;

use super::given::Given;
use crate::response::{FailureKind, ToolError};

/// Steps of work of one template.
const FUEL: u64 = 5_000_000;
/// Bytes of one template.
const TEMPLATE_BYTES_MAX: usize = 64 * 1024;

/// Built once: making one costs more than most templates.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(64);
    environment.set_formatter(|out, state, value| match value.kind() {
        ValueKind::None => out.write_str("null").map_err(Error::from),
        ValueKind::Bool => out
            .write_str(if value.is_true() { "true" } else { "false" })
            .map_err(Error::from),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => out.write_str(&json_text(value)?).map_err(Error::from),
        _ => minijinja::escape_formatter(out, state, value),
    });
    // `debug` prints internals. `namespace` lets a loop make values of any size.
    environment.remove_global("debug");
    environment.remove_global("namespace");
    environment.add_filter("json", |value: &Seen| json_text(value));
    environment.add_filter("tojson", |value: &Seen| json_text(value));
    environment
});

fn environment<'a>() -> &'a Environment<'a> {
    &ENVIRONMENT
}

fn seen(value: &Value) -> Seen {
    Seen::from(Serde(value))
}

fn json_text(value: &Seen) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

pub(super) fn fill_in(given: &Given<'_>, bytes_max: usize) -> Result<Value, ToolError> {
    let Some(text) = given.text("template") else {
        return Err(given.wrong("`template` is missing"));
    };
    let mut names = data(given);
    if let Some(value) = given.value() {
        names.push(("value".to_owned(), seen(value)));
    }
    let template = Template::new(given, text)?;
    template.text(names, bytes_max).map(Value::String)
}

/// The template filled in for every item, with `item` and `index` (counted from 1).
pub(super) fn fill_in_each(
    given: &Given<'_>,
    items: &[Value],
    text: &str,
    bytes_max: usize,
) -> Result<Value, ToolError> {
    let template = Template::new(given, text)?;
    let shared = data(given);
    let mut room = bytes_max;
    let mut texts = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let text = template.text(with_item(&shared, index, item), room)?;
        room -= text.len();
        texts.push(Value::String(text));
    }
    Ok(Value::Array(texts))
}

/// The items for which the expression holds.
pub(super) fn keep(given: &Given<'_>, items: &[Value], expression: &str) -> Result<Value, ToolError> {
    let failed = |error: &Error| given.wrong(&format!("`where` {}", explained(error)));
    check_length(given, expression)?;
    let compiled = environment()
        .compile_expression(expression)
        .map_err(|error| failed(&error))?;
    let shared = data(given);
    let mut kept = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let holds = compiled
            .eval(names(with_item(&shared, index, item)))
            .map_err(|error| failed(&error))?;
        if holds.is_true() {
            kept.push(item.clone());
        }
    }
    Ok(Value::Array(kept))
}

fn data(given: &Given<'_>) -> Vec<(String, Seen)> {
    match given.get("data") {
        Some(Value::Object(data)) => data.iter().map(|(name, value)| (name.clone(), seen(value))).collect(),
        _ => Vec::new(),
    }
}

fn with_item(shared: &[(String, Seen)], index: usize, item: &Value) -> Vec<(String, Seen)> {
    let mut names = shared.to_vec();
    names.push(("item".to_owned(), seen(item)));
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
    fn new(given: &'a Given<'a>, text: &'a str) -> Result<Self, ToolError> {
        check_length(given, text)?;
        let compiled = environment()
            .template_from_str(text)
            .map_err(|error| given.wrong(&explained(&error)))?;
        Ok(Self { compiled, given })
    }

    fn text(&self, with: Vec<(String, Seen)>, bytes_max: usize) -> Result<String, ToolError> {
        let mut sink = Capped {
            text: Vec::new(),
            bytes_max,
            full: false,
        };
        match self.compiled.render_captured_to(names(with), &mut sink) {
            Ok(_) => Ok(String::from_utf8_lossy(&sink.text).into_owned()),
            Err(_) if sink.full => Err(ToolError::new(
                FailureKind::TooLarge,
                "output_too_large",
                format!("text {}: the text is more than {bytes_max} bytes", self.given.op),
            )),
            Err(error) => Err(self.given.wrong(&explained(&error))),
        }
    }
}

fn check_length(given: &Given<'_>, text: &str) -> Result<(), ToolError> {
    if text.len() > TEMPLATE_BYTES_MAX {
        return Err(given.wrong(&format!(
            "a template of {} bytes is longer than {TEMPLATE_BYTES_MAX}",
            text.len()
        )));
    }
    Ok(())
}

/// What is wrong with a template, and where.
fn explained(error: &Error) -> String {
    let line = match error.line() {
        Some(line) if line > 1 => format!("line {line}: "),
        _ => String::new(),
    };
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::UndefinedError, Some(detail)) => detail.to_owned(),
        (ErrorKind::UndefinedError, None) => "a name in it does not exist".to_owned(),
        (ErrorKind::OutOfFuel, _) => "it takes too many steps".to_owned(),
        (kind, None) => kind.to_string(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
    };
    format!("cannot be filled in: {line}{what}")
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
