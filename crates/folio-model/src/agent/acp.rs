//! An agent program that is spoken to by the Agent Client Protocol: it is given the task, reports what it does, and
//! asks before it does what it was not granted (E9.17).
//!
//! Nothing is offered to it but the conversation: no files and no terminals of ours. It works with its own, in its
//! folder.

mod ended;
mod failed;
mod heard;
mod lines;
mod output;
mod permissions;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, ContentBlock, Implementation, InitializeRequest, InitializeResponse,
    LoadSessionRequest, McpServer, McpServerStdio, NewSessionRequest, PromptRequest, PromptResponse,
    RequestPermissionRequest, RequestPermissionResponse, ResumeSessionRequest, SessionId, SessionNotification,
    StopReason, TextContent, ToolKind,
};
use agent_client_protocol::{Agent, Client, JsonRpcMessage as _, Lines, on_receive_notification, on_receive_request};
use folio_process::{Ended, Limits, Program};
use futures_util::{Sink, Stream};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::again::{self, EarlierPrompt};
use super::answer::{AgentAnswer, FailedPrompt, not_started};
use super::settings::AgentSettings;
use crate::error::ModelErrorKind;
use crate::model::{NewSession, Place};
use ended::EndedConversation;
use failed::EndedProgram;
use heard::SessionState;
use lines::{lines_from, lines_to};

/// Time limit until the program has a session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length, in characters, of the program's own words about a failure.
const PROBLEM_CHARS: usize = 400;

/// What an agent may do when it asks. What it does without asking depends on its own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentGrant {
    /// Reading files.
    Read,
    /// Searching.
    Search,
    /// Thinking.
    Think,
    /// Changing files.
    Edit,
    /// Deleting files.
    Delete,
    /// Moving files.
    Move,
    /// Running commands.
    Execute,
    /// Fetching something from outside.
    Fetch,
    /// Everything else.
    Other,
}

impl AgentGrant {
    /// The name in the settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Search => "search",
            Self::Think => "think",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Execute => "execute",
            Self::Fetch => "fetch",
            Self::Other => "other",
        }
    }

    fn of(kind: ToolKind) -> Self {
        match kind {
            ToolKind::Read => Self::Read,
            ToolKind::Search => Self::Search,
            ToolKind::Think => Self::Think,
            ToolKind::Edit => Self::Edit,
            ToolKind::Delete => Self::Delete,
            ToolKind::Move => Self::Move,
            ToolKind::Execute => Self::Execute,
            ToolKind::Fetch => Self::Fetch,
            _ => Self::Other,
        }
    }
}

/// The stage of the conversation: a failure before the program had the task left no effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Beginning,
    Working,
}

/// Has the program do `task` in `place`, with an answer that has the fields `required`; or continue it in the session
/// that `place` names.
pub(super) async fn converse(
    program: &Program,
    task: String,
    required: Vec<String>,
    settings: &AgentSettings,
    limits: Limits,
    place: &Place,
) -> Result<AgentAnswer, FailedPrompt> {
    let stage = Arc::new(Mutex::new(Stage::Beginning));
    let result = run_conversation(program, (task, required), settings, limits, place, &stage).await;
    if place.session.is_none() || *stage.lock() == Stage::Working {
        return result;
    }
    // It was working before, so it may have had an effect.
    result.map_err(
        |FailedPrompt {
             failed: (_, reason), ..
         }| {
            let message =
                format!("it was at work when its driver stopped, and did not go on with its session: {reason}");
            FailedPrompt::from((ModelErrorKind::Unknown, message))
        },
    )
}

async fn run_conversation(
    program: &Program,
    (task, required): (String, Vec<String>),
    settings: &AgentSettings,
    limits: Limits,
    place: &Place,
    stage: &Arc<Mutex<Stage>>,
) -> Result<AgentAnswer, FailedPrompt> {
    let (mut talking, stdin, stdout) = folio_process::spawn(program).map_err(|error| not_started(&error))?;
    let heard = Arc::new(Mutex::new(SessionState::default()));
    let output_bytes_max = settings.output_bytes();
    let lines = Lines::new(
        lines_to(stdin, Arc::clone(&heard)),
        lines_from(stdout, Arc::clone(&heard), output_bytes_max),
    );
    let asking = Conversation {
        folder: program.folder.clone(),
        servers: servers_of(settings),
        task,
        required,
        place: place.clone(),
        heard: Arc::clone(&heard),
        stage: Arc::clone(stage),
        time: limits.time,
        grace: limits.grace / 2,
    };
    let ended = tokio::select! {
        biased;
        ended = asking.run(lines, settings.grants().to_vec()) => ended,
        // A child process may keep its pipes open without ever answering.
        () = talking.wait_until_ended() => {
            heard.lock().has_delivery_failed = true;
            Err(agent_client_protocol::Error::internal_error())
        }
    };
    talking.end(limits.grace / 4).await;
    let mut heard = std::mem::take(&mut *heard.lock());
    let program = EndedProgram {
        exit_code: talking.exit_code(),
        stray: heard.stray.take(),
        last_error: talking.last_error(),
    };
    let stage = *stage.lock();
    EndedConversation {
        ended,
        heard,
        stage,
        program,
        time: limits.time,
        output_bytes_max,
    }
    .into_answer()
}

/// The MCP servers that the settings give to the program.
fn servers_of(settings: &AgentSettings) -> Vec<McpServer> {
    let servers = settings.mcp.iter().filter_map(|(name, command)| {
        let (program, args) = command.split_first()?;
        Some(McpServer::Stdio(McpServerStdio::new(name, program).args(args.to_vec())))
    });
    servers.collect()
}

/// How the conversation ended.
enum ConversationEnd {
    Answered(PromptResponse),
    /// It stopped, for a reason that is not in the protocol.
    Stopped(String),
    /// It answered with an error.
    Failed(agent_client_protocol::Error),
    Ended(Ended, Stage),
}

/// What the conversation needs.
struct Conversation {
    folder: PathBuf,
    servers: Vec<McpServer>,
    task: String,
    /// The required fields of an answer.
    required: Vec<String>,
    place: Place,
    heard: Arc<Mutex<SessionState>>,
    stage: Arc<Mutex<Stage>>,
    time: Duration,
    grace: Duration,
}

impl Conversation {
    /// Holds the conversation over `lines`, and answers the program's requests for permission by `grants`.
    async fn run(
        self,
        lines: Lines<
            impl Sink<String, Error = io::Error> + Send + 'static,
            impl Stream<Item = io::Result<String>> + Send + 'static,
        >,
        grants: Vec<AgentGrant>,
    ) -> Result<ConversationEnd, agent_client_protocol::Error> {
        let (hearing, granting) = (Arc::clone(&self.heard), Arc::clone(&self.heard));
        Client
            .v1()
            .name("folio")
            .on_receive_notification(
                async move |notification: SessionNotification, _connection| {
                    let mut heard = hearing.lock();
                    if heard.is_of(&notification.session_id) {
                        heard.apply_update(notification.update);
                    }
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: RequestPermissionRequest, responder, _connection| {
                    responder.respond(RequestPermissionResponse::new(
                        granting.lock().permission(&grants, &request),
                    ))
                },
                on_receive_request!(),
            )
            .connect_with(lines, async move |connection| ask(connection, self).await)
            .await
    }

    /// The session, and the prompt to send in it; `None` if its answer is there already.
    async fn session(
        &self,
        connection: &ConnectionTo<Agent>,
        hello: &InitializeResponse,
    ) -> Result<(SessionId, Option<String>), agent_client_protocol::Error> {
        let can = &hello.agent_capabilities;
        let (can_load, can_resume) = (can.load_session, can.session_capabilities.resume.is_some());
        let folder = self.folder.clone();
        let Some(before) = &self.place.session else {
            let new = NewSessionRequest::new(folder).mcp_servers(self.servers.clone());
            let session = connection.send_request(new).block_task().await?.session_id;
            self.heard.lock().session = Some(session.clone());
            if can_load || can_resume {
                self.record_session(&session).await?;
            }
            return Ok((session, Some(self.task.clone())));
        };
        let session = SessionId::from(before.clone());
        self.heard.lock().session = Some(session.clone());
        let before = if can_load {
            let load = LoadSessionRequest::new(session.clone(), folder).mcp_servers(self.servers.clone());
            connection.send_request(load).block_task().await?;
            let mut heard = self.heard.lock();
            let text = std::mem::take(&mut heard.text);
            match heard.has_earlier_prompt {
                false => EarlierPrompt::Untold,
                true if again::is_answer(&text, &self.required) => {
                    heard.text = text;
                    return Ok((session, None));
                }
                true => EarlierPrompt::Told,
            }
        } else if can_resume {
            let resume = ResumeSessionRequest::new(session.clone(), folder).mcp_servers(self.servers.clone());
            connection.send_request(resume).block_task().await?;
            EarlierPrompt::Unseen
        } else {
            return Err(agent_client_protocol::Error::invalid_request().data("it cannot load sessions any more"));
        };
        Ok((session, Some(again::prompt(before, &self.task))))
    }

    /// Has the session recorded before the program is given the prompt.
    async fn record_session(&self, session: &SessionId) -> Result<(), agent_client_protocol::Error> {
        let Some(sessions) = &self.place.sessions else {
            return Ok(());
        };
        let (kept, is_kept) = oneshot::channel();
        let new = NewSession {
            id: session.to_string(),
            kept,
        };
        let unkept = |_| agent_client_protocol::Error::internal_error().data("its session could not be kept");
        match sessions.send(new).await {
            Ok(()) => is_kept.await.map_err(unkept),
            // Nobody records sessions.
            Err(_) => Ok(()),
        }
    }
}

/// The conversation: initialization, a session, the task.
async fn ask(
    connection: ConnectionTo<Agent>,
    asking: Conversation,
) -> Result<ConversationEnd, agent_client_protocol::Error> {
    let mut over = Box::pin(stop_or_timeout(asking.time, &asking.place.stop));
    let beginning = async {
        let own = Implementation::new("folio", env!("CARGO_PKG_VERSION"));
        let hello = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::new())
            .client_info(own);
        let hello = connection.send_request(hello).block_task().await?;
        asking.session(&connection, &hello).await
    };
    let (session, task_text) = tokio::select! {
        session = beginning => session?,
        ended = &mut over => return Ok(ConversationEnd::Ended(ended, Stage::Beginning)),
        () = tokio::time::sleep(SESSION_TIMEOUT) => return Ok(ConversationEnd::Ended(Ended::TimedOut, Stage::Beginning)),
    };
    *asking.stage.lock() = Stage::Working;
    let Some(task_text) = task_text else {
        return Ok(ConversationEnd::Answered(PromptResponse::new(StopReason::EndTurn)));
    };
    let prompt = vec![ContentBlock::Text(TextContent::new(task_text))];
    // The answer is parsed here: the library rejects one with an unknown stop reason.
    let prompt = PromptRequest::new(session.clone(), prompt).to_untyped_message()?;
    let mut working = Box::pin(connection.send_request(prompt).block_task());
    let ended = tokio::select! {
        response = &mut working => return match response {
            Ok(response) => Ok(read_answer(response)),
            Err(error) if is_lost(&error, &asking.heard.lock()) => Err(error),
            Err(error) => Ok(ConversationEnd::Failed(error)),
        },
        ended = over => ended,
    };
    // It is told to stop, and has a grace period to end by itself.
    connection.send_notification(CancelNotification::new(session))?;
    let _stopped = tokio::time::timeout(asking.grace, working).await;
    Ok(ConversationEnd::Ended(ended, Stage::Working))
}

/// Parses its answer to the task.
fn read_answer(response: Value) -> ConversationEnd {
    let stop_reason = response.get("stopReason").and_then(Value::as_str).map(str::to_owned);
    match (serde_json::from_value(response), stop_reason) {
        (Ok(response), _) => ConversationEnd::Answered(response),
        (Err(_), Some(stop_reason))
            if serde_json::from_value::<StopReason>(Value::from(stop_reason.as_str())).is_err() =>
        {
            ConversationEnd::Stopped(stop_reason)
        }
        (Err(error), _) => ConversationEnd::Failed(agent_client_protocol::Error::parse_error().data(error.to_string())),
    }
}

/// Whether the program can no longer answer.
fn is_lost(error: &agent_client_protocol::Error, heard: &SessionState) -> bool {
    heard.has_delivery_failed
        || agent_client_protocol::is_incoming_transport_closed(error)
        || agent_client_protocol::is_connection_terminated(error)
}

/// Completes when the time is up or the call is cancelled.
fn stop_or_timeout(time: Duration, stop: &CancellationToken) -> impl Future<Output = Ended> + Send + 'static {
    let (time_up, stop) = (Instant::now() + time, stop.clone());
    async move {
        tokio::select! {
            () = stop.cancelled() => Ended::Cancelled,
            () = tokio::time::sleep_until(time_up) => Ended::TimedOut,
        }
    }
}
