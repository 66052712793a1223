//! One request, and whether it is the last one.

use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Client, Response, Url};

use super::client::{NotPublic, causes, innermost};
use crate::response::{FailureKind, ToolError};

/// What a server says to a request.
pub(super) enum Hop {
    /// Its answer, of which the body is not read yet.
    Answered(Box<Response>),
    /// To ask somewhere else.
    SentOn(Url),
}

/// Asks for `url` once.
pub(super) async fn ask(client: &Client, url: Url, headers: HeaderMap) -> Result<Hop, ToolError> {
    let sent = client.get(url.clone()).headers(headers).send().await;
    let response = sent.map_err(|error| failed(&url, &error))?;
    let location = response.headers().get(LOCATION);
    let Some(location) = location.filter(|_| response.status().is_redirection()) else {
        return Ok(Hop::Answered(Box::new(response)));
    };
    let next = location.to_str().ok().and_then(|location| url.join(location).ok());
    let next = next.filter(|next| matches!(next.scheme(), "http" | "https"));
    let Some(mut next) = next.filter(|next| next.username().is_empty() && next.password().is_none()) else {
        let message = format!("http_get: {url} sends on to what is no address of http or https");
        return Err(ToolError::new(FailureKind::Failed, "http_redirects", message));
    };
    next.set_fragment(None);
    Ok(Hop::SentOn(next))
}

/// Why `url` could not be asked for, or its answer not be read.
pub(super) fn failed(url: &Url, error: &reqwest::Error) -> ToolError {
    if let Some(refused) = causes(error).find_map(|cause| cause.downcast_ref::<NotPublic>()) {
        let message = format!("http_get: {url} was not asked for: {refused}");
        return ToolError::new(FailureKind::Denied, "http_not_allowed", message).hint(format!(
            "start the run with --allow-host {}/32 if it is meant",
            refused.address
        ));
    }
    let what = if error.is_connect() {
        "cannot be reached"
    } else if error.is_timeout() {
        "does not answer"
    } else if error.is_body() || error.is_decode() {
        "broke off in the middle of its answer"
    } else {
        "did not answer as the protocol says"
    };
    let message = format!("http_get: {url} {what}: {}", innermost(error));
    ToolError::new(FailureKind::Unavailable, "http_failed", message)
}
