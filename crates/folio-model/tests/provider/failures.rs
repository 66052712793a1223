//! Why a model did not answer.

use std::time::Duration;

use folio_model::{ModelErrorKind, ModelOptions, Patience, Speaker, open};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::house::{FAILS_TEST, KEY, WIRES, ask, event_stream, message_from, options, request, sse};

fn json_answer(status: u16, body: Value) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_json(body)
}

#[tokio::test]
async fn http_failures_map_to_model_error_kinds() {
    use ModelErrorKind::{Invalid, RateLimited, Refused, TooLong, Unauthorised, Unavailable, Unreached};
    let error = |code: &str, message: &str| json!({"error": {"code": code, "message": message}});
    let anthropic = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    let cases = [
        (
            "openai",
            401,
            error("invalid_api_key", "Incorrect API key provided"),
            Unauthorised,
        ),
        ("anthropic", 403, anthropic("permission_error", "no"), Unauthorised),
        ("openai", 429, error("insufficient_quota", "pay"), Unauthorised),
        ("openai", 429, error("rate_limit_exceeded", "slow down"), RateLimited),
        ("anthropic", 529, anthropic("overloaded_error", "busy"), RateLimited),
        (
            "gemini",
            500,
            json!([{"error": {"code": 500, "status": "INTERNAL"}}]),
            Unavailable,
        ),
        ("openai", 408, json!({}), Unavailable),
        ("ollama", 503, json!({}), Unreached),
        (
            "openai",
            400,
            error("context_length_exceeded", "too many tokens"),
            TooLong,
        ),
        (
            "anthropic",
            400,
            anthropic("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            TooLong,
        ),
        ("anthropic", 413, anthropic("request_too_large", "no"), TooLong),
        (
            "gemini",
            400,
            json!({"error": {"status": "INVALID_ARGUMENT", "message": "The input token count (9) exceeds the maximum (8)"}}),
            TooLong,
        ),
        ("openai", 400, error("content_policy_violation", "no"), Refused),
        (
            "openai",
            404,
            error("model_not_found", "The model does not exist"),
            Invalid,
        ),
        ("openai", 400, error("invalid_value", "no"), Invalid),
        ("openai-responses", 307, json!({}), Invalid),
    ];
    for (wire, status, body, kind) in cases {
        let asked = ask(wire, &request(), json_answer(status, body.clone())).await;
        let error = asked.error();
        assert_eq!(error.kind, kind, "{wire} {status} {body}: {error}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!(asked.requests.len(), 1, "retries are the caller's");
    }
}

#[tokio::test]
async fn error_body_with_http_ok_maps_to_model_error_kinds() {
    use ModelErrorKind::{Invalid, RateLimited, Unauthorised, Unavailable};
    let error =
        |code: u16, status: &str| json!({"error": {"code": code, "status": status, "message": "a model, or not"}});
    let cases = [
        (error(401, "UNAUTHENTICATED"), Unauthorised),
        (error(403, "PERMISSION_DENIED"), Unauthorised),
        (json!([error(403, "PERMISSION_DENIED")]), Unauthorised),
        (json!({"error": {"code": "401", "message": "no"}}), Unauthorised),
        (error(402, "no"), Unauthorised),
        (error(404, "NOT_FOUND"), Invalid),
        (error(429, "RESOURCE_EXHAUSTED"), RateLimited),
        (error(503, "UNAVAILABLE"), Unavailable),
    ];
    for wire in WIRES {
        for (body, kind) in &cases {
            for answer in [json_answer(200, body.clone()), sse([body.clone()])] {
                let asked = ask(wire, &request(), answer).await;
                let error = asked.error();
                assert_eq!(error.kind, *kind, "{wire} {body}: {error}");
                assert!(
                    error.message.starts_with("it answered with an error ("),
                    "{wire}: {error}"
                );
            }
        }
    }
    let failed =
        json!({"type": "response.failed", "response": {"error": {"code": "invalid_api_key", "message": "no"}}});
    let asked = ask("openai-responses", &request(), sse([failed])).await;
    assert_eq!(asked.error().kind, Unauthorised, "{}", asked.error());
}

#[tokio::test]
async fn provider_errors_name_the_remedy() {
    let error = |code: &str, message: &str| json!({"error": {"code": code, "message": message}});
    let invalid_key = json!([{"reason": "API_KEY_INVALID"}]);
    let cases = [
        (
            404,
            error("model_not_found", "There is no model m."),
            r#"There is no model m; is "m" the name that the provider has"#,
        ),
        (
            404,
            json!({"detail": "Not Found"}),
            ": Not Found; nothing is at http://",
        ),
        (
            401,
            error("invalid_api_key", "no"),
            "; the key is wrong or may not do this: put another one",
        ),
        (402, json!({}), "; there is no credit left: add some"),
        (
            429,
            error("insufficient_quota", "pay"),
            "; there is no credit left: add some",
        ),
        (
            400,
            error("invalid_request_error", "Your credit balance is too low"),
            "; there is no credit left: add some",
        ),
        (
            400,
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "no", "details": invalid_key}}),
            "; the key is wrong or may not do this: put another one",
        ),
    ];
    for wire in WIRES {
        for (status, body, said) in &cases {
            let asked = ask(wire, &request(), json_answer(*status, body.clone())).await;
            assert!(asked.error().message.contains(said), "{wire}: {}", asked.error());
        }
        let away = json_answer(302, json!({})).insert_header("location", "https://login.example/x?of=me");
        let asked = ask(wire, &request(), away).await;
        let said = "it said 302 and redirects to login.example, which is not followed because of the key; put the right address \
                    into the settings";
        assert_eq!(asked.error().message, said, "{wire}");
        let page = ResponseTemplate::new(502).set_body_raw("<html>away</html>", "text/html");
        let asked = ask(wire, &request(), page).await;
        assert!(
            asked
                .error()
                .message
                .starts_with("it said 502 with a web page; is http://"),
            "{wire}: {}",
            asked.error()
        );
        assert_eq!(asked.error().kind, ModelErrorKind::Unavailable, "{wire}");
    }
}

#[tokio::test]
async fn retry_after_is_read_from_headers_and_gemini_details() {
    for wire in WIRES {
        for (name, value, wait) in [
            ("retry-after", "7", Some(Duration::from_secs(7))),
            ("retry-after", "1.5", Some(Duration::from_millis(1500))),
            ("retry-after-ms", "250", Some(Duration::from_millis(250))),
            ("retry-after", "1e300", None),
            ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", None),
        ] {
            let asked = ask(wire, &request(), json_answer(429, json!({})).insert_header(name, value)).await;
            assert_eq!(asked.error().retry_after, wait, "{wire} {name}: {value}");
        }
        // A date is as far away as it is from that of the answer, whatever the clock here says.
        let answer = json_answer(429, json!({}))
            .insert_header("date", "Wed, 21 Oct 2026 07:28:00 GMT")
            .insert_header("retry-after", "Wed, 21 Oct 2026 07:29:30 GMT");
        let asked = ask(wire, &request(), answer).await;
        assert_eq!(asked.error().retry_after, Some(Duration::from_secs(90)), "{wire}");
        let delay = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"});
        let body = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [delay]}});
        let asked = ask(wire, &request(), json_answer(429, body)).await;
        assert_eq!(asked.error().retry_after, Some(Duration::from_millis(3500)), "{wire}");
    }
}

#[tokio::test]
async fn provider_errors_never_contain_the_key_or_the_prompt() {
    let secret_words = "the merger with Initech closes on Friday";
    let mut request = request();
    request.messages.push(message_from(Speaker::User, secret_words));
    let bodies = [
        json!({"error": {"message": format!("cannot work with \"{secret_words}\""), "code": "bad"}}),
        json!({"error": {"message": format!("key {KEY} is not known here"), "code": "bad"}}),
        json!({"error": {"message": "x", "code": KEY}}),
        json!({"echo": secret_words}),
        json!(secret_words),
    ];
    for wire in WIRES {
        for status in [200, 400, 401, 429, 500] {
            for body in &bodies {
                let answer = match status {
                    200 => sse([body.clone()]),
                    status => json_answer(status, body.clone()),
                };
                let asked = ask(wire, &request, answer).await;
                if status != 200 {
                    assert!(asked.result.is_err(), "{wire} {status}");
                }
                if let Err(error) = &asked.result {
                    let told = format!("{error} {error:?}");
                    assert!(
                        !told.contains("Initech") && !told.contains("for-eyes"),
                        "{wire} {status}: {told}"
                    );
                }
            }
        }
    }
    let said = "Unsupported parameter: 'max_tokens' is not supported";
    let asked = ask(
        "openai",
        &request,
        json_answer(400, json!({"error": {"message": said}})),
    )
    .await;
    assert!(
        asked.error().to_string().contains(said),
        "what helps is told: {}",
        asked.error()
    );
}

#[tokio::test]
async fn only_what_a_provider_quotes_of_the_prompt_is_left_out_of_its_message() {
    let mut request = request();
    request.messages.push(message_from(
        Speaker::User,
        "Write: the merger with \"Initech\" closes on Friday",
    ));
    // As a provider quotes it, with the signs escaped.
    let quote = r#"the merger with \"Initech\" closes on Friday"#;
    let long = format!("{}{quote} and so on", "x".repeat(980));
    for (said, shown) in [
        (
            format!("messages.0: text \"{quote}\" is not allowed beside 'tool_choice'"),
            "it said 400 (bad): messages.0: text \"…\" is not allowed beside 'tool_choice'",
        ),
        (quote.to_owned(), "it said 400 (bad)"),
        ("no ".to_owned() + quote, "it said 400 (bad): no…"),
    ] {
        let answer = json_answer(400, json!({"error": {"message": said, "code": "bad"}}));
        let asked = ask("openai", &request, answer).await;
        assert_eq!(asked.error().message, shown);
    }
    let answer = json_answer(400, json!({"error": {"message": long, "code": "bad"}}));
    let asked = ask("openai", &request, answer).await;
    assert!(!asked.error().message.contains("merger"), "{}", asked.error());
}

#[tokio::test]
async fn reason_of_a_provider_is_given_again_when_the_prompt_has_it_from_before() {
    let said = "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for m";
    let body = json!({"error": {"message": said, "code": "invalid_request_error_of_many_letters"}});
    for wire in WIRES {
        let first = ask(wire, &request(), json_answer(400, body.clone())).await;
        let mut again = request();
        let report = format!("- look: failed\n  notes: {}\n  more about it", first.error());
        again.messages.push(message_from(Speaker::User, &report));
        again.messages.push(message_from(
            Speaker::User,
            &json!({"error": first.error().to_string()}).to_string(),
        ));
        let second = ask(wire, &again, json_answer(400, body.clone())).await;
        assert!(first.error().message.contains(said), "{wire}: {}", first.error());
        assert_eq!(second.error().message, first.error().message, "{wire}");
    }
}

#[tokio::test]
async fn error_event_within_a_stream_is_unavailable() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let failed = json!({"type": "response.failed", "response": {"id": "r", "model": "m", "status": "failed", "output": [],
                        "error": {"code": "server_error", "message": "oh"}}});
    for (wire, frame) in [
        ("anthropic", overloaded),
        ("openai", json!({"error": {"code": "server_error", "message": "oh"}})),
        ("openai-responses", failed),
        ("gemini", json!({"error": {"status": "UNAVAILABLE", "message": "oh"}})),
    ] {
        let asked = ask(wire, &request(), sse([frame])).await;
        assert_eq!(
            asked.error().kind,
            ModelErrorKind::Unavailable,
            "{wire}: {}",
            asked.error()
        );
    }
}

/// The error for a server that sends `head` and then nothing more.
async fn error_after_silence(head: &'static str, patience: Patience) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect(FAILS_TEST);
    let port = listener.local_addr().expect(FAILS_TEST).port();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut stream, _) = listener.accept().expect(FAILS_TEST);
        // Who asks may have gone already.
        let _sent = stream.write_all(head.as_bytes());
        assert!(wait.recv().is_err(), "the end of the test");
    });
    let options = ModelOptions { patience, ..options() };
    let model = open(
        &format!("openai+http://127.0.0.1:{port}/v1:m")
            .parse()
            .expect(FAILS_TEST),
        &options,
    )
    .expect(FAILS_TEST);
    let error = model.reply(&request(), &mut |_| {}).await.expect_err(FAILS_TEST);
    // The server is done when it has been asked, at the latest now.
    drop(std::net::TcpStream::connect(("127.0.0.1", port)));
    drop(done);
    server.join().expect(FAILS_TEST);
    assert_eq!(error.kind, ModelErrorKind::Unavailable);
    error.message
}

#[tokio::test]
async fn patience_timeouts_end_a_silent_answer() {
    let usual = Patience::default();
    let first_byte_s = 0;
    let said = error_after_silence("", Patience { first_byte_s, ..usual }).await;
    assert_eq!(
        said,
        "it did not begin to answer within 0 s (`first_byte_s` of `patience`)"
    );
    let between_s = 0;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let said = error_after_silence(head, Patience { between_s, ..usual }).await;
    // With no time at all, the connection may be given up before the silence is noticed.
    let either = [
        "it stopped in the middle of its answer for 0 s (`between_s` of `patience`)",
        "its answer broke off before the end",
    ];
    assert!(either.contains(&said.as_str()), "{said}");
    let whole_s = 0;
    assert_eq!(
        error_after_silence("", Patience { whole_s, ..usual }).await,
        "it was not done after 0 s (`whole_s` of `patience`)"
    );
}

#[tokio::test]
async fn unreachable_server_error_names_its_address() {
    let model = open(&"openai+http://127.0.0.1:1/v1:m".parse().unwrap(), &options()).unwrap();
    let error = model.reply(&request(), &mut |_| {}).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unreached, "nothing was used up");
    assert!(error.message.contains("nothing listens at 127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn oversized_stream_line_is_malformed() {
    // Not a word of an answer in it, and no end of an event.
    let asked = ask(
        "gemini",
        &request(),
        event_stream("data: ".to_owned() + &"x".repeat(100_000)),
    )
    .await;
    assert_eq!(asked.error().kind, ModelErrorKind::Malformed, "{}", asked.error());
}
