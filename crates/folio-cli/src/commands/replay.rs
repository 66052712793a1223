//! `folio replay`: goes through a run again without calling anything.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use folio::memory::counted::counted;
use folio::memory::id::RunRef;
use folio::model::Cassette;
use folio::runner::Tape;
use folio_server::wire::ReplayShape;
use serde::Serialize;

use super::Context;
use super::people::{runner, runner_with};
use super::recorder::cassette_failure;
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::printable;

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
    let replayed = ReplayShape::of(&row, found);
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
