//! The settings of this call: a flag overrides the environment, which overrides `folio.toml`, which overrides the
//! defaults. This is the only place where the environment is read.

mod file;
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
use self::file::{Read, beside_file, check_agents, model_beside_file, models_beside_file, name_of, read_file};
use self::surroundings::Surroundings;
pub(crate) use self::surroundings::redacted_secret;
pub(crate) use self::trust::{SettingsFile, Unseen};
use crate::arguments::{Color, Global, turn_ref};
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
}

/// A value, and where it was set if not on the command line.
#[derive(Debug, Clone)]
pub(crate) struct PlacedValue {
    /// The value.
    pub(crate) text: String,
    /// The environment variable, or the key of the file.
    place: Option<String>,
}

impl PlacedValue {
    fn by_flag(text: String) -> Self {
        Self { text, place: None }
    }

    fn in_place(text: String, place: String) -> Self {
        Self {
            text,
            place: Some(place),
        }
    }

    /// `failure`, which is about this value, prefixed with the place where it was set.
    pub(crate) fn refused(&self, failure: Failure) -> Failure {
        match &self.place {
            Some(place) => failure.about(place),
            None => failure,
        }
    }
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
        let said = |flag: Option<&String>, variable, key: &str, in_file: Option<String>| {
            let said = match flag {
                Some(text) => Some(PlacedValue::by_flag(text.clone())),
                None => around
                    .text(variable)?
                    .map(|text| PlacedValue::in_place(text, variable.to_owned())),
            };
            let of_file = |text| PlacedValue::in_place(text, format!("{key} in {}", name_of(file.as_deref())));
            Ok::<_, Failure>(said.or_else(|| in_file.map(of_file)))
        };
        let in_file = from_file
            .store
            .map(|store| beside_file(&store_url(&store), file.as_deref()));
        let store = match said(flags.store.as_ref(), "FOLIO_STORE", "store", in_file)? {
            Some(store) => PlacedValue {
                text: store_url(&store.text).into_owned(),
                ..store
            },
            None => PlacedValue::by_flag(around.default_store()?),
        };
        let space = match said(flags.space.as_ref(), "FOLIO_SPACE", "space", from_file.space)? {
            Some(space) => {
                SpaceName::parse(&space.text).map_err(|error| space.refused(Failure::usage("space_invalid", error)))?
            }
            None => SpaceName::main(),
        };
        let thread = match said(flags.thread.as_ref(), "FOLIO_THREAD", "thread", from_file.thread)? {
            Some(thread) if thread.text.is_empty() => {
                return Err(thread.refused(Failure::usage("thread_invalid", "the name of a thread is empty")));
            }
            Some(thread) => thread.text,
            None => default_thread(&around.current),
        };
        let in_file = from_file
            .model
            .map(|model| model_beside_file(&model, file.as_deref(), &around.current));
        let model = said(None, "FOLIO_MODEL", "model", in_file)?;
        let turn = match flags.turn {
            Some(turn) => Some(turn),
            None => around
                .text("FOLIO_TURN")?
                .map(|turn| {
                    let wrong =
                        |error| Failure::usage("turn_invalid", format!("{turn:?} is {error}")).about("FOLIO_TURN");
                    turn_ref(&turn).map_err(wrong)
                })
                .transpose()?,
        };
        let no_color = around.text("NO_COLOR")?.is_some_and(|value| !value.is_empty());
        let color = flags
            .color
            .or(no_color.then_some(Color::Never))
            .or(from_file.color)
            .unwrap_or_default();
        let is_dumb_terminal = (around.variable)("TERM").is_some_and(|terminal| terminal == "dumb");
        let color = match color {
            Color::Auto if is_dumb_terminal => Color::Never,
            color => color,
        };
        let named_user = around.text("FOLIO_USER")?;
        let user = [named_user.clone(), around.text("USER")?, around.text("LOGNAME")?];
        let for_tools = |name: &&str| Some(((*name).to_owned(), (around.variable)(name)?.into_string().ok()?));
        let tool_environment: Vec<(String, String)> = TOOL_VARIABLES.iter().filter_map(for_tools).collect();
        let agents = from_file.agents.unwrap_or_default();
        check_agents(&agents, file.as_deref())?;
        let agents = agents.into_iter();
        let agents = agents.map(|(name, agent)| (name, around.agent(agent, &tool_environment, file.as_deref())));
        let servers = from_file.mcp.unwrap_or_default().into_iter();
        let mcp = servers.map(|(name, server)| around.server(name, server, &tool_environment, file.as_deref()));
        let role = role(flags, around)?;
        let telemetry = around.telemetry(from_file.telemetry.unwrap_or_default())?;
        Ok(Self {
            mcp: mcp.collect(),
            hosts: from_file.http.unwrap_or_default().allow,
            telemetry,
            agents: agents.collect(),
            lost_calls: from_file.lost_calls,
            current: around.current.clone(),
            run_folders: around.run_folders(&store.text),
            data: around.folders.as_ref().map(|(data, _)| data.join("folio")),
            tool_environment,
            repeated: repeated(flags),
            store: store.text.clone(),
            store_setting: store,
            space,
            thread: ThreadKey(thread),
            turn,
            turn_flag: flags.turn,
            names_thread: flags.thread.is_some(),
            role: role.unwrap_or(Role::Human),
            names_role: role.is_some(),
            model,
            models: models_beside_file(from_file.models.unwrap_or_default(), file.as_deref(), &around.current),
            keys: ModelKeys {
                anthropic: around.text("ANTHROPIC_API_KEY")?.map(redacted_secret),
                openai: around.text("OPENAI_API_KEY")?.map(redacted_secret),
                gemini: around.text("GEMINI_API_KEY")?.map(redacted_secret),
                own: None,
            },
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
        let (scheme, _) = self.store.split_once(':').unwrap_or_default();
        let store = if matches!(scheme, "sqlite" | "memory") {
            &self.store
        } else {
            scheme
        };
        output.detail(format_args!(
            "store: {store}, space: {}, thread: {}",
            self.space, self.thread
        ));
    }
}

/// The requested role.
fn role(flags: &Global, around: &Surroundings<'_>) -> Result<Option<Role>, Failure> {
    let asked = match &flags.role {
        Some(role) => Some(PlacedValue::by_flag(role.clone())),
        None => around
            .text("FOLIO_ROLE")?
            .map(|role| PlacedValue::in_place(role, "FOLIO_ROLE".to_owned())),
    };
    let Some(asked) = asked else {
        return Ok(None);
    };
    let role = Role::parse(&asked.text).ok_or_else(|| {
        let roles: Vec<_> = Role::ALL.into_iter().map(Role::as_str).collect();
        let wrong = Failure::usage("role_invalid", format!("{:?} is not a role", asked.text));
        asked.refused(wrong).hint(format!("one of {}", roles.join(", ")))
    })?;
    Ok(Some(role))
}

/// The URL for `store`: a value that begins like a path is the path of a file.
pub(crate) fn store_url(store: &str) -> Cow<'_, str> {
    match ["/", "./", "../"].iter().any(|start| store.starts_with(start)) {
        true => format!("sqlite:{store}").into(),
        false => store.into(),
    }
}

fn repeated(flags: &Global) -> String {
    // Any other URL may contain a password, and this is displayed.
    let store = flags.store.as_ref().map(|store| store_url(store).into_owned());
    let store = store.as_ref().filter(|store| store.starts_with("sqlite:"));
    let config = flags.config.as_ref().map(|file| file.to_string_lossy().into_owned());
    let given = [
        ("--config", config.as_ref()),
        ("--store", store),
        ("--space", flags.space.as_ref()),
    ];
    let given = given.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
    given
        .map(|(flag, value)| format!(" {flag} {}", quoted(value)))
        .collect()
}

/// `word` quoted for a shell, whatever it contains.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:=@-".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''")).into()
}

/// The default thread: the worktree that `folder` is in, not the repository, since two worktrees are two pieces of
/// work.
fn default_thread(folder: &Path) -> String {
    worktree_of(folder).map_or_else(|| ThreadKey::main().0, |folder| folder.to_string_lossy().into_owned())
}

/// The git worktree that `folder` is in.
fn worktree_of(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| folder.join(".git").exists())
}
