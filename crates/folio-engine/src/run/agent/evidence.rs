//! Which of the references that a model gives are valid (E9.7).

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::node::NodeId;
use crate::result::{Evidence, Outcome};
use crate::run::state::Run;
use crate::run::tree::NodeKind;

/// The most references of one result; more count as a defect of the answer.
const EVIDENCE_MAX: usize = 64;

/// The valid references of an answer, and the number of invalid ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) evidence: Vec<Evidence>,
    pub(super) removed: usize,
}

/// A reference as a model gives it.
#[derive(Debug, Clone, Copy)]
struct Reference<'g> {
    kind: &'g str,
    id: &'g str,
    span: Option<&'g str>,
}

impl<'g> Reference<'g> {
    fn of(value: &'g Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        Some(Self {
            kind: text("kind")?,
            id: text("id")?,
            span: text("span"),
        })
    }

    fn is_of_node(&self) -> bool {
        matches!(self.kind, "node" | "tool_call")
    }
}

impl Run {
    /// Checks what a model gives as evidence for node `index`: a task or a call has to be in its subtree or among what
    /// it was given, and a call has to have succeeded; a file, an address or an observation has to be one that
    /// something there named.
    pub(super) fn checked_evidence(&self, index: usize, claimed: Option<&Value>) -> Checked {
        let mut checked = Checked::default();
        let mut tops = vec![index];
        tops.extend(&self.nodes[index].gathers);
        tops.extend(self.readable_steps(index));
        let is_top: HashSet<usize> = tops.iter().copied().collect();
        let items = claimed.and_then(Value::as_array).into_iter().flatten();
        let references: Vec<Option<Reference<'_>>> = items.map(Reference::of).collect();
        let evidence_by_id = self.evidence_below(
            tops,
            references
                .iter()
                .flatten()
                .filter(|reference| !self.is_in(&is_top, reference)),
        );
        for reference in references {
            let found = reference.and_then(|reference| {
                let is_in = self.is_in(&is_top, &reference);
                let named_evidence = evidence_by_id.get(&(reference.kind, reference.id));
                // The evidence of a given result is shown with it.
                let found = match reference.is_of_node() {
                    true => self
                        .node_as_evidence(&reference)
                        .filter(|_| is_in || named_evidence.is_some()),
                    false => named_evidence.copied().cloned(),
                }?;
                let span = reference.span.map(str::to_owned).or_else(|| found.span.clone());
                Some(Evidence { span, ..found })
            });
            match found.filter(|_| checked.evidence.len() < EVIDENCE_MAX) {
                Some(evidence) if checked.evidence.contains(&evidence) => {}
                Some(evidence) => checked.evidence.push(evidence),
                None => checked.removed += 1,
            }
        }
        checked
    }

    fn referenced_node(&self, reference: &Reference<'_>) -> Option<usize> {
        let id: NodeId = reference.id.trim().parse().ok()?;
        self.index(id).ok().filter(|_| reference.is_of_node())
    }

    /// Whether `reference` is to a node in `tops`, or below one.
    fn is_in(&self, tops: &HashSet<usize>, reference: &Reference<'_>) -> bool {
        self.referenced_node(reference)
            .is_some_and(|referred| self.self_and_ancestors(referred).any(|at| tops.contains(&at)))
    }

    fn node_as_evidence(&self, reference: &Reference<'_>) -> Option<Evidence> {
        let node = &self.nodes[self.referenced_node(reference)?];
        let result = node.result.as_ref()?;
        let went_well = result.status == Outcome::Ok;
        let is_call = matches!(node.kind, NodeKind::Action | NodeKind::Call) && went_well;
        // A step that failed may be referred to. A failed call that a model wanted is not a step, whatever the
        // reference calls it.
        let is_step = node.kind != NodeKind::Action || went_well;
        if reference.kind == "tool_call" && !is_call || !is_step {
            return None;
        }
        Some(Evidence {
            kind: if is_call { "tool_call" } else { "node" }.to_owned(),
            id: node.id.to_string(),
            hash: (!result.output.is_null()).then(|| result.output.content_hash()),
            span: None,
        })
    }

    /// Those of `references` that occur as evidence of a result at or below one of `tops`, by kind and id. Each result
    /// is examined once, however many are wanted.
    fn evidence_below<'r, 'w>(
        &'r self,
        tops: Vec<usize>,
        references: impl Iterator<Item = &'w Reference<'r>>,
    ) -> HashMap<(&'r str, &'r str), &'r Evidence>
    where
        'r: 'w,
    {
        let mut pending: HashSet<_> = references.map(|reference| (reference.kind, reference.id)).collect();
        let (mut evidence_by_id, mut seen, mut stack) = (HashMap::new(), HashSet::new(), tops);
        while !pending.is_empty()
            && let Some(at) = stack.pop()
        {
            if !seen.insert(at) {
                continue;
            }
            let node = &self.nodes[at];
            for evidence in node.result.iter().flat_map(|result| &result.evidence) {
                let name = (evidence.kind.as_str(), evidence.id.as_str());
                if pending.remove(&name) {
                    evidence_by_id.insert(name, evidence);
                }
            }
            stack.extend(&node.children);
        }
        evidence_by_id
    }
}
