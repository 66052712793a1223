//! Lists that are read in several pages.

use std::time::Duration;

use folio_memory::entry::Lifetime;
use folio_memory::{EntryQuery, Order};
use folio_store::ErrorKind;
use serde_json::json;

use super::Home;
use super::scene::Scene;

/// Pages neither repeat nor skip entries, whatever is written meanwhile (M7.2.15).
pub async fn list_pages_neither_repeat_nor_skip_entries(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let add = async |number: u32| {
        let mut note = scene.note(page, &number.to_string());
        note.fields.context = Some(json!({"even": number.is_multiple_of(2)}));
        scene.add(note).await;
    };
    for number in 1..=25 {
        add(number).await;
    }
    let mut added = 25_u32;
    for order in [Order::Newest, Order::Oldest] {
        for context in [Vec::new(), vec![("even".to_owned(), json!(true))]] {
            let mut expected: Vec<u32> = (1..=added)
                .filter(|n| context.is_empty() || n.is_multiple_of(2))
                .collect();
            if order == Order::Newest {
                expected.reverse();
            }
            let mut query = EntryQuery {
                order,
                context,
                limit: 4,
                ..EntryQuery::default()
            };
            let (mut seen, mut as_of) = (Vec::new(), Vec::new());
            loop {
                let answer = scene.list(&query).await.expect("a list");
                seen.extend(
                    answer
                        .items
                        .iter()
                        .map(|entry| entry.fields.title.parse::<u32>().expect("a number")),
                );
                assert_eq!(answer.total, expected.len() as u64, "{query:?}");
                as_of.push(answer.as_of);
                query.cursor = answer.next;
                if query.cursor.is_none() {
                    break;
                }
                added += 1;
                add(added).await;
            }
            assert_eq!(seen, expected, "{query:?}");
            // What came since can be queried as what was added after this commit.
            assert!(as_of.iter().all(|seq| *seq == as_of[0]), "{as_of:?}");
        }
    }
}

/// All pages are as of the instant of the first one: an entry that expires while somebody reads is still on its page,
/// and counted.
pub async fn list_pages_keep_the_time_of_the_first_page_m7_2_15(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    for number in 1..=6_u64 {
        let mut note = scene.note(page, &format!("wine {number}"));
        note.fields.lifetime = Lifetime::Until(scene.now().plus(Duration::from_secs(60 * number)));
        scene.add(note).await;
    }
    for text in [None, Some("wine".to_owned())] {
        for order in [Order::Newest, Order::Oldest] {
            let mut query = EntryQuery {
                order,
                limit: 2,
                text: text.clone(),
                ..EntryQuery::default()
            };
            // A new query meanwhile answers with the current state.
            let anew = query.clone();
            let first = scene.list(&query).await.expect("a list");
            let (total, mut seen) = (first.total, Vec::new());
            let mut answer = first;
            loop {
                assert_eq!(answer.total, total, "{query:?}");
                seen.extend(answer.items.iter().map(|entry| entry.handle));
                query.cursor = answer.next;
                if query.cursor.is_none() {
                    break;
                }
                if seen.len() == 2 {
                    scene.clock.advance(Duration::from_secs(60));
                    assert_eq!(scene.list(&anew).await.expect("a list").total, total - 1);
                }
                answer = scene.list(&query).await.expect("a list");
            }
            assert_eq!(seen.len() as u64, total, "{query:?}");
        }
    }
}

/// A cursor of another query is refused, also if it comes from another space.
pub async fn cursor_of_another_query_or_space_is_refused(home: &dyn Home) {
    let scene = Scene::of(home);
    let other = scene.other_space("other");
    let page = scene.a_page().await;
    for _ in 0..3 {
        scene.add(scene.note(page, "n")).await;
    }
    let query = EntryQuery {
        limit: 1,
        ..EntryQuery::default()
    };
    let cursor = scene.list(&query).await.expect("a list").next;
    let more = EntryQuery {
        limit: 2,
        cursor: cursor.clone(),
        ..query.clone()
    };
    assert_eq!(
        scene
            .list(&more)
            .await
            .expect("another limit is the same query")
            .items
            .len(),
        2
    );
    let narrower = EntryQuery {
        page: Some(page),
        cursor: cursor.clone(),
        ..query.clone()
    };
    assert_eq!(
        scene.list(&narrower).await.expect_err("another query").kind(),
        ErrorKind::Invalid
    );
    let same = EntryQuery {
        cursor,
        ..query.clone()
    };
    assert_eq!(
        other.list(&same).await.expect_err("another space").kind(),
        ErrorKind::Invalid
    );
    for text in ["", "x", "a.b.c", "0.0.0.0", "💥"] {
        let broken = EntryQuery {
            cursor: Some(text.to_owned()),
            ..query.clone()
        };
        assert_eq!(
            scene.list(&broken).await.expect_err("no cursor").kind(),
            ErrorKind::Invalid,
            "{text}"
        );
    }
}
