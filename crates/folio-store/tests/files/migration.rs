//! Files that are old, new, damaged, or not stores at all.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::keeping::ErasedFor;
use folio_memory::turn::{NewTurn, TurnQuery};
use folio_memory::{
    Actor, Change, EntryHandle, EntryKind, EntryQuery, FieldChange, Lifetime, NoteQuery, NotesKept, Role, Seq, Status,
    ThreadKey, Timestamp, TraceNote, TurnId,
};
use folio_store::sqlite::{Look, OpenOptions, SqliteStore, restore};
use folio_store::{Blob, Commit, Compaction, ErrorKind, Record, RunQuery, Store, StoreError};
use folio_testkit::contract::scene::{Scene, patch, tag};
use folio_testkit::process::{self, Process};
use rusqlite::Connection;

/// The number of damages that are tried.
const ROUNDS: usize = 40;
const HOUR: Duration = Duration::from_secs(3_600);

/// A file in the format of the first published version, as SQL.
const FORMAT_1: &str = include_str!("../fixtures/format-1.sql");

fn open(path: &Path) -> Result<Arc<SqliteStore>, StoreError> {
    SqliteStore::open(&OpenOptions::at(path))
}

/// The error when the store at `path` is opened.
fn refusal(path: &Path) -> StoreError {
    open(path).expect_err("it cannot be opened")
}

#[tokio::test]
async fn file_of_format_1_opens_without_problems() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    Connection::open(&path).unwrap().execute_batch(FORMAT_1).unwrap();
    let scene = Scene::on(open(&path).unwrap());
    assert_eq!(scene.store.check().await.unwrap().problems, Vec::<String>::new());
    let entry = scene
        .store
        .entry(&scene.space, Ref::Handle(EntryHandle(1)))
        .await
        .unwrap();
    assert_eq!((entry.fields.title.as_str(), entry.version), ("An old note", 2));
    let head = scene.head().await;
    assert_eq!(scene.commit(Vec::new()).await.seq, Seq(head.0 + 1));
}

#[test]
fn file_of_a_newer_format_is_refused_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    drop(open(&path).unwrap());
    let conn = Connection::open(&path).unwrap();
    let known: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    let before = std::fs::read(&path).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, StoreError::TooNew { found: 99, .. }), "{error:?}");
    assert!(
        error.to_string().ends_with(&format!(
            "folio.db has format 99; this version of folio knows formats up to {known}"
        )),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn sqlite_file_of_another_program_is_refused_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE bookmarks (url TEXT)")
        .unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = refusal(&path);
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error
            .to_string()
            .contains("other.db is an SQLite file of another program"),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing was made beside it"
    );
}

#[test]
fn non_database_file_is_refused_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "Some notes of mine. ".repeat(500)).unwrap();
    let error = refusal(&path);
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        error
            .to_string()
            .ends_with("notes.txt is damaged: it is not an SQLite file"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap().len(), 10_000);
}

#[tokio::test]
async fn empty_file_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    std::fs::write(&path, "").unwrap();
    let scene = Scene::on(open(&path).unwrap());
    let note = scene.a_note("kept").await;
    assert_eq!(scene.store.check().await.unwrap().problems, Vec::<String>::new());
    drop(scene);
    let again = Scene::on(open(&path).unwrap());
    assert_eq!(again.read(note).await.fields.title, "kept");
}

#[test]
fn file_shorter_than_a_database_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    drop(open(&path).unwrap());
    let whole = std::fs::read(&path).unwrap();
    for bytes in [1, 15, 100, 511] {
        std::fs::write(&path, &whole[..bytes]).unwrap();
        let error = refusal(&path);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{bytes}: {error}");
        assert!(
            error.to_string().ends_with("it is not an SQLite file"),
            "{bytes}: {error}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), &whole[..bytes]);
        let error = restore(&path, &folder.path().join("copy.db"), false, Look::AtEverything).unwrap_err();
        assert!(
            error.to_string().ends_with("it is not an SQLite file"),
            "{bytes}: {error}"
        );
    }
}

#[test]
fn opening_an_unusable_path_reports_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let message = |path: &Path| {
        let error = refusal(path);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        error.to_string()
    };
    assert!(
        message(folder.path()).ends_with("it is a folder, not a file"),
        "{}",
        message(folder.path())
    );
    let below = message(&file.join("folio.db"));
    assert!(below.ends_with("a part of its path is a file, not a folder"), "{below}");
    let nowhere = message(Path::new("/proc/folio/folio.db"));
    assert!(nowhere.starts_with("cannot create /proc/folio"), "{nowhere}");
}

#[cfg(unix)]
#[test]
fn opening_in_a_read_only_folder_reports_permission_denied() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let path = folder.path().join("folio.db");
    let mut process = Process::start_without_privileges("migration::unprivileged", &path, 1);
    let said = process.next_line().unwrap();
    assert!(
        said.starts_with("Unavailable: ") && said.ends_with("permission denied"),
        "{said}"
    );
    assert!(process.wait_for_success());
    assert!(!path.exists());
}

/// What a process for which file permissions hold is told when it opens the store.
#[test]
#[ignore = "runs in a process of its own, started by the test above"]
fn unprivileged() {
    let Some(orders) = process::orders() else { return };
    let error = refusal(&orders.path);
    process::say(format!("{:?}: {error}", error.kind()));
}

#[test]
fn file_name_resembling_a_uri_is_taken_literally() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["file:x?vfs=memdb", "a b%20c#d?mode=ro", "ü 線.db", "-journal"] {
        drop(open(&folder.path().join(name)).unwrap());
        assert!(folder.path().join(name).is_file(), "{name}");
    }
}

/// A store with something in every table, closed.
async fn filled(path: &Path) {
    let scene = Scene::on(open(path).unwrap());
    let page = scene.a_page().await;
    for number in 0..300 {
        let mut note = scene.note(page, &format!("note {number}"));
        note.fields.body = "some text that fills the pages of the file ".repeat(10);
        note.fields.tags = vec![tag("t")];
        let id = note.id;
        scene.add(note).await;
        if number % 10 == 0 {
            scene.commit(vec![patch(id, vec![FieldChange::PinRank(Some(1))])]).await;
        }
    }
    let blobs = vec![Blob::new((0..200_000_u32).flat_map(u32::to_le_bytes).collect())];
    scene
        .store
        .commit(Commit {
            blobs,
            ..scene.commit_of(Record::of(Vec::new()))
        })
        .await
        .unwrap();
    // What was put away is packed, what was erased leaves its tombstone, and what ends is watched.
    for number in 0..60 {
        let mut seen = scene.entry(page, EntryKind::Observation, "");
        seen.fields.body = format!("observation {number} ").repeat(80);
        seen.fields.lifetime = Lifetime::Until(scene.now().plus(HOUR * (number + 1)));
        let id = seen.id;
        scene.add(seen).await;
        let changes = match number % 3 {
            0 => vec![patch(id, vec![FieldChange::Status(Status::Archived)])],
            1 => vec![Change::EraseEntry {
                entry: id,
                why: ErasedFor::Expired,
                expected_version: None,
            }],
            _ => Vec::new(),
        };
        scene.commit(changes).await;
    }
    let compaction = Compaction {
        bury_until: None,
        give_up_until: None,
        notes: None,
        limit: 100,
    };
    scene.store.compact(&scene.space, compaction).await.unwrap();
    for number in 0..40 {
        let turn = NewTurn {
            id: TurnId::draw(&scene.ids, scene.now()),
            thread: ThreadKey(format!("thread {}", number % 3)),
            input: "what is to be done next".to_owned(),
            run: None,
            background: false,
            as_of: Seq(0),
            decisions: Vec::new(),
        };
        scene.commit(vec![Change::BeginTurn(Box::new(turn))]).await;
        scene.a_run(&format!("run {number}")).await;
    }
    let kept = NotesKept {
        from: Timestamp::MIN,
        notes_max: 1_000,
    };
    let note = TraceNote::new(scene.now(), &Actor::new(Role::Tool, "search"), "scratch_page", "query");
    scene
        .store
        .append_trace(&scene.space, &vec![note; 200], kept)
        .await
        .unwrap();
    let query = EntryQuery {
        text: Some("observation".to_owned()),
        ..EntryQuery::default()
    };
    assert_eq!(scene.list(&query).await.unwrap().total, 20);
}

#[tokio::test]
async fn damaged_file_is_reported_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    filled(&whole).await;
    // What was freed meanwhile would take damage without harm.
    Connection::open(&whole).unwrap().execute_batch("VACUUM").unwrap();
    let bytes = std::fs::read(&whole).unwrap();
    let pages = bytes.len() / 4096;
    let mut found = 0;
    for round in 0..ROUNDS {
        // Every round another stretch of another page, towards its end, from where pages are filled.
        let (page, length) = (1 + round * 7919 % (pages - 1), 1 + round * 37 % 300);
        let offset = 4096 - length - round * 131 % 400;
        let mut damaged = bytes.clone();
        for byte in &mut damaged[page * 4096 + offset..][..length] {
            *byte = byte.wrapping_mul(31).wrapping_add(u8::try_from(round + 1).unwrap());
        }
        let path = folder.path().join(format!("{round}.db"));
        std::fs::write(&path, damaged).unwrap();
        let store = match open(&path) {
            Ok(store) => store,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                found += 1;
                continue;
            }
        };
        let problems = match store.check().await {
            Ok(checkup) => checkup.problems,
            Err(error) => vec![error.to_string()],
        };
        found += u32::from(!problems.is_empty());
        read_everything(&Scene::on(store)).await;
    }
    // What lies in the unused part of a page does no harm, and the index of words keeps no texts to compare it with.
    assert!(found >= 30, "only {found} of {ROUNDS} damages were found");
}

/// Reads everything; what cannot be read must be reported.
async fn read_everything(scene: &Scene) {
    let told = |error: StoreError| {
        assert!(
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound),
            "{error:?}"
        );
    };
    for number in 1..=301 {
        let entry = scene.store.entry(&scene.space, Ref::Handle(EntryHandle(number))).await;
        entry.map(drop).unwrap_or_else(told);
    }
    let query = EntryQuery {
        tags: vec![tag("t")],
        limit: 1000,
        ..EntryQuery::default()
    };
    scene.list(&query).await.map(drop).unwrap_or_else(told);
    scene
        .store
        .changes(&scene.space, Seq(0), u32::MAX)
        .await
        .map(drop)
        .unwrap_or_else(told);
    let text = EntryQuery {
        text: Some("observation".to_owned()),
        ..query
    };
    scene.list(&text).await.map(drop).unwrap_or_else(told);
    let (store, space) = (&scene.store, &scene.space);
    let notes = NoteQuery {
        limit: 1_000,
        ..NoteQuery::default()
    };
    store.notes(space, &notes).await.map(drop).unwrap_or_else(told);
    store
        .turns(space, &TurnQuery::default())
        .await
        .map(drop)
        .unwrap_or_else(told);
    store
        .runs(space, &RunQuery::default())
        .await
        .map(drop)
        .unwrap_or_else(told);
    store
        .ended(space, Timestamp::MAX, 1_000)
        .await
        .map(drop)
        .unwrap_or_else(told);
    scene.try_commit(Vec::new()).await.map(drop).unwrap_or_else(told);
}

#[tokio::test]
async fn check_reports_rows_that_contradict_the_log() {
    let damages = [
        "UPDATE entry SET fields = replace(fields, 'note 7\"', 'note 8\"')",
        "UPDATE entry SET status = 'resolved' WHERE place & 255 = 9",
        "UPDATE entry SET version = version + 1 WHERE place & 255 = 9",
        "DELETE FROM entry WHERE place & 255 = 9",
        "DELETE FROM entry_term WHERE entry & 255 = 9",
        "INSERT INTO entry_term (term, entry) SELECT 'other', max(place) FROM entry",
        "DELETE FROM touch WHERE seq IN (SELECT max(seq) FROM touch)",
        "DELETE FROM log WHERE place & 255 = 9",
        "UPDATE log SET at = at - 1 WHERE place & 255 = 9",
        "UPDATE log SET record = replace(record, '\"v\":1', '\"v\":2') WHERE place & 255 = 9",
        "UPDATE page SET fields = replace(fields, 'open', 'closed')",
        "UPDATE blob SET bytes = zeroblob(10)",
        "UPDATE blob SET size = 10",
        "UPDATE run SET place = place + 1000",
        "UPDATE run SET status = 'done'",
        "UPDATE run SET title = 'another run'",
        "UPDATE turn SET begun = replace(begun, 'next', 'last')",
        "DELETE FROM turn WHERE place IN (SELECT max(place) FROM turn)",
        "DELETE FROM watch WHERE what = 1",
        "DELETE FROM packed_entry WHERE place IN (SELECT max(place) FROM packed_entry)",
        "UPDATE packed_log SET bytes = zeroblob(10)",
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    filled(&path).await;
    Scene::on(open(&path).unwrap()).a_run("a run").await;
    for damage in damages {
        let damaged = folder.path().join("damaged.db");
        std::fs::copy(&path, &damaged).unwrap();
        let changed = Connection::open(&damaged).unwrap().execute(damage, []).unwrap();
        assert!(changed > 0, "{damage}");
        let problems = open(&damaged).unwrap().check().await.unwrap().problems;
        assert!(!problems.is_empty(), "{damage}: not found");
        assert!(problems.len() <= 20);
    }
    assert_eq!(
        open(&path).unwrap().check().await.unwrap().problems,
        Vec::<String>::new()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn size_limited_store_refuses_only_oversized_commits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let limited = OpenOptions {
        bytes_max: Some(1024 * 1024),
        ..OpenOptions::at(&path)
    };
    let scene = Arc::new(Scene::on(SqliteStore::open(&limited).unwrap()));
    let page = scene.a_page().await;
    let noise: Vec<u8> = (0..400_000_u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes())
        .collect();
    let large = Commit {
        blobs: vec![Blob::new(noise)],
        ..scene.commit_of(Record::of(Vec::new()))
    };
    // Many small ones and some that cannot be, all at once: they share transactions, but not their fate.
    let tasks: Vec<_> = (0..60)
        .map(|number| {
            let (scene, large) = (Arc::clone(&scene), large.clone());
            tokio::spawn(async move {
                if number % 6 == 0 {
                    let error = scene.store.commit(large).await.expect_err("too large");
                    assert!(
                        error
                            .to_string()
                            .ends_with("the disk is full; free some space and try again"),
                        "{error}"
                    );
                    assert_eq!(error.kind(), ErrorKind::Unavailable);
                } else {
                    scene
                        .commit(vec![Change::AddEntry(Box::new(scene.note(page, "small")))])
                        .await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(scene.head().await, Seq(51));
    assert_eq!(scene.store.check().await.unwrap().problems, Vec::<String>::new());
    drop(scene);
    let scene = Scene::on(open(&path).unwrap());
    let large = Commit {
        space: scene.space.clone(),
        ..large
    };
    assert_eq!(
        scene.store.commit(large).await.expect("there is space again").seq,
        Seq(52)
    );
}
