//! A worker and a real Restate server: a waiting run takes no worker, and a run that is due is found, whatever was
//! forgotten.

use std::sync::Arc;
use std::time::Duration;

use crate::models_support::{calling, doing, of_goal};
use crate::support::{Shared, Working};
use folio_engine::plan;
use folio_engine::{NodeResult, Outcome, Run};
use folio_memory::id::Ref;
use folio_memory::{Actor, Role, RunId, SpaceName};
use folio_model::ScriptedModel;
use folio_restate::{Worker, WorkerError, WorkerOptions};
use folio_runner::{NewRun, Runner, RunnerError, RunnerModel, RunnerModels, RunnerOptions};
use folio_store::RunRow;
use folio_testkit::restate::Restate;
use folio_tools::Registry;
use serde_json::json;
use tokio::task::JoinHandle;

fn painter() -> RunnerOptions {
    let asked = json!({"question": "Which colour?", "options": ["red", "blue"]});
    let cues = vec![
        doing("paint the door", "ask_person", asked),
        calling("paint the door", "blue", "finish", json!({"notes": "painted blue"})),
    ];
    RunnerOptions {
        models: Some(RunnerModels::one(RunnerModel::new(
            "scripted",
            Arc::new(ScriptedModel::new(cues)),
        ))),
        has_person: true,
        ..RunnerOptions::default()
    }
}

async fn worker(shared: &Shared) -> Working {
    shared.worker(Registry::with_builtins(), painter()).await
}

fn submitter(shared: &Shared) -> Runner {
    shared.runner(Registry::with_builtins(), RunnerOptions::default())
}

/// A runner on the same store without Restate.
fn runner_without_restate(shared: &Shared) -> Runner {
    Runner::new(
        shared.folio.workspace(SpaceName::main()),
        Registry::with_builtins(),
        painter(),
    )
}

async fn wait_until(runner: &Runner, run: RunId, wanted: impl Fn(&RunRow, &Run) -> bool) {
    for _ in 0..600 {
        let row = runner.row(Ref::Id(run)).await.unwrap();
        if wanted(&row, &runner.load(run).await.unwrap()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("what was waited for did not come");
}

async fn wait_for_question(runner: &Runner, run: RunId) {
    wait_until(runner, run, |row, run| !run.questions().is_empty() && !row.driven).await;
}

async fn wait_for_end(runner: &Runner, run: RunId) {
    wait_until(runner, run, |row, _| row.status == "ok" && !row.driven).await;
}

/// Two seconds of waiting in twenty steps.
fn slow() -> NewRun {
    let wait = |n| json!({"id": format!("w{n}"), "do": {"tool": "wait", "args": {"ms": 100}}});
    let steps = json!({"title": "Slow", "steps": (0..20).map(wait).collect::<Vec<_>>()});
    let plan = plan::from_value(&steps, &plan::Known::default()).unwrap();
    NewRun::of(plan, Actor::new(Role::Human, "test"))
}

/// The result of a run that is being driven.
type Driving = JoinHandle<Result<NodeResult, RunnerError>>;

fn spawn_drive(runner: &Runner, run: RunId) -> Driving {
    let driver = runner.clone();
    tokio::spawn(async move { driver.drive(run).await })
}

/// A slow run of which some steps are done.
async fn start_slow_run(runner: &Runner) -> (RunId, Driving) {
    let (run, _) = runner.submit(slow()).await.unwrap();
    let driving = spawn_drive(runner, run);
    let is_on = |run: &Run| run.node_at("w3").is_some_and(|node| node.result.is_some());
    wait_until(runner, run, |_, run| is_on(run)).await;
    (run, driving)
}

fn echo() -> NewRun {
    let steps =
        json!({"title": "Echo", "steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}}]});
    let plan = plan::from_value(&steps, &plan::Known::default()).unwrap();
    NewRun::of(plan, Actor::new(Role::Human, "test"))
}

#[tokio::test(flavor = "multi_thread")]
async fn run_waiting_for_a_person_is_undriven_until_answered() {
    let restate = Restate::start();
    let shared = Shared::new(&restate).await;
    let _working = worker(&shared).await;
    // Whoever answers may know of Restate, or not.
    for runner in [submitter(&shared), runner_without_restate(&shared)] {
        let (run, _) = submitter(&shared)
            .submit(of_goal("paint the door", json!({})))
            .await
            .unwrap();
        let driving = spawn_drive(&submitter(&shared), run);
        wait_for_question(&runner, run).await;
        let node = runner.load(run).await.unwrap().questions()[0].0;
        runner
            .answer(run, node, "blue", &Actor::new(Role::Human, "ada"))
            .await
            .unwrap();
        let result = driving.await.unwrap().unwrap();
        assert_eq!((result.status, result.notes.as_str()), (Outcome::Ok, "painted blue"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_finds_unsubmitted_runs_in_every_space() {
    let restate = Restate::start();
    let shared = Shared::new(&restate).await;
    let (early, _) = submitter(&shared).submit(echo()).await.unwrap();
    let refused = submitter(&shared).drive(early).await.unwrap_err();
    assert!(
        matches!(refused, RunnerError::Dispatch { .. }),
        "nobody is there yet: {refused}"
    );
    let elsewhere = SpaceName::parse("elsewhere").unwrap();
    let there = Runner::new(
        shared.folio.workspace(elsewhere),
        Registry::with_builtins(),
        RunnerOptions::default(),
    );
    let (other, _) = there.submit(echo()).await.unwrap();
    let _working = worker(&shared).await;
    wait_for_end(&submitter(&shared), early).await;
    wait_for_end(&there, other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drive_fails_when_the_called_worker_uses_another_store() {
    let restate = Restate::start();
    let (shared, other) = (Shared::new(&restate).await, Shared::new(&restate).await);
    let elsewhere = worker(&other).await;
    let runner = submitter(&shared);
    let (run, _) = runner.submit(echo()).await.unwrap();
    let refused = runner.drive(run).await.unwrap_err();
    assert!(
        matches!(&refused, RunnerError::Dispatch { reason, .. } if reason.contains("another store")),
        "{refused}"
    );
    let told = elsewhere.told();
    let about = told.iter().filter(|text| text.contains(&run.to_string()));
    assert_eq!(about.count(), 1, "{told:?}");
    drop(elsewhere);
    // Restate offers it to nobody else. A worker that has it drives it all the same, and whoever comes back to it
    // waits that long.
    let _right = worker(&shared).await;
    assert_eq!(runner.drive(run).await.unwrap().status, Outcome::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_survive_the_loss_of_all_restate_state() {
    let mut restate = Restate::start();
    let shared = Shared::new(&restate).await;
    let _working = worker(&shared).await;
    let runner = submitter(&shared);
    let (run, _) = runner.submit(of_goal("paint the door", json!({}))).await.unwrap();
    let driving = spawn_drive(&runner, run);
    wait_for_question(&runner, run).await;
    restate.lose(0);
    let node = runner.load(run).await.unwrap().questions()[0].0;
    // Nobody can be told now, and the answer stands.
    runner
        .answer(run, node, "blue", &Actor::new(Role::Human, "ada"))
        .await
        .unwrap();
    assert_eq!(driving.await.unwrap().unwrap().notes, "painted blue");
    let (next, _) = runner.submit(echo()).await.unwrap();
    assert_eq!(runner.drive(next).await.unwrap().status, Outcome::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_of_a_stopping_worker_is_finished_by_another_worker() {
    let restate = Restate::start();
    let shared = Shared::new(&restate).await;
    let first = worker(&shared).await;
    let runner = submitter(&shared);
    let (run, driving) = start_slow_run(&runner).await;
    let _second = worker(&shared).await;
    drop(first);
    assert_eq!(driving.await.unwrap().unwrap().status, Outcome::Ok);
    // It was told to end, and waited for what was under way: nothing was begun twice.
    let journal = runner.workspace().journal(run, folio_memory::Seq(0)).await.unwrap();
    let begun = journal
        .events
        .iter()
        .filter(|(_, event)| matches!(event, folio_engine::Event::Started { .. }));
    assert_eq!(begun.count(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_an_abandoned_address_move_to_the_new_worker() {
    let restate = Restate::start();
    let mut shared = Shared::new(&restate).await;
    let first = worker(&shared).await;
    let runner = submitter(&shared);
    let (run, driving) = start_slow_run(&runner).await;
    drop(first);
    wait_until(&runner, run, |row, _| !row.driven).await;
    shared.moves();
    let second = worker(&shared).await;
    assert_eq!(driving.await.unwrap().unwrap().status, Outcome::Ok);
    // Nothing goes on there any more: the next worker has it forgotten.
    drop(second);
    let _third = worker(&shared).await;
    assert_eq!(shared.known().await, [format!("http://{}/", shared.listen())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_beyond_a_workers_capacity_goes_to_another_worker() {
    let restate = Restate::start();
    let shared = Shared::new(&restate).await;
    let few = |options: &mut WorkerOptions| options.runs = 1;
    let _first = shared.worker_with(Registry::with_builtins(), painter(), few).await;
    let runner = submitter(&shared);
    let mut runs = Vec::new();
    for _ in 0..4 {
        let (run, _) = runner.submit(slow()).await.unwrap();
        runs.push((run, spawn_drive(&runner, run)));
    }
    let are_driven = async || {
        let mut rows = Vec::new();
        for (run, _) in &runs {
            rows.push(runner.row(Ref::Id(*run)).await.unwrap());
        }
        rows.iter().filter(|row| row.driven).count()
    };
    while are_driven().await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(are_driven().await, 1, "as many as it has places");
    let _second = shared.worker_with(Registry::with_builtins(), painter(), few).await;
    let mut most = 0;
    while !runs.iter().all(|(_, driving)| driving.is_finished()) {
        most = most.max(are_driven().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(most, 2, "the second worker had some of those that waited");
    for (_, driving) in runs {
        assert_eq!(driving.await.unwrap().unwrap().status, Outcome::Ok);
    }
}

/// Waits until the output of `working` contains `wanted`.
async fn wait_for_message(working: &Working, wanted: &str) {
    for _ in 0..600 {
        if working.told().iter().any(|told| told.contains(wanted)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{wanted:?} is not in {:?}", working.told());
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_reports_failing_submission_once_and_its_recovery() {
    let restate = Restate::start();
    let shared = Shared::new(&restate).await;
    let nowhere = |options: &mut WorkerOptions| options.ingress = "http://127.0.0.1:1".parse().unwrap();
    let working = shared.worker_with(Registry::with_builtins(), painter(), nowhere).await;
    let runner = runner_without_restate(&shared);
    let (run, _) = runner.submit(echo()).await.unwrap();
    let wrong = "runs that nobody drives are not submitted: ";
    wait_for_message(&working, wrong).await;
    let (second, _) = runner.submit(echo()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let told = working.told();
    assert_eq!(
        told.iter().filter(|told| told.starts_with(wrong)).count(),
        1,
        "{told:?}"
    );
    for run in [run, second] {
        runner.drive(run).await.unwrap();
    }
    wait_for_message(&working, "are submitted again").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_registers_again_after_restate_forgets_it() {
    let restate = Restate::start();
    let mut shared = Shared::new(&restate).await;
    let working = worker(&shared).await;
    shared.forget_all().await;
    wait_for_message(&working, "the workers were removed from Restate").await;
    until_known(&shared).await;
    // Who is put out by another one says so, and does not put that one out.
    shared.moves();
    let _second = worker(&shared).await;
    wait_for_message(&working, &format!("now calls workers at http://{}/", shared.listen())).await;
    assert_eq!(shared.known().await, [format!("http://{}/", shared.listen())]);
}

async fn until_known(shared: &Shared) {
    for _ in 0..600 {
        if !shared.known().await.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("Restate knows of no worker");
}

#[tokio::test(flavor = "multi_thread")]
async fn wildcard_listen_address_needs_an_advertised_address() {
    let database = folio_testkit::postgres::Database::fresh();
    let folio = crate::support::folio(&database.url()).await;
    let mut options = WorkerOptions::new("0.0.0.0:0".parse().unwrap(), "http://127.0.0.1:1".parse().unwrap());
    options.admin = Some("http://127.0.0.1:1".parse().unwrap());
    let bind = |options| {
        Worker::bind(
            options,
            folio.clone(),
            Registry::with_builtins(),
            RunnerOptions::default(),
        )
    };
    let refused = bind(options.clone()).unwrap_err();
    assert!(matches!(refused, WorkerError::NoAddress { .. }), "{refused}");
    options.advertise = Some("http://workers.example".parse().unwrap());
    bind(options).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_with_an_identity_key_rejects_unsigned_requests() {
    let (restate, key) = Restate::signing();
    let shared = Shared::new(&restate).await;
    let signed = |options: &mut WorkerOptions| options.identity = Some(key.clone());
    let _working = shared.worker_with(Registry::with_builtins(), painter(), signed).await;
    let runner = submitter(&shared);
    let (run, _) = runner.submit(echo()).await.unwrap();
    assert_eq!(runner.drive(run).await.unwrap().status, Outcome::Ok);
    // A worker takes one call on a connection and says so at once. To some clients that comes before the answer does:
    // whoever gets none asks again, as Restate does.
    let ask = async |path: &str| {
        for _ in 0..50 {
            let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
            match client.get(format!("http://{}/{path}", shared.listen())).send().await {
                Ok(answer) => return answer.status().as_u16(),
                Err(error) => assert!(error.is_request(), "{error:?}"),
            }
        }
        panic!("{path}: no answer in fifty times");
    };
    for path in ["discover", "invoke/FolioRun/drive"] {
        assert_eq!(ask(path).await, 401, "{path}");
    }
}
