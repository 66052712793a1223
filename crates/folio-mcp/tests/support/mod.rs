//! A server that adds two numbers, built with the official library, and a client of it.

use std::sync::{Arc, Mutex};

use folio_tools::{Registry, Roots, RunFolder, ToolContext, ToolRequest, ToolResponse};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

#[derive(Clone)]
struct Adder {
    /// The server's description of its first number.
    first: Arc<Mutex<&'static str>>,
}

impl ServerHandler for Adder {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let number = json!({"type": "number"});
        let first = json!({"type": "number", "description": *self.first.lock().unwrap()});
        let schema = json!({"type": "object", "properties": {"a": first, "b": number}, "required": ["a", "b"]});
        let Value::Object(schema) = schema else {
            return Ok(ListToolsResult::default());
        };
        Ok(ListToolsResult::with_all_items(vec![Tool::new(
            "add",
            "Adds two numbers.",
            schema,
        )]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = request.arguments.unwrap_or_default();
        let sum = args["a"].as_f64().unwrap_or_default() + args["b"].as_f64().unwrap_or_default();
        let times = args.get("times").and_then(Value::as_u64).unwrap_or(1);
        let text = (0..times).map(|_| sum.to_string()).collect::<String>();
        Ok(CallToolResponse::Complete(CallToolResult::success(vec![
            ContentBlock::text(text),
        ])))
    }
}

/// The server, at `/mcp`. With sessions it answers in events, otherwise in plain JSON.
pub(crate) fn adder(is_legacy: bool) -> axum::Router {
    adder_of(Arc::new(Mutex::new("one of the numbers")), is_legacy)
}

/// The same, with `first` as the description of its first number.
pub(crate) fn adder_of(first: Arc<Mutex<&'static str>>, is_legacy: bool) -> axum::Router {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(is_legacy)
        .with_json_response(!is_legacy);
    let service = StreamableHttpService::new(
        move || {
            Ok(Adder {
                first: Arc::clone(&first),
            })
        },
        Arc::new(LocalSessionManager::default()),
        config,
    );
    axum::Router::new().route_service("/mcp", service)
}

pub(crate) async fn add(registry: &Registry, args: Value) -> ToolResponse {
    let request = ToolRequest {
        request_id: "r".to_owned(),
        tool: "adder.add".to_owned(),
        args,
        run_id: String::new(),
        node_id: String::new(),
        attempt: 1,
        scratch_page_context: Vec::new(),
    };
    let context = ToolContext::new(Roots::new(Vec::new()).unwrap(), RunFolder::none());
    registry.call(&request, &context).await
}
