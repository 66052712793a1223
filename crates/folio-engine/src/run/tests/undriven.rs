//! The time in which no process drives a run (E9.10).

use super::*;
use crate::result::{Failure, StopReason};

const HOUR: Duration = Duration::from_secs(3_600);

/// A run whose first call had begun when its driver died, with a limit of half an hour; `is_set` if somebody set that.
fn cut_off(is_set: bool) -> (Sim, Timestamp) {
    let mut sim = Sim::new("steps: [{id: a, do: {tool: echo, args: {}}}, {id: b, do: {tool: echo, args: {}}}]");
    let deadline = sim.now.plus(HOUR / 2);
    sim.run.time.deadline = Some(deadline);
    if is_set {
        sim.run.time.set(deadline);
    }
    sim.derive();
    assert_eq!(sim.run.in_flight().len(), 1);
    sim.under_way.clear();
    (sim, deadline)
}

/// Takes the run over, as a driver that says for how long nobody drove it.
fn take_over(sim: &mut Sim, uncounted: Duration) {
    sim.record(Event::Resumed {
        in_flight: sim.run.in_flight(),
        uncounted_us: uncounted.as_micros().try_into().unwrap(),
    });
}

#[test]
fn default_time_of_a_run_does_not_count_while_nobody_drives_it_e9_10() {
    let (mut sim, deadline) = cut_off(false);
    sim.now = sim.now.plus(HOUR);
    // What people do meanwhile is no sign of a driver.
    sim.record(Event::Paused {
        node: Some(sim.id("b")),
        by: "ada".to_owned(),
    });
    sim.record(Event::Continued {
        node: Some(sim.id("b")),
        by: "ada".to_owned(),
    });
    sim.now = sim.now.plus(HOUR);
    assert_eq!(sim.run.undriven_until(sim.now), 2 * HOUR);
    assert_eq!(sim.run.passed_deadline(NodeId::root(sim.run.id()), sim.now), None);
    take_over(&mut sim, 2 * HOUR);
    assert_eq!(sim.run.deadline(), Some(deadline.plus(2 * HOUR)));
    assert_eq!(
        (sim.run.left_out(), sim.run.undriven_until(sim.now)),
        (2 * HOUR, Duration::ZERO)
    );
    let sim = sim.driven_on();
    assert_eq!((sim.status("b"), sim.status("")), (Outcome::Ok, Outcome::Ok));
}

#[test]
fn time_limit_that_somebody_set_counts_while_nobody_drives_the_run_e9_9() {
    let (mut sim, deadline) = cut_off(true);
    sim.now = sim.now.plus(2 * HOUR);
    assert_eq!(sim.run.undriven_until(sim.now), Duration::ZERO);
    let root_id = NodeId::root(sim.run.id());
    assert_eq!(sim.run.passed_deadline(root_id, sim.now), Some((root_id, deadline)));
    take_over(&mut sim, 2 * HOUR);
    assert_eq!(sim.run.deadline(), Some(deadline), "whatever the event says");
    let result = sim.driven_on().run.result().cloned().unwrap();
    assert_eq!(result.stop_reason, Some(StopReason::Deadline));
}

#[test]
fn take_over_recorded_by_an_earlier_version_leaves_no_time_out_e9_9() {
    let recorded = r#"{"event":"resumed","in_flight":[]}"#;
    let event: Event = serde_json::from_str(recorded).unwrap();
    assert_eq!(event.uncounted(), Duration::ZERO);
    assert_eq!(serde_json::to_string(&event).unwrap(), recorded);
    let (mut sim, deadline) = cut_off(false);
    sim.now = sim.now.plus(2 * HOUR);
    take_over(&mut sim, Duration::ZERO);
    assert_eq!(sim.run.deadline(), Some(deadline));
}

fn failure() -> Failure {
    serde_json::from_value(
        json!({"code": "busy", "message": "not now", "reason": "retries_exhausted", "may_retry": true}),
    )
    .unwrap()
}

#[test]
fn time_of_a_run_that_waits_for_a_retry_counts_until_the_retry_is_due_e9_10() {
    let (mut sim, _) = cut_off(false);
    let retry_at = sim.now.plus(HOUR / 3);
    sim.record(Event::AttemptFailed {
        node: sim.id("a"),
        attempt: 1,
        failure: failure(),
        retry_at,
    });
    assert_eq!(
        sim.run.undriven_until(retry_at),
        Duration::ZERO,
        "nobody is needed until then"
    );
    assert_eq!(sim.run.undriven_until(retry_at.plus(HOUR)), HOUR);
}
