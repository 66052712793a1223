//! Compaction, and erasing what is to be forgotten (M7.6).

use std::time::Duration;

use folio_memory::entry::{BodyPiece, BodyRef};
use folio_memory::id::Ref;
use folio_memory::keeping::{ErasedFor, Watch, watched};
use folio_memory::{
    Change, Entry, EntryHandle, EntryId, EntryKind, EntryQuery, FieldChange, Lifetime, NewEntry, PageId, Pii, Seq,
    Status, Timestamp,
};
use folio_store::{Blob, BlobHash, Commit, Committed, Compacted, Compaction, Record, StoreError, WatchQuery};

use super::Home;
use super::scene::{Scene, patch, tag};

const HOUR: Duration = Duration::from_secs(3_600);

fn observation(scene: &Scene, page: PageId, body: &str, lasts: Option<Duration>) -> NewEntry {
    let mut new = scene.entry(page, EntryKind::Observation, "");
    body.clone_into(&mut new.fields.body);
    new.fields.lifetime = lasts.map_or(Lifetime::Unlimited, |lasts| Lifetime::Until(scene.now().plus(lasts)));
    new
}

fn erase(entry: EntryId, why: ErasedFor) -> Change {
    Change::EraseEntry {
        entry,
        why,
        expected_version: None,
    }
}

fn everything(watch: Watch) -> WatchQuery {
    WatchQuery {
        what: watch,
        until: Timestamp::MAX,
        idle_since: Timestamp::MAX,
        after: None,
        limit: 1_000,
    }
}

/// Entries in every state for which tidying may be due.
async fn of_all_kinds(home: &dyn Home) -> (Scene, Vec<EntryId>) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let mut ids = Vec::new();
    for number in 0..4_u32 {
        ids.push(scene.add(observation(&scene, page, "lasts", None)).await);
        ids.push(
            scene
                .add(observation(&scene, page, "ends", Some(HOUR * (4 - number))))
                .await,
        );
        let mut note = scene.note(page, "a note that ends");
        note.fields.lifetime = Lifetime::Until(scene.now().plus(HOUR * (number + 1)));
        ids.push(scene.add(note).await);
        let mut personal = observation(&scene, page, "whose", None);
        personal.fields.pii = vec![Pii::Email];
        ids.push(scene.add(personal).await);
        let resolved = scene.add(observation(&scene, page, "settled", None)).await;
        scene
            .commit(vec![patch(resolved, vec![FieldChange::Status(Status::Resolved)])])
            .await;
        ids.push(resolved);
        let archived = scene.add(observation(&scene, page, &"long ".repeat(300), None)).await;
        scene
            .commit(vec![patch(archived, vec![FieldChange::Status(Status::Archived)])])
            .await;
        ids.push(archived);
        let erased = scene.add(observation(&scene, page, "gone", None)).await;
        scene.commit(vec![erase(erased, ErasedFor::Expired)]).await;
        ids.push(erased);
        scene.clock.advance(HOUR / 4);
    }
    (scene, ids)
}

/// They come in the order of their instants, in parts that neither repeat nor skip, and without those that were changed
/// meanwhile.
pub async fn watched_entries_are_listed_by_due_time_in_pages_m7_6_45(home: &dyn Home) {
    let (scene, ids) = of_all_kinds(home).await;
    let mut entries: Vec<Entry> = Vec::new();
    for id in ids {
        entries.push(scene.read(id).await);
    }
    let half = scene.now().minus(HOUR / 2);
    let mut found = 0;
    for watch in Watch::ALL {
        for (until, idle_since) in [
            (Timestamp::MAX, Timestamp::MAX),
            (half, Timestamp::MAX),
            (Timestamp::MAX, half),
        ] {
            let mut expected: Vec<_> = entries
                .iter()
                .flat_map(|entry| watched(entry).into_iter().map(move |watched| (watched, entry.handle)))
                .filter(|(watched, _)| watched.what == watch && watched.at <= until && watched.since <= idle_since)
                .map(|(watched, handle)| (watched.at, handle.0))
                .collect();
            expected.sort_unstable();
            found += expected.len();
            let expected: Vec<_> = expected.into_iter().map(|(_, handle)| EntryHandle(handle)).collect();
            for limit in [1, 3, 1_000] {
                let mut query = WatchQuery {
                    until,
                    idle_since,
                    limit,
                    ..everything(watch)
                };
                let mut seen = Vec::new();
                for _ in 0..=expected.len() + 1 {
                    let answer = scene.store.watched(&scene.space, &query).await.expect("an answer");
                    assert!(answer.entries.len() <= limit as usize);
                    seen.extend(answer.entries.iter().map(|entry| entry.handle));
                    query.after = answer.next;
                    if query.after.is_none() {
                        break;
                    }
                }
                assert_eq!(seen, expected, "{watch:?}, {limit} at a time");
            }
        }
    }
    assert!(found > 40, "only {found} would prove little");
    let other = scene.other_space("elsewhere");
    for watch in Watch::ALL {
        let answer = other
            .store
            .watched(&other.space, &everything(watch))
            .await
            .expect("an answer");
        assert!(answer.entries.is_empty(), "{watch:?}");
    }
}

/// Neither archived nor expired observations are counted, and none beyond the requested maximum.
pub async fn live_observation_count_excludes_archived_and_expired_m7_6_44(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let count = async |limit| {
        let now = scene.now();
        scene
            .store
            .live_observations(&scene.space, now, limit)
            .await
            .expect("a number")
    };
    assert_eq!(count(10).await, 0);
    let mut ids = Vec::new();
    for number in 0..6_u32 {
        ids.push(
            scene
                .add(observation(&scene, page, "it rains", Some(HOUR * (number + 1))))
                .await,
        );
    }
    scene.add(scene.note(page, "no observation")).await;
    assert_eq!((count(10).await, count(4).await, count(0).await), (6, 4, 0));
    scene
        .commit(vec![patch(ids[5], vec![FieldChange::Status(Status::Archived)])])
        .await;
    assert_eq!(count(10).await, 5);
    // An entry has expired at the very instant of its end.
    scene.clock.advance(HOUR);
    assert_eq!(count(10).await, 4);
    // A pin keeps it.
    scene
        .commit(vec![patch(ids[1], vec![FieldChange::PinRank(Some(1))])])
        .await;
    scene.clock.advance(HOUR);
    assert_eq!(count(10).await, 4);
    let other = scene.other_space("elsewhere");
    let elsewhere = other.store.live_observations(&other.space, scene.now(), 10).await;
    assert_eq!(elsewhere.expect("a number"), 0);
}

/// After compaction, entries, history, log, lists and searches read as before.
pub async fn compacted_store_reads_as_before_m7_6_45(home: &dyn Home) {
    let (scene, ids) = of_all_kinds(home).await;
    let all = EntryQuery {
        status: Status::ALL.to_vec(),
        include_expired: true,
        limit: 400,
        ..EntryQuery::default()
    };
    let read = async || {
        let mut histories = Vec::new();
        for id in &ids {
            histories.push(scene.store.history(&scene.space, *id).await.expect("a history"));
        }
        let log = scene.store.changes(&scene.space, Seq(0), 1_000).await.expect("the log");
        let long = EntryQuery {
            text: Some("long".to_owned()),
            ..all.clone()
        };
        let found = scene.list(&long).await.expect("a list").items;
        assert_eq!(found.len(), 4);
        (histories, log, scene.list(&all).await.expect("a list").items, found)
    };
    let before = read().await;
    let compaction = Compaction {
        bury_until: None,
        give_up_until: None,
        notes: None,
        limit: 3,
    };
    let compact = async || scene.store.compact(&scene.space, compaction).await.expect("smaller");
    let some = Compacted {
        packed: 3,
        more: true,
        ..Compacted::default()
    };
    assert_eq!(compact().await, some);
    assert_eq!(compact().await.packed, 1);
    assert_eq!(compact().await, Compacted::default());
    assert_eq!(read().await, before);
    let checkup = scene.store.check().await.expect("a checkup");
    assert_eq!(checkup.problems, Vec::<String>::new());
}

/// Of an old tombstone only the number is kept: it leads nowhere, and is never reused. An entry that was forgotten on
/// request keeps its tombstone.
pub async fn compaction_removes_old_tombstones_but_never_reuses_their_handles_m7_6_46(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let old = scene.add(observation(&scene, page, "old", None)).await;
    let kept = scene.add(observation(&scene, page, "kept", None)).await;
    let forgotten = scene.add(observation(&scene, page, "forgotten", None)).await;
    scene
        .commit(vec![
            erase(old, ErasedFor::Expired),
            erase(forgotten, ErasedFor::Forgotten),
        ])
        .await;
    let by = scene.now();
    scene.clock.advance(HOUR);
    let young = scene.add(observation(&scene, page, "young", None)).await;
    scene.commit(vec![erase(young, ErasedFor::Expired)]).await;
    let (number, head) = (scene.read(old).await.handle, scene.head().await);
    let compaction = Compaction {
        bury_until: Some(by),
        give_up_until: None,
        notes: None,
        limit: 100,
    };
    let done = scene.store.compact(&scene.space, compaction).await.expect("smaller");
    assert_eq!(done.buried, 1);
    for buried in [Ref::Id(old), Ref::Handle(number)] {
        let answer = scene.store.entry(&scene.space, buried).await;
        assert!(matches!(answer, Err(StoreError::NotFound { .. })), "{answer:?}");
    }
    for remaining in [kept, forgotten, young] {
        scene.read(remaining).await;
    }
    assert_eq!(scene.head().await, head);
    let new = scene.add(observation(&scene, page, "new", None)).await;
    assert!(scene.read(new).await.handle.0 > number.0 + 3);
    let checkup = scene.store.check().await.expect("a checkup");
    assert_eq!(checkup.problems, Vec::<String>::new());
}

/// Its content is in no revision and no commit, and cannot be found; what remains is that it existed, and why it was
/// erased.
pub async fn erased_content_appears_in_no_answer_of_the_store_m7_6_50(home: &dyn Home) {
    const WORDS: [&str; 5] = ["windmill", "watermill", "eleonora", "millers", "grandmother"];
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let mut new = observation(&scene, page, "in the windmill", None);
    new.fields.tags = vec![tag("millers")];
    new.fields.context = Some(serde_json::json!({"guest": "eleonora"}));
    let id = scene.add(new).await;
    let other = scene.add(observation(&scene, page, "somebody else", None)).await;
    let fields = vec![
        FieldChange::Body("in the watermill".to_owned()),
        FieldChange::Title("grandmother".to_owned()),
    ];
    scene
        .commit_as("a patch", vec![patch(id, fields.clone())])
        .await
        .expect("a commit");
    let search = |text: &str| EntryQuery {
        text: Some(text.to_owned()),
        status: Status::ALL.to_vec(),
        ..EntryQuery::default()
    };
    assert_eq!(scene.list(&search("watermill")).await.expect("a list").total, 1);
    let before = scene.read(id).await;

    scene.commit(vec![erase(id, ErasedFor::Forgotten)]).await;

    let left = scene.read(id).await;
    assert_eq!(left.fields.erased, Some(ErasedFor::Forgotten));
    assert_eq!(
        (left.fields.status, left.version),
        (Status::Archived, before.version + 1)
    );
    assert_eq!((left.handle, left.created_at), (before.handle, before.created_at));
    let history = scene.store.history(&scene.space, id).await.expect("a history");
    assert_eq!(history.iter().map(|one| one.version).collect::<Vec<_>>(), [1, 2, 3]);
    let log = scene.store.changes(&scene.space, Seq(0), 100).await.expect("the log");
    assert_eq!(log.len() as u64, scene.head().await.0);
    for word in WORDS {
        assert_eq!(scene.list(&search(word)).await.expect("a list").total, 0, "{word}");
        for text in [format!("{left:?}"), format!("{history:?}"), format!("{log:?}")] {
            assert!(!text.to_lowercase().contains(word), "{word} in {text}");
        }
    }
    // A key that was used still answers as before, and restores nothing.
    let again = scene
        .commit_as("a patch", vec![patch(id, fields)])
        .await
        .expect("a replay");
    assert!(again.replayed);
    assert_eq!(scene.read(id).await, left);
    assert_eq!(scene.read(other).await.fields.body, "somebody else");
    let checkup = scene.store.check().await.expect("a checkup");
    assert_eq!(checkup.problems, Vec::<String>::new());
}

/// The residue of a text is reported for the space that was asked, and for no other.
pub async fn scrub_reports_the_residue_of_a_text_in_its_space_m7_6_50(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let id = scene
        .add(observation(&scene, page, "the wedding is in the old mill", None))
        .await;
    let other = scene.other_space("elsewhere");
    let other_page = other.a_page().await;
    other
        .add(observation(&other, other_page, "the wedding is in the old mill", None))
        .await;
    let scrub = async |text: &str| {
        let texts = vec![text.to_owned()];
        scene.store.scrub(&scene.space, texts).await.expect("an answer")
    };
    let left = scrub("in the old mill").await;
    let handle = scene.read(id).await.handle.to_string();
    assert!(left.found.contains(&handle), "{left:?}");
    let left = scrub("IN  the Old\nMILL").await;
    assert!(left.found.contains(&handle), "spelled otherwise: {left:?}");
    assert!(!left.searched.is_empty());
    scene.commit(vec![erase(id, ErasedFor::Forgotten)]).await;
    assert_eq!(scrub("in the old mill").await.found, Vec::<String>::new());
    assert_eq!(scrub("it never stood anywhere").await.found, Vec::<String>::new());
    // A key may contain any byte.
    let named = scene.commit_as("the old\0 windmill", Vec::new()).await;
    let left = scrub("windmill").await;
    assert_eq!(
        left.found,
        [format!("commit {}", named.expect("a commit").seq)],
        "{left:?}"
    );
    let elsewhere = other
        .store
        .scrub(&other.space, vec!["in the old mill".to_owned()])
        .await;
    assert!(!elsewhere.expect("an answer").found.is_empty());
}

/// Adds an entry whose text consists of `pieces`, some of which are `brought` with it.
async fn add_text(scene: &Scene, page: PageId, pieces: &[&Blob], brought: Vec<Blob>) -> Result<Committed, StoreError> {
    let mut new = scene.entry(page, EntryKind::Log, "a long text");
    new.fields.body_ref = Some(BodyRef {
        hash: "0".repeat(64),
        bytes: pieces.iter().map(|piece| piece.bytes().len() as u64).sum(),
        pieces: pieces
            .iter()
            .map(|piece| BodyPiece {
                hash: piece.hash().0.clone(),
                bytes: piece.bytes().len() as u64,
                newlines: 0,
            })
            .collect(),
    });
    let commit = Commit {
        blobs: brought,
        ..scene.commit_of(Record::of(vec![Change::AddEntry(Box::new(new))]))
    };
    scene.store.commit(commit).await
}

/// Pieces are written before the entry that names them. If that never comes, they are deleted, unless somebody writes
/// them again meanwhile, or a text contains them.
pub async fn compaction_deletes_old_body_pieces_that_no_entry_names(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let piece = |text: &str| Blob::new(text.repeat(500).into_bytes());
    let bring = async |blobs: &[&Blob]| {
        let commit = Commit {
            blobs: blobs.iter().map(|blob| (*blob).clone()).collect(),
            ..scene.commit_of(Record::of(Vec::new()))
        };
        scene.store.commit(commit).await.expect("a commit");
    };
    let [named, along, again, left, young] = ["named", "along", "again", "left", "young"].map(piece);
    bring(&[&named, &again, &left]).await;
    add_text(&scene, page, &[&named, &along], vec![along.clone()])
        .await
        .expect("an entry");
    let until = scene.now();
    scene.clock.advance(HOUR);
    // Pieces that are named by an entry stay named, however often they are written.
    bring(&[&young, &again, &named, &along]).await;
    let other = scene.other_space("elsewhere");
    let give_up = async |scene: &Scene, until| {
        let compaction = Compaction {
            bury_until: None,
            give_up_until: Some(until),
            notes: None,
            limit: 100,
        };
        let done = scene.store.compact(&scene.space, compaction).await;
        done.expect("smaller").given_up
    };
    let is_there = async |blob: &Blob| match scene.store.blob(&scene.space, blob.hash()).await {
        Ok(bytes) => bytes == blob.bytes(),
        Err(StoreError::NotFound { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(give_up(&other, scene.now()).await, 0);
    assert_eq!(give_up(&scene, until).await, 1);
    assert!(!is_there(&left).await);
    for kept in [&named, &along, &again, &young] {
        assert!(is_there(kept).await, "{kept:?}");
    }
    assert_eq!(give_up(&scene, scene.now()).await, 2);
    assert!(!is_there(&again).await && !is_there(&young).await);
    bring(&[&left]).await;
    assert!(is_there(&left).await);
    let checkup = scene.store.check().await.expect("a checkup");
    assert_eq!(checkup.problems, Vec::<String>::new());
}

/// Whatever happens between the pieces and the entry: what was acknowledged can be read.
pub async fn entry_naming_a_missing_body_piece_is_refused(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let [present, absent] = ["here", "gone"].map(|text| Blob::new(text.into()));
    let head = scene.head().await;
    let refused = add_text(&scene, page, &[&present, &absent], vec![present.clone()]).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    assert_eq!(scene.head().await, head);
    let hash = BlobHash(present.hash().0.clone());
    assert!(matches!(
        scene.store.blob(&scene.space, &hash).await,
        Err(StoreError::NotFound { .. })
    ));
    add_text(
        &scene,
        page,
        &[&present, &absent],
        vec![present.clone(), absent.clone()],
    )
    .await
    .expect("an entry");
}
