//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use folio::memory::id::{EntryRef, PageRef, RunRef, TurnRef};

use crate::commands::{
    again, approve, archive, backup, bench, blob, book, budget, cancel, completions, context, diff, doctor, episodes,
    evict, export, files, forget, goals, hook, import, mcp, migrate, observe, offload, page, patterns, people, plan,
    policy, resume, run, runs, search, serve, show, tidy, token, tokens, tool, trace, tree, trust, turn, watch, why,
    worker,
};
use crate::later::Later;
use crate::settings::Untrusted;

const FIRST_STEPS: &str = "\
First steps:
  folio plan example | folio run --plan - --input repo=.     review a git repository, without any
                                                             account, key or server
  folio observe add 'The tests need a database' --tag tests  note something
  folio observe list                                         what is noted
  folio search databases                                     what has a word, in any form
  folio book add todo 'Write the tests'                      put something on the list
  folio tree                                                 every page that there is

Settings: a flag wins over the environment (FOLIO_STORE, FOLIO_SPACE, FOLIO_THREAD, FOLIO_TURN,
FOLIO_MODEL, FOLIO_ROLE, FOLIO_USER), and that over folio.toml in this folder or in the
configuration folder, or the file that --config or FOLIO_CONFIG names.

Exit codes: 0 done, 1 a run ended partial or failed (or an import, a hook, a replay with a cassette
went otherwise than it should), 2 usage or invalid input, 3 not found, 4 refused, 5 store or service
unavailable, 6 damaged data, 130 cancelled.";

/// Working memory for agents, and plans that run in it.
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
    /// Where memory is kept: sqlite:PATH, postgres://… or memory: [default: a file of the user]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Whose memory [default: main]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) space: Option<String>,
    /// Whose scratchbook [default: the worktree that this folder is in]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) thread: Option<String>,
    /// In which turn: t3 or turn_… [default: in none]
    #[arg(long, global = true, value_name = "TURN", value_parser = turn_ref)]
    pub(crate) turn: Option<TurnRef>,
    /// In which role, before the command: tool, executor, planner, router, clarifier, evaluator, reflector, cleaner,
    /// compactor, client or human [default: human]
    #[arg(long, id = "acting_role", value_name = "ROLE")]
    pub(crate) role: Option<String>,
    /// Answer in JSON on standard output; a failure is one JSON object on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Read settings from this file instead of folio.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Say on standard error what is used
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Say nothing on standard error but failures
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// When to use colour: auto, always, never [default: auto, on a terminal]
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
    /// Run a plan to its end; Ctrl-C cancels it, twice leaves at once
    Run(Later<run::Run>),
    /// List runs, newest first
    Runs(Later<runs::Runs>),
    /// Show everything about a run
    Show(Later<show::Show>),
    /// Watch a run until it has ended
    Watch(Later<watch::Watch>),
    /// Go on with runs whose process is gone
    Resume(Later<resume::Resume>),
    /// Ask for a run, or a part of it, to be stopped
    Cancel(Later<cancel::Cancel>),
    /// What runs ask people, and what waits for their yes
    Questions(Later<people::Questions>),
    /// Answer a question of a run
    Answer(Later<people::Answer>),
    /// Say yes to a plan or a call that waits for it
    Approve(Later<approve::Approve>),
    /// Say no to a plan or a call that waits for a yes
    Reject(Later<approve::Reject>),
    /// Show the limits of a run and what is used up, or change them
    Budget(Later<budget::Budget>),
    /// Begin another run from a moment of one: what was done before a part began is not done again
    Fork(Later<again::Fork>),
    /// Show how two runs differ
    Diff(Later<diff::Diff>),
    /// Look at the journal of a run from its first event, and compare its pages with it
    Replay(Later<again::Replay>),
    /// Begin no more calls of a run, or of a part of it
    Pause(Later<people::Pause>),
    /// Have a paused run, or a paused part of it, go on
    Continue(Later<people::Pause>),
    /// Observations: add, list, active, get, update, resolve, archive and more
    #[command(subcommand)]
    Observe(Later<observe::Observe>),
    /// The scratchbook of a thread: notes, todos and tasks
    #[command(subcommand)]
    Book(Later<book::Book>),
    /// Show pages as a tree
    Tree(Later<tree::Tree>),
    /// Pages: show, rollup, new, append
    #[command(subcommand)]
    Page(Later<page::Page>),
    /// Turns: begin, end, show, list
    #[command(subcommand)]
    Turn(Later<turn::TurnCommand>),
    /// Which decisions rest on an entry
    Why(Later<why::Why>),
    /// What is wanted, and how far it is; add, done
    Goals(Later<goals::Goals>),
    /// Show what of memory goes into a prompt
    Context(Later<context::ContextArguments>),
    /// What memory costs a model: each section of the view, and the dearest entries
    Tokens(Later<tokens::TokensArguments>),
    /// Earlier turns as they are remembered
    Episodes(Later<episodes::Episodes>),
    /// What was noticed again and again
    Patterns(Later<patterns::Patterns>),
    /// How often stated confidences came true
    Calibration(Later<patterns::Calibration>),
    /// Find observations, notes, todos, tasks, goals and summaries by their words, best match first
    Search(Later<search::Search>),
    /// Show what happened, in order
    Trace(Later<trace::Trace>),
    /// What holds in the space: show, set, unset
    #[command(subcommand)]
    Policy(Later<policy::Policy>),
    /// Tools: list, login, logout; what they say and ask: ingest, context
    #[command(subcommand)]
    Tool(Later<tool::Tool>),
    /// Plans: schema, example and check of files, show and edit of runs
    #[command(subcommand)]
    Plan(Later<plan::Plan>),
    /// Put the older messages of a conversation away that outgrows its window, and print it as it goes on
    Offload(Later<offload::Offload>),
    /// Read what was said in a thread and was put away
    History(Later<offload::History>),
    /// Put a result away that is too large for a prompt, and show what stands for it
    Evict(Later<evict::Evict>),
    /// Read a part of a result that was put away, or of any entry
    Blob(Later<blob::Blob>),
    /// Put entries away for good, or everything that is due
    Archive(Later<archive::Archive>),
    /// Keep the space small: put away and take out what is due
    Tidy(Later<tidy::Tidy>),
    /// Take the content of entries out of everything, for good
    Forget(Later<forget::Forget>),
    /// Memory as files: ls, cat, grep
    #[command(subcommand)]
    Files(Later<files::Files>),
    /// Write the space, or its scratchbooks, as files that others read
    Export(Later<export::Export>),
    /// Bring memory in from files; what is there already stays as it is
    #[command(arg_required_else_help = true)]
    Import(Later<import::Import>),
    /// Copy the whole store into a file, while others go on using it
    Backup(Later<backup::Backup>),
    /// Make a store of such a copy
    Restore(Later<backup::Restore>),
    /// Copy everything that the store has into another one, of whichever kind, while others go on using it
    Migrate(Later<migrate::Migrate>),
    /// Say that you have looked at the folio.toml of a repository: it is obeyed as it stands now
    Trust(Later<trust::Trust>),
    /// Look for damage in the store, and whether the MCP servers of the settings are there
    Doctor(Later<doctor::Doctor>),
    /// Show runs and pages in the browser, be the memory of models at /mcp, and go on with runs whose process is gone
    Serve(Later<serve::Serve>),
    /// Drive runs that others submit to a store that several machines share, without serving anything
    Worker(Later<worker::WorkerArguments>),
    /// Tokens by which programs say who they are to `folio serve`: new, list, revoke
    #[command(subcommand)]
    Token(Later<token::Token>),
    /// Be the memory of a model: the Model Context Protocol over standard input and output
    Mcp(Later<mcp::McpArguments>),
    /// What an agent program calls by itself: session-start, user-prompt, pre-compact, stop
    #[command(subcommand)]
    Hook(Later<hook::Hook>),
    /// Measure what durable work costs on this machine
    Bench(Later<bench::Bench>),
    /// Print completions for a shell
    Completions(Later<completions::Completions>),
}

impl Command {
    /// What it does where a file with settings came with a repository and nobody has looked at it. A hook stops nobody, who looks for what is
    /// wrong is told, and some have no use for settings: a shell that is started asks for completions wherever it is.
    pub(crate) fn with_untrusted(&self) -> Untrusted {
        match self {
            Self::Hook(_) | Self::Doctor(_) => Untrusted::PassedOver,
            Self::Trust(_) | Self::Completions(_) => Untrusted::Ignored,
            Self::Plan(Later(plan)) if plan.only_prints() => Untrusted::Ignored,
            _ => Untrusted::Refused,
        }
    }

    /// Whether it may do several things at the same time.
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

/// Reads a value to look for. One with nothing in it comes of a variable that was empty, and nothing has it.
pub(crate) fn something(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it has nothing in it; left out, it restricts nothing".to_owned());
    }
    Ok(text.to_owned())
}

/// Reads the name of an entry.
pub(crate) fn entry_ref(text: &str) -> Result<EntryRef, String> {
    text.parse()
        .map_err(|_| "not a handle like e42 or an id like obs_01J…".to_owned())
}

/// Reads the name of an entry, and the version that it is to have if one stands behind it: `e42@3`.
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

/// Reads the name of a page.
pub(crate) fn page_ref(text: &str) -> Result<PageRef, String> {
    text.parse()
        .map_err(|_| "not a handle like p7 or an id like page_01J…".to_owned())
}

/// Reads the name of a run.
pub(crate) fn run_ref(text: &str) -> Result<RunRef, String> {
    text.parse()
        .map_err(|_| "not a handle like r3 or an id like run_01J…".to_owned())
}

/// Reads the name of a turn.
pub(crate) fn turn_ref(text: &str) -> Result<TurnRef, String> {
    text.parse()
        .map_err(|_| "not a handle like t3 or an id like turn_01J…".to_owned())
}

/// The values that an update gives from now on: one with nothing in it, alone, says that there are none.
pub(crate) fn all_from_now_on(values: Vec<String>) -> Vec<String> {
    if values == [""] { Vec::new() } else { values }
}

/// Reads `KEY=VALUE`; a text with nothing in it, which says that there is none, is a pair with nothing in it.
pub(crate) fn pair_or_none(text: &str) -> Result<(String, String), String> {
    if text.is_empty() {
        return Ok((String::new(), String::new()));
    }
    pair(text)
}

/// Reads `KEY=VALUE`.
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
    fn the_command_line_does_not_contradict_itself() {
        Arguments::command().debug_assert();
    }
}
