//! The settings of this call: a flag overrides the environment, which overrides `folio.toml`, which overrides the
//! defaults. This is the only place where the environment is read.

mod file;
mod sources;
mod surroundings;
#[cfg(test)]
mod tests;
mod trust;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use folio::mcp::ToStart;
use folio::memory::canonical::{digest_of, hex};
use folio::memory::id::TurnRef;
use folio::model::{AgentToAsk, ModelKeys, ModelsSection};
use folio::runner::LostCalls;
use folio::store::OUTBOX_SUFFIX;
use folio::tools::HostList;
use folio::{OpenError, Role, SpaceName, ThreadKey};
use folio_telemetry::TelemetryOptions;

pub(crate) use self::file::Untrusted;
pub(crate) use self::file::place_of;
use self::file::{Read, check_agents, models_beside_file, read_file};
pub(crate) use self::sources::PlacedValue;
use self::sources::Sources;
use self::surroundings::Surroundings;
pub(crate) use self::surroundings::redacted_secret;
pub(crate) use self::trust::{SettingsFile, Unseen};
use crate::again::Again;
use crate::arguments::{Color, Global};
use crate::error::Failure;
use crate::output::Output;

/// Environment variables that are passed to programs started by tools.
const TOOL_VARIABLES: [&str; 9] = [
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ",
];

/// The settings of this call.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The URL of the store.
    pub(crate) store: String,
    /// Where the store was set.
    store_setting: PlacedValue,
    /// The space.
    pub(crate) space: SpaceName,
    /// The thread.
    pub(crate) thread: ThreadKey,
    /// The turn to work in.
    pub(crate) turn: Option<TurnRef>,
    /// The turn, if a flag set it.
    pub(crate) turn_flag: Option<TurnRef>,
    /// Whether the command line names the thread.
    pub(crate) names_thread: bool,
    /// The model, as `--model` writes it.
    pub(crate) model: Option<PlacedValue>,
    /// The models of each role, as the settings file names them.
    pub(crate) models: ModelsSection,
    /// The agents that do tasks by themselves, by name.
    pub(crate) agents: BTreeMap<String, AgentToAsk>,
    /// MCP servers whose tools runs may call, each with its complete environment.
    pub(crate) mcp: Vec<ToStart>,
    /// The keys of providers that the environment holds.
    pub(crate) keys: ModelKeys,
    /// When to use colour.
    pub(crate) color: Color,
    /// Whether the terminal can neither move its cursor nor show colours, as its `TERM` says.
    pub(crate) is_dumb_terminal: bool,
    /// The role in which the program acts.
    pub(crate) role: Role,
    /// Whether the role was set explicitly.
    pub(crate) names_role: bool,
    /// The user at the terminal.
    pub(crate) user: String,
    /// The name that the caller was given: one of several who use the same account.
    pub(crate) named_user: Option<String>,
    /// The folder that the program was called in.
    pub(crate) current: PathBuf,
    /// The folder below which each run has one to write to.
    pub(crate) run_folders: Option<PathBuf>,
    /// The folder for data that belongs to no store; `None` if the user has no home.
    data: Option<PathBuf>,
    /// The complete environment of programs that tools start: what they need to be found and for their language,
    /// nothing secret.
    pub(crate) tool_environment: Vec<(String, String)>,
    /// The hosts that runs submitted here may reach.
    pub(crate) hosts: HostList,
    /// Where spans of runs are sent, if enabled.
    pub(crate) telemetry: Option<TelemetryOptions>,
    /// What to do with calls that had begun when their driver died, where the effect of their tool is not to decide.
    pub(crate) lost_calls: LostCalls,
    /// The editor, if the user configured one.
    pub(crate) editor: Option<String>,
    /// The settings file that was read.
    file: Option<PathBuf>,
    /// The settings file that was ignored because nobody has looked at it.
    pub(crate) passed_over: Option<Unseen>,
    /// The flags that another call needs to use the same store and space.
    repeated: String,
    given: Vec<(&'static str, String)>,
}

impl Settings {
    /// Reads all sources. A settings file of a folder that nobody has looked at is refused or ignored, as `untrusted`
    /// says.
    ///
    /// # Errors
    ///
    /// A mistake in one of the sources, which the failure names.
    pub(crate) fn resolve(flags: &Global, untrusted: Untrusted) -> Result<Self, Failure> {
        let folders = etcetera::choose_base_strategy()
            .ok()
            .map(|base| (base.data_dir(), base.config_dir()));
        let current = std::env::current_dir().map_err(|error| Failure::cannot("find", "the current folder", error))?;
        let variable = |name: &str| std::env::var_os(name);
        Self::resolve_in(
            flags,
            &Surroundings {
                variable: &variable,
                folders,
                current,
            },
            untrusted,
        )
    }

    /// The outbox for the database at `location`: a file on this machine, one per database, in which answers of tools
    /// wait until they can be written. `None` for other stores.
    pub(crate) fn outbox_for(&self, location: &str) -> Option<PathBuf> {
        if !location.starts_with("postgres") {
            return None;
        }
        let digest = digest_of([location.as_bytes()]);
        let name = hex(&digest[..8]);
        Some(self.data.as_ref()?.join(format!("{name}{OUTBOX_SUFFIX}")))
    }

    fn resolve_in(flags: &Global, around: &Surroundings<'_>, untrusted: Untrusted) -> Result<Self, Failure> {
        let Read {
            file,
            settings: from_file,
            passed_over,
        } = read_file(flags.config.as_deref(), around, untrusted)?;
        let file_path = file.as_deref();
        let sources = Sources {
            flags,
            around,
            file: file_path,
        };
        let store = sources.store(from_file.store)?;
        let space = sources.space(from_file.space)?;
        let thread = sources.thread(from_file.thread)?;
        let model = sources.model(from_file.model)?;
        let turn = sources.turn()?;
        let is_dumb_terminal = (around.variable)("TERM").is_some_and(|terminal| terminal == "dumb");
        let color = sources.color(from_file.color, is_dumb_terminal)?;
        let named_user = around.text("FOLIO_USER")?;
        let user = [named_user.clone(), around.text("USER")?, around.text("LOGNAME")?];
        let for_tools = |name: &&str| Some(((*name).to_owned(), (around.variable)(name)?.into_string().ok()?));
        let tool_environment: Vec<(String, String)> = TOOL_VARIABLES.iter().filter_map(for_tools).collect();
        let agents = from_file.agents.unwrap_or_default();
        check_agents(&agents, file_path)?;
        let agents = agents.into_iter();
        let agents = agents.map(|(name, agent)| (name, around.agent(agent, &tool_environment, file_path)));
        let servers = from_file.mcp.unwrap_or_default().into_iter();
        let mcp = servers.map(|(name, server)| around.server(name, server, &tool_environment, file_path));
        let role = sources.role()?;
        Ok(Self {
            telemetry: around.telemetry(from_file.telemetry.unwrap_or_default())?,
            mcp: mcp.collect(),
            hosts: from_file.http.unwrap_or_default().allow,
            agents: agents.collect(),
            lost_calls: from_file.lost_calls,
            current: around.current.clone(),
            run_folders: around.run_folders(&store.text),
            data: around.folders.as_ref().map(|(data, _)| data.join("folio")),
            tool_environment,
            repeated: repeated(&given(flags)),
            given: given(flags),
            store: store.text.clone(),
            store_setting: store,
            space,
            thread,
            turn,
            turn_flag: flags.turn,
            names_thread: flags.thread.is_some(),
            role: role.unwrap_or(Role::Human),
            names_role: role.is_some(),
            model,
            models: models_beside_file(from_file.models.unwrap_or_default(), file_path, &around.current),
            keys: around.model_keys()?,
            editor: around.text("VISUAL")?.or(around.text("EDITOR")?),
            color,
            is_dumb_terminal,
            named_user,
            user: user.into_iter().flatten().next().unwrap_or_default(),
            file,
            passed_over,
        })
    }

    /// The settings file at `path`, in the folder at `path`, or in this folder.
    ///
    /// # Errors
    ///
    /// If there is no place to record that somebody looked at it.
    pub(crate) fn file_at(&self, path: Option<&Path>) -> Result<SettingsFile, Failure> {
        let path = self.current.join(path.unwrap_or(Path::new("")));
        SettingsFile::at(&path, self.data.as_deref())
    }

    /// The options that make another command use the same store and space; empty, or beginning with a space.
    pub(crate) fn repeated(&self) -> &str {
        &self.repeated
    }

    /// The same, each with its value, for a command that another program calls, maybe in another folder.
    ///
    /// # Errors
    ///
    /// If the store was named by a URL that is not repeated, because it may contain a password.
    pub(crate) fn given_anywhere(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        // Without a flag, the store is a file or was set in another place.
        if self.store_setting.is_by_flag() && !self.store.starts_with("sqlite:") {
            let message = "of stores, only sqlite:PATH is written there: any other URL may contain a password";
            let hint = "leave out --store, and name the store in your folio.toml or in the variable FOLIO_STORE";
            return Err(Failure::usage("usage", message).hint(hint));
        }
        let anywhere = |(flag, value): &(&'static str, String)| {
            let value = match *flag {
                "--config" => self.absolute(value),
                "--store" => self.absolute_store(value),
                _ => value.clone(),
            };
            (*flag, value)
        };
        Ok(self.given.iter().map(anywhere).collect())
    }

    fn absolute(&self, path: &str) -> String {
        // Without `.` in between.
        let path: PathBuf = self.current.join(path).components().collect();
        path.display().to_string()
    }

    /// The same for the URL of a file. What begins with `~` is refused as it is written.
    fn absolute_store(&self, url: &str) -> String {
        let path = url.strip_prefix("sqlite:").unwrap_or(url);
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path == "~" || path.starts_with("~/") {
            return url.to_owned();
        }
        format!("sqlite:{}", self.absolute(path))
    }

    /// What a command has to repeat that is offered as a next step.
    pub(crate) fn again(&self) -> Again {
        let thread = self.names_thread.then(|| quoted(&self.thread.0).into_owned());
        Again::new(&self.repeated, thread)
    }

    /// Why the store cannot be opened.
    pub(crate) fn not_opened(&self, error: OpenError) -> Failure {
        let is_unreadable = !matches!(error, OpenError::Store(_) | OpenError::NotThere { .. });
        let failure = Failure::from(error);
        if is_unreadable {
            self.store_setting.refused(failure)
        } else {
            failure
        }
    }

    /// Whether the contents of the store outlive this process.
    pub(crate) fn is_persistent(&self) -> bool {
        !self.store.starts_with("memory:")
    }

    /// Prints the settings in use, if the user asked for it.
    pub(crate) fn describe(&self, output: &Output) {
        if let Some(file) = &self.file {
            output.detail(format_args!("settings: {}", file.display()));
        }
        output.detail(format_args!(
            "store: {}, space: {}, thread: {}",
            self.store_in_words(),
            self.space,
            self.thread
        ));
    }

    /// The URL of the store, or its scheme only: any other URL may contain a password.
    pub(crate) fn store_in_words(&self) -> &str {
        let (scheme, _) = self.store.split_once(':').unwrap_or_default();
        match scheme {
            "sqlite" | "memory" => &self.store,
            scheme => scheme,
        }
    }
}

/// The URL for `store`: a value that begins like a path is the path of a file.
pub(crate) fn store_url(store: &str) -> Cow<'_, str> {
    match ["/", "./", "../", "~/"].iter().any(|start| store.starts_with(start)) {
        true => format!("sqlite:{store}").into(),
        false => store.into(),
    }
}

/// The options that another command has to repeat to use the same store and space, with their values.
fn given(flags: &Global) -> Vec<(&'static str, String)> {
    // Any other URL may contain a password, and this is displayed.
    let store = flags.store.as_ref().map(|store| store_url(store).into_owned());
    let store = store.as_ref().filter(|store| store.starts_with("sqlite:"));
    let config = flags.config.as_ref().map(|file| file.to_string_lossy().into_owned());
    let given = [
        ("--config", config.as_ref()),
        ("--store", store),
        ("--space", flags.space.as_ref()),
    ];
    let given = given
        .into_iter()
        .filter_map(|(flag, value)| Some((flag, value?.clone())));
    given.collect()
}

/// `given` as options for a shell; empty, or beginning with a space.
pub(crate) fn repeated(given: &[(&str, String)]) -> String {
    let options = given.iter().map(|(flag, value)| format!(" {flag} {}", quoted(value)));
    options.collect()
}

/// `word` quoted for a shell, whatever it contains.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:=@-".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''")).into()
}
