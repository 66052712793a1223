//! Runs a program: in a process group of its own, with a bound on its time, and with an environment that
//! holds only what it was given.

use std::ffi::OsString;
use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::capture::Sink;
use crate::response::{FailureKind, ToolError};

/// How long a program that has ended may leave its outputs open: something that it started still has
/// them. Then that is killed too.
const DRAIN: Duration = Duration::from_millis(500);

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) args: Vec<OsString>,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) timeout: Duration,
    pub(crate) grace: Duration,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    ByItself,
    TimedOut,
    Cancelled,
    /// A sink had enough.
    Stopped,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished {
    pub(crate) ended: Ended,
    status: Option<ExitStatus>,
}

impl Finished {
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.and_then(|status| status.signal())
    }
}

/// Ends everything that a program started, also when the call is dropped.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            // There may be nothing left to end.
            kill_process_group(pid, signal).unwrap_or_default();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Runs a program to its end, and gives its outputs to the sinks as they come.
///
/// On a time-out, on cancelling and when a sink has enough, the whole group is asked to end, and killed
/// after the grace. Nothing that it started in its group goes on afterwards.
pub(crate) async fn run(
    program: &Program,
    cancel: &CancellationToken,
    stdout_sink: &mut dyn Sink,
    stderr_sink: &mut dyn Sink,
) -> Result<Finished, ToolError> {
    let mut child = tokio::process::Command::new(&program.name)
        .args(&program.args)
        .current_dir(&program.folder)
        .env_clear()
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| not_started(program, &error))?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let group = Group(pid.and_then(Pid::from_raw));
    let mut stdout = child.stdout.take();
    let mut stderr = child.stderr.take();
    let mut stdout_buffer = vec![0; 64 * 1024];
    let mut stderr_buffer = vec![0; 16 * 1024];
    let mut status = None;
    let mut ended = Ended::ByItself;
    // When to kill: at the end of the grace, or when the outputs stay open for too long.
    let mut kill_at: Option<Instant> = None;
    let timeout_at = Instant::now() + program.timeout;

    while status.is_none() || stdout.is_some() || stderr.is_some() {
        let going_on = ended == Ended::ByItself && status.is_none();
        let mut stop = None;
        tokio::select! {
            read = piece(stdout.as_mut(), &mut stdout_buffer) => match read {
                0 => stdout = None,
                read => {
                    if stdout_sink.take(&stdout_buffer[..read]).is_break() {
                        stop = Some(Ended::Stopped);
                    }
                }
            },
            read = piece(stderr.as_mut(), &mut stderr_buffer) => match read {
                0 => stderr = None,
                read => {
                    if stderr_sink.take(&stderr_buffer[..read]).is_break() {
                        stop = Some(Ended::Stopped);
                    }
                }
            },
            waited = child.wait(), if status.is_none() => {
                let found = waited.map_err(|error| not_started(program, &error))?;
                status = Some(found);
                kill_at = Some(Instant::now() + DRAIN);
            }
            () = cancel.cancelled(), if going_on => stop = Some(Ended::Cancelled),
            () = sleep_until(timeout_at), if going_on => stop = Some(Ended::TimedOut),
            () = at(kill_at) => {
                group.signal(Signal::KILL);
                if status.is_some() {
                    // Only a program that left the group can still hold them.
                    break;
                }
                kill_at = None;
            }
        }
        if let Some(why) = stop
            && ended == Ended::ByItself
        {
            ended = why;
            group.signal(Signal::TERM);
            kill_at = Some(Instant::now() + program.grace);
        }
    }
    Ok(Finished { ended, status })
}

/// Reads a piece; 0 at the end. Waits for ever on an output that is closed.
async fn piece<R: AsyncRead + Unpin>(output: Option<&mut R>, buffer: &mut [u8]) -> usize {
    match output {
        // An output that cannot be read is at its end.
        Some(output) => output.read(buffer).await.unwrap_or(0),
        None => pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

fn not_started(program: &Program, error: &io::Error) -> ToolError {
    let message = |why: &str| format!("cannot run `{}`: {why}", program.name);
    match error.kind() {
        io::ErrorKind::NotFound => ToolError::new(
            FailureKind::NotFound,
            "no_such_program",
            message("there is no such program on the PATH, or no such folder to run it in"),
        ),
        io::ErrorKind::PermissionDenied => ToolError::new(
            FailureKind::Denied,
            "permission_denied",
            message("the system does not permit it"),
        ),
        io::ErrorKind::InvalidInput | io::ErrorKind::ArgumentListTooLong => {
            ToolError::invalid(message(&error.to_string()))
        }
        _ => ToolError::new(FailureKind::Unavailable, "not_started", message(&error.to_string())),
    }
}
