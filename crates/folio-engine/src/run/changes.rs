//! What changed in a run, and when: until something has, the same reading call would give the same (E9.13).

use std::collections::BTreeMap;

use super::resources::ReadOnlyTools;
use super::state::Run;
use crate::plan::{Step, Work};

/// The ends of calls and the answers of people, in the order of the journal.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// How many there were.
    count: u64,
    /// The number of the last one of each tool.
    last: BTreeMap<String, u64>,
    /// The number of the last answer of a person, who may have done anything meanwhile.
    answered: u64,
}

impl Run {
    /// Notes that the call of node `index` ended, or an attempt at it, if it is one.
    pub(super) fn note_end_of_call(&mut self, index: usize) {
        let Some(Step::Task(task)) = &self.nodes[index].step else {
            return;
        };
        let Work::Do(call) = &task.work else { return };
        // A call that was never made changed nothing.
        match self.nodes[index].attempt {
            0 => self.changes.count += 1,
            _ => self.note_end_of(call.tool.clone()),
        }
        self.nodes[index].ended_as = self.changes.count;
    }

    /// Notes that a call of `tool` ended.
    pub(super) fn note_end_of(&mut self, tool: String) {
        self.changes.count += 1;
        self.changes.last.insert(tool, self.changes.count);
    }

    /// Notes that a person answered something.
    pub(super) fn note_answer(&mut self) {
        self.changes.count += 1;
        self.changes.answered = self.changes.count;
    }

    /// Whether a call that may change something ended, or a person answered, after the call of node `index` ended.
    pub(super) fn has_changed_since(&self, index: usize) -> bool {
        let ended_as = self.nodes[index].ended_as;
        let mut later = self.changes.last.iter().filter(|(_, at)| **at > ended_as);
        self.changes.answered > ended_as || later.any(|(tool, _)| self.may_change_something(tool))
    }

    /// Whether calls of `tool` may change something, as far as that is known.
    fn may_change_something(&self, tool: &str) -> bool {
        let offered = self.equipment.as_ref().and_then(|equipment| equipment.tool(tool));
        let is_read_only = || {
            let known = self.looking.as_ref();
            known.is_some_and(|ReadOnlyTools(is_read_only)| is_read_only(tool))
        };
        offered.map_or_else(|| !is_read_only(), |tool| tool.writes)
    }
}
