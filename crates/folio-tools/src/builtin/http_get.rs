//! `http_get`: requests a page or data from a web server.

mod answer;
mod client;
mod hop;

use async_trait::async_trait;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};

use self::answer::Answer;
use self::client::Clients;
use self::hop::Hop;
use crate::arguments::{parse, parse_timeout};
use crate::context::ToolContext;
use crate::hosts::HostList;
use crate::response::{FailureKind, ToolError, ToolResponse};
use crate::tool::{ArgKind, Effect, Need, Tool, ToolRequest, ToolSpec};

/// The longest address that is requested, in bytes.
const URL_BYTES: usize = 8_192;
/// How many redirects a call follows.
const REDIRECTS: usize = 5;

/// The request headers that a call may set. Others identify the caller, which no journal may keep, or belong to the
/// connection.
const HEADERS: [&str; 7] = [
    "accept",
    "accept-language",
    "if-modified-since",
    "if-none-match",
    "range",
    "user-agent",
    "x-github-api-version",
];

/// Sends requests to web servers, within the hosts that the run allows.
#[derive(Debug)]
pub(super) struct HttpGet {
    spec: ToolSpec,
    clients: Clients,
}

impl Default for HttpGet {
    fn default() -> Self {
        Self {
            spec: ToolSpec::new(
                "http_get",
                Effect::Read,
                "Asks a web server with GET, if the run allows its host. Gives text and JSON, of anything else the length.",
            )
            .returns(
                "Returns `status`, `url` (where it came from in the end), `content_type`, `bytes`, `truncated`, and the \
                 text as `body`, or the value as `json` where it is JSON; of anything else only how long it is. Another \
                 status than 2xx and 304 is a failure that keeps these outputs.",
            )
            .needed(Need::Seldom)
            .gives(&[
                ("status", "integer"),
                ("url", "string"),
                ("content_type", "string"),
                ("bytes", "integer"),
                ("truncated", "boolean"),
            ])
            .required("url", ArgKind::Text, "With http:// or https://.")
            .optional(
                "headers",
                ArgKind::Object,
                "Such as `accept`; none that say who asks.",
            )
            .optional("max_bytes", ArgKind::Count, "Default: 262144.")
            .optional("timeout_s", ArgKind::Number, "Default: 30.")
            .needs_approval(),
            clients: Clients::default(),
        }
    }
}

#[derive(Deserialize)]
struct Args {
    url: String,
    headers: Option<Map<String, Value>>,
    max_bytes: Option<usize>,
    timeout_s: Option<f64>,
}

#[async_trait]
impl Tool for HttpGet {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn enforces_approval(&self) -> bool {
        true
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        match self.get(request, context).await {
            Ok(answer) => answer.response(request),
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}

impl HttpGet {
    async fn get(&self, request: &ToolRequest, context: &ToolContext) -> Result<Answer, ToolError> {
        let args: Args = parse(request)?;
        let url = address(&args.url)?;
        let headers = headers(args.headers.as_ref())?;
        let limits = &context.limits;
        let time = parse_timeout("http_get", args.timeout_s, limits.http_timeout, limits.http_timeout_max)?;
        let max_bytes = args.max_bytes.unwrap_or(limits.http_bytes).min(limits.http_bytes_max);
        let hosts = context.hosts_of(&url);
        let asked = self.follow(url, headers, &hosts, max_bytes);
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => Err(ToolError::cancelled()),
            asked = tokio::time::timeout(time, asked) => asked.unwrap_or_else(|_| {
                let message = format!("http_get: {} did not finish within {} s", args.url, time.as_secs_f64());
                Err(ToolError::new(FailureKind::TimedOut, "timed_out", message).hint("give a larger `timeout_s`"))
            }),
        }
    }

    /// Requests `url` and follows redirects, each of which has to be allowed.
    async fn follow(
        &self,
        mut url: Url,
        mut headers: HeaderMap,
        hosts: &HostList,
        max_bytes: usize,
    ) -> Result<Answer, ToolError> {
        for _ in 0..=REDIRECTS {
            allowed(&url, hosts)?;
            let client = self.clients.of(&url, hosts)?;
            let next = match hop::send_request(&client, url.clone(), headers.clone()).await? {
                Hop::Answered(response) => return Answer::read(*response, max_bytes).await,
                Hop::SentOn(next) => next,
            };
            if url.scheme() == "https" && next.scheme() == "http" {
                let message =
                    format!("http_get: {url} redirects to {next}, which anybody on the way could read and change");
                return Err(ToolError::new(FailureKind::Denied, "http_not_allowed", message)
                    .hint("request that address itself, if it is right"));
            }
            if next.origin() != url.origin() {
                headers.clear();
            }
            url = next;
        }
        let message = format!("http_get: it was redirected more than {REDIRECTS} times, at last to {url}");
        Err(ToolError::new(FailureKind::Failed, "http_redirects", message))
    }
}

impl HostList {
    /// Whether a call of `http_get` with these arguments needs no approval.
    #[must_use]
    pub fn allows_call(&self, args: &Value) -> bool {
        let url = args.get("url").and_then(Value::as_str);
        // An address that cannot be parsed is not requested, either.
        url.and_then(|url| address(url).ok())
            .is_none_or(|url| self.allows(&url))
    }
}

impl ToolContext {
    /// The hosts that a call may reach if it begins with `url`.
    fn hosts_of(&self, url: &Url) -> HostList {
        let hosts = HostList::clone(&self.hosts);
        match (self.shown, self.allowed) {
            (true, _) => hosts.with(&HostList::everywhere()).with_host_of(url),
            (false, true) => hosts.with(&HostList::everywhere()),
            (false, false) => hosts,
        }
    }
}

fn address(url_text: &str) -> Result<Url, ToolError> {
    let shown_url: String = url_text.chars().take(200).collect();
    let refuse = |reason: &str| ToolError::invalid(format!("http_get: `{shown_url}` cannot be requested: {reason}"));
    if url_text.len() > URL_BYTES {
        return Err(refuse("it is longer than 8,192 bytes"));
    }
    let mut url =
        Url::parse(url_text.trim()).map_err(|error| refuse(&error.to_string()).hint("write https://HOST/PATH"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("only http and https addresses can"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ToolError::invalid(
            "http_get: the address has a user or a password in it, which would be recorded with the call",
        )
        .hint("for a server that requires credentials, use an MCP server or a tool of your own"));
    }
    url.set_fragment(None);
    Ok(url)
}

fn allowed(url: &Url, hosts: &HostList) -> Result<(), ToolError> {
    if hosts.allows(url) {
        return Ok(());
    }
    let host = match (url.host_str().unwrap_or_default(), url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    };
    let error = ToolError::new(
        FailureKind::Denied,
        "http_not_allowed",
        format!("http_get: {url} was not requested: this run does not allow the host {host}"),
    );
    let error = if hosts.is_empty() {
        error
    } else {
        let rules: Vec<String> = hosts.rules().map(ToString::to_string).collect();
        error.hint(format!("allowed hosts: {}", rules.join(", ")))
    };
    Err(error.hint(format!("start the run with --allow-host {host} to allow it")))
}

fn headers(requested: Option<&Map<String, Value>>) -> Result<HeaderMap, ToolError> {
    let mut headers = HeaderMap::new();
    for (name, value) in requested.into_iter().flatten() {
        let Some(known) = HEADERS.iter().find(|known| known.eq_ignore_ascii_case(name)) else {
            return Err(
                ToolError::invalid(format!("http_get: the header `{name}` cannot be set"))
                    .hint(format!("headers that can be set: {}", HEADERS.join(", ")))
                    .hint("for a server that requires credentials, use an MCP server or a tool of your own"),
            );
        };
        let value = value.as_str().and_then(|value| HeaderValue::from_str(value).ok());
        let value = value.ok_or_else(|| {
            ToolError::invalid(format!(
                "http_get: the value of the header `{name}` is not a line of text"
            ))
        })?;
        headers.insert(HeaderName::from_static(known), value);
    }
    Ok(headers)
}
