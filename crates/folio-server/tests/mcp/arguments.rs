//! Arguments in the spellings that models use, for every tool set.

use folio::Role;
use folio_server::ToolSet;
use serde_json::{Value, json};

use crate::pair::{Era, Pair, options};

async fn pair() -> Pair {
    let mut options = options();
    options.sets = ToolSet::ALL.to_vec();
    Pair::new(Era::Requests, options).await
}

#[tokio::test]
async fn every_tool_takes_the_spellings_of_models() {
    let pair = pair().await;
    let added = json!({"kind": "TODO", "title": "First", "tags": "a, b"});
    assert_eq!(pair.call("scratch_add", added).await.1["tags"], json!(["a", "b"]));
    let added = json!({
        "content": "Holds for an hour",
        "tags": "[\"a\", \"b\"]",
        "confidence": "90%",
        "ttl_minutes": "1h",
        "context": "{\"goal_id\": \"g1\"}",
    });
    let (text, added) = pair.call("observe_add", added).await;
    assert!(!text.contains("warning"), "{text}");
    assert_eq!(
        (&added["tags"], &added["confidence"]),
        (&json!(["a", "b"]), &json!(0.9))
    );
    assert_eq!(added["ttl_minutes"].as_f64(), Some(60.0));
    let filters = json!({"limit": "3", "context": {"goal_id": "g1"}, "order": "Newest", "include_expired": "true"});
    assert_eq!(pair.call("observe_list", filters).await.1["total"], 1);
    let filters = json!({"status": "Active", "min_confidence": "80%"});
    assert_eq!(pair.call("observe_list", filters).await.1["total"], 1);
    let change = json!({"id": "E1", "status": "IN PROGRESS", "expected_version": "1"});
    assert_eq!(pair.call("scratch_update", change).await.1["status"], "in_progress");
    for (tool, arguments) in [
        ("memory_search", json!({"query": "first", "kind": "Todo", "limit": "5"})),
        ("memory_context", json!({"prompt": "first", "budget": "500"})),
        ("memory_page", json!({"id": "P1 ", "budget": "800"})),
        ("plan_delegate", json!({"title": "Second", "after": "E1"})),
        ("plan_ready", json!({"limit": "2", "budget": ""})),
        (
            "scratch_add",
            json!({"kind": "task", "title": "Third", "progress": "10%"}),
        ),
        ("plan_claim", json!({"id": " e4", "lease_minutes": "2h"})),
        ("plan_report", json!({"id": "E4", "status": "Done"})),
        ("admin_archive", json!({"ids": "E1, e3"})),
        (
            "run_start",
            json!({"plan": "title: T\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]",
            "inputs": "{}", "limits": {"tool_calls": "5"}, "wait_seconds": "1m"}),
        ),
        ("run_status", json!({"run": "R1", "wait_seconds": "5"})),
    ] {
        pair.call(tool, arguments).await;
    }
    pair.end().await;
}

#[tokio::test]
async fn refusals_of_every_tool_say_what_an_argument_has_to_be() {
    let pair = pair().await;
    pair.call("observe_add", json!({"content": "x"})).await;
    for (tool, arguments, says) in [
        (
            "observe_add",
            json!({"content": "x", "context": "shop"}),
            "context: must be an object such as {\"goal_id\": \"g1\"}",
        ),
        (
            "observe_add",
            json!({"content": "x", "ttl_minutes": "soon"}),
            "ttl_minutes: must be a number such as 60, \"1h\" or \"never\"",
        ),
        (
            "observe_add",
            json!({"content": "x", "items": 1}),
            "items: is not an argument of observe_add; it takes confidence",
        ),
        (
            "observe_list",
            json!({"order": "random"}),
            "order: must be one of relevance, newest, oldest, priority",
        ),
        (
            "observe_update",
            json!({"observation_id": "e1", "title": "t"}),
            "id: is missing; it is a handle such as \"e42\" (observation_id: not an argument",
        ),
        ("memory_search", json!({}), "query: is missing; it is a string such as"),
        (
            "memory_page",
            json!({"id": "p1", "budget": -1}),
            "budget: must be a non-negative integer such as 2000, not -1",
        ),
        (
            "memory_page",
            json!({}),
            "id: is missing; it is a handle such as \"p7\"",
        ),
        (
            "plan_report",
            json!({"id": "e1", "status": "done", "result": {"a": 1}}),
            "result: must be a string, not {\"a\":1}",
        ),
        (
            "plan_claim",
            json!({"lease_minutes": "90s"}),
            "lease_minutes: must be a non-negative integer such as 60",
        ),
        (
            "run_answer",
            json!({"answer": "blue"}),
            "run: is missing; it is a handle such as \"r3\"",
        ),
        (
            "run_start",
            json!({"goal": "x", "limits": {"tokens": "many"}}),
            "limits: tokens: must be a non-negative integer, not \"many\"",
        ),
        (
            "admin_archive",
            json!({"ids": 7}),
            "ids: must be a list of strings such as [\"e42\", \"e43\"], not 7",
        ),
    ] {
        let (text, code) = pair.refused(tool, arguments).await;
        assert!(
            code == "arguments_invalid" || code == "observation_malformed",
            "{tool}: {text}"
        );
        assert!(text.contains(says), "{tool}: {text}");
    }
    pair.end().await;
}

#[tokio::test]
async fn only_tools_that_the_role_may_use_are_offered_m7_7() {
    for (role, hidden) in [
        (Role::Human, vec![]),
        (Role::Client, vec!["admin_restore", "admin_forget"]),
        (
            Role::Tool,
            vec![
                "scratch_pin",
                "scratch_unpin",
                "run_start",
                "run_answer",
                "admin_archive",
                "admin_restore",
                "admin_forget",
            ],
        ),
    ] {
        let mut options = options();
        (options.role, options.sets) = (role, ToolSet::ALL.to_vec());
        let pair = Pair::new(Era::Sessions, options).await;
        let tools = pair.client.list_all_tools().await.unwrap();
        assert_eq!(tools.len(), 22 - hidden.len(), "{role:?}");
        assert!(tools.iter().all(|tool| !hidden.contains(&&*tool.name)), "{role:?}");
        if role == Role::Client {
            let (_, code) = pair
                .refused("admin_forget", json!({"ids": ["e1"], "reason": "x"}))
                .await;
            assert_eq!(code, "role_denied", "who calls one all the same is told why not");
        }
        pair.end().await;
    }
}

#[tokio::test]
async fn write_does_not_repeat_a_long_text() {
    let pair = pair().await;
    let long = "the long way of invoices ".repeat(60);
    for (tool, field, arguments) in [
        (
            "scratch_add",
            "body",
            json!({"kind": "task", "title": "Move", "body": long}),
        ),
        (
            "scratch_update",
            "body",
            json!({"id": "e1", "body": format!("{long}!")}),
        ),
        ("observe_add", "content", json!({"content": long})),
        ("observe_update", "content", json!({"id": "e2", "title": "Way"})),
        ("plan_delegate", "body", json!({"title": "Other", "body": long})),
    ] {
        let (text, written) = pair.call(tool, arguments).await;
        assert_eq!(
            (&written[field], &written["left_out"]),
            (&Value::Null, &json!([field])),
            "{tool}"
        );
        assert!(
            written["handle"].is_string() && written["version"].is_number(),
            "{tool}: {written}"
        );
        assert!(text.len() < 400, "{tool}: {text}");
    }
    pair.end().await;
}

#[tokio::test]
async fn model_says_whether_an_observation_came_true_m7_11_6() {
    let pair = pair().await;
    for content in ["It will rain", "It will snow"] {
        pair.call("observe_add", json!({"content": content, "type": "observation"}))
            .await;
    }
    let (_, refuted) = pair
        .call("observe_update", json!({"id": "e2", "outcome": "Refuted"}))
        .await;
    assert_eq!(
        (&refuted["status"], &refuted["outcome"]),
        (&json!("resolved"), &json!("refuted"))
    );
    let both = json!({"id": "e1", "outcome": "confirmed", "status": "resolved"});
    assert_eq!(pair.call("observe_update", both).await.1["outcome"], "confirmed");
    let mixed = json!({"id": "e1", "outcome": "refuted", "title": "x"});
    let (text, code) = pair.refused("observe_update", mixed).await;
    assert!(
        code == "field_immutable" && text.contains("observe_update with `id` and `outcome`"),
        "{text}"
    );
    pair.end().await;
}
