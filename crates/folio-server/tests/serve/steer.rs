//! People change plans over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::house::{ECHO, House, assert_problem, person};

#[tokio::test]
async fn plan_edit_requires_the_current_plan_version_e9_14() {
    let house = House::new().await;
    let run = house.submit(ECHO).await;
    let path = format!("/runs/{run}/plan");
    let got = house.get(&path).await;
    assert_eq!((got.status, got.header("etag")), (200, "\"1\""), "{got:?}");
    let mut plan = got.json();
    plan["steps"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "e", "do": {"tool": "text", "args": {"op": "echo", "value": "more"}}}));
    let body = json!({"steps": plan["steps"]}).to_string();
    let put = house.put(&path, "\"1\"", &body).await;
    assert_eq!((put.status, put.header("etag")), (200, "\"2\""), "{put:?}");
    assert_eq!(put.json()["difference"]["added"], json!(["e"]));
    assert_problem(&house.put(&path, "\"1\"", &body).await, 409, "plan_stale");
    let unsaid = house.put_if(&path, None, &body.replace("more", "again")).await;
    assert_problem(&unsaid, 409, "plan_stale");
    assert!(unsaid.body.contains("does not say which version"), "{unsaid:?}");
    for kind in ["image/png", "application/x-www-form-urlencoded"] {
        let head = [&format!("Content-Type: {kind}"), "If-Match: *"];
        let refused = house.ask("PUT", &path, &head, None).await;
        assert_problem(&refused, 415, "body_not_json");
        assert!(refused.body.contains("text/markdown"), "{refused:?}");
    }
    assert_problem(&house.put(&path, "new", &body).await, 400, "if_match_invalid");
    let wrong = house
        .put(
            &path,
            "*",
            "{\"steps\": [{\"id\": \"a\", \"do\": {\"tool\": \"nothing\"}}]}",
        )
        .await;
    assert_problem(&wrong, 422, "plan_invalid");
    let mistakes = &wrong.json()["errors"];
    // As those of a new run.
    assert_eq!(
        (&mistakes[0]["code"], &mistakes[0]["path"], &mistakes[0]["line"]),
        (&json!("P004"), &json!("steps[0].do.tool"), &json!(1)),
        "{wrong:?}"
    );
    let marked = house
        .put(
            &path,
            "2",
            &put.json()["markdown"].as_str().unwrap().replace("{#e}", "{#e} · later"),
        )
        .await;
    // A remark changes no step, so there is no version for it.
    assert_eq!((marked.status, marked.header("etag")), (200, "\"2\""), "{marked:?}");
    assert_eq!(marked.json()["difference"], json!({}), "{marked:?}");
    let versions = house.get(&format!("{path}/versions")).await.json();
    let versions = versions["items"].as_array().unwrap();
    assert_eq!(versions.len(), 2, "{versions:?}");
    assert_eq!(versions[0]["plan_version"], 1);
    assert!(!versions[0]["markdown"].as_str().unwrap().contains("{#e}"));
    assert!(versions[1]["markdown"].as_str().unwrap().contains("{#e}"));
    assert_eq!(versions[1]["difference"]["added"], json!(["e"]));
    assert_eq!(versions[1]["steps"][3]["id"], "e");
    house.runner.drive(run).await.unwrap();
    let tree = house.get(&format!("/runs/{run}/tree")).await.json();
    let nodes = tree["nodes"].as_array().unwrap();
    assert!(
        nodes.iter().any(|node| node["path"] == "e" && node["status"] == "ok"),
        "{tree}"
    );
    assert_problem(&house.put(&path, "2", &body).await, 409, "run_ended");
    let events = house.get(&format!("/runs/{run}/events")).await;
    assert!(events.body.contains("plan_edited"), "{events:?}");
    house
        .assert_refused(&format!("/runs/{run}/plan?node=a"), 404, "no_plan")
        .await;
    house.stop().await.unwrap();
}

#[tokio::test]
async fn plan_goes_back_as_it_was_read_e9_14() {
    let house = House::new().await;
    let run = house.submit(ECHO).await;
    let path = format!("/runs/{run}/plan");
    let read = house.get_json(&path).await;
    let put = async |plan: &Value| house.put_if(&path, None, &plan.to_string()).await;
    let same = put(&read).await;
    assert_eq!(
        (same.status, &same.json()["plan_version"]),
        (200, &json!(1)),
        "{same:?}"
    );
    // Either of its two forms may be edited; the version is in it.
    let more = json!({"id": "e", "do": {"tool": "text", "args": {"op": "echo", "value": "more"}}});
    let mut by_steps = read.clone();
    by_steps["steps"].as_array_mut().unwrap().push(more);
    let edited = put(&by_steps).await.json();
    assert_eq!(
        (&edited["plan_version"], &edited["difference"]["added"]),
        (&json!(2), &json!(["e"]))
    );
    let mut by_markdown = edited.clone();
    by_markdown["markdown"] = json!(edited["markdown"].as_str().unwrap().replace("{#e}", "{#f}"));
    let edited_again = put(&by_markdown).await.json();
    assert_eq!(edited_again["difference"]["added"], json!(["f"]), "{edited_again}");
    // Of an old version nothing is compared, not even its two forms with each other.
    assert_problem(&put(&by_steps).await, 409, "plan_stale");
    by_steps.as_object_mut().unwrap().remove("markdown");
    assert_problem(&put(&by_steps).await, 409, "plan_stale");
    let mut both = edited_again.clone();
    both["markdown"] = json!(edited_again["markdown"].as_str().unwrap().replace("{#f}", "{#g}"));
    both["steps"].as_array_mut().unwrap().pop();
    let refused = put(&both).await;
    assert_problem(&refused, 422, "plan_invalid");
    assert!(
        refused.body.contains("leave out the one that you did not edit"),
        "{refused:?}"
    );
    house.stop().await.unwrap();
}

#[tokio::test]
async fn waiting_call_is_listed_and_decided_by_its_approval_id_e9_14() {
    let house = House::attended().await;
    let run = house
        .submit("[{id: one, do: {tool: shell, args: {argv: [echo, hello]}}}]")
        .await;
    let driver = house.runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    let path = format!("/runs/{run}/questions");
    let mut asked = house.get(&path).await.json();
    while asked["items"].as_array().unwrap().is_empty() {
        tokio::task::yield_now().await;
        asked = house.get(&path).await.json();
    }
    let item = &asked["items"][0];
    assert_eq!(
        (&item["kind"], &item["call"]["tool"]),
        (&json!("call"), &json!("shell")),
        "{asked}"
    );
    assert_eq!(house.get_json(&format!("/runs/{run}")).await["asks"], 1);
    let at = format!("/approvals/{}", item["id"].as_str().unwrap());
    assert_problem(&house.post(&at, "{}").await, 422, "body_invalid");
    let (node, hash) = at.rsplit_once('.').unwrap();
    assert_eq!(item["call"]["hash"], hash);
    for said in ["{\"approve\": true}", "{\"approve\": false}"] {
        assert_problem(
            &house.post(&format!("{node}.0123456789abcdef"), said).await,
            409,
            "asked_else",
        );
    }
    let said = house.post(&at, "{\"approve\": false, \"reason\": \"no\"}").await;
    assert_eq!(said.status, 202, "{said:?}");
    driving.await.unwrap().unwrap();
    assert_problem(&house.post(&at, "{\"approve\": true}").await, 409, "run_ended");
    assert_problem(
        &house.post("/approvals/nothing", "{\"approve\": true}").await,
        404,
        "no_approval",
    );
    house.stop().await.unwrap();
}

#[tokio::test]
async fn tree_and_events_follow_the_order_of_an_edited_plan_e9_14() {
    let house = House::attended().await;
    let run = house
        .submit("[{id: a, budget: {tool_calls: 2}, plan: [{id: ask, do: {tool: shell, args: {argv: [echo, hello]}}}]}, {id: b, do: {tool: text, args: {op: echo, value: b}}}, {id: c, do: {tool: text, args: {op: echo, value: c}}}, {id: d, do: {tool: text, args: {op: echo, value: d}}}]")
        .await;
    let driver = house.runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    let questions = format!("/runs/{run}/questions");
    let mut asked = house.get(&questions).await.json();
    while asked["items"].as_array().unwrap().is_empty() {
        tokio::task::yield_now().await;
        asked = house.get(&questions).await.json();
    }
    let path = format!("/runs/{run}/plan");
    let plan = house.get(&path).await.json();
    let [a, _, c, d] = &plan["steps"].as_array().unwrap()[..] else {
        panic!("{plan}")
    };
    let new = json!({"id": "n", "do": {"tool": "text", "args": {"op": "echo", "value": "n"}}});
    let put = house
        .put(&path, "*", &json!({"steps": [a, d, new, c]}).to_string())
        .await;
    assert_eq!(put.status, 200, "{put:?}");
    let tree = house.get(&format!("/runs/{run}/tree")).await.json();
    let paths = |nodes: &Value| -> Vec<String> {
        let nodes = nodes.as_array().unwrap().iter();
        nodes.map(|node| node["path"].as_str().unwrap().to_owned()).collect()
    };
    // What was dropped stays where it was.
    assert_eq!(paths(&tree["nodes"]), ["", "a", "a/ask", "b", "d", "n", "c"], "{tree}");
    let nodes = tree["nodes"].as_array().unwrap().iter();
    let superseded: Vec<&Value> = nodes.filter(|node| node["superseded"] == true).collect();
    assert_eq!((superseded.len(), &superseded[0]["path"]), (1, &json!("b")), "{tree}");
    let dropped = json!([superseded[0]["node_id"]]);
    let at = format!("/approvals/{}", asked["items"][0]["id"].as_str().unwrap());
    assert_eq!(house.post(&at, "{\"approve\": true}").await.status, 202);
    driving.await.unwrap().unwrap();
    let events = house.get(&format!("/runs/{run}/events")).await.body;
    let told = |what: &str| -> Value {
        let lines = events.lines().filter_map(|line| line.strip_prefix("data: "));
        let events = lines.map(|data| serde_json::from_str::<Value>(data).unwrap());
        let mut events = events.filter(|event| event["what"] == what || event["event"] == what);
        events.next().unwrap()
    };
    assert_eq!(
        paths(&told("plan_edited")["nodes"]),
        ["a", "b", "d", "n", "c"],
        "{events}"
    );
    assert_eq!(told("plan_edited")["superseded"], dropped, "{events}");
    let made = told("expanded");
    assert_eq!(made["nodes"][0]["limits"][0]["limit"], 2, "{made}");
    assert!(made["nodes"][1].get("limits").is_none(), "{made}");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn run_can_be_forked_at_a_step_over_http() {
    let house = House::new().await;
    let run = house.run(ECHO).await;
    let made = house
        .post(&format!("/runs/{run}/fork"), "{\"at\": \"d\", \"paused\": true}")
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let fork = made.json()["handle"].as_str().unwrap().to_owned();
    let tree = house.get(&format!("/runs/{fork}/tree")).await.json();
    let outcome = |path: &str| {
        let nodes = tree["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["path"] == path).unwrap()["status"].clone()
    };
    assert_eq!((outcome("a"), outcome("d")), (json!("ok"), json!(null)), "{tree}");
    let first = house.get(&format!("/runs/{run}")).await.json();
    let second = house.get(&format!("/runs/{fork}")).await.json();
    let origin = json!({"run_id": run.to_string(), "path": "d"});
    assert_eq!((first.get("forked_from"), &second["forked_from"]), (None, &origin));
    // Whoever has it go on has it driven: nobody has ever done so.
    let made = house.post(&format!("/runs/{fork}/continue"), "{}").await;
    assert_eq!(made.status, 202, "{made:?}");
    house.get(&format!("/runs/{fork}/events")).await;
    assert_eq!(house.get(&format!("/runs/{fork}")).await.json()["status"], "ok");
    assert_problem(
        &house.post(&format!("/runs/{run}/fork"), "{}").await,
        422,
        "body_invalid",
    );
    assert_problem(
        &house.post(&format!("/runs/{run}/fork"), "{\"at\": \"x\"}").await,
        404,
        "not_found",
    );
    house.stop().await.unwrap();
}

#[tokio::test]
async fn keyed_answers_and_forks_of_a_run_apply_once() {
    let house = House::attended().await;
    let plan = "[{id: visit, executor: human, title: Go down, criteria: [{check: {regex: 'dry|wet'}}]}]";
    let run = house.submit(plan).await;
    let driver = house.runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    let path = format!("/runs/{run}/questions");
    let waits = async |again: bool| loop {
        let asked = house.get(&path).await.json();
        if let Some(item) = asked["items"].get(0)
            && item["question"].as_str().unwrap().contains("not accepted") == again
        {
            break format!("/questions/{}/answer", item["id"].as_str().unwrap());
        }
        tokio::task::yield_now().await;
    };
    let says = async |at: &str, key: &str, answer: &str| {
        let body = Some(json!({"answer": answer}));
        let said = house.ask("POST", at, &[&format!("Idempotency-Key: {key}")], body).await;
        assert_eq!(said.status, 202, "{said:?}");
    };
    let at = waits(false).await;
    says(&at, "k1", "damp").await;
    let other = Some(json!({"answer": "wet"}));
    assert_problem(
        &house.ask("POST", &at, &["Idempotency-Key: k1"], other).await,
        422,
        "key_reused",
    );
    // It is asked again, and what is asked now has a name of its own.
    let anew = waits(true).await;
    assert_ne!(anew, at);
    says(&at, "k1", "damp").await;
    assert_problem(&house.post(&at, "{\"answer\": \"wet\"}").await, 409, "asked_else");
    says(&anew, "k2", "wet").await;
    let result = driving.await.unwrap().unwrap();
    assert_eq!(result.status, folio::engine::Outcome::Ok, "{}", result.notes);
    says(&anew, "k2", "wet").await;
    // Whoever answers anew is told that nobody asks any more.
    assert_problem(&house.post(&at, "{\"answer\": \"damp\"}").await, 404, "no_question");
    let fork = async || {
        let body = Some(json!({"at": "visit", "paused": true}));
        let path = format!("/runs/{run}/fork");
        let made = house.ask("POST", &path, &["Idempotency-Key: f"], body).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.json()
    };
    let (first, again) = (fork().await, fork().await);
    assert_eq!(first["run_id"], again["run_id"]);
    assert_eq!((first.get("replayed"), &again["replayed"]), (None, &json!(true)));
    let path = format!("/runs/{run}/fork");
    let other = house
        .ask("POST", &path, &["Idempotency-Key: f"], Some(json!({"at": "nowhere"})))
        .await;
    assert_problem(&other, 422, "key_reused");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn node_shows_its_result_and_the_usage_of_its_subtree() {
    let house = House::new().await;
    let run = house.run(ECHO).await;
    let tree = house.get(&format!("/runs/{run}/tree")).await.json();
    let at = |end: &str| {
        let mut nodes = tree["nodes"].as_array().unwrap().iter();
        nodes
            .find(|node| node["path"].as_str().unwrap().ends_with(end))
            .unwrap()
    };
    let calls = |end: &str| at(end)["spent"]["tool_calls"].clone();
    assert_eq!([calls(""), calls("a"), calls("b"), calls("c")], [4, 1, 1, 1]);
    let root = tree["nodes"][0]["node_id"].as_str().unwrap().to_owned();
    let whole = house.get(&format!("/runs/{run}/nodes/{root}")).await.json();
    assert_eq!(
        (&whole["status"], &whole["limits"][0]["what"]),
        (&json!("ok"), &json!("tokens"))
    );
    let first = house.get(&format!("/runs/{run}/nodes/a")).await.json();
    assert_eq!(first["result"]["output"], json!({"value": {"n": 2}}), "{first}");
    // The arguments are those that were filled in; a group has none.
    assert_eq!(first["args"]["value"], json!({"n": 2}), "{first}");
    assert_eq!(whole.get("args"), None);
    let second = house
        .get(&format!("/runs/{run}/nodes/{}", at("b")["node_id"].as_str().unwrap()))
        .await;
    assert_eq!(second.json()["args"]["value"], json!(2));
    let ids = [&whole, &first].map(|node| node["result"]["task_id"].clone());
    assert_eq!(ids, [json!("run"), json!("a")]);
    let whole = house.get(&format!("/runs/{run}")).await.json();
    assert_eq!(whole["result"]["task_id"], "run", "{whole}");
    // A group comes to what its members did, as later steps read it.
    let group = at("b")["parent_id"].as_str().unwrap().to_owned();
    let group = house.get(&format!("/runs/{run}/nodes/{group}")).await.json();
    assert_eq!(group["kind"], "parallel", "{group}");
    assert_eq!(group["result"]["output"]["b"], json!({"value": 2}), "{group}");
    assert_eq!(group["result"].get("output_omitted"), None);
    let path = at("c/inner")["path"].as_str().unwrap().to_owned();
    let name = path.replace('/', "%2F");
    let inner = house.get(&format!("/runs/{run}/nodes/{name}")).await.json();
    assert_eq!((&inner["path"], &inner["status"]), (&json!(path), &json!("ok")));
    house
        .assert_refused(&format!("/runs/{run}/nodes/nowhere"), 404, "not_found")
        .await;
    let events = house.get(&format!("/runs/{run}/events")).await;
    assert!(events.body.contains("\"spent\":{\"tool_calls\":4}"), "{events:?}");
}

#[tokio::test]
async fn node_shows_no_secret_that_only_its_filled_in_arguments_have() {
    let house = House::new().await;
    let secret = format!("ghp_{}", &"0123456789abcdefghij".repeat(2)[..36]);
    let (head, tail) = secret.split_at(20);
    let value = format!("{}{head}{{{{ '{tail}' }}}}", "x ".repeat(60));
    let plan =
        json!({"title": "s", "steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": value}}}]});
    let run = house.run(&plan.to_string()).await;
    let node = house.get(&format!("/runs/{run}/nodes/a")).await;
    assert!(!node.body.contains(&secret), "{}", node.body);
    let args = node.json()["args"]["value"].clone();
    assert!(args.as_str().unwrap().contains("[redacted:"), "{args}");
}

#[tokio::test]
async fn run_limits_can_be_changed_but_not_below_usage_e9_10() {
    let house = House::new().await;
    let run = house
        .submit("title: Short\nbudget: {tool_calls: 3, nodes: 40}\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]")
        .await;
    let path = format!("/runs/{run}/limits");
    let of = |limits: &Value, what: &str| {
        limits["limits"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["what"] == what)
            .cloned()
    };
    let nothing = house.ask("PATCH", &path, &[], Some(json!({}))).await;
    assert_problem(&nothing, 422, "body_invalid");
    let limits = house.get(&path).await.json();
    assert_eq!(
        of(&limits, "tool_calls"),
        Some(json!({"what": "tool_calls", "limit": 3, "used": 0}))
    );
    assert_eq!(
        (of(&limits, "micro_usd"), &limits["nodes"]["limit"]),
        (None, &json!(40))
    );
    let change = async |path: &str, body| house.ask("PATCH", path, &[], Some(body)).await;
    let body = json!({"tool_calls": 9, "tokens_cached": 700, "micro_usd": 500_000, "deadline": "2100-01-01T00:00:00Z"});
    let changed = change(&path, body).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let changed = changed.json();
    assert_eq!(changed["deadline"], "2100-01-01T00:00:00Z");
    for (what, limit) in [("tool_calls", 9), ("tokens_cached", 700), ("micro_usd", 500_000)] {
        assert_eq!(of(&changed, what).unwrap()["limit"], limit, "{changed}");
    }
    assert_eq!(of(&changed, "tokens"), of(&limits, "tokens"), "what is left out stays");
    assert_problem(&change(&path, json!({"nodes": 0})).await, 409, "limit_unusable");
    assert_eq!(
        house.get(&path).await.json(),
        changed,
        "what is refused changes nothing"
    );
    house.runner.drive(run).await.unwrap();
    assert_problem(&change(&path, json!({"tool_calls": 50})).await, 409, "run_ended");
    // One call has been made, and the run waits for a person.
    let house = House::attended().await;
    let run = house
        .submit("title: Asks\nbudget: {tool_calls: 3}\nsteps:\n- {id: a, do: {tool: text, args: {op: echo, value: 1}}}\n- {id: s, do: {tool: shell, args: {command: 'true'}}}")
        .await;
    house
        .runner
        .drive_while_due(run, Duration::from_millis(50))
        .await
        .unwrap();
    let path = format!("/runs/{run}/limits");
    let limit_after = async |tool_calls: u32, status: u16| {
        let answer = house
            .ask("PATCH", &path, &[], Some(json!({"tool_calls": tool_calls})))
            .await;
        assert_eq!(answer.status, status, "{answer:?}");
        of(&house.get(&path).await.json(), "tool_calls")
    };
    let one_of = |limit: u32| Some(json!({"what": "tool_calls", "limit": limit, "used": 1}));
    assert_eq!(limit_after(0, 409).await, one_of(3));
    assert_eq!(limit_after(1, 200).await, one_of(1));
}

#[tokio::test]
async fn ended_run_can_be_neither_paused_nor_continued() {
    let house = House::new().await;
    let run = house.run(ECHO).await;
    let before = house.get(&format!("/runs/{run}")).await.json();
    for what in ["pause", "continue"] {
        assert_problem(
            &house.post(&format!("/runs/{run}/{what}"), "{}").await,
            409,
            "run_ended",
        );
    }
    assert_eq!(house.get(&format!("/runs/{run}")).await.json(), before);
}

#[tokio::test]
async fn keyed_pause_is_replayed_after_the_run_has_ended() {
    let house = House::new().await;
    let run = house.submit(ECHO).await;
    let pause = async || {
        let path = format!("/runs/{run}/pause");
        house.ask("POST", &path, &["Idempotency-Key: p"], Some(json!({}))).await
    };
    assert_eq!(pause().await.status, 202);
    house.runner.cancel(run, None, &person()).await.unwrap();
    house.runner.drive(run).await.unwrap();
    let ended = house.get(&format!("/runs/{run}")).await.json();
    assert_eq!(ended["status"], "cancelled");
    assert_eq!(pause().await.status, 202);
    assert_eq!(house.get(&format!("/runs/{run}")).await.json(), ended);
    // Without its key it is a new request.
    assert_problem(&house.post(&format!("/runs/{run}/pause"), "{}").await, 409, "run_ended");
}
