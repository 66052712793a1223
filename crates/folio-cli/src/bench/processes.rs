//! The program itself: how soon it begins, and how soon it goes on after its process was killed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{median, millis, shapes};
use crate::error::Failure;

/// Steps of the run that is killed in the middle.
const STEPS: u32 = 400;

/// What starting and taking over cost.
#[derive(Debug, Serialize)]
pub(crate) struct ProcessFigures {
    pub(super) start_to_first_step_ms: f64,
    pub(super) resume_to_first_step_ms: f64,
    /// Steps that were done when the process was killed.
    pub(super) done_before: usize,
    /// Calls made again: those in flight.
    pub(super) calls_again: usize,
}

pub(super) fn measure(folder: &Path) -> Result<ProcessFigures, Failure> {
    let plan = folder.join("chain.json");
    std::fs::write(&plan, shapes::plan(&shapes::chain(STEPS)).to_string())
        .map_err(|e| Failure::cannot("write", "the plan", e))?;
    let plan = plan.display().to_string();
    let mut starts = Vec::new();
    let mut resumes = Vec::new();
    let (mut done_before, mut calls_again) = (0, 0);
    for repeat in 0..5 {
        let store = format!("sqlite:{}", folder.join(format!("process-{repeat}.db")).display());
        let began = Instant::now();
        let mut first = events(&["run", "--plan", &plan, "--json", "--store", &store])?;
        let mut begun = Vec::new();
        let mut finished = 0;
        for event in &mut first.lines {
            if event["event"] == "started" {
                if begun.is_empty() {
                    starts.push(began.elapsed());
                }
                begun.push(event["node_id"].clone());
            }
            finished += usize::from(event["event"] == "finished");
            if finished >= STEPS as usize / 2 {
                break;
            }
        }
        first.kill();

        let began = Instant::now();
        let mut second = events(&["resume", "--json", "--store", &store])?;
        let mut resumed = None;
        for event in &mut second.lines {
            if event["event"] == "started" && began_anew(&event, &mut calls_again, &begun) && resumed.is_none() {
                resumed = Some(began.elapsed());
            }
        }
        resumes.extend(resumed);
        done_before += finished;
        second.kill();
    }
    Ok(ProcessFigures {
        start_to_first_step_ms: millis(median(starts)),
        resume_to_first_step_ms: millis(median(resumes)),
        done_before,
        calls_again,
    })
}

/// Whether a step began; counts it if it had begun before.
fn began_anew(event: &Value, calls_again: &mut usize, begun: &[Value]) -> bool {
    *calls_again += usize::from(begun.contains(&event["node_id"]));
    true
}

struct Events {
    child: Child,
    lines: Box<dyn Iterator<Item = Value>>,
}

impl Events {
    fn kill(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Starts this program with `arguments` and reads the events that it writes.
fn events(arguments: &[&str]) -> Result<Events, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::cannot("find", "this program", error))?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Failure::cannot("start", "this program", error))?;
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let lines = Box::new(lines.map(|line| serde_json::from_str(&line).unwrap_or_else(|_| json!({}))));
    Ok(Events { child, lines })
}
