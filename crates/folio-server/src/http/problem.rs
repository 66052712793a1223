//! All error responses, in the format of RFC 9457.

use std::borrow::Cow;
use std::error::Error as StdError;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use folio::engine::run::EditError;
use folio::memory::causes::causes;
use folio::memory::id::IdError;
use folio::memory::roles::Denied;
use folio::memory::scratchbook::ScratchItem;
use folio::memory::{Entry, Invalid, Timestamp};
use folio::runner::RunnerError;
use folio::store::{ErrorKind, StoreError, WorkspaceError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::unread::UnreadableInput;
use crate::statuses;
use crate::ui;
use crate::wire::{Observation, plan_mistake};

/// An error. The code is stable; the texts are for people.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    about: Box<str>,
    title: &'static str,
    status: u16,
    code: Cow<'static, str>,
    detail: String,
    hints: Vec<String>,
    // Boxed, because every function that can fail returns it.
    #[serde(flatten)]
    more: Option<Box<More>>,
}

/// Additional fields of some problems.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct More {
    /// The entry concerned, in its current state.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<Current>,
    /// The single mistakes, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Value>,
}

/// An entry in the form in which its lists show it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum Current {
    /// An observation.
    Observation(Box<Observation>),
    /// An item of a scratchbook.
    Item(Box<ScratchItem>),
}

impl Current {
    fn of(entry: &Entry, now: Timestamp) -> Self {
        if entry.kind.is_item() {
            Self::Item(Box::new(ScratchItem::of(entry)))
        } else {
            Self::Observation(Box::new(Observation::of(entry, now)))
        }
    }
}

impl Problem {
    /// Creates a problem with `status`.
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

    /// Something that the request names does not exist.
    pub(crate) fn not_found(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// The request is invalid.
    pub(crate) fn invalid(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// The caller may not do that.
    pub(crate) fn role_denied(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, Denied::CODE, detail)
    }

    /// Replaces the status.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self {
            title: status.canonical_reason().unwrap_or("Problem"),
            status: status.as_u16(),
            ..self
        }
    }

    /// Replaces the detail.
    pub(crate) fn with_detail(self, detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            ..self
        }
    }

    /// Adds a hint on what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Sets the list of single mistakes, for programs.
    pub(crate) fn errors(mut self, errors: Vec<Value>) -> Self {
        self.more.get_or_insert_default().errors = errors;
        self
    }

    /// Returns the stable code of the error.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// Returns the description of the error.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the HTTP status.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Returns the code with the detail, and the hints, one line each, for a model.
    pub(crate) fn text(&self) -> String {
        let hints = self.hints.iter().map(|hint| format!("\nhint: {hint}"));
        format!("{}: {}{}", self.code, self.detail, hints.collect::<String>())
    }

    /// Appends the causes of the error to the detail, each cause once.
    fn caused_by(mut self, error: &(dyn StdError + 'static)) -> Self {
        for cause in causes(error).skip(1) {
            let text = cause.to_string();
            if !self.detail.contains(&text) {
                self.detail = format!("{}: {text}", self.detail);
            }
        }
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let unread = UnreadableInput::is_code(&self.code).then(|| UnreadableInput {
            code: self.code.to_string(),
            detail: self.detail.clone(),
        });
        let mut response = (status, Json(self)).into_response();
        if let Some(unread) = unread {
            response.extensions_mut().insert(unread);
        }
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

impl Problem {
    /// Creates a problem from an error of a lower layer: its code, its causes, and a hint for callers of the server.
    fn of(kind: ErrorKind, code: &str, error: &(dyn StdError + 'static)) -> Self {
        let status = status_of(code, status_of_kind(kind));
        let problem = Self::new(status, code.to_owned(), error.to_string()).caused_by(error);
        match hint_of(code) {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

/// Returns the HTTP status for `code`, whose kind of error suggests `otherwise`.
fn status_of(code: &str, otherwise: StatusCode) -> StatusCode {
    StatusCode::from_u16(statuses::status_of(code, otherwise.as_u16())).unwrap_or(otherwise)
}

/// Returns the HTTP status for a kind of error.
fn status_of_kind(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns the hint for callers of the server, by the code of the problem.
fn hint_of(code: &str) -> Option<&'static str> {
    Some(match code {
        "stale_version" | "stale_policy" | "stale_space" | "plan_stale" => "read its current state, then decide again",
        "policy_changed" => "the policy of the space keeps changing; try again",
        "stale_run" => "read the current state of the run, then decide again",
        "turn_ended" => "begin another turn",
        "claimed" => "take something else, or wait until the claim ends",
        "not_claimable" => "take something else",
        "run_taken" => "its events show what the other process does",
        "key_reused" => "use a new key for every operation",
        "store_unavailable" => "try again in a moment",
        "store_too_new" => "use the newer version of folio for this file",
        "run_not_ended" => "cancel it first: `POST /runs/{run}/cancel`",
        "run_too_new" => "use a server of the newer version",
        "store_damaged" | "run_unreadable" => "run `folio doctor` for details",
        "needs_model" => "start the server with --model, or say with `do:` how the task is done",
        "not_equipped" => "start the server with the configuration that names these tools and executors",
        "time_is_up" => "give it more time first, then decide again",
        "asked_else" => "read what is asked now, then decide again",
        "dispatch_unavailable" => "what was recorded continues as soon as a worker finds it",
        "leaving" => "send the request to another server",
        _ => return None,
    })
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let problem = Self::of(error.kind(), error.code(), &error);
        match error {
            StoreError::Invalid(_) => problem.with_status(StatusCode::BAD_REQUEST),
            _ => problem,
        }
    }
}

impl From<WorkspaceError> for Problem {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Store(error) => error.into(),
            WorkspaceError::Stale { current, at, source } => {
                let current = Current::of(&current, at);
                Self {
                    more: Some(Box::new(More {
                        current: Some(current),
                        ..More::default()
                    })),
                    ..source.into()
                }
            }
            WorkspaceError::Refused(denied) => denied.into(),
            WorkspaceError::Invalid(invalid) => invalid.into(),
            WorkspaceError::Policy(ref mistakes) => {
                let errors = mistakes.all().iter();
                let errors = errors.map(|one| json!({"key": one.field, "message": one.message}));
                Self::of(error.kind(), error.code(), &error).errors(errors.collect())
            }
            error => Self::of(error.kind(), error.code(), &error),
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
        let status = status_of(&invalid.code, StatusCode::UNPROCESSABLE_ENTITY);
        Self::new(status, invalid.code, detail)
    }
}

impl From<RunnerError> for Problem {
    fn from(error: RunnerError) -> Self {
        match error {
            RunnerError::Store(error) => error.into(),
            RunnerError::Memory(error) => Self::from(*error),
            RunnerError::Refused(denied) => denied.into(),
            error @ RunnerError::NotAPerson { .. } => Self::role_denied(error.to_string()),
            error => {
                let problem = Self::of(error.kind(), error.code(), &error);
                let RunnerError::Edit(EditError::Mistakes(mistakes)) = error else {
                    return problem;
                };
                let problem = problem.errors(mistakes.listed.iter().map(plan_mistake).collect());
                let mistakes = mistakes.listed.iter();
                mistakes.fold(problem, |problem, mistake| problem.hint(mistake.to_string()))
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
        let hint = format!("a short handle such as {letter}1 works, too");
        Self::invalid("id_invalid", error.to_string()).hint(hint)
    }
}

/// Answers requests that match no route: people get a page, programs a problem.
pub(crate) async fn no_such_path(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    if ui::accepts_html(&method, &headers) {
        return ui::not_found_page();
    }
    Problem::not_found("path_unknown", format!("there is nothing at {}", uri.path()))
        .hint("runs are at /v1/spaces/SPACE/runs, the web page is at /")
        .into_response()
}

/// Answers a method that a path does not support; the header `Allow` lists those that it does.
pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("{} does not take {method}", uri.path()),
    )
    .hint("the header Allow lists the methods that it takes")
}

#[cfg(test)]
mod tests {
    use folio::engine::run::JournalError;
    use folio::memory::NewEntry;
    use folio::memory::actor::Trust;
    use folio::memory::entry::{EntryFields, EntryKind, Lifetime, Owner};
    use folio::memory::id::{EntryHandle, EntryId, PageId, RunId, Seq};

    use super::*;

    fn status_and_code(error: impl Into<Problem>) -> (u16, String) {
        let problem: Problem = error.into();
        (problem.status(), problem.code().to_owned())
    }

    #[test]
    fn problems_keep_the_codes_of_runner_and_store_errors() {
        let run = RunId::from_bytes([7; 16]);
        let source = JournalError::Start;
        let cases = [
            (
                status_and_code(RunnerError::Journal { run, source }),
                (500, "run_unreadable"),
            ),
            (
                status_and_code(WorkspaceError::Input(std::io::Error::other("gone"))),
                (422, "file_unusable"),
            ),
            (
                status_and_code(WorkspaceError::Output(std::io::Error::other("gone"))),
                (503, "io"),
            ),
            (status_and_code(StoreError::Invalid("no".to_owned())), (400, "invalid")),
            (status_and_code(StoreError::KeyReused), (422, "key_reused")),
        ];
        for ((status, code), wanted) in cases {
            assert_eq!((status, code.as_str()), wanted);
        }
        let invalid = Invalid::new("title_too_long", "title", "has too many characters");
        let problem = status_and_code(RunnerError::from(WorkspaceError::from(invalid)));
        assert_eq!(problem, (422, "title_too_long".to_owned()));
    }
    #[test]
    fn stale_version_shows_an_expired_observation_as_expired() {
        let at = Timestamp::from_millis;
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::User);
        fields.lifetime = Lifetime::Until(at(2_000));
        let new = NewEntry {
            id: EntryId::from_bytes([1; 16]),
            page: PageId::from_bytes([2; 16]),
            kind: EntryKind::Observation,
            fields,
        };
        let problem: Problem = WorkspaceError::Stale {
            current: Box::new(Entry::added(new, EntryHandle(1), Seq(1), at(1_000))),
            at: at(3_000),
            source: StoreError::StaleVersion {
                entry: "e1".to_owned(),
                found: 1,
                expected: 7,
            },
        }
        .into();
        assert_eq!(serde_json::json!(problem)["current"]["state"], "expired");
    }
}
