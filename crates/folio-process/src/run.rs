//! Runs a program from its start to its end.

use std::future::pending;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::sink::Sink;
use crate::{ProcessError, Program};

/// How long the outputs of a program may stay open after it has ended, because something that it started still holds
/// them. Then that is killed. A killed program has as long to be gone.
pub const DRAIN: Duration = Duration::from_millis(500);

/// How long a program may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the start of the program to its end.
    pub time: Duration,
    /// Between the request to end and the kill.
    pub grace: Duration,
}

/// Why a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was not ended from here.
    ByItself,
    /// Its time was up.
    TimedOut,
    /// It was cancelled.
    Cancelled,
    /// A sink stopped it.
    Stopped,
}

/// How a program ended.
#[derive(Debug, Clone, Copy)]
pub struct Finished {
    /// Why it ended.
    pub ended: Ended,
    status: Option<ExitStatus>,
}

impl Finished {
    /// Its exit code, if it exited with one.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// The signal that killed it, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.and_then(|status| status.signal())
    }
}

/// Runs a program to its end: it reads `input`, or nothing, and its outputs go to the sinks as they come.
///
/// When a limit is reached, on `cancel` and when a sink stops, the whole group is asked to end, and killed after the
/// grace period; so is the program itself if it left the group, together with the group that it leads then. Nothing
/// that it started there goes on afterwards. Dropping the future kills all of these at once.
///
/// # Errors
///
/// If the program could not be started, or the system does not say how it ended.
pub async fn run(
    program: &Program,
    input: Option<Vec<u8>>,
    limits: Limits,
    cancel: &CancellationToken,
    stdout_sink: &mut dyn Sink,
    stderr_sink: &mut dyn Sink,
) -> Result<Finished, ProcessError> {
    let mut running = program.start(if input.is_some() { Stdio::piped() } else { Stdio::null() })?;
    let mut stdin = running.child.stdin.take();
    let input = input.unwrap_or_default();
    let feeding = async {
        if let Some(mut stdin) = stdin.take() {
            // A program that does not read its input may still answer.
            stdin.write_all(&input).await.unwrap_or_default();
            stdin.shutdown().await.unwrap_or_default();
        }
    };
    tokio::pin!(feeding);
    let mut is_fed = false;
    let (mut stdout, mut stderr) = (running.child.stdout.take(), running.child.stderr.take());
    let (mut piece, mut error_piece) = (vec![0; 64 * 1024], vec![0; 16 * 1024]);
    let mut status = None;
    let mut ended = Ended::ByItself;
    let mut is_killed = false;
    // When to kill: at the end of the grace period, or when the outputs stay open for too long.
    let mut kill_at: Option<Instant> = None;
    let time_up = Instant::now() + limits.time;
    while status.is_none() || stdout.is_some() || stderr.is_some() {
        let goes_on = ended == Ended::ByItself && status.is_none();
        let mut why = None;
        tokio::select! {
            read = read_from(stdout.as_mut(), &mut piece) => match read {
                0 => stdout = None,
                read if stdout_sink.take(&piece[..read]).is_break() => why = Some(Ended::Stopped),
                _ => {}
            },
            read = read_from(stderr.as_mut(), &mut error_piece) => match read {
                0 => stderr = None,
                read if stderr_sink.take(&error_piece[..read]).is_break() => why = Some(Ended::Stopped),
                _ => {}
            },
            () = &mut feeding, if !is_fed => is_fed = true,
            waited = running.child.wait(), if status.is_none() => {
                let name = || program.name.clone();
                status = Some(waited.map_err(|source| ProcessError::Lost { name: name(), source })?);
                kill_at = Some(Instant::now() + DRAIN);
            }
            () = cancel.cancelled(), if goes_on => why = Some(Ended::Cancelled),
            () = sleep_until(time_up), if goes_on => why = Some(Ended::TimedOut),
            () = sleep_until_some(kill_at) => {
                running.kill();
                // Only a process that left the group can still hold the outputs; and a process that the system does not
                // end is not waited for.
                if status.is_some() || is_killed {
                    break;
                }
                is_killed = true;
                kill_at = Some(Instant::now() + DRAIN);
            }
        }
        if let Some(why) = why
            && ended == Ended::ByItself
        {
            ended = why;
            running.ask_to_end();
            kill_at = Some(Instant::now() + limits.grace);
        }
    }
    running.close().await;
    Ok(Finished { ended, status })
}

/// Reads a piece; returns 0 at the end. Waits forever on an output that is closed.
async fn read_from<R: AsyncRead + Unpin>(output: Option<&mut R>, piece: &mut [u8]) -> usize {
    match output {
        // A read error counts as the end of the output.
        Some(output) => output.read(piece).await.unwrap_or(0),
        None => pending().await,
    }
}

async fn sleep_until_some(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::tests::{shell, wait_until_gone};
    use crate::{Tail, Whole};

    const LIMITS: Limits = Limits {
        time: Duration::from_secs(1000),
        grace: Duration::from_millis(50),
    };

    /// Stops a program as soon as it has printed a line.
    struct StopAtALine {
        stop: CancellationToken,
        printed: Whole,
    }

    impl Sink for StopAtALine {
        fn take(&mut self, piece: &[u8]) -> ControlFlow<()> {
            if piece.contains(&b'\n') {
                self.stop.cancel();
            }
            self.printed.take(piece)
        }
    }

    /// Stops a program once it is in a group of its own; returns how it ended, and what it printed until then.
    async fn stop_in_new_group(script: &str) -> (Finished, String) {
        let stop = CancellationToken::new();
        let mut output = StopAtALine {
            stop: stop.clone(),
            printed: Whole::new(1024),
        };
        let mut errors = Tail::new(1024);
        let program = shell(&format!("exec setsid sh -c '{script}'"));
        let running = run(&program, None, LIMITS, &stop, &mut output, &mut errors);
        let finished = tokio::time::timeout(Duration::from_secs(20), running).await;
        let printed = String::from_utf8(output.printed.bytes).unwrap();
        (finished.expect("it ends").unwrap(), printed)
    }

    #[tokio::test]
    async fn cancel_sends_sigterm_to_a_program_outside_its_group_e9_11() {
        let (finished, _) = stop_in_new_group("echo ready; exec sleep 1000").await;
        assert_eq!((finished.ended, finished.signal()), (Ended::Cancelled, Some(15)));
    }

    #[tokio::test]
    async fn cancel_kills_a_stubborn_program_and_its_new_group_e9_11() {
        let script = r#"trap "" TERM; sleep 1000 & echo $!; while :; do wait; done"#;
        let (finished, child) = stop_in_new_group(script).await;
        assert_eq!((finished.ended, finished.signal()), (Ended::Cancelled, Some(9)));
        wait_until_gone(child.trim()).await;
    }

    #[tokio::test]
    async fn dropping_the_run_kills_a_program_and_its_new_group_e9_11() {
        let printed = CancellationToken::new();
        let mut output = StopAtALine {
            stop: printed.clone(),
            printed: Whole::new(1024),
        };
        let mut errors = Tail::new(1024);
        let program = shell("exec setsid sh -c 'sleep 1000 & echo $!; wait'");
        let unwanted = CancellationToken::new();
        tokio::select! {
            ended = run(&program, None, LIMITS, &unwanted, &mut output, &mut errors) => panic!("{ended:?}"),
            () = printed.cancelled() => {}
        }
        wait_until_gone(std::str::from_utf8(&output.printed.bytes).unwrap().trim()).await;
    }
}
