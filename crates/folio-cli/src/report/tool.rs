//! The existing tools, what was stored of a tool's answer, and what a tool may see.

use std::fmt::{self, Write as _};

use folio::tools::{Approval, Effect, ToolSpec};
pub(crate) use folio_server::wire::{Seen, TakenIn};
use serde::Serialize;
use serde_json::Value;

use super::first_line;
use super::list::List;
use crate::output::{Report, Style};

impl Report for TakenIn {
    /// The stored items; what was not stored is reported beside the answer.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.stored.iter().try_for_each(|stored| stored.item.text(out, style))
    }
}

impl Report for Seen {
    /// One line each.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        for item in &self.scratch_page_context {
            let handle = style.strong(format_args!("{:<5}", item.handle.to_string()));
            let type_name = item.type_name.as_deref().unwrap_or("observation");
            writeln!(out, "{handle} [{type_name}] {}", first_line(&item.content, 160))?;
        }
        Ok(())
    }
}

/// The report on a login to a server.
#[derive(Debug, Serialize)]
pub(crate) struct LoggedIn {
    pub(crate) server: String,
    /// The scopes of the login, as far as the server stated them.
    pub(crate) scopes: Vec<String>,
}

impl Report for LoggedIn {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        let scopes = match self.scopes.as_slice() {
            [] => String::new(),
            scopes => format!(" ({})", scopes.join(" ")),
        };
        writeln!(out, "logged in to {}{scopes}", self.server)
    }
}

/// The report on a logout from a server.
#[derive(Debug, Serialize)]
pub(crate) struct LoggedOut {
    pub(crate) server: String,
    pub(crate) was_logged_in: bool,
}

impl Report for LoggedOut {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        match self.was_logged_in {
            true => writeln!(out, "logged out of {}", self.server),
            false => writeln!(out, "was not logged in to {}", self.server),
        }
    }
}

/// The tools that a task can call. They do not depend on any commit: `as_of` is 0.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct ToolsShape {
    pub(crate) tools: List<ToolShape>,
    /// Whether people see the full description of each tool, not one line.
    #[serde(skip)]
    pub(crate) in_full: bool,
}

/// A tool.
#[derive(Debug, Serialize)]
pub(crate) struct ToolShape {
    name: String,
    /// What a call changes, which decides what happens to an interrupted call.
    effect: Effect,
    /// Whether a call needs approval unless the run allows it.
    asks: bool,
    description: String,
    /// Arguments of which a call gives exactly one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    one_of: Vec<String>,
    /// The JSON Schema of its arguments.
    args: Value,
}

impl ToolShape {
    pub(crate) fn of(spec: &ToolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            effect: spec.effect,
            asks: spec.approval == Approval::UnlessAllowed,
            description: spec.about(),
            one_of: spec.one_of.clone(),
            args: spec.args_schema(),
        }
    }
}

impl Report for ToolsShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let items = &self.tools.items;
        if self.in_full {
            return items.iter().try_for_each(|tool| in_full(tool, out, style));
        }
        let width = items.iter().map(|tool| tool.name.chars().count()).max();
        let width = width.unwrap_or_default().min(40);
        items.iter().try_for_each(|tool| line(tool, width, out, style))
    }
}

/// A line of the table of tools, with a name column of `width`.
fn line(tool: &ToolShape, width: usize, out: &mut String, style: Style) -> fmt::Result {
    let name = style.strong(format_args!("{:<width$}", tool.name));
    let approval = if tool.asks { "asks" } else { "" };
    let (effect, about) = (effect_word(tool.effect), first_line(&tool.description, 80));
    writeln!(out, "{name}  {effect:<11} {approval:<4}  {about}")
}

/// The full description of a tool.
fn in_full(tool: &ToolShape, out: &mut String, style: Style) -> fmt::Result {
    let approval = if tool.asks { ", asks" } else { "" };
    writeln!(
        out,
        "{}  {}{approval}",
        style.strong(&tool.name),
        effect_word(tool.effect)
    )?;
    for line in tool.description.trim().lines() {
        writeln!(out, "{}", format!("  {line}").trim_end())?;
    }
    arguments(&tool.args, out, style)
}

fn effect_word(effect: Effect) -> &'static str {
    match effect {
        Effect::Pure => "pure",
        Effect::Read => "read",
        Effect::Idempotent => "idempotent",
        Effect::Guarded => "guarded",
        Effect::Opaque => "opaque",
        Effect::Destructive => "destructive",
    }
}

/// A line for each argument that `schema` names.
fn arguments(schema: &Value, out: &mut String, style: Style) -> fmt::Result {
    let needed = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (name, about) in schema["properties"].as_object().into_iter().flatten() {
        let kind = about["type"]
            .as_str()
            .map(|kind| format!(" ({kind})"))
            .unwrap_or_default();
        let must = if needed.iter().any(|one| one == name) {
            ", needed"
        } else {
            ""
        };
        let description = about["description"].as_str().unwrap_or_default();
        writeln!(
            out,
            "  {}{kind}{must}: {}",
            style.strong(name),
            first_line(description, 200)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_tool_description_is_indented() {
        let spec = ToolSpec::new("a", Effect::Read, "Looks.\n\nAnd tells.\n");
        let mut out = String::new();
        in_full(&ToolShape::of(&spec), &mut out, Style::default()).unwrap();
        assert_eq!(out, "a  read\n  Looks.\n\n  And tells.\n");
    }
}
