//! `folio approve` and `folio reject`: a person's decision.

use clap::{Args, ValueEnum};
use folio::Role;
use folio::engine::event::Always;
use folio::engine::run::{PendingApproval, RequestRef};
use folio::memory::id::RunRef;
use folio::runner::{Runner, RunnerError};
use folio::store::RunRow;

use super::Context;
use super::cancel::node_called;
use super::people::{hint_if_not_driven, runner};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::report::run::RunLine;

/// What waits for approval: a run in which only one thing does, or `r4.NODE.MARK` as `folio questions` prints it;
/// without the mark, whatever waits at that node now.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    run: RunRef,
    node: Option<String>,
    mark: Option<String>,
}

/// Parses the name of something that waits for approval.
fn target(text: &str) -> Result<Target, String> {
    let mut parts = text.splitn(3, '.');
    let run = run_ref(parts.next().unwrap_or_default())?;
    let node = parts.next().map(str::to_owned);
    let mark = parts.next().map(str::to_owned);
    Ok(Target { run, node, mark })
}

/// `folio approve`.
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// Run, such as r4, if only one thing waits there; otherwise the id that `folio questions` prints
    #[arg(value_name = "RUN|ID", value_parser = target)]
    target: Target,
    /// For a call: which later calls of the run need no approval either
    #[arg(long, value_name = "WHAT")]
    always: Option<AlwaysArgument>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AlwaysArgument {
    /// Every call of this tool
    Tool,
    /// Every call of this tool with the same arguments
    Arguments,
}

/// `folio reject`.
#[derive(Debug, Args)]
pub(crate) struct Reject {
    /// Run, such as r4, if only one thing waits there; otherwise the id that `folio questions` prints
    #[arg(value_name = "RUN|ID", value_parser = target)]
    target: Target,
    /// Reason, which a model reads when it plans again
    #[arg(long, default_value = "")]
    reason: String,
}

/// Carries out `folio approve`.
pub(crate) async fn approve(context: &Context<'_>, approve: Approve) -> Result<Exit, Failure> {
    let always = approve.always.map(|always| match always {
        AlwaysArgument::Tool => Always::Tool,
        AlwaysArgument::Arguments => Always::Arguments,
    });
    let runner = runner(context).await?;
    let (row, request) = find_request(context, &runner, &approve.target).await?;
    if always.is_some() {
        is_call(&runner, &row, &request).await?;
    }
    runner.approve(row.id, request, always, &context.actor()).await?;
    report_decision(context, &runner, &row).await
}

/// Carries out `folio reject`.
pub(crate) async fn reject(context: &Context<'_>, reject: Reject) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let (row, request) = find_request(context, &runner, &reject.target).await?;
    runner.reject(row.id, request, &reject.reason, &context.actor()).await?;
    report_decision(context, &runner, &row).await
}

async fn report_decision(context: &Context<'_>, runner: &Runner, row: &RunRow) -> Result<Exit, Failure> {
    hint_if_not_driven(context, runner, row).await?;
    let (row, run) = runner.seen(row.id).await?;
    context
        .output
        .report(&RunLine::of(&row, run.summary(), runner.workspace().now()))?;
    Ok(Exit::Done)
}

/// The run, and what in it `target` refers to.
async fn find_request(
    context: &Context<'_>,
    runner: &Runner,
    target: &Target,
) -> Result<(RunRow, RequestRef), Failure> {
    // Said first: whoever may decide nothing may often not read the run either.
    let role = context.actor().role;
    if role != Role::Human {
        let role = role.to_string();
        return Err(RunnerError::NotAPerson { role }.into());
    }
    let row = runner.row(target.run).await?;
    if let Some(name) = &target.node {
        let node = node_called(runner, &row, name).await?;
        let mark = target.mark.clone();
        return Ok((row, RequestRef { node, mark }));
    }
    let run = runner.load(row.id).await?;
    match run.pending_approvals().as_slice() {
        [] => Err(Failure::new(
            Exit::NotFound,
            "no_approval",
            format!("nothing in run {} waits for approval", row.handle),
        )
        .hint("`folio questions` lists everything that waits for approval")),
        [(node, _)] => Ok((row, RequestRef::from(*node))),
        more => Err(Failure::usage(
            "question_not_named",
            format!("{1} things in run {0} wait for approval", row.handle, more.len()),
        )
        .hint(format!(
            "give the id of one; `folio questions {}{}` lists them",
            row.handle,
            context.settings.repeated()
        ))),
    }
}

/// Checks that a call waits there, so that similar calls may need no approval from now on. If it does not wait any
/// more, approving it reports that.
async fn is_call(runner: &Runner, row: &RunRow, request: &RequestRef) -> Result<(), Failure> {
    let run = runner.load(row.id).await?;
    let explanation = match run.pending_approval_at(request.node) {
        Some(PendingApproval::Plan(_)) => "a plan waits there",
        Some(PendingApproval::Check(_)) => "the command of a criterion waits there",
        Some(PendingApproval::Call(_)) | None => return Ok(()),
    };
    let failure = Failure::usage("usage", format!("--always is for calls, and {explanation}"));
    Err(failure.hint("leave --always out"))
}
