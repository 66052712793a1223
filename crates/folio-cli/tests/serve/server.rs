//! `folio serve` and `folio token`: who has access, and how the server stops.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use crate::support::Folio;
use crate::support::served::Served;
use serde_json::json;

const LIST: &str = "/v1/spaces/main/observations";

/// A refusal, as [`Served::refusal`] returns it.
fn refusal(status: &str, code: &str) -> (String, String) {
    (status.to_owned(), code.to_owned())
}

#[test]
fn serve_on_a_public_address_requires_an_access_token() {
    let folio = Folio::new();
    let refused = folio.call(&["--store", "sqlite:f.db", "serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(
        refused.stderr.contains("no valid access token for any space"),
        "{refused}"
    );
    let made = folio.call(&[
        "--store",
        "sqlite:f.db",
        "--json",
        "token",
        "new",
        "--role",
        "client",
        "--name",
        "ci",
        "--expires",
        "1d",
    ]);
    let made: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    let (token, id) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    let listed = folio.call(&["--store", "sqlite:f.db", "--json", "token", "list"]);
    assert!(listed.stdout.contains(id) && !listed.stdout.contains(token), "{listed}");
    let served = Served::new(&folio, "0.0.0.0:0");
    assert_eq!(served.refusal(LIST, None), refusal("401", "token_missing"));
    assert_eq!(served.status(LIST, Some(token)), "200");
    assert_eq!(
        served.refusal("/v1/spaces/other/observations", Some(token)),
        refusal("403", "token_of_another_space")
    );
    assert_eq!(served.status("/healthz", None), "200");
    let revoked = folio.call(&["--store", "sqlite:f.db", "token", "revoke", id]);
    assert_eq!(revoked.code, 0, "{revoked}");
    assert_eq!(
        served.refusal(LIST, Some(token)),
        refusal("401", "token_invalid"),
        "taken back by another process"
    );
    let unknown = folio.call(&["--store", "sqlite:f.db", "token", "revoke", "nothing"]);
    assert_eq!(unknown.code, 3, "{unknown}");
    assert!(unknown.stderr.contains("there is no token nothing"), "{unknown}");
}

#[test]
fn serve_with_require_token_demands_it_on_loopback() {
    let folio = Folio::new();
    let arguments = [
        "--store",
        "sqlite:f.db",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--require-token",
    ];
    let refused = folio.call(&arguments);
    assert!(
        refused.code == 2 && refused.stderr.contains("token_needed"),
        "{refused}"
    );
    let made = folio.call(&["--store", "sqlite:f.db", "token", "new", "--role", "client"]);
    assert!(made.stderr.contains("every file below the folder"), "{made}");
    let served = Served::of(folio.process(&arguments));
    assert_eq!(served.refusal(LIST, None), refusal("401", "token_missing"));
    assert_eq!(served.status(LIST, Some(made.stdout.trim())), "200");
    let of_a_tool = folio.call(&["--store", "sqlite:f.db", "token", "new", "--role", "tool"]);
    assert!(
        made.stderr.contains("start runs") && !of_a_tool.stderr.contains("start runs"),
        "{made}{of_a_tool}"
    );
}

#[test]
fn idle_connections_leave_file_descriptors_for_runs() {
    let folio = Folio::new();
    let mut limited = std::process::Command::new("/bin/sh");
    limited.args(["-c", "ulimit -n 128; exec \"$0\" \"$@\""]);
    limited.arg(assert_cmd::cargo::cargo_bin!("folio"));
    limited.args(["--store", "sqlite:f.db", "serve", "--listen", "127.0.0.1:0"]);
    limited.env_clear().env("HOME", folio.path()).current_dir(folio.path());
    let served = Served::of(limited);
    let connect = |_| std::net::TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    let strangers: Vec<_> = (0..300).map(connect).collect();
    assert_eq!(served.status("/healthz", None), "200");
    let wanted = json!({"plan": {"steps": [
        {"id": "w", "do": {"tool": "write", "args": {"path": "a.txt", "content": "a"}}},
        {"id": "l", "needs": ["w"], "do": {"tool": "list", "args": {"path": "."}}}]}});
    let begun = served.post("/v1/spaces/main/runs", &wanted.to_string());
    assert!(begun.contains(" 201 "), "{begun}");
    let arguments = ["--store", "sqlite:f.db", "runs"];
    let ended = folio.until(&arguments, |runs| runs["items"][0]["status"] != json!("running"));
    assert_eq!(ended["items"][0]["status"], json!("ok"), "{ended}");
    drop(strangers);
}

#[test]
fn server_tells_programs_in_one_line_of_json_that_it_is_ready() {
    let folio = Folio::new();
    let mut served = folio
        .process(&["--json", "--store", "sqlite:f.db", "serve", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(served.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    served.kill().unwrap();
    served.wait().unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["space"], "main", "{line}");
    let url = ready["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:") && !url.ends_with(":0/"), "{line}");
}

#[test]
fn terminated_server_closes_its_event_streams_and_exits() {
    let folio = Folio::new();
    let mut served = Served::new(&folio, "127.0.0.1:0");
    let mut stream = BufReader::new(served.open("/v1/spaces/main/events", None));
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.contains("200"), "{line}");
    let pid = rustix::process::Pid::from_child(&served.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}

#[test]
fn server_resumes_a_killed_run_unless_resuming_is_disabled_e9_9() {
    let folio = Folio::new();
    let mut plan = "title: Slow\nsteps:\n".to_owned();
    for n in 0..10 {
        writeln!(plan, "  - {{id: wait{n}, do: {{tool: wait, args: {{ms: 100}}}}}}").unwrap();
    }
    folio.file("plan.yaml", plan);
    let call = |more: &[&'static str]| [&["--store", "sqlite:f.db"], more].concat();
    let running = folio.spawn(&call(&["run", "--plan", "plan.yaml"]));
    folio.until(&call(&["runs"]), |runs| runs["items"][0]["driven"] == json!(true));
    running.kill();
    let idle = folio.process(&call(&["serve", "--listen", "127.0.0.1:0", "--no-resume"]));
    let idle = Served::of(idle);
    assert_eq!(idle.status("/healthz", None), "200");
    let left = &folio.json(&call(&["runs"]))["items"][0];
    assert_eq!((&left["status"], &left["driven"]), (&json!("running"), &json!(false)));
    drop(idle);
    let _served = Served::new(&folio, "127.0.0.1:0");
    let ended = folio.until(&call(&["runs"]), |runs| runs["items"][0]["status"] != json!("running"));
    assert_eq!(ended["items"][0]["status"], json!("ok"), "{ended}");
}

/// Makes a token of `space` for a person.
fn token_of(folio: &Folio, space: &str) -> String {
    let arguments = [
        "--store",
        "sqlite:f.db",
        "--space",
        space,
        "token",
        "new",
        "--role",
        "human",
    ];
    folio.ok(&arguments).trim().to_owned()
}

#[test]
fn server_serves_and_tidies_every_space_that_has_a_token() {
    let folio = Folio::new();
    let call = |more: &[&'static str]| [&["--store", "sqlite:f.db"], more].concat();
    folio.ok(&call(&["observe", "add", "known in main"]));
    folio.ok(&call(&["--space", "other", "observe", "add", "known in other"]));
    folio.ok(&call(&["--space", "other", "observe", "add", "newer in other"]));
    folio.ok(&call(&[
        "--space",
        "other",
        "policy",
        "set",
        "quota.live_observations=1",
    ]));
    let archived = call(&["--space", "other", "observe", "list", "--status", "archived"]);
    assert_eq!(folio.json(&archived)["total"], 0);
    let other = token_of(&folio, "other");
    // A token of any space is enough to listen everywhere.
    let served = Served::new(&folio, "0.0.0.0:0");
    let late = token_of(&folio, "late");
    let path = |space: &str| format!("/v1/spaces/{space}/observations");
    assert_eq!(
        served.refusal(&path("main"), Some(&other)),
        refusal("403", "token_of_another_space")
    );
    assert_eq!(
        served.status(&path("late"), Some(&late)),
        "200",
        "its token is younger than the server"
    );
    let mut answer = String::new();
    served
        .open(&path("other"), Some(&other))
        .read_to_string(&mut answer)
        .unwrap();
    assert!(
        answer.contains("newer in other") && !answer.contains("known in main"),
        "{answer}"
    );
    // It is tidied when the server starts.
    folio.until(&archived, |archived| archived["total"] == 1);
}

#[test]
fn next_server_resumes_a_killed_servers_run_in_another_space_e9_9() {
    let folio = Folio::new();
    let token = token_of(&folio, "other");
    let served = Served::new(&folio, "127.0.0.1:0");
    let steps: Vec<_> = (0..10)
        .map(|n| json!({"id": format!("wait{n}"), "do": {"tool": "wait", "args": {"ms": 100}}}))
        .collect();
    let wanted = json!({"plan": {"title": "Slow", "steps": steps}}).to_string();
    let begun = served.post_as("/v1/spaces/other/runs", Some(&token), &wanted);
    assert!(begun.contains(" 201 "), "{begun}");
    let runs = ["--store", "sqlite:f.db", "--space", "other", "runs"];
    folio.until(&runs, |runs| runs["items"][0]["driven"] == json!(true));
    // It is killed.
    drop(served);
    let idle = folio.process(&[
        "--store",
        "sqlite:f.db",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--no-resume",
    ]);
    drop(Served::of(idle));
    assert_eq!(folio.json(&runs)["items"][0]["status"], json!("running"));
    let _served = Served::new(&folio, "127.0.0.1:0");
    let ended = folio.until(&runs, |runs| runs["items"][0]["status"] != json!("running"));
    assert_eq!(ended["items"][0]["status"], json!("ok"), "{ended}");
    let main = folio.json(&["--store", "sqlite:f.db", "runs"]);
    assert_eq!(main["items"], json!([]), "it is in no other space");
}
