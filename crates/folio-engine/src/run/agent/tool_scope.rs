//! Which tools an executor may use for a task: those that its plan names (`tools`), never more than what is around it
//! may use (E9.1).

use std::sync::Arc;

use super::Equipment;
use super::offer::Offered;
use crate::plan::{RESULT_READ, ToolNames, names_tool};
use crate::run::state::Run;
use crate::talk::ToolOffer;

/// The tools that all of these lists name; without a list, all tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::run) struct ToolScope(Vec<ToolNames>);

impl ToolScope {
    /// The same scope, narrowed to `names`.
    pub(in crate::run) fn within(&self, names: Option<&ToolNames>) -> Self {
        let mut lists = self.0.clone();
        lists.extend(names.cloned());
        Self(lists)
    }

    /// Whether it is narrower than all tools.
    pub(in crate::run) fn is_narrow(&self) -> bool {
        !self.0.is_empty()
    }

    /// The lists, that of the outermost step first.
    pub(in crate::run) fn into_lists(self) -> Vec<ToolNames> {
        self.0
    }

    /// Those of `tools` that are in it.
    pub(super) fn of<'t>(&self, tools: &'t [ToolOffer]) -> Vec<&'t ToolOffer> {
        let names_it = |names: &ToolNames, tool: &ToolOffer| names.iter().any(|name| names_tool(name, &tool.name));
        let names_some = |names: &ToolNames| tools.iter().any(|tool| names_it(names, tool));
        let is_in = |tool: &&ToolOffer| {
            let mut lists = self.0.iter();
            lists.all(|names| names_it(names, tool) || tool.name == RESULT_READ && names_some(names))
        };
        tools.iter().filter(is_in).collect()
    }
}

impl Run {
    /// Which tools may be used for node `index` and what is below it.
    pub(in crate::run) fn tool_scope(&self, index: usize) -> ToolScope {
        let steps = self
            .self_and_ancestors(index)
            .filter_map(|at| self.nodes[at].step.as_ref());
        let mut lists: Vec<ToolNames> = steps.filter_map(|step| step.tools().cloned()).collect();
        lists.reverse();
        ToolScope(lists)
    }

    /// The tools of the run that the executor of node `index` may call.
    pub(super) fn tools_at(&self, index: usize) -> Vec<&ToolOffer> {
        let tools = self.equipment.as_deref().map_or(&[][..], |equipment| &equipment.tools);
        self.tool_scope(index).of(tools)
    }

    /// What the model of the executor of node `index` is told about its tools.
    pub(super) fn offered_at(&self, index: usize, equipment: &Equipment) -> Arc<Offered> {
        let executor = self.executor_of(index).map(|(_, executor)| executor);
        equipment.offered(executor, &self.tool_scope(index))
    }

    /// Whether an executor of node `index` may call any tool of the run.
    pub(super) fn has_tools_at(&self, index: usize) -> bool {
        let scope = self.tool_scope(index);
        !scope.is_narrow() || !self.tools_at(index).is_empty()
    }
}
