//! Keeping a space small (M7.6): what is due for being put away, what is taken out for good, and what is left of it.
//!
//! Archived content is kept, made smaller. Erased content is gone from every revision; what is left is a tombstone: the
//! entry's id, its times, who wrote it, and why it went.

mod due;
mod erase;
mod policy;
mod quota;
mod watch;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use due::{Due, brings_personal_data, due};
pub use erase::Eraser;
pub use policy::{QuotaPolicy, Redaction, RetentionPolicy};
pub use quota::{EvictionKey, eviction_key};
pub use watch::{PACKED_FROM, Watch, Watched, watched, watched_of};

/// Why keeping the space small put an entry away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ArchivedFor {
    /// Nobody changed or confirmed it for long (M7.6.44).
    Age,
    /// It was resolved, and nobody put it away (M7.5.42).
    Resolved,
    /// There were more live observations than the space may have (M7.6.46).
    Quota,
    /// It names a person, and that was long enough (M7.6.49).
    Pii,
}

impl ArchivedFor {
    /// The name as it is written.
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

/// Why the content of an entry is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErasedFor {
    /// Its time was over long ago (M7.1.10).
    Expired,
    /// It named a person, and that was long enough (M7.6.49).
    Pii,
    /// Somebody wanted it forgotten (M7.6.50).
    Forgotten,
}

impl ErasedFor {
    /// The name as it is written.
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
