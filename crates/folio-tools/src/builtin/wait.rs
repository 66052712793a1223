//! `wait`: waits.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use crate::arguments::parse;
use crate::context::ToolContext;
use crate::response::{ToolError, ToolResponse};
use crate::tool::{ArgKind, Effect, Need, Tool, ToolRequest, ToolSpec};

/// The longest wait, in milliseconds.
const LONGEST_MS: u64 = 60_000;

/// Waits for a given time.
#[derive(Debug)]
pub(super) struct Wait {
    spec: ToolSpec,
}

impl Default for Wait {
    fn default() -> Self {
        Self {
            spec: ToolSpec::new("wait", Effect::Read, "Waits, for at most a minute.")
                .returns("Returns `waited_ms`.")
                .needed(Need::Seldom)
                .gives(&[("waited_ms", "integer")])
                .required("ms", ArgKind::UpTo(LONGEST_MS), "Milliseconds, up to 60000."),
        }
    }
}

#[derive(Deserialize)]
struct Args {
    ms: u64,
}

#[async_trait]
impl Tool for Wait {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        let args: Args = match parse(request) {
            Ok(args) => args,
            Err(error) => return ToolResponse::failed(request, error),
        };
        let duration = Duration::from_millis(args.ms);
        let longest = context.limits.wait_max;
        if duration > longest {
            let error = ToolError::invalid(format!(
                "wait: {} ms are more than the limit of {}",
                args.ms,
                longest.as_millis()
            ));
            return ToolResponse::failed(request, error);
        }
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => {
                ToolResponse::failed(request, ToolError::cancelled())
            }
            () = tokio::time::sleep(duration) => ToolResponse::ok(
                request,
                json!({"waited_ms": args.ms}),
                format!("waited {} ms", args.ms),
            ),
        }
    }
}
