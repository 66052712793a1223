//! Records what the models of a run answer in a cassette, and replays a run with it: without a provider, and without
//! any effects.
//!
//! The journal of a run holds everything that came from outside, but not what models were asked: that follows from what
//! was known at the moment. So the run is folded once more. Wherever its journal says that a model was asked, the
//! engine says what it would ask now, the cassette answers, and what follows is compared with what the journal says
//! followed then. No tools are called, and nothing is written.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::run::{Action, AskAction, Price};
use folio_engine::spend::Spend;
use folio_engine::talk::{self, Stop};
use folio_engine::{Event, NodeId, Run};
use folio_memory::{RunId, Seq, Timestamp};
use folio_model::{
    Cassette, Delta, Model, ModelError, RecordingModel, ReplayingModel, Reply, Request, ToolCall, Worker,
};
use folio_store::Workspace;
use folio_tools::tool::AGENT_PREFIX;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bodies::Bodies;
use crate::equipped::EquipmentCache;
use crate::error::RunnerError;
use crate::grants;
use crate::models::{RunnerExecutor, RunnerModel, RunnerModels, answer_of, request_of};
use crate::runner::Runner;

/// How many forms of one request are kept that were due before it was made: one for each round of due actions.
const MAX_REQUEST_FORMS: usize = 8;

/// What has to be known besides the journal to ask models the same again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    /// Whether a person was there to be asked.
    has_person: bool,
    planner: ModelSetting,
    executor: ModelSetting,
    judge: ModelSetting,
    /// The named executors, each with its description.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    executors: BTreeMap<String, (ModelSetting, String)>,
    /// What people may be asked to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    human: Option<String>,
}

/// The properties of a model that decide how it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelSetting {
    name: String,
    window: u32,
    answer_tokens: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    price: Option<Price>,
    /// Whether it is an agent program. Its command is not kept, since it may contain keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_program: bool,
    /// The model that stands in for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fallback: Option<Box<Self>>,
}

impl ModelSetting {
    fn of(model: &RunnerModel) -> Self {
        Self {
            name: model.name.clone(),
            window: model.window,
            answer_tokens: model.answer_tokens,
            price: model.price,
            is_program: model.worker().is_some(),
            fallback: model.fallback.as_deref().map(|next| Box::new(Self::of(next))),
        }
    }

    /// The model that takes its place in a replay.
    fn replay_model(&self, replies: &Arc<ReplayingModel>, shown_by_tool: &BTreeMap<String, Shown>) -> RunnerModel {
        let mut model = RunnerModel::new(&self.name, Arc::clone(replies) as _);
        if self.is_program {
            model.model = Arc::new(PlayedProgram {
                replies: Arc::clone(replies),
                shown: shown_by_tool.get(&model.worker_name()).cloned().unwrap_or_default(),
            });
        }
        model.window = self.window;
        model.answer_tokens = self.answer_tokens;
        model.price = self.price;
        model.fallback = self
            .fallback
            .as_ref()
            .map(|next| Box::new(next.replay_model(replies, shown_by_tool)));
        model
    }
}

/// What people were shown when they were asked to approve an agent: their approval applies to that. None of it is kept
/// in a cassette.
#[derive(Debug, Clone)]
enum Shown {
    Program(Vec<String>),
    Remote(String),
    Tool(String),
}

impl Default for Shown {
    fn default() -> Self {
        Self::Program(Vec::new())
    }
}

impl Shown {
    fn of(args: &Value) -> Option<Self> {
        let text = |name: &str| args.get(name).and_then(Value::as_str).map(str::to_owned);
        let argv = args.get("argv").and_then(|argv| Vec::deserialize(argv).ok());
        argv.map(Self::Program)
            .or_else(|| text("url").map(Self::Remote))
            .or_else(|| text("tool").map(Self::Tool))
    }

    /// Collects from `events` what was shown for each agent, by its name.
    fn in_journal(events: &[(Timestamp, Event)]) -> BTreeMap<String, Self> {
        let approvals = events.iter().filter_map(|(_, event)| match event {
            Event::ApprovalAsked { approval, .. } if approval.tool.starts_with(AGENT_PREFIX) => Some(approval),
            _ => None,
        });
        let entries = approvals.filter_map(|approval| Some((approval.tool.clone(), Self::of(&approval.args)?)));
        entries.collect()
    }
}

/// The replies of an agent program. The engine asks a program differently from a model.
#[derive(Debug)]
struct PlayedProgram {
    replies: Arc<ReplayingModel>,
    shown: Shown,
}

#[async_trait]
impl Model for PlayedProgram {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        self.replies.reply(request, pieces).await
    }

    fn worker(&self) -> Option<Worker<'_>> {
        Some(match &self.shown {
            Shown::Program(argv) => Worker::Program(argv),
            Shown::Remote(url) => Worker::Remote(url),
            Shown::Tool(name) => Worker::Tool { name, argument: "" },
        })
    }
}

/// A recording of what the models of a runner answer.
#[derive(Debug)]
pub struct Recording {
    tape: RecordingModel,
    setting: Setting,
}

impl Recording {
    /// Records `models`: ask the returned models in their place. A compactor is not recorded, since what it says is in
    /// the journal.
    ///
    /// `has_person`: as in [`crate::RunnerOptions`].
    #[must_use]
    pub fn of(mut models: RunnerModels, has_person: bool) -> (RunnerModels, Self) {
        let setting = Setting {
            has_person,
            planner: ModelSetting::of(&models.planner),
            executor: ModelSetting::of(&models.executor),
            judge: ModelSetting::of(&models.judge),
            executors: models
                .executors
                .iter()
                .map(|(name, executor)| {
                    (
                        name.clone(),
                        (ModelSetting::of(&executor.model), executor.about.clone()),
                    )
                })
                .collect(),
            human: models.human.clone(),
        };
        let tape = RecordingModel::new(Arc::clone(&models.planner.model));
        models.for_each_model(&mut |model| model.model = Arc::new(tape.beside(Arc::clone(&model.model))));
        (models, Self { tape, setting })
    }

    /// Waits until something was recorded since this was last called.
    pub async fn recorded(&self) {
        self.tape.recorded().await;
    }

    /// What was recorded so far. What `workspace` removes from texts is removed from the replies, too: a cassette holds
    /// no secret that the journal does not hold.
    #[must_use]
    pub fn cassette(&self, workspace: &Workspace) -> Cassette {
        let setting = serde_json::to_value(&self.setting).unwrap_or_default();
        let mut cassette = self.tape.cassette().with_setting(setting);
        cassette
            .replies_mut()
            .for_each(|reply| to_journal_form(workspace, reply));
        cassette
    }
}

/// Changes a reply into the form that the journal records.
fn to_journal_form(workspace: &Workspace, reply: &mut Reply) {
    let calls = std::mem::take(&mut reply.tool_calls)
        .into_iter()
        .map(|call| talk::Wanted {
            id: call.id,
            tool: call.tool,
            args: call.args,
        });
    let mut event = Event::Replied {
        node: NodeId::root(RunId::from_bytes([0; 16])),
        call: 1,
        reply: Box::new(talk::Reply {
            text: std::mem::take(&mut reply.text),
            calls: calls.collect(),
            stop: Stop::Done,
            permissions: std::mem::take(&mut reply.permissions),
        }),
        spent: Spend::default(),
        model: String::new(),
        duration_us: 0,
        mended: false,
    };
    workspace.clean_event(&mut event);
    if let Event::Replied { reply: cleaned, .. } = event {
        let calls = cleaned.calls.into_iter().map(|call| ToolCall {
            id: call.id,
            tool: call.tool,
            args: call.args,
        });
        reply.text = cleaned.text;
        reply.permissions = cleaned.permissions;
        reply.tool_calls = calls.collect();
    }
}

/// A cassette with the models of a run.
#[derive(Debug)]
pub struct Tape {
    cassette: Cassette,
    setting: Setting,
}

impl Tape {
    /// Reads what a [`Recording`] kept; `None` if the cassette does not say which models it belongs to.
    #[must_use]
    pub fn of(cassette: Cassette) -> Option<Self> {
        let setting = Setting::deserialize(cassette.setting()?).ok()?;
        Some(Self { cassette, setting })
    }
}

/// The result of replaying a run with a cassette.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Asked {
    /// How many model answers the journal has.
    pub answers: usize,
    /// What differs from the journal, one line each, in the order of the journal; includes questions that were asked
    /// and not recorded.
    pub differences: Vec<String>,
}

/// The state of a replay.
struct CassetteReplay<'a> {
    workspace: &'a Workspace,
    models: RunnerModels,
    run: Run,
    bodies: Bodies,
    /// Requests that were due and are not made yet, the newest form last. Several are due in one round, each as it was
    /// before the first of them was made.
    due: HashMap<(NodeId, u32), Vec<AskAction>>,
    /// Requests that are under way.
    asked: HashMap<NodeId, Vec<AskAction>>,
    /// What the engine would record next.
    expected_events: Vec<Event>,
    found: Asked,
}

impl Runner {
    /// Replays a run with the replies of a cassette in place of its models. Calls no tool, asks nobody, writes nothing.
    ///
    /// It compares whether the engine's question to a model was asked when the cassette was recorded, what was set
    /// aside for it, what was answered, and what the engine makes of the answer: a decision, a plan, calls, or that the
    /// model has to answer again.
    ///
    /// # Errors
    ///
    /// `Store`; `Journal` if it cannot be folded.
    pub async fn replay_with(&self, id: RunId, tape: Tape) -> Result<Asked, RunnerError> {
        let workspace = self.workspace();
        let policy = workspace.policy().await?;
        let journal = workspace.store().journal(workspace.space(), id, Seq(0)).await?;
        let Tape { cassette, setting } = tape;
        let replies = Arc::new(ReplayingModel::new(cassette));
        let shown_by_tool = Shown::in_journal(&journal.events);
        let play = |model: &ModelSetting| model.replay_model(&replies, &shown_by_tool);
        let executors = setting.executors.iter().map(|(name, (model, about))| {
            let executor = RunnerExecutor {
                model: play(model),
                about: about.clone(),
            };
            (name.clone(), executor)
        });
        let mut walk = CassetteReplay {
            workspace,
            models: RunnerModels {
                executor: play(&setting.executor),
                judge: play(&setting.judge),
                executors: executors.collect(),
                human: setting.human.clone(),
                ..RunnerModels::one(play(&setting.planner))
            },
            run: Run::new(id, Arc::clone(self.templates())),
            bodies: self.bodies(),
            due: HashMap::new(),
            asked: HashMap::new(),
            expected_events: Vec::new(),
            found: Asked::default(),
        };
        let registry = &self.shared.registry;
        for (at, event) in &journal.events {
            walk.collect_due_requests(*at).await?;
            walk.compare_event(*at, event).await?;
            walk.run
                .apply(*at, event)
                .map_err(|source| RunnerError::Journal { run: id, source })?;
            if walk.run.equipment().is_none() {
                let has_person = setting.has_person;
                if has_person {
                    walk.run
                        .set_approval_policy(Some(grants::approval_policy_of(registry, &walk.run)));
                }
                // The models of the run differ from those of the runner.
                let equipment = EquipmentCache::default().of(&walk.models, registry, has_person, &walk.run, &policy);
                walk.run.equip(equipment);
            }
        }
        Ok(walk.found)
    }
}

impl CassetteReplay<'_> {
    /// Collects what is due.
    async fn collect_due_requests(&mut self, now: Timestamp) -> Result<(), RunnerError> {
        self.expected_events.clear();
        let actions = self
            .bodies
            .with_outputs_loaded(&self.run, |run| run.due(now, usize::MAX))
            .await?;
        self.bodies.evict_excess(&self.run);
        for action in actions {
            match action {
                Action::Ask(ask) => {
                    let forms = self.due.entry((ask.node, ask.call)).or_default();
                    if forms.last() != Some(&*ask) {
                        forms.push(*ask);
                    }
                    if forms.len() > MAX_REQUEST_FORMS {
                        forms.remove(0);
                    }
                }
                Action::Record(mut event) => {
                    self.workspace.clean_event(&mut event);
                    self.expected_events.push(event);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares the next event of the journal with what the engine says.
    async fn compare_event(&mut self, now: Timestamp, event: &Event) -> Result<(), RunnerError> {
        match event {
            Event::Asked { node, call, .. } => {
                let mut forms = self.due.remove(&(*node, *call)).unwrap_or_default();
                if forms.iter().any(|form| form.asked() == *event) {
                    forms.retain(|form| form.asked() == *event);
                } else if !forms.is_empty() {
                    self.note_difference(
                        *node,
                        &format!("call {call} asks for something else, or has another amount set aside"),
                    );
                } else {
                    self.note_difference(*node, &format!("call {call} is not made"));
                }
                self.asked.insert(*node, forms);
            }
            Event::Replied {
                node,
                call,
                duration_us,
                ..
            } => {
                self.found.answers += 1;
                match self
                    .recorded_answer(*node, now, Duration::from_micros(*duration_us))
                    .await?
                {
                    None => {}
                    Some(Err(reason)) => self.note_difference(*node, &format!("call {call}: {reason}")),
                    Some(Ok(expected)) if expected.as_ref() == Some(event) => {}
                    Some(Ok(_)) => self.note_difference(*node, &format!("call {call} has another answer")),
                }
            }
            // Failures are not on the cassette.
            Event::AskFailed { node, .. } => drop(self.asked.remove(node)),
            Event::Decided { node, .. }
            | Event::Planned { node, .. }
            | Event::Rejected { node, .. }
            | Event::Wants { node, .. }
                if !self.expected_events.contains(event) =>
            {
                let message = format!("something else follows from its answer: {}", event.name());
                self.note_difference(*node, &message);
            }
            _ => {}
        }
        Ok(())
    }

    /// What the cassette answers to the question for `node`, in the form of the journal, or why there is no answer.
    /// `None` if no such question is known; a difference was noted then.
    async fn recorded_answer(
        &mut self,
        node: NodeId,
        now: Timestamp,
        duration: Duration,
    ) -> Result<Option<Result<Option<Event>, String>>, RunnerError> {
        let Some(forms) = self.asked.remove(&node) else {
            return Ok(None);
        };
        let mut reason = None;
        for form in forms.into_iter().rev() {
            let model = self.models.model_for_ask(&form);
            match model.model.reply(&request_of(form), &mut |_| {}).await {
                Ok(reply) => {
                    let answer = answer_of(reply, model);
                    let make_event = |run: &Run| run.model_answered(node, answer.clone(), duration, now);
                    let mut event = self.bodies.with_outputs_loaded(&self.run, make_event).await?;
                    if let Some(event) = &mut event {
                        self.workspace.clean_event(event);
                    }
                    return Ok(Some(Ok(event)));
                }
                Err(error) => reason = reason.or(Some(error.message)),
            }
        }
        Ok(reason.map(Err))
    }

    fn note_difference(&mut self, node: NodeId, detail: &str) {
        let path = self.run.node(node).map_or("", |view| view.path);
        let path = if path.is_empty() { "run" } else { path };
        self.found.differences.push(format!("{path}: {detail}"));
    }
}
