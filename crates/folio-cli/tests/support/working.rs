//! `folio worker` as a process that Restate knows, killed at the end of its test, however that ends; and runs for it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A worker.
pub(crate) struct Worker(Child);

impl Worker {
    /// Starts a worker with `command`. Restate knows it when this returns.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let worker = Self(child);
        let mut line = String::new();
        while !line.starts_with("takes runs") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the worker ended");
        }
        // What it says later is not kept from it.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        worker
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Tells the worker to end, and waits for it.
    pub(crate) fn end(mut self) {
        self.signal(Signal::TERM);
        self.0.wait().unwrap();
    }

    pub(crate) fn is_there(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // One that has ended already cannot be ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The arguments of a worker: where to listen, and where Restate is.
pub(crate) fn worker<'a>(ingress: &'a str, listen: &'a str, admin: &'a str) -> [&'a str; 8] {
    [
        "worker",
        "--runner",
        ingress,
        "--listen",
        listen,
        "--restate-admin",
        admin,
        "--non-interactive",
    ]
}

/// The arguments that submit the plan in the file `name` through Restate.
pub(crate) fn submitting<'a>(ingress: &'a str, name: &'a str) -> [&'a str; 8] {
    [
        "run",
        "--runner",
        ingress,
        "--plan",
        name,
        "--allow-shell",
        "--non-interactive",
        "--quiet",
    ]
}

/// The plan of run number `run`: each of `rounds` rounds waits `ms` milliseconds, notes something, and has an external
/// effect that must not happen twice. In the round `held`, the effect waits for a file `go`.
pub(crate) fn plan_of(run: usize, rounds: usize, ms: u32, held: Option<usize>) -> String {
    let rounds = (0..rounds).map(|round| {
        let hold = if held == Some(round) {
            "until [ -e go ]; do sleep 0.05; done; "
        } else {
            ""
        };
        format!(
            "  - {{id: wait{round}, do: {{tool: wait, args: {{ms: {ms}}}}}}}
  - {{id: note{round}, do: {{tool: observe, args: {{content: 'run {run} round {round}'}}}}}}
  - {{id: post{round}, optional: true, do: {{tool: shell, args: {{command: '{hold}echo {run}.{round} >> posted', alone: false}}}}}}\n"
        )
    });
    format!("title: Run {run}\nsteps:\n{}", rounds.collect::<String>())
}
