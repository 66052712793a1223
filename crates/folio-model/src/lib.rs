//! Language models behind one seam.
//!
//! - [`address`]: which model, as people write it: `anthropic:…`, `openai+http://host/v1:name`
//! - [`model`]: what a model is asked and what it answers
//! - [`error`]: why it did not, sorted by what the caller does next
//! - [`scripted`]: a model for tests, which answers what its script says

pub mod address;
pub mod error;
pub mod model;
pub mod scripted;

pub use address::{AddressError, ModelAddress, Provider};
pub use error::{ModelError, ModelErrorKind};
pub use model::{Delta, Message, Model, Reply, Request, Role, Speaker, StopCause, ToolCall, ToolDescription, Usage};
pub use scripted::{Cue, ScriptError, ScriptedModel, UnusedCues, When};
