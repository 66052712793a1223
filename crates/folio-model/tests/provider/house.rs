//! A server with given answers, and a model that asks it.

use folio_model::{
    Delta, Message, ModelError, ModelKeys, ModelOptions, Reply, Request, Role, SchemaForm, Secret, Speaker, ToolCall,
    ToolDescription, open,
};
use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// The wires, as model addresses begin.
pub(crate) const WIRES: [&str; 5] = ["openai", "openai-responses", "anthropic", "gemini", "ollama"];

/// Why failures are not handled here.
pub(crate) const FAILS_TEST: &str = "a test fails by it";

/// A secret key.
pub(crate) const KEY: &str = "sk-test-not-for-eyes-4711";

/// The requests and the outcome.
pub(crate) struct Exchange {
    pub(crate) result: Result<Reply, ModelError>,
    pub(crate) pieces: Vec<Delta>,
    /// The URL, the head and the body of each request.
    pub(crate) requests: Vec<wiremock::Request>,
}

impl Exchange {
    /// The body of the only request.
    pub(crate) fn body(&self) -> Value {
        assert_eq!(self.requests.len(), 1, "{:?}", self.result);
        self.requests[0].body_json().expect(FAILS_TEST)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.requests[0].headers.get(name)?.to_str().ok()
    }

    pub(crate) fn reply(&self) -> &Reply {
        self.result.as_ref().unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn error(&self) -> &ModelError {
        self.result.as_ref().expect_err("it answered")
    }
}

pub(crate) fn options() -> ModelOptions {
    ModelOptions {
        keys: ModelKeys {
            own: Some(Secret::new(KEY)),
            ..ModelKeys::default()
        },
        ..ModelOptions::default()
    }
}

/// Asks the model `m` over `wire`, whose server sends `answer`.
pub(crate) async fn ask(wire: &str, request: &Request, answer: ResponseTemplate) -> Exchange {
    ask_with(wire, "m", request, answer, &options()).await
}

pub(crate) async fn ask_in(form: SchemaForm, wire: &str, request: &Request) -> Exchange {
    let options = ModelOptions {
        schema: form,
        ..options()
    };
    ask_with(wire, "m", request, events(wire, "Hello"), &options).await
}

pub(crate) async fn ask_with(
    wire: &str,
    name: &str,
    request: &Request,
    answer: ResponseTemplate,
    options: &ModelOptions,
) -> Exchange {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(answer).mount(&server).await;
    let address = format!("{wire}+{}/v1:{name}", server.uri()).parse().expect(FAILS_TEST);
    let model = open(&address, options).expect(FAILS_TEST);
    let mut pieces = Vec::new();
    let result = model.reply(request, &mut |piece| pieces.push(piece)).await;
    Exchange {
        result,
        pieces,
        requests: server.received_requests().await.expect(FAILS_TEST),
    }
}

pub(crate) fn message_from(speaker: Speaker, text: &str) -> Message {
    Message {
        speaker,
        text: text.to_owned(),
        tool_calls: Vec::new(),
        answers: None,
    }
}

/// A request with rules and one message.
pub(crate) fn request() -> Request {
    Request {
        role: Role::Executor,
        messages: vec![
            message_from(Speaker::System, "Be brief."),
            message_from(Speaker::User, "Good day to you all"),
        ],
        tools: Vec::new(),
        answer_schema: None,
        tokens_max: 777,
        temperature: None,
        idempotency_key: "run_1-call_2".to_owned(),
    }
}

/// A conversation in which a model has called a tool twice.
pub(crate) fn with_tools() -> Request {
    let mut request = request();
    request.tools = vec![ToolDescription {
        name: "grep".to_owned(),
        description: "Finds lines.".into(),
        args_schema: json!({"type": "object", "properties": {"pattern": {"type": "string"}}}).into(),
    }];
    let call = |id: &str, args| ToolCall {
        id: id.to_owned(),
        tool: "grep".to_owned(),
        args,
    };
    request.messages.push(Message {
        tool_calls: vec![call("a", json!({"pattern": "x"})), call("b", json!("{\"patt"))],
        ..message_from(Speaker::Assistant, "")
    });
    for (id, text) in [("a", "line 1"), ("b", "not readable")] {
        request.messages.push(Message {
            answers: Some(id.to_owned()),
            ..message_from(Speaker::Tool, text)
        });
    }
    request
}

pub(crate) fn sse(frames: impl IntoIterator<Item = Value>) -> ResponseTemplate {
    event_stream(text_of(frames))
}

fn text_of(frames: impl IntoIterator<Item = Value>) -> String {
    frames.into_iter().map(|frame| named_event(&frame)).collect()
}

/// One event with a name, as Anthropic sends it.
pub(crate) fn named_event(frame: &Value) -> String {
    match frame["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {frame}\n\n"),
        None => format!("data: {frame}\n\n"),
    }
}

pub(crate) fn event_stream(text: String) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(text, "text/event-stream")
}

/// An answer with `text` that cost 20 input tokens, of which 8 were cached, and 5 output tokens, of which 2 were for
/// reasoning.
pub(crate) fn events(wire: &str, text: &str) -> ResponseTemplate {
    event_stream(event_text(wire, text))
}

/// What a provider of `wire` is sent by a model that is asked `request` twice and replies "Hello" both times, if it
/// answers as `respond` says.
pub(crate) async fn sent_for_two_replies(
    wire: &'static str,
    request: &Request,
    respond: impl Fn(&wiremock::Request) -> ResponseTemplate + Send + Sync + 'static,
) -> Vec<wiremock::Request> {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(respond).mount(&server).await;
    let address = format!("{wire}+{}/v1:m", server.uri()).parse().expect(FAILS_TEST);
    let model = open(&address, &options()).expect(FAILS_TEST);
    for _ in 0..2 {
        let reply = model.reply(request, &mut |_| {}).await;
        assert_eq!(reply.expect(wire).text, "Hello", "{wire}");
    }
    server.received_requests().await.expect(FAILS_TEST)
}

/// The same answer as sent over the wire.
pub(crate) fn event_text(wire: &str, text: &str) -> String {
    match wire {
        "openai" | "ollama" => {
            let frames = [
                json!({"choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "Hm."}}]}),
                json!({"choices": [{"index": 0, "delta": {"content": text}}]}),
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25,
                       "prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 2}}}),
            ];
            frames.iter().map(named_event).collect::<String>() + "data: [DONE]\n\n"
        }
        "openai-responses" => text_of([
            json!({"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "Hm."}),
            json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": text}),
            json!({"type": "response.completed", "response": {"id": "r", "object": "response", "model": "m", "status": "completed",
                   "output": [], "usage": {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25,
                   "input_tokens_details": {"cached_tokens": 8}, "output_tokens_details": {"reasoning_tokens": 2}}}}),
        ]),
        "anthropic" => text_of([
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 12, "cache_read_input_tokens": 8, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "ping"}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": text}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                   "usage": {"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2}}}),
            json!({"type": "message_stop"}),
        ]),
        "gemini" => text_of([
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hm.", "thought": true}]}}]}),
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}],
                   "usageMetadata": {"promptTokenCount": 20, "cachedContentTokenCount": 8, "candidatesTokenCount": 3,
                   "thoughtsTokenCount": 2, "totalTokenCount": 25}}),
        ]),
        other => panic!("there is no {other}"),
    }
}
