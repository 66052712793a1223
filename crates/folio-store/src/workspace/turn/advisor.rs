//! The seam of an advisor: a model that is asked in a turn what rules cannot see (M7.11.1).
//!
//! It adds care and takes none away: it may find an input more urgent than the rules do, ask what nobody asked, and find left to do
//! what seems done. What the rules found stands, whatever it says; where it fails, breaks or takes too long, that alone stands.

use std::fmt;
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

/// Entries that an advisor is shown, the most important first.
const SHOWN: usize = 50;
/// Things that it may find left to do, and the characters of each, of a question and of a reason.
const LEFT: usize = 10;
const CHARS: usize = 400;

/// Whoever is asked in turns what rules cannot see.
#[async_trait]
pub trait Advisor: Send + Sync + fmt::Debug {
    /// What it is called in the decisions that rest on it.
    fn name(&self) -> String;

    /// What it has cost so far, as it is noted in the trace with each answer: `{"tokens_in": 120, …}`; null if that is nothing, or nobody
    /// knows.
    fn spent(&self) -> Value {
        Value::Null
    }

    /// What it makes of an input before the work.
    ///
    /// It may fail, panic or take too long: then what the rules found stands.
    ///
    /// # Errors
    ///
    /// One line that says why not; it stands in the trace.
    async fn before(&self, before: &Before) -> Result<Advice, String>;

    /// What is left to do after the work, a line each; none if it was done. Asked where the rules find nothing left.
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
    /// What the rules of the router and of the clarifier came to.
    pub decisions: Vec<Decision>,
    /// What holds and what is open, the most important first; the first fifty.
    pub at_hand: Vec<Entry>,
}

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// How urgent the input is. Less than the rules found changes nothing.
    pub urgency: Urgency,
    /// Why.
    pub why: String,
    /// What has to be asked before anybody can begin; none if it is clear. Not asked if somebody is asked already, or nobody waits.
    pub question: Option<String>,
}

/// What an advisor is shown after the work.
#[derive(Debug, Clone, PartialEq)]
pub struct After {
    /// The turn.
    pub turn: Turn,
    /// What was added and changed in it; the first fifty.
    pub touched: Vec<Entry>,
}

/// Who is asked, and how long it may take.
pub(in crate::workspace) type Asked = (Arc<dyn Advisor>, Duration);

/// An advisor at work: it ends when nobody waits for it any more.
struct Working<T>(JoinHandle<Result<T, String>>);

impl<T> Drop for Working<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Workspace {
    /// The same with somebody who is asked in its turns what rules cannot see, each time for at most `time`. Turns of runs have models of
    /// their own, and are not asked about.
    #[must_use]
    pub fn with_advisor(&self, advisor: Arc<dyn Advisor>, time: Duration) -> Self {
        Self {
            advisor: Some((advisor, time)),
            ..self.clone()
        }
    }

    /// Lets the advisor look at a turn that was drafted.
    pub(super) async fn advised(&self, drafted: &mut DraftedTurn, at_hand: &[Entry], actor: &Actor) {
        let Some((advisor, time)) = self.advisor.clone().filter(|_| drafted.new.run.is_none()) else {
            return;
        };
        let name = advisor.name();
        let before = Before {
            input: drafted.new.input.clone(),
            decisions: vec![drafted.assessment.decision(), drafted.clarity.decision()],
            at_hand: at_hand.iter().take(SHOWN).cloned().collect(),
        };
        let asking = Arc::clone(&advisor);
        let asked = within(time, async move { asking.before(&before).await });
        let detail = |advice: &Advice| json!({"urgency": advice.urgency, "question": advice.question});
        let Some(advice) = self
            .noted_answer("before", &*advisor, (actor, drafted.new.id), asked, detail)
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

    /// Lets the advisor look at what came of a turn of which the rules find nothing left to do.
    pub(super) async fn advised_in_the_end(&self, turn: &Turn, touched: &[Entry], actor: &Actor) -> Vec<String> {
        let Some((advisor, time)) = self.advisor.clone().filter(|_| turn.begun.run.is_none()) else {
            return Vec::new();
        };
        let name = advisor.name();
        let after = After {
            turn: turn.clone(),
            touched: touched.iter().take(SHOWN).cloned().collect(),
        };
        let asking = Arc::clone(&advisor);
        let asked = within(time, async move { asking.after(&after).await });
        let detail = |left: &Vec<String>| json!({"left": left.len()});
        let left = self
            .noted_answer("after", &*advisor, (actor, turn.begun.id), asked, detail)
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
        asked: impl Future<Output = Result<T, String>>,
        detail: impl FnOnce(&T) -> Value,
    ) -> Option<T> {
        let began = Instant::now();
        let answer = asked.await;
        let (mut detail, is_failed) = match &answer {
            Ok(answer) => (detail(answer), false),
            Err(why) => (json!({ "error": why }), true),
        };
        detail["by"] = advisor.name().into();
        let spent = advisor.spent();
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

/// What `asked` comes to: in a task of its own, so that it can break without breaking what it was called from.
async fn within<T: Send + 'static>(
    time: Duration,
    asked: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    let mut working = Working(tokio::spawn(asked));
    match tokio::time::timeout(time, &mut working.0).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err("it broke".to_owned()),
        Err(_) => Err("it took too long".to_owned()),
    }
}

/// What the rules found, and what the advisor finds left besides.
pub(super) fn with_left(mut evaluation: Evaluation, left: Vec<String>) -> Evaluation {
    evaluation.complete &= left.is_empty();
    evaluation.reasons.extend(left);
    evaluation
}
