//! Characters that nobody sees, and that views leave out: without them, a secret is whole again (M7.6.48).

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use leakguard::Match;
use regex::Regex;

/// Control characters, soft hyphens, joiners, marks of the direction, variation selectors and tags.
const UNSEEN: &str = r"(?x) [
    \x00-\x08 \x0b-\x1f \x7f-\x9f
    \u{ad} \u{34f} \u{61c} \u{180e} \u{200b}-\u{200f} \u{202a}-\u{202e} \u{2060}-\u{206f}
    \u{fe00}-\u{fe0f} \u{feff} \u{e0000}-\u{e007f} \u{e0100}-\u{e01ef}
]+";

/// A text without the unseen characters inside of its words.
#[derive(Debug)]
pub(super) struct Shown {
    text: String,
    /// Where characters were left out: the offset in `text`, and how many bytes were left out so far.
    gaps: Vec<(usize, usize)>,
}

impl Shown {
    /// What is seen of `text`; `None` if that is all of it, as with most texts.
    pub(super) fn of(text: &str) -> Option<Self> {
        // Nearly all texts end here.
        if text.bytes().all(|byte| matches!(byte, b'\t' | b'\n' | b' '..=b'~')) {
            return None;
        }
        let mut shown = Self {
            text: String::new(),
            gaps: Vec::new(),
        };
        let mut rest = 0;
        for run in unseen_runs(text) {
            shown.text.push_str(&text[rest..run.start]);
            rest = run.end;
            shown.gaps.push((shown.text.len(), rest - shown.text.len()));
        }
        if shown.gaps.is_empty() {
            return None;
        }
        shown.text.push_str(&text[rest..]);
        Some(shown)
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Adds to what was `found` in the text as it was written what was found in it `as_shown`: in order, and without
    /// overlaps.
    pub(super) fn merged(&self, mut found: Vec<Match>, as_shown: Vec<Match>) -> Vec<Match> {
        found.extend(as_shown.into_iter().map(|mut one| {
            // Unseen characters before and behind it are left.
            one.start += self.left_out_before(one.start, |gap, at| gap <= at);
            one.end += self.left_out_before(one.end, |gap, at| gap < at);
            one
        }));
        found.sort_by_key(|one| (one.start, std::cmp::Reverse(one.end)));
        let mut merged: Vec<Match> = Vec::with_capacity(found.len());
        for one in found {
            match merged.last_mut() {
                Some(last) if one.start < last.end => {
                    if one.end - one.start > last.end - last.start {
                        last.kind = one.kind;
                    }
                    last.end = last.end.max(one.end);
                }
                _ => merged.push(one),
            }
        }
        merged
    }

    fn left_out_before(&self, at: usize, is_before: impl Fn(usize, usize) -> bool) -> usize {
        let count = self.gaps.partition_point(|(gap, _)| is_before(*gap, at));
        count.checked_sub(1).map_or(0, |last| self.gaps[last].1)
    }
}

/// `text` as it is seen.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    Shown::of(text).map_or(Cow::Borrowed(text), |shown| Cow::Owned(shown.text))
}

/// The runs of unseen characters of `text` inside of a word or between words that stand together. Secrets and addresses
/// are mostly ASCII: what joins two letters of another script belongs to them.
fn unseen_runs(text: &str) -> impl Iterator<Item = Range<usize>> {
    static RUNS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(UNSEEN).expect("the expression is a constant and a test uses it"));
    let is_inside = |run: &Range<usize>| {
        let ends = [text[..run.start].chars().next_back(), text[run.end..].chars().next()];
        ends.iter().all(|end| end.is_some_and(|c| !c.is_whitespace()))
            && ends.iter().flatten().any(char::is_ascii_graphic)
    };
    RUNS.find_iter(text).map(|run| run.range()).filter(is_inside)
}
