//! How a failure is reported: a code, what was tried, each cause once, and what to try next.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::process::ExitCode;

use folio::OpenError;
use folio::memory::Entry;
use folio::memory::causes::causes;
use folio::runner::RunnerError;
use folio::store::{ErrorKind, StoreError, WorkspaceError};
use folio_server::statuses::status_of;
use folio_server::wire::AnyEntry;
use serde_json::{Value, json};

use crate::settings::quoted;

/// How the program exits, in the order of the exit codes: of several, the greatest is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Success.
    Done,
    /// The run ended partial or failed, or another operation did not end as it should.
    RunNotOk,
    /// The call or its input is wrong.
    Usage,
    /// Something that was named does not exist.
    NotFound,
    /// A conflict, a missing permission or an exhausted budget.
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

    /// The heading for failures with this exit, and the HTTP status that corresponds to most of them.
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
    details: Box<FailureDetails>,
}

#[derive(Debug)]
struct FailureDetails {
    exit: Exit,
    code: String,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
    /// The present state of the entry that the failure is about.
    current: Option<Value>,
    /// One line for each of several mistakes, and the same as JSON.
    errors: Vec<(String, Value)>,
    closed_pipe: bool,
}

impl Failure {
    /// A failure that ends the program with `exit`. `code` is a stable name.
    pub(crate) fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let details = FailureDetails {
            exit,
            code: code.into(),
            // Libraries often repeat the address that they were given.
            message: without_passwords(&message).into_owned(),
            causes: Vec::new(),
            hints: Vec::new(),
            current: None,
            errors: Vec::new(),
            closed_pipe: false,
        };
        Self {
            details: Box::new(details),
        }
    }

    /// A mistake in the call.
    pub(crate) fn usage(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, code, message)
    }

    /// A file or folder that the caller named and that cannot be used.
    pub(crate) fn file(verb: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let exit = match error.kind() {
            std::io::ErrorKind::NotFound => Exit::NotFound,
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => Exit::Refused,
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded | std::io::ErrorKind::FileTooLarge => {
                Exit::Unavailable
            }
            _ => Exit::Usage,
        };
        Self::new(
            exit,
            "file_unusable",
            format!("cannot {verb} {}: {}", path.display(), in_words(error)),
        )
    }

    /// Something that this machine did not let us do.
    pub(crate) fn cannot(verb: &str, object: &str, error: std::io::Error) -> Self {
        let message = format!("cannot {verb} {object}: {}", in_words(&error));
        let mut failure = Self::new(Exit::Unavailable, "io", message);
        failure.details.closed_pipe = error.kind() == std::io::ErrorKind::BrokenPipe;
        failure
    }

    /// Marks the failure to write an answer as worth reporting even if nobody reads the output any more, with `advice`
    /// as a hint.
    pub(crate) fn always_reported(mut self, advice: &str) -> Self {
        self.details.closed_pipe = false;
        self.hint(advice)
    }

    /// Changes the exit code.
    pub(crate) fn with_exit(mut self, exit: Exit) -> Self {
        self.details.exit = exit;
        self
    }

    /// Adds a hint on what to try.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.details.hints.push(hint.into());
        self
    }

    /// The same with its hints as `change` has them.
    pub(crate) fn map_hints(mut self, change: impl Fn(&str) -> String) -> Self {
        for hint in &mut self.details.hints {
            *hint = change(hint);
        }
        self
    }

    /// Replaces the usual hints of the code, which do not fit here.
    pub(crate) fn hint_instead(mut self, hint: impl Into<String>) -> Self {
        self.details.hints.clear();
        self.hint(hint)
    }

    /// Adds the present state of the entry that the failure is about.
    fn about_entry(mut self, entry: &Entry) -> Self {
        self.details.current = serde_json::to_value(AnyEntry::of(entry, entry.updated_at)).ok();
        self
    }

    /// Prefixes the message with what it is about: a file, or an environment variable.
    pub(crate) fn about(mut self, subject: &str) -> Self {
        self.details.message = format!("{subject}: {}", self.details.message);
        self
    }

    /// Adds one of several mistakes: a line for people, and an object for programs.
    pub(crate) fn mistake(mut self, line: String, object: Value) -> Self {
        self.details.errors.push((line, object));
        self
    }

    /// The stable code of the failure.
    pub(crate) fn code(&self) -> &str {
        &self.details.code
    }

    /// The beginning of its first line: `docs/errors` has a page for the name in brackets.
    pub(crate) fn heading(&self) -> String {
        format!("error[{}]:", self.details.code)
    }

    /// What was tried, and why it failed.
    pub(crate) fn message(&self) -> &str {
        &self.details.message
    }

    /// What to try.
    pub(crate) fn hints(&self) -> &[String] {
        &self.details.hints
    }

    /// How the program exits.
    pub(crate) fn exit(&self) -> Exit {
        self.details.exit
    }

    /// Whether the failure is that the answer could not be written, whatever became of the request.
    pub(crate) fn is_of_output(&self) -> bool {
        self.details.code == "io"
    }

    /// Whether the reader of the output is gone.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.details.closed_pipe
    }

    /// The failure as a problem document of RFC 9457, in one line.
    pub(crate) fn problem(&self) -> Value {
        let (title, status) = self.details.exit.title();
        // As over HTTP; a mistake that HTTP does not know has the status of its exit code.
        let status = status_of(&self.details.code, status);
        let detail = std::iter::once(&self.details.message)
            .chain(&self.details.causes)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(": ");
        let mut problem = json!({
            "type": format!("docs/errors/{}.md", self.details.code),
            "title": title,
            "status": status,
            "code": self.details.code,
            "detail": detail,
            "hints": self.details.hints,
        });
        if let Some(current) = &self.details.current {
            problem["current"] = current.clone();
        }
        if !self.details.errors.is_empty() {
            problem["errors"] = self.details.errors.iter().map(|(_, object)| object.clone()).collect();
        }
        problem
    }

    pub(crate) fn caused_by(mut self, error: &(dyn StdError + 'static)) -> Self {
        for error in causes(error).skip(1) {
            let text = without_passwords(&error.to_string()).into_owned();
            // Drivers often repeat the same text with a number in front.
            let is_mentioned = self.details.message.contains(&text)
                || self
                    .details
                    .causes
                    .iter()
                    .any(|cause| cause.contains(&text) || text.contains(cause));
            if !is_mentioned {
                self.details.causes.push(text);
            }
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each mistake gets a line of its own that an editor can jump to; the last line counts them.
        for (line, _) in &self.details.errors {
            writeln!(f, "{line}")?;
        }
        write!(f, "{} {}", self.heading(), self.details.message)?;
        for cause in &self.details.causes {
            write!(f, "\n  caused by: {cause}")?;
        }
        for hint in &self.details.hints {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl Failure {
    /// A failure of a lower layer: its code, its causes, and what to try on the command line.
    fn of(kind: ErrorKind, code: &str, error: &(dyn StdError + 'static)) -> Self {
        let failure = Self::new(kind.into(), code, error.to_string()).caused_by(error);
        match hint_of(code) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// What to try on the command line, by the code of a failure.
fn hint_of(code: &str) -> Option<&'static str> {
    Some(match code {
        "stale_version" | "stale_policy" | "stale_space" => "read its current state, then decide again",
        "policy_changed" => "the policy of the space keeps changing; try again",
        "stale_run" => "read the current state of the run, then decide again",
        "turn_ended" => "begin another turn",
        "turn_open" => "end it first: folio turn end TURN",
        "run_taken" => "`folio watch RUN` shows what the other process does",
        "key_reused" => "use a new key for every operation",
        "store_too_new" => "use the newer version of folio for this file",
        "run_forgotten" => "`folio runs` lists it with what is still known: how it ended, and why it was forgotten",
        "run_not_ended" => "`folio cancel RUN` ends it",
        "run_too_new" => "use the newer version of folio for this run",
        "store_damaged" => "restore the file from a backup, or name another one with --store",
        "run_unreadable" => "`folio doctor` looks for damage",
        "needs_model" => "set one with --model, FOLIO_MODEL or model = \"…\" in folio.toml, or give the task a `do:`",
        "not_equipped" => {
            "name the servers and agents in folio.toml, or use the folder, or the process, in which the run was started"
        }
        "answer_empty" => {
            "write the answer, or `failed: …` with the reason; to drop the task, use `folio cancel RUN --node PATH`"
        }
        "no_question" | "not_an_option" => "`folio questions` lists the open questions",
        "inputs_invalid" => "pass inputs with --input NAME=VALUE",
        "folder_unusable" => "name another folder with --input",
        "no_approval" => "`folio questions` lists everything that waits for approval",
        "time_is_up" => "give it more time first: `folio budget RUN --minutes +N`",
        "asked_else" => "`folio questions` prints the current request; read it, then decide again",
        "limit_unusable" => "`folio budget RUN` prints the limits and what is used",
        "fork_unusable" | "no_plan" => "`folio show RUN --json` lists the nodes of a run and their states",
        "run_ended" => {
            "`folio fork RUN --at NODE` starts a new run from a node of it; with --before-limit, from just before a limit stopped it"
        }
        "dispatch_unavailable" => "the run is recorded and continues as soon as a worker finds it",
        "leaving" => "`folio resume` carries on where it stopped",
        "driver_panicked" => {
            "this is a mistake in Folio; please report it. `folio continue RUN` and `folio resume RUN` try again, `folio cancel RUN` ends the run"
        }
        "plan_stale" => {
            "read the current plan with `folio plan show RUN`: its first line names its version; then edit again with --if-version VERSION"
        }
        "step_begun" => {
            "leave those steps as `folio plan show RUN` prints them; cancel one with `folio cancel RUN --node NODE`"
        }
        "plan_invalid" => "`folio plan schema` prints the JSON Schema of plans",
        "plan_too_large" => "make it smaller, or start the run with a higher `nodes` in the budget of its plan",
        _ => return None,
    })
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::of(error.kind(), error.code(), &error);
        match &error {
            StoreError::Unavailable { location, .. } if location.starts_with("postgres") => {
                failure.hint("try again when the server is back, or name another one with --store postgres://USER:PASSWORD@HOST:PORT/DATABASE")
            }
            StoreError::Unavailable { doing, .. } if matches!(*doing, "open" | "create") => {
                failure.hint("name another file with --store sqlite:PATH")
            }
            _ => failure,
        }
    }
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Store(error) => error.into(),
            WorkspaceError::Stale { current, source, .. } => Self::from(source).about_entry(&current),
            WorkspaceError::Input(ref cause) => {
                let message = format!("cannot read the input: {}", in_words(cause));
                Self::new(error.kind().into(), error.code(), message)
            }
            WorkspaceError::Output(error) => Self::cannot("write", "the output", error),
            WorkspaceError::Taken(ref taken) => {
                let wait = match taken.until {
                    Some(_) => ", or wait until its lease is over",
                    None => "",
                };
                let (entry, owner) = (&taken.entry, &taken.owner);
                let of = quoted(owner.as_str());
                let open = if taken.has_begun {
                    "open again"
                } else {
                    "open for anybody"
                };
                Self::of(error.kind(), error.code(), &error).hint(format!(
                    "take something else{wait}; if {owner} is gone, `folio book release {entry} --owner {of}` makes it {open}"
                ))
            }
            error => Self::of(error.kind(), error.code(), &error),
        }
    }
}

impl From<RunnerError> for Failure {
    fn from(error: RunnerError) -> Self {
        match error {
            RunnerError::Store(error) => error.into(),
            RunnerError::Memory(error) => Self::from(*error),
            error @ RunnerError::NotAPerson { .. } => {
                Self::of(error.kind(), error.code(), &error).hint("leave out --role and FOLIO_ROLE")
            }
            error => Self::of(error.kind(), error.code(), &error),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let error = match error {
            OpenError::Store(error) => return error.into(),
            error => error,
        };
        let hint = match &error {
            OpenError::NotThere { .. } => {
                "name another store with --store URL; a command that writes creates it".to_owned()
            }
            OpenError::NoScheme { given } if !given.is_empty() => {
                format!("if it is a file, write sqlite:{given}; other stores are postgres://… and memory:")
            }
            OpenError::Home { path } => {
                let below_home = match path.trim_start_matches(['~', '/']) {
                    "" => "folio.db",
                    below_home => below_home,
                };
                format!(
                    "write the whole path, for example sqlite:/home/ada/{below_home}, or in a shell \"sqlite:$HOME/{below_home}\""
                )
            }
            _ => "a store is sqlite:PATH, postgres://… or memory:, for example --store sqlite:./folio.db".to_owned(),
        };
        Self::new(error.kind().into(), error.code(), error.to_string()).hint(hint)
    }
}

/// `text` without the part before the host in addresses, which may be a password.
pub(crate) fn without_passwords(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return text.into();
    }
    let is_end = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`');
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(is_end).unwrap_or(after.len());
        // A password that was not percent-encoded may contain a slash, too.
        let at = after[..end].rfind('@');
        shown.extend([before, "://", if at.is_some() { "…" } else { "" }]);
        rest = &after[at.unwrap_or(0)..];
    }
    (shown + rest).into()
}

/// The text of the error, without the OS error number.
fn in_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    if error.kind() == std::io::ErrorKind::InvalidData && text.ends_with("valid UTF-8") {
        return "it is not valid UTF-8".to_owned();
    }
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_of_a_failure_has_the_http_status_of_its_code() {
        for (exit, code, status) in [
            (Exit::Usage, "plan_invalid", 422),
            (Exit::Usage, "content_too_large", 413),
            (Exit::Refused, "role_denied", 403),
            (Exit::Refused, "stale_version", 409),
            (Exit::NotFound, "not_found", 404),
            (Exit::Usage, "usage", 400),
        ] {
            let problem = Failure::new(exit, code, "x").problem();
            assert_eq!(problem["status"], status, "{code}");
        }
    }

    #[test]
    fn credentials_in_addresses_are_masked_in_messages() {
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
