//! Results that are too many to be read at once (E9.16): parts of them that are adjacent in the plan are combined
//! first.
//!
//! Each part is a node with a result, below the task that combines them all. A model makes it as long as the budget has
//! room besides what is kept for the end; otherwise it is a list of the results. The parts are recorded, because the
//! room that a model has depends on the driver of the run, not on the journal.

use std::collections::HashMap;
use std::sync::Arc;

use folio_memory::Timestamp;
use folio_memory::excerpt::cut;

use super::fields::text_of;
use super::object::{NOTES_CHARS, NotesAndOutput, notes_and_output};
use super::read::unreadable_answer_message;
use super::{Agent, Stage};
use crate::event::Event;
use crate::node::{NodeId, NodeState};
use crate::plan::{Slug, Step, Task, Work};
use crate::result::{NodeResult, Outcome, Output, StopReason};
use crate::run::state::{JournalError, Run};
use crate::run::tree::{Cancel, NodeKind};
use crate::talk::{Purpose, Reply};

impl Run {
    /// What node `index` combines, in the order of the plan: the results of its steps, with those in groups and lists
    /// one by one, or the roll-ups that stand for them.
    pub(super) fn inputs_of(&self, index: usize) -> Vec<usize> {
        let node = &self.nodes[index];
        if !node.gathers.is_empty() {
            return node.gathers.to_vec();
        }
        let members: Vec<usize> = self.members(index).collect();
        self.without_groups(&members, true)
    }

    /// How many results each part has, if node `index` has too many results to be read at once.
    pub(super) fn parts_due(&self, index: usize) -> Option<Vec<u32>> {
        if self.nodes[index].state != NodeState::RunningChildren {
            return None;
        }
        let all = self.inputs_of(index).len();
        let room = self.sizes(index, Purpose::Aggregate).results_max();
        let max_inputs = usize::try_from(self.least_around(index, self.limits.fan_in_max, |budget| budget.fan_in))
            .unwrap_or(usize::MAX)
            .min(room)
            .max(2);
        if all <= max_inputs {
            return None;
        }
        let sizes = (0..all).step_by(max_inputs).map(|from| max_inputs.min(all - from));
        Some(sizes.map(|size| u32::try_from(size).unwrap_or(u32::MAX)).collect())
    }

    /// The roll-ups of node `index` that a model made of the same results as those of some of the `parts` due, before
    /// its plan changed.
    pub(super) fn roll_ups_again(&self, index: usize, parts: &[u32]) -> Vec<NodeId> {
        let inputs = self.inputs_of(index);
        let children = self.nodes[index].children.iter().copied();
        let mut made: HashMap<Vec<usize>, NodeId> = HashMap::new();
        for roll_up in children.filter(|child| self.nodes[*child].kind == NodeKind::RollUp) {
            let node = &self.nodes[roll_up];
            // What was made without a model, or of an answer that was cut off, a model may do better now.
            let is_of_model = |result: &NodeResult| result.status <= Outcome::Partial && result.stop_reason.is_none();
            if node.result.as_ref().is_some_and(is_of_model) {
                made.insert(self.sources(&node.gathers), node.id);
            }
        }
        let mut rest = inputs.as_slice();
        let mut next = |size: u32| {
            let (part, after) = rest.split_at(size as usize);
            rest = after;
            part
        };
        let again = parts
            .iter()
            .filter_map(|size| made.get(&self.sources(next(*size))).copied());
        again.collect()
    }

    /// The nodes whose results `nodes` have: of what an item took over from an earlier version of its list, the node
    /// there.
    fn sources(&self, nodes: &[usize]) -> Vec<usize> {
        nodes.iter().map(|node| self.source_of(*node)).collect()
    }

    /// Creates a roll-up for each of the `parts` of what node `id` combines, except those that are there `again`.
    pub(super) fn make_roll_ups(
        &mut self,
        at: Timestamp,
        id: NodeId,
        parts: &[u32],
        again: &[NodeId],
    ) -> Result<(), JournalError> {
        let index = self.index(id)?;
        let inputs = self.inputs_of(index);
        let node = &self.nodes[index];
        let part_total: usize = parts.iter().map(|part| *part as usize).sum();
        let have_ended = node.state == NodeState::RunningChildren && node.children_left == 0 && node.agent.is_some();
        let refused = JournalError::Transition {
            node: id,
            state: node.state.as_str(),
            event: "rolled up",
        };
        if !have_ended || part_total != inputs.len() || parts.len() >= inputs.len() {
            return Err(refused);
        }
        let again: Vec<usize> = again.iter().map(|id| self.index(*id)).collect::<Result<_, _>>()?;
        let is_own = |known: &usize| self.nodes[*known].parent == Some(index) && self.nodes[*known].result.is_some();
        if !again.iter().all(is_own) {
            return Err(refused);
        }
        let (mut again, mut is_waiting) = (again.into_iter().peekable(), false);
        let (mut rest, mut gathered) = (inputs.as_slice(), Vec::with_capacity(parts.len()));
        for part in parts {
            let from = inputs.len() - rest.len();
            let (part, after) = rest.split_at(*part as usize);
            rest = after;
            match part {
                [] => {}
                [alone] => gathered.push(*alone),
                several => {
                    let is_of_part = |known: &usize| self.sources(&self.nodes[*known].gathers) == self.sources(several);
                    if let Some(known) = again.next_if(is_of_part) {
                        gathered.push(known);
                        continue;
                    }
                    is_waiting = true;
                    let title = format!("Results {} to {} of {}", from + 1, from + several.len(), inputs.len());
                    gathered.push(self.add_roll_up(at, index, title, several));
                }
            }
        }
        self.nodes[index].gathers = gathered.into();
        if is_waiting {
            self.ready.remove(&index);
        }
        Ok(())
    }

    fn add_roll_up(&mut self, at: Timestamp, index: usize, title: String, gathers: &[usize]) -> usize {
        let children = self.nodes[index].children.iter();
        let number = 1 + children
            .filter(|child| self.nodes[**child].kind == NodeKind::RollUp)
            .count();
        let name = format!("roll-up-{number}");
        let task = Task {
            title,
            work: Work::Model,
            optional: true,
            ..Task::new(Slug::of(&name))
        };
        let id = self.nodes[index].id.child(0, &name, "");
        let path = self.path_below(index, &name);
        let step = Some(Step::Task(Arc::new(task)));
        let node = self.add_node(id, Some(index), self.nodes[index].frame, NodeKind::RollUp, step, path);
        let agent_task = self.agent(index).map(|agent| Arc::clone(&agent.task));
        let mut agent = Agent::new(
            agent_task.unwrap_or_else(|| self.task_of_model(index)),
            Arc::default(),
            None,
        );
        agent.stage = Stage::Aggregating;
        let new_node = &mut self.nodes[node];
        new_node.agent = Some(Box::new(agent));
        new_node.gathers = gathers.into();
        new_node.started_at = Some(at);
        self.actions += 1;
        self.make_ready(node);
        node
    }

    /// Drops the roll-ups of node `index`, because its results have changed.
    pub(in crate::run) fn forget_roll_ups(&mut self, index: usize) {
        if self.nodes[index].kind == NodeKind::RollUp || self.nodes[index].gathers.is_empty() {
            return;
        }
        self.nodes[index].gathers = Box::default();
        for child in self.nodes[index].children.clone() {
            if self.nodes[child].kind == NodeKind::RollUp {
                self.cancel(child, Cancel::ByParent);
            }
        }
    }

    /// The event that records the result that a model made of a part of the results.
    pub(super) fn read_roll_up(&self, index: usize, reply: &Reply) -> Event {
        let parsed = match self.object_of(index, Purpose::RollUp, reply) {
            Ok(parsed) => parsed,
            Err(problems) => {
                let why = unreadable_answer_message(&problems);
                let fallback = || self.no_model_answer_event(index, Purpose::RollUp, StopReason::Unparseable, &why);
                return self.rejected_event(index, problems).unwrap_or_else(fallback);
            }
        };
        let mut result = self.roll_up(index);
        let NotesAndOutput { notes, output, .. } =
            notes_and_output(&text_of(&parsed.value, "notes"), &parsed.value, None);
        result.notes = format!("{notes}{}", parsed.remark());
        result.output = Output::of(output);
        if let Some(reason) = parsed.stop_reason() {
            result.status = result.status.max(Outcome::Partial);
            result.stop_reason = result.stop_reason.or(Some(reason));
        }
        let checked = self.checked_evidence(index, parsed.value.get("evidence"));
        if !checked.evidence.is_empty() {
            result.evidence = checked.evidence;
        }
        self.roll_up_ended(index, result)
    }

    /// The event that records a part of the results without a model: each result in a line (E9.13).
    pub(in crate::run) fn rolled_up_alone(&self, index: usize, reason: StopReason) -> Event {
        let mut result = self.roll_up(index);
        result.status = result.status.max(Outcome::Partial);
        result.stop_reason = Some(reason);
        result.notes = self.with_table(index, &result.notes);
        self.roll_up_ended(index, result)
    }

    /// `notes` followed by the results that node `index` combines, one line each.
    pub(super) fn with_table(&self, index: usize, notes: &str) -> String {
        let table = self.table(index);
        cut(format!("{notes}\n{}", table.join("\n")).trim_end(), NOTES_CHARS)
    }

    /// A line for each result that node `index` combines: its path, its status, its first words.
    fn table(&self, index: usize) -> Vec<String> {
        let inputs = self.inputs_of(index);
        let room = (NOTES_CHARS / (inputs.len() + 2)).max(40);
        let line = |input: &usize| {
            let node = &self.nodes[*input];
            let result = node.result.as_ref()?;
            let notes = result.notes.lines().next().unwrap_or_default();
            let colon = if notes.is_empty() { "" } else { ": " };
            Some(cut(&format!("{} ({}){colon}{notes}", node.path, result.status), room))
        };
        inputs.iter().filter_map(line).collect()
    }

    /// The event that ends a roll-up: whatever the results say, combining them succeeded, fully or partly.
    fn roll_up_ended(&self, index: usize, result: NodeResult) -> Event {
        let status = if result.status == Outcome::Ok {
            Outcome::Ok
        } else {
            Outcome::Partial
        };
        Event::Finished {
            node: self.nodes[index].id,
            result: Box::new(NodeResult {
                status,
                severity: None,
                attempts: self.agent(index).map_or(0, |agent| agent.calls),
                ..result
            }),
        }
    }
}
