//! The models of a runner, and one call of one of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::plan::Known;
use folio_engine::run::{
    AgentProgram, AskAction, Equipment, FixedCosts, ModelAnswer, ModelFailure, ModelFailureKind, ModelSpec,
    NamedExecutor, OfferedTools, PlanMode, Price,
};
use folio_engine::spend::Spend;
use folio_engine::talk::{self, ModelRole, Need, Stop, ToolOffer};
use folio_memory::policy::ScratchbookPolicy;
use folio_memory::scratchbook::tools::{Definition, definitions};
use folio_memory::tokens::for_model;
use folio_model::{
    Message, Model, ModelError, ModelErrorKind, NewSession, Place, Reply, Request, Role, Speaker, StopCause, ToolCall,
    ToolDescription, Usage, Worker,
};
use folio_tools::{Effect, Registry, ToolContext, ToolSpec};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::by_tool::{self, Hands};
use crate::perform::GRACE;
use crate::places::{self, Places};
use crate::runner::known_tools;

/// Why a program is not started.
const NO_COMMAND: &str =
    "was not started: it is a program, and this run allows no such command; start the run with --allow-shell";
/// How long one call of a model may take.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long a call waits for a provider that wants to be left alone. Where that takes longer, the run knows whom else to ask, or when to
/// ask again.
const QUIET_WAITED: Duration = Duration::from_secs(60);
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
    /// What a million tokens cost that the provider puts into its cache, in millionths of a US dollar, if that is more than what they cost as
    /// tokens that are read.
    pub written: Option<u64>,
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
            written: None,
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
                let more = self.written.unwrap_or(0).saturating_sub(price.tokens_in);
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
        });
        self.written = price.written;
        self
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
        self.name.rsplit_once(':').map_or(&*self.name, |(provider, _)| provider)
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
    /// Who else works on tasks, by the name that a task says (`executor`).
    pub executors: BTreeMap<String, RunnerExecutor>,
    /// What people may be asked to do by whoever plans or decides, in a line; without it only by plans that name them.
    pub human: Option<String>,
}

impl RunnerModels {
    /// The same model for every role but that of the compactor, which nobody has.
    #[must_use]
    pub fn one(model: RunnerModel) -> Self {
        Self {
            planner: model.clone(),
            executor: model.clone(),
            judge: model,
            compactor: None,
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
        if let Some(compactor) = &mut self.compactor {
            compactor.all(&mut share);
        }
        self
    }

    /// Does `each` to every model but that of the compactor, those that stand in included.
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
        if let Some(compactor) = &mut all.compactor {
            compactor.all(&mut collect);
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

    /// Who does tasks under that name, or the usual executor.
    pub(crate) fn executor_named(&self, name: Option<&str>) -> &RunnerModel {
        let named = name.and_then(|name| self.executors.get(name));
        named.map_or(&self.executor, |named| &named.model)
    }

    /// What the engine has to know of models, tools and people.
    ///
    /// `may_call`: which tools models of the run are told of.
    pub(crate) fn equipment(
        &self,
        registry: &Registry,
        may_call: impl Fn(&ToolSpec) -> bool,
        has_person: bool,
        plan: PlanMode,
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
            timeout: TIMEOUT,
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
        writes: !matches!(spec.effect, Effect::Pure | Effect::Read),
        need: need_of(&spec.name),
    }
}

fn need_of(tool: &str) -> Need {
    match tool {
        "read" | "write" | "scratch_add" => Need::Always,
        "git" | "text" | "wait" | "page_append" | "observe" | "scratch_update" | "scratch_pin" | "scratch_unpin" => {
            Need::Seldom
        }
        _ => Need::Often,
    }
}

/// What came of a call of a model.
#[derive(Debug)]
pub(crate) struct AskEnded {
    /// For which node, and which of its calls.
    pub(crate) ask: (folio_engine::NodeId, u32),
    pub(crate) answer: ModelAnswer,
    pub(crate) duration: Duration,
}

/// Asks `model`, and waits for its answer, its time limit, or that it is cancelled. Calls of all models have `all` places.
pub(crate) async fn ask(
    model: RunnerModel,
    all: Option<Arc<Places>>,
    action: AskAction,
    hands: Hands,
    sessions: mpsc::Sender<NewSession>,
) -> AskEnded {
    let id = (action.node, action.call);
    let began = Instant::now();
    if let Some(worker) = model.model.worker() {
        let answer = match (place_of(&model, worker, &action, &hands.context), worker) {
            (Ok(_), Worker::Tool { name, argument }) => {
                by_tool::work(&model, all.as_ref(), (name, argument), action, hands).await
            }
            (Ok(place), _) => {
                let place = Place {
                    session: action.session.clone(),
                    sessions: Some(sessions),
                    has_person: hands.has_person,
                    ..place
                };
                work(&model, all.as_ref(), action, place).await
            }
            (Err(failure), _) => ModelAnswer::Failed(failure),
        };
        return AskEnded {
            ask: id,
            answer,
            duration: began.elapsed(),
        };
    }
    let timeout = action.timeout;
    let cancel = hands.context.cancel;
    let request = request_of(action);
    let failed_late = |kind, message: String| ModelAnswer::Failed(ModelFailure::new(kind, message));
    let asking = async {
        // A place is waited for no longer than the call itself may take; who got none has asked for nothing.
        let placed = tokio::time::timeout(timeout, model.place_within(QUIET_WAITED, all.as_ref())).await;
        let Ok(placed) = placed else {
            let message = format!("{} could not be asked within {timeout:?}: others ask it", model.name);
            return failed_late(ModelFailureKind::RateLimited, message);
        };
        let (place, _others) = match placed {
            Ok(placed) => placed,
            Err(quiet) => {
                let message = format!("{} was not asked: its provider wants to be left alone", model.name);
                return ModelAnswer::Failed(ModelFailure {
                    retry_after: Some(quiet),
                    ..ModelFailure::new(ModelFailureKind::RateLimited, message)
                });
            }
        };
        let answered = tokio::time::timeout(timeout, model.model.reply(&request, &mut |_| {})).await;
        match answered {
            Ok(answered) => {
                settle_place(place, &answered);
                answered.map_or_else(|error| failed(&error), |reply| answer_of(reply, &model))
            }
            Err(_) => {
                let message = format!("{} did not answer within {timeout:?}", model.name);
                failed_late(ModelFailureKind::Unavailable, message)
            }
        }
    };
    let answer = tokio::select! {
        biased;
        () = cancel.cancelled() => ModelAnswer::Stopped,
        answer = asking => answer,
    };
    AskEnded {
        ask: id,
        answer,
        duration: began.elapsed(),
    }
}

/// Gives the place of a call back, as its provider would have it.
pub(crate) fn settle_place(place: places::Place, answered: &Result<Reply, ModelError>) {
    match answered {
        Ok(_) => place.answered(),
        Err(error) if error.kind == ModelErrorKind::RateLimited => place.turned_away(error.retry_after),
        // Whether it is asked too much, other failures do not say.
        Err(_) => drop(place),
    }
}

/// Where whoever works by itself does so, if the run allows it: a program as any command is, one on another machine as a tool of a
/// server is; or by a person's yes (E9.14, E9.17).
fn place_of(
    model: &RunnerModel,
    worker: Worker<'_>,
    action: &AskAction,
    context: &ToolContext,
) -> Result<Place, ModelFailure> {
    let not_asked = |what: &str| {
        let name = model.worker_name();
        format!("was not asked: it {what}, and this run does not allow it; start the run with --allow-tool {name}")
    };
    let refusal = match worker {
        _ if action.allowed || context.allowed => None,
        Worker::Program(argv) if context.shell.allows_command(argv) => None,
        Worker::Program(_) => Some(NO_COMMAND.to_owned()),
        Worker::Remote(_) => Some(not_asked("is on another machine")),
        Worker::Tool { name, .. } => Some(not_asked(&format!("is the tool {name}"))),
    };
    if let Some(why) = refusal {
        let message = format!("{} {why}, or where somebody can say yes", model.name);
        return Err(ModelFailure::new(ModelFailureKind::Denied, message));
    }
    let folder = match worker {
        Worker::Program(_) => {
            let folder = context.folder_of_programs(model.model.folder()).map_err(|error| {
                let message = format!("{} was not started: {}", model.name, error.message);
                ModelFailure::new(ModelFailureKind::Invalid, message)
            })?;
            Some(folder)
        }
        Worker::Remote(_) | Worker::Tool { .. } => None,
    };
    Ok(Place {
        folder,
        stop: context.cancel.clone(),
        ..Place::default()
    })
}

/// Has a program do what `action` asks for. It keeps its own limit of time, and has the grace to end when it is told to (E9.11).
async fn work(model: &RunnerModel, all: Option<&Arc<Places>>, action: AskAction, place: Place) -> ModelAnswer {
    let attempt = action.attempt;
    let request = request_of(action);
    let stop = place.stop.clone();
    // It is told to stop when its run is, and when its time is over.
    let place = Place {
        stop: stop.child_token(),
        ..place
    };
    let place_of_provider = tokio::select! {
        biased;
        () = stop.cancelled() => return ModelAnswer::Stopped,
        place = model.place(all) => place,
    };
    let mut unheard = |_| {};
    let mut working = model.model.reply_in(&request, &place, &mut unheard);
    let mut is_late = false;
    let answered = tokio::select! {
        biased;
        answered = &mut working => Some(answered),
        () = stop.cancelled() => None,
        () = tokio::time::sleep(attempt.unwrap_or(Duration::MAX)), if attempt.is_some() => {
            is_late = true;
            place.stop.cancel();
            None
        }
    };
    let answer = match answered {
        Some(Ok(reply)) => answer_of(reply, model),
        // It was told to stop, and has.
        Some(Err(_)) if stop.is_cancelled() => ModelAnswer::Stopped,
        Some(Err(error)) => failed(&error),
        // What is still there when the grace is over is dropped, which kills it.
        None => match tokio::time::timeout(GRACE * 2, working).await {
            // It was quicker than the request to stop it: what it did counts.
            Ok(Ok(reply)) => answer_of(reply, model),
            Ok(Err(_)) | Err(_) if is_late => {
                let limit = attempt.unwrap_or_default();
                let message = format!(
                    "{} took longer than the {limit:?} that its task has, and was ended",
                    model.name
                );
                ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::Unknown, message))
            }
            Ok(Err(_)) | Err(_) => ModelAnswer::Stopped,
        },
    };
    drop(place_of_provider);
    answer
}

fn failed(error: &ModelError) -> ModelAnswer {
    ModelAnswer::Failed(ModelFailure {
        kind: kind_of(error.kind),
        message: error.to_string(),
        retry_after: error.retry_after,
    })
}

pub(crate) fn request_of(action: AskAction) -> Request {
    let role = match action.purpose.role() {
        ModelRole::Planner => Role::Planner,
        ModelRole::Executor => Role::Executor,
        ModelRole::Judge => Role::Judge,
    };
    let messages = action.messages.into_iter().map(message_of).collect();
    let tools = action.tools.iter().map(|tool| ToolDescription {
        name: tool.name.clone(),
        description: Arc::clone(&tool.description),
        args_schema: Arc::clone(&tool.args_schema),
    });
    Request {
        role,
        messages,
        tools: tools.collect(),
        answer_schema: action.answer_schema,
        tokens_max: action.answer_tokens,
        temperature: action.temperature,
        idempotency_key: action.idempotency_key,
    }
}

fn message_of(message: talk::Message) -> Message {
    let calls = message.calls.into_iter().map(|call| ToolCall {
        id: call.id,
        tool: call.tool,
        args: call.args,
    });
    Message {
        speaker: match message.speaker {
            talk::Speaker::System => Speaker::System,
            talk::Speaker::User => Speaker::User,
            talk::Speaker::Assistant => Speaker::Assistant,
            talk::Speaker::Tool => Speaker::Tool,
        },
        text: message.text,
        tool_calls: calls.collect(),
        answers: message.answers,
    }
}

pub(crate) fn answer_of(reply: Reply, model: &RunnerModel) -> ModelAnswer {
    let calls = reply.tool_calls.into_iter().map(|call| talk::Wanted {
        id: call.id,
        tool: call.tool,
        args: call.args,
    });
    let mut said = talk::Reply {
        text: reply.text,
        calls: calls.collect(),
        stop: match reply.stop {
            StopCause::Done | StopCause::ToolCalls => Stop::Done,
            StopCause::Length => Stop::Length,
            StopCause::Refusal => Stop::Refusal,
        },
    };
    // Before anything is recorded: every call is made, and has its own answer, whoever named it.
    said.name_calls_apart();
    ModelAnswer::Replied {
        reply: said,
        used: reply.usage.as_ref().map(|usage| model.spend_of(usage)),
        model: model.name.clone(),
    }
}

fn kind_of(kind: ModelErrorKind) -> ModelFailureKind {
    match kind {
        ModelErrorKind::Unauthorised => ModelFailureKind::Unauthorised,
        ModelErrorKind::Refused => ModelFailureKind::Refused,
        ModelErrorKind::RateLimited => ModelFailureKind::RateLimited,
        ModelErrorKind::TooLong => ModelFailureKind::TooLong,
        ModelErrorKind::Malformed => ModelFailureKind::Malformed,
        ModelErrorKind::Invalid => ModelFailureKind::Invalid,
        ModelErrorKind::Failed => ModelFailureKind::Failed,
        ModelErrorKind::Unknown => ModelFailureKind::Unknown,
        _ => ModelFailureKind::Unavailable,
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
