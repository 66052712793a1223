//! Programs that are started: in a process group of their own, with an environment that holds only what they were given,
//! within limits, and never longer than whoever started them, even if that was killed (E9.11).
//!
//! - [`run()`]: a program from its start to its end; its outputs go to [`Sink`]s as they come
//! - [`spawn`]: a program that is talked with for as long as it lives
//!
//! Nothing is inherited from the environment, and there is no shell in between. A program that leaves its process group, as
//! `timeout` does, is ended with the group that it leads then; only if whoever started it was killed, it goes on. What it
//! started and that is in neither group is out of reach.

mod group;
mod run;
mod sink;
mod talk;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{Child, Command};

pub use run::{Ended, Finished, Limits, run};
pub use sink::{Sink, Tail, Whole};
pub use talk::{Talking, spawn};

use crate::group::Group;

/// What is to be started.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its path, or its name on the `PATH` of its environment.
    pub name: String,
    /// Its arguments, taken as they are.
    pub args: Vec<OsString>,
    /// The folder that it begins in.
    pub folder: PathBuf,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// Starts it with `stdin`, and its outputs to be read, in a group of its own.
    fn start(&self, stdin: Stdio) -> Result<(Child, Group), ProcessError> {
        let mut group = Group::begin(&self.environment);
        let mut command = self.command(group.number());
        let started = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let child = started.map_err(|source| self.not_started(source))?;
        group.holds(&child);
        Ok((child, group))
    }

    fn command(&self, group: i32) -> Command {
        let mut command = Command::new(&self.name);
        command
            .args(&self.args)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .process_group(group)
            .kill_on_drop(true);
        command
    }

    fn not_started(&self, source: io::Error) -> ProcessError {
        ProcessError::NotStarted {
            name: self.name.clone(),
            source,
        }
    }
}

/// Why nothing can be said of how a program ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// It was never there.
    #[error("cannot run `{name}`: {}", why(source))]
    NotStarted {
        /// The program.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// It was there, and the system does not say how it ended.
    #[error("nobody knows how `{name}` ended: {source}")]
    Lost {
        /// The program.
        name: String,
        /// What the system says.
        source: io::Error,
    },
}

impl ProcessError {
    /// What the system said.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::NotStarted { source, .. } | Self::Lost { source, .. } => source.kind(),
        }
    }
}

/// The same in the words of whoever wrote the name of the program.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such program on the PATH, or no such folder to run it in".to_owned(),
        io::ErrorKind::PermissionDenied => "the system does not permit it".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A program that is a script.
    pub(crate) fn shell(script: &str) -> Program {
        Program {
            name: "sh".to_owned(),
            args: ["-c", script].map(OsString::from).to_vec(),
            folder: PathBuf::from("/"),
            environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        }
    }

    /// Waits until there is no process `pid` any more; one that nobody waited for yet counts as gone.
    pub(crate) async fn is_gone(pid: &str) {
        for _ in 0..2_000 {
            match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
                Ok(text) if !text.contains(") Z ") => tokio::time::sleep(Duration::from_millis(5)).await,
                _ => return,
            }
        }
        panic!("process {pid} is still there");
    }
}
