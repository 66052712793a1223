//! What is kept of a task whose deadline passed, whatever was under way at that moment (E9.8, E9.10, E9.13).

use super::models::{
    calls_answer, equipment, execute, finish, goal, plan_answer, purposes, root, task_named, text_answer,
    verdict_answer,
};
use super::*;
use crate::result::Finding;
use crate::run::{ModelFailure, ModelFailureKind};
use crate::talk::Purpose;

/// A model task with a timeout of three seconds, and a step that reads how it ended.
fn task_and_reader(task: Value, model: impl Fn(&AskAction) -> ModelAnswer + 'static) -> Sim {
    let after = json!({"id": "after", "do": {"tool": "echo", "args": {"of": "{{ results.t.status }}"}}});
    let mut sim = Sim::new(&json!({"version": 1, "title": "x", "steps": [task, after]}).to_string());
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(model);
    sim
}

/// Drives `sim` until a model is asked for `purpose`, and then until the deadline: the call is stopped.
fn stopped_in(mut sim: Sim, purpose: Purpose) -> Sim {
    loop {
        sim.derive();
        if sim.asking.iter().any(|ask| ask.purpose == purpose) {
            break;
        }
        assert!(sim.end_one(), "{:?}", purposes(&sim));
    }
    sim.now = sim.now.plus(Duration::from_secs(3));
    sim.driven_on()
}

/// `model`, but its call for `purpose` is stopped.
fn stopping(
    purpose: Purpose,
    model: impl Fn(&AskAction) -> ModelAnswer + 'static,
) -> impl Fn(&AskAction) -> ModelAnswer + 'static {
    move |ask| {
        if ask.purpose == purpose {
            ModelAnswer::Stopped { used: None }
        } else {
            model(ask)
        }
    }
}

fn two_steps(ask: &AskAction) -> ModelAnswer {
    let satisfies: &[&str] = if ask.messages[1].text.contains("c1") {
        &["c1"]
    } else {
        &[]
    };
    match (ask.purpose, task_named(ask).as_str()) {
        (Purpose::Decide, "survey") => plan_answer(json!([
            {"id": "roof", "satisfies": satisfies, "do": {"tool": "echo", "args": {}}},
            {"id": "cellar", "do": {"tool": "echo", "args": {}}},
        ])),
        (Purpose::Aggregate, _) => text_answer("{\"status\": \"partial\", \"notes\": \"the roof and the cellar\"}"),
        (purpose, task) => panic!("{purpose:?} of {task}"),
    }
}

fn ended<'r>(sim: &'r Sim, path: &str) -> &'r crate::NodeResult {
    sim.run.node_at(path).unwrap().result.unwrap()
}

#[test]
fn deadline_during_aggregation_keeps_the_results_of_the_steps_e9_10() {
    let late = (Outcome::Partial, Some(StopReason::Deadline));
    let task = json!({"id": "t", "title": "survey", "budget": {"deadline": "3s"}});
    let sim = stopped_in(
        task_and_reader(task, stopping(Purpose::Aggregate, two_steps)),
        Purpose::Aggregate,
    );
    let result = ended(&sim, "t");
    assert_eq!((result.status, result.stop_reason), late, "{}", result.notes);
    assert!(
        result.notes.contains("\nt/roof (ok)\nt/cellar (ok)"),
        "{}",
        result.notes
    );
    assert_eq!(result.evidence.len(), 2);
    assert_eq!(sim.args("after"), json!({"of": "partial"}));
    // The time of all of the run: nobody wanted anything stopped.
    let mut sim = goal("survey", &json!({}), stopping(Purpose::Aggregate, two_steps));
    sim.run.time.set(sim.now.plus(Duration::from_secs(3)));
    let sim = stopped_in(sim, Purpose::Aggregate);
    assert_eq!((root(&sim).status, root(&sim).stop_reason), late);
    assert!(
        root(&sim).notes.contains("\nroof (ok)\ncellar (ok)"),
        "{}",
        root(&sim).notes
    );
}

#[test]
fn deadline_during_a_replan_keeps_the_last_result_e9_8() {
    let unmet = json!({"id": "t", "title": "survey", "budget": {"deadline": "3s"}, "criteria": ["all of it"]});
    let model = |ask: &AskAction| match ask.purpose {
        Purpose::Judge => verdict_answer("unmet"),
        _ => two_steps(ask),
    };
    let sim = stopped_in(
        task_and_reader(unmet, stopping(Purpose::Replan, model)),
        Purpose::Replan,
    );
    let result = ended(&sim, "t");
    let (status, reason) = (result.status, result.stop_reason);
    assert_eq!((status, reason), (Outcome::Partial, Some(StopReason::Deadline)));
    assert!(result.notes.starts_with("the roof and the cellar"), "{}", result.notes);
    assert_eq!(sim.status("after"), Outcome::Ok);
}

#[test]
fn deadline_during_model_work_keeps_the_evidence_of_finished_calls_e9_10() {
    let task = json!({"id": "t", "title": "count", "budget": {"deadline": "3s", "tool_calls": 2}});
    let model = |ask: &AskAction| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"n": 1})),
        Purpose::Work => calls_answer(&[("echo", json!({"n": ask.call}))]),
        _ => finish("counted"),
    };
    let sim = stopped_in(task_and_reader(task, stopping(Purpose::Work, model)), Purpose::Work);
    let result = ended(&sim, "t");
    let (status, reason) = (result.status, result.stop_reason);
    assert_eq!((status, reason), (Outcome::Partial, Some(StopReason::Deadline)));
    assert!(!result.evidence.is_empty());
    // Where nothing was done, there is nothing to keep.
    let nothing = json!({"id": "t", "title": "count", "budget": {"deadline": "3s"}});
    let sim = stopped_in(
        task_and_reader(nothing, stopping(Purpose::Decide, model)),
        Purpose::Decide,
    );
    assert_eq!(sim.status("t"), Outcome::Failed);
}

#[test]
fn deadline_during_judging_leaves_the_criterion_unverifiable_e9_6() {
    let task = json!({
        "id": "t", "do": {"tool": "echo", "args": {"n": 1}}, "budget": {"deadline": "3s"},
        "criteria": [{"text": "it is one", "check": "judge"}],
    });
    let sim = stopped_in(
        task_and_reader(task, stopping(Purpose::Judge, two_steps)),
        Purpose::Judge,
    );
    let result = ended(&sim, "t");
    let (status, reason) = (result.status, result.stop_reason);
    assert_eq!((status, reason), (Outcome::Partial, Some(StopReason::Deadline)));
    assert!(matches!(result.verdicts[0].finding, Finding::Unverifiable(_)));
    assert_eq!(sim.args("after"), json!({"of": "partial"}));
}

#[test]
fn replan_request_timeout_keeps_a_tenth_of_the_time_e9_10() {
    let unmet = json!({"id": "t", "title": "survey", "budget": {"deadline": "20s"}, "criteria": ["all of it"]});
    let sim = task_and_reader(unmet, |ask| match ask.purpose {
        Purpose::Judge => verdict_answer("unmet"),
        Purpose::Replan => text_answer("{\"root_cause\": \"x\", \"changes\": \"y\", \"give_up\": true}"),
        _ => two_steps(ask),
    })
    .driven_on();
    let replan = sim.asks.iter().find(|ask| ask.purpose == Purpose::Replan).unwrap();
    assert_eq!(replan.timeout, Duration::from_secs(18), "a tenth is kept");
}

#[test]
fn call_that_is_cut_short_by_the_deadline_is_followed_by_a_hand_back_e9_10() {
    let task = json!({"id": "t", "title": "count", "budget": {"deadline": "20s"}});
    let mut sim = task_and_reader(task, |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"n": 1})),
        Purpose::Work => ModelAnswer::Failed(ModelFailure::new(
            ModelFailureKind::Unavailable,
            "did not answer within 1 s",
        )),
        _ => text_answer("{\"notes\": \"counted to one\"}"),
    });
    loop {
        sim.derive();
        if sim.asking.iter().any(|ask| ask.purpose == Purpose::Work) {
            break;
        }
        assert!(sim.end_one());
    }
    sim.now = sim.now.plus(Duration::from_millis(18_500));
    let sim = sim.driven_on();
    let result = ended(&sim, "t");
    assert_eq!(
        (result.status, result.stop_reason, result.notes.as_str()),
        (Outcome::Partial, Some(StopReason::Deadline), "counted to one")
    );
    assert_eq!(purposes(&sim), [Purpose::Decide, Purpose::Work, Purpose::HandBack]);
}
