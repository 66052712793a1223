//! How agent programs are named and started.

use std::collections::BTreeMap;
use std::time::Duration;

use folio_process::Limits;
use serde::Deserialize;

use super::acp::AgentGrant;
use super::events::AgentForm;

/// Seconds that a program may work, if nobody says.
const TIME_S: u64 = 30 * 60;
/// The most that anybody may say: a day.
const TIME_S_MAX: u64 = 24 * 60 * 60;
/// Bytes that a program may print, if nobody says.
const OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// The most that anybody may say.
const OUTPUT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Seconds between being asked to end and being killed, if nobody says (E9.11).
const GRACE_S: u64 = 10;
/// The most that anybody may say: whoever gave it up does not wait any longer.
const GRACE_S_MAX: u64 = 15;

/// The section `[agents]` of `folio.toml`: programs by name, for addresses `agent:NAME`.
pub type AgentsSection = BTreeMap<String, AgentSettings>;

/// One agent program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// The program and its arguments, taken as they are. Not empty.
    pub command: Vec<String>,
    /// What it prints.
    #[serde(default)]
    pub form: AgentForm,
    /// How it is told what to do.
    #[serde(default)]
    pub prompt: AgentPrompt,
    /// Names of variables that it gets from the environment, besides those that every program gets.
    #[serde(default)]
    pub environment: Vec<String>,
    /// The folder that it works in, inside of the one that the run was granted, which it is by default.
    pub folder: Option<String>,
    /// What it may do when it asks, for the form `acp`: `read`, `search` and `think` by default.
    pub grants: Option<Vec<AgentGrant>>,
    /// MCP servers that it is told of, for the form `acp`: by name, each a program and its arguments.
    #[serde(default)]
    pub mcp: BTreeMap<String, Vec<String>>,
    /// Seconds that it may work: 1 to 86,400, 1,800 by default.
    pub time_s: Option<u64>,
    /// Bytes that it may print: 1 to 256 MiB, 16 MiB by default.
    pub output_bytes: Option<usize>,
    /// Seconds that it has to end when it is asked to, before it is killed: at most 15, 10 by default.
    pub grace_s: Option<u64>,
}

/// How a program is told what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentPrompt {
    /// It reads it from its standard input.
    #[default]
    Stdin,
    /// It is its last argument.
    Argument,
}

impl AgentSettings {
    /// A program that is started by `command` and prints `form`, with nothing special.
    #[must_use]
    pub fn new(command: Vec<String>, form: AgentForm) -> Self {
        Self {
            command,
            form,
            prompt: AgentPrompt::default(),
            environment: Vec::new(),
            folder: None,
            grants: None,
            mcp: BTreeMap::new(),
            time_s: None,
            output_bytes: None,
            grace_s: None,
        }
    }

    pub(super) fn grants(&self) -> &[AgentGrant] {
        let usual = &[AgentGrant::Read, AgentGrant::Search, AgentGrant::Think];
        self.grants.as_deref().unwrap_or(usual)
    }

    /// What is wrong with it, in words; `None` if it can be used.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        let is_missing = self.command.first().is_none_or(String::is_empty);
        let has_nul = self.command.iter().any(|word| word.contains('\0'));
        let is_variable = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if is_missing || has_nul {
            Some("`command` is a list with a program and its arguments")
        } else if !self.environment.iter().all(is_variable) {
            Some("`environment` is a list of names of variables, without their values")
        } else if self.form != AgentForm::Acp && (self.grants.is_some() || !self.mcp.is_empty()) {
            Some("`grants` and `mcp` are for the form acp: only that can ask and be told")
        } else if self
            .mcp
            .values()
            .any(|command| command.first().is_none_or(String::is_empty))
        {
            Some("`mcp` is a list of names, each with a program and its arguments")
        } else if !(1..=TIME_S_MAX).contains(&self.time_s.unwrap_or(TIME_S)) {
            Some("`time_s` is 1 to 86400")
        } else if !(1..=OUTPUT_BYTES_MAX).contains(&self.output_bytes.unwrap_or(OUTPUT_BYTES)) {
            Some("`output_bytes` is 1 to 268435456")
        } else if self.grace_s.unwrap_or(GRACE_S) > GRACE_S_MAX {
            Some("`grace_s` is at most 15")
        } else {
            None
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            time: Duration::from_secs(self.time_s.unwrap_or(TIME_S)),
            grace: Duration::from_secs(self.grace_s.unwrap_or(GRACE_S)),
        }
    }

    pub(super) fn output_bytes(&self) -> usize {
        self.output_bytes.unwrap_or(OUTPUT_BYTES)
    }
}
