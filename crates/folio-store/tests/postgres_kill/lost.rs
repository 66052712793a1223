//! A failover to a server that lacks the last commits: a process forgets what it knows of them.

use std::time::Duration;

use folio_memory::EntryQuery;
use folio_store::LiveOptions;
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_testkit::SeededIds;
use folio_testkit::cluster::{Cluster, ClusterOptions};
use folio_testkit::contract::scene::Scene;

/// No failover takes this long.
const FAR_AWAY: Duration = Duration::from_secs(60);

async fn opened(cluster: &Cluster, seed: u16) -> Scene {
    let options = OpenOptions {
        live: LiveOptions::at_once(),
        ..OpenOptions::at(cluster.url())
    };
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&options)).await;
    Scene {
        ids: SeededIds::new(seed),
        ..Scene::on(opened.expect("a thread").expect("a store"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_to_an_older_copy_discards_cached_lost_commits() {
    let cluster = Cluster::start(ClusterOptions::default());
    let scene = opened(&cluster, 0).await;
    scene.a_note("kept").await;
    let copy = cluster.copy();
    scene.a_note("lost").await;
    scene.other_space("lost").a_note("lost").await;
    let all = EntryQuery::default();
    assert_eq!(scene.titles(&all).await.len(), 2);
    let (head, lineage) = (scene.head().await, scene.store.lineage());
    copy.replace();
    let noticed = async {
        while scene.store.lineage() == lineage {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(FAR_AWAY, noticed).await.expect("another server");
    // Somebody else writes under the numbers of what is lost.
    let other = opened(&cluster, 7).await;
    let kept = other.head().await;
    assert!(kept < head);
    let waiting = scene.store.wait(&scene.space, kept);
    let (heard, _) = tokio::join!(tokio::time::timeout(FAR_AWAY, waiting), other.a_note("new"));
    let heard = heard.expect("a commit").expect("a head");
    assert!(kept < heard && heard <= other.head().await, "{heard}");
    other.a_note("newer").await;
    other.a_note("newest").await;
    let titles = async |scene: &Scene| {
        let mut titles = scene.titles(&EntryQuery::default()).await;
        titles.sort();
        titles
    };
    assert_eq!(titles(&scene).await, ["kept", "new", "newer", "newest"]);
    scene.other_space("lost").a_note("found").await;
    tokio::task::spawn_blocking(|| drop((scene, other)))
        .await
        .expect("a thread");
}
