//! Searches files and keeps the lines that match.

use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use bstr::ByteSlice as _;
use folio_memory::counted::counted;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::{looks_binary, newlines};
use super::patterns::Patterns;
use crate::context::ToolLimits;
use crate::response::{EvidenceRef, ToolError};
use crate::roots::{Located, read_small};
use crate::walk::{FoundKind, WalkGaps, WalkOptions, walk};

/// How many characters of a line are shown.
const LINE_CHARS: usize = 300;
/// How many characters before a match are shown of a longer line.
const BEFORE_CHARS: usize = 100;
/// How many files are named as evidence.
const EVIDENCE_MAX: usize = 64;

/// How often the whole rest of a file is searched at once before the search goes line by line.
const WHOLE_SEARCHES_MAX: u32 = 16;
/// How many lines are searched between two checks for cancellation.
const LINES_PER_CANCEL_CHECK: u64 = 10_000;
/// The byte order mark that some editors put at the start of a UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

#[derive(Serialize)]
struct LineMatch {
    path: String,
    line: u64,
    column: usize,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

/// A line that a pattern matches, as offsets into the file.
struct Hit {
    line: u64,
    start: usize,
    end: usize,
    /// Where the match begins in the line.
    at: usize,
    pattern: usize,
}

#[derive(Default)]
struct Tally {
    matches: Vec<LineMatch>,
    text_bytes: u64,
    count: u64,
    files: u64,
    files_searched: u64,
    skipped_binary: u64,
    skipped_large: u64,
    evidence: Vec<EvidenceRef>,
    gaps: WalkGaps,
}

/// How matches are shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct DisplayOptions {
    /// The largest number of matches shown.
    pub(super) max: usize,
    /// How many lines before and after each match are shown.
    pub(super) context_lines: usize,
    /// Whether a line is shown only up to its first match.
    pub(super) redact: bool,
}

/// One search through any number of files.
pub(super) struct Search<'a> {
    patterns: Patterns,
    shows: DisplayOptions,
    limits: &'a ToolLimits,
    cancel: &'a CancellationToken,
    found: Tally,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        patterns: Patterns,
        shows: DisplayOptions,
        limits: &'a ToolLimits,
        cancel: &'a CancellationToken,
    ) -> Self {
        Self {
            patterns,
            shows,
            limits,
            cancel,
            found: Tally::default(),
        }
    }

    /// Searches the file, or everything below the folder, at `start`.
    pub(super) fn search_below(&mut self, start: &Located, options: WalkOptions<'_>) -> Result<(), ToolError> {
        let (limits, cancel) = (self.limits, self.cancel);
        let gaps = walk(start, options, limits, cancel, &mut |entry| {
            let FoundKind::File { bytes } = entry.kind else {
                return Ok(());
            };
            if bytes > limits.grep_file_bytes {
                self.found.skipped_large += 1;
                return Ok(());
            }
            match read_small(entry.dir, entry.name, limits.grep_file_bytes) {
                Ok(Some(content)) if looks_binary(&content) => self.found.skipped_binary += 1,
                Ok(Some(content)) => {
                    self.found.files_searched += 1;
                    // A byte order mark is not part of the first line.
                    let text = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&content);
                    self.file(text, || start.display_path_of(entry.path.as_os_str().as_bytes()))?;
                }
                Ok(None) => self.found.skipped_large += 1,
                Err(_) => self.found.gaps.unreadable += 1,
            }
            Ok(())
        })?;
        self.found.gaps.unreadable += gaps.unreadable;
        self.found.gaps.too_deep += gaps.too_deep;
        self.found.gaps.too_many |= gaps.too_many;
        Ok(())
    }

    fn file(&mut self, content: &[u8], path: impl FnOnce() -> String) -> Result<(), ToolError> {
        let text_max = self.limits.output_bytes / 2;
        let max_hits = if self.found.text_bytes < text_max {
            self.shows.max - self.found.matches.len()
        } else {
            0
        };
        let mut hits = Vec::new();
        let mut count = 0;
        for pattern in 0..self.patterns.0.len() {
            count += self.hits(content, pattern, max_hits, &mut hits)?;
        }
        if count == 0 {
            return Ok(());
        }
        self.found.count += count;
        self.found.files += 1;
        hits.sort_by_key(|hit| (hit.line, hit.at, hit.pattern));
        hits.truncate(max_hits);
        let path = path();
        if let Some(first) = hits.first()
            && self.found.evidence.len() < EVIDENCE_MAX
        {
            self.found.evidence.push(EvidenceRef {
                kind: "file".to_owned(),
                id: path.clone(),
                hash: None,
                span: Some(format!("L{}", first.line)),
            });
        }
        for hit in hits {
            let line_match = self.line_match(content, &hit, &path);
            let around = line_match.before.iter().chain(&line_match.after);
            let around_bytes: usize = around.map(|line| line.len() + 4).sum();
            self.found.text_bytes += (line_match.text.len() + path.len() + around_bytes + 64) as u64;
            self.found.matches.push(line_match);
            if self.found.text_bytes >= text_max {
                break;
            }
        }
        Ok(())
    }

    /// Finds the lines that a pattern matches; keeps the first `max_hits` and returns how many there are.
    fn hits(&self, content: &[u8], pattern: usize, max_hits: usize, hits: &mut Vec<Hit>) -> Result<u64, ToolError> {
        let regex = &self.patterns.0[pattern].regex;
        let hits_before = hits.len();
        let mut count = 0;
        let mut line = 1;
        let mut counted_to = 0;
        let mut from = 0;
        let mut leaps_left = WHOLE_SEARCHES_MAX;
        for look_count in 0_u64.. {
            if look_count % LINES_PER_CANCEL_CHECK == 0 && self.cancel.is_cancelled() {
                return Err(ToolError::cancelled());
            }
            if from >= content.len() {
                break;
            }
            // The leftmost match in the rest of the file cannot begin after the first line that matches, so everything
            // before its line can be skipped. It may end in a later line; then only the line itself tells whether it
            // matches. A pattern that extends over the ends of lines may have to look at the whole rest each time, so
            // the search soon goes line by line.
            let mut leap = None;
            if leaps_left > 0 {
                let Some(found) = regex.find_at(content, from) else {
                    break;
                };
                leaps_left -= 1;
                leap = Some(found);
            }
            let start = leap.map_or(from, |found| {
                content[..found.start()].rfind_byte(b'\n').map_or(0, |at| at + 1)
            });
            if start == content.len() {
                break;
            }
            let end = content[start..].find_byte(b'\n').map_or(content.len(), |at| start + at);
            if leap.is_some_and(|found| found.end() > end) {
                leaps_left = 0;
            }
            let text = trimmed(&content[start..end]);
            if let Some(in_line) = regex.find(text) {
                count += 1;
                if hits.len() - hits_before < max_hits {
                    line += newlines(&content[counted_to..start]);
                    counted_to = start;
                    hits.push(Hit {
                        line,
                        start,
                        end: start + text.len(),
                        at: in_line.start(),
                        pattern,
                    });
                }
            }
            from = end + 1;
        }
        Ok(count)
    }

    fn line_match(&self, content: &[u8], hit: &Hit, path: &str) -> LineMatch {
        let line = &content[hit.start..hit.end];
        let text = if self.shows.redact {
            self.redacted(line)
        } else {
            window(line, hit.at)
        };
        LineMatch {
            path: path.to_owned(),
            line: hit.line,
            column: line[..hit.at].chars().count() + 1,
            text,
            name: self.patterns.0[hit.pattern].name.clone(),
            before: lines_before(content, hit.start, self.shows.context_lines),
            after: lines_after(content, hit.end, self.shows.context_lines),
        }
    }

    /// The line up to the first match of any pattern. What follows may be the rest of a secret.
    fn redacted(&self, line: &[u8]) -> String {
        let first = self
            .patterns
            .0
            .iter()
            .filter_map(|pattern| Some((pattern.regex.find(line)?, pattern)))
            .min_by_key(|(found, _)| found.start());
        let Some((found, pattern)) = first else {
            return String::new();
        };
        let name = pattern.name.as_deref().unwrap_or("redacted");
        let before = line[..found.start()].to_str_lossy();
        let skipped = before.chars().count().saturating_sub(BEFORE_CHARS);
        let start = if skipped > 0 { "…" } else { "" };
        let end = if found.end() < line.len() { "…" } else { "" };
        let before: String = before.chars().skip(skipped).collect();
        format!("{start}{before}[{name}]{end}")
    }
}

impl Search<'_> {
    /// Returns the outputs, the notes for people and the evidence.
    pub(super) fn finish(self) -> (Value, String, Vec<EvidenceRef>) {
        let found = self.found;
        let are_left_out = found.count > found.matches.len() as u64;
        let mut notes = format!(
            "{} in {}",
            counted(found.count, "matching line"),
            counted(found.files, "file")
        );
        if are_left_out {
            notes = format!("{notes}; {} of them shown", found.matches.len());
        }
        if found.skipped_large > 0 {
            notes = format!("{notes}; {} skipped", counted(found.skipped_large, "large file"));
        }
        if let Some(missing) = found.gaps.notes() {
            notes = format!("{notes}; {missing}");
        }
        let outputs = json!({
            "matches": found.matches,
            "count": found.count,
            "files": found.files,
            "files_searched": found.files_searched,
            "skipped_binary": found.skipped_binary,
            "skipped_large": found.skipped_large,
            "unreadable": found.gaps.unreadable,
            "truncated": are_left_out || found.gaps.too_many || found.gaps.too_deep > 0,
        });
        (outputs, notes, found.evidence)
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A line as it is shown: whole if it is short, otherwise the part around `at`.
fn window(line: &[u8], at: usize) -> String {
    let text = line.to_str_lossy();
    // There are at least as many bytes as characters, and they are cheaper to count.
    if text.len() <= LINE_CHARS || text.chars().count() <= LINE_CHARS {
        return text.into_owned();
    }
    let skipped = line[..at].chars().count().saturating_sub(BEFORE_CHARS);
    let mut excerpt: String = if skipped > 0 { "…" } else { "" }.to_owned();
    let mut rest = text.chars().skip(skipped);
    let max_chars = LINE_CHARS - 1 - usize::from(skipped > 0);
    excerpt.extend(rest.by_ref().take(max_chars));
    if rest.next().is_some() {
        excerpt.push('…');
    }
    excerpt
}

fn lines_before(content: &[u8], start: usize, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut end = start;
    while lines.len() < count && end > 0 {
        let preceding = &content[..end - 1];
        let from = preceding.rfind_byte(b'\n').map_or(0, |at| at + 1);
        lines.push(window(trimmed(&preceding[from..]), 0));
        end = from;
    }
    lines.reverse();
    lines
}

fn lines_after(content: &[u8], end: usize, count: usize) -> Vec<String> {
    let rest = &content[end..];
    let Some(at) = rest.find_byte(b'\n') else {
        return Vec::new();
    };
    rest[at + 1..].lines().take(count).map(|line| window(line, 0)).collect()
}
