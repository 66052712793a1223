//! What a model can call: one file for each set of tools.

mod admin;
mod list;
mod memory;
mod observe;
mod plan;
pub(super) mod run;
mod scratch;

use std::sync::Arc;

use folio::memory::Invalid;
use folio::memory::query::MAX_LIMIT;
use rmcp::model::{InputResponses, Tool, ToolAnnotations};
use rmcp::service::{RequestContext, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::Reply;
use super::malformed::field_in;
use super::turn::Turn;
use super::{Caller, Mcp, McpOptions, ToolSet};
use crate::http::problem::Problem;

/// A call of a tool that is offered.
#[derive(Debug)]
pub(super) struct Call<'c> {
    pub(super) mcp: &'c Mcp,
    pub(super) context: &'c RequestContext<RoleServer>,
    /// Its turn among all requests.
    pub(super) turn: &'c Turn,
    pub(super) caller: Caller,
    pub(super) name: &'c str,
    /// An object, without the thread.
    pub(super) arguments: Value,
    pub(super) idempotency_key: Option<String>,
    /// What a person answered to the forms that an earlier answer was.
    pub(super) responses: InputResponses,
    /// What was sent with those forms.
    pub(super) state: Option<String>,
}

/// The tools that are offered, in the order in which a model is told of them.
pub(super) fn offered(options: &McpOptions) -> Vec<Tool> {
    let mut tools = scratch::tools(options);
    for set in ToolSet::ALL {
        if options.sets.contains(&set) {
            tools.extend(match set {
                ToolSet::Memory => memory::tools(options),
                ToolSet::Observe => observe::tools(),
                ToolSet::Plan => plan::tools(options),
                ToolSet::Run => run::tools(options),
                ToolSet::Admin => admin::tools(),
            });
        }
    }
    tools
}

/// Whether the tool `name` is one of the scratchbook, which the policy of a space may switch off.
pub(super) fn is_of_scratchbook(name: &str) -> bool {
    name.starts_with("scratch_")
}

/// Calls the tool.
pub(super) async fn call(call: Call<'_>) -> Result<Reply, Problem> {
    let answer = match call.name.split('_').next() {
        Some("memory") => memory::call(call).await,
        Some("observe") => observe::call(call).await,
        Some("plan") => plan::call(call).await,
        Some("run") => return run::call(call).await,
        Some("admin") => admin::call(call).await,
        _ => scratch::call(call).await,
    };
    answer.map(Reply::from)
}

/// What `arguments` say.
fn read<T: DeserializeOwned>(arguments: &Value) -> Result<T, Invalid> {
    T::deserialize(arguments).map_err(|error| {
        let named = arguments.as_object().and_then(field_in::<T>);
        let (field, error) = named.unwrap_or_else(|| ("arguments".to_owned(), error.to_string()));
        wrong(&field, error)
    })
}

/// An argument that cannot be used.
pub(super) fn wrong(field: &str, message: impl Into<String>) -> Invalid {
    Invalid::new("arguments_invalid", field, message)
}

/// How many of a list are asked for: `usual` if nothing is said, and `most` at a time. As everywhere, a list of none or of more than a
/// thousand is asked for by mistake (M7.2.11).
fn how_many(asked: Option<i64>, usual: u32, most: u32) -> Result<u32, Invalid> {
    let Some(asked) = asked else { return Ok(usual) };
    match u32::try_from(asked) {
        Ok(limit @ 1..=MAX_LIMIT) => Ok(limit.min(most)),
        _ => Err(wrong(
            "limit",
            format!("is {asked}, which is not a whole number from 1 to {MAX_LIMIT}"),
        )),
    }
}

/// What a tool does to memory, as hosts ask before they let it be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// It reads.
    Read,
    /// It adds, and adds again when it is called again.
    Add,
    /// It changes something, and changes nothing more when it is called again.
    Settle,
    /// It takes away what cannot be brought back.
    Erase,
}

/// A tool as hosts are told of it: none reaches beyond memory.
fn tool(name: &'static str, description: &'static str, schema: Value, does: Does) -> Tool {
    let Value::Object(schema) = schema else {
        return Tool::default();
    };
    let hints = ToolAnnotations::new();
    let hints = match does {
        Does::Read => hints.read_only(true),
        Does::Add => hints.destructive(false),
        Does::Settle => hints.destructive(false).idempotent(true),
        Does::Erase => hints.destructive(true).idempotent(true),
    };
    Tool::new(name, description, Arc::new(schema)).with_annotations(hints)
}

/// `schema` with the argument that says which thread is meant, where a call may say it.
fn with_thread(mut schema: Value, options: &McpOptions) -> Value {
    if !options.is_bound {
        schema["properties"]["thread"] = json!({"type": "string"});
    }
    schema
}
