//! Calls of the run tools that are repeated under one idempotency key.

use std::sync::Arc;

use folio::Role;
use folio::model::{ScriptedModel, When};
use folio::runner::{Runner, RunnerModel, RunnerOptions};
use serde_json::json;

use crate::pair::{Era, Pair, Plain, runner};
use crate::runs::{SLOW, echo, runner_with, with_bell, with_runs};

#[tokio::test]
async fn repeated_run_start_with_the_same_key_starts_one_run_m7_3_27() {
    let pair = Pair::of(Era::Requests, with_runs(), &runner().await, Plain).await;
    let (first, _) = pair.call_under("k1", "run_start", json!({"plan": echo()})).await;
    assert!(first.starts_with("r1 [ok] Echo"), "{first}");
    let (again, _) = pair.call_under("k1", "run_start", json!({"plan": echo()})).await;
    assert_eq!(again, first);
    let (other, _) = pair.call_under("k2", "run_start", json!({"plan": echo()})).await;
    assert!(other.starts_with("r2 [ok] Echo"), "{other}");
    // While it is under way, too.
    let slow = json!({"plan": SLOW, "wait_seconds": 0});
    for _ in 0..2 {
        let (text, _) = pair.call_under("k3", "run_start", slow.clone()).await;
        assert!(text.starts_with("r3 "), "{text}");
    }
    let reused = pair.try_call_under("k1", "run_start", slow).await.unwrap();
    assert_eq!(reused.structured_content.unwrap()["code"], "key_reused");
    pair.end().await;
}

#[tokio::test]
async fn repeated_run_start_is_answered_by_a_server_that_would_refuse_it_m7_3_27() {
    let first = runner().await;
    let with_door = Runner::new(first.workspace().clone(), with_bell(), RunnerOptions::default());
    let mut options = with_runs();
    options.role = Role::Human;
    let pair = Pair::of(Era::Requests, options.clone(), &with_door, Plain).await;
    let rings = "title: Rings\nsteps: [{id: a, do: {tool: door.ring, args: {}}}]";
    let input = json!({"plan": rings, "allow_tools": ["door.ring"]});
    let (told, _) = pair.call_under("k1", "run_start", input.clone()).await;
    assert!(told.starts_with("r1 [ok]"), "{told}");
    pair.end().await;
    let pair = Pair::of(Era::Requests, options, &first, Plain).await;
    let (_, code) = pair.refused("run_start", input.clone()).await;
    assert_eq!(code, "arguments_invalid");
    let (again, _) = pair.call_under("k1", "run_start", input).await;
    assert_eq!(again, told);
    pair.end().await;
}

#[tokio::test]
async fn repeated_run_answer_with_the_same_key_leaves_the_next_question_open_m7_3_27() {
    let cues = [
        When::any()
            .contains("Decide how")
            .json(&json!({"decision": "execute", "reason": "small",
                "action": {"tool": "ask_person", "args": {"question": "Colour one?"}}})),
        When::any()
            .contains("blue too")
            .calls([("finish", json!({"notes": "painted"}))]),
        When::any()
            .contains("blue")
            .calls([("ask_person", json!({"question": "Colour two?"}))]),
    ];
    let runner = runner_with(RunnerModel::new("scripted", Arc::new(ScriptedModel::new(cues)))).await;
    let pair = Pair::of(Era::Requests, with_runs(), &runner, Plain).await;
    let (text, _) = pair
        .call("run_start", json!({"goal": "Paint both doors", "wait_seconds": 3600}))
        .await;
    assert!(text.contains("Colour one?"), "{text}");
    let answer = json!({"run": "r1", "answer": "blue"});
    pair.call_under("k1", "run_answer", answer.clone()).await;
    let status = json!({"run": "r1", "wait_seconds": 3600});
    let (text, _) = pair.call("run_status", status.clone()).await;
    assert!(text.contains("Colour two?"), "{text}");
    let (text, _) = pair.call_under("k1", "run_answer", answer.clone()).await;
    assert!(text.contains("Colour two?"), "{text}");
    let answer = json!({"run": "r1", "answer": "blue too"});
    pair.call_under("k2", "run_answer", answer.clone()).await;
    let (text, run) = pair.call("run_status", status).await;
    assert_eq!(run["status"], "ok", "{text}");
    // The run has no question any more.
    let (again, _) = pair.call_under("k2", "run_answer", answer).await;
    assert_eq!(again, text);
    pair.end().await;
}
