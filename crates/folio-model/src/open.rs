//! From an address to a model.

use std::path::Path;
use std::sync::Arc;

use crate::address::{AddressError, ModelAddress, Provider};
use crate::agent::{AgentForm, AgentProgram, AgentToAsk, RemoteAgent, ToolAgent};
use crate::model::Model;
use crate::provider::{Patience, ProviderModel, SchemaForm};
use crate::scripted::{ScriptError, ScriptedModel};
use crate::secret::ModelKeys;

/// How a model is asked.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// Who may ask it.
    pub keys: ModelKeys,
    /// How it is held to a JSON schema.
    pub schema: SchemaForm,
    /// How long an answer may take.
    pub patience: Patience,
    /// The proxy that requests go through, as `http://HOST:PORT`; none if it is not set, whatever the environment says.
    pub proxy: Option<String>,
    /// For `agent:NAME`: the program or the other machine of that name.
    pub agent: Option<AgentToAsk>,
}

/// Why there is no model. Never holds a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The text names none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Its script cannot be used.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The provider is not asked without a key.
    #[error("{model} needs a key and none is set; set {variable}, or name a file that holds it in folio.toml")]
    KeyMissing {
        /// The model, as people write it.
        model: String,
        /// The variable that the program takes it from.
        variable: &'static str,
    },
    /// The settings name no such agent, or not as they should.
    #[error("{model} cannot be asked: {reason}")]
    Agent {
        /// The agent, as people write it.
        model: String,
        /// Why.
        reason: String,
    },
    /// There can be no connection on this machine.
    #[error("{model} cannot be asked: {reason}")]
    Unusable {
        /// The model, as people write it.
        model: String,
        /// Why.
        reason: String,
    },
}

/// Opens the model that `address` names. Nothing is sent before it is asked.
///
/// # Errors
///
/// If the script cannot be read, the provider's own address needs a key and there is none, or there can be no connection.
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
        return Err(refused("there is none of that name in the section [agents]"));
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
    fn a_provider_is_not_asked_without_a_key_and_a_local_server_is() {
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
