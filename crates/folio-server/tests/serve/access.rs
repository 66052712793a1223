//! Access: with a token, and without one.

use std::net::SocketAddr;

use folio::store::{AccessToken, KeptToken};
use folio::{Actor, ObservationInput, Role};
use folio_server::{McpOptions, ServeOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{self, Answer};
use crate::house::{House, assert_problem};

/// Requests any path, with a token if there is one, under a host name other than this machine's.
async fn ask(house: &House, method: &str, path: &str, token: Option<&str>, body: Option<Value>) -> Answer {
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let first = format!("{method} {path} HTTP/1.1");
    let length = format!("Content-Length: {}", body.len());
    let shown = token.map(|token| format!("Authorization: Bearer {token}"));
    let mut lines = vec![first.as_str(), "Host: memory.example", "Connection: close", &length];
    lines.extend([
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
    ]);
    lines.extend(shown.as_deref());
    // Whoever listens everywhere is reached at the loopback address, too.
    client::send(SocketAddr::from(([127, 0, 0, 1], house.address.port())), &lines, &body).await
}

const LIST: &str = "/v1/spaces/main/observations";

async fn open_to_all(role: Role) -> (House, String) {
    let runner = House::runner().await;
    let (token, _) = House::token(&runner, "main", role).await;
    let options = ServeOptions::at("0.0.0.0:0".parse().unwrap());
    let mcp = McpOptions::of(folio::ThreadKey::main());
    let house = House::serving(runner, Some(mcp), options).await;
    (house, token.reveal().to_owned())
}

#[tokio::test]
async fn public_address_requires_a_valid_token() {
    let (house, token) = open_to_all(Role::Human).await;
    for path in [
        LIST,
        "/v1/spaces/main/export",
        "/v1/spaces",
        "/readyz",
        "/mcp",
        "/nothing",
    ] {
        let refused = ask(&house, "GET", path, None, None).await;
        assert_problem(&refused, 401, "token_missing");
        assert!(refused.header("www-authenticate").starts_with("Bearer"), "{refused:?}");
        let unknown = AccessToken::draw();
        let refused = ask(&house, "GET", path, Some(unknown.reveal()), None).await;
        assert_problem(&refused, 401, "token_invalid");
        assert!(!refused.body.contains(unknown.reveal()));
    }
    assert_eq!(ask(&house, "GET", "/healthz", None, None).await.status, 200);
    let added = ask(&house, "POST", LIST, Some(&token), Some(json!({"content": "x"}))).await;
    assert_eq!((added.status, &added.json()["trust"]), (201, &json!("user")));
    assert_eq!(ask(&house, "GET", "/readyz", Some(&token), None).await.status, 200);
}

#[tokio::test]
async fn ui_and_docs_need_no_token_and_reveal_no_memory() {
    let (house, token) = open_to_all(Role::Client).await;
    let kept = ask(
        &house,
        "POST",
        LIST,
        Some(&token),
        Some(json!({"content": "between us"})),
    )
    .await;
    assert_eq!(kept.status, 201, "{kept:?}");
    for path in ["/", "/runs/r1", "/observations", "/ui/app.js", "/docs", "/openapi.json"] {
        let page = ask(&house, "GET", path, None, None).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.body.contains("between us"), "{path}");
    }
    let spaces = ask(&house, "GET", "/v1/spaces", Some(&token), None).await.json();
    assert_eq!(
        spaces["items"],
        json!([{"space": "main", "role": "client", "name": "ci"}])
    );
    let to = SocketAddr::from(([127, 0, 0, 1], house.address.port()));
    let lost = [
        "GET /nothing HTTP/1.1",
        "Host: memory.example",
        "Connection: close",
        "Accept: text/html",
    ];
    let lost = client::send(to, &lost, "").await;
    assert_eq!(
        (lost.status, lost.header("content-type")),
        (404, "text/html; charset=utf-8")
    );
    // That an address is for programs is no reason to answer without a token.
    let path = format!("GET {LIST} HTTP/1.1");
    let known = [
        path.as_str(),
        "Host: memory.example",
        "Connection: close",
        "Accept: text/html",
    ];
    assert_problem(&client::send(to, &known, "").await, 401, "token_missing");
}

#[tokio::test]
async fn token_is_refused_in_another_space() {
    let runner = House::runner().await;
    // One of any space is enough to listen everywhere.
    let (other, _) = House::token(&runner, "other", Role::Human).await;
    let house = House::serving(runner, None, ServeOptions::at("0.0.0.0:0".parse().unwrap())).await;
    assert_problem(
        &ask(&house, "GET", LIST, Some(other.reveal()), None).await,
        403,
        "token_of_another_space",
    );
    let (house, token) = open_to_all(Role::Human).await;
    let path = "/v1/spaces/other/observations";
    assert_problem(
        &ask(&house, "GET", path, Some(&token), None).await,
        403,
        "token_of_another_space",
    );
}

#[tokio::test]
async fn revoked_token_is_refused_immediately() {
    let runner = House::runner().await;
    let (token, mut kept) = House::token(&runner, "main", Role::Human).await;
    let house = House::serving(runner, None, ServeOptions::at("0.0.0.0:0".parse().unwrap())).await;
    assert_eq!(ask(&house, "GET", LIST, Some(token.reveal()), None).await.status, 200);
    kept.revoked_at = Some(house.workspace().now());
    house.workspace().store().keep_token(kept).await.unwrap();
    assert_problem(
        &ask(&house, "GET", LIST, Some(token.reveal()), None).await,
        401,
        "token_invalid",
    );
}

/// Begins to read an event stream; returns what was received until the server closed it, once `then` is done.
async fn read_stream_until_closed(house: &House, path: &str, token: &AccessToken, then: impl AsyncFnOnce()) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", house.address.port())).await.unwrap();
    let reveal = token.reveal();
    let head = format!("GET {path} HTTP/1.1\r\nHost: memory.example\r\nAuthorization: Bearer {reveal}\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut text = Vec::new();
    // It is open when the headers are there.
    while !text.windows(4).any(|end| end == b"\r\n\r\n") {
        socket.read_buf(&mut text).await.unwrap();
    }
    then().await;
    // An empty part is the end.
    while !text.ends_with(b"\r\n0\r\n\r\n") {
        assert_ne!(socket.read_buf(&mut text).await.unwrap(), 0, "it broke off");
        let said = String::from_utf8_lossy(&text);
        assert!(said.matches("event: problem").count() <= 1, "it is said once: {said}");
    }
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("token_invalid"), "it ended without a word: {text}");
    text
}

#[tokio::test]
async fn space_event_stream_ends_when_its_token_is_revoked() {
    let runner = House::runner().await;
    let (token, kept) = House::token(&runner, "main", Role::Human).await;
    let house = House::serving(runner, None, ServeOptions::at("0.0.0.0:0".parse().unwrap())).await;
    let workspace = house.workspace();
    let add = async |content: &str| {
        let input = ObservationInput::from_json(&json!({"content": content})).unwrap();
        let actor = Actor::new(Role::Human, "ada");
        workspace.add_observation(&actor, input, None).await.unwrap();
    };
    let take_back = async || {
        add("first").await;
        let revoked_at = Some(workspace.now());
        let kept = KeptToken { revoked_at, ..kept };
        workspace.store().keep_token(kept).await.unwrap();
        add("between us").await;
    };
    let text = read_stream_until_closed(&house, "/v1/spaces/main/events", &token, take_back).await;
    assert!(!text.contains("between us"), "{text}");
}

#[tokio::test]
async fn revoking_a_token_ends_its_run_stream_with_one_problem() {
    let runner = House::runner().await;
    let (token, kept) = House::token(&runner, "main", Role::Human).await;
    let house = House::serving(runner, None, ServeOptions::at("0.0.0.0:0".parse().unwrap())).await;
    let workspace = house.workspace();
    let run = house
        .submit("steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]")
        .await;
    let take_back = async || {
        let revoked_at = Some(workspace.now());
        let kept = KeptToken { revoked_at, ..kept };
        workspace.store().keep_token(kept).await.unwrap();
        house
            .runner
            .cancel(run, None, &Actor::new(Role::Human, "ada"))
            .await
            .unwrap();
    };
    let text = read_stream_until_closed(&house, &format!("/v1/spaces/main/runs/{run}/events"), &token, take_back).await;
    assert!(!text.contains("cancel_requested"), "{text}");
}

#[tokio::test]
async fn only_people_may_replace_the_plan_of_a_run_e9_14() {
    let runner = House::runner().await;
    let (client, _) = House::token(&runner, "main", Role::Client).await;
    let (planner, _) = House::token(&runner, "main", Role::Planner).await;
    let house = House::serving(runner, None, ServeOptions::at("0.0.0.0:0".parse().unwrap())).await;
    let plan = json!("steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]");
    let ask_as = async |token: &AccessToken, method: &str, path: &str, body: Value| {
        let path = format!("/v1/spaces/main{path}");
        ask(&house, method, &path, Some(token.reveal()), Some(body)).await
    };
    // A planner works in a run, and sees none that it starts: so it starts none.
    let refused = ask_as(&planner, "POST", "/runs", json!({"plan": plan})).await;
    assert_problem(&refused, 403, "role_denied");
    assert_eq!(house.workspace().head().await.unwrap().0, 0);

    let run = house
        .submit("[{id: a, do: {tool: text, args: {op: echo, value: 1}}}]")
        .await;
    let steps = json!({"steps": [{"id": "b", "do": {"tool": "text", "args": {"op": "echo", "value": 2}}}]});
    let refused = ask_as(&client, "PUT", &format!("/runs/{run}/plan"), steps).await;
    assert_problem(&refused, 403, "role_denied");
    // What it may do stands under its name.
    let paused = ask_as(&client, "POST", &format!("/runs/{run}/pause"), json!({})).await;
    assert_eq!(paused.status, 202, "{paused:?}");
    let journal = house.workspace().journal(run, folio::memory::Seq(0)).await.unwrap();
    let by = journal.events.iter().find_map(|(_, event)| match event {
        folio::engine::Event::Paused { by, .. } => Some(by.as_str()),
        _ => None,
    });
    assert_eq!(by, Some("client:ci"));
}

#[tokio::test]
async fn routes_and_run_permissions_are_limited_by_role_m7_7() {
    let (house, token) = open_to_all(Role::Tool).await;
    let token = Some(token.as_str());
    let added = ask(
        &house,
        "POST",
        LIST,
        token,
        Some(json!({"type": "observation", "content": "x"})),
    )
    .await;
    assert_eq!(
        (added.status, &added.json()["source"]["tool"]),
        (201, &json!("ci")),
        "{added:?}"
    );
    for (method, path, body) in [
        ("GET", "/v1/spaces/main/export", None),
        ("GET", "/v1/spaces/main/trace", None),
        ("GET", "/v1/spaces/main/events", None),
        ("GET", "/v1/spaces/main/runs", None),
        ("POST", "/v1/spaces/main/forget", Some(json!({"entries": ["e1"]}))),
        ("POST", "/v1/spaces/main/pages", Some(json!({"title": "x"}))),
        ("POST", "/v1/spaces/main/runs", Some(json!({"goal": "x"}))),
    ] {
        assert_problem(&ask(&house, method, path, token, body).await, 403, "role_denied");
    }
    let (house, token) = open_to_all(Role::Client).await;
    for more in [
        json!({"plan": {"steps": []}, "allow_shell": true}),
        json!({"goal": "x", "allow_hosts": ["example.org"]}),
        json!({"goal": "x", "allow_tools": ["maps.*"]}),
    ] {
        let refused = ask(&house, "POST", "/v1/spaces/main/runs", Some(&token), Some(more)).await;
        assert_problem(&refused, 403, "role_denied");
    }
}

#[tokio::test]
async fn client_may_not_fork_a_run_permitted_by_a_person_e9_14() {
    let runner = House::runner().await;
    let (client, _) = House::token(&runner, "main", Role::Client).await;
    let (person, _) = House::token(&runner, "main", Role::Human).await;
    let house = House::serving(runner, None, ServeOptions::at("0.0.0.0:0".parse().unwrap())).await;
    let plan = "steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]";
    let forked_by = async |token: &AccessToken, allow_shell: bool| {
        let body = json!({"plan": plan, "allow_shell": allow_shell});
        let begun = ask(
            &house,
            "POST",
            "/v1/spaces/main/runs",
            Some(person.reveal()),
            Some(body),
        )
        .await;
        let run = begun.json()["run_id"].as_str().unwrap().to_owned();
        let status = async || {
            let path = format!("/v1/spaces/main/runs/{run}");
            let shown = ask(&house, "GET", &path, Some(person.reveal()), None).await;
            shown.json()["status"].clone()
        };
        while status().await == "running" {
            tokio::task::yield_now().await;
        }
        let path = format!("/v1/spaces/main/runs/{run}/fork");
        let body = json!({"at": "a", "paused": true});
        ask(&house, "POST", &path, Some(token.reveal()), Some(body)).await
    };
    assert_problem(&forked_by(&client, true).await, 403, "role_denied");
    assert_eq!(forked_by(&client, false).await.status, 201);
    assert_eq!(forked_by(&person, true).await.status, 201);
}

#[tokio::test]
async fn criterion_command_runs_only_with_a_persons_approval_e9_14() {
    let runner = House::runner_with(true).await;
    let (client, _) = House::token(&runner, "main", Role::Client).await;
    let (person, _) = House::token(&runner, "main", Role::Human).await;
    let folder = tempfile::tempdir().unwrap();
    let mut options = ServeOptions::at("0.0.0.0:0".parse().unwrap());
    options.folder = Some(folder.path().to_owned());
    let house = House::serving(runner, None, options).await;
    let space = "/v1/spaces/main";
    let proof = folder.path().join("proof");
    let plan = json!({"steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}},
        "criteria": [{"text": "it is so", "check": {"command": ["touch", proof]}}]}]});
    let post = async |token: &AccessToken, path: &str, body: Value| {
        let path = format!("{space}{path}");
        ask(&house, "POST", &path, Some(token.reveal()), Some(body)).await
    };
    // Returns the approval that a new run of the plan waits for.
    let ask_for_approval = async || {
        let begun = post(&client, "/runs", json!({"plan": plan})).await.json();
        let path = format!("{space}/runs/{}/questions", begun["run_id"].as_str().unwrap());
        let item = loop {
            let asked = ask(&house, "GET", &path, Some(client.reveal()), None).await.json();
            if let Some(item) = asked["items"].get(0) {
                break item.clone();
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(item["kind"], "check", "{item}");
        item["id"].as_str().unwrap().to_owned()
    };
    let ends = async |run: &str| loop {
        let path = format!("{space}/runs/{run}");
        let seen = ask(&house, "GET", &path, Some(client.reveal()), None).await.json();
        if seen["status"] != "running" {
            break seen["status"].clone();
        }
        tokio::task::yield_now().await;
    };
    let id = ask_for_approval().await;
    for by in [&client, &person] {
        let answered = post(by, &format!("/questions/{id}/answer"), json!({"answer": "yes"})).await;
        assert_problem(&answered, 404, "no_question");
    }
    let approval = format!("/approvals/{id}");
    assert_problem(
        &post(&client, &approval, json!({"approve": true})).await,
        403,
        "role_denied",
    );
    // No call waits there, of which all others could be allowed.
    let always = json!({"approve": true, "always": "tool"});
    assert_problem(&post(&person, &approval, always).await, 422, "body_invalid");
    assert!(!proof.exists());
    assert_eq!(post(&person, &approval, json!({"approve": false})).await.status, 202);
    assert_eq!(ends("r1").await, "partial");
    assert!(!proof.exists());
    // The same command is run once a person says yes, so it was the no that kept it from being run.
    let approval = format!("/approvals/{}", ask_for_approval().await);
    assert_eq!(post(&person, &approval, json!({"approve": true})).await.status, 202);
    assert_eq!(ends("r2").await, "ok");
    assert!(proof.exists());
    house.stop().await.unwrap();
}

#[tokio::test]
async fn mcp_request_acts_in_the_role_of_its_token() {
    let (house, token) = open_to_all(Role::Tool).await;
    let shown = format!("Authorization: Bearer {token}");
    let call = async |tool: &str, arguments: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments,
            "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientInfo": {"name": "somebody", "version": "1"},
                      "io.modelcontextprotocol/clientCapabilities": {}},
        }});
        let (body, name) = (body.to_string(), format!("Mcp-Name: {tool}"));
        let length = format!("Content-Length: {}", body.len());
        let lines = [
            "POST /mcp HTTP/1.1",
            "Host: memory.example",
            "Connection: close",
            &length,
            &shown,
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            "MCP-Protocol-Version: 2026-07-28",
            "Mcp-Method: tools/call",
            &name,
        ];
        let answer = client::send(SocketAddr::from(([127, 0, 0, 1], house.address.port())), &lines, &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    };
    let added = call("scratch_add", json!({"kind": "note", "title": "x"})).await;
    assert!(added.contains("\"trust\":\"tool_internal\""), "{added}");
    let head = house.workspace().head().await.unwrap();
    let refused = call("scratch_pin", json!({"id": "e1"})).await;
    assert!(refused.contains("role_denied"), "{refused}");
    assert_eq!(house.workspace().head().await.unwrap(), head);
}

#[tokio::test]
async fn rate_limit_applies_to_each_token_separately() {
    let runner = House::runner().await;
    let (busy, _) = House::token(&runner, "main", Role::Human).await;
    let (calm, _) = House::token(&runner, "main", Role::Human).await;
    let mut options = ServeOptions::at("0.0.0.0:0".parse().unwrap());
    options.per_second = 1;
    let house = House::serving(runner, None, options).await;
    for _ in 0..2 {
        assert_eq!(ask(&house, "GET", LIST, Some(busy.reveal()), None).await.status, 200);
    }
    let refused = ask(&house, "GET", LIST, Some(busy.reveal()), None).await;
    assert_problem(&refused, 429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(ask(&house, "GET", LIST, Some(calm.reveal()), None).await.status, 200);
}

const BEGIN: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
    "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}}"#;

/// Sends a request to `/mcp` in the session `session`, if there is one.
async fn ask_mcp(house: &House, method: &str, token: &AccessToken, session: Option<&str>, body: &str) -> Answer {
    let first = format!("{method} /mcp HTTP/1.0");
    let shown = format!("Authorization: Bearer {}", token.reveal());
    let length = format!("Content-Length: {}", body.len());
    let session = session.map(|session| format!("Mcp-Session-Id: {session}"));
    let mut lines = vec![
        first.as_str(),
        "Host: memory.example",
        "Connection: close",
        &shown,
        &length,
    ];
    lines.extend([
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
    ]);
    lines.extend(session.as_deref());
    client::send(SocketAddr::from(([127, 0, 0, 1], house.address.port())), &lines, body).await
}

/// A server that requires tokens, with one of a person and one of a client.
async fn house_with_two_tokens() -> (House, (AccessToken, KeptToken), AccessToken) {
    let runner = House::runner().await;
    let person = House::token(&runner, "main", Role::Human).await;
    let (client, _) = House::token(&runner, "main", Role::Client).await;
    let mcp = McpOptions::of(folio::ThreadKey::main());
    let house = House::serving(runner, Some(mcp), ServeOptions::at("0.0.0.0:0".parse().unwrap())).await;
    (house, person, client)
}

#[tokio::test]
async fn mcp_session_is_refused_to_other_tokens_of_its_space() {
    let (house, (person, _), client) = house_with_two_tokens().await;
    let begun = ask_mcp(&house, "POST", &person, None, BEGIN).await;
    let session = Some(begun.header("mcp-session-id"));
    let list = r#"{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}"#;
    for (method, body) in [("POST", list), ("GET", ""), ("DELETE", "")] {
        assert_problem(&ask_mcp(&house, method, &client, session, body).await, 404, "not_found");
    }
    assert_eq!(ask_mcp(&house, "POST", &person, session, list).await.status, 200);
    assert_eq!(ask_mcp(&house, "DELETE", &person, session, "").await.status, 204);
}

#[tokio::test]
async fn mcp_notification_stream_ends_when_its_token_is_revoked() {
    let (house, (person, kept), _) = house_with_two_tokens().await;
    let begun = ask_mcp(&house, "POST", &person, None, BEGIN).await;
    let session = begun.header("mcp-session-id");
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": "folio://view/main"}}),
    ] {
        let told = ask_mcp(&house, "POST", &person, Some(session), &message.to_string()).await;
        assert!(told.status < 300, "{told:?}");
    }
    let mut socket = TcpStream::connect(("127.0.0.1", house.address.port())).await.unwrap();
    let head = format!(
        "GET /mcp HTTP/1.1\r\nHost: memory.example\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n\
         Mcp-Session-Id: {session}\r\n\r\n",
        person.reveal()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let add = async || {
        let input = folio::ItemInput::new(folio::memory::EntryKind::Note, "news");
        let (ada, thread) = (Actor::new(Role::Human, "ada"), folio::ThreadKey::main());
        house.workspace().add_item(&ada, &thread, input, None).await.unwrap();
    };
    let mut text = Vec::new();
    while !text.windows(4).any(|end| end == b"\r\n\r\n") {
        socket.read_buf(&mut text).await.unwrap();
    }
    add().await;
    while !String::from_utf8_lossy(&text).contains("resources/updated") {
        socket.read_buf(&mut text).await.unwrap();
    }
    let revoked_at = Some(house.workspace().now());
    let kept = KeptToken { revoked_at, ..kept };
    house.workspace().store().keep_token(kept).await.unwrap();
    add().await;
    while !text.ends_with(b"\r\n0\r\n\r\n") {
        assert_ne!(socket.read_buf(&mut text).await.unwrap(), 0, "it broke off");
    }
    let told = String::from_utf8(text).unwrap();
    assert_eq!(told.matches("resources/updated").count(), 1, "{told}");
}
