//! A space in memory with a clock that stands still until it is moved.

use std::sync::Arc;

use folio_memory::id::Ref;
use folio_memory::observation::ObservationInput;
use folio_memory::turn::Decision;
use folio_memory::{Actor, Entry, EntryHandle, EntryId, EntryQuery, Role, SpaceName, ThreadKey, TurnId};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{Begun, Ended, TurnInput};
use folio_store::{Store, Workspace};
use folio_testkit::{SeededIds, SimClock};
use serde_json::Value;

pub(crate) struct Scene {
    pub(crate) workspace: Workspace,
    pub(crate) clock: SimClock,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::on(SqliteStore::open(&OpenOptions::in_memory()).unwrap())
    }

    pub(crate) fn on(store: Arc<dyn Store>) -> Self {
        let clock = SimClock::default();
        let ids = Arc::new(SeededIds::default());
        let workspace = Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main());
        Self { workspace, clock }
    }

    /// Begins a turn in the thread `main`.
    pub(crate) async fn begin(&self, input: &str) -> Begun {
        self.begin_in("main", input).await
    }

    pub(crate) async fn begin_in(&self, thread: &str, input: &str) -> Begun {
        let input = TurnInput {
            thread: ThreadKey(thread.to_owned()),
            input: input.to_owned(),
            run: None,
            background: false,
        };
        self.workspace.begin_turn(&person(), input).await.unwrap()
    }

    pub(crate) async fn end(&self, turn: &Begun) -> Ended {
        let turn = Ref::Id(turn.turn.begun.id);
        self.workspace.end_turn(&person(), turn).await.unwrap()
    }

    /// A turn in which a tool notices something.
    pub(crate) async fn turn_with(&self, input: &str, tool_name: &str, observation: Value) -> Entry {
        let turn = self.begin(input).await;
        let entry = self.notice(tool_name, turn.turn.begun.id, observation).await;
        self.end(&turn).await;
        entry
    }

    /// A tool notices something.
    pub(crate) async fn notice(&self, tool_name: &str, turn: TurnId, observation: Value) -> Entry {
        let actor = tool(tool_name).in_turn(turn);
        let input: ObservationInput = serde_json::from_value(observation).unwrap();
        self.workspace.add_observation(&actor, input, None).await.unwrap().entry
    }

    pub(crate) async fn read(&self, id: EntryId) -> Entry {
        self.workspace.entry(Ref::Id(id)).await.unwrap()
    }

    /// The texts of the observations that `query` asks for.
    pub(crate) async fn texts(&self, query: EntryQuery) -> Vec<String> {
        let found = self.workspace.observations(query).await.unwrap();
        found.items.into_iter().map(|entry| entry.fields.body).collect()
    }
}

pub(crate) fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

pub(crate) fn tool(name: &str) -> Actor {
    Actor::new(Role::Tool, name)
}

/// The handles that a decision used.
pub(crate) fn used(decision: &Decision) -> Vec<EntryHandle> {
    decision.used.iter().map(|used| used.handle).collect()
}
