//! Agents whose work is one tool call, and what a cassette has of a run with agents and people.

use std::sync::Arc;
use std::time::Duration;

use crate::models_support::*;
use async_trait::async_trait;
use folio_engine::plan;
use folio_engine::{NodeResult, Outcome, Severity, StopReason};
use folio_memory::{Actor, Role, RunId};
use folio_model::{
    Delta, Model, ModelError, ModelErrorKind, Place, Price, Reply, Request, ScriptedModel, Usage, When, Worker,
};
use folio_runner::{NewRun, Recording, Runner, RunnerExecutor, RunnerModel, RunnerModels, RunnerOptions, Tape};
use folio_tools::{ArgKind, Effect, FailureKind, Registry, ToolError, ToolResponse, ToolSpec};
use serde_json::{Value, json};

const DONE: &str = r#"{"status": "ok", "notes": "all of it is done"}"#;

/// How an agent works.
#[derive(Debug)]
enum Works {
    ByTool(&'static str),
    /// As a program that answers by a script.
    AsProgram(ScriptedModel, Vec<String>),
    /// As a program that works until it is told to stop, and reports then what it used.
    UntilStopped(Usage, Vec<String>),
    /// As a program that answers by a script, on another machine.
    Elsewhere(ScriptedModel, &'static str),
}

#[async_trait]
impl Model for Works {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        match self {
            Self::ByTool(_) | Self::UntilStopped(..) => {
                Err(ModelError::new("slow", ModelErrorKind::Invalid, "it is no model"))
            }
            Self::AsProgram(script, _) | Self::Elsewhere(script, _) => script.reply(request, pieces).await,
        }
    }

    async fn reply_in(
        &self,
        request: &Request,
        place: &Place,
        pieces: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, ModelError> {
        if let Self::UntilStopped(usage, _) = self {
            place.stop.cancelled().await;
            let stopped = ModelError::new("slow", ModelErrorKind::Unknown, "it was stopped");
            return Err(stopped.costing(Some(*usage)));
        }
        self.reply(request, pieces).await
    }

    fn worker(&self) -> Option<Worker<'_>> {
        Some(match self {
            Self::ByTool(name) => Worker::Tool {
                name,
                argument: "prompt",
            },
            Self::AsProgram(_, argv) | Self::UntilStopped(_, argv) => Worker::Program(argv),
            Self::Elsewhere(_, url) => Worker::Remote(url),
        })
    }
}

/// The tools, and two that do a task, of which one only reads: immediately, after a day and a half, or not at all, since it does not exist.
fn tools() -> Registry {
    let mut registry = Registry::with_builtins();
    for (name, effect) in [("slow", Effect::Opaque), ("looks", Effect::Read)] {
        let spec = ToolSpec::new(name, effect, "Does it.").required("prompt", ArgKind::Text, "What.");
        registry.register_fn(spec, |request, _| async move {
            let task = request.args["prompt"].as_str().unwrap_or_default().to_owned();
            if task.contains("for long") {
                tokio::time::sleep(Duration::from_secs(36 * 60 * 60)).await;
            }
            if task.contains("not there") {
                let why = "nothing listens there";
                return Err(ToolError::new(FailureKind::Unavailable, "mcp_server_unavailable", why));
            }
            Ok(ToolResponse::ok(&request, json!({ "text": DONE }), ""))
        });
    }
    registry
}

struct House {
    runner: Runner,
    recording: Recording,
    _folder: tempfile::TempDir,
}

/// A house with a person, in which `worker` does the tasks of `slow`.
fn house(worker: Works, change: impl FnOnce(&mut RunnerModels)) -> House {
    let folder = tempfile::tempdir().unwrap();
    let idle = RunnerModel::new("scripted", Arc::new(ScriptedModel::new([])));
    let mut models = RunnerModels::one(idle);
    let slow = RunnerExecutor {
        model: RunnerModel::new("agent:slow", Arc::new(worker)),
        about: "does everything".to_owned(),
    };
    models.executors.insert("slow".to_owned(), slow);
    change(&mut models);
    let (models, recording) = Recording::of(models, true);
    let options = RunnerOptions {
        models: Some(models),
        has_person: true,
        run_folders: Some(folder.path().join("runs")),
        ..RunnerOptions::default()
    };
    let store = sqlite(&folder.path().join("folio.db"));
    House {
        runner: Runner::new(workspace(store), tools(), options),
        recording,
        _folder: folder,
    }
}

impl House {
    async fn submit(&self, step: Value, allowed: &[&str]) -> RunId {
        let plan = plan::from_value(&json!({ "steps": [step] }), &self.runner.known()).unwrap();
        let new = NewRun {
            allow_tools: allowed.iter().map(|name| (*name).to_owned()).collect(),
            ..NewRun::of(plan, Actor::new(Role::Human, "test"))
        };
        self.runner.submit(new).await.unwrap().0
    }

    async fn done(&self, step: Value) -> (RunId, NodeResult) {
        let run = self.submit(step, &["agent:slow"]).await;
        let result = self.runner.drive(run).await.unwrap();
        (run, result)
    }

    /// Waits until approval is requested, and approves.
    async fn done_with_a_yes(&self, step: Value) -> RunId {
        let run = self.submit(step, &[]).await;
        let (driver, yes) = (self.runner.clone(), self.runner.clone());
        let driving = tokio::spawn(async move { driver.drive(run).await });
        let node = loop {
            let loaded = yes.load(run).await.unwrap();
            if let Some((node, _)) = loaded.pending_approvals().first() {
                break *node;
            }
            tokio::task::yield_now().await;
        };
        yes.approve(run, node, None, &person("ada")).await.unwrap();
        let result = driving.await.unwrap().unwrap();
        assert_eq!(result.status, Outcome::Ok, "{result:?}");
        run
    }

    async fn differences(&self, run: RunId) -> Vec<String> {
        let cassette = self.recording.cassette(self.runner.workspace());
        let tape = Tape::of(cassette).unwrap();
        let found = self.runner.replay_with(run, tape).await.unwrap();
        assert!(found.answers > 0);
        found.differences
    }
}

fn step(title: &str) -> Value {
    json!({"id": "a", "title": title, "executor": "slow"})
}

#[tokio::test(start_paused = true)]
async fn task_timeout_limits_an_agent_that_is_a_tool_e9_17() {
    for (tool, reason, severity) in [
        ("slow", StopReason::OutcomeUnknown, Severity::Hard),
        // Whoever only reads left nothing half done.
        ("looks", StopReason::RetriesExhausted, Severity::Soft),
    ] {
        let house = house(Works::ByTool(tool), |_| {});
        let mut long = step("Work for long");
        long["timeout"] = json!("3s");
        let began = tokio::time::Instant::now();
        let (run, result) = house.done(long).await;
        // The clock goes on while the disk is waited for.
        assert!(began.elapsed() < Duration::from_secs(60 * 60), "{:?}", began.elapsed());
        assert_ne!(result.status, Outcome::Ok);
        let loaded = house.runner.load(run).await.unwrap();
        let ended = loaded.node_at("a").unwrap().result.unwrap().clone();
        assert_eq!(
            (ended.stop_reason, ended.severity),
            (Some(reason), Some(severity)),
            "{ended:?}"
        );
        assert!(
            ended.notes.contains("longer than the 3s that its task allows"),
            "{ended:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn unavailable_agent_tool_is_charged_nothing_e9_10() {
    let house = house(Works::ByTool("slow"), |_| {});
    let (run, result) = house.done(step("Work where you are not there")).await;
    assert_ne!(result.status, Outcome::Ok);
    let loaded = house.runner.load(run).await.unwrap();
    let spent = loaded.node_at("a").unwrap().spent;
    assert_eq!((spent.tokens(), spent.unpriced_calls), (0, 0));
}

#[tokio::test]
async fn cancelled_agent_program_is_charged_what_it_reported_e9_11() {
    let usage = Usage {
        tokens_in: 900,
        tokens_out: 80,
        ..Usage::default()
    };
    let house = house(Works::UntilStopped(usage, vec!["mender".to_owned()]), |_| {});
    let run = house.submit(step("Do it"), &["agent:slow"]).await;
    let driver = house.runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    while house.runner.load(run).await.unwrap().in_flight().is_empty() {
        tokio::task::yield_now().await;
    }
    house.runner.cancel(run, None, &person("ada")).await.unwrap();
    let result = driving.await.unwrap().unwrap();
    assert_eq!(result.status, Outcome::Cancelled, "{result:?}");
    let loaded = house.runner.load(run).await.unwrap();
    let ended = loaded.node_at("a").unwrap();
    assert_eq!(
        (ended.spent.tokens_in, ended.spent.tokens_out, ended.spent.model_calls),
        (900, 80, 1)
    );
    assert!(loaded.purse().unwrap().reserved.is_nothing());
}

#[tokio::test]
async fn cassette_replays_the_answer_of_a_tool_agent() {
    let house = house(Works::ByTool("slow"), |_| {});
    let (run, result) = house.done(step("Do it")).await;
    assert_eq!(result.status, Outcome::Ok, "{result:?}");
    assert_eq!(house.differences(run).await, Vec::<String>::new());
}

#[tokio::test]
async fn cassette_replays_the_approval_of_an_agent() {
    let argv = vec!["mender".to_owned(), "--all".to_owned()];
    let script = || ScriptedModel::new([When::any().text(DONE)]);
    let elsewhere = Works::Elsewhere(script(), "http://127.0.0.1:1/");
    for worker in [Works::ByTool("slow"), Works::AsProgram(script(), argv), elsewhere] {
        let house = house(worker, |_| {});
        let run = house.done_with_a_yes(step("Do it")).await;
        assert_eq!(house.differences(run).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn cassette_replays_human_executors_and_cache_prices() {
    let usage = Usage {
        tokens_in: 900,
        tokens_cache_written: 500,
        tokens_out: 10,
        ..Usage::default()
    };
    let price = Price {
        input: 1_000_000,
        cached: 100_000,
        written: Some(1_250_000),
        output: 5_000_000,
        up_to: None,
    };
    let decision = json!({"decision": "execute", "reason": "it is small", "low_complexity": true,
                          "resources_available": true, "criteria_testable": true});
    let script = ScriptedModel::new([
        When::any().json(&decision).usage(usage),
        When::any()
            .calls([("finish", json!({"notes": "all of it"}))])
            .usage(usage),
    ]);
    let house = house(Works::ByTool("slow"), |models| {
        let own = RunnerModel::new("scripted", Arc::new(script)).at_price(&price);
        *models = RunnerModels {
            executors: std::mem::take(&mut models.executors),
            human: Some("carry boxes".to_owned()),
            ..RunnerModels::one(own)
        };
    });
    let run = submit(&house.runner, of_goal("mend both", json!({}))).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{result:?}");
    assert_eq!(house.differences(run).await, Vec::<String>::new());
}
