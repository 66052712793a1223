//! Links: directed edges between pages and entries.

use serde::{Deserialize, Serialize};

/// The meaning of a link.
///
/// `contains` between pages is not stored as a link: it is the page's parent, which the seeds call
/// `document_has_document`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The source mentions the target.
    References,
    /// The source replaces the target.
    Supersedes,
    /// The source was made from the target.
    DerivedFrom,
    /// The source supports the target.
    EvidenceFor,
    /// The source must be done before the target.
    Blocks,
    /// The source answers the target.
    RepliesTo,
}

impl Relation {
    /// All relations.
    pub const ALL: [Self; 6] = [
        Self::References,
        Self::Supersedes,
        Self::DerivedFrom,
        Self::EvidenceFor,
        Self::Blocks,
        Self::RepliesTo,
    ];

    /// The relation's name in its written and stored form.
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

    /// Parses a name that [`Relation::as_str`] returns.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|relation| relation.as_str() == text)
    }
}

/// A link. Its ends are written ids (`obs_…`, `page_…`) in the same space.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// The id of the source.
    pub src: String,
    /// The meaning of the link.
    pub rel: Relation,
    /// The id of the target.
    pub dst: String,
}
