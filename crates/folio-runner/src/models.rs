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
use folio_tools::{Registry, ToolSpec};
use serde_json::json;

use crate::known::known_tools;
use crate::places::{self, Places};

pub(crate) use call::{AskEnded, answer_of, ask, reply_of, request_of, settle_place};

/// How long one call of a model may take, if nobody gives it more.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Calls of one provider that are under way at one moment, over all runs of a runner (E9.15).
const AT_A_TIME: usize = 16;
/// Tokens of a request and its answer, if nobody says.
const WINDOW: u32 = 128_000;
/// Tokens of one answer, if nobody says.
const ANSWER_TOKENS: u32 = 4_096;

/// What the names of programs that do tasks by themselves begin with.
pub(crate) const AGENT: &str = "agent:";

/// One model that a runner may ask. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunnerModel {
    /// Its name, as people write it.
    pub name: String,
    /// It.
    pub model: Arc<dyn Model>,
    /// Tokens of a request and its answer together.
    pub window: u32,
    /// The most tokens of one answer.
    pub answer_tokens: u32,
    /// What it costs; `None` if nobody knows.
    pub price: Option<Price>,
    /// How long an answer of it may take, if that is longer than usual.
    pub time: Duration,
    /// The model that is asked in its place when it is away, will not, or writes nonsense (E9.13); it may have one itself. Nobody stands in
    /// for a program, and no program for anybody.
    pub fallback: Option<Box<Self>>,
    pub(crate) places: Arc<Places>,
    /// How many calls of this very model may be under way, if that is said.
    pub(crate) own_places: Option<Arc<Places>>,
}

impl RunnerModel {
    /// A model with the usual limits: a window of 128,000 tokens, answers of at most 4,096, sixteen calls at a time.
    #[must_use]
    pub fn new(name: impl Into<String>, model: Arc<dyn Model>) -> Self {
        Self {
            name: name.into(),
            model,
            window: WINDOW,
            answer_tokens: ANSWER_TOKENS,
            price: None,
            time: TIMEOUT,
            fallback: None,
            places: Places::new(AT_A_TIME),
            own_places: None,
        }
    }

    /// What one answer used, as its provider says. Money is what the answer itself says; of a model that has a price, what its price does not
    /// have: what it costs more to put tokens into the cache.
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

    /// The same at `price`, which limits of money are kept by (E9.10). Its window ends where the price does: above that many tokens it
    /// costs something else, and so as much is never asked.
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

    /// The same, whose answers may take `time`, if that is longer than usual. It keeps to that itself where it is shorter.
    #[must_use]
    pub fn answers_within(mut self, time: Duration) -> Self {
        self.time = self.time.max(time);
        self
    }

    /// How long it, or whoever stands in for it, may take.
    fn longest(&self) -> Duration {
        let next = self.fallback.as_ref().map_or(Duration::ZERO, |next| next.longest());
        self.time.max(next)
    }

    /// The same, with `other` in its place when it is of no help.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.fallback = Some(Box::new(other));
        self
    }

    /// How many calls of this very model may be under way at one moment, within those of its provider; at least one.
    #[must_use]
    pub fn own_at_a_time(mut self, calls: usize) -> Self {
        self.own_places = Some(Places::new(calls));
        self
    }

    /// The one that is asked when those before it, `passed` of them, were of no help, or the last there is.
    fn after(&self, passed: u32) -> &Self {
        let mut model = self;
        for _ in 0..passed {
            match &model.fallback {
                Some(next) if next.model.worker().is_none() => model = next,
                _ => break,
            }
        }
        model
    }

    /// How many calls of it may be under way at one moment; at least one. Models of one provider for which this is the same
    /// number have it together.
    #[must_use]
    pub fn at_a_time(mut self, calls: usize) -> Self {
        self.places = Places::new(calls);
        self
    }

    /// Waits for a place among the calls of this model, of its provider, and of `all` models, in that order: who waits for one keeps
    /// nobody waiting who needs another.
    pub(crate) async fn place(&self, all: Option<&Arc<Places>>) -> (places::Place, [Option<places::Place>; 2]) {
        loop {
            if let Ok(place) = self.place_within(Duration::MAX, all).await {
                return place;
            }
        }
    }

    /// The same, as long as its provider does not want to be left alone for more than `quiet_max`, or how long it wants that.
    async fn place_within(
        &self,
        quiet_max: Duration,
        all: Option<&Arc<Places>>,
    ) -> Result<(places::Place, [Option<places::Place>; 2]), Duration> {
        let own = match &self.own_places {
            Some(places) => Some(places.take().await),
            None => None,
        };
        let of_provider = self.places.take_within(quiet_max).await?;
        let of_all = match all {
            Some(places) => Some(places.take().await),
            None => None,
        };
        Ok((of_provider, [own, of_all]))
    }

    /// Who answers: its name without that of the model itself.
    fn provider(&self) -> &str {
        let name = ModelParts::of(&self.name).name.map_or(0, |name| name.len() + 1);
        &self.name[..self.name.len() - name]
    }

    /// What one that works by itself is called where it is asked for a yes, and allowed: `agent:NAME`.
    pub(crate) fn worker_name(&self) -> String {
        match self.name.strip_prefix(AGENT) {
            Some(_) => self.name.clone(),
            None => format!("{AGENT}{}", self.name),
        }
    }

    fn spec(&self) -> ModelSpec {
        ModelSpec {
            tokens: Arc::new(for_model(&self.name)),
            window: self.window,
            answer_tokens: self.answer_tokens,
            price: self.price,
            program: self.model.worker().map(|worker| AgentProgram {
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

    /// It, and whoever stands in for it.
    fn all(&mut self, each: &mut dyn FnMut(&mut Self)) {
        each(self);
        if let Some(next) = &mut self.fallback {
            next.all(each);
        }
    }
}

/// Somebody who works on tasks that name it (E9.17). Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunnerExecutor {
    /// A model, or a program.
    pub model: RunnerModel,
    /// What it is good for, in a line for whoever plans; may be empty.
    pub about: String,
}

/// The models of a runner, one for each role. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunnerModels {
    /// Decides, plans, puts together.
    pub planner: RunnerModel,
    /// Works with tools.
    pub executor: RunnerModel,
    /// Judges.
    pub judge: RunnerModel,
    /// Puts summaries of what is put away. Without one they are found without a model.
    pub compactor: Option<RunnerModel>,
    /// Looks at turns, before the work and after it. Without one, rules do alone.
    pub advisor: Option<RunnerModel>,
    /// Who else works on tasks, by the name that a task says (`executor`).
    pub executors: BTreeMap<String, RunnerExecutor>,
    /// What people may be asked to do by whoever plans or decides, in a line; without it only by plans that name them.
    pub human: Option<String>,
}

impl RunnerModels {
    /// The same model for every role but those of the compactor and the advisor, which nobody has.
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

    /// The same, with one number of places for all models of one provider (E9.15).
    pub(crate) fn by_provider(mut self) -> Self {
        let mut first: Vec<RunnerModel> = Vec::new();
        let mut share = |model: &mut RunnerModel| {
            let of_provider = |other: &&RunnerModel| {
                other.provider() == model.provider() && other.places.most() == model.places.most()
            };
            if let Some(other) = first.iter().find(of_provider) {
                model.places = Arc::clone(&other.places);
            }
            let most = |model: &RunnerModel| model.own_places.as_ref().map(|places| places.most());
            let of_model = |other: &&RunnerModel| other.name == model.name && most(other) == most(model);
            if let Some(other) = first.iter().find(of_model) {
                model.own_places.clone_from(&other.own_places);
            }
            first.push(model.clone());
        };
        self.each(&mut share);
        for beside in [&mut self.compactor, &mut self.advisor].into_iter().flatten() {
            beside.all(&mut share);
        }
        self
    }

    /// Does `each` to every model but those of the compactor and the advisor, those that stand in included.
    pub(crate) fn each(&mut self, each: &mut dyn FnMut(&mut RunnerModel)) {
        let roles = [&mut self.planner, &mut self.executor, &mut self.judge];
        let named = self.executors.values_mut().map(|named| &mut named.model);
        for model in roles.into_iter().chain(named) {
            model.all(each);
        }
    }

    /// What models were set up to be asked and were not, a line each: of scripts.
    #[must_use]
    pub fn left_over(&self) -> Vec<String> {
        let (mut all, mut lines) = (self.clone(), Vec::new());
        let mut collect = |model: &mut RunnerModel| lines.extend(model.model.left_over());
        all.each(&mut collect);
        for beside in [&mut all.compactor, &mut all.advisor].into_iter().flatten() {
            beside.all(&mut collect);
        }
        lines.sort();
        lines.dedup();
        lines
    }

    /// The model of `role`.
    fn of(&self, role: ModelRole) -> &RunnerModel {
        match role {
            ModelRole::Planner => &self.planner,
            ModelRole::Executor => &self.executor,
            ModelRole::Judge => &self.judge,
        }
    }

    /// Who is asked what `ask` asks for.
    pub(crate) fn asked_by(&self, ask: &AskAction) -> &RunnerModel {
        let named = ask.executor.as_ref().and_then(|name| self.executors.get(name));
        let usual = named.map_or_else(|| self.of(ask.purpose.role()), |named| &named.model);
        usual.after(ask.passed)
    }

    /// Who is asked for `node` of `run` now, as people write it.
    pub(crate) fn asked_for(&self, run: &Run, node: NodeId, purpose: Purpose) -> Option<&str> {
        let (named, passed) = run.whose_turn(node)?;
        let usual = match purpose.role() {
            ModelRole::Executor => self.executor_named(named),
            role => self.of(role),
        };
        Some(&usual.after(passed).name)
    }

    /// Who does tasks under that name, or the usual executor.
    pub(crate) fn executor_named(&self, name: Option<&str>) -> &RunnerModel {
        let named = name.and_then(|name| self.executors.get(name));
        named.map_or(&self.executor, |named| &named.model)
    }

    /// How long the most patient of them is waited for. Each keeps to its own time.
    fn longest(&self) -> Duration {
        let named = self.executors.values().map(|named| &named.model);
        let all = [&self.planner, &self.executor, &self.judge].into_iter().chain(named);
        all.map(RunnerModel::longest).max().unwrap_or(TIMEOUT)
    }

    /// What the engine has to know of models, tools and people.
    ///
    /// `may_call`: which tools models of the run are told of.
    pub(crate) fn equipment(
        &self,
        registry: &Registry,
        may_call: impl Fn(&ToolSpec) -> bool,
        has_person: bool,
        (plan, judging): (PlanMode, Judging),
        book: &ScratchbookPolicy,
    ) -> Equipment {
        // Without scratchbooks there are no tools for them (seed 003, A4).
        let is_there = |name: &str| book.enabled || !name.starts_with("scratch_");
        let short = definitions();
        let offers = registry
            .specs()
            .filter(|spec| is_there(&spec.name) && may_call(spec))
            .map(|spec| offer_of(spec, &short));
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
            timeout: self.longest(),
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

/// A tool as a model is told of it. Of the scratchbook's, whose definitions are `short`, it is told as little as any agent is: people read more (7.8).
fn offer_of(spec: &ToolSpec, short: &[Definition]) -> ToolOffer {
    let (description, args_schema) = match short.iter().find(|short| short.name == spec.name) {
        Some(short) => (short.description.to_owned(), short.schema.clone()),
        None => (spec.description.clone(), spec.args_schema()),
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
    async fn a_model_has_places_of_its_own_within_those_of_all_e9_15() {
        let model = |name: &str| RunnerModel::new(name, Arc::new(ScriptedModel::new([])));
        let models = RunnerModels {
            judge: model("house:large").own_at_a_time(2),
            ..RunnerModels::one(model("house:large").own_at_a_time(2).or(model("house:small")))
        };
        let models = models.by_provider();
        let small = models.planner.after(1);
        assert_eq!(
            (small.name.as_str(), models.planner.after(9).name.as_str()),
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
    fn the_most_patient_model_is_waited_for_as_long_as_its_settings_say() {
        let model = |name: &str| RunnerModel::new(name, Arc::new(ScriptedModel::new([])));
        let mut models = RunnerModels::one(model("quick").answers_within(Duration::from_secs(60)));
        assert_eq!(models.longest(), TIMEOUT);
        models.executor = model("quick").or(model("large").answers_within(Duration::from_secs(3600)));
        assert_eq!(models.longest(), Duration::from_secs(3600));
    }

    #[test]
    fn models_of_one_provider_are_of_it_whatever_colons_their_names_have() {
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
    fn tokens_that_are_put_into_the_cache_cost_their_own_price_e9_10() {
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
