//! Edges between pages and entries.

use serde::{Deserialize, Serialize};

/// What an edge means.
///
/// `contains` between pages is not stored as a link: it is the page's parent, and seeds know it as
/// `document_has_document`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Mentions.
    References,
    /// Takes the place of.
    Supersedes,
    /// Was made from.
    DerivedFrom,
    /// Supports.
    EvidenceFor,
    /// Must be done first.
    Blocks,
    /// Answers.
    RepliesTo,
}

impl Relation {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::References,
        Self::Supersedes,
        Self::DerivedFrom,
        Self::EvidenceFor,
        Self::Blocks,
        Self::RepliesTo,
    ];

    /// The name as it is written and stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::References => "references",
            Self::Supersedes => "supersedes",
            Self::DerivedFrom => "derived_from",
            Self::EvidenceFor => "evidence_for",
            Self::Blocks => "blocks",
            Self::RepliesTo => "replies_to",
        }
    }

    /// Reads a name that [`Relation::as_str`] gives.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|relation| relation.as_str() == text)
    }
}

/// An edge. The ends are written ids (`obs_…`, `page_…`), both in the same space.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// From.
    pub src: String,
    /// What it means.
    pub rel: Relation,
    /// To.
    pub dst: String,
}
