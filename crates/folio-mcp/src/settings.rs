//! The settings of servers, and what their tools are permitted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use folio_tools::Effect;
use serde::Deserialize;

/// The default for the seconds that a call may take.
const TIME_S: u64 = 120;
/// The most seconds for a call: a day.
const TIME_S_MAX: u64 = 24 * 60 * 60;
/// The default for the seconds until a server is ready.
const START_S: u64 = 30;
/// The most seconds until a server is ready.
const START_S_MAX: u64 = 600;
/// The default for the bytes of one answer: what every tool may answer.
const ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// The most bytes of one answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The section `[mcp]` of `folio.toml`: servers by name.
pub type McpSection = BTreeMap<String, McpSettings>;

/// The settings of one server. It has either a `command` or a `url`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpSettings {
    /// The program of the server and its arguments, taken as they are. Empty for a server that is reached by HTTP.
    #[serde(default, deserialize_with = "folio_model::agent::command_line")]
    pub command: Vec<String>,
    /// Names of variables that the program gets from the environment, besides those that every program gets.
    #[serde(default)]
    pub environment: Vec<String>,
    /// The working directory of the program. Default: that in which Folio was called.
    pub folder: Option<PathBuf>,
    /// The address of a server that is reached by HTTP: `https://…` or `http://…`.
    pub url: Option<String>,
    /// Additional headers of each request, each with the name of the variable that holds its value.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The name of the variable that holds the token for a server that is reached by HTTP.
    pub token: Option<String>,
    /// The file that holds the token.
    pub token_file: Option<PathBuf>,
    /// How people log in to a server that is reached by HTTP, in a browser (OAuth 2.1): `oauth = {}`, or with what is
    /// known beforehand. Default: no login.
    pub oauth: Option<LoginSettings>,
    /// The tools that are offered, by the server's names. Default: all.
    pub tools: Option<Vec<String>>,
    /// What a call of a tool changes, by the server's name for the tool. This is believed; what the server says is a
    /// hint.
    #[serde(default)]
    pub effects: BTreeMap<String, Effect>,
    /// Tools that are called without approval, by the server's names; `*` stands for all.
    #[serde(default)]
    pub allow: Vec<String>,
    /// What a call of a tool writes, by the server's name for the tool; `*` stands for all that are not named. A
    /// pattern such as `board/{id}`, in which arguments are filled in: calls that write the same are made one after the
    /// other.
    #[serde(default)]
    pub writes: BTreeMap<String, String>,
    /// Seconds that a call may take: 1 to 86,400. Default: 120.
    pub time_s: Option<u64>,
    /// Seconds until the server is ready and has listed its tools: 1 to 600. Default: 30.
    pub start_s: Option<u64>,
    /// Bytes of one message of the server: 1 KiB to 64 MiB. Default: 8 MiB.
    pub answer_bytes: Option<usize>,
}

/// How people log in to a server. Every field may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginSettings {
    /// The client id that Folio was given by the server that issues tokens. Without it, Folio registers itself there.
    pub client_id: Option<String>,
    /// The name of the variable that holds the secret of the client id, if it has one.
    pub client_secret: Option<String>,
    /// The scopes of the tokens. Default: those that the server names.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The port of this machine to which the browser returns. Default: any free one.
    pub port: Option<u16>,
    /// The file that stores the tokens. Default: one in the user's data folder.
    pub tokens: Option<PathBuf>,
}

impl McpSettings {
    /// Creates the settings of a server that is a program.
    #[must_use]
    pub fn of_command(command: Vec<String>) -> Self {
        Self {
            command,
            ..Self::default()
        }
    }

    /// Creates the settings of a server that is reached by HTTP.
    #[must_use]
    pub fn of_url(url: impl Into<String>) -> Self {
        Self {
            url: Some(url.into()),
            ..Self::default()
        }
    }

    /// Returns what is wrong with the settings of a server with the name `name`, in words; `None` if they can be used.
    #[must_use]
    pub fn problem(&self, name: &str) -> Option<&'static str> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        let is_name =
            name.starts_with(|c: char| c.is_ascii_lowercase()) && name.len() <= 32 && name.chars().all(is_plain);
        let is_variable = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        let is_program = !self.command.is_empty();
        let is_url = self
            .url
            .as_deref()
            .is_some_and(|url| url.starts_with("http://") || url.starts_with("https://"));
        let has_token = self.token.is_some() || self.token_file.is_some();
        let speaks_http = !self.headers.is_empty() || has_token || self.oauth.is_some();
        let client = self
            .oauth
            .as_ref()
            .map(|oauth| (&oauth.client_id, &oauth.client_secret));
        let secret = client.and_then(|(_, secret)| secret.as_ref());
        let is_run = !self.environment.is_empty() || self.folder.is_some();
        if !is_name || name.contains("__") {
            Some(
                "its name must begin with a lowercase letter and have at most 32 lowercase letters, digits, `-` and single `_`",
            )
        } else if is_program == self.url.is_some() {
            Some("it has either a `command` or a `url`")
        } else if is_program && (self.command[0].is_empty() || self.command.iter().any(|word| word.contains('\0'))) {
            Some("`command` is a list with a program and its arguments")
        } else if !is_program && !is_url {
            Some("`url` begins with https:// or http://")
        } else if is_program && speaks_http {
            Some("`headers`, `token`, `token_file` and `oauth` are for a server with a `url`")
        } else if !is_program && is_run {
            Some("`environment` and `folder` are for a server with a `command`")
        } else if self.token.is_some() && self.token_file.is_some() {
            Some("it has either a `token` or a `token_file`")
        } else if has_token && self.oauth.is_some() {
            Some("it has either a token or `oauth`, by which it gets one")
        } else if matches!(client, Some((None, Some(_)))) {
            Some("`oauth.client_secret` is the secret of a `client_id`")
        } else if !self
            .environment
            .iter()
            .chain(self.headers.values())
            .chain(&self.token)
            .chain(secret)
            .all(is_variable)
        {
            Some("`environment`, `headers`, `token` and `client_secret` have names of variables, never values")
        } else if !(1..=TIME_S_MAX).contains(&self.time_s.unwrap_or(TIME_S)) {
            Some("`time_s` is 1 to 86400")
        } else if !(1..=START_S_MAX).contains(&self.start_s.unwrap_or(START_S)) {
            Some("`start_s` is 1 to 600")
        } else if !(1024..=ANSWER_BYTES_MAX).contains(&self.answer_bytes.unwrap_or(ANSWER_BYTES)) {
            Some("`answer_bytes` is 1024 to 67108864")
        } else {
            None
        }
    }

    /// Returns the pattern of what a call of the tool writes, by the server's name `name`, if the settings state it.
    pub(crate) fn written_by(&self, name: &str) -> Option<&str> {
        let pattern = self.writes.get(name).or_else(|| self.writes.get("*"));
        pattern.map(String::as_str).filter(|pattern| !pattern.is_empty())
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.time_s.unwrap_or(TIME_S))
    }

    pub(crate) fn start_time(&self) -> Duration {
        Duration::from_secs(self.start_s.unwrap_or(START_S))
    }

    pub(crate) fn answer_bytes(&self) -> usize {
        self.answer_bytes.unwrap_or(ANSWER_BYTES)
    }

    /// Returns whether the tool is offered, by the server's name `name`.
    pub(crate) fn offers(&self, name: &str) -> bool {
        self.tools
            .as_ref()
            .is_none_or(|tools| tools.iter().any(|tool| tool == name))
    }

    /// Returns whether the tool is called without approval: it is allowed by name, or whoever wrote the settings says
    /// that it changes nothing.
    pub(crate) fn allows(&self, name: &str) -> bool {
        let changes_nothing = self.effects.get(name).is_some_and(|effect| effect.changes_nothing());
        changes_nothing || self.allow.iter().any(|allowed| allowed == name || allowed == "*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(name: &str, text: &str) -> Option<&'static str> {
        let settings: McpSettings = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        settings.problem(name)
    }

    #[test]
    fn mcp_settings_are_checked_for_invalid_and_conflicting_fields() {
        assert_eq!(problem("maps", "command = ['maps-mcp']"), None);
        assert_eq!(
            problem("maps", "url = 'http://127.0.0.1:1/mcp'\ntoken = 'MAPS_TOKEN'"),
            None
        );
        for (name, text, part) in [
            ("Maps", "command = ['x']", "its name"),
            ("a.b", "command = ['x']", "its name"),
            ("a__b", "command = ['x']", "its name"),
            ("maps", "", "either"),
            ("maps", "command = ['x']\nurl = 'https://x'", "either"),
            ("maps", "command = ['']", "`command`"),
            ("maps", "url = 'ftp://x'", "https://"),
            ("maps", "command = ['x']\ntoken = 'T'", "for a server with a `url`"),
            (
                "maps",
                "url = 'https://x'\nenvironment = ['A']",
                "for a server with a `command`",
            ),
            (
                "maps",
                "url = 'https://x'\ntoken = 'A'\ntoken_file = 'b'",
                "either a `token`",
            ),
            ("maps", "url = 'https://x'\nheaders = {a = 'A=1'}", "never values"),
            ("maps", "command = ['x']\noauth = {}", "for a server with a `url`"),
            (
                "maps",
                "url = 'https://x'\noauth = {}\ntoken = 'A'",
                "either a token or `oauth`",
            ),
            (
                "maps",
                "url = 'https://x'\noauth = {client_secret = 'A'}",
                "of a `client_id`",
            ),
            ("maps", "command = ['x']\ntime_s = 0", "`time_s`"),
            ("maps", "command = ['x']\nstart_s = 601", "`start_s`"),
            ("maps", "command = ['x']\nanswer_bytes = 1", "`answer_bytes`"),
        ] {
            let problem = problem(name, text).unwrap_or_else(|| panic!("{name}: {text}"));
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn tool_set_to_a_read_effect_needs_no_approval_e9_14() {
        let text = "command = ['x']\nallow = ['send']\neffects = {look = 'read', put = 'idempotent'}";
        let settings: McpSettings = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let allowed = ["look", "put", "send", "other"].map(|name| settings.allows(name));
        assert_eq!(allowed, [true, false, true, false]);
    }

    #[test]
    fn command_given_as_text_is_rejected_naming_the_list() {
        let read = toml::from_str::<McpSettings>("command = 'npx -y maps-mcp'");
        let error = read.map_or_else(|error| error.to_string(), |settings| format!("{settings:?}"));
        assert!(
            error.contains("expected a list with a program and its arguments"),
            "{error}"
        );
    }
}
