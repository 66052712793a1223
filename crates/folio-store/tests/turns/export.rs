//! What a turn leaves behind (M7.6.47, M7.11.5).

use std::time::Duration;

use folio_memory::ThreadKey;
use folio_memory::id::Ref;
use folio_memory::observation::ObservationPatch;
use folio_memory::turn::export::Export;
use folio_store::workspace::{EpisodeQuery, Exported, ForgetFilter};
use serde_json::{from_value, json};

use crate::scene::{Scene, person};

#[tokio::test]
async fn export_lists_touched_versions_and_a_manifest_of_all_entries_m7_6_47() {
    let scene = Scene::new();
    let before = scene.turn_with("one", "t", json!({"content": "before"})).await;
    let untouched = scene.turn_with("two", "t", json!({"content": "untouched"})).await;
    let turn = scene.begin("three").await;
    let added = scene.notice("t", turn.turn.begun.id, json!({"content": "added"})).await;
    let patch: ObservationPatch = from_value(json!({"content": "changed"})).unwrap();
    let actor = person().in_turn(turn.turn.begun.id);
    scene
        .workspace
        .update_observation(&actor, Ref::Id(before.id), patch, None)
        .await
        .unwrap();
    // Somebody else does something meanwhile; that is not the turn's.
    let other = scene.turn_with("elsewhere", "t", json!({"content": "elsewhere"})).await;
    let export = scene.end(&turn).await.export;
    let touched: Vec<_> = export
        .touched
        .iter()
        .map(|touched| (touched.listed.handle, touched.old_version, touched.listed.version))
        .collect();
    assert_eq!(touched, [(before.handle, Some(1), 2), (added.handle, None, 1)]);
    assert_eq!(export.entries(), 4);
    let all = scene.workspace.exported(&export, true).await.unwrap();
    let manifest = scene.workspace.manifest(&export).await.unwrap();
    let without_entries: Vec<_> = all
        .iter()
        .map(|one| Exported {
            entry: None,
            ..one.clone()
        })
        .collect();
    assert_eq!(manifest, without_entries);
    let texts: Vec<_> = all
        .iter()
        .map(|one| one.entry.as_ref().unwrap().fields.body.as_str())
        .collect();
    assert_eq!(texts, ["changed", "untouched", "added", "elsewhere"]);
    assert!(
        all.iter()
            .all(|one| one.touched.is_some() == [before.id, added.id].contains(&one.listed.id))
    );
    assert_ne!(untouched.id, other.id);
    // It is kept, and reads back as it was made.
    let kept = scene
        .workspace
        .turn_export(Ref::Handle(turn.turn.handle))
        .await
        .unwrap();
    assert_eq!(kept, export);
    assert_eq!(Export::parse(&kept.to_jsonl()).unwrap(), kept);
}

#[tokio::test]
async fn export_shows_entries_as_they_were_at_turn_end_m7_6_47() {
    let scene = Scene::new();
    let turn = scene.begin("one").await;
    let entry = scene.notice("t", turn.turn.begun.id, json!({"content": "then"})).await;
    let export = scene.end(&turn).await.export;
    let patch: ObservationPatch = from_value(json!({"content": "now"})).unwrap();
    scene
        .workspace
        .update_observation(&person(), Ref::Id(entry.id), patch, None)
        .await
        .unwrap();
    let then = scene.workspace.exported(&export, false).await.unwrap();
    assert_eq!(then[0].entry.as_ref().unwrap().fields.body, "then");
}

#[tokio::test]
async fn forgotten_entry_stays_in_export_manifests_without_content_m7_6_50() {
    let scene = Scene::new();
    let turn = scene.begin("x").await;
    let entry = scene
        .notice(
            "t",
            turn.turn.begun.id,
            json!({"content": "Ada lives in Paris at last"}),
        )
        .await;
    let export = scene.end(&turn).await.export;
    let filter = ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..ForgetFilter::default()
    };
    let forgotten = scene.workspace.forget(&person(), &filter, "she asked").await.unwrap();
    assert!(forgotten.residue.found.is_empty(), "{:?}", forgotten.residue);
    let then = scene.workspace.exported(&export, true).await.unwrap();
    assert_eq!(
        (then.len(), then[0].entry.is_none(), then[0].listed.id),
        (1, true, entry.id)
    );
    // The next export lists it as it is now.
    let next = scene.begin("y").await;
    let next = scene.end(&next).await.export;
    let now = scene.workspace.exported(&next, true).await.unwrap();
    assert_eq!(now[0].listed.version, 2);
    assert_eq!(now[0].entry.as_ref().unwrap().fields.body, "");
}

#[tokio::test]
async fn unchanged_manifest_part_is_shared_between_exports_m7_6_47() {
    let scene = Scene::new();
    let turn = scene.begin("many").await;
    for n in 0..600 {
        scene
            .notice("t", turn.turn.begun.id, json!({"content": format!("number {n}")}))
            .await;
    }
    let first = scene.end(&turn).await.export;
    assert_eq!((first.parts.len(), first.entries()), (2, 600));
    let turn = scene.begin("one more").await;
    scene
        .notice("t", turn.turn.begun.id, json!({"content": "one more"}))
        .await;
    let second = scene.end(&turn).await.export;
    assert_eq!(second.parts[0], first.parts[0], "the same body");
    assert_eq!(
        (second.parts[1].entries, second.entries()),
        (first.parts[1].entries + 1, 601)
    );
    let all = scene.workspace.exported(&second, true).await.unwrap();
    assert!(all.iter().all(|one| one.entry.is_some()));
}

#[tokio::test]
async fn search_of_episodes_says_where_it_ended_m7_11_5() {
    let scene = Scene::new();
    for n in 0..1_001 {
        let age = ["ancient", "recent", "latest"][usize::from(n > 0) + usize::from(n == 1_000)];
        let turn = scene.begin(&format!("{age} matter")).await;
        scene.end(&turn).await;
    }
    let ask = async |text: &str, limit: usize| {
        let query = EpisodeQuery {
            text: Some(text.to_owned()),
            limit,
            ..EpisodeQuery::default()
        };
        let episodes = scene.workspace.episodes(&query).await.unwrap();
        (episodes.found.len(), episodes.searched_from.is_some())
    };
    assert_eq!(ask("ancient", 10).await, (0, true), "the oldest turn was not searched");
    assert_eq!(ask("matter", 10).await, (10, false), "what is left out is older");
    assert_eq!(ask("latest", 10).await, (1, true));
}

#[tokio::test]
async fn episodes_are_found_by_thread_time_and_text_m7_11_5() {
    let scene = Scene::new();
    scene
        .turn_with(
            "Which wine?",
            "wine_search",
            json!({"content": "User prefers Burgundy", "tags": ["wine"]}),
        )
        .await;
    let noon = scene.workspace.now();
    scene.clock.advance(Duration::from_secs(3600));
    let elsewhere = scene.begin_in("other", "Book a train").await;
    scene.end(&elsewhere).await;
    let ask = async |query: EpisodeQuery| -> Vec<String> {
        let found = scene.workspace.episodes(&query).await.unwrap().found;
        found.into_iter().map(|episode| episode.turn.begun.input).collect()
    };
    let any = EpisodeQuery::default;
    assert_eq!(ask(any()).await, ["Book a train", "Which wine?"]);
    assert_eq!(
        ask(EpisodeQuery {
            thread: Some(ThreadKey::main()),
            ..any()
        })
        .await,
        ["Which wine?"]
    );
    assert_eq!(
        ask(EpisodeQuery {
            from: Some(noon.plus(Duration::from_secs(1))),
            ..any()
        })
        .await,
        ["Book a train"]
    );
    assert_eq!(
        ask(EpisodeQuery {
            text: Some("burgundy".to_owned()),
            ..any()
        })
        .await,
        ["Which wine?"],
        "what it touched"
    );
    assert_eq!(
        ask(EpisodeQuery {
            text: Some("trains".to_owned()),
            ..any()
        })
        .await,
        ["Book a train"],
        "its input"
    );
    assert!(
        ask(EpisodeQuery {
            text: Some("beer".to_owned()),
            ..any()
        })
        .await
        .is_empty()
    );
}

#[tokio::test]
async fn concurrent_turns_each_export_all_entries_at_their_end_m7_6_47() {
    let scene = Scene::new();
    let turns = [scene.begin("a").await, scene.begin("b").await, scene.begin("c").await];
    let [first, second, third] = &turns;
    scene.notice("t", first.turn.begun.id, json!({"content": "x"})).await;
    let listed = async |export: &Export| -> (usize, Vec<String>) {
        let all = scene.workspace.exported(export, true).await.unwrap();
        let texts = all.into_iter().map(|one| one.entry.unwrap().fields.body);
        (export.touched.len(), texts.collect())
    };
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let ended = scene.end(first).await.export;
    assert_eq!(listed(&ended).await, (1, texts(&["x"])));
    let ended = scene.end(second).await.export;
    assert_eq!(listed(&ended).await, (0, texts(&["x"])));
    // Nothing was noticed since these began: what the last export said of all is known.
    let [quiet, busy] = [scene.begin("d").await, scene.begin("e").await];
    assert_eq!(scene.end(&quiet).await.export.parts, ended.parts);
    scene.notice("t", busy.turn.begun.id, json!({"content": "y"})).await;
    let ended = scene.end(&busy).await.export;
    assert_eq!(listed(&ended).await, (1, texts(&["x", "y"])));
    let ended = scene.end(third).await.export;
    assert_eq!(listed(&ended).await, (0, texts(&["x", "y"])));
}

#[tokio::test]
async fn forgotten_text_that_a_turn_repeats_is_reported_with_the_turn_m7_6_50() {
    let scene = Scene::new();
    let text = "Call Eleonora of Winterbourne";
    let entry = scene.turn_with(text, "scan", json!({"content": text})).await;
    let filter = ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..ForgetFilter::default()
    };
    let forgotten = scene
        .workspace
        .forget(&person(), &filter, "she asked for it")
        .await
        .unwrap();
    let found = forgotten.residue.found;
    assert!(found.contains(&"turn t1".to_owned()), "{found:?}");
}
