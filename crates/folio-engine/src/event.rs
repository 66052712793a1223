//! The closed list of what can happen in a run. The state of a run is the fold of its events and of nothing else
//! (E9.9).

mod bytes;
mod people;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use folio_memory::Timestamp;
use folio_memory::view::Placement;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use people::{Always, Approval, NewLimits, PlanDifference, Question};

use crate::node::NodeId;
use crate::result::{Evidence, Failure, NodeResult, Outcome, Output, Severity, StopReason, Verdict};
use crate::run::Run;
use crate::spend::{Allowance, Spend};
use crate::talk::{Purpose, Reply, Wanted};

/// What is set aside for each child of a group before the first of them begins (E9.10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// What is set aside for a task that a model does; for a call of a tool it is that call, for a composite step the
    /// sum of its parts.
    pub task: Spend,
    /// The same for tasks that name an executor, by its name: its model has a window and a price of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, Spend>,
    /// How many children run at the same time, because more would not fit into the limits; `None` if all fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u32>,
    /// Whether nothing is set aside for tasks in groups that an earlier version of their list did well (E9.8).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rest_only: bool,
}

/// The version of the event format that this build writes. A journal with a higher one is refused (E9.9).
///
/// Version 2 added the events of tasks that a model does, version 3 those by which people steer a run, version 4
/// conversations that are offloaded, version 5 groups that set something aside for their members, version 6 what calls
/// write, roll-ups and calls of compactors, version 7 models that stand in for others, version 8 the mark that a newer
/// version continues a run, version 9 sessions of programs, executors chosen by the decision, calls and model-written
/// plans that a judge or a person checks, and shares of limits, version 10 goals for which a person is asked what to do
/// because no other plan is made. Journals of older versions are read unchanged; a process that continues one first
/// records that it does ([`Event::FormatRaised`]).
pub const FORMAT: u32 = 10;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run exists. Always the first event, and never a later one.
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
        /// The values that templates see as `run`, such as the run's id as text.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        run: Value,
    },
    /// A node got its children: the steps of its plan, the members of its group, or one child for each item.
    Expanded {
        /// The node.
        node: NodeId,
        /// The items of a `for_each`, in order. They are recorded here so that the fold never needs a body that is kept
        /// elsewhere.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        items: Vec<Value>,
        /// What is set aside for its children, if it is a group or a `for_each` under a limit (E9.10).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_aside: Option<SetAside>,
        /// What its share of the limits around it amounts to, if it has a share and begins with this event (E9.1).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<Allowance>>,
    },
    /// A call is about to be made. Committed before the call begins (E9.12).
    Started {
        /// The node.
        node: NodeId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The call in one line that a person can read, cut at 300 characters.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        call: String,
        /// The names of the resources it writes: until this attempt has ended, no other call begins that writes the
        /// same resource, one inside it or one around it (E9.15).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        writes: Vec<String>,
        /// What its share of the limits around it amounts to, if it has a share and begins with this event (E9.1).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<Allowance>>,
    },
    /// An attempt failed, and another will follow.
    AttemptFailed {
        /// The node.
        node: NodeId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Why the attempt failed.
        failure: Failure,
        /// The earliest time of the next attempt.
        retry_at: Timestamp,
    },
    /// A node is done. No other event of that node follows.
    Finished {
        /// The node.
        node: NodeId,
        /// The node's result.
        result: Box<NodeResult>,
    },
    /// A task that a model does was given what memory holds for it: before its first call, before the results of its
    /// plan are combined, and before it is planned anew (E9.16).
    Briefed {
        /// The node.
        node: NodeId,
        /// What the model reads of memory; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        memory: String,
        /// The view of the scratchbook; `None` if it is empty.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        book: Option<Box<BookView>>,
        /// What its share of the limits around it amounts to, if it has a share and begins with this event (E9.1).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<Allowance>>,
    },
    /// A compactor is about to be asked, because the conversation of a task outgrew its share of the model's window.
    /// Committed before the request, together with what is set aside for it (E9.10).
    Compacting {
        /// The node.
        node: NodeId,
        /// The most that the request may cost.
        reserved: Spend,
    },
    /// The conversation of a task outgrew its share of the model's window: its beginning is offloaded and no longer
    /// sent (M7.8 V8, E9.16). Recorded because the window depends on the driver of the run, not on the journal.
    Compacted {
        /// The node.
        node: NodeId,
        /// How many messages of the current stage are offloaded, counted from the first.
        pieces: u32,
        /// The text that replaces them, and everything that was offloaded before.
        text: String,
        /// The view of the scratchbook as it is now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        book: Option<Box<BookView>>,
        /// What the compactor cost.
        #[serde(default, skip_serializing_if = "Spend::is_nothing")]
        spent: Spend,
    },
    /// The results that a task has to combine are too many to be read at once: parts of them are combined first, each
    /// by a node of its own (E9.16). Repeated if the combined results are still too many.
    RollUps {
        /// The node whose results they are.
        node: NodeId,
        /// How many results each part has, in the order of the plan. A part of one result stays as it is.
        parts: Vec<u32>,
        /// The earlier roll-ups of the same results that stand for their parts again, in the order of the parts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        again: Vec<NodeId>,
    },
    /// A model is about to be asked. Committed before the request, together with what is set aside for it (E9.10).
    Asked {
        /// The node that the request is for.
        node: NodeId,
        /// The number of the node's request, from 1. A request repeats its number if the driver died while it was under
        /// way.
        call: u32,
        /// What the model is asked to do.
        purpose: Purpose,
        /// The most that the request may cost.
        reserved: Spend,
        /// Whether this starts an agent program, which is not started again after a crash (E9.12) unless it has a
        /// session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_opaque: bool,
    },
    /// A program that was started has a session that can be resumed. Committed before the program is told what to do:
    /// if the driver dies, whoever takes over the run starts the program with this session, and it continues (E9.17).
    SessionBegan {
        /// The node that the program works for.
        node: NodeId,
        /// The number of the node's request.
        call: u32,
        /// The program as approvals name it (`agent:NAME`): no other program is given the session.
        program: String,
        /// The program's own name for the session.
        session: String,
    },
    /// A model answered. What was set aside for the request is released, and its cost is spent.
    Replied {
        /// The node that the request was for.
        node: NodeId,
        /// The number of the node's request.
        call: u32,
        /// The reply, unchanged.
        reply: Box<Reply>,
        /// What the request cost; if the provider does not say, what was set aside for it.
        spent: Spend,
        /// The address of the model that answered, as people write it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        model: String,
        /// How long the request took, in microseconds.
        #[serde(default, skip_serializing_if = "folio_memory::is_default")]
        duration_us: u64,
        /// Whether the JSON object in the reply had to be cut out of other text, or repaired, before it could be read
        /// (E9.13).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        mended: bool,
    },
    /// A model did not answer.
    AskFailed {
        /// The node that the request was for.
        node: NodeId,
        /// The number of the node's request.
        call: u32,
        /// Why the request failed.
        failure: Failure,
        /// What the request cost nevertheless.
        #[serde(default, skip_serializing_if = "Spend::is_nothing")]
        spent: Spend,
        /// The earliest time to ask again; `None` if it is not asked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
    /// What was read from a reply cannot be used. The model is told every problem, or a rule decides in its place
    /// (E9.13).
    Rejected {
        /// The node.
        node: NodeId,
        /// Every problem that was found.
        problems: Vec<String>,
    },
    /// The model that was asked could not help: it is unavailable or refuses. The next request goes to the model that
    /// stands in for it (E9.13).
    PassedOn {
        /// The node.
        node: NodeId,
        /// Why the model could not help.
        reason: String,
    },
    /// A task is done directly (E9.3).
    Decided {
        /// The node.
        node: NodeId,
        /// The rule that decided, or `model`.
        by: String,
        /// Why the task is done directly, in a sentence.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// The model's answers to the three tests, if it was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tests: Option<LeafTests>,
        /// The first action, if the model named one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first: Option<Wanted>,
        /// Who does the task, if the decision chose another than the usual executor (E9.17).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        executor: Option<String>,
    },
    /// A task has a plan, or a new version of it.
    Planned {
        /// The node.
        node: NodeId,
        /// The version of its plan, from 1.
        version: u32,
        /// The steps in their authored form.
        steps: Value,
        /// Why the task is split up, in a sentence; for a later version, what went wrong with the one before.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// The model's answers to the three tests, if it was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tests: Option<LeafTests>,
        /// The ids of the steps of earlier versions whose results still count.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<NodeId>,
        /// Whether its steps wait for a person's approval.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        awaits: bool,
    },
    /// A plan that waited for approval was approved.
    PlanApproved {
        /// The node whose plan it is.
        node: NodeId,
        /// The version of the plan.
        version: u32,
        /// Who approved it.
        by: String,
    },
    /// A plan that waited for approval was rejected: its steps do not begin, and another plan may follow.
    PlanRejected {
        /// The node whose plan it is.
        node: NodeId,
        /// The version of the plan.
        version: u32,
        /// Why it was rejected, for whoever plans anew.
        reason: String,
        /// Who rejected it.
        by: String,
    },
    /// A call that nobody has allowed waits for a person's approval. Only the call and what depends on it wait (E9.14).
    ApprovalAsked {
        /// The node.
        node: NodeId,
        /// The call.
        approval: Box<Approval>,
    },
    /// A call that waited for approval was approved.
    CallApproved {
        /// The node.
        node: NodeId,
        /// Which calls of the run need no further approval from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        always: Option<Always>,
        /// Who approved it.
        by: String,
    },
    /// A call that waited for approval was rejected.
    CallRejected {
        /// The node.
        node: NodeId,
        /// Why it was rejected; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// Who rejected it.
        by: String,
    },
    /// A person changed the limits of the run or of a part of it (E9.10).
    LimitsChanged {
        /// The node whose limits changed; `None` for those of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// The limits from now on.
        limits: Box<NewLimits>,
        /// Who changed them.
        by: String,
    },
    /// A person changed a plan that is being carried out (E9.14).
    PlanEdited {
        /// The node whose plan it is.
        node: NodeId,
        /// The new version of the plan, one more than before.
        version: u32,
        /// All steps in their authored form, including those that did not change.
        steps: Value,
        /// The ids of the steps that continue unchanged.
        kept: Vec<NodeId>,
        /// The same change by the names of the steps.
        difference: Box<PlanDifference>,
        /// Who changed it.
        by: String,
    },
    /// A model wants tools called. Each call becomes a node below the task.
    Wants {
        /// The node.
        node: NodeId,
        /// The calls, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Wanted>,
        /// Calls that are not made, by the id that the model gave them, with what the model is told instead.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        refused: BTreeMap<String, String>,
    },
    /// There is a result whose criteria have not been checked yet.
    Proposed {
        /// The node.
        node: NodeId,
        /// The result.
        proposal: Box<Proposal>,
    },
    /// Criteria were checked by the engine, a program or a judge; or commands are about to check them.
    Checked {
        /// The node.
        node: NodeId,
        /// What was found.
        verdicts: Vec<Verdict>,
        /// Why no judge could decide, if that is the case: the limit that left nothing for it, or why it did not answer
        /// (E9.6, E9.10).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<StopReason>,
        /// The commands that are about to check the criteria, if this event announces them: there are no verdicts yet
        /// then. Committed before the commands begin (E9.6).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        begins: Option<Box<CheckBegins>>,
    },
    /// A task's result was not what was wanted. It is done once more, told what is missing (E9.8).
    SentBack {
        /// The node.
        node: NodeId,
        /// What is missing, one line each.
        gaps: Vec<String>,
    },
    /// A limit was reached: the task may only hand back what it has (E9.10).
    Spent {
        /// The node.
        node: NodeId,
        /// The limit that was reached.
        reason: StopReason,
    },
    /// A task asks a person. Only the task and what depends on it wait (E9.14).
    Questioned {
        /// The node.
        node: NodeId,
        /// The question.
        question: Box<Question>,
    },
    /// A question was answered. Every task of the run may know the answer.
    Answered {
        /// The node that asked.
        node: NodeId,
        /// The answer.
        answer: String,
        /// Who answered: a person's name, `default` or `nobody`.
        by: String,
    },
    /// A subtree was paused: no call in it begins until it is continued, and calls under way finish (E9.14).
    Paused {
        /// The root of the subtree; `None` for the whole run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// Who paused it.
        by: String,
    },
    /// A paused subtree continues.
    Continued {
        /// The root of the subtree; `None` for the whole run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// Who continued it.
        by: String,
    },
    /// Somebody wants the run, or one subtree of it, to stop (E9.11). Asking twice has no further effect.
    CancelRequested {
        /// The root of the subtree; `None` for the whole run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// Who asked.
        by: String,
    },
    /// Another process took over the run after its driver was gone. Or, if nothing was in flight, some time does not
    /// count.
    Resumed {
        /// The calls that had begun and have no outcome.
        in_flight: Vec<NodeId>,
        /// How long nobody drove the run before, or the machine of its driver slept, in microseconds: that time does
        /// not count against a time limit that nobody set (E9.10). Versions that do not know this field count it.
        #[serde(default, skip_serializing_if = "is_zero")]
        uncounted_us: u64,
    },
    /// What follows may be of a later format than what precedes: a newer version continues the run. An older version
    /// that reads this leaves the run to others instead of continuing with the part that it understands (E9.9).
    FormatRaised {
        /// The format from here on.
        format: u32,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Event {
    /// How long neither anybody drove the run nor time counted, as the event says.
    #[must_use]
    pub fn uncounted(&self) -> Duration {
        match self {
            Self::Resumed { uncounted_us, .. } => Duration::from_micros(*uncounted_us),
            _ => Duration::ZERO,
        }
    }

    /// Whether people or other programs may have written it while no process drove the run.
    pub(crate) fn may_come_from_outside(&self) -> bool {
        match self {
            Self::CancelRequested { by, .. } => by != Run::DEADLINE,
            Self::Paused { .. }
            | Self::Continued { .. }
            | Self::LimitsChanged { .. }
            | Self::PlanEdited { .. }
            | Self::PlanApproved { .. }
            | Self::PlanRejected { .. }
            | Self::CallApproved { .. }
            | Self::CallRejected { .. }
            | Self::Answered { .. } => true,
            _ => false,
        }
    }

    /// The event's name as it is written.
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

    /// The node that the event is about.
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
    /// The text of the view.
    pub text: String,
    /// Where the view stands in the request. The text was made for that place: in the system prompt, nothing that
    /// strangers wrote is quoted (M7.8 V6, V11).
    pub placement: Placement,
}

/// The three tests of seed 001 for whether a task is done directly: all of them have to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafTests {
    /// Whether the task is of low or medium complexity, and well understood.
    pub low_complexity: bool,
    /// Whether what it needs is available.
    pub resources_available: bool,
    /// Whether its criteria are concrete and can be tested here.
    pub criteria_testable: bool,
}

/// Commands that are about to check the result of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckBegins {
    /// The number of commands. Each counts as a call of a tool (E9.10).
    pub commands: u32,
    /// The names of the resources that they may write. As with a call, nobody else writes these until the commands have
    /// ended (E9.15).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
}

/// The result that a task proposes, before its criteria are checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// How it ended, according to whoever did it.
    pub status: Outcome,
    /// Why it ended so; `None` if it is simply done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Whether going on can help after a failure, if whoever did it says (E9.4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// A few lines for people and later steps.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// The whole notes, if `notes` has only their beginning: an entry of the task's page holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_notes: Option<String>,
    /// The value for later steps.
    #[serde(default, skip_serializing_if = "Output::is_null")]
    pub output: Output,
    /// What supports it: references that were checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// What whoever did it claims about criteria that nobody else checks: those that a model wrote for its own steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Verdict>,
    /// Bytes of text that its call wrote into memory (E9.10).
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub wrote: u64,
    /// How long the call of a tool that produced it took, in microseconds.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub duration_us: u64,
}
