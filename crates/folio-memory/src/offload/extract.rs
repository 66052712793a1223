//! Summarizing a stretch of conversation without a model (M7.8 V8).

use std::collections::HashMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::carried::CARRIED_HEAD;
use super::message::{Call, CallResult};
use super::{Message, Speaker, is_stand_in};
use crate::actor::Trust;
use crate::canonical::canonical;
use crate::excerpt::short_line;
use crate::failing::{around, place_of_failure, places_of, without_escapes};
use crate::id::EntryId;

/// The maximum number of characters of a request, an error or a sentence.
const CHARS: usize = 400;
/// The maximum number of files and addresses.
const TOUCHED: usize = 20;
/// The maximum number of those touched earlier that are counted.
const PASSED: usize = 500;
/// The maximum number of sentences of the user.
const RULES: usize = 24;
/// How many of them are the first ones that were said; the others are the last ones.
const FIRST_RULES: usize = 12;
/// The maximum number of such sentences of the model.
const NOTED: usize = 6;
/// The maximum number of announcements of the model.
const ANNOUNCED: usize = 3;

/// Words that mark a sentence of the user as one to be observed: a rule or a decision.
const RULE_WORDS: [&str; 29] = [
    "must",
    "mustn't",
    "have to",
    "has to",
    "need to",
    "needs to",
    "do not",
    "don't",
    "never",
    "always",
    "no longer",
    "from now on",
    "instead of",
    "decided",
    "agreed",
    "make sure",
    "remember to",
    "todo",
    "fixme",
    "should",
    "shouldn't",
    "muss",
    "niemals",
    "immer",
    "nicht vergessen",
    "必须",
    "不要",
    "なければ",
    "해야",
];
/// Beginnings of a sentence of the user that mark it in the same way.
const RULE_BEGINNINGS: [&str; 4] = ["use ", "only ", "avoid ", "prefer "];
/// Words by which a model announces what it does next.
const ANNOUNCING: [&str; 7] = ["next step", "next steps", "next:", "i will", "i'll", "todo", "fixme"];
/// Names of arguments that hold files, folders and addresses.
const PLACES: [&str; 9] = [
    "path",
    "file",
    "file_path",
    "filename",
    "url",
    "uri",
    "folder",
    "dir",
    "directory",
];

/// The beginning of the line with files and addresses.
pub(super) const TOUCHED_HEAD: &str = "Touched: ";
/// The separator between files and addresses.
pub(super) const TOUCHED_GAP: &str = ", ";
/// The beginning and the end of the first item of that line, which says how many others there were before.
pub(super) const MORE_MARK: [&str; 2] = ["+", " more"];
/// The beginning of the line with what the model announced.
pub(super) const ANNOUNCED_HEAD: &str = "Announced: ";
/// The lines before the sentences: of the user, and of the model.
pub(super) const USER_SAID_HEAD: &str = "The user said:";
pub(super) const MODEL_SAID_HEAD: &str = "The model said:";
/// The line before the sentences of both, as earlier versions wrote it.
pub(super) const SAID_HEAD: &str = "Said:";
/// The beginning of each sentence's line.
pub(super) const SAID_MARK: &str = "- ";

/// Whether `line` is one of those before sentences that were said.
pub(super) fn is_said_head(line: &str) -> bool {
    [USER_SAID_HEAD, MODEL_SAID_HEAD, SAID_HEAD].contains(&line)
}

/// The facts extracted from a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extract {
    /// The user's first request: what all began with. Earlier versions did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// The user's latest request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The model's latest answer: its own words tell better than any rule where its work stood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The latest error, unless the same call went well later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The call that the latest error came from, as a hash of its tool and its arguments; unknown if it is not among the
    /// messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_call: Option<String>,
    /// Whether the error is in the messages that were read last. One from before has been a next action already.
    #[serde(skip)]
    pub is_error_new: bool,
    /// Files and addresses, the last touched last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<String>,
    /// Those touched before them, each as a hash, so that one that is touched again is not counted twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<u32>,
    /// Sentences of the user that state rules and decisions, in order; if there are too many, the first and the last
    /// ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obligations: Vec<String>,
    /// The last sentences of the model that state rules, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noted: Vec<String>,
    /// What the model announced when it last said something. What it announced before is done, or given up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announced: Vec<String>,
    /// Whether the latest request was answered: with a text after which the model called no tool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_answered: bool,
}

/// Extracts from `messages`, which continue from where `found` ended. The same messages give the same result.
///
/// A message that stands in for messages offloaded earlier is skipped, since `found` contains what they came to. Only
/// tools that `may_quote` allows by name are quoted; of the errors of others, which may have read what strangers wrote,
/// only the place is told (M7.8 V11).
#[must_use]
pub fn extract(mut found: Extract, messages: &[Message], may_quote: &dyn Fn(&str) -> bool) -> Extract {
    let mut calls = HashMap::new();
    found.is_error_new = false;
    for message in messages.iter().filter(|message| !is_stand_in(message)) {
        // Later calls take the place of earlier ones with the same id: not all programs give every call its own.
        calls.extend(message.calls.iter().map(|call| (call.id.as_str(), call)));
        let text = message.content.trim();
        let is_said = has_text(message);
        match message.role {
            Speaker::User if is_said => {
                if found.first.is_none() && found.request.is_none() {
                    found.first = Some(short_line(text, CHARS));
                }
                found.request = Some(short_line(text, CHARS));
                found.is_answered = false;
                for sentence in sentences(text).filter(|sentence| is_rule(sentence)) {
                    push_rule(&mut found.obligations, short_line(sentence, CHARS));
                }
            }
            Speaker::Assistant => {
                if is_said {
                    found.answer = Some(short_line(text, CHARS));
                    for sentence in sentences(text).filter(|sentence| is_rule(sentence)) {
                        push_last(&mut found.noted, short_line(sentence, CHARS), NOTED);
                    }
                    found.announced.clear();
                    for sentence in sentences(text).filter(|sentence| has_word(sentence, &ANNOUNCING)) {
                        push_last(&mut found.announced, short_line(sentence, CHARS), ANNOUNCED);
                    }
                }
                found.is_answered = message.calls.is_empty() && (is_said || found.is_answered);
            }
            _ => {}
        }
        for call in &message.calls {
            collect_touched(&call.arguments, &mut found);
        }
        let is_quoted = |result: &CallResult| may_quote(tool_of(&calls, result));
        let own_text = if message.results.iter().all(is_quoted) {
            text
        } else {
            ""
        };
        for word in own_text.split_whitespace() {
            if let Some(at) = word.find("https://").or_else(|| word.find("http://")) {
                let address = word[at..].trim_end_matches(['.', ',', ')', ']', '>', '"', '\'', ';', ':']);
                found.touch(short_line(address, CHARS));
            }
        }
        for result in &message.results {
            let lines = || result.content.lines().map(without_escapes);
            let failure = lines().rev().find_map(|line| Some((place_of_failure(&line)?, line)));
            let failure = failure.or_else(|| {
                let mut lines = lines().filter(|line| result.is_error && !line.trim().is_empty());
                Some((0, lines.next()?))
            });
            let call = calls.get(result.call_id.as_str()).map(|call| fingerprint_of(call));
            let is_well = failure.is_none() && !result.is_error;
            if is_well && call.is_some() && found.failed_call == call {
                // The same call goes well now.
                found.clear_error();
            }
            if let Some((at, line)) = failure {
                found.is_error_new = true;
                found.failed_call = call;
                found.error = Some(if is_quoted(result) {
                    around(&line, at, CHARS)
                } else {
                    let tool = short_line(tool_of(&calls, result), CHARS);
                    format!(
                        "a result of {} reports one; see the history",
                        if tool.is_empty() { "a tool" } else { &tool }
                    )
                });
            }
        }
    }
    found
}

impl Extract {
    fn clear_error(&mut self) {
        (self.error, self.failed_call, self.is_error_new) = (None, None, false);
    }

    /// Notes that `name` was touched last.
    fn touch(&mut self, name: String) {
        if name.is_empty() {
            return;
        }
        self.passed.retain(|passed| *passed != hash_of(&name));
        let is_full = self.touched.len() >= TOUCHED && !self.touched.contains(&name);
        if is_full && self.passed.len() < PASSED {
            self.passed.push(hash_of(&self.touched[0]));
        }
        push_last(&mut self.touched, name, TOUCHED);
    }

    /// Keeps only what `body` still contains: whoever edits a summary decides what is carried on.
    #[must_use]
    pub fn retain_mentioned_in(mut self, body: &str) -> Self {
        let is_mentioned = |text: &String| body.contains(text.as_str());
        self.first = self.first.filter(is_mentioned);
        self.request = self.request.filter(is_mentioned);
        self.answer = self.answer.filter(is_mentioned);
        if !self.error.as_ref().is_some_and(is_mentioned) {
            self.clear_error();
        }
        self.touched.retain(is_mentioned);
        if self.touched.is_empty() {
            self.passed.clear();
        }
        self.announced.retain(is_mentioned);
        self.noted.retain(is_mentioned);
        // Earlier versions kept what the model had announced among them.
        self.obligations.retain(|text| is_mentioned(text) && is_rule(text));
        self
    }

    /// Takes back what the messages after these have settled: an error of a call that went well there, a request that
    /// was answered or followed by another, and what the model announced before it said something else.
    #[must_use]
    pub fn settled_by(mut self, later: &[Message], may_quote: &dyn Fn(&str) -> bool) -> Self {
        let then = extract(self.clone(), later, may_quote);
        let says = |role: Speaker| later.iter().any(|message| message.role == role && has_text(message));
        if then.error.is_none() {
            self.clear_error();
        }
        self.is_error_new &= then.failed_call == self.failed_call && then.error == self.error;
        self.is_answered |= then.is_answered || says(Speaker::User);
        if says(Speaker::Assistant) {
            self.announced.clear();
        }
        self
    }

    /// Whether the messages after these have settled its [next actions](Self::next_actions): the user has said something
    /// else, the model has answered, or, if the request was answered before, the call that failed goes well.
    #[must_use]
    pub fn is_settled_by(&self, later: &[Message], may_quote: &dyn Fn(&str) -> bool) -> bool {
        let unanswered = Self {
            is_answered: false,
            ..self.clone()
        };
        let then = extract(unanswered, later, may_quote);
        let is_request =
            |message: &Message| message.role == Speaker::User && has_text(message) && !is_stand_in(message);
        later.iter().any(is_request) || then.is_answered || (self.is_answered && then.error.is_none())
    }

    /// Shortens the extract until its [`Extract::summary`] fits into `bytes`: first what was touched goes, then what was
    /// announced, then sentences, those of the model and the oldest first.
    #[must_use]
    pub fn within(mut self, bytes: usize) -> Self {
        while self.summary().len() > bytes {
            if !self.touched.is_empty() {
                let passed = self.touched.remove(0);
                self.passed.push(hash_of(&passed));
            } else if !self.announced.is_empty() {
                self.announced.remove(0);
            } else if !self.noted.is_empty() {
                self.noted.remove(0);
            } else if self.obligations.is_empty() {
                break;
            } else {
                self.obligations.remove(0);
            }
        }
        self
    }

    /// The text of the summary: the first request, the latest request and answer, the latest error, what was touched,
    /// what the model announced besides, and the rules that the user and the model said.
    #[must_use]
    pub fn summary(&self) -> String {
        self.summary_after("")
    }

    /// The same, with what is [carried](super::carried) on from the summary before.
    #[must_use]
    pub fn summary_after(&self, carried: &str) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        if let Some(first) = self
            .first
            .as_ref()
            .filter(|first| self.request.as_ref() != Some(*first))
        {
            let _infallible = writeln!(text, "First request: {first}");
        }
        if let Some(request) = &self.request {
            let _infallible = writeln!(text, "Last request: {request}");
        }
        if let Some(answer) = &self.answer {
            let _infallible = writeln!(text, "Last answer: {answer}");
        }
        if let Some(error) = &self.error {
            let _infallible = writeln!(text, "Last error: {error}");
        }
        if !self.touched.is_empty() {
            let more = Some(self.passed.len()).filter(|more| *more > 0).map(more_of);
            let names: Vec<&str> = more.iter().chain(&self.touched).map(String::as_str).collect();
            let _infallible = writeln!(text, "{TOUCHED_HEAD}{}", names.join(TOUCHED_GAP));
        }
        let answer = self.answer.as_deref().unwrap_or_default();
        let announced = self.announced.iter().map(String::as_str);
        let announced: Vec<&str> = announced.filter(|text| !answer.contains(text)).collect();
        if !announced.is_empty() {
            let _infallible = writeln!(text, "{ANNOUNCED_HEAD}{}", announced.join(" "));
        }
        if !carried.is_empty() {
            let _infallible = writeln!(text, "{CARRIED_HEAD}\n{carried}");
        }
        for (head, sentences) in [(USER_SAID_HEAD, &self.obligations), (MODEL_SAID_HEAD, &self.noted)] {
            if !sentences.is_empty() {
                let _infallible = writeln!(text, "{head}");
            }
            for sentence in sentences {
                let _infallible = writeln!(text, "{SAID_MARK}{sentence}");
            }
        }
        text
    }

    /// The next actions, one per line: the latest error if it is new, and the latest request if nobody answered it.
    /// What is an entry, such as a task, is none of them.
    #[must_use]
    pub fn next_actions(&self) -> Vec<String> {
        let error = self.error.iter().filter(|_| self.is_error_new);
        let request = self.request.iter().filter(|_| !self.is_answered);
        let error = error.map(|error| format!("Fix: {error}"));
        error
            .chain(request.map(|request| format!("Continue with: {request}")))
            .collect()
    }
}

/// The item that says how many others were touched before.
fn more_of(more: usize) -> String {
    let [before, after] = MORE_MARK;
    format!("{before}{more}{after}")
}

/// How many others the item says, if it is that one.
pub(super) fn more_in(item: &str) -> Option<usize> {
    let [before, after] = MORE_MARK;
    item.strip_prefix(before)?.strip_suffix(after)?.parse().ok()
}

/// The same for equal names, in every version.
fn hash_of(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// The calls by their ids.
fn calls_by_id(messages: &[Message]) -> HashMap<&str, &Call> {
    let calls = messages.iter().flat_map(|message| &message.calls);
    calls.map(|call| (call.id.as_str(), call)).collect()
}

/// The tool that gave `result`; empty if its call is not among the messages.
fn tool_of<'m>(calls: &HashMap<&'m str, &'m Call>, result: &CallResult) -> &'m str {
    calls
        .get(result.call_id.as_str())
        .map(|call| call.name.as_str())
        .unwrap_or_default()
}

/// The same for every call of a tool with the same arguments. A hash, because arguments may be long.
fn fingerprint_of(call: &Call) -> String {
    let arguments = canonical(call.arguments.clone()).to_string();
    EntryId::derived(&["call", &call.name, &arguments]).to_string()
}

/// The trust in `messages` handed in by somebody of `trust`: that of the least trusted speaker among them. `of_tool`
/// gives the trust in a tool by its name.
#[must_use]
pub fn trust_in(messages: &[Message], trust: Trust, of_tool: &dyn Fn(&str) -> Trust) -> Trust {
    let calls = calls_by_id(messages);
    messages.iter().fold(trust, |trust, message| {
        let by = if message.role == Speaker::Assistant {
            Trust::Model
        } else {
            trust
        };
        let results = message.results.iter().map(|result| of_tool(tool_of(&calls, result)));
        results.fold(trust.min(by), Trust::min)
    })
}

/// Appends `item`, or moves it to the end if it is in the list already, and drops the first items beyond `max_items`.
fn push_last(list: &mut Vec<String>, item: String, max_items: usize) {
    if item.is_empty() {
        return;
    }
    list.retain(|known| *known != item);
    list.push(item);
    if list.len() > max_items {
        list.remove(0);
    }
}

/// Collects the files, folders and addresses that the arguments of a call name.
fn collect_touched(arguments: &Value, found: &mut Extract) {
    match arguments {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if PLACES.contains(&key.as_str()) => {
                        found.touch(short_line(text, CHARS));
                    }
                    Value::Object(_) | Value::Array(_) => collect_touched(value, found),
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_touched(item, found)),
        _ => {}
    }
}

/// Adds `rule` unless it is known. If there are too many, those in the middle go: the first are what all began with, and
/// the last are the newest.
fn push_rule(rules: &mut Vec<String>, rule: String) {
    if rules.contains(&rule) {
        return;
    }
    rules.push(rule);
    if rules.len() > RULES {
        rules.remove(FIRST_RULES);
    }
}

/// Whether `sentence` of a user is to be observed. A question is not.
fn is_rule(sentence: &str) -> bool {
    let lower = sentence
        .trim_start_matches(|c: char| !c.is_alphanumeric())
        .to_lowercase();
    let is_question = sentence.ends_with(['?', '？']);
    !is_question && (RULE_BEGINNINGS.iter().any(|words| lower.starts_with(words)) || has_word(sentence, &RULE_WORDS))
}

fn has_word(sentence: &str, words: &[&str]) -> bool {
    // Models and phones write a different apostrophe than keyboards.
    let lower = sentence.to_lowercase().replace('\u{2019}', "'");
    words.iter().any(|word| places_of(&lower, word).next().is_some())
}

fn has_text(message: &Message) -> bool {
    !message.content.trim().is_empty()
}

/// The sentences of `text`, without list markers.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .flat_map(|line| Sentences(without_marks(line)))
        .map(str::trim)
        .filter(|sentence| !sentence.is_empty())
}

/// The sentences of a line.
struct Sentences<'t>(&'t str);

impl<'t> Iterator for Sentences<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let line = self.0;
        let end = line.char_indices().find_map(|(at, mark)| end_at(line, at, mark));
        let (sentence, rest) = line.split_at(end.unwrap_or(line.len()));
        self.0 = rest;
        (!sentence.is_empty()).then_some(sentence)
    }
}

/// The end of the sentence that `mark`, at `at` in `line`, ends, including closing quotes and brackets. A dot within a
/// name (`src/a.rs`, `example.org`, `1.2`) or of an abbreviation (`e.g.`) does not end a sentence.
fn end_at(line: &str, at: usize, mark: char) -> Option<usize> {
    let is_spaced = matches!(mark, '.' | '!' | '?');
    if !is_spaced && !matches!(mark, '。' | '！' | '？') {
        return None;
    }
    let mut before = line[..at].chars().rev();
    if mark == '.' && before.next().is_some_and(char::is_alphabetic) && before.next() == Some('.') {
        return None;
    }
    let rest = line[at + mark.len_utf8()..]
        .trim_start_matches(['.', '!', '?', '"', '\'', ')', ']', '*', '_', '`', '”', '’', '»', '」']);
    let is_end = !is_spaced || rest.chars().next().is_none_or(char::is_whitespace);
    is_end.then_some(line.len() - rest.len())
}

/// Returns `line` without list markers.
fn without_marks(line: &str) -> &str {
    let mut line = line.trim_start();
    while let Some(item) = ["- ", "* ", "+ ", "• "].iter().find_map(|mark| line.strip_prefix(mark)) {
        line = item.trim_start();
    }
    line
}
