//! The next model call, or what happens if it cannot be made (E9.10, E9.13).

use std::sync::Arc;
use std::time::Duration;

use folio_memory::Timestamp;
use folio_memory::excerpt::cut;
use serde_json::Value;

use super::compact::{CompactAction, Compaction};
use super::detail::{Detail, leaves_room};
use super::prompt::cost;
use super::{Agent, Equipment, ModelSpec, answer};
use crate::event::{Event, Proposal};
use crate::node::NodeId;
use crate::result::{Outcome, Output, StopReason};
use crate::run::action::Action;
use crate::run::scope::BodyNeeded;
use crate::run::state::Run;
use crate::run::waiting::DueAction;
use crate::spend::Spend;
use crate::talk::{Message, ModelRole, Purpose, ToolOffer};

/// The most model calls that one task may make if its budget says nothing else.
const TURNS_MAX: u64 = 40;
/// The most rounds in a row in which none of the wanted calls could be made.
pub(super) const REFUSALS_MAX: u32 = 3;
/// Why a model without a known price is not asked. Journals have these words, and [`Run::limit_met`] finds them there.
pub(in crate::run) const PRICE_UNKNOWN: &str = "its budget limits dollars, but the price of the model is unknown";
/// What to do about it.
const WITH_A_PRICE: &str =
    "add it to a price file, or start the run with `folio run --allow-unpriced` (`NewRun.allow_unpriced`)";
/// The most characters of the reason why no model did something, in the notes of the result.
pub(super) const WHY_CHARS: usize = 400;
/// The shortest timeout of a call that is cut short by the end of the time.
const ASK_TIME_MIN: Duration = Duration::from_secs(1);
/// The fewest tokens that the last answer of a task is given.
const ANSWER_TOKENS_MIN: u32 = 64;
/// The fewest tokens that any other answer is given: a call with its arguments fits. In a small window, it is the part
/// of the window below.
const USEFUL_ANSWER_TOKENS: u32 = 512;
/// The fewest tokens for the answer to a request without tools that still reads everything there is room for; with
/// fewer, reading less leaves more for the answer.
const ROOMY_ANSWER_TOKENS: u32 = 256;
/// The divisor of the window that limits that.
const USEFUL_WINDOW_DIVISOR: u32 = 16;

/// The fewest tokens that must be left of the window for the answer. An answer with less room would be cut off.
fn least_room(model: &ModelSpec, purpose: Purpose) -> u32 {
    if purpose.is_last() {
        return ANSWER_TOKENS_MIN;
    }
    let useful = USEFUL_ANSWER_TOKENS.min(model.window / USEFUL_WINDOW_DIVISOR);
    useful.min(model.first_answer_tokens()).max(ANSWER_TOKENS_MIN)
}

/// A model call that has to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct AskAction {
    /// The node that the call is for.
    pub node: NodeId,
    /// The number of the node's call, from 1. A repeated call keeps its number if the driver died while it was under
    /// way.
    pub call: u32,
    /// What the model is asked to do.
    pub purpose: Purpose,
    /// Everything that the model reads, in order.
    pub messages: Vec<Message>,
    /// The tools that it may call.
    pub tools: Arc<[ToolOffer]>,
    /// The JSON Schema of its answer; `None` if it answers by calling tools.
    pub answer_schema: Option<Arc<Value>>,
    /// The most tokens of its answer.
    pub answer_tokens: u32,
    /// The sampling temperature, from 0; `None` for the provider's own default.
    pub temperature: Option<f32>,
    /// The most that the call may cost.
    pub reserved: Spend,
    /// How many models of the role are passed over because they could not help: the one that is asked stands in for
    /// them (E9.13).
    pub skipped_models: u32,
    /// The executor that the task or the decision names, if the driver of the run has it (E9.17).
    pub executor: Option<String>,
    /// Whether this starts an agent program: if nobody sees its end, nobody knows what it did.
    pub is_opaque: bool,
    /// The session in which the program was working when its driver died, and which it continues (E9.17).
    pub session: Option<String>,
    /// Whether a person, or a rule that a person made, approved starting the program here.
    pub allowed: bool,
    /// How long the call may take; an agent program has its own limit.
    pub timeout: Duration,
    /// How long one attempt at the task may take, whoever does it, if the task says so.
    pub attempt: Option<Duration>,
    /// A key that stays the same for the same call, however often it is made.
    pub idempotency_key: String,
}

/// What has to happen when a model is to be asked.
enum Asking {
    /// The model is asked. If its answer has hardly room only because of what is set aside for others: the node within
    /// which they would have to give it back.
    Ask(Box<AskAction>, Option<usize>),
    /// A part of the conversation is offloaded first. If no compactor is asked only because others would have to give
    /// back what is set aside for them first: the node within which they would.
    Compact(Box<CompactAction>, Option<usize>),
    /// The model is not asked, because of this limit. If there would be room once others gave back what is set aside
    /// for them: the node within which they would.
    Over(StopReason, Option<usize>),
    /// The model is not asked, because money is limited and its cost is unknown.
    Unpriced,
}

/// What a model reads when it is asked.
struct Reading {
    messages: Vec<Message>,
    tools: Arc<[ToolOffer]>,
    answer_schema: Option<Arc<Value>>,
    /// The estimated cost of all of it.
    tokens: u64,
    /// The place of its [`Detail`] in their order.
    place: usize,
}

/// Who is asked for a task.
#[derive(Clone, Copy)]
struct Asked<'r> {
    agent: &'r Agent,
    equipment: &'r Equipment,
    model: &'r ModelSpec,
    /// How many models of the role were passed over before it.
    passed: u32,
}

impl AskAction {
    /// The event that records the start of the call.
    #[must_use]
    pub fn asked(&self) -> Event {
        Event::Asked {
            node: self.node,
            call: self.call,
            purpose: self.purpose,
            reserved: self.reserved,
            is_opaque: self.is_opaque,
        }
    }
}

impl Run {
    /// What is due for node `index`, whose model is to be asked for `purpose`; `None` if there is no room for a call. A
    /// call that does not fit into the budget for the moment waits for what others give back.
    pub(super) fn ask(&self, index: usize, purpose: Purpose, now: Timestamp, has_room: bool) -> Option<DueAction> {
        let agent = self.agent(index)?;
        let id = self.nodes[index].id;
        // The time that is left is kept for handing back results (E9.10).
        if self.is_late(index, now) && !self.has_session(index) {
            match purpose {
                Purpose::Decide => {
                    let notes = "not begun, because its time is almost up";
                    return Some(self.failed_event(index, StopReason::Deadline, notes).into());
                }
                Purpose::Work | Purpose::Replan => {
                    return Some(self.over_budget(index, purpose, StopReason::Deadline).into());
                }
                Purpose::Aggregate | Purpose::RollUp | Purpose::Judge | Purpose::HandBack => {}
            }
        }
        if matches!(purpose, Purpose::Decide | Purpose::Work)
            && let Some(name) = self.missing_executor(index)
        {
            let notes = format!("not asked, because this process has no executor `{name}`");
            return Some(self.failed_event(index, StopReason::InvalidInput, notes).into());
        }
        if !has_room {
            return None;
        }
        if self.needs_briefing(index, purpose) {
            return Some(Action::Brief(id).into());
        }
        if purpose == Purpose::Work {
            let exceeded = if agent.refusals >= REFUSALS_MAX {
                Some(StopReason::Loop)
            } else {
                (u64::from(agent.calls) >= self.turns_max(index)).then_some(StopReason::TurnCap)
            };
            if let Some(reason) = exceeded {
                return Some(Event::Spent { node: id, reason }.into());
            }
        }
        if let Some(failure) = self.session_lost(index, purpose) {
            return Some(self.no_answer_event(index, purpose, &failure).into());
        }
        let asking = match self.asking_for(index, purpose, now) {
            Ok(asking) => asking,
            Err(BodyNeeded(hash)) => return Some(Action::Load(hash).into()),
        };
        let waits_within = match asking {
            Asking::Over(_, within) | Asking::Compact(_, within) => within,
            // What can be asked does not wait for more room in the time that is kept for asking it.
            Asking::Ask(_, within) => within.filter(|_| !self.is_late(index, now)),
            Asking::Unpriced => None,
        };
        let action = match asking {
            // Work that was begun and no longer fits is not handed back as if nothing had been done.
            Asking::Over(..) | Asking::Unpriced if self.has_session(index) => {
                Action::Record(self.no_answer_event(index, purpose, &answer::lost()))
            }
            Asking::Ask(ask, _) => match self.check_program_permission(index, *ask) {
                Ok(ask) => Action::Ask(Box::new(ask)),
                Err(event) => Action::Record(*event),
            },
            Asking::Compact(compact, _) => Action::Compact(compact),
            Asking::Unpriced if matches!(purpose, Purpose::Decide | Purpose::Work) => Action::Record(
                self.failed_event(index, StopReason::BudgetUsd, format!("{PRICE_UNKNOWN}: {WITH_A_PRICE}")),
            ),
            Asking::Unpriced => Action::Record(self.over_budget(index, purpose, StopReason::BudgetUsd)),
            Asking::Over(reason, _) => Action::Record(self.over_budget(index, purpose, reason)),
        };
        Some(DueAction { action, waits_within })
    }

    /// The tokens that asking a model for `purpose` would set aside now, whether or not they are left; `None` if
    /// something has to be read first to tell.
    pub(super) fn tokens_of(&self, index: usize, purpose: Purpose) -> Option<u64> {
        let equipment = self.equipment.as_ref()?;
        let (model, _) = self.model_for(index, purpose.role())?;
        let reading = self.fitting_reading(index, purpose, model, equipment).ok()?;
        Some(reading.tokens + u64::from(model.first_answer_tokens().max(ANSWER_TOKENS_MIN)))
    }

    /// What `model` reads when it is asked for `purpose`, in as much detail as its window has room for; in the least
    /// if it has no room even for that.
    fn fitting_reading(
        &self,
        index: usize,
        purpose: Purpose,
        model: &ModelSpec,
        equipment: &Equipment,
    ) -> Result<Reading, BodyNeeded> {
        let least = least_room(model, purpose);
        let mut reading = self.reading(index, purpose, model, equipment, 0)?;
        // Most prompts are far from that, and need no second look.
        if leaves_room(purpose, model.window, reading.tokens, 0, least) {
            return Ok(reading);
        }
        let talk = match purpose {
            Purpose::Work => cost(&self.talk(index)?, &*model.tokens),
            _ => 0,
        };
        while !leaves_room(purpose, model.window, reading.tokens, talk, least)
            && reading.place < Detail::in_order(purpose).len() - 1
        {
            reading = self.reading(index, purpose, model, equipment, reading.place + 1)?;
        }
        Ok(reading)
    }

    /// What `model` reads when it is asked for `purpose`, in the detail at that `place` in the order of details.
    fn reading(
        &self,
        index: usize,
        purpose: Purpose,
        model: &ModelSpec,
        equipment: &Equipment,
        place: usize,
    ) -> Result<Reading, BodyNeeded> {
        let messages = self.messages(index, purpose, Detail::in_order(purpose)[place])?;
        let offered = (purpose == Purpose::Work && model.program.is_none()).then(|| self.offered_at(index, equipment));
        let (answer_schema, form_cost) = self.form(index, purpose, model);
        let tools_cost = offered.as_ref().map_or(0, |offered| offered.cost);
        Ok(Reading {
            tokens: self.cost_of(index, &messages, model) + tools_cost + form_cost,
            messages,
            tools: offered.map_or_else(Arc::default, |offered| Arc::clone(&offered.tools)),
            answer_schema,
            place,
        })
    }

    /// The call, what has to happen before it, or the limit that it exceeds. A call without tools that exceeds a limit,
    /// or has hardly room for an answer, is made with less to read.
    fn asking_for(&self, index: usize, purpose: Purpose, now: Timestamp) -> Result<Asking, BodyNeeded> {
        let (Some(agent), Some(equipment)) = (self.agent(index), self.equipment.as_ref()) else {
            return Ok(Asking::Over(StopReason::Unsatisfiable, None));
        };
        let Some((model, passed)) = self.model_for(index, purpose.role()) else {
            return Ok(Asking::Over(StopReason::Unsatisfiable, None));
        };
        let asked = Asked {
            agent,
            equipment,
            model,
            passed,
        };
        let reading = self.fitting_reading(index, purpose, model, equipment)?;
        let shorter = reading.place + 1..Detail::in_order(purpose).len();
        let mut best = self.asking_with(index, purpose, now, asked, reading)?;
        if matches!(purpose, Purpose::Decide | Purpose::Work) {
            return Ok(best);
        }
        let roomy = roomy_answer(model);
        let is_tight = |asking: &Asking| match asking {
            Asking::Over(..) => true,
            Asking::Ask(ask, _) => ask.answer_tokens < roomy,
            _ => false,
        };
        for place in shorter {
            if !is_tight(&best) {
                break;
            }
            let reading = self.reading(index, purpose, model, equipment, place)?;
            let next = self.asking_with(index, purpose, now, asked, reading)?;
            // One that can be made is better than none, and one that can be made later than one that never can.
            let is_worse = matches!(
                (&best, &next),
                (Asking::Ask(..), Asking::Over(..)) | (Asking::Over(_, Some(_)), Asking::Over(_, None))
            );
            if !is_worse {
                best = next;
            }
        }
        Ok(best)
    }

    /// The same with this `reading`.
    fn asking_with(
        &self,
        index: usize,
        purpose: Purpose,
        now: Timestamp,
        asked: Asked<'_>,
        reading: Reading,
    ) -> Result<Asking, BodyNeeded> {
        let Asked {
            agent,
            equipment,
            model,
            passed,
        } = asked;
        let role = purpose.role();
        let named_executor = self.executor_of(index).filter(|_| role == ModelRole::Executor);
        let is_opaque = model.program.is_some();
        let tokens_in = reading.tokens;
        match self.compaction(index, purpose, tokens_in)? {
            Compaction::Needless => {}
            Compaction::Due(compact, within) => return Ok(Asking::Compact(compact, within)),
            Compaction::Forbidden => return Ok(Asking::Over(StopReason::WindowFull, None)),
        }
        let room = u64::from(model.window).saturating_sub(tokens_in);
        if room < u64::from(least_room(model, purpose)) {
            return Ok(Asking::Over(StopReason::WindowFull, None));
        }
        let wanted = wanted_answer_tokens(agent, model, purpose, room);
        let mut answer_tokens = wanted;
        let set_aside = |answer: u32| {
            model.priced(Spend {
                tokens_in,
                tokens_out: u64::from(answer),
                model_calls: 1,
                ..Spend::default()
            })
        };
        let is_last = purpose.is_last();
        // The last call gets as much room as there is.
        while is_last
            && answer_tokens / 2 >= ANSWER_TOKENS_MIN
            && self.refused_by_budget(index, &set_aside(answer_tokens), true).is_some()
        {
            answer_tokens /= 2;
        }
        let reserved = set_aside(answer_tokens);
        // A few words are better than none, but there may be room for more in a moment.
        let is_cut = is_last && answer_tokens < wanted.min(roomy_answer(model));
        let roomy = set_aside(wanted.min(roomy_answer(model)));
        let cut_within = is_cut.then(|| self.refused_for_now(index, &roomy, true)).flatten();
        if model.price.is_none() && self.needs_price(index) {
            return Ok(Asking::Unpriced);
        }
        if let Some(reason) = self.refused_by_budget(index, &reserved, is_last) {
            return Ok(Asking::Over(reason, self.refused_for_now(index, &reserved, is_last)));
        }
        if answer_tokens < ANSWER_TOKENS_MIN {
            return Ok(Asking::Over(StopReason::BudgetTokens, None));
        }
        let is_attempt = matches!(purpose, Purpose::Decide | Purpose::Work);
        let attempt = agent.task.timeout.filter(|_| is_attempt);
        let time_limit = self.time_for_call(index, purpose, is_opaque, now);
        let call = agent.calls + 1;
        let node = self.nodes[index].id;
        let less = match reading.place {
            0 => String::new(),
            place => format!("-less{place}"),
        };
        let ask = AskAction {
            node,
            call,
            purpose,
            messages: reading.messages,
            tools: reading.tools,
            answer_schema: reading.answer_schema,
            answer_tokens,
            temperature: (agent.rejections > 0 || role == ModelRole::Judge).then_some(0.0),
            reserved,
            skipped_models: passed,
            executor: named_executor.map(|(name, _)| name.clone()),
            is_opaque,
            session: agent.session_id(),
            allowed: false,
            timeout: attempt.unwrap_or(Duration::MAX).min(equipment.timeout).min(time_limit),
            attempt,
            // A request that takes the place of a lost one is another, and a smaller answer or less to read makes it
            // another, too (E9.9).
            idempotency_key: format!("{}/{node}/{call}-{}-{answer_tokens}{less}", self.id, purpose.as_str()),
        };
        Ok(Asking::Ask(Box::new(ask), cut_within))
    }

    /// How long a call for `purpose` may take, so that time is left for handing back what was done.
    ///
    /// A task that is working when the time is over would lose what was done: its last call has time of its own
    /// (E9.10). A program has no last call. A result that another plan was meant to improve is kept the same way.
    fn time_for_call(&self, index: usize, purpose: Purpose, is_opaque: bool, now: Timestamp) -> Duration {
        let leaves_time = matches!(purpose, Purpose::Decide | Purpose::Work | Purpose::Replan);
        let before_late = self.time_before_late(index, now).filter(|_| leaves_time && !is_opaque);
        // A call that begins just before may use some of that time, but never more than half of it.
        before_late.map_or(Duration::MAX, |time| time.left.max(ASK_TIME_MIN.min(time.kept / 2)))
    }

    /// The most model calls that node `index` may make itself: more than usual if its own budget allows more.
    fn turns_max(&self, index: usize) -> u64 {
        let purse = self.nodes[index].purse.as_deref();
        let own = purse.and_then(|purse| purse.limit.model_calls);
        own.unwrap_or_default().max(TURNS_MAX)
    }

    /// The event if a call does not fit into the budget.
    fn over_budget(&self, index: usize, purpose: Purpose, reason: StopReason) -> Event {
        let node = self.nodes[index].id;
        match purpose {
            Purpose::Decide | Purpose::Work => Event::Spent { node, reason },
            Purpose::Aggregate | Purpose::HandBack => self.rolled_up(index, Some(reason)),
            Purpose::RollUp => self.rolled_up_alone(index, reason),
            Purpose::Judge => {
                let why = format!("no budget was left to judge it ({reason})");
                self.unjudged_for(index, reason, &why)
            }
            Purpose::Replan if self.has_rejected_plan(index) => self.without_approved_plan(index),
            Purpose::Replan => self.conclusion(index, Some(reason)),
        }
    }

    /// The event if a model does not answer and will not be asked again (E9.13).
    pub(super) fn no_answer_event(&self, index: usize, purpose: Purpose, failure: &crate::result::Failure) -> Event {
        match purpose {
            // What does not fit is handed back without what follows (E9.10).
            Purpose::Work if failure.reason == StopReason::WindowFull && self.members(index).next().is_some() => {
                Event::Spent {
                    node: self.nodes[index].id,
                    reason: failure.reason,
                }
            }
            // So is what was done before the time was over.
            Purpose::Work if failure.reason == StopReason::Deadline => self.over_budget(index, purpose, failure.reason),
            Purpose::Decide | Purpose::Work => self.failed_with_calls(index, failure.reason, &failure.message),
            Purpose::Judge => {
                let why = format!("the judge did not answer: {}", failure.message);
                self.unjudged_for(index, failure.reason, &why)
            }
            Purpose::Aggregate | Purpose::RollUp | Purpose::Replan | Purpose::HandBack => {
                let why = format!("the model did not answer: {}", failure.message);
                self.no_model_answer_event(index, purpose, failure.reason, &why)
            }
        }
    }

    /// The event if no model does something for node `index` that nothing else can do: the result so far counts, and
    /// its notes say `why`, so that a reader of the result alone knows it (E9.13).
    pub(super) fn no_model_answer_event(&self, index: usize, purpose: Purpose, reason: StopReason, why: &str) -> Event {
        let (event, summary) = match purpose {
            Purpose::Replan if self.has_rejected_plan(index) => return self.without_approved_plan(index),
            Purpose::Replan => (self.conclusion(index, Some(reason)), "no new plan was made"),
            Purpose::RollUp => (self.rolled_up_alone(index, reason), "these results were not combined"),
            // The limit is the reason why there is no more; that nobody wrote a summary is no reason to lose what there
            // is (E9.10).
            Purpose::HandBack => {
                let reason = self.agent(index).and_then(|agent| agent.spent);
                let proposal = Box::new(self.combine_without_summary(index, reason, Some(why)));
                let node = self.nodes[index].id;
                return Event::Proposed { node, proposal };
            }
            Purpose::Aggregate | Purpose::Decide | Purpose::Work | Purpose::Judge => {
                (self.rolled_up(index, Some(reason)), "the results were not combined")
            }
        };
        prefix_notes(event, &format!("{summary}: {}", cut(why, WHY_CHARS)))
    }

    /// The event of a failure that keeps what the task had done until then: a line for each call, and their evidence.
    pub(super) fn failed_with_calls(&self, index: usize, reason: StopReason, why: &str) -> Event {
        let mut event = self.failed_event(index, reason, why);
        if self.members(index).next().is_some()
            && let Event::Finished { result, .. } = &mut event
        {
            result.notes = self.with_table(index, &result.notes);
            result.evidence = self.roll_up(index).evidence;
        }
        event
    }

    /// The result that follows from the steps, or from what a model did, without asking a model (E9.13).
    pub(in crate::run) fn rolled_up(&self, index: usize, reason: Option<StopReason>) -> Event {
        Event::Proposed {
            node: self.nodes[index].id,
            proposal: Box::new(self.put_together(index, reason)),
        }
    }

    /// The proposal with that result.
    pub(in crate::run) fn put_together(&self, index: usize, reason: Option<StopReason>) -> Proposal {
        self.combine_without_summary(index, reason, None)
    }

    /// The same, if the model that should have summarized it did not: `unsaid` says why.
    fn combine_without_summary(&self, index: usize, reason: Option<StopReason>, unsaid: Option<&str>) -> Proposal {
        let mut result = self.roll_up(index);
        if reason.is_some() {
            result.status = result.status.max(Outcome::Partial);
        }
        let agent = self.agent(index);
        let mut output = Value::Null;
        // Nobody summarized what was done.
        if agent.is_some_and(|agent| !agent.has_plan()) {
            result.status = Outcome::Partial;
            result.notes = self.unfinished(index, reason, unsaid, &result.notes);
            if let Some(finish) = self.last_finish(index) {
                output = finish.get("output").cloned().unwrap_or_default();
                for evidence in self.checked_evidence(index, finish.get("evidence")).evidence {
                    if !result.evidence.contains(&evidence) {
                        result.evidence.push(evidence);
                    }
                }
            }
        } else if agent.is_some() {
            // Nobody combined the results, so each one gets a line (E9.13).
            result.notes = self.with_table(index, &result.notes);
            if let Some(unsaid) = unsaid {
                result.notes = format!("no summary was written: {}; {}", cut(unsaid, WHY_CHARS), result.notes);
            }
        }
        let reason = match result.status {
            Outcome::Cancelled => result.stop_reason,
            _ => reason.or(agent.and_then(|agent| agent.spent)).or(result.stop_reason),
        };
        Proposal {
            wrote: 0,
            status: result.status,
            stop_reason: reason,
            severity: None,
            notes: result.notes,
            whole_notes: None,
            output: Output::of(output),
            evidence: result.evidence,
            claims: Vec::new(),
            duration_us: 0,
        }
    }
}

/// The most tokens of an answer of `model` with which nothing has to be read less for more.
fn roomy_answer(model: &ModelSpec) -> u32 {
    ROOMY_ANSWER_TOKENS.min(model.first_answer_tokens())
}

/// How long an answer of `model` for `purpose` may be, if the window has room for that much.
fn wanted_answer_tokens(agent: &Agent, model: &ModelSpec, purpose: Purpose, room: u64) -> u32 {
    let most = model.answer_tokens.min(u32::try_from(room).unwrap_or(u32::MAX));
    // An answer that was cut off is asked for once more with all the room that there is, and so is everything after
    // it: the model needs that much.
    if agent.rejections == 0 && !agent.was_cut_off && purpose != Purpose::HandBack {
        most.min(model.first_answer_tokens().max(ANSWER_TOKENS_MIN))
    } else {
        most
    }
}

/// `event` with `prefix` before the notes of its result.
pub(super) fn prefix_notes(mut event: Event, prefix: &str) -> Event {
    let notes = match &mut event {
        Event::Proposed { proposal, .. } => &mut proposal.notes,
        Event::Finished { result, .. } => &mut result.notes,
        _ => return event,
    };
    let semicolon = if notes.is_empty() { "" } else { "; " };
    notes.insert_str(0, &format!("{prefix}{semicolon}"));
    event
}
