//! Which answers hold for which tasks (E9.14).

use super::judged::answer_question;
use super::models::{equipment, execute, finish, goal_with, plan_answer, task_named, text_answer};
use super::*;
use crate::talk::Purpose;

/// Two tasks side by side that ask a person with these arguments; each ends with what it was answered.
fn two_ask(door: Value, wall: Value) -> Sim {
    let mut equipment = equipment();
    equipment.has_person = true;
    goal_with("paint", &json!({}), equipment, move |ask| {
        let task = task_named(ask);
        match (ask.purpose, task.as_str()) {
            (Purpose::Decide, "paint") => plan_answer(json!([
                [{"id": "door", "title": "the door", "criteria": ["x"]}, {"id": "wall", "title": "a wall", "criteria": ["x"]}]
            ])),
            (Purpose::Decide, "the door") => execute("ask_person", door.clone()),
            (Purpose::Decide, _) => execute("ask_person", wall.clone()),
            (Purpose::Work, _) => finish(ask.messages.last().unwrap().text.lines().next().unwrap()),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    })
}

/// What the task at `path` was answered.
fn notes(sim: &Sim, path: &str) -> String {
    let notes = &sim.run.node_at(path).unwrap().result.unwrap().notes;
    notes.split(';').next().unwrap().to_owned()
}

/// Ends all calls under way, until only people are waited for.
fn until_people_are_waited_for(sim: &mut Sim) {
    sim.derive();
    while sim.end_one() {
        sim.derive();
    }
}

#[test]
fn default_of_one_task_does_not_answer_the_question_of_another_e9_14() {
    let mut sim = two_ask(
        json!({"question": "Which one?", "default": "yes", "minutes": 0.05}),
        json!({"question": "which one", "options": ["keep", "drop"]}),
    );
    until_people_are_waited_for(&mut sim);
    sim.now = sim.run.wakes_at().expect("the first question ends by itself");
    until_people_are_waited_for(&mut sim);
    assert_eq!(notes(&sim, "group-1/door"), "yes");
    let wall = sim.run.node_at("group-1/wall").unwrap().id;
    let asked: Vec<NodeId> = sim.run.questions().iter().map(|(node, _)| *node).collect();
    assert_eq!(asked, [wall]);
    answer_question(&mut sim, wall, "keep");
    let sim = sim.driven_on();
    assert_eq!(notes(&sim, "group-1/wall"), "keep");
}

#[test]
fn answer_that_is_none_of_its_options_leaves_a_question_open_e9_14() {
    let mut sim = two_ask(
        json!({"question": "Which one?"}),
        json!({"question": "which one", "options": ["keep", "drop"]}),
    );
    until_people_are_waited_for(&mut sim);
    let door = sim.run.node_at("group-1/door").unwrap().id;
    answer_question(&mut sim, door, "the left one");
    until_people_are_waited_for(&mut sim);
    assert_eq!(notes(&sim, "group-1/door"), "the left one");
    let wall = sim.run.node_at("group-1/wall").unwrap().id;
    let asked: Vec<NodeId> = sim.run.questions().iter().map(|(node, _)| *node).collect();
    assert_eq!(asked, [wall], "it is still asked");
    answer_question(&mut sim, wall, "drop");
    let sim = sim.driven_on();
    assert_eq!(notes(&sim, "group-1/wall"), "drop");
}

#[test]
fn task_that_repeats_its_question_is_told_its_own_default_e9_14() {
    let mut equipment = equipment();
    equipment.has_person = true;
    let ask_person = json!({"question": "Which one?", "default": "yes", "minutes": 0});
    let sim = goal_with("paint", &json!({}), equipment, move |ask| {
        match (ask.purpose, ask.call) {
            (Purpose::Decide, _) | (_, 2) => execute("ask_person", ask_person.clone()),
            _ => finish(ask.messages.last().unwrap().text.lines().next().unwrap()),
        }
    })
    .driven_on();
    let asked = sim.journal.iter().filter(|(_, event)| event.name() == "questioned");
    assert_eq!(asked.count(), 1);
}

#[test]
fn repeated_request_does_not_tell_of_later_answers_e9_9() {
    let mut sim = two_ask(json!({"question": "Which one?"}), json!({}));
    let script: Script = Arc::new(|ask| match (ask.purpose, task_named(ask).as_str()) {
        (Purpose::Decide, "a wall") => execute("echo", json!({"text": "x"})),
        (Purpose::Work, _) => finish("done"),
        _ => text_answer("{\"notes\": \"all of it\"}"),
    });
    sim.derive();
    sim.end_one();
    sim.derive();
    let door = sim.run.node_at("group-1/door").unwrap().id;
    let at = sim.asking.iter().position(|ask| ask.node == door).unwrap();
    sim.end_nth(at);
    sim.derive();
    let [first] = sim.asking.as_slice() else {
        panic!("{:?}", sim.asking)
    };
    // The answer comes between the end of one driver and the start of the next, or a moment later; both may die again.
    for is_before in [true, false] {
        let mut equipment = equipment();
        equipment.has_person = true;
        let mut journal = sim.journal.clone();
        let answered = Event::Answered {
            node: door,
            answer: "the left one".to_owned(),
            by: "ada".to_owned(),
        };
        if is_before {
            journal.push((sim.now, answered.clone()));
        }
        let mut resumed = Sim::resumed_with(&journal, equipment.clone(), Arc::clone(&script));
        if !is_before {
            resumed.record(answered);
        }
        for _ in 0..2 {
            resumed.derive();
            let again = resumed.asks.iter().find(|ask| ask.node == first.node).unwrap();
            assert_eq!(again.idempotency_key, first.idempotency_key);
            assert_eq!(again.messages, first.messages);
            resumed = Sim::resumed_with(&resumed.journal, equipment.clone(), Arc::clone(&script));
        }
        let resumed = resumed.driven_on();
        let last = resumed.asks.iter().rfind(|ask| ask.node == first.node).unwrap();
        assert!(last.messages[1].text.contains("the left one"), "{:?}", last.messages);
    }
}
