//! Patterns, facts and calibration (M7.9, M7.11.5, M7.11.6).

use std::collections::BTreeSet;
use std::sync::Arc;

use folio_memory::entry::{Outcome, Status};
use folio_memory::id::Ref;
use folio_memory::turn::{NewTurn, Urgency};
use folio_memory::{
    Change, Entry, EntryFields, EntryId, EntryKind, EntryQuery, FieldChange, NewEntry, Owner, Relation, Seq, Tag,
    ThreadKey, Trust, TurnId,
};
use folio_store::Store;
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{ForgetFilter, Guard, IngestContext, Write};
use folio_testkit::FaultyStore;
use serde_json::{Value, json};

use crate::scene::{Scene, person, tool};

fn burgundy() -> Value {
    json!({"type": "contextual_insight", "content": "User prefers Burgundy wines",
           "confidence": 0.9, "tags": ["wine", "preference"]})
}

async fn of_type(scene: &Scene, name: &str) -> Vec<Entry> {
    let query = EntryQuery {
        types: vec![name.to_owned()],
        ..EntryQuery::default()
    };
    scene.workspace.observations(query).await.unwrap().items
}

#[tokio::test]
async fn observation_repeated_in_three_turns_becomes_pattern_and_fact_m7_9() {
    let scene = Scene::new();
    let mut seen = Vec::new();
    for _ in 0..2 {
        seen.push(scene.turn_with("Which wine?", "wine_search", burgundy()).await.id);
    }
    assert!(
        of_type(&scene, "pattern_detected").await.is_empty(),
        "two are no pattern"
    );
    seen.push(scene.turn_with("Which wine?", "wine_search", burgundy()).await.id);
    let patterns = of_type(&scene, "pattern_detected").await;
    assert_eq!(patterns.len(), 1);
    let pattern = &patterns[0];
    assert_eq!(pattern.fields.body, "User prefers Burgundy wines");
    assert!(
        pattern.fields.lifetime.is_unlimited(),
        "what was learned does not expire by itself"
    );
    let from = |entry: &Entry, links: Vec<folio_memory::Link>| -> Vec<String> {
        let id = entry.id.to_string();
        let derived = links
            .into_iter()
            .filter(|link| link.src == id && link.rel == Relation::DerivedFrom);
        derived.map(|link| link.dst).collect()
    };
    let links = scene.workspace.links(&pattern.id.to_string()).await.unwrap();
    let mut members: Vec<_> = seen.iter().map(ToString::to_string).collect();
    members.sort();
    assert_eq!(from(pattern, links), members, "derived from all members");
    let facts = of_type(&scene, "learning").await;
    assert_eq!(facts.len(), 1, "three turns make a fact");
    let links = scene.workspace.links(&facts[0].id.to_string()).await.unwrap();
    assert_eq!(from(&facts[0], links), [pattern.id.to_string()]);
}

#[tokio::test]
async fn only_a_further_sighting_supersedes_the_pattern_m7_9() {
    let scene = Scene::new();
    for _ in 0..3 {
        scene.turn_with("Which wine?", "wine_search", burgundy()).await;
    }
    let first = of_type(&scene, "pattern_detected").await.remove(0);
    scene
        .turn_with("Weather?", "weather", json!({"content": "It rains in Paris"}))
        .await;
    assert_eq!(of_type(&scene, "pattern_detected").await[0].id, first.id, "nothing new");
    let turn = scene.begin("Which wine?").await;
    scene.notice("wine_search", turn.turn.begun.id, burgundy()).await;
    let ended = scene.end(&turn).await;
    let replaced = &ended.patterns[0];
    assert_eq!(
        (replaced.replaces.len(), replaced.replaces_facts.len()),
        (1, 1),
        "each once"
    );
    let live = of_type(&scene, "pattern_detected").await;
    assert_eq!(live.len(), 1);
    assert_eq!(scene.read(first.id).await.fields.superseded_by, Some(live[0].id));
    assert!(
        live[0].fields.confidence > first.fields.confidence,
        "seen more often, believed more"
    );
    assert_eq!(of_type(&scene, "learning").await.len(), 1);
}

#[tokio::test]
async fn turn_with_the_same_tags_but_another_text_writes_no_new_pattern_m7_9() {
    let scene = Scene::new();
    for _ in 0..3 {
        scene.turn_with("Which wine?", "wine_search", burgundy()).await;
    }
    let first = of_type(&scene, "pattern_detected").await.remove(0);
    let fact = of_type(&scene, "learning").await.remove(0);
    for content in ["Guests come on Friday", "No oak, please", "The cellar is at 12 degrees"] {
        let other = json!({"type": "contextual_insight", "content": content,
                           "confidence": 0.9, "tags": ["wine", "preference"]});
        scene.turn_with("What else?", "wine_search", other).await;
    }
    let live = of_type(&scene, "pattern_detected").await;
    assert_eq!((live.len(), live[0].id, live[0].version), (1, first.id, 1));
    assert_eq!(of_type(&scene, "learning").await[0].id, fact.id);
    scene.turn_with("Which wine?", "wine_search", burgundy()).await;
    let next = of_type(&scene, "pattern_detected").await.remove(0);
    assert_ne!(next.id, first.id, "a further sighting is news");
    assert_eq!(
        next.fields.metadata.unwrap()["of_turns"],
        7,
        "and the turns in between count"
    );
}

#[tokio::test]
async fn turn_end_supersedes_and_archives_a_resolved_pattern_m7_9() {
    let scene = Scene::new();
    for _ in 0..3 {
        scene.turn_with("Which wine?", "wine_search", burgundy()).await;
    }
    let first = of_type(&scene, "pattern_detected").await.remove(0);
    let turn = scene.begin("Which wine?").await;
    scene.notice("wine_search", turn.turn.begun.id, burgundy()).await;
    let resolve = Change::PatchEntry {
        entry: first.id,
        fields: vec![FieldChange::Status(Status::Resolved)],
        expected_version: None,
        base_version: None,
    };
    let write = Write::of(vec![resolve]);
    scene.workspace.record(&person(), write).await.unwrap();
    scene.end(&turn).await;
    let old = scene.read(first.id).await.fields;
    let live = of_type(&scene, "pattern_detected").await;
    assert_eq!(
        (old.status, old.superseded_by),
        (Status::Archived, Some(live[0].id)),
        "one after the other"
    );
}

#[tokio::test]
async fn pattern_and_fact_of_withdrawn_observations_are_archived_m7_9() {
    for way in ["refuted", "superseded", "forgotten", "expired"] {
        let scene = Scene::new();
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(scene.turn_with("Which wine?", "wine_search", burgundy()).await.id);
        }
        assert_eq!(scene.workspace.patterns(10).await.unwrap().items.len(), 2);
        let better = scene
            .turn_with(
                "Which wine?",
                "wine_search",
                json!({"content": "Drinks no wine at all"}),
            )
            .await;
        let workspace = &scene.workspace;
        match way {
            "forgotten" => {
                for id in &seen[..2] {
                    let filter = ForgetFilter {
                        entries: vec![Ref::Id(*id)],
                        ..ForgetFilter::default()
                    };
                    workspace.forget(&person(), &filter, "asked to").await.unwrap();
                }
            }
            // What is there no more because of its age still counts.
            "expired" => {
                for _ in 0..6 {
                    scene.clock.advance(std::time::Duration::from_secs(80 * 24 * 3_600));
                    workspace.tidy(workspace.now()).await.unwrap();
                }
            }
            _ => {
                let fields = |is_refuted| match is_refuted {
                    true => vec![
                        FieldChange::Status(Status::Resolved),
                        FieldChange::Outcome(Some(Outcome::Refuted)),
                    ],
                    false => vec![FieldChange::SupersededBy(Some(better.id))],
                };
                let changes = seen.iter().map(|id| Change::PatchEntry {
                    entry: *id,
                    fields: fields(way == "refuted"),
                    expected_version: None,
                    base_version: None,
                });
                workspace.record(&person(), Write::of(changes.collect())).await.unwrap();
            }
        }
        workspace.find_patterns(&person()).await.unwrap();
        let left = workspace.patterns(10).await.unwrap().items.len();
        assert_eq!(left, if way == "expired" { 2 } else { 0 }, "{way}");
    }
}

#[tokio::test]
async fn archived_members_still_count_towards_a_pattern_m7_9() {
    let scene = Scene::new();
    for _ in 0..3 {
        let entry = scene.turn_with("Which wine?", "wine_search", burgundy()).await;
        scene
            .workspace
            .archive(&person(), Ref::Id(entry.id), None)
            .await
            .unwrap();
    }
    // Archiving is another version, but not another member.
    let found = scene.workspace.find_patterns(&person()).await.unwrap();
    assert_eq!((found.len(), found[0].is_news), (1, false));
    assert_eq!(of_type(&scene, "pattern_detected").await.len(), 1);
}

#[tokio::test]
async fn end_of_a_turn_reads_only_the_newest_of_groups_with_news_m7_9() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let scene = Scene::on(SqliteStore::open(&OpenOptions::at(&path)).unwrap());
    for _ in 0..2 {
        scene.turn_with("Which wine?", "wine_search", burgundy()).await;
    }
    // A long life of the space: other observations, and earlier ones with the same tags.
    let (page, _) = scene.workspace.scratch_page().await.unwrap();
    let archived = |number: usize, tags: [&str; 2]| {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::User);
        fields.type_name = Some("contextual_insight".to_owned());
        fields.tags = tags.map(|tag| Tag::parse(tag).unwrap()).to_vec();
        fields.body = format!("earlier {number}");
        fields.status = Status::Archived;
        let id = EntryId::derived(&[tags[0], &number.to_string()]);
        let kind = EntryKind::Observation;
        Change::AddEntry(Box::new(NewEntry { id, page, kind, fields }))
    };
    let others = (0..700).map(|number| archived(number, ["roof", "house"]));
    let same = (0..700).map(|number| archived(number, ["wine", "preference"]));
    let write = Write::of(same.chain(others).collect());
    scene.workspace.record(&person(), write).await.unwrap();
    let turn = scene.begin("What else?").await;
    scene.end(&turn).await;
    // The first two sightings have 1 and 2, the others of their group the numbers after.
    let file = rusqlite::Connection::open(&path).unwrap();
    let sql = "UPDATE entry SET fields = 'torn' WHERE place & 1099511627775 BETWEEN 3 AND 190
               OR place & 1099511627775 > 702";
    assert_eq!(file.execute(sql, []).unwrap(), 188 + 700);
    scene.turn_with("Which wine?", "wine_search", burgundy()).await;
    assert!(
        of_type(&scene, "pattern_detected").await.is_empty(),
        "two of them are too long ago"
    );
    for _ in 0..2 {
        scene.turn_with("Which wine?", "wine_search", burgundy()).await;
    }
    assert_eq!(of_type(&scene, "pattern_detected").await.len(), 1);
}

#[tokio::test]
async fn why_names_decisions_of_all_turns() {
    let scene = Scene::new();
    let alert = json!({"type": "risk_alert", "content": "The card is stolen", "tags": ["card"]});
    let turn = scene.begin("pay by card").await;
    let entry = scene.notice("card_monitor", turn.turn.begun.id, alert).await;
    scene.begin("pay by card").await;
    let (ada, alarm) = (person(), Ref::Id(entry.id));
    scene.workspace.archive(&ada, alarm, None).await.unwrap();
    let begun: Vec<Change> = (0..1_001_u32)
        .map(|number| {
            Change::BeginTurn(Box::new(NewTurn {
                id: TurnId::derived(&[&number.to_string()]),
                thread: ThreadKey::main(),
                input: String::new(),
                run: None,
                background: false,
                as_of: Seq(0),
                decisions: Vec::new(),
            }))
        })
        .collect();
    scene.workspace.record(&person(), Write::of(begun)).await.unwrap();
    let why = scene.workspace.why(Ref::Id(entry.id), None).await.unwrap();
    assert!(!why.is_empty() && why.iter().all(|(turn, _)| turn.handle.0 == 2));
}

#[tokio::test]
async fn refuted_alerts_lower_the_urgency_from_that_tool_m7_11_6() {
    let scene = Scene::new();
    let alert = |n: usize| json!({"type": "risk_alert", "content": format!("Alarm number {n}"), "confidence": 0.95, "tags": ["payment"]});
    for n in 0..5 {
        let entry = scene.turn_with("x", "card_monitor", alert(n)).await;
        let change = Change::PatchEntry {
            entry: entry.id,
            fields: vec![
                FieldChange::Status(Status::Resolved),
                FieldChange::Outcome(Some(Outcome::Refuted)),
            ],
            expected_version: None,
            base_version: None,
        };
        scene
            .workspace
            .record(&person(), Write::of(vec![change]))
            .await
            .unwrap();
    }
    let rows = scene.workspace.calibration().await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].tool.as_deref(), rows[0].confirmed, rows[0].refuted),
        (Some("card_monitor"), 0, 5)
    );
    assert!((rows[0].brier - 0.9025).abs() < 1e-9, "{}", rows[0].brier);
    let entry = scene.turn_with("x", "card_monitor", alert(9)).await;
    let next = scene.begin("pay the invoice").await;
    assert_eq!(
        next.assessment.urgency,
        Urgency::High,
        "not critical: it was wrong five times"
    );
    let stated = scene.read(entry.id).await.fields.confidence.unwrap().value();
    assert!((stated - 0.95).abs() < f64::EPSILON, "what was stated stays");
}

#[tokio::test]
async fn confidence_stated_later_does_not_move_calibration_m7_11_6() {
    let scene = Scene::new();
    let alert = json!({"type": "risk_alert", "content": "The seal leaks", "confidence": 0.9});
    let entry = scene.turn_with("x", "card_monitor", alert).await;
    let entry = Ref::Id(entry.id);
    let patch = serde_json::from_value(json!({"confidence": 0.1})).unwrap();
    scene
        .workspace
        .update_observation(&person(), entry, patch, None)
        .await
        .unwrap();
    scene
        .workspace
        .resolve_as(&person(), entry, Outcome::Refuted, Guard::default())
        .await
        .unwrap();
    for _ in 0..2 {
        let rows = scene.workspace.calibration().await.unwrap();
        assert!((rows[0].mean_stated - 0.9).abs() < 1e-9, "{rows:?}");
        assert!((rows[0].brier - 0.81).abs() < 1e-9, "{rows:?}");
    }
}

#[tokio::test]
async fn observations_that_came_in_one_commit_are_calibrated_by_reading_it_once_m7_11_6() {
    let store = Arc::new(FaultyStore::new(SqliteStore::open(&OpenOptions::in_memory()).unwrap()));
    let scene = Scene::on(Arc::clone(&store) as Arc<dyn Store>);
    let space = &scene.workspace;
    let advice =
        |n: usize| json!({"type": "action_suggestion", "content": format!("Advice number {n}"), "confidence": 0.9});
    let advice: Vec<Value> = (0..5).map(advice).collect();
    let answer = json!({"request_id": "r", "status": "ok", "outputs": {}, "observations": advice});
    let answer = serde_json::from_value(answer).unwrap();
    let ingested = space
        .ingest(&tool("card_monitor"), &answer, &IngestContext::default())
        .await;
    assert_eq!(ingested.rejected, []);
    let commits: BTreeSet<Seq> = ingested.stored.iter().map(|entry| entry.created_seq).collect();
    assert_eq!((ingested.stored.len(), commits.len()), (5, 1));
    for entry in ingested.stored {
        let entry = Ref::Id(entry.id);
        let patch = serde_json::from_value(json!({"confidence": 0.1})).unwrap();
        space.update_observation(&person(), entry, patch, None).await.unwrap();
        space
            .resolve_as(&person(), entry, Outcome::Refuted, Guard::default())
            .await
            .unwrap();
    }
    for (read, why) in [(1, "the commit with all of them"), (0, "what is known")] {
        let before = store.rows_read();
        let rows = space.calibration().await.unwrap();
        assert_eq!(store.rows_read() - before, read, "{why}");
        assert_eq!(rows[0].refuted, 5);
        assert!((rows[0].mean_stated - 0.9).abs() < 1e-9, "{rows:?}");
    }
}
