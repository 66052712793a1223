//! Turns, prompts, search and learning, over HTTP.

use folio::ObservationInput;
use folio::memory::goals::GoalInput;
use folio::memory::{Actor, EntryKind, Role, ThreadKey};
use serde_json::{Value, json};

use crate::house::{House, assert_problem, person};

#[tokio::test]
async fn turn_begins_ends_and_leaves_an_export_trace_and_receipts() {
    let house = House::new().await;
    let begin = || {
        house.ask(
            "POST",
            "/turns",
            &["Idempotency-Key: t"],
            Some(json!({"thread": "a", "input": "Pay the invoice", "budget": 500})),
        )
    };
    let first = begin().await;
    assert_eq!(first.status, 201, "{first:?}");
    let turn = first.json();
    assert_eq!(
        (&turn["handle"], &turn["thread"], &turn["ended_at"]),
        (&json!("t1"), &json!("a"), &Value::Null)
    );
    assert_eq!(turn["context"]["receipt"]["budget"], 500);
    assert_eq!(begin().await.json()["turn_id"], turn["turn_id"], "asked for again");
    let in_turn = ["Folio-Turn: t1"];
    let noted = house
        .ask(
            "POST",
            "/observations",
            &in_turn,
            Some(json!({"content": "Invoice 7 is due"})),
        )
        .await;
    assert_eq!(noted.json()["source"]["turn_id"], turn["turn_id"]);
    let view = house.ask("GET", "/threads/a/scratchbook", &in_turn, None).await;
    assert_eq!(view.status, 200, "{view:?}");
    house.assert_refused("/turns/t1/export", 409, "turn_open").await;
    let end = || house.ask("POST", "/turns/t1/end", &["Idempotency-Key: e"], None);
    let ended = end().await;
    assert_eq!(ended.status, 200, "{ended:?}");
    assert!(
        ended.json()["ended_at"].is_string() && ended.json()["goals"].is_array(),
        "{ended:?}"
    );
    let again = end().await.json();
    assert_eq!(again["ended_at"], ended.json()["ended_at"], "asked for again");
    assert_eq!(
        (&ended.json()["replayed"], &again["replayed"]),
        (&Value::Null, &json!(true))
    );
    assert_problem(&house.post("/turns/t1/end", "").await, 409, "turn_ended");
    let export = house.get_json("/turns/t1/export").await;
    assert_eq!(
        (
            &export["touched"][0]["handle"],
            &export["touched"][0]["entry"]["content"]
        ),
        (&json!("e1"), &json!("Invoice 7 is due"))
    );
    let lines = house
        .ask("GET", "/turns/t1/export", &["Accept: application/x-ndjson"], None)
        .await;
    assert_eq!(lines.header("content-type"), "application/x-ndjson");
    let records: Vec<String> = lines
        .body
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["record"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    // The observation was touched in the turn, and is one of the entries at its end.
    assert_eq!(records, ["turn", "touched", "entry"], "{}", lines.body);
    let trace = house.get_json("/turns/t1/trace").await;
    let operations: Vec<&str> = trace["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["operation"].as_str().unwrap())
        .collect();
    assert!(
        operations.contains(&"begin_turn") && operations.contains(&"add_observation"),
        "{operations:?}"
    );
    let receipts = house.get_json("/turns/t1/receipts").await;
    let of: Vec<&str> = receipts["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kept| kept["of"].as_str().unwrap())
        .collect();
    assert!(of.starts_with(&["context"]) && of.ends_with(&["view"]), "{of:?}");
    assert_eq!(house.get_json("/turns?thread=a").await["items"][0]["handle"], "t1");
    assert_eq!(house.get_json("/turns?open=true").await["returned"], 0);
    assert_eq!(house.get_json("/turns/t1").await["turn_id"], turn["turn_id"]);
    house.assert_refused("/turns/t9", 404, "not_found").await;
    let unknown = house
        .ask(
            "POST",
            "/observations",
            &["Folio-Turn: t9"],
            Some(json!({"content": "x"})),
        )
        .await;
    assert_problem(&unknown, 404, "not_found");
}

#[tokio::test]
async fn context_contains_only_the_requested_sections() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "Likes Burgundy"}))
        .await;
    house
        .post_and_expect(
            "/threads/a/scratchbook/items",
            201,
            json!({"kind": "todo", "title": "Order wine"}),
        )
        .await;
    let all = house
        .post_and_expect("/context", 200, json!({"thread": "a", "budget": 400, "prompt": "wine"}))
        .await;
    let text = all["context"].as_str().unwrap();
    assert!(text.contains("Likes Burgundy") && text.contains("Order wine"), "{text}");
    assert!(all["tokens"].as_u64().unwrap() <= 400, "{all}");
    let sections = all["sections"].as_array().unwrap();
    let of = |section: &Value, field: &str| section[field].as_str().unwrap().to_owned();
    let names: Vec<_> = sections.iter().map(|section| of(section, "section")).collect();
    assert_eq!(names, ["scratch_page", "scratchbook", "pages", "episodic", "semantic"]);
    let texts: Vec<_> = sections.iter().map(|section| of(section, "text")).collect();
    assert_eq!(texts.concat(), text);
    assert!(
        texts[0].contains("Likes Burgundy") && texts[1].contains("Order wine"),
        "{texts:?}"
    );
    assert_eq!((texts[2].as_str(), &sections[2]["tokens"]), ("", &json!(0)));
    for sections in [json!(["scratch_page"]), json!({"scratch_page": 100})] {
        let part = house
            .post_and_expect("/context", 200, json!({"thread": "a", "sections": sections}))
            .await;
        let text = part["context"].as_str().unwrap();
        assert!(
            text.contains("Likes Burgundy") && !text.contains("Order wine"),
            "{part}"
        );
        let asked_for = part["receipt"]["sections"].as_array().unwrap();
        let names: Vec<&Value> = asked_for.iter().map(|section| &section["section"]).collect();
        assert_eq!(names, ["scratch_page"], "{part}");
    }
    for sections in [json!(["none"]), json!({"scratch_page": 101})] {
        let refused = house
            .ask("POST", "/context", &[], Some(json!({ "sections": sections })))
            .await;
        assert_problem(&refused, 422, "body_invalid");
    }
}

#[tokio::test]
async fn search_finds_observations_and_items_by_their_words() {
    let house = House::new().await;
    house
        .post_and_expect(
            "/observations",
            201,
            json!({"content": "The deployment failed twice", "tags": ["ops"]}),
        )
        .await;
    house
        .post_and_expect(
            "/threads/a/scratchbook/items",
            201,
            json!({"kind": "note", "title": "Deployments", "body": "every Monday"}),
        )
        .await;
    for name in ["text", "q", "query"] {
        assert_eq!(
            house.get_json(&format!("/search?{name}=deployment")).await["total"],
            2,
            "{name}"
        );
    }
    for (query, total) in [
        ("&kind=note", 1),
        ("&tags=ops", 1),
        ("&thread=a", 1),
        ("&kind=none", 0),
        ("&match=any&limit=1", 2),
    ] {
        assert_eq!(
            house.get_json(&format!("/search?text=deployments{query}")).await["total"],
            total,
            "{query}"
        );
    }
    let found = house.get_json("/search?text=monday").await;
    let item = &found["items"][0];
    assert!(item["handle"] == "e2" && item["score"].as_f64() > Some(0.0), "{found}");
    // The word that was found is marked in the snippet, and no other.
    let hits = item["snippet"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|part| part["hit"] == true);
    let hits: Vec<&Value> = hits.map(|part| &part["text"]).collect();
    assert_eq!(hits, ["Monday"], "{found}");
    house.assert_refused("/search", 400, "query_invalid").await;
}

#[tokio::test]
async fn goals_patterns_calibration_and_trace_routes_return_lists() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "x"}))
        .await;
    for path in [
        "/goals",
        "/goals?thread=a&all=true",
        "/patterns",
        "/patterns?limit=5",
        "/calibration",
        "/trace",
        "/trace?component=scratch_page&limit=3",
    ] {
        let list = house.get_json(path).await;
        let returned = list["items"].as_array().unwrap().len();
        assert!(
            list["returned"] == returned && list["tokens"].is_u64(),
            "{path}: {list}"
        );
        assert_eq!(returned > 0, path.starts_with("/trace"), "{path}: {list}");
    }
    let trace = house.get_json("/trace?entry=e1").await;
    assert_eq!(
        (&trace["items"][0]["operation"], &trace["items"][0]["seq"]),
        (&json!("add_observation"), &json!(1))
    );
    house.assert_refused("/trace?run=r9", 404, "not_found").await;
    house.assert_refused("/trace?entry=x", 400, "id_invalid").await;
}

#[tokio::test]
async fn goals_are_listed_in_parts_with_their_total_m7_2_15() {
    let house = House::new().await;
    let actor = Actor::new(Role::Human, "ada");
    for nth in 0..3 {
        let goal = GoalInput {
            title: format!("Goal {nth}"),
            ..GoalInput::default()
        };
        let (thread, kind) = (ThreadKey::main(), EntryKind::Goal);
        let added = house.workspace().add_goal(&actor, &thread, kind, goal, None).await;
        added.unwrap();
    }
    let titles = |list: &Value| {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|goal| goal["title"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let whole = house.get_json("/goals").await;
    assert_eq!((&whole["total"], &whole["next"]), (&json!(3), &Value::Null), "{whole}");
    let first = house.get_json("/goals?limit=2").await;
    assert_eq!((&first["total"], &first["returned"]), (&json!(3), &json!(2)), "{first}");
    let next = first["next"].as_str().unwrap();
    let rest = house.get_json(&format!("/goals?limit=2&cursor={next}")).await;
    assert_eq!((&rest["total"], &rest["next"]), (&json!(3), &Value::Null), "{rest}");
    assert_eq!([titles(&first), titles(&rest)].concat(), titles(&whole));
    let other = format!("/goals?limit=2&all=true&cursor={next}");
    house.assert_refused(&other, 400, "invalid").await;
    house.assert_refused("/goals?limit=0", 400, "query_invalid").await;
}

#[tokio::test]
async fn turn_list_and_cut_trace_continue_after_a_cursor_m7_2_15() {
    let house = House::new().await;
    for nth in 0..3 {
        house
            .post_and_expect("/turns", 201, json!({"input": format!("number {nth}")}))
            .await;
    }
    let first = house.get_json("/turns?limit=2").await;
    assert_eq!(
        (&first["total"], &first["next"], &first["items"][1]["handle"]),
        (&Value::Null, &json!("t2"), &json!("t2")),
        "{first}"
    );
    let rest = house.get_json("/turns?limit=2&cursor=t2").await;
    assert_eq!((&rest["returned"], &rest["next"]), (&json!(1), &Value::Null), "{rest}");
    house
        .assert_refused("/turns?cursor=nowhere", 400, "query_invalid")
        .await;
    for trace in ["/turns/t1/trace", "/trace"] {
        let cut = house.get_json(&format!("{trace}?limit=2")).await;
        assert_eq!((&cut["total"], &cut["at_least"]), (&json!(2), &json!(true)), "{cut}");
        let whole = house.get_json(&format!("{trace}?limit=1000")).await;
        assert!(
            whole.get("at_least").is_none() && whole["total"].as_u64() > Some(2),
            "{whole}"
        );
        let next = cut["next"].as_str().unwrap();
        let all = whole["items"].as_array().unwrap();
        let rest = house.get_json(&format!("{trace}?limit=2&cursor={next}")).await;
        let rest = rest["items"].as_array().unwrap();
        assert_eq!(rest[..], all[all.len() - 2 - rest.len()..all.len() - 2]);
        let other = format!("{trace}?component=turn&cursor={next}");
        house.assert_refused(&other, 400, "invalid").await;
        let on = house.get_json(&format!("{trace}?since=0&limit=1")).await;
        let next = on["next"].as_str().unwrap();
        let after = house.get_json(&format!("{trace}?since=0&limit=1&cursor={next}")).await;
        assert_eq!((&on["items"][0], &after["items"][0]), (&all[0], &all[1]));
    }
}

#[tokio::test]
async fn turn_that_is_not_clarified_asks_nothing_m7_11_2() {
    let house = House::new().await;
    let begin = async |body: Value| house.ask("POST", "/turns", &[], Some(body)).await.json();
    let unasked = begin(json!({"input": "fix it", "clarify": false})).await;
    assert_eq!((&unasked["question"], &unasked["handle"]), (&Value::Null, &json!("t1")));
    let asked = begin(json!({"input": "fix it"})).await;
    assert!(asked["question"]["handle"].is_string(), "{asked}");
    let own = begin(json!({"input": "run it again", "clarify": false})).await;
    assert_eq!((&own["question"], &own["answered"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn long_export_of_a_turn_is_sent_while_it_is_read_m7_6_47() {
    let house = House::new().await;
    for number in 0..1_100 {
        let input = ObservationInput {
            content: format!("number {number}"),
            ..ObservationInput::default()
        };
        house.workspace().add_observation(&person(), input, None).await.unwrap();
    }
    house
        .post_and_expect("/turns", 201, json!({"input": "hello", "clarify": false}))
        .await;
    let end = house.ask("POST", "/turns/t1/end", &[], None).await;
    assert_eq!(end.status, 200, "{end:?}");
    for (query, has_text) in [("", false), ("?full=true", true)] {
        let path = format!("/turns/t1/export{query}");
        let whole = house.get(&path).await;
        assert_eq!(whole.header("transfer-encoding"), "chunked", "its length is not known");
        let whole = whole.json();
        let manifest = whole["manifest"].as_array().unwrap();
        assert_eq!((manifest.len(), &whole["touched"]), (1_100, &json!([])));
        let texts = manifest.iter().map(|line| &line["entry"]["content"]);
        let numbers: Vec<_> = (0..1_100).map(|number| json!(format!("number {number}"))).collect();
        assert_eq!(texts.filter(|text| !text.is_null()).eq(&numbers), has_text);
        let lines = house.ask("GET", &path, &["Accept: application/x-ndjson"], None).await;
        let lines: Vec<Value> = lines
            .body
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            (&lines[0]["entries"], &lines[0]["as_of"]),
            (&json!(1_100), &whole["as_of"])
        );
        assert_eq!(lines[1..], manifest[..]);
    }
}
