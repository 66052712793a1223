//! One call of a model, from the engine's request to the outcome.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::run::{AskAction, FailedCallUsage, ModelAnswer, ModelFailure, ModelFailureKind};
use folio_engine::talk::{self, ModelRole, Stop};
use folio_model::{
    Message, ModelError, ModelErrorKind, NewSession, Place, Reply, Request, Role, Speaker, StopCause, ToolCall,
    ToolDescription, Worker,
};
use folio_tools::ToolContext;
use folio_tools::panics::catch_panic;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::RunnerModel;
use crate::perform::GRACE;
use crate::places::{self, Places};
use crate::tool_executor::{self, WorkerContext};

/// Why an agent program is not started.
const COMMAND_REFUSED_MESSAGE: &str =
    "was not started: it is a program, and this run does not allow its command; start the run with --allow-shell";
/// How long a call waits for a provider that wants no requests for a while. If it takes longer, the run knows which
/// fallback to ask, or when to retry.
const MAX_QUIET_WAIT: Duration = Duration::from_secs(60);

/// The outcome of a call of a model.
#[derive(Debug)]
pub(crate) struct AskEnded {
    /// The node, and the number of the call in it.
    pub(crate) ask: (folio_engine::NodeId, u32),
    pub(crate) answer: ModelAnswer,
    pub(crate) duration: Duration,
}

/// Asks `model` and waits for its answer, its time limit, or a cancellation. `all` are the places that all models
/// share. If anything that the model is asked panics, that is its answer.
pub(crate) async fn ask(
    model: RunnerModel,
    all: Option<Arc<Places>>,
    action: AskAction,
    worker_context: WorkerContext,
    sessions: mpsc::Sender<NewSession>,
) -> AskEnded {
    let id = (action.node, action.call);
    let (began, name) = (Instant::now(), model.name.clone());
    let asking = Box::pin(ask_unguarded(model, all, action, worker_context, sessions));
    catch_panic(asking).await.unwrap_or_else(|message| AskEnded {
        ask: id,
        answer: failed_by_panic(&name, &message),
        duration: began.elapsed(),
    })
}

fn failed_by_panic(name: &str, message: &str) -> ModelAnswer {
    let kind = ModelFailureKind::Failed;
    ModelAnswer::Failed(ModelFailure::new(kind, format!("{name}: it panicked: {message}")))
}

async fn ask_unguarded(
    model: RunnerModel,
    all: Option<Arc<Places>>,
    action: AskAction,
    worker_context: WorkerContext,
    sessions: mpsc::Sender<NewSession>,
) -> AskEnded {
    let id = (action.node, action.call);
    let began = Instant::now();
    let answer = match model.model.worker() {
        Some(worker) => ask_worker(&model, worker, all.as_ref(), action, worker_context, sessions).await,
        None => tokio::select! {
            biased;
            () = worker_context.context.cancel.cancelled() => ModelAnswer::Stopped { used: None },
            answer = ask_provider(&model, all.as_ref(), action) => answer,
        },
    };
    AskEnded {
        ask: id,
        answer,
        duration: began.elapsed(),
    }
}

/// Has a program or a tool do the task.
async fn ask_worker(
    model: &RunnerModel,
    worker: Worker<'_>,
    all: Option<&Arc<Places>>,
    action: AskAction,
    worker_context: WorkerContext,
    sessions: mpsc::Sender<NewSession>,
) -> ModelAnswer {
    match (place_of(model, worker, &action, &worker_context.context), worker) {
        (Ok(_), Worker::Tool { name, argument }) => {
            tool_executor::run_task_by_tool(model, all, (name, argument), action, worker_context).await
        }
        (Ok(place), _) => {
            let place = Place {
                session: action.session.clone(),
                sessions: Some(sessions),
                has_person: worker_context.has_person,
                ..place
            };
            run_agent(model, all, action, place).await
        }
        (Err(failure), _) => ModelAnswer::Failed(failure),
    }
}

/// Asks the model of a provider, once there is a place.
async fn ask_provider(model: &RunnerModel, all: Option<&Arc<Places>>, action: AskAction) -> ModelAnswer {
    let (timeout, of_task) = (action.timeout, action.attempt);
    let request = request_of(action);
    // The time limit starts with the request, not with waiting for a place: the calls that occupy the places have
    // limits of their own.
    let (place, _others) = match model.place_within(MAX_QUIET_WAIT, all).await {
        Ok(placed) => placed,
        Err(quiet) => {
            let message = format!(
                "{} was not asked: its provider accepts no requests for a while",
                model.name
            );
            return ModelAnswer::Failed(ModelFailure {
                retry_after: Some(quiet),
                ..ModelFailure::new(ModelFailureKind::RateLimited, message)
            });
        }
    };
    let mut unheard = |_| {};
    let reply_future = reply_of(&model.name, model.model.reply(&request, &mut unheard));
    match tokio::time::timeout(timeout, reply_future).await {
        Ok(result) => {
            settle_place(place, &result);
            result.map_or_else(|error| failed(&error, model), |reply| answer_of(reply, model))
        }
        Err(_) => ModelAnswer::Failed(answered_late(&model.name, timeout, of_task)),
    }
}

/// The failure of a model that did not answer within `timeout`. `of_task` is the limit that the task sets.
fn answered_late(name: &str, timeout: Duration, of_task: Option<Duration>) -> ModelFailure {
    let message = format!("{name} did not answer within {timeout:?}");
    if of_task.is_some_and(|of_task| of_task <= timeout) {
        let message = format!("{message}, the `timeout` of the task, and is not asked again");
        ModelFailure::new(ModelFailureKind::TimedOut, message)
    } else {
        ModelFailure::new(ModelFailureKind::Unavailable, message)
    }
}

/// The reply of the model called `name`. A panic counts as a failure and affects nothing else.
pub(crate) async fn reply_of(
    name: &str,
    reply_future: impl Future<Output = Result<Reply, ModelError>>,
) -> Result<Reply, ModelError> {
    catch_panic(reply_future).await.unwrap_or_else(|message| {
        // How far it came is unknown, and a retry is not expected to help.
        Err(ModelError::new(
            name,
            ModelErrorKind::Failed,
            format!("it panicked: {message}"),
        ))
    })
}

/// Releases the place of a call, and adapts the number of places to the provider's answer.
pub(crate) fn settle_place(place: places::Place, result: &Result<Reply, ModelError>) {
    match result {
        Ok(_) => place.release_answered(),
        Err(error) if error.kind == ModelErrorKind::RateLimited => place.release_rate_limited(error.retry_after),
        // Other failures do not say whether it is asked too much.
        Err(_) => drop(place),
    }
}

/// The place where an agent works, if the run allows it: an agent program is allowed as commands are, one on another
/// machine as a tool of a server is; or by a person's approval (E9.14, E9.17).
fn place_of(
    model: &RunnerModel,
    worker: Worker<'_>,
    action: &AskAction,
    context: &ToolContext,
) -> Result<Place, ModelFailure> {
    let refuse = |cause: &str| {
        let name = model.worker_name();
        format!("was not asked: it {cause}, and this run does not allow it; start the run with --allow-tool {name}")
    };
    let refusal = match worker {
        _ if action.allowed || context.allowed => None,
        Worker::Program(argv) if context.shell.allows_command(argv) => None,
        Worker::Program(_) => Some(COMMAND_REFUSED_MESSAGE.to_owned()),
        Worker::Remote(_) => Some(refuse("is on another machine")),
        Worker::Tool { name, .. } => Some(refuse(&format!("is the tool {name}"))),
    };
    if let Some(reason) = refusal {
        let message = format!("{} {reason}, or where a person can approve it", model.name);
        return Err(ModelFailure::new(ModelFailureKind::Denied, message));
    }
    let folder = match worker {
        Worker::Program(_) => {
            let folder = context.folder_of_programs(model.model.folder()).map_err(|error| {
                let message = format!("{} was not started: {}", model.name, error.message);
                ModelFailure::new(ModelFailureKind::Invalid, message)
            })?;
            Some(folder)
        }
        Worker::Remote(_) | Worker::Tool { .. } => None,
    };
    Ok(Place {
        folder,
        stop: context.cancel.clone(),
        ..Place::default()
    })
}

/// Has an agent do what `action` asks for. It has its own time limit, and the grace period to stop when it is told to
/// (E9.11).
async fn run_agent(model: &RunnerModel, all: Option<&Arc<Places>>, action: AskAction, place: Place) -> ModelAnswer {
    let attempt = action.attempt;
    let request = request_of(action);
    let stop = place.stop.clone();
    // It is told to stop when its run is stopped, and when its time is over.
    let place = Place {
        stop: stop.child_token(),
        ..place
    };
    let place_of_provider = tokio::select! {
        biased;
        () = stop.cancelled() => return ModelAnswer::Stopped { used: None },
        place = model.place(all) => place,
    };
    let mut unheard = |_| {};
    let mut reply_future = pin!(reply_of(
        &model.name,
        model.model.reply_in(&request, &place, &mut unheard)
    ));
    let mut is_late = false;
    let result = tokio::select! {
        biased;
        result = &mut reply_future => Some(result),
        () = stop.cancelled() => None,
        () = tokio::time::sleep(attempt.unwrap_or(Duration::MAX)), if attempt.is_some() => {
            is_late = true;
            place.stop.cancel();
            None
        }
    };
    let answer = match result {
        Some(Ok(reply)) => answer_of(reply, model),
        // It was told to stop, and did.
        Some(Err(error)) if stop.is_cancelled() => stopped(&error, model),
        Some(Err(error)) => failed(&error, model),
        // What still runs after the grace period is dropped, which kills it.
        None => match tokio::time::timeout(GRACE * 2, reply_future).await {
            // It finished before it was stopped: what it did counts.
            Ok(Ok(reply)) => answer_of(reply, model),
            ended if is_late => {
                let limit = attempt.unwrap_or_default();
                let message = format!(
                    "{} took longer than the {limit:?} that its task allows, and was stopped",
                    model.name
                );
                let failure = ModelFailure::new(ModelFailureKind::Unknown, message);
                let used = match ended {
                    Ok(Err(error)) => used_up(&error, model),
                    _ => FailedCallUsage::ByKind,
                };
                ModelAnswer::Failed(ModelFailure { used, ..failure })
            }
            Ok(Err(error)) => stopped(&error, model),
            Err(_) => ModelAnswer::Stopped { used: None },
        },
    };
    drop(place_of_provider);
    answer
}

fn failed(error: &ModelError, model: &RunnerModel) -> ModelAnswer {
    ModelAnswer::Failed(ModelFailure {
        kind: kind_of(error.kind),
        message: error.to_string(),
        retry_after: error.retry_after,
        used: used_up(error, model),
    })
}

/// The end of an agent that was told to stop, with what it had used by then, if it reported that (E9.11).
fn stopped(error: &ModelError, model: &RunnerModel) -> ModelAnswer {
    let used = match used_up(error, model) {
        FailedCallUsage::Known(used) => Some(used),
        FailedCallUsage::Unknown | FailedCallUsage::ByKind => None,
    };
    ModelAnswer::Stopped { used }
}

fn used_up(error: &ModelError, model: &RunnerModel) -> FailedCallUsage {
    match &error.used {
        folio_model::UsedUp::Known(usage) => FailedCallUsage::Known(model.spend_of(usage)),
        folio_model::UsedUp::ByKind => FailedCallUsage::ByKind,
        _ => FailedCallUsage::Unknown,
    }
}

pub(crate) fn request_of(action: AskAction) -> Request {
    let role = match action.purpose.role() {
        ModelRole::Planner => Role::Planner,
        ModelRole::Executor => Role::Executor,
        ModelRole::Judge => Role::Judge,
    };
    let messages = action.messages.into_iter().map(message_of).collect();
    let tools = action.tools.iter().map(|tool| ToolDescription {
        name: tool.name.clone(),
        description: Arc::clone(&tool.description),
        args_schema: Arc::clone(&tool.args_schema),
    });
    Request {
        role,
        messages,
        tools: tools.collect(),
        answer_schema: action.answer_schema,
        tokens_max: action.answer_tokens,
        temperature: action.temperature,
        idempotency_key: action.idempotency_key,
    }
}

fn message_of(message: talk::Message) -> Message {
    let calls = message.calls.into_iter().map(|call| ToolCall {
        id: call.id,
        tool: call.tool,
        args: call.args,
    });
    Message {
        speaker: match message.speaker {
            talk::Speaker::System => Speaker::System,
            talk::Speaker::User => Speaker::User,
            talk::Speaker::Assistant => Speaker::Assistant,
            talk::Speaker::Tool => Speaker::Tool,
        },
        text: message.text,
        tool_calls: calls.collect(),
        answers: message.answers,
    }
}

pub(crate) fn answer_of(reply: Reply, model: &RunnerModel) -> ModelAnswer {
    let calls = reply.tool_calls.into_iter().map(|call| talk::Wanted {
        id: call.id,
        tool: call.tool,
        args: call.args,
    });
    let mut recorded = talk::Reply {
        text: reply.text,
        calls: calls.collect(),
        stop: match reply.stop {
            StopCause::Done | StopCause::ToolCalls => Stop::Done,
            StopCause::Length => Stop::Length,
            StopCause::Refusal => Stop::Refusal,
        },
        permissions: reply.permissions,
    };
    // Done before anything is recorded: every call is made and has its own answer, even if the model repeated an id.
    recorded.make_call_ids_unique();
    ModelAnswer::Replied {
        reply: recorded,
        used: reply.usage.as_ref().map(|usage| model.spend_of(usage)),
        model: model.name.clone(),
    }
}

fn kind_of(kind: ModelErrorKind) -> ModelFailureKind {
    match kind {
        ModelErrorKind::Unauthorised => ModelFailureKind::Unauthorised,
        ModelErrorKind::Refused => ModelFailureKind::Refused,
        ModelErrorKind::RateLimited => ModelFailureKind::RateLimited,
        ModelErrorKind::TooLong => ModelFailureKind::TooLong,
        ModelErrorKind::Unreached => ModelFailureKind::Unreached,
        ModelErrorKind::Malformed => ModelFailureKind::Malformed,
        ModelErrorKind::Invalid => ModelFailureKind::Invalid,
        ModelErrorKind::Failed => ModelFailureKind::Failed,
        ModelErrorKind::Unknown => ModelFailureKind::Unknown,
        _ => ModelFailureKind::Unavailable,
    }
}
