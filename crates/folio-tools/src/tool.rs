//! The seam: what a tool is, and what it is asked.

use std::fmt::Debug;

use async_trait::async_trait;
use folio_engine::argument::one_of;
pub use folio_engine::argument::{ArgKind, Mistake, Written};
pub use folio_engine::talk::Need;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::context::ToolContext;
use crate::resource::named_in;
use crate::response::ToolResponse;

/// What a call changes, which decides what happens to it after a crash.
///
/// A call whose outcome was not recorded is simply made again for the first three. Of the fourth the tool is
/// asked. For the last two its outcome is *unknown* and a person, or a setting, decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Computes from its arguments only.
    Pure,
    /// Looks at the world and leaves it as it was.
    Read,
    /// Changes the world; a second call with the same key changes nothing more.
    Idempotent,
    /// Changes the world, and the tool can say afterwards whether a call did: see [`Tool::reconcile`].
    Guarded,
    /// May change anything, and cannot say whether it did.
    Opaque,
    /// Takes something away that cannot be brought back.
    Destructive,
}

impl Effect {
    /// Whether a call leaves the world as it was.
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

/// Whether a call waits for a yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// The tool can be called by any task.
    Never,
    /// The tool is refused, or asked about, unless a setting of the run allows the call.
    UnlessAllowed,
}

/// One argument of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgSpec {
    /// Its name, in `snake_case`.
    pub name: String,
    /// What it may hold.
    pub kind: ArgKind,
    /// Whether a call without it is refused.
    pub required: bool,
    /// One sentence for people and models, with the default if there is one.
    pub description: String,
}

/// What a tool tells about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name that plans and models call it by.
    pub name: String,
    /// What it does and what it returns, for people and models.
    pub description: String,
    /// What a call changes.
    pub effect: Effect,
    /// Its arguments. Empty when `schema` is given.
    pub args: Vec<ArgSpec>,
    /// Arguments of which a call gives exactly one. Empty where there is no such choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
    /// A full JSON Schema of the arguments, for a tool that comes with one (a tool of an MCP server).
    ///
    /// Plans and calls are checked against it.
    pub schema: Option<Value>,
    /// A JSON Schema of what a call gives, as far as that is known: a plan that goes over what is no list in it is refused before it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Whether a call waits for a yes.
    pub approval: Approval,
    /// What the tool wants to know of the scratch page before it works: `{"filters": {…}, "limit": 10}`. The answer is in
    /// [`ToolRequest::scratch_page_context`], as far as the tool's manifest lets it see that.
    pub scratch_page_query: Option<Value>,
    /// Whether a call may change something, in memory or outside of it, so that two branches of a race must
    /// not both make it.
    pub writes: bool,
    /// How much models need to know of it where there is no room for all definitions.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub need: Need,
    /// What a call writes, by name: a pattern as `board/{id}`, in which the arguments are filled in. Calls that write the same, or
    /// something inside of it or around it, are made one after the other. Empty for a tool of which nothing of that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
}

impl ToolSpec {
    /// Starts the description of a tool without arguments that needs no approval.
    ///
    /// `writes` is false for [`Effect::Pure`] and [`Effect::Read`], true for the others.
    pub fn new(name: impl Into<String>, effect: Effect, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
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

    /// The same of a tool that changes nothing by itself, and whose answer is written into memory.
    #[must_use]
    pub fn writing(mut self) -> Self {
        self.writes = true;
        self
    }

    /// Adds an argument that every call must give.
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

    /// Adds an argument that a call may leave out.
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

    /// Says how much models need to know of it.
    #[must_use]
    pub fn needed(mut self, need: Need) -> Self {
        self.need = need;
        self
    }

    /// Says that a call gives exactly one of these optional arguments, in the description, too: not every provider takes a schema that
    /// could say it.
    #[must_use]
    pub fn one_of(mut self, names: &[&str]) -> Self {
        self.one_of = names.iter().map(|name| (*name).to_owned()).collect();
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        self.description
            .push_str(&format!(" Give exactly {}.", one_of(&quoted)));
        self
    }

    /// Says what a call gives, by name and the type that JSON Schema has for it. There may be more.
    #[must_use]
    pub fn gives(mut self, parts: &[(&str, &str)]) -> Self {
        let parts = parts
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), json!({"type": kind})));
        self.output = Some(json!({"type": "object", "properties": parts.collect::<Map<_, _>>()}));
        self
    }

    /// Says that a call waits for a yes unless a setting of the run allows it.
    #[must_use]
    pub fn needs_approval(mut self) -> Self {
        self.approval = Approval::UnlessAllowed;
        self
    }

    /// Says what a call writes: a name, with `{ARGUMENT}` for the value of an argument.
    #[must_use]
    pub fn writes_to(mut self, pattern: &str) -> Self {
        self.resources.push(pattern.to_owned());
        self
    }

    /// Says what the tool wants to know of the scratch page before it works.
    #[must_use]
    pub fn asks(mut self, scratch_page_query: Value) -> Self {
        self.scratch_page_query = Some(scratch_page_query);
        self
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
    /// Names this logical call. The same after a crash, so it doubles as the idempotency key.
    pub request_id: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments: an object, or null for none.
    pub args: Value,
    /// The run that asks.
    pub run_id: String,
    /// The node of the run that asks.
    pub node_id: String,
    /// 1 for the first try of this logical call.
    pub attempt: u32,
    /// The observations that the tool wanted to know of, as seed 004 writes them. Empty if it asked for none, or none is
    /// for it to see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scratch_page_context: Vec<Value>,
}

/// What became of a call whose outcome was not recorded, as its tool says (E9.12).
#[derive(Debug, Clone, PartialEq)]
pub enum Reconciled {
    /// It took effect, and this is what it answered, as far as the tool knows.
    Completed(Box<ToolResponse>),
    /// It had no effect: it may be made.
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
    /// What the tool tells about itself. The same for the life of the tool.
    fn spec(&self) -> &ToolSpec;

    /// Whether a call computes at once and never waits, so that it may run where it is asked without a
    /// task of its own.
    fn inline(&self) -> bool {
        false
    }

    /// What is wrong with arguments of which each is what [`spec`](Self::spec) says: patterns that cannot be read, what has to be given
    /// together. Asked of the calls of a plan before it runs, of which some are templates, and of those of a model before they are made.
    ///
    /// It is quick, and looks at nothing else: a plan may have thousands of calls.
    fn mistakes(&self, args: Written<'_>) -> Vec<Mistake> {
        // Most tools say all of it of each argument.
        let _ = args;
        Vec::new()
    }

    /// What became of `request`, which had begun when whoever made it died. Asked of tools that are [`Effect::Guarded`], with the
    /// request as it was made; `request_id` is the key that it carried. By default nobody knows.
    async fn reconcile(&self, _request: &ToolRequest, _context: &ToolContext) -> Reconciled {
        Reconciled::Unknown
    }

    /// The names of what a call with `args` writes: what [`ToolSpec::resources`] says, unless the tool knows better.
    ///
    /// A file is named by the whole path of where it is. Opens and makes nothing. The arguments may be wrong; then what is
    /// named does not matter.
    fn resources(&self, args: &Value, context: &ToolContext) -> Vec<String> {
        // Only some tools have to see where the run is at work.
        let _ = context;
        named_in(&self.spec().resources, args)
    }

    /// Does what `request` asks, within `context`.
    ///
    /// The arguments have been checked against [`spec`](Self::spec). A tool that may take long watches
    /// `context.cancel`; dropping the future stops what it started.
    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse;
}
