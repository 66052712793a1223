//! The lifetime of an observation: the requested value, the default of its type, and corrections (M7.1.2 to M7.1.5).

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::entry::Lifetime;
use crate::policy::MAX_TTL_MINUTES;
use crate::time::Timestamp;
use crate::warning::{Invalid, Warning};

/// A lifetime as it was written. Leaving it out differs from `null` (M7.1.5).
#[derive(Debug, Clone, PartialEq, Default)]
pub enum TtlInput {
    /// The field was left out.
    #[default]
    Absent,
    /// `null`, or `"never"` in places where `null` has no meaning.
    Never,
    /// Any other value.
    Given(Value),
}

impl TtlInput {
    /// Whether the field was left out.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl Serialize for TtlInput {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent | Self::Never => serializer.serialize_none(),
            Self::Given(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TtlInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::Null => Self::Never,
            Value::String(text) if text == "never" => Self::Never,
            value => Self::Given(value),
        })
    }
}

/// The fields that state the lifetime, as they were sent.
fn sent(ttl: &TtlInput, expires_at: &str) -> Value {
    json!({"ttl_minutes": ttl, "expires_at": expires_at})
}

/// The lifetime that `ttl` and `expires_at` give an entry recorded at `now`: the earlier end if both are given.
pub(super) fn lifetime(
    ttl: &TtlInput,
    expires_at: Option<&str>,
    default_ttl: Option<Duration>,
    now: Timestamp,
    warnings: &mut Vec<Warning>,
) -> Result<Lifetime, Invalid> {
    let end_given = match expires_at {
        None => None,
        Some(text) => Some(end_of(text, default_ttl, now, warnings)?),
    };
    let by_ttl = match ttl {
        TtlInput::Absent if expires_at.is_some() => None,
        TtlInput::Absent => default_ttl.map(|ttl| now.plus(ttl)),
        TtlInput::Never => None,
        TtlInput::Given(value) => ttl_of(value, default_ttl, warnings).map(|ttl| now.plus(ttl)),
    };
    Ok(match (by_ttl, end_given.flatten()) {
        (Some(a), Some(b)) => {
            let earlier = a.min(b);
            let message = "both ttl_minutes and expires_at were given; the earlier end is used";
            warnings.push(Warning::new(
                "ttl_and_expires_at",
                message,
                sent(ttl, expires_at.unwrap_or_default()),
                earlier.to_string(),
            ));
            Lifetime::Until(earlier)
        }
        (Some(end), None) | (None, Some(end)) => Lifetime::Until(end),
        (None, None) => Lifetime::Unlimited,
    })
}

/// The end given by `text`, with the same bounds as minutes have. An end that is too far away is replaced by the
/// default (M7.1.4), which may be no end at all. An end in the past takes effect at once, with a warning.
fn end_of(
    text: &str,
    default_ttl: Option<Duration>,
    now: Timestamp,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Timestamp>, Invalid> {
    let end =
        Timestamp::parse_nearest(text).map_err(|message| Invalid::new("expires_at_invalid", "expires_at", message))?;
    if end > now.plus(Duration::from_secs(u64::from(MAX_TTL_MINUTES) * 60)) {
        let end = default_ttl.map(|ttl| now.plus(ttl));
        let used = end.map_or_else(|| "never".to_owned(), |end| end.to_string());
        let message = "expires_at is more than 525600 minutes from now; the default of the type is used";
        warnings.push(Warning::new("ttl_invalid", message, text, used));
        return Ok(end);
    }
    if end < now {
        let message = "expires_at is in the past: the observation is kept, but lists do not show it";
        warnings.push(Warning::new("expires_at_past", message, text, end.to_string()));
    }
    Ok(Some(end))
}

/// Converts minutes to a duration. An invalid value is replaced by the default (M7.1.4), not by the nearest valid one.
fn ttl_of(value: &Value, default_ttl: Option<Duration>, warnings: &mut Vec<Warning>) -> Option<Duration> {
    let minutes = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match minutes.filter(|m| (0.0..=f64::from(MAX_TTL_MINUTES)).contains(m)) {
        // Lifetimes are stored as instants in milliseconds (M7.1.2). The range above keeps the seconds finite and not
        // negative.
        Some(minutes) => Some(Duration::from_secs_f64((minutes * 60_000.0).round() / 1000.0)),
        None => {
            let used = default_ttl.map_or_else(|| Value::from("never"), |ttl| (ttl.as_secs() / 60).into());
            let message = "ttl_minutes must be a number from 0 to 525600; the default of the type is used";
            warnings.push(Warning::new("ttl_invalid", message, value.clone(), used));
            default_ttl
        }
    }
}
