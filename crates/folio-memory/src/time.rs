//! Instants, and the clock that they come from.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::warning::ParseError;

/// An instant, in nanoseconds since 1970-01-01T00:00:00Z.
///
/// Written and read as RFC 3339 in UTC. Covers the years 1678 to 2262; arithmetic stops at those ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest instant that can be represented.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest instant that can be represented.
    pub const MAX: Self = Self(i64::MAX);

    /// The instant this many nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The instant this many milliseconds after the epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the epoch, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// The instant `by` later than this one.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// The instant `by` earlier than this one.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// The time from `earlier` to this instant; zero if this instant is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Parses RFC 3339 with any offset.
    ///
    /// # Errors
    ///
    /// The reason in words if `text` is not an instant that can be represented.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let parsed: jiff::Timestamp = text
            .parse()
            .map_err(|e| ParseError::new(format!("{text:?} is not an RFC 3339 time: {e}")))?;
        i64::try_from(parsed.as_nanosecond())
            .map(Self)
            .map_err(|_| ParseError::new(format!("{text:?} is outside the years 1678 to 2262")))
    }

    /// Parses like [`Self::parse`], but returns the earliest or latest representable instant for a text outside the
    /// range.
    ///
    /// # Errors
    ///
    /// The reason in words if `text` is not an instant.
    pub fn parse_nearest(text: &str) -> Result<Self, ParseError> {
        Self::parse(text).or_else(|why| nearest_in_range(text).ok_or(why))
    }
}

/// The nearest representable instant if `text` is RFC 3339 of a year outside the range: many programs write the year
/// 9999 for "never".
fn nearest_in_range(text: &str) -> Option<Timestamp> {
    let pieces = jiff::fmt::temporal::Pieces::parse(text).ok()?;
    let is_instant = pieces.time().is_some() && pieces.offset().is_some();
    match pieces.date().year() {
        ..1678 if is_instant => Some(Timestamp::MIN),
        2262.. if is_instant => Some(Timestamp::MAX),
        _ => None,
    }
}

impl FromStr for Timestamp {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(instant) => write!(f, "{instant}"),
            Err(_) => write!(f, "{}ns", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// The only source of time (M7.1.9). Pure code takes `now` instead.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The current instant.
    fn now(&self) -> Timestamp;

    /// How long this machine has been awake since some fixed moment, whatever anybody sets clocks to; `None` if that is
    /// not known. Where [`now`](Self::now) has moved further than this, the machine has slept, or a clock was set.
    fn awake(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_round_trips_through_its_text() {
        let instant = Timestamp::from_nanos(1_700_000_000_123_456_789);
        assert_eq!(instant.to_string(), "2023-11-14T22:13:20.123456789Z");
        assert_eq!(Timestamp::parse(&instant.to_string()), Ok(instant));
    }

    #[test]
    fn timestamp_with_an_offset_is_converted_to_utc() {
        assert_eq!(
            Timestamp::parse("2025-11-05T11:30:00+01:00").unwrap().to_string(),
            "2025-11-05T10:30:00Z"
        );
    }

    #[test]
    fn out_of_range_timestamp_becomes_the_nearest_one() {
        for (text, nearest) in [
            ("9999-12-31T23:59:59Z", Timestamp::MAX),
            ("9999-12-31T23:59:59-12:00", Timestamp::MAX),
            ("2262-04-12T00:00:00Z", Timestamp::MAX),
            ("1677-09-20T00:00:00Z", Timestamp::MIN),
            ("0001-01-01T00:00:00Z", Timestamp::MIN),
        ] {
            assert!(Timestamp::parse(text).is_err(), "{text}");
            assert_eq!(Timestamp::parse_nearest(text), Ok(nearest), "{text}");
        }
        let near = "2262-04-11T00:00:00Z";
        assert_eq!(Timestamp::parse_nearest(near), Timestamp::parse(near));
        for text in [
            "never",
            "9999-12-31",
            "9999-12-31T23:59:59",
            "9999-13-31T00:00:00Z",
            "2026-02-30T00:00:00Z",
        ] {
            assert!(Timestamp::parse_nearest(text).is_err(), "{text}");
        }
    }

    #[test]
    fn timestamp_arithmetic_saturates() {
        assert_eq!(
            Timestamp::from_nanos(i64::MAX).plus(Duration::from_secs(1)),
            Timestamp::from_nanos(i64::MAX)
        );
        assert_eq!(Timestamp::from_nanos(5).since(Timestamp::from_nanos(9)), Duration::ZERO);
    }
}
