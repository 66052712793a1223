//! The six tools of the scratchbook (seed 003 A4).

use folio::memory::scratchbook::tools::{ANSWER_TOKENS, definitions};
use folio::store::workspace::ScratchCaller;
use rmcp::model::Tool;

use super::{Call, Does, tool, with_thread};
use crate::http::problem::Problem;
use crate::mcp::McpOptions;
use crate::mcp::answer::Answer;

/// The tools, as they are defined for every surface.
pub(super) fn tools(options: &McpOptions) -> Vec<Tool> {
    let of = |definition: folio::memory::scratchbook::tools::Definition| {
        let does = match definition.name {
            _ if definition.only_reads => Does::Read,
            "scratch_add" => Does::Add,
            _ => Does::Settle,
        };
        let schema = with_thread(definition.schema, options);
        tool(definition.name, definition.description, schema, does)
    };
    definitions().into_iter().map(of).collect()
}

/// Calls one of them.
pub(super) async fn call(call: Call<'_>) -> Result<Answer, Problem> {
    let caller = ScratchCaller {
        actor: &call.caller.actor,
        thread: &call.caller.thread,
        tokens: &call.caller.tokens,
        idempotency_key: call.idempotency_key,
    };
    let asked = call.arguments.get("budget").and_then(serde_json::Value::as_u64);
    let workspace = &call.caller.workspace;
    let answer = workspace.call_scratch_tool(&caller, call.name, &call.arguments).await?;
    let limit = asked.and_then(|budget| u32::try_from(budget).ok());
    Ok(Answer {
        limit: limit.unwrap_or_default().max(ANSWER_TOKENS),
        ..Answer::from(answer)
    })
}
