//! Tells Restate where workers are.

use std::time::Duration;

use serde_json::json;

use crate::ingress::in_words;
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
    /// Workers at the same address are one deployment; what was under way at it goes on.
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
        let deployment = json!({"uri": workers, "force": true}).to_string();
        let asked = self
            .client
            .post(self.place.below(&["deployments"]))
            .header("content-type", "application/json")
            .body(deployment);
        match asked.send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("it answers {}", answer.status())),
            Err(error) => Err(in_words(&error)),
        }
    }
}
