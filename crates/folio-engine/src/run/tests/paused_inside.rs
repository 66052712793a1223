//! Pauses of items and of steps in sub-plans, when the step around them is replaced (E9.14).

use super::models::{equipment, execute, goal, plan_answer, root, task_named, text_answer};
use super::paused::{carried_out, pause_node};
use super::*;
use crate::talk::Purpose;

/// A goal with these `first` steps and, once these failed, the steps `again`. The first task named `break` fails hard,
/// every other task goes well; only one is under way at a time.
fn failing_once(first: Value, again: Value) -> Sim {
    let has_failed = std::cell::Cell::new(false);
    let mut sim = goal("build", &json!({}), move |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "build") => plan_answer(first.clone()),
            (Purpose::Replan, _) => {
                let plan = json!({"root_cause": "it broke", "changes": "with care", "steps": again});
                text_answer(&plan.to_string())
            }
            (Purpose::Decide, "break") if !has_failed.replace(true) => execute(
                "finish",
                json!({"status": "failed", "severity": "hard", "notes": "broken"}),
            ),
            (Purpose::Decide, _) => execute(
                "finish",
                json!({"notes": "done", "criteria": [{"id": "c1", "met": true}]}),
            ),
            _ => text_answer(r#"{"notes": "all of it"}"#),
        }
    });
    sim.concurrency = 1;
    sim
}

fn task(id: &str, title: &str) -> Value {
    json!({"id": id, "title": title, "criteria": ["it is done"]})
}

/// A list of these `items`, with a step before it.
fn list(items: &[&str], step: &Value) -> Value {
    json!([
        task("before", "look around"),
        {"id": "each", "for_each": items, "as": "it", "step": step},
    ])
}

/// Continues until a node has this path.
fn driven_to(sim: &mut Sim, path: &str) {
    sim.derive();
    while sim.run.node_at(path).is_none() {
        assert!(sim.end_one(), "no node {path}");
        sim.derive();
    }
}

fn go_on(mut sim: Sim, path: &str) -> Sim {
    let node = Some(sim.id(path));
    let by = "ada".to_owned();
    sim.record(Event::Continued { node, by });
    sim.driven_on()
}

/// Whoever takes `sim` up at any moment after its first plan failed, and was edited, finds the same paused.
fn check_resumed(sim: &Sim, paused: &[&str]) {
    let is_last_change = |event: &Event| match event {
        Event::Finished { result, .. } => result.status == Outcome::Failed,
        Event::PlanEdited { .. } => true,
        _ => false,
    };
    let changed = sim.journal.iter().rposition(|(_, event)| is_last_change(event));
    for cut in changed.unwrap() + 1..sim.journal.len() {
        let mut resumed = Sim::resumed_with(&sim.journal[..cut], equipment(), Arc::clone(&sim.model));
        resumed.concurrency = 1;
        resumed.derive();
        assert_eq!(carried_out(&mut resumed), paused, "cut after {cut}");
    }
}

#[test]
fn paused_item_stays_paused_when_its_list_is_planned_anew_e9_14() {
    let step = task("one", "{{ it }}");
    // It is the same item wherever it stands, and the second of two equal ones is not the first.
    let first = list(&["ok", "break", "tidy", "tidy"], &step);
    let again = list(&["ok", "tidy", "break", "tidy"], &step);
    for (paused, then) in [("each/one[2]", "each/one[1]"), ("each/one[3]", "each/one[3]")] {
        let mut sim = failing_once(first.clone(), again.clone());
        driven_to(&mut sim, paused);
        pause_node(&mut sim, paused);
        assert_eq!(carried_out(&mut sim), [then]);
        assert_eq!(sim.status("each/one[2]"), Outcome::Ok, "what is not paused is done");
        check_resumed(&sim, &[then]);
        let sim = go_on(sim, then);
        assert_eq!(sim.status("each"), Outcome::Ok);
    }
}

#[test]
fn pause_of_an_item_that_another_plan_leaves_out_ends_e9_14() {
    let step = task("one", "{{ it }}");
    let mut sim = failing_once(list(&["break", "tidy"], &step), list(&["break", "sweep"], &step));
    driven_to(&mut sim, "each/one[1]");
    pause_node(&mut sim, "each/one[1]");
    assert_eq!(carried_out(&mut sim), [""; 0]);
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn paused_step_in_a_sub_plan_stays_paused_when_the_sub_plan_is_planned_anew_e9_14() {
    let rooms = |before: &str, paint: &str| {
        json!([
            task(before, &format!("look {before}")),
            {"id": "rooms", "plan": {"steps": [
                {"id": "both", "parallel": [task("walls", "break"), task("paint", paint)]},
            ]}},
        ])
    };
    let moved = json!([
        task("around", "look around"),
        {"id": "rooms", "plan": {"steps": [task("walls", "break"), task("paint", "mix paint")]}},
    ]);
    for (again, then) in [
        (rooms("again", "mix paint"), "rooms/both/paint"),
        (rooms("around", "mix other paint"), "rooms/both/paint"),
        (moved, "rooms/paint"),
    ] {
        let mut sim = failing_once(rooms("around", "mix paint"), again);
        driven_to(&mut sim, "rooms/both/paint");
        pause_node(&mut sim, "rooms/both/paint");
        assert_eq!(carried_out(&mut sim), [then]);
        check_resumed(&sim, &[then]);
        let sim = go_on(sim, then);
        assert_eq!(root(&sim).status, Outcome::Ok, "{}", root(&sim).notes);
    }
}

#[test]
fn paused_step_of_an_item_stays_paused_when_its_list_is_planned_anew_and_edited_e9_14() {
    let in_group = json!({"id": "one", "parallel": [task("do", "{{ it }}"), task("paint", "mix paint")]});
    let in_plan = json!({"id": "one", "plan": {"steps": [in_group]}});
    for (step, paused) in [(in_group, "each/one[0]/paint"), (in_plan, "each/one[0]/one/paint")] {
        let mut again = list(&["break", "tidy"], &step);
        again[0] = task("before-that", "look once more");
        let mut sim = failing_once(list(&["break"], &step), again.clone());
        driven_to(&mut sim, paused);
        pause_node(&mut sim, paused);
        // The list of the next plan has not begun: its items are not there yet.
        while sim.run.node_at("").unwrap().plan_version < 2 {
            sim.end_one();
            sim.derive();
        }
        assert!(sim.run.node_at(paused).is_none_or(|node| !node.paused));
        let mut edited = again;
        edited[1]["for_each"] = json!(["tidy", "break"]);
        edited.as_array_mut().unwrap().insert(0, task("before", "look around"));
        sim.edit_at("", &json!({ "steps": edited }).to_string(), 2);
        let then = paused.replace("[0]", "[1]");
        assert_eq!(carried_out(&mut sim), [then.as_str()]);
        check_resumed(&sim, &[&then]);
        let sim = go_on(sim, &then);
        assert_eq!(root(&sim).status, Outcome::Ok, "{}", root(&sim).notes);
    }
}
