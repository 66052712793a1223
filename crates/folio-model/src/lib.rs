//! Language models behind one seam.
//!
//! - [`address`]: which model, as people write it: `anthropic:…`, `openai+http://host/v1:name`
//! - [`model`]: what a model is asked and what it answers
//! - [`error`]: why it did not, sorted by what the caller does next
//! - [`open`](mod@open), [`secret`]: from an address and keys to a model of a provider
//! - [`provider`]: how providers are asked; [`agent`]: programs and other machines that do a task by themselves
//! - [`reach`]: why an address cannot be reached
//! - [`models`]: which model is asked for what
//! - [`price`]: what it costs
//! - [`cassette`]: replies of a real model, kept and given again
//! - [`scripted`]: a model for tests, which answers what its script says

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
pub use scripted::{Cue, ScriptError, ScriptedModel, UnusedCues, When};
pub use secret::{ModelKeys, Secret};
