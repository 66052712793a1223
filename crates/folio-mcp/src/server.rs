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

use crate::answer::Answered;
use crate::connection::Connection;
use crate::error::McpError;
use crate::incoming::{TOO_DEEP, TOO_LONG, UNREADABLE, deeper_than_read, longer_than, not_readable};
use crate::listed::{Definition, Offered, offered};
use crate::login;
use crate::servers::ToStart;
use crate::words::{is_refused, not_answered, of_transport, pause_wanted};

/// Connections that may be begun within [`WINDOW`]: a server that ends again and again is left alone for a while.
const STARTS_MAX: usize = 5;
const WINDOW: Duration = Duration::from_secs(5 * 60);
/// How often a call is made that may be made twice, if the server is gone before it answers.
const TRIES_MAX: u32 = 3;
/// The pause before such a call is made again that a server said it cannot answer now; the second one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// What is said of an answer that no client can use.
const SERVERS_MISTAKE: &str = "a mistake of the server, if it is not one of the arguments";
/// What is said of an answer that is too long by HTTP in one piece.
const IN_EVENTS: &str = "ask for less of it, or have it answer with events; `answer_bytes` counts for those";

/// One server of the settings.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) start: Arc<ToStart>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// The one that is being made.
    opening: Option<Opening>,
    /// When connections were begun, the last ones.
    begun: VecDeque<Instant>,
    is_closed: bool,
}

/// What came of making a connection, or why there is none.
type Opened = Result<Arc<Connection>, String>;

/// A connection that is being made, for all who want one: whoever of them goes away ends nothing. Dropped, it is made no further.
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

/// Whether a call reached the server before it went wrong.
enum Lost {
    /// Certainly not, or it answered that it did nothing.
    Never(ToolError),
    /// Certainly not, since the connection is gone: another one may do.
    Unsent(String),
    /// It may have, and its answer is lost.
    Maybe(String),
    /// The same of one that is away, and how long it wants to be left alone, if it says so.
    Away(String, Option<Duration>),
    /// It did, and its answer is not taken; another one would be no better.
    Untaken(Untaken, String),
}

/// Why an answer is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Untaken {
    TooLong,
    /// Too long for the library, which takes so much in one piece and no more, whatever the settings say.
    TooLongForOnePiece,
    TooDeep,
    /// It is not what the protocol says.
    Malformed,
}

/// How far a call is.
#[derive(Debug, Default)]
struct Attempt {
    /// What it is made over, once that is there.
    connection: Option<Arc<Connection>>,
    /// Whether the server may have been asked.
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

    /// Makes the first connection; what the server offers, and what is left out.
    pub(crate) async fn begin(&self) -> Result<(Vec<Offered>, Vec<String>), McpError> {
        self.state().begun.push_back(Instant::now());
        let (connection, listed) = Connection::open(&self.start)
            .await
            .map_err(|reason| self.unavailable(reason))?;
        self.state().connection = Some(Arc::new(connection));
        Ok(offered(&self.start.name, &self.start.settings, &listed))
    }

    /// Calls the tool that it calls `tool`, which was defined as `definition` when it was listed. Once it is ended for good, nothing comes of
    /// a call until it is called off: the program is about to end, and whoever goes on with the run makes it.
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
            Err(error) if is_of_the_way(error.kind) && self.state().is_closed => {
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
            let (lost, wanted) = tokio::select! {
                biased;
                done = trying => match done {
                    Ok(result) => return Ok(result),
                    Err(Lost::Never(error)) => return Err(error),
                    Err(Lost::Unsent(reason)) => {
                        self.give_up(&mut attempt);
                        if is_sent_again {
                            return Err(self.unavailable(reason).of_call());
                        }
                        is_sent_again = true;
                        pause = Duration::ZERO;
                        continue;
                    }
                    Err(Lost::Maybe(reason)) => (reason, Duration::ZERO),
                    Err(Lost::Away(reason, wanted)) => (reason, wanted.unwrap_or_default().max(PAUSE * tries)),
                    Err(Lost::Untaken(why, reason)) => {
                        return Err(match why {
                            _ if !may_repeat => self.unknown(&reason),
                            Untaken::TooLong => self.too_long(&reason).hint(self.more_bytes()),
                            Untaken::TooLongForOnePiece => self.too_long(&reason).hint(IN_EVENTS),
                            Untaken::TooDeep => self.too_deep(&reason),
                            Untaken::Malformed => self.failed(FailureKind::Failed, &reason).hint(SERVERS_MISTAKE),
                        });
                    }
                },
                () = context.cancel.cancelled() => {
                    // The server was told; whoever gave up on the call knows whether that matters.
                    let is_harmless = may_repeat || !attempt.is_asked;
                    return Err(if is_harmless { ToolError::cancelled() } else { self.unknown("it was called off") });
                }
                () = tokio::time::sleep_until(ends) => {
                    let seconds = self.start.settings.time().as_secs();
                    let is_asked = attempt.is_asked;
                    let stray = attempt.connection.as_ref().map_or_else(String::new, |connection| connection.stray());
                    self.give_up(&mut attempt);
                    let reason = format!("it did not answer within {seconds} s{stray}");
                    return Err(match (may_repeat, is_asked) {
                        (true, _) => self.timed_out(&reason),
                        (false, true) => self.unknown(&reason),
                        (false, false) => {
                            self.unavailable(format!("it could not be asked within {seconds} s")).of_call()
                        }
                    });
                }
            };
            if !may_repeat {
                return Err(self.unknown(&lost));
            }
            // Who wants to be left alone for longer than there is time is not waited for.
            if tries == TRIES_MAX || wanted >= ends.saturating_duration_since(Instant::now()) {
                return Err(self.unavailable(lost).of_call());
            }
            pause = wanted;
            tries += 1;
        }
    }

    async fn try_once(
        &self,
        tool: &str,
        definition: &Definition,
        request: &ToolRequest,
        attempt: &mut Attempt,
    ) -> Result<Answered, Lost> {
        *attempt = Attempt::default();
        let connection = self.connection().await.map_err(|error| Lost::Never(error.of_call()))?;
        attempt.connection = Some(Arc::clone(&connection));
        let now = connection.definition(tool).await.map_err(|error| match error {
            ServiceError::TransportSend(_) | ServiceError::TransportClosed => {
                Lost::Unsent(not_answered(&error, &self.start))
            }
            error => Lost::Never(self.unavailable(not_answered(&error, &self.start)).of_call()),
        })?;
        if now.as_ref() != Some(definition) {
            let reason = match now {
                None => format!("it has no tool {tool} any more"),
                Some(_) => format!("it defines {tool} in another way than when its tools were read"),
            };
            let server = self.start.name.clone();
            return Err(Lost::Never(McpError::Changed { server, reason }.of_call()));
        }
        let arguments: JsonObject = match &request.args {
            Value::Object(args) => args.clone(),
            _ => JsonObject::new(),
        };
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        // The same for a repeated call, so that a server that knows it does not do it twice (E9.12).
        let mut meta = JsonObject::new();
        meta.insert("folio/idempotency-key".to_owned(), json!(request.request_id));
        params.meta = Some(RequestMetaObject::from(meta));
        attempt.is_asked = true;
        match connection.call(params).await {
            Ok(answer) => {
                self.within_limit(&answer)?;
                self.answered(answer)
            }
            Err(error) => {
                let has_ended = matches!(error, ServiceError::TransportClosed);
                Err(match self.lost(error) {
                    Lost::Maybe(why) if has_ended => Lost::Maybe(format!("{why}{}", connection.end_in_words().await)),
                    lost => lost,
                })
            }
        }
    }

    /// The answer, if it is not too long. Of one that comes by HTTP in one piece the library does not see to that.
    fn within_limit(&self, answer: &ServerResult) -> Result<(), Lost> {
        let bytes_max = self.start.settings.answer_bytes();
        if self.start.settings.url.is_some() && !json_fits(answer, bytes_max as u64) {
            return Err(Lost::Untaken(Untaken::TooLong, longer_than(bytes_max)));
        }
        Ok(())
    }

    fn answered(&self, answer: ServerResult) -> Result<Answered, Lost> {
        let read = match answer {
            ServerResult::CallToolResult(result) => Some(result.into()),
            ServerResult::InputRequiredResult(_) => {
                let words = "it asks for input that nobody can give here";
                return Err(Lost::Never(self.failed(FailureKind::Failed, words)));
            }
            ServerResult::CreateTaskResult(_) => {
                return Err(Lost::Maybe("it answers with a task, which nobody asked for".to_owned()));
            }
            ServerResult::CustomResult(CustomResult(answer)) => Answered::read(answer),
            _ => None,
        };
        read.ok_or_else(|| self.lost(ServiceError::UnexpectedResponse))
    }

    fn lost(&self, error: ServiceError) -> Lost {
        match error {
            ServiceError::McpError(error) if error.code == TOO_LONG => {
                Lost::Untaken(Untaken::TooLong, longer_than(self.start.settings.answer_bytes()))
            }
            ServiceError::McpError(error) if error.code == TOO_DEEP => {
                Lost::Untaken(Untaken::TooDeep, deeper_than_read())
            }
            ServiceError::McpError(error) if error.code == UNREADABLE => {
                Lost::Untaken(Untaken::Malformed, not_readable())
            }
            ServiceError::UnexpectedResponse => Lost::Untaken(Untaken::Malformed, not_answered(&error, &self.start)),
            ServiceError::McpError(error) => {
                let kind = match error.code {
                    ErrorCode::INVALID_PARAMS => FailureKind::InvalidArgs,
                    ErrorCode::METHOD_NOT_FOUND => FailureKind::NotFound,
                    _ => FailureKind::Failed,
                };
                let said = not_answered(&ServiceError::McpError(error), &self.start);
                Lost::Never(self.failed(kind, &said))
            }
            ServiceError::TransportSend(error) => {
                if let Some(words) = login::not_let_in(&*error.error, &self.start) {
                    return Lost::Never(self.unavailable(words).of_call());
                }
                let words = of_transport(&*error.error, &self.start);
                let sent = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
                match sent {
                    // A line that was not written to its end is none.
                    None => Lost::Unsent(words),
                    Some(StreamableHttpError::ResponseBodyTooLarge { max_size }) => {
                        let words = format!(
                            "its answer is longer than the {max_size} bytes that are taken by HTTP in one piece"
                        );
                        Lost::Untaken(Untaken::TooLongForOnePiece, words)
                    }
                    Some(StreamableHttpError::Client(error)) if error.is_connect() => {
                        Lost::Never(self.unavailable(words).of_call())
                    }
                    // Its tools may be others now: they are listed over the next connection, and compared, before it is asked again.
                    Some(StreamableHttpError::SessionExpired) => Lost::Unsent(words),
                    Some(error) if is_refused(error) => Lost::Never(self.unavailable(words).of_call()),
                    Some(StreamableHttpError::HttpStatus(error)) => Lost::Away(words, pause_wanted(error)),
                    Some(_) => Lost::Maybe(words),
                }
            }
            ServiceError::TransportClosed => Lost::Maybe("it ended before it answered".to_owned()),
            error => Lost::Maybe(not_answered(&error, &self.start)),
        }
    }

    /// The connection, made anew if it is gone.
    async fn connection(&self) -> Result<Arc<Connection>, McpError> {
        let mut opened = {
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
                    let opening = self.open();
                    let opened = opening.opened.clone();
                    state.opening = Some(opening);
                    opened
                }
            }
        };
        let opened = opened.wait_for(Option::is_some).await.ok();
        let opened = opened.and_then(|opened| opened.clone());
        opened
            .unwrap_or_else(|| Err("it was ended while it was being started".to_owned()))
            .map_err(|reason| self.unavailable(reason))
    }

    /// Begins to make a connection, which has the time of its settings, whoever waits for it.
    fn open(&self) -> Opening {
        let (told, opened) = watch::channel(None);
        let (start, state) = (Arc::clone(&self.start), Arc::downgrade(&self.state));
        let making = tokio::spawn(async move {
            let opened = Connection::open(&start).await;
            let opened = opened.map(|(connection, _)| Arc::new(connection));
            // Who needs it no more has ended it by that.
            let Some(state) = Weak::upgrade(&state) else { return };
            let made = {
                let mut state = locked(&state);
                state.connection = opened.as_ref().ok().cloned();
                state.opening.take()
            };
            told.send_replace(Some(opened));
            drop(made);
        });
        Opening { making, opened }
    }

    /// Counts a connection that is about to be made, unless there were so many of them that none is.
    fn count_start(&self, state: &mut State) -> Result<(), McpError> {
        let gone = state.connection.take();
        let now = Instant::now();
        while state
            .begun
            .front()
            .is_some_and(|begun| now.duration_since(*begun) > WINDOW)
        {
            state.begun.pop_front();
        }
        // Servers forget sessions that nothing was asked in for a while. That is no end of theirs.
        let is_forgotten = gone.is_some_and(|connection| connection.is_forgotten());
        if !is_forgotten && state.begun.len() >= STARTS_MAX {
            let minutes = WINDOW.as_secs() / 60;
            let reason =
                format!("it ended {STARTS_MAX} times within {minutes} minutes, so it is left alone for a while");
            return Err(self.unavailable(reason));
        }
        if !is_forgotten {
            state.begun.push_back(now);
        }
        Ok(())
    }

    /// Gives up the connection of a call that came to nothing. Other calls that wait for their answers keep it.
    fn give_up(&self, attempt: &mut Attempt) {
        let Some(given_up) = attempt.connection.take() else {
            return;
        };
        given_up.give_up();
        if given_up.is_forgotten() {
            // Whoever makes the next one looks why it is gone.
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

    /// Ends it for good.
    pub(crate) async fn close(&self) {
        let opening = {
            let mut state = self.state();
            state.is_closed = true;
            state.opening.take()
        };
        if let Some(mut opening) = opening {
            opening.making.abort();
            // Its program is ended when nobody makes it any more.
            let _broken_off = (&mut opening.making).await;
        }
        let connection = self.state().connection.take();
        // A call that is still under way ends with it.
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

    fn failed(&self, kind: FailureKind, words: &str) -> ToolError {
        ToolError::new(
            kind,
            "mcp_call_failed",
            format!("MCP server {}: {words}", self.start.name),
        )
    }

    fn too_long(&self, reason: &str) -> ToolError {
        let message = format!("MCP server {}: {reason}", self.start.name);
        ToolError::new(FailureKind::TooLarge, "output_too_large", message)
    }

    fn more_bytes(&self) -> String {
        format!("let it answer more: `answer_bytes` in [mcp.{}]", self.start.name)
    }

    fn too_deep(&self, reason: &str) -> ToolError {
        let message = format!("MCP server {}: {reason}", self.start.name);
        ToolError::new(FailureKind::TooLarge, "malformed_output", message).hint(SERVERS_MISTAKE)
    }

    fn timed_out(&self, reason: &str) -> ToolError {
        let message = format!("MCP server {}: {reason}", self.start.name);
        let hint = format!("give it more time: `time_s` in [mcp.{}]", self.start.name);
        ToolError::new(FailureKind::TimedOut, "timed_out", message).hint(hint)
    }

    fn unknown(&self, reason: &str) -> ToolError {
        let message = format!(
            "nobody knows whether the MCP server {} did it: {reason}",
            self.start.name
        );
        let hint = format!(
            "look there before it is done again; `effects` in [mcp.{}] says which tools may be called twice",
            self.start.name
        );
        ToolError::new(FailureKind::Unknown, "outcome_unknown", message).hint(hint)
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock()
}

/// Whether a failure of this kind may come of the way to a server, and not from itself.
fn is_of_the_way(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Unavailable | FailureKind::TimedOut | FailureKind::Unknown
    )
}
