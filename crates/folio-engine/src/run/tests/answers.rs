//! Which answers of people hold for which tasks, and what models see of them (E9.14).

use super::judged::{answer_question, drive_to_question};
use super::models::*;
use super::replies::claimed;
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

/// A goal that asks `questions` in order, and what a model reads before it asks the next.
fn asking(questions: &'static [&'static str]) -> Sim {
    let mut equipment = equipment();
    equipment.has_person = true;
    goal_with("look for people", &json!({}), equipment, |ask| {
        if ask.purpose == Purpose::Decide {
            return execute("echo", json!({}));
        }
        let asked = ask.messages.iter().filter(|message| !message.calls.is_empty()).count() - 1;
        match questions.get(asked) {
            Some(question) => calls_answer(&[("ask_person", json!({"question": question}))]),
            None => finish("done"),
        }
    })
}

#[test]
fn questions_differing_in_a_sign_are_asked_separately_e9_14() {
    let mut sim = asking(&[
        "Who knows C++ and is older than -5 days?",
        "Who knows C# and is older than 5 days?",
        "  who knows C++ and is  older than -5 days",
    ]);
    let (node, asked) = drive_to_question(&mut sim).unwrap();
    assert_eq!(asked, "Who knows C++ and is older than -5 days?");
    answer_question(&mut sim, node, "ada");
    let (node, asked) = drive_to_question(&mut sim).unwrap();
    assert_eq!(asked, "Who knows C# and is older than 5 days?");
    answer_question(&mut sim, node, "grace");
    assert_eq!(
        drive_to_question(&mut sim),
        None,
        "letters and space make no other question"
    );
    let last = sim.asks.last().unwrap().messages.last().unwrap();
    assert_eq!(last.text, "ada\n(answered by ada)");
}

#[test]
fn long_answer_of_a_person_is_shown_once_and_shortened_e9_14() {
    let mut sim = asking(&["What is in the letter?", "Who wrote it?"]);
    let (node, _) = drive_to_question(&mut sim).unwrap();
    answer_question(&mut sim, node, &"dear ".repeat(10_000));
    let (node, _) = drive_to_question(&mut sim).unwrap();
    answer_question(&mut sim, node, "ada");
    assert_eq!(drive_to_question(&mut sim), None);
    let read = prompt_text(&sim, sim.asks.len() - 1);
    assert_eq!(
        read.matches("answered by ada").count(),
        2,
        "each where it was asked: {read}"
    );
    assert!(!read.contains("# Answers from people"), "{read}");
    assert!(read.len() < 12_000, "{}", read.len());
    let entry = sim
        .pages
        .entries()
        .iter()
        .find(|entry| read.contains(&format!("result_read node={}", entry.id)));
    assert!(entry.is_some(), "the rest stands in an entry: {read}");
}

#[test]
fn repeating_an_already_answered_question_is_a_loop_e9_14() {
    let driven = |again: bool| {
        let mut equipment = equipment();
        equipment.has_person = true;
        let mut sim = goal_with("look for people", &json!({}), equipment, move |ask| {
            let so_far = ask.messages.iter().filter(|message| !message.calls.is_empty()).count();
            match (ask.purpose, task_named(ask).as_str()) {
                (Purpose::Decide, "look for people") => plan_answer(json!([
                    {"id": "first", "title": "the first", "criteria": ["x"]},
                    {"id": "second", "title": "a second", "criteria": ["x"]},
                ])),
                (Purpose::Decide, _) => execute("ask_person", json!({"question": "Who is 0?"})),
                (Purpose::Work, "a second") if again => {
                    calls_answer(&[("ask_person", json!({"question": "Who is 0?"}))])
                }
                (Purpose::Work, _) if so_far < 5 => {
                    calls_answer(&[("ask_person", json!({"question": format!("Who is {so_far}?")}))])
                }
                (Purpose::Work, _) => claimed("found"),
                _ => text_answer("{\"notes\": \"some\"}"),
            }
        });
        let mut asked = 0;
        while let Some((node, _)) = drive_to_question(&mut sim) {
            asked += 1;
            answer_question(&mut sim, node, &format!("the {asked}th of them"));
        }
        assert_eq!(asked, 5, "nobody is asked twice");
        let second = sim.run.node_at("second").unwrap().result.unwrap();
        (second.status, second.stop_reason)
    };
    assert_eq!(driven(false), (Outcome::Ok, None));
    assert_eq!(driven(true), (Outcome::Partial, Some(StopReason::Loop)));
}

#[test]
fn answers_of_people_in_a_prompt_are_bounded_in_total_e9_14() {
    let mut equipment = equipment();
    equipment.has_person = true;
    let mut sim = goal_with("look for people", &json!({}), equipment, |ask| {
        match (ask.purpose, task_named(ask).as_str(), ask.call) {
            (Purpose::Decide, "look for people", _) => {
                let step = |n: usize| json!({"id": format!("s{n:03}"), "title": format!("{n:03}"), "criteria": ["x"]});
                plan_answer(json!([[step(0), step(1), step(2), step(3)], step(4)]))
            }
            (Purpose::Decide, _, _) => execute("echo", json!({})),
            (Purpose::Work, "004", _) => claimed("done"),
            (Purpose::Work, task, _) => {
                let asked = ask.messages.iter().filter(|message| !message.calls.is_empty()).count() - 1;
                match asked {
                    0..12 => calls_answer(&[("ask_person", json!({"question": format!("What is {task}-{asked}?")}))]),
                    _ => claimed("done"),
                }
            }
            _ => text_answer(r#"{"notes": "all of it"}"#),
        }
    });
    while let Some((node, _)) = drive_to_question(&mut sim) {
        answer_question(&mut sim, node, &"word ".repeat(1_000));
    }
    let last = sim.asks.iter().find(|ask| task_named(ask) == "004").unwrap();
    let told = &last.messages[1].text;
    let at = told.find("# Answers from people").unwrap();
    assert!(told[at..].contains("- What is 000-0? -> word"), "{told}");
    assert!(told[at..].contains("and 8 more: ask_person"), "{told}");
    assert!(told.len() < 16_000, "{}", told.len());
}

#[test]
fn answer_with_the_words_of_another_answer_stays_in_the_prompt_e9_14() {
    let mut sim = two_ask(
        json!({"question": "May I paint the door red?"}),
        json!({"question": "Is the shop open?"}),
    );
    until_people_are_waited_for(&mut sim);
    let node = |sim: &Sim, path: &str| sim.run.node_at(path).unwrap().id;
    let (door, wall) = (node(&sim, "group-1/door"), node(&sim, "group-1/wall"));
    answer_question(&mut sim, door, "yes");
    answer_question(&mut sim, wall, "yes");
    let sim = sim.driven_on();
    let of_wall = |ask: &&AskAction| ask.purpose == Purpose::Work && ask.node == wall;
    let task = &sim.asks.iter().find(of_wall).unwrap().messages[1].text;
    assert!(task.contains("May I paint the door red? -> yes"), "{task}");
    assert!(!task.contains("Is the shop open?"), "it is in the conversation: {task}");
}
