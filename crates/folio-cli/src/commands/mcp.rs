//! `folio mcp`: serves memory to a model over standard input and output, by the Model Context Protocol.

use clap::Args;
use folio::Role;
use folio::tools::Registry;
use folio_server::{Mcp, McpError, McpOptions, ToolSet};

use super::context::ModelArgument;
use super::driving::Driving;
use super::run::check_allowed;
use super::{Context, interrupted};
use crate::error::{Exit, Failure};
use crate::models;

/// `folio mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArguments {
    #[command(flatten)]
    offer: Offer,
    #[command(flatten)]
    model: ModelArgument,
    #[command(flatten)]
    driving: Driving,
}

impl McpArguments {
    /// Whether models may start runs.
    pub(crate) fn drives_runs(&self) -> bool {
        self.offer.tools.contains(&ToolSet::Run)
    }
}

/// What models are offered.
#[derive(Debug, Clone, Args)]
pub(crate) struct Offer {
    /// Sets of tools to offer besides the six of the scratchbook, separated by commas: memory, observe, plan, run,
    /// admin
    #[arg(long, value_name = "SETS", value_delimiter = ',')]
    tools: Vec<ToolSet>,
    /// Let runs that models start call this tool without approval: NAME.TOOL, or NAME.* for every tool of an MCP
    /// server; repeatable
    #[arg(long = "allow-tool", value_name = "TOOL")]
    allow_tools: Vec<String>,
}

impl Offer {
    /// The options for what models are offered in the thread of the settings. They act in the role of a client, unless
    /// `--role` says otherwise.
    pub(crate) fn options(&self, context: &Context<'_>) -> McpOptions {
        let settings = &context.settings;
        let mut options = McpOptions::of(settings.thread.clone());
        options.is_bound = settings.names_thread;
        options.role = if settings.names_role {
            settings.role
        } else {
            Role::Client
        };
        options.turn = context.actor().turn;
        options.tokens = super::context::counter(context);
        options.sets.clone_from(&self.tools);
        options.folder = Some(settings.current.clone());
        options.allow_tools.clone_from(&self.allow_tools);
        options
    }

    /// Checks that the tools that need no approval exist.
    pub(super) fn check(&self, context: &Context<'_>, registry: &Registry) -> Result<(), Failure> {
        check_allowed(context, registry, &self.allow_tools)
    }
}

/// Carries out `folio mcp`: until the client closes standard input, or Ctrl-C.
pub(crate) async fn run(context: &Context<'_>, arguments: McpArguments) -> Result<Exit, Failure> {
    // Without tools that drive runs, no MCP servers need to be started.
    let (models, registry) = if arguments.drives_runs() {
        let registry = context.registry().await?;
        if !arguments.driving.is_elsewhere() {
            arguments.offer.check(context, &registry)?;
        }
        (models::open(None, &context.settings)?, registry)
    } else {
        (None, Registry::empty())
    };
    let runner = arguments.driving.runner_with(context, registry, models, true).await?;
    let mut options = arguments.offer.options(context);
    options.tokens = arguments.model.counter(context);
    // The client is on the same machine, and so is the person whom it asks.
    context.settings.repeated().clone_into(&mut options.command_options);
    let stop = interrupted()?;
    let server = Mcp::new(runner, options);
    match server.converse(tokio::io::stdin(), tokio::io::stdout(), stop).await {
        Ok(()) => Ok(Exit::Done),
        // Its cause is the library's form of the first message.
        Err(error @ McpError::Begin(_)) => Err(Failure::usage("mcp_refused", error.to_string())
            .hint("let an MCP client start `folio mcp`; docs/mcp.md explains how")),
        Err(error) => Err(Failure::new(Exit::Unavailable, "mcp_broken", error.to_string()).caused_by(&error)),
    }
}
