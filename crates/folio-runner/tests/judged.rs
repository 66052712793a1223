//! Calls of plans whose results a judge checks before they are theirs (E9.6).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod models_support;

use std::sync::Arc;

use folio_engine::Outcome;
use folio_memory::EntryQuery;
use folio_model::ScriptedModel;
use models_support::*;
use serde_json::json;

/// What is observed of a call that answers with a text of so many characters, and how the run ends.
async fn observed_of(characters: usize, finding: &str) -> (Outcome, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(ScriptedModel::new([judging("it is long enough", finding)]));
    let runner = runner(
        sqlite(&folder.path().join("folio.db")),
        &model,
        &Effects::default(),
        false,
    );
    let steps = json!([{
        "id": "say",
        "do": {"tool": "mend", "args": {"what": "x".repeat(characters)}},
        "criteria": [{"id": "c1", "text": "it is long enough"}],
        "observe": [{"type": "learning", "content": "{{ result.output.done.what | length }} characters, {{ result.status }}"}],
    }]);
    let run = submit(&runner, of_goal("say it", json!({"steps": steps}))).await;
    let status = runner.drive(run).await.unwrap().status;
    let observed = runner.workspace().observations(EntryQuery::default()).await.unwrap();
    let texts = observed.items.into_iter().map(|entry| entry.fields.body).collect();
    model.finish().unwrap();
    (status, texts)
}

#[tokio::test]
async fn what_a_plan_wants_observed_of_a_call_is_observed_when_a_judge_has_found_it_good_e9_6() {
    let (status, observed) = observed_of(7, "met").await;
    assert_eq!((status, observed), (Outcome::Ok, vec!["7 characters, ok".to_owned()]));
    // Of a result that is kept beside the journal, too.
    let (status, observed) = observed_of(100_000, "met").await;
    assert_eq!(
        (status, observed),
        (Outcome::Ok, vec!["100000 characters, ok".to_owned()])
    );
    let (status, observed) = observed_of(7, "unmet").await;
    assert_eq!((status, observed), (Outcome::Failed, Vec::new()));
}
