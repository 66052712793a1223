//! One server: its connection is made when it is needed, and made again when it is gone.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use folio_memory::json_fits;
use folio_tools::{Effect, FailureKind, ToolContext, ToolError, ToolRequest};
use parking_lot::{Mutex, MutexGuard};
use rmcp::ServiceError;
use rmcp::model::{CallToolRequestParams, CustomResult, ErrorCode, JsonObject, RequestMetaObject, ServerResult};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::IDEMPOTENCY_KEY;
use crate::answer::Answered;
use crate::connection::Connection;
use crate::error::McpError;
use crate::incoming::{TOO_DEEP, TOO_LONG, UNREADABLE, deeper_than_read, longer_than, not_readable};
use crate::listed::{Definition, Offered, offered};
use crate::login;
use crate::servers::ToStart;
use crate::words::{is_refused, pause_wanted, request_failure_message, transport_failure_message};

/// The most connections that may be begun within [`STARTS_WINDOW`]: a server that ends again and again is left alone
/// for a while.
const STARTS_MAX: usize = 5;
const STARTS_WINDOW: Duration = Duration::from_secs(5 * 60);
/// How many times a call that may be repeated is made, if the server is gone before it answers.
const CALL_TRIES_MAX: u32 = 3;
/// The pause before such a call is repeated when the server said that it cannot answer now; the second pause is twice
/// as long.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The hint for an answer that no client can use.
const SERVER_MISTAKE_HINT: &str = "a mistake of the server, unless the arguments are wrong";
/// The hint for an answer by HTTP that is too long in one piece.
const USE_EVENTS_HINT: &str = "ask for less, or let the server answer with events; `answer_bytes` applies to those";

/// One server of the settings.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) start: Arc<ToStart>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// The connection that is being made.
    opening: Option<Opening>,
    /// When the last connections were begun.
    begun: VecDeque<Instant>,
    is_closed: bool,
}

/// A connection that was made, or why there is none.
type Opened = Result<Arc<Connection>, String>;

/// A connection that is being made, for all who want one; if one of them stops waiting, it goes on. Dropping this
/// aborts it.
#[derive(Debug)]
struct Opening {
    making: JoinHandle<()>,
    opened: watch::Receiver<Option<Opened>>,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.making.abort();
    }
}

/// How a call failed, by whether it had reached the server.
enum CallFailure {
    /// It did not reach the server, or the server answered that it did nothing.
    Never(ToolError),
    /// It did not reach the server, since the connection is gone: another connection may work.
    Unsent(String),
    /// It may have reached the server, and its answer is lost.
    Maybe(String),
    /// The same for a server that is unavailable, with how long it asks to be left alone, if it says so.
    Away(String, Option<Duration>),
    /// It reached the server, and its answer is not accepted; another one would be no better.
    Untaken(RefusalCause, String),
}

/// Why an answer is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusalCause {
    TooLong,
    /// Too long for the library, which has a fixed limit for one piece, whatever the settings say.
    TooLongForOnePiece,
    TooDeep,
    /// It violates the protocol.
    Malformed,
}

/// The progress of a call.
#[derive(Debug, Default)]
struct Attempt {
    /// The connection that it is made over, once there is one.
    connection: Option<Arc<Connection>>,
    /// Whether the request may have been sent to the server.
    is_asked: bool,
}

impl Server {
    pub(crate) fn new(start: ToStart) -> Self {
        Self {
            start: Arc::new(start),
            state: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Makes the first connection, and returns what the server offers and what is left out.
    pub(crate) async fn begin(&self) -> Result<(Vec<Offered>, Vec<String>), McpError> {
        self.state().begun.push_back(Instant::now());
        let (connection, listed) = Connection::open(&self.start)
            .await
            .map_err(|reason| self.unavailable(reason))?;
        self.state().connection = Some(Arc::new(connection));
        Ok(offered(&self.start.name, &self.start.settings, &listed))
    }

    /// Calls the tool with the server's name `tool`, which was defined as `definition` when it was listed. After
    /// [`close`](Self::close), a call that fails because of the connection stays pending until it is cancelled: the
    /// program is about to end, and whoever resumes the run makes the call.
    pub(crate) async fn call(
        &self,
        tool: &str,
        definition: &Definition,
        effect: Effect,
        request: &ToolRequest,
        context: &ToolContext,
    ) -> Result<Answered, ToolError> {
        let called = self.call_now(tool, definition, effect, request, context).await;
        match called {
            Err(error) if may_be_of_connection(error.kind) && self.state().is_closed => {
                context.cancel.cancelled().await;
                Err(match error.kind {
                    FailureKind::Unknown => error,
                    _ => ToolError::cancelled(),
                })
            }
            called => called,
        }
    }

    async fn call_now(
        &self,
        tool: &str,
        definition: &Definition,
        effect: Effect,
        request: &ToolRequest,
        context: &ToolContext,
    ) -> Result<Answered, ToolError> {
        let may_repeat = effect.may_be_repeated();
        let ends = Instant::now() + self.start.settings.time();
        let (mut tries, mut pause) = (1, Duration::ZERO);
        let mut is_sent_again = false;
        let mut attempt = Attempt::default();
        loop {
            let trying = async {
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                self.try_once(tool, definition, request, &mut attempt).await
            };
            let (lost, retry_after) = tokio::select! {
                biased;
                outcome = trying => match outcome {
                    Ok(result) => return Ok(result),
                    Err(CallFailure::Never(error)) => return Err(error),
                    Err(CallFailure::Unsent(reason)) => {
                        self.drop_connection(&mut attempt);
                        if is_sent_again {
                            return Err(self.unavailable(reason).of_call());
                        }
                        is_sent_again = true;
                        pause = Duration::ZERO;
                        continue;
                    }
                    Err(CallFailure::Maybe(reason)) => (reason, Duration::ZERO),
                    Err(CallFailure::Away(reason, wanted_pause)) => (reason, wanted_pause.unwrap_or_default().max(RETRY_PAUSE * tries)),
                    Err(CallFailure::Untaken(cause, reason)) => {
                        return Err(match cause {
                            _ if !may_repeat => self.unknown(&reason),
                            RefusalCause::TooLong => self.too_long(&reason).hint(self.more_bytes()),
                            RefusalCause::TooLongForOnePiece => self.too_long(&reason).hint(USE_EVENTS_HINT),
                            RefusalCause::TooDeep => self.too_deep(&reason),
                            RefusalCause::Malformed => self.failed(FailureKind::Failed, &reason).hint(SERVER_MISTAKE_HINT),
                        });
                    }
                },
                () = context.cancel.cancelled() => {
                    // The server was notified; whoever cancelled the call knows whether that matters.
                    let is_harmless = may_repeat || !attempt.is_asked;
                    return Err(if is_harmless { ToolError::cancelled() } else { self.unknown("the call was cancelled") });
                }
                () = tokio::time::sleep_until(ends) => {
                    let seconds = self.start.settings.time().as_secs();
                    let is_asked = attempt.is_asked;
                    let stray = attempt.connection.as_ref().map_or_else(String::new, |connection| connection.stray());
                    self.drop_connection(&mut attempt);
                    let reason = format!("it did not answer within {seconds} s{stray}");
                    return Err(match (may_repeat, is_asked) {
                        (true, _) => self.timed_out(&reason),
                        (false, true) => self.unknown(&reason),
                        (false, false) => {
                            self.unavailable(format!("the call could not be sent within {seconds} s")).of_call()
                        }
                    });
                }
            };
            if !may_repeat {
                return Err(self.unknown(&lost));
            }
            // A server that asks for more time than there is left is not waited for.
            if tries == CALL_TRIES_MAX || retry_after >= ends.saturating_duration_since(Instant::now()) {
                return Err(self.unavailable(lost).of_call());
            }
            pause = retry_after;
            tries += 1;
        }
    }

    async fn try_once(
        &self,
        tool: &str,
        definition: &Definition,
        request: &ToolRequest,
        attempt: &mut Attempt,
    ) -> Result<Answered, CallFailure> {
        *attempt = Attempt::default();
        let connection = self
            .connection()
            .await
            .map_err(|error| CallFailure::Never(error.of_call()))?;
        attempt.connection = Some(Arc::clone(&connection));
        let now = connection.definition(tool).await.map_err(|error| match error {
            ServiceError::TransportSend(_) | ServiceError::TransportClosed => {
                CallFailure::Unsent(request_failure_message(&error, &self.start))
            }
            error => CallFailure::Never(self.unavailable(request_failure_message(&error, &self.start)).of_call()),
        })?;
        if now.as_ref() != Some(definition) {
            let reason = match now {
                None => format!("it has no tool {tool} any more"),
                Some(_) => format!("it has changed the definition of {tool} since its tools were listed"),
            };
            let server = self.start.name.clone();
            return Err(CallFailure::Never(McpError::Changed { server, reason }.of_call()));
        }
        let arguments: JsonObject = match &request.args {
            Value::Object(args) => args.clone(),
            _ => JsonObject::new(),
        };
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        // A repeated call has the same key, so that a server that supports it does not do it twice (E9.12).
        let mut meta = JsonObject::new();
        meta.insert(IDEMPOTENCY_KEY.to_owned(), json!(request.request_id));
        params.meta = Some(RequestMetaObject::from(meta));
        attempt.is_asked = true;
        match connection.call(params).await {
            Ok(answer) => {
                self.within_limit(&answer)?;
                self.read_answer(answer)
            }
            Err(error) => {
                let has_ended = matches!(error, ServiceError::TransportClosed);
                Err(match self.call_failure(error) {
                    CallFailure::Maybe(why) if has_ended => {
                        CallFailure::Maybe(format!("{why}{}", connection.end_message().await))
                    }
                    lost => lost,
                })
            }
        }
    }

    /// Checks the length of the answer, which the library does not do for one that comes by HTTP in one piece.
    fn within_limit(&self, answer: &ServerResult) -> Result<(), CallFailure> {
        let bytes_max = self.start.settings.answer_bytes();
        if self.start.settings.url.is_some() && !json_fits(answer, bytes_max as u64) {
            return Err(CallFailure::Untaken(RefusalCause::TooLong, longer_than(bytes_max)));
        }
        Ok(())
    }

    fn read_answer(&self, answer: ServerResult) -> Result<Answered, CallFailure> {
        let call_result = match answer {
            ServerResult::CallToolResult(result) => Some(result.into()),
            ServerResult::InputRequiredResult(_) => {
                let message = "it asks for input that nobody can give here";
                return Err(CallFailure::Never(self.failed(FailureKind::Failed, message)));
            }
            ServerResult::CreateTaskResult(_) => {
                return Err(CallFailure::Maybe(
                    "it answers with a task, which nobody asked for".to_owned(),
                ));
            }
            ServerResult::CustomResult(CustomResult(answer)) => Answered::read(answer),
            _ => None,
        };
        call_result.ok_or_else(|| self.call_failure(ServiceError::UnexpectedResponse))
    }

    fn call_failure(&self, error: ServiceError) -> CallFailure {
        match error {
            ServiceError::McpError(error) if error.code == TOO_LONG => {
                CallFailure::Untaken(RefusalCause::TooLong, longer_than(self.start.settings.answer_bytes()))
            }
            ServiceError::McpError(error) if error.code == TOO_DEEP => {
                CallFailure::Untaken(RefusalCause::TooDeep, deeper_than_read())
            }
            ServiceError::McpError(error) if error.code == UNREADABLE => {
                CallFailure::Untaken(RefusalCause::Malformed, not_readable())
            }
            ServiceError::UnexpectedResponse => {
                CallFailure::Untaken(RefusalCause::Malformed, request_failure_message(&error, &self.start))
            }
            ServiceError::McpError(error) => {
                let kind = match error.code {
                    ErrorCode::INVALID_PARAMS => FailureKind::InvalidArgs,
                    ErrorCode::METHOD_NOT_FOUND => FailureKind::NotFound,
                    _ => FailureKind::Failed,
                };
                let message = request_failure_message(&ServiceError::McpError(error), &self.start);
                CallFailure::Never(self.failed(kind, &message))
            }
            ServiceError::TransportSend(error) => {
                if let Some(message) = login::access_refused_message(&*error.error, &self.start) {
                    return CallFailure::Never(self.unavailable(message).of_call());
                }
                let message = transport_failure_message(&*error.error, &self.start);
                let sent = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
                match sent {
                    // A line that was not written completely is not a request.
                    None => CallFailure::Unsent(message),
                    Some(StreamableHttpError::ResponseBodyTooLarge { max_size }) => {
                        let message = format!(
                            "its answer is longer than the {max_size} bytes that are accepted over HTTP in one piece"
                        );
                        CallFailure::Untaken(RefusalCause::TooLongForOnePiece, message)
                    }
                    Some(StreamableHttpError::Client(error)) if error.is_connect() => {
                        CallFailure::Never(self.unavailable(message).of_call())
                    }
                    // Its tools may have changed: they are listed over the next connection, and compared, before the
                    // call is repeated.
                    Some(StreamableHttpError::SessionExpired) => CallFailure::Unsent(message),
                    Some(error) if is_refused(error) => CallFailure::Never(self.unavailable(message).of_call()),
                    Some(StreamableHttpError::HttpStatus(error)) => CallFailure::Away(message, pause_wanted(error)),
                    Some(_) => CallFailure::Maybe(message),
                }
            }
            ServiceError::TransportClosed => CallFailure::Maybe("it ended before it answered".to_owned()),
            error => CallFailure::Maybe(request_failure_message(&error, &self.start)),
        }
    }

    /// Returns the connection, made again if it is gone.
    async fn connection(&self) -> Result<Arc<Connection>, McpError> {
        let mut receiver = {
            let mut state = self.state();
            if state.is_closed {
                return Err(self.unavailable("Folio is about to end".to_owned()));
            }
            if let Some(connection) = state.connection.as_ref().filter(|connection| connection.is_open()) {
                return Ok(Arc::clone(connection));
            }
            match &state.opening {
                Some(opening) if !opening.making.is_finished() => opening.opened.clone(),
                _ => {
                    self.count_start(&mut state)?;
                    let opening = self.begin_opening();
                    let receiver = opening.opened.clone();
                    state.opening = Some(opening);
                    receiver
                }
            }
        };
        let result = receiver.wait_for(Option::is_some).await.ok();
        let result = result.and_then(|watched| watched.clone());
        result
            .unwrap_or_else(|| Err("it was ended while it was being started".to_owned()))
            .map_err(|reason| self.unavailable(reason))
    }

    /// Begins to make a connection, which has the time of its settings, whoever waits for it.
    fn begin_opening(&self) -> Opening {
        let (sender, receiver) = watch::channel(None);
        let (start, state) = (Arc::clone(&self.start), Arc::downgrade(&self.state));
        let making = tokio::spawn(async move {
            let result = Connection::open(&start).await;
            let result = result.map(|(connection, _)| Arc::new(connection));
            // If the server is gone, nobody needs the connection.
            let Some(state) = Weak::upgrade(&state) else { return };
            let opening = {
                let mut state = locked(&state);
                state.connection = result.as_ref().ok().cloned();
                state.opening.take()
            };
            sender.send_replace(Some(result));
            drop(opening);
        });
        Opening {
            making,
            opened: receiver,
        }
    }

    /// Counts a connection that is about to be made, or fails if there were too many.
    fn count_start(&self, state: &mut State) -> Result<(), McpError> {
        let previous = state.connection.take();
        let now = Instant::now();
        while state
            .begun
            .front()
            .is_some_and(|started_at| now.duration_since(*started_at) > STARTS_WINDOW)
        {
            state.begun.pop_front();
        }
        // Servers forget sessions that were unused for a while. That does not count as an end of the server.
        let is_forgotten = previous.is_some_and(|connection| connection.is_forgotten());
        if !is_forgotten && state.begun.len() >= STARTS_MAX {
            let minutes = STARTS_WINDOW.as_secs() / 60;
            let reason =
                format!("it ended {STARTS_MAX} times within {minutes} minutes, so it is left alone for a while");
            return Err(self.unavailable(reason));
        }
        if !is_forgotten {
            state.begun.push_back(now);
        }
        Ok(())
    }

    /// Gives up the connection of a call that failed. Other calls that wait for their answers keep it.
    fn drop_connection(&self, attempt: &mut Attempt) {
        let Some(given_up) = attempt.connection.take() else {
            return;
        };
        given_up.give_up();
        if given_up.is_forgotten() {
            // Kept, since `count_start` looks at why it is gone.
            return;
        }
        let mut state = self.state();
        if state
            .connection
            .as_ref()
            .is_some_and(|connection| Arc::ptr_eq(connection, &given_up))
        {
            state.connection = None;
        }
    }

    /// Closes the server for good.
    pub(crate) async fn close(&self) {
        let opening = {
            let mut state = self.state();
            state.is_closed = true;
            state.opening.take()
        };
        if let Some(mut opening) = opening {
            opening.making.abort();
            // Its program ends once the task that makes the connection is gone.
            let _broken_off = (&mut opening.making).await;
        }
        let connection = self.state().connection.take();
        // If a call is still under way, the connection is dropped with it.
        if let Some(connection) = connection.and_then(Arc::into_inner) {
            connection.close().await;
        }
    }

    fn unavailable(&self, reason: String) -> McpError {
        McpError::Unavailable {
            server: self.start.name.clone(),
            reason,
        }
    }

    fn failed(&self, kind: FailureKind, message: &str) -> ToolError {
        ToolError::new(
            kind,
            "mcp_call_failed",
            format!("MCP server {}: {message}", self.start.name),
        )
    }

    fn too_long(&self, reason: &str) -> ToolError {
        let message = format!("MCP server {}: {reason}", self.start.name);
        ToolError::new(FailureKind::TooLarge, "output_too_large", message)
    }

    fn more_bytes(&self) -> String {
        format!("raise `answer_bytes` in [mcp.{}]", self.start.name)
    }

    fn too_deep(&self, reason: &str) -> ToolError {
        let message = format!("MCP server {}: {reason}", self.start.name);
        ToolError::new(FailureKind::TooLarge, "malformed_output", message).hint(SERVER_MISTAKE_HINT)
    }

    fn timed_out(&self, reason: &str) -> ToolError {
        let message = format!("MCP server {}: {reason}", self.start.name);
        let hint = format!("give it more time: `time_s` in [mcp.{}]", self.start.name);
        ToolError::new(FailureKind::TimedOut, "timed_out", message).hint(hint)
    }

    fn unknown(&self, reason: &str) -> ToolError {
        let message = format!(
            "it is not known whether the MCP server {} did it: {reason}",
            self.start.name
        );
        let hint = format!(
            "check there before you repeat the call; `effects` in [mcp.{}] says which tools may be called twice",
            self.start.name
        );
        ToolError::new(FailureKind::Unknown, "outcome_unknown", message).hint(hint)
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock()
}

/// Returns whether a failure of this kind may come from the connection rather than from the server itself.
fn may_be_of_connection(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Unavailable | FailureKind::TimedOut | FailureKind::Unknown
    )
}
