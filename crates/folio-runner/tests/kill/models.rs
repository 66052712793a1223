//! `kill -9` at every commit of a run with models: planner, executor and judge are asked over HTTP, at a provider in
//! another process, which counts (E9.9). Each time the run ends the same way, nothing that was answered is asked
//! again, and nothing that was planned is planned again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::models_support::{Effects, of_goal, registry, sqlite, submit, workspace};
use crate::only_run::only_run;
use folio_engine::{Event, NodeId, Run};
use folio_memory::{RunId, Seq, SpaceName};
use folio_model::{ModelOptions, open};
use folio_runner::{Runner, RunnerModel, RunnerModels, RunnerOptions};
use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// The variables with the store of a child process and its provider; without them the child's test does nothing.
const STORE: &str = "FOLIO_TEST_KILL_MODELS_STORE";
const PROVIDER: &str = "FOLIO_TEST_KILL_MODELS_PROVIDER";

/// A provider that plans the house: its answers follow from what it reads.
struct House;

impl Respond for House {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = request.body_json().unwrap();
        let read = body["messages"].to_string();
        let task = task_in(&read);
        let (text, call) = match purpose_of(&read) {
            "decide" => (decision(task).to_string(), None),
            "work" => (
                String::new(),
                Some(
                    json!({"status": "ok", "notes": format!("{task}: done"), "criteria": [{"id": "c1", "met": true}]}),
                ),
            ),
            "aggregate" => {
                let notes = format!("all of {task}");
                let answer = json!({"status": "ok", "notes": notes, "criteria": [{"id": "c1", "met": true}]});
                (answer.to_string(), None)
            }
            _ => (
                json!({"verdicts": [{"criterion": "c1", "finding": "met", "gap": ""}]}).to_string(),
                None,
            ),
        };
        // So that some moments are in the middle of a call.
        text_response(&text, call.as_ref()).set_delay(Duration::from_millis(3))
    }
}

/// The same provider with a model that takes no temperature.
struct Untempered;

impl Respond for Untempered {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = request.body_json().unwrap();
        if body.get("temperature").is_none() {
            return House.respond(request);
        }
        let message = "`temperature` is deprecated for this model.";
        ResponseTemplate::new(400)
            .set_body_json(json!({"error": {"type": "invalid_request_error", "message": message}}))
    }
}

/// What a model is asked for, according to its rules.
fn purpose_of(read: &str) -> &'static str {
    let found = [
        ("Decide how", "decide"),
        ("Do a task", "work"),
        ("Combine the results", "aggregate"),
    ];
    found
        .into_iter()
        .find(|(words, _)| read.contains(words))
        .map_or("judge", |(_, what)| what)
}

fn task_in(read: &str) -> &str {
    let after = read.split("# Task\\n").nth(1).unwrap_or_default();
    after.split("\\n").next().unwrap_or_default()
}

fn decision(task: &str) -> Value {
    let mut answer =
        json!({"reason": "it is so", "low_complexity": true, "resources_available": true, "criteria_testable": true});
    let step = |id: &str, title: &str| json!({"id": id, "title": title, "criteria": ["seen"]});
    let steps = match task {
        "survey the house" => Some(json!([
            {"id": "look", "title": "walk through", "criteria": ["every room was seen"], "satisfies": ["c1"]},
            [step("cellar", "check cellar beams"), step("roof", "check roof tiles")]
        ])),
        "check roof tiles" => Some(json!([
            {"id": "north", "title": "north side", "criteria": ["seen"], "satisfies": ["c1"]},
            step("south", "south side")
        ])),
        _ => None,
    };
    match steps {
        Some(steps) => {
            answer["decision"] = json!("plan");
            answer["steps"] = steps;
        }
        None => {
            answer["decision"] = json!("execute");
            answer["action"] = json!({"tool": "mend", "args": {"what": task}});
        }
    }
    answer
}

/// An answer as the provider sends it.
fn text_response(text: &str, call: Option<&Value>) -> ResponseTemplate {
    let delta = match call {
        None => json!({"role": "assistant", "content": text}),
        Some(args) => json!({"role": "assistant", "tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                             "function": {"name": "finish", "arguments": args.to_string()}}]}),
    };
    let end = if call.is_some() { "tool_calls" } else { "stop" };
    let frames = [
        json!({"choices": [{"index": 0, "delta": delta}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": end}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 200, "completion_tokens": 50, "total_tokens": 250}}),
    ];
    let text: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    ResponseTemplate::new(200).set_body_raw(text + "data: [DONE]\n\n", "text/event-stream")
}

fn runner_on(store: &Path, provider: &str) -> Runner {
    let address = format!("openai+{provider}/v1:house").parse().unwrap();
    let model = open(&address, &ModelOptions::default()).unwrap();
    let options = RunnerOptions {
        models: Some(RunnerModels::one(RunnerModel::new("house", model))),
        ..RunnerOptions::default()
    };
    Runner::new(workspace(sqlite(store)), registry(&Effects::default()), options)
}

/// What the child process does: submits the run and drives it until it is killed or done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let (Some(store), Some(provider)) = (std::env::var_os(STORE), std::env::var_os(PROVIDER)) else {
        return;
    };
    let runner = runner_on(Path::new(&store), provider.to_str().unwrap());
    let run = submit(
        &runner,
        of_goal("survey the house", json!({"criteria": ["the owner knows"]})),
    )
    .await;
    runner.drive(run).await.unwrap();
}

fn start_child(store: &Path, provider: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "models::child", "--test-threads=1"])
        .env(STORE, store)
        .env(PROVIDER, provider)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The requests to the provider since the last look: the key of each, and its purpose.
async fn received_requests(provider: &MockServer) -> Vec<(String, &'static str)> {
    let requests = provider.received_requests().await.unwrap();
    let of = |request: &Request| {
        let key = request.headers.get("idempotency-key").unwrap().to_str().unwrap();
        let body: Value = request.body_json().unwrap();
        (key.to_owned(), purpose_of(&body["messages"].to_string()))
    };
    requests.iter().map(of).collect()
}

async fn provider() -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(House).mount(&server).await;
    server
}

/// All results of the run, except times.
fn outcome(run: &Run) -> BTreeMap<String, Value> {
    let of = |node: folio_engine::NodeView<'_>| {
        let result = node.result.expect("a run that has ended has results");
        let told = json!([
            result.status,
            result.stop_reason,
            result.notes,
            result.output,
            result.verdicts
        ]);
        (node.path.to_owned(), told)
    };
    run.tree().into_iter().map(of).collect()
}

/// What the journal of a run records: the keys of answered requests, and the nodes that were planned or decided.
#[derive(Default)]
struct Known {
    answered: BTreeSet<String>,
    decided: BTreeSet<NodeId>,
}

async fn known(runner: &Runner, run: RunId) -> Known {
    let workspace = runner.workspace();
    let journal = workspace.store().journal(workspace.space(), run, Seq(0)).await.unwrap();
    let mut known = Known::default();
    for (_, event) in &journal.events {
        match event {
            Event::Replied { node, call, .. } => drop(known.answered.insert(format!("{run}/{node}/{call}"))),
            Event::Planned { node, .. } | Event::Decided { node, .. } => drop(known.decided.insert(*node)),
            _ => {}
        }
    }
    known
}

#[tokio::test(flavor = "multi_thread")]
async fn model_run_killed_at_each_commit_repeats_no_answered_request_e9_9() {
    let folder = tempfile::tempdir().unwrap();
    let server = provider().await;
    let undisturbed = folder.path().join("undisturbed.db");
    assert!(start_child(&undisturbed, &server.uri()).wait().unwrap().success());
    let runner = runner_on(&undisturbed, &server.uri());
    let run = only_run(&runner).await.unwrap();
    let expected = outcome(&runner.load(run).await.unwrap());
    let commits = runner.workspace().store().head(&SpaceName::main()).await.unwrap().0;
    let whole = received_requests(&server).await;
    let count = |of: &str| whole.iter().filter(|(_, what)| *what == of).count();
    assert_eq!(
        [count("decide"), count("work"), count("aggregate"), count("judge")],
        [6, 4, 2, 1]
    );

    let (mut in_the_middle, mut after_end, mut asked_again) = (0_u64, 0, 0);
    for moment in 0..commits {
        let server = provider().await;
        let path = folder.path().join(format!("{moment}.db"));
        let runner = runner_on(&path, &server.uri());
        let mut child = start_child(&path, &server.uri());
        // The parent looks on through the same file, and kills when one more commit is there.
        let space = SpaceName::main();
        let seen = runner.workspace().store().wait(&space, Seq(moment));
        tokio::time::timeout(Duration::from_secs(10), seen)
            .await
            .unwrap_or(Ok(Seq(moment)))
            .unwrap();
        child.kill().unwrap();
        child.wait().unwrap();

        let Some(run) = only_run(&runner).await else { continue };
        let (before, known) = (received_requests(&server).await, known(&runner, run).await);
        if runner.load(run).await.unwrap().result().is_some() {
            after_end += 1;
        } else {
            in_the_middle += 1;
        }
        tokio::time::timeout(Duration::from_secs(60), runner.drive(run))
            .await
            .expect("a dead process's run is taken over")
            .unwrap();
        assert_eq!(
            outcome(&runner.load(run).await.unwrap()),
            expected,
            "killed at commit {moment}"
        );
        let all = received_requests(&server).await;
        for (key, what) in &all[before.len()..] {
            assert!(
                !known.answered.contains(key),
                "{key} was asked again at commit {moment}"
            );
            let node: NodeId = key.split('/').nth(1).unwrap().parse().unwrap();
            let is_planned = known.decided.contains(&node);
            assert!(
                !(is_planned && *what == "decide"),
                "{node} was planned again at commit {moment}"
            );
        }
        // Besides what an undisturbed run asks for, only what was under way when the process died.
        let keys: BTreeSet<&String> = all.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), whole.len(), "killed at commit {moment}");
        asked_again += all.len() - whole.len();
        let checkup = runner.workspace().store().check().await.unwrap();
        assert_eq!(checkup.problems, Vec::<String>::new(), "killed at commit {moment}");
    }
    println!(
        "killed at each of {commits} commits: {in_the_middle} in the middle, {after_end} after its end; {} requests in an undisturbed run, \
         {asked_again} calls under way were asked again in all, none that was answered",
        whole.len()
    );
    assert!(
        in_the_middle > commits / 2,
        "{in_the_middle} of {commits}, {after_end} too late"
    );
}

#[tokio::test]
async fn run_goes_on_although_its_model_refuses_a_temperature() {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(Untempered).mount(&server).await;
    let runner = runner_on(&folder.path().join("main.db"), &server.uri());
    let goal = of_goal("survey the house", json!({"criteria": ["the owner knows"]}));
    let run = submit(&runner, goal).await;
    runner.drive(run).await.unwrap();
    let result = runner.load(run).await.unwrap().result().cloned().unwrap();
    assert_eq!(result.status, folio_engine::Outcome::Ok, "{result:?}");
    // The judge is asked at temperature 0.
    let asked = received_requests(&server).await;
    assert_eq!(asked.iter().filter(|(_, what)| *what == "judge").count(), 2);
}
