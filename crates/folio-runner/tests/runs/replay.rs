//! A journal is folded again from its first event, and the stored state is compared with it.

use std::sync::Arc;

use crate::models_support::*;
use folio_engine::projection;
use folio_engine::run::RunSummary;
use folio_memory::id::Ref;
use folio_memory::{Actor, Change, FieldChange, Role};
use folio_model::{Model, RecordingModel, ReplayingModel, ScriptedModel};
use folio_runner::{Runner, RunnerModel, RunnerModels, RunnerOptions};
use folio_store::commit::RECORD_FORMAT;
use folio_store::sqlite::OpenOptions;
use folio_store::workspace::Write;
use folio_store::{Commit, Record, RunAppend, SqliteStore};
use serde_json::json;

#[tokio::test]
async fn replay_of_a_model_run_names_changes_outside_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite(&folder.path().join("folio.db"));
    let model = Arc::new(ScriptedModel::new(nested()));
    let runner = runner(store, &model, &Effects::default(), true);
    let run = submit(
        &runner,
        of_goal("survey the house", json!({"criteria": ["the owner knows"]})),
    )
    .await;
    runner.drive(run).await.unwrap();
    let found = runner.replay(run).await.unwrap();
    assert_eq!(found.differences, Vec::<String>::new());
    assert!(found.pages > 5 && found.entries > 10, "{found:?}");

    let workspace = runner.workspace();
    let entries = workspace
        .page_entries(Ref::Id(projection::main_page(run)))
        .await
        .unwrap();
    let change = Change::PatchEntry {
        entry: entries[0].id,
        fields: vec![FieldChange::Title("Something else".to_owned())],
        expected_version: None,
        base_version: None,
    };
    let commit = Commit {
        space: workspace.space().clone(),
        at: workspace.now(),
        actor: Actor::new(Role::Human, "ada"),
        idempotency_key: None,
        expected: Vec::new(),
        record: Record {
            format: RECORD_FORMAT,
            changes: vec![change],
            run: None,
            reason: None,
            request: None,
            folded: None,
            copied_from: None,
        },
        blobs: Vec::new(),
    };
    workspace.commit(commit).await.unwrap();
    let found = runner.replay(run).await.unwrap();
    let line = format!("entry {}: its title differs", entries[0].handle);
    assert_eq!(found.differences, std::slice::from_ref(&line));
    // What a commit says for lists is looked at, too.
    let append = RunAppend {
        run,
        events: Vec::new(),
        status: None,
        title: None,
        so_far: Some(RunSummary::default()),
    };
    let write = Write {
        run: Some(append),
        ..Write::default()
    };
    workspace.record(&Actor::new(Role::Human, "ada"), write).await.unwrap();
    let found = runner.replay(run).await.unwrap();
    assert_eq!(found.differences[1..], [line]);
    assert!(
        found.differences[0].contains("what lists show differs"),
        "{:?}",
        found.differences
    );
}

#[tokio::test]
async fn cassette_of_one_run_replays_in_another_run_of_the_same_plan() {
    let driven = async |model: Arc<dyn Model>| {
        let options = RunnerOptions {
            models: Some(RunnerModels::one(RunnerModel::new("scripted", model))),
            ..RunnerOptions::default()
        };
        let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
        let runner = Runner::new(workspace(store), registry(&Effects::default()), options);
        let extra = json!({"criteria": ["the owner knows"], "budget": {"concurrency": 1}});
        let run = submit(&runner, of_goal("survey the house", extra)).await;
        let result = runner.drive(run).await.unwrap();
        (result.status, result.notes)
    };
    let recording = Arc::new(RecordingModel::new(Arc::new(ScriptedModel::new(nested()))));
    let recorded = driven(Arc::clone(&recording) as Arc<dyn Model>).await;
    let replaying = ReplayingModel::new(recording.cassette());
    assert_eq!(driven(Arc::new(replaying)).await, recorded);
}
