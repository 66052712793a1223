//! A goal for which no other plan is made is put before a person (E9.8).

use super::judged::answer_question;
use super::models::{equipment, execute, goal_with, plan_answer, root, task_named, text_answer, verdict_answer};
use super::*;
use crate::talk::Purpose;

/// A goal whose judge is satisfied with a plan that a person gave advice for. `steps` are those of its nth plan.
fn mended(extra: &Value, has_person: bool, steps: fn(u32) -> Value) -> Sim {
    let mut equipment = equipment();
    equipment.has_person = has_person;
    let versions = std::sync::atomic::AtomicU32::new(1);
    let next = move || versions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let is_advised = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    let mut goal = json!({"criteria": ["it ticks"]});
    for (key, value) in extra.as_object().unwrap() {
        goal[key] = value.clone();
    }
    let mut sim = goal_with("mend it", &goal, equipment, move |ask| {
        let is_told = ask.messages.iter().any(|message| message.text.contains("use glue"));
        is_advised.fetch_or(is_told && ask.purpose == Purpose::Replan, order);
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "mend it") => plan_answer(steps(next())),
            (Purpose::Replan, _) => {
                text_answer(&json!({"root_cause": "so", "changes": "this", "steps": steps(next())}).to_string())
            }
            (Purpose::Decide, task) => execute(
                "finish",
                json!({"notes": task, "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Judge, _) => verdict_answer(if is_advised.load(order) { "met" } else { "unmet" }),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    });
    until_people_are_waited_for(&mut sim);
    sim
}

fn other_each_time(n: u32) -> Value {
    json!([
        {"id": format!("a{n}"), "title": format!("hit it {n} times"), "criteria": ["it ticks"], "satisfies": ["c1"]},
        {"id": format!("b{n}"), "title": format!("wait {n} hours"), "criteria": ["it ticks"]}
    ])
}

fn until_people_are_waited_for(sim: &mut Sim) {
    sim.derive();
    while sim.end_one() {
        sim.derive();
    }
}

fn asked(sim: &Sim) -> Vec<String> {
    let questions = sim.run.questions().into_iter();
    questions.map(|(_, question)| question.text.clone()).collect()
}

fn plans(sim: &Sim) -> usize {
    sim.journal
        .iter()
        .filter(|(_, event)| event.name() == "planned")
        .count()
}

fn answer_root(sim: &mut Sim, answer: &str) {
    let root = NodeId::root(sim.run.id());
    answer_question(sim, root, answer);
    until_people_are_waited_for(sim);
}

#[test]
fn person_is_asked_when_replans_of_the_goal_stall_and_their_advice_makes_another_plan_e9_8() {
    let mut sim = mended(&json!({}), true, other_each_time);
    assert_eq!(
        asked(&sim),
        [
            "The goal is not reached, and the last plan met no criterion beyond those of the one before. Say what to do differently, and another \
          plan is made with that, or answer `stop`. Missing: c1 (it ticks) is not met: the proof"
        ]
    );
    assert_eq!(plans(&sim), 2);
    answer_root(&mut sim, "use glue");
    assert_eq!((plans(&sim), root(&sim).status), (3, Outcome::Ok));
    let last = sim.asks.iter().rfind(|ask| ask.purpose == Purpose::Replan).unwrap();
    assert!(last.messages.iter().any(|message| message.text.contains("use glue")));
}

#[test]
fn goal_ends_as_stalled_when_the_person_says_stop_or_nothing_for_a_day_e9_8() {
    let mut sim = mended(&json!({}), true, other_each_time);
    let end = sim.run.wakes_at().expect("the question ends by itself");
    answer_root(&mut sim, "Stop.");
    let of_stalled = (Outcome::Partial, Some(StopReason::Stalled));
    assert_eq!((root(&sim).status, root(&sim).stop_reason), of_stalled);
    assert_eq!(plans(&sim), 2);

    let mut sim = mended(&json!({}), true, other_each_time);
    sim.now = end;
    until_people_are_waited_for(&mut sim);
    assert_eq!((root(&sim).status, root(&sim).stop_reason), of_stalled);

    let sim = mended(&json!({}), false, other_each_time);
    assert_eq!(
        (root(&sim).status, root(&sim).stop_reason),
        of_stalled,
        "nobody is there"
    );
    let why = "no new plan was made: the last one met no criterion beyond those of the one before; ";
    assert!(root(&sim).notes.starts_with(why), "{}", root(&sim).notes);
}

#[test]
fn person_is_asked_again_if_their_advice_meets_no_criterion_either_e9_8() {
    let mut sim = mended(&json!({"budget": {"replans": 3}}), true, other_each_time);
    answer_root(&mut sim, "try harder");
    assert_eq!((asked(&sim).len(), plans(&sim)), (1, 3));
    answer_root(&mut sim, "use glue");
    assert_eq!((plans(&sim), root(&sim).status), (4, Outcome::Ok));

    // After the last of its plans it ends, advised or not.
    let mut sim = mended(&json!({}), true, other_each_time);
    answer_root(&mut sim, "try harder");
    assert_eq!(
        (asked(&sim).len(), plans(&sim), root(&sim).status),
        (0, 3, Outcome::Partial)
    );
}

#[test]
fn goal_whose_plan_is_repeated_or_whose_plans_are_used_up_ends_without_a_question_e9_8() {
    let repeated = mended(&json!({}), true, |_| other_each_time(1));
    assert_eq!((asked(&repeated).len(), plans(&repeated)), (0, 1));
    assert_eq!(root(&repeated).stop_reason, Some(StopReason::Loop));
    for replans in [0, 1] {
        let sim = mended(&json!({"budget": {"replans": replans}}), true, other_each_time);
        assert_eq!((asked(&sim).len(), plans(&sim)), (0, replans + 1), "{replans}");
        assert_eq!(root(&sim).status, Outcome::Partial);
    }
}

#[test]
fn answer_about_plans_is_folded_the_same_after_a_restart_e9_9() {
    let mut sim = mended(&json!({}), true, other_each_time);
    answer_root(&mut sim, "use wax");
    let mut equipment = equipment();
    equipment.has_person = true;
    let resumed = Sim::resumed_with(&sim.journal, equipment, Arc::clone(&sim.model));
    assert_eq!(asked(&resumed), asked(&sim));
}
