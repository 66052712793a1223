//! Copies of another store's commits.

use std::sync::Arc;
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::keeping::ErasedFor;
use folio_memory::{
    Actor, Change, EntryId, EntryKind, FieldChange, Link, NoteQuery, NotesKept, PageRole, Relation, Role, Seq,
    ThreadKey, Timestamp, TraceNote,
};
use folio_store::commit::{Blob, BlobHash};
use folio_store::copy::{CopiedCommit, CopyError, copy, verify};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{Ended, TurnInput};
use folio_store::{AccessToken, Compaction, KeptToken, StoreError, WorkspaceError};
use serde_json::json;

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

impl Scene {
    /// Erases `entries`, and drops everything of them that may be dropped.
    async fn bury(&self, entries: &[EntryId]) -> u64 {
        let erase = |entry: &EntryId| Change::EraseEntry {
            entry: *entry,
            why: ErasedFor::Expired,
            expected_version: None,
        };
        if !entries.is_empty() {
            self.commit(entries.iter().map(erase).collect()).await;
        }
        self.clock.advance(Duration::from_secs(3_600));
        let bury = Compaction {
            bury_until: Some(self.now()),
            give_up_until: None,
            notes: None,
            limit: 100,
        };
        let smaller = self.store.compact(&self.space, bury).await.expect("smaller");
        smaller.buried
    }

    /// Begins a turn in which something is noticed, and ends it.
    async fn a_turn(&self, content: &str) -> Result<Ended, WorkspaceError> {
        self.clock.advance(Duration::from_secs(60));
        let (memory, person) = (self.workspace(), Actor::new(Role::Human, "ada"));
        let input = TurnInput::of(ThreadKey::main(), "Write down what was noticed");
        let turn = memory.begin_turn(&person, input).await?.turn.begun.id;
        let noticed = serde_json::from_value(json!({"content": content})).expect("an observation");
        memory
            .add_observation(&person.clone().in_turn(turn), noticed, None)
            .await?;
        memory.end_turn(&person, Ref::Id(turn)).await
    }

    /// How many entries the export of `ended` lists.
    async fn listed(&self, ended: &Ended) -> usize {
        let manifest = self.workspace().manifest(&ended.export).await;
        manifest.expect("the entries of an export").len()
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
    let last = add("last").await;
    let run = source.a_run("a run").await;
    source
        .append(run, vec![asked_by("ada")], None, Vec::new())
        .await
        .expect("an event");
    assert_eq!(source.bury(&[erased]).await, 1);
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

/// What is read in a copy is noted there. Only what the source has forgotten goes.
pub async fn notes_made_in_a_copy_survive_copying_again(home: &dyn Home) {
    let (source, target) = (elsewhere(), Scene::of(home));
    source.a_note("one").await;
    let actor = source.commit_of(folio_store::Record::of(Vec::new())).actor;
    let everything = NotesKept {
        from: Timestamp::MIN,
        notes_max: u64::MAX,
    };
    let note = async |scene: &Scene, note: TraceNote| {
        let written = scene.store.append_trace(&scene.space, &[note], everything).await;
        written.expect("a note");
    };
    let asked = |operation: &str| TraceNote::new(source.now(), &actor, "memory", operation);
    let operations = async || {
        let notes = target
            .store
            .notes(
                &target.space,
                &NoteQuery {
                    limit: 10,
                    ..NoteQuery::default()
                },
            )
            .await;
        let notes = notes.expect("notes").into_iter().map(|note| note.operation);
        notes.collect::<Vec<_>>()
    };
    note(&source, asked("in_both")).await;
    copied(&source, &target).await;
    note(&target, asked("in_the_copy")).await;
    copied(&source, &target).await;
    assert_eq!(operations().await, ["in_both", "in_the_copy"]);
    note(&source, TraceNote::of_forgetting(source.now(), &actor)).await;
    copied(&source, &target).await;
    assert_eq!(operations().await, ["in_both", "forget"]);
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

/// Exports name the parts of their manifests only in their bodies. A copy has them, too.
pub async fn copied_store_continues_the_exports_of_its_source(home: &dyn Home) {
    let (source, target) = (elsewhere(), Scene::of(home));
    let first = source.a_turn("one").await.expect("the end of a turn");
    copied(&source, &target).await;
    assert_eq!(target.listed(&first).await, 1);
    target.clock.advance(Duration::from_secs(3_600));
    let next = target.a_turn("two").await.expect("the end of a turn");
    assert_eq!(target.listed(&next).await, 2);
}

/// Parts of manifests can be made again from the entries, so that a store without them is repaired by the next export.
pub async fn store_without_parts_of_exports_lists_entries_anew(home: &dyn Home) {
    let (source, target) = (elsewhere(), Scene::of(home));
    let first = source.a_turn("one").await.expect("the end of a turn");
    let export = &first.turn.ended.as_ref().expect("an end").end.export;
    let export = source.store.blob(&source.space, &BlobHash(export.clone())).await;
    let export = Blob::new(export.expect("an export"));
    let rows = source.store.changes(&source.space, Seq(0), 100).await.expect("the log");
    let commits = rows.into_iter().map(|row| CopiedCommit {
        row,
        bodies: vec![export.clone()],
    });
    target
        .store
        .take_over(&target.space, commits.collect())
        .await
        .expect("commits");
    let problems = target.store.check().await.expect("a checkup").problems;
    assert!(
        problems.iter().any(|problem| problem.contains("the export of turn t1")),
        "{problems:?}"
    );
    target.clock.advance(Duration::from_secs(3_600));
    assert_eq!(target.listed(&first).await, 1);
    let next = target.a_turn("two").await.expect("the end of a turn");
    assert_eq!(target.listed(&next).await, 2);
    let problems = target.store.check().await.expect("a checkup").problems;
    assert_eq!(problems, Vec::<String>::new());
}

/// A link stays in the log when one of its ends is removed.
pub async fn links_to_removed_entries_are_copied(home: &dyn Home) {
    let (source, target) = (elsewhere(), Scene::of(home));
    let page = source.a_page().await;
    let add = |title: &'static str| source.add(source.entry(page, EntryKind::Observation, title));
    let (gone, kept) = (add("gone").await, add("kept").await);
    let (src, dst) = (kept.to_string(), gone.to_string());
    let rel = Relation::Supersedes;
    source.commit(vec![Change::AddLink(Link { src, rel, dst })]).await;
    add("last").await;
    assert_eq!(source.bury(&[gone]).await, 1);
    copied(&source, &target).await;
    assert_eq!(target.read(kept).await, source.read(kept).await);
}

/// Of a commit of which a part was removed, the copy may still have the whole.
pub async fn copy_made_before_a_removal_can_be_continued(home: &dyn Home) {
    let (source, target) = (elsewhere(), Scene::of(home));
    let page = source.page(PageRole::Note);
    let stays = source.entry(page.id, EntryKind::Observation, "stays");
    let stays_id = stays.id;
    source
        .commit(vec![
            Change::EnsurePage(Box::new(page.clone())),
            Change::AddEntry(Box::new(stays)),
        ])
        .await;
    let gone = source.add(source.entry(page.id, EntryKind::Observation, "gone")).await;
    source.add(source.entry(page.id, EntryKind::Observation, "last")).await;
    // The first entry was added with its page, so it stays, and so does what the commit says of it.
    let erase = |entry| Change::EraseEntry {
        entry,
        why: ErasedFor::Expired,
        expected_version: None,
    };
    source.commit(vec![erase(stays_id), erase(gone)]).await;
    copied(&source, &target).await;
    assert_eq!(source.bury(&[]).await, 1);
    copied(&source, &target).await;
}
