//! A process that drives runs on a shared store continues, whatever happens to single connections.

use std::sync::Arc;
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::{RunId, Seq};
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_store::{OwnerId, Store, StoreError};
use folio_testkit::cluster::{Cluster, ClusterOptions};
use folio_testkit::contract::scene::Scene;
use folio_testkit::postgres::Database;

use crate::between::{Between, Way};

/// Two heartbeats fit into this, and a driver without any is replaced after it.
const LEASE: Duration = Duration::from_secs(3);
/// A lease that outlasts the start of a server.
const LONG_LEASE: Duration = Duration::from_secs(30);

async fn opened(url: &str, lease: Duration) -> Arc<dyn Store> {
    let options = OpenOptions {
        lease,
        ..OpenOptions::at(url)
    };
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&options)).await;
    opened.unwrap().unwrap()
}

/// A process that drives a run through a proxy, and one that would take over the run.
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

    /// Asserts that no other process can take over the run.
    async fn assert_driven(&self) {
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
async fn driver_reconnecting_within_its_lease_keeps_its_runs() {
    let database = Database::fresh();
    let two = Two::at(&database.url(), LEASE).await;
    two.way.cut();
    tokio::time::sleep(LEASE / 2).await;
    assert!(two.way.left() > 0);
    two.assert_driven().await;
    two.way.let_go();
    // Long enough for the server to see that the old connections are gone, and for the driver to be silent if he were.
    tokio::time::sleep(LEASE * 2).await;
    two.assert_driven().await;
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn driver_keeps_its_runs_without_a_listener_connection() {
    let database = Database::fresh();
    let two = Two::at(&database.url(), LEASE).await;
    two.way.set_way(Way::ShutToListeners);
    tokio::time::sleep(LEASE * 2).await;
    two.assert_driven().await;
    two.way.set_way(Way::Open);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_process_back_after_a_restart_cannot_take_over_runs() {
    let cluster = Cluster::start(ClusterOptions::default());
    let two = Two::at(cluster.url(), LONG_LEASE).await;
    two.way.set_way(Way::Shut);
    cluster.kill();
    // It was away for longer than any lease.
    cluster.start_again();
    cluster.ask("UPDATE owner SET until = now() - interval '1 minute'");
    two.assert_driven().await;
    two.way.set_way(Way::Open);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_is_not_repeated_when_the_pooler_loses_its_server() {
    let database = Database::fresh();
    let two = Two::at(&database.url(), LEASE).await;
    let head = two.driver.head().await;
    two.way.set_way(Way::LosesServer);
    // It was made, which the driver finds over another connection, and was not made again.
    assert_eq!(two.driver.commit(Vec::new()).await.seq, Seq(head.0 + 1));
    assert_eq!(two.other.head().await, Seq(head.0 + 1));
    two.driver.commit(Vec::new()).await;
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_is_repeated_on_another_connection_when_what_was_prepared_is_lost() {
    let database = Database::fresh();
    let two = Two::at(&database.url(), LEASE).await;
    for _ in 0..3 {
        two.driver.commit(Vec::new()).await;
    }
    let head = two.driver.head().await;
    two.way.forget_prepared();
    assert_eq!(two.driver.head().await, head);
    two.way.forget_prepared();
    assert_eq!(two.driver.commit(Vec::new()).await.seq, Seq(head.0 + 1));
    assert_eq!(two.other.head().await, Seq(head.0 + 1));
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn driver_keeps_its_runs_after_server_sleep_or_clock_jump() {
    let database = Database::fresh();
    let two = Two::at(&database.url(), LEASE * 2).await;
    // As after an hour in which nobody could say anything. The driver may say that it goes on before anybody looks.
    let mut looks_left = false;
    for _ in 0..10 {
        database
            .ask("UPDATE owner SET until = until - interval '1 hour'")
            .unwrap();
        let row = two.other.store.run(&two.other.space, Ref::Id(two.run)).await;
        looks_left |= !row.unwrap().driven;
        if looks_left {
            break;
        }
    }
    assert!(looks_left, "nobody who looks once can tell it from one that hangs");
    // Whoever wants to drive it waits until its driver has said that it goes on.
    two.assert_driven().await;
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_driver_holding_its_lock_is_replaced() {
    let database = Database::fresh();
    let two = Two::at(&database.url(), LEASE).await;
    // It has the connections, and whatever it says of itself is lost.
    let silent = "CREATE FUNCTION folio.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.until = OLD.until; RETURN NEW; END';
                  CREATE TRIGGER silent BEFORE UPDATE ON folio.owner FOR EACH ROW EXECUTE FUNCTION folio.nothing()";
    database.ask(silent).unwrap();
    let other = OwnerId("other".to_owned());
    let taken = async {
        loop {
            match two.other.store.claim_run(&two.other.space, two.run, &other).await {
                Err(StoreError::RunTaken { .. }) => tokio::time::sleep(Duration::from_millis(100)).await,
                claimed => break claimed,
            }
        }
    };
    let fence = tokio::time::timeout(Duration::from_secs(60), taken).await.unwrap();
    assert_eq!(fence.unwrap(), 2);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnect_attempts_back_off_while_connecting_fails() {
    let database = Database::fresh();
    let way = Between::before(&database.url()).await;
    let store = opened(way.url(), Duration::from_secs(15)).await;
    way.set_way(Way::ShutToListeners);
    let before = way.wanted();
    // Behind 0.2, 0.6, 1.4, 2.4 and 3.4 seconds.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let wanted = way.wanted() - before;
    assert!((1..=6).contains(&wanted), "{wanted}");
    way.set_way(Way::Open);
    tokio::task::spawn_blocking(|| drop(store)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn standby_without_notifications_causes_no_reconnects() {
    let cluster = Cluster::start(ClusterOptions::default());
    let scene = Scene::on(opened(cluster.url(), LEASE).await);
    scene.commit(Vec::new()).await;
    let standby = cluster.standby();
    scene.commit(Vec::new()).await;
    let way = Between::before(standby.url()).await;
    let reader = Scene::on(opened(way.url(), LEASE).await);
    let head = scene.head().await;
    assert_eq!(reader.head().await, head);
    tokio::time::sleep(LEASE).await;
    let wanted = way.wanted();
    assert!(wanted <= 5, "{wanted} connections");
    tokio::task::spawn_blocking(|| drop((scene, reader))).await.unwrap();
}
