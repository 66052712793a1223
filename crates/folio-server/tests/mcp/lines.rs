//! Messages that a client writes by hand, because a library would not write them.

use folio_server::{Mcp, McpOptions, ToolSet};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use crate::pair::{options, runner};

/// The largest size of a message, in bytes.
const MESSAGE_MAX: usize = 4 * 1024 * 1024;

/// A client that has begun a session.
struct Raw {
    out: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    served: JoinHandle<Result<(), folio_server::McpError>>,
}

impl Raw {
    async fn new() -> Self {
        Self::with(options()).await
    }

    async fn with(options: McpOptions) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(theirs);
        let server = Mcp::new(runner().await, options);
        let served = tokio::spawn(server.converse(read, write, std::future::pending()));
        let (ours, out) = tokio::io::split(ours);
        let lines = BufReader::new(ours).lines();
        let mut raw = Self { out, lines, served };
        let begins = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}});
        raw.request(&begins.to_string()).await;
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        raw.send_line(&begun.to_string()).await;
        raw
    }

    async fn send_line(&mut self, line: &str) {
        self.out.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// The answer to `line`.
    async fn request(&mut self, line: &str) -> Value {
        self.send_line(line).await;
        let line = self.lines.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The code, the id and the message of the error that answers `line`.
    async fn refused(&mut self, line: &str) -> (i64, Value, String) {
        let answer = self.request(line).await;
        let error = &answer["error"];
        let code = error["code"].as_i64().unwrap_or_else(|| panic!("{answer}"));
        (code, answer["id"].clone(), error["message"].to_string())
    }

    async fn end(mut self) {
        self.out.shutdown().await.unwrap();
        self.served.await.unwrap().unwrap();
    }
}

/// A call of `scratch_add` whose arguments are this text.
fn added(id: u32, arguments: &str) -> String {
    format!(
        r#"{{"method":"tools/call","params":{{"name":"scratch_add","arguments":{arguments}}},"jsonrpc":"2.0","id":{id}}}"#
    )
}

#[tokio::test]
async fn lone_surrogate_is_replaced_instead_of_failing_the_call() {
    let mut raw = Raw::new().await;
    let line = added(1, r#"{"kind":"todo","title":"cut","body":"cut emoji \ud83d"}"#);
    let answer = raw.request(&line).await;
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(1), &json!(false)),
        "{answer}"
    );
    let read =
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"scratch_read","arguments":{"id":"e1"}}}"#;
    let answer = raw.request(read).await;
    assert!(answer.to_string().contains("cut emoji \u{fffd}"), "{answer}");
    raw.end().await;
}

#[tokio::test]
async fn unparsable_request_is_refused_under_its_id() {
    let mut raw = Raw::new().await;
    let (code, id, message) = raw.refused(&added(1, r#"{"progress":1e}"#)).await;
    assert_eq!((code, id), (-32700, json!(1)));
    assert!(message.contains("invalid number"), "{message}");
    // A number that has no room is none of the message's faults.
    let line = added(4, r#"{"kind":"task","title":"t","progress":1e999}"#);
    let answer = raw.request(&line).await;
    assert_eq!((&answer["id"], &answer["error"]), (&json!(4), &Value::Null), "{answer}");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let (code, id, message) = raw.refused(&added(2, &format!(r#"{{"x":{deep}}}"#))).await;
    assert_eq!((code, id), (-32700, json!(2)));
    assert!(message.contains("recursion limit"), "{message}");
    let (code, id, _) = raw.refused("this is no message").await;
    assert_eq!((code, id), (-32700, Value::Null));
    // And it goes on.
    let answer = raw.request(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).await;
    assert_eq!(answer["id"], 3);
    raw.end().await;
}

#[tokio::test]
async fn message_over_the_size_limit_is_refused_under_its_id() {
    let mut raw = Raw::new().await;
    let ping = |id: u32, length: usize| {
        let frame = format!(r#"{{"method":"ping","params":{{"x":""}},"jsonrpc":"2.0","id":{id}}}"#);
        let filled = format!(r#""x":"{}""#, "x".repeat(length - frame.len()));
        frame.replace(r#""x":"""#, &filled)
    };
    let answer = raw.request(&ping(1, MESSAGE_MAX)).await;
    assert_eq!((&answer["id"], &answer["error"]), (&json!(1), &Value::Null), "{answer}");
    for (n, length) in [(2, MESSAGE_MAX + 1), (3, 3 * MESSAGE_MAX)] {
        let (code, id, message) = raw.refused(&ping(n, length)).await;
        assert_eq!((code, id), (-32600, json!(n)));
        assert!(message.contains("4194304 bytes"), "{message}");
    }
    let answer = raw.request(&ping(4, 100)).await;
    assert_eq!((&answer["id"], &answer["error"]), (&json!(4), &Value::Null), "{answer}");
    raw.end().await;
}

#[tokio::test]
async fn invalid_params_are_distinguished_from_unknown_methods() {
    let mut raw = Raw::new().await;
    for (method, params, reason) in [
        ("tools/call", r#"{"name":"scratch_read","arguments":[]}"#, "arguments: "),
        ("tools/call", "{}", "missing field `name`"),
        ("tools/call", r#"{"name":5,"arguments":{}}"#, "name: "),
        ("resources/read", "{}", "missing field `uri`"),
        ("prompts/get", r#"{"name":"resume","arguments":7}"#, "arguments: "),
        ("completion/complete", "{}", "missing field `ref`"),
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let (code, id, message) = raw.refused(&line).await;
        assert_eq!((code, id), (-32602, json!(1)), "{line}: {message}");
        assert!(
            message.contains(method) && message.contains(reason),
            "{line}: {message}"
        );
    }
    // Tasks are offered with runs only.
    for method in ["no/such/method", "tasks/get"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{{}}}}"#);
        let (code, id, _) = raw.refused(&line).await;
        assert_eq!((code, id), (-32601, json!(2)), "{line}");
    }
    raw.end().await;
}

#[tokio::test]
async fn request_id_in_use_is_refused_and_reusable_afterwards() {
    let mut options = options();
    options.sets = vec![ToolSet::Run];
    let mut raw = Raw::with(options).await;
    let wait = r#"{"title":"t","steps":[{"id":"a","do":{"tool":"wait","args":{"ms":60000}}}]}"#;
    raw.send_line(&format!(
        r#"{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{{"name":"run_start","arguments":{{"plan":{wait}}}}}}}"#
    ))
    .await;
    let ping = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let (code, id, message) = raw.refused(&ping("5")).await;
    assert_eq!((code, id), (-32600, json!(5)), "{message}");
    // A text is another id.
    assert_eq!(raw.request(&ping(r#""5""#)).await["id"], "5");
    assert_eq!(raw.request(&ping("6")).await["result"], json!({}));
    assert_eq!(raw.request(&ping("6")).await["result"], json!({}));
    raw.end().await;
}

#[tokio::test]
async fn unrepresentable_request_id_is_quoted_in_the_refusal() {
    let mut raw = Raw::new().await;
    for (id, told) in [
        ("18446744073709551615", "18446744073709551615"),
        ("1.5", "1.5"),
        ("123456789012345678901234567890", "1.2345678901234568e+29"),
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let (code, answered, message) = raw.refused(&line).await;
        assert_eq!((code, answered), (-32600, Value::Null), "{message}");
        assert!(
            message.contains("the id of a request") && message.contains(told),
            "{message}"
        );
    }
    raw.end().await;
}
