//! The body of a request.

use std::marker::PhantomData;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::Problem;

/// A body of JSON.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

/// The same where nothing need be said.
#[derive(Debug)]
pub(crate) struct MayBody<T>(pub(crate) T);

/// JSON as it came, for what reads it itself; described as a `T`.
#[derive(Debug)]
pub(crate) struct Raw<T>(pub(crate) Value, pub(crate) PhantomData<T>);

/// Lines or a text, as bytes.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) kind: String,
    pub(crate) bytes: Bytes,
}

impl<S: Send + Sync, T: DeserializeOwned + JsonSchema> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (headers, body) = taken(request, state).await;
        read(&headers, &body?).map(Self)
    }
}

impl<S: Send + Sync, T: Default + DeserializeOwned + JsonSchema> FromRequest<S> for MayBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (headers, body) = taken(request, state).await;
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
        let (headers, body) = taken(request, state).await;
        Ok(Self(read(&headers, &body?)?, PhantomData))
    }
}

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (headers, bytes) = taken(request, state).await;
        let kind = kind_of(&headers).to_ascii_lowercase();
        Ok(Self { kind, bytes: bytes? })
    }
}

async fn taken<S: Send + Sync>(request: Request, state: &S) -> (HeaderMap, Result<Bytes, Problem>) {
    let headers = request.headers().clone();
    let body = Bytes::from_request(request, state).await;
    (headers, body.map_err(refused))
}

fn refused(error: BytesRejection) -> Problem {
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(error.status(), "body_too_large", error.body_text()),
        status => Problem::new(status, "body_invalid", error.body_text()),
    }
}

/// What the body is said to be.
fn kind_of(headers: &HeaderMap) -> &str {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// That the body is of another kind than what can be read.
pub(crate) fn other_kind(kind: &str, wanted: &str) -> Problem {
    let detail = format!("the body is said to be {kind:?}");
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "body_not_json", detail).hint(format!("send {wanted}"))
}

fn read<T: DeserializeOwned + JsonSchema>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    let kind = kind_of(headers);
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(other_kind(kind, "application/json"));
    }
    read_json(body)
}

/// Reads JSON, whatever it is said to be.
///
/// What is an object is not taken as a list of its values: whoever sends one has left something out.
pub(crate) fn read_json<T: DeserializeOwned + JsonSchema>(body: &[u8]) -> Result<T, Problem> {
    let is_list = body.trim_ascii_start().starts_with(b"[");
    if is_list && is_object::<T>() {
        return Err(body_invalid("the body is a list, and has to be an object"));
    }
    serde_json::from_slice(body).map_err(|error| body_invalid(format!("the body cannot be read: {error}")))
}

/// Whether a `T` is described as an object and nothing else.
fn is_object<T: JsonSchema>() -> bool {
    let schema = T::json_schema(&mut SchemaGenerator::default());
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// That a body says what it cannot say.
pub(crate) fn body_invalid(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "body_invalid", detail)
}
