//! Limits that a plan or a task sets for itself.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::Serialize;

use super::duration;
use crate::spend::Allowance;

/// The most nodes that a run may have. They stay in memory while the run goes on, some two kilobytes each, so that
/// without a limit whoever may start a run could fill the memory of the process that drives it.
pub const NODES_MAX: u32 = 200_000;

/// Limits of a plan or of one task and everything below it.
///
/// An absent limit means "as above"; `0` means zero. A limit can only narrow the one above it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Budget {
    /// The most levels of sub-plans below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The most nodes in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// The most children of one group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<u32>,
    /// The most items of one `for_each`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
    /// The most results that a model combines at once; if there are more, parts of them are combined first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fan_in: Option<u32>,
    /// The most steps that run at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many times one node may plan anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replans: Option<u32>,
    /// The longest time that it may take, from its start.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "duration::serialize_option"
    )]
    pub deadline: Option<Duration>,
    /// The most bytes of output in one result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// The most tokens that models may read and write together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The most tokens that models may read, from a cache or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// The most tokens, of those read, that may come from the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_cached: Option<u64>,
    /// The most tokens that models may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// The most that it may cost, in millionths of a US dollar; written in dollars, `usd: 1.5`.
    #[serde(
        rename = "usd",
        skip_serializing_if = "Option::is_none",
        serialize_with = "serialize_dollars"
    )]
    pub micro_usd: Option<u64>,
    /// The most calls of models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// The most calls of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// The most bytes of its journal and pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

#[expect(
    clippy::cast_precision_loss,
    clippy::ref_option,
    reason = "serde hands the field by reference; amounts are far below 2^53 millionths"
)]
fn serialize_dollars<S: serde::Serializer>(micros: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match micros {
        Some(micros) => serializer.serialize_f64(*micros as f64 / 1e6),
        None => serializer.serialize_none(),
    }
}

impl Budget {
    /// A budget without limits.
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Budget>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }

    /// Whether no limit is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The same budget, with the limits of what can be used narrowed to `limits`.
    #[must_use]
    pub fn within(&self, limits: &Allowance) -> Self {
        let allowance = self.allowance().least(limits);
        let Allowance {
            tokens,
            tokens_in,
            tokens_cached,
            tokens_out,
            micro_usd,
            model_calls,
            tool_calls,
            bytes,
        } = allowance;
        Self {
            tokens,
            tokens_in,
            tokens_cached,
            tokens_out,
            micro_usd,
            model_calls,
            tool_calls,
            bytes,
            ..self.clone()
        }
    }

    /// The limits on what can be used.
    pub fn allowance(&self) -> Allowance {
        Allowance {
            tokens: self.tokens,
            tokens_in: self.tokens_in,
            tokens_cached: self.tokens_cached,
            tokens_out: self.tokens_out,
            micro_usd: self.micro_usd,
            model_calls: self.model_calls,
            tool_calls: self.tool_calls,
            bytes: self.bytes,
        }
    }
}

/// A share of the limits around a task: more than zero, and at most all of them (E9.1). Kept in millionths, so that the
/// result is the same on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    millionths: u32,
}

impl Share {
    const ALL: u32 = 1_000_000;

    /// The share that is `share` of everything, rounded to a millionth; `None` unless `share` is more than 0 and at
    /// most 1.
    #[must_use]
    pub fn of(share: f64) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked"
        )]
        let millionths = |share: f64| ((share * f64::from(Self::ALL)).round() as u32).max(1);
        (share > 0.0 && share <= 1.0).then(|| Self {
            millionths: millionths(share),
        })
    }

    /// This share of each of `limits`, rounded up, so that it is at least one unless the limit is zero.
    #[must_use]
    pub fn of_limits(self, limits: &Allowance) -> Allowance {
        limits.map_limits(|limit| {
            let part = (u128::from(limit) * u128::from(self.millionths)).div_ceil(u128::from(Self::ALL));
            u64::try_from(part).unwrap_or(limit)
        })
    }
}

impl Serialize for Share {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.millionths) / f64::from(Self::ALL))
    }
}

/// How often a failed task is tried again, and with which pauses.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retry {
    /// The most attempts, the first included.
    pub max_attempts: u32,
    /// The pause before the second attempt.
    #[serde(serialize_with = "duration::serialize")]
    pub delay: Duration,
    /// The factor by which each further pause is longer than the one before.
    pub factor: f32,
    /// The longest pause.
    #[serde(serialize_with = "duration::serialize")]
    pub delay_max: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 1,
            delay: Duration::ZERO,
            factor: 2.0,
            delay_max: Duration::from_secs(300),
        }
    }
}

impl Retry {
    /// The pause before attempt number `attempt` (the first attempt is 1 and has none).
    pub fn pause_before(&self, attempt: u32) -> Duration {
        if attempt <= 1 {
            return Duration::ZERO;
        }
        let doublings = i32::try_from(attempt - 2).unwrap_or(i32::MAX);
        let seconds = self.delay.as_secs_f64() * f64::from(self.factor).powi(doublings);
        let longest = self.delay_max.as_secs_f64();
        // `min` also handles a power that overflowed to infinity; the product of 0 and infinity is not a number.
        if seconds.is_nan() {
            self.delay
        } else {
            Duration::from_secs_f64(seconds.min(longest))
        }
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_share_rounds_up_each_limit_and_rejects_invalid_fractions_e9_1() {
        let limits = Allowance {
            tokens: Some(100),
            model_calls: Some(3),
            tool_calls: Some(0),
            bytes: Some(u64::MAX),
            ..Allowance::default()
        };
        let of = |share: f64| Share::of(share).unwrap().of_limits(&limits);
        let numbers = |part: Allowance| (part.tokens, part.model_calls, part.tool_calls, part.micro_usd);
        assert_eq!(numbers(of(0.29)), (Some(29), Some(1), Some(0), None));
        assert_eq!(numbers(of(0.5)), (Some(50), Some(2), Some(0), None));
        assert_eq!(of(1.0), limits);
        assert_eq!(numbers(of(f64::MIN_POSITIVE)), (Some(1), Some(1), Some(0), None));
        for none in [0.0, -0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            assert_eq!(Share::of(none), None, "{none}");
        }
    }

    #[test]
    fn retry_backoff_grows_by_its_factor_up_to_the_maximum() {
        let retry = Retry {
            max_attempts: 9,
            delay: Duration::from_secs(1),
            factor: 2.0,
            delay_max: Duration::from_secs(5),
        };
        let seconds: Vec<u64> = (1..=5).map(|attempt| retry.pause_before(attempt).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 5]);
        assert_eq!(retry.pause_before(u32::MAX).as_secs(), 5);
        assert_eq!(Retry::default().pause_before(u32::MAX), Duration::ZERO);
    }
}
