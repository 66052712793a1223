//! The scratchbook of a run's thread, for the tools `scratch_*`.

use async_trait::async_trait;
use folio_memory::id::Ref;
use folio_memory::tokens::Estimate;
use folio_memory::{Actor, Role, RunId, ThreadKey, TurnId};
use folio_store::error::ErrorKind;
use folio_store::workspace::{ScratchCaller, Workspace, WorkspaceError};
use folio_tools::{FailureKind, ScratchSource, ToolError, ToolRequest};
use serde_json::{Value, json};

/// The scratchbook of the thread that a run belongs to.
#[derive(Debug)]
pub(crate) struct RunBook {
    pub(crate) workspace: Workspace,
    pub(crate) run: RunId,
    /// `None` for a run of an older version; it then uses the default thread.
    pub(crate) turn: Option<TurnId>,
}

#[async_trait]
impl ScratchSource for RunBook {
    async fn call(&self, request: &ToolRequest) -> Result<Value, ToolError> {
        let thread = match self.turn {
            Some(turn) => {
                self.workspace
                    .turn(Ref::Id(turn))
                    .await
                    .map_err(tool_error)?
                    .begun
                    .thread
            }
            None => ThreadKey::main(),
        };
        // The author of the plan requested this, so the rights are those of a model on its own scratchbook.
        let mut actor = Actor::new(Role::Client, "plan").in_run(self.run);
        actor.turn = self.turn;
        let caller = ScratchCaller {
            actor: &actor,
            thread: &thread,
            tokens: &Estimate,
            idempotency_key: Some(request.request_id.clone()),
        };
        let result = self
            .workspace
            .call_scratch_tool(&caller, &request.tool, &request.args)
            .await;
        let mut answer = result.map_err(tool_error)?;
        match &mut answer.structured {
            Value::Object(fields) => drop(fields.insert("text".to_owned(), json!(answer.text))),
            other => *other = json!({"text": answer.text}),
        }
        Ok(answer.structured)
    }
}

fn tool_error(error: WorkspaceError) -> ToolError {
    let kind = match (&error, error.kind()) {
        (WorkspaceError::Refused(_), _) => FailureKind::Denied,
        (_, ErrorKind::NotFound) => FailureKind::NotFound,
        (_, ErrorKind::Invalid) => FailureKind::InvalidArgs,
        (_, ErrorKind::Unavailable) => FailureKind::Unavailable,
        _ => FailureKind::Failed,
    };
    let code = match &error {
        WorkspaceError::Invalid(_) | WorkspaceError::Refused(_) => error.code(),
        _ => "scratchbook",
    };
    ToolError::new(kind, code, error.to_string())
}
