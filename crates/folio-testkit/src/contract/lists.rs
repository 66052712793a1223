//! Lists of entries: filters, totals, cursors.

use std::time::Duration;

use folio_memory::{
    Change, Confidence, Entry, EntryKind, EntryQuery, FieldChange, Lifetime, Order, Owner, PageId, Seq, Status, Tag,
    Timestamp, TypeRanks,
};
use serde_json::{Map, Value, json};

use super::Home;
use super::scene::{Scene, patch, tag};

/// An empty query returns the newest ten entries, and the total (M7.2.11).
pub async fn empty_query_returns_the_newest_ten_entries(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    for number in 1..=12 {
        scene.add(scene.note(page, &number.to_string())).await;
    }
    let answer = scene.list(&EntryQuery::default()).await.expect("a list");
    let titles: Vec<_> = answer.items.iter().map(|e| e.fields.title.as_str()).collect();
    assert_eq!(titles, ["12", "11", "10", "9", "8", "7", "6", "5", "4", "3"]);
    assert_eq!((answer.returned, answer.total, answer.as_of), (10, 12, Seq(13)));
    assert!(answer.next.is_some());
    let oldest = EntryQuery {
        order: Order::Oldest,
        limit: 2,
        ..EntryQuery::default()
    };
    assert_eq!(scene.titles(&oldest).await, ["1", "2"]);
}

/// Two pages that have one entry of each sort between them.
async fn varied(scene: &Scene) -> (PageId, PageId) {
    let (first, second) = (scene.a_page().await, scene.a_page().await);
    let mut alert = scene.entry(first, EntryKind::Observation, "alert");
    alert.fields.type_name = Some("risk_alert".to_owned());
    alert.fields.tags = vec![tag("x"), tag("y")];
    alert.fields.confidence = Some(Confidence::clamped(0.9).0);
    let mut hunch = scene.entry(first, EntryKind::Observation, "hunch");
    hunch.fields.type_name = Some("observation".to_owned());
    hunch.fields.tags = vec![tag("x")];
    hunch.fields.confidence = Some(Confidence::clamped(0.2).0);
    let mut task = scene.entry(second, EntryKind::Task, "task");
    task.fields.owner = Owner::user();
    task.fields.tags = vec![tag("z")];
    let mut done = scene.entry(second, EntryKind::Task, "done");
    done.fields.status = Status::Done;
    let mut archived = scene.note(second, "gone");
    archived.fields.status = Status::Archived;
    // A query for archived entries also returns superseded ones.
    archived.fields.superseded_by = Some(done.id);
    for new in [alert, hunch, task, done, archived] {
        scene.add(new).await;
    }
    (first, second)
}

/// Values within a field are alternatives; all fields must match (M7.2.12).
pub async fn query_filters_restrict_results_alone_and_combined(home: &dyn Home) {
    let scene = Scene::of(home);
    let (first, second) = varied(&scene).await;
    let none = EntryQuery::default;
    let cases: Vec<(&str, EntryQuery, &[&str])> = vec![
        ("nothing", none(), &["done", "task", "hunch", "alert"]),
        (
            "page",
            EntryQuery {
                page: Some(first),
                ..none()
            },
            &["hunch", "alert"],
        ),
        (
            "kinds",
            EntryQuery {
                kinds: vec![EntryKind::Task, EntryKind::Note],
                ..none()
            },
            &["done", "task"],
        ),
        (
            "type",
            EntryQuery {
                types: vec!["risk_alert".to_owned()],
                ..none()
            },
            &["alert"],
        ),
        (
            "status",
            EntryQuery {
                status: vec![Status::Archived, Status::Done],
                ..none()
            },
            &["gone", "done"],
        ),
        (
            "owner",
            EntryQuery {
                owner: vec![Owner::user()],
                ..none()
            },
            &["task"],
        ),
        (
            "all tags",
            EntryQuery {
                tags: vec![tag("x"), tag("y")],
                ..none()
            },
            &["alert"],
        ),
        (
            "any tag",
            EntryQuery {
                tags_any: vec![tag("y"), tag("z")],
                ..none()
            },
            &["task", "alert"],
        ),
        (
            "no tag",
            EntryQuery {
                tags_none: vec![tag("x")],
                ..none()
            },
            &["done", "task"],
        ),
        (
            "confidence",
            EntryQuery {
                min_confidence: Some(0.9),
                ..none()
            },
            &["alert"],
        ),
        (
            "since",
            EntryQuery {
                since: Some(Seq(4)),
                ..none()
            },
            &["done", "task"],
        ),
        (
            "together",
            EntryQuery {
                page: Some(second),
                kinds: vec![EntryKind::Task],
                status: vec![Status::Open],
                ..none()
            },
            &["task"],
        ),
        (
            "tags and kind",
            EntryQuery {
                tags: vec![tag("x")],
                kinds: vec![EntryKind::Task],
                ..none()
            },
            &[],
        ),
    ];
    for (name, query, expected) in cases {
        assert_eq!(scene.titles(&query).await, expected, "{name}");
        assert_eq!(
            scene.list(&query).await.expect("a list").total,
            expected.len() as u64,
            "{name}"
        );
    }
}

/// An unknown value is not an error (M7.2.13).
pub async fn unknown_filter_value_matches_nothing(home: &dyn Home) {
    let scene = Scene::of(home);
    varied(&scene).await;
    let none = EntryQuery::default;
    let queries = [
        EntryQuery {
            page: Some(PageId::derived(&["nowhere"])),
            ..none()
        },
        EntryQuery {
            types: vec!["no_such_type".to_owned()],
            ..none()
        },
        EntryQuery {
            owner: vec![Owner::parse("role:nobody").expect("an owner")],
            ..none()
        },
        EntryQuery {
            tags: vec![tag("x"), tag("nothing")],
            ..none()
        },
        EntryQuery {
            min_confidence: Some(f64::NAN),
            ..none()
        },
        EntryQuery {
            since: Some(Seq(u64::MAX)),
            ..none()
        },
        EntryQuery {
            context: vec![("a.b".to_owned(), json!(1))],
            ..none()
        },
    ];
    for query in queries {
        let answer = scene.list(&query).await.expect("a list");
        assert_eq!(
            (answer.total, answer.items.len(), answer.next),
            (0, 0, None),
            "{query:?}"
        );
    }
}

/// An entry expires exactly at its instant (M7.1.1).
pub async fn expired_and_superseded_entries_are_listed_only_on_request(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let mut brief = scene.note(page, "brief");
    brief.fields.lifetime = Lifetime::Until(scene.now().plus(Duration::from_secs(60)));
    scene.add(brief).await;
    let old = scene.add(scene.note(page, "old")).await;
    let new = scene.add(scene.note(page, "new")).await;
    scene
        .commit(vec![patch(old, vec![FieldChange::SupersededBy(Some(new))])])
        .await;
    let all = EntryQuery {
        include_expired: true,
        include_superseded: true,
        ..EntryQuery::default()
    };
    scene.clock.advance(Duration::from_nanos(59_999_999_999));
    assert_eq!(scene.titles(&EntryQuery::default()).await, ["new", "brief"]);
    scene.clock.advance(Duration::from_nanos(1));
    assert_eq!(scene.titles(&EntryQuery::default()).await, ["new"]);
    assert_eq!(scene.list(&EntryQuery::default()).await.expect("a list").total, 1);
    assert_eq!(scene.titles(&all).await, ["new", "old", "brief"]);
}

/// A pinned entry expires only once it is unpinned (M7.1.7).
pub async fn pinned_entry_is_listed_past_its_lifetime(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let mut pinned = scene.note(page, "pinned");
    pinned.fields.lifetime = Lifetime::Until(scene.now());
    pinned.fields.pin_rank = Some(0);
    let id = scene.add(pinned).await;
    assert_eq!(scene.titles(&EntryQuery::default()).await, ["pinned"]);
    scene.commit(vec![patch(id, vec![FieldChange::PinRank(None)])]).await;
    assert!(scene.titles(&EntryQuery::default()).await.is_empty());
}

/// Paths are dotted, and values are compared as JSON values (M7.2.18).
pub async fn context_filter_matches_values_by_dotted_path(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    for (title, context) in [
        ("a", json!({"goal": {"id": 7}})),
        ("b", json!({"goal": {"id": "7"}})),
        ("c", json!(7)),
        ("d", json!({"src/main.rs": 1, "files": {"b.rs": {"lines": 2}}})),
        ("e", json!({"src/main": {"rs": 1}})),
        ("f", json!({"": {"only": 3}})),
        ("g", json!({"n": 1, "many": [1, 2.5]})),
        ("h", json!({"n": 1.5})),
    ] {
        let mut note = scene.note(page, title);
        note.fields.context = Some(context);
        scene.add(note).await;
    }
    let of = |path: &str, value| EntryQuery {
        context: vec![(path.to_owned(), value)],
        limit: 1,
        ..EntryQuery::default()
    };
    assert_eq!(scene.titles(&of("goal.id", json!(7))).await, ["a"]);
    assert_eq!(scene.titles(&of("goal.id", json!("7"))).await, ["b"]);
    assert_eq!(scene.titles(&of("goal", json!({"id": 7}))).await, ["a"]);
    assert!(scene.titles(&of("goal.name", json!(null))).await.is_empty());
    // A dot that is part of a key is escaped with a backslash.
    assert_eq!(scene.titles(&of(r"src/main\.rs", json!(1))).await, ["d"]);
    assert_eq!(scene.titles(&of("src/main.rs", json!(1))).await, ["e"]);
    assert_eq!(scene.titles(&of(r"files.b\.rs.lines", json!(2))).await, ["d"]);
    assert_eq!(scene.titles(&of(r"files.b\.rs", json!({"lines": 2}))).await, ["d"]);
    // A key may be empty, which differs from a missing key.
    assert_eq!(scene.titles(&of(".only", json!(3))).await, ["f"]);
    assert!(scene.titles(&of("only", json!(3))).await.is_empty());
    // A whole number matches in whatever form it is written.
    for one in [json!(1), json!(1.0)] {
        assert_eq!(scene.titles(&of("n", one)).await, ["g"]);
    }
    assert_eq!(scene.titles(&of("many", json!([1.0, 2.5]))).await, ["g"]);
}

/// The maximum number of tags, and of values in one query, works; each may be given twice.
pub async fn query_with_maximum_tags_and_context_values_finds_its_entry(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let tags: Vec<Tag> = (0..Tag::MAX_PER_ENTRY).map(|n| tag(&format!("t{n}"))).collect();
    let values: Map<String, Value> = (0..60).map(|n| (format!("k{n}"), json!(n))).collect();
    for (title, missing) in [("all", None), ("no tag", Some("t31")), ("no value", Some("k59"))] {
        let mut note = scene.note(page, title);
        note.fields.tags = tags
            .iter()
            .filter(|tag| Some(tag.as_str()) != missing)
            .cloned()
            .collect();
        let values = values.iter().filter(|(key, _)| Some(key.as_str()) != missing);
        let values: Map<String, Value> = values.map(|(key, value)| (key.clone(), value.clone())).collect();
        note.fields.context = Some(values.into());
        scene.add(note).await;
    }
    let twice = |query: &mut EntryQuery| {
        query.tags.push(query.tags[0].clone());
        query.context.push(query.context[0].clone());
    };
    let mut query = EntryQuery {
        tags,
        context: values.into_iter().collect(),
        ..EntryQuery::default()
    };
    for text in [None, Some("all".to_owned())] {
        for (status, kinds) in [
            (&[][..], &[][..]),
            (&Status::ALL, &[]),
            (&Status::ALL, &[EntryKind::Note]),
        ] {
            query.text.clone_from(&text);
            query.status = status.to_vec();
            query.kinds = kinds.to_vec();
            assert_eq!(scene.titles(&query).await, ["all"], "{query:?}");
        }
        twice(&mut query);
    }
}

/// The filter is implemented twice: in the model and in the store. They agree on every mixture.
pub async fn store_lists_match_the_reference_model(home: &dyn Home) {
    let scene = Scene::of(home);
    let pages = [scene.a_page().await, scene.a_page().await];
    let mut random = Noise(7);
    let mut changes = Vec::new();
    for number in 0..120 {
        let kind = [EntryKind::Note, EntryKind::Task, EntryKind::Observation][random.below(3)];
        let mut new = scene.entry(pages[random.below(2)], kind, &number.to_string());
        new.fields.type_name = [None, Some("alert".to_owned()), Some("insight".to_owned())][random.below(3)].clone();
        new.fields.status = [Status::Active, Status::Resolved, Status::Archived, Status::Open][random.below(4)];
        new.fields.tags = ["a", "b", "c"]
            .iter()
            .filter(|_| random.below(2) == 0)
            .map(|text| tag(text))
            .collect();
        new.fields.owner = [Owner::agent(), Owner::user()][random.below(2)].clone();
        new.fields.pin_rank = [None, None, Some(1)][random.below(3)];
        new.fields.confidence = [None, Some(Confidence::clamped(0.3).0), Some(Confidence::DEFAULT)][random.below(3)];
        let expiry = scene.now().plus(Duration::from_secs(random.below(3) as u64));
        new.fields.lifetime = [Lifetime::Unlimited, Lifetime::Until(expiry)][random.below(2)];
        new.fields.superseded_by = [None, None, Some(new.id)][random.below(3)];
        new.fields.context = [None, Some(json!({"goal": "g"}))][random.below(2)].clone();
        changes.push(Change::AddEntry(Box::new(new)));
    }
    for chunk in changes.chunks(40) {
        scene.commit(chunk.to_vec()).await;
    }
    scene.clock.advance(Duration::from_secs(1));
    let everything = EntryQuery {
        status: Status::ALL.to_vec(),
        include_expired: true,
        include_superseded: true,
        limit: 1000,
        order: Order::Oldest,
        ..EntryQuery::default()
    };
    let all = scene.list(&everything).await.expect("a list").items;
    assert_eq!(all.len(), 120);
    for _ in 0..150 {
        let query = random_query(&mut random, &pages);
        assert_matches_model(&scene, &query, &all, scene.now()).await;
    }
}

/// A query as of a past commit gives the state of that time, whatever has changed since, and while it is read page by
/// page (M7.2.15, M7.2.16).
pub async fn query_as_of_a_past_commit_lists_the_past_state(home: &dyn Home) {
    let scene = Scene::of(home);
    let pages = [scene.a_page().await, scene.a_page().await];
    let mut random = Noise(11);
    for number in 0..30 {
        let kind = [EntryKind::Note, EntryKind::Task, EntryKind::Observation][random.below(3)];
        let mut new = scene.entry(pages[random.below(2)], kind, &number.to_string());
        new.fields.type_name =
            (kind == EntryKind::Observation).then(|| ["alert", "insight"][random.below(2)].to_owned());
        new.fields.confidence = [None, Some(Confidence::DEFAULT)][random.below(2)];
        new.fields.tags = [vec![], vec![tag("a")]][random.below(2)].clone();
        scene.add(new).await;
    }
    let everything = EntryQuery {
        status: Status::ALL.to_vec(),
        include_expired: true,
        include_superseded: true,
        limit: 1000,
        ..EntryQuery::default()
    };
    let mut past = Vec::new();
    for round in 0..40 {
        let all = scene.list(&everything).await.expect("a list");
        past.push((all.as_of, all.items));
        random_patch(&scene, &mut random, &past[0].1).await;
        let (as_of, all) = &past[random.below(past.len())];
        let query = EntryQuery {
            as_of: Some(*as_of),
            order: [Order::Newest, Order::Oldest, Order::Priority][random.below(3)],
            ..random_query(&mut random, &pages)
        };
        assert_matches_model(&scene, &query, all, scene.now()).await;
        // Page by page, with a change between any two pages.
        let mut query = EntryQuery {
            limit: 1 + u32::try_from(random.below(6)).expect("a small number"),
            as_of: Some(*as_of).filter(|_| round % 2 == 0),
            ..query
        };
        let now_known = scene.list(&everything).await.expect("a list").items;
        let all = if round % 2 == 0 { all } else { &now_known };
        let mut expected: Vec<&Entry> = all.iter().filter(|entry| query.matches(entry, scene.now())).collect();
        expected.sort_by(|a, b| query.compare(a, b));
        let expected: Vec<_> = expected.into_iter().map(|entry| entry.handle).collect();
        let mut listed = Vec::new();
        loop {
            let answer = scene.list(&query).await.expect("a list");
            assert_eq!(answer.total, expected.len() as u64, "{query:?}");
            listed.extend(answer.items.iter().map(|entry| entry.handle));
            query.cursor = answer.next;
            if query.cursor.is_none() {
                break;
            }
            random_patch(&scene, &mut random, &past[0].1).await;
        }
        assert_eq!(listed, expected, "{query:?}");
    }
}

/// This also holds if more has changed between two pages than is read at a time (M7.2.15).
pub async fn paged_list_keeps_its_state_after_many_changes_m7_2_15(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let mut ids = Vec::new();
    for part in 0..3 {
        let notes = (0..150).map(|number| {
            let mut note = scene.note(page, &format!("{part}/{number}"));
            note.fields.confidence = Some(Confidence::clamped(f64::from(number % 7) / 10.0).0);
            note
        });
        let notes: Vec<_> = notes.collect();
        ids.extend(notes.iter().map(|note| note.id));
        scene
            .commit(notes.into_iter().map(|note| Change::AddEntry(Box::new(note))).collect())
            .await;
    }
    let mut lists = Vec::new();
    for order in [Order::Newest, Order::Oldest, Order::Priority] {
        for kinds in [Vec::new(), vec![EntryKind::Note]] {
            let query = EntryQuery {
                order,
                kinds,
                limit: 70,
                ..EntryQuery::default()
            };
            let whole = EntryQuery {
                limit: 1000,
                ..query.clone()
            };
            let whole = scene.list(&whole).await.expect("a list").items;
            let first = scene.list(&query).await.expect("a list");
            lists.push((query, whole, first));
        }
    }
    // Changes most entries, so that changed and unchanged ones alternate.
    for chunk in ids.chunks(4) {
        let sure = vec![
            FieldChange::Confidence(Confidence::clamped(0.9).0),
            FieldChange::Title("x".to_owned()),
        ];
        let changes = chunk[1..].iter().map(|id| patch(*id, sure.clone())).collect();
        scene.commit(changes).await;
    }
    for (mut query, whole, first) in lists {
        let (mut got, mut next) = (first.items, first.next);
        while let Some(cursor) = next {
            query.cursor = Some(cursor);
            let answer = scene.list(&query).await.expect("a list");
            assert_eq!((answer.total, answer.as_of), (450, first.as_of), "{query:?}");
            got.extend(answer.items);
            next = answer.next;
        }
        assert_eq!(got, whole, "{query:?}");
    }
}

/// The query of a parallel turn that has seen everything up to a commit (M7.2.16).
pub async fn since_filter_returns_entries_added_or_changed_later(home: &dyn Home) {
    let scene = Scene::of(home);
    let (old, changed) = (scene.a_note("old").await, scene.a_note("changed").await);
    let since = Some(scene.head().await);
    scene.a_note("new").await;
    scene
        .commit(vec![patch(changed, vec![FieldChange::Owner(Owner::user())])])
        .await;
    scene
        .commit(vec![patch(old, vec![FieldChange::Status(Status::Active)])])
        .await;
    let query = EntryQuery {
        kinds: vec![EntryKind::Note],
        since,
        ..EntryQuery::default()
    };
    assert_eq!(
        scene.titles(&query).await,
        ["new", "changed"],
        "what is as it was is not news"
    );
}

/// Checks that the store's answer to `query` is what the model computes from `all`.
async fn assert_matches_model(scene: &Scene, query: &EntryQuery, all: &[Entry], now: Timestamp) {
    let mut expected: Vec<&Entry> = all.iter().filter(|entry| query.matches(entry, now)).collect();
    expected.sort_by(|a, b| query.compare(a, b));
    let answer = scene.list(query).await.expect("a list");
    assert_eq!(answer.total, expected.len() as u64, "{query:?}");
    assert_eq!(answer.items.iter().collect::<Vec<_>>(), expected, "{query:?}");
}

async fn random_patch(scene: &Scene, random: &mut Noise, entries: &[Entry]) {
    let entry = &entries[random.below(entries.len())];
    let knowledge = matches!(entry.kind, EntryKind::Note | EntryKind::Observation);
    let change = match random.below(5) {
        0 if knowledge => FieldChange::Status([Status::Active, Status::Resolved][random.below(2)]),
        0 => FieldChange::Status([Status::Open, Status::Done][random.below(2)]),
        1 => FieldChange::Owner([Owner::agent(), Owner::user()][random.below(2)].clone()),
        2 => FieldChange::Tags([vec![], vec![tag("a"), tag("b")]][random.below(2)].clone()),
        3 => FieldChange::Confidence(Confidence::clamped([0.1, 0.9][random.below(2)]).0),
        _ => FieldChange::Context([None, Some(json!({"goal": "g"}))][random.below(2)].clone()),
    };
    scene.commit(vec![patch(entry.id, vec![change])]).await;
}

fn random_query(random: &mut Noise, pages: &[PageId; 2]) -> EntryQuery {
    let tags = |random: &mut Noise, choices: usize| match random.below(choices) {
        0 => vec![tag("a")],
        1 => vec![tag("a"), tag("b")],
        _ => Vec::new(),
    };
    EntryQuery {
        page: [None, None, Some(pages[0])][random.below(3)],
        kinds: [
            vec![],
            vec![EntryKind::Task],
            vec![EntryKind::Observation],
            vec![EntryKind::Task, EntryKind::Note],
        ][random.below(4)]
        .clone(),
        types: [vec![], vec![], vec!["alert".to_owned()]][random.below(3)].clone(),
        types_none: [vec![], vec![], vec!["alert".to_owned()]][random.below(3)].clone(),
        status: [vec![], vec![Status::Active, Status::Archived], vec![Status::Open]][random.below(3)].clone(),
        owner: [vec![], vec![], vec![Owner::user()]][random.below(3)].clone(),
        tags: tags(random, 6),
        tags_any: tags(random, 6),
        tags_none: tags(random, 6),
        context: [vec![], vec![], vec![("goal".to_owned(), json!("g"))]][random.below(3)].clone(),
        pinned: [None, None, None, Some(true), Some(false)][random.below(5)],
        min_confidence: [None, None, Some(0.3), Some(0.4)][random.below(4)],
        since: [None, None, Some(Seq(3))][random.below(3)],
        include_expired: random.below(2) == 0,
        include_superseded: random.below(2) == 0,
        order: [Order::Newest, Order::Oldest, Order::Priority][random.below(3)],
        ranks: TypeRanks {
            known: [("alert".to_owned(), 0), ("insight".to_owned(), 7)].into(),
            other: 4,
        },
        limit: 1000,
        ..EntryQuery::default()
    }
}

/// A small pseudorandom generator, so that the mixture is the same in every run.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end
    }
}

/// Whatever is written meanwhile, an entry is in exactly one of two lists that are queried together.
pub async fn queries_asked_together_see_the_same_state(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let todo = scene.add(scene.entry(page, EntryKind::Todo, "mend the roof")).await;
    let states = [Status::Open, Status::InProgress];
    let write = async {
        for number in 0..40 {
            let status = FieldChange::Status(states[(number + 1) % 2]);
            scene.commit(vec![patch(todo, vec![status])]).await;
        }
    };
    let read = async {
        let queries = states.map(|status| EntryQuery {
            status: vec![status],
            ..EntryQuery::default()
        });
        for _ in 0..40 {
            let listing = scene.store.entries_of_each(&scene.space, queries.to_vec(), scene.now());
            let answers = listing.await.expect("lists");
            assert_eq!(answers[0].as_of, answers[1].as_of);
            assert_eq!(answers.iter().map(|answer| answer.total).sum::<u64>(), 1);
        }
    };
    tokio::join!(write, read);
}
