//! Turns: they begin once and end once, and can be queried.

use std::sync::Arc;

use folio_memory::id::{Ref, TurnHandle};
use folio_memory::turn::{Decision, NewTurn, Stage, TurnEnd, TurnQuery, Used};
use folio_memory::{Change, EntryHandle, EntryId, EntryKind, PageQuery, PageRole, RunId, Seq, ThreadKey, Turn, TurnId};
use folio_store::{Commit, ErrorKind, Expected, Record, StoreError};

use super::Home;
use super::scene::Scene;

fn new(scene: &Scene, thread: &str) -> NewTurn {
    let used = Used {
        handle: EntryHandle(7),
        id: EntryId::derived(&["e7"]),
        version: 2,
    };
    NewTurn {
        id: TurnId::draw(&scene.ids, scene.now()),
        thread: ThreadKey(thread.to_owned()),
        input: "pay the invoice".to_owned(),
        run: None,
        background: false,
        as_of: Seq(0),
        decisions: vec![Decision::new(Stage::Router, "high", vec!["e7".to_owned()], vec![used])],
    }
}

fn end(turn: TurnId) -> Change {
    Change::EndTurn {
        turn,
        end: Box::new(TurnEnd {
            complete: true,
            decisions: Vec::new(),
            export: String::new(),
            touched: 3,
            as_of: Seq(1),
        }),
    }
}

async fn begin(scene: &Scene, turn: NewTurn) -> TurnId {
    let id = turn.id;
    scene.commit(vec![Change::BeginTurn(Box::new(turn))]).await;
    id
}

async fn read(scene: &Scene, turn: TurnId) -> Turn {
    scene.store.turn(&scene.space, Ref::Id(turn)).await.expect("a turn")
}

/// A turn has everything that was decided, and is found by its id and its handle.
pub async fn begun_turn_reads_back_unchanged_by_id_and_handle(home: &dyn Home) {
    let scene = Scene::of(home);
    let turn = new(&scene, "a");
    let id = begin(&scene, turn.clone()).await;
    let found = read(&scene, id).await;
    assert_eq!(
        (found.handle, found.started_seq, found.started_at),
        (TurnHandle(1), Seq(1), scene.now())
    );
    assert_eq!((&found.begun, &found.ended), (&turn, &None));
    let by_handle = scene.store.turn(&scene.space, Ref::Handle(TurnHandle(1))).await;
    assert_eq!(by_handle.expect("a turn"), found);
    let other = scene.other_space("other");
    let error = other
        .store
        .turn(&other.space, Ref::Id(id))
        .await
        .expect_err("another space");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

/// The turns and pages of such a thread are found, and not those of another thread whose name has the same beginning.
pub async fn very_long_thread_name_finds_its_pages_and_turns(home: &dyn Home) {
    let scene = Scene::of(home);
    // Nothing in it repeats, so it cannot be compressed.
    let name: String = (0..400)
        .map(|part| EntryId::derived(&[&part.to_string()]).to_string())
        .collect();
    let names = [name.clone(), format!("{name}!")];
    for name in &names {
        let mut book = scene.page(PageRole::Scratchbook);
        book.fields.thread = Some(ThreadKey(name.clone()));
        scene.commit(vec![Change::EnsurePage(Box::new(book))]).await;
        begin(&scene, new(&scene, name)).await;
    }
    for name in names {
        let thread = Some(ThreadKey(name));
        let query = PageQuery {
            thread: thread.clone(),
            ..PageQuery::default()
        };
        let pages = scene.store.pages(&scene.space, &query).await.expect("pages");
        let pages: Vec<_> = pages.into_iter().map(|page| page.fields.thread).collect();
        assert_eq!(pages, std::slice::from_ref(&thread));
        let query = TurnQuery {
            thread: thread.clone(),
            ..TurnQuery::default()
        };
        let turns = scene.store.turns(&scene.space, &query).await.expect("turns");
        let turns: Vec<_> = turns.into_iter().map(|turn| Some(turn.begun.thread)).collect();
        assert_eq!(turns, [thread]);
    }
}

/// The second attempt fails, and nothing of that commit is applied.
pub async fn turn_cannot_begin_or_end_twice(home: &dyn Home) {
    let scene = Scene::of(home);
    let turn = new(&scene, "a");
    let id = begin(&scene, turn.clone()).await;
    let again = scene.try_commit(vec![Change::BeginTurn(Box::new(turn))]).await;
    assert_eq!(again.expect_err("it is there").kind(), ErrorKind::Invalid);
    scene.clock.advance(std::time::Duration::from_secs(5));
    scene.commit(vec![end(id)]).await;
    let ended = read(&scene, id).await.ended.expect("an end");
    assert_eq!((ended.seq, ended.at, ended.end.touched), (Seq(2), scene.now(), 3));
    let error = scene.try_commit(vec![end(id)]).await.expect_err("it has ended");
    assert!(matches!(error, StoreError::TurnEnded { .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let nobody = TurnId::derived(&["nobody"]);
    let error = scene.try_commit(vec![end(nobody)]).await.expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(scene.head().await, Seq(2));
}

/// What others write, and what a run adds to its pages, does not count.
pub async fn turn_head_is_stale_once_memory_was_changed_in_the_turn_m7_6_47(home: &dyn Home) {
    let scene = Scene::of(home);
    let turn = begin(&scene, new(&scene, "a")).await;
    let other = begin(&scene, new(&scene, "b")).await;
    let page = scene.a_page().await;
    let in_turn = |turn, changes| {
        let commit = scene.commit_of(Record::of(changes));
        let actor = commit.actor.clone().in_turn(turn);
        Commit { actor, ..commit }
    };
    let write = async |turn, changes| {
        let written = scene.store.commit(in_turn(turn, changes)).await;
        written.expect("a commit").seq
    };
    let note = |body: &str| Change::AddEntry(Box::new(scene.note(page, body)));
    let first = write(turn, vec![note("in it")]).await;
    let before = scene.head().await;
    write(other, vec![note("in another one")]).await;
    let mut line = scene.note(page, "of a run");
    line.kind = EntryKind::Log;
    write(turn, vec![Change::AddEntry(Box::new(line))]).await;
    let expecting = |turn, head| Commit {
        expected: vec![Expected::TurnHead { turn, head }],
        ..scene.commit_of(Record::of(Vec::new()))
    };
    // Another store on the same data has seen none of it.
    let stores = [
        Arc::clone(&scene.store),
        if home.is_shared() {
            home.open()
        } else {
            Arc::clone(&scene.store)
        },
    ];
    for store in stores {
        store
            .commit(expecting(turn, before))
            .await
            .expect("nothing was changed");
        let error = store.commit(expecting(other, before)).await.expect_err("something was");
        assert!(matches!(error, StoreError::StaleSpace { .. }), "{error:?}");
        let before = Seq(first.0 - 1);
        let error = store.commit(expecting(turn, before)).await.expect_err("something was");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    // Commits that are written together count as well.
    let head = scene.head().await;
    let (changing, ending) = tokio::join!(
        scene.store.commit(in_turn(turn, vec![note("and on")])),
        scene.store.commit(expecting(turn, head))
    );
    let is_first = changing.expect("a commit").seq == Seq(head.0 + 1);
    assert_eq!(ending.is_err(), is_first);
}

/// This also holds for a turn that begins and ends in one commit.
pub async fn turn_queries_filter_by_thread_run_time_and_end(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = RunId::draw(&scene.ids, scene.now());
    let first = begin(&scene, new(&scene, "a")).await;
    scene.clock.advance(std::time::Duration::from_secs(60));
    let noon = scene.now();
    let of_run = NewTurn {
        run: Some(run),
        ..new(&scene, "b")
    };
    let second = begin(&scene, of_run).await;
    let third = new(&scene, "a");
    let third_id = third.id;
    scene
        .commit(vec![Change::BeginTurn(Box::new(third)), end(third_id)])
        .await;
    let ask = async |query: TurnQuery| -> Vec<TurnId> {
        let turns = scene.store.turns(&scene.space, &query).await.expect("turns");
        assert!(turns.iter().all(|turn| query.matches(turn)), "{query:?}");
        turns.into_iter().map(|turn| turn.begun.id).collect()
    };
    let any = TurnQuery::default;
    assert_eq!(ask(any()).await, [third_id, second, first], "newest first");
    assert_eq!(
        ask(TurnQuery {
            thread: Some(ThreadKey("a".to_owned())),
            ..any()
        })
        .await,
        [third_id, first]
    );
    assert_eq!(
        ask(TurnQuery {
            run: Some(run),
            ..any()
        })
        .await,
        [second]
    );
    assert_eq!(
        ask(TurnQuery {
            ended: Some(true),
            ..any()
        })
        .await,
        [third_id]
    );
    assert_eq!(
        ask(TurnQuery {
            ended: Some(false),
            ..any()
        })
        .await,
        [second, first]
    );
    let ended_at = scene.store.head(&scene.space).await.expect("it has commits");
    assert_eq!(
        ask(TurnQuery {
            ended_by: Some(ended_at),
            ..any()
        })
        .await,
        [third_id]
    );
    assert!(
        ask(TurnQuery {
            ended_by: Some(Seq(ended_at.0 - 1)),
            ..any()
        })
        .await
        .is_empty()
    );
    assert_eq!(
        ask(TurnQuery {
            from: Some(noon),
            ..any()
        })
        .await,
        [third_id, second]
    );
    assert_eq!(
        ask(TurnQuery {
            until: Some(noon),
            ..any()
        })
        .await,
        [first]
    );
    assert_eq!(
        ask(TurnQuery {
            before: Some(3),
            limit: 1,
            ..any()
        })
        .await,
        [second]
    );
    let other = scene.other_space("other");
    assert!(other.store.turns(&other.space, &any()).await.expect("turns").is_empty());
    assert_eq!(
        scene.store.check().await.expect("a check").problems,
        Vec::<String>::new()
    );
}
