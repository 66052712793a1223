//! The environment of the program: its variables, the folders of the user, and the folder that it was called in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use folio::mcp::{LoginAt, McpSettings, ToStart};
use folio::model::{AgentSettings, AgentToAsk, ModelKeys, Secret};
use folio::store::{keep_out, keep_out_variable};
use folio_telemetry::TelemetryOptions;

use super::file::TelemetrySection;
use crate::error::Failure;

/// The environment of the program, passed in so that tests need not change it.
pub(super) struct Surroundings<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The folders for data and for configuration; `None` if the user has no home.
    pub(super) folders: Option<(PathBuf, PathBuf)>,
    pub(super) current: PathBuf,
}

/// A secret that is never written from now on, wherever it appears: a tool may print its environment, a model may
/// repeat it.
pub(crate) fn redacted_secret(value: impl Into<String>) -> Secret {
    let secret = Secret::new(value);
    keep_out(secret.reveal());
    secret
}

impl Surroundings<'_> {
    /// A variable; an empty one counts as not set.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        match (self.variable)(name) {
            Some(value) if value.is_empty() => Ok(None),
            Some(value) => value
                .into_string()
                .map(Some)
                .map_err(|_| Failure::usage("environment_invalid", format!("{name} is not valid UTF-8"))),
            None => Ok(None),
        }
    }

    /// The complete environment of a program: what all programs get, and the variables that are its `own`, if they are
    /// set. Secrets among those are never written, whatever the program prints.
    fn environment(&self, for_all: &[(String, String)], own: &[String]) -> Vec<(String, String)> {
        let own = own.iter();
        let own = own.filter_map(|name| Some((name.clone(), (self.variable)(name)?.into_string().ok()?)));
        let own = own.inspect(|(name, value)| {
            // The name of a file that holds a secret is not a secret.
            if !(value.starts_with('/') && Path::new(value).exists()) {
                keep_out_variable(name, value);
            }
        });
        for_all.iter().cloned().chain(own).collect()
    }

    /// The secret in a variable; `None` if it is blank.
    fn secret(&self, variable: &str) -> Option<Secret> {
        let value = (self.variable)(variable)?.into_string().ok()?;
        (!value.trim().is_empty()).then(|| redacted_secret(value))
    }

    /// The folder that a path in a settings file is relative to.
    fn base_folder<'p>(&'p self, file: Option<&'p Path>) -> &'p Path {
        file.and_then(Path::parent).unwrap_or(&self.current)
    }

    /// An agent with its part of the environment. Paths in a settings file are relative to it.
    pub(super) fn agent(
        &self,
        mut settings: AgentSettings,
        for_tools: &[(String, String)],
        file: Option<&Path>,
    ) -> AgentToAsk {
        let beside = self.base_folder(file);
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

    /// An MCP server with its part of the environment. Paths in a settings file are relative to it.
    pub(super) fn server(
        &self,
        name: String,
        mut settings: McpSettings,
        for_tools: &[(String, String)],
        file: Option<&Path>,
    ) -> ToStart {
        let beside = self.base_folder(file);
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
                let configured = oauth.tokens.as_ref().map(|path| beside.join(path));
                let tokens = configured.or_else(|| {
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

    /// Where spans are sent: as the variables of OpenTelemetry say, otherwise as the file does.
    pub(super) fn telemetry(&self, section: TelemetrySection) -> Result<Option<TelemetryOptions>, Failure> {
        for (name, off) in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
            if self.text(name)?.is_some_and(|text| text.eq_ignore_ascii_case(off)) {
                return Ok(None);
            }
        }
        let traces_endpoint = self.text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")?;
        let base = self.text("OTEL_EXPORTER_OTLP_ENDPOINT")?;
        let is_of_environment = traces_endpoint.is_some() || base.is_some();
        let configured = match (traces_endpoint, base) {
            (Some(address), _) => Some(TelemetryOptions::at(&address).of_environment()),
            (None, Some(endpoint)) => Some(TelemetryOptions::to(&endpoint).of_environment()),
            (None, None) => section.endpoint.as_deref().map(TelemetryOptions::to),
        };
        let Some(mut options) = configured else {
            return Ok(None);
        };
        for name in ["OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"] {
            let Some(text) = self.text(name)? else { continue };
            // OpenTelemetry specifies that an invalid value counts as not set.
            match text.trim().parse() {
                Ok(ms) if ms > 0 => options.within = Duration::from_millis(ms),
                _ => options
                    .unread
                    .push(format!("{name} is ignored: it is not a number of milliseconds")),
            }
        }
        if is_of_environment {
            options.unread.extend(self.unread_header()?);
        }
        Ok(Some(options))
    }

    /// The first header for a collector that is invalid, if any. Its value may be a key.
    fn unread_header(&self) -> Result<Option<String>, Failure> {
        for name in ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"] {
            let Some(text) = self.text(name)? else { continue };
            let is_header = |header: &str| header.split_once('=').is_some_and(|(name, _)| !name.trim().is_empty());
            let unread = text
                .split(',')
                .position(|header| !header.trim().is_empty() && !is_header(header));
            return Ok(unread.map(|at| {
                let number = at + 1;
                format!("header {number} of {name} is not sent: it is not written as NAME=VALUE")
            }));
        }
        Ok(None)
    }

    /// The keys of providers.
    pub(super) fn model_keys(&self) -> Result<ModelKeys, Failure> {
        let key = |variable| Ok::<_, Failure>(self.text(variable)?.map(redacted_secret));
        Ok(ModelKeys {
            anthropic: key("ANTHROPIC_API_KEY")?,
            openai: key("OPENAI_API_KEY")?,
            gemini: key("GEMINI_API_KEY")?,
            own: None,
        })
    }

    /// The folder for run folders: beside the file of the store, or in the data folder.
    pub(super) fn run_folders(&self, store: &str) -> Option<PathBuf> {
        let file = store
            .strip_prefix("sqlite:")
            .map(|path| path.strip_prefix("//").unwrap_or(path));
        let folder = match file {
            Some(file) => std::path::absolute(self.current.join(file)).ok()?.parent()?.to_owned(),
            None => self.folders.as_ref()?.0.join("folio"),
        };
        Some(folder.join("runs"))
    }

    pub(super) fn default_store(&self) -> Result<String, Failure> {
        let Some((data, _)) = &self.folders else {
            return Err(Failure::usage(
                "no_home",
                "the user has no home folder, so there is no place to keep memory",
            )
            .hint("name a store with --store sqlite:PATH or FOLIO_STORE"));
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

fn not_set(variable: &str) -> String {
    format!("the variable {variable}, which it needs, is not set")
}
