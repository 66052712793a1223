//! Criteria that a person is to check (E9.6): the task waits as for any question, and what is answered is the verdict.

use super::normalised;
use super::read::cut;
use crate::event::{Event, Proposal, Question};
use crate::node::{Move, NodeId};
use crate::plan::{Check, Criterion};
use crate::result::{Finding, Verdict};
use crate::run::state::{JournalError, Run};

/// What a question about a criterion says in the place of the call of a model.
const OF_CRITERION: &str = "criterion:";
/// Characters of a question.
const QUESTION_CHARS: usize = 2_000;
/// Who answers where nobody is there.
const NOBODY: &str = "nobody";

impl Question {
    /// The criterion that it is about, if it is about one.
    pub(crate) fn criterion(&self) -> Option<&str> {
        self.call.strip_prefix(OF_CRITERION)
    }
}

impl Run {
    /// Whether a person is to say whether `criterion` is met, and can.
    pub(super) fn asks_person(&self, criterion: &Criterion) -> bool {
        let has_person = self.equipment.as_ref().is_some_and(|equipment| equipment.has_person);
        criterion.check == Check::Human && has_person
    }

    /// The event that asks whether `criterion` of node `index` is met.
    pub(super) fn asking_about(&self, index: usize, criterion: &Criterion, proposal: &Proposal) -> Event {
        let text = format!("Is this met: {}? The result: {}", criterion.text, proposal.notes);
        Event::Questioned {
            node: self.nodes[index].id,
            question: Box::new(Question {
                call: format!("{OF_CRITERION}{}", criterion.id),
                text: cut(&text, QUESTION_CHARS),
                options: vec!["yes".to_owned(), "no".to_owned()],
                default: None,
                deadline: None,
            }),
        }
    }

    /// The event for a question about a criterion that nobody is there to answer: that is no failure of the task.
    pub(in crate::run) fn nobody_checks(&self, index: usize) -> Event {
        Event::Answered {
            node: self.nodes[index].id,
            answer: String::new(),
            by: NOBODY.to_owned(),
        }
    }

    /// How many verdicts there are on what node `node` came to.
    pub(crate) fn verdicts_on(&self, node: NodeId) -> usize {
        let agent = self.index(node).ok().and_then(|index| self.agent(index));
        agent.map_or(0, |agent| agent.verdicts.len())
    }

    /// Takes in what somebody said of the criterion `id`.
    pub(super) fn criterion_answered(
        &mut self,
        node: NodeId,
        id: &str,
        answer: &str,
        by: &str,
    ) -> Result<(), JournalError> {
        let index = self.step_to(node, Move::Verify)?;
        self.asking.remove(&index);
        self.ready.insert(index);
        let (_, agent) = self.agent_at(node, "answered")?;
        agent.question = None;
        let required = agent
            .task
            .criteria
            .iter()
            .any(|criterion| criterion.id == id && criterion.required);
        agent.verdicts.push(Verdict {
            criterion: id.to_owned(),
            required,
            finding: finding_of(answer, by),
        });
        Ok(())
    }
}

/// `yes`, with or without more, is met; everything else is not, and says why.
fn finding_of(answer: &str, by: &str) -> Finding {
    if by == NOBODY {
        return Finding::Unverifiable("nobody was there who could say it".to_owned());
    }
    let words = normalised(answer);
    match words.split(' ').next().unwrap_or_default() {
        "yes" | "y" => Finding::Met,
        _ if words == "no" || words == "n" || words.is_empty() => Finding::Unmet(format!("{by} said no")),
        _ => Finding::Unmet(format!("{by} said: {}", cut(answer.trim(), QUESTION_CHARS))),
    }
}
