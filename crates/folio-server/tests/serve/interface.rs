//! Runs and their pages, as programs read them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::house::{ECHO, House, SLOW, assert_problem};

#[tokio::test]
async fn run_resource_shows_its_counts_result_and_pages() {
    let house = House::new().await;
    let run = house.run(ECHO).await;
    let shown = house.get("/runs/r1").await.json();
    assert_eq!(shown["run_id"], run.to_string());
    assert_eq!(shown["title"], "Echo");
    assert_eq!(
        (&shown["status"], &shown["result"]["status"]),
        (&json!("ok"), &json!("ok"))
    );
    assert_eq!(shown["counts"], json!({"ok": 7}));
    assert_eq!((&shown["nodes_total"], &shown["in_flight"]), (&json!(7), &json!(0)));
    assert_eq!(shown["pages"]["workspace"], "p1");
    assert_eq!(shown["pages"].get("report"), None);
    assert_eq!(
        (&shown["spent"], &shown["asks"]),
        (&json!({"tool_calls": 4}), &json!(0))
    );
    let turn = house
        .get_json(&format!("/turns/{}", shown["turn_id"].as_str().unwrap()))
        .await;
    assert_eq!(turn["run_id"], shown["run_id"]);
    assert!(
        shown["duration_us"].as_u64().is_some() && shown["started_at"].is_string(),
        "{shown}"
    );
    assert_eq!(house.get(&format!("/runs/{run}")).await.json(), shown);
}

#[tokio::test]
async fn run_tree_lists_parents_before_children_with_branch_pages() {
    let house = House::new().await;
    house.run(ECHO).await;
    let tree = house.get("/runs/r1/tree").await.json();
    let nodes = tree["nodes"].as_array().unwrap();
    let line = |node: &Value| {
        let [path, title, kind, state, outcome] =
            ["path", "title", "kind", "state", "status"].map(|name| node[name].as_str().unwrap().to_owned());
        format!("{path} {title} {kind} {state} {outcome}")
    };
    let lines: Vec<String> = nodes.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            " Echo plan terminal ok",
            "a a call terminal ok",
            "group-2 In parallel parallel terminal ok",
            "group-2/b Second call terminal ok",
            "group-2/c c plan terminal ok",
            "group-2/c/inner inner call terminal ok",
            "d d call terminal ok",
        ]
    );
    assert_eq!(nodes[3]["parent_id"], nodes[2]["node_id"]);
    assert_eq!(nodes[0]["parent_id"], Value::Null);
    assert_eq!(nodes[1]["attempt"], 1);
    assert!(
        nodes[1]["call"].as_str().unwrap().starts_with("text op=echo"),
        "{}",
        nodes[1]
    );
    for node in nodes {
        let (handle, id) = (node["page"].as_str().unwrap(), &node["page_id"]);
        assert_eq!(&house.get(&format!("/pages/{handle}")).await.json()["page_id"], id);
        assert!(node["duration_us"].as_u64().is_some(), "{node}");
    }
}

#[tokio::test]
async fn tree_of_an_undriven_run_has_only_its_root() {
    let house = House::new().await;
    house.submit(ECHO).await;
    let tree = house.get("/runs/r1/tree").await.json();
    assert_eq!(
        (&tree["status"], &tree["driven"], &tree["last_event_id"]),
        (&json!("running"), &json!(false), &json!(1))
    );
    assert_eq!(tree["nodes"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&tree["nodes"][0]["status"], &tree["nodes"][0]["duration_us"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn page_is_available_as_json_and_as_markdown() {
    let house = House::new().await;
    let run = house.run(ECHO).await;
    let pages = house.get(&format!("/pages?run={run}&role=plan")).await.json();
    assert_eq!(pages["returned"], 1);
    let plan = &pages["items"][0];
    assert_eq!(
        (&plan["type_key"], &plan["props"]["doc_role"]),
        (&json!("document.homework.plan"), &json!("plan"))
    );
    let handle = plan["handle"].as_str().unwrap();
    let markdown = house.get(&format!("/pages/{handle}.md")).await;
    assert_eq!(markdown.header("content-type"), "text/markdown; charset=utf-8");
    let same = house.workspace().page_markdown(handle.parse().unwrap()).await.unwrap();
    assert_eq!(markdown.body, same);
    assert!(same.contains("- [x] a"), "{same}");
}

#[tokio::test]
async fn tail_parameter_returns_the_last_entries_in_reading_order() {
    let house = House::new().await;
    house.run(ECHO).await;
    let all = house.get("/pages/p2/entries").await.json();
    let all = all["items"].as_array().unwrap();
    assert!(all.len() > 2, "{all:?}");
    let tail = house.get("/pages/p2/entries?tail=2").await.json();
    assert_eq!(tail["items"].as_array().unwrap(), &all[all.len() - 2..]);
    assert_eq!((&tail["total"], &tail["next"]), (&json!(all.len()), &Value::Null));
}

#[tokio::test]
async fn children_of_the_workspace_page_are_its_branches() {
    let house = House::new().await;
    house.run(ECHO).await;
    let children = house.get("/pages/p1/children").await.json();
    let titles: Vec<&str> = children["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|page| page["title"].as_str().unwrap())
        .collect();
    assert_eq!(titles, ["Main scratchpad", "Plan"]);
    assert_eq!(
        children["items"][0]["parent"],
        house.get("/pages/p1").await.json()["page_id"]
    );
}

#[tokio::test]
async fn cancel_request_ends_a_run_driven_elsewhere() {
    let house = House::new().await;
    let run = house.submit(SLOW).await;
    let runner = house.runner.clone();
    let driven = tokio::spawn(async move { runner.drive(run).await.unwrap() });
    while house.get("/runs/r1").await.json()["in_flight"] == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let answer = house.post("/runs/r1/cancel", "").await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(driven.await.unwrap().status.as_str(), "cancelled");
    let shown = house.get("/runs/r1").await.json();
    assert_eq!(
        (&shown["status"], &shown["result"]["stop_reason"]),
        (&json!("cancelled"), &json!("cancelled_by_user"))
    );
    // Asking again is harmless.
    assert_eq!(house.post("/runs/r1/cancel", "{}").await.status, 202);
    assert_eq!(house.get("/runs/r1").await.json(), shown);
}

#[tokio::test]
async fn cancel_request_can_name_a_node() {
    let house = House::new().await;
    let run = house.submit(ECHO).await;
    let root = house.get("/runs/r1/tree").await.json()["nodes"][0]["node_id"].clone();
    let unknown = house.post("/runs/r1/cancel", r#"{"node": "0123456789abcdef"}"#).await;
    assert_problem(&unknown, 404, "not_found");
    let cancel = json!({ "node": root }).to_string();
    assert_eq!(house.post("/runs/r1/cancel", &cancel).await.status, 202);
    assert_eq!(house.runner.drive(run).await.unwrap().status.as_str(), "cancelled");
}
