//! Lists of which an index answers one part after the other: scratchbooks, and later pages of lists by age.

use std::time::Duration;

use folio_memory::entry::Lifetime;
use folio_memory::scratchbook::{self, by_urgency};
use folio_memory::{
    Change, Entry, EntryId, EntryKind, EntryQuery, FieldChange, NewPage, Order, PageId, Status, ThreadKey,
};
use folio_store::Workspace;
use folio_store::workspace::BookFilter;

use super::Home;
use super::lists::Noise;
use super::scene::{Scene, patch, tag};

/// What `query` finds in all, in the order of the query.
async fn everything(scene: &Scene, query: &EntryQuery) -> Vec<Entry> {
    let query = EntryQuery {
        limit: 1_000,
        ..query.clone()
    };
    let answer = scene.list(&query).await.expect("a list");
    assert_eq!(answer.next, None);
    answer.items
}

fn handles(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.handle.0).collect()
}

/// A scratchbook with items of every sort, on its page, and which of them are memory in their own right.
async fn a_book(scene: &Scene, random: &mut Noise) -> (PageId, Vec<EntryId>) {
    let (book, fields) = scratchbook::page_of(&scene.space, &ThreadKey::main());
    let page = NewPage { id: book, fields };
    scene.commit(vec![Change::EnsurePage(Box::new(page))]).await;
    let (mut changes, mut memory) = (Vec::new(), Vec::new());
    for number in 0..260 {
        let kind = EntryKind::ALL[random.below(EntryKind::ALL.len())];
        let mut new = scene.entry(book, kind, &number.to_string());
        new.fields.status = Status::ALL[random.below(Status::ALL.len())];
        new.fields.pin_rank = [None, None, None, Some(2), Some(1)][random.below(5)];
        let expiry = scene.now().plus(Duration::from_secs(random.below(3) as u64));
        let lifetime = [Lifetime::Unlimited, Lifetime::Until(expiry)][random.below(2)];
        // What runs wrote is listed in its present form, which knows the commit that noted the end of its lifetime.
        new.fields.lifetime = if kind.is_memory() {
            lifetime
        } else {
            Lifetime::Unlimited
        };
        new.fields.superseded_by = [None, None, None, Some(new.id)][random.below(4)];
        new.fields.tags = [Vec::new(), vec![tag("a")]][random.below(2)].clone();
        memory.extend(kind.is_memory().then_some(new.id));
        changes.push(Change::AddEntry(Box::new(new)));
    }
    for chunk in changes.chunks(40) {
        scene.commit(chunk.to_vec()).await;
    }
    for chunk in memory.chunks(7) {
        scene.clock.advance(Duration::from_millis(10));
        let retitle = |id: &EntryId| patch(*id, vec![FieldChange::Title("changed".to_owned())]);
        scene.commit(chunk.iter().take(3).map(retitle).collect()).await;
    }
    (book, memory)
}

async fn pages_of(
    (scene, memory): (&Scene, &Workspace),
    filter: &BookFilter,
    meanwhile: impl AsyncFn(),
) -> (Vec<u64>, Vec<u64>) {
    let (mut filter, mut seen, mut totals) = (filter.clone(), Vec::new(), Vec::new());
    loop {
        let answer = memory.book_items(&ThreadKey::main(), filter.clone()).await;
        let answer = answer.expect("items");
        assert!(answer.items.len() <= filter.limit || filter.limit == 0);
        seen.extend(handles(&answer.items));
        totals.push(answer.total);
        filter.cursor = answer.next;
        if filter.cursor.is_none() {
            return (seen, totals);
        }
        scene.clock.advance(Duration::from_secs(1));
        meanwhile().await;
    }
}

/// The pages of a scratchbook, read class by class, are those of all its items sorted at once (M7.2.15), whatever is
/// written or expires meanwhile.
pub async fn scratchbook_pages_match_the_whole_book_sorted_m7_2_15(home: &dyn Home) {
    let scene = Scene::of(home);
    let mut random = Noise(11);
    let (book, memory_of_book) = a_book(&scene, &mut random).await;
    scene.clock.advance(Duration::from_secs(1));
    let workspace = scene.workspace();
    let filters = [
        BookFilter::default(),
        BookFilter {
            status: Status::ALL.to_vec(),
            ..BookFilter::default()
        },
        BookFilter {
            kinds: vec![EntryKind::Todo, EntryKind::Task, EntryKind::Note],
            ..BookFilter::default()
        },
        BookFilter {
            kinds: vec![EntryKind::Todo, EntryKind::Goal],
            status: vec![Status::Done, Status::Open, Status::Blocked, Status::Archived],
            ..BookFilter::default()
        },
        BookFilter {
            tags: vec![tag("a")],
            ..BookFilter::default()
        },
    ];
    for filter in filters {
        for limit in [0, 7, 130] {
            let filter = BookFilter {
                limit,
                ..filter.clone()
            };
            let query = EntryQuery {
                page: Some(book),
                kinds: filter.kinds.clone(),
                status: filter.status.clone(),
                tags: filter.tags.clone(),
                ..EntryQuery::default()
            };
            let now = scene.now();
            let mut all = everything(&scene, &query).await;
            all.sort_by(|a, b| by_urgency(now, a, b));
            let changed = std::sync::Mutex::new(Noise(3));
            let change = async || {
                let below = |count| changed.lock().expect("a lock").below(count);
                let id = memory_of_book[below(memory_of_book.len())];
                let fields = match below(3) {
                    0 => FieldChange::Status(Status::ALL[below(Status::ALL.len() - 1)]),
                    1 => FieldChange::PinRank(Some(3)),
                    _ => FieldChange::Title("again".to_owned()),
                };
                let new = scene.entry(book, EntryKind::Todo, "new");
                let change = vec![patch(id, vec![fields]), Change::AddEntry(Box::new(new))];
                // What is archived stays as it is.
                drop(scene.try_commit(change).await);
            };
            let (seen, totals) = pages_of((&scene, &workspace), &filter, change).await;
            assert_eq!(seen, handles(&all), "{filter:?}");
            assert!(
                totals.iter().all(|total| *total == all.len() as u64),
                "{totals:?} {filter:?}"
            );
        }
    }
}

/// A page of a list by age is found wherever it lies: right behind the previous one, or far away (M7.2.15).
pub async fn list_pages_are_found_in_dense_and_in_sparse_parts_m7_2_15(home: &dyn Home) {
    let scene = Scene::of(home);
    let (page, other) = (scene.a_page().await, scene.a_page().await);
    let (mut changes, mut ids) = (Vec::new(), Vec::new());
    for number in 0..600_u32 {
        let is_on_page = number.is_multiple_of(97) || (200..260).contains(&number);
        let kinds = [EntryKind::Note, EntryKind::Task, EntryKind::Log, EntryKind::Observation];
        let kind = kinds[number as usize % kinds.len()];
        let mut new = scene.entry(if is_on_page { page } else { other }, kind, &number.to_string());
        new.fields.tags = if number.is_multiple_of(5) {
            vec![tag("x")]
        } else {
            Vec::new()
        };
        new.fields.context = Some(serde_json::json!({"even": number.is_multiple_of(2), "n": [number]}));
        ids.extend(kind.is_memory().then_some(new.id));
        changes.push(Change::AddEntry(Box::new(new)));
    }
    for chunk in changes.chunks(200) {
        scene.commit(chunk.to_vec()).await;
    }
    let on_page = EntryQuery {
        page: Some(page),
        status: Status::ALL.to_vec(),
        ..EntryQuery::default()
    };
    let queries = [
        on_page.clone(),
        EntryQuery {
            kinds: vec![EntryKind::Task, EntryKind::Note],
            ..on_page.clone()
        },
        EntryQuery {
            kinds: vec![EntryKind::Log],
            ..on_page
        },
        EntryQuery {
            kinds: vec![EntryKind::Task],
            status: Status::ALL.to_vec(),
            tags: vec![tag("x")],
            ..EntryQuery::default()
        },
        EntryQuery {
            context: vec![
                ("even".to_owned(), true.into()),
                ("n".to_owned(), serde_json::json!([200])),
            ],
            ..EntryQuery::default()
        },
    ];
    let mut next = 0;
    for query in queries {
        for order in [Order::Newest, Order::Oldest, Order::LastChanged] {
            let mut query = EntryQuery { order, ..query.clone() };
            let expected = handles(&everything(&scene, &query).await);
            query.limit = 3;
            let mut seen = Vec::new();
            loop {
                let answer = scene.list(&query).await.expect("a list");
                assert_eq!(answer.total, expected.len() as u64);
                seen.extend(handles(&answer.items));
                query.cursor = answer.next;
                if query.cursor.is_none() {
                    break;
                }
                // Entries of all parts leave the list, or would.
                let gone = (0..40).map(|step| ids[(next + step * 11) % ids.len()]);
                let tags = vec![FieldChange::Tags(vec![tag(&format!("y{next}"))])];
                scene.commit(gone.map(|id| patch(id, tags.clone())).collect()).await;
                next += 7;
            }
            assert_eq!(seen, expected, "{query:?}");
        }
    }
}
