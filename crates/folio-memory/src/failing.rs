//! Lines of output that report a failure, as opposed to lines that say that there was none.

use std::borrow::Cow;

use crate::excerpt::{MORE, fits, short_line};

/// Words that mark a line as the report of a failure.
const WORDS: [&str; 8] = [
    "error",
    "errors",
    "panicked",
    "exception",
    "traceback",
    "failed",
    "failures",
    "fatal",
];
/// The same for words that are common in small letters.
const CAPITALS: [&str; 2] = ["FAIL", "FAILURE"];
/// How the names of errors end in many languages: `ValueError: …`, `java.io.IOException: …`.
const ENDINGS: [&str; 2] = ["Error", "Exception"];
/// Words before such a word that mean that nothing failed: `0 failed`, `no errors`.
const ZERO_WORDS: [&str; 4] = ["0", "no", "without", "zero"];
/// What each line has that reports a failure, in any case.
const STEMS: [&[u8]; 6] = [b"err", b"fail", b"panick", b"fatal", b"except", b"traceback"];

/// Whether `line` may report a failure: a quick check, after which only a few lines are left.
pub(crate) fn may_report_failure(line: &[u8]) -> bool {
    let begins_stem = |at: usize| {
        STEMS.iter().any(|stem| {
            let part = line.get(at..at + stem.len());
            part.is_some_and(|part| part.eq_ignore_ascii_case(stem))
        })
    };
    let mut firsts = line.iter().enumerate();
    firsts.any(|(at, byte)| matches!(byte | 0x20, b'e' | b'f' | b'p' | b't') && begins_stem(at))
}

/// The place of the first word in `line` that reports a failure, as opposed to the absence of failures: tests that pass
/// end with `0 failed`. A word within a name (`src/error.rs`, `on_error`) reports nothing.
pub(crate) fn place_of_failure(line: &str) -> Option<usize> {
    if !may_report_failure(line.as_bytes()) {
        return None;
    }
    // The words are ASCII, and this way every place is one of `line` as well.
    let lower = line.to_ascii_lowercase();
    let says = |at: usize, word: &str| !is_zero(&lower, at, word.len()) && !is_in_a_name(line, at, word.len());
    let words = WORDS
        .iter()
        .filter_map(|word| places_of(&lower, word).find(|at| says(*at, word)));
    let capitals = CAPITALS
        .iter()
        .filter_map(|word| places_of(line, word).find(|at| says(*at, word)));
    let endings = ENDINGS.iter().filter_map(|ending| error_name(line, ending));
    words.chain(capitals).chain(endings).min()
}

/// Whether what surrounds the word of `len` bytes at `at` says that there was no failure.
fn is_zero(lower: &str, at: usize, len: usize) -> bool {
    let before = lower[..at].split_whitespace().next_back().unwrap_or_default();
    let after = lower[at + len..].trim_start_matches([':', '=', ' ', '"']);
    let number = after.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    ZERO_WORDS.contains(&before.trim_matches(['(', ',', ';', '"'])) || number == "0"
}

/// Whether the word of `len` bytes at `at` is part of the name of a file, a module or a function, and not the end of the
/// name of an error (`struct.error: …`).
fn is_in_a_name(line: &str, at: usize, len: usize) -> bool {
    let before = line[..at].chars().next_back();
    let mut after = line[at + len..].chars();
    let (next, second) = (after.next(), after.next());
    let goes_on = second.is_some_and(char::is_alphanumeric);
    let begins_report = next == Some(':') && second.is_none_or(char::is_whitespace);
    matches!(before, Some('/' | '\\' | '_'))
        || (before == Some('.') && !begins_report)
        || matches!(next, Some('/' | '\\' | '_'))
        || (matches!(next, Some('.' | '-')) && goes_on)
        || (next == Some(':') && second == Some(':'))
}

/// The place of the first name in `line` that ends with `ending` and stands at the end of the line or before a colon.
fn error_name(line: &str, ending: &str) -> Option<usize> {
    let found = line.match_indices(ending).map(|(at, _)| at);
    let mut names = found.filter(|at| {
        let before = line[..*at].chars().next_back();
        let after = line[at + ending.len()..].trim_end();
        let is_end = after.is_empty() || (after.starts_with(':') && !after.starts_with("::"));
        before.is_some_and(char::is_alphanumeric) && is_end
    });
    let end = names.next()?;
    let name = line[..end].rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_')));
    Some(name.map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8)))
}

/// The offsets of `word` in `text`: as a whole word if its script puts spaces between words.
pub(crate) fn places_of<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_spaced = word.is_ascii();
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !is_spaced || [before, after].into_iter().flatten().all(|c| !c.is_alphanumeric())
    })
}

/// The part of `line` around the failure at byte `at`, in one line of at most `chars` characters: failures are often
/// named behind a long command or path.
pub(crate) fn around(line: &str, at: usize, chars: usize) -> String {
    if fits(line.trim(), chars) {
        return short_line(line, chars);
    }
    let begins = line.char_indices().map(|(at, _)| at).filter(|begin| *begin <= at);
    let Some(begin) = begins.rev().nth(chars / 4) else {
        return short_line(line, chars);
    };
    let begin = line[begin..at]
        .find(char::is_whitespace)
        .map_or(begin, |space| begin + space);
    format!("{MORE}{}", short_line(&line[begin..], chars - 1))
}

/// Returns `line` without the sequences by which a program colours it in a terminal: they hide where a word begins.
pub(crate) fn without_escapes(line: &str) -> Cow<'_, str> {
    const ESCAPE: char = '\u{1b}';
    if !line.contains(ESCAPE) {
        return line.into();
    }
    let (mut plain, mut rest) = (String::with_capacity(line.len()), line);
    while let Some((before, after)) = rest.split_once(ESCAPE) {
        plain.push_str(before);
        rest = match after.strip_prefix('[') {
            Some(sequence) => sequence
                .find(|c: char| ('\u{40}'..='\u{7e}').contains(&c))
                .map_or("", |end| &sequence[end + 1..]),
            None => after,
        };
    }
    plain.push_str(rest);
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_reports_a_failure_by_its_words_and_not_by_names_or_zeros() {
        let reports = [
            "error[E0308]: mismatched types",
            "thread 'main' panicked at src/lib.rs:4:5:",
            "test a::b ... FAILED",
            "--- FAIL: TestParse (0.00s)",
            "ValueError: bad literal",
            "E       AssertionError",
            "Caused by: java.io.IOException: no space",
            "npm ERR! fatal: it stops",
            "2 tests, 1 failed",
            "[ERROR] disk full",
            "level=error msg=x",
            "{\"errors\": 3}",
            "struct.error: unpack requires a buffer of 4 bytes",
            "binascii.Error: Incorrect padding",
            "sqlite3.Error:",
        ];
        for line in reports {
            assert!(place_of_failure(line).is_some(), "{line}");
        }
        let quiet = [
            "test result: ok. 3 passed; 0 failed; 0 ignored",
            "no errors, errors: 0",
            "src/error.rs",
            "   Compiling serde_error v1.0",
            "use crate::error::Kind;",
            "src/lib.error:3, log.error(x), self.error",
            "suite.errors: 0",
            "fn on_error(x: u8) {}",
            "error-prone, errors/README.md",
            "class ValueErrors(Base)",
            "the terror of failover",
            "",
        ];
        for line in quiet {
            assert_eq!(place_of_failure(line), None, "{line}");
        }
    }

    #[test]
    fn place_of_a_failure_is_where_its_word_or_name_begins() {
        assert_eq!(place_of_failure("x: a.b.ValueError: no"), Some(3));
        assert_eq!(place_of_failure("zwölf ÄÖ error"), Some("zwölf ÄÖ ".len()));
    }

    #[test]
    fn colours_of_a_terminal_are_taken_off_before_a_line_is_read() {
        let line = "\u{1b}[1m\u{1b}[31merror\u{1b}[0m: no such field";
        assert_eq!(place_of_failure(line), None, "m is a letter");
        let plain = without_escapes(line);
        assert_eq!(plain, "error: no such field");
        assert_eq!(place_of_failure(&plain), Some(0));
        assert_eq!(without_escapes("a\u{1b}[3"), "a");
    }
}
