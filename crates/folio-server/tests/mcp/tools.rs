//! The six tools of the scratchbook.

use folio::memory::Seq;
use folio::memory::tokens::{Tokens as _, Vocabulary};
use folio::{Actor, Role, SpaceName, ThreadKey};
use folio_server::{McpOptions, ToolSet};
use rmcp::model::{
    ArgumentInfo, CallToolRequestParams, CompleteRequestParams, GetPromptRequestParams, Reference, RequestMetaObject,
};
use serde_json::{Value, json};

use crate::pair::{Era, Pair, Plain, options, runner, switch_scratchbooks_off};

const SIX: [&str; 6] = [
    "scratch_read",
    "scratch_add",
    "scratch_update",
    "scratch_complete",
    "scratch_pin",
    "scratch_unpin",
];

#[tokio::test]
async fn default_tools_are_exactly_six_within_700_tokens() {
    for era in Era::BOTH {
        let pair = Pair::new(era, options()).await;
        let tools = pair.client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, SIX);
        // Whoever counts them may write them with a space after each comma and colon, as Python does.
        let sent = json!(tools).to_string();
        let spaced = sent
            .replace("\":", "\": ")
            .replace(",\"", ", \"")
            .replace("},{", "}, {");
        let tokens = Vocabulary::O200k.count(&spaced);
        assert!(tokens <= 700, "{tokens}: {spaced}");
        pair.end().await;
    }
}

#[tokio::test]
async fn scratchbook_tools_are_hidden_when_the_policy_disables_them() {
    for era in Era::BOTH {
        let runner = runner().await;
        let mut options = options();
        options.sets = vec![ToolSet::Observe];
        let pair = Pair::of(era, options, &runner, Plain).await;
        switch_scratchbooks_off(&runner).await;
        let tools = pair.client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, ["observe_add", "observe_list", "observe_update"]);
        // Who calls one all the same is told why not.
        let (_, code) = pair.refused("scratch_read", json!({})).await;
        assert_eq!(code, "scratchbook_off");
        pair.end().await;
    }
}

#[tokio::test]
async fn tool_annotations_state_their_effect_on_memory() {
    let pair = Pair::new(Era::Sessions, options()).await;
    let tools = pair.client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), SIX.len());
    for tool in tools {
        let hints = tool.annotations.unwrap();
        let reads = tool.name == "scratch_read";
        assert_eq!(hints.read_only_hint.unwrap_or(false), reads, "{}", tool.name);
        assert!(reads || hints.destructive_hint == Some(false), "{}", tool.name);
        assert_eq!(
            hints.idempotent_hint, None,
            "{}: a hint costs tokens with each request",
            tool.name
        );
    }
    pair.end().await;
}

#[tokio::test]
async fn scratchbook_tools_add_update_pin_complete_and_find_items() {
    for era in Era::BOTH {
        let pair = Pair::new(era, options()).await;
        let (text, item) = pair
            .call(
                "scratch_add",
                json!({"kind": "task", "title": "Move the tables", "phase": "draft"}),
            )
            .await;
        assert_eq!(text, "e1 [task/open] Move the tables (draft)");
        assert_eq!((&item["handle"], &item["trust"]), (&json!("e1"), &json!("model")));
        pair.call(
            "scratch_add",
            json!({"kind": "note", "title": "The invoices come last"}),
        )
        .await;
        pair.call("scratch_update", json!({"id": "e1", "status": "in_progress"}))
            .await;
        pair.call("scratch_pin", json!({"id": "e2"})).await;
        let (text, _) = pair.call("scratch_pin", json!({"id": "e2"})).await;
        assert_eq!(text, "e2 [note/active] The invoices come last (pinned)");
        let (view, shown) = pair.call("scratch_read", json!({})).await;
        assert!(
            view.contains("e1 [task/in_progress]") && view.contains("Pinned:\ne2"),
            "{view}"
        );
        assert_eq!(shown["view"], view);
        pair.call("scratch_unpin", json!({"id": "e2"})).await;
        pair.call("scratch_complete", json!({"id": "e1"})).await;
        let (view, _) = pair.call("scratch_read", json!({})).await;
        assert!(!view.contains("Pinned") && !view.contains("Move the tables"), "{view}");
        let (found, list) = pair.call("scratch_read", json!({"query": "tables"})).await;
        assert!(found.starts_with("e1 [task/done]"), "{found}");
        assert_eq!((&list["total"], &list["items"][0]["handle"]), (&json!(1), &json!("e1")));
        pair.end().await;
    }
}

#[tokio::test]
async fn empty_thread_is_the_thread_of_the_server() {
    let pair = Pair::new(Era::Requests, options()).await;
    let note = json!({"kind": "note", "title": "Bread", "thread": ""});
    pair.call("scratch_add", note).await;
    for arguments in [json!({}), json!({"thread": ""}), json!({"thread": null})] {
        let (text, _) = pair.call("scratch_read", arguments.clone()).await;
        assert!(text.contains("Bread"), "{arguments}: {text}");
    }
    pair.end().await;
}

#[tokio::test]
async fn tool_errors_are_readable_content_with_a_code() {
    let pair = Pair::new(Era::Requests, options()).await;
    for (name, arguments, code, said) in [
        ("scratch_pin", json!({"id": "e9"}), "not_found", "there is no entry e9"),
        (
            "scratch_add",
            json!({"kind": "memo"}),
            "arguments_invalid",
            "note, todo, task",
        ),
        ("scratch_add", json!({"kind": "note"}), "title_empty", "title"),
        ("scratch_read", json!({"thread": 7}), "arguments_invalid", "thread"),
    ] {
        let (text, got) = pair.refused(name, arguments.clone()).await;
        assert!(
            text.starts_with(&format!("{code}: ")) && text.contains(said),
            "{arguments}: {text}"
        );
        assert_eq!(got, code);
    }
    let error = pair
        .try_call("scratch_forget", json!({}))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("there are scratch_read, scratch_add"), "{error}");
    pair.end().await;
}

#[tokio::test]
async fn scratch_read_answer_stays_within_2000_tokens_with_a_cursor() {
    let pair = Pair::new(Era::Requests, options()).await;
    let long = "Every second line of it is about invoices.\n".repeat(600);
    pair.call("scratch_add", json!({"kind": "note", "title": "Long", "body": long}))
        .await;
    for n in 0..150 {
        let title = format!("Number {n} of those that are many");
        pair.call(
            "scratch_add",
            json!({"kind": "note", "title": title, "body": "word ".repeat(40)}),
        )
        .await;
    }
    let mut whole = String::new();
    for arguments in [
        json!({}),
        json!({"id": "e1"}),
        json!({"page": "book"}),
        json!({"query": "many"}),
        json!({"page": "tree"}),
    ] {
        let mut arguments = arguments;
        for _ in 0..40 {
            let result = pair.try_call("scratch_read", arguments.clone()).await.unwrap();
            let text = crate::pair::text(&result);
            let structured = result.structured_content.map_or(Value::Null, |content| content);
            let tokens = Vocabulary::O200k.count(&text) + Vocabulary::O200k.count(&structured.to_string());
            assert!(tokens <= 2_000, "{arguments}: {tokens}");
            if arguments["id"] == "e1" {
                let (_, part) = text.split_once('\n').unwrap();
                whole.push_str(part.rsplit_once("\n(+").map_or(part, |(part, _)| part));
            }
            let Some(next) = structured["next"].as_str() else { break };
            arguments["cursor"] = json!(next);
        }
    }
    assert_eq!(whole.trim_end(), long.trim_end());
    pair.end().await;
}

#[tokio::test]
async fn scratch_read_budget_covers_text_and_structured_content_together() {
    let pair = Pair::new(Era::Requests, options()).await;
    let long = "Every second \"line\" of it is about invoices.\n".repeat(60);
    let much = json!({"goal_id": "g1", "place": "the old mill ".repeat(60)});
    let observed = json!({"kind": "observation", "body": long, "context": much, "tags": ["alpha", "beta"]});
    let (_, added) = pair.call("scratch_add", observed).await;
    assert_eq!(added["handle"], "e1");
    for n in 0..30 {
        let title = format!("Number {n} of {}", "those that are many ".repeat(20));
        pair.call(
            "scratch_add",
            json!({"kind": "note", "title": title, "tags": ["alpha"]}),
        )
        .await;
    }
    for budget in [1, 200, 300, 500, 1_000, 1_900] {
        for (arguments, least) in [
            (json!({"id": "e1"}), 200),
            (json!({"id": "e2"}), 200),
            (json!({}), 320),
            (json!({"page": "book"}), 400),
            (json!({"query": "many"}), 400),
            (json!({"page": "tree"}), 400),
        ] {
            let mut arguments = arguments;
            arguments["budget"] = budget.into();
            let limit = if least == 320 { budget + 120 } else { budget.max(least) };
            let mut whole = String::new();
            for _ in 0..60 {
                let (text, structured) = pair.call("scratch_read", arguments.clone()).await;
                let tokens = Vocabulary::O200k.count(&text) + Vocabulary::O200k.count(&structured.to_string());
                assert!(tokens <= limit, "{arguments}: {tokens}\n{text}\n{structured}");
                whole.push_str(structured["content"].as_str().unwrap_or_default());
                let Some(next) = structured["next"].as_str() else { break };
                arguments["cursor"] = json!(next);
            }
            if arguments["id"] == "e1" {
                assert_eq!(whole, long, "{budget}");
            }
        }
    }
    pair.end().await;
}

/// The tools, out of all six, that take the argument `thread`.
async fn tools_with_thread(pair: &Pair) -> Vec<String> {
    let tools = pair.client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), SIX.len());
    let takes_thread = tools.iter().filter(|tool| {
        let properties = tool.input_schema["properties"].as_object().unwrap();
        properties.contains_key("thread")
    });
    takes_thread.map(|tool| tool.name.to_string()).collect()
}

#[tokio::test]
async fn thread_argument_selects_the_thread_unless_the_connection_is_bound() {
    let pair = Pair::new(Era::Requests, options()).await;
    pair.call("scratch_add", json!({"kind": "todo", "title": "Here"})).await;
    pair.call(
        "scratch_add",
        json!({"kind": "todo", "title": "There", "thread": "other"}),
    )
    .await;
    let (here, _) = pair.call("scratch_read", json!({})).await;
    let (there, _) = pair.call("scratch_read", json!({"thread": "other"})).await;
    assert!(here.contains("Here") && !here.contains("There"), "{here}");
    assert!(there.contains("There") && !there.contains("Here"), "{there}");
    // What belongs to one is not changed from the other.
    let (text, code) = pair.refused("scratch_complete", json!({"id": "e2"})).await;
    assert!(
        code == "role_denied" && text.contains("with the argument `thread`"),
        "{text}"
    );
    assert_eq!(tools_with_thread(&pair).await, ["scratch_read", "scratch_add"]);
    let there = json!({"id": "e2", "thread": "other"});
    let (text, _) = pair.call("scratch_complete", there).await;
    assert!(text.contains("[todo/done]"), "the others take it, too: {text}");
    pair.end().await;

    let mut bound = options();
    bound.is_bound = true;
    let pair = Pair::new(Era::Requests, bound).await;
    let (_, code) = pair.refused("scratch_read", json!({"thread": "other"})).await;
    assert_eq!(code, "thread_invalid");
    assert_eq!(tools_with_thread(&pair).await, Vec::<String>::new());
    pair.end().await;
}

#[tokio::test]
async fn client_may_pin_an_item_that_a_tool_may_not_m7_7() {
    let mut tool = options();
    tool.role = Role::Tool;
    let runner = runner().await;
    let person = Actor::new(Role::Human, "ada");
    let note = folio::ItemInput {
        kind: folio::memory::EntryKind::Note,
        title: Some("Of a person".to_owned()),
        body: String::new(),
        tags: Vec::new(),
        phase: None,
        progress: None,
    };
    let workspace = runner.workspace();
    workspace
        .add_item(&person, &ThreadKey::main(), note, None)
        .await
        .unwrap();
    let pair = Pair::of(Era::Requests, tool, &runner, Plain).await;
    let (_, code) = pair.refused("scratch_pin", json!({"id": "e1"})).await;
    assert_eq!(code, "role_denied");
    let pinned = async || workspace.entry("e1".parse().unwrap()).await.unwrap().fields.pin_rank;
    assert_eq!(pinned().await, None);
    pair.end().await;
    let pair = Pair::of(Era::Requests, options(), &runner, Plain).await;
    pair.call("scratch_pin", json!({"id": "e1"})).await;
    assert_ne!(pinned().await, None);
    pair.end().await;
}

#[tokio::test]
async fn writer_is_stamped_from_the_connection_m7_3_31() {
    for era in Era::BOTH {
        let pair = Pair::new(era, McpOptions::of(ThreadKey::main())).await;
        pair.call("scratch_add", json!({"kind": "note", "title": "x"})).await;
        let entry = pair.workspace.entry("e1".parse().unwrap()).await.unwrap();
        assert_eq!(entry.fields.source.principal.as_deref(), Some("client:testclient1"));
        pair.end().await;
    }
}

#[tokio::test]
async fn repeated_call_with_the_same_idempotency_key_adds_nothing() {
    let pair = Pair::new(Era::Requests, options()).await;
    for replayed in [false, true] {
        let arguments = json!({"kind": "note", "title": "Once"});
        let mut request =
            CallToolRequestParams::new("scratch_add").with_arguments(arguments.as_object().unwrap().clone());
        let mut meta = RequestMetaObject::new();
        meta.insert("folio/idempotencyKey".to_owned(), json!("k1"));
        request.meta = Some(meta);
        let mut other = request.clone();
        other.arguments.as_mut().unwrap()["title"] = json!("Twice");
        let result = pair.client.call_tool(request).await.unwrap();
        let item = result.structured_content.unwrap();
        assert_eq!((&item["handle"], &item["replayed"]), (&json!("e1"), &json!(replayed)));
        let refused = pair.client.call_tool(other).await.unwrap();
        assert_eq!(refused.is_error, Some(true));
        assert_eq!(refused.structured_content.unwrap()["code"], "key_reused");
    }
    pair.end().await;
}

#[tokio::test]
async fn repeated_complete_pin_or_unpin_under_one_key_changes_nothing_more() {
    let pair = Pair::new(Era::Requests, options()).await;
    pair.call("scratch_add", json!({"kind": "todo", "title": "Once"})).await;
    let pinned = json!({"id": "e1"});
    for (tool, undo, field, kept) in [
        (
            "scratch_complete",
            ("scratch_update", json!({"id": "e1", "status": "open"})),
            "status",
            json!("open"),
        ),
        ("scratch_pin", ("scratch_unpin", pinned.clone()), "pinned", json!(false)),
        ("scratch_unpin", ("scratch_pin", pinned.clone()), "pinned", json!(true)),
    ] {
        if tool == "scratch_unpin" {
            pair.call("scratch_pin", pinned.clone()).await;
        }
        let (_, first) = pair.call_under(tool, tool, pinned.clone()).await;
        assert_eq!(first["replayed"], false, "{tool}");
        pair.call(undo.0, undo.1).await;
        let (_, again) = pair.call_under(tool, tool, pinned.clone()).await;
        assert_eq!((&again["replayed"], &again[field]), (&json!(true), &kept), "{tool}");
    }
    pair.end().await;
}

#[tokio::test]
async fn call_key_is_per_thread_and_tool_and_not_stored_m7_6_48() {
    let runner = runner().await;
    let key = "a key of somebody";
    let keyed = |tool: &str, arguments: Value| {
        let mut request =
            CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.as_object().unwrap().clone());
        let mut meta = RequestMetaObject::new();
        meta.insert("folio/idempotencyKey".to_owned(), json!(key));
        request.meta = Some(meta);
        request
    };
    for (thread, handle) in [("a", "e1"), ("b", "e2")] {
        let mut options = McpOptions::of(ThreadKey(thread.to_owned()));
        options.sets = vec![ToolSet::Observe];
        let pair = Pair::of(Era::Requests, options, &runner, Plain).await;
        let arguments = json!({"kind": "todo", "title": "run the tests"});
        for replayed in [false, true] {
            let result = pair
                .client
                .call_tool(keyed("scratch_add", arguments.clone()))
                .await
                .unwrap();
            let item = result.structured_content.unwrap();
            assert_eq!((&item["handle"], &item["replayed"]), (&json!(handle), &json!(replayed)));
        }
        pair.end().await;
    }
    let mut options = options();
    options.sets = vec![ToolSet::Observe];
    let pair = Pair::of(Era::Requests, options, &runner, Plain).await;
    let added = keyed("observe_add", json!({"content": "run the tests"}));
    let result = pair.client.call_tool(added).await.unwrap();
    assert_eq!(result.structured_content.unwrap()["replayed"], false);
    let log = pair
        .workspace
        .store()
        .changes(&SpaceName::main(), Seq(0), 100)
        .await
        .unwrap();
    let keys: Vec<_> = log.iter().filter_map(|row| row.idempotency_key.as_deref()).collect();
    assert!(
        keys.len() == 3 && keys.iter().all(|kept| !kept.contains(key)),
        "{keys:?}"
    );
    pair.end().await;
}

#[tokio::test]
async fn bound_connection_neither_writes_to_nor_lists_other_threads() {
    let runner = runner().await;
    let open = Pair::of(Era::Sessions, options(), &runner, Plain).await;
    open.call(
        "scratch_add",
        json!({"kind": "note", "title": "theirs", "thread": "other"}),
    )
    .await;
    open.end().await;
    let mut bound = McpOptions::of(ThreadKey("api".to_owned()));
    bound.is_bound = true;
    let pair = Pair::of(Era::Sessions, bound, &runner, Plain).await;
    let planted = json!({"kind": "note", "title": "planted", "page": "p1"});
    let (_, code) = pair.refused("scratch_add", planted).await;
    assert_eq!(code, "role_denied");
    let reference = Reference::for_prompt("resume");
    let asked = CompleteRequestParams::new(reference, ArgumentInfo::new("thread", ""));
    let offered = pair.client.complete(asked).await.unwrap();
    assert_eq!(offered.completion.values, ["api"]);
    pair.end().await;
}

#[tokio::test]
async fn non_text_idempotency_key_or_thread_is_refused() {
    let pair = Pair::new(Era::Sessions, options()).await;
    for key in [json!(5), json!(""), json!(["k"])] {
        let mut request = CallToolRequestParams::new("scratch_add");
        request.arguments = json!({"kind": "note", "title": "once"}).as_object().cloned();
        let mut meta = RequestMetaObject::new();
        meta.insert("folio/idempotencyKey".to_owned(), key);
        request.meta = Some(meta);
        let error = pair.client.call_tool(request).await.unwrap_err();
        assert!(error.to_string().contains("folio/idempotencyKey"), "{error}");
    }
    let (text, _) = pair.call("scratch_read", json!({"query": "once"})).await;
    assert_eq!(text, "nothing matches", "none of them was added");
    let request =
        GetPromptRequestParams::new("resume").with_arguments(json!({"thread": 5}).as_object().unwrap().clone());
    let error = pair.client.get_prompt(request).await.unwrap_err();
    assert!(error.to_string().contains("thread: must be a text, not 5"), "{error}");
    pair.end().await;
}

#[tokio::test]
async fn unknown_argument_error_lists_the_offered_arguments() {
    let mut options = options();
    options.sets = vec![ToolSet::Plan, ToolSet::Run];
    let pair = Pair::new(Era::Sessions, options).await;
    for tool in ["scratch_add", "plan_ready", "run_start"] {
        let (text, _) = pair.refused(tool, json!({"colour": 1})).await;
        let names = text.lines().next().unwrap();
        assert!(
            names.contains(&format!("colour: is not an argument of {tool}; it takes ")) && names.contains("thread"),
            "{text}"
        );
    }
    pair.end().await;
}
