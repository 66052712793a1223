//! JSON Schemas of plans and tools, applied within a bound: with references that are followed along several ways, the
//! work can double with each of them, so that a schema of forty lines would never be done.

use std::collections::HashMap;

use jsonschema::{PatternOptions, ValidationError, Validator};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::expression::COMPILED_BYTES_MAX;

/// How many places of a schema may be applied to places of a value, all in all: a tenth of a second of work.
const STEPS_MAX: u64 = 2_000_000;

/// How deeply schemas may be applied within each other, references included. This bounds the stack.
const DEPTH_MAX: usize = 1_000;

/// How often an expression that needs it may go back, for each text.
const BACKTRACK_MAX: usize = 10_000;

/// How many regular expressions a schema may have. Each may take milliseconds to compile.
const EXPRESSIONS_MAX: usize = 200;

/// How many steps such an expression counts as, for each text.
const BACKTRACK_STEPS: u64 = 500;

/// Where the schemas are that a schema may refer to without containing them: those that describe schemas.
const META_SCHEMAS: [&str; 2] = ["https://json-schema.org/", "http://json-schema.org/"];

/// What applying one of those counts as, for each part of the value.
const META_STEPS: u64 = 20;

/// A schema that can be used.
#[derive(Debug)]
pub struct JsonSchema<'s> {
    schema: &'s Value,
    validator: Validator,
    /// What matching one text counts as.
    pattern_steps: u64,
}

/// Why a schema is not applied to a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unbounded {
    /// It would take too long.
    #[error(
        "checking it against its JSON Schema takes more than {STEPS_MAX} steps; make the schema or the value smaller"
    )]
    TooCostly,
    /// It is not known how long it would take.
    #[error("the JSON Schema refers to `{0}`, which is not part of it")]
    Reference(String),
}

impl<'s> JsonSchema<'s> {
    /// Prepares `schema`.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn new(schema: &'s Value) -> Result<Self, Box<ValidationError<'static>>> {
        if expression_count(schema) > EXPRESSIONS_MAX {
            let message = format!("it has more than {EXPRESSIONS_MAX} regular expressions");
            return Err(Box::new(ValidationError::custom(message)));
        }
        let options = PatternOptions::regex().size_limit(COMPILED_BYTES_MAX);
        let linear = jsonschema::options().with_pattern_options(options).build(schema);
        let (validator, pattern_steps) = match linear {
            Ok(validator) => (validator, 1),
            // Perhaps only because of an expression that looks around or back, which takes another engine.
            Err(_) => {
                let options = PatternOptions::fancy_regex()
                    .size_limit(COMPILED_BYTES_MAX)
                    .backtrack_limit(BACKTRACK_MAX);
                let validator = jsonschema::options().with_pattern_options(options).build(schema);
                (validator.map_err(|error| Box::new(error.to_owned()))?, BACKTRACK_STEPS)
            }
        };
        Ok(Self {
            schema,
            validator,
            pattern_steps,
        })
    }

    /// What is wrong with `value`.
    ///
    /// # Errors
    ///
    /// [`Unbounded`].
    pub fn errors<'v>(&'v self, value: &'v Value) -> Result<impl Iterator<Item = ValidationError<'v>> + 'v, Unbounded> {
        let mut cost = Cost::new(self.schema, self.pattern_steps);
        cost.of(self.schema, value, 0)?;
        Ok(self.validator.iter_errors(value))
    }

    /// The first `max` things that are wrong with `value`, each with its place unless that is the whole value.
    ///
    /// # Errors
    ///
    /// [`Unbounded`].
    pub fn mistakes(&self, value: &Value, max: usize) -> Result<Vec<String>, Unbounded> {
        let describe = |error: ValidationError<'_>| match error.instance_path().as_str() {
            "" => error.to_string(),
            at => format!("{at}: {error}"),
        };
        Ok(self.errors(value)?.take(max).map(describe).collect())
    }
}

/// Counts what a validator would do at the most: it goes the same ways, as if nothing ever ended one of them early.
struct Cost<'s> {
    root: &'s Value,
    /// Places that references name other than by their path.
    named: HashMap<&'s str, Vec<&'s Value>>,
    has_dynamic_anchor: bool,
    pattern_steps: u64,
    spent: u64,
}

impl<'s> Cost<'s> {
    fn new(root: &'s Value, pattern_steps: u64) -> Self {
        let mut named = HashMap::new();
        find_names(root, &mut named);
        Self {
            root,
            named,
            has_dynamic_anchor: has_keyword(root, "$dynamicAnchor") || has_keyword(root, "$recursiveAnchor"),
            pattern_steps,
            spent: 0,
        }
    }

    fn spend(&mut self, steps: u64) -> Result<(), Unbounded> {
        self.spent = self.spent.saturating_add(steps);
        if self.spent > STEPS_MAX {
            Err(Unbounded::TooCostly)
        } else {
            Ok(())
        }
    }

    /// Adds what applying `schema` to `value` costs.
    fn of(&mut self, schema: &'s Value, value: &Value, depth: usize) -> Result<(), Unbounded> {
        self.spend(1)?;
        if depth >= DEPTH_MAX {
            return Err(Unbounded::TooCostly);
        }
        let Value::Object(keywords) = schema else {
            return Ok(());
        };
        let before = self.spent;
        for (keyword, part) in keywords {
            self.of_keyword(keyword, part, value, depth + 1)?;
        }
        // What is evaluated otherwise is found out for each part of the value.
        let is_repeated = keywords.contains_key("unevaluatedProperties") || keywords.contains_key("unevaluatedItems");
        if is_repeated {
            let parts = value
                .as_array()
                .map_or_else(|| value.as_object().map_or(0, Map::len), Vec::len);
            self.spend((self.spent - before).saturating_mul(parts as u64))?;
        }
        Ok(())
    }

    fn of_keyword(&mut self, keyword: &str, part: &'s Value, value: &Value, depth: usize) -> Result<(), Unbounded> {
        match (keyword, part) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                self.of_reference(reference, value, depth)
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                parts.iter().try_for_each(|part| self.of(part, value, depth))
            }
            ("not" | "if" | "then" | "else", part) => self.of(part, value, depth),
            ("dependentSchemas" | "dependencies", Value::Object(parts)) => {
                parts.values().try_for_each(|part| self.of(part, value, depth))
            }
            ("enum", Value::Array(options)) => self.spend(options.len() as u64),
            ("required", Value::Array(names)) => self.spend(names.len() as u64),
            ("pattern", _) => match value {
                Value::String(text) => self.spend(self.pattern_steps.saturating_mul(1 + text.len() as u64 / 256)),
                _ => Ok(()),
            },
            (_, part) => match value {
                Value::Object(fields) => self.of_fields(keyword, part, fields, depth),
                Value::Array(items) => self.of_items(keyword, part, items, depth),
                _ => Ok(()),
            },
        }
    }

    fn of_fields(
        &mut self,
        keyword: &str,
        part: &'s Value,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Result<(), Unbounded> {
        match (keyword, part) {
            ("properties", Value::Object(parts)) => {
                self.spend(parts.len() as u64)?;
                let both = parts.iter().filter_map(|(name, part)| Some((part, fields.get(name)?)));
                both.into_iter()
                    .try_for_each(|(part, value)| self.of(part, value, depth))
            }
            ("patternProperties", Value::Object(parts)) => parts.values().try_for_each(|part| {
                self.spend(self.pattern_steps.saturating_mul(fields.len() as u64))?;
                fields.values().try_for_each(|value| self.of(part, value, depth))
            }),
            ("additionalProperties" | "unevaluatedProperties", part) => {
                fields.values().try_for_each(|value| self.of(part, value, depth))
            }
            ("propertyNames", part) => {
                let mut names = fields.keys().map(|name| Value::from(name.as_str()));
                names.try_for_each(|name| self.of(part, &name, depth))
            }
            _ => Ok(()),
        }
    }

    fn of_items(&mut self, keyword: &str, part: &'s Value, items: &[Value], depth: usize) -> Result<(), Unbounded> {
        match (keyword, part) {
            ("items" | "prefixItems", Value::Array(parts)) => {
                let mut both = parts.iter().zip(items);
                both.try_for_each(|(part, item)| self.of(part, item, depth))
            }
            ("items" | "additionalItems" | "contains" | "unevaluatedItems", part) => {
                items.iter().try_for_each(|item| self.of(part, item, depth))
            }
            ("uniqueItems", Value::Bool(true)) => self.spend(items.len() as u64),
            _ => Ok(()),
        }
    }

    fn of_reference(&mut self, reference: &'s str, value: &Value, depth: usize) -> Result<(), Unbounded> {
        if META_SCHEMAS.iter().any(|start| reference.starts_with(start)) {
            // Each keyword is described in one place only, unless a schema takes their part.
            return match self.has_dynamic_anchor {
                true => Err(Unbounded::Reference(reference.to_owned())),
                false => self.spend(size_of(value).saturating_mul(META_STEPS)),
            };
        }
        let targets = self.targets(reference);
        if targets.is_empty() {
            return Err(Unbounded::Reference(reference.to_owned()));
        }
        targets.into_iter().try_for_each(|part| self.of(part, value, depth))
    }

    /// What `reference` may name: of several schemas of that name it is not found out which one.
    fn targets(&self, reference: &str) -> Vec<&'s Value> {
        let decoded = percent_decode_str(reference).decode_utf8_lossy();
        let (document, fragment) = decoded.split_once('#').unwrap_or((&decoded, ""));
        let documents = match document {
            "" => vec![self.root],
            document => self.named.get(last_of(document)).cloned().unwrap_or_default(),
        };
        match fragment {
            "" => documents,
            path if path.starts_with('/') => documents.iter().filter_map(|schema| schema.pointer(path)).collect(),
            anchor => self.named.get(anchor).cloned().unwrap_or_default(),
        }
    }
}

/// The last part of the name of a schema.
fn last_of(name: &str) -> &str {
    let name = name.strip_suffix('#').unwrap_or(name);
    name.rsplit(['#', '/']).next().unwrap_or_default()
}

/// Notes each schema below `schema` that has a name, under the last part of it.
fn find_names<'s>(schema: &'s Value, named: &mut HashMap<&'s str, Vec<&'s Value>>) {
    match schema {
        Value::Object(keywords) => {
            for keyword in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                if let Some(name) = keywords.get(keyword).and_then(Value::as_str) {
                    named.entry(last_of(name)).or_default().push(schema);
                }
            }
            keywords.values().for_each(|part| find_names(part, named));
        }
        Value::Array(parts) => parts.iter().for_each(|part| find_names(part, named)),
        _ => {}
    }
}

/// How many regular expressions `schema` has.
pub(crate) fn expression_count(schema: &Value) -> usize {
    match schema {
        Value::Object(keywords) => {
            let own = usize::from(keywords.contains_key("pattern"));
            let named = keywords
                .get("patternProperties")
                .and_then(Value::as_object)
                .map_or(0, Map::len);
            own + named + keywords.values().map(expression_count).sum::<usize>()
        }
        Value::Array(parts) => parts.iter().map(expression_count).sum(),
        _ => 0,
    }
}

/// Whether `keyword` occurs anywhere in `schema`.
fn has_keyword(schema: &Value, keyword: &str) -> bool {
    match schema {
        Value::Object(parts) => parts.contains_key(keyword) || parts.values().any(|part| has_keyword(part, keyword)),
        Value::Array(parts) => parts.iter().any(|part| has_keyword(part, keyword)),
        _ => false,
    }
}

/// How many values `value` consists of.
fn size_of(value: &Value) -> u64 {
    1 + match value {
        Value::Object(fields) => fields.values().map(size_of).sum(),
        Value::Array(items) => items.iter().map(size_of).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(schema: &Value, value: &Value) -> Result<bool, Unbounded> {
        let schema = JsonSchema::new(schema).unwrap();
        Ok(schema.errors(value)?.next().is_none())
    }

    /// `value` inside `depth` objects.
    fn nested(depth: usize, value: Value) -> Value {
        (0..depth).fold(value, |inner, _| json!({ "a": inner }))
    }

    #[test]
    fn schema_whose_references_double_the_work_with_each_level_is_refused_in_time() {
        for (keyword, others) in [("allOf", ""), ("anyOf", ""), ("oneOf", ""), ("if", "then")] {
            let mut defs = Map::new();
            defs.insert("d0".to_owned(), json!({"type": "string"}));
            for n in 1..40 {
                let below = json!({"$ref": format!("#/$defs/d{}", n - 1)});
                let def = match others {
                    "" => json!({keyword: [below, below]}),
                    other => json!({keyword: below, other: below}),
                };
                defs.insert(format!("d{n}"), def);
            }
            let schema = json!({"$defs": defs, "$ref": "#/$defs/d39"});
            assert_eq!(outcome(&schema, &json!("x")), Err(Unbounded::TooCostly), "{keyword}");
        }
    }

    #[test]
    fn schema_that_contains_itself_twice_is_refused_for_deep_values_only() {
        let twice =
            json!({"allOf": [{"additionalProperties": {"$ref": "#"}}, {"additionalProperties": {"$ref": "#"}}]});
        assert_eq!(outcome(&twice, &nested(5, json!(1))), Ok(true));
        assert_eq!(outcome(&twice, &nested(45, json!(1))), Err(Unbounded::TooCostly));
        let by_anchor = json!({"$anchor": "it", "allOf": [{"items": {"$ref": "#it"}}, {"items": {"$ref": "#it"}}]});
        let deep = (0..45).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(outcome(&by_anchor, &deep), Err(Unbounded::TooCostly));
        let unevaluated =
            json!({"unevaluatedProperties": {"$ref": "#"}, "allOf": [{"additionalProperties": {"$ref": "#"}}]});
        assert_eq!(outcome(&unevaluated, &nested(45, json!(1))), Err(Unbounded::TooCostly));
    }

    #[test]
    fn schema_that_refers_to_itself_at_the_same_place_is_refused() {
        let schema =
            json!({"$defs": {"a": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"});
        assert_eq!(outcome(&schema, &json!(1)), Err(Unbounded::TooCostly));
    }

    #[test]
    fn usual_schemas_of_large_values_are_checked() {
        let schema = json!({
            "$id": "https://example.com/tree.json",
            "$defs": {"node": {
                "type": "object",
                "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"},
                               "children": {"type": "array", "items": {"$ref": "tree.json#/$defs/node"}}},
                "required": ["name"],
            }},
            "type": "array",
            "items": {"$ref": "#/$defs/node"},
        });
        let leaf = |name: &str| json!({"name": name, "children": [{"name": "x"}, {"name": "y", "children": []}]});
        let mut list: Vec<Value> = (0..5_000).map(|_| leaf("leaf")).collect();
        assert_eq!(outcome(&schema, &Value::from(list.clone())), Ok(true));
        list.push(leaf("NO"));
        assert_eq!(outcome(&schema, &Value::from(list)), Ok(false));
    }

    #[test]
    fn expression_that_looks_back_is_checked_within_a_bound() {
        let schema = json!({"items": {"type": "string", "pattern": "^(?:(a+)+)\\1$(?<!x)"}});
        assert_eq!(outcome(&schema, &json!(["aa", "aaaa"])), Ok(true));
        assert_eq!(outcome(&schema, &json!(["b"])), Ok(false));
        let many = Value::from(vec!["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"; 5_000]);
        assert_eq!(outcome(&schema, &many), Err(Unbounded::TooCostly));
    }

    #[test]
    fn schema_of_schemas_can_be_referred_to_unless_something_takes_its_part() {
        let meta = "https://json-schema.org/draft/2020-12/schema";
        let schema = json!({ "$ref": meta });
        assert_eq!(outcome(&schema, &json!({"type": "string"})), Ok(true));
        assert_eq!(outcome(&schema, &json!({"type": 1})), Ok(false));
        let hijacked = json!({"$dynamicAnchor": "meta", "allOf": [{"$ref": meta}, {"$ref": meta}]});
        assert_eq!(
            outcome(&hijacked, &json!({})),
            Err(Unbounded::Reference(meta.to_owned()))
        );
    }
}
