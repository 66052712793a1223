//! The life of observations over HTTP.

use serde_json::{Value, json};

use crate::house::{House, assert_problem};

impl House {
    async fn patch_and_expect(&self, path: &str, change: Value) {
        let answer = self.ask("PATCH", path, &[], Some(change)).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }

    async fn noticed(&self, content: &str) -> Value {
        self.post_and_expect("/observations", 201, json!({ "content": content }))
            .await
    }
}

#[tokio::test]
async fn observation_is_confirmed_resolved_superseded_and_restored() {
    let house = House::new().await;
    for content in ["first", "second", "third"] {
        house.noticed(content).await;
    }
    let confirmed = house
        .post_and_expect("/observations/e1/confirm", 200, json!({"reason": "seen again"}))
        .await;
    assert_eq!(confirmed["version"], 2, "{confirmed}");
    let resolved = house
        .post_and_expect("/observations/e1/resolve", 200, json!({"outcome": "refuted"}))
        .await;
    assert_eq!(
        (&resolved["status"], &resolved["outcome"]),
        (&json!("resolved"), &json!("refuted"))
    );
    assert_problem(
        &house.post("/observations/e1/resolve", r#"{"outcome": "maybe"}"#).await,
        422,
        "body_invalid",
    );
    let replaced = house
        .post_and_expect("/observations/e2/supersede", 200, json!({"by": "e3"}))
        .await;
    assert_eq!(
        replaced["superseded_by"],
        house.get_json("/observations/e3").await["observation_id"]
    );
    assert_problem(
        &house.post("/observations/e2/supersede", r#"{"by": "e9"}"#).await,
        404,
        "not_found",
    );
    assert_problem(
        &house.post("/observations/e3/supersede", r#"{"by": "e2"}"#).await,
        422,
        "supersede_cycle",
    );
    let stale = house
        .ask("POST", "/observations/e3/confirm", &["If-Match: \"7\""], None)
        .await;
    assert_problem(&stale, 409, "stale_version");
    house.post_and_expect("/observations/e3/archive", 200, json!({})).await;
    assert_eq!(
        house.post_and_expect("/observations/e3/restore", 200, json!({})).await["status"],
        "active"
    );
    let reasons = house.get_json("/observations/e1/history").await;
    assert_eq!(
        (&reasons["items"][1]["operation"], &reasons["items"][1]["reason"]),
        (&json!("confirm"), &json!("seen again"))
    );
}

#[tokio::test]
async fn supersede_takes_an_outcome_and_refuses_archived_targets_m7_11_6() {
    let house = House::new().await;
    for content in ["it will rain", "it rains", "put away"] {
        house.noticed(content).await;
    }
    house.post_and_expect("/observations/e3/archive", 200, json!({})).await;
    let refused = house.post("/observations/e1/supersede", r#"{"by": "e3"}"#).await;
    assert_problem(&refused, 422, "superseded_by_unseen");
    let marked = json!({"by": "e2", "outcome": "confirmed"});
    let replaced = house.post_and_expect("/observations/e1/supersede", 200, marked).await;
    assert_eq!(replaced["outcome"], "confirmed", "{replaced}");
}

#[tokio::test]
async fn archived_item_is_restored_and_superseded_entry_is_not_pinned() {
    let house = House::new().await;
    for content in ["old", "new"] {
        house.noticed(content).await;
    }
    let task = json!({"kind": "task", "title": "Move", "progress": 0.5});
    house
        .post_and_expect("/threads/main/scratchbook/items", 201, task)
        .await;
    house
        .patch_and_expect("/threads/main/scratchbook/items/e3", json!({"status": "archived"}))
        .await;
    let restored = house.post_and_expect("/observations/e3/restore", 200, json!({})).await;
    assert_eq!(
        (&restored["kind"], &restored["status"], &restored["title"]),
        (&json!("task"), &json!("open"), &json!("Move"))
    );
    house
        .post_and_expect("/observations/e1/supersede", 200, json!({"by": "e2"}))
        .await;
    let refused = house.post("/threads/main/scratchbook/items/e1/pin", "").await;
    assert_problem(&refused, 409, "superseded");
}

#[tokio::test]
async fn observation_can_be_pinned_and_completed_through_item_routes() {
    let house = House::new().await;
    house.noticed("x").await;
    let at = |what: &str| format!("/threads/main/scratchbook/items/e1/{what}");
    assert!(house.post_and_expect(&at("pin"), 200, json!({})).await["pinned"] == true);
    assert_eq!(
        house.get_json("/observations/e1/history").await["items"][1]["changes"][0]["field"],
        "pinned"
    );
    assert!(house.post_and_expect(&at("unpin"), 200, json!({})).await["pinned"] == false);
    house.post_and_expect(&at("complete"), 200, json!({})).await;
    assert_eq!(house.get_json("/observations/e1").await["status"], "resolved");
    // It is no item, and changed where observations are.
    assert_problem(&house.get("/threads/main/scratchbook/items/e1").await, 404, "not_found");
}

#[tokio::test]
async fn unreadable_request_bodies_are_recorded_in_the_trace() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "x"}))
        .await;
    house.post_and_expect("/turns", 201, json!({"input": "x"})).await;
    let turn = house.get_json("/turns/t1").await["turn_id"].clone();
    let items = "/threads/main/scratchbook/items";
    for (method, path, body, operation, code) in [
        (
            "POST",
            "/observations",
            json!([]),
            "add_observation",
            "observation_malformed",
        ),
        (
            "POST",
            "/observations",
            json!({"contents": "x"}),
            "add_observation",
            "observation_malformed",
        ),
        (
            "PATCH",
            "/observations/e1",
            json!({"content": 7}),
            "update_observation",
            "observation_malformed",
        ),
        (
            "POST",
            "/observations/e1/archive",
            json!({"why": "x"}),
            "archive_observation",
            "body_invalid",
        ),
        ("POST", items, json!({"kind": "verse"}), "add_item", "body_invalid"),
    ] {
        let refused = house.ask(method, path, &["Folio-Turn: t1"], Some(body)).await;
        assert_problem(&refused, 422, code);
        let lines = house.get_json("/turns/t1/trace").await;
        let last = lines["items"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(
            (
                &last["operation"],
                &last["status"],
                &last["detail"]["code"],
                &last["turn_id"]
            ),
            (&json!(operation), &json!("failed"), &json!(code), &turn),
            "{method} {path}"
        );
    }
    assert_problem(&house.post("/observations", "{").await, 422, "body_invalid");
    let last = &house.get_json("/trace?limit=1").await["items"][0];
    assert_eq!(
        (&last["operation"], &last["detail"]["code"]),
        (&json!("add_observation"), &json!("body_invalid"))
    );
    // What was read and then refused has its one line.
    let before = house.get_json("/trace?limit=1000").await["total"].as_u64().unwrap();
    house
        .post_and_expect("/observations", 422, json!({"content": " "}))
        .await;
    assert_eq!(house.get_json("/trace?limit=1000").await["total"], before + 1);
}

#[tokio::test]
async fn patch_accepts_a_full_observation_if_read_only_fields_match_m7_4_33() {
    let house = House::new().await;
    let body = json!({"content": "x", "ttl_minutes": 90, "context": {"goal_id": "g"}, "source": {"tool": "mine"}});
    house.post_and_expect("/observations", 201, body).await;
    let mut whole = house.get_json("/observations/e1").await;
    whole["content"] = "y".into();
    let patch = async |whole: &Value| house.ask("PATCH", "/observations/e1", &[], Some(whole.clone())).await;
    let changed = patch(&whole).await;
    assert_eq!(
        (changed.status, &changed.json()["content"]),
        (200, &json!("y")),
        "{changed:?}"
    );
    // Somebody was quicker: what is sent back is not what stands there.
    assert_problem(&patch(&whole).await, 422, "field_immutable");
    let mut whole = house.get_json("/observations/e1").await;
    whole["expires_at"] = "2031-01-01T00:00:00Z".into();
    assert_problem(&patch(&whole).await, 422, "field_immutable");
    let lines = house.get_json("/trace?entry=e1").await;
    let last = &lines["items"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["operation"], &last["status"], &last["detail"]["code"]),
        (
            &json!("update_observation"),
            &json!("failed"),
            &json!("field_immutable")
        )
    );
}

#[tokio::test]
async fn if_match_applies_to_every_action_on_versioned_entries_m7_4_34() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "x"}))
        .await;
    let item = json!({"kind": "note", "title": "y"});
    house
        .post_and_expect("/threads/main/scratchbook/items", 201, item)
        .await;
    let stale = ["If-Match: \"7\""];
    for path in [
        "/observations/e1/archive",
        "/threads/main/scratchbook/items/e2/complete",
        "/threads/main/scratchbook/items/e2/pin",
        "/threads/main/scratchbook/e1/complete",
    ] {
        let refused = house.ask("POST", path, &stale, None).await;
        assert_problem(&refused, 409, "stale_version");
    }
    let unpin = "/threads/main/scratchbook/items/e2/unpin";
    house
        .post_and_expect("/threads/main/scratchbook/items/e2/pin", 200, json!({}))
        .await;
    assert_problem(&house.ask("POST", unpin, &stale, None).await, 409, "stale_version");
    let done = house.ask("POST", unpin, &["If-Match: \"2\""], None).await;
    assert_eq!((done.status, &done.json()["pinned"]), (200, &json!(false)), "{done:?}");
    // As it is wished already.
    assert_eq!(house.ask("POST", unpin, &stale, None).await.status, 200);
    house
        .run(r#"{"title": "t", "steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}}]}"#)
        .await;
    let refused = house.ask("POST", "/runs/r1/pause", &stale, None).await;
    assert_problem(&refused, 400, "if_match_invalid");
}

#[tokio::test]
async fn item_action_reason_is_traced_and_unknown_fields_are_refused() {
    let house = House::new().await;
    let item = json!({"kind": "note", "title": "y"});
    house
        .post_and_expect("/threads/main/scratchbook/items", 201, item)
        .await;
    for act in ["complete", "pin", "unpin"] {
        let path = format!("/threads/main/scratchbook/items/e1/{act}");
        let refused = house.ask("POST", &path, &[], Some(json!({"raeson": "x"}))).await;
        assert_problem(&refused, 422, "body_invalid");
    }
    let path = "/threads/main/scratchbook/items/e1/complete";
    house
        .post_and_expect(path, 200, json!({"reason": "it is settled"}))
        .await;
    let trace = house.get_json("/trace?entry=e1").await.to_string();
    assert!(trace.contains("it is settled"), "{trace}");
}

#[tokio::test]
async fn write_in_an_ended_turn_warns_turn_ended_m7_6_47() {
    let house = House::new().await;
    let turn = house.post_and_expect("/turns", 201, json!({"input": "hello"})).await;
    let id = turn["turn_id"].as_str().unwrap().to_owned();
    let add = async |turn: &str, content: &str| {
        let head = [&*format!("Folio-Turn: {turn}")];
        let body = Some(json!({"content": content}));
        house.ask("POST", "/observations", &head, body).await.json()
    };
    assert_eq!(add("t1", "in it").await.get("warnings"), None);
    house.post_and_expect("/turns/t1/end", 200, json!({})).await;
    for name in ["t1", &id] {
        let late = add(name, &format!("later, in {name}")).await;
        assert_eq!(late["warnings"][0]["code"], "turn_ended", "{late}");
    }
    let head = ["Folio-Turn: t1"];
    let item = Some(json!({"kind": "note", "title": "late"}));
    let late = house.ask("POST", "/threads/main/scratchbook/items", &head, item).await;
    assert_eq!(late.json()["warnings"][0]["code"], "turn_ended", "{late:?}");
    let response = Some(json!({"tool_id": "scan", "observations": [{"content": "late"}]}));
    for (path, head) in [("/tool-responses", &head[..]), ("/tool-responses?turn=t1", &[])] {
        let late = house.ask("POST", path, head, response.clone()).await.json();
        assert_eq!(late["turn_warnings"][0]["code"], "turn_ended", "{late}");
    }
    let long = "word ".repeat(5_000);
    let talk: Vec<_> = (0..9)
        .map(|n| json!({"role": "user", "content": format!("{n} {long}")}))
        .collect();
    for (path, body) in [
        ("/threads/main/evict", json!({"result": long, "limit": 200})),
        ("/threads/main/history", json!({"messages": talk, "window": 8_000})),
    ] {
        let late = house.ask("POST", path, &head, Some(body.clone())).await.json();
        assert_eq!(late["turn_warnings"][0]["code"], "turn_ended", "{late}");
        let outside = house.ask("POST", path, &[], Some(body)).await.json();
        assert_eq!(outside.get("turn_warnings"), None, "{outside}");
    }
    // Others may keep turns that nobody knows here.
    let unknown = "turn_00000000000000000000000000000001";
    assert_eq!(add(unknown, "elsewhere").await.get("warnings"), None);
}
