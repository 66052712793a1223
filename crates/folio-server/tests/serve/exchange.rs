//! Answers and queries of tools, over HTTP (seeds 002 and 004).

use serde_json::{Value, json};

use crate::house::{House, assert_problem};

#[tokio::test]
async fn tool_response_is_ingested_item_by_item_and_only_once() {
    let house = House::new().await;
    let response = json!({
        "request_id": "q1", "tool_id": "wine", "status": "success", "outputs": {"wines": 3},
        "observations": [
            {"type": "contextual_insight", "content": "Likes Burgundy", "confidence": 7},
            {"type": "no_such_type", "content": "x"},
        ],
    });
    let take_in = || {
        house.ask(
            "POST",
            "/tool-responses?turn=turn_01ARZ3NDEKTSV4RRFFQ69G5FAV",
            &[],
            Some(response.clone()),
        )
    };
    let first = take_in().await;
    assert_eq!(first.status, 200, "{first:?}");
    let first = first.json();
    assert_eq!(
        (&first["stored"][0]["trust"], &first["stored"][0]["source"]["tool"]),
        (&json!("tool_internal"), &json!("wine"))
    );
    assert_eq!(
        (&first["rejected"][0]["index"], &first["rejected"][0]["channel"]),
        (&json!(1), &json!("observations"))
    );
    assert_eq!(first["warnings"][0]["code"], "confidence_clamped");
    assert_eq!(take_in().await.json()["replayed"], 1);
    let request = json!({"tool_id": "wine", "inputs": {}, "scratch_page_query": {"limit": 5}});
    let seen = house.post_and_expect("/tool-requests/context", 200, request).await;
    assert_eq!(seen["scratch_page_context"][0]["content"], "Likes Burgundy");
    let wrong = json!({"tool_id": "wine", "scratch_page_query": {"typ": "x"}});
    assert_problem(
        &house.ask("POST", "/tool-requests/context", &[], Some(wrong)).await,
        422,
        "filter_unknown",
    );
}

#[tokio::test]
async fn tool_response_is_deduplicated_by_request_id_before_key_m7_3_26() {
    let house = House::new().await;
    let take_in = async |key: &str, request: Value, content: &str| {
        let said = json!({"request_id": request, "status": "ok", "observations": [{"content": content}]});
        let key = format!("Idempotency-Key: {key}");
        let path = "/tool-responses?tool=scan&turn=turn_01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let taken = house.ask("POST", path, &[&key], Some(said)).await;
        assert_eq!(taken.status, 200, "{taken:?}");
        taken.json()
    };
    let replayed = |taken: Value| taken["replayed"].as_u64().unwrap_or(0);
    let q1 = || json!("q1");
    assert_eq!(replayed(take_in("k1", q1(), "x").await), 0);
    assert_eq!(replayed(take_in("k2", q1(), "x").await), 1, "the queue delivers twice");
    let other = take_in("k3", q1(), "y").await;
    assert_eq!(other["warnings"][0]["code"], "call_repeated", "{other}");
    // An answer that names nothing is named by its key.
    assert_eq!(replayed(take_in("k4", json!(""), "z").await), 0);
    assert_eq!(replayed(take_in("k4", json!(""), "z").await), 1);
    assert_eq!(replayed(take_in("k5", json!(""), "z").await), 0);
    let kept = house.get_json("/observations?limit=10").await;
    assert_eq!(kept["items"].as_array().map(Vec::len), Some(3), "{kept}");
}

#[tokio::test]
async fn key_names_the_answer_of_a_tool_outside_a_turn_m7_3_26() {
    let house = House::new().await;
    let take_in = async |key: &str, request: &str, contents: &[&str]| {
        let items: Vec<_> = contents
            .iter()
            .map(|content| match *content {
                "?" => json!({"type": "no_such_type", "content": "x"}),
                content => json!({"content": content}),
            })
            .collect();
        let said = json!({"request_id": request, "tool_id": "scan", "status": "ok", "observations": items});
        let key = format!("Idempotency-Key: {key}");
        let taken = house.ask("POST", "/tool-responses", &[&key], Some(said)).await;
        assert_eq!(taken.status, 200, "{taken:?}");
        let stored = taken.json()["stored"].clone();
        let handle = |item: &Value| item["handle"].as_str().unwrap().to_owned();
        let stored = stored.as_array().unwrap().iter().map(handle).collect::<Vec<_>>();
        stored.join(" ")
    };
    assert_eq!(take_in("k1", "attempt 1", &["A"]).await, "e1");
    assert_eq!(take_in("k1", "attempt 2", &["A"]).await, "e1", "another attempt");
    assert_eq!(take_in("k2", "", &["B", "?"]).await, "e2");
    assert_eq!(take_in("k2", "", &["B", "C"]).await, "e2 e3", "a corrected answer");
    assert_eq!(take_in("k3", "", &["B"]).await, "e4", "another key is another answer");
}

#[tokio::test]
async fn oversized_number_is_kept_as_text_and_spares_other_items() {
    let house = House::new().await;
    let body = r#"{"request_id": "r", "status": "ok", "observations": [{"content": "a", "confidence": 1e999},
        {"content": "b", "context": {"id": 18446744073709551617}}, {"content": "c"}]}"#;
    let taken = house.post("/tool-responses?tool=scan", body).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    let taken = taken.json();
    let of = |index: usize, field: &str| taken["stored"][index][field].clone();
    assert_eq!(
        (of(0, "content"), of(0, "confidence")),
        (json!("a"), json!(0.5)),
        "{taken}"
    );
    assert_eq!(taken["warnings"][0]["code"], "confidence_not_finite", "{taken}");
    assert_eq!(of(1, "context"), json!({"id": "18446744073709551617"}), "{taken}");
    assert_eq!(of(2, "content"), "c", "{taken}");
}

#[tokio::test]
async fn zero_ttl_tool_observation_expires_at_its_creation_m7_1_3() {
    let house = House::new().await;
    let said = json!({"request_id": "r", "status": "ok", "observations": [{"content": "a", "ttl_minutes": 0}]});
    let taken = house.post_and_expect("/tool-responses?tool=scan", 200, said).await;
    let stored = &taken["stored"][0];
    assert_eq!(stored["expires_at"], stored["created_at"], "{taken}");
    assert!(stored["created_at"].is_string(), "{taken}");
}
