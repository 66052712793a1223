//! A program that is talked with for as long as it lives.

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

/// Bytes of what it prints to standard error that are kept, from the end.
const ERROR_BYTES: usize = 16 * 1024;
/// How long it may take until the system says of a program that was killed that it is gone.
const NOTED: Duration = Duration::from_secs(1);

/// Characters of a line that a program printed, where somebody is told of it.
pub const LINE_CHARS: usize = 200;

/// What a program printed, to be said after what went wrong: the last line of its output that was no message, and the last line of its
/// standard error, as far as there are any.
#[must_use]
pub fn printed(stray: Option<&str>, last_error: Option<&str>) -> String {
    let line = |about: &str, line: Option<&str>| {
        line.map_or_else(String::new, |line| {
            let line: String = line.chars().take(LINE_CHARS).collect();
            format!("; {about}: {line}")
        })
    };
    let stray = line("it printed to its output, where only messages belong", stray);
    stray + &line("its last line", last_error)
}

/// A program that lives. Dropping it kills it with all that it started.
#[derive(Debug)]
pub struct Talking {
    running: Running,
    /// Whether it was ended with all that it started.
    is_closed: bool,
    errors: Arc<Mutex<Tail>>,
    /// Reads them, until the program has ended, or what it left behind has closed them, too; not any longer than this is there.
    reading: JoinSet<()>,
}

/// Starts a program: with its input and its output.
///
/// What it prints to standard error is read, so that it is never kept waiting, and the end of it is kept.
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
        reading.spawn(keep(stderr, Arc::clone(&errors)));
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

async fn keep(mut stderr: ChildStderr, errors: Arc<Mutex<Tail>>) {
    let mut piece = vec![0; 8 * 1024];
    // An output that cannot be read is at its end.
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        let _goes_on = errors.lock().take(&piece[..read]);
    }
}

impl Talking {
    /// The last line of what it printed to standard error, if there is any.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        let errors = self.errors.lock();
        let text = String::from_utf8_lossy(errors.bytes());
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(line.trim().to_owned())
    }

    /// Whether it is gone, whatever it left behind.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.running.child.try_wait(), Ok(Some(_)))
    }

    /// Waits until it is gone, and for as long as what it said at last may take to be read: what it left behind may hold its output open
    /// for ever.
    pub async fn gone(&mut self) {
        if self.running.child.wait().await.is_ok() {
            tokio::time::sleep(DRAIN).await;
        }
    }

    /// The exit code that it ended with, once it has; `None` also if a signal ended it.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.running.child.try_wait().ok().flatten()?.code()
    }

    /// Ends it once whoever talked with it has closed its input: it has the grace to end by itself, then is asked to end, and is
    /// killed after the same time again, with all that it started. What it printed to standard error is known then.
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
        // Killed with its group; what remains is to take note of it.
        let _reaped = tokio::time::timeout(NOTED, self.running.child.wait()).await;
        let _read = tokio::time::timeout(NOTED, self.reading.join_next()).await;
        self.reading.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    use super::*;
    use crate::tests::{is_gone, shell};

    #[tokio::test]
    async fn one_that_left_its_group_is_ended_all_the_same_e9_11() {
        let script = r#"exec setsid sh -c 'trap "" TERM; sleep 1000 & echo $$ $!; while :; do wait; done'"#;
        let (mut talking, stdin, stdout) = spawn(&shell(script)).unwrap();
        let mut pids = String::new();
        BufReader::new(stdout).read_line(&mut pids).await.unwrap();
        drop(stdin);
        talking.end(Duration::from_millis(50)).await;
        for pid in pids.split_whitespace() {
            is_gone(pid).await;
        }
    }

    #[tokio::test]
    async fn what_was_left_behind_is_not_read_for_as_long_as_it_lives() {
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
    async fn one_that_left_its_group_ends_with_whoever_talked_with_it_e9_11() {
        let script = "exec setsid sh -c 'sleep 1000 & echo $$ $!; wait'";
        let (talking, _stdin, stdout) = spawn(&shell(script)).unwrap();
        let mut pids = String::new();
        BufReader::new(stdout).read_line(&mut pids).await.unwrap();
        drop(talking);
        for pid in pids.split_whitespace() {
            is_gone(pid).await;
        }
    }
}
