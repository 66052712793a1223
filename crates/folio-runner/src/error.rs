//! Why a run could not be submitted or driven. How a run *ended* is a result, not an error.

use folio_engine::plan::PlanErrors;
use folio_engine::run::{EditError, ForkError, JournalError, LimitError};
use folio_memory::id::RunHandle;
use folio_memory::roles::Denied;
use folio_memory::{RunId, Timestamp};
use folio_store::workspace::WorkspaceError;
use folio_store::{ErrorKind, StoreError};
use folio_tools::ToolError;

/// Why a run could not be submitted or driven.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// The store failed. The run continues from where it was as soon as somebody drives it again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The actor may not do this in the space (M7.7).
    #[error(transparent)]
    Refused(#[from] Denied),
    /// Memory refused what was to be written. Boxed, since every function that can fail carries it.
    #[error(transparent)]
    Memory(Box<WorkspaceError>),
    /// The journal cannot be folded.
    #[error("the journal of {run} cannot be read")]
    Journal {
        /// The run.
        run: RunId,
        /// Why it cannot be folded.
        #[source]
        source: JournalError,
    },
    /// Some tasks need a model, and no model is configured.
    #[error("only a model can do {}, and no model is configured", tasks.join(", "))]
    NeedsModel {
        /// The names of these tasks.
        tasks: Vec<String>,
    },
    /// Steps that are still to come need tools or executors that this process does not have.
    #[error(
        "steps of the run need {}, which this process does not have",
        missing(tools, executors)
    )]
    NotEquipped {
        /// The tools that are missing.
        tools: Vec<String>,
        /// The executors that are missing.
        executors: Vec<String>,
    },
    /// A tool of this process has a name by which it cannot be called.
    #[error("{}", .0.message)]
    ToolName(ToolError),
    /// The plan has mistakes.
    #[error("the plan has mistakes: {}", .0.in_words().join("; "))]
    Plan(PlanErrors),
    /// The inputs do not fit the plan.
    #[error("the inputs do not fit the plan: {}", problems.join("; "))]
    Inputs {
        /// Everything that is wrong with the inputs.
        problems: Vec<String>,
    },
    /// An answer was given where no question is open.
    #[error("{path} has no open question{}", over.map_or_else(String::new, |at| format!(": the time for an answer ended at {at}")))]
    NoQuestion {
        /// The path of the node.
        path: String,
        /// When the time for an answer ended, if a question was open.
        over: Option<Timestamp>,
    },
    /// A person edited the plan of a run whose driver is of a version that would not understand the edit.
    #[error("an older version of Folio drives {run}, and would not understand the new plan; end that process first")]
    OlderDriver {
        /// The run.
        run: RunHandle,
    },
    /// The run, or a part of it, has no time left for what a person decided.
    #[error("the time of {path} ended at {at}, so it will be stopped as soon as the run goes on")]
    TimeIsUp {
        /// The path of the part whose deadline it is.
        path: String,
        /// When that was.
        at: Timestamp,
    },
    /// The answer is not among the options of the question.
    #[error("{answer:?} is not one of the answers to choose from: {}", options.join(", "))]
    NotAnOption {
        /// The answer.
        answer: String,
        /// The answers to choose from.
        options: Vec<String>,
    },
    /// The answer is empty.
    #[error("the answer to the question of {path} is empty, and the question stays open")]
    EmptyAnswer {
        /// The path of the node.
        path: String,
    },
    /// The plan cannot be edited in this way.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// An approval or rejection was given where none is waited for.
    #[error("{path} does not wait for approval")]
    NoApproval {
        /// The path of the node.
        path: String,
    },
    /// By now something else waits there than what was answered.
    #[error("{path} no longer waits for what was answered, but for something else")]
    AskedElse {
        /// The path of the node.
        path: String,
    },
    /// Only a person approves, rejects and changes limits.
    #[error("only a person may do that, not the role {role}")]
    NotAPerson {
        /// The role in which it was attempted.
        role: String,
    },
    /// The limit cannot be changed in this way.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// No run can begin at that moment.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// The run has ended, and this can only be done to a run that has not.
    #[error("the run has ended")]
    Ended,
    /// No other process could be told to drive the run.
    #[error("cannot hand the run over to {at}: {reason}")]
    Dispatch {
        /// The address of the dispatcher.
        at: String,
        /// What went wrong.
        reason: String,
    },
    /// The process is about to end, and starts nothing more.
    #[error("this process is about to end and drives no more runs")]
    Leaving,
    /// The driver of the run failed by a mistake in the program.
    #[error("the driver of the run panicked{}: {message}", if *is_paused { ", so the run is paused" } else { "" })]
    Panicked {
        /// The message of the panic.
        message: String,
        /// Whether the run is paused now, so that nobody tries the same again.
        is_paused: bool,
    },
    /// A folder that the run needs cannot be used.
    #[error("cannot use the folder {path}: {reason}")]
    Folder {
        /// The path of the folder.
        path: String,
        /// Why it cannot be used.
        reason: String,
    },
}

impl RunnerError {
    /// A stable code, for programs.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Store(error) => error.code(),
            Self::Memory(error) => error.code(),
            Self::Refused(_) | Self::NotAPerson { .. } => Denied::CODE,
            Self::Journal { source, .. } => source.code(),
            Self::NeedsModel { .. } => "needs_model",
            Self::NotEquipped { .. } => "not_equipped",
            Self::Plan(_) => "plan_invalid",
            Self::Inputs { .. } => "inputs_invalid",
            Self::NoQuestion { .. } => "no_question",
            Self::OlderDriver { .. } => "run_taken",
            Self::TimeIsUp { .. } => "time_is_up",
            Self::NotAnOption { .. } => "not_an_option",
            Self::EmptyAnswer { .. } => "answer_empty",
            Self::Edit(error) => error.code(),
            Self::NoApproval { .. } => "no_approval",
            Self::AskedElse { .. } => "asked_else",
            Self::Limit(_) => "limit_unusable",
            Self::Fork(error) => error.code(),
            Self::Ended => "run_ended",
            Self::Dispatch { .. } => "dispatch_unavailable",
            Self::Leaving => "leaving",
            Self::Panicked { .. } => "driver_panicked",
            Self::Folder { .. } => "folder_unusable",
            Self::ToolName(error) => &error.code,
        }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Memory(error) => error.kind(),
            Self::NoQuestion { .. } | Self::NoApproval { .. } | Self::Edit(EditError::NoPlan { .. }) => {
                ErrorKind::NotFound
            }
            Self::NeedsModel { .. }
            | Self::NotEquipped { .. }
            | Self::Plan(_)
            | Self::Inputs { .. }
            | Self::NotAnOption { .. }
            | Self::EmptyAnswer { .. }
            | Self::Folder { .. }
            | Self::ToolName(_)
            | Self::Edit(EditError::Mistakes(_)) => ErrorKind::Invalid,
            Self::Refused(_)
            | Self::NotAPerson { .. }
            | Self::AskedElse { .. }
            | Self::OlderDriver { .. }
            | Self::TimeIsUp { .. }
            | Self::Edit(_)
            | Self::Limit(_)
            | Self::Ended => ErrorKind::Conflict,
            Self::Dispatch { .. } | Self::Leaving => ErrorKind::Unavailable,
            Self::Journal { source, .. } | Self::Fork(ForkError::Journal(source)) => match source {
                JournalError::TooNew { .. } => ErrorKind::Unavailable,
                _ => ErrorKind::Corrupt,
            },
            Self::Fork(_) => ErrorKind::Conflict,
            Self::Panicked { .. } => ErrorKind::Corrupt,
        }
    }
}

/// What is missing, in words: "the tool a.b, and the executors x, y".
fn missing(tools: &[String], executors: &[String]) -> String {
    let kinds = [("tool", tools), ("executor", executors)].into_iter();
    let phrases = kinds.filter(|(_, names)| !names.is_empty()).map(|(kind, names)| {
        let plural = if names.len() == 1 { "" } else { "s" };
        format!("the {kind}{plural} {}", names.join(", "))
    });
    phrases.collect::<Vec<_>>().join(" and ")
}

impl From<WorkspaceError> for RunnerError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Store(error) => Self::Store(error),
            WorkspaceError::Refused(denied) => Self::Refused(denied),
            other => Self::Memory(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_memory::Invalid;

    use super::*;

    #[test]
    fn workspace_error_keeps_its_code_and_kind_in_the_runner() {
        let invalid = Invalid::new("title_too_long", "title", "has too many characters");
        let error = RunnerError::from(WorkspaceError::from(invalid));
        assert_eq!((error.code(), error.kind()), ("title_too_long", ErrorKind::Invalid));
        let io = std::io::Error::other("the pipe broke");
        let error = RunnerError::from(WorkspaceError::Output(io));
        assert_eq!((error.code(), error.kind()), ("io", ErrorKind::Unavailable));
    }

    #[test]
    fn journal_error_has_the_same_code_when_driven_or_forked() {
        let cases = [
            (JournalError::Start, "run_unreadable", ErrorKind::Corrupt),
            (
                JournalError::TooNew { found: 99 },
                "run_too_new",
                ErrorKind::Unavailable,
            ),
        ];
        for (source, code, kind) in cases {
            let run = RunId::from_bytes([7; 16]);
            let driven = RunnerError::Journal {
                run,
                source: source.clone(),
            };
            let forked = RunnerError::from(ForkError::from(source));
            for error in [driven, forked] {
                assert_eq!((error.code(), error.kind()), (code, kind), "{error:?}");
            }
        }
    }
}
