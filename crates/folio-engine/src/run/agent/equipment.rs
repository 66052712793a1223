//! What a run may ask models for. Not part of the journal: each driver of the run provides it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::policy::ScratchbookPolicy;
use folio_memory::tokens::Tokens;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ToolScope;
use super::fixed::FixedCosts;
use super::offer::OfferedTools;
use crate::plan::{HUMAN, Known};
use crate::spend::Spend;
use crate::talk::{ModelRole, ToolOffer};

/// Whether a task may be split up (E9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanMode {
    /// The root always is; for other tasks the model decides.
    Always,
    /// The model decides.
    #[default]
    Auto,
    /// Never: the model does the task directly.
    Never,
}

impl PlanMode {
    /// The mode's name as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }
}

/// Which criteria a judge decides (E9.6). Criteria that a machine or a person checks are not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judging {
    /// The criteria of whoever wanted the task done. For those that a model wrote for the steps of its own plan, the
    /// step's own claim counts.
    #[default]
    Wanted,
    /// All criteria: one more call for each step of a model's plan that has criteria.
    All,
}

/// The price of a million tokens, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Price {
    /// Tokens that are read.
    pub tokens_in: u64,
    /// Tokens that are read from the provider's cache.
    pub tokens_cached: u64,
    /// Tokens that are written.
    pub tokens_out: u64,
    /// Tokens that the provider writes into its cache, if those cost more than tokens that are read. Their number is
    /// known only afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_written: Option<u64>,
}

impl Price {
    /// The most that `spend` may cost, rounded up: the provider may put everything that is read into its cache.
    #[must_use]
    pub fn at_most(&self, spend: &Spend) -> u64 {
        let max_price = Self {
            tokens_in: self.tokens_in.max(self.cache_written.unwrap_or(0)),
            ..*self
        };
        max_price.of(spend)
    }

    /// What `spend` costs, rounded up, without the surcharge for tokens written into the cache.
    #[must_use]
    pub fn of(&self, spend: &Spend) -> u64 {
        let uncached = spend.tokens_in.saturating_sub(spend.tokens_cached);
        let parts = [
            (uncached, self.tokens_in),
            (spend.tokens_cached, self.tokens_cached),
            (spend.tokens_out, self.tokens_out),
        ];
        let total: u128 = parts.iter().map(|(n, price)| u128::from(*n) * u128::from(*price)).sum();
        u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// A program, or an agent on another machine, that does a task by itself. If nobody saw its end, what it did is not
/// known (E9.17: `opaque`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProgram {
    /// The name of the program, as people write it.
    pub name: String,
    /// What a person who is asked for approval is shown: `{"argv": […]}`, the command that starts it, `{"url": "…"}` or
    /// `{"tool": "…"}`.
    pub shown: Value,
}

/// The most tokens of a first answer, unless more turns out to be needed: what an answer may have is set aside from the
/// budget, and few answers are longer.
const FIRST_ANSWER_TOKENS: u32 = 4_096;

/// A model, as far as the engine has to know it.
#[derive(Debug, Clone)]
pub struct ModelSpec {
    /// Counts the tokens of a text for this model.
    pub tokens: Arc<dyn Tokens>,
    /// The most tokens of a request and its answer together.
    pub window: u32,
    /// The most tokens of one answer.
    pub answer_tokens: u32,
    /// The price; `None` if it is not known.
    pub price: Option<Price>,
    /// The agent program behind it, if it works by itself; `None` for a model that only answers.
    pub program: Option<AgentProgram>,
    /// The model that is asked instead if this one is unavailable, refuses, or writes nonsense (E9.13). A program never
    /// stands in for anything, and nothing stands in for a program.
    pub fallback: Option<Arc<Self>>,
    /// The costs of the common parts of its prompts; empty at first.
    pub fixed: FixedCosts,
}

impl ModelSpec {
    /// The most tokens of an answer, as long as none of the task's answers was cut off or could not be used.
    pub(in crate::run) fn first_answer_tokens(&self) -> u32 {
        (self.answer_tokens / 2).min(FIRST_ANSWER_TOKENS)
    }

    /// `spend` with the most that it may cost by this model's price, or with its calls marked as unpriced if there is
    /// none.
    pub(in crate::run) fn priced(&self, spend: Spend) -> Spend {
        let (micro_usd, unpriced_calls) = match self.price {
            Some(price) => (price.at_most(&spend), 0),
            None => (0, spend.model_calls),
        };
        Spend {
            micro_usd,
            unpriced_calls,
            ..spend
        }
    }

    /// The model to ask when `passed` models could not help, or the last one; and how many come before it.
    pub(super) fn fallback_after(&self, passed: u32) -> (&Self, u32) {
        let (mut model, mut before) = (self, 0);
        while before < passed
            && let Some(next) = model.usable_fallback()
        {
            (model, before) = (next, before + 1);
        }
        (model, before)
    }

    /// The model that stands in for this one.
    pub(super) fn usable_fallback(&self) -> Option<&Self> {
        let next = self.fallback.as_deref().filter(|next| next.program.is_none());
        next.filter(|_| self.program.is_none())
    }
}

/// An executor that works on tasks that name it (E9.17).
#[derive(Debug, Clone)]
pub struct NamedExecutor {
    /// The model or program behind it.
    pub model: ModelSpec,
    /// What it is good for, in one line; may be empty.
    pub about: String,
    /// The tools that it is told about, by its own window; by default determined when a run first needs it.
    pub offered: OfferedTools,
}

/// The models that a run may ask, and who else can do tasks.
#[derive(Clone)]
pub struct Equipment {
    /// The model that decides, plans and combines results.
    pub planner: ModelSpec,
    /// The model that works with tools.
    pub executor: ModelSpec,
    /// The model that judges.
    pub judge: ModelSpec,
    /// The model that writes summaries, if there is one.
    pub compactor: Option<ModelSpec>,
    /// Further executors, by the name that a task uses (`executor`), each with a line for the model that plans.
    pub executors: BTreeMap<String, NamedExecutor>,
    /// What people may be asked to do by a model that plans or decides, in one line; without it, models cannot choose
    /// people. A plan that names them ([`HUMAN`](crate::plan::HUMAN)) does not need it.
    pub human: Option<String>,
    /// The tools that executors may call.
    pub tools: Vec<ToolOffer>,
    /// The tools that the executor is told about; by default determined when a run first needs it.
    pub offered: OfferedTools,
    /// What plans are checked against.
    pub known: Known,
    /// The policy for scratchbooks: where the view stands, whether tools are listed, whether conversations are
    /// offloaded.
    pub book: ScratchbookPolicy,
    /// Whether a person is there to answer questions.
    pub has_person: bool,
    /// Whether tasks may be split up.
    pub plan: PlanMode,
    /// Which criteria are judged.
    pub judging: Judging,
    /// How long one call of a model may take.
    pub timeout: Duration,
}

impl Equipment {
    /// The model for a role.
    #[must_use]
    pub fn model(&self, role: ModelRole) -> &ModelSpec {
        match role {
            ModelRole::Planner => &self.planner,
            ModelRole::Executor => &self.executor,
            ModelRole::Judge => &self.judge,
        }
    }

    /// The model for a role in a task of `executor`, or of the usual one.
    pub(in crate::run) fn model_of<'e>(
        &'e self,
        executor: Option<&'e NamedExecutor>,
        role: ModelRole,
    ) -> &'e ModelSpec {
        match executor.filter(|_| role == ModelRole::Executor) {
            Some(executor) => &executor.model,
            None => self.model(role),
        }
    }

    /// The names of the executors that may be chosen for a task with the tools in `scope` besides the usual one. Programs
    /// have tools of their own, so they get no task whose tools are limited.
    pub(super) fn others(&self, scope: &ToolScope) -> impl Iterator<Item = &str> + use<'_> {
        let takes_programs = !scope.is_narrow();
        let executors = self
            .executors
            .iter()
            .filter(move |(_, executor)| takes_programs || executor.model.program.is_none());
        let human = self.human.as_ref().map(|_| HUMAN);
        executors.map(|(name, _)| name.as_str()).chain(human)
    }

    /// The names of the executors that are programs.
    pub(super) fn programs(&self) -> BTreeSet<String> {
        let executors = self.executors.iter();
        let programs = executors.filter(|(_, executor)| executor.model.program.is_some());
        programs.map(|(name, _)| name.clone()).collect()
    }

    pub(in crate::run) fn tool(&self, name: &str) -> Option<&ToolOffer> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

impl fmt::Debug for Equipment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        f.debug_struct("Equipment")
            .field("tools", &tools)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn price_charges_cached_tokens_separately_and_rounds_up() {
        let price = Price {
            tokens_in: 3_000_000,
            tokens_cached: 300_000,
            tokens_out: 15_000_000,
            cache_written: Some(3_750_000),
        };
        let spend = Spend {
            tokens_in: 1_000,
            tokens_cached: 900,
            tokens_out: 10,
            ..Spend::default()
        };
        assert_eq!(price.of(&spend), 300 + 270 + 150);
        // What is set aside is enough if all of it is put into the cache.
        assert_eq!(price.at_most(&spend), 375 + 270 + 150);
        let one = Spend {
            tokens_in: 1,
            ..Spend::default()
        };
        assert_eq!(
            Price {
                tokens_in: 1,
                ..Price::default()
            }
            .of(&one),
            1
        );
    }
}
