//! Prompts in small windows: whatever there is to tell, each task gets its first call (E9.2, seed 003).

use std::collections::BTreeSet;

use folio_memory::tokens::{Estimate, Tokens as _};
use folio_memory::view::Placement;

use super::models::*;
use super::*;
use crate::talk::{Need, Purpose, ToolOffer};

/// Models with that window, and more tools than it holds with all their descriptions.
fn small(window: u32) -> Equipment {
    let mut equipment = equipment();
    for model in [&mut equipment.planner, &mut equipment.executor, &mut equipment.judge] {
        model.window = window;
        model.answer_tokens = window / 2;
    }
    equipment.book.include_tool_list_in_system_prompt = Some(true);
    let more = (0..16).map(|n| ToolOffer {
        name: format!("instrument_{n}"),
        description: format!(
            "Measures quantity {n} of the house, with care. {}",
            "It takes a while. ".repeat(9)
        )
        .into(),
        args_schema: Arc::new(json!({"type": "object", "required": ["room"], "properties": {
            "room": {"type": "string", "description": "The room to measure in."},
            "times": {"type": "integer", "description": "How often."},
            "unit": {"type": "string", "enum": ["metre", "foot"]},
        }})),
        writes: false,
        need: [Need::Always, Need::Often, Need::Seldom][n % 3],
    });
    equipment.tools.extend(more);
    equipment
}

/// A survey in `count` parts, whose notes are long; a summary and a report that read them; and a judge who is not
/// content.
fn survey(window: u32, count: usize) -> Sim {
    let step = |id: &str, title: &str| json!({"id": id, "title": title, "criteria": [format!("{title} is described")]});
    let mut steps: Vec<Value> = (0..count)
        .map(|n| step(&format!("p{n}"), &format!("survey part {n}")))
        .collect::<Vec<_>>()
        .chunks(12)
        .map(|group| json!(group))
        .collect();
    let mut summary = step("sum", "write the summary");
    summary["satisfies"] = json!(["c1"]);
    steps.extend([summary, step("lost", "look for the key")]);
    let extra = json!({"criteria": ["the owner knows what to mend"], "budget": {"tokens": 10_000_000, "nodes": 500}});
    let mut sim = goal_with("survey the house", &extra, small(window), move |ask| {
        let rotten = "the beam is rotten and needs repair, and the plaster falls off. ".repeat(10);
        match (ask.purpose, &*task_named(ask)) {
            (Purpose::Decide, "survey the house") => plan_answer(json!(steps)),
            (Purpose::Decide, _) => execute("echo", json!({"text": "x"})),
            (Purpose::Work, "look for the key") => calls_answer(&[("no_such_tool", json!({}))]),
            (Purpose::Work, _) => finish(&rotten),
            (Purpose::Judge, _) => verdict_answer("unmet"),
            (Purpose::Replan, _) => {
                text_answer(&json!({"root_cause": "it is old", "changes": "none", "give_up": true}).to_string())
            }
            _ => text_answer(&json!({"notes": rotten, "criteria": [{"id": "c1", "met": true}]}).to_string()),
        }
    });
    // As large as the runner makes them.
    sim.memory = "roof: the tiles are old\n".repeat(window as usize / 6 * 4 / 24);
    sim.book = Some(BookView {
        text: "- a note of mine\n".repeat(window as usize / 10 * 4 / 17),
        placement: Placement::System,
    });
    sim.driven_on()
}

#[test]
fn every_prompt_fits_a_small_window_however_many_results_there_are_e9_2() {
    for window in [4_096, 8_192, 16_384] {
        for count in [1, 7, 13, 24, 36] {
            let sim = survey(window, count);
            let seen: BTreeSet<&str> = sim.asks.iter().map(|ask| ask.purpose.as_str()).collect();
            for purpose in ["decide", "work", "aggregate", "judge", "replan", "hand_back"] {
                assert!(seen.contains(purpose), "{window}, {count}: {seen:?}");
            }
            for node in sim.run.tree() {
                let reason = node.result.and_then(|result| result.stop_reason);
                assert_ne!(reason, Some(StopReason::WindowFull), "{window}, {count}: {}", node.path);
            }
            for ask in &sim.asks {
                let read: u32 = ask.messages.iter().map(|message| Estimate.count(&message.text)).sum();
                let tools: u32 = ask
                    .tools
                    .iter()
                    .map(|tool| Estimate.count(&tool.args_schema.to_string()))
                    .sum();
                assert!(
                    read + tools + ask.answer_tokens <= window,
                    "{window}, {count}: {:?}",
                    ask.purpose
                );
            }
        }
    }
}

#[test]
fn parts_of_a_prompt_get_smaller_in_a_fixed_order_e9_2() {
    let of_summary = |window: u32, count: usize| {
        let sim = survey(window, count);
        let is_it = |ask: &&AskAction| ask.purpose == Purpose::Work && task_named(ask) == "write the summary";
        let messages = &sim.asks.iter().find(is_it).unwrap().messages;
        (messages[0].text.clone(), messages[1].text.clone())
    };
    // With room for all of it, all of it is there.
    let (system, task) = of_summary(128_000, 7);
    assert!(system.contains("# Tools\n") && system.contains("- a note of mine"));
    assert!(
        task.contains("# Memory\n") && task.matches(": the beam is rotten").count() == 7,
        "{task}"
    );
    // Else results get smaller before anything else; what is not shown can be read.
    let (system, task) = of_summary(4_096, 24);
    assert!(
        system.contains("cannot be called: ") && !system.contains("# Tools\n"),
        "{system}"
    );
    assert!(
        task.contains("earlier results; read them by name with result_read: "),
        "{task}"
    );
    assert!(task.contains(": the beam is rotten"), "{task}");
}
