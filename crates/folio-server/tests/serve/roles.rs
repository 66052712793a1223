//! The permissions of roles other than the person at this machine and a program with a token for everything.

use folio::Role;
use folio::memory::policy::SpacePolicy;
use folio::store::AccessToken;
use folio_server::ServeOptions;
use serde_json::json;

use crate::house::{House, assert_problem, person};

/// The roles that work within a turn or a run.
const STAGES: [Role; 7] = [
    Role::Planner,
    Role::Router,
    Role::Clarifier,
    Role::Evaluator,
    Role::Reflector,
    Role::Cleaner,
    Role::Compactor,
];

/// Those of them that see only a part of the space.
const WITHIN: [Role; 4] = [Role::Tool, Role::Executor, Role::Planner, Role::Compactor];

async fn house() -> House {
    let options = ServeOptions::at("127.0.0.1:0".parse().unwrap());
    House::serving(House::runner().await, None, options).await
}

impl House {
    async fn token_of(&self, role: Role) -> AccessToken {
        Self::token(&self.runner, "main", role).await.0
    }
}

#[tokio::test]
async fn forget_dry_run_is_allowed_to_people_only_m7_7() {
    let house = house().await;
    let secret = json!({"content": "The code word is heliotrope"});
    house.post_and_expect("/observations", 201, secret).await;
    let dry = json!({"text": "heliotrope", "dry_run": true});
    for role in [Role::Client, Role::Tool, Role::Executor].into_iter().chain(STAGES) {
        let token = house.token_of(role).await;
        let told = house.ask_as(&token, "POST", "/forget", Some(dry.clone())).await;
        assert_problem(&told, 403, "role_denied");
    }
    let token = house.token_of(Role::Human).await;
    let told = house.ask_as(&token, "POST", "/forget", Some(dry)).await;
    assert_eq!(told.json()["forgotten"][0]["handle"], "e1", "{told:?}");
}

#[tokio::test]
async fn only_roles_that_call_tools_may_submit_tool_responses_m7_7() {
    let house = house().await;
    let said = json!({"request_id": "q", "tool_id": "wine", "status": "ok", "observations": [{"content": "red"}]});
    let asked = json!({"tool_id": "wine", "scratch_page_query": {}});
    for role in STAGES {
        let token = house.token_of(role).await;
        for (path, body) in [("/tool-responses", &said), ("/tool-requests/context", &asked)] {
            for path in [path.to_owned(), format!("{path}?tool=wine")] {
                let refused = house.ask_as(&token, "POST", &path, Some(body.clone())).await;
                assert_problem(&refused, 403, "role_denied");
            }
        }
    }
    assert_eq!(house.workspace().head().await.unwrap().0, 0);
    for role in [Role::Executor, Role::Client, Role::Human] {
        let token = house.token_of(role).await;
        let path = format!("/tool-responses?call={role}");
        let taken = house.ask_as(&token, "POST", &path, Some(said.clone())).await;
        assert_eq!(taken.json()["stored"][0]["source"]["tool"], "wine", "{role}: {taken:?}");
    }
}

#[tokio::test]
async fn tool_token_overrides_the_claimed_tool_id_m7_7() {
    let house = house().await;
    let policy = json!({"manifests": {"ci": {"reads": {"types": ["risk_alert"]}}}});
    let policy: SpacePolicy = serde_json::from_value(policy).unwrap();
    let set = house.workspace().set_policy(&person(), policy, None, None).await;
    drop(set.unwrap());
    for body in [
        json!({"content": "for wine"}),
        json!({"content": "for ci", "type": "risk_alert"}),
    ] {
        house.post_and_expect("/observations", 201, body).await;
    }
    let token = house.token_of(Role::Tool).await;
    let said = json!({"request_id": "q", "tool_id": "wine", "status": "ok", "observations": [{"content": "red"}]});
    let asked = json!({"tool_id": "wine", "scratch_page_query": {}});
    for query in ["", "?tool=wine"] {
        let path = format!("/tool-responses{query}");
        let taken = house.ask_as(&token, "POST", &path, Some(said.clone())).await;
        assert_eq!(taken.json()["stored"][0]["source"]["tool"], "ci", "{taken:?}");
        let path = format!("/tool-requests/context{query}");
        let seen = house.ask_as(&token, "POST", &path, Some(asked.clone())).await.json();
        let seen = seen["scratch_page_context"].as_array().unwrap();
        assert_eq!((seen.len(), &seen[0]["content"]), (1, &json!("for ci")));
    }
}

#[tokio::test]
async fn narrow_roles_may_name_a_turn_but_not_read_it_m7_7() {
    let house = house().await;
    house
        .post_and_expect("/turns", 201, json!({"input": "The code word is heliotrope"}))
        .await;
    let id = house.get_json("/turns/t1").await["turn_id"].clone();
    let said = json!({"request_id": "q", "tool_id": "ci", "status": "ok", "observations": [{"content": "red"}]});
    let asked = json!({"tool_id": "ci", "scratch_page_query": {}});
    for role in [Role::Tool, Role::Executor, Role::Planner] {
        let token = house.token_of(role).await;
        let shown = format!("Authorization: Bearer {}", token.reveal());
        let in_turn = async |turn: &str, path: &str, body| {
            let turn = format!("Folio-Turn: {turn}");
            house.ask("POST", path, &[&shown, &turn], Some(body)).await
        };
        let noticed = in_turn("t1", "/observations", json!({"content": "red"})).await;
        assert_eq!(noticed.status, 201, "{role}: {noticed:?}");
        assert_eq!(noticed.json()["source"]["turn_id"], id, "{role}");
        if role != Role::Planner {
            let taken = in_turn("t1", &format!("/tool-responses?call={role}"), said.clone()).await;
            assert_eq!(taken.json()["stored"][0]["source"]["turn_id"], id, "{role}: {taken:?}");
            let taken = house
                .ask_as(&token, "POST", "/tool-responses?turn=t1", Some(said.clone()))
                .await;
            assert_eq!(taken.status, 200, "{role}: {taken:?}");
            assert_eq!(
                in_turn("t1", "/tool-requests/context", asked.clone()).await.status,
                200,
                "{role}"
            );
        }
        assert_problem(
            &in_turn("t9", "/observations", json!({"content": "x"})).await,
            404,
            "not_found",
        );
        let turn = ["Folio-Turn: t1", &shown];
        assert_problem(&house.ask("GET", "/turns/t1", &turn, None).await, 403, "role_denied");
    }
}

#[tokio::test]
async fn invalid_tool_query_returns_empty_context_and_is_traced_m7_2_19() {
    let house = house().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "x"}))
        .await;
    let wrong = json!({"tool_id": "ci", "scratch_page_query": {"filters": {"tgas": "x"}}});
    for (role, status) in [(Role::Tool, 200), (Role::Executor, 422), (Role::Human, 422)] {
        let token = house.token_of(role).await;
        let answer = house
            .ask_as(&token, "POST", "/tool-requests/context", Some(wrong.clone()))
            .await;
        assert_eq!(answer.status, status, "{role}: {answer:?}");
        if role == Role::Tool {
            assert_eq!(answer.json(), json!({"scratch_page_context": []}));
        } else {
            assert_problem(&answer, 422, "filter_unknown");
        }
    }
    let lines = house.get_json("/trace?component=scratch_page").await;
    let failed = lines["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["status"] == "failed");
    let codes: Vec<_> = failed.map(|line| line["detail"]["code"].clone()).collect();
    assert_eq!(codes, ["filter_unknown"; 3]);
}

#[tokio::test]
async fn turn_denied_to_a_role_is_not_begun_m7_7() {
    let house = house().await;
    for role in WITHIN {
        let token = house.token_of(role).await;
        let input = json!({"input": "What do we know?"});
        assert_problem(
            &house.ask_as(&token, "POST", "/turns", Some(input)).await,
            403,
            "role_denied",
        );
    }
    assert_eq!(house.get_json("/turns").await["returned"], 0);
    assert_eq!(house.workspace().head().await.unwrap().0, 0);
}

#[tokio::test]
async fn only_final_stages_clients_and_people_may_end_a_turn_m7_7() {
    let house = house().await;
    house.post_and_expect("/turns", 201, json!({"input": "x"})).await;
    for role in WITHIN.into_iter().chain([Role::Router, Role::Clarifier, Role::Cleaner]) {
        let token = house.token_of(role).await;
        let refused = house.ask_as(&token, "POST", "/turns/t1/end", None).await;
        assert_problem(&refused, 403, "role_denied");
    }
    assert_eq!(house.get_json("/turns?open=true").await["returned"], 1);
    for (nth, role) in [Role::Reflector, Role::Evaluator, Role::Client, Role::Human]
        .into_iter()
        .enumerate()
    {
        let token = house.token_of(role).await;
        house.post_and_expect("/turns", 201, json!({"input": "x"})).await;
        let ended = house
            .ask_as(&token, "POST", &format!("/turns/t{}/end", nth + 2), None)
            .await;
        assert_eq!(ended.status, 200, "{role}: {ended:?}");
    }
}

#[tokio::test]
async fn idempotency_key_is_scoped_to_its_token_not_its_role() {
    let house = house().await;
    let tokens = [house.token_of(Role::Client).await, house.token_of(Role::Client).await];
    let add = async |token: &AccessToken| {
        let shown = format!("Authorization: Bearer {}", token.reveal());
        let body = json!({"content": "seen"});
        let head = ["Idempotency-Key: 1", shown.as_str()];
        house.ask("POST", "/observations", &head, Some(body)).await.json()
    };
    let first = add(&tokens[0]).await;
    let other = add(&tokens[1]).await;
    assert_ne!(other["observation_id"], first["observation_id"], "{other}");
    let again = add(&tokens[0]).await;
    assert_eq!(
        (&again["observation_id"], &again["replayed"]),
        (&first["observation_id"], &json!(true))
    );
}

#[tokio::test]
async fn roles_change_their_own_entries_whatever_they_may_read_m7_7() {
    let house = house().await;
    let items = "/threads/main/scratchbook/items";
    house
        .post_and_expect(items, 201, json!({"kind": "task", "title": "of others"}))
        .await;
    for (role, may_patch, may_pin) in [
        (Role::Planner, true, true),
        (Role::Executor, true, false),
        (Role::Tool, false, false),
    ] {
        let token = house.token_of(role).await;
        let ask = async |method: &str, path: &str, body| house.ask_as(&token, method, path, body).await;
        let added = ask("POST", items, Some(json!({"kind": "task", "title": "mine"}))).await;
        let own = format!("{items}/{}", added.json()["handle"].as_str().unwrap());
        for (method, act, body, is_allowed) in [
            ("PATCH", "", Some(json!({"title": "mine still"})), may_patch),
            ("POST", "/complete", None, true),
            ("POST", "/pin", None, may_pin),
        ] {
            let told = ask(method, &format!("{own}{act}"), body).await;
            assert_eq!(told.status == 200, is_allowed, "{role} {act}: {told:?}");
        }
        let noticed = ask("POST", "/observations", Some(json!({"content": "red"})))
            .await
            .json();
        let own = format!("/observations/{}", noticed["handle"].as_str().unwrap());
        let resolved = ask("POST", &format!("{own}/resolve"), None).await;
        assert_eq!(resolved.status, 200, "{role}: {resolved:?}");
        let elsewhere = own.replace("/observations/", "/threads/other/scratchbook/items/");
        let told = ask("PATCH", &elsewhere, Some(json!({"title": "x"}))).await;
        assert!(matches!(told.status, 403 | 404), "{role}: {told:?}");
    }
}

#[tokio::test]
async fn refusal_says_what_was_tried_of_an_entry_out_of_sight_m7_7() {
    let house = house().await;
    let items = "/threads/main/scratchbook/items";
    house
        .post_and_expect(items, 201, json!({"kind": "task", "title": "of others"}))
        .await;
    let token = house.token_of(Role::Tool).await;
    for (path, tried) in [
        ("pin", "a tool may not pin or unpin e1, which it may not read"),
        (
            "complete",
            "a tool may not change the status of what others wrote: e1, which it may not read",
        ),
    ] {
        let told = house.ask_as(&token, "POST", &format!("{items}/e1/{path}"), None).await;
        assert_problem(&told, 403, "role_denied");
        let detail = told.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with(tried), "{detail}");
    }
}
