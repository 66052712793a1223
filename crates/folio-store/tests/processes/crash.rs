//! Whatever is killed when: what was acknowledged is stored, once, and the file is undamaged.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::{Change, FieldChange, PageId, PageRole, Seq};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{Blob, Commit, LogRow, Record, Store, StoreError};
use folio_testkit::SeededIds;
use folio_testkit::contract::scene::{Scene, asked_by, patch, started, tag};
use folio_testkit::process::{Process, orders, say};
use folio_testkit::whole_log;

/// How often a process is killed while it writes.
const KILLS: u16 = 30;
/// How often one is killed while it creates the file.
const EARLY_KILLS: u16 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_commits_survive_kill_9_exactly_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let mut acknowledged: HashMap<String, Seq> = HashMap::new();
    for round in 0..KILLS {
        let mut process = Process::start("crash::child_writes_until_it_is_killed", &path, round + 1);
        // Somewhere between the first commits and the third time that the write-ahead log is moved into the file.
        let moment = usize::from(round) * 37 % 400 + 1;
        for _ in 0..moment {
            note(&process.next_line().expect("another commit"), &mut acknowledged);
        }
        process.kill();
        while let Some(line) = process.next_line() {
            note(&line, &mut acknowledged);
        }
        let log = checked_log(&path).await;
        let keys: HashMap<_, _> = log
            .iter()
            .filter_map(|row| Some((row.idempotency_key.clone()?, row.seq)))
            .collect();
        for (key, seq) in &acknowledged {
            assert_eq!(keys.get(key), Some(seq), "round {round}: {key} was acknowledged");
        }
        assert_eq!(
            keys.len(),
            log.len(),
            "round {round}: every commit has a key of its own"
        );
    }
    assert!(
        acknowledged.len() > usize::from(KILLS) * 50,
        "{} commits",
        acknowledged.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_store_creation_is_completed_on_the_next_open() {
    for round in 0..EARLY_KILLS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/folio.db");
        let mut process = Process::start("crash::child_writes_until_it_is_killed", &path, 1);
        tokio::time::sleep(Duration::from_micros(u64::from(round) * 700)).await;
        process.kill();
        let mut acknowledged = HashMap::new();
        while let Some(line) = process.next_line() {
            note(&line, &mut acknowledged);
        }
        let log = checked_log(&path).await;
        assert!(log.len() >= acknowledged.len());
        scene(&OpenOptions::at(&path), 2).a_note("after all").await;
    }
}

fn note(line: &str, acknowledged: &mut HashMap<String, Seq>) {
    // The last line may be cut off.
    if let Some((key, seq)) = line.split_once(' ')
        && let Some(seq) = seq.strip_suffix('.').and_then(|seq| seq.parse().ok())
    {
        acknowledged.insert(key.to_owned(), Seq(seq));
    }
}

/// The whole log of a store that was found healthy.
async fn checked_log(path: &Path) -> Vec<LogRow> {
    let store = SqliteStore::open(&OpenOptions::at(path)).expect("the store opens");
    let checkup = store.check().await.expect("a check-up");
    assert_eq!(checkup.problems, Vec::<String>::new());
    let log = whole_log(&*store, &folio_memory::SpaceName::main())
        .await
        .expect("the log");
    assert!(
        log.iter().zip(1..).all(|(row, number)| row.seq == Seq(number)),
        "there is a gap"
    );
    log
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs in a process of its own, started by the tests above"]
async fn child_writes_until_it_is_killed() {
    let Some(orders) = orders() else { return };
    let scene = Arc::new(scene(&OpenOptions::at(&orders.path), orders.number));
    let writers = (0..4).map(|writer| {
        let (scene, number) = (Arc::clone(&scene), orders.number);
        tokio::spawn(async move { write_for_ever(&scene, &format!("{number}/{writer}")).await })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer");
    }
}

/// Writes additions, patches, pages, events and bodies, and prints each acknowledgement.
async fn write_for_ever(scene: &Scene, name: &str) {
    let page = folio_memory::NewPage {
        id: PageId::derived(&[name]),
        ..scene.page(PageRole::Note)
    };
    let run = folio_memory::RunId::derived(&[name]);
    let mut last = None;
    for turn in 0..u64::MAX {
        let mut note = scene.note(page.id, &format!("{name} {turn}"));
        note.fields.body = "some text ".repeat(30);
        note.fields.tags = vec![tag(name), tag("t")];
        let id = note.id;
        let mut record = Record::of(vec![
            Change::EnsurePage(Box::new(page.clone())),
            Change::AddEntry(Box::new(note)),
        ]);
        if let Some(last) = last {
            record
                .changes
                .push(patch(last, vec![FieldChange::Tags(vec![tag(name)])]));
        }
        let event = if turn == 0 { started(name) } else { asked_by(name) };
        record.run = Some(folio_store::RunAppend {
            run,
            events: vec![event],
            status: None,
            title: None,
            so_far: None,
        });
        let key = format!("{name}/{turn}");
        let blobs = if turn % 8 == 0 {
            vec![Blob::new(key.repeat(2000).into_bytes())]
        } else {
            Vec::new()
        };
        let commit = Commit {
            idempotency_key: Some(key.clone()),
            blobs,
            ..scene.commit_of(record)
        };
        let committed = scene.store.commit(commit).await.expect("a commit");
        say(format!("{key} {}.", committed.seq));
        last = Some(id);
    }
}

#[test]
fn temporarily_full_disk_loses_no_acknowledged_commits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let mut process = Process::start_with_limits("crash::child_runs_into_a_limit", &path, 1);
    let mut said = Vec::new();
    while let Some(line) = process.next_line() {
        said.push(line);
    }
    assert!(process.wait_for_success(), "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("fine"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs in a process of its own, started by the test above"]
async fn child_runs_into_a_limit() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let Some(orders) = orders() else { return };
    let scene = scene(&OpenOptions::at(&orders.path), orders.number);
    let page = scene.a_page().await;
    let add = || {
        vec![Change::AddEntry(Box::new(
            scene.note(page, &"a long title ".repeat(30)),
        ))]
    };
    let limit = |current| setrlimit(Resource::Fsize, Rlimit { current, maximum: None }).expect("a limit");
    let mut written = 1;
    for round in 0..3 {
        // The write-ahead log cannot grow any more.
        let wal = orders.path.with_file_name("folio.db-wal");
        limit(Some(
            std::fs::metadata(wal).expect("the write-ahead log").len() + 20_000,
        ));
        let mut refused = 0;
        for _ in 0..20 {
            match scene.try_commit(add()).await {
                Ok(committed) => {
                    written += 1;
                    assert_eq!(committed.seq, Seq(written));
                }
                Err(error) => {
                    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "round {round}: the limit was never reached");
        limit(None);
        written += 1;
        assert_eq!(scene.commit(add()).await.seq, Seq(written), "round {round}");
    }
    assert_eq!(
        scene.store.check().await.expect("a check-up").problems,
        Vec::<String>::new()
    );
    say("fine");
}

/// The space `main` of a store, with ids that no other process uses.
fn scene(options: &OpenOptions, number: u16) -> Scene {
    Scene {
        ids: SeededIds::new(number),
        ..Scene::on(SqliteStore::open(options).expect("a store"))
    }
}
