//! A server that is gone for a while, and one that takes too few connections.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use folio_memory::tool_exchange::ToolResponse;
use folio_memory::{Actor, Role, SpaceName};
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_store::workspace::IngestContext;
use folio_store::{RandomIds, Store, Workspace};
use folio_testkit::cluster::{Cluster, ClusterOptions};
use serde_json::json;

async fn opened(url: &str) -> Arc<PostgresStore> {
    let options = OpenOptions::at(url);
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&options)).await;
    opened.expect("a thread").expect("a store")
}

async fn closed(store: Arc<PostgresStore>) {
    let closing = tokio::task::spawn_blocking(move || drop(store));
    closing.await.expect("a thread");
}

fn space_of(store: &Arc<PostgresStore>, outbox: &Path) -> Workspace {
    let (store, clock) = (Arc::clone(store) as Arc<dyn Store>, store.clock());
    Workspace::new(store, clock, Arc::new(RandomIds::default()), SpaceName::main()).with_outbox(outbox.to_owned())
}

/// Hands in the answer of a tool. Returns how many items were stored and how many wait, and how long that took.
async fn ingest(space: &Workspace, content: &str) -> ((usize, usize), Duration) {
    let answer = json!({"request_id": content, "status": "ok", "observations": [{"content": content}]});
    let answer: ToolResponse = serde_json::from_value(answer).expect("an answer");
    let start = now();
    let tool = Actor::new(Role::Tool, "search");
    let ingested = space.ingest(&tool, &answer, &IngestContext::default()).await;
    assert_eq!(ingested.rejected, []);
    ((ingested.stored.len(), ingested.spooled), start.elapsed())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the server does not stand still where a test stops the clock"
)]
fn now() -> Instant {
    Instant::now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outage_is_waited_for_once_and_every_answer_of_a_tool_is_kept() {
    let cluster = Cluster::start(ClusterOptions::default());
    let store = opened(cluster.url()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let space = space_of(&store, &folder.path().join("outbox.jsonl"));
    assert_eq!(ingest(&space, "before").await.0, (1, 0));
    cluster.kill();
    let (first, waited) = ingest(&space, "first").await;
    assert_eq!(first, (0, 1));
    assert!(waited < Duration::from_secs(13), "{waited:?}");
    let start = now();
    for _ in 0..5 {
        let error = store.head(space.space()).await.expect_err("nobody is there");
        assert_eq!(error.kind(), folio_store::ErrorKind::Unavailable);
    }
    for content in ["second", "third"] {
        assert_eq!(ingest(&space, content).await.0, (0, 1));
    }
    let waited = start.elapsed();
    assert!(
        waited < Duration::from_secs(2),
        "{waited:?}: it is known that it is away"
    );
    cluster.start_again();
    let back = async {
        while store.head(space.space()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let noticed = tokio::time::timeout(Duration::from_secs(5), back).await;
    noticed.expect("its return is noticed soon");
    assert_eq!(ingest(&space, "last").await.0, (1, 0));
    let found = space.observations(folio_memory::EntryQuery::default()).await;
    let mut found: Vec<_> = found
        .expect("a list")
        .items
        .into_iter()
        .map(|entry| entry.fields.body)
        .collect();
    found.sort();
    assert_eq!(found, ["before", "first", "last", "second", "third"]);
    drop(space);
    closed(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_works_with_as_few_connections_as_it_gets() {
    let cluster = Cluster::start(ClusterOptions::default());
    for limit in [1, 2, 3] {
        let name = format!("few{limit}");
        cluster.ask(&format!(
            "CREATE ROLE {name} LOGIN PASSWORD 'few' CONNECTION LIMIT {limit}"
        ));
        cluster.ask(&format!("CREATE DATABASE {name} OWNER {name}"));
        let url = format!("postgres://{name}:few@{}/{name}?sslmode=disable", cluster.address());
        let store = opened(&url).await;
        let folder = tempfile::tempdir().expect("a folder");
        let space = space_of(&store, &folder.path().join("outbox.jsonl"));
        let mut done = tokio::task::JoinSet::new();
        for number in 0..20 {
            let space = space.beside(SpaceName::parse(&format!("s{}", number % 5)).expect("a name"));
            done.spawn(async move {
                let stored = ingest(&space, &format!("{number}")).await.0;
                let head = space.head().await.expect("the last commit");
                (stored, head.0 > 0)
            });
        }
        while let Some(one) = done.join_next().await {
            assert_eq!(one.expect("a task"), ((1, 0), true), "with {limit}");
        }
        assert!(store.shortage().is_some());
        drop(space);
        closed(store).await;
    }
}
