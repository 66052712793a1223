//! Commits that are written in parts.

use folio_memory::id::{Ref, RunHandle};
use folio_memory::{Change, EntryKind, RunId, Seq};
use folio_store::{Commit, CommittedParts, Giving, Record, RunAppend, RunQuery, StoreError, in_parts};

use super::Home;
use super::scene::{Scene, asked_by, started};

/// A part of the journal of `run`, with its own page.
fn part(scene: &Scene, run: RunId, name: &str, is_first: bool) -> Commit {
    let page = scene.page(folio_memory::PageRole::Note);
    let entry = scene.entry(page.id, EntryKind::Observation, name);
    let append = RunAppend {
        run,
        events: vec![if is_first { started(name) } else { asked_by(name) }],
        status: None,
        title: is_first.then(|| name.to_owned()),
        so_far: None,
    };
    scene.commit_of(Record {
        run: Some(append),
        ..Record::of(vec![
            Change::EnsurePage(Box::new(page)),
            Change::AddEntry(Box::new(entry)),
        ])
    })
}

/// Writes what `give` sends; returns the outcome and what `give` returns.
async fn written<T>(scene: &Scene, give: impl AsyncFnOnce(Giving) -> T) -> (Result<CommittedParts, StoreError>, T) {
    let (sender, parts) = in_parts();
    tokio::join!(scene.store.commit_parts(parts), give(sender))
}

/// The visible state of a space: its last commit, the number of its runs and pages, and whether it has entries.
async fn seen(scene: &Scene) -> (Seq, usize, u64, bool) {
    let runs = scene
        .store
        .runs(&scene.space, &RunQuery::default())
        .await
        .expect("runs");
    let pages = scene
        .store
        .page_count(&scene.space, &Default::default())
        .await
        .expect("pages");
    let titles = scene.titles(&Default::default()).await;
    (scene.head().await, runs.len(), pages, !titles.is_empty())
}

/// Each part is a commit with a number, and has the same effect as if it had been written by itself.
pub async fn multi_part_commit_becomes_visible_only_as_a_whole(home: &dyn Home) {
    let scene = Scene::of(home);
    scene.a_page().await;
    let run = RunId::derived(&["in parts"]);
    let before = seen(&scene).await;
    let (committed, was_accepted) = written(&scene, async |sender| {
        let mut is_accepted = sender.give(part(&scene, run, "one", true)).await;
        for name in ["two", "three", "four", "five", "six"] {
            is_accepted &= sender.give(part(&scene, run, name, false)).await;
            assert_eq!(seen(&scene).await, before, "{name}");
        }
        sender.end().await;
        is_accepted
    })
    .await;
    let committed = committed.expect("six commits");
    assert!(was_accepted);
    assert_eq!((committed.first.seq, committed.head), (Seq(2), Seq(7)));
    assert_eq!(committed.first.run, Some((run, RunHandle(1))));
    assert_eq!((committed.first.replayed, committed.at), (false, scene.now()));
    assert_eq!(seen(&scene).await, (Seq(7), 1, 7, true));
    let journal = scene.store.journal(&scene.space, run, Seq(0)).await.expect("a journal");
    let events: Vec<_> = journal.events.into_iter().map(|(_, event)| event).collect();
    let expected = ["two", "three", "four", "five", "six"].map(asked_by);
    assert_eq!((&events[0], &events[1..]), (&started("one"), &expected[..]));
    let checkup = scene.store.check().await.expect("a checkup");
    assert_eq!(checkup.problems, Vec::<String>::new());
    assert_eq!(scene.commit(Vec::new()).await.seq, Seq(8));
}

/// The sender may have been stopped: parts without a final marker are discarded.
pub async fn multi_part_commit_without_an_end_is_discarded(home: &dyn Home) {
    let scene = Scene::of(home);
    scene.a_page().await;
    let run = RunId::derived(&["in parts"]);
    let before = seen(&scene).await;
    for parts in 0..4 {
        let (refused, ()) = written(&scene, async |sender| {
            for number in 0..parts {
                sender.give(part(&scene, run, "some", number == 0)).await;
            }
        })
        .await;
        assert!(matches!(refused, Err(StoreError::Invalid(_))), "{parts}: {refused:?}");
        assert_eq!(seen(&scene).await, before, "{parts}");
    }
    let (refused, ()) = written(&scene, async |sender| sender.end().await).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    // The writer is dropped while it writes.
    let (sender, parts) = in_parts();
    let mut writing = Box::pin(scene.store.commit_parts(parts));
    tokio::select! {
        biased;
        _ = &mut writing => panic!("it has no end"),
        _ = async {
            sender.give(part(&scene, run, "some", true)).await;
            sender.give(part(&scene, run, "more", false)).await;
        } => {}
    }
    drop((writing, sender));
    assert_eq!(scene.commit(Vec::new()).await.seq, Seq(2));
    let nothing = scene.store.run(&scene.space, Ref::Id(run)).await;
    assert!(matches!(nothing, Err(StoreError::NotFound { .. })), "{nothing:?}");
    let checkup = scene.store.check().await.expect("a checkup");
    assert_eq!(checkup.problems, Vec::<String>::new());
}

/// The parts before it are discarded, too, and the sender is told that no more are wanted.
pub async fn refused_part_discards_the_whole_multi_part_commit(home: &dyn Home) {
    let scene = Scene::of(home);
    scene.a_page().await;
    let (run, other) = (RunId::derived(&["in parts"]), RunId::derived(&["other"]));
    let before = seen(&scene).await;
    for refused_at in 0..3 {
        let (refused, is_wanted) = written(&scene, async |sender| {
            for number in 0..refused_at {
                sender.give(part(&scene, run, "some", number == 0)).await;
            }
            // A run that has not begun.
            let mut is_wanted = sender.give(part(&scene, other, "none", false)).await;
            for _ in 0..100 {
                is_wanted = is_wanted && sender.give(part(&scene, run, "more", false)).await;
            }
            sender.end().await;
            is_wanted
        })
        .await;
        assert!(
            matches!(refused, Err(StoreError::NotFound { .. })),
            "{refused_at}: {refused:?}"
        );
        // A store in memory starts writing only once all parts are there.
        assert!(!is_wanted || !home.is_shared(), "{refused_at}");
        assert_eq!(seen(&scene).await, before, "{refused_at}");
    }
    let (refused, ()) = written(&scene, async |sender| {
        sender.give(part(&scene, run, "some", true)).await;
        sender.give(part(&scene.other_space("other"), run, "some", false)).await;
        sender.end().await;
    })
    .await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    assert_eq!(seen(&scene).await, before);
}

/// The key is that of the first part.
pub async fn multi_part_commit_with_a_repeated_key_is_written_once(home: &dyn Home) {
    let scene = Scene::of(home);
    let keyed = async |run: RunId| {
        let (committed, ()) = written(&scene, async |sender| {
            let mut first = part(&scene, run, "one", true);
            first.idempotency_key = Some("a key".to_owned());
            sender.give(first).await;
            for _ in 0..10 {
                sender.give(part(&scene, run, "more", false)).await;
            }
            sender.end().await;
        })
        .await;
        committed.expect("commits")
    };
    let (one, other) = (RunId::derived(&["one"]), RunId::derived(&["other"]));
    let first = keyed(one).await;
    assert_eq!((first.first.seq, first.head), (Seq(1), Seq(11)));
    let again = keyed(other).await;
    assert!(again.first.replayed);
    assert_eq!((again.first.seq, again.first.run), (Seq(1), first.first.run));
    assert_eq!(scene.head().await, Seq(11));
}

/// Other writers wait, and their commits come after it.
pub async fn multi_part_commits_do_not_interleave_with_other_commits(home: &dyn Home) {
    let scene = Scene::of(home);
    let in_parts = async |name: &str| {
        let run = RunId::derived(&[name]);
        let (committed, ()) = written(&scene, async |sender| {
            for number in 0..10 {
                sender.give(part(&scene, run, "some", number == 0)).await;
            }
            sender.end().await;
        })
        .await;
        committed.expect("commits")
    };
    let alone = async {
        let mut numbers = Vec::new();
        for _ in 0..20 {
            numbers.push(scene.commit(Vec::new()).await.seq.0);
        }
        numbers
    };
    let (a, b, c, mut numbers) = tokio::join!(in_parts("a"), in_parts("b"), in_parts("c"), alone);
    for committed in [a, b, c] {
        let (first, head) = (committed.first.seq.0, committed.head.0);
        assert_eq!(head, first + 9);
        numbers.extend(first..=head);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=50).collect::<Vec<_>>());
}
