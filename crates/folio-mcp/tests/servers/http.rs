//! A server over HTTP, built with the official library.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::support::{add, adder, adder_of};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use folio_mcp::{McpSettings, Servers, ToStart};
use folio_model::Secret;
use folio_tools::{Effect, FailureKind, Registry};
use serde_json::json;

/// Starts the server behind a guard that requires a token and a header; returns its address, and the heads of
/// requests.
async fn start_guarded_server(is_legacy: bool) -> (String, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let routes = adder(is_legacy).layer(from_fn_with_state(seen, require_token));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(tokio::spawn(async move { axum::serve(listener, routes).await }));
    (url, heads)
}

async fn require_token(State(seen): State<Arc<Mutex<Vec<String>>>>, request: Request, next: Next) -> Response {
    let heads = ["authorization", "x-tenant"].map(|name| {
        let value = request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned());
        value.unwrap_or_default()
    });
    let is_let_in = heads[0] == "Bearer sesame";
    seen.lock().unwrap().push(heads.join(" "));
    if is_let_in {
        next.run(request).await
    } else {
        http::StatusCode::UNAUTHORIZED.into_response()
    }
}

async fn open_server(url: &str, token: &str) -> (Servers, Registry) {
    open_server_with_effect(url, token, None).await
}

/// Opens the server with tools of this `effect`; without it, nothing is known about their effect.
async fn open_server_with_effect(url: &str, token: &str, effect: Option<Effect>) -> (Servers, Registry) {
    let settings = McpSettings {
        allow: vec!["*".to_owned()],
        start_s: Some(5),
        answer_bytes: Some(100_000),
        effects: effect.map(|effect| ("add".to_owned(), effect)).into_iter().collect(),
        ..McpSettings::of_url(url)
    };
    let servers = Servers::open(vec![ToStart {
        name: "adder".to_owned(),
        settings,
        environment: Vec::new(),
        folder: "/".into(),
        headers: vec![("x-tenant".to_owned(), Secret::new("seven"))],
        token: Some(Secret::new(token)),
        login: None,
        unusable: None,
    }])
    .await;
    let mut registry = Registry::empty();
    servers.register_in(&mut registry);
    (servers, registry)
}

#[tokio::test]
async fn http_server_is_called_with_its_token_and_headers() {
    for is_legacy in [true, false] {
        let (url, heads) = start_guarded_server(is_legacy).await;
        let (servers, registry) = open_server(&url, "sesame").await;
        assert_eq!(servers.problems().next(), None);
        // A template makes texts of numbers.
        let answer = add(&registry, json!({"a": "2", "b": 40})).await;
        assert_eq!(answer.outputs, json!({"text": "42"}), "{answer:?}");
        servers.close().await;
        let heads = heads.lock().unwrap();
        assert!(
            !heads.is_empty() && heads.iter().all(|head| head == "Bearer sesame seven"),
            "{heads:?}"
        );
    }
}

#[tokio::test]
async fn http_answer_over_the_limit_is_refused_naming_the_limit() {
    let (url, _) = start_guarded_server(false).await;
    let (servers, registry) = open_server(&url, "sesame").await;
    let answer = add(&registry, json!({"a": 2, "b": 40, "times": 10_000})).await;
    assert_eq!(answer.outputs["text"].as_str().map(str::len), Some(20_000));
    // It may have changed something.
    let error = add(&registry, json!({"a": 2, "b": 40, "times": 60_000}))
        .await
        .error
        .unwrap();
    assert_eq!(error.kind, FailureKind::Unknown, "{error:?}");
    assert!(error.message.contains("`answer_bytes`"), "{error:?}");
    let error = add(&registry, json!({"a": 2, "b": 40, "times": 9_000_000})).await.error;
    let message = error.unwrap().message;
    let said = "longer than the 16777216 bytes that are accepted over HTTP in one piece";
    assert!(message.ends_with(said), "{message}");
    servers.close().await;
}

#[tokio::test]
async fn event_over_the_limit_is_refused_without_a_retry_naming_the_limit() {
    for (effect, code) in [(Effect::Read, "output_too_large"), (Effect::Opaque, "outcome_unknown")] {
        let (url, front) = FakeProxy::before_adder().await;
        let (servers, registry) = open_server_with_effect(&url, "sesame", Some(effect)).await;
        let error = add(&registry, json!({"a": 2, "b": 40, "times": 60_000})).await.error;
        let error = error.unwrap();
        assert_eq!(error.code, code, "{error:?}");
        let said = "its answer is longer than 100000 bytes (`answer_bytes`)";
        assert!(error.message.ends_with(said), "{error:?}");
        assert_eq!(front.calls(), 1, "another answer would be as long");
        let answer = add(&registry, json!({"a": 2, "b": 40})).await;
        assert_eq!(answer.outputs, json!({"text": "42"}), "{answer:?}");
        servers.close().await;
    }
}

#[tokio::test]
async fn rejected_token_makes_the_server_unavailable_and_is_not_revealed() {
    let (url, _) = start_guarded_server(true).await;
    let (servers, registry) = open_server(&url, "wrong-token").await;
    let problem = servers.problems().next().unwrap().to_string();
    assert!(problem.contains("401") && !problem.contains("wrong-token"), "{problem}");
    assert!(!format!("{servers:?}").contains("wrong-token"));
    let error = add(&registry, json!({"a": 1, "b": 2})).await.error.unwrap();
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Unavailable, "mcp_server_unavailable")
    );
    assert!(
        error.message.contains("401") && !format!("{error:?}").contains("wrong-token"),
        "{error:?}"
    );
}

#[tokio::test]
async fn refused_connection_is_reported_with_its_address() {
    let (servers, _) = open_server("http://127.0.0.1:9/mcp", "sesame").await;
    let problem = servers.problems().next().unwrap().to_string();
    assert!(
        problem.contains("adder") && problem.contains("nothing listens at 127.0.0.1:9"),
        "{problem}"
    );
}

/// A proxy before a server that answers calls in its place, and forgets its sessions.
#[derive(Clone, Default)]
struct FakeProxy {
    /// The server's description of a number.
    first: Arc<Mutex<&'static str>>,
    /// The answer to each call of a tool, and how long to wait.
    refusal: Arc<Mutex<Option<(u16, &'static str)>>>,
    /// How many tool calls arrived.
    calls: Arc<Mutex<usize>>,
    /// The sessions, and those that are no longer known.
    sessions: Arc<Mutex<[BTreeSet<String>; 2]>>,
}

impl FakeProxy {
    /// Starts the proxy before a server with sessions, and returns its address, too.
    async fn before_adder() -> (String, Self) {
        let front = Self::default();
        let server = adder_of(Arc::clone(&front.first), true);
        let routes = server.layer(from_fn_with_state(front.clone(), pass_or_refuse));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        drop(tokio::spawn(async move { axum::serve(listener, routes).await }));
        (url, front)
    }

    fn refuse(&self, status: u16, retry_after: &'static str) {
        *self.refusal.lock().unwrap() = Some((status, retry_after));
        *self.calls.lock().unwrap() = 0;
    }

    fn forget_sessions(&self) {
        let [known, forgotten] = &mut *self.sessions.lock().unwrap();
        forgotten.append(known);
        *self.calls.lock().unwrap() = 0;
    }

    fn calls(&self) -> usize {
        *self.calls.lock().unwrap()
    }

    fn refusal_for(&self, session: Option<String>, body: &str) -> Option<Response> {
        // Only the revision before has sessions.
        if body.contains("\"server/discover\"") {
            return Some(http::StatusCode::BAD_REQUEST.into_response());
        }
        let is_call = body.contains("\"tools/call\"");
        *self.calls.lock().unwrap() += usize::from(is_call);
        if let Some(session) = session {
            let [known, forgotten] = &mut *self.sessions.lock().unwrap();
            if forgotten.contains(&session) {
                return Some(http::StatusCode::NOT_FOUND.into_response());
            }
            known.insert(session);
        }
        let (status, seconds) = self.refusal.lock().unwrap().filter(|_| is_call)?;
        let status = http::StatusCode::from_u16(status).unwrap();
        Some((status, [("retry-after", seconds)], "no").into_response())
    }
}

async fn pass_or_refuse(State(front): State<FakeProxy>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let session = head.headers.get("mcp-session-id");
    let session = session.map(|session| session.to_str().unwrap().to_owned());
    match front.refusal_for(session, &String::from_utf8_lossy(&body)) {
        Some(refusal) => refusal,
        None => next.run(Request::from_parts(head, Body::from(body))).await,
    }
}

#[tokio::test]
async fn http_status_decides_if_a_call_outcome_is_unknown_e9_12() {
    let (url, front) = FakeProxy::before_adder().await;
    let (servers, registry) = open_server(&url, "sesame").await;
    for status in [400, 401, 403, 413, 429] {
        front.refuse(status, "");
        let error = add(&registry, json!({"a": 1, "b": 2})).await.error.unwrap();
        assert_eq!(error.code, "mcp_server_unavailable", "{status}: {error:?}");
        assert!(error.message.contains(&status.to_string()), "{error:?}");
        assert_eq!(front.calls(), 1);
    }
    for status in [408, 500, 503] {
        front.refuse(status, "");
        let error = add(&registry, json!({"a": 1, "b": 2})).await.error.unwrap();
        assert_eq!(error.code, "outcome_unknown", "{status}: {error:?}");
        assert_eq!(front.calls(), 1);
    }
    servers.close().await;
}

#[tokio::test]
async fn retry_after_beyond_the_time_limit_prevents_a_retry() {
    let (url, front) = FakeProxy::before_adder().await;
    let (servers, registry) = open_server_with_effect(&url, "sesame", Some(Effect::Read)).await;
    front.refuse(503, "99999999999");
    let error = add(&registry, json!({"a": 1, "b": 2})).await.error.unwrap();
    assert_eq!(error.code, "mcp_server_unavailable", "{error:?}");
    assert!(error.message.contains("left alone for 99999999999 s"), "{error:?}");
    assert_eq!(front.calls(), 1);
    servers.close().await;
}

#[tokio::test]
async fn tool_that_changed_since_the_last_session_is_not_called_e9_14() {
    let (url, front) = FakeProxy::before_adder().await;
    let (servers, registry) = open_server(&url, "sesame").await;
    // However often sessions end, nothing is wrong with the server.
    for _ in 0..6 {
        front.forget_sessions();
        let answer = add(&registry, json!({"a": 2, "b": 40})).await;
        assert_eq!(answer.outputs, json!({"text": "42"}), "{answer:?}");
    }
    *front.first.lock().unwrap() = "what is to be deleted";
    front.forget_sessions();
    let error = add(&registry, json!({"a": 2, "b": 40})).await.error.unwrap();
    assert_eq!(error.code, "mcp_tools_changed", "{error:?}");
    assert_eq!(front.calls(), 1, "only in the session that had ended");
    servers.close().await;
}
