//! The names used in spans: the OpenTelemetry conventions for generative AI, and names of Folio for what they do not
//! cover.
//!
//! The conventions still have the status *development*; when they change, this module follows.

use folio::model::ModelParts;

/// The operation: [`CHAT`], [`TOOL`], [`AGENT`] or [`WORKFLOW`].
pub const OPERATION: &str = "gen_ai.operation.name";
/// The operation of a question to a model.
pub const CHAT: &str = "chat";
/// The operation of a tool call.
pub const TOOL: &str = "execute_tool";
/// The operation of a task that a model does.
pub const AGENT: &str = "invoke_agent";
/// The operation of a run.
pub const WORKFLOW: &str = "invoke_workflow";

/// The name of the agent: that of the task it works on.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// The id of the agent: that of the node.
pub const AGENT_ID: &str = "gen_ai.agent.id";
/// The provider of the model: `anthropic`, `openai`, ….
pub const PROVIDER: &str = "gen_ai.provider.name";
/// The model that was asked.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// Why a model stopped.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// The number of tokens that the model read.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// The number of these that the provider had in its cache.
pub const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// The number of tokens that the model wrote.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The name of the tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The type of the tool.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// The id of the call.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// The error code of a failure.
pub const ERROR_TYPE: &str = "error.type";

/// The run's id, as everywhere in Folio.
pub const RUN: &str = "folio.run.id";
/// The node's id.
pub const NODE: &str = "folio.node.id";
/// The names of the steps from the root to the node.
pub const PATH: &str = "folio.node.path";
/// The kind of the node.
pub const KIND: &str = "folio.node.kind";
/// The outcome: `ok`, `partial`, `failed`, ….
pub const OUTCOME: &str = "folio.outcome";
/// The stop reason.
pub const STOP_REASON: &str = "folio.stop_reason";
/// The number of attempts that were made.
pub const ATTEMPTS: &str = "folio.attempts";
/// The version of the plan that the node belongs to.
pub const PLAN_VERSION: &str = "folio.plan.version";
/// The prefix for limits. It stands before the name of a limit as a budget writes it; the value is how much of it the
/// node and everything below it may use up, if it is limited; a `deadline` is in milliseconds.
pub const BUDGET: &str = "folio.budget.";
/// The purpose of a question to a model: `decide`, `work`, `aggregate`, `judge`, `replan`, `hand_back`.
pub const PURPOSE: &str = "folio.purpose";
/// The cost in millionths of a US dollar, as far as prices are known.
pub const COST: &str = "folio.cost.micro_usd";

/// Returns the provider as the conventions name it, from the first part of a model's address. If the address has a URL
/// of its own, it is the provider whose protocol is spoken there, whoever answers.
#[must_use]
pub fn provider(model: &str) -> &str {
    match ModelParts::of(model).provider {
        "gemini" => "gcp.gemini",
        "openai-responses" => "openai",
        known => known,
    }
}

/// Returns the model's name without provider and URL: `claude-sonnet-5` of `anthropic:claude-sonnet-5`.
#[must_use]
pub fn model(address: &str) -> &str {
    ModelParts::of(address).name.unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_and_model_names_are_parsed_from_an_address() {
        for (address, who, name) in [
            ("anthropic:claude-sonnet-5", "anthropic", "claude-sonnet-5"),
            ("ollama:llama3:8b", "ollama", "llama3:8b"),
            ("gemini:gemini-3-pro", "gcp.gemini", "gemini-3-pro"),
            ("openai+http://127.0.0.1:8080/v1:local", "openai", "local"),
            ("openai-responses:gpt-6", "openai", "gpt-6"),
            ("openai-responses+https://h/v1:gpt-6", "openai", "gpt-6"),
            ("anthropic+https://h:claude-x", "anthropic", "claude-x"),
            ("gemini+https://h/v1beta:gemini-3-pro", "gcp.gemini", "gemini-3-pro"),
            ("openai+http://127.0.0.1:7962/v1:llama3:8b", "openai", "llama3:8b"),
            ("ollama+http://h:11434:llama3:8b", "ollama", "llama3:8b"),
            ("scripted", "scripted", "scripted"),
        ] {
            assert_eq!((provider(address), model(address)), (who, name), "{address}");
        }
    }
}
