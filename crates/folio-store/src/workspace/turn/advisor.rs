//! The interface of an advisor: a model that is asked in a turn what rules cannot see (M7.11.1).
//!
//! An advisor only adds care: it may find an input more urgent than the rules do, ask a question that nobody asked, and
//! find work left where all seems done. Whatever it says, the findings of the rules stand; if it fails, panics or takes
//! too long, they stand alone.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_memory::excerpt::short_line;
use folio_memory::trace::FAILED;
use folio_memory::turn::{Clarity, Decision, Evaluation, Turn, Urgency};
use folio_memory::{Actor, Entry, TurnId};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::DraftedTurn;
use crate::workspace::Workspace;

/// How many entries an advisor is shown, most important first.
const SHOWN: usize = 50;
/// How many pieces of work it may find left, and the limit in characters for each, for a question and for a reason.
const LEFT: usize = 10;
const CHARS: usize = 400;

/// Is asked in turns what rules cannot see.
#[async_trait]
pub trait Advisor: Send + Sync + fmt::Debug {
    /// The name of the advisor in the decisions that rest on it. If it panics, the advice stands without it.
    fn name(&self) -> String;

    /// What the advisor has cost so far, noted in the trace with each answer: `{"tokens_in": 120, …}`; null if nothing,
    /// or if it is unknown.
    fn spent(&self) -> Value {
        Value::Null
    }

    /// Gives advice on an input before the work.
    ///
    /// It may fail, panic or take too long: then the findings of the rules stand.
    ///
    /// # Errors
    ///
    /// One line that says why not; it is kept in the trace.
    async fn before(&self, before: &Before) -> Result<Advice, String>;

    /// Returns what is left to do after the work, one line each; empty if everything is done. Asked only if the rules
    /// find nothing left.
    ///
    /// # Errors
    ///
    /// As [`Self::before`].
    async fn after(&self, after: &After) -> Result<Vec<String>, String>;
}

/// What an advisor is shown before the work.
#[derive(Debug, Clone, PartialEq)]
pub struct Before {
    /// The input, in its writer's words.
    pub input: String,
    /// The decisions that the rules of the router and the clarifier came to.
    pub decisions: Vec<Decision>,
    /// The entries that hold or are open, most important first; the first fifty.
    pub at_hand: Vec<Entry>,
}

/// The advice of an advisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// How urgent the input is. A lower urgency than the rules found changes nothing.
    pub urgency: Urgency,
    /// The reason for the urgency.
    pub why: String,
    /// What must be asked before work can begin; `None` if the input is clear. It is not asked if there is a question
    /// already, or if nobody waits for the turn.
    pub question: Option<String>,
}

/// What an advisor is shown after the work.
#[derive(Debug, Clone, PartialEq)]
pub struct After {
    /// The turn.
    pub turn: Turn,
    /// The entries that were added and changed in it; the first fifty.
    pub touched: Vec<Entry>,
}

/// The advisor that is asked, and its time limit.
pub(in crate::workspace) type Asked = (Arc<dyn Advisor>, Duration);

/// An advisor at work; aborted when nobody waits for it any more.
struct Working<T>(JoinHandle<Result<T, String>>);

impl<T> Drop for Working<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Workspace {
    /// Returns the same workspace with an advisor, which is asked in its turns what rules cannot see, each time for at
    /// most `time`. It is not asked in turns of runs, which have models of their own.
    #[must_use]
    pub fn with_advisor(&self, advisor: Arc<dyn Advisor>, time: Duration) -> Self {
        Self {
            advisor: Some((advisor, time)),
            ..self.clone()
        }
    }

    /// Asks the advisor about a drafted turn.
    pub(super) async fn advised(&self, drafted: &mut DraftedTurn, at_hand: &[Entry], actor: &Actor) {
        let Some((advisor, time)) = self.advisor.clone().filter(|_| drafted.new.run.is_none()) else {
            return;
        };
        let name = name_of(&*advisor);
        let before = Before {
            input: drafted.new.input.clone(),
            decisions: vec![drafted.assessment.decision(), drafted.clarity.decision()],
            at_hand: at_hand.iter().take(SHOWN).cloned().collect(),
        };
        let asked_advisor = Arc::clone(&advisor);
        let answering = within(time, async move { asked_advisor.before(&before).await });
        let detail = |advice: &Advice| json!({"urgency": advice.urgency, "question": advice.question});
        let Some(advice) = self
            .noted_answer("before", &*advisor, (actor, drafted.new.id), answering, detail)
            .await
        else {
            return;
        };
        if advice.urgency > drafted.assessment.urgency {
            drafted.assessment.urgency = advice.urgency;
            let why = short_line(&advice.why, CHARS);
            drafted.assessment.reasons.push(format!("{name} raises it: {why}"));
        }
        let question = advice.question.map(|question| short_line(&question, CHARS));
        let question = question.filter(|question| !question.is_empty() && !drafted.new.background);
        if let (Some(question), Clarity::Clear(_)) = (question, &drafted.clarity) {
            drafted.clarity = Clarity::Ambiguous {
                question,
                reason: format!("{name} asks"),
                options: Vec::new(),
            };
        }
        let decisions = [
            drafted.assessment.decision(),
            DraftedTurn::of_clarifier(&drafted.clarity, &drafted.clarified),
        ];
        for decision in decisions {
            if let Some(known) = drafted
                .new
                .decisions
                .iter_mut()
                .find(|known| known.stage == decision.stage)
            {
                *known = decision;
            }
        }
    }

    /// Asks the advisor about the outcome of a turn in which the rules find nothing left to do.
    pub(super) async fn advised_in_the_end(&self, turn: &Turn, touched: &[Entry], actor: &Actor) -> Vec<String> {
        let Some((advisor, time)) = self.advisor.clone().filter(|_| turn.begun.run.is_none()) else {
            return Vec::new();
        };
        let name = name_of(&*advisor);
        let after = After {
            turn: turn.clone(),
            touched: touched.iter().take(SHOWN).cloned().collect(),
        };
        let asked_advisor = Arc::clone(&advisor);
        let answering = within(time, async move { asked_advisor.after(&after).await });
        let detail = |left: &Vec<String>| json!({"left": left.len()});
        let left = self
            .noted_answer("after", &*advisor, (actor, turn.begun.id), answering, detail)
            .await;
        let left = left.into_iter().flatten().map(|line| short_line(&line, CHARS));
        let left = left.filter(|line| !line.is_empty()).take(LEFT);
        left.map(|line| format!("{name}: {line}")).collect()
    }

    async fn noted_answer<T>(
        &self,
        operation: &str,
        advisor: &dyn Advisor,
        (actor, turn): (&Actor, TurnId),
        answering: impl Future<Output = Result<T, String>>,
        detail: impl FnOnce(&T) -> Value,
    ) -> Option<T> {
        let began = Instant::now();
        let answer = answering.await;
        let (mut detail, is_failed) = match &answer {
            Ok(answer) => (detail(answer), false),
            Err(error) => (json!({ "error": error }), true),
        };
        detail["by"] = name_of(advisor).into();
        let spent = caught(|| advisor.spent()).unwrap_or_default();
        if !spent.is_null() {
            detail["spent"] = spent;
        }
        let mut note = self.asked_by(&actor.clone().in_turn(turn)).noted("advisor", operation);
        note.duration_us = u64::try_from(began.elapsed().as_micros()).ok();
        note = note.with_detail(detail);
        if is_failed {
            FAILED.clone_into(&mut note.status);
        }
        self.note(note);
        answer.ok()
    }
}

/// The name of `advisor`, or what it is if it does not know its name.
fn name_of(advisor: &dyn Advisor) -> String {
    caught(|| advisor.name()).unwrap_or_else(|| "the advisor".to_owned())
}

/// What an advisor says at once; `None` if it panics, which affects nothing else.
fn caught<T>(says: impl FnOnce() -> T) -> Option<T> {
    // Nothing here is changed by what is said, so nothing half-changed is ever seen.
    catch_unwind(AssertUnwindSafe(says)).ok()
}

/// The outcome of `answering`, which runs in a task of its own, so that a panic does not spread to the caller.
async fn within<T: Send + 'static>(
    time: Duration,
    answering: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    let mut working = Working(tokio::spawn(answering));
    match tokio::time::timeout(time, &mut working.0).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err("it crashed".to_owned()),
        Err(_) => Err("it took too long".to_owned()),
    }
}

/// Adds what the advisor finds left to the evaluation by the rules.
pub(super) fn with_left(mut evaluation: Evaluation, left: Vec<String>) -> Evaluation {
    evaluation.complete &= left.is_empty();
    evaluation.reasons.extend(left);
    evaluation
}
