//! What a provider's message repeats of the request. Errors are shown and stored in places that a prompt does not
//! reach, so they never contain a part of one.

use folio_memory::excerpt::one_line;

use crate::model::Request;

/// How many consecutive characters a provider's message may have in common with the request.
const COMMON_CHARS_MAX: usize = 24;
/// How many characters of a message are looked at.
const SAID_CHARS_MAX: usize = 1_000;
/// The shortest text of a request that a message may not contain as a whole, in bytes.
const WHOLE_BYTES_MIN: usize = 4;
/// Does not count in a comparison: a quote has more or fewer of them.
const ESCAPE: char = '\\';
/// How errors of providers begin, as this crate words them.
const REPORTS: [&str; 3] = [REPORT_OF_STATUS, "it answered with an error", "it broke off its answer"];
/// A status follows.
const REPORT_OF_STATUS: &str = "it said ";
/// How many characters such an error may have after its beginning.
const REPORT_CHARS_MAX: usize = 500;

/// Returns `said`, or its beginning if it is very long, with `…` for each part that repeats something from the request;
/// empty if nothing else is left.
pub(super) fn without_quotes(said: &str, request: &Request) -> String {
    let chars: Vec<char> = said.chars().take(SAID_CHARS_MAX).collect();
    let compared: Vec<(usize, char)> = chars
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, char)| *char != ESCAPE)
        .collect();
    let mut quoted = vec![false; chars.len()];
    for text in texts_of(request) {
        let width = text.chars().count().min(COMMON_CHARS_MAX);
        for window in compared.windows(width) {
            let part: String = window.iter().map(|(_, char)| char).collect();
            if let ([(first, _), ..], [.., (last, _)]) = (window, window)
                && text.contains(&part)
            {
                quoted[*first..=*last].fill(true);
            }
        }
    }
    if chars.len() == SAID_CHARS_MAX {
        // A quote may begin there, of which too little is seen.
        quoted[SAID_CHARS_MAX - COMMON_CHARS_MAX..].fill(true);
    }
    fill_short_gaps(&mut quoted);
    let is_left = chars
        .iter()
        .zip(&quoted)
        .any(|(char, quoted)| char.is_alphanumeric() && !quoted);
    if !is_left {
        return String::new();
    }
    let mut shown = String::with_capacity(said.len());
    let mut was_quoted = false;
    for (char, is_quoted) in chars.iter().zip(&quoted) {
        match is_quoted {
            true if !was_quoted => shown.push('…'),
            true => {}
            false => shown.push(*char),
        }
        was_quoted = *is_quoted;
    }
    shown
}

/// A quote that was altered in the middle, such as by an escaped character, is one quote.
fn fill_short_gaps(quoted: &mut [bool]) {
    let mut last_end = None;
    for at in 0..quoted.len() {
        if !quoted[at] {
            continue;
        }
        if let Some(end) = last_end
            && at - end < COMMON_CHARS_MAX
        {
            quoted[end..at].fill(true);
        }
        last_end = Some(at + 1);
    }
}

/// The texts of a request, without the errors of providers in them: these were shown before, and a later error with the
/// same words has to give its reason as well.
fn texts_of(request: &Request) -> Vec<String> {
    let texts = request.messages.iter().flat_map(|message| {
        let args = message.tool_calls.iter().map(|call| call.args.to_string());
        std::iter::once(message.text.clone()).chain(args)
    });
    let parts = texts.flat_map(|text| parts_without_reports(&text));
    let compared = parts.map(|part| part.replace(ESCAPE, ""));
    compared.filter(|part| part.len() >= WHOLE_BYTES_MIN).collect()
}

/// The text on one line, or what stands before, between and after the errors of providers in it.
fn parts_without_reports(text: &str) -> Vec<String> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = report_position(rest) {
        parts.push(one_line(&rest[..at]));
        rest = after_report(&rest[at..]);
    }
    parts.push(one_line(rest));
    if parts.len() > 1 {
        // Such a part is not a whole text of the request, and a few letters of it say nothing.
        parts.retain(|part| part.chars().count() >= COMMON_CHARS_MAX);
    }
    parts
}

fn report_position(text: &str) -> Option<usize> {
    let begins = |at: &usize, words: &str| {
        let after = &text.as_bytes()[at + words.len()..];
        words != REPORT_OF_STATUS || after.len() >= 3 && after[..3].iter().all(u8::is_ascii_digit)
    };
    let first = |words: &&str| {
        text.match_indices(*words)
            .map(|(at, _)| at)
            .find(|at| begins(at, words))
    };
    REPORTS.iter().filter_map(first).min()
}

/// What follows an error of a provider: the next line, or what is beyond the longest error.
fn after_report(told: &str) -> &str {
    let end = told
        .char_indices()
        .nth(REPORT_CHARS_MAX)
        .map_or(told.len(), |(at, _)| at);
    &told[told[..end].find('\n').unwrap_or(end)..]
}
