//! `text`: computes with texts and lists.

mod given;
mod lists;
mod order;
mod room;
mod strings;
mod template;

use async_trait::async_trait;
use folio_memory::counted::counted;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::given::Given;
use crate::blocking::blocking;
use crate::context::ToolContext;
use crate::registry::json_bytes;
use crate::response::{ToolError, ToolResponse};
use crate::tool::{ArgKind, CallArgs, Effect, Mistake, Need, Tool, ToolRequest, ToolSpec};

/// The largest arguments, in bytes as JSON, of an operation that is carried out at once.
const QUICK_BYTES: u64 = 16 * 1024;

/// The operations, and what each needs.
const OPS: &[(&str, &str)] = &[
    ("echo", "`value`"),
    ("template", "`template` filled in with `data` and `value`"),
    ("count", "items, or of a text what `of` says"),
    ("split", "a text at `by`, or at white space"),
    ("lines", "of a text"),
    ("join", "a list with `by` between, or line ends"),
    ("concat", "`values`, or the lists or texts in `value`, into one"),
    ("slice", "items or characters `from` (counted from 0) to before `to`"),
    ("head_tail", "the first `head` and last `tail` items or lines"),
    ("sort", "`by` a field, `desc`"),
    ("top", "the `n` largest `by` a field"),
    ("unique", "`by` a field"),
    (
        "filter",
        "where `where` holds, or `field` `equals`, is `in`, or `matches`",
    ),
    ("map", "of each item `field`, `fields`, or the filled-in `template`"),
    (
        "group_count",
        "how many of each, `by` a field, as [{key, count}], most first",
    ),
    ("sum", "of numbers, `by` a field"),
    ("json_parse", "a text as JSON"),
];

/// Computes with texts and lists.
#[derive(Debug)]
pub(super) struct Text {
    spec: ToolSpec,
}

impl Default for Text {
    fn default() -> Self {
        let ops: Vec<&str> = OPS.iter().map(|(op, _)| *op).collect();
        let descriptions: Vec<String> = OPS
            .iter()
            .map(|(op, description)| format!("{op}: {description}"))
            .collect();
        Self {
            spec: ToolSpec::new(
                "text",
                Effect::Pure,
                format!(
                    "Computes with a text or a list, `value`. Operations: {}. A field may be a path as `a.b.0`.",
                    descriptions.join("; ")
                ),
            )
            .returns("Returns the result in `value`.")
            .needed(Need::Seldom)
            .required("op", ArgKind::one_of(&ops), "What to do.")
            .optional("value", ArgKind::Any, "The text, list or object.")
            .optional("values", ArgKind::List, "concat: the parts.")
            .optional(
                "template",
                ArgKind::Text,
                "Jinja, with `value` and the names of `data`; in map `item` and `index`.",
            )
            .optional("data", ArgKind::Object, "More names for templates.")
            .optional("by", ArgKind::Text, "The field, or the text between.")
            .optional("desc", ArgKind::Flag, "sort: the largest first.")
            .optional("n", ArgKind::Count, "top: how many, default 10.")
            .optional("field", ArgKind::Text, "filter, map: a field.")
            .optional("fields", ArgKind::Texts, "map: several.")
            .optional("where", ArgKind::Text, "filter: as `item.bytes > 1000`.")
            .optional("equals", ArgKind::Any, "filter: the value of the field.")
            .optional("in", ArgKind::List, "filter: values of the field.")
            .optional("matches", ArgKind::Text, "filter: a regular expression.")
            .optional(
                "of",
                ArgKind::one_of(&["chars", "words", "lines", "bytes"]),
                "count: of a text.",
            )
            .optional("from", ArgKind::Count, "slice: the first.")
            .optional("to", ArgKind::Count, "slice: where to stop.")
            .optional("head", ArgKind::Count, "Default: 20.")
            .optional("tail", ArgKind::Count, "Default: 20."),
        }
    }
}

#[async_trait]
impl Tool for Text {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn mistakes(&self, args: CallArgs<'_>) -> Vec<Mistake> {
        given::mistakes(args)
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        let bytes_max = usize::try_from(context.limits.output_bytes).unwrap_or(usize::MAX);
        let computed = if is_quick(&request.args) {
            compute(&request.args, bytes_max, &context.cancel)
        } else {
            let args = request.args.clone();
            blocking(&context.cancel, move |cancel| compute(&args, bytes_max, cancel)).await
        };
        match computed {
            Ok(value) => {
                let notes = summarize_result(&value);
                ToolResponse::ok(request, json!({"value": value}), notes)
            }
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}

/// Whether the operation takes so little time that the thread that drives tasks can do it. A template, an expression
/// or a pattern may take long, whatever its length.
fn is_quick(args: &Value) -> bool {
    let has = |name: &str| args.get(name).is_some_and(|value| !value.is_null());
    !["template", "where", "matches"].into_iter().any(has) && json_bytes(args) <= QUICK_BYTES
}

/// Carries out one operation, which makes at most `bytes_max` bytes, and ends soon once `cancel` is cancelled.
fn compute(args: &Value, bytes_max: usize, cancel: &CancellationToken) -> Result<Value, ToolError> {
    let given = Given::new(args, bytes_max, cancel);
    match given.op {
        "echo" => Ok(given.value().cloned().unwrap_or_default()),
        "template" => template::fill_in(&given),
        "count" => strings::count(&given),
        "split" => strings::split(&given),
        "lines" => strings::lines(&given),
        "join" => strings::join(&given),
        "concat" => strings::concat(&given),
        "slice" => strings::slice(&given),
        "head_tail" => strings::head_tail(&given),
        "sort" => lists::sort(&given),
        "top" => lists::top(&given),
        "unique" => lists::unique(&given),
        "filter" => lists::filter(&given),
        "map" => lists::map(&given),
        "group_count" => lists::group_count(&given),
        "sum" => lists::sum(&given),
        "json_parse" => strings::json_parse(&given),
        other => Err(ToolError::invalid(format!("text: there is no operation `{other}`"))),
    }
}

/// One line about a result.
fn summarize_result(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => counted(text.chars().count() as u64, "character"),
        Value::Array(items) => counted(items.len() as u64, "item"),
        Value::Object(fields) => counted(fields.len() as u64, "field"),
    }
}

#[cfg(test)]
mod tests;
