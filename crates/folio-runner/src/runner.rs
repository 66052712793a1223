//! Submits runs and drives them in this process.

mod in_space;
mod steering;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::event::FORMAT;
use folio_engine::plan::{self, Plan};
use folio_engine::run::{Judging, Needs, RunSummary};
use folio_engine::template::{Scope, Templates};
use folio_engine::{Event, NodeResult, Run, projection};
use folio_memory::excerpt::short_line;
use folio_memory::id::{Ref, RunHandle};
use folio_memory::trace::FAILED;
use folio_memory::{Actor, Change, Role, RunId, Seq, ThreadKey, Timestamp, TraceNote, TurnId, TurnQuery, roles};
use folio_store::workspace::{Advisor, Compactor, TurnInput, Workspace, WorkspaceError};
use folio_store::{Commit, Committed, OwnerId, Record, RequestKey, RunAppend, RunRow, StoreError};
use folio_tools::panics::catch_panic;
use folio_tools::{HostList, Registry};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::advisor::{ADVISOR_TIME, ModelAdvisor};
use crate::attendance::{self, Attendance};
use crate::bodies::Bodies;
use crate::busy::BusyRun;
use crate::compactor::{COMPACTOR_TIME, ModelCompactor};
use crate::dispatch::{Dispatch, Driven, Until};
use crate::drive::Drive;
use crate::equipped::EquipmentCache;
use crate::error::RunnerError;
use crate::folded::Folds;
use crate::grants;
use crate::held::{Claim, Held, Hold};
use crate::known::known_tools;
use crate::locks::{HeldUp, Locks};
use crate::lost::LostCalls;
use crate::models::RunnerModels;
use crate::new_run::{NewRun, UNPRICED};
use crate::observer::Observer;
use crate::others::JournalWatcher;
use crate::pages::RunPages;
use crate::paths;
use crate::places::Places;
use crate::steps::MAX_CONCURRENT_STEPS;
use crate::submitted::{self, Opened};
use crate::watch::Watch;

pub(crate) use steering::person;

/// How much of the message of a panic is recorded.
const PANIC_MESSAGE_CHARS: usize = 200;

/// How many bytes of a goal its turn keeps as input.
const MAX_INPUT_BYTES: usize = 16 * 1024;

/// The settings of a runner.
#[derive(Debug, Clone, Default)]
pub struct RunnerOptions {
    /// How many calls of one run may be under way at once; `None`: as its plan says.
    pub concurrency: Option<u32>,
    /// The complete environment of programs that tools start.
    pub environment: Vec<(String, String)>,
    /// Which hosts the tool `http_get` may connect to in each run that is submitted here. Recorded with the run.
    pub hosts: HostList,
    /// The folder that contains the run folders; `None`: runs cannot write files.
    pub run_folders: Option<PathBuf>,
    /// Models for tasks that do not say how they are done, and for goals without a plan; without models, these are
    /// refused.
    pub models: Option<RunnerModels>,
    /// How many calls of all models may be under way at once, over all runs; `None`: as many as each model and its
    /// provider allow (E9.15).
    pub model_calls: Option<u32>,
    /// What happens to calls that had begun when their driver died, if the effect of their tool is not to decide
    /// (E9.12).
    pub lost_calls: LostCalls,
    /// Whether a person is there to answer questions. Without one, the default of a question applies, or the task that
    /// asks fails softly.
    pub has_person: bool,
    /// Bytes of memory for large outputs and what was made of them, in addition to what a run needs at the moment;
    /// `None`: 32 MiB. It does not affect the results of runs.
    pub outputs_at_hand: Option<usize>,
    /// The observer of the runs that are driven here.
    pub observer: Option<Arc<dyn Observer>>,
    /// The dispatcher that has other processes drive runs; `None`: this process drives them. With one, the models and
    /// tools are those of the other processes.
    pub dispatch: Option<Arc<dyn Dispatch>>,
}

/// A run that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    /// The run's id.
    pub id: RunId,
    /// The run's handle.
    pub handle: RunHandle,
    /// Whether an earlier call with the same key had recorded it.
    pub replayed: bool,
}

/// Submits runs and drives them in this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Runner {
    pub(crate) shared: Arc<Shared>,
    /// The request that is made through it, with its key, if it may be repeated.
    pub(crate) request_key: Option<Arc<RequestKey>>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) workspace: Workspace,
    pub(crate) registry: Registry,
    pub(crate) options: RunnerOptions,
    pub(crate) templates: Arc<Templates>,
    pub(crate) owner: OwnerId,
    /// The runs that are driven here.
    pub(crate) held: Arc<Held>,
    pub(crate) others: Arc<JournalWatcher>,
    /// Permits for runs that take a step.
    pub(crate) stepping: Arc<Semaphore>,
    /// The cached equipment of the models.
    pub(crate) equipped: EquipmentCache,
    /// What the calls of its runs write.
    pub(crate) locks: Arc<Locks>,
    /// Which of its runs wait for calls of other runs.
    pub(crate) waiting: watch::Sender<HashMap<RunId, HeldUp>>,
    /// The places that all models share, if they are limited.
    pub(crate) model_places: Option<Arc<Places>>,
    pub(crate) submitted: submitted::Submitted,
    /// The cache of runs that somebody looked at.
    pub(crate) folds: Arc<Folds>,
    /// Cancelled when the process is about to end, so that nothing more begins.
    pub(crate) leaving: CancellationToken,
}

impl Shared {
    /// The run as its journal describes it, and where the journal ends. For a run that was just submitted this may be
    /// out of date; a commit that expects that end detects it.
    pub(crate) async fn open(&self, id: RunId) -> Result<Opened, RunnerError> {
        if let Some(opened) = self.submitted.take(id) {
            return Ok(opened);
        }
        let (run, head) = self.fold(id).await?;
        let pages = None;
        Ok(Opened { run, head, pages })
    }

    /// The run as its journal describes it, and where the journal ends, for a change of it.
    pub(crate) async fn fold(&self, id: RunId) -> Result<(Run, Seq), RunnerError> {
        let mut watch = self.watch(id);
        watch.catch_up().await?;
        let head = watch.head();
        Ok((watch.into_run(), head))
    }

    /// Refuses `needs` of which this process does not have everything: models, executors and tools. A tool of a server
    /// that cannot be reached at the moment counts as there: its call fails with the reason, and may be retried.
    pub(crate) fn check_needs(&self, needs: &Needs) -> Result<(), RunnerError> {
        if self.options.models.is_none() && !needs.models.is_empty() {
            let tasks = needs.models.iter().cloned().collect();
            return Err(RunnerError::NeedsModel { tasks });
        }
        let executors = self.options.models.as_ref().map(|models| &models.executors);
        let has_executor = |name: &str| executors.is_some_and(|executors| executors.contains_key(name));
        let tools = needs
            .tools
            .iter()
            .filter(|name| self.registry.check_name(name).is_err());
        let executors = needs.executors.iter().filter(|name| !has_executor(name));
        let (tools, executors): (Vec<_>, Vec<_>) = (tools.cloned().collect(), executors.cloned().collect());
        if tools.is_empty() && executors.is_empty() {
            return Ok(());
        }
        Err(RunnerError::NotEquipped { tools, executors })
    }

    /// A watch of run `id`, with nothing read yet.
    pub(crate) fn watch(&self, id: RunId) -> Watch {
        let (store, space) = (self.workspace.store(), self.workspace.space());
        Watch::with_templates(Arc::clone(store), space.clone(), id, Arc::clone(&self.templates))
    }
}

impl Runner {
    /// The large outputs of a run that is looked at.
    pub(crate) fn bodies(&self) -> Bodies {
        Bodies::of(self.workspace(), self.shared.options.outputs_at_hand)
    }

    /// Creates a runner whose runs are kept in `workspace` and use the tools of `registry`.
    #[must_use]
    pub fn new(workspace: Workspace, registry: Registry, mut options: RunnerOptions) -> Self {
        options.models = options.models.map(RunnerModels::by_provider);
        let model_places = options.model_calls.map(|calls| Places::new(calls as usize));
        let templates = Arc::new(Templates::new());
        let owner = OwnerId::random();
        Self {
            shared: Arc::new(Shared {
                workspace,
                registry,
                options,
                templates,
                owner,
                held: Arc::default(),
                others: Arc::default(),
                stepping: Arc::new(Semaphore::new(MAX_CONCURRENT_STEPS)),
                equipped: EquipmentCache::default(),
                locks: Arc::default(),
                waiting: watch::Sender::default(),
                model_places,
                submitted: submitted::Submitted::default(),
                folds: Arc::default(),
                leaving: CancellationToken::new(),
            }),
            request_key: None,
        }
    }

    /// The workspace that keeps its runs.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        &self.shared.workspace
    }

    /// The tools that its runs use.
    #[must_use]
    pub fn tools(&self) -> &Registry {
        &self.shared.registry
    }

    /// How many events of its runs could not be reported; `None` if there is no observer, or it does not count.
    #[must_use]
    pub fn untold(&self) -> Option<u64> {
        self.shared.options.observer.as_ref()?.unreported_count()
    }

    /// Whether a person is there to answer its runs' questions.
    #[must_use]
    pub fn has_person(&self) -> bool {
        self.shared.options.has_person
    }

    /// Whether a run in this state waits for a person while none is there: driving it here would answer in the
    /// person's place.
    #[must_use]
    pub fn has_nobody_to_answer(&self, summary: &RunSummary) -> bool {
        attendance::waits_for_nobody(summary, self.has_person())
    }

    /// The compactor that writes summaries when a conversation is offloaded here, and its time limit; `None` if no
    /// model was named for it.
    #[must_use]
    pub fn compactor(&self) -> Option<(Arc<dyn Compactor>, Duration)> {
        let model = self.shared.options.models.as_ref()?.compactor.clone()?;
        let compactor = ModelCompactor::new(model).with_shared_places(self.shared.model_places.clone());
        Some((Arc::new(compactor), COMPACTOR_TIME))
    }

    /// The advisor for turns that begin and end here, and its time limit; `None` if no model was named for it.
    #[must_use]
    pub fn advisor(&self) -> Option<(Arc<dyn Advisor>, Duration)> {
        let model = self.shared.options.models.as_ref()?.advisor.clone()?;
        let advisor = ModelAdvisor::new(model).with_shared_places(self.shared.model_places.clone());
        Some((Arc::new(advisor), ADVISOR_TIME))
    }

    /// What a plan is checked against: the available tools and executors.
    #[must_use]
    pub fn known(&self) -> plan::Known {
        let models = self.shared.options.models.as_ref();
        plan::Known {
            executors: models.map(|models| models.executors.keys().cloned().collect()),
            ..known_tools(&self.shared.registry)
        }
    }

    /// Refuses a plan for which whoever drives the runs has no model, or this process not the tools and executors.
    fn can_drive(&self, plan: &Plan) -> Result<(), RunnerError> {
        if self.has_dispatcher() {
            return Ok(());
        }
        self.shared.check_needs(&Needs::of_plan(plan))
    }

    /// Records a new run; durable when this returns. Nobody drives it yet.
    ///
    /// # Errors
    ///
    /// `Inputs`, `NeedsModel` or `NotEquipped` if the plan cannot be run like this; `Folder` if a folder of the run
    /// cannot be opened; `ToolName` if a tool was registered under a name that cannot be used; `Store`.
    pub async fn submit(&self, new: NewRun) -> Result<(RunId, RunHandle), RunnerError> {
        let submitted = self.submit_once(new).await?;
        Ok((submitted.id, submitted.handle))
    }

    /// Like [`Runner::submit`], and returns whether the run existed already: a repeated request under the key of
    /// [`Runner::asked_under`] returns the run that was recorded then.
    ///
    /// # Errors
    ///
    /// As [`Runner::submit`].
    pub async fn submit_once(&self, new: NewRun) -> Result<Submitted, RunnerError> {
        self.shared.registry.check_names().map_err(RunnerError::ToolName)?;
        if let Err(error) = self.can_drive(&new.plan)
            // Whether the same request was made under this key before is checked where it is recorded.
            && !self.is_request_recorded(&new.actor).await?
        {
            return Err(error);
        }
        let inputs = plan::check_inputs(&new.plan, &new.inputs).map_err(|errors| RunnerError::Inputs {
            problems: errors.iter().map(ToString::to_string).collect(),
        })?;
        let mut inputs: BTreeMap<String, Value> = inputs.into_iter().collect();
        let is_here = !self.has_dispatcher();
        let folder = match paths::resolve_paths(&new.plan, &mut inputs, new.folder.as_deref(), is_here) {
            Ok(folder) => folder,
            // A folder that is gone by now does not change what was recorded.
            Err(_) if self.is_request_recorded(&new.actor).await? => None,
            Err(error) => return Err(error),
        };
        let workspace = &self.shared.workspace;
        workspace.keep_up().await?;
        let now = workspace.now();
        let id = RunId::draw(&**workspace.ids(), now);
        let scope = Scope {
            inputs: Arc::new(json!(inputs)),
            ..Scope::default()
        };
        let filled = |text: &str| {
            self.shared
                .templates
                .render_text(text, &scope)
                .unwrap_or_else(|_| text.to_owned())
        };
        let title = filled(&new.plan.title);
        let goal = match new.goal {
            Some(goal) => goal,
            None if new.plan.goal.is_empty() => title.clone(),
            None => filled(&new.plan.goal),
        };
        let mut plan = new.plan;
        plan.title = [title, goal.clone()]
            .into_iter()
            .find(|text| !text.trim().is_empty())
            .unwrap_or_else(|| "Untitled".to_owned());
        let title = plan.title.clone();
        let limits = folio_engine::Limits::of(&plan);
        let (actor, turn, turn_change) = self.turn_of(new.actor, new.thread, &goal, id).await?;
        let mut variable = json!({"id": id.to_string(), "folder": folder, "started_at": now.to_string(), "shell": new.shell,
                                  "plan": new.plan_mode, "plan_gate": new.plan_gate.to_json(), "turn": turn.to_string()});
        if new.allow_unpriced {
            variable[UNPRICED] = json!(true);
        }
        let attendance = if new.is_unattended {
            Attendance::Nobody
        } else if self.shared.options.has_person && !self.has_dispatcher() {
            Attendance::Person
        } else {
            // For runs that others drive, the other process has the person.
            Attendance::Driver
        };
        attendance.record(&mut variable);
        if new.judging != Judging::default() {
            variable[grants::JUDGING] = json!(new.judging);
        }
        for (name, hosts) in [
            (grants::HOSTS, &new.hosts),
            (grants::USUAL_HOSTS, &self.shared.options.hosts),
        ] {
            if !hosts.is_empty() {
                variable[name] = json!(hosts);
            }
        }
        if !new.allow_tools.is_empty() {
            variable["tools"] = json!(new.allow_tools);
        }
        let stored = json!(plan);
        // A plan that is written out in full is large, and the run reads its own from what is stored.
        drop(plan);
        let mut event = Event::RunStarted {
            format: FORMAT,
            goal,
            plan: stored,
            inputs,
            deadline: Some(now.plus(limits.deadline)),
            run: variable,
        };
        // The form that will be in the journal.
        workspace.clean_event(&mut event);
        let mut run = Run::new(id, Arc::clone(&self.shared.templates));
        run.apply(now, &event)
            .map_err(|source| RunnerError::Journal { run: id, source })?;
        let changes = projection::changes(&run, &event);
        let pages = RunPages::of_new(workspace, &run, &changes).await;
        let begin = (vec![event], turn_change.into_iter().chain(changes).collect());
        let committed = self.begin(&run, now, begin, title, actor).await?;
        let (recorded, handle) = committed.run.unwrap_or((id, RunHandle(0)));
        if committed.replayed {
            return Ok(Submitted {
                id: recorded,
                handle,
                replayed: true,
            });
        }
        // A store keeps instants from running backwards; in that case the run began at another instant than assumed.
        // Runs that others drive are not opened here.
        if committed.at == now && self.shared.options.dispatch.is_none() {
            let (pages, head) = (pages.map(|pages| pages.named(&committed.pages)), committed.seq);
            self.shared.submitted.keep(Opened { run, head, pages });
        }
        Ok(Submitted {
            id,
            handle,
            replayed: false,
        })
    }

    /// Writes the first events and changes of a new run; `run` is the result of them.
    pub(crate) async fn begin(
        &self,
        run: &Run,
        now: Timestamp,
        (events, changes): (Vec<Event>, Vec<Change>),
        title: String,
        actor: Actor,
    ) -> Result<Committed, RunnerError> {
        roles::may_steer(&actor)?;
        let workspace = &*self.workspace_for_write();
        let append = RunAppend {
            run: run.id(),
            events,
            status: Some(Run::RUNNING.to_owned()),
            title: Some(title),
            so_far: Some(run.summary()),
        };
        let commit = Commit {
            space: workspace.space().clone(),
            at: now,
            actor: actor.in_run(run.id()),
            idempotency_key: self.key(),
            expected: Vec::new(),
            record: Record {
                run: Some(append),
                ..Record::of(changes)
            },
            blobs: Vec::new(),
        };
        Ok(workspace.commit(commit).await?)
    }

    /// The templates of its runs.
    pub(crate) fn templates(&self) -> &Arc<Templates> {
        &self.shared.templates
    }

    /// Drives a run to its end: a new one, or one whose driver is gone. Returns the result, at once if the run has
    /// ended. With [`RunnerOptions::dispatch`], others drive it, and this waits for them.
    ///
    /// # Errors
    ///
    /// `Store` with kind `Conflict` if a living process drives it, this one included; `Journal` or `Folder` if it
    /// cannot be opened; `Store` with kind `Unavailable` if the store became unavailable: the run can be driven again
    /// from where it was; `Dispatch` if nobody could be told to drive it; `Leaving` after [`Runner::leave`].
    pub async fn drive(&self, run: RunId) -> Result<NodeResult, RunnerError> {
        self.drive_to_end(run, None).await
    }

    /// Like [`Runner::drive`], for a run that counts as `busy` while it does more than wait. Runs that others drive
    /// count all the time.
    ///
    /// # Errors
    ///
    /// As [`Runner::drive`].
    pub async fn drive_counted(&self, run: RunId, busy: &BusyRun) -> Result<NodeResult, RunnerError> {
        self.drive_to_end(run, Some(busy)).await
    }

    async fn drive_to_end(&self, run: RunId, busy: Option<&BusyRun>) -> Result<NodeResult, RunnerError> {
        if let Some(dispatch) = &self.shared.options.dispatch {
            return self.drive_elsewhere(&**dispatch, run).await;
        }
        match self.drive_for(run, Until::Ended, busy, || ()).await? {
            Driven::Ended(result) => Ok(result),
            Driven::Waits { .. } => Err(RunnerError::Leaving),
        }
    }

    /// Drives `run` as far as `until` says; `claimed` is called once nobody else can drive it.
    pub(crate) async fn drive_for(
        &self,
        run: RunId,
        until: Until,
        busy: Option<&BusyRun>,
        claimed: impl FnOnce(),
    ) -> Result<Driven, RunnerError> {
        let workspace = &self.shared.workspace;
        // The row says whether it has ended, and is cheaper to read than the journal.
        let row = workspace.store().run(workspace.space(), Ref::Id(run)).await?;
        if row.has_ended()
            && let Some(result) = self.shared.fold(run).await?.0.result()
        {
            let result = result.clone();
            self.end_own_turn(run).await;
            return Ok(Driven::Ended(result));
        }
        if self.shared.leaving.is_cancelled() {
            return Err(RunnerError::Leaving);
        }
        // The store would grant a claim by the same process, and the run would have two drivers.
        let Some(hold) = self.shared.held.hold_soon(run).await else {
            let detail = Some("this runner".to_owned());
            let run = row.handle.to_string();
            return Err(StoreError::RunTaken { run, detail }.into());
        };
        let claim = self.claim(run, hold).await?;
        claimed();
        let fence = claim.fence();
        // A failed delivery is noted in the trace.
        let _delivered = workspace.deliver_outbox().await;
        let drive_future = Box::pin(async {
            let drive = Drive::open(Arc::clone(&self.shared), (run, fence), until).await?;
            drive.run(busy).await
        });
        let result = match catch_panic(drive_future).await {
            Ok(result) => result,
            Err(message) => Err(Box::pin(self.pause_after_panic(run, message)).await),
        };
        claim.give_up().await;
        if let Ok(Driven::Ended(_)) = result {
            self.end_own_turn(run).await;
        }
        // Writes the notes that were made on the way. A trace that cannot be kept does not affect the run.
        let _unwritten = workspace.flush_trace().await;
        result
    }

    /// Pauses `run`, whose driver panicked: whoever drives it next would do the same again.
    async fn pause_after_panic(&self, run: RunId, message: String) -> RunnerError {
        let message = short_line(&message, PANIC_MESSAGE_CHARS);
        let by = format!("{} ({message})", Run::BROKEN_DRIVER);
        let actor = Actor::new(Role::Client, "runner");
        let pausing = self.request_unless_ended(run, &actor, |run| {
            let by = by.clone();
            Ok((!run.is_run_paused()).then_some(Event::Paused { node: None, by }))
        });
        // What panics may be the reading of its journal.
        let is_paused = matches!(catch_panic(pausing).await, Ok(Ok(())));
        RunnerError::Panicked { message, is_paused }
    }

    /// Claims `run`, which is held. If the caller stops waiting, nothing is left behind: a claim that the store then
    /// grants is given up.
    async fn claim(&self, run: RunId, hold: Hold) -> Result<Claim, RunnerError> {
        let shared = Arc::clone(&self.shared);
        let claiming = async move {
            let workspace = &shared.workspace;
            let claimed = workspace.store().claim_run(workspace.space(), run, &shared.owner);
            let fence = claimed.await?;
            // Not earlier: if the claim fails, the run is still to be given up.
            shared.held.forget(run);
            Ok(Claim::of(&shared, hold, fence))
        };
        let joined = tokio::spawn(claiming).await;
        let claim: Result<Claim, StoreError> =
            joined.unwrap_or_else(|join_error| std::panic::resume_unwind(join_error.into_panic()));
        Ok(claim?.mark_driven())
    }

    /// The turn of a new run, and the change that begins it if the run has a turn of its own.
    pub(crate) async fn turn_of(
        &self,
        actor: Actor,
        thread: ThreadKey,
        goal: &str,
        run: RunId,
    ) -> Result<(Actor, TurnId, Option<Change>), RunnerError> {
        if let Some(turn) = actor.turn {
            return Ok((actor, turn, None));
        }
        let input = TurnInput {
            thread,
            input: goal[..goal.floor_char_boundary(MAX_INPUT_BYTES)].to_owned(),
            run: Some(run),
            background: false,
        };
        let drafted = self.shared.workspace.draft_turn(input).await?;
        let turn = drafted.new.id;
        Ok((
            actor.in_turn(turn),
            turn,
            Some(Change::BeginTurn(Box::new(drafted.new))),
        ))
    }

    /// Ends the turn that the run began. A failure does not affect the run: the turn stays open, and the next driver of
    /// the run ends it.
    async fn end_own_turn(&self, run: RunId) {
        let workspace = &self.shared.workspace;
        let actor = Actor::new(Role::Planner, "runner").in_run(run);
        let query = TurnQuery {
            run: Some(run),
            ended: Some(false),
            limit: 1,
            ..TurnQuery::default()
        };
        let ended = async {
            for turn in workspace.turns(&query).await? {
                workspace.end_turn(&actor, Ref::Id(turn.begun.id)).await?;
            }
            Ok::<(), WorkspaceError>(())
        };
        if let Err(error) = ended.await {
            let note = TraceNote::new(workspace.now(), &actor, "turn", "end_turn");
            workspace.note(
                note.with_status(FAILED)
                    .with_detail(json!({"code": error.code(), "error": error.to_string()})),
            );
        }
    }

    /// Ends the turns of runs that have ended but whose turns were not ended, since the process was killed in between.
    /// Returns how many there were.
    ///
    /// # Errors
    ///
    /// `Store`.
    pub async fn end_leftover_turns(&self) -> Result<usize, RunnerError> {
        let workspace = &self.shared.workspace;
        let mut open = TurnQuery {
            ended: Some(false),
            ..TurnQuery::default()
        };
        let mut ended = 0;
        loop {
            let turns = workspace.turns(&open).await?;
            open.before = turns.last().map(|turn| turn.handle.0);
            for run in turns.into_iter().filter_map(|turn| turn.begun.run) {
                let row = workspace.store().run(workspace.space(), Ref::Id(run)).await?;
                if row.has_ended() {
                    self.end_own_turn(run).await;
                    ended += 1;
                }
            }
            if open.before.is_none() {
                return Ok(ended);
            }
        }
    }

    /// The row of one run.
    ///
    /// # Errors
    ///
    /// `Refused` if the asker of the workspace may not read the run; `Store`.
    pub async fn row(&self, run: Ref<RunId, RunHandle>) -> Result<RunRow, RunnerError> {
        Ok(self.shared.workspace.run(run).await?)
    }
}
