//! The settings file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use folio::mcp::McpSection;
use folio::memory::wrong_field::in_plain_words;
use folio::model::{AgentsSection, ModelAddress, ModelsSection, Provider};
use folio::runner::LostCalls;
use folio::tools::HostList;
use serde::Deserialize;

use super::surroundings::Surroundings;
use super::trust::Unseen;
use crate::arguments::Color;
use crate::commands::opened_if_file;
use crate::error::Failure;

/// The name of the settings file.
pub(super) const FILE_NAME: &str = "folio.toml";
/// The largest settings file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The keys of [`FromFile`] that can only choose among what the user already has. The others can start programs, send
/// secrets somewhere, or have memory written elsewhere; in a file that came with a repository, they apply once
/// somebody has looked at it.
pub(super) const HARMLESS: [&str; 3] = ["space", "thread", "color"];

/// The settings of a file. A key that is missing is treated as if there were no file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FromFile {
    pub(super) store: Option<String>,
    pub(super) space: Option<String>,
    pub(super) thread: Option<String>,
    pub(super) model: Option<String>,
    pub(super) models: Option<ModelsSection>,
    pub(super) agents: Option<AgentsSection>,
    pub(super) mcp: Option<McpSection>,
    pub(super) http: Option<HttpSection>,
    pub(super) telemetry: Option<TelemetrySection>,
    #[serde(default)]
    pub(super) lost_calls: LostCalls,
    pub(super) color: Option<Color>,
}

/// `[http]` of a file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpSection {
    /// The hosts that the tool `http_get` may reach in every run that is submitted from here.
    #[serde(default)]
    pub(super) allow: HostList,
}

/// `[telemetry]` of a file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TelemetrySection {
    /// The address of a collector that speaks OTLP over HTTP.
    pub(super) endpoint: Option<String>,
}

/// What to do with a settings file that came with a repository and that nobody has looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Untrusted {
    /// The command is refused.
    Refused,
    /// The file is ignored, with a note.
    PassedOver,
    /// The file is ignored silently.
    Ignored,
}

/// The settings file in use, and its contents.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) file: Option<PathBuf>,
    pub(super) settings: FromFile,
    /// The file that was ignored because nobody has looked at it.
    pub(super) passed_over: Option<Unseen>,
}

/// Reads the requested file, or the first that exists: in this folder, in the configuration folder.
pub(super) fn read_file(
    asked: Option<&Path>,
    surroundings: &Surroundings<'_>,
    untrusted: Untrusted,
) -> Result<Read, Failure> {
    let by_variable = match asked {
        Some(_) => None,
        None => surroundings.text("FOLIO_CONFIG")?.map(PathBuf::from),
    };
    if let Some(path) = asked.or(by_variable.as_deref()) {
        let text = read_text(path, true).map_err(|error| {
            let failure = unreadable(path, &error);
            match &by_variable {
                Some(_) => failure.about("FOLIO_CONFIG"),
                None => failure,
            }
        })?;
        return Ok(Read {
            settings: parsed(&text, path)?,
            file: Some(path.to_owned()),
            passed_over: None,
        });
    }
    let own = surroundings.folders.iter().map(|(_, config)| config.join("folio"));
    let mut passed_over = None;
    for folder in std::iter::once(surroundings.current.clone()).chain(own) {
        let path = folder.join(FILE_NAME);
        let text = match read_text(&path, false) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(unreadable(&path, &error)),
        };
        let settings = match (parsed(&text, &path), untrusted) {
            // The command does not use the file, so its mistakes are not reported.
            (Err(_), Untrusted::Ignored) => continue,
            (settings, _) => settings,
        };
        if let Some(unseen) = Unseen::find_untrusted(&text, &folder, surroundings, settings.is_ok()) {
            match untrusted {
                // A mistake in the file is what its reader should see first.
                Untrusted::Refused => return Err(settings.err().unwrap_or_else(|| unseen.refused())),
                Untrusted::PassedOver | Untrusted::Ignored => {
                    passed_over = Some(unseen.with_mistake(settings.err()));
                    continue;
                }
            }
        }
        let settings = settings?;
        return Ok(Read {
            file: Some(path),
            settings,
            passed_over,
        });
    }
    Ok(Read {
        passed_over,
        ..Read::default()
    })
}

pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::file("read the settings in", path, error)
}

/// Parses `text`, the contents of the file at `path`.
pub(super) fn parsed(text: &str, path: &Path) -> Result<FromFile, Failure> {
    toml::from_str(text).map_err(|error| {
        let position = error.span().map_or_else(String::new, |span| place_of(text, span.start));
        Failure::usage(
            "settings_invalid",
            format!(
                "{}{position}: {}",
                path.display(),
                in_plain_words(error.message(), "a table")
            ),
        )
    })
}

/// Checks the agents of a file, whichever is used: a mistake there is a mistake in the file.
pub(super) fn check_agents(agents: &AgentsSection, file: Option<&Path>) -> Result<(), Failure> {
    let wrong = agents
        .iter()
        .find_map(|(name, settings)| Some((name, settings.problem()?)));
    let Some((name, problem)) = wrong else { return Ok(()) };
    let message = format!("{}: [agents.{name}] cannot be used: {problem}", name_of(file));
    Err(Failure::usage("agent_unusable", message)
        .hint("an agent needs `command` for a program, `form = \"a2a\"` and `url` for another machine, or `form = \"tool\"` for a tool"))
}

/// Reads the file at `path`. A file that the user named may also be a pipe (`--config <(…)`).
pub(super) fn read_text(path: &Path, is_asked: bool) -> std::io::Result<String> {
    let mut text = String::new();
    let file = match is_asked {
        true => std::fs::File::open(path)?,
        false => opened_if_file(path)?,
    };
    if file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!(
            "it has more than {MAX_FILE_BYTES} bytes"
        )));
    }
    Ok(text)
}

/// The name of the settings file for messages.
pub(super) fn name_of(file: Option<&Path>) -> String {
    file.map_or_else(|| FILE_NAME.into(), |file| file.display().to_string())
}

/// `:line:column` of a byte of `text`.
pub(crate) fn place_of(text: &str, byte: usize) -> String {
    let before = &text[..text.floor_char_boundary(byte)];
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!(":{}:{column}", before.matches('\n').count() + 1)
}

/// Resolves a path in a settings file, which is relative to that file.
pub(super) fn beside_file(store: &str, file: Option<&Path>) -> String {
    let folder = file.and_then(Path::parent);
    // With slashes in front, it is the same path.
    let path = store
        .strip_prefix("sqlite:")
        .map(|path| path.strip_prefix("//").unwrap_or(path));
    // What begins with `~` is refused as it is written.
    let is_beside = |path: &str| !path.is_empty() && path != "~" && !path.starts_with("~/");
    match (path, folder) {
        (Some(path), Some(folder)) if is_beside(path) => format!("sqlite:{}", folder.join(path).display()),
        _ => store.to_owned(),
    }
}

/// The same for a model that a settings file names: scripts are files.
pub(super) fn model_beside_file(model: &str, file: Option<&Path>, current: &Path) -> String {
    match (model.parse::<ModelAddress>(), file.and_then(Path::parent)) {
        (Ok(mut address), Some(folder)) => {
            address_beside(&mut address, folder, current);
            address.to_string()
        }
        // A text that does not name a model is reported as it is written.
        _ => model.to_owned(),
    }
}

/// If the settings file is in the `current` folder, the name of a script is kept as written: the name is recorded in
/// journals.
fn address_beside(address: &mut ModelAddress, folder: &Path, current: &Path) {
    if address.provider == Provider::Scripted && folder != current {
        address.name = folder.join(&address.name).display().to_string();
    }
}

/// Resolves the files that the section of models names, relative to the settings file.
pub(super) fn models_beside_file(mut section: ModelsSection, file: Option<&Path>, current: &Path) -> ModelsSection {
    let Some(folder) = file.and_then(Path::parent) else {
        return section;
    };
    let models = [
        &mut section.default,
        &mut section.planner,
        &mut section.executor,
        &mut section.judge,
        &mut section.compactor,
        &mut section.advisor,
    ];
    for model in models.into_iter().flatten().chain(section.executors.values_mut()) {
        let mut next = Some(model);
        while let Some(model) = next {
            address_beside(&mut model.model, folder, current);
            model.key_file = model.key_file.take().map(|path| folder.join(path));
            next = model.fallback.as_deref_mut();
        }
    }
    section.prices = section.prices.map(|path| folder.join(path));
    section
}
