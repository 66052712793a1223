//! The policy of the space, as people read and change it over HTTP.

use folio::Role;
use folio_server::ServeOptions;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::house::{House, assert_problem};

impl House {
    async fn change_policy(&self, headers: &[&str], body: Value) -> Answer {
        self.ask("PATCH", "/policy", headers, Some(body)).await
    }
}

#[tokio::test]
async fn policy_is_read_changed_by_key_and_replaced_as_a_whole() {
    let house = House::new().await;
    let read = house.get("/policy").await;
    assert_eq!((read.status, read.header("etag")), (200, "\"0\""), "{read:?}");
    let built_in = read.json();
    assert_eq!((&built_in["space"], &built_in["policy"]), (&json!("main"), &json!({})));
    assert_eq!(built_in["in_force"]["strict_types"], "tools");

    let set = json!({
        "set": {"strict_types": "nobody", "retention.purge_after_minutes": null, "types.tide.class": "alert"},
        "reason": "keep all of it",
    });
    let changed = house.change_policy(&["If-Match: \"0\""], set).await;
    assert_eq!((changed.status, changed.header("etag")), (200, "\"1\""), "{changed:?}");
    let changed = changed.json();
    assert_eq!((&changed["version"], &changed["changed_seq"]), (&json!(1), &json!(1)));
    assert_eq!(changed["policy"]["types"]["tide"]["class"], "alert");
    assert_eq!(changed["in_force"]["retention"]["purge_after_minutes"], Value::Null);
    assert_eq!(house.get_json("/policy").await["policy"], changed["policy"]);

    let unset = json!({"unset": ["types.tide", "retention.purge_after_minutes"], "set": {"redaction": "pii"}});
    let left = house.change_policy(&[], unset).await.json();
    assert_eq!(left["policy"], json!({"strict_types": "nobody", "redaction": "pii"}));

    // What GET returns goes back by PUT, and so does a document alone.
    let mut whole = house.get_json("/policy").await;
    whole["policy"]["strict_types"] = json!("everybody");
    let replaced = house.put_if("/policy", None, &whole.to_string()).await.json();
    assert_eq!(
        replaced["policy"],
        json!({"strict_types": "everybody", "redaction": "pii"})
    );
    let document = house
        .put("/policy", "\"3\"", r#"{"strict_types": "nobody"}"#)
        .await
        .json();
    assert_eq!(
        (&document["version"], &document["policy"]),
        (&json!(4), &json!({"strict_types": "nobody"}))
    );
    house.stop().await.unwrap();
}

#[tokio::test]
async fn key_of_a_tool_with_a_dot_in_its_name_is_set_and_reset() {
    let house = House::new().await;
    let set = json!({"set": {r"manifests.mail\.send.max_per_call": 3}});
    let changed = house.change_policy(&[], set).await.json();
    assert_eq!(changed["policy"]["manifests"]["mail.send"]["max_per_call"], 3);
    let refused = house
        .change_policy(&[], json!({"set": {"manifests.mail.send.max_per_call": 3}}))
        .await;
    assert_problem(&refused, 422, "policy_invalid");
    assert_eq!(refused.json()["errors"][0]["key"], "manifests.mail.send");
    let unset = json!({"unset": [r"manifests.mail\.send"]});
    assert_eq!(house.change_policy(&[], unset).await.json()["policy"], json!({}));
    house.stop().await.unwrap();
}

#[tokio::test]
async fn policy_at_another_version_is_refused() {
    let house = House::new().await;
    let nobody = json!({"set": {"strict_types": "nobody"}});
    house.change_policy(&[], nobody.clone()).await;
    let everybody = json!({"set": {"strict_types": "everybody"}});
    assert_problem(
        &house.change_policy(&["If-Match: 0"], everybody.clone()).await,
        409,
        "stale_policy",
    );
    assert_problem(&house.put("/policy", "7", "{}").await, 409, "stale_policy");
    let read_before = house.get_json("/policy").await;
    house.change_policy(&[], json!({"set": {"redaction": "pii"}})).await;
    let put_back = house.put_if("/policy", None, &read_before.to_string()).await;
    assert_problem(&put_back, 409, "stale_policy");
    house.change_policy(&[], json!({"unset": ["redaction"]})).await;
    // It is as wanted already.
    assert_eq!(house.change_policy(&["If-Match: 0"], nobody).await.status, 200);
    assert_eq!(house.get_json("/policy").await["version"], 3);
    house.stop().await.unwrap();
}

#[tokio::test]
async fn every_mistake_of_a_policy_is_named_over_http() {
    let house = House::new().await;
    let keys = |answer: &Answer| -> Vec<String> {
        let errors = answer.json()["errors"].as_array().unwrap().clone();
        let mut keys: Vec<_> = errors
            .iter()
            .map(|one| one["key"].as_str().unwrap().to_owned())
            .collect();
        keys.sort();
        keys
    };
    let wrong = r#"{"strict_types": "perhaps", "quotas": {}, "types": {"tide": {"class": "storm"}}}"#;
    let refused = house.put_if("/policy", None, wrong).await;
    assert_problem(&refused, 422, "policy_invalid");
    assert_eq!(keys(&refused), ["quotas", "strict_types", "types.tide.class"]);
    let refused = house
        .change_policy(&[], json!({"set": {"quota.live_observations": 0}, "unset": []}))
        .await;
    assert_problem(&refused, 422, "policy_invalid");
    assert_eq!(keys(&refused), ["quota"]);
    let refused = house
        .change_policy(&[], json!({"unset": ["strict_type", "typs.x"]}))
        .await;
    assert_eq!(keys(&refused), ["strict_type", "typs.x"]);
    assert_problem(&house.change_policy(&[], json!({})).await, 422, "body_invalid");
    assert_problem(
        &house.change_policy(&[], json!({"strict_types": "nobody"})).await,
        422,
        "body_invalid",
    );
    for (wrong, told) in [("[]", "an object"), (r#"{"policy": []}"#, "policy: ")] {
        let refused = house.put_if("/policy", None, wrong).await;
        assert_problem(&refused, 422, "body_invalid");
        assert!(refused.body.contains(told), "{refused:?}");
    }
    let of_another = json!({"policy": {}, "space": "other"}).to_string();
    assert_problem(&house.put_if("/policy", None, &of_another).await, 422, "body_invalid");
    // What follows from the document cannot be set.
    let mut whole = house.get_json("/policy").await;
    whole["in_force"]["strict_types"] = json!("nobody");
    assert_problem(
        &house.put_if("/policy", None, &whole.to_string()).await,
        422,
        "body_invalid",
    );
    assert_eq!(house.workspace().head().await.unwrap().0, 0);
    house.stop().await.unwrap();
}

#[tokio::test]
async fn change_of_the_policy_under_a_key_is_made_once() {
    let house = House::new().await;
    let tide = json!({"set": {"types.tide.class": "alert"}});
    let first = house.change_policy(&["Idempotency-Key: k"], tide.clone()).await.json();
    house.change_policy(&[], json!({"unset": ["types.tide"]})).await;
    let again = house.change_policy(&["Idempotency-Key: k"], tide).await.json();
    assert_eq!((&first["replayed"], &again["replayed"]), (&Value::Null, &json!(true)));
    assert_eq!(again["policy"], json!({}), "what came later stays");
    let other = json!({"set": {"types.wave.class": "alert"}});
    assert_problem(
        &house.change_policy(&["Idempotency-Key: k"], other).await,
        422,
        "key_reused",
    );
    let put = async |body: Value| house.ask("PUT", "/policy", &["Idempotency-Key: k"], Some(body)).await;
    assert_eq!(
        put(json!({"strict_types": "nobody"})).await.json()["replayed"],
        Value::Null
    );
    assert_eq!(put(json!({"strict_types": "nobody"})).await.json()["replayed"], true);
    assert_problem(&put(json!({"strict_types": "everybody"})).await, 422, "key_reused");
    // By then something else is in force than what the request was based on.
    let mut whole = house.get_json("/policy").await;
    whole.as_object_mut().unwrap().remove("version");
    whole["policy"]["redaction"] = json!("pii");
    let put = async |body: &Value| {
        house
            .ask("PUT", "/policy", &["Idempotency-Key: w"], Some(body.clone()))
            .await
    };
    for replayed in [Value::Null, json!(true)] {
        let answer = put(&whole).await;
        assert_eq!(
            (answer.status, &answer.json()["replayed"]),
            (200, &replayed),
            "{answer:?}"
        );
    }
    house.stop().await.unwrap();
}

#[tokio::test]
async fn only_people_change_the_policy_and_those_who_see_the_space_read_it_m7_7() {
    let options = ServeOptions::at("127.0.0.1:0".parse().unwrap());
    let house = House::serving(House::runner().await, None, options).await;
    for (role, may_read) in [
        (Role::Client, true),
        (Role::Evaluator, true),
        (Role::Tool, false),
        (Role::Executor, false),
        (Role::Planner, false),
        (Role::Compactor, false),
    ] {
        let token = House::token(&house.runner, "main", role).await.0;
        let read = house.ask_as(&token, "GET", "/policy", None).await;
        if may_read {
            assert_eq!(read.status, 200, "{role}");
        } else {
            assert_problem(&read, 403, "role_denied");
        }
        for (method, body) in [("PATCH", json!({"set": {"strict_type": 1}})), ("PUT", json!({"x": 1}))] {
            let refused = house.ask_as(&token, method, "/policy", Some(body)).await;
            assert_problem(&refused, 403, "role_denied");
        }
    }
    let token = House::token(&house.runner, "main", Role::Human).await.0;
    let body = Some(json!({"set": {"strict_types": "nobody"}}));
    assert_eq!(house.ask_as(&token, "PATCH", "/policy", body).await.status, 200);
    // A token for another space does not reach this one.
    let token = House::token(&house.runner, "other", Role::Human).await.0;
    let refused = house.ask_as(&token, "GET", "/policy", None).await;
    assert_problem(&refused, 403, "token_of_another_space");
    house.stop().await.unwrap();
}
