//! Tells Restate where workers are.

use std::time::Duration;

use serde_json::json;

use crate::ingress::in_words;
use crate::place::Place;

/// How long after an answer that says no, or none, it is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Tells Restate at `admin` that workers are at `workers`, again and again until it has talked with one of them: a cluster that
/// has just begun says no for some seconds. `said` is told whenever another thing is wrong than the time before.
///
/// Workers at the same address are one deployment; what was under way at it goes on.
pub(crate) async fn register(admin: &Place, workers: &str, mut said: impl FnMut(&str)) -> Result<(), String> {
    let client = folio::model::http_client(admin.is_plain())?;
    let address = admin.below(&["deployments"]);
    // An older worker may have told it less of what there is to call.
    let deployment = json!({"uri": workers, "force": true}).to_string();
    let mut last = String::new();
    loop {
        let asked = client
            .post(&address)
            .header("content-type", "application/json")
            .body(deployment.clone());
        let wrong = match asked.send().await {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            Ok(answer) => format!("it answers {}", answer.status()),
            Err(error) => in_words(&error),
        };
        if wrong != last {
            said(&wrong);
            last = wrong;
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}
