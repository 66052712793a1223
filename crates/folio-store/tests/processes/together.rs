//! Several processes on one file, without a server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::{Change, EntryQuery, NewPage, PageId, PageRole, RunId, Seq, SpaceName};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{Expected, OwnerId, Store, StoreError};
use folio_testkit::SeededIds;
use folio_testkit::contract::scene::{Scene, asked_by, started};
use folio_testkit::process::{Process, orders, say};
use rustix::process::Signal;

const PROCESSES: u16 = 4;
const COMMITS: u64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_sharing_one_file_lose_no_commits_and_wake_waiters() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let mut processes: Vec<_> = (1..=PROCESSES)
        .map(|n| Process::start("together::child_writes_its_share", &path, n))
        .collect();
    let store = SqliteStore::open(&OpenOptions::at(&path)).unwrap();
    // Nothing but waiting: whatever comes is seen, in order and completely.
    let total = u64::from(PROCESSES) * COMMITS + COMMITS;
    let mut seen = Vec::new();
    while (seen.len() as u64) < total {
        let since = Seq(seen.len() as u64);
        let head = soon(store.wait(&SpaceName::main(), since)).await.unwrap();
        let rows = store.changes(&SpaceName::main(), since, u32::MAX).await.unwrap();
        assert!(!rows.is_empty() && head > since);
        seen.extend(rows);
    }
    assert!(
        seen.iter().zip(1..).all(|(row, number)| row.seq == Seq(number)),
        "there is a gap"
    );
    let keys: BTreeSet<_> = seen.iter().map(|row| row.idempotency_key.clone()).collect();
    assert_eq!(keys.len(), seen.len(), "a commit is there twice");
    for process in &mut processes {
        assert!(process.wait_for_success());
    }
    assert_eq!(store.head(&SpaceName::main()).await.unwrap(), Seq(total));
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
    let query = EntryQuery {
        limit: 1,
        ..EntryQuery::default()
    };
    let now = folio_memory::Timestamp::from_millis(0);
    assert_eq!(
        store.entries(&SpaceName::main(), &query, now).await.unwrap().total,
        total
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs in a process of its own, started by the test above"]
async fn child_writes_its_share() {
    let Some(orders) = orders() else { return };
    let scene = Arc::new(scene(&OpenOptions::at(&orders.path), orders.number));
    let number = orders.number;
    let writers = (0..3).map(|writer| {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move {
            let page = NewPage {
                id: PageId::derived(&["shared"]),
                ..scene.page(PageRole::Note)
            };
            for turn in (writer..COMMITS).step_by(3) {
                // One commit of its own, and one that every process wants to make and only one makes.
                for key in [format!("{number}/{turn}"), format!("shared/{turn}")] {
                    let note = scene.note(page.id, &key);
                    let changes = vec![
                        Change::EnsurePage(Box::new(page.clone())),
                        Change::AddEntry(Box::new(note)),
                    ];
                    scene.commit_as(&key, changes).await.expect("a commit");
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer");
    }
}

#[tokio::test]
async fn commit_waiting_for_another_writer_does_not_block_its_thread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let scene = scene(&OpenOptions::at(&path), 1);
    scene.commit(Vec::new()).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // One thread for everything: were it to wait, the other writer would never end.
    let (committed, ticks) = tokio::join!(scene.try_commit(Vec::new()), async {
        let mut ticks = 0;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert_eq!(scene.head().await, Seq(1), "reading goes on, too");
            ticks += 1;
        }
        other.execute_batch("COMMIT").unwrap();
        ticks
    });
    assert_eq!((committed.unwrap().seq, ticks), (Seq(2), 10));
}

fn owner(name: &str) -> OwnerId {
    OwnerId(name.to_owned())
}

/// A run that another process drives.
async fn a_driven_run(scene: &Scene) -> (Process, RunId, std::path::PathBuf) {
    let path = std::path::PathBuf::from(scene.store.location());
    let run = scene.a_run("a run").await;
    let mut process = Process::start("together::child_drives_a_run", &path, 2);
    assert_eq!(process.next_line().as_deref(), Some("driving"));
    (process, run, path)
}

fn options(path: &std::path::Path) -> OpenOptions {
    OpenOptions {
        lease: Duration::from_millis(1500),
        ..OpenOptions::at(path)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_of_a_killed_driver_is_taken_over_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let scene = scene(&OpenOptions::at(folder.path().join("folio.db")), 1);
    let (mut process, run, path) = a_driven_run(&scene).await;
    let refused = scene
        .store
        .claim_run(&scene.space, run, &owner("here"))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().starts_with("run r1 is driven already (process "),
        "{refused}"
    );
    assert!(scene.store.run(&scene.space, Ref::Id(run)).await.unwrap().driven);
    process.kill();
    assert!(!scene.store.run(&scene.space, Ref::Id(run)).await.unwrap().driven);
    assert_eq!(
        scene.store.claim_run(&scene.space, run, &owner("here")).await.unwrap(),
        2
    );
    drop(scene);
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    assert_eq!(left, ["folio.db"], "nothing is left lying about");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn driver_is_seen_by_whoever_opens_the_file_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let scene = scene(&OpenOptions::at(folder.path().join("folio.db")), 1);
    let (_process, run, path) = a_driven_run(&scene).await;
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let linked = SqliteStore::open(&OpenOptions::at(&link)).unwrap();
    assert!(linked.run(&scene.space, Ref::Id(run)).await.unwrap().driven);
    let refused = linked.claim_run(&scene.space, run, &owner("here")).await.unwrap_err();
    assert!(matches!(refused, StoreError::RunTaken { .. }), "{refused}");
    // And the other way round.
    let other = scene.a_run("another run").await;
    linked.claim_run(&scene.space, other, &owner("linked")).await.unwrap();
    let refused = scene.store.claim_run(&scene.space, other, &owner("here")).await;
    assert!(matches!(refused, Err(StoreError::RunTaken { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_driver_is_replaced_and_learns_of_the_takeover() {
    let folder = tempfile::tempdir().unwrap();
    let scene = scene(&options(&folder.path().join("folio.db")), 1);
    let (mut process, run, _) = a_driven_run(&scene).await;
    // Much longer than the lease: whoever works, says so in time.
    tokio::time::sleep(Duration::from_secs(2)).await;
    scene
        .store
        .claim_run(&scene.space, run, &owner("here"))
        .await
        .unwrap_err();
    process.signal(Signal::STOP);
    let fence = soon(async {
        loop {
            match scene.store.claim_run(&scene.space, run, &owner("here")).await {
                Ok(fence) => return fence,
                Err(StoreError::RunTaken { .. }) => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(StoreError::Unavailable { .. }) => {
                    // Stopped in the middle of a transaction, it keeps everybody from writing.
                    process.signal(Signal::CONT);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    process.signal(Signal::STOP);
                }
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
    assert_eq!(fence, 2);
    process.signal(Signal::CONT);
    assert_eq!(process.next_line().as_deref(), Some("it was taken over"));
    assert!(process.wait_for_success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn driver_keeps_its_runs_while_a_scrub_blocks_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let options = OpenOptions {
        lease: Duration::from_millis(300),
        ..OpenOptions::at(&path)
    };
    let (scene, other) = (scene(&options, 1), scene(&options, 2));
    let run = scene.a_run("a run").await;
    scene.store.claim_run(&scene.space, run, &owner("here")).await.unwrap();
    // Somebody reads what was there before, so that the write-ahead log cannot be moved: whoever wants to waits, and
    // nobody writes.
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM run").unwrap();
    scene.commit(Vec::new()).await;
    let (store, space) = (Arc::clone(&scene.store), scene.space.clone());
    let scrub = tokio::spawn(async move { store.scrub(&space, Vec::new()).await });
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!scrub.is_finished());
        let row = other.store.run(&other.space, Ref::Id(run)).await.unwrap();
        assert!(row.driven, "by a process that is alive");
    }
    reader.execute_batch("COMMIT").unwrap();
    soon(scrub).await.unwrap().unwrap();
    other
        .store
        .claim_run(&other.space, run, &owner("there"))
        .await
        .unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn driver_keeps_its_runs_after_machine_sleep_or_clock_jump() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let (scene, other) = (scene(&options(&path), 1), scene(&options(&path), 2));
    let run = scene.a_run("a run").await;
    let fence = scene.store.claim_run(&scene.space, run, &owner("here")).await.unwrap();
    // As after an hour in which nobody could say anything.
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute("UPDATE owner SET until = until - 3600000", []).unwrap();
    let is_driven = async || other.store.run(&other.space, Ref::Id(run)).await.unwrap().driven;
    assert!(
        !is_driven().await,
        "nobody who looks once can tell it from one that hangs"
    );
    // Whoever wants to drive it waits until its driver has said that it goes on.
    let there = owner("there");
    let claimed = other.store.claim_run(&other.space, run, &there);
    let refused = soon(claimed).await.unwrap_err();
    assert!(matches!(refused, StoreError::RunTaken { .. }), "{refused}");
    assert!(is_driven().await, "it has said that it goes on");
    let expected = vec![Expected::RunHead {
        run,
        head: Seq(1),
        fence: Some(fence),
    }];
    let asked = vec![asked_by("here")];
    scene.append(run, asked, None, expected).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs in a process of its own, started by the tests above"]
async fn child_drives_a_run() {
    let Some(orders) = orders() else { return };
    let scene = scene(&options(&orders.path), orders.number);
    let run = scene
        .store
        .run(&scene.space, Ref::Handle(folio_memory::id::RunHandle(1)))
        .await
        .expect("a run");
    let fence = scene
        .store
        .claim_run(&scene.space, run.id, &owner("there"))
        .await
        .expect("a claim");
    say("driving");
    let mut head = run.head;
    loop {
        let expected = vec![Expected::RunHead {
            run: run.id,
            head,
            fence: Some(fence),
        }];
        match scene.append(run.id, vec![asked_by("there")], None, expected).await {
            Ok(committed) => head = committed.seq,
            Err(StoreError::RunTaken { detail, .. }) => {
                say(detail.unwrap_or_default());
                return;
            }
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_processes_create_one_new_store_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folio.db");
    let mut processes: Vec<_> = (1..=6)
        .map(|n| Process::start("together::child_starts_a_run", &path, n))
        .collect();
    for process in &mut processes {
        assert!(process.wait_for_success());
    }
    let store = SqliteStore::open(&OpenOptions::at(&path)).unwrap();
    assert_eq!(
        store
            .runs(&SpaceName::main(), &folio_store::RunQuery::default())
            .await
            .unwrap()
            .len(),
        6
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs in a process of its own, started by the test above"]
async fn child_starts_a_run() {
    let Some(orders) = orders() else { return };
    let scene = scene(&OpenOptions::at(&orders.path), orders.number);
    let run = RunId::draw(&scene.ids, scene.now());
    scene
        .append(run, vec![started("mine")], None, Vec::new())
        .await
        .expect("a run");
}

/// Waits for something that should happen soon, however busy the machine is.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .expect("it should have happened long ago")
}

/// The space `main` of a store, with ids that no other process uses.
fn scene(options: &OpenOptions, number: u16) -> Scene {
    Scene {
        ids: SeededIds::new(number),
        ..Scene::on(SqliteStore::open(options).expect("a store"))
    }
}
