//! Text queries.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::EntryTerms;
use super::token::{Token, TokenKind, tokens_of, words};
use crate::entry::EntryFields;

/// The maximum number of terms in a query. Further ones are ignored, and [`TextQuery::is_cut()`] says so.
pub const MAX_QUERY_TERMS: usize = 64;

/// How many of the words must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextMatch {
    /// All of them.
    #[default]
    All,
    /// At least one.
    Any,
}

/// A text query. Every text is valid: there is no syntax to get wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextQuery {
    words: Vec<Vec<String>>,
    how: TextMatch,
    is_cut: bool,
}

impl TextQuery {
    /// Parses `text` into a query for entries with all or any of its words.
    ///
    /// Stop words (`the`, `of`) do not count if there are other words. A text without words finds nothing.
    #[must_use]
    pub fn of(text: &str, mode: TextMatch) -> Self {
        let mut found: Vec<(Vec<String>, bool)> = Vec::new();
        let (mut left, mut is_cut) = (MAX_QUERY_TERMS, false);
        for word in words(text) {
            let tokens = tokens_of(text, word);
            let is_stop_word = tokens.iter().all(|token| token.sort == TokenKind::StopWord);
            let mut terms = required_terms(tokens);
            if terms.is_empty() || found.iter().any(|(other, _)| *other == terms) {
                continue;
            }
            is_cut = terms.len() > left;
            terms.truncate(left);
            left -= terms.len();
            if !terms.is_empty() {
                found.push((terms, is_stop_word));
            }
            if is_cut {
                break;
            }
        }
        let all_stand_everywhere = found.iter().all(|(_, is_stop_word)| *is_stop_word);
        let words = found
            .into_iter()
            .filter(|(_, is_stop_word)| all_stand_everywhere || !is_stop_word);
        Self {
            words: words.map(|(terms, _)| terms).collect(),
            how: mode,
            is_cut,
        }
    }

    /// For each word, the terms that must all match.
    #[must_use]
    pub fn words(&self) -> &[Vec<String>] {
        &self.words
    }

    /// How many of the words must match.
    #[must_use]
    pub fn how(&self) -> TextMatch {
        self.how
    }

    /// Whether the text has more words than the query uses.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether the query has no words, so that it finds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether the query matches an entry with these fields.
    #[must_use]
    pub fn matches(&self, fields: &EntryFields) -> bool {
        let terms = EntryTerms::of(fields);
        let terms: HashSet<&str> = terms.iter().collect();
        let mut word_hits = self
            .words
            .iter()
            .map(|word| word.iter().all(|term| terms.contains(term.as_str())));
        match self.how {
            TextMatch::All => !self.is_empty() && word_hits.all(|is_found| is_found),
            TextMatch::Any => word_hits.any(|is_found| is_found),
        }
    }

    /// Whether `term` is part of the query.
    pub(super) fn contains_term(&self, term: &str) -> bool {
        self.words.iter().flatten().any(|query_term| query_term == term)
    }
}

/// The terms that must match for one word: the words of a compound name, the pairs of a run.
fn required_terms(tokens: Vec<Token>) -> Vec<String> {
    let pairs = || tokens.iter().filter(|token| token.sort == TokenKind::Pair);
    let pair_starts: HashSet<_> = pairs().map(|pair| pair.range.start).collect();
    let pair_ends: HashSet<_> = pairs().map(|pair| pair.range.end).collect();
    let is_in_pair = |token: &Token| pair_starts.contains(&token.range.start) || pair_ends.contains(&token.range.end);
    let mut known = HashSet::new();
    let mut terms = Vec::new();
    for token in &tokens {
        let is_wanted = match token.sort {
            TokenKind::Word | TokenKind::StopWord | TokenKind::Pair => true,
            TokenKind::Name => false,
            TokenKind::Character => !is_in_pair(token),
        };
        if is_wanted && known.insert(&*token.term) {
            terms.push(token.term.clone());
        }
    }
    terms
}
