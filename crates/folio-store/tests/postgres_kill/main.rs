//! Eight processes write to one server that is killed, cut off, filled up or replaced meanwhile: what was acknowledged
//! is stored, and stored once.

mod away;
mod lost;
mod proxy;
mod writers;

use folio_memory::{Change, PageRole, Seq};
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_store::{Record, in_parts};
use folio_testkit::cluster::{Cluster, ClusterOptions};
use folio_testkit::contract::scene::Scene;

use self::proxy::Proxy;
use self::writers::{COMMITS_PER_PROCESS, PROCESSES, Writers};

const ALL: usize = PROCESSES as usize * COMMITS_PER_PROCESS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_killed_five_times_under_eight_writers_loses_no_commit() {
    let cluster = Cluster::start(ClusterOptions::default());
    let mut writers = Writers::start(cluster.url());
    for kill in 1..=5 {
        writers.wait_for(ALL * kill / 6);
        cluster.kill();
        cluster.start_again();
    }
    let told = writers.end();
    told.assert_matches_database(cluster.url()).await;
    println!("killed the server 5 times: {told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminated_connections_lose_no_commits() {
    let cluster = Cluster::start(ClusterOptions::default());
    let mut writers = Writers::start(cluster.url());
    let mut ended = 0;
    for time in 1..=20 {
        writers.wait_for(ALL * time / 21);
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'folio'";
        ended += cluster.ask(sql).parse::<u32>().expect("a number");
    }
    let told = writers.end();
    assert!(ended >= 20, "{ended} connections were ended");
    told.assert_matches_database(cluster.url()).await;
    println!("ended {ended} connections: {told}");
}

/// The worst moment: the server has committed, and the answer is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_do_not_notice_connections_cut_during_commits() {
    let cluster = Cluster::start(ClusterOptions::default());
    let proxy = Proxy::before(cluster.address()).await;
    let through = cluster.url().replace(cluster.address(), &proxy.address());
    let writers = Writers::start(&through);
    let told = tokio::task::spawn_blocking(|| writers.end())
        .await
        .expect("the writers");
    let cut = proxy.cut();
    assert!(cut.before > 0 && cut.behind > 0, "{cut:?}");
    assert_eq!(told.unavailable, 0, "{told}");
    told.assert_matches_database(cluster.url()).await;
    println!(
        "cut {} connections before COMMIT arrived, {} before its answer did: {told}",
        cut.before, cut.behind
    );
}

/// Drivers of runs write without keys, and so do others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_without_a_key_is_acknowledged_once_although_its_connection_was_cut() {
    let cluster = Cluster::start(ClusterOptions::default());
    let proxy = Proxy::before(cluster.address()).await;
    let through = cluster.url().replace(cluster.address(), &proxy.address());
    let options = OpenOptions::at(through);
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&options)).await;
    let scene = Scene::on(opened.expect("a thread").expect("a store"));
    for number in 1..=100_u64 {
        let page = scene.page(PageRole::Note);
        let note = scene.note(page.id, &number.to_string());
        let changes = vec![Change::EnsurePage(Box::new(page)), Change::AddEntry(Box::new(note))];
        let committed = scene.try_commit(changes).await.expect("an answer");
        assert_eq!((committed.seq, committed.entries.len()), (Seq(number), 1));
    }
    let cut = proxy.cut();
    assert!(cut.before > 0 && cut.behind > 0, "{cut:?}");
    assert_eq!(scene.head().await, Seq(100), "each is there once");
    tokio::task::spawn_blocking(|| drop(scene)).await.expect("a thread");
}

/// The parts are not there any more to be written again, but the program knows what became of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_in_parts_whose_connection_was_cut_has_a_known_outcome() {
    let cluster = Cluster::start(ClusterOptions::default());
    let proxy = Proxy::before(cluster.address()).await;
    let through = cluster.url().replace(cluster.address(), &proxy.address());
    let options = OpenOptions::at(through);
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&options)).await;
    let scene = Scene::on(opened.expect("a thread").expect("a store"));
    let mut head = scene.head().await;
    for _ in 1..=60 {
        let (giving, parts) = in_parts();
        let commits = [
            scene.commit_of(Record::of(Vec::new())),
            scene.commit_of(Record::of(Vec::new())),
        ];
        let given = async {
            for commit in commits {
                giving.give(commit).await;
            }
            giving.end().await;
        };
        let (written, ()) = tokio::join!(scene.store.commit_parts(parts), given);
        match written {
            Ok(written) => {
                assert_eq!(written.head, Seq(head.0 + 2));
                head = written.head;
            }
            Err(error) => assert!(error.to_string().contains("nothing was written"), "{error}"),
        }
        assert_eq!(scene.head().await, head);
    }
    let cut = proxy.cut();
    assert!(cut.before > 0 && cut.behind > 0, "{cut:?}");
    tokio::task::spawn_blocking(|| drop(scene)).await.expect("a thread");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_full_disk_loses_no_commits_and_writing_resumes_later() {
    // A disk of its own, in memory, so that it is really full.
    let cluster = Cluster::start(ClusterOptions {
        conf: "max_wal_size = 8MB\nmin_wal_size = 2MB",
        disk_mb: Some(100),
    });
    let mut writers = Writers::start(cluster.url());
    let ballast = cluster.data().join("ballast");
    for time in 1..=2 {
        writers.wait_for(ALL * time / 3);
        fill(&ballast);
        writers.wait_for_refusal("the disk of the server is full");
        std::fs::remove_file(&ballast).expect("room");
        // If there was no room for its log either, it has stopped.
        if folio_testkit::postgres::ask(cluster.url(), "SELECT 1").is_err() {
            cluster.start_again();
        }
    }
    let told = writers.end();
    told.assert_matches_database(cluster.url()).await;
    println!("filled the disk twice: {told}");
}

/// Writes zeros until there is no room left.
fn fill(path: &std::path::Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).expect("a file");
    for size in [1 << 20, 4096, 1] {
        let zeros = vec![0; size];
        while file.write_all(&zeros).is_ok() {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promoted_standby_has_every_acknowledged_commit() {
    let first = Cluster::start(ClusterOptions::default());
    let second = first.standby();
    let both = format!("{},{}", first.address(), second.address());
    let url = first.url().replace(first.address(), &both) + "&target_session_attrs=read-write";
    let mut writers = Writers::start(&url);
    writers.wait_for(ALL / 3);
    first.kill();
    // Nobody writes anywhere until somebody decides who takes over.
    second.promote();
    let told = writers.end();
    told.assert_matches_database(second.url()).await;
    println!("one failover: {told}");
}
