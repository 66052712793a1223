//! The turns that runs begin and end.

use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::trace::FAILED;
use folio_memory::{Actor, Change, Role, RunId, ThreadKey, TraceNote, TurnId, TurnQuery};
use folio_store::StoreError;
use folio_store::workspace::{TurnInput, WorkspaceError};
use serde_json::json;

use super::Runner;
use crate::error::RunnerError;

/// How many bytes of a goal its turn keeps as input.
const MAX_INPUT_BYTES: usize = 16 * 1024;

impl Runner {
    /// The turn of a new run, and the change that begins it if the run has a turn of its own.
    pub(crate) async fn turn_of(
        &self,
        actor: Actor,
        thread: ThreadKey,
        goal: &str,
        run: RunId,
    ) -> Result<(Actor, TurnId, Option<Change>), RunnerError> {
        if let Some(turn) = actor.turn {
            return Ok((actor, turn, None));
        }
        let input = TurnInput {
            thread,
            input: goal[..goal.floor_char_boundary(MAX_INPUT_BYTES)].to_owned(),
            run: Some(run),
            background: false,
        };
        let drafted = self.shared.workspace.draft_turn(input).await?;
        let turn = drafted.new.id;
        Ok((
            actor.in_turn(turn),
            turn,
            Some(Change::BeginTurn(Box::new(drafted.new))),
        ))
    }

    /// Ends the turn that the run began. A failure does not affect the run: the turn stays open, and whoever looks for
    /// [such turns](Self::end_leftover_turns) ends it.
    pub(super) async fn end_own_turn(&self, run: RunId) {
        let workspace = &self.shared.workspace;
        let actor = Actor::new(Role::Planner, "runner").in_run(run);
        let query = TurnQuery {
            run: Some(run),
            ended: Some(false),
            limit: 1,
            ..TurnQuery::default()
        };
        let ended = async {
            for turn in workspace.turns(&query).await? {
                workspace.end_turn(&actor, Ref::Id(turn.begun.id)).await?;
            }
            Ok::<(), WorkspaceError>(())
        };
        if let Err(error) = ended.await {
            let note = TraceNote::new(workspace.now(), &actor, "turn", "end_turn");
            workspace.note(
                note.with_status(FAILED)
                    .with_detail(json!({"code": error.code(), "error": error.to_string()})),
            );
        }
    }

    /// Ends the turns of runs that ended at least `age` ago but whose turns were not ended, since the process was killed
    /// in between, or the store was unavailable then. Returns how many there were. Whoever ends a run takes a moment to
    /// end its turn, which `age` leaves to him.
    ///
    /// # Errors
    ///
    /// `Store`.
    pub async fn end_leftover_turns(&self, age: Duration) -> Result<usize, RunnerError> {
        let workspace = &self.shared.workspace;
        let now = workspace.now();
        let mut open = TurnQuery {
            ended: Some(false),
            ..TurnQuery::default()
        };
        let mut ended = 0;
        loop {
            let turns = workspace.turns(&open).await?;
            open.before = turns.last().map(|turn| turn.handle.0);
            for run in turns.into_iter().filter_map(|turn| turn.begun.run) {
                let row = match workspace.store().run(workspace.space(), Ref::Id(run)).await {
                    // The turn was imported, and its run was left behind.
                    Err(StoreError::NotFound { .. }) => continue,
                    row => row?,
                };
                if row.has_ended() && now.since(row.updated_at) >= age {
                    self.end_own_turn(run).await;
                    ended += 1;
                }
            }
            if open.before.is_none() {
                return Ok(ended);
            }
        }
    }
}
