//! What a call may touch, and its limits.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::hosts::HostList;
use crate::response::{FailureKind, ToolError};
use crate::results::{NoResults, ResultSource};
use crate::roots::{Roots, RunFolder};
use crate::tool::ToolRequest;

/// The scratchbook of the run's thread, for the tools `scratch_*`.
#[async_trait]
pub trait ScratchSource: Send + Sync + Debug {
    /// Carries out `request`, a call of one of these tools. It takes effect once, however often it is called with the
    /// same id.
    ///
    /// The answer is an object with a `text` for models.
    ///
    /// # Errors
    ///
    /// If an argument is wrong, or it cannot be done.
    async fn call(&self, request: &ToolRequest) -> Result<Value, ToolError>;
}

/// The source for a call outside of any thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoScratchbook;

#[async_trait]
impl ScratchSource for NoScratchbook {
    async fn call(&self, request: &ToolRequest) -> Result<Value, ToolError> {
        let message = format!("{} needs a scratchbook, and there is none here", request.tool);
        Err(ToolError::new(FailureKind::Denied, "no_scratchbook", message))
    }
}

/// Which commands `shell` may run.
///
/// A caller that asked a person and got approval passes `AllowAll` in the context of that one call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShellPolicy {
    /// No command runs without approval.
    #[default]
    AskDenied,
    /// Any command.
    AllowAll,
    /// Commands whose arguments begin with one of these lists, word for word; `*` stands for any one word.
    ///
    /// `[["cargo", "test"]]` allows `cargo test --workspace` but not `cargo run`.
    AllowList(Vec<Vec<String>>),
}

/// How long a command of `shell` runs when the call does not say, and the longest that a call may ask for. Plans are
/// checked against these.
pub(crate) const SHELL_TIMEOUT: Duration = Duration::from_mins(10);
pub(crate) const SHELL_TIMEOUT_MAX: Duration = Duration::from_hours(2);

/// Limits of one call. Reaching one truncates the answer with a note, or ends the call with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// The largest size of a whole response as JSON, in bytes. 8 MiB.
    pub output_bytes: u64,
    /// The largest number of files that one `list` returns. 50,000.
    pub list_max: usize,
    /// The largest number of folder entries that one walk looks at. 2,000,000.
    pub walk_entries: usize,
    /// How many levels of folders a walk enters below its start. 128.
    pub walk_depth: usize,
    /// How many bytes of text one `read` returns when the call does not say. 256 KiB.
    pub read_bytes: usize,
    /// The most bytes of text that one `read` may ask for. 4 MiB.
    pub read_bytes_max: usize,
    /// The largest file, in bytes, whose lines are counted and which is hashed. 256 MiB.
    pub scan_bytes: u64,
    /// The largest file, in bytes, that `grep` searches; larger files are skipped and counted. 16 MiB.
    pub grep_file_bytes: u64,
    /// How many matches one `grep` returns when the call does not say. 1,000.
    pub matches: usize,
    /// The most matches that one `grep` may ask for. 20,000.
    pub matches_max: usize,
    /// The largest size of a file after a `write`, in bytes. 64 MiB.
    pub write_bytes: u64,
    /// How many bytes of an earlier result `result_read` returns when the call does not say. 32 KiB.
    pub result_bytes: usize,
    /// The most bytes of an earlier result that `result_read` may ask for. 1 MiB.
    pub result_bytes_max: usize,
    /// How many bytes of each output of a program are kept: one half from its beginning, one half from its end. 512
    /// KiB.
    pub process_output_bytes: usize,
    /// How long a command of `shell` runs when the call does not say. 10 minutes.
    pub shell_timeout: Duration,
    /// The longest time that a call of `shell` may ask for. 2 hours.
    pub shell_timeout_max: Duration,
    /// How many bytes of a body `http_get` keeps when the call does not say. 256 KiB.
    pub http_bytes: usize,
    /// The most bytes of a body that a call of `http_get` may ask for. 4 MiB.
    pub http_bytes_max: usize,
    /// How long `http_get` waits for the complete answer when the call does not say. 30 seconds.
    pub http_timeout: Duration,
    /// The longest wait that a call of `http_get` may ask for. 5 minutes.
    pub http_timeout_max: Duration,
    /// How long one command of `git` may run. 2 minutes.
    pub git_timeout: Duration,
    /// How long a program gets between being asked to end and being killed. 10 seconds (E9.11).
    pub kill_grace: Duration,
    /// The longest wait of the tool `wait`, if it is less than 60 seconds.
    pub wait_max: Duration,
}

impl Default for ToolLimits {
    fn default() -> Self {
        const KIB: usize = 1024;
        const MIB: u64 = 1024 * 1024;
        Self {
            output_bytes: 8 * MIB,
            list_max: 50_000,
            walk_entries: 2_000_000,
            walk_depth: 128,
            read_bytes: 256 * KIB,
            read_bytes_max: 4 * KIB * KIB,
            scan_bytes: 256 * MIB,
            grep_file_bytes: 16 * MIB,
            matches: 1_000,
            matches_max: 20_000,
            write_bytes: 64 * MIB,
            result_bytes: 32 * KIB,
            result_bytes_max: KIB * KIB,
            process_output_bytes: 512 * KIB,
            shell_timeout: SHELL_TIMEOUT,
            shell_timeout_max: SHELL_TIMEOUT_MAX,
            http_bytes: 256 * KIB,
            http_bytes_max: 4 * KIB * KIB,
            http_timeout: Duration::from_secs(30),
            http_timeout_max: Duration::from_mins(5),
            git_timeout: Duration::from_mins(2),
            kill_grace: Duration::from_secs(10),
            wait_max: Duration::from_mins(1),
        }
    }
}

/// Everything that a call may touch. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The folders that were granted to the run.
    pub roots: Roots,
    /// The run folder, the only place that calls may write to by default.
    pub run_folder: RunFolder,
    /// Limits of one call.
    pub limits: Arc<ToolLimits>,
    /// Which commands `shell` may run.
    pub shell: Arc<ShellPolicy>,
    /// Which hosts `http_get` may reach.
    pub hosts: Arc<HostList>,
    /// Whether somebody saw the arguments of this very call and approved it. Then it may use whatever they name.
    pub shown: bool,
    /// Whether somebody approved this very call, or allowed its tool when the run was submitted. Then a tool that
    /// needs approval carries it out.
    pub allowed: bool,
    /// The complete environment of the programs that a call starts: nothing is inherited.
    ///
    /// Pass `PATH`, `HOME`, `LANG` and the like, never a credential.
    pub environment: Arc<Vec<(String, String)>>,
    /// Cancelled when the caller gives up on the call.
    pub cancel: CancellationToken,
    /// Earlier results of the run.
    pub results: Arc<dyn ResultSource>,
    /// The scratchbook of the run's thread.
    pub scratchbook: Arc<dyn ScratchSource>,
}

impl ToolContext {
    /// The folder that a program works in: `folder` within what was granted, or the first granted folder; if none was
    /// granted, the run folder.
    ///
    /// # Errors
    ///
    /// If the folder does not exist, leads out of what was granted, or is not a folder.
    pub fn folder_of_programs(&self, folder: Option<&str>) -> Result<PathBuf, ToolError> {
        let located = match folder {
            None if self.roots.iter().next().is_none() => self.roots.find_to_write("", &self.run_folder)?,
            folder => self.roots.find(folder.unwrap_or_default(), &self.run_folder)?,
        };
        located.real_folder()
    }

    /// The name of that folder, as far as it is known without opening it.
    pub(crate) fn program_folder_path(&self, folder: Option<&str>) -> Option<String> {
        match folder {
            None if self.roots.iter().next().is_none() => self.roots.full_path_to_write("", &self.run_folder),
            folder => self.roots.full_path(folder.unwrap_or_default(), &self.run_folder),
        }
    }

    /// Allows a call that a person approved, whatever it names.
    pub fn allow(&mut self) {
        self.allow_tool();
        self.shown = true;
    }

    /// Allows a call whose tool a person allowed without having seen the arguments: any command, but only public
    /// hosts.
    pub fn allow_tool(&mut self) {
        self.allowed = true;
        self.shell = Arc::new(ShellPolicy::AllowAll);
    }

    /// Returns a context with the default limits that grants `roots` and `run_folder` and nothing else: no commands,
    /// no hosts, no environment, no earlier results.
    pub fn new(roots: Roots, run_folder: RunFolder) -> Self {
        Self {
            roots,
            run_folder,
            limits: Arc::default(),
            shell: Arc::default(),
            hosts: Arc::default(),
            shown: false,
            allowed: false,
            environment: Arc::default(),
            cancel: CancellationToken::new(),
            results: Arc::new(NoResults),
            scratchbook: Arc::new(NoScratchbook),
        }
    }
}
