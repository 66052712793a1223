//! A closed terminal.

use std::process::{Child, Stdio};

use crate::support::served::Served;
use crate::support::{Called, Folio, is_gone, line_of};
use rustix::process::{Pid, Signal, kill_process};

/// A command that writes its process id, and runs until there is a file `go`.
const PLAN: &str = "steps: [{id: s, do: {tool: shell, args: {alone: false, command: 'echo $$ > pid; until [ -e go ]; do sleep 0.05; done'}}}]";
const RUN: [&str; 5] = ["run", "--plan", "plan.yaml", "--allow-shell", "--quiet"];

fn hang_up(child: &Child) {
    kill_process(Pid::from_child(child), Signal::HUP).unwrap();
}

#[test]
fn terminal_hangup_ends_commands_and_leaves_the_run_resumable() {
    let folio = Folio::new();
    folio.file("plan.yaml", PLAN);
    let running = folio
        .process(&RUN)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = line_of(&folio, "pid");
    hang_up(&running);
    let left = Called::of(running.wait_with_output().unwrap());
    assert_eq!(left.code, 130, "{left}");
    assert!(left.stderr.contains("resume it with `folio resume r1`"), "{left}");
    is_gone(&pid);
    assert_eq!(folio.json(&["show", "r1"])["status"], "running");
}

#[test]
fn run_started_with_nohup_ignores_a_terminal_hangup() {
    let folio = Folio::new();
    folio.file("plan.yaml", PLAN);
    let program = assert_cmd::cargo::cargo_bin!("folio");
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(program)
        .args(RUN);
    command
        .env_clear()
        .current_dir(folio.path())
        .env("HOME", folio.path().join("home"));
    let running = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    line_of(&folio, "pid");
    hang_up(&running);
    folio.file("go", "");
    let ended = Called::of(running.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(folio.json(&["show", "r1"])["status"], "ok");
}

#[test]
fn server_closes_its_store_on_a_terminal_hangup() {
    let folio = Folio::new();
    let mut served = Served::new(&folio, "127.0.0.1:0");
    assert_eq!(served.status("/healthz", None), "200");
    hang_up(&served.child);
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    assert!(!folio.path().join("f.db-wal").exists());
}
