//! The terms of a text and their positions.

use std::ops::Range;

use super::fold::{self, folded, folded_characters, is_ignored, is_word_character, stemmed};

/// A term with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// The bytes of the text that the term stands for.
    pub(super) range: Range<usize>,
    /// The term under which it is looked up.
    pub(super) term: String,
    pub(super) sort: TokenKind,
}

/// The kind of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A word.
    Word,
    /// A stop word.
    StopWord,
    /// A compound name, in addition to its words.
    Name,
    /// One character of a run of a script without spaces.
    Character,
    /// Two adjacent characters of such a run.
    Pair,
}

/// The terms of `text`.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = Token> {
    words(text).flat_map(|word| tokens_of(text, word))
}

/// The words between spaces and signs. An underscore joins words, and an emoji or an arrow is a word of its own.
pub(super) fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = chars.find(|(_, c)| is_inside(*c) || is_picture(*c))?;
        let mut end = start + first.len_utf8();
        if is_picture(first) {
            return Some(start..end);
        }
        while let Some((at, c)) = chars.next_if(|(_, c)| is_inside(*c)) {
            end = at + c.len_utf8();
        }
        Some(start..end)
    })
    .filter({
        // The s of an English possessive.
        let bytes = text.as_bytes();
        move |word: &Range<usize>| {
            let is_s = word.len() == 1 && matches!(bytes[word.start], b's' | b'S');
            !(is_s && text[..word.start].ends_with(['\'', '’']))
        }
    })
}

/// The terms of one of the [`words`].
pub(super) fn tokens_of(text: &str, word: Range<usize>) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut names = 0;
    for (run, is_spaceless) in runs(&text[word.clone()]) {
        let run = word.start + run.start..word.start + run.end;
        if is_spaceless {
            push_characters(&text[run.clone()], run.start, &mut tokens);
            continue;
        }
        let parts = parts(&text[run.clone()]);
        if parts.len() > 1 {
            names += 1;
            push_word(text, run.clone(), TokenKind::Name, &mut tokens);
        }
        for part in parts {
            push_word(
                text,
                run.start + part.start..run.start + part.end,
                TokenKind::Word,
                &mut tokens,
            );
        }
    }
    if names == 0 && tokens.is_empty() && text[word.clone()].chars().all(is_picture) {
        let term = text[word.clone()].to_owned();
        tokens.push(Token {
            range: word,
            term,
            sort: TokenKind::Word,
        });
    }
    tokens
}

fn push_word(text: &str, range: Range<usize>, sort: TokenKind, tokens: &mut Vec<Token>) {
    let word = folded(&text[range.clone()]);
    if word.is_empty() {
        return;
    }
    let sort = if sort == TokenKind::Word && fold::is_stop_word(&word) {
        TokenKind::StopWord
    } else {
        sort
    };
    tokens.push(Token {
        range,
        term: stemmed(word),
        sort,
    });
}

/// Adds every character and every adjacent pair of a run that begins at `start`.
fn push_characters(run: &str, start: usize, tokens: &mut Vec<Token>) {
    let chars = folded_characters(run);
    let starts: Vec<_> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    // Normalizing the width may have merged two characters into one.
    let is_exact = starts.len() == chars.len() + 1;
    let range = |from: usize, to: usize| match is_exact {
        true => start + starts[from]..start + starts[to],
        false => start..start + run.len(),
    };
    for (at, c) in chars.iter().enumerate() {
        tokens.push(Token {
            range: range(at, at + 1),
            term: c.to_string(),
            sort: TokenKind::Character,
        });
        if let Some(next) = chars.get(at + 1) {
            tokens.push(Token {
                range: range(at, at + 2),
                term: [*c, *next].iter().collect(),
                sort: TokenKind::Pair,
            });
        }
    }
}

/// The longest parts of `word` that belong to scripts with spaces, or to scripts without.
fn runs(word: &str) -> Vec<(Range<usize>, bool)> {
    let mut runs: Vec<(Range<usize>, bool)> = Vec::new();
    for (at, c) in word.char_indices() {
        let end = at + c.len_utf8();
        match runs.last_mut() {
            // Marks belong to the character before them.
            Some((run, is_spaceless)) if *is_spaceless == is_of_spaceless(c) || !c.is_alphanumeric() && c != '_' => {
                run.end = end;
            }
            _ => runs.push((at..end, is_of_spaceless(c))),
        }
    }
    runs
}

/// The words of a compound name: `HTTPServer_v2` is `HTTP`, `Server`, `v2`.
fn parts(name: &str) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut chars = name.char_indices().peekable();
    let mut previous = '_';
    while let Some((at, c)) = chars.next() {
        let next_is_small = chars.peek().is_some_and(|(_, next)| next.is_lowercase());
        let is_start = previous == '_'
            || c.is_uppercase() && (previous.is_lowercase() || previous.is_uppercase() && next_is_small);
        let end = at + c.len_utf8();
        match parts.last_mut() {
            _ if c == '_' => {}
            Some(part) if !is_start => part.end = end,
            _ => parts.push(at..end),
        }
        if c == '_' || c.is_alphanumeric() {
            previous = c;
        }
    }
    parts
}

fn is_inside(c: char) -> bool {
    c == '_' || is_word_character(c) || is_ignored(c)
}

/// Whether `c` is an emoji, an arrow or another sign that is a word of its own.
pub(crate) fn is_picture(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}') && !is_word_character(c)
}

/// Whether `c` belongs to a script that puts no spaces between words or, like Korean, attaches endings to them.
#[must_use]
pub fn is_of_spaceless(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff // Thai, Lao
        | 0x1000..=0x109f // Burmese
        | 0x1100..=0x11ff | 0x3130..=0x318f | 0xa960..=0xa97f | 0xac00..=0xd7ff | 0xffa0..=0xffdc // Hangul
        | 0x1780..=0x17ff // Khmer
        | 0x2e80..=0x2fdf | 0x3005..=0x3007 | 0x3021..=0x3029 | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff
        | 0x2_0000..=0x3_ffff // Han
        | 0x3031..=0x3035 | 0x3040..=0x30ff | 0x31f0..=0x31ff | 0xff66..=0xff9f | 0x1_aff0..=0x1_b16f // kana
        | 0x3100..=0x312f | 0x31a0..=0x31bf // Bopomofo
    )
}
