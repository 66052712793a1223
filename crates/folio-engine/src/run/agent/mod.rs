//! A task that a model does: what was said, where it stands, and how each event moves it (E9.3, E9.6 to E9.8, E9.13, E9.14).
//!
//! - `equipment`: what a run may ask models for
//! - `offer`: which tools a model is told of, and how much
//! - `due`: what such a task is owed, by its stage
//! - `compact`: which part of what was said goes when it outgrows the model's window
//! - `told`: what it is told of memory; `prompt`: what a model reads; `schema`: the form of its answer; `fixed`: what many have in common
//! - `read`: from a reply to the event that it comes to; `repair`: from a text to the JSON that was meant; `object`: what of it is taken
//! - `roll_up`: results that are too many to be read at once are put together in parts first
//! - `people`: criteria that a person checks; `facts`: what people answered
//! - `plan`: which plans of a model are carried out, `similar` and `evidence` are two of its tests
//! - `answer`: from what came of a call to the event that records it; `calls`: one that ended, or whose end nobody saw

mod answer;
mod calls;
mod compact;
mod due;
mod equipment;
mod evidence;
mod facts;
mod fixed;
mod human;
mod object;
mod offer;
mod people;
mod plan;
mod prompt;
mod read;
mod rejected;
pub mod repair;
mod roll_up;
mod schema;
mod similar;
mod told;

use std::sync::Arc;

use folio_memory::Timestamp;
use folio_memory::canonical::canonical;
use serde_json::Value;

pub use answer::{ModelAnswer, ModelFailure, ModelFailureKind};
pub use compact::{COMPACTOR_CALLS, CompactAction};
pub use due::AskAction;
pub use equipment::{AgentProgram, Equipment, ModelSpec, NamedExecutor, PlanMode, Price};
pub(super) use facts::Fact;
pub use fixed::FixedCosts;
pub use offer::OfferedTools;

use super::state::{JournalError, Run};
use super::tree::NodeKind;
use crate::event::{BookView, Event, Proposal, Question};
use crate::node::{Move, NodeId, NodeState};
use crate::plan::{Call, Criterion, Slug, Step, Task, Work};
use crate::result::{Failure, Finding, StopReason, Verdict};
use crate::spend::Spend;
use crate::talk::{Message, Purpose, Reply, Speaker, Wanted};

/// Times that a model is told what is wrong with its answer before a rule takes its place (E9.13).
const REJECTIONS_MAX: u32 = 2;
/// Times that a leaf is done again with what is missing (E9.8).
const SENT_BACK_MAX: u32 = 1;

/// Where a task that a model does stands between its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Whether it is taken apart is to be decided.
    Deciding,
    /// It is being done.
    Working,
    /// Its steps are at work, or have ended.
    Children,
    /// Its result is to be made of theirs.
    Aggregating,
    /// Its result is to be checked.
    Verifying,
    /// Another plan is to be made.
    Replanning,
    /// It is to hand back what it has.
    HandingBack,
}

/// A call of a model that is under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub(super) call: u32,
    pub(super) purpose: Purpose,
    pub(super) reserved: Spend,
    /// Whether it is a program that works by itself.
    pub(super) is_opaque: bool,
}

/// One piece of a task's conversation.
#[derive(Debug, Clone)]
pub(super) enum Said {
    /// Something that stands as it was said.
    Message(Message),
    /// The result of a node below, as the answer to the call of that id.
    Result { id: String, node: usize },
}

/// A version of a task's plan.
#[derive(Debug, Clone)]
pub(super) struct Version {
    /// The hash of its steps.
    pub(super) hash: String,
    /// The required criteria that were met when it had been carried out.
    pub(super) met: Vec<String>,
}

/// What is known of a task that a model did once it has ended: so many of them are in a run that nothing else of them is kept.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    /// Calls of models.
    pub(super) calls: u32,
    /// Calls that were made again because nobody saw their end.
    pub(super) repeated: u32,
    /// Times that it was handed to a person.
    handed: u32,
}

/// A task that a model does, while it goes on.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) task: Arc<Task>,
    pub(super) stage: Stage,
    /// What memory holds for it, and whether it was told so since it was taken apart the last time, or another plan was wanted.
    pub(super) memory: Arc<str>,
    pub(super) is_told: bool,
    /// What stands in its scratchbook.
    pub(super) book: Option<Box<BookView>>,
    /// What stands for what was said before `talk` and is put away.
    pub(super) before: String,
    /// The calls of tools whose answers are put away.
    pub(super) done_before: Vec<usize>,
    /// Calls of models so far.
    pub(super) calls: u32,
    pub(super) pending: Option<Pending>,
    /// The session of the program that the call under way started, or, while it is owed again, of the one that nobody saw the end of.
    pub(super) session: Option<calls::Session>,
    /// What was set aside for a compactor that is asked.
    pub(super) compacting: Option<Spend>,
    /// A reply that nothing was concluded from yet.
    pub(super) unread: Option<(Purpose, Box<Reply>)>,
    /// A model that did not answer and will not be asked again.
    pub(super) unanswered: Option<(Purpose, Failure)>,
    /// What was said in this stage.
    pub(super) talk: Vec<Said>,
    /// Models in a row, from the usual one, that were of no help in this stage.
    pub(super) passed: u32,
    /// Calls in a row that came to nothing.
    pub(super) failures: u32,
    /// Answers in a row that could not be used.
    pub(super) rejections: u32,
    /// Rounds in a row in which every call was refused.
    pub(super) refusals: u32,
    /// Calls of tools so far, and whether one was wanted and not made.
    pub(super) actions: u32,
    pub(super) denied: bool,
    /// Times that it was done again because something was missing.
    pub(super) sent_back: u32,
    /// Calls of models that were made again because nobody saw their end.
    pub(super) repeated: u32,
    /// Plans of models so far. What a person made of one takes its place.
    pub(super) versions: Vec<Version>,
    pub(super) proposal: Option<Box<Proposal>>,
    pub(super) verdicts: Vec<Verdict>,
    /// The commands of its criteria that a person allowed, as the questions name them.
    pub(super) allowed_commands: Vec<String>,
    /// The limit that was reached, and what it did until then; why there was no judge, or none that could be read.
    pub(super) spent: Option<StopReason>,
    pub(super) unjudged: Option<StopReason>,
    pub(super) was_at: Stage,
    /// Why people rejected plans for it, and whether another is to be made because of the last.
    pub(super) rejected_plans: Vec<String>,
    pub(super) is_rejected: bool,
    pub(super) question: Option<Box<Question>>,
    /// Times that it was handed to a person.
    pub(super) handed: u32,
    /// Who works on it, if whoever decided said so.
    pub(super) executor: Option<String>,
    /// The per cent of its budget that the model is told of.
    pub(super) warned: Option<u64>,
    /// Whether the next call is one whose driver died: then it is the same, word for word (E9.9).
    pub(super) is_repeating: bool,
    /// What was said beside the work: to a judge, or when handing back.
    pub(super) aside: Vec<Said>,
}

impl Agent {
    pub(super) fn new(task: Arc<Task>, memory: Arc<str>, book: Option<Box<BookView>>) -> Self {
        Self {
            task,
            stage: Stage::Deciding,
            memory,
            is_told: true,
            book,
            before: String::new(),
            done_before: Vec::new(),
            calls: 0,
            pending: None,
            session: None,
            compacting: None,
            unread: None,
            unanswered: None,
            talk: Vec::new(),
            passed: 0,
            failures: 0,
            rejections: 0,
            refusals: 0,
            actions: 0,
            denied: false,
            sent_back: 0,
            repeated: 0,
            versions: Vec::new(),
            proposal: None,
            verdicts: Vec::new(),
            allowed_commands: Vec::new(),
            spent: None,
            unjudged: None,
            was_at: Stage::Deciding,
            rejected_plans: Vec::new(),
            is_rejected: false,
            question: None,
            handed: 0,
            executor: None,
            warned: None,
            is_repeating: false,
            aside: Vec::new(),
        }
    }

    /// Whether it was taken apart.
    pub(super) fn has_plan(&self) -> bool {
        !self.versions.is_empty()
    }

    /// The criteria of which nobody has said whether they are met.
    pub(super) fn open_criteria(&self) -> impl Iterator<Item = &Criterion> {
        let has_verdict = |criterion: &Criterion| self.verdicts.iter().any(|v| v.criterion == criterion.id);
        self.task
            .criteria
            .iter()
            .filter(move |criterion| !has_verdict(criterion))
    }

    /// The required criteria that are met.
    pub(super) fn met(&self) -> Vec<String> {
        let met = self.verdicts.iter().filter(|v| v.required && v.finding == Finding::Met);
        met.map(|v| v.criterion.clone()).collect()
    }

    /// A person rejected its last plan: there may be another one.
    pub(super) fn plan_was_rejected(&mut self, by: &str, reason: &str) {
        self.rejected_plans.push(format!("{by}: {reason}"));
        self.is_rejected = true;
        self.enter(Stage::Replanning);
    }

    /// The limit that stopped it was raised before it had handed back what it has.
    pub(super) fn goes_on(&mut self) {
        self.spent = None;
        self.stage = self.was_at;
        self.unread = None;
        self.aside.clear();
    }

    /// A person made another plan of its last one: it takes its place, and costs no re-plan.
    pub(super) fn plan_was_edited(&mut self, hash: String) {
        if let Some(last) = self.versions.last_mut() {
            last.hash = hash;
        }
        self.proposal = None;
        self.is_rejected = false;
        self.enter(Stage::Children);
    }

    fn say(&mut self, message: Message) {
        self.voice().push(Said::Message(message));
    }

    /// Where what is said now belongs.
    fn voice(&mut self) -> &mut Vec<Said> {
        match self.stage {
            Stage::Verifying | Stage::HandingBack => &mut self.aside,
            Stage::Deciding | Stage::Working | Stage::Children | Stage::Aggregating | Stage::Replanning => {
                &mut self.talk
            }
        }
    }

    /// Takes the reply that was concluded from into the conversation.
    fn take_reply(&mut self) -> Option<Box<Reply>> {
        let (_, reply) = self.unread.take()?;
        self.say(Message::assistant(reply.text.clone(), reply.calls.clone()));
        Some(reply)
    }

    /// Another plan is asked for: what was met so far is what the next has to better.
    fn replan(&mut self) {
        if self.stage != Stage::Replanning {
            let met = self.met();
            if let Some(last) = self.versions.last_mut() {
                last.met = met;
            }
        }
        self.enter(Stage::Replanning);
    }

    fn forget_talk(&mut self) {
        self.talk.clear();
        self.before.clear();
        self.done_before.clear();
    }

    fn enter(&mut self, stage: Stage) {
        if self.stage != stage {
            self.stage = stage;
            self.passed = 0;
            self.rejections = 0;
            self.refusals = 0;
            self.aside.clear();
            // What happens from here on whoever puts it together, or plans anew, has not heard of.
            self.is_told &= !matches!(stage, Stage::Children | Stage::Replanning);
            // Nothing of what was said while deciding is needed for working; what was done while working is needed for
            // handing back.
            if !matches!(stage, Stage::Working | Stage::HandingBack | Stage::Verifying) {
                self.forget_talk();
            }
        }
    }
}

impl Run {
    /// What node `index` is to do, if a model does it: its task, or the goal of the run.
    pub(super) fn task_of_model(&self, index: usize) -> Arc<Task> {
        match &self.nodes[index].step {
            Some(Step::Task(task)) => Arc::clone(task),
            _ => Arc::new(Task {
                title: self.plan.title.clone(),
                description: self.goal.clone(),
                criteria: self.plan.criteria.clone(),
                ..Task::new(Slug::of("goal"))
            }),
        }
    }

    pub(super) fn agent(&self, index: usize) -> Option<&Agent> {
        self.nodes[index].agent.as_deref()
    }

    fn agent_at(&mut self, id: NodeId, event: &'static str) -> Result<(usize, &mut Agent), JournalError> {
        let index = self.index(id)?;
        let node = &mut self.nodes[index];
        let state = node.state.as_str();
        match node.agent.as_deref_mut() {
            Some(agent) => Ok((index, agent)),
            None => Err(JournalError::Transition { node: id, state, event }),
        }
    }

    /// The criteria of a node's task.
    pub(super) fn criteria_of(&self, index: usize) -> Vec<Criterion> {
        match self.agent(index) {
            Some(agent) => agent.task.criteria.clone(),
            None => self.task_of_model(index).criteria.clone(),
        }
    }

    /// Folds in one of the events of tasks that models do.
    pub(super) fn apply_to_agent(&mut self, at: Timestamp, event: &Event) -> Result<(), JournalError> {
        match event {
            Event::Briefed {
                node,
                memory,
                book,
                limits,
            } => self.told(at, *node, (memory, book.clone()), limits.as_deref()),
            Event::Compacting { node, reserved } => self.compacting(*node, reserved),
            Event::Compacted {
                node,
                pieces,
                text,
                book,
                spent,
            } => {
                let (index, agent) = self.agent_at(*node, "compacted")?;
                agent.put_away(*pieces as usize, text, book.clone());
                self.compacted(index, spent);
                Ok(())
            }
            Event::RollUps { node, parts } => self.make_roll_ups(at, *node, parts),
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
            } => self.session_of(*node, *call, program, session),
            Event::Replied { node, reply, spent, .. } => self.replied(*node, reply, spent),
            Event::AskFailed {
                node,
                failure,
                spent,
                retry_at,
                ..
            } => self.ask_failed(*node, failure, spent, *retry_at),
            Event::Rejected { node, problems } => self.rejected(*node, problems),
            Event::PassedOn { node, .. } => {
                let (_, agent) = self.agent_at(*node, "passed_on")?;
                // Whoever comes next reads nothing of what the one before it would not do.
                agent.unread = None;
                agent.unanswered = None;
                agent.failures = 0;
                agent.passed += 1;
                Ok(())
            }
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
            Event::Wants { node, calls, refused } => {
                let (index, agent) = self.agent_at(*node, "wants")?;
                let reply = agent.take_reply();
                agent.rejections = 0;
                agent.refusals = if calls.is_empty() { agent.refusals + 1 } else { 0 };
                let wanted = reply.map(|reply| reply.calls).unwrap_or_default();
                // A question is no call of a tool.
                let is_denied = |call: &&Wanted| call.tool != schema::ASK_PERSON && refused.contains_key(&call.id);
                agent.denied |= wanted.iter().any(|call| is_denied(&call));
                let order: Vec<String> = wanted.into_iter().map(|call| call.id).collect();
                self.wants(index, &order, calls, refused);
                Ok(())
            }
            Event::Proposed { node, proposal } => {
                let index = self.step_to(*node, Move::Verify)?;
                self.make_ready(index);
                self.is_to_be_checked(index);
                let (_, agent) = self.agent_at(*node, "proposed")?;
                agent.take_reply();
                agent.unanswered = None;
                agent.enter(Stage::Verifying);
                agent.verdicts.clone_from(&proposal.claims);
                agent.unjudged = None;
                agent.proposal = Some(proposal.clone());
                Ok(())
            }
            Event::Checked { node, verdicts, limit } => {
                let (_, agent) = self.agent_at(*node, "checked")?;
                agent.unjudged = limit.or(agent.unjudged);
                agent.unread = None;
                agent.unanswered = None;
                agent.verdicts.extend(verdicts.iter().cloned());
                Ok(())
            }
            Event::SentBack { node, gaps } => {
                let index = self.step_to(*node, Move::Start)?;
                let (_, agent) = self.agent_at(*node, "sent_back")?;
                agent.sent_back += 1;
                agent.proposal = None;
                agent.verdicts.clear();
                agent.enter(Stage::Working);
                let text = format!("This is not accepted yet:\n{}\nGo on, and finish again.", listed(gaps));
                agent.answer_calls(&text);
                agent.say(Message::user(text));
                self.make_ready(index);
                Ok(())
            }
            Event::Spent { node, reason } => {
                let (index, _) = self.agent_at(*node, "spent")?;
                self.compaction_given_up(index);
                let (index, agent) = self.agent_at(*node, "spent")?;
                agent.spent = Some(*reason);
                agent.was_at = agent.stage;
                agent.unread = None;
                agent.unanswered = None;
                agent.enter(Stage::HandingBack);
                self.make_ready(index);
                Ok(())
            }
            Event::Questioned { node, question } => {
                let index = self.step_to(*node, Move::Wait)?;
                let (_, agent) = self.agent_at(*node, "questioned")?;
                agent.take_reply();
                agent.handed += u32::from(question.is_task());
                agent.question = Some(question.clone());
                self.ready.remove(&index);
                self.asking.insert(index);
                Ok(())
            }
            Event::Answered { node, answer, by } => self.answered_by(*node, answer, by),
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
        let index = self.step_to(node, by)?;
        self.ready.remove(&index);
        if let Some(retry_at) = self.nodes[index].retry_at.take() {
            self.parked.remove(&(retry_at, index));
        }
        self.executing.insert(index);
        let warned = self.warning_step(index);
        // Of a call that is judged it stays known what was called, and how often.
        if self.nodes[index].kind != NodeKind::Call {
            self.nodes[index].attempt = 1;
            self.nodes[index].call = format!("model, to {}", purpose.as_str().replace('_', " ")).into();
        }
        let (_, agent) = self.agent_at(node, "asked")?;
        agent.calls = pending.call;
        if !std::mem::take(&mut agent.is_repeating) {
            agent.warned = warned;
        }
        agent.pending = Some(pending);
        match purpose {
            Purpose::Aggregate => agent.enter(Stage::Aggregating),
            Purpose::Replan => agent.replan(),
            Purpose::Decide | Purpose::Work | Purpose::RollUp | Purpose::Judge | Purpose::HandBack => {}
        }
        self.reserve(index, &reserved);
        Ok(())
    }

    fn replied(&mut self, node: NodeId, reply: &Reply, spent: &Spend) -> Result<(), JournalError> {
        let (index, agent) = self.agent_at(node, "replied")?;
        let purpose = agent.pending.map_or(Purpose::Work, |pending| pending.purpose);
        if !agent.is_needless() {
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
        let retry_at = retry_at.filter(|_| !agent.is_needless());
        agent.failures += 1;
        if agent.is_needless() {
            agent.failures = 0;
        } else if retry_at.is_none() {
            agent.unanswered = Some((purpose, failure.clone()));
            agent.failures = 0;
        }
        self.settle_call(index, spent);
        self.call_ended(index);
        if let Some(retry_at) = retry_at
            && self.nodes[index].cancel.is_none()
        {
            self.step_to(node, Move::Park)?;
            self.ready.remove(&index);
            self.park(index, retry_at, failure);
        }
        Ok(())
    }

    fn rejected(&mut self, node: NodeId, problems: &[String]) -> Result<(), JournalError> {
        let (_, agent) = self.agent_at(node, "rejected")?;
        // Whatever was written, there has to be room for asking once more.
        if let Some((_, reply)) = agent.unread.as_mut() {
            reply.text = rejected::shown(&reply.text);
        }
        agent.take_reply();
        agent.rejections += 1;
        agent.answer_calls("not used");
        agent.say(Message::user(rejected::put_right(problems)));
        Ok(())
    }

    fn decided(&mut self, node: NodeId, first: Option<&Wanted>, executor: Option<&str>) -> Result<(), JournalError> {
        let index = self.step_to(node, Move::Start)?;
        self.make_ready(index);
        let (_, agent) = self.agent_at(node, "decided")?;
        agent.is_rejected = false;
        agent.executor = executor.map(str::to_owned);
        let _decision = agent.unread.take();
        agent.unanswered = None;
        agent.enter(Stage::Working);
        agent.forget_talk();
        if let Some(first) = first {
            let reply = Reply {
                text: String::new(),
                calls: vec![first.clone()],
                stop: crate::talk::Stop::Done,
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
        let index = self.step_to(node, if awaits { Move::Gate } else { Move::Expand })?;
        self.ready.remove(&index);
        let kept: Vec<usize> = kept.iter().map(|id| self.index(*id)).collect::<Result<_, _>>()?;
        self.forget_roll_ups(index);
        self.make_plan(index, &steps, version, &kept);
        let hash = crate::plan::hash_of(&steps);
        let (_, agent) = self.agent_at(node, "planned")?;
        let _plan = agent.unread.take();
        agent.unanswered = None;
        agent.versions.push(Version { hash, met: Vec::new() });
        agent.proposal = None;
        agent.is_rejected = false;
        agent.enter(Stage::Children);
        if awaits {
            self.hold_steps(index);
            return Ok(());
        }
        self.settle_if_done(index);
        Ok(())
    }

    fn wants(
        &mut self,
        index: usize,
        order: &[String],
        calls: &[Wanted],
        refused: &std::collections::BTreeMap<String, String>,
    ) {
        let parent = self.nodes[index].id;
        let mut said = Vec::with_capacity(order.len());
        for id in order {
            if let Some(why) = refused.get(id) {
                said.push(Said::Message(Message::tool(id, why)));
            } else if let Some(call) = calls.iter().find(|call| call.id == *id) {
                let number = {
                    let Some(agent) = self.nodes[index].agent.as_deref_mut() else {
                        return;
                    };
                    agent.actions += 1;
                    agent.actions
                };
                let node = self.add_action(index, parent, number, call);
                said.push(Said::Result { id: id.clone(), node });
            }
        }
        if self.nodes[index].children_left > 0 {
            self.ready.remove(&index);
        }
        if let Some(agent) = self.nodes[index].agent.as_deref_mut() {
            agent.talk.extend(said);
        }
    }

    /// Makes the node of one call that a model wants. Its id follows from where it stands in the task, the tool and the
    /// arguments, so the same call after a crash is the same (E9.12).
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

    /// Ends what a task that a model did kept in mind.
    pub(super) fn agent_ended(&mut self, index: usize) {
        self.orphan_call(index);
        self.asking.remove(&index);
        self.nodes[index].tally = self.tally(index);
        self.nodes[index].agent = None;
    }

    /// What is counted of whoever does, or did, node `index`; `None` if nobody was asked about it.
    pub(super) fn tally(&self, index: usize) -> Option<Tally> {
        let of_agent = |agent: &Agent| Tally {
            calls: agent.calls,
            repeated: agent.repeated,
            handed: agent.handed,
        };
        self.agent(index).map(of_agent).or(self.nodes[index].tally)
    }

    /// A child of a task that a model does has ended.
    pub(super) fn child_of_agent_ended(&mut self, parent: usize) {
        let node = &self.nodes[parent];
        if node.children_left > 0 || node.cancel.is_some() {
            return;
        }
        if matches!(node.state, NodeState::Executing | NodeState::RunningChildren) {
            self.make_ready(parent);
        }
    }
}

impl Agent {
    /// Answers every call of the last thing that the model said which has no answer yet.
    fn answer_calls(&mut self, text: &str) {
        let voice = &*self.voice();
        let Some(at) = voice.iter().rposition(
            |said| matches!(said, Said::Message(message) if message.speaker == Speaker::Assistant && !message.calls.is_empty()),
        ) else {
            return;
        };
        let Said::Message(asked) = &voice[at] else { return };
        let answered: Vec<&str> = voice[at + 1..]
            .iter()
            .filter_map(|said| match said {
                Said::Result { id, .. } => Some(id.as_str()),
                Said::Message(message) => message.answers.as_deref(),
            })
            .collect();
        let open: Vec<String> = asked
            .calls
            .iter()
            .filter(|call| !answered.contains(&call.id.as_str()))
            .map(|call| call.id.clone())
            .collect();
        for id in open {
            self.say(Message::tool(id, text));
        }
    }
}

fn listed(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("- {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The steps of a plan as they were recorded.
pub(in crate::run) fn read_steps(steps: &Value) -> Result<Vec<Step>, JournalError> {
    let plan = serde_json::json!({"version": crate::plan::PLAN_VERSION, "title": "plan", "steps": steps});
    let plan: crate::plan::Plan =
        serde_json::from_value(plan).map_err(|error| JournalError::Plan(error.to_string()))?;
    Ok(plan.steps)
}
