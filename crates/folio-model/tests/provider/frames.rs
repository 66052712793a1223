//! Answers in the forms of servers that nearly follow a provider's protocol, split at any place on the way.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use folio_model::{Delta, ModelErrorKind, Reply, StopCause, open};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::house::{FAILS_TEST, WIRES, ask, event_stream, event_text, named_event, options, request};

/// The frames of a Chat answer with these pieces of calls, one per frame.
fn chat_frames(pieces: &[Value]) -> ResponseTemplate {
    let mut text: String = pieces
        .iter()
        .map(|piece| named_event(&json!({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]})))
        .collect();
    text += &named_event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}));
    event_stream(text + "data: [DONE]\n\n")
}

fn calls(reply: &Reply) -> Vec<(&str, Value)> {
    let calls = reply.tool_calls.iter();
    calls.map(|call| (call.tool.as_str(), call.args.clone())).collect()
}

#[tokio::test]
async fn lone_surrogate_in_stream_becomes_a_replacement_character() {
    for wire in WIRES {
        let events = event_text(wire, "Hello\u{1}").replace("\\u0001", "\\ud83c");
        let asked = ask(wire, &request(), event_stream(events)).await;
        assert_eq!(asked.reply().text, "Hello\u{fffd}", "{wire}");
    }
    // As it stands in a text in a text.
    let call = json!({"index": 0, "id": "x", "function": {"name": "list", "arguments": r#"{"path": "\ud83c"}"#}});
    let asked = ask("openai", &request(), chat_frames(&[call])).await;
    assert_eq!(calls(asked.reply()), [("list", json!({"path": "\u{fffd}"}))]);
}

#[tokio::test]
async fn oversized_numbers_in_call_arguments_keep_their_digits() {
    let args = r#"{"n": 123456789012345678901234567890, "m": 1e999, "k": 3}"#;
    let wanted = json!({"n": "123456789012345678901234567890", "m": "1e999", "k": 3});
    let call = json!({"index": 0, "id": "x", "function": {"name": "list", "arguments": args}});
    let asked = ask("openai", &request(), chat_frames(&[call])).await;
    assert_eq!(calls(asked.reply()), [("list", wanted.clone())]);
    // Gemini has them as a part of its frames.
    let frame = format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"list","args":{args}}}}}]}},"finishReason":"STOP"}}]}}"#
    );
    let asked = ask("gemini", &request(), event_stream(format!("data: {frame}\n\n"))).await;
    assert_eq!(calls(asked.reply()), [("list", wanted)]);
}

#[tokio::test]
async fn chat_tool_calls_are_assembled_for_every_index_scheme() {
    let begin = |index: Value, id: Value, name: &str, args: Value| json!({"index": index, "id": id, "function": {"name": name, "arguments": args}});
    let more = |index: Value, args: &str| json!({"index": index, "function": {"arguments": args}});
    let two = vec![("list", json!({"path": "a"})), ("grep", json!({"pattern": "b"}))];
    let (one, other) = (r#"{"path": "a"}"#, r#"{"pattern": "b"}"#);
    let cases = [
        (
            "from one",
            vec![
                begin(json!(1), json!("x"), "list", json!("")),
                more(json!(1), &one[..5]),
                more(json!(1), &one[5..]),
                begin(json!(2), json!("y"), "grep", json!("")),
                more(json!(2), other),
            ],
        ),
        (
            "interleaved",
            vec![
                begin(json!(0), json!("x"), "list", json!("")),
                begin(json!(1), json!("y"), "grep", json!("")),
                more(json!(0), &one[..5]),
                more(json!(1), &other[..5]),
                more(json!(0), &one[5..]),
                more(json!(1), &other[5..]),
            ],
        ),
        (
            "not at all",
            vec![
                begin(Value::Null, json!("x"), "list", json!("")),
                more(Value::Null, one),
                begin(Value::Null, json!("y"), "grep", json!(other)),
            ],
        ),
        (
            "by their ids",
            vec![
                begin(Value::Null, json!("x"), "list", json!("")),
                begin(Value::Null, json!("y"), "grep", json!("")),
                json!({"id": "x", "function": {"arguments": one}}),
                json!({"id": "y", "function": {"arguments": other}}),
            ],
        ),
        (
            "always 0",
            vec![
                begin(json!(0), json!("x"), "list", json!(one)),
                begin(json!(0), json!("y"), "grep", json!(other)),
            ],
        ),
        (
            "always 0, without ids",
            vec![
                begin(json!(0), Value::Null, "list", json!(one)),
                begin(json!(0), Value::Null, "grep", json!(other)),
            ],
        ),
        (
            "with id and name in each piece",
            vec![
                begin(json!(0), json!("x"), "list", json!(&one[..5])),
                begin(json!(0), json!("x"), "list", json!(&one[5..])),
                begin(json!(1), json!("y"), "grep", json!(other)),
            ],
        ),
        (
            "as objects",
            vec![
                begin(json!(0), json!("x"), "list", json!({"path": "a"})),
                begin(json!(1), json!("y"), "grep", json!({"pattern": "b"})),
            ],
        ),
    ];
    for wire in ["openai", "ollama"] {
        for (how, pieces) in &cases {
            let asked = ask(wire, &request(), chat_frames(pieces)).await;
            assert_eq!(calls(asked.reply()), two, "{wire} {how}");
        }
        // The first of two at the same place has no arguments.
        let pieces = [
            begin(json!(0), json!("x"), "list", json!("")),
            begin(json!(0), json!("y"), "grep", json!(other)),
        ];
        let asked = ask(wire, &request(), chat_frames(&pieces)).await;
        assert_eq!(
            calls(asked.reply()),
            [("list", json!({})), ("grep", json!({"pattern": "b"}))],
            "{wire}"
        );
    }
}

#[tokio::test]
async fn chat_tool_calls_with_huge_index_or_count_are_malformed() {
    for index in [1_000_000_u64, 4_294_967_295, u64::MAX] {
        let call = json!({"index": index, "id": "x", "function": {"name": "list", "arguments": "{}"}});
        let asked = ask("openai", &request(), chat_frames(&[call])).await;
        assert_eq!(asked.error().kind, ModelErrorKind::Malformed, "{index}");
    }
    let call = |number: usize| json!({"id": number.to_string(), "function": {"name": "list", "arguments": "{}"}});
    let many: Vec<Value> = (0..1001).map(call).collect();
    let asked = ask("openai", &request(), chat_frames(&many)).await;
    assert_eq!(asked.error().kind, ModelErrorKind::Malformed);
    assert_eq!(
        ask("openai", &request(), chat_frames(&many[..1000]))
            .await
            .reply()
            .tool_calls
            .len(),
        1000
    );
    let nameless = json!({"index": 0, "function": {"arguments": "{}"}});
    assert_eq!(
        ask("openai", &request(), chat_frames(&[nameless])).await.error().kind,
        ModelErrorKind::Malformed
    );
}

#[tokio::test]
async fn chat_usage_after_the_finish_reason_is_read_without_done_marker() {
    let frames = [
        json!({"choices": [{"delta": {"content": "Hello"}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [{"delta": {}, "finish_reason": null}], "usage": {"prompt_tokens": 20, "completion_tokens": 5}}),
    ];
    let asked = ask(
        "openai",
        &request(),
        event_stream(frames.iter().map(named_event).collect()),
    )
    .await;
    let reply = asked.reply();
    assert_eq!((reply.text.as_str(), reply.stop), ("Hello", StopCause::Done));
    assert_eq!(
        reply.usage.map(|usage| (usage.tokens_in, usage.tokens_out)),
        Some((20, 5))
    );
}

#[tokio::test]
async fn chat_refusal_text_becomes_the_reply_text() {
    let frames = [
        json!({"choices": [{"delta": {"refusal": "I can't "}}]}),
        json!({"choices": [{"delta": {"refusal": "do that."}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
    ];
    let asked = ask(
        "openai",
        &request(),
        event_stream(frames.iter().map(named_event).collect()),
    )
    .await;
    assert_eq!(
        (asked.reply().text.as_str(), asked.reply().stop),
        ("I can't do that.", StopCause::Refusal)
    );
}

#[tokio::test]
async fn non_stream_body_is_malformed_and_web_page_is_invalid() {
    for wire in WIRES {
        for (body, kind, said) in [
            (
                r#"{"error": {"message": "no"}}"#,
                ModelErrorKind::Malformed,
                "it answered with an error: no",
            ),
            ("{}", ModelErrorKind::Invalid, "JSON that is neither an answer nor"),
            ("OK", ModelErrorKind::Malformed, "nothing in it is a piece of an answer"),
            ("", ModelErrorKind::Malformed, "its answer is empty"),
            (
                "<html>away</html>",
                ModelErrorKind::Invalid,
                "it answered with a web page",
            ),
        ] {
            let asked = ask(wire, &request(), event_stream(body.to_owned())).await;
            let error = asked.error();
            assert_eq!(error.kind, kind, "{wire} {body}");
            assert!(error.message.contains(said), "{wire} {body}: {error}");
        }
    }
}

/// An answer with `text` and a call, as a server sends it that does not stream.
fn whole_answer(wire: &str, text: &str) -> Value {
    let args = json!({"pattern": "x"});
    match wire {
        "openai" | "ollama" => {
            json!({"object": "chat.completion", "error": null, "choices": [{"index": 0, "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": text, "refusal": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": args.to_string()}}]}}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}})
        }
        "openai-responses" => json!({"object": "response", "error": null, "status": "completed", "output": [
            {"type": "message", "content": [{"type": "output_text", "text": text}]},
            {"type": "function_call", "id": "f1", "call_id": "c1", "name": "grep", "arguments": args.to_string()}],
            "usage": {"input_tokens": 20, "output_tokens": 5}}),
        "anthropic" => json!({"type": "message", "content": [
            {"type": "text", "text": text}, {"type": "tool_use", "id": "c1", "name": "grep", "input": args}],
            "stop_reason": "tool_use", "usage": {"input_tokens": 20, "output_tokens": 5}}),
        _ => json!({"candidates": [{"content": {"parts": [
            {"text": text}, {"functionCall": {"id": "c1", "name": "grep", "args": args}}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 5}}),
    }
}

#[tokio::test]
async fn complete_answer_in_one_piece_counts_although_it_is_no_stream() {
    let long = "word ".repeat(40_000);
    for wire in WIRES {
        let body = whole_answer(wire, &long);
        for sent in [body.to_string(), format!("{body:#}\n")] {
            let asked = ask(wire, &request(), event_stream(sent)).await;
            let reply = asked.reply();
            assert!(reply.text == long && reply.stop == StopCause::ToolCalls, "{wire}");
            let call = &reply.tool_calls[0];
            assert_eq!(
                (call.tool.as_str(), &call.args["pattern"]),
                ("grep", &json!("x")),
                "{wire}"
            );
            let usage = reply.usage.map(|usage| (usage.tokens_in, usage.tokens_out));
            assert_eq!(usage, Some((20, 5)), "{wire}");
        }
    }
    // A list of what would be events, as Gemini sends it.
    let list = json!([whole_answer("gemini", "Hello")]).to_string();
    assert_eq!(
        ask("gemini", &request(), event_stream(list)).await.reply().text,
        "Hello"
    );
}

#[tokio::test]
async fn requests_do_not_ask_for_compressed_answers() {
    for wire in WIRES {
        let asked = ask(wire, &request(), event_stream(event_text(wire, "Hello"))).await;
        assert_eq!(asked.header("accept-encoding"), None, "{wire}");
    }
}

/// Sends each of `answers`, lists of pieces, to the clients in turn.
fn serve(answers: Vec<Vec<u8>>) -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect(FAILS_TEST);
    let port = listener.local_addr().expect(FAILS_TEST).port();
    let server = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().expect(FAILS_TEST);
            read_request(&mut stream);
            let mut sent = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\
                             transfer-encoding: chunked\r\n\r\n"
                .to_vec();
            sent.extend(answer);
            stream.write_all(&sent).expect(FAILS_TEST);
        }
    });
    (port, server)
}

/// A chunked body of these pieces, each of which arrives by itself. The final chunk is missing.
fn chunked(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut sent = Vec::new();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        sent.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        sent.extend(piece);
        sent.extend(b"\r\n");
    }
    sent
}

fn ended(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut sent = chunked(pieces);
    sent.extend(b"0\r\n\r\n");
    sent
}

pub(crate) fn read_request(stream: &mut std::net::TcpStream) {
    let mut asked = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let count = stream.read(&mut bytes).expect(FAILS_TEST);
        asked.extend(&bytes[..count]);
        let text = String::from_utf8_lossy(&asked).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if length.is_some_and(|length| body.len() >= length.trim().parse::<usize>().expect(FAILS_TEST)) {
            return;
        }
    }
}

#[tokio::test]
async fn stream_parsing_is_independent_of_chunk_boundaries_and_line_endings() {
    for wire in WIRES {
        let plain = event_text(wire, "Hello");
        let whole = ask(wire, &request(), event_stream(plain.clone())).await;
        let mut forms: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
        for end in ["\n", "\r\n", "\r"] {
            let bytes = plain.replace('\n', end).into_bytes();
            let each = bytes.iter().map(|byte| vec![*byte]).collect();
            forms.push((format!("{end:?}, each byte by itself"), each));
            for at in 0..bytes.len() {
                let is_near = bytes[at.saturating_sub(2)..bytes.len().min(at + 2)].contains(&b'\r');
                if is_near || at % 7 == 0 {
                    let (before, after) = bytes.split_at(at);
                    forms.push((format!("{end:?} at {at}"), vec![before.to_vec(), after.to_vec()]));
                }
            }
        }
        if wire == "anthropic" {
            let nameless = plain.lines().filter(|line| !line.starts_with("event:"));
            let nameless: String = nameless.map(|line| format!("{line}\n")).collect();
            forms.push(("without names".to_owned(), vec![nameless.into_bytes()]));
        }
        let (port, server) = serve(forms.iter().map(|(_, pieces)| ended(pieces)).collect());
        let model = open(
            &format!("{wire}+http://127.0.0.1:{port}/v1:m")
                .parse()
                .expect(FAILS_TEST),
            &options(),
        )
        .expect(FAILS_TEST);
        for (how, _) in &forms {
            let mut pieces: Vec<Delta> = Vec::new();
            let reply = model.reply(&request(), &mut |piece| pieces.push(piece)).await;
            let reply = reply.unwrap_or_else(|error| panic!("{wire} {how}: {error}"));
            assert_eq!(&reply, whole.reply(), "{wire} {how}");
            assert_eq!(pieces, whole.pieces, "{wire} {how}");
        }
        server.join().expect(FAILS_TEST);
    }
}

#[tokio::test]
async fn complete_answer_counts_even_if_the_connection_breaks_e9_9() {
    let cut = async |wire: &str, text: &str| {
        let (port, server) = serve(vec![chunked(&[text.as_bytes().to_vec()])]);
        let address = format!("{wire}+http://127.0.0.1:{port}/v1:m")
            .parse()
            .expect(FAILS_TEST);
        let model = open(&address, &options()).expect(FAILS_TEST);
        let result = model.reply(&request(), &mut |_| {}).await;
        server.join().expect(FAILS_TEST);
        result
    };
    let of_chat = event_text("openai", "Hello").replace("data: [DONE]\n\n", "");
    let (without_usage, _) = of_chat.rsplit_once("data: ").expect(FAILS_TEST);
    let (without_reason, _) = without_usage.rsplit_once("data: ").expect(FAILS_TEST);
    for text in [of_chat.as_str(), without_usage] {
        let reply = cut("openai", text).await.unwrap_or_else(|error| panic!("{error}"));
        let ended_well = ask("openai", &request(), event_stream(text.to_owned())).await;
        assert_eq!(&reply, ended_well.reply());
        assert_eq!(reply.usage.is_some(), text == of_chat);
    }
    let error = cut("openai", without_reason).await.expect_err("it broke off");
    assert_eq!(error.kind, ModelErrorKind::Unavailable, "{error}");
    let of_messages = event_text("anthropic", "Hello");
    let (without_end, _) = of_messages.rsplit_once("event: message_stop").expect(FAILS_TEST);
    let (without_reason, _) = without_end.rsplit_once("event: ").expect(FAILS_TEST);
    let reply = cut("anthropic", without_end)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        &reply,
        ask("anthropic", &request(), event_stream(of_messages.clone()))
            .await
            .reply()
    );
    let error = cut("anthropic", without_reason).await.expect_err("it broke off");
    assert_eq!(error.kind, ModelErrorKind::Unavailable, "{error}");
}
