//! The value that a node gives to later steps.

use std::fmt;
use std::sync::{Arc, LazyLock};

use folio_memory::canonical::hex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The value that a node gives to later steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// The value itself.
    Inline(Inline),
    /// A value too large for the journal: its JSON text is kept beside the journal under the hash of its content.
    Blob {
        /// The SHA-256 of the JSON text, 64 hexadecimal digits.
        hash: String,
        /// The size of the JSON text in bytes.
        bytes: u64,
    },
}

impl Output {
    /// The output of a node that gives nothing: null.
    #[must_use]
    pub fn null() -> Self {
        static NOTHING: LazyLock<Arc<Value>> = LazyLock::new(Arc::default);
        Self::Inline(Inline(Form::Tree(Arc::clone(&NOTHING))))
    }

    /// The output `value`, kept in the journal.
    #[must_use]
    pub fn of(value: impl Into<Arc<Value>>) -> Self {
        Self::Inline(Inline(Form::Tree(value.into())))
    }

    /// The value; `None` if it is kept beside the journal.
    #[must_use]
    pub fn value(&self) -> Option<Arc<Value>> {
        match self {
            Self::Inline(inline) => Some(inline.value()),
            Self::Blob { .. } => None,
        }
    }

    /// The hash that it is kept under; `None` if it is in the journal.
    #[must_use]
    pub fn blob_hash(&self) -> Option<&str> {
        match self {
            Self::Inline(_) => None,
            Self::Blob { hash, .. } => Some(hash),
        }
    }

    /// The SHA-256 of its JSON text, 64 hexadecimal digits, whether it is kept in the journal or beside it.
    #[must_use]
    pub fn content_hash(&self) -> String {
        match self {
            Self::Blob { hash, .. } => hash.clone(),
            Self::Inline(inline) => hex(&Sha256::digest(inline.text().as_bytes())),
        }
    }

    /// The same output in as little memory as possible: a run has as many results as nodes, and few are read again.
    pub(crate) fn packed(&self) -> Self {
        match self {
            Self::Inline(inline) if inline.is_null() => Self::null(),
            Self::Inline(inline) => Self::Inline(inline.packed()),
            Self::Blob { .. } => self.clone(),
        }
    }

    /// Whether it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Inline(inline) if inline.is_null())
    }
}

impl Default for Output {
    fn default() -> Self {
        Self::null()
    }
}

/// What a node gives to later steps, as far as it is known without reading what is kept beside the journal.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputTree {
    /// A value of its own.
    Own(Output),
    /// The outputs of its items, in their order.
    List(Vec<Self>),
    /// The outputs of its steps, by their ids.
    Named(Vec<(String, Self)>),
}

impl OutputTree {
    /// The value, where `read` returns the value of each output.
    ///
    /// # Errors
    ///
    /// The first error of `read`.
    pub fn value<E>(&self, read: &mut impl FnMut(&Output) -> Result<Arc<Value>, E>) -> Result<Arc<Value>, E> {
        match self {
            Self::Own(output) => read(output),
            Self::List(items) => {
                let values = items.iter().map(|item| Ok(Arc::unwrap_or_clone(item.value(read)?)));
                Ok(Arc::new(Value::Array(values.collect::<Result<_, _>>()?)))
            }
            Self::Named(steps) => {
                let value = |(id, step): &(String, Self)| Ok((id.clone(), Arc::unwrap_or_clone(step.value(read)?)));
                let values = steps.iter().map(value);
                Ok(Arc::new(Value::Object(values.collect::<Result<_, _>>()?)))
            }
        }
    }

    /// The value for someone who looks at a run, with `{"blob": HASH, "bytes": N}` in place of an output that is kept
    /// beside the journal, and the size of its values as JSON in bytes; `None` if that is more than `max_bytes`.
    #[must_use]
    pub fn display_value(&self, max_bytes: usize) -> Option<(Arc<Value>, usize)> {
        let mut left = max_bytes;
        let mut take = |bytes: usize| {
            left = left.checked_sub(bytes).ok_or(())?;
            Ok::<_, ()>(())
        };
        let mut read = |output: &Output| {
            let value = match output {
                Output::Inline(inline) => {
                    take(inline.bytes())?;
                    inline.value()
                }
                Output::Blob { hash, bytes } => {
                    let value = json!({"blob": hash, "bytes": bytes});
                    take(value.to_string().len())?;
                    Arc::new(value)
                }
            };
            Ok::<_, ()>(value)
        };
        let value = self.value(&mut read).ok()?;
        Some((value, max_bytes - left))
    }

    /// All outputs in it, in order.
    #[must_use]
    pub fn outputs(&self) -> Vec<&Output> {
        match self {
            Self::Own(output) => vec![output],
            Self::List(items) => items.iter().flat_map(Self::outputs).collect(),
            Self::Named(steps) => steps.iter().flat_map(|(_, step)| step.outputs()).collect(),
        }
    }
}

/// A value that is kept in the journal itself. Cheap to clone.
#[derive(Clone)]
pub struct Inline(Form);

#[derive(Clone)]
enum Form {
    Tree(Arc<Value>),
    /// The value as JSON text: for a small object that takes a tenth of the memory.
    Text(Arc<str>),
}

/// The deepest nesting of a value that is kept as text. The parser that reads it back stops soon after a hundred
/// levels.
const PACKED_DEPTH_MAX: u32 = 64;

impl Inline {
    /// The value.
    #[must_use]
    pub fn value(&self) -> Arc<Value> {
        match &self.0 {
            Form::Tree(value) => Arc::clone(value),
            // `packed` wrote this text, and it writes nothing that cannot be parsed.
            Form::Text(text) => Arc::new(serde_json::from_str(text).unwrap_or_default()),
        }
    }

    /// The value for changing it; a copy if it is shared.
    pub fn value_mut(&mut self) -> &mut Value {
        if let Form::Text(_) = self.0 {
            self.0 = Form::Tree(self.value());
        }
        match &mut self.0 {
            Form::Tree(value) => Arc::make_mut(value),
            Form::Text(_) => unreachable!("it was made a tree"),
        }
    }

    /// Whether the value is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.0, Form::Tree(value) if value.is_null())
    }

    /// The size of its JSON text in bytes.
    fn bytes(&self) -> usize {
        match &self.0 {
            Form::Tree(value) => value.to_string().len(),
            Form::Text(text) => text.len(),
        }
    }

    /// Its JSON text.
    fn text(&self) -> Arc<str> {
        match &self.0 {
            Form::Tree(value) => value.to_string().into(),
            Form::Text(text) => Arc::clone(text),
        }
    }

    fn packed(&self) -> Self {
        match &self.0 {
            Form::Tree(value) if has_parts(value) && is_flat(value, PACKED_DEPTH_MAX) => Self(Form::Text(self.text())),
            Form::Tree(_) | Form::Text(_) => self.clone(),
        }
    }
}

fn has_parts(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_))
}

/// Whether no part of `value` is more than `depth` levels below it.
fn is_flat(value: &Value, depth: u32) -> bool {
    let below = |part: &Value| !has_parts(part) || (depth > 0 && is_flat(part, depth - 1));
    match value {
        Value::Array(items) => items.iter().all(below),
        Value::Object(entries) => entries.values().all(below),
        _ => true,
    }
}

impl fmt::Debug for Inline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

impl PartialEq for Inline {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl Serialize for Inline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Inline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self(Form::Tree(Arc::new(value))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_output_is_shown_only_within_its_byte_limit() {
        let hash = "0".repeat(64);
        let kept = Output::Blob {
            hash: hash.clone(),
            bytes: 1 << 20,
        };
        let given = OutputTree::Named(vec![
            ("a".to_owned(), OutputTree::Own(Output::of(json!({"n": 1})))),
            (
                "b".to_owned(),
                OutputTree::List(vec![OutputTree::Own(kept), OutputTree::Own(Output::null())]),
            ),
        ]);
        let shown = json!({"a": {"n": 1}, "b": [{"blob": hash, "bytes": 1 << 20}, null]});
        let (value, bytes) = given.display_value(1_000).unwrap();
        let parts = [&shown["a"], &shown["b"][0], &json!(null)].map(|part| part.to_string().len());
        assert_eq!((&*value, bytes), (&shown, parts.iter().sum()));
        assert_eq!(given.display_value(bytes).unwrap().1, bytes);
        assert_eq!(given.display_value(bytes - 1), None);
        let packed = OutputTree::Own(Output::of(json!({"text": "é \" \n"})).packed());
        let (value, bytes) = packed.display_value(100).unwrap();
        assert_eq!(bytes, value.to_string().len());
    }

    #[test]
    fn packed_output_equals_the_unpacked_value() {
        for value in [
            json!(null),
            json!(true),
            json!(0.1),
            json!(u64::MAX),
            json!("a \"b\"\n"),
            json!({"z": [1.5e-9, {}], "a": ""}),
        ] {
            let output = Output::of(value.clone());
            let packed = output.packed();
            assert_eq!(packed, output);
            assert_eq!(packed.value().as_deref(), Some(&value));
            assert_eq!(packed.content_hash(), output.content_hash());
            assert_eq!(serde_json::to_value(&packed).unwrap(), json!({"inline": value}));
            assert_eq!(packed.is_null(), value.is_null());
            let Output::Inline(mut inline) = packed else {
                panic!("it is not elsewhere")
            };
            assert_eq!(*inline.value_mut(), value);
        }
    }

    #[test]
    fn value_nested_too_deep_to_reparse_survives_packing() {
        let deep = (0..200).fold(json!(7), |inner, _| json!([inner]));
        let packed = Output::of(deep.clone()).packed();
        assert_eq!(packed.value().as_deref(), Some(&deep));
    }
}
