//! Why the workspace did not do what it was asked.

use folio_memory::{Actor, Entry, Invalid, Role};

use crate::error::{ErrorKind, StoreError};

/// Why the workspace did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// A field of the input cannot be used.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The actor's role does not allow it (M7.7).
    #[error("a {role} may not {what}")]
    Refused {
        /// The role.
        role: Role,
        /// What it wanted, for example `change e7, which another tool wrote`.
        what: String,
    },
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl WorkspaceError {
    /// What the caller does next. What is archived or not allowed is a conflict with how things stand.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(invalid) if invalid.code == "archived" => ErrorKind::Conflict,
            Self::Invalid(_) => ErrorKind::Invalid,
            Self::Refused { .. } => ErrorKind::Conflict,
            Self::Store(error) => error.kind(),
        }
    }
}

/// Whether `actor` may change `entry`: a tool changes only what it wrote itself (seed 004).
pub(super) fn authorise_patch(actor: &Actor, entry: &Entry) -> Result<(), WorkspaceError> {
    let wrote_it = entry.fields.source.tool.as_deref() == Some(actor.name.as_str());
    if actor.role == Role::Tool && !wrote_it {
        let what = format!("change {}, which it did not write", entry.handle);
        return Err(WorkspaceError::Refused { role: actor.role, what });
    }
    Ok(())
}
