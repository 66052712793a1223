//! Endless answers, and answers longer than a model allows.

use std::io::Write as _;
use std::net::TcpListener;
use std::time::Duration;

use folio_model::{Delta, ModelError, ModelErrorKind, ModelOptions, Patience, Reply, StopCause, open};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use wiremock::ResponseTemplate;

use crate::frames::read_request;
use crate::house::{
    FAILS_TEST, WIRES, ask, event_stream, event_text, events, named_event, options, request, sent_for_two_replies,
};

/// More bytes than should be read of a wrong answer.
const SENT_BYTES_MAX: usize = 128 * 1024 * 1024;

/// The error for an answer that begins with `head` and repeats `block` for as long as it is read; and how much was
/// sent.
async fn error_of_endless_answer(wire: &str, head: &'static str, block: &'static str) -> (ModelError, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").expect(FAILS_TEST);
    let port = listener.local_addr().expect(FAILS_TEST).port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect(FAILS_TEST);
        read_request(&mut stream);
        stream.write_all(head.as_bytes()).expect(FAILS_TEST);
        let block = block.repeat(64 * 1024 / block.len());
        let mut sent = 0;
        while sent < SENT_BYTES_MAX && stream.write_all(block.as_bytes()).is_ok() {
            sent += block.len();
        }
        sent
    });
    let address = format!("{wire}+http://127.0.0.1:{port}/v1:m")
        .parse()
        .expect(FAILS_TEST);
    let model = open(&address, &options()).expect(FAILS_TEST);
    let error = model.reply(&request(), &mut |_| {}).await.expect_err("it answered");
    // What reads has to run to be gone.
    let sent = tokio::task::spawn_blocking(move || server.join().expect(FAILS_TEST));
    (error, sent.await.expect(FAILS_TEST))
}

#[tokio::test]
async fn endless_error_body_is_read_up_to_a_limit() {
    for wire in WIRES {
        let head = "HTTP/1.1 503 Busy\r\nretry-after: 7\r\nconnection: close\r\n\r\n{\"error\": {\"message\": \"";
        let (error, sent) = error_of_endless_answer(wire, head, "busy ").await;
        assert_eq!(error.kind, ModelErrorKind::Unreached, "{wire}: {error}");
        assert_eq!(error.retry_after.map(|wait| wait.as_secs()), Some(7), "{wire}");
        assert!(sent < SENT_BYTES_MAX / 4, "{wire}: {sent}");
    }
}

#[tokio::test]
async fn endless_stream_event_is_malformed() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    for wire in WIRES {
        // In one line, in many lines of one event, and in no event.
        for block in ["data: x", "data: x\n", "<p>x</p>"] {
            let (error, sent) = error_of_endless_answer(wire, head, block).await;
            assert_eq!(error.kind, ModelErrorKind::Malformed, "{wire} {block:?}: {error}");
            assert!(error.to_string().contains("bytes"), "{wire} {block:?}: {error}");
            assert!(sent < SENT_BYTES_MAX / 4, "{wire} {block:?}: {sent}");
        }
    }
}

#[tokio::test]
async fn endless_answer_is_malformed() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let (error, sent) =
        error_of_endless_answer("openai", head, "data: {\"choices\": []}\n\n: and so on, and so on\n\n").await;
    assert_eq!(error.kind, ModelErrorKind::Malformed, "{error}");
    assert!(sent < SENT_BYTES_MAX, "{sent}");
}

#[tokio::test]
async fn megabyte_answer_in_a_single_event_is_accepted() {
    let text = "word ".repeat(200_000);
    let frame = json!({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]});
    let asked = ask("openai", &request(), event_stream(named_event(&frame))).await;
    assert_eq!(asked.reply().text, text);
}

/// The most tokens of an answer in a body.
fn answer_tokens_in(wire: &str, body: &Value) -> Option<u64> {
    let keys: &[&str] = match wire {
        "gemini" => &["/generationConfig/maxOutputTokens"],
        _ => &["/max_tokens", "/max_completion_tokens", "/max_output_tokens"],
    };
    keys.iter().find_map(|key| body.pointer(key)?.as_u64())
}

#[tokio::test]
async fn answer_longer_than_a_model_allows_is_asked_for_with_the_limit_that_the_provider_names() {
    let mut request = request();
    request.tokens_max = 16_384;
    for wire in WIRES {
        let respond = move |asked: &wiremock::Request| {
            let body: Value = asked.body_json().expect(FAILS_TEST);
            match answer_tokens_in(wire, &body).expect(FAILS_TEST) {
                0..=8_192 => events(wire, "Hello"),
                more => {
                    ResponseTemplate::new(400).set_body_json(json!({"error": {"type": "invalid_request_error",
                        "message": format!("max_tokens: {more} > 8192, which is the maximum allowed for m-20241022")}}))
                }
            }
        };
        let asked = sent_for_two_replies(wire, &request, respond).await;
        let limits = asked
            .iter()
            .map(|asked| answer_tokens_in(wire, &asked.body_json().expect(FAILS_TEST)));
        let limits: Vec<u64> = limits.flatten().collect();
        assert_eq!(
            limits,
            [16_384, 8_192, 8_192],
            "{wire}: the limit is known from then on"
        );
    }
}

/// What comes of an answer of `wire` with `text`, whose server then sends a comment each second and never ends the
/// connection; and how long that takes.
async fn reply_held_open(wire: &str, text: String, patience: Patience) -> (Result<Reply, ModelError>, Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").expect(FAILS_TEST);
    let port = listener.local_addr().expect(FAILS_TEST).port();
    let (read, is_read) = std::sync::mpsc::channel();
    // Time does not pass by itself until this is over.
    let sent = tokio::task::spawn_blocking(move || {
        let (mut stream, _) = listener.accept().expect(FAILS_TEST);
        read_request(&mut stream);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(format!("{head}{text}").as_bytes()).expect(FAILS_TEST);
        is_read.recv().expect(FAILS_TEST);
        stream
    });
    let pings = tokio::spawn(async move {
        let stream = sent.await.expect(FAILS_TEST);
        stream.set_nonblocking(true).expect(FAILS_TEST);
        let mut stream = tokio::net::TcpStream::from_std(stream).expect(FAILS_TEST);
        while stream.write_all(b": ping\n\n").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let options = ModelOptions { patience, ..options() };
    let address = format!("{wire}+http://127.0.0.1:{port}/v1:m");
    let model = open(&address.parse().expect(FAILS_TEST), &options).expect(FAILS_TEST);
    let begun = tokio::time::Instant::now();
    let mut read = Some(read);
    let tell = &mut |piece| {
        // With the last piece, the rest of the answer has been received, too.
        if matches!(piece, Delta::Text(_)) {
            read.take().expect(FAILS_TEST).send(()).expect(FAILS_TEST);
        }
    };
    let result = model.reply(&request(), tell).await;
    pings.abort();
    (result, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn complete_answer_counts_soon_although_the_connection_is_kept_open_e9_9() {
    let endings = [("openai", "data: [DONE]"), ("anthropic", "event: message_stop")];
    for (wire, ending) in endings {
        let whole = event_text(wire, "Hello");
        let (without_end, _) = whole.rsplit_once(ending).expect(FAILS_TEST);
        // The time for the whole answer may end while the rest is waited for.
        for whole_s in [600, 1] {
            let patience = Patience {
                whole_s,
                ..Patience::default()
            };
            let (result, time) = reply_held_open(wire, without_end.to_owned(), patience).await;
            let reply = result.unwrap_or_else(|error| panic!("{wire} {whole_s}: {error}"));
            assert_eq!((reply.text.as_str(), reply.stop), ("Hello", StopCause::Done), "{wire}");
            let usage = reply.usage.map(|usage| (usage.tokens_in, usage.tokens_out));
            assert_eq!(usage, Some((20, 5)), "{wire}");
            assert!(time <= Duration::from_secs(3), "{wire}: {time:?}");
        }
    }
    // An empty reason is none, so there may be more.
    let begun = json!({"choices": [{"delta": {"content": "Hel"}, "finish_reason": ""}]});
    let (result, _) = reply_held_open("openai", named_event(&begun), Patience::default()).await;
    assert_eq!(result.expect_err(FAILS_TEST).kind, ModelErrorKind::Unavailable);
}
