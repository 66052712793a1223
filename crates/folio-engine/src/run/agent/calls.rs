//! What is set aside for a model call: released when the call ends, and spent if nobody saw its end (E9.9, E9.10). And
//! the sessions in which programs continue if nobody saw their end (E9.17).

use super::schema::ASK_PERSON;
use super::{Agent, TalkEntry, answer};
use crate::event::Event;
use crate::node::NodeId;
use crate::result::Failure;
use crate::run::state::{JournalError, Run};
use crate::spend::Spend;
use crate::talk::{Purpose, Speaker};

/// The session of a program that was running when its driver died.
#[derive(Debug, Clone)]
pub(in crate::run) struct Session {
    /// The name of the program.
    program: String,
    /// The program's own name for the session.
    id: String,
}

impl Agent {
    /// The session to continue. A fork has none, because nobody may work in the session of another run.
    pub(super) fn session_id(&self) -> Option<String> {
        let session = self.session.as_ref().filter(|session| !session.id.is_empty());
        session.map(|session| session.id.clone())
    }

    /// Whether the call under way is no longer needed: it was to hand back results, but the limit was raised meanwhile.
    pub(super) fn has_obsolete_call(&self) -> bool {
        let purpose = self.pending.map(|pending| pending.purpose);
        purpose == Some(Purpose::HandBack) && self.spent.is_none()
    }
}

impl Run {
    /// Releases what was set aside for the call under way, and counts what it cost as spent.
    pub(super) fn settle_call(&mut self, index: usize, spent: &Spend) {
        let Some(agent) = self.nodes[index].agent.as_deref_mut() else {
            return;
        };
        let Some(pending) = agent.pending.take() else { return };
        agent.session = None;
        self.settle(index, &pending.reserved, spent);
    }

    /// Ends the call under way: the next action becomes due.
    pub(super) fn call_ended(&mut self, index: usize) {
        self.executing.remove(&index);
        if self.nodes[index].cancel.is_some() {
            self.stopping.remove(&index);
            self.skipped.insert(index);
        } else {
            self.make_ready(index);
        }
    }

    /// Makes an offload that was under way due again; what was set aside for its compactor counts as spent (E9.9).
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

    /// Settles a call whose end nobody saw: what was set aside for it counts as spent until more is known (E9.9).
    pub(in crate::run) fn orphan_call(&mut self, index: usize) {
        if let Some(pending) = self.nodes[index].agent.as_deref().and_then(|agent| agent.pending) {
            self.settle_call(index, &pending.reserved);
        }
        let compacting = self.nodes[index].agent.as_deref_mut();
        if let Some(reserved) = compacting.and_then(|agent| agent.compacting.take()) {
            self.settle(index, &reserved, &reserved);
        }
    }

    /// Gives up a program that was running when the driver died. It is not started again, because nobody knows what it
    /// did (E9.12).
    pub(in crate::run) fn lose_call(&mut self, index: usize, purpose: Purpose) {
        self.orphan_call(index);
        if let Some(agent) = self.nodes[index].agent.as_deref_mut() {
            agent.unanswered = Some((purpose, answer::lost()));
        }
    }

    /// Makes the call under way due again: the same call with the same key, while what was set aside for it counts as
    /// spent (E9.9). A call that is no longer needed is not repeated; another one follows.
    pub(in crate::run) fn repeat_call(&mut self, index: usize) {
        if self.agent(index).is_some_and(Agent::has_obsolete_call) {
            return self.orphan_call(index);
        }
        let session = self.nodes[index]
            .agent
            .as_deref_mut()
            .and_then(|agent| agent.session.take());
        self.orphan_call(index);
        if let Some(agent) = self.nodes[index].agent.as_deref_mut() {
            agent.calls = agent.calls.saturating_sub(1);
            agent.is_repeating = true;
            agent.repeated += 1;
            agent.session = session;
        }
    }

    /// Records that a program has a session for its call under way.
    pub(super) fn record_session(
        &mut self,
        node: NodeId,
        call: u32,
        program: &str,
        session: &str,
    ) -> Result<(), JournalError> {
        let (_, agent) = self.agent_at(node, "session_began")?;
        if agent.pending.is_some_and(|pending| pending.call == call) {
            agent.session = Some(Session {
                program: program.to_owned(),
                id: session.to_owned(),
            });
        }
        Ok(())
    }

    /// The event that records the `session` of the program that call `call` of `node` started; `None` if nobody waits
    /// for the call any more.
    #[must_use]
    pub fn session_began(&self, node: NodeId, call: u32, session: &str) -> Option<Event> {
        let index = self.index(node).ok()?;
        let pending = self.agent(index)?.pending.filter(|pending| pending.call == call)?;
        let (model, _) = self.model_for(index, pending.purpose.role())?;
        Some(Event::SessionBegan {
            node,
            call,
            program: model.program.as_ref()?.name.clone(),
            session: session.to_owned(),
        })
    }

    /// Whether the program that works on node `index` can continue in a session.
    pub(in crate::run) fn has_session(&self, index: usize) -> bool {
        self.agent(index).is_some_and(|agent| agent.session.is_some())
    }

    /// The question that a program working on `node` waits to have answered, as the call that asks it, if that was the
    /// last thing heard of it; and the name of the executor, if it is not the usual one.
    #[must_use]
    pub fn program_question(&self, node: NodeId) -> Option<(Option<&str>, &str)> {
        let index = self.index(node).ok()?;
        let agent = self.agent(index)?;
        let last_reply = agent.talk.iter().rev().find_map(|entry| match entry {
            TalkEntry::Message(message) if message.speaker == Speaker::Assistant => Some(message),
            _ => None,
        })?;
        let question = last_reply.calls.iter().find(|call| call.tool == ASK_PERSON)?;
        let (model, _) = self.model_for(index, Purpose::Work.role())?;
        model.program.as_ref()?;
        let executor = self.executor_of(index).map(|(name, _)| name.as_str());
        Some((executor, &question.id))
    }

    /// The failure if the executor that is asked now cannot continue the session in which node `index` was worked on:
    /// nobody knows then what was done.
    pub(super) fn session_lost(&self, index: usize, purpose: Purpose) -> Option<Failure> {
        let session = self.agent(index)?.session.as_ref()?;
        let program = self
            .model_for(index, purpose.role())
            .and_then(|(model, _)| model.program.as_ref());
        let is_same = program.is_some_and(|program| program.name == session.program);
        (!is_same).then(answer::lost)
    }
}
