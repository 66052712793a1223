//! Groups of tasks that models do, with limits that have no room for all of them at once (E9.10): fewer run at a time,
//! and all of them get done.

use super::budgets::{check_accounts, part_of_task};
use super::models::*;
use super::*;
use crate::run::agent::{FixedCosts, NamedExecutor};
use crate::spend::Dimension;
use crate::talk::{Need, Purpose, ToolOffer};

/// Seventeen tools, whose definitions are about 7,000 tokens; no plans are made.
fn many_tools() -> Equipment {
    let mut equipment = equipment();
    equipment.plan = PlanMode::Never;
    for model in [&mut equipment.planner, &mut equipment.executor, &mut equipment.judge] {
        model.answer_tokens = 8_192;
    }
    let about = "what it does, with what, and what it gives back in each case; ".repeat(26);
    equipment.tools.extend((0..13).map(|n| ToolOffer {
        name: format!("tool_{n}"),
        description: format!("tool {n}: {about}").into(),
        args_schema: Arc::new(json!({"type": "object", "properties": {"path": {"type": "string"}}})),
        writes: false,
        need: Need::default(),
    }));
    equipment
}

/// How all members of the group ended, and how many of them were at work at the same time at most.
fn driven(extra: &Value, equipment: Equipment, concurrency: usize) -> (Sim, usize) {
    let mut sim = goal_with("survey the house", extra, equipment, |ask| match ask.purpose {
        Purpose::Decide => execute("finish", json!({"notes": "seen"})),
        _ => finish("seen"),
    });
    sim.concurrency = concurrency;
    let mut most = 0;
    loop {
        sim.derive_whole();
        most = most.max(sim.asking.len());
        if sim.run.result().is_some() {
            drop(check_accounts(&sim.journal));
            return (sim, most);
        }
        assert!(sim.end_one(), "nothing is under way, and the run has not ended");
    }
}

fn members_ok(sim: &Sim) -> usize {
    let members = sim.run.tree().into_iter().filter(|node| node.depth == 2);
    members
        .filter(|node| node.result.is_some_and(|result| result.status == Outcome::Ok))
        .count()
}

#[test]
fn all_items_get_done_with_limits_that_have_no_room_for_all_at_once_e9_10() {
    let items: Vec<u32> = (0..10).collect();
    for (tokens, concurrency) in [
        (40_000, 4),
        (60_000, 4),
        (80_000, 10),
        (40_000, 1),
        (60_000, 1),
        (15_000, 4),
    ] {
        let extra = json!({"budget": {"tokens": tokens}, "steps": [
            {"id": "each", "for_each": items, "step": {"id": "one", "title": "look at {{ item }}"}},
        ]});
        let (sim, most) = driven(&extra, many_tools(), concurrency);
        let (first, part) = (sim.asks[0].reserved.tokens(), part_of_task(&sim.journal));
        assert!(
            first > 10_500 && first < part && part < first + 1_000,
            "{first} of {part}"
        );
        assert_eq!(members_ok(&sim), 10, "{tokens} tokens: {:?}", root(&sim));
        assert_eq!(root(&sim).status, Outcome::Ok);
        // A tenth is kept for the end.
        let lanes = usize::try_from(tokens / 10 * 9 / part).unwrap();
        assert_eq!(most, lanes.min(concurrency), "{tokens} tokens");
    }
}

#[test]
fn all_branches_of_a_group_get_done_with_limits_that_have_no_room_for_all_at_once_e9_10() {
    let steps: Vec<Value> = (0..6)
        .map(|n| json!({"id": format!("t{n}"), "title": format!("look at room {n}")}))
        .collect();
    let extra = json!({"budget": {"tokens": 60_000}, "steps": [{"id": "g", "parallel": steps}]});
    let (sim, most) = driven(&extra, many_tools(), 6);
    assert_eq!((members_ok(&sim), most), (6, 4), "{:?}", root(&sim));
}

#[test]
fn member_that_needs_more_than_its_part_waits_for_what_others_give_back_e9_10() {
    let long = "the walls, the floor and the windows of the room; ".repeat(320);
    let extra = json!({"budget": {"tokens": 10_000}, "steps": [{"id": "g", "parallel": [
        {"id": "a", "title": "count swallows"},
        {"id": "b", "title": "look at a room", "description": long},
    ]}]});
    let (sim, most) = driven(&extra, equipment(), 2);
    assert_eq!(members_ok(&sim), 2, "{:?}", root(&sim));
    assert_eq!(most, 1, "the long one did not fit beside the other");
}

#[test]
fn only_the_last_of_members_that_wait_for_one_another_ends_e9_10() {
    // Every member needs more than its part, and none is at work: one has to give up its part.
    let long = "the walls, the floor and the windows of the room; ".repeat(320);
    let steps: Vec<Value> = (0..4)
        .map(|n| json!({"id": format!("t{n}"), "title": format!("look at room {n}"), "description": long}))
        .collect();
    let extra = json!({"budget": {"tokens": 15_000}, "steps": [{"id": "g", "parallel": steps}]});
    for concurrency in [1, 4] {
        let (sim, _) = driven(&extra, equipment(), concurrency);
        assert_eq!(members_ok(&sim), 3, "{:?}", root(&sim));
        let last = sim.run.node_at("g/t3").unwrap().result.unwrap();
        assert_eq!(last.stop_reason, Some(StopReason::BudgetTokens));
    }
}

#[test]
fn task_that_never_fits_ends_while_others_are_at_work_e9_10() {
    let long = "the walls, the floor and the windows of the room; ".repeat(1_000);
    let extra = json!({"budget": {"tokens": 10_000}, "steps": [{"id": "g", "parallel": [
        {"id": "a", "title": "count swallows"},
        {"id": "b", "title": "look at a room", "description": long},
    ]}]});
    let mut sim = goal_with("survey the house", &extra, equipment(), |_| finish("seen"));
    sim.derive_whole();
    assert_eq!(sim.asking.len(), 1);
    let long = sim.run.node_at("g/b").unwrap().result.unwrap();
    assert_eq!(long.stop_reason, Some(StopReason::BudgetTokens));
    assert_eq!(members_ok(&sim.driven_on()), 1);
}

/// A model that answers at length, and costs ten times as much, does what names it.
fn with_wordy() -> Equipment {
    let mut equipment = equipment();
    let price = equipment.executor.price.unwrap();
    let model = ModelSpec {
        answer_tokens: 16_000,
        price: Some(Price {
            tokens_in: 10 * price.tokens_in,
            tokens_out: 10 * price.tokens_out,
            ..price
        }),
        fixed: FixedCosts::default(),
        ..equipment.executor.clone()
    };
    let named = NamedExecutor {
        model,
        about: "tells much".to_owned(),
        offered: OfferedTools::default(),
    };
    equipment.executors.insert("wordy".to_owned(), named);
    equipment.known.executors = Some(["wordy".to_owned()].into());
    equipment
}

#[test]
fn group_sets_aside_what_the_model_of_each_member_needs_e9_10() {
    let group = |wordy: Value| {
        let steps = json!([{"id": "g", "parallel": [
            {"id": "a", "title": "count swallows", "executor": wordy},
            {"id": "b", "title": "paint a door"},
        ]}]);
        let extra = json!({"budget": {"tokens": 50_000, "usd": 3}, "steps": steps});
        let mut sim = goal_with("survey the house", &extra, with_wordy(), |_| finish("seen"));
        sim.derive();
        let held = sim.run.purse().unwrap().held;
        let used = sim.run.purse().unwrap().reserved;
        // Of what was set aside, the calls under way have taken their part.
        (
            held.get(Dimension::Tokens) + used.tokens(),
            held.get(Dimension::MicroUsd) + used.micro_usd,
        )
    };
    let ((tokens, money), (usual_tokens, usual_money)) = (group(json!("wordy")), group(json!(null)));
    assert_eq!(tokens - usual_tokens, 3_096, "of 4,096 tokens for its answer");
    assert!(money > 5 * usual_money, "{money} {usual_money}");
}

#[test]
fn items_of_a_named_model_run_as_few_at_a_time_as_fit_e9_10() {
    let items: Vec<u32> = (0..5).collect();
    let extra = json!({"budget": {"tokens": 12_000}, "steps": [
        {"id": "each", "for_each": items, "step": {"id": "one", "title": "look at {{ item }}", "executor": "wordy"}},
    ]});
    let mut sim = goal_with("survey the house", &extra, with_wordy(), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "a"})),
        _ => finish("seen"),
    });
    sim.concurrency = 5;
    sim.derive_whole();
    assert_eq!(sim.asking.len(), 1);
    let sim = sim.driven_on();
    assert_eq!(members_ok(&sim), 5, "{:?}", root(&sim));
    drop(check_accounts(&sim.journal));
}

#[test]
fn nothing_is_set_aside_to_decide_on_the_task_of_a_program_e9_10() {
    let part = |planner_answers: u32| {
        let mut equipment = with_wordy();
        equipment.planner.answer_tokens = planner_answers;
        let wordy = equipment.executors.get_mut("wordy").unwrap();
        wordy.model.program = Some(AgentProgram {
            name: "agent:wordy".to_owned(),
            shown: json!({"argv": ["wordy"]}),
        });
        wordy.model.answer_tokens = 2_000;
        let steps = json!([{"id": "g", "parallel": [{"id": "a", "title": "count swallows", "executor": "wordy"}]}]);
        let extra = json!({"budget": {"tokens": 50_000}, "steps": steps});
        let mut sim = goal_with("survey the house", &extra, equipment, |_| finish("seen"));
        sim.derive();
        let purse = sim.run.purse().unwrap();
        purse.held.get(Dimension::Tokens) + purse.reserved.tokens()
    };
    assert_eq!(part(2_000), part(16_000));
}
