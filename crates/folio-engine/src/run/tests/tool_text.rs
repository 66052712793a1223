//! Answers of built-in tools in the requests of models: as text, though what is recorded is JSON (E9.3, E9.6).

use super::models::*;
use super::*;
use crate::plan::KnownTool;
use crate::talk::{Need, Purpose, ToolOffer};

/// What `read` answers. The tools of these tests answer with their arguments.
fn two_lines() -> Value {
    json!({
        "path": "a.py", "text": "import re\n- deny -> ok\n", "from_line": 1, "to_line": 2, "total_lines": 2, "bytes": 23,
        "binary": false, "encoding_lossy": false, "truncated": false
    })
}

fn reader() -> Equipment {
    let mut equipment = equipment();
    equipment.plan = PlanMode::Never;
    let names: Vec<String> = two_lines().as_object().unwrap().keys().cloned().collect();
    let tools = ["read", "desk.read"];
    equipment.tools = tools
        .map(|name| ToolOffer {
            name: name.to_owned(),
            description: name.into(),
            args_schema: Arc::new(json!({"type": "object"})),
            writes: false,
            need: Need::default(),
        })
        .into();
    let known = KnownTool {
        optional: names,
        ..KnownTool::default()
    };
    equipment.known.tools = Some(tools.map(|name| (name.to_owned(), known.clone())).into());
    equipment
}

fn judged_after(tool: &'static str) -> Sim {
    goal_with(
        "say what is imported",
        &json!({"criteria": ["it is said"]}),
        reader(),
        move |ask| match (ask.purpose, ask.call) {
            (Purpose::Judge, _) => verdict_answer("met"),
            (_, 1) => calls_answer(&[(tool, two_lines())]),
            _ => finish("re is imported"),
        },
    )
    .driven_on()
}

#[test]
fn answer_of_a_built_in_tool_reaches_models_as_text_and_is_recorded_as_json_e9_3() {
    let sim = judged_after("read");
    let action = sim.run.node_at("call-1").unwrap();
    assert_eq!(json!(action.result.unwrap().output), json!({"inline": two_lines()}));
    let id = action.id;
    let told = sim.asks[1].messages.iter().map(|message| message.text.clone());
    let expected = format!("1\timport re\n2\t- deny -> ok\n[tool_call {id}]");
    assert!(told.into_iter().any(|text| text.ends_with(&expected)), "{expected}");
    // A judge reads it as an item of a list, of which no line looks like another item.
    let judge = sim.asks.iter().position(|ask| ask.purpose == Purpose::Judge).unwrap();
    let judged = prompt_text(&sim, judge);
    let item = format!("\n  1\timport re\n  2\t- deny -> ok [tool_call {id}]");
    assert!(judged.contains(&item), "{judged}");
}

#[test]
fn answer_of_another_tool_stays_json_e9_3() {
    let sim = judged_after("desk.read");
    let asked = sim.asks[1].messages.iter();
    assert!(
        asked
            .clone()
            .any(|message| message.text.starts_with("{\"binary\":false,\"bytes\":23,"))
    );
}
