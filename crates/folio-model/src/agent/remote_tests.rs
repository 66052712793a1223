//! What is sent to an agent on another machine, and what follows from its answers. The agent here is a mock;
//! `tests/a2a/agent.sh` tests one by another author.

use std::collections::VecDeque;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Respond, ResponseTemplate};

use super::super::tests::request;
use super::*;
use crate::model::Message;

/// What it answers to each request after that for its card.
struct QueuedAnswers(Mutex<VecDeque<ResponseTemplate>>, String);

impl Respond for QueuedAnswers {
    fn respond(&self, asked: &wiremock::Request) -> ResponseTemplate {
        if asked.url.path().ends_with("agent-card.json") {
            return ResponseTemplate::new(200).set_body_string(self.1.as_str());
        }
        let answer = self.0.lock().unwrap().pop_front();
        answer.unwrap_or_else(|| ResponseTemplate::new(404))
    }
}

fn card(interfaces: &Value) -> String {
    let card = json!({"name": "mender", "version": "1", "capabilities": {}, "supportedInterfaces": interfaces});
    card.to_string()
}

fn result(result: &Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({"jsonrpc": "2.0", "id": 1, "result": result}))
}

fn refusal(code: i32) -> ResponseTemplate {
    let error = json!({"code": code, "message": "no, and not for the-token"});
    ResponseTemplate::new(200).set_body_json(json!({"jsonrpc": "2.0", "id": 1, "error": error}))
}

fn task(state: &str, more: &Value) -> Value {
    let mut task = json!({"id": "t1", "contextId": "c1", "status": {"state": format!("TASK_STATE_{state}")}});
    for (name, value) in more.as_object().into_iter().flatten() {
        task[name] = value.clone();
    }
    task
}

fn task_saying(state: &str, words: &str) -> Value {
    let mut task = task(state, &json!({}));
    task["status"]["message"] = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": words}]});
    task
}

struct AgentServer {
    server: MockServer,
}

impl AgentServer {
    async fn start(answers: impl IntoIterator<Item = ResponseTemplate>) -> Self {
        let interfaces = json!([
            {"url": "HOUSE/grpc", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "HOUSE/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "clocks"},
        ]);
        Self::with_card(card(&interfaces), answers).await
    }

    async fn with_card(card: String, answers: impl IntoIterator<Item = ResponseTemplate>) -> Self {
        let server = MockServer::start().await;
        let answers = QueuedAnswers(
            Mutex::new(answers.into_iter().collect()),
            card.replace("HOUSE", &server.uri()),
        );
        Mock::given(any()).respond_with(answers).mount(&server).await;
        Self { server }
    }

    fn agent(&self) -> RemoteAgent {
        let settings = AgentSettings {
            grace_s: Some(2),
            output_bytes: Some(10_000),
            ..AgentSettings::of_url(self.server.uri())
        };
        assert_eq!(settings.problem(), None);
        RemoteAgent::new("mender", settings, Some(Secret::new("the-token")), None).unwrap()
    }

    async fn try_reply(&self, place: &Place) -> Result<Reply, ModelError> {
        self.agent().reply_in(&request(), place, &mut |_| {}).await
    }

    /// The methods that were called, and what with.
    async fn calls(&self) -> Vec<(String, Value)> {
        let asked = self.server.received_requests().await.unwrap();
        let calls = asked
            .iter()
            .filter(|asked| asked.method.as_str() == "POST")
            .map(|asked| {
                assert_eq!(asked.headers["authorization"], "Bearer the-token");
                assert_eq!(
                    (asked.url.path(), asked.headers["a2a-version"].to_str().unwrap()),
                    ("/rpc", "1.0")
                );
                let call: Value = asked.body_json().unwrap();
                (call["method"].as_str().unwrap().to_owned(), call["params"].clone())
            });
        calls.collect()
    }

    async fn methods(&self) -> Vec<String> {
        self.calls().await.into_iter().map(|(method, _)| method).collect()
    }
}

#[tokio::test]
async fn remote_agent_gets_the_task_once_and_is_polled_until_done_e9_17() {
    let done = json!({"artifacts": [
        {"artifactId": "a", "parts": [{"text": "Look:"}, {"data": {"notes": "It ticks."}}]},
        {"artifactId": "b", "parts": [{"raw": "aGVsbG8=", "filename": "clock.png"}]},
    ]});
    let house = AgentServer::start([
        result(&json!({"task": task("SUBMITTED", &json!({}))})),
        ResponseTemplate::new(503),
        result(&task("WORKING", &json!({}))),
        result(&task("COMPLETED", &done)),
    ])
    .await;
    let (tells, mut sessions) = mpsc::channel::<NewSession>(1);
    let place = Place {
        sessions: Some(tells),
        ..Place::default()
    };
    let (reply, session) = tokio::join!(house.try_reply(&place), async {
        let session = sessions.recv().await.unwrap();
        session.kept.send(()).unwrap();
        session.id
    });
    let reply = reply.unwrap();
    assert_eq!(
        session, "t1",
        "before it is asked again, the journal has the name of its task"
    );
    let text = "Look:\n{\"notes\":\"It ticks.\"}\n\n[a file clock.png, 5 bytes, which was not kept]";
    assert_eq!(reply.text, text);
    assert_eq!((reply.stop, reply.usage), (StopCause::Done, None));
    let calls = house.calls().await;
    let methods: Vec<&str> = calls.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["SendMessage", "GetTask", "GetTask", "GetTask"]);
    let sent = &calls[0].1;
    assert_eq!(
        sent["message"]["messageId"], "k",
        "the same when the same is given once more"
    );
    assert_eq!(
        (&sent["tenant"], &sent["configuration"]["returnImmediately"]),
        (&json!("clocks"), &json!(true))
    );
    let told = sent["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(
        told.contains("Mend the clock.") && told.contains("JSON Schema"),
        "{told}"
    );
    assert_eq!(calls[1].1["id"], "t1");
}

#[tokio::test]
async fn immediate_remote_answer_is_returned_without_polling_e9_17() {
    let message = json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "It ticks."}]}});
    let house = AgentServer::start([result(&message)]).await;
    assert_eq!(house.try_reply(&Place::default()).await.unwrap().text, "It ticks.");
    let house = AgentServer::start([result(&json!({"task": task_saying("COMPLETED", "It ticks.")}))]).await;
    assert_eq!(house.try_reply(&Place::default()).await.unwrap().text, "It ticks.");
    assert_eq!(house.methods().await, ["SendMessage"]);
}

#[tokio::test]
async fn lone_surrogate_in_remote_answer_becomes_a_replacement_character() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"ticks \ud83c"}]}}}"#;
    let house = AgentServer::start([ResponseTemplate::new(200).set_body_string(answer)]).await;
    assert_eq!(house.try_reply(&Place::default()).await.unwrap().text, "ticks \u{fffd}");
}

#[tokio::test]
async fn resumed_remote_task_is_polled_and_not_sent_again_e9_17() {
    let house = AgentServer::start([
        result(&task("WORKING", &json!({}))),
        result(&task_saying("COMPLETED", "It ticks.")),
    ])
    .await;
    let place = Place {
        session: Some("t1".to_owned()),
        ..Place::default()
    };
    assert_eq!(house.try_reply(&place).await.unwrap().text, "It ticks.");
    assert_eq!(house.methods().await, ["GetTask", "GetTask"]);
    // That it does not know the task does not say what it did.
    let house = AgentServer::start([refusal(-32001)]).await;
    let error = house.try_reply(&place).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unknown);
    assert!(error.message.contains("t1"), "{error}");
}

#[tokio::test]
async fn remote_failures_map_to_error_kinds_with_the_token_redacted_e9_17() {
    use ModelErrorKind as Kind;
    let working = |state: &str| result(&json!({"task": task_saying(state, "which clock, the-token?")}));
    for (answer, kind, words) in [
        (
            working("FAILED"),
            Kind::Failed,
            "it says that it failed: which clock, [key]?",
        ),
        (working("REJECTED"), Kind::Failed, "rejected the task"),
        (working("CANCELED"), Kind::Failed, "cancelled there"),
        (
            refusal(-32601),
            Kind::Invalid,
            "it refuses SendMessage (-32601): no, and not for [key]",
        ),
        (refusal(-32603), Kind::Failed, "it refuses SendMessage (-32603)"),
        (
            ResponseTemplate::new(401),
            Kind::Unauthorised,
            "it denies access (HTTP 401): `token` is missing or wrong",
        ),
        (
            ResponseTemplate::new(307),
            Kind::Invalid,
            "put the right address into `url`",
        ),
        (ResponseTemplate::new(404), Kind::Invalid, "HTTP 404; is `url` right?"),
        (
            result(&json!({"task": task("COMPLETED", &json!({"artifacts": []}))})),
            Kind::Failed,
            "it is done and gave no answer",
        ),
        (
            ResponseTemplate::new(429).insert_header("retry-after", "7"),
            Kind::RateLimited,
            "429",
        ),
        // What it began is unknown.
        (ResponseTemplate::new(500), Kind::Unknown, "500"),
        (
            ResponseTemplate::new(200).set_body_string("<html>"),
            Kind::Unknown,
            "is no JSON-RPC",
        ),
        (
            result(&json!({"answer": 1})),
            Kind::Unknown,
            "does not follow the protocol",
        ),
        (
            ResponseTemplate::new(200).set_body_string("x".repeat(10_001)),
            Kind::Unknown,
            "more than 10000 bytes",
        ),
    ] {
        let house = AgentServer::start([answer]).await;
        let error = house.try_reply(&Place::default()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(words), "{error} lacks {words}");
        assert_eq!(error.retry_after.is_some(), kind == Kind::RateLimited);
        assert_eq!(house.methods().await.len(), 1);
    }
}

#[tokio::test]
async fn remote_task_that_requires_a_login_fails_and_is_cancelled_e9_17() {
    let wants = task_saying("AUTH_REQUIRED", "log in, the-token");
    let working = || result(&json!({"task": task("WORKING", &json!({}))}));
    for answers in [
        vec![result(&json!({"task": wants})), result(&task("CANCELED", &json!({})))],
        vec![working(), result(&wants), result(&task("CANCELED", &json!({})))],
    ] {
        let house = AgentServer::start(answers).await;
        let error = house.try_reply(&Place::default()).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Unauthorised, "{error}");
        assert_eq!(error.message, "it requires a login: log in, [key]");
        assert_eq!(house.methods().await.last().map(String::as_str), Some("CancelTask"));
    }
}

#[tokio::test]
async fn unreadable_remote_poll_is_retried_before_the_task_is_cancelled_e9_17() {
    let working = || result(&json!({"task": task("WORKING", &json!({}))}));
    let odd = || {
        vec![
            refusal(-32603),
            ResponseTemplate::new(404),
            ResponseTemplate::new(200).set_body_string("<html>"),
            result(&json!({"answer": 1})),
        ]
    };
    let done = result(&task(
        "COMPLETED",
        &json!({"artifacts": [{"artifactId": "a", "parts": [{"text": "It ticks."}]}]}),
    ));
    let house = AgentServer::start([vec![working()], odd(), vec![done]].concat()).await;
    assert_eq!(house.try_reply(&Place::default()).await.unwrap().text, "It ticks.");

    let canceled = result(&task("CANCELED", &json!({})));
    let house = AgentServer::start([vec![working()], odd(), vec![refusal(-32603), canceled]].concat()).await;
    let error = house.try_reply(&Place::default()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unknown, "{error}");
    assert!(
        error
            .message
            .starts_with("it is working on t1, and its progress cannot be queried: "),
        "{error}"
    );
    assert!(error.message.ends_with("; it was told to stop"), "{error}");
    assert_eq!(house.methods().await.last().map(String::as_str), Some("CancelTask"));
}

#[tokio::test]
async fn remote_answer_about_another_task_is_not_taken_e9_17() {
    let mut other = task_saying("COMPLETED", "Somebody else's clock.");
    other["id"] = json!("OTHER");
    let house = AgentServer::start([result(&other), result(&task_saying("COMPLETED", "It ticks."))]).await;
    let place = Place {
        session: Some("t1".to_owned()),
        ..Place::default()
    };
    assert_eq!(house.try_reply(&place).await.unwrap().text, "It ticks.");
    assert_eq!(house.methods().await, ["GetTask", "GetTask"]);
}

#[tokio::test]
async fn remote_task_that_asks_for_input_without_a_person_is_cancelled_e9_17() {
    let asks = task_saying("INPUT_REQUIRED", "which clock?");
    let working = || result(&json!({"task": task("WORKING", &json!({}))}));
    for answers in [
        vec![result(&json!({"task": asks})), result(&task("CANCELED", &json!({})))],
        vec![working(), result(&asks), result(&task("CANCELED", &json!({})))],
    ] {
        let house = AgentServer::start(answers).await;
        let error = house.try_reply(&Place::default()).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Failed);
        assert!(
            error.message.contains("nobody is there to answer it: which clock?"),
            "{error}"
        );
        assert_eq!(house.methods().await.last().map(String::as_str), Some("CancelTask"));
    }
}

/// The request that follows the one answered with `asked`, after a person has answered `answer`.
fn request_after(asked: &Reply, answer: &str) -> Request {
    let mut request = request();
    let said = |speaker, text: &str, tool_calls, answers| Message {
        speaker,
        text: text.to_owned(),
        tool_calls,
        answers,
    };
    let id = asked.tool_calls[0].id.clone();
    let asked = said(Speaker::Assistant, "", asked.tool_calls.clone(), None);
    request
        .messages
        .extend([asked, said(Speaker::Tool, answer, Vec::new(), Some(id))]);
    request.idempotency_key = "k2".to_owned();
    request
}

#[tokio::test]
async fn person_answers_are_sent_to_the_waiting_remote_task_e9_17() {
    let place = Place {
        has_person: true,
        ..Place::default()
    };
    let long = format!("which {} clock?", "very ".repeat(200));
    let house = AgentServer::start([
        result(&json!({"task": task_saying("INPUT_REQUIRED", &long)})),
        result(&json!({"task": task_saying("INPUT_REQUIRED", " ")})),
        result(&json!({"task": task("WORKING", &json!({}))})),
        result(&task_saying("COMPLETED", "It ticks.")),
    ])
    .await;
    let asked = house.try_reply(&place).await.unwrap();
    let call = ToolCall {
        id: "t1/1".to_owned(),
        tool: "ask_person".to_owned(),
        args: json!({"question": long}),
    };
    assert_eq!(asked.tool_calls, [call], "nothing of it is cut");
    assert_eq!((asked.stop, asked.text.as_str()), (StopCause::ToolCalls, ""));
    // The id of the task is in the journal before the agent is told anything more.
    let (tells, mut sessions) = mpsc::channel::<NewSession>(1);
    let told = Place {
        sessions: Some(tells),
        ..place.clone()
    };
    let (agent, request) = (house.agent(), request_after(&asked, "the tall one"));
    let mut unheard = |_| {};
    let (again, asked_until) = tokio::join!(agent.reply_in(&request, &told, &mut unheard), async {
        let session = sessions.recv().await.unwrap();
        let asked_until = house.methods().await.len();
        session.kept.send(()).unwrap();
        asked_until
    });
    let again = again.unwrap();
    assert_eq!(asked_until, 1);
    assert_eq!(
        again.tool_calls[0].args["question"],
        "It asks for something, and does not say what."
    );
    let mut last = request_after(&again, "all of them");
    last.messages.splice(2..2, request.messages[2..].iter().cloned());
    let asked = agent.reply_in(&last, &place, &mut |_| {}).await.unwrap();
    assert_eq!(asked.text, "It ticks.");
    let calls = house.calls().await;
    let told = |at: usize| {
        let message = &calls[at].1["message"];
        let text = message["parts"][0]["text"].as_str().unwrap();
        (text, message["taskId"].as_str(), message["messageId"].as_str().unwrap())
    };
    assert_eq!(told(1), ("the tall one", Some("t1"), "k2"));
    assert_eq!(told(2).0, "all of them");
    assert_eq!(told(0).1, None);
}

#[tokio::test]
async fn person_answer_is_resent_only_if_the_question_is_still_open_e9_17() {
    let asks = |words: &str| result(&task_saying("INPUT_REQUIRED", words));
    let ticks = || result(&task_saying("COMPLETED", "It ticks."));
    let first = AgentServer::start([asks("which clock?")]).await;
    let place = Place {
        has_person: true,
        session: Some("t1".to_owned()),
        ..Place::default()
    };
    let asked = first.try_reply(&place).await.unwrap();
    let request = request_after(&asked, "the tall one");
    for (answers, methods) in [
        // The driver died before it sent the answer: it is sent.
        (
            vec![
                asks("which clock?"),
                result(&json!({"task": task("WORKING", &json!({}))})),
                ticks(),
            ],
            &["GetTask", "SendMessage", "GetTask"][..],
        ),
        // Or after that: the agent is polled for the result.
        (
            vec![result(&task("WORKING", &json!({}))), ticks()],
            &["GetTask", "GetTask"],
        ),
        (vec![asks("and which hand?")], &["GetTask"]),
    ] {
        let house = AgentServer::start(answers).await;
        let reply = house.agent().reply_in(&request, &place, &mut |_| {}).await.unwrap();
        assert_eq!(house.methods().await, methods);
        let asks_anew = methods.len() == 1;
        assert_eq!(reply.tool_calls.len(), usize::from(asks_anew));
        if asks_anew {
            assert_eq!(reply.tool_calls[0].id, "t1/2");
        }
    }
}

#[tokio::test]
async fn calling_off_a_question_cancels_its_remote_task_e9_17() {
    let house = AgentServer::start([result(&task("CANCELED", &json!({})))]).await;
    house.agent().call_off("t1/1").await;
    house.agent().call_off("none of its own").await;
    let calls = house.calls().await;
    assert_eq!(calls.len(), 1);
    assert_eq!((calls[0].0.as_str(), &calls[0].1["id"]), ("CancelTask", &json!("t1")));
}

#[tokio::test]
async fn agent_card_must_stay_on_its_server_and_offer_jsonrpc_e9_17() {
    let interface = |url: &str, binding: &str, version: &str| json!([{"url": url, "protocolBinding": binding, "protocolVersion": version}]);
    for (card, words) in [
        (
            card(&interface("https://elsewhere.example/rpc", "JSONRPC", "1.0")),
            "points to another server, https://elsewhere.example",
        ),
        (
            card(&interface("HOUSE/rpc", "JSONRPC", "0.3.0")),
            "no interface JSONRPC of a version 1.x",
        ),
        (
            card(&interface("HOUSE/rpc", "HTTP+JSON", "1.0")),
            "no interface JSONRPC",
        ),
        (
            json!({"url": "HOUSE", "protocolVersion": "0.3.0"}).to_string(),
            "not a card of Agent2Agent 1.0",
        ),
    ] {
        let house = AgentServer::with_card(card, []).await;
        let error = house.try_reply(&Place::default()).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Invalid, "{error}");
        assert!(error.message.contains(words), "{error} lacks {words}");
        assert!(house.methods().await.is_empty(), "it was given nothing");
    }
    let nobody = AgentSettings::of_url("http://127.0.0.1:1");
    let agent = RemoteAgent::new("mender", nobody, None, None).unwrap();
    let error = agent.reply(&request(), &mut |_| {}).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unreached, "{error}");
    // A failure before it is given the task has used up nothing.
    for status in [500, 503] {
        let server = MockServer::start().await;
        let away = Mock::given(any()).respond_with(ResponseTemplate::new(status));
        away.mount(&server).await;
        let agent = RemoteAgent::new("mender", AgentSettings::of_url(server.uri()), None, None).unwrap();
        let error = agent.reply(&request(), &mut |_| {}).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Unreached, "{error}");
    }
}

#[tokio::test]
async fn stopped_or_timed_out_remote_task_is_cancelled_remotely_e9_11() {
    let stop = CancellationToken::new();
    let (tells, mut sessions) = mpsc::channel::<NewSession>(1);
    let place = Place {
        stop: stop.clone(),
        sessions: Some(tells),
        ..Place::default()
    };
    let working = || result(&json!({"task": task("WORKING", &json!({}))}));
    let house = AgentServer::start([working(), result(&task("CANCELED", &json!({})))]).await;
    let (stopped, _session) = tokio::join!(house.try_reply(&place), async {
        // It is stopped while it waits for the journal.
        let session = sessions.recv().await.unwrap();
        stop.cancel();
        session
    });
    let error = stopped.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unknown, "{error}");
    assert_eq!(house.methods().await, ["SendMessage", "CancelTask"]);

    let house = AgentServer::start([working()]).await;
    let mut agent = house.agent();
    agent.settings.time_s = Some(1);
    let never = vec![result(&task("WORKING", &json!({}))); 20];
    let house = AgentServer::start(std::iter::once(working()).chain(never)).await;
    agent.url = house.server.uri();
    let error = agent.reply(&request(), &mut |_| {}).await.unwrap_err();
    assert!(error.message.contains("longer than 1 s"), "{error}");
    assert_eq!(house.methods().await.last().map(String::as_str), Some("CancelTask"));
}

#[test]
fn agent_settings_refuse_mixed_program_and_remote_options() {
    let program = AgentSettings::new(vec!["mender".to_owned()], super::super::AgentForm::Text);
    for (settings, words) in [
        (
            AgentSettings {
                url: Some("https://x".to_owned()),
                ..program.clone()
            },
            "form a2a",
        ),
        (
            AgentSettings {
                token: Some("T".to_owned()),
                ..program.clone()
            },
            "form a2a",
        ),
        (AgentSettings::of_url("x"), "`url` must begin with"),
        (
            AgentSettings {
                command: program.command,
                ..AgentSettings::of_url("https://x")
            },
            "for programs",
        ),
        (
            AgentSettings {
                folder: Some(".".to_owned()),
                ..AgentSettings::of_url("https://x")
            },
            "for programs",
        ),
        (
            AgentSettings {
                token: Some("T".to_owned()),
                token_file: Some("t".into()),
                ..AgentSettings::of_url("https://x")
            },
            "either a `token` or a `token_file`",
        ),
    ] {
        let problem = settings.problem().unwrap_or_default();
        assert!(problem.contains(words), "{problem} lacks {words}");
    }
    let bad = RemoteAgent::new("x", AgentSettings::of_url("https://x"), Some(Secret::new("a\nb")), None);
    assert!(bad.unwrap_err().contains("token"), "nothing of it is told");
}
