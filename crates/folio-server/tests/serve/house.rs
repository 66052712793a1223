//! A server on a store of its own.

use std::net::{Ipv4Addr, SocketAddr};

use folio::engine::plan;
use folio::memory::RunId;
use folio::runner::{NewRun, Runner, RunnerOptions};
use folio::store::{AccessToken, KeptToken};
use folio::tools::{Effect, Registry, ToolResponse, ToolSpec};
use folio::{Actor, Folio, Role, SpaceName, Workspace};
use folio_server::{McpOptions, ServeError, ServeOptions, Server};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{self, Answer};

/// Three steps, one of them with a plan of its own.
pub(crate) const ECHO: &str = "
title: Echo
steps:
  - {id: a, do: {tool: text, args: {op: echo, value: {n: 2}}}}
  - parallel:
      - {id: b, title: Second, do: {tool: text, args: {op: echo, value: '{{ results.a.output.value.n }}'}}}
      - id: c
        plan:
          steps: [{id: inner, do: {tool: text, args: {op: echo, value: deep}}}]
  - {id: d, do: {tool: text, args: {op: echo, value: end}}}
";

/// Waits long enough for somebody to stop it.
pub(crate) const SLOW: &str = "
title: Slow
steps: [{id: wait, do: {tool: wait, args: {ms: 60000}}}, {id: after, do: {tool: text, args: {op: echo, value: 1}}}]
";

pub(crate) struct House {
    pub(crate) address: SocketAddr,
    pub(crate) runner: Runner,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl House {
    pub(crate) async fn new() -> Self {
        Self::of(None, false).await
    }

    /// A server with a person to answer.
    pub(crate) async fn attended() -> Self {
        Self::of(None, true).await
    }

    pub(crate) async fn with_mcp(options: McpOptions) -> Self {
        Self::of(Some(options), false).await
    }

    async fn of(mcp: Option<McpOptions>, has_person: bool) -> Self {
        let options = ServeOptions::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        Self::serving(Self::runner_with(has_person).await, mcp, options).await
    }

    /// A runner for a server, on a store of its own.
    pub(crate) async fn runner() -> Runner {
        Self::runner_with(false).await
    }

    pub(crate) async fn runner_with(has_person: bool) -> Runner {
        Self::runner_on(&Folio::open("memory:").await.unwrap(), has_person)
    }

    /// A runner for a server, on the store of `folio`.
    pub(crate) fn runner_on(folio: &Folio, has_person: bool) -> Runner {
        let workspace = folio.workspace(SpaceName::main());
        let options = RunnerOptions {
            has_person,
            ..RunnerOptions::default()
        };
        Runner::new(workspace, with_bell(), options)
    }

    /// Creates a token for `space` in `role`, and returns its stored form, too.
    pub(crate) async fn token(runner: &Runner, space: &str, role: Role) -> (AccessToken, KeptToken) {
        let (token, workspace) = (AccessToken::draw(), runner.workspace());
        let space = SpaceName::parse(space).unwrap();
        let kept = token.kept(space, role, "ci".to_owned(), workspace.now(), None);
        workspace.store().keep_token(kept.clone()).await.unwrap();
        (token, kept)
    }

    /// A server with these options.
    pub(crate) async fn serving(runner: Runner, mcp: Option<McpOptions>, options: ServeOptions) -> Self {
        let mut server = Server::bind(&options, runner.clone()).await.unwrap();
        if let Some(options) = mcp {
            server = server.with_mcp(options);
        }
        let at = server.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(server.run(async move { drop(stopped.await) }));
        Self {
            address: at,
            runner,
            stop,
            served,
        }
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        self.runner.workspace()
    }

    pub(crate) async fn submit(&self, plan: &str) -> RunId {
        let plan = plan::parse(plan, &self.runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
        let new = NewRun::of(plan, person());
        self.runner.submit(new).await.unwrap().0
    }

    pub(crate) async fn run(&self, plan: &str) -> RunId {
        let run = self.submit(plan).await;
        self.runner.drive(run).await.unwrap();
        run
    }

    /// Gets `path` below the space.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        client::get(self.address, &format!("/v1/spaces/main{path}")).await
    }

    /// Posts `body` as JSON to `path` below the space.
    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        client::post(
            self.address,
            &format!("/v1/spaces/main{path}"),
            "application/json",
            body,
        )
        .await
    }

    /// Puts `body` to `path` below the space, if it still has `version`.
    pub(crate) async fn put(&self, path: &str, version: &str, body: &str) -> Answer {
        self.put_if(path, Some(version), body).await
    }

    /// The same, where the version may be missing.
    pub(crate) async fn put_if(&self, path: &str, version: Option<&str>, body: &str) -> Answer {
        let first = format!("PUT /v1/spaces/main{path} HTTP/1.1");
        let length = format!("Content-Length: {}", body.len());
        let version = version.map(|version| format!("If-Match: {version}"));
        let said: Vec<&str> = version.iter().chain([&length]).map(String::as_str).collect();
        let head = ["Host: localhost", "Connection: close", "Content-Type: application/json"];
        client::send(self.address, &[&[first.as_str()], &head[..], &said].concat(), body).await
    }

    /// Sends a request to `path` below the space with `method` and more `headers`; a body is sent as JSON.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[&str], body: Option<Value>) -> Answer {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let first = format!("{method} /v1/spaces/main{path} HTTP/1.1");
        let length = format!("Content-Length: {}", body.len());
        let mut lines = vec![first.as_str(), "Host: localhost", "Connection: close", &length];
        if !body.is_empty() {
            lines.push("Content-Type: application/json");
        }
        lines.extend(headers);
        client::send(self.address, &lines, &body).await
    }

    /// The same with `token`.
    pub(crate) async fn ask_as(&self, token: &AccessToken, method: &str, path: &str, body: Option<Value>) -> Answer {
        let shown = format!("Authorization: Bearer {}", token.reveal());
        self.ask(method, path, &[&shown], body).await
    }

    /// Asserts that posting `body` to `path` succeeds, and returns the answer.
    pub(crate) async fn post_and_expect(&self, path: &str, status: u16, body: Value) -> Value {
        let answer = self.ask("POST", path, &[], Some(body)).await;
        assert_eq!(answer.status, status, "{answer:?}");
        answer.json()
    }

    /// Asserts that `path` exists, and returns the answer.
    pub(crate) async fn get_json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Asserts that the answer for `path` is a problem document.
    pub(crate) async fn assert_refused(&self, path: &str, status: u16, code: &str) {
        assert_problem(&self.get(path).await, status, code);
    }

    pub(crate) async fn stop(self) -> Result<(), ServeError> {
        self.stop.send(()).unwrap();
        self.served.await.unwrap()
    }
}

pub(crate) fn person() -> Actor {
    Actor::new(Role::Human, "test")
}

/// Asserts that `answer` is a problem document of RFC 9457 with `status` and `code`.
pub(crate) fn assert_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (status, "application/problem+json"),
        "{answer:?}"
    );
    let problem = answer.json();
    assert_eq!(
        (&problem["code"], &problem["status"]),
        (&code.into(), &status.into()),
        "{problem}"
    );
    let is_whole = problem["detail"].is_string() && problem["title"].is_string() && problem["hints"].is_array();
    assert!(
        is_whole && problem["type"] == format!("docs/errors/{code}.md"),
        "{problem}"
    );
}

/// The tools, and one that needs a person's approval.
pub(crate) fn with_bell() -> Registry {
    let mut registry = Registry::with_builtins();
    let spec = ToolSpec::new("door.ring", Effect::Idempotent, "Rings the bell.").needs_approval();
    registry.register_fn(spec, |request, context| async move {
        assert!(context.allowed, "nobody allowed it");
        Ok(ToolResponse::ok(&request, serde_json::json!({"rang": true}), "rang"))
    });
    registry
}
