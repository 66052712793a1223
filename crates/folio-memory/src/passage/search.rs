//! The search for lines of a long text.

use schemars::JsonSchema;

/// The maximum number of characters of a line that a search shows.
const LINE_CHARS: usize = 300;

/// The maximum number of bytes of a line that a search examines at once; the rest is searched as if it were the next
/// line.
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
            let line = std::mem::take(&mut self.unfinished_line);
            self.search_line(&line);
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
        if start < self.from {
            return;
        }
        let line = String::from_utf8_lossy(line);
        let lower = line.to_lowercase();
        let Some(at) = lower.find(&self.words) else { return };
        self.found.count += 1;
        if self.found.next.is_some() {
            return;
        }
        let skipped = if line.chars().count() > LINE_CHARS {
            lower[..at].chars().count().saturating_sub(LINE_CHARS / 3)
        } else {
            0
        };
        let mut text: String = if skipped > 0 { "…" } else { "" }.to_owned();
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
