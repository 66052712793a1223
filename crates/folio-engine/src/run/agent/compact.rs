//! A conversation that outgrows its share of the model's window: which part of it goes (M7.8 V8, E9.16).
//!
//! What goes is said by the driver's models, whose windows no journal knows; so it is recorded what went, and the fold does the
//! same whoever drives the run later.

use super::prompt::cost;
use super::{Agent, Said, Stage};
use crate::event::{BookView, Event};
use crate::node::{Move, NodeId};
use crate::result::StopReason;
use crate::run::scope::BodyNeeded;
use crate::run::state::{JournalError, Run};
use crate::spend::Spend;
use crate::talk::{Message, Purpose};

/// Per cent of a window from which on a conversation is put away.
const SHARE: u64 = 80;
/// Tokens of what stands for what was put away.
const SUMMARY_TOKENS: u64 = 1_200;
/// Which part of a window that has at most.
const SUMMARY_PART: u64 = 10;

/// Requests that a compactor makes at most.
pub const COMPACTOR_CALLS: u64 = 4;
/// Tokens that it reads besides the messages, in each.
const READING: u64 = 8_000;

/// A part of a task's conversation that is to be put away.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactAction {
    /// Of which node.
    pub node: NodeId,
    /// How many pieces of what was said, from the first.
    pub pieces: u32,
    /// What they say, in order; what stands for earlier ones first. A call and its answer are never parted.
    pub messages: Vec<Message>,
    /// Tokens that what stands for them may cost.
    pub summary_tokens: u32,
    /// Tokens of the window.
    pub window: u32,
    /// What a compactor may come to, which is set aside before it is asked; none if nobody is asked, because nobody is there or the
    /// budget has no room.
    pub reserved: Option<Spend>,
}

impl CompactAction {
    /// The event that records that a compactor is asked; none if nobody is.
    #[must_use]
    pub fn compacting(&self) -> Option<Event> {
        let node = self.node;
        self.reserved.map(|reserved| Event::Compacting { node, reserved })
    }
}

/// Whether a conversation is put away before the model is asked.
pub(super) enum Compaction {
    /// There is room, or nothing that could go.
    Needless,
    /// This part goes.
    Due(Box<CompactAction>),
    /// It would have to, and the policy does not allow it.
    Forbidden,
}

impl Run {
    /// Whether the conversation of node `index` is to be put away before it is asked for `purpose`, which would cost `tokens_in`,
    /// and what of it.
    ///
    /// The last exchange always stays; of what is before it, as much as fits into half of the room that is left.
    pub(super) fn compaction(&self, index: usize, purpose: Purpose, tokens_in: u64) -> Result<Compaction, BodyNeeded> {
        let (Some(agent), Some(equipment)) = (self.agent(index), self.equipment.as_ref()) else {
            return Ok(Compaction::Needless);
        };
        // What was asked by a driver that died is asked again word for word (E9.9).
        if purpose != Purpose::Work || agent.talk.len() < 2 || agent.is_repeating {
            return Ok(Compaction::Needless);
        }
        let Some((model, _)) = self.model_for(index, purpose.role()) else {
            return Ok(Compaction::Needless);
        };
        let tokens = &*model.tokens;
        let limit = u64::from(model.window) * SHARE / 100;
        if tokens_in <= limit {
            return Ok(Compaction::Needless);
        }
        let talk = self.talk(index)?;
        let costs: Vec<u64> = talk
            .iter()
            .map(|message| cost(std::slice::from_ref(message), tokens))
            .collect();
        let summary = SUMMARY_TOKENS.min(u64::from(model.window) / SUMMARY_PART);
        let around = tokens_in.saturating_sub(costs.iter().sum());
        let room = limit.saturating_sub(around + summary) / 2;
        // Behind which pieces the conversation may begin: not between a call and its answer.
        let starts = (1..talk.len()).rev().filter(|at| talk[*at].answers.is_none());
        let mut cut = 0;
        for at in starts {
            let stays: u64 = costs[at..].iter().sum();
            if cut != 0 && stays > room {
                break;
            }
            cut = at;
        }
        if cut == 0 {
            return Ok(Compaction::Needless);
        }
        if !equipment.book.auto_compact() {
            return Ok(Compaction::Forbidden);
        }
        let reserved = equipment.compactor.as_ref().and_then(|compactor| {
            let once = costs[..cut].iter().sum::<u64>().min(u64::from(compactor.window) / 2) + READING;
            let spend = Spend {
                tokens_in: once * COMPACTOR_CALLS,
                tokens_out: u64::from(compactor.answer_tokens) * COMPACTOR_CALLS,
                model_calls: COMPACTOR_CALLS,
                ..Spend::default()
            };
            let priced = compactor.priced(spend);
            let is_paid_for = compactor.price.is_some() || !self.needs_price(index);
            (is_paid_for && self.refused_by_budget(index, &priced, false).is_none()).then_some(priced)
        });
        let earlier = (!agent.before.is_empty()).then(|| Message::assistant(agent.before.clone(), Vec::new()));
        let messages = earlier.into_iter().chain(talk.into_iter().take(cut)).collect();
        Ok(Compaction::Due(Box::new(CompactAction {
            node: self.nodes[index].id,
            pieces: u32::try_from(cut).unwrap_or(u32::MAX),
            messages,
            summary_tokens: u32::try_from(summary).unwrap_or(u32::MAX),
            window: model.window,
            reserved,
        })))
    }
}

impl Run {
    /// A compactor is asked for node `index`: a call of a model as any other, until [`Event::Compacted`].
    pub(super) fn compacting(&mut self, node: NodeId, reserved: &Spend) -> Result<(), JournalError> {
        let index = self.agent_steps_to(node, Move::Start, "compacting")?;
        let (_, agent) = self.agent_at(node, "compacting")?;
        agent.compacting = Some(*reserved);
        self.ready.remove(&index);
        self.executing.insert(index);
        self.nodes[index].call = "model, to put a summary".into();
        self.reserve(index, reserved);
        Ok(())
    }

    /// What was said of node `index` is put away, and `spent` is what it cost.
    pub(super) fn compacted(&mut self, index: usize, spent: &Spend) {
        match self.nodes[index]
            .agent
            .as_deref_mut()
            .and_then(|agent| agent.compacting.take())
        {
            Some(reserved) => {
                self.settle(index, &reserved, spent);
                self.call_ended(index);
            }
            None => self.spend(index, spent),
        }
    }

    /// The event that records that a compactor was stopped; none if nobody wants its task stopped.
    #[must_use]
    pub fn compaction_stopped(&self, node: NodeId) -> Option<Event> {
        let index = self.index(node).ok()?;
        let is_asked = self.agent(index)?.compacting.is_some();
        (is_asked && self.nodes[index].cancel.is_some()).then(|| self.skipping(index))
    }

    /// The event that records that what was said of `node` cannot be put away: then it does not fit, and what there is is handed back. None if
    /// nobody goes on with it.
    #[must_use]
    pub fn compaction_failed(&self, node: NodeId) -> Option<Event> {
        let index = self.index(node).ok()?;
        let agent = self.agent(index)?;
        if self.nodes[index].cancel.is_some() {
            return self.compaction_stopped(node);
        }
        (agent.stage == Stage::Working).then_some(Event::Spent {
            node,
            reason: StopReason::WindowFull,
        })
    }

    /// A compactor that was asked for node `index` ends without anything: nobody knows what it used up, so what was set aside counts (E9.10).
    pub(super) fn compaction_given_up(&mut self, index: usize) {
        let agent = self.nodes[index].agent.as_deref_mut();
        if let Some(reserved) = agent.and_then(|agent| agent.compacting.take()) {
            self.settle(index, &reserved, &reserved);
            self.call_ended(index);
        }
    }

    /// Whether a compactor is asked for node `node`, of whom nobody has heard yet.
    #[must_use]
    pub fn is_compacting(&self, node: NodeId) -> bool {
        let agent = self.index(node).ok().and_then(|index| self.agent(index));
        agent.is_some_and(|agent| agent.compacting.is_some())
    }
}

impl Agent {
    /// Puts the first `pieces` of what was said away; `text` stands for them.
    pub(super) fn put_away(&mut self, pieces: usize, text: &str, book: Option<Box<BookView>>) {
        let gone = self.talk.drain(..pieces.min(self.talk.len()));
        self.done_before.extend(gone.filter_map(|said| match said {
            Said::Result { node, .. } => Some(node),
            Said::Message(_) => None,
        }));
        text.clone_into(&mut self.before);
        self.book = book;
    }
}
