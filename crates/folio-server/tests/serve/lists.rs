//! Lists: filters, limits, cursors.

use folio::ObservationInput;
use folio::engine::Event;
use folio::memory::ThreadKey;
use folio::store::RunAppend;
use folio::store::workspace::Write;
use serde_json::{Value, json};

use crate::house::{ECHO, House, SLOW, assert_problem, person};

fn handles(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["handle"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn runs_are_listed_newest_first_with_a_cursor() {
    let house = House::new().await;
    for _ in 0..3 {
        house.submit(SLOW).await;
    }
    house.run(ECHO).await;
    let first = house.get("/runs?limit=3").await.json();
    assert_eq!(handles(&first), ["r4", "r3", "r2"]);
    assert_eq!((&first["returned"], &first["next"]), (&json!(3), &json!("r2")));
    let rest = house.get("/runs?limit=3&cursor=r2").await.json();
    assert_eq!((handles(&rest), &rest["next"]), (vec!["r1"], &Value::Null));
    assert_eq!(handles(&house.get("/runs?status=ok,failed").await.json()), ["r4"]);
    assert_eq!(
        handles(&house.get("/runs?status=running&status=ok").await.json()).len(),
        4
    );
}

#[tokio::test]
async fn empty_filter_is_refused_by_name_m7_2_13() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "x", "tags": ["a"]}))
        .await;
    for (list, name) in [
        ("/observations?", "tags"),
        ("/observations?", "tags_any"),
        ("/observations?", "tags_none"),
        ("/observations?", "type"),
        ("/observations?", "status"),
        ("/observations?", "owner"),
        ("/observations?", "text"),
        ("/threads/main/scratchbook/items?", "kind"),
        ("/threads/main/scratchbook/items?", "tags"),
        ("/search?text=x&", "tags"),
        ("/search?text=x&", "type"),
        ("/runs?", "status"),
    ] {
        for empty in ["", "%20"] {
            let refused = house.get(&format!("{list}{name}={empty}")).await;
            assert_problem(&refused, 400, "query_invalid");
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(&format!("{name:?}")), "{detail}");
        }
    }
}

#[tokio::test]
async fn since_filter_includes_archived_observations_m7_2_16() {
    let house = House::new().await;
    for content in ["one", "two"] {
        house
            .post_and_expect("/observations", 201, json!({"content": content}))
            .await;
    }
    let as_of = house.get_json("/observations").await["as_of"].clone();
    house.post_and_expect("/observations/e1/archive", 200, json!({})).await;
    let since = house.get_json(&format!("/observations?since={as_of}")).await;
    assert_eq!(
        (handles(&since), &since["items"][0]["state"]),
        (vec!["e1"], &json!("archived")),
        "{since}"
    );
}

#[tokio::test]
async fn run_list_shows_usage_pauses_and_open_questions() {
    let house = House::new().await;
    let slow = house.submit(SLOW).await;
    house.run(ECHO).await;
    house.post_and_expect("/runs/r1/pause", 202, json!({})).await;
    let told = async || {
        let list = house.get("/runs").await.json();
        let of = |run: &Value| json!([run["handle"], run["spent"], run["paused"], run["asks"]]);
        list["items"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let echo = json!(["r2", {"tool_calls": 4}, false, 0]);
    assert_eq!(told().await, [echo.clone(), json!(["r1", {}, true, 0])]);
    // An older version does not say it with what it writes, and what was so before is not said any more.
    let append = RunAppend {
        run: slow,
        events: vec![Event::Continued {
            node: None,
            by: "human ada".to_owned(),
        }],
        status: None,
        title: None,
        so_far: None,
    };
    let write = Write {
        run: Some(append),
        ..Write::default()
    };
    house.workspace().record(&person(), write).await.unwrap();
    assert_eq!(told().await, [echo, json!(["r1", null, null, null])]);
    assert_eq!(house.get_json("/runs/r1").await["paused"], false);
}

#[tokio::test]
async fn pages_are_listed_with_a_cursor() {
    let house = House::new().await;
    house.run(ECHO).await;
    house.submit(SLOW).await;
    let all = house.get("/pages").await.json();
    let mut path = "/pages?limit=2".to_owned();
    let mut seen = Vec::new();
    loop {
        let part = house.get(&path).await.json();
        seen.extend(handles(&part).into_iter().map(str::to_owned));
        let Some(next) = part["next"].as_str() else { break };
        path = format!("/pages?limit=2&cursor={next}");
    }
    assert_eq!(seen, handles(&all));
    // The pages of a run, and of no other.
    let (first, second) = (
        house.get_json("/pages?run=r1").await,
        house.get_json("/pages?run=r2").await,
    );
    let (first, second) = (handles(&first), handles(&second));
    assert!(!first.is_empty() && !second.is_empty(), "{first:?} {second:?}");
    let mut both = [first, second].concat();
    both.sort_unstable();
    let mut every = handles(&all);
    every.sort_unstable();
    assert_eq!(both, every);
    // Each has the link from the page that contains it (seed 000).
    let contained = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|page| !page["parent"].is_null());
    let contained: Vec<&Value> = contained.collect();
    assert!(contained.len() > 2, "{all}");
    for page in contained {
        let link = json!({"src": page["parent"], "relation": "document_has_document", "dst": page["page_id"]});
        assert_eq!(page["links"], json!([link]), "{page}");
    }
    // The first answer that has all of them counts them; no other does.
    for (path, total) in [
        ("/pages", all["returned"].clone()),
        ("/pages?limit=2", Value::Null),
        ("/runs", json!(2)),
        ("/runs?limit=1", Value::Null),
        ("/runs?cursor=r2", Value::Null),
    ] {
        assert_eq!(house.get_json(path).await["total"], total, "{path}");
    }
}

#[tokio::test]
async fn priority_order_cursor_survives_new_type_registrations_m7_2_15() {
    let house = House::new().await;
    for (n, type_name) in ["observation", "alert", "pattern_detected", "observation"]
        .iter()
        .enumerate()
    {
        let body = json!({"content": format!("n{n}"), "type": type_name});
        house.post_and_expect("/observations", 201, body).await;
    }
    let mut path = "/observations?order=priority&limit=1".to_owned();
    let mut seen = Vec::new();
    loop {
        let part = house.get_json(&path).await;
        seen.extend(handles(&part).into_iter().map(str::to_owned));
        let Some(next) = part["next"].as_str() else { break };
        path = format!("/observations?order=priority&limit=1&cursor={next}");
        let new = json!({"content": "new", "type": format!("sort_{}", seen.len())});
        house.post_and_expect("/observations", 201, new).await;
    }
    assert_eq!(seen, ["e2", "e4", "e1", "e3"]);
}

#[tokio::test]
async fn observations_are_filtered_by_type_status_and_tags() {
    let house = House::new().await;
    for (type_name, tags) in [
        ("risk_alert", vec!["x", "y"]),
        ("learning", vec!["x"]),
        ("learning", vec![]),
    ] {
        let input = ObservationInput {
            type_name: Some(type_name.to_owned()),
            content: "seen".to_owned(),
            tags: tags.into_iter().map(str::to_owned).collect(),
            ..ObservationInput::default()
        };
        house.workspace().add_observation(&person(), input, None).await.unwrap();
    }
    let of = async |query: &str| {
        let list = house.get(&format!("/observations{query}")).await.json();
        handles(&list).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of("").await, ["e3", "e2", "e1"]);
    assert_eq!(of("?type=learning").await, ["e3", "e2"]);
    assert_eq!(of("?type=learning,risk_alert&tags=x").await, ["e2", "e1"]);
    assert_eq!(of("?tags=x,y").await, ["e1"]);
    assert_eq!(of("?status=resolved").await, Vec::<String>::new());
    let first = house.get("/observations?limit=2").await.json();
    assert_eq!((&first["total"], &first["returned"]), (&json!(3), &json!(2)));
    assert_eq!(
        of(&format!("?limit=2&cursor={}", first["next"].as_str().unwrap())).await,
        ["e1"]
    );
    house
        .assert_refused(
            &format!("/observations?tags=x&cursor={}", first["next"].as_str().unwrap()),
            400,
            "invalid",
        )
        .await;
}

#[tokio::test]
async fn observation_is_returned_in_the_shape_of_seed_002() {
    let house = House::new().await;
    let input = ObservationInput {
        content: "likes Burgundy".to_owned(),
        confidence: Some(json!(0.75)),
        ..Default::default()
    };
    let written = house.workspace().add_observation(&person(), input, None).await.unwrap();
    let shown = house.get("/observations/e1").await.json();
    assert_eq!(shown["observation_id"], written.entry.id.to_string());
    assert_eq!(
        (&shown["content"], &shown["confidence"]),
        (&json!("likes Burgundy"), &json!(0.75))
    );
    assert_eq!(
        (&shown["status"], &shown["state"], &shown["version"]),
        (&json!("active"), &json!("live"), &json!(1))
    );
    assert_eq!(
        house.get(&format!("/observations/{}", written.entry.id)).await.json(),
        shown
    );
}

#[tokio::test]
async fn run_page_entry_is_not_found_as_an_observation() {
    let house = House::new().await;
    house.submit(SLOW).await;
    house.assert_refused("/observations/e1", 404, "not_found").await;
}

#[tokio::test]
async fn scratchbook_route_returns_the_view_that_a_model_reads_m7_8() {
    let house = House::new().await;
    let thread = ThreadKey("a/b".to_owned());
    for title in ["First", "Second"] {
        let item = serde_json::from_value(json!({"kind": "todo", "title": title})).unwrap();
        house
            .workspace()
            .add_item(&person(), &thread, item, None)
            .await
            .unwrap();
    }
    let shown = house.get("/threads/a%2Fb/scratchbook?model=gpt-5").await.json();
    let text = shown["view"].as_str().unwrap();
    assert!(
        text.ends_with("Todos:\ne1 [todo/open] First\ne2 [todo/open] Second\n"),
        "{text}"
    );
    assert_eq!(shown["receipt"]["counted"], "o200k_base");
    let path = "/threads/a%2Fb/scratchbook?view_token_limit=4000&max_rendered_items=1";
    let less = house.get(path).await.json();
    assert!(less["view"].as_str().unwrap().ends_with("+1 more\n"), "{less}");
    house
        .assert_refused("/threads/a%2Fb/scratchbook?view_token_limit=x", 400, "query_invalid")
        .await;
    assert_eq!(house.get("/threads/a_b/scratchbook").await.json()["view"], "");
}

#[tokio::test]
async fn as_of_lists_observations_as_they_were_at_a_commit_m7_11_7() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "then", "context": {"n": 1.0}}))
        .await;
    let then = house.get_json("/observations").await["as_of"].as_u64().unwrap();
    house
        .post_and_expect("/observations", 201, json!({"content": "now"}))
        .await;
    house.post_and_expect("/observations/e1/archive", 200, json!({})).await;
    let list = house.get_json(&format!("/observations?as_of={then}&context.n=1")).await;
    assert_eq!(
        (&list["total"], &list["items"][0]["content"], &list["as_of"]),
        (&json!(1), &json!("then"), &json!(then)),
        "{list}"
    );
    // Nothing is later than what there is.
    let list = house.get_json(&format!("/observations?as_of={}", then + 1000)).await;
    assert_eq!(
        (&list["total"], &list["items"][0]["content"]),
        (&json!(1), &json!("now")),
        "{list}"
    );
}

#[tokio::test]
async fn unmatched_filter_value_yields_an_empty_list_m7_2_13() {
    let house = House::new().await;
    house.post_and_expect("/pages", 201, json!({"title": "one"})).await;
    house.run(ECHO).await;
    for path in ["/runs?status=bogus", "/pages?role=bogus", "/observations?status=bogus"] {
        assert_eq!(house.get_json(path).await["items"], json!([]), "{path}");
    }
    assert_eq!(house.get_json("/runs?status=bogus,ok").await["returned"], 1);
}

#[tokio::test]
async fn conflicting_query_parameters_are_refused_m7_2_13() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "x", "context": {"a": 1}}))
        .await;
    for path in [
        "/observations?context.a=1&context.a=2",
        "/observations?context.=1",
        "/search?text=x&q=y",
        "/search?q=x&query=y",
        "/threads/main/history?range=1:2&from=1",
        "/blobs/e1?lines=1:2&from=0",
        "/blobs/e1?search=x&to=5",
        "/blobs/e1?lines=1:2&search=x",
    ] {
        house.assert_refused(path, 400, "query_invalid").await;
    }
}
