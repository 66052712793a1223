//! Near-duplicate texts, found by the hashes of all runs of four characters.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::UnicodeNormalization;

use crate::text::is_picture;

/// The number of characters in a shingle.
const LENGTH: usize = 4;
/// Two texts say nearly the same if at most one in so many of their shingles, counted together, is in one of them only.
/// Of all different shingles, six tenths are then common.
const DIFFERING_MAX: usize = 4;
/// The number of shingles by which a cluster is looked up. Two similar texts share one of their smallest shingles in
/// all but one of more than a thousand cases.
const KEYS: usize = 8;

/// What contracted negations stand for.
const NOT: &str = "not";
/// Contracted negations as they are written in haste.
const CONTRACTED: &[&str] = &[
    "arent", "cannot", "cant", "couldnt", "didnt", "doesnt", "dont", "hasnt", "havent", "isnt", "shouldnt", "wasnt",
    "werent", "wont", "wouldnt",
];

/// A text as far as comparisons need it.
#[derive(Debug, Clone)]
pub(super) struct Sketch {
    /// The shingles, sorted and without duplicates.
    shingles: Vec<u64>,
    /// The words and signs that can change the meaning of similar texts; the whole text if it has no words.
    told_by: BTreeSet<String>,
}

impl Sketch {
    /// Creates a sketch of `text` in lower case, with its words separated by single spaces. Composed and decomposed
    /// accents are equal.
    pub(super) fn of(text: &str, negations: &[&str]) -> Self {
        let composed = match text.is_ascii() {
            true => Cow::Borrowed(text),
            false => Cow::Owned(text.nfc().collect()),
        };
        let lower = composed.to_lowercase();
        let words: Vec<&str> = lower
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let chars: Vec<char> = words.join(" ").chars().collect();
        let mut shingles: Vec<u64> = if chars.len() < LENGTH {
            vec![hash(&chars)]
        } else {
            chars.windows(LENGTH).map(hash).collect()
        };
        shingles.sort_unstable();
        shingles.dedup();
        let mut told_by = signs(&lower);
        if words.is_empty() {
            told_by.insert(lower.trim().to_owned());
        }
        if is_contracted(&lower, &words) {
            told_by.insert(NOT.to_owned());
        }
        let found_negations = words.into_iter().filter(|word| negations.contains(word));
        told_by.extend(found_negations.map(str::to_owned));
        Self { shingles, told_by }
    }

    /// Whether both texts say nearly the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        if self.told_by != other.told_by {
            return false;
        }
        // That six tenths of all shingles are common means that a quarter of both together, or less, are not. Most
        // texts differ by more than that long before their end.
        let both = self.shingles.len() + other.shingles.len();
        let (mut a, mut b, mut differing) = (0, 0, 0);
        while let (Some(left), Some(right)) = (self.shingles.get(a), other.shingles.get(b)) {
            match left.cmp(right) {
                std::cmp::Ordering::Less => (a, differing) = (a + 1, differing + 1),
                std::cmp::Ordering::Greater => (b, differing) = (b + 1, differing + 1),
                std::cmp::Ordering::Equal => (a, b) = (a + 1, b + 1),
            }
            if differing * DIFFERING_MAX > both {
                return false;
            }
        }
        (differing + both - a - b) * DIFFERING_MAX <= both
    }

    fn keys(&self) -> &[u64] {
        &self.shingles[..self.shingles.len().min(KEYS)]
    }
}

/// Whether `text` in lower case, with these words, has a negation that is contracted with its verb, with any kind of
/// apostrophe or without one.
fn is_contracted(text: &str, words: &[&str]) -> bool {
    let mut ends = text.match_indices("n").map(|(at, n)| text[at + n.len()..].chars());
    let is_end = |mut rest: std::str::Chars<'_>| {
        matches!(
            rest.next(),
            Some('\'' | '\u{2bc}' | '\u{2018}' | '\u{2019}' | '\u{ff07}')
        ) && rest.next() == Some('t')
            && !rest.next().is_some_and(char::is_alphanumeric)
    };
    ends.any(is_end) || words.iter().any(|word| CONTRACTED.contains(word))
}

/// The numbers in `text`, of releases and floors too, in their order: with two of them exchanged, it says something else.
pub(super) fn numbers_in(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let numbers: Vec<&str> = words.filter(|word| word.contains(char::is_numeric)).collect();
    numbers.join(" ").to_lowercase()
}

/// The signs of `text` that carry meaning: those of names and grades (`C++`, `C#`), of negative numbers, percentages
/// and comparisons, and emoji. All other signs between words are only notation.
fn signs(text: &str) -> BTreeSet<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut signs = BTreeSet::new();
    for (at, c) in chars.iter().enumerate() {
        let (before, rest) = (at.checked_sub(1).map(|at| chars[at]), &chars[at..]);
        let follows_word = before.is_some_and(char::is_alphanumeric);
        let is_negative = || !follows_word && rest.get(1).is_some_and(char::is_ascii_digit);
        match c {
            '+' | '#' if follows_word => {
                signs.insert(rest.iter().take_while(|c| matches!(c, '+' | '#')).collect());
            }
            '-' | '\u{2212}' if is_negative() => {
                signs.insert("-".to_owned());
            }
            // After these characters, it is the head of an arrow.
            '>' if matches!(before, Some('-' | '=')) => {}
            // Skin tones of emoji.
            '\u{1f3fb}'..='\u{1f3ff}' => {}
            '%' | '<' | '>' => {
                signs.insert(c.to_string());
            }
            c if is_picture(*c) => {
                signs.insert(c.to_string());
            }
            _ => {}
        }
    }
    signs
}

/// Clusters of texts that say nearly the same as the first text of their cluster.
#[derive(Debug, Default)]
pub(super) struct Clusters {
    clusters: Vec<(Sketch, Vec<usize>)>,
    by_key: BTreeMap<u64, Vec<usize>>,
}

impl Clusters {
    /// Adds the text number `index` to the oldest cluster that it is similar to, or to a new one.
    pub(super) fn add(&mut self, index: usize, sketch: Sketch) {
        let candidates: BTreeSet<usize> = sketch
            .keys()
            .iter()
            .filter_map(|key| self.by_key.get(key))
            .flatten()
            .copied()
            .collect();
        let cluster_index = candidates.into_iter().find(|at| self.clusters[*at].0.is_like(&sketch));
        if let Some(at) = cluster_index {
            self.clusters[at].1.push(index);
            return;
        }
        let at = self.clusters.len();
        for key in sketch.keys() {
            self.by_key.entry(*key).or_default().push(at);
        }
        self.clusters.push((sketch, vec![index]));
    }

    /// The members of each cluster, in the order in which they were added.
    pub(super) fn into_members(self) -> impl Iterator<Item = Vec<usize>> {
        self.clusters.into_iter().map(|(_, members)| members)
    }
}

/// FNV-1a, which gives the same hash on every machine, with its bits mixed: the choice of the smallest hashes must not
/// depend on the alphabet.
fn hash(chars: &[char]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for c in chars {
        hash = (hash ^ u64::from(u32::from(*c))).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alike(a: &str, b: &str) -> bool {
        Sketch::of(a, &["not", "dislikes"]).is_like(&Sketch::of(b, &["not", "dislikes"]))
    }

    #[test]
    fn texts_differing_in_case_punctuation_or_a_word_are_alike_m7_9() {
        assert!(alike("User prefers Burgundy wines", "user prefers burgundy wine!"));
        assert!(alike("User prefers Burgundy wines", "The user prefers Burgundy wines"));
        assert!(!alike("User prefers Burgundy wines", "User has a budget of 50"));
        assert!(alike("", ""));
    }

    #[test]
    fn meaningful_symbols_make_texts_unlike_m7_9() {
        for (a, b) in [
            ("User prefers C++", "User prefers C#"),
            ("User prefers C++", "User prefers C"),
            ("The room is at -5 degrees", "The room is at 5 degrees"),
            ("Wants a discount of 5%", "Wants a discount of 5"),
            ("Latency is < 50 ms", "Latency is > 50 ms"),
            ("Reacted with 👍 to the plan", "Reacted with 👎 to the plan"),
            ("👍", "👎"),
            ("!!!", "???"),
            ("", "?"),
        ] {
            assert!(!alike(a, b), "{a:?} {b:?}");
            assert!(alike(a, a) && alike(b, b), "{a:?} {b:?}");
        }
        for (a, b) in [
            (
                "The disk of the server is 91% full",
                "The disk of the server is 93 % full",
            ),
            ("Prefers a re-run, on 2026-11-28", "prefers a re run on 2026/11/28!"),
            ("#wine: prefers Burgundy", "wine -> prefers Burgundy"),
            ("Reacted with 👍🏽 to the plan", "Reacted with 👍 to the plan"),
            ("Meets at the caf\u{e9}", "Meets at the cafe\u{301}"),
            (" ?? ", "??"),
        ] {
            assert!(alike(a, b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn numbers_of_a_text_are_compared_in_their_order_m7_9() {
        assert_eq!(numbers_in("Room 5 on floor 3, release V2"), "5 3 v2");
        assert_ne!(numbers_in("floor 3 has 5 desks"), numbers_in("floor 5 has 3 desks"));
        assert_eq!(numbers_in("no desks"), "");
    }

    #[test]
    fn contracted_negation_makes_texts_unlike_m7_9() {
        let says = |verb: &str| format!("The staging cluster {verb} need an approval before each deploy");
        for (verb, negated) in [
            ("does", "doesn't"),
            ("does", "doesn\u{2019}t"),
            ("can", "can't"),
            ("should", "shouldn't"),
            ("did", "didn\u{2bc}t"),
            ("do", "don't"),
            ("will", "won't"),
            ("does", "doesnt"),
        ] {
            assert!(!alike(&says(verb), &says(negated)), "{negated}");
            assert!(alike(&says(negated), &says(negated).to_uppercase()), "{negated}");
        }
        assert!(alike(&says("doesn't"), &says("doesn\u{2019}t")));
    }

    #[test]
    fn texts_of_opposite_meaning_are_unlike_m7_9() {
        assert!(!alike(
            "User likes sweet Burgundy wines",
            "User dislikes sweet Burgundy wines"
        ));
        assert!(!alike("The disk is full again", "The disk is not full again"));
    }
}
