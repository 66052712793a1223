//! Turns what a server lists into specifications of tools.

use std::collections::{BTreeMap, HashSet};

use folio_memory::excerpt::cut;
use folio_tools::{Approval, Effect, ToolSpec, schema_problem};
use rmcp::model::{Tool as Listed, ToolAnnotations};
use serde_json::{Value, json};

use crate::settings::McpSettings;
use crate::words::bounded_line;

/// The most tools of one server that are offered. Each is in every prompt of a model that works with tools.
pub(crate) const TOOLS_MAX: usize = 128;
/// The most tools that are read of what one server lists.
const LISTED_MAX: usize = 4_096;
/// The most characters of a tool's name.
const NAME_CHARS_MAX: usize = 96;
/// The most characters of a description that models read.
const DESCRIPTION_CHARS_MAX: usize = 2_000;
/// The most bytes of a schema of arguments.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// The list of a server's tools.
#[derive(Debug, Default)]
pub(crate) struct List {
    /// The tools, each name once.
    pub(crate) tools: Vec<Listed>,
    names: HashSet<String>,
    /// Why other listed tools are left out, in words.
    unreadable: Vec<String>,
}

impl List {
    /// Adds a tool, unless the list is full. Of two with the same name the first counts: only the server knows which
    /// one a call means.
    pub(crate) fn add(&mut self, tool: Listed) {
        if self.names.contains(&*tool.name) {
            self.leave_out(format!(
                "{} is listed twice; the first one counts",
                printable_name(&tool.name)
            ));
        } else if self.is_full() {
            self.leave_out_more();
        } else {
            self.names.insert(tool.name.to_string());
            self.tools.push(tool);
        }
    }

    /// Whether no more tools are read.
    pub(crate) fn is_full(&self) -> bool {
        self.tools.len() >= LISTED_MAX
    }

    /// Records that the server lists more than is read.
    pub(crate) fn leave_out_more(&mut self) {
        self.leave_out(format!(
            "its list has more than {LISTED_MAX} tools, and is read no further"
        ));
    }

    /// Adds what a server lists as a tool, if it can be read as one and the list is not full.
    pub(crate) fn read(&mut self, tool: Value) {
        if self.is_full() {
            return self.leave_out_more();
        }
        let Some(name) = tool.get("name").and_then(Value::as_str).map(printable_name) else {
            return self.leave_out("a tool has no name".to_owned());
        };
        let problem = match tool.get("inputSchema") {
            None => "has no `inputSchema`",
            Some(Value::Object(_)) => "is not defined as the protocol says",
            Some(_) => "has an `inputSchema` that is not an object",
        };
        match serde_json::from_value(tool) {
            Ok(tool) => self.add(tool),
            Err(_) => self.leave_out(format!("{name} {problem}")),
        }
    }

    /// Records, once, why something is not offered.
    pub(crate) fn leave_out(&mut self, reason: String) {
        if self.unreadable.len() < TOOLS_MAX && !self.unreadable.contains(&reason) {
            self.unreadable.push(reason);
        }
    }

    /// Returns the server's definition of each of its tools, by the server's names for them.
    pub(crate) fn definitions(&self) -> BTreeMap<String, Definition> {
        let each = self
            .tools
            .iter()
            .map(|tool| (tool.name.to_string(), Definition::of(tool)));
        each.collect()
    }
}

fn printable_name(name: &str) -> String {
    name.escape_debug().take(NAME_CHARS_MAX).collect()
}

/// A tool as it is offered, and as the server defined it.
#[derive(Debug, Clone)]
pub(crate) struct Offered {
    /// The server's name for it.
    pub(crate) name: String,
    pub(crate) spec: ToolSpec,
    pub(crate) definition: Definition,
}

impl Offered {
    /// The same tool, with what it says of itself as `hide` leaves it. Its name stays: calls need it.
    pub(crate) fn hiding(mut self, hide: fn(&str) -> String) -> Self {
        self.spec.description = hide(&self.spec.description);
        let schemas = [&mut self.spec.schema, &mut self.spec.output];
        schemas.into_iter().flatten().for_each(|schema| hide_in(schema, hide));
        self
    }
}

/// Replaces each text in `schema`, but no key, with what `hide` leaves of it.
fn hide_in(schema: &mut Value, hide: fn(&str) -> String) {
    match schema {
        Value::String(text) => *text = hide(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide_in(item, hide)),
        Value::Object(fields) => fields.values_mut().for_each(|inner| hide_in(inner, hide)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The part of a tool that must not change during a run that was told about the tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    schema: Value,
    annotations: Option<ToolAnnotations>,
}

impl Definition {
    pub(crate) fn of(tool: &Listed) -> Self {
        Self {
            schema: Value::Object((*tool.input_schema).clone()),
            annotations: tool.annotations.clone(),
        }
    }
}

/// Returns the tools of `list` that are offered under the name `server`, and what is left out, in words.
pub(crate) fn offered(server: &str, settings: &McpSettings, list: &List) -> (Vec<Offered>, Vec<String>) {
    let (listed, mut tools) = (&list.tools, Vec::new());
    let mut left_out = list.unreadable.clone();
    for tool in listed.iter().filter(|tool| settings.offers(&tool.name)) {
        if tools.len() == TOOLS_MAX {
            left_out.push(format!(
                "there are more than {TOOLS_MAX}; name the ones that you want in `tools`"
            ));
            break;
        }
        match spec_of(server, settings, tool) {
            Ok(spec) => tools.push(Offered {
                name: tool.name.to_string(),
                spec,
                definition: Definition::of(tool),
            }),
            Err(reason) => left_out.push(reason),
        }
    }
    let names = settings.tools.iter().flatten();
    let missing = names.filter(|tool_name| !listed.iter().any(|tool| tool.name == tool_name.as_str()));
    left_out.extend(missing.map(|name| format!("it has no tool {name}")));
    (tools, left_out)
}

fn spec_of(server: &str, settings: &McpSettings, tool: &Listed) -> Result<ToolSpec, String> {
    let name = &*tool.name;
    let is_name = !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX;
    if !is_name || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        let shown: String = name.escape_debug().take(40).collect();
        return Err(format!("{shown:?} is not a valid name for a tool"));
    }
    let mut schema = Value::Object((*tool.input_schema).clone());
    schema.sort_all_objects();
    match schema.get("type") {
        // Providers refuse a schema that does not say that it is an object.
        None => schema["type"] = json!("object"),
        Some(Value::String(kind)) if kind != "object" => {
            return Err(format!(
                "{name} has an `inputSchema` of the type {kind:?} and not \"object\""
            ));
        }
        Some(_) => {}
    }
    if schema.to_string().len() > SCHEMA_BYTES_MAX {
        return Err(format!("{name} has a schema of more than {SCHEMA_BYTES_MAX} bytes"));
    }
    if let Some(problem) = schema_problem(&schema) {
        let reason = bounded_line(&problem);
        return Err(format!("{name} has a schema that cannot be used: {reason}"));
    }
    let effect = settings
        .effects
        .get(name)
        .copied()
        .unwrap_or_else(|| hinted_effect(tool.annotations.as_ref()));
    let descriptions = [tool.description.as_deref(), tool.title.as_deref()];
    let description = descriptions
        .into_iter()
        .flatten()
        .next()
        .unwrap_or("A tool of an MCP server.");
    let mut spec = ToolSpec::new(
        format!("{server}.{name}"),
        effect,
        cut(description, DESCRIPTION_CHARS_MAX),
    );
    spec.schema = Some(schema);
    spec.output = Some(output_of(tool));
    // Calls of a tool that only reads wait for no others, unless the settings name what it writes.
    let may_write = spec.writes || settings.writes.contains_key(name);
    spec.resources = settings
        .written_by(name)
        .filter(|_| may_write)
        .map(str::to_owned)
        .into_iter()
        .collect();
    spec.approval = if settings.allows(name) {
        Approval::Never
    } else {
        Approval::UnlessAllowed
    };
    Ok(spec)
}

/// Returns the schema of the tool's outputs, with the server's own schema for `structured`.
fn output_of(tool: &Listed) -> Value {
    let mut parts = json!({"text": {"type": "string"}, "parts": {"type": "array"}});
    if let Some(schema) = &tool.output_schema {
        parts["structured"] = Value::Object((**schema).clone());
    }
    json!({"type": "object", "properties": parts})
}

/// Returns the effect of a tool as far as the server states it. It is a hint: it decides what happens to a call whose
/// answer was lost, and never whether a call needs approval (E9.12: unknown is opaque).
fn hinted_effect(annotations: Option<&ToolAnnotations>) -> Effect {
    let Some(hints) = annotations else {
        return Effect::Opaque;
    };
    match (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) {
        (Some(true), ..) => Effect::Read,
        (_, Some(true), _) => Effect::Destructive,
        (_, Some(false), Some(true)) => Effect::Idempotent,
        _ => Effect::Opaque,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(tools: Value) -> List {
        let mut list = List::default();
        let Value::Array(tools) = tools else {
            panic!("no list: {tools}");
        };
        tools.into_iter().for_each(|tool| list.read(tool));
        list
    }

    fn tool(name: &str, annotations: &Value) -> Value {
        json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations})
    }

    #[test]
    fn declared_output_schema_becomes_the_schema_of_structured_output_e9_1() {
        let answers = json!({"type": "object", "properties": {"rows": {"type": "array"}}});
        let tools = listed(json!([{"name": "look", "inputSchema": {"type": "object"}, "outputSchema": answers}]));
        let (offered, _) = offered("desk", &McpSettings::of_command(vec!["x".to_owned()]), &tools);
        let output = offered[0].spec.output.as_ref().unwrap_or(&Value::Null);
        assert_eq!(output["properties"]["structured"], answers);
        assert_eq!(output["properties"]["text"]["type"], "string");
    }

    #[test]
    fn secret_in_what_a_tool_says_of_itself_is_hidden() {
        let schema = json!({"type": "object", "properties": {"id": {"description": "not k3y-secret"}}});
        let tools = listed(json!([{"name": "look", "description": "Uses k3y-secret.", "inputSchema": schema}]));
        let (offered, _) = offered("desk", &McpSettings::of_command(vec!["x".to_owned()]), &tools);
        let hidden = offered[0].clone().hiding(|text| text.replace("k3y-secret", "[hidden]"));
        assert_eq!(hidden.spec.description, "Uses [hidden].");
        let schema = hidden.spec.schema.unwrap_or_default();
        assert_eq!(schema["properties"]["id"]["description"], "not [hidden]");
        assert_eq!(hidden.definition, offered[0].definition);
    }

    #[test]
    fn tool_effect_comes_from_settings_then_hints_then_opaque_e9_12() {
        let settings = McpSettings {
            effects: [("told".to_owned(), Effect::Pure)].into(),
            ..McpSettings::of_command(vec!["x".to_owned()])
        };
        let tools = listed(json!([
            {"name": "silent", "inputSchema": {"type": "object"}},
            tool("empty", &json!({})),
            tool("reads", &json!({"readOnlyHint": true})),
            tool("repeats", &json!({"idempotentHint": true})),
            tool("adds", &json!({"destructiveHint": false})),
            tool("puts", &json!({"destructiveHint": false, "idempotentHint": true})),
            tool("takes", &json!({"destructiveHint": true, "idempotentHint": true})),
            tool("told", &json!({"destructiveHint": true})),
        ]));
        let (tools, left_out) = offered("x", &settings, &tools);
        assert_eq!(left_out, Vec::<String>::new());
        let effects: Vec<Effect> = tools.iter().map(|tool| tool.spec.effect).collect();
        let [pure, read, idempotent, opaque, destructive] = [
            Effect::Pure,
            Effect::Read,
            Effect::Idempotent,
            Effect::Opaque,
            Effect::Destructive,
        ];
        assert_eq!(
            effects,
            [opaque, opaque, read, opaque, opaque, idempotent, destructive, pure]
        );
        // A hint never spares anybody the question.
        let asks: Vec<&str> = tools
            .iter()
            .filter(|tool| tool.spec.approval == Approval::UnlessAllowed)
            .map(|tool| &*tool.name)
            .collect();
        assert_eq!(asks, ["silent", "empty", "reads", "repeats", "adds", "puts", "takes"]);
    }

    #[test]
    fn resources_that_a_tool_writes_come_from_the_settings_e9_15() {
        let text = "command = ['x']\neffects = {look = 'read'}\nwrites = {put = 'board/{id}', free = '', '*' = 'desk'}";
        let settings: McpSettings = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let names = ["put", "free", "other", "look"].map(|name| tool(name, &Value::Null));
        let (tools, _) = offered("x", &settings, &listed(json!(names)));
        let written: Vec<&[String]> = tools.iter().map(|tool| &*tool.spec.resources).collect();
        let nothing: &[String] = &[];
        assert_eq!(
            written,
            [
                &["board/{id}".to_owned()][..],
                nothing,
                &["desk".to_owned()][..],
                nothing
            ]
        );
    }

    #[test]
    fn unusable_listed_tools_are_left_out_with_a_reason() {
        let settings = McpSettings {
            tools: Some(
                ["a", "a b", "bad", "gone", "huge", "expressions"]
                    .map(str::to_owned)
                    .to_vec(),
            ),
            ..McpSettings::of_command(vec!["x".to_owned()])
        };
        let huge = "x".repeat(SCHEMA_BYTES_MAX);
        // Every call would be refused.
        let expressions: BTreeMap<String, Value> = (0..250)
            .map(|at| (format!("a{at}"), json!({"type": "string", "pattern": "x"})))
            .collect();
        let tools = listed(json!([
            tool("a", &Value::Null), tool("a", &Value::Null), tool("a b", &Value::Null), tool("not wanted", &Value::Null),
            {"name": "bare"}, {"inputSchema": {}}, {"name": "bad", "inputSchema": {"type": 5}},
            {"name": "huge", "inputSchema": {"type": "object", "description": huge}},
            {"name": "list", "inputSchema": ["a"]}, {"name": "list", "inputSchema": ["a"]},
            {"name": "expressions", "inputSchema": {"type": "object", "properties": expressions}},
        ]));
        let (tools, left_out) = offered("x", &settings, &tools);
        assert_eq!(tools.iter().map(|tool| &*tool.spec.name).collect::<Vec<_>>(), ["x.a"]);
        let parts = [
            "a is listed twice; the first one counts",
            "bare has no `inputSchema`",
            "a tool has no name",
            "list has an `inputSchema` that is not an object",
            "\"a b\" is not a valid name",
            "bad has a schema",
            "huge has a schema",
            "expressions has a schema that cannot be used: it has more than 200 regular expressions",
            "no tool gone",
        ];
        assert_eq!(left_out.len(), parts.len(), "{left_out:?}");
        for (said, part) in left_out.iter().zip(parts) {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn list_of_very_many_tools_is_read_up_to_its_limit_and_each_name_is_looked_up_once() {
        let many: Vec<Value> = (0..300_000).map(|n| tool(&format!("t{n}"), &Value::Null)).collect();
        let mut list = List::default();
        many.into_iter().for_each(|tool| list.read(tool));
        assert_eq!(list.tools.len(), LISTED_MAX);
        assert!(list.is_full());
        assert_eq!(
            list.unreadable,
            ["its list has more than 4096 tools, and is read no further"]
        );
    }

    #[test]
    fn tools_beyond_the_limit_of_a_server_are_left_out() {
        let settings = McpSettings::of_command(vec!["x".to_owned()]);
        let many: Vec<Value> = (0..TOOLS_MAX + 1)
            .map(|n| tool(&format!("t{n}"), &Value::Null))
            .collect();
        let (tools, left_out) = offered("x", &settings, &listed(json!(many)));
        assert_eq!(
            left_out,
            ["there are more than 128; name the ones that you want in `tools`"]
        );
        assert_eq!(tools.len(), TOOLS_MAX);
        // Those that come first stay.
        let last = tools.last().map(|tool| &*tool.spec.name);
        assert_eq!(last, Some(&*format!("x.t{}", TOOLS_MAX - 1)));
    }
}
