//! The log: numbering, keys, refusals and waiting.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::keeping::ErasedFor;
use folio_memory::{Change, EntryId, FieldChange, Seq, Timestamp};
use folio_store::{CHANGES_BYTES, Commit, ErrorKind, Expected, Record, RequestKey, StoreError};
use serde_json::{Value, json};

use super::Home;
use super::scene::{Scene, patch};

/// Each space counts for itself.
pub async fn commits_of_a_space_are_numbered_from_one_without_gaps(home: &dyn Home) {
    let main = Scene::of(home);
    let other = main.other_space("other");
    assert_eq!(main.head().await, Seq(0));
    for number in 1..=5 {
        assert_eq!(main.commit(Vec::new()).await.seq, Seq(number));
        assert_eq!(main.head().await, Seq(number));
    }
    assert_eq!(other.commit(Vec::new()).await.seq, Seq(1));
    assert_eq!(main.commit(Vec::new()).await.seq, Seq(6));
}

/// Commits that share a transaction get different numbers.
pub async fn concurrent_commits_get_distinct_numbers_without_gaps(home: &dyn Home) {
    let scene = Arc::new(Scene::of(home));
    let page = scene.a_page().await;
    let writers = (0..16).map(|writer| {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move {
            let mut seqs = Vec::new();
            for turn in 0..10 {
                let note = scene.note(page, &format!("{writer}/{turn}"));
                seqs.push(scene.commit(vec![Change::AddEntry(Box::new(note))]).await);
            }
            seqs
        })
    });
    let mut seqs = BTreeSet::new();
    let mut handles = BTreeSet::new();
    for writer in writers.collect::<Vec<_>>() {
        let committed = writer.await.expect("a writer");
        assert!(
            committed.is_sorted_by_key(|c| c.seq),
            "a writer's commits are in its order"
        );
        seqs.extend(committed.iter().map(|c| c.seq.0));
        handles.extend(committed.iter().map(|c| c.entries[0].handle.0));
    }
    assert_eq!(seqs, (2..=161).collect());
    assert_eq!(handles, (1..=160).collect());
    let rows = scene.store.changes(&scene.space, Seq(0), 1000).await.expect("changes");
    assert_eq!(
        rows.iter().map(|row| row.seq.0).collect::<Vec<_>>(),
        (1..=161).collect::<Vec<_>>()
    );
}

/// Not even the changes before the invalid one are applied.
pub async fn refused_commit_changes_nothing(home: &dyn Home) {
    let scene = Scene::of(home);
    let unknown = patch(EntryId::derived(&["nobody"]), vec![FieldChange::Title("x".to_owned())]);
    // This holds for the very first commit of a space, too.
    let page = scene.page(folio_memory::PageRole::Note);
    let note = scene.note(page.id, "lost");
    let changes = vec![
        Change::EnsurePage(Box::new(page.clone())),
        Change::AddEntry(Box::new(note.clone())),
        unknown,
    ];
    let error = scene.try_commit(changes).await.expect_err("an entry that is not there");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(scene.head().await, Seq(0));
    assert!(matches!(
        scene
            .store
            .entry(&scene.space, folio_memory::id::Ref::Id(note.id))
            .await,
        Err(StoreError::NotFound { what: "entry", .. })
    ));
    let committed = scene
        .commit(vec![
            Change::EnsurePage(Box::new(page)),
            Change::AddEntry(Box::new(note)),
        ])
        .await;
    assert_eq!(
        (committed.seq, committed.entries[0].handle.0),
        (Seq(1), 1),
        "nor was a number used"
    );
}

/// Refused and successful commits may share a transaction.
pub async fn refused_commit_uses_no_number_among_concurrent_commits(home: &dyn Home) {
    let scene = Arc::new(Scene::of(home));
    let page = scene.a_page().await;
    let tasks: Vec<_> = (0..40)
        .map(|number| {
            let scene = Arc::clone(&scene);
            tokio::spawn(async move {
                let note = Change::AddEntry(Box::new(scene.note(page, "a note")));
                let lost = patch(EntryId::derived(&["nobody"]), Vec::new());
                let changes = if number % 2 == 0 { vec![note] } else { vec![note, lost] };
                scene.try_commit(changes).await.is_ok()
            })
        })
        .collect();
    let mut written = 0;
    for task in tasks {
        written += u64::from(task.await.expect("a writer"));
    }
    assert_eq!((written, scene.head().await), (20, Seq(21)));
    assert_eq!(
        scene
            .list(&folio_memory::EntryQuery::default())
            .await
            .expect("a list")
            .total,
        20
    );
}

/// A repeated key, later and with other content, returns the first answer.
pub async fn repeated_idempotency_key_returns_the_first_answer(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.page(folio_memory::PageRole::Note);
    let changes = vec![
        Change::EnsurePage(Box::new(page.clone())),
        Change::AddEntry(Box::new(scene.note(page.id, "once"))),
    ];
    let first = scene.commit_as("turn-1/0", changes.clone()).await.expect("a commit");
    scene.clock.advance(Duration::from_secs(5));
    scene.commit(Vec::new()).await;
    let again = scene.commit_as("turn-1/0", changes).await.expect("the same commit");
    assert!(again.replayed && !first.replayed);
    assert_eq!(
        folio_store::Committed {
            replayed: false,
            ..again
        },
        first
    );
    assert_eq!(scene.head().await, Seq(2));
    let other = scene
        .commit_as(
            "turn-1/1",
            vec![Change::AddEntry(Box::new(scene.note(page.id, "twice")))],
        )
        .await;
    assert_eq!(other.expect("another key").seq, Seq(3));
}

/// This is the retry of a driver whose commit was written but not acknowledged.
pub async fn idempotent_retry_succeeds_although_its_expectation_is_stale(home: &dyn Home) {
    let scene = Scene::of(home);
    let commit = Commit {
        idempotency_key: Some("step-1".to_owned()),
        expected: vec![Expected::SpaceHead(Seq(0))],
        ..scene.commit_of(Record::of(Vec::new()))
    };
    scene.store.commit(commit.clone()).await.expect("a commit");
    assert!(scene.store.commit(commit).await.expect("the same commit").replayed);
}

/// A program may use one key for two requests. A commit without a request is answered as for any repeated key.
pub async fn idempotency_key_reused_for_another_request_is_refused(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let asking = async |parts: &[&[u8]], title: &str| {
        let request_key = RequestKey::new("key", "secret", parts);
        let added = vec![Change::AddEntry(Box::new(scene.note(page, title)))];
        let record = Record {
            request: Some(request_key.request().clone()),
            ..Record::of(added)
        };
        let commit = Commit {
            idempotency_key: Some(request_key.key().to_owned()),
            ..scene.commit_of(record)
        };
        scene.store.commit(commit).await
    };
    let first = asking(&[b"one"], "one").await.expect("a commit");
    let again = asking(&[b"one"], "one").await.expect("the same once more");
    assert_eq!((again.replayed, &again.entries), (true, &first.entries));
    for other in [&[&b"two"[..]][..], &[b"on", b"e"]] {
        let refused = asking(other, "two").await.expect_err("something else");
        assert!(matches!(refused, StoreError::KeyReused), "{refused:?}");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
    let unsaid = scene.commit_as("key", Vec::new()).await.expect("who says nothing");
    assert!(unsaid.replayed);
    assert_eq!(scene.head().await, first.seq);
    // The request is erased together with what was written for it.
    let erase = Change::EraseEntry {
        entry: first.entries[0].id,
        why: ErasedFor::Forgotten,
        expected_version: None,
    };
    scene.commit(vec![erase]).await;
    let rows = scene.store.changes(&scene.space, Seq(0), 10).await.expect("changes");
    assert!(rows.iter().all(|row| row.record.request.is_none()), "{rows:?}");
    let after = asking(&[b"two"], "two").await;
    assert!(after.expect("nothing is known of the first").replayed);
}

/// This also holds if both are in the same transaction.
pub async fn concurrent_commits_with_the_same_key_are_applied_once(home: &dyn Home) {
    let scene = Arc::new(Scene::of(home));
    let page = scene.a_page().await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let scene = Arc::clone(&scene);
            tokio::spawn(async move {
                let changes = vec![Change::AddEntry(Box::new(scene.note(page, "once")))];
                scene.commit_as("the-key", changes).await.expect("a commit")
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("a writer"));
    }
    assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
    assert!(
        answers
            .iter()
            .all(|answer| answer.seq == Seq(2) && answer.entries == answers[0].entries)
    );
    assert_eq!(scene.head().await, Seq(2));
}

/// The same key in another space is another key.
pub async fn idempotency_key_is_scoped_to_its_space(home: &dyn Home) {
    let main = Scene::of(home);
    let other = main.other_space("other");
    main.commit_as("key", Vec::new()).await.expect("a commit");
    assert!(!other.commit_as("key", Vec::new()).await.expect("a commit").replayed);
}

/// Instants never decrease, even if the clock is set back.
pub async fn commit_times_never_decrease(home: &dyn Home) {
    let scene = Scene::of(home);
    let late = scene.now();
    let latest = async || scene.store.latest(&scene.space).await.expect("an instant");
    assert_eq!(latest().await, Timestamp::MIN);
    assert_eq!(scene.commit(Vec::new()).await.at, late);
    assert_eq!(latest().await, late);
    scene.clock.set(Timestamp::from_millis(5));
    assert_eq!(scene.commit(Vec::new()).await.at, late);
    // Each item of a scratchbook has a distinct instant, however close, by which items are ordered.
    let id = scene.a_note("dated").await;
    let next = Timestamp::from_nanos(late.as_nanos() + 1);
    assert_eq!(scene.read(id).await.created_at, next);
    let id = scene.a_note("dated later").await;
    assert!(scene.read(id).await.created_at > next);
    assert_eq!(
        scene.other_space("other").commit(Vec::new()).await.at,
        Timestamp::from_millis(5)
    );
}

/// The log returns everything that was part of the commit.
pub async fn log_returns_commits_unchanged(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.page(folio_memory::PageRole::Note);
    let mut note = scene.note(page.id, "t");
    note.fields.context = Some(json!({"deep": {"list": [1, 2.5, null, true, "ü\u{0}"]}}));
    note.fields.confidence = Some(folio_memory::Confidence::clamped(0.1 + 0.2).0);
    let changes = vec![Change::EnsurePage(Box::new(page)), Change::AddEntry(Box::new(note))];
    let record = Record {
        reason: Some("because".to_owned()),
        ..Record::of(changes)
    };
    let commit = Commit {
        idempotency_key: Some("k".to_owned()),
        ..scene.commit_of(record.clone())
    };
    let (actor, at) = (commit.actor.clone(), commit.at);
    scene.store.commit(commit).await.expect("a commit");
    let rows = scene.store.changes(&scene.space, Seq(0), 10).await.expect("changes");
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].seq, rows[0].at, &rows[0].actor), (Seq(1), at, &actor));
    assert_eq!(
        (rows[0].idempotency_key.as_deref(), &rows[0].record),
        (Some("k"), &record)
    );
}

/// The last page is empty.
pub async fn changes_are_returned_in_pages(home: &dyn Home) {
    let scene = Scene::of(home);
    for _ in 0..7 {
        scene.commit(Vec::new()).await;
    }
    let mut since = Seq(0);
    let mut lengths = Vec::new();
    loop {
        let rows = scene.store.changes(&scene.space, since, 3).await.expect("changes");
        lengths.push(rows.len());
        match rows.last() {
            Some(row) => since = row.seq,
            None => break,
        }
    }
    assert_eq!((lengths, since), (vec![3, 3, 1, 0], Seq(7)));
    assert!(
        scene
            .store
            .changes(&scene.space, Seq(u64::MAX), 3)
            .await
            .expect("changes")
            .is_empty()
    );
}

/// Commits may be very large; then only a few are in memory at once, but every one is returned (M7.7).
pub async fn changes_page_ends_early_after_large_commits(home: &dyn Home) {
    let scene = Scene::of(home);
    for bytes in [10, CHANGES_BYTES + 10, 10, CHANGES_BYTES / 2, CHANGES_BYTES / 2, 10] {
        let record = Record {
            reason: Some("x".repeat(bytes)),
            ..Record::of(Vec::new())
        };
        scene.store.commit(scene.commit_of(record)).await.expect("a commit");
    }
    let (mut since, mut lengths) = (Seq(0), Vec::new());
    loop {
        let rows = scene.store.changes(&scene.space, since, 100).await.expect("changes");
        assert!(
            rows.iter()
                .zip(since.0 + 1..)
                .all(|(row, number)| row.seq == Seq(number))
        );
        let Some(last) = rows.last() else { break };
        since = last.seq;
        lengths.push(rows.len());
    }
    assert_eq!((lengths, since), (vec![2, 3, 1], Seq(6)));
}

/// A commit may consist of a reason alone.
pub async fn empty_commit_gets_a_number(home: &dyn Home) {
    let scene = Scene::of(home);
    let record = Record {
        reason: Some("looked, found nothing".to_owned()),
        ..Record::of(Vec::new())
    };
    assert_eq!(
        scene.store.commit(scene.commit_of(record)).await.expect("a commit").seq,
        Seq(1)
    );
}

/// The expected head of a space is compared before writing.
pub async fn commit_with_a_stale_space_head_is_a_conflict(home: &dyn Home) {
    let scene = Scene::of(home);
    let expecting = |head| Commit {
        expected: vec![Expected::SpaceHead(Seq(head))],
        ..scene.commit_of(Record::of(Vec::new()))
    };
    scene.store.commit(expecting(0)).await.expect("the first commit");
    let error = scene.store.commit(expecting(0)).await.expect_err("the space has grown");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    scene.store.commit(expecting(1)).await.expect("the second commit");
}

/// Such a value is refused, since it could never be read again.
pub async fn too_deeply_nested_value_is_refused(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let mut note = scene.note(page, "deep");
    note.fields.metadata = Some((0..300).fold(Value::Null, |inner, _| Value::Array(vec![inner])));
    let error = scene
        .try_commit(vec![Change::AddEntry(Box::new(note))])
        .await
        .expect_err("too deep");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(
        scene
            .store
            .changes(&scene.space, Seq(0), 10)
            .await
            .expect("changes")
            .len(),
        1
    );
}

/// Readers continue while a writer writes, and never see half a commit.
pub async fn readers_see_commits_whole_during_concurrent_writes(home: &dyn Home) {
    let scene = Arc::new(Scene::of(home));
    let page = scene.a_page().await;
    let writer = {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move {
            for _ in 0..60 {
                let two = [(); 2].map(|()| Change::AddEntry(Box::new(scene.note(page, "half of two"))));
                scene.commit(two.into()).await;
            }
        })
    };
    while !writer.is_finished() {
        let head = scene.head().await;
        let answer = scene.list(&folio_memory::EntryQuery::default()).await.expect("a list");
        assert!(answer.as_of >= head);
        assert_eq!(answer.total, (answer.as_of.0 - 1) * 2);
        let rows = scene.store.changes(&scene.space, Seq(0), 1000).await.expect("changes");
        assert!(rows.len() as u64 >= answer.as_of.0);
    }
    writer.await.expect("the writer");
}

/// Closing the store loses nothing.
pub async fn acknowledged_commits_survive_reopening_the_store(home: &dyn Home) {
    if !home.is_shared() {
        return;
    }
    let scene = Scene::of(home);
    let id = scene.a_note("kept").await;
    let entry = scene.read(id).await;
    drop(scene);
    let scene = Scene::of(home);
    assert_eq!(scene.head().await, Seq(2));
    assert_eq!(scene.read(id).await, entry);
    assert_eq!(scene.commit(Vec::new()).await.seq, Seq(3));
}

/// This is checked after a mixture of operations.
pub async fn check_of_a_healthy_store_reports_no_problems(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("a note").await;
    scene
        .commit(vec![patch(
            id,
            vec![FieldChange::Tags(vec![super::scene::tag("a"), super::scene::tag("b")])],
        )])
        .await;
    scene
        .commit(vec![patch(id, vec![FieldChange::Tags(vec![super::scene::tag("b")])])])
        .await;
    scene.other_space("other").a_note("elsewhere").await;
    scene.a_run("a run").await;
    let blob = folio_store::Blob::new(b"body".repeat(1000));
    scene
        .store
        .commit(Commit {
            blobs: vec![blob],
            ..scene.commit_of(Record::of(Vec::new()))
        })
        .await
        .expect("a commit");
    let checkup = scene.store.check().await.expect("a check-up");
    assert_eq!(checkup.problems, Vec::<String>::new());
    assert!(!checkup.checked.is_empty());
}
