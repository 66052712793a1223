//! A node of a run's tree: its identity (E9.1) and the states it goes through (E9.19).

use std::fmt;
use std::str::FromStr;

use folio_memory::RunId;
use folio_memory::canonical::digest_of;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A node's id: sixteen hexadecimal digits, derived from its parent, the plan's version, its slug and its item.
///
/// So the same item is the same child after a crash or a re-plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u64);

impl NodeId {
    /// The root node of `run`.
    #[must_use]
    pub fn root(run: RunId) -> Self {
        Self::hash(&[&run.to_bytes()])
    }

    /// The child named `slug` in version `plan_version` of this node's plan; `item_key` tells the children of a
    /// `for_each` apart.
    #[must_use]
    pub fn child(self, plan_version: u32, slug: &str, item_key: &str) -> Self {
        Self::hash(&[
            &self.0.to_be_bytes(),
            &plan_version.to_be_bytes(),
            slug.as_bytes(),
            item_key.as_bytes(),
        ])
    }

    fn hash(parts: &[&[u8]]) -> Self {
        let mut first = [0; 8];
        first.copy_from_slice(&digest_of(parts.iter().copied())[..8]);
        Self(u64::from_be_bytes(first))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for NodeId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            u64::from_str_radix(text, 16).map(Self).map_err(|e| e.to_string())
        } else {
            Err(format!("{text:?} is not a node id: sixteen hexadecimal digits"))
        }
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// The state of a node (E9.19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The node exists and waits for what comes before it.
    Created,
    /// A model decides whether it is done directly or split up.
    Deciding,
    /// Its call is under way, or a model works on it.
    Executing,
    /// A failed call waits for its next attempt.
    Parked,
    /// Its plan waits for a person's approval.
    AwaitingApproval,
    /// Its children are running.
    RunningChildren,
    /// The results of its children are being combined.
    Aggregating,
    /// Its criteria are being checked.
    Verifying,
    /// A model is making another plan.
    Replanning,
    /// It waits for a person's answer.
    WaitingInput,
    /// It is being stopped.
    Cancelling,
    /// It has a result.
    Terminal,
}

/// What moves a node from one state to another. Each move is caused by one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// Its children were made.
    Expand,
    /// A model is to decide how it is done.
    Decide,
    /// A call begins.
    Start,
    /// An attempt failed and another will follow.
    Park,
    /// A result is to be made from what there is.
    Aggregate,
    /// There is a result to be checked.
    Verify,
    /// Another plan is wanted.
    Replan,
    /// A person is asked.
    Wait,
    /// Its plan has to wait for a person's approval.
    Gate,
    /// Somebody wants the node stopped.
    Cancel,
    /// The node got its result.
    Finish,
}

impl Move {
    /// Every move.
    pub const ALL: [Self; 11] = [
        Self::Expand,
        Self::Decide,
        Self::Start,
        Self::Park,
        Self::Aggregate,
        Self::Verify,
        Self::Replan,
        Self::Wait,
        Self::Gate,
        Self::Cancel,
        Self::Finish,
    ];
}

impl NodeState {
    /// Every state.
    pub const ALL: [Self; 12] = [
        Self::Created,
        Self::Deciding,
        Self::Executing,
        Self::Parked,
        Self::AwaitingApproval,
        Self::RunningChildren,
        Self::Aggregating,
        Self::Verifying,
        Self::Replanning,
        Self::WaitingInput,
        Self::Cancelling,
        Self::Terminal,
    ];

    /// Every allowed transition. A transition that is not in this table never happens.
    pub const TRANSITIONS: &'static [(Self, Move, Self)] = &[
        (Self::Created, Move::Expand, Self::RunningChildren),
        (Self::Created, Move::Start, Self::Executing),
        (Self::Created, Move::Decide, Self::Deciding),
        // A roll-up combines results that are there already.
        (Self::Created, Move::Aggregate, Self::Aggregating),
        // Its call waits for a person's approval.
        (Self::Created, Move::Wait, Self::WaitingInput),
        (Self::Created, Move::Cancel, Self::Cancelling),
        // It was skipped, or refused before anything began.
        (Self::Created, Move::Finish, Self::Terminal),
        // A model is asked again.
        (Self::Deciding, Move::Decide, Self::Deciding),
        (Self::Deciding, Move::Start, Self::Executing),
        (Self::Deciding, Move::Expand, Self::RunningChildren),
        (Self::Deciding, Move::Gate, Self::AwaitingApproval),
        (Self::Deciding, Move::Park, Self::Parked),
        (Self::Deciding, Move::Aggregate, Self::Aggregating),
        (Self::Deciding, Move::Verify, Self::Verifying),
        (Self::Deciding, Move::Cancel, Self::Cancelling),
        (Self::Deciding, Move::Finish, Self::Terminal),
        // The call is made again after a crash, or a model continues.
        (Self::Executing, Move::Start, Self::Executing),
        (Self::Executing, Move::Park, Self::Parked),
        (Self::Executing, Move::Wait, Self::WaitingInput),
        (Self::Executing, Move::Aggregate, Self::Aggregating),
        (Self::Executing, Move::Verify, Self::Verifying),
        (Self::Executing, Move::Cancel, Self::Cancelling),
        (Self::Executing, Move::Finish, Self::Terminal),
        (Self::Parked, Move::Decide, Self::Deciding),
        (Self::Parked, Move::Start, Self::Executing),
        (Self::Parked, Move::Aggregate, Self::Aggregating),
        (Self::Parked, Move::Verify, Self::Verifying),
        (Self::Parked, Move::Replan, Self::Replanning),
        // A person has to say whether a criterion is met, because nobody else can.
        (Self::Parked, Move::Wait, Self::WaitingInput),
        (Self::Parked, Move::Cancel, Self::Cancelling),
        (Self::Parked, Move::Finish, Self::Terminal),
        (Self::AwaitingApproval, Move::Expand, Self::RunningChildren),
        (Self::AwaitingApproval, Move::Start, Self::Executing),
        (Self::AwaitingApproval, Move::Replan, Self::Replanning),
        (Self::AwaitingApproval, Move::Verify, Self::Verifying),
        (Self::AwaitingApproval, Move::Cancel, Self::Cancelling),
        (Self::AwaitingApproval, Move::Finish, Self::Terminal),
        (Self::RunningChildren, Move::Aggregate, Self::Aggregating),
        (Self::RunningChildren, Move::Verify, Self::Verifying),
        (Self::RunningChildren, Move::Cancel, Self::Cancelling),
        (Self::RunningChildren, Move::Finish, Self::Terminal),
        (Self::Aggregating, Move::Aggregate, Self::Aggregating),
        // A limit was raised before the task had handed back what it had.
        (Self::Aggregating, Move::Start, Self::Executing),
        (Self::Aggregating, Move::Decide, Self::Deciding),
        (Self::Aggregating, Move::Park, Self::Parked),
        (Self::Aggregating, Move::Verify, Self::Verifying),
        (Self::Aggregating, Move::Cancel, Self::Cancelling),
        (Self::Aggregating, Move::Finish, Self::Terminal),
        (Self::Verifying, Move::Verify, Self::Verifying),
        (Self::Verifying, Move::Park, Self::Parked),
        // The task is done once more, told what is missing.
        (Self::Verifying, Move::Start, Self::Executing),
        (Self::Verifying, Move::Replan, Self::Replanning),
        // A person has to say whether a criterion is met.
        (Self::Verifying, Move::Wait, Self::WaitingInput),
        (Self::Verifying, Move::Cancel, Self::Cancelling),
        (Self::Verifying, Move::Finish, Self::Terminal),
        (Self::Replanning, Move::Replan, Self::Replanning),
        (Self::Replanning, Move::Park, Self::Parked),
        (Self::Replanning, Move::Expand, Self::RunningChildren),
        (Self::Replanning, Move::Gate, Self::AwaitingApproval),
        // No plan was approved, so the task is done directly.
        (Self::Replanning, Move::Start, Self::Executing),
        (Self::Replanning, Move::Verify, Self::Verifying),
        // A person has to say what to do instead of the same plan once more.
        (Self::Replanning, Move::Wait, Self::WaitingInput),
        (Self::Replanning, Move::Cancel, Self::Cancelling),
        (Self::Replanning, Move::Finish, Self::Terminal),
        (Self::WaitingInput, Move::Start, Self::Executing),
        // The call that was approved is a different one by now, so the person is asked again.
        (Self::WaitingInput, Move::Wait, Self::WaitingInput),
        (Self::WaitingInput, Move::Verify, Self::Verifying),
        (Self::WaitingInput, Move::Cancel, Self::Cancelling),
        (Self::WaitingInput, Move::Finish, Self::Terminal),
        // Asking twice has no further effect.
        (Self::Cancelling, Move::Cancel, Self::Cancelling),
        (Self::Cancelling, Move::Finish, Self::Terminal),
    ];

    /// Whether the steps of its plan are running, or are about to.
    #[must_use]
    pub fn has_steps_to_come(self) -> bool {
        matches!(self, Self::RunningChildren | Self::AwaitingApproval)
    }

    /// The state that `by` leads to from here; `None` if the move is not allowed.
    #[must_use]
    pub fn next(self, by: Move) -> Option<Self> {
        Self::TRANSITIONS
            .iter()
            .find(|(from, allowed_move, _)| *from == self && *allowed_move == by)
            .map(|(_, _, to)| *to)
    }

    /// The state's name as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Deciding => "deciding",
            Self::Executing => "executing",
            Self::Parked => "parked",
            Self::AwaitingApproval => "awaiting_approval",
            Self::RunningChildren => "running_children",
            Self::Aggregating => "aggregating",
            Self::Verifying => "verifying",
            Self::Replanning => "replanning",
            Self::WaitingInput => "waiting_input",
            Self::Cancelling => "cancelling",
            Self::Terminal => "terminal",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_node_id_depends_on_plan_version_slug_and_item_e9_1() {
        let root = NodeId::root(RunId::derived(&["r"]));
        assert_eq!(root.child(1, "look", "a"), root.child(1, "look", "a"));
        assert_ne!(root.child(1, "look", "a"), root.child(1, "look", "b"));
        assert_ne!(root.child(1, "look", "a"), root.child(2, "look", "a"));
        assert_ne!(root.child(1, "lo", "oka"), root.child(1, "loo", "ka"));
    }

    #[test]
    fn node_id_parses_back_from_its_text() {
        let id = NodeId::root(RunId::derived(&["r"]));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("xyz".parse::<NodeId>().is_err());
        assert!("+123456789abcdef".parse::<NodeId>().is_err());
    }

    #[test]
    fn terminal_node_state_has_no_transitions_e9_19() {
        for by in Move::ALL {
            assert_eq!(NodeState::Terminal.next(by), None);
        }
    }

    #[test]
    fn transition_table_is_deterministic_and_every_state_can_finish_e9_19() {
        for (index, (from, by, _)) in NodeState::TRANSITIONS.iter().enumerate() {
            let again = NodeState::TRANSITIONS
                .iter()
                .skip(index + 1)
                .any(|(f, b, _)| f == from && b == by);
            assert!(!again, "{from:?} {by:?} stands twice");
        }
        for state in NodeState::ALL {
            assert!(state == NodeState::Terminal || state.next(Move::Finish) == Some(NodeState::Terminal));
        }
    }
}
