//! The preview: a text that stands for a result, within a budget.

use unicode_segmentation::GraphemeCursor;

use super::Sample;
use super::failing::FailingLines;
use super::outline::DETAILS;
use crate::passage::whole_characters;
use crate::tokens::Tokens;

/// The number of tokens below which nothing of the result itself is shown.
const BODY_TOKENS_MIN: u32 = 8;
/// The part of the room that lines between the beginning and the end may take, if they report a failure: one third.
const FAILURES_SHARE: u32 = 3;
/// How often a text is shortened that costs more than the sum of its parts.
const SHORTEN_ATTEMPTS_MAX: u32 = 12;

/// A text with its cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The text.
    pub text: String,
    /// The number of tokens of the text.
    pub tokens: u32,
}

/// The preview of the result in `sample`, which is stored as `name`: a notice that says so and how to read it, and as
/// much as fits of its structure, if it is JSON, or of its beginning and end, with lines between them that report a
/// failure.
///
/// It costs at most `limit_tokens`, however few: the notice becomes shorter, then only the name is left, then nothing.
/// The same sample gives the same text.
#[must_use]
pub fn preview(sample: &Sample, name: &str, limit_tokens: u32, tokens: &dyn Tokens) -> Preview {
    let (bytes, lines) = (sample.bytes, sample.lines);
    let shape = match (&sample.outline, lines) {
        (Some(_), _) => "Its structure follows",
        (None, 0 | 1) => "Its beginning and end follow",
        (None, _) => "Its first and last lines follow",
    };
    let lines_text = if lines == 1 {
        "one line".to_owned()
    } else {
        format!("{lines} lines")
    };
    // Lines say nothing about a text that has only one.
    let (part, others) = if lines > 1 {
        ("\"lines\": \"1-50\"", "\"from\" and \"to\" or \"search\"")
    } else {
        ("\"from\": 0, \"to\": 4000", "\"search\"")
    };
    let notices = [
        format!(
            "[{name}: {bytes} bytes in {lines_text} were put away. {shape}; result_read {{\"node\": \"{name}\", {part}}} reads \
             a part, also by {others}.]"
        ),
        format!("[{name}: {bytes} bytes, cut; result_read reads them]"),
        format!("[{name} cut]"),
        name.to_owned(),
    ];
    // The longer a notice, the smaller the share of the budget that it may take.
    let shares = [limit_tokens / 3, limit_tokens / 2, limit_tokens, limit_tokens];
    let fitting = notices
        .iter()
        .zip(shares)
        .find(|(notice, share)| tokens.count(notice) <= *share);
    let Some((notice, _)) = fitting else {
        return Preview {
            text: String::new(),
            tokens: 0,
        };
    };
    let left = limit_tokens.saturating_sub(tokens.count(notice) + 1);
    let body = if left < BODY_TOKENS_MIN {
        None
    } else {
        structure(sample, notice, limit_tokens, tokens).or_else(|| ends(sample, notice, left, limit_tokens, tokens))
    };
    let text = body.unwrap_or_else(|| notice.clone());
    Preview {
        tokens: tokens.count(&text),
        text,
    }
}

/// The notice, followed by as much structure as fits.
fn structure(sample: &Sample, notice: &str, limit: u32, tokens: &dyn Tokens) -> Option<String> {
    let outline = sample.outline.as_ref()?;
    DETAILS
        .iter()
        .map(|detail| format!("{notice}\n{}", outline.render(*detail)))
        .find(|text| tokens.count(text) <= limit)
}

/// The notice, followed by as much as fits of the beginning and the end, and of the lines between them that report a
/// failure.
fn ends(sample: &Sample, notice: &str, left: u32, limit: u32, tokens: &dyn Tokens) -> Option<String> {
    let is_all = sample.head.len() as u64 == sample.bytes;
    let head = if is_all {
        &sample.head
    } else {
        &sample.head[..whole_characters(&sample.head)]
    };
    let head = String::from_utf8_lossy(head);
    let tail = String::from_utf8_lossy(&sample.tail[characters_from(&sample.tail)..]);
    let mark = tokens.count(&format!("\n\n… {} bytes left out …\n", sample.bytes));
    let mut budget = left;
    for _ in 0..SHORTEN_ATTEMPTS_MAX {
        let for_text = budget.saturating_sub(mark);
        let around = |for_ends: u32| {
            let for_head = for_ends - for_ends * 2 / 5;
            let start = &head[..prefix_within(&head, for_head, tokens)];
            let end = &tail[suffix_within(&tail, for_ends - for_head, tokens)..];
            (start, end)
        };
        let gap = |(start, end): (&str, &str)| (start.len() as u64, sample.bytes.saturating_sub(end.len() as u64));
        let for_failures = for_text / FAILURES_SHARE;
        let mut failing = FailingLines::of(&sample.failures);
        if !failing.is_empty() {
            failing.choose(gap(around(for_text - for_failures)), for_failures, tokens);
        }
        let (start, end) = around(for_text.saturating_sub(failing.cost(tokens)));
        // With what they leave, the beginning and the end may show some of them.
        failing.leave_out_beyond(gap((start, end)));
        let failing = failing.text();
        let left_out = sample.bytes.saturating_sub((start.len() + end.len()) as u64);
        let text = format!("{notice}\n{start}\n… {left_out} bytes left out …\n{failing}{end}");
        let cost = tokens.count(&text);
        if cost <= limit {
            return (!start.is_empty() || !end.is_empty()).then_some(text);
        }
        budget = budget.checked_sub(cost - limit)?;
    }
    None
}

/// The end of the longest prefix of `text` that costs at most `budget`: after a line, if one ends in the second half of
/// the prefix, or else between grapheme clusters.
fn prefix_within(text: &str, budget: u32, tokens: &dyn Tokens) -> usize {
    let len = longest(text.len(), budget, |len| {
        tokens.count(&text[..text.floor_char_boundary(len)]) <= budget
    });
    let end = grapheme_before(text, text.floor_char_boundary(len));
    match text[..end].rfind('\n') {
        Some(line) if end < text.len() && line >= end / 2 => line,
        _ => end,
    }
}

/// The start of the longest suffix of `text` that costs at most `budget`, cut in the same way.
fn suffix_within(text: &str, budget: u32, tokens: &dyn Tokens) -> usize {
    let len = longest(text.len(), budget, |len| {
        tokens.count(&text[text.ceil_char_boundary(text.len() - len)..]) <= budget
    });
    let start = grapheme_after(text, text.ceil_char_boundary(text.len() - len));
    match text[start..].find('\n') {
        Some(line) if start > 0 && line <= (text.len() - start) / 2 => start + line + 1,
        _ => start,
    }
}

/// The largest number up to `max` that `fits`, assuming that every smaller number fits if a larger one does.
fn longest(max: usize, guess: u32, fits: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, max + 1);
    let mut next = (usize::try_from(guess).unwrap_or(max).saturating_mul(2)).clamp(1, max.max(1));
    while low + 1 < high {
        let at = next.clamp(low + 1, high - 1);
        if fits(at) {
            low = at;
        } else {
            high = at;
        }
        // Doubling finds the order of magnitude, so that what is far beyond it is never counted.
        next = if high > max {
            at.saturating_mul(2).min(max)
        } else {
            low.midpoint(high)
        };
    }
    low
}

/// The nearest grapheme boundary at or before `at`.
fn grapheme_before(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(true) => at,
        _ => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
    }
}

/// The nearest grapheme boundary at or after `at`.
fn grapheme_after(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(true) => at,
        _ => cursor.next_boundary(text, 0).ok().flatten().unwrap_or(text.len()),
    }
}

/// The offset of the first whole character of `bytes`.
fn characters_from(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000)
        .count()
}
