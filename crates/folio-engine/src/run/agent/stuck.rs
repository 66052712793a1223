//! A goal of which two plans met no further criterion. Nobody above it could decide what to do, so a person is asked, if
//! there is one (E9.8).

use std::time::Duration;

use folio_memory::Timestamp;
use folio_memory::excerpt::cut;

use super::ask::prefix_notes;
use super::decision::NO_PLAN;
use super::facts::Fact;
use super::people::{ANSWERED_BY, QUESTION_CHARS, words_of};
use crate::event::{Event, Question};
use crate::node::{Move, NodeId};
use crate::projection::answer_entry;
use crate::result::{Outcome, StopReason};
use crate::run::state::{JournalError, Run};

/// The `call` of such a question.
const OF_PLANS: &str = "plans:stalled";
/// The answer that ends the task with what it has.
const STOP: &str = "stop";
/// How long a person may take. After that, the result is what it would be without one.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What a person said when plans led nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Stuck {
    /// Another plan is made.
    GoesOn,
    /// The task ends with what it has.
    Stops,
}

impl Question {
    /// Whether it asks what to do because plans led nowhere.
    pub(super) fn is_about_plans(&self) -> bool {
        self.call == OF_PLANS
    }
}

impl Run {
    /// What follows if the plans of node `index` lead nowhere: a person is asked if it is the goal, otherwise it ends with
    /// what it has.
    pub(super) fn after_stalling(&self, index: usize, now: Timestamp) -> Event {
        if !self.asks_how_to_go_on(index, now) {
            let event = self.conclusion(index, Some(StopReason::Stalled));
            return prefix_notes(
                event,
                &format!("{NO_PLAN}: the last one met no criterion beyond those of the one before"),
            );
        }
        Event::Questioned {
            node: self.nodes[index].id,
            question: Box::new(Question {
                call: OF_PLANS.to_owned(),
                text: self.question_about_plans(index),
                options: Vec::new(),
                default: Some(STOP.to_owned()),
                deadline: Some(now.plus(WAIT_MAX)),
            }),
        }
    }

    /// Whether a person is asked how node `index` goes on: not where no plan may be replaced, or no time is left for one.
    fn asks_how_to_go_on(&self, index: usize, now: Timestamp) -> bool {
        let is_goal = self.nodes[index].parent.is_none();
        let has_stopped = self
            .agent(index)
            .is_none_or(|agent| agent.stuck == Some(Stuck::Stops) || agent.proposal.is_none());
        is_goal && self.has_person() && !has_stopped && self.replans_max(index) > 0 && !self.is_late(index, now)
    }

    fn question_about_plans(&self, index: usize) -> String {
        let mut missing = self.gaps(index);
        if missing.is_empty() {
            let failed = self.members(index).filter_map(|member| {
                let node = &self.nodes[member];
                let result = node.result.as_ref().filter(|result| result.status == Outcome::Failed)?;
                Some(format!("{} failed: {}", self.title(node.id), result.notes))
            });
            missing = failed.collect();
        }
        let asked = "Say what to do differently, and another plan is made with that, or answer `stop`.";
        let text = format!(
            "The goal is not reached, and the last plan met no criterion beyond those of the one before. {asked} Missing: {}",
            missing.join("; ")
        );
        cut(&text, QUESTION_CHARS)
    }

    /// Whether a person wants another plan for node `index`, whatever the limits on plans.
    pub(in crate::run) fn is_to_go_on(&self, index: usize) -> bool {
        self.agent(index)
            .is_some_and(|agent| agent.stuck == Some(Stuck::GoesOn))
    }

    /// Takes in what a person says to that.
    pub(super) fn plans_answered(&mut self, node: NodeId, answer: &str, by: &str) -> Result<(), JournalError> {
        let index = self.agent_steps_to(node, Move::Verify, "answered")?;
        self.unanswered.remove(&index);
        self.make_ready(index);
        let entry = answer_entry(self.id, &self.next_answer(node), node);
        let (_, agent) = self.agent_at(node, "answered")?;
        let Some(question) = agent.question.take() else {
            return Ok(());
        };
        if words_of(answer) == STOP {
            agent.stuck = Some(Stuck::Stops);
            return Ok(());
        }
        agent.stuck = Some(Stuck::GoesOn);
        agent.told_by_person();
        self.note_answer();
        let fact = Fact {
            question: question.text,
            said: format!("{answer}{ANSWERED_BY}{by})"),
            entry,
            number: 0,
        };
        self.answers.insert(index, fact, by);
        Ok(())
    }
}
