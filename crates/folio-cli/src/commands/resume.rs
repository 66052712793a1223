//! `folio resume`: resumes runs whose process is gone.

use clap::Args;
use folio::engine::run::RunSummary;
use folio::memory::id::RunRef;
use folio::runner::Runner;
use folio::store::RunRow;
use folio::store::store::RunQuery;
use serde_json::json;

use super::driving::{Driving, Minds, without_models_note};
use super::people::nobody_to_ask;
use super::{Absent, Context};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::follow;
use crate::leftovers::not_resumed_note;

/// How many runs are listed as driven by others.
const LISTED_RUNS_MAX: u32 = 20;

/// The code for a run that waits for an answer or an approval.
const WAITS_FOR_PERSON: &str = "waits_for_person";

/// `folio resume`.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Run to resume: r3 or run_… [default: every run that has not ended, oldest first]
    #[arg(value_parser = run_ref)]
    run: Option<RunRef>,
    #[command(flatten)]
    minds: Minds,
    #[command(flatten)]
    driving: Driving,
}

/// Carries out `folio resume`.
pub(crate) async fn run(context: &Context<'_>, resume: Resume) -> Result<Exit, Failure> {
    let (models, unopened) = resume.minds.models_if_any(context)?;
    let runner = resume
        .minds
        .runner_with(context, &resume.driving, false, (models, Absent::Empty))
        .await?;
    let rows = match resume.run {
        Some(run) => vec![runner.row(run).await?],
        None => runner.unfinished().await?,
    };
    if let Some(unopened) = unopened {
        for row in &rows {
            // What was begun with a judge is not resumed without one. What has its result needs neither.
            if !row.has_ended() && runner.load(row.id).await?.needs().asks_model() {
                return Err(unopened);
            }
        }
        context.output.note(without_models_note(&unopened));
    }
    match (resume.run, rows.as_slice()) {
        (Some(_), [row]) if runner.has_person() || resume.minds.is_non_interactive() => {
            follow::drive(context, &runner, row.id).await
        }
        (Some(_), [row]) => one_for_nobody(context, &runner, row).await,
        _ => all(context, &runner, rows).await,
    }
}

/// Resumes the run of `row` although there is no terminal. What it asks of the person who was there where it was begun
/// stays open for that person: nobody said that nobody answers.
async fn one_for_nobody(context: &Context<'_>, runner: &Runner, row: &RunRow) -> Result<Exit, Failure> {
    match follow::drive_until_asked(context, runner, row.id).await {
        Ok((exit, _)) => return Ok(exit),
        // Whoever ends the program leaves the run, whatever it asks.
        Err(failure) if failure.code() == "cancelled" => return Err(failure),
        Err(_) if is_left_asking(runner, row).await => {}
        Err(failure) => return Err(failure),
    }
    let waits = nobody_to_ask(runner, row, context.settings.repeated()).await;
    context.output.trouble(&waits);
    let mut output_failure = None;
    report_left(context, row, (WAITS_FOR_PERSON, &waits), &mut output_failure);
    output_failure.map_or(Ok(Exit::RunNotOk), Err)
}

/// Whether the run of `row` was given up because it waits for a person while none is there; not if that cannot be read,
/// so that what stopped the run is reported.
async fn is_left_asking(runner: &Runner, row: &RunRow) -> bool {
    let summary = current_summary(runner, row).await;
    summary.is_ok_and(|summary| runner.has_nobody_to_answer(&summary))
}

/// Resumes `rows`, the runs that have not ended. A failure of one is reported and does not stop the others; the exit code is
/// that of the worst. A run that could not be shown is reported at the end.
async fn all(context: &Context<'_>, runner: &Runner, rows: Vec<RunRow>) -> Result<Exit, Failure> {
    let workspace = runner.workspace();
    if rows.is_empty() {
        let driven_rows = workspace
            .store()
            .runs(workspace.space(), &RunQuery::running(LISTED_RUNS_MAX))
            .await?;
        let handles: Vec<_> = driven_rows.iter().map(|row| row.handle.to_string()).collect();
        if handles.is_empty() {
            context.output.note("every run has ended");
        } else {
            let handles = handles.join(", ");
            context
                .output
                .note(format_args!("nothing to resume: other processes drive {handles}"));
        }
    }
    let (mut worst, mut output_failure) = (Exit::Done, None);
    for row in rows {
        let before = current_summary(runner, &row).await?;
        if before.needs_manual_resume() {
            let note = not_resumed_note(&row, context.settings.repeated());
            context.output.trouble(&note);
            report_left(context, &row, ("interrupted_again", &note), &mut output_failure);
            worst = worst.max(Exit::RunNotOk);
            continue;
        }
        let again = context.settings.repeated();
        let waits = match (before.paused, runner.has_nobody_to_answer(&before)) {
            (true, _) => Some((
                "paused",
                format!(
                    "{0} is paused; continue it with `folio continue {0}{again}`",
                    row.handle
                ),
            )),
            (false, true) => Some((WAITS_FOR_PERSON, nobody_to_ask(runner, &row, again).await)),
            (false, false) => None,
        };
        if let Some((code, waits)) = waits {
            context.output.note(&waits);
            report_left(context, &row, (code, &waits), &mut output_failure);
            continue;
        }
        let result = follow::drive_until_asked(context, runner, row.id).await;
        let exit = match result {
            // Interrupting one run, or leaving it, ends them all.
            Ok((exit, true)) => return Ok(exit),
            Ok((exit, false)) => exit,
            Err(failure) if failure.code() == "cancelled" => return Err(failure),
            Err(_) if is_left_asking(runner, &row).await => {
                let waits = nobody_to_ask(runner, &row, again).await;
                context.output.note(&waits);
                report_left(context, &row, (WAITS_FOR_PERSON, &waits), &mut output_failure);
                continue;
            }
            Err(failure) => {
                let exit = failure.exit();
                if failure.is_of_output() {
                    output_failure = Some(failure);
                } else {
                    context
                        .output
                        .trouble(format_args!("{} was not resumed: {failure}", row.handle));
                    report_left(context, &row, (failure.code(), failure.message()), &mut output_failure);
                }
                exit
            }
        };
        worst = worst.max(exit);
    }
    output_failure.map_or(Ok(worst), Err)
}

/// Writes the line of a run that is left as it is, for programs: it has no `run_ended` that would tell them. That it
/// could not be written is reported once all runs were resumed.
fn report_left(
    context: &Context<'_>,
    row: &RunRow,
    (code, message): (&str, &str),
    output_failure: &mut Option<Failure>,
) {
    if !context.output.is_json() {
        return;
    }
    let written = context.output.line(&json!({
        "event": "run_not_resumed",
        "run_id": row.id,
        "handle": row.handle,
        "code": code,
        "message": message,
    }));
    if let Err(failure) = written
        && !failure.is_closed_pipe()
    {
        output_failure.get_or_insert(failure);
    }
}

/// The present state of a run, as lists show it.
async fn current_summary(runner: &Runner, row: &RunRow) -> Result<RunSummary, Failure> {
    let workspace = runner.workspace();
    let summaries = workspace.store().runs_so_far(workspace.space(), vec![row.id]).await?;
    let known = summaries.into_iter().next().map(|(_, summary)| summary);
    Ok(runner.summary_of(row, known).await)
}
