//! What the main page of a run says of what people are asked (E9.14).

use insta::assert_snapshot;

use super::judged::answer_question;
use super::models::{calls_answer, equipment, execute, finish, goal_with};
use super::steering::ask_before_writes;
use super::*;
use crate::projection::{main_page, waiting_section};
use crate::talk::Purpose;

#[test]
fn main_page_lists_what_people_are_asked_until_they_answer_e9_14() {
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let steps = json!({"steps": [{"id": "both", "parallel": [
        {"id": "door", "title": "paint the door"},
        {"id": "gate", "title": "open the gate", "do": {"tool": "write", "args": {"to": "gate\nkeeper"}}},
        {"id": "visit", "title": "visit the owner", "executor": "human", "timeout": "2h"},
    ]}]});
    let mut sim = goal_with("tidy up", &steps, equipment, |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        Purpose::Work if ask.call == 2 => calls_answer(&[(
            "ask_person",
            json!({"question": "Which colour?", "options": ["red", "blue"]}),
        )]),
        _ => finish("painted"),
    });
    sim.run.set_approval_policy(ask_before_writes());
    assert_eq!(waiting_section(&sim.run, sim.now), "");
    sim.settled();
    let page = sim.pages.read(main_page(sim.run.id()));
    assert_snapshot!(waiting_section(&sim.run, sim.now), @r#"
    ## Waiting for people

    - both/door asks: Which colour? (red, blue)
    - both/visit is for a person: visit the owner · until 1970-01-01T02:00:01Z
    - both/gate waits for approval: write {"to":"gate\nkeeper"}
    "#);
    for (path, answer) in [("both/door", "red"), ("both/visit", "they were out")] {
        let node = sim.id(path);
        answer_question(&mut sim, node, answer);
        assert!(!waiting_section(&sim.run, sim.now).contains(path));
    }
    sim.reject_call("both/gate");
    assert_eq!(waiting_section(&sim.run, sim.now), "");
    assert_eq!(sim.pages.read(main_page(sim.run.id())), page, "none of it is an entry");
}
