//! Why a store could not do what it was asked, sorted by what the caller should do next.

use folio_engine::event::FORMAT;
use folio_memory::{Invalid, RunId, Seq};

/// What the caller should do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Ask for something that exists.
    NotFound,
    /// Read again, then decide anew.
    Conflict,
    /// Correct the call.
    Invalid,
    /// Try again later. A write may or may not have happened; repeating it with its idempotency key is safe.
    Unavailable,
    /// Restore from a backup, or run the doctor.
    Corrupt,
}

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Something that was named does not exist.
    #[error("there is no {what} {name} in this space")]
    NotFound {
        /// What was asked for: `entry`, `page`, `run`, `blob`.
        what: &'static str,
        /// Its name, as the caller gave it.
        name: String,
    },
    /// An entry is at another version than the writer expects.
    #[error("cannot change {entry}: it is at version {found}, not {expected}")]
    StaleVersion {
        /// The entry.
        entry: String,
        /// The version that the entry has.
        found: u32,
        /// The version that the writer expected.
        expected: u32,
    },
    /// The policy of the space is at another version than the writer expects.
    #[error("cannot set the policy: it is at version {found}, not {expected}")]
    StalePolicy {
        /// The version that the policy has.
        found: u32,
        /// The version that the writer expected.
        expected: u32,
    },
    /// A writer followed a version of the policy that is no longer in force.
    #[error("cannot write under version {expected} of the policy: version {found} is in force")]
    OtherPolicy {
        /// The version that is in force.
        found: u32,
        /// The version that the writer followed.
        expected: u32,
    },
    /// A run's journal has grown since its driver last read it.
    #[error("cannot append to run {run}: its journal ends at {found}, not at {expected}")]
    StaleRun {
        /// The run.
        run: String,
        /// The commit at which the journal ends.
        found: Seq,
        /// The commit at which the writer expected it to end.
        expected: Seq,
    },
    /// A call of another run writes the resource that a call of this run is about to write (E9.15).
    #[error("cannot begin: {name} is being written by run {run}")]
    WrittenElsewhere {
        /// The name of the resource that the other run holds.
        name: String,
        /// The other run.
        run: RunId,
        /// The last commit of the space at the time of the check.
        head: Seq,
    },
    /// A space has grown since the writer last read it.
    #[error("cannot write: the space has grown to commit {found}, beyond {expected}")]
    StaleSpace {
        /// Its last commit.
        found: Seq,
        /// The last commit that the writer knows.
        expected: Seq,
    },
    /// A turn has ended already.
    #[error("turn {turn} has ended already")]
    TurnEnded {
        /// The turn.
        turn: String,
    },
    /// A turn has not ended yet, so there is nothing that is made at its end.
    #[error("{turn} has not ended, so there is no export of it")]
    TurnOpen {
        /// The turn.
        turn: String,
    },
    /// Another process drives the run.
    #[error("run {run} is driven already{}", detail.as_deref().map(|d| format!(" ({d})")).unwrap_or_default())]
    RunTaken {
        /// The run, by its handle where that is at hand.
        run: String,
        /// What is known about the other driver.
        detail: Option<String>,
    },
    /// The run was forgotten: nobody knows any more what it said.
    #[error("run {run} was forgotten: nobody knows any more what it said")]
    RunForgotten {
        /// The run, by its handle.
        run: String,
    },
    /// A run that has not ended cannot be forgotten.
    #[error("cannot forget {run}: it has not ended")]
    RunNotEnded {
        /// The run, by its handle.
        run: String,
    },
    /// The idempotency key belongs to a commit for a different request.
    #[error("the idempotency key was used before for a different request")]
    KeyReused,
    /// The call contradicts itself or the data.
    #[error("{0}")]
    Invalid(String),
    /// What a writer wants is no longer possible, or never was: a precondition of its commit tells why.
    #[error(transparent)]
    Unmet(Invalid),
    /// The store cannot be opened, reached or written now.
    #[error("cannot {doing} {location}: {reason}")]
    Unavailable {
        /// What failed: `open`, `write to`, `read from`.
        doing: &'static str,
        /// The file or address.
        location: String,
        /// Why it failed, in words.
        reason: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The file was written by a newer version of the program.
    #[error("{location} has format {found}; this version of folio knows formats up to {known}")]
    TooNew {
        /// The file.
        location: String,
        /// Its format.
        found: u32,
        /// The newest format that this version knows.
        known: u32,
    },
    /// A newer version of the program began or continued the run, so this version cannot read all of its commits
    /// (E9.9).
    #[error("the journal of {run} has event format {found}; this version of folio knows formats up to {FORMAT}")]
    RunTooNew {
        /// The run.
        run: RunId,
        /// Its format.
        found: u32,
    },
    /// Something that was read cannot be right.
    #[error("{location} is damaged: {reason}")]
    Corrupt {
        /// The file or address.
        location: String,
        /// What is wrong.
        reason: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl StoreError {
    /// A stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::StaleVersion { .. } => "stale_version",
            Self::StalePolicy { .. } => "stale_policy",
            Self::OtherPolicy { .. } => "policy_changed",
            Self::StaleRun { .. } | Self::WrittenElsewhere { .. } => "stale_run",
            Self::StaleSpace { .. } => "stale_space",
            Self::TurnEnded { .. } => "turn_ended",
            Self::TurnOpen { .. } => "turn_open",
            Self::RunTaken { .. } => "run_taken",
            Self::RunForgotten { .. } => "run_forgotten",
            Self::RunNotEnded { .. } => "run_not_ended",
            Self::KeyReused => "key_reused",
            Self::Invalid(_) | Self::Unmet(_) => "invalid",
            Self::Unavailable { .. } => "store_unavailable",
            Self::TooNew { .. } => "store_too_new",
            Self::RunTooNew { .. } => "run_too_new",
            Self::Corrupt { .. } => "store_damaged",
        }
    }

    /// What the caller should do next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::RunForgotten { .. } => ErrorKind::NotFound,
            Self::StaleVersion { .. }
            | Self::StalePolicy { .. }
            | Self::OtherPolicy { .. }
            | Self::StaleRun { .. }
            | Self::WrittenElsewhere { .. }
            | Self::StaleSpace { .. }
            | Self::RunTaken { .. }
            | Self::RunNotEnded { .. }
            | Self::TurnEnded { .. }
            | Self::TurnOpen { .. } => ErrorKind::Conflict,
            Self::Invalid(_) | Self::Unmet(_) | Self::KeyReused => ErrorKind::Invalid,
            Self::Unavailable { .. } | Self::TooNew { .. } | Self::RunTooNew { .. } => ErrorKind::Unavailable,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
        }
    }
}

/// Refuses a store whose format has the number `found` if this program knows only the first `known` ones.
///
/// # Errors
///
/// `TooNew`.
pub(crate) fn refuse_newer(found: u32, known: usize, location: &str) -> Result<(), StoreError> {
    let known = u32::try_from(known).unwrap_or(u32::MAX);
    if found > known {
        return Err(StoreError::TooNew {
            location: location.to_owned(),
            found,
            known,
        });
    }
    Ok(())
}

/// The error for a claim by an owner that was released meanwhile: as a rule, nobody is left who hears of it.
pub(crate) fn released_owner() -> StoreError {
    StoreError::Invalid("this owner of runs was released, and claims nothing any more".to_owned())
}

/// The error for something that was named and does not exist.
pub(crate) fn not_found(what: &'static str, name: impl ToString) -> StoreError {
    StoreError::NotFound {
        what,
        name: name.to_string(),
    }
}
