//! What people answer: questions of models (E9.14), whether a criterion is met, and whether the command of a criterion
//! may run (E9.6); `stuck` has those about plans. The task waits for all of these in the same way.

use std::collections::HashSet;

use folio_memory::excerpt::{cut, one_line};

use super::facts::{DEFAULT, Fact};
use super::human;
use crate::event::{Event, Proposal, Question, words};
use crate::node::{Move, NodeId, NodeState};
use crate::plan::{Check, Criterion};
use crate::projection::{answer_entry, preview};
use crate::result::{Evidence, Finding, Verdict};
use crate::run::action::Action;
use crate::run::approval::{NOBODY, approval_of};
use crate::run::criteria::{CheckCall, SHELL};
use crate::run::scope::BodyNeeded;
use crate::run::state::{JournalError, Run};
use crate::talk::{Message, Purpose, Speaker};

/// The prefix in the `call` of a question about a criterion.
const OF_CRITERION: &str = "criterion:";
/// The prefix in the `call` of a question about the command of a criterion, before its hash and the criterion's id.
const OF_COMMAND: &str = "command:";
/// The most characters of the criterion in a question about its command. The command itself is shown whole.
const CRITERION_CHARS: usize = 300;
/// The text between an answer and the name of whoever gave it, for models.
pub(super) const ANSWERED_BY: &str = "\n(answered by ";
/// The most characters of a question.
pub(super) const QUESTION_CHARS: usize = 2_000;

/// `message` without the name of whoever answered, if it is a person's answer.
pub(super) fn without_name(mut message: Message) -> Message {
    if message.speaker == Speaker::Tool
        && let Some(at) = message.text.rfind(ANSWERED_BY)
    {
        message.text.truncate(at);
    }
    message
}

impl Question {
    /// The id of the criterion that the question is about, if it is about one.
    pub(crate) fn criterion(&self) -> Option<&str> {
        let of_command = || Some(self.call.strip_prefix(OF_COMMAND)?.split_once(':')?.1);
        self.call.strip_prefix(OF_CRITERION).or_else(of_command)
    }

    /// Whether `answer` is acceptable: any text if there are no options; for a criterion, besides *yes*, also whatever
    /// is missing (E9.6).
    #[must_use]
    pub fn accepts(&self, answer: &str) -> bool {
        let is_option = self.options.is_empty() || self.options.iter().any(|option| option == answer);
        is_option || self.call.starts_with(OF_CRITERION)
    }

    /// The option that `answer` means: the one that it is, or else the only one that it is but for case and the white
    /// space around it.
    #[must_use]
    pub fn option_meant(&self, answer: &str) -> Option<&str> {
        let options = || self.options.iter().map(String::as_str);
        if let Some(option) = options().find(|option| *option == answer) {
            return Some(option);
        }
        let folded = |text: &str| text.trim().to_lowercase();
        let mut alike = options().filter(|option| folded(option) == folded(answer));
        alike.next().filter(|_| alike.next().is_none())
    }

    /// Whether it asks for permission to run a command, which only a person gives (E9.6, E9.14): it waits for an
    /// approval, and cannot be answered in any other way.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        self.call.starts_with(OF_COMMAND)
    }

    /// Whether a model asks it; the same question of a model is asked only once.
    fn is_of_model(&self) -> bool {
        self.criterion().is_none() && !self.is_task() && !self.is_about_plans()
    }
}

impl Run {
    /// The questions that people have to answer, in the order of the tree, each with its node. A question that several
    /// tasks ask at the same time is listed once (E9.14). Requests for permission to run a command are not included:
    /// see [`Run::pending_approvals`].
    #[must_use]
    pub fn questions(&self) -> Vec<(NodeId, &Question)> {
        let mut seen_texts = HashSet::new();
        self.open_questions()
            .filter(|(_, question)| !question.is_of_model() || seen_texts.insert(normalised(&question.text)))
            .collect()
    }

    /// The same for whoever answers: every question with its node, also those that several tasks ask. A task before it
    /// in the tree may ask the same after a person has seen the question.
    pub fn open_questions(&self) -> impl Iterator<Item = (NodeId, &Question)> {
        self.asked_of_people()
            .filter(|(_, question)| !question.is_permission())
            .map(|(index, question)| (self.nodes[index].id, question))
    }

    /// The commands of criteria that wait for approval.
    pub(in crate::run) fn permissions(&self) -> impl Iterator<Item = (usize, &Question)> {
        self.asked_of_people().filter(|(_, question)| question.is_permission())
    }

    /// The questions that wait for people. A task that is being stopped no longer asks, even if its end is not recorded
    /// yet.
    fn asked_of_people(&self) -> impl Iterator<Item = (usize, &Question)> {
        let waiting = self.unanswered.iter().copied();
        let waiting = waiting.filter(|index| self.nodes[*index].state == NodeState::WaitingInput);
        waiting.filter_map(|index| Some((index, self.agent(index)?.question.as_deref()?)))
    }

    /// The answer that was given meanwhile to the same question of another task, and by whom.
    pub(in crate::run) fn answered_meanwhile(&self, question: &Question) -> Option<(String, String)> {
        let fact = self.answers.said(&question.text).filter(|_| question.is_of_model())?;
        let (answer, by) = fact.parts();
        // With other options it is another question.
        question.accepts(answer).then(|| (answer.to_owned(), by.to_owned()))
    }

    /// Whether a person is there who could answer.
    pub(in crate::run) fn has_person(&self) -> bool {
        let is_told = self.equipment.as_ref().is_some_and(|equipment| equipment.has_person);
        // For a run without models, this is the only sign.
        is_told || self.asks_first.is_some()
    }

    /// Whether a person has to say whether `criterion` is met, and is there to say it.
    pub(super) fn asks_person(&self, criterion: &Criterion) -> bool {
        criterion.check == Check::Human && self.has_person()
    }

    /// The action that asks whether `criterion` of node `index` is met, with what there is to judge it by: the notes, the
    /// beginning of the output unless the notes say the same, and the evidence.
    pub(super) fn criterion_question(&self, index: usize, criterion: &Criterion, proposal: &Proposal) -> Action {
        let output = match self.output_needed(&proposal.output) {
            Ok(output) => preview(&output),
            Err(BodyNeeded(hash)) => return Action::Load(hash),
        };
        let criterion_text = cut(&self.criterion_words(index, criterion), QUESTION_CHARS / 2);
        let evidence = cut(&self.evidence_for_person(&proposal.evidence), QUESTION_CHARS / 4);
        let head = format!("Is this criterion met: {criterion_text}? Result: ");
        let output = Some(output).filter(|output| !output.is_empty() && output != "null");
        let output = output.filter(|output| *output != proposal.notes).unwrap_or_default();
        let separator = if proposal.notes.is_empty() || output.is_empty() {
            ""
        } else {
            ": "
        };
        let besides = [&head, separator, &output, &evidence];
        let used: usize = besides.iter().map(|part| part.chars().count()).sum();
        let notes = proposal.whole_notes.as_ref().unwrap_or(&proposal.notes);
        let notes = cut(notes, QUESTION_CHARS.saturating_sub(used));
        let text = format!("{head}{notes}{separator}{output}{evidence}");
        Action::Record(Event::Questioned {
            node: self.nodes[index].id,
            question: Box::new(Question {
                call: format!("{OF_CRITERION}{}", criterion.id),
                text: cut(&text, QUESTION_CHARS),
                options: vec!["yes".to_owned(), "no".to_owned()],
                default: None,
                deadline: None,
            }),
        })
    }

    /// The evidence as a person reads it, on a line of its own; empty if there is none. Nodes are named by their paths.
    fn evidence_for_person(&self, evidence: &[Evidence]) -> String {
        let name = |evidence: &Evidence| {
            let node = evidence.id.parse().ok().and_then(|id| self.node(id));
            let id = node.map_or(evidence.id.as_str(), |node| node.path);
            let span = evidence.span.as_deref();
            let span = span.map(|span| format!(":{span}")).unwrap_or_default();
            format!("{} {id}{span}", evidence.kind)
        };
        if evidence.is_empty() {
            return String::new();
        }
        let names: Vec<String> = evidence.iter().map(name).collect();
        format!("\nEvidence: {}", names.join(", "))
    }

    /// The event that asks whether the command of `check` of node `index` may run; `None` if it needs no approval, or
    /// has it.
    pub(super) fn command_question_event(&self, index: usize, check: &mut CheckCall) -> Option<Event> {
        if check.tool != SHELL || check.allowed || !self.needs_approval(SHELL, &check.args) {
            return None;
        }
        let agent = self.agent(index)?;
        let approval = approval_of(SHELL, &check.args);
        let call = format!("{OF_COMMAND}{}:{}", approval.hash, check.criterion);
        if agent.allowed_commands.contains(&call) {
            check.allowed = true;
            return None;
        }
        let criterion = agent.task.criteria.iter().find(|c| c.id == check.criterion)?;
        // The command comes first and whole; the text of the criterion cannot push it out of sight.
        let criterion = self.criterion_words(index, criterion);
        let criterion = words::escape_invisible(&one_line(&criterion));
        let text = format!(
            "{} (to check this criterion: {})",
            approval.in_words(),
            cut(&criterion, CRITERION_CHARS)
        );
        Some(Event::Questioned {
            node: self.nodes[index].id,
            question: Box::new(Question {
                call,
                text,
                options: vec!["yes".to_owned(), "no".to_owned()],
                default: None,
                deadline: None,
            }),
        })
    }

    /// The event for a question about a criterion that nobody is there to answer: this is not a failure of the task.
    pub(in crate::run) fn nobody_checks(&self, index: usize) -> Event {
        Event::Answered {
            node: self.nodes[index].id,
            answer: String::new(),
            by: NOBODY.to_owned(),
        }
    }

    /// Takes in a person's answer.
    pub(super) fn apply_person_answer(&mut self, node: NodeId, answer: &str, by: &str) -> Result<(), JournalError> {
        let agent = self.agent(self.index(node)?);
        let question = agent.and_then(|agent| agent.question.as_deref());
        if question.is_some_and(|question| question.criterion().is_some()) {
            return self.criterion_answered(node, answer, by);
        }
        if question.is_some_and(Question::is_about_plans) {
            return self.plans_answered(node, answer, by);
        }
        let index = self.agent_steps_to(node, Move::Start, "answered")?;
        if by != DEFAULT {
            self.note_answer();
        }
        self.unanswered.remove(&index);
        self.make_ready(index);
        let is_for_person = self.is_for_person_at(index);
        let entry = answer_entry(self.id, &self.next_answer(node), node);
        let (_, agent) = self.agent_at(node, "answered")?;
        let question = agent.question.take();
        if by != DEFAULT {
            agent.told_by_person();
        }
        if is_for_person {
            agent.unread = Some((Purpose::Work, Box::new(human::reply_from_person(answer))));
            return Ok(());
        }
        let question = question.map_or_else(String::new, |question| question.text);
        let answer_text = format!("{answer}{ANSWERED_BY}{by})");
        agent.answer_calls(&answer_text);
        let fact = Fact {
            question,
            said: answer_text,
            entry,
            number: 0,
        };
        self.answers.insert(index, fact, by);
        Ok(())
    }

    /// Takes in a person's answer about a criterion or its command.
    fn criterion_answered(&mut self, node: NodeId, answer: &str, by: &str) -> Result<(), JournalError> {
        let index = self.agent_steps_to(node, Move::Verify, "answered")?;
        if by != NOBODY {
            self.note_answer();
        }
        self.unanswered.remove(&index);
        self.make_ready(index);
        let (_, agent) = self.agent_at(node, "answered")?;
        let Some(question) = agent.question.take() else {
            return Ok(());
        };
        let id = question.criterion().unwrap_or_default().to_owned();
        let mut finding = finding_of(answer, by);
        if question.is_permission() {
            if finding == Finding::Met {
                agent.allowed_commands.push(question.call);
                return Ok(());
            }
            if by != NOBODY {
                let why = answer.trim().strip_prefix("no:").map(str::trim).unwrap_or_default();
                let colon = if why.is_empty() { "" } else { ": " };
                finding = Finding::Unverifiable(format!("{by} rejected its command{colon}{why}"));
            }
        } else if by != NOBODY {
            agent.told_by_person();
        }
        let required = agent
            .task
            .criteria
            .iter()
            .any(|criterion| criterion.id == id && criterion.required);
        agent.verdicts.push(Verdict {
            criterion: id,
            required,
            finding,
        });
        Ok(())
    }
}

/// `yes`, with or without more words, means met; everything else means unmet, and says why.
pub(super) fn finding_of(answer: &str, by: &str) -> Finding {
    if by == NOBODY {
        return Finding::Unverifiable("nobody was available to answer".to_owned());
    }
    let words = words_of(answer);
    match words.split(' ').next().unwrap_or_default() {
        "yes" | "y" => Finding::Met,
        _ if words == "no" || words == "n" || words.is_empty() => Finding::Unmet(format!("{by} said no")),
        _ => Finding::Unmet(format!("{by} said: {}", cut(answer.trim(), QUESTION_CHARS))),
    }
}

/// The words of an answer, in lower case.
pub(super) fn words_of(text: &str) -> String {
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join(" ")
}

/// The form in which questions are compared: in lower case, without extra white space or punctuation at the end
/// (E9.14). Nothing else is dropped, because any other character may make it a different question.
pub(super) fn normalised(question: &str) -> String {
    let words = one_line(question).to_lowercase();
    words.trim_end_matches(['?', '.', '!', ' ']).to_owned()
}
