use folio::memory::tokens::for_model;
use folio::runner::{Runner, RunnerOptions};
use folio::tools::{ArgKind, Effect, Registry, ToolResponse, ToolSpec};
use folio::{Actor, Folio, Role, ThreadKey};
use futures_util::{FutureExt as _, StreamExt as _};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::*;
use crate::http::{Access, Limits, Metrics, guarded};
use crate::mcp::{McpOptions, ToolSet};

/// The endpoint behind the guard, without a connection.
#[derive(Clone)]
struct Endpoint {
    router: TowerToHyperService<Router>,
    /// The calls of the tool `sleep` that have begun.
    called: Arc<Semaphore>,
}

impl Endpoint {
    /// An endpoint whose runs can call the tool `sleep`, which takes as many seconds as it is told.
    async fn new() -> Self {
        let mut registry = Registry::with_builtins();
        let spec = ToolSpec::new("sleep", Effect::Read, "sleeps").required("s", ArgKind::Count, "seconds");
        let called = Arc::new(Semaphore::new(0));
        let tells = Arc::clone(&called);
        registry.register_fn(spec, move |request, _| {
            let tells = Arc::clone(&tells);
            async move {
                let seconds = request.args["s"].as_u64().unwrap_or_default();
                let slept = tokio::time::sleep(Duration::from_secs(seconds));
                tells.add_permits(1);
                slept.await;
                Ok(ToolResponse::ok(&request, json!("slept"), ""))
            }
        });
        let workspace = Folio::open("memory:").await.unwrap().workspace(SpaceName::main());
        let runner = Runner::new(workspace, registry, RunnerOptions::default());
        let mut options = McpOptions::of(ThreadKey::main());
        options.tokens = for_model("");
        options.sets = vec![ToolSet::Run];
        let mcp = Mcp::new(runner.clone(), options);
        let routes = routes(mcp, Spaces::of(runner.clone()), false, CancellationToken::new());
        let access = Access::new(runner, Some(Actor::new(Role::Human, "")), 1_000);
        let router = guarded(
            routes,
            Router::new(),
            access,
            Limits::for_tests(),
            Metrics::new(false, false),
        );
        Self {
            router: TowerToHyperService::new(router),
            called,
        }
    }

    /// Lets `seconds` pass once the tool `sleep` has been called.
    async fn pass_in_call(&self, seconds: u64) {
        self.called.acquire().await.unwrap().forget();
        pass(seconds).await;
    }

    async fn send(&self, method: Method, headers: &[(&str, &str)], body: String) -> Response {
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).unwrap();
        self.router.call(request).await.unwrap()
    }

    /// Begins a session and returns its id.
    async fn begin(&self) -> String {
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}});
        let began = self.send(Method::POST, &[], initialize.to_string()).await;
        let session = began.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        assert_eq!(message(began).await["result"]["serverInfo"]["name"], "folio");
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let told = self.in_session(&session, Method::POST, told.to_string()).await;
        assert_eq!(told.status(), StatusCode::ACCEPTED);
        session
    }

    async fn in_session(&self, session: &str, method: Method, body: String) -> Response {
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
        self.send(method, &headers, body).await
    }

    /// Returns the status of the answer to a ping in `session`, and the code of the problem if it is one.
    async fn ping(&self, session: &str) -> (u16, Value) {
        let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}).to_string();
        let answer = self.in_session(session, Method::POST, ping).await;
        (answer.status().as_u16(), message(answer).await["code"].clone())
    }
}

/// The message in an answer: JSON, or the last one of a stream.
async fn message(answer: Response) -> Value {
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let data = text.lines().rev().find_map(|line| line.strip_prefix("data: {"));
    let data = data.map_or(text.clone(), |rest| format!("{{{rest}"));
    serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Lets `seconds` pass at once. Otherwise time passes as usual: a clock that goes on whenever nothing is to be done
/// here would not wait for the thread of the store.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
    tokio::time::resume();
}

fn run_start(seconds: u64, wait_seconds: u64) -> Value {
    let plan = json!({"title": "Long", "steps": [{"id": "a", "do": {"tool": "sleep", "args": {"s": seconds}}}]});
    json!({"name": "run_start", "arguments": {"plan": plan, "wait_seconds": wait_seconds}})
}

#[tokio::test]
async fn sessionless_run_start_may_wait_as_long_as_it_asks() {
    let endpoint = Endpoint::new().await;
    let mut params = run_start(500, 600);
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "run_start"),
    ];
    let answer = endpoint.send(Method::POST, &headers, call.to_string());
    let (answer, ()) = tokio::join!(answer, async {
        endpoint.pass_in_call(35).await;
        pass(470).await;
    });
    assert_eq!(answer.status(), StatusCode::OK);
    let answer = message(answer).await;
    assert_eq!(answer["result"]["structuredContent"]["status"], "ok", "{answer}");
}

#[tokio::test]
async fn session_with_a_waiting_request_stays_open() {
    let endpoint = Endpoint::new().await;
    let session = endpoint.begin().await;
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": run_start(400, 500)});
    let answer = endpoint.in_session(&session, Method::POST, call.to_string()).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let (answer, ()) = tokio::join!(message(answer), async {
        endpoint.pass_in_call(360).await;
        pass(50).await;
    });
    assert_eq!(answer["result"]["structuredContent"]["status"], "ok", "{answer}");
    assert_eq!(endpoint.ping(&session).await, (200, Value::Null));
}

#[tokio::test]
async fn session_with_an_open_stream_stays_open() {
    let endpoint = Endpoint::new().await;
    let session = endpoint.begin().await;
    let stream = endpoint.in_session(&session, Method::GET, String::new()).await;
    assert_eq!(stream.status(), StatusCode::OK);
    let mut parts = stream.into_body().into_data_stream();
    for _ in 0..3 {
        pass(360).await;
        // What comes meanwhile keeps the connection alive.
        while let Some(part) = parts.next().now_or_never() {
            assert!(part.is_some(), "it has no end");
        }
    }
    assert_eq!(endpoint.ping(&session).await, (200, Value::Null));
    drop(parts);
    pass(299).await;
    assert_eq!(endpoint.ping(&session).await, (200, Value::Null));
}

#[tokio::test]
async fn unused_session_ends_after_five_minutes() {
    let endpoint = Endpoint::new().await;
    let session = endpoint.begin().await;
    for _ in 0..3 {
        pass(299).await;
        assert_eq!(endpoint.ping(&session).await, (200, Value::Null));
    }
    pass(301).await;
    assert_eq!(endpoint.ping(&session).await, (404, json!("not_found")));
}

#[tokio::test]
async fn sessions_that_begin_at_once_stay_within_the_limit() {
    let endpoint = Endpoint::new().await;
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}});
    let begin = || {
        let (endpoint, initialize) = (endpoint.clone(), initialize.to_string());
        async move { endpoint.send(Method::POST, &[], initialize).await.status() }
    };
    let statuses = futures_util::future::join_all((0..300).map(|_| begin())).await;
    let begun = statuses.iter().filter(|status| **status == StatusCode::OK).count();
    let refused = statuses
        .iter()
        .filter(|status| **status == StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((begun, refused.count()), (256, 44));
}
