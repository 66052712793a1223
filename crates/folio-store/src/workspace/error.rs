//! Errors of the workspace.

use folio_memory::lifecycle::AlreadyClaimed;
use folio_memory::policy::PolicyMistakes;
use folio_memory::roles::Denied;
use folio_memory::{Entry, Invalid, Timestamp};

use crate::error::{ErrorKind, StoreError};

/// Why the workspace did not do what was requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// A field of the input cannot be used.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A policy has mistakes.
    #[error(transparent)]
    Policy(#[from] PolicyMistakes),
    /// The actor's role does not allow it (M7.7).
    #[error(transparent)]
    Refused(#[from] Denied),
    /// Somebody else is working on the entry.
    #[error(transparent)]
    Taken(#[from] AlreadyClaimed),
    /// An entry is not at the version that was expected.
    #[error("{source}")]
    Stale {
        /// The entry as it is now.
        current: Box<Entry>,
        /// When that was.
        at: Timestamp,
        /// The versions, as the store reports them.
        source: StoreError,
    },
    /// The input to be kept cannot be read.
    #[error("cannot read the input: {0}")]
    Input(#[source] std::io::Error),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] std::io::Error),
    /// The store refused or failed.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for WorkspaceError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unmet(invalid) => Self::Invalid(invalid),
            error => Self::Store(error),
        }
    }
}

impl WorkspaceError {
    /// A stable code, for programs.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Invalid(invalid) => &invalid.code,
            Self::Policy(_) => PolicyMistakes::CODE,
            Self::Refused(_) => Denied::CODE,
            Self::Taken(_) => "claimed",
            Self::Stale { source, .. } => source.code(),
            Self::Input(_) => "file_unusable",
            Self::Output(_) => "io",
            Self::Store(error) => error.code(),
        }
    }

    /// The kind of the error, by which callers decide what to do next. An archived or superseded entry, and an
    /// operation that is not allowed, are conflicts.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(invalid) if matches!(&*invalid.code, "archived" | "superseded") => ErrorKind::Conflict,
            Self::Invalid(_) | Self::Policy(_) | Self::Input(_) => ErrorKind::Invalid,
            Self::Output(_) => ErrorKind::Unavailable,
            Self::Refused(_) | Self::Taken(_) | Self::Stale { .. } => ErrorKind::Conflict,
            Self::Store(error) => error.kind(),
        }
    }
}
