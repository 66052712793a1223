//! Memory as lines, and what is forgotten, over HTTP.

use serde_json::{Value, json};

use crate::client::post;
use crate::house::{House, is_problem};

#[tokio::test]
async fn a_space_goes_out_as_lines_and_in_again() {
    let (house, other) = (House::new().await, House::new().await);
    for n in 0..300 {
        let body = json!({"content": format!("{n} {}", "long ".repeat(200))});
        house.makes("/observations", 201, body).await;
    }
    let lines = house.get("/export").await;
    assert_eq!(
        (lines.status, lines.header("content-type")),
        (200, "application/x-ndjson")
    );
    assert!(
        lines.body.len() > 300_000
            && lines
                .body
                .lines()
                .all(|line| serde_json::from_str::<Value>(line).is_ok())
    );
    let import = |query: &'static str| {
        let path = format!("/v1/spaces/main/import{query}");
        let body = &lines.body;
        async move { post(other.at, &path, "application/x-ndjson", body).await }
    };
    let dry = import("?dry_run=true").await.json();
    assert_eq!((&dry["dry_run"], &dry["entries"]), (&json!(true), &json!(300)));
    assert_eq!(import("").await.json()["entries"], 300);
    assert!(import("").await.json()["present"].as_u64().unwrap() >= 300);
    let path = "/v1/spaces/main/import";
    is_problem(
        &post(house.at, path, "application/x-ndjson", "{}").await,
        422,
        "transfer_malformed",
    );
    is_problem(&post(house.at, path, "image/png", "x").await, 415, "body_not_json");
}

#[tokio::test]
async fn what_is_forgotten_is_gone_from_everything() {
    let house = House::new().await;
    house
        .makes("/observations", 201, json!({"content": "The code word is heliotrope"}))
        .await;
    house.makes("/observations", 201, json!({"content": "stays"})).await;
    let dry = house
        .makes("/forget", 200, json!({"text": "heliotrope", "dry_run": true}))
        .await;
    assert_eq!(
        (&dry["forgotten"][0]["handle"], dry.get("residue")),
        (&json!("e1"), None)
    );
    let done = house
        .makes("/forget", 200, json!({"entries": ["e1"], "reason": "asked to"}))
        .await;
    assert_eq!(
        (&done["dry_run"], &done["residue"]["found"]),
        (&json!(false), &json!([]))
    );
    let list = house.get("/observations?status=active,archived").await.body;
    assert!(!list.contains("heliotrope") && list.contains("stays"), "{list}");
    for body in [json!({}), json!({"kind": ["none"]}), json!({"entries": ["x"]})] {
        is_problem(
            &house.ask("POST", "/forget", &[], Some(body)).await,
            422,
            "body_invalid",
        );
    }
}
