//! Earlier results of the run, as `result_read` reads them.

use std::fmt::Debug;

use async_trait::async_trait;
use folio_engine::argument::kind_of;
use folio_memory::excerpt::cut;
use folio_memory::passage::{self, Part, PartRead};
use serde_json::Value;

/// How many characters of names an error message lists.
const NAMES_CHARS: usize = 400;

/// Earlier results of the run, for `result_read`.
#[async_trait]
pub trait ResultSource: Send + Sync + Debug {
    /// Reads the whole text of one result.
    ///
    /// `node` is the slug path of a node, its id, a `blob:` reference, or whatever else the source understands.
    ///
    /// # Errors
    ///
    /// One line that says what does not exist and what does.
    async fn read(&self, node: &str) -> Result<Vec<u8>, String>;

    /// Reads a part of one result, at most `max_bytes` of it. A source whose results are too large for memory
    /// overrides this, so as not to read all of them.
    ///
    /// # Errors
    ///
    /// See [`Self::read`].
    async fn read_part(&self, node: &str, part: &Part, max_bytes: usize) -> Result<PartRead, String> {
        Ok(passage::read(&self.read(node).await?, part, max_bytes))
    }

    /// Reads the whole text of the value at `field` in one result, which is an object or a list ([`field_of`]).
    ///
    /// # Errors
    ///
    /// See [`Self::read`]; also if there is no such field.
    async fn read_field(&self, node: &str, field: &str) -> Result<Vec<u8>, String> {
        let bytes = self.read(node).await?;
        match serde_json::from_slice::<Value>(&bytes) {
            Ok(value) => Ok(as_text(field_of(&value, field)?).into_bytes()),
            Err(_) => Err(format!("the result of {node} is a text, which has no fields")),
        }
    }
}

/// The source of a run without earlier results.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoResults;

#[async_trait]
impl ResultSource for NoResults {
    async fn read(&self, node: &str) -> Result<Vec<u8>, String> {
        Err(format!("there is no result of {node}: there are no earlier results"))
    }
}

/// A value as the text that is read in parts: a text unchanged, anything else as indented JSON.
#[must_use]
pub fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}

/// The value at `path` in `value`. The path is written as in templates: `files[0].path`. A name may contain dots.
///
/// # Errors
///
/// One line that says what does not exist and what does.
pub fn field_of<'v>(value: &'v Value, path: &str) -> Result<&'v Value, String> {
    let (found, rest) = match value {
        Value::Object(fields) => {
            let ends = path.char_indices().filter(|(_, c)| matches!(c, '.' | '['));
            let ends: Vec<usize> = ends.map(|(at, _)| at).chain([path.len()]).collect();
            // The longest name first, so that a name with dots is found.
            let longest_first = ends.iter().rev();
            let mut found = longest_first.filter_map(|end| Some((fields.get(&path[..*end])?, &path[*end..])));
            found.next().ok_or_else(|| {
                let names: Vec<String> = fields.keys().map(|name| format!("`{name}`")).collect();
                missing(&path[..ends[0]], &cut(&names.join(", "), NAMES_CHARS))
            })?
        }
        Value::Array(items) => {
            let digits = path.strip_prefix('[').unwrap_or(path);
            let (place, rest) = digits.split_at(digits.find(['.', '[', ']']).unwrap_or(digits.len()));
            let item = place.parse::<usize>().ok().and_then(|place| items.get(place));
            let item = item.ok_or_else(|| missing(place, &format!("a list of {}, counted from 0", items.len())))?;
            (item, rest.strip_prefix(']').unwrap_or(rest))
        }
        _ => return Err(missing(path, kind_of(value))),
    };
    match rest.strip_prefix('.').unwrap_or(rest) {
        "" => Ok(found),
        rest => field_of(found, rest),
    }
}

fn missing(name: &str, available: &str) -> String {
    let available = if available.is_empty() { "nothing" } else { available };
    format!(
        "there is no field `{}` in the result: there is {available}",
        cut(name, NAMES_CHARS)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn result_field_lookup_by_path_names_alternatives_when_missing() {
        let value = json!({"files": [{"path": "a.rs", "a.b": {"c": 7}}], "stdout": "one\ntwo", "none": {}});
        let at = |path: &str| field_of(&value, path).map(as_text);
        assert_eq!(at("stdout").unwrap(), "one\ntwo");
        for path in ["files[0].path", "files.0.path"] {
            assert_eq!(at(path).unwrap(), "a.rs", "{path}");
        }
        assert_eq!(at("files[0].a.b.c").unwrap(), "7");
        let rows = json!({"rows": [[1, 2]]});
        for path in ["rows[0][1]", "rows.0.1", "rows.0[1]"] {
            assert_eq!(field_of(&rows, path), Ok(&json!(2)), "{path}");
        }
        insta::assert_snapshot!(
            ["stduot", "files[1].path", "files.path", "stdout.x", "none.x", ""].map(|path| at(path).unwrap_err()).join("\n"),
            @"
        there is no field `stduot` in the result: there is `files`, `stdout`, `none`
        there is no field `1` in the result: there is a list of 1, counted from 0
        there is no field `path` in the result: there is a list of 1, counted from 0
        there is no field `x` in the result: there is a string
        there is no field `x` in the result: there is nothing
        there is no field `` in the result: there is `files`, `stdout`, `none`
        "
        );
    }
}
