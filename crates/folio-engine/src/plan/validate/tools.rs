//! The tools that steps may use: they exist, and no step has more than the step around it.

use super::Validator;
use crate::plan::cursor::At;
use crate::plan::errors::code;
use crate::plan::nearest::listed;
use crate::plan::reads::Segment;
use crate::plan::spanned::Tree;
use crate::plan::tools::{allows, family_of};
use crate::plan::{Call, Graph, Step, Task, ToolNames, Work};
use crate::run::EXECUTOR_TOOLS;

/// The most tools that one step names.
const TOOLS_MAX: usize = 256;

impl<'a> Validator<'a> {
    /// Checks the `tools` of `step`, and the tool that it calls itself.
    pub(super) fn tools(&mut self, step: &Step, origin: &At<'a>) {
        if let Some(names) = step.tools() {
            self.tool_names(names, origin);
        }
        let Step::Task(task) = step else { return };
        if let Work::Do(call) = &task.work {
            self.call_within(call, origin);
            if let Some(at) = origin.given("tools") {
                let message = "`tools` is for tasks of models; this task calls a tool itself";
                self.faults
                    .add(&at, code::BAD_VALUE, message)
                    .with_hint("leave it out, or write it at the step around it");
            }
        }
    }

    fn tool_names(&mut self, names: &ToolNames, origin: &At<'a>) {
        let tools_at = origin.follow_near(&[Segment::Key("tools")]);
        if names.len() > TOOLS_MAX {
            let message = format!("`tools` names {}; at most {TOOLS_MAX} are allowed", names.len());
            self.faults.add(&tools_at, code::OVER_CAP, message);
            return;
        }
        for (position, name) in names.iter().enumerate() {
            let at = tools_at.follow_near(&[Segment::Index(position)]);
            // Something else than a text was reported already, and executors always have their own tools.
            if !matches!(at.node.tree, Tree::String(_)) || EXECUTOR_TOOLS.contains(&name.as_str()) {
                continue;
            }
            if !self.has_tool(name) {
                let tools = self.known.tools.iter().flat_map(|tools| tools.keys());
                let is_pattern = name.contains('*') && family_of(name).is_none();
                let hint = is_pattern
                    .then(|| "write the names of tools, or `SERVER.*` for all tools of a server".to_owned())
                    .or_else(|| self.suggest_name(name, tools.map(String::as_str)))
                    .or_else(|| self.hint_on_server(name))
                    .or_else(|| self.tools_in_words());
                self.faults
                    .add(&at, code::UNKNOWN_TOOL, format!("unknown tool {name:?}"))
                    .hint = hint;
            } else if let Some(around) = self.narrowest_without(name) {
                let message = format!("the step around it may not use the tool {name:?}");
                self.faults.add(&at, code::TOOL_BEYOND, message).with_hint(around);
            }
        }
    }

    /// Reports a call of a tool that is not among those of a step around it.
    fn call_within(&mut self, call: &Call, origin: &At<'a>) {
        let is_unknown = self
            .known
            .tools
            .as_ref()
            .is_some_and(|tools| !tools.contains_key(&call.tool));
        if call.tool.is_empty() || is_unknown {
            return;
        }
        if let Some(around) = self.narrowest_without(&call.tool) {
            let at = origin.follow_near(&[Segment::Key("do"), Segment::Key("tool")]);
            let message = format!("the step around it may not use the tool {:?}", call.tool);
            self.faults.add(&at, code::TOOL_BEYOND, message).with_hint(around);
        }
    }

    /// Reports that the executor `name` of `task`, whose tools are limited, is a program, which has tools of its own.
    pub(super) fn program_within(&mut self, name: &str, task: &Task, origin: &At<'a>) {
        let is_limited = task.tools.is_some() || !self.tools_around.is_empty();
        if is_limited && matches!(task.work, Work::Model) && self.known.programs.contains(name) {
            let at = origin.follow_near(&[Segment::Key("executor")]);
            let message = format!("{name:?} has tools of its own, and the tools of this step are limited");
            self.faults
                .add(&at, code::BAD_VALUE, message)
                .with_hint("leave out `executor`, or `tools` here and at the steps around it");
        }
    }

    /// Whether there is such a tool, or a server of that name.
    fn has_tool(&self, name: &str) -> bool {
        let Some(tools) = &self.known.tools else { return true };
        let Some(family) = family_of(name) else {
            return tools.contains_key(name);
        };
        let servers = self.known.servers.as_ref();
        servers.is_some_and(|servers| servers.contains(family.trim_end_matches('.')))
            || tools.keys().any(|tool| tool.starts_with(family))
    }

    /// The tools of the innermost step around that does not have `name`, as a hint.
    fn narrowest_without(&self, name: &str) -> Option<String> {
        let names = self.tools_around.iter().rev().find(|around| !allows(around, name))?;
        Some(if names.is_empty() {
            "it has no tools".to_owned()
        } else {
            format!("it has {}", listed(names.iter().map(String::as_str)))
        })
    }

    /// The tools that there are, as a hint for models.
    fn tools_in_words(&self) -> Option<String> {
        let tools = self.known.tools.as_ref().filter(|_| self.is_model_written())?;
        let is_allowed = |name: &&str| self.narrowest_without(name).is_none();
        let names = tools.keys().map(String::as_str).filter(is_allowed);
        Some(format!("the tools are {}", listed(names)))
    }

    /// Adds the `tools` of the groups in `graph` around its node `at`, the outermost first.
    pub(super) fn enter_groups(&mut self, graph: &Graph, at: usize) {
        let groups = std::iter::successors(graph.nodes[at].parent, |at| graph.nodes[*at].parent);
        let mut groups: Vec<&Step> = groups.map(|group| &graph.nodes[group].step).collect();
        groups.reverse();
        groups.into_iter().for_each(|group| self.enter_tools(group));
    }

    /// Adds the `tools` of `step`; a list that is too long was reported already, and limits nothing.
    pub(super) fn enter_tools(&mut self, step: &Step) {
        let names = step.tools().filter(|names| names.len() <= TOOLS_MAX);
        self.tools_around.extend(names.cloned());
    }
}
