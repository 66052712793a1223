//! What failed and is to be tried again: what keeps it from that, and what becomes of it besides (E9.9, E9.15).

use super::*;
use crate::spend::Allowance;

/// A call that fails once, beside a list of eight, and room for one call at a time; the call has failed, and an item is under way.
fn beside_a_list() -> Sim {
    let mut sim = Sim::new(
        "steps:
          - parallel:
            - {id: a, do: {tool: flaky, args: {}}, retry: {max_attempts: 3, delay: 1s}}
            - {id: each, for_each: [1, 2, 3, 4, 5, 6, 7, 8], step: {id: one, do: {tool: echo, args: {}}}}",
    );
    sim.concurrency = 1;
    sim.derive();
    assert!(sim.end_one());
    sim.derive();
    sim
}

#[test]
fn what_is_tried_again_comes_before_what_has_never_begun_e9_15() {
    let mut sim = beside_a_list();
    sim.now = sim.now.plus(Duration::from_secs(2));
    assert!(sim.end_one());
    sim.derive();
    let called: Vec<&str> = sim.calls.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(called, ["group-1/a", "group-1/each/one[0]", "group-1/a"]);
    assert_eq!(sim.driven_on().status(""), Outcome::Ok);
}

#[test]
fn what_waits_for_room_waits_for_no_time_e9_9() {
    let mut sim = beside_a_list();
    let (before, again_at) = (sim.now, sim.now.plus(Duration::from_secs(1)));
    assert_eq!(sim.run.wakes_after(Some(before)), Some(again_at));
    sim.now = sim.now.plus(Duration::from_secs(2));
    assert_eq!(sim.run.due(sim.now, 0), [], "there is no room for it");
    assert_eq!(sim.run.wakes_after(Some(sim.now)), None, "what ends has it looked at");
    // Who has not asked since then has to.
    assert_eq!(sim.run.wakes_after(Some(before)), Some(again_at));
    // Other times count as they did.
    let limits = crate::event::NewLimits {
        deadline: Some(sim.now.plus(Duration::from_secs(60))),
        ..crate::event::NewLimits::from(Allowance::default())
    };
    let event = sim.run.change_limits(None, limits, "ada", sim.now).unwrap();
    sim.record(event);
    assert_eq!(
        sim.run.wakes_after(Some(sim.now)),
        Some(sim.now.plus(Duration::from_secs(60)))
    );
}
