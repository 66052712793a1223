//! Says what went wrong with a server, in terms that whoever wrote its settings knows: never those of the library,
//! which name its own parts.

use std::error::Error;
use std::io;
use std::time::{Duration, SystemTime};

use folio_memory::Timestamp;
use folio_memory::causes::{causes, with_causes};
use folio_memory::excerpt::short_line;
use folio_model::{pause_in, unreached};
use rmcp::ServiceError;
use rmcp::model::ErrorData;
use rmcp::service::ClientInitializeError;
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{HttpStatusError, StreamableHttpError};

use crate::login;
use crate::servers::ToStart;

/// The most characters of a server's own words.
const MESSAGE_CHARS_MAX: usize = 400;

/// Why a connection could not be made.
#[derive(Debug)]
pub(crate) struct OpenFailure {
    pub(crate) why: String,
    /// Whether its program closed its output, as a program does that ends.
    pub(crate) has_ended: bool,
}

impl OpenFailure {
    pub(crate) fn because(why: String) -> Self {
        Self { why, has_ended: false }
    }

    fn ended(when: &str) -> Self {
        Self {
            why: format!("it ended {when}"),
            has_ended: true,
        }
    }
}

/// Returns why the conversation could not begin.
pub(crate) fn begin_failure(error: &ClientInitializeError, server: &ToStart) -> OpenFailure {
    let why = match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return begin_failure(fallback, server),
        ClientInitializeError::ConnectionClosed(_) => return OpenFailure::ended("before it was ready"),
        ClientInitializeError::TransportError { error, .. } => {
            if error.error.is::<io::Error>() {
                return OpenFailure::ended("before it was ready");
            }
            transport_failure_message(&*error.error, server)
        }
        ClientInitializeError::JsonRpcError(error) => format!("it refuses to begin: {}", refusal(error)),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<&str> = server_supported
                .iter()
                .take(8)
                .map(|version| version.as_str())
                .collect();
            let versions = bounded_line(&versions.join(", "));
            format!("it supports no version of the Model Context Protocol that Folio supports, but {versions}")
        }
        _ => "its answer to `initialize` is not valid in the Model Context Protocol".to_owned(),
    };
    OpenFailure::because(why)
}

/// Returns why the tools could not be listed.
pub(crate) fn list_failure(error: &ServiceError, server: &ToStart) -> OpenFailure {
    match error {
        ServiceError::TransportClosed => OpenFailure::ended("before it had listed its tools"),
        ServiceError::TransportSend(error) if error.error.is::<io::Error>() => {
            OpenFailure::ended("before it had listed its tools")
        }
        error => OpenFailure::because(format!(
            "it does not list its tools: {}",
            request_failure_message(error, server)
        )),
    }
}

/// Returns why a request was not answered.
pub(crate) fn request_failure_message(error: &ServiceError, server: &ToStart) -> String {
    match error {
        ServiceError::McpError(error) => format!("it answers: {}", refusal(error)),
        ServiceError::TransportSend(error) => transport_failure_message(&*error.error, server),
        ServiceError::TransportClosed => "it ended before it answered".to_owned(),
        ServiceError::UnexpectedResponse => "its answer is not valid in the Model Context Protocol".to_owned(),
        ServiceError::Timeout { .. } => "it did not answer in time".to_owned(),
        _ => "it did not answer".to_owned(),
    }
}

/// Returns what became of a request on its way to a server or back.
pub(crate) fn transport_failure_message(error: &(dyn Error + 'static), server: &ToStart) -> String {
    if let Some(message) = login::access_refused_message(error, server) {
        return message;
    }
    let Some(error) = causes(error).find_map(|cause| cause.downcast_ref::<StreamableHttpError<reqwest::Error>>())
    else {
        return "it no longer reads its input".to_owned();
    };
    let url = server.settings.url.as_deref().unwrap_or_default();
    let is_right = "is `url` right?";
    match error {
        StreamableHttpError::Client(error) if error.is_connect() => unreached(error, url),
        StreamableHttpError::Client(error) if error.is_timeout() => "it did not answer in time".to_owned(),
        StreamableHttpError::HttpStatus(error) => {
            let pause_note = pause_wanted(error).map_or_else(String::new, |pause| {
                format!(", and wants to be left alone for {} s", pause.as_secs())
            });
            format!("it answers with HTTP {}{pause_note}", error.status)
        }
        StreamableHttpError::UnexpectedServerResponse(message) => match status_in(message) {
            Some(status @ 300..=399) => format!(
                "it redirects to another address (HTTP {status}), which is not followed: put that address into `url`"
            ),
            Some(status @ (401 | 403)) => {
                format!("it denies access (HTTP {status}): `token` or `headers` is missing or wrong")
            }
            Some(status) => format!("it answers with HTTP {status}; {is_right}"),
            None => format!("its answer is not a message of the Model Context Protocol; {is_right}"),
        },
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().map_or_else(
                || "without a type".to_owned(),
                |kind| format!("with {}", bounded_line(kind)),
            );
            format!("it answers {kind}, not with JSON or events; {is_right}")
        }
        StreamableHttpError::ServerDoesNotSupportSse | StreamableHttpError::Deserialize(_) => {
            format!("its answer is not a message of the Model Context Protocol; {is_right}")
        }
        StreamableHttpError::ResponseBodyTooLarge { max_size } => {
            format!("its answer is longer than {max_size} bytes")
        }
        StreamableHttpError::SessionExpired
        | StreamableHttpError::ReinitializationFailed(_)
        | StreamableHttpError::SessionRecoveryTimeout
        | StreamableHttpError::MissingSessionIdInResponse => "it no longer knows our session".to_owned(),
        StreamableHttpError::Auth(
            AuthError::AuthorizationRequired
            | AuthError::TokenExpired
            | AuthError::TokenRefreshRejected(_)
            | AuthError::AuthorizationServerMismatch { .. },
        ) => {
            format!("the login to it is no longer valid: `folio tool login {}`", server.name)
        }
        // Errors of the server that issues tokens may contain a token. Errors of the token file are in our own words.
        StreamableHttpError::Auth(error @ AuthError::CredentialStoreError(_)) => {
            format!("its login could not be used now: {}", in_words(error))
        }
        StreamableHttpError::Auth(_) => "its login could not be renewed now".to_owned(),
        StreamableHttpError::ReservedHeaderConflict(name) => {
            format!(
                "`headers` must not have {}, which the protocol uses",
                bounded_line(name)
            )
        }
        _ => "the connection to it broke off".to_owned(),
    }
}

/// Returns whether a server certainly did nothing of what was requested: the request was never sent, or was answered
/// with a client error. A request that was too slow (408) may have been read.
pub(crate) fn is_refused(error: &StreamableHttpError<reqwest::Error>) -> bool {
    let status = match error {
        StreamableHttpError::Auth(_) => return true,
        StreamableHttpError::HttpStatus(error) => Some(error.status),
        StreamableHttpError::UnexpectedServerResponse(message) => status_in(message),
        _ => None,
    };
    status.is_some_and(|status| (400..500).contains(&status) && status != 408)
}

/// Returns how long a server asks to be left alone, if it says so. The library does not keep the date of the answer, so
/// a date is compared with this machine's clock.
pub(crate) fn pause_wanted(error: &HttpStatusError) -> Option<Duration> {
    #[expect(
        clippy::disallowed_methods,
        reason = "compared with a date of the wall, and nothing is kept of it"
    )]
    let since_epoch = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    pause_from(error, Timestamp::from_nanos(0).plus(since_epoch))
}

fn pause_from(error: &HttpStatusError, now: Timestamp) -> Option<Duration> {
    pause_in(error.retry_after.as_deref()?, Some(now))
}

/// Returns the HTTP status from the library's text for an answer that is not a message; the library puts it nowhere
/// else.
fn status_in(message: &str) -> Option<u16> {
    message.strip_prefix("HTTP ")?.get(..3)?.parse().ok()
}

/// Returns what a server says about a refused request.
fn refusal(error: &ErrorData) -> String {
    match bounded_line(&error.message) {
        message if message.is_empty() => format!("error {} without a message", error.code.0),
        message => format!("{message} ({})", error.code.0),
    }
}

/// Returns foreign text in one line of bounded length.
pub(crate) fn bounded_line(text: &str) -> String {
    short_line(text, MESSAGE_CHARS_MAX)
}

/// Returns why a login failed.
pub(crate) fn login_failure_message(error: &AuthError, server: &ToStart) -> String {
    let name = &server.name;
    match error {
        AuthError::RegistrationFailed(_) => format!(
            "the server where people log in does not let programs register themselves: put Folio's client id there into `client_id` of [mcp.{name}.oauth]"
        ),
        AuthError::NoAuthorizationSupport
        | AuthError::MetadataError(_)
        | AuthError::ProtectedResourceMetadataInvalid { .. }
        | AuthError::AuthorizationServersUnavailable { .. } => {
            format!("it does not say where people log in; is `url` of [mcp.{name}] right, and does it want a login?")
        }
        AuthError::DiscoveryRequestFailed { .. } => {
            unreached(error, server.settings.url.as_deref().unwrap_or_default())
        }
        error => in_words(error),
    }
}

/// Returns an error with its causes, in one line of bounded length.
pub(crate) fn in_words(error: &(dyn Error + 'static)) -> String {
    bounded_line(&with_causes(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date() {
        let now = Timestamp::parse("2026-10-21T07:28:00.250Z").unwrap();
        for (said, pause) in [
            ("7", Some(7_000)),
            ("Wed, 21 Oct 2026 07:28:30 GMT", Some(29_750)),
            ("Wed, 21 Oct 2026 07:28:00 GMT", None),
            ("soon", None),
        ] {
            let error = HttpStatusError::new(503, Some(said.to_owned()));
            assert_eq!(pause_from(&error, now), pause.map(Duration::from_millis), "{said}");
        }
        assert_eq!(pause_from(&HttpStatusError::new(503, None), now), None);
    }
}
