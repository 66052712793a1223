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
