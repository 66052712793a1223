//! The entries that a turn touched are found without reading the histories of all entries (M7.6.47).

use std::sync::Arc;

use folio_memory::id::Ref;
use folio_memory::{Actor, Change, Entry, EntryId, EntryKind, EntryQuery, FieldChange, Seq, TurnId};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::Write;
use folio_testkit::FaultyStore;
use proptest::prelude::*;
use serde_json::json;

use crate::scene::{Scene, person};

fn counted() -> (Arc<FaultyStore>, Scene) {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let store = Arc::new(FaultyStore::new(store));
    (Arc::clone(&store), Scene::on(store))
}

async fn titled(scene: &Scene, actor: &Actor, changes: &[(EntryId, u8)]) {
    let changes = changes.iter().map(|(entry, title)| Change::PatchEntry {
        entry: *entry,
        fields: vec![FieldChange::Title(format!("title {title}"))],
        expected_version: None,
        base_version: None,
    });
    scene
        .workspace
        .record(actor, Write::of(changes.collect()))
        .await
        .unwrap();
}

/// The entries that `turn` touched, and the version that it found, from the histories of all entries.
async fn by_histories(scene: &Scene, turn: TurnId, as_of: Seq) -> Vec<(EntryId, Option<u32>)> {
    let all = EntryQuery {
        kinds: vec![EntryKind::Observation],
        include_expired: true,
        include_superseded: true,
        order: folio_memory::Order::Oldest,
        limit: 1_000,
        ..EntryQuery::default()
    };
    let mut touched = Vec::new();
    for entry in scene.workspace.observations(all).await.unwrap().items {
        let history = scene.workspace.history(Ref::Id(entry.id)).await.unwrap();
        let first = history
            .into_iter()
            .find(|revision| revision.seq <= as_of && revision.actor.turn == Some(turn));
        touched.extend(first.map(|first| (entry.id, (first.version > 1).then(|| first.version - 1))));
    }
    touched
}

#[tokio::test]
async fn ending_a_turn_reads_no_history_of_untouched_entries_m7_6_47() {
    let (store, scene) = counted();
    let mut entries: Vec<Entry> = Vec::new();
    for n in 0..300 {
        let before = scene.begin("before").await.turn.begun.id;
        entries.push(
            scene
                .notice("t", before, json!({"content": format!("number {n}")}))
                .await,
        );
    }
    let turn = scene.begin("now").await;
    titled(&scene, &person().in_turn(turn.turn.begun.id), &[(entries[7].id, 1)]).await;
    let asked = store.histories();
    let export = scene.end(&turn).await.export;
    assert_eq!((export.touched.len(), export.entries()), (1, 300));
    assert_eq!(export.touched[0].old_version, Some(1));
    assert!(store.histories() - asked <= 1, "{}", store.histories() - asked);
    // A commit that changes many is read once, and not once for each of them.
    let turn = scene.begin("many").await;
    let actor = person().in_turn(turn.turn.begun.id);
    let all: Vec<_> = entries.iter().map(|entry| (entry.id, 2)).collect();
    titled(&scene, &actor, &all).await;
    let asked = store.histories();
    let export = scene.end(&turn).await.export;
    let found: Vec<_> = export.touched.iter().map(|touched| touched.old_version).collect();
    let expected: Vec<_> = (0..300).map(|n| Some(if n == 7 { 2 } else { 1 })).collect();
    assert_eq!(found, expected);
    assert_eq!(store.histories(), asked);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Who does what to which entry: the turn, another turn beside it, or none, and whether that is in one commit with
    /// the next operation.
    #[test]
    fn touched_entries_from_the_log_match_entry_histories_m7_6_47(
        acts in proptest::collection::vec((0..3_usize, 0..12_usize, 0..3_u8, any::<bool>()), 0..40),
        quiet in prop_oneof![Just(0), Just(250)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_, scene) = counted();
            let other = scene.begin("other").await.turn.begun.id;
            let mut entries = Vec::new();
            for n in 0..6 {
                entries.push(scene.notice("t", other, json!({"content": format!("number {n}")})).await.id);
            }
            titled(&scene, &person(), &[(entries[0], 1), (entries[1], 1)]).await;
            let turn = scene.begin("now").await;
            // Commits in which no entry changes: then the histories of the few are what is read.
            for _ in 0..quiet {
                scene.workspace.record(&person(), Write::of(Vec::new())).await.unwrap();
            }
            let actors = [person().in_turn(turn.turn.begun.id), person().in_turn(other), person()];
            let mut together: Vec<(EntryId, u8)> = Vec::new();
            for (who, which, title, goes_on) in acts {
                match entries.get(which) {
                    Some(entry) => together.push((*entry, title)),
                    None => {
                        let turn = actors[who].turn.unwrap_or(other);
                        let content = json!({"content": format!("number {which}")});
                        entries.push(scene.notice("t", turn, content).await.id);
                    }
                }
                if !goes_on && !together.is_empty() {
                    titled(&scene, &actors[who], &std::mem::take(&mut together)).await;
                }
            }
            let export = scene.end(&turn).await.export;
            let mut found: Vec<_> = export.touched.iter().map(|one| (one.listed.id, one.old_version)).collect();
            let mut expected = by_histories(&scene, turn.turn.begun.id, export.as_of).await;
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
            Ok(())
        })?;
    }
}
