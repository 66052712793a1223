//! How people steer runs, other than by cancelling them: answer questions, pause and continue.

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use axum::extract::State;
use folio::engine::Run;
use folio::engine::run::RequestRef as AskedOf;
use folio::memory::Role;
use folio::memory::id::Ref;
use folio::runner::RunnerError;
use schemars::JsonSchema;
use serde::Deserialize;

use super::part::PartOfRun;
use super::runs::load_run_in_full;
use crate::http::answer::{Accepted, Answer};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::describe_operation;
use crate::http::input::{Body, body_invalid};
use crate::http::problem::Problem;
use crate::http::query::{Nothing, QueryParams};
use crate::wire::run::RunInFull;
use crate::wire::{List, QuestionShape};

const GROUP: &str = "people";

pub(super) fn routes() -> ApiRouter<App> {
    ApiRouter::new()
        .api_route(
            "/runs/{run}/questions",
            get_with(
                questions,
                describe_operation(
                    "list_questions",
                    GROUP,
                    "Lists the open questions of a run and what waits for approval",
                ),
            ),
        )
        .api_route(
            "/runs/{run}/pause",
            post_with(
                pause,
                describe_operation("pause_run", GROUP, "Pauses a run or a part of it: no more calls begin"),
            ),
        )
        .api_route(
            "/runs/{run}/continue",
            post_with(
                continue_run,
                describe_operation("continue_run", GROUP, "Continues a paused run or a part of it"),
            ),
        )
        .api_route(
            "/questions/{question}/answer",
            post_with(
                answer,
                describe_operation("answer_question", GROUP, "Answers a question of a run"),
            ),
        )
}

/// Returns every open question of a run, and whatever waits for approval.
async fn questions(caller: Caller, _: QueryParams<Nothing>) -> Result<Answer<List<QuestionShape>>, Problem> {
    let row = caller.run_row().await?;
    let as_of = caller.workspace.head().await?.0;
    let run = caller.runner.load(row.id).await?;
    Ok(Answer::of(List::whole(
        QuestionShape::all_of(&row, &run, caller.workspace.now()),
        as_of,
    )))
}

/// The answer to a question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnswerInput {
    /// The text of the answer.
    answer: String,
}

/// Answers a question. The answer is durable when this returns; the driver of the run continues with it.
async fn answer(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(input): Body<AnswerInput>,
) -> Result<Accepted<RunInFull>, Problem> {
    if input.answer.trim().is_empty() {
        return Err(body_invalid("`answer` is empty"));
    }
    caller.may_steer()?;
    let question = caller.name("question");
    let missing = || Problem::not_found("no_question", format!("there is no question {question}"));
    let (run, reference) = question.split_once('.').ok_or_else(missing)?;
    let reference: AskedOf = reference.parse().map_err(|_| missing())?;
    let row = caller.run_called(run).await?;
    let runner = caller.keyed_runner();
    runner.answer(row.id, reference, &input.answer, &caller.actor).await?;
    load_run_in_full(&caller, &row).await.map(Accepted::of)
}

/// Refuses an operation on a run that has ended, unless the same request was recorded before.
async fn require_unfinished(part: &PartOfRun) -> Result<(), Problem> {
    let caller = &part.caller;
    if part.row.status == Run::RUNNING {
        return Ok(());
    }
    match caller.key() {
        Some(key) if caller.workspace.is_recorded(&caller.actor, key).await? => Ok(()),
        _ => Err(RunnerError::Ended.into()),
    }
}

/// Pauses the run or a part of it: no more calls begin.
async fn pause(part: PartOfRun) -> Result<Accepted<RunInFull>, Problem> {
    require_unfinished(&part).await?;
    part.caller
        .keyed_runner()
        .pause(part.row.id, part.node, &part.caller.actor)
        .await?;
    part.accepted().await
}

/// Continues what was paused. A run that began paused and was never driven is driven here if the caller is a person and
/// there is a free place; otherwise a worker that looks for such runs finds it later.
async fn continue_run(State(app): State<App>, part: PartOfRun) -> Result<Accepted<RunInFull>, Problem> {
    require_unfinished(&part).await?;
    let (caller, id) = (&part.caller, part.row.id);
    let so_far = caller.workspace.runs_so_far(std::slice::from_ref(&part.row)).await?;
    let was_paused = so_far.get(&id).is_some_and(|so_far| so_far.paused);
    caller.keyed_runner().go_on(id, part.node, &caller.actor).await?;
    let row = caller.workspace.run(Ref::Id(id)).await?;
    let is_resumed = was_paused && !row.was_driven && !row.driven && !row.has_ended();
    if is_resumed
        && caller.actor.role == Role::Human
        && let Ok(place) = app.driving.take_slot(caller.workspace.space())
        && let Some(guard) = app
            .driving
            .drive(caller.runner.clone(), id, caller.actor.clone(), place)
    {
        guard.detach();
    }
    part.accepted().await
}
