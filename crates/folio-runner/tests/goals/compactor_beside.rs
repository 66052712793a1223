//! A compactor that works beside the rest of a run: nothing else waits for it, and events meanwhile are noticed
//! (E9.11, E9.14, E9.16).

use std::sync::Arc;

use crate::models_support::*;
use async_trait::async_trait;
use folio_engine::{Event, NodeResult, Outcome, Run};
use folio_memory::RunId;
use folio_model::{Cue, Delta, Model, ModelError, Reply, Request, Role as ModelRole, ScriptedModel, When};
use folio_runner::{Runner, RunnerError, RunnerModel, RunnerModels, RunnerOptions, Watch};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A door that lets one through for each release.
#[derive(Debug)]
struct Door(Semaphore);

impl Door {
    fn closed() -> Arc<Self> {
        Arc::new(Self(Semaphore::new(0)))
    }

    fn open(&self) {
        self.0.add_permits(1);
    }

    async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// A model that signals when it is asked, and answers when released.
#[derive(Debug)]
struct Held {
    inner: ScriptedModel,
    /// The text that marks requests to hold.
    part: &'static str,
    asked: Arc<Door>,
    may_answer: Arc<Door>,
}

#[async_trait]
impl Model for Held {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        if request.messages.iter().any(|message| message.text.contains(self.part)) {
            self.asked.open();
            self.may_answer.pass().await;
        }
        self.inner.reply(request, pieces).await
    }
}

/// One branch sorts letters until they are too many; the last call of the other branch waits until the compactor is
/// asked.
struct House {
    runner: Runner,
    run: RunId,
    /// Opens when the compactor is asked.
    asked: Arc<Door>,
    /// Opens when the compactor may answer.
    may_answer: Arc<Door>,
    /// Opens when the last call of the other branch may be answered.
    may_finish: Arc<Door>,
    _folder: tempfile::TempDir,
}

async fn house() -> House {
    let folder = tempfile::tempdir().unwrap();
    let [asked, may_answer, may_finish] = [Door::closed(), Door::closed(), Door::closed()];
    let summary = json!({"summary": "The letters so far are sorted.", "next_actions": ["sort the rest"]});
    let compactor = Held {
        inner: ScriptedModel::new([When::role(ModelRole::Compactor).calls([("done", summary)]).always()]),
        part: "",
        asked: Arc::clone(&asked),
        may_answer: Arc::clone(&may_answer),
    };
    let mut cues: Vec<Cue> = vec![
        planning(
            "tidy the house",
            json!([{"id": "both", "title": "at once", "parallel": [{"id": "letters", "title": "sort the letters", "criteria": ["sorted"]},
                    {"id": "door", "title": "paint the door", "criteria": ["painted"]}]}]),
        ),
        doing("paint the door", "mend", json!({"what": "door"})),
        finishing("paint the door"),
        aggregating("tidy the house", "all of it"),
    ];
    cues.extend(letters(30));
    let others = Held {
        inner: ScriptedModel::new(cues),
        part: "Do a task with tools",
        asked: Door::closed(),
        may_answer: Arc::clone(&may_finish),
    };
    // Only the end of the other branch is held.
    let others = OfOneTask {
        held: others,
        title: "# Task\npaint the door\n",
    };
    let mut model = RunnerModel::new("scripted", Arc::new(others));
    model.window = LETTERS_WINDOW;
    model.answer_tokens = LETTERS_WINDOW / 8;
    let mut puts = RunnerModel::new("compactor", Arc::new(compactor));
    puts.answer_tokens = 500;
    let options = RunnerOptions {
        models: Some(RunnerModels {
            compactor: Some(puts),
            ..RunnerModels::one(model)
        }),
        ..RunnerOptions::default()
    };
    let store = sqlite(&folder.path().join("folio.db"));
    let runner = Runner::new(workspace(store), registry(&Effects::default()), options);
    let run = submit(&runner, of_goal("tidy the house", json!({}))).await;
    House {
        runner,
        run,
        asked,
        may_answer,
        may_finish,
        _folder: folder,
    }
}

/// Holds only the requests for one task.
#[derive(Debug)]
struct OfOneTask {
    held: Held,
    title: &'static str,
}

#[async_trait]
impl Model for OfOneTask {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        if request.messages.iter().any(|message| message.text.contains(self.title)) {
            self.held.reply(request, pieces).await
        } else {
            self.held.inner.reply(request, pieces).await
        }
    }
}

impl House {
    fn drive(&self) -> JoinHandle<Result<NodeResult, RunnerError>> {
        let (runner, run) = (self.runner.clone(), self.run);
        tokio::spawn(async move { runner.drive(run).await })
    }

    /// Waits until `is_so` holds for an event of the journal.
    async fn wait_until(&self, is_so: impl Fn(&Run, &Event) -> bool) {
        let workspace = self.runner.workspace();
        let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), self.run);
        while let Some(news) = watch.next().await.unwrap() {
            if news.iter().any(|(_, event)| is_so(watch.run(), event)) {
                return;
            }
        }
        panic!("the run has ended before");
    }

    /// Lets the compactor answer every request from now on.
    fn answer_always(&self) {
        self.may_answer.0.add_permits(1_000);
    }
}

fn has_ended(run: &Run, path: &str) -> bool {
    run.node_at(path).is_some_and(|view| view.result.is_some())
}

#[tokio::test]
async fn other_branches_continue_during_a_compaction_e9_16() {
    let house = house().await;
    let driving = house.drive();
    house.asked.pass().await;
    // The compactor is at work, and says nothing until the other branch has ended.
    house.may_finish.0.add_permits(10);
    house.wait_until(|run, _| has_ended(run, "both/door")).await;
    let run = house.runner.load(house.run).await.unwrap();
    let letters = run.node_at("both/letters").unwrap();
    assert!(run.is_compacting(letters.id) && letters.result.is_none());
    house.answer_always();
    let result = driving.await.unwrap().unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    let run = house.runner.load(house.run).await.unwrap();
    assert_eq!(run.purse().unwrap().reserved, folio_engine::spend::Spend::default());
}

#[tokio::test]
async fn cancel_ends_a_run_while_its_compactor_is_silent_e9_11() {
    let house = house().await;
    let driving = house.drive();
    house.asked.pass().await;
    house.runner.cancel(house.run, None, &person("ada")).await.unwrap();
    let result = driving.await.unwrap().unwrap();
    assert_eq!(result.status, Outcome::Cancelled);
    let run = house.runner.load(house.run).await.unwrap();
    let purse = run.purse().unwrap();
    assert_eq!(purse.reserved, folio_engine::spend::Spend::default());
    // Nobody knows what the compactor cost: what was set aside for it counts as spent.
    assert!(run.node_at("both/letters").unwrap().spent.model_calls > 4);
}

#[tokio::test]
async fn pause_during_a_compaction_keeps_the_summary_e9_14() {
    let house = house().await;
    let driving = house.drive();
    house.asked.pass().await;
    house.runner.pause(house.run, None, &person("ada")).await.unwrap();
    house.answer_always();
    house
        .wait_until(|_, event| matches!(event, Event::Compacted { .. }))
        .await;
    let run = house.runner.load(house.run).await.unwrap();
    let letters = run.node_at("both/letters").unwrap();
    assert!(letters.result.is_none() && run.in_flight().iter().all(|node| *node != letters.id));
    house.may_finish.0.add_permits(10);
    house.runner.go_on(house.run, None, &person("ada")).await.unwrap();
    assert_eq!(driving.await.unwrap().unwrap().status, Outcome::Ok);
}
