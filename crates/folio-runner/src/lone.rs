//! A model that is asked beside what runs ask: a compactor, an advisor. What it costs is counted here, its calls wait for a place as all others
//! do, and what it is told of memory stands inside of tags.

use std::sync::{Arc, Mutex, PoisonError};

use folio_engine::spend::Spend;
use folio_memory::EntryId;
use folio_model::{Message, Reply, Request, Speaker};

use crate::models::{RunnerModel, reply_of, settle_place};
use crate::places::Places;

/// A model, and what it has cost.
#[derive(Debug)]
pub(crate) struct LoneModel {
    pub(crate) model: RunnerModel,
    /// Places of all models together, if they are counted.
    all: Option<Arc<Places>>,
    spent: Mutex<Spend>,
}

impl LoneModel {
    pub(crate) fn new(model: RunnerModel) -> Self {
        Self {
            model,
            all: None,
            spent: Mutex::default(),
        }
    }

    /// The same, one of `all` models of which only so many may be asked at one moment.
    pub(crate) fn among(self, all: Option<Arc<Places>>) -> Self {
        Self { all, ..self }
    }

    /// What it has cost so far, as far as the provider says. A call that failed is a call.
    pub(crate) fn spent(&self) -> Spend {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it answers, or why it does not.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Reply, String> {
        let (place, _others) = self.model.place(self.all.as_ref()).await;
        self.count(&Spend {
            model_calls: 1,
            ..Spend::default()
        });
        let mut unheard = |_| {};
        let answered = reply_of(&self.model.name, self.model.model.reply(request, &mut unheard)).await;
        settle_place(place, &answered);
        let reply = answered.map_err(|error| error.to_string())?;
        if let Some(usage) = reply.usage {
            let mut spend = self.model.spend_of(&usage);
            let of_price = self.model.price.map_or(0, |price| price.of(&spend));
            spend.micro_usd = spend.micro_usd.saturating_add(of_price);
            self.count(&spend);
        }
        Ok(reply)
    }

    fn count(&self, spend: &Spend) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = spent.plus(spend);
    }
}

/// A message without calls.
pub(crate) fn message(speaker: Speaker, text: String) -> Message {
    Message {
        speaker,
        text,
        tool_calls: Vec::new(),
        answers: None,
    }
}

/// The name of a tag around `parts`, for `what`: nothing inside can name a tag that is made of all that is inside.
pub(crate) fn tag_around(what: &str, parts: &[&str]) -> String {
    let all: Vec<&str> = std::iter::once(what).chain(parts.iter().copied()).collect();
    let made = EntryId::derived(&all).to_string().to_lowercase();
    format!("data-{}", &made[made.len() - 10..])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_model::{Cue, ModelErrorKind, Role, ScriptedModel, When};

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

    fn asked(script: Cue) -> LoneModel {
        let model = Arc::new(ScriptedModel::new([script]));
        LoneModel::new(RunnerModel::new("scripted", model))
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_for_a_place_among_all_models() {
        let all = Places::new(1);
        let taken = all.take().await;
        let model = asked(When::role(Role::Advisor).text("well")).among(Some(Arc::clone(&all)));
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
    async fn a_call_that_failed_is_counted() {
        let broken = When::role(Role::Advisor).error(ModelErrorKind::Unavailable);
        let model = asked(broken);
        assert!(model.ask(&question()).await.is_err());
        assert_eq!(model.spent().model_calls, 1);
    }
}
