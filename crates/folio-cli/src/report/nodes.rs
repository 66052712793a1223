//! The nodes of a run as the tree shows them.

use std::collections::{HashMap, HashSet};

use folio::engine::plan::Step;
use folio::engine::run::{NodeView, PendingApproval};
use folio::engine::{NodeId, NodeState, Outcome, Run, StopReason};

use super::instant;
use super::run::{PAUSED, note_of};
use super::tree::{self, Mark};

/// What people are waited for.
const APPROVAL: &str = "approval";
const ANSWER: &str = "an answer";

/// The titles of nodes, cached: filling in a template is costly, and a title does not change once its node has begun.
#[derive(Debug, Default)]
pub(crate) struct Titles {
    known: HashMap<NodeId, String>,
}

impl Titles {
    /// The nodes of `run` as the tree shows them.
    pub(crate) fn nodes(&mut self, run: &Run) -> Vec<tree::Node> {
        self.nodes_of(run, &run.tree_as_planned())
    }

    pub(super) fn nodes_of(&mut self, run: &Run, views: &[NodeView<'_>]) -> Vec<tree::Node> {
        let waiting = waiting_in(run);
        let held = held_by(run, &waiting);
        let in_flight: HashSet<_> = run.in_flight().into_iter().collect();
        let mut paused = HashSet::new();
        let mut nodes = Vec::with_capacity(views.len());
        for view in views {
            if view.paused || view.parent.is_some_and(|parent| paused.contains(&parent)) {
                paused.insert(view.id);
            }
            let stands_still = paused.contains(&view.id) && !in_flight.contains(&view.id);
            let mut node = self.node(run, view, &waiting, stands_still);
            if let Some(subject) = held.get(&view.id).filter(|_| node.mark == Mark::Running) {
                (node.mark, node.note) = (Mark::Inside, format!("waits for {subject}"));
            }
            nodes.push(node);
        }
        nodes
    }

    /// `view` as the tree shows it. `stands_still` is whether it is in a paused part and has no call under way.
    fn node(
        &mut self,
        run: &Run,
        view: &NodeView<'_>,
        waiting: &HashMap<NodeId, (&'static str, String)>,
        stands_still: bool,
    ) -> tree::Node {
        let waiting_text = |subject: &str| match waiting.get(&view.id) {
            Some((subject, question)) => {
                let until = run.may_wait_until(view.id);
                let until = until.map_or_else(String::new, |at| format!(" until {}", instant(at)));
                format!("waits for {subject}{until} (`folio questions`): {question}")
            }
            None => format!("waits for {subject}"),
        };
        let mark = match mark_of(view) {
            Mark::Running if stands_still => Mark::Paused,
            mark => mark,
        };
        let note = match view.result {
            Some(result) if view.superseded && result.stop_reason != Some(StopReason::Superseded) => {
                let note = note_of(result);
                let colon = if note.is_empty() { "" } else { ": " };
                format!("replaced by another plan, {}{colon}{note}", result.status)
            }
            Some(result) => note_of(result),
            None if mark == Mark::Paused => PAUSED.to_owned(),
            None => match view.state {
                NodeState::Executing => view.call.to_owned(),
                NodeState::WaitingInput => waiting_text(ANSWER),
                NodeState::AwaitingApproval => waiting_text(APPROVAL),
                NodeState::Parked => view.parked.map_or_else(String::new, |(until, cause)| {
                    format!("retry at {}: {cause}", instant(until))
                }),
                _ => String::new(),
            },
        };
        tree::Node {
            depth: view.depth as usize,
            title: self.title(run, view),
            mark,
            // The run begins before its first part, and its root stands for the run.
            started_at: match view.parent {
                None => view.started_at.and(run.started_at()),
                Some(_) => view.started_at,
            },
            finished_at: view.finished_at,
            cost: String::new(),
            note: super::first_line(&note, 200),
        }
    }

    fn title(&mut self, run: &Run, view: &NodeView<'_>) -> String {
        if view.state == NodeState::Created && !self.known.contains_key(&view.id) {
            let step_title = view.step.map_or("", Step::title);
            if !step_title.contains('{') {
                return run.label(view.id);
            }
            if !run.is_title_final(view.id) {
                return view.slug().to_owned();
            }
        }
        self.known.entry(view.id).or_insert_with(|| run.label(view.id)).clone()
    }
}

/// The tasks in `run` that have no call of their own under way and wait for a person below them, and what for.
pub(super) fn held_tasks(run: &Run) -> HashMap<NodeId, &'static str> {
    held_by(run, &waiting_in(run))
}

fn held_by(run: &Run, waiting: &HashMap<NodeId, (&'static str, String)>) -> HashMap<NodeId, &'static str> {
    let in_flight: HashSet<_> = run.in_flight().into_iter().collect();
    let mut held = HashMap::new();
    for (node, (subject, _)) in waiting {
        let mut above = run.node(*node).and_then(|view| view.parent);
        while let Some(view) = above.and_then(|id| run.node(id)) {
            if view.state == NodeState::Executing && !in_flight.contains(&view.id) {
                // An approval is named rather than an answer: what is shown must not depend on the order of a map.
                if *subject == APPROVAL {
                    held.insert(view.id, *subject);
                } else {
                    held.entry(view.id).or_insert(*subject);
                }
            }
            above = view.parent;
        }
    }
    held
}

/// What people are asked in `run`, by the node that waits: for an answer or for approval, and to what.
fn waiting_in(run: &Run) -> HashMap<NodeId, (&'static str, String)> {
    let questions = run
        .questions()
        .into_iter()
        .map(|(node, question)| (node, (ANSWER, question.text.clone())));
    let approvals = run.pending_approvals().into_iter().map(|(node, waiting)| {
        let text = match waiting {
            PendingApproval::Check(question) => question.text.clone(),
            PendingApproval::Call(approval) => approval.in_words(),
            PendingApproval::Plan(version) => format!("its plan, version {version}"),
        };
        (node, (APPROVAL, text))
    });
    questions.chain(approvals).collect()
}

pub(super) fn mark_of(view: &NodeView<'_>) -> Mark {
    match view.result.map(|result| result.status) {
        Some(_) if view.superseded => Mark::Replaced,
        Some(Outcome::Ok) => Mark::Ok,
        Some(Outcome::Partial) => Mark::Partial,
        Some(Outcome::Skipped) => Mark::Skipped,
        Some(Outcome::Cancelled) => Mark::Cancelled,
        Some(Outcome::Failed) => Mark::Failed,
        None if view.paused => Mark::Paused,
        None => match view.state {
            NodeState::Created | NodeState::Terminal => Mark::Waiting,
            NodeState::Executing
            | NodeState::Deciding
            | NodeState::Aggregating
            | NodeState::Verifying
            | NodeState::Replanning => Mark::Running,
            NodeState::WaitingInput | NodeState::AwaitingApproval => Mark::Asking,
            NodeState::Parked => Mark::Retrying,
            NodeState::RunningChildren => Mark::Inside,
            NodeState::Cancelling => Mark::Stopping,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use folio::engine::Event;
    use folio::engine::event::FORMAT;
    use folio::engine::plan::{self, Known};
    use folio::engine::template::Templates;
    use folio::memory::{RunId, Timestamp};
    use serde_json::json;

    use super::*;

    #[test]
    fn items_that_have_not_begun_have_titles_unless_these_read_results() {
        let id = RunId::derived(&["r"]);
        let mut run = Run::new(id, Arc::new(Templates::new()));
        let wait = json!({"tool": "wait", "args": {"ms": 1}});
        let plan = json!({"title": "t", "steps": [
            {"id": "each", "for_each": ["a", "b"], "as": "name", "step": {"id": "do", "title": "Wait for {{ name }}", "do": wait}},
            {"id": "after", "title": "After {{ results.each.output }}", "do": wait},
        ]});
        let plan = plan::from_value(&plan, &Known::default()).unwrap();
        let expanded = |node: NodeId, items: Vec<serde_json::Value>| Event::Expanded {
            node,
            items,
            set_aside: None,
            limits: None,
        };
        let at = Timestamp::from_millis(1);
        let started = Event::RunStarted {
            format: FORMAT,
            goal: String::new(),
            plan: json!(plan),
            inputs: BTreeMap::new(),
            deadline: None,
            run: json!({}),
        };
        run.apply(at, &started).unwrap();
        run.apply(at, &expanded(NodeId::root(id), Vec::new())).unwrap();
        let each = run.node_at("each").unwrap().id;
        run.apply(at, &expanded(each, vec![json!("a"), json!("b")])).unwrap();
        let nodes = Titles::default().nodes(&run);
        let titles: Vec<&str> = nodes.iter().map(|node| node.title.as_str()).collect();
        assert_eq!(titles, ["t", "each", "Wait for a", "Wait for b", "after"]);
    }
}
