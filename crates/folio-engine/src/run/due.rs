//! What a run needs done now: derived from its state, never stored.

use std::collections::{BTreeMap, BTreeSet};

use folio_memory::Timestamp;
use folio_memory::excerpt::cut;
use serde_json::Value;

use super::agent::repair::too_deep_to_keep;
use super::agent::{AskAction, CompactAction, DEFAULT, read_steps};
use super::aggregate::Aggregation;
use super::approval::GrantedApproval;
use super::conclude::{CHANGES_NOTHING, MAY_HAVE_CHANGED, push_note};
use super::criteria::{CheckAction, spend_of};
use super::narrow::Lanes;
use super::purses::Fits;
use super::resources::Ahead;
use super::scope::BodyNeeded;
use super::state::Run;
use super::tree::NodeKind;
use crate::event::Event;
use crate::node::{NodeId, NodeState};
use crate::plan::{self, Step, Task, Work};
use crate::result::{NodeResult, Outcome, StopReason};
use crate::spend::{Allowance, Spend};
use crate::talk::{ModelRole, Purpose};
use crate::template;

/// Something that a run needs done now.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Record this event: it follows from what is known, and nothing has to be done for it.
    Record(Event),
    /// Record that the call begins; once that is committed, make the call.
    Call(Box<CallAction>),
    /// Record that a model is asked; once that is committed, ask it, and record what [`Run::model_answered`] returns.
    Ask(Box<AskAction>),
    /// Look up what memory holds for this task, and record it as [`Event::Briefed`].
    Brief(NodeId),
    /// Offload the beginning of the conversation, and record the text that replaces it as [`Event::Compacted`]. If a
    /// compactor is asked, record that first ([`CompactAction::compacting`]), and begin once it is committed.
    Compact(Box<CompactAction>),
    /// Make these checks, then record what [`Run::check_findings_event`] returns. If commands are among them, record
    /// that first ([`CheckAction::begins`]), and begin once it is committed.
    Verify(Box<CheckAction>),
    /// The output that is kept under this hash has to be read first. [`Run::lacking`] names all such outputs: do
    /// nothing else of this answer before all of them were supplied and the run was asked again, so that the order of
    /// events does not depend on what was cached.
    Load(String),
    /// Stop the call of this node, and record how it ended. Due until then.
    Stop(NodeId),
}

impl Action {
    /// Whether it is a call, which counts against the limit of calls under way.
    #[must_use]
    pub fn uses_call_slot(&self) -> bool {
        match self {
            Self::Call(_) | Self::Ask(_) => true,
            Self::Compact(compact) => compact.reserved.is_some(),
            Self::Verify(check) => check.commands() > 0,
            Self::Record(_) | Self::Brief(_) | Self::Load(_) | Self::Stop(_) => false,
        }
    }
}

/// A call that has to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct CallAction {
    /// The node that the call is for.
    pub node: NodeId,
    /// The number of the attempt, from 1. A repeated call keeps its number if the driver died while it was under way.
    pub attempt: u32,
    /// Whether it had begun before, in a process that died.
    pub again: bool,
    /// The name of the tool.
    pub tool: String,
    /// The arguments, filled in.
    pub args: Value,
    /// How long it may take.
    pub timeout: Option<std::time::Duration>,
    /// What a person approved for it: a call that was approved is made even if the run was not granted what it needs.
    pub granted: GrantedApproval,
    /// The names of the resources that it writes (E9.15).
    pub writes: Vec<String>,
    /// What the task's share of the limits around it amounts to, if it has a share and begins with this call (E9.1).
    pub limits: Option<Box<Allowance>>,
}

impl CallAction {
    /// The event that records the start of the call.
    #[must_use]
    pub fn started(&self) -> Event {
        Event::Started {
            node: self.node,
            attempt: self.attempt,
            call: self.in_words(),
            writes: self.writes.clone(),
            limits: self.limits.clone(),
        }
    }

    /// The call in one line that a person can read, at most 300 characters.
    #[must_use]
    pub fn in_words(&self) -> String {
        call_in_words(&self.tool, &self.args)
    }
}

/// A call in one line that a person can read, at most 300 characters.
pub(crate) fn call_in_words(tool: &str, args: &Value) -> String {
    let args = match args {
        Value::Object(map) => map
            .iter()
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .map(|(name, value)| {
                let text = value
                    .as_str()
                    .map_or_else(|| shortened_json(value), |t| shortened(t, 80));
                format!(" {name}={text}")
            })
            .collect(),
        Value::Null => String::new(),
        other => format!(" {}", shortened_json(other)),
    };
    shortened(&format!("{tool}{args}"), 300)
}

/// A JSON text of at most about 80 characters, made without serializing a large value first.
fn shortened_json(value: &Value) -> String {
    match value {
        Value::Array(items) if items.len() > 8 => format!("[{} items]", items.len()),
        Value::Array(items) if items.iter().any(|i| i.is_array() || i.is_object()) => {
            format!("[{} items]", items.len())
        }
        Value::Object(map) => format!(
            "{{{}}}",
            Vec::from_iter(
                map.keys()
                    .map(String::as_str)
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .take(8)
            )
            .join(", ")
        ),
        other => shortened(&other.to_string(), 80),
    }
}

fn shortened(text: &str, max: usize) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    cut(&printable.take(max + 1).collect::<String>(), max)
}

/// The most characters that a note quotes of a question.
const NOTE_CHARS: usize = 160;
/// The most actions of one kind in one answer. Expansions come in bursts; this limit keeps an answer small.
const ACTIONS_MAX: usize = 1_024;
/// The most bytes of the `for_each` lists in one answer, and of large outputs that were read for its events; the next
/// answer has the rest. They are in memory together, and the lists are written together.
const LISTED_MAX: u64 = 16 * 1024 * 1024;

impl Run {
    /// The actions that are due at `now`, with room for `slots` more calls. Empty if there is nothing to do but wait.
    ///
    /// Ask again after each [`Action::Record`] was applied: it may have made others due. A node whose call is under way
    /// in this process is not returned again; after a crash it is, once [`Event::Resumed`] was recorded.
    #[must_use]
    pub fn due(&self, now: Timestamp, slots: usize) -> Vec<Action> {
        if self.is_empty() || self.result().is_some() {
            return Vec::new();
        }
        if self.time.deadline_at(now).is_some_and(|deadline| now >= deadline) && self.nodes[0].cancel.is_none() {
            return vec![Action::Record(Event::CancelRequested {
                node: None,
                by: Self::DEADLINE.to_owned(),
            })];
        }
        if let Some(event) = self.own_deadline_event(now) {
            return vec![Action::Record(event)];
        }
        let read_before = self.bodies.begin_due_query();
        let mut actions: Vec<Action> = self
            .skipped
            .iter()
            .filter(|index| !self.is_inherited(**index))
            .take(ACTIONS_MAX)
            .map(|index| Action::Record(self.skipped_event(*index)))
            .collect();
        let held_back = self.held_back();
        let skipping = held_back.iter().take(ACTIONS_MAX);
        actions.extend(skipping.map(|index| Action::Record(self.skipped_event(*index))));
        actions.extend(self.inheriting().take(ACTIONS_MAX));
        let settled = self.settled.iter();
        // Recording these events makes room for the rest, so each answer makes progress.
        let settled = settled.take_while(|_| self.bodies.read().saturating_sub(read_before) < LISTED_MAX);
        actions.extend(settled.map(|index| match self.aggregate(*index) {
            Aggregation::Done(event) => Action::Record(*event),
            Aggregation::Needs(BodyNeeded(hash)) => Action::Load(hash),
        }));
        actions.extend(self.stopping.iter().map(|index| Action::Stop(self.nodes[*index].id)));
        let mut free = slots;
        let mut parked = self
            .parked
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, index)| *index);
        actions.extend(self.unanswered.iter().filter_map(|index| self.unattended(*index, now)));
        actions.extend(self.pending_rejection_events().into_iter().map(Action::Record));
        let (mut ahead, mut lanes, mut listed_bytes) = (Ahead::default(), Lanes::default(), 0_u64);
        let mut ready = self.ready.in_order();
        // A failed node that is tried again has begun, too.
        while let Some(index) = ready
            .next_begun()
            .or_else(|| parked.next())
            .or_else(|| ready.next(free > 0))
        {
            if !held_back.is_empty() && self.self_and_ancestors(index).any(|at| held_back.contains(&at)) {
                continue;
            }
            if self.is_paused(index) {
                actions.extend(self.reading_while_paused(index, now));
                continue;
            }
            let has_room = free > 0 && self.has_lane(index, &mut lanes);
            if self.own_time(index).is_some_and(|time| time.is_zero()) && self.nodes[index].started_at.is_none() {
                let notes = "not begun, because its budget gives it no time";
                actions.push(Action::Record(self.failed_event(index, StopReason::Deadline, notes)));
                continue;
            }
            let read_before = self.bodies.read();
            let action = match self.nodes[index].kind {
                // The result of the call or plan is being checked.
                NodeKind::Call | NodeKind::Plan if self.agent(index).is_some() => {
                    let action = self.due_of_agent(index, now, has_room);
                    action.filter(|action| self.may_check(index, action, has_room, &mut ahead))
                }
                NodeKind::Call | NodeKind::Action if has_room => self.call_in_turn(index, &mut ahead),
                NodeKind::Call | NodeKind::Action => None,
                NodeKind::Model | NodeKind::RollUp if self.equipment.is_some() || self.is_for_person_at(index) => {
                    let action = self.due_of_agent(index, now, has_room);
                    action.filter(|action| self.may_check(index, action, has_room, &mut ahead))
                }
                NodeKind::Model
                | NodeKind::RollUp
                | NodeKind::Plan
                | NodeKind::Parallel
                | NodeKind::Sequence
                | NodeKind::ForEach => Some(self.opening(index)),
            };
            // A task that is briefed begins with that, and its model is asked next.
            let is_briefing = matches!(action, Some(Action::Brief(_))) && !self.is_for_person_at(index);
            // A node that only lacks an output most likely begins too; otherwise more would be read than can begin.
            let reads = matches!(action, Some(Action::Load(_))) && has_room;
            if is_briefing || reads || action.as_ref().is_some_and(Action::uses_call_slot) {
                free = free.saturating_sub(1);
                lanes.taken.push(index);
            }
            if let Some(Action::Record(event)) = &action {
                let lists = matches!(event, Event::Expanded { .. });
                let bytes_read = self.bodies.read().saturating_sub(read_before);
                listed_bytes = listed_bytes.saturating_add(bytes_read + if lists { event.bytes() } else { 0 });
            }
            actions.extend(action);
            if actions.len() >= ACTIONS_MAX || listed_bytes >= LISTED_MAX {
                break;
            }
        }
        actions
    }

    /// Whether `action` from an answer of [`Self::due`] is still due unchanged after other actions of that answer were
    /// recorded: these may have used its budget (E9.10), its nodes or its plans, taken the resources that it writes
    /// (E9.15), or held it back (E9.5). If not, the next answer has what is due instead.
    #[must_use]
    pub fn is_still_due(&self, action: &Action) -> bool {
        let may_begin = |node: NodeId, spend: &Spend, is_last| {
            let Ok(index) = self.index(node) else { return false };
            let parked_until = self.nodes[index].retry_at.unwrap_or_default();
            let is_open = self.ready.contains(&index) || self.parked.contains(&(parked_until, index));
            is_open && self.refused_by_budget(index, spend, is_last).is_none()
        };
        match action {
            Action::Ask(ask) => {
                let may_plan = ask.purpose != Purpose::Replan
                    || self
                        .index(ask.node)
                        .is_ok_and(|index| self.has_replan_left(index) || self.is_to_go_on(index));
                may_plan && may_begin(ask.node, &ask.reserved, ask.purpose.is_last())
            }
            Action::Compact(compact) => may_begin(compact.node, &compact.reserved.unwrap_or_default(), false),
            Action::Call(call) => {
                let index = self.index(call.node).ok();
                let is_free = index.is_some_and(|index| !self.is_written(index, &call.writes));
                let is_counted = call.again || index.is_some_and(|index| self.is_repetition_allowed(index));
                let spend = if is_counted { Spend::default() } else { Spend::TOOL_CALL };
                is_free && may_begin(call.node, &spend, false)
            }
            Action::Verify(check) => {
                let is_free = self
                    .index(check.node)
                    .is_ok_and(|index| !self.is_written(index, &check.writes));
                let agent = self.index(check.node).ok().and_then(|index| self.agent(index));
                let spend = match agent.is_some_and(|agent| agent.has_begun_checks) {
                    true => Spend::default(),
                    false => spend_of(check.commands()),
                };
                is_free && may_begin(check.node, &spend, false)
            }
            // The amounts for a group were computed from what was free.
            Action::Record(Event::Expanded {
                node, items, set_aside, ..
            }) => self.index(*node).is_ok_and(|index| {
                let new_nodes = self.count_new_nodes(index, items.len());
                self.ready.contains(&index) && set_aside.is_none() && self.over_nodes_by(index, new_nodes).is_none()
            }),
            Action::Record(Event::Planned { node, steps, .. }) => self.index(*node).is_ok_and(|index| {
                let new_nodes = read_steps(steps).map_or(0, |steps| plan::count_nodes(&steps));
                self.over_nodes_by(index, new_nodes as usize).is_none()
            }),
            _ => true,
        }
    }

    /// The action if nobody is there to answer the question of node `index`, or nobody answered in time (E9.14).
    fn unattended(&self, index: usize, now: Timestamp) -> Option<Action> {
        let question = self.agent(index)?.question.as_deref()?;
        // The same question was answered elsewhere meanwhile: nobody is asked twice.
        if let Some((answer, by)) = self.answered_meanwhile(question) {
            return Some(Action::Record(Event::Answered {
                node: self.nodes[index].id,
                answer,
                by,
            }));
        }
        let has_person = self.has_person();
        let is_over = question.deadline.is_some_and(|deadline| now >= deadline);
        if has_person && !is_over {
            return None;
        }
        if question.criterion().is_some() {
            return Some(Action::Record(self.nobody_checks(index)));
        }
        Some(Action::Record(match &question.default {
            Some(default) => Event::Answered {
                node: self.nodes[index].id,
                answer: default.clone(),
                by: DEFAULT.to_owned(),
            },
            None => self.failed_event(
                index,
                StopReason::NeedsInput,
                format!("nobody answered: {}", question.in_brief(NOTE_CHARS)),
            ),
        }))
    }

    /// The next time at which something becomes due by itself: a retry, the end of a question, or the deadline.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.wakes_after(None)
    }

    /// The same for a caller that asked at `after` what is [due](Self::due): a retry that was due by then and did not
    /// begin waits for room, not for a time. The event that frees the room makes it due.
    #[must_use]
    pub fn wakes_after(&self, after: Option<Timestamp>) -> Option<Timestamp> {
        if self.result().is_some() {
            return None;
        }
        // A paused node waits until somebody continues it, not for a time.
        let mut parked = self
            .parked
            .iter()
            .filter(|(at, _)| after.is_none_or(|after| *at > after));
        let retry = parked.find(|(_, index)| !self.is_paused(*index)).map(|(at, _)| *at);
        let deadline = self
            .time
            .ends_by_itself()
            .filter(|_| self.nodes.first().is_some_and(|root| root.cancel.is_none()));
        let questions = self
            .unanswered
            .iter()
            .filter_map(|index| self.agent(*index)?.question.as_ref()?.deadline);
        let own = self.next_own_deadline();
        retry.into_iter().chain(deadline).chain(own).chain(questions).min()
    }

    pub(super) fn failed_event(&self, index: usize, reason: StopReason, notes: impl Into<String>) -> Event {
        let result = NodeResult::failed(self.severity_of(index, reason), reason, notes);
        Event::Finished {
            node: self.nodes[index].id,
            result: Box::new(result),
        }
    }

    pub(super) fn skipped_event(&self, index: usize) -> Event {
        let node = &self.nodes[index];
        if let Some(kept) = self.late_result(index) {
            return Event::Finished {
                node: node.id,
                result: Box::new(kept),
            };
        }
        let result = match node.cancel {
            Some(cancel) if self.has_answered(index) => self.stopped_when_done(index, cancel),
            Some(cancel) if node.attempt > 0 && matches!(node.kind, NodeKind::Call | NodeKind::Action) => {
                let notes = match &*node.parked_for {
                    "" if self.is_read_only_call(index) => CHANGES_NOTHING.to_owned(),
                    "" => MAY_HAVE_CHANGED.to_owned(),
                    failure => format!("stopped while it waited for another attempt; the last failed: {failure}"),
                };
                self.stopped_result(index, cancel, &notes)
            }
            Some(cancel) if node.started_at.is_some() => {
                let notes = if self.is_done_by_program(index) {
                    MAY_HAVE_CHANGED
                } else {
                    "stopped before it was finished"
                };
                self.stopped_result(index, cancel, notes)
            }
            Some(cancel) => self.stopped_result(index, cancel, "stopped before it began"),
            None if self.is_dropped(index) => {
                let is_rejected = self.self_and_ancestors(index).any(|at| self.has_rejected_plan(at));
                let happened = if is_rejected { "rejected" } else { "changed" };
                let notes = format!("not begun, because the plan was {happened}");
                NodeResult::stopped(Outcome::Skipped, StopReason::Superseded, notes)
            }
            None => {
                let failed = if self.parent_failed(index) {
                    "the step that it is in failed"
                } else {
                    "an earlier step failed"
                };
                NodeResult::stopped(
                    Outcome::Skipped,
                    StopReason::UpstreamFailed,
                    format!("not begun, because {failed}"),
                )
            }
        };
        Event::Finished {
            node: node.id,
            result: Box::new(NodeResult {
                attempts: node.attempt,
                ..result
            }),
        }
    }

    /// Whether a program that works alone does the task of node `index`: nobody sees what it did until it says so.
    fn is_done_by_program(&self, index: usize) -> bool {
        self.nodes[index].kind == NodeKind::Model && self.is_filled_by_program(index, ModelRole::Executor)
    }

    /// Whether the parent of node `index` failed, as a group does if none of its members can begin.
    fn parent_failed(&self, index: usize) -> bool {
        let parent = self.nodes[index].parent.map(|parent| &self.nodes[parent]);
        let result = parent.and_then(|parent| parent.result.as_ref());
        result.is_some_and(|result| result.status == Outcome::Failed)
    }

    /// The action that opens a node that is not a call.
    fn opening(&self, index: usize) -> Action {
        let node = &self.nodes[index];
        let expanded = |items, set_aside| {
            Action::Record(Event::Expanded {
                node: node.id,
                items,
                set_aside,
                limits: self.share_at(index),
            })
        };
        // What a whole group needs is set aside before its first member begins; otherwise none begins.
        let fanned_out = |items, needs| match self.fits_group(index, needs) {
            Fits::Freely => expanded(items, None),
            Fits::With(set_aside) => expanded(items, Some(set_aside)),
            Fits::Not(reason, notes) => Action::Record(self.failed_event(index, reason, notes)),
        };
        let too_many = |count: usize| self.over_nodes_by(index, count);
        let (level, max_level) = self.plan_level(index, self.limits.depth_max);
        match &node.step {
            Some(Step::ForEach(for_each)) => {
                let references = match &for_each.over {
                    Value::String(text) if !template::is_template(text) => template::references_of_expression(text),
                    other => template::references(other),
                };
                let scope = match self.scope(index, &references.unwrap_or_default(), Vec::new()) {
                    Ok(scope) => scope,
                    Err(BodyNeeded(hash)) => return Action::Load(hash),
                };
                let evaluated = self.templates.eval_list(&for_each.over, &scope);
                let evaluated = evaluated.map_err(|error| error.to_string());
                let is_kept = |items: Vec<Value>| items.iter().find_map(too_deep_to_keep).map_or(Ok(items), Err);
                let items = match evaluated.and_then(is_kept) {
                    Ok(items) => items,
                    Err(error) => {
                        return Action::Record(self.failed_event(
                            index,
                            StopReason::InvalidInput,
                            format!("its list cannot be made: {error}"),
                        ));
                    }
                };
                let of_run = self.limits.items_max.unwrap_or(u32::MAX);
                let own = self.least_around(index, of_run, |budget| budget.items);
                let max = for_each.max_items.min(own) as usize;
                if items.len() > max {
                    let limit_name = if own < for_each.max_items {
                        "the `items` of the budget"
                    } else {
                        "`max_items`"
                    };
                    let notes = format!(
                        "{} items are more than {limit_name}, {max}; none was begun",
                        items.len()
                    );
                    return Action::Record(self.failed_event(index, StopReason::BudgetChildren, notes));
                }
                let new_nodes = self.count_new_nodes(index, items.len());
                if let Some(exceeded) = too_many(new_nodes) {
                    return Action::Record(self.over_nodes(index, new_nodes, exceeded));
                }
                let needs = self.needs_of_items(index, for_each, &items);
                fanned_out(items, needs)
            }
            Some(Step::Parallel(_)) => fanned_out(Vec::new(), self.needs_of_members(index)),
            Some(Step::Task(task)) => match &task.work {
                Work::Plan(_) if level > max_level => {
                    let notes =
                        format!("its plan would be level {level} of plans within plans; the limit is {max_level}");
                    Action::Record(self.failed_event(index, StopReason::BudgetDepth, notes))
                }
                Work::Plan(_) => {
                    let new_nodes = self.count_new_nodes(index, 0);
                    match too_many(new_nodes) {
                        Some(exceeded) => Action::Record(self.over_nodes(index, new_nodes, exceeded)),
                        None => expanded(Vec::new(), None),
                    }
                }
                Work::Model | Work::Do(_) => Action::Record(self.without_model(index)),
            },
            None if node.kind == NodeKind::Model => Action::Record(self.without_model(index)),
            None | Some(Step::Sequence(_)) => expanded(Vec::new(), None),
        }
    }

    /// The number of nodes that are created when node `index` opens; `items` is the length of its list.
    fn count_new_nodes(&self, index: usize, items: usize) -> usize {
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
            Err(Refusal::Body(hash)) => Action::Load(hash),
            Err(Refusal::Template(reason, notes)) => Action::Record(self.failed_event(index, reason, notes)),
        }
    }

    fn call_of(&self, index: usize, task: &Task) -> Result<CallAction, Refusal> {
        let Work::Do(call) = &task.work else {
            return Err(Refusal::Template(
                StopReason::InvalidInput,
                "it is not a call".to_owned(),
            ));
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
            return Err(Refusal::Template(reason, notes));
        }
        let args = self.args_of(index, &call.args)?;
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

    /// The arguments of the call of node `index`, filled in.
    fn args_of(&self, index: usize, written: &Value) -> Result<Value, Refusal> {
        // The arguments of a call that a model wants are not templates.
        if self.nodes[index].kind == NodeKind::Action {
            return Ok(written.clone());
        }
        let invalid = |error: template::TemplateError| {
            // A name that the check of the plan accepted is missing now only if its step has no result.
            Refusal::Template(
                StopReason::InvalidInput,
                format!("its arguments cannot be made: {error}"),
            )
        };
        let references = template::references(written).map_err(invalid)?;
        let scope = self
            .scope(index, &references, Vec::new())
            .map_err(|BodyNeeded(hash)| Refusal::Body(hash))?;
        self.templates.render_value(written, &scope).map_err(invalid)
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
        let args = self.args_of(index, &call.args).ok()?;
        (call_in_words(&call.tool, &args) == *self.nodes[index].call).then_some(args)
    }
}

/// The reason why no more calls of tools are made.
pub(super) fn used_up(reason: StopReason) -> String {
    let resource = match reason {
        StopReason::BudgetBytes => "the bytes of journal and pages",
        _ => "the calls of tools",
    };
    format!("{resource} that its budget allows are used up")
}

enum Refusal {
    Body(String),
    Template(StopReason, String),
}
