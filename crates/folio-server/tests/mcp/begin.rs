//! How a conversation begins and ends.

use folio::Role;
use folio_server::{Mcp, McpError, ToolSet};
use rmcp::model::GetPromptRequestParams;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::pair::{Era, Pair, Plain, options, runner, switch_scratchbooks_off};

#[tokio::test]
async fn server_negotiates_both_protocol_generations() {
    for (era, version) in [(Era::Sessions, "2025-11-25"), (Era::Requests, "2026-07-28")] {
        let pair = Pair::new(era, options()).await;
        let server = pair.client.peer_info().unwrap();
        assert_eq!(server.protocol_version.as_str(), version);
        assert_eq!(server.server_info.as_ref().unwrap().name, "folio");
        let instructions = server.instructions.clone().unwrap();
        assert!(
            instructions.contains("scratch_read") && instructions.len() < 800,
            "{instructions}"
        );
        pair.end().await;
    }
}

#[tokio::test]
async fn instructions_name_only_tools_that_are_offered() {
    let mut all = options();
    all.sets = ToolSet::ALL.into();
    for era in Era::BOTH {
        for options in [options(), all.clone()] {
            let runner = runner().await;
            switch_scratchbooks_off(&runner).await;
            let pair = Pair::of(era, options, &runner, Plain).await;
            let instructions = pair.client.peer_info().unwrap().instructions.clone().unwrap();
            let offered = pair.client.list_all_tools().await.unwrap();
            let named = instructions.split(|c: char| !c.is_ascii_lowercase() && c != '_');
            let unknown: Vec<&str> = named
                .filter(|word| word.contains('_') && !offered.iter().any(|tool| tool.name == *word))
                .collect();
            assert_eq!(unknown, [""; 0], "{instructions}");
            let names_search = instructions.contains("memory_search");
            assert_eq!(names_search, offered.iter().any(|tool| tool.name == "memory_search"));
            pair.end().await;
        }
    }
}

#[tokio::test]
async fn role_that_may_not_pin_is_not_told_to_m7_7() {
    for era in Era::BOTH {
        for (role, may_pin) in [(Role::Client, true), (Role::Evaluator, false), (Role::Reflector, false)] {
            let mut options = options();
            options.role = role;
            let pair = Pair::new(era, options).await;
            let instructions = pair.client.peer_info().unwrap().instructions.clone().unwrap();
            assert_eq!(instructions.contains("scratch_pin"), may_pin, "{role}: {instructions}");
            let request = GetPromptRequestParams::new("handover");
            let prompt = pair.client.get_prompt(request).await.unwrap();
            let text = prompt.messages[0].content.as_text().unwrap().text.clone();
            assert_eq!(text.contains("and pin it"), may_pin, "{role}: {text}");
            assert!(!text.contains('{'), "{text}");
            pair.end().await;
        }
    }
}

#[tokio::test]
async fn every_output_line_is_a_json_rpc_message() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (read, write) = tokio::io::split(theirs);
    let server = Mcp::new(runner().await, options());
    let served = tokio::spawn(server.converse(read, write, std::future::pending()));
    let (ours, mut out) = tokio::io::split(ours);
    for line in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}})
        .to_string(),
        "this is no message".to_owned(),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        json!({"jsonrpc": "2.0", "id": 2, "method": "no/such/method"}).to_string(),
        json!({"jsonrpc": "2.0", "id": 3, "method": "ping"}).to_string(),
    ] {
        out.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
    let mut lines = BufReader::new(ours).lines();
    let mut answered = Vec::new();
    for _ in 0..4 {
        let line = lines.next_line().await.unwrap().unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        answered.push((message["id"].as_u64(), message["error"]["code"].as_i64()));
    }
    answered.sort_unstable();
    // Everything but the notification is answered, what is no message under no id.
    assert_eq!(
        answered,
        [
            (None, Some(-32700)),
            (Some(1), None),
            (Some(2), Some(-32601)),
            (Some(3), None)
        ]
    );
    out.shutdown().await.unwrap();
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn input_may_be_empty_but_not_begin_with_a_result() {
    let converse = async |said: &'static [u8]| {
        let server = Mcp::new(runner().await, options());
        server.converse(said, tokio::io::sink(), std::future::pending()).await
    };
    converse(b"").await.unwrap();
    let result = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
    assert!(matches!(converse(result).await, Err(McpError::Begin(_))));
}

#[tokio::test]
async fn conversation_ends_on_the_shutdown_signal() {
    let server = Mcp::new(runner().await, options());
    let (mut ours, theirs) = tokio::io::duplex(1024);
    let (read, write) = tokio::io::split(theirs);
    server.converse(read, write, std::future::ready(())).await.unwrap();
    // It has said nothing, and its side is closed.
    let mut said = String::new();
    ours.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "");
}
