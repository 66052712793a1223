//! Why a result is `partial` (E9.4).

use super::models::{equipment, execute, text_answer, verdict_answer};
use super::*;
use crate::talk::Purpose;

/// The status, the stop reason and the notes of the run of `plan`, in which models say that their work is half done.
fn end(plan: &str) -> (Outcome, Option<StopReason>, String) {
    let mut sim = Sim::new(plan);
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(|ask| match ask.purpose {
        Purpose::Judge => text_answer("words, words"),
        _ => execute("finish", json!({"status": "partial", "notes": "half of it\nis done"})),
    });
    let sim = sim.driven_on();
    let result = sim.run.result().unwrap();
    (result.status, result.stop_reason, result.notes.clone())
}

#[test]
fn text_that_cannot_be_made_is_the_reason_also_if_a_judge_is_satisfied_e9_4() {
    let lacking = "'{{ results.a.output.nothing.more }}'";
    for (key, text) in [
        ("output", lacking.to_owned()),
        ("report", format!("{{body: {lacking}}}")),
    ] {
        let plan = format!("criteria: [it is dry]\n{key}: {text}\nsteps: [{{id: a, do: {{tool: echo, args: {{}}}}}}]");
        for (verdict, ending) in [
            ("met", (Outcome::Partial, Some(StopReason::InvalidInput))),
            ("unmet", (Outcome::Failed, Some(StopReason::CriteriaUnmet))),
        ] {
            let mut sim = Sim::new(&plan);
            sim.run.equip(Arc::new(equipment()));
            sim.model = Arc::new(|_| verdict_answer(verdict));
            let sim = sim.driven_on();
            let result = sim.run.result().unwrap();
            assert_eq!(
                (result.status, result.stop_reason),
                ending,
                "{key}, {verdict}: {}",
                result.notes
            );
        }
    }
}

#[test]
fn every_partial_result_says_why_e9_4() {
    let echo = "{id: a, do: {tool: echo, args: {}}}";
    let failing = format!("steps: [{echo}, {{id: b, do: {{tool: fail, args: {{}}}}}}]");
    let (status, reason, notes) = end(&failing);
    assert_eq!((status, reason), (Outcome::Partial, Some(StopReason::RetriesExhausted)));
    assert_eq!(notes, "1 ok, 1 failed; b: fail failed");

    let (status, reason, notes) = end(&format!("steps: [{echo}, {{id: b, title: paint the wall}}]"));
    assert_eq!((status, reason), (Outcome::Partial, Some(StopReason::CriteriaUnmet)));
    assert_eq!(notes, "1 ok, 1 partial; b: half of it");

    let unwritten = format!("steps: [{echo}]\noutput: '{{{{ results.a.output.nothing.more }}}}'");
    let (status, reason, _) = end(&unwritten);
    assert_eq!((status, reason), (Outcome::Partial, Some(StopReason::InvalidInput)));

    let (status, reason, _) = end(&format!("criteria: [it is dry]\nsteps: [{echo}]"));
    assert_eq!(
        (status, reason),
        (Outcome::Partial, Some(StopReason::Unparseable)),
        "nobody could judge it"
    );
}

#[test]
fn notes_of_a_plan_name_partial_lists_and_cancelled_steps_e9_4() {
    let echo = "{id: a, do: {tool: echo, args: {}}}";
    let listed = format!(
        "steps: [{echo}, {{id: each, for_each: [1, 2], as: it, step: {{id: b, title: 'paint wall {{{{ it }}}}'}}}}]"
    );
    let (status, _, notes) = end(&listed);
    assert_eq!(status, Outcome::Partial);
    assert!(notes.starts_with("1 ok, 1 partial; each: 2 partial"), "{notes}");

    let mut sim = Sim::new(&format!("steps: [{echo}, {{id: b, do: {{tool: echo, args: {{}}}}}}]"));
    sim.derive();
    while sim.run.node_at("b").unwrap().result.is_none() && sim.run.node_at("a").unwrap().result.is_none() {
        assert!(sim.end_one());
    }
    let b = sim.run.node_at("b").unwrap().id;
    sim.record(Event::CancelRequested {
        node: Some(b),
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    let notes = &sim.run.result().unwrap().notes;
    assert!(notes.starts_with("1 ok, 1 cancelled; b: "), "{notes}");
}

#[test]
fn call_whose_criterion_nobody_can_check_says_why_it_is_partial_e9_4() {
    for check in ["judge", "human"] {
        let sim = Sim::new(&format!(
            "steps: [{{id: a, do: {{tool: echo, args: {{}}}}, criteria: [{{text: it is dry, check: {check}}}]}}]"
        ))
        .driven_on();
        let result = sim.run.node_at("a").unwrap().result.unwrap();
        assert_eq!(
            (result.status, result.stop_reason),
            (Outcome::Partial, Some(StopReason::CriteriaUnmet)),
            "{check}"
        );
    }
}
