//! Turns the request for a run into a plan and its inputs, within the folder that runs of this server may read.

use std::collections::BTreeMap;
use std::path::Path;

use axum::http::StatusCode;
use folio::Actor;
use folio::engine::plan::{self, Plan, PlanErrors};
use folio::memory::counted::counted;
use folio::memory::{RunId, roles};
use folio::runner::{self, NewRun, Runner, RunnerError};
use serde_json::Value;

use crate::http::problem::Problem;
use crate::wire::plan_mistake;

/// The maximum number of tools, and of hosts, that one request may allow.
pub(crate) const ALLOWED_MAX: usize = 64;
/// The maximum number of mistakes of a plan that the message lists.
const MAX_LISTED_MISTAKES: usize = 10;

/// Refuses operations on runs to roles that may not steer them (M7.7).
pub(crate) fn may_steer(actor: &Actor) -> Result<(), Problem> {
    Ok(roles::may_steer(actor)?)
}

/// The run that a request is for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// One to record.
    New(Box<NewRun>),
    /// The one that the same request recorded under its key.
    Recorded(RunId),
}

impl Asked {
    /// Returns the run that `new` is. If it was refused, that is the `recorded` run of the same request, if there is
    /// one: what has changed since then, such as a path that is gone by now, changes nothing about that run.
    pub(crate) async fn of(
        new: Result<NewRun, Problem>,
        recorded: impl Future<Output = Result<Option<RunId>, Problem>>,
    ) -> Result<Self, Problem> {
        match new {
            Ok(new) => Ok(Self::New(Box::new(new))),
            Err(problem) => recorded.await?.map(Self::Recorded).ok_or(problem),
        }
    }

    /// Records the run. Returns its id, and whether it existed already.
    pub(crate) async fn record(self, keyed_runner: Runner) -> Result<(RunId, bool), RunnerError> {
        match self {
            Self::Recorded(id) => Ok((id, true)),
            Self::New(new) => {
                let submitted = keyed_runner.submit_once(*new).await?;
                Ok((submitted.id, submitted.replayed))
            }
        }
    }
}

/// Refuses too many tools, and unknown names of tools, as the command line does. The tools of workers elsewhere are not
/// known here, so any name passes then.
///
/// # Errors
///
/// The message, and hints at names that may have been meant.
pub(crate) fn check_allowed(runner: &Runner, allowed: &[String]) -> Result<(), (String, Vec<String>)> {
    if allowed.len() > ALLOWED_MAX {
        return Err((format!("names more than {ALLOWED_MAX} tools"), Vec::new()));
    }
    if runner.has_dispatcher() {
        return Ok(());
    }
    runner::check_allowed(runner.tools(), &runner.agents(), allowed).map_err(|error| (error.message, error.hints))
}

/// Returns the given plan (JSON, or a text in YAML or JSON), or else a plan made of the goal. `None` if there is
/// neither; a goal of only white space counts as none.
pub(crate) async fn plan_of(runner: &Runner, plan: Option<Value>, goal: Option<&str>) -> Result<Option<Plan>, Problem> {
    let text = match plan {
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
        None => return Ok(goal.filter(|goal| !goal.trim().is_empty()).map(Plan::of_goal)),
    };
    // A large plan takes a second to check, in which other requests would get no answer.
    let known = runner.known();
    let parsed = tokio::task::spawn_blocking(move || plan::parse(&text, &known)).await;
    let parsed = parsed.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
    parsed.map(Some).map_err(|errors| plan_problem(&errors))
}

/// Returns the problem that lists the mistakes of a plan with their places.
fn plan_problem(mistakes: &PlanErrors) -> Problem {
    let PlanErrors {
        listed: errors,
        unlisted,
    } = mistakes;
    let lines = errors.iter().take(MAX_LISTED_MISTAKES).map(|error| {
        let hint = error.hint.as_ref().map(|hint| format!(" ({hint})"));
        let hint = hint.unwrap_or_default();
        // What the plan lacks as a whole has no path.
        let path = Some(&error.path).filter(|path| !path.is_empty());
        let path = path.map(|path| format!(" [{path}]")).unwrap_or_default();
        format!("\n{}: {} {}{path}{hint}", error.place, error.code, error.message)
    });
    let count = counted(mistakes.count() as u64, "mistake");
    let detail = format!("the plan has {count}:{}", lines.collect::<String>());
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "plan_invalid", detail)
        .errors(errors.iter().map(plan_mistake).collect())
        .hint(match unlisted {
            0 => "all mistakes are listed with line and column; fix them and start the run again".to_owned(),
            _ => format!(
                "the first {} mistakes are listed with line and column; fix them and start the run again",
                errors.len()
            ),
        })
}

/// Returns the inputs of the plan. Paths have to be below the folder that runs may read, and are made absolute here.
///
/// # Errors
///
/// The input whose path is outside of the folder, and a message.
pub(crate) fn inputs_of(
    plan: &Plan,
    inputs: BTreeMap<String, Value>,
    folder: Option<&Path>,
) -> Result<BTreeMap<String, Value>, (String, String)> {
    runner::resolve_path_inputs_within(plan, inputs, folder).map_err(|error| {
        let path = error.value;
        // Callers do not learn what there is outside of the folder.
        let message = match folder {
            Some(folder) => {
                let folder = folder.display();
                format!("{path:?} is not in {folder}, the only folder that runs of this server may read")
            }
            None => format!("{path:?} cannot be read: runs of this server may read no folder"),
        };
        (format!("inputs.{}", error.input), message)
    })
}
