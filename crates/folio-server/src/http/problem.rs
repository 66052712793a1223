//! Every answer that is no success, as RFC 9457 has it.

use std::borrow::Cow;
use std::error::Error as StdError;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use folio::engine::run::{EditError, JournalError};
use folio::memory::Invalid;
use folio::memory::id::IdError;
use folio::memory::roles::Denied;
use folio::runner::RunnerError;
use folio::store::{ErrorKind, StoreError, WorkspaceError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::ui;
use crate::wire::Observation;

/// What to do with a run of a newer version.
const NEWER_FOR_RUN: &str = "ask a server of the newer version";

/// What went wrong: the code is stable, the words are for people.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    about: Box<str>,
    title: &'static str,
    status: u16,
    code: Cow<'static, str>,
    detail: String,
    hints: Vec<String>,
    // Boxed, since every function that can fail carries it.
    #[serde(flatten)]
    more: Option<Box<More>>,
}

/// What some problems say besides.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct More {
    /// The entry that it is about, as it stands now.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<Observation>,
    /// Single mistakes, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Value>,
}

impl Problem {
    /// A problem that answers with `status`.
    pub(crate) fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        let code = code.into();
        let about = format!("docs/errors/{code}.md").into();
        let title = status.canonical_reason().unwrap_or("Problem");
        Self {
            about,
            title,
            status: status.as_u16(),
            code,
            detail: detail.into(),
            hints: Vec::new(),
            more: None,
        }
    }

    /// Something that was named is not there.
    pub(crate) fn not_found(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// The request is wrong.
    pub(crate) fn invalid(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// Whoever asks may not do that.
    pub(crate) fn role_denied(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "role_denied", detail)
    }

    /// The same, answered with `status`.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self {
            title: status.canonical_reason().unwrap_or("Problem"),
            status: status.as_u16(),
            ..self
        }
    }

    /// The same in other words.
    pub(crate) fn saying(self, detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            ..self
        }
    }

    /// Adds what to try.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Tells single mistakes, too, for programs.
    pub(crate) fn errors(mut self, errors: Vec<Value>) -> Self {
        self.more.get_or_insert_default().errors = errors;
        self
    }

    /// The stable name of what went wrong.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// The HTTP status that says the same.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// The code, what went wrong, and what to try, a line each: how a model reads it.
    pub(crate) fn text(&self) -> String {
        let hints = self.hints.iter().map(|hint| format!("\nhint: {hint}"));
        format!("{}: {}{}", self.code, self.detail, hints.collect::<String>())
    }

    /// Appends what caused it, each cause once.
    fn caused_by(mut self, error: &dyn StdError) -> Self {
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !self.detail.contains(&text) {
                self.detail = format!("{}: {text}", self.detail);
            }
            cause = error.source();
        }
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"folio\"");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<StoreError> for Problem {
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
            StoreError::RunTaken { .. } => ("run_taken", Some("its events show what the other process does")),
            StoreError::KeyReused => (
                "key_reused",
                Some("use a new key for each thing that is to happen once"),
            ),
            StoreError::Invalid(_) => ("invalid", None),
            StoreError::Unavailable { .. } => ("store_unavailable", Some("try again in a moment")),
            StoreError::TooNew { .. } => ("store_too_new", Some("use the newer version of folio for this file")),
            StoreError::RunTooNew { .. } => ("run_too_new", Some(NEWER_FOR_RUN)),
            StoreError::Corrupt { .. } => ("store_damaged", Some("`folio doctor` says more")),
        };
        let status = match error.kind() {
            _ if matches!(error, StoreError::KeyReused) => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let problem = Self::new(status, code, error.to_string()).caused_by(&error);
        match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

impl From<WorkspaceError> for Problem {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Store(error) => error.into(),
            WorkspaceError::Stale { current, source } => {
                let current = Observation::of(&current, current.updated_at);
                Self {
                    more: Some(Box::new(More {
                        current: Some(current),
                        ..More::default()
                    })),
                    ..source.into()
                }
            }
            WorkspaceError::Taken(taken) => Self::new(StatusCode::CONFLICT, "claimed", taken.to_string()),
            WorkspaceError::Refused(_) => Self::role_denied(error.to_string()),
            WorkspaceError::Invalid(invalid) => invalid.into(),
            error => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", error.to_string()),
        }
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        Self::role_denied(denied.to_string())
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let detail = invalid.to_string();
        let status = match invalid.code.as_str() {
            // What is put away stays as it is: a conflict with how things stand.
            "archived" => StatusCode::CONFLICT,
            "content_too_large" | "body_too_large" | "input_too_large" => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, invalid.code, detail)
    }
}

impl From<RunnerError> for Problem {
    fn from(error: RunnerError) -> Self {
        match error {
            RunnerError::Store(error) => error.into(),
            RunnerError::Refused(denied) => WorkspaceError::from(denied).into(),
            error @ RunnerError::Journal {
                source: JournalError::TooNew { .. },
                ..
            } => Self::new(StatusCode::SERVICE_UNAVAILABLE, "run_too_new", error.to_string())
                .caused_by(&error)
                .hint(NEWER_FOR_RUN),
            error @ RunnerError::Journal { .. } => {
                let problem = Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "journal_unreadable",
                    error.to_string(),
                );
                problem.caused_by(&error).hint("`folio doctor` says more")
            }
            error @ RunnerError::NeedsModel { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "needs_model", error.to_string())
                    .hint("start the server with --model, or say with `do:` how it is done")
            }
            error @ RunnerError::NoQuestion { .. } => {
                Self::new(StatusCode::NOT_FOUND, "no_question", error.to_string())
            }
            error @ RunnerError::NotAnOption { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "not_an_option", error.to_string())
            }
            error @ RunnerError::NoApproval { .. } => {
                Self::new(StatusCode::NOT_FOUND, "no_approval", error.to_string())
            }
            error @ RunnerError::AskedElse { .. } => Self::new(StatusCode::CONFLICT, "asked_else", error.to_string())
                .hint("look at what is asked now, then decide anew"),
            error @ RunnerError::NotAPerson { .. } => Self::role_denied(error.to_string()),
            error @ RunnerError::Fork(_) => Self::new(StatusCode::CONFLICT, "fork_unusable", error.to_string()),
            error @ RunnerError::Limit(_) => Self::new(StatusCode::CONFLICT, "limit_unusable", error.to_string()),
            error @ RunnerError::Ended => Self::new(StatusCode::CONFLICT, "run_ended", error.to_string()),
            error @ RunnerError::Dispatch { .. } => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "dispatch_unavailable",
                error.to_string(),
            )
            .hint("what was recorded goes on as soon as a worker finds it"),
            error @ RunnerError::Leaving => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "leaving", error.to_string()).hint("ask another server")
            }
            RunnerError::Edit(error) => error.into(),
            error @ RunnerError::Inputs { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "inputs_invalid", error.to_string())
            }
            error @ RunnerError::Folder { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "folder_unusable", error.to_string()).caused_by(&error)
            }
        }
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        let words = error.to_string();
        match error {
            EditError::NoPlan { .. } => Self::not_found("no_plan", words),
            EditError::Ended { .. } => Self::new(StatusCode::CONFLICT, "run_ended", words),
            EditError::Stale { .. } => {
                Self::new(StatusCode::CONFLICT, "plan_stale", words).hint("look at it as it is now, then decide anew")
            }
            EditError::ReadOnly { .. } => Self::new(StatusCode::CONFLICT, "step_begun", words),
            EditError::OverNodes { .. } => Self::new(StatusCode::CONFLICT, "plan_too_large", words),
            EditError::Mistakes(errors) => {
                let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "plan_invalid", words);
                errors
                    .0
                    .iter()
                    .fold(problem, |problem, error| problem.hint(error.to_string()))
            }
        }
    }
}

impl From<IdError> for Problem {
    fn from(error: IdError) -> Self {
        let (prefix, _) = error.wanted.split_once('<').unwrap_or((error.wanted, ""));
        let letter = match prefix {
            "run_" => "r",
            "page_" => "p",
            "turn_" => "t",
            _ => "e",
        };
        let hint = format!("a short handle such as {letter}1 does as well");
        Self::invalid("id_invalid", error.to_string()).hint(hint)
    }
}

/// Answers what no route does: people with a page, programs with a problem.
pub(crate) async fn no_such_path(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    if ui::is_for_people(&method, &headers) {
        return ui::lost();
    }
    Problem::not_found("path_unknown", format!("there is nothing at {}", uri.path()))
        .hint("runs are at /v1/spaces/SPACE/runs, the page for people is at /")
        .into_response()
}

/// Answers a method that a path does not have; the header `Allow` says which it has.
pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("{} does not take {method}", uri.path()),
    )
    .hint("the header Allow lists what it takes")
}
