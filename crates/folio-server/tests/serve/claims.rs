//! Work that several share, over HTTP: claims of items, and their release.

use folio::Role;
use folio_server::ServeOptions;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::house::{House, assert_problem};

const BOOK: &str = "/threads/t%2F1/scratchbook";

impl House {
    async fn add_task(&self, title: &str) -> String {
        let added = self
            .post_and_expect(&format!("{BOOK}/items"), 201, json!({"kind": "task", "title": title}))
            .await;
        added["handle"].as_str().unwrap().to_owned()
    }

    /// Claims or releases (`act`) an item.
    async fn act(&self, item: &str, act: &str, headers: &[&str], body: Value) -> Answer {
        self.ask("POST", &format!("{BOOK}/items/{item}/{act}"), headers, Some(body))
            .await
    }
}

#[tokio::test]
async fn claimed_item_is_refused_to_others_until_it_is_released_m7_4_35() {
    let house = House::new().await;
    let task = house.add_task("Ship it").await;
    let claimed = house
        .act(
            &task,
            "claim",
            &[],
            json!({"owner": "ada", "lease_minutes": 60, "reason": "my turn"}),
        )
        .await;
    assert_eq!((claimed.status, claimed.header("etag")), (200, "\"2\""), "{claimed:?}");
    let item = claimed.json();
    assert_eq!(
        (&item["status"], &item["owner"], &item["version"]),
        (&json!("in_progress"), &json!("ada"), &json!(2))
    );
    assert!(item["lease_until"].is_string(), "{item}");
    assert_eq!(house.get_json(&format!("{BOOK}/items/{task}")).await, item);

    let refused = house.act(&task, "claim", &[], json!({"owner": "bob"})).await;
    assert_problem(&refused, 409, "claimed");
    assert!(refused.body.contains("e1 is taken by ada until"), "{refused:?}");
    assert_problem(
        &house.act(&task, "release", &[], json!({"owner": "bob"})).await,
        409,
        "claimed",
    );
    // Its owner claims it again, now without an end.
    let renewed = house.act(&task, "claim", &[], json!({"owner": "ada"})).await.json();
    assert_eq!((&renewed["owner"], renewed.get("lease_until")), (&json!("ada"), None));

    let released = house.act(&task, "release", &[], json!({"owner": "ada"})).await.json();
    assert_eq!((&released["status"], released.get("owner")), (&json!("open"), None));
    let bobs = house.act(&task, "claim", &[], json!({"owner": "bob"})).await.json();
    assert_eq!(bobs["owner"], "bob");
    let done = house.post(&format!("{BOOK}/items/{task}/complete"), "").await;
    assert_eq!(done.status, 200, "{done:?}");
    let late = house.act(&task, "claim", &[], json!({"owner": "ada"})).await;
    assert_problem(&late, 409, "not_claimable");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn claim_of_which_something_is_wrong_is_refused_by_its_field() {
    let house = House::new().await;
    let task = house.add_task("Ship it").await;
    for (body, code, told) in [
        (json!({}), "body_invalid", "owner"),
        (json!({"owner": ""}), "owner_invalid", "owner"),
        (json!({"owner": "ada lovelace"}), "owner_invalid", "owner"),
        (
            json!({"owner": "ada", "lease_minutes": 0}),
            "body_invalid",
            "lease_minutes",
        ),
        (
            json!({"owner": "ada", "lease_minutes": 525_601}),
            "body_invalid",
            "lease_minutes",
        ),
        (json!({"owner": "ada", "lease": 5}), "body_invalid", "lease"),
    ] {
        let refused = house.act(&task, "claim", &[], body.clone()).await;
        assert_problem(&refused, 422, code);
        assert!(refused.body.contains(told), "{body}: {refused:?}");
    }
    let note = house
        .post_and_expect(&format!("{BOOK}/items"), 201, json!({"kind": "note", "title": "x"}))
        .await;
    let note = note["handle"].as_str().unwrap();
    assert_problem(
        &house.act(note, "claim", &[], json!({"owner": "ada"})).await,
        422,
        "kind_invalid",
    );
    let missing = house.act("e99", "claim", &[], json!({"owner": "ada"})).await;
    assert_problem(&missing, 404, "not_found");
    let of_another_thread = format!("/threads/other/scratchbook/items/{task}/claim");
    let refused = house
        .ask("POST", &of_another_thread, &[], Some(json!({"owner": "ada"})))
        .await;
    assert_problem(&refused, 404, "not_found");
    let stale = house
        .act(&task, "claim", &["If-Match: \"7\""], json!({"owner": "ada"}))
        .await;
    assert_problem(&stale, 409, "stale_version");
    assert_eq!(stale.json()["current"]["handle"], json!(task));
    assert_eq!(house.get_json(&format!("{BOOK}/items/{task}")).await["version"], 1);
    house.stop().await.unwrap();
}

#[tokio::test]
async fn repeated_claim_under_a_key_tells_who_has_the_item_now() {
    let house = House::new().await;
    let task = house.add_task("Ship it").await;
    let key = ["Idempotency-Key: k"];
    let body = json!({"owner": "ada", "lease_minutes": 60});
    let first = house.act(&task, "claim", &key, body.clone()).await.json();
    let again = house.act(&task, "claim", &key, body.clone()).await;
    let mut expected = first.clone();
    expected["replayed"] = json!(true);
    assert_eq!((again.status, again.json()), (200, expected), "no second claim");
    let other = house.act(&task, "claim", &key, json!({"owner": "ada"})).await;
    assert_problem(&other, 422, "key_reused");
    house.act(&task, "release", &[], json!({"owner": "ada"})).await;
    house.act(&task, "claim", &[], json!({"owner": "bob"})).await;
    // It is bob's by now, whatever the first answer said.
    assert_problem(&house.act(&task, "claim", &key, body).await, 409, "claimed");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn of_many_that_claim_at_once_each_gets_an_item_of_its_own_m7_4_35() {
    const WORKERS: usize = 8;
    let house = House::new().await;
    let claims = (0..WORKERS).map(|worker| {
        let house = &house;
        async move {
            let body = json!({"owner": format!("worker-{worker}"), "lease_minutes": 5});
            house
                .ask("POST", &format!("{BOOK}/claim"), &[], Some(body))
                .await
                .json()
        }
    });
    let of_nothing = house
        .post_and_expect(&format!("{BOOK}/claim"), 200, json!({"owner": "ada"}))
        .await;
    assert_eq!(of_nothing, json!({"claimed": null}));
    for task in 0..WORKERS {
        house.add_task(&format!("task {task}")).await;
    }
    let claimed = futures_util::future::join_all(claims).await;
    let mut handles: Vec<&str> = claimed
        .iter()
        .map(|one| one["claimed"]["handle"].as_str().unwrap())
        .collect();
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(handles.len(), WORKERS, "{claimed:?}");
    let nothing = house
        .post_and_expect(&format!("{BOOK}/claim"), 200, json!({"owner": "ada"}))
        .await;
    assert_eq!(nothing, json!({"claimed": null}));
    // Who asks again gets what they have begun.
    let again = house
        .post_and_expect(&format!("{BOOK}/claim"), 200, json!({"owner": "worker-0"}))
        .await;
    assert_eq!(again["claimed"]["handle"], claimed[0]["claimed"]["handle"]);
    let on_condition = house
        .ask(
            "POST",
            &format!("{BOOK}/claim"),
            &["If-Match: 1"],
            Some(json!({"owner": "ada"})),
        )
        .await;
    assert_problem(&on_condition, 400, "if_match_invalid");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn only_roles_that_may_change_items_claim_them_m7_7() {
    let options = ServeOptions::at("127.0.0.1:0".parse().unwrap());
    let house = House::serving(House::runner().await, None, options).await;
    let task = house.add_task("Ship it").await;
    for (role, may_claim) in [(Role::Client, true), (Role::Tool, false), (Role::Router, false)] {
        let token = House::token(&house.runner, "main", role).await.0;
        let path = format!("{BOOK}/items/{task}/claim");
        let body = json!({"owner": role.as_str(), "lease_minutes": 1});
        let answer = house.ask_as(&token, "POST", &path, Some(body.clone())).await;
        if may_claim {
            assert_eq!(answer.status, 200, "{role}: {answer:?}");
            let released = house.act(&task, "release", &[], json!({"owner": body["owner"]})).await;
            assert_eq!(released.json()["status"], "open");
        } else {
            assert_problem(&answer, 403, "role_denied");
        }
    }
    house.stop().await.unwrap();
}
