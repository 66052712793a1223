//! A space in a store of its own, with a clock that a test moves.

#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::allow_attributes, reason = "an unused part cannot be expected in every file")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::tool_exchange::{ContextItem, ToolRequest, ToolResponse};
use folio_memory::{Actor, Entry, EntryQuery, Role, SpaceName, SpacePolicy, Tag, TurnId};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{IngestContext, Ingested, TraceEntry, TraceQuery};
use folio_store::{Store, Workspace};
use folio_testkit::{FaultyStore, SeededIds, SimClock};
use serde_json::{Value, json};

pub(crate) struct House {
    pub(crate) space: Workspace,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) clock: SimClock,
}

impl House {
    pub(crate) fn new() -> Self {
        Self::on(SqliteStore::open(&OpenOptions::in_memory()).unwrap())
    }

    /// A store in `folder`, with an outbox beside it.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        let house = Self::on(SqliteStore::open(&OpenOptions::at(folder.join("folio.db"))).unwrap());
        let space = house.space.with_outbox(folder.join("outbox.jsonl"));
        Self { space, ..house }
    }

    fn on(inner: Arc<SqliteStore>) -> Self {
        let store = Arc::new(FaultyStore::new(inner));
        let clock = SimClock::default();
        let space = Workspace::new(
            Arc::clone(&store) as Arc<dyn Store>,
            Arc::new(clock.clone()),
            Arc::new(SeededIds::default()),
            SpaceName::main(),
        );
        Self { space, store, clock }
    }

    /// Ingests `answer`, given by wine_search in `turn`.
    pub(crate) async fn ingest_in(&self, turn: TurnId, answer: Value) -> Ingested {
        self.ingest_of("wine_search", turn, answer).await
    }

    pub(crate) async fn ingest_of(&self, tool: &str, turn: TurnId, answer: Value) -> Ingested {
        let response: ToolResponse = serde_json::from_value(answer).unwrap();
        let context = IngestContext {
            turn: Some(turn),
            ..IngestContext::default()
        };
        let ingested = self
            .space
            .ingest(&Actor::new(Role::Tool, tool), &response, &context)
            .await;
        // The next call is another one.
        self.clock.advance(Duration::from_millis(1));
        ingested
    }

    /// Ingests `observations` in the first turn, all of which must be stored.
    pub(crate) async fn observed(&self, observations: Value) -> Vec<Entry> {
        let count = observations.as_array().unwrap().len();
        let ingested = self.ingest_in(turn(1), answer(observations)).await;
        assert_eq!(ingested.rejected, []);
        assert_eq!(ingested.stored.len(), count);
        ingested.stored
    }

    pub(crate) async fn all(&self) -> Vec<Entry> {
        self.list(EntryQuery {
            limit: 1_000,
            ..EntryQuery::default()
        })
        .await
    }

    pub(crate) async fn list(&self, query: EntryQuery) -> Vec<Entry> {
        self.space.observations(query).await.unwrap().items
    }

    /// The texts of the observations that match `query`, in the form that a tool writes.
    pub(crate) async fn asked(&self, query: Value) -> Vec<String> {
        let found = self.context_of("wine_recommender", query).await;
        found.into_iter().map(|item| item.content).collect()
    }

    pub(crate) async fn context_of(&self, tool: &str, query: Value) -> Vec<ContextItem> {
        let request: ToolRequest = serde_json::from_value(json!({
            "request_id": "req_1", "tool_id": tool, "inputs": {}, "scratch_page_query": query,
        }))
        .unwrap();
        self.space.tool_context(&Actor::new(Role::Tool, tool), &request).await
    }

    pub(crate) async fn set_policy(&self, policy: Value) {
        let policy: SpacePolicy = serde_json::from_value(policy).unwrap();
        let person = Actor::new(Role::Human, "ada");
        self.space.set_policy(&person, policy, None, None).await.unwrap();
    }

    /// The lines of the trace with this operation.
    pub(crate) async fn traced(&self, operation: &str) -> Vec<TraceEntry> {
        let query = TraceQuery {
            limit: 2_000,
            ..TraceQuery::default()
        };
        let mut lines = self.space.trace(query).await.unwrap();
        lines.retain(|line| line.operation == operation);
        lines
    }
}

pub(crate) fn turn(number: u32) -> TurnId {
    TurnId::derived(&["turn", &number.to_string()])
}

/// A tool's answer with these observations.
pub(crate) fn answer(observations: Value) -> Value {
    json!({"request_id": "req_1", "status": "ok", "outputs": {"found": 1}, "observations": observations})
}

pub(crate) fn contents(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.fields.body.as_str()).collect()
}

pub(crate) fn codes(ingested: &Ingested) -> Vec<(usize, &str)> {
    ingested
        .rejected
        .iter()
        .map(|one| (one.index, one.code.as_str()))
        .collect()
}

pub(crate) fn tags(names: &[&str]) -> EntryQuery {
    EntryQuery {
        tags: names.iter().map(|name| Tag::parse(name).unwrap()).collect(),
        ..EntryQuery::default()
    }
}
