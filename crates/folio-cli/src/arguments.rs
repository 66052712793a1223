//! The command line: commands and options.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use folio::memory::id::{EntryRef, PageRef, RunRef, TurnRef};

use crate::commands::{
    approve, archive, backup, bench, blob, book, budget, cancel, completions, connect, context, diff, doctor, episodes,
    evict, export, files, forget, fork, goals, hook, import, mcp, migrate, observe, offload, page, patterns, people,
    plan, policy, replay, resume, run, runs, search, serve, show, spaces, tidy, token, tokens, tool, trace, tree,
    trust, turn, watch, why, worker,
};
use crate::later::Later;
use crate::settings::Untrusted;

const FIRST_STEPS: &str = "\
First steps:
  folio plan example | folio run --plan - --input repo=.     review a git repository, without any
                                                             account, key or server
  folio observe add 'The tests need a database' --tag tests  record an observation
  folio observe list                                         list observations
  folio search databases                                     search memory for a word, in any form
  folio book add todo 'Write the tests'                      add a todo to the scratchbook
  folio tree                                                 show all pages

Settings: an option overrides the environment (FOLIO_STORE, FOLIO_SPACE, FOLIO_THREAD, FOLIO_TURN,
FOLIO_MODEL, FOLIO_ROLE, FOLIO_USER), and the environment overrides folio.toml. Folio reads
folio.toml from this folder or your configuration folder, or the file that --config or FOLIO_CONFIG
names.

Exit codes: 0 success, 1 a run ended partial or failed (or an import, a hook or a replay with a
cassette did not go as it should), 2 usage error or invalid input, 3 not found, 4 refused, 5 store
or service unavailable, 6 damaged data, 130 cancelled.";

/// Durable working memory for AI agents, and plans that run on it
#[derive(Debug, Parser)]
#[command(name = "folio", version, after_help = FIRST_STEPS, max_term_width = 100)]
pub(crate) struct Arguments {
    /// What holds for every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What holds for every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Store to use: sqlite:PATH, ./PATH, postgres://… or memory: [default: an SQLite file in your data folder]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Space to use (1 to 64 of a-z, 0-9, ".", "_", "-"); each space has a memory of its own [default: main]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) space: Option<String>,
    /// Thread to use; each thread has a scratchbook of its own [default: the git worktree of this folder, else main]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) thread: Option<String>,
    /// Turn that the command belongs to: t3 or turn_… [default: none]
    #[arg(long, global = true, value_name = "TURN", value_parser = turn_ref)]
    pub(crate) turn: Option<TurnRef>,
    /// Role to act in, given before the command: tool, executor, planner, router, clarifier, evaluator, reflector,
    /// cleaner, compactor, client or human [default: human]
    #[arg(long, id = "acting_role", value_name = "ROLE")]
    pub(crate) role: Option<String>,
    /// Print JSON to standard output, and a failure as one JSON object to standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Read settings from this file instead of folio.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the settings in use to standard error
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Print nothing but failures to standard error
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// When to use colour: auto (on a terminal), always or never [default: auto]
    #[arg(long, global = true, value_name = "WHEN", hide_possible_values = true)]
    pub(crate) color: Option<Color>,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a plan, or have a model work towards a goal
    ///
    /// Ctrl-C cancels the run. A second Ctrl-C exits at once.
    Run(Later<run::Run>),
    /// List runs, newest first
    Runs(Later<runs::Runs>),
    /// Show a run in full
    Show(Later<show::Show>),
    /// Watch a run until it ends
    Watch(Later<watch::Watch>),
    /// Resume runs whose process is gone
    Resume(Later<resume::Resume>),
    /// Cancel a run, or a node of it
    Cancel(Later<cancel::Cancel>),
    /// List open questions of runs and everything that waits for approval
    Questions(Later<people::Questions>),
    /// Answer a question that a run asks
    Answer(Later<people::Answer>),
    /// Approve a plan or a call that waits for it
    Approve(Later<approve::Approve>),
    /// Reject a plan or a call that waits for approval
    Reject(Later<approve::Reject>),
    /// Show or change the limits of a run
    Budget(Later<budget::Budget>),
    /// Start a new run from a point in another one
    ///
    /// The new run keeps everything that was done before that point and does not repeat it.
    Fork(Later<fork::Fork>),
    /// Show how two runs differ
    Diff(Later<diff::Diff>),
    /// Replay the journal of a run and compare its pages with it
    Replay(Later<replay::Replay>),
    /// Pause a run, or a node of it: calls under way finish, no new ones start
    Pause(Later<people::Pause>),
    /// Continue a paused run, or a paused node of it
    Continue(Later<people::Pause>),
    /// Record, list and change observations
    #[command(subcommand)]
    Observe(Later<observe::Observe>),
    /// Work with the scratchbook of a thread: notes, todos and tasks
    #[command(subcommand)]
    Book(Later<book::Book>),
    /// Show pages as a tree
    Tree(Later<tree::Tree>),
    /// Show pages, add pages and append to them
    #[command(subcommand)]
    Page(Later<page::Page>),
    /// Begin, end, show and list turns
    #[command(subcommand)]
    Turn(Later<turn::TurnCommand>),
    /// Show which decisions rest on an entry
    Why(Later<why::Why>),
    /// List goals with their progress, add goals, mark them as done
    Goals(Later<goals::Goals>),
    /// Show the memory that goes into a prompt
    Context(Later<context::ContextArguments>),
    /// Show what memory costs in tokens, by section and by entry
    Tokens(Later<tokens::TokensArguments>),
    /// List episodes: earlier turns as memory keeps them
    Episodes(Later<episodes::Episodes>),
    /// List patterns: what at least three similar observations of two turns have shown
    Patterns(Later<patterns::Patterns>),
    /// Show how often observations of each confidence came true
    Calibration(Later<patterns::Calibration>),
    /// Search memory by words, best match first
    ///
    /// Searches observations, notes, todos, tasks, goals, pending actions and summaries.
    Search(Later<search::Search>),
    /// Show what happened in the space, in order
    Trace(Later<trace::Trace>),
    /// Show and change the policy of a space
    #[command(subcommand)]
    Policy(Later<policy::Policy>),
    /// List tools, log in to MCP servers, store what tools answer
    #[command(subcommand)]
    Tool(Later<tool::Tool>),
    /// Check plan files; show and edit the plan of a run
    #[command(subcommand)]
    Plan(Later<plan::Plan>),
    /// Shorten a conversation that outgrows its context window
    ///
    /// Stores the older messages in the history of the thread, puts a summary in their place, and prints the
    /// conversation as it continues.
    Offload(Later<offload::Offload>),
    /// Read the stored older messages of a thread
    History(Later<offload::History>),
    /// Store a result that is too large for a prompt, and print a preview of it
    Evict(Later<evict::Evict>),
    /// Read part of a stored result, or of any entry
    Blob(Later<blob::Blob>),
    /// Archive entries, or everything that is due
    Archive(Later<archive::Archive>),
    /// Archive and remove everything that the policy says is due
    Tidy(Later<tidy::Tidy>),
    /// Erase the content of entries permanently, everywhere
    Forget(Later<forget::Forget>),
    /// Browse memory as files: ls, cat, grep
    #[command(subcommand)]
    Files(Later<files::Files>),
    /// List the spaces of the store, last written to first
    Spaces(Later<spaces::Spaces>),
    /// Export the space, or its scratchbooks, to files
    Export(Later<export::Export>),
    /// Import memory from files; existing entries stay as they are
    #[command(arg_required_else_help = true)]
    Import(Later<import::Import>),
    /// Back up the whole store to a file while it stays in use
    Backup(Later<backup::Backup>),
    /// Restore a store from a backup
    Restore(Later<backup::Restore>),
    /// Copy the whole store to another one, of any kind, while it stays in use
    Migrate(Later<migrate::Migrate>),
    /// Trust the folio.toml of this folder as it is now
    Trust(Later<trust::Trust>),
    /// Check the store for damage, and whether configured MCP servers answer
    Doctor(Later<doctor::Doctor>),
    /// Serve the web interface, the HTTP API and MCP
    ///
    /// Shows runs and pages in the browser, gives models their memory at /mcp, and resumes runs whose process is gone.
    Serve(Later<serve::Serve>),
    /// Drive the runs that others submit to a shared store, without serving HTTP
    Worker(Later<worker::WorkerArguments>),
    /// Create, list and revoke access tokens for `folio serve`
    #[command(subcommand)]
    Token(Later<token::Token>),
    /// Serve memory to a model over the Model Context Protocol (MCP) on standard input and output
    Mcp(Later<mcp::McpArguments>),
    /// Add Folio to the configuration of a program such as Claude Code
    ///
    /// Shows what belongs into the program's file of this folder: the MCP server, or with --hooks the hooks. With
    /// --write, adds what the file lacks and keeps everything else.
    Connect(Later<connect::Connect>),
    /// Run a hook of an agent program such as Claude Code
    #[command(subcommand)]
    Hook(Later<hook::Hook>),
    /// Measure the speed of durable work on this machine
    Bench(Later<bench::Bench>),
    /// Print shell completions
    Completions(Later<completions::Completions>),
}

impl Command {
    /// What the command does with a settings file that came with a repository and that nobody has looked at. A hook
    /// must not block anybody, `doctor` reports the file, and some commands need no settings: a shell asks for
    /// completions wherever it is started.
    pub(crate) fn with_untrusted(&self) -> Untrusted {
        match self {
            Self::Hook(_) | Self::Doctor(_) => Untrusted::PassedOver,
            Self::Trust(_) | Self::Completions(_) => Untrusted::Ignored,
            Self::Plan(Later(plan)) if plan.only_prints() => Untrusted::Ignored,
            _ => Untrusted::Refused,
        }
    }

    /// Whether the command may drive runs, and so needs several threads.
    pub(crate) fn drives_runs(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Resume(_)
                | Self::Fork(_)
                | Self::Cancel(_)
                | Self::Bench(_)
                | Self::Serve(_)
                | Self::Worker(_)
        ) || matches!(self, Self::Mcp(Later(arguments)) if arguments.drives_runs())
    }
}

/// Parses a value to search for. An empty one comes from an empty variable, and nothing matches it.
pub(crate) fn not_blank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("the value is empty; leave the option out to match everything".to_owned());
    }
    Ok(text.to_owned())
}

/// Parses the name of an entry.
pub(crate) fn entry_ref(text: &str) -> Result<EntryRef, String> {
    text.parse()
        .map_err(|_| "not a handle like e42 or an id like obs_01J…".to_owned())
}

/// Parses the name of an entry, and the version that it must have if one follows: `e42@3`.
pub(crate) fn entry_at(text: &str) -> Result<(EntryRef, Option<u32>), String> {
    match text.split_once('@') {
        None => Ok((entry_ref(text)?, None)),
        Some((entry, version)) => {
            let version = version
                .parse()
                .map_err(|_| format!("{version:?} is not the number of a version"))?;
            Ok((entry_ref(entry)?, Some(version)))
        }
    }
}

/// Parses the name of a page.
pub(crate) fn page_ref(text: &str) -> Result<PageRef, String> {
    text.parse()
        .map_err(|_| "not a handle like p7 or an id like page_01J…".to_owned())
}

/// Parses the name of a run.
pub(crate) fn run_ref(text: &str) -> Result<RunRef, String> {
    text.parse()
        .map_err(|_| "not a handle like r3 or an id like run_01J…".to_owned())
}

/// Parses the name of a turn.
pub(crate) fn turn_ref(text: &str) -> Result<TurnRef, String> {
    text.parse()
        .map_err(|_| "not a handle like t3 or an id like turn_01J…".to_owned())
}

/// The values that an update sets: a single empty one means that there are none.
pub(crate) fn replacement_values(values: Vec<String>) -> Vec<String> {
    if values == [""] { Vec::new() } else { values }
}

/// Parses `KEY=VALUE`; an empty text, which means that there is none, becomes an empty pair.
pub(crate) fn pair_or_none(text: &str) -> Result<(String, String), String> {
    if text.is_empty() {
        return Ok((String::new(), String::new()));
    }
    pair(text)
}

/// Parses `KEY=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("not of the form KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Arguments;

    #[test]
    fn command_line_definition_passes_clap_assertions() {
        Arguments::command().debug_assert();
    }
}
