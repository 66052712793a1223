//! Answers of servers that follow the protocol of OpenAI or Anthropic, or nearly.

use folio_model::{Delta, ModelErrorKind, StopCause, Usage, UsedUp};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::house::{ask, event_stream, named_event, request};

fn frames_then_done(frames: &[Value]) -> ResponseTemplate {
    event_stream(frames.iter().map(named_event).collect::<String>() + "data: [DONE]\n\n")
}

/// One frame of an answer with this delta.
fn delta_frame(delta: Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish_frame(finish: &str) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
}

#[tokio::test]
async fn text_and_thoughts_are_read_from_each_openai_compatible_server() {
    let role = delta_frame(json!({"role": "assistant", "content": null}));
    let cases = [
        (
            "OpenAI",
            vec![
                delta_frame(json!({"role": "assistant", "content": "", "refusal": null})),
                delta_frame(json!({"content": "Hello"})),
            ],
        ),
        (
            "Azure",
            vec![
                json!({"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}),
                role.clone(),
                delta_frame(json!({"content": "Hello"})),
            ],
        ),
        (
            "vLLM",
            vec![
                role.clone(),
                delta_frame(json!({"reasoning_content": "Hm.", "reasoning": "Hm."})),
                delta_frame(json!({"content": "Hello", "tool_calls": []})),
            ],
        ),
        (
            "OpenRouter",
            vec![
                delta_frame(json!({"role": "assistant", "content": "", "reasoning": "Hm.",
                           "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]})),
                delta_frame(json!({"role": "assistant", "content": "Hello", "reasoning": null})),
            ],
        ),
        (
            "Mistral",
            vec![
                delta_frame(json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]})),
                delta_frame(
                    json!({"content": [{"type": "text", "text": "Hel"}, {"type": "reference", "reference_ids": [1]}]}),
                ),
                delta_frame(json!({"content": "lo"})),
            ],
        ),
        (
            "two answers",
            vec![
                json!({"choices": [{"index": 1, "delta": {"content": "Bye"}}]}),
                json!({"choices": [{"index": 1, "delta": {"content": "Bye"}}, {"index": 0, "delta": {"content": "Hello"}}]}),
                json!({"choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]}),
            ],
        ),
    ];
    for (who, mut frames) in cases {
        frames.push(finish_frame("stop"));
        let asked = ask("openai", &request(), frames_then_done(&frames)).await;
        let reply = asked.reply();
        assert_eq!((reply.text.as_str(), reply.stop), ("Hello", StopCause::Done), "{who}");
        let thoughts: Vec<_> = asked
            .pieces
            .iter()
            .filter(|piece| matches!(piece, Delta::Thought(_)))
            .collect();
        assert!(
            thoughts.is_empty() || thoughts == [&Delta::Thought("Hm.".to_owned())],
            "{who}: {thoughts:?}"
        );
    }
}

#[tokio::test]
async fn call_pieces_with_changing_ids_form_one_tool_call() {
    // vLLM made an id for each piece; Gemini's server counts nothing; some write `null` where nothing is taken.
    let piece = |id: Value, name: Value, args: Value| {
        let function = json!({"name": name, "arguments": args});
        json!({"index": 0, "id": id, "type": "function", "function": function})
    };
    let vllm = [
        piece(json!("tool-1"), json!("list"), json!("")),
        piece(json!("tool-2"), Value::Null, json!("{\"path\": ")),
        piece(json!("tool-3"), json!(""), json!("\"a\"}")),
    ];
    let frames: Vec<Value> = vllm
        .iter()
        .map(|piece| delta_frame(json!({"tool_calls": [piece]})))
        .collect();
    let asked = ask(
        "openai",
        &request(),
        frames_then_done(&[frames, vec![finish_frame("tool_calls")]].concat()),
    )
    .await;
    let calls = &asked.reply().tool_calls;
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (calls[0].id.as_str(), &calls[0].args),
        ("tool-1", &json!({"path": "a"}))
    );

    let call = |name: &str| json!({"id": "", "function": {"name": name, "arguments": "null"}});
    let frames = [
        delta_frame(json!({"tool_calls": [call("list"), call("grep")]})),
        finish_frame("stop"),
    ];
    let asked = ask("openai", &request(), frames_then_done(&frames)).await;
    let calls: Vec<_> = asked
        .reply()
        .tool_calls
        .iter()
        .map(|call| (call.tool.as_str(), call.args.clone()))
        .collect();
    assert_eq!(calls, [("list", json!({})), ("grep", json!({}))]);
}

#[tokio::test]
async fn usage_is_read_from_each_openai_compatible_server() {
    let counts = json!({"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25});
    let of = |cached, written, out, reasoning| Usage {
        tokens_in: 20,
        tokens_cached: cached,
        tokens_cache_written: written,
        tokens_out: out,
        tokens_reasoning: reasoning,
        micro_usd: None,
    };
    let beside = json!({"choices": [], "usage": counts});
    let with = |more: Value| {
        let mut usage = counts.clone();
        usage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"choices": [], "usage": usage})
    };
    let cases = [
        (
            "after the end",
            vec![finish_frame("stop"), beside.clone()],
            of(0, 0, 5, 0),
        ),
        (
            "Moonshot",
            vec![json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": counts}]})],
            of(0, 0, 5, 0),
        ),
        (
            "Groq",
            vec![json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "x_groq": {"usage": counts}})],
            of(0, 0, 5, 0),
        ),
        (
            "vLLM, with each piece",
            vec![
                json!({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 1}}),
                finish_frame("stop"),
                beside,
            ],
            of(0, 0, 5, 0),
        ),
        (
            "DeepSeek",
            vec![finish_frame("stop"), with(json!({"prompt_cache_hit_tokens": 8}))],
            of(8, 0, 5, 0),
        ),
        (
            "OpenRouter",
            vec![
                finish_frame("stop"),
                with(json!({"prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 3}})),
            ],
            of(8, 3, 5, 0),
        ),
        (
            "xAI, whose thoughts are in the sum only",
            vec![
                finish_frame("stop"),
                with(json!({"total_tokens": 125, "completion_tokens_details": {"reasoning_tokens": 100}})),
            ],
            of(0, 0, 105, 100),
        ),
    ];
    for (who, mut frames, usage) in cases {
        frames.insert(0, delta_frame(json!({"content": "Hello"})));
        let asked = ask("openai", &request(), frames_then_done(&frames)).await;
        assert_eq!(asked.reply().usage, Some(usage), "{who}");
    }
}

#[tokio::test]
async fn implausible_usage_counts_are_ignored_or_clamped_e9_10() {
    let counted = |more: Value| json!({"choices": [], "usage": more});
    let cases = [
        (json!({"prompt_tokens": u64::MAX, "completion_tokens": 5}), None),
        (
            json!({"prompt_tokens": 20, "completion_tokens": u64::from(u32::MAX)}),
            None,
        ),
        // What was asked for were 777.
        (
            json!({"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 4_000_000_000_u64}),
            Some((20, 777, 0)),
        ),
        (
            json!({"prompt_tokens": 20, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 9}}),
            Some((20, 5, 5)),
        ),
    ];
    for (usage, believed) in cases {
        let frames = [
            delta_frame(json!({"content": "Hello"})),
            finish_frame("stop"),
            counted(usage.clone()),
        ];
        let asked = ask("openai", &request(), frames_then_done(&frames)).await;
        let read = asked.reply().usage;
        let read = read.map(|usage| (usage.tokens_in, usage.tokens_out, usage.tokens_reasoning));
        assert_eq!(read, believed, "{usage}");
    }
    let said = json!({"candidates": [{"content": {"parts": [{"text": "Hello"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": u64::MAX, "candidatesTokenCount": 1}});
    assert_eq!(
        ask("gemini", &request(), event_stream(named_event(&said)))
            .await
            .reply()
            .usage,
        None
    );
}

#[tokio::test]
async fn usage_without_the_tokens_read_is_unknown_for_every_provider_e9_10() {
    let gemini = |usage: Value| {
        let candidate = json!({"content": {"parts": [{"text": "Hello"}]}, "finishReason": "STOP"});
        vec![json!({"candidates": [candidate], "usageMetadata": usage})]
    };
    let response = |usage: Value| {
        let response = json!({"status": "completed", "output": [], "usage": usage});
        vec![json!({"type": "response.completed", "response": response})]
    };
    let message = |first: Value, last: Value| {
        vec![
            json!({"type": "message_start", "message": {"usage": first}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last}),
            json!({"type": "message_stop"}),
        ]
    };
    let written = json!({"output_tokens": 10});
    let cases = [
        ("gemini", gemini(json!({"candidatesTokenCount": 10})), None),
        (
            "gemini",
            gemini(json!({"promptTokenCount": -5, "candidatesTokenCount": 10})),
            None,
        ),
        (
            "gemini",
            gemini(json!({"promptTokenCount": 1e30, "candidatesTokenCount": 10})),
            None,
        ),
        (
            "gemini",
            gemini(json!({"candidatesTokenCount": 10, "totalTokenCount": 4})),
            None,
        ),
        (
            "gemini",
            gemini(json!({"candidatesTokenCount": 10, "thoughtsTokenCount": 5, "totalTokenCount": 9000})),
            Some((8985, 15)),
        ),
        ("openai-responses", response(written.clone()), None),
        (
            "openai-responses",
            response(json!({"input_tokens": -5, "output_tokens": 10})),
            None,
        ),
        ("anthropic", message(json!({}), written.clone()), None),
        (
            "anthropic",
            message(json!({"input_tokens": -5, "output_tokens": 1}), written.clone()),
            None,
        ),
        (
            "anthropic",
            message(json!({"cache_read_input_tokens": 8}), written.clone()),
            None,
        ),
        (
            "anthropic",
            message(json!({"input_tokens": 0, "output_tokens": 1}), written.clone()),
            None,
        ),
        // Everything that was read was in the cache.
        (
            "anthropic",
            message(json!({"input_tokens": 0, "cache_read_input_tokens": 8}), written),
            Some((8, 10)),
        ),
        (
            "anthropic",
            message(
                json!({"output_tokens": 1}),
                json!({"input_tokens": 20, "output_tokens": 10}),
            ),
            Some((20, 10)),
        ),
    ];
    for (wire, frames, believed) in cases {
        let events = event_stream(frames.iter().map(named_event).collect());
        let asked = ask(wire, &request(), events).await;
        let read = asked.reply().usage.map(|usage| (usage.tokens_in, usage.tokens_out));
        assert_eq!(read, believed, "{wire} {frames:?}");
    }
}

#[tokio::test]
async fn abnormal_finish_reason_is_a_failure() {
    for finish in ["error", "abort", "insufficient_system_resource"] {
        let frames = [delta_frame(json!({"content": "Hel"})), finish_frame(finish)];
        let asked = ask("openai", &request(), frames_then_done(&frames)).await;
        assert_eq!(asked.error().kind, ModelErrorKind::Unavailable, "{finish}");
        let is_told = asked.error().to_string().contains(&format!("({finish})"));
        assert_eq!(is_told, finish != "error", "{}", asked.error());
    }
    for (finish, said) in [("MALFORMED_CALL", " (MALFORMED_CALL)"), ("as you\nlike", "")] {
        let asked = ask("openai", &request(), frames_then_done(&[finish_frame(finish)])).await;
        let said = format!("it stopped for another reason{said} and gave no answer");
        assert_eq!(asked.error().message, said);
    }
    // An end of nothing is no answer.
    let asked = ask("openai", &request(), frames_then_done(&[])).await;
    assert_eq!(asked.error().kind, ModelErrorKind::Malformed);
}

#[tokio::test]
async fn error_events_within_a_stream_map_to_model_error_kinds() {
    use ModelErrorKind::{Invalid, Malformed, RateLimited, Refused, TooLong, Unauthorised, Unavailable};
    let open_router = |code: u16| {
        json!({"id": "gen", "error": {"code": code, "message": "what was wrong"},
               "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]})
    };
    let anthropic = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "what was wrong"}});
    let cases = [
        ("openai", open_router(429), RateLimited),
        ("openai", open_router(402), Unauthorised),
        ("openai", open_router(400), Invalid),
        ("openai", open_router(502), Unavailable),
        (
            "openai",
            json!({"error": {"object": "error", "type": "BadRequestError", "code": 400, "message":
                   "This model's maximum context length is 8 tokens"}}),
            TooLong,
        ),
        (
            "openai",
            json!({"object": "error", "message": "what was wrong", "code": 500}),
            Unavailable,
        ),
        (
            "openai",
            json!({"error": {"type": "invalid_request_error", "code": "tool_use_failed", "message": "what was wrong"}}),
            Malformed,
        ),
        (
            "openai",
            json!({"error": {"code": "content_filter", "message": "what was wrong"}}),
            Refused,
        ),
        ("ollama", json!({"error": "what was wrong"}), Unavailable),
        ("anthropic", anthropic("overloaded_error"), Unavailable),
        ("anthropic", anthropic("rate_limit_error"), RateLimited),
        ("anthropic", anthropic("billing_error"), Unauthorised),
        ("anthropic", anthropic("not_found_error"), Invalid),
    ];
    for (wire, frame, kind) in cases {
        let frames = match wire {
            "anthropic" => vec![json!({"type": "message_start", "message": {}}), frame],
            _ => vec![delta_frame(json!({"content": "Hel"})), frame],
        };
        let asked = ask(wire, &request(), frames_then_done(&frames)).await;
        assert_eq!(asked.error().kind, kind, "{wire} {frames:?}: {}", asked.error());
        let is_told = asked.error().to_string().contains("what was wrong");
        assert_eq!(is_told, !matches!(kind, Unauthorised | TooLong), "{}", asked.error());
    }
    let groq = json!({"error": {"code": "tool_use_failed", "message": "Failed to call a function"}});
    let asked = ask("openai", &request(), ResponseTemplate::new(400).set_body_json(groq)).await;
    assert_eq!(asked.error().kind, Malformed);
    let asked = ask("openai", &request(), ResponseTemplate::new(402)).await;
    assert_eq!(asked.error().kind, Unauthorised);
    assert!(
        asked.error().to_string().contains("no credit left"),
        "{}",
        asked.error()
    );
}

#[tokio::test]
async fn failure_usage_is_known_unknown_or_by_kind_depending_on_progress_e9_10() {
    let busy = json!({"error": {"code": 429, "message": "slow down"}});
    let counted = json!({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5}});
    let hel = delta_frame(json!({"content": "Hel"}));
    let usage = Usage {
        tokens_in: 20,
        tokens_out: 5,
        ..Usage::default()
    };
    for (frames, used) in [
        (vec![busy.clone()], UsedUp::ByKind),
        (vec![hel.clone(), busy.clone()], UsedUp::Unknown),
        (vec![hel, counted, busy], UsedUp::Known(Box::new(usage))),
    ] {
        let asked = ask("openai", &request(), frames_then_done(&frames)).await;
        let error = asked.error();
        assert_eq!(
            (error.kind, &error.used),
            (ModelErrorKind::RateLimited, &used),
            "{error}"
        );
    }
    // What is counted at the beginning has nothing of what is written.
    let begun = json!({"type": "message_start", "message": {"usage": {"input_tokens": 20, "output_tokens": 1}}});
    let asked = ask("anthropic", &request(), event_stream(named_event(&begun))).await;
    assert_eq!(asked.error().used, UsedUp::ByKind);
}

#[tokio::test]
async fn json_error_instead_of_a_stream_is_classified_and_reported() {
    use ModelErrorKind::{Invalid, Malformed, RateLimited};
    let said = "the model is being loaded";
    let cases = [
        (
            "openai",
            json!({"error": {"message": said, "type": "rate_limit_error"}}),
            RateLimited,
        ),
        ("openai", json!({"error": {"message": said, "code": 404}}), Invalid),
        ("openai", json!({"object": "error", "message": said}), Malformed),
        ("ollama", json!({"error": said}), Malformed),
        (
            "ollama",
            json!([{"error": {"message": said, "status": "RESOURCE_EXHAUSTED"}}]),
            RateLimited,
        ),
        (
            "anthropic",
            json!({"type": "error", "error": {"type": "rate_limit_error", "message": said}}),
            RateLimited,
        ),
    ];
    for (wire, body, kind) in cases {
        for text in [body.to_string(), format!("{body:#}\n")] {
            let answer = ResponseTemplate::new(200).set_body_raw(text, "application/json");
            let asked = ask(wire, &request(), answer).await;
            assert_eq!(asked.error().kind, kind, "{wire} {body}");
            assert!(asked.error().to_string().contains(said), "{wire}: {}", asked.error());
        }
    }
    let quoting = json!({"error": {"message": "what is `Good day to you all` to mean?"}});
    let asked = ask("openai", &request(), event_stream(quoting.to_string())).await;
    assert!(!asked.error().to_string().contains("Good day"), "{}", asked.error());
}

#[tokio::test]
async fn anthropic_server_tool_and_redacted_blocks_are_ignored() {
    let begin =
        |index: u32, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let more = |index: u32, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let frames = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 0, "output_tokens": 0}}}),
        begin(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        more(0, json!({"type": "thinking_delta", "thinking": "Hm."})),
        more(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        json!({"type": "content_block_stop", "index": 0}),
        begin(1, json!({"type": "redacted_thinking", "data": "b64"})),
        json!({"type": "ping"}),
        begin(
            2,
            json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        ),
        more(2, json!({"type": "input_json_delta", "partial_json": "{\"query\": 1}"})),
        begin(
            3,
            json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
        ),
        begin(4, json!({"type": "text", "text": "Hel", "citations": []})),
        more(4, json!({"type": "citations_delta", "citation": {"cited_text": "no"}})),
        more(4, json!({"type": "text_delta", "text": "lo"})),
        // Given whole at first, and then in pieces again.
        begin(
            5,
            json!({"type": "tool_use", "id": "a", "name": "grep", "input": {"pattern": "x"}}),
        ),
        more(5, json!({"type": "input_json_delta", "partial_json": ""})),
        more(5, json!({"type": "input_json_delta", "partial_json": "{\"pattern\": "})),
        more(5, json!({"type": "input_json_delta", "partial_json": "\"x\"}"})),
        begin(
            6,
            json!({"type": "tool_use", "id": "b", "name": "grep", "input": {"pattern": "y"}}),
        ),
        json!({"type": "content_block_stop", "index": 6}),
        json!({"type": "message_delta", "delta": {"stop_reason": null}, "usage": {"output_tokens": 1}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"},
               "usage": {"input_tokens": 12, "cache_read_input_tokens": 8, "output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ];
    let asked = ask("anthropic", &request(), frames_then_done(&frames)).await;
    let reply = asked.reply();
    assert_eq!((reply.text.as_str(), reply.stop), ("Hello", StopCause::ToolCalls));
    let calls: Vec<_> = reply
        .tool_calls
        .iter()
        .map(|call| (call.id.as_str(), call.args.clone()))
        .collect();
    assert_eq!(calls, [("a", json!({"pattern": "x"})), ("b", json!({"pattern": "y"}))]);
    let usage = reply.usage.unwrap();
    assert_eq!((usage.tokens_in, usage.tokens_cached, usage.tokens_out), (20, 8, 5));
    assert_eq!(asked.pieces[0], Delta::Thought("Hm.".to_owned()));
}

#[tokio::test]
async fn later_zero_anthropic_counts_do_not_reset_usage() {
    let frames = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 12, "cache_read_input_tokens": 8, "output_tokens": 1}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 0, "output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ];
    let usage = ask("anthropic", &request(), frames_then_done(&frames))
        .await
        .reply()
        .usage
        .unwrap();
    assert_eq!((usage.tokens_in, usage.tokens_cached, usage.tokens_out), (20, 8, 5));
}

#[tokio::test]
async fn last_stream_event_counts_without_blank_line_but_not_when_truncated() {
    let text = named_event(&delta_frame(json!({"content": "Hello"})));
    for last in [finish_frame("stop").to_string(), format!("{}\n", finish_frame("stop"))] {
        let asked = ask("openai", &request(), event_stream(format!("{text}data: {last}"))).await;
        assert_eq!(asked.reply().text, "Hello", "{last:?}");
    }
    let half = &named_event(&finish_frame("stop"))[..60];
    let asked = ask("openai", &request(), event_stream(format!("{text}{half}"))).await;
    assert_eq!(asked.error().kind, ModelErrorKind::Unavailable, "{}", asked.error());
    // A mark of the order of bytes, spaces or none after the colon, and signs of life are no part of it.
    let odd = format!(
        "\u{feff}: OPENROUTER PROCESSING\n\nid: 1\nretry: 10\ndata:{}\n\n{text}data:  [DONE] \n\n",
        finish_frame("stop")
    );
    assert_eq!(ask("openai", &request(), event_stream(odd)).await.reply().text, "Hello");
}
