//! The closed list of what can happen in a run. A run's state is the fold of these and of nothing else (E9.9).

use std::collections::BTreeMap;

use folio_memory::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::node::NodeId;
use crate::result::{Failure, NodeResult};

/// The version of the event format that this build writes. A journal with a higher one is refused (E9.9).
pub const FORMAT: u32 = 1;

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
            Self::CancelRequested { .. } => "cancel_requested",
            Self::Resumed { .. } => "resumed",
        }
    }

    /// The node that it is about.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::Expanded { node, .. }
            | Self::Started { node, .. }
            | Self::AttemptFailed { node, .. }
            | Self::Finished { node, .. } => Some(*node),
            Self::CancelRequested { node, .. } => *node,
            Self::RunStarted { .. } | Self::Resumed { .. } => None,
        }
    }
}
