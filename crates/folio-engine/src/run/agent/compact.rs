//! A conversation that outgrows its share of the model's window: which part of it is offloaded (M7.8 V8, E9.16).
//!
//! That depends on the windows of the driver's models, which no journal knows; so the part that was offloaded is
//! recorded, and the fold is the same whoever drives the run later.

use folio_memory::excerpt::short_line;

use super::prompt::cost;
use super::{Agent, Stage, TalkEntry};
use crate::event::{BookView, Event};
use crate::node::{Move, NodeId};
use crate::result::StopReason;
use crate::run::scope::BodyNeeded;
use crate::run::state::{JournalError, Run};
use crate::spend::Spend;
use crate::talk::{Message, Purpose};
use crate::template::Breaks;

/// The share of the window, in per cent, above which a conversation is offloaded.
const OFFLOAD_WINDOW_PERCENT: u64 = 80;
/// The most tokens of the text that replaces the offloaded part.
const SUMMARY_TOKENS: u64 = 1_200;
/// The divisor of the window that also limits that text: a tenth of the window.
const SUMMARY_PART: u64 = 10;

/// The most characters of the goal that a compactor is told with a task that is part of it.
const GOAL_CHARS: usize = 300;

/// The most requests that a compactor makes.
pub const COMPACTOR_CALLS: u64 = 4;
/// The tokens that it reads in each request in addition to the messages.
const COMPACTOR_OVERHEAD_TOKENS: u64 = 8_000;

/// A part of a task's conversation that has to be offloaded.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactAction {
    /// The node of the task.
    pub node: NodeId,
    /// The number of messages to offload, from the first.
    pub pieces: u32,
    /// The content of these messages, in order, after the text that replaces earlier ones, which is the user's, as the
    /// offload wrote it: so it is not taken for a message. A call is never separated from its answer.
    pub messages: Vec<Message>,
    /// The task, for a compactor: the messages do not say it.
    pub task: String,
    /// The most tokens of the text that replaces them.
    pub summary_tokens: u32,
    /// The size of the window in tokens.
    pub window: u32,
    /// The most that a compactor may cost, which is set aside before it is asked; `None` if none is asked, because
    /// there is none or the budget has no room.
    pub reserved: Option<Spend>,
}

impl CompactAction {
    /// The event that records that a compactor is asked; `None` if none is.
    #[must_use]
    pub fn compacting(&self) -> Option<Event> {
        let node = self.node;
        self.reserved.map(|reserved| Event::Compacting { node, reserved })
    }
}

/// Whether a conversation is offloaded before the model is asked.
pub(super) enum Compaction {
    /// No: there is room, or nothing that could be offloaded.
    Needless,
    /// Yes: this part. If no compactor is asked only because others would have to give back what is set aside for them
    /// first: the node within which they would.
    Due(Box<CompactAction>, Option<usize>),
    /// It would have to be, but the policy does not allow it.
    Forbidden,
}

impl Run {
    /// Whether the conversation of node `index` has to be offloaded before it is asked for `purpose`, which would cost
    /// `tokens_in`, and which part.
    ///
    /// The last exchange always stays; of what precedes it, as much as fits into half of the room that is left.
    pub(super) fn compaction(&self, index: usize, purpose: Purpose, tokens_in: u64) -> Result<Compaction, BodyNeeded> {
        let (Some(agent), Some(equipment)) = (self.agent(index), self.equipment.as_ref()) else {
            return Ok(Compaction::Needless);
        };
        // A request of a driver that died is repeated word for word (E9.9).
        if purpose != Purpose::Work || agent.talk.len() < 2 || agent.is_repeating {
            return Ok(Compaction::Needless);
        }
        let Some((model, _)) = self.model_for(index, purpose.role()) else {
            return Ok(Compaction::Needless);
        };
        let tokens = &*model.tokens;
        let limit = u64::from(model.window) * OFFLOAD_WINDOW_PERCENT / 100;
        if tokens_in <= limit {
            return Ok(Compaction::Needless);
        }
        let talk = self.talk(index)?;
        let costs: Vec<u64> = talk
            .iter()
            .map(|message| cost(std::slice::from_ref(message), tokens))
            .collect();
        let summary = SUMMARY_TOKENS.min(u64::from(model.window) / SUMMARY_PART);
        let other_tokens = tokens_in.saturating_sub(costs.iter().sum());
        let room = limit.saturating_sub(other_tokens + summary) / 2;
        // The positions at which the rest may begin: not between a call and its answer.
        let starts = (1..talk.len()).rev().filter(|at| talk[*at].answers.is_none());
        let mut cut = 0;
        for at in starts {
            let kept_cost: u64 = costs[at..].iter().sum();
            if cut != 0 && kept_cost > room {
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
        let mut waits_within = None;
        let reserved = equipment.compactor.as_ref().and_then(|compactor| {
            let once =
                costs[..cut].iter().sum::<u64>().min(u64::from(compactor.window) / 2) + COMPACTOR_OVERHEAD_TOKENS;
            let spend = Spend {
                tokens_in: once * COMPACTOR_CALLS,
                tokens_out: u64::from(compactor.answer_tokens) * COMPACTOR_CALLS,
                model_calls: COMPACTOR_CALLS,
                ..Spend::default()
            };
            let priced = compactor.priced(spend);
            if compactor.price.is_none() && self.needs_price(index) {
                return None;
            }
            waits_within = self.refused_for_now(index, &priced, false);
            self.refused_by_budget(index, &priced, false)
                .is_none()
                .then_some(priced)
        });
        let earlier = (!agent.offloaded_summary.is_empty()).then(|| Message::user(agent.offloaded_summary.clone()));
        let messages = earlier.into_iter().chain(talk.into_iter().take(cut)).collect();
        let compact = CompactAction {
            node: self.nodes[index].id,
            pieces: u32::try_from(cut).unwrap_or(u32::MAX),
            messages,
            task: self.task_in_words(index)?,
            summary_tokens: u32::try_from(summary).unwrap_or(u32::MAX),
            window: model.window,
            reserved,
        };
        Ok(Compaction::Due(Box::new(compact), waits_within))
    }
}

impl Run {
    /// The task of node `index`, and below the root the goal that it is part of.
    fn task_in_words(&self, index: usize) -> Result<String, BodyNeeded> {
        if self.nodes[index].parent.is_none() {
            return Ok(self.goal.clone());
        }
        let (title, description) = self.words_of(index, Breaks::Kept)?;
        let goal = format!("Part of: {}", short_line(&self.goal, GOAL_CHARS));
        let parts = [title, description, goal];
        let parts: Vec<&str> = parts
            .iter()
            .map(|part| part.trim())
            .filter(|part| !part.is_empty())
            .collect();
        Ok(parts.join("\n"))
    }

    /// Notes that a compactor is asked for node `index`: this counts as a model call until [`Event::Compacted`].
    pub(super) fn compacting(&mut self, node: NodeId, reserved: &Spend) -> Result<(), JournalError> {
        let index = self.agent_steps_to(node, Move::Start, "compacting")?;
        let (_, agent) = self.agent_at(node, "compacting")?;
        agent.compacting = Some(*reserved);
        self.ready.remove(&index);
        self.executing.insert(index);
        self.nodes[index].call = "model, to summarize".into();
        self.reserve(index, reserved);
        Ok(())
    }

    /// Notes that the conversation of node `index` was offloaded, at the cost `spent`.
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

    /// The event that records that a compactor was stopped; `None` if nobody wants the task stopped.
    #[must_use]
    pub fn compaction_stopped(&self, node: NodeId) -> Option<Event> {
        let index = self.index(node).ok()?;
        let is_asked = self.agent(index)?.compacting.is_some();
        (is_asked && self.nodes[index].cancel.is_some()).then(|| self.skipped_event(index))
    }

    /// The event that records that the conversation of `node` cannot be offloaded: it does not fit then, and the task
    /// hands back what it has. `None` if nobody continues the task.
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

    /// Ends a compactor for node `index` without a summary: nobody knows what it used, so what was set aside counts
    /// (E9.10).
    pub(super) fn compaction_given_up(&mut self, index: usize) {
        let agent = self.nodes[index].agent.as_deref_mut();
        if let Some(reserved) = agent.and_then(|agent| agent.compacting.take()) {
            self.settle(index, &reserved, &reserved);
            self.call_ended(index);
        }
    }

    /// Whether a compactor was asked for node `node` and has not answered yet.
    #[must_use]
    pub fn is_compacting(&self, node: NodeId) -> bool {
        let agent = self.index(node).ok().and_then(|index| self.agent(index));
        agent.is_some_and(|agent| agent.compacting.is_some())
    }
}

impl Agent {
    /// Replaces the first `pieces` messages of the conversation by `text`.
    pub(super) fn replace_beginning(&mut self, pieces: usize, text: &str, book: Option<Box<BookView>>) {
        let removed = self.talk.drain(..pieces.min(self.talk.len()));
        self.offloaded_calls.extend(removed.filter_map(|entry| match entry {
            TalkEntry::Result { node, .. } => Some(node),
            TalkEntry::Message(_) => None,
        }));
        text.clone_into(&mut self.offloaded_summary);
        self.book = book;
    }
}
