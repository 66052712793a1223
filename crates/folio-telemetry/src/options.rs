//! The options of telemetry, and the error when spans cannot be sent.

use std::fmt;
use std::time::Duration;

/// The default for how long a batch may take.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// The path below a collector's address at which it accepts spans.
const TRACES_PATH: &str = "v1/traces";

/// Why no spans are sent.
#[derive(Debug, thiserror::Error)]
#[error("spans cannot be sent to {place}: {reason}")]
pub struct TelemetryError {
    /// The address without the parts that may contain a password.
    pub(crate) place: String,
    pub(crate) reason: String,
}

/// Where spans are sent, and how.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TelemetryOptions {
    /// The complete address, with the path.
    pub(crate) address: String,
    /// Whether the address comes from the environment: then the headers there (`OTEL_EXPORTER_OTLP_HEADERS`) are meant
    /// for it.
    pub(crate) is_of_environment: bool,
    /// How long a batch of spans may take until it is given up, all attempts together. Default: 10 s.
    pub within: Duration,
    /// Settings of the environment that could not be understood, one line each, for whoever reports them. Default:
    /// none.
    pub unread: Vec<String>,
}

impl fmt::Debug for TelemetryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryOptions")
            .field("place", &self.place())
            .field("is_of_environment", &self.is_of_environment)
            .field("within", &self.within)
            .field("unread", &self.unread)
            .finish()
    }
}

impl TelemetryOptions {
    /// Sends to the collector at `endpoint`, an address without the path of a signal: `http://127.0.0.1:4318`.
    #[must_use]
    pub fn to(endpoint: &str) -> Self {
        Self::at(&format!("{}/{TRACES_PATH}", endpoint.trim_end_matches('/')))
    }

    /// Sends to the complete address `address`.
    #[must_use]
    pub fn at(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            is_of_environment: false,
            within: TIMEOUT_DEFAULT,
            unread: Vec::new(),
        }
    }

    /// Marks the address as one that the environment names: then its headers apply, too.
    #[must_use]
    pub fn of_environment(mut self) -> Self {
        self.is_of_environment = true;
        self
    }

    /// Returns the address as it is shown to people: without the parts that may contain a password.
    pub(crate) fn place(&self) -> String {
        let address = self.address.split(['?', '#']).next().unwrap_or_default();
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        let rest = rest.trim_end_matches(TRACES_PATH).trim_end_matches('/');
        if scheme.is_empty() {
            rest.to_owned()
        } else {
            format!("{scheme}://{rest}")
        }
    }
}
