//! What people do with runs besides stopping them: answer what they ask, have them pause and go on.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use folio::engine::run::Waiting;
use folio::engine::{NodeId, Run};
use folio::memory::RunId;
use folio::store::RunRow;
use serde::{Deserialize, Serialize};

use super::part::{Accepted, PartOfRun};
use super::runs::{WHO, full, read_body};
use crate::http::app::App;
use crate::http::problem::Problem;
use crate::http::query::{Asked, Named};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/runs/{run}/questions", get(questions))
        .route("/runs/{run}/pause", post(pause))
        .route("/runs/{run}/continue", post(go_on))
        .route("/questions/{question}/answer", post(answer))
}

/// What one task of a run asks.
#[derive(Debug, Serialize)]
struct QuestionShape {
    /// Names it: the run and the node.
    id: String,
    run_id: String,
    node_id: String,
    path: String,
    title: String,
    question: String,
    /// Answers to choose from; anything may be answered if there are none.
    options: Vec<String>,
    /// What holds if nobody answers.
    default: Option<String>,
    /// `question`, or `call` or `plan`: then it waits for a yes at `/approvals/{id}`.
    kind: &'static str,
    /// Of a call: the tool, its arguments, and the hash that names both.
    call: Option<folio::engine::event::Approval>,
}

#[derive(Debug, Serialize)]
struct Questions {
    items: Vec<QuestionShape>,
}

fn questions_of(row: &RunRow, run: &Run) -> Vec<QuestionShape> {
    let shape = |(node, question): (NodeId, &folio::engine::event::Question)| QuestionShape {
        id: format!("{}.{node}", row.id),
        run_id: row.id.to_string(),
        node_id: node.to_string(),
        path: run.node(node).map_or_else(String::new, |view| view.path.to_owned()),
        title: run.title(node),
        question: question.text.clone(),
        options: question.options.clone(),
        default: question.default.clone(),
        kind: "question",
        call: None,
    };
    let waits = |(node, waiting): (NodeId, Waiting<'_>)| {
        let (kind, question, call) = match waiting {
            Waiting::Call(approval) => (
                "call",
                format!("{} {}", approval.tool, approval.args),
                Some(approval.clone()),
            ),
            Waiting::Plan(version) => {
                let titles: Vec<String> = run.steps(node).iter().map(|step| run.title(step.id)).collect();
                ("plan", format!("plan {version}: {}", titles.join(", ")), None)
            }
        };
        QuestionShape {
            id: format!("{}.{node}", row.id),
            run_id: row.id.to_string(),
            node_id: node.to_string(),
            path: run.node(node).map_or_else(String::new, |view| view.path.to_owned()),
            title: run.title(node),
            question,
            options: Vec::new(),
            default: None,
            kind,
            call,
        }
    };
    let questions = run.questions().into_iter().map(shape);
    questions.chain(run.waiting().into_iter().map(waits)).collect()
}

/// Every question of a run that waits for somebody.
async fn questions(
    State(app): State<App>,
    Named((space, name)): Named<(String, String)>,
    asked: Asked,
) -> Result<Json<Questions>, Problem> {
    asked.check(&[])?;
    let row = app.run_row(&space, &name).await?;
    let run = app.runner.load(row.id).await?;
    Ok(Json(Questions {
        items: questions_of(&row, &run),
    }))
}

/// What is answered.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AnswerInput {
    answer: String,
}

/// Answers a question. Durable when it is answered; whoever drives the run goes on with it.
async fn answer(
    State(app): State<App>,
    Named((space, question)): Named<(String, String)>,
    asked: Asked,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Accepted, Problem> {
    asked.check(&[])?;
    let input: AnswerInput = read_body(&headers, body)?;
    if input.answer.trim().is_empty() {
        let missing = "`answer` is missing, or says nothing";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "body_invalid", missing));
    }
    let missing = || Problem::not_found("no_question", format!("there is no question {question}"));
    let (run, node) = question.split_once('.').ok_or_else(missing)?;
    let run: RunId = run.parse().map_err(|_| missing())?;
    let node: NodeId = node.parse().map_err(|_| missing())?;
    let name = run.to_string();
    let row = app.run_row(&space, &name).await?;
    app.runner.answer(row.id, node, &input.answer, WHO).await?;
    Ok((StatusCode::ACCEPTED, Json(full(&app, &space, &name).await?)))
}

/// Begins no more calls of the run, or of a part of it.
async fn pause(State(app): State<App>, part: PartOfRun) -> Result<Accepted, Problem> {
    app.runner.pause(part.run, part.node, WHO).await?;
    part.accepted(&app).await
}

/// Has what was paused go on.
async fn go_on(State(app): State<App>, part: PartOfRun) -> Result<Accepted, Problem> {
    app.runner.go_on(part.run, part.node, WHO).await?;
    part.accepted(&app).await
}
