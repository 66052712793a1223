//! Counts of entries that nobody reads for it.

use std::collections::HashMap;
use std::time::Duration;

use folio_memory::entry::Outcome;
use folio_memory::goals::{ACTION_PATH, GOAL_PATH, GoalNames, Linked, LinkedCounts};
use folio_memory::keeping::{ArchivedFor, ErasedFor};
use folio_memory::patterns::CHANNEL;
use folio_memory::{
    Change, Entry, EntryId, EntryKind, EntryQuery, Lifetime, Link, NewEntry, Order, PageId, Relation, Status, Timestamp,
};
use folio_store::LogParts;
use serde_json::{Map, Value, json};

use super::Home;
use super::scene::Scene;

const HOUR: Duration = Duration::from_secs(3_600);

/// A goal or a pending action with the key `key`.
async fn goal(scene: &Scene, page: PageId, kind: EntryKind, key: &Value) -> Entry {
    let path = match kind {
        EntryKind::PendingAction => ACTION_PATH,
        _ => GOAL_PATH,
    };
    let mut new = scene.entry(page, kind, "Move to the new office");
    new.fields.context = Some(json!({ path: key }));
    let id = scene.add(new).await;
    scene.read(id).await
}

/// A context with more values than have terms of their own, of which `value` at `path` is the last.
fn with_many_values(path: &str, value: &Value) -> Value {
    let mut context: Map<String, Value> = (0..70).map(|number| (format!("a{number}"), number.into())).collect();
    context.insert(path.to_owned(), value.clone());
    context.into()
}

/// What a store counts, as a map.
fn map_of(counts: &LinkedCounts) -> HashMap<Linked, u64> {
    let map: HashMap<_, _> = counts.iter().map(|(linked, count)| (linked.clone(), count)).collect();
    assert_eq!(map.len(), counts.iter().count(), "what is alike is counted together");
    map
}

/// The same from all `entries`, each of which is looked at.
fn expected(entries: &[Entry], goal: &GoalNames, evidence: &[EntryId], now: Timestamp) -> HashMap<Linked, u64> {
    let queries: Vec<EntryQuery> = goal.queries().collect();
    let is_named = |entry: &Entry| entry.kind != goal.kind && queries.iter().any(|query| query.matches(entry, now));
    let linked = entries
        .iter()
        .filter(|entry| is_named(entry) || evidence.contains(&entry.id));
    map_of(&LinkedCounts::of(linked, now))
}

/// Entries of many sorts that have `value` at `path`, each with a different mixture of what counts.
fn of_all_sorts(scene: &Scene, page: PageId, (path, value): (&str, &Value), other: EntryId) -> Vec<NewEntry> {
    let kinds = [EntryKind::Observation, EntryKind::Todo, EntryKind::Log, EntryKind::Goal];
    let mut all = Vec::new();
    for number in 0..160_u32 {
        let is = |every: u32, rest: u32| number % every == rest;
        let kind = if is(3, 0) {
            kinds[(number / 3 % 4) as usize]
        } else {
            EntryKind::Observation
        };
        let mut new = scene.entry(page, kind, &format!("number {number}"));
        let fields = &mut new.fields;
        let status = match number / 5 % 4 {
            0 => Status::Archived,
            1 if kind == EntryKind::Todo || kind == EntryKind::Goal => Status::Done,
            1 => Status::Resolved,
            _ => fields.status,
        };
        fields.status = status;
        fields.type_name = (kind == EntryKind::Observation)
            .then(|| ["contextual_insight", "pending_confirmation", "with\u{0}nul"][(number % 3) as usize].to_owned());
        // Other fields may look like those that are counted.
        fields.body = r#""archived_for":"age","outcome":"refuted" \u0000 "erased":"pii""#.repeat((number % 2) as usize);
        fields.metadata =
            is(4, 1).then(|| json!({"archived_for": "age", "source": {"channel": CHANNEL}, "nul": "\u{0}"}));
        fields.context = Some(match number % 8 {
            0 => json!({ path: "of another" }),
            1 => with_many_values(path, value),
            2 => json!({ "nested": { path: value } }),
            _ => json!({ path: value, "number": number }),
        });
        if status == Status::Archived {
            fields.archived_for = [
                None,
                Some(ArchivedFor::Age),
                Some(ArchivedFor::Resolved),
                Some(ArchivedFor::Quota),
            ][(number / 20 % 4) as usize];
            fields.erased = is(7, 0).then_some(ErasedFor::Expired);
        }
        fields.outcome = [None, None, Some(Outcome::Confirmed), Some(Outcome::Refuted)][(number / 2 % 4) as usize];
        fields.superseded_by = is(11, 5).then_some(other);
        if is(6, 4) {
            fields.lifetime = Lifetime::Until(scene.now().plus(HOUR * (number % 4 + 1)));
        }
        fields.pin_rank = is(12, 4).then_some(1);
        fields.source.channel =
            [None, Some(CHANNEL.to_owned()), Some("telegram".to_owned())][(number / 3 % 3) as usize].clone();
        all.push(new);
    }
    all
}

/// Whatever is linked, a store counts as if each entry was read, for every goal, at any time.
pub async fn linked_entries_are_counted_as_they_are_read_m7_11_3(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let nothing = EntryId::draw(&scene.ids, scene.now());
    let empty = GoalNames {
        id: nothing,
        kind: EntryKind::Goal,
        path: GOAL_PATH,
        keys: vec![json!("nobody")],
    };
    let other = scene.add(scene.note(page, "in place of others")).await;
    let goals = [
        goal(&scene, page, EntryKind::Goal, &json!("office")).await,
        goal(&scene, page, EntryKind::Goal, &json!(2026)).await,
        goal(&scene, page, EntryKind::PendingAction, &json!("pay\u{0}")).await,
    ];
    let names: Vec<GoalNames> = goals.iter().map(GoalNames::of).collect();
    let mut all = Vec::new();
    let mut evidence: Vec<Vec<EntryId>> = Vec::new();
    for goal in &names {
        for key in goal.keys.iter().take(2) {
            all.extend(of_all_sorts(&scene, page, (goal.path, key), other));
        }
        // Some are evidence besides, and some are nothing else.
        let mut ids: Vec<EntryId> = all.iter().rev().step_by(9).take(20).map(|new| new.id).collect();
        let only_evidence = of_all_sorts(&scene, page, ("other", &json!(1)), other);
        ids.extend(only_evidence.iter().step_by(7).map(|new| new.id));
        all.extend(only_evidence);
        evidence.push(ids);
    }
    let elsewhere = scene.other_space("elsewhere");
    let foreign = elsewhere.a_page().await;
    let of_others = of_all_sorts(&elsewhere, foreign, (GOAL_PATH, &json!("office")), nothing);
    elsewhere.commit(of_others.into_iter().map(added).collect()).await;
    let ids: Vec<EntryId> = all.iter().map(|new| new.id).collect();
    scene.commit(all.into_iter().map(added).collect()).await;
    let links = names.iter().zip(&evidence).flat_map(|(goal, ids)| {
        let evidence = ids.iter().map(|id| (*id, Relation::EvidenceFor));
        // Another relation does not count.
        let about = ids.iter().take(3).map(|id| (*id, Relation::DerivedFrom));
        evidence.chain(about).map(|(id, rel)| {
            Change::AddLink(Link {
                src: id.to_string(),
                rel,
                dst: goal.id.to_string(),
            })
        })
    });
    scene.commit(links.collect()).await;
    for _ in 0..5 {
        let mut entries = Vec::new();
        for id in &ids {
            entries.push(scene.read(*id).await);
        }
        let asked = names.iter().cloned().chain([empty.clone()]).collect();
        let counted = scene.store.linked_counts(&scene.space, asked, scene.now()).await;
        let counted = counted.expect("counts");
        assert_eq!(counted.len(), names.len() + 1);
        for ((goal, evidence), counts) in names.iter().zip(&evidence).zip(&counted) {
            assert!(counts.iter().count() > 20, "the sorts are many");
            assert_eq!(
                map_of(counts),
                expected(&entries, goal, evidence, scene.now()),
                "{goal:?}"
            );
        }
        assert!(counted[names.len()].is_empty());
        // Lifetimes end.
        scene.clock.advance(HOUR);
    }
    let unknown = scene.other_space("unknown");
    let counted = scene.store.linked_counts(&unknown.space, names, scene.now()).await;
    assert!(counted.expect("counts").iter().all(LinkedCounts::is_empty));
}

/// A goal may have a key that no index knows. The goals beside it are counted as ever, and each count is in its place.
pub async fn goals_whose_names_have_no_term_are_counted_m7_11_3(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let key = json!(["a", "list"]);
    let mut names = Vec::new();
    for key in [&json!("shop"), &key, &json!("office")] {
        names.push(GoalNames::of(&goal(&scene, page, EntryKind::Goal, key).await));
    }
    for value in [&key, &json!(["another", "list"]), &key, &json!("shop")] {
        let mut new = scene.note(page, "linked");
        new.fields.context = Some(json!({ GOAL_PATH: value }));
        scene.add(new).await;
    }
    let counted = scene.store.linked_counts(&scene.space, names, scene.now()).await;
    let counted = counted.expect("counts");
    let open: Vec<_> = counted.iter().map(|counts| counts.progress().open).collect();
    assert_eq!(open, [1, 2, 0]);
}

/// The parts of blocks are read without their texts and without a list that may be long.
pub async fn parts_of_log_blocks_are_those_of_their_entries(home: &dyn Home) {
    let scene = Scene::of(home);
    let (page, elsewhere) = (scene.a_page().await, scene.a_page().await);
    let parts = [
        None,
        Some(json!({"from": 1, "to": 3, "marks": ["a", "b\u{0}", "c"], "before": [[1, 2]]})),
        Some(json!({"from": 4, "to": 3, "marks": []})),
        Some(json!({"from": 5, "inner": {"marks": [1]}, "nul": "none"})),
        Some(json!({"marks": "no list"})),
    ];
    for (number, parts) in parts.iter().cycle().take(60).enumerate() {
        let kind = if number % 7 == 6 {
            EntryKind::Note
        } else {
            EntryKind::Log
        };
        let page = if number % 11 == 10 { elsewhere } else { page };
        let mut new = scene.entry(page, kind, &format!("block {number}"));
        new.fields.body = format!("{{\"parts\": {{\"marks\": []}}}} \u{0} {number}");
        new.fields.parts.clone_from(parts);
        if number % 13 == 12 {
            new.fields.status = Status::Archived;
        }
        if number % 9 == 8 {
            new.fields.lifetime = Lifetime::Until(scene.now().plus(HOUR));
            new.fields.pin_rank = (number % 2 == 0).then_some(1);
        }
        scene.add(new).await;
    }
    for _ in 0..2 {
        let query = EntryQuery {
            page: Some(page),
            kinds: vec![EntryKind::Log],
            order: Order::Oldest,
            limit: 1_000,
            ..EntryQuery::default()
        };
        let entries = scene.list(&query).await.expect("a list").items;
        let expected: Vec<_> = entries.into_iter().map(|entry| LogParts::of(entry, "marks")).collect();
        let found = scene.store.log_parts(&scene.space, page, "marks", scene.now()).await;
        let found = found.expect("parts");
        assert_eq!(found, expected);
        assert!(
            found
                .iter()
                .any(|block| block.parts["marks"] == 3 && block.parts["to"] == 3)
        );
        scene.clock.advance(HOUR);
    }
    let nowhere = PageId::derived(&["no page"]);
    for (scene, page) in [(&scene, nowhere), (&scene.other_space("unknown"), page)] {
        let found = scene.store.log_parts(&scene.space, page, "marks", scene.now()).await;
        assert_eq!(found.expect("parts"), []);
    }
}

fn added(new: NewEntry) -> Change {
    Change::AddEntry(Box::new(new))
}
