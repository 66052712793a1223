//! Full-text search (M7.2.17).

use folio_memory::entry::BodyRef;
use folio_memory::text::INDEXED_BYTES;
use folio_memory::{Change, Entry, EntryKind, EntryQuery, FieldChange, NewEntry, Order, PageId, Status, TextMatch};
use folio_store::{Blob, Commit, Record};
use serde_json::json;

use super::Home;
use super::scene::{Scene, patch, tag};

pub(super) fn search(text: &str) -> EntryQuery {
    EntryQuery {
        text: Some(text.to_owned()),
        ..EntryQuery::default()
    }
}

/// A space with a note for each of `titles`.
pub(super) async fn notes(home: &dyn Home, titles: &[&str]) -> (Scene, PageId) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    for title in titles {
        scene.add(scene.note(page, title)).await;
    }
    (scene, page)
}

/// Neither do the inflections of English words.
pub async fn search_ignores_case_accents_and_word_endings(home: &dyn Home) {
    let (scene, _) = notes(home, &["Flights to Zürich", "A train to Straßburg", "readConfig fails"]).await;
    for (text, expected) in [
        ("flight ZURICH", "Flights to Zürich"),
        ("strassburg trains", "A train to Straßburg"),
        ("Ｚｕｒｉｃｈ", "Flights to Zürich"),
        ("config", "readConfig fails"),
        ("readconfig failing", "readConfig fails"),
    ] {
        assert_eq!(scene.titles(&search(text)).await, [expected], "{text}");
    }
    assert!(
        scene.titles(&search("zur")).await.is_empty(),
        "words are found as a whole"
    );
}

/// An entry shows only the beginning of such a text. As much of it as is searched is found as of a past commit as well.
pub async fn search_finds_words_anywhere_in_a_long_text(home: &dyn Home) {
    let (scene, page) = notes(home, &["another"]).await;
    let kept = |text: &str| {
        let blob = Blob::new(text.as_bytes().to_vec());
        let body = BodyRef {
            hash: blob.hash().0.clone(),
            bytes: text.len() as u64,
            pieces: Vec::new(),
        };
        (blob, body)
    };
    let commit = async |blob: Blob, change: Change| {
        let commit = Commit {
            blobs: vec![blob],
            ..scene.commit_of(Record::of(vec![change]))
        };
        scene.store.commit(commit).await.expect("a commit");
    };
    let filler = "and so on, ".repeat(20_000);
    let (blob, body) = kept(&format!(
        "at first {filler} the watermill {}",
        "—".repeat(INDEXED_BYTES / 3)
    ));
    let mut new = scene.note(page, "long");
    (new.fields.body, new.fields.body_ref) = ("at first".to_owned(), Some(body));
    let id = new.id;
    commit(blob, Change::AddEntry(Box::new(new))).await;
    let titles = async |text: &str, as_of| {
        let query = EntryQuery { as_of, ..search(text) };
        scene.titles(&query).await
    };
    assert_eq!(titles("watermill first", None).await, ["long"]);
    let then = scene.head().await;
    let (blob, body) = kept(&format!("at first {filler} the windmill"));
    commit(blob, patch(id, vec![FieldChange::BodyRef(Some(body))])).await;
    assert_eq!(titles("windmill", None).await, ["long"]);
    assert_eq!(titles("watermill", None).await, [""; 0]);
    assert_eq!(titles("watermill", Some(then)).await, ["long"]);
    assert_eq!(titles("windmill", Some(then)).await, [""; 0]);
    let report = scene.store.check().await.expect("a report");
    assert_eq!(report.problems, [""; 0]);
}

/// In scripts without spaces, one character, two, or more are found.
pub async fn search_finds_substrings_in_scripts_without_spaces(home: &dyn Home) {
    let (scene, _) = notes(home, &["明日は東京都に行く", "京都の寺", "항공편을 예약"]).await;
    let (tokyo, kyoto, flight) = ("明日は東京都に行く", "京都の寺", "항공편을 예약");
    for (text, expected) in [
        ("東", vec![tokyo]),
        ("京", vec![kyoto, tokyo]),
        ("東京", vec![tokyo]),
        ("京都", vec![kyoto, tokyo]),
        ("東京都", vec![tokyo]),
        ("항공", vec![flight]),
        ("都京", vec![]),
    ] {
        let mut found = scene.titles(&search(text)).await;
        found.sort_by_key(|title| expected.iter().position(|expected_title| expected_title == title));
        assert_eq!(found, expected, "{text}");
    }
}

/// The query decides; words are matched in title, text and tags together.
pub async fn search_matches_all_words_or_any_as_requested(home: &dyn Home) {
    let (scene, page) = notes(home, &["red", "green", "red green"]).await;
    let mut spread = scene.note(page, "red");
    (spread.fields.body, spread.fields.tags) = ("and green".to_owned(), vec![tag("wine/white")]);
    scene.add(spread).await;
    let found = async |text: &str, text_match| {
        let query = EntryQuery {
            text_match,
            ..search(text)
        };
        scene.list(&query).await.expect("a list").total
    };
    assert_eq!(found("red green", TextMatch::All).await, 2);
    assert_eq!(found("red white green", TextMatch::All).await, 1);
    assert_eq!(found("green red blue", TextMatch::All).await, 0);
    assert_eq!(found("red blue", TextMatch::Any).await, 3);
    assert_eq!(found("red green blue", TextMatch::Any).await, 4);
}

/// A match in the title ranks before one in the text, and a short text before a long one; each has its score. An
/// explicit order takes precedence.
pub async fn search_results_are_ordered_by_relevance_by_default(home: &dyn Home) {
    let (scene, page) = notes(home, &["paris", "other", "unlike", "more"]).await;
    for (title, body) in [
        ("long", "paris ".to_owned() + &"x ".repeat(200)),
        ("short", "to paris".to_owned()),
    ] {
        let mut new = scene.note(page, title);
        new.fields.body = body;
        scene.add(new).await;
    }
    let answer = scene.list(&search("Paris")).await.expect("a list");
    let titles: Vec<_> = answer.items.iter().map(|entry| entry.fields.title.as_str()).collect();
    assert_eq!(titles, ["paris", "short", "long"]);
    assert_eq!(answer.scores.len(), 3);
    assert!(answer.scores.is_sorted_by(|a, b| a > b), "{:?}", answer.scores);
    for (order, expected) in [
        (Order::Newest, ["short", "long", "paris"]),
        (Order::Oldest, ["paris", "long", "short"]),
    ] {
        let query = EntryQuery {
            order,
            ..search("paris")
        };
        assert_eq!(scene.titles(&query).await, expected);
    }
    let without = scene.list(&EntryQuery::default()).await.expect("a list");
    assert!(without.scores.is_empty());
}

/// Filters and words are combined; archived entries are found when they are included.
pub async fn search_combines_words_with_filters(home: &dyn Home) {
    let (scene, page) = notes(home, &["wine of old"]).await;
    let elsewhere = scene.a_page().await;
    let mut tagged = scene.note(elsewhere, "red wine");
    tagged.fields.tags = vec![tag("red")];
    tagged.fields.context = Some(json!({"goal_id": "g1"}));
    scene.add(tagged).await;
    let mut seen = scene.entry(page, EntryKind::Observation, "wine observed");
    seen.fields.type_name = Some("risk_alert".to_owned());
    scene.add(seen).await;
    let put_away = scene.add(scene.note(page, "wine put away")).await;
    scene
        .commit(vec![patch(put_away, vec![FieldChange::Status(Status::Archived)])])
        .await;
    for kind in [EntryKind::Log, EntryKind::Step] {
        scene.add(scene.entry(page, kind, "wine of a run")).await;
    }
    let wine = || search("wine");
    let cases: Vec<(EntryQuery, &[&str])> = vec![
        (wine(), &["red wine", "wine observed", "wine of old"]),
        (
            EntryQuery {
                page: Some(elsewhere),
                ..wine()
            },
            &["red wine"],
        ),
        (
            EntryQuery {
                page: Some(PageId::derived(&["nowhere"])),
                ..wine()
            },
            &[],
        ),
        (
            EntryQuery {
                kinds: vec![EntryKind::Observation, EntryKind::Log],
                ..wine()
            },
            &["wine observed"],
        ),
        (
            EntryQuery {
                types: vec!["risk_alert".to_owned()],
                ..wine()
            },
            &["wine observed"],
        ),
        (
            EntryQuery {
                tags: vec![tag("red")],
                ..wine()
            },
            &["red wine"],
        ),
        (
            EntryQuery {
                tags_none: vec![tag("red")],
                ..wine()
            },
            &["wine observed", "wine of old"],
        ),
        (
            EntryQuery {
                context: vec![("goal_id".to_owned(), json!("g1"))],
                ..wine()
            },
            &["red wine"],
        ),
        (
            EntryQuery {
                context: vec![("goal_id".to_owned(), json!("g2"))],
                ..wine()
            },
            &[],
        ),
        (
            EntryQuery {
                status: vec![Status::Archived],
                ..wine()
            },
            &["wine put away"],
        ),
    ];
    for (query, expected) in cases {
        let mut titles = scene.titles(&query).await;
        titles.sort();
        assert_eq!(titles, expected, "{query:?}");
        let answer = scene.list(&query).await.expect("a list");
        assert_eq!(
            (answer.total, answer.scores.len()),
            (expected.len() as u64, expected.len()),
            "{query:?}"
        );
    }
}

/// Neither the results nor the scores depend on other spaces (M7.6.51).
pub async fn search_results_and_scores_ignore_other_spaces(home: &dyn Home) {
    let (scene, _) = notes(home, &["paris", "a flight to paris", "rome"]).await;
    let other = scene.other_space("other");
    let before = scene.list(&search("paris")).await.expect("a list");
    let page = other.a_page().await;
    for title in ["paris", "paris paris", "london"] {
        other.add(other.note(page, title)).await;
    }
    assert_eq!(other.list(&search("paris")).await.expect("a list").total, 2);
    assert_eq!(other.list(&search("rome")).await.expect("a list").total, 0);
    assert_eq!(scene.list(&search("london")).await.expect("a list").total, 0);
    assert_eq!(scene.list(&search("paris")).await.expect("a list"), before);
    let nobody = scene.other_space("nobody");
    assert_eq!(nobody.list(&search("paris")).await.expect("a list").total, 0);
}

/// Every text is a valid query; a text without words finds nothing.
pub async fn punctuation_in_a_search_is_not_query_syntax(home: &dyn Home) {
    let (scene, _) = notes(home, &["a \"flight\" and title near"]).await;
    for text in [
        "\"flight",
        "flight*",
        "-flight",
        "title:flight",
        "NEAR(flight)",
        "flight AND",
        "(flight",
        "^flight",
        "{a}: flight",
    ] {
        assert_eq!(scene.list(&search(text)).await.expect(text).total, 1, "{text}");
    }
    for text in ["", " ", "*", "\"\"", "- ' +", "\u{0}"] {
        let answer = scene.list(&search(text)).await.expect(text);
        assert_eq!((answer.total, answer.next), (0, None), "{text}");
    }
    let long = "flight ".repeat(10_000);
    assert_eq!(scene.list(&search(&long)).await.expect("a long text").total, 1);
    let many: String = (0..10_000).map(|number| format!("w{number} ")).collect();
    assert_eq!(scene.list(&search(&many)).await.expect("many words").total, 0);
}

/// Search is implemented twice: in the model and in the store's index. They agree on every mixture.
pub async fn store_searches_match_the_reference_model(home: &dyn Home) {
    const WORDS: [&str; 16] = [
        "flight",
        "Flights",
        "flying",
        "Zürich",
        "zurich",
        "東京都",
        "京都",
        "都",
        "readConfig",
        "read_config",
        "v2.1",
        "the",
        "🔥",
        "naïve",
        "'",
        "Ｅ",
    ];
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let mut state = 7_usize;
    let mut below = |end: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let mut some_words = |max_words: usize| {
        let count = below(max_words + 1);
        let words: Vec<_> = (0..count).map(|_| WORDS[below(WORDS.len())]).collect();
        words.join([" ", "", "-"][below(3)])
    };
    let mut changes = Vec::new();
    for _ in 0..80 {
        let mut new: NewEntry = scene.note(page, &some_words(2));
        new.fields.body = some_words(4);
        changes.push(Change::AddEntry(Box::new(new)));
    }
    for chunk in changes.chunks(20) {
        scene.commit(chunk.to_vec()).await;
    }
    let everything = EntryQuery {
        limit: 1_000,
        ..EntryQuery::default()
    };
    let all = scene.list(&everything).await.expect("a list").items;
    for number in 0..120 {
        let query = EntryQuery {
            text_match: [TextMatch::All, TextMatch::Any][number % 2],
            order: Order::Newest,
            limit: 1_000,
            ..search(&some_words(3))
        };
        let expected: Vec<&Entry> = all.iter().filter(|entry| query.matches(entry, scene.now())).collect();
        let answer = scene.list(&query).await.expect("a list");
        assert_eq!(answer.items.iter().collect::<Vec<_>>(), expected, "{query:?}");
        assert_eq!(answer.total, expected.len() as u64, "{query:?}");
    }
}
