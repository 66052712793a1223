//! Only the transitions in the table are possible, and a rejected event leaves no trace (E9.19).

use super::budgets::driven_under_stress;
use super::*;
use crate::node::Move;

/// A node that no run has.
const NO_NODE: &str = "0123456789abcdef";

/// Events that a run with models but without people does not have.
fn of_people() -> Vec<Value> {
    let approval = json!({"tool": "write", "args": {}, "hash": "h"});
    let question = json!({"call": "q", "text": "why"});
    let events = [
        json!({"event": "questioned", "question": question}),
        json!({"event": "answered", "answer": "because", "by": "ada"}),
        json!({"event": "approval_asked", "approval": approval}),
        json!({"event": "call_approved", "by": "ada", "always": "tool"}),
        json!({"event": "call_rejected", "by": "ada", "reason": "no"}),
        json!({"event": "plan_approved", "version": 1, "by": "ada"}),
        json!({"event": "plan_rejected", "version": 1, "by": "ada", "reason": "no"}),
        json!({"event": "plan_edited", "version": 2, "steps": [], "kept": [NO_NODE], "difference": {}, "by": "ada"}),
        json!({"event": "compacting", "reserved": {}}),
        json!({"event": "roll_ups", "parts": [1, 1]}),
        json!({"event": "paused", "by": "ada"}),
        json!({"event": "limits_changed", "limits": {"tokens": 5}, "by": "ada"}),
    ];
    events.to_vec()
}

/// `event` for another node, or with something in it that does not exist.
fn corrupt_event(mut event: Value, node: NodeId, how: u64) -> Option<Event> {
    if how % 8 < 6 && !event["node"].is_null() || event["node"].is_null() && event["event"] != "resumed" {
        event["node"] = json!(node);
    }
    if how % 8 == 7 {
        event["node"] = json!(NO_NODE);
    }
    if event["event"] == "planned" {
        event["awaits"] = json!(how.is_multiple_of(3));
        if how.is_multiple_of(2) {
            event["kept"] = json!([NO_NODE]);
        }
    }
    if event["event"] == "resumed" {
        event["in_flight"].as_array_mut()?.push(json!(NO_NODE));
    }
    serde_json::from_value(event).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn only_table_transitions_happen_and_refused_events_change_nothing_e9_19(
        seed: u64, cut: prop::sample::Index, rolls in prop::collection::vec(any::<(u64, u64, u64)>(), 60)
    ) {
        let sim = driven_under_stress(&json!({"budget": {"nodes": 60, "depth": 3}}), seed, 3, true);
        let cut = 1 + cut.index(sim.journal.len());
        let begun = || {
            let mut run = Run::new(sim.run.id(), Arc::new(Templates::new()));
            sim.journal[..cut].iter().for_each(|(at, event)| run.apply(*at, event).unwrap());
            run
        };
        let mut run = begun();
        let others = of_people();
        for (which, whose, how) in rolls {
            let at = usize::try_from(which % (sim.journal.len() + 3 * others.len()) as u64).unwrap();
            let event = match sim.journal.get(at) {
                Some((_, event)) => json!(event),
                None => others[at % others.len()].clone(),
            };
            let node = run.nodes[usize::try_from(whose % run.nodes.len() as u64).unwrap()].id;
            let Some(event) = corrupt_event(event, node, how) else { continue };
            let states: Vec<NodeState> = run.nodes.iter().map(|node| node.state).collect();
            let before = format!("{run:?}");
            match run.apply(sim.now, &event) {
                Ok(()) => {
                    let own = event.node().map(|node| run.index(node).unwrap());
                    for (at, before) in states.into_iter().enumerate() {
                        let after = run.nodes[at].state;
                        let is_in_table = |by: &Move| before.next(*by) == Some(after);
                        // What happens to one node moves no other, unless it stops it.
                        let is_moved = Move::ALL.iter().any(|by| is_in_table(by) && (own == Some(at) || *by == Move::Cancel));
                        prop_assert!(before == after || is_moved, "{before:?} became {after:?} by {event:?}");
                    }
                    run = begun();
                }
                Err(error) => prop_assert_eq!(before, format!("{run:?}"), "{} {:?}", error, event),
            }
        }
    }
}
