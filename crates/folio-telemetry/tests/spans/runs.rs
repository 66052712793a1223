//! Real runs, and their spans.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio::engine::Outcome;
use folio::engine::plan::{self, Plan};
use folio::memory::RunId;
use folio::model::{ScriptedModel, Usage, When};
use folio::runner::{DriveFollower, Driven, NewRun, Observer, Runner, RunnerModel, RunnerModels, RunnerOptions, Watch};
use folio::store::{RandomIds, SystemClock};
use folio::tools::Registry;
use folio::{Actor, Folio, Role, SpaceName, Workspace};
use folio_telemetry::spans::Spans;
use folio_telemetry::{Telemetry, TelemetryOptions};
use folio_testkit::FaultyStore;
use opentelemetry::Value;
use opentelemetry::trace::Status;
use opentelemetry_sdk::trace::SpanData;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

async fn runner(observer: Option<Arc<dyn Observer>>, model: Option<ScriptedModel>) -> Runner {
    let space = Folio::open("memory:").await.unwrap().workspace(SpaceName::main());
    let model = model.map(|model| RunnerModels::one(RunnerModel::new("anthropic:claude-test", Arc::new(model))));
    let options = RunnerOptions {
        models: model,
        observer,
        ..RunnerOptions::default()
    };
    Runner::new(space, Registry::with_builtins(), options)
}

async fn submit(runner: &Runner, plan: Plan) -> RunId {
    let new = NewRun::of(plan, Actor::new(Role::Human, "test"));
    runner.submit(new).await.unwrap().0
}

fn plan(runner: &Runner, document: serde_json::Value) -> Plan {
    plan::from_value(&document, &runner.known()).unwrap()
}

/// The spans of a run that has ended, from its journal.
async fn spans(runner: &Runner, run: RunId) -> Vec<SpanData> {
    let workspace = runner.workspace();
    let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), run);
    let mut made = Spans::of(run);
    let events = watch.read().await.unwrap();
    events
        .iter()
        .flat_map(|(at, event)| made.take(watch.run(), *at, event, None))
        .collect()
}

fn attribute<'s>(span: &'s SpanData, name: &str) -> Option<&'s Value> {
    let found = span.attributes.iter().find(|said| said.key.as_str() == name);
    found.map(|said| &said.value)
}

fn text(span: &SpanData, name: &str) -> String {
    attribute(span, name)
        .map(|value| value.as_str().into_owned())
        .unwrap_or_default()
}

#[tokio::test]
async fn run_is_a_trace_with_nested_spans_for_its_nodes() {
    let runner = runner(None, None).await;
    let echo = json!({"tool": "text", "args": {"op": "echo", "value": 1}});
    let fails = json!({"tool": "read", "args": {"path": "nowhere"}});
    let document = json!({"title": "Secret title", "steps": [
        {"id": "one", "do": echo},
        {"id": "inner", "plan": {"steps": [{"id": "two", "do": echo}]}},
        {"id": "bad", "do": fails, "optional": true}]});
    let run = submit(&runner, plan(&runner, document)).await;
    let _ended = runner.drive(run).await.unwrap();
    let spans = spans(&runner, run).await;
    let by_id: HashMap<_, _> = spans.iter().map(|span| (span.span_context.span_id(), span)).collect();
    let trace = run.to_bytes();
    let mut seen = Vec::new();
    for span in &spans {
        assert_eq!(span.span_context.trace_id().to_bytes(), trace);
        let parent = by_id.get(&span.parent_span_id);
        if let Some(parent) = parent {
            assert!(
                parent.start_time <= span.start_time && span.end_time <= parent.end_time,
                "{span:?}"
            );
        }
        let node = text(span, "folio.node.id");
        assert_eq!(
            span.span_context.span_id().to_string(),
            node,
            "found by what Folio calls it"
        );
        let below = parent.map_or("-", |parent| &parent.name).to_owned();
        seen.push((span.name.to_string(), below, text(span, "folio.outcome")));
        let shown = format!("{span:?}");
        assert!(!shown.contains("Secret"), "{shown}");
    }
    let row = |name: &str, below: &str, outcome: &str| (name.to_owned(), below.to_owned(), outcome.to_owned());
    assert_eq!(
        seen,
        [
            row("execute_tool text", "invoke_workflow", "ok"),
            row("execute_tool text", "plan inner", "ok"),
            row("plan inner", "invoke_workflow", "ok"),
            row("execute_tool read", "invoke_workflow", "failed"),
            row("invoke_workflow", "-", "ok"),
        ]
    );
    assert!(matches!(spans[3].status, Status::Error { .. }) && attribute(&spans[3], "error.type").is_some());
}

#[tokio::test]
async fn span_states_the_plan_version_and_limits_of_its_node_e9_18() {
    let runner = runner(None, None).await;
    let echo = json!({"tool": "text", "args": {"op": "echo", "value": 1}});
    let document = json!({"title": "limits", "budget": {"tool_calls": 9}, "steps": [
        {"id": "inner", "plan": {"steps": [{"id": "one", "do": echo}]}, "budget": {"tool_calls": 3, "usd": 0.5, "deadline": "90s"}}]});
    let run = submit(&runner, plan(&runner, document)).await;
    let _ended = runner.drive(run).await.unwrap();
    let spans = spans(&runner, run).await;
    let limits = |span: &SpanData| {
        let named = span.attributes.iter().filter_map(|said| {
            let of = said.key.as_str().strip_prefix("folio.budget.")?;
            Some(format!("{of} {}", said.value))
        });
        named.collect::<Vec<_>>()
    };
    let [one, inner, all] = spans.as_slice() else {
        panic!("{spans:?}")
    };
    assert_eq!(limits(one), [""; 0], "it has none of its own");
    assert_eq!(limits(inner), ["micro_usd 500000", "tool_calls 3", "deadline 90000"]);
    assert_eq!(
        limits(all),
        ["tokens 2000000", "tool_calls 9", "bytes 4294967296", "deadline 1800000"]
    );
    for (span, version) in [(one, None), (inner, Some(1)), (all, Some(1))] {
        let said = attribute(span, "folio.plan.version").map(|said| said.as_str().into_owned());
        assert_eq!(said, version.map(|version: u32| version.to_string()), "{}", span.name);
    }
}

#[tokio::test]
async fn model_request_span_has_token_counts_but_no_content() {
    let cues = [
        When::any()
            .contains("Decide how")
            .json(&json!({"decision": "execute", "reason": "small",
            "action": {"tool": "text", "args": {"op": "echo", "value": "sesame"}}}))
            .usage(Usage {
                tokens_in: 70,
                tokens_out: 7,
                ..Usage::default()
            }),
        When::any()
            .contains("sesame")
            .calls([("finish", json!({"notes": "opened sesame"}))]),
    ];
    let runner = runner(None, Some(ScriptedModel::new(cues))).await;
    let run = submit(&runner, Plan::of_goal("Say sesame")).await;
    let result = runner.drive(run).await.unwrap();
    assert_eq!(result.notes, "opened sesame");
    let spans = spans(&runner, run).await;
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(
        names,
        [
            "chat claude-test",
            "execute_tool text",
            "chat claude-test",
            "invoke_workflow"
        ]
    );
    let chat = &spans[0];
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "anthropic"),
        ("gen_ai.request.model", "claude-test"),
        ("folio.purpose", "decide"),
    ] {
        assert_eq!(text(chat, name), value);
    }
    assert_eq!(attribute(chat, "gen_ai.usage.input_tokens"), Some(&Value::I64(70)));
    // Where the provider does not say, what was set aside is what counts, and nothing that was measured.
    assert_eq!(attribute(&spans[2], "gen_ai.usage.input_tokens"), None);
    assert_eq!(attribute(&spans[2], "gen_ai.usage.output_tokens"), None);
    assert_eq!(text(&spans[1], "gen_ai.tool.name"), "text");
    for span in &spans {
        let shown = format!("{span:?}");
        assert!(!shown.contains("sesame"), "{shown}");
    }
}

/// The head and the body of a request.
type Asked = (String, Vec<u8>);

/// A collector that accepts every request, and keeps it.
async fn collector() -> (String, Arc<Mutex<Vec<Asked>>>) {
    collector_with_response("").await
}

/// The same, but it answers with `body`.
async fn collector_with_response(body: &'static str) -> (String, Arc<Mutex<Vec<Asked>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::<Mutex<Vec<Asked>>>::default();
    let keeps = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            loop {
                let read = stream.read(&mut piece).await.unwrap_or(0);
                request.extend_from_slice(&piece[..read]);
                let head = String::from_utf8_lossy(&request).to_lowercase();
                let length = head
                    .split("content-length: ")
                    .nth(1)
                    .and_then(|rest| rest.lines().next());
                let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
                let body = head.find("\r\n\r\n").map_or(0, |at| request.len() - at - 4);
                if read == 0 || (length > 0 && body >= length) {
                    break;
                }
            }
            let end = request
                .windows(4)
                .position(|bytes| bytes == b"\r\n\r\n")
                .unwrap_or(request.len());
            let head = String::from_utf8_lossy(&request[..end]).into_owned();
            keeps.lock().unwrap().push((head, request.split_off(end)));
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (endpoint, asked)
}

async fn drive_echo_run(telemetry: &Telemetry) {
    let runner = runner(Some(Arc::new(telemetry.clone())), None).await;
    let echo = json!({"tool": "text", "args": {"op": "echo", "value": 1}});
    let run = submit(&runner, plan(&runner, json!({"steps": [{"id": "one", "do": echo}]}))).await;
    let _ended = runner.drive(run).await.unwrap();
}

#[tokio::test]
async fn spans_of_a_driven_run_are_sent_in_one_request() {
    let (endpoint, asked) = collector().await;
    let telemetry = Telemetry::open(&TelemetryOptions::to(&endpoint)).unwrap();
    let here = runner(Some(Arc::new(telemetry.clone())), None).await;
    let elsewhere = Runner::new(
        here.workspace().clone(),
        Registry::with_builtins(),
        RunnerOptions::default(),
    );
    let echo = json!({"tool": "text", "args": {"op": "echo", "value": 1}});
    let document = json!({"steps": [{"id": "one", "do": echo}]});
    let mut runs = Vec::new();
    for runner in [&here, &elsewhere] {
        let run = submit(runner, plan(runner, document.clone())).await;
        assert_eq!(runner.drive(run).await.unwrap().status, Outcome::Ok);
        runs.push(run);
    }
    let sent = telemetry.finish(Duration::from_secs(20)).await;
    assert_eq!((sent.sent, sent.lost, sent.reason), (2, 0, None));
    let asked = asked.lock().unwrap();
    let [(head, body)] = asked.as_slice() else {
        panic!("{asked:?}")
    };
    assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
    // The id of a trace is that of its run. A run that is driven elsewhere is not reported here.
    let has_trace = |run: &RunId| body.windows(16).any(|bytes| bytes == run.to_bytes());
    assert_eq!(runs.iter().map(has_trace).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn collector_password_is_sent_as_authorization_and_never_shown() {
    let (endpoint, asked) = collector().await;
    let options = TelemetryOptions::to(&endpoint.replace("http://", "http://me:hunter2@"));
    assert!(!format!("{options:?}").contains("hunter2"));
    let telemetry = Telemetry::open(&options).unwrap();
    drive_echo_run(&telemetry).await;
    let sent = telemetry.finish(Duration::from_secs(20)).await;
    assert_eq!((sent.sent, sent.reason), (2, None));
    let head = asked.lock().unwrap()[0].0.to_lowercase();
    assert!(
        head.contains("authorization: basic bwu6ahvudgvymg==") && !head.contains("hunter2"),
        "{head}"
    );
    for wrong in [
        "ftp://me:hunter2@h",
        "me:hunter2@h:4318",
        "http://me:hunter2@",
        "http://me:hunter2@h:port",
        "",
    ] {
        let error = Telemetry::open(&TelemetryOptions::to(wrong)).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut options = TelemetryOptions::to(&format!("http://me:hunter2@{nobody}/?key=hunter2"));
    options.within = Duration::from_millis(100);
    let telemetry = Telemetry::open(&options).unwrap();
    drive_echo_run(&telemetry).await;
    let reason = telemetry.finish(Duration::from_secs(20)).await.reason.unwrap();
    assert!(
        reason.starts_with(&format!("http://{nobody}: ")) && !reason.contains("hunter2"),
        "{reason}"
    );
    assert!(reason.to_lowercase().contains("refused"), "{reason}");
}

#[tokio::test]
async fn unresponsive_collector_times_out() {
    // Takes connections and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = TelemetryOptions::to(&format!("http://{}", silent.local_addr().unwrap()));
    options.within = Duration::from_millis(300);
    let telemetry = Telemetry::open(&options).unwrap();
    drive_echo_run(&telemetry).await;
    let began = tokio::time::Instant::now();
    let sent = telemetry.finish(Duration::from_secs(60)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((sent.sent, sent.lost), (0, 2));
    let reason = sent.reason.unwrap();
    assert!(reason.ends_with("it did not answer within 0.3 s"), "{reason}");
}

#[tokio::test]
async fn spans_in_flight_at_exit_are_counted_as_lost() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = TelemetryOptions::to(&format!("http://{}", silent.local_addr().unwrap()));
    let telemetry = Telemetry::open(&options).unwrap();
    drive_echo_run(&telemetry).await;
    let sent = telemetry.finish(Duration::from_secs(1)).await;
    assert_eq!((sent.sent, sent.lost), (0, 2));
    assert!(sent.reason.unwrap().ends_with("waits only 1 s for it when it ends"));
}

/// A store that fails to read journals the given number of times.
#[derive(Debug)]
struct Unread {
    store: Arc<FaultyStore>,
    times: u32,
    telemetry: Telemetry,
}

impl Observer for Unread {
    fn drive_started(&self, beside: DriveFollower) {
        self.store.fail_journals(self.times);
        self.telemetry.drive_started(beside);
    }
}

#[tokio::test]
async fn telemetry_retries_reading_a_failing_journal() {
    let (endpoint, _) = collector().await;
    let telemetry = Telemetry::open(&TelemetryOptions::to(&endpoint)).unwrap();
    let inner = Folio::open("memory:").await.unwrap().store().clone();
    let store = Arc::new(FaultyStore::new(inner));
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
    let space = Workspace::new(Arc::clone(&store) as _, clock, ids, SpaceName::main());
    let observer = Unread {
        store,
        times: 3,
        telemetry: telemetry.clone(),
    };
    let options = RunnerOptions {
        observer: Some(Arc::new(observer)),
        ..RunnerOptions::default()
    };
    let runner = Runner::new(space, Registry::with_builtins(), options);
    let echo = json!({"tool": "text", "args": {"op": "echo", "value": 1}});
    let run = submit(&runner, plan(&runner, json!({"steps": [{"id": "one", "do": echo}]}))).await;
    let _ended = runner.drive(run).await.unwrap();
    let sent = telemetry.finish(Duration::from_secs(20)).await;
    assert_eq!((sent.sent, sent.lost), (2, 0), "{sent:?}");
}

#[tokio::test]
async fn each_drive_exports_only_the_spans_that_ended_in_it() {
    let (endpoint, _) = collector().await;
    let open = || Telemetry::open(&TelemetryOptions::to(&endpoint)).unwrap();
    let (first, second) = (open(), open());
    let space = Folio::open("memory:").await.unwrap().workspace(SpaceName::main());
    let driver = |telemetry: &Telemetry| {
        let options = RunnerOptions {
            has_person: true,
            models: Some(RunnerModels::one(RunnerModel::new(
                "scripted",
                Arc::new(ScriptedModel::new([])),
            ))),
            observer: Some(Arc::new(telemetry.clone())),
            ..RunnerOptions::default()
        };
        Runner::new(space.clone(), Registry::with_builtins(), options)
    };
    let (one, other) = (driver(&first), driver(&second));
    let echo = json!({"tool": "text", "args": {"op": "echo", "value": 1}});
    let asks = |id: &str| json!({"id": id, "title": "Go and look", "executor": "human"});
    let document = json!({"steps": [{"id": "a", "do": echo}, asks("b"), {"id": "c", "do": echo}, asks("d"), {"id": "e", "do": echo}]});
    let run = submit(&one, plan(&one, document)).await;
    let patience = Duration::from_millis(50);
    let person = Actor::new(Role::Human, "test");
    // The first one does what comes before each question, the second one the rest.
    for (question, driver) in [("b", &one), ("d", &one)] {
        let driven = driver.drive_while_due(run, patience).await.unwrap();
        assert!(matches!(driven, Driven::Waits { .. }), "{driven:?}");
        let node = one.load(run).await.unwrap().node_at(question).unwrap().id;
        one.answer(run, node, "seen", &person).await.unwrap();
    }
    assert_eq!(other.drive(run).await.unwrap().status, Outcome::Ok);
    let patience = Duration::from_secs(20);
    let told = [first.finish(patience).await, second.finish(patience).await];
    assert_eq!(told.map(|sent| (sent.sent, sent.lost)), [(3, 0), (3, 0)]);
}

#[tokio::test]
async fn spans_are_lost_and_counted_while_the_collector_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = TelemetryOptions::to(&format!("http://{}", silent.local_addr().unwrap()));
    options.within = Duration::from_millis(300);
    let telemetry = Telemetry::open(&options).unwrap();
    let runner = runner(Some(Arc::new(telemetry.clone())), None).await;
    let echo = json!({"tool": "text", "args": {"op": "echo", "value": 1}});
    let steps: Vec<_> = (0..40).map(|n| json!({"id": format!("s{n}"), "do": echo})).collect();
    let plan = plan(&runner, json!({"steps": steps}));
    for _ in 0..50 {
        let run = submit(&runner, plan.clone()).await;
        let _ended = runner.drive(run).await.unwrap();
    }
    let reason = telemetry.first_loss().await.unwrap();
    assert!(reason.ends_with("it did not answer within 0.3 s"), "{reason}");
    let sent = telemetry.finish(Duration::from_secs(60)).await;
    assert_eq!((sent.sent, sent.lost), (0, 50 * 41));
    assert_eq!(telemetry.unreported_count(), Some(50 * 41));
}

#[tokio::test]
async fn spans_rejected_by_the_collector_are_counted_as_lost() {
    let (endpoint, _) = collector_with_response("\x0a\x07\x08\x01\x12\x03odd").await;
    let telemetry = Telemetry::open(&TelemetryOptions::to(&endpoint)).unwrap();
    drive_echo_run(&telemetry).await;
    let sent = telemetry.finish(Duration::from_secs(20)).await;
    assert_eq!((sent.sent, sent.lost), (1, 1));
    assert!(sent.reason.unwrap().ends_with("it refuses some of them: odd"));
}

#[tokio::test]
async fn unreachable_collector_loses_spans_without_disturbing_the_run() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let telemetry = Telemetry::open(&TelemetryOptions::to(&format!("http://{nobody}"))).unwrap();
    drive_echo_run(&telemetry).await;
    let sent = telemetry.finish(Duration::from_secs(60)).await;
    assert_eq!((sent.sent, sent.lost), (0, 2));
    assert!(sent.reason.is_some());
}
