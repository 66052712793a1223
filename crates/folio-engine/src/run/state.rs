//! The state of a run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use folio_memory::canonical::canonical;
use folio_memory::{RunId, Timestamp};
use serde_json::Value;

use super::agent::{Equipment, Facts};
use super::approval::{ApprovalRequest, AskFirst, Rule};
use super::bodies::Bodies;
use super::changes::Changes;
use super::gate::PlanGate;
use super::idle::RunTime;
use super::inherit::Inherited;
use super::limit_met::LimitKind;
use super::limits::Limits;
use super::narrow::OwnLimits;
use super::pauses::PausedPart;
use super::ready::Ready;
use super::resources::{Declared, Elsewhere, ReadOnlyTools, Resources};
use super::scope::BodyNeeded;
use super::tree::{Frame, Node};
use crate::event::FORMAT;
use crate::node::NodeId;
use crate::plan::{self, Plan};
use crate::result::{Outcome, Output, StopReason};
use crate::template::Templates;

/// A run: the fold of its events.
///
/// A cheap value until [`Event::RunStarted`](crate::Event::RunStarted) is applied. The cost of an event is proportional to what it changes: its
/// node, the node's dependents and, for an expansion, the new children; nothing depends on the size of the tree.
#[derive(Debug)]
pub struct Run {
    pub(super) id: RunId,
    pub(super) templates: Arc<Templates>,
    pub(super) goal: String,
    pub(super) plan: Arc<Plan>,
    pub(super) inputs: Arc<Value>,
    pub(super) run_variable: Arc<Value>,
    /// The inputs as models read them, once somebody did.
    pub(super) inputs_text: OnceLock<String>,
    pub(super) limits: Limits,
    pub(super) own_limits: OwnLimits,
    pub(super) time: RunTime,
    pub(super) started_at: Option<Timestamp>,
    pub(super) nodes: Vec<Node>,
    pub(super) frames: Vec<Frame>,
    pub(super) by_id: HashMap<NodeId, usize>,
    /// Nodes that may begin, in the order in which they were made.
    pub(super) ready: Ready,
    /// Nodes of lists that were planned anew, each with the node that an earlier version made for the same item.
    pub(super) inherited: BTreeMap<usize, Inherited>,
    /// Those of them that ended with what the earlier node had done, each with that node.
    pub(super) ended_inherited: BTreeMap<usize, usize>,
    /// Nodes that will not begin, or only need their result recorded.
    pub(super) skipped: BTreeSet<usize>,
    /// Nodes that begin no more of their children.
    pub(super) halted: BTreeSet<usize>,
    /// Groups under way that will end as failed hard, because a required member did.
    pub(super) failing: BTreeSet<usize>,
    /// Nodes that are paused because they take the place of paused parts, and have not begun.
    pub(super) took_over_pause: BTreeSet<usize>,
    /// Nodes whose children all have results.
    pub(super) settled: BTreeSet<usize>,
    /// Nodes whose call is under way, in this process or one that died.
    pub(super) executing: BTreeSet<usize>,
    /// Nodes whose call is to be stopped.
    pub(super) stopping: BTreeSet<usize>,
    /// Nodes that wait for their next attempt.
    pub(super) parked: BTreeSet<(Timestamp, usize)>,
    /// The cache of outputs that are kept beside the journal. Not derived from the journal.
    pub(super) bodies: Bodies,
    pub(super) finished: BTreeMap<Outcome, u32>,
    /// Those of these that another version of a plan superseded.
    pub(super) superseded: BTreeMap<Outcome, u32>,
    pub(super) cancel_requests: u32,
    /// The models that may be asked, if the driver has any. Not derived from the journal.
    pub(super) equipment: Option<Arc<Equipment>>,
    /// Nodes that wait for a person's answer.
    pub(super) unanswered: BTreeSet<usize>,
    /// The answers of people, by question.
    pub(super) answers: Facts,
    /// What changed, and when.
    pub(super) changes: Changes,
    /// What memory held when a task was last briefed.
    pub(super) last_briefed_memory: Arc<str>,
    /// The number of calls that models wanted, and of roll-ups: nodes that belong to no plan.
    pub(super) actions: usize,
    /// The number of plans that replaced others.
    pub(super) replans: u32,
    /// Nodes for which a model was asked for another plan, until that plan is made or the node ends.
    pub(super) replanning: BTreeSet<usize>,
    /// Which plans wait for a person's approval, as the run's submitter set it.
    pub(super) gate: PlanGate,
    /// Nodes whose plan waits for approval.
    pub(super) gated: BTreeSet<usize>,
    /// Calls that a person was asked to approve, until their nodes have ended.
    pub(super) asked_about: BTreeMap<usize, ApprovalRequest>,
    /// Rules for calls that need no further approval.
    pub(super) rules: Vec<Rule>,
    /// Which calls wait for approval, if somebody is there to give it. Not derived from the journal.
    pub(super) asks_first: Option<AskFirst>,
    /// Why the calls that were under way before could not be recorded, if whoever drives the run knows.
    pub(super) unrecorded: Option<Box<str>>,
    /// The names of the resources that calls under way write.
    pub(super) taken: Resources,
    /// The names that each of these calls holds, by node.
    pub(super) writing: BTreeMap<usize, Vec<String>>,
    /// What calls write, if the driver provides it. Not derived from the journal.
    pub(super) declared: Option<Declared>,
    /// Which tools only read, if the driver provides it. Not derived from the journal.
    pub(super) looking: Option<ReadOnlyTools>,
    /// What calls of other runs write, if the driver provides it. Not derived from the journal.
    pub(super) elsewhere: Option<Elsewhere>,
    /// The number of subtrees that are paused.
    pub(super) paused: u32,
    /// What is to be paused in steps that have not begun yet, because it was in those that they take the place of.
    pub(super) pauses_to_come: BTreeMap<usize, Vec<PausedPart>>,
    pub(super) pauses: u32,
    /// How often an approval was requested, something was approved or rejected, or limits were changed.
    pub(super) steered: u32,
    /// How often in a row the run was resumed with something under way, without any outcome since.
    pub(super) broken_off: u32,
    /// Who last paused the whole run.
    pub(super) paused_by: Box<str>,
    /// The blocks in the logs of tasks under way whose names could occur again, by node.
    pub(super) blocks: HashMap<usize, Vec<String>>,
    /// The limits that stopped something, by the reported reason, with the nodes that have them.
    pub(super) limits_met: Vec<(StopReason, (usize, LimitKind))>,
    /// The tasks that were done without a plan only because of such a limit.
    pub(super) unplanned: Vec<(usize, StopReason)>,
    /// The format of the journal's events.
    pub(super) format: u32,
}

/// Why a journal cannot be folded. It was not written by a correct runner, or by a newer one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// A newer version wrote the journal.
    #[error("the journal has event format {found}; this version of folio knows formats up to {FORMAT}")]
    TooNew {
        /// The format of the journal.
        found: u32,
    },
    /// The first event is not the start of the run, or a later one is.
    #[error("the journal does not begin with exactly one run_started")]
    Start,
    /// The plan in the journal cannot be read.
    #[error("the plan in the journal cannot be read: {0}")]
    Plan(String),
    /// An event names a node that does not exist.
    #[error("the journal names node {0}, which does not exist at that point")]
    UnknownNode(NodeId),
    /// An event is not allowed in the state of its node.
    #[error("node {node} is {state} and cannot be {event}")]
    Transition {
        /// The node.
        node: NodeId,
        /// The state of the node.
        state: &'static str,
        /// The event.
        event: &'static str,
    },
}

impl JournalError {
    /// A stable code, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooNew { .. } => "run_too_new",
            Self::Start | Self::Plan(_) | Self::UnknownNode(_) | Self::Transition { .. } => "run_unreadable",
        }
    }
}

impl Run {
    /// Who paused the whole run; `None` if it is not paused.
    #[must_use]
    pub fn paused_by(&self) -> Option<&str> {
        self.is_run_paused().then_some(&*self.paused_by)
    }

    /// The name, followed by what was wrong, under which a run is paused whose driver failed by a mistake in the
    /// program: every driver after it would fail in the same way.
    pub const BROKEN_DRIVER: &str = "its driver, which panicked";

    /// The name under which a run is cancelled when its time is over.
    pub const DEADLINE: &str = "deadline";

    /// The run `id`, before its first event.
    #[must_use]
    pub fn new(id: RunId, templates: Arc<Templates>) -> Self {
        Self {
            id,
            templates,
            goal: String::new(),
            plan: Arc::new(no_plan()),
            inputs: Arc::new(Value::Null),
            run_variable: Arc::new(Value::Null),
            inputs_text: OnceLock::new(),
            limits: Limits::default(),
            own_limits: OwnLimits::default(),
            time: RunTime::default(),
            started_at: None,
            nodes: Vec::new(),
            frames: Vec::new(),
            by_id: HashMap::new(),
            ready: Ready::default(),
            inherited: BTreeMap::new(),
            ended_inherited: BTreeMap::new(),
            skipped: BTreeSet::new(),
            halted: BTreeSet::new(),
            failing: BTreeSet::new(),
            took_over_pause: BTreeSet::new(),
            settled: BTreeSet::new(),
            executing: BTreeSet::new(),
            stopping: BTreeSet::new(),
            parked: BTreeSet::new(),
            bodies: Bodies::default(),
            finished: BTreeMap::new(),
            superseded: BTreeMap::new(),
            cancel_requests: 0,
            equipment: None,
            unanswered: BTreeSet::new(),
            answers: Facts::default(),
            changes: Changes::default(),
            last_briefed_memory: Arc::default(),
            actions: 0,
            replans: 0,
            replanning: BTreeSet::new(),
            gate: PlanGate::default(),
            gated: BTreeSet::new(),
            asked_about: BTreeMap::new(),
            rules: Vec::new(),
            asks_first: None,
            unrecorded: None,
            taken: Resources::default(),
            writing: BTreeMap::new(),
            declared: None,
            looking: None,
            elsewhere: None,
            paused: 0,
            pauses_to_come: BTreeMap::new(),
            pauses: 0,
            steered: 0,
            broken_off: 0,
            paused_by: Box::default(),
            blocks: HashMap::new(),
            limits_met: Vec::new(),
            unplanned: Vec::new(),
            format: 0,
        }
    }

    /// Sets which models may be asked and which tools they may call. Without it, a task that needs a model fails.
    pub fn equip(&mut self, equipment: Arc<Equipment>) {
        self.equipment = Some(equipment);
    }

    /// The models that may be asked, and their tools.
    #[must_use]
    pub fn equipment(&self) -> Option<&Arc<Equipment>> {
        self.equipment.as_ref()
    }

    pub(super) fn index(&self, id: NodeId) -> Result<usize, JournalError> {
        self.by_id.get(&id).copied().ok_or(JournalError::UnknownNode(id))
    }

    /// The inputs as models read them.
    pub(super) fn inputs_in_words(&self) -> &str {
        self.inputs_text
            .get_or_init(|| canonical((*self.inputs).clone()).to_string())
    }

    /// Whether no call of node `index` may begin, because it or something around it is paused.
    pub(super) fn is_paused(&self, index: usize) -> bool {
        self.paused > 0 && self.self_and_ancestors(index).any(|at| self.nodes[at].paused)
    }

    /// Whether the whole run is paused, and has not ended.
    #[must_use]
    pub fn is_run_paused(&self) -> bool {
        self.result().is_none() && self.nodes.first().is_some_and(|root| root.paused)
    }

    /// The value of an output, or which output has to be read first.
    pub(super) fn output_needed(&self, output: &Output) -> Result<Arc<Value>, BodyNeeded> {
        match output {
            Output::Inline(inline) => Ok(inline.value()),
            Output::Blob { hash, bytes } => {
                let cached = self.bodies.output(hash, *bytes);
                cached.ok_or_else(|| BodyNeeded(hash.clone()))
            }
        }
    }

    /// The value of an output of the run, if it is in the journal or cached.
    #[must_use]
    pub fn value_of(&self, output: &Output) -> Option<Arc<Value>> {
        self.output_needed(output).ok()
    }
}

/// The plan of a run before its first event.
fn no_plan() -> Plan {
    Plan {
        version: plan::PLAN_VERSION,
        title: String::new(),
        goal: String::new(),
        description: String::new(),
        inputs: BTreeMap::new(),
        criteria: Vec::new(),
        budget: plan::Budget::default(),
        steps: Vec::new(),
        report: None,
        output: None,
    }
}
