//! What holds for this call: a flag wins over the environment, that over `folio.toml`, and that over the
//! defaults. The only place where the environment is read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy as _;
use folio::mcp::{LoginAt, McpSection, McpSettings, ToStart};
use folio::memory::canonical::digest_of;
use folio::memory::id::TurnRef;
use folio::model::{AgentSettings, AgentToAsk, AgentsSection, ModelKeys, ModelsSection, Secret};
use folio::runner::LostCalls;
use folio::store::keep_out;
use folio::store::workspace::OUTBOX_SUFFIX;
use folio::{Role, SpaceName, ThreadKey};
use folio_telemetry::TelemetryOptions;
use serde::Deserialize;

use crate::arguments::{Color, Global, turn_ref};
use crate::error::Failure;
use crate::output::Output;

/// The name of the file with settings.
const FILE_NAME: &str = "folio.toml";
/// Bytes of a file with settings.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Variables that programs which tools start may see.
const FOR_TOOLS: [&str; 9] = [
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ",
];

/// What holds for this call.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The URL of the store.
    pub(crate) store: String,
    /// The space.
    pub(crate) space: SpaceName,
    /// The thread.
    pub(crate) thread: ThreadKey,
    /// The turn in which something is done.
    pub(crate) turn: Option<TurnRef>,
    /// The same if a flag said so.
    pub(crate) turn_flag: Option<TurnRef>,
    /// Whether the command line names the thread.
    pub(crate) names_thread: bool,
    /// The model, as `--model` writes it.
    pub(crate) model: Option<String>,
    /// The models of each role, as the settings file names them.
    pub(crate) models: ModelsSection,
    /// Who does tasks by themselves, by name.
    pub(crate) agents: BTreeMap<String, AgentToAsk>,
    /// MCP servers whose tools runs may call, each with the whole environment that it gets.
    pub(crate) mcp: Vec<ToStart>,
    /// The keys of providers that the environment holds.
    pub(crate) keys: ModelKeys,
    /// When to use colour.
    pub(crate) color: Color,
    /// In which role the program acts.
    pub(crate) role: Role,
    /// Whether somebody said so.
    pub(crate) names_role: bool,
    /// Who sits before the terminal.
    pub(crate) user: String,
    /// The folder that the program was called in.
    pub(crate) current: PathBuf,
    /// The folder below which each run has one to write to.
    pub(crate) run_folders: Option<PathBuf>,
    /// The folder for data that belongs to no store; none if the user has no home.
    data: Option<PathBuf>,
    /// The whole environment of programs that tools start: what they need to be found and to speak, nothing secret.
    pub(crate) tool_environment: Vec<(String, String)>,
    /// Where spans of runs are sent, if anywhere.
    pub(crate) telemetry: Option<TelemetryOptions>,
    /// What becomes of calls that had begun when their driver died, where the class of their tool is not to decide.
    pub(crate) lost_calls: LostCalls,
    /// The program that people edit texts with, if they named one.
    pub(crate) editor: Option<String>,
    /// The file that some of it comes from.
    file: Option<PathBuf>,
    /// The flags that another call needs to mean the same store and space.
    repeated: String,
}

/// The settings of a file. What it does not name is as if there were no file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FromFile {
    store: Option<String>,
    space: Option<String>,
    thread: Option<String>,
    model: Option<String>,
    models: Option<ModelsSection>,
    agents: Option<AgentsSection>,
    mcp: Option<McpSection>,
    telemetry: Option<TelemetrySection>,
    #[serde(default)]
    lost_calls: LostCalls,
    color: Option<Color>,
}

/// `[telemetry]` of a file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TelemetrySection {
    /// The address of a collector that speaks OTLP over HTTP.
    endpoint: Option<String>,
}

/// What surrounds the program: handed in, so that tests need not change it.
struct Surroundings<'a> {
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The folder for data and the one for configuration; none if the user has no home.
    folders: Option<(PathBuf, PathBuf)>,
    current: PathBuf,
}

impl Settings {
    /// Reads all the sources.
    ///
    /// # Errors
    ///
    /// A mistake in one of them, which it names.
    pub(crate) fn resolve(flags: &Global) -> Result<Self, Failure> {
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
        )
    }

    /// Where answers of tools wait that could not be written to the database at `location`: in a file of this machine, one for each database.
    /// None for other stores.
    pub(crate) fn outbox_for(&self, location: &str) -> Option<PathBuf> {
        if !location.starts_with("postgres") {
            return None;
        }
        let digest = digest_of([location.as_bytes()]);
        let name: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Some(self.data.as_ref()?.join(format!("{name}{OUTBOX_SUFFIX}")))
    }

    fn resolve_in(flags: &Global, around: &Surroundings<'_>) -> Result<Self, Failure> {
        let (file, from_file) = read_file(flags.config.as_deref(), around)?;
        let store = flags
            .store
            .clone()
            .map_or_else(|| around.text("FOLIO_STORE"), |store| Ok(Some(store)))?;
        let store = match (store, from_file.store) {
            (Some(store), _) => store,
            (None, Some(store)) => beside_file(&store, file.as_deref()),
            (None, None) => around.default_store()?,
        };
        let space = flags
            .space
            .clone()
            .map_or_else(|| around.text("FOLIO_SPACE"), |space| Ok(Some(space)))?;
        let space = match space.or(from_file.space) {
            Some(space) => SpaceName::parse(&space).map_err(|error| Failure::usage("space_invalid", error))?,
            None => SpaceName::main(),
        };
        let thread = flags
            .thread
            .clone()
            .map_or_else(|| around.text("FOLIO_THREAD"), |thread| Ok(Some(thread)))?;
        let thread = thread
            .or(from_file.thread)
            .unwrap_or_else(|| default_thread(&around.current));
        if thread.is_empty() {
            return Err(Failure::usage("thread_invalid", "the name of a thread is empty"));
        }
        let turn = match flags.turn {
            Some(turn) => Some(turn),
            None => around
                .text("FOLIO_TURN")?
                .map(|turn| {
                    turn_ref(&turn).map_err(|error| {
                        Failure::usage("turn_invalid", format!("FOLIO_TURN, which is {turn:?}, is {error}"))
                    })
                })
                .transpose()?,
        };
        let no_color = around.text("NO_COLOR")?.is_some_and(|value| !value.is_empty());
        let color = flags
            .color
            .or(no_color.then_some(Color::Never))
            .or(from_file.color)
            .unwrap_or_default();
        let user = [
            around.text("FOLIO_USER")?,
            around.text("USER")?,
            around.text("LOGNAME")?,
        ];
        let for_tools = |name: &&str| Some(((*name).to_owned(), (around.variable)(name)?.into_string().ok()?));
        let tool_environment: Vec<(String, String)> = FOR_TOOLS.iter().filter_map(for_tools).collect();
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
            telemetry,
            agents: agents.collect(),
            lost_calls: from_file.lost_calls,
            current: around.current.clone(),
            run_folders: around.run_folders(&store),
            data: around.folders.as_ref().map(|(data, _)| data.join("folio")),
            tool_environment,
            repeated: repeated(flags),
            store,
            space,
            thread: ThreadKey(thread),
            turn,
            turn_flag: flags.turn,
            names_thread: flags.thread.is_some(),
            role: role.unwrap_or(Role::Human),
            names_role: role.is_some(),
            model: around.text("FOLIO_MODEL")?.or(from_file.model),
            models: beside(from_file.models.unwrap_or_default(), file.as_deref()),
            keys: ModelKeys {
                anthropic: around.text("ANTHROPIC_API_KEY")?.map(kept_out),
                openai: around.text("OPENAI_API_KEY")?.map(kept_out),
                gemini: around.text("GEMINI_API_KEY")?.map(kept_out),
                own: None,
            },
            editor: around.text("VISUAL")?.or(around.text("EDITOR")?),
            color,
            user: user.into_iter().flatten().next().unwrap_or_default(),
            file,
        })
    }

    /// What has to follow another command so that it means the same store and space; empty, or begins with a space.
    pub(crate) fn repeated(&self) -> &str {
        &self.repeated
    }

    /// Whether what is kept there outlives this process.
    pub(crate) fn keeps(&self) -> bool {
        !self.store.starts_with("memory:")
    }

    /// Says what is used, if somebody asked for it.
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

/// A secret that nothing writes down from now on, wherever it comes up: a tool that prints its environment, a model that repeats it.
pub(crate) fn kept_out(value: impl Into<String>) -> Secret {
    let secret = Secret::new(value);
    keep_out(secret.reveal());
    secret
}

impl Surroundings<'_> {
    /// A variable; one that is set to nothing counts as not set.
    fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        match (self.variable)(name) {
            Some(value) if value.is_empty() => Ok(None),
            Some(value) => value
                .into_string()
                .map(Some)
                .map_err(|_| Failure::usage("environment_invalid", format!("{name} is not valid UTF-8"))),
            None => Ok(None),
        }
    }

    /// The whole environment of a program: what all have, and the variables that are its `own`, as far as they are set.
    fn environment(&self, for_all: &[(String, String)], own: &[String]) -> Vec<(String, String)> {
        let own = own.iter();
        let own = own.filter_map(|name| Some((name.clone(), (self.variable)(name)?.into_string().ok()?)));
        for_all.iter().cloned().chain(own).collect()
    }

    /// What the variable holds that others must not read; nothing if it is blank.
    fn secret(&self, variable: &str) -> Option<Secret> {
        let value = (self.variable)(variable)?.into_string().ok()?;
        (!value.trim().is_empty()).then(|| kept_out(value))
    }

    /// Who does tasks by themselves, with what the environment has for them. Paths in a settings file are beside it.
    fn agent(&self, mut settings: AgentSettings, for_tools: &[(String, String)], file: Option<&Path>) -> AgentToAsk {
        let beside = file.and_then(Path::parent).unwrap_or(&self.current);
        settings.token_file = settings.token_file.map(|path| beside.join(path));
        let environment = self.environment(for_tools, &settings.environment);
        let token = settings.token.as_ref();
        let found = token.and_then(|variable| self.secret(variable));
        let unusable = token.filter(|_| found.is_none()).map(|variable| not_set(variable));
        AgentToAsk {
            token: found,
            environment,
            unusable,
            settings,
        }
    }

    /// An MCP server with what the environment has for it. Paths in a settings file are beside it.
    fn server(
        &self,
        name: String,
        mut settings: McpSettings,
        for_tools: &[(String, String)],
        file: Option<&Path>,
    ) -> ToStart {
        let beside = file.and_then(Path::parent).unwrap_or(&self.current);
        settings.token_file = settings.token_file.map(|path| beside.join(path));
        let folder = settings
            .folder
            .as_ref()
            .map_or_else(|| self.current.clone(), |path| beside.join(path));
        let environment = self.environment(for_tools, &settings.environment);
        let mut unusable = None;
        let mut secret = |variable: &String| {
            let secret = self.secret(variable);
            if secret.is_none() {
                unusable = Some(not_set(variable));
            }
            secret.unwrap_or_default()
        };
        let token = settings.token.as_ref().map(&mut secret);
        let headers = settings.headers.iter();
        let headers = headers
            .map(|(header, variable)| (header.clone(), secret(variable)))
            .collect();
        let client_secret = settings.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
        let client_secret = client_secret.map(secret);
        let login = match &settings.oauth {
            None => None,
            Some(oauth) => {
                let named = oauth.tokens.as_ref().map(|path| beside.join(path));
                let tokens = named.or_else(|| {
                    Some(
                        self.folders
                            .as_ref()?
                            .0
                            .join("folio/logins")
                            .join(format!("{name}.json")),
                    )
                });
                if tokens.is_none() {
                    unusable = Some(
                        "the user has no home folder, so there is no place for its tokens; name one as `tokens`"
                            .to_owned(),
                    );
                }
                tokens.map(|tokens| LoginAt { tokens, client_secret })
            }
        };
        ToStart {
            name,
            environment,
            folder,
            headers,
            token,
            login,
            unusable,
            settings,
        }
    }

    /// Where spans go: as the variables of OpenTelemetry say, else as the file does.
    fn telemetry(&self, section: TelemetrySection) -> Result<Option<TelemetryOptions>, Failure> {
        for (name, off) in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
            if self.text(name)?.is_some_and(|text| text.eq_ignore_ascii_case(off)) {
                return Ok(None);
            }
        }
        let whole = self.text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")?;
        let base = self.text("OTEL_EXPORTER_OTLP_ENDPOINT")?;
        let named = match (whole, base) {
            (Some(address), _) => Some(TelemetryOptions::at(&address).of_environment()),
            (None, Some(endpoint)) => Some(TelemetryOptions::to(&endpoint).of_environment()),
            (None, None) => section.endpoint.as_deref().map(TelemetryOptions::to),
        };
        let Some(mut options) = named else {
            return Ok(None);
        };
        for name in ["OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"] {
            // OpenTelemetry has what cannot be read count as not said.
            let ms = self.text(name)?.and_then(|text| text.trim().parse().ok());
            if let Some(ms) = ms.filter(|ms| *ms > 0) {
                options.within = Duration::from_millis(ms);
            }
        }
        Ok(Some(options))
    }

    /// Beside the file of the store, or in the data folder.
    fn run_folders(&self, store: &str) -> Option<PathBuf> {
        let file = store
            .strip_prefix("sqlite:")
            .map(|path| path.strip_prefix("//").unwrap_or(path));
        let folder = match file {
            Some(file) => std::path::absolute(self.current.join(file)).ok()?.parent()?.to_owned(),
            None => self.folders.as_ref()?.0.join("folio"),
        };
        Some(folder.join("runs"))
    }

    fn default_store(&self) -> Result<String, Failure> {
        let Some((data, _)) = &self.folders else {
            return Err(Failure::usage(
                "no_home",
                "the user has no home folder, so there is no place to keep memory",
            )
            .hint("name one with --store sqlite:PATH or FOLIO_STORE"));
        };
        let path = data.join("folio").join("folio.db");
        path.to_str().map(|path| format!("sqlite:{path}")).ok_or_else(|| {
            Failure::usage(
                "no_home",
                format!("the data folder {} has a name that is not valid UTF-8", data.display()),
            )
            .hint("name another place with --store sqlite:PATH")
        })
    }
}

/// The role that was asked for.
fn role(flags: &Global, around: &Surroundings<'_>) -> Result<Option<Role>, Failure> {
    let asked = match &flags.role {
        Some(role) => Some(role.clone()),
        None => around.text("FOLIO_ROLE")?,
    };
    let Some(asked) = asked else {
        return Ok(None);
    };
    let role = Role::parse(&asked).ok_or_else(|| {
        let roles: Vec<_> = Role::ALL.into_iter().map(Role::as_str).collect();
        Failure::usage("role_invalid", format!("{asked:?} is not a role")).hint(format!("one of {}", roles.join(", ")))
    })?;
    Ok(Some(role))
}

fn repeated(flags: &Global) -> String {
    // Any other URL may hold a password, and this is shown.
    let store = flags.store.as_ref().filter(|store| store.starts_with("sqlite:"));
    let given = [("--store", store), ("--space", flags.space.as_ref())];
    let given = given.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
    given
        .map(|(flag, value)| {
            if value.contains(' ') {
                format!(" {flag} '{value}'")
            } else {
                format!(" {flag} {value}")
            }
        })
        .collect()
}

/// The file that was asked for, or the first that is there: in this folder, in the configuration folder.
fn read_file(asked: Option<&Path>, around: &Surroundings<'_>) -> Result<(Option<PathBuf>, FromFile), Failure> {
    let asked = match asked {
        Some(path) => Some(path.to_owned()),
        None => around.text("FOLIO_CONFIG")?.map(PathBuf::from),
    };
    let candidates = match &asked {
        Some(path) => vec![path.clone()],
        None => {
            let configured = around
                .folders
                .iter()
                .map(|(_, config)| config.join("folio").join(FILE_NAME));
            std::iter::once(around.current.join(FILE_NAME))
                .chain(configured)
                .collect()
        }
    };
    for path in candidates {
        let text = match read_text(&path, asked.is_some()) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && asked.is_none() => continue,
            Err(error) => return Err(Failure::file("read the settings in", &path, &error)),
        };
        let settings = toml::from_str(&text).map_err(|error| {
            let place = error
                .span()
                .map_or_else(String::new, |span| place_of(&text, span.start));
            Failure::usage(
                "settings_invalid",
                format!("{}{place}: {}", path.display(), error.message()),
            )
            .hint("a settings file may name store, space, thread, model, models, agents, mcp, telemetry, lost_calls and color")
        })?;
        return Ok((Some(path), settings));
    }
    Ok((None, FromFile::default()))
}

/// What a file says of agents is looked at whoever is asked: what is wrong there is a mistake of the file.
fn check_agents(agents: &AgentsSection, file: Option<&Path>) -> Result<(), Failure> {
    let wrong = agents
        .iter()
        .find_map(|(name, settings)| Some((name, settings.problem()?)));
    let Some((name, problem)) = wrong else { return Ok(()) };
    let file = file.map_or_else(|| FILE_NAME.into(), |file| file.display().to_string());
    let words = format!("{file}: [agents.{name}] cannot be used: {problem}");
    Err(Failure::usage("agent_unusable", words)
        .hint("an agent is a program with `command`, another machine with `form = \"a2a\"` and `url`, or a tool with `form = \"tool\"`"))
}

/// What the file at `path` says. What was found and is no file is not opened: from a pipe that nobody writes to, nothing ever comes. Whoever
/// names one knows what comes out of it (`--config <(…)`).
fn read_text(path: &Path, is_asked: bool) -> std::io::Result<String> {
    if !is_asked && !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is no file"));
    }
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    if file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!(
            "it has more than {MAX_FILE_BYTES} bytes"
        )));
    }
    Ok(text)
}

fn not_set(variable: &str) -> String {
    format!("the variable {variable}, which it needs, is not set")
}

/// `:line:column` of a byte of `text`.
fn place_of(text: &str, byte: usize) -> String {
    let before = &text[..text.floor_char_boundary(byte)];
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!(":{}:{column}", before.matches('\n').count() + 1)
}

/// A path in a settings file means a place beside that file.
fn beside_file(store: &str, file: Option<&Path>) -> String {
    let folder = file.and_then(Path::parent);
    match (store.strip_prefix("sqlite:"), folder) {
        (Some(path), Some(folder)) if !path.starts_with('/') => format!("sqlite:{}", folder.join(path).display()),
        _ => store.to_owned(),
    }
}

/// The files that the section of models names, beside the file that it stands in.
fn beside(mut section: ModelsSection, file: Option<&Path>) -> ModelsSection {
    let Some(folder) = file.and_then(Path::parent) else {
        return section;
    };
    let of_each = [
        &mut section.default,
        &mut section.planner,
        &mut section.executor,
        &mut section.judge,
        &mut section.compactor,
    ];
    for model in of_each.into_iter().flatten().chain(section.executors.values_mut()) {
        let mut next = Some(model);
        while let Some(model) = next {
            model.key_file = model.key_file.take().map(|path| folder.join(path));
            next = model.fallback.as_deref_mut();
        }
    }
    section.prices = section.prices.map(|path| folder.join(path));
    section
}

/// The worktree that `folder` is in, not the repository: two worktrees are two pieces of work.
fn default_thread(folder: &Path) -> String {
    let worktree = folder.ancestors().find(|folder| folder.join(".git").exists());
    worktree.map_or_else(|| ThreadKey::main().0, |folder| folder.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(flags: &Global, variables: &[(&str, &str)], current: &Path) -> Result<Settings, Failure> {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        let folders = Some((PathBuf::from("/data"), PathBuf::from("/nowhere")));
        resolve_around(
            flags,
            &Surroundings {
                variable: &variable,
                folders,
                current: current.to_owned(),
            },
        )
    }

    fn resolve_around(flags: &Global, around: &Surroundings<'_>) -> Result<Settings, Failure> {
        Settings::resolve_in(flags, around)
    }

    fn folder_with(settings: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE_NAME), settings).unwrap();
        folder
    }

    #[test]
    fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
        let with_file = folder_with("space = \"file\"");
        let without = tempfile::tempdir().unwrap();
        let flags = Global {
            space: Some("flag".to_owned()),
            ..Global::default()
        };
        let (none, variable) = (Global::default(), [("FOLIO_SPACE", "environment")]);
        let space = |flags: &Global, variables: &[(&str, &str)], folder: &tempfile::TempDir| {
            resolve(flags, variables, folder.path()).unwrap().space.to_string()
        };
        assert_eq!(space(&flags, &variable, &with_file), "flag");
        assert_eq!(space(&none, &variable, &with_file), "environment");
        assert_eq!(space(&none, &[("FOLIO_SPACE", "")], &with_file), "file");
        assert_eq!(space(&none, &[], &without), "main");
    }

    #[test]
    fn the_default_store_is_a_file_in_the_data_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            resolve(&Global::default(), &[], folder.path()).unwrap().store,
            "sqlite:/data/folio/folio.db"
        );
    }

    #[test]
    fn what_waits_for_a_database_waits_in_the_data_folder_m7_3_26() {
        let folder = tempfile::tempdir().unwrap();
        let settings = resolve(&Global::default(), &[], folder.path()).unwrap();
        let of = |location| settings.outbox_for(location).map(|file| file.display().to_string());
        let one = of("postgres://db.example:5432/memory").unwrap();
        assert!(
            one.starts_with("/data/folio/") && one.ends_with("-outbox.jsonl"),
            "{one}"
        );
        assert!(!one.contains("db.example"), "{one}");
        assert_ne!(of("postgres://db.example:5432/other"), Some(one));
        assert_eq!((of("/data/folio/folio.db"), of("memory:")), (None, None));
    }

    #[test]
    fn a_path_in_a_file_is_beside_that_file() {
        let folder = folder_with("store = \"sqlite:notes/f.db\"");
        let store = resolve(&Global::default(), &[], folder.path()).unwrap().store;
        assert_eq!(store, format!("sqlite:{}", folder.path().join("notes/f.db").display()));
    }

    #[test]
    fn files_with_keys_are_beside_that_file_whoever_they_are_for() {
        let folder = folder_with(
            "[models.executors.mender]\nmodel = \"openai:m\"\nkey_file = \"a\"\n\
             fallback = { model = \"openai:n\", key_file = \"b\" }\n\
             [agents.far]\nform = \"a2a\"\nurl = \"https://x\"\ntoken_file = \"c\"\n",
        );
        let settings = resolve(&Global::default(), &[], folder.path()).unwrap();
        let mender = &settings.models.executors["mender"];
        let fallback = mender.fallback.as_ref().unwrap();
        let far = &settings.agents["far"].settings;
        for (file, name) in [
            (&mender.key_file, "a"),
            (&fallback.key_file, "b"),
            (&far.token_file, "c"),
        ] {
            assert_eq!(file.as_deref(), Some(&*folder.path().join(name)));
        }
    }

    #[test]
    fn an_agent_whose_token_is_not_set_cannot_be_asked() {
        let folder = folder_with("[agents.far]\nform = \"a2a\"\nurl = \"https://x\"\ntoken = \"FAR\"\n");
        let of = |variables: &[(&str, &str)]| {
            let far = resolve(&Global::default(), variables, folder.path()).unwrap().agents["far"].clone();
            (far.token.map(|token| token.reveal().to_owned()), far.unusable)
        };
        assert_eq!(of(&[("FAR", " t\n")]), (Some("t".to_owned()), None));
        let (token, why) = of(&[("FAR", " ")]);
        assert!(token.is_none() && why.unwrap().contains("FAR"));
    }

    #[test]
    fn what_is_wrong_with_an_agent_is_said_with_its_file_and_its_table_whoever_is_asked() {
        let folder = folder_with("[agents.fine]\ncommand = [\"a\"]\n[agents.empty]\n");
        let error = resolve(&Global::default(), &[], folder.path()).unwrap_err();
        let words = error.to_string();
        for part in ["folio.toml", "[agents.empty]", "`command`"] {
            assert!(words.contains(part), "{part}: {words}");
        }
        assert_eq!(error.problem()["code"], "agent_unusable", "{}", error.problem());
    }

    #[test]
    fn a_mistake_in_a_file_is_named_with_its_place() {
        let folder = folder_with("space = \"x\"\n  colour = \"auto\"\n");
        let error = resolve(&Global::default(), &[], folder.path()).unwrap_err().to_string();
        assert!(error.contains("folio.toml:2:3") && error.contains("colour"), "{error}");
    }

    #[test]
    fn a_collector_is_told_within_the_time_that_the_environment_says() {
        let folder = folder_with("[telemetry]\nendpoint = \"http://h\"\n");
        let (all, traces, endpoint) = (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e"),
        );
        for (variables, ms) in [
            (vec![], 10_000),
            (vec![(all, "1500")], 1_500),
            (vec![(all, "1500"), (traces, "200"), endpoint], 200),
            (vec![(all, "soon"), (traces, "0"), endpoint], 10_000),
        ] {
            let telemetry = resolve(&Global::default(), &variables, folder.path())
                .unwrap()
                .telemetry;
            assert_eq!(telemetry.unwrap().within, Duration::from_millis(ms), "{variables:?}");
        }
    }

    #[test]
    fn two_worktrees_are_two_threads_m7_4_38() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("tree/src");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(folder.path().join("tree/.git"), "gitdir: elsewhere").unwrap();
        let thread = |folder: &Path| resolve(&Global::default(), &[], folder).unwrap().thread.0;
        assert_eq!(thread(&inner), folder.path().join("tree").to_string_lossy());
    }

    #[test]
    fn no_color_is_obeyed_unless_a_flag_says_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let color = |flag| {
            let flags = Global {
                color: flag,
                ..Global::default()
            };
            resolve(&flags, &[("NO_COLOR", "1")], folder.path()).unwrap().color
        };
        assert_eq!(color(None), Color::Never);
        assert_eq!(color(Some(Color::Always)), Color::Always);
    }
}
