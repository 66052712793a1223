//! Models that do not answer, or not usably: what that costs, and how it is reported (E9.10, E9.13, E9.15).

use super::models::*;
use super::*;
use crate::run::FailedCallUsage;
use crate::talk::Purpose;

#[test]
fn retry_after_beyond_the_run_deadline_is_not_waited_for_e9_15() {
    let mut sim = goal("say hello", &json!({}), |_| {
        ModelAnswer::Failed(ModelFailure {
            retry_after: Some(Duration::from_secs(7_200)),
            ..ModelFailure::new(ModelFailureKind::RateLimited, "it said 429")
        })
    });
    sim.run.time.set(sim.now.plus(Duration::from_secs(300)));
    let sim = sim.driven_on();
    assert_eq!(sim.asks.len(), 1);
    let said = "it said 429; it asks to wait 7200 s, but the run has ";
    assert!(root(&sim).notes.contains(said), "{}", root(&sim).notes);
}

#[test]
fn failed_model_call_costs_its_reported_or_set_aside_usage_e9_10() {
    let said = Spend {
        tokens_in: 40,
        tokens_out: 2,
        ..Spend::default()
    };
    let spent_by = |used: FailedCallUsage| {
        let sim = goal("say hello", &json!({}), move |ask| match ask.call {
            1 => ModelAnswer::Failed(ModelFailure {
                used,
                ..ModelFailure::new(ModelFailureKind::RateLimited, "slow down")
            }),
            _ => execute("finish", json!({"notes": "hello"})),
        })
        .driven_on();
        let failed = sim.journal.iter().find_map(|(_, event)| match event {
            Event::AskFailed { spent, .. } => Some(*spent),
            _ => None,
        });
        (failed.unwrap(), sim.asks[0].reserved)
    };
    assert_eq!(spent_by(FailedCallUsage::ByKind).0, Spend::default());
    let (spent, reserved) = spent_by(FailedCallUsage::Unknown);
    assert_eq!(spent, reserved);
    let (spent, _) = spent_by(FailedCallUsage::Known(said));
    assert_eq!((spent.tokens_in, spent.tokens_out, spent.model_calls), (40, 2, 1));
}

#[test]
fn notes_name_the_last_rejection_when_no_summary_was_written_e9_13() {
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("dance", json!({})),
        _ => calls_answer(&[("dance", json!({}))]),
    })
    .driven_on();
    let said = "stopped before it was finished: 3 rounds of calls in a row were rejected; the last because: unknown tool dance; available: echo";
    assert!(root(&sim).notes.starts_with(said), "{}", root(&sim).notes);
    let unsaid = "; no summary was written: the model's answer could not be read: the answer is empty; nothing was done of: say hello";
    assert!(root(&sim).notes.ends_with(unsaid), "{}", root(&sim).notes);
}

#[test]
fn result_after_a_loop_lists_the_finished_calls_e9_13() {
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => calls_answer(&[("echo", json!({"text": "x"}))]),
    })
    .driven_on();
    assert_eq!(root(&sim).stop_reason, Some(StopReason::Loop));
    let notes = &root(&sim).notes;
    assert!(!notes.contains("could not be read: not called again"), "{notes}");
    assert!(notes.contains("the last because: not called again"), "{notes}");
    assert!(notes.ends_with("1 ok\ncall-1 (ok)"), "{notes}");
}

#[test]
fn notes_name_the_limit_that_left_a_task_undone_e9_10() {
    for (budget, what) in [
        (json!({"model_calls": 0}), "model calls"),
        (json!({"tokens": 0}), "tokens"),
        (json!({"bytes": 100}), "bytes"),
    ] {
        let sim = goal("say hello", &json!({"budget": budget}), |ask| {
            panic!("{:?}", ask.purpose)
        })
        .driven_on();
        assert_eq!(
            root(&sim).notes,
            format!(
                "stopped before it was finished: its budget does not leave enough {what} to begin; nothing was done of: say hello"
            )
        );
    }
}

#[test]
fn request_exceeding_the_task_timeout_is_not_retried_e9_15() {
    let asked = |kind: ModelFailureKind| {
        let steps = json!([{"id": "hello", "title": "say hello", "timeout": "2s"}]);
        let sim = goal("be kind", &json!({"steps": steps}), move |ask| match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "x"})),
            _ => ModelAnswer::Failed(ModelFailure::new(kind, "nothing came")),
        })
        .driven_on();
        assert!(sim.asks.iter().all(|ask| ask.attempt == Some(Duration::from_secs(2))));
        let notes = sim.run.node_at("hello").unwrap().result.unwrap().notes.clone();
        (sim.asks.len(), notes)
    };
    let timed_out = "nothing came\nhello/call-1 (ok)".to_owned();
    assert_eq!(asked(ModelFailureKind::TimedOut), (2, timed_out));
    let given_up = "nothing came (given up after 5 attempts)\nhello/call-1 (ok)".to_owned();
    assert_eq!(asked(ModelFailureKind::Unavailable), (6, given_up));
}

#[test]
fn retry_after_beyond_the_task_deadline_is_not_waited_for_e9_10() {
    let steps = json!([{"id": "hello", "title": "say hello", "budget": {"deadline": "2m"}}]);
    let mut sim = goal("be kind", &json!({"steps": steps}), |_| {
        ModelAnswer::Failed(ModelFailure {
            retry_after: Some(Duration::from_secs(600)),
            ..ModelFailure::new(ModelFailureKind::RateLimited, "it said 429")
        })
    });
    let began = sim.now;
    sim.run.time.set(began.plus(Duration::from_secs(7_200)));
    let sim = sim.driven_on();
    assert_eq!((sim.asks.len(), sim.now), (1, began));
    let result = sim.run.node_at("hello").unwrap().result.unwrap();
    assert_eq!(result.stop_reason, Some(StopReason::RetriesExhausted));
    let said = "it said 429; it asks to wait 600 s, but the task has only 120 s left";
    assert!(result.notes.contains(said), "{}", result.notes);
}
