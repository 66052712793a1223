//! Tools and the scratch page according to seed 004: what they add, what they query, and what goes wrong.

use folio_memory::observation::ObservationInput;
use folio_memory::scratchbook::ItemInput;
use folio_memory::{Actor, EntryKind, Role, ThreadKey, Trust};
use folio_store::WorkspaceError;
use folio_store::workspace::{BookFilter, IngestContext};
use folio_testkit::Fault;
use serde_json::json;

use crate::house::{House, answer, codes, contents, turn};

#[tokio::test]
async fn tool_adds_an_observation_through_scratch_page_writes() {
    let house = House::new();
    let response = json!({"request_id": "r", "status": "ok", "outputs": {}, "observations": [], "memory_writes": [],
        "scratch_page_writes": [{"type": "contextual_insight", "confidence": 0.95, "tags": ["wine", "recommendation"],
                                 "content": "User will like 2020 Marcel La Pierre at bistro vendome"}]});
    let ingested = house.ingest_of("wine_recommender", turn(1), response).await;
    let entry = &ingested.stored[0];
    assert_eq!(entry.fields.source.channel.as_deref(), Some("scratch_page_writes"));
    assert_eq!(
        (entry.fields.owner.as_str(), entry.fields.status.as_str()),
        ("agent", "active")
    );
    let line = house.traced("add_observation").await.remove(0);
    assert_eq!(line.entry_type.as_deref(), Some("contextual_insight"));
    assert_eq!(
        (line.source.as_str(), line.status.as_str()),
        ("wine_recommender", "success")
    );
}

#[tokio::test]
async fn typical_observation_types_need_no_manifest_m7_3_23() {
    let house = House::new();
    let items: serde_json::Value = [
        "contextual_insight",
        "observation",
        "action_suggestion",
        "pattern_detected",
    ]
    .map(|name| json!({"type": name, "content": name}))
    .to_vec()
    .into();
    assert_eq!(house.observed(items).await.len(), 4);
}

#[tokio::test]
async fn output_of_an_external_tool_gets_lower_trust_m7_8_v11() {
    let house = House::new();
    house
        .set_policy(json!({"manifests": {"web": {"external": true}}}))
        .await;
    let said = json!({
        "request_id": "r", "observations": [{"content": "a"}], "scratch_page_writes": [{"content": "b"}], "memory_writes": ["c"],
    });
    let mut n = 0;
    for (tool, trust) in [
        ("web", Trust::ToolExternal),
        ("desk.search", Trust::ToolExternal),
        ("wine_search", Trust::ToolInternal),
    ] {
        n += 1;
        let ingested = house.ingest_of(tool, turn(n), said.clone()).await;
        let found: Vec<_> = ingested.stored.iter().map(|entry| entry.fields.trust).collect();
        assert_eq!(found, [trust; 3], "{tool}");
        let input = ObservationInput::from_json(&json!({"content": "d"})).unwrap();
        let tool = Actor::new(Role::Tool, tool);
        let added = house.space.add_observation(&tool, input, None).await.unwrap().entry;
        let item = ItemInput::new(EntryKind::Note, "e");
        let noted = house
            .space
            .add_item(&tool, &ThreadKey::main(), item, None)
            .await
            .unwrap()
            .entry;
        assert_eq!((added.fields.trust, noted.fields.trust), (trust, trust), "{tool}");
    }
}

#[tokio::test]
async fn item_in_both_answer_arrays_is_stored_once_m7_3_24() {
    let house = House::new();
    let item = json!({"content": "likes Burgundy", "tags": ["wine"]});
    let response = json!({"request_id": "r", "observations": [item], "scratch_page_writes": [item, {"content": "x"}]});
    let ingested = house.ingest_in(turn(1), response).await;
    assert_eq!(contents(&ingested.stored), ["likes Burgundy", "x"]);
}

#[tokio::test]
async fn tool_request_query_returns_matching_observations() {
    let house = House::new();
    house
        .observed(json!([
            {"type": "contextual_insight", "content": "User prefers Burgundy wines", "confidence": 0.9, "tags": ["wine"]},
            {"content": "for a person", "tags": ["wine"], "owner": "user"}, {"content": "no wine"}
        ]))
        .await;
    let query = json!({"filters": {"tags": ["wine"], "owner": "agent"}});
    let found = house.context_of("wine_recommender", query).await;
    assert_eq!(found.len(), 1);
    let item = serde_json::to_value(&found[0]).unwrap();
    assert!(item["id"].as_str().unwrap().starts_with("obs_"));
    assert_eq!(
        (&item["type"], &item["content"], &item["confidence"]),
        (
            &json!("contextual_insight"),
            &json!("User prefers Burgundy wines"),
            &json!(0.9)
        )
    );
    assert_eq!(item["created_at"], json!("2026-01-01T00:00:00Z"));
    let line = house.traced("list_observations").await.remove(0);
    assert_eq!(line.source, "wine_recommender");
}

#[tokio::test]
async fn tool_query_returns_ten_observations_by_default_m7_2_11() {
    let house = House::new();
    house
        .observed((0..30).map(|n| json!({"content": n.to_string()})).collect())
        .await;
    assert_eq!(house.asked(json!({})).await.len(), 10);
    assert_eq!(house.asked(json!({"limit": 25})).await.len(), 25);
    assert_eq!(house.asked(json!({"limit": 2})).await, ["29", "28"], "newest first");
}

#[tokio::test]
async fn tool_query_filter_accepts_one_value_for_a_list_m7_2_12() {
    let house = House::new();
    house
        .observed(json!([{"content": "a", "tags": ["wine"]}, {"content": "b"}]))
        .await;
    for filters in [
        json!({"tags": "wine"}),
        json!({"tags": ["wine"]}),
        json!({"tags": ["wine"], "status": "active"}),
    ] {
        assert_eq!(house.asked(json!({"filters": filters})).await, ["a"]);
    }
}

#[tokio::test]
async fn reused_request_id_with_a_new_answer_warns_of_loss() {
    let house = House::new();
    let said = |content: &str| json!({"request_id": "r", "observations": [{"content": content}, {"content": "same"}]});
    let first = house.ingest_in(turn(1), said("one")).await;
    assert_eq!((first.stored.len(), first.warnings.len()), (2, 0));
    let again = house.ingest_in(turn(1), said("one")).await;
    assert_eq!(
        (again.replayed, again.warnings.len()),
        (2, 0),
        "the same answer is no news"
    );
    let other = house.ingest_in(turn(1), said("two")).await;
    let warned: Vec<_> = other
        .warnings
        .iter()
        .map(|one| (one.index, one.warning.code.as_str()))
        .collect();
    assert_eq!((other.replayed, warned), (2, vec![(0, "call_repeated")]));
    assert_eq!(
        house.ingest_in(turn(2), said("two")).await.replayed,
        0,
        "another turn has calls of its own"
    );
}

#[tokio::test]
async fn invalid_query_is_empty_for_tools_but_fails_for_people_m7_2_19() {
    let house = House::new();
    house.observed(json!([{"content": "a", "tags": ["wine"]}])).await;
    let query = json!({"filters": {"tag": "wine"}});
    assert_eq!(
        house.asked(query.clone()).await,
        Vec::<String>::new(),
        "a misspelt filter finds nothing"
    );
    let line = house.traced("list_observations").await.remove(0);
    assert_eq!(line.status, "failed");
    assert!(line.detail.unwrap()["error"].as_str().unwrap().contains("tag"));
    let request = serde_json::from_value(json!({"scratch_page_query": query})).unwrap();
    let person = Actor::new(Role::Human, "ada");
    let error = house.space.try_tool_context(&person, &request).await.unwrap_err();
    let told = error.to_string();
    assert!(told.starts_with("tag: is not known here; there are type, "), "{told}");
}

#[tokio::test]
async fn tool_query_of_an_unreadable_store_is_empty_and_traced_m7_2_19() {
    let house = House::new();
    house.observed(json!([{"content": "a"}])).await;
    house.store.fail_next(Fault::Gone);
    house.ingest_in(turn(2), answer(json!([{"content": "b"}]))).await;
    assert_eq!(house.asked(json!({})).await, Vec::<String>::new());
    house.store.heal();
    assert_eq!(house.asked(json!({})).await, ["a"]);
    let lines = house.traced("list_observations").await;
    assert!(
        lines.iter().any(|line| line.status == "failed"),
        "and it is in the trace"
    );
}

#[tokio::test]
async fn tool_query_returns_only_what_its_manifest_permits_m7_3_23() {
    let house = House::new();
    let reads = json!({"observes": ["*"], "reads": {"types": ["observation"], "tags": ["wine"]}});
    house
        .set_policy(json!({"manifests": {"wine_recommender": reads, "wine_search": {"observes": ["*"]}}}))
        .await;
    house
        .observed(json!([
            {"content": "a", "tags": ["wine", "red"]}, {"content": "b", "tags": ["money"]},
            {"content": "c", "tags": ["wine"], "type": "security_alert"}, {"content": "d", "tags": ["wine"]}
        ]))
        .await;
    assert_eq!(house.asked(json!({})).await, ["d", "a"]);
    assert_eq!(
        house.asked(json!({"filters": {"tags_any": ["red", "money"]}})).await,
        ["a"]
    );
    assert_eq!(
        house.asked(json!({"filters": {"type": ["security_alert"]}})).await,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn undeclared_type_is_rejected_without_losing_other_items_m7_3_23() {
    let house = House::new();
    let items = json!([{"content": "a"}, {"content": "b", "type": "risk_alert"}, {"content": "c", "type": "no_such"}]);
    let ingested = house.ingest_in(turn(1), answer(items)).await;
    assert_eq!(contents(&ingested.stored), ["a"]);
    assert_eq!(codes(&ingested), [(1, "type_undeclared"), (2, "type_undeclared")]);
    let lines = house.traced("add_observation").await;
    assert_eq!(lines.iter().filter(|line| line.status == "rejected").count(), 2);
}

#[tokio::test]
async fn direct_add_by_a_tool_is_checked_against_its_manifest_m7_3_23() {
    let house = House::new();
    let tool = Actor::new(Role::Tool, "mail");
    let add = async |name: &str| {
        let input = ObservationInput::from_json(&json!({"content": "x", "type": name})).unwrap();
        house.space.add_observation(&tool, input, None).await
    };
    // Nothing is declared of it.
    add("alert").await.unwrap();
    house
        .set_policy(json!({"manifests": {"mail": {"observes": ["risk_alert"]}}}))
        .await;
    add("risk_alert").await.unwrap();
    let refused = add("alert").await.unwrap_err();
    assert!(
        matches!(&refused, WorkspaceError::Invalid(invalid) if invalid.code == "type_undeclared"),
        "{refused}"
    );
    assert_eq!(house.all().await.len(), 2);
}

#[tokio::test]
async fn lifetime_is_capped_by_the_manifest_m7_3_23() {
    let house = House::new();
    house
        .set_policy(json!({"manifests": {"wine_search": {"ttl_max_minutes": 60}}}))
        .await;
    let items = json!([{"content": "a", "ttl_minutes": 1440}, {"content": "b", "ttl_minutes": null}, {"content": "c"}]);
    let ingested = house.ingest_in(turn(1), answer(items)).await;
    assert_eq!(ingested.stored.len(), 3);
    let hour = ingested.stored[0].created_at.plus(std::time::Duration::from_secs(3600));
    assert!(
        ingested
            .stored
            .iter()
            .all(|entry| entry.fields.lifetime.expires_at() == Some(hour))
    );
    let said = ingested.warnings.iter();
    let said: Vec<_> = said.map(|one| (one.index, one.warning.code.as_str())).collect();
    assert_eq!(said, [(0, "ttl_over_manifest"), (1, "ttl_over_manifest")]);
}

#[tokio::test]
async fn never_expiring_observation_needs_manifest_permission_m7_1_5() {
    let house = House::new();
    let items = json!([{"content": "a", "ttl_minutes": null}]);
    let ingested = house.ingest_in(turn(1), answer(items.clone())).await;
    assert!(ingested.stored[0].fields.lifetime.expires_at().is_some());
    assert_eq!(ingested.warnings[0].warning.code, "ttl_never");
    house
        .set_policy(json!({"manifests": {"wine_search": {"may_never_expire": true}}}))
        .await;
    let ingested = house.ingest_in(turn(2), answer(items)).await;
    assert_eq!(ingested.stored[0].fields.lifetime.expires_at(), None);
}

#[tokio::test]
async fn repeated_answer_to_one_call_is_stored_once_m7_3_26() {
    let house = House::new();
    let items = json!([{"content": "a"}, {"content": "b"}]);
    let first = house.ingest_in(turn(1), answer(items.clone())).await;
    let again = house.ingest_in(turn(1), answer(items.clone())).await;
    assert_eq!((again.replayed, &again.stored), (2, &first.stored));
    assert_eq!(house.all().await.len(), 2);
    let more = json!([{"content": "a"}, {"content": "b"}, {"content": "c"}]);
    let more = house.ingest_in(turn(1), answer(more)).await;
    assert_eq!((more.replayed, contents(&more.stored)), (2, vec!["a", "b", "c"]));
    house.ingest_in(turn(2), answer(items)).await;
    assert_eq!(house.all().await.len(), 5, "another turn is another call");
}

#[tokio::test]
async fn concurrent_answers_to_one_call_are_stored_once() {
    let house = House::new();
    let items = answer(json!([{"content": "a"}, {"content": "b"}]));
    let once = || house.ingest_in(turn(1), items.clone());
    let (one, two, three) = tokio::join!(once(), once(), once());
    assert_eq!(one.replayed + two.replayed + three.replayed, 4);
    assert_eq!(house.all().await.len(), 2);
}

#[tokio::test]
async fn new_answer_to_a_reused_id_outside_turns_is_stored() {
    let house = House::new();
    let tool = Actor::new(Role::Tool, "wine_search");
    for (content, count) in [("a", 1), ("a", 1), ("b", 2)] {
        let response = serde_json::from_value(answer(json!([{"content": content}]))).unwrap();
        house.space.ingest(&tool, &response, &IngestContext::default()).await;
        assert_eq!(house.all().await.len(), count);
    }
}

#[tokio::test]
async fn failed_call_keeps_observations_but_rejects_its_writes() {
    let house = House::new();
    let response = json!({"request_id": "r", "status": "error", "observations": [{"content": "the API is down"}],
                          "scratch_page_writes": [{"content": "done"}], "memory_writes": ["a fact"]});
    let ingested = house.ingest_in(turn(1), response).await;
    assert_eq!(contents(&ingested.stored), ["the API is down"]);
    assert_eq!(codes(&ingested), [(0, "call_failed"), (0, "call_failed")]);
}

#[tokio::test]
async fn memory_write_becomes_a_note_in_the_threads_scratchbook() {
    let house = House::new();
    let response = json!({"request_id": "r", "memory_writes":
        ["likes Burgundy", {"fact": "lives in Paris", "tags": "travel", "kind": "fact"}, {"about": "?"}]});
    let ingested = house.ingest_in(turn(1), response).await;
    assert_eq!(codes(&ingested), [(2, "observation_malformed")]);
    assert!(ingested.stored.iter().all(|entry| entry.kind == EntryKind::Note));
    let book = house
        .space
        .book_items(&ThreadKey::main(), BookFilter::default())
        .await
        .unwrap()
        .items;
    assert_eq!(book.len(), 2);
    assert_eq!(book[0].fields.source.channel.as_deref(), Some("memory_writes"));
    assert_eq!(house.all().await, [], "the scratch page has none of it");
}

#[tokio::test]
async fn source_is_stamped_and_a_claimed_source_is_kept_apart_m7_3_31() {
    let house = House::new();
    let claim = json!([{"content": "x", "source": {"tool": "bank", "turn_id": "turn_1"}}]);
    let entry = house.observed(claim).await.remove(0);
    assert_eq!(entry.fields.source.tool.as_deref(), Some("wine_search"));
    assert_eq!(entry.fields.claimed_source.unwrap()["tool"], "bank");
}

#[tokio::test]
async fn secrets_in_a_tool_answer_are_redacted_before_storage() {
    let house = House::new();
    let secret = "ghp_012345678901234567890123456789012345";
    let items = json!([{"content": format!("the key is {secret}")}]);
    let ingested = house.ingest_in(turn(1), answer(items)).await;
    assert!(!ingested.stored[0].fields.body.contains(secret));
    assert_eq!(ingested.warnings[0].warning.code, "secret_redacted");
}
