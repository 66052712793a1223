//! Finds the field that keeps a JSON object from being read.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Returns the field because of which `fields` are not a `T`, and what is wrong with it. The error of reading them all
/// does not say which field it is about.
#[must_use]
pub fn wrong_field<T: DeserializeOwned>(fields: &Map<String, Value>) -> Option<(String, String)> {
    // Each field is read alone; an error that others are missing then says nothing.
    fields.iter().find_map(|(name, value)| {
        let single_field = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        let error = T::deserialize(single_field).err()?.to_string();
        (!error.starts_with("missing field")).then(|| (name.clone(), error))
    })
}
