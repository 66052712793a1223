//! Limits that whoever starts a run sets in the place of those in its plan (E9.10).

use super::*;
use crate::event::NewLimits;
use crate::plan::{NODES_MAX, Plan};
use crate::spend::Allowance;

const NOW: Timestamp = Timestamp::from_millis(1_000);

/// A plan of two nodes with limits.
fn planned() -> Plan {
    let budget = "{tokens: 1, tokens_in: 2, tokens_cached: 3, tokens_out: 4, usd: 5, model_calls: 6, tool_calls: 7, bytes: 800000, nodes: 9, deadline: 10s}";
    let steps = "[{id: a, do: {tool: echo, args: {}}}, {id: b, do: {tool: echo, args: {}}}]";
    plan::parse(&format!("budget: {budget}\nsteps: {steps}"), &Known::default()).unwrap()
}

fn of_nodes(nodes: u32) -> NewLimits {
    NewLimits {
        nodes: Some(nodes),
        ..NewLimits::default()
    }
}

#[test]
fn limits_of_a_new_run_take_the_place_of_those_in_its_plan_e9_10() {
    let limits = NewLimits {
        deadline: Some(NOW.plus(Duration::from_secs(60))),
        nodes: Some(2),
        ..NewLimits::from(Allowance {
            tokens: Some(11),
            tokens_in: Some(12),
            tokens_cached: Some(13),
            tokens_out: Some(14),
            micro_usd: Some(15),
            model_calls: Some(16),
            tool_calls: Some(17),
            bytes: Some(900_000),
        })
    };
    let mut plan = planned();
    plan.set_limits(&limits, NOW).unwrap();
    let set = &plan.budget;
    assert_eq!(
        [set.tokens, set.tokens_in, set.tokens_cached, set.tokens_out],
        [Some(11), Some(12), Some(13), Some(14)]
    );
    assert_eq!(
        [set.micro_usd, set.model_calls, set.tool_calls, set.bytes],
        [Some(15), Some(16), Some(17), Some(900_000)]
    );
    assert_eq!(set.nodes, Some(2), "as many as the plan has");
    let time = set.deadline.unwrap();
    assert!(
        time >= Duration::from_secs(60) && time < Duration::from_millis(60_100),
        "{time:?}"
    );
}

#[test]
fn limits_that_nobody_sets_stay_as_the_plan_has_them_e9_10() {
    let mut plan = planned();
    plan.set_limits(&NewLimits::default(), NOW).unwrap();
    assert_eq!(plan.budget, planned().budget);
}

#[test]
fn impossible_limits_of_a_new_run_are_refused_and_change_nothing_e9_10() {
    let over = |deadline| NewLimits {
        deadline: Some(deadline),
        ..NewLimits::default()
    };
    for (limits, refused) in [
        (
            of_nodes(1),
            "the limit on nodes cannot be 1: the plan has 2 nodes".to_owned(),
        ),
        (
            of_nodes(NODES_MAX + 1),
            "these limits are larger than a plan may have: `nodes` is 200001; at most 200000 is allowed".to_owned(),
        ),
        (
            over(NOW),
            format!("the deadline of the run cannot be {NOW}, which is in the past"),
        ),
    ] {
        let mut plan = planned();
        assert_eq!(plan.set_limits(&limits, NOW).unwrap_err().to_string(), refused);
        assert_eq!(plan.budget, planned().budget);
    }
    let far = over(NOW.plus(Duration::from_secs(60 * 60 * 24 * 366 * 11)));
    assert!(planned().set_limits(&far, NOW).is_err(), "more than ten years");
}
