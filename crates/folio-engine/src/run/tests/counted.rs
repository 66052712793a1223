//! Limits on counted things hold while several parts grow in the same commit (E9.8, E9.10).

use super::models::*;
use super::*;
use crate::talk::Purpose;

/// Drives the run, each answer of the engine in one commit; everything under way ends before the next.
fn driven_whole(mut sim: Sim) -> Sim {
    for _ in 0..10_000 {
        sim.derive_whole();
        if sim.run.result().is_some() {
            return sim;
        }
        if sim.end_one() {
            while sim.end_one() {}
        } else {
            sim.now = sim.run.wakes_at().expect("it waits for something");
        }
    }
    panic!("the run does not end");
}

fn reasons(sim: &Sim, paths: &[&str]) -> Vec<Option<StopReason>> {
    let reason = |path: &&str| sim.run.node_at(path).unwrap().result.unwrap().stop_reason;
    paths.iter().map(reason).collect()
}

#[test]
fn parts_that_open_in_one_commit_do_not_exceed_the_node_limit_together_e9_10() {
    let echo = |id: &str| json!({"id": id, "do": {"tool": "echo", "args": {}}});
    let plan = |nodes: u32| {
        json!({"version": 1, "title": "t", "budget": {"nodes": nodes}, "steps": [
            {"id": "each", "for_each": [1, 2, 3], "step": {"id": "it", "plan": [echo("a"), echo("b")]}},
        ]})
    };
    let items = ["each/it[0]", "each/it[1]", "each/it[2]"];
    // The list and its items are four nodes, and each item needs two more.
    let sim = driven_whole(Sim::new(&plan(8).to_string()));
    assert_eq!(reasons(&sim, &items), [None, None, Some(StopReason::BudgetNodes)]);
    assert_eq!(sim.run.planned_nodes(), 8);
    let sim = driven_whole(Sim::new(&plan(10).to_string()));
    assert_eq!(reasons(&sim, &items), [None, None, None]);
    assert_eq!(sim.run.planned_nodes(), 10);
}

#[test]
fn plans_of_models_in_one_commit_do_not_exceed_the_node_limit_together_e9_10() {
    let steps: Vec<Value> = (0..4)
        .map(|n| json!({"id": format!("t{n}"), "title": format!("survey house {n}")}))
        .collect();
    let extra = json!({"budget": {"nodes": 12}, "steps": [{"id": "g", "parallel": steps}]});
    let sim = goal_with("survey the town", &extra, equipment(), |ask| {
        match (ask.purpose, task_named(ask).starts_with("survey house")) {
            (Purpose::Decide, true) => plan_answer(json!([
                {"id": "cellar", "title": "look below", "criteria": ["dry"]},
                {"id": "roof", "title": "look above", "criteria": ["tight"]},
                {"id": "door", "title": "try the lock", "criteria": ["shut"]},
            ])),
            (Purpose::Decide, false) => execute(
                "finish",
                json!({"notes": "so", "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Work, _) => calls_answer(&[(
                "finish",
                json!({"notes": "so", "criteria": [{"id": "c1", "met": true}]}),
            )]),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    });
    let sim = driven_whole(sim);
    // The group and its tasks are five, so two of the four plans fit.
    assert_eq!(sim.run.planned_nodes(), 11);
    let planned = sim
        .journal
        .iter()
        .filter(|(_, event)| event.name() == "planned")
        .count();
    assert_eq!(planned, 2);
    assert_eq!(sim.status(""), Outcome::Ok, "the others did it directly");
}

#[test]
fn tasks_that_replan_at_once_share_the_limit_of_the_run_e9_8() {
    let clocks: Vec<Value> = (0..10)
        .map(|n| json!({"id": format!("t{n}"), "title": format!("mend clock {n}")}))
        .collect();
    let extra = json!({"budget": {"nodes": 200}, "steps": [{"id": "g", "parallel": clocks, "on_hard": "continue"}]});
    let mut sim = goal_with("mend them all", &extra, equipment(), |ask| {
        let task = task_named(ask);
        match ask.purpose {
            Purpose::Decide if task.starts_with("mend clock") => plan_answer(json!([
                {"id": "open", "title": "open its case", "criteria": ["it is open"]},
                {"id": "oil", "title": "oil the wheels", "criteria": ["it ticks"]},
            ])),
            Purpose::Decide if task == "oil the wheels" => {
                execute("finish", json!({"status": "failed", "notes": "a tooth is broken"}))
            }
            Purpose::Decide => execute(
                "finish",
                json!({"notes": "so", "criteria": [{"id": "c1", "met": true}]}),
            ),
            Purpose::Replan => text_answer(
                &json!({"root_cause": "a tooth", "changes": "a new wheel", "steps": [
                    {"id": "wheel", "title": "fit a new wheel", "needs": ["open"], "criteria": ["it ticks"]},
                ]})
                .to_string(),
            ),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    });
    sim.concurrency = 32;
    let sim = driven_whole(sim);
    let is_replan = |event: &Event| matches!(event, Event::Planned { version: 2, .. });
    let replans = sim.journal.iter().filter(|(_, event)| is_replan(event)).count();
    assert_eq!(replans, 6);
    let asked = purposes(&sim)
        .into_iter()
        .filter(|purpose| *purpose == Purpose::Replan)
        .count();
    assert_eq!(asked, 6, "no model is asked for a plan that could not be carried out");
}
