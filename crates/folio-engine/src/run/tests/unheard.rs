//! Models that do not answer, or not so that anybody can use it: what that costs, and what is said of it (E9.10, E9.13, E9.15).

use super::models::*;
use super::*;
use crate::run::UsedUp;
use crate::talk::Purpose;

#[test]
fn who_wants_to_be_left_alone_beyond_the_deadline_is_not_waited_for_and_that_is_said_e9_15() {
    let mut sim = goal("say hello", &json!({}), |_| {
        ModelAnswer::Failed(ModelFailure {
            retry_after: Some(Duration::from_secs(7_200)),
            ..ModelFailure::new(ModelFailureKind::RateLimited, "it said 429")
        })
    });
    sim.run.deadline = Some(sim.now.plus(Duration::from_secs(300)));
    let sim = sim.driven_on();
    assert_eq!(sim.asks.len(), 1);
    let said = "it said 429; it wants to be left alone for 7200 s, and the run has ";
    assert!(root(&sim).notes.contains(said), "{}", root(&sim).notes);
}

#[test]
fn a_failure_costs_what_it_says_and_what_was_set_aside_if_it_had_begun_e9_10() {
    let said = Spend {
        tokens_in: 40,
        tokens_out: 2,
        ..Spend::default()
    };
    let spent_by = |used: UsedUp| {
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
    assert_eq!(spent_by(UsedUp::ByKind).0, Spend::default());
    let (spent, reserved) = spent_by(UsedUp::Unknown);
    assert_eq!(spent, reserved);
    let (spent, _) = spent_by(UsedUp::Known(said));
    assert_eq!((spent.tokens_in, spent.tokens_out, spent.model_calls), (40, 2, 1));
}

#[test]
fn what_was_wrong_with_the_last_answer_is_told_where_nothing_is_put_into_words_e9_13() {
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("dance", json!({})),
        _ => wants(&[("dance", json!({}))]),
    })
    .driven_on();
    let said =
        "nobody put it into words: what the model answered could not be read: there is no tool dance; there are echo";
    assert!(root(&sim).notes.contains(said), "{}", root(&sim).notes);
}

#[test]
fn who_wants_to_be_left_alone_beyond_the_time_of_the_task_is_not_waited_for_either_e9_10() {
    let steps = json!([{"id": "hello", "title": "say hello", "budget": {"deadline": "2m"}}]);
    let mut sim = goal("be kind", &json!({"steps": steps}), |_| {
        ModelAnswer::Failed(ModelFailure {
            retry_after: Some(Duration::from_secs(600)),
            ..ModelFailure::new(ModelFailureKind::RateLimited, "it said 429")
        })
    });
    let began = sim.now;
    sim.run.deadline = Some(began.plus(Duration::from_secs(7_200)));
    let sim = sim.driven_on();
    assert_eq!((sim.asks.len(), sim.now), (1, began));
    let result = sim.run.node_at("hello").unwrap().result.unwrap();
    assert_eq!(result.stop_reason, Some(StopReason::RetriesExhausted));
    let said = "it said 429; it wants to be left alone for 600 s, and the task has 120 s left";
    assert!(result.notes.contains(said), "{}", result.notes);
}
