//! The calls of each part of a run, as its journal tells them: of models, and of tools.

use std::collections::HashMap;

use folio::Timestamp;
use folio::engine::run::NodeKind;
use folio::engine::spend::Spend;
use folio::engine::{Event, NodeId, Run};
use folio_server::wire::SpendShape;
use serde::Serialize;

/// What an interrupted call came to.
const UNKNOWN: &str = "unknown";
/// What a compactor is asked to do.
const COMPACT: &str = "compact";

/// One attempt of a call of a model or of a tool.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Call {
    /// `model` or `tool`.
    pub(crate) kind: &'static str,
    /// What a model was asked to do (`decide`, `work`, …); the call of a tool in one line.
    pub(crate) what: String,
    /// The address of the model that answered.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) model: String,
    /// The number of the request, or of the attempt, from 1.
    pub(crate) number: u32,
    pub(crate) started_at: Timestamp,
    /// How long it took; absent while it is under way, and if its driver was gone before it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_us: Option<u64>,
    /// `ok`, `failed` or another outcome; `unknown` if its driver was gone before it ended; absent while it is under
    /// way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
    /// Why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) failure: String,
    /// What a model used.
    #[serde(serialize_with = "as_shape", skip_serializing_if = "Spend::is_nothing")]
    pub(crate) spent: Spend,
}

fn as_shape<S: serde::Serializer>(spent: &Spend, serializer: S) -> Result<S::Ok, S::Error> {
    SpendShape::of(spent).serialize(serializer)
}

/// How a call ended.
#[derive(Default)]
struct End<'e> {
    status: &'static str,
    failure: &'e str,
    model: &'e str,
    spent: Spend,
    /// As the one who waited for it measured it, if that is known.
    duration_us: u64,
}

/// The calls of a run by the node that they were made for, each in its order.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    by_node: HashMap<NodeId, Vec<Call>>,
}

impl Calls {
    /// Takes in the next event of the journal.
    pub(crate) fn take(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::Started {
                node, attempt, call, ..
            } => self.begin(*node, at, ("tool", call, *attempt)),
            Event::Asked {
                node, call, purpose, ..
            } => self.begin(*node, at, ("model", purpose.as_str(), *call)),
            Event::Compacting { node, .. } => self.begin(*node, at, ("model", COMPACT, 1)),
            Event::AttemptFailed { node, failure, .. } => self.end(*node, at, "tool", &End::failed(&failure.message)),
            Event::Finished { node, result } => {
                let end = End {
                    status: result.status.as_str(),
                    ..End::default()
                };
                self.end(*node, at, "tool", &end);
            }
            Event::Replied {
                node,
                spent,
                model,
                duration_us,
                ..
            } => {
                let end = End {
                    status: "ok",
                    model,
                    spent: *spent,
                    duration_us: *duration_us,
                    ..End::default()
                };
                self.end(*node, at, "model", &end);
            }
            Event::AskFailed {
                node, failure, spent, ..
            } => {
                let end = End {
                    spent: *spent,
                    ..End::failed(&failure.message)
                };
                self.end(*node, at, "model", &end);
            }
            Event::Compacted { node, spent, .. } => {
                let end = End {
                    status: "ok",
                    spent: *spent,
                    ..End::default()
                };
                self.end(*node, at, "model", &end);
            }
            Event::Resumed { in_flight, .. } => in_flight.iter().for_each(|node| self.interrupt(*node)),
            _ => {}
        }
    }

    fn begin(&mut self, node: NodeId, at: Timestamp, (kind, what, number): (&'static str, &str, u32)) {
        self.interrupt(node);
        self.by_node.entry(node).or_default().push(Call {
            kind,
            what: what.to_owned(),
            model: String::new(),
            number,
            started_at: at,
            duration_us: None,
            status: None,
            failure: String::new(),
            spent: Spend::default(),
        });
    }

    /// The call of `node` that is under way.
    fn open(&mut self, node: NodeId) -> Option<&mut Call> {
        let last = self.by_node.get_mut(&node)?.last_mut()?;
        Some(last).filter(|call| call.status.is_none())
    }

    fn end(&mut self, node: NodeId, at: Timestamp, kind: &str, end: &End<'_>) {
        if let Some(call) = self.open(node).filter(|call| call.kind == kind) {
            let waited = u64::try_from(at.since(call.started_at).as_micros()).unwrap_or(u64::MAX);
            call.duration_us = Some(if end.duration_us > 0 { end.duration_us } else { waited });
            call.status = Some(end.status);
            call.failure = end.failure.to_owned();
            call.model = end.model.to_owned();
            call.spent = end.spent;
        }
    }

    /// Whether the call of `node` that is under way had an effect is not known.
    fn interrupt(&mut self, node: NodeId) {
        if let Some(call) = self.open(node) {
            call.status = Some(UNKNOWN);
        }
    }

    /// The calls of a part of `run`: its own, and those of tools that its model wanted, in the order in which they
    /// began.
    pub(crate) fn of_part(&self, run: &Run, node: NodeId) -> Vec<Call> {
        let wanted = run.children(node).into_iter();
        let wanted = wanted
            .filter(|child| child.kind == NodeKind::Action)
            .map(|child| child.id);
        let nodes = std::iter::once(node).chain(wanted);
        let mut calls: Vec<Call> = nodes
            .filter_map(|node| self.by_node.get(&node))
            .flatten()
            .cloned()
            .collect();
        calls.sort_by_key(|call| call.started_at);
        calls
    }
}

impl<'e> End<'e> {
    fn failed(failure: &'e str) -> Self {
        Self {
            status: "failed",
            failure,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio::engine::talk::Purpose;
    use folio::memory::RunId;
    use serde_json::json;

    use super::*;

    fn told(calls: &Calls, node: NodeId) -> Vec<(&str, Option<&'static str>, Option<u64>)> {
        let of_node = calls.by_node.get(&node).into_iter().flatten();
        of_node
            .map(|call| (call.what.as_str(), call.status, call.duration_us))
            .collect()
    }

    #[test]
    fn call_that_a_dead_driver_had_begun_ended_nobody_knows_how() {
        let node = NodeId::root(RunId::derived(&["r"]));
        let at = |ms: u64| Timestamp::from_millis(0).plus(Duration::from_millis(ms));
        let asked = |purpose: Purpose| Event::Asked {
            node,
            call: 1,
            purpose,
            reserved: Spend::default(),
            is_opaque: false,
        };
        let replied = |duration_us: u64| {
            let event = json!({"event": "replied", "node": node, "call": 1, "reply": {"text": "x", "stop": "done"}, "spent": {"tokens_in": 3}, "duration_us": duration_us});
            serde_json::from_value::<Event>(event).unwrap()
        };
        let mut calls = Calls::default();
        calls.take(at(10), &asked(Purpose::Decide));
        let resumed = Event::Resumed {
            in_flight: vec![node],
            uncounted_us: 0,
        };
        calls.take(at(20), &resumed);
        calls.take(at(30), &asked(Purpose::Decide));
        calls.take(at(35), &replied(0));
        calls.take(at(40), &asked(Purpose::Work));
        calls.take(at(90), &replied(7_000));
        calls.take(at(95), &asked(Purpose::Judge));
        assert_eq!(
            told(&calls, node),
            [
                ("decide", Some("unknown"), None),
                ("decide", Some("ok"), Some(5_000)),
                ("work", Some("ok"), Some(7_000)),
                ("judge", None, None)
            ]
        );
    }
}
