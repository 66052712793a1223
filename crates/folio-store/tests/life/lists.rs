//! Lists while entries change: what is reported of changes, and pages of one moment.

use std::sync::Arc;

use folio_memory::id::Ref;
use folio_memory::{
    Change, EntryKind, EntryQuery, FieldChange, NewPage, Seq, State, Status, Tag, ThreadKey, scratchbook,
};
use folio_store::Workspace;
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{BookFilter, Guard};
use folio_testkit::SeededIds;
use folio_testkit::contract::scene::{Scene as Rows, patch};
use serde_json::json;

use super::{person, scene};

#[tokio::test]
async fn changes_since_a_commit_include_archived_and_restored_entries_m7_2_16() {
    let scene = scene();
    let ada = person();
    let first = scene.add(json!({"content": "first", "tags": ["x"]})).await;
    let second = scene.add(json!({"content": "second", "tags": ["x"]})).await;
    scene.add(json!({"content": "third", "tags": ["x"]})).await;
    let told = async |since: Seq, status: Vec<Status>| {
        let query = EntryQuery {
            since: Some(since),
            tags: vec![Tag::parse("x").unwrap()],
            status,
            ..EntryQuery::default()
        };
        let found = scene.memory.observations(query).await.unwrap().items;
        let told = found
            .iter()
            .map(|entry| (entry.fields.body.clone(), entry.fields.status));
        told.collect::<Vec<_>>()
    };
    let began = scene.memory.head().await.unwrap();
    scene.memory.archive(&ada, Ref::Id(first.id), None).await.unwrap();
    let archived = vec![("first".to_owned(), Status::Archived)];
    assert_eq!(told(began, Vec::new()).await, archived);
    assert_eq!(
        told(began, vec![Status::Active]).await,
        [],
        "who says which statuses gets those"
    );
    let then = scene.memory.head().await.unwrap();
    let guard = Guard::default();
    scene.memory.restore(&ada, Ref::Id(first.id), guard).await.unwrap();
    assert_eq!(told(then, Vec::new()).await, [("first".to_owned(), Status::Active)]);
    let then = scene.memory.head().await.unwrap();
    let (old, new) = (Ref::Id(second.id), Ref::Id(first.id));
    scene.memory.supersede(&ada, old, new, Guard::default()).await.unwrap();
    let bodies: Vec<_> = told(then, Vec::new()).await.into_iter().map(|(body, _)| body).collect();
    assert!(bodies.contains(&"second".to_owned()), "{bodies:?}");
}

#[tokio::test]
async fn changes_since_a_commit_include_what_a_pin_kept_from_expiring_m7_1_7() {
    let scene = scene();
    let ada = person();
    let entry = scene.add(json!({"content": "for a minute", "ttl_minutes": 1})).await;
    let id = Ref::Id(entry.id);
    scene.memory.pin_item(&ada, id).await.unwrap();
    scene.clock.advance(std::time::Duration::from_secs(120));
    let since = Some(scene.memory.head().await.unwrap());
    scene.memory.unpin_item(&ada, id).await.unwrap();
    let told = async |query: EntryQuery| {
        let found = scene.memory.observations(query).await.unwrap().items;
        found
            .into_iter()
            .map(|entry| entry.state(scene.memory.now()))
            .collect::<Vec<_>>()
    };
    let news = EntryQuery {
        since,
        ..EntryQuery::default()
    };
    assert_eq!(
        told(news.clone()).await,
        [State::Expired],
        "who had it learns that it is gone"
    );
    let live = EntryQuery {
        status: vec![Status::Active],
        ..news
    };
    assert_eq!(told(live).await, []);
    assert_eq!(told(EntryQuery::default()).await, []);
}

#[tokio::test]
async fn scratchbook_pages_show_the_state_as_of_the_first_page_m7_2_15() {
    let scene = scene();
    let ada = person();
    let main = ThreadKey::main();
    let mut items = Vec::new();
    for title in ["a", "b", "c", "d", "e", "f"] {
        let input = serde_json::from_value(json!({"kind": "todo", "title": title})).unwrap();
        items.push(scene.memory.add_item(&ada, &main, input, None).await.unwrap().entry);
    }
    let page = async |cursor: Option<String>| {
        let filter = BookFilter {
            limit: 2,
            cursor,
            ..BookFilter::default()
        };
        let answer = scene.memory.book_items(&main, filter).await.unwrap();
        let titles: String = answer.items.iter().map(|item| item.fields.title.as_str()).collect();
        (titles, answer.total, answer.as_of, answer.next)
    };
    let (first, total, as_of, next) = page(None).await;
    assert_eq!((first.as_str(), total), ("ab", 6));
    // What was read moves behind, what was not moves before, one goes, and one is new.
    scene
        .memory
        .complete(&ada, Ref::Id(items[0].id), Guard::default())
        .await
        .unwrap();
    scene.memory.pin_item(&ada, Ref::Id(items[4].id)).await.unwrap();
    scene.memory.archive(&ada, Ref::Id(items[3].id), None).await.unwrap();
    scene.task().await;
    let (second, total, still, next) = page(next).await;
    assert_eq!((second.as_str(), total, still), ("cd", 6, as_of));
    let (third, _, _, next) = page(next).await;
    assert_eq!((third.as_str(), next), ("ef", None));
    let (now, total, ..) = page(None).await;
    assert_eq!((now.as_str(), total), ("edo it", 6));
}

/// A store in a file, in which the content of a commit can be made unreadable behind its back.
struct Torn {
    folder: tempfile::TempDir,
    scene: Rows,
}

impl Torn {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
        Self {
            folder,
            scene: Rows::on(store),
        }
    }

    fn run(&self, sql: &str) {
        let file = rusqlite::Connection::open(self.folder.path().join("folio.db")).unwrap();
        assert!(file.execute(sql, []).unwrap() > 0);
    }

    fn tear(&self, commit: Seq) {
        let file = rusqlite::Connection::open(self.folder.path().join("folio.db")).unwrap();
        let sql = "UPDATE log SET record = 'torn' WHERE place & 1099511627775 = ?1";
        assert_eq!(file.execute(sql, [i64::try_from(commit.0).unwrap()]).unwrap(), 1);
    }
}

#[tokio::test]
async fn scratchbook_list_reads_only_the_items_it_shows() {
    let torn = Torn::new();
    let scene = &torn.scene;
    let main = ThreadKey::main();
    let (page, fields) = scratchbook::page_of(&scene.space, &main);
    let mut changes = vec![Change::EnsurePage(Box::new(NewPage { id: page, fields }))];
    changes.extend((1..=1_000).map(|number| {
        let kind = [EntryKind::Note, EntryKind::Todo][number % 2];
        Change::AddEntry(Box::new(scene.entry(page, kind, &number.to_string())))
    }));
    scene.commit(changes).await;
    // Of the middle, nothing can be read: the first todos are the oldest, and the first notes the newest.
    torn.run("UPDATE entry SET fields = 'torn' WHERE place & 1099511627775 BETWEEN 200 AND 780");
    let (clock, ids) = (Arc::new(scene.clock.clone()), Arc::new(SeededIds::new(7)));
    let memory = Workspace::new(Arc::clone(&scene.store), clock, ids, scene.space.clone());
    for (kinds, first) in [(vec![EntryKind::Note], "1000"), (Vec::new(), "1")] {
        let filter = BookFilter {
            kinds,
            limit: 40,
            ..BookFilter::default()
        };
        let mut items = memory.book_items(&main, filter.clone()).await.unwrap();
        assert_eq!(items.items[0].fields.title, first);
        let cursor = items.next.take();
        let more = memory.book_items(&main, BookFilter { cursor, ..filter }).await.unwrap();
        assert_eq!((more.items.len(), more.total), (40, items.total));
    }
}

#[tokio::test]
async fn list_page_reconstructs_only_the_entries_it_shows_m7_2_15() {
    let torn = Torn::new();
    let scene = &torn.scene;
    let page = scene.a_page().await;
    let (mut ids, mut commits) = (Vec::new(), Vec::new());
    for part in 0..3 {
        let notes: Vec<_> = (0..300)
            .map(|number| scene.note(page, &format!("{part}/{number}")))
            .collect();
        ids.extend(notes.iter().map(|note| note.id));
        let notes = notes.into_iter().map(|note| Change::AddEntry(Box::new(note)));
        commits.push(scene.commit(notes.collect()).await.seq);
    }
    let mut query = EntryQuery {
        limit: 10,
        ..EntryQuery::default()
    };
    let first = scene.list(&query).await.unwrap();
    for some in ids.chunks(300) {
        let title = vec![FieldChange::Title("another".to_owned())];
        scene
            .commit(some.iter().map(|id| patch(*id, title.clone())).collect())
            .await;
    }
    torn.tear(commits[0]);
    query.cursor = first.next;
    let second = scene.list(&query).await.unwrap();
    let titles: Vec<_> = second.items.iter().map(|entry| entry.fields.title.as_str()).collect();
    assert_eq!((titles[0], titles[9], second.total), ("2/289", "2/280", 900));
}

#[tokio::test]
async fn conflict_of_a_late_patch_reads_only_the_missed_changes_m7_4_33() {
    let torn = Torn::new();
    let scene = &torn.scene;
    let id = scene.a_note("one").await;
    let added = scene.head().await;
    let titled = |title: &str| vec![FieldChange::Title(title.to_owned())];
    scene.commit(vec![patch(id, titled("two"))]).await;
    scene.commit(vec![patch(id, titled("three"))]).await;
    torn.tear(added);
    let late = Change::PatchEntry {
        entry: id,
        fields: titled("four"),
        expected_version: None,
        base_version: Some(2),
    };
    let late = scene.commit(vec![late]).await;
    let met = &late.entries[0].conflicts[0];
    assert_eq!((met.field.as_str(), met.overwrote_version), ("title", 3));
}
