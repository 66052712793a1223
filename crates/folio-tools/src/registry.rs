//! The one guarded way to call a tool.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio_memory::depth_exceeds;
use folio_memory::excerpt::short_line;
use serde_json::{Value, json};

use crate::arguments::{check, nearest};
use crate::builtin;
use crate::context::{ToolContext, ToolLimits};
use crate::function::FunctionTool;
use crate::panics::catch_panic;
use crate::response::{FailureKind, ToolError, ToolResponse, ToolStatus, Truncated};
use crate::tool::{Approval, Effect, Reconciled, Tool, ToolRequest, ToolSpec};

/// How deeply lists and objects may be nested in an argument or an output.
pub const DEPTH_MAX: usize = 64;

/// How many bytes are shown of an output that is over its limit.
const PREVIEW_BYTES: usize = 64 * 1024;

/// The longest notes of an answer, in characters.
const NOTES_CHARS: usize = 500;

/// The tools of a run, by name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    tools: Arc<BTreeMap<String, Arc<dyn Tool>>>,
    /// Families of tools that are missing, by the name before their dot, and why.
    missing: Arc<BTreeMap<String, ToolError>>,
    /// Tools that were not added because of their names, and why.
    refused: Arc<BTreeMap<String, ToolError>>,
}

impl Registry {
    /// Returns a registry without tools.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns a registry of the tools that come with Folio.
    pub fn with_builtins() -> Self {
        let mut registry = Self::empty();
        for tool in builtin::all() {
            registry.register(tool);
        }
        registry
    }

    /// Adds a tool. A tool with the same name is replaced and returned.
    ///
    /// A tool whose [name](ToolSpec::name) cannot be used is not added. [`check_names`](Self::check_names) says so, and
    /// a runner with this registry submits no runs.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        let name = tool.spec().name.clone();
        if let Err(error) = tool.spec().check_name() {
            Arc::make_mut(&mut self.refused).insert(name, error);
            return None;
        }
        Arc::make_mut(&mut self.tools).insert(name, tool)
    }

    /// Adds a tool that is a function of the request and the context of the call; an error is a failed call. A tool
    /// with the same name is replaced and returned.
    ///
    /// To tell afterwards whether a call took effect, or to work out by itself what a call writes, implement [`Tool`].
    ///
    /// ```
    /// use folio_tools::{ArgKind, Effect, Registry, ToolError, ToolResponse, ToolSpec};
    /// use serde_json::json;
    ///
    /// let mut registry = Registry::with_builtins();
    /// let about = "How many letters a word has: {letters}";
    /// let spec = ToolSpec::new("letters", Effect::Pure, about).required("word", ArgKind::Text, "The word.");
    /// registry.register_fn(spec, |request, _| async move {
    ///     let word = request.args["word"].as_str().unwrap_or_default();
    ///     if word.contains(' ') {
    ///         return Err(ToolError::invalid(format!("{word:?} is more than one word")));
    ///     }
    ///     Ok(ToolResponse::ok(&request, json!({"letters": word.chars().count()}), ""))
    /// });
    /// ```
    pub fn register_fn<F, Answered>(&mut self, spec: ToolSpec, function: F) -> Option<Arc<dyn Tool>>
    where
        F: Fn(ToolRequest, ToolContext) -> Answered + Send + Sync + 'static,
        Answered: Future<Output = Result<ToolResponse, ToolError>> + Send + 'static,
    {
        self.register(Arc::new(FunctionTool { spec, function }))
    }

    /// Checks that every tool that was registered could be added.
    ///
    /// # Errors
    ///
    /// `tool_name_invalid`, for the first one whose name cannot be used.
    pub fn check_names(&self) -> Result<(), ToolError> {
        self.refused.values().next().cloned().map_or(Ok(()), Err)
    }

    /// Removes a tool, so that no task can call it.
    pub fn remove(&mut self, name: &str) -> Option<Arc<dyn Tool>> {
        Arc::make_mut(&mut self.refused).remove(name);
        Arc::make_mut(&mut self.tools).remove(name)
    }

    /// Records why there are no tools whose names begin with `family` and a dot: calls of such tools fail with this
    /// error.
    pub fn set_missing_family(&mut self, family: &str, error: ToolError) {
        Arc::make_mut(&mut self.missing).insert(family.to_owned(), error);
    }

    /// The tool with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// All tools, by name.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.values()
    }

    /// The specifications of all tools, by name.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values().map(|tool| tool.spec())
    }

    /// Calls a tool, and always returns an answer that can be recorded.
    ///
    /// The arguments are checked before the call and the answer after it. An unknown name, wrong arguments, a call that
    /// needs approval and has none, a tool that panics and a malformed answer are failures of the call, never of the
    /// caller. Dropping the future stops what the tool started.
    ///
    /// An answer that is over [`ToolLimits::output_bytes`], or nested more than [`DEPTH_MAX`] levels deep, is an error
    /// for a tool that only computes or looks, since it can be asked again for less. A tool that may have changed
    /// something keeps its status, so that nobody has it do the same again: outputs that are too large become
    /// `{preview}`, and parts that are too deep are left out.
    pub async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        let Some(tool) = self.tools.get(&request.tool) else {
            return ToolResponse::failed(request, self.unknown_tool(&request.tool));
        };
        let spec = tool.spec();
        if depth_exceeds(&request.args, DEPTH_MAX) {
            let error = ToolError::invalid(format!(
                "the arguments of {} are more than {DEPTH_MAX} levels deep",
                spec.name
            ));
            return ToolResponse::failed(request, error);
        }
        let converted = match check(spec, &request.args) {
            Ok(None) => None,
            Ok(Some(args)) => Some(ToolRequest {
                args,
                ..request.clone()
            }),
            Err(error) => return ToolResponse::failed(request, error),
        };
        // Where a person is there, the run has waited for approval before it came here.
        if spec.approval == Approval::UnlessAllowed && !context.allowed && !tool.enforces_approval() {
            return ToolResponse::failed(request, not_allowed(&spec.name));
        }
        if context.cancel.is_cancelled() {
            return ToolResponse::failed(request, ToolError::cancelled());
        }
        let request = converted.as_ref().unwrap_or(request);
        match catch_panic(tool.call(request, context)).await {
            Ok(response) => checked(response, request, spec.effect, &context.limits),
            Err(message) => {
                let error = ToolError::new(
                    FailureKind::Failed,
                    "tool_panicked",
                    format!("{} panicked: {message}", spec.name),
                )
                .hint("this is a bug in the tool, not a mistake in the arguments");
                ToolResponse::failed(request, error)
            }
        }
    }

    /// What became of `request`, which had begun when the process that made it died, as its tool reports (E9.12). The
    /// result is `Unknown` for a tool that does not exist, does not accept the arguments, or panics.
    pub async fn reconcile(&self, request: &ToolRequest, context: &ToolContext) -> Reconciled {
        let Some(tool) = self.tools.get(&request.tool) else {
            return Reconciled::Unknown;
        };
        let request = match check(tool.spec(), &request.args) {
            Ok(None) => request.clone(),
            Ok(Some(args)) => ToolRequest {
                args,
                ..request.clone()
            },
            Err(_) => return Reconciled::Unknown,
        };
        match catch_panic(tool.reconcile(&request, context)).await {
            Ok(Reconciled::Completed(response)) => {
                let response = checked(*response, &request, tool.spec().effect, &context.limits);
                Reconciled::Completed(Box::new(response))
            }
            Ok(known) => known,
            Err(_) => Reconciled::Unknown,
        }
    }

    /// Checks that `name` is the name of a tool or, as `FAMILY.*`, of an existing family. A family whose tools are
    /// missing at the moment counts as existing.
    ///
    /// # Errors
    ///
    /// `unknown_tool`, with the name that was probably meant.
    pub fn check_name(&self, name: &str) -> Result<(), ToolError> {
        let family = name.split_once('.').map(|(family, _)| family);
        let is_missing = family.is_some_and(|family| self.missing.contains_key(family));
        let is_known = match name.strip_suffix(".*") {
            Some(family) => {
                let prefix = format!("{family}.");
                self.tools.keys().any(|tool| tool.starts_with(&prefix))
            }
            None => self.tools.contains_key(name),
        };
        if is_known || is_missing {
            return Ok(());
        }
        Err(self.unknown_tool(name))
    }

    /// The families of the tools, which are the names before their dots, those that are missing at the moment included.
    /// A family is named as often as it has tools.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        let families = self.tools.keys().filter_map(|name| Some(name.split_once('.')?.0));
        families.chain(self.missing.keys().map(String::as_str))
    }

    fn unknown_tool(&self, name: &str) -> ToolError {
        if let Some(refused_error) = self.refused.get(name) {
            return refused_error.clone();
        }
        let family = name.split_once('.').map(|(family, _)| family);
        if let Some(missing_error) = family.and_then(|family| self.missing.get(family)) {
            return missing_error.clone();
        }
        let error = ToolError::new(
            FailureKind::NotFound,
            "unknown_tool",
            format!("there is no tool `{name}`"),
        );
        let names: Vec<&str> = self.tools.keys().map(String::as_str).collect();
        match nearest(name, names.iter().copied()) {
            Some(suggestion) => error.hint(format!("did you mean `{suggestion}`?")),
            None => error.hint(format!("the tools are: {}", names.join(", "))),
        }
    }
}

/// The refusal of a call that needs approval and has none.
fn not_allowed(tool: &str) -> ToolError {
    let message = format!("{tool} was not called: this run does not allow it");
    ToolError::new(FailureKind::Denied, "tool_not_allowed", message).hint(format!(
        "start the run with {tool} among its allowed tools (--allow-tool), or where somebody can approve the call"
    ))
}

/// Turns an answer into one that can be recorded.
fn checked(mut response: ToolResponse, request: &ToolRequest, effect: Effect, limits: &ToolLimits) -> ToolResponse {
    response.request_id.clone_from(&request.request_id);
    if response.notes.contains(['\n', '\r']) || response.notes.len() > NOTES_CHARS {
        response.notes = short_line(&response.notes, NOTES_CHARS);
    }
    match (&response.error, response.status) {
        (Some(_), ToolStatus::Ok) => response.status = ToolStatus::Error,
        (None, ToolStatus::Error) => {
            response.error = Some(ToolError::new(
                FailureKind::Failed,
                "unspecified",
                if response.notes.is_empty() {
                    format!("{} failed and did not say why", request.tool)
                } else {
                    response.notes.clone()
                },
            ));
        }
        (Some(_), ToolStatus::Error) | (None, ToolStatus::Ok) => {}
    }

    let may_have_changed_something = !effect.changes_nothing();
    let is_too_deep = recorded_values(&response).any(|value| depth_exceeds(value, DEPTH_MAX));
    if is_too_deep && may_have_changed_something {
        remove_too_deep_values(&mut response);
    } else if is_too_deep {
        return replace_values_with_error(
            response,
            request,
            ToolError::new(
                FailureKind::TooLarge,
                "malformed_output",
                format!("the answer of {} is more than {DEPTH_MAX} levels deep", request.tool),
            ),
        );
    }
    let outputs_bytes = json_bytes(&response.outputs);
    let values_bytes: u64 = recorded_values(&response).map(json_bytes).sum();
    // Pages, templates and files made from the outputs must not depend on the order in which the tool built them.
    response.outputs.sort_all_objects();
    let pages_bytes: usize = response
        .page_appends
        .iter()
        .map(|append| append.title.len() + append.body.len())
        .sum();
    let total_bytes = values_bytes + pages_bytes as u64;
    if total_bytes <= limits.output_bytes {
        return response;
    }
    if may_have_changed_something && total_bytes - outputs_bytes <= limits.output_bytes {
        let text = response.outputs.to_string();
        let kept = text.floor_char_boundary(PREVIEW_BYTES);
        response.outputs = json!({"preview": &text[..kept]});
        response.truncated = Some(Truncated {
            kept_bytes: kept as u64,
            total_bytes: outputs_bytes,
        });
        return response;
    }
    replace_values_with_error(
        response,
        request,
        ToolError::new(
            FailureKind::TooLarge,
            "output_too_large",
            format!(
                "the answer of {} is {total_bytes} bytes, more than the limit of {}",
                request.tool, limits.output_bytes
            ),
        )
        .hint("ask for less: a narrower path, a smaller max, a range"),
    )
}

/// Every value of an answer: its outputs, and what it proposes to write.
fn recorded_values(response: &ToolResponse) -> impl Iterator<Item = &Value> {
    std::iter::once(&response.outputs)
        .chain(&response.observations)
        .chain(&response.scratch_page_writes)
        .chain(&response.memory_writes)
}

/// Removes what cannot be recorded, and says so: parts of the outputs that are too deep, and every other value that
/// has such parts.
fn remove_too_deep_values(response: &mut ToolResponse) {
    let total_bytes = json_bytes(&response.outputs);
    if depth_exceeds(&response.outputs, DEPTH_MAX) {
        truncate_depth(&mut response.outputs, DEPTH_MAX);
        response.truncated = Some(Truncated {
            kept_bytes: json_bytes(&response.outputs),
            total_bytes,
        });
    }
    let lists = [
        &mut response.observations,
        &mut response.scratch_page_writes,
        &mut response.memory_writes,
    ];
    for list in lists {
        let (kept, deep): (Vec<Value>, Vec<Value>) = std::mem::take(list)
            .into_iter()
            .partition(|value| !depth_exceeds(value, DEPTH_MAX));
        *list = kept;
        deep.into_iter().for_each(dismantle);
    }
    let notes = format!(
        "{} (left out: what is more than {DEPTH_MAX} levels deep)",
        response.notes
    );
    response.notes = short_line(notes.trim_start(), NOTES_CHARS);
}

/// Replaces every list and object that is more than `levels` deep in `value` by a short text.
fn truncate_depth(value: &mut Value, levels: usize) {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => {
            dismantle(std::mem::replace(
                value,
                json!(format!("(more than {DEPTH_MAX} levels deep)")),
            ));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| truncate_depth(item, levels - 1)),
        Value::Object(fields) => fields.values_mut().for_each(|item| truncate_depth(item, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// An error in place of values that cannot be recorded.
fn replace_values_with_error(mut response: ToolResponse, request: &ToolRequest, error: ToolError) -> ToolResponse {
    dismantle(std::mem::take(&mut response.outputs));
    for value in response
        .observations
        .drain(..)
        .chain(response.scratch_page_writes.drain(..))
        .chain(response.memory_writes.drain(..))
    {
        dismantle(value);
    }
    ToolResponse {
        evidence: response.evidence,
        ..ToolResponse::failed(request, error)
    }
}

/// Drops a value without recursion: the ordinary drop of a very deep value would overflow the stack.
fn dismantle(value: Value) {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(items) => rest.extend(items),
            Value::Object(fields) => rest.extend(fields.into_iter().map(|(_, value)| value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The size of a value as JSON, accurate enough for a limit: escapes in strings are not counted. Without recursion, as
/// the value may be very deep.
pub(crate) fn json_bytes(value: &Value) -> u64 {
    let (mut bytes, mut rest) = (0, vec![value]);
    while let Some(value) = rest.pop() {
        bytes += match value {
            Value::Null | Value::Bool(_) => 4,
            Value::Number(_) => 8,
            Value::String(text) => text.len() as u64 + 2,
            Value::Array(items) => {
                rest.extend(items);
                2 + items.len() as u64
            }
            Value::Object(fields) => {
                rest.extend(fields.values());
                2 + fields.keys().map(|name| name.len() as u64 + 4).sum::<u64>()
            }
        };
    }
    bytes
}
