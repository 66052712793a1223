//! Measures what a durable add costs with 1, 8 and 64 writers, compared to one bare SQLite commit of the same bytes.
//!
//! All four are measured in the same run, because they depend on the disk more than on anything else. Each figure is
//! the time for one add: with many writers it is the time for all of them, divided by the number of adds.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use folio_memory::{Change, EntryKind};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{Commit, Record};
use folio_testkit::contract::scene::{Scene, tag};
use rusqlite::Connection;

/// An observation as a tool might make it: a title, two hundred bytes of text, two tags.
fn an_add(scene: &Scene, page: folio_memory::PageId) -> Commit {
    let mut new = scene.entry(
        page,
        EntryKind::Observation,
        "A file is changed more often than all others",
    );
    new.fields.type_name = Some("contextual_insight".to_owned());
    new.fields.body = "src/lib.rs was touched by 41 of the last 100 commits. ".repeat(4);
    new.fields.tags = vec![tag("hot-file"), tag("lang/rust")];
    scene.commit_of(Record::of(vec![Change::AddEntry(Box::new(new))]))
}

fn a_scene(folder: &Path) -> Scene {
    Scene::on(SqliteStore::open(&OpenOptions::at(folder.join("folio.db"))).expect("a store"))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
async fn adds(scene: &Arc<Scene>, page: folio_memory::PageId, writers: u64, count: u64) -> Duration {
    let begun = AtomicU64::new(0);
    let begun = Arc::new(begun);
    let start = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (scene, begun) = (Arc::clone(scene), Arc::clone(&begun));
            tokio::spawn(async move {
                while begun.fetch_add(1, Ordering::Relaxed) < count {
                    scene.store.commit(an_add(&scene, page)).await.expect("a commit");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a writer");
    }
    start.elapsed()
}

fn bare(conn: &Connection, bytes: &str, count: u64) {
    for _ in 0..count {
        let mut insert = conn
            .prepare_cached("INSERT INTO log (record) VALUES (?1)")
            .expect("a statement");
        insert.execute([bytes]).expect("a commit");
    }
}

fn durable_add(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let scene = Arc::new(a_scene(folder.path()));
    let page = runtime.block_on(scene.a_page());
    let mut group = criterion.benchmark_group("durable_add");

    let bytes = serde_json::to_string(&an_add(&scene, page).record).expect("JSON");
    let conn = Connection::open(folder.path().join("bare.db")).expect("a database");
    let set_up =
        "PRAGMA journal_mode = wal; PRAGMA synchronous = full; CREATE TABLE log (id INTEGER PRIMARY KEY, record TEXT)";
    conn.execute_batch(set_up).expect("a table");
    group.bench_function(BenchmarkId::new("bare_commit", bytes.len()), |b| {
        #[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
        b.iter_custom(|count| {
            let start = Instant::now();
            bare(&conn, &bytes, count);
            start.elapsed()
        });
    });
    for writers in [1, 8, 64] {
        group.bench_function(BenchmarkId::new("writers", writers), |b| {
            b.iter_custom(|count| runtime.block_on(adds(&scene, page, writers, count)));
        });
    }
    group.finish();
}

criterion_group!(benches, durable_add);
criterion_main!(benches);
