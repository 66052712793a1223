//! The process group of a program, and how it is ended.

use std::ffi::OsString;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};

/// The script of the watchdog, which leads the group: it ends the group when its standard input is closed, because the
/// process at the other end is gone.
const WATCHDOG_SCRIPT: &str =
    "trap '' TERM HUP INT; read -r _; kill -s TERM -- \"-$$\"; sleep 2; kill -s KILL -- \"-$$\"";

/// Ends everything that a program started, also when it is dropped.
///
/// The group exists before the program: whichever process is killed at whatever moment, one is left to end the group.
#[derive(Debug)]
pub(crate) struct Group {
    pid: Option<Pid>,
    watchdog: Option<Child>,
}

impl Group {
    /// Creates a group for a program that is about to be started with `environment`.
    pub(crate) fn begin(environment: &[(OsString, OsString)]) -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", WATCHDOG_SCRIPT, "leash"])
            .env_clear()
            .envs(environment.iter().filter(|(name, _)| name == "PATH").cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        // Without a shell it works as well, except that the group is not ended when this process is killed.
        let leash = command.spawn().ok();
        Self {
            pid: leash.as_ref().and_then(pid_of),
            watchdog: leash,
        }
    }

    /// The number of the group in which to start the program: 0, for a group that it leads itself, if there is none
    /// yet.
    pub(crate) fn number(&self) -> i32 {
        self.pid.map_or(0, |pid| pid.as_raw_nonzero().get())
    }

    /// Records that the program was started in the group as `child`.
    fn record_child(&mut self, child: &Child) {
        self.pid = self.pid.or_else(|| pid_of(child));
    }

    /// Sends SIGTERM to the group and to `child`, which was started in it but may have left it.
    fn ask_to_end(&self, child: &Child) {
        self.signal(Signal::TERM);
        signal_alone(child, Signal::TERM);
    }

    /// Sends SIGKILL to the same.
    fn kill(&self, child: &Child) {
        self.signal(Signal::KILL);
        signal_alone(child, Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid {
            // There may be nothing left to end.
            kill_process_group(pid, signal).unwrap_or_default();
        }
    }

    /// Kills all that is left, and releases the group.
    async fn close(&mut self, child: &Child) {
        self.kill(child);
        self.pid = None;
        if let Some(mut leash) = self.watchdog.take() {
            leash.kill().await.unwrap_or_default();
        }
    }
}

/// A program and the group in which it was started. Dropping it kills both, and the group that the program leads by
/// then.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    group: Group,
}

impl Running {
    /// Takes `child`, which was started in `group`.
    pub(crate) fn of(child: Child, mut group: Group) -> Self {
        group.record_child(&child);
        Self { child, group }
    }

    /// Asks the program and all in its group to end.
    pub(crate) fn ask_to_end(&self) {
        self.group.ask_to_end(&self.child);
    }

    /// Kills the program and all in its group.
    pub(crate) fn kill(&self) {
        self.group.kill(&self.child);
    }

    /// Kills all that is left, and releases the group.
    pub(crate) async fn close(&mut self) {
        self.group.close(&self.child).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Signals a program that may have left its group, as `timeout` and `setsid` do, and the group that it leads then.
fn signal_alone(child: &Child, signal: Signal) {
    // After the program was waited for it has no pid here, so the pid cannot be that of another process.
    if let Some(pid) = pid_of(child) {
        kill_process_group(pid, signal).unwrap_or_default();
        kill_process(pid, signal).unwrap_or_default();
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn process_group_is_terminated_when_its_leash_closes() {
        let path = [(OsString::from("PATH"), OsString::from("/usr/local/bin:/usr/bin:/bin"))];
        let mut group = Group::begin(&path);
        assert_ne!(group.number(), 0, "somebody holds it before anything is in it");
        let mut sleeping = Command::new("sleep");
        let mut child = sleeping.arg("1000").process_group(group.number()).spawn().unwrap();
        group.record_child(&child);
        // As the system closes it when this process is killed.
        drop(group.watchdog.as_mut().unwrap().stdin.take());
        let ended = tokio::time::timeout(Duration::from_secs(20), child.wait()).await;
        assert_eq!(ended.unwrap().unwrap().signal(), Some(15));
    }

    #[tokio::test]
    async fn closing_a_group_ends_processes_that_ignore_sigterm() {
        let path = [(OsString::from("PATH"), OsString::from("/usr/local/bin:/usr/bin:/bin"))];
        let mut group = Group::begin(&path);
        // It will not end when it is asked to.
        let mut stubborn = Command::new("sh");
        stubborn.args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]);
        let mut child = stubborn
            .process_group(group.number())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        tokio::io::AsyncReadExt::read_exact(child.stdout.as_mut().unwrap(), &mut ready)
            .await
            .unwrap();
        group.ask_to_end(&child);
        assert!(child.try_wait().unwrap().is_none());
        group.close(&child).await;
        assert_eq!(child.wait().await.unwrap().signal(), Some(9));
    }
}
