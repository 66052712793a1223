//! The closed list of what can happen in a run. A run's state is the fold of these and of nothing else (E9.9).

mod bytes;
mod people;
pub(crate) mod words;

use std::collections::BTreeMap;

use folio_memory::Timestamp;
use folio_memory::view::Placement;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use people::{Always, Approval, NewLimits, PlanDifference, Question};

use crate::node::NodeId;
use crate::result::{Evidence, Failure, NodeResult, Outcome, Output, Severity, StopReason, Verdict};
use crate::spend::{Allowance, Spend};
use crate::talk::{Purpose, Reply, Wanted};

/// What is set aside for each child of a group before the first of them begins (E9.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// For a task that a model does; for a call of a tool it is that call, for what is made of several the sum of theirs.
    pub task: Spend,
    /// How many of them are at work at one time, because more does not fit; `None` if all of it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u32>,
    /// Whether nothing is set aside for tasks in groups that an earlier version of their list did well (E9.8).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rest_only: bool,
}

/// The version of the event format that this build writes. A journal with a higher one is refused (E9.9).
///
/// Version 2 has the events of tasks that a model does, version 3 those by which people steer, version 4 conversations that
/// are put away, version 5 groups that set something aside for their members, version 6 what calls write, roll-ups, and compactors
/// that are asked, version 7 models that stand in for others, version 8 the mark that a newer version goes on with a run, version 9 sessions of
/// programs, executors that whoever decided chose, calls and written plans that a judge or a person checks, and shares
/// of limits. Older journals are read as
/// they are; whoever goes on with one says so first ([`Event::FormatRaised`]).
pub const FORMAT: u32 = 9;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run exists. Always the first event, and only the first.
    RunStarted {
        /// The format of this journal's events.
        format: u32,
        /// What is wanted, in words.
        goal: String,
        /// The plan in its authored form.
        plan: Value,
        /// The plan's inputs, checked and with defaults.
        inputs: BTreeMap<String, Value>,
        /// When the run must be over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Timestamp>,
        /// Values that templates see as `run`: the written id and the like.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        run: Value,
    },
    /// A node got its children: the steps of its plan, the members of its group, or one child for each item.
    Expanded {
        /// Which node.
        node: NodeId,
        /// The items of a `for_each`, in order. They stand here so that the fold never needs a body kept elsewhere.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        items: Vec<Value>,
        /// What is set aside for its children, if it is a group or a `for_each` for which there is a limit (E9.10).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_aside: Option<SetAside>,
        /// What its share of the limits around it comes to, if it has one and begins with this (E9.1).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<Allowance>>,
    },
    /// A call is about to be made. Durable before the call is (E9.12).
    Started {
        /// Which node.
        node: NodeId,
        /// Which attempt, from 1.
        attempt: u32,
        /// What is called, in one line that a person can read; cut at 300 characters.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        call: String,
        /// The names of what it writes: until this attempt has ended no other call begins that writes the same, something inside of
        /// it or something around it (E9.15).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        writes: Vec<String>,
        /// What its share of the limits around it comes to, if it has one and begins with this (E9.1).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<Allowance>>,
    },
    /// An attempt failed and there will be another.
    AttemptFailed {
        /// Which node.
        node: NodeId,
        /// Which attempt, from 1.
        attempt: u32,
        /// Why.
        failure: Failure,
        /// Not before this instant.
        retry_at: Timestamp,
    },
    /// A node is done. Never followed by another event of that node.
    Finished {
        /// Which node.
        node: NodeId,
        /// What came out.
        result: Box<NodeResult>,
    },
    /// A task that a model does was told what memory holds for it: before its first call, and again before what came of its plan is put
    /// together, and before it is planned anew (E9.16).
    Briefed {
        /// Which node.
        node: NodeId,
        /// What the model reads of memory; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        memory: String,
        /// The view of the scratchbook; none if there is nothing in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        book: Option<Box<BookView>>,
        /// What its share of the limits around it comes to, if it has one and begins with this (E9.1).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<Allowance>>,
    },
    /// A compactor is about to be asked, because the conversation of a task outgrew its share of the model's window. Durable before it
    /// is, together with what is set aside for it (E9.10).
    Compacting {
        /// Which node.
        node: NodeId,
        /// What it may come to at most.
        reserved: Spend,
    },
    /// The conversation of a task outgrew its share of the model's window: the beginning of it is kept elsewhere, and no longer
    /// said (M7.8 V8, E9.16). Recorded, because which window it was is said by who drives the run and not by the journal.
    Compacted {
        /// Which node.
        node: NodeId,
        /// How many pieces of what was said in its stage are put away, from the first.
        pieces: u32,
        /// What stands for them, and for all that was put away before.
        text: String,
        /// The view of the scratchbook as it is now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        book: Option<Box<BookView>>,
        /// What a compactor cost.
        #[serde(default, skip_serializing_if = "Spend::is_nothing")]
        spent: Spend,
    },
    /// The results that a task is to put together are too many to be read at once: parts of them are put into one first, each by a node
    /// of its own (E9.16). Again, if those are still too many.
    RollUps {
        /// Whose results.
        node: NodeId,
        /// How many results each part has, in the order of the plan. What is alone in its part stays as it is.
        parts: Vec<u32>,
    },
    /// A model is about to be asked. Durable before it is, together with what is set aside for it (E9.10).
    Asked {
        /// For which node.
        node: NodeId,
        /// Which call of the node, from 1. The same again if the driver died while it was under way.
        call: u32,
        /// What for.
        purpose: Purpose,
        /// What the call may come to at most.
        reserved: Spend,
        /// Whether a program is started that works by itself: after a crash it is not started again (E9.12), unless it has a session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_opaque: bool,
    },
    /// A program that was started has a session which it can be given back. Durable before it is told what to do: whoever takes the
    /// run up when its driver died starts the program with this session, and it goes on (E9.17).
    SessionBegan {
        /// For which node.
        node: NodeId,
        /// Which call of the node.
        call: u32,
        /// Which program, as it is named in a yes (`agent:NAME`): no other one is given the session.
        program: String,
        /// How the program names the session.
        session: String,
    },
    /// A model answered. What was set aside for the call is free again, and what it cost is spent.
    Replied {
        /// For which node.
        node: NodeId,
        /// Which call of the node.
        call: u32,
        /// What it answered, as it answered.
        reply: Box<Reply>,
        /// What it cost. If the provider does not say, what was set aside.
        spent: Spend,
        /// Which model answered, as people write it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        model: String,
        /// How long it took.
        #[serde(default, skip_serializing_if = "folio_memory::is_default")]
        duration_us: u64,
        /// Whether the object in it had to be taken out of other words, or put right, before it could be read (E9.13).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        mended: bool,
    },
    /// A model did not answer.
    AskFailed {
        /// For which node.
        node: NodeId,
        /// Which call of the node.
        call: u32,
        /// Why.
        failure: Failure,
        /// What it cost nevertheless.
        #[serde(default, skip_serializing_if = "Spend::is_nothing")]
        spent: Spend,
        /// Not before this instant it is asked again; if there is none, it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
    /// What was read from a reply cannot be used; the model is told all of it, or a rule takes its place (E9.13).
    Rejected {
        /// Which node.
        node: NodeId,
        /// Everything that is wrong.
        problems: Vec<String>,
    },
    /// Whoever was asked was of no help: it is away, or will not. The next call goes to the model that stands in for it (E9.13).
    PassedOn {
        /// Which node.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// A task is done directly (E9.3).
    Decided {
        /// Which node.
        node: NodeId,
        /// Which rule decided, or `model`.
        by: String,
        /// Why, in a sentence.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// What the model said of the task, if it was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tests: Option<LeafTests>,
        /// The first action, if the model named one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first: Option<Wanted>,
        /// Who does it, if whoever decided chose somebody else than the usual executor (E9.17).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        executor: Option<String>,
    },
    /// A task has a plan, or another version of one.
    Planned {
        /// Which node.
        node: NodeId,
        /// Which version of its plan, from 1.
        version: u32,
        /// The steps in their authored form.
        steps: Value,
        /// Why it is taken apart, in a sentence; of a later version, what went wrong with the one before.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// What the model said of the task, if it was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tests: Option<LeafTests>,
        /// The steps of earlier versions whose results still count, by id.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<NodeId>,
        /// Whether its steps wait for a person's yes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        awaits: bool,
    },
    /// A plan that waited for a yes got it.
    PlanApproved {
        /// Whose plan.
        node: NodeId,
        /// Which version of it.
        version: u32,
        /// By whom.
        by: String,
    },
    /// A plan that waited for a yes got a no: its steps are not begun, and there may be another plan.
    PlanRejected {
        /// Whose plan.
        node: NodeId,
        /// Which version of it.
        version: u32,
        /// Why, for whoever plans anew.
        reason: String,
        /// By whom.
        by: String,
    },
    /// A call that nobody has allowed waits for a person's yes. Only it and what waits for it wait (E9.14).
    ApprovalAsked {
        /// Which node.
        node: NodeId,
        /// The call.
        approval: Box<Approval>,
    },
    /// A call that waited for a yes got it.
    CallApproved {
        /// Which node.
        node: NodeId,
        /// What of the run needs no other yes from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        always: Option<Always>,
        /// By whom.
        by: String,
    },
    /// A call that waited for a yes got a no.
    CallRejected {
        /// Which node.
        node: NodeId,
        /// Why; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// By whom.
        by: String,
    },
    /// A person changed limits of the run, or of a part of it (E9.10).
    LimitsChanged {
        /// Whose limits; those of the run if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// What they are from now on.
        limits: Box<NewLimits>,
        /// Who.
        by: String,
    },
    /// A person changed a plan that is being carried out (E9.14).
    PlanEdited {
        /// Whose plan.
        node: NodeId,
        /// Which version it has now; one more than before.
        version: u32,
        /// All steps in their authored form, those that stay as they were included.
        steps: Value,
        /// The steps that go on as they are, by id.
        kept: Vec<NodeId>,
        /// The same change by name.
        difference: Box<PlanDifference>,
        /// Who.
        by: String,
    },
    /// A model wants tools called. Each becomes a node below the task.
    Wants {
        /// Which node.
        node: NodeId,
        /// The calls, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Wanted>,
        /// Calls that are not made, by the id that the model gave them, and what it is told instead.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        refused: BTreeMap<String, String>,
    },
    /// There is a result; its criteria are not checked yet.
    Proposed {
        /// Which node.
        node: NodeId,
        /// The result.
        proposal: Box<Proposal>,
    },
    /// Criteria were checked: by the engine, by a program, by a judge. Or commands are about to check them.
    Checked {
        /// Which node.
        node: NodeId,
        /// What was found.
        verdicts: Vec<Verdict>,
        /// The limit that left nothing for a judge, or why the judge did not say, if that is why nobody could (E9.6, E9.10).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<StopReason>,
        /// The commands that are about to check them, if that is what it says: nothing is found yet then. Durable before they begin (E9.6).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        begins: Option<Box<CheckBegins>>,
    },
    /// A task's result was not what was wanted, and it is done once more with what is missing (E9.8).
    SentBack {
        /// Which node.
        node: NodeId,
        /// What is missing, a line each.
        gaps: Vec<String>,
    },
    /// A limit was reached: the task may hand back what it has, and nothing else (E9.10).
    Spent {
        /// Which node.
        node: NodeId,
        /// Which limit.
        reason: StopReason,
    },
    /// A task asks a person. Only it and what waits for it wait (E9.14).
    Questioned {
        /// Which node.
        node: NodeId,
        /// The question.
        question: Box<Question>,
    },
    /// A question was answered. Every task of the run may know.
    Answered {
        /// Whose question.
        node: NodeId,
        /// What was answered.
        answer: String,
        /// By whom: a person's name, `default` or `nobody`.
        by: String,
    },
    /// No call of a subtree is begun any more until it is continued; what is under way ends (E9.14).
    Paused {
        /// Which node; the whole run if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// Who wanted it.
        by: String,
    },
    /// A paused subtree goes on.
    Continued {
        /// Which node; the whole run if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// Who wanted it.
        by: String,
    },
    /// Somebody wants the run, or one subtree of it, to stop (E9.11). Asking twice is asking once.
    CancelRequested {
        /// Which node; the whole run if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// Who.
        by: String,
    },
    /// Another process took the run up after its driver was gone.
    Resumed {
        /// The calls that had begun and have no outcome.
        in_flight: Vec<NodeId>,
    },
    /// What follows may be of a later format than what stands before: a newer version goes on with the run. An older one that
    /// reads this leaves the run to others, instead of going on with what it understands of it (E9.9).
    FormatRaised {
        /// The format from here on.
        format: u32,
    },
}

impl Event {
    /// The name as it is written.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::RunStarted { .. } => "run_started",
            Self::Expanded { .. } => "expanded",
            Self::Started { .. } => "started",
            Self::AttemptFailed { .. } => "attempt_failed",
            Self::Finished { .. } => "finished",
            Self::Briefed { .. } => "briefed",
            Self::Compacting { .. } => "compacting",
            Self::Compacted { .. } => "compacted",
            Self::RollUps { .. } => "roll_ups",
            Self::Asked { .. } => "asked",
            Self::SessionBegan { .. } => "session_began",
            Self::Replied { .. } => "replied",
            Self::AskFailed { .. } => "ask_failed",
            Self::Rejected { .. } => "rejected",
            Self::PassedOn { .. } => "passed_on",
            Self::Decided { .. } => "decided",
            Self::Planned { .. } => "planned",
            Self::PlanEdited { .. } => "plan_edited",
            Self::PlanApproved { .. } => "plan_approved",
            Self::PlanRejected { .. } => "plan_rejected",
            Self::ApprovalAsked { .. } => "approval_asked",
            Self::CallApproved { .. } => "call_approved",
            Self::CallRejected { .. } => "call_rejected",
            Self::LimitsChanged { .. } => "limits_changed",
            Self::Wants { .. } => "wants",
            Self::Proposed { .. } => "proposed",
            Self::Checked { .. } => "checked",
            Self::SentBack { .. } => "sent_back",
            Self::Spent { .. } => "spent",
            Self::Questioned { .. } => "questioned",
            Self::Answered { .. } => "answered",
            Self::Paused { .. } => "paused",
            Self::Continued { .. } => "continued",
            Self::CancelRequested { .. } => "cancel_requested",
            Self::Resumed { .. } => "resumed",
            Self::FormatRaised { .. } => "format_raised",
        }
    }

    /// The node that it is about.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::Expanded { node, .. }
            | Self::Started { node, .. }
            | Self::AttemptFailed { node, .. }
            | Self::Finished { node, .. }
            | Self::Briefed { node, .. }
            | Self::Compacting { node, .. }
            | Self::Compacted { node, .. }
            | Self::RollUps { node, .. }
            | Self::Asked { node, .. }
            | Self::SessionBegan { node, .. }
            | Self::Replied { node, .. }
            | Self::AskFailed { node, .. }
            | Self::Rejected { node, .. }
            | Self::PassedOn { node, .. }
            | Self::Decided { node, .. }
            | Self::Planned { node, .. }
            | Self::PlanEdited { node, .. }
            | Self::PlanApproved { node, .. }
            | Self::PlanRejected { node, .. }
            | Self::ApprovalAsked { node, .. }
            | Self::CallApproved { node, .. }
            | Self::CallRejected { node, .. }
            | Self::Wants { node, .. }
            | Self::Proposed { node, .. }
            | Self::Checked { node, .. }
            | Self::SentBack { node, .. }
            | Self::Spent { node, .. }
            | Self::Questioned { node, .. }
            | Self::Answered { node, .. } => Some(*node),
            Self::CancelRequested { node, .. }
            | Self::Paused { node, .. }
            | Self::Continued { node, .. }
            | Self::LimitsChanged { node, .. } => *node,
            Self::RunStarted { .. } | Self::Resumed { .. } | Self::FormatRaised { .. } => None,
        }
    }
}

/// What a model reads of its scratchbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookView {
    /// The view.
    pub text: String,
    /// Where it stands. It was made for that place: in the system prompt nobody's words but ours are quoted (M7.8 V6, V11).
    pub placement: Placement,
}

/// Seed 001's three tests of whether a task is done directly: all of them have to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafTests {
    /// It is of low or medium complexity, and well understood.
    pub low_complexity: bool,
    /// What it needs is at hand.
    pub resources_available: bool,
    /// Its criteria are concrete and can be tested here.
    pub criteria_testable: bool,
}

/// Commands that are about to check what a task came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckBegins {
    /// How many. Each counts as a call of a tool (E9.10).
    pub commands: u32,
    /// The names of what they may write, as of a call: it is theirs until they have ended (E9.15).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
}

/// What a task is to come to, before its criteria are checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// How it ended, in the eyes of whoever did it.
    pub status: Outcome,
    /// Why it ended so, unless it is simply done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Whether going on can help after a failure, if whoever did it says so (E9.4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// A few lines for people and later steps.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// The value for later steps.
    #[serde(default, skip_serializing_if = "Output::is_null")]
    pub output: Output,
    /// What supports it: references that were checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// What whoever did it says of criteria that nobody else checks: those that a model wrote for its own steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Verdict>,
    /// Bytes of texts that its call wrote into memory (E9.10).
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub wrote: u64,
    /// How long the call of a tool took that it came of.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub duration_us: u64,
}
