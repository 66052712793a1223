//! Parsing observations and patches of them from JSON. Strict, so that nothing that was sent is silently ignored.

use serde_json::{Map, Value};

use super::{ObservationInput, ObservationPatch, read_only};
use crate::warning::Invalid;
use crate::wrong_field::wrong_field;

impl ObservationInput {
    /// Parses an observation. A single tag is accepted in place of a list (M7.2.12).
    ///
    /// # Errors
    ///
    /// `observation_malformed` if `item` is not an object, lacks `content`, or has an unknown field.
    pub fn from_json(item: &Value) -> Result<Self, Invalid> {
        let mut fields = object(item)?;
        one_or_more(&mut fields, "tags");
        read(fields)
    }
}

impl ObservationPatch {
    /// Parses a patch of an observation: only the fields to change, or a whole observation as an answer showed it. A
    /// field that is `null` is to be cleared.
    ///
    /// # Errors
    ///
    /// `observation_malformed` if `item` is not an object, is empty, or has an unknown field. [`patch`](super::patch())
    /// checks that read-only fields have their present values.
    pub fn from_json(item: &Value) -> Result<Self, Invalid> {
        let mut fields = object(item)?;
        let said_again = read_only::take_read_only_fields(&mut fields);
        if fields.is_empty() && said_again.is_empty() {
            return Err(malformed("contains nothing to change"));
        }
        let cleared = null_field_names(&fields);
        one_or_more(&mut fields, "tags");
        let patch: Self = read(fields)?;
        Ok(Self {
            said_again,
            cleared,
            ..patch
        })
    }
}

fn object(item: &Value) -> Result<Map<String, Value>, Invalid> {
    match item {
        Value::Object(fields) => Ok(fields.clone()),
        _ => Err(malformed("an observation must be a JSON object")),
    }
}

/// The names of the fields that are `null`, in an order that does not depend on how they were written.
pub(crate) fn null_field_names(fields: &Map<String, Value>) -> Vec<String> {
    let nulls = fields.iter().filter(|(_, value)| value.is_null());
    let mut names: Vec<_> = nulls.map(|(name, _)| name.clone()).collect();
    names.sort();
    names
}

/// Reads an item from its fields. The error names the field that is wrong.
pub(crate) fn read<T: serde::de::DeserializeOwned>(fields: Map<String, Value>) -> Result<T, Invalid> {
    T::deserialize(&Value::Object(fields.clone())).map_err(|error| match wrong_field::<T>(&fields) {
        // What the reader says of an unknown field names it already.
        Some((name, reason)) if !reason.starts_with("unknown field") => {
            Invalid::new("observation_malformed", &name, reason)
        }
        _ => malformed(error.to_string()),
    })
}

/// Turns a single string into a list where a list is expected, and treats `null` as if the field were left out.
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

    use super::super::patch;
    use super::read_only::IMMUTABLE;
    use super::*;
    use crate::actor::Trust;
    use crate::change::{FieldChange, NewEntry};
    use crate::entry::{Entry, EntryFields, EntryKind, Lifetime, Owner};
    use crate::id::{EntryHandle, EntryId, PageId, Seq};
    use crate::time::Timestamp;

    fn noticed() -> Entry {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::ToolInternal);
        fields.body = "c".to_owned();
        fields.type_name = Some("alert".to_owned());
        fields.source.tool = Some("scan".to_owned());
        fields.lifetime = Lifetime::Until(Timestamp::from_millis(90_000));
        let new = NewEntry {
            id: EntryId::derived(&["e"]),
            page: PageId::derived(&["p"]),
            kind: EntryKind::Observation,
            fields,
        };
        Entry::added(new, EntryHandle(1), Seq(1), Timestamp::default())
    }

    #[test]
    fn malformed_observation_names_its_wrong_field_m7_3_25() {
        for (wrong, field) in [
            (json!({"content": "c", "tags": [5]}), "tags"),
            (json!({"content": "c", "tags": 5}), "tags"),
            (json!({"content": "c", "owner": 5}), "owner"),
            (json!({"content": null}), "content"),
            (json!({"content": "c", "titel": "t"}), "item"),
            (json!({"title": "t"}), "item"),
        ] {
            let refused = ObservationInput::from_json(&wrong).unwrap_err();
            assert_eq!(
                (refused.code.as_str(), refused.field.as_str()),
                ("observation_malformed", field),
                "{wrong}"
            );
        }
        let patch = ObservationPatch::from_json(&json!({"tags": [5]})).unwrap_err();
        assert_eq!(patch.field, "tags");
    }

    #[test]
    fn patch_of_an_immutable_field_is_refused_by_its_name_m7_4_33() {
        let refused = |field: &str| {
            let read = ObservationPatch::from_json(&json!({"title": "t", field: "x"}))?;
            patch(&noticed(), read).map(|_| ())
        };
        for name in IMMUTABLE.iter().flat_map(|(names, _)| *names) {
            match *name {
                "state" | "score" => assert_eq!(refused(name), Ok(())),
                name => {
                    let invalid = refused(name).unwrap_err();
                    assert_eq!(
                        (invalid.code.as_str(), invalid.field.as_str()),
                        ("field_immutable", name)
                    );
                }
            }
        }
        assert_eq!(refused("titel").unwrap_err().code, "observation_malformed");
        let nothing = ObservationPatch::from_json(&json!({})).unwrap_err();
        assert_eq!(nothing.code, "observation_malformed");
    }

    #[test]
    fn patch_may_repeat_immutable_fields_with_their_current_values_m7_4_33() {
        let entry = noticed();
        let said = |changed: Value| {
            let mut whole = json!({
                "observation_id": entry.id, "handle": "e1", "type": "alert", "content": "c", "confidence": null, "tags": [],
                "source": {"tool": "scan", "turn_id": null, "timestamp": entry.created_at}, "context": null, "metadata": null,
                "ttl_minutes": 1.5, "expires_at": Timestamp::from_millis(90_000), "status": "active", "state": "expired",
                "owner": "agent", "trust": "tool_internal", "version": 1, "created_at": entry.created_at,
                "updated_at": entry.updated_at,
            });
            for (name, value) in changed.as_object().unwrap() {
                whole[name] = value.clone();
            }
            patch(&entry, ObservationPatch::from_json(&whole)?)
        };
        let (changes, _) = said(json!({"content": "d"})).unwrap();
        assert!(changes.contains(&FieldChange::Body("d".to_owned())));
        for (name, value) in [
            ("ttl_minutes", json!(2)),
            ("version", json!(2)),
            ("source", json!({"tool": "other"})),
            ("pinned", json!(1)),
        ] {
            let refused = said(json!({ name: value })).unwrap_err();
            assert_eq!(
                (refused.code.as_str(), refused.field.as_str()),
                ("field_immutable", name)
            );
        }
    }

    #[test]
    fn observation_patch_parses_every_field_of_the_input_m7_4_33() {
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
            claimed_id: Some("obs_1".to_owned()),
            content: "c".to_owned(),
        };
        let Ok(Value::Object(fields)) = serde_json::to_value(&input) else {
            panic!("an object")
        };
        for (name, value) in fields {
            let sent = json!({ &name: value });
            let patch = ObservationPatch::from_json(&sent).unwrap_or_else(|invalid| panic!("{name}: {invalid}"));
            // The field is either changed or compared with what is there.
            let changed = json!(patch);
            let wanted = match IMMUTABLE.iter().any(|(names, _)| names.contains(&name.as_str())) {
                true => (json!({}), sent),
                false => (sent, json!({})),
            };
            assert_eq!((changed, Value::Object(patch.said_again)), wanted, "{name}");
        }
        assert_eq!(ObservationInput::from_json(&json!(input)), Ok(input));
    }
}
