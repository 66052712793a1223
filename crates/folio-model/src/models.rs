//! The settings that say which model has which role.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::address::{ModelAddress, Provider};
use crate::model::Role;
use crate::open::ModelOptions;
use crate::provider::{Patience, SchemaForm};
use crate::secret::{ModelKeys, Secret};

/// The smallest window: with less, no task fits beside the rules.
const WINDOW_MIN: u32 = 2_048;
/// The fewest tokens of an answer: with less, no result fits.
const ANSWER_TOKENS_MIN: u32 = 256;

/// The section `[models]` of `folio.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelsSection {
    /// The model for every role without its own.
    pub default: Option<ModelSettings>,
    /// Makes plans.
    pub planner: Option<ModelSettings>,
    /// Does tasks.
    pub executor: Option<ModelSettings>,
    /// Judges results.
    pub judge: Option<ModelSettings>,
    /// Writes summaries.
    pub compactor: Option<ModelSettings>,
    /// Looks at turns, before the work and after it.
    pub advisor: Option<ModelSettings>,
    /// Further executors, by the name that a task gives as its `executor`.
    #[serde(default)]
    pub executors: BTreeMap<String, ModelSettings>,
    /// What people may be asked to do by planners (executor `human`), in one line; without it, planners do not offer
    /// them tasks.
    pub human: Option<String>,
    /// How many calls of all models may be under way at once; at least 1.
    #[serde(default, deserialize_with = "at_least_one")]
    pub at_a_time: Option<u32>,
    /// A file with custom prices.
    pub prices: Option<PathBuf>,
    /// The proxy that requests go through.
    pub proxy: Option<String>,
}

impl ModelsSection {
    /// The settings of the model for `role`: its own, or the default.
    #[must_use]
    pub fn of(&self, role: Role) -> Option<&ModelSettings> {
        self.own_model(role).or_else(|| self.fallback_model())
    }

    fn own_model(&self, role: Role) -> Option<&ModelSettings> {
        match role {
            Role::Planner => self.planner.as_ref(),
            Role::Executor => self.executor.as_ref(),
            Role::Judge => self.judge.as_ref(),
            Role::Compactor => self.compactor.as_ref(),
            Role::Advisor => self.advisor.as_ref(),
        }
    }

    /// The model of roles without their own: the default, else that of the executor, else the first one that is set.
    fn fallback_model(&self) -> Option<&ModelSettings> {
        let first = || Role::ALL.into_iter().find_map(|role| self.own_model(role));
        self.default.as_ref().or(self.executor.as_ref()).or_else(first)
    }
}

/// The settings of one model: its address alone, or a table with more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSettings {
    /// The address of the model.
    pub model: ModelAddress,
    /// How it is made to follow a JSON schema.
    pub schema: SchemaForm,
    /// A file that holds the key for it, and nothing else. Whoever opens the model reads it.
    pub key_file: Option<PathBuf>,
    /// How long an answer may take.
    pub patience: Patience,
    /// The model that is asked if this one does not help.
    pub fallback: Option<Box<Self>>,
    /// How many calls of this model may be under way at once.
    pub at_a_time: Option<u32>,
    /// The most tokens of a request and its answer together.
    pub window: Option<u32>,
    /// The most tokens of one answer.
    pub answer_tokens: Option<u32>,
    /// What it is good for, in one line for the planner; for those under `executors`.
    pub about: Option<String>,
}

impl ModelSettings {
    /// The model at the address `model`, with the defaults otherwise.
    #[must_use]
    pub fn of(model: ModelAddress) -> Self {
        Self {
            model,
            schema: SchemaForm::default(),
            key_file: None,
            patience: Patience::default(),
            fallback: None,
            at_a_time: None,
            window: None,
            answer_tokens: None,
            about: None,
        }
    }

    /// The options to open the model with: `key`, if its file holds one, and otherwise `keys`.
    #[must_use]
    pub fn options(&self, mut keys: ModelKeys, key: Option<Secret>, proxy: Option<String>) -> ModelOptions {
        if key.is_some() {
            let slot = match (&self.model.base_url, self.model.provider) {
                (Some(_), _) | (None, Provider::Ollama | Provider::Scripted | Provider::Agent) => &mut keys.own,
                (None, Provider::Anthropic) => &mut keys.anthropic,
                (None, Provider::OpenAi | Provider::OpenAiResponses) => &mut keys.openai,
                (None, Provider::Gemini) => &mut keys.gemini,
            };
            *slot = key;
        }
        ModelOptions {
            keys,
            schema: self.schema,
            patience: self.patience,
            proxy,
            agent: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    model: String,
    #[serde(default)]
    schema: SchemaForm,
    key_file: Option<PathBuf>,
    #[serde(default)]
    patience: Patience,
    fallback: Option<Box<ModelSettings>>,
    #[serde(default, deserialize_with = "at_least_one")]
    at_a_time: Option<u32>,
    #[serde(default, deserialize_with = "window_tokens")]
    window: Option<u32>,
    #[serde(default, deserialize_with = "answer_tokens")]
    answer_tokens: Option<u32>,
    about: Option<String>,
}

impl Table {
    /// Why its numbers of tokens cannot be used together.
    fn mistake(&self) -> Option<String> {
        match (self.window, self.answer_tokens) {
            (Some(window), Some(answer)) if answer >= window => Some(format!(
                "answer_tokens must be less than window, {window}: a request and its answer share it"
            )),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for ModelSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AddressOrTable;

        impl<'de> Visitor<'de> for AddressOrTable {
            type Value = ModelSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the address of a model, or a table with `model`")
            }

            fn visit_str<E: serde::de::Error>(self, address: &str) -> Result<ModelSettings, E> {
                address.parse().map(ModelSettings::of).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ModelSettings, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                if let Some(mistake) = table.mistake() {
                    return Err(A::Error::custom(mistake));
                }
                Ok(ModelSettings {
                    model: table.model.parse().map_err(A::Error::custom)?,
                    schema: table.schema,
                    key_file: table.key_file,
                    patience: table.patience,
                    fallback: table.fallback,
                    at_a_time: table.at_a_time,
                    window: table.window,
                    answer_tokens: table.answer_tokens,
                    about: table.about,
                })
            }
        }

        deserializer.deserialize_any(AddressOrTable)
    }
}

fn window_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match Option::deserialize(deserializer)? {
        Some(tokens) if tokens < WINDOW_MIN => {
            let message = format!("window must be at least {WINDOW_MIN} tokens");
            Err(D::Error::custom(message))
        }
        tokens => Ok(tokens),
    }
}

fn answer_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match Option::deserialize(deserializer)? {
        Some(tokens) if tokens < ANSWER_TOKENS_MIN => {
            let message = format!("answer_tokens must be at least {ANSWER_TOKENS_MIN}");
            Err(D::Error::custom(message))
        }
        tokens => Ok(tokens),
    }
}

/// A number of calls: with 0 the model would never be asked.
fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match Option::deserialize(deserializer)? {
        Some(0) => Err(D::Error::custom("at_a_time must be at least 1")),
        calls => Ok(calls),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> ModelsSection {
        toml::from_str(text).unwrap()
    }

    /// Which model is asked in each role: planner, executor, judge, compactor, advisor.
    fn by_role(text: &str) -> [Option<String>; Role::ALL.len()] {
        let section = section(text);
        Role::ALL.map(|role| section.of(role).map(|settings| settings.model.name.clone()))
    }

    #[test]
    fn role_without_a_model_falls_back_to_default_or_executor() {
        for (text, asked) in [
            (
                "default = \"ollama:d\"\nplanner = \"openai:p\"",
                ["p", "d", "d", "d", "d"],
            ),
            (
                "judge = \"ollama:j\"\nexecutor = \"ollama:e\"",
                ["e", "e", "j", "e", "e"],
            ),
            ("judge = \"ollama:j\"", ["j", "j", "j", "j", "j"]),
        ] {
            assert_eq!(by_role(text), asked.map(|name| Some(name.to_owned())), "{text}");
        }
        assert_eq!(by_role(""), [const { None }; Role::ALL.len()]);
    }

    #[test]
    fn error_for_too_few_tokens_is_at_the_number() {
        for setting in ["window = 5", "answer_tokens = 5"] {
            let text = format!("[planner]\nmodel = \"openai:x\"\n{setting}\n");
            let error = toml::from_str::<ModelsSection>(&text).unwrap_err();
            let span = error.span().unwrap_or_default();
            assert_eq!(&text[span], "5", "{error}");
        }
    }

    #[test]
    fn model_table_parses_schema_key_file_and_patience() {
        let section = section(
            "[planner]\nmodel = \"openai+https://gateway/v1:x\"\nschema = \"prompt\"\nkey_file = \"k\"\npatience = { whole_s = 60 }",
        );
        let planner = section.planner.unwrap();
        assert_eq!((planner.schema, planner.patience.whole_s), (SchemaForm::Prompt, 60));
        assert_eq!(planner.patience.connect_s, Patience::default().connect_s);
        let options = planner.options(ModelKeys::default(), Some(Secret::new("s")), None);
        assert!(options.keys.own.is_some() && options.keys.openai.is_none());
        let official = ModelSettings::of("openai:x".parse().unwrap());
        let options = official.options(ModelKeys::default(), Some(Secret::new("s")), None);
        assert!(options.keys.openai.is_some());
    }

    #[test]
    fn models_section_parses_fallbacks_concurrency_and_named_executors() {
        let section = section(
            "at_a_time = 9\n[planner]\nmodel = \"openai:x\"\nat_a_time = 2\nfallback = { model = \"ollama:y\", fallback = \"ollama:z\" }\n\
             [executors.mender]\nmodel = \"agent:mend\"\nabout = \"mends clocks\"\n[executors]\nquick = \"ollama:q\"",
        );
        let planner = section.planner.unwrap();
        let next = planner.fallback.unwrap();
        assert_eq!((section.at_a_time, planner.at_a_time), (Some(9), Some(2)));
        for none in ["at_a_time = 0", "[planner]\nmodel = \"openai:x\"\nat_a_time = 0"] {
            let error = toml::from_str::<ModelsSection>(none).unwrap_err().to_string();
            assert!(error.contains("at_a_time must be at least 1"), "{error}");
        }
        assert_eq!(
            (next.model.name.as_str(), next.fallback.unwrap().model.name.as_str()),
            ("y", "z")
        );
        let executors: Vec<_> = section
            .executors
            .iter()
            .map(|(name, own)| (name.as_str(), own.about.as_deref()))
            .collect();
        assert_eq!(executors, [("mender", Some("mends clocks")), ("quick", None)]);
    }

    #[test]
    fn model_table_parses_its_numbers_of_tokens() {
        let section = section("[executor]\nmodel = \"ollama:x\"\nwindow = 4096\nanswer_tokens = 1024");
        let executor = section.executor.unwrap();
        assert_eq!((executor.window, executor.answer_tokens), (Some(4_096), Some(1_024)));
        let named = ModelSettings::of("ollama:x".parse().unwrap());
        assert_eq!((named.window, named.answer_tokens), (None, None));
    }

    #[test]
    fn invalid_models_section_error_names_the_mistake() {
        for (text, part) in [
            (
                "default = { model = \"ollama:x\", window = 100 }",
                "window must be at least 2048",
            ),
            (
                "default = { model = \"ollama:x\", answer_tokens = 0 }",
                "answer_tokens must be at least 256",
            ),
            (
                "default = { model = \"ollama:x\", window = 4096, answer_tokens = 4096 }",
                "answer_tokens must be less than window, 4096",
            ),
            ("default = \"gpt\"", "does not name a model"),
            ("default = 1", "the address of a model"),
            ("default = { modl = \"ollama:x\" }", "modl"),
            ("defualt = \"ollama:x\"", "defualt"),
        ] {
            let error = toml::from_str::<ModelsSection>(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
