//! The Model Context Protocol at `/mcp`: behind the guard, with limits of its own.

use std::time::Duration;

use folio::{Role, ThreadKey};
use folio_server::{McpOptions, ServeOptions, ToolSet};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Answer, Events, get, send};
use crate::house::{House, SLOW, assert_problem};

const ACCEPT_JSON_AND_EVENTS: &str = "Accept: application/json, text/event-stream";

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}})
}

fn request(id: u32, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

async fn post(house: &House, headers: &[&str], message: &str) -> Answer {
    let length = format!("Content-Length: {}", message.len());
    // Without chunks, so that the body is what was sent.
    let mut lines = vec![
        "POST /mcp HTTP/1.0",
        "Connection: close",
        "Content-Type: application/json",
        ACCEPT_JSON_AND_EVENTS,
        &length,
    ];
    lines.extend(headers);
    if !headers.iter().any(|header| header.starts_with("Host")) {
        lines.push("Host: localhost");
    }
    send(house.address, &lines, message).await
}

/// The message in an answer, which is a stream of one message.
fn message(answer: &Answer) -> Value {
    let data = answer.body.lines().rev().find_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(data.unwrap_or(&answer.body)).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

#[tokio::test]
async fn self_contained_mcp_request_is_answered_without_a_session() {
    let house = House::with_mcp(McpOptions::of(ThreadKey::main())).await;
    let call = |method, name: &str, params| {
        let method_header = format!("Mcp-Method: {method}");
        let mut headers = vec!["MCP-Protocol-Version: 2026-07-28".to_owned(), method_header];
        if !name.is_empty() {
            headers.push(format!("Mcp-Name: {name}"));
        }
        (headers, request(7, method, params).to_string())
    };
    for (method, name, params, said) in [
        ("server/discover", "", json!({}), "2026-07-28"),
        (
            "tools/call",
            "scratch_add",
            json!({"name": "scratch_add", "arguments": {"kind": "todo", "title": "By HTTP"}}),
            "e1 [todo/open]",
        ),
        (
            "tools/call",
            "scratch_read",
            json!({"name": "scratch_read", "arguments": {}}),
            "By HTTP",
        ),
        (
            "resources/read",
            "folio://view/main",
            json!({"uri": "folio://view/main"}),
            "By HTTP",
        ),
    ] {
        let (headers, body) = call(method, name, params);
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let answer = post(&house, &headers, &body).await;
        assert_eq!(
            (answer.status, answer.header("mcp-session-id")),
            (200, ""),
            "{answer:?}"
        );
        let result = message(&answer);
        assert!(
            result["id"] == 7 && result["result"].to_string().contains(said),
            "{result}"
        );
    }
    house.stop().await.unwrap();
}

#[tokio::test]
async fn mcp_idempotency_key_is_scoped_to_its_token_m7_3_27() {
    let runner = House::runner().await;
    let (one, _) = House::token(&runner, "main", Role::Client).await;
    let (other, _) = House::token(&runner, "main", Role::Client).await;
    let options = ServeOptions::at("127.0.0.1:0".parse().unwrap());
    let house = House::serving(runner, Some(McpOptions::of(ThreadKey::main())), options).await;
    let arguments = json!({"kind": "todo", "title": "Once each"});
    let mut body = request(7, "tools/call", json!({"name": "scratch_add", "arguments": arguments}));
    body["params"]["_meta"]["folio/idempotencyKey"] = json!("1");
    for (token, handle, replayed) in [(&one, "e1", false), (&other, "e2", false), (&one, "e1", true)] {
        let shown = format!("Authorization: Bearer {}", token.reveal());
        let headers = [
            "MCP-Protocol-Version: 2026-07-28",
            "Mcp-Method: tools/call",
            "Mcp-Name: scratch_add",
            &shown,
        ];
        let answer = message(&post(&house, &headers, &body.to_string()).await);
        let item = &answer["result"]["structuredContent"];
        assert_eq!(
            (&item["handle"], &item["replayed"]),
            (&json!(handle), &json!(replayed)),
            "{answer}"
        );
    }
    house.stop().await.unwrap();
}

#[tokio::test]
async fn mcp_call_belongs_to_the_turn_that_its_header_names_m7_11_1() {
    let house = House::with_mcp(McpOptions::of(ThreadKey::main())).await;
    let call = |turn: &'static str| {
        let params = json!({"name": "scratch_add", "arguments": {"kind": "todo", "title": "Something"}});
        let headers = [
            "MCP-Protocol-Version: 2026-07-28",
            "Mcp-Method: tools/call",
            "Mcp-Name: scratch_add",
        ];
        let headers: Vec<&str> = headers.into_iter().chain((!turn.is_empty()).then_some(turn)).collect();
        let (house, body) = (&house, request(7, "tools/call", params).to_string());
        async move { message(&post(house, &headers, &body).await)["result"].clone() }
    };
    let unknown = call("Folio-Turn: xx").await;
    assert_eq!(unknown["isError"], true, "{unknown}");
    for input in ["one", "two"] {
        house.post_and_expect("/turns", 201, json!({"input": input})).await;
    }
    // Which of the two is meant has to be said.
    call("Folio-Turn: t1").await;
    call("").await;
    for (turn, touched) in [("t1", 1), ("t2", 0)] {
        let end = house.ask("POST", &format!("/turns/{turn}/end"), &[], None).await;
        assert_eq!(end.status, 200, "{end:?}");
        assert_eq!(house.get_json(&format!("/turns/{turn}")).await["touched"], touched);
    }
    house.stop().await.unwrap();
}

#[tokio::test]
async fn oversized_numbers_and_lone_surrogates_are_kept_as_over_stdio() {
    let mut options = McpOptions::of(ThreadKey::main());
    options.sets = vec![ToolSet::Observe];
    let house = House::with_mcp(options).await;
    let headers = [
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: observe_add",
    ];
    let context = json!({"large": "LARGE", "most": u64::MAX, "half": "HALF"});
    let params = json!({"name": "observe_add", "arguments": {"content": "By HTTP", "context": context}});
    let body = request(7, "tools/call", params).to_string();
    let body = body
        .replace("\"LARGE\"", "18446744073709551617")
        .replace("HALF", "\\ud83d");
    let answer = message(&post(&house, &headers, &body).await);
    let kept = json!({"large": "18446744073709551617", "most": u64::MAX, "half": "\u{fffd}"});
    assert_eq!(answer["result"]["structuredContent"]["context"], kept, "{answer}");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn mcp_session_can_be_opened_used_and_deleted() {
    let house = House::with_mcp(McpOptions::of(ThreadKey::main())).await;
    let began = post(&house, &[], &initialize().to_string()).await;
    assert_eq!(
        (began.status, &message(&began)["result"]["serverInfo"]["name"]),
        (200, &json!("folio"))
    );
    let session = format!("Mcp-Session-Id: {}", began.header("mcp-session-id"));
    let headers = [session.as_str(), "MCP-Protocol-Version: 2025-11-25"];
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(post(&house, &headers, &told).await.status, 202);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    let listed = message(&post(&house, &headers, &list).await);
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 6);
    let delete = ["DELETE /mcp HTTP/1.0", "Host: localhost", &session];
    assert_eq!(send(house.address, &delete, "").await.status, 204);
    assert_problem(&post(&house, &headers, &list).await, 404, "not_found");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn mcp_refuses_foreign_hosts_and_origins_and_large_bodies() {
    let house = House::with_mcp(McpOptions::of(ThreadKey::main())).await;
    let begin = initialize().to_string();
    let strange = post(&house, &["Host: evil.example"], &begin).await;
    assert_problem(&strange, 421, "host_refused");
    let page = post(&house, &["Origin: http://evil.example"], &begin).await;
    assert_problem(&page, 403, "origin_refused");
    let stream = [
        "GET /mcp HTTP/1.0",
        "Host: localhost",
        ACCEPT_JSON_AND_EVENTS,
        "Origin: http://evil.example",
    ];
    assert_problem(&send(house.address, &stream, "").await, 403, "origin_refused");
    let large = format!("{begin}{}", " ".repeat(1024 * 1024));
    assert_problem(&post(&house, &[], &large).await, 413, "body_too_large");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn mcp_distinguishes_invalid_messages_from_invalid_http_requests() {
    let house = House::with_mcp(McpOptions::of(ThreadKey::main())).await;
    for (sent, code, id) in [
        ("no message", -32700, Value::Null),
        ("", -32700, Value::Null),
        (r#"{"id": 4, "method": "tools/list", x}"#, -32700, json!(4)),
        ("[]", -32600, Value::Null),
        (r#"{"id": 4, "method": "tools/list"}"#, -32600, json!(4)),
    ] {
        let refused = post(&house, &[], sent).await;
        assert_eq!(
            (refused.status, refused.header("content-type")),
            (400, "application/json"),
            "{sent}"
        );
        let error = refused.json();
        assert_eq!(
            (&error["error"]["code"], &error["id"]),
            (&json!(code), &id),
            "{sent}: {error}"
        );
    }
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    assert_problem(&post(&house, &[], &list).await, 400, "header_invalid");
    assert_problem(&post(&house, &["Mcp-Session-Id: none"], &list).await, 404, "not_found");
    let bad = ["Mcp-Session-Id: none", "MCP-Protocol-Version: 1999-01-01"];
    assert_problem(&post(&house, &bad, &list).await, 400, "header_invalid");
    let get = ["GET /mcp HTTP/1.0", "Host: localhost", "Accept: application/json"];
    assert_problem(&send(house.address, &get, "").await, 406, "header_invalid");
    let put = ["PUT /mcp HTTP/1.0", "Host: localhost", ACCEPT_JSON_AND_EVENTS];
    let put = send(house.address, &put, "").await;
    assert_problem(&put, 405, "method_not_allowed");
    assert!(put.header("allow").contains("POST"), "{put:?}");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn mcp_route_is_missing_when_mcp_is_disabled() {
    let house = House::new().await;
    let answer = post(&house, &[], &initialize().to_string()).await;
    assert_problem(&answer, 404, "path_unknown");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn open_mcp_stream_ends_when_the_server_stops() {
    let house = House::with_mcp(McpOptions::of(ThreadKey::main())).await;
    let began = post(&house, &[], &initialize().to_string()).await;
    let session = format!("Mcp-Session-Id: {}", began.header("mcp-session-id"));
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let asked = format!("GET /mcp HTTP/1.0\r\nHost: localhost\r\n{ACCEPT_JSON_AND_EVENTS}\r\n{session}\r\n\r\n");
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first[9..], b"200");
    house.stop().await.unwrap();
    // The stream has an end, which comes with nothing more than the rest of the head.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    let rest = String::from_utf8(rest).unwrap();
    let (_, body) = rest.split_once("\r\n\r\n").unwrap();
    assert!(!body.contains("data: {"), "{rest}");
}

#[tokio::test]
async fn compressed_mcp_request_body_is_refused() {
    let house = House::with_mcp(McpOptions::of(ThreadKey::main())).await;
    let answer = post(&house, &["Content-Encoding: gzip"], &initialize().to_string()).await;
    assert_problem(&answer, 415, "body_encoded");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn client_that_closes_the_connection_cancels_the_run_that_it_waits_for() {
    let mut options = McpOptions::of(ThreadKey::main());
    options.sets = vec![ToolSet::Run];
    let house = House::with_mcp(options).await;
    let params = json!({"name": "run_start", "arguments": {"plan": SLOW, "wait_seconds": 600}});
    let body = request(7, "tools/call", params).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{ACCEPT_JSON_AND_EVENTS}\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: run_start\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let status = async |wanted: &str| {
        while house.get("/runs/r1").await.json()["status"] != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    status("running").await;
    drop(stream);
    tokio::time::timeout(Duration::from_secs(20), status("cancelled"))
        .await
        .expect("nobody waits for the run any more");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn subscriptions_count_as_live_streams() {
    let mut options = ServeOptions::at("127.0.0.1:0".parse().unwrap());
    options.connections = 8;
    let mcp = Some(McpOptions::of(ThreadKey::main()));
    let house = House::serving(House::runner().await, mcp, options).await;
    let notifications = json!({"resourceSubscriptions": ["folio://view/main"]});
    let body = request(7, "subscriptions/listen", json!({"notifications": notifications})).to_string();
    let length = format!("Content-Length: {}", body.len());
    let head = [
        "POST /mcp HTTP/1.0",
        "Host: localhost",
        "Content-Type: application/json",
        ACCEPT_JSON_AND_EVENTS,
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: subscriptions/listen",
        &length,
    ];
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(Events::request(house.address, &head, &body).await);
    }
    assert_problem(&send(house.address, &head, &body).await, 429, "streams_busy");
    let metrics = get(house.address, "/metrics").await;
    assert!(metrics.body.contains("\nfolio_event_streams 6\n"), "{metrics:?}");
    drop(streams);
}
