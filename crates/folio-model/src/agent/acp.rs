//! An agent program that is spoken to by the Agent Client Protocol: it is given the task, reports what it does, and
//! asks before it does what it was not granted (E9.17).
//!
//! Nothing is offered to it but the conversation: no files and no terminals of ours. It works with its own, in its
//! folder.

mod failed;
mod permissions;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::ready;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, ContentBlock, Implementation, InitializeRequest, InitializeResponse,
    LoadSessionRequest, McpServer, McpServerStdio, NewSessionRequest, PermissionOption, PermissionOptionKind,
    PromptRequest, PromptResponse, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    ResumeSessionRequest, SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, StopReason,
    TextContent, ToolKind,
};
use agent_client_protocol::{
    Agent, Client, ErrorCode, JsonRpcMessage as _, Lines, on_receive_notification, on_receive_request,
};
use folio_memory::excerpt::cut;
use folio_memory::readable::readable;
use folio_process::{Ended, LINE_CHARS, Limits, ProcessError, Program};
use futures_util::{SinkExt, StreamExt as _};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead, FramedWrite, LinesCodec};
use tokio_util::sync::CancellationToken;

use super::again::{self, EarlierPrompt};
use super::events::micro_usd_of;
use super::settings::AgentSettings;
use crate::error::ModelErrorKind;
use crate::model::{NewSession, Place, StopCause, Usage};
use failed::EndedProgram;
use permissions::Permissions;

/// Time limit until the program has a session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length, in characters, of the program's own words about a failure.
const PROBLEM_CHARS: usize = 400;
/// The method by which it asks for permission.
const PERMISSION_METHOD: &str = "session/request_permission";

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

/// The answer of the program.
#[derive(Debug)]
pub(super) struct AgentAnswer {
    pub(super) text: String,
    pub(super) stop: StopCause,
    pub(super) usage: Option<Usage>,
    /// What it asked to be allowed, and what it was answered, one line each.
    pub(super) permissions: Vec<String>,
}

/// The kind of a failure, and the message.
pub(super) type Failed = (ModelErrorKind, String);

/// A failure, and its usage nevertheless, if the program reported one.
#[derive(Debug)]
pub(super) struct FailedPrompt {
    pub(super) failed: Failed,
    pub(super) usage: Option<Usage>,
}

impl From<Failed> for FailedPrompt {
    fn from(failed: Failed) -> Self {
        Self { failed, usage: None }
    }
}

/// What the program has reported so far.
#[derive(Debug, Default)]
struct SessionState {
    /// The session of the task, once it is known: reports about other sessions are ignored.
    session: Option<SessionId>,
    text: String,
    /// Whether the resumed session shows an earlier prompt.
    has_earlier_prompt: bool,
    /// Bytes of all its output.
    bytes: usize,
    has_too_much_output: bool,
    /// The kinds of its tool calls, by their ids, as far as it reported them.
    kinds: BTreeMap<String, Vec<AgentGrant>>,
    micro_usd: Option<u64>,
    /// The last line of its output that was not a message.
    stray: Option<String>,
    /// Whether a message could not be delivered, for example because the program has ended.
    has_delivery_failed: bool,
    /// The permissions that it asked for.
    permissions: Permissions,
}

impl SessionState {
    /// Whether a report about `session` concerns the task.
    fn is_of(&self, session: &SessionId) -> bool {
        self.session.as_ref().is_none_or(|own| own == session)
    }

    /// The cost, if it reports only money.
    fn cost_only_usage(&self) -> Option<Usage> {
        let micro_usd = self.micro_usd.filter(|micro_usd| *micro_usd > 0)?;
        Some(Usage {
            micro_usd: Some(micro_usd),
            ..Usage::default()
        })
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
            let message = format!("it was at work when its driver died, and did not go on with its session: {reason}");
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
    let longest = settings.output_bytes();
    let listening = Arc::clone(&heard);
    // When the output is too large, reading stops, which ends the conversation.
    let lines = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), longest);
    let incoming = FramedRead::new(stdout, lines)
        // Lines are bytes: programs write logs in other encodings, and cut texts inside of characters.
        .map(|line| line.map(|bytes| OutputLine::of(&bytes)))
        .take_while(move |line| ready(is_within(&mut listening.lock(), line, longest)))
        // The library answers lines that are not messages. A program that does the same would exchange such answers
        // until its time is over.
        .filter(|line| ready(line.as_ref().map_or(true, |line| is_message(&line.text))))
        .map(|line| line.map(|line| repaired_line(line.text)).map_err(io::Error::other));
    let outgoing = FramedWrite::new(stdin, LinesCodec::new());
    let telling = Arc::clone(&heard);
    let outgoing = SinkExt::<String>::sink_map_err(outgoing, move |error| {
        telling.lock().has_delivery_failed = true;
        io::Error::other(error)
    });
    let servers = settings.mcp.iter().filter_map(|(name, command)| {
        let (program, args) = command.split_first()?;
        Some(McpServer::Stdio(McpServerStdio::new(name, program).args(args.to_vec())))
    });
    let asking = Conversation {
        folder: program.folder.clone(),
        servers: servers.collect(),
        task,
        required,
        place: place.clone(),
        heard: Arc::clone(&heard),
        stage: Arc::clone(stage),
        time: limits.time,
        grace: limits.grace / 2,
    };
    let (hearing, granting) = (Arc::clone(&heard), Arc::clone(&heard));
    let grants = settings.grants().to_vec();
    let conversation = Client
        .v1()
        .name("folio")
        .on_receive_notification(
            async move |notification: SessionNotification, _connection| {
                let mut heard = hearing.lock();
                if heard.is_of(&notification.session_id) {
                    apply_update(&mut heard, notification.update);
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _connection| {
                responder.respond(RequestPermissionResponse::new(permission(
                    &mut granting.lock(),
                    &grants,
                    &request,
                )))
            },
            on_receive_request!(),
        )
        .connect_with(Lines::new(outgoing, incoming), async move |connection| {
            ask(connection, asking).await
        });
    let ended = tokio::select! {
        biased;
        ended = conversation => ended,
        // A child process may keep its pipes open without ever answering.
        () = talking.wait_until_ended() => {
            heard.lock().has_delivery_failed = true;
            Err(agent_client_protocol::Error::internal_error())
        }
    };
    talking.end(limits.grace / 4).await;
    let mut heard = std::mem::take(&mut *heard.lock());
    let stage = *stage.lock();
    let gone = EndedProgram {
        exit_code: talking.exit_code(),
        stray: heard.stray.take(),
        last_error: talking.last_error(),
    };
    if heard.has_too_much_output {
        let kind = match stage {
            Stage::Beginning => ModelErrorKind::Invalid,
            Stage::Working => ModelErrorKind::Unknown,
        };
        let message = format!("it said more than {longest} bytes (`output_bytes`) and was ended");
        return Err((kind, message).into());
    }
    let usage = heard.cost_only_usage();
    let said = said_at_the_end(&heard);
    let failed = match ended {
        Ok(ConversationEnd::Answered(response)) => return read_prompt_response(response, heard),
        Ok(ConversationEnd::Stopped(why)) => {
            let (kind, message) = stop_failure(&why, &heard);
            return Err(FailedPrompt {
                failed: (kind, format!("{message}{said}")),
                usage,
            });
        }
        Ok(ConversationEnd::Ended(Ended::Cancelled, _)) => (ModelErrorKind::Unknown, "it was stopped".to_owned()),
        Ok(ConversationEnd::Ended(_, stage)) => {
            let seconds = match stage {
                Stage::Beginning => SESSION_TIMEOUT.min(limits.time).as_secs(),
                Stage::Working => limits.time.as_secs(),
            };
            failed::too_slow(stage, seconds, &gone)
        }
        Ok(ConversationEnd::Failed(error)) | Err(error) if error.code == ErrorCode::AUTH_REQUIRED => {
            failed::nobody_is_logged_in(&error)
        }
        Ok(ConversationEnd::Failed(error)) => {
            let (kind, message) = failed::failed(&error);
            let refused = heard.permissions.not_granted();
            return Err(FailedPrompt {
                failed: (kind, format!("{message}{refused}{said}")),
                usage,
            });
        }
        Err(error) => failed::conversation_failure(stage, &error, is_lost(&error, &heard), &gone),
    };
    let (kind, message) = failed;
    let refused = heard.permissions.not_granted();
    Err((kind, format!("{message}{refused}{said}")).into())
}

/// The note with the end of what it said before it ended without an answer; empty if it said nothing (E9.4).
fn said_at_the_end(heard: &SessionState) -> String {
    match heard.text.trim() {
        "" => String::new(),
        text => format!("\nit said:\n{}", super::end_of(text, super::PRINTED_CHARS)),
    }
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

/// A line of the program's output.
struct OutputLine {
    /// Its text; U+FFFD stands for what is not UTF-8.
    text: String,
    /// Its length, with its end.
    bytes: usize,
}

impl OutputLine {
    fn of(line: &[u8]) -> Self {
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        Self {
            text: String::from_utf8_lossy(text).into_owned(),
            bytes: line.len() + 1,
        }
    }
}

/// Whether a line is a message, as far as that can be seen without parsing it.
fn is_message(line: &str) -> bool {
    let markers = [r#""method""#, r#""result""#, r#""error""#];
    line.trim_start().starts_with('{')
        && line.contains(r#""jsonrpc""#)
        && markers.into_iter().any(|marker| line.contains(marker))
}

/// Changes the line so that the library can read it: it silently drops what it cannot.
fn repaired_line(line: String) -> String {
    let line = match readable(line.as_bytes()) {
        Cow::Borrowed(_) => line,
        // The replacement of half a surrogate pair is valid text as well.
        Cow::Owned(mended) => String::from_utf8(mended).unwrap_or(line),
    };
    if line.contains(PERMISSION_METHOD) {
        with_known_options(&line).unwrap_or(line)
    } else {
        line
    }
}

/// A permission request without its unknown options, if it has some: the library rejects the whole request otherwise.
fn with_known_options(line: &str) -> Option<String> {
    let mut message: Value = serde_json::from_str(line).ok()?;
    let options = message.pointer_mut("/params/options")?.as_array_mut()?;
    let all = options.len();
    options.retain(|option| PermissionOption::deserialize(option).is_ok());
    (options.len() < all).then(|| message.to_string())
}

/// Whether the output is still within the limit after `line`.
fn is_within(heard: &mut SessionState, line: &Result<OutputLine, AnyDelimiterCodecError>, bytes_max: usize) -> bool {
    match line {
        Ok(line) => {
            heard.bytes += line.bytes;
            let text = line.text.trim();
            if !text.is_empty() && !is_message(text) {
                heard.stray = Some(cut(text, LINE_CHARS));
            }
        }
        Err(AnyDelimiterCodecError::MaxChunkLengthExceeded) => heard.bytes = usize::MAX,
        Err(AnyDelimiterCodecError::Io(_)) => {}
    }
    heard.has_too_much_output = heard.bytes > bytes_max;
    !heard.has_too_much_output
}

fn apply_update(heard: &mut SessionState, update: SessionUpdate) {
    match update {
        SessionUpdate::AgentMessageChunk(chunk) => {
            if let ContentBlock::Text(piece) = chunk.content {
                heard.text.push_str(&piece.text);
            }
        }
        // What it said before a prompt does not answer that prompt.
        SessionUpdate::UserMessageChunk(_) => {
            heard.has_earlier_prompt = true;
            heard.text.clear();
        }
        // What it said before it used a tool is not its answer.
        SessionUpdate::ToolCall(call) => {
            heard.text.clear();
            // Programs that do not report the kind send this one.
            let kind = Some(call.kind).filter(|kind| *kind != ToolKind::Other);
            record_tool_kind(heard, call.tool_call_id.to_string(), kind);
        }
        SessionUpdate::ToolCallUpdate(update) => {
            record_tool_kind(heard, update.tool_call_id.to_string(), update.fields.kind);
        }
        SessionUpdate::UsageUpdate(usage) => {
            let cost = usage.cost.filter(|cost| cost.currency == "USD");
            heard.micro_usd = cost.and_then(|cost| micro_usd_of(cost.amount)).or(heard.micro_usd);
        }
        _ => {}
    }
}

/// Records the reported kind of the tool call `id`.
fn record_tool_kind(heard: &mut SessionState, id: String, kind: Option<ToolKind>) {
    if let Some(kind) = kind.map(AgentGrant::of) {
        let kinds = heard.kinds.entry(id).or_default();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
}

/// Approves a request once if its kind was granted, and rejects it otherwise; it never approves later requests. Kinds
/// reported before for the same call count, too: if there are several, all of them have to be granted.
fn permission(
    heard: &mut SessionState,
    grants: &[AgentGrant],
    request: &RequestPermissionRequest,
) -> RequestPermissionOutcome {
    if !heard.is_of(&request.session_id) {
        // We did not ask for what is done there.
        return RequestPermissionOutcome::Cancelled;
    }
    let fields = &request.tool_call.fields;
    let id = request.tool_call.tool_call_id.to_string();
    record_tool_kind(heard, id.clone(), fields.kind);
    let is_granted = match heard.kinds.get(&id) {
        Some(kinds) => kinds.iter().all(|kind| grants.contains(kind)),
        None => grants.contains(&AgentGrant::Other),
    };
    let option_kind = if is_granted {
        PermissionOptionKind::AllowOnce
    } else {
        PermissionOptionKind::RejectOnce
    };
    let kinds = heard.kinds.get(&id).map_or(&[][..], Vec::as_slice);
    heard.permissions.note(kinds, fields.title.as_deref(), is_granted);
    let option = request.options.iter().find(|option| option.kind == option_kind);
    match option {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone())),
        None => RequestPermissionOutcome::Cancelled,
    }
}

/// The failure of a program that stopped, with its own reason.
fn stop_failure(reason: &str, heard: &SessionState) -> Failed {
    let reason: String = reason.escape_debug().take(PROBLEM_CHARS).collect();
    (
        ModelErrorKind::Failed,
        format!("it stopped: {reason}{}", heard.permissions.not_granted()),
    )
}

fn read_prompt_response(response: PromptResponse, heard: SessionState) -> Result<AgentAnswer, FailedPrompt> {
    let usage = response.usage.map(|usage| {
        let (cached, written) = (
            usage.cached_read_tokens.unwrap_or(0),
            usage.cached_write_tokens.unwrap_or(0),
        );
        let reasoning_tokens = usage.thought_tokens.unwrap_or(0);
        Usage {
            tokens_in: usage.input_tokens.saturating_add(cached).saturating_add(written),
            tokens_cached: cached,
            tokens_cache_written: written,
            tokens_out: usage.output_tokens.saturating_add(reasoning_tokens),
            tokens_reasoning: reasoning_tokens,
            micro_usd: heard.micro_usd,
        }
    });
    let usage = usage.and_then(Usage::if_plausible).or_else(|| heard.cost_only_usage());
    let stop = match response.stop_reason {
        StopReason::EndTurn => StopCause::Done,
        StopReason::MaxTokens => StopCause::Length,
        StopReason::Refusal => StopCause::Refusal,
        reason => {
            let why = serde_json::to_value(reason).ok();
            let why = why
                .as_ref()
                .and_then(|why| why.as_str())
                .unwrap_or("it did not say why");
            let failed = stop_failure(why, &heard);
            return Err(FailedPrompt { failed, usage });
        }
    };
    if heard.text.trim().is_empty() && stop != StopCause::Refusal {
        let refused = heard.permissions.not_granted();
        let failed = (ModelErrorKind::Failed, format!("it said nothing{refused}"));
        return Err(FailedPrompt { failed, usage });
    }
    Ok(AgentAnswer {
        text: heard.text,
        stop,
        usage,
        permissions: heard.permissions.lines(),
    })
}

/// The failure of a program that could not be started; if it never started, it had no effect.
pub(super) fn not_started(error: &ProcessError) -> Failed {
    match error {
        ProcessError::NotStarted { .. } => {
            let message = format!("it was not started: {error}; put `command` right");
            (ModelErrorKind::Invalid, message)
        }
        _ => (ModelErrorKind::Unknown, error.to_string()),
    }
}
