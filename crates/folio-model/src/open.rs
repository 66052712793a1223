//! Opens the model of an address.

use std::path::Path;
use std::sync::Arc;

use crate::address::{AddressError, ModelAddress, Provider};
use crate::agent::{AgentForm, AgentProgram, AgentToAsk, RemoteAgent, ToolAgent};
use crate::model::Model;
use crate::provider::{Patience, ProviderModel, SchemaForm};
use crate::scripted::{ScriptError, ScriptedModel};
use crate::secret::ModelKeys;

/// Options for asking a model.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// The keys of providers.
    pub keys: ModelKeys,
    /// How it is made to follow a JSON schema.
    pub schema: SchemaForm,
    /// How long an answer may take.
    pub patience: Patience,
    /// The proxy for requests, as `http://HOST:PORT`; if `None`, no proxy is used, whatever the environment says.
    pub proxy: Option<String>,
    /// For `agent:NAME`: the agent of that name.
    pub agent: Option<AgentToAsk>,
}

/// Why a model cannot be opened. Never contains a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The text is not the address of a model.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The script cannot be used.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The provider needs a key, and none is set.
    #[error("{model} needs a key and none is set; set {variable}, or name a file that holds it in folio.toml")]
    KeyMissing {
        /// The address of the model.
        model: String,
        /// The environment variable for the key.
        variable: &'static str,
    },
    /// The settings do not define the agent, or define it incorrectly.
    #[error("{model} cannot be asked: {reason}")]
    Agent {
        /// The address of the agent.
        model: String,
        /// Why it cannot be asked.
        reason: String,
    },
    /// No HTTP client can be created on this machine.
    #[error("{model} cannot be asked: {reason}")]
    Unusable {
        /// The address of the model.
        model: String,
        /// Why it cannot be asked.
        reason: String,
    },
}

impl OpenError {
    /// The stable name of this error, which every surface shows.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Address(_) => "model_unknown",
            Self::Script(_) => "script_unusable",
            Self::KeyMissing { .. } => "model_key_missing",
            Self::Agent { .. } => "agent_unusable",
            Self::Unusable { .. } => "model_unusable",
        }
    }
}

/// Opens the model at `address`. Nothing is sent before it is asked.
///
/// # Errors
///
/// If the script cannot be read, the provider needs a key and there is none, or no client can be created.
pub fn open(address: &ModelAddress, options: &ModelOptions) -> Result<Arc<dyn Model>, OpenError> {
    if address.provider == Provider::Agent {
        return agent(address, options);
    }
    let needed = match address.provider {
        Provider::Anthropic => Some((&options.keys.anthropic, "ANTHROPIC_API_KEY")),
        Provider::OpenAi | Provider::OpenAiResponses => Some((&options.keys.openai, "OPENAI_API_KEY")),
        Provider::Gemini => Some((&options.keys.gemini, "GEMINI_API_KEY")),
        Provider::Ollama | Provider::Scripted | Provider::Agent => None,
    };
    if let Some((None, variable)) = needed
        && address.base_url.is_none()
    {
        return Err(OpenError::KeyMissing {
            model: address.to_string(),
            variable,
        });
    }
    let proxy = options.proxy.as_deref();
    let model = ProviderModel::new(address, &options.keys, options.schema, options.patience, proxy);
    match model {
        Ok(Some(model)) => Ok(Arc::new(model)),
        Ok(None) => Ok(Arc::new(ScriptedModel::read(Path::new(&address.name))?)),
        Err(reason) => Err(OpenError::Unusable {
            model: address.to_string(),
            reason,
        }),
    }
}

fn agent(address: &ModelAddress, options: &ModelOptions) -> Result<Arc<dyn Model>, OpenError> {
    let refused = |reason: &str| OpenError::Agent {
        model: address.to_string(),
        reason: reason.to_owned(),
    };
    let Some(agent) = &options.agent else {
        return Err(refused("the section [agents] has no agent of that name"));
    };
    if let Some(reason) = agent.settings.problem().or(agent.unusable.as_deref()) {
        return Err(refused(reason));
    }
    let (name, settings) = (&address.name, agent.settings.clone());
    match settings.form {
        AgentForm::A2a => {
            let remote = RemoteAgent::new(name, settings, agent.token.clone(), options.proxy.as_deref());
            Ok(Arc::new(remote.map_err(|reason| refused(&reason))?))
        }
        AgentForm::Tool => Ok(Arc::new(ToolAgent::new(name, &settings))),
        _ => Ok(Arc::new(AgentProgram::new(name, settings, &agent.environment))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(address: &str) -> Result<Arc<dyn Model>, OpenError> {
        open(&address.parse().unwrap(), &ModelOptions::default())
    }

    #[test]
    fn opening_a_provider_requires_a_key_except_at_a_custom_address() {
        for address in ["anthropic:m", "openai:m", "openai-responses:m", "gemini:m"] {
            let error = opened(address).unwrap_err();
            assert!(matches!(error, OpenError::KeyMissing { .. }), "{error}");
            assert!(error.to_string().contains("_API_KEY"), "{error}");
        }
        for address in [
            "ollama:m",
            "openai+http://127.0.0.1:1/v1:m",
            "anthropic+http://127.0.0.1:1/v1:m",
        ] {
            assert!(opened(address).is_ok(), "{address}");
        }
        assert!(matches!(
            opened("scripted:no-such-file").unwrap_err(),
            OpenError::Script(_)
        ));
    }
}
