//! Tools of a server that fails in every way that a server can: `tests/mcp/server.sh`.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use folio_mcp::{McpSettings, Servers, ToStart};
use folio_tools::{
    Approval, Effect, FailureKind, Registry, Roots, RunFolder, ToolContext, ToolError, ToolRequest, ToolResponse,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const SCRIPT: &str = include_str!("../../../../tests/mcp/server.sh");

struct FakeServer {
    folder: TempDir,
    servers: Servers,
    registry: Registry,
}

impl FakeServer {
    /// The server under the name `x`, in a folder of its own.
    async fn new() -> Self {
        Self::with(|settings| settings).await
    }

    async fn with(change: impl FnOnce(McpSettings) -> McpSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("server.sh");
        std::fs::write(&script, SCRIPT).unwrap();
        let command = vec!["sh".to_owned(), script.to_str().unwrap().to_owned()];
        let settings = McpSettings {
            allow: vec!["*".to_owned()],
            ..McpSettings::of_command(command)
        };
        let start = start("x", change(settings), folder.path().to_owned());
        let servers = Servers::open(vec![start]).await;
        let mut registry = Registry::empty();
        servers.register_in(&mut registry);
        Self {
            folder,
            servers,
            registry,
        }
    }

    async fn call(&self, tool: &str, args: Value) -> ToolResponse {
        self.call_in(tool, args, &context()).await
    }

    async fn call_in(&self, tool: &str, args: Value, context: &ToolContext) -> ToolResponse {
        let request = ToolRequest {
            request_id: "run/node".to_owned(),
            tool: tool.to_owned(),
            args,
            run_id: "run".to_owned(),
            node_id: "node".to_owned(),
            attempt: 1,
            scratch_page_context: Vec::new(),
        };
        self.registry.call(&request, context).await
    }

    async fn error(&self, tool: &str) -> ToolError {
        let response = self.call(tool, json!({})).await;
        response.error.unwrap_or_else(|| panic!("{tool} did not fail"))
    }

    /// The calls that the server received.
    fn received_calls(&self) -> Vec<String> {
        let asked = std::fs::read_to_string(self.folder.path().join("asked")).unwrap_or_default();
        asked.lines().map(str::to_owned).collect()
    }

    fn pid(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("pid"))
            .unwrap()
            .trim()
            .to_owned()
    }
}

fn start(name: &str, settings: McpSettings, folder: PathBuf) -> ToStart {
    ToStart {
        name: name.to_owned(),
        settings,
        environment: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
        folder,
        headers: Vec::new(),
        token: None,
        login: None,
        unusable: None,
    }
}

/// Waits until the process `pid` is gone; a zombie counts as gone.
async fn is_gone(pid: &str) {
    for _ in 0..2_000 {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(text) if !text.contains(") Z ") => tokio::time::sleep(Duration::from_millis(5)).await,
            _ => return,
        }
    }
    panic!("process {pid} is still there");
}

fn context() -> ToolContext {
    ToolContext::new(Roots::new(Vec::new()).unwrap(), RunFolder::none())
}

#[tokio::test]
async fn mcp_tool_is_registered_and_called_like_a_builtin_tool_e9_17() {
    let house = FakeServer::new().await;
    assert_eq!(house.servers.problems().next(), None);
    let spec = house.registry.get("x.echo").unwrap().spec();
    assert_eq!((spec.effect, spec.writes), (Effect::Read, false));
    assert_eq!(spec.args_schema()["required"], json!(["text"]));
    let answer = house.call("x.echo", json!({"text": "good day"})).await;
    assert_eq!(answer.outputs, json!({"text": "good day", "structured": {"length": 8}}));
    // The same key when the same call is made again (E9.12).
    assert!(
        house.received_calls()[0].contains(r#""folio/idempotencyKey":"run/node""#),
        "{:?}",
        house.received_calls()
    );
}

#[tokio::test]
async fn invalid_arguments_are_rejected_before_they_reach_the_server() {
    let house = FakeServer::new().await;
    for args in [json!({}), json!({"text": true}), json!([1])] {
        let error = house.call("x.echo", args).await.error.unwrap();
        assert_eq!(error.kind, FailureKind::InvalidArgs, "{error:?}");
    }
    assert_eq!(house.received_calls(), Vec::<String>::new());
}

#[tokio::test]
async fn mcp_tool_that_is_not_allowed_is_not_called_e9_14() {
    let house = FakeServer::with(|settings| McpSettings {
        allow: Vec::new(),
        ..settings
    })
    .await;
    assert_eq!(
        house.registry.get("x.send").unwrap().spec().approval,
        Approval::UnlessAllowed
    );
    let error = house.error("x.send").await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Denied, "mcp_tool_not_allowed")
    );
    assert_eq!(house.received_calls(), Vec::<String>::new());
    let allowed = ToolContext {
        allowed: true,
        ..context()
    };
    let answer = house.call_in("x.send", json!({}), &allowed).await;
    assert_eq!(answer.outputs["text"], "sent", "{answer:?}");
    assert_eq!(house.received_calls().len(), 1);
}

#[tokio::test]
async fn only_tools_named_in_the_settings_are_offered() {
    let house = FakeServer::with(|settings| McpSettings {
        tools: Some(vec!["echo".to_owned(), "nowhere".to_owned()]),
        ..settings
    })
    .await;
    let names: Vec<&str> = house.registry.specs().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["x.echo"]);
    let problem = house.servers.problems().next().unwrap();
    assert_eq!(
        problem.to_string(),
        "tools of the MCP server x are left out: it has no tool nowhere"
    );
}

#[tokio::test]
async fn opaque_call_is_not_repeated_when_the_server_dies_e9_12() {
    let house = FakeServer::new().await;
    let error = house.error("x.die").await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Unknown, "outcome_unknown")
    );
    assert_eq!(
        error.message,
        "it is not known whether the MCP server x did it: it ended before it answered (exit code 3); its last line: it broke"
    );
    assert_eq!(house.received_calls().len(), 1);
    // The server is started again for the next one.
    assert!(house.call("x.echo", json!({"text": "a"})).await.is_ok());
}

#[tokio::test]
async fn read_call_is_repeated_when_the_server_dies_e9_12() {
    let house = FakeServer::new().await;
    let answer = house.call("x.die_once", json!({})).await;
    assert_eq!(answer.outputs["text"], "alive again", "{answer:?}");
    assert_eq!(house.received_calls().len(), 2);
}

#[tokio::test]
async fn server_that_keeps_dying_is_not_restarted_after_five_times() {
    let house = FakeServer::new().await;
    for _ in 0..3 {
        let error = house.error("x.always_dies").await;
        assert_eq!(error.code, "mcp_server_unavailable", "{error:?}");
    }
    // Five starts and no more, whatever is asked.
    assert_eq!(house.received_calls().len(), 5);
    let error = house.call("x.echo", json!({"text": "a"})).await.error.unwrap();
    assert!(error.message.contains("ended 5 times"), "{error:?}");
}

#[tokio::test]
async fn call_to_a_hanging_server_times_out_and_restarts_it() {
    let house = FakeServer::with(|settings| McpSettings {
        time_s: Some(1),
        ..settings
    })
    .await;
    let first = house.pid();
    assert_eq!(house.error("x.hang").await.kind, FailureKind::Unknown);
    assert_eq!(house.error("x.wait").await.kind, FailureKind::TimedOut);
    assert!(house.call("x.echo", json!({"text": "a"})).await.is_ok());
    assert_ne!(house.pid(), first, "one that hangs is started anew");
}

#[tokio::test]
async fn non_protocol_answer_leaves_the_outcome_unknown() {
    let house = FakeServer::new().await;
    let error = house.error("x.mumble").await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Unknown, "outcome_unknown")
    );
    assert!(
        error
            .message
            .ends_with("its answer is not valid in the Model Context Protocol"),
        "{error:?}"
    );
    assert_eq!(house.received_calls().len(), 1);
}

#[tokio::test]
async fn content_of_an_unknown_kind_does_not_affect_the_rest() {
    let house = FakeServer::new().await;
    let answer = house.call("x.film", json!({})).await;
    let parts = json!([{"type": "unknown", "bytes_left_out": 29}]);
    assert_eq!(
        answer.outputs,
        json!({"text": "it is 42", "parts": parts}),
        "{answer:?}"
    );
}

#[tokio::test]
async fn tool_failure_keeps_the_message_of_the_server() {
    let house = FakeServer::new().await;
    let error = house.error("x.fail").await;
    assert_eq!(
        (error.kind, error.message.as_str()),
        (FailureKind::Failed, "x.fail failed: no such city")
    );
    let error = house.error("x.refuse").await;
    assert_eq!(error.kind, FailureKind::InvalidArgs);
    assert!(error.message.contains("not like this"), "{error:?}");
}

#[tokio::test]
async fn call_that_never_reached_the_server_is_unavailable_not_unknown_e9_12() {
    let command = [
        "sh",
        "-c",
        "[ ! -e begun ] || exec sleep 1000; touch begun; exec sh server.sh",
    ];
    let house = FakeServer::with(|settings| McpSettings {
        command: command.map(str::to_owned).to_vec(),
        time_s: Some(1),
        ..settings
    })
    .await;
    assert_eq!(house.error("x.die").await.kind, FailureKind::Unknown);
    let error = house.error("x.send").await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Unavailable, "mcp_server_unavailable"),
        "{error:?}"
    );
    assert_eq!(house.received_calls().len(), 1);
}

#[tokio::test]
async fn unsent_call_is_repeated_over_a_new_connection() {
    let house = FakeServer::new().await;
    let first = house.pid();
    assert!(house.call("x.deaf", json!({})).await.is_ok());
    // It may change something, and was never heard.
    let answer = house.call("x.send", json!({})).await;
    assert_eq!(answer.outputs["text"], "sent", "{answer:?}");
    assert_eq!(house.received_calls().len(), 2);
    assert_ne!(house.pid(), first);
}

#[tokio::test]
async fn dead_server_is_restarted_although_its_pipes_remain_open() {
    let house = FakeServer::new().await;
    let first = house.pid();
    assert!(house.call("x.abandon", json!({})).await.is_ok());
    is_gone(&first).await;
    let answer = house.call("x.send", json!({})).await;
    assert_eq!(answer.outputs["text"], "sent", "{answer:?}");
    assert_ne!(house.pid(), first);
}

#[tokio::test]
async fn server_death_ends_a_call_although_pipes_remain_open() {
    let house = FakeServer::new().await;
    let context = context();
    let calling = house.call_in("x.desert", json!({}), &context);
    let answer = tokio::time::timeout(Duration::from_secs(20), calling).await.unwrap();
    let error = answer.error.unwrap();
    assert_eq!(error.kind, FailureKind::Unknown, "{error:?}");
    assert!(
        error.message.contains("it ended before it answered (exit code 4)"),
        "{error:?}"
    );
}

#[tokio::test]
async fn server_that_floods_requests_without_reading_is_restarted() {
    let house = FakeServer::new().await;
    let first = house.pid();
    assert!(house.call("x.pester", json!({})).await.is_ok());
    // Long enough for whatever it takes in while nobody calls.
    let written = bytes_written_by_the_children_of(&first, Duration::from_secs(2)).await;
    // More than fits into a pipe that nobody reads, and less than a reader takes in who does nothing else.
    assert!(
        written > 4_096 && written < 4 * 1024 * 1024,
        "{written} bytes of questions were read"
    );
    let answer = house.call("x.send", json!({})).await;
    assert_eq!(answer.outputs["text"], "sent", "{answer:?}");
    assert_ne!(house.pid(), first);
}

/// How many bytes the children of `pid` have written in all, after `time`.
async fn bytes_written_by_the_children_of(pid: &str, time: Duration) -> u64 {
    tokio::time::sleep(time).await;
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let written = children.split_whitespace().map(|child| {
        let io = std::fs::read_to_string(format!("/proc/{child}/io")).unwrap();
        let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        line.unwrap().parse::<u64>().unwrap()
    });
    written.sum()
}

#[tokio::test]
async fn hanging_server_is_restarted_once_for_concurrent_callers() {
    let house = FakeServer::with(|settings| McpSettings {
        time_s: Some(1),
        ..settings
    })
    .await;
    let first = house.pid();
    let next = async {
        let error = house.error("x.hang").await;
        let answer = house.call("x.echo", json!({"text": "a"})).await;
        (error, answer, house.pid())
    };
    let waiting = async {
        while house.received_calls().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        house.error("x.hang").await
    };
    let ((error, answer, second), other) = tokio::join!(next, waiting);
    assert_eq!((error.kind, other.kind), (FailureKind::Unknown, FailureKind::Unknown));
    assert!(answer.is_ok(), "{answer:?}");
    assert_ne!(second, first);
    assert!(house.call("x.echo", json!({"text": "a"})).await.is_ok());
    assert_eq!(house.pid(), second, "the new one goes on");
}

#[tokio::test]
async fn message_over_the_limit_is_refused_naming_the_limit() {
    let limited = |settings| McpSettings {
        answer_bytes: Some(100_000),
        ..settings
    };
    let house = FakeServer::with(limited).await;
    let first = house.pid();
    let error = house.error("x.large").await;
    assert_eq!(error.kind, FailureKind::TooLarge, "{error:?}");
    assert!(
        error.message.contains("longer than 100000 bytes") && error.message.contains("answer_bytes"),
        "{error:?}"
    );
    assert_eq!(house.received_calls().len(), 1, "another answer would be as long");
    assert!(house.call("x.echo", json!({"text": "a"})).await.is_ok());
    assert_eq!(house.pid(), first);
    // What it did is done, and what it said of it is lost.
    let house = FakeServer::with(|settings| McpSettings {
        effects: [("large".to_owned(), Effect::Opaque)].into(),
        ..limited(settings)
    })
    .await;
    let error = house.error("x.large").await;
    assert_eq!(error.kind, FailureKind::Unknown, "{error:?}");
    assert!(error.message.contains("answer_bytes"), "{error:?}");
    let house = FakeServer::new().await;
    let answer = house.call("x.large", json!({})).await;
    assert_eq!(answer.outputs["text"].as_str().map(str::len), Some(300_000));
}

#[tokio::test]
async fn server_that_asks_for_roots_is_told_that_there_is_no_such_method() {
    let house = FakeServer::new().await;
    let answer = house.call("x.explore", json!({})).await;
    assert_eq!(answer.outputs["text"], json!("no such method"), "{answer:?}");
}

#[tokio::test]
async fn tool_that_changed_since_it_was_listed_is_not_called() {
    let house = FakeServer::new().await;
    // Until then it is called, whatever the server says to that.
    assert_eq!(house.error("x.leaves").await.code, "mcp_call_failed");
    assert!(house.call("x.change", json!({})).await.is_ok());
    let asked = house.received_calls().len();
    for tool in ["x.leaves", "x.turns"] {
        let error = house.error(tool).await;
        assert_eq!(error.code, "mcp_tools_changed", "{error:?}");
    }
    assert_eq!(house.received_calls().len(), asked);
    assert!(
        house.call("x.echo", json!({"text": "a"})).await.is_ok(),
        "what is as it was goes on"
    );
}

#[tokio::test]
async fn invalid_listed_tools_do_not_affect_the_others() {
    let house = FakeServer::with(|settings| McpSettings {
        command: ["sh", "-c", "touch strange; exec sh server.sh"]
            .map(str::to_owned)
            .to_vec(),
        ..settings
    })
    .await;
    let problems: Vec<String> = house.servers.problems().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    for part in [
        "bare has no `inputSchema`",
        "echo is listed twice; the first one counts",
    ] {
        assert!(problems[0].contains(part), "{problems:?}");
    }
    assert!(house.call("x.send", json!({})).await.is_ok());
    // The first one, as it was defined: it only reads, and wants a text.
    let spec = house.registry.get("x.echo").unwrap().spec();
    assert_eq!(
        (spec.effect, &spec.args_schema()["required"]),
        (Effect::Read, &json!(["text"]))
    );
    // Listed anew, they are the same.
    for _ in 0..2 {
        let echo = house.call("x.echo", json!({"text": "a"})).await;
        assert_eq!(echo.outputs["text"], "a", "{echo:?}");
        assert!(house.call("x.change", json!({})).await.is_ok());
    }
}

#[tokio::test]
async fn unavailable_server_does_not_affect_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, command: &[&str]| {
        let command = command.iter().map(ToString::to_string).collect();
        let settings = McpSettings {
            allow: vec!["echo".to_owned()],
            start_s: Some(5),
            ..McpSettings::of_command(command)
        };
        start(name, settings, folder.path().to_owned())
    };
    std::fs::write(folder.path().join("server.sh"), SCRIPT).unwrap();
    let servers = Servers::open(vec![
        at("gone", &["/nowhere/server"]),
        at("ends", &["sh", "-c", "echo 'no licence' >&2; exit 1"]),
        at("babbles", &["sh", "-c", "echo hello; echo '{}'; cat >/dev/null"]),
        at("works", &["sh", "server.sh"]),
    ])
    .await;
    let problems: Vec<String> = servers.problems().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 3, "{problems:?}");
    for (problem, part) in problems.iter().zip([
        "there is no such program",
        "its last line: no licence",
        "not ready after 5 s",
    ]) {
        assert!(problem.contains(part), "{problem}");
    }
    let mut registry = Registry::empty();
    servers.register_in(&mut registry);
    let house = FakeServer {
        folder,
        servers,
        registry,
    };
    let answer = house.call("works.echo", json!({"text": "good day"})).await;
    assert_eq!(answer.outputs["text"], "good day", "{answer:?}");
    let error = house.error("gone.anything").await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Unavailable, "mcp_server_unavailable")
    );
    assert_eq!(house.error("nobody.anything").await.code, "unknown_tool");
}

/// A server that gives a fixed answer, whatever it is asked.
const FIXED_ANSWER_SCRIPT: &str = r#"
while IFS= read -r line; do
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    case $line in
        *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
        *'"initialize"'*) BEGIN ;;
        *'"tools/list"'*) LIST ;;
    esac
done"#;
const INITIALIZE_ANSWER: &str = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}\n' "$id""#;
const NO_LIST: &str = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id""#;
const ENDLESS_PAGES: &str = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}},{"name":"u"}],"nextCursor":"a"}}\n' "$id""#;

/// What is reported of a server that begins and lists its tools this way.
async fn problems_and_tools(begin: &str, list: &str) -> (Vec<String>, usize) {
    let script = FIXED_ANSWER_SCRIPT.replace("BEGIN", begin).replace("LIST", list);
    let settings = McpSettings::of_command(["sh", "-c", &script].map(str::to_owned).to_vec());
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::open(vec![start("x", settings, folder.path().to_owned())]).await;
    let problems = servers.problems().map(ToString::to_string).collect();
    let mut registry = Registry::empty();
    servers.register_in(&mut registry);
    (problems, registry.specs().count())
}

#[tokio::test]
async fn startup_problems_are_reported_in_plain_words() {
    let says = "the MCP server x cannot be used: ";
    for (begin, list, said) in [
        ("exit 3", "", "it ended before it was ready (exit code 3)"),
        (
            "echo 'Usage: x'; exit 2",
            "",
            "it ended before it was ready (exit code 2); it printed to its output, where only messages belong: Usage: x",
        ),
        (
            NO_LIST,
            "",
            "its answer to `initialize` is not valid in the Model Context Protocol",
        ),
        (
            INITIALIZE_ANSWER,
            NO_LIST,
            "it does not list its tools: its answer is not valid in the Model Context Protocol",
        ),
        (
            INITIALIZE_ANSWER,
            "exit 1",
            "it ended before it had listed its tools (exit code 1)",
        ),
    ] {
        assert_eq!(
            problems_and_tools(begin, list).await,
            (vec![format!("{says}{said}")], 0)
        );
    }
}

#[tokio::test]
async fn cyclic_tool_list_is_read_once_and_reported() {
    let (problems, tools) = problems_and_tools(INITIALIZE_ANSWER, ENDLESS_PAGES).await;
    let said = "tools of the MCP server x are left out: u has no `inputSchema`; t is listed twice; the first one counts; its list of tools \
                leads back to a page that was read (`nextCursor`), and is read no further";
    assert_eq!((problems, tools), (vec![said.to_owned()], 1));
}

#[tokio::test]
async fn unreadable_answer_fails_the_call_without_a_retry() {
    let house = FakeServer::new().await;
    for (tool, code, said) in [
        (
            "x.deep",
            "malformed_output",
            "MCP server x: its answer is nested more than 127 levels deep",
        ),
        ("x.garble", "mcp_call_failed", "MCP server x: its answer cannot be read"),
        (
            "x.babble",
            "mcp_call_failed",
            "MCP server x: its answer is not valid in the Model Context Protocol",
        ),
    ] {
        let error = house.error(tool).await;
        assert_eq!((error.code.as_str(), error.message.as_str()), (code, said));
    }
    assert_eq!(house.received_calls().len(), 3, "none is asked for again");
    let answer = house.call("x.half", json!({})).await;
    assert_eq!(
        answer.outputs["text"], "a \u{fffd}",
        "half a character takes nothing away"
    );
}

#[tokio::test]
async fn closing_servers_ends_the_server_process() {
    let house = FakeServer::new().await;
    let stat = format!("/proc/{}/stat", house.pid());
    assert!(std::path::Path::new(&stat).exists(), "it runs until then");
    house.servers.close().await;
    let status = std::fs::read_to_string(stat);
    assert!(status.is_err() || status.unwrap().contains(") Z "), "it is still there");
}

#[tokio::test]
async fn call_during_close_stays_pending_until_cancelled_e9_12() {
    for tool in ["x.echo", "x.hang", "x.wait"] {
        let house = FakeServer::new().await;
        let context = context();
        let args = if tool == "x.echo" {
            json!({"text": "a"})
        } else {
            json!({})
        };
        let mut calling = pin!(house.call_in(tool, args, &context));
        if tool == "x.echo" {
            house.servers.close().await;
        } else {
            let asking = async {
                while house.received_calls().is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                house.servers.close().await;
                let killed = std::process::Command::new("kill")
                    .args(["-KILL", &house.pid()])
                    .status();
                assert!(killed.unwrap().success());
            };
            tokio::select! {
                ended = &mut calling => panic!("{ended:?}"),
                () = asking => {}
            }
        }
        // It is left to whoever goes on with the run.
        let ended = tokio::time::timeout(Duration::from_millis(500), &mut calling).await;
        assert!(ended.is_err(), "{ended:?}");
        context.cancel.cancel();
        let error = calling.await.error.unwrap();
        let is_unknown = tool == "x.hang";
        assert_eq!(error.kind == FailureKind::Unknown, is_unknown, "{error:?}");
        assert_eq!(error.kind == FailureKind::Cancelled, !is_unknown, "{error:?}");
    }
}

/// A house whose server, after its first start, starts again only once there is a file `go`; it records each start in
/// a line.
async fn slow_to_restart() -> FakeServer {
    let slowly = "if [ -e pid ]; then echo $$ >>starting; until [ -e go ]; do sleep 0.01; done; fi; exec sh server.sh";
    let house = FakeServer::with(|settings| McpSettings {
        command: ["sh", "-c", slowly].map(str::to_owned).to_vec(),
        ..settings
    })
    .await;
    assert_eq!(house.error("x.die").await.kind, FailureKind::Unknown);
    house
}

/// Waits until the server of `house` is being restarted; returns the process of each start.
async fn wait_for_restart(house: &FakeServer) -> Vec<String> {
    loop {
        let starting = std::fs::read_to_string(house.folder.path().join("starting")).unwrap_or_default();
        if starting.ends_with('\n') {
            return starting.lines().map(str::to_owned).collect();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn dropped_call_does_not_abort_the_server_start_for_others() {
    let house = slow_to_restart().await;
    let echo = || house.call("x.echo", json!({"text": "a"}));
    for _ in 0..6 {
        tokio::select! {
            ended = echo() => panic!("{ended:?}"),
            _ = wait_for_restart(&house) => {}
        }
    }
    std::fs::write(house.folder.path().join("go"), "").unwrap();
    assert!(echo().await.is_ok());
    assert_eq!(wait_for_restart(&house).await.len(), 1);
}

#[tokio::test]
async fn starting_server_is_ended_on_close_or_drop() {
    for is_closed in [true, false] {
        let house = slow_to_restart().await;
        let started = tokio::select! {
            ended = house.call("x.echo", json!({"text": "a"})) => panic!("{ended:?}"),
            started = wait_for_restart(&house) => started,
        };
        if is_closed {
            house.servers.close().await;
        } else {
            drop((house.servers, house.registry));
        }
        is_gone(&started[0]).await;
    }
}

#[tokio::test]
async fn cancelled_mcp_call_ends_at_once() {
    let house = FakeServer::new().await;
    let context = context();
    let calling = house.call_in("x.wait", json!({}), &context);
    let stopping = async {
        while house.received_calls().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        context.cancel.cancel();
    };
    let (answer, ()) = tokio::join!(calling, stopping);
    assert_eq!(answer.error.unwrap().kind, FailureKind::Cancelled);
}

#[tokio::test]
async fn cancelled_tool_relisting_is_repeated_by_the_next_call_e9_17() {
    let house = FakeServer::new().await;
    let (mute, muted) = (house.folder.path().join("mute"), house.folder.path().join("muted"));
    assert!(house.call("x.change", json!({})).await.is_ok());
    std::fs::write(mute, "").unwrap();
    let context = context();
    let given_up = async {
        while !muted.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        context.cancel.cancel();
    };
    let (response, ()) = tokio::join!(house.call_in("x.turns", json!({}), &context), given_up);
    assert_eq!(response.error.unwrap().kind, FailureKind::Cancelled);
    let error = house.error("x.turns").await;
    assert_eq!(error.code, "mcp_tools_changed", "{error:?}");
}
