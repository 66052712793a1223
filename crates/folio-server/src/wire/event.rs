//! The events of a run in the form in which its live stream sends them.

use folio::Timestamp;
use folio::engine::run::{NodeKind, NodeView};
use folio::engine::{Event, NodeId, Run, projection};
use schemars::JsonSchema;
use serde::Serialize;

use super::run::{LimitShape, SpendShape, severity_name};

/// The data of the message `end`, the last of a stream.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StreamEnd")]
pub(crate) struct EndShape {
    /// The status with which the run ended.
    pub(crate) status: Option<&'static str>,
}

/// The data of the message `gap`: the last event id that the client sent is not known here.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StreamGap")]
pub(crate) struct GapShape {
    /// What follows in the stream, in words.
    pub(crate) reason: String,
    /// In the stream of a space: the commit after which the stream continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<u64>,
}

/// An event of a run. It holds only what is new: a client that applies every event to the tree has the current tree.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[schemars(rename = "RunEvent")]
pub(crate) enum EventShape {
    RunStarted {
        at: Timestamp,
        goal: String,
        nodes: Vec<NewNode>,
    },
    Expanded {
        at: Timestamp,
        node_id: String,
        /// The nodes that this event created, parents before children.
        nodes: Vec<NewNode>,
    },
    Started {
        at: Timestamp,
        node_id: String,
        attempt: u32,
        call: String,
        /// The names of the resources that the call writes: no other call that writes one of them begins until this one
        /// has ended.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        writes: Vec<String>,
        /// What the node and all nodes below it have used so far.
        spent: SpendShape,
        /// The same of each node above it, its parent first.
        spent_above: Vec<SpendShape>,
    },
    AttemptFailed {
        at: Timestamp,
        node_id: String,
        attempt: u32,
        code: String,
        message: String,
        retry_at: Timestamp,
    },
    Finished {
        at: Timestamp,
        node_id: String,
        /// The outcome.
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        severity: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<&'static str>,
        notes: String,
        /// What the node and all nodes below it used.
        spent: SpendShape,
        /// The same of each node above it, its parent first.
        spent_above: Vec<SpendShape>,
    },
    CancelRequested {
        at: Timestamp,
        /// The node to be stopped; null for the whole run.
        node_id: Option<String>,
        by: String,
    },
    Resumed {
        at: Timestamp,
        in_flight: Vec<String>,
        /// How long nobody drove the run before, or the machine of its driver slept: that time does not count against
        /// the 30 minutes of a run without a deadline.
        uncounted_us: u64,
    },
    /// What a model or a person did for a task: the name of the event, and a line of text about it.
    Told {
        at: Timestamp,
        node_id: Option<String>,
        what: &'static str,
        text: String,
        /// The state of the node after the event.
        state: Option<&'static str>,
        /// What the node and all nodes below it have used so far.
        spent: SpendShape,
        /// The same of each node above it, its parent first.
        spent_above: Vec<SpendShape>,
        /// The nodes that this event created, parents before children.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        nodes: Vec<NewNode>,
        /// The node's steps that another version of its plan has superseded by then. Everything below a listed step is
        /// superseded with it; the members of a group are listed one by one.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        superseded: Vec<String>,
    },
}

/// A node that has just been created: its properties that never change, and its own limits.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NewNode {
    node_id: String,
    parent_id: Option<String>,
    path: String,
    title: String,
    kind: &'static str,
    optional: bool,
    page_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitShape>,
}

impl NewNode {
    fn of(run: &Run, view: &NodeView<'_>) -> Self {
        Self {
            node_id: view.id.to_string(),
            parent_id: view.parent.map(|parent| parent.to_string()),
            path: view.path.to_owned(),
            title: run.label(view.id),
            kind: view.kind.as_str(),
            optional: view.optional,
            page_id: projection::branch_page(run, view.id).to_string(),
            limits: view.purse.map(LimitShape::all_of).unwrap_or_default(),
        }
    }
}

impl EventShape {
    /// Returns `event` in its wire form. It has been applied to `run` already, and later events may have been, too.
    pub(crate) fn of(run: &Run, at: Timestamp, event: &Event) -> Self {
        match event {
            Event::RunStarted { goal, .. } => {
                let root = run.node(NodeId::root(run.id()));
                Self::RunStarted {
                    at,
                    goal: goal.clone(),
                    nodes: root.iter().map(|root| NewNode::of(run, root)).collect(),
                }
            }
            Event::Expanded { node, .. } => {
                let mut nodes = Vec::new();
                // The members of a group were created, and sent, with the plan that contains the group.
                if run.node(*node).is_some_and(|view| !makes_no_nodes(view.kind)) {
                    add_expanded_nodes(run, *node, &mut nodes);
                }
                Self::Expanded {
                    at,
                    node_id: node.to_string(),
                    nodes,
                }
            }
            Event::Started {
                node,
                attempt,
                call,
                writes,
                ..
            } => Self::Started {
                at,
                node_id: node.to_string(),
                attempt: *attempt,
                call: call.clone(),
                writes: writes.clone(),
                spent: spent_at(run, *node),
                spent_above: spent_above(run, *node),
            },
            Event::AttemptFailed {
                node,
                attempt,
                failure,
                retry_at,
            } => Self::AttemptFailed {
                at,
                node_id: node.to_string(),
                attempt: *attempt,
                code: failure.code.clone(),
                message: failure.message.clone(),
                retry_at: *retry_at,
            },
            Event::Finished { node, result } => Self::Finished {
                at,
                node_id: node.to_string(),
                status: result.status.as_str(),
                severity: severity_name(result),
                stop_reason: result.stop_reason.map(|reason| reason.as_str()),
                notes: result.notes.clone(),
                spent: spent_at(run, *node),
                spent_above: spent_above(run, *node),
            },
            Event::CancelRequested { node, by } => Self::CancelRequested {
                at,
                node_id: node.map(|node| node.to_string()),
                by: by.clone(),
            },
            Event::Resumed {
                in_flight,
                uncounted_us,
            } => Self::Resumed {
                at,
                in_flight: in_flight.iter().map(ToString::to_string).collect(),
                uncounted_us: *uncounted_us,
            },
            other => Self::told(run, at, other),
        }
    }

    /// An event that is told in words.
    fn told(run: &Run, at: Timestamp, event: &Event) -> Self {
        let mut nodes = Vec::new();
        if let Event::Planned { node, .. }
        | Event::PlanEdited { node, .. }
        | Event::RollUps { node, .. }
        | Event::Wants { node, .. } = event
        {
            // Some of them may have been sent before; sending a node again does no harm.
            add_expanded_nodes(run, *node, &mut nodes);
        }
        let mut superseded = Vec::new();
        if let Event::Planned { node, .. } | Event::PlanEdited { node, .. } | Event::PlanRejected { node, .. } = event {
            add_superseded(run, *node, &mut superseded);
        }
        let node = event.node();
        Self::Told {
            at,
            node_id: node.map(|node| node.to_string()),
            what: event.name(),
            text: event.in_words(),
            state: node.and_then(|node| run.node(node)).map(|view| view.state.as_str()),
            spent: node.map(|node| spent_at(run, node)).unwrap_or_default(),
            spent_above: node.map(|node| spent_above(run, node)).unwrap_or_default(),
            nodes,
            superseded,
        }
    }
}

/// Adds the superseded steps of `node`. Of groups among them it adds the superseded members as well, because some
/// members may stay. Everything below any other step is superseded with it and is not listed.
fn add_superseded(run: &Run, node: NodeId, superseded: &mut Vec<String>) {
    for child in run.children(node).iter().filter(|child| child.superseded) {
        superseded.push(child.id.to_string());
        if makes_no_nodes(child.kind) {
            add_superseded(run, child.id, superseded);
        }
    }
}

/// Returns what `node` and all nodes below it have used.
fn spent_at(run: &Run, node: NodeId) -> SpendShape {
    run.node(node)
        .map(|view| SpendShape::of(view.spent))
        .unwrap_or_default()
}

/// Returns the same of every node above `node`, its parent first. An event may be sent long after it was recorded, with
/// what is used by then: whoever adds up what is below would count some of it twice.
fn spent_above(run: &Run, node: NodeId) -> Vec<SpendShape> {
    let parent = |node: NodeId| run.node(node).and_then(|view| view.parent);
    std::iter::successors(parent(node), |above| parent(*above))
        .map(|above| spent_at(run, above))
        .collect()
}

/// Whether the members of a node of this kind were created together with it.
fn makes_no_nodes(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Parallel | NodeKind::Sequence)
}

/// Adds the nodes that the expansion of `node` created: its children in plan order, and the members of the groups among
/// them.
fn add_expanded_nodes(run: &Run, node: NodeId, nodes: &mut Vec<NewNode>) {
    let children = run.node(node).map(|view| run.children_as_planned(&view));
    for child in children.unwrap_or_default() {
        nodes.push(NewNode::of(run, &child));
        if makes_no_nodes(child.kind) {
            add_expanded_nodes(run, child.id, nodes);
        }
    }
}
