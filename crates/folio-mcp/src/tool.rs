//! One tool of a server, as a tool of a run.

use std::sync::Arc;

use async_trait::async_trait;
use folio_tools::{Approval, FailureKind, Tool, ToolContext, ToolError, ToolRequest, ToolResponse, ToolSpec};

use crate::answer;
use crate::listed::Offered;
use crate::server::Server;

/// A tool of a server.
#[derive(Debug)]
pub(crate) struct McpTool {
    server: Arc<Server>,
    offered: Offered,
}

impl McpTool {
    pub(crate) fn new(server: Arc<Server>, offered: Offered) -> Self {
        Self { server, offered }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.offered.spec
    }

    /// Its refusal also names the setting of the server that would allow the call.
    fn enforces_approval(&self) -> bool {
        true
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        let spec = self.spec();
        if spec.approval == Approval::UnlessAllowed && !context.allowed {
            let message = format!("{} was not called: this run does not allow it", spec.name);
            let (server, tool) = (&self.server.start.name, &self.offered.name);
            let error = ToolError::new(FailureKind::Denied, "mcp_tool_not_allowed", message)
                .hint(format!(
                    "start the run with --allow-tool {}, or where somebody can approve the call",
                    spec.name
                ))
                .hint(format!("or put {tool:?} into `allow` of [mcp.{server}]"));
            return ToolResponse::failed(request, error);
        }
        let (name, definition) = (&self.offered.name, &self.offered.definition);
        match self.server.call(name, definition, spec.effect, request, context).await {
            Ok(result) => answer::response(request, result),
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}
