//! What a run needs done now: derived from its state, never stored.

use std::collections::BTreeSet;

use folio_memory::Timestamp;

use super::action::Action;
use super::agent::{DEFAULT, read_steps};
use super::aggregate::Aggregation;
use super::criteria::spend_of;
use super::narrow::Lanes;
use super::resources::Ahead;
use super::scope::BodyNeeded;
use super::state::Run;
use super::tree::NodeKind;
use super::waiting::{DueAction, Waiting};
use crate::event::Event;
use crate::node::NodeId;
use crate::plan;
use crate::result::StopReason;
use crate::spend::Spend;
use crate::talk::Purpose;

/// The most characters that a note quotes of a question.
const NOTE_CHARS: usize = 160;
/// The most actions of one kind in one answer. Expansions come in bursts; this limit keeps an answer small.
const ACTIONS_MAX: usize = 1_024;
/// The most bytes of the `for_each` lists in one answer, and of large outputs that were read for its events; the next
/// answer has the rest. They are in memory together, and the lists are written together.
const LISTED_MAX: u64 = 16 * 1024 * 1024;

/// The room that is left in one answer.
struct Room<'r> {
    /// How many more calls may begin.
    slots: usize,
    ahead: Ahead<'r>,
    lanes: Lanes,
    /// See [`LISTED_MAX`].
    listed_bytes: u64,
}

impl Room<'_> {
    /// Counts the bytes that `action` holds, and those of outputs that were `read` for it.
    fn count_bytes(&mut self, action: &Action, read: u64) {
        if let Action::Record(event) = action {
            let is_list = matches!(event, Event::Expanded { .. });
            let listed = if is_list { event.bytes() } else { 0 };
            self.listed_bytes = self.listed_bytes.saturating_add(read + listed);
        }
    }
}

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
        if let Some(event) = self.deadline_event(now).or_else(|| self.own_deadline_event(now)) {
            return vec![Action::Record(event)];
        }
        let read_before = self.bodies.begin_due_query();
        let held_back = self.held_back();
        let mut actions = Vec::new();
        self.end_nodes(&held_back, read_before, &mut actions);
        actions.extend(self.stopping.iter().map(|index| Action::Stop(self.nodes[*index].id)));
        actions.extend(self.unanswered.iter().filter_map(|index| self.unattended(*index, now)));
        actions.extend(self.pending_rejection_events().into_iter().map(Action::Record));
        self.begin_nodes(&held_back, now, slots, &mut actions);
        actions
    }

    /// The event that stops the run when its time is over.
    fn deadline_event(&self, now: Timestamp) -> Option<Event> {
        let is_over = self.time.deadline_at(now).is_some_and(|deadline| now >= deadline);
        (is_over && self.nodes[0].cancel.is_none()).then(|| Event::CancelRequested {
            node: None,
            by: Self::DEADLINE.to_owned(),
        })
    }

    /// Adds the events of nodes that end without doing anything more. `read_before` is how many bytes of outputs were
    /// read before.
    fn end_nodes(&self, held_back: &BTreeSet<usize>, read_before: u64, actions: &mut Vec<Action>) {
        let ends_now = |index: &&usize| !self.has_steps_to_end(**index);
        let skipped = self.skipped.iter().filter(|index| !self.is_inherited(**index));
        let skipped = skipped.filter(ends_now);
        let skipped = skipped.take(ACTIONS_MAX).chain(held_back.iter().take(ACTIONS_MAX));
        actions.extend(skipped.map(|index| Action::Record(self.skipped_event(*index))));
        actions.extend(self.inheriting().take(ACTIONS_MAX));
        // Recording these events makes room for the rest, so each answer makes progress.
        let settled = self.settled.iter().filter(ends_now);
        let settled = settled.take_while(|_| self.bodies.read().saturating_sub(read_before) < LISTED_MAX);
        actions.extend(settled.map(|index| match self.aggregate(*index) {
            Aggregation::Done(event) => Action::Record(*event),
            Aggregation::Needs(BodyNeeded(hash)) => Action::Load(hash),
        }));
    }

    /// Whether node `index` has to wait with its result for steps that end without having begun: its pages report what
    /// became of them, and nothing follows the result of the run (E9.5).
    fn has_steps_to_end(&self, index: usize) -> bool {
        if index == 0 {
            return self.skipped.iter().chain(&self.settled).any(|other| *other > 0);
        }
        let mut around: Vec<usize> = self.nodes[index].plan.iter().map(|_| index).collect();
        while let Some(at) = around.pop() {
            let steps = &self.nodes[at].children;
            if steps.iter().any(|step| self.skipped.contains(step)) {
                return true;
            }
            around.extend(steps.iter().filter(|step| self.nodes[**step].kind.is_group()));
        }
        false
    }

    /// Adds what is due for nodes that may begin or go on, as long as there is room for calls.
    fn begin_nodes(&self, held_back: &BTreeSet<usize>, now: Timestamp, slots: usize, actions: &mut Vec<Action>) {
        let mut room = Room {
            slots,
            ahead: Ahead::default(),
            lanes: Lanes::default(),
            listed_bytes: 0,
        };
        let due_again = self.parked.iter().take_while(|(at, _)| *at <= now);
        let mut parked = due_again.map(|(_, index)| *index);
        let mut ready = self.ready.in_order();
        let (mut waiting, mut is_cut) = (Vec::new(), false);
        // A failed node that is tried again has begun, too.
        while let Some(index) = ready
            .next_begun()
            .or_else(|| parked.next())
            .or_else(|| ready.next(room.slots > 0))
        {
            if !held_back.is_empty() && self.self_and_ancestors(index).any(|at| held_back.contains(&at)) {
                continue;
            }
            if self.is_paused(index) {
                actions.extend(self.reading_while_paused(index, now));
                continue;
            }
            let has_room = room.slots > 0 && self.has_lane(index, &mut room.lanes);
            if self.own_time(index).is_some_and(|time| time.is_zero()) && self.nodes[index].started_at.is_none() {
                let notes = "not begun, because its budget gives it no time";
                actions.push(Action::Record(self.failed_event(index, StopReason::Deadline, notes)));
                continue;
            }
            let read_before = self.bodies.read();
            if let Some(DueAction { action, waits_within }) = self.begin(index, now, has_room, &mut room.ahead) {
                if let Some(within) = waits_within {
                    waiting.push(Waiting { index, within, action });
                    continue;
                }
                if self.takes_slot(index, &action, has_room) {
                    room.slots = room.slots.saturating_sub(1);
                    room.lanes.taken.push(index);
                }
                room.count_bytes(&action, self.bodies.read().saturating_sub(read_before));
                actions.push(action);
            }
            if actions.len() >= ACTIONS_MAX || room.listed_bytes >= LISTED_MAX {
                is_cut = true;
                break;
            }
        }
        // What was not looked at may begin, and give something back.
        if !is_cut && room.slots > 0 {
            let ended = self.end_of_waiting(waiting, actions, now);
            let ended =
                ended.filter(|ended| !ended.action.uses_call_slot() || self.has_lane(ended.index, &mut room.lanes));
            actions.extend(ended.map(|ended| ended.action));
        }
    }

    /// What is due for node `index`, which may begin or go on.
    fn begin<'r>(&'r self, index: usize, now: Timestamp, has_room: bool, ahead: &mut Ahead<'r>) -> Option<DueAction> {
        let is_done_by_agent = match self.nodes[index].kind {
            // The result of the call or plan is being checked.
            NodeKind::Call | NodeKind::Plan => self.agent(index).is_some(),
            NodeKind::Model | NodeKind::RollUp => self.equipment.is_some() || self.is_for_person_at(index),
            NodeKind::Action | NodeKind::Parallel | NodeKind::Sequence | NodeKind::ForEach => false,
        };
        if is_done_by_agent {
            let due = self.due_of_agent(index, now, has_room);
            return due.filter(|due| self.may_check(index, &due.action, has_room, ahead));
        }
        let action = match self.nodes[index].kind {
            NodeKind::Call | NodeKind::Action if has_room => self.call_in_turn(index, ahead),
            NodeKind::Call | NodeKind::Action => None,
            NodeKind::Model
            | NodeKind::RollUp
            | NodeKind::Plan
            | NodeKind::Parallel
            | NodeKind::Sequence
            | NodeKind::ForEach => Some(self.opening(index)),
        };
        action.map(DueAction::from)
    }

    /// Whether `action` of node `index` takes room that another call could have had.
    fn takes_slot(&self, index: usize, action: &Action, has_room: bool) -> bool {
        match action {
            // A task that is briefed begins with that, and its model is asked next.
            Action::Brief(_) => !self.is_for_person_at(index),
            // A node that only lacks an output most likely begins too; otherwise more would be read than can begin.
            Action::Load(_) => has_room,
            _ => action.uses_call_slot(),
        }
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
        let late = after.and_then(|after| self.next_late(after));
        let all = retry.into_iter().chain(deadline).chain(own).chain(questions);
        all.chain(late).min()
    }
}
