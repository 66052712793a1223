//! A run that is to be submitted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use folio_engine::plan::Plan;
use folio_engine::run::{Judging, PlanGate, PlanMode};
use folio_memory::{Actor, ThreadKey};
use folio_tools::{HostList, ShellPolicy};
use serde_json::Value;

/// A run to be.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its plan.
    pub plan: Plan,
    /// What is wanted, if the plan does not say so or says it differently.
    pub goal: Option<String>,
    /// The inputs as they were given. Paths are absolute.
    pub inputs: BTreeMap<String, Value>,
    /// The folder that it is submitted from: what a path means in a plan without an input of kind `path`.
    pub folder: Option<PathBuf>,
    /// Which commands its tool `shell` may run. Recorded with the run: whoever takes it up later neither widens nor
    /// narrows what its submitter allowed.
    pub shell: ShellPolicy,
    /// Which hosts its tool `http_get` may ask, besides those of [`RunnerOptions::hosts`](crate::RunnerOptions::hosts). Recorded with
    /// the run as well.
    pub hosts: HostList,
    /// Tools that do not wait for a yes: names, or `NAME.*` for all of a family. Recorded with the run as well.
    pub allow_tools: Vec<String>,
    /// Whether models may take tasks apart.
    pub plan_mode: PlanMode,
    /// Whose criteria are judged. Recorded with the run.
    pub judging: Judging,
    /// Which of their plans wait for a person's yes.
    pub plan_gate: PlanGate,
    /// Whether models without a price may be asked although money is limited: then what they cost is not known, and not counted.
    /// Recorded with the run.
    pub allow_unpriced: bool,
    /// Whether nobody is there to answer its questions, whoever drives it. Recorded with the run.
    pub is_unattended: bool,
    /// The thread that it belongs to.
    pub thread: ThreadKey,
    /// Who submits it. In a turn, the run is in that turn; otherwise it is a turn of its own.
    pub actor: Actor,
}

impl NewRun {
    /// A run of `plan`, submitted by `actor`: without inputs or a folder, in the main thread, granted what every run is.
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
