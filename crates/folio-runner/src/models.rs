//! The models of a runner.

mod call;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::plan::Known;
use folio_engine::run::{
    AgentProgram, AskAction, Equipment, FixedCosts, Judging, ModelSpec, NamedExecutor, OfferedTools, PlanMode, Price,
};
use folio_engine::spend::Spend;
use folio_engine::talk::{ModelRole, Purpose, ToolOffer};
use folio_engine::{NodeId, Run};
use folio_memory::policy::ScratchbookPolicy;
use folio_memory::scratchbook::tools::{Definition, definitions};
use folio_memory::tokens::for_model;
use folio_model::{Model, ModelParts, Usage, Worker};
use folio_tools::panics::caught_now;
use folio_tools::tool::AGENT_PREFIX;
use folio_tools::{Registry, ToolSpec};
use serde_json::json;

use crate::known::known_tools;
use crate::places::{self, Places};

pub(crate) use call::{AskEnded, answer_of, ask, reply_of, request_of, settle_place};

/// The default time limit for one call of a model.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How many calls of one provider may be under way at once, over all runs of a runner (E9.15).
const MAX_CONCURRENT_CALLS: usize = 16;
/// The default for the tokens of a request and its answer.
const DEFAULT_WINDOW_TOKENS: u32 = 128_000;
/// The default for the tokens of one answer: models that think before they answer, and those that write a file in one
/// call, need several thousand, and nearly all models allow this many. The first request is for less
/// (`ModelSpec::first_answer_tokens`), because what an answer may have is set aside from the budget.
const ANSWER_TOKENS: u32 = 16_384;

/// One model that a runner may ask. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunnerModel {
    /// Its address.
    pub name: String,
    /// The model itself.
    pub model: Arc<dyn Model>,
    /// Maximum tokens of a request and its answer together.
    pub window: u32,
    /// Maximum tokens of one answer.
    pub answer_tokens: u32,
    /// Its price; `None` if unknown.
    pub price: Option<Price>,
    /// How long an answer may take; ten minutes by default.
    pub time: Duration,
    /// The fallback that is asked if the model is unavailable, refuses or answers nonsense (E9.13); it may have one
    /// itself. An agent program has no fallback and is never one.
    pub fallback: Option<Box<Self>>,
    pub(crate) places: Arc<Places>,
    /// How many calls of this model may be under way, if that is limited separately.
    pub(crate) own_places: Option<Arc<Places>>,
}

impl RunnerModel {
    /// Creates a model with the default limits: a window of 128,000 tokens, answers of at most 16,384 tokens, and
    /// sixteen calls at a time.
    #[must_use]
    pub fn new(name: impl Into<String>, model: Arc<dyn Model>) -> Self {
        Self {
            name: name.into(),
            model,
            window: DEFAULT_WINDOW_TOKENS,
            answer_tokens: ANSWER_TOKENS,
            price: None,
            time: TIMEOUT,
            fallback: None,
            places: Places::new(MAX_CONCURRENT_CALLS),
            own_places: None,
        }
    }

    /// What one answer used, as its provider reports it. Money is what the answer itself reports; for a model with a
    /// price, it is what that price does not cover: the extra cost of writing tokens to the cache.
    pub(crate) fn spend_of(&self, usage: &Usage) -> Spend {
        let micro_usd = match self.price {
            None => usage.micro_usd.unwrap_or(0),
            Some(price) => {
                let more = price.cache_written.unwrap_or(0).saturating_sub(price.tokens_in);
                let more = u128::from(more) * u128::from(usage.tokens_cache_written);
                u64::try_from(more.div_ceil(1_000_000)).unwrap_or(u64::MAX)
            }
        };
        Spend {
            tokens_in: usage.tokens_in,
            tokens_cached: usage.tokens_cached,
            tokens_out: usage.tokens_out,
            micro_usd,
            unpriced_calls: u64::from(self.price.is_none() && usage.micro_usd.is_none()),
            ..Spend::default()
        }
    }

    /// Sets its window, and with it the most tokens of an answer: at most half of the window, so that something can be
    /// read, too.
    #[must_use]
    pub fn with_window(mut self, tokens: u32) -> Self {
        self.window = tokens;
        self.answer_tokens = self.answer_tokens.min(tokens / 2);
        self
    }

    /// Sets the most tokens of an answer, within its window.
    #[must_use]
    pub fn with_answer_tokens(mut self, tokens: u32) -> Self {
        self.answer_tokens = tokens.min(self.window);
        self
    }

    /// Sets its price, by which limits of money are kept (E9.10). The window is limited to the number of tokens up to
    /// which the price is valid, so no larger request is made.
    #[must_use]
    pub fn at_price(mut self, price: &folio_model::Price) -> Self {
        let known = price.up_to.and_then(|tokens| u32::try_from(tokens).ok());
        self.window = self.window.min(known.unwrap_or(u32::MAX));
        self.price = Some(Price {
            tokens_in: price.input,
            tokens_cached: price.cached,
            tokens_out: price.output,
            cache_written: price.written,
        });
        self
    }

    /// Sets how long an answer may take; by default [`ANSWER_TIME`](Self::ANSWER_TIME). Among the models of a runner and
    /// their fallbacks the longest time holds for all.
    #[must_use]
    pub fn answers_within(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// How long an answer may take by default.
    pub const ANSWER_TIME: Duration = TIMEOUT;

    /// How long it, or one of its fallbacks, may take.
    fn max_timeout(&self) -> Duration {
        let next = self.fallback.as_ref().map_or(Duration::ZERO, |next| next.max_timeout());
        self.time.max(next)
    }

    /// Sets `other` as its fallback.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.fallback = Some(Box::new(other));
        self
    }

    /// Limits how many calls of this model may be under way at once, within the limit of its provider; at least one.
    #[must_use]
    pub fn own_at_a_time(mut self, calls: usize) -> Self {
        self.own_places = Some(Places::new(calls));
        self
    }

    /// The model that is asked after the first `skip_count` in the chain of fallbacks did not help, or the last one.
    fn fallback_after(&self, skip_count: u32) -> &Self {
        let mut model = self;
        for _ in 0..skip_count {
            match &model.fallback {
                Some(next) if next.worker().is_none() => model = next,
                _ => break,
            }
        }
        model
    }

    /// Limits how many calls of it may be under way at once; at least one. Models of one provider with the same number
    /// share these places.
    #[must_use]
    pub fn at_a_time(mut self, calls: usize) -> Self {
        self.places = Places::new(calls);
        self
    }

    /// Waits for a place for this model, for its provider, and among `all` models, in that order: waiting for one place
    /// does not block anybody who needs another.
    pub(crate) async fn place(&self, all: Option<&Arc<Places>>) -> (places::Place, [Option<places::Place>; 2]) {
        loop {
            if let Ok(place) = self.place_within(Duration::MAX, all).await {
                return place;
            }
        }
    }

    /// The same, but fails if the provider wants no requests for more than `quiet_max`, with how long it wants that.
    async fn place_within(
        &self,
        quiet_max: Duration,
        all: Option<&Arc<Places>>,
    ) -> Result<(places::Place, [Option<places::Place>; 2]), Duration> {
        let own_place = match &self.own_places {
            Some(places) => Some(places.take().await),
            None => None,
        };
        let of_provider = self.places.take_within(quiet_max).await?;
        let of_all = match all {
            Some(places) => Some(places.take().await),
            None => None,
        };
        Ok((of_provider, [own_place, of_all]))
    }

    /// The provider: its address without the name of the model.
    fn provider(&self) -> &str {
        let name = ModelParts::of(&self.name).name.map_or(0, |name| name.len() + 1);
        &self.name[..self.name.len() - name]
    }

    /// The name of an agent where its approval is asked for and where it is allowed: `agent:NAME`.
    pub(crate) fn worker_name(&self) -> String {
        match self.name.strip_prefix(AGENT_PREFIX) {
            Some(_) => self.name.clone(),
            None => format!("{AGENT_PREFIX}{}", self.name),
        }
    }

    /// What does the work if the model does more than answer. One that panics about it fails when it is asked, in the
    /// task that asks it.
    pub(crate) fn worker(&self) -> Option<Worker<'_>> {
        caught_now(|| self.model.worker()).ok().flatten()
    }

    fn spec(&self) -> ModelSpec {
        ModelSpec {
            tokens: Arc::new(for_model(&self.name)),
            window: self.window,
            answer_tokens: self.answer_tokens,
            price: self.price,
            program: self.worker().map(|worker| AgentProgram {
                name: self.worker_name(),
                shown: match worker {
                    Worker::Program(argv) => json!({"argv": argv}),
                    Worker::Remote(url) => json!({"url": url}),
                    Worker::Tool { name, .. } => json!({"tool": name}),
                },
            }),
            fallback: self.fallback.as_ref().map(|next| Arc::new(next.spec())),
            fixed: FixedCosts::default(),
        }
    }

    /// Calls `visit` for the model and all of its fallbacks.
    fn for_each_in_chain(&mut self, visit: &mut dyn FnMut(&mut Self)) {
        visit(self);
        if let Some(next) = &mut self.fallback {
            next.for_each_in_chain(visit);
        }
    }
}

/// A named executor that works on tasks which name it (E9.17). Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunnerExecutor {
    /// A model or an agent program.
    pub model: RunnerModel,
    /// What it is good for, in one line for the planner; may be empty.
    pub about: String,
}

/// The models of a runner, one for each role. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunnerModels {
    /// Decides, plans and combines results.
    pub planner: RunnerModel,
    /// Works with tools.
    pub executor: RunnerModel,
    /// Judges results.
    pub judge: RunnerModel,
    /// Writes summaries of conversations that are put away. Without one, summaries are made without a model.
    pub compactor: Option<RunnerModel>,
    /// Looks at turns, before the work and after it. Without one, only rules apply.
    pub advisor: Option<RunnerModel>,
    /// Further executors, by the name that a task gives as its `executor`.
    pub executors: BTreeMap<String, RunnerExecutor>,
    /// What people may be asked to do by planners, in one line; without it, only plans that name people can ask them.
    pub human: Option<String>,
}

impl RunnerModels {
    /// The same model for all roles except compactor and advisor, which stay empty.
    #[must_use]
    pub fn one(model: RunnerModel) -> Self {
        Self {
            planner: model.clone(),
            executor: model.clone(),
            judge: model,
            compactor: None,
            advisor: None,
            executors: BTreeMap::new(),
            human: None,
        }
    }

    /// Lets all models of one provider share their places (E9.15).
    pub(crate) fn by_provider(mut self) -> Self {
        let mut first: Vec<RunnerModel> = Vec::new();
        let mut share = |model: &mut RunnerModel| {
            let of_provider = |other: &&RunnerModel| {
                other.provider() == model.provider() && other.places.capacity() == model.places.capacity()
            };
            if let Some(other) = first.iter().find(of_provider) {
                model.places = Arc::clone(&other.places);
            }
            let limit_of = |model: &RunnerModel| model.own_places.as_ref().map(|places| places.capacity());
            let of_model = |other: &&RunnerModel| other.name == model.name && limit_of(other) == limit_of(model);
            if let Some(other) = first.iter().find(of_model) {
                model.own_places.clone_from(&other.own_places);
            }
            first.push(model.clone());
        };
        self.for_each_model(&mut share);
        for helper in [&mut self.compactor, &mut self.advisor].into_iter().flatten() {
            helper.for_each_in_chain(&mut share);
        }
        self
    }

    /// Calls `visit` for every model except the compactor and the advisor, fallbacks included.
    pub(crate) fn for_each_model(&mut self, visit: &mut dyn FnMut(&mut RunnerModel)) {
        let roles = [&mut self.planner, &mut self.executor, &mut self.judge];
        let executors = self.executors.values_mut().map(|executor| &mut executor.model);
        for model in roles.into_iter().chain(executors) {
            model.for_each_in_chain(visit);
        }
    }

    /// What differs from the scripts of the models: unused cues, and requests that no cue answered; one line each.
    #[must_use]
    pub fn left_over(&self) -> Vec<String> {
        let (mut all, mut lines) = (self.clone(), Vec::new());
        let mut collect = |model: &mut RunnerModel| lines.extend(model.model.left_over());
        all.for_each_model(&mut collect);
        for helper in [&mut all.compactor, &mut all.advisor].into_iter().flatten() {
            helper.for_each_in_chain(&mut collect);
        }
        lines.sort();
        lines.dedup();
        lines
    }

    /// The agents among them, each as `agent:NAME`, in order.
    #[must_use]
    pub fn agents(&self) -> Vec<String> {
        let (mut all, mut names) = (self.clone(), Vec::new());
        all.for_each_model(&mut |model| names.extend(model.worker().map(|_| model.worker_name())));
        names.sort();
        names.dedup();
        names
    }

    /// The model of `role`.
    fn of(&self, role: ModelRole) -> &RunnerModel {
        match role {
            ModelRole::Planner => &self.planner,
            ModelRole::Executor => &self.executor,
            ModelRole::Judge => &self.judge,
        }
    }

    /// The model that is asked `ask`.
    pub(crate) fn model_for_ask(&self, ask: &AskAction) -> &RunnerModel {
        let executor = ask.executor.as_ref().and_then(|name| self.executors.get(name));
        let model = executor.map_or_else(|| self.of(ask.purpose.role()), |executor| &executor.model);
        model.fallback_after(ask.skipped_models)
    }

    /// The address of the model that is asked for `node` of `run` now.
    pub(crate) fn model_name_for(&self, run: &Run, node: NodeId, purpose: Purpose) -> Option<&str> {
        let (executor_name, skip_count) = run.next_assignee(node)?;
        let model = match purpose.role() {
            ModelRole::Executor => self.executor_named(executor_name),
            role => self.of(role),
        };
        Some(&model.fallback_after(skip_count).name)
    }

    /// The executor called `name`, or the default one.
    pub(crate) fn executor_named(&self, name: Option<&str>) -> &RunnerModel {
        let executor = name.and_then(|name| self.executors.get(name));
        executor.map_or(&self.executor, |executor| &executor.model)
    }

    /// The longest time limit of all models. Each enforces its own limit.
    fn max_timeout(&self) -> Duration {
        let executors = self.executors.values().map(|executor| &executor.model);
        let all = [&self.planner, &self.executor, &self.judge]
            .into_iter()
            .chain(executors);
        all.map(RunnerModel::max_timeout).max().unwrap_or(TIMEOUT)
    }

    /// What the engine has to know about models, tools and people.
    ///
    /// `may_call` decides which tools the models of the run are offered.
    pub(crate) fn equipment(
        &self,
        registry: &Registry,
        may_call: impl Fn(&ToolSpec) -> bool,
        has_person: bool,
        (plan, judging): (PlanMode, Judging),
        book: &ScratchbookPolicy,
    ) -> Equipment {
        // Without scratchbooks their tools are not offered (seed 003, A4).
        let is_enabled = |name: &str| book.enabled || !name.starts_with("scratch_");
        let scratch_tools = definitions();
        let offers = registry
            .specs()
            .filter(|spec| is_enabled(&spec.name) && may_call(spec))
            .map(|spec| offer_of(spec, &scratch_tools));
        Equipment {
            planner: self.planner.spec(),
            executor: self.executor.spec(),
            judge: self.judge.spec(),
            compactor: self.compactor.as_ref().map(RunnerModel::spec),
            executors: self.executors.iter().map(named_executor).collect(),
            human: self.human.clone().filter(|_| has_person),
            tools: offers.collect(),
            offered: OfferedTools::default(),
            known: Known {
                executors: Some(self.executors.keys().cloned().collect()),
                ..known_tools(registry)
            },
            book: book.clone(),
            has_person,
            plan,
            judging,
            timeout: self.max_timeout(),
        }
    }
}

fn named_executor((name, named): (&String, &RunnerExecutor)) -> (String, NamedExecutor) {
    let executor = NamedExecutor {
        model: named.model.spec(),
        about: named.about.clone(),
        offered: OfferedTools::default(),
    };
    (name.clone(), executor)
}

/// A tool as it is offered to a model. For the tools of the scratchbook, whose definitions are `scratch_tools`, that is
/// the short form that every agent gets: people read more (7.8).
fn offer_of(spec: &ToolSpec, scratch_tools: &[Definition]) -> ToolOffer {
    let (description, args_schema) = match scratch_tools.iter().find(|definition| definition.name == spec.name) {
        Some(definition) => (definition.description.to_owned(), definition.schema.clone()),
        None => (spec.description.clone(), spec.schema_for_models()),
    };
    ToolOffer {
        name: spec.name.clone(),
        description: description.into(),
        args_schema: Arc::new(args_schema),
        writes: !spec.effect.changes_nothing(),
        need: spec.need,
    }
}

#[cfg(test)]
mod tests {
    use folio_model::ScriptedModel;

    use super::*;

    async fn can_take(model: &RunnerModel, all: &Arc<Places>, held: &mut Vec<places::Place>) -> bool {
        let taken = tokio::time::timeout(Duration::from_millis(1), model.place(Some(all))).await;
        let is_taken = taken.is_ok();
        held.extend(taken.into_iter().flat_map(|(place, others)| {
            let others = others.into_iter().flatten();
            std::iter::once(place).chain(others)
        }));
        is_taken
    }

    #[tokio::test(start_paused = true)]
    async fn model_concurrency_limit_applies_within_the_overall_limit_e9_15() {
        let model = |name: &str| RunnerModel::new(name, Arc::new(ScriptedModel::new([])));
        let models = RunnerModels {
            judge: model("house:large").own_at_a_time(2),
            ..RunnerModels::one(model("house:large").own_at_a_time(2).or(model("house:small")))
        };
        let models = models.by_provider();
        let small = models.planner.fallback_after(1);
        assert_eq!(
            (small.name.as_str(), models.planner.fallback_after(9).name.as_str()),
            ("house:small", "house:small")
        );
        let (all, mut held) = (Places::new(3), Vec::new());
        assert!(can_take(&models.planner, &all, &mut held).await);
        assert!(can_take(&models.judge, &all, &mut held).await);
        assert!(
            !can_take(&models.executor, &all, &mut held).await,
            "both of its own are taken"
        );
        assert!(
            can_take(small, &all, &mut held).await,
            "whoever waits for those keeps nobody waiting"
        );
        assert!(!can_take(small, &all, &mut held).await, "three of all are taken");
        held.clear();
        assert!(can_take(&models.executor, &all, &mut held).await);
    }

    #[test]
    fn longest_model_timeout_covers_fallbacks_and_the_default() {
        let model = |name: &str| RunnerModel::new(name, Arc::new(ScriptedModel::new([])));
        let mut models = RunnerModels::one(model("quick").answers_within(Duration::from_secs(60)));
        assert_eq!(models.max_timeout(), Duration::from_secs(60));
        models.planner = model("default");
        assert_eq!(models.max_timeout(), TIMEOUT);
        models.executor = model("quick").or(model("large").answers_within(Duration::from_secs(3600)));
        assert_eq!(models.max_timeout(), Duration::from_secs(3600));
    }

    #[test]
    fn window_bounds_the_default_answer_but_not_a_chosen_one() {
        let model = || RunnerModel::new("house", Arc::new(ScriptedModel::new([])));
        let sizes = |model: RunnerModel| (model.window, model.answer_tokens);
        assert_eq!(sizes(model()), (128_000, 16_384));
        assert_eq!(sizes(model().with_window(4_096)), (4_096, 2_048));
        assert_eq!(
            sizes(model().with_window(4_096).with_answer_tokens(3_000)),
            (4_096, 3_000)
        );
        assert_eq!(
            sizes(model().with_window(1_000_000).with_answer_tokens(64_000)),
            (1_000_000, 64_000)
        );
    }

    #[test]
    fn provider_of_a_model_ignores_colons_in_the_model_name() {
        for (name, provider) in [
            ("ollama:llama3:8b", "ollama"),
            ("ollama+http://h:11434:llama3:8b", "ollama+http://h:11434"),
            ("openai+http://h/v1:m", "openai+http://h/v1"),
            ("local", "local"),
        ] {
            let model = RunnerModel::new(name, Arc::new(ScriptedModel::new([])));
            assert_eq!(model.provider(), provider);
        }
    }

    #[test]
    fn cache_writes_are_charged_at_their_own_price_e9_10() {
        let usage = Usage {
            tokens_in: 1_300,
            tokens_cached: 1_000,
            tokens_cache_written: 200,
            tokens_out: 50,
            ..Usage::default()
        };
        let cost = |written: Option<u64>| {
            let price = folio_model::Price {
                input: 1_000_000,
                cached: 100_000,
                written,
                output: 10_000_000,
                up_to: Some(100_000),
            };
            let model = RunnerModel::new("test", Arc::new(ScriptedModel::new([]))).at_price(&price);
            assert_eq!(model.window, 100_000, "above that nobody knows what it costs");
            let spend = model.spend_of(&usage);
            model.price.map(|price| price.of(&spend) + spend.micro_usd)
        };
        assert_eq!(cost(None), Some(300 + 100 + 500));
        assert_eq!(cost(Some(2_000_000)), Some(100 + 400 + 100 + 500));
        // Of what has no price nobody knows what it cost, unless it says so itself.
        let model = RunnerModel::new("test", Arc::new(ScriptedModel::new([])));
        let told = Usage {
            micro_usd: Some(0),
            ..usage
        };
        let unpriced = [usage, told].map(|usage| model.spend_of(&usage).unpriced_calls);
        assert_eq!(unpriced, [1, 0]);
    }
}
