//! A tool that is one function.

use std::fmt;

use async_trait::async_trait;

use crate::context::ToolContext;
use crate::response::{ToolError, ToolResponse};
use crate::tool::{Tool, ToolRequest, ToolSpec};

/// The tool that [`Registry::register_fn`](crate::Registry::register_fn) makes of a function.
pub(crate) struct FunctionTool<F> {
    pub(crate) spec: ToolSpec,
    pub(crate) function: F,
}

impl<F> fmt::Debug for FunctionTool<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool")
            .field("name", &self.spec.name)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<F, Answered> Tool for FunctionTool<F>
where
    F: Fn(ToolRequest, ToolContext) -> Answered + Send + Sync,
    Answered: Future<Output = Result<ToolResponse, ToolError>> + Send,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        let result = (self.function)(request.clone(), context.clone()).await;
        result.unwrap_or_else(|error| ToolResponse::failed(request, error))
    }
}
