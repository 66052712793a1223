//! The caller of a request: its view of the space, and the values in the path and the headers.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use axum::extract::{FromRequestParts, MatchedPath, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use folio::memory::id::{EntryRef, IdError, Ref, RunRef, TurnHandle, TurnRef};
use folio::memory::{Entry, EntryKind, RunId, TurnId, Warning};
use folio::runner::Runner;
use folio::store::workspace::WorkingIn;
use folio::store::{Asking, RequestKey, RunRow};
use folio::{Actor, StoreError, ThreadKey, Workspace, WorkspaceError};
use serde_json::Value;

use super::access::Permit;
use super::app::App;
use super::content_hash::ContentHash;
use super::problem::Problem;
use crate::driving::{Driving, RunSlot};
use crate::submit;
use crate::wire::Written;

/// The header that names the turn in which a request is made: `t3` or `turn_…`.
pub(crate) const TURN_HEADER: &str = "folio-turn";
/// The header that names a request, so repeating the request does nothing more.
pub(crate) const KEY_HEADER: &str = "idempotency-key";
/// How long to look for a turn that is named by its id, since it need not be known.
const TURN_WITHIN: Duration = Duration::from_secs(5);
/// The maximum length of a key in bytes.
const KEY_BYTES_MAX: usize = 255;

/// The caller of a request, with the values of its path and headers.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) runner: Runner,
    pub(crate) actor: Actor,
    pub(crate) permit: Permit,
    /// The space as the caller sees it, from the thread that the path names, or from the main thread.
    pub(crate) workspace: Workspace,
    /// The key under which the store records the request, with the content of the request, if it has a key.
    request_key: Option<RequestKey>,
    /// The version on which a change is based.
    pub(crate) if_match: IfMatch,
    /// The turn in which the request is made, if that turn has ended.
    ended_turn: Option<TurnHandle>,
    names: HashMap<String, String>,
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let names = Path::<HashMap<String, String>>::from_request_parts(parts, app).await;
        let Path(names) = names.map_err(|error| Problem::invalid("path_invalid", error.body_text()))?;
        let space = names.get("space").map(String::as_str).unwrap_or_default();
        let Some(permit) = parts.extensions.get::<Permit>().cloned() else {
            let detail = "the request was not authenticated";
            return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail));
        };
        refuse_unknown_conditions(&parts.method, &parts.headers)?;
        let runner = app.runner_of(&permit, space)?;
        let thread = names
            .get("thread")
            .map_or_else(|| Ok(ThreadKey::main()), |thread| thread_called(thread.clone()))?;
        let mut actor = permit.actor.clone();
        let mut workspace = runner.workspace().asked_by(&actor).in_thread(&thread);
        let mut ended_turn = None;
        if let Some((turn, found_turn)) = turn_in(&parts.headers, &workspace).await? {
            ended_turn = found_turn.filter(|turn| turn.has_ended).map(|turn| turn.handle);
            actor = actor.in_turn(turn);
            workspace = runner.workspace().asked_by(&actor).in_thread(&thread);
        }
        let request_key = match text_of(&parts.headers, KEY_HEADER)? {
            None => None,
            Some(key) if key.is_empty() || key.len() > KEY_BYTES_MAX => {
                let detail = format!("the header Idempotency-Key must have 1 to {KEY_BYTES_MAX} bytes");
                return Err(Problem::invalid("key_invalid", detail));
            }
            Some(key) => {
                let scope = request_scope(&parts.method, parts.uri.path(), &actor, permit.token_id());
                let hash = parts.extensions.get::<ContentHash>();
                Some(scope.under(&key, &[hash.map_or(&[][..], |hash| &hash.0)]))
            }
        };
        if let Some(request_key) = &request_key {
            workspace = workspace.asked_under(request_key.clone());
        }
        let if_match = if_match_in(&parts.headers)?;
        let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        refuse_idle_version(&parts.method, route, if_match)?;
        Ok(Self {
            runner,
            permit,
            actor,
            workspace,
            request_key,
            if_match,
            ended_turn,
            names,
        })
    }
}

impl Caller {
    /// Returns the key under which the store records the request, if it has one. It differs for other operations and
    /// other callers.
    pub(crate) fn key(&self) -> Option<&str> {
        self.request_key.as_ref().map(RequestKey::key)
    }

    /// Returns the same key as an owned string.
    pub(crate) fn own_key(&self) -> Option<String> {
        self.key().map(str::to_owned)
    }

    /// Refuses the request if its key was used for something else, also where nothing would be written.
    pub(crate) async fn check_key(&self) -> Result<(), Problem> {
        if let Some(key) = self.key() {
            self.workspace.is_recorded(&self.actor, key).await?;
        }
        Ok(())
    }

    /// Adds a warning to `written` if the turn in which it was written has ended, because it is not in the turn's
    /// export then (M7.6.47).
    pub(crate) fn with_ended_turn_warning<T>(&self, mut written: Written<T>) -> Written<T> {
        written.warnings.extend(self.ended_turn_warning());
        written
    }

    /// Returns the warning for what is written if the turn in which it is written has ended.
    pub(crate) fn ended_turn_warning(&self) -> Option<Warning> {
        self.ended_turn.map(warning_of_ended_turn)
    }

    /// Returns the path parameter `name`.
    pub(crate) fn name(&self, name: &str) -> &str {
        self.names.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Returns the path parameter `name`, which is an id or a handle; a malformed one gives a 404.
    pub(crate) fn path_param<T: FromStr<Err = IdError>>(&self, name: &str) -> Result<T, Problem> {
        let error = |error| Problem::from(error).with_status(StatusCode::NOT_FOUND);
        self.name(name).parse().map_err(error)
    }

    /// Returns the caller's space, with the server's advisor for turns if there is one.
    pub(crate) fn workspace_with_advisor(&self) -> Workspace {
        match self.runner.advisor() {
            Some((advisor, time)) => self.workspace.with_advisor(advisor, time),
            None => self.workspace.clone(),
        }
    }

    /// Returns the thread from which the space is seen.
    pub(crate) fn thread(&self) -> ThreadKey {
        self.workspace.thread().clone()
    }

    /// Returns the caller as seen from the thread `name`, if one is given.
    pub(crate) fn in_thread(mut self, name: Option<String>) -> Result<Self, Problem> {
        match name {
            None => Ok(self),
            Some(name) => {
                self.workspace = self.workspace.in_thread(&thread_called(name)?);
                Ok(self)
            }
        }
    }

    /// Returns the entry that the path names; a 404 unless it is of one of `kinds`, which the message calls `expected`.
    pub(crate) async fn entry(&self, name: &str, kinds: &[EntryKind], expected: &str) -> Result<Entry, Problem> {
        self.find_entry_of_kind(self.path_param(name)?, kinds, expected).await
    }

    /// The same for an entry that the body names.
    pub(crate) async fn entry_called(&self, name: &str, kinds: &[EntryKind], expected: &str) -> Result<Entry, Problem> {
        self.find_entry_of_kind(name.parse()?, kinds, expected).await
    }

    /// Returns which entry the path names, to change it, under the same condition. Whether the caller may change it is
    /// decided when it does: that does not require that it may read the entry.
    pub(crate) async fn entry_to_change(
        &self,
        name: &str,
        kinds: &[EntryKind],
        expected: &str,
    ) -> Result<EntryRef, Problem> {
        let entry = self.path_param(name)?;
        match self.workspace.entry_place(entry).await {
            Ok(place) if kinds.contains(&place.kind) => Ok(Ref::Id(place.id)),
            _ => Ok(Ref::Id(self.find_entry_of_kind(entry, kinds, expected).await?.id)),
        }
    }

    async fn find_entry_of_kind(&self, entry: EntryRef, kinds: &[EntryKind], expected: &str) -> Result<Entry, Problem> {
        let entry = self.workspace.entry(entry).await?;
        if kinds.contains(&entry.kind) {
            return Ok(entry);
        }
        let detail = format!("{} is a {}, not {expected}", entry.handle, entry.kind);
        Err(Problem::not_found("not_found", detail).hint("it is an entry of a page: /pages/PAGE/entries lists it"))
    }

    /// Returns the runner that records what this request does to runs under the request's key, so it is done once.
    pub(crate) fn keyed_runner(&self) -> Runner {
        match &self.request_key {
            None => self.runner.clone(),
            Some(key) => self.runner.asked_under(key.clone()),
        }
    }

    /// Returns a place to drive one more run. `None` if all places are taken and the same request was recorded before
    /// with the same key: then the run exists already.
    pub(crate) async fn take_run_slot(&self, driving: &Driving) -> Result<Option<RunSlot>, Problem> {
        match (driving.take_slot(self.workspace.space()), self.key()) {
            (Ok(place), _) => Ok(Some(place)),
            (Err(_), Some(key)) if self.workspace.is_recorded(&self.actor, key).await? => Ok(None),
            (Err(busy), _) => Err(busy),
        }
    }

    /// Returns the run that the same request recorded before with the same key.
    pub(crate) async fn recorded_run(&self) -> Result<Option<RunId>, Problem> {
        match self.key() {
            Some(key) => Ok(self.workspace.recorded_run(&self.actor, key).await?),
            None => Ok(None),
        }
    }

    /// Refuses operations on runs to tools and to roles within a run or a turn (M7.7).
    pub(crate) fn may_steer(&self) -> Result<(), Problem> {
        submit::may_steer(&self.actor)
    }

    /// Returns the run that the path names.
    pub(crate) async fn run_row(&self) -> Result<RunRow, Problem> {
        let run: RunRef = self.path_param("run")?;
        Ok(self.workspace.run(run).await?)
    }

    /// Returns the run called `name`.
    pub(crate) async fn run_called(&self, name: &str) -> Result<RunRow, Problem> {
        let run: RunRef = name.parse()?;
        Ok(self.workspace.run(run).await?)
    }
}

/// Returns the thread called `name`; an empty name is invalid.
pub(crate) fn thread_called(name: String) -> Result<ThreadKey, Problem> {
    if name.is_empty() {
        let empty = folio::memory::Invalid::new("thread_invalid", "thread", "the name of a thread is empty");
        return Err(empty.into());
    }
    Ok(ThreadKey(name))
}

/// Returns the turn called `name`, and the warning for what is written in it if it has ended. A caller need not be able
/// to read a turn to work in it. A turn named by its id need not be known here, because other programs may keep turns.
pub(crate) async fn turn_named(workspace: &Workspace, name: &str) -> Result<(TurnId, Option<Warning>), Problem> {
    let (id, found) = turn_of(workspace, name.parse()?).await?;
    let ended = found.filter(|turn| turn.has_ended);
    Ok((id, ended.map(|turn| warning_of_ended_turn(turn.handle))))
}

fn warning_of_ended_turn(turn: TurnHandle) -> Warning {
    let message = format!("{turn} has ended; what is done now is not in its export");
    Warning::new("turn_ended", message, turn.to_string(), Value::Null)
}

/// Returns the turn that the header `Folio-Turn` names, as [`turn_named`] does, and what is known of it.
pub(crate) async fn turn_in(
    headers: &HeaderMap,
    workspace: &Workspace,
) -> Result<Option<(TurnId, Option<WorkingIn>)>, Problem> {
    let Some(turn) = text_of(headers, TURN_HEADER)? else {
        return Ok(None);
    };
    let known: Result<TurnRef, _> = turn.parse();
    let known = known.map_err(|error| {
        let detail = format!("the header Folio-Turn is {turn:?}, which names no turn: {error}");
        Problem::from(error).with_detail(detail)
    })?;
    turn_of(workspace, known).await.map(Some)
}

async fn turn_of(workspace: &Workspace, turn: TurnRef) -> Result<(TurnId, Option<WorkingIn>), Problem> {
    let finding = workspace.turn_to_work_in(turn);
    let Ref::Id(id) = turn else {
        let known = finding.await?;
        return Ok((known.id, Some(known)));
    };
    match tokio::time::timeout(TURN_WITHIN, finding).await {
        Ok(Ok(known)) => Ok((known.id, Some(known))),
        // While the store is away, what a tool says in the turn is kept all the same.
        Ok(Err(WorkspaceError::Store(StoreError::NotFound { .. } | StoreError::Unavailable { .. }))) | Err(_) => {
            Ok((id, None))
        }
        Ok(Err(error)) => Err(error.into()),
    }
}

/// Returns the value of a header as text. A header given twice is refused, because only one of its values could be
/// used.
fn text_of(headers: &HeaderMap, name: &str) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        let detail = format!("the header {name} is given more than once");
        return Err(Problem::invalid("header_invalid", detail).hint("send it once, with one value"));
    }
    let text = value.to_str().map(|text| text.trim().to_owned());
    text.map(Some).map_err(|_| {
        let detail = format!("the header {name} is not plain text");
        Problem::invalid("header_invalid", detail)
    })
}

fn request_scope<'a>(method: &'a Method, path: &'a str, actor: &'a Actor, token: Option<&'a str>) -> Asking<'a> {
    Asking {
        surface: "http",
        verb: method.as_str(),
        place: path,
        actor,
        token,
    }
}

/// Refuses a change under a condition that is not checked, because it would seem to hold.
fn refuse_unknown_conditions(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let unknown = [header::IF_NONE_MATCH, header::IF_UNMODIFIED_SINCE];
    match unknown.into_iter().find(|name| headers.contains_key(name)) {
        Some(name) if !matches!(*method, Method::GET | Method::HEAD) => {
            let detail = format!("a change under the condition {name} is not possible");
            Err(Problem::invalid("header_invalid", detail).hint("use If-Match with a version, as ETag returns it"))
        }
        _ => Ok(()),
    }
}

/// Refuses a version where nothing that is changed has one, because the condition would seem to hold.
fn refuse_idle_version(method: &Method, route: &str, if_match: IfMatch) -> Result<(), Problem> {
    let IfMatch::Version(version) = if_match else {
        return Ok(());
    };
    if method.is_safe() || takes_version(method, route) {
        return Ok(());
    }
    let detail = format!("the header If-Match names the version {version}, but what this changes or adds has none");
    Err(Problem::invalid("if_match_invalid", detail).hint("leave it out"))
}

/// Returns whether a request changes something that has a version, so `If-Match` can require a version.
pub(crate) fn takes_version(method: &Method, route: &str) -> bool {
    const VERSIONED_ACTIONS: [&str; 10] = [
        "archive",
        "restore",
        "confirm",
        "resolve",
        "supersede",
        "complete",
        "pin",
        "unpin",
        "claim",
        "release",
    ];
    match *method {
        Method::PATCH | Method::PUT => !route.ends_with("/limits"),
        Method::POST => route
            .rsplit_once('/')
            .is_some_and(|(of, act)| of.ends_with('}') && VERSIONED_ACTIONS.contains(&act)),
        _ => false,
    }
}

/// The value of the header `If-Match`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// The header is missing.
    Unsaid,
    /// `*`: any version.
    Any,
    /// This version.
    Version(u32),
}

impl IfMatch {
    /// Returns the version that it names.
    pub(crate) fn version(self) -> Option<u32> {
        match self {
            Self::Unsaid | Self::Any => None,
            Self::Version(version) => Some(version),
        }
    }
}

/// Reads `If-Match`: `"3"`, as `ETag` gives it, or `*`.
fn if_match_in(headers: &HeaderMap) -> Result<IfMatch, Problem> {
    let Some(text) = text_of(headers, header::IF_MATCH.as_str())? else {
        return Ok(IfMatch::Unsaid);
    };
    if text == "*" {
        return Ok(IfMatch::Any);
    }
    let unquoted = text.strip_prefix("W/").unwrap_or(&text).trim_matches('"');
    let version = unquoted.parse().map(IfMatch::Version);
    version.map_err(|_| {
        let detail = format!("the header If-Match is {text}, which is not a version");
        Problem::invalid("if_match_invalid", detail).hint("send what ETag returned, for example If-Match: \"3\"")
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use folio::Role;

    use super::*;

    #[test]
    fn if_match_accepts_etags_bare_versions_and_the_wildcard() {
        let read = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_MATCH, HeaderValue::from_static(text));
            if_match_in(&headers).map_err(|problem| problem.code().to_owned())
        };
        for (text, version) in [("\"3\"", 3), ("3", 3), ("W/\"12\"", 12)] {
            assert_eq!(read(text), Ok(IfMatch::Version(version)), "{text}");
        }
        assert_eq!(read("*"), Ok(IfMatch::Any));
        assert_eq!(read("\"x\""), Err("if_match_invalid".to_owned()));
        assert_eq!(if_match_in(&HeaderMap::new()).unwrap(), IfMatch::Unsaid);
        let mut twice = HeaderMap::new();
        twice.append(header::IF_MATCH, HeaderValue::from_static("\"3\""));
        twice.append(header::IF_MATCH, HeaderValue::from_static("\"4\""));
        assert_eq!(if_match_in(&twice).unwrap_err().code(), "header_invalid");
    }

    #[test]
    fn idempotency_key_is_scoped_to_method_path_actor_and_token() {
        let human = Actor::new(Role::Human, "");
        let key = |method: &Method, path, actor: &Actor, token| {
            let asked = request_scope(method, path, actor, token).under("k", &[]);
            asked.key().to_owned()
        };
        let first = key(&Method::POST, "/a", &human, Some("one"));
        assert_eq!(first, key(&Method::POST, "/a", &human, Some("one")));
        let others = [
            key(&Method::PATCH, "/a", &human, Some("one")),
            key(&Method::POST, "/b", &human, Some("one")),
            key(&Method::POST, "/a", &Actor::new(Role::Client, ""), Some("one")),
            key(&Method::POST, "/a", &human, Some("two")),
            key(&Method::POST, "/a", &human, None),
        ];
        assert!(!others.contains(&first));
        // What a program asked for without a token before an update it finds again after it.
        assert_eq!(
            key(&Method::POST, "/a", &human, None),
            "http:03df994f546efb09cc602ff341ba005157e0ce38c6f32644867ac78a8d0d5f87"
        );
    }
}
