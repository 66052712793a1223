//! What counts as under way, and what nobody can stop because it is not (E9.11, E9.12).

use super::*;
use crate::run::RequiredApproval;

/// Every node that counts as under way has a call, a compaction or a check that somebody ends: otherwise it would be
/// stopped for ever, and hold a place for ever. Every test that records an event asserts this.
pub(super) fn only_what_has_begun_is_under_way(run: &Run, event: &Event) {
    for index in run.executing.iter().chain(&run.stopping) {
        let node = &run.nodes[*index];
        let has_begun = match node.agent.as_deref() {
            Some(agent) => agent.pending.is_some() || agent.compacting.is_some() || agent.has_begun_checks,
            None => matches!(node.state, NodeState::Executing | NodeState::Cancelling) && node.attempt > 0,
        };
        assert!(has_begun, "nothing of {} is under way after {event:?}", node.id);
    }
}

/// A run whose only call was repeated after its driver died; its tool could not reconcile it, so a person is asked.
fn asked_again(budget: &str) -> (Sim, NodeId) {
    let mut sim = Sim::new(&format!(
        "budget: {budget}\nsteps: [{{id: mail, do: {{tool: echo, args: {{}}}}, budget: {budget}}}]"
    ));
    sim.derive();
    let mut sim = Sim::resumed(&sim.journal);
    sim.run
        .set_approval_policy(Some(Arc::new(|_, _| RequiredApproval::Nothing)));
    sim.derive();
    let call = sim.under_way.pop().expect("it is begun again");
    assert!(call.again);
    let node = call.node;
    let lost = CallOutcome::Lost(Box::new(call));
    let event = sim.run.conclude(node, lost, Duration::ZERO, sim.now);
    assert!(matches!(event, Event::ApprovalAsked { .. }), "{event:?}");
    sim.record(event);
    (sim, node)
}

#[test]
fn lost_call_that_waits_for_a_person_can_be_cancelled_e9_11() {
    let (mut sim, node) = asked_again("{}");
    assert_eq!(sim.run.in_flight(), []);
    sim.record(Event::CancelRequested {
        node: None,
        by: "ada".to_owned(),
    });
    sim.derive();
    assert_eq!(sim.run.due(sim.now, 4), []);
    let result = sim.run.node(node).unwrap().result.expect("there is nothing to stop");
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Cancelled, Some(StopReason::CancelledByUser))
    );
    assert_eq!(sim.status(""), Outcome::Cancelled);
}

#[test]
fn lost_call_that_waits_for_a_person_ends_at_its_deadline_e9_12() {
    let (mut sim, node) = asked_again("{deadline: 1h}");
    sim.now = sim.run.wakes_at().expect("the deadline is to come");
    sim.derive();
    let result = sim.run.node(node).unwrap().result.expect("there is nothing to stop");
    assert_eq!(result.stop_reason, Some(StopReason::Deadline));
    assert!(sim.run.result().is_some());
}

#[test]
fn approved_repetition_of_a_lost_call_takes_its_own_place_e9_15() {
    let (mut sim, node) = asked_again("{concurrency: 1}");
    sim.record(Event::CallApproved {
        node,
        always: None,
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(sim.status("mail"), Outcome::Ok);
}

/// The only call of a run with this `budget`, which had begun when its driver died and about which a person is asked.
fn lost_within(budget: &str) -> (Sim, NodeId) {
    let mut sim = Sim::new(&format!(
        "steps: [{{id: mail, do: {{tool: echo, args: {{}}}}, budget: {budget}}}]"
    ));
    sim.derive();
    let mut sim = Sim::resumed(&sim.journal);
    sim.run
        .set_approval_policy(Some(Arc::new(|_, _| RequiredApproval::Nothing)));
    let Some(Action::Call(call)) = sim.run.due(sim.now, 4).pop() else {
        panic!("it is owed again");
    };
    let event = sim.run.call_lost(&call);
    sim.record(event);
    (sim, call.node)
}

#[test]
fn approved_repetition_of_a_lost_call_is_counted_once_e9_12() {
    for budget in ["{tool_calls: 1}", "{}"] {
        let (mut sim, node) = lost_within(budget);
        sim.record(Event::CallApproved {
            node,
            always: None,
            by: "ada".to_owned(),
        });
        let due = sim.run.due(sim.now, 4);
        assert!(
            matches!(due.as_slice(), [Action::Call(call)] if !call.again && sim.run.is_still_due(&due[0])),
            "{due:?}"
        );
        let sim = sim.driven_on();
        let mail = sim.run.node(node).unwrap();
        let result = mail.result.unwrap();
        assert_eq!((result.status, result.attempts), (Outcome::Ok, 1), "{}", result.notes);
        assert_eq!(mail.spent.tool_calls, 1);
    }
}

#[test]
fn rejected_repetition_is_unknown_although_the_budget_is_used_up_e9_12() {
    let (mut sim, node) = lost_within("{tool_calls: 1}");
    sim.record(Event::CallRejected {
        node,
        reason: String::new(),
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    let result = sim.run.node(node).unwrap().result.unwrap();
    assert_eq!(
        (result.severity, result.stop_reason),
        (Some(Severity::Hard), Some(StopReason::OutcomeUnknown)),
        "{}",
        result.notes
    );
}

#[test]
fn journal_that_counted_an_approved_repetition_twice_folds_as_it_was_e9_9() {
    let (mut sim, node) = lost_within("{tool_calls: 2}");
    sim.record(Event::CallApproved {
        node,
        always: None,
        by: "ada".to_owned(),
    });
    let Some(Action::Call(call)) = sim.run.due(sim.now, 4).pop() else {
        panic!("it is allowed");
    };
    // As earlier versions recorded it.
    sim.record(CallAction { attempt: 2, ..*call }.started());
    assert_eq!(sim.run.node(node).unwrap().spent.tool_calls, 2);
}

#[test]
fn rejected_call_is_reported_as_rejected_although_the_budget_ran_out_meanwhile_e9_14() {
    let mut sim = Sim::new(
        "budget: {tool_calls: 1}
steps: [{id: ask, do: {tool: echo, args: {}}}, {id: other, needs: [], do: {tool: noted, args: {}}}]",
    );
    sim.run.set_approval_policy(Some(Arc::new(|tool, _| match tool {
        "echo" => RequiredApproval::AnyYes,
        _ => RequiredApproval::Nothing,
    })));
    sim.derive();
    assert!(sim.end_one(), "the other call uses up the budget");
    let node = sim.run.node_at("ask").unwrap().id;
    sim.record(Event::CallRejected {
        node,
        reason: "not today".to_owned(),
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    let result = sim.run.node(node).unwrap().result.unwrap();
    assert_eq!(
        (result.stop_reason, result.notes.as_str()),
        (Some(StopReason::PolicyDenied), "ada rejected it: not today")
    );
}
