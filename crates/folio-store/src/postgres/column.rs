//! Values as columns store them.

use std::borrow::Cow;
use std::fmt;

use folio_memory::{Seq, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};

use super::error::{Failure, damaged};
use crate::place::{from_column, to_column};

/// Begins the replacement of a character that a column cannot store. Unicode will never assign a meaning to it.
const ESCAPE: char = '\u{10FFFF}';

/// Encodes a text chosen by people or programs for a column: PostgreSQL's texts cannot contain NUL.
pub(super) fn encode_text(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => kept.extend([ESCAPE, '0']),
            ESCAPE => kept.extend([ESCAPE, '1']),
            c => kept.push(c),
        }
    }
    Cow::Owned(kept)
}

/// Reverses [`kept`].
pub(super) fn decode_text(kept: String) -> String {
    if !kept.contains(ESCAPE) {
        return kept;
    }
    let mut text = String::with_capacity(kept.len());
    let mut chars = kept.chars();
    while let Some(c) = chars.next() {
        if c != ESCAPE {
            text.push(c);
            continue;
        }
        text.extend(match chars.next() {
            Some('0') => Some('\0'),
            Some('1') => Some(ESCAPE),
            other => other,
        });
    }
    text
}

/// Column number `column` of `row`.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, Failure> {
    Ok(row.try_get(column)?)
}

/// A count from a column.
pub(super) fn count(row: &Row, column: usize) -> Result<u64, Failure> {
    Ok(from_column(get(row, column)?))
}

/// The number of a commit.
pub(super) fn seq(row: &Row, column: usize) -> Result<Seq, Failure> {
    Ok(Seq(count(row, column)?))
}

/// A timestamp.
pub(super) fn instant(row: &Row, column: usize) -> Result<Timestamp, Failure> {
    Ok(Timestamp::from_nanos(get(row, column)?))
}

/// The sixteen bytes of an id of `label`.
pub(super) fn id(row: &Row, column: usize, label: &str) -> Result<[u8; 16], Failure> {
    let bytes: &[u8] = get(row, column)?;
    bytes.try_into().map_err(|error| damaged(label, error))
}

/// A version of an entry or a page.
pub(super) fn version(row: &Row, column: usize) -> Result<u32, Failure> {
    u32::try_from(get::<i64>(row, column)?).map_err(|error| damaged("a version", error))
}

/// A value for a statement that is built at run time.
pub(super) enum Value {
    Int(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
    Ints(Vec<i64>),
    Texts(Vec<String>),
    ByteStrings(Vec<Vec<u8>>),
}

impl Value {
    pub(super) fn count(count: u64) -> Self {
        Self::Int(to_column(count))
    }

    /// The value as a parameter, with its type.
    pub(super) fn parameter(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Int(value) => (value, Type::INT8),
            Self::Real(value) => (value, Type::FLOAT8),
            Self::Text(value) => (value, Type::TEXT),
            Self::Bytes(value) => (value, Type::BYTEA),
            Self::Ints(value) => (value, Type::INT8_ARRAY),
            Self::Texts(value) => (value, Type::TEXT_ARRAY),
            Self::ByteStrings(value) => (value, Type::BYTEA_ARRAY),
        }
    }
}

/// A statement that is built at run time, with its values.
#[derive(Default)]
pub(super) struct Statement {
    pub(super) sql: String,
    values: Vec<Value>,
}

impl Statement {
    /// Appends `sql`, in which each `?` stands for the next of `values`.
    pub(super) fn push(&mut self, sql: &str, values: impl IntoIterator<Item = Value>) {
        let mut values = values.into_iter();
        for (index, part) in sql.split('?').enumerate() {
            if index > 0 {
                self.values.extend(values.next());
                self.sql += &format!("${}", self.values.len());
            }
            self.sql += part;
        }
    }

    /// The values with their types.
    pub(super) fn parameters(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.values.iter().map(Value::parameter).collect()
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sql)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_column_round_trips_nul_and_escape_characters() {
        for text in ["", "plain", "a\0b", "\u{10FFFF}", "\u{10FFFF}0", "\0\0\u{10FFFF}\0"] {
            let column = encode_text(text).into_owned();
            assert!(!column.contains('\0'), "{text:?}");
            assert_eq!(decode_text(column), text);
        }
    }

    #[test]
    fn statement_numbers_its_parameters_in_order() {
        let mut statement = Statement::default();
        statement.push("a = ? AND b = ?", [Value::Int(1), Value::Int(2)]);
        statement.push(" AND c = ?", [Value::Int(3)]);
        assert_eq!(statement.sql, "a = $1 AND b = $2 AND c = $3");
        assert_eq!(statement.parameters().len(), 3);
    }
}
