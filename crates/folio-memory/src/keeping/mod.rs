//! Keeping a space small (M7.6): what is due to be archived or erased, and what remains of it.
//!
//! Archived content is kept, and compressed where that saves room. Erased content is gone from every revision; a
//! tombstone remains: the entry's id, its times, who wrote it, and why the content went.

mod due;
mod erase;
mod policy;
mod quota;
mod watch;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use due::{Due, brings_personal_data, due, hides_last_change};
pub use erase::{Eraser, RunTombstone};
pub use policy::{QuotaPolicy, Redaction, RetentionPolicy};
pub use quota::{EvictionKey, eviction_key};
pub use watch::{PACKED_FROM, Watch, Watched, watched, watched_of};

/// Which rule archived an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ArchivedFor {
    /// Nobody changed or confirmed it for a long time (M7.6.44).
    Age,
    /// It was resolved, and nobody archived it (M7.5.42).
    Resolved,
    /// The space had more live observations than its quota allows (M7.6.46).
    Quota,
    /// It contains personal data, and the period for that is over (M7.6.49).
    Pii,
}

impl ArchivedFor {
    /// The name in its written form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Resolved => "resolved",
            Self::Quota => "quota",
            Self::Pii => "pii",
        }
    }
}

impl fmt::Display for ArchivedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why the content of an entry was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErasedFor {
    /// Its lifetime ended long ago (M7.1.10).
    Expired,
    /// It contained personal data, and the period for that is over (M7.6.49).
    Pii,
    /// Somebody wanted it forgotten (M7.6.50).
    Forgotten,
}

impl ErasedFor {
    /// The name in its written form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Pii => "pii",
            Self::Forgotten => "forgotten",
        }
    }
}

impl fmt::Display for ErasedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
