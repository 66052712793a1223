//! The lines of a result that report a failure: what matters most of an output that is too large to be shown whole.

use std::collections::{BTreeMap, VecDeque};

use crate::failing::{around, may_report_failure, place_of_failure, without_escapes};
use crate::tokens::Tokens;

/// How many such lines are kept of the first ones, and of the last ones.
const KEPT: usize = 16;
/// How many of them are shown before what stands beside them.
const WITH_OTHERS: usize = 4;
/// The beginning of a line that is looked at, in bytes.
const LINE_BYTES: usize = 2 * 1024;
/// The maximum number of characters of such a line, and of one beside it.
const CHARS: usize = 200;
const CHARS_BESIDE: usize = 120;

/// A line of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number, counted from 1.
    pub(super) number: u64,
    /// The offsets of its first byte, and of the one after its last.
    pub(super) from: u64,
    pub(super) to: u64,
    /// What is shown of it.
    pub(super) text: String,
}

/// A line that reports a failure, with the lines beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) before: Option<Line>,
    pub(super) line: Line,
    pub(super) after: Option<Line>,
}

/// The failures that a result reports.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// The first ones and the last ones, each once.
    pub(super) kept: Vec<Failure>,
    /// How many lines report one.
    pub(super) count: u64,
}

/// The lines that a preview shows of the failures between its beginning and its end.
#[derive(Debug)]
pub(super) struct FailingLines<'f> {
    failures: &'f Failures,
    /// By number; with each whether it is one that reports a failure, or one beside it.
    chosen: BTreeMap<u64, (&'f Line, bool)>,
}

impl<'f> FailingLines<'f> {
    pub(super) fn of(failures: &'f Failures) -> Self {
        Self {
            failures,
            chosen: BTreeMap::new(),
        }
    }

    /// Whether there are no failures to choose from.
    pub(super) fn is_empty(&self) -> bool {
        self.failures.kept.is_empty()
    }

    /// Chooses lines `between` two offsets, as many as fit into `budget`: the first and the last failures, then what
    /// stands beside them, then the other failures.
    pub(super) fn choose(&mut self, between: (u64, u64), budget: u32, tokens: &dyn Tokens) {
        let kept = self.failures.kept.iter();
        let left_out: Vec<&Failure> = kept.filter(|failure| is_within(&failure.line, between)).collect();
        let order: Vec<&Failure> = (0..left_out.len())
            .map(|at| match at % 2 {
                0 => left_out[at / 2],
                _ => left_out[left_out.len() - 1 - at / 2],
            })
            .collect();
        let first: Vec<&Failure> = order.iter().copied().take(WITH_OTHERS).collect();
        let first = first
            .into_iter()
            .filter(|failure| self.add(&failure.line, true, budget, tokens));
        let first: Vec<&Failure> = first.collect();
        for failure in first {
            let beside = [&failure.after, &failure.before].into_iter().flatten();
            for line in beside.filter(|line| is_within(line, between)) {
                self.add(line, false, budget, tokens);
            }
        }
        for failure in order {
            self.add(&failure.line, true, budget, tokens);
        }
    }

    /// Adds `line` if it fits; returns whether it is chosen.
    fn add(&mut self, line: &'f Line, is_failure: bool, budget: u32, tokens: &dyn Tokens) -> bool {
        let before = self.chosen.get(&line.number).copied();
        let was_failure = before.is_some_and(|(_, was_failure)| was_failure);
        self.chosen.insert(line.number, (line, is_failure || was_failure));
        if self.cost(tokens) <= budget {
            return true;
        }
        match before {
            Some(before) => drop(self.chosen.insert(line.number, before)),
            None => drop(self.chosen.remove(&line.number)),
        }
        before.is_some()
    }

    /// Leaves out what is not between two offsets.
    pub(super) fn leave_out_beyond(&mut self, between: (u64, u64)) {
        self.chosen.retain(|_, (line, _)| is_within(line, between));
    }

    pub(super) fn cost(&self, tokens: &dyn Tokens) -> u32 {
        if self.chosen.is_empty() {
            0
        } else {
            tokens.count(&self.text())
        }
    }

    /// The lines with their numbers, and how many of all failures they are; empty if none reports one.
    pub(super) fn text(&self) -> String {
        let shown = self.chosen.values().filter(|(_, is_failure)| *is_failure).count();
        if shown == 0 {
            return String::new();
        }
        let lines = self.chosen.iter();
        let lines: String = lines
            .map(|(number, (line, _))| format!("{number}: {}\n", line.text))
            .collect();
        let all = self.failures.count;
        format!("lines that report a failure, {shown} of {all}:\n{lines}…\n")
    }
}

/// Whether `line` lies between two offsets.
fn is_within(line: &Line, (from, to): (u64, u64)) -> bool {
    line.from >= from && line.to <= to
}

/// Collects them while the result streams by.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The beginning of the line that is being read, and the length of that line so far.
    line: Vec<u8>,
    len: u64,
    /// The offset of that line, and how many lines came before it.
    at: u64,
    lines: u64,
    /// The beginning of the line before it.
    before: Vec<u8>,
    before_len: u64,
    first: Vec<Failure>,
    last: VecDeque<Failure>,
    count: u64,
    /// Whether the line that is being read follows one that reports a failure and is kept.
    is_after: bool,
}

impl Reader {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_end) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            let room = LINE_BYTES.saturating_sub(self.line.len()).min(text.len());
            self.line.extend_from_slice(&text[..room]);
            self.len += text.len() as u64;
            if is_end {
                self.end_line();
            }
        }
    }

    pub(super) fn finish(mut self) -> Failures {
        if self.len > 0 {
            self.end_line();
        }
        self.first.extend(self.last);
        Failures {
            kept: self.first,
            count: self.count,
        }
    }

    fn end_line(&mut self) {
        self.lines += 1;
        let to = self.at + self.len;
        if std::mem::take(&mut self.is_after) {
            let after = beside(&self.line, (self.lines, self.at, to));
            if let Some(failure) = self.last.back_mut().or(self.first.last_mut()) {
                failure.after = after;
            }
        }
        if may_report_failure(&self.line) {
            self.look_at_line(to);
        }
        std::mem::swap(&mut self.line, &mut self.before);
        self.line.clear();
        self.before_len = self.len;
        // The end of the line counts as well.
        self.at = to + 1;
        self.len = 0;
    }

    fn look_at_line(&mut self, to: u64) {
        let text = String::from_utf8_lossy(&self.line);
        let text = without_escapes(whole(&text));
        let Some(place) = place_of_failure(&text) else { return };
        self.count += 1;
        let text = around(&text, place, CHARS);
        let mut known = self.first.iter().chain(&self.last);
        if known.any(|failure| failure.line.text == text) {
            return;
        }
        let from_before = self.at.saturating_sub(self.before_len + 1);
        let before = beside(&self.before, (self.lines - 1, from_before, self.at));
        let failure = Failure {
            before: before.filter(|_| self.lines > 1),
            line: Line {
                number: self.lines,
                from: self.at,
                to,
                text,
            },
            after: None,
        };
        if self.first.len() < KEPT {
            self.first.push(failure);
        } else {
            if self.last.len() == KEPT {
                self.last.pop_front();
            }
            self.last.push_back(failure);
        }
        self.is_after = true;
    }
}

/// The line with this beginning beside one that reports a failure; `None` if it says nothing.
fn beside(line: &[u8], (number, from, to): (u64, u64, u64)) -> Option<Line> {
    let text = String::from_utf8_lossy(line);
    let text = around(&without_escapes(whole(&text)), 0, CHARS_BESIDE);
    (!text.is_empty()).then_some(Line { number, from, to, text })
}

/// Returns `text` without the half of a character with which the beginning of a long line may end.
fn whole(text: &str) -> &str {
    text.trim_end_matches('\u{fffd}')
}
