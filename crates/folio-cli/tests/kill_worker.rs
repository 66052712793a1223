//! `folio worker` without anybody who hands out runs: it takes up what nobody drives, until it is told to end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fmt::Write as _;

use serde_json::json;
use support::Folio;

const STORE: [&str; 2] = ["--store", "sqlite:f.db"];

#[test]
fn a_worker_takes_up_a_run_whose_program_was_killed_and_ends_when_it_is_told_to() {
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
        (0, "takes up runs of the space main\n"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("going on with r1"), "{}", ended.stderr);
}
