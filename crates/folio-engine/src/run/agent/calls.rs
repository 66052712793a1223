//! What was set aside for a call of a model: freed when it ends, and spent when nobody saw its end (E9.9, E9.10). What a program is given
//! back whose end nobody saw (E9.17).

use super::schema::ASK_PERSON;
use super::{Agent, Said, answer};
use crate::event::Event;
use crate::node::NodeId;
use crate::result::Failure;
use crate::run::state::{JournalError, Run};
use crate::spend::Spend;
use crate::talk::{Purpose, Speaker};

/// What a program is given back that was at work when its driver died.
#[derive(Debug, Clone)]
pub(in crate::run) struct Session {
    /// Which program.
    program: String,
    /// How it names its session.
    id: String,
}

impl Agent {
    /// The session that is to be gone on with. A fork has none, for nobody works in the session of another run.
    pub(super) fn session_id(&self) -> Option<String> {
        let session = self.session.as_ref().filter(|session| !session.id.is_empty());
        session.map(|session| session.id.clone())
    }

    /// Whether nobody needs the call under way any more: what was to be handed back before a limit was raised is not handed back.
    pub(super) fn is_needless(&self) -> bool {
        let purpose = self.pending.map(|pending| pending.purpose);
        purpose == Some(Purpose::HandBack) && self.spent.is_none()
    }
}

impl Run {
    /// Frees what was set aside for the call under way, and spends what it cost.
    pub(super) fn settle_call(&mut self, index: usize, spent: &Spend) {
        let Some(agent) = self.nodes[index].agent.as_deref_mut() else {
            return;
        };
        let Some(pending) = agent.pending.take() else { return };
        agent.session = None;
        self.settle(index, &pending.reserved, spent);
    }

    /// It is over: what follows is due.
    pub(super) fn call_ended(&mut self, index: usize) {
        self.executing.remove(&index);
        if self.nodes[index].cancel.is_some() {
            self.stopping.remove(&index);
            self.skipped.insert(index);
        } else {
            self.make_ready(index);
        }
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

    /// The call under way is owed again: the same, with the same key, and what was set aside for it counts as spent (E9.9). One that nobody
    /// needs any more is not: what comes next is another one.
    pub(in crate::run) fn repeat_call(&mut self, index: usize) {
        if self.agent(index).is_some_and(Agent::is_needless) {
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

    /// A program has a session for its call under way.
    pub(super) fn session_of(
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

    /// The event that records that the program which call `call` of `node` started has `session`; `None` if nobody waits for the call any more.
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

    /// Whether whoever is at work on node `index` can be given back what it was at work on.
    pub(in crate::run) fn has_session(&self, index: usize) -> bool {
        self.agent(index).is_some_and(|agent| agent.session.is_some())
    }

    /// The question to which whoever works on `node` by itself waits for an answer, as the call that asks it, if it was the last that was
    /// heard of it; and the name of that executor, if it is not the usual one.
    #[must_use]
    pub fn left_asking(&self, node: NodeId) -> Option<(Option<&str>, &str)> {
        let index = self.index(node).ok()?;
        let agent = self.agent(index)?;
        let said = agent.talk.iter().rev().find_map(|said| match said {
            Said::Message(message) if message.speaker == Speaker::Assistant => Some(message),
            _ => None,
        })?;
        let question = said.calls.iter().find(|call| call.tool == ASK_PERSON)?;
        let (model, _) = self.model_for(index, Purpose::Work.role())?;
        model.program.as_ref()?;
        let executor = self.executor_of(index).map(|(name, _)| name.as_str());
        Some((executor, &question.id))
    }

    /// Why the session in which node `index` was worked on cannot be gone on with by whoever is asked now: then nobody knows what was done.
    pub(super) fn session_lost(&self, index: usize, purpose: Purpose) -> Option<Failure> {
        let session = self.agent(index)?.session.as_ref()?;
        let program = self
            .model_for(index, purpose.role())
            .and_then(|(model, _)| model.program.as_ref());
        let is_same = program.is_some_and(|program| program.name == session.program);
        (!is_same).then(answer::lost)
    }
}
