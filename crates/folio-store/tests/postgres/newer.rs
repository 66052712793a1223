//! A run that a newer version has continued, and everything that reads the log without folding a run: it reports who
//! wrote it, and whatever removes something from the log leaves the events of the run as they are (E9.9).

use std::sync::Arc;

use folio_engine::Event;
use folio_engine::event::FORMAT;
use folio_memory::keeping::ErasedFor;
use folio_memory::{Change, EntryId, EntryKind, FieldChange, RunId, Seq, SpaceName, Status};
use folio_store::copy::{self, CopyError};
use folio_store::postgres::{OpenOptions as PostgresOptions, PostgresStore};
use folio_store::sqlite::OpenOptions;
use folio_store::upkeep::Compaction;
use folio_store::workspace::TraceQuery;
use folio_store::{Record, RunAppend, SqliteStore, Store, StoreError, Workspace, WorkspaceError};
use folio_testkit::SeededIds;
use folio_testkit::contract::scene::{Scene, asked_by, patch};
use folio_testkit::postgres::Database;

/// A store, and a connection that changes its tables behind its back.
struct House {
    scene: Scene,
    sql: Box<dyn Fn(&str) -> String>,
    run: RunId,
    /// An entry that a run added, in a commit that also has events of the run.
    entry: EntryId,
}

impl House {
    async fn of(store: Arc<dyn Store>, sql: Box<dyn Fn(&str) -> String>, is_newer: bool) -> Self {
        let scene = Scene::on(store);
        let run = scene.a_run("paint the door").await;
        if is_newer {
            let raised = Event::FormatRaised { format: FORMAT + 1 };
            scene.append(run, vec![raised], None, Vec::new()).await.unwrap();
        }
        let mut new = scene.entry(scene.a_page().await, EntryKind::Observation, "the door is red");
        new.fields.body = "indeed ".repeat(300);
        let entry = new.id;
        let commit = scene.commit_of(Record {
            run: Some(RunAppend {
                run,
                events: vec![asked_by("ada")],
                status: None,
                title: None,
                so_far: None,
            }),
            ..Record::of(vec![Change::AddEntry(Box::new(new))])
        });
        scene.store.commit(commit).await.unwrap();
        let archived = vec![FieldChange::Status(Status::Archived)];
        scene.commit(vec![patch(entry, archived)]).await;
        // What the event is called that only the newer version knows.
        sql("UPDATE log SET record = replace(record, '\"cancel_requested\"', '\"frobnicated\"')");
        let house = Self { scene, sql, run, entry };
        assert_eq!(house.unknown(), "1");
        house
    }

    /// How many commits contain, in plain text, something unknown to this version.
    fn unknown(&self) -> String {
        (self.sql)("SELECT count(*) FROM log WHERE record LIKE '%\"frobnicated\"%' AND record LIKE '%\"ada\"%'")
    }

    /// Everything that reads the log, with its result.
    async fn read(&self) -> Vec<(&'static str, Result<(), StoreError>)> {
        let (store, space) = (&self.scene.store, &self.scene.space);
        let workspace = Workspace::new(
            Arc::clone(store),
            Arc::new(self.scene.clock.clone()),
            Arc::new(SeededIds::new(2)),
            SpaceName::main(),
        );
        let elsewhere = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
        let copied = copy::copy(&**store, &*elsewhere, &mut |_| {}).await;
        let traced = workspace.trace(TraceQuery::default()).await;
        vec![
            ("the log", store.changes(space, Seq(0), 100).await.map(drop)),
            ("an entry", store.history(space, self.entry).await.map(drop)),
            ("the doctor", store.check().await.map(drop)),
            (
                "a copy",
                copied.map(drop).map_err(|error| match error {
                    CopyError::Store(error) => error,
                    error => panic!("{error}"),
                }),
            ),
            (
                "the trace",
                traced.map(drop).map_err(|error| match error {
                    WorkspaceError::Store(error) => error,
                    error => panic!("{error}"),
                }),
            ),
        ]
    }

    async fn assert_newer_version_named(&self) {
        for (what, read) in self.read().await {
            let refused = read.unwrap_err();
            assert!(
                matches!(refused, StoreError::RunTooNew { run, found } if run == self.run && found == FORMAT + 1),
                "{what}: {refused}"
            );
        }
    }

    async fn assert_reported_damaged(&self) {
        for (what, read) in self.read().await {
            match read {
                // The doctor lists it.
                Ok(()) => assert_eq!(what, "the doctor"),
                Err(refused) => assert!(matches!(refused, StoreError::Corrupt { .. }), "{what}: {refused}"),
            }
        }
        let problems = self.scene.store.check().await.unwrap().problems;
        assert!(
            problems.iter().any(|problem| problem.contains("frobnicated")),
            "{problems:?}"
        );
    }

    async fn assert_unchanged(&self) {
        let (store, space) = (&self.scene.store, &self.scene.space);
        let compaction = Compaction {
            bury_until: Some(folio_memory::Timestamp::MAX),
            give_up_until: None,
            notes: None,
            limit: 10,
        };
        let made = store.compact(space, compaction).await.unwrap();
        assert_eq!(
            (made.packed, self.unknown().as_str()),
            (1, "1"),
            "its text is smaller, its commit is not"
        );
        let erased = Change::EraseEntry {
            entry: self.entry,
            why: ErasedFor::Expired,
            expected_version: None,
        };
        self.scene.commit(vec![erased]).await;
        store.compact(space, compaction).await.unwrap();
        let said = (self.sql)("SELECT count(*) FROM log WHERE record LIKE '%indeed%'");
        assert_eq!(
            (said.as_str(), self.unknown().as_str()),
            ("0", "1"),
            "only what was to go is gone"
        );
    }
}

async fn on_a_file(is_newer: bool) -> (House, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let store = SqliteStore::open(&OpenOptions::at(&path)).unwrap();
    let sql = move |sql: &str| {
        let beside = rusqlite::Connection::open(&path).unwrap();
        if sql.starts_with("UPDATE") {
            return beside.execute(sql, []).unwrap().to_string();
        }
        beside
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
            .to_string()
    };
    (House::of(store, Box::new(sql), is_newer).await, folder)
}

async fn on_a_server(is_newer: bool) -> House {
    let database = Database::fresh();
    let store = PostgresStore::open(&PostgresOptions::at(database.url())).unwrap();
    let sql = move |sql: &str| database.ask(sql).unwrap();
    House::of(store, Box::new(sql), is_newer).await
}

#[tokio::test(flavor = "multi_thread")]
async fn log_with_run_events_of_a_newer_version_is_refused_e9_9() {
    on_a_file(true).await.0.assert_newer_version_named().await;
    on_a_server(true).await.assert_newer_version_named().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_event_without_a_newer_format_is_reported_as_damage() {
    on_a_file(false).await.0.assert_reported_damaged().await;
    on_a_server(false).await.assert_reported_damaged().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_and_erasure_keep_events_of_a_newer_version_e9_9() {
    on_a_file(true).await.0.assert_unchanged().await;
    on_a_server(true).await.assert_unchanged().await;
}
