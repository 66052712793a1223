//! The amount that PostgreSQL reads for a commit does not grow with the space, even before it has statistics of its
//! tables.

use folio_memory::turn::{NewTurn, TurnQuery};
use folio_memory::{Change, EntryKind, EntryQuery, PageRole, Seq, ThreadKey, TurnId};
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_testkit::contract::scene::Scene;
use folio_testkit::postgres::Database;

/// How many entries are added, one per commit.
const ADDED: u64 = 1_000;
/// How often to check whether connections have ended.
const LOOKS_MAX: u32 = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn commit_lookups_read_few_index_rows_as_the_space_grows() {
    let database = Database::fresh();
    let store = PostgresStore::open(&OpenOptions::at(database.url())).expect("a store");
    let scene = Scene::on(store.clone());
    let page = scene.a_page().await;
    for number in 0..ADDED {
        let pages = Change::EnsurePage(Box::new(scene.page(PageRole::Plan)));
        let note = scene.note(page, &format!("note {number}"));
        scene.commit(vec![pages, Change::AddEntry(Box::new(note))]).await;
    }
    drop(scene);
    drop(store);
    wait_for_connections_to_end(&database);
    for index in ["entry_id", "page_id"] {
        let sql = format!("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = '{index}'");
        let read: u64 = database.ask(&sql).unwrap().parse().unwrap();
        assert!(read <= 4 * ADDED, "{read} read by {index} for {ADDED} commits");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_use_indexes_that_leave_out_archived_entries() {
    const THERE: usize = 60;
    let database = Database::fresh();
    let store = PostgresStore::open(&OpenOptions::at(database.url())).expect("a store");
    let scene = Scene::on(store.clone());
    let page = scene.a_page().await;
    for number in 0..THERE {
        let mut note = scene.note(page, &format!("note {number}"));
        note.fields.pin_rank = (number % 6 == 0).then_some(1);
        scene.commit(vec![Change::AddEntry(Box::new(note))]).await;
    }
    // A long life of the space, so many times what is there.
    let put_away = "INSERT INTO entry SELECT space, 1000 + times * 100 + number, decode(md5(number || '/' || times), 'hex'), page, page_id, kind, type,
            'archived', owner, false, expires_at, superseded, confidence, version, created_at, updated_at, created_seq, updated_seq, fields, packed
        FROM entry, generate_series(1, 300) AS times; ANALYZE entry";
    database.ask(put_away).unwrap();
    let any = EntryQuery {
        kinds: vec![EntryKind::Note],
        ..EntryQuery::default()
    };
    let pinned = EntryQuery {
        pinned: Some(true),
        ..any.clone()
    };
    for (query, total) in [(any, THERE), (pinned, THERE / 6)] {
        assert_eq!(scene.list(&query).await.unwrap().total, total as u64);
    }
    drop(scene);
    drop(store);
    wait_for_connections_to_end(&database);
    let read = "SELECT (SELECT count(*) FROM pg_stat_user_indexes WHERE indexrelname IN ('entry_there', 'entry_pinned') AND idx_scan > 0)
        || ' indexes'";
    assert_eq!(database.ask(read).as_deref(), Ok("2 indexes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn open_turns_are_found_without_reading_those_that_have_ended() {
    let database = Database::fresh();
    let store = PostgresStore::open(&OpenOptions::at(database.url())).expect("a store");
    let scene = Scene::on(store.clone());
    let turn = NewTurn {
        id: TurnId::draw(&scene.ids, scene.now()),
        thread: ThreadKey::main(),
        input: String::new(),
        run: None,
        background: false,
        as_of: Seq(0),
        decisions: Vec::new(),
    };
    scene.commit(vec![Change::BeginTurn(Box::new(turn))]).await;
    let ended =
        "INSERT INTO turn (space, number, id, thread, started_at, started_seq, ended_at, ended_seq, begun, ended)
        SELECT space, 1 + times, decode(md5(times::text), 'hex'), thread, started_at, started_seq, 1, 1, begun, '{}'
        FROM turn, generate_series(1, 20000) AS times; ANALYZE turn";
    database.ask(ended).unwrap();
    for thread in [None, Some(ThreadKey::main())] {
        let query = TurnQuery {
            thread,
            ended: Some(false),
            ..TurnQuery::default()
        };
        let open = scene.store.turns(&scene.space, &query).await.unwrap();
        assert_eq!(open.len(), 1);
    }
    drop(scene);
    drop(store);
    wait_for_connections_to_end(&database);
    let read = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'turn_open'";
    assert_eq!(database.ask(read).as_deref(), Ok("2"));
}

/// Waits until all connections have ended: their reads are counted only then.
fn wait_for_connections_to_end(database: &Database) {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                  AND backend_type = 'client backend'";
    assert!((0..LOOKS_MAX).any(|_| database.ask(others).expect("a number") == "0"));
}
