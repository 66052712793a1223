//! The search for lines of a long text.

use std::borrow::Cow;

use schemars::JsonSchema;

use super::marks::whole_characters;

/// The maximum number of characters of a line that a search shows.
const LINE_CHARS: usize = 300;

/// The maximum number of bytes of a line that a search examines at once; the rest is searched as if it were the next
/// line, but with what may be the beginning of a match.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// A line that a search found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, JsonSchema)]
pub struct FoundLine {
    /// The number of the line, counted from 1.
    pub line: u64,
    /// The line, or about 300 characters around the match.
    pub text: String,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The matching lines, as many as were wanted.
    pub matches: Vec<FoundLine>,
    /// The number of matching lines from the start of the search.
    pub count: u64,
    /// The offset of the first matching line that is not shown.
    pub next: Option<u64>,
}

/// A search for the lines that contain a text, fed piece by piece.
#[derive(Debug)]
pub struct Search {
    words: String,
    from: u64,
    remaining_bytes: usize,
    at: u64,
    line: u64,
    /// The beginning of a line whose end has not been fed yet.
    unfinished_line: Vec<u8>,
    /// The end of what was searched of the present line: a match may begin there.
    carried: String,
    found: SearchResult,
}

impl Search {
    /// Creates a search for `words`, ignoring case, in lines that begin at byte `from` or later. It shows about
    /// `max_bytes` of matching lines, but at least one.
    #[must_use]
    pub fn new(words: &str, from: u64, max_bytes: usize) -> Self {
        Self {
            words: words.to_lowercase(),
            from,
            remaining_bytes: max_bytes,
            at: 0,
            line: 1,
            unfinished_line: Vec::new(),
            carried: String::new(),
            found: SearchResult::default(),
        }
    }

    /// Searches the next piece.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            if self.unfinished_line.is_empty() {
                self.search_line(&bytes[..end]);
            } else {
                self.unfinished_line.extend_from_slice(&bytes[..end]);
                let line = std::mem::take(&mut self.unfinished_line);
                self.search_line(&line);
            }
            self.at += 1;
            self.line += 1;
            bytes = &bytes[end + 1..];
        }
        self.unfinished_line.extend_from_slice(bytes);
        if self.unfinished_line.len() > LINE_BYTES_MAX {
            let mut line = std::mem::take(&mut self.unfinished_line);
            self.unfinished_line = line.split_off(whole_characters(&line));
            self.search_line(&line);
            // Lower case has at least as many characters, so that these hold every beginning of a match.
            self.carried = last_characters(&line, self.words.chars().count().saturating_sub(1));
        }
    }

    /// Returns the result of the search.
    #[must_use]
    pub fn finish(mut self) -> SearchResult {
        let line = std::mem::take(&mut self.unfinished_line);
        if !line.is_empty() {
            self.search_line(&line);
        }
        self.found
    }

    fn search_line(&mut self, line: &[u8]) {
        let start = self.at;
        self.at += line.len() as u64;
        let carried = std::mem::take(&mut self.carried);
        if start < self.from {
            return;
        }
        let searched_before = carried.to_lowercase().len();
        let begins_within = !carried.is_empty();
        let mut line = String::from_utf8_lossy(line);
        if begins_within {
            line = Cow::Owned(carried + &line);
        }
        let lower = line.to_lowercase();
        // A match within what was carried was found before.
        let first = lower.ceil_char_boundary((searched_before + 1).saturating_sub(self.words.len().max(1)));
        let Some(at) = lower[first..].find(&self.words).map(|at| first + at) else {
            return;
        };
        self.found.count += 1;
        if self.found.next.is_some() {
            return;
        }
        let skipped = if line.chars().count() > LINE_CHARS {
            lower[..at].chars().count().saturating_sub(LINE_CHARS / 3)
        } else {
            0
        };
        let mut text: String = if skipped > 0 || begins_within { "…" } else { "" }.to_owned();
        text.extend(line.chars().skip(skipped).take(LINE_CHARS));
        let cost = text.len() + 24;
        if self.found.matches.is_empty() || cost <= self.remaining_bytes {
            self.remaining_bytes = self.remaining_bytes.saturating_sub(cost);
            self.found.matches.push(FoundLine { line: self.line, text });
        } else {
            self.found.next = Some(start);
        }
    }
}

/// The last `count` characters of `line`.
fn last_characters(line: &[u8], count: usize) -> String {
    let text = String::from_utf8_lossy(line);
    let from = text.char_indices().rev().take(count).last();
    from.map_or_else(String::new, |(at, _)| text[at..].to_owned())
}
