//! Where spans go, and why nothing is sent.

use std::fmt;
use std::time::Duration;

/// How long a batch may take, if nobody says.
const WITHIN: Duration = Duration::from_secs(10);
/// Where a collector takes spans, below its address.
const SIGNAL: &str = "v1/traces";

/// Why nothing is sent.
#[derive(Debug, thiserror::Error)]
#[error("spans cannot be sent to {place}: {reason}")]
pub struct TelemetryError {
    /// The address without what may be a password.
    pub(crate) place: String,
    pub(crate) reason: String,
}

/// Where spans go.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TelemetryOptions {
    /// The whole address, with the path.
    pub(crate) address: String,
    /// Whether the environment names it: then its headers (`OTEL_EXPORTER_OTLP_HEADERS`) are for it.
    pub(crate) is_of_environment: bool,
    /// How long a batch of spans may take until it is given up, all attempts together. Default: 10 s.
    pub within: Duration,
    /// What the environment says and nobody can read, a line each, for whoever tells people. Default: nothing.
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
    /// To the collector at `endpoint`, which is an address without the path of a signal: `http://127.0.0.1:4318`.
    #[must_use]
    pub fn to(endpoint: &str) -> Self {
        Self::at(&format!("{}/{SIGNAL}", endpoint.trim_end_matches('/')))
    }

    /// To the whole address `address`.
    #[must_use]
    pub fn at(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            is_of_environment: false,
            within: WITHIN,
            unread: Vec::new(),
        }
    }

    /// The same where the environment names the address: then it says the rest, too.
    #[must_use]
    pub fn of_environment(mut self) -> Self {
        self.is_of_environment = true;
        self
    }

    /// Where they go, as people see it: without what may be a password.
    pub(crate) fn place(&self) -> String {
        let address = self.address.split(['?', '#']).next().unwrap_or_default();
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        let rest = rest.trim_end_matches(SIGNAL).trim_end_matches('/');
        if scheme.is_empty() {
            rest.to_owned()
        } else {
            format!("{scheme}://{rest}")
        }
    }
}
