//! A client and a server with a pipe between them, in one process.

use folio::runner::{Runner, RunnerOptions};
use folio::tools::Registry;
use folio::{Actor, Folio, Role, SpaceName, ThreadKey, Workspace};
use folio_server::{Mcp, McpError, McpOptions};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation, ProtocolVersion,
    RequestMetaObject,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService};
use rmcp::{ClientHandler, ServiceError};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// The generation of the protocol that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// With `initialize` and a session: 2025-11-25.
    Sessions,
    /// With everything in each request: 2026-07-28.
    Requests,
}

impl Era {
    pub(crate) const BOTH: [Self; 2] = [Self::Sessions, Self::Requests];

    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Sessions => ClientLifecycleMode::Initialize,
            Self::Requests => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        }
    }
}

/// A client that identifies itself, and does nothing else.
#[derive(Debug, Clone)]
pub(crate) struct Plain;

impl ClientHandler for Plain {
    fn get_info(&self) -> ClientConfig {
        let info = Implementation::new("test client/1", "1.0.0");
        let mut config = ClientConfig::new(ClientCapabilities::default(), info);
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        config
    }
}

pub(crate) struct Pair<H: ClientHandler = Plain> {
    pub(crate) client: RunningService<RoleClient, H>,
    pub(crate) workspace: Workspace,
    served: JoinHandle<Result<(), McpError>>,
}

/// A space of its own, in memory.
pub(crate) async fn runner() -> Runner {
    let folio = Folio::open("memory:").await.unwrap();
    let workspace = folio.workspace(SpaceName::main());
    Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default())
}

pub(crate) async fn switch_scratchbooks_off(runner: &Runner) {
    let policy = serde_json::from_value(json!({"scratchbook": {"enabled": false}})).unwrap();
    let person = Actor::new(Role::Human, "ada");
    let set = runner.workspace().set_policy(&person, policy, None, None);
    set.await.unwrap();
}

pub(crate) fn options() -> McpOptions {
    McpOptions::of(ThreadKey::main())
}

impl Pair {
    pub(crate) async fn new(era: Era, options: McpOptions) -> Self {
        Self::of(era, options, &runner().await, Plain).await
    }
}

impl<H: ClientHandler> Pair<H> {
    /// Opens a conversation of `handler` with a server on the space of `runner`.
    pub(crate) async fn of(era: Era, options: McpOptions, runner: &Runner, handler: H) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(theirs);
        let server = Mcp::new(runner.clone(), options);
        let served = tokio::spawn(server.converse(read, write, std::future::pending()));
        let client = handler.serve_with_lifecycle(ours, era.lifecycle()).await.unwrap();
        Self {
            client,
            workspace: runner.workspace().clone(),
            served,
        }
    }

    /// Calls a tool.
    pub(crate) async fn try_call(&self, name: &str, arguments: Value) -> Result<CallToolResult, ServiceError> {
        let arguments = arguments.as_object().unwrap().clone();
        let request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        self.client.call_tool(request).await
    }

    /// Calls a tool under an idempotency key.
    pub(crate) async fn try_call_under(
        &self,
        key: &str,
        name: &str,
        arguments: Value,
    ) -> Result<CallToolResult, ServiceError> {
        let arguments = arguments.as_object().unwrap().clone();
        let mut request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let mut meta = RequestMetaObject::new();
        meta.insert("folio/idempotencyKey".to_owned(), json!(key));
        request.meta = Some(meta);
        self.client.call_tool(request).await
    }

    /// Calls a tool under an idempotency key, and returns its text and its structured content.
    pub(crate) async fn call_under(&self, key: &str, name: &str, arguments: Value) -> (String, Value) {
        let result = self.try_call_under(key, name, arguments).await.unwrap();
        assert_eq!(result.is_error, Some(false), "{result:?}");
        (text(&result), result.structured_content.unwrap_or_default())
    }

    /// Calls a tool, and returns its text and its structured content.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> (String, Value) {
        let result = self.try_call(name, arguments).await.unwrap();
        assert_eq!(result.is_error, Some(false), "{result:?}");
        (text(&result), result.structured_content.unwrap_or_default())
    }

    /// Calls a tool that refuses, and returns the message and the code.
    pub(crate) async fn refused(&self, name: &str, arguments: Value) -> (String, String) {
        let result = self.try_call(name, arguments).await.unwrap();
        assert_eq!(result.is_error, Some(true), "{result:?}");
        let problem = result.structured_content.as_ref().unwrap();
        (text(&result), problem["code"].as_str().unwrap().to_owned())
    }

    /// Ends the conversation from the client's side.
    pub(crate) async fn end(self) {
        self.client.cancel().await.unwrap();
        self.served.await.unwrap().unwrap();
    }
}

pub(crate) fn text(result: &CallToolResult) -> String {
    result.content[0].as_text().unwrap().text.clone()
}
