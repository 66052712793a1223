//! Pages that are written over HTTP.

use serde_json::json;

use crate::house::{House, assert_problem};

#[tokio::test]
async fn page_is_added_appended_to_and_rolled_up() {
    let house = House::new().await;
    let add = || {
        house.ask(
            "POST",
            "/pages",
            &["Idempotency-Key: p"],
            Some(json!({"title": "Home", "tags": ["x"]})),
        )
    };
    let first = add().await;
    assert_eq!((first.status, first.header("etag")), (201, "\"1\""));
    let mut again = add().await.json();
    assert_eq!(again["replayed"].take(), true);
    let mut once = first.json();
    assert_eq!(once["replayed"].take(), json!(null));
    assert_eq!(once, again, "asked for again");
    let id = first.json()["page_id"].as_str().unwrap().to_owned();
    assert_eq!(first.header("location"), format!("/v1/spaces/main/pages/{id}"));
    let child = house
        .post_and_expect("/pages", 201, json!({"title": "Child", "parent": "p1"}))
        .await;
    assert_eq!((&child["handle"], &child["parent"]), (&json!("p2"), &json!(id)));
    let block = json!({"title": "Found", "body": "It *works*"});
    let append = || {
        house.ask(
            "POST",
            "/pages/p2/entries",
            &["Idempotency-Key: b"],
            Some(block.clone()),
        )
    };
    let (written, again) = (append().await, append().await);
    assert_eq!((written.status, &again.json()["replayed"]), (201, &json!(true)));
    assert_eq!(written.json().get("replayed"), None);
    let entries = house.get_json("/pages/p2/entries?tail=9").await;
    assert_eq!(
        (&entries["total"], &entries["items"][0]["body"]),
        (&json!(1), &json!("It *works*")),
        "{entries}"
    );
    assert!(house.get("/pages/p2.md").await.body.contains("It *works*"));
    let rollup = house.get_json("/pages/p1/rollup?budget=100").await;
    assert!(rollup["rollup"].as_str().unwrap().contains("Child"), "{rollup}");
    assert!(rollup["tokens"].as_u64().unwrap() <= 100, "{rollup}");
    assert_eq!(house.get_json("/pages/p1/children").await["items"][0]["handle"], "p2");
}

#[tokio::test]
async fn children_of_a_page_are_listed_part_by_part() {
    let house = House::new().await;
    house.post_and_expect("/pages", 201, json!({"title": "Home"})).await;
    for number in 0..5 {
        let child = json!({"title": format!("Child {number}"), "parent": "p1"});
        house.post_and_expect("/pages", 201, child).await;
    }
    let whole = house.get_json("/pages/p1/children").await;
    assert_eq!((&whole["total"], &whole["next"]), (&json!(5), &json!(null)));
    let (mut path, mut parts) = ("/pages/p1/children?limit=2".to_owned(), Vec::new());
    loop {
        let part = house.get_json(&path).await;
        parts.push(part["items"].as_array().unwrap().clone());
        let Some(next) = part["next"].as_str() else { break };
        path = format!("/pages/p1/children?limit=2&cursor={next}");
    }
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(json!(parts.concat()), whole["items"]);
    house
        .assert_refused("/pages/p1/children?cursor=x", 400, "query_invalid")
        .await;
}

#[tokio::test]
async fn invalid_page_or_page_entry_is_refused() {
    let house = House::new().await;
    for (body, code) in [
        (json!({"title": ""}), "title_empty"),
        (json!({"title": "x", "role": "scratchbook"}), "body_invalid"),
        (json!({"title": "x", "role": "none"}), "body_invalid"),
        (json!({"title": "x", "parent": "e1"}), "body_invalid"),
        (json!({"titel": "x"}), "body_invalid"),
    ] {
        assert_problem(&house.ask("POST", "/pages", &[], Some(body)).await, 422, code);
    }
    assert_eq!(house.get_json("/pages").await["returned"], 0);
    let orphan = house
        .ask("POST", "/pages", &[], Some(json!({"title": "x", "parent": "p9"})))
        .await;
    assert_problem(&orphan, 404, "not_found");
    house.post_and_expect("/pages", 201, json!({"title": "x"})).await;
    let empty = house.ask("POST", "/pages/p1/entries", &[], Some(json!({}))).await;
    assert_problem(&empty, 422, "body_empty");
}

#[tokio::test]
async fn expired_entry_is_not_listed_on_its_page_m7_1_1() {
    let house = House::new().await;
    for (content, ttl) in [("gone", 0), ("there", 60)] {
        let observed = json!({"content": content, "ttl_minutes": ttl});
        house.post_and_expect("/observations", 201, observed).await;
    }
    let pages = house.get_json("/pages").await;
    let page = pages["items"][0]["handle"].as_str().unwrap().to_owned();
    let listed = house.get_json(&format!("/pages/{page}/entries")).await;
    let bodies: Vec<_> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["body"])
        .collect();
    assert_eq!(bodies, ["there"], "{listed}");
}
