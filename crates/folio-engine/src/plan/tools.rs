//! Which tools the executor of a step may use (`tools`): names of tools, or `SERVER.*` for all tools of a server.

use std::sync::Arc;

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

/// Whether `name`, which may be a family, has a tool in common with `names`.
pub(super) fn has_some_of(names: &[String], name: &str) -> bool {
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
}
