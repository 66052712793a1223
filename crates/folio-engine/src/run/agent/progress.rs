//! A task that a model does, while it goes on: where it stands, what was said, what is counted.

use std::sync::Arc;

use super::{REJECTIONS_MAX, calls};
use crate::event::{BookView, Proposal, Question};
use crate::plan::{Criterion, Step, Task};
use crate::result::{Failure, Finding, StopReason, Verdict};
use crate::spend::Spend;
use crate::talk::{Message, Purpose, Reply, Speaker};

/// Where a task that a model does stands between its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Stage {
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
pub(in crate::run) struct Pending {
    pub(in crate::run) call: u32,
    pub(in crate::run) purpose: Purpose,
    pub(in crate::run) reserved: Spend,
    /// Whether it is a program that works by itself.
    pub(in crate::run) is_opaque: bool,
}

/// One piece of a task's conversation.
#[derive(Debug, Clone)]
pub(in crate::run) enum Said {
    /// Something that stands as it was said.
    Message(Message),
    /// The result of a node below, as the answer to the call of that id.
    Result { id: String, node: usize },
}

/// A version of a task's plan.
#[derive(Debug, Clone, Default)]
pub(in crate::run) struct Version {
    /// The hash of its steps, and those of what people made of it.
    pub(in crate::run) hashes: Vec<String>,
    /// Its steps, those that it kept of the versions before it included, and the same of what people made of it.
    pub(in crate::run) wholes: Vec<Vec<Step>>,
    /// The required criteria that were met when it had been carried out.
    pub(in crate::run) met: Vec<String>,
    /// What whoever put its steps together said of them, if another one took its place then.
    pub(in crate::run) came_to: String,
}

/// What is known of a task that a model did once it has ended: so many of them are in a run that nothing else of them is kept.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::run) struct Tally {
    /// Calls of models.
    pub(in crate::run) calls: u32,
    /// Calls that were made again because nobody saw their end.
    pub(in crate::run) repeated: u32,
    /// Times that it was handed to a person.
    pub(super) handed: u32,
    /// Times that it was done once more with what was missing.
    pub(super) sent_back: u32,
}

/// A task that a model does, while it goes on.
#[derive(Debug)]
pub(in crate::run) struct Agent {
    pub(in crate::run) task: Arc<Task>,
    pub(in crate::run) stage: Stage,
    /// What memory holds for it, and whether it was told so since it was taken apart the last time, or another plan was wanted.
    pub(in crate::run) memory: Arc<str>,
    pub(in crate::run) is_told: bool,
    /// What stands in its scratchbook.
    pub(in crate::run) book: Option<Box<BookView>>,
    /// What stands for what was said before `talk` and is put away.
    pub(in crate::run) before: String,
    /// The calls of tools whose answers are put away.
    pub(in crate::run) done_before: Vec<usize>,
    /// Calls of models so far.
    pub(in crate::run) calls: u32,
    pub(in crate::run) pending: Option<Pending>,
    /// The session of the program that the call under way started, or, while it is owed again, of the one that nobody saw the end of.
    pub(in crate::run) session: Option<calls::Session>,
    /// What was set aside for a compactor that is asked.
    pub(in crate::run) compacting: Option<Spend>,
    /// A reply that nothing was concluded from yet.
    pub(in crate::run) unread: Option<(Purpose, Box<Reply>)>,
    /// A model that did not answer and will not be asked again.
    pub(in crate::run) unanswered: Option<(Purpose, Failure)>,
    /// What was said in this stage.
    pub(in crate::run) talk: Vec<Said>,
    /// Models in a row, from the usual one, that were of no help in this stage.
    pub(in crate::run) passed: u32,
    /// Calls in a row that came to nothing.
    pub(in crate::run) failures: u32,
    /// Answers in a row that could not be used.
    pub(in crate::run) rejections: u32,
    /// What was wrong with the last answer, if nothing of it could be used.
    pub(in crate::run) wrong: Option<String>,
    /// Rounds in a row in which every call was refused.
    pub(in crate::run) refusals: u32,
    /// Calls of tools so far, and whether one was wanted and not made.
    pub(in crate::run) actions: u32,
    pub(in crate::run) denied: bool,
    /// Times that it was done again because something was missing.
    pub(in crate::run) sent_back: u32,
    /// Calls of models that were made again because nobody saw their end.
    pub(in crate::run) repeated: u32,
    /// Plans of models so far. What a person made of one takes its place.
    pub(in crate::run) versions: Vec<Version>,
    pub(in crate::run) proposal: Option<Box<Proposal>>,
    /// What its plan came to, while another one waits for a yes.
    pub(in crate::run) until_now: Option<Box<Proposal>>,
    pub(in crate::run) verdicts: Vec<Verdict>,
    /// Whether commands that check it have begun, and nobody has seen their end.
    pub(in crate::run) has_begun_checks: bool,
    /// The commands of its criteria that a person allowed, as the questions name them.
    pub(in crate::run) allowed_commands: Vec<String>,
    /// The limit that was reached, and what it did until then; why there was no judge, or none that could be read.
    pub(in crate::run) spent: Option<StopReason>,
    pub(in crate::run) unjudged: Option<StopReason>,
    pub(in crate::run) was_at: Stage,
    /// Why people rejected plans for it, and whether another is to be made because of the last.
    pub(in crate::run) rejected_plans: Vec<String>,
    pub(in crate::run) is_rejected: bool,
    /// Whether no plan found a yes, so that it is done without one: then those that it had count for nothing.
    pub(in crate::run) is_direct: bool,
    pub(in crate::run) question: Option<Box<Question>>,
    /// Times that it was handed to a person.
    pub(in crate::run) handed: u32,
    /// Who works on it, if whoever decided said so.
    pub(in crate::run) executor: Option<String>,
    /// The per cent of its budget that the model is told of.
    pub(in crate::run) warned: Option<u64>,
    /// Whether the next call is one whose driver died: then it is the same, word for word (E9.9).
    pub(in crate::run) is_repeating: bool,
    /// What was said beside the work: to a judge, or when handing back.
    pub(in crate::run) aside: Vec<Said>,
}

impl Agent {
    /// How many of those who could be asked are passed over (E9.13).
    pub(super) fn passed_over(&self) -> u32 {
        // The last time that an answer is asked for again, somebody else is asked if there is anybody: the next one after whoever was passed
        // over.
        self.passed + u32::from(self.rejections >= REJECTIONS_MAX)
    }

    pub(in crate::run) fn new(task: Arc<Task>, memory: Arc<str>, book: Option<Box<BookView>>) -> Self {
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
            wrong: None,
            refusals: 0,
            actions: 0,
            denied: false,
            sent_back: 0,
            repeated: 0,
            versions: Vec::new(),
            proposal: None,
            until_now: None,
            verdicts: Vec::new(),
            has_begun_checks: false,
            allowed_commands: Vec::new(),
            spent: None,
            unjudged: None,
            was_at: Stage::Deciding,
            rejected_plans: Vec::new(),
            is_rejected: false,
            is_direct: false,
            question: None,
            handed: 0,
            executor: None,
            warned: None,
            is_repeating: false,
            aside: Vec::new(),
        }
    }

    /// Whether it was taken apart, by a plan that counts.
    pub(in crate::run) fn has_plan(&self) -> bool {
        !self.versions.is_empty() && !self.is_direct
    }

    /// The criteria of which nobody has said whether they are met.
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

    /// A person rejected its last plan: there may be another one.
    pub(in crate::run) fn plan_was_rejected(&mut self, by: &str, reason: &str) {
        self.rejected_plans.push(format!("{by}: {reason}"));
        self.is_rejected = true;
        self.proposal = self.until_now.take();
        self.enter(Stage::Replanning);
    }

    /// The limit that stopped it was raised before it had handed back what it has.
    pub(in crate::run) fn goes_on(&mut self) {
        self.spent = None;
        self.stage = self.was_at;
        // What came of the call for handing back is nothing to go by any more, whether it answered or not.
        self.unread = None;
        self.unanswered = None;
        self.failures = 0;
        self.aside.clear();
    }

    /// A person made another plan of its last one: it takes its place, and costs no re-plan. What the model had planned is known as planned.
    pub(in crate::run) fn plan_was_edited(&mut self, hash: String, whole: Vec<Step>) {
        if let Some(last) = self.versions.last_mut() {
            last.hashes.push(hash);
            last.wholes.push(whole);
        }
        self.proposal = None;
        self.until_now = None;
        self.is_rejected = false;
        self.enter(Stage::Children);
    }

    pub(super) fn say(&mut self, message: Message) {
        self.voice().push(Said::Message(message));
    }

    /// Where what is said now belongs.
    pub(super) fn voice(&mut self) -> &mut Vec<Said> {
        match self.stage {
            Stage::Verifying | Stage::HandingBack => &mut self.aside,
            Stage::Deciding | Stage::Working | Stage::Children | Stage::Aggregating | Stage::Replanning => {
                &mut self.talk
            }
        }
    }

    /// Takes the reply that was concluded from into the conversation.
    pub(super) fn take_reply(&mut self) -> Option<Box<Reply>> {
        let (_, reply) = self.unread.take()?;
        self.say(Message::assistant(reply.text.clone(), reply.calls.clone()));
        Some(reply)
    }

    /// Another plan is asked for: what was met so far is what the next has to better.
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
        self.before.clear();
        self.done_before.clear();
    }

    pub(super) fn enter(&mut self, stage: Stage) {
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

    /// Answers every call of the last thing that the model said which has no answer yet.
    pub(super) fn answer_calls(&mut self, text: &str) {
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
