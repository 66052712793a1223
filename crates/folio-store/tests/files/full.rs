//! What a file can still be asked that cannot grow any more, as on a full disk: everything that only reads.

use std::path::Path;

use folio_memory::{Change, EntryId, EntryKind, EntryQuery, FieldChange, Order, PageId, Seq};
use folio_store::ErrorKind;
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_testkit::contract::scene::{Scene, patch};

/// How many notes there are.
const NOTES: usize = 80;

fn open(path: &Path) -> Scene {
    Scene::on(SqliteStore::open(&OpenOptions::at(path)).unwrap())
}

/// The file at `path`, which may not become any larger. It has `page`.
async fn open_full(path: &Path, page: PageId) -> Scene {
    let options = OpenOptions {
        bytes_max: Some(std::fs::metadata(path).unwrap().len()),
        ..OpenOptions::at(path)
    };
    let scene = Scene::on(SqliteStore::open(&options).unwrap());
    let mut large = scene.note(page, "large");
    large.fields.body = words(1, 60_000);
    let error = scene
        .try_commit(vec![Change::AddEntry(Box::new(large))])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("the disk is full"), "{error}");
    scene
}

/// So many words, most of which are in no other text.
fn words(seed: usize, count: usize) -> String {
    let word = |n: usize| format!("w{:x}", (seed * 7_919 + n).wrapping_mul(2_654_435_761) % 0xffff_ffff);
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

async fn add_notes(scene: &Scene, page: PageId, numbers: std::ops::Range<usize>) -> Vec<EntryId> {
    let mut ids = Vec::new();
    for n in numbers {
        let kind = if n % 10 == 9 { EntryKind::Log } else { EntryKind::Note };
        let mut new = scene.entry(page, kind, &format!("note {n}"));
        let drink = if n % 3 == 0 { "wine" } else { "beer" };
        new.fields.body = format!("{drink} {}", words(n + 2, 80));
        ids.push(scene.add(new).await);
    }
    ids
}

fn search(text: &str, order: Order, as_of: Option<Seq>) -> EntryQuery {
    EntryQuery {
        text: Some(text.to_owned()),
        order,
        as_of,
        limit: 25,
        ..EntryQuery::default()
    }
}

/// All that `query` finds, page by page, and how many the first page says there are.
async fn found(scene: &Scene, mut query: EntryQuery) -> (Vec<String>, u64) {
    let (mut all, mut total) = (Vec::new(), None);
    loop {
        let answer = scene.list(&query).await.unwrap();
        total.get_or_insert(answer.total);
        all.extend(answer.items.into_iter().map(|entry| entry.fields.title));
        query.cursor = answer.next;
        if query.cursor.is_none() {
            return (all, total.unwrap_or_default());
        }
    }
}

/// What the searches find, by relevance in no order.
async fn seen(scene: &Scene, then: Seq) -> Vec<(Vec<String>, u64)> {
    let mut all = Vec::new();
    for text in ["wine", "water", "wine water"] {
        for as_of in [None, Some(then)] {
            for order in [Order::Newest, Order::Oldest, Order::LastChanged] {
                all.push(found(scene, search(text, order, as_of)).await);
            }
            let (mut titles, total) = found(scene, search(text, Order::Relevance, as_of)).await;
            titles.sort_unstable();
            all.push((titles, total));
        }
    }
    all
}

#[tokio::test]
async fn search_of_a_full_file_finds_what_its_index_lacks() {
    for is_indexed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folio.db");
        let (then, page) = {
            let scene = open(&path);
            let page = scene.a_page().await;
            let ids = add_notes(&scene, page, 0..NOTES / 2).await;
            if is_indexed {
                found(&scene, search("wine", Order::Newest, None)).await;
            }
            add_notes(&scene, page, NOTES / 2..NOTES * 3 / 4).await;
            let then = scene.head().await;
            // One has the word no more, and another one has it now.
            let changes = [(ids[3], "water"), (ids[4], "wine")];
            for (id, body) in changes {
                scene
                    .commit(vec![patch(id, vec![FieldChange::Body(body.to_owned())])])
                    .await;
            }
            add_notes(&scene, page, NOTES * 3 / 4..NOTES).await;
            (then, page)
        };
        let while_full = seen(&open_full(&path, page).await, then).await;
        let expected = seen(&open(&path), then).await;
        assert!(expected[0].1 > 20, "{expected:?}");
        assert_eq!(while_full, expected, "{is_indexed}");
    }
}
