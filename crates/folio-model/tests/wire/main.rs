//! All five wires, with a third-party server: aimock, which `./test` installs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod server;

use std::sync::Arc;
use std::time::Duration;

use folio_model::{
    Delta, Message, ModelError, ModelErrorKind, Reply, Request, Role, SchemaForm, Speaker, StopCause, ToolDescription,
    Usage,
};
use serde_json::json;
use server::{KEY, Server, WIRES};

fn request(text: &str) -> Request {
    let said = |speaker, text: &str| Message {
        speaker,
        text: text.to_owned(),
        tool_calls: Vec::new(),
        answers: None,
    };
    Request {
        role: Role::Executor,
        messages: vec![said(Speaker::System, "Be brief."), said(Speaker::User, text)],
        tools: Vec::new(),
        answer_schema: None,
        tokens_max: 500,
        temperature: None,
        idempotency_key: "run_1-call_1".to_owned(),
    }
}

/// The reply, and the text that was streamed.
async fn ask(server: &Server, wire: &str, request: &Request) -> (Result<Reply, ModelError>, String) {
    let mut pieces = String::new();
    let model = server.model(wire, KEY, SchemaForm::Strict);
    let result = model
        .reply(request, &mut |piece| {
            if let Delta::Text(text) = piece {
                pieces.push_str(&text);
            }
        })
        .await;
    (result, pieces)
}

#[tokio::test]
async fn wire_server_text_streams_with_usage() {
    let server = Server::start();
    for wire in WIRES {
        let (result, pieces) = ask(&server, wire, &request("FOLIO-PLAIN")).await;
        let reply = result.unwrap_or_else(|error| panic!("{wire}: {error}"));
        assert_eq!(reply.text, "Hello there, all of you.", "{wire}");
        assert_eq!(pieces, reply.text, "{wire}");
        assert_eq!(reply.stop, StopCause::Done, "{wire}");
        let usage = Usage {
            tokens_in: 21,
            tokens_out: 5,
            ..Usage::default()
        };
        assert_eq!(reply.usage, Some(usage), "{wire}");
    }
}

#[tokio::test]
async fn wire_server_tool_calls_and_answers_lead_to_a_final_reply() {
    let server = Server::start();
    for wire in WIRES {
        let mut request = request("FOLIO-TOOL: how many windows?");
        request.tools = vec![ToolDescription {
            name: "grep".to_owned(),
            description: "Finds lines.".into(),
            args_schema:
                json!({"type": "object", "properties": {"pattern": {"type": "string"}, "path": {"type": "string"}}})
                    .into(),
        }];
        let reply = ask(&server, wire, &request)
            .await
            .0
            .unwrap_or_else(|error| panic!("{wire}: {error}"));
        assert_eq!(reply.stop, StopCause::ToolCalls, "{wire}");
        let args: Vec<_> = reply.tool_calls.iter().map(|call| call.args.clone()).collect();
        let wanted = ["window", "door"].map(|pattern| json!({"pattern": pattern, "path": "src/house.rs"}));
        assert_eq!(args, wanted, "{wire}");
        assert_ne!(reply.tool_calls[0].id, reply.tool_calls[1].id, "{wire}");

        let answers: Vec<Message> = reply
            .tool_calls
            .iter()
            .map(|call| Message {
                speaker: Speaker::Tool,
                text: "4 lines".to_owned(),
                tool_calls: Vec::new(),
                answers: Some(call.id.clone()),
            })
            .collect();
        request.messages.push(Message {
            speaker: Speaker::Assistant,
            text: reply.text,
            tool_calls: reply.tool_calls,
            answers: None,
        });
        request.messages.extend(answers);
        let reply = ask(&server, wire, &request)
            .await
            .0
            .unwrap_or_else(|error| panic!("{wire}: {error}"));
        assert_eq!(
            (reply.text.as_str(), reply.stop),
            ("There are four.", StopCause::Done),
            "{wire}"
        );
    }
}

#[tokio::test]
async fn wire_server_schema_answer_is_json_e9_13() {
    let server = Server::start();
    let mut request = request("FOLIO-SCHEMA");
    let schema = json!({"type": "object", "properties": {"windows": {"type": "integer"}}, "required": ["windows"]});
    request.answer_schema = Some(schema.into());
    for wire in WIRES {
        for form in [SchemaForm::Strict, SchemaForm::Prompt] {
            let model = server.model(wire, KEY, form);
            let mut request = request.clone();
            if form == SchemaForm::Prompt {
                // The server looks for its mark in the last thing that the user said, which is the schema now.
                Arc::make_mut(request.answer_schema.as_mut().unwrap())["title"] = json!("FOLIO-SCHEMA");
            }
            let reply = model.reply(&request, &mut |_| {}).await;
            let reply = reply.unwrap_or_else(|error| panic!("{wire}: {error}"));
            let answer: serde_json::Value = serde_json::from_str(&reply.text).unwrap();
            assert_eq!(answer, json!({"windows": 4}), "{wire}");
        }
    }
}

#[tokio::test]
async fn wire_server_rate_limit_returns_retry_after() {
    let server = Server::start();
    for wire in WIRES {
        let error = ask(&server, wire, &request("FOLIO-SLOW-DOWN")).await.0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::RateLimited, "{wire}: {error}");
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)), "{wire}");
    }
}

#[tokio::test]
async fn wire_server_cut_off_answer_is_unavailable() {
    let server = Server::start();
    for wire in WIRES {
        let (result, pieces) = ask(&server, wire, &request("FOLIO-CUT")).await;
        let error = result.expect_err(wire);
        assert_eq!(error.kind, ModelErrorKind::Unavailable, "{wire}: {error}");
        assert!(!pieces.contains("and on"), "{wire}: {pieces}");
    }
}

#[tokio::test]
async fn wire_server_wrong_key_is_unauthorised_and_not_echoed() {
    let server = Server::start();
    for wire in WIRES {
        let model = server.model(wire, "sk-quite-wrong", SchemaForm::Strict);
        let error = model.reply(&request("FOLIO-PLAIN"), &mut |_| {}).await.expect_err(wire);
        assert_eq!(error.kind, ModelErrorKind::Unauthorised, "{wire}: {error}");
        assert!(!format!("{error:?}").contains("quite-wrong"), "{wire}: {error}");
    }
}
