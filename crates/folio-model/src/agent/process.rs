//! An agent program at work: in a process group of its own, within limits of time and output, with an environment that holds
//! only what it was given. It ends when whoever started it does, even if that was killed.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long a program that has ended may leave its outputs open: something that it started still has them. Then that is killed.
const DRAIN: Duration = Duration::from_millis(500);
/// Bytes of what it prints to standard error that are kept, from the end.
const ERROR_BYTES: usize = 16 * 1024;

/// What ends the group `$1` when the process that holds the other end of standard input is gone.
const LEASH: &str = "read -r _; kill -s TERM -- \"-$1\" 2>/dev/null && sleep 2 && kill -s KILL -- \"-$1\" 2>/dev/null";

/// How much a program may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) time: Duration,
    pub(super) output_bytes: usize,
    /// Between being asked to end and being killed.
    pub(super) grace: Duration,
}

/// What is to be started.
#[derive(Debug)]
pub(super) struct Started<'s> {
    pub(super) program: &'s str,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: &'s [(OsString, OsString)],
    pub(super) folder: &'s Path,
    pub(super) input: String,
    pub(super) limits: Limits,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With this exit code.
    ByItself(i32),
    /// Somebody else ended it.
    BySignal(i32),
    /// Its time was up.
    TimedOut,
    /// It printed more than it may.
    TooLoud,
    /// Nobody wants it any more.
    Stopped,
}

/// What it printed until then.
#[derive(Debug)]
pub(super) struct Printed {
    pub(super) ended: Ended,
    pub(super) output: Vec<u8>,
    /// The end of what it printed to standard error.
    pub(super) errors: Vec<u8>,
}

/// Ends everything that a program started, also when the call is dropped.
pub(super) struct Group {
    pid: Option<Pid>,
    leash: Option<Child>,
}

impl Group {
    /// Holds the group that `child` leads.
    pub(super) fn of(child: &Child, environment: &[(OsString, OsString)]) -> Self {
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let leash = pid.and_then(|pid| {
            let mut command = Command::new("sh");
            command
                .args(["-c", LEASH, "leash", &pid.as_raw_nonzero().to_string()])
                .env_clear()
                .envs(environment.iter().filter(|(name, _)| name == "PATH").cloned())
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .kill_on_drop(true);
            // Without a shell it works as well; it only is not ended when this process is killed.
            command.spawn().ok()
        });
        Self { pid, leash }
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid {
            // There may be nothing left to end.
            kill_process_group(pid, signal).unwrap_or_default();
        }
    }

    /// Ends all that is left, and lets go.
    pub(super) async fn close(mut self) {
        self.signal(Signal::KILL);
        self.pid = None;
        if let Some(mut leash) = self.leash.take() {
            // Killed before its input ends, so that it never ends a group that took the number of this one.
            leash.kill().await.unwrap_or_default();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Starts a program; its outputs and its input are pipes. Why it was not, in words.
pub(super) fn spawn(started: &Started<'_>) -> Result<(Child, Group), String> {
    let child = Command::new(started.program)
        .args(&started.arguments)
        .current_dir(started.folder)
        .env_clear()
        .envs(started.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| not_started(started, &error))?;
    let group = Group::of(&child, started.environment);
    Ok((child, group))
}

/// Runs a program to its end. On a limit and on `stop` the whole group is asked to end, and killed after the grace.
pub(super) async fn run(started: Started<'_>, stop: &CancellationToken) -> Result<Printed, String> {
    let (mut child, group) = spawn(&started)?;
    let limits = started.limits;
    let mut stdin = child.stdin.take();
    let input = started.input.into_bytes();
    let feeding = async {
        if let Some(mut stdin) = stdin.take() {
            // One that does not read its input may still answer.
            stdin.write_all(&input).await.unwrap_or_default();
            stdin.shutdown().await.unwrap_or_default();
        }
    };
    tokio::pin!(feeding);
    let mut is_fed = false;
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let (mut piece, mut error_piece) = (vec![0; 64 * 1024], vec![0; 8 * 1024]);
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut status: Option<ExitStatus> = None;
    let mut ended: Option<Ended> = None;
    // When to kill: at the end of the grace, or when the outputs stay open for too long.
    let mut kill_at: Option<Instant> = None;
    let time_up = Instant::now() + limits.time;
    while status.is_none() || stdout.is_some() || stderr.is_some() {
        let goes_on = ended.is_none() && status.is_none();
        let mut why = None;
        tokio::select! {
            read = read_from(stdout.as_mut(), &mut piece) => match read {
                0 => stdout = None,
                // What comes after the end of its patience is not kept.
                read if output.len() + read > limits.output_bytes => why = Some(Ended::TooLoud),
                read => output.extend_from_slice(&piece[..read]),
            },
            read = read_from(stderr.as_mut(), &mut error_piece) => match read {
                0 => stderr = None,
                read => {
                    errors.extend_from_slice(&error_piece[..read]);
                    if errors.len() > 2 * ERROR_BYTES {
                        errors.drain(..errors.len() - ERROR_BYTES);
                    }
                }
            },
            () = &mut feeding, if !is_fed => is_fed = true,
            waited = child.wait(), if status.is_none() => {
                status = Some(waited.map_err(|error| format!("nobody knows how it ended: {error}"))?);
                kill_at = Some(Instant::now() + DRAIN);
            }
            () = stop.cancelled(), if goes_on => why = Some(Ended::Stopped),
            () = sleep_until(time_up), if goes_on => why = Some(Ended::TimedOut),
            () = at(kill_at) => {
                group.signal(Signal::KILL);
                if status.is_some() {
                    // Only a program that left the group can still hold them.
                    break;
                }
                kill_at = None;
            }
        }
        if why.is_some() && ended.is_none() {
            ended = why;
            group.signal(Signal::TERM);
            kill_at = Some(Instant::now() + limits.grace);
        }
    }
    group.close().await;
    let by_itself = || match status.and_then(|status| status.code()) {
        Some(code) => Ended::ByItself(code),
        None => Ended::BySignal(status.and_then(|status| status.signal()).unwrap_or_default()),
    };
    Ok(Printed {
        ended: ended.unwrap_or_else(by_itself),
        output,
        errors,
    })
}

/// Reads a piece; 0 at the end. Waits for ever on an output that is closed.
async fn read_from<R: AsyncRead + Unpin>(output: Option<&mut R>, piece: &mut [u8]) -> usize {
    match output {
        // An output that cannot be read is at its end.
        Some(output) => output.read(piece).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn not_started(started: &Started<'_>, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no such program on the PATH, or no such folder to run it in; put `command` right".to_owned()
        }
        io::ErrorKind::PermissionDenied => "the system does not permit it".to_owned(),
        _ => error.to_string(),
    };
    format!("`{}` cannot be started: {why}", started.program)
}
