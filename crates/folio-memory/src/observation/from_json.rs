//! Observations and changes of them as JSON: strict, so that nothing that somebody meant is silently left out.

use serde_json::{Map, Value};

use super::{ObservationInput, ObservationPatch};
use crate::warning::Invalid;

/// What an answer shows of an observation and nobody changes, each with what is done instead.
const IMMUTABLE: [(&[&str], &str); 5] = [
    (
        &[
            "id",
            "observation_id",
            "handle",
            "kind",
            "page",
            "created_at",
            "updated_at",
            "version",
            "state",
        ],
        "it is given once, or follows from what happens",
    ),
    (
        &[
            "source",
            "claimed_source",
            "trust",
            "pii",
            "content_ref",
            "erased",
            "archived_for",
            "expired_at",
        ],
        "it is stamped by what takes it in",
    ),
    (
        &["type"],
        "add an observation of the other type and let it supersede this one",
    ),
    (
        &["ttl_minutes", "expires_at", "lifetime", "validated_at"],
        "an update does not make it hold longer; confirm it, and its time begins anew",
    ),
    (
        &["superseded_by", "outcome", "pinned", "pin"],
        "it has an operation of its own: supersede, resolve, pin",
    ),
];

impl ObservationInput {
    /// Reads an observation. One tag may stand where a list of them is meant (M7.2.12).
    ///
    /// # Errors
    ///
    /// `observation_malformed` if it is no object, lacks `content`, or has a field that nobody knows.
    pub fn from_json(item: &Value) -> Result<Self, Invalid> {
        let mut fields = object(item)?;
        one_or_more(&mut fields, "tags");
        read(fields)
    }
}

impl ObservationPatch {
    /// Reads a change of an observation.
    ///
    /// # Errors
    ///
    /// `field_immutable` for a field that an observation has and nobody changes; `observation_malformed` if it is no
    /// object, has nothing in it, or has a field that nobody knows.
    pub fn from_json(item: &Value) -> Result<Self, Invalid> {
        let mut fields = object(item)?;
        for name in fields.keys() {
            if let Some((_, instead)) = IMMUTABLE.iter().find(|(names, _)| names.contains(&name.as_str())) {
                let message = format!("does not change: {instead}");
                return Err(Invalid::new("field_immutable", name, message));
            }
        }
        if fields.is_empty() {
            return Err(malformed("says nothing that is to change"));
        }
        one_or_more(&mut fields, "tags");
        read(fields)
    }
}

fn object(item: &Value) -> Result<Map<String, Value>, Invalid> {
    match item {
        Value::Object(fields) => Ok(fields.clone()),
        _ => Err(malformed("an observation is an object")),
    }
}

fn read<T: serde::de::DeserializeOwned>(fields: Map<String, Value>) -> Result<T, Invalid> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| malformed(error.to_string()))
}

/// A single text where a list is meant becomes a list; `null` is the same as nothing.
pub(crate) fn one_or_more(fields: &mut Map<String, Value>, name: &str) {
    match fields.get_mut(name) {
        Some(value @ Value::String(_)) => *value = Value::Array(vec![value.take()]),
        Some(Value::Null) => drop(fields.remove(name)),
        _ => {}
    }
}

fn malformed(message: impl Into<String>) -> Invalid {
    Invalid::new("observation_malformed", "item", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_never_changes_is_named_when_somebody_tries_m7_4_33() {
        let refused = |field: &str| ObservationPatch::from_json(&json!({"title": "t", field: "x"})).unwrap_err();
        for (names, _) in IMMUTABLE {
            for name in names {
                let invalid = refused(name);
                assert_eq!(
                    (invalid.code.as_str(), invalid.field.as_str()),
                    ("field_immutable", *name)
                );
            }
        }
        assert_eq!(refused("titel").code, "observation_malformed");
        let nothing = ObservationPatch::from_json(&json!({})).unwrap_err();
        assert_eq!(nothing.code, "observation_malformed");
    }

    #[test]
    fn every_field_that_an_observation_has_either_changes_or_is_said_not_to_m7_4_33() {
        let input = ObservationInput {
            type_name: Some("alert".to_owned()),
            title: Some("t".to_owned()),
            confidence: Some(json!(1)),
            tags: vec!["x".to_owned()],
            ttl_minutes: super::super::TtlInput::Never,
            expires_at: Some("2030-01-01T00:00:00Z".to_owned()),
            owner: Some("user".to_owned()),
            status: Some("active".to_owned()),
            context: Some(json!({})),
            metadata: Some(json!({})),
            claimed_source: Some(json!({})),
            content: "c".to_owned(),
        };
        let Ok(Value::Object(fields)) = serde_json::to_value(&input) else {
            panic!("an object")
        };
        for (name, value) in fields {
            match ObservationPatch::from_json(&json!({ &name: value })) {
                Ok(_) => {}
                Err(invalid) => assert_eq!(invalid.code, "field_immutable", "{name}"),
            }
        }
        assert_eq!(ObservationInput::from_json(&json!(input)), Ok(input));
    }
}
