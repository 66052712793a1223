//! Search for words that very many entries contain (M7.2.17).

use folio_memory::query::MAX_LIMIT;
use folio_memory::{
    Change, Entry, EntryFields, EntryId, EntryKind, EntryQuery, FOUND_MAX, FieldChange, Order, Owner, Seq, Status,
    TextMatch, Trust,
};

use super::Home;
use super::scene::{Scene, patch, tag};
use super::search::search;

/// Entries per commit.
const ENTRIES_PER_COMMIT: u64 = 400;
/// How many matches are counted.
const COUNTED: u64 = FOUND_MAX as u64;

/// A space with `count` notes that contain `rain`. The first one and every hundredth contain it in the title, too, and
/// match best; these have the tag `title`. The first one also contains `zeppelin`.
async fn space_with_rain_notes(home: &dyn Home, count: u64) -> Scene {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let mut changes = Vec::new();
    for number in 0..count {
        let mut fields = EntryFields::new(EntryKind::Note, Owner::agent(), Trust::User);
        fields.body = "rain".to_owned();
        if number.is_multiple_of(100) {
            fields.title = "rain".to_owned();
            fields.tags = vec![tag("title")];
        }
        if number == 0 {
            fields.body = "rain on a zeppelin".to_owned();
        }
        changes.push(Change::AddEntry(Box::new(folio_memory::NewEntry {
            id: EntryId::draw(&scene.ids, scene.now()),
            page,
            kind: EntryKind::Note,
            fields,
        })));
        if (number + 1).is_multiple_of(ENTRIES_PER_COMMIT) || number + 1 == count {
            scene.commit(std::mem::take(&mut changes)).await;
        }
    }
    scene
}

/// The cost of a search is bounded: it counts up to [`FOUND_MAX`], says so, and orders the newest of the matches by
/// relevance. Filters are applied before that, and a list by age has no limit.
pub async fn search_for_a_common_word_counts_only_the_newest_matches(home: &dyn Home) {
    let scene = space_with_rain_notes(home, COUNTED + 200).await;
    let answer = scene.list(&search("rain")).await.expect("a list");
    assert_eq!((answer.total, answer.at_least), (COUNTED, true));
    let numbers: Vec<_> = answer.items.iter().map(|entry| entry.handle.0).collect();
    // Those with the word in the title, the newest first; the very first note is not among the newest.
    let best: Vec<_> = (2..=11_u64).rev().map(|place| place * 100 + 1).collect();
    assert_eq!(numbers, best);

    let narrow = EntryQuery {
        tags: vec![tag("title")],
        limit: 100,
        ..search("rain")
    };
    let answer = scene.list(&narrow).await.expect("a list");
    assert_eq!((answer.total, answer.at_least), (12, false));
    assert_eq!(answer.items.len(), 12, "the oldest is among them");

    let newest = COUNTED + 200;
    for (order, first, limit) in [
        (Order::Newest, newest, 100),
        (Order::Oldest, 1, 100),
        (Order::Newest, newest, MAX_LIMIT),
        (Order::Oldest, 1, MAX_LIMIT),
    ] {
        let mut query = EntryQuery {
            order,
            limit,
            ..search("rain")
        };
        let mut seen = Vec::new();
        for _ in 0..20 {
            let answer = scene.list(&query).await.expect("a list");
            assert_eq!((answer.total, answer.at_least), (COUNTED, true), "{order:?}");
            seen.extend(answer.items.iter().map(|entry| entry.handle.0));
            query.cursor = answer.next;
            if query.cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen.first(), Some(&first), "{order:?}");
        if order == Order::Newest {
            seen.reverse();
        }
        let all: Vec<_> = (1..=COUNTED + 200).collect();
        assert!(
            seen == all,
            "{order:?} gives each of them once, in order, {limit} at a time"
        );
    }
}

/// Whatever changes between the pages of a list, they are of the matches that its first page ranked: older ones do not
/// take the places of those that changed.
pub async fn pages_of_a_search_rank_the_same_matches_whatever_changes_between_them(home: &dyn Home) {
    let scene = space_with_rain_notes(home, COUNTED + 200).await;
    let by_age = EntryQuery {
        order: Order::Oldest,
        limit: MAX_LIMIT,
        ..search("rain")
    };
    let oldest = scene.list(&by_age).await.expect("a list").items;
    for (order, offset) in [(Order::Relevance, 100), (Order::Priority, 101)] {
        let mut query = EntryQuery {
            order,
            limit: 400,
            ..search("rain")
        };
        let (mut seen, mut changed) = (Vec::new(), 0..);
        loop {
            let answer = scene.list(&query).await.expect("a list");
            assert_eq!((answer.total, answer.at_least), (COUNTED, true), "{order:?}");
            seen.extend(answer.items.iter().map(|entry| entry.handle.0));
            query.cursor = answer.next;
            if query.cursor.is_none() {
                break;
            }
            // Some of those that are ranked, and some that are older.
            let change = |number: usize| {
                let entry = &oldest[number * 22 + offset];
                patch(entry.id, vec![FieldChange::Status(Status::Archived)])
            };
            scene.commit(changed.by_ref().take(20).map(change).collect()).await;
        }
        seen.sort_unstable();
        let newest: Vec<_> = (1..=COUNTED + 200).collect();
        assert_eq!(seen.len(), FOUND_MAX as usize, "{order:?}");
        if order == Order::Relevance {
            assert!(seen == newest[200..], "the newest, each of them once");
        }
    }
}

/// The best answer is found even if it is older than the newest matches of the common words.
pub async fn search_for_any_of_several_words_selects_by_the_rarest(home: &dyn Home) {
    let scene = space_with_rain_notes(home, COUNTED + 200).await;
    let query = EntryQuery {
        text_match: TextMatch::Any,
        ..search("rain zeppelin thunder")
    };
    let answer = scene.list(&query).await.expect("a list");
    let numbers: Vec<_> = answer.items.iter().map(|entry| entry.handle.0).collect();
    assert_eq!((numbers, answer.total, answer.at_least), (vec![1], 1, true));
    let by_age = EntryQuery {
        order: Order::Newest,
        ..query
    };
    let answer = scene.list(&by_age).await.expect("a list");
    assert_eq!((answer.total, answer.at_least), (COUNTED, true));
}

/// What only has the common words is on no page, also if it changes between the pages.
pub async fn pages_of_a_search_by_the_rarest_word_have_no_other_matches(home: &dyn Home) {
    let scene = space_with_rain_notes(home, COUNTED + 200).await;
    let page = scene.a_page().await;
    for _ in 0..2 {
        scene.add(scene.note(page, "zeppelin")).await;
    }
    let mut query = EntryQuery {
        text_match: TextMatch::Any,
        limit: 2,
        ..search("rain zeppelin")
    };
    let first = scene.list(&query).await.expect("a list");
    let handles = |items: &[Entry]| items.iter().map(|entry| entry.handle.0).collect::<Vec<_>>();
    assert_eq!((first.items.len(), first.total, first.at_least), (2, 3, true));
    let newest = EntryQuery {
        order: Order::Newest,
        limit: 3,
        ..search("rain")
    };
    for entry in scene.list(&newest).await.expect("a list").items {
        scene
            .commit(vec![patch(entry.id, vec![FieldChange::PinRank(Some(1))])])
            .await;
    }
    query.cursor = first.next;
    let second = scene.list(&query).await.expect("a list");
    assert_eq!((second.total, second.at_least), (3, true));
    let mut all = handles(&first.items);
    all.extend(handles(&second.items));
    all.sort_unstable();
    assert_eq!(all, [1, COUNTED + 201, COUNTED + 202]);
}

/// Very many entries contain each term of `東京都`, and one contains both: the word is not ignored as too common.
pub async fn word_is_as_rare_as_all_its_terms_together(home: &dyn Home) {
    const THUNDER: u64 = 600;
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let note = |title: &str| Change::AddEntry(Box::new(scene.note(page, title)));
    let mut changes = vec![note("東京都")];
    for number in 0..=COUNTED {
        let thunder = if number < THUNDER { " thunder" } else { "" };
        changes.push(note(&format!("東京{thunder}")));
        changes.push(note("京都"));
    }
    for chunk in changes.chunks(400) {
        scene.commit(chunk.to_vec()).await;
    }
    let query = EntryQuery {
        text_match: TextMatch::Any,
        limit: MAX_LIMIT,
        ..search("東京都 thunder")
    };
    let answer = scene.list(&query).await.expect("a list");
    assert_eq!((answer.total, answer.at_least), (THUNDER + 1, false));
    assert!(answer.items.iter().any(|entry| entry.fields.title == "東京都"));
}

/// One entry fewer than that, and all are counted and ordered.
pub async fn search_matches_up_to_the_limit_are_counted_exactly(home: &dyn Home) {
    let scene = space_with_rain_notes(home, COUNTED).await;
    let answer = scene.list(&search("rain")).await.expect("a list");
    assert_eq!((answer.total, answer.at_least), (COUNTED, false));
    let past = EntryQuery {
        as_of: Some(Seq(2)),
        limit: 3,
        ..search("rain")
    };
    let answer = scene.list(&past).await.expect("a list");
    assert_eq!((answer.total, answer.at_least), (ENTRIES_PER_COMMIT, false));
    let numbers: Vec<_> = answer.items.iter().map(|entry| entry.handle.0).collect();
    assert_eq!(numbers, [301, 201, 101]);
}
