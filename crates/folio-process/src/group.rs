//! All that a program starts, and how it is ended.

use std::ffi::OsString;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// What ends the group `$1` when the process that holds the other end of standard input is gone.
const LEASH: &str = "read -r _; kill -s TERM -- \"-$1\" 2>/dev/null && sleep 2 && kill -s KILL -- \"-$1\" 2>/dev/null";

/// Ends everything that a program started, also when it is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    pid: Option<Pid>,
    leash: Option<Child>,
}

impl Group {
    /// Holds the group that `child` leads.
    pub(crate) fn of(child: &Child, environment: &[(OsString, OsString)]) -> Self {
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

    pub(crate) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid {
            // There may be nothing left to end.
            kill_process_group(pid, signal).unwrap_or_default();
        }
    }

    /// Ends all that is left, and lets go.
    pub(crate) async fn close(mut self) {
        self.kill();
        self.pid = None;
        if let Some(mut leash) = self.leash.take() {
            // Killed before its input ends, so that it never ends a group that took the number of this one.
            leash.kill().await.unwrap_or_default();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
