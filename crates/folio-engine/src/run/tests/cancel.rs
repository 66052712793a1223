//! Requests to stop, and the end of the time (E9.11).

use super::*;

const PLAN: &str = "steps:
  - {id: done, do: {tool: echo, args: {}}}
  - parallel:
      - {id: runs, do: {tool: echo, args: {}}}
      - id: sub
        plan: {steps: [{id: inner, do: {tool: echo, args: {}}}, {id: later, do: {tool: echo, args: {}}}]}
  - {id: after, do: {tool: echo, args: {}}}";

fn at_work() -> Sim {
    let mut sim = Sim::new(PLAN);
    sim.derive();
    sim.end_one();
    sim.derive();
    assert_eq!(sim.under_way.len(), 2);
    sim
}

#[test]
fn what_is_done_stays_done_and_nothing_new_begins_e9_11() {
    let mut sim = at_work();
    sim.record(Event::CancelRequested {
        node: None,
        by: "somebody".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(
        (sim.status("done"), sim.status("after"), sim.status("")),
        (Outcome::Ok, Outcome::Cancelled, Outcome::Cancelled)
    );
    assert_eq!(sim.calls.len(), 3);
}

#[test]
fn a_subtree_stops_and_the_rest_goes_on_e9_11() {
    let mut sim = at_work();
    let sub = sim.run.tree().into_iter().find(|node| node.slug() == "sub").unwrap().id;
    sim.record(Event::CancelRequested {
        node: Some(sub),
        by: "somebody".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(sim.run.node(sub).unwrap().result.unwrap().status, Outcome::Cancelled);
    assert_eq!(sim.status("after"), Outcome::Ok);
}

#[test]
fn asking_twice_is_asking_once_e9_11() {
    let mut sim = at_work();
    for _ in 0..2 {
        sim.record(Event::CancelRequested {
            node: None,
            by: "somebody".to_owned(),
        });
    }
    assert_eq!(sim.driven_on().status(""), Outcome::Cancelled);
}

#[test]
fn a_call_that_a_dead_process_was_to_stop_ends_as_stopped_e9_11() {
    let mut sim = at_work();
    sim.record(Event::CancelRequested {
        node: None,
        by: "somebody".to_owned(),
    });
    let sim = Sim::resumed(&sim.journal).driven_on();
    assert_eq!(sim.status(""), Outcome::Cancelled);
    assert_eq!(sim.calls, [], "nothing is called again");
}

#[test]
fn when_the_time_is_up_the_run_hands_back_what_it_has_e9_10() {
    let mut sim = at_work();
    sim.run.deadline = Some(sim.now);
    let sim = sim.driven_on();
    let result = sim.run.result().unwrap();
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::Deadline))
    );
}
