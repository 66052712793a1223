//! How each event changes a task that a model does.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio_memory::Timestamp;
use folio_memory::canonical::canonical;
use serde_json::Value;

use super::progress::{Pending, Stage, TalkEntry, Version};
use super::{read_steps, rejected, schema};
use crate::event::{Event, Proposal, Question};
use crate::node::{Move, NodeId};
use crate::plan::{Call, Slug, Step, Task, Work};
use crate::result::{Failure, StopReason, Verdict};
use crate::run::state::{JournalError, Run};
use crate::run::tree::NodeKind;
use crate::spend::Spend;
use crate::talk::{Message, ModelRole, Purpose, Reply, Stop, Wanted};

/// The beginning of the message that sends a result back to a model.
pub(super) const NOT_ACCEPTED: &str = "The result is not accepted yet:\n";
/// The end of it.
pub(super) const GO_ON: &str = "\nContinue the work, then finish again.";

impl Run {
    /// Folds in one of the events of tasks that models do.
    pub(in crate::run) fn apply_to_agent(&mut self, at: Timestamp, event: &Event) -> Result<(), JournalError> {
        match event {
            Event::Briefed {
                node,
                memory,
                book,
                limits,
            } => self.apply_briefing(at, *node, (memory, book.clone()), limits.as_deref()),
            Event::Compacting { node, reserved } => self.compacting(*node, reserved),
            Event::Compacted {
                node,
                pieces,
                text,
                book,
                spent,
            } => {
                let (index, agent) = self.agent_at(*node, "compacted")?;
                agent.replace_beginning(*pieces as usize, text, book.clone());
                self.compacted(index, spent);
                Ok(())
            }
            Event::RollUps { node, parts, again } => self.make_roll_ups(at, *node, parts, again),
            Event::Asked {
                node,
                call,
                purpose,
                reserved,
                is_opaque,
            } => {
                let pending = Pending {
                    call: *call,
                    purpose: *purpose,
                    reserved: *reserved,
                    is_opaque: *is_opaque,
                };
                self.asked(*node, pending)
            }
            Event::SessionBegan {
                node,
                call,
                program,
                session,
            } => self.record_session(*node, *call, program, session),
            Event::Replied { node, reply, spent, .. } => self.replied(*node, reply, spent),
            Event::AskFailed {
                node,
                failure,
                spent,
                retry_at,
                ..
            } => self.ask_failed(*node, failure, spent, *retry_at),
            Event::Rejected { node, problems } => self.rejected(*node, problems),
            Event::PassedOn { node, .. } => self.passed_on(*node),
            Event::Decided {
                node, first, executor, ..
            } => self.decided(*node, first.as_ref(), executor.as_deref()),
            Event::Planned {
                node,
                version,
                steps,
                kept,
                awaits,
                ..
            } => self.planned(*node, *version, steps, kept, *awaits),
            Event::Wants { node, calls, refused } => self.wants(*node, calls, refused),
            Event::Proposed { node, proposal } => self.result_proposed(*node, proposal),
            Event::Checked {
                node,
                begins: Some(begins),
                ..
            } => self.check_begins(*node, begins),
            Event::Checked {
                node, verdicts, limit, ..
            } => self.result_checked(*node, verdicts, *limit),
            Event::SentBack { node, gaps } => self.sent_back(*node, gaps),
            Event::Spent { node, reason } => self.limit_reached(*node, *reason),
            Event::Questioned { node, question } => self.questioned(*node, question),
            Event::Answered { node, answer, by } => self.apply_person_answer(*node, answer, by),
            _ => Ok(()),
        }
    }

    fn asked(&mut self, node: NodeId, pending: Pending) -> Result<(), JournalError> {
        let Pending { purpose, reserved, .. } = pending;
        let by = match purpose {
            Purpose::Decide => Move::Decide,
            Purpose::Work => Move::Start,
            Purpose::Aggregate | Purpose::RollUp | Purpose::HandBack => Move::Aggregate,
            Purpose::Judge => Move::Verify,
            Purpose::Replan => Move::Replan,
        };
        let index = self.agent_steps_to(node, by, "asked")?;
        self.ready.remove(&index);
        self.executing.insert(index);
        let warned = self.warning_step(index);
        let answers_given = self.answers.given;
        // A call that is being judged keeps the line that says what was called, and the number of its attempts.
        if self.nodes[index].kind != NodeKind::Call {
            self.nodes[index].attempt = 1;
            self.nodes[index].call = format!("model, to {}", purpose.as_str().replace('_', " ")).into();
        }
        let (_, agent) = self.agent_at(node, "asked")?;
        // Earlier versions went on after any change of a limit, whether or not it was the one that had stopped it.
        if agent.stage == Stage::HandingBack && matches!(purpose, Purpose::Decide | Purpose::Work) {
            agent.goes_on();
        }
        agent.calls = pending.call;
        if !std::mem::take(&mut agent.is_repeating) {
            agent.warned = warned;
            agent.answers_given = answers_given;
        }
        agent.pending = Some(pending);
        match purpose {
            Purpose::Aggregate => agent.enter(Stage::Aggregating),
            Purpose::Replan => agent.replan(),
            Purpose::Decide | Purpose::Work | Purpose::RollUp | Purpose::Judge | Purpose::HandBack => {}
        }
        if purpose == Purpose::Replan {
            self.replanning.insert(index);
        }
        self.reserve(index, &reserved);
        Ok(())
    }

    fn replied(&mut self, node: NodeId, reply: &Reply, spent: &Spend) -> Result<(), JournalError> {
        let (index, agent) = self.agent_at(node, "replied")?;
        let purpose = agent.pending.map_or(Purpose::Work, |pending| pending.purpose);
        if !agent.has_obsolete_call() {
            agent.unread = Some((purpose, Box::new(reply.clone())));
        }
        agent.failures = 0;
        self.settle_call(index, spent);
        self.call_ended(index);
        Ok(())
    }

    fn ask_failed(
        &mut self,
        node: NodeId,
        failure: &Failure,
        spent: &Spend,
        retry_at: Option<Timestamp>,
    ) -> Result<(), JournalError> {
        let (index, agent) = self.agent_at(node, "ask_failed")?;
        let purpose = agent.pending.map_or(Purpose::Work, |pending| pending.purpose);
        let retry_at = retry_at.filter(|_| !agent.has_obsolete_call());
        let at = &self.nodes[index];
        let waits_until = retry_at.filter(|_| at.cancel.is_none());
        if waits_until.is_some() && at.state.next(Move::Park).is_none() {
            return self.step_to(node, Move::Park).map(drop);
        }
        let (index, agent) = self.agent_at(node, "ask_failed")?;
        agent.failures += 1;
        if agent.has_obsolete_call() {
            agent.failures = 0;
        } else if retry_at.is_none() {
            agent.unanswered = Some((purpose, failure.clone()));
            agent.failures = 0;
        }
        self.settle_call(index, spent);
        self.call_ended(index);
        if let Some(retry_at) = waits_until {
            self.step_to(node, Move::Park)?;
            self.ready.remove(&index);
            self.park(index, retry_at, failure);
        }
        Ok(())
    }

    fn rejected(&mut self, node: NodeId, problems: &[String]) -> Result<(), JournalError> {
        let index = self.index(node)?;
        let is_for_person = self.is_for_person_at(index);
        let has_worked = self.works_alone(index, ModelRole::Executor);
        let (_, agent) = self.agent_at(node, "rejected")?;
        let mut purpose = Purpose::Work;
        // Whatever was written, there has to be room for asking once more.
        if let Some((unread_purpose, reply)) = agent.unread.as_mut() {
            reply.text = rejected::shorten_answer(&reply.text);
            purpose = *unread_purpose;
            agent.was_cut_off |= reply.stop == Stop::Length;
        }
        agent.take_reply();
        agent.rejections += 1;
        agent.wrong = problems.first().cloned();
        agent.answer_calls("not called: the answer with this call was not accepted");
        let is_work = purpose == Purpose::Work;
        let mut request = rejected::correction_request((!is_for_person || !is_work).then_some(purpose), problems);
        if has_worked && is_work && !is_for_person {
            request = format!("{}{request}", rejected::WORK_STAYS_DONE);
        }
        agent.say(Message::user(request));
        Ok(())
    }

    fn passed_on(&mut self, node: NodeId) -> Result<(), JournalError> {
        let (_, agent) = self.agent_at(node, "passed_on")?;
        // The next model reads nothing of what the one before it refused.
        agent.unread = None;
        agent.unanswered = None;
        agent.failures = 0;
        agent.passed += 1;
        Ok(())
    }

    fn decided(&mut self, node: NodeId, first: Option<&Wanted>, executor: Option<&str>) -> Result<(), JournalError> {
        let index = self.agent_steps_to(node, Move::Start, "decided")?;
        // No other plan follows, so it takes none of those that the run has left.
        self.replanning.remove(&index);
        self.make_ready(index);
        let (_, agent) = self.agent_at(node, "decided")?;
        agent.is_rejected = false;
        agent.is_direct = !agent.versions.is_empty();
        agent.executor = executor.map(str::to_owned);
        let _decision = agent.unread.take();
        agent.unanswered = None;
        agent.enter(Stage::Working);
        agent.forget_talk();
        if let Some(first) = first {
            let reply = Reply {
                text: String::new(),
                calls: vec![first.clone()],
                stop: Stop::Done,
                permissions: Vec::new(),
            };
            agent.unread = Some((Purpose::Work, Box::new(reply)));
        }
        Ok(())
    }

    fn planned(
        &mut self,
        node: NodeId,
        version: u32,
        steps: &Value,
        kept: &[NodeId],
        awaits: bool,
    ) -> Result<(), JournalError> {
        let steps = read_steps(steps)?;
        let kept: Vec<usize> = kept.iter().map(|id| self.index(*id)).collect::<Result<_, _>>()?;
        let index = self.agent_steps_to(node, if awaits { Move::Gate } else { Move::Expand }, "planned")?;
        self.ready.remove(&index);
        self.forget_roll_ups(index);
        self.make_plan(index, &steps, version, &kept);
        let hash = crate::plan::hash_of(&steps);
        let full_plan = self.whole_plan(index);
        let (_, agent) = self.agent_at(node, "planned")?;
        let _plan = agent.unread.take();
        agent.unanswered = None;
        let previous_proposal = agent.proposal.take();
        if let Some(before) = agent.versions.last_mut()
            && !agent.is_rejected
        {
            before.came_to = previous_proposal
                .as_ref()
                .map(|proposal| proposal.notes.clone())
                .unwrap_or_default();
        }
        agent.interim_proposal = previous_proposal.filter(|_| awaits);
        agent.versions.push(Version {
            number: version,
            hashes: vec![hash],
            wholes: vec![full_plan],
            ..Version::default()
        });
        agent.is_rejected = false;
        agent.is_direct = false;
        agent.stuck = None;
        agent.enter(Stage::Children);
        if awaits {
            self.hold_steps(index);
            return Ok(());
        }
        self.replace_previous_plan(index);
        self.settle_if_done(index);
        Ok(())
    }

    fn wants(
        &mut self,
        node: NodeId,
        calls: &[Wanted],
        refused: &BTreeMap<String, String>,
    ) -> Result<(), JournalError> {
        let is_told = self.index(node).is_ok_and(|index| self.has_new_answer(index, refused));
        let (index, agent) = self.agent_at(node, "wants")?;
        let reply = agent.take_reply();
        agent.rejections = 0;
        agent.wrong = refused.values().next().filter(|_| calls.is_empty()).cloned();
        let is_asking = |reply: &Reply| reply.calls.iter().any(|call| !refused.contains_key(&call.id));
        agent.refusals = match calls {
            [] if is_told || reply.as_deref().is_some_and(is_asking) => agent.refusals,
            [] => agent.refusals + 1,
            _ => 0,
        };
        let requested_calls = reply.map(|reply| reply.calls).unwrap_or_default();
        // A question is not a call of a tool.
        let is_denied = |call: &Wanted| call.tool != schema::ASK_PERSON && refused.contains_key(&call.id);
        agent.denied |= requested_calls.iter().any(is_denied);
        self.answer_requests(index, &requested_calls, calls, refused);
        Ok(())
    }

    /// Answers what a model requested, in the order of its requests: with a node for each of `calls`, or with the
    /// reason why it was refused.
    fn answer_requests(
        &mut self,
        index: usize,
        requested_calls: &[Wanted],
        calls: &[Wanted],
        refused: &BTreeMap<String, String>,
    ) {
        let parent = self.nodes[index].id;
        let mut talk_entries = Vec::with_capacity(requested_calls.len());
        for Wanted { id, .. } in requested_calls {
            if let Some(why) = refused.get(id) {
                talk_entries.push(TalkEntry::Message(Message::tool(id, why)));
            } else if let Some(call) = calls.iter().find(|call| call.id == *id) {
                let Some(agent) = self.nodes[index].agent.as_deref_mut() else {
                    return;
                };
                agent.actions += 1;
                let number = agent.actions;
                let node = self.add_action(index, parent, number, call);
                talk_entries.push(TalkEntry::Result { id: id.clone(), node });
            }
        }
        if self.nodes[index].children_left > 0 {
            self.ready.remove(&index);
        }
        if let Some(agent) = self.nodes[index].agent.as_deref_mut() {
            agent.talk.extend(talk_entries);
        }
    }

    /// Creates the node of one call that a model wants. Its id derives from its number in the task, the tool and the
    /// arguments, so the same call after a crash has the same id (E9.12).
    fn add_action(&mut self, index: usize, parent: NodeId, number: u32, call: &Wanted) -> usize {
        let name = format!("call-{number}");
        let key = format!("{} {}", call.tool, canonical(call.args.clone()));
        let id = parent.child(0, &name, &key);
        let task = Task {
            title: call.tool.clone(),
            work: Work::Do(Call {
                tool: call.tool.clone(),
                args: call.args.clone(),
            }),
            optional: true,
            ..Task::new(Slug::of(&name))
        };
        let above = &self.nodes[index].path;
        let path: Arc<str> = if above.is_empty() {
            Arc::from(name)
        } else {
            Arc::from(format!("{above}/{name}"))
        };
        let node = self.add_node(
            id,
            Some(index),
            self.nodes[index].frame,
            NodeKind::Action,
            Some(Step::Task(Arc::new(task))),
            path,
        );
        self.actions += 1;
        self.make_ready(node);
        node
    }

    fn result_proposed(&mut self, node: NodeId, proposal: &Proposal) -> Result<(), JournalError> {
        if !self.index(node).is_ok_and(|index| self.may_be_checked(index)) {
            self.agent_at(node, "proposed")?;
        }
        let index = self.step_to(node, Move::Verify)?;
        self.make_ready(index);
        self.start_result_check(index);
        let (_, agent) = self.agent_at(node, "proposed")?;
        agent.take_reply();
        agent.unanswered = None;
        agent.enter(Stage::Verifying);
        agent.verdicts.clone_from(&proposal.claims);
        agent.unjudged = None;
        agent.proposal = Some(Box::new(proposal.clone()));
        Ok(())
    }

    fn result_checked(
        &mut self,
        node: NodeId,
        verdicts: &[Verdict],
        limit: Option<StopReason>,
    ) -> Result<(), JournalError> {
        let (index, agent) = self.agent_at(node, "checked")?;
        agent.unjudged = limit.or(agent.unjudged);
        agent.has_begun_checks = false;
        agent.unread = None;
        agent.unanswered = None;
        agent.verdicts.extend(verdicts.iter().cloned());
        self.check_ended(index);
        Ok(())
    }

    fn sent_back(&mut self, node: NodeId, gaps: &[String]) -> Result<(), JournalError> {
        let index = self.agent_steps_to(node, Move::Start, "sent_back")?;
        let (_, agent) = self.agent_at(node, "sent_back")?;
        agent.sent_back += 1;
        agent.proposal = None;
        agent.verdicts.clear();
        agent.enter(Stage::Working);
        let text = format!("{NOT_ACCEPTED}{}{GO_ON}", rejected::markdown_list(gaps));
        agent.answer_calls("not accepted yet");
        agent.say(Message::user(text));
        self.make_ready(index);
        Ok(())
    }

    fn limit_reached(&mut self, node: NodeId, reason: StopReason) -> Result<(), JournalError> {
        let (index, _) = self.agent_at(node, "spent")?;
        let met = self.limit_around(index, reason);
        self.compaction_given_up(index);
        let (index, agent) = self.agent_at(node, "spent")?;
        agent.spent = Some(reason);
        agent.spent_at = met;
        agent.stage_before_limit = agent.stage;
        agent.unread = None;
        agent.unanswered = None;
        agent.answer_calls("not asked: the task reached a limit first");
        agent.enter(Stage::HandingBack);
        self.make_ready(index);
        Ok(())
    }

    fn questioned(&mut self, node: NodeId, question: &Question) -> Result<(), JournalError> {
        let index = self.agent_steps_to(node, Move::Wait, "questioned")?;
        let (_, agent) = self.agent_at(node, "questioned")?;
        agent.take_reply();
        agent.handed += u32::from(question.is_task());
        if question.is_about_plans() {
            agent.enter(Stage::Verifying);
        }
        agent.question = Some(Box::new(question.clone()));
        self.ready.remove(&index);
        self.unanswered.insert(index);
        Ok(())
    }
}
