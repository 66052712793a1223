//! What the definitions of tools cost in each request, and tasks whose plan names the tools that they need (E9.1).

use std::sync::Arc;

use crate::models_support::*;
use folio_engine::Outcome;
use folio_engine::run::NodeKind;
use folio_memory::tokens::{Likely, Tokens};
use folio_model::{Request, Role, ScriptedModel};
use folio_runner::Runner;
use folio_tools::Registry;
use serde_json::json;

struct House {
    runner: Runner,
    model: Arc<ScriptedModel>,
    effects: Effects,
    _folder: tempfile::TempDir,
}

fn house(cues: Vec<folio_model::Cue>) -> House {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(ScriptedModel::new(cues));
    let store = sqlite(&folder.path().join("folio.db"));
    let effects = Effects::default();
    House {
        runner: runner(store, &model, &effects, true),
        model,
        effects,
        _folder: folder,
    }
}

fn cost(request: &Request) -> u32 {
    let text = |text: &str| Likely.count(text);
    let tools = request.tools.iter();
    let of_tool = |tool: &folio_model::ToolDescription| {
        text(&tool.name) + text(&tool.description) + text(&tool.args_schema.to_string())
    };
    tools.map(of_tool).sum()
}

/// The requests to the executor.
fn worked(house: &House) -> Vec<Request> {
    let asked = house.model.asked().into_iter();
    asked.filter(|request| request.role == Role::Executor).collect()
}

#[tokio::test]
async fn definitions_of_all_tools_stay_small() {
    let house = house(vec![doing("look", "wait", json!({"ms": 1})), finishing("look")]);
    let run = submit(&house.runner, of_goal("look", json!({}))).await;
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Ok);
    let request = &worked(&house)[0];
    let mut costs: Vec<(u32, String)> = request
        .tools
        .iter()
        .map(|tool| {
            let one = Request {
                tools: vec![tool.clone()],
                ..request.clone()
            };
            (cost(&one), tool.name.clone())
        })
        .collect();
    costs.sort();
    assert_eq!(
        costs.len(),
        Registry::with_builtins().specs().count() + 4,
        "two of the house, two of executors"
    );
    let all = cost(request);
    assert!(all <= 6_200, "{all} tokens: {costs:?}");
}

#[tokio::test]
async fn request_for_a_task_has_only_the_tools_that_its_plan_names_e9_1() {
    let house = house(vec![
        doing("look", "wait", json!({"ms": 1})),
        finishing("look"),
        doing("count", "read", json!({"path": "a"})),
        calling("count", "mended", "finish", json!({"status": "ok", "notes": "counted"})),
        calling(
            "count",
            "this task may not use the tool read",
            "mend",
            json!({"what": "b"}),
        ),
        doing("think", "mend", json!({"what": "c"})),
        finishing("think"),
    ]);
    let steps = json!([
        {"id": "all", "title": "look"},
        {"id": "few", "title": "count", "tools": ["mend"]},
        {"id": "none", "title": "think", "tools": []},
    ]);
    let run = submit(&house.runner, of_goal("look around", json!({"steps": steps}))).await;
    house.runner.drive(run).await.unwrap();
    let requests = worked(&house);
    let of = |title: &str| {
        let task = format!("# Task\n{title}\n");
        let is_of = |request: &&Request| !request.tools.is_empty() && request.messages[1].text.contains(&task);
        requests.iter().find(is_of).unwrap()
    };
    let names = |title: &str| {
        let names: Vec<&str> = of(title).tools.iter().map(|tool| tool.name.as_str()).collect();
        names.join(" ")
    };
    assert_eq!(names("count"), "mend result_read finish ask_person");
    assert_eq!(names("think"), "finish ask_person");
    assert!(
        cost(of("look")) > 4 * cost(of("count")),
        "{} {}",
        cost(of("look")),
        cost(of("count"))
    );
    // What was not in the list was never called.
    let run = house.runner.load(run).await.unwrap();
    let tree = run.tree();
    let calls = tree.iter().filter(|node| node.kind == NodeKind::Action);
    assert_eq!(
        calls.map(|node| node.call).collect::<Vec<_>>(),
        ["wait ms=1", "mend what=b"]
    );
    assert_eq!(house.effects.lock().unwrap().len(), 1);
    assert_eq!(run.node_at("few").unwrap().result.unwrap().status, Outcome::Ok);
}
