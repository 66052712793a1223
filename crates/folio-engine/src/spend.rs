//! What a run uses, and the limits on it (E9.10).

use serde::{Deserialize, Serialize};

/// An amount in millionths of a US dollar, written in dollars with all six decimals: `2.500000`.
#[must_use]
pub fn in_dollars(micro_usd: u64) -> String {
    format!("{}.{:06}", micro_usd / 1_000_000, micro_usd % 1_000_000)
}

/// What was used. All fields are counts, so the order of adding does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spend {
    /// Tokens that models read.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub tokens_in: u64,
    /// Those of the tokens read that the provider had in its cache.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub tokens_cached: u64,
    /// Tokens that models wrote.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub tokens_out: u64,
    /// Cost in millionths of a US dollar, as far as prices are known.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub micro_usd: u64,
    /// Calls of models.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub model_calls: u64,
    /// Those of the model calls whose cost is unknown: `micro_usd` does not include them.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub unpriced_calls: u64,
    /// Calls of tools.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub tool_calls: u64,
}

impl Spend {
    /// One call of a tool.
    pub const TOOL_CALL: Self = Self {
        tokens_in: 0,
        tokens_cached: 0,
        tokens_out: 0,
        micro_usd: 0,
        model_calls: 0,
        unpriced_calls: 0,
        tool_calls: 1,
    };

    /// Tokens in both directions.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens_in.saturating_add(self.tokens_out)
    }

    /// The cost in dollars, for people: `unknown cost` if the cost of no call is known (E9.10).
    #[must_use]
    pub fn dollars(&self) -> String {
        let known = in_dollars(self.micro_usd);
        match (self.micro_usd, self.unpriced_calls) {
            (_, 0) => format!("{known} dollars"),
            (0, _) => "unknown cost".to_owned(),
            _ => format!("{known} dollars and more"),
        }
    }

    /// Whether nothing was used.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.zip_with(other, u64::saturating_add)
    }

    /// What is left after subtracting `other`, never below zero.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.zip_with(other, u64::saturating_sub)
    }

    fn zip_with(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            tokens_in: combine(self.tokens_in, other.tokens_in),
            tokens_cached: combine(self.tokens_cached, other.tokens_cached),
            tokens_out: combine(self.tokens_out, other.tokens_out),
            micro_usd: combine(self.micro_usd, other.micro_usd),
            model_calls: combine(self.model_calls, other.model_calls),
            unpriced_calls: combine(self.unpriced_calls, other.unpriced_calls),
            tool_calls: combine(self.tool_calls, other.tool_calls),
        }
    }
}

/// Something that is used and can have a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Tokens in both directions.
    Tokens,
    /// Tokens that models read, from a cache or not.
    TokensIn,
    /// Those of the tokens read that the provider had in its cache. Known only when a call has ended, so nothing is set
    /// aside for it.
    TokensCached,
    /// Tokens that models write.
    TokensOut,
    /// Millionths of a US dollar.
    MicroUsd,
    /// Calls of models.
    ModelCalls,
    /// Calls of tools.
    ToolCalls,
    /// Bytes of the journal and the pages ([`Event::bytes`](crate::Event::bytes)). Counted when they are written, so
    /// nothing is set aside.
    Bytes,
}

impl Dimension {
    /// All dimensions.
    pub const ALL: [Self; 8] = [
        Self::Tokens,
        Self::TokensIn,
        Self::TokensCached,
        Self::TokensOut,
        Self::MicroUsd,
        Self::ModelCalls,
        Self::ToolCalls,
        Self::Bytes,
    ];

    /// The dimension's name as budgets write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::TokensIn => "tokens_in",
            Self::TokensCached => "tokens_cached",
            Self::TokensOut => "tokens_out",
            Self::MicroUsd => "micro_usd",
            Self::ModelCalls => "model_calls",
            Self::ToolCalls => "tool_calls",
            Self::Bytes => "bytes",
        }
    }

    /// How much of `limit` is kept for combining results and handing back: a tenth, and at least one call of a model.
    fn final_reserve(self, limit: u64) -> u64 {
        match self {
            // Handing back never calls a tool.
            Self::ToolCalls => 0,
            Self::ModelCalls => (limit / 10).max(1),
            Self::Tokens | Self::TokensIn | Self::TokensCached | Self::TokensOut | Self::MicroUsd | Self::Bytes => {
                limit / 10
            }
        }
    }
}

/// An amount in every dimension that can have a limit, for what is set aside or used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount([u64; 8]);

impl Amount {
    /// The largest amount in every dimension.
    pub const ALL: Self = Self([u64::MAX; 8]);

    /// The amount that `spend` comes to.
    #[must_use]
    pub fn of(spend: &Spend) -> Self {
        // The order is that of the dimensions.
        Self([
            spend.tokens(),
            spend.tokens_in,
            spend.tokens_cached,
            spend.tokens_out,
            spend.micro_usd,
            spend.model_calls,
            spend.tool_calls,
            // A call's cost does not include the bytes that are written.
            0,
        ])
    }

    /// The amount in one dimension.
    #[must_use]
    pub fn get(&self, dimension: Dimension) -> u64 {
        self.0[dimension as usize]
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.zip_with(other, u64::saturating_add)
    }

    /// What is left after subtracting `other`, never below zero.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.zip_with(other, u64::saturating_sub)
    }

    /// The smaller of both in each dimension.
    #[must_use]
    pub fn least(&self, other: &Self) -> Self {
        self.zip_with(other, u64::min)
    }

    /// The same amount with `value` in one dimension.
    #[must_use]
    pub fn with(mut self, dimension: Dimension, value: u64) -> Self {
        self.0[dimension as usize] = value;
        self
    }

    /// Whether it is zero in every dimension.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    fn zip_with(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|at| combine(self.0[at], other.0[at])))
    }
}

/// How much may be used. `None` means "as much as the limits above allow"; `0` means zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Allowance {
    /// Tokens in both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Tokens that models read, from a cache or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Those of the tokens read that the provider had in its cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_cached: Option<u64>,
    /// Tokens that models write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// Millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Calls of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Calls of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Bytes of the journal and the pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl Allowance {
    /// The same limits, each changed by `convert`.
    #[must_use]
    pub fn map_limits(&self, convert: impl Fn(u64) -> u64) -> Self {
        Self::from_fn(|dimension| self.of(dimension).map(&convert))
    }

    /// The smaller of both limits in each dimension.
    #[must_use]
    pub fn least(&self, other: &Self) -> Self {
        Self::from_fn(|dimension| match (self.of(dimension), other.of(dimension)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        })
    }

    /// These limits, with those of `other` where this one has none.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self::from_fn(|dimension| self.of(dimension).or(other.of(dimension)))
    }

    fn from_fn(limit: impl Fn(Dimension) -> Option<u64>) -> Self {
        Self {
            tokens: limit(Dimension::Tokens),
            tokens_in: limit(Dimension::TokensIn),
            tokens_cached: limit(Dimension::TokensCached),
            tokens_out: limit(Dimension::TokensOut),
            micro_usd: limit(Dimension::MicroUsd),
            model_calls: limit(Dimension::ModelCalls),
            tool_calls: limit(Dimension::ToolCalls),
            bytes: limit(Dimension::Bytes),
        }
    }

    /// The limit of one dimension.
    #[must_use]
    pub fn of(&self, dimension: Dimension) -> Option<u64> {
        match dimension {
            Dimension::Tokens => self.tokens,
            Dimension::TokensIn => self.tokens_in,
            Dimension::TokensCached => self.tokens_cached,
            Dimension::TokensOut => self.tokens_out,
            Dimension::MicroUsd => self.micro_usd,
            Dimension::ModelCalls => self.model_calls,
            Dimension::ToolCalls => self.tool_calls,
            Dimension::Bytes => self.bytes,
        }
    }
}

/// What a subtree may use, has used, and has set aside for calls under way and for children.
///
/// `spent + reserved + held + free = limit` in every dimension that has a limit, unless a call cost more than was set
/// aside for it. Nothing is set aside for cached tokens and bytes: calls under way may use more of them than there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Purse {
    /// How much may be used.
    pub limit: Allowance,
    /// What has been used.
    pub spent: Spend,
    /// The most that the calls under way may cost.
    pub reserved: Spend,
    /// What was set aside for the members of groups and has not been used yet (E9.10).
    pub held: Amount,
    /// Bytes of the journal and the pages that have been written.
    pub bytes: u64,
}

impl Purse {
    /// The first dimension in which `needed` does not fit. A tenth of every limit but that on calls of tools, and at
    /// least one call of a model, is kept for combining results and handing back; only calls for these may use it
    /// (`is_last`).
    #[must_use]
    pub fn first_exceeded(&self, needed: &Amount, is_last: bool) -> Option<Dimension> {
        let room = self.room(is_last);
        Dimension::ALL
            .into_iter()
            .find(|dimension| needed.get(*dimension) > room.get(*dimension))
    }

    /// The first dimension that is used up among those whose use is not known before a call: bytes, which every call
    /// uses, and cached tokens, which a call uses that `asks_a_model`. No such call begins then. Of these limits, too,
    /// a tenth is kept for the end.
    #[must_use]
    pub fn used_up_dimension(&self, asks_a_model: bool, is_last: bool) -> Option<Dimension> {
        let is_empty = |dimension: &Dimension| self.left(*dimension, is_last) == Some(0);
        let of_a_model = Some(Dimension::TokensCached).filter(|_| asks_a_model);
        std::iter::once(Dimension::Bytes).chain(of_a_model).find(is_empty)
    }

    /// How much more of `dimension` fits; `None` if it has no limit. Without `is_last`, what is kept for the end does
    /// not count.
    fn left(&self, dimension: Dimension, is_last: bool) -> Option<u64> {
        let limit = self.limit.of(dimension)?;
        let kept = if is_last { 0 } else { dimension.final_reserve(limit) };
        Some(limit.saturating_sub(kept).saturating_sub(self.used(dimension)))
    }

    /// How much more fits in every dimension; the largest amount where there is no limit. Without `is_last`, what is
    /// kept for the end does not count.
    #[must_use]
    pub fn room(&self, is_last: bool) -> Amount {
        Dimension::ALL.into_iter().fold(Amount::ALL, |room, dimension| {
            self.left(dimension, is_last)
                .map_or(room, |left| room.with(dimension, left))
        })
    }

    /// What is used and set aside in one dimension.
    #[must_use]
    pub fn used(&self, dimension: Dimension) -> u64 {
        if dimension == Dimension::Bytes {
            return self.bytes;
        }
        let calls = Amount::of(&self.spent.plus(&self.reserved));
        calls.plus(&self.held).get(dimension)
    }

    /// The part of [`Self::used`] that is only set aside: what calls under way do not use of it comes back.
    #[must_use]
    pub fn set_aside(&self, dimension: Dimension) -> u64 {
        Amount::of(&self.reserved).plus(&self.held).get(dimension)
    }

    /// What is left in one dimension; `None` if it has no limit.
    #[must_use]
    pub fn free(&self, dimension: Dimension) -> Option<u64> {
        Some(self.limit.of(dimension)?.saturating_sub(self.used(dimension)))
    }

    /// By how much one dimension exceeds its limit: because calls cost more than was set aside for them, or because
    /// calls under way continued after a limit for which nothing is set aside. Never happens for the number of calls
    /// (E9.10).
    #[must_use]
    pub fn overrun(&self, dimension: Dimension) -> u64 {
        let limit = self.limit.of(dimension);
        limit.map_or(0, |limit| self.used(dimension).saturating_sub(limit))
    }

    /// The fullest dimension, in per cent of its limit without what is kept for the end: once that is used up, a worker
    /// is refused anything more and would never hear of a later percentage (E9.10).
    #[must_use]
    pub fn percent_used(&self) -> u64 {
        let of = |dimension: &Dimension| {
            let limit = self.limit.of(*dimension)?;
            let limit = limit.saturating_sub(dimension.final_reserve(limit));
            let spent = match dimension {
                Dimension::Bytes => self.bytes,
                _ => Amount::of(&self.spent).get(*dimension),
            };
            Some(percent(spent, limit))
        };
        Dimension::ALL.iter().filter_map(of).max().unwrap_or(0)
    }

    /// How much is spent of each limit of which something is.
    pub fn uses(&self) -> impl Iterator<Item = LimitUse> {
        let of = |dimension: Dimension| {
            Some(LimitUse {
                dimension,
                spent: match dimension {
                    Dimension::Bytes => self.bytes,
                    _ => Amount::of(&self.spent).get(dimension),
                },
                limit: self.limit.of(dimension)?,
            })
        };
        let uses = Dimension::ALL.into_iter().filter_map(of);
        uses.filter(|of| of.spent > 0)
    }
}

/// How much of one limit is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitUse {
    /// What is limited.
    pub dimension: Dimension,
    /// What was spent, without what is only set aside.
    pub spent: u64,
    /// The limit.
    pub limit: u64,
}

impl LimitUse {
    /// The spent part in per cent, rounded down.
    #[must_use]
    pub fn percent(&self) -> u64 {
        percent(self.spent, self.limit)
    }
}

/// `part` of `whole` in per cent. A limit of zero is used up only once something was used.
fn percent(part: u64, whole: u64) -> u64 {
    let of_nothing = if part == 0 { 0 } else { 100 };
    part.saturating_mul(100).checked_div(whole).unwrap_or(of_nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_of_limits_counts_what_is_spent_and_not_what_is_set_aside_e9_10() {
        let told = |purse: &Purse| -> Vec<_> {
            let uses = purse.uses();
            uses.map(|of| (of.dimension, of.spent, of.limit, of.percent()))
                .collect()
        };
        let mut purse = purse(200);
        purse.limit.tool_calls = Some(4);
        purse.limit.bytes = Some(0);
        purse.reserved.tokens_in = 190;
        assert_eq!(told(&purse), []);
        purse.spent.tokens_out = 101;
        purse.spent.tool_calls = 3;
        purse.spent.model_calls = 7;
        assert_eq!(
            told(&purse),
            [(Dimension::Tokens, 101, 200, 50), (Dimension::ToolCalls, 3, 4, 75)]
        );
        // A limit of zero is used up by anything.
        purse.bytes = 1;
        assert_eq!(told(&purse).last(), Some(&(Dimension::Bytes, 1, 0, 100)));
    }

    fn tokens(n: u64) -> Amount {
        Amount::default().with(Dimension::Tokens, n)
    }

    fn purse(limit: u64) -> Purse {
        Purse {
            limit: Allowance {
                tokens: Some(limit),
                ..Allowance::default()
            },
            ..Purse::default()
        }
    }

    #[test]
    fn dollars_are_written_with_six_decimals_e9_10() {
        assert_eq!(in_dollars(0), "0.000000");
        assert_eq!(in_dollars(2_500_001), "2.500001");
    }

    #[test]
    fn tenth_of_a_limit_is_kept_for_the_end_e9_10() {
        let purse = purse(1_000);
        assert_eq!(purse.first_exceeded(&tokens(900), false), None);
        assert_eq!(purse.first_exceeded(&tokens(901), false), Some(Dimension::Tokens));
        assert_eq!(purse.first_exceeded(&tokens(1_000), true), None);
        assert_eq!(purse.first_exceeded(&tokens(1_001), true), Some(Dimension::Tokens));
    }

    #[test]
    fn zero_limit_refuses_any_use_and_no_limit_refuses_none_e9_10() {
        assert_eq!(purse(0).first_exceeded(&tokens(1), true), Some(Dimension::Tokens));
        // What uses nothing of it is not refused.
        assert_eq!(purse(0).first_exceeded(&Amount::of(&Spend::TOOL_CALL), false), None);
        assert_eq!(Purse::default().first_exceeded(&tokens(u64::MAX), false), None);
        // A limit of zero on something that is never used must not end a task.
        assert_eq!(purse(0).percent_used(), 0);
        let mut used = purse(0);
        used.spent.tokens_in = 1;
        assert_eq!(used.percent_used(), 100);
    }

    #[test]
    fn cached_token_limit_keeps_a_tenth_for_the_end_e9_10() {
        let mut purse = Purse {
            limit: Allowance {
                tokens_cached: Some(1_000),
                ..Allowance::default()
            },
            ..Purse::default()
        };
        let cached = |tokens_cached| Spend {
            tokens_in: 2 * tokens_cached,
            tokens_cached,
            ..Spend::default()
        };
        for (used, before_the_end, at_the_end) in [
            (899, None, None),
            (900, Some(Dimension::TokensCached), None),
            (5_000, Some(Dimension::TokensCached), Some(Dimension::TokensCached)),
        ] {
            purse.spent = cached(used);
            assert_eq!(purse.used_up_dimension(true, false), before_the_end, "{used}");
            assert_eq!(purse.used_up_dimension(true, true), at_the_end, "{used}");
            assert_eq!(
                purse.used_up_dimension(false, false),
                None,
                "a tool takes nothing of a cache"
            );
        }
        assert_eq!(Purse::default().used_up_dimension(true, false), None, "without a limit");
    }

    #[test]
    fn overuse_of_a_limit_includes_set_aside_amounts_e9_10() {
        let mut purse = purse(1_000);
        for (spent, reserved, over) in [(400, 600, 0), (400, 601, 1), (1_250, 0, 250)] {
            purse.spent.tokens_in = spent;
            purse.reserved.tokens_out = reserved;
            assert_eq!(purse.overrun(Dimension::Tokens), over, "{spent} and {reserved}");
            assert_eq!(
                purse.free(Dimension::Tokens),
                Some(1_000_u64.saturating_sub(spent + reserved))
            );
        }
        assert_eq!(purse.overrun(Dimension::TokensIn), 0, "without a limit");
    }

    #[test]
    fn byte_limit_applies_to_model_and_tool_calls_e9_10() {
        let mut purse = Purse {
            limit: Allowance {
                bytes: Some(1_000),
                ..Allowance::default()
            },
            ..Purse::default()
        };
        for (bytes, before_the_end, at_the_end, per_cent) in [
            (899, None, None, 99),
            (900, Some(Dimension::Bytes), None, 100),
            (1_000, Some(Dimension::Bytes), Some(Dimension::Bytes), 111),
        ] {
            purse.bytes = bytes;
            for asks_a_model in [true, false] {
                assert_eq!(purse.used_up_dimension(asks_a_model, false), before_the_end, "{bytes}");
                assert_eq!(purse.used_up_dimension(asks_a_model, true), at_the_end, "{bytes}");
            }
            assert_eq!((purse.used(Dimension::Bytes), purse.percent_used()), (bytes, per_cent));
        }
    }

    #[test]
    fn small_call_limit_keeps_one_call_for_the_end_e9_10() {
        let mut purse = Purse {
            limit: Allowance {
                model_calls: Some(2),
                ..Allowance::default()
            },
            ..Purse::default()
        };
        let call = Spend {
            model_calls: 1,
            ..Spend::default()
        };
        let one = Amount::of(&call);
        assert_eq!(purse.first_exceeded(&one, false), None);
        purse.spent = call;
        assert_eq!(purse.first_exceeded(&one, false), Some(Dimension::ModelCalls));
        assert_eq!(purse.first_exceeded(&one, true), None);
    }

    #[test]
    fn amount_held_for_a_child_is_not_free_e9_10() {
        let purse = Purse {
            held: tokens(300),
            ..purse(1_000)
        };
        assert_eq!(purse.free(Dimension::Tokens), Some(700));
        assert_eq!(purse.set_aside(Dimension::Tokens), 300);
        assert_eq!(purse.first_exceeded(&tokens(600), false), None);
        assert_eq!(purse.first_exceeded(&tokens(601), false), Some(Dimension::Tokens));
    }
}
