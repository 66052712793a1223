//! Tasks that a person does (E9.17): the task is handed over as a question, nothing else waits for it, and the answer
//! is its result.

use std::fmt::Write as _;

use folio_memory::Timestamp;
use folio_memory::excerpt::{cut, one_line, short_line};
use folio_memory::view::is_blank;
use serde_json::{Value, json};

use super::TalkEntry;
use super::apply::GO_ON;
use super::filled::beside_headings;
use super::repair::value_in;
use super::sizes::Sizes;
use crate::event::{Event, Question};
use crate::node::NodeId;
use crate::plan::{HUMAN, Step};
use crate::run::action::Action;
use crate::run::scope::BodyNeeded;
use crate::run::state::Run;
use crate::run::tree::NodeKind;
use crate::talk::{Reply, Speaker, Stop};
use crate::template::Breaks;

/// The words before the title of the task, at the beginning of such a question.
const FOR_PERSON: &str = "Task for a person: ";
/// The prefix in such a question's `call`, before the number of times that the task was handed over.
const OF_TASK: &str = "task:";
/// The most characters of a task as a person reads it.
const TASK_CHARS: usize = 20_000;
/// The most characters of earlier results in it, so that there is room for the task.
const RESULTS_CHARS: usize = TASK_CHARS / 2;
/// The words with which an answer begins that is not a success.
const OUTCOMES: [&str; 2] = ["failed", "partial"];

impl Question {
    /// Whether the question hands over a task, instead of asking something about one.
    #[must_use]
    pub fn is_task(&self) -> bool {
        self.call.starts_with(OF_TASK)
    }

    /// Whether `answer` says nothing: it is blank, or of a task that is handed over only the word for its outcome.
    #[must_use]
    pub fn is_empty_answer(&self, answer: &str) -> bool {
        let only_outcome = || self.is_task() && outcome_in(answer).is_some_and(|(_, reason)| is_blank(reason));
        is_blank(answer) || only_outcome()
    }

    /// What is asked, in one line of at most `chars` characters: of a task that is handed over, only its title.
    #[must_use]
    pub fn in_brief(&self, chars: usize) -> String {
        let title = self.is_task().then(|| self.text.lines().next()).flatten();
        match title.and_then(|line| line.strip_prefix(FOR_PERSON)) {
            Some(title) => short_line(title, chars),
            None => short_line(&self.text, chars),
        }
    }
}

impl Run {
    /// Whether a person does `node`, because its plan or the decision on it says so.
    #[must_use]
    pub fn is_for_person(&self, node: NodeId) -> bool {
        self.index(node).is_ok_and(|index| self.is_for_person_at(index))
    }

    pub(in crate::run) fn is_for_person_at(&self, index: usize) -> bool {
        self.nodes[index].kind == NodeKind::Model && self.executor_name_at(index) == Some(HUMAN)
    }

    /// The executor that the plan of `node` names, or else the decision on it; `None` if the usual one does it.
    #[must_use]
    pub fn executor_name(&self, node: NodeId) -> Option<&str> {
        self.executor_name_at(self.index(node).ok()?)
    }

    fn executor_name_at(&self, index: usize) -> Option<&str> {
        let assigned_executor = match &self.nodes[index].step {
            Some(Step::Task(task)) => task.executor.as_deref(),
            _ => None,
        };
        let chosen_executor = || self.agent(index)?.executor.as_deref();
        assigned_executor.or_else(chosen_executor)
    }

    /// How often `node` was handed to a person.
    pub(crate) fn times_handed(&self, node: NodeId) -> u32 {
        let index = self.index(node).ok();
        index
            .and_then(|index| self.tally(index))
            .map_or(0, |tally| tally.handed)
    }

    /// Hands node `index` over to a person.
    pub(super) fn hand_over_action(&self, index: usize, now: Timestamp) -> Action {
        let text = match self.task_for_person(index) {
            Ok(text) => text,
            Err(BodyNeeded(hash)) => return Action::Load(hash),
        };
        let agent = self.agent(index);
        let time = agent.and_then(|agent| agent.task.timeout);
        Action::Record(Event::Questioned {
            node: self.nodes[index].id,
            question: Box::new(Question {
                call: format!("{OF_TASK}{}", agent.map_or(0, |agent| agent.handed) + 1),
                text: cut(&text, TASK_CHARS),
                options: Vec::new(),
                default: None,
                deadline: time.map(|time| now.plus(time)),
            }),
        })
    }

    /// The task of node `index` as a person reads it.
    fn task_for_person(&self, index: usize) -> Result<String, BodyNeeded> {
        let mut text = String::new();
        let Some(agent) = self.agent(index) else {
            return Ok(text);
        };
        let (title, description) = self.words_of(index, Breaks::Kept)?;
        let _ = writeln!(text, "{FOR_PERSON}{}", one_line(&title));
        self.put_unnamed_item(&mut text, index, &agent.task);
        if !description.is_empty() && description != title {
            let _ = writeln!(text, "{}", beside_headings(&agent.task.description, &description));
        }
        if !agent.task.reason.is_empty() {
            let reason = self.filled_line(index, &agent.task.reason)?;
            let _ = writeln!(text, "Why: {}", beside_headings(&agent.task.reason, &reason));
        }
        let mut write_list = |head: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                let _ = writeln!(text, "{head}\n- {}", lines.join("\n- "));
            }
        };
        let criteria = agent.task.criteria.iter();
        let criteria = criteria.map(|criterion| {
            let words = self.criterion_words(index, criterion);
            beside_headings(&criterion.text, &words)
        });
        write_list("Done when:", criteria.collect());
        // A person has none of the tools that read more, and no window.
        let sizes = Sizes {
            digests: RESULTS_CHARS,
            can_read: false,
            ..Sizes::of(u32::MAX)
        };
        let before = self.results_before(index, sizes)?;
        write_list(
            "Earlier results:",
            before.iter().map(|digest| without_ids(digest)).collect(),
        );
        if agent.sent_back > 0 || agent.rejections > 0 {
            let last_message = agent.talk.iter().rev().find_map(|entry| match entry {
                TalkEntry::Message(message) if message.speaker == Speaker::User => Some(message.text.as_str()),
                _ => None,
            });
            let said = last_message.unwrap_or_default();
            let _ = writeln!(text, "{}", said.strip_suffix(GO_ON).unwrap_or(said));
        }
        let _ = write!(
            text,
            "Answer with the outcome. If it cannot be done, answer `failed:` and the reason."
        );
        Ok(text)
    }
}

/// The digest of a result without the ids at its end, by which only models and programs read more.
fn without_ids(digest: &str) -> String {
    let (mut text, _) = digest.rsplit_once("\n  id: ").unwrap_or((digest, ""));
    if let Some((before, evidence)) = text.rsplit_once("\n  evidence: ")
        && evidence
            .split(", ")
            .all(|one| one.starts_with("node ") || one.ends_with(" more"))
    {
        text = before;
    }
    text.to_owned()
}

/// The outcome that `answer` begins with, if it is not a success, and what it says besides.
fn outcome_in(answer: &str) -> Option<(&'static str, &str)> {
    let (word, rest) = answer.split_once(':')?;
    let is_it = |outcome: &&&str| word.trim().eq_ignore_ascii_case(outcome);
    OUTCOMES.iter().find(is_it).map(|outcome| (*outcome, rest.trim()))
}

/// A person's answer in the form in which a program answers. An object with `notes` is taken unchanged, other JSON
/// becomes the output; a text may begin with a word that says that it is not a success.
pub(super) fn reply_from_person(answer: &str) -> Reply {
    let answer = answer.trim();
    let report = match value_in(answer) {
        Ok(Value::Object(fields)) if fields.contains_key("notes") => Value::Object(fields),
        Ok(output @ (Value::Object(_) | Value::Array(_))) => json!({"notes": answer, "output": output}),
        _ => {
            let (status, notes) = outcome_in(answer).unwrap_or(("ok", answer));
            json!({"status": status, "notes": notes, "output": notes})
        }
    };
    Reply {
        text: report.to_string(),
        calls: Vec::new(),
        stop: Stop::Done,
        permissions: Vec::new(),
    }
}
