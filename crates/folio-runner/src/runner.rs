//! What submits runs and drives them in this process: its settings, and what all its runs share.

mod driving;
mod in_space;
mod steering;
mod submit;
mod turns;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::plan;
use folio_engine::run::{Needs, RunSummary};
use folio_engine::template::Templates;
use folio_memory::id::{Ref, RunHandle};
use folio_memory::{RunId, Seq};
use folio_store::workspace::{Advisor, Compactor, Workspace};
use folio_store::{RequestKey, RunRow};
use folio_tools::{HostList, Registry};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::advisor::{ADVISOR_TIME, ModelAdvisor};
use crate::attendance;
use crate::bodies::Bodies;
use crate::compactor::{COMPACTOR_TIME, ModelCompactor};
use crate::dispatch::Dispatch;
use crate::equipped::EquipmentCache;
use crate::error::RunnerError;
use crate::folded::Folds;
use crate::held::Held;
use crate::known::known_tools;
use crate::left_folders::remove_run_folders;
use crate::locks::{HeldUp, Locks};
use crate::lost::LostCalls;
use crate::models::RunnerModels;
use crate::observer::Observer;
use crate::others::JournalWatcher;
use crate::outage::PATIENCE_DEFAULT;
use crate::owner::Owner;
use crate::places::Places;
use crate::run_time::KeptLags;
use crate::seen::SeenRuns;
use crate::steps::MAX_CONCURRENT_STEPS;
use crate::submitted::{self, Opened};
use crate::watch::Watch;

pub(crate) use steering::person;

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
    /// How long a driver that would lose something waits for a store that is away or cannot be written: how calls ended
    /// that may not simply be repeated, and what models answered. `None`: ten minutes (decision 0152).
    pub outage_patience: Option<Duration>,
    /// The observer of the runs that are driven here.
    pub observer: Option<Arc<dyn Observer>>,
    /// The dispatcher that has other processes drive runs; `None`: this process drives them. With one, the models and
    /// tools are those of the other processes.
    pub dispatch: Option<Arc<dyn Dispatch>>,
}

/// A run that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
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
    /// Shared by runners for several spaces.
    pub(crate) owner: Arc<Owner>,
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
    /// Which runs wait for their store, and why. Shared by runners for several spaces.
    pub(crate) outages: Arc<watch::Sender<HashMap<RunId, String>>>,
    /// Why calls of runs that were given up here could not be recorded, with the commit at which their journals ended.
    pub(crate) unrecorded: Mutex<HashMap<RunId, (Seq, String)>>,
    /// The places that all models share, if they are limited.
    pub(crate) model_places: Option<Arc<Places>>,
    pub(crate) submitted: submitted::Submitted,
    /// The cache of runs that somebody looked at.
    pub(crate) folds: Arc<Folds>,
    /// The runs without a driver that somebody looked for last.
    pub(crate) seen: SeenRuns,
    /// How much the clock is behind for runs that were given up.
    pub(crate) kept_lags: KeptLags,
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
        self.read(id).await
    }

    /// The run as its journal describes it now, for whoever drives it.
    pub(crate) async fn read(&self, id: RunId) -> Result<Opened, RunnerError> {
        let mut watch = self.watch(id);
        watch.catch_up().await?;
        Ok(Opened {
            head: watch.head(),
            at: watch.at(),
            run: watch.into_run(),
            pages: None,
        })
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
        let owner = Arc::new(Owner::new(Arc::clone(workspace.store())));
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
                outages: Arc::default(),
                unrecorded: Mutex::default(),
                model_places,
                submitted: submitted::Submitted::default(),
                folds: Arc::default(),
                seen: SeenRuns::default(),
                kept_lags: KeptLags::default(),
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

    /// The agents that do tasks, each as `agent:NAME`.
    #[must_use]
    pub fn agents(&self) -> Vec<String> {
        let models = self.shared.options.models.as_ref();
        models.map(RunnerModels::agents).unwrap_or_default()
    }

    /// How many events of its runs could not be reported; `None` if there is no observer, or it does not count.
    #[must_use]
    pub fn untold(&self) -> Option<u64> {
        self.shared.options.observer.as_ref()?.unreported_count()
    }

    /// How long a driver of its runs that would lose something waits for a store that is away.
    #[must_use]
    pub fn outage_patience(&self) -> Duration {
        self.shared.options.outage_patience.unwrap_or(PATIENCE_DEFAULT)
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

    /// The templates of its runs.
    pub(crate) fn templates(&self) -> &Arc<Templates> {
        &self.shared.templates
    }

    /// Removes the folders of the files that the forgotten `runs` wrote here ([`remove_run_folders`]); returns their
    /// paths.
    pub async fn remove_run_folders(&self, runs: &[RunId]) -> Vec<String> {
        match &self.shared.options.run_folders {
            Some(folders) => remove_run_folders(folders.clone(), runs).await,
            None => Vec::new(),
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
