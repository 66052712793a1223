//! Request bodies.

use folio_model::{ModelErrorKind, SchemaForm, Speaker};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::house::{
    FAILS_TEST, KEY, WIRES, ask, ask_in, ask_with, events, message_from, options, request, sent_for_two_replies,
    with_tools,
};

#[tokio::test]
async fn provider_key_is_sent_in_one_header_only() {
    for wire in WIRES {
        let asked = ask(wire, &request(), events(wire, "Hello")).await;
        asked.reply();
        let (name, value) = match wire {
            "anthropic" => ("x-api-key", KEY.to_owned()),
            "gemini" => ("x-goog-api-key", KEY.to_owned()),
            _ => ("authorization", format!("Bearer {KEY}")),
        };
        assert_eq!(asked.header(name), Some(value.as_str()), "{wire}");
        let sent = &asked.requests[0];
        let with_key = sent
            .headers
            .values()
            .filter(|value| value.to_str().is_ok_and(|v| v.contains(KEY)));
        assert_eq!(with_key.count(), 1, "{wire}");
        let body = String::from_utf8_lossy(&sent.body);
        assert!(!sent.url.as_str().contains(KEY) && !body.contains(KEY), "{wire}");
        assert_eq!(
            asked.header("user-agent").map(|agent| agent.starts_with("folio/")),
            Some(true)
        );
        let same_key = (wire != "gemini").then_some("run_1-call_2");
        assert_eq!(asked.header("idempotency-key"), same_key, "{wire}");
    }
}

#[tokio::test]
async fn token_limit_is_always_sent_e9_10() {
    for wire in WIRES {
        let asked = ask(wire, &request(), events(wire, "Hello")).await;
        let place = match wire {
            "openai-responses" => "/max_output_tokens",
            "gemini" => "/generationConfig/maxOutputTokens",
            _ => "/max_tokens",
        };
        assert_eq!(asked.body().pointer(place), Some(&json!(777)), "{wire}");
    }
}

#[tokio::test]
async fn model_name_is_sent_unchanged_without_reasoning_settings() {
    // The library reads a wish to think out of the end of such names.
    for name in ["mistral-medium", "qwen-max", "some-model-none", "plain"] {
        for wire in WIRES {
            let asked = ask_with(wire, name, &request(), events(wire, "Hello"), &options()).await;
            let body = asked.body();
            match wire {
                "gemini" => {
                    let path = asked.requests[0].url.path().to_owned();
                    assert_eq!(path, format!("/v1/models/{name}:streamGenerateContent"));
                }
                _ => assert_eq!(body["model"], json!(name), "{wire}"),
            }
            let text = body.to_string();
            for setting in ["reasoning", "thinking", "effort"] {
                assert!(!text.contains(setting), "{wire} {name}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn custom_address_gets_no_provider_cache_settings() {
    for name in ["gpt-5.6", "m"] {
        for wire in ["openai", "openai-responses", "ollama"] {
            let asked = ask_with(wire, name, &with_tools(), events(wire, "Hello"), &options()).await;
            let text = asked.body().to_string();
            assert!(!text.contains("cache"), "{wire}: {text}");
        }
    }
}

#[tokio::test]
async fn anthropic_cache_marks_are_set_on_rules_tools_and_last_message() {
    let asked = ask("anthropic", &with_tools(), events("anthropic", "Hello")).await;
    let body = asked.body();
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        body["system"],
        json!([{"type": "text", "text": "Be brief.", "cache_control": mark}])
    );
    let last = &body["messages"].as_array().unwrap().last().unwrap()["content"];
    assert_eq!(last[1]["cache_control"], mark, "{last}");
    assert_eq!(body.to_string().matches("cache_control").count(), 2);

    let once = ask("anthropic", &request(), events("anthropic", "Hello")).await.body();
    assert_eq!(
        once.to_string().matches("cache_control").count(),
        1,
        "nothing more will be asked"
    );

    let mut without_rules = with_tools();
    without_rules.messages.remove(0);
    let body = ask("anthropic", &without_rules, events("anthropic", "Hello"))
        .await
        .body();
    assert_eq!(body["tools"][0]["cache_control"], mark);
}

#[tokio::test]
async fn tool_answers_reference_their_call_ids_in_every_wire_format() {
    let sent = async |wire: &str| ask(wire, &with_tools(), events(wire, "Hello")).await.body();
    let unreadable = json!({"unreadable": "{\"patt"});

    let body = sent("openai").await;
    assert_eq!(body["tools"][0]["function"]["name"], "grep");
    let said = body["messages"].as_array().unwrap();
    assert_eq!(
        said[2]["tool_calls"][1]["function"]["arguments"],
        unreadable.to_string()
    );
    assert_eq!(
        said[3],
        json!({"role": "tool", "tool_call_id": "a", "content": "line 1"})
    );

    let body = sent("openai-responses").await;
    let of_type = |name: &str| -> Vec<Value> {
        let input = body["input"].as_array().unwrap().iter();
        input.filter(|item| item["type"] == name).cloned().collect()
    };
    assert_eq!(of_type("function_call").len(), 2);
    assert_eq!(of_type("function_call_output")[1]["call_id"], "b");
    assert_eq!(body["store"], json!(false), "nothing is kept there");

    let body = sent("anthropic").await;
    let said = body["messages"].as_array().unwrap();
    assert_eq!(said[1]["content"][1]["input"], unreadable);
    assert_eq!(said.len(), 3, "both answers stand in one message");
    assert_eq!(said[2]["content"][0]["tool_use_id"], "a");
    assert_eq!(said[2]["content"][1]["tool_use_id"], "b");

    let body = sent("gemini").await;
    let parts = &body["contents"].as_array().unwrap().last().unwrap()["parts"];
    assert_eq!(parts.as_array().unwrap().len(), 2);
    assert_eq!(parts[1]["functionResponse"]["name"], "grep");
    assert!(body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]["properties"]["pattern"].is_object());
}

#[tokio::test]
async fn empty_assistant_reply_sends_no_empty_content_e9_13() {
    for nothing in ["", "\n\n"] {
        let mut again = request();
        again.messages.extend([
            message_from(Speaker::Assistant, nothing),
            message_from(Speaker::User, "That was nothing."),
        ]);
        let mut called = with_tools();
        nothing.clone_into(&mut called.messages[2].text);
        for wire in WIRES {
            let text = ask(wire, &again, events(wire, "Hello")).await.body().to_string();
            for refused in [
                r#""content":"""#,
                r#""content":[]"#,
                r#""parts":[]"#,
                r#""text":"""#,
                r#""\n\n""#,
            ] {
                assert!(!text.contains(refused), "{wire}: {text}");
            }
            assert!(text.contains("That was nothing."), "{wire}: {text}");
            let text = ask(wire, &called, events(wire, "Hello")).await.body().to_string();
            assert!(!text.contains(r#""\n\n""#), "{wire}: {text}");
        }
        let body = ask("anthropic", &called, events("anthropic", "Hello")).await.body();
        let parts = body["messages"][1]["content"].as_array().unwrap();
        assert!(parts.iter().all(|part| part["type"] == "tool_use"), "{parts:?}");
        // Where user and assistant have to take turns, something stands in its place.
        let body = ask("openai", &again, events("openai", "Hello")).await.body();
        let stands = json!({"role": "assistant", "content": "(nothing)"});
        assert_eq!(body["messages"][2], stands);
    }
}

#[tokio::test]
async fn chat_roles_take_turns_as_templates_of_mistral_and_gemma_demand_e9_13() {
    let roles = |body: &Value| -> Vec<String> {
        let messages = body["messages"].as_array().unwrap().iter();
        messages
            .map(|message| message["role"].as_str().unwrap().to_owned())
            .collect()
    };
    // A task, what is asked for, and the schema of the answer.
    let mut asked = request();
    asked.messages.push(message_from(Speaker::User, "Say it briefly."));
    asked.answer_schema = Some(json!({"type": "object", "properties": {"gap": {"type": "string"}}}).into());
    for wire in ["openai", "ollama"] {
        let body = ask_in(SchemaForm::Prompt, wire, &asked).await.body();
        assert_eq!(roles(&body), ["system", "user"], "{wire}");
        let text = body["messages"][1]["content"].as_str().unwrap();
        let (task, rest) = text.split_once("\n\nSay it briefly.\n\n").unwrap();
        assert_eq!(task, asked.messages[1].text);
        assert!(rest.contains("\"gap\""), "{rest}");
    }
    // Answers of tools stay messages of their own, and the user does not follow them at once.
    let mut called = with_tools();
    called.messages.extend([
        message_from(Speaker::User, "The result is not accepted yet."),
        message_from(Speaker::User, "Try again."),
    ]);
    let body = ask("openai", &called, events("openai", "Hello")).await.body();
    let expected = ["system", "user", "assistant", "tool", "tool", "assistant", "user"];
    assert_eq!(roles(&body), expected);
    assert_eq!(
        body["messages"][6]["content"],
        "The result is not accepted yet.\n\nTry again."
    );
    // Servers with the other protocols have the same models.
    let body = ask("anthropic", &called, events("anthropic", "Hello")).await.body();
    assert_eq!(roles(&body), ["user", "assistant", "user", "assistant", "user"]);
    let body = ask_in(SchemaForm::Prompt, "openai-responses", &asked).await.body();
    assert_eq!(body["input"].as_array().unwrap().len(), 2, "{body}");
}

#[tokio::test]
async fn foreign_call_ids_are_rewritten_when_switching_providers() {
    let mut moved = with_tools();
    for message in &mut moved.messages {
        let calls = message.tool_calls.iter_mut().map(|call| &mut call.id);
        for id in calls.chain(&mut message.answers) {
            *id = format!("functions.{id}:0");
        }
    }
    let body = ask("anthropic", &moved, events("anthropic", "Hello")).await.body();
    let (calls, answers) = (&body["messages"][1]["content"], &body["messages"][2]["content"]);
    let id = calls[1]["id"].as_str().unwrap();
    assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{id}");
    let of = |parts: &Value, key: &str| -> Vec<Value> {
        let parts = parts.as_array().unwrap().iter();
        parts.filter_map(|part| part.get(key)).cloned().collect()
    };
    assert_eq!(of(calls, "id"), of(answers, "tool_use_id"));
}

#[tokio::test]
async fn answer_schema_is_sent_in_provider_form_or_in_the_prompt_e9_13() {
    let mut request = request();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    request.answer_schema = Some(schema.into());
    for (wire, place) in [
        ("openai", "/response_format/json_schema/schema"),
        ("openai-responses", "/text/format/schema"),
        ("anthropic", "/output_config/format/schema"),
        ("gemini", "/generationConfig/responseJsonSchema"),
        ("ollama", "/response_format/json_schema/schema"),
    ] {
        let strict = ask_in(SchemaForm::Strict, wire, &request).await.body();
        assert_eq!(
            strict.pointer(place).unwrap()["properties"]["n"]["type"],
            "integer",
            "{wire}"
        );
        assert!(
            !strict.to_string().contains("JSON Schema"),
            "{wire}: nothing of it in the prompt"
        );

        let prompt = ask_in(SchemaForm::Prompt, wire, &request).await.body();
        assert_eq!(prompt.pointer(place), None, "{wire}");
        let text = prompt.to_string();
        assert!(
            text.contains("It must satisfy this JSON Schema") && !text.contains("strict"),
            "{wire}: {text}"
        );
    }
}

#[tokio::test]
async fn inexpressible_answer_schema_is_put_into_the_prompt() {
    let mut request = request();
    let args = json!({"type": "object", "properties": {"args": {"type": "object"}}, "required": ["args"]});
    request.answer_schema = Some(args.clone().into());
    let sent = async |wire: &str| ask_in(SchemaForm::Strict, wire, &request).await.body();
    let body = sent("openai").await;
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
    assert!(body.to_string().contains("It must satisfy this JSON Schema"));
    assert_eq!(
        sent("openai-responses").await["text"]["format"],
        json!({"type": "json_object"})
    );
    let body = sent("anthropic").await;
    assert!(body.get("output_config").is_none() && body.to_string().contains("It must satisfy this JSON Schema"));
    assert_eq!(
        sent("gemini").await["generationConfig"]["responseJsonSchema"],
        args,
        "Gemini takes any"
    );
}

#[tokio::test]
async fn temperature_is_sent_unchanged() {
    let mut request = request();
    request.temperature = Some(0.2);
    for wire in WIRES {
        let body = ask(wire, &request, events(wire, "Hello")).await.body();
        assert_eq!(temperature_in(wire, &body), Some(&json!(0.2)), "{wire}");
    }
}

/// The place of the temperature in a body.
fn temperature_in<'b>(wire: &str, body: &'b Value) -> Option<&'b Value> {
    body.pointer(match wire {
        "gemini" => "/generationConfig/temperature",
        _ => "/temperature",
    })
}

#[tokio::test]
async fn refused_temperature_is_left_out_from_then_on() {
    let mut request = request();
    request.temperature = Some(0.0);
    for wire in WIRES {
        let respond = move |asked: &wiremock::Request| {
            let body: Value = asked.body_json().expect(FAILS_TEST);
            match temperature_in(wire, &body) {
                Some(_) => ResponseTemplate::new(400).set_body_json(json!({"error": {
                        "type": "invalid_request_error", "message": "`temperature` is deprecated for this model."}})),
                None => events(wire, "Hello"),
            }
        };
        let asked = sent_for_two_replies(wire, &request, respond).await;
        let keys: Vec<&str> = asked
            .iter()
            .filter_map(|asked| asked.headers.get("idempotency-key")?.to_str().ok())
            .collect();
        match wire {
            "gemini" => assert_eq!((asked.len(), keys.len()), (3, 0)),
            _ => assert_eq!(
                keys,
                ["run_1-call_2", "run_1-call_2-no-temperature", "run_1-call_2"],
                "{wire}"
            ),
        }
    }
}

#[tokio::test]
async fn refusal_for_another_reason_is_not_taken_for_one_of_the_temperature() {
    let refusal = |message: &str| {
        let error = json!({"type": "invalid_request_error", "message": message});
        ResponseTemplate::new(400).set_body_json(json!({"error": error}))
    };
    for wire in WIRES {
        for (temperature, message, count) in [
            (Some(0.0), "max_tokens is too large", 1),
            (None, "the temperature is wrong", 1),
            (Some(0.0), "the temperature is wrong", 2),
        ] {
            let mut request = request();
            request.temperature = temperature;
            let asked = ask(wire, &request, refusal(message)).await;
            assert_eq!(asked.error().kind, ModelErrorKind::Invalid, "{wire} {message}");
            assert_eq!(asked.requests.len(), count, "{wire} {message}");
        }
    }
}

#[tokio::test]
async fn tools_of_openai_are_not_strict() {
    // If it is left out, Responses make the schema strict, and arguments that may be left out come back empty.
    let strict = async |wire: &str, place: &str| {
        let body = ask(wire, &with_tools(), events(wire, "Hello")).await.body();
        body.pointer(place).cloned()
    };
    assert_eq!(strict("openai-responses", "/tools/0/strict").await, Some(json!(false)));
    assert_eq!(strict("openai", "/tools/0/function/strict").await, Some(json!(false)));
}

#[tokio::test]
async fn tool_named_like_an_anthropic_builtin_is_sent_as_custom_tool() {
    // Anthropic has one of its own by this name.
    let mut request = with_tools();
    request.tools[0].name = "web_search".to_owned();
    let body = ask("anthropic", &request, events("anthropic", "Hello")).await.body();
    assert_eq!(body["tools"][0].get("type"), None);
    assert!(
        body["tools"][0]["input_schema"]["properties"]["pattern"].is_object(),
        "{body}"
    );
}
