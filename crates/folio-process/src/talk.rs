//! A program to talk with for as long as it lives.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinSet;

use crate::group::Running;
use crate::run::DRAIN;
use crate::sink::{Sink as _, Tail};
use crate::{ProcessError, Program};

/// How many bytes of the end of its standard error are kept.
const ERROR_BYTES: usize = 16 * 1024;
/// How long the system may take to report that a killed program is gone.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The most characters of a printed line that are quoted in messages.
pub const LINE_CHARS: usize = 200;

/// What a program printed, to be appended to an error: the last line of its output that was not a message, and the last
/// line of its standard error, if there are any.
#[must_use]
pub fn printed(stray_line: Option<&str>, last_error: Option<&str>) -> String {
    let describe = |label: &str, line: Option<&str>| {
        line.map_or_else(String::new, |line| {
            let line: String = line.chars().take(LINE_CHARS).collect();
            format!("; {label}: {line}")
        })
    };
    let output_note = describe("it printed to its output, where only messages belong", stray_line);
    output_note + &describe("its last line", last_error)
}

/// A running program. Dropping it kills it with all that it started.
#[derive(Debug)]
pub struct Talking {
    running: Running,
    /// Whether it was ended with all that it started.
    is_closed: bool,
    errors: Arc<Mutex<Tail>>,
    /// Reads standard error until the program, and what it left behind, have closed it, or this is dropped.
    reading: JoinSet<()>,
}

/// Starts a program; returns it with its input and its output.
///
/// Its standard error is read, so that the program never blocks on it, and the end of it is kept.
///
/// # Errors
///
/// If it cannot be started.
pub fn spawn(program: &Program) -> Result<(Talking, ChildStdin, ChildStdout), ProcessError> {
    let mut running = program.start(Stdio::piped())?;
    let errors = Arc::new(Mutex::new(Tail::new(ERROR_BYTES)));
    let child = &mut running.child;
    let stderr = child.stderr.take();
    let mut reading = JoinSet::new();
    if let Some(stderr) = stderr {
        reading.spawn(collect_stderr(stderr, Arc::clone(&errors)));
    }
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(program.not_started(std::io::Error::other("it has no input or no output")));
    };
    let talking = Talking {
        running,
        is_closed: false,
        errors,
        reading,
    };
    Ok((talking, stdin, stdout))
}

async fn collect_stderr(mut stderr: ChildStderr, errors: Arc<Mutex<Tail>>) {
    let mut piece = vec![0; 8 * 1024];
    // A read error counts as the end of the output.
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        let _goes_on = errors.lock().take(&piece[..read]);
    }
}

impl Talking {
    /// The last line that the program printed to standard error, if there is one.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        let errors = self.errors.lock();
        let text = String::from_utf8_lossy(errors.bytes());
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(line.trim().to_owned())
    }

    /// Whether the program has ended, whatever it left behind.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.running.child.try_wait(), Ok(Some(_)))
    }

    /// Waits until the program has ended, and then a little so that its last output can be read; not until the output
    /// is closed, because what the program left behind may hold it open forever.
    pub async fn wait_until_ended(&mut self) {
        if self.running.child.wait().await.is_ok() {
            tokio::time::sleep(DRAIN).await;
        }
    }

    /// The exit code of the program, once it has ended; `None` also if a signal ended it.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.running.child.try_wait().ok().flatten()?.code()
    }

    /// Ends the program after its input was closed: it gets the grace period to end by itself, is then asked to end,
    /// and is killed after the same time again, with all that it started. Afterwards its standard error is known.
    pub async fn end(&mut self, grace: Duration) {
        if self.is_closed {
            return;
        }
        if tokio::time::timeout(grace, self.running.child.wait()).await.is_err() {
            self.running.ask_to_end();
            // Whatever is left is killed below.
            let _waited = tokio::time::timeout(grace, self.running.child.wait()).await;
        }
        self.running.close().await;
        self.is_closed = true;
        // It was killed with its group; what remains is to reap it.
        let _reaped = tokio::time::timeout(EXIT_TIMEOUT, self.running.child.wait()).await;
        let _read = tokio::time::timeout(EXIT_TIMEOUT, self.reading.join_next()).await;
        self.reading.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    use super::*;
    use crate::tests::{shell, wait_until_gone};

    #[tokio::test]
    async fn end_reaches_a_program_that_left_its_process_group_e9_11() {
        let script = r#"exec setsid sh -c 'trap "" TERM; sleep 1000 & echo $$ $!; while :; do wait; done'"#;
        let (mut talking, stdin, stdout) = spawn(&shell(script)).unwrap();
        let mut pids = String::new();
        BufReader::new(stdout).read_line(&mut pids).await.unwrap();
        drop(stdin);
        talking.end(Duration::from_millis(50)).await;
        assert_eq!(pids.split_whitespace().count(), 2, "{pids}");
        for pid in pids.split_whitespace() {
            wait_until_gone(pid).await;
        }
    }

    #[tokio::test]
    async fn stderr_reader_stops_while_a_detached_child_still_lives() {
        let script = "setsid sh -c 'echo $$; exec sleep 1000 >/dev/null' & read -r wait";
        let started = || spawn(&shell(script)).unwrap();
        let (mut ended, stdin, stdout) = started();
        let (dropped, _stdin, other) = started();
        let mut pids = String::new();
        BufReader::new(stdout).read_line(&mut pids).await.unwrap();
        BufReader::new(other).read_line(&mut pids).await.unwrap();
        drop(stdin);
        ended.end(Duration::from_millis(50)).await;
        assert_eq!(Arc::strong_count(&ended.errors), 1, "its reader is gone");
        let errors = Arc::clone(&dropped.errors);
        drop(dropped);
        while Arc::strong_count(&errors) > 1 {
            tokio::task::yield_now().await;
        }
        for pid in pids.split_whitespace() {
            let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
            let _may_be_gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    #[tokio::test]
    async fn dropping_a_conversation_ends_a_program_outside_its_group_e9_11() {
        let script = "exec setsid sh -c 'sleep 1000 & echo $$ $!; wait'";
        let (talking, _stdin, stdout) = spawn(&shell(script)).unwrap();
        let mut pids = String::new();
        BufReader::new(stdout).read_line(&mut pids).await.unwrap();
        drop(talking);
        assert_eq!(pids.split_whitespace().count(), 2, "{pids}");
        for pid in pids.split_whitespace() {
            wait_until_gone(pid).await;
        }
    }
}
