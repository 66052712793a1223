use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::model::{Message, Role, Speaker, StopCause, ToolCall, Usage};

fn request(role: Role, text: &str) -> Request {
    Request {
        role,
        messages: vec![Message {
            speaker: Speaker::User,
            text: text.to_owned(),
            tool_calls: Vec::new(),
            answers: None,
        }],
        tools: Vec::new(),
        answer_schema: None,
        tokens_max: 100,
        temperature: None,
        idempotency_key: "k".to_owned(),
    }
}

async fn ask(model: &ScriptedModel, role: Role, text: &str) -> Result<Reply, ModelError> {
    model.reply(&request(role, text), &mut |_| {}).await
}

async fn said(model: &ScriptedModel, role: Role, text: &str) -> String {
    ask(model, role, text).await.map_or_else(|e| e.to_string(), |r| r.text)
}

#[tokio::test]
async fn first_matching_unused_cue_answers() {
    let model = ScriptedModel::new([
        When::role(Role::Planner).contains("house").text("a plan"),
        When::contains_all(["house", "window"]).text("both"),
        When::any().contains("house").text("a house").times(2),
        When::role(Role::Judge).text("met").always(),
    ]);
    assert_eq!(said(&model, Role::Executor, "the house has a window").await, "both");
    assert_eq!(said(&model, Role::Executor, "the house has a window").await, "a house");
    assert_eq!(said(&model, Role::Planner, "the house").await, "a plan");
    assert_eq!(said(&model, Role::Planner, "the house").await, "a house");
    assert_eq!(said(&model, Role::Judge, "is it so?").await, "met");
    assert_eq!(said(&model, Role::Judge, "is it so?").await, "met");
    assert_eq!(model.finish(), Ok(()));
    assert_eq!(model.asked().len(), 6);
    assert_eq!(model.asked()[2].role, Role::Planner);
}

#[tokio::test]
async fn unmatched_request_error_lists_the_remaining_cues() {
    let model = ScriptedModel::new([
        When::role(Role::Planner).contains("house").text("a plan").times(2),
        When::any().contains("used").text("ok"),
    ]);
    said(&model, Role::Executor, "used").await;
    said(&model, Role::Planner, "house").await;
    let text = format!("what is {} not here", "x".repeat(300));
    let error = ask(&model, Role::Judge, &text).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Invalid);
    assert_eq!(
        error.to_string(),
        format!(
            "scripted did not answer: no cue of the script answers \"what is {}…\", asked of the judge; \
             left in it: cue 1 (planner, with \"house\"; 1 of 2)",
            "x".repeat(191)
        )
    );
    let unanswered = format!("no cue answers \"what is {}…\", asked of the judge", "x".repeat(191));
    assert_eq!(
        model.finish().unwrap_err().to_string(),
        format!("the script does not fit what was asked: {unanswered}; unused cue 1 (planner, with \"house\"; 1 of 2)")
    );
    // It is as wrong when all cues are used, and whoever asked made do without an answer.
    said(&model, Role::Planner, "house").await;
    assert_eq!(model.finish().unwrap_err().0, std::slice::from_ref(&unanswered));
    assert_eq!(model.left_over(), [format!("scripted: {unanswered}")]);
}

#[tokio::test]
async fn scripted_reply_carries_calls_stop_cause_usage_and_errors() {
    let usage = Usage {
        tokens_in: 10,
        tokens_out: 5,
        ..Usage::default()
    };
    let model = ScriptedModel::new([
        When::any()
            .calls([("grep", json!({"pattern": "a"})), ("read", json!({"path": "b"}))])
            .usage(usage),
        When::any().text("half a sen").stop(StopCause::Length),
        When::any()
            .error(ModelErrorKind::RateLimited)
            .retry_after(Duration::from_secs(3)),
    ]);
    let reply = ask(&model, Role::Executor, "").await.unwrap();
    assert_eq!(reply.stop, StopCause::ToolCalls);
    assert_eq!(reply.usage, Some(usage));
    assert_eq!(
        reply.tool_calls[1],
        ToolCall {
            id: "call_2".to_owned(),
            tool: "read".to_owned(),
            args: json!({"path": "b"})
        }
    );
    let mut pieces = Vec::new();
    let cut = model
        .reply(&request(Role::Executor, ""), &mut |piece| pieces.push(piece))
        .await
        .unwrap();
    assert_eq!((cut.stop, cut.usage), (StopCause::Length, None));
    let words = ["half ", "a ", "sen"];
    assert_eq!(pieces, words.map(|word| Delta::Text(word.to_owned())));
    let error = ask(&model, Role::Executor, "").await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::RateLimited);
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_consume_distinct_cues() {
    let cues = (0..10).map(|n| When::any().text(n.to_string()).latency(Duration::from_secs(10 - n)));
    let model = Arc::new(ScriptedModel::new(cues));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let model = Arc::clone(&model);
        tasks.spawn(async move { said(&model, Role::Executor, "x").await });
    }
    // The last cue has the shortest latency.
    let answers = tasks.join_all().await;
    assert_eq!(answers.len(), 10);
    let mut sorted = answers.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), 10, "{answers:?}");
    assert_eq!(model.finish(), Ok(()));
}

#[tokio::test]
async fn script_file_is_read_into_cues() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.json");
    let script = json!({"version": 1, "cues": [
        {"role": "planner", "contains": ["a", "b"], "json": {"steps": []}},
        {"contains": "c", "text": "d", "calls": [{"tool": "grep", "args": {"x": 1}}, {"id": "mine", "tool": "list"}]},
        {"error": {"kind": "too_long", "message": "no room", "retry_after_ms": 1500}},
        {"text": "yes", "usage": {"tokens_in": 1, "tokens_out": 2}, "stop": "length", "times": "always"},
    ]});
    std::fs::write(&path, script.to_string()).unwrap();
    let model = ScriptedModel::read(&path).unwrap();
    assert_eq!(said(&model, Role::Planner, "a b").await, r#"{"steps":[]}"#);
    let reply = ask(&model, Role::Executor, "c").await.unwrap();
    assert_eq!((reply.text.as_str(), reply.stop), ("d", StopCause::ToolCalls));
    let ids = reply
        .tool_calls
        .iter()
        .map(|call| (call.id.as_str(), call.args.clone()));
    assert_eq!(
        ids.collect::<Vec<_>>(),
        [("call_1", json!({"x": 1})), ("mine", json!({}))]
    );
    let error = ask(&model, Role::Executor, "e").await.unwrap_err();
    assert!(
        error.to_string().ends_with("script.json did not answer: no room"),
        "{error}"
    );
    assert_eq!(error.retry_after, Some(Duration::from_millis(1500)));
    assert_eq!(ask(&model, Role::Executor, "e").await.unwrap().stop, StopCause::Length);
    assert_eq!(model.finish(), Ok(()));
}

#[test]
fn invalid_script_error_names_the_file_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.json");
    let check = |text: &str, reason: &str| {
        std::fs::write(&path, text).unwrap();
        let error = ScriptedModel::read(&path).unwrap_err().to_string();
        assert!(error.contains("script.json") && error.contains(reason), "{error}");
    };
    check("{", "EOF");
    check(r#"{"version": 2, "cues": []}"#, "its version is 2");
    check(
        r#"{"version": 1, "cues": [{"text": "a"}, {}]}"#,
        "cue 2: it has to have one of",
    );
    check(r#"{"version": 1, "cues": [{"txt": "a"}]}"#, "unknown field");
    check(
        r#"{"version": 1, "cues": [{"text": "a", "json": 1}]}"#,
        "cue 1: it has to have one of",
    );
    assert!(ScriptedModel::read(&folder.path().join("none")).is_err());
}

#[tokio::test]
async fn cue_matches_call_arguments_as_plain_text_or_json() {
    let call = |args: serde_json::Value| {
        let mut request = request(Role::Executor, "x");
        request.messages[0].tool_calls = vec![ToolCall {
            id: "c1".to_owned(),
            tool: "write".to_owned(),
            args,
        }];
        request
    };
    let found = call(json!({"content": ["a \"quoted\"\nline"]}));
    for part in ["a \"quoted\"\nline", "a \\\"quoted\\\"\\nline", "\"content\":["] {
        let model = ScriptedModel::new([When::any().contains(part).text("found")]);
        let reply = model.reply(&found, &mut |_| {}).await.map(|reply| reply.text);
        assert_eq!(reply.ok().as_deref(), Some("found"), "{part}");
    }
}
