//! The tool set for work that several agents share.

use folio_server::{McpOptions, ToolSet};
use serde_json::{Value, json};

use crate::pair::{Era, Pair, options};

fn sharing() -> McpOptions {
    let mut options = options();
    options.sets = vec![ToolSet::Plan];
    options
}

async fn pair() -> Pair {
    Pair::new(Era::Requests, sharing()).await
}

async fn delegated(pair: &Pair, arguments: Value) -> String {
    let (_, made) = pair.call("plan_delegate", arguments).await;
    made["handle"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn task_becomes_ready_when_its_prerequisites_are_done() {
    let pair = pair().await;
    let whole = delegated(&pair, json!({"title": "Release"})).await;
    let tests = delegated(&pair, json!({"title": "Mend the tests", "part_of": whole})).await;
    let notes = delegated(
        &pair,
        json!({"title": "Write the notes", "after": [tests], "part_of": whole}),
    )
    .await;
    let (text, ready) = pair.call("plan_ready", json!({})).await;
    assert_eq!(ready["items"].as_array().unwrap().len(), 1, "{text}");
    assert_eq!(ready["items"][0]["handle"], json!(tests));
    assert_eq!(
        ready["waiting"],
        json!([format!("{whole} for {tests}, {notes}"), format!("{notes} for {tests}")])
    );
    let (said, code) = pair.refused("plan_claim", json!({"id": notes})).await;
    assert!(
        code == "not_claimable" && said.contains(&format!("{notes} waits for {tests}")),
        "{said}"
    );

    let (text, _) = pair
        .call(
            "plan_report",
            json!({"id": tests, "status": "done", "result": "Two were flaky.\nSee commit 4f."}),
        )
        .await;
    assert!(text.starts_with(&format!("{tests} [task/done")), "{text}");
    let (_, ready) = pair.call("plan_ready", json!({})).await;
    assert_eq!(ready["items"][0]["handle"], json!(notes));
    let (view, _) = pair.call("scratch_read", json!({})).await;
    assert!(view.contains("Two were flaky."), "{view}");
    pair.end().await;
}

#[tokio::test]
async fn truncated_ready_list_ends_with_a_cursor() {
    let pair = pair().await;
    for title in ["one", "two"] {
        delegated(&pair, json!({"title": title})).await;
    }
    for (limit, end) in [(1, "1 ready, and more: go on with cursor \"e1.1\""), (50, "2 ready")] {
        let (text, _) = pair.call("plan_ready", json!({"limit": limit})).await;
        assert!(text.ends_with(end), "{limit}: {text}");
    }
    pair.end().await;
}

#[tokio::test]
async fn task_claimed_by_one_agent_is_refused_to_others_m7_4_35() {
    let pair = pair().await;
    for title in ["first", "second"] {
        delegated(&pair, json!({"title": title})).await;
    }
    let (text, mine) = pair.call("plan_claim", json!({"agent": "ada"})).await;
    assert!(
        text.starts_with("e1 ") && text.contains("@ada") && text.contains("yours until "),
        "{text}"
    );
    assert_eq!(mine["claimed"]["status"], json!("in_progress"));
    let (_, next) = pair.call("plan_claim", json!({"agent": "bob"})).await;
    assert_eq!(next["claimed"]["handle"], json!("e2"));
    let (again, _) = pair.call("plan_claim", json!({"agent": "bob"})).await;
    assert!(again.starts_with("e2 "), "what is begun comes first: {again}");
    let (nothing, none) = pair.call("plan_claim", json!({"agent": "eve"})).await;
    assert_eq!(none, json!({"claimed": null}));
    assert!(nothing.starts_with("nothing is ready"), "{nothing}");
    for (tool, arguments) in [
        ("plan_claim", json!({"id": "e1", "agent": "bob"})),
        (
            "plan_report",
            json!({"id": "e1", "agent": "bob", "status": "done", "result": "no"}),
        ),
        ("plan_delegate", json!({"id": "e1", "agent": "bob", "to": "bob"})),
    ] {
        let (said, code) = pair.refused(tool, arguments).await;
        assert!(code == "claimed" && said.contains("e1 is taken by ada"), "{said}");
    }
    pair.end().await;
}

#[tokio::test]
async fn task_delegated_to_one_agent_can_be_returned_to_all() {
    let pair = pair().await;
    let task = delegated(&pair, json!({"title": "Review", "body": "All of it", "to": "ada"})).await;
    let (_, for_bob) = pair.call("plan_ready", json!({"agent": "bob"})).await;
    assert_eq!(for_bob["items"], json!([]));
    let (said, code) = pair.refused("plan_claim", json!({"id": task, "agent": "bob"})).await;
    assert!(code == "claimed" && said.contains("is meant for ada"), "{said}");
    let (text, _) = pair
        .call("plan_claim", json!({"agent": "ada", "lease_minutes": 5}))
        .await;
    assert!(text.contains("\nAll of it\n"), "{text}");
    let before = delegated(&pair, json!({"title": "Build first"})).await;
    let (_, back) = pair
        .call(
            "plan_report",
            json!({"id": task, "agent": "ada", "status": "open", "result": "It does not build.", "after": [before]}),
        )
        .await;
    assert_eq!((&back["status"], &back["owner"]), (&json!("open"), &json!("agent")));
    let (_, for_bob) = pair.call("plan_ready", json!({"agent": "bob"})).await;
    assert_eq!(for_bob["items"][0]["handle"], json!(before));
    assert_eq!(for_bob["waiting"], json!([format!("{task} for {before}")]));
    pair.call("plan_delegate", json!({"id": task, "to": "bob"})).await;
    pair.call(
        "plan_report",
        json!({"id": before, "agent": "bob", "status": "in_progress", "progress": 0.5}),
    )
    .await;
    pair.call("plan_report", json!({"id": before, "agent": "bob", "status": "done"}))
        .await;
    let (text, claimed) = pair.call("plan_claim", json!({"agent": "bob"})).await;
    assert_eq!(claimed["claimed"]["handle"], json!(task), "{text}");
    pair.end().await;
}

#[tokio::test]
async fn repeated_report_keeps_its_result_only_once() {
    let pair = pair().await;
    let task = delegated(&pair, json!({"title": "Count"})).await;
    let report = json!({"id": task, "status": "done", "result": "There are 42."});
    let (first, _) = pair.call("plan_report", report.clone()).await;
    assert!(first.ends_with("kept as e2"), "{first}");
    let (again, same) = pair.call("plan_report", report).await;
    assert!(!again.contains("kept as"), "{again}");
    let (later, told) = pair
        .call(
            "plan_report",
            json!({"id": task, "status": "done", "result": "43, I forgot one."}),
        )
        .await;
    assert!(later.ends_with("kept as e3"), "{later}");
    assert_eq!(told["status"], same["status"]);
    let (_, code) = pair
        .refused("plan_report", json!({"id": task, "status": "in_progress"}))
        .await;
    assert_eq!(code, "not_claimable");
    let entries = pair.workspace.links(told["item_id"].as_str().unwrap()).await;
    assert_eq!(entries.unwrap().len(), 2);
    pair.end().await;
}

#[tokio::test]
async fn dependency_cycles_between_tasks_are_refused() {
    let pair = pair().await;
    let first = delegated(&pair, json!({"title": "first"})).await;
    let second = delegated(&pair, json!({"title": "second", "after": [first]})).await;
    for arguments in [
        json!({"title": "both", "after": [second], "part_of": first}),
        json!({"id": first, "after": [second]}),
        json!({"id": first, "after": [first]}),
        json!({"id": second, "part_of": first}),
    ] {
        let (said, code) = pair.refused("plan_delegate", arguments.clone()).await;
        assert_eq!(code, "blocks_itself", "{arguments}: {said}");
    }
    let (_, code) = pair
        .refused("plan_report", json!({"id": first, "status": "open", "after": [second]}))
        .await;
    assert_eq!(code, "blocks_itself");
    pair.end().await;
}

#[tokio::test]
async fn invalid_plan_tool_arguments_are_refused_with_their_code() {
    let pair = pair().await;
    pair.call("scratch_add", json!({"kind": "note", "title": "A note"}))
        .await;
    for (tool, arguments, wanted) in [
        ("plan_claim", json!({"id": "e1"}), "kind_invalid"),
        ("plan_claim", json!({"id": "e9"}), "not_found"),
        ("plan_claim", json!({"id": "seven"}), "arguments_invalid"),
        ("plan_claim", json!({"lease_minutes": 0}), "arguments_invalid"),
        ("plan_delegate", json!({}), "arguments_invalid"),
        ("plan_delegate", json!({"title": "x", "id": "e1"}), "arguments_invalid"),
        (
            "plan_delegate",
            json!({"title": "x", "to": "two words"}),
            "owner_invalid",
        ),
        (
            "plan_report",
            json!({"id": "e1", "status": "finished"}),
            "arguments_invalid",
        ),
        (
            "plan_report",
            json!({"id": "e1", "status": "done", "progress": 0.5}),
            "arguments_invalid",
        ),
    ] {
        let (said, code) = pair.refused(tool, arguments.clone()).await;
        assert_eq!(code, wanted, "{tool} {arguments}: {said}");
    }
    pair.end().await;
}

#[tokio::test]
async fn ready_list_cursor_reaches_every_ready_task() {
    let pair = pair().await;
    for n in 0..25 {
        delegated(
            &pair,
            json!({"title": format!("Piece {n} {}", "of much work ".repeat(20))}),
        )
        .await;
    }
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let (text, ready) = pair
            .call("plan_ready", json!({"limit": 10, "budget": 3_000, "cursor": cursor}))
            .await;
        let items = ready["items"].as_array().unwrap();
        assert!(!items.is_empty(), "{text}");
        seen.extend(items.iter().map(|item| item["handle"].as_str().unwrap().to_owned()));
        cursor = ready["next"].clone();
        if cursor.is_null() {
            break;
        }
        assert!(text.contains(cursor.as_str().unwrap()), "{text}");
    }
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((seen.len(), all), (25, 25));
    let (_, wide) = pair.call("plan_ready", json!({"limit": 25, "budget": 20_000})).await;
    assert_eq!(
        (wide["returned"].clone(), wide["next"].clone()),
        (json!(25), Value::Null)
    );
    let (_, code) = pair.refused("plan_ready", json!({"cursor": "x"})).await;
    assert_eq!(code, "arguments_invalid");
    pair.end().await;
}
