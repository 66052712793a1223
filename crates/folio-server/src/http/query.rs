//! Reading the query of a request, by the same schema that describes it in public.

use std::any::TypeId;
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use folio::memory::tool_exchange::least_of;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::problem::Problem;

/// The field for the minimum confidence.
const MIN_CONFIDENCE: &str = "min_confidence";

/// A query. Only the fields of its schema are accepted: a filter with a misspelled field must not return everything
/// (M7.2.13).
pub(crate) trait Fields: DeserializeOwned + JsonSchema + 'static {
    /// Whether it also accepts `context.<path>=VALUE`, which is stored under `context`.
    const TAKES_CONTEXT: bool = false;
}

/// A query without fields.
#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

impl Fields for Nothing {}

/// The query of a request.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<S: Send + Sync, T: Fields> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        check_encoding(parts.uri.query().unwrap_or_default())?;
        let query = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Query(pairs) = query.map_err(|error| Problem::invalid("query_invalid", error.body_text()))?;
        read(pairs).map(Self)
    }
}

/// Refuses what the decoder would take as some other text: a `%` that begins no encoded byte, and bytes that are not
/// UTF-8. A filter that is read as another one finds nothing, or the wrong things.
fn check_encoding(query: &str) -> Result<(), Problem> {
    for part in query.split(['&', '=']) {
        let is_encoded = |(at, _): (usize, &str)| {
            let digits = part.as_bytes().get(at + 1..at + 3);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        if !part.match_indices('%').all(is_encoded) || percent_decode_str(part).decode_utf8().is_err() {
            let detail = format!("{part:?} in the query is not percent-encoded UTF-8");
            return Err(Problem::invalid("query_invalid", detail).hint("write `%` itself as `%25`"));
        }
    }
    Ok(())
}

/// A field of a query, from its schema.
#[derive(Debug, Clone)]
struct Field {
    name: String,
    kind: Kind,
    min: Option<f64>,
    max: Option<f64>,
    choices: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Whole,
    Number,
    YesOrNo,
    /// A list of texts: the field given several times, or the texts separated by commas. A comma inside a text is
    /// written `\,`.
    Several,
}

/// The fields of each type of query.
static FIELD_CACHE: LazyLock<Mutex<HashMap<TypeId, Arc<[Field]>>>> = LazyLock::new(Mutex::default);

fn fields_of<T: Fields>() -> Arc<[Field]> {
    let mut known = FIELD_CACHE.lock();
    let fields = known.entry(TypeId::of::<T>()).or_insert_with(|| {
        let inline = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let schema = SchemaGenerator::new(inline).into_root_schema_for::<T>();
        let properties = schema.get("properties").and_then(Value::as_object);
        let field = |(name, schema): (&String, &Value)| field_of(name, schema);
        properties.into_iter().flatten().map(field).collect()
    });
    Arc::clone(fields)
}

fn field_of(name: &str, schema: &Value) -> Field {
    // An optional field is described as "this or null".
    let inner = schema["anyOf"]
        .as_array()
        .and_then(|variants| variants.first())
        .unwrap_or(schema);
    let kind = match &inner["type"] {
        Value::Array(types) => types.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    let choices = inner["enum"].as_array().into_iter().flatten();
    let choices = choices.chain(inner["oneOf"].as_array().into_iter().flatten().map(|one| &one["const"]));
    Field {
        name: name.to_owned(),
        kind: match kind {
            Some("integer") => Kind::Whole,
            Some("number") => Kind::Number,
            Some("boolean") => Kind::YesOrNo,
            Some("array") => Kind::Several,
            _ => Kind::Text,
        },
        min: inner["minimum"].as_f64(),
        max: inner["maximum"].as_f64(),
        choices: choices.filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

/// Returns the values between the commas of `text`, trimmed; `\,` is a comma inside a value.
fn values_in(text: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, values.last_mut()) {
            (',', _) => values.push(String::new()),
            ('\\', Some(value)) if chars.next_if_eq(&',').is_some() => value.push(','),
            (c, Some(value)) => value.push(c),
            (_, None) => {}
        }
    }
    let trimmed = values.iter().map(|value| value.trim());
    trimmed.filter(|value| !value.is_empty()).map(str::to_owned).collect()
}

fn read<T: Fields>(pairs: Vec<(String, String)>) -> Result<T, Problem> {
    let known = fields_of::<T>();
    let mut fields = Map::new();
    let mut context = Map::new();
    for (name, text) in pairs {
        if let Some(path) = name.strip_prefix("context.").filter(|_| T::TAKES_CONTEXT) {
            if path.is_empty() {
                let detail = format!("the query field {name:?} names no part of the context");
                return Err(Problem::invalid("query_invalid", detail).hint("write context.<path>=VALUE"));
            }
            if context.insert(path.to_owned(), Value::String(text)).is_some() {
                return Err(more_than_once(&name));
            }
            continue;
        }
        let field = known.iter().find(|field| field.name == name);
        let field = field.ok_or_else(|| unknown_field::<T>(&name, &known))?;
        if field.kind == Kind::Several {
            let values = values_in(&text);
            // An empty list is often an empty variable of the client, which did not mean everything.
            if values.is_empty() {
                return Err(empty_list_problem(&name, &text));
            }
            let place = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = place {
                list.extend(values.into_iter().map(Value::String));
            }
        } else if fields.contains_key(&name) {
            return Err(more_than_once(&name));
        } else {
            let value = field.read(&text)?;
            fields.insert(name, value);
        }
    }
    if T::TAKES_CONTEXT {
        fields.insert("context".to_owned(), Value::Object(context));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| {
        let detail = format!("the query cannot be read: {error}");
        Problem::invalid("query_invalid", detail)
    })
}

fn more_than_once(name: &str) -> Problem {
    let detail = format!("the query field {name:?} is given more than once");
    Problem::invalid("query_invalid", detail)
}

/// Refuses more than one of `fields`: they exclude one another, and only one would be used.
pub(crate) fn check_exclusive(fields: &[(&str, bool)]) -> Result<(), Problem> {
    let names: Vec<String> = fields
        .iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    match names.as_slice() {
        [] | [_] => Ok(()),
        names => {
            let detail = format!("{} cannot be combined", names.join(" and "));
            Err(Problem::invalid("query_invalid", detail).hint("use one of them at a time"))
        }
    }
}

fn unknown_field<T: Fields>(name: &str, known: &[Field]) -> Problem {
    let mut names: Vec<_> = known.iter().map(|field| field.name.as_str()).collect();
    if T::TAKES_CONTEXT {
        names.push("context.<path>");
    }
    let hint = match names.as_slice() {
        [] => "this path takes no query".to_owned(),
        names => format!("this path takes {}", names.join(", ")),
    };
    Problem::invalid("query_unknown", format!("the query field {name:?} is unknown")).hint(hint)
}

impl Field {
    fn read(&self, text: &str) -> Result<Value, Problem> {
        let value = match self.kind {
            Kind::Text | Kind::Several if self.choices.is_empty() || self.choices.iter().any(|known| known == text) => {
                Some(Value::String(text.to_owned()))
            }
            Kind::Text | Kind::Several => None,
            Kind::Whole => text.parse::<u64>().ok().map(Value::from),
            Kind::Number => self.number(text).filter(|number| number.is_finite()).map(Value::from),
            Kind::YesOrNo => match text {
                "" | "true" | "1" => Some(Value::Bool(true)),
                "false" | "0" => Some(Value::Bool(false)),
                _ => None,
            },
        };
        let is_in_range = |value: &Value| {
            let number = value.as_f64();
            number.is_none_or(|number| {
                self.min.is_none_or(|least| number >= least) && self.max.is_none_or(|most| number <= most)
            })
        };
        value
            .filter(is_in_range)
            .ok_or_else(|| invalid_value_problem(&self.name, text, &self.describe_values()))
    }

    /// Returns `text` as a number. A confidence may be given as a word, as when it is added (M7.3.21).
    fn number(&self, text: &str) -> Option<f64> {
        match text.parse() {
            Err(_) if self.name == MIN_CONFIDENCE => least_of(&Value::from(text)),
            number => number.ok(),
        }
    }

    /// Describes the values that the field accepts.
    fn describe_values(&self) -> String {
        let number = match self.kind {
            Kind::Text | Kind::Several => return format!("one of {}", self.choices.join(", ")),
            Kind::YesOrNo => return "true or false".to_owned(),
            Kind::Whole => "a whole number",
            Kind::Number => "a number",
        };
        match (self.min, self.max) {
            (Some(least), Some(most)) => format!("{number} from {least} to {most}"),
            (Some(least), None) => format!("{number} from {least}"),
            _ => number.to_owned(),
        }
    }
}

/// Returns the problem for a field `name` whose `value` contains no values.
fn empty_list_problem(name: &str, value: &str) -> Problem {
    let detail = format!("the query field {name:?} is {value:?}, which contains no value");
    Problem::invalid("query_invalid", detail).hint("leave the field out to restrict nothing")
}

/// Returns the problem for a field `name` with an invalid `value`.
pub(crate) fn invalid_value_problem(name: &str, value: &str, expected: &str) -> Problem {
    Problem::invalid(
        "query_invalid",
        format!("the query field {name:?} is {value:?}, which is not {expected}"),
    )
}

/// Parses the query field `cursor` of a list that continues after the item it names.
///
/// # Errors
///
/// A problem if it is not the `next` of an earlier answer.
pub(crate) fn parse_cursor<T: FromStr>(cursor: Option<&str>) -> Result<Option<T>, Problem> {
    let parse = |text: &str| {
        text.parse()
            .map_err(|_| invalid_value_problem("cursor", text, "the value of `next` in an earlier answer"))
    };
    cursor.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Sample {
        tags: Vec<String>,
        #[schemars(range(min = 1, max = 9))]
        limit: Option<u32>,
        #[schemars(range(min = 0, max = 1))]
        sure: Option<f64>,
        all: bool,
        text: Option<String>,
        order: Option<Way>,
        #[schemars(skip)]
        context: BTreeMap<String, String>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Way {
        Up,
        Down,
    }

    impl Fields for Sample {
        const TAKES_CONTEXT: bool = true;
    }

    fn sample(query: &[(&str, &str)]) -> Result<Sample, String> {
        let pairs = query
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        read(pairs.collect()).map_err(|problem| format!("{} {}", problem.code(), problem.text()))
    }

    #[test]
    fn query_parameters_are_parsed_into_their_schema_types() {
        let query = [
            ("tags", "a, b"),
            ("tags", "c"),
            ("limit", "9"),
            ("sure", "0.5"),
            ("all", "true"),
            ("text", "a,b"),
            ("order", "down"),
            ("context.goal.id", "7"),
        ];
        let wanted = Sample {
            tags: ["a", "b", "c"].map(str::to_owned).to_vec(),
            limit: Some(9),
            sure: Some(0.5),
            all: true,
            text: Some("a,b".to_owned()),
            order: Some(Way::Down),
            context: BTreeMap::from([("goal.id".to_owned(), "7".to_owned())]),
        };
        assert_eq!(sample(&query), Ok(wanted));
        assert_eq!(sample(&[]), Ok(Sample::default()));
    }

    #[test]
    fn query_with_broken_percent_encoding_is_refused() {
        for query in ["", "tags=a%20b", "text=100%25", "a=b=c&&d", "text=%E2%98%83"] {
            assert!(check_encoding(query).is_ok(), "{query}");
        }
        for query in ["tags=%FF", "tags=%zz", "text=100%", "text=%2", "%C3=a", "text=%E2%98"] {
            assert_eq!(check_encoding(query).unwrap_err().code(), "query_invalid", "{query}");
        }
    }

    #[test]
    fn escaped_comma_in_a_list_parameter_stays_in_its_value() {
        for (text, tags) in [
            (r"a\,b", &["a,b"][..]),
            (r"a\,b, c", &["a,b", "c"]),
            (r" \, ,", &[","]),
            (r"a\b,\", &[r"a\b", r"\"]),
        ] {
            assert_eq!(sample(&[("tags", text)]).unwrap().tags, tags, "{text}");
        }
        let text = sample(&[("text", r"a\,b")]).unwrap().text;
        assert_eq!(text.as_deref(), Some(r"a\,b"), "only lists have commas between");
    }

    #[test]
    fn invalid_query_parameter_error_lists_the_allowed_values() {
        for (query, says) in [
            (("limit", "10"), "a whole number from 1 to 9"),
            (("limit", "-1"), "a whole number from 1 to 9"),
            (("sure", "x"), "a number from 0 to 1"),
            (("all", "maybe"), "true or false"),
            (("order", "left"), "one of up, down"),
        ] {
            let refused = sample(&[query]).unwrap_err();
            assert!(
                refused.starts_with("query_invalid") && refused.contains(says),
                "{refused}"
            );
        }
        for empty in ["", " ", ",", " , "] {
            let refused = sample(&[("tags", empty)]).unwrap_err();
            assert!(
                refused.starts_with("query_invalid") && refused.contains("\"tags\""),
                "{refused}"
            );
        }
        let twice = sample(&[("text", "a"), ("text", "b")]).unwrap_err();
        assert!(
            twice.starts_with("query_invalid") && twice.contains("more than once"),
            "{twice}"
        );
        let unknown = sample(&[("tag", "a")]).unwrap_err();
        assert!(
            unknown.starts_with("query_unknown")
                && unknown.contains("tags, limit, sure, all, text, order, context.<path>"),
            "{unknown}"
        );
    }
}
