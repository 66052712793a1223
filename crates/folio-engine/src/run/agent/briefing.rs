//! What a task that a model does is told of memory: before its first call, and again when the steps that it was split
//! into have ended (E9.16).

use std::borrow::Cow;
use std::sync::Arc;

use folio_memory::Timestamp;
use folio_memory::excerpt::cut;

use super::detail::MemoryShown;
use super::{Agent, Stage};
use crate::event::BookView;
use crate::node::{Move, NodeId};
use crate::run::state::{JournalError, Run};
use crate::spend::Allowance;
use crate::talk::Purpose;

impl Run {
    /// Whether a model asked for `purpose` has to be told first what memory holds now: what steps and people wrote
    /// since the task was split up is nowhere else. A call that repeats one whose driver died is told the same as
    /// before (E9.9).
    pub(super) fn needs_briefing(&self, index: usize, purpose: Purpose) -> bool {
        let is_planners = matches!(purpose, Purpose::Aggregate | Purpose::Replan);
        let is_told = self
            .agent(index)
            .is_none_or(|agent| agent.is_told || agent.is_repeating);
        is_planners && !is_told && self.equipment.is_some()
    }

    /// Folds in what a task was told of memory and of its scratchbook. The first time begins the task, within `limits`.
    pub(super) fn apply_briefing(
        &mut self,
        at: Timestamp,
        id: NodeId,
        (memory, book): (&str, Option<Box<BookView>>),
        limits: Option<&Allowance>,
    ) -> Result<(), JournalError> {
        let index = self.index(id)?;
        if self.nodes[index].agent.is_some() {
            return self.apply_rebriefing(id, memory, book);
        }
        let was_held_back = self.skipped.contains(&index);
        self.step_to(id, Move::Decide)?;
        self.take_share(index, limits);
        let memory = self.memory_told(memory);
        let agent = Agent::new(self.task_of_model(index), memory, book);
        (self.nodes[index].agent, self.nodes[index].started_at) = (Some(Box::new(agent)), Some(at));
        self.begin_time(index);
        // From here on there may be something to read.
        if self.ready.remove(&index) || was_held_back {
            self.make_ready(index);
        }
        Ok(())
    }

    /// What task `node` was told of memory; empty for anything else.
    #[must_use]
    pub fn memory_told_to(&self, node: NodeId) -> &str {
        let agent = self.index(node).ok().and_then(|index| self.agent(index));
        agent.map_or("", |agent| &agent.memory)
    }

    /// `memory`, stored once for all who are told the same one after the other.
    fn memory_told(&mut self, memory: &str) -> Arc<str> {
        if *self.last_briefed_memory != *memory {
            self.last_briefed_memory = Arc::from(memory);
        }
        Arc::clone(&self.last_briefed_memory)
    }

    fn apply_rebriefing(&mut self, id: NodeId, memory: &str, book: Option<Box<BookView>>) -> Result<(), JournalError> {
        let (index, agent) = self.agent_at(id, "briefed")?;
        let is_planners = matches!(
            agent.stage,
            Stage::Children | Stage::Aggregating | Stage::Verifying | Stage::Replanning
        );
        if agent.is_told || !is_planners {
            return Err(JournalError::Transition {
                node: id,
                state: self.nodes[index].state.as_str(),
                event: "briefed again",
            });
        }
        let memory = self.memory_told(memory);
        let (_, agent) = self.agent_at(id, "briefed")?;
        agent.is_told = true;
        (agent.memory, agent.book) = (memory, book);
        Ok(())
    }

    /// Adds as much as is to be `shown` of what memory holds for node `index`.
    pub(super) fn put_memory(&self, text: &mut String, index: usize, shown: MemoryShown) {
        let memory = self.agent(index).map_or("", |agent| agent.memory.trim_end());
        let memory = match shown {
            MemoryShown::All => Cow::Borrowed(memory),
            MemoryShown::Half => Cow::Owned(cut(memory, memory.chars().count() / 2)),
            MemoryShown::Nothing => return,
        };
        if !memory.is_empty() {
            text.push_str("# Memory\n");
            self.push_data_block(text, index, &memory);
        }
    }
}
