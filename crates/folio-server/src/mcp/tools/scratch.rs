//! The six tools of the scratchbook (seed 003 A4).

use folio::memory::scratchbook::tools::{ANSWER_TOKENS, definitions};
use folio::store::workspace::ScratchCaller;
use rmcp::model::Tool;
use serde_json::Value;

use super::{Call, Does, list, tool, with_thread};
use crate::http::problem::Problem;
use crate::mcp::McpOptions;
use crate::mcp::answer::Answer;

/// How the workspace calls an item of another thread.
const OTHER_THREAD: &str = "another thread's scratchbook";
/// A safety margin: tokens by which an answer in a shorter part is shortened further.
const MARGIN_TOKENS: u32 = 60;

/// Returns the tools, as they are defined for every surface.
pub(super) fn tools(options: &McpOptions) -> Vec<Tool> {
    let tool_of = |definition: folio::memory::scratchbook::tools::Definition| {
        let effect = match definition.name {
            _ if definition.only_reads => Does::Read,
            "scratch_add" => Does::Add,
            _ => Does::Change,
        };
        // A handle names its entry in every thread. The argument is taken by the other tools, too, but not offered.
        let schema = match definition.name {
            "scratch_read" | "scratch_add" => with_thread(definition.schema, options),
            _ => definition.schema,
        };
        tool(definition.name, definition.description, schema, effect)
    };
    definitions().into_iter().map(tool_of).collect()
}

/// Carries out a call of one of them.
pub(super) async fn call(call: Call<'_>) -> Result<Answer, Problem> {
    let answer = answer_within(&call, &call.arguments, None).await;
    let answer = answer.map_err(|problem| match problem.detail().contains(OTHER_THREAD) {
        true if !call.mcp.shared.options.is_bound => problem.hint("name that thread with the argument `thread`"),
        _ => problem,
    })?;
    if call.name != "scratch_read" {
        return Ok(answer.without_echo(&call.caller.tokens));
    }
    let (excess, limit) = (answer.excess(&call.caller.tokens), answer.limit);
    if excess == 0
        || limit < ANSWER_TOKENS
        || answer
            .structured
            .get("next")
            .is_none_or(|_| answer.structured.get("items").is_some())
    {
        return Ok(answer);
    }
    // A text that is read in parts: this part is shortened, so that programs get it in its complete shape.
    let budget = limit.saturating_sub(excess.saturating_add(excess / 4).saturating_add(MARGIN_TOKENS));
    if budget < limit / 2 {
        return Ok(answer);
    }
    let mut arguments = call.arguments.clone();
    arguments["budget"] = budget.into();
    answer_within(&call, &arguments, Some(limit)).await
}

/// Returns the answer to the call with `arguments`, with each entry in the shape that programs get on every surface if
/// a budget has room for it. Without `limit`, it has as many tokens as the call allows.
async fn answer_within(call: &Call<'_>, arguments: &Value, limit: Option<u32>) -> Result<Answer, Problem> {
    let caller = ScratchCaller {
        actor: &call.caller.actor,
        thread: &call.caller.thread,
        tokens: &call.caller.tokens,
        idempotency_key: call.idempotency_key(),
    };
    let workspace = &call.caller.workspace;
    let result = workspace.call_scratch_tool(&caller, call.name, arguments).await?;
    let now = workspace.now();
    let entries = result.entries;
    let mut answer = Answer {
        text: result.text,
        structured: result.structured,
        limit: limit.unwrap_or(result.limit),
    };
    if let Some(Value::Array(brief)) = answer.structured.get("items") {
        if !entries.is_empty() {
            let brief = brief.clone();
            let full = entries.iter().map(|entry| list::shape(entry, now)).collect();
            answer.put_items(full, brief, &call.caller.tokens);
        }
    } else if let ([entry], Value::Object(fields)) = (entries.as_slice(), &answer.structured)
        // A later part of a text has no kind: it repeats nothing of the entry.
        && fields.contains_key("kind")
        && let Value::Object(mut full) = list::shape(entry, now)
    {
        let mut whole = answer.clone();
        full.extend(fields.clone());
        full.remove("brief");
        whole.structured = Value::Object(full);
        if answer.limit >= ANSWER_TOKENS || whole.excess(&call.caller.tokens) == 0 {
            return Ok(whole);
        }
    }
    Ok(answer)
}
