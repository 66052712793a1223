//! The shared store fulfils the store contract.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::{EntryQuery, Order};
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_store::{ErrorKind, LiveOptions, Record, Store};
use folio_testkit::SeededIds;
use folio_testkit::cluster::{Cluster, ClusterOptions};
use folio_testkit::contract::Home;
use folio_testkit::contract::scene::Scene;
use folio_testkit::postgres::Database;

/// A database of its own, with an in-memory index of the live entries from the first query on.
struct Indexed(InDatabase);

impl Home for Indexed {
    fn open(&self) -> Arc<dyn Store> {
        let options = OpenOptions {
            live: LiveOptions::at_once(),
            ..OpenOptions::at(self.0.0.url())
        };
        PostgresStore::open(&options).expect("a store")
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// A database of its own.
struct InDatabase(Database);

impl InDatabase {
    fn new() -> Self {
        Self(Database::fresh())
    }
}

impl Home for InDatabase {
    fn open(&self) -> Arc<dyn Store> {
        PostgresStore::open(&OpenOptions::at(self.0.url())).expect("a store")
    }

    fn is_shared(&self) -> bool {
        true
    }
}

mod tables {
    use super::InDatabase;

    folio_testkit::store_contract!(InDatabase::new());
}

mod indexed {
    use super::{InDatabase, Indexed};

    folio_testkit::store_contract!(lists of Indexed(InDatabase::new()));
}

#[test]
fn open_without_make_reports_missing_tables_as_not_found() {
    let database = Database::fresh();
    let options = OpenOptions {
        make: false,
        ..OpenOptions::at(database.url())
    };
    let error = PostgresStore::open(&options).expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let made = database.ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'folio'");
    assert_eq!(made.as_deref(), Ok("0"));
    drop(PostgresStore::open(&OpenOptions::at(database.url())).expect("a store"));
    drop(PostgresStore::open(&options).expect("the store that is there"));
}

#[test]
fn authentication_error_reveals_neither_user_nor_password() {
    let database = Database::fresh();
    let error = PostgresStore::open(&OpenOptions::at(database.url_as("lovelace", "hunter2")));
    let error = error.expect_err("nobody knows that user");
    let mut told = format!("{error} {error:?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    assert!(error.to_string().contains("does not accept the password"), "{told}");
    for secret in ["lovelace", "hunter2"] {
        assert!(!told.contains(secret), "{told}");
    }
}

#[test]
fn missing_password_in_the_url_is_reported() {
    let database = Database::fresh();
    let url = database.url();
    let (user, place) = url.split_once('@').expect("a URL with a user");
    let (user, _) = user.rsplit_once(':').expect("one with a password");
    let error = PostgresStore::open(&OpenOptions::at(format!("{user}@{place}"))).expect_err("no password");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("the server asks for a password"), "{error}");
}

#[test]
fn database_with_a_non_unicode_encoding_is_refused() {
    let database = Database::fresh();
    let name = format!("latin_{}", std::process::id());
    let make = format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    database.ask(&make).expect("a database");
    let url = database.url();
    let (place, settings) = url.split_once('?').expect("a URL with settings");
    let (server, _) = place.rsplit_once('/').expect("a URL with a database");
    let opened = PostgresStore::open(&OpenOptions::at(format!("{server}/{name}?{settings}")));
    database
        .ask(&format!("DROP DATABASE {name} WITH (FORCE)"))
        .expect("no database");
    let error = opened.expect_err("no euro sign");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("LATIN1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn open_waits_for_a_restarting_server() {
    let cluster = Cluster::start(ClusterOptions::default());
    let options = OpenOptions::at(cluster.url());
    cluster.kill();
    let opening = tokio::task::spawn_blocking(move || PostgresStore::open(&options).map(drop));
    // It has found nobody by then.
    tokio::time::sleep(Duration::from_millis(500)).await;
    cluster.start_again();
    opening.await.expect("a thread").expect("a store");
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_waiting_for_one_lock_time_out_together() {
    let database = Database::fresh();
    let url = format!("{}&options=-c%20statement_timeout%3D500ms", database.url());
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&OpenOptions::at(url))).await;
    let scene = Arc::new(Scene::on(opened.expect("a thread").expect("a store")));
    scene.commit(Vec::new()).await;
    let url = database.url();
    let locks = tokio::task::spawn_blocking(move || {
        let lock = "BEGIN; LOCK TABLE folio.log IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(60)";
        drop(folio_testkit::postgres::ask(&url, lock));
    });
    while database.ask("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation = 'folio.log'::regclass")
        != Ok("1".to_owned())
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let begun = tokio::time::Instant::now();
    let mut writing = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let scene = Arc::clone(&scene);
        writing.spawn(async move { scene.try_commit(Vec::new()).await });
    }
    while let Some(written) = writing.join_next().await {
        let error = written.expect("a task").expect_err("locked");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    // Each by itself would be twenty seconds.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    database
        .ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid() AND datname = current_database()")
        .expect("an end");
    locks.await.expect("a thread");
    scene.commit(Vec::new()).await;
    tokio::task::spawn_blocking(|| drop(scene)).await.expect("a thread");
}

/// Runs `sql` in a session of its own, until that is terminated; returns once it holds a lock that `granted` finds.
async fn locked(database: &Database, sql: &str, granted: &str) -> tokio::task::JoinHandle<()> {
    let (url, sql) = (database.url(), sql.to_owned());
    let locks = tokio::task::spawn_blocking(move || drop(folio_testkit::postgres::ask(&url, &sql)));
    while database.ask(granted) != Ok("t".to_owned()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    locks
}

/// Ends the sessions of [`locked`].
fn unlock(database: &Database) {
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE query LIKE '%pg_sleep(%' AND pid <> pg_backend_pid() AND datname = current_database()";
    database.ask(sql).expect("an end");
}

const SPACE_LOCKED: &str = "SELECT NOT EXISTS (SELECT 1 FROM folio.space_end FOR UPDATE SKIP LOCKED)";

async fn opened_scene(database: &Database) -> Arc<Scene> {
    let url = database.url();
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&OpenOptions::at(url))).await;
    Arc::new(Scene::on(opened.expect("a thread").expect("a store")))
}

/// Commits while something is locked; returns how long that took, and the error.
async fn refused(scene: Arc<Scene>) -> (Duration, String) {
    let begun = tokio::time::Instant::now();
    let error = scene.try_commit(Vec::new()).await.expect_err("locked");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    (begun.elapsed(), error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_come_one_after_the_other_to_a_locked_space_wait_ten_seconds_each() {
    let database = Database::fresh();
    let (here, elsewhere) = (opened_scene(&database).await, opened_scene(&database).await);
    here.commit(Vec::new()).await;
    let lock = "BEGIN; SELECT 1 FROM folio.space_end FOR UPDATE; SELECT pg_sleep(60)";
    let locks = locked(&database, lock, SPACE_LOCKED).await;
    let first = tokio::spawn(refused(Arc::clone(&here)));
    tokio::time::sleep(Duration::from_secs(4)).await;
    // One waits behind the first in this process, one behind it in the server's queue.
    let (behind, beside) = (
        tokio::spawn(refused(Arc::clone(&here))),
        tokio::spawn(refused(Arc::clone(&elsewhere))),
    );
    for one in [first, behind, beside] {
        let (waited, error) = one.await.expect("a task");
        assert!(
            waited >= Duration::from_secs(9) && waited < Duration::from_secs(12),
            "{waited:?}: {error}"
        );
        assert!(
            error.contains("waited 10") && error.contains("another writer of this space"),
            "{error}"
        );
    }
    unlock(&database);
    locks.await.expect("a thread");
    here.commit(Vec::new()).await;
    tokio::task::spawn_blocking(|| drop((here, elsewhere)))
        .await
        .expect("a thread");
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_that_needs_several_locks_waits_for_all_of_them_together() {
    let database = Database::fresh();
    let scene = opened_scene(&database).await;
    scene.commit(Vec::new()).await;
    let table = "BEGIN; LOCK TABLE folio.log IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(60)";
    let table_locked = "SELECT count(*) > 0 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation = 'folio.log'::regclass";
    let table = locked(&database, table, table_locked).await;
    let space = "BEGIN; SELECT 1 FROM folio.space_end FOR UPDATE; SELECT pg_sleep(6)";
    let space = locked(&database, space, SPACE_LOCKED).await;
    let (waited, error) = refused(Arc::clone(&scene)).await;
    assert!(
        waited >= Duration::from_secs(9) && waited < Duration::from_secs(14),
        "{waited:?}: {error}"
    );
    assert!(error.contains("has locked a table"), "{error}");
    unlock(&database);
    for locks in [table, space] {
        locks.await.expect("a thread");
    }
    scene.commit(Vec::new()).await;
    tokio::task::spawn_blocking(|| drop(scene)).await.expect("a thread");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_error_of_the_server_is_reported_in_its_own_words() {
    let database = Database::fresh();
    let scene = opened_scene(&database).await;
    scene.commit(Vec::new()).await;
    let odd = "CREATE FUNCTION folio.odd() RETURNS trigger LANGUAGE plpgsql AS
                   $$BEGIN RAISE EXCEPTION 'the moon is full' USING ERRCODE = '55000'; END$$;
               CREATE TRIGGER odd BEFORE INSERT ON folio.log FOR EACH ROW EXECUTE FUNCTION folio.odd()";
    database.ask(odd).expect("a trigger");
    let error = scene.try_commit(Vec::new()).await.expect_err("the moon");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let message = error.to_string();
    assert!(message.contains("SQLSTATE 55000: the moon is full"), "{message}");
    tokio::task::spawn_blocking(|| drop(scene)).await.expect("a thread");
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_read_only_store_ignores_aborted_writes() {
    let database = Database::fresh();
    let url = database.url();
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&OpenOptions::at(url))).await;
    let scene = Scene::on(opened.expect("a thread").expect("a store"));
    scene.commit(Vec::new()).await;
    tokio::task::spawn_blocking(|| drop(scene)).await.expect("a thread");
    let url = format!("{}&options=-c%20default_transaction_read_only%3Don", database.url());
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&OpenOptions::at(url))).await;
    let scene = Scene::on(opened.expect("a thread").expect("a store"));
    let writing = {
        let (store, commit) = (Arc::clone(&scene.store), scene.commit_of(Record::of(Vec::new())));
        tokio::spawn(async move { store.commit(commit).await.map(drop) })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Whoever wrote has gone away.
    writing.abort();
    drop(writing.await);
    let begun = tokio::time::Instant::now();
    tokio::task::spawn_blocking(|| drop(scene)).await.expect("a thread");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn store_clock_uses_the_server_time_m7_1() {
    let database = Database::fresh();
    let store = PostgresStore::open(&OpenOptions::at(database.url())).expect("a store");
    let clock = store.clock();
    assert_eq!(format!("{clock:?}"), "ServerClock");
    let asked = || -> i64 {
        let time = database.ask("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint");
        time.expect("the time").parse().expect("a number")
    };
    let before = asked();
    let now = clock.now().as_millis();
    let after = asked();
    assert!((before - 100..=after + 100).contains(&now), "{before} {now} {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_waits_until_a_read_only_server_is_writable() {
    let database = Database::fresh();
    let url = database.url();
    drop(tokio::task::spawn_blocking(move || PostgresStore::open(&OpenOptions::at(url))).await);
    // Every connection keeps to what held when it was made.
    let lead = |only_reads: &str| {
        let name =
            "BEGIN READ WRITE; DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = ";
        let sql = format!("{name}{only_reads}', current_database()); END $$; COMMIT");
        database.ask(&sql).expect("another default");
    };
    lead("on");
    let url = database.url();
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&OpenOptions::at(url))).await;
    let scene = Scene::on(opened.expect("a thread").expect("a store"));
    let writing = {
        let (store, commit) = (Arc::clone(&scene.store), scene.commit_of(Record::of(Vec::new())));
        tokio::spawn(async move { store.commit(commit).await })
    };
    // It has been told by then that nobody writes there.
    tokio::time::sleep(Duration::from_millis(500)).await;
    lead("off");
    writing.await.expect("a task").expect("a commit");
    tokio::task::spawn_blocking(|| drop(scene)).await.expect("a thread");
}

/// Its index of words cannot catch up, so what it lacks is read.
#[tokio::test(flavor = "multi_thread")]
async fn search_of_a_read_only_server_finds_what_its_index_lacks() {
    let database = Database::fresh();
    let search = EntryQuery {
        text: Some("wine".to_owned()),
        order: Order::Newest,
        ..EntryQuery::default()
    };
    let open = |url: String| tokio::task::spawn_blocking(move || PostgresStore::open(&OpenOptions::at(url)));
    let read_only = format!("{}&options=-c%20default_transaction_read_only%3Don", database.url());
    let mut expected: Vec<String> = Vec::new();
    for (seed, title) in [(0, "red wine"), (1, "white wine")] {
        let scene = Scene {
            ids: SeededIds::new(seed),
            ..Scene::on(open(database.url()).await.expect("a thread").expect("a store"))
        };
        // The first time there is no index.
        if seed > 0 {
            assert_eq!(scene.titles(&search).await, expected);
        }
        scene.a_note("beer").await;
        scene.a_note(title).await;
        expected.insert(0, title.to_owned());
        tokio::task::spawn_blocking(|| drop(scene)).await.expect("a thread");
        let scene = Scene::on(open(read_only.clone()).await.expect("a thread").expect("a store"));
        assert_eq!(scene.titles(&search).await, expected);
        tokio::task::spawn_blocking(|| drop(scene)).await.expect("a thread");
    }
}
