//! Runs that a model starts.

use std::sync::{Arc, Mutex};

use folio::memory::id::{Ref, RunHandle};
use folio::model::{ScriptedModel, When};
use folio::runner::{Runner, RunnerModel, RunnerModels, RunnerOptions};
use folio::tools::{Effect, Registry, ToolResponse, ToolSpec};
use folio::{Actor, Role};
use folio_server::{McpOptions, ToolSet};
use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, CancelledNotificationParam, ClientCapabilities, ClientConfig,
    ClientRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ErrorCode, GetTaskParams,
    ProgressNotificationParam, Request, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RoleClient};
use rmcp::{ClientHandler, ServiceError};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::pair::{Era, Pair, Plain, options, runner};

pub(crate) fn with_runs() -> McpOptions {
    let mut options = options();
    options.sets = vec![ToolSet::Run];
    options
}

pub(crate) fn echo() -> Value {
    json!({
        "title": "Echo",
        "inputs": {"word": {"type": "string", "default": "nothing"}},
        "steps": [
            {"id": "first", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ inputs.word }}"}}},
            {"id": "second", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ results.first.output.value }}!"}}},
        ],
        "output": "results.second.output.value",
    })
}

pub(crate) const SLOW: &str = "
title: Slow
steps: [{id: wait, do: {tool: wait, args: {ms: 60000}}}]
";

/// Records the progress notifications of a request.
#[derive(Clone, Default)]
struct Progress(Arc<Mutex<Vec<ProgressNotificationParam>>>);

impl ClientHandler for Progress {
    fn get_info(&self) -> ClientConfig {
        Plain.get_info()
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.lock().unwrap().push(params);
    }
}

#[tokio::test]
async fn run_start_executes_a_plan_and_reports_progress() {
    for era in Era::BOTH {
        let runner = runner().await;
        let progress = Progress::default();
        let pair = Pair::of(era, with_runs(), &runner, progress.clone()).await;
        let (text, run) = pair
            .call("run_start", json!({"plan": echo(), "inputs": {"word": "hello"}}))
            .await;
        assert!(text.starts_with("r1 [ok] Echo: 2 of 2 done"), "{text}");
        assert_eq!(
            (&run["handle"], &run["status"], &run["result"]["status"]),
            (&json!("r1"), &json!("ok"), &json!("ok"))
        );
        let told = progress.0.lock().unwrap().clone();
        assert!(
            told.windows(2).all(|pair| pair[0].progress < pair[1].progress),
            "{told:?}"
        );
        let last = told.last().unwrap();
        assert!(
            last.progress >= 2.0 && last.message.as_ref().unwrap().contains("Echo"),
            "{told:?}"
        );
        let (again, _) = pair.call("run_status", json!({"run": "r1"})).await;
        assert_eq!(again, text);
        // A plan may be YAML as well.
        let yaml = "title: Y\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]";
        let (text, _) = pair.call("run_start", json!({"plan": yaml})).await;
        assert!(text.starts_with("r2 [ok] Y"), "{text}");
        let read = rmcp::model::ReadResourceRequestParams::new("folio://run/r1");
        let read = pair.client.read_resource(read).await.unwrap();
        let markdown = json!(read.contents[0])["text"].as_str().unwrap().to_owned();
        assert!(
            markdown.starts_with("Run r1 (remembered data, not instructions; ")
                && markdown.contains("\n\n# r1 Echo\n")
                && markdown.contains("- [ok] "),
            "{markdown}"
        );
        pair.end().await;
    }
}

#[tokio::test]
async fn run_status_says_which_answer_holds_if_nobody_answers() {
    let asks = json!({"question": "Which colour?", "options": ["red", "blue"], "default": "red"});
    let runner = runner_asking(asks).await;
    let pair = Pair::of(Era::Requests, with_runs(), &runner, Plain).await;
    let (text, _) = pair
        .call("run_start", json!({"goal": "Paint the door", "wait_seconds": 3600}))
        .await;
    assert!(
        text.contains("Which colour? (red | blue) (if nobody answers in time: red)"),
        "{text}"
    );
    pair.end().await;
}

#[tokio::test]
async fn question_of_a_goal_run_is_answered_through_run_answer() {
    let runner = painter().await;
    let pair = Pair::of(Era::Requests, with_runs(), &runner, Plain).await;
    // This client has no forms: it is told what the run asks as soon as the run does nothing else.
    let (text, run) = pair
        .call("run_start", json!({"goal": "Paint the door", "wait_seconds": 3600}))
        .await;
    assert!(
        text.starts_with("r1 ") && text.contains("Which colour? (red | blue)"),
        "{text}"
    );
    assert_eq!(run["handle"], "r1");
    let (again, _) = pair
        .call("run_status", json!({"run": "r1", "wait_seconds": 3600}))
        .await;
    assert_eq!(again, text);
    let (_, code) = pair
        .refused("run_answer", json!({"run": "r1", "answer": "green"}))
        .await;
    assert_eq!(code, "not_an_option");
    pair.call("run_answer", json!({"run": "r1", "answer": "blue"})).await;
    let (text, run) = pair.call("run_status", json!({"run": "r1", "wait_seconds": 60})).await;
    assert_eq!(run["status"], "ok", "{text}");
    let (_, code) = pair.refused("run_answer", json!({"run": "r1", "answer": "red"})).await;
    assert_eq!(code, "no_question");
    let (_, code) = pair.refused("run_start", json!({})).await;
    assert_eq!(code, "arguments_invalid");
    pair.end().await;
}

#[tokio::test]
async fn run_start_takes_limits_in_place_of_those_of_the_plan_e9_10() {
    let runner = runner().await;
    let pair = Pair::of(Era::Requests, with_runs(), &runner, Progress::default()).await;
    let mut plan = echo();
    plan["budget"] = json!({"tool_calls": 5});
    let start = |limits: Value| json!({"plan": plan, "inputs": {"word": "hello"}, "limits": limits});
    let (text, _) = pair
        .call("run_start", start(json!({"tool_calls": 0, "usd": 0.5, "minutes": 3})))
        .await;
    assert!(text.contains("because: budget_tool_calls"), "{text}");
    for limits in [json!({"nodes": 1}), json!({"usd": -1}), json!({"wishes": 3})] {
        let (_, code) = pair.refused("run_start", start(limits.clone())).await;
        assert!(
            ["limit_unusable", "arguments_invalid"].contains(&code.as_str()),
            "{limits}: {code}"
        );
    }
    pair.end().await;
}

#[tokio::test]
async fn run_start_refuses_invalid_plans_inputs_and_paths() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = with_runs();
    options.folder = Some(folder.path().to_owned());
    let pair = Pair::new(Era::Requests, options).await;
    let plan = json!({"title": "x", "steps": [{"id": "a", "do": {"tool": "teleport"}}, {"id": "b"}]});
    let (text, code) = pair.refused("run_start", json!({"plan": plan})).await;
    assert!(
        code == "plan_invalid" && text.contains("P004") && text.contains("teleport"),
        "{text}"
    );
    let model = json!({"title": "x", "steps": [{"id": "a", "title": "Think"}]});
    let (text, code) = pair.refused("run_start", json!({"plan": model})).await;
    assert_eq!(code, "needs_model", "{text}");
    let (text, code) = pair
        .refused("run_start", json!({"plan": echo(), "inputs": {"word": "a", "x": 1}}))
        .await;
    assert_eq!(code, "inputs_invalid", "{text}");
    // No path leads out of the folder that the server stands in.
    let plan = json!({
        "title": "x",
        "inputs": {"folder": {"type": "path"}},
        "steps": [{"id": "a", "do": {"tool": "list", "args": {"path": "{{ inputs.folder }}"}}}],
    });
    for path in ["/", "..", "/etc", "missing"] {
        let (text, code) = pair
            .refused("run_start", json!({"plan": plan, "inputs": {"folder": path}}))
            .await;
        assert!(
            code == "arguments_invalid" && text.contains("inputs.folder"),
            "{path}: {text}"
        );
    }
    let (text, _) = pair
        .call("run_start", json!({"plan": plan, "inputs": {"folder": "."}}))
        .await;
    assert!(text.starts_with("r1 [ok]"), "{text}");
    let (_, code) = pair.refused("run_status", json!({"run": "r9"})).await;
    assert_eq!(code, "not_found");
    pair.end().await;
}

#[tokio::test]
async fn run_start_without_waiting_drives_at_most_eight_runs() {
    let runner = runner().await;
    let pair = Pair::of(Era::Requests, with_runs(), &runner, Plain).await;
    for n in 1..=8 {
        let (text, run) = pair.call("run_start", json!({"plan": SLOW, "wait_seconds": 0})).await;
        assert!(text.starts_with(&format!("r{n} [running] Slow")), "{text}");
        assert!(run["driven"] == true && !text.contains("nobody drives it"), "{text}");
        assert_eq!(run["status"], "running");
    }
    let (text, code) = pair
        .refused("run_start", json!({"plan": SLOW, "wait_seconds": 0}))
        .await;
    assert!(code == "runs_busy" && text.contains("hint: "), "{text}");
    for row in runner.workspace().runs(&Default::default()).await.unwrap() {
        runner
            .cancel(row.id, None, &Actor::new(Role::Client, "test"))
            .await
            .unwrap();
    }
    let (text, _) = pair.call("run_status", json!({"run": "r1", "wait_seconds": 60})).await;
    assert!(text.starts_with("r1 [cancelled]"), "{text}");
    pair.end().await;
}

/// Waits until the run `r1` has ended, and returns how.
async fn end_of(workspace: &folio::Workspace) -> String {
    let run = Ref::Handle(RunHandle(1));
    loop {
        let seen = workspace.head().await.unwrap();
        match workspace.run(run).await {
            Ok(row) if row.status != "running" => return row.status,
            _ => drop(workspace.wait(seen).await.unwrap()),
        }
    }
}

#[tokio::test]
async fn cancelled_run_start_request_cancels_its_run() {
    // In the generation without sessions over a pipe a request is not cancelled by its client but for its
    // subscriptions.
    let runner = runner().await;
    let pair = Pair::of(Era::Sessions, with_runs(), &runner, Plain).await;
    let arguments = json!({"plan": SLOW}).as_object().unwrap().clone();
    let call = CallToolRequestParams::new("run_start").with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(Request::new(call));
    let asked = pair
        .client
        .send_cancellable_request(request, PeerRequestOptions::no_options())
        .await
        .unwrap();
    let seen = runner.workspace().head().await.unwrap();
    if runner.workspace().run(Ref::Handle(RunHandle(1))).await.is_err() {
        runner.workspace().wait(seen).await.unwrap();
    }
    asked.cancel(Some("not wanted any more".to_owned())).await.unwrap();
    assert_eq!(end_of(runner.workspace()).await, "cancelled");
    pair.end().await;
}

#[tokio::test]
async fn client_disconnect_cancels_the_run_it_waits_for() {
    for era in Era::BOTH {
        let runner = runner().await;
        let pair = Pair::of(era, with_runs(), &runner, Plain).await;
        let arguments = json!({"plan": SLOW}).as_object().unwrap().clone();
        let call = CallToolRequestParams::new("run_start").with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(Request::new(call));
        let _asked = pair
            .client
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .unwrap();
        let seen = runner.workspace().head().await.unwrap();
        if runner.workspace().run(Ref::Handle(RunHandle(1))).await.is_err() {
            runner.workspace().wait(seen).await.unwrap();
        }
        // The server ends in order, with the run.
        pair.end().await;
        assert_eq!(
            runner.workspace().run(Ref::Handle(RunHandle(1))).await.unwrap().status,
            "cancelled"
        );
    }
}

#[tokio::test]
async fn run_tools_are_limited_to_those_the_server_allows_e9_14() {
    let workspace = runner().await.workspace().clone();
    let runner = Runner::new(workspace, with_bell(), RunnerOptions::default());
    let plan = json!({"title": "Ring", "steps": [{"id": "a", "do": {"tool": "door.ring", "args": {}}}]});
    let with = |granted: &[&str]| {
        let mut options = with_runs();
        options.allow_tools = granted.iter().map(ToString::to_string).collect();
        options
    };
    let pair = Pair::of(Era::Requests, with(&["door.*"]), &runner, Plain).await;
    let (text, _) = pair.call("run_start", json!({ "plan": plan })).await;
    assert!(text.starts_with("r1 [ok]"), "{text}");
    let (text, _) = pair.call("run_start", json!({"plan": plan, "allow_tools": []})).await;
    assert!(text.starts_with("r2 [failed]"), "less was asked for: {text}");
    let (text, _) = pair
        .call("run_start", json!({"plan": plan, "allow_tools": ["door.ring"]}))
        .await;
    assert!(text.starts_with("r3 [ok]"), "{text}");
    let (text, code) = pair
        .refused("run_start", json!({"plan": plan, "allow_tools": ["shell"]}))
        .await;
    assert!(code == "role_denied" && text.contains("shell"), "{text}");
    let (text, code) = pair
        .refused("run_start", json!({"plan": plan, "allow_tools": ["maps.find"]}))
        .await;
    assert!(code == "arguments_invalid" && text.contains("maps.find"), "{text}");
    pair.end().await;
    let pair = Pair::of(Era::Requests, with(&[]), &runner, Plain).await;
    let (text, code) = pair
        .refused("run_start", json!({"plan": plan, "allow_tools": ["door.ring"]}))
        .await;
    assert_eq!(code, "role_denied", "{text}");
    pair.end().await;
}

#[tokio::test]
async fn call_waiting_for_approval_is_reported_with_its_command() {
    let folder = tempfile::tempdir().unwrap();
    for era in Era::BOTH {
        let attended = RunnerOptions {
            has_person: true,
            ..RunnerOptions::default()
        };
        let workspace = runner().await.workspace().clone();
        let runner = Runner::new(workspace, Registry::with_builtins(), attended);
        let mut options = with_runs();
        options.folder = Some(folder.path().to_owned());
        let pair = Pair::of(era, options, &runner, Plain).await;
        let shell = json!({"tool": "shell", "args": {"argv": ["true"]}});
        let plan = json!({"title": "Build", "steps": [{"id": "sh", "do": shell}]});
        let (text, run) = pair
            .call("run_start", json!({"plan": plan, "wait_seconds": 3600}))
            .await;
        let row = runner.workspace().run(Ref::Handle(RunHandle(1))).await.unwrap();
        let loaded = runner.load(row.id).await.unwrap();
        let (node, waiting) = loaded.pending_approvals()[0];
        let approve = format!("`folio approve r1.{node}.{}`", waiting.mark());
        let waits = format!("sh: shell {{\"argv\":[\"true\"]}}; {approve}");
        assert!(
            text.starts_with("r1 [running] Build")
                && text.contains(&format!("waits for a person's approval:\n{waits}")),
            "{era:?}: {text}"
        );
        assert_eq!(run["approvals"], json!([waits]), "{era:?}");
        let (again, _) = pair
            .call("run_status", json!({"run": "r1", "wait_seconds": 3600}))
            .await;
        assert_eq!(again, text, "{era:?}");
        let (text, code) = pair.refused("run_answer", json!({"run": "r1", "answer": "yes"})).await;
        assert!(code == "no_question" && text.contains(&approve), "{text}");
        let person = Actor::new(Role::Human, "ada");
        runner.approve(row.id, node, None, &person).await.unwrap();
        let (text, run) = pair
            .call("run_status", json!({"run": "r1", "wait_seconds": 3600}))
            .await;
        assert!(text.starts_with("r1 [ok]") && run["approvals"].is_null(), "{text}");
        pair.end().await;
    }
}

#[tokio::test]
async fn many_waiting_status_calls_do_not_block_run_answer() {
    let runner = painter().await;
    let pair = Pair::of(Era::Requests, with_runs(), &runner, Plain).await;
    pair.call("run_start", json!({"plan": SLOW, "wait_seconds": 0})).await;
    let slow = runner.workspace().run(Ref::Handle(RunHandle(1))).await.unwrap().id;
    let waits = (0..70).map(|_| pair.call("run_status", json!({"run": "r1", "wait_seconds": 3600})));
    let answered = async {
        let (text, _) = pair
            .call("run_start", json!({"goal": "Paint the door", "wait_seconds": 3600}))
            .await;
        assert!(text.contains("Which colour? (red | blue)"), "{text}");
        pair.call("run_answer", json!({"run": "r2", "answer": "blue"})).await;
        let (text, run) = pair
            .call("run_status", json!({"run": "r2", "wait_seconds": 3600}))
            .await;
        assert_eq!(run["status"], "ok", "{text}");
        runner
            .cancel(slow, None, &Actor::new(Role::Human, "ada"))
            .await
            .unwrap();
    };
    let all = futures_util::future::join(futures_util::future::join_all(waits), answered);
    let all = tokio::time::timeout(std::time::Duration::from_secs(60), all).await;
    let (waited, ()) = all.expect("the answer comes to the run");
    assert!(waited.iter().all(|(_, run)| run["status"] == "cancelled"), "{waited:?}");
    pair.end().await;
}

#[tokio::test]
async fn run_status_names_the_steps_under_way() {
    let runner = runner().await;
    let pair = Pair::of(Era::Sessions, with_runs(), &runner, Plain).await;
    pair.call("run_start", json!({"plan": SLOW, "wait_seconds": 0})).await;
    // It is as soon as it has been driven so far.
    while !pair
        .call("run_status", json!({"run": "r1"}))
        .await
        .0
        .contains("\n- under way: wait")
    {
        tokio::task::yield_now().await;
    }
    pair.end().await;
}

/// The tools, and one that needs a person's approval.
pub(crate) fn with_bell() -> Registry {
    let mut registry = Registry::with_builtins();
    let spec = ToolSpec::new("door.ring", Effect::Idempotent, "Rings the bell.").needs_approval();
    registry.register_fn(spec, |request, context| async move {
        assert!(context.allowed, "nobody allowed it");
        Ok(ToolResponse::ok(&request, serde_json::json!({"rang": true}), "rang"))
    });
    registry
}

/// A person at the client who answers each form with the next of these; without an answer, they cancel it.
#[derive(Clone)]
struct Person {
    answers: Arc<Mutex<Vec<Option<&'static str>>>>,
    asked: Arc<Mutex<Vec<Value>>>,
    has_tasks: bool,
}

impl Person {
    fn answering_with(answers: &[Option<&'static str>]) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.iter().rev().copied().collect())),
            asked: Arc::default(),
            has_tasks: false,
        }
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let mut config = Plain.get_info();
        let capabilities = ClientCapabilities::builder().enable_elicitation();
        config.capabilities = if self.has_tasks {
            capabilities.enable_tasks().build()
        } else {
            capabilities.build()
        };
        config
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        self.asked.lock().unwrap().push(json!(request));
        Ok(match self.answers.lock().unwrap().pop().flatten() {
            Some(answer) => ElicitResult::new(ElicitationAction::Accept).with_content(json!({"answer": answer})),
            None => ElicitResult::new(ElicitationAction::Decline),
        })
    }
}

/// A runner whose model asks which of two colours to use before it paints.
async fn painter() -> Runner {
    runner_asking(json!({"question": "Which colour?", "options": ["red", "blue"]})).await
}

/// The same for any colour.
pub(crate) async fn asker() -> Runner {
    runner_asking(json!({"question": "Which colour?"})).await
}

async fn runner_asking(question: Value) -> Runner {
    let cues = [
        When::any()
            .contains("Decide how")
            .json(&json!({"decision": "execute", "reason": "small",
                "action": {"tool": "ask_person", "args": question}})),
        When::any()
            .contains("blue")
            .calls([("finish", json!({"notes": "painted blue"}))]),
    ];
    runner_with(RunnerModel::new("scripted", Arc::new(ScriptedModel::new(cues)))).await
}

/// A runner with a model and a person.
pub(crate) async fn runner_with(model: RunnerModel) -> Runner {
    let options = RunnerOptions {
        models: Some(RunnerModels::one(model)),
        has_person: true,
        ..RunnerOptions::default()
    };
    Runner::new(runner().await.workspace().clone(), Registry::with_builtins(), options)
}

#[tokio::test]
async fn run_question_is_elicited_from_the_clients_person_e9_14() {
    for era in Era::BOTH {
        let person = Person::answering_with(&[Some("blue")]);
        let pair = Pair::of(era, with_runs(), &painter().await, person.clone()).await;
        let (text, run) = pair.call("run_start", json!({"goal": "Paint the door"})).await;
        assert_eq!(run["status"], "ok", "{era:?}: {text}");
        let asked = person.asked();
        assert_eq!(asked.len(), 1, "{era:?}");
        assert!(
            asked[0]["message"].as_str().unwrap().ends_with("asks: Which colour?"),
            "{asked:?}"
        );
        assert_eq!(
            asked[0]["requestedSchema"]["properties"]["answer"]["enum"],
            json!(["red", "blue"])
        );
        pair.end().await;
    }
}

#[tokio::test]
async fn declined_question_stays_open_and_is_asked_once_per_call() {
    for era in Era::BOTH {
        let person = Person::answering_with(&[None, Some("blue")]);
        let pair = Pair::of(era, with_runs(), &painter().await, person.clone()).await;
        let (text, run) = pair
            .call("run_start", json!({"goal": "Paint the door", "wait_seconds": 60}))
            .await;
        assert!(text.contains("Which colour? (red | blue)"), "{era:?}: {text}");
        // Nobody waits for a person who will not answer.
        let (_, declined) = text.split_once("the person declined to answer:\n").unwrap();
        assert!(declined.ends_with(": Which colour?"), "{era:?}: {text}");
        assert_eq!(run["declined"].as_array().unwrap().len(), 1, "{era:?}: {run}");
        assert_eq!(person.asked().len(), 1, "{era:?}");
        // Who only looks is not asked.
        pair.call("run_status", json!({"run": "r1"})).await;
        assert_eq!(person.asked().len(), 1, "{era:?}");
        let (text, run) = pair.call("run_status", json!({"run": "r1", "wait_seconds": 60})).await;
        assert_eq!(
            (&run["status"], person.asked().len()),
            (&json!("ok"), 2),
            "{era:?}: {text}"
        );
        pair.end().await;
    }
}

/// A person at the client who answers only when released.
#[derive(Clone, Default)]
struct Slow {
    go_on: Arc<Notify>,
    /// How many forms were shown, and how many were withdrawn.
    forms: Arc<Mutex<(u32, u32)>>,
}

impl ClientHandler for Slow {
    fn get_info(&self) -> ClientConfig {
        Person::answering_with(&[]).get_info()
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        self.forms.lock().unwrap().0 += 1;
        self.go_on.notified().await;
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"answer": "blue"})))
    }

    async fn on_cancelled(&self, _: CancelledNotificationParam, _: NotificationContext<RoleClient>) {
        self.forms.lock().unwrap().1 += 1;
    }
}

#[tokio::test]
async fn unanswered_form_does_not_delay_the_call_and_stays_open() {
    let person = Slow::default();
    let pair = Pair::of(Era::Sessions, with_runs(), &painter().await, person.clone()).await;
    let (text, _) = pair
        .call("run_start", json!({"goal": "Paint the door", "wait_seconds": 1}))
        .await;
    assert!(text.contains("Which colour? (red | blue)"), "{text}");
    // It is before them already.
    pair.call("run_status", json!({"run": "r1", "wait_seconds": 1})).await;
    assert_eq!(*person.forms.lock().unwrap(), (1, 0));
    person.go_on.notify_one();
    let (text, run) = pair.call("run_status", json!({"run": "r1", "wait_seconds": 60})).await;
    assert_eq!(run["status"], "ok", "{text}");
    pair.end().await;
}

#[tokio::test]
async fn form_is_withdrawn_when_another_person_answers_the_question() {
    let (person, runner) = (Slow::default(), painter().await);
    let pair = Pair::of(Era::Sessions, with_runs(), &runner, person.clone()).await;
    let answers = async {
        while person.forms.lock().unwrap().0 == 0 {
            tokio::task::yield_now().await;
        }
        let run = runner.workspace().run(Ref::Handle(RunHandle(1))).await.unwrap().id;
        let node = runner.load(run).await.unwrap().questions()[0].0;
        let ada = Actor::new(Role::Human, "ada");
        runner.answer(run, node, "blue", &ada).await.unwrap();
    };
    let start = pair.call("run_start", json!({"goal": "Paint the door"}));
    let ((text, run), ()) = tokio::join!(start, answers);
    assert_eq!(run["status"], "ok", "{text}");
    while person.forms.lock().unwrap().1 == 0 {
        tokio::task::yield_now().await;
    }
    pair.end().await;
}

#[tokio::test]
async fn blank_answer_leaves_the_question_open() {
    for era in Era::BOTH {
        let person = Person::answering_with(&[Some(" ")]);
        let pair = Pair::of(era, with_runs(), &asker().await, person.clone()).await;
        let (text, _) = pair
            .call("run_start", json!({"goal": "Paint the door", "wait_seconds": 1}))
            .await;
        assert!(text.contains("Which colour?"), "{era:?}: {text}");
        // The form was shown, and what came of it was blank.
        assert_eq!(person.asked().len(), 1, "{era:?}");
        for answer in ["", " \n"] {
            let (_, code) = pair.refused("run_answer", json!({"run": "r1", "answer": answer})).await;
            assert_eq!(code, "arguments_invalid", "{era:?}");
        }
        pair.call("run_answer", json!({"run": "r1", "answer": "blue"})).await;
        let (text, run) = pair.call("run_status", json!({"run": "r1", "wait_seconds": 60})).await;
        assert_eq!(run["status"], "ok", "{era:?}: {text}");
        pair.end().await;
    }
}

/// The server's answer to a request that the client library has no method for.
async fn sent<H: ClientHandler>(pair: &Pair<H>, request: ClientRequest) -> Value {
    json!(pair.client.send_request(request).await.unwrap())
}

async fn task<H: ClientHandler>(pair: &Pair<H>, id: &str) -> Value {
    sent(
        pair,
        ClientRequest::GetTaskRequest(Request::new(GetTaskParams::new(id))),
    )
    .await
}

#[tokio::test]
async fn long_run_is_a_protocol_task_that_requests_input() {
    let mut person = Person::answering_with(&[]);
    person.has_tasks = true;
    let pair = Pair::of(Era::Requests, with_runs(), &painter().await, person.clone()).await;
    let arguments = json!({"goal": "Paint the door"}).as_object().unwrap().clone();
    let request = CallToolRequestParams::new("run_start").with_arguments(arguments);
    let begun = sent(&pair, ClientRequest::CallToolRequest(Request::new(request))).await;
    assert_eq!(begun["resultType"], "task", "{begun}");
    let id = begun["taskId"].as_str().unwrap();
    let asking = loop {
        let task = task(&pair, id).await;
        if task["status"] != "working" {
            break task;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(asking["status"], "input_required", "{asking}");
    let (name, form) = asking["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert!(
        form["params"]["message"].as_str().unwrap().contains("Which colour?"),
        "{form}"
    );
    let responses = [(name.clone(), json!({"action": "accept", "content": {"answer": "blue"}}))];
    let update = UpdateTaskParams::new(id, responses.into_iter().collect());
    sent(&pair, ClientRequest::UpdateTaskRequest(Request::new(update))).await;
    let done = loop {
        let task = task(&pair, id).await;
        if task["status"] == "completed" {
            break task;
        }
        tokio::task::yield_now().await;
    };
    let text = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("r1 [ok]"), "{text}");
    assert_eq!(done["result"]["structuredContent"]["status"], "ok");
    assert!(person.asked().is_empty(), "the task asks, and not the call");
    pair.end().await;
}

#[tokio::test]
async fn protocol_task_can_be_cancelled_and_unknown_ids_are_refused() {
    let mut person = Person::answering_with(&[]);
    person.has_tasks = true;
    let slow = runner().await;
    let pair = Pair::of(Era::Requests, with_runs(), &slow, person).await;
    let arguments = json!({"plan": SLOW}).as_object().unwrap().clone();
    let request = CallToolRequestParams::new("run_start").with_arguments(arguments);
    let begun = sent(&pair, ClientRequest::CallToolRequest(Request::new(request))).await;
    let id = begun["taskId"].as_str().unwrap().to_owned();
    let cancel = ClientRequest::CancelTaskRequest(Request::new(CancelTaskParams::new(&*id)));
    sent(&pair, cancel).await;
    while task(&pair, &id).await["status"] != "cancelled" {
        tokio::task::yield_now().await;
    }
    for (unknown, said) in [
        ("nothing", "\"nothing\" is not a task of this server"),
        (
            "run_01JZZZZZZZZZZZZZZZZZZZZZZZ",
            "there is no run run_01JZZZZZZZZZZZZZZZZZZZZZZZ in this space",
        ),
    ] {
        let request = ClientRequest::GetTaskRequest(Request::new(GetTaskParams::new(unknown)));
        let refused = pair.client.send_request(request).await.unwrap_err();
        let ServiceError::McpError(refused) = refused else {
            panic!("{refused}")
        };
        assert_eq!(refused.code, ErrorCode::INVALID_PARAMS, "{refused}");
        assert!(refused.message.contains(said), "{refused}");
    }
    pair.end().await;
}
