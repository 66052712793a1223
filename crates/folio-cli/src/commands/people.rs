//! What people do with runs besides cancelling them: answer questions, pause and continue.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use folio::Workspace;
use folio::engine::{NodeId, Run};
use folio::memory::id::{Ref, RunId, RunRef};
use folio::runner::{Runner, RunnerError, RunnerOptions};
use folio::store::{RunQuery, RunRow};
use folio::tools::Registry;
use folio_server::wire::QuestionShape;
use serde::Serialize;

use super::Context;
use super::cancel::{node_called, note_ended};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::instant;
use crate::report::list::List;
use crate::report::run::{RunLine, active_paths, join_few, path_of};
use crate::settings::quoted;

/// How many runs are read at a time.
const RUNS_AT_A_TIME: u32 = 1_000;

/// `folio questions`.
#[derive(Debug, Args)]
pub(crate) struct Questions {
    /// Only those of this run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: Option<RunRef>,
    /// Maximum questions to list [default: 100; with --json, all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: Option<u32>,
}

/// How many questions people are shown unless they ask for more or less.
const QUESTIONS: u32 = 100;

/// `folio answer`.
#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// Run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// Answer to give
    answer: String,
    /// Node that asks: the path of its step names, or its id [default: the only one that asks]
    #[arg(long, value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    node: Option<String>,
}

/// `folio pause` and `folio continue`.
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// Run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// Only this node: the path of its step names, such as survey/files, or its id
    #[arg(long, value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    node: Option<String>,
}

/// The open questions, as far as they are listed.
#[derive(Debug, Serialize)]
struct RequestList {
    #[serde(flatten)]
    list: List<QuestionShape>,
    /// How many questions, and how many approvals, each run waits for, listed or not.
    #[serde(skip)]
    of_runs: HashMap<(String, bool), usize>,
    /// The options that another command needs to use the same space.
    #[serde(skip)]
    again: String,
}

impl RequestList {
    /// The first `limit` of `items`, or all.
    fn of(mut items: Vec<QuestionShape>, limit: Option<u32>, as_of: u64, again: &str) -> Self {
        let mut of_runs = HashMap::new();
        for item in &items {
            *of_runs.entry((item.run.clone(), is_question(item))).or_default() += 1;
        }
        let total = items.len() as u64;
        if let Some(limit) = limit {
            items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        let list = List {
            total: Some(total),
            ..List::whole(items, as_of)
        };
        let again = again.to_owned();
        Self { list, of_runs, again }
    }
}

/// Whether `item` is a question, not something to be approved.
fn is_question(item: &QuestionShape) -> bool {
    item.kind == "question"
}

/// The path of the node that asks; `run` for the run itself, which has none.
fn path_of_asker(item: &QuestionShape) -> &str {
    match item.path.as_str() {
        "" => "run",
        path => path,
    }
}

/// The node in a command: its path, unless a shell would read that in another way or the run itself asks.
fn node_in_command(item: &QuestionShape) -> &str {
    match item.path.as_str() {
        "" => &item.node_id,
        path if path.contains('[') => &item.node_id,
        path => path,
    }
}

/// The name of what is asked with the short name of its run. `folio approve` and `folio reject` take both.
fn short_id(item: &QuestionShape) -> String {
    let reference = item
        .id
        .split_once('.')
        .map_or(item.id.as_str(), |(_, reference)| reference);
    format!("{}.{reference}", item.run)
}

impl Report for RequestList {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        for item in &self.list.items {
            let is_question = is_question(item);
            let of_run = self.of_runs.get(&(item.run.clone(), is_question));
            if is_question {
                writeln!(out, "{} {}: {}", item.run, path_of_asker(item), item.question)?;
            } else {
                let (id, path) = (short_id(item), path_of_asker(item));
                writeln!(out, "{id} {path} waits for approval: {}", item.question)?;
            }
            for option in &item.options {
                writeln!(out, "  - {option}")?;
            }
            if let Some(default) = &item.default {
                writeln!(out, "  default: {default}")?;
            }
            if let Some(until) = item.until {
                writeln!(out, "  waits until {}", instant(until))?;
            }
            let again = &self.again;
            let way = match (is_question, of_run.copied().unwrap_or(1)) {
                (true, 1) => format!("folio answer {} ANSWER{again}", item.run),
                (true, _) => format!(
                    "folio answer {} --node {} ANSWER{again}",
                    item.run,
                    node_in_command(item)
                ),
                // With its id: what comes to wait meanwhile is not meant.
                (false, _) => format!("folio approve {0}{again}, or folio reject {0}{again}", short_id(item)),
            };
            writeln!(out, "  {}", style.faint(way))?;
        }
        let total = self.list.total.unwrap_or_default();
        match total.saturating_sub(self.list.items.len() as u64) {
            0 if total == 0 => out.push_str("no open questions\n"),
            0 => {}
            more => writeln!(
                out,
                "{}",
                style.faint(format_args!("… {more} more; --limit {total} lists all"))
            )?,
        }
        Ok(())
    }
}

pub(super) async fn runner(context: &Context<'_>) -> Result<Runner, Failure> {
    runner_with(context, Registry::with_builtins()).await
}

/// A runner with the tools that a plan is checked against.
pub(super) async fn runner_with(context: &Context<'_>, registry: Registry) -> Result<Runner, Failure> {
    let workspace = context.workspace_if_any().await?;
    Ok(Runner::new(workspace, registry, RunnerOptions::default()))
}

/// Says what to do if no process drives the run that was changed.
pub(super) async fn hint_if_not_driven(context: &Context<'_>, runner: &Runner, row: &RunRow) -> Result<(), Failure> {
    if !is_driven(runner.workspace(), row.id).await? {
        let (handle, again) = (row.handle, context.settings.repeated());
        context.output.note(format_args!(
            "no process drives {handle}; resume it with `folio resume {handle}{again}`"
        ));
    }
    Ok(())
}

/// Whether a living process drives a run, or the run has ended. There are moments between the submission of a run and
/// its first driver, as between one driver and the next: a run in which something has just happened counts as not
/// driven only if that is still so a moment later.
pub(super) async fn is_driven(workspace: &Workspace, run: RunId) -> Result<bool, Failure> {
    const RECENT: Duration = Duration::from_secs(2);
    const RECHECK_PAUSE: Duration = Duration::from_millis(300);
    let is_left = |row: &RunRow| !row.has_ended() && !row.driven;
    let row = workspace.run(Ref::Id(run)).await?;
    if is_left(&row) && workspace.now().since(row.updated_at) < RECENT {
        tokio::time::sleep(RECHECK_PAUSE).await;
        return Ok(!is_left(&workspace.run(Ref::Id(run)).await?));
    }
    Ok(!is_left(&row))
}

/// What a run waits for that nobody here can give, and where it is listed. `again` are the options that another command
/// needs to use the same space.
pub(crate) async fn nobody_to_ask(runner: &Runner, row: &RunRow, again: &str) -> String {
    let waits_for = match runner.load(row.id).await {
        Ok(run) if run.pending_approvals().is_empty() => "an answer",
        Ok(run) if run.questions().is_empty() => "approval",
        Ok(_) => "an answer and for approval",
        // Why it cannot be read is reported by whoever resumes it.
        Err(_) => "an answer",
    };
    let run = row.handle;
    format!("{run} waits for {waits_for}, and there is nobody to ask; `folio questions {run}{again}` lists it")
}

/// Carries out `folio questions`.
pub(crate) async fn questions(context: &Context<'_>, arguments: Questions) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let workspace = runner.workspace();
    let as_of = workspace.head().await?.0;
    let items = match arguments.run {
        Some(run) => {
            let row = runner.row(run).await?;
            QuestionShape::all_of(&row, &*runner.load(row.id).await?, workspace.now())
        }
        None => all_open_requests(&runner).await?,
    };
    let limit = arguments
        .limit
        .or_else(|| (!context.output.is_json()).then_some(QUESTIONS));
    let questions = RequestList::of(items, limit, as_of, context.settings.repeated());
    context.output.report(&questions)?;
    Ok(Exit::Done)
}

/// The questions of all runs of the space that have not ended, newest run first. Only those runs are read whose last
/// commit says that they ask something, or does not say.
async fn all_open_requests(runner: &Runner) -> Result<Vec<QuestionShape>, Failure> {
    let workspace = runner.workspace();
    let (mut items, mut before) = (Vec::new(), None);
    loop {
        let query = RunQuery {
            before,
            ..RunQuery::running(RUNS_AT_A_TIME)
        };
        let rows = workspace.runs(&query).await?;
        let summaries = workspace.runs_so_far(&rows).await?;
        for row in &rows {
            if summaries.get(&row.id).is_none_or(|summary| summary.asks > 0) {
                items.extend(QuestionShape::all_of(
                    row,
                    &*runner.load(row.id).await?,
                    workspace.now(),
                ));
            }
        }
        match rows.last() {
            Some(last) if rows.len() >= RUNS_AT_A_TIME as usize => before = Some(last.handle.0),
            _ => return Ok(items),
        }
    }
}

/// Carries out `folio answer`.
pub(crate) async fn answer(context: &Context<'_>, arguments: Answer) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let row = runner.row(arguments.run).await?;
    let node = match &arguments.node {
        Some(name) => node_called(&runner, &row, name).await?,
        None => only_open_question(&runner, &row, context.settings.repeated()).await?,
    };
    runner.answer(row.id, node, &arguments.answer, &context.actor()).await?;
    hint_if_not_driven(context, &runner, &row).await?;
    let (row, run) = runner.seen(row.id).await?;
    context
        .output
        .report(&RunLine::of(&row, run.summary(), runner.workspace().now()))?;
    Ok(Exit::Done)
}

/// The node that asks the only open question of a run. `again` are the options that another command needs to use the
/// same space.
async fn only_open_question(runner: &Runner, row: &RunRow, again: &str) -> Result<NodeId, Failure> {
    let run = runner.load(row.id).await?;
    match run.questions().as_slice() {
        [] => {
            let message = format!("run {} has no open question", row.handle);
            let failure = Failure::new(Exit::NotFound, "no_question", message);
            if run.pending_approvals().is_empty() {
                return Err(failure);
            }
            Err(failure.hint(format!(
                "it waits for approval; `folio questions {}{again}` lists what",
                row.handle
            )))
        }
        [(node, _)] => Ok(*node),
        more => Err(Failure::usage(
            "question_not_named",
            format!("run {} has {} open questions", row.handle, more.len()),
        )
        .hint(format!(
            "choose one with --node; `folio questions {}{again}` lists them",
            row.handle
        ))),
    }
}

/// Carries out `folio pause`.
pub(crate) async fn pause(context: &Context<'_>, arguments: Pause) -> Result<Exit, Failure> {
    let PauseTarget { runner, row, node } = PauseTarget::of(context, arguments).await?;
    runner.pause(row.id, node, &context.actor()).await?;
    let (row, run) = runner.seen(row.id).await?;
    context.output.advise(paused_in_words(&row, &run, node));
    context
        .output
        .report(&RunLine::of(&row, run.summary(), runner.workspace().now()))?;
    Ok(Exit::Done)
}

/// Carries out `folio continue`.
pub(crate) async fn go_on(context: &Context<'_>, arguments: Pause) -> Result<Exit, Failure> {
    let PauseTarget { runner, row, node } = PauseTarget::of(context, arguments).await?;
    if !row.has_ended() {
        let (_, run) = runner.seen(row.id).await?;
        let part = node.and_then(|node| run.node(node));
        if part.map_or(!run.is_run_paused(), |part| part.result.is_none() && !part.paused) {
            let prefix = part.map_or_else(String::new, |part| format!("{} of ", path_of(&part)));
            context
                .output
                .note(format_args!("{prefix}{} is not paused", row.handle));
        }
    }
    runner.go_on(row.id, node, &context.actor()).await?;
    hint_if_not_driven(context, &runner, &row).await?;
    let (row, run) = runner.seen(row.id).await?;
    context
        .output
        .report(&RunLine::of(&row, run.summary(), runner.workspace().now()))?;
    Ok(Exit::Done)
}

/// A run that is to be paused or continued, and the part of it that is meant.
struct PauseTarget {
    runner: Runner,
    row: RunRow,
    node: Option<NodeId>,
}

impl PauseTarget {
    async fn of(context: &Context<'_>, arguments: Pause) -> Result<Self, Failure> {
        let runner = runner(context).await?;
        let row = runner.row(arguments.run).await?;
        let node = match &arguments.node {
            Some(name) => Some(node_called(&runner, &row, name).await?),
            None => None,
        };
        if row.has_ended() {
            // As over HTTP: an ended run can neither pause nor continue.
            return Err(RunnerError::Ended.into());
        }
        if let Some(node) = node {
            note_ended(context, &runner, &row, node).await?;
        }
        Ok(Self { runner, row, node })
    }
}

/// Notes that a run has already ended.
pub(super) fn note_run_ended(context: &Context<'_>, row: &RunRow) {
    context
        .output
        .note(format_args!("{} has already ended: {}", row.handle, row.status));
}

/// A line saying that a run, or its part `node`, is paused, and what is still under way.
fn paused_in_words(row: &RunRow, run: &Run, node: Option<NodeId>) -> String {
    let of = node.and_then(|node| run.node(node)).map_or_else(
        || row.handle.to_string(),
        |view| format!("{} of {}", path_of(&view), row.handle),
    );
    let active_calls = if row.driven {
        active_paths(run, node)
    } else {
        Vec::new()
    };
    let still = match active_calls.as_slice() {
        [] => "no calls are under way".to_owned(),
        names => format!("calls under way finish first: {}", join_few(names)),
    };
    let part = node
        .and_then(|node| run.node(node))
        .filter(|view| !view.path.is_empty());
    let part = part.map_or_else(String::new, |view| format!(" --node {}", quoted(view.path)));
    let run = row.handle;
    format!("{of} is paused and starts no new calls until `folio continue {run}{part}`; {still}")
}
