//! `folio fork`, `folio diff` and `folio replay`: a run looked at again.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use folio::engine::spend::Spend;
use folio::engine::{NodeView, Run};
use folio::memory::id::{Ref, RunRef};
use folio::model::Cassette;
use folio::runner::Tape;
use folio::store::RunRow;
use serde::Serialize;

use super::Context;
use super::cancel::node_called;
use super::people::{runner, runner_with};
use super::run::{Driving, Minds, unusable};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::follow;
use crate::output::{Report, Style};
use crate::report::printable;
use crate::report::run::RunLine;

/// `folio fork`.
#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// Which run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// The part that is to be done anew: its path of names, for example survey/files, or its id. What came before it is kept
    #[arg(long, value_name = "NODE")]
    at: String,
    /// Begin nothing yet, so that its plan or its limits can be changed first; `folio continue` and `folio resume` go on with it
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    minds: Minds,
    #[command(flatten)]
    driving: Driving,
}

/// Carries out `folio fork`.
pub(crate) async fn fork(context: &Context<'_>, fork: Fork) -> Result<Exit, Failure> {
    let runner = fork.minds.runner(context, &fork.driving, false).await?;
    let source = runner.row(fork.run).await?;
    let node = node_called(&runner, &source, &fork.at).await?;
    let thread = context.settings.thread.clone();
    let (id, handle) = runner
        .fork(source.id, node, thread, context.actor(), fork.paused)
        .await?;
    if fork.paused {
        context.output.note(format_args!(
            "{handle} waits; `folio continue {handle}` and `folio resume {handle}` go on with it"
        ));
        context.output.report(&RunLine::of(&runner.row(Ref::Id(id)).await?))?;
        return Ok(Exit::Done);
    }
    context.output.detail(format_args!("run: {handle} ({id})"));
    follow::drive(context, &runner, id).await
}

/// `folio diff`.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// One run: r3 or run_…
    #[arg(value_parser = run_ref)]
    one: RunRef,
    /// The other
    #[arg(value_parser = run_ref)]
    other: RunRef,
}

/// How two runs differ.
#[derive(Debug, Serialize)]
struct DiffShape {
    one: SideShape,
    other: SideShape,
    /// Nodes that are not the same in both, by path.
    nodes: Vec<NodeDiff>,
    /// How many nodes are the same in both.
    same: usize,
}

#[derive(Debug, Serialize)]
struct SideShape {
    run: String,
    run_id: String,
    title: String,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    notes: String,
    nodes: usize,
    duration_ms: Option<u64>,
    spent: Spend,
}

#[derive(Debug, Serialize)]
struct NodeDiff {
    path: String,
    /// How it stands in the one; null if it is not there.
    one: Option<NodeSide>,
    other: Option<NodeSide>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
struct NodeSide {
    kind: &'static str,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    notes: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    call: String,
}

impl NodeSide {
    fn of(view: &NodeView<'_>) -> Self {
        Self {
            kind: view.kind.as_str(),
            status: view
                .result
                .map_or_else(|| view.state.as_str().to_owned(), |result| result.status.to_string()),
            stop_reason: view.result.and_then(|r| r.stop_reason).map(|reason| reason.to_string()),
            notes: view.result.map(|result| result.notes.clone()).unwrap_or_default(),
            call: view.call.to_owned(),
        }
    }

    fn text(&self) -> String {
        let reason = self
            .stop_reason
            .as_ref()
            .map(|reason| format!(" ({reason})"))
            .unwrap_or_default();
        let notes = crate::report::first_line(&self.notes, 80);
        let gap = if notes.is_empty() { "" } else { ": " };
        format!("{}{reason}{gap}{notes}", self.status)
    }
}

impl SideShape {
    fn of(row: &RunRow, run: &Run) -> Self {
        let root = run.tree().first().copied();
        let took = root.and_then(|root| Some(root.finished_at?.since(run.started_at()?)));
        Self {
            run: row.handle.to_string(),
            run_id: row.id.to_string(),
            title: row.title.clone(),
            status: row.status.clone(),
            stop_reason: run
                .result()
                .and_then(|r| r.stop_reason)
                .map(|reason| reason.to_string()),
            notes: run.result().map(|result| result.notes.clone()).unwrap_or_default(),
            nodes: run.len(),
            duration_ms: took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            spent: run.purse().map(|purse| purse.spent).unwrap_or_default(),
        }
    }

    fn text(&self) -> String {
        let spent = &self.spent;
        let usd = format!("{}.{:06}", spent.micro_usd / 1_000_000, spent.micro_usd % 1_000_000);
        format!(
            "{} {}: {} nodes, {} calls of models, {} tokens, {usd} dollars, {} calls of tools",
            self.run,
            self.status,
            self.nodes,
            spent.model_calls,
            spent.tokens(),
            spent.tool_calls
        )
    }
}

impl Report for DiffShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        writeln!(out, "{}\n{}\n", self.one.text(), self.other.text())?;
        for node in &self.nodes {
            let path = if node.path.is_empty() { "run" } else { &node.path };
            writeln!(out, "{}", style.strong(path))?;
            for (sign, side) in [("-", &node.one), ("+", &node.other)] {
                if let Some(side) = side {
                    writeln!(out, "  {sign} {}", side.text())?;
                }
            }
        }
        writeln!(out, "{} nodes are the same", self.same)
    }
}

/// Carries out `folio diff`.
pub(crate) async fn diff(context: &Context<'_>, diff: Diff) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let (one, other) = (runner.row(diff.one).await?, runner.row(diff.other).await?);
    let (first, second) = (runner.load(one.id).await?, runner.load(other.id).await?);
    let sides = |run: &Run| -> BTreeMap<String, NodeSide> {
        let views = run.tree();
        // Of several versions of a plan, the step of the last.
        views
            .iter()
            .map(|view| (view.path.to_owned(), NodeSide::of(view)))
            .collect()
    };
    let (mut of_one, mut of_other) = (sides(&first), sides(&second));
    let mut paths: Vec<String> = of_one.keys().chain(of_other.keys()).cloned().collect();
    paths.sort();
    paths.dedup();
    let (mut nodes, mut same) = (Vec::new(), 0);
    for path in paths {
        let (one, other) = (of_one.remove(&path), of_other.remove(&path));
        if one == other {
            same += 1;
        } else {
            nodes.push(NodeDiff { path, one, other });
        }
    }
    context.output.report(&DiffShape {
        one: SideShape::of(&one, &first),
        other: SideShape::of(&other, &second),
        nodes,
        same,
    })?;
    Ok(Exit::Done)
}

/// `folio replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Which run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// Go through the run with the replies of this cassette in the place of its models, and compare what they are asked and what
    /// follows; `folio run --record` makes one. No tool is called and nothing is written
    #[arg(long, value_name = "FILE")]
    cassette: Option<PathBuf>,
}

/// Writes a line for each difference; how many there are in words, `none` if there is none.
fn told(differences: &[String], none: &str, out: &mut String, style: Style) -> Result<String, fmt::Error> {
    for difference in differences {
        writeln!(out, "{}", style.warning(printable(difference)))?;
    }
    Ok(match differences.len() {
        0 => none.to_owned(),
        count => counted(count, "difference"),
    })
}

/// `1 answer`, `3 answers`.
fn counted(count: usize, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {what}{ending}")
}

/// What came of going through a run with a cassette.
#[derive(Debug, Serialize)]
struct AskedShape {
    run: String,
    run_id: String,
    /// Answers of models in its journal.
    answers: usize,
    differences: Vec<String>,
}

impl Report for AskedShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let verdict = told(&self.differences, "asked for and given as on the cassette", out, style)?;
        let answers = counted(self.answers, "answer");
        writeln!(out, "{}: {answers}: {verdict}", style.strong(&self.run))
    }
}

/// What a look at a journal from its first event found.
#[derive(Debug, Serialize)]
struct ReplayShape {
    run: String,
    run_id: String,
    events: usize,
    pages: usize,
    entries: usize,
    differences: Vec<String>,
}

impl Report for ReplayShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let verdict = told(&self.differences, "as they are kept", out, style)?;
        writeln!(
            out,
            "{}: {} events make {} pages with {} entries: {verdict}",
            style.strong(&self.run),
            self.events,
            self.pages,
            self.entries
        )
    }
}

/// Carries out `folio replay`.
pub(crate) async fn replay(context: &Context<'_>, replay: Replay) -> Result<Exit, Failure> {
    if let Some(file) = &replay.cassette {
        return replay_with(context, replay.run, &context.settings.current.join(file)).await;
    }
    let runner = runner(context).await?;
    let row = runner.row(replay.run).await?;
    let found = runner.replay(row.id).await?;
    let is_same = found.differences.is_empty();
    context.output.report(&ReplayShape {
        run: row.handle.to_string(),
        run_id: row.id.to_string(),
        events: found.events,
        pages: found.pages,
        entries: found.entries,
        differences: found.differences,
    })?;
    Ok(if is_same { Exit::Done } else { Exit::Damaged })
}

async fn replay_with(context: &Context<'_>, run: RunRef, file: &Path) -> Result<Exit, Failure> {
    let cassette = Cassette::read(file).map_err(|error| unusable(&error))?;
    let Some(tape) = Tape::of(cassette) else {
        let why = format!("the cassette {} does not say which models it is of", file.display());
        return Err(Failure::usage("cassette_unusable", why).hint("folio run --record makes one that does"));
    };
    // What models are told of tools is a part of what they are asked.
    let runner = runner_with(context, context.registry().await?).await?;
    let row = runner.row(run).await?;
    let found = runner.replay_with(row.id, tape).await?;
    let is_same = found.differences.is_empty();
    context.output.report(&AskedShape {
        run: row.handle.to_string(),
        run_id: row.id.to_string(),
        answers: found.answers,
        differences: found.differences,
    })?;
    Ok(if is_same { Exit::Done } else { Exit::RunNotOk })
}
