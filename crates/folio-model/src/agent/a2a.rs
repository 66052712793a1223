//! An agent on another machine, by the Agent2Agent protocol, version 1.0, in its JSON-RPC form: it is given the task,
//! and polled until it is done (E9.17).

use std::time::Duration;

use a2a::{
    AgentCard, Artifact, CancelTaskRequest, GetTaskRequest, JsonRpcId, JsonRpcRequest, JsonRpcResponse, Message, Part,
    PartContent, SendMessageConfiguration, SendMessageRequest, SendMessageResponse, Task, TaskState, error_code,
    methods,
};
use folio_memory::excerpt::short_line;
use folio_memory::readable::read;
use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ModelErrorKind;
use crate::provider::retry_after;
use crate::reach::unreached;

/// The path of an agent's card below its address.
const CARD: &str = ".well-known/agent-card.json";
/// The name of the JSON-RPC binding on agent cards.
const BINDING: &str = "JSONRPC";
/// Maximum length, in characters, of the agent's own words about a failure.
const PROBLEM_CHARS: usize = 400;
/// Time limit for requests that need no work.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Why it did not answer.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) kind: ModelErrorKind,
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
}

impl Failed {
    pub(super) fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
        }
    }
}

/// The progress of a task.
#[derive(Debug)]
pub(super) enum Progress {
    /// It is working on the task with this id.
    Working(String),
    /// It has stopped working, with this result.
    Heard(Heard),
    /// It waits until somebody has logged in.
    WantsLogin {
        /// The agent's id of the task.
        task: String,
        /// The agent's message.
        words: String,
    },
    /// The task failed, for this reason: what the agent reports about its work, not an error of the request.
    Failed(Failed),
}

/// The result once an agent is no longer working.
#[derive(Debug)]
pub(super) enum Heard {
    /// It is done, and this is the outcome.
    Done(String),
    /// It needs input before it continues.
    Asking {
        /// The agent's id of the task.
        task: String,
        /// The agent's message.
        words: String,
    },
}

/// An agent that can be reached.
#[derive(Debug)]
pub(super) struct Remote {
    client: Client,
    /// The URL that requests go to.
    url: Url,
    authorisation: Option<HeaderValue>,
    /// The tenant, for agents that share a URL, if the card names one.
    tenant: Option<String>,
    /// Maximum size of an answer in bytes.
    answer_bytes: usize,
}

impl Remote {
    /// Finds the agent by its card below `address`. Requests the card and nothing else.
    pub(super) async fn find(
        client: Client,
        address: &str,
        authorisation: Option<HeaderValue>,
        answer_bytes: usize,
    ) -> Result<Self, Failed> {
        let invalid = |message: String| Failed::new(ModelErrorKind::Invalid, message);
        let base = Url::parse(&format!("{}/", address.trim_end_matches('/')))
            .map_err(|_| invalid("its address is not a URL".to_owned()))?;
        let card_at = base
            .join(CARD)
            .map_err(|_| invalid("its address is not a URL".to_owned()))?;
        let mut remote = Self {
            client,
            url: base,
            authorisation,
            tenant: None,
            answer_bytes,
        };
        let http_request = remote.authorised(remote.client.get(card_at)).timeout(REQUEST_TIMEOUT);
        let body = remote.read_body(http_request, LostAnswer::NothingBegan).await?;
        let card: AgentCard = read(&body).map_err(|_| {
            invalid(format!(
                "its card, {CARD}, is not a card of Agent2Agent 1.0; is `url` right?"
            ))
        })?;
        let is_supported = |version: &str| version == "1" || version.starts_with("1.");
        let interface = card.supported_interfaces.into_iter().find(|interface| {
            interface.protocol_binding.eq_ignore_ascii_case(BINDING) && is_supported(&interface.protocol_version)
        });
        let Some(interface) = interface else {
            return Err(invalid(format!(
                "its card, {CARD}, names no interface {BINDING} of a version 1.x"
            )));
        };
        let url = remote
            .url
            .join(&interface.url)
            .map_err(|_| invalid("the address on its card is not a URL".to_owned()))?;
        // The token and the task must not be sent to a host that somebody else names.
        if url.origin() != remote.url.origin() {
            return Err(invalid(format!(
                "its card points to another server, {}; put that address into the settings if it is the right one",
                url.origin().ascii_serialization()
            )));
        }
        (remote.url, remote.tenant) = (url, interface.tenant);
        Ok(remote)
    }

    /// Sends it `words`: a new task, or the input that the task `of_task` asked for. `id` is the same if the message is
    /// repeated. Afterwards the agent may be working, even if no answer arrives.
    pub(super) async fn send(
        &self,
        words: String,
        of_task: Option<&str>,
        id: &str,
        time: Duration,
    ) -> Result<Progress, Failed> {
        let message = Message {
            message_id: id.to_owned(),
            task_id: of_task.map(str::to_owned),
            ..Message::new(a2a::Role::User, vec![Part::text(words)])
        };
        let request = SendMessageRequest {
            message,
            configuration: Some(SendMessageConfiguration {
                accepted_output_modes: Some(vec!["text/plain".to_owned(), "application/json".to_owned()]),
                task_push_notification_config: None,
                history_length: Some(0),
                return_immediately: Some(true),
            }),
            metadata: None,
            tenant: self.tenant.clone(),
        };
        // Some agents answer only when they are done, whatever is requested.
        let response: SendMessageResponse = self
            .call(methods::SEND_MESSAGE, &request, time, LostAnswer::MayHaveBegun)
            .await?;
        match response {
            SendMessageResponse::Message(message) => Ok(done(text_of(&message.parts))),
            SendMessageResponse::Task(task) => Ok(progress(task)),
        }
    }

    /// Polls the task `id`.
    pub(super) async fn poll_task(&self, id: &str) -> Result<Progress, Failed> {
        let request = GetTaskRequest {
            id: id.to_owned(),
            history_length: Some(0),
            tenant: self.tenant.clone(),
        };
        let lost = LostAnswer::NothingBegan;
        let task: Task = self.call(methods::GET_TASK, &request, REQUEST_TIMEOUT, lost).await?;
        if task.id != id {
            let message = format!("its answer to {} is about another task", methods::GET_TASK);
            return Err(Failed::new(lost.unreadable_kind(), message));
        }
        Ok(progress(task))
    }

    /// Cancels the task `id`.
    pub(super) async fn cancel(&self, id: &str) -> Result<(), Failed> {
        let request = CancelTaskRequest {
            id: id.to_owned(),
            metadata: None,
            tenant: self.tenant.clone(),
        };
        let _stopped: Value = self
            .call(
                methods::CANCEL_TASK,
                &request,
                REQUEST_TIMEOUT,
                LostAnswer::NothingBegan,
            )
            .await?;
        Ok(())
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        time: Duration,
        lost: LostAnswer,
    ) -> Result<T, Failed> {
        let unreadable =
            |problem: &str| Failed::new(lost.unreadable_kind(), format!("its answer to {method} {problem}"));
        let params = serde_json::to_value(params).map_err(|_| unreadable("was never asked for"))?;
        let request = JsonRpcRequest::new(JsonRpcId::Number(1), method, Some(params));
        let http_request = self
            .authorised(self.client.post(self.url.clone()))
            .header(a2a::SVC_PARAM_VERSION, a2a::VERSION)
            .timeout(time)
            .json(&request);
        let body = self.read_body(http_request, lost).await?;
        let answer: JsonRpcResponse = read(&body).map_err(|_| unreadable("is no JSON-RPC"))?;
        if let Some(error) = answer.error {
            let kind = match error.code {
                error_code::METHOD_NOT_FOUND
                | error_code::INVALID_PARAMS
                | error_code::INVALID_REQUEST
                | error_code::VERSION_NOT_SUPPORTED
                | error_code::CONTENT_TYPE_NOT_SUPPORTED
                | error_code::UNSUPPORTED_OPERATION => ModelErrorKind::Invalid,
                // That it no longer knows the task does not say what it did.
                error_code::TASK_NOT_FOUND => ModelErrorKind::Unknown,
                _ => ModelErrorKind::Failed,
            };
            let message = format!(
                "it refuses {method} ({}): {}",
                error.code,
                short_message(&error.message)
            );
            return Err(Failed::new(kind, message));
        }
        let result = answer.result.unwrap_or(Value::Null);
        serde_json::from_value(result).map_err(|_| unreadable("does not follow the protocol"))
    }

    fn authorised(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.header(ACCEPT, "application/json");
        match &self.authorisation {
            Some(value) => request.header(AUTHORIZATION, value.clone()),
            None => request,
        }
    }

    /// The complete body of an answer that is not an error.
    async fn read_body(&self, request: RequestBuilder, lost: LostAnswer) -> Result<Vec<u8>, Failed> {
        let answer = request.send().await.map_err(|error| {
            if error.is_connect() {
                Failed::new(ModelErrorKind::Unreached, unreached(&error, self.url.as_str()))
            } else if error.is_timeout() {
                Failed::new(lost.lost_kind(), "it did not answer in time")
            } else {
                Failed::new(lost.lost_kind(), "the connection to it broke off")
            }
        })?;
        let status = answer.status();
        if !status.is_success() {
            return Err(Failed {
                kind: match status {
                    StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ModelErrorKind::Unauthorised,
                    StatusCode::TOO_MANY_REQUESTS => ModelErrorKind::RateLimited,
                    StatusCode::SERVICE_UNAVAILABLE => ModelErrorKind::Unreached,
                    status if status.is_server_error() => lost.lost_kind(),
                    _ => ModelErrorKind::Invalid,
                },
                message: status_message(status),
                retry_after: retry_after(answer.headers()),
            });
        }
        let (mut body, mut pieces) = (Vec::new(), answer.bytes_stream());
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| Failed::new(lost.lost_kind(), "its answer broke off"))?;
            if body.len() + piece.len() > self.answer_bytes {
                let message = format!("it answered more than {} bytes", self.answer_bytes);
                return Err(Failed::new(lost.unreadable_kind(), message));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}

/// What an HTTP error status means, and what can be done.
fn status_message(status: StatusCode) -> String {
    let number = status.as_u16();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            format!("it denies access (HTTP {number}): `token` is missing or wrong")
        }
        status if status.is_redirection() => {
            format!("it redirects (HTTP {number}), which is not followed: put the right address into `url`")
        }
        StatusCode::TOO_MANY_REQUESTS => format!("it answers with HTTP {number}"),
        status if status.is_client_error() => format!("it answers with HTTP {number}; is `url` right?"),
        _ => format!("it answers with HTTP {number}"),
    }
}

/// What a lost answer implies.
#[derive(Debug, Clone, Copy)]
enum LostAnswer {
    /// The request can be repeated.
    NothingBegan,
    /// It is unknown whether the agent is working.
    MayHaveBegun,
}

impl LostAnswer {
    fn lost_kind(self) -> ModelErrorKind {
        match self {
            Self::NothingBegan => ModelErrorKind::Unreached,
            Self::MayHaveBegun => ModelErrorKind::Unknown,
        }
    }

    /// An answer that cannot be read would not be readable the next time.
    fn unreadable_kind(self) -> ModelErrorKind {
        match self {
            Self::NothingBegan => ModelErrorKind::Invalid,
            Self::MayHaveBegun => ModelErrorKind::Unknown,
        }
    }
}

fn progress(task: Task) -> Progress {
    let status_text = task.status.message.as_ref().map(|message| text_of(&message.parts));
    let detail = status_text.as_deref().map(short_message).unwrap_or_default();
    let failed = |problem| Progress::Failed(Failed::new(ModelErrorKind::Failed, with_detail(problem, &detail)));
    match task.status.state {
        TaskState::Submitted | TaskState::Working | TaskState::Unspecified => Progress::Working(task.id),
        TaskState::Completed => {
            let artifacts = task.artifacts.unwrap_or_default();
            let texts = artifacts.iter().map(|artifact: &Artifact| text_of(&artifact.parts));
            // Its final message goes last, where the answer is looked for, unless it has artifacts.
            let all: Vec<String> = status_text
                .into_iter()
                .chain(texts)
                .filter(|text| !text.is_empty())
                .collect();
            done(all.join("\n\n"))
        }
        TaskState::Failed => failed("it says that it failed"),
        TaskState::Rejected => failed("it rejected the task"),
        TaskState::Canceled => failed("it was cancelled there"),
        TaskState::InputRequired => {
            let question = status_text.unwrap_or_default();
            Progress::Heard(Heard::Asking {
                task: task.id,
                words: question,
            })
        }
        TaskState::AuthRequired => Progress::WantsLogin {
            task: task.id,
            words: detail,
        },
    }
}

/// The result of a finished task. An agent without an answer is not asked again: what it did stays done.
fn done(text: String) -> Progress {
    if text.trim().is_empty() {
        Progress::Failed(Failed::new(ModelErrorKind::Failed, "it is done and gave no answer"))
    } else {
        Progress::Heard(Heard::Done(text))
    }
}

/// The text of all parts, one after the other. Files are named and not read.
fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| {
        let name = part.filename.as_deref().unwrap_or("without a name");
        match &part.content {
            PartContent::Text(text) => text.clone(),
            PartContent::Data(data) => data.to_string(),
            PartContent::Raw(bytes) => format!("[a file {name}, {} bytes, which was not kept]", bytes.len()),
            PartContent::Url(url) => format!("[a file {name}, {url}]"),
        }
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// `problem` happened, with the agent's own message if there is one.
pub(super) fn with_detail(problem: &str, detail: &str) -> String {
    match detail {
        "" => problem.to_owned(),
        detail => format!("{problem}: {detail}"),
    }
}

/// The agent's message in one line of bounded length.
pub(super) fn short_message(text: &str) -> String {
    short_line(text, PROBLEM_CHARS)
}
