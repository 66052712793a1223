//! What tools write on the scratch page: the scenarios, edge cases, examples and errors of seed 002 that concern
//! tools.

use std::collections::BTreeSet;
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::{EntryQuery, Trust};
use serde_json::{Value, json};

use crate::house::{House, answer, codes, contents, tags, turn};

#[tokio::test]
async fn api_contract_example_answer_is_ingested_without_warnings() {
    let house = House::new();
    let response = json!({
        "request_id": "req_20251105_001",
        "status": "ok",
        "outputs": {"forecast": {"location": "Paris", "temperature": 15, "condition": "cloudy"}},
        "observations": [
            {"type": "contextual_insight", "content": "Weather API returned data in 234ms", "confidence": 0.95,
             "tags": ["performance", "weather_api"], "ttl_minutes": 1440},
            {"type": "contextual_insight", "content": "Paris weather is typical for November", "confidence": 0.85,
             "tags": ["weather", "seasonal"], "ttl_minutes": 10080}
        ],
        "memory_writes": [],
        "scratch_page_writes": [
            {"type": "contextual_insight", "content": "User interested in Paris weather", "confidence": 0.9,
             "tags": ["user_interest", "weather"], "ttl_minutes": 2880}
        ]
    });
    let ingested = house.ingest_of("weather", turn(1), response).await;
    assert_eq!((ingested.rejected.len(), ingested.warnings.len()), (0, 0));
    let channels: Vec<_> = ingested
        .stored
        .iter()
        .map(|entry| entry.fields.source.channel.as_deref())
        .collect();
    assert_eq!(
        channels,
        [Some("observations"), Some("observations"), Some("scratch_page_writes")]
    );
    assert_eq!(house.list(tags(&["weather"])).await.len(), 2);
}

#[tokio::test]
async fn scenario_1_observation_is_stored_with_every_field() {
    let house = House::new();
    let now = house.space.now();
    let item = json!({"type": "contextual_insight", "content": "User prefers Burgundy wines", "confidence": 0.95,
                      "tags": ["wine", "preference"]});
    let one = house.observed(json!([item])).await.remove(0);
    let other = house.ingest_in(turn(2), answer(json!([item]))).await.stored.remove(0);
    assert_ne!(one.id, other.id, "every observation has an id of its own");
    assert!(one.id.to_string().starts_with("obs_"));
    let read = house.space.entry(Ref::Id(one.id)).await.unwrap();
    assert_eq!(read, one, "what was answered is what is there");
    let fields = &read.fields;
    assert_eq!(fields.type_name.as_deref(), Some("contextual_insight"));
    assert_eq!(fields.body, "User prefers Burgundy wines");
    assert_eq!(stored_confidences(&house).await, [0.95, 0.95]);
    assert_eq!(
        fields.tags.iter().map(|tag| tag.as_str()).collect::<Vec<_>>(),
        ["wine", "preference"]
    );
    assert_eq!(
        (fields.source.tool.as_deref(), fields.source.turn),
        (Some("wine_search"), Some(turn(1)))
    );
    assert_eq!((read.created_at, fields.trust), (now, Trust::ToolInternal));
    let lines = house.traced("add_observation").await;
    assert_eq!(
        (lines[0].entry, lines[0].source.as_str()),
        (Some(one.id), "wine_search")
    );
    assert_eq!(
        (lines[0].component.as_str(), lines[0].status.as_str()),
        ("scratch_page", "success")
    );
}

#[tokio::test]
async fn scenario_1_observation_without_tags_is_stored_with_none() {
    let house = House::new();
    house
        .observed(json!([{"content": "x"}, {"content": "y", "tags": []}, {"content": "z", "tags": null}]))
        .await;
    assert!(house.all().await.iter().all(|entry| entry.fields.tags.is_empty()));
}

#[tokio::test]
async fn scenario_1_very_long_content_is_stored_in_full() {
    let house = House::new();
    let long = "ü".repeat(32 * 1024);
    let ingested = house
        .ingest_in(
            turn(1),
            answer(json!([{"content": long}, {"content": format!("{long}x")}])),
        )
        .await;
    assert_eq!(codes(&ingested), []);
    assert_eq!(contents(&ingested.stored)[0], long);
    let longer = &ingested.stored[1];
    assert!(longer.fields.body.len() < 4_000, "beyond 64 KiB it shows its beginning");
    assert_eq!(house.space.whole_text(longer).await.unwrap(), format!("{long}x"));
}

#[tokio::test]
async fn scenario_1_special_characters_are_stored_byte_for_byte() {
    let house = House::new();
    let odd = "\"quotes\" \\ 'and' <tags> & emoji 🍷 e\u{301} \u{202e}rtl\r\n\ttab 中文 '; DROP TABLE entry; --";
    house
        .observed(json!([{"content": odd, "tags": ["rouge/côte de nuits", "a:b"]}]))
        .await;
    let read = house.all().await;
    assert_eq!(contents(&read), [odd], "byte for byte");
    assert_eq!(house.list(tags(&["rouge/côte_de_nuits", "a:b"])).await.len(), 1);
}

async fn stored_confidences(house: &House) -> Vec<f64> {
    let mut entries = house.all().await;
    entries.reverse();
    entries
        .iter()
        .map(|entry| entry.fields.confidence.unwrap().value())
        .collect()
}

#[tokio::test]
async fn scenario_2_confidence_is_stored_traced_and_filterable() {
    let house = House::new();
    house
        .observed(json!([
            {"content": "high", "confidence": 0.99}, {"content": "medium", "confidence": 0.75},
            {"content": "low", "confidence": 0.5}
        ]))
        .await;
    assert_eq!(stored_confidences(&house).await, [0.99, 0.75, 0.5]);
    let logged = house.traced("add_observation").await;
    let logged: Vec<_> = logged.iter().map(|line| line.detail.clone().unwrap()).collect();
    assert_eq!(logged[0], json!({"text": "high", "confidence": 0.99}));
    assert_eq!(
        (&logged[1]["confidence"], &logged[2]["confidence"]),
        (&json!(0.75), &json!(0.5))
    );
    let sure = EntryQuery {
        min_confidence: Some(0.75),
        ..EntryQuery::default()
    };
    assert_eq!(contents(&house.list(sure).await), ["medium", "high"], "inclusive");
}

#[tokio::test]
async fn scenario_2_confidence_of_exactly_zero_or_one_is_stored() {
    let house = House::new();
    house
        .observed(json!([{"content": "a", "confidence": 0}, {"content": "b", "confidence": 1}]))
        .await;
    assert_eq!(stored_confidences(&house).await, [0.0, 1.0]);
}

#[tokio::test]
async fn scenario_2_confidence_out_of_range_is_clamped_with_a_warning() {
    let house = House::new();
    let items = json!([{"content": "a", "confidence": 1.5}, {"content": "b", "confidence": -0.1}]);
    let ingested = house.ingest_in(turn(1), answer(items)).await;
    assert_eq!(stored_confidences(&house).await, [1.0, 0.0]);
    let warnings = ingested.warnings.iter();
    let warnings: Vec<_> = warnings
        .map(|one| {
            (
                one.index,
                one.warning.code.as_str(),
                one.warning.given.clone(),
                one.warning.used.clone(),
            )
        })
        .collect();
    assert_eq!(
        warnings,
        [
            (0, "confidence_clamped", json!(1.5), json!(1)),
            (1, "confidence_clamped", json!(-0.1), json!(0))
        ]
    );
    let lines = house.traced("add_observation").await;
    let warned = lines.iter().filter(|line| line.status == "warning");
    assert_eq!(warned.count(), 2);
}

#[tokio::test]
async fn scenario_2_confidence_is_stored_unrounded() {
    let house = House::new();
    house
        .observed(json!([{"content": "a", "confidence": 0.123_456_789_012_345_67}]))
        .await;
    assert_eq!(
        stored_confidences(&house).await,
        [0.123_456_789_012_345_67],
        "stored unrounded"
    );
}

#[tokio::test]
async fn scenario_4_tag_query_finds_tagged_observations_and_is_traced() {
    let house = tagged().await;
    assert_eq!(contents(&house.list(tags(&["wine"])).await), ["Obs 2", "Obs 1"]);
    let lines = house.traced("list_observations").await;
    let detail = lines[0].detail.as_ref().unwrap();
    assert_eq!(
        (&detail["filters"]["tags"], &detail["returned"]),
        (&json!(["wine"]), &json!(2))
    );
    assert!(lines[0].duration_us.is_some());
}

async fn tagged() -> House {
    let house = House::new();
    house
        .observed(json!([
            {"content": "Obs 1", "tags": ["wine", "preference"]}, {"content": "Obs 2", "tags": ["wine", "budget"]},
            {"content": "Obs 3", "tags": ["travel", "destination"]}, {"content": "Obs 4"}
        ]))
        .await;
    house
}

#[tokio::test]
async fn scenario_4_query_by_several_tags_requires_all_of_them() {
    let house = tagged().await;
    assert_eq!(contents(&house.list(tags(&["wine", "budget"])).await), ["Obs 2"]);
}

#[tokio::test]
async fn scenario_4_query_without_matching_tags_is_empty() {
    let house = tagged().await;
    assert_eq!(house.list(tags(&["beer"])).await, []);
    assert_eq!(house.list(tags(&["wine", "travel"])).await, []);
}

#[tokio::test]
async fn scenario_4_observation_without_tags_matches_no_tag_query() {
    let house = tagged().await;
    assert_eq!(house.list(EntryQuery::default()).await.len(), 4);
    assert!(!contents(&house.list(tags(&["wine"])).await).contains(&"Obs 4"));
}

#[tokio::test]
async fn scenario_6_every_observation_of_an_answer_is_stored() {
    let house = House::new();
    let stored = house
        .observed(json!([
            {"content": "User prefers Burgundy"}, {"content": "API response time: 234ms"}, {"content": "User budget: $50"}
        ]))
        .await;
    assert_eq!(stored.iter().map(|entry| entry.id).collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(house.all().await.len(), 3);
    assert_eq!(house.traced("add_observation").await.len(), 3);
}

#[tokio::test]
async fn scenario_6_answer_without_observations_writes_nothing() {
    let house = House::new();
    for response in [
        json!({"status": "ok"}),
        json!({"observations": []}),
        json!({"observations": null}),
    ] {
        let ingested = house.ingest_in(turn(1), response).await;
        assert_eq!((ingested.stored.len(), ingested.rejected.len()), (0, 0));
    }
    assert_eq!(house.space.head().await.unwrap().0, 0, "nothing is written");
}

#[tokio::test]
async fn scenario_6_observations_beyond_the_call_limit_are_rejected() {
    let house = House::new();
    let items = |count: usize| -> Value { (0..count).map(|n| json!({"content": format!("no. {n}")})).collect() };
    let ingested = house.ingest_in(turn(1), answer(items(100))).await;
    assert_eq!((ingested.stored.len(), ingested.rejected.len()), (100, 0));
    let ingested = house.ingest_in(turn(2), answer(items(130))).await;
    assert_eq!((ingested.stored.len(), ingested.rejected.len()), (100, 30), "m7_3_23");
    assert_eq!(codes(&ingested)[0], (100, "too_many_items"), "and none silently");
    house
        .set_policy(json!({"manifests": {"wine_search": {"max_per_call": 500}}}))
        .await;
    let ingested = house.ingest_in(turn(3), answer(items(250))).await;
    assert_eq!((ingested.stored.len(), ingested.rejected.len()), (250, 0));
    assert_eq!(house.all().await.len(), 450);
}

#[tokio::test]
async fn scenario_6_duplicate_observations_are_all_stored_m7_3_27() {
    let house = House::new();
    house
        .observed(json!([{"content": "same"}, {"content": "same"}, {"content": "same"}]))
        .await;
    assert_eq!(house.all().await.len(), 3);
}

async fn with_context() -> House {
    let house = House::new();
    house
        .observed(json!([
            {"content": "with both", "context": {"goal_id": "find_wine", "user_id": "user_123"}},
            {"content": "with a goal", "context": {"goal_id": "find_wine"}},
            {"content": "nested", "context": {"order": {"items": [{"sku": 1}], "by": {"user_id": "user_123"}}}},
            {"content": "with none"}
        ]))
        .await;
    house
}

fn in_context(path: &str, value: &str) -> EntryQuery {
    EntryQuery {
        context: vec![(path.to_owned(), json!(value))],
        ..EntryQuery::default()
    }
}

#[tokio::test]
async fn scenario_7_context_is_stored_and_can_be_queried() {
    let house = with_context().await;
    let found = house.list(in_context("goal_id", "find_wine")).await;
    assert_eq!(contents(&found), ["with a goal", "with both"]);
    let found = house.list(in_context("user_id", "user_123")).await;
    assert_eq!(contents(&found), ["with both"]);
    assert_eq!(
        found[0].fields.context,
        Some(json!({"goal_id": "find_wine", "user_id": "user_123"}))
    );
    let logged = house.traced("add_observation").await;
    let logged = logged.iter().find(|line| line.entry == Some(found[0].id)).unwrap();
    assert_eq!(
        logged.detail.as_ref().unwrap()["context"],
        json!({"goal_id": "find_wine", "user_id": "user_123"})
    );
}

#[tokio::test]
async fn scenario_7_trace_gives_only_the_size_of_a_large_context() {
    let house = House::new();
    house
        .observed(json!([{"content": "a", "context": {"log": "x".repeat(2_000)}}]))
        .await;
    let logged = house.traced("add_observation").await;
    let detail = logged[0].detail.as_ref().unwrap();
    assert_eq!((&detail["context_bytes"], detail.get("context")), (&json!(2_010), None));
}

#[tokio::test]
async fn scenario_7_observation_without_context_is_stored_with_none() {
    let house = with_context().await;
    let found = house.all().await;
    assert_eq!(
        (found[0].fields.body.as_str(), &found[0].fields.context),
        ("with none", &None)
    );
}

#[tokio::test]
async fn scenario_7_nested_context_is_found_by_its_dotted_path() {
    let house = with_context().await;
    let found = house.list(in_context("order.by.user_id", "user_123")).await;
    assert_eq!(contents(&found), ["nested"]);
}

#[tokio::test]
async fn scenario_7_missing_context_field_does_not_match() {
    let house = with_context().await;
    assert_eq!(house.list(in_context("session_id", "x")).await, []);
    assert_eq!(house.list(in_context("order.by.name", "x")).await, []);
}

#[tokio::test]
async fn malformed_observation_is_rejected_without_losing_other_items() {
    let house = House::new();
    let items =
        json!([{"content": "fine"}, {"content": "  "}, {"text": "?"}, "not an object", {"content": "fine too"}]);
    let ingested = house.ingest_in(turn(1), answer(items)).await;
    assert_eq!(contents(&ingested.stored), ["fine", "fine too"]);
    assert_eq!(
        codes(&ingested),
        [
            (1, "content_empty"),
            (2, "observation_malformed"),
            (3, "observation_malformed")
        ]
    );
    let lines = house.traced("add_observation").await;
    let rejected: Vec<_> = lines.iter().filter(|line| line.status == "rejected").collect();
    assert_eq!(rejected.len(), 3);
    let detail = rejected[0].detail.as_ref().unwrap();
    assert_eq!(
        (&detail["index"], &detail["code"]),
        (&json!(1), &json!("content_empty"))
    );
    assert!(
        detail["error"].is_string() && detail.get("message").is_none(),
        "{detail}"
    );
    assert_eq!(rejected[0].turn, Some(turn(1)));
}

#[tokio::test]
async fn out_of_range_ttl_becomes_the_default_with_a_warning() {
    let house = House::new();
    let now = house.space.now();
    let items = json!([{"content": "a", "ttl_minutes": -1}, {"content": "b", "ttl_minutes": 576_000}]);
    let ingested = house.ingest_in(turn(1), answer(items)).await;
    let week = now.plus(Duration::from_secs(7 * 24 * 60 * 60));
    assert_eq!(ingested.stored.len(), 2);
    assert!(
        ingested
            .stored
            .iter()
            .all(|entry| entry.fields.lifetime.expires_at() == Some(week))
    );
    let said = ingested.warnings.iter();
    let said: Vec<_> = said.map(|one| (one.index, one.warning.given.clone())).collect();
    assert_eq!(said, [(0, json!(-1)), (1, json!(576_000))]);
}

#[tokio::test]
async fn failed_write_is_delivered_when_the_next_answer_is_ingested() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    let (response, before) = (
        answer(json!([{"content": "kept"}])),
        answer(json!([{"content": "kept"}])),
    );
    house.store.fail_next(folio_testkit::Fault::NotWritten);
    let ingested = house.ingest_in(turn(1), response.clone()).await;
    assert_eq!(
        (ingested.stored.len(), ingested.rejected.len(), ingested.spooled),
        (0, 0, 1)
    );
    assert_eq!(response, before, "the tool's answer is untouched");
    assert_eq!(house.all().await, []);
    house.ingest_in(turn(2), answer(json!([]))).await;
    let found = house.all().await;
    assert_eq!(
        (contents(&found), found[0].fields.source.turn),
        (vec!["kept"], Some(turn(1)))
    );
}

#[tokio::test]
async fn example_3_declared_alert_comes_first_in_active_observations() {
    let house = House::new();
    let alert = json!([{"type": "alert", "content": "Suspicious email detected: sender claims to be bank",
                        "confidence": 0.85, "tags": ["security", "phishing", "alert"], "ttl_minutes": 10080}]);
    let undeclared = house.ingest_of("email", turn(1), answer(alert.clone())).await;
    assert_eq!(codes(&undeclared), [(0, "type_undeclared")], "m7_3_23");
    house
        .set_policy(json!({"manifests": {"email": {"observes": ["alert"]}}}))
        .await;
    house.ingest_of("email", turn(2), answer(alert)).await;
    house.observed(json!([{"content": "noise", "confidence": 1}])).await;
    let active = house.space.active_observations(10).await.unwrap().items;
    assert_eq!(
        active[0].fields.type_name.as_deref(),
        Some("alert"),
        "alerts come first"
    );
}
