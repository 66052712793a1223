//! `folio worker` as a process that Restate knows, killed at the end of its test, however that ends.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A worker.
pub(crate) struct Worker(Child);

impl Worker {
    /// The one that `command` starts. Restate knows it when this returns.
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

    /// Tells it to end, and waits until it has.
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
