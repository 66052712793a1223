//! The names that the fields of an entry have in an observation, as writers of observations use them.

use serde_json::Value;

use crate::history::{FieldConflict, FieldDiff};

/// The name that the entry field `field` has in an observation.
#[must_use]
pub fn field_name(field: &str) -> &str {
    match field {
        "body" => "content",
        "body_ref" => "content_ref",
        "lifetime" => "expires_at",
        "pin" => "pinned",
        other => other,
    }
}

/// The value of the entry field `field` in an observation: for a lifetime, its end.
fn value(field: &str, value: Value) -> Value {
    match (field, value) {
        ("lifetime", Value::Object(mut until)) => until.remove("until").unwrap_or(Value::Null),
        ("lifetime", _) => Value::Null,
        (_, value) => value,
    }
}

impl FieldDiff {
    /// Returns the same difference with the field names and values of an observation.
    #[must_use]
    pub fn with_observation_names(self) -> Self {
        Self {
            before: value(&self.field, self.before),
            after: value(&self.field, self.after),
            field: field_name(&self.field).to_owned(),
        }
    }
}

impl FieldConflict {
    /// Returns the same conflict with the field names and values of an observation.
    #[must_use]
    pub fn with_observation_names(self) -> Self {
        Self {
            theirs: value(&self.field, self.theirs),
            ours: value(&self.field, self.ours),
            field: field_name(&self.field).to_owned(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::entry::Lifetime;
    use crate::time::Timestamp;

    #[test]
    fn observation_history_uses_the_field_names_of_its_input() {
        let end = Timestamp::from_millis(60_000);
        let diff = |field: &str, before: Value, after: Value| FieldDiff {
            field: field.to_owned(),
            before,
            after,
        };
        for (stored, told) in [
            (
                diff("body", json!("a"), json!("b")),
                diff("content", json!("a"), json!("b")),
            ),
            (
                diff("lifetime", Value::Null, json!(Lifetime::Until(end))),
                diff("expires_at", Value::Null, json!(end)),
            ),
            (
                diff("lifetime", json!(Lifetime::Until(end)), json!(Lifetime::Unlimited)),
                diff("expires_at", json!(end), Value::Null),
            ),
            (
                diff("pin", Value::Null, json!(3)),
                diff("pinned", Value::Null, json!(3)),
            ),
            (
                diff("tags", json!([]), json!(["x"])),
                diff("tags", json!([]), json!(["x"])),
            ),
        ] {
            assert_eq!(stored.with_observation_names(), told);
        }
    }
}
