//! An agent that is a tool: whoever has the tools calls it.

use async_trait::async_trait;

use super::settings::AgentSettings;
use crate::error::{ModelError, ModelErrorKind};
use crate::model::{Delta, Model, Reply, Request, Worker};

/// The default name of the argument that takes the task.
const ARGUMENT: &str = "prompt";

/// An agent whose work is one call of a tool.
#[derive(Debug, Clone)]
pub struct ToolAgent {
    name: String,
    tool: String,
    argument: String,
}

impl ToolAgent {
    /// Creates the agent `name`, which is the tool in `settings`.
    #[must_use]
    pub fn new(name: &str, settings: &AgentSettings) -> Self {
        Self {
            name: format!("agent:{name}"),
            tool: settings.tool.clone().unwrap_or_default(),
            argument: settings.argument.clone().unwrap_or_else(|| ARGUMENT.to_owned()),
        }
    }
}

#[async_trait]
impl Model for ToolAgent {
    async fn reply(&self, _: &Request, _: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        let message = format!("it is the tool {}, and there are no tools here", self.tool);
        Err(ModelError::new(self.name.as_str(), ModelErrorKind::Invalid, message))
    }

    fn worker(&self) -> Option<Worker<'_>> {
        Some(Worker::Tool {
            name: &self.tool,
            argument: &self.argument,
        })
    }
}
