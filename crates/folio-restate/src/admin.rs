//! Tells Restate where workers are.

use std::time::Duration;

use folio::memory::causes::with_causes;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::object::SERVICE;
use crate::place::Place;

/// How long after an answer that says no, or none, it is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Restate's door for those who run it.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    place: Place,
    client: reqwest::Client,
}

impl Admin {
    /// The door at `place`. Nothing is asked of it yet.
    ///
    /// # Errors
    ///
    /// Why there can be no connection at all.
    pub(crate) fn at(place: Place) -> Result<Self, String> {
        let client = folio::model::http_client(place.is_plain())?;
        Ok(Self { place, client })
    }

    /// Tells Restate that workers are at `workers`, again and again until it has talked with one of them: a cluster that has just
    /// begun says no for some seconds. `said` is told whenever another thing is wrong than the time before.
    ///
    /// Workers at the same address are one deployment; what was under way at it goes on. Restate goes on calling what it had begun to
    /// call at another address there, so those of workers that were elsewhere before are led here, and forgotten as soon as nothing
    /// goes on at them. Any worker can drive any run.
    pub(crate) async fn register<S: Fn(&str)>(&self, workers: &str, said: &S) {
        let mut last = String::new();
        while let Err(wrong) = self.register_once(workers).await {
            if wrong != last {
                said(&format!(
                    "Restate at {} is not told yet that there is a worker: {wrong}",
                    self.place
                ));
                last = wrong;
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    async fn register_once(&self, workers: &str) -> Result<(), String> {
        // An older worker may have told it less of what there is to call.
        let deployment = json!({"uri": workers, "force": true});
        let told = self.ask(Method::POST, &["deployments"], Some(&deployment)).await?;
        let own = told["id"].as_str().unwrap_or_default();
        let known = self.ask(Method::GET, &["deployments"], None).await?;
        let others = known["deployments"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|other| {
                let services = other["services"].as_array()?;
                let id = other["id"].as_str().filter(|id| *id != own)?;
                services.iter().any(|service| service["name"] == SERVICE).then_some(id)
            });
        for other in others {
            if self.is_called(other).await? {
                let here = json!({"uri": workers});
                self.ask(Method::PATCH, &["deployments", other], Some(&here)).await?;
            } else {
                self.forget(other).await?;
            }
        }
        Ok(())
    }

    /// Whether there is anything that Restate calls at the deployment `id`, or will call there again.
    async fn is_called(&self, id: &str) -> Result<bool, String> {
        let query = format!(
            "SELECT count(*) AS calls FROM sys_invocation_status WHERE pinned_deployment_id = '{id}' AND status <> 'completed'"
        );
        let answer = self
            .ask(Method::POST, &["query"], Some(&json!({"query": query})))
            .await?;
        let calls = answer["rows"][0]["calls"].as_u64();
        calls
            .map(|calls| calls > 0)
            .ok_or_else(|| "it does not say what it calls".to_owned())
    }

    /// Has Restate forget the deployment `id`.
    async fn forget(&self, id: &str) -> Result<(), String> {
        let address = format!("{}?force=true", self.place.below(&["deployments", id]));
        let gone = self.client.delete(address);
        self.answer(gone).await.map(drop)
    }

    async fn ask(&self, how: Method, what: &[&str], body: Option<&Value>) -> Result<Value, String> {
        let mut asked = self
            .client
            .request(how, self.place.below(what))
            .header("accept", "application/json");
        if let Some(body) = body {
            asked = asked.header("content-type", "application/json").body(body.to_string());
        }
        self.answer(asked).await
    }

    /// What it answers; nothing if that is no JSON.
    async fn answer(&self, asked: RequestBuilder) -> Result<Value, String> {
        match asked.send().await {
            Ok(answer) if answer.status().is_success() => {
                let text = answer.text().await.map_err(|error| with_causes(&error))?;
                Ok(serde_json::from_str(&text).unwrap_or_default())
            }
            Ok(answer) => Err(format!("it answers {}", answer.status())),
            Err(error) => Err(with_causes(&error)),
        }
    }
}
