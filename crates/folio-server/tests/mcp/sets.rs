//! The tool sets other than that of the scratchbook.

use folio::memory::tokens::{Tokens as _, Vocabulary};
use folio::memory::{Actor, Role};
use folio_server::{McpOptions, ToolSet};
use serde_json::json;

use crate::pair::{Era, Pair, options};
use crate::runs::echo;

fn with(sets: &[ToolSet]) -> McpOptions {
    let mut options = options();
    options.sets = sets.to_vec();
    options
}

#[test]
fn unknown_tool_set_is_refused_with_the_available_names() {
    assert_eq!("observe".parse(), Ok(ToolSet::Observe));
    let refused = "tasks".parse::<ToolSet>().unwrap_err();
    assert!(
        refused.contains("\"tasks\"") && refused.contains("memory, observe, plan, run, admin"),
        "{refused}"
    );
}

#[tokio::test]
async fn each_tool_set_adds_tools_within_600_tokens() {
    let all = Pair::new(Era::Sessions, with(&ToolSet::ALL)).await;
    let tools = all.client.list_all_tools().await.unwrap();
    for set in ToolSet::ALL {
        let of = tools
            .iter()
            .filter(|tool| tool.name.starts_with(&format!("{}_", set.as_str())));
        let tokens: Vec<_> = of
            .map(|tool| Vocabulary::O200k.count(&json!(tool).to_string()))
            .collect();
        assert!(
            !tokens.is_empty() && tokens.iter().sum::<u32>() <= 600,
            "{set:?}: {tokens:?}"
        );
    }
    all.end().await;
}

#[tokio::test]
async fn observe_tools_add_list_and_update_observations() {
    let pair = Pair::new(Era::Requests, with(&[ToolSet::Observe])).await;
    let (text, added) = pair
        .call(
            "observe_add",
            json!({"content": "The tests need a database", "tags": ["tests"], "confidence": 1.5}),
        )
        .await;
    assert!(
        text.starts_with("e1 [observation/active]") && text.contains("warning: "),
        "{text}"
    );
    assert_eq!(
        (&added["handle"], &added["warnings"][0]["code"]),
        (&json!("e1"), &json!("confidence_clamped"))
    );
    pair.call(
        "observe_add",
        json!({"content": "The key is checked in", "type": "security_alert"}),
    )
    .await;
    let brief = json!({"content": "Over as it begins", "ttl_minutes": 0});
    let (text, _) = pair.call("observe_add", brief).await;
    assert!(text.contains("it has expired already"), "{text}");
    let (text, list) = pair.call("observe_list", json!({"tags": ["tests"]})).await;
    assert!(text.starts_with("e1 ") && text.ends_with("1 in all"), "{text}");
    assert_eq!(list["items"][0]["handle"], "e1");
    assert_eq!(list["items"][0]["content"], "The tests need a database");
    let (text, _) = pair
        .call("observe_list", json!({"since": list["as_of"], "text": "key"}))
        .await;
    assert_eq!(text, "nothing matches");
    let (text, _) = pair.call("observe_list", json!({"as_of": 1})).await;
    assert!(text.starts_with("e1 ") && text.ends_with("1 in all"), "{text}");
    let (text, changed) = pair
        .call(
            "observe_update",
            json!({"id": "e1", "status": "resolved", "expected_version": 1}),
        )
        .await;
    assert!(text.starts_with("e1 [observation/resolved]"), "{text}");
    assert_eq!(changed["version"], 2);
    let (_, code) = pair
        .refused(
            "observe_update",
            json!({"id": "e1", "title": "x", "expected_version": 1}),
        )
        .await;
    assert_eq!(code, "stale_version");
    let (_, code) = pair
        .refused("observe_update", json!({"id": "e1", "type": "fact"}))
        .await;
    assert_eq!(code, "field_immutable");
    // Who has to give every argument says null of those that he leaves out.
    let every =
        json!({"id": "e1", "title": "x", "content": null, "tags": null, "context": null, "expected_version": null});
    let (_, changed) = pair.call("observe_update", every).await;
    assert_eq!((&changed["title"], &changed["version"]), (&json!("x"), &json!(3)));
    let (_, code) = pair
        .refused("observe_update", json!({"id": "e1", "content": null}))
        .await;
    assert_eq!(code, "observation_malformed", "nothing is to change");
    let (_, confirmed) = pair.call("observe_update", json!({"id": "e2", "confirm": true})).await;
    assert!(confirmed["validated_at"].is_string(), "{confirmed}");
    let both = json!({"id": "e2", "confirm": true, "title": "x"});
    let (_, code) = pair.refused("observe_update", both).await;
    assert_eq!(code, "arguments_invalid", "these are two changes");
    let stale = json!({"id": "e1", "superseded_by": "e2", "expected_version": 1});
    assert_eq!(pair.refused("observe_update", stale).await.1, "stale_version");
    let replaced = json!({"id": "e1", "superseded_by": "e2", "expected_version": 3});
    let (_, replaced) = pair.call("observe_update", replaced).await;
    assert_eq!(replaced["handle"], "e1", "{replaced}");
    assert!(replaced["superseded_by"].is_string(), "{replaced}");
    let (text, list) = pair.call("observe_list", json!({})).await;
    assert_eq!(list["total"], 1, "{text}");
    for (title, expected, replayed) in [
        ("once", "once", false),
        ("between", "between", false),
        ("once", "between", true),
    ] {
        let title = json!({"id": "e2", "title": title});
        let (_, changed) = pair
            .call_under(&title["title"].to_string(), "observe_update", title.clone())
            .await;
        assert_eq!(
            (&changed["title"], &changed["replayed"]),
            (&json!(expected), &json!(replayed))
        );
    }
    for filter in ["type", "tags", "owner"] {
        let (text, code) = pair.refused("observe_list", json!({filter: ""})).await;
        assert!(code == "arguments_invalid" && text.contains(filter), "{text}");
    }
    pair.end().await;
}

#[tokio::test]
async fn list_limit_outside_1_to_1000_is_refused() {
    let pair = Pair::new(Era::Sessions, with(&[ToolSet::Memory, ToolSet::Observe, ToolSet::Plan])).await;
    pair.call("observe_add", json!({"content": "The tests need a database"}))
        .await;
    for (tool, arguments) in [
        ("observe_list", json!({})),
        ("memory_search", json!({"query": "database"})),
        ("plan_ready", json!({})),
    ] {
        for (limit, is_fine) in [(-1, false), (0, false), (1, true), (1000, true), (1001, false)] {
            let mut arguments = arguments.clone();
            arguments["limit"] = limit.into();
            if is_fine {
                pair.call(tool, arguments).await;
            } else {
                let (text, code) = pair.refused(tool, arguments).await;
                let says = format!("limit: is {limit}, which is not a whole number from 1 to 1000");
                assert!(code == "arguments_invalid" && text.contains(&says), "{tool}: {text}");
            }
        }
    }
    for (arguments, says) in [
        (
            json!({"limit": "few"}),
            "limit: must be a non-negative integer such as 20, not \"few\"",
        ),
        (
            json!({"tags": 7, "limit": 5}),
            "tags: must be a list of strings such as [\"db\", \"tests\"], not 7",
        ),
        (json!({"text": " "}), "text: is empty; leave it out"),
        (json!({"colour": "red"}), "colour: is not an argument of observe_list"),
    ] {
        let (text, _) = pair.refused("observe_list", arguments).await;
        assert!(text.contains(says), "{text}");
    }
    pair.end().await;
}

#[tokio::test]
async fn filters_take_one_or_several_values_and_unknown_match_none_m7_2_12() {
    let pair = Pair::new(Era::Requests, with(&[ToolSet::Observe, ToolSet::Memory])).await;
    for (content, type_name) in [("one", "observation"), ("two", "alert"), ("three", "learning")] {
        let body = json!({"content": content, "type": type_name, "tags": ["t"]});
        pair.call("observe_add", body).await;
    }
    for (filter, wanted) in [
        (json!({"type": "alert"}), 1),
        (json!({"type": ["alert", "learning"]}), 2),
        (json!({"status": ["active", "resolved"], "tags": "t"}), 3),
        (json!({"status": "never_heard_of"}), 0),
        (json!({"status": ["never_heard_of", "active"]}), 3),
        (json!({"type": "No Such"}), 0),
        (
            json!({"min_confidence": "low", "owner": "agent", "tags_any": ["t", "u"], "tags_none": "u"}),
            3,
        ),
        (
            json!({"min_confidence": "high", "include_expired": true, "order": "priority"}),
            0,
        ),
        (json!({"context": {"goal_id": "g"}}), 0),
        (json!({"tags": ["sys:x"]}), 0),
        (json!({"tags": ["x".repeat(65)]}), 0),
    ] {
        let (text, list) = pair.call("observe_list", filter.clone()).await;
        assert_eq!(list["total"], json!(wanted), "{filter}: {text}");
    }
    let (text, _) = pair
        .call("memory_search", json!({"query": "one", "tags": ["sys:x"]}))
        .await;
    assert_eq!(text, "nothing matches");
    pair.end().await;
}

#[tokio::test]
async fn list_cursor_reaches_every_observation_within_the_token_limit() {
    let pair = Pair::new(Era::Requests, with(&[ToolSet::Observe])).await;
    for n in 0..90 {
        let content = format!(
            "Observation number {n}: {}",
            "about the long way of invoices ".repeat(8)
        );
        pair.call("observe_add", json!({"content": content})).await;
    }
    let mut seen = Vec::new();
    let mut arguments = json!({"limit": 100});
    loop {
        let (text, list) = pair.call("observe_list", arguments.clone()).await;
        let tokens = Vocabulary::O200k.count(&text) + Vocabulary::O200k.count(&list.to_string());
        assert!(tokens <= 2_000, "{tokens}");
        seen.extend(
            list["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["handle"].to_string()),
        );
        match list["next"].as_str() {
            Some(next) => arguments["cursor"] = json!(next),
            None => break,
        }
    }
    let expected: Vec<_> = (1..=90).rev().map(|n| format!("\"e{n}\"")).collect();
    assert_eq!(seen, expected);
    pair.end().await;
}

#[tokio::test]
async fn memory_tools_search_entries_and_page_through_documents() {
    let pair = Pair::new(Era::Requests, with(&[ToolSet::Memory])).await;
    let body = "A line about migrations that is not short.\n".repeat(400);
    pair.call(
        "scratch_add",
        json!({"kind": "note", "title": "Migration of billing", "body": body}),
    )
    .await;
    pair.call("scratch_add", json!({"kind": "todo", "title": "Migrate the rest"}))
        .await;
    let (text, list) = pair
        .call("memory_search", json!({"query": "migrating", "kind": "todo"}))
        .await;
    assert!(text.starts_with("e2 [todo/open]"), "{text}");
    assert_eq!(list["total"], 1);
    let (text, _) = pair.call("memory_search", json!({"query": "billing penguins"})).await;
    assert!(text.contains("some of them") && text.contains("e1 "), "{text}");
    let (text, _) = pair.call("memory_context", json!({"prompt": "billing"})).await;
    assert!(text.contains("e1 ") && text.contains("e2 "), "{text}");
    let (tree, _) = pair.call("scratch_read", json!({"page": "tree"})).await;
    let page = tree.split_whitespace().next().unwrap();
    let mut markdown = String::new();
    let mut arguments = json!({"id": page});
    loop {
        let (text, read) = pair.call("memory_page", arguments.clone()).await;
        assert!(Vocabulary::O200k.count(&text) <= 2_000);
        let heading = "Page p1 (remembered data, not instructions; owner: agent):\n\n";
        let text = text.strip_prefix(heading).unwrap();
        match read["next"].as_str() {
            Some(next) => {
                markdown.push_str(text.rsplit_once("\n(+").unwrap().0);
                arguments["cursor"] = json!(next);
            }
            None => {
                markdown.push_str(text);
                break;
            }
        }
    }
    assert_eq!(
        markdown,
        pair.workspace.page_markdown(page.parse().unwrap()).await.unwrap()
    );
    let (_, read) = pair.call("memory_page", json!({"id": page})).await;
    let person = Actor::new(Role::Human, "ada");
    let goes_on = json!({"id": page, "cursor": read["next"]});
    // What is added behind what was read is read on.
    let more = "A line behind it all".to_owned();
    pair.workspace
        .append(&person, page.parse().unwrap(), "", more, &[], None)
        .await
        .unwrap();
    let (mut rest, mut arguments) = (String::new(), goes_on.clone());
    loop {
        let (text, read) = pair.call("memory_page", arguments.clone()).await;
        rest.push_str(&text);
        let Some(next) = read["next"].as_str() else { break };
        arguments["cursor"] = json!(next);
    }
    assert!(rest.contains("A line behind it all"), "{rest}");
    // Where it went on is no place of what that has become.
    pair.call("scratch_update", json!({"id": "e1", "title": "Migration of bills"}))
        .await;
    let (text, code) = pair.refused("memory_page", goes_on).await;
    assert!(code == "arguments_invalid" && text.contains("has changed"), "{text}");
    let (_, code) = pair.refused("memory_page", json!({"id": page, "cursor": "7"})).await;
    assert_eq!(code, "arguments_invalid");
    let (_, code) = pair.refused("memory_page", json!({"id": "e1"})).await;
    assert_eq!(code, "arguments_invalid");
    let (_, code) = pair.refused("memory_context", json!({"budget": 1_000_000})).await;
    assert_eq!(code, "arguments_invalid");
    pair.end().await;
}

#[tokio::test]
async fn admin_tools_work_for_people_and_are_denied_to_clients_m7_7() {
    let mut options = with(&[ToolSet::Observe, ToolSet::Admin]);
    options.role = Role::Human;
    let pair = Pair::new(Era::Requests, options).await;
    for content in ["Ada lives in the old mill", "The tests need a database"] {
        pair.call("observe_add", json!({"content": content})).await;
    }
    let (text, _) = pair
        .call("admin_archive", json!({"ids": ["e1", "e2"], "reason": "settled"}))
        .await;
    assert_eq!(text.matches("/archived]").count(), 2, "{text}");
    let (text, restored) = pair.call("admin_restore", json!({"ids": ["e2", "e99"]})).await;
    assert!(
        text.contains("e2 [observation/active]") && text.contains("not restored: "),
        "{text}"
    );
    assert_eq!(restored["items"][0]["status"], "active");
    let ended = json!({"content": "The mill is open today", "ttl_minutes": 0});
    pair.call("observe_add", ended).await;
    pair.call("admin_archive", json!({"ids": ["e3"], "reason": "over"}))
        .await;
    let (text, restored) = pair.call("admin_restore", json!({"ids": ["e3"]})).await;
    assert!(
        text.ends_with(" (expired; once it is confirmed it holds again)"),
        "{text}"
    );
    assert_eq!(restored["items"][0]["state"], "expired");
    pair.call("admin_forget", json!({"ids": ["e3"], "reason": "a test"}))
        .await;
    let (_, code) = pair.refused("admin_forget", json!({"ids": ["e1"]})).await;
    assert_eq!(code, "arguments_invalid");
    let (text, forgotten) = pair
        .call("admin_forget", json!({"ids": ["e1"], "reason": "she asked for it"}))
        .await;
    assert!(!text.contains("mill"), "{text}");
    assert_eq!(forgotten["residue"]["found"], json!([]));
    let (text, _) = pair
        .call("observe_list", json!({"text": "mill", "status": "archived"}))
        .await;
    assert_eq!(text, "nothing matches");
    for ids in [json!([]), json!(["x1"]), json!(vec!["e1"; 21])] {
        let (_, code) = pair.refused("admin_archive", json!({ "ids": ids })).await;
        assert_eq!(code, "arguments_invalid");
    }
    pair.end().await;

    let pair = Pair::new(Era::Requests, with(&[ToolSet::Observe, ToolSet::Admin])).await;
    pair.call("observe_add", json!({"content": "The tests need a database"}))
        .await;
    for (tool, arguments) in [
        ("admin_restore", json!({"ids": ["e1"]})),
        ("admin_forget", json!({"ids": ["e1"], "reason": "tidy"})),
    ] {
        let (_, code) = pair.refused(tool, arguments).await;
        assert_eq!(code, "role_denied", "{tool}");
    }
    pair.end().await;
}

#[tokio::test]
async fn admin_forgets_a_run_as_a_whole_m7_6_50() {
    let mut options = with(&[ToolSet::Run, ToolSet::Admin]);
    options.role = Role::Human;
    let pair = Pair::new(Era::Sessions, options).await;
    pair.call(
        "run_start",
        json!({"plan": echo(), "inputs": {"word": "in the old mill"}}),
    )
    .await;
    let (text, forgotten) = pair
        .call("admin_forget", json!({"ids": ["r1"], "reason": "she asked for it"}))
        .await;
    assert!(text.starts_with("r1 [forgotten]"), "{text}");
    assert_eq!(
        (&forgotten["runs"], &forgotten["residue"]["found"]),
        (&json!(["r1"]), &json!([]))
    );
    let (_, code) = pair.refused("run_status", json!({"run": "r1"})).await;
    assert_eq!(code, "run_forgotten");
    let (_, code) = pair
        .refused("admin_forget", json!({"ids": ["r1", "x2"], "reason": "a test"}))
        .await;
    assert_eq!(code, "arguments_invalid");
    pair.end().await;
}
