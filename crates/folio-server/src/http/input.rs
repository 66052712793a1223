//! Reading the body of a request.

use std::fmt;
use std::marker::PhantomData;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use folio::memory::readable::readable;
use folio::memory::wrong_field::{in_plain_words, wrong_field};
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::problem::Problem;

/// A body of JSON.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

/// The same for a body that may be empty.
#[derive(Debug)]
pub(crate) struct MayBody<T>(pub(crate) T);

/// Unparsed JSON for a handler that reads it itself; described as a `T`.
#[derive(Debug)]
pub(crate) struct Raw<T>(pub(crate) Value, pub(crate) PhantomData<T>);

/// Lines or a text, as bytes, of one of the media types that `K` lists.
#[derive(Debug)]
pub(crate) struct Text<K>(pub(crate) Bytes, pub(crate) PhantomData<K>);

/// The media types that a text may have.
pub(crate) trait Kinds {
    /// The media types, the usual one first.
    const KINDS: &'static [&'static str];
}

/// The body limit of a request in bytes, for the message to a client that sends more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) usize);

impl<S: Send + Sync, T: DeserializeOwned + JsonSchema> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (headers, body) = read_body(request, state).await;
        read(&headers, &body?).map(Self)
    }
}

impl<S: Send + Sync, T: Default + DeserializeOwned + JsonSchema> FromRequest<S> for MayBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (headers, body) = read_body(request, state).await;
        let body = body?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        read(&headers, &body).map(Self)
    }
}

impl<S: Send + Sync, T: JsonSchema> FromRequest<S> for Raw<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (headers, body) = read_body(request, state).await;
        let body = body?;
        if !body.trim_ascii_start().starts_with(b"{") {
            return Ok(Self(read(&headers, &body)?, PhantomData));
        }
        require_json(&headers)?;
        let Object(fields) = serde_json::from_slice(&readable(&body)).map_err(|error| unreadable(&error))?;
        Ok(Self(Value::Object(fields), PhantomData))
    }
}

impl<S: Send + Sync, K: Kinds> FromRequest<S> for Text<K> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = kind_of(request.headers());
        if !K::KINDS.iter().any(|known| known.eq_ignore_ascii_case(kind)) {
            return Err(unsupported_media_type(kind, &K::KINDS.join(", ")));
        }
        let (_, bytes) = read_body(request, state).await;
        Ok(Self(bytes?, PhantomData))
    }
}

async fn read_body<S: Send + Sync>(request: Request, state: &S) -> (HeaderMap, Result<Bytes, Problem>) {
    let headers = request.headers().clone();
    if let Some(problem) = refuse_compressed(&headers) {
        return (headers, Err(problem));
    }
    let limit = request.extensions().get::<BodyLimit>().copied();
    let body = Bytes::from_request(request, state).await;
    (headers, body.map_err(|error| unreadable_body(&error, limit)))
}

/// Returns the refusal of a compressed body: decompressed, it could be far larger than the body limit.
pub(crate) fn refuse_compressed(headers: &HeaderMap) -> Option<Problem> {
    let encoding = headers.get(header::CONTENT_ENCODING)?;
    if encoding.as_bytes().eq_ignore_ascii_case(b"identity") {
        return None;
    }
    let detail = format!("the body has the content encoding {encoding:?}, which is not accepted");
    let problem = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "body_encoded", detail);
    Some(problem.hint("send it uncompressed, without the header Content-Encoding"))
}

/// Returns the problem for a body that could not be read.
pub(crate) fn unreadable_body(error: &BytesRejection, limit: Option<BodyLimit>) -> Problem {
    match (error.status(), limit) {
        (status @ StatusCode::PAYLOAD_TOO_LARGE, Some(BodyLimit(bytes))) => {
            let detail = format!("the body has more than the {bytes} bytes that are allowed here");
            Problem::new(status, "body_too_large", detail)
        }
        (status @ StatusCode::PAYLOAD_TOO_LARGE, None) => Problem::new(status, "body_too_large", error.body_text()),
        (status, _) => Problem::new(status, "body_invalid", error.body_text()),
    }
}

/// Returns the media type that the request states for its body.
fn kind_of(headers: &HeaderMap) -> &str {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// Returns the problem for a body of an unsupported media type.
pub(crate) fn unsupported_media_type(kind: &str, expected: &str) -> Problem {
    let detail = format!("the media type of the body is {kind:?}, which is not accepted here");
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "body_not_json", detail).hint(format!("send {expected}"))
}

fn read<T: DeserializeOwned + JsonSchema>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    require_json(headers)?;
    read_json(body)
}

fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = kind_of(headers);
    if kind.eq_ignore_ascii_case("application/json") {
        Ok(())
    } else {
        Err(unsupported_media_type(kind, "application/json"))
    }
}

/// An object without duplicate fields, as a body that is deserialized into a struct has to be.
struct Object(Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(UniqueKeysVisitor)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Object, M::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(M::Error::custom(format!("duplicate field `{name}`")));
            }
            let value = map.next_value()?;
            fields.insert(name, value);
        }
        Ok(Object(fields))
    }
}

/// Reads JSON, whatever media type is stated.
///
/// A list is not accepted as the values of an object in order, because the client has left something out.
pub(crate) fn read_json<T: DeserializeOwned + JsonSchema>(body: &[u8]) -> Result<T, Problem> {
    if body.trim_ascii().is_empty() {
        return Err(body_invalid("the body is empty, but has to be JSON"));
    }
    let is_list = body.trim_ascii_start().starts_with(b"[");
    if is_list && is_object::<T>() {
        let parsed: Result<IgnoredAny, _> = serde_json::from_slice(&readable(body));
        parsed.map_err(|error| unreadable(&error))?;
        return Err(body_invalid("the body is a list, but has to be an object"));
    }
    let body = readable(body);
    serde_json::from_slice(&body).map_err(|error| {
        // Only the fields tell where a value is of the wrong kind; the position in the text does not help a program.
        let fields = serde_json::from_slice::<Object>(&body).ok();
        match fields.and_then(|Object(fields)| wrong_field::<T>(&fields)) {
            Some((name, error)) => unreadable(&format!("{name}: {error}")),
            None => unreadable(&error),
        }
    })
}

/// Returns the problem for a body that is not the expected JSON.
pub(crate) fn unreadable(error: &(impl fmt::Display + ?Sized)) -> Problem {
    let detail = in_plain_words(error, "an object");
    body_invalid(format!("the body cannot be read: {detail}"))
}

/// Returns whether the schema of `T` is an object and nothing else.
fn is_object<T: JsonSchema>() -> bool {
    let schema = T::json_schema(&mut SchemaGenerator::default());
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// Returns the problem for a body with invalid content.
pub(crate) fn body_invalid(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "body_invalid", detail)
}
