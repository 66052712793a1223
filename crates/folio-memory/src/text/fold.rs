//! Normalization for search: case, accents, width, and the endings of English words.

use std::borrow::Cow;

use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{decompose_canonical, is_combining_mark};

use super::MAX_TERM_BYTES;

/// Words that occur everywhere. A query uses them only if it has no others.
const STOP_WORDS: [&str; 25] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "from", "has", "have", "in", "is", "of", "on", "or",
    "that", "the", "this", "to", "was", "were", "with",
];

/// Returns `word` without case, accents and width, at most [`MAX_TERM_BYTES`] long, and empty if nothing is left.
///
/// The result has only letters, digits and marks; of ASCII only lower-case letters and digits.
pub(super) fn folded(word: &str) -> String {
    let mut folded = String::with_capacity(word.len());
    if word.is_ascii() {
        folded.extend(word.chars().filter(char::is_ascii_alphanumeric));
        folded.make_ascii_lowercase();
    } else {
        for c in word.nfkc() {
            decompose_canonical(c, |part| {
                // To upper case and back, because some capitals have two lower-case letters.
                let plain = part.to_uppercase().flat_map(char::to_lowercase);
                plain.for_each(|plain| push_plain(&mut folded, plain));
            });
        }
    }
    cut(folded)
}

/// The characters of a run of a script without spaces, each in the form in which it is looked up.
pub(super) fn folded_characters(run: &str) -> Vec<char> {
    run.nfkc().filter(|c| is_word_character(*c)).collect()
}

/// Returns a folded word without its English ending.
pub(super) fn stemmed(word: String) -> String {
    if word.len() < 3 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word;
    }
    let stemmer = Stemmer::create(Algorithm::English);
    let stem = match stemmer.stem(&word) {
        Cow::Borrowed(stem) if stem.len() == word.len() => None,
        stem => Some(stem.into_owned()),
    };
    stem.filter(|stem| !stem.is_empty()).unwrap_or(word)
}

/// Whether a folded word is a stop word.
pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(&word)
}

/// Whether `c` can be part of a word, at any position.
pub(super) fn is_word_character(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric()
    } else {
        (c.is_alphanumeric() || is_combining_mark(c)) && !is_ignored(c)
    }
}

/// Whether `c` is invisible but may be part of a word: soft hyphens, joiners, and variation selectors.
pub(crate) fn is_ignored(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
    )
}

fn push_plain(folded: &mut String, c: char) {
    match c {
        'ø' => folded.push('o'),
        'ł' => folded.push('l'),
        'đ' | 'ð' => folded.push('d'),
        'ħ' => folded.push('h'),
        'æ' => folded.push_str("ae"),
        'œ' => folded.push_str("oe"),
        c if is_accent(c) || !is_word_character(c) => {}
        c => folded.push(c),
    }
}

/// Whether `c` is a mark that people leave out: accents, and the points of Hebrew and Arabic. Other marks are vowels.
fn is_accent(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}'
        | '\u{483}'..='\u{489}'
        | '\u{591}'..='\u{5c7}'
        | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}'
        | '\u{670}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}')
}

fn cut(mut word: String) -> String {
    let mut end = word.len().min(MAX_TERM_BYTES);
    while !word.is_char_boundary(end) {
        end -= 1;
    }
    word.truncate(end);
    word
}
