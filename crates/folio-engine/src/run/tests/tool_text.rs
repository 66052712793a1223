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

#[test]
fn answer_of_a_step_that_calls_a_tool_is_text_in_the_digest_of_its_result_e9_2() {
    let of_lines = |lines: usize| {
        let mut answer = two_lines();
        answer["text"] = json!(
            (1..=lines)
                .map(|n| format!("line {n} says little\n"))
                .collect::<String>()
        );
        answer["to_line"] = json!(lines);
        answer["total_lines"] = json!(lines);
        let plan = json!({"version": 1, "title": "t", "steps": [
            {"id": "look", "title": "Look", "do": {"tool": "read", "args": answer}},
            {"id": "think", "title": "think"},
        ]});
        let mut sim = Sim::new(&plan.to_string());
        sim.run.equip(Arc::new(reader()));
        sim.model = Arc::new(|_| finish("thought"));
        let sim = sim.driven_on();
        sim.asks[0].messages[1].text.clone()
    };
    let told = of_lines(2);
    let digest = "- look (ok) Look\n  output: 1\tline 1 says little\n  2\tline 2 says little\n  id: ";
    assert!(told.contains(digest), "{told}");
    // A long one is cut at ends of lines, and says which are left out.
    let told = of_lines(4_000);
    let lines = told.lines().filter(|line| line.contains("says little"));
    assert!(lines.clone().all(|line| line.ends_with(" says little")), "{told}");
    assert!(lines.count() < 1_000 && told.contains("from_line="), "{told}");
}
