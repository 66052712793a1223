//! The program itself: how soon it starts, and how soon it continues after its process was killed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use folio::Timestamp;
use folio::memory::Clock as _;
use folio::store::SystemClock;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{median, millis, shapes};
use crate::error::Failure;

/// The number of steps of the run that is killed in the middle.
const STEPS: u32 = 400;

/// The cost of starting and of taking over a run.
#[derive(Debug, Serialize)]
pub(crate) struct ProcessFigures {
    pub(super) start_to_first_step_ms: f64,
    pub(super) resume_to_first_step_ms: f64,
    /// How many steps were done when the process was killed.
    pub(super) done_before: usize,
    /// How many of these were called again; there must be none.
    pub(super) calls_again: usize,
    /// How many calls had begun, had no result, and were made again.
    pub(super) calls_again_in_flight: usize,
}

pub(super) fn measure(folder: &Path) -> Result<ProcessFigures, Failure> {
    let plan_of = |name: &str, steps| {
        let plan = folder.join(name);
        std::fs::write(&plan, shapes::plan(&shapes::chain(steps)).to_string())
            .map_err(|error| Failure::cannot("write", "the plan", error))?;
        Ok::<_, Failure>(plan.display().to_string())
    };
    let (small, plan) = (plan_of("small.json", 5)?, plan_of("chain.json", STEPS)?);
    let mut starts = Vec::new();
    let mut resumes = Vec::new();
    let (mut done_before, mut calls_again, mut calls_again_in_flight) = (0, 0, 0);
    for repeat in 0..5 {
        let store = format!("sqlite:{}", folder.join(format!("process-{repeat}.db")).display());
        let other = format!("sqlite:{}", folder.join(format!("start-{repeat}.db")).display());
        let began = Instant::now();
        let mut started = events(&["run", "--plan", &small, "--json", "--store", &other])?;
        if started.lines.any(|event| event["event"] == "started") {
            starts.push(began.elapsed());
        }
        started.wait();

        let mut first = events(&["run", "--plan", &plan, "--json", "--store", &store])?;
        let mut started_nodes = Vec::new();
        let mut finished_nodes = Vec::new();
        for event in &mut first.lines {
            if event["event"] == "started" {
                started_nodes.push(event["node_id"].clone());
            }
            if event["event"] == "finished" {
                finished_nodes.push(event["node_id"].clone());
            }
            if finished_nodes.len() >= STEPS as usize / 2 {
                break;
            }
        }
        first.kill();

        let killed_at = SystemClock.now();
        let began = Instant::now();
        let mut second = events(&["resume", "--json", "--store", &store])?;
        let mut resumed = None;
        for event in &mut second.lines {
            // Earlier events are shown first; a call that begins after the kill is new.
            let at = event["at"].as_str().and_then(|at| Timestamp::parse(at).ok());
            if event["event"] == "started" && at.is_some_and(|at| at > killed_at) {
                resumed.get_or_insert_with(|| began.elapsed());
                calls_again += usize::from(finished_nodes.contains(&event["node_id"]));
                calls_again_in_flight += usize::from(started_nodes.contains(&event["node_id"]));
            }
        }
        resumes.extend(resumed);
        done_before += finished_nodes.len();
        second.kill();
    }
    Ok(ProcessFigures {
        start_to_first_step_ms: millis(median(starts)),
        resume_to_first_step_ms: millis(median(resumes)),
        done_before,
        calls_again,
        calls_again_in_flight,
    })
}

struct Events {
    child: Child,
    lines: Box<dyn Iterator<Item = Value>>,
}

impl Events {
    fn wait(&mut self) {
        self.lines.by_ref().for_each(drop);
        let _ended = self.child.wait();
    }

    fn kill(&mut self) {
        // The process may have ended by itself.
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
