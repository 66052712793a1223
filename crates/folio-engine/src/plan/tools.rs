//! Which tools the executor of a step may use (`tools`): names of tools, or `SERVER.*` for all tools of a server.

use std::sync::Arc;

use crate::run::EXECUTOR_TOOLS;

/// The tool that reads the rest of what is too long for a prompt: whoever has tools has it, too.
pub(crate) const RESULT_READ: &str = "result_read";

/// The tools that a step names.
pub type ToolNames = Arc<[String]>;

/// Whether `name` is the name of `tool` or, as `SERVER.*`, of its family.
#[must_use]
pub fn names_tool(name: &str, tool: &str) -> bool {
    match family_of(name) {
        Some(family) => tool.starts_with(family),
        None => name == tool,
    }
}

/// `SERVER.` of `SERVER.*`.
pub(super) fn family_of(name: &str) -> Option<&str> {
    name.strip_suffix('*').filter(|family| family.ends_with('.'))
}

/// Whether a step with the tools `names` may use `name`, or if it is a family some of it.
pub(super) fn allows(names: &[String], name: &str) -> bool {
    let has_tools = || names.iter().any(|name| !EXECUTOR_TOOLS.contains(&name.as_str()));
    has_some_of(names, name) || name == RESULT_READ && has_tools()
}

/// Whether `name`, which may be a family, has a tool in common with `names`.
fn has_some_of(names: &[String], name: &str) -> bool {
    names.iter().any(|around| match (family_of(around), family_of(name)) {
        (Some(around), Some(own)) => around.starts_with(own) || own.starts_with(around),
        (None, Some(own)) => around.starts_with(own),
        (_, None) => names_tool(around, name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_names_only_the_tools_of_its_server() {
        for (name, tool, is_named) in [
            ("maps.route", "maps.route", true),
            ("maps.route", "maps.route2", false),
            ("files.*", "files.read", true),
            ("files.*", "files.deep.read", true),
            ("files.*", "files2.read", false),
            ("files.*", "files", false),
            ("s*", "shell", false),
            ("*", "shell", false),
        ] {
            assert_eq!(names_tool(name, tool), is_named, "{name} {tool}");
        }
    }

    #[test]
    fn families_have_tools_in_common_if_one_is_part_of_the_other() {
        let names = ["grep", "desk.*", "maps.route"].map(str::to_owned);
        for (name, is_shared) in [
            ("grep", true),
            ("read", false),
            ("desk.a", true),
            ("desk.*", true),
            ("desk.deep.*", true),
            ("maps.*", true),
            ("maps.route", true),
            ("maps.other", false),
            ("mail.*", false),
        ] {
            assert_eq!(has_some_of(&names, name), is_shared, "{name}");
        }
        assert!(!has_some_of(&[], "grep"));
    }

    #[test]
    fn tool_that_reads_the_rest_is_beside_any_other() {
        for (names, name, is_allowed) in [
            (&["grep"][..], "result_read", true),
            (&["desk.*"], "result_read", true),
            (&["result_read"], "result_read", true),
            (&["grep"], "read", false),
            (&["finish"], "result_read", false),
            (&[], "result_read", false),
        ] {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            assert_eq!(allows(&names, name), is_allowed, "{names:?} {name}");
        }
    }
}
