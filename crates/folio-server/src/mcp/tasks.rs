//! Runs as tasks of the protocol (its extension `io.modelcontextprotocol/tasks`): the journal of the run is the task,
//! so the task outlives this process, and another process can be asked for it.

use folio::engine::Run;
use folio::memory::RunId;
use folio::memory::id::RunRef;
use folio::store::RunRow;
use rmcp::ErrorData;
use rmcp::model::{
    CancelTaskParams, CreateTaskResult, DetailedTask, GetTaskParams, GetTaskResult, Task, TaskPayload, TaskStatus,
    UpdateTaskParams,
};
use serde_json::{Value, json};

use super::run_text::status_line;
use super::{Caller, Mcp, asking, tools};
use crate::http::problem::Problem;

/// The polling interval that clients are told, in milliseconds.
const POLL_MS: u64 = 1_000;

/// Returns the task of a run.
pub(super) fn task_of(row: &RunRow, line: &str) -> Task {
    let times = (row.created_at.to_string(), row.updated_at.to_string());
    Task::new(row.id.to_string(), TaskStatus::Working, times.0, times.1)
        .with_status_message(line)
        .with_poll_interval_ms(POLL_MS)
}

/// Returns the answer of a call that began a run.
pub(super) fn task_created(row: &RunRow, line: &str) -> CreateTaskResult {
    CreateTaskResult::new(task_of(row, line))
}

fn run_of(task: &str) -> Result<RunId, ErrorData> {
    let unknown = |_| ErrorData::invalid_params(format!("{task:?} is not a task of this server"), None);
    task.parse().map_err(unknown)
}

fn failed(problem: &Problem) -> ErrorData {
    let data = Some(json!({"code": problem.code()}));
    match problem.status() {
        status if status < 500 => ErrorData::invalid_params(problem.text(), data),
        _ => ErrorData::internal_error(problem.text(), data),
    }
}

impl Mcp {
    /// Returns the state of the run that is the task.
    pub(super) async fn task(&self, caller: &Caller, params: &GetTaskParams) -> Result<GetTaskResult, ErrorData> {
        let id = run_of(&params.task_id)?;
        let task = self.detailed(caller, id).await.map_err(|problem| failed(&problem))?;
        Ok(GetTaskResult::new(task))
    }

    async fn detailed(&self, caller: &Caller, id: RunId) -> Result<DetailedTask, Problem> {
        // A caller who may not see the run does not see the task.
        caller.workspace.run(RunRef::Id(id)).await?;
        let (row, run) = self.shared.runner.seen(id).await?;
        let task = task_of(&row, &status_line(&row, &run, &self.shared.options.command_options));
        let payload = match row.status.as_str() {
            Run::RUNNING => {
                let forms = asking::forms(&run, &[]);
                if forms.is_empty() {
                    TaskPayload::Working
                } else {
                    TaskPayload::InputRequired {
                        input_requests: asking::requests(forms),
                    }
                }
            }
            "cancelled" => TaskPayload::Cancelled,
            _ => {
                let answer = tools::run::answer(self, caller, id).await?;
                match json!(answer.into_result(&self.shared.options.tokens)) {
                    Value::Object(result) => TaskPayload::Completed { result },
                    _ => TaskPayload::Working,
                }
            }
        };
        Ok(DetailedTask::new(task, payload))
    }

    /// Records the answers of a person to the questions of the task.
    pub(super) async fn update(&self, caller: &Caller, params: &UpdateTaskParams) -> Result<(), ErrorData> {
        let id = run_of(&params.task_id)?;
        let work = async {
            caller.workspace.run(RunRef::Id(id)).await?;
            self.take_answers(caller, id, &params.input_responses).await
        };
        work.await.map(drop).map_err(|problem| failed(&problem))
    }

    /// Requests that the run be cancelled.
    pub(super) async fn cancel(&self, caller: &Caller, params: &CancelTaskParams) -> Result<(), ErrorData> {
        let id = run_of(&params.task_id)?;
        let stopped = async {
            let row = caller.workspace.run(RunRef::Id(id)).await?;
            if !row.has_ended() {
                self.shared.runner.cancel(id, None, &caller.actor).await?;
            }
            Ok::<(), Problem>(())
        };
        stopped.await.map_err(|problem| failed(&problem))
    }
}
