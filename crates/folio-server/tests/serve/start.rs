//! Runs that are started over HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use folio_server::ServeOptions;
use serde_json::{Value, json};

use crate::house::{ECHO, House, SLOW, assert_problem};

/// The run as it is when it has ended.
async fn wait_for_end(house: &House, path: &str) -> Value {
    for _ in 0..1_000 {
        let run = house.get_json(path).await;
        if run["finished_at"].is_string() {
            return run;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{path} does not end");
}

#[tokio::test]
async fn run_started_with_a_plan_is_driven_by_the_server() {
    let house = House::new().await;
    let plan = json!({"title": "Two", "inputs": {"n": {"type": "integer"}},
                      "steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ inputs.n }}"}}}]});
    let body = json!({"plan": plan, "inputs": {"n": 7}, "thread": "t"});
    let start = || house.ask("POST", "/runs", &["Idempotency-Key: r"], Some(body.clone()));
    let first = start().await;
    assert_eq!(
        (first.status, &first.json()["handle"]),
        (201, &json!("r1")),
        "{first:?}"
    );
    let id = first.json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(first.header("location"), format!("/v1/spaces/main/runs/{id}"));
    assert_eq!(wait_for_end(&house, "/runs/r1").await["status"], "ok");
    let again = start().await.json();
    assert_eq!((&again["run_id"], &again["replayed"]), (&json!(id), &json!(true)));
    assert_eq!(first.json().get("replayed"), None);
    assert_eq!(house.get_json("/runs?status=ok").await["returned"], 1);
    let yaml = house.post_and_expect("/runs", 201, json!({"plan": ECHO})).await;
    assert_eq!(yaml["title"], "Echo");
    assert_eq!(wait_for_end(&house, "/runs/r2").await["status"], "ok");
}

#[tokio::test]
async fn limits_in_a_request_take_the_place_of_those_of_the_plan_e9_10() {
    let house = House::new().await;
    let plan = json!({"title": "One", "budget": {"tool_calls": 9, "model_calls": 8},
                      "steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}}]});
    let deadline = house.workspace().now().plus(Duration::from_secs(86_400)).to_string();
    let limits = json!({"tool_calls": 3, "micro_usd": 500_000, "deadline": deadline});
    let start = async || {
        let body = json!({"plan": plan, "limits": limits});
        house.ask("POST", "/runs", &["Idempotency-Key: l"], Some(body)).await
    };
    let first = start().await;
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(start().await.json()["replayed"], true);
    let of_run = house.get_json("/runs/r1/limits").await;
    let limit = |what: &str| {
        let limits = of_run["limits"].as_array().unwrap();
        limits.iter().find(|one| one["what"] == what).unwrap()["limit"].clone()
    };
    assert_eq!(
        (limit("tool_calls"), limit("model_calls"), limit("micro_usd")),
        (json!(3), json!(8), json!(500_000))
    );
    // Counted from the moment at which the run begins.
    let ends = of_run["deadline"].as_str().unwrap().trim_end_matches('Z');
    assert!(
        ends >= deadline.trim_end_matches('Z') && ends < "2100",
        "{ends} {deadline}"
    );
    for unusable in [
        json!({"deadline": "2000-01-01T00:00:00Z"}),
        json!({"deadline": "2100-01-01T00:00:00Z"}),
        json!({"micro_usd": u64::MAX}),
        json!({"nodes": 0}),
    ] {
        let body = json!({"plan": plan, "limits": unusable});
        assert_problem(
            &house.ask("POST", "/runs", &[], Some(body)).await,
            409,
            "limit_unusable",
        );
    }
}

#[tokio::test]
async fn invalid_run_request_is_refused_with_every_plan_error() {
    let house = House::new().await;
    let ask = |body| house.ask("POST", "/runs", &[], Some(body));
    let wrong = ask(json!({"plan": {"steps": [{"id": "A b", "do": {"tool": "none"}}]}})).await;
    assert_problem(&wrong, 422, "plan_invalid");
    let codes: Vec<Value> = wrong.json()["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["code"].clone())
        .collect();
    // The id, and the tool.
    assert_eq!(codes, ["P008", "P004"], "{wrong:?}");
    let empty = ask(json!({"plan": {"title": "nothing"}})).await.json();
    let detail = empty["detail"].as_str().unwrap();
    assert!(detail.contains("P005") && !detail.contains("[]"), "{detail}");
    assert_problem(&ask(json!({})).await, 422, "body_invalid");
    assert_problem(&ask(json!({"goal": " "})).await, 422, "body_invalid");
    assert_problem(&ask(json!({"goal": "Make tea"})).await, 422, "needs_model");
    let plan = json!({"inputs": {"n": {"type": "integer"}}, "steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}}]});
    assert_problem(&ask(json!({ "plan": plan })).await, 422, "inputs_invalid");
    assert_eq!(house.get_json("/runs").await["returned"], 0);
}

#[tokio::test]
async fn path_input_outside_the_server_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    let mut options = ServeOptions::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    options.folder = Some(folder.path().to_owned());
    let house = House::serving(House::runner().await, None, options).await;
    let plan = json!({"inputs": {"at": {"type": "path"}}, "steps": [{"id": "a", "do": {"tool": "list", "args": {"path": "."}}}]});
    let start = |at: &str| house.ask("POST", "/runs", &[], Some(json!({"plan": plan, "inputs": {"at": at}})));
    let fine = start("in").await;
    assert_eq!(fine.status, 201, "{fine:?}");
    for at in ["..", "/etc", "nowhere", ""] {
        assert_problem(&start(at).await, 422, "inputs_invalid");
    }
}

#[tokio::test]
async fn run_request_can_allow_tools_and_set_the_plan_gate_e9_14() {
    let house = House::new().await;
    let plan = json!({"steps": [{"id": "a", "do": {"tool": "door.ring", "args": {}}}]});
    let asked = [
        json!({ "plan": plan }),
        json!({"plan": plan, "allow_tools": ["door.*"], "plan_gate": "depth<=2"}),
    ];
    for (nth, (body, status)) in asked.into_iter().zip(["failed", "ok"]).enumerate() {
        house.post_and_expect("/runs", 201, body).await;
        let run = wait_for_end(&house, &format!("/runs/r{}", nth + 1)).await;
        assert_eq!(run["status"], status, "{run}");
    }
    for wrong in [
        json!({"plan": plan, "plan_gate": "sometimes"}),
        json!({"plan": plan, "allow_tools": vec!["x"; 65]}),
        json!({"plan": plan, "allow_tools": ["sh*"]}),
        json!({"plan": plan, "allow_hosts": vec!["x"; 65]}),
        json!({"plan": plan, "allow_hosts": ["https://example.org/"]}),
    ] {
        assert_problem(&house.ask("POST", "/runs", &[], Some(wrong)).await, 422, "body_invalid");
    }
}

#[tokio::test]
async fn keyed_start_and_fork_are_replayed_at_the_run_limit() {
    let house = House::new().await;
    let start = |head: &'static [&'static str]| house.ask("POST", "/runs", head, Some(json!({"plan": SLOW})));
    let started = start(&["Idempotency-Key: s"]).await;
    assert_eq!(started.status, 201, "{started:?}");
    // A step is not begun at once, and there is no moment before it until then.
    let fork = async || {
        let at = json!({"at": "wait"});
        house
            .ask("POST", "/runs/r1/fork", &["Idempotency-Key: f"], Some(at))
            .await
    };
    let forked = loop {
        let forked = fork().await;
        if forked.status == 201 {
            break forked;
        }
        let code = if forked.status == 404 {
            "not_found"
        } else {
            "fork_unusable"
        };
        assert_problem(&forked, if code == "not_found" { 404 } else { 409 }, code);
    };
    for _ in 0..6 {
        assert_eq!(start(&[]).await.status, 201);
    }
    for head in [&[][..], &["Idempotency-Key: other"]] {
        assert_problem(&start(head).await, 429, "runs_busy");
    }
    let again = (start(&["Idempotency-Key: s"]).await, fork().await);
    for (again, first) in [(again.0, started), (again.1, forked)] {
        assert_eq!(
            (again.status, &again.json()["run_id"]),
            (201, &first.json()["run_id"]),
            "{again:?}"
        );
    }
    assert_eq!(house.get_json("/runs").await["returned"], 8);
}

#[tokio::test]
async fn keyed_start_is_replayed_after_its_path_has_gone_and_its_deadline_has_passed_m7_3_27() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    let mut options = ServeOptions::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    options.folder = Some(folder.path().to_owned());
    let house = House::serving(House::runner().await, None, options).await;
    let deadline = house.workspace().now().plus(Duration::from_secs(2));
    let body = json!({
        "plan": {"inputs": {"at": {"type": "path"}}, "steps": [{"id": "a", "do": {"tool": "list", "args": {"path": "."}}}]},
        "inputs": {"at": "in"},
        "limits": {"deadline": deadline.to_string()},
    });
    let start = |key: &'static [&'static str]| house.ask("POST", "/runs", key, Some(body.clone()));
    let first = start(&["Idempotency-Key: s"]).await;
    assert_eq!(first.status, 201, "{first:?}");
    wait_for_end(&house, "/runs/r1").await;
    std::fs::remove_dir(folder.path().join("in")).unwrap();
    let again = start(&["Idempotency-Key: s"]).await;
    assert_eq!(
        (again.status, &again.json()["replayed"]),
        (201, &json!(true)),
        "{again:?}"
    );
    while house.workspace().now() <= deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let again = start(&["Idempotency-Key: s"]).await;
    assert_eq!(
        (again.status, &again.json()["run_id"]),
        (201, &first.json()["run_id"]),
        "{again:?}"
    );
    assert_problem(&start(&["Idempotency-Key: other"]).await, 409, "limit_unusable");
    assert_eq!(house.get_json("/runs").await["returned"], 1);
}

#[tokio::test]
async fn runs_waiting_for_a_person_do_not_occupy_driver_slots() {
    let house = House::attended().await;
    let plan = json!({"steps": [{"id": "a", "do": {"tool": "door.ring", "args": {}}}]});
    let start = async || house.ask("POST", "/runs", &[], Some(json!({"plan": plan}))).await;
    // Each does something until it waits.
    let mut started = 0;
    while started < 12 {
        let answer = start().await;
        match answer.status {
            201 => started += 1,
            _ => assert_problem(&answer, 429, "runs_busy"),
        }
    }
    // They are driven all the same.
    let asked = house.get_json("/runs/r1/questions").await;
    let at = format!("/approvals/{}", asked["items"][0]["id"].as_str().unwrap());
    assert_eq!(house.post(&at, "{\"approve\": true}").await.status, 202);
    assert_eq!(wait_for_end(&house, "/runs/r1").await["status"], "ok");
}
