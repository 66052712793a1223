//! Runs and their journals.

use std::collections::BTreeMap;

use folio_engine::run::RunSummary;
use folio_engine::spend::Spend;
use folio_memory::id::{Ref, RunHandle};
use folio_memory::{RunId, Seq, Timestamp};
use folio_store::{ErrorKind, Expected, JOURNAL_PART_BYTES, LogRow, RunQuery, StoreError};

use super::Home;
use super::scene::{Scene, asked_by, started};

/// The run has a row that lists can show.
pub async fn run_row_is_created_and_updated_by_its_events(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = scene.a_run("Review the code").await;
    let row = scene.store.run(&scene.space, Ref::Id(run)).await.expect("a run");
    assert_eq!(
        (row.handle, row.title.as_str(), row.status.as_str()),
        (RunHandle(1), "Review the code", "running")
    );
    assert_eq!(
        (row.head, row.created_at, row.updated_at, row.driven),
        (Seq(1), scene.now(), scene.now(), false)
    );
    scene.clock.advance(std::time::Duration::from_secs(1));
    let committed = scene
        .append(run, vec![asked_by("a")], Some("cancelled"), Vec::new())
        .await
        .expect("an event");
    assert_eq!(committed.run, Some((run, RunHandle(1))));
    let row = scene
        .store
        .run(&scene.space, Ref::Handle(RunHandle(1)))
        .await
        .expect("a run");
    assert_eq!(
        (row.status.as_str(), row.head, row.updated_at),
        ("cancelled", Seq(2), scene.now())
    );
    assert!(row.created_at < row.updated_at);
    let error = scene
        .store
        .run(&scene.space, Ref::Handle(RunHandle(2)))
        .await
        .expect_err("no such run");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let other = scene.other_space("other");
    assert!(other.store.run(&other.space, Ref::Id(run)).await.is_err());
    assert!(other.store.journal(&other.space, run, Seq(0)).await.is_err());
}

/// A journal contains no events of other runs, and none twice.
pub async fn journal_returns_events_in_order_from_any_commit(home: &dyn Home) {
    let scene = Scene::of(home);
    let (run, other) = (scene.a_run("one").await, scene.a_run("other").await);
    for name in ["a", "b", "c"] {
        scene
            .append(other, vec![asked_by("other")], None, Vec::new())
            .await
            .expect("an event");
        scene
            .append(run, vec![asked_by(name), asked_by("again")], None, Vec::new())
            .await
            .expect("events");
    }
    let whole = scene.store.journal(&scene.space, run, Seq(0)).await.expect("a journal");
    let events: Vec<_> = whole.events.iter().map(|(_, event)| event.clone()).collect();
    let again = || asked_by("again");
    assert_eq!(
        events,
        [
            started("one"),
            asked_by("a"),
            again(),
            asked_by("b"),
            again(),
            asked_by("c"),
            again()
        ]
    );
    assert_eq!(whole.head, Seq(8));
    let rest = scene.store.journal(&scene.space, run, Seq(6)).await.expect("a journal");
    assert_eq!(rest.events, whole.events[5..]);
    let nothing = scene
        .store
        .journal(&scene.space, run, whole.head)
        .await
        .expect("a journal");
    assert_eq!((nothing.events.len(), nothing.head), (0, whole.head));
    // In parts: one commit each if one byte is requested, everything at once if the size allows it.
    let (mut parts, mut since) = (Vec::new(), Seq(0));
    for commits in 1.. {
        let part = scene.store.journal_part(&scene.space, run, since, 1).await;
        let part = part.expect("a part of a journal");
        assert!(part.head > since && part.events.iter().all(|(at, _)| *at == part.events[0].0));
        parts.extend(part.events);
        since = part.head;
        assert_eq!(part.is_whole, commits == 4, "{since}");
        if part.is_whole {
            break;
        }
    }
    assert_eq!((&parts, since), (&whole.events, whole.head));
    let all = scene
        .store
        .journal_part(&scene.space, run, Seq(0), JOURNAL_PART_BYTES)
        .await;
    assert_eq!(all.expect("a journal"), whole);
    // The same with who wrote it and what else they did.
    let (mut commits, mut since) = (Vec::new(), Seq(0));
    for count in 1.. {
        let part = scene.store.run_commits(&scene.space, run, since, 1).await;
        let part = part.expect("a part of a journal");
        assert_eq!((part.commits.len(), part.is_whole), (1, count == 4), "{since}");
        commits.extend(part.commits);
        since = commits.last().expect("a commit").seq;
        if part.is_whole {
            break;
        }
    }
    let all = scene
        .store
        .run_commits(&scene.space, run, Seq(0), JOURNAL_PART_BYTES)
        .await
        .expect("commits");
    assert_eq!((&all.commits, all.is_whole), (&commits, true));
    let of_run = |row: &LogRow| row.record.run.as_ref().is_some_and(|append| append.run == run);
    let log = scene.store.changes(&scene.space, Seq(0), 100).await.expect("the log");
    assert_eq!(all.commits, log.into_iter().filter(of_run).collect::<Vec<_>>());
    let unknown = scene
        .store
        .run_commits(&scene.space, RunId::derived(&["?"]), Seq(0), 1)
        .await;
    assert_eq!(unknown.expect_err("no such run").kind(), ErrorKind::NotFound);
    let unknown = scene.store.journal(&scene.space, RunId::derived(&["?"]), Seq(0)).await;
    assert_eq!(unknown.expect_err("no such run").kind(), ErrorKind::NotFound);
}

/// The start event comes first, and only once.
pub async fn run_must_start_before_other_events_and_only_once(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = RunId::derived(&["run"]);
    let early = scene.append(run, vec![asked_by("a")], None, Vec::new()).await;
    assert_eq!(early.expect_err("not started").kind(), ErrorKind::NotFound);
    let late = scene
        .append(run, vec![started("g"), started("g")], None, Vec::new())
        .await;
    assert_eq!(late.expect_err("started twice").kind(), ErrorKind::Invalid);
    scene
        .append(run, vec![started("g")], None, Vec::new())
        .await
        .expect("a run");
    let twice = scene.append(run, vec![started("g")], None, Vec::new()).await;
    assert_eq!(twice.expect_err("started already").kind(), ErrorKind::Invalid);
    assert_eq!(scene.head().await, Seq(1));
}

/// A writer that decided on an old state gets an error.
pub async fn append_with_a_stale_run_head_is_a_conflict(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = scene.a_run("run").await;
    let at = |head| {
        vec![Expected::RunHead {
            run,
            head: Seq(head),
            fence: None,
        }]
    };
    // Other commits of the space do not matter.
    scene.commit(Vec::new()).await;
    scene
        .append(run, vec![asked_by("a")], None, at(1))
        .await
        .expect("an event");
    match scene.append(run, vec![asked_by("b")], None, at(1)).await {
        Err(StoreError::StaleRun {
            found: Seq(3),
            expected: Seq(1),
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    let unknown = vec![Expected::RunHead {
        run: RunId::derived(&["?"]),
        head: Seq(0),
        fence: None,
    }];
    let error = scene
        .append(run, vec![asked_by("c")], None, unknown)
        .await
        .expect_err("no such run");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(
        scene
            .store
            .journal(&scene.space, run, Seq(0))
            .await
            .expect("a journal")
            .events
            .len(),
        2
    );
}

/// Runs can be filtered by status, and read in pages.
pub async fn runs_are_listed_newest_first_with_status_filter_and_paging(home: &dyn Home) {
    let scene = Scene::of(home);
    for number in 1..=5 {
        let run = scene.a_run(&number.to_string()).await;
        if number % 2 == 0 {
            scene
                .append(run, vec![asked_by("a")], Some("ok"), Vec::new())
                .await
                .expect("an event");
        }
    }
    scene.other_space("other").a_run("elsewhere").await;
    let titles = async |query: RunQuery| {
        let runs = scene.store.runs(&scene.space, &query).await.expect("runs");
        runs.into_iter().map(|run| run.title).collect::<Vec<_>>()
    };
    assert_eq!(titles(RunQuery::default()).await, ["5", "4", "3", "2", "1"]);
    assert_eq!(
        titles(RunQuery {
            limit: 2,
            ..RunQuery::default()
        })
        .await,
        ["5", "4"]
    );
    assert_eq!(
        titles(RunQuery {
            limit: 2,
            before: Some(4),
            ..RunQuery::default()
        })
        .await,
        ["3", "2"]
    );
    assert_eq!(
        titles(RunQuery {
            status: vec!["ok".to_owned()],
            ..RunQuery::default()
        })
        .await,
        ["4", "2"]
    );
    let rows = scene
        .store
        .runs(&scene.space, &RunQuery::default())
        .await
        .expect("runs");
    let run_ids = rows
        .iter()
        .map(|row| row.id)
        .chain([RunId::derived(&["nowhere"])])
        .collect();
    let heads = scene.store.run_heads(&scene.space, run_ids).await.expect("heads");
    let heads: BTreeMap<_, _> = heads.into_iter().collect();
    assert_eq!(heads, rows.iter().map(|row| (row.id, row.head)).collect());
    assert!(
        titles(RunQuery {
            status: vec!["unheard of".to_owned()],
            ..RunQuery::default()
        })
        .await
        .is_empty()
    );
}

/// Only the last commit counts, so a commit of an older version, which says nothing, clears the earlier values.
pub async fn run_progress_is_taken_from_the_last_commit_only(home: &dyn Home) {
    let scene = Scene::of(home);
    let (run, silent) = (scene.a_run("one").await, scene.a_run("other").await);
    let summaries = async || {
        let run_ids = vec![run, silent, RunId::derived(&["nowhere"])];
        scene
            .store
            .runs_so_far(&scene.space, run_ids)
            .await
            .expect("what lists tell")
    };
    assert_eq!(summaries().await, []);
    let some = RunSummary {
        spent: Spend {
            tokens_in: 70_000,
            micro_usd: 1_234_567,
            ..Spend::TOOL_CALL
        },
        paused: true,
        asks: 2,
        broken_off: 1,
        waits: true,
        due_at: Some(Timestamp::from_millis(1_000)),
        forked_from: Some(silent),
        forked_at: Some("survey/files".to_owned()),
    };
    // A run that reports no usage differs from one that reports nothing.
    for so_far in [some, RunSummary::default()] {
        let appended = scene.append_saying(run, vec![asked_by("a")], so_far.clone()).await;
        appended.expect("an event");
        assert_eq!(summaries().await, [(run, so_far)]);
    }
    let other = scene.other_space("other");
    let elsewhere = other.store.runs_so_far(&other.space, vec![run]).await;
    assert_eq!(elsewhere.expect("nothing of another space"), []);
    let appended = scene.append(run, vec![asked_by("b")], Some("ok"), Vec::new()).await;
    appended.expect("an event");
    assert_eq!(summaries().await, []);
}
