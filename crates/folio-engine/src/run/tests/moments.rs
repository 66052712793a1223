//! Any action of people and any answer of models, at every moment of a run (E9.11, E9.13, E9.14).

use super::models::{
    calls_answer, equipment, execute, goal_with, plan_answer, task_named, text_answer, verdict_answer,
};
use super::*;
use crate::talk::Purpose;

/// A goal with everything that a run can wait for: its plans wait for approval, a task asks a person, one makes a call
/// that needs approval, one fails until the plan is changed, a judge and a person check the result.
fn tidying() -> Sim {
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let extra = json!({
        "criteria": ["it is tidy", {"id": "seen", "text": "somebody has seen it", "check": "human"}],
        "budget": {"tokens": 900_000, "model_calls": 80, "tool_calls": 40},
        "run": {"plan_gate": "always"},
    });
    let mut sim = goal_with("tidy the shed", &extra, equipment, |ask| {
        let task = task_named(ask);
        let claims = |notes: &str| json!({"notes": notes, "criteria": [{"id": "c1", "met": true}]});
        match (ask.purpose, task.as_str()) {
            (Purpose::Decide, "tidy the shed") => plan_answer(json!([
                {"id": "look", "title": "look around", "criteria": ["seen"], "satisfies": ["c1"]},
                {"id": "both", "parallel": [
                    {"id": "floor", "title": "sweep the floor", "criteria": ["clean"]},
                    {"id": "shelf", "title": "mend the shelf", "criteria": ["it holds"]}
                ]}
            ])),
            (Purpose::Decide, "look around") => execute("ask_person", json!({"question": "Which shed?"})),
            (Purpose::Decide, "sweep the floor") => execute("write", json!({"text": "swept"})),
            (Purpose::Decide, "mend the shelf") => execute("finish", json!({"status": "failed", "notes": "no nails"})),
            (Purpose::Decide, _) => execute("echo", json!({"text": "bought"})),
            (Purpose::Replan, _) => text_answer(
                &json!({"root_cause": "no nails", "changes": "buy some", "steps": [
                    {"id": "buy", "title": "buy a shelf", "criteria": ["it is there"], "satisfies": ["c1"]}
                ]})
                .to_string(),
            ),
            (Purpose::Judge, _) => verdict_answer("met"),
            (Purpose::Work, task) => calls_answer(&[("finish", claims(task))]),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    });
    sim.run
        .set_approval_policy(Some(Arc::new(|tool: &str, _: &Value| (tool == "write").into())));
    sim
}

/// Lets a person answer what is waited for; false if nothing is asked.
fn person_says(sim: &mut Sim, yes: bool) -> bool {
    let by = "ada".to_owned();
    let waiting = sim.run.pending_approvals().first().map(|(node, what)| {
        let plan = match what {
            PendingApproval::Plan(version) => Some(*version),
            PendingApproval::Call(_) | PendingApproval::Check(_) => None,
        };
        (*node, plan)
    });
    let reason = "not so".to_owned();
    let event = match waiting {
        Some((node, Some(version))) if yes => Event::PlanApproved { node, version, by },
        Some((node, Some(version))) => Event::PlanRejected {
            node,
            version,
            reason,
            by,
        },
        Some((node, None)) if yes => Event::CallApproved { node, always: None, by },
        Some((node, None)) => Event::CallRejected { node, reason, by },
        None => match sim.run.questions().first() {
            Some((node, _)) => Event::Answered {
                node: *node,
                answer: if yes { "yes" } else { "no" }.to_owned(),
                by,
            },
            None => return false,
        },
    };
    sim.record(event);
    true
}

/// Does the next thing; false if there is none.
fn advance_once(sim: &mut Sim, yes: bool) -> bool {
    let slots = sim.concurrency - sim.under_way_count();
    let due = sim.run.due(sim.now, slots);
    if let Some(action) = due.into_iter().find(|action| !matches!(action, Action::Stop(_))) {
        sim.take(action);
        return true;
    }
    if sim.end_one() || person_says(sim, yes) {
        return true;
    }
    match sim.run.wakes_at() {
        Some(at) => {
            sim.now = at;
            true
        }
        None => false,
    }
}

fn to_its_end(sim: &mut Sim, yes: bool, what: &str) {
    for _ in 0..2_000 {
        if sim.run.result().is_some() {
            return;
        }
        assert!(
            advance_once(sim, yes),
            "{what}: it stands still\n{:#?}",
            sim.journal.last()
        );
    }
    panic!("{what}: it does not end");
}

/// Checks what holds for every run that has ended.
fn has_ended_well(sim: &Sim, what: &str) {
    for view in sim.run.tree() {
        assert!(view.result.is_some(), "{what}: {} has no result", view.path);
    }
    let purse = sim.run.purse().unwrap();
    assert!(purse.reserved.is_nothing(), "{what}: {:?} is set aside", purse.reserved);
    assert!(purse.held.is_nothing(), "{what}: {:?} is held", purse.held);
    assert_eq!(
        (sim.run.pending_approvals(), sim.run.questions()),
        (Vec::new(), Vec::new()),
        "{what}"
    );
    assert_eq!(sim.run.held_resource_names(), [], "{what}");
    assert_eq!(sim.run.due(sim.now, 9), [], "{what}");
    assert_eq!(sim.run.in_flight(), [], "{what}");
}

/// The run after so many events, with everything under way.
fn sim_after_events(events: usize) -> Sim {
    let mut sim = tidying();
    while sim.journal.len() < events {
        assert!(advance_once(&mut sim, true));
    }
    sim
}

#[test]
fn cancelling_any_node_at_any_moment_ends_cleanly_e9_11() {
    let mut whole = tidying();
    to_its_end(&mut whole, true, "nobody stops anything");
    has_ended_well(&whole, "nobody stops anything");
    assert_eq!(whole.status(""), Outcome::Ok, "{:?}", whole.run.result());
    for cut in 1..whole.journal.len() {
        let open: Vec<NodeId> = sim_after_events(cut)
            .run
            .tree()
            .into_iter()
            .filter(|view| view.result.is_none())
            .map(|view| view.id)
            .collect();
        for node in open {
            for is_resumed in [false, true] {
                let mut sim = sim_after_events(cut);
                let path = sim.run.node(node).unwrap().path.to_owned();
                let what = format!("{path:?} is stopped after {cut} events, resumed: {is_resumed}");
                sim.record(Event::CancelRequested {
                    node: Some(node),
                    by: "ada".to_owned(),
                });
                if is_resumed {
                    let (equipment, model) = (Arc::clone(sim.run.equipment().unwrap()), Arc::clone(&sim.model));
                    let asks = sim.run.asks_first.take();
                    sim = Sim::resumed(&sim.journal);
                    sim.run.equip(equipment);
                    sim.run.asks_first = asks;
                    sim.model = model;
                }
                to_its_end(&mut sim, true, &what);
                has_ended_well(&sim, &what);
                let ended = sim.run.node(node).unwrap().result.unwrap();
                assert!(
                    matches!(ended.status, Outcome::Cancelled | Outcome::Ok | Outcome::Failed),
                    "{what}: {ended:?}"
                );
            }
        }
    }
}

#[test]
fn run_ends_when_a_person_rejects_everything_e9_14() {
    let mut whole = tidying();
    to_its_end(&mut whole, true, "");
    for cut in 1..=whole.journal.len() {
        let mut sim = sim_after_events(cut);
        let what = format!("no to everything after {cut} events");
        to_its_end(&mut sim, false, &what);
        has_ended_well(&sim, &what);
    }
}

#[test]
fn run_paused_at_any_moment_begins_nothing_until_continued_e9_14() {
    let mut whole = tidying();
    to_its_end(&mut whole, true, "");
    for cut in 1..whole.journal.len() {
        let what = format!("paused after {cut} events");
        let mut sim = sim_after_events(cut);
        sim.record(Event::Paused {
            node: None,
            by: "ada".to_owned(),
        });
        let begun = sim.calls.len() + sim.asks.len();
        for _ in 0..400 {
            let deadline = sim.run.wakes_at();
            let before = sim.now;
            if !advance_once(&mut sim, true) || deadline.is_some() && sim.now > before {
                break;
            }
        }
        assert_eq!(sim.calls.len() + sim.asks.len(), begun, "{what}: something was begun");
        if sim.run.result().is_none() {
            sim.record(Event::Continued {
                node: None,
                by: "ada".to_owned(),
            });
        }
        to_its_end(&mut sim, true, &what);
        has_ended_well(&sim, &what);
        assert_eq!(sim.status(""), Outcome::Ok, "{what}: {:?}", sim.run.result());
    }
}
