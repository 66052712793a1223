//! `folio approve` and `folio reject`: a person's decision.

use std::fmt::{self, Write as _};

use clap::{Args, ValueEnum};
use folio::Role;
use folio::engine::event::Always;
use folio::engine::run::{OpenRequest, PendingApproval, RequestRef, Requested};
use folio::memory::id::RunRef;
use folio::runner::{Runner, RunnerError};
use folio::store::RunRow;
use folio_server::wire::QuestionShape;
use serde::Serialize;

use super::Context;
use super::cancel::node_called;
use super::people::{hint_if_not_driven, runner};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::run::RunLine;

/// What waits for approval: a run in which only one thing does, or `r4.NODE.MARK` as `folio questions` prints it;
/// without the mark, what waits at that node when the command reads it.
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
    /// Id that `folio questions` prints; or the run, such as r4, if only one thing waits there
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
    /// Id that `folio questions` prints; or the run, such as r4, if only one thing waits there
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
    let found = find_request(context, &runner, &approve.target).await?;
    if always.is_some() {
        is_call(&runner, &found.row, &found.request).await?;
    }
    let Found { row, request, .. } = &found;
    runner
        .approve(row.id, request.clone(), always, &context.actor())
        .await?;
    report_decision(context, &runner, "approved", found).await
}

/// Carries out `folio reject`.
pub(crate) async fn reject(context: &Context<'_>, reject: Reject) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let found = find_request(context, &runner, &reject.target).await?;
    let Found { row, request, .. } = &found;
    runner
        .reject(row.id, request.clone(), &reject.reason, &context.actor())
        .await?;
    report_decision(context, &runner, "rejected", found).await
}

/// Something that waited for approval.
struct Found {
    row: RunRow,
    /// Exactly what was read, so that nothing that came to wait meanwhile is decided on unseen.
    request: RequestRef,
    /// What it asks; `None` if it did not wait any more when it was read.
    asked: Option<QuestionShape>,
}

/// The answer to a decision: what was decided on, and how the run stands.
#[derive(Debug, Serialize)]
struct Decision {
    #[serde(flatten)]
    run: RunLine,
    /// What was decided on.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided: Option<QuestionShape>,
    #[serde(skip)]
    verb: &'static str,
}

impl Report for Decision {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        if let Some(asked) = &self.decided {
            writeln!(out, "{}: {}", self.verb, asked.question)?;
        }
        self.run.text(out, style)
    }
}

async fn report_decision(
    context: &Context<'_>,
    runner: &Runner,
    verb: &'static str,
    found: Found,
) -> Result<Exit, Failure> {
    hint_if_not_driven(context, runner, &found.row).await?;
    let (row, run) = runner.seen(found.row.id).await?;
    context.output.report(&Decision {
        run: RunLine::of(&row, run.summary(), runner.workspace().now()),
        decided: found.asked,
        verb,
    })?;
    Ok(Exit::Done)
}

/// What in which run `target` refers to.
async fn find_request(context: &Context<'_>, runner: &Runner, target: &Target) -> Result<Found, Failure> {
    // Said first: whoever may decide nothing may often not read the run either.
    let role = context.actor().role;
    if role != Role::Human {
        let role = role.to_string();
        return Err(RunnerError::NotAPerson { role }.into());
    }
    let row = runner.row(target.run).await?;
    let node = match &target.node {
        Some(name) => Some(node_called(runner, &row, name).await?),
        None => None,
    };
    let run = runner.load(row.id).await?;
    let requests = run.open_requests(runner.workspace().now());
    let approvals = requests
        .iter()
        .filter(|request| matches!(request.what, Requested::Approval(_)))
        .map(OpenRequest::reference);
    let mut waiting: Vec<RequestRef> = match node {
        Some(node) => approvals.filter(|one| one.node == node).collect(),
        None => approvals.collect(),
    };
    let request = match (node, &target.mark, waiting.len()) {
        // If it does not wait any more, it is refused by its name.
        (Some(node), Some(mark), _) => RequestRef {
            node,
            mark: Some(mark.clone()),
        },
        (_, _, 1) => waiting.remove(0),
        // What comes to wait there after this was read is not decided on unseen.
        (Some(node), None, 0) => {
            let path = run.node(node).map_or("", |view| view.path);
            let path = if path.is_empty() { "the run" } else { path }.to_owned();
            return Err(RunnerError::NoApproval { path }.into());
        }
        (_, _, 0) => {
            return Err(Failure::new(
                Exit::NotFound,
                "no_approval",
                format!("nothing in run {} waits for approval", row.handle),
            )
            .hint("`folio questions` lists everything that waits for approval"));
        }
        (_, _, more) => {
            return Err(Failure::usage(
                "question_not_named",
                format!("{more} things in run {} wait for approval", row.handle),
            )
            .hint(format!(
                "give the id of one; `folio questions {}{}` lists them",
                row.handle,
                context.settings.repeated()
            )));
        }
    };
    let id = format!("{}.{request}", row.id);
    let shapes = QuestionShape::all_of(&row, &run, runner.workspace().now());
    let asked = shapes.into_iter().find(|shape| shape.id == id);
    Ok(Found { row, request, asked })
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
