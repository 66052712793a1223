//! Where Restate is, and how it names a run.

use std::fmt;
use std::str::FromStr;

use folio::SpaceName;
use folio::memory::RunId;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that are not escaped in a path segment.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The address of one of Restate's interfaces: `http://HOST:PORT`, or `https://…`, with a path if it is behind one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(String);

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The text does not have the form of an address.
    #[error("{text:?} is not an address: it must begin with http:// or https:// and name a host")]
    Form {
        /// The text.
        text: String,
    },
    /// The text contains more than an address. That may be a password, so the error does not quote it.
    #[error(
        "the address may only have a scheme, host, port and path: Restate accepts no user names, passwords or settings in it"
    )]
    SaysMore,
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains(['@', '?', '#']) {
            return Err(PlaceError::SaysMore);
        }
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let is_address = rest.is_some_and(|rest| {
            !rest.is_empty() && !rest.starts_with(['/', ':']) && !rest.contains(char::is_whitespace)
        });
        if is_address {
            Ok(Self(text.trim_end_matches('/').to_owned()))
        } else {
            Err(PlaceError::Form { text: text.to_owned() })
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Place {
    /// Whether the connection is without TLS.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.starts_with("http://")
    }

    /// The URL of something below the address; each of `parts` is one path segment.
    pub(crate) fn url_below(&self, parts: &[&str]) -> String {
        let mut address = self.0.clone();
        for part in parts {
            address.push('/');
            address.extend(utf8_percent_encode(part, IN_PATH));
        }
        address
    }
}

/// The name by which Restate knows a run: its space and its id. Restate gives each name to one worker at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunKey {
    /// The space that contains the run.
    pub space: SpaceName,
    /// The run.
    pub run: RunId,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space, self.run)
    }
}

impl FromStr for RunKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || format!("{text:?} does not name a run: it must have the form SPACE/RUN");
        let (space, run) = text.rsplit_once('/').ok_or_else(invalid)?;
        Ok(Self {
            space: SpaceName::parse(space).map_err(|_| invalid())?,
            run: run.parse().map_err(|_| invalid())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_needs_an_http_scheme_and_may_hold_no_password() {
        for good in [
            "http://127.0.0.1:8080",
            "https://restate.example/ingress/",
            "http://[::1]:8080",
        ] {
            let place: Place = good.parse().unwrap();
            assert_eq!(place.to_string(), good.trim_end_matches('/'));
        }
        for bad in [
            "",
            "127.0.0.1:8080",
            "http://",
            "http:///x",
            "ftp://h",
            "http://me:hunter2@h",
            "http://h?a=hunter2",
            "hunter2@h",
        ] {
            let error = bad.parse::<Place>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn path_segments_are_percent_encoded() {
        let place: Place = "http://h:1".parse().unwrap();
        assert_eq!(place.url_below(&["a", "b/c d", "é"]), "http://h:1/a/b%2Fc%20d/%C3%A9");
    }

    #[test]
    fn run_key_round_trips_through_its_text_form() {
        let run: RunId = "run_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let key = RunKey {
            space: SpaceName::parse("team-a").unwrap(),
            run,
        };
        assert_eq!(key.to_string(), "team-a/run_01ARZ3NDEKTSV4RRFFQ69G5FAV");
        assert_eq!(key.to_string().parse(), Ok(key));
        for bad in [
            "",
            "main",
            "main/",
            "/run_01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "main/page_01ARZ3NDEKTSV4RRFFQ69G5FAV",
        ] {
            assert!(bad.parse::<RunKey>().is_err(), "{bad}");
        }
    }
}
