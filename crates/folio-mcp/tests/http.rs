//! A server that is reached by HTTP, made with the official library.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use folio_mcp::{McpSettings, Servers, ToStart};
use folio_model::Secret;
use folio_tools::{FailureKind, Registry};
use serde_json::json;
use support::{add, adder};

/// Starts it behind a guard that wants a token and a header; its address, and what stood in the heads of requests.
async fn serve(is_legacy: bool) -> (String, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let routes = adder(is_legacy).layer(from_fn_with_state(seen, guarded));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(tokio::spawn(async move { axum::serve(listener, routes).await }));
    (url, heads)
}

async fn guarded(State(seen): State<Arc<Mutex<Vec<String>>>>, request: Request, next: Next) -> Response {
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

async fn opened(url: &str, token: &str) -> (Servers, Registry) {
    let settings = McpSettings {
        allow: vec!["*".to_owned()],
        start_s: Some(5),
        answer_bytes: Some(100_000),
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
async fn a_server_is_reached_by_http_with_its_token_and_headers() {
    for is_legacy in [true, false] {
        let (url, heads) = serve(is_legacy).await;
        let (servers, registry) = opened(&url, "sesame").await;
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
async fn an_answer_over_the_limit_is_not_taken_and_named() {
    let (url, _) = serve(false).await;
    let (servers, registry) = opened(&url, "sesame").await;
    let answer = add(&registry, json!({"a": 2, "b": 40, "times": 10_000})).await;
    assert!(answer.is_ok(), "{answer:?}");
    // It may have changed something.
    let error = add(&registry, json!({"a": 2, "b": 40, "times": 60_000}))
        .await
        .error
        .unwrap();
    assert_eq!(error.kind, FailureKind::Unknown, "{error:?}");
    assert!(error.message.contains("`answer_bytes`"), "{error:?}");
    let error = add(&registry, json!({"a": 2, "b": 40, "times": 9_000_000})).await.error;
    let message = error.unwrap().message;
    let said = "longer than the 16777216 bytes that are taken by HTTP in one piece";
    assert!(message.ends_with(said), "{message}");
    servers.close().await;
}

#[tokio::test]
async fn a_server_that_does_not_let_us_in_is_not_there_and_the_token_is_not_told() {
    let (url, _) = serve(true).await;
    let (servers, registry) = opened(&url, "wrong-token").await;
    let problem = servers.problems().next().unwrap().to_string();
    assert!(problem.contains("401") && !problem.contains("wrong-token"), "{problem}");
    assert!(!format!("{servers:?}").contains("wrong-token"));
    let error = add(&registry, json!({"a": 1, "b": 2})).await.error.unwrap();
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Unavailable, "mcp_server_unavailable")
    );
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_said() {
    let (servers, _) = opened("http://127.0.0.1:9/mcp", "sesame").await;
    let problem = servers.problems().next().unwrap().to_string();
    assert!(
        problem.contains("adder") && problem.contains("nothing listens at 127.0.0.1:9"),
        "{problem}"
    );
}
