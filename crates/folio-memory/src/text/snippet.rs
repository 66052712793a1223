//! Snippets: the part of a text that shows why it matched.

use std::collections::HashSet;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation as _;

use super::TextQuery;
use super::token::tokens;

const ELLIPSIS: &str = "…";

/// How many matches are compared. A text of a mebibyte may match in a hundred thousand places, and one of the first
/// shows as well as any why it was found.
const HITS_MAX: usize = 1_000;

/// A part of a text on one line, in consecutive pieces.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Snippet {
    /// The pieces; an end that was cut is marked by `…`.
    pub parts: Vec<SnippetPart>,
}

/// A piece of a [`Snippet`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SnippetPart {
    /// The text of the piece, with line ends replaced by spaces.
    pub text: String,
    /// Whether the piece matches the query.
    pub hit: bool,
}

/// The `max` characters of `text` that match most of `query`, or its beginning if nothing matches.
///
/// Grapheme clusters are never cut. If several places match equally, the first is chosen. Only the first thousand
/// matches are looked at.
#[must_use]
pub fn snippet(text: &str, query: &TextQuery, max: usize) -> Snippet {
    let matching = tokens(text).filter(|token| query.contains_term(&token.term));
    let matching: Vec<(Range<usize>, String)> =
        matching.take(HITS_MAX).map(|token| (token.range, token.term)).collect();
    let ends = ends_until(text, matching.last().map_or(0, |(last, _)| last.end), max);
    let hits = hits(matching, &ends);
    let (start, end) = window(&hits, ends.len() - 1, max);
    let mut snippet = Snippet::default();
    if start > 0 {
        snippet.push(ELLIPSIS, false);
    }
    let mut at = start;
    for (hit, _) in &hits {
        let hit = hit.start.clamp(at, end)..hit.end.clamp(at, end);
        snippet.push(&text[ends[at]..ends[hit.start]], false);
        snippet.push(&text[ends[hit.start]..ends[hit.end]], true);
        at = hit.end;
    }
    snippet.push(&text[ends[at]..ends[end]], false);
    if ends[end] < text.len() {
        snippet.push(ELLIPSIS, false);
    }
    snippet
}

impl Snippet {
    /// The pieces as one text.
    #[must_use]
    pub fn text(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }

    fn push(&mut self, text: &str, is_hit: bool) {
        if text.is_empty() {
            return;
        }
        let text = text.replace("\r\n", " ").replace(['\n', '\r', '\t'], " ");
        match self.parts.last_mut() {
            Some(last) if last.hit == is_hit => last.text += &text,
            _ => self.parts.push(SnippetPart { text, hit: is_hit }),
        }
    }
}

/// Where the characters of `text` begin, up to `max` of them after the byte `at`, and where the last of these ends. No
/// snippet shows more, so the rest is not read.
fn ends_until(text: &str, at: usize, max: usize) -> Vec<usize> {
    let mut beyond = 0;
    let begins = text.grapheme_indices(true).map(|(begin, _)| begin).chain([text.len()]);
    begins
        .take_while(|begin| {
            beyond += usize::from(*begin >= at);
            beyond <= max.saturating_add(1)
        })
        .collect()
}

/// The ranges `matching`, in characters instead of bytes.
fn hits(matching: Vec<(Range<usize>, String)>, ends: &[usize]) -> Vec<(Range<usize>, String)> {
    let in_characters = |range: Range<usize>| {
        let start = ends.partition_point(|end| *end <= range.start) - 1;
        start..ends.partition_point(|end| *end < range.end)
    };
    matching
        .into_iter()
        .map(|(range, term)| (in_characters(range), term))
        .collect()
}

/// The `max` of `count` characters that show most of the `hits`, starting a little before the first of them.
fn window(hits: &[(Range<usize>, String)], count: usize, max: usize) -> (usize, usize) {
    let lead = max / 4;
    let mut best = (0, 0);
    for (index, (first, _)) in hits.iter().enumerate() {
        let start = first.start.saturating_sub(lead).min(count.saturating_sub(max));
        let inside = hits[index..].iter().take_while(|(hit, _)| hit.end <= start + max);
        let distinct_terms: HashSet<&str> = inside.map(|(_, term)| term.as_str()).collect();
        if distinct_terms.len() > best.0 {
            best = (distinct_terms.len(), start);
        }
    }
    (best.1, (best.1 + max).min(count))
}
