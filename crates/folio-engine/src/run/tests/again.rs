//! Failed calls that are to be retried: what prevents that, and what else happens to them (E9.6, E9.9, E9.15).

use super::judged::{answer_question, drive_to_question};
use super::models::*;
use super::*;
use crate::result::Finding;
use crate::run::RequiredApproval;
use crate::spend::Allowance;

/// A call that a judge and then a person are to check. The judge is unavailable.
fn looked_at(budget: &Value) -> Sim {
    let mut equipment = equipment();
    equipment.has_person = true;
    let extra = json!({"steps": [{
        "id": "a", "budget": budget, "do": {"tool": "echo", "args": {"text": "hello"}},
        "criteria": [{"id": "c1", "text": "it is a greeting"}, {"id": "c2", "text": "it is nice", "check": "human"}],
    }]});
    goal_with("greet", &extra, equipment, |_| {
        ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::Unavailable, "away"))
    })
}

fn is_partial_and_nice(sim: &Sim) {
    assert_eq!(sim.status("a"), Outcome::Partial);
    let verdicts = &sim.run.node_at("a").unwrap().result.unwrap().verdicts;
    let of = |id: &str| &verdicts.iter().find(|verdict| verdict.criterion == id).unwrap().finding;
    assert!(matches!(of("c1"), Finding::Unverifiable(_)));
    assert_eq!(of("c2"), &Finding::Met);
}

#[test]
fn human_criterion_is_asked_when_the_judge_is_unavailable_e9_6() {
    let mut sim = looked_at(&json!({"model_calls": 2}));
    let (node, asked) = drive_to_question(&mut sim).unwrap();
    assert!(asked.starts_with("Is this criterion met: it is nice?"), "{asked}");
    assert_eq!(sim.run.node(node).unwrap().state, NodeState::WaitingInput);
    // It waits for a person, and for no time.
    assert_eq!((sim.run.node(node).unwrap().parked, sim.run.wakes_at()), (None, None));
    assert_eq!(sim.run.due(sim.now, 4), []);
    answer_question(&mut sim, node, "yes");
    assert_eq!(drive_to_question(&mut sim), None);
    is_partial_and_nice(&sim);
    for cut in 1..sim.journal.len() {
        let mut equipment = equipment();
        equipment.has_person = true;
        let mut resumed = Sim::resumed_with(&sim.journal[..cut], equipment, Arc::clone(&sim.model));
        while let Some((node, _)) = drive_to_question(&mut resumed) {
            answer_question(&mut resumed, node, "yes");
        }
        is_partial_and_nice(&resumed);
    }
}

#[test]
fn human_criterion_is_asked_after_resume_without_a_judge_e9_6() {
    let mut sim = looked_at(&json!({}));
    sim.settled();
    assert_eq!(sim.run.node_at("a").unwrap().state, NodeState::Parked);
    // Somebody takes it up who has no model.
    let mut sim = Sim::resumed(&sim.journal);
    sim.run
        .set_approval_policy(Some(Arc::new(|_, _| RequiredApproval::Nothing)));
    let (node, _) = drive_to_question(&mut sim).unwrap();
    answer_question(&mut sim, node, "yes");
    assert_eq!(drive_to_question(&mut sim), None);
    is_partial_and_nice(&sim);
}

/// A call that fails once, beside a list of eight, with room for one call at a time; the call has failed, and an item
/// is under way.
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
fn due_retry_runs_before_steps_that_never_began_e9_15() {
    let mut sim = beside_a_list();
    sim.now = sim.now.plus(Duration::from_secs(2));
    assert!(sim.end_one());
    sim.derive();
    let called: Vec<&str> = sim.calls.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(called, ["group-1/a", "group-1/each/one[0]", "group-1/a"]);
    assert_eq!(sim.driven_on().status(""), Outcome::Ok);
}

#[test]
fn overdue_retry_without_a_free_slot_sets_no_wake_time_e9_9() {
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
