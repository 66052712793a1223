//! The interface of tools: what a tool is, and what it is asked.

use std::fmt::Debug;

use async_trait::async_trait;
use folio_engine::argument::one_of;
pub use folio_engine::argument::{ArgKind, CallArgs, Mistake};
use folio_engine::run::EXECUTOR_TOOLS;
pub use folio_engine::talk::Need;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::context::ToolContext;
use crate::resource::resource_names;
use crate::response::{FailureKind, ToolError, ToolResponse};

/// The longest name of a tool, in characters.
const NAME_CHARS_MAX: usize = 200;

/// What the names of agents begin with, where calls and grants name them.
pub const AGENT_PREFIX: &str = "agent:";

/// What a call changes. This decides what happens to an interrupted call after a crash.
///
/// If the outcome was not recorded: for the first three effects, the call is simply made again. For the fourth, the
/// tool is asked. For the last two, the outcome is *unknown*, and a person or a setting decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Computes from its arguments only.
    Pure,
    /// Looks at the world and changes nothing.
    Read,
    /// Changes the world; a second call with the same key changes nothing more.
    Idempotent,
    /// Changes the world, and the tool can say afterwards whether a call did: see [`Tool::reconcile`].
    Guarded,
    /// May change anything, and cannot say whether it did.
    Opaque,
    /// Removes something that cannot be restored.
    Destructive,
}

impl Effect {
    /// Whether a call changes nothing.
    #[must_use]
    pub const fn changes_nothing(self) -> bool {
        matches!(self, Self::Pure | Self::Read)
    }

    /// Whether a call whose outcome is not known may simply be made again (E9.12).
    #[must_use]
    pub const fn may_be_repeated(self) -> bool {
        matches!(self, Self::Pure | Self::Read | Self::Idempotent)
    }
}

/// Whether a call needs approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// The tool can be called by any task.
    Never,
    /// The call is refused or waits for approval, unless a setting of the run allows it.
    ///
    /// Where a person is there, the run waits for approval; where nobody is, [`Registry::call`](crate::Registry::call)
    /// refuses the call, unless the tool [enforces this itself](Tool::enforces_approval).
    UnlessAllowed,
}

/// One argument of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgSpec {
    /// The name of the argument, in `snake_case`.
    pub name: String,
    /// The kind of value that it takes.
    pub kind: ArgKind,
    /// Whether a call without it is refused.
    pub required: bool,
    /// One sentence for people and models, with the default if there is one.
    pub description: String,
}

/// The specification of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name that plans and models call it by: up to 200 characters, none of them white space or a control
    /// character. `finish` and `ask_person` are tools that models have anyway, and what begins with `agent:` is an
    /// agent.
    pub name: String,
    /// What it does, for people and models.
    pub description: String,
    /// What a call returns, for people and for plans that read it. Models that call the tool see it in the answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub returns: String,
    /// What a call changes.
    pub effect: Effect,
    /// Its arguments. Empty when `schema` is given.
    pub args: Vec<ArgSpec>,
    /// Arguments of which a call must give exactly one. Empty if there is no such choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
    /// The JSON Schema of the arguments, for a tool that comes with one (a tool of an MCP server).
    ///
    /// Plans and calls are checked against it.
    pub schema: Option<Value>,
    /// The JSON Schema of the outputs, as far as it is known: a plan that iterates over something that is not a list
    /// in it is refused before it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Whether a call needs approval.
    pub approval: Approval,
    /// The query to the scratch page whose result the tool gets with a call: `{"filters": {…}, "limit": 10}`. The
    /// answer is in [`ToolRequest::scratch_page_context`], as far as the tool's manifest lets it see that.
    pub scratch_page_query: Option<Value>,
    /// Whether a call may change something, in memory or outside of it, so that two branches of a race must not both
    /// make it.
    pub writes: bool,
    /// How much models need to know of the tool when there is no room for all definitions.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub need: Need,
    /// The names of what a call writes: patterns such as `board/{id}`, into which the arguments are filled. Calls that
    /// write the same name, or one inside or around it, run one after the other. Empty if nothing is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
}

impl ToolSpec {
    /// Starts the specification of a tool without arguments that needs no approval.
    ///
    /// `writes` is false for [`Effect::Pure`] and [`Effect::Read`], true for the others.
    pub fn new(name: impl Into<String>, effect: Effect, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            returns: String::new(),
            effect,
            args: Vec::new(),
            one_of: Vec::new(),
            schema: None,
            output: None,
            approval: Approval::Never,
            scratch_page_query: None,
            writes: !effect.changes_nothing(),
            need: Need::default(),
            resources: Vec::new(),
        }
    }

    /// Checks that plans and models can call a tool by its [name](Self::name).
    ///
    /// # Errors
    ///
    /// `tool_name_invalid`.
    pub fn check_name(&self) -> Result<(), ToolError> {
        let name = &*self.name;
        let reason = if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
            format!("it has to have 1 to {NAME_CHARS_MAX} characters")
        } else if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            "it has white space or control characters in it".to_owned()
        } else if EXECUTOR_TOOLS.contains(&name) {
            "models have a tool of this name that belongs to Folio".to_owned()
        } else if name.starts_with(AGENT_PREFIX) {
            format!("`{AGENT_PREFIX}` begins the names of agents")
        } else {
            return Ok(());
        };
        let shown: String = name.escape_debug().take(NAME_CHARS_MAX).collect();
        let message = format!("a tool cannot be called \"{shown}\": {reason}");
        Err(ToolError::new(FailureKind::InvalidArgs, "tool_name_invalid", message).hint("give the tool another name"))
    }

    /// Marks a tool that changes nothing by itself but whose answer is written into memory.
    #[must_use]
    pub fn writing(mut self) -> Self {
        self.writes = true;
        self
    }

    /// Adds a required argument.
    #[must_use]
    pub fn required(mut self, name: &str, kind: ArgKind, description: &str) -> Self {
        self.args.push(ArgSpec {
            name: name.to_owned(),
            kind,
            required: true,
            description: description.to_owned(),
        });
        self
    }

    /// Adds an optional argument.
    #[must_use]
    pub fn optional(mut self, name: &str, kind: ArgKind, description: &str) -> Self {
        self.args.push(ArgSpec {
            name: name.to_owned(),
            kind,
            required: false,
            description: description.to_owned(),
        });
        self
    }

    /// Sets how much models need to know of the tool.
    #[must_use]
    pub fn needed(mut self, need: Need) -> Self {
        self.need = need;
        self
    }

    /// Declares that a call gives exactly one of these optional arguments. The description says so, too: not every
    /// provider accepts a schema that could express it.
    #[must_use]
    pub fn one_of(mut self, names: &[&str]) -> Self {
        self.one_of = names.iter().map(|name| (*name).to_owned()).collect();
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        self.description
            .push_str(&format!(" Give exactly {}.", one_of(&quoted)));
        self
    }

    /// Says what a call returns, in sentences.
    #[must_use]
    pub fn returns(mut self, sentences: &str) -> Self {
        sentences.clone_into(&mut self.returns);
        self
    }

    /// Declares the outputs of a call, by name and JSON Schema type. There may be more.
    #[must_use]
    pub fn gives(mut self, parts: &[(&str, &str)]) -> Self {
        let parts = parts
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), json!({"type": kind})));
        self.output = Some(json!({"type": "object", "properties": parts.collect::<Map<_, _>>()}));
        self
    }

    /// Declares that a call needs approval unless a setting of the run allows it.
    #[must_use]
    pub fn needs_approval(mut self) -> Self {
        self.approval = Approval::UnlessAllowed;
        self
    }

    /// Adds a name of what a call writes, with `{ARGUMENT}` for the value of an argument.
    #[must_use]
    pub fn writes_to(mut self, pattern: &str) -> Self {
        self.resources.push(pattern.to_owned());
        self
    }

    /// Sets the query to the scratch page whose result the tool gets with a call.
    #[must_use]
    pub fn asks(mut self, scratch_page_query: Value) -> Self {
        self.scratch_page_query = Some(scratch_page_query);
        self
    }

    /// What it does and what a call returns.
    pub fn about(&self) -> String {
        let separator = if self.returns.is_empty() { "" } else { " " };
        format!("{}{separator}{}", self.description, self.returns)
    }

    /// The JSON Schema of the arguments as models read it with every request: without what only refuses calls, because
    /// each call is checked, and in the simplest form that is accepted.
    pub fn schema_for_models(&self) -> Value {
        let mut schema = self.args_schema();
        if self.schema.is_some() {
            return schema;
        }
        let Value::Object(fields) = &mut schema else {
            return schema;
        };
        fields.remove("additionalProperties");
        fields.retain(|keyword, value| keyword != "required" || *value != json!([]));
        for arg in &self.args {
            let Some(Value::Object(fields)) = schema["properties"].get_mut(&arg.name) else {
                continue;
            };
            if arg.kind == ArgKind::Texts
                && let Value::Object(words) = ArgKind::Words.schema()
            {
                fields.remove("anyOf");
                fields.extend(words);
            }
            fields.retain(|keyword, value| keyword != "minimum" || *value != json!(0));
        }
        schema
    }

    /// The JSON Schema of the arguments: an object that allows no other names.
    pub fn args_schema(&self) -> Value {
        if let Some(schema) = &self.schema {
            return schema.clone();
        }
        let mut properties = Map::new();
        for arg in &self.args {
            let mut schema = arg.kind.schema();
            if let Value::Object(fields) = &mut schema {
                fields.insert("description".to_owned(), Value::String(arg.description.clone()));
            }
            properties.insert(arg.name.clone(), schema);
        }
        let required: Vec<&str> = self
            .args
            .iter()
            .filter(|arg| arg.required)
            .map(|arg| arg.name.as_str())
            .collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRequest {
    /// The id of this logical call. It is the same after a crash, so it doubles as the idempotency key.
    pub request_id: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments: an object, or null for none.
    pub args: Value,
    /// The run that makes the call.
    pub run_id: String,
    /// The node of the run that makes the call.
    pub node_id: String,
    /// The number of the attempt; 1 for the first try of this logical call.
    pub attempt: u32,
    /// The observations that the tool queried, in the format of seed 004. Empty if it queried none, or may see none of
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scratch_page_context: Vec<Value>,
}

/// What became of a call whose outcome was not recorded, as its tool reports (E9.12).
#[derive(Debug, Clone, PartialEq)]
pub enum Reconciled {
    /// The call took effect, and this is its answer, as far as the tool knows.
    Completed(Box<ToolResponse>),
    /// The call had no effect: it may be made.
    NotExecuted,
    /// The tool cannot say.
    Unknown,
}

/// Something a task can do.
///
/// Call it through [`Registry::call`](crate::Registry::call), which checks the arguments before and the
/// answer after.
#[async_trait]
pub trait Tool: Send + Sync + Debug {
    /// The specification of the tool. It stays the same for the life of the tool.
    fn spec(&self) -> &ToolSpec;

    /// Whether the tool itself refuses calls that nobody allowed, by rules of its own: which commands, which hosts. For
    /// all other tools that need approval, [`Registry::call`](crate::Registry::call) refuses every call in a context
    /// that is not [`allowed`](ToolContext::allowed).
    fn enforces_approval(&self) -> bool {
        false
    }

    /// Further mistakes in arguments that each satisfy [`spec`](Self::spec): patterns that cannot be parsed, arguments
    /// that must be given together. Called for the calls of a plan before it runs, where some arguments are templates,
    /// and for those of a model before they are made. A panic counts as no mistakes.
    ///
    /// Must be quick and look at nothing else: a plan may have thousands of calls.
    fn mistakes(&self, args: CallArgs<'_>) -> Vec<Mistake> {
        // Most tools express everything in the specification of each argument.
        let _ = args;
        Vec::new()
    }

    /// What became of `request`, which had begun when the process that made it died. Called for tools that are
    /// [`Effect::Guarded`], with the request as it was made; `request_id` is the key that it carried. The default is
    /// `Unknown`.
    async fn reconcile(&self, _request: &ToolRequest, _context: &ToolContext) -> Reconciled {
        Reconciled::Unknown
    }

    /// The names of what a call with `args` writes: those of [`ToolSpec::resources`], unless the tool knows better.
    ///
    /// A file is named by its full path. Opens and creates nothing. The arguments may be wrong; then the names do not
    /// matter.
    fn resources(&self, args: &Value, context: &ToolContext) -> Vec<String> {
        // Only some tools depend on where the run works.
        let _ = context;
        resource_names(&self.spec().resources, args)
    }

    /// Carries out `request`, within `context`.
    ///
    /// The arguments have been checked against [`spec`](Self::spec). Dropping the future stops what it started.
    ///
    /// A tool that may take long watches `context.cancel`, which fires when the call is cancelled or its time is up. A
    /// call that does not end then is dropped: at once if the [effect](Effect) changes nothing, otherwise after 12 s.
    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse;
}
