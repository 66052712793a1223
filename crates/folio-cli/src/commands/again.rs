//! `folio fork` and `folio replay`: go through a run again.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};
use folio::engine::run::{ForkAt, LimitMet};
use folio::engine::{NodeId, Run};
use folio::memory::counted::counted;
use folio::memory::id::{Ref, RunRef};
use folio::model::Cassette;
use folio::runner::{ForkOptions, Tape};
use serde::Serialize;

use super::budget::{Raised, raise_option};
use super::cancel::node_called;
use super::people::{runner, runner_with};
use super::run::{Driving, Minds, cassette_failure};
use super::{Absent, Context};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::follow;
use crate::output::{Report, Style};
use crate::report::printable;
use crate::report::run::RunLine;

/// `folio fork`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("moment").required(true).args(["at", "before_limit"]))]
pub(crate) struct Fork {
    /// Run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// Node to do again: the path of its step names, such as survey/files, or its id; everything done before it is kept
    #[arg(long, value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    at: Option<String>,
    /// Start from just before a limit stopped the run, with the limits given here
    #[arg(long)]
    before_limit: bool,
    #[command(flatten)]
    raised: Raised,
    /// Use models that have no known price although the budget limits dollars; their cost is not counted
    #[arg(long)]
    allow_unpriced: bool,
    /// Leave the new run paused, so that you can change its plan or limits first; `folio continue` and `folio resume`
    /// carry on with it
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    minds: Minds,
    #[command(flatten)]
    driving: Driving,
}

/// Carries out `folio fork`.
pub(crate) async fn fork(context: &Context<'_>, fork: Fork) -> Result<Exit, Failure> {
    // What is wrong with the other arguments is told without models, which a mistake in the settings may withhold.
    let reader = runner(context).await?;
    let source = reader.row(fork.run).await?;
    let at = match &fork.at {
        Some(node) => ForkAt::Node(node_called(&reader, &source, node).await?),
        None => ForkAt::Limit,
    };
    let is_raised = fork.raised.is_any();
    let mut raised = fork.raised;
    let mut changes = Vec::new();
    let mut unchanged = Vec::new();
    if is_raised {
        let run = reader.load(source.id).await?;
        if fork.before_limit {
            for (limit, path) in limits_in_the_way(&run) {
                let more = raised.only(limit.what);
                more.check_can_increase(&run, limit.node)?;
                match more.is_any() {
                    true => changes.push((more, limit, path)),
                    false => unchanged.push((limit.what, path)),
                }
            }
        }
        for (_, limit, _) in &changes {
            raised.take(limit.what);
        }
        // What could not be raised there cannot be raised here.
        raised.check_can_increase(&run, NodeId::root(source.id))?;
    }
    let runner = fork.minds.runner(context, &fork.driving, false, Absent::Empty).await?;
    let thread = context.settings.thread.clone();
    let options = ForkOptions {
        // Nothing starts before its limits are set.
        paused: fork.paused || is_raised,
        allow_unpriced: fork.allow_unpriced,
    };
    let forked = runner.fork(source.id, at, thread, context.actor(), options).await?;
    let (id, handle) = (forked.id, forked.handle);
    if let Some(files) = &forked.files {
        let folder = format!(
            "the folder of {handle} is not the same as that of {} was",
            source.handle
        );
        context.output.note(format_args!("{folder}: {}", printable(files)));
    }
    if is_raised {
        let row = runner.row(Ref::Id(id)).await?;
        let raising = async {
            if !changes.is_empty() {
                let begun = runner.load(id).await?;
                let parts = begun.tree();
                for (more, limit, path) in &changes {
                    let part = parts.iter().find(|view| view.path == path);
                    match part.map(|part| part.id) {
                        _ if path.is_empty() => more.change(context, &runner, &row, None).await?,
                        Some(part) => more.change(context, &runner, &row, Some(part)).await?,
                        // It belongs to a plan that the fork does not have yet.
                        None => unchanged.push((limit.what, path.clone())),
                    }
                }
            }
            match raised.is_any() {
                true => raised.change(context, &runner, &row, None).await,
                false => Ok(()),
            }
        };
        let changed = raising.await;
        if changed.is_err() {
            context
                .output
                .note(format_args!("{handle} is paused, with its limits unchanged"));
        }
        changed?;
        for (kind, path) in &unchanged {
            let whose = if path.is_empty() { "the run" } else { path };
            context.output.note(format_args!(
                "{} also stopped at a limit that is as it was: {}",
                printable(whose),
                raise_option(*kind)
            ));
        }
        if !fork.paused {
            runner.go_on(id, None, &context.actor()).await?;
        }
    }
    let again = context.settings.repeated();
    if fork.paused {
        context.output.note(format_args!(
            "{handle} is paused; to carry on, use `folio continue {handle}{again}` and `folio resume {handle}{again}`"
        ));
        let (row, run) = runner.seen(id).await?;
        context
            .output
            .report(&RunLine::of(&row, run.summary(), runner.workspace().now()))?;
        return Ok(Exit::Done);
    }
    context.output.detail(format_args!("run: {handle} ({id})"));
    let hint = || format!("the new run is {handle}; resume it with `folio resume {handle}{again} --model …`");
    follow::drive(context, &runner, id)
        .await
        .map_err(|failure| match failure.code() {
            "needs_model" => failure.hint(hint()),
            _ => failure,
        })
}

/// The limits that stopped something in `run`, each once, with the path of the part that has it; the path of the run is
/// empty.
fn limits_in_the_way(run: &Run) -> Vec<(LimitMet, String)> {
    let mut found: Vec<(LimitMet, String)> = Vec::new();
    for (_, limit) in run.limits_met() {
        if let Some(part) = run.node(limit.node)
            && found.iter().all(|(known, _)| *known != limit)
        {
            found.push((limit, part.path.to_owned()));
        }
    }
    found
}

/// `folio replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// Replay the run with the model replies in this cassette (from `folio run --record`) and compare requests and
    /// results; calls no tool and writes nothing
    #[arg(long, value_name = "FILE")]
    cassette: Option<PathBuf>,
}

/// Writes a line for each difference, and returns how many there are in words, or `none` if there are none.
fn write_differences(differences: &[String], none: &str, out: &mut String, style: Style) -> Result<String, fmt::Error> {
    for difference in differences {
        writeln!(out, "{}", style.warning(printable(difference)))?;
    }
    Ok(match differences.len() {
        0 => none.to_owned(),
        count => counted(count as u64, "difference"),
    })
}

/// The outcome of replaying a run with a cassette.
#[derive(Debug, Serialize)]
struct AskedShape {
    run: String,
    run_id: String,
    /// The number of model answers in its journal.
    answers: usize,
    differences: Vec<String>,
}

impl Report for AskedShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let verdict = write_differences(&self.differences, "requests and results as on the cassette", out, style)?;
        let answers = counted(self.answers as u64, "answer");
        writeln!(out, "{}: {answers}: {verdict}", style.strong(&self.run))
    }
}

/// The outcome of replaying a journal from its first event.
#[derive(Debug, Serialize)]
struct ReplayShape {
    run: String,
    run_id: String,
    events: usize,
    pages: usize,
    entries: usize,
    differences: Vec<String>,
    /// Whether the run went on each time that the differences were checked again: then they may be due to what
    /// happened meanwhile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    goes_on: bool,
}

impl Report for ReplayShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let verdict = write_differences(&self.differences, "as they are stored", out, style)?;
        writeln!(
            out,
            "{}: {} {} {} with {}: {verdict}",
            style.strong(&self.run),
            counted(self.events as u64, "event"),
            if self.events == 1 { "makes" } else { "make" },
            counted(self.pages as u64, "page"),
            counted(self.entries as u64, "entry")
        )?;
        let is_of_words = |line: &String| line.starts_with("entry ") && line.ends_with(" differs");
        if !self.differences.is_empty() && self.differences.iter().all(is_of_words) {
            writeln!(
                out,
                "if another version of Folio wrote what differs, it may be the same in other words"
            )?;
        }
        if self.goes_on {
            writeln!(
                out,
                "the run is still going, so these may be recent events; check again when it waits or has ended"
            )?;
        }
        Ok(())
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
    let exit = match (found.differences.is_empty(), found.goes_on) {
        (true, _) => Exit::Done,
        (false, false) => Exit::Damaged,
        (false, true) => Exit::Unavailable,
    };
    let replayed = ReplayShape {
        run: row.handle.to_string(),
        run_id: row.id.to_string(),
        events: found.events,
        pages: found.pages,
        entries: found.entries,
        differences: found.differences,
        goes_on: found.goes_on,
    };
    context.output.report_ending(&replayed, exit)
}

async fn replay_with(context: &Context<'_>, run: RunRef, file: &Path) -> Result<Exit, Failure> {
    let cassette = Cassette::read(file).map_err(|error| cassette_failure(&error))?;
    let Some(tape) = Tape::of(cassette) else {
        let message = format!("the cassette {} does not say which models it is of", file.display());
        return Err(Failure::usage("cassette_unusable", message).hint("record one that does with `folio run --record`"));
    };
    // The descriptions of tools are part of what models are asked.
    let runner = runner_with(context, context.registry().await?).await?;
    let row = runner.row(run).await?;
    let found = runner.replay_with(row.id, tape).await?;
    let exit = if found.differences.is_empty() {
        Exit::Done
    } else {
        Exit::RunNotOk
    };
    let report = AskedShape {
        run: row.handle.to_string(),
        run_id: row.id.to_string(),
        answers: found.answers,
        differences: found.differences,
    };
    context.output.report_ending(&report, exit)
}
