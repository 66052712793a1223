//! Search during writes.

use folio_memory::{EntryId, EntryQuery, FieldChange, Order, Status};

use super::Home;
use super::scene::{Scene, patch, tag};
use super::search::{notes, search};

/// This also holds if the change was made before the first search.
pub async fn search_finds_a_changed_entry_by_its_current_text_only(home: &dyn Home) {
    let (scene, page) = notes(home, &[]).await;
    let id = scene.add(scene.note(page, "before")).await;
    let changes = [
        (FieldChange::Title("afterwards".to_owned()), "afterwards", "before"),
        (FieldChange::Body("in the text".to_owned()), "text", "before"),
        (FieldChange::Tags(vec![tag("labelled")]), "labelled", "before"),
        (FieldChange::Body("another".to_owned()), "another", "text"),
    ];
    for (change, now, not_any_more) in changes {
        scene.commit(vec![patch(id, vec![change])]).await;
        assert_eq!(scene.list(&search(now)).await.expect("a list").total, 1, "{now}");
        assert_eq!(
            scene.list(&search(not_any_more)).await.expect("a list").total,
            0,
            "{not_any_more}"
        );
    }
}

/// This holds whatever is written meanwhile, and however that changes the ranking (M7.2.15).
pub async fn search_pages_neither_repeat_nor_skip_entries(home: &dyn Home) {
    let (scene, page) = notes(home, &[]).await;
    let add = async |number: usize| {
        let mut new = scene.note(page, &number.to_string());
        new.fields.body = format!("rain {}", "and more ".repeat(number % 7));
        scene.add(new).await
    };
    let mut ids = Vec::new();
    for number in 0..25 {
        ids.push(add(number).await);
    }
    for order in [Order::Relevance, Order::Newest, Order::Oldest] {
        let mut query = EntryQuery {
            order,
            limit: 4,
            ..search("rain")
        };
        let expected_total = scene.list(&query).await.expect("a list").total;
        let (mut seen, mut as_of) = (Vec::new(), Vec::new());
        loop {
            let answer = scene.list(&query).await.expect("a list");
            assert_eq!(answer.total, expected_total);
            seen.extend(answer.items.iter().map(|entry| entry.handle));
            as_of.push(answer.as_of);
            query.cursor = answer.next;
            if query.cursor.is_none() {
                break;
            }
            add(seen.len()).await;
            // From here on, entries that were returned match better, and others worse.
            let body = |text: &str| vec![FieldChange::Body(text.to_owned())];
            scene.commit(vec![patch(ids[seen.len() % 25], body("rain"))]).await;
            scene
                .commit(vec![patch(
                    ids[(seen.len() + 9) % 25],
                    body(&("rain".to_owned() + &" x".repeat(50))),
                )])
                .await;
        }
        let listed_count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(
            (listed_count, seen.len() as u64),
            (seen.len(), expected_total),
            "{order:?}"
        );
        assert!(as_of.iter().all(|seq| *seq == as_of[0]), "{as_of:?}");
    }
}

/// A commit is visible at once, whoever made it.
pub async fn search_sees_every_earlier_commit_of_any_store(home: &dyn Home) {
    let (scene, page) = notes(home, &["first"]).await;
    assert_eq!(scene.list(&search("first")).await.expect("a list").total, 1);
    scene.add(scene.note(page, "second")).await;
    assert_eq!(scene.list(&search("second")).await.expect("a list").total, 1);
    if home.is_shared() {
        let other = Scene::on(home.open());
        assert_eq!(other.list(&search("second")).await.expect("a list").total, 1);
        let mut third = other.note(page, "third");
        third.id = EntryId::derived(&["third"]);
        other.add(third).await;
        assert_eq!(scene.list(&search("third")).await.expect("a list").total, 1);
    }
}

/// The entry has its content of that time (M7.2.16).
pub async fn search_as_of_a_past_commit_finds_the_past_text(home: &dyn Home) {
    let (scene, page) = notes(home, &["rain today", "sun today"]).await;
    let then = scene.head().await;
    let id = scene.add(scene.note(page, "rain again")).await;
    scene
        .commit(vec![patch(id, vec![FieldChange::Title("rain, again".to_owned())])])
        .await;
    let all = scene.list(&search("today")).await.expect("a list").items;
    scene
        .commit(vec![patch(all[0].id, vec![FieldChange::Title("fog".to_owned())])])
        .await;
    scene
        .commit(vec![patch(all[1].id, vec![FieldChange::Status(Status::Archived)])])
        .await;
    let at = |text: &str| EntryQuery {
        as_of: Some(then),
        order: Order::Oldest,
        ..search(text)
    };
    assert_eq!(scene.titles(&at("today")).await, ["rain today", "sun today"]);
    assert_eq!(scene.titles(&at("rain")).await, ["rain today"]);
    assert!(scene.titles(&at("fog")).await.is_empty());
    assert_eq!(scene.titles(&search("rain")).await, ["rain, again"]);
}
