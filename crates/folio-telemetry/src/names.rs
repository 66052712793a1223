//! How things are called in spans: the conventions of OpenTelemetry for generative AI, and what they have no name for.
//!
//! The conventions are still called *development*; whatever of them changes is changed here.

use folio::model::ModelParts;

/// What is done: [`CHAT`], [`TOOL`], [`AGENT`] or [`WORKFLOW`].
pub const OPERATION: &str = "gen_ai.operation.name";
/// A model is asked.
pub const CHAT: &str = "chat";
/// A tool is called.
pub const TOOL: &str = "execute_tool";
/// A task that a model does.
pub const AGENT: &str = "invoke_agent";
/// A run.
pub const WORKFLOW: &str = "invoke_workflow";

/// The agent that works on a task: the task's name.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// The agent's id: the node's.
pub const AGENT_ID: &str = "gen_ai.agent.id";
/// Who answers: `anthropic`, `openai`, ….
pub const PROVIDER: &str = "gen_ai.provider.name";
/// The model that was asked.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// Why a model stopped.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// Tokens that a model read.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Of these, tokens that the provider had in its cache.
pub const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// Tokens that a model wrote.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// What sort of tool.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// What names the call.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// Why it failed.
pub const ERROR_TYPE: &str = "error.type";

/// The run's id, as everywhere in Folio.
pub const RUN: &str = "folio.run.id";
/// The node's id.
pub const NODE: &str = "folio.node.id";
/// Names of steps from the root.
pub const PATH: &str = "folio.node.path";
/// What sort of node it is.
pub const KIND: &str = "folio.node.kind";
/// How it ended: `ok`, `partial`, `failed`, ….
pub const OUTCOME: &str = "folio.outcome";
/// Why it ended so.
pub const STOP_REASON: &str = "folio.stop_reason";
/// Calls that were made for it.
pub const ATTEMPTS: &str = "folio.attempts";
/// The version of its plan.
pub const PLAN_VERSION: &str = "folio.plan.version";
/// Before the name of something that has a limit, as it is written in a budget: how much of it the node and everything below it may use up,
/// where that is said; a `deadline` in milliseconds.
pub const BUDGET: &str = "folio.budget.";
/// What a model was asked for: `decide`, `work`, `aggregate`, `judge`, `replan`, `hand_back`.
pub const PURPOSE: &str = "folio.purpose";
/// Millionths of a US dollar that it cost, as far as prices are known.
pub const COST: &str = "folio.cost.micro_usd";

/// Who answers, as the conventions call them, by what stands first in a model's address. What is asked at an address of its own is asked as
/// they are, whoever it is.
#[must_use]
pub fn provider(model: &str) -> &str {
    match ModelParts::of(model).provider {
        "gemini" => "gcp.gemini",
        "openai-responses" => "openai",
        known => known,
    }
}

/// The model without who answers, and where: `claude-sonnet-5` of `anthropic:claude-sonnet-5`.
#[must_use]
pub fn model(address: &str) -> &str {
    ModelParts::of(address).name.unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_by_who_answers_and_what_it_is_called() {
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
