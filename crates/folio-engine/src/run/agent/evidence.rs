//! Which of the references that a model gives are valid (E9.7).

use std::collections::{HashMap, HashSet};

use folio_memory::counted::counted;
use folio_memory::excerpt::short_line;
use serde_json::Value;

use crate::node::NodeId;
use crate::result::{Evidence, Outcome};
use crate::run::state::Run;
use crate::run::tree::NodeKind;

/// The most references of one result; more count as a defect of the answer.
const EVIDENCE_MAX: usize = 64;
/// The most invalid references that a remark names, and the most characters of each.
const REMOVED_NAMED: usize = 3;
const REMOVED_CHARS: usize = 80;

/// The valid references of an answer, and the number of invalid ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) evidence: Vec<Evidence>,
    pub(super) removed: usize,
    /// The first of the invalid ones, as they were given.
    pub(super) removed_first: Vec<String>,
}

impl Checked {
    fn remove(&mut self, reference: &Value) {
        self.removed += 1;
        if self.removed_first.len() < REMOVED_NAMED {
            let text = |key: &str| reference.get(key).and_then(Value::as_str);
            let name = reference.as_str().or_else(|| text("id"));
            let name = name.map_or_else(|| reference.to_string(), str::to_owned);
            self.removed_first.push(short_line(&name, REMOVED_CHARS));
        }
    }

    /// A remark on the invalid references; empty if there are none.
    pub(super) fn remark(&self) -> String {
        if self.removed == 0 {
            return String::new();
        }
        let were = if self.removed == 1 { "was" } else { "were" };
        let references = counted(self.removed as u64, "reference");
        let more = self.removed.saturating_sub(self.removed_first.len());
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let names = self.removed_first.join(", ");
        format!(" ({references} to unknown evidence {were} left out: {names}{more})")
    }
}

/// A reference as a model gives it.
#[derive(Debug, Clone, Copy)]
struct Reference<'g> {
    kind: &'g str,
    id: &'g str,
    span: Option<&'g str>,
    /// The node that it refers to by its id or its path.
    node: Option<usize>,
}

impl<'g> Reference<'g> {
    /// What a model gives as a reference. A text without a kind is the id or the path of a node, an address, an
    /// observation, or a file, with a line behind it if one is named.
    fn of(value: &'g Value, node_named: &mut impl FnMut(&str) -> Option<usize>) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let id = value.as_str().or_else(|| text("id"))?;
        let (kind, span) = (text("kind"), text("span"));
        let node = match kind {
            None | Some("node" | "tool_call") => node_named(id.trim()),
            Some(_) => None,
        };
        let reference = |kind, id, span| Self { kind, id, span, node };
        Some(match kind {
            Some(kind) => reference(kind, id, span),
            None if node.is_some() => reference("node", id, span),
            None if id.trim().starts_with("obs_") => reference("observation", id.trim(), span),
            None if id.contains("://") => reference("url", id.trim(), span),
            None => {
                let is_line = |(_, line): &(&str, &str)| !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit());
                match id.trim().rsplit_once(':').filter(is_line) {
                    Some((file, line)) => reference("file", file, span.or(Some(line))),
                    None => reference("file", id.trim(), span),
                }
            }
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
        let mut by_path = None;
        let mut node_named = |name: &str| match name.parse::<NodeId>() {
            Ok(id) => self.index(id).ok(),
            Err(_) => by_path.get_or_insert_with(|| self.indices_by_path()).get(name).copied(),
        };
        let references: Vec<_> = items.map(|item| (item, Reference::of(item, &mut node_named))).collect();
        let evidence_by_id = self.evidence_below(
            tops,
            references
                .iter()
                .filter_map(|(_, reference)| reference.as_ref())
                .filter(|reference| !self.is_in(&is_top, reference)),
        );
        for (given, reference) in references {
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
                None => checked.remove(given),
            }
        }
        checked
    }

    /// The nodes by their paths, of several with the same path the last one.
    fn indices_by_path(&self) -> HashMap<&str, usize> {
        let nodes = self.nodes.iter().enumerate().skip(1);
        nodes.map(|(index, node)| (&*node.path, index)).collect()
    }

    /// Whether `reference` is to a node in `tops`, or below one.
    fn is_in(&self, tops: &HashSet<usize>, reference: &Reference<'_>) -> bool {
        reference
            .node
            .is_some_and(|referred| self.self_and_ancestors(referred).any(|at| tops.contains(&at)))
    }

    fn node_as_evidence(&self, reference: &Reference<'_>) -> Option<Evidence> {
        let node = &self.nodes[reference.node?];
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
