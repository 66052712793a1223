//! How agent programs, and agents on other machines, are named and reached.

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

/// Reads a program and its arguments from settings, and says of anything else that they are a list.
///
/// # Errors
///
/// If it is no list of texts.
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

/// The section `[agents]` of `folio.toml`: programs, and agents elsewhere, by name, for addresses `agent:NAME`.
pub type AgentsSection = BTreeMap<String, AgentSettings>;

/// One agent: a program with a `command`; with the form `a2a`, another machine's at a `url`; with the form `tool`, a `tool`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// The program and its arguments, taken as they are. Empty for an agent on another machine.
    #[serde(default, deserialize_with = "command_line")]
    pub command: Vec<String>,
    /// Where an agent on another machine says what it is: `https://…` or `http://…`, before `/.well-known/agent-card.json`.
    pub url: Option<String>,
    /// The name of the variable that holds the token of an agent on another machine.
    pub token: Option<String>,
    /// The file that holds it.
    pub token_file: Option<PathBuf>,
    /// The tool that does tasks, by its whole name: `SERVER.TOOL` of an MCP server.
    pub tool: Option<String>,
    /// Its argument that gets the task: `prompt` by default.
    pub argument: Option<String>,
    /// What it prints, or how it is talked with.
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

/// One agent with what the environment has for it.
#[derive(Debug, Clone)]
pub struct AgentToAsk {
    /// As the settings say.
    pub settings: AgentSettings,
    /// The whole environment of a program.
    pub environment: Vec<(String, String)>,
    /// What another machine is shown, if it wants to see something.
    pub token: Option<Secret>,
    /// Why it cannot be asked, if something that it needs is not there.
    pub unusable: Option<String>,
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

    /// An agent on another machine, at `url`, with nothing special.
    #[must_use]
    pub fn of_url(url: impl Into<String>) -> Self {
        Self {
            url: Some(url.into()),
            ..Self::new(Vec::new(), AgentForm::A2a)
        }
    }

    /// What is wrong with it, in words; `None` if it can be used.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        let wrong = match self.form {
            AgentForm::A2a => self.problem_of_remote(),
            AgentForm::Tool => self.problem_of_tool(),
            _ => self.problem_of_program(),
        };
        if wrong.is_some() {
            wrong
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

    /// Whether something is said of it that only a program has.
    fn is_of_programs(&self) -> bool {
        let has_place = !self.environment.is_empty() || self.folder.is_some() || !self.mcp.is_empty();
        !self.command.is_empty() || has_place || self.grants.is_some() || self.prompt != AgentPrompt::default()
    }

    /// Whether something is said of it that only another machine has.
    fn is_of_remotes(&self) -> bool {
        self.url.is_some() || self.token.is_some() || self.token_file.is_some()
    }

    /// Whether something is said of it that only a tool has.
    fn is_of_tools(&self) -> bool {
        self.tool.is_some() || self.argument.is_some()
    }

    fn problem_of_tool(&self) -> Option<&'static str> {
        let has_limits = self.time_s.is_some() || self.output_bytes.is_some() || self.grace_s.is_some();
        if self.tool.as_deref().is_none_or(str::is_empty) || self.argument.as_deref().is_some_and(str::is_empty) {
            Some("with the form tool, `tool` is the name of one, and `argument` that of its argument for the task")
        } else if self.is_of_programs() || self.is_of_remotes() || has_limits {
            Some("with the form tool there are only `tool` and `argument`; limits are those of the tool")
        } else {
            None
        }
    }

    fn problem_of_remote(&self) -> Option<&'static str> {
        let url = self.url.as_deref().unwrap_or_default();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            Some("with the form a2a, `url` begins with https:// or http://")
        } else if self.is_of_programs() {
            Some(
                "`command`, `prompt`, `environment`, `folder`, `grants` and `mcp` are for programs, and the form a2a is for other machines",
            )
        } else if self.is_of_tools() {
            Some("`tool` and `argument` are for the form tool")
        } else if self.token.is_some() && self.token_file.is_some() {
            Some("it has either a `token` or a `token_file`")
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
            Some("`grants` and `mcp` are for the form acp: only that can ask and be told")
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
            time: Duration::from_secs(self.time_s.unwrap_or(TIME_S)),
            grace: Duration::from_secs(self.grace_s.unwrap_or(GRACE_S)),
        }
    }

    pub(super) fn output_bytes(&self) -> usize {
        self.output_bytes.unwrap_or(OUTPUT_BYTES)
    }
}
