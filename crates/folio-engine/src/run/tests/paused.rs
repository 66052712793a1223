//! Answers that arrive while a part is paused, and deadlines that pass then (E9.9, E9.14).

use super::models::*;
use super::*;
use crate::talk::Purpose;

fn pause(sim: &mut Sim) {
    sim.record(Event::Paused {
        node: None,
        by: "ada".to_owned(),
    });
}

#[test]
fn reply_during_a_pause_is_recorded_but_nothing_follows_e9_14() {
    let mut sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => finish("hello"),
    });
    sim.derive();
    assert!(sim.end_one(), "it decides");
    sim.derive();
    assert!(sim.end_one(), "the call");
    sim.derive();
    assert_eq!(sim.asking.len(), 1);
    pause(&mut sim);
    assert!(sim.end_one(), "it finishes");
    sim.derive();
    let is_proposed = |(_, event): &(Timestamp, Event)| matches!(event, Event::Proposed { .. });
    assert_eq!(sim.journal.iter().filter(|event| is_proposed(event)).count(), 1);
    assert!(sim.run.result().is_none(), "nothing follows from it yet");
    // What was paid for is there, also if nobody has it go on.
    sim.record(Event::CancelRequested {
        node: None,
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(root(&sim).status, Outcome::Cancelled);
    assert!(root(&sim).notes.contains("hello"), "{}", root(&sim).notes);
}

#[test]
fn decision_during_a_pause_begins_no_call_e9_14() {
    let mut sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => finish("hello"),
    });
    sim.derive();
    pause(&mut sim);
    assert!(sim.end_one());
    sim.settled();
    assert!(sim.calls.is_empty() && sim.under_way.is_empty(), "{:?}", sim.calls);
    sim.record(Event::Continued {
        node: None,
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!((root(&sim).status, sim.asks.len()), (Outcome::Ok, 2));
}

#[test]
fn default_time_of_a_run_does_not_count_while_everything_is_paused_e9_10() {
    for is_set in [false, true] {
        let mut sim = goal("say hello", &json!({}), |ask| match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "x"})),
            _ => finish("hello"),
        });
        let deadline = sim.now.plus(Duration::from_secs(1_800));
        sim.run.time.deadline = Some(deadline);
        if is_set {
            sim.run.time.set(deadline);
        }
        sim.derive();
        pause(&mut sim);
        assert_eq!(sim.run.wakes_at(), Some(deadline), "its call is under way");
        assert!(sim.end_one());
        sim.settled();
        let (began, root_id) = (sim.now, NodeId::root(sim.run.id()));
        sim.now = began.plus(Duration::from_secs(7_200));
        if is_set {
            assert_eq!(sim.run.wakes_at(), Some(deadline));
            assert_eq!(root(&sim.driven_on()).stop_reason, Some(StopReason::Deadline));
            continue;
        }
        assert_eq!((sim.run.wakes_at(), sim.run.may_wait_until(root_id)), (None, None));
        let later = deadline.plus(sim.now.since(began));
        assert_eq!(sim.run.deadline_of(root_id, sim.now), Some(later));
        sim.record(Event::Continued {
            node: None,
            by: "ada".to_owned(),
        });
        assert_eq!((sim.run.deadline(), sim.run.wakes_at()), (Some(later), Some(later)));
        assert_eq!(root(&sim.driven_on()).status, Outcome::Ok);
    }
}

#[test]
fn paused_task_in_backoff_sets_no_wake_up_time_e9_14() {
    let mut sim = goal("say hello", &json!({}), |ask| match ask.call {
        1 => ModelAnswer::Failed(ModelFailure {
            retry_after: Some(Duration::from_secs(20)),
            ..ModelFailure::new(ModelFailureKind::RateLimited, "not so fast")
        }),
        _ => execute("finish", json!({"notes": "hello"})),
    });
    sim.settled();
    let parked = sim.run.wakes_at();
    assert!(
        parked.is_some_and(|at| at.since(sim.now) == Duration::from_secs(20)),
        "{parked:?}"
    );
    let waits = |sim: &Sim, seconds| {
        let summary = sim.run.summary();
        summary.waits_at(sim.now.plus(Duration::from_secs(seconds)))
    };
    assert!(waits(&sim, 19) && !waits(&sim, 20));
    pause(&mut sim);
    assert_eq!(sim.run.wakes_at(), None);
    assert!(waits(&sim, 20));
    sim.record(Event::Continued {
        node: None,
        by: "ada".to_owned(),
    });
    assert_eq!(sim.run.wakes_at(), parked);
    assert_eq!(root(&sim.driven_on()).status, Outcome::Ok);
}
