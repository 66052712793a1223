//! What spans say about failures, and what they leave out: texts that people wrote for people.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio::engine::plan::{self, Plan};
use folio::memory::RunId;
use folio::model::{Model, ModelErrorKind, ScriptedModel, When};
use folio::runner::{DriveFollower, NewRun, ObservedEvent, Observer, Runner, RunnerModel, RunnerModels, RunnerOptions};
use folio::tools::Registry;
use folio::{Actor, Folio, Role, SpaceName};
use folio_telemetry::spans::Spans;
use opentelemetry_sdk::trace::SpanData;
use serde_json::{Value, json};

/// Records what it is told.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<DriveFollower>>);

impl Observer for Kept {
    fn drive_started(&self, beside: DriveFollower) {
        self.0.lock().unwrap().push(beside);
    }
}

struct House {
    runner: Runner,
    kept: Arc<Kept>,
}

impl House {
    async fn new(models: Option<RunnerModels>) -> Self {
        let kept = Arc::<Kept>::default();
        let options = RunnerOptions {
            models,
            observer: Some(Arc::clone(&kept) as Arc<dyn Observer>),
            ..RunnerOptions::default()
        };
        let space = Folio::open("memory:").await.unwrap().workspace(SpaceName::main());
        let runner = Runner::new(space, Registry::with_builtins(), options);
        Self { runner, kept }
    }

    async fn submit(&self, plan: Plan) -> RunId {
        let new = NewRun::of(plan, Actor::new(Role::Human, "test"));
        self.runner.submit(new).await.unwrap().0
    }

    /// The spans of a run of these steps.
    async fn spans_of(&self, steps: Value) -> Vec<SpanData> {
        let plan = plan::from_value(&json!({ "steps": steps }), &self.runner.known()).unwrap();
        let run = self.submit(plan).await;
        let _ended = self.runner.drive(run).await.unwrap();
        self.spans().await
    }

    /// The spans of the run that was driven last.
    async fn spans(&self) -> Vec<SpanData> {
        let mut beside = self.kept.0.lock().unwrap().pop().unwrap();
        let (mut made, mut spans) = (Spans::of(beside.run()), Vec::new());
        let mut take = |happened: ObservedEvent<'_>| {
            spans.extend(made.take(happened.run, happened.at, happened.event, happened.model));
        };
        while beside.read(&mut take).await.unwrap() {}
        spans
    }
}

fn echo() -> Value {
    json!({"tool": "text", "args": {"op": "echo", "value": 1}})
}

fn text(span: &SpanData, name: &str) -> String {
    let found = span.attributes.iter().find(|said| said.key.as_str() == name);
    found.map(|said| said.value.as_str().into_owned()).unwrap_or_default()
}

fn paths(spans: &[SpanData]) -> Vec<String> {
    spans.iter().map(|span| text(span, "folio.node.path")).collect()
}

#[tokio::test]
async fn span_shows_written_slugs_but_not_slugs_derived_from_titles() {
    let house = House::new(None).await;
    let spans = house
        .spans_of(json!([
            {"id": "first", "title": "Buy Megacorp", "do": echo()},
            {"title": "Tell Megacorp", "plan": {"steps": [{"title": "Ring them up", "do": echo()}, {"id": "b", "do": echo()}]}},
            {"title": "Pay all of them", "for_each": [1, 2], "do": echo()},
        ]))
        .await;
    assert_eq!(
        paths(&spans),
        [
            "first",
            "step-2/step-1",
            "step-2/b",
            "step-2",
            "step-3/step[0]",
            "step-3/step[1]",
            "step-3",
            ""
        ]
    );
    assert_eq!(spans[3].name, "plan step-2");
    let shown = format!("{spans:?}").to_lowercase();
    for word in ["megacorp", "ring-them", "pay-all"] {
        assert!(!shown.contains(word), "{word}");
    }
}

#[tokio::test]
async fn failed_call_span_has_an_exception_event_per_attempt() {
    let house = House::new(None).await;
    let steps = json!([{"id": "bad", "do": {"tool": "read", "args": {"path": "nowhere"}}, "optional": true}]);
    let spans = house.spans_of(steps).await;
    let [bad, _] = spans.as_slice() else {
        panic!("{spans:?}")
    };
    let exceptions: Vec<_> = bad
        .events
        .iter()
        .map(|event| format!("{:?}", event.attributes))
        .collect();
    assert_eq!(exceptions.len(), 1, "{exceptions:?}");
    let code = text(bad, "error.type");
    assert!(exceptions[0].contains(&code), "{exceptions:?}");
    let reason = text(bad, "folio.stop_reason");
    assert_eq!((code.as_str(), reason.as_str()), ("no_run_folder", "policy_denied"));
}

#[tokio::test]
async fn failed_model_request_span_names_its_provider_and_model() {
    let away = ScriptedModel::new([When::any().error(ModelErrorKind::Unauthorised).always()]);
    let answers = ScriptedModel::new([When::any()
        .json(
            &json!({"decision": "execute", "reason": "small", "action": {"tool": "finish", "args": {"notes": "done"}}}),
        )
        .always()]);
    let usual = RunnerModel::new("anthropic:claude-test", Arc::new(away));
    let other = RunnerModel::new("openai+http://127.0.0.1:7962/v1:llama3:8b", Arc::new(answers));
    let house = House::new(Some(RunnerModels::one(usual.or(other)))).await;
    let run = house.submit(Plan::of_goal("Say sesame")).await;
    let _ended = house.runner.drive(run).await.unwrap();
    let spans = house.spans().await;
    let chats = spans.iter().filter(|span| span.name.starts_with("chat"));
    let asked: Vec<_> = chats
        .map(|span| {
            (
                span.name.as_ref(),
                text(span, "gen_ai.provider.name"),
                text(span, "error.type"),
            )
        })
        .collect();
    assert_eq!(asked[0].0, "chat claude-test");
    assert_eq!(asked[0].1, "anthropic");
    assert!(!asked[0].2.is_empty(), "{asked:?}");
    assert_eq!(
        (asked[1].0, asked[1].1.as_str(), asked[1].2.as_str()),
        ("chat llama3:8b", "openai", "")
    );
}

#[tokio::test]
async fn model_request_span_of_a_cancelled_task_ends_as_cancelled() {
    let slow = ScriptedModel::new([When::any().text("late").latency(Duration::from_secs(600)).always()]);
    let slow = Arc::new(slow);
    let model = RunnerModel::new("anthropic:claude-test", Arc::clone(&slow) as Arc<dyn Model>);
    let house = House::new(Some(RunnerModels::one(model))).await;
    let run = house.submit(Plan::of_goal("Say sesame")).await;
    let driving = tokio::spawn({
        let runner = house.runner.clone();
        async move { runner.drive(run).await }
    });
    while slow.asked().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let person = Actor::new(Role::Human, "test");
    house.runner.cancel(run, None, &person).await.unwrap();
    let _ended = driving.await.unwrap().unwrap();
    let spans = house.spans().await;
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["chat claude-test", "invoke_workflow"]);
    assert_eq!(text(&spans[0], "error.type"), "cancelled_by_user");
}
