//! The context that a tool asks for: from `scratch_page_query` to a query, and the form of the answer.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::ReadScope;
use crate::entry::{BodyRef, Confidence, Entry, EntryKind, Family, Owner, Status, Tag};
use crate::id::{EntryHandle, EntryId, Seq};
use crate::query::{EntryQuery, MAX_LIMIT, Order};
use crate::text::TextMatch;
use crate::time::Timestamp;
use crate::view::is_blank;
use crate::warning::Invalid;

/// The filters, for messages.
const FILTERS: &str = "type, status, owner, tags, tags_any, tags_none, min_confidence, include_expired, \
                       include_superseded, text, match, since, as_of, order, context, context.PATH";

/// The meaning of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum ContextQuery {
    /// A query for the scratch page.
    Asks(Box<EntryQuery>),
    /// Nothing can match: the query names a value that no entry has (M7.2.13), or one that the tool may not see.
    Nothing,
}

/// Parses `{filters: {…}, limit}` for a tool that may see `scope`. A single value is accepted in place of a list
/// (M7.2.12).
///
/// # Errors
///
/// `filter_unknown` for a field that is not a filter, because a misspelt filter that matches everything would be a leak
/// (M7.2.13); `filter_invalid` for a value of the wrong kind.
pub fn context_query(query: &Value, scope: &ReadScope) -> Result<ContextQuery, Invalid> {
    let mut entry_query = EntryQuery {
        kinds: vec![EntryKind::Observation],
        ..EntryQuery::default()
    };
    let mut can_match = true;
    let empty = Map::new();
    let parts = match query {
        Value::Null => &empty,
        Value::Object(parts) => parts,
        _ => return Err(wrong("scratch_page_query", "is not an object")),
    };
    for (name, value) in parts {
        match (name.as_str(), value) {
            ("filters" | "limit", Value::Null) => {}
            ("filters", Value::Object(filters)) => {
                for (name, value) in filters {
                    can_match &= filter(&mut entry_query, name, value)?;
                }
            }
            ("filters", _) => return Err(wrong("filters", "is not an object")),
            ("limit", value) => {
                let limit = value.as_u64().and_then(|limit| u32::try_from(limit).ok());
                let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
                entry_query.limit = limit.ok_or_else(|| wrong("limit", "is not a whole number from 1 to 1000"))?;
            }
            (name, _) => return Err(unknown(name, "filters, limit")),
        }
    }
    if !scope.types.is_empty() {
        if entry_query.types.is_empty() {
            entry_query.types.clone_from(&scope.types);
        } else {
            entry_query.types.retain(|name| scope.types.contains(name));
            can_match &= !entry_query.types.is_empty();
        }
    }
    Ok(if can_match {
        ContextQuery::Asks(Box::new(entry_query))
    } else {
        ContextQuery::Nothing
    })
}

/// The commit that the filter `name` gives.
fn commit_of(name: &str, value: &Value) -> Result<Seq, Invalid> {
    let number = value.as_u64();
    number.map(Seq).ok_or_else(|| wrong(name, "is not a commit number"))
}

/// Sets one filter; returns whether anything can pass it.
fn filter(entry_query: &mut EntryQuery, name: &str, value: &Value) -> Result<bool, Invalid> {
    if value.is_null() {
        return Ok(true);
    }
    let mut can_match = true;
    match name {
        "type" | "types" => entry_query.types = texts(name, value)?,
        "status" => {
            let names = texts(name, value)?;
            entry_query.status = known(&names, |name| Status::parse_in(name, Family::Knowledge));
            can_match = names.is_empty() || !entry_query.status.is_empty();
        }
        "owner" => {
            let names = texts(name, value)?;
            entry_query.owner = known(&names, |name| Owner::parse(name).ok());
            can_match = names.is_empty() || !entry_query.owner.is_empty();
        }
        "tags" => {
            let names = texts(name, value)?;
            entry_query.tags = known(&names, |name| Tag::parse(name).ok());
            can_match = entry_query.tags.len() == names.len();
        }
        "tags_any" => {
            let names = texts(name, value)?;
            entry_query.tags_any = known(&names, |name| Tag::parse(name).ok());
            can_match = names.is_empty() || !entry_query.tags_any.is_empty();
        }
        "tags_none" => entry_query.tags_none = known(&texts(name, value)?, |name| Tag::parse(name).ok()),
        "min_confidence" => {
            let minimum =
                least_of(value).ok_or_else(|| wrong(name, "is not a number from 0 to 1, low, medium or high"));
            entry_query.min_confidence = Some(minimum?);
        }
        "include_expired" => entry_query.include_expired = parse_bool(name, value)?,
        "include_superseded" => entry_query.include_superseded = parse_bool(name, value)?,
        "match" => {
            let text_match = serde_json::from_value::<TextMatch>(value.clone());
            entry_query.text_match = text_match.map_err(|_| wrong(name, "is not all or any"))?;
        }
        "text" => entry_query.text = Some(value.as_str().ok_or_else(|| wrong(name, "is not a text"))?.to_owned()),
        "since" => entry_query.since = Some(commit_of(name, value)?),
        "as_of" => entry_query.as_of = Some(commit_of(name, value)?),
        "order" => {
            let order = serde_json::from_value::<Order>(value.clone());
            entry_query.order = order.map_err(|_| wrong(name, "is not relevance, newest, oldest or priority"))?;
        }
        "context" => match value {
            Value::Object(paths) => {
                let paths = paths.iter().map(|(path, value)| (path.clone(), value.clone()));
                entry_query.context.extend(paths);
            }
            _ => return Err(wrong(name, "is not an object")),
        },
        name => match name.strip_prefix("context.") {
            Some(path) if !path.is_empty() => entry_query.context.push((path.to_owned(), value.clone())),
            _ => return Err(unknown(name, FILTERS)),
        },
    }
    Ok(can_match)
}

/// Parses a minimum confidence: a number, or one of the words that stand for one (M7.3.21).
#[must_use]
pub fn least_of(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(word) => match Confidence::from_word(word) {
            Some(confidence) => Some(confidence.value()),
            None => word.trim().parse().ok(),
        },
        other => other.as_f64(),
    };
    number.filter(|number| (0.0..=1.0).contains(number))
}

fn parse_bool(name: &str, value: &Value) -> Result<bool, Invalid> {
    value.as_bool().ok_or_else(|| wrong(name, "is not true or false"))
}

fn texts(name: &str, value: &Value) -> Result<Vec<String>, Invalid> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let texts: Option<Vec<String>> = match value {
        Value::Array(items) => items.iter().map(text).collect(),
        one => text(one).map(|one| vec![one]),
    };
    let texts = texts.ok_or_else(|| wrong(name, "is not a text or a list of texts"))?;
    // No entry has such a value, and nobody means it: a variable was empty.
    if texts.iter().any(|text| is_blank(text)) {
        return Err(wrong(
            name,
            "contains an empty value; leave the filter out to restrict nothing",
        ));
    }
    Ok(texts)
}

fn known<T>(names: &[String], read: impl Fn(&str) -> Option<T>) -> Vec<T> {
    names.iter().filter_map(|name| read(name)).collect()
}

fn unknown(name: &str, known: &str) -> Invalid {
    Invalid::new("filter_unknown", name, format!("is not known here; there are {known}"))
}

fn wrong(name: &str, message: &str) -> Invalid {
    Invalid::new("filter_invalid", name, message)
}

/// An observation in the form that a tool gets (seed 004).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ContextItem {
    /// The permanent id of the observation.
    pub id: EntryId,
    /// The handle in its space.
    pub handle: EntryHandle,
    /// The type of the observation.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// The text of the observation; of a text that is kept beside it, the beginning.
    pub content: String,
    /// Where the whole text is kept, if `content` is only the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_ref: Option<BodyRef>,
    /// How sure the writer was.
    pub confidence: Option<f64>,
    /// The tags of the observation.
    pub tags: Vec<Tag>,
    /// The status of the observation.
    pub status: Status,
    /// Who should act.
    pub owner: Owner,
    /// What the observation is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// When the observation was added.
    pub created_at: Timestamp,
    /// When its lifetime ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The entry that superseded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<EntryId>,
}

impl ContextItem {
    /// Converts `entry` to the form that a tool gets.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        let fields = &entry.fields;
        Self {
            id: entry.id,
            handle: entry.handle,
            type_name: fields.type_name.clone(),
            content: fields.body.clone(),
            content_ref: fields.body_ref.clone(),
            confidence: fields.confidence.map(|confidence| confidence.value()),
            tags: fields.tags.clone(),
            status: fields.status,
            owner: fields.owner.clone(),
            context: fields.context.clone(),
            created_at: entry.created_at,
            expires_at: fields.lifetime.expires_at(),
            superseded_by: fields.superseded_by,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asks(query: Value) -> EntryQuery {
        match context_query(&query, &ReadScope::default()).unwrap() {
            ContextQuery::Asks(query) => *query,
            ContextQuery::Nothing => panic!("{query} can match"),
        }
    }

    #[test]
    fn filter_accepts_one_value_in_place_of_a_list_m7_2_12() {
        let one = asks(json!({"filters": {"tags": "wine", "owner": "agent", "status": "active", "type": "alert"}}));
        let list = json!({"filters": {"tags": ["wine"], "owner": ["agent"], "status": ["active"], "type": ["alert"]}});
        assert_eq!(one, asks(list));
        assert_eq!((one.tags.len(), one.owner.len(), one.limit()), (1, 1, 10));
        assert_eq!(asks(json!({"limit": 3})).limit(), 3);
        assert_eq!(asks(json!({"limit": 1_000})).limit(), MAX_LIMIT);
        assert_eq!(asks(Value::Null), asks(json!({"filters": null})));
    }

    #[test]
    fn blank_filter_value_is_refused_with_the_filter_name_m7_2_12() {
        for name in ["type", "status", "owner", "tags", "tags_any", "tags_none"] {
            for empty in [json!(""), json!(" "), json!(["a", ""])] {
                let refused = context_query(&json!({"filters": {name: empty}}), &ReadScope::default()).unwrap_err();
                assert_eq!(
                    (refused.code.as_str(), refused.field.as_str()),
                    ("filter_invalid", name)
                );
            }
            assert_eq!(asks(json!({"filters": {name: []}})), asks(Value::Null));
        }
    }

    #[test]
    fn tool_query_accepts_confidence_expiry_match_and_order_m7_2_11() {
        let asked = asks(json!({"filters": {
            "min_confidence": "high", "include_expired": true, "include_superseded": true, "match": "any", "order": "priority",
        }}));
        assert_eq!(asked.min_confidence, Some(0.9));
        assert!(asked.include_expired && asked.include_superseded);
        assert_eq!((asked.text_match, asked.order), (TextMatch::Any, Order::Priority));
    }

    #[test]
    fn context_filter_accepts_object_and_dotted_forms_m7_2_18() {
        let wanted = vec![("goal_id".to_owned(), json!("g"))];
        assert_eq!(asks(json!({"filters": {"context": {"goal_id": "g"}}})).context, wanted);
        assert_eq!(asks(json!({"filters": {"context.goal_id": "g"}})).context, wanted);
    }

    #[test]
    fn unknown_value_matches_nothing_and_unknown_filter_is_refused_m7_2_13() {
        let of = |query: Value| context_query(&query, &ReadScope::default());
        for nothing in [
            json!({"filters": {"status": ["nonsense"]}}),
            json!({"filters": {"tags": ["wine", "sys:x"]}}),
            json!({"filters": {"owner": "no body"}}),
        ] {
            assert_eq!(of(nothing.clone()), Ok(ContextQuery::Nothing), "{nothing}");
        }
        for (wrong, code) in [
            (json!({"filters": {"tag": "wine"}}), "filter_unknown"),
            (json!({"filter": {}}), "filter_unknown"),
            (json!({"filters": {"tags": 7}}), "filter_invalid"),
            (json!({"limit": "many"}), "filter_invalid"),
            (json!({"limit": 0}), "filter_invalid"),
            (json!({"limit": 1_001}), "filter_invalid"),
            (json!({"filters": {"min_confidence": 2}}), "filter_invalid"),
            (json!([]), "filter_invalid"),
        ] {
            assert_eq!(of(wrong).unwrap_err().code, code);
        }
    }

    #[test]
    fn refusal_of_an_unknown_filter_says_which_there_are_m7_2_13() {
        let refused = |query| context_query(&query, &ReadScope::default()).unwrap_err().to_string();
        assert_eq!(
            refused(json!({"filter": {}})),
            "filter: is not known here; there are filters, limit"
        );
        let message = refused(json!({"filters": {"tag": "wine"}}));
        assert!(
            message.starts_with("tag: is not known here; there are type, status, "),
            "{message}"
        );
        let named = FILTERS.split(", ").filter(|name| !name.contains('.'));
        let value = |name| match name {
            "since" | "as_of" | "min_confidence" => json!(1),
            "include_expired" | "include_superseded" => json!(true),
            "match" => json!("any"),
            "order" => json!("priority"),
            "context" => json!({}),
            _ => json!("x"),
        };
        for name in named {
            let query = json!({"filters": {name: value(name)}});
            assert!(context_query(&query, &ReadScope::default()).is_ok(), "{name}");
        }
    }

    #[test]
    fn tool_is_told_where_the_rest_of_a_long_text_is() {
        let mut entry = crate::turn_testing::observation(7, "observation", "the beginning").build();
        assert!(
            serde_json::to_value(ContextItem::of(&entry))
                .unwrap()
                .get("content_ref")
                .is_none()
        );
        let kept = json!({"hash": "ab", "bytes": 70_000});
        entry.fields.body_ref = Some(serde_json::from_value(kept).unwrap());
        let item = serde_json::to_value(ContextItem::of(&entry)).unwrap();
        assert_eq!(item["content_ref"], json!(entry.fields.body_ref), "{item}");
        assert_eq!(item["content_ref"]["bytes"], 70_000);
    }

    #[test]
    fn tool_query_is_limited_to_its_declared_types_m7_3_23() {
        let scope = ReadScope {
            types: vec!["alert".to_owned()],
            tags: Vec::new(),
        };
        let of = |query: Value| context_query(&query, &scope).unwrap();
        let ContextQuery::Asks(all) = of(json!({})) else {
            panic!("it may ask")
        };
        assert_eq!(all.types, ["alert"]);
        assert_eq!(of(json!({"filters": {"type": "observation"}})), ContextQuery::Nothing);
    }
}
