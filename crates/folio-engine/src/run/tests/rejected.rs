//! Calls that a person rejected and that their task makes again (E9.14).

use super::judged::{answer_question, drive_to_question};
use super::models::{calls_answer, equipment, execute, finish, goal_with, prompt_text, root};
use super::steering::ask_before_writes;
use super::*;
use crate::event::Always;
use crate::run::RequiredApproval;
use crate::talk::Purpose;

/// A goal with somebody there, whose model writes the texts of `written` in turn, or asks that person.
fn writing(written: &'static [&'static str]) -> Sim {
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let mut sim = goal_with("tidy up", &json!({}), equipment, |ask| {
        match (ask.purpose, written.get(ask.call as usize - 1)) {
            (Purpose::Decide, Some(text)) => execute("write", json!({"text": text})),
            (Purpose::Work, Some(&"?")) => calls_answer(&[("ask_person", json!({"question": "May I write it now?"}))]),
            (Purpose::Work, Some(text)) => calls_answer(&[("write", json!({"text": text}))]),
            _ => finish("left as it was"),
        }
    });
    sim.run.set_approval_policy(ask_before_writes());
    sim.settled();
    sim
}

fn refusals(sim: &Sim) -> Vec<&str> {
    let refused = sim.journal.iter().filter_map(|(_, event)| match event {
        Event::Wants { refused, .. } => Some(refused.values().map(String::as_str)),
        _ => None,
    });
    refused.flatten().collect()
}

#[test]
fn call_that_a_person_rejected_is_put_before_them_once_e9_14() {
    let mut sim = writing(&["x", "x", "y", "x"]);
    assert_eq!(sim.waiting_paths(), ["call-1"]);
    sim.reject_call("call-1");
    sim.settled();
    assert_eq!(sim.waiting_paths(), ["call-2"], "the one with other arguments");
    let told = "not called again: ada rejected this call: not today";
    assert_eq!(refusals(&sim), [told]);
    let told_at = prompt_text(&sim, 2);
    assert!(told_at.contains(told), "{told_at}");
    sim.approve_call("call-2", None);
    sim.settled();
    assert_eq!(refusals(&sim), [told, told], "also after something was changed");
    assert_eq!((sim.calls.len(), root(&sim).status), (1, Outcome::Ok));

    // Whoever takes it up does not ask again either.
    for cut in 1..sim.journal.len() {
        let equipment = Equipment {
            has_person: true,
            ..equipment()
        };
        let mut resumed = Sim::resumed_with(&sim.journal[..cut], equipment, Arc::clone(&sim.model));
        resumed.run.set_approval_policy(ask_before_writes());
        resumed.settled();
        while let Some(path) = resumed.waiting_paths().pop() {
            match path.as_str() {
                "call-1" => resumed.reject_call(&path),
                _ => resumed.approve_call(&path, None),
            }
            resumed.settled();
        }
        assert_eq!(refusals(&resumed), [told, told], "cut after {cut}");
    }
}

#[test]
fn rejected_call_wanted_three_times_more_is_a_loop_e9_14() {
    let mut sim = writing(&["x"; 9]);
    sim.reject_call("call-1");
    sim.settled();
    assert_eq!(refusals(&sim).len(), 3);
    assert_eq!(root(&sim).stop_reason, Some(StopReason::Loop), "{}", root(&sim).notes);
}

#[test]
fn call_that_was_rejected_is_made_once_a_rule_allows_it_e9_14() {
    for (always, made) in [(Always::Tool, 2), (Always::Arguments, 1)] {
        let mut sim = writing(&["x", "y", "x"]);
        sim.reject_call("call-1");
        sim.settled();
        sim.approve_call("call-2", Some(always));
        sim.settled();
        assert_eq!((sim.calls.len(), refusals(&sim).len()), (made, 2 - made), "{always:?}");
    }
}

#[test]
fn rule_that_does_not_suffice_for_a_rejected_call_leaves_it_rejected_e9_14() {
    let mut sim = writing(&["x", "y", "x"]);
    sim.run
        .set_approval_policy(Some(Arc::new(|_: &str, args: &Value| match args["text"].as_str() {
            Some("x") => RequiredApproval::ItsOwn,
            _ => RequiredApproval::AnyYes,
        })));
    sim.reject_call("call-1");
    sim.settled();
    sim.approve_call("call-2", Some(Always::Tool));
    sim.settled();
    assert_eq!((sim.calls.len(), refusals(&sim).len()), (1, 1));
}

#[test]
fn rejected_call_is_put_before_a_person_again_after_they_answered_its_task_e9_14() {
    let mut sim = writing(&["x", "?", "x"]);
    sim.reject_call("call-1");
    let (node, _) = drive_to_question(&mut sim).unwrap();
    answer_question(&mut sim, node, "yes, now");
    sim.settled();
    assert_eq!(sim.waiting_paths(), ["call-2"]);
    sim.approve_call("call-2", None);
    sim.settled();
    assert_eq!((sim.calls.len(), root(&sim).status), (1, Outcome::Ok));
}
