//! What people answered to questions of models: facts that every task of a run may know (E9.14).

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use folio_memory::EntryId;
use folio_memory::excerpt::short_line;
use serde_json::Value;

use super::Agent;
use super::digest::value_excerpt;
use super::people::{ANSWERED_BY, normalised};
use super::schema::ASK_PERSON;
use super::sizes::{DIGEST_MIN, Need, Sizes, shares};
use crate::lines::push_list_item;
use crate::run::state::Run;
use crate::talk::{Message, Purpose, Speaker, Wanted};

/// The name under which the default of a question is recorded as its answer.
pub(in crate::run) const DEFAULT: &str = "default";

/// The characters of a question that are always shown.
const QUESTION_MIN: usize = 80;

/// A person's answer to a question.
#[derive(Debug, Clone)]
pub(in crate::run) struct Fact {
    /// The question, as it was asked.
    pub(super) question: String,
    /// The answer as a model is told it, with the name of whoever gave it.
    pub(super) said: String,
    /// The entry with the whole answer.
    pub(super) entry: EntryId,
    /// How many answers were given before it.
    pub(super) number: u32,
}

/// The answers that tasks of a run were given.
#[derive(Debug, Default)]
pub(in crate::run) struct Facts {
    /// What people said, by question. The last answer counts; the earlier ones are kept for requests that are repeated.
    said: BTreeMap<String, Vec<Fact>>,
    /// Defaults that held because nobody answered, by the task that asked and its question. They are no facts for other
    /// tasks, whose defaults and options may be different (E9.14).
    defaults: BTreeMap<(usize, String), Fact>,
    /// The number of answers so far.
    pub(super) given: u32,
}

impl Facts {
    /// Adds what node `index` was answered by `by`.
    pub(super) fn insert(&mut self, index: usize, mut fact: Fact, by: &str) {
        fact.number = self.given;
        self.given += 1;
        let question = normalised(&fact.question);
        if by == DEFAULT {
            self.defaults.insert((index, question), fact);
        } else {
            self.said.entry(question).or_default().push(fact);
        }
    }

    /// The answer of a person to `question`.
    pub(super) fn said(&self, question: &str) -> Option<&Fact> {
        self.said.get(&normalised(question))?.last()
    }

    /// The answer to `question` that node `index` may know: that of a person, or its own default.
    pub(super) fn known_to(&self, index: usize, question: &str) -> Option<&Fact> {
        let own = || self.defaults.get(&(index, normalised(question)));
        self.said(question).or_else(own)
    }

    /// What node `index` may know of the first `count` answers, in the order of the questions.
    fn of(&self, index: usize, count: u32) -> Vec<&Fact> {
        let mut known: BTreeMap<&str, &Fact> = BTreeMap::new();
        let own = self.defaults.range((index, String::new())..(index + 1, String::new()));
        let own = own.map(|((_, question), fact)| (question, fact));
        let said = self.said.iter();
        let said = said.flat_map(|(question, facts)| facts.iter().map(move |fact| (question, fact)));
        for (question, fact) in own.chain(said).filter(|(_, fact)| fact.number < count) {
            known.insert(question, fact);
        }
        known.into_values().collect()
    }

    /// Whether `text` is what a model was told of a person's answer.
    pub(super) fn are_of_people(&self, text: &str) -> bool {
        self.said.values().flatten().any(|fact| fact.said == text)
    }

    /// Every answer, whoever may know it.
    fn all(&self) -> impl Iterator<Item = &Fact> {
        self.said.values().flatten().chain(self.defaults.values())
    }
}

impl Fact {
    /// The answer, and who gave it.
    pub(super) fn parts(&self) -> (&str, &str) {
        let (answer, by) = self.said.rsplit_once(ANSWERED_BY).unwrap_or((&self.said, ""));
        (answer, by.strip_suffix(')').unwrap_or(by))
    }

    /// What a model is told, in at most about `max` characters: the beginning and end of a long answer, and where the
    /// rest is.
    fn answer_excerpt(&self, max: usize, sizes: Sizes) -> String {
        if self.said.chars().count() <= max {
            return self.said.clone();
        }
        let (answer, by) = self.parts();
        let answer = value_excerpt(&Value::String(answer.to_owned()), max, &sizes.rest_of(self.entry));
        format!("{answer}{ANSWERED_BY}{by})")
    }
}

impl Run {
    /// `message` as whoever works on node `index` reads it: a person's answer is shortened to the room that there is.
    pub(super) fn bounded(&self, index: usize, mut message: Message) -> Message {
        let sizes = self.sizes(index, Purpose::Work);
        let max = sizes.answer;
        if message.speaker == Speaker::Tool
            && message.text.len() > max
            && let Some(fact) = self.answers.all().find(|fact| fact.said == message.text)
        {
            message.text = fact.answer_excerpt(max, sizes);
        }
        message
    }

    /// Whether `refused` contains an answer that a person gave elsewhere and that the conversation of node `index` did
    /// not contain yet: then the question was not in vain.
    pub(super) fn has_new_answer(&self, index: usize, refused: &BTreeMap<String, String>) -> bool {
        let Some(agent) = self.agent(index) else { return false };
        let known = answers_in(agent);
        let calls = agent.unread.iter().flat_map(|(_, reply)| &reply.calls);
        let mut told = calls.filter_map(|call| Some((question_of(call)?, refused.get(&call.id)?.as_str())));
        told.any(|(question, told)| {
            let is_it = |fact: &Fact| fact.said == told && normalised(&fact.question) == question;
            self.answers.all().any(is_it) && !known.contains(&(question.clone(), told))
        })
    }

    /// Adds what people answered anywhere in the run, except what whoever is asked for `purpose` reads in the
    /// conversation of node `index`. All answers share a part of the room for results; those that do not fit are counted.
    pub(super) fn put_answers(&self, text: &mut String, index: usize, purpose: Purpose, sizes: Sizes) {
        let reads_talk = !matches!(purpose, Purpose::Judge | Purpose::HandBack);
        let agent = self.agent(index).filter(|_| reads_talk);
        let told = agent.map(answers_in).unwrap_or_default();
        let is_told = |fact: &&Fact| told.contains(&(normalised(&fact.question), fact.said.as_str()));
        // A request that is repeated says what it said when nobody saw its end (E9.9).
        let repeated = self.agent(index).filter(|agent| agent.is_repeating);
        let count = repeated.map_or(self.answers.given, |agent| agent.answers_given);
        let mut facts: Vec<&Fact> = self
            .answers
            .of(index, count)
            .into_iter()
            .filter(|fact| !is_told(fact))
            .collect();
        if facts.is_empty() {
            return;
        }
        let room = sizes.answers();
        let left_out = facts.len().saturating_sub((room / DIGEST_MIN).max(2));
        facts.truncate(facts.len() - left_out);
        let needs = facts.iter().map(|fact| Need {
            chars: (fact.question.chars().count() + fact.said.chars().count()).min(sizes.digest),
            weight: 1,
        });
        let shares = shares(&needs.collect::<Vec<_>>(), room);
        text.push_str("# Answers from people\n");
        for (fact, share) in facts.into_iter().zip(shares) {
            let mut line = short_line(&fact.question, (share / 2).max(QUESTION_MIN));
            let rest = share.saturating_sub(line.chars().count());
            let _ = write!(line, " -> {}", fact.answer_excerpt(rest, sizes));
            push_list_item(text, &line);
        }
        if left_out > 0 {
            // Whoever works has this tool, whatever others the task has.
            let hint = match purpose {
                Purpose::Decide | Purpose::Work => ": ask_person returns an answer already given",
                _ => "",
            };
            push_list_item(text, &format!("and {left_out} more{hint}"));
        }
    }
}

/// The question that `call` asks a person, in the form in which questions are compared.
fn question_of(call: &Wanted) -> Option<String> {
    let question = call.args.get("question")?.as_str()?;
    (call.tool == ASK_PERSON).then(|| normalised(question))
}

/// The questions in the conversation of `agent`, each with what was answered: another question may have the same answer.
fn answers_in(agent: &Agent) -> HashSet<(String, &str)> {
    let answered = agent.answered_calls().into_iter();
    answered
        .filter_map(|(call, told)| Some((question_of(call)?, told)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_author_name_keeps_its_parentheses_e9_14() {
        for by in ["Ann", "Ann (QA)", ""] {
            let fact = Fact {
                question: "which?".to_owned(),
                said: format!("the left one (of two){ANSWERED_BY}{by})"),
                entry: EntryId::derived(&["an answer"]),
                number: 0,
            };
            assert_eq!(fact.parts(), ("the left one (of two)", by));
        }
    }
}
