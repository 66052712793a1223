//! Fingerprints of requests with an `Idempotency-Key`, to recognize a different request with the same key.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest as _, Request};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use folio::memory::canonical::{canonical, digest_of};
use folio::memory::readable::readable;
use serde_json::Value;

use super::caller::KEY_HEADER;
use super::input::{self, BodyLimit};

/// The hash of the content of a request: everything except its method, path and key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentHash(pub(crate) [u8; 32]);

/// Reads the body of a request that has a key before the handler does, and stores the hash of its content.
pub(crate) async fn record_content_hash(request: Request, next: Next) -> Response {
    // An import writes item by item, and none of its writes uses the key.
    if !request.headers().contains_key(KEY_HEADER) || request.uri().path().ends_with("/import") {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let limit = parts.extensions.get::<BodyLimit>().copied();
    let request = Request::from_parts(parts.clone(), body);
    let body = match Bytes::from_request(request, &()).await {
        Ok(body) => body,
        Err(error) => return input::unreadable_body(&error, limit).into_response(),
    };
    let hash = hash_content(&parts.headers, parts.uri.query().unwrap_or_default(), &body);
    parts.extensions.insert(hash);
    next.run(Request::from_parts(parts, Body::from(body))).await
}

/// Hashes the content of a request. The order of the fields of a JSON body makes no difference, and an empty object means
/// the same as no body.
fn hash_content(headers: &HeaderMap, query: &str, body: &[u8]) -> ContentHash {
    let version = headers.get(header::IF_MATCH).map(|version| version.as_bytes());
    let sorted = serde_json::from_slice(&readable(body)).map(|value: Value| canonical(value).to_string());
    let body = sorted.as_ref().map_or(body, |sorted| sorted.as_bytes());
    let body = if body == b"{}" { &[] } else { body };
    ContentHash(digest_of([query.as_bytes(), version.unwrap_or_default(), body]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn request_digest_ignores_json_formatting_and_member_order() {
        let bare = HeaderMap::new();
        let mut of_a_version = HeaderMap::new();
        of_a_version.insert(header::IF_MATCH, HeaderValue::from_static("\"3\""));
        let first = hash_content(&bare, "", br#"{"a": {"b": 1, "c": 2}, "d": []}"#).0;
        assert_eq!(first, hash_content(&bare, "", br#"{"d":[],"a":{"c":2,"b":1}}"#).0);
        let all = [
            hash_content(&bare, "", br#"{"d":[],"a":{"c":2,"b":1}}"#),
            hash_content(&bare, "", br#"{"d":[],"a":{"c":2,"b":"1"}}"#),
            hash_content(&bare, "base_version=2", br#"{"d":[],"a":{"c":2,"b":1}}"#),
            hash_content(&of_a_version, "", br#"{"d":[],"a":{"c":2,"b":1}}"#),
            hash_content(&bare, "", b"not JSON"),
            hash_content(&bare, "", b""),
        ];
        assert_eq!(hash_content(&bare, "", b"").0, hash_content(&bare, "", b" { } ").0);
        let distinct: BTreeSet<_> = all.iter().map(|hash| &hash.0).collect();
        assert_eq!(distinct.len(), all.len(), "each is another request");
    }
}
