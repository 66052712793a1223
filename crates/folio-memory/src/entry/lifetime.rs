//! How long an entry holds.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How long an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// Forever.
    #[default]
    Unlimited,
    /// Until an instant, which is itself no longer part of the lifetime (M7.1.1).
    Until(Timestamp),
}

impl Lifetime {
    /// Whether the lifetime includes `now`. Lifetimes are half-open, so consecutive ones neither overlap nor leave a
    /// gap.
    #[must_use]
    pub fn is_live(self, now: Timestamp) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Until(end) => now < end,
        }
    }

    /// The instant at which the lifetime ends.
    #[must_use]
    pub fn expires_at(self) -> Option<Timestamp> {
        match self {
            Self::Unlimited => None,
            Self::Until(end) => Some(end),
        }
    }

    /// Whether the lifetime has no end, in which case written records leave it out.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        matches!(self, Self::Unlimited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetime_is_over_at_the_instant_it_ends_m7_1_1() {
        let lifetime = Lifetime::Until(Timestamp::from_millis(60_000));
        assert!(lifetime.is_live(Timestamp::from_nanos(59_999_999_999)));
        assert!(!lifetime.is_live(Timestamp::from_millis(60_000)));
    }
}
