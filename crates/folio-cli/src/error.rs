//! How a failure is told: a code, what was tried, its causes once, and what to try next.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::process::ExitCode;

use folio::OpenError;
use folio::engine::run::{EditError, JournalError};
use folio::memory::Entry;
use folio::runner::RunnerError;
use folio::store::{ErrorKind, StoreError, WorkspaceError};
use serde_json::{Value, json};

use crate::report::observation::Observation;

/// What to do with a run of a newer version.
const NEWER_FOR_RUN: &str = "use the newer version of folio for this run";

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// The run ended partial or failed.
    RunNotOk,
    /// The call or its input is wrong.
    Usage,
    /// Something that was named is not there.
    NotFound,
    /// Conflict, permission, budget.
    Refused,
    /// The store or a service cannot be reached.
    Unavailable,
    /// Data is damaged.
    Damaged,
    /// Somebody pressed Ctrl-C, or cancelled the run.
    Cancelled,
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::RunNotOk => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Unavailable => 5,
            Self::Damaged => 6,
            Self::Cancelled => 130,
        }
    }

    /// A heading for failures that end so, and the HTTP status that says the same.
    fn title(self) -> (&'static str, u16) {
        match self {
            Self::Done | Self::RunNotOk => ("The run did not end well", 422),
            Self::Usage => ("Invalid input", 400),
            Self::NotFound => ("Not found", 404),
            Self::Refused => ("Refused", 409),
            Self::Unavailable => ("Unavailable", 503),
            Self::Damaged => ("Damaged data", 500),
            Self::Cancelled => ("Cancelled", 499),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Conflict => Self::Refused,
            ErrorKind::Invalid => Self::Usage,
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::Corrupt => Self::Damaged,
        }
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    // Boxed, since every function that can fail carries it.
    told: Box<Told>,
}

#[derive(Debug)]
struct Told {
    exit: Exit,
    code: String,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
    /// The entry that it is about, as it stands.
    current: Option<Value>,
    /// One line for each of several mistakes, and the same for programs.
    errors: Vec<(String, Value)>,
    closed_pipe: bool,
}

impl Failure {
    /// A failure that ends the program with `exit`. `code` is a stable name.
    pub(crate) fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let told = Told {
            exit,
            code: code.into(),
            // Whoever was given an address likes to repeat it.
            message: without_passwords(&message).into_owned(),
            causes: Vec::new(),
            hints: Vec::new(),
            current: None,
            errors: Vec::new(),
            closed_pipe: false,
        };
        Self { told: Box::new(told) }
    }

    /// A mistake in the call.
    pub(crate) fn usage(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, code, message)
    }

    /// A file or folder that the caller named and that cannot be used.
    pub(crate) fn file(doing: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let exit = match error.kind() {
            std::io::ErrorKind::NotFound => Exit::NotFound,
            std::io::ErrorKind::PermissionDenied => Exit::Refused,
            _ => Exit::Usage,
        };
        Self::new(
            exit,
            "file_unusable",
            format!("cannot {doing} {}: {}", path.display(), in_words(error)),
        )
    }

    /// Something that this machine did not let us do.
    pub(crate) fn cannot(doing: &str, what: &str, error: std::io::Error) -> Self {
        let message = format!("cannot {doing} {what}: {}", in_words(&error));
        let mut failure = Self::new(Exit::Unavailable, "io", message);
        failure.told.closed_pipe = error.kind() == std::io::ErrorKind::BrokenPipe;
        failure
    }

    /// That an answer could not be written is worth telling although nobody reads our output any more: `what` became of it.
    pub(crate) fn worth_telling(mut self, what: &str) -> Self {
        self.told.closed_pipe = false;
        self.hint(what)
    }

    /// Ends the program otherwise.
    pub(crate) fn ending(mut self, exit: Exit) -> Self {
        self.told.exit = exit;
        self
    }

    /// Adds what to try.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.told.hints.push(hint.into());
        self
    }

    /// Says how the entry that it is about stands.
    fn about(mut self, entry: &Entry) -> Self {
        self.told.current = serde_json::to_value(Observation::of(entry, entry.updated_at)).ok();
        self
    }

    /// Says which plan, or which file, it is about.
    pub(crate) fn about_file(mut self, plan: &str) -> Self {
        self.told.message = format!("{plan}: {}", self.told.message);
        self
    }

    /// Adds one of several mistakes: a line for people, and an object for programs.
    pub(crate) fn mistake(mut self, line: String, object: Value) -> Self {
        self.told.errors.push((line, object));
        self
    }

    /// The stable name of what happened.
    pub(crate) fn code(&self) -> &str {
        &self.told.code
    }

    /// How the program ends.
    pub(crate) fn exit(&self) -> Exit {
        self.told.exit
    }

    /// Whether nobody reads our output any more.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.told.closed_pipe
    }

    /// The failure as RFC 9457 has it, in one line.
    pub(crate) fn problem(&self) -> Value {
        let (title, status) = self.told.exit.title();
        let detail = std::iter::once(&self.told.message)
            .chain(&self.told.causes)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(": ");
        let mut problem = json!({
            "type": format!("docs/errors/{}.md", self.told.code),
            "title": title,
            "status": status,
            "code": self.told.code,
            "detail": detail,
            "hints": self.told.hints,
        });
        if let Some(current) = &self.told.current {
            problem["current"] = current.clone();
        }
        if !self.told.errors.is_empty() {
            problem["errors"] = self.told.errors.iter().map(|(_, object)| object.clone()).collect();
        }
        problem
    }

    pub(crate) fn caused_by(mut self, error: &dyn StdError) -> Self {
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = without_passwords(&error.to_string()).into_owned();
            // Drivers like to say the same again with a number before it.
            let told = self.told.message.contains(&text)
                || self
                    .told
                    .causes
                    .iter()
                    .any(|told| told.contains(&text) || text.contains(told));
            if !told {
                self.told.causes.push(text);
            }
            cause = error.source();
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Several mistakes stand in lines of their own that an editor can jump to; then a last line counts them.
        for (line, _) in &self.told.errors {
            writeln!(f, "{line}")?;
        }
        write!(f, "error: {}", self.told.message)?;
        for cause in &self.told.causes {
            write!(f, "\n  caused by: {cause}")?;
        }
        for hint in &self.told.hints {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let (code, hint) = match &error {
            StoreError::NotFound { .. } => ("not_found", None),
            StoreError::StaleVersion { .. } => ("stale_version", Some("look at it as it is now, then decide anew")),
            StoreError::StalePolicy { .. } => ("stale_policy", Some("look at it as it is now, then decide anew")),
            StoreError::OtherPolicy { .. } => (
                "policy_changed",
                Some("somebody changes the policy of the space over and over; try again"),
            ),
            StoreError::StaleRun { .. } | StoreError::WrittenElsewhere { .. } => {
                ("stale_run", Some("look at the run as it is now, then decide anew"))
            }
            StoreError::TurnEnded { .. } => ("turn_ended", Some("begin another one")),
            StoreError::StaleSpace { .. } => ("stale_space", Some("look at it as it is now, then decide anew")),
            StoreError::RunTaken { .. } => ("run_taken", Some("`folio watch RUN` shows what the other process does")),
            StoreError::KeyReused => (
                "key_reused",
                Some("use a new key for each thing that is to happen once"),
            ),
            StoreError::Invalid(_) => ("invalid", None),
            StoreError::Unavailable { location, .. } if location.starts_with("postgres") => (
                "store_unavailable",
                Some("--store postgres://USER:PASSWORD@HOST:PORT/DATABASE names another server"),
            ),
            StoreError::Unavailable { .. } => ("store_unavailable", Some("--store sqlite:PATH names another file")),
            StoreError::TooNew { .. } => ("store_too_new", Some("use the newer version of folio for this file")),
            StoreError::RunTooNew { .. } => ("run_too_new", Some(NEWER_FOR_RUN)),
            StoreError::Corrupt { .. } => (
                "store_damaged",
                Some("restore the file from a backup, or name another one with --store"),
            ),
        };
        let failure = Self::new(error.kind().into(), code, error.to_string()).caused_by(&error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Self {
        let exit = error.kind().into();
        match error {
            WorkspaceError::Store(error) => error.into(),
            WorkspaceError::Taken(taken) => Self::new(exit, "claimed", taken.to_string())
                .hint("take something else, or wait until its lease is over"),
            WorkspaceError::Stale { current, source } => Self::from(source).about(&current),
            WorkspaceError::Invalid(invalid) => Self::new(exit, invalid.code.clone(), invalid.to_string()),
            WorkspaceError::Input(error) => Self::new(
                exit,
                "file_unusable",
                format!("cannot read what is to be kept: {}", in_words(&error)),
            ),
            WorkspaceError::Output(error) => Self::cannot("write", "what was asked for", error),
            error => Self::new(exit, "role_denied", error.to_string()),
        }
    }
}

impl From<RunnerError> for Failure {
    fn from(error: RunnerError) -> Self {
        let (exit, code, hint) = match &error {
            RunnerError::Journal {
                source: JournalError::TooNew { .. },
                ..
            } => (Exit::Unavailable, "run_too_new", NEWER_FOR_RUN),
            RunnerError::Journal { .. } => (Exit::Damaged, "run_unreadable", "`folio doctor` looks for damage"),
            RunnerError::NeedsModel { .. } => (
                Exit::Usage,
                "needs_model",
                "name one with --model, FOLIO_MODEL or model = \"…\" in folio.toml; or say with `do:` how it is done",
            ),
            RunnerError::NoQuestion { .. } => (Exit::NotFound, "no_question", "`folio questions` lists what is asked"),
            RunnerError::NotAnOption { .. } => (Exit::Usage, "not_an_option", "`folio questions` lists what is asked"),
            RunnerError::Inputs { .. } => (
                Exit::Usage,
                "inputs_invalid",
                "inputs are given with --input NAME=VALUE",
            ),
            RunnerError::Folder { .. } => (Exit::Usage, "folder_unusable", "name another folder with --input"),
            RunnerError::NoApproval { .. } => (
                Exit::NotFound,
                "no_approval",
                "`folio questions` lists what waits for a yes",
            ),
            RunnerError::AskedElse { .. } => (
                Exit::Refused,
                "asked_else",
                "`folio questions` prints what is asked now; look at it, then decide anew",
            ),
            RunnerError::NotAPerson { .. } => (Exit::Refused, "role_denied", "leave --role and FOLIO_ROLE out"),
            RunnerError::Limit(_) => (
                Exit::Refused,
                "limit_unusable",
                "`folio budget RUN` prints what is used up, and the limits",
            ),
            RunnerError::Fork(_) => (
                Exit::Refused,
                "fork_unusable",
                "`folio show RUN --json` lists the parts of a run and their states",
            ),
            RunnerError::Ended => (
                Exit::Refused,
                "run_ended",
                "`folio fork RUN --at NODE` begins another run from a moment of it; with --before-limit, from before a limit stopped it",
            ),
            RunnerError::Dispatch { .. } => (
                Exit::Unavailable,
                "dispatch_unavailable",
                "the run is recorded, and goes on as soon as a worker finds it; `folio watch` shows it",
            ),
            RunnerError::Leaving => (Exit::Unavailable, "leaving", "`folio resume` goes on where it was"),
            RunnerError::Edit(error) => match error {
                EditError::NoPlan { .. } => (
                    Exit::NotFound,
                    "no_plan",
                    "`folio show RUN --json` lists the parts of a run and their states",
                ),
                EditError::Ended { .. } => (
                    Exit::Refused,
                    "run_ended",
                    "`folio fork RUN --at NODE` begins another run from a moment of it",
                ),
                EditError::Stale { .. } => (
                    Exit::Refused,
                    "plan_stale",
                    "look at it as it is now (`folio plan show RUN`), then decide anew",
                ),
                EditError::ReadOnly { .. } => (
                    Exit::Refused,
                    "step_begun",
                    "leave them as `folio plan show RUN` prints them; `folio cancel RUN --node NODE` stops one",
                ),
                EditError::Mistakes(_) => (
                    Exit::Usage,
                    "plan_invalid",
                    "`folio plan schema` prints what a plan may say",
                ),
                EditError::OverNodes { .. } => (
                    Exit::Refused,
                    "plan_too_large",
                    "make it smaller, or begin the run with more `nodes` in the budget of its plan",
                ),
            },
            RunnerError::Store(_) | RunnerError::Refused(_) => (Exit::Unavailable, "store_unavailable", ""),
        };
        match error {
            RunnerError::Store(error) => error.into(),
            RunnerError::Refused(denied) => WorkspaceError::from(denied).into(),
            error => Self::new(exit, code, error.to_string()).caused_by(&error).hint(hint),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Store(error) => error.into(),
            error @ OpenError::NotThere { .. } => Self::new(Exit::NotFound, "not_found", error.to_string())
                .hint("--store URL names another one; a command that writes makes it"),
            error => Self::usage("store_url_invalid", error.to_string())
                .hint("a store is sqlite:PATH, postgres://… or memory:, for example --store sqlite:./folio.db"),
        }
    }
}

/// `text` without what stands before the host in addresses: it may be a password.
pub(crate) fn without_passwords(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return text.into();
    }
    let is_end = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`');
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(is_end).unwrap_or(after.len());
        // A password that nobody has put into other signs may have a slash, too.
        let at = after[..end].rfind('@');
        shown.extend([before, "://", if at.is_some() { "…" } else { "" }]);
        rest = &after[at.unwrap_or(0)..];
    }
    (shown + rest).into()
}

/// What went wrong, without the number that the system gives it.
fn in_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_host_in_an_address_is_not_told() {
        for (text, told) in [
            ("see http://h:1/x, or not", "see http://h:1/x, or not"),
            ("a@b is no address", "a@b is no address"),
            (
                "'restate=http://me:hunter2@h:1' is wrong",
                "'restate=http://…@h:1' is wrong",
            ),
            (
                "http://me:hun/ter@2@h and https://you:hunter2@g/p",
                "http://…@h and https://…@g/p",
            ),
            ("ftp://me:hunter2@", "ftp://…@"),
        ] {
            assert_eq!(without_passwords(text), told);
        }
    }
}
