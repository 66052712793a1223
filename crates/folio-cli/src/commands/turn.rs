//! `folio turn`: begin and end turns, and look at them.

use clap::{Args, Subcommand};
use folio::Workspace;
use folio::memory::id::{Ref, TurnHandle, TurnRef};
use folio::memory::turn::{Turn, TurnQuery};
use folio::store::workspace::{ExportedEntries, Questions, TurnInput};
use folio_server::wire::{manifest_line, touched_line};
use serde_json::json;

use super::context::{assembled, counter};
use super::{Context, text_or_stdin};
use crate::arguments::turn_ref;
use crate::error::{Exit, Failure};
use crate::models;
use crate::report::list::{List, remark};
use crate::report::observation::Observation;
use crate::report::turn::{BegunShape, Ended, EndedShape, TurnInFull, TurnShape};
use crate::settings::quoted;

/// How many open turns are read at a time.
const OPEN_TURNS_READ: u32 = 100;

/// `folio turn`.
#[derive(Debug, Subcommand)]
pub(crate) enum TurnCommand {
    /// Begin a turn and assess its input
    ///
    /// Decides how urgent the input is, whether it is clear, and what to do first.
    Begin(Begin),
    /// End a turn: report open work and what was learned, archive what is resolved
    End(End),
    /// Show a turn, its decisions and its results
    Show(Show),
    /// List turns, newest first
    List(ListTurns),
}

/// `folio turn begin`.
#[derive(Debug, Args)]
pub(crate) struct Begin {
    /// Input of the turn; - reads it from standard input
    #[arg(long, default_value = "", value_name = "TEXT", hide_default_value = true)]
    input: String,
    /// Mark the input as background work that nobody waits for
    #[arg(long)]
    background: bool,
    /// Ask nothing if the input is unclear: the conversation tells what is meant
    #[arg(long)]
    no_clarify: bool,
    /// Also print the memory for the prompt, within this token budget
    #[arg(long, value_name = "TOKENS")]
    budget: Option<u32>,
}

/// `folio turn end`.
#[derive(Debug, Args)]
pub(crate) struct End {
    /// Turn: t3 or turn_… [default: --turn, else the last open turn of the thread, neither
    /// of a run nor in the background]
    #[arg(value_parser = turn_ref, value_name = "TURN")]
    which: Option<TurnRef>,
}

/// `folio turn show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Turn: t3 or turn_…
    #[arg(value_parser = turn_ref, value_name = "TURN")]
    which: TurnRef,
    /// Print the export of the turn as JSON Lines: the entries it touched, and a manifest of all entries
    #[arg(long)]
    export: bool,
    /// With --export, include the texts of all entries at that time, not only of those it touched
    #[arg(long, requires = "export")]
    full: bool,
}

/// `folio turn list`.
#[derive(Debug, Args)]
pub(crate) struct ListTurns {
    /// List those of every thread
    #[arg(long)]
    all_threads: bool,
    /// Only turns that have not ended
    #[arg(long)]
    open: bool,
    /// Maximum number of results
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Continue after this turn, the last one of an earlier list: t3
    #[arg(long, value_name = "TURN", value_parser = turn_handle)]
    cursor: Option<TurnHandle>,
}

fn turn_handle(text: &str) -> Result<TurnHandle, String> {
    text.parse().map_err(|_| "not a handle like t3".to_owned())
}

/// Carries out `folio turn`.
pub(crate) async fn run(context: &Context<'_>, command: TurnCommand) -> Result<Exit, Failure> {
    match command {
        TurnCommand::Begin(begin) => self::begin(context, begin).await,
        TurnCommand::End(end) => self::end(context, end).await,
        TurnCommand::Show(show) => self::show(context, show).await,
        TurnCommand::List(list) => self::list(context, list).await,
    }
}

async fn begin(context: &Context<'_>, begin: Begin) -> Result<Exit, Failure> {
    let workspace = context.workspace_outside_turn().await?;
    let input = TurnInput {
        thread: context.settings.thread.clone(),
        input: text_or_stdin(begin.input)?,
        run: None,
        background: begin.background,
    };
    let questions = if begin.no_clarify {
        Questions::LeftOut
    } else {
        Questions::Written
    };
    let started = models::with_advisor(&workspace, &context.settings)?
        .begin_turn_under(&context.person(), input, None, questions)
        .await?;
    let assembled = match begin.budget {
        Some(budget) => {
            let turn = Ref::Id(started.turn.begun.id);
            Some(
                assembled(
                    context,
                    &workspace,
                    String::new(),
                    (budget, counter(context)),
                    Some(turn),
                )
                .await?,
            )
        }
        None => None,
    };
    let shape = |entry| Observation::of(entry, workspace.now());
    context.output.report(&BegunShape {
        turn: TurnShape::of(&started.turn),
        question: started.question.as_ref().map(shape),
        answered: started.answered.as_ref().map(shape),
        order: started.order.order,
        context: assembled,
        replayed: started.replayed,
    })?;
    Ok(Exit::Done)
}

async fn end(context: &Context<'_>, end: End) -> Result<Exit, Failure> {
    let workspace = context.workspace_outside_turn_if_any().await?;
    let turn = match end.which.or(context.settings.turn) {
        Some(turn) => turn,
        None => Ref::Id(last_open(context, &workspace).await?.begun.id),
    };
    let ended = models::with_advisor(&workspace, &context.settings)?
        .end_turn(&context.person(), turn)
        .await?;
    let thread = &ended.turn.begun.thread;
    let mut again = context.settings.repeated().to_owned();
    if context.settings.names_thread || *thread != context.settings.thread {
        again.push_str(&format!(" --thread {}", quoted(&thread.0)));
    }
    context.output.report(&Ended {
        shape: EndedShape::of(ended),
        again,
    })?;
    Ok(Exit::Done)
}

async fn last_open(context: &Context<'_>, workspace: &Workspace) -> Result<Turn, Failure> {
    let open = open_in_front(context, workspace, 1).await?.pop();
    open.ok_or_else(|| {
        let message = format!(
            "the thread {} has no open turn that somebody waits for",
            context.settings.thread
        );
        Failure::new(Exit::NotFound, "not_found", message).hint(format!(
            "begin one with `folio turn begin`; `folio turn list --open{}` lists those of runs and in the background",
            context.settings.repeated()
        ))
    })
}

/// The open turns of the thread, newest first, `max` at most: neither those of runs, which end with their run, nor those
/// in the background, which whoever began them ends by name.
pub(super) async fn open_in_front(
    context: &Context<'_>,
    workspace: &Workspace,
    max: usize,
) -> Result<Vec<Turn>, Failure> {
    let mut query = TurnQuery {
        thread: Some(context.settings.thread.clone()),
        ended: Some(false),
        limit: OPEN_TURNS_READ,
        ..TurnQuery::default()
    };
    let mut found = Vec::new();
    // Any number of the others may be open besides.
    loop {
        let open = workspace.turns(&query).await?;
        let is_last = open.len() < OPEN_TURNS_READ as usize;
        query.before = open.last().map(|turn| turn.handle.0);
        let in_front = open
            .into_iter()
            .filter(|turn| turn.begun.run.is_none() && !turn.begun.background);
        found.extend(in_front.take(max - found.len()));
        if is_last || found.len() >= max {
            return Ok(found);
        }
    }
}

async fn show(context: &Context<'_>, show: Show) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    if !show.export {
        let turn = workspace.turn(show.which).await?;
        context.output.report(&TurnInFull(TurnShape::of(&turn)))?;
        return Ok(Exit::Done);
    }
    let export = workspace.turn_export(show.which).await?;
    let now = workspace.now();
    context.output.line(&json!({
        "record": "turn",
        "turn_id": export.turn,
        "at": export.at,
        "as_of": export.as_of,
        "entries": export.entries(),
        "touched": export.touched.len(),
    }))?;
    // A space may have any number of entries.
    let mut touched = workspace.read_exported(&export, ExportedEntries::Touched).await?;
    while let Some(exported) = workspace.next_exported(&mut touched).await? {
        for one in &exported {
            context.output.line(&touched_line(one, now))?;
        }
    }
    let all = match show.full {
        true => ExportedEntries::All,
        false => ExportedEntries::Manifest,
    };
    let mut all = workspace.read_exported(&export, all).await?;
    while let Some(exported) = workspace.next_exported(&mut all).await? {
        for one in &exported {
            context.output.line(&manifest_line(one, show.full, now))?;
        }
    }
    Ok(Exit::Done)
}

async fn list(context: &Context<'_>, list: ListTurns) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let query = TurnQuery {
        thread: (!list.all_threads).then(|| context.settings.thread.clone()),
        ended: list.open.then_some(false),
        before: list.cursor.map(|handle| handle.0),
        limit: list.limit + 1,
        ..TurnQuery::default()
    };
    let as_of = workspace.head().await?.0;
    let turns = workspace.turns(&query).await?;
    let turns = turns.iter().map(TurnShape::of).collect();
    let is_start = list.cursor.is_none();
    let list = List::part(turns, list.limit, as_of, TurnShape::name).from_start(is_start);
    context.output.report(&list)?;
    if let Some(remark) = remark(&list, "no turn matches") {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
