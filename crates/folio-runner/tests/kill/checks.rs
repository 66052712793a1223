//! `kill -9` while a command checks the result of a call: the call, which had ended, is not made again, whatever its
//! effect (E9.9).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::models_support::{Effects, of_goal, registry, sqlite, submit, workspace};
use crate::only_run::only_run;
use folio_engine::{Event, Outcome};
use folio_memory::Seq;
use folio_runner::{NewRun, Runner, RunnerOptions};
use folio_tools::ShellPolicy;
use serde_json::json;

/// The variable with the folder of a child process; without it the child's test does nothing.
const FOLDER_ENV: &str = "FOLIO_TEST_KILL_CHECKS_FOLDER";

fn runner_in(folder: &Path) -> Runner {
    let options = RunnerOptions {
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        ..RunnerOptions::default()
    };
    let store = sqlite(&folder.join("folio.db"));
    Runner::new(workspace(store), registry(&Effects::default()), options)
}

/// A call that must not be made twice, and a step after it. Its result is checked by a command that records that it
/// has begun, and ends when released.
fn checked(folder: &Path) -> NewRun {
    let sh = |script: &str| json!(["sh", "-c", script]);
    let check = sh("echo check >> checks; until [ -e go ]; do sleep 0.02; done");
    let steps = json!([
        {
            "id": "effect",
            "do": {"tool": "shell", "args": {"argv": sh("echo effect >> effects")}},
            "criteria": [{"id": "c1", "text": "it is there", "check": {"command": check}}],
        },
        {"id": "after", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ results.effect.status }}"}}},
    ]);
    NewRun {
        shell: ShellPolicy::AllowAll,
        folder: Some(folder.to_owned()),
        ..of_goal("check it", json!({"steps": steps}))
    }
}

/// What the child process does: submits the run and drives it until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER_ENV) else {
        return;
    };
    let folder = Path::new(&folder);
    let runner = runner_in(folder);
    let run = submit(&runner, checked(folder)).await;
    runner.drive(run).await.unwrap();
}

fn lines_of(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Waits until `file` has so many lines.
async fn wait_for_lines(file: &Path, lines: usize) {
    for _ in 0..1_500 {
        if lines_of(file).len() >= lines {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} has {:?}", file.display(), lines_of(file));
}

#[tokio::test(flavor = "multi_thread")]
async fn driver_killed_during_a_check_does_not_repeat_the_call_e9_9() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "checks::child", "--test-threads=1"])
        .env(FOLDER_ENV, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_lines(&folder.join("checks"), 1).await;
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(folder.join("go"), "").unwrap();

    let runner = runner_in(folder);
    let workspace = runner.workspace();
    let run = only_run(&runner).await.unwrap();
    let result = runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    assert_eq!(lines_of(&folder.join("effects")), ["effect"]);
    // Of what only checks a second time is no harm.
    assert_eq!(lines_of(&folder.join("checks")).len(), 2);
    let ended = runner.load(run).await.unwrap();
    let after = ended.node_at("after").unwrap().result.unwrap().output.value();
    assert_eq!(after.unwrap()["value"], json!("ok"));
    let journal = workspace.journal(run, Seq(0)).await.unwrap();
    let effect = ended.node_at("effect").unwrap().id;
    let begun = |(_, event): &&(_, Event)| matches!(event, Event::Started { node, .. } if *node == effect);
    assert_eq!(journal.events.iter().filter(begun).count(), 1);
}
