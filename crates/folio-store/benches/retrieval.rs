//! Measures how well search finds what was added: `cargo bench -p folio-store --bench retrieval`.
//!
//! Passages of a text in the public domain (`benches/retrieval`) are added as observations. From each of them three
//! questions are made, always the same, and search should find the passage from which a question was made. The results
//! are compared to two ways of searching with nothing but `grep`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that prints what it found"
)]

use std::collections::HashSet;
use std::sync::Arc;

use folio_memory::observation::ObservationInput;
use folio_memory::{Actor, EntryKind, EntryQuery, Role, SpaceName, TextMatch};
use folio_store::sqlite::OpenOptions;
use folio_store::{RandomIds, SqliteStore, SystemClock, Workspace};

/// How many results of an answer are looked at.
const DEPTH: usize = 10;

/// Words that no question contains.
const SMALL_WORDS: &str = "a about after also an and any are as at be because been but by can could did do does for from \
                           had has have how i if in into is it its like may more most not of often on one only or other \
                           out over see so some such than that the their them then there these they this those to up \
                           used using was way were what when where which while who will with would you your";

struct Passage {
    title: String,
    text: String,
}

/// The ways in which questions are made.
#[derive(Clone, Copy)]
enum Kind {
    /// Four words of the passage, in any order.
    Keywords,
    /// Eight consecutive words, after a beginning that occurs nowhere.
    Clause,
    /// Four words in another form, in a sentence.
    OtherForms,
}

impl Kind {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Keywords, "four words"),
        (Self::Clause, "a clause"),
        (Self::OtherForms, "other forms of four words"),
    ];
}

fn passages() -> Vec<Passage> {
    let text = include_str!("../../../benches/retrieval/jargon.txt");
    text.split("\n\n")
        .filter_map(|block| block.trim().split_once('\n'))
        .map(|(title, text)| Passage {
            title: title.to_owned(),
            text: text.replace('\n', " "),
        })
        .collect()
}

/// A number that depends only on `text` and `salt` (FNV-1a).
fn mixed(text: &str, salt: u64) -> u64 {
    text.bytes().fold(
        0xcbf2_9ce4_8422_2325 ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3),
    )
}

/// The meaningful words of `text`, without those of `title`, each once.
fn telling_words(text: &str, title: &str) -> Vec<String> {
    let small: HashSet<&str> = SMALL_WORDS.split_whitespace().collect();
    let title = title.to_lowercase();
    let mut seen = HashSet::new();
    text.split(|c: char| !c.is_alphabetic())
        .map(str::to_lowercase)
        .filter(|word| {
            word.len() >= 4 && word.is_ascii() && !small.contains(word.as_str()) && !title.contains(word.as_str())
        })
        .filter(|word| seen.insert(word.clone()))
        .collect()
}

fn other_form(word: &str) -> String {
    let form = match word {
        _ if word.ends_with("ing") && word.len() > 6 => format!("{}ed", &word[..word.len() - 3]),
        _ if word.ends_with("ed") && word.len() > 5 => format!("{}ing", &word[..word.len() - 2]),
        _ if word.ends_with('s') && !word.ends_with("ss") => word[..word.len() - 1].to_owned(),
        _ => format!("{word}s"),
    };
    let (first, rest) = form.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

/// A question whose answer is `passage`; `None` if it is too short for one.
fn question(passage: &Passage, kind: Kind) -> Option<String> {
    let mut words = telling_words(&passage.text, &passage.title);
    let drawn = |words: &mut Vec<String>, salt| {
        words.sort_by_key(|word| mixed(word, salt));
        words.truncate(4);
        (words.len() == 4).then(|| words.clone())
    };
    match kind {
        Kind::Keywords => Some(drawn(&mut words, 1)?.join(" ")),
        Kind::Clause => {
            let all: Vec<&str> = passage.text.split_whitespace().collect();
            let last = all.len().checked_sub(8)?;
            let from = usize::try_from(mixed(&passage.text, 2) % (last as u64 + 1)).ok()?;
            Some(format!("what was that with {}", all[from..from + 8].join(" ")))
        }
        Kind::OtherForms => {
            let forms: Vec<_> = drawn(&mut words, 3)?.iter().map(|word| other_form(word)).collect();
            Some(format!(
                "how do {} and {} go with {} or {}?",
                forms[0], forms[1], forms[2], forms[3]
            ))
        }
    }
}

/// The score of a way of searching.
#[derive(Default)]
struct Score {
    asked: f64,
    in_five: f64,
    in_ten: f64,
    reciprocal: f64,
}

impl Score {
    fn count(&mut self, rank: Option<usize>) {
        self.asked += 1.0;
        if let Some(rank) = rank {
            self.in_five += f64::from(u8::from(rank < 5));
            self.in_ten += f64::from(u8::from(rank < 10));
            self.reciprocal += 1.0 / (f64::from(u32::try_from(rank).unwrap()) + 1.0);
        }
    }

    fn print(&self, kind: &str, way: &str) {
        let part = |sum: f64| sum / self.asked;
        println!(
            "| {kind} | {way} | {:.3} | {:.3} | {:.3} |",
            part(self.in_five),
            part(self.in_ten),
            part(self.reciprocal)
        );
    }
}

/// The rank of the answer among the passages with all words of `question`, the last passage first.
fn grep_all(lowered: &[String], question: &str, answer: usize) -> Option<usize> {
    let question = question.to_lowercase();
    let words: Vec<&str> = question.split_whitespace().collect();
    let found = (0..lowered.len())
        .rev()
        .filter(|n| words.iter().all(|word| lowered[*n].contains(word)));
    found.take(DEPTH).position(|n| n == answer)
}

/// The same for passages with most of the words.
fn grep_most(lowered: &[String], question: &str, answer: usize) -> Option<usize> {
    let question = question.to_lowercase();
    let words: Vec<&str> = question
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let mut found: Vec<_> = (0..lowered.len()).rev().collect();
    found.sort_by_key(|n| std::cmp::Reverse(words.iter().filter(|word| lowered[*n].contains(**word)).count()));
    found.into_iter().take(DEPTH).position(|n| n == answer)
}

/// The rank of `answer` in the result of `folio search`, or in the same without its second, looser search.
async fn search(workspace: &Workspace, question: &str, how: Option<TextMatch>, answer: &str) -> Option<usize> {
    let query = EntryQuery {
        text: Some(question.to_owned()),
        kinds: vec![EntryKind::Observation],
        text_match: how.unwrap_or_default(),
        limit: u32::try_from(DEPTH).unwrap(),
        ..EntryQuery::default()
    };
    let found = match how {
        Some(_) => workspace.entries(&query).await.unwrap(),
        None => workspace.search(&query).await.unwrap().0,
    };
    found.items.iter().position(|entry| entry.fields.title == answer)
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("retrieval.db"))).unwrap();
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
    let workspace = Workspace::new(store, clock, ids, SpaceName::main());
    let passages = passages();
    let actor = Actor::new(Role::Human, "bench");
    for passage in &passages {
        let input = ObservationInput {
            title: Some(passage.title.clone()),
            content: passage.text.clone(),
            ..ObservationInput::default()
        };
        workspace.add_observation(&actor, input, None).await.unwrap();
    }
    let lowered: Vec<_> = passages
        .iter()
        .map(|passage| format!("{} {}", passage.title, passage.text).to_lowercase())
        .collect();
    let ways = [
        "folio search",
        "any of the words",
        "all of the words",
        "grep, most of the words",
        "grep, all of the words",
    ];
    let mut overall: [Score; 5] = Default::default();
    println!("| questions made of | way | recall@5 | recall@10 | MRR@10 |\n|---|---|---|---|---|");
    let mut asked = 0;
    for (kind, name) in Kind::ALL {
        let mut scores: [Score; 5] = Default::default();
        for (answer, passage) in passages.iter().enumerate() {
            let Some(question) = question(passage, kind) else {
                continue;
            };
            asked += 1;
            let ranks = [
                search(&workspace, &question, None, &passage.title).await,
                search(&workspace, &question, Some(TextMatch::Any), &passage.title).await,
                search(&workspace, &question, Some(TextMatch::All), &passage.title).await,
                grep_most(&lowered, &question, answer),
                grep_all(&lowered, &question, answer),
            ];
            for (at, rank) in ranks.into_iter().enumerate() {
                scores[at].count(rank);
                overall[at].count(rank);
            }
        }
        for (score, way) in scores.iter().zip(ways) {
            score.print(name, way);
        }
    }
    for (score, way) in overall.iter().zip(ways) {
        score.print("all", way);
    }
    println!("\n{asked} questions to {} passages", passages.len());
}
