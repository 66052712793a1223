//! How long an observation holds: what was asked for, the default of its type, and what is put right (M7.1.2 to M7.1.5).

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::entry::Lifetime;
use crate::policy::MAX_TTL_MINUTES;
use crate::time::Timestamp;
use crate::warning::{Invalid, Warning};

/// A lifetime as it was written: leaving it out and writing `null` are different things (M7.1.5).
#[derive(Debug, Clone, PartialEq, Default)]
pub enum TtlInput {
    /// Left out.
    #[default]
    Absent,
    /// `null`.
    Never,
    /// Anything else.
    Given(Value),
}

impl TtlInput {
    /// Whether it was left out.
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
            value => Self::Given(value),
        })
    }
}

/// The end that `ttl` and `expires_at` mean for what is recorded at `now`: the earlier one if both are given.
pub(super) fn lifetime(
    ttl: &TtlInput,
    expires_at: Option<&str>,
    default_ttl: Option<Duration>,
    now: Timestamp,
    warnings: &mut Vec<Warning>,
) -> Result<Lifetime, Invalid> {
    let end_given = expires_at
        .map(Timestamp::parse)
        .transpose()
        .map_err(|message| Invalid::new("expires_at_invalid", "expires_at", message))?;
    let by_ttl = match ttl {
        TtlInput::Absent if end_given.is_some() => None,
        TtlInput::Absent => default_ttl.map(|ttl| now.plus(ttl)),
        TtlInput::Never => None,
        TtlInput::Given(value) => ttl_of(value, default_ttl, warnings).map(|ttl| now.plus(ttl)),
    };
    Ok(match (by_ttl, end_given) {
        (Some(a), Some(b)) => {
            let earlier = a.min(b);
            let message = "both ttl_minutes and expires_at were given; the earlier holds";
            warnings.push(Warning::new(
                "ttl_and_expires_at",
                message,
                format!("{a} and {b}"),
                earlier.to_string(),
            ));
            Lifetime::Until(earlier)
        }
        (Some(end), None) | (None, Some(end)) => Lifetime::Until(end),
        (None, None) => Lifetime::Unlimited,
    })
}

/// Minutes as a duration; what makes no sense becomes the default (M7.1.4), not the nearest sensible value.
fn ttl_of(value: &Value, default_ttl: Option<Duration>, warnings: &mut Vec<Warning>) -> Option<Duration> {
    let minutes = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match minutes.filter(|m| (0.0..=f64::from(MAX_TTL_MINUTES)).contains(m)) {
        // Stored as millisecond instants (M7.1.2). The range above keeps the seconds finite and not negative.
        Some(minutes) => Some(Duration::from_secs_f64((minutes * 60_000.0).round() / 1000.0)),
        None => {
            let used = default_ttl.map_or_else(|| Value::from("never"), |ttl| (ttl.as_secs() / 60).into());
            let message = "ttl_minutes is a number from 0 to 525600; the default of the type is used";
            warnings.push(Warning::new("ttl_invalid", message, value.clone(), used));
            default_ttl
        }
    }
}
