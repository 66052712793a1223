//! Opens the models that flags and settings name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use folio::Workspace;
use folio::engine::plan::HUMAN;
use folio::memory::wrong_field::in_plain_words;
use folio::model::{
    self, AddressError, AgentToAsk, Model, ModelAddress, ModelOptions, ModelSettings, ModelsSection, OpenError, Prices,
    Provider, Role, Secret,
};
use folio::runner::{ADVISOR_TIME, ModelAdvisor, RunnerExecutor, RunnerModel, RunnerModels};

use crate::commands::text_of;
use crate::error::{Exit, Failure};
use crate::settings::{Settings, place_of, redacted_secret};

/// The largest file that holds a key, in bytes.
const KEY_BYTES_MAX: u64 = 64 * 1024;

/// The models of this call, or `None` if none was named: `flag` for every role, otherwise those of the settings.
///
/// # Errors
///
/// `model_unknown` if a text does not name a model, `model_key_missing`, `script_unusable`, `prices_invalid`,
/// `model_unusable`.
pub(crate) fn open(flag: Option<&str>, settings: &Settings) -> Result<Option<RunnerModels>, Failure> {
    let section = match flag {
        Some(name) => ModelsSection {
            default: Some(ModelSettings::of(address(name)?)),
            prices: settings.models.prices.clone(),
            proxy: settings.models.proxy.clone(),
            executors: settings.models.executors.clone(),
            human: settings.models.human.clone(),
            ..ModelsSection::default()
        },
        None => {
            let mut section = settings.models.clone();
            if let Some(model) = &settings.model {
                let address = address(&model.text).map_err(|failure| model.refused(failure))?;
                section.default = Some(ModelSettings::of(address));
            }
            section
        }
    };
    let Some(executor) = section.of(Role::Executor) else {
        return Ok(None);
    };
    let mut opener = Opener::new(&section, settings)?;
    let mut open = |chosen: &ModelSettings| opener.open_for_runs(chosen);
    let mut models = RunnerModels::one(open(executor)?);
    // Roles that have the same model share it, and its limits.
    if let Some(planner) = section.of(Role::Planner).filter(|own| *own != executor) {
        models.planner = open(planner)?;
    }
    if let Some(judge) = section.of(Role::Judge).filter(|own| *own != executor) {
        models.judge = open(judge)?;
    }
    // Summaries and advice cost nothing unless the settings ask for them.
    if let Some(compactor) = &section.compactor {
        models.compactor = Some(open(compactor)?);
    }
    if let Some(advisor) = &section.advisor {
        models.advisor = Some(open(advisor)?);
    }
    models.human.clone_from(&section.human);
    for (name, chosen) in &section.executors {
        if name == HUMAN {
            return Err(Failure::usage("model_unknown", "only people can be the executor `human`")
                .hint("rename [models.executors.human]; set what people may be asked to do with `human = \"…\"` in [models]"));
        }
        let executor = RunnerExecutor {
            model: open(chosen)?,
            about: chosen.about.clone().unwrap_or_default(),
        };
        models.executors.insert(name.clone(), executor);
    }
    Ok(Some(models))
}

/// The model that writes summaries: the one that `flag` names, or the `compactor` of the settings; `None` if there is
/// neither.
///
/// # Errors
///
/// See [`open`].
pub(crate) fn compactor(flag: Option<&str>, settings: &Settings) -> Result<Option<RunnerModel>, Failure> {
    let model = flag.map(address).transpose()?.map(ModelSettings::of);
    open_beside_runs(model.as_ref().or(settings.models.compactor.as_ref()), settings)
}

/// `workspace` with the `advisor` of the settings, if they name one, to be asked in its turns.
///
/// # Errors
///
/// See [`open`].
pub(crate) fn with_advisor(workspace: &Workspace, settings: &Settings) -> Result<Workspace, Failure> {
    let model = open_beside_runs(settings.models.advisor.as_ref(), settings)?;
    Ok(match model {
        Some(model) => workspace.with_advisor(Arc::new(ModelAdvisor::new(model)), ADVISOR_TIME),
        None => workspace.clone(),
    })
}

/// Opens a model that is used outside of runs.
fn open_beside_runs(chosen: Option<&ModelSettings>, settings: &Settings) -> Result<Option<RunnerModel>, Failure> {
    let Some(chosen) = chosen else { return Ok(None) };
    Opener::new(&settings.models, settings)?.open_for_runs(chosen).map(Some)
}

fn address(name: &str) -> Result<ModelAddress, Failure> {
    name.parse()
        .map_err(|error: AddressError| Failure::usage("model_unknown", error.to_string()))
}

/// Opens models.
struct Opener<'s> {
    settings: &'s Settings,
    prices: Prices,
    proxy: Option<String>,
    /// Scripts by their names. Roles share a script: what it answered for one role is used up for the others.
    scripts: BTreeMap<String, Arc<dyn Model>>,
}

impl<'s> Opener<'s> {
    fn new(section: &ModelsSection, settings: &'s Settings) -> Result<Self, Failure> {
        Ok(Self {
            settings,
            prices: prices(section.prices.as_deref())?,
            proxy: section.proxy.clone(),
            scripts: BTreeMap::new(),
        })
    }

    fn open_for_runs(&mut self, chosen: &ModelSettings) -> Result<RunnerModel, Failure> {
        let name = chosen.model.to_string();
        let client = match self.scripts.get(&name) {
            Some(script) => Arc::clone(script),
            None => self.open_model(chosen)?,
        };
        if chosen.model.provider == Provider::Scripted {
            self.scripts.insert(name.clone(), Arc::clone(&client));
        }
        let patience = Duration::from_secs(chosen.patience.whole_s.into());
        // The model itself enforces shorter limits, and says which one it was.
        let patience = patience.max(RunnerModel::ANSWER_TIME);
        let mut model = RunnerModel::new(name, client).answers_within(patience);
        if let Some(tokens) = chosen.window {
            model = model.with_window(tokens);
        }
        if let Some(tokens) = chosen.answer_tokens {
            model = model.with_answer_tokens(tokens);
        }
        if let Some(price) = self.prices.price(&chosen.model) {
            model = model.at_price(price);
        }
        if let Some(calls) = chosen.at_a_time {
            model = model.own_at_a_time(calls as usize);
        }
        if let Some(next) = &chosen.fallback {
            let is_agent = |model: &ModelSettings| model.model.provider == Provider::Agent;
            if is_agent(chosen) || is_agent(next) {
                return Err(Failure::usage(
                    "model_unusable",
                    format!(
                        "{} cannot have the fallback {}: only models stand in for each other",
                        chosen.model, next.model
                    ),
                ));
            }
            model = model.or(self.open_for_runs(next)?);
        }
        Ok(model)
    }

    fn open_model(&self, chosen: &ModelSettings) -> Result<Arc<dyn Model>, Failure> {
        let key = chosen.key_file.as_deref().map(key_in).transpose()?;
        let options = ModelOptions {
            agent: agent(&chosen.model, self.settings)?,
            ..chosen.options(self.settings.keys.clone(), key, self.proxy.clone())
        };
        model::open(&chosen.model, &options).map_err(|error| refused(&error))
    }
}

/// The agent that `address` names, with its token; `None` if it names a model.
fn agent(address: &ModelAddress, settings: &Settings) -> Result<Option<AgentToAsk>, Failure> {
    let configured = settings.agents.get(&address.name);
    let Some(mut agent) = configured.filter(|_| address.provider == Provider::Agent).cloned() else {
        return Ok(None);
    };
    if let Some(file) = &agent.settings.token_file {
        agent.token = Some(key_in(file)?);
    }
    Ok(Some(agent))
}

fn key_in(file: &Path) -> Result<Secret, Failure> {
    let length = std::fs::metadata(file)
        .map_err(|error| Failure::file("read the key in", file, &error))?
        .len();
    if length > KEY_BYTES_MAX {
        return Err(Failure::usage(
            "model_unusable",
            format!("{} has {length} bytes, too many for a key", file.display()),
        ));
    }
    let text = std::fs::read_to_string(file).map_err(|error| Failure::file("read the key in", file, &error))?;
    Ok(redacted_secret(text))
}

fn prices(file: Option<&Path>) -> Result<Prices, Failure> {
    let built_in = Prices::built_in();
    let Some(file) = file else { return Ok(built_in) };
    let text = text_of("read the prices in", file)?;
    let own = Prices::parse(&text).map_err(|error| {
        let position = error.at.map_or_else(String::new, |at| place_of(&text, at));
        let problem = in_plain_words(&error.to_string(), "a table");
        Failure::usage("prices_invalid", format!("{}{position}: {problem}", file.display()))
    })?;
    Ok(built_in.overridden_by(own))
}

fn refused(error: &OpenError) -> Failure {
    let exit = match error {
        OpenError::Script(script) if script.is_missing() => Exit::NotFound,
        OpenError::Unusable { .. } => Exit::Unavailable,
        _ => Exit::Usage,
    };
    Failure::new(exit, error.code(), error.to_string()).caused_by(error)
}
