//! Requests that are repeated under one idempotency key, and different ones that use it by mistake.

use serde_json::{Value, json};

use crate::client::Answer;
use crate::house::{House, SLOW, assert_problem};

#[tokio::test]
async fn idempotency_key_reused_with_another_body_is_refused() {
    let house = House::new().await;
    house
        .post_and_expect(
            "/threads/main/scratchbook/items",
            201,
            json!({"kind": "task", "title": "t"}),
        )
        .await;
    for (path, first, other) in [
        ("/observations", json!({"content": "one"}), json!({"content": "two"})),
        (
            "/threads/main/scratchbook/items",
            json!({"kind": "note", "title": "one"}),
            json!({"kind": "note", "title": "two"}),
        ),
        ("/pages", json!({"title": "one"}), json!({"title": "two"})),
        ("/pages/p1/entries", json!({"text": "one"}), json!({"text": "two"})),
        ("/turns", json!({"input": "one"}), json!({"input": "two"})),
        ("/runs", json!({"plan": SLOW}), json!({"plan": SLOW, "thread": "else"})),
    ] {
        let key = format!("Idempotency-Key: {path} {other}");
        let ask = async |body: &Value| house.ask("POST", path, &[&key], Some(body.clone())).await;
        let made = ask(&first).await;
        assert_eq!(made.status, 201, "{path}: {made:?}");
        assert_problem(&ask(&other).await, 422, "key_reused");
        if path == "/runs" {
            // Nobody here could ask the model that it needs, and that is not what is wrong with it.
            assert_problem(&ask(&json!({"goal": "something else"})).await, 422, "key_reused");
        }
        let again = ask(&first).await;
        assert_eq!(
            (again.status, again.header("location")),
            (201, made.header("location")),
            "{path}: {again:?}"
        );
        let said = |answer: &Answer| answer.json()["replayed"].clone();
        assert_eq!((said(&made), said(&again)), (Value::Null, json!(true)), "{path}");
    }
    house.stop().await.unwrap();
}

#[tokio::test]
async fn idempotency_key_reused_with_another_if_match_is_refused() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "once"}))
        .await;
    let patch = async |version: &str, content: &str| {
        let head = ["Idempotency-Key: k", &format!("If-Match: {version}")];
        let body = Some(json!({"content": content}));
        house.ask("PATCH", "/observations/e1", &head, body).await
    };
    assert_eq!(patch("1", "twice").await.json()["version"], 2);
    let again = patch("1", "twice").await.json();
    assert_eq!((&again["version"], &again["replayed"]), (&json!(2), &json!(true)));
    assert_problem(&patch("1", "thrice").await, 422, "key_reused");
    assert_problem(&patch("2", "twice").await, 422, "key_reused");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn key_of_forget_or_archive_is_refused_for_another_request() {
    let house = House::new().await;
    for content in ["one", "two", "three"] {
        house
            .post_and_expect("/observations", 201, json!({ "content": content }))
            .await;
    }
    let ask = async |path: &str, body: Value| house.ask("POST", path, &["Idempotency-Key: k"], Some(body)).await;
    for replayed in [Value::Null, json!(true)] {
        let forgot = ask("/forget", json!({"entries": ["e1"]})).await.json();
        assert_eq!(
            (&forgot["forgotten"][0]["handle"], &forgot["replayed"]),
            (&json!("e1"), &replayed),
            "{forgot}"
        );
    }
    assert_problem(&ask("/forget", json!({"entries": ["e2"]})).await, 422, "key_reused");
    assert_eq!(house.get_json("/observations/e2").await["content"], "two");
    let archive = async |reason: &str| ask("/observations/e3/archive", json!({ "reason": reason })).await;
    assert_eq!(archive("old").await.json()["status"], "archived");
    assert_eq!(archive("old").await.json()["replayed"], true);
    assert_problem(&archive("wrong").await, 422, "key_reused");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn patch_that_changes_nothing_makes_no_commit_and_leaves_its_key_free() {
    let house = House::new().await;
    let long = "and so on, ".repeat(7_000);
    house
        .post_and_expect("/observations", 201, json!({"content": "once"}))
        .await;
    house
        .post_and_expect("/observations", 201, json!({"content": long}))
        .await;
    let as_of = async || house.get_json("/observations").await["as_of"].clone();
    let patch = async |path: &str, content: &str| {
        let body = Some(json!({"content": content}));
        house.ask("PATCH", path, &["Idempotency-Key: k"], body).await.json()
    };
    let before = as_of().await;
    for (path, content) in [("/observations/e1", "once"), ("/observations/e2", &*long)] {
        let same = patch(path, content).await;
        assert_eq!(
            (&same["version"], &same["replayed"]),
            (&json!(1), &Value::Null),
            "{path}"
        );
    }
    assert_eq!(as_of().await, before);
    let changed = patch("/observations/e1", "twice").await;
    assert_eq!(changed["version"], 2, "{changed}");
    let again = patch("/observations/e1", "twice").await;
    assert_eq!((&again["version"], &again["replayed"]), (&json!(2), &json!(true)));
    house.stop().await.unwrap();
}

#[tokio::test]
async fn no_body_and_an_empty_object_are_one_request() {
    let house = House::new().await;
    for content in ["one", "two"] {
        let body = json!({"content": content});
        house.post_and_expect("/observations", 201, body).await;
    }
    for (path, other) in [
        ("/observations/e1/confirm", Some(json!({"reason": "other"}))),
        ("/observations/e2/archive", Some(json!({"reason": "other"}))),
    ] {
        let key = format!("Idempotency-Key: {path}");
        let first = house.ask("POST", path, &[&key], None).await;
        assert_eq!(first.status, 200, "{first:?}");
        let again = house.ask("POST", path, &[&key], Some(json!({}))).await;
        assert_eq!(again.status, 200, "{path}: {again:?}");
        assert_problem(&house.ask("POST", path, &[&key], other).await, 422, "key_reused");
    }
}

#[tokio::test]
async fn key_of_an_eviction_or_an_offload_is_refused_for_another_request() {
    let house = House::new().await;
    let talk = |word: &str| {
        let message =
            |n: u32| json!({"role": if n % 2 == 1 { "user" } else { "assistant" }, "content": format!("{word} {n}")});
        json!({"messages": (1..=20).map(message).collect::<Vec<_>>(), "force": true, "keep": 4})
    };
    let long = |word: &str| json!({"result": format!("{word} ").repeat(5_000), "limit": 200});
    for (path, first, other, nothing) in [
        (
            "/threads/t/evict",
            long("tide"),
            long("wave"),
            json!({"result": "short", "limit": 200}),
        ),
        (
            "/threads/t/history",
            talk("tide"),
            talk("wave"),
            json!({"messages": [], "keep": 4}),
        ),
    ] {
        let ask = async |body: &Value| {
            house
                .ask("POST", path, &["Idempotency-Key: k"], Some(body.clone()))
                .await
        };
        let made = ask(&first).await;
        assert_eq!(made.status, 200, "{path}: {made:?}");
        let name = |answer: &Answer| {
            let answer = answer.json();
            match path {
                "/threads/t/evict" => answer["ref"].clone(),
                _ => answer["receipt"]["history"].clone(),
            }
        };
        assert!(!name(&made).is_null(), "{path}: {made:?}");
        // Also a request that would write nothing.
        for wrong in [&other, &nothing] {
            assert_problem(&ask(wrong).await, 422, "key_reused");
        }
        let again = ask(&first).await;
        assert_eq!((again.status, name(&again)), (200, name(&made)), "{path}: {again:?}");
        // The same under another key, or under none, is nothing new either.
        for headers in [&["Idempotency-Key: another"][..], &[]] {
            let same = house.ask("POST", path, headers, Some(first.clone())).await;
            assert_eq!(name(&same), name(&made), "{path}: {same:?}");
        }
    }
    house.stop().await.unwrap();
}

#[tokio::test]
async fn eviction_under_a_key_is_not_kept_again_after_it_was_forgotten() {
    let house = House::new().await;
    let evict = async |headers: &[&str]| {
        let body = json!({"result": "tide ".repeat(5_000), "limit": 200});
        house.ask("POST", "/threads/t/evict", headers, Some(body)).await.json()["ref"].clone()
    };
    let kept = evict(&["Idempotency-Key: k"]).await;
    house.post_and_expect("/forget", 200, json!({"entries": [kept]})).await;
    let as_of = async || house.get_json("/observations").await["as_of"].clone();
    let before = as_of().await;
    assert_eq!(evict(&["Idempotency-Key: k"]).await, kept);
    assert_eq!(as_of().await, before, "a retry writes nothing");
    assert_ne!(evict(&[]).await, kept, "asked for anew, it is kept anew");
    house.stop().await.unwrap();
}
