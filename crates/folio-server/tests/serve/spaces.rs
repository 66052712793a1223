//! Several spaces of one server: each token opens its own, and nothing of another.

use folio::store::AccessToken;
use folio::{Folio, Role, SpaceName, ThreadKey, Workspace};
use folio_server::{McpOptions, ServeOptions, ToolSet};
use serde_json::{Value, json};

use crate::client::{Answer, Events, get, send};
use crate::house::{ECHO, House, SLOW, assert_problem};

/// A server that was started for the space `main`, and a token of that and one of another.
struct Shared {
    house: House,
    folio: Folio,
    main: AccessToken,
    other: AccessToken,
}

impl Shared {
    async fn new() -> Self {
        let folio = Folio::open("memory:").await.unwrap();
        let runner = House::runner_on(&folio, true);
        let (main, _) = House::token(&runner, "main", Role::Human).await;
        let (other, _) = House::token(&runner, "other", Role::Human).await;
        let mut mcp = McpOptions::of(ThreadKey::main());
        mcp.sets = ToolSet::ALL.to_vec();
        mcp.allow_tools = vec!["door.ring".to_owned()];
        let options = ServeOptions::at("127.0.0.1:0".parse().unwrap());
        let house = House::serving(runner, Some(mcp), options).await;
        Self {
            house,
            folio,
            main,
            other,
        }
    }

    /// The two spaces, each with its token and the other space.
    fn both(&self) -> [(&'static str, &AccessToken, &'static str); 2] {
        [("main", &self.main, "other"), ("other", &self.other, "main")]
    }

    /// The space as another process sees it.
    fn space(&self, name: &str) -> Workspace {
        self.folio.workspace(SpaceName::parse(name).unwrap())
    }

    async fn ask(&self, token: &AccessToken, method: &str, path: &str, more: &[&str], body: Option<Value>) -> Answer {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let first = format!("{method} {path} HTTP/1.1");
        let length = format!("Content-Length: {}", body.len());
        let shown = format!("Authorization: Bearer {}", token.reveal());
        let mut lines = vec![&*first, "Host: localhost", "Connection: close", &length, &shown];
        if !body.is_empty() {
            lines.push("Content-Type: application/json");
        }
        lines.extend(more);
        send(self.house.address, &lines, &body).await
    }

    async fn gets(&self, token: &AccessToken, path: &str) -> Answer {
        self.ask(token, "GET", path, &[], None).await
    }

    /// The result of a request of the Model Context Protocol that needs no session.
    async fn mcp(&self, token: &AccessToken, method: &str, name: &str, mut params: Value) -> Value {
        let key = params["key"].take();
        // To others, what a run comes to is told in the answer of the call.
        let capabilities = match method {
            "tasks/get" => json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
            _ => json!({}),
        };
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            "folio/idempotencyKey": key,
        });
        let (method_header, name) = (format!("Mcp-Method: {method}"), format!("Mcp-Name: {name}"));
        let headers = [
            "Accept: application/json, text/event-stream",
            "MCP-Protocol-Version: 2026-07-28",
            &method_header,
            &name,
        ];
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let answer = self.ask(token, "POST", "/mcp", &headers, Some(body)).await;
        let data = answer.body.lines().rev().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(data.unwrap_or(&answer.body)).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    async fn calls(&self, token: &AccessToken, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = self.mcp(token, "tools/call", tool, params).await;
        answer["result"].clone()
    }

    /// Begins a run of `plan` in `space`, and returns its id.
    async fn begin_run(&self, space: &str, token: &AccessToken, plan: &str) -> String {
        let path = format!("/v1/spaces/{space}/runs");
        let begun = self.ask(token, "POST", &path, &[], Some(json!({"plan": plan}))).await;
        assert_eq!(begun.status, 201, "{begun:?}");
        begun.json()["run_id"].as_str().unwrap().to_owned()
    }

    async fn wait_for_end(&self, space: &str, token: &AccessToken, run: &str) -> Value {
        loop {
            let seen = self.gets(token, &format!("/v1/spaces/{space}/runs/{run}")).await;
            assert_eq!(seen.status, 200, "{seen:?}");
            if seen.json()["status"] != "running" {
                return seen.json();
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn token_gives_access_to_its_own_space_only() {
    let shared = Shared::new().await;
    for (space, token, _) in shared.both() {
        let path = format!("/v1/spaces/{space}/observations");
        let body = json!({"content": format!("known in {space}")});
        // One key, and another request with it in each space: neither knows of the other.
        let made = shared
            .ask(token, "POST", &path, &["Idempotency-Key: k"], Some(body))
            .await;
        assert_eq!((made.status, &made.json()["handle"]), (201, &json!("e1")), "{made:?}");
    }
    for (space, token, another) in shared.both() {
        let spaces = shared.gets(token, "/v1/spaces").await.json();
        let only = json!([{"space": space, "role": "human", "name": "ci"}]);
        assert_eq!(spaces["items"], only);
        let ready = shared.gets(token, "/readyz").await.json();
        assert_eq!((&ready["space"], &ready["head"]), (&json!(space), &spaces["as_of"]));
        for path in [
            "/observations",
            "/export",
            "/search?text=known",
            "/trace",
            "/pages",
            "/context",
        ] {
            let method = if path == "/context" { "POST" } else { "GET" };
            let body = (path == "/context").then(|| json!({"thread": "main"}));
            let own = shared
                .ask(token, method, &format!("/v1/spaces/{space}{path}"), &[], body.clone())
                .await;
            assert_eq!(own.status, 200, "{path}: {own:?}");
            // What is found has its text in pieces, and the list of pages has none.
            let is_shown = own.body.contains(&format!(" in {space}"));
            assert_eq!(is_shown, path != "/pages", "{path}: {own:?}");
            assert!(!own.body.contains(&format!(" in {another}")), "{path}: {own:?}");
            let refused = shared
                .ask(token, method, &format!("/v1/spaces/{another}{path}"), &[], body)
                .await;
            assert_problem(&refused, 403, "token_of_another_space");
            assert!(
                refused.body.contains(&format!("opens only the space {space}")),
                "{refused:?}"
            );
        }
    }
    // What cannot be read is noted where it was to be written.
    let path = "/v1/spaces/other/observations";
    let unread = shared.ask(&shared.other, "POST", path, &[], Some(json!([]))).await;
    assert_problem(&unread, 422, "observation_malformed");
    let told = async |space: &str, token| {
        let trace = shared.gets(token, &format!("/v1/spaces/{space}/trace")).await;
        trace.body.contains("\"failed\"")
    };
    assert!(told("other", &shared.other).await && !told("main", &shared.main).await);
}

#[tokio::test]
async fn request_without_a_token_reaches_only_the_server_space() {
    let shared = Shared::new().await;
    let path = "/v1/spaces/other/observations";
    assert_eq!(shared.gets(&shared.other, path).await.status, 200);
    let refused = get(shared.house.address, path).await;
    assert_problem(&refused, 404, "space_not_served");
    assert!(refused.body.contains("/v1/spaces/main") && refused.body.contains("token new"));
    let spaces = get(shared.house.address, "/v1/spaces").await.json();
    assert_eq!(spaces["items"][0]["space"], "main");
    assert_eq!(spaces["items"].as_array().unwrap().len(), 1);
    assert_eq!(get(shared.house.address, "/readyz").await.json()["space"], "main");
}

#[tokio::test]
async fn space_event_stream_has_no_commits_of_other_spaces() {
    let shared = Shared::new().await;
    let mut events = Events::open(shared.house.address, "/v1/spaces/main/events", None).await;
    let mut own = Value::Null;
    for (space, token) in [
        ("other", &shared.other),
        ("other", &shared.other),
        ("main", &shared.main),
    ] {
        let path = format!("/v1/spaces/{space}/observations");
        let body = json!({"content": format!("said in {space}")});
        let made = shared.ask(token, "POST", &path, &[], Some(body)).await;
        assert_eq!(made.status, 201, "{made:?}");
        own = made.json()["observation_id"].clone();
    }
    let heard = events.next().await.unwrap();
    assert_eq!((&*heard.event, &*heard.id), ("commit", "1"), "{heard:?}");
    // The first commit of the other space has the same number, so the number alone does not say whose it is.
    assert!(heard.data.contains(own.as_str().unwrap()), "{heard:?}");
}

#[tokio::test]
async fn metrics_of_a_token_cover_only_its_own_space() {
    let shared = Shared::new().await;
    // More commits than the run in the other space makes.
    for _ in 0..40 {
        let body = json!({"content": "x"});
        shared
            .ask(&shared.main, "POST", "/v1/spaces/main/observations", &[], Some(body))
            .await;
    }
    let run = shared.begin_run("other", &shared.other, ECHO).await;
    shared.wait_for_end("other", &shared.other, &run).await;
    let has = |counted: &Answer, line: &str| counted.body.lines().any(|found| found == line);
    let main = shared.gets(&shared.main, "/metrics").await;
    assert!(
        has(&main, "folio_commits 40") && has(&main, "folio_runs{status=\"ok\"} 0"),
        "{main:?}"
    );
    assert!(main.body.contains("folio_http_requests_total"));
    let other = shared.gets(&shared.other, "/metrics").await;
    assert!(
        !has(&other, "folio_commits 40") && has(&other, "folio_runs{status=\"ok\"} 1"),
        "{other:?}"
    );
    assert!(!other.body.contains("folio_http") && has(&other, "# EOF"), "{other:?}");
}

#[tokio::test]
async fn runs_are_driven_and_visible_only_in_their_own_space() {
    let shared = Shared::new().await;
    let mut runs = Vec::new();
    for (space, token, _) in shared.both() {
        runs.push(shared.begin_run(space, token, ECHO).await);
    }
    for ((space, token, another), run) in shared.both().into_iter().zip(&runs) {
        let ended = shared.wait_for_end(space, token, run).await;
        assert_eq!(
            (&ended["status"], &ended["handle"]),
            (&json!("ok"), &json!("r1")),
            "{ended}"
        );
        let told = shared
            .gets(token, &format!("/v1/spaces/{space}/runs/{run}/events"))
            .await;
        assert!(
            told.body.contains("run_started") && told.body.contains("event: end"),
            "{told:?}"
        );
        let strange = if another == "main" { &runs[0] } else { &runs[1] };
        for path in ["", "/events", "/tree", "/plan", "/limits", "/questions"] {
            let refused = shared
                .gets(token, &format!("/v1/spaces/{space}/runs/{strange}{path}"))
                .await;
            assert_problem(&refused, 404, "not_found");
        }
        for (verb, body) in [
            ("cancel", json!({})),
            ("pause", json!({})),
            ("continue", json!({})),
            ("fork", json!({"at": "a"})),
        ] {
            let path = format!("/v1/spaces/{space}/runs/{strange}/{verb}");
            let refused = shared.ask(token, "POST", &path, &[], Some(body)).await;
            assert_problem(&refused, 404, "not_found");
        }
        let task = async |id: &str| shared.mcp(token, "tasks/get", id, json!({"taskId": id})).await;
        assert_eq!(task(run).await["result"]["status"], "completed");
        let task = task(strange).await;
        assert_eq!(
            (&task["error"]["code"], &task["error"]["data"]["code"]),
            (&json!(-32602), &json!("not_found")),
            "{task}"
        );
        let listed = shared.gets(token, &format!("/v1/spaces/{space}/runs")).await.json();
        assert_eq!(listed["returned"], 1, "{listed}");
    }
}

#[tokio::test]
async fn mcp_calls_use_the_space_of_their_token() {
    let shared = Shared::new().await;
    for (space, token, _) in shared.both() {
        let arguments = json!({"kind": "todo", "title": format!("due in {space}")});
        let params = json!({"name": "scratch_add", "arguments": arguments, "key": "k"});
        let added = shared.mcp(token, "tools/call", "scratch_add", params).await;
        assert_eq!(added["result"]["structuredContent"]["handle"], "e1", "{added}");
        let plan = ECHO.replace("title: Echo", &format!("title: due in {space}"));
        let ran = shared
            .calls(token, "run_start", json!({"plan": plan, "wait_seconds": 20}))
            .await;
        assert_eq!(ran["structuredContent"]["status"], "ok", "{ran}");
    }
    for (space, token, another) in shared.both() {
        let (own, strange) = (format!("due in {space}"), format!("due in {another}"));
        let read = shared.calls(token, "scratch_read", json!({})).await.to_string();
        assert!(read.contains(&own) && !read.contains(&strange), "{read}");
        let uri = "folio://view/main";
        let read = shared
            .mcp(token, "resources/read", uri, json!({"uri": uri}))
            .await
            .to_string();
        assert!(read.contains(&own) && !read.contains(&strange), "{read}");
        let listed = shared.mcp(token, "resources/list", "", json!({})).await.to_string();
        assert!(listed.contains(&own) && !listed.contains(&strange), "{listed}");
        assert_eq!(
            shared
                .space(space)
                .observations(Default::default())
                .await
                .unwrap()
                .total,
            0
        );
    }
}

#[tokio::test]
async fn mcp_session_stays_in_the_space_of_its_token() {
    let shared = Shared::new().await;
    let kind = "Accept: application/json, text/event-stream";
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}});
    let mut sessions = Vec::new();
    for (_, token, _) in shared.both() {
        let began = shared.ask(token, "POST", "/mcp", &[kind], Some(begin.clone())).await;
        sessions.push(format!("Mcp-Session-Id: {}", began.header("mcp-session-id")));
    }
    let version = "MCP-Protocol-Version: 2025-11-25";
    for ((space, token, another), session) in shared.both().into_iter().zip(&sessions) {
        let headers = [kind, version, session];
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(
            shared.ask(token, "POST", "/mcp", &headers, Some(told)).await.status,
            202
        );
        let arguments = json!({"kind": "note", "title": format!("said in {space}")});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "scratch_add", "arguments": arguments}});
        let added = shared.ask(token, "POST", "/mcp", &headers, Some(call)).await;
        assert!(added.body.contains("e1"), "{added:?}");
        let read = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
            "params": {"name": "scratch_read", "arguments": {}}});
        let seen = shared.ask(token, "POST", "/mcp", &headers, Some(read.clone())).await;
        assert!(seen.body.contains(&format!("said in {space}")), "{seen:?}");
        assert!(!seen.body.contains(&format!("said in {another}")), "{seen:?}");
        let stranger = if space == "main" { &shared.other } else { &shared.main };
        let refused = shared.ask(stranger, "POST", "/mcp", &headers, Some(read)).await;
        assert_problem(&refused, 404, "not_found");
    }
}

#[tokio::test]
async fn space_gets_half_of_the_runs_and_sessions_and_leaves_the_rest_to_others() {
    let shared = Shared::new().await;
    let kind = "Accept: application/json, text/event-stream";
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}});
    let begins = async |token| shared.ask(token, "POST", "/mcp", &[kind], Some(begin.clone())).await;
    for n in 0..128 {
        assert_eq!(begins(&shared.other).await.status, 200, "session {n}");
    }
    let refused = begins(&shared.other).await;
    assert_problem(&refused, 503, "sessions_busy");
    assert!(refused.body.contains("128 sessions of this space"), "{refused:?}");
    // Whatever version it names, this method begins a session.
    let mut newest = begin.clone();
    newest["params"]["protocolVersion"] = json!("2026-07-28");
    let headers = [kind, "MCP-Protocol-Version: 2026-07-28"];
    let refused = shared.ask(&shared.other, "POST", "/mcp", &headers, Some(newest)).await;
    assert_problem(&refused, 503, "sessions_busy");
    assert_eq!(begins(&shared.main).await.status, 200);

    let starts = async |token, space: &str| {
        let path = format!("/v1/spaces/{space}/runs");
        shared.ask(token, "POST", &path, &[], Some(json!({"plan": SLOW}))).await
    };
    for _ in 0..4 {
        assert_eq!(starts(&shared.other, "other").await.status, 201);
    }
    assert_problem(&starts(&shared.other, "other").await, 429, "runs_busy");
    assert_eq!(starts(&shared.main, "main").await.status, 201);
}

#[tokio::test]
async fn server_stop_releases_the_runs_of_every_space() {
    let Shared {
        house,
        folio,
        main,
        other,
    } = Shared::new().await;
    let shared = Shared {
        house,
        folio: folio.clone(),
        main,
        other,
    };
    let mut runs = Vec::new();
    for (space, token, _) in shared.both() {
        let run = shared.begin_run(space, token, SLOW).await;
        let path = format!("/v1/spaces/{space}/runs/{run}");
        while shared.gets(token, &path).await.json()["driven"] != json!(true) {
            tokio::task::yield_now().await;
        }
        runs.push((SpaceName::parse(space).unwrap(), run));
    }
    shared.house.stop().await.unwrap();
    for (space, run) in runs {
        // What was still under way after the grace is broken off, and its run is given up in the background.
        let workspace = folio.workspace(space);
        let now = async || workspace.run(run.parse().unwrap()).await.unwrap();
        while now().await.driven {
            tokio::task::yield_now().await;
        }
        assert_eq!(now().await.status, "running", "somebody else goes on with it");
    }
}

#[tokio::test]
async fn allowed_tools_need_no_approval_in_the_server_space_only_e9_14() {
    let shared = Shared::new().await;
    let ring = json!({"tool": "door.ring", "args": {}});
    let plan = json!({"title": "Ring", "steps": [{"id": "ring", "do": ring}]});
    for (space, token, _) in shared.both() {
        let answer = shared
            .calls(token, "run_start", json!({"plan": plan, "wait_seconds": 20}))
            .await;
        let run = &answer["structuredContent"];
        let (status, waiting) = if space == "main" { ("ok", 0) } else { ("running", 1) };
        assert_eq!(run["status"], status, "{space}: {answer}");
        assert_eq!(
            run["approvals"].as_array().map_or(0, Vec::len),
            waiting,
            "{space}: {answer}"
        );
    }
}
