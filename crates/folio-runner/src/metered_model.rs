//! A model that is asked outside of the runs' own questions: a compactor or an advisor. Its cost is counted here, its
//! calls wait for a place like all others, and what it is told from memory is enclosed in tags.

use std::sync::Arc;

use folio_engine::spend::Spend;
use folio_memory::EntryId;
use folio_model::{Message, ModelError, ModelErrorKind, Reply, Request, Speaker, StopCause, Usage, UsedUp};
use parking_lot::Mutex;

use crate::models::{RunnerModel, reply_of, settle_place};
use crate::places::Places;

/// A model and its cost so far.
#[derive(Debug)]
pub(crate) struct MeteredModel {
    pub(crate) model: RunnerModel,
    /// The places that all models share, if they are limited.
    shared_places: Option<Arc<Places>>,
    counted: Mutex<Counted>,
}

/// The cost of calls.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    spent: Spend,
    /// Calls without known usage, including those under way or given up.
    unknown: u64,
}

impl MeteredModel {
    pub(crate) fn new(model: RunnerModel) -> Self {
        Self {
            model,
            shared_places: None,
            counted: Mutex::default(),
        }
    }

    /// Limits its calls by `all`, the places that all models share.
    pub(crate) fn with_shared_places(self, all: Option<Arc<Places>>) -> Self {
        Self {
            shared_places: all,
            ..self
        }
    }

    /// What it has cost so far, as far as the provider reports it. A failed call counts as a call, and a call without
    /// known usage as unpriced.
    pub(crate) fn spent(&self) -> Spend {
        let counted = self.counts();
        Spend {
            unpriced_calls: counted.spent.unpriced_calls.saturating_add(counted.unknown),
            ..counted.spent
        }
    }

    /// What it has cost so far; or `reserved`, which was set aside for it, if a call did not report its usage (E9.10).
    pub(crate) fn spent_of(&self, reserved: &Spend) -> Spend {
        let counted = self.counts();
        match counted.unknown {
            0 => counted.spent,
            _ => Spend {
                model_calls: counted.spent.model_calls,
                unpriced_calls: reserved.unpriced_calls.min(counted.spent.model_calls),
                ..*reserved
            },
        }
    }

    /// The answer of the model, or of its fallbacks if it fails or refuses; or why there is none.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Reply, String> {
        let mut model = &self.model;
        loop {
            let result = self.ask_one(model, request).await;
            let is_answer = result.as_ref().is_ok_and(|reply| reply.stop != StopCause::Refusal);
            match &model.fallback {
                Some(next) if !is_answer && next.worker().is_none() => model = next,
                _ => return result.map_err(|error| error.to_string()),
            }
        }
    }

    async fn ask_one(&self, model: &RunnerModel, request: &Request) -> Result<Reply, ModelError> {
        let (place, _others) = model.place(self.shared_places.as_ref()).await;
        self.update_counts(|counted| {
            counted.spent.model_calls += 1;
            counted.unknown += 1;
        });
        let mut unheard = |_| {};
        let result = reply_of(&model.name, model.model.reply(request, &mut unheard)).await;
        settle_place(place, &result);
        let used = match &result {
            Ok(reply) => reply.usage.as_ref().map(|usage| cost_of(usage, model)),
            Err(error) => match &error.used {
                UsedUp::Known(usage) => Some(cost_of(usage, model)),
                UsedUp::ByKind if !has_begun(error.kind) => Some(Spend::default()),
                _ => None,
            },
        };
        if let Some(used) = used {
            self.update_counts(|counted| {
                counted.spent = counted.spent.plus(&used);
                counted.unknown -= 1;
            });
        }
        result
    }

    fn counts(&self) -> Counted {
        *self.counted.lock()
    }

    fn update_counts(&self, count: impl FnOnce(&mut Counted)) {
        count(&mut self.counted.lock());
    }
}

/// What `usage` costs at the price of `model`.
fn cost_of(usage: &Usage, model: &RunnerModel) -> Spend {
    let spend = model.spend_of(usage);
    let of_price = model.price.map_or(0, |price| price.of(&spend));
    Spend {
        micro_usd: spend.micro_usd.saturating_add(of_price),
        ..spend
    }
}

/// Whether a model that failed in this way may have used up something.
fn has_begun(kind: ModelErrorKind) -> bool {
    matches!(
        kind,
        ModelErrorKind::Unavailable | ModelErrorKind::Malformed | ModelErrorKind::Failed | ModelErrorKind::Unknown
    )
}

/// A message without tool calls.
pub(crate) fn message(speaker: Speaker, text: String) -> Message {
    Message {
        speaker,
        text,
        tool_calls: Vec::new(),
        answers: None,
    }
}

/// The name of a tag around `parts` for `purpose`. It is derived from all of the content, so nothing inside can contain
/// it.
pub(crate) fn tag_around(purpose: &str, parts: &[&str]) -> String {
    let all: Vec<&str> = std::iter::once(purpose).chain(parts.iter().copied()).collect();
    let hash = EntryId::derived(&all).to_string().to_lowercase();
    format!("data-{}", &hash[hash.len() - 10..])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_model::{Cue, Role, ScriptedModel, When};

    use super::*;

    fn question() -> Request {
        Request {
            role: Role::Advisor,
            messages: vec![message(Speaker::User, "?".to_owned())],
            tools: Vec::new(),
            answer_schema: None,
            tokens_max: 10,
            temperature: None,
            idempotency_key: "q".to_owned(),
        }
    }

    fn scripted_model(script: Cue) -> MeteredModel {
        let model = Arc::new(ScriptedModel::new([script]));
        MeteredModel::new(RunnerModel::new("scripted", model))
    }

    #[tokio::test(start_paused = true)]
    async fn lone_model_waits_for_a_place_among_all_models() {
        let all = Places::new(1);
        let taken = all.take().await;
        let model = scripted_model(When::role(Role::Advisor).text("well")).with_shared_places(Some(Arc::clone(&all)));
        let question = question();
        let mut asking = Box::pin(model.ask(&question));
        let waits = tokio::time::timeout(Duration::from_secs(3600), &mut asking).await;
        assert!(waits.is_err(), "all places are taken");
        assert_eq!(model.spent().model_calls, 0);
        drop(taken);
        assert_eq!(asking.await.unwrap().text, "well");
        assert_eq!(model.spent().model_calls, 1);
    }

    #[tokio::test]
    async fn lone_model_counts_failed_calls() {
        let broken = When::role(Role::Advisor).error(ModelErrorKind::Unavailable);
        let model = scripted_model(broken);
        assert!(model.ask(&question()).await.is_err());
        assert_eq!(model.spent().model_calls, 1);
    }

    #[tokio::test]
    async fn model_call_without_usage_is_charged_its_reserve_e9_10() {
        let reserved = Spend {
            tokens_in: 4_000,
            tokens_out: 400,
            model_calls: 4,
            unpriced_calls: 4,
            ..Spend::default()
        };
        let usage = Usage {
            tokens_in: 7,
            tokens_out: 3,
            ..Usage::default()
        };
        let cue = || When::role(Role::Advisor);
        let stands = (4_400, 1, 1);
        for (answer, cost) in [
            (cue().text("well").usage(usage), (10, 1, 1)),
            (cue().text("well"), stands),
            (cue().error(ModelErrorKind::Unavailable), stands),
            (cue().error(ModelErrorKind::Unreached), (0, 1, 0)),
        ] {
            let model = scripted_model(answer);
            let _answered = model.ask(&question()).await;
            let spent = model.spent_of(&reserved);
            assert_eq!((spent.tokens(), spent.model_calls, spent.unpriced_calls), cost);
        }
        // It was given up while it was asked.
        let model = scripted_model(cue().text("well").latency(Duration::from_secs(9)));
        let late = tokio::time::timeout(Duration::ZERO, model.ask(&question())).await;
        assert!(late.is_err());
        assert_eq!(model.spent_of(&reserved).tokens(), 4_400);
        assert_eq!(model.spent().unpriced_calls, 1);
    }

    #[tokio::test]
    async fn lone_model_asks_its_fallback_after_an_error_or_refusal_e9_13() {
        let cue = || When::role(Role::Advisor);
        let refusal = cue().text("no").stop(StopCause::Refusal);
        for broken in [cue().error(ModelErrorKind::Unreached), refusal] {
            let other = Arc::new(ScriptedModel::new([cue().text("well")]));
            let mut model = scripted_model(broken);
            model.model = model.model.or(RunnerModel::new("other", other));
            assert_eq!(model.ask(&question()).await.unwrap().text, "well");
            assert_eq!(model.spent().model_calls, 2);
        }
    }
}
