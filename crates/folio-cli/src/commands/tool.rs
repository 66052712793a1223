//! `folio tool`: lists tools, stores their answers and answers their queries.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use folio::memory::roles;
use folio::memory::tool_exchange::{ToolRequest, ToolResponse};
use folio::memory::{TurnId, id::TurnRef};
use folio::store::WorkspaceError;
use folio::store::workspace::IngestContext;
use folio::{Actor, Role, Workspace};

use super::tool_login::{self, Login, Logout};
use super::{Context, json_file};
use crate::error::{Exit, Failure};
use crate::report::list::List;
use crate::report::tool::{Seen, TakenIn, ToolShape, ToolsShape};

/// How long to look whether a turn has ended.
const TURN_WITHIN: Duration = Duration::from_secs(1);

/// `folio tool`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// List the tools that runs can call: built-in ones and those of configured MCP servers
    List(Listed),
    /// Log in to a configured MCP server in a browser
    ///
    /// Folio stores the tokens that it receives and renews them from then on.
    Login(Login),
    /// Log out of an MCP server
    Logout(Logout),
    /// Store the answer of a tool: its observations and its writes to memory
    ///
    /// With --turn, the same answer to the same call is stored only once.
    Ingest(Ingest),
    /// Answer a tool that asks for observations before it works
    Context(ContextOf),
}

/// `folio tool list`.
#[derive(Debug, Args)]
pub(crate) struct Listed {
    /// Show only these tools, with their arguments and everything known about what they return
    #[arg(value_name = "TOOL")]
    names: Vec<String>,
}

/// `folio tool ingest`.
#[derive(Debug, Args)]
pub(crate) struct Ingest {
    /// File with the answer, a ToolResponse in JSON; - reads it from standard input
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
    /// Tool that answered; its manifest decides what is stored [default: as the answer says, else none]
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Name of the call within its turn [default: the request that the answer names]
    #[arg(long, value_name = "NAME")]
    call: Option<String>,
}

/// `folio tool context`.
#[derive(Debug, Args)]
pub(crate) struct ContextOf {
    /// File with the question, a ToolRequest in JSON; - reads it from standard input
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
    /// Tool that asks; its manifest decides what it may see [default: as the question says]
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
}

/// Carries out `folio tool`.
pub(crate) async fn run(context: &Context<'_>, tool: Tool) -> Result<Exit, Failure> {
    match tool {
        Tool::List(listed) => list(context, &listed.names).await,
        Tool::Login(login) => tool_login::log_in(context, login).await,
        Tool::Logout(logout) => tool_login::log_out(context, logout).await,
        Tool::Ingest(ingest) => ingest_response(context, ingest).await,
        Tool::Context(options) => answer(context, options).await,
    }
}

async fn list(context: &Context<'_>, names: &[String]) -> Result<Exit, Failure> {
    let registry = context.registry().await?;
    if let Some(name) = names.iter().find(|name| registry.get(name).is_none()) {
        let unknown = Failure::new(Exit::NotFound, "not_found", format!("there is no tool {name}"));
        return Err(unknown.hint("`folio tool list` lists the tools"));
    }
    let specs = registry
        .specs()
        .filter(|spec| names.is_empty() || names.contains(&spec.name));
    let tools = List::whole(specs.map(ToolShape::of).collect(), 0);
    let in_full = !names.is_empty();
    context.output.report(&ToolsShape { tools, in_full })?;
    Ok(Exit::Done)
}

async fn ingest_response(context: &Context<'_>, ingest: Ingest) -> Result<Exit, Failure> {
    let response: ToolResponse = json_file(&ingest.file, "the answer of a tool")?;
    let workspace = context.workspace_for_answers().await?;
    let response_tool = ["tool_id", "tool"]
        .into_iter()
        .find_map(|name| response.rest.get(name)?.as_str());
    let name = ingest.tool.as_deref().or(response_tool).unwrap_or_default();
    let turn = turn_of(&workspace, context.settings.turn).await?;
    note_if_ended(context, &workspace, turn).await;
    let ingest_context = IngestContext {
        turn,
        call: ingest.call,
        key: None,
        thread: Some(context.settings.thread.clone()),
        node: None,
    };
    let tool = actor_for_tool(context, name)?;
    let ingested = workspace.ingest(&tool, &response, &ingest_context).await;
    for rejection in &ingested.rejected {
        context.output.trouble(format_args!(
            "rejected: {}[{}] {} [{}]",
            rejection.channel, rejection.index, rejection.message, rejection.code
        ));
    }
    for correction in &ingested.warnings {
        context.output.warnings(std::slice::from_ref(&correction.warning));
    }
    if ingested.spooled > 0 {
        context.output.note(format_args!(
            "{} wait in the outbox because the store cannot be written now; the next turn delivers them",
            ingested.spooled
        ));
    }
    let is_lost = ingested
        .rejected
        .iter()
        .any(|rejection| rejection.code == "storage_failed");
    let exit = if is_lost { Exit::Unavailable } else { Exit::Done };
    let taken_in = TakenIn::of(&ingested, workspace.now());
    context.output.report_ending(&taken_in, exit)
}

async fn answer(context: &Context<'_>, options: ContextOf) -> Result<Exit, Failure> {
    let request: ToolRequest = json_file(&options.file, "the question of a tool")?;
    let workspace = context.workspace_outside_turn_if_any().await?;
    let name = options.tool.as_deref().unwrap_or(&request.tool_id);
    let mut tool = actor_for_tool(context, name)?;
    tool.turn = turn_of(&workspace, context.settings.turn).await?;
    // A tool continues without an answer; people and their programs get the error (M7.2.19).
    let found = match context.settings.role {
        Role::Tool => workspace.tool_context(&tool, &request).await,
        _ => workspace.try_tool_context(&tool, &request).await?,
    };
    context.output.report(&Seen::of(found))?;
    Ok(Exit::Done)
}

/// The actor for the tool called `name`, if the caller's role may speak for tools (M7.7).
fn actor_for_tool(context: &Context<'_>, name: &str) -> Result<Actor, Failure> {
    Ok(roles::speaking_for(&context.person(), name).map_err(WorkspaceError::from)?)
}

/// The id of the named turn, which a tool need not be able to read. A turn that was not begun here may be named by its
/// id, because turns may be kept elsewhere.
async fn turn_of(workspace: &Workspace, turn: Option<TurnRef>) -> Result<Option<TurnId>, Failure> {
    Ok(match turn {
        None => None,
        Some(TurnRef::Id(id)) => Some(id),
        Some(handle) => Some(workspace.turn_to_work_in(handle).await?.id),
    })
}

/// Says if `turn` has ended. A store that is away need not tell: the answer of a tool is kept all the same.
async fn note_if_ended(context: &Context<'_>, workspace: &Workspace, turn: Option<TurnId>) {
    let Some(turn) = turn else { return };
    let finding = workspace.turn_to_work_in(TurnRef::Id(turn));
    if let Ok(Ok(turn)) = tokio::time::timeout(TURN_WITHIN, finding).await {
        context.note_if_ended(&turn);
    }
}
