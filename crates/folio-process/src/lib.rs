//! Starts programs: in a process group of their own, with an environment that contains only what they were given,
//! within limits, and never longer than the process that started them, even if that was killed (E9.11).
//!
//! - [`run()`]: runs a program from its start to its end; its outputs go to [`Sink`]s as they come
//! - [`spawn`]: starts a program to talk with for as long as it lives
//!
//! Nothing is inherited from the environment, and there is no shell in between. A program that leaves its process
//! group, as `timeout` does, is ended with the group that it leads then; only if the process that started it was killed
//! does it go on. Processes that it started in neither group are out of reach.

mod group;
mod run;
mod sink;
mod talk;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

pub use run::{DRAIN, Ended, Finished, Limits, run};
pub use sink::{Sink, Tail, Whole};
pub use talk::{LINE_CHARS, Talking, printed, spawn};

use crate::group::{Group, Running};

/// A program to start.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its path, or its name on the `PATH` of its environment.
    pub name: String,
    /// Its arguments, passed literally.
    pub args: Vec<OsString>,
    /// Its working directory.
    pub folder: PathBuf,
    /// Its complete environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// Starts the program with `stdin`, and with its outputs as pipes, in a group of its own.
    fn start(&self, stdin: Stdio) -> Result<Running, ProcessError> {
        let group = Group::begin(&self.environment);
        let mut command = self.command(group.number());
        let started = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let child = started.map_err(|source| self.not_started(source))?;
        Ok(Running::of(child, group))
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
            no_folder: (!self.folder.is_dir()).then(|| self.folder.clone()),
            source,
        }
    }
}

/// Why a program has no known end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The program could not be started.
    #[error("cannot run `{name}`: {}", start_failure_reason(name, no_folder.as_deref(), source))]
    NotStarted {
        /// The program.
        name: String,
        /// The folder in which it was to run, if that does not exist.
        no_folder: Option<PathBuf>,
        /// The error of the system.
        source: io::Error,
    },
    /// The program was started, but the system does not say how it ended.
    #[error("cannot find out how `{name}` ended: {source}")]
    Lost {
        /// The program.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl ProcessError {
    /// The kind of the system's error.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::NotStarted { source, .. } | Self::Lost { source, .. } => source.kind(),
        }
    }
}

/// The system's error in words that fit the name of the program as it was given.
fn start_failure_reason(name: &str, no_folder: Option<&Path>, error: &io::Error) -> String {
    if let Some(folder) = no_folder {
        return format!("there is no folder {} to run it in", folder.display());
    }
    match error.kind() {
        io::ErrorKind::NotFound if name.contains('/') => {
            "there is no such program, or the first line of the script names one that does not exist".to_owned()
        }
        io::ErrorKind::NotFound => "there is no such program on the PATH".to_owned(),
        io::ErrorKind::PermissionDenied => "it is not executable, or the system does not permit it".to_owned(),
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            "it is not a program for this machine; a script must begin with #! and the program that runs it".to_owned()
        }
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

    #[tokio::test]
    async fn spawn_error_states_why_the_program_could_not_start() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("folio-process-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let script = |name: &str, mode: u32| {
            let path = folder.join(name);
            std::fs::write(&path, "echo\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (closed, unmarked) = (script("closed", 0o600), script("unmarked", 0o700));
        for (name, folder, said) in [
            ("no-such-program", "/", "there is no such program on the PATH"),
            ("/nowhere/program", "/", "there is no such program, or the first line"),
            ("sh", "/nowhere", "there is no folder /nowhere to run it in"),
            (&closed, "/", "it is not executable"),
            (&unmarked, "/", "it is not a program for this machine"),
        ] {
            let program = Program {
                name: name.to_owned(),
                folder: PathBuf::from(folder),
                ..shell("")
            };
            let error = spawn(&program).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot run `{name}`: {said}")), "{error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// Waits until there is no process `pid` any more; one that nobody waited for yet counts as gone.
    pub(crate) async fn wait_until_gone(pid: &str) {
        for _ in 0..2_000 {
            match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
                Ok(text) if !text.contains(") Z ") => tokio::time::sleep(Duration::from_millis(5)).await,
                _ => return,
            }
        }
        panic!("process {pid} is still there");
    }
}
