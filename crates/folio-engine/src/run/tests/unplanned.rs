//! Tasks that are done without a plan only because a limit leaves no room for one: a fork with more plans them (E9.3,
//! E9.10).

use super::forks::forked;
use super::models::*;
use super::pages::Pages;
use super::*;
use crate::event::NewLimits;
use crate::run::LimitKind;
use crate::spend::{Allowance, Dimension};
use crate::talk::Purpose;

const STEPS: [&str; 3] = ["look at the walls", "climb the roof", "open the cellar"];

fn three_steps() -> Value {
    let step = |title: &&str| json!({"id": title.split(' ').next_back(), "title": title, "criteria": ["seen"], "atomic": true});
    STEPS.iter().map(step).collect()
}

/// Plans whatever it is asked to plan, and does whatever it is asked to do.
fn splits(ask: &AskAction) -> ModelAnswer {
    match ask.purpose {
        Purpose::Decide => plan_answer(three_steps()),
        Purpose::Replan => text_answer(&json!({"root_cause": "x", "changes": "y", "steps": three_steps()}).to_string()),
        Purpose::Work => finish("seen"),
        _ => text_answer("{\"notes\": \"all of it\"}"),
    }
}

fn decided_by(sim: &Sim) -> Vec<String> {
    let decided = sim.journal.iter().filter_map(|(_, event)| match event {
        Event::Decided { by, .. } => Some(by.clone()),
        _ => None,
    });
    decided.collect()
}

/// The fork of `source` from the moment before its limits of the kind `kind`, with `more`.
fn with_more(source: &Sim, kind: LimitKind, more: NewLimits) -> Sim {
    let (first, id) = (source.journal[0].1.clone(), RunId::derived(&["more"]));
    let at = ForkAt::LimitOf(vec![kind]);
    let made = forked((source.run.id(), &source.journal), at, id, first, source.now).unwrap();
    let mut sim = Sim::empty();
    sim.run = made.run;
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::clone(&source.model);
    sim.journal = made.events.into_iter().map(|event| (source.now, event)).collect();
    sim.pages = Pages::of(sim.run.id(), &sim.journal);
    let event = sim.run.change_limits(None, more, "ada", source.now).unwrap();
    sim.record(event);
    sim.driven_on()
}

fn more_nodes() -> NewLimits {
    NewLimits {
        nodes: Some(50),
        ..NewLimits::default()
    }
}

#[test]
fn task_done_directly_for_want_of_tokens_is_planned_in_a_fork_with_more_e9_10() {
    let source = goal("survey the house", &json!({"budget": {"tokens": 4_000}}), splits).driven_on();
    assert_eq!(decided_by(&source), ["tokens"]);
    let tokens = LimitKind::Use(Dimension::Tokens);
    let unplanned: Vec<_> = source.run.unplanned().collect();
    assert_eq!(unplanned, [(NodeId::root(source.run.id()), StopReason::BudgetTokens)]);
    let more = NewLimits::from(Allowance {
        tokens: Some(1_000_000),
        ..Allowance::default()
    });
    let again = with_more(&source, tokens, more);
    assert_eq!(decided_by(&again), ["atomic"; 3]);
    assert_eq!(root(&again).status, Outcome::Ok);
    assert_eq!(again.run.unplanned().count(), 0);
}

#[test]
fn task_done_directly_for_want_of_nodes_is_planned_in_a_fork_with_more_although_the_run_ended_ok_e9_10() {
    let extra = json!({"budget": {"nodes": 2}, "steps": [{"id": "a", "title": "survey the house"}]});
    let source = goal("a house", &extra, splits).driven_on();
    assert_eq!(
        (root(&source).status, decided_by(&source)),
        (Outcome::Ok, vec!["nodes".to_owned()])
    );
    let met: Vec<_> = source
        .run
        .limits_met()
        .map(|(reason, met)| (reason, met.what))
        .collect();
    assert_eq!(met, [(StopReason::BudgetNodes, LimitKind::Nodes)]);
    let again = with_more(&source, LimitKind::Nodes, more_nodes());
    assert_eq!(decided_by(&again), ["atomic"; 3]);
}

#[test]
fn plan_refused_for_the_budget_of_nodes_is_said_to_be_and_is_carried_out_in_a_fork_with_more_e9_10() {
    let source = goal("survey the house", &json!({"budget": {"nodes": 2}}), splits).driven_on();
    assert_eq!(decided_by(&source), ["nodes"], "it could be read");
    let why = source.journal.iter().find_map(|(_, event)| match event {
        Event::Decided { reason, .. } => Some(reason.as_str()),
        _ => None,
    });
    assert_eq!(why, Some("3 more steps in addition to 0 exceed the budget of 2"));
    let again = with_more(&source, LimitKind::Nodes, more_nodes());
    assert_eq!(decided_by(&again), ["atomic"; 3]);
    assert!(
        !purposes(&again).contains(&Purpose::Decide),
        "the plan that was refused is there"
    );
}

#[test]
fn second_plan_refused_for_the_budget_of_nodes_ends_the_task_at_that_limit_e9_8() {
    let extra = json!({"budget": {"nodes": 3}, "criteria": ["all is seen"]});
    let source = goal("survey the house", &extra, |ask| match ask.purpose {
        Purpose::Decide => {
            let mut steps = three_steps();
            steps[0]["satisfies"] = json!(["c1"]);
            plan_answer(steps)
        }
        Purpose::Judge => verdict_answer("unmet"),
        Purpose::Replan => {
            let another = json!([{"id": "e", "title": "measure the eaves", "criteria": ["seen"], "atomic": true,
                                  "satisfies": ["c1"]},
                                 {"id": "f", "title": "count the floors", "criteria": ["seen"], "atomic": true}]);
            text_answer(&json!({"root_cause": "x", "changes": "y", "steps": another}).to_string())
        }
        _ => splits(ask),
    })
    .driven_on();
    assert_eq!(
        root(&source).stop_reason,
        Some(StopReason::BudgetNodes),
        "{}",
        root(&source).notes
    );
    let again = with_more(&source, LimitKind::Nodes, more_nodes());
    assert!(again.run.node_at("f").is_some());
}
