//! How answers are read.

use folio_model::{Delta, ModelErrorKind, StopCause, Usage};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::house::{WIRES, ask, event_stream, event_text, events, named_event, request, sse};

#[tokio::test]
async fn reply_text_streams_in_deltas_with_usage_for_every_provider() {
    for wire in WIRES {
        let asked = ask(wire, &request(), events(wire, "Hello")).await;
        let reply = asked.reply();
        assert_eq!((reply.text.as_str(), reply.stop), ("Hello", StopCause::Done), "{wire}");
        let usage = Usage {
            tokens_in: 20,
            tokens_cached: 8,
            tokens_cache_written: 0,
            micro_usd: None,
            tokens_out: 5,
            tokens_reasoning: if wire == "anthropic" {
                reply.usage.unwrap().tokens_reasoning
            } else {
                2
            },
        };
        assert_eq!(reply.usage, Some(usage), "{wire}");
        let pieces = [Delta::Thought("Hm.".to_owned()), Delta::Text("Hello".to_owned())];
        assert_eq!(asked.pieces, pieces, "{wire}");
    }
}

/// An OpenAI answer with calls that have `args`, and the finish reason `finish`.
fn tool_call_answer(args: &[&str], finish: &str) -> ResponseTemplate {
    let mut frames: Vec<Value> = Vec::new();
    for (index, args) in args.iter().enumerate() {
        let (one, two) = args.split_at(args.len() / 2);
        let call = |id: Value, name: Value, args: &str| {
            let function = json!({"name": name, "arguments": args});
            json!({"choices": [{"delta": {"tool_calls": [{"index": index, "id": id, "function": function}]}}]})
        };
        frames.push(call(json!(format!("c{index}")), json!("grep"), one));
        frames.push(call(Value::Null, Value::Null, two));
    }
    frames.push(json!({"choices": [{"delta": {}, "finish_reason": finish}]}));
    event_stream(frames.iter().map(named_event).collect::<String>() + "data: [DONE]\n\n")
}

#[tokio::test]
async fn tool_calls_set_the_stop_cause_regardless_of_finish_reason() {
    // Some say `stop` when they want tools.
    for finish in ["tool_calls", "stop"] {
        let asked = ask(
            "openai",
            &request(),
            tool_call_answer(&[r#"{"b": 1, "a": 2}"#, "", "{}"], finish),
        )
        .await;
        let reply = asked.reply();
        assert_eq!(reply.stop, StopCause::ToolCalls);
        let all: Vec<_> = reply
            .tool_calls
            .iter()
            .map(|call| (call.id.as_str(), call.args.to_string()))
            .collect();
        let wanted = [("c0", r#"{"a":2,"b":1}"#), ("c1", "{}"), ("c2", "{}")];
        assert_eq!(
            all,
            wanted.map(|(id, args)| (id, args.to_owned())),
            "sorted, and never nothing"
        );
        assert_eq!(reply.usage, None, "nobody said");
    }
}

#[tokio::test]
async fn truncated_tool_call_is_dropped_and_unparsable_one_kept_as_text() {
    let cut = ask(
        "openai",
        &request(),
        tool_call_answer(&["{}", r#"{"pattern": "x"#], "length"),
    )
    .await;
    let reply = cut.reply();
    assert_eq!((reply.stop, reply.tool_calls.len()), (StopCause::Length, 1));
    let broken = ask("openai", &request(), tool_call_answer(&["{pattern}"], "tool_calls")).await;
    assert_eq!(broken.reply().tool_calls[0].args, json!("{pattern}"));
}

#[tokio::test]
async fn gemini_tool_calls_get_distinct_ids() {
    // Gemini gives none.
    let call = json!({"functionCall": {"name": "grep", "args": {"pattern": "x"}}});
    let piece = |finish: Value| json!({"candidates": [{"content": {"parts": [call]}, "finishReason": finish}]});
    let asked = ask("gemini", &request(), sse([piece(Value::Null), piece(json!("STOP"))])).await;
    let reply = asked.reply();
    assert_eq!((reply.stop, reply.tool_calls.len()), (StopCause::ToolCalls, 2));
    assert_ne!(reply.tool_calls[0].id, reply.tool_calls[1].id);
}

#[tokio::test]
async fn responses_text_is_read_from_deltas_or_the_final_event() {
    let said = json!({"type": "message", "content": [{"type": "output_text", "text": "All at once."}]});
    let delta = json!({"type": "response.output_text.delta", "delta": "All at once."});
    let end = json!({"type": "response.completed", "response": {"status": "completed", "output": [said]}});
    for frames in [vec![end.clone()], vec![delta, end]] {
        let asked = ask("openai-responses", &request(), sse(frames)).await;
        assert_eq!(asked.reply().text, "All at once.");
    }
}

#[tokio::test]
async fn responses_tool_call_is_assembled_from_deltas_or_the_final_item() {
    let item = |args: &str| json!({"type": "function_call", "call_id": "c1", "name": "grep", "arguments": args});
    let added = json!({"type": "response.output_item.added", "output_index": 1, "item": item("")});
    let piece =
        |text: &str| json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": text});
    let whole = json!({"type": "response.output_item.done", "output_index": 1, "item": item(r#"{"a":1}"#)});
    let end =
        |output: Value| json!({"type": "response.completed", "response": {"status": "completed", "output": output}});
    for frames in [
        vec![added.clone(), piece(r#"{"a""#), piece(":1}"), end(json!([]))],
        vec![added, piece(r#"{"a""#), whole.clone(), end(json!([item(r#"{"a":1}"#)]))],
        vec![whole, end(json!([]))],
        vec![end(json!([item(r#"{"a":1}"#)]))],
    ] {
        let asked = ask("openai-responses", &request(), sse(frames)).await;
        let calls = &asked.reply().tool_calls;
        assert_eq!(
            (calls.len(), &*calls[0].id, &*calls[0].tool),
            (1, "c1", "grep"),
            "{calls:?}"
        );
        assert_eq!(calls[0].args, json!({"a": 1}));
    }
}

#[tokio::test]
async fn responses_tool_calls_without_output_index_are_matched_by_item_id() {
    let item = |n: u32, args: &str| json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("c{n}"), "name": "grep", "arguments": args});
    let added = |n| json!({"type": "response.output_item.added", "item": item(n, "")});
    let piece = |n: u32, text: &str| json!({"type": "response.function_call_arguments.delta", "item_id": format!("fc_{n}"), "delta": text});
    let whole = |n: u32| json!({"type": "response.output_item.done", "item": item(n, &format!(r#"{{"a":{n}}}"#))});
    let end = json!({"type": "response.completed", "response": {"status": "completed", "output": []}});
    for frames in [
        vec![
            added(1),
            added(2),
            piece(1, r#"{"a":"#),
            piece(2, r#"{"a":2}"#),
            piece(1, "1}"),
            end.clone(),
        ],
        vec![added(1), added(2), whole(1), whole(2), end.clone()],
        vec![whole(1), whole(2), end],
    ] {
        let asked = ask("openai-responses", &request(), sse(frames)).await;
        let calls: Vec<_> = asked
            .reply()
            .tool_calls
            .iter()
            .map(|call| (&*call.id, call.args["a"].clone()))
            .collect();
        assert_eq!(calls, [("c1", json!(1)), ("c2", json!(2))]);
    }
}

#[tokio::test]
async fn provider_refusals_set_the_refusal_stop_cause() {
    let stop = |reason: &str| json!({"choices": [{"delta": {}, "finish_reason": reason}]});
    let done = |frames: &[Value]| event_stream(frames.iter().map(named_event).collect::<String>() + "data: [DONE]\n\n");
    let refusal = json!({"choices": [{"delta": {"refusal": "I can't help with that."}}]});
    let cases = [
        ("openai", done(&[refusal, stop("stop")])),
        ("openai", done(&[stop("content_filter")])),
        (
            "anthropic",
            sse([
                json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 1}}),
                json!({"type": "message_stop"}),
            ]),
        ),
        ("gemini", sse([json!({"promptFeedback": {"blockReason": "SAFETY"}})])),
        ("gemini", sse([json!({"candidates": [{"finishReason": "SAFETY"}]})])),
        (
            "openai-responses",
            sse([
                json!({"type": "response.incomplete", "response": {"id": "r", "model": "m", "status": "incomplete",
                        "output": [], "incomplete_details": {"reason": "content_filter"}}}),
            ]),
        ),
        // Some servers give all at once.
        (
            "openai-responses",
            sse([
                json!({"type": "response.completed", "response": {"status": "completed", "output": [{"type": "message",
                        "content": [{"type": "refusal", "refusal": "I can't help with that."}]}]}}),
            ]),
        ),
    ];
    for (wire, answer) in cases {
        let asked = ask(wire, &request(), answer).await;
        assert_eq!(asked.reply().stop, StopCause::Refusal, "{wire}");
    }
    let mentioned = json!({"choices": [{"delta": {"content": "a refusal of a content_filter"}}]});
    let asked = ask("openai", &request(), done(&[mentioned, stop("stop")])).await;
    assert_eq!(asked.reply().stop, StopCause::Done);
}

#[tokio::test]
async fn token_limit_sets_the_length_stop_cause() {
    let cut = sse([json!({"candidates": [{"content": {"parts": [{"text": "Hel"}]}, "finishReason": "MAX_TOKENS"}]})]);
    assert_eq!(ask("gemini", &request(), cut).await.reply().stop, StopCause::Length);
    let cut = sse([
        json!({"type": "response.incomplete", "response": {"id": "r", "model": "m", "status": "incomplete",
                          "output": [], "incomplete_details": {"reason": "max_output_tokens"}}}),
    ]);
    assert_eq!(
        ask("openai-responses", &request(), cut).await.reply().stop,
        StopCause::Length
    );
}

#[tokio::test]
async fn broken_off_answer_is_unavailable() {
    for wire in WIRES {
        let text = event_text(wire, "Hello");
        // Before the event with the reason of the end, after which nothing is missing; and in the middle of it.
        let reason = match wire {
            "openai" | "ollama" => "finish_reason",
            "anthropic" => "stop_reason",
            "gemini" => "finishReason",
            _ => "response.completed",
        };
        let event = text[..text.find(reason).unwrap()].rfind("\n\n").unwrap() + 2;
        for cut in [event, event + 12] {
            let asked = ask(wire, &request(), event_stream(text[..cut].to_owned())).await;
            let kind = asked.result.as_ref().map_err(|error| error.kind);
            assert_eq!(kind, Err(ModelErrorKind::Unavailable), "{wire} {cut}: {}", &text[..cut]);
        }
    }
}

#[tokio::test]
async fn unparsable_answer_is_malformed() {
    let asked = ask("openai", &request(), event_stream("data: {not json}\n\n".to_owned())).await;
    assert_eq!(asked.error().kind, ModelErrorKind::Malformed);
    let own = sse([json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]})]);
    let asked = ask("gemini", &request(), own).await;
    assert_eq!(asked.error().kind, ModelErrorKind::Malformed);
}
