//! Search in text: which terms stand in an entry, and which entries a few words find (M7.2.17).
//!
//! One analyser reads entries and questions alike, so a store only has to keep terms and look them up:
//!
//! - words are found without regard to case, accents and width: `Zürich`, `ZURICH` and `Ｚｕｒｉｃｈ` are one;
//! - English words are found in every form: `flight` finds `flights`. Words of other scripts are taken as they are;
//! - scripts without spaces (Han, kana, Hangul, Thai, Lao, Khmer, Burmese) are taken character by character and pair by
//!   pair, so that any part of a run of them is found;
//! - a name made of words is found by itself and by its words: `camelCase`, `snake_case`;
//! - pictures and arrows are words; all other signs only part words.
//!
//! [`VERSION`] says by which rules terms were made. Whoever keeps terms keeps it, too.

mod fold;
mod query;
mod snippet;
mod sought;
mod token;

pub(crate) use fold::is_ignored;
pub use query::{MAX_QUERY_TERMS, TextMatch, TextQuery};
pub use snippet::{Snippet, SnippetPart, snippet};
pub use sought::{Sought, plain, spellings};
pub use token::is_of_spaceless;
pub(crate) use token::is_picture;

use crate::entry::{EntryFields, EntryKind};

/// Which rules make terms. Terms made by others are of no use and are made again.
pub const VERSION: u32 = 1;

/// Most terms that an entry is found by: of its title, then its tags, then its text. What comes after is not found.
pub const MAX_TERMS: usize = 16_384;

/// Most bytes of a term; the rest of a longer one does not count, here and in questions.
pub const MAX_TERM_BYTES: usize = 64;

/// Whether entries of this kind are found by their text. Blocks of a log and steps of a plan are not: a run writes many of
/// them, and they are read on their page.
#[must_use]
pub fn is_searchable(kind: EntryKind) -> bool {
    match kind {
        EntryKind::Observation
        | EntryKind::Note
        | EntryKind::Todo
        | EntryKind::Task
        | EntryKind::Goal
        | EntryKind::PendingAction
        | EntryKind::Summary => true,
        EntryKind::Step | EntryKind::Log => false,
    }
}

/// The terms of an entry in the order in which they stand there, each field for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryTerms {
    /// Of its title.
    pub title: Vec<String>,
    /// Of its text.
    pub body: Vec<String>,
    /// Of its tags.
    pub tags: Vec<String>,
}

impl EntryTerms {
    /// The terms of an entry with these fields, at most [`MAX_TERMS`].
    #[must_use]
    pub fn of(fields: &EntryFields) -> Self {
        let mut left = MAX_TERMS;
        let title = some_terms(&fields.title, &mut left);
        let mut tags = Vec::new();
        for tag in &fields.tags {
            tags.append(&mut some_terms(tag.as_str(), &mut left));
        }
        let body = some_terms(&fields.body, &mut left);
        Self { title, body, tags }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let all = self.title.iter().chain(&self.body).chain(&self.tags);
        all.map(String::as_str)
    }
}

fn some_terms(text: &str, left: &mut usize) -> Vec<String> {
    let terms: Vec<_> = token::tokens(text).map(|token| token.term).take(*left).collect();
    *left -= terms.len();
    terms
}

#[cfg(test)]
mod tests;
