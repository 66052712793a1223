//! Observations over HTTP: added, listed, changed, archived.

use folio::memory::Timestamp;
use folio::store::workspace::Guard;
use serde_json::{Value, json};

use crate::client::Events;
use crate::house::{House, assert_problem, person};

/// The texts of a list.
fn contents(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn added_observation_is_readable_at_its_location() {
    let house = House::new().await;
    let body =
        json!({"type": "contextual_insight", "content": "Prefers aisle seats", "confidence": 0.8, "tags": ["travel"]});
    let answer = house.ask("POST", "/observations", &[], Some(body)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let added = answer.json();
    assert_eq!(
        (&added["handle"], &added["status"], &added["state"]),
        (&json!("e1"), &json!("active"), &json!("live"))
    );
    assert_eq!((&added["trust"], &added["version"]), (&json!("user"), &json!(1)));
    assert_eq!(answer.header("etag"), "\"1\"");
    let id = added["observation_id"].as_str().unwrap();
    assert_eq!(answer.header("location"), format!("/v1/spaces/main/observations/{id}"));
    for name in ["e1", id] {
        assert_eq!(house.get_json(&format!("/observations/{name}")).await, added);
    }
    let unsure = house
        .post_and_expect("/observations", 201, json!({"content": "x", "confidence": 7}))
        .await;
    assert_eq!(
        (&unsure["confidence"], &unsure["warnings"][0]["code"]),
        (&json!(1.0), &json!("confidence_clamped"))
    );
}

#[tokio::test]
async fn invalid_observation_is_refused_without_a_commit() {
    let house = House::new().await;
    let before = house.workspace().head().await.unwrap();
    for (body, code) in [
        (json!({}), "observation_malformed"),
        (json!([]), "observation_malformed"),
        (json!({"content": " "}), "content_empty"),
        (json!({"content": "x", "confident": 1}), "observation_malformed"),
        (json!({"content": "x", "type": "Not A Type"}), "type_invalid"),
        (json!({"content": "x", "status": "nowhere"}), "status_invalid"),
    ] {
        assert_problem(&house.ask("POST", "/observations", &[], Some(body)).await, 422, code);
    }
    assert_problem(&house.post("/observations", "{").await, 422, "body_invalid");
    let cut = house.post("/turns", "[1").await;
    assert_problem(&cut, 422, "body_invalid");
    assert!(cut.body.contains("cannot be read"), "it is no list: {cut:?}");
    assert_problem(
        &house.ask("POST", "/observations", &[], None).await,
        415,
        "body_not_json",
    );
    assert_eq!(house.workspace().head().await.unwrap(), before);
}

#[tokio::test]
async fn every_observation_filter_restricts_the_list_m7_2_12() {
    let house = House::new().await;
    for body in [
        json!({"content": "old", "tags": ["a", "b"], "confidence": 0.9, "context": {"goal": {"id": 7}}, "owner": "user"}),
        json!({"content": "alarm", "type": "risk_alert", "tags": ["a"], "confidence": 0.2}),
        json!({"content": "asks", "type": "pending_confirmation", "status": "pending_review"}),
        json!({"content": "gone", "ttl_minutes": 0}),
    ] {
        house.post_and_expect("/observations", 201, body).await;
    }
    for (query, wanted) in [
        ("", vec!["asks", "alarm", "old"]),
        ("?type=risk_alert", vec!["alarm"]),
        ("?type=risk_alert,pending_confirmation", vec!["asks", "alarm"]),
        ("?type=nothing_of_the_kind", vec![]),
        ("?status=pending_review", vec!["asks"]),
        ("?status=never_heard_of", vec![]),
        ("?tags=a", vec!["alarm", "old"]),
        ("?tags=a&tags=b", vec!["old"]),
        ("?tags=%00", vec![]),
        ("?tags_any=b,c", vec!["old"]),
        ("?tags_none=b", vec!["asks", "alarm"]),
        ("?owner=user", vec!["old"]),
        ("?context.goal.id=7", vec!["old"]),
        ("?context.goal.id=8", vec![]),
        ("?min_confidence=0.5", vec!["asks", "old"]),
        ("?min_confidence=high", vec!["old"]),
        ("?text=alarms", vec!["alarm"]),
        // Whoever continues from there hears of what is over, too.
        ("?since=2", vec!["gone", "asks"]),
        ("?order=oldest&limit=2", vec!["old", "alarm"]),
        ("?order=priority&limit=1", vec!["alarm"]),
        ("?include_expired=true&limit=1", vec!["gone"]),
    ] {
        assert_eq!(
            contents(&house.get_json(&format!("/observations{query}")).await),
            wanted,
            "{query}"
        );
    }
    let active = house.get_json("/observations/active").await;
    assert_eq!(contents(&active)[..2], ["alarm", "asks"]);
}

#[tokio::test]
async fn minimal_observation_has_every_field_of_its_shape() {
    let house = House::new().await;
    let made = house
        .post_and_expect("/observations", 201, json!({"content": "x"}))
        .await;
    let names = "observation_id handle type content confidence tags source context metadata ttl_minutes expires_at status state owner \
                 trust version created_at updated_at";
    let mut names: Vec<&str> = names.split_whitespace().collect();
    names.sort_unstable();
    let mut made_of: Vec<&String> = made.as_object().unwrap().keys().collect();
    made_of.sort_unstable();
    // And no other: what says nothing is left out.
    assert_eq!(made_of, names, "{made}");
    assert_eq!((&made["context"], &made["metadata"]), (&json!(null), &json!(null)));
}

#[tokio::test]
async fn confirming_extends_expiry_and_keeps_the_ttl_m7_1_6() {
    let house = House::new().await;
    let body = json!({"content": "x", "ttl_minutes": 5});
    let made = house.post_and_expect("/observations", 201, body).await;
    assert_eq!(made["ttl_minutes"], json!(5.0));
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let (person, entry) = (person(), "e1".parse().unwrap());
    let workspace = house.workspace();
    workspace.confirm(&person, entry, Guard::default()).await.unwrap();
    let confirmed = house.get_json("/observations/e1").await;
    let expiry = |seen: &Value| Timestamp::parse(seen["expires_at"].as_str().unwrap()).unwrap();
    assert!(expiry(&confirmed) > expiry(&made), "{made} {confirmed}");
    assert_eq!(confirmed["ttl_minutes"], json!(5.0));
}

#[tokio::test]
async fn observation_cursor_continues_and_list_states_its_tokens_m7_2_15() {
    let house = House::new().await;
    for n in 1..=5 {
        house
            .post_and_expect("/observations", 201, json!({"content": format!("n{n}")}))
            .await;
    }
    let first = house.get_json("/observations?limit=2").await;
    assert_eq!(
        (&first["returned"], &first["total"], &first["as_of"]),
        (&json!(2), &json!(5), &json!(5))
    );
    assert!(first["tokens"].as_u64().unwrap() > 20, "{first}");
    house
        .post_and_expect("/observations", 201, json!({"content": "later"}))
        .await;
    let next = first["next"].as_str().unwrap();
    let second = house.get_json(&format!("/observations?limit=2&cursor={next}")).await;
    assert_eq!(contents(&second), ["n3", "n2"]);
}

#[tokio::test]
async fn repeated_add_with_an_idempotency_key_is_replayed() {
    let house = House::new().await;
    let once = || {
        house.ask(
            "POST",
            "/observations",
            &["Idempotency-Key: k1"],
            Some(json!({"content": "once"})),
        )
    };
    let (first, second) = (once().await, once().await);
    assert_eq!((first.status, second.status), (201, 201));
    let (first, second) = (first.json(), second.json());
    assert_eq!(first["observation_id"], second["observation_id"]);
    assert_eq!((first.get("replayed"), &second["replayed"]), (None, &json!(true)));
    assert_eq!(house.get_json("/observations").await["total"], 1);
    let long = format!("Idempotency-Key: {}", "x".repeat(256));
    let refused = house
        .ask("POST", "/observations", &[&long], Some(json!({"content": "x"})))
        .await;
    assert_problem(&refused, 400, "key_invalid");
}

#[tokio::test]
async fn stale_patch_is_refused_with_the_current_observation_m7_4_34() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "one"}))
        .await;
    let house = &house;
    let patch = |version: &'static str, body: Value| async move {
        let header = format!("If-Match: {version}");
        house.ask("PATCH", "/observations/e1", &[&header], Some(body)).await
    };
    let changed = patch("\"1\"", json!({"content": "two"})).await;
    assert_eq!((changed.status, changed.header("etag")), (200, "\"2\""));
    let stale = patch("\"1\"", json!({"content": "three"})).await;
    assert_problem(&stale, 409, "stale_version");
    assert_eq!(stale.json()["current"]["content"], "two");
    assert_eq!(
        patch("\"1\"", json!({"content": "two"})).await.status,
        200,
        "as it is wished already"
    );
    assert_problem(&patch("\"x\"", json!({"content": "y"})).await, 400, "if_match_invalid");
    let unconditional = house
        .ask("PATCH", "/observations/e1", &[], Some(json!({"status": "resolved"})))
        .await;
    assert_eq!(unconditional.json()["status"], "resolved");
    let described = json!({"context": {"goal_id": "g"}, "title": "t"});
    house.ask("PATCH", "/observations/e1", &[], Some(described)).await;
    let cleared = house
        .ask(
            "PATCH",
            "/observations/e1",
            &[],
            Some(json!({"context": null, "title": null})),
        )
        .await
        .json();
    assert_eq!(
        (&cleared["context"], cleared.get("title")),
        (&Value::Null, None),
        "{cleared}"
    );
    let nothing = house
        .ask("PATCH", "/observations/e1", &[], Some(json!({"content": null})))
        .await;
    assert_problem(&nothing, 422, "field_not_cleared");
    let immutable = house
        .ask("PATCH", "/observations/e1", &[], Some(json!({"type": "alert"})))
        .await;
    assert_problem(&immutable, 422, "field_immutable");
    assert_problem(
        &house
            .ask("PATCH", "/observations/e9", &[], Some(json!({"content": "y"})))
            .await,
        404,
        "not_found",
    );
}

#[tokio::test]
async fn archived_observation_is_immutable_and_keeps_its_history() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "one"}))
        .await;
    let archived = house
        .post_and_expect("/observations/e1/archive", 200, json!({"reason": "done with it"}))
        .await;
    assert_eq!(archived["status"], "archived");
    assert_eq!(house.post("/observations/e1/archive", "").await.status, 200);
    let refused = house
        .ask("PATCH", "/observations/e1", &[], Some(json!({"content": "two"})))
        .await;
    assert_problem(&refused, 409, "archived");
    let history = house.get_json("/observations/e1/history").await;
    assert_eq!(
        (&history["returned"], &history["items"][1]["reason"]),
        (&json!(2), &json!("done with it"))
    );
    assert_eq!(house.get_json("/observations").await["returned"], 0);
    assert_eq!(
        contents(&house.get_json("/observations?status=archived").await),
        ["one"]
    );
}

#[tokio::test]
async fn history_is_listed_part_by_part() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "version 1"}))
        .await;
    for version in 2..=5 {
        let patch = json!({"content": format!("version {version}")});
        let patched = house.ask("PATCH", "/observations/e1", &[], Some(patch)).await;
        assert_eq!(patched.status, 200);
    }
    let versions = |list: &Value| -> Vec<u64> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["version"].as_u64().unwrap()).collect()
    };
    let whole = house.get_json("/observations/e1/history").await;
    assert_eq!((versions(&whole), &whole["next"]), (vec![1, 2, 3, 4, 5], &json!(null)));
    let first = house.get_json("/observations/e1/history?limit=3").await;
    assert_eq!((versions(&first), &first["total"]), (vec![1, 2, 3], &json!(5)));
    let next = first["next"].as_str().unwrap();
    let rest = house.get_json(&format!("/observations/e1/history?cursor={next}")).await;
    assert_eq!((versions(&rest), &rest["next"]), (vec![4, 5], &json!(null)));
    house
        .assert_refused("/observations/e1/history?cursor=x", 400, "query_invalid")
        .await;
}

#[tokio::test]
async fn scratchbook_item_is_not_found_as_an_observation() {
    let house = House::new().await;
    house
        .post_and_expect(
            "/threads/t/scratchbook/items",
            201,
            json!({"kind": "note", "title": "n"}),
        )
        .await;
    for path in ["/observations/e1", "/observations/e1/history"] {
        house.assert_refused(path, 404, "not_found").await;
    }
    assert_problem(&house.post("/observations/e1/archive", "").await, 404, "not_found");
}

#[tokio::test]
async fn space_event_stream_resumes_after_the_last_seen_commit() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "one"}))
        .await;
    let path = "/v1/spaces/main/events";
    let mut live = Events::open(house.address, path, None).await;
    let mut again = Events::open(house.address, path, Some("0")).await;
    house
        .post_and_expect("/observations", 201, json!({"content": "two"}))
        .await;
    let second = live.next().await.unwrap();
    assert_eq!((second.id.as_str(), second.event.as_str()), ("2", "commit"));
    assert_eq!(second.json()["changes"][0]["change"], "add_entry");
    assert_eq!(again.next().await.unwrap().id, "1");
    assert_eq!(again.next().await.unwrap(), second);
    let mut ahead = Events::open(house.address, path, Some("99")).await;
    let gap = ahead.next().await.unwrap();
    let head = gap.json()["head"].to_string();
    assert_eq!((gap.event.as_str(), gap.id), ("gap", head));
    house.assert_refused("/events?after=x", 400, "query_invalid").await;
    house.stop().await.unwrap();
    assert_eq!(live.rest().await, []);
}
