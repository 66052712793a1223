//! Arguments of tools, as far as they are known before the run.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::LocationSegment;
use serde_json::{Map, Value, json};

use super::Validator;
use crate::argument::{ArgKind, CallArgs, ChoiceError, Fit, check_choice, coerce_to_schema, holds_template};
use crate::json_schema::JsonSchema;
use crate::plan::cursor::At;
use crate::plan::errors::code;
use crate::plan::spanned::Tree;
use crate::plan::{Call, KnownTool};

/// The most mistakes that are reported for one call.
const MISTAKES_MAX: usize = 20;

impl<'a> Validator<'a> {
    /// Reports the arguments of `call` that the tool does not accept, whatever its templates evaluate to.
    pub(super) fn arguments(&mut self, call: &Call, tool: &KnownTool, args_at: &At<'a>) {
        let errors_before = self.faults.errors.len();
        for name in tool
            .required
            .iter()
            .filter(|name| call.args.get(name.as_str()).is_none())
        {
            let message = format!("the tool `{}` needs the argument `{name}`", call.tool);
            self.faults.add(args_at, code::MISSING_ARGUMENT, message);
        }
        let none = Map::new();
        let written = CallArgs::in_plan(call.args.as_object().unwrap_or(&none));
        match check_choice(&tool.one_of, written) {
            Ok(()) => {}
            Err(ChoiceError::Missing(why)) => {
                let message = format!("the tool `{}` needs an argument: {why}", call.tool);
                self.faults.add(args_at, code::MISSING_ARGUMENT, message);
            }
            Err(ChoiceError::Several(why)) => {
                let message = format!("the tool `{}` does not accept this: {why}", call.tool);
                self.faults.add(args_at, code::BAD_ARGUMENT, message);
            }
        }
        let known = || tool.required.iter().chain(&tool.optional).map(String::as_str);
        for (name, value) in call.args.as_object().into_iter().flatten() {
            let at = args_at.key(name).unwrap_or_else(|| args_at.clone());
            if known().any(|known| known == name) {
                // Null counts as not given, unless the argument is required.
                let is_none = value.is_null() && !tool.required.contains(name);
                let kind = tool.kinds.get(name).filter(|_| !is_none && !holds_template(value));
                if let Some(kind) = kind.filter(|kind| kind.fit(value) == Fit::Wrong) {
                    let message = format!(
                        "the tool `{}` does not accept this: {}",
                        call.tool,
                        kind.refusal(name, value)
                    );
                    self.faults.add(&at, code::BAD_ARGUMENT, message);
                } else if matches!(kind, Some(ArgKind::Text | ArgKind::Words)) {
                    self.check_number_spelling(call, name, &at);
                }
                continue;
            }
            let message = format!("the tool `{}` has no argument `{name}`", call.tool);
            let hint = self
                .suggest_name(name, known())
                .unwrap_or_else(|| match known().count() {
                    0 => "it takes none".to_owned(),
                    _ => format!("its arguments: {}", known().collect::<Vec<_>>().join(", ")),
                });
            self.faults.add(&at, code::UNKNOWN_ARGUMENT, message).with_hint(hint);
        }
        // Runs only if every single argument is acceptable.
        if self.faults.errors.len() == errors_before {
            self.check_of(call, tool, args_at);
        }
    }

    /// Numbers that would be passed as texts other than what was written: `007`, `1.10`, `12e4567`.
    fn check_number_spelling(&mut self, call: &Call, name: &str, at: &At<'a>) {
        for at in at.items().unwrap_or_else(|| vec![at.clone()]) {
            let Tree::Number(number) = &at.node.tree else { continue };
            let Some(spelling) = number.spelling() else { continue };
            let message = format!(
                "the tool `{}` would take this as another text: `{name}` is written {spelling}, and read as {number}",
                call.tool
            );
            self.faults
                .add(&at, code::BAD_ARGUMENT, message)
                .with_hint("put it in quotes");
        }
    }

    /// Reports arguments of `call` that its tool does not accept together, or cannot parse.
    fn check_of(&mut self, call: &Call, tool: &KnownTool, args_at: &At<'a>) {
        let (Some(check), Some(args)) = (&tool.check, call.args.as_object()) else {
            return;
        };
        for mistake in check.mistakes(CallArgs::in_plan(args)) {
            let at = args_at.key(&mistake.argument).unwrap_or_else(|| args_at.clone());
            let message = format!("the tool `{}` does not accept this: {}", call.tool, mistake.why);
            self.faults.add(&at, code::BAD_ARGUMENT, message);
        }
    }

    /// Reports what the schema does not allow in `call`, whatever its templates evaluate to.
    pub(super) fn arguments_by_schema(&mut self, call: &Call, schema: &Value, args_at: &At<'a>) {
        // An unusable schema was rejected where the tool was declared; the tool itself still checks its arguments.
        let Ok(checks) = JsonSchema::new(schema) else {
            return;
        };
        let none = json!({});
        let args = if call.args.is_null() { &none } else { &call.args };
        let coerced = args
            .as_object()
            .and_then(|args| coerce_to_schema(schema, args))
            .map(Value::Object);
        for (name, value) in coerced.iter().flat_map(|coerced| coerced.as_object()).flatten() {
            if value.is_string()
                && let Some(at) = args_at.key(name)
            {
                self.check_number_spelling(call, name, &at);
            }
        }
        // If that takes too long, the call fails when it is made, and says so.
        let Ok(errors) = checks.errors(coerced.as_ref().unwrap_or(args)) else {
            return;
        };
        for error in errors.take(MISTAKES_MAX) {
            self.argument_by_schema(call, schema, args_at, args, &error);
        }
    }

    fn argument_by_schema(
        &mut self,
        call: &Call,
        schema: &Value,
        args_at: &At<'a>,
        args: &Value,
        error: &ValidationError<'_>,
    ) {
        let path = error.instance_path();
        let is_top = path.as_str().is_empty();
        match error.kind() {
            Kind::Required { property } if is_top => {
                let name = property.as_str().unwrap_or_default();
                let message = format!("the tool `{}` needs the argument `{name}`", call.tool);
                self.faults.add(args_at, code::MISSING_ARGUMENT, message);
            }
            Kind::AdditionalProperties { unexpected } if is_top => {
                let known = schema.get("properties").and_then(Value::as_object);
                let names = || known.into_iter().flat_map(|known| known.keys()).map(String::as_str);
                for name in unexpected {
                    let at = args_at.key(name).unwrap_or_else(|| args_at.clone());
                    let message = format!("the tool `{}` has no argument `{name}`", call.tool);
                    let hint = self
                        .suggest_name(name, names())
                        .unwrap_or_else(|| match names().count() {
                            0 => "it takes none".to_owned(),
                            _ => format!("its arguments: {}", names().collect::<Vec<_>>().join(", ")),
                        });
                    self.faults.add(&at, code::UNKNOWN_ARGUMENT, message).with_hint(hint);
                }
            }
            // The value of a template is known when the step is due; the call is checked again then.
            _ if args.pointer(path.as_str()).is_some_and(holds_template) => {}
            _ => {
                let mut at = args_at.clone();
                for segment in path {
                    let inner = match &segment {
                        LocationSegment::Property(name) => at.key(name),
                        LocationSegment::Index(index) => at.item(*index),
                    };
                    let Some(inner) = inner else { break };
                    at = inner;
                }
                let message = format!("the tool `{}` does not accept this: {error}", call.tool);
                self.faults.add(&at, code::BAD_ARGUMENT, message);
            }
        }
    }
}
