//! Why a run could not be submitted or driven. How a run *ended* is a result, not an error.

use folio_engine::run::{EditError, ForkError, JournalError, LimitError};
use folio_memory::RunId;
use folio_memory::roles::Denied;
use folio_store::StoreError;
use folio_store::workspace::WorkspaceError;

/// Why a run could not be submitted or driven.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The store could not do its part. The run goes on where it was as soon as somebody drives it again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Whoever asks may not do this in the space (M7.7).
    #[error(transparent)]
    Refused(#[from] Denied),
    /// The journal cannot be folded.
    #[error("the journal of {run} cannot be read")]
    Journal {
        /// The run.
        run: RunId,
        /// Why.
        #[source]
        source: JournalError,
    },
    /// There are tasks that only a model can do, and there is none.
    #[error("only a model can do {}, and there is none", tasks.join(", "))]
    NeedsModel {
        /// Their names.
        tasks: Vec<String>,
    },
    /// The plan's inputs are wrong.
    #[error("the inputs do not fit the plan: {}", problems.join("; "))]
    Inputs {
        /// All that is wrong.
        problems: Vec<String>,
    },
    /// An answer was given to nothing.
    #[error("{path} asks nothing")]
    NoQuestion {
        /// Which node.
        path: String,
    },
    /// An answer is none of those that a question leaves.
    #[error("{answer:?} is none of the answers that the question leaves: {}", options.join(", "))]
    NotAnOption {
        /// The answer.
        answer: String,
        /// The answers to choose from.
        options: Vec<String>,
    },
    /// A plan cannot be edited so.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A yes or a no was given to nothing.
    #[error("{path} waits for no yes")]
    NoApproval {
        /// Which node.
        path: String,
    },
    /// What is asked there by now is something else than what was answered.
    #[error("what was asked at {path} is not asked any more: something else is")]
    AskedElse {
        /// Which node.
        path: String,
    },
    /// Only a person says yes and no, and changes limits.
    #[error("only a person may do that, and {role} is none")]
    NotAPerson {
        /// In which role somebody tried to.
        role: String,
    },
    /// A limit cannot be changed so.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// No run can begin at that moment.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// What can only be done to a run that goes on.
    #[error("the run has ended")]
    Ended,
    /// Nobody could be told to drive a run.
    #[error("cannot hand the run over to {at}: {reason}")]
    Dispatch {
        /// Who would tell them.
        at: String,
        /// What went wrong.
        reason: String,
    },
    /// The process ends, and begins nothing more.
    #[error("this process is about to end and drives nothing more")]
    Leaving,
    /// A folder that the run needs cannot be used.
    #[error("cannot use the folder {path}: {reason}")]
    Folder {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
}

impl From<WorkspaceError> for RunnerError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Store(error) => Self::Store(error),
            WorkspaceError::Refused(denied) => Self::Refused(denied),
            other => Self::Store(StoreError::Invalid(other.to_string())),
        }
    }
}
