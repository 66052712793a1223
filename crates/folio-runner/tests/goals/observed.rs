//! A model that refers to what it observed (E9.7).

use std::sync::Arc;

use crate::models_support::*;
use async_trait::async_trait;
use folio_engine::Outcome;
use folio_memory::EntryQuery;
use folio_model::{Delta, Model, ModelError, Reply, Request, ScriptedModel, When};
use folio_runner::{Runner, RunnerModel, RunnerModels, RunnerOptions};
use serde_json::json;

/// Observes once, and then gives what it was told of as evidence, and an observation that nobody made.
#[derive(Debug)]
struct Noticing(ScriptedModel);

#[async_trait]
impl Model for Noticing {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        let texts = request.messages.iter().map(|message| message.text.as_str());
        let told: Vec<&str> = texts
            .flat_map(str::lines)
            .filter_map(|line| line.strip_prefix("[observation ")?.strip_suffix(']'))
            .collect();
        if told.is_empty() {
            return self.0.reply(request, pieces).await;
        }
        let mut evidence: Vec<_> = told.iter().map(|id| json!({"kind": "observation", "id": id})).collect();
        evidence.push(json!("obs_00000000000000000000000000"));
        let finish = json!({"status": "ok", "notes": "seen", "evidence": evidence});
        let model = ScriptedModel::new([When::any().calls([("finish", finish)])]);
        model.reply(request, pieces).await
    }
}

#[tokio::test]
async fn observation_is_evidence_by_the_id_that_its_call_answers_e9_7() {
    let items = json!({"items": ["the roof leaks", {"content": "x", "type": "nonsense"}, "it rains"]});
    let script = ScriptedModel::new([doing("look at the roof", "observe", items)]);
    let folder = tempfile::tempdir().unwrap();
    let workspace = workspace(sqlite(&folder.path().join("folio.db")));
    let model = RunnerModel::new("scripted", Arc::new(Noticing(script)));
    let options = RunnerOptions {
        models: Some(RunnerModels::one(model)),
        ..RunnerOptions::default()
    };
    let runner = Runner::new(workspace, registry(&Effects::default()), options);
    let run = submit(&runner, of_goal("look at the roof", json!({}))).await;
    let result = runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    let observed = runner.workspace().observations(EntryQuery::default()).await.unwrap();
    let mut written: Vec<String> = observed.items.iter().map(|entry| entry.id.to_string()).collect();
    let mut given: Vec<String> = result.evidence.iter().map(|evidence| evidence.id.clone()).collect();
    written.sort();
    given.sort();
    assert_eq!((written.len(), given), (2, written));
    assert!(result.evidence.iter().all(|evidence| evidence.kind == "observation"));
    assert!(
        result.notes.contains("1 reference to unknown evidence was left out"),
        "{}",
        result.notes
    );
}
