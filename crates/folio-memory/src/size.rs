//! The size that changes count as where bytes are limited (E9.10). It follows from the content alone and is computed
//! without serializing it.

use std::io;

use serde::Serialize;
use serde_json::Value;

use crate::change::{Change, FieldChange};
use crate::entry::EntryFields;

/// The size of every change without its texts and values.
const CHANGE: u64 = 256;
/// The size of a value, a member of a list or a field without its texts.
const VALUE: u64 = 8;

/// The size of a value in bytes: the lengths of its texts and of the names of its fields, and 8 for every value in it
/// that is not a text. It does not depend on the notation.
#[must_use]
pub fn value_bytes(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => VALUE,
        Value::String(text) => length(text),
        Value::Array(items) => VALUE + items.iter().map(value_bytes).sum::<u64>(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| length(name) + value_bytes(value));
            VALUE + fields.sum::<u64>()
        }
    }
}

/// Whether the JSON text of `value` has at most `bytes_max` bytes. Stops counting there. A value that cannot be
/// serialized does not fit.
#[must_use]
pub fn json_fits(value: &impl Serialize, bytes_max: u64) -> bool {
    serde_json::to_writer(&mut LimitedWriter(bytes_max), value).is_ok()
}

/// A writer with a limited number of bytes left.
struct LimitedWriter(u64);

impl io::Write for LimitedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.0.checked_sub(bytes.len() as u64);
        self.0 = left.ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn length(text: &str) -> u64 {
    text.len() as u64
}

fn optional(value: Option<&Value>) -> u64 {
    value.map_or(0, value_bytes)
}

impl Change {
    /// The size of the change in bytes: 256, and the texts and values that it writes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        CHANGE
            + match self {
                Self::EnsurePage(page) => length(&page.fields.title),
                Self::AddEntry(entry) => of_fields(&entry.fields),
                Self::PatchEntry { fields, .. } => fields.iter().map(of_field).sum(),
                Self::SetPageStatus { .. }
                | Self::AddLink(_)
                | Self::BeginTurn(_)
                | Self::EndTurn { .. }
                | Self::SetPolicy { .. }
                | Self::RegisterType { .. }
                | Self::EraseEntry { .. }
                | Self::EraseTurn { .. }
                | Self::EraseRun { .. } => 0,
            }
    }
}

fn of_fields(fields: &EntryFields) -> u64 {
    let values = [&fields.parts, &fields.context, &fields.metadata];
    let body = fields.body_ref.as_ref().map_or(length(&fields.body), |body| body.bytes);
    length(&fields.title) + body + values.into_iter().map(|value| optional(value.as_ref())).sum::<u64>()
}

fn of_field(field: &FieldChange) -> u64 {
    match field {
        FieldChange::Title(text) | FieldChange::Body(text) => length(text),
        FieldChange::BodyRef(body) => body.as_ref().map_or(0, |body| body.bytes),
        FieldChange::Parts(value) | FieldChange::Context(value) | FieldChange::Metadata(value) => {
            optional(value.as_ref())
        }
        _ => VALUE,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::EntryId;

    #[test]
    fn value_size_is_independent_of_field_order_e9_10() {
        assert_eq!(value_bytes(&json!("löß")), 5);
        assert_eq!(
            value_bytes(&json!({"a": [1, null], "bc": "def"})),
            8 + 1 + (8 + 8 + 8) + 2 + 3
        );
        let other: Value = serde_json::from_str(r#" {"bc":"def",  "a":[1,null]}"#).unwrap();
        assert_eq!(value_bytes(&other), value_bytes(&json!({"a": [1, null], "bc": "def"})));
    }

    #[test]
    fn change_size_includes_the_texts_it_writes_e9_10() {
        let patch = |fields| Change::PatchEntry {
            entry: EntryId::derived(&["entry"]),
            fields,
            expected_version: None,
            base_version: None,
        };
        assert_eq!(patch(vec![]).bytes(), 256);
        let fields = vec![
            FieldChange::Title("four".to_owned()),
            FieldChange::Parts(Some(json!("six..."))),
            FieldChange::PinRank(None),
        ];
        assert_eq!(patch(fields).bytes(), 256 + 4 + 6 + 8);
    }

    #[test]
    fn value_fits_exactly_the_length_of_its_json() {
        let value = json!({"a": ["ä\n", 1.5, null]});
        let bytes = value.to_string().len() as u64;
        assert!(json_fits(&value, bytes) && !json_fits(&value, bytes - 1));
        assert!(json_fits(&"", 2) && !json_fits(&"", 1));
    }
}
