//! One connection to a server: by the pipes of a program, or by HTTP.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use folio_memory::causes::innermost;
use folio_process::{DRAIN, Program, Talking, printed};
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientConfig, ClientRequest, CustomResult, ErrorData, Implementation,
    ListRootsRequestMethod, ListToolsRequest, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerResult,
};
use rmcp::service::{
    ClientLifecycleMode, NotificationContext, PeerRequestOptions, RequestContext, RequestHandle, RunningService,
    serve_client_with_lifecycle,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::auth::AuthClient;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{ClientHandler, RoleClient, ServiceError};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OnceCell};

use crate::bounded::Bounded;
use crate::incoming::{Incoming, Stray};
use crate::listed::{Definition, List};
use crate::login;
use crate::paced::{Paced, Room};
use crate::servers::ToStart;
use crate::words::{self, OpenFailure};

/// The most pages of a list of tools that are requested.
const PAGES_MAX: usize = 64;
/// How long a program has to end after its input was closed, and again after it was asked to end.
const END_GRACE: Duration = Duration::from_secs(2);
/// How long a program that closed its output has to end: its exit code and last words say why.
const EXIT_GRACE: Duration = Duration::from_millis(200);
/// How often to check whether a program that somebody waits for is still there. The system reports the end to one
/// waiter only, and there may be many.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The time limit for connecting to a server by HTTP.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers requests of a server: there is nothing that it may ask for.
#[derive(Debug, Clone, Default)]
struct Client {
    /// How often the server has said that its tools changed.
    changes: Arc<AtomicU64>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("folio", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(Default::default(), own)
    }

    #[expect(
        deprecated,
        reason = "servers may ask for it as long as the library answers that there are none"
    )]
    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

/// The tools of a server as they were last listed.
#[derive(Debug)]
struct ListedTools {
    /// By the server's names for them.
    tools: BTreeMap<String, Definition>,
    /// How often the server had said that they changed when they were requested.
    changes: u64,
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    service: RunningService<RoleClient, Client>,
    /// The program, if the server is one, until its end was examined. Dropping it kills the program.
    program: parking_lot::Mutex<Option<Talking>>,
    is_program: bool,
    /// How the program ended.
    end: OnceCell<String>,
    /// What it printed that is not a message.
    stray: Stray,
    /// The room for answers to its requests.
    room: Room,
    listed_tools: Mutex<ListedTools>,
    /// Whether no new requests are sent over it.
    is_given_up: AtomicBool,
    /// Whether the server no longer knows its session.
    is_forgotten: AtomicBool,
}

impl Connection {
    /// Connects, within the time in which `server` has to be ready, and returns what the server lists.
    ///
    /// # Errors
    ///
    /// Why there is no connection, in words.
    pub(crate) async fn open(server: &ToStart) -> Result<(Self, List), String> {
        if let Some(reason) = &server.unusable {
            return Err(reason.clone());
        }
        let time = server.settings.start_time();
        let (mut program, stray, room) = (None, Stray::default(), Room::default());
        let opened = tokio::time::timeout(time, Self::open_in(server, &mut program, &stray, &room)).await;
        let problem = match opened {
            Ok(Ok((service, listed))) => {
                let connection = Self {
                    service,
                    program: parking_lot::Mutex::new(program),
                    is_program: server.settings.url.is_none(),
                    end: OnceCell::new(),
                    stray,
                    room,
                    // Changes that were announced during the listing lead to another one.
                    listed_tools: Mutex::new(ListedTools {
                        tools: listed.definitions(),
                        changes: 0,
                    }),
                    is_given_up: AtomicBool::new(false),
                    is_forgotten: AtomicBool::new(false),
                };
                return Ok((connection, listed));
            }
            Ok(Err(problem)) => problem,
            Err(_) => OpenFailure::because(format!("it was not ready after {} s (`start_s`)", time.as_secs())),
        };
        let Some(mut program) = program else {
            return Err(problem.why);
        };
        program
            .end(if problem.has_ended { EXIT_GRACE } else { Duration::ZERO })
            .await;
        let last_output = exit_message(&mut program, problem.has_ended, &stray);
        Err(format!("{}{last_output}", problem.why))
    }

    async fn open_in(
        server: &ToStart,
        program: &mut Option<Talking>,
        stray: &Stray,
        room: &Room,
    ) -> Result<(RunningService<RoleClient, Client>, List), OpenFailure> {
        let client = Client::default();
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let service = if let Some(url) = &server.settings.url {
            let (http, config) = http_transport(server, url).map_err(OpenFailure::because)?;
            if server.login.is_some() {
                let http = AuthClient::new(http, login::logged_in(server).await.map_err(OpenFailure::because)?);
                let transport = StreamableHttpClientTransport::with_client(http, config);
                serve_client_with_lifecycle(client, transport, lifecycle).await
            } else {
                let transport = StreamableHttpClientTransport::with_client(http, config);
                serve_client_with_lifecycle(client, transport, lifecycle).await
            }
        } else {
            let (talking, stdin, stdout) =
                folio_process::spawn(&program_of(server)).map_err(|error| OpenFailure::because(error.to_string()))?;
            *program = Some(talking);
            let longest = server.settings.answer_bytes();
            let incoming = Incoming::new(stdout, longest, stray.clone());
            let transport = AsyncRwTransport::new_client(incoming, stdin).with_max_line_length(longest);
            serve_client_with_lifecycle(client, Paced::new(transport, room.clone()), lifecycle).await
        };
        let service = service.map_err(|error| words::begin_failure(&error, server))?;
        let listed = list(&service)
            .await
            .map_err(|error| words::list_failure(&error, server))?;
        Ok((service, listed))
    }

    /// Returns whether new requests can be sent over it.
    pub(crate) fn is_open(&self) -> bool {
        let is_gone = self.is_given_up.load(Ordering::Acquire) || self.has_program_ended();
        // A program that does not read our answers would not read requests, either.
        let is_deaf = self.room.is_full();
        !is_gone && !is_deaf && !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }

    /// Returns whether its program is gone. What the program left behind may hold the pipes open, and answers nothing.
    fn has_program_ended(&self) -> bool {
        let mut program = self.program.lock();
        match program.as_mut() {
            Some(program) => program.has_ended(),
            // It was taken to be examined, which is done when it has ended.
            None => self.is_program,
        }
    }

    /// Waits until its program is gone and its last output was read; forever, if the server is not a program.
    async fn program_gone(&self) {
        if !self.is_program {
            return pending().await;
        }
        while !self.has_program_ended() {
            tokio::time::sleep(EXIT_POLL_INTERVAL).await;
        }
        tokio::time::sleep(DRAIN).await;
    }

    /// Returns how the connection ended, as an addition to the message that it did: the exit code and the last words of
    /// a program.
    pub(crate) async fn end_message(&self) -> String {
        let ending = self.end.get_or_init(|| async {
            self.give_up();
            let program = self.program.lock().take();
            let Some(mut program) = program else {
                return String::new();
            };
            program.end(EXIT_GRACE).await;
            exit_message(&mut program, true, &self.stray)
        });
        ending.await.clone()
    }

    /// Stops new requests over this connection. Those under way may still be answered.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    /// Returns whether the server no longer knows its session, so that the connection is given up.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Acquire)
    }

    /// Records that the server no longer knows its session, if `error` says so.
    fn note_lost_session(&self, error: &ServiceError) {
        if let ServiceError::TransportSend(error) = error
            && let Some(StreamableHttpError::<reqwest::Error>::SessionExpired) = error.error.downcast_ref()
        {
            self.is_forgotten.store(true, Ordering::Release);
            self.give_up();
        }
    }

    /// Returns how the server defines the tool now, as far as it has announced; `None` if it has no tool of that name.
    pub(crate) async fn definition(&self, tool: &str) -> Result<Option<Definition>, ServiceError> {
        let mut known = self.listed_tools.lock().await;
        let changes = self.service.service().changes.load(Ordering::Acquire);
        if known.changes != changes {
            let listed = tokio::select! {
                biased;
                listed = list(&self.service) => listed.inspect_err(|error| self.note_lost_session(error))?,
                () = self.program_gone() => return Err(ServiceError::TransportClosed),
            };
            // Only updated now: if this call is dropped or fails before, the next one lists the tools.
            *known = ListedTools {
                tools: listed.definitions(),
                changes,
            };
        }
        Ok(known.tools.get(tool).cloned())
    }

    /// Returns what it printed in the place of messages, and whether it has stopped reading, as an addition to an error
    /// message.
    pub(crate) fn stray(&self) -> String {
        let deaf = match self.room.is_full() {
            true => "; it sends requests and does not read the answers",
            false => "",
        };
        format!("{deaf}{}", self.stray.in_words())
    }

    /// Makes one call. Dropping the future tells the server that nobody waits for the answer any more. The library's
    /// own method accepts only answers of which it can read every part.
    pub(crate) async fn call(&self, params: CallToolRequestParams) -> Result<ServerResult, ServiceError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let sent = self.service.peer().send_request_with_option(request, options).await;
        let mut in_flight = PendingCall(Some(sent.inspect_err(|error| self.note_lost_session(error))?));
        tokio::select! {
            biased;
            answered = in_flight.answer() => answered.inspect_err(|error| self.note_lost_session(error)),
            () = self.program_gone() => Err(ServiceError::TransportClosed),
        }
    }

    /// Closes the connection. A program has a grace period in which to end by itself.
    pub(crate) async fn close(mut self) {
        // Closes the input of a program, or the session of a server that has one.
        let _closed = self.service.close_with_timeout(END_GRACE).await;
        let program = self.program.get_mut().take();
        if let Some(mut program) = program {
            program.end(END_GRACE).await;
        }
    }
}

/// A call that was sent to a server, until it is answered. Dropping it cancels the call.
struct PendingCall(Option<RequestHandle<RoleClient>>);

impl PendingCall {
    async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        let answered = match &mut self.0 {
            Some(in_flight) => (&mut in_flight.rx).await,
            None => return pending().await,
        };
        self.0 = None;
        answered.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if let (Some(in_flight), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            let reason = "nobody waits for it any more".to_owned();
            drop(runtime.spawn(async { in_flight.cancel(Some(reason)).await.unwrap_or_default() }));
        }
    }
}

/// Returns the exit code of a program, if it has ended, and its last words.
fn exit_message(program: &mut Talking, has_ended: bool, stray: &Stray) -> String {
    let code = program.exit_code().filter(|_| has_ended);
    let code = code.map_or_else(String::new, |code| format!(" (exit code {code})"));
    let last_error = printed(None, program.last_error().as_deref());
    format!("{code}{}{last_error}", stray.in_words())
}

/// Lists all tools of a server, page by page, up to the limits.
async fn list(service: &RunningService<RoleClient, Client>) -> Result<List, ServiceError> {
    let (mut list, mut cursor, mut cursors) = (List::default(), None, BTreeSet::new());
    loop {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let Some(next) = add_page(&mut list, page(service, params).await?)? else {
            return Ok(list);
        };
        let reason = if !cursors.insert(next.clone()) {
            "its list of tools leads back to a page that was read (`nextCursor`), and is read no further".to_owned()
        } else if cursors.len() == PAGES_MAX {
            format!("its list of tools has more than {PAGES_MAX} pages, and is read no further")
        } else if list.is_full() {
            list.leave_out_more();
            return Ok(list);
        } else {
            cursor = Some(next);
            continue;
        };
        list.leave_out(reason);
        return Ok(list);
    }
}

/// Returns one page of tools, as the server answers it. The library's own method accepts only pages of which it can
/// read every tool.
async fn page(
    service: &RunningService<RoleClient, Client>,
    params: PaginatedRequestParams,
) -> Result<ServerResult, ServiceError> {
    let request = ListToolsRequest {
        params: Some(params),
        ..ListToolsRequest::default()
    };
    service
        .peer()
        .send_request(ClientRequest::ListToolsRequest(request))
        .await
}

/// Adds the tools of a page to `list`, and returns the cursor of the next page. A tool that cannot be read is left out;
/// the others are kept.
fn add_page(list: &mut List, page: ServerResult) -> Result<Option<String>, ServiceError> {
    match page {
        ServerResult::ListToolsResult(ListToolsResult { tools, next_cursor, .. }) => {
            tools.into_iter().for_each(|tool| list.add(tool));
            Ok(next_cursor)
        }
        ServerResult::CustomResult(CustomResult(mut page)) => {
            let Some(Value::Array(tools)) = page.get_mut("tools").map(Value::take) else {
                return Err(ServiceError::UnexpectedResponse);
            };
            tools.into_iter().for_each(|tool| list.read(tool));
            Ok(page.get("nextCursor").and_then(Value::as_str).map(str::to_owned))
        }
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

fn program_of(server: &ToStart) -> Program {
    let (name, args) = server
        .settings
        .command
        .split_first()
        .map_or((String::new(), Vec::new()), |(name, args)| {
            (name.clone(), args.iter().map(Into::into).collect())
        });
    Program {
        name,
        args,
        folder: server.folder.clone(),
        environment: server
            .environment
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    }
}

/// Chooses the cryptography provider of TLS, unless a program that embeds Folio has chosen one already.
pub(crate) fn ready_for_tls() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _taken_meanwhile = rustls::crypto::ring::default_provider().install_default();
    }
}

fn http_transport(server: &ToStart, url: &str) -> Result<(Bounded, StreamableHttpClientTransportConfig), String> {
    ready_for_tls();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("folio/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        // A token must not be sent to where a redirect points.
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy();
    if url.starts_with("http://") {
        // Plain HTTP needs no certificates, and a small machine may have none.
        builder = builder.tls_certs_only(std::iter::empty());
    }
    let client = builder
        .build()
        .map_err(|error| format!("there can be no connection: {}", innermost(&error)))?;
    let mut headers = HashMap::new();
    for (name, secret) in &server.headers {
        let name = HeaderName::try_from(name).map_err(|_| format!("{name:?} is not a valid header name"))?;
        let mut value = HeaderValue::try_from(secret.reveal())
            .map_err(|_| format!("the value of the header {name} cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers)
        // A new session gets a new connection: its tools are listed and compared before they are called.
        .reinit_on_expired_session(false)
        .max_sse_event_size(server.settings.answer_bytes());
    if let Some(token) = &server.token {
        config = config.auth_header(token.reveal());
    }
    Ok((Bounded(client), config))
}
