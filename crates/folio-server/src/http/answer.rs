//! Successful responses.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A value with its version (`ETag`, which `If-Match` takes) and its location.
#[derive(Debug)]
pub(crate) struct Answer<T, const STATUS: u16 = 200> {
    value: T,
    version: Option<u32>,
    location: Option<String>,
}

/// The response to a creation.
pub(crate) type Made<T> = Answer<T, 201>;
/// The response to a request that is recorded durably and carried out later.
pub(crate) type Accepted<T> = Answer<T, 202>;

impl<T, const STATUS: u16> Answer<T, STATUS> {
    /// Responds with `value`.
    pub(crate) fn of(value: T) -> Self {
        Self {
            value,
            version: None,
            location: None,
        }
    }

    /// Sets the version.
    pub(crate) fn version(self, version: u32) -> Self {
        Self {
            version: Some(version),
            ..self
        }
    }

    /// Sets the location.
    pub(crate) fn with_location(self, location: String) -> Self {
        Self {
            location: Some(location),
            ..self
        }
    }
}

impl<T: Serialize, const STATUS: u16> IntoResponse for Answer<T, STATUS> {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(STATUS).unwrap_or_default();
        let mut response = (status, Json(self.value)).into_response();
        let headers = response.headers_mut();
        let version = self.version.map(|version| format!("\"{version}\""));
        for (name, value) in [(header::ETAG, version), (header::LOCATION, self.location)] {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
                headers.insert(name, value);
            }
        }
        response
    }
}
