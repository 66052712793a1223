//! Which of the references that a model gives are any (E9.7).

use serde_json::Value;

use crate::node::NodeId;
use crate::result::{Evidence, Outcome};
use crate::run::state::Run;
use crate::run::tree::NodeKind;

/// References that one result may have; more are counted as a defect of the answer.
const EVIDENCE_MAX: usize = 64;

/// The references of an answer that are any, and how many are not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) evidence: Vec<Evidence>,
    pub(super) removed: usize,
}

impl Run {
    /// Checks what a model gives as evidence for node `index`: a task or a call has to be in its subtree or among what it was
    /// given, a call has to have succeeded; a file, an address or an observation has to be one that something there named.
    pub(super) fn checked_evidence(&self, index: usize, given: Option<&Value>) -> Checked {
        let mut checked = Checked::default();
        let mut tops = vec![index];
        tops.extend(&self.nodes[index].gathers);
        tops.extend(self.given_to(index));
        for item in given.and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| item.get(key).and_then(Value::as_str);
            let (Some(kind), Some(id)) = (text("kind"), text("id")) else {
                checked.removed += 1;
                continue;
            };
            let span = text("span").map(str::to_owned);
            let found = match kind {
                "node" | "tool_call" => self.node_as_evidence(&tops, kind, id),
                _ => self.named_below(&tops, kind, id),
            };
            match found.filter(|_| checked.evidence.len() < EVIDENCE_MAX) {
                Some(evidence) => {
                    let span = span.or_else(|| evidence.span.clone());
                    let evidence = Evidence { span, ..evidence };
                    if !checked.evidence.contains(&evidence) {
                        checked.evidence.push(evidence);
                    }
                }
                None => checked.removed += 1,
            }
        }
        checked
    }

    fn node_as_evidence(&self, tops: &[usize], kind: &str, text: &str) -> Option<Evidence> {
        let id: NodeId = text.trim().parse().ok()?;
        let referred = self.index(id).ok()?;
        let node = &self.nodes[referred];
        let result = node.result.as_ref()?;
        let went_well = result.status == Outcome::Ok;
        let is_call = matches!(node.kind, NodeKind::Action | NodeKind::Call) && went_well;
        // A step that failed may be pointed at. What a model wanted called is no step, whatever it is called here.
        let is_step = node.kind != NodeKind::Action || went_well;
        if kind == "tool_call" && !is_call || !is_step {
            return None;
        }
        // What a result that was given rests on is shown with it.
        let is_there =
            self.and_around(referred).any(|at| tops.contains(&at)) || self.named_below(tops, kind, text).is_some();
        is_there.then(|| Evidence {
            kind: if is_call { "tool_call" } else { "node" }.to_owned(),
            id: id.to_string(),
            hash: (!result.output.is_null()).then(|| result.output.content_hash()),
            span: None,
        })
    }

    /// A file, an address or an observation that a result below one of `tops` has as its own evidence.
    fn named_below(&self, tops: &[usize], kind: &str, id: &str) -> Option<Evidence> {
        let mut stack = tops.to_vec();
        while let Some(at) = stack.pop() {
            let node = &self.nodes[at];
            let found = node.result.as_ref().and_then(|result| {
                let is_it = |evidence: &&Evidence| evidence.kind == kind && evidence.id == id;
                result.evidence.iter().find(is_it)
            });
            if let Some(found) = found {
                return Some(found.clone());
            }
            stack.extend(&node.children);
        }
        None
    }
}
