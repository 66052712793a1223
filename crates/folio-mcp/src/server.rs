//! One server: its connection is made when it is needed, and made again when it is gone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use folio_tools::{Effect, FailureKind, ToolContext, ToolError, ToolRequest};
use rmcp::ServiceError;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode, JsonObject, RequestMetaObject};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::connection::{Connection, in_words};
use crate::error::McpError;
use crate::listed::{Definition, Offered, offered};
use crate::login;
use crate::servers::ToStart;

/// Connections that may be begun within [`WINDOW`]: a server that ends again and again is left alone for a while.
const STARTS_MAX: usize = 5;
const WINDOW: Duration = Duration::from_secs(5 * 60);
/// How often a call is made that may be made twice, if the server is gone before it answers.
const TRIES_MAX: usize = 3;

/// One server of the settings.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) start: ToStart,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// When connections were begun, the last ones.
    begun: VecDeque<Instant>,
    is_closed: bool,
}

/// Whether a call reached the server before it went wrong.
enum Lost {
    /// Certainly not, or it answered that it did nothing.
    Never(ToolError),
    /// It may have, and its answer is lost.
    Maybe(String),
}

impl Server {
    pub(crate) fn new(start: ToStart) -> Self {
        Self {
            start,
            state: Mutex::default(),
        }
    }

    /// Makes the first connection; what the server offers, and what is left out.
    pub(crate) async fn begin(&self) -> Result<(Vec<Offered>, Vec<String>), McpError> {
        let mut state = self.state.lock().await;
        state.begun.push_back(Instant::now());
        let (connection, listed) = Connection::open(&self.start)
            .await
            .map_err(|reason| self.unavailable(reason))?;
        state.connection = Some(Arc::new(connection));
        Ok(offered(&self.start.name, &self.start.settings, &listed))
    }

    /// Calls the tool that it calls `tool`, which was defined as `definition` when it was listed.
    pub(crate) async fn call(
        &self,
        tool: &str,
        definition: &Definition,
        effect: Effect,
        request: &ToolRequest,
        context: &ToolContext,
    ) -> Result<CallToolResult, ToolError> {
        let may_repeat = matches!(effect, Effect::Pure | Effect::Read | Effect::Idempotent);
        let ends = Instant::now() + self.start.settings.time();
        let mut tries = 1;
        loop {
            let trying = self.try_once(tool, definition, request);
            let lost = tokio::select! {
                biased;
                done = trying => match done {
                    Ok(result) => return Ok(result),
                    Err(Lost::Never(error)) => return Err(error),
                    Err(Lost::Maybe(reason)) => reason,
                },
                () = context.cancel.cancelled() => {
                    // The server was told; whoever gave up on the call knows whether that matters.
                    return Err(if may_repeat { ToolError::cancelled() } else { self.unknown("it was called off") });
                }
                () = tokio::time::sleep_until(ends) => {
                    self.give_up_if_idle().await;
                    let reason = format!("it did not answer within {} s", self.start.settings.time().as_secs());
                    return Err(if may_repeat { self.timed_out(&reason) } else { self.unknown(&reason) });
                }
            };
            if !may_repeat {
                return Err(self.unknown(&lost));
            }
            if tries == TRIES_MAX {
                return Err(self.unavailable(lost).of_call());
            }
            tries += 1;
        }
    }

    async fn try_once(
        &self,
        tool: &str,
        definition: &Definition,
        request: &ToolRequest,
    ) -> Result<CallToolResult, Lost> {
        let connection = self.connection().await.map_err(|error| Lost::Never(error.of_call()))?;
        let now = connection
            .definition(tool)
            .await
            .map_err(|error| Lost::Never(self.unavailable(in_words(&error)).of_call()))?;
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
        match connection.call(params).await {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(CallToolResponse::InputRequired(_)) => Err(Lost::Never(
                self.failed(FailureKind::Failed, "it asks for input that nobody can give here"),
            )),
            Ok(_) => Err(Lost::Maybe("it answers with a task, which nobody asked for".to_owned())),
            Err(error) => Err(self.lost(error)),
        }
    }

    fn lost(&self, error: ServiceError) -> Lost {
        match error {
            ServiceError::McpError(error) => {
                let kind = match error.code {
                    ErrorCode::INVALID_PARAMS => FailureKind::InvalidArgs,
                    ErrorCode::METHOD_NOT_FOUND => FailureKind::NotFound,
                    _ => FailureKind::Failed,
                };
                let said: String = error.message.chars().take(400).collect();
                Lost::Never(self.failed(kind, &format!("it answers: {said}")))
            }
            ServiceError::TransportSend(error) => {
                if let Some(words) = login::not_let_in(&*error.error, &self.start) {
                    return Lost::Never(self.unavailable(words).of_call());
                }
                let words = format!("there is no connection to it: {}", in_words(&*error.error));
                let sent = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
                match sent {
                    // A line that was not written to its end is none.
                    None => Lost::Never(self.unavailable(words).of_call()),
                    Some(StreamableHttpError::Client(error)) if error.is_connect() => {
                        Lost::Never(self.unavailable(words).of_call())
                    }
                    Some(_) => Lost::Maybe(words),
                }
            }
            ServiceError::TransportClosed => Lost::Maybe("it ended before it answered".to_owned()),
            error => Lost::Maybe(in_words(&error)),
        }
    }

    /// The connection, made anew if it is gone.
    async fn connection(&self) -> Result<Arc<Connection>, McpError> {
        let mut state = self.state.lock().await;
        if state.is_closed {
            return Err(self.unavailable("Folio is about to end".to_owned()));
        }
        if let Some(connection) = state.connection.as_ref().filter(|connection| connection.is_open()) {
            return Ok(Arc::clone(connection));
        }
        state.connection = None;
        let now = Instant::now();
        while state
            .begun
            .front()
            .is_some_and(|begun| now.duration_since(*begun) > WINDOW)
        {
            state.begun.pop_front();
        }
        if state.begun.len() >= STARTS_MAX {
            let minutes = WINDOW.as_secs() / 60;
            let reason =
                format!("it ended {STARTS_MAX} times within {minutes} minutes, so it is left alone for a while");
            return Err(self.unavailable(reason));
        }
        state.begun.push_back(now);
        let (connection, _) = Connection::open(&self.start)
            .await
            .map_err(|reason| self.unavailable(reason))?;
        let connection = Arc::new(connection);
        state.connection = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Gives a connection up that does not answer, unless somebody else waits for it: then it is theirs to say so.
    async fn give_up_if_idle(&self) {
        let mut state = self.state.lock().await;
        if state
            .connection
            .as_ref()
            .is_some_and(|connection| !connection.is_busy())
        {
            state.connection = None;
        }
    }

    /// Ends it for good.
    pub(crate) async fn close(&self) {
        let connection = {
            let mut state = self.state.lock().await;
            state.is_closed = true;
            state.connection.take()
        };
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
