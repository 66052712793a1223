//! Registers workers with Restate.

use std::time::Duration;

use folio::memory::causes::with_causes;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::object::SERVICE;
use crate::place::Place;

/// How long after a failed attempt to register the next one is made.
const REGISTER_RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Which workers Restate knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KnownWorkers {
    /// It calls the workers at the expected address.
    Here,
    /// It calls other workers, at this address.
    Elsewhere(String),
    /// It calls no workers.
    Nowhere,
}

/// The admin API of Restate.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    place: Place,
    client: reqwest::Client,
}

impl Admin {
    /// A client for the admin API at `place`. Sends no request yet.
    ///
    /// # Errors
    ///
    /// Why no connection is possible at all.
    pub(crate) fn at(place: Place) -> Result<Self, String> {
        let client = folio::model::http_client(place.is_plain())?;
        Ok(Self { place, client })
    }

    /// Registers the workers at `workers` with Restate, retrying until Restate has talked to one of them: a cluster
    /// that has just started refuses for some seconds. `report` is called whenever the problem differs from the
    /// previous one.
    ///
    /// Workers at the same address are one deployment, so calls that are under way there go on. Restate keeps sending
    /// calls that began at another address to that address. Therefore deployments of workers at other addresses are
    /// redirected here, and forgotten as soon as no calls are left there. Any worker can drive any run.
    pub(crate) async fn register<S: Fn(&str)>(&self, workers: &str, report: &S) {
        let mut last = String::new();
        while let Err(problem) = self.register_once(workers).await {
            if problem != last {
                report(&format!(
                    "the worker is not registered with Restate at {} yet: {problem}",
                    self.place
                ));
                last = problem;
            }
            tokio::time::sleep(REGISTER_RETRY_PAUSE).await;
        }
    }

    /// Checks every `pause` until Restate calls no workers any more, because somebody made it forget them. `report` is
    /// called when it calls other workers than those at `workers`; these are not replaced, since they would do the same
    /// in turn.
    pub(crate) async fn until_forgotten<S: Fn(&str)>(&self, workers: &str, pause: Duration, report: &S) {
        let mut last = KnownWorkers::Here;
        loop {
            tokio::time::sleep(pause).await;
            // A Restate that cannot be reached is asked again; submitting runs reports the problem.
            let Ok(known) = self.find_known_workers(workers).await else {
                continue;
            };
            match &known {
                KnownWorkers::Nowhere => {
                    report(&format!("the workers were removed from Restate at {}", self.place));
                    return;
                }
                KnownWorkers::Elsewhere(other) if known != last => report(&format!(
                    "Restate at {} now calls workers at {other} and no longer this one; restart this worker to have it called",
                    self.place
                )),
                KnownWorkers::Here if known != last => report(&format!("takes runs at {workers} again")),
                KnownWorkers::Here | KnownWorkers::Elsewhere(_) => {}
            }
            last = known;
        }
    }

    /// Whether Restate knows the workers at `workers`, or others.
    async fn find_known_workers(&self, workers: &str) -> Result<KnownWorkers, String> {
        let known = self.ask(Method::GET, &["deployments"], None).await?;
        let all = known["deployments"]
            .as_array()
            .ok_or_else(|| "its answer has no list of deployments".to_owned())?;
        let mut others = KnownWorkers::Nowhere;
        for deployment in all.iter().filter(|deployment| has_runs(deployment)) {
            let address = deployment["uri"].as_str().unwrap_or_default();
            if is_same(address, workers) {
                return Ok(KnownWorkers::Here);
            }
            others = KnownWorkers::Elsewhere(address.to_owned());
        }
        Ok(others)
    }

    async fn register_once(&self, workers: &str) -> Result<(), String> {
        // Forced, because an older worker may have registered fewer handlers.
        let deployment = json!({"uri": workers, "force": true});
        let response = self.ask(Method::POST, &["deployments"], Some(&deployment)).await?;
        let own_id = response["id"].as_str().unwrap_or_default();
        let known = self.ask(Method::GET, &["deployments"], None).await?;
        let others = known["deployments"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|other| has_runs(other))
            .filter_map(|other| other["id"].as_str().filter(|id| *id != own_id));
        for other in others {
            if self.is_called(other).await? {
                let update = json!({"uri": workers});
                self.ask(Method::PATCH, &["deployments", other], Some(&update)).await?;
            } else {
                self.forget(other).await?;
            }
        }
        Ok(())
    }

    /// Whether Restate calls anything at the deployment `id`, or will call it again.
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
            .ok_or_else(|| "its answer has no number of calls".to_owned())
    }

    /// Makes Restate forget the deployment `id`.
    async fn forget(&self, id: &str) -> Result<(), String> {
        let address = format!("{}?force=true", self.place.url_below(&["deployments", id]));
        let request = self.client.delete(address);
        self.answer(request).await.map(drop)
    }

    async fn ask(&self, method: Method, path: &[&str], body: Option<&Value>) -> Result<Value, String> {
        let mut request = self
            .client
            .request(method, self.place.url_below(path))
            .header("accept", "application/json");
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        self.answer(request).await
    }

    /// The JSON of an answer; null if it is not JSON.
    async fn answer(&self, request: RequestBuilder) -> Result<Value, String> {
        match request.send().await {
            Ok(response) if response.status().is_success() => {
                let text = response.text().await.map_err(|error| with_causes(&error))?;
                Ok(serde_json::from_str(&text).unwrap_or_default())
            }
            Ok(response) => Err(format!("it answers {}", response.status())),
            Err(error) => Err(with_causes(&error)),
        }
    }
}

/// Whether a deployment consists of workers.
fn has_runs(deployment: &Value) -> bool {
    let services = deployment["services"].as_array();
    services.is_some_and(|services| services.iter().any(|service| service["name"] == SERVICE))
}

/// Whether the address `known` is the one that Restate was given as `told`: it may write it in another form.
fn is_same(known: &str, told: &str) -> bool {
    let normalise =
        |address: &str| reqwest::Url::parse(address).map(|url| url.as_str().trim_end_matches('/').to_owned());
    matches!((normalise(known), normalise(told)), (Ok(known), Ok(told)) if known == told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_spellings_of_an_address_compare_equal() {
        assert!(is_same("http://workers.example/", "http://Workers.example:80"));
        assert!(is_same("http://127.0.0.1:9080/runs/", "http://127.0.0.1:9080/runs"));
        assert!(!is_same("http://127.0.0.1:9081/", "http://127.0.0.1:9080"));
    }
}
