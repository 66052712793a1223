//! A run that is to be submitted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use folio_engine::plan::Plan;
use folio_engine::run::{Judging, PlanGate, PlanMode};
use folio_memory::{Actor, ThreadKey};
use folio_tools::{HostList, ShellPolicy};
use serde_json::Value;

/// A run that is to be submitted.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its plan.
    pub plan: Plan,
    /// What is wanted, if the plan does not say it or says it differently.
    pub goal: Option<String>,
    /// The inputs as they were given. Relative paths are resolved when the run is submitted, from the current directory
    /// of this process; if others drive the run, paths must be absolute.
    pub inputs: BTreeMap<String, Value>,
    /// The folder that it is submitted from. In a plan without an input of kind `path`, paths refer to it, and its
    /// tools may read there. A relative one is treated like a relative input. To write files, runs need
    /// [`RunnerOptions::run_folders`](crate::RunnerOptions::run_folders), too.
    pub folder: Option<PathBuf>,
    /// Which commands its tool `shell` may run. Recorded with the run: a later driver neither widens nor narrows what
    /// the submitter allowed.
    pub shell: ShellPolicy,
    /// Which hosts its tool `http_get` may connect to, in addition to
    /// [`RunnerOptions::hosts`](crate::RunnerOptions::hosts). Recorded with the run as well.
    pub hosts: HostList,
    /// Tools that need no approval: names, or `NAME.*` for a whole family. Recorded with the run as well.
    pub allow_tools: Vec<String>,
    /// Whether models may split tasks up.
    pub plan_mode: PlanMode,
    /// Whose criteria are judged. Recorded with the run.
    pub judging: Judging,
    /// Which plans of models wait for a person's approval.
    pub plan_gate: PlanGate,
    /// Whether models without a price may be used although money is limited: their cost is then unknown, and not
    /// counted. Recorded with the run.
    pub allow_unpriced: bool,
    /// Whether nobody is there to answer its questions, whoever drives it. Recorded with the run.
    pub is_unattended: bool,
    /// The thread that it belongs to.
    pub thread: ThreadKey,
    /// Who submits it. If the actor is in a turn, the run belongs to that turn; otherwise it begins one of its own.
    pub actor: Actor,
}

impl NewRun {
    /// Creates a run of `plan`, submitted by `actor`: without inputs or a folder, in the main thread, with the default
    /// permissions.
    #[must_use]
    pub fn of(plan: Plan, actor: Actor) -> Self {
        Self {
            plan,
            goal: None,
            inputs: BTreeMap::new(),
            folder: None,
            shell: ShellPolicy::default(),
            hosts: HostList::default(),
            allow_tools: Vec::new(),
            plan_mode: PlanMode::default(),
            judging: Judging::default(),
            plan_gate: PlanGate::default(),
            allow_unpriced: false,
            is_unattended: false,
            thread: ThreadKey::main(),
            actor,
        }
    }
}
