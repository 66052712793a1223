//! What a run can need done, and a call in one line.

use std::collections::{BTreeMap, BTreeSet};

use folio_memory::excerpt::cut;
use serde_json::Value;

use super::agent::{AskAction, CompactAction};
use super::approval::GrantedApproval;
use super::criteria::CheckAction;
use crate::event::Event;
use crate::node::NodeId;
use crate::spend::Allowance;

/// Something that a run needs done now.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Record this event: it follows from what is known, and nothing has to be done for it.
    Record(Event),
    /// Record that the call begins; once that is committed, make the call.
    Call(Box<CallAction>),
    /// Record that a model is asked; once that is committed, ask it, and record what
    /// [`Run::model_answered`](super::Run::model_answered) returns.
    Ask(Box<AskAction>),
    /// Look up what memory holds for this task, and record it as [`Event::Briefed`].
    Brief(NodeId),
    /// Offload the beginning of the conversation, and record the text that replaces it as [`Event::Compacted`]. If a
    /// compactor is asked, record that first ([`CompactAction::compacting`]), and begin once it is committed.
    Compact(Box<CompactAction>),
    /// Make these checks, then record what [`Run::check_findings_event`](super::Run::check_findings_event) returns. If
    /// commands are among them, record that first ([`CheckAction::begins`]), and begin once it is committed.
    Verify(Box<CheckAction>),
    /// The output that is kept under this hash has to be read first. [`Run::lacking`](super::Run::lacking) names all
    /// such outputs: do nothing else of this answer before all of them were supplied and the run was asked again, so
    /// that the order of events does not depend on what was cached.
    Load(String),
    /// Stop the call of this node, and record how it ended. Due until then.
    Stop(NodeId),
}

impl Action {
    /// Whether it is a call, which counts against the limit of calls under way.
    #[must_use]
    pub fn uses_call_slot(&self) -> bool {
        match self {
            Self::Call(_) | Self::Ask(_) => true,
            Self::Compact(compact) => compact.reserved.is_some(),
            Self::Verify(check) => check.commands() > 0,
            Self::Record(_) | Self::Brief(_) | Self::Load(_) | Self::Stop(_) => false,
        }
    }
}

/// A call that has to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct CallAction {
    /// The node that the call is for.
    pub node: NodeId,
    /// The number of the attempt, from 1. A repeated call keeps its number if the driver died while it was under way.
    pub attempt: u32,
    /// Whether it had begun before, in a process that died.
    pub again: bool,
    /// The name of the tool.
    pub tool: String,
    /// The arguments, filled in.
    pub args: Value,
    /// How long it may take.
    pub timeout: Option<std::time::Duration>,
    /// What a person approved for it: a call that was approved is made even if the run was not granted what it needs.
    pub granted: GrantedApproval,
    /// The names of the resources that it writes (E9.15).
    pub writes: Vec<String>,
    /// What the task's share of the limits around it amounts to, if it has a share and begins with this call (E9.1).
    pub limits: Option<Box<Allowance>>,
}

impl CallAction {
    /// The event that records the start of the call.
    #[must_use]
    pub fn started(&self) -> Event {
        Event::Started {
            node: self.node,
            attempt: self.attempt,
            call: self.in_words(),
            writes: self.writes.clone(),
            limits: self.limits.clone(),
        }
    }

    /// The call in one line that a person can read, at most 300 characters.
    #[must_use]
    pub fn in_words(&self) -> String {
        call_in_words(&self.tool, &self.args)
    }
}

/// A call in one line that a person can read, at most 300 characters.
pub(crate) fn call_in_words(tool: &str, args: &Value) -> String {
    let args = match args {
        Value::Object(map) => map
            .iter()
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .map(|(name, value)| {
                let text = value
                    .as_str()
                    .map_or_else(|| shortened_json(value), |t| shortened(t, 80));
                format!(" {name}={text}")
            })
            .collect(),
        Value::Null => String::new(),
        other => format!(" {}", shortened_json(other)),
    };
    shortened(&format!("{tool}{args}"), 300)
}

/// A JSON text of at most about 80 characters, made without serializing a large value first.
fn shortened_json(value: &Value) -> String {
    match value {
        Value::Array(items) if items.len() > 8 => format!("[{} items]", items.len()),
        Value::Array(items) if items.iter().any(|i| i.is_array() || i.is_object()) => {
            format!("[{} items]", items.len())
        }
        Value::Object(map) => format!(
            "{{{}}}",
            Vec::from_iter(
                map.keys()
                    .map(String::as_str)
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .take(8)
            )
            .join(", ")
        ),
        other => shortened(&other.to_string(), 80),
    }
}

fn shortened(text: &str, max: usize) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    cut(&printable.take(max + 1).collect::<String>(), max)
}
