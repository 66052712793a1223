//! The settings of agent programs and of agents on other machines.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use folio_process::Limits;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::acp::AgentGrant;
use super::events::AgentForm;
use crate::secret::Secret;

/// The default time limit of a program, in seconds.
const DEFAULT_TIME_S: u64 = 30 * 60;
/// The maximum time limit: a day.
const TIME_S_MAX: u64 = 24 * 60 * 60;
/// The default limit for the output of a program, in bytes.
const DEFAULT_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// The maximum of that limit.
const OUTPUT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The default number of seconds between being asked to end and being killed (E9.11).
const DEFAULT_GRACE_S: u64 = 10;
/// The maximum of that: whoever cancels it does not wait any longer.
const GRACE_S_MAX: u64 = 15;

/// Deserializes a program and its arguments. The error for any other value says that a list is expected.
///
/// # Errors
///
/// If it is not a list of strings.
pub fn command_line<'de, D: Deserializer<'de>>(settings: D) -> Result<Vec<String>, D::Error> {
    struct List;

    impl<'de> Visitor<'de> for List {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list with a program and its arguments, such as [\"npx\", \"-y\", \"server\"]")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<String>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }

    settings.deserialize_seq(List)
}

/// The section `[agents]` of `folio.toml`: agent programs, and agents on other machines, by name, for addresses
/// `agent:NAME`.
pub type AgentsSection = BTreeMap<String, AgentSettings>;

/// One agent: a program with a `command`; with the form `a2a`, an agent on another machine at a `url`; with the form
/// `tool`, a `tool`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// The program and its arguments, passed unchanged. Empty for an agent on another machine.
    #[serde(default, deserialize_with = "command_line")]
    pub command: Vec<String>,
    /// The address of an agent on another machine: `https://…` or `http://…`, without `/.well-known/agent-card.json`.
    pub url: Option<String>,
    /// The environment variable that holds the token for an agent on another machine.
    pub token: Option<String>,
    /// The file that holds the token.
    pub token_file: Option<PathBuf>,
    /// The tool that does the tasks, by its full name: `SERVER.TOOL` of an MCP server.
    pub tool: Option<String>,
    /// The argument of the tool that takes the task: `prompt` by default.
    pub argument: Option<String>,
    /// The output format of the program, or the protocol that it speaks.
    #[serde(default)]
    pub form: AgentForm,
    /// How the prompt is passed to the program.
    #[serde(default)]
    pub prompt: AgentPrompt,
    /// Environment variables that are passed to it in addition to those that every program gets.
    #[serde(default)]
    pub environment: Vec<String>,
    /// The folder that it works in, inside the folder granted to the run, which is the default.
    pub folder: Option<String>,
    /// What it may do when it asks, for the form `acp`: `read`, `search` and `think` by default.
    pub grants: Option<Vec<AgentGrant>>,
    /// MCP servers that are passed to it, for the form `acp`: by name, each a program and its arguments.
    #[serde(default)]
    pub mcp: BTreeMap<String, Vec<String>>,
    /// How long it may work, in seconds: 1 to 86,400, 1,800 by default.
    pub time_s: Option<u64>,
    /// How much it may print, in bytes: 1 byte to 256 MiB, 16 MiB by default.
    pub output_bytes: Option<usize>,
    /// How long it has to end when it is asked to, before it is killed, in seconds: at most 15, 10 by default.
    pub grace_s: Option<u64>,
}

/// One agent, with what it needs from the environment.
#[derive(Debug, Clone)]
pub struct AgentToAsk {
    /// Its settings.
    pub settings: AgentSettings,
    /// The complete environment of a program.
    pub environment: Vec<(String, String)>,
    /// The token for an agent on another machine, if it needs one.
    pub token: Option<Secret>,
    /// Why it cannot be asked, if something that it needs is missing.
    pub unusable: Option<String>,
}

/// How the prompt is passed to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentPrompt {
    /// On its standard input.
    #[default]
    Stdin,
    /// As its last argument.
    Argument,
}

impl AgentSettings {
    /// Settings for a program that is started by `command` and prints `form`, with the defaults otherwise.
    #[must_use]
    pub fn new(command: Vec<String>, form: AgentForm) -> Self {
        Self {
            command,
            url: None,
            token: None,
            token_file: None,
            tool: None,
            argument: None,
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

    /// Settings for an agent on another machine at `url`, with the defaults otherwise.
    #[must_use]
    pub fn of_url(url: impl Into<String>) -> Self {
        Self {
            url: Some(url.into()),
            ..Self::new(Vec::new(), AgentForm::A2a)
        }
    }

    /// What is wrong with the settings; `None` if they can be used.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        let wrong = match self.form {
            AgentForm::A2a => self.problem_of_remote(),
            AgentForm::Tool => self.problem_of_tool(),
            _ => self.problem_of_program(),
        };
        if wrong.is_some() {
            wrong
        } else if !(1..=TIME_S_MAX).contains(&self.time_s.unwrap_or(DEFAULT_TIME_S)) {
            Some("`time_s` must be from 1 to 86400")
        } else if !(1..=OUTPUT_BYTES_MAX).contains(&self.output_bytes.unwrap_or(DEFAULT_OUTPUT_BYTES)) {
            Some("`output_bytes` must be from 1 to 268435456")
        } else if self.grace_s.unwrap_or(DEFAULT_GRACE_S) > GRACE_S_MAX {
            Some("`grace_s` must be at most 15")
        } else {
            None
        }
    }

    /// Whether a setting is used that only a program has.
    fn is_of_programs(&self) -> bool {
        let has_place = !self.environment.is_empty() || self.folder.is_some() || !self.mcp.is_empty();
        !self.command.is_empty() || has_place || self.grants.is_some() || self.prompt != AgentPrompt::default()
    }

    /// Whether a setting is used that only an agent on another machine has.
    fn is_of_remotes(&self) -> bool {
        self.url.is_some() || self.token.is_some() || self.token_file.is_some()
    }

    /// Whether a setting is used that only a tool has.
    fn is_of_tools(&self) -> bool {
        self.tool.is_some() || self.argument.is_some()
    }

    fn problem_of_tool(&self) -> Option<&'static str> {
        let has_limits = self.time_s.is_some() || self.output_bytes.is_some() || self.grace_s.is_some();
        if self.tool.as_deref().is_none_or(str::is_empty) || self.argument.as_deref().is_some_and(str::is_empty) {
            Some("the form tool needs `tool`, the name of a tool; `argument` names its argument for the task")
        } else if self.is_of_programs() || self.is_of_remotes() || has_limits {
            Some("the form tool takes only `tool` and `argument`; the limits are those of the tool")
        } else {
            None
        }
    }

    fn problem_of_remote(&self) -> Option<&'static str> {
        let url = self.url.as_deref().unwrap_or_default();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            Some("with the form a2a, `url` must begin with https:// or http://")
        } else if self.is_of_programs() {
            Some(
                "`command`, `prompt`, `environment`, `folder`, `grants` and `mcp` are for programs, and the form a2a is for other machines",
            )
        } else if self.is_of_tools() {
            Some("`tool` and `argument` are for the form tool")
        } else if self.token.is_some() && self.token_file.is_some() {
            Some("set either a `token` or a `token_file`, not both")
        } else {
            None
        }
    }

    fn problem_of_program(&self) -> Option<&'static str> {
        let is_missing = self.command.first().is_none_or(String::is_empty);
        let has_nul = self.command.iter().any(|word| word.contains('\0'));
        let is_variable = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if self.is_of_tools() {
            Some("`tool` and `argument` are for the form tool")
        } else if self.is_of_remotes() {
            Some("`url`, `token` and `token_file` are for other machines, with the form a2a")
        } else if is_missing || has_nul {
            Some("`command` is a list with a program and its arguments")
        } else if !self.environment.iter().all(is_variable) {
            Some("`environment` is a list of names of variables, without their values")
        } else if self.form != AgentForm::Acp && (self.grants.is_some() || !self.mcp.is_empty()) {
            Some("`grants` and `mcp` are only for the form acp")
        } else if self
            .mcp
            .values()
            .any(|command| command.first().is_none_or(String::is_empty))
        {
            Some("`mcp` is a list of names, each with a program and its arguments")
        } else {
            None
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            time: Duration::from_secs(self.time_s.unwrap_or(DEFAULT_TIME_S)),
            grace: Duration::from_secs(self.grace_s.unwrap_or(DEFAULT_GRACE_S)),
        }
    }

    pub(super) fn output_bytes(&self) -> usize {
        self.output_bytes.unwrap_or(DEFAULT_OUTPUT_BYTES)
    }
}
