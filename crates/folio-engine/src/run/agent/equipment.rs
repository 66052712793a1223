//! What a run may ask models for. Not part of the journal: whoever drives the run says it anew.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::policy::ScratchbookPolicy;
use folio_memory::tokens::Tokens;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fixed::FixedCosts;
use super::offer::OfferedTools;
use crate::plan::{HUMAN, Known};
use crate::spend::Spend;
use crate::talk::{ModelRole, ToolOffer};

/// Whether a task may be taken apart (E9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanMode {
    /// The root always is; the rest as the model decides.
    Always,
    /// As the model decides.
    #[default]
    Auto,
    /// Never: the model does it.
    Never,
}

impl PlanMode {
    /// The name as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }
}

/// Whose criteria a judge looks at (E9.6). Those that a machine can check, and those of a person, are checked whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judging {
    /// Those of whoever wanted the task done. What a model wrote for the steps of its own plan is what the step says of itself.
    #[default]
    Wanted,
    /// All of them: one more call for each step of a model's plan that has criteria.
    All,
}

/// What a million tokens cost, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Price {
    /// Tokens that are read.
    pub tokens_in: u64,
    /// Tokens that are read from the provider's cache.
    pub tokens_cached: u64,
    /// Tokens that are written.
    pub tokens_out: u64,
    /// Tokens that the provider puts into its cache, if those cost more than tokens that are read. How many those are is known afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_written: Option<u64>,
}

impl Price {
    /// The most that `spend` may come to, rounded up: all that is read may be put into the provider's cache.
    #[must_use]
    pub fn at_most(&self, spend: &Spend) -> u64 {
        let dearest = Self {
            tokens_in: self.tokens_in.max(self.cache_written.unwrap_or(0)),
            ..*self
        };
        dearest.of(spend)
    }

    /// What `spend` costs, rounded up, without what it costs more to put tokens into the cache.
    #[must_use]
    pub fn of(&self, spend: &Spend) -> u64 {
        let fresh = spend.tokens_in.saturating_sub(spend.tokens_cached);
        let parts = [
            (fresh, self.tokens_in),
            (spend.tokens_cached, self.tokens_cached),
            (spend.tokens_out, self.tokens_out),
        ];
        let total: u128 = parts.iter().map(|(n, price)| u128::from(*n) * u128::from(*price)).sum();
        u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// A program, or an agent on another machine, that does a task by itself. What it did when nobody saw its end is not known (E9.17: `opaque`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProgram {
    /// Its name, as people write it.
    pub name: String,
    /// What whoever is asked whether it may be given work is shown: `{"argv": […]}`, the command that starts it, `{"url": "…"}` or `{"tool": "…"}`.
    pub shown: Value,
}

/// One model, as far as the engine has to know it.
#[derive(Debug, Clone)]
pub struct ModelSpec {
    /// Counts what a text costs it.
    pub tokens: Arc<dyn Tokens>,
    /// Tokens of a request and its answer together.
    pub window: u32,
    /// The most tokens that one answer may have.
    pub answer_tokens: u32,
    /// What it costs; `None` if nobody knows.
    pub price: Option<Price>,
    /// Who answers, if it is one that works by itself; `None` for a model that only answers.
    pub program: Option<AgentProgram>,
    /// The model that is asked in its place when it is away, will not, or writes nonsense (E9.13). A program stands in for nobody, and
    /// nobody for a program.
    pub fallback: Option<Arc<Self>>,
    /// What all its prompts have in common; nothing at first.
    pub fixed: FixedCosts,
}

impl ModelSpec {
    /// `spend` with what it may cost by the price of this model, or with its calls as such of which nobody knows that.
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

    /// The one that is asked when those before it, `passed` of them, were of no help, or the last there is; and how many stand before it.
    pub(super) fn after(&self, passed: u32) -> (&Self, u32) {
        let (mut model, mut before) = (self, 0);
        while before < passed
            && let Some(next) = model.stands_in()
        {
            (model, before) = (next, before + 1);
        }
        (model, before)
    }

    /// Who is asked in its place.
    pub(super) fn stands_in(&self) -> Option<&Self> {
        let next = self.fallback.as_deref().filter(|next| next.program.is_none());
        next.filter(|_| self.program.is_none())
    }
}

/// Somebody who works on tasks that name it (E9.17).
#[derive(Debug, Clone)]
pub struct NamedExecutor {
    /// How it is asked.
    pub model: ModelSpec,
    /// What it is good for, in a line; may be empty.
    pub about: String,
    /// What it is told of tools, by its own window; by default found out when a run first needs it.
    pub offered: OfferedTools,
}

/// What a run may ask models for, and who else is there.
#[derive(Clone)]
pub struct Equipment {
    /// The model that decides, plans and puts together.
    pub planner: ModelSpec,
    /// The model that works with tools.
    pub executor: ModelSpec,
    /// The model that judges.
    pub judge: ModelSpec,
    /// The model that puts summaries, if there is one.
    pub compactor: Option<ModelSpec>,
    /// Who else may work on tasks, by the name that a task says (`executor`); what it says of itself stands there for whoever plans.
    pub executors: BTreeMap<String, NamedExecutor>,
    /// What people may be asked to do by whoever plans or decides, in a line; nobody chooses them without it. A plan that names them
    /// ([`HUMAN`](crate::plan::HUMAN)) needs nobody's leave.
    pub human: Option<String>,
    /// The tools that executors may call.
    pub tools: Vec<ToolOffer>,
    /// What an executor is told of them; by default found out when a run first needs it.
    pub offered: OfferedTools,
    /// What plans are checked against.
    pub known: Known,
    /// What holds for scratchbooks: where the view stands, whether tools are listed, whether conversations are put away.
    pub book: ScratchbookPolicy,
    /// Whether a person is there to answer questions.
    pub has_person: bool,
    /// Whether tasks may be taken apart.
    pub plan: PlanMode,
    /// Whose criteria are judged.
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

    /// Who may be chosen for a task besides the usual executor.
    pub(super) fn others(&self) -> impl Iterator<Item = &str> {
        let human = self.human.as_ref().map(|_| HUMAN);
        self.executors.keys().map(String::as_str).chain(human)
    }

    pub(super) fn tool(&self, name: &str) -> Option<&ToolOffer> {
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
    fn cached_tokens_cost_their_own_price_and_fractions_count_as_one() {
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
