//! How a node that is not a call begins: it is expanded, unless a limit forbids it.

use serde_json::Value;

use super::action::Action;
use super::agent::repair::too_deep_to_keep;
use super::group_needs::{Fits, MinimumNeeds};
use super::scope::BodyNeeded;
use super::state::Run;
use super::tree::NodeKind;
use crate::event::{Event, SetAside};
use crate::plan::{self, ForEach, Step, Work};
use crate::result::StopReason;
use crate::template;

impl Run {
    /// The action that opens a node that is not a call.
    pub(super) fn opening(&self, index: usize) -> Action {
        let node = &self.nodes[index];
        match &node.step {
            Some(Step::ForEach(for_each)) => self.opening_of_list(index, for_each),
            Some(Step::Parallel(_)) => self.fanned_out(index, Vec::new(), self.needs_of_members(index)),
            Some(Step::Task(task)) => match &task.work {
                Work::Plan(_) => self.opening_of_plan(index),
                Work::Model | Work::Do(_) => Action::Record(self.without_model(index)),
            },
            None if node.kind == NodeKind::Model => Action::Record(self.without_model(index)),
            None | Some(Step::Sequence(_)) => self.expanded(index, Vec::new(), None),
        }
    }

    fn expanded(&self, index: usize, items: Vec<Value>, set_aside: Option<SetAside>) -> Action {
        Action::Record(Event::Expanded {
            node: self.nodes[index].id,
            items,
            set_aside,
            limits: self.share_at(index),
        })
    }

    /// Opens a group or a list. What all of it needs is set aside before its first member begins; otherwise none
    /// begins.
    fn fanned_out(&self, index: usize, items: Vec<Value>, needs: MinimumNeeds) -> Action {
        match self.fits_group(index, needs) {
            Fits::Freely => self.expanded(index, items, None),
            Fits::With(set_aside) => self.expanded(index, items, Some(set_aside)),
            Fits::Not(reason, notes) => Action::Record(self.failed_event(index, reason, notes)),
        }
    }

    fn opening_of_plan(&self, index: usize) -> Action {
        let (level, max_level) = self.plan_level(index, self.limits.depth_max);
        if level > max_level {
            let notes = format!("its plan would be level {level} of plans within plans; the limit is {max_level}");
            return Action::Record(self.failed_event(index, StopReason::BudgetDepth, notes));
        }
        let new_nodes = self.count_new_nodes(index, 0);
        match self.over_nodes_by(index, new_nodes) {
            Some(exceeded) => Action::Record(self.over_nodes(index, new_nodes, exceeded)),
            None => self.expanded(index, Vec::new(), None),
        }
    }

    fn opening_of_list(&self, index: usize, for_each: &ForEach) -> Action {
        let items = match self.items_of(index, for_each) {
            Ok(Ok(items)) => items,
            Ok(Err(why)) => {
                let notes = format!("its list cannot be made: {why}");
                return Action::Record(self.failed_event(index, StopReason::InvalidInput, notes));
            }
            Err(BodyNeeded(hash)) => return Action::Load(hash),
        };
        let of_run = self.limits.items_max.unwrap_or(u32::MAX);
        let own = self.least_around(index, of_run, |budget| budget.items);
        let max = for_each.max_items.min(own) as usize;
        let count = items.len();
        if count > max {
            let limit_name = if own < for_each.max_items {
                "the `items` of the budget"
            } else {
                "`max_items`"
            };
            let notes = format!("{count} items are more than {limit_name}, {max}; none was begun");
            return Action::Record(self.failed_event(index, StopReason::BudgetChildren, notes));
        }
        let new_nodes = self.count_new_nodes(index, count);
        if let Some(exceeded) = self.over_nodes_by(index, new_nodes) {
            return Action::Record(self.over_nodes(index, new_nodes, exceeded));
        }
        let needs = self.needs_of_items(index, for_each, &items);
        self.fanned_out(index, items, needs)
    }

    /// The items of the list `index`, or why there is no such list.
    fn items_of(&self, index: usize, for_each: &ForEach) -> Result<Result<Vec<Value>, String>, BodyNeeded> {
        let references = match &for_each.over {
            Value::String(text) if !template::is_template(text) => template::references_of_expression(text),
            other => template::references(other),
        };
        let scope = self.scope(index, &references.unwrap_or_default(), Vec::new())?;
        Ok(match self.templates.eval_list(&for_each.over, &scope) {
            Ok(items) => items.iter().find_map(too_deep_to_keep).map_or(Ok(items), Err),
            Err(error) => Err(error.to_string()),
        })
    }

    /// The number of nodes that are created when node `index` opens; `items` is the length of its list.
    pub(super) fn count_new_nodes(&self, index: usize, items: usize) -> usize {
        match &self.nodes[index].step {
            // The whole body is created at once for each item.
            Some(Step::ForEach(for_each)) => {
                items.saturating_mul(plan::count_initial_nodes(std::slice::from_ref(&for_each.body)))
            }
            Some(Step::Task(task)) => match &task.work {
                Work::Plan(own) => plan::count_initial_nodes(&own.steps),
                Work::Model | Work::Do(_) => 0,
            },
            None | Some(Step::Parallel(_) | Step::Sequence(_)) => 0,
        }
    }

    fn without_model(&self, index: usize) -> Event {
        let notes = "it has neither `do:` nor `plan:`, and no model is configured to decide what to do";
        self.failed_event(index, StopReason::Unsatisfiable, notes)
    }

    fn over_nodes(&self, index: usize, added: usize, (used, limit): (usize, u32)) -> Event {
        let nodes = if added == 1 { "node" } else { "nodes" };
        let notes = format!("{added} more {nodes} beside {used} would be more than the budget of {limit}");
        self.failed_event(index, StopReason::BudgetNodes, notes)
    }
}
