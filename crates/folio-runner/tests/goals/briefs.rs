//! How much of memory a task is told, by the window of whoever does it.

use std::sync::Arc;

use folio_engine::{Event, Outcome};
use folio_memory::observation::ObservationInput;
use folio_memory::{Seq, SpaceName};
use folio_model::ScriptedModel;
use folio_runner::{Runner, RunnerExecutor, RunnerModel, RunnerModels, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{SqliteStore, Store as _};
use folio_tools::Registry;
use serde_json::json;

use crate::models_support::{doing, of_goal, person, submit, workspace};

#[tokio::test]
async fn memory_told_to_a_named_executor_fits_its_own_window_e9_17() {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let workspace = workspace(store.clone());
    for n in 0..60 {
        let text = format!("In the {n}th room the plaster falls off, and the window does not close.");
        let noticed = json!({"type": "issue", "content": text, "confidence": 0.9});
        let noticed: ObservationInput = serde_json::from_value(noticed).unwrap();
        workspace.add_observation(&person("ada"), noticed, None).await.unwrap();
    }
    let done = json!({"notes": "seen", "criteria": []});
    let script = Arc::new(ScriptedModel::new(vec![
        doing("look at it", "finish", done.clone()),
        doing("look closer", "finish", done),
    ]));
    let model = |window| RunnerModel::new("scripted", Arc::clone(&script) as _).with_window(window);
    let mut models = RunnerModels::one(model(128_000));
    let near = RunnerExecutor {
        model: model(4_096),
        about: String::new(),
    };
    models.executors.insert("near".to_owned(), near);
    let options = RunnerOptions {
        models: Some(models),
        ..RunnerOptions::default()
    };
    let runner = Runner::new(workspace, Registry::with_builtins(), options);
    let steps = json!([
        {"id": "far", "title": "look at it"},
        {"id": "near", "title": "look closer", "executor": "near"},
    ]);
    let run = submit(&runner, of_goal("survey the house", json!({"steps": steps}))).await;
    assert_eq!(runner.drive(run).await.unwrap().status, Outcome::Ok);
    let journal = store.journal(&SpaceName::main(), run, Seq(0)).await.unwrap();
    let told: Vec<usize> = journal
        .events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Briefed { memory, .. } => Some(memory.matches("room the plaster").count()),
            _ => None,
        })
        .collect();
    let [far, near] = told[..] else { panic!("{told:?}") };
    assert!(near > 0 && near * 2 < far, "{told:?}");
}
