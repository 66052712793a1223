//! What a model reads of a run.

use folio::memory::tokens::{Tokens as _, Vocabulary};
use folio::runner::{Runner, RunnerOptions};
use folio::tools::Registry;
use folio_server::ToolSet;
use serde_json::json;

use crate::pair::{Era, Pair, Plain, options, runner, switch_scratchbooks_off};
use crate::runs::{asker, with_runs};

#[tokio::test]
async fn texts_of_runs_name_only_tools_that_are_offered() {
    let runner = asker().await;
    switch_scratchbooks_off(&runner).await;
    let pair = Pair::of(Era::Requests, with_runs(), &runner, Plain).await;
    let goal = json!({"goal": "Paint the door", "wait_seconds": 3600});
    pair.call("run_start", goal).await;
    pair.call("run_answer", json!({"run": "r1", "answer": "blue"})).await;
    let status = json!({"run": "r1", "wait_seconds": 3600});
    pair.call("run_status", status.clone()).await;
    pair.end().await;
    for (sets, has_status) in [
        (vec![ToolSet::Run], true),
        (vec![ToolSet::Run, ToolSet::Memory], true),
        (vec![ToolSet::Memory], false),
    ] {
        let mut options = options();
        options.sets.clone_from(&sets);
        let pair = Pair::of(Era::Requests, options, &runner, Plain).await;
        if has_status {
            let (text, run) = pair.call("run_status", status.clone()).await;
            let report = format!("\nreport ({}):\n", run["pages"]["report"].as_str().unwrap());
            assert!(
                text.contains(&report) && !text.contains("memory_page"),
                "{sets:?}: {text}"
            );
        }
        let read = rmcp::model::ReadResourceRequestParams::new("folio://run/r1");
        let read = json!(pair.client.read_resource(read).await.unwrap().contents[0]);
        let text = read["text"].as_str().unwrap();
        assert_eq!(text.contains("run_status"), has_status, "{sets:?}: {text}");
        pair.end().await;
    }
}

#[tokio::test]
async fn long_questions_of_a_run_are_cut_to_the_token_limit() {
    let options = RunnerOptions {
        has_person: true,
        ..RunnerOptions::default()
    };
    let people = Runner::new(runner().await.workspace().clone(), Registry::with_builtins(), options);
    let pair = Pair::of(Era::Requests, with_runs(), &people, Plain).await;
    let asks = |n: u32| {
        let description = format!("Pick number {n}: {}", "which of the colours ".repeat(100));
        json!({"id": format!("p{n}"), "executor": "human", "title": "Pick", "description": description})
    };
    let plan = json!({"title": "Colours", "steps": [{"id": "all", "parallel": (0..6).map(asks).collect::<Vec<_>>()}]});
    let (text, run) = pair
        .call("run_start", json!({"plan": plan, "wait_seconds": 3600}))
        .await;
    let asked = text.lines().filter(|line| line.contains("Pick number")).count();
    assert!(asked == 6 && text.contains('…'), "{text}");
    let tokens = Vocabulary::O200k.count(&text) + Vocabulary::O200k.count(&run.to_string());
    assert!(tokens <= 2_000, "{tokens}: {text}\n{run}");
    pair.end().await;
}
