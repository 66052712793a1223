//! Answers of tools, ingested item by item, and the context that tools request before they work (seeds 002 and 004).

use aide::axum::ApiRouter;
use aide::axum::routing::post_with;
use folio::memory::roles;
use folio::memory::tool_exchange::{ToolRequest, ToolResponse};
use folio::memory::{TurnId, Warning};
use folio::store::workspace::IngestContext;
use folio::{Actor, Role, ThreadKey};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::caller::{Caller, thread_called, turn_named};
use crate::http::describe::describe_operation;
use crate::http::input::Body;
use crate::http::problem::Problem;
use crate::http::query::{Fields, QueryParams};
use crate::wire::{Seen, TakenIn};

const GROUP: &str = "tools";

pub(super) fn routes() -> ApiRouter<App> {
    ApiRouter::new()
        .api_route(
            "/tool-responses",
            post_with(
                ingest_result,
                describe_operation(
                    "ingest_tool_response",
                    GROUP,
                    "Ingests the answer of a tool, item by item",
                ),
            ),
        )
        .api_route(
            "/tool-requests/context",
            post_with(
                context,
                describe_operation(
                    "tool_request_context",
                    GROUP,
                    "Returns the memory that a tool requests before it works",
                ),
            ),
        )
}

/// The tool, and the place of its answer or request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Place {
    /// The tool whose manifest decides what is accepted or shown; without it, the tool that the body names.
    tool: Option<String>,
    /// The name of the call within its turn: ingesting the same call again adds nothing. Without it, the request that
    /// the answer names is used, and if it names none, the idempotency key. Outside a turn, an idempotency key names the
    /// call before either of them.
    call: Option<String>,
    /// The turn: `t3` or `turn_…`. The header `Folio-Turn` has the same effect.
    turn: Option<String>,
    /// The thread that receives notes; the main thread if not given.
    thread: Option<String>,
}

impl Fields for Place {}

impl Place {
    /// Returns the tool that the query names, or else `fallback`, if the caller may speak for it (M7.7).
    fn tool(&self, caller: &Caller, fallback: &str) -> Result<Actor, Problem> {
        Ok(roles::speaking_for(
            &caller.actor,
            self.tool.as_deref().unwrap_or(fallback),
        )?)
    }

    /// Returns the turn, and the warning for what is written in it if it has ended.
    async fn turn(&self, caller: &Caller) -> Result<(Option<TurnId>, Option<Warning>), Problem> {
        match &self.turn {
            Some(name) => {
                let (turn, warning) = turn_named(&caller.workspace, name).await?;
                Ok((Some(turn), warning))
            }
            None => Ok((caller.actor.turn, caller.ended_turn_warning())),
        }
    }
}

async fn ingest_result(
    caller: Caller,
    QueryParams(place): QueryParams<Place>,
    Body(response): Body<ToolResponse>,
) -> Result<Answer<TakenIn>, Problem> {
    let tool_name = ["tool_id", "tool"]
        .into_iter()
        .find_map(|name| response.rest.get(name)?.as_str());
    let tool = place.tool(&caller, tool_name.unwrap_or_default())?;
    let (turn, warning) = place.turn(&caller).await?;
    let context = IngestContext {
        turn,
        call: place.call,
        key: caller.own_key(),
        thread: Some(place.thread.map_or_else(|| Ok(ThreadKey::main()), thread_called)?),
        node: None,
    };
    let ingested = caller.workspace.ingest(&tool, &response, &context).await;
    let taken_in = TakenIn::of(&ingested, caller.workspace.now());
    Ok(Answer::of(TakenIn {
        turn_warnings: warning.into_iter().collect(),
        ..taken_in
    }))
}

async fn context(
    caller: Caller,
    QueryParams(place): QueryParams<Place>,
    Body(request): Body<ToolRequest>,
) -> Result<Answer<Seen>, Problem> {
    let mut tool = place.tool(&caller, &request.tool_id)?;
    (tool.turn, _) = place.turn(&caller).await?;
    // A tool continues without an answer; people and their programs get the error (M7.2.19).
    let found = match caller.actor.role {
        Role::Tool => caller.workspace.tool_context(&tool, &request).await,
        _ => caller.workspace.try_tool_context(&tool, &request).await?,
    };
    Ok(Answer::of(Seen::of(found)))
}
