//! The six tools with which a model works on its scratchbook: their names, their parameters, and what a call means
//! (seed 003 A4; memory part A, "Tool surface").
//!
//! Their definitions are sent with every request, so they are short: all six together take at most 700 tokens.

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::{ItemInput, ItemPatch};
use crate::arguments::{Others, cannot_be, read_arguments};
use crate::entry::EntryKind;
use crate::id::EntryRef;
use crate::observation::{ObservationInput, TtlInput};
use crate::warning::Invalid;

/// The maximum number of tokens of an answer unless the call asks for more.
pub const ANSWER_TOKENS: u32 = 2_000;
/// The maximum number of tokens that a call can ask for.
pub const MAX_ANSWER_TOKENS: u32 = 20_000;

/// The definition of a tool as a model gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The name of the tool.
    pub name: &'static str,
    /// What the tool does.
    pub description: &'static str,
    /// The JSON Schema of the tool's arguments.
    pub schema: Value,
    /// Whether the tool leaves memory unchanged.
    pub only_reads: bool,
}

/// The arguments of `scratch_read`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Read {
    /// One entry (`e42`) or page (`p7`) to read with its whole text.
    pub id: Option<String>,
    /// Words to search for.
    pub query: Option<String>,
    /// Lists the entries of a page (`p7`), or everything of `book`, `observations`, `history` or `tree`.
    pub page: Option<String>,
    /// Only entries with all of these tags.
    pub tags: Vec<String>,
    /// The cursor at which an earlier answer ended.
    pub cursor: Option<String>,
    /// The maximum number of tokens of the answer.
    pub budget: Option<u32>,
}

/// A call of one of the tools, with valid arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// A call of `scratch_read`.
    Read(Read),
    /// A call of `scratch_add` with a note, a todo or a task.
    AddItem(Box<ItemInput>),
    /// A call of `scratch_add` with an observation.
    AddObservation(Box<ObservationInput>),
    /// A call of `scratch_add` that appends to a page.
    Append {
        /// The page.
        page: String,
        /// The title, in one line; may be empty.
        title: String,
        /// The text of the entry.
        body: String,
        /// Tags to find the entry by.
        tags: Vec<String>,
    },
    /// A call of `scratch_update`.
    Update {
        /// The item or observation to change.
        id: EntryRef,
        /// The changes. For an observation, the patch's text is its content.
        patch: Box<ItemPatch>,
        /// The version that the entry must have.
        expected_version: Option<u32>,
    },
    /// A call of `scratch_complete`.
    Complete(EntryRef),
    /// A call of `scratch_pin`.
    Pin(EntryRef),
    /// A call of `scratch_unpin`.
    Unpin(EntryRef),
}

const KINDS: [&str; 4] = ["note", "todo", "task", "observation"];
/// The statuses of work and of observations.
const STATUSES: [&str; 8] = [
    "open",
    "in_progress",
    "blocked",
    "done",
    "active",
    "pending_review",
    "resolved",
    "archived",
];

/// The six tools, in the order in which a model gets them.
#[must_use]
pub fn definitions() -> [Definition; 6] {
    let id = || json!({"type": "string"});
    let by_id = || object(json!({"id": id()}), &["id"]);
    let tags = || json!({"type": "array", "items": {"type": "string"}});
    let text = id;
    let read = json!({
        "id": {"type": "string", "description": "e42 or p7"},
        "query": text(),
        "page": {"type": "string", "description": "p7, book, observations, history or tree"},
        "tags": tags(),
        "cursor": text(),
        "budget": {"type": "integer"},
    });
    let add = json!({
        "kind": {"type": "string", "enum": KINDS},
        "title": text(),
        "body": text(),
        "tags": tags(),
        "phase": text(),
        "progress": {"type": "number"},
        "page": {"type": "string", "description": "append to it"},
        "type": {"type": "string", "description": "e.g. risk_alert"},
        "ttl_minutes": {"type": ["number", "string"]},
        "confidence": {"type": "number"},
        "context": {"type": "object"},
    });
    let update = json!({
        "id": id(),
        "title": text(),
        "body": text(),
        "status": {"type": "string", "enum": STATUSES},
        "tags": tags(),
        "phase": text(),
        "progress": {"type": "number"},
        "expected_version": {"type": "integer"},
    });
    let tool = |name, description, schema, only_reads| Definition {
        name,
        description,
        schema,
        only_reads,
    };
    [
        tool(
            "scratch_read",
            "Read the scratchbook, or an entry, a search, a page.",
            object(read, &[]),
            true,
        ),
        tool(
            "scratch_add",
            "Remember something. phase, progress: tasks only; \
             type, ttl_minutes, confidence, context: observations only.",
            object(add, &["kind"]),
            false,
        ),
        tool("scratch_update", "Change given fields.", object(update, &["id"]), false),
        tool("scratch_complete", "Mark as done.", by_id(), false),
        tool("scratch_pin", "Keep at the top.", by_id(), false),
        tool("scratch_unpin", "Unpin.", by_id(), false),
    ]
}

fn object(properties: Value, required: &[&str]) -> Value {
    if required.is_empty() {
        return json!({"type": "object", "properties": properties});
    }
    json!({"type": "object", "properties": properties, "required": required})
}

impl Call {
    /// Parses the `arguments` of a call of the tool `name`.
    ///
    /// # Errors
    ///
    /// `arguments_invalid`, or the code of the field that is wrong, with the field and its possible values.
    pub fn parse(name: &str, arguments: &Value) -> Result<Self, Invalid> {
        let all = definitions();
        let Some(tool) = all.iter().find(|tool| tool.name == name) else {
            let names: Vec<_> = all.iter().map(|tool| tool.name).collect();
            return Err(wrong(
                "tool",
                format!("unknown tool {name:?}; use one of {}", names.join(", ")),
            ));
        };
        if name == "scratch_read" {
            names_something(arguments)?;
        }
        let given = Given::of(tool, arguments)?;
        match name {
            "scratch_read" => given.read(),
            "scratch_add" => given.add(),
            "scratch_update" => given.update(),
            "scratch_complete" => Ok(Self::Complete(given.id()?)),
            "scratch_pin" => Ok(Self::Pin(given.id()?)),
            _ => Ok(Self::Unpin(given.id()?)),
        }
    }
}

fn wrong(field: &str, message: String) -> Invalid {
    Invalid::new("arguments_invalid", field, message)
}

/// Refuses a call that says what to read only by an empty `id` or `query`: it does not mean the view. Beside another
/// such argument an empty one is ignored, because some models have to give every argument.
fn names_something(arguments: &Value) -> Result<(), Invalid> {
    let filters = ["id", "query", "page", "tags", "cursor"].map(|field| (field, &arguments[field]));
    let mut filters = filters.into_iter().filter(|(_, value)| !value.is_null());
    let is_blank = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
    let blank_field = match (filters.next(), filters.next()) {
        (Some(("id", value)), None) if is_blank(value) => ("id", "a handle such as e42 or p7"),
        (Some(("query", value)), None) if is_blank(value) => ("query", "words to find"),
        _ => return Ok(()),
    };
    let message = format!("is empty; give {}, or omit it to read the view", blank_field.1);
    Err(wrong(blank_field.0, message))
}

/// The arguments of a call as the schema of the tool wants them, without nulls and, except for `scratch_update`, without
/// empty texts: models that have to give every argument use these for arguments that they do not mean.
struct Given {
    fields: Map<String, Value>,
    schema: Value,
}

impl Given {
    fn of(tool: &Definition, arguments: &Value) -> Result<Self, Invalid> {
        let mut fields = match arguments {
            Value::Null => Map::new(),
            Value::Object(fields) => fields.clone(),
            _ => return Err(wrong("arguments", "must be a JSON object".to_owned())),
        };
        fields.retain(|_, value| tool.name == "scratch_update" || *value != "");
        let schema = tool.schema.as_object().cloned().unwrap_or_default();
        Ok(Self {
            fields: read_arguments(tool.name, &schema, Others::Refused, &fields)?,
            schema: Value::Object(schema),
        })
    }

    /// Returns the error for the argument `field`.
    fn cannot_be(&self, field: &str) -> Invalid {
        cannot_be(field, &self.schema["properties"][field], &self.fields[field])
    }

    fn text(&self, field: &str) -> Option<String> {
        self.fields.get(field).and_then(Value::as_str).map(str::to_owned)
    }

    fn number(&self, field: &str) -> Option<f64> {
        self.fields.get(field).and_then(Value::as_f64)
    }

    fn count(&self, field: &str) -> Result<Option<u32>, Invalid> {
        let Some(value) = self.fields.get(field) else {
            return Ok(None);
        };
        let count = value.as_u64().ok_or_else(|| self.cannot_be(field))?;
        Ok(Some(u32::try_from(count).unwrap_or(u32::MAX)))
    }

    fn texts(&self, field: &str) -> Option<Vec<String>> {
        let value = self.fields.get(field)?;
        // An empty text makes a list empty.
        let items = value.as_array().map_or(&[][..], Vec::as_slice);
        Some(items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    fn id(&self) -> Result<EntryRef, Invalid> {
        let text = self.text("id").unwrap_or_default();
        text.trim()
            .parse()
            .map_err(|_| wrong("id", format!("{text:?} is not the handle of an entry, such as e42")))
    }

    fn read(self) -> Result<Call, Invalid> {
        let read = Read {
            id: self.text("id"),
            query: self.text("query").filter(|query| !query.trim().is_empty()),
            page: self.text("page"),
            tags: self.texts("tags").unwrap_or_default(),
            cursor: self.text("cursor"),
            budget: self.count("budget")?,
        };
        if let Some(budget) = read.budget.filter(|budget| *budget > MAX_ANSWER_TOKENS) {
            return Err(wrong(
                "budget",
                format!("{budget} exceeds the limit of {MAX_ANSWER_TOKENS} tokens; continue with cursor"),
            ));
        }
        Ok(Call::Read(read))
    }

    fn add(self) -> Result<Call, Invalid> {
        let kind = self.text("kind").unwrap_or_default();
        let is_observation = kind == "observation";
        let of_observations = ["type", "ttl_minutes", "confidence", "context"];
        let of_items = ["phase", "progress", "page"];
        let (others, why) = if is_observation {
            (&of_items[..], "an observation is of the whole space, and no work")
        } else {
            (
                &of_observations[..],
                "only observations have it; other kinds stay until they are done",
            )
        };
        if let Some(field) = others.iter().find(|field| self.fields.contains_key(**field)) {
            return Err(wrong(field, format!("does not apply to kind {kind}: {why}")));
        }
        let (title, body) = (self.text("title"), self.text("body").unwrap_or_default());
        let tags = self.texts("tags").unwrap_or_default();
        if is_observation {
            let content = if body.is_empty() {
                title.clone().unwrap_or_default()
            } else {
                body
            };
            let ttl_minutes = match self.fields.get("ttl_minutes") {
                Some(ttl) => TtlInput::deserialize(ttl).map_err(|_| self.cannot_be("ttl_minutes"))?,
                None => TtlInput::Absent,
            };
            return Ok(Call::AddObservation(Box::new(ObservationInput {
                type_name: self.text("type"),
                title: title.filter(|title| *title != content),
                content,
                confidence: self.fields.get("confidence").cloned(),
                tags,
                ttl_minutes,
                context: self.fields.get("context").cloned(),
                ..ObservationInput::default()
            })));
        }
        if let Some(page) = self.text("page").filter(|page| page != "book") {
            let of_work = ["phase", "progress"]
                .into_iter()
                .find(|field| self.fields.contains_key(*field));
            if kind != "note" || of_work.is_some() {
                let message = "accepts only text of kind note; omit `page` to add a todo or a task";
                return Err(wrong("page", message.to_owned()));
            }
            let title = title.unwrap_or_default();
            return Ok(Call::Append {
                page,
                title,
                body,
                tags,
            });
        }
        let input = ItemInput {
            kind: EntryKind::parse(&kind).unwrap_or(EntryKind::Note),
            title,
            body,
            tags,
            phase: self.text("phase"),
            progress: self.number("progress"),
        };
        Ok(Call::AddItem(Box::new(input)))
    }

    fn update(self) -> Result<Call, Invalid> {
        let patch = ItemPatch {
            title: self.text("title"),
            body: self.text("body"),
            status: self.text("status"),
            tags: self.texts("tags"),
            phase: self.text("phase"),
            progress: self.number("progress"),
            said_again: Map::new(),
            // Nulls come from models that have to give every argument, and do not mean that a field is to be cleared.
            cleared: Vec::new(),
        };
        if patch == ItemPatch::default() {
            return Err(wrong(
                "arguments",
                "change nothing; give title, body, status, tags, phase or progress".to_owned(),
            ));
        }
        Ok(Call::Update {
            id: self.id()?,
            patch: Box::new(patch),
            expected_version: self.count("expected_version")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{Tokens as _, Vocabulary};

    #[test]
    fn scratchbook_tool_definitions_fit_in_700_tokens() {
        let sent: Vec<Value> = definitions()
            .into_iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema}))
            .collect();
        let tokens = Vocabulary::O200k.count(&Value::Array(sent).to_string());
        assert!(tokens <= 700, "{tokens}");
    }

    #[test]
    fn scratchbook_tools_name_an_invalid_argument_and_valid_values() {
        for (name, arguments, said) in [
            (
                "scratch_add",
                json!({}),
                "kind: is missing; it is one of note, todo, task, observation",
            ),
            (
                "scratch_add",
                json!({"kind": "memo"}),
                "kind: must be one of note, todo, task, observation, not \"memo\"",
            ),
            (
                "scratch_add",
                json!({"kind": "note", "type": "alert"}),
                "type: does not apply to kind note: only observations have it; other kinds stay until they are done",
            ),
            (
                "scratch_add",
                json!({"kind": "note", "colour": 1}),
                "colour: is not an argument of scratch_add; it takes body, confidence, context, kind, page, phase, progress, tags, title, ttl_minutes, type",
            ),
            (
                "scratch_add",
                json!({"kind": "note", "tags": [1]}),
                "tags: must be a list of strings such as [\"db\", \"tests\"], not [1]",
            ),
            (
                "scratch_pin",
                json!({"id": "p7"}),
                "id: \"p7\" is not the handle of an entry, such as e42",
            ),
            (
                "scratch_pin",
                json!({}),
                "id: is missing; it is a handle such as \"e42\"",
            ),
            (
                "scratch_update",
                json!({"id": "e1"}),
                "arguments: change nothing; give title, body, status, tags, phase or progress",
            ),
            (
                "scratch_read",
                json!({"id": "", "budget": 400}),
                "id: is empty; give a handle such as e42 or p7, or omit it to read the view",
            ),
            (
                "scratch_read",
                json!({"query": " ", "id": null}),
                "query: is empty; give words to find, or omit it to read the view",
            ),
            (
                "scratch_read",
                json!({"budget": -1}),
                "budget: must be a non-negative integer such as 2000, not -1",
            ),
            (
                "scratch_read",
                json!({"budget": 1e9}),
                "budget: 1000000000 exceeds the limit of 20000 tokens; continue with cursor",
            ),
            ("scratch_read", json!([]), "arguments: must be a JSON object"),
            (
                "scratch_forget",
                json!({}),
                "tool: unknown tool \"scratch_forget\"; use one of scratch_read, scratch_add, scratch_update, scratch_complete, scratch_pin, scratch_unpin",
            ),
        ] {
            assert_eq!(Call::parse(name, &arguments).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn empty_tool_argument_counts_as_missing_except_in_updates() {
        let every = json!({"kind": "note", "title": "", "body": "Text", "type": "", "tags": [], "page": "", "ttl_minutes": "", "phase": ""});
        let Ok(Call::AddItem(input)) = Call::parse("scratch_add", &every) else {
            panic!("{every}")
        };
        assert_eq!((input.title, input.phase), (None, None));
        let every = json!({"id": "", "query": "x", "page": "", "cursor": ""});
        let wanted = Read {
            query: Some("x".to_owned()),
            ..Read::default()
        };
        assert_eq!(Call::parse("scratch_read", &every), Ok(Call::Read(wanted)));
        let none = json!({"id": "", "query": "", "page": "", "cursor": ""});
        assert_eq!(Call::parse("scratch_read", &none), Ok(Call::Read(Read::default())));
        let Ok(Call::Update { patch, .. }) = Call::parse("scratch_update", &json!({"id": "e1", "body": ""})) else {
            panic!("no change")
        };
        assert_eq!(patch.body.as_deref(), Some(""));
    }

    #[test]
    fn scratchbook_tools_accept_lenient_argument_forms() {
        let call = Call::parse(
            "scratch_add",
            &json!({"kind": "TASK", "title": "x", "progress": "50%", "tags": "db", "phase": null}),
        );
        let Ok(Call::AddItem(input)) = call else {
            panic!("{call:?}")
        };
        assert_eq!(
            (input.progress, input.tags, input.phase),
            (Some(0.5), vec!["db".to_owned()], None)
        );
        assert_eq!(
            Call::parse("scratch_read", &Value::Null),
            Ok(Call::Read(Read::default()))
        );
        let call = Call::parse("scratch_add", &json!({"kind": "observation", "title": "Only a title"}));
        let Ok(Call::AddObservation(input)) = call else {
            panic!("{call:?}")
        };
        assert_eq!((input.content.as_str(), input.title), ("Only a title", None));
    }
}
