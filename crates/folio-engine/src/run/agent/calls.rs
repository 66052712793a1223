//! What was set aside for a call of a model: freed when it ends, and spent when nobody saw its end (E9.9, E9.10).

use super::answer;
use crate::run::state::Run;
use crate::spend::Spend;
use crate::talk::Purpose;

impl Run {
    /// Frees what was set aside for the call under way, and spends what it cost.
    pub(super) fn settle_call(&mut self, index: usize, spent: &Spend) {
        let Some(agent) = self.nodes[index].agent.as_deref_mut() else {
            return;
        };
        let Some(pending) = agent.pending.take() else { return };
        self.settle(index, &pending.reserved, spent);
    }

    /// What was being put away is put away anew, and what was set aside for that counts as spent (E9.9).
    pub(in crate::run) fn repeat_compaction(&mut self, index: usize) {
        if let Some(agent) = self.nodes[index]
            .agent
            .as_deref_mut()
            .filter(|agent| agent.compacting.is_some())
        {
            agent.repeated += 1;
        }
        self.orphan_call(index);
    }

    /// A call whose end nobody saw: what was set aside for it counts as spent until somebody knows better (E9.9).
    pub(in crate::run) fn orphan_call(&mut self, index: usize) {
        if let Some(pending) = self.nodes[index].agent.as_deref().and_then(|agent| agent.pending) {
            self.settle_call(index, &pending.reserved);
        }
        let compacting = self.nodes[index].agent.as_deref_mut();
        if let Some(reserved) = compacting.and_then(|agent| agent.compacting.take()) {
            self.settle(index, &reserved, &reserved);
        }
    }

    /// The program that was at work when the driver died is not started again: nobody knows what it did (E9.12).
    pub(in crate::run) fn lose_call(&mut self, index: usize, purpose: Purpose) {
        self.orphan_call(index);
        if let Some(agent) = self.nodes[index].agent.as_deref_mut() {
            agent.unanswered = Some((purpose, answer::lost()));
        }
    }

    /// The call under way is owed again: the same, with the same key, and what was set aside for it counts as spent (E9.9).
    pub(in crate::run) fn repeat_call(&mut self, index: usize) {
        self.orphan_call(index);
        if let Some(agent) = self.nodes[index].agent.as_deref_mut() {
            agent.calls = agent.calls.saturating_sub(1);
            agent.is_repeating = true;
            agent.repeated += 1;
        }
    }
}
