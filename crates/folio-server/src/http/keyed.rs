//! What is asked for under an `Idempotency-Key`: enough of it to know another request that comes with the same key.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest as _, Request};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use folio::memory::canonical::{canonical, digest_of};
use folio::memory::readable::readable;
use serde_json::Value;

use super::caller::KEY;
use super::input::{self, BodyLimit};

/// The hash of what a request says besides its method, its path and its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said(pub(crate) [u8; 32]);

/// Reads the body of a request that has a key before anybody else does, and notes what it says.
pub(crate) async fn noted(request: Request, next: Next) -> Response {
    // A whole space is brought in item by item, and none of that is done under the key.
    if !request.headers().contains_key(KEY) || request.uri().path().ends_with("/import") {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let limit = parts.extensions.get::<BodyLimit>().copied();
    let request = Request::from_parts(parts.clone(), body);
    let body = match Bytes::from_request(request, &()).await {
        Ok(body) => body,
        Err(error) => return input::refused(&error, limit).into_response(),
    };
    let said = said(&parts.headers, parts.uri.query().unwrap_or_default(), &body);
    parts.extensions.insert(said);
    next.run(Request::from_parts(parts, Body::from(body))).await
}

/// In which order the fields of a body stand says nothing.
fn said(headers: &HeaderMap, query: &str, body: &[u8]) -> Said {
    let version = headers.get(header::IF_MATCH).map(|version| version.as_bytes());
    let sorted = serde_json::from_slice(&readable(body)).map(|value: Value| canonical(value).to_string());
    let body = sorted.as_ref().map_or(body, |sorted| sorted.as_bytes());
    Said(digest_of([query.as_bytes(), version.unwrap_or_default(), body]))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_request_is_known_by_what_it_says_and_not_by_how_that_is_written() {
        let bare = HeaderMap::new();
        let mut of_a_version = HeaderMap::new();
        of_a_version.insert(header::IF_MATCH, HeaderValue::from_static("\"3\""));
        let first = said(&bare, "", br#"{"a": {"b": 1, "c": 2}, "d": []}"#).0;
        assert_eq!(first, said(&bare, "", br#"{"d":[],"a":{"c":2,"b":1}}"#).0);
        let others = [
            said(&bare, "", br#"{"d":[],"a":{"c":2,"b":"1"}}"#),
            said(&bare, "base_version=2", br#"{"d":[],"a":{"c":2,"b":1}}"#),
            said(&of_a_version, "", br#"{"d":[],"a":{"c":2,"b":1}}"#),
            said(&bare, "", b"not JSON"),
            said(&bare, "", b""),
        ];
        assert!(others.iter().all(|other| other.0 != first));
    }
}
