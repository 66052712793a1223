//! The tools that a model can call: one file per tool set.

mod admin;
mod list;
mod memory;
mod observe;
mod plan;
pub(super) mod run;
mod scratch;

use std::sync::Arc;

use folio::memory::arguments::{Others, cannot_be, read_arguments};
use folio::memory::query::MAX_LIMIT;
use folio::memory::roles::{Operation, Reach, reach};
use folio::memory::wrong_field::wrong_field;
use folio::memory::{Invalid, Role, RunId};
use folio::runner::Runner;
use folio::store::RequestKey;
use rmcp::model::{InputResponses, Tool, ToolAnnotations};
use rmcp::service::{RequestContext, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::answer::Reply;
use super::request_slots::RequestSlot;
use super::{Caller, Mcp, McpOptions, ToolSet};
use crate::http::problem::Problem;

/// A call of a tool that the server offers.
#[derive(Debug)]
pub(super) struct Call<'c> {
    pub(super) mcp: &'c Mcp,
    pub(super) context: &'c RequestContext<RoleServer>,
    /// The turn of this request.
    pub(super) slot: &'c RequestSlot,
    pub(super) caller: Caller,
    pub(super) name: &'c str,
    /// The schema of its arguments, as it is offered.
    pub(super) schema: &'c Map<String, Value>,
    /// The arguments: an object in the forms of the schema, without `thread`.
    pub(super) arguments: Value,
    /// The key of the call, if it has one.
    pub(super) request_key: Option<RequestKey>,
    /// The answers of a person to the forms that an earlier answer showed.
    pub(super) responses: InputResponses,
    /// The state that was sent with those forms.
    pub(super) state: Option<String>,
}

impl Call<'_> {
    /// Returns the key under which the store records the call.
    pub(super) fn idempotency_key(&self) -> Option<String> {
        self.request_key.as_ref().map(|key| key.key().to_owned())
    }

    /// Returns whether the same call was recorded before under its key.
    pub(super) async fn is_recorded(&self) -> Result<bool, Problem> {
        match &self.request_key {
            Some(key) => Ok(self.caller.workspace.is_recorded(&self.caller.actor, key.key()).await?),
            None => Ok(false),
        }
    }

    /// Returns the run that the same call recorded before under its key.
    pub(super) async fn recorded_run(&self) -> Result<Option<RunId>, Problem> {
        match &self.request_key {
            Some(key) => Ok(self
                .caller
                .workspace
                .recorded_run(&self.caller.actor, key.key())
                .await?),
            None => Ok(None),
        }
    }

    /// Returns the runner that records what this call does to runs under its key, so it is done once.
    pub(super) fn keyed_runner(&self) -> Runner {
        let runner = &self.mcp.shared.runner;
        match &self.request_key {
            Some(key) => runner.asked_under(key.clone()),
            None => runner.clone(),
        }
    }
}

/// Returns the offered tools, in the order in which a model sees them.
pub(super) fn offered_tools(options: &McpOptions) -> Vec<Tool> {
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

/// Returns whether `role` may use the tool `name` at all. What it may use it for is decided with each call.
pub(super) fn is_for(role: Role, name: &str) -> bool {
    let needs = match name {
        "scratch_pin" | "scratch_unpin" => Operation::Pin,
        "run_start" | "run_answer" => Operation::Steer,
        "admin_archive" => Operation::Archive,
        "admin_restore" => Operation::Restore,
        "admin_forget" => Operation::Forget,
        _ => return true,
    };
    reach(role, needs) != Reach::No
}

/// Returns the arguments of a call of `tool` in the forms that its schema names. An observation may be sent back as an
/// answer showed it, with fields that the schema does not list.
pub(super) fn arguments_of(tool: &Tool, arguments: &Map<String, Value>) -> Result<Map<String, Value>, Invalid> {
    let others = if tool.name.starts_with("observe_") {
        Others::Kept
    } else {
        Others::Refused
    };
    read_arguments(&tool.name, &tool.input_schema, others, arguments)
}

/// Returns whether the tool `name` is one of the scratchbook, which the policy of a space may turn off.
pub(super) fn is_of_scratchbook(name: &str) -> bool {
    name.starts_with("scratch_")
}

/// Returns whether calls of `tool` belong to the turn that is open in the thread: those that write, except to runs.
pub(super) fn joins_turns(tool: &Tool) -> bool {
    let only_reads = tool.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(true);
    !only_reads && !tool.name.starts_with("run_")
}

/// Carries out the call.
pub(super) async fn call(call: Call<'_>) -> Result<Reply, Problem> {
    let has_cursor = call.arguments.get("cursor").is_some_and(Value::is_string);
    let answer = match call.name.split('_').next() {
        Some("memory") => memory::call(call).await,
        Some("observe") => observe::call(call).await,
        Some("plan") => plan::call(call).await,
        Some("run") => return run::call(call).await,
        Some("admin") => admin::call(call).await,
        _ => scratch::call(call).await,
    };
    answer.map(Reply::from).map_err(|problem| match has_cursor {
        // A model tends to send the cursor alone.
        true if problem.detail().contains("cursor") => {
            problem.hint("repeat the other arguments of the call that returned it")
        }
        _ => problem,
    })
}

/// Deserializes the arguments of `call`, which have the forms of the tool's schema. An error names the argument whose
/// value is out of range.
fn read<T: DeserializeOwned>(call: &Call<'_>) -> Result<T, Invalid> {
    read_by(call.schema, &call.arguments)
}

/// Deserializes `arguments`, which `schema` describes.
fn read_by<T: DeserializeOwned>(schema: &Map<String, Value>, arguments: &Value) -> Result<T, Invalid> {
    T::deserialize(arguments).map_err(|error| {
        let Some((field, _)) = arguments.as_object().and_then(wrong_field::<T>) else {
            return invalid_argument("arguments", error.to_string());
        };
        let property = schema.get("properties").and_then(|properties| properties.get(&field));
        match property {
            Some(property) => cannot_be(&field, property, &arguments[&field]),
            None => invalid_argument(&field, error.to_string()),
        }
    })
}

/// Returns the error for an argument that cannot be used.
pub(super) fn invalid_argument(field: &str, message: impl Into<String>) -> Invalid {
    Invalid::new("arguments_invalid", field, message)
}

/// Returns how many items of a list to give: `default` by default, and at most `max` at a time. As everywhere, a limit
/// of zero or of more than a thousand is refused as a mistake (M7.2.11).
fn item_limit(requested: Option<i64>, default: u32, max: u32) -> Result<u32, Invalid> {
    let Some(requested) = requested else { return Ok(default) };
    match u32::try_from(requested) {
        Ok(limit @ 1..=MAX_LIMIT) => Ok(limit.min(max)),
        _ => Err(invalid_argument(
            "limit",
            format!("is {requested}, which is not a whole number from 1 to {MAX_LIMIT}"),
        )),
    }
}

/// What a tool does to memory. Hosts get it as hints, by which they decide whether to ask before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// It only reads.
    Read,
    /// It adds something, and adds again when it is called again.
    Add,
    /// It changes something; calling it again changes nothing more.
    Settle,
    /// The same, without the hint that it may be called again: these definitions are sent with every request.
    Change,
    /// It removes something that cannot be brought back.
    Erase,
}

/// Returns the definition of a tool.
fn tool(name: &'static str, description: &'static str, schema: Value, effect: Does) -> Tool {
    let Value::Object(schema) = schema else {
        return Tool::default();
    };
    let hints = ToolAnnotations::new();
    let hints = match effect {
        Does::Read => hints.read_only(true),
        Does::Add | Does::Change => hints.destructive(false),
        Does::Settle => hints.destructive(false).idempotent(true),
        Does::Erase => hints.destructive(true).idempotent(true),
    };
    Tool::new(name, description, Arc::new(schema)).with_annotations(hints)
}

/// Returns `schema` with the argument `thread`, unless the connection is bound to one thread.
fn with_thread(mut schema: Value, options: &McpOptions) -> Value {
    if !options.is_bound {
        schema["properties"]["thread"] = json!({"type": "string"});
    }
    schema
}
