//! The nodes of a run and the plans that they came from.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use folio_memory::Timestamp;
use serde_json::Value;

use super::agent::{Agent, Tally};
use super::purses::Held;
use super::state::Run;
use crate::event::SetAside;
use crate::node::{NodeId, NodeState};
use crate::plan::{Graph, Join, OnHard, Slug, Step, Work};
use crate::result::{NodeResult, Outcome, StopReason};
use crate::spend::{Allowance, Purse, Spend};

/// How the root of a run is called: its path is empty.
pub(super) const ROOT: &str = "run";

/// Why a node is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// Somebody asked for it.
    ByUser,
    /// Its group no longer needed it.
    ByParent,
    /// Its time was over.
    ByDeadline,
}

impl Cancel {
    /// The stop reason of the results.
    #[must_use]
    pub fn reason(self) -> StopReason {
        match self {
            Self::ByUser => StopReason::CancelledByUser,
            Self::ByParent => StopReason::CancelledByParent,
            Self::ByDeadline => StopReason::Deadline,
        }
    }
}

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A task that is one call of a tool.
    Call,
    /// A task with a plan of its own; the root is one.
    Plan,
    /// A task that a model does or splits up.
    Model,
    /// A call of a tool that a model wants.
    Action,
    /// One result that combines a part of the results that a task has to combine (E9.16).
    RollUp,
    /// Members that run at the same time.
    Parallel,
    /// Members that run one after the other.
    Sequence,
    /// One child for each item.
    ForEach,
}

impl NodeKind {
    /// The kind of node that `step` becomes.
    #[must_use]
    pub fn of(step: &Step) -> Self {
        match step {
            Step::Task(task) => match task.work {
                Work::Do(_) => Self::Call,
                Work::Plan(_) => Self::Plan,
                Work::Model => Self::Model,
            },
            Step::Parallel(_) => Self::Parallel,
            Step::Sequence(_) => Self::Sequence,
            Step::ForEach(_) => Self::ForEach,
        }
    }

    /// The kind's name as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Plan => "plan",
            Self::Model => "model",
            Self::Action => "action",
            Self::RollUp => "roll_up",
            Self::Parallel => "parallel",
            Self::Sequence => "sequence",
            Self::ForEach => "for_each",
        }
    }

    /// Whether it is a task, which has a branch of its own in the tree of pages.
    #[must_use]
    pub fn is_task(self) -> bool {
        matches!(self, Self::Call | Self::Plan | Self::Model)
    }

    /// Whether it only groups steps of the plan around it, without a plan or result of its own to report.
    #[must_use]
    pub fn is_group(self) -> bool {
        matches!(self, Self::Parallel | Self::Sequence)
    }
}

/// One plan, or one item of a `for_each`, that is being carried out.
#[derive(Debug)]
pub(super) struct Frame {
    /// The node whose plan it is.
    pub(super) owner: usize,
    /// The steps of the plan, and the node of each.
    pub(super) graph: Arc<Graph>,
    pub(super) nodes: Vec<usize>,
    /// Steps of earlier versions of the plan whose results still count.
    pub(super) kept: Vec<usize>,
    /// The frame around it, whose results its steps may read too.
    pub(super) outer: Option<usize>,
    /// Nodes by slug.
    pub(super) by_slug: HashMap<Slug, usize>,
    /// What its templates see in addition to results: the item and its index.
    pub(super) variables: Vec<(String, Arc<Value>)>,
}

/// The plan of a node while it is carried out.
#[derive(Debug)]
pub(super) struct Planned {
    /// The last version that was made, from 1: the next one gets the next number.
    pub(super) version: u32,
    /// The version that `members` are of: an earlier one, if people rejected what was to replace it.
    pub(super) members_version: u32,
    /// The frame with its names.
    pub(super) frame: usize,
    /// The steps whose results count, in plan order: those of this version, and those kept from earlier ones.
    pub(super) members: Vec<usize>,
    /// The steps of the previous version, its number, and the frame with their names: they count until this version
    /// is approved.
    pub(super) members_before: Vec<usize>,
    pub(super) version_before: u32,
    pub(super) frame_before: Option<usize>,
    /// The last version that another one replaced, which one that people reject does not; 0 if none was.
    pub(super) replaced_version: u32,
}

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) parent: Option<usize>,
    /// The frame that it is a member of. The root is in none.
    pub(super) frame: Option<usize>,
    pub(super) kind: NodeKind,
    /// The step in the plan; the plan of the root is in the run.
    pub(super) step: Option<Step>,
    /// The slugs from the root, `survey/hot-files`; empty for the root.
    pub(super) path: Arc<str>,
    pub(super) depth: u32,
    pub(super) optional: bool,
    /// Whether a later step reads its result, which makes its failure hard.
    pub(super) needed: bool,
    pub(super) state: NodeState,
    pub(super) children: Vec<usize>,
    /// The number of children without a result.
    pub(super) children_left: u32,
    /// The number of children that are `ok`, for groups that need not wait for all.
    pub(super) children_ok: u32,
    /// The number of nodes that must have a result first, counting the start of its container.
    pub(super) waits_left: u32,
    /// The nodes that wait for this one.
    pub(super) dependents: Vec<usize>,
    /// Whether no more children begin.
    pub(super) halted: bool,
    /// Whether another version of a plan superseded it or something around it, whatever its state was.
    pub(super) superseded: bool,
    /// The version of the plan around it that superseded it before it began, so that it never begins; 0 if none did.
    pub(super) dropped_by: u32,
    /// The plan, once it has one.
    pub(super) plan: Option<Box<Planned>>,
    /// For a roll-up, the results that it combines. For a task with too many results, the nodes that stand for them.
    pub(super) gathers: Box<[usize]>,
    pub(super) cancel: Option<Cancel>,
    pub(super) attempt: u32,
    pub(super) retry_at: Option<Timestamp>,
    /// Why it waits for its next attempt, or did until it was stopped.
    pub(super) parked_for: Box<str>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) finished_at: Option<Timestamp>,
    /// The number of the end of its last call, if it is one, among those of the run.
    pub(super) ended_as: u64,
    /// The last call, in one line.
    pub(super) call: Box<str>,
    pub(super) result: Option<NodeResult>,
    /// The conversation of the model that does it, until it has ended; and the counts that remain afterwards.
    pub(super) agent: Option<Box<Agent>>,
    pub(super) tally: Option<Tally>,
    /// What it and everything below have used.
    pub(super) spent: Spend,
    /// What it and everything below may use, if that is counted at this node.
    pub(super) purse: Option<Box<Purse>>,
    /// What its share of the limits around it amounted to when it began, if it has one.
    pub(super) shared: Option<Box<Allowance>>,
    /// What is set aside for it as a member of a group, until it has ended.
    pub(super) held: Option<Box<Held>>,
    /// What it sets aside for its members, if it is a group.
    pub(super) set_aside: Option<Box<SetAside>>,
    /// Whether no call at or below it may begin.
    pub(super) paused: bool,
    /// The names of what its call writes, once they were needed.
    pub(super) writes: OnceLock<Box<[String]>>,
}

impl Node {
    pub(super) fn is_terminal(&self) -> bool {
        self.state == NodeState::Terminal
    }

    /// Whether it ended `ok`.
    pub(super) fn is_ok(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result.status == Outcome::Ok)
    }

    /// What happens to the other children when one fails hard.
    pub(super) fn on_hard(&self) -> OnHard {
        match &self.step {
            Some(Step::Parallel(group)) => group.on_hard,
            Some(Step::ForEach(for_each)) => for_each.on_item,
            Some(Step::Task(_) | Step::Sequence(_)) | None => OnHard::Hold,
        }
    }

    /// How many children must be `ok` for the others to be unnecessary; `None` if all have to end.
    pub(super) fn required_ok_count(&self) -> Option<u32> {
        match &self.step {
            Some(Step::Parallel(group)) => match group.join {
                Join::AllSettled => None,
                Join::FirstOk => Some(1),
                Join::Quorum(k) => Some(k),
            },
            _ => None,
        }
    }
}

impl Run {
    /// Node `index` and the nodes around it, the nearest first and the root last.
    pub(super) fn self_and_ancestors(&self, index: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(index), |at| self.nodes[*at].parent)
    }
}

/// A node as callers see it.
#[derive(Debug, Clone, Copy)]
pub struct NodeView<'r> {
    /// Its id.
    pub id: NodeId,
    /// Its parent's id; `None` for the root.
    pub parent: Option<NodeId>,
    /// What kind of node it is.
    pub kind: NodeKind,
    /// The slugs from the root; empty for the root.
    pub path: &'r str,
    /// How many levels it is below the root.
    pub depth: u32,
    /// The step in the plan; `None` for the root.
    pub step: Option<&'r Step>,
    /// Whether the plan can succeed without it.
    pub optional: bool,
    /// The state of the node.
    pub state: NodeState,
    /// The number of the current or last attempt; 0 before the first.
    pub attempt: u32,
    /// When its first call began, or its children were created.
    pub started_at: Option<Timestamp>,
    /// When it got its result.
    pub finished_at: Option<Timestamp>,
    /// The last call, in one line; empty if there was none.
    pub call: &'r str,
    /// The result; `None` if it has not ended.
    pub result: Option<&'r NodeResult>,
    /// How often a model was asked for it.
    pub model_calls: u32,
    /// Calls of models that were repeated because their driver died before it saw their end: they may have been paid
    /// for twice, and both are counted in what it used (E9.9).
    pub repeated: u32,
    /// The version of its plan, as in [`ShownPlan`](super::ShownPlan): an earlier one again, if people rejected what was
    /// to replace it. 0 if it has none, or has not begun it.
    pub plan_version: u32,
    /// What it and everything below have used.
    pub spent: &'r Spend,
    /// What it and everything below have used and may use, if that is counted at this node.
    pub purse: Option<&'r Purse>,
    /// Whether no call at or below it begins until somebody continues it.
    pub paused: bool,
    /// Until when it waits for its next attempt, and why (E9.19).
    pub parked: Option<(Timestamp, &'r str)>,
    /// Whether another version of a plan superseded it or something around it: its result no longer counts (E9.1, E9.8).
    pub superseded: bool,
}

impl NodeView<'_> {
    /// The last slug of the path; `run` for the root.
    #[must_use]
    pub fn slug(&self) -> &str {
        if self.path.is_empty() {
            ROOT
        } else {
            self.path.rsplit('/').next().unwrap_or(self.path)
        }
    }
}
