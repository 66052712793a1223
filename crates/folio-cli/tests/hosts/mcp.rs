//! `folio mcp` as a program: what it reads, what it writes, how it ends.

use crate::support::Folio;
use crate::support::mcp::Host;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

fn host(folio: &Folio, arguments: &[&str]) -> Host {
    Host::start(folio.process(&[&["--store", "sqlite:f.db"], arguments].concat()))
}

#[test]
fn concurrent_mcp_clients_share_one_scratchbook() {
    let folio = Folio::new();
    let mut first = host(&folio, &["mcp"]);
    assert_eq!(first.began["serverInfo"]["name"], "folio");
    assert_eq!(
        first.call("scratch_add", json!({"kind": "todo", "title": "Write it down"})),
        "e1 [todo/open] Write it down"
    );
    // While the first is still there.
    let mut second = host(&folio, &["mcp"]);
    assert!(second.call("scratch_read", json!({})).contains("e1 [todo/open]"));
    second.call("scratch_complete", json!({"id": "e1"}));
    assert!(
        first
            .call("scratch_read", json!({"id": "e1"}))
            .starts_with("e1 [todo/done]")
    );
    for host in [first, second] {
        assert_eq!(host.end(), (Some(0), String::new(), String::new()));
    }
    // The trace has what was read as well, although nobody wrote it down before the end.
    let trace = folio.call(&["--store", "sqlite:f.db", "trace"]).stdout;
    assert!(trace.contains("render_view"), "{trace}");
}

#[test]
fn mcp_settings_select_thread_space_and_role() {
    let folio = Folio::new();
    let host_of = |arguments: &[&str]| {
        let mut host = host(&folio, arguments);
        let title = arguments.join(" ");
        let text = host.call("scratch_add", json!({"kind": "note", "title": title}));
        host.end();
        text
    };
    assert!(host_of(&["mcp", "--thread", "a"]).starts_with("e1 "));
    assert!(host_of(&["mcp", "--thread", "b"]).starts_with("e2 "));
    assert!(host_of(&["mcp", "--space", "other"]).starts_with("e1 "));
    host_of(&["--role", "human", "mcp", "--thread", "a"]);
    let store = ["--store", "sqlite:f.db"];
    let book = folio
        .call(&[&store[..], &["book", "view", "--thread", "a"]].concat())
        .stdout;
    assert!(
        book.contains("e1 ") && book.contains("e3 ") && !book.contains("e2 "),
        "{book}"
    );
    // A model writes as a client unless a role is named.
    for (entry, trust) in [("e1", "model"), ("e3", "user")] {
        let mut host = host(&folio, &["mcp"]);
        let read = host.ask(
            "tools/call",
            json!({"name": "scratch_read", "arguments": {"id": entry}}),
        );
        assert_eq!(read["structuredContent"]["trust"], trust);
        host.end();
    }
}

#[test]
fn mcp_adds_named_tool_sets_and_refuses_unknown_ones() {
    let folio = Folio::new();
    let names = |arguments: &[&str]| {
        let mut host = host(&folio, arguments);
        let tools = host.ask("tools/list", json!({}));
        host.end();
        let names = tools["tools"].as_array().unwrap().iter();
        names
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&["mcp"]).len(), 6);
    let more = names(&["mcp", "--tools", "observe,memory,plan"]);
    assert_eq!(more.len(), 16);
    assert!(more.contains(&"observe_add".to_owned()) && more.contains(&"memory_search".to_owned()));
    let refused = folio.call(&["--store", "memory:", "mcp", "--tools", "tasks"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("no tool set \"tasks\""), "{}", refused.stderr);
}

#[test]
fn mcp_command_ends_cleanly_on_int_and_term_signals() {
    let folio = Folio::new();
    for signal in [Signal::INT, Signal::TERM] {
        let mut host = host(&folio, &["mcp"]);
        host.call("scratch_add", json!({"kind": "note", "title": "kept"}));
        kill_process(Pid::from_raw(i32::try_from(host.pid()).unwrap()).unwrap(), signal).unwrap();
        let (code, rest, _) = host.wait();
        assert_eq!((code, rest.as_str()), (Some(0), ""));
    }
    let list = folio.call(&["--store", "sqlite:f.db", "--json", "book", "list"]).stdout;
    assert!(list.contains("\"total\": 2"), "{list}");
}

#[test]
fn mcp_command_refuses_input_without_an_mcp_handshake() {
    let folio = Folio::new();
    let mut command = folio.command(&["--store", "memory:", "mcp"]);
    let output = command
        .write_stdin("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.contains("Model Context Protocol") && said.contains("hint: "),
        "{said}"
    );
    // Nobody is there.
    assert_eq!(
        folio
            .command(&["--store", "memory:", "mcp"])
            .output()
            .unwrap()
            .status
            .code(),
        Some(0)
    );
}
