//! The variable `run` of a run: what its first event records of who submitted it, how, and what it may use. `grants`
//! and `attendance` read it.

use folio_engine::run::{Judging, PlanGate, PlanMode};
use folio_memory::{RunId, Timestamp, TurnId};
use folio_tools::{HostList, ShellPolicy};
use serde_json::{Value, json};

use crate::attendance::Attendance;

/// The key that says whether models without a price may be used although money is limited.
pub(crate) const UNPRICED: &str = "unpriced";
/// The key that says whose criteria are judged.
pub(crate) const JUDGING: &str = "judging";
/// The key of the hosts that the submitter allowed.
pub(crate) const HOSTS: &str = "hosts";
/// The key of the hosts that are allowed to every run that was submitted by the same runner.
pub(crate) const USUAL_HOSTS: &str = "usual_hosts";

/// The variable of a new run.
pub(crate) struct RunVariable<'n> {
    pub(crate) id: RunId,
    /// The folder that it is submitted from.
    pub(crate) folder: Option<String>,
    pub(crate) started_at: Timestamp,
    pub(crate) turn: TurnId,
    pub(crate) shell: ShellPolicy,
    pub(crate) plan_mode: PlanMode,
    pub(crate) plan_gate: PlanGate,
    pub(crate) allow_unpriced: bool,
    pub(crate) attendance: Attendance,
    pub(crate) judging: Judging,
    pub(crate) hosts: &'n HostList,
    pub(crate) usual_hosts: &'n HostList,
    /// Tools that need no approval.
    pub(crate) allow_tools: Vec<String>,
}

impl RunVariable<'_> {
    /// The variable as the event records it. Most settings are left out if they are the default.
    pub(crate) fn to_json(&self) -> Value {
        let mut variable = json!({
            "id": self.id.to_string(),
            "folder": self.folder,
            "started_at": self.started_at.to_string(),
            "shell": self.shell,
            "plan": self.plan_mode,
            "plan_gate": self.plan_gate.to_json(),
            "turn": self.turn.to_string(),
        });
        if self.allow_unpriced {
            variable[UNPRICED] = json!(true);
        }
        self.attendance.record(&mut variable);
        if self.judging != Judging::default() {
            variable[JUDGING] = json!(self.judging);
        }
        for (name, hosts) in [(HOSTS, self.hosts), (USUAL_HOSTS, self.usual_hosts)] {
            if !hosts.is_empty() {
                variable[name] = json!(hosts);
            }
        }
        if !self.allow_tools.is_empty() {
            variable["tools"] = json!(self.allow_tools);
        }
        variable
    }
}
