//! A second process for tests that need one: the test program itself, told to run one test only.
//!
//! The test that shall run there is marked `#[ignore]`, asks for its [`orders`], and returns at once if there are none. What
//! it has to tell it [`say`]s.

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const PATH: &str = "FOLIO_TEST_PROCESS_PATH";
const NUMBER: &str = "FOLIO_TEST_PROCESS_NUMBER";

/// Another process. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// What a process was told.
#[derive(Debug)]
pub struct Orders {
    /// What it works on.
    pub path: PathBuf,
    /// Which of several it is.
    pub number: u16,
}

impl Process {
    /// Starts the test called `name` of this test program in a process of its own.
    #[must_use]
    pub fn start(name: &str, path: &Path, number: u16) -> Self {
        let program = std::env::current_exe().expect("the test program");
        Self::run(Command::new(program), name, path, number)
    }

    /// The same, such that a write beyond a limit is an error and not a signal.
    #[must_use]
    pub fn start_with_limits(name: &str, path: &Path, number: u16) -> Self {
        let program = std::env::current_exe().expect("the test program");
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(program);
        Self::run(command, name, path, number)
    }

    fn run(mut command: Command, name: &str, path: &Path, number: u16) -> Self {
        let mut child = command
            .args(["--exact", name, "--ignored", "--nocapture", "--test-threads", "1"])
            .env(PATH, path)
            .env(NUMBER, number.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("another process");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, lines }
    }

    /// What it says next, without what the test harness says; none when it has ended.
    pub fn says(&mut self) -> Option<String> {
        loop {
            // Killed in the middle of a line, it may leave half of one.
            let line = self.lines.next()?.ok()?;
            if let Some((_, said)) = line.split_once("says: ") {
                return Some(said.to_owned());
            }
        }
    }

    /// Kills it, as `kill -9` does, and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        self.child.kill().unwrap_or_default();
        self.child.wait().expect("its end");
    }

    /// Waits until it has ended by itself; whether its test passed.
    pub fn ends_well(&mut self) -> bool {
        self.child.wait().expect("its end").success()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id")).expect("a process id");
        kill_process(pid, signal).expect("a signal");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// In the other process: what it was told. None in an ordinary run of the test.
#[must_use]
pub fn orders() -> Option<Orders> {
    let path = std::env::var_os(PATH)?.into();
    let number = std::env::var_os(NUMBER)?.to_str()?.parse().ok()?;
    Some(Orders { path, number })
}

/// In the other process: says something to the one that started it.
pub fn say(text: impl std::fmt::Display) {
    use std::io::Write;
    // In one piece and past the buffer, so that what was said is known even if the process ends now.
    let mut out = std::io::stdout().lock();
    writeln!(out, "says: {text}")
        .and_then(|()| out.flush())
        .expect("a listener");
}
