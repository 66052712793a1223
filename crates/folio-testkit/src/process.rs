//! A second process for tests that need one: the test program itself, started with a single test.
//!
//! The test that runs there is marked `#[ignore]`, reads its [`orders`], and returns at once if there are none. It
//! reports with [`say`].

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const PATH: &str = "FOLIO_TEST_PROCESS_PATH";
const NUMBER: &str = "FOLIO_TEST_PROCESS_NUMBER";

/// Another process. Killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// The instructions for a process.
#[derive(Debug)]
pub struct Orders {
    /// The path that it works on.
    pub path: PathBuf,
    /// Its number among several processes.
    pub number: u16,
}

impl Process {
    /// Starts the test called `name` of this test program in another process.
    #[must_use]
    pub fn start(name: &str, path: &Path, number: u16) -> Self {
        let program = std::env::current_exe().expect("the test program");
        Self::run(Command::new(program), name, path, number)
    }

    /// Like [`Process::start`], but a write beyond a file size limit is an error and not a signal.
    #[must_use]
    pub fn start_with_limits(name: &str, path: &Path, number: u16) -> Self {
        let program = std::env::current_exe().expect("the test program");
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(program);
        Self::run(command, name, path, number)
    }

    /// Like [`Process::start`], but file permissions hold for the process even if the present user is root.
    #[must_use]
    pub fn start_without_privileges(name: &str, path: &Path, number: u16) -> Self {
        let program = std::env::current_exe().expect("the test program");
        if !rustix::process::geteuid().is_root() {
            return Self::run(Command::new(program), name, path, number);
        }
        let mut command = Command::new("setpriv");
        let less = "-dac_override,-dac_read_search";
        command.args(["--inh-caps", less, "--bounding-set", less]).arg(program);
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

    /// The next line that it reports, without the output of the test harness; `None` when it has ended.
    pub fn next_line(&mut self) -> Option<String> {
        loop {
            // If it was killed in the middle of a line, half of one may be left.
            let line = self.lines.next()?.ok()?;
            if let Some((_, message)) = line.split_once("says: ") {
                return Some(message.to_owned());
            }
        }
    }

    /// Kills it, like `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        self.child.kill().unwrap_or_default();
        self.child.wait().expect("its end");
    }

    /// Waits until it has ended by itself; returns whether its test passed.
    pub fn wait_for_success(&mut self) -> bool {
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

/// For the other process: its instructions. `None` in an ordinary run of the test.
#[must_use]
pub fn orders() -> Option<Orders> {
    let path = std::env::var_os(PATH)?.into();
    let number = std::env::var_os(NUMBER)?.to_str()?.parse().ok()?;
    Some(Orders { path, number })
}

/// For the other process: reports a line to the process that started it.
pub fn say(text: impl std::fmt::Display) {
    use std::io::Write;
    // Written at once and flushed, so that the report arrives even if the process ends now.
    let mut out = std::io::stdout().lock();
    writeln!(out, "says: {text}")
        .and_then(|()| out.flush())
        .expect("a listener");
}
