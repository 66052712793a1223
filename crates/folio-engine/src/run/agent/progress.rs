//! A task that a model does, while it runs: its stage, its conversation, its counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::stuck::Stuck;
use super::{REJECTIONS_MAX, calls};
use crate::event::{BookView, Proposal, Question};
use crate::plan::{Criterion, Step, Task};
use crate::result::{Failure, Finding, StopReason, Verdict};
use crate::run::LimitKind;
use crate::spend::Spend;
use crate::talk::{Message, Purpose, Reply, Speaker, Wanted};

/// The stage of a task that a model does, between its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Stage {
    /// It has to be decided whether the task is split up.
    Deciding,
    /// The task is being done.
    Working,
    /// Its steps are running, or have ended.
    Children,
    /// The results of its steps have to be combined.
    Aggregating,
    /// Its result has to be checked.
    Verifying,
    /// Another plan has to be made.
    Replanning,
    /// It has to hand back what it has.
    HandingBack,
}

/// A model call that is under way.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct Pending {
    pub(in crate::run) call: u32,
    pub(in crate::run) purpose: Purpose,
    pub(in crate::run) reserved: Spend,
    /// Whether it is an agent program.
    pub(in crate::run) is_opaque: bool,
}

/// One message of a task's conversation.
#[derive(Debug, Clone)]
pub(in crate::run) enum TalkEntry {
    /// A message that is kept as it was said.
    Message(Message),
    /// The result of a node below, as the answer to the call with that id.
    Result { id: String, node: usize },
}

/// A version of a task's plan.
#[derive(Debug, Clone, Default)]
pub(in crate::run) struct Version {
    /// Its number, or that of the last version that people made of it.
    pub(in crate::run) number: u32,
    /// The hash of its steps, and those of the versions that people made of it.
    pub(in crate::run) hashes: Vec<String>,
    /// All its steps, including those kept from earlier versions; and the same for the versions that people made of it.
    pub(in crate::run) wholes: Vec<Vec<Step>>,
    /// The required criteria that were met after it had been carried out.
    pub(in crate::run) met: Vec<String>,
    /// What the model that combined the results of its steps said of them, if another version replaced it then.
    pub(in crate::run) came_to: String,
    /// Whether a person rejected it, so that it was never carried out.
    pub(in crate::run) is_rejected: bool,
}

/// What is kept of a task that a model did after it has ended. A run has too many of these to keep more.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::run) struct Tally {
    /// The number of model calls.
    pub(in crate::run) calls: u32,
    /// The number of calls that were repeated because nobody saw their end.
    pub(in crate::run) repeated: u32,
    /// How often it was handed to a person.
    pub(super) handed: u32,
    /// How often it was sent back, told what was missing.
    pub(super) sent_back: u32,
}

/// A task that a model does, while it runs.
#[derive(Debug)]
pub(in crate::run) struct Agent {
    pub(in crate::run) task: Arc<Task>,
    pub(in crate::run) stage: Stage,
    /// What memory holds for it, and whether it was briefed since it was last split up or another plan was wanted.
    pub(in crate::run) memory: Arc<str>,
    pub(in crate::run) is_told: bool,
    /// The view of its scratchbook.
    pub(in crate::run) book: Option<Box<BookView>>,
    /// The text that replaces the offloaded part of the conversation, before `talk`.
    pub(in crate::run) offloaded_summary: String,
    /// The calls of tools whose answers are offloaded.
    pub(in crate::run) offloaded_calls: Vec<usize>,
    /// The number of model calls so far.
    pub(in crate::run) calls: u32,
    pub(in crate::run) pending: Option<Pending>,
    /// The session of the program that the call under way started, or, if that call is due again, of the program whose
    /// end nobody saw.
    pub(in crate::run) session: Option<calls::Session>,
    /// What was set aside for a compactor that was asked.
    pub(in crate::run) compacting: Option<Spend>,
    /// A reply that was not evaluated yet.
    pub(in crate::run) unread: Option<(Purpose, Box<Reply>)>,
    /// The failure of a model that did not answer and will not be asked again.
    pub(in crate::run) unanswered: Option<(Purpose, Failure)>,
    /// The conversation in this stage.
    pub(in crate::run) talk: Vec<TalkEntry>,
    /// How many models, from the usual one on, could not help in this stage.
    pub(in crate::run) passed: u32,
    /// The number of failed calls in a row.
    pub(in crate::run) failures: u32,
    /// The number of unusable answers in a row.
    pub(in crate::run) rejections: u32,
    /// Whether an answer was cut off and could not be used, so that its model needs more room.
    pub(in crate::run) was_cut_off: bool,
    /// What was wrong with the last answer, if nothing in it was usable.
    pub(in crate::run) wrong: Option<String>,
    /// The number of rounds in a row in which every call was refused.
    pub(in crate::run) refusals: u32,
    /// The number of calls of tools so far, and whether one was wanted and not made.
    pub(in crate::run) actions: u32,
    pub(in crate::run) denied: bool,
    /// The calls that it wanted and a person rejected, by their hash, each with what its model is told of that.
    pub(in crate::run) rejected_calls: BTreeMap<String, String>,
    /// How often it was sent back because something was missing.
    pub(in crate::run) sent_back: u32,
    /// The number of model calls that were repeated because nobody saw their end.
    pub(in crate::run) repeated: u32,
    /// The plans of models so far. A version that a person made of one is part of it.
    pub(in crate::run) versions: Vec<Version>,
    pub(in crate::run) proposal: Option<Box<Proposal>>,
    /// The result of its plan, while another one waits for approval.
    pub(in crate::run) interim_proposal: Option<Box<Proposal>>,
    pub(in crate::run) verdicts: Vec<Verdict>,
    /// Whether commands that check it have begun, and nobody has seen their end.
    pub(in crate::run) has_begun_checks: bool,
    /// The commands of its criteria that a person approved, as the questions name them.
    pub(in crate::run) allowed_commands: Vec<String>,
    /// The limit that was reached and the stage before that; why no judge answered, or none could be read.
    pub(in crate::run) spent: Option<StopReason>,
    /// Whose limit stopped it, and on what: raising another one does not help.
    pub(in crate::run) spent_at: Option<(usize, LimitKind)>,
    pub(in crate::run) unjudged: Option<StopReason>,
    pub(in crate::run) stage_before_limit: Stage,
    /// Why people rejected plans for it, and whether another plan has to follow the last one.
    pub(in crate::run) rejected_plans: Vec<String>,
    pub(in crate::run) is_rejected: bool,
    /// Whether no plan was approved, so that it is done without one: the plans that it had do not count then.
    pub(in crate::run) is_direct: bool,
    pub(in crate::run) question: Option<Box<Question>>,
    /// What a person said when no other plan was made, until there is one.
    pub(in crate::run) stuck: Option<Stuck>,
    /// How often it was handed to a person.
    pub(in crate::run) handed: u32,
    /// The executor that works on it, if the decision chose one.
    pub(in crate::run) executor: Option<String>,
    /// The percentage of its budget that the model is warned about.
    pub(in crate::run) warned: Option<u64>,
    /// Whether the next call repeats one whose driver died: it is the same, word for word (E9.9).
    pub(in crate::run) is_repeating: bool,
    /// How many answers people had given when the last call was begun.
    pub(in crate::run) answers_given: u32,
    /// The messages beside the work: to a judge, or when handing back.
    pub(in crate::run) side_talk: Vec<TalkEntry>,
}

impl Agent {
    /// How many models are passed over (E9.13).
    pub(super) fn passed_over(&self) -> u32 {
        // The last time that an unusable answer is requested again, another model is asked if there is one: the next
        // one after those passed over.
        self.passed + u32::from(self.rejections >= REJECTIONS_MAX)
    }

    pub(in crate::run) fn new(task: Arc<Task>, memory: Arc<str>, book: Option<Box<BookView>>) -> Self {
        Self {
            task,
            stage: Stage::Deciding,
            memory,
            is_told: true,
            book,
            offloaded_summary: String::new(),
            offloaded_calls: Vec::new(),
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
            was_cut_off: false,
            wrong: None,
            refusals: 0,
            actions: 0,
            denied: false,
            rejected_calls: BTreeMap::new(),
            sent_back: 0,
            repeated: 0,
            versions: Vec::new(),
            proposal: None,
            interim_proposal: None,
            verdicts: Vec::new(),
            has_begun_checks: false,
            allowed_commands: Vec::new(),
            spent: None,
            spent_at: None,
            unjudged: None,
            stage_before_limit: Stage::Deciding,
            rejected_plans: Vec::new(),
            is_rejected: false,
            is_direct: false,
            question: None,
            stuck: None,
            handed: 0,
            executor: None,
            warned: None,
            is_repeating: false,
            answers_given: 0,
            side_talk: Vec::new(),
        }
    }

    /// Whether it was split up by a plan that counts.
    pub(in crate::run) fn has_plan(&self) -> bool {
        !self.versions.is_empty() && !self.is_direct
    }

    /// The criteria without a verdict.
    pub(in crate::run) fn open_criteria(&self) -> impl Iterator<Item = &Criterion> {
        let has_verdict = |criterion: &Criterion| self.verdicts.iter().any(|v| v.criterion == criterion.id);
        self.task
            .criteria
            .iter()
            .filter(move |criterion| !has_verdict(criterion))
    }

    /// The required criteria that are met.
    pub(in crate::run) fn met(&self) -> Vec<String> {
        let met = self.verdicts.iter().filter(|v| v.required && v.finding == Finding::Met);
        met.map(|v| v.criterion.clone()).collect()
    }

    /// Notes that a person told it something: they may think otherwise now of the calls that they rejected.
    pub(super) fn told_by_person(&mut self) {
        self.rejected_calls.clear();
    }

    /// Notes that a person rejected its last plan: another one may follow.
    pub(in crate::run) fn plan_was_rejected(&mut self, by: &str, reason: &str) {
        self.rejected_plans.push(format!("{by}: {reason}"));
        self.is_rejected = true;
        if let Some(last) = self.versions.last_mut() {
            last.is_rejected = true;
        }
        self.proposal = self.interim_proposal.take();
        self.enter(Stage::Replanning);
    }

    /// Notes that the limit that stopped it was raised before it had handed back what it has.
    pub(in crate::run) fn goes_on(&mut self) {
        self.spent = None;
        self.spent_at = None;
        self.stage = self.stage_before_limit;
        // The outcome of the call for handing back is obsolete, whether there was an answer or not.
        self.unread = None;
        self.unanswered = None;
        self.failures = 0;
        self.side_talk.clear();
    }

    /// Replaces its last plan by the version that a person made, which does not count as a re-plan. What the model had
    /// planned still counts as tried.
    pub(in crate::run) fn plan_was_edited(&mut self, version: u32, hash: String, whole: Vec<Step>) {
        if let Some(last) = self.versions.last_mut() {
            last.number = version;
            last.hashes.push(hash);
            last.wholes.push(whole);
            last.is_rejected = false;
        }
        self.proposal = None;
        self.interim_proposal = None;
        self.is_rejected = false;
        self.enter(Stage::Children);
    }

    pub(super) fn say(&mut self, message: Message) {
        self.current_talk().push(TalkEntry::Message(message));
    }

    /// The conversation that the current stage writes to.
    fn current_talk(&mut self) -> &mut Vec<TalkEntry> {
        match self.stage {
            Stage::Verifying | Stage::HandingBack => &mut self.side_talk,
            Stage::Deciding | Stage::Working | Stage::Children | Stage::Aggregating | Stage::Replanning => {
                &mut self.talk
            }
        }
    }

    /// Moves the reply that was evaluated into the conversation.
    pub(super) fn take_reply(&mut self) -> Option<Box<Reply>> {
        let (_, reply) = self.unread.take()?;
        self.say(Message::assistant(reply.text.clone(), reply.calls.clone()));
        Some(reply)
    }

    /// Enters the planning of another version: it has to improve on the criteria met so far.
    pub(super) fn replan(&mut self) {
        if self.stage != Stage::Replanning {
            let met = self.met();
            if let Some(last) = self.versions.last_mut() {
                last.met = met;
            }
        }
        self.enter(Stage::Replanning);
    }

    pub(super) fn forget_talk(&mut self) {
        self.talk.clear();
        self.offloaded_summary.clear();
        self.offloaded_calls.clear();
    }

    pub(super) fn enter(&mut self, stage: Stage) {
        if self.stage != stage {
            self.stage = stage;
            self.passed = 0;
            self.rejections = 0;
            self.refusals = 0;
            self.side_talk.clear();
            // The model that combines the results or plans anew has not heard of what happens from here on.
            self.is_told &= !matches!(stage, Stage::Children | Stage::Replanning);
            // Nothing that was said while deciding is needed for working; what was done while working is needed for
            // handing back.
            if !matches!(stage, Stage::Working | Stage::HandingBack | Stage::Verifying) {
                self.forget_talk();
            }
        }
    }

    /// The first call in the model's last message that has no answer yet.
    pub(super) fn open_call(&self) -> Option<&Wanted> {
        open_calls(&self.talk).into_iter().next()
    }

    /// Answers every call in the model's last message that has no answer yet.
    pub(super) fn answer_calls(&mut self, text: &str) {
        let open: Vec<String> = open_calls(self.current_talk())
            .into_iter()
            .map(|call| call.id.clone())
            .collect();
        for id in open {
            self.say(Message::tool(id, text));
        }
    }
}

/// The calls in the model's last message of `conversation` that have no answer yet.
fn open_calls(conversation: &[TalkEntry]) -> Vec<&Wanted> {
    let last_calls = conversation
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, entry)| match entry {
            TalkEntry::Message(message) if message.speaker == Speaker::Assistant && !message.calls.is_empty() => {
                Some((at, message))
            }
            _ => None,
        });
    let Some((at, last_reply)) = last_calls else {
        return Vec::new();
    };
    let answered_ids: Vec<&str> = conversation[at + 1..]
        .iter()
        .filter_map(|entry| match entry {
            TalkEntry::Result { id, .. } => Some(id.as_str()),
            TalkEntry::Message(message) => message.answers.as_deref(),
        })
        .collect();
    last_reply
        .calls
        .iter()
        .filter(|call| !answered_ids.contains(&call.id.as_str()))
        .collect()
}
