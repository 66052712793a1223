//! What rests on what, and what differs from what, over HTTP: `why`, `episodes`, `diff` and `replay`.

use serde_json::{Value, json};

use crate::house::{ECHO, House, assert_problem};

#[tokio::test]
async fn why_names_the_decisions_that_rest_on_an_entry_and_what_was_shown_of_it() {
    let house = House::new().await;
    let alert = json!({"content": "The disk is full", "type": "risk_alert", "confidence": 0.9});
    house.post_and_expect("/observations", 201, alert).await;
    let begin = json!({"thread": "a", "input": "Save the disk report", "budget": 500});
    let turn = house.post_and_expect("/turns", 201, begin).await;
    let why = house.get_json("/why?entry=e1").await;
    let first = &why["items"][0];
    assert_eq!(
        (&first["turn"], &first["turn_id"], &first["input"]),
        (&json!("t1"), &turn["turn_id"], &json!("Save the disk report")),
        "{why}"
    );
    assert!(first["stage"].is_string() && first["verdict"].is_string(), "{first}");
    // The router and the order of work rest on it.
    assert_eq!((&why["returned"], &why["total"]), (&json!(2), &json!(2)), "{why}");
    assert_eq!(why.get("shown"), None);
    let in_turn = house.get_json("/why?entry=e1&turn=t1").await;
    assert_eq!(in_turn["items"], why["items"]);
    let shown = in_turn["shown"].as_array().unwrap();
    assert!(
        shown
            .iter()
            .any(|one| one["of"] == "context" && one["budget"] == 500 && one["fate"].is_string()),
        "{in_turn}"
    );
    house.post_and_expect("/turns/t1/end", 200, json!({})).await;
    let episodes = house.get_json("/episodes?text=DISK&thread=a").await;
    assert_eq!(
        (
            &episodes["total"],
            &episodes["items"][0]["handle"],
            episodes.get("searched_from")
        ),
        (&json!(1), &json!("t1"), None),
        "{episodes}"
    );
    for none in ["text=cellar", "thread=b", "until=2000-01-01T00:00:00Z"] {
        let found = house.get_json(&format!("/episodes?{none}")).await;
        assert_eq!(found["items"], json!([]), "{none}");
    }
    house.assert_refused("/episodes?text=%20", 400, "query_invalid").await;
    house
        .assert_refused("/episodes?from=yesterday", 400, "query_invalid")
        .await;
    house.assert_refused("/why?entry=e9", 404, "not_found").await;
    house.assert_refused("/why?entry=e1&turn=t9", 404, "not_found").await;
    house.assert_refused("/why", 400, "query_invalid").await;
    house.assert_refused("/why?entry=x", 400, "id_invalid").await;
    house.assert_refused("/why?entry=e1&run=r1", 400, "query_unknown").await;
    house.stop().await.unwrap();
}

#[tokio::test]
async fn two_runs_are_compared_node_by_node_and_part_by_part() {
    let house = House::new().await;
    house.run(ECHO).await;
    house.run(&ECHO.replace("n: 2", "n: 3").replace("deep", "deeper")).await;
    let diff = house.get_json("/runs/r1/diff/r2").await;
    assert_eq!(
        (&diff["one"]["run"], &diff["other"]["run"], &diff["one"]["status"]),
        (&json!("r1"), &json!("r2"), &json!("ok")),
        "{diff}"
    );
    let paths: Vec<&str> = diff["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["a", "group-2/b", "group-2/c/inner"]);
    let a = diff["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["path"] == "a");
    let a = a.unwrap();
    assert_eq!(
        (&a["one"]["output"], &a["other"]["output"]),
        (&json!({"value": {"n": 2}}), &json!({"value": {"n": 3}}))
    );
    // In parts of one node it is the same.
    let mut parts: Vec<Value> = Vec::new();
    let mut cursor = String::new();
    loop {
        let part = house.get_json(&format!("/runs/r1/diff/r2?limit=1{cursor}")).await;
        assert_eq!(part["same"], diff["same"]);
        parts.extend(part["nodes"].as_array().unwrap().iter().cloned());
        let Some(next) = part["next"].as_str() else { break };
        let next = percent_encoding::utf8_percent_encode(next, percent_encoding::NON_ALPHANUMERIC);
        cursor = format!("&cursor={next}");
    }
    assert_eq!(json!(parts), diff["nodes"]);
    let same = house.get_json("/runs/r1/diff/r1").await;
    assert_eq!((&same["nodes"], &same["same"]), (&json!([]), &diff["one"]["nodes"]));
    house.assert_refused("/runs/r1/diff/r9", 404, "not_found").await;
    house.assert_refused("/runs/r1/diff/x", 404, "id_invalid").await;
    house.assert_refused("/runs/r9/diff/r1", 404, "not_found").await;
    house
        .assert_refused("/runs/r1/diff/r2?cursor=x", 400, "query_invalid")
        .await;
    house
        .assert_refused("/runs/r1/diff/r2?limit=0", 400, "query_invalid")
        .await;
    house.stop().await.unwrap();
}

#[tokio::test]
async fn replay_tells_what_differs_from_the_journal() {
    let house = House::new().await;
    house.run(ECHO).await;
    let replayed = house.get_json("/runs/r1/replay").await;
    assert_eq!(
        (&replayed["run"], &replayed["differences"], replayed.get("goes_on")),
        (&json!("r1"), &json!([]), None),
        "{replayed}"
    );
    for counted in ["events", "pages", "entries"] {
        assert!(replayed[counted].as_u64().unwrap() > 3, "{counted}: {replayed}");
    }
    house.assert_refused("/runs/r9/replay", 404, "not_found").await;
    assert_problem(&house.post("/runs/r1/replay", "").await, 405, "method_not_allowed");
    house.stop().await.unwrap();
}
