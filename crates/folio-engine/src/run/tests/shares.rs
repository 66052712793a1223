//! Shares of the surrounding budget (E9.1, E9.2).

use super::models::*;
use super::*;
use crate::event::NewLimits;
use crate::plan::PlanErrors;
use crate::spend::Allowance;
use crate::talk::Purpose;

/// The allowance in the event with which the task `path` began.
fn limited(sim: &Sim, path: &str) -> Option<Allowance> {
    let node = sim.run.node_at(path)?.id;
    let of_event = |event: &Event| match event {
        Event::Briefed { node: at, limits, .. }
        | Event::Started { node: at, limits, .. }
        | Event::Expanded { node: at, limits, .. }
            if *at == node =>
        {
            limits.as_deref().copied()
        }
        _ => None,
    };
    sim.journal.iter().find_map(|(_, event)| of_event(event))
}

/// The present limits of the task `path`.
fn limit(sim: &Sim, path: &str) -> Allowance {
    sim.run
        .node_at(path)
        .unwrap()
        .purse
        .map(|purse| purse.limit)
        .unwrap_or_default()
}

const SHARED: &str = "
budget: {tokens: 100000, model_calls: 30, tool_calls: 9, bytes: 1000000}
steps:
  - {id: quarter, title: think, budget_share: 0.25}
  - {id: tight, title: think, budget_share: 0.5, budget: {tokens: 9000, usd: 2, replans: 1}}
  - {id: call, budget_share: 0.1, do: {tool: echo, args: {a: 1}}}
  - id: parts
    budget_share: 0.5
    plan: {steps: [{id: half, title: think, budget_share: 0.5}, {id: rest, title: think}]}
  - {id: free, title: think}
";

fn shared() -> Sim {
    let mut sim = Sim::new(SHARED);
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(|_| finish("thought"));
    sim
}

#[test]
fn budget_share_becomes_limits_at_task_start_and_only_narrows_e9_1() {
    let sim = shared().driven_on();
    let of = |path: &str| {
        let limit = limit(&sim, path);
        (limit.tokens, limit.model_calls, limit.tool_calls, limit.bytes)
    };
    assert_eq!(of("quarter"), (Some(25_000), Some(8), Some(3), Some(250_000)));
    assert_eq!(
        of("tight"),
        (Some(9_000), Some(15), Some(5), Some(500_000)),
        "its own limit is smaller"
    );
    assert_eq!(
        limit(&sim, "tight").micro_usd,
        Some(2_000_000),
        "and one that nothing around it has stays"
    );
    assert_eq!(of("call"), (Some(10_000), Some(3), Some(1), Some(100_000)));
    assert_eq!(
        of("parts/half"),
        (Some(25_000), Some(8), Some(3), Some(250_000)),
        "half of a half"
    );
    assert_eq!(
        (limited(&sim, "free"), limit(&sim, "free")),
        (None, Allowance::default())
    );
    for path in ["quarter", "tight", "call", "parts", "parts/half"] {
        assert!(
            limited(&sim, path).is_some(),
            "{path}: the journal says what it came to"
        );
        assert_eq!(sim.status(path), Outcome::Ok, "{path}");
    }
    let again = Sim::resumed(&sim.journal);
    for path in ["quarter", "tight", "call", "parts", "parts/half", "free"] {
        assert_eq!(
            again.run.node_at(path).unwrap().purse,
            sim.run.node_at(path).unwrap().purse,
            "{path}"
        );
    }
}

#[test]
fn model_is_told_the_limits_of_its_budget_share_e9_2() {
    let sim = shared().driven_on();
    let told = |path: &str| {
        let node = sim.run.node_at(path).unwrap().id;
        let ask = sim.asks.iter().find(|ask| ask.node == node).unwrap();
        let lines = ask.messages[1].text.lines();
        lines
            .filter_map(|line| line.strip_prefix("Budget, including all subtasks: "))
            .collect::<String>()
    };
    assert_eq!(
        told("quarter"),
        "bytes 250000, model calls 8, tokens 25000, tool calls 3"
    );
    assert_eq!(
        told("tight"),
        "bytes 500000, model calls 15, replans 1, tokens 9000, tool calls 5, usd 2.0"
    );
    assert_eq!(told("free"), "");
}

#[test]
fn raised_limit_changes_only_shares_of_pending_tasks_e9_1() {
    let mut sim = shared();
    while limited(&sim, "quarter").is_none() {
        let action = sim.run.due(sim.now, 1).into_iter().next().unwrap();
        sim.take(action);
    }
    let more = NewLimits::from(Allowance {
        tokens: Some(400_000),
        ..Allowance::default()
    });
    let event = sim.run.change_limits(None, more, "ada", sim.now).unwrap();
    sim.record(event);
    let quarter = sim.run.node_at("quarter").unwrap().id;
    let sim = sim.driven_on();
    assert_eq!(limit(&sim, "quarter").tokens, Some(25_000));
    assert_eq!(limit(&sim, "parts").tokens, Some(200_000));
    assert_eq!(sim.run.share_of(quarter), None, "it has begun");
}

#[test]
fn exhausted_share_ends_its_task_but_not_its_neighbours_e9_10() {
    let mut sim = Sim::new(
        "budget: {model_calls: 30}\nsteps:\n- {id: busy, title: walk, atomic: true, budget_share: 0.2}\n- {id: calm, title: paint, atomic: true}",
    );
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(|ask| match ask.purpose {
        Purpose::Work if task_named(ask) == "walk" => calls_answer(&[("echo", json!({"n": ask.call}))]),
        Purpose::Work => finish("painted"),
        _ => text_answer("{\"notes\": \"what there is\", \"status\": \"ok\"}"),
    });
    let sim = sim.driven_on();
    let busy = sim.run.node_at("busy").unwrap();
    let result = busy.result.unwrap();
    assert_eq!(result.stop_reason, Some(StopReason::BudgetModelCalls));
    assert_eq!(result.notes, "what there is");
    assert_eq!(busy.spent.model_calls, 6, "a fifth of 30, of which one is for the end");
    assert_eq!(sim.status("calm"), Outcome::Ok);
}

#[test]
fn all_invalid_budget_shares_are_reported_together_e9_1() {
    let plan = "steps:\n  - {id: a, title: a, budget_share: 0}\n  - {id: b, title: b, budget_share: 1.5}\n  - {id: c, title: c, budget_share: half}\n  - {id: d, title: d, budget_share: 1}";
    let PlanErrors { listed: errors, .. } = plan::parse(plan, &Known::default()).unwrap_err();
    let told: Vec<(u32, &str)> = errors
        .iter()
        .map(|error| (error.place.line, error.message.as_str()))
        .collect();
    let lines: Vec<u32> = told.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 3, 4], "{told:?}");
    assert_eq!(told[0].1, "0 is not a share: more than 0, and at most 1");
    assert_eq!(told[1].1, "1.5 is not a share: more than 0, and at most 1");
}
