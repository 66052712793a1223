//! Which repeated calls are refused, and which may find something else (E9.13).

use super::judged::{answer_question, drive_to_question};
use super::models::{calls_answer, equipment, execute, finish, goal_with};
use super::*;
use crate::talk::{Need, Purpose, ToolOffer};

/// Models with a tool `wait` that changes nothing.
fn with_wait() -> Equipment {
    let mut equipment = equipment();
    equipment.tools.push(ToolOffer {
        name: "wait".to_owned(),
        description: "waits".into(),
        args_schema: Arc::new(json!({"type": "object"})),
        writes: false,
        need: Need::default(),
    });
    equipment
}

fn refusals(sim: &Sim) -> usize {
    let refused = sim.journal.iter().filter_map(|(_, event)| match event {
        Event::Wants { refused, .. } => Some(refused.len()),
        _ => None,
    });
    refused.sum()
}

/// Calls these tools in turn, then finishes.
fn in_turn(tools: &'static [&'static str]) -> impl Fn(&AskAction) -> ModelAnswer + 'static {
    move |ask| match (ask.purpose, tools.get(ask.call as usize - 1)) {
        (Purpose::Decide, Some(tool)) => execute(tool, json!({"text": "x"})),
        (Purpose::Work, Some(&"ask_person")) => calls_answer(&[("ask_person", json!({"question": "Is it there?"}))]),
        (Purpose::Work, Some(tool)) => calls_answer(&[(*tool, json!({"text": "x"}))]),
        _ => finish("seen"),
    }
}

/// A task that looks at the same twice, beside a call of `beside` that ends before the first look has ended, or after.
fn looking(beside: &str, ends_before: bool) -> Sim {
    let plan = json!({"steps": [{"parallel": [
        {"id": "beside", "do": {"tool": beside, "args": {}}},
        {"id": "look", "title": "look"},
    ]}]});
    let mut sim = goal_with("look", &plan, with_wait(), in_turn(&["echo", "echo"]));
    sim.derive();
    // The decision of the task, then its first look.
    sim.end_nth(1);
    sim.derive();
    if ends_before {
        sim.end_nth(0);
    }
    sim.end_nth(sim.under_way.len() - 1);
    sim.derive();
    if !ends_before {
        sim.end_nth(0);
    }
    sim.driven_on()
}

#[test]
fn read_is_repeated_after_a_parallel_call_that_may_write_has_ended_e9_13() {
    // Of the last tool nothing is known.
    for (beside, ends_before, refused) in [
        ("write", false, 0),
        ("write", true, 1),
        ("echo", false, 1),
        ("noted", false, 0),
    ] {
        let sim = looking(beside, ends_before);
        let looks = sim.calls.iter().filter(|(path, _)| path.starts_with("group-1/look/"));
        assert_eq!(
            (looks.count(), refusals(&sim)),
            (2 - refused, refused),
            "{beside}, {ends_before}"
        );
    }
}

#[test]
fn task_that_waits_between_two_reads_may_repeat_them_e9_13() {
    for (tools, refused) in [
        (&["fail", "wait", "fail", "wait", "fail", "wait", "fail"][..], 0),
        (&["echo", "wait", "echo"], 0),
        (&["echo", "deny", "echo"], 1),
    ] {
        let sim = goal_with("poll", &json!({}), with_wait(), in_turn(tools)).driven_on();
        assert_eq!(
            (sim.calls.len(), refusals(&sim)),
            (tools.len() - refused, refused),
            "{tools:?}"
        );
    }
}

#[test]
fn read_is_repeated_after_a_person_answered_e9_13() {
    let mut equipment = with_wait();
    equipment.has_person = true;
    let mut sim = goal_with("look", &json!({}), equipment, in_turn(&["echo", "ask_person", "echo"]));
    let (node, _) = drive_to_question(&mut sim).unwrap();
    answer_question(&mut sim, node, "now it is");
    let sim = sim.driven_on();
    assert_eq!((sim.calls.len(), refusals(&sim)), (2, 0));
}
