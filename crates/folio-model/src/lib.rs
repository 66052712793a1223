//! Language models behind one interface.
//!
//! - [`address`]: the addresses of models: `anthropic:…`, `openai+http://host/v1:name`
//! - [`model`]: requests and replies
//! - [`error`]: why a model did not answer, classified by what the caller can do about it
//! - [`open`](mod@open), [`secret`]: opens the model of an address, with keys
//! - [`provider`]: the models of providers; [`agent`]: programs and other machines that do a task by themselves
//! - [`reach`]: why a host cannot be reached
//! - [`models`]: which model has which role
//! - [`price`]: what models cost
//! - [`cassette`]: recorded replies of a real model
//! - [`scripted`]: a model for tests, which answers by a script

pub mod address;
pub mod agent;
pub mod cassette;
pub mod error;
pub mod model;
pub mod models;
pub mod open;
pub mod price;
pub mod provider;
pub mod reach;
pub mod scripted;
pub mod secret;

/// Stops an agent ([`Place::stop`]).
pub use tokio_util::sync::CancellationToken;

pub use address::{AddressError, ModelAddress, ModelParts, Provider};
pub use agent::{
    AgentForm, AgentGrant, AgentProgram, AgentPrompt, AgentSettings, AgentToAsk, AgentsSection, RemoteAgent, ToolAgent,
    task_text,
};
pub use cassette::{Cassette, CassetteError, RecordingModel, ReplayingModel};
pub use error::{ModelError, ModelErrorKind, UsedUp};
pub use model::{
    ASK_PERSON, Delta, Message, Model, NewSession, Place, Reply, Request, Role, Speaker, StopCause, ToolCall,
    ToolDescription, Usage, Worker,
};
pub use models::{ModelSettings, ModelsSection};
pub use open::{ModelOptions, OpenError, open};
pub use price::{Price, Prices, PricesError};
pub use provider::{Patience, SchemaForm, http_client, pause_in};
pub use reach::unreached;
pub use scripted::{Cue, ScriptError, ScriptMismatch, ScriptedModel, When};
pub use secret::{ModelKeys, Secret};
