//! Full-text search: the terms of an entry, and the entries that a few words find (M7.2.17).
//!
//! The same analyser processes entries and queries, so a store only has to keep terms and look them up:
//!
//! - words match regardless of case, accents and width: `Zürich`, `ZURICH` and `Ｚｕｒｉｃｈ` are equal;
//! - English words match in every form: `flight` finds `flights`. Words of other scripts are taken as they are;
//! - scripts without spaces (Han, kana, Hangul, Thai, Lao, Khmer, Burmese) are indexed by character and by pair, so
//!   that any part of a run of them is found;
//! - a compound name is found by itself and by its words: `camelCase`, `snake_case`;
//! - emoji and arrows are words; all other signs only separate words.
//!
//! [`VERSION`] identifies the rules by which terms were made. Stores of terms keep it with them.

mod fold;
mod needle;
mod query;
mod snippet;
mod token;

pub(crate) use fold::is_ignored;
pub use needle::{Needle, plain, spellings};
pub use query::{MAX_QUERY_TERMS, TextMatch, TextQuery};
pub use snippet::{Snippet, SnippetPart, snippet};
pub use token::is_of_spaceless;
pub(crate) use token::is_picture;

use crate::entry::{EntryFields, EntryKind};

/// The version of the rules for terms. Terms of another version are useless and are rebuilt.
pub const VERSION: u32 = 2;

/// The maximum number of bytes of a text that are indexed. What comes after them is not found.
pub const INDEXED_BYTES: usize = 1024 * 1024;

/// The maximum number of terms that are indexed per entry: those of its title, then its tags, then its text. Further
/// ones are not found. A text of [`INDEXED_BYTES`] has hardly ever as many.
pub const MAX_TERMS: usize = 1024 * 1024;

/// The maximum length of a term in bytes. The rest of a longer one is ignored, here and in queries.
pub const MAX_TERM_BYTES: usize = 64;

/// Whether entries of this kind are found by their text. Blocks of a log and steps of a plan are not: a run writes many
/// of them, and they are read on their page.
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

/// The terms of an entry in their order, for each field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryTerms {
    /// The terms of the title.
    pub title: Vec<String>,
    /// The terms of the text.
    pub body: Vec<String>,
    /// The terms of the tags.
    pub tags: Vec<String>,
}

impl EntryTerms {
    /// The terms of an entry with these fields, at most [`MAX_TERMS`], and of at most [`INDEXED_BYTES`] of the text.
    ///
    /// Of a text that is kept beside the entry, the fields hold only the beginning: a store has to put the whole in its
    /// place first.
    #[must_use]
    pub fn of(fields: &EntryFields) -> Self {
        let mut left = MAX_TERMS;
        let title = take_terms(&fields.title, &mut left);
        let mut tags = Vec::new();
        for tag in &fields.tags {
            tags.append(&mut take_terms(tag.as_str(), &mut left));
        }
        let text = &fields.body[..fields.body.floor_char_boundary(INDEXED_BYTES)];
        let body = take_terms(text, &mut left);
        Self { title, body, tags }
    }

    /// All terms.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let all = self.title.iter().chain(&self.body).chain(&self.tags);
        all.map(String::as_str)
    }
}

fn take_terms(text: &str, left: &mut usize) -> Vec<String> {
    let terms: Vec<_> = token::tokens(text).map(|token| token.term).take(*left).collect();
    *left -= terms.len();
    terms
}

#[cfg(test)]
mod tests;
