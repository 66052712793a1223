//! Calls that had begun when the store failed, and what the next driver of the run does (E9.12).

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::plan;
use folio_engine::run::RequestRef;
use folio_engine::{NodeResult, Outcome, StopReason};
use folio_memory::{Actor, Role, RunId, SpaceName};
use folio_runner::{LostCall, LostCalls, NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{RandomIds, SqliteStore, Store, StoreError, SystemClock, Workspace};
use folio_testkit::{Fault, FaultyStore};
use folio_tools::{Effect, Reconciled, Registry, Tool, ToolContext, ToolRequest, ToolResponse, ToolSpec};
use serde_json::json;

/// What the tool answers when it is asked what became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Done,
    NotDone,
    Nothing,
}

/// Sends a letter, and records the key of each; also the keys of which it was asked what became.
#[derive(Debug)]
struct Sends {
    spec: ToolSpec,
    says: Says,
    log: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Tool for Sends {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, _: &ToolContext) -> ToolResponse {
        self.log.lock().unwrap().push(format!("sent {}", request.request_id));
        ToolResponse::ok(request, json!("sent now"), "")
    }

    async fn reconcile(&self, request: &ToolRequest, _: &ToolContext) -> Reconciled {
        self.log.lock().unwrap().push(format!("asked {}", request.request_id));
        match self.says {
            Says::Done => Reconciled::Completed(Box::new(ToolResponse::ok(request, json!("sent before"), ""))),
            Says::NotDone => Reconciled::NotExecuted,
            Says::Nothing => Reconciled::Unknown,
        }
    }
}

type Log = Arc<Mutex<Vec<String>>>;

fn runner(store: Arc<dyn Store>, effect: Effect, says: Says, lost: Option<(&str, LostCall)>, log: &Log) -> Runner {
    runner_beside(false, store, effect, says, lost, log)
}

/// The same, with a person who can be asked if `has_person`.
fn runner_beside(
    has_person: bool,
    store: Arc<dyn Store>,
    effect: Effect,
    says: Says,
    lost: Option<(&str, LostCall)>,
    log: &Log,
) -> Runner {
    let mut registry = Registry::with_builtins();
    registry.register(Arc::new(Sends {
        spec: ToolSpec::new("post.send", effect, "Sends a letter."),
        says,
        log: Arc::clone(log),
    }));
    let lost = lost.map(|(name, what)| (name.to_owned(), what));
    let options = RunnerOptions {
        lost_calls: LostCalls(lost.into_iter().collect()),
        // The process of a run whose store is gone counts as killed.
        outage_patience: Some(Duration::ZERO),
        has_person,
        ..RunnerOptions::default()
    };
    let workspace = Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    );
    Runner::new(workspace, registry, options)
}

fn sqlite(path: &Path) -> Arc<dyn Store> {
    SqliteStore::open(&OpenOptions::at(path)).unwrap()
}

async fn driven(runner: &Runner, run: RunId) -> NodeResult {
    loop {
        match runner.drive(run).await {
            Ok(_) => break,
            Err(RunnerError::Store(StoreError::RunTaken { .. })) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
    let ended = runner.load(run).await.unwrap();
    ended.node_at("letter").unwrap().result.unwrap().clone()
}

/// A run that sends a letter, whose store at `path` failed before the end of the call was recorded.
async fn cut_off(path: &Path, effect: Effect, says: Says, what: Option<(&str, LostCall)>, log: &Log) -> RunId {
    let faulty = Arc::new(FaultyStore::new(sqlite(path)));
    let first = runner(Arc::clone(&faulty) as Arc<dyn Store>, effect, says, what, log);
    // A call that waits for a person must not take the place of the one that follows.
    let steps = json!({"version": 1, "title": "t", "budget": {"concurrency": 1}, "steps": [
        {"id": "letter", "do": {"tool": "post.send", "args": {}}, "budget": {"concurrency": 1}},
    ]});
    let plan = plan::from_value(&steps, &first.known()).unwrap();
    let (run, _) = first
        .submit(NewRun::of(plan, Actor::new(Role::Human, "ada")))
        .await
        .unwrap();
    // The next commit says that the call begins, and the one after it how it ended.
    faulty.fail(faulty.commits() + 2, Fault::Gone);
    first.drive(run).await.unwrap_err();
    drop((first, faulty));
    run
}

/// A run that sends a letter, whose store failed before the end of the call was recorded; returns its result, and what
/// the tool was asked, with `KEY` for the key of the call.
async fn lost(effect: Effect, says: Says, what: Option<(&str, LostCall)>) -> (NodeResult, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let log = Log::default();
    let run = cut_off(&path, effect, says, what, &log).await;
    let second = runner(sqlite(&path), effect, says, what, &log);
    let result = driven(&second, run).await;
    let key = format!(
        "{run}/{}",
        second.load(run).await.unwrap().node_at("letter").unwrap().id
    );
    let log = log.lock().unwrap();
    (result, log.iter().map(|line| line.replace(&key, "KEY")).collect())
}

#[tokio::test]
async fn guarded_tool_is_asked_to_reconcile_a_lost_call_e9_12() {
    for (says, status, output, asked) in [
        (
            Says::Done,
            Outcome::Ok,
            json!("sent before"),
            &["sent KEY", "asked KEY"][..],
        ),
        (
            Says::NotDone,
            Outcome::Ok,
            json!("sent now"),
            &["sent KEY", "asked KEY", "sent KEY"][..],
        ),
        (
            Says::Nothing,
            Outcome::Failed,
            json!(null),
            &["sent KEY", "asked KEY"][..],
        ),
    ] {
        let (result, log) = lost(Effect::Guarded, says, None).await;
        assert_eq!(log, asked, "{says:?}");
        assert_eq!(result.status, status, "{says:?}: {}", result.notes);
        assert_eq!(json!(result.output), json!({"inline": output}), "{says:?}");
        let reason = (status == Outcome::Failed).then_some(StopReason::OutcomeUnknown);
        assert_eq!((result.stop_reason, result.is_hard()), (reason, reason.is_some()));
    }
}

#[tokio::test]
async fn person_is_asked_when_a_guarded_tool_cannot_reconcile_e9_12() {
    for (said, status, letters) in [
        ("yes", Outcome::Ok, 2),
        ("no", Outcome::Failed, 1),
        ("cancel", Outcome::Cancelled, 1),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folio.db");
        let log = Log::default();
        let run = cut_off(&path, Effect::Guarded, Says::Nothing, None, &log).await;
        let second = runner_beside(true, sqlite(&path), Effect::Guarded, Says::Nothing, None, &log);
        let driving = tokio::spawn({
            let second = second.clone();
            async move { driven(&second, run).await }
        });
        let ada = Actor::new(Role::Human, "ada");
        let asked = loop {
            if let Some((node, waiting)) = second.load(run).await.unwrap().pending_approvals().first() {
                let mark = Some(waiting.mark());
                break RequestRef { node: *node, mark };
            }
            tokio::task::yield_now().await;
        };
        // Who was asked whether it is made at all, and says so now, did not say that it is made once more.
        let node = asked.node;
        let mark = asked.mark.as_ref().unwrap().strip_suffix("-again").map(str::to_owned);
        assert!(mark.is_some(), "{asked}");
        let late = RequestRef { node, mark };
        for said in [
            second.approve(run, late.clone(), None, &ada).await,
            second.reject(run, late, "", &ada).await,
        ] {
            assert!(matches!(said, Err(RunnerError::AskedElse { .. })), "{said:?}");
        }
        match said {
            "yes" => second.approve(run, asked, None, &ada).await.unwrap(),
            "no" => second.reject(run, node, "it was sent", &ada).await.unwrap(),
            _ => second.cancel(run, None, &ada).await.unwrap(),
        }
        let result = driving.await.unwrap();
        assert_eq!(result.status, status, "{}", result.notes);
        let log = log.lock().unwrap();
        let count = |what: &str| log.iter().filter(|line| line.starts_with(what)).count();
        // It was asked once: a person said the rest.
        assert_eq!((count("sent "), count("asked ")), (letters, 1), "{log:?}");
    }
}

#[tokio::test]
async fn lost_calls_setting_overrides_the_effect_of_a_tool_e9_12() {
    let once = &["sent KEY"][..];
    let twice = &["sent KEY", "sent KEY"][..];
    for (effect, what, status, asked) in [
        (Effect::Opaque, None, Outcome::Failed, once),
        (Effect::Opaque, Some(("post.send", LostCall::Rerun)), Outcome::Ok, twice),
        (Effect::Opaque, Some(("post.*", LostCall::Rerun)), Outcome::Ok, twice),
        (Effect::Opaque, Some(("post", LostCall::Rerun)), Outcome::Failed, once),
        (
            Effect::Opaque,
            Some(("post.send", LostCall::AssumeDone)),
            Outcome::Ok,
            once,
        ),
        // Nobody is there who could be asked.
        (
            Effect::Idempotent,
            Some(("post.send", LostCall::Ask)),
            Outcome::Failed,
            once,
        ),
        (
            Effect::Idempotent,
            Some(("post.send", LostCall::Fail)),
            Outcome::Failed,
            once,
        ),
        (Effect::Idempotent, None, Outcome::Ok, twice),
        // Nobody asks the tool where it is said what becomes of its calls.
        (
            Effect::Guarded,
            Some(("post.send", LostCall::Rerun)),
            Outcome::Ok,
            twice,
        ),
    ] {
        let (result, log) = lost(effect, Says::Nothing, what).await;
        assert_eq!(log, asked, "{effect:?} {what:?}");
        assert_eq!(result.status, status, "{effect:?} {what:?}: {}", result.notes);
        if status == Outcome::Failed {
            assert_eq!(result.stop_reason, Some(StopReason::OutcomeUnknown));
        }
    }
}
