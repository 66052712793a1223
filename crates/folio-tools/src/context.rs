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

/// The scratchbook of the run's thread, for `scratch_*`.
#[async_trait]
pub trait ScratchSource: Send + Sync + Debug {
    /// Does what `request`, a call of one of these tools, asks; once, however often it is asked with the same id.
    ///
    /// The answer is an object with a `text` for models.
    ///
    /// # Errors
    ///
    /// The argument that is wrong, or why it cannot be done.
    async fn call(&self, request: &ToolRequest) -> Result<Value, ToolError>;
}

/// A call outside of any thread.
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
/// A caller that asked a person, and got a yes, passes `AllowAll` in the context of that one call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShellPolicy {
    /// None.
    #[default]
    AskDenied,
    /// Any.
    AllowAll,
    /// Those whose arguments begin with one of these lists, word for word; `*` stands for any one word.
    ///
    /// `[["cargo", "test"]]` allows `cargo test --workspace` and not `cargo run`.
    AllowList(Vec<Vec<String>>),
}

/// How long a command of `shell` runs when the call does not say, and how long one may ask for: what plans are checked against.
pub(crate) const SHELL_TIMEOUT: Duration = Duration::from_mins(10);
pub(crate) const SHELL_TIMEOUT_MAX: Duration = Duration::from_hours(2);

/// Bounds of one call. Reaching one cuts the answer with a label, or ends the call with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Bytes of a whole response as JSON. 8 MiB.
    pub output_bytes: u64,
    /// Files that one `list` returns. 50,000.
    pub list_max: usize,
    /// Entries of folders that one walk looks at. 2,000,000.
    pub walk_entries: usize,
    /// Folders below the start of a walk, one inside the other. 128.
    pub walk_depth: usize,
    /// Bytes of text that one `read` returns when it does not say how many. 256 KiB.
    pub read_bytes: usize,
    /// Bytes of text that one `read` may ask for. 4 MiB.
    pub read_bytes_max: usize,
    /// Bytes of a file that are looked at to count its lines and to hash it. 256 MiB.
    pub scan_bytes: u64,
    /// Bytes of a file that `grep` looks into; larger files are skipped and counted. 16 MiB.
    pub grep_file_bytes: u64,
    /// Matches that one `grep` returns when it does not say how many. 1,000.
    pub matches: usize,
    /// Matches that one `grep` may ask for. 20,000.
    pub matches_max: usize,
    /// Bytes of a file that `write` leaves behind. 64 MiB.
    pub write_bytes: u64,
    /// Bytes of an earlier result that `result_read` returns when it does not say how many. 32 KiB.
    pub result_bytes: usize,
    /// Bytes of an earlier result that `result_read` may ask for. 1 MiB.
    pub result_bytes_max: usize,
    /// Bytes of each output of a program that are kept: one half from its beginning, one half from its
    /// end. 512 KiB.
    pub process_output_bytes: usize,
    /// How long a command of `shell` runs when the call does not say. 10 minutes.
    pub shell_timeout: Duration,
    /// How long a call of `shell` may ask for. 2 hours.
    pub shell_timeout_max: Duration,
    /// Bytes of a body that `http_get` keeps when the call does not say how many. 256 KiB.
    pub http_bytes: usize,
    /// Bytes of a body that a call of `http_get` may ask for. 4 MiB.
    pub http_bytes_max: usize,
    /// How long `http_get` waits for the whole of an answer when the call does not say. 30 seconds.
    pub http_timeout: Duration,
    /// How long a call of `http_get` may ask to wait. 5 minutes.
    pub http_timeout_max: Duration,
    /// How long one command of `git` runs. 2 minutes.
    pub git_timeout: Duration,
    /// How long a program gets between being asked to end and being killed. 10 seconds (E9.11).
    pub kill_grace: Duration,
    /// How long `wait` may wait, if it is less than 60 seconds.
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
    /// The run's own folder, the only place that can be written by default.
    pub run_folder: RunFolder,
    /// Bounds of one call.
    pub limits: Arc<ToolLimits>,
    /// Which commands `shell` may run.
    pub shell: Arc<ShellPolicy>,
    /// Which hosts `http_get` may ask.
    pub hosts: Arc<HostList>,
    /// Whether somebody saw the arguments of this very call and said yes: then what they name is meant, whatever it is.
    pub shown: bool,
    /// Whether somebody said yes to this very call, or whoever submitted the run to its tool: then a tool that waits for a yes
    /// does it.
    pub allowed: bool,
    /// The whole environment of the programs that a call starts: nothing is inherited.
    ///
    /// Give `PATH`, `HOME`, `LANG` and the like, never a credential.
    pub environment: Arc<Vec<(String, String)>>,
    /// Ends the call when the caller gives up on it.
    pub cancel: CancellationToken,
    /// Earlier results of the run.
    pub results: Arc<dyn ResultSource>,
    /// The scratchbook of the run's thread.
    pub scratchbook: Arc<dyn ScratchSource>,
}

impl ToolContext {
    /// The folder that a program works in: `folder` inside of what was granted, or the granted one; where nothing was granted, the
    /// run's own.
    ///
    /// # Errors
    ///
    /// If it is not there, leads out of what was granted, or is no folder.
    pub fn folder_of_programs(&self, folder: Option<&str>) -> Result<PathBuf, ToolError> {
        let located = match folder {
            None if self.roots.iter().next().is_none() => self.roots.find_to_write("", &self.run_folder)?,
            folder => self.roots.find(folder.unwrap_or_default(), &self.run_folder)?,
        };
        located.real_folder()
    }

    /// The name of that folder, as far as it can be told without looking.
    pub(crate) fn place_of_programs(&self, folder: Option<&str>) -> Option<String> {
        match folder {
            None if self.roots.iter().next().is_none() => self.roots.place_to_write("", &self.run_folder),
            folder => self.roots.place(folder.unwrap_or_default(), &self.run_folder),
        }
    }

    /// Lets the call be made to which a person said yes, whatever it names.
    pub fn allow(&mut self) {
        self.allow_tool();
        self.shown = true;
    }

    /// Lets a call be made whose tool a person allowed without having seen its arguments: any command, but only hosts that are public.
    pub fn allow_tool(&mut self) {
        self.allowed = true;
        self.shell = Arc::new(ShellPolicy::AllowAll);
    }

    /// A context with the default limits that grants `roots` and `run_folder` and nothing else: no
    /// commands, no hosts, no environment, no earlier results.
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
