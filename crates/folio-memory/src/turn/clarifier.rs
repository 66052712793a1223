//! The clarifier: whether an input is clear (M7.11.2), and what to ask if it is not.

use std::fmt;

use super::decision::{Decision, Stage, Used};
use super::router::Situation;
use super::words::{words, words_of};
use crate::entry::{Entry, EntryKind, State};
use crate::excerpt::cut;
use crate::goals::ACTION_PATH;
use crate::id::TurnHandle;
use crate::observation::Class;
use crate::query::at_path;
use crate::text::is_ignored;

const YES: &[&str] = &[
    "agreed",
    "approve",
    "approved",
    "confirm",
    "confirmed",
    "correct",
    "ja",
    "ok",
    "okay",
    "sure",
    "yep",
    "yes",
];
const NO: &[&str] = &[
    "cancel", "decline", "declined", "deny", "nein", "never", "no", "nope", "reject", "stop",
];
/// Words of [`YES`] and [`NO`] that also begin an instruction: *stop the server*, *correct the typo*.
const VERBS: &[&str] = &[
    "approve", "cancel", "confirm", "correct", "decline", "deny", "reject", "stop",
];
/// Words that change nothing about the answer that they stand beside.
const BESIDE: &[&str] = &[
    "bitte", "danke", "is", "it", "please", "thank", "thanks", "that", "then", "this", "to", "you",
];
/// Words that stand beside a yes, but contradict a no: *yes, go ahead*.
const BESIDE_YES: &[&str] = &["ahead", "do", "go", "proceed", "right"];
/// What comes after this word may name the subject of the question: *yes, the flight*.
const ARTICLE: &str = "the";
/// Words that limit an answer, also if the question has them.
const LIMITS: &[&str] = &[
    "after", "and", "before", "but", "except", "if", "not", "only", "or", "unless", "until", "when", "without",
];
/// Words in a question that let its answer name what is not meant: *the flight or the train?*
const ALTERNATIVES: &[&str] = &[
    "but", "except", "instead", "nicht", "not", "oder", "or", "rather", "statt", "without",
];
/// The signs that change nothing about an answer. Others may turn it around: *yes?*, *yes 👎*, *~~yes~~*.
const PLAIN_SIGNS: &[char] = &[
    '.', ',', ':', ';', '!', '\'', '"', '(', ')', '[', ']', '#', '*', '_', '`', '-', '–', '—', '…', '‘', '’', '“', '”',
    '„', '«', '»', '、', '。', '，', '！', '👍', '👌', '✅', '🙏', '🙂', '😀', '😊',
];
const POINTING: &[&str] = &["it", "that", "them", "these", "this", "those"];
/// Words that begin a request, which stands for itself: *undo*, *run it again*, *continue*.
const REQUESTS: &[&str] = &[
    "abort",
    "add",
    "again",
    "apply",
    "build",
    "change",
    "check",
    "clean",
    "commit",
    "continue",
    "create",
    "delete",
    "deploy",
    "do",
    "explain",
    "find",
    "fix",
    "forget",
    "give",
    "go",
    "help",
    "implement",
    "install",
    "keep",
    "let",
    "list",
    "look",
    "make",
    "merge",
    "move",
    "next",
    "nochmal",
    "open",
    "proceed",
    "publish",
    "push",
    "read",
    "redo",
    "remove",
    "rename",
    "repeat",
    "rerun",
    "restart",
    "resume",
    "retry",
    "revert",
    "rollback",
    "run",
    "search",
    "send",
    "ship",
    "show",
    "skip",
    "start",
    "summarise",
    "summarize",
    "tell",
    "test",
    "try",
    "undo",
    "update",
    "use",
    "wait",
    "weiter",
    "write",
];
/// Words that begin a question, which stands for itself as well.
const QUESTIONS: &[&str] = &[
    "are", "can", "could", "did", "does", "has", "have", "how", "is", "should", "was", "were", "what", "when", "where",
    "which", "who", "why", "will", "would",
];
/// An input with more words than this explains itself.
const FEW_WORDS_MAX: usize = 6;
/// The prefix of the name of a pending action that waits for an unclear input to be explained: `clarify_t5`.
const CLARIFY: &str = "clarify_";
/// The beginning of the question which of several confirmations was answered. A yes or no never answers this question
/// itself.
const WHICH_QUESTION: &str = "Which of these do you mean";

/// The name of the pending action that waits for the input of `turn` to be explained.
#[must_use]
pub fn clarification_of(turn: TurnHandle) -> String {
    format!("{CLARIFY}{turn}")
}

/// Whether `entry` asks what an earlier input meant, or is the pending action that waits for the explanation.
#[must_use]
pub fn is_clarification(entry: &Entry) -> bool {
    key_of(entry).is_some_and(|key| key.starts_with(CLARIFY))
}

/// A request for clarification that nobody waits for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// The question.
    pub question: Used,
    /// Why nobody waits for it.
    pub by: SettledBy,
}

/// What an input says to a request for clarification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettledBy {
    /// It says what the earlier input meant.
    Answer,
    /// It is a request of its own.
    AnotherRequest,
}

impl Settled {
    /// Why a turn settles the question, for its decision.
    #[must_use]
    pub fn reason(&self) -> String {
        match self.by {
            SettledBy::Answer => format!("says what {} asks", self.question.handle),
            SettledBy::AnotherRequest => format!("moves on from what {} asks", self.question.handle),
        }
    }
}

/// The requests for clarification that the input of `situation` settles, because it restates the earlier input of the
/// thread or moves on to something else (seed 004: the observation is updated when the clarification is received). A
/// confirmation that `clarity` answers is settled by that answer instead.
#[must_use]
pub fn settled_clarifications(situation: &Situation<'_>, clarity: &Clarity) -> Vec<Settled> {
    if situation.background || situation.input.trim().is_empty() {
        return Vec::new();
    }
    // The pending action is in the scratchbook of the thread that was asked.
    let waits: Vec<_> = situation
        .active
        .iter()
        .filter(|entry| entry.kind == EntryKind::PendingAction && entry.state(situation.now) == State::Live)
        .filter_map(key_of)
        .collect();
    let mut asks = situation.of_class(Class::PendingConfirmation);
    asks.retain(|entry| is_clarification(entry) && key_of(entry).is_some_and(|key| waits.contains(&key)));
    asks.retain(|entry| !matches!(clarity, Clarity::Answers(used, _) if used.id == entry.id));
    let settled = |question: &Entry| Settled {
        question: Used::of(question),
        by: if is_own_request(situation.input, question) {
            SettledBy::AnotherRequest
        } else {
            SettledBy::Answer
        },
    };
    asks.into_iter().map(settled).collect()
}

/// Whether `input` stands for itself instead of saying what `question` asks: it begins like a request or a question,
/// whatever courtesy comes first, and has no word in common with what it would answer.
fn is_own_request(input: &str, question: &Entry) -> bool {
    let lower = input.to_lowercase();
    let said = lower.split(|c: char| !c.is_alphanumeric() && c != '\'');
    let mut said = said.filter(|word| !word.is_empty());
    let is_courtesy = |word: &str| BESIDE.contains(&word) && !QUESTIONS.contains(&word);
    let Some(first) = said.find(|word| !is_courtesy(word) && answer_of(word).is_none()) else {
        return false;
    };
    if !REQUESTS.contains(&first) && !QUESTIONS.contains(&first) {
        return false;
    }
    let asked = words_of(question);
    said.all(|word| words(word).is_disjoint(&asked))
}

fn key_of(entry: &Entry) -> Option<&str> {
    at_path(entry.fields.context.as_ref(), ACTION_PATH)?.as_str()
}

/// The answer to a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The action may proceed.
    Yes,
    /// The action must not proceed.
    No,
}

/// The clarifier's assessment of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clarity {
    /// The input can be worked on. Lists the entries that words like *it* were resolved to.
    Clear(Vec<Used>),
    /// The input answers this confirmation.
    Answers(Used, Answer),
    /// Somebody has to be asked.
    Ambiguous {
        /// The question to ask.
        question: String,
        /// Why the input is unclear.
        reason: String,
        /// The entries that it may refer to.
        options: Vec<Used>,
    },
}

impl Clarity {
    /// The assessment as a recorded decision.
    #[must_use]
    pub fn decision(&self) -> Decision {
        let new_decision = |verdict: &str, reasons: Vec<String>, used: Vec<Used>| {
            Decision::new(Stage::Clarifier, verdict, reasons, used)
        };
        match self {
            Self::Clear(used) => new_decision("clear", Vec::new(), used.clone()),
            Self::Answers(confirmation, answer) => {
                let answer_text = match answer {
                    Answer::Yes => "yes",
                    Answer::No => "no",
                };
                new_decision(
                    "answers",
                    vec![format!("says {answer_text} to {}", confirmation.handle)],
                    vec![*confirmation],
                )
            }
            Self::Ambiguous { reason, options, .. } => new_decision("ambiguous", vec![reason.clone()], options.clone()),
        }
    }
}

/// The interface of the clarifier. Rules are the default; [`Stages`](super::Stages) may replace them.
pub trait Clarifier: fmt::Debug + Send + Sync {
    /// Assesses whether the input of `situation` is clear.
    fn assess(&self, situation: &Situation<'_>) -> Clarity;
}

/// The clarifier without a model. It asks only if an input cannot be understood by itself.
///
/// A bare yes or no answers the only confirmation that is outstanding, or the only one that it names; if there are
/// several, or none although something is open, it asks. An input that says more than that is no answer. A short input that points at something ("fix it") refers to the only open entry; if there are several or none, it asks.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleClarifier;

impl Clarifier for RuleClarifier {
    fn assess(&self, situation: &Situation<'_>) -> Clarity {
        let lower = situation.input.to_lowercase();
        let said: Vec<&str> = lower
            .split(|c: char| !c.is_alphanumeric() && c != '\'')
            .filter(|word| !word.is_empty())
            .collect();
        if said.is_empty() || said.len() > FEW_WORDS_MAX || situation.background {
            return Clarity::Clear(Vec::new());
        }
        let mut waiting = situation.of_class(Class::PendingConfirmation);
        waiting.retain(|entry| !(is_clarification(entry) && entry.fields.body.starts_with(WHICH_QUESTION)));
        let named_entries: Vec<_> = waiting
            .iter()
            .filter(|entry| said.contains(&entry.handle.to_string().as_str()))
            .copied()
            .collect();
        let candidates = if named_entries.is_empty() {
            waiting
        } else {
            named_entries
        };
        if let Some((answer, meant)) = bare_answer(&lower, &said, &candidates) {
            return by_answer(situation, answer, &meant, said.len());
        }
        match said.iter().find(|word| POINTING.contains(word)) {
            Some(word) if words(situation.input).len() <= 1 => by_pointing(situation, word),
            _ => Clarity::Clear(Vec::new()),
        }
    }
}

/// What an input answers that is nothing but a yes or a no to `candidates`, with a handle or a subject, or some
/// courtesy, beside it, and those of them that it may mean. A question, a condition or anything else that is said as
/// well makes it another input: what was confirmed cannot be taken back.
fn bare_answer<'e>(input: &str, said: &[&str], candidates: &[&'e Entry]) -> Option<(Answer, Vec<&'e Entry>)> {
    let is_plain = |c: char| c.is_alphanumeric() || c.is_whitespace() || PLAIN_SIGNS.contains(&c);
    // A thumb may have a colour.
    let is_unseen = |c: char| is_ignored(c) || matches!(c, '\u{1f3fb}'..='\u{1f3ff}');
    if !input.chars().all(|c| is_plain(c) || is_unseen(c)) || corrects_something(said) {
        return None;
    }
    let is_handle = |word: &str| candidates.iter().any(|entry| entry.handle.to_string() == word);
    let first = said.iter().find(|word| !is_handle(word))?;
    let answer = answer_of(first)?;
    let mut subject: Option<Vec<&str>> = None;
    for word in said {
        let is_beside = BESIDE.contains(word) || (answer == Answer::Yes && BESIDE_YES.contains(word));
        match (answer_of(word), &mut subject) {
            (Some(other), _) if other == answer => {}
            (Some(_), _) => return None,
            _ if is_handle(word) || is_beside => {}
            (_, None) if *word == ARTICLE && !VERBS.contains(first) => subject = Some(Vec::new()),
            (_, Some(named)) if !LIMITS.contains(word) => named.push(word),
            _ => return None,
        }
    }
    let mut meant = candidates.to_vec();
    if let Some(named) = &subject {
        meant.retain(|entry| is_named(entry, named));
    }
    let asks_for_it =
        |entry: &&Entry| answer == Answer::No && VERBS.iter().any(|verb| said.contains(verb) && asks(entry, verb));
    let is_answer = subject.is_none() || !meant.is_empty();
    (is_answer && !meant.iter().any(asks_for_it)).then_some((answer, meant))
}

/// Whether `said` tells to correct something: *correct it*.
fn corrects_something(said: &[&str]) -> bool {
    said.windows(2)
        .any(|pair| pair[0] == "correct" && POINTING.contains(&pair[1]))
}

fn answer_of(word: &str) -> Option<Answer> {
    if YES.contains(&word) {
        Some(Answer::Yes)
    } else {
        NO.contains(&word).then_some(Answer::No)
    }
}

/// Whether `named` is the subject of what `entry` asks. Each of the words has to be one of its own: a hotel and a
/// flight are of one topic, but to book one is not to book the other.
fn is_named(entry: &Entry, named: &[&str]) -> bool {
    let known = words_of(entry);
    let is_known = |word: &&str| {
        let found = words(word);
        !found.is_empty() && found.is_subset(&known)
    };
    !named.is_empty() && named.iter().all(is_known) && !ALTERNATIVES.iter().any(|word| asks(entry, word))
}

/// Whether `word` is one of those that `entry` asks with.
fn asks(entry: &Entry, word: &str) -> bool {
    let of_text = |text: &str| {
        text.to_lowercase()
            .split(|c: char| !c.is_alphanumeric())
            .any(|found| found == word)
    };
    of_text(&entry.fields.title) || of_text(&entry.fields.body)
}

fn by_answer(situation: &Situation<'_>, answer: Answer, meant: &[&Entry], word_count: usize) -> Clarity {
    match meant {
        // Where nothing is open, the answer is to something that was said, which is not known here.
        [] if word_count <= 2 && !open_work(situation).is_empty() => Clarity::Ambiguous {
            question: "What is that the answer to? Nothing waits for one.".to_owned(),
            reason: "an answer without a question".to_owned(),
            options: Vec::new(),
        },
        [] => Clarity::Clear(Vec::new()),
        [only] => Clarity::Answers(Used::of(only), answer),
        candidates => Clarity::Ambiguous {
            question: format!("{WHICH_QUESTION}: {}?", texts(candidates)),
            reason: format!("{} confirmations are waited for", candidates.len()),
            options: candidates.iter().map(|entry| Used::of(entry)).collect(),
        },
    }
}

fn by_pointing(situation: &Situation<'_>, word: &str) -> Clarity {
    match open_work(situation)[..] {
        [only] => Clarity::Clear(vec![Used::of(only)]),
        [] => Clarity::Ambiguous {
            question: format!("What does {word:?} mean here? Nothing is open that it could be."),
            reason: format!("{word:?} points at nothing"),
            options: Vec::new(),
        },
        ref candidates => Clarity::Ambiguous {
            question: format!("What does {word:?} mean: {}?", texts(candidates)),
            reason: format!("{word:?} may be any of {}", candidates.len()),
            options: candidates.iter().map(|entry| Used::of(entry)).collect(),
        },
    }
}

/// The open work that an input may be about.
fn open_work<'a>(situation: &Situation<'a>) -> Vec<&'a Entry> {
    let is_open = |entry: &&Entry| {
        matches!(
            entry.kind,
            EntryKind::Goal | EntryKind::PendingAction | EntryKind::Task | EntryKind::Todo
        ) && entry.state(situation.now) == State::Live
            && !is_clarification(entry)
    };
    situation.active.iter().filter(is_open).collect()
}

/// Lists a few candidates with their handles.
fn texts(entries: &[&Entry]) -> String {
    let line = |entry: &&Entry| {
        let text = [&entry.fields.title, &entry.fields.body]
            .into_iter()
            .find(|text| !text.is_empty())
            .and_then(|text| text.lines().next())
            .unwrap_or_default();
        format!("{} {}", entry.handle, cut(text, 60))
    };
    entries.iter().take(5).map(line).collect::<Vec<_>>().join("; ")
}
