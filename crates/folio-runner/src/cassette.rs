//! What the models of a run answer, kept in a cassette, and a run gone through again with it: without a provider, and without
//! anything being done.
//!
//! The journal of a run holds all that came from outside but what models were asked: that follows from what was known at the
//! moment. So a run is folded once more, and wherever its journal says that a model was asked, the engine says what it asks now,
//! the cassette answers, and what follows is compared with what the journal says followed then. Tools are not called, and nothing
//! is written.

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
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bodies::Bodies;
use crate::equipped::Equipped;
use crate::error::RunnerError;
use crate::grants;
use crate::models::{AGENT, RunnerExecutor, RunnerModel, RunnerModels, answer_of, request_of};
use crate::runner::Runner;

/// How many forms of one request are kept that were due before it was made: one for each round of what was due then.
const FORMS_MAX: usize = 8;

/// What has to be known besides the journal so that models are asked the same again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    /// Whether somebody was there who could be asked.
    has_person: bool,
    planner: ModelSetting,
    executor: ModelSetting,
    judge: ModelSetting,
    /// Those that tasks name, with what they are good for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    executors: BTreeMap<String, (ModelSetting, String)>,
    /// What people may be asked to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    human: Option<String>,
}

/// What of a model decides how it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelSetting {
    name: String,
    window: u32,
    answer_tokens: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    price: Option<Price>,
    /// Whether it is a program that works by itself. Its command is not kept: keys may stand in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_program: bool,
    /// Who stands in for it.
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
            is_program: model.model.worker().is_some(),
            fallback: model.fallback.as_deref().map(|next| Box::new(Self::of(next))),
        }
    }

    /// The model that stands in its place.
    fn played(&self, replies: &Arc<ReplayingModel>, shown: &BTreeMap<String, Shown>) -> RunnerModel {
        let mut model = RunnerModel::new(&self.name, Arc::clone(replies) as _);
        if self.is_program {
            model.model = Arc::new(PlayedProgram {
                replies: Arc::clone(replies),
                shown: shown.get(&model.worker_name()).cloned().unwrap_or_default(),
            });
        }
        model.window = self.window;
        model.answer_tokens = self.answer_tokens;
        model.price = self.price;
        model.fallback = self.fallback.as_ref().map(|next| Box::new(next.played(replies, shown)));
        model
    }
}

/// What people were shown who were asked whether one that works by itself may: their yes is for that. Nothing of it is kept in a cassette.
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

    /// What `events` say of each, by its name.
    fn in_journal(events: &[(Timestamp, Event)]) -> BTreeMap<String, Self> {
        let asked = events.iter().filter_map(|(_, event)| match event {
            Event::ApprovalAsked { approval, .. } if approval.tool.starts_with(AGENT) => Some(approval),
            _ => None,
        });
        let shown = asked.filter_map(|approval| Some((approval.tool.clone(), Self::of(&approval.args)?)));
        shown.collect()
    }
}

/// Replies of a program: the engine asks a program otherwise than a model.
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

/// What the models of a runner answer while it is recorded.
#[derive(Debug)]
pub struct Recording {
    tape: RecordingModel,
    setting: Setting,
}

impl Recording {
    /// Records `models`: what is returned with it is to be asked in their place. A compactor is not recorded, since what it
    /// says stands in the journal.
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
                .map(|(name, named)| (name.clone(), (ModelSetting::of(&named.model), named.about.clone())))
                .collect(),
            human: models.human.clone(),
        };
        let tape = RecordingModel::new(Arc::clone(&models.planner.model));
        models.each(&mut |model| model.model = Arc::new(tape.beside(Arc::clone(&model.model))));
        (models, Self { tape, setting })
    }

    /// What was recorded until now, with what `workspace` takes out of texts taken out of the replies, too: a cassette holds no
    /// secret that the journal does not hold.
    #[must_use]
    pub fn cassette(&self, workspace: &Workspace) -> Cassette {
        let setting = serde_json::to_value(&self.setting).unwrap_or_default();
        let mut cassette = self.tape.cassette().with_setting(setting);
        cassette.replies_mut().for_each(|reply| clean(workspace, reply));
        cassette
    }
}

/// Makes of a reply what the journal says of it.
fn clean(workspace: &Workspace, reply: &mut Reply) {
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
        reply.tool_calls = calls.collect();
    }
}

/// A cassette of the models of a run.
#[derive(Debug)]
pub struct Tape {
    cassette: Cassette,
    setting: Setting,
}

impl Tape {
    /// What a [`Recording`] kept; `None` if the cassette does not say which models it is of.
    #[must_use]
    pub fn of(cassette: Cassette) -> Option<Self> {
        let setting = Setting::deserialize(cassette.setting()?).ok()?;
        Some(Self { cassette, setting })
    }
}

/// What came of going through a run with a cassette.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// Answers of models that the journal has.
    pub answers: usize,
    /// What is not as the journal says, a line each, in its order; also what was asked and is not recorded.
    pub differences: Vec<String>,
}

/// A run that is gone through.
struct Walk<'a> {
    workspace: &'a Workspace,
    models: RunnerModels,
    run: Run,
    bodies: Bodies,
    /// What was due and is not yet made, the newest form last. Several are due in one round, as they were before the first of
    /// them was made.
    due: HashMap<(NodeId, u32), Vec<AskAction>>,
    /// What is under way.
    asked: HashMap<NodeId, Vec<AskAction>>,
    /// What the engine would record next.
    follows: Vec<Event>,
    found: Asked,
}

impl Runner {
    /// Goes through a run with the replies of a cassette in the place of its models. Calls no tool, asks nobody, writes nothing.
    ///
    /// Compared are: that what the engine asks a model now was asked when the cassette was recorded, what was set aside for it, what was
    /// answered, and what the engine makes of the answer: a decision, a plan, calls, or that it has to be said again.
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
        let shown = Shown::in_journal(&journal.events);
        let played = |model: &ModelSetting| model.played(&replies, &shown);
        let named = setting.executors.iter().map(|(name, (model, about))| {
            let executor = RunnerExecutor {
                model: played(model),
                about: about.clone(),
            };
            (name.clone(), executor)
        });
        let mut walk = Walk {
            workspace,
            models: RunnerModels {
                executor: played(&setting.executor),
                judge: played(&setting.judge),
                executors: named.collect(),
                human: setting.human.clone(),
                ..RunnerModels::one(played(&setting.planner))
            },
            run: Run::new(id, Arc::clone(self.templates())),
            bodies: self.bodies(),
            due: HashMap::new(),
            asked: HashMap::new(),
            follows: Vec::new(),
            found: Asked::default(),
        };
        let registry = &self.shared.registry;
        for (at, event) in &journal.events {
            walk.look(*at).await?;
            walk.meet(*at, event).await?;
            walk.run
                .apply(*at, event)
                .map_err(|source| RunnerError::Journal { run: id, source })?;
            if walk.run.equipment().is_none() {
                let has_person = setting.has_person;
                if has_person {
                    walk.run.ask_first(Some(grants::asks_first(registry, &walk.run)));
                }
                // Its models are others than those of the runner.
                let equipment = Equipped::default().of(&walk.models, registry, has_person, &walk.run, &policy);
                walk.run.equip(equipment);
            }
        }
        Ok(walk.found)
    }
}

impl Walk<'_> {
    /// Takes in what is due.
    async fn look(&mut self, now: Timestamp) -> Result<(), RunnerError> {
        self.follows.clear();
        let due = self.bodies.at_hand(&self.run, |run| run.due(now, usize::MAX)).await?;
        self.bodies.let_go(&self.run);
        for action in due {
            match action {
                Action::Ask(ask) => {
                    let forms = self.due.entry((ask.node, ask.call)).or_default();
                    if forms.last() != Some(&*ask) {
                        forms.push(*ask);
                    }
                    if forms.len() > FORMS_MAX {
                        forms.remove(0);
                    }
                }
                Action::Record(mut event) => {
                    self.workspace.clean_event(&mut event);
                    self.follows.push(event);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares what comes next in the journal with what the engine says.
    async fn meet(&mut self, now: Timestamp, event: &Event) -> Result<(), RunnerError> {
        match event {
            Event::Asked { node, call, .. } => {
                let mut forms = self.due.remove(&(*node, *call)).unwrap_or_default();
                if forms.iter().any(|form| form.asked() == *event) {
                    forms.retain(|form| form.asked() == *event);
                } else if !forms.is_empty() {
                    self.differs(
                        *node,
                        &format!("call {call} is asked for something else, or may come to something else"),
                    );
                } else {
                    self.differs(*node, &format!("call {call} is not made"));
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
                match self.answered(*node, now, Duration::from_micros(*duration_us)).await? {
                    None => {}
                    Some(Err(why)) => self.differs(*node, &format!("call {call}: {why}")),
                    Some(Ok(answered)) if answered.as_ref() == Some(event) => {}
                    Some(Ok(_)) => self.differs(*node, &format!("call {call} is answered otherwise")),
                }
            }
            // What failed then is not on the cassette.
            Event::AskFailed { node, .. } => drop(self.asked.remove(node)),
            Event::Decided { node, .. }
            | Event::Planned { node, .. }
            | Event::Rejected { node, .. }
            | Event::Wants { node, .. }
                if !self.follows.contains(event) =>
            {
                let what = format!("what follows from its answer is another: {}", event.name());
                self.differs(*node, &what);
            }
            _ => {}
        }
        Ok(())
    }

    /// What the cassette answers to what was asked for `node`, as the journal would say it, or why there is no answer. `None` if
    /// nothing is known to have been asked, which was said then.
    async fn answered(
        &mut self,
        node: NodeId,
        now: Timestamp,
        took: Duration,
    ) -> Result<Option<Result<Option<Event>, String>>, RunnerError> {
        let Some(forms) = self.asked.remove(&node) else {
            return Ok(None);
        };
        let mut why = None;
        for form in forms.into_iter().rev() {
            let model = self.models.asked_by(&form);
            match model.model.reply(&request_of(form), &mut |_| {}).await {
                Ok(reply) => {
                    let answer = answer_of(reply, model);
                    let answered = |run: &Run| run.model_answered(node, answer.clone(), took, now);
                    let mut event = self.bodies.at_hand(&self.run, answered).await?;
                    if let Some(event) = &mut event {
                        self.workspace.clean_event(event);
                    }
                    return Ok(Some(Ok(event)));
                }
                Err(error) => why = why.or(Some(error.message)),
            }
        }
        Ok(why.map(Err))
    }

    fn differs(&mut self, node: NodeId, what: &str) {
        let path = self.run.node(node).map_or("", |view| view.path);
        let path = if path.is_empty() { "run" } else { path };
        self.found.differences.push(format!("{path}: {what}"));
    }
}
