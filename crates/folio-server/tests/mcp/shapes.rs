//! Structured content has the same shapes as on every surface, and stays within the limit.

use folio::Role;
use folio::memory::tokens::{Tokens as _, Vocabulary};
use folio_server::ToolSet;
use serde_json::{Value, json};

use crate::pair::{Era, Pair, options, text};

const OBSERVATION: [&str; 18] = [
    "observation_id",
    "type",
    "content",
    "confidence",
    "tags",
    "source",
    "context",
    "ttl_minutes",
    "expires_at",
    "handle",
    "status",
    "owner",
    "metadata",
    "version",
    "updated_at",
    "created_at",
    "trust",
    "state",
];
const ITEM: [&str; 11] = [
    "handle",
    "item_id",
    "kind",
    "status",
    "title",
    "body",
    "tags",
    "pinned",
    "created_at_nanoseconds",
    "updated_at_nanoseconds",
    "version",
];
const PAGE: [&str; 8] = [
    "page_id", "handle", "type_key", "role", "title", "owner", "props", "version",
];
const LIST: [&str; 6] = ["items", "returned", "total", "next", "as_of", "tokens"];

async fn pair(role: Role) -> Pair {
    let mut options = options();
    options.role = role;
    options.sets = ToolSet::ALL.to_vec();
    Pair::new(Era::Requests, options).await
}

fn assert_has(shape: &Value, fields: &[&str]) {
    let missing: Vec<_> = fields.iter().filter(|field| shape.get(field).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?} are missing: {shape}");
}

/// Calls a tool whose answer has to stay within the limit.
async fn bounded(pair: &Pair, tool: &str, arguments: Value) -> (String, Value) {
    let (text, structured) = pair.call(tool, arguments).await;
    let tokens = Vocabulary::O200k.count(&text) + Vocabulary::O200k.count(&structured.to_string());
    assert!(tokens <= 2_000, "{tool}: {tokens}");
    (text, structured)
}

#[tokio::test]
async fn every_tool_returns_the_full_observation_shape() {
    let pair = pair(Role::Client).await;
    let content = "The tests need a database";
    let input = json!({
        "content": content,
        "tags": ["tests"],
        "confidence": 0.9,
        "context": {"goal_id": "g1"},
        "ttl_minutes": 60,
    });
    let (_, added) = pair.call("observe_add", input).await;
    let (_, noted) = pair
        .call("scratch_add", json!({"kind": "observation", "body": content}))
        .await;
    let (_, changed) = pair.call("observe_update", json!({"id": "e1", "title": "Needs"})).await;
    let (_, read) = pair.call("scratch_read", json!({"id": "e1"})).await;
    for shape in [&added, &noted, &changed, &read] {
        assert_has(shape, &OBSERVATION);
        assert_eq!(shape["content"], content);
        assert_eq!(shape["source"]["turn_id"], Value::Null);
    }
    assert_eq!(read["context"], json!({"goal_id": "g1"}));
    for (tool, arguments) in [
        ("observe_list", json!({})),
        ("memory_search", json!({"query": "database"})),
        ("scratch_read", json!({"page": "observations"})),
        ("scratch_read", json!({"query": "database"})),
    ] {
        let (_, list) = pair.call(tool, arguments).await;
        assert_has(&list, &LIST);
        assert_eq!(
            (list["items"].as_array().unwrap().len(), &list["brief"]),
            (2, &Value::Null)
        );
        for item in list["items"].as_array().unwrap() {
            assert_has(item, &OBSERVATION);
            assert_eq!(item["content"], content, "{tool}");
        }
    }
    pair.end().await;
}

#[tokio::test]
async fn every_tool_returns_the_full_item_shape() {
    let pair = pair(Role::Client).await;
    let task = json!({"kind": "task", "title": "Move", "body": "All of it", "phase": "draft"});
    let (_, added) = pair.call("scratch_add", task).await;
    let (_, changed) = pair.call("scratch_update", json!({"id": "e1", "progress": 0.5})).await;
    let (_, pinned) = pair.call("scratch_pin", json!({"id": "e1"})).await;
    let (_, unpinned) = pair.call("scratch_unpin", json!({"id": "e1"})).await;
    let (_, read) = pair.call("scratch_read", json!({"id": "e1"})).await;
    let (_, ready) = pair.call("plan_ready", json!({})).await;
    assert_has(&ready, &LIST);
    let (_, book) = pair.call("scratch_read", json!({"page": "book"})).await;
    assert_has(&book, &LIST);
    let (_, claimed) = pair.call("plan_claim", json!({"id": "e1"})).await;
    let (_, reported) = pair.call("plan_report", json!({"id": "e1", "status": "done"})).await;
    let mut shapes = vec![&added, &changed, &pinned, &unpinned, &read];
    shapes.extend([&ready["items"][0], &book["items"][0], &claimed["claimed"], &reported]);
    for shape in shapes {
        assert_has(shape, &ITEM);
        assert_has(shape, &["phase"]);
        assert_eq!(shape["body"], "All of it");
    }
    assert_eq!((&pinned["pinned"], &unpinned["pinned"]), (&json!(true), &json!(false)));
    pair.end().await;
}

#[tokio::test]
async fn memory_page_returns_the_page_shape_with_its_text() {
    let pair = pair(Role::Client).await;
    let body = "A line about migrations that is not short.\n".repeat(400);
    pair.call("scratch_add", json!({"kind": "note", "title": "Long", "body": body}))
        .await;
    let (tree, _) = pair.call("scratch_read", json!({"page": "tree"})).await;
    let page = tree.split_whitespace().next().unwrap();
    let mut arguments = json!({"id": page});
    let mut parts = 0;
    loop {
        let (_, read) = bounded(&pair, "memory_page", arguments.clone()).await;
        // What does not change is told once, with the first part.
        match parts {
            0 => assert_has(&read, &PAGE),
            _ => assert_eq!(read["props"], Value::Null, "{read}"),
        }
        assert_has(&read, &["page_id", "handle", "version", "page", "next", "tokens"]);
        assert_eq!((&read["handle"], &read["left_out"]), (&json!(page), &Value::Null));
        parts += 1;
        let Some(next) = read["next"].as_str() else { break };
        arguments["cursor"] = next.into();
    }
    assert!(parts > 1);
    pair.end().await;
}

#[tokio::test]
async fn list_over_the_token_limit_marks_its_items_as_brief() {
    let pair = pair(Role::Client).await;
    for n in 0..15 {
        let content = format!("Number {n}: {}", "the long way of invoices ".repeat(8));
        pair.call("observe_add", json!({"content": content})).await;
    }
    for (tool, arguments) in [
        ("observe_list", json!({})),
        ("memory_search", json!({"query": "invoices"})),
        ("scratch_read", json!({"page": "observations"})),
    ] {
        let (text, list) = bounded(&pair, tool, arguments).await;
        assert_has(&list, &LIST);
        assert_eq!(list["left_out"], Value::Null);
        assert_eq!(list["brief"], true, "{tool}: {list}");
        let handle = list["items"][0]["handle"].as_str().unwrap();
        assert!(text.starts_with(handle), "{tool}: {text}");
    }
    pair.end().await;
}

#[tokio::test]
async fn text_read_in_parts_is_complete_in_structured_content() {
    let pair = pair(Role::Client).await;
    let long = "Every second \"line\" of it is about invoices.\n".repeat(300);
    let context = json!({"goal_id": "g1", "place": "the old mill ".repeat(20)});
    let (_, added) = bounded(&pair, "observe_add", json!({"content": long, "context": context})).await;
    assert_eq!(added["left_out"], json!(["content"]));
    assert_eq!(added["context"], context);
    pair.call("scratch_add", json!({"kind": "note", "title": "Long", "body": long}))
        .await;
    for (id, field, shape) in [("e1", "content", &OBSERVATION[..]), ("e2", "body", &ITEM[..])] {
        let mut whole = String::new();
        let mut arguments = json!({ "id": id });
        loop {
            let (_, read) = bounded(&pair, "scratch_read", arguments.clone()).await;
            if arguments["cursor"].is_null() {
                assert_has(&read, shape);
            } else {
                let mut names: Vec<_> = read.as_object().unwrap().keys().map(String::as_str).collect();
                names.sort_unstable();
                let mut expected = [field, "handle", "next", "version"];
                expected.sort_unstable();
                assert_eq!(names, expected, "a later part repeats nothing");
            }
            assert_eq!(read["left_out"], Value::Null, "{id}");
            whole.push_str(read[field].as_str().unwrap());
            let Some(next) = read["next"].as_str() else { break };
            arguments["cursor"] = next.into();
        }
        assert_eq!(whole.trim_end(), long.trim_end(), "{id}");
    }
    pair.end().await;
}

#[tokio::test]
async fn oversized_input_yields_a_short_answer_naming_omitted_fields() {
    let pair = pair(Role::Client).await;
    let much = "the long way of invoices ".repeat(600);
    let input = json!({"content": "short", "context": {"much": much}});
    let (_, added) = bounded(&pair, "observe_add", input).await;
    assert_eq!(added["left_out"], json!(["context"]));
    assert_eq!(added["content"], "short");
    let (_, delegated) = bounded(&pair, "plan_delegate", json!({"title": "Move", "body": much})).await;
    assert_eq!(delegated["left_out"], json!(["body"]));
    let (text, claimed) = bounded(&pair, "plan_claim", json!({})).await;
    assert!(text.contains("(the rest: scratch_read id \"e2\")"), "{text}");
    assert_eq!(claimed["left_out"], json!(["body"]));
    assert_has(&claimed["claimed"], &["item_id", "title", "version"]);
    pair.end().await;
}

#[tokio::test]
async fn failure_stays_within_the_token_limit() {
    let pair = pair(Role::Client).await;
    let much = "the long way of invoices ".repeat(600);
    let input = json!({"content": "short", "context": {"much": much}});
    pair.call("observe_add", input).await;
    pair.call("observe_update", json!({"id": "e1", "title": "x"})).await;
    let steps: Vec<_> = (0..100)
        .map(|n| json!({"id": format!("s{n}"), "do": {"tool": "none"}}))
        .collect();
    let stale = json!({"id": "e1", "title": "y", "expected_version": 1});
    for (tool, arguments, code, left_out) in [
        ("observe_update", stale, "stale_version", Some("context")),
        (
            "run_start",
            json!({"plan": {"title": "x", "steps": steps}}),
            "plan_invalid",
            Some("errors"),
        ),
        (
            "observe_update",
            json!({"id": {"much": much}}),
            "arguments_invalid",
            None,
        ),
        ("run_status", json!({"run": much}), "arguments_invalid", None),
        (
            "scratch_read",
            json!({"thread": {"much": much}}),
            "arguments_invalid",
            None,
        ),
    ] {
        let result = pair.try_call(tool, arguments).await.unwrap();
        let (text, problem) = (text(&result), result.structured_content.unwrap());
        assert_eq!(
            (result.is_error, &problem["code"]),
            (Some(true), &json!(code)),
            "{text}"
        );
        let tokens = Vocabulary::O200k.count(&text) + Vocabulary::O200k.count(&problem.to_string());
        assert!(tokens <= 2_000, "{tool}: {tokens}");
        if let Some(field) = left_out {
            assert_eq!(problem["left_out"], json!([field]), "{tool}");
        }
    }
    pair.end().await;
}

#[tokio::test]
async fn long_ready_list_is_cut_to_the_token_limit() {
    let pair = pair(Role::Client).await;
    for n in 0..40 {
        let title = format!("Number {n} of {}", "those that are many ".repeat(20));
        pair.call("plan_delegate", json!({"title": title})).await;
    }
    let after: Vec<_> = (1..=30).map(|n| format!("e{n}")).collect();
    for title in ["one", "two"] {
        pair.call("plan_delegate", json!({"title": title, "after": after}))
            .await;
    }
    let (text, ready) = bounded(&pair, "plan_ready", json!({"limit": 50})).await;
    assert!(text.contains("ready, and more: go on with cursor"), "{text}");
    assert!(text.contains("e42 for e1, e2, e3, e4, e5 and 25 more"), "{text}");
    assert_eq!((&ready["total"], ready["next"].is_string()), (&json!(40), true));
    assert_eq!(
        ready["items"].as_array().unwrap().len(),
        usize::try_from(ready["returned"].as_u64().unwrap()).unwrap()
    );
    pair.end().await;
}

#[tokio::test]
async fn admin_archive_returns_the_full_observation_shape() {
    let pair = pair(Role::Human).await;
    pair.call("observe_add", json!({"content": "The tests need a database"}))
        .await;
    let (_, archived) = pair.call("admin_archive", json!({"ids": ["e1"]})).await;
    assert_has(&archived, &LIST);
    assert_has(&archived["items"][0], &OBSERVATION);
    assert_eq!(archived["items"][0]["state"], "archived");
    pair.end().await;
}
