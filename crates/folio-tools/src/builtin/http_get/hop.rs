//! One request, and whether it is the last one.

use std::error::Error;

use folio_memory::causes::{causes, innermost};
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Client, Response, Url};
use rustls::CertificateError;

use super::client::NotPublic;
use crate::response::{FailureKind, ToolError};

/// What a server answers to a request.
pub(super) enum Hop {
    /// The answer, whose body has not been read yet.
    Answered(Box<Response>),
    /// A redirect to another address.
    SentOn(Url),
}

/// Requests `url` once.
pub(super) async fn send_request(client: &Client, url: Url, headers: HeaderMap) -> Result<Hop, ToolError> {
    let sent = client.get(url.clone()).headers(headers).send().await;
    let response = sent.map_err(|error| failed(&url, &error))?;
    let location = response.headers().get(LOCATION);
    let Some(location) = location.filter(|_| response.status().is_redirection()) else {
        return Ok(Hop::Answered(Box::new(response)));
    };
    let next = location.to_str().ok().and_then(|location| url.join(location).ok());
    let next = next.filter(|next| matches!(next.scheme(), "http" | "https"));
    let Some(mut next) = next.filter(|next| next.username().is_empty() && next.password().is_none()) else {
        let message = format!("http_get: {url} redirects to something that is not a plain http or https address");
        return Err(ToolError::new(FailureKind::Failed, "http_redirects", message));
    };
    next.set_fragment(None);
    Ok(Hop::SentOn(next))
}

/// Why the request for `url` failed, or why its answer could not be read.
pub(super) fn failed(url: &Url, error: &reqwest::Error) -> ToolError {
    if let Some(refused) = causes(error).find_map(|cause| cause.downcast_ref::<NotPublic>()) {
        let message = format!("http_get: {url} was not requested: {refused}");
        return ToolError::new(FailureKind::Denied, "http_not_allowed", message).hint(format!(
            "if you mean that address, start the run with --allow-host {}",
            network_of(&refused.address)
        ));
    }
    let tls = causes(error).find_map(<dyn Error>::downcast_ref::<rustls::Error>);
    if let Some(rustls::Error::InvalidCertificate(cert_error)) = tls {
        let host = url.host_str().unwrap_or_default();
        let message = format!(
            "http_get: {url} was not requested: the certificate of {host} {}",
            describe_cert_error(cert_error)
        );
        return ToolError::new(FailureKind::Failed, "http_untrusted", message).hint(
            "certificates that this machine trusts are trusted here, or those in the file that SSL_CERT_FILE names",
        );
    }
    if tls.is_some() && error.is_connect() {
        let message = format!("http_get: {url} cannot be reached: its server does not speak TLS as it should");
        return ToolError::new(FailureKind::Unavailable, "http_failed", message)
            .hint("its address may begin with http://, not https://");
    }
    let problem = if error.is_connect() {
        "cannot be reached"
    } else if error.is_timeout() {
        "does not answer"
    } else if error.is_body() || error.is_decode() {
        "broke off in the middle of its answer"
    } else {
        "did not follow the protocol"
    };
    let message = format!("http_get: {url} {problem}: {}", innermost(error));
    ToolError::new(FailureKind::Unavailable, "http_failed", message)
}

/// The network of one address.
fn network_of(address: &str) -> String {
    let bits = if address.contains(':') { 128 } else { 32 };
    format!("{address}/{bits}")
}

/// What is wrong with a certificate.
fn describe_cert_error(cert_error: &CertificateError) -> &'static str {
    match cert_error {
        CertificateError::UnknownIssuer => "is not signed by a trusted authority",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => "is for another host",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "is not valid yet",
        CertificateError::Revoked => "was revoked",
        _ => "is not valid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::HostRule;

    #[test]
    fn network_in_the_hint_is_that_of_the_one_address() {
        for (address, network) in [("10.0.0.7", "10.0.0.7/32"), ("fd00::7", "fd00::7/128")] {
            let shown = network_of(address);
            assert_eq!(shown, network);
            assert!(shown.parse::<HostRule>().is_ok());
        }
    }
}
