//! What a request asks for: the names in its path, and its query.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use folio::memory::query::MAX_LIMIT;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// The names in the path, in order.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(names)| Self(names))
            .map_err(|error| Problem::invalid("path_invalid", error.body_text()))
    }
}

/// The query as it was written. [`Asked::check`] must see it before anything is read from it.
#[derive(Debug)]
pub(crate) struct Asked(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        query
            .map(|Query(pairs)| Self(pairs))
            .map_err(|error| Problem::invalid("query_invalid", error.body_text()))
    }
}

impl Asked {
    /// The query, of which every field is one of `known`.
    ///
    /// # Errors
    ///
    /// A 400 that names the first field that nobody reads: a filter with a typing mistake must not give everything.
    pub(crate) fn check(self, known: &[&str]) -> Result<Self, Problem> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(self),
            Some((name, _)) => {
                let hint = match known {
                    [] => "it takes no query".to_owned(),
                    known => format!("it takes {}", known.join(", ")),
                };
                Err(Problem::invalid("query_unknown", format!("nothing reads the query field {name:?}")).hint(hint))
            }
        }
    }

    /// The value of a field that can stand once.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self
            .0
            .iter()
            .filter(|(field, _)| field == name)
            .map(|(_, value)| value.as_str());
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            _ => Err(Problem::invalid(
                "query_invalid",
                format!("the query field {name:?} stands more than once"),
            )),
        }
    }

    /// The values of a field that can stand several times, or hold several values with commas between them.
    pub(crate) fn many(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = self.0.iter().filter(move |(field, _)| field == name);
        values
            .flat_map(|(_, value)| value.split(','))
            .map(str::trim)
            .filter(|value| !value.is_empty())
    }

    /// The values of [`Self::many`], each read by `read`; `wanted` says what could have been read.
    pub(crate) fn many_of<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, Problem> {
        let read = |value: &str| read(value).ok_or_else(|| wrong(name, value, wanted));
        self.many(name).map(read).collect()
    }

    /// The value of [`Self::one`] as a number or a name; `wanted` says of what form.
    pub(crate) fn parsed<T: FromStr>(&self, name: &str, wanted: &str) -> Result<Option<T>, Problem> {
        let read = |value: &str| value.parse().map_err(|_| wrong(name, value, wanted));
        self.one(name)?.map(read).transpose()
    }

    /// How many are wanted: 1 to 1,000, or `default`.
    pub(crate) fn limit(&self, default: u32) -> Result<u32, Problem> {
        match self.parsed("limit", "a number from 1 to 1000")? {
            None => Ok(default),
            Some(limit) if (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
            Some(limit) => Err(wrong("limit", &limit.to_string(), "a number from 1 to 1000")),
        }
    }
}

/// `value` is nothing that the field `name` can have.
pub(crate) fn wrong(name: &str, value: &str, wanted: &str) -> Problem {
    Problem::invalid(
        "query_invalid",
        format!("the query field {name:?} is {value:?}, which is not {wanted}"),
    )
}
