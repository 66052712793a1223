//! Runs whose process was killed: `folio worker` resumes them without Restate until it is told to end, and leaves
//! alone a run that kills every process that resumes it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fmt::Write as _;

use serde_json::json;
use support::Folio;

const STORE: [&str; 2] = ["--store", "sqlite:f.db"];

#[test]
fn worker_resumes_a_killed_run_and_ends_on_interrupt() {
    let folio = Folio::new();
    let mut plan = "title: Slow\nsteps:\n".to_owned();
    for n in 0..20 {
        writeln!(plan, "  - {{id: wait{n}, do: {{tool: wait, args: {{ms: 100}}}}}}").unwrap();
    }
    folio.file("plan.yaml", plan);
    let call = |more: &[&'static str]| [&STORE[..], more].concat();
    let running = folio.spawn(&call(&["run", "--plan", "plan.yaml"]));
    folio.until(&call(&["runs"]), |runs| runs["items"][0]["driven"] == json!(true));
    running.kill();
    let worker = folio.spawn(&call(&["worker"]));
    let shown = folio.until(&call(&["runs"]), |runs| runs["items"][0]["status"] != json!("running"));
    assert_eq!(shown["items"][0]["status"], json!("ok"), "{shown}");
    worker.interrupt();
    let ended = worker.wait();
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (0, "driving runs of the space main\n"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("resuming r1"), "{}", ended.stderr);
}

#[test]
fn run_that_kills_five_drivers_is_not_resumed_automatically_e9_9() {
    let folio = Folio::new();
    folio.file(
        "deadly.yaml",
        "title: Deadly
steps: [{id: wait, do: {tool: wait, args: {ms: 1}}, success_criteria: [{id: c1, check: {command: [sh, -c, 'test -e harmless || kill -9 $PPID']}}]}]
",
    );
    folio.file(
        "plan.yaml",
        "title: Good\nsteps: [{id: wait, do: {tool: wait, args: {ms: 1}}}]\n",
    );
    let call = |more: &[&'static str]| [&STORE[..], more].concat();
    let killed = |more: &[&'static str]| folio.spawn(&call(more)).wait().code;
    let mut codes = vec![killed(&["run", "--plan", "deadly.yaml", "--allow-shell"])];
    codes.extend((0..5).map(|_| killed(&["resume"])));
    assert_eq!(codes, [-1; 6]);
    let listed = folio.call(&call(&["runs"])).stdout;
    assert!(listed.contains("interrupted 5 times"), "{listed}");

    let resumed = folio.call(&call(&["resume"]));
    assert_eq!(resumed.code, 1, "{resumed}");
    assert!(
        resumed
            .stderr
            .contains("r1 is not resumed automatically: its process ended 5 times in a row"),
        "{resumed}"
    );
    let beside = folio.call(&call(&["run", "--plan", "plan.yaml"]));
    assert_eq!(beside.code, 0, "{beside}");
    assert!(beside.stderr.contains("r1 is not resumed automatically"), "{beside}");

    folio.file("harmless", "");
    folio.ok(&call(&["resume", "r1"]));
    assert_eq!(folio.json(&call(&["show", "r1"]))["status"], json!("ok"));
}
