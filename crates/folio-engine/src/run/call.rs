//! The call of a tool that a task makes: its arguments, filled in, unless a person or a limit forbids it.

use serde_json::Value;

use super::action::{Action, CallAction};
use super::approval::GrantedApproval;
use super::call_in_words;
use super::conclude::push_note;
use super::scope::BodyNeeded;
use super::state::Run;
use super::tree::NodeKind;
use crate::node::{NodeId, NodeState};
use crate::plan::{Step, Task, Work};
use crate::result::StopReason;
use crate::spend::Spend;
use crate::template;

impl Run {
    pub(super) fn call(&self, index: usize) -> Action {
        let node = &self.nodes[index];
        let Some(Step::Task(task)) = &node.step else {
            return Action::Record(self.failed_event(index, StopReason::InvalidInput, "it is not a task"));
        };
        // What a person said of it comes first: a call that is not made needs nothing of a budget.
        if let Some(event) = self.rejection_of_call(index) {
            return Action::Record(event);
        }
        match self.call_of(index, task) {
            Ok(call) => match self.check_call_permission(index, call) {
                Ok(call) => Action::Call(Box::new(call)),
                Err(event) => Action::Record(*event),
            },
            Err(Refusal::Lacks(hash)) => Action::Load(hash),
            Err(Refusal::Fails(reason, notes)) => Action::Record(self.failed_event(index, reason, notes)),
        }
    }

    fn call_of(&self, index: usize, task: &Task) -> Result<CallAction, Refusal> {
        let Work::Do(call) = &task.work else {
            return Err(Refusal::Fails(StopReason::InvalidInput, "it is not a call".to_owned()));
        };
        let node = &self.nodes[index];
        // A call that had begun when its driver died is counted already, and what happens to it depends on the effect
        // of its tool (E9.9, E9.12).
        let again = node.state == NodeState::Executing;
        // So is one that a person allowed to be made once more.
        let is_counted = again || self.is_repetition_allowed(index);
        if !is_counted && let Some(reason) = self.refused_by_budget(index, &Spend::TOOL_CALL, false) {
            let mut notes = used_up(reason);
            // They ran out while it waited for another attempt.
            if !node.parked_for.is_empty() {
                push_note(&mut notes, &format!("the last attempt failed: {}", node.parked_for));
            }
            return Err(Refusal::Fails(reason, notes));
        }
        let args = self.filled_args(index, &call.args)?;
        let attempt = if is_counted { node.attempt } else { node.attempt + 1 };
        let writes = self.writes_of(index, &call.tool, &args);
        Ok(CallAction {
            node: node.id,
            attempt,
            again,
            tool: call.tool.clone(),
            args,
            timeout: task.timeout,
            granted: GrantedApproval::Nothing,
            writes,
            limits: self.share_at(index),
        })
    }

    /// The arguments with which the last call of `node` was made, filled in. The journal has them in one short line
    /// only, so they are filled in again; `None` if that needs a text that is not loaded, or does not lead to the line
    /// of the journal, because a plan or a result has changed since then.
    #[must_use]
    pub fn args_of_call(&self, node: NodeId) -> Option<Value> {
        let index = self.index(node).ok()?;
        let Some(Step::Task(task)) = &self.nodes[index].step else {
            return None;
        };
        let Work::Do(call) = &task.work else { return None };
        let args = self.filled_args(index, &call.args).ok()?;
        (call_in_words(&call.tool, &args) == *self.nodes[index].call).then_some(args)
    }

    fn filled_args(&self, index: usize, args: &Value) -> Result<Value, Refusal> {
        // The arguments of a call that a model wants are not templates.
        if self.nodes[index].kind == NodeKind::Action {
            return Ok(args.clone());
        }
        // A name that the check of the plan accepted is missing now only if its step has no result.
        let invalid = |error: template::TemplateError| {
            Refusal::Fails(
                StopReason::InvalidInput,
                format!("its arguments cannot be made: {error}"),
            )
        };
        let references = template::references(args).map_err(invalid)?;
        let scope = self
            .scope(index, &references, Vec::new())
            .map_err(|BodyNeeded(hash)| Refusal::Lacks(hash))?;
        self.templates.render_value(args, &scope).map_err(invalid)
    }
}

/// Why a call is not made now.
enum Refusal {
    /// The output that is kept under this hash has to be read first.
    Lacks(String),
    /// The task fails for this reason, with these notes.
    Fails(StopReason, String),
}

/// The reason why no more calls of tools are made.
pub(super) fn used_up(reason: StopReason) -> String {
    let resource = match reason {
        StopReason::BudgetBytes => "the bytes of journal and pages",
        _ => "the calls of tools",
    };
    format!("{resource} that its budget allows are used up")
}
