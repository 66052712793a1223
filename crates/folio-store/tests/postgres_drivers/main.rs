//! Who drives runs on a shared store goes on with them, whatever becomes of single connections.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod between;

use std::sync::Arc;
use std::time::Duration;

use folio_memory::RunId;
use folio_memory::id::Ref;
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_store::{OwnerId, Store, StoreError};
use folio_testkit::cluster::{Cluster, ClusterOptions};
use folio_testkit::contract::scene::Scene;
use folio_testkit::postgres::Database;

use self::between::{Between, Way};

/// Two signs of life come within this, and a driver that gives none is replaced behind it.
const LEASE: Duration = Duration::from_secs(3);
/// One that is not over however long a server takes to start.
const LONG_LEASE: Duration = Duration::from_secs(30);

async fn opened(url: &str, lease: Duration) -> Arc<dyn Store> {
    let options = OpenOptions {
        lease,
        ..OpenOptions::at(url)
    };
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&options)).await;
    opened.unwrap().unwrap()
}

/// One who drives a run by a way that can be cut, and one who would go on with it.
struct Two {
    way: Between,
    driver: Scene,
    other: Scene,
    run: RunId,
}

impl Two {
    async fn at(url: &str, lease: Duration) -> Self {
        let way = Between::before(url).await;
        let driver = Scene::on(opened(way.url(), lease).await);
        let other = Scene::on(opened(url, lease).await);
        let run = driver.a_run("run").await;
        let claimed = driver
            .store
            .claim_run(&driver.space, run, &OwnerId("driver".to_owned()))
            .await;
        claimed.unwrap();
        Self {
            way,
            driver,
            other,
            run,
        }
    }

    /// That nobody else can go on with the run.
    async fn is_driven(&self) {
        let claimed = self
            .other
            .store
            .claim_run(&self.other.space, self.run, &OwnerId("other".to_owned()))
            .await;
        assert!(matches!(claimed, Err(StoreError::RunTaken { .. })), "{claimed:?}");
        let row = self.other.store.run(&self.other.space, Ref::Id(self.run)).await;
        assert!(row.unwrap().driven);
    }

    /// Closing a store waits for its threads.
    async fn end(self) {
        tokio::task::spawn_blocking(|| drop((self.driver, self.other)))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_keeps_the_runs_though_the_server_had_not_missed_him() {
    let database = Database::fresh();
    let two = Two::at(&database.url(), LEASE).await;
    two.way.cut();
    tokio::time::sleep(LEASE / 2).await;
    assert!(two.way.left() > 0);
    two.is_driven().await;
    two.way.let_go();
    // Long enough for the server to see that the old connections are gone, and for the driver to be silent if he were.
    tokio::time::sleep(LEASE * 2).await;
    two.is_driven().await;
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_can_write_keeps_the_runs_though_no_connection_listens() {
    let database = Database::fresh();
    let two = Two::at(&database.url(), LEASE).await;
    two.way.go(Way::ShutToListeners);
    tokio::time::sleep(LEASE * 2).await;
    two.is_driven().await;
    two.way.go(Way::Open);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_back_first_behind_a_restart_takes_no_run_of_the_others() {
    let cluster = Cluster::start(ClusterOptions::default());
    let two = Two::at(cluster.url(), LONG_LEASE).await;
    two.way.go(Way::Shut);
    cluster.kill();
    // It was away for longer than any lease.
    cluster.start_again();
    cluster.ask("UPDATE owner SET until = now() - interval '1 minute'");
    two.is_driven().await;
    two.way.go(Way::Open);
    two.end().await;
}
