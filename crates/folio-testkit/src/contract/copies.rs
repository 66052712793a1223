//! Copies of another store's commits.

use std::sync::Arc;
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::keeping::ErasedFor;
use folio_memory::{Change, EntryKind, FieldChange, NotesKept, Role, Seq, Timestamp, TraceNote};
use folio_store::copy::{CopiedCommit, CopyError, copy, verify};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{AccessToken, Compaction, KeptToken, StoreError};

use super::Home;
use super::scene::{Scene, asked_by, patch};
use crate::SeededIds;

/// A store of another kind, in memory, with another source of ids.
fn elsewhere() -> Scene {
    Scene {
        ids: SeededIds::new(7),
        ..Scene::on(SqliteStore::open(&OpenOptions::in_memory()).expect("a store"))
    }
}

async fn copied(source: &Scene, target: &Scene) -> folio_store::copy::Copied {
    let done = copy(&*source.store, &*target.store, &mut |_| {}).await.expect("a copy");
    let problems = verify(&*source.store, &*target.store).await.expect("a comparison");
    assert_eq!(problems, Vec::<String>::new());
    done
}

/// A copy has the same numbers, instants, keys, handles and derived data, also for commits of which only the numbers
/// are left.
pub async fn copied_store_continues_with_the_numbers_of_its_source(home: &dyn Home) {
    let (source, target) = (elsewhere(), Scene::of(home));
    let page = source.a_page().await;
    let add = |title: &'static str| source.add(source.entry(page, EntryKind::Observation, title));
    let (erased, kept) = (add("gone").await, add("kept").await);
    let key = "a patch";
    let change = patch(kept, vec![FieldChange::Body("changed".to_owned())]);
    source.commit_as(key, vec![change.clone()]).await.expect("a commit");
    let erase = Change::EraseEntry {
        entry: erased,
        why: ErasedFor::Expired,
        expected_version: None,
    };
    source.commit(vec![erase]).await;
    let last = add("last").await;
    let run = source.a_run("a run").await;
    source
        .append(run, vec![asked_by("ada")], None, Vec::new())
        .await
        .expect("an event");
    source.clock.advance(Duration::from_secs(3_600));
    let bury = Compaction {
        bury_until: Some(source.now()),
        give_up_until: None,
        limit: 100,
    };
    let smaller = source.store.compact(&source.space, bury).await.expect("smaller");
    assert_eq!(smaller.buried, 1);
    let note = TraceNote::new(
        source.now(),
        &source.commit_of(folio_store::Record::of(Vec::new())).actor,
        "a",
        "b",
    );
    let everything = NotesKept {
        from: Timestamp::MIN,
        notes_max: u64::MAX,
    };
    source
        .store
        .append_trace(&source.space, &[note], everything)
        .await
        .expect("a note");
    let done = copied(&source, &target).await;
    assert_eq!((done.spaces, done.notes), (1, 1));
    for id in [kept, last] {
        assert_eq!(target.read(id).await, source.read(id).await);
    }
    let row = |scene: &Scene| {
        let store = Arc::clone(&scene.store);
        let space = scene.space.clone();
        async move { store.run(&space, Ref::Id(run)).await.expect("a run") }
    };
    assert_eq!(row(&target).await, row(&source).await);
    // A key that was used in the source counts as used in the copy.
    let again = target.commit_as(key, vec![change]).await.expect("an answer");
    assert!(again.replayed);
    // The next write gets the same numbers in both.
    let next = |scene: &Scene, page| scene.entry(page, EntryKind::Observation, "next");
    let (source_entry, target_entry) = (
        source.add(next(&source, page)).await,
        target.add(next(&target, page)).await,
    );
    assert_eq!(
        target.read(target_entry).await.handle,
        source.read(source_entry).await.handle
    );
    assert_eq!(target.head().await, source.head().await);
}

/// Nothing is copied twice, and what was added since is copied.
pub async fn repeated_copy_transfers_only_new_commits(home: &dyn Home) {
    let (source, target) = (elsewhere(), Scene::of(home));
    source.a_note("one").await;
    copied(&source, &target).await;
    assert_eq!(copied(&source, &target).await.commits, 0);
    let two = source.a_note("two").await;
    assert!(copied(&source, &target).await.commits > 0);
    assert_eq!(target.read(two).await, source.read(two).await);
}

/// Tokens are not in the log, so only the copy itself records that it revoked one.
pub async fn token_revoked_in_a_copy_stays_revoked_after_copying_again(home: &dyn Home) {
    let (source, target) = (elsewhere(), Scene::of(home));
    let kept = |name: &str| {
        let token = AccessToken::draw();
        token.kept(source.space.clone(), Role::Client, name.to_owned(), source.now(), None)
    };
    let (one, other) = (kept("one"), kept("other"));
    for token in [&one, &other] {
        source.store.keep_token(token.clone()).await.expect("a token");
    }
    copied(&source, &target).await;
    let taken_back = |token: KeptToken| KeptToken {
        revoked_at: Some(source.now()),
        ..token
    };
    target.store.keep_token(taken_back(one.clone())).await.expect("a token");
    source
        .store
        .keep_token(taken_back(other.clone()))
        .await
        .expect("a token");
    copied(&source, &target).await;
    let tokens = target.store.tokens().await.expect("tokens");
    let open: Vec<_> = tokens.iter().filter(|token| token.revoked_at.is_none()).collect();
    assert_eq!((tokens.len(), open), (2, Vec::new()));
}

/// A store that somebody else has written to is left alone.
pub async fn copying_into_an_unrelated_store_is_refused(home: &dyn Home) {
    let (source, target) = (elsewhere(), Scene::of(home));
    source.a_note("mine").await;
    target.clock.advance(Duration::from_secs(1));
    target.a_note("theirs").await;
    let head = target.head().await;
    let refused = copy(&*source.store, &*target.store, &mut |_| {}).await;
    assert!(matches!(refused, Err(CopyError::NotACopy { .. })), "{refused:?}");
    assert_eq!(target.head().await, head);
}

/// Commits follow one another without gaps, whoever made them.
pub async fn copied_commits_must_follow_without_gap_or_repeat(home: &dyn Home) {
    let (source, target) = (elsewhere(), Scene::of(home));
    source.a_note("one").await;
    source.a_note("two").await;
    let rows = source.store.changes(&source.space, Seq(0), 100).await.expect("the log");
    let commits = rows.into_iter().map(|row| CopiedCommit {
        row,
        bodies: Vec::new(),
    });
    let commits: Vec<_> = commits.collect();
    let refused = target.store.take_over(&target.space, commits[1..].to_vec()).await;
    assert!(matches!(refused, Err(StoreError::StaleSpace { .. })), "{refused:?}");
    assert_eq!(target.head().await, Seq(0));
    let all = u64::try_from(commits.len()).expect("a number");
    let last = target
        .store
        .take_over(&target.space, commits.clone())
        .await
        .expect("a number");
    assert_eq!((last, target.head().await), (Seq(all), Seq(all)));
    let twice = target.store.take_over(&target.space, commits).await;
    assert!(matches!(twice, Err(StoreError::StaleSpace { .. })), "{twice:?}");
    let checkup = target.store.check().await.expect("a checkup");
    assert_eq!(checkup.problems, Vec::<String>::new());
}
