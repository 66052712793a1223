//! Scratchbooks over HTTP: items, the view, conversations that are too long, results that are too large.

use serde_json::{Value, json};

use crate::house::{House, assert_problem};

const ITEMS: &str = "/threads/t%2F1/scratchbook/items";

#[tokio::test]
async fn item_is_added_patched_pinned_and_completed() {
    let house = House::new().await;
    let body = json!({"kind": "task", "title": "Ship it", "body": "with tests", "tags": ["x"], "progress": 0.5});
    let answer = house
        .ask("POST", ITEMS, &["Idempotency-Key: k"], Some(body.clone()))
        .await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let added = answer.json();
    assert_eq!(
        (&added["handle"], &added["status"], &added["pinned"]),
        (&json!("e1"), &json!("open"), &json!(false))
    );
    let id = added["item_id"].as_str().unwrap();
    assert_eq!(
        answer.header("location"),
        format!("/v1/spaces/main/threads/t%2F1/scratchbook/items/{id}")
    );
    let again = house
        .ask("POST", ITEMS, &["Idempotency-Key: k"], Some(body))
        .await
        .json();
    assert_eq!(
        (&again["item_id"], &again["replayed"]),
        (&added["item_id"], &json!(true))
    );
    let one = format!("{ITEMS}/e1");
    assert_eq!(house.get_json(&one).await, added);
    let patched = house
        .ask(
            "PATCH",
            &one,
            &["If-Match: \"1\""],
            Some(json!({"status": "in_progress"})),
        )
        .await;
    assert_eq!((patched.status, &patched.json()["version"]), (200, &json!(2)));
    let cleared = house
        .ask("PATCH", &one, &[], Some(json!({"progress": null, "tags": null})))
        .await
        .json();
    assert_eq!((&cleared["progress"], &cleared["tags"]), (&Value::Null, &json!([])));
    let kept = house.ask("PATCH", &one, &[], Some(json!({"title": null}))).await;
    assert_problem(&kept, 422, "field_not_cleared");
    let misspelt = house.ask("PATCH", &one, &[], Some(json!({"titel": null}))).await;
    assert_problem(&misspelt, 422, "body_invalid");
    let stale = house
        .ask("PATCH", &one, &["If-Match: \"1\""], Some(json!({"title": "No"})))
        .await;
    assert_problem(&stale, 409, "stale_version");
    for (act, field, value) in [
        ("pin", "pinned", json!(true)),
        ("unpin", "pinned", json!(false)),
        ("complete", "status", json!("done")),
    ] {
        for path in [&one, "/threads/t%2F1/scratchbook/e1"] {
            let answer = house.post(&format!("{path}/{act}"), "").await;
            assert_eq!((answer.status, &answer.json()[field]), (200, &value), "{path}/{act}");
        }
    }
    for (body, code) in [
        (json!({"kind": "observation", "title": "x"}), "kind_invalid"),
        (json!({"kind": "note"}), "title_empty"),
    ] {
        assert_problem(&house.ask("POST", ITEMS, &[], Some(body)).await, 422, code);
    }
}

#[tokio::test]
async fn items_are_listed_and_filtered_within_their_thread() {
    let house = House::new().await;
    for (thread, kind, title) in [("a", "note", "n"), ("a", "todo", "d"), ("b", "task", "k")] {
        let path = format!("/threads/{thread}/scratchbook/items");
        house
            .post_and_expect(&path, 201, json!({"kind": kind, "title": title, "tags": [kind]}))
            .await;
    }
    let titles = |list: Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .map(|item| item["title"].as_str().unwrap().to_owned())
            .collect()
    };
    let added = house
        .post_and_expect(
            "/threads/a/scratchbook/items",
            201,
            json!({"kind": "todo", "title": "r"}),
        )
        .await;
    let path = format!("/threads/a/scratchbook/items/{}", added["handle"].as_str().unwrap());
    let completed = house
        .ask("PATCH", &path, &[], Some(json!({"status": "completed"})))
        .await;
    assert_eq!(completed.json()["status"], "done", "{completed:?}");
    for (query, wanted) in [
        ("", vec!["d", "n", "r"]),
        ("?kind=note", vec!["n"]),
        ("?tags=todo", vec!["d"]),
        ("?status=open", vec!["d"]),
        ("?kind=none", vec![]),
        ("?limit=1", vec!["d"]),
        // Words that an update takes for a status are those of a filter, too (M7.5.40).
        ("?status=pending", vec!["d"]),
        ("?status=completed", vec!["r"]),
        ("?status=in_progress&status=todo", vec!["d"]),
        ("?status=none", vec![]),
    ] {
        assert_eq!(
            titles(house.get_json(&format!("/threads/a/scratchbook/items{query}")).await),
            wanted,
            "{query}"
        );
    }
    house
        .assert_refused("/threads/a/scratchbook/items/e3", 404, "not_found")
        .await;
    house
        .assert_refused("/threads/a/scratchbook/items/x", 404, "id_invalid")
        .await;
    assert_problem(
        &house.post("/threads/a/scratchbook/items/e3/complete", "").await,
        404,
        "not_found",
    );
}

#[tokio::test]
async fn scratchbook_view_fits_its_token_limit_and_has_a_receipt() {
    let house = House::new().await;
    for n in 0..20 {
        house
            .post_and_expect(
                ITEMS,
                201,
                json!({"kind": "todo", "title": format!("Item number {n} with some words")}),
            )
            .await;
    }
    let view = house
        .get_json("/threads/t%2F1/scratchbook?view_token_limit=80&max_rendered_items=5")
        .await;
    assert!(view["tokens"].as_u64().unwrap() <= 80, "{view}");
    assert_eq!(
        (&view["receipt"]["tokens"], &view["receipt"]["budget"]),
        (&view["tokens"], &json!(80))
    );
    assert!(view["view"].as_str().unwrap().contains("Item number"), "{view}");
    assert_eq!(view["items"].as_array().unwrap().len(), 20);
    for wrong in [
        "max_rendered_items=0",
        "max_rendered_items=201",
        "view_token_limit=100001",
    ] {
        let refused = house.get(&format!("/threads/t%2F1/scratchbook?{wrong}")).await;
        assert_problem(&refused, 400, "query_invalid");
    }
    let nothing = house.get_json("/threads/t%2F1/scratchbook?view_token_limit=0").await;
    assert_eq!(nothing["view"], "");
}

#[tokio::test]
async fn offloaded_history_is_read_by_message_range() {
    let house = House::new().await;
    let messages: Vec<Value> = (1..=20)
        .map(|n| json!({"role": if n % 2 == 1 { "user" } else { "assistant" }, "content": format!("message {n}")}))
        .collect();
    let talk = json!({"messages": messages, "force": true, "keep": 4});
    let gone = house.post_and_expect("/threads/t/history", 200, talk.clone()).await;
    let offloaded = gone["receipt"]["offloaded"].as_u64().unwrap();
    assert!(offloaded >= 10, "{gone}");
    assert!(
        gone["receipt"]["summary"].is_string() && gone["receipt"]["next_actions"].is_null(),
        "{gone}"
    );
    assert_eq!(gone["receipt"]["history"]["from"], 1);
    assert_eq!(
        house.post_and_expect("/threads/t/history", 200, talk.clone()).await["receipt"]["replayed"],
        true
    );
    let said = house.get_json("/threads/t/history?from=2&to=3").await;
    assert_eq!(said["messages"][0]["message"]["content"], "message 2");
    assert_eq!(
        (said["messages"].as_array().unwrap().len(), &said["total"]),
        (2, &json!(offloaded))
    );
    assert_eq!(house.get_json("/threads/t/history?range=2:3").await, said);
    let found = house.get_json("/threads/t/history?search=3%20MESSAGE&to=10").await;
    assert_eq!(found["messages"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["messages"][0], said["messages"][1]);
    house
        .assert_refused("/threads/t/history?search=%20", 400, "query_invalid")
        .await;
    // It is a list like the others, whose items had another name once.
    assert_eq!(said["items"], said["messages"]);
    assert!(said["as_of"].is_u64() && said["tokens"].is_u64(), "{said}");
    let (mut read, mut path) = (Vec::new(), "/threads/t/history?to=9&limit=4".to_owned());
    loop {
        let part = house.get_json(&path).await;
        assert_eq!(part["returned"], part["items"].as_array().unwrap().len());
        read.extend(
            part["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["number"].clone()),
        );
        let Some(next) = part["next"].as_u64() else { break };
        path = format!("/threads/t/history?to=9&limit=4&cursor={next}");
    }
    assert_eq!(read, (1..=9).map(Value::from).collect::<Vec<_>>());
    // The whole conversation again, with one request more.
    let mut longer = talk.clone();
    longer["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "user", "content": "message 21"}));
    let more = house.post_and_expect("/threads/t/history", 200, longer).await;
    assert_eq!(more["receipt"]["history"]["from"], offloaded + 1, "{more}");
    assert_eq!(more["receipt"]["offloaded"], 1, "{more}");
    for query in ["range=x", "from=3&to=1", "range=3:1", "from=0", "to=0"] {
        house
            .assert_refused(&format!("/threads/t/history?{query}"), 400, "query_invalid")
            .await;
    }
    let twice = house.get_json("/threads/t/history?limit=2").await;
    assert_eq!((&twice["messages"], &twice["returned"]), (&twice["items"], &json!(2)));
    let mut once = house.get_json("/threads/t/history?limit=2&messages=false").await;
    assert_eq!(once.get("messages"), None, "{once}");
    once["messages"] = once["items"].clone();
    assert_eq!(once, twice);
    let short = json!({"messages": [{"role": "user", "content": "hi"}]});
    let kept = house.post_and_expect("/threads/u/history", 200, short).await;
    for name in ["summary", "next_actions", "history"] {
        assert_eq!(kept["receipt"].get(name), Some(&Value::Null), "{name}: {kept}");
    }
    let refused = house
        .ask("POST", "/threads/t/history", &[], Some(json!({"messages": 7})))
        .await;
    assert_problem(&refused, 422, "messages_invalid");
}

#[tokio::test]
async fn long_text_of_an_item_is_read_in_whole() {
    let house = House::new().await;
    let body = "long ".repeat(20_000);
    let item = json!({"kind": "note", "title": "x", "body": body});
    let added = house.post_and_expect(ITEMS, 201, item).await;
    assert!(
        added["body_ref"].is_object() && added["body"] != json!(body),
        "{}",
        added["body_ref"]
    );
    assert_eq!(house.get_json(&format!("{ITEMS}/e1")).await, added);
    assert_eq!(
        house.get_json(&format!("{ITEMS}/e1?whole=true")).await["body"],
        json!(body)
    );
    house.stop().await.unwrap();
}

#[tokio::test]
async fn evicted_result_is_read_by_lines_bytes_and_search() {
    let house = House::new().await;
    let lines: Vec<String> = (1..=5_000).map(|n| format!("line {n}")).collect();
    let text = lines.join("\n");
    let kept = house
        .post_and_expect(
            "/threads/t/evict",
            200,
            json!({"result": text, "limit": 200, "tool": "big"}),
        )
        .await;
    assert!(kept["tokens"].as_u64().unwrap() <= 200, "{kept}");
    let name = kept["ref"].as_str().unwrap();
    let read = house.get_json(&format!("/blobs/{name}?lines=10:12")).await;
    assert_eq!(read["text"], "line 10\nline 11\nline 12\n");
    let bytes = house.get_json(&format!("/blobs/{name}?from=0&to=6")).await;
    assert_eq!(
        (&bytes["text"], &bytes["total_lines"]),
        (&json!("line 1"), &json!(5_000))
    );
    let found = house.get_json(&format!("/blobs/{name}?search=line%204999")).await;
    assert_eq!(
        (&found["count"], &found["matches"][0]["line"]),
        (&json!(1), &json!(4_999))
    );
    let part = house.get_json(&format!("/blobs/{name}?max_bytes=100")).await;
    let next = part["next"].as_str().unwrap();
    let on = house.get_json(&format!("/blobs/{name}?{next}&max_bytes=100")).await;
    // Whole lines, as many as there is room for.
    assert_eq!((&part["to"], &on["from"]), (&json!(95), &json!(95)), "{part} {on}");
    let both = format!("{}{}", part["text"].as_str().unwrap(), on["text"].as_str().unwrap());
    assert!(text.starts_with(&both) && both.len() > 150, "{both}");
    house
        .assert_refused(&format!("/blobs/{name}?from=6&to=5"), 400, "query_invalid")
        .await;
    house.assert_refused("/blobs/e999", 404, "not_found").await;
    house
        .assert_refused(&format!("/blobs/{name}?lines=x"), 400, "query_invalid")
        .await;
    let small = house
        .post_and_expect("/threads/t/evict", 200, json!({"result": {"a": 1}, "limit": 200}))
        .await;
    assert_eq!(
        (&small["preview"], small.get("ref")),
        (&json!("{\"a\":1}"), Some(&Value::Null))
    );
}

#[tokio::test]
async fn item_list_cursor_preserves_the_order_of_items_m7_2_15() {
    let house = House::new().await;
    for (kind, title) in [
        ("note", "a"),
        ("task", "b"),
        ("todo", "c"),
        ("note", "d"),
        ("task", "e"),
        ("todo", "f"),
    ] {
        house
            .post_and_expect(ITEMS, 201, json!({"kind": kind, "title": title}))
            .await;
    }
    house.ask("POST", &format!("{ITEMS}/e4/pin"), &[], None).await;
    house.ask("POST", &format!("{ITEMS}/e3/complete"), &[], None).await;
    let titles = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["title"].as_str().unwrap().to_owned()).collect()
    };
    let whole = house.get_json(ITEMS).await;
    assert_eq!(
        (titles(&whole).join(""), &whole["next"]),
        ("dbefac".to_owned(), &Value::Null)
    );
    let (mut read, mut asked) = (Vec::new(), format!("{ITEMS}?limit=2"));
    loop {
        let part = house.get_json(&asked).await;
        assert_eq!(part["total"], 6);
        read.extend(titles(&part));
        let Some(next) = part["next"].as_str() else { break };
        asked = format!("{ITEMS}?limit=2&cursor={next}");
    }
    assert_eq!(read, titles(&whole));
    let first = house.get_json(&format!("{ITEMS}?limit=1")).await;
    let next = first["next"].as_str().unwrap();
    house
        .assert_refused(&format!("{ITEMS}?kind=note&cursor={next}"), 400, "invalid")
        .await;
    house.assert_refused(&format!("{ITEMS}?cursor=x"), 400, "invalid").await;
    house.stop().await.unwrap();
}

#[tokio::test]
async fn stale_item_patch_is_refused_with_the_current_item() {
    let house = House::new().await;
    let items = "/threads/main/scratchbook/items";
    house
        .post_and_expect(items, 201, json!({"kind": "todo", "title": "one", "body": "more"}))
        .await;
    let path = format!("{items}/e1");
    let patch = async |title: &str| {
        let body = Some(json!({ "title": title }));
        house.ask("PATCH", &path, &["If-Match: 1"], body).await
    };
    assert_eq!(patch("two").await.status, 200);
    // As a change of an observation that says nothing.
    assert_problem(
        &house.ask("PATCH", &path, &[], Some(json!({}))).await,
        422,
        "body_invalid",
    );
    let stale = patch("three").await;
    assert_problem(&stale, 409, "stale_version");
    let current = stale.json()["current"].clone();
    assert_eq!(current, house.get_json(&path).await);
    assert_eq!((&current["kind"], &current["body"]), (&json!("todo"), &json!("more")));
}

#[tokio::test]
async fn unknown_item_kind_error_lists_only_accepted_kinds() {
    let house = House::new().await;
    let path = "/threads/t/scratchbook/items";
    let told = house
        .post(path, &json!({"kind": "bogus", "title": "x"}).to_string())
        .await;
    let told = told.json()["detail"].as_str().unwrap().to_owned();
    assert!(told.contains("expected one of `note`, `todo`, `task`"), "{told}");
    assert!(!told.contains("summary"), "{told}");
    assert!(told.starts_with("the body cannot be read: kind: "), "{told}");
    for (body, problem) in [
        (
            json!({"kind": "task", "title": 5}),
            "title: invalid type: integer `5`, expected a string",
        ),
        (
            json!({"kind": "task", "title": "x", "progress": "50%"}),
            "progress: invalid type: string \"50%\", expected a number",
        ),
    ] {
        let told = house.post(path, &body.to_string()).await.json();
        assert_eq!(told["detail"], format!("the body cannot be read: {problem}"));
    }
    let log = house
        .post(path, &json!({"kind": "log", "title": "x"}).to_string())
        .await;
    assert_problem(&log, 422, "kind_invalid");
}

#[tokio::test]
async fn item_may_be_sent_back_as_it_was_read() {
    let house = House::new().await;
    let body = json!({"kind": "task", "title": "Ship it", "progress": 0.5});
    house.post_and_expect(ITEMS, 201, body).await;
    let one = format!("{ITEMS}/e1");
    let mut item = house.get_json(&one).await;
    let same = house.ask("PATCH", &one, &[], Some(item.clone())).await;
    assert_eq!(
        (same.status, &same.json()["version"]),
        (200, &json!(1)),
        "nothing changed: {same:?}"
    );
    item["title"] = json!("Ship it today");
    let changed = house.ask("PATCH", &one, &[], Some(item.clone())).await;
    assert_eq!(
        (changed.status, &changed.json()["title"]),
        (200, &json!("Ship it today")),
        "{changed:?}"
    );
    for (name, value) in [("handle", json!("e9")), ("kind", json!("note")), ("version", json!(7))] {
        let told = house.ask("PATCH", &one, &[], Some(json!({name: value}))).await;
        assert_problem(&told, 422, "field_immutable");
    }
}
