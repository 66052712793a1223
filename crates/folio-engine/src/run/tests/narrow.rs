//! Limits that a task sets for itself and everything below it (E9.10).

use super::models::*;
use super::*;
use crate::event::NewLimits;
use crate::spend::Allowance;
use crate::talk::Purpose;

/// A plan in a task with `budget`.
fn inside(budget: &Value, steps: &Value) -> Sim {
    let plan = json!({"version": 1, "title": "t", "steps": [
        {"id": "part", "title": "part", "budget": budget, "plan": {"steps": steps}},
        {"id": "beside", "needs": [], "do": {"tool": "echo", "args": {}}},
    ]});
    Sim::new(&plan.to_string())
}

fn echo(id: &str) -> Value {
    json!({"id": id, "do": {"tool": "echo", "args": {}}})
}

fn reason(sim: &Sim, path: &str) -> Option<StopReason> {
    sim.run.node_at(path).unwrap().result.unwrap().stop_reason
}

fn notes<'r>(sim: &'r Sim, path: &str) -> &'r str {
    &sim.run.node_at(path).unwrap().result.unwrap().notes
}

#[test]
fn task_deadline_ends_the_task_but_not_its_neighbours_e9_10() {
    let mut sim = inside(&json!({"deadline": "10s"}), &json!([echo("a"), echo("b")]));
    sim.derive();
    assert_eq!(sim.run.wakes_at(), Some(sim.now.plus(Duration::from_secs(10))));
    // `a` is under way.
    sim.now = sim.now.plus(Duration::from_secs(10));
    sim.derive();
    assert_eq!(sim.run.wakes_at(), None, "nobody is woken for what is over");
    let sim = sim.driven_on();
    assert_eq!(
        [
            sim.status("part/a"),
            sim.status("part/b"),
            sim.status("part"),
            sim.status("beside")
        ],
        [Outcome::Cancelled, Outcome::Cancelled, Outcome::Failed, Outcome::Ok]
    );
    assert_eq!(reason(&sim, "part"), Some(StopReason::Deadline));
    assert_eq!(
        reason(&sim, ""),
        Some(StopReason::Deadline),
        "the run says why it is partial"
    );
    assert_eq!(sim.status(""), Outcome::Partial);
}

#[test]
fn task_finished_before_its_deadline_stays_ok_e9_10() {
    let mut sim = inside(&json!({"deadline": "10s"}), &json!([echo("a")]));
    sim.derive();
    while sim.end_one() {
        sim.derive();
    }
    sim.now = sim.now.plus(Duration::from_secs(60));
    let sim = sim.driven_on();
    assert_eq!([sim.status("part"), sim.status("")], [Outcome::Ok; 2]);
}

#[test]
fn model_near_its_deadline_hands_back_a_partial_result_e9_10() {
    let extra = json!({"steps": [
        {"id": "a", "title": "walk through cellars", "budget": {"deadline": "100s"}},
        {"id": "b", "title": "count swallows", "needs": []},
    ]});
    let mut sim = goal_with("survey the house", &extra, equipment(), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "a look"})),
        Purpose::HandBack => text_answer(r#"{"status": "ok", "notes": "two cellars of three"}"#),
        _ if ask.call > 2 => finish("done"),
        _ => calls_answer(&[("echo", json!({"text": "another look"}))]),
    });
    // Both have begun and decided.
    sim.derive();
    sim.end_nth(0);
    sim.end_nth(0);
    sim.now = sim.now.plus(Duration::from_secs(91));
    let sim = sim.driven_on();
    let of_a = sim.asks.iter().filter(|ask| task_named(ask).contains("cellars"));
    assert_eq!(
        of_a.map(|ask| ask.purpose).collect::<Vec<_>>(),
        [Purpose::Decide, Purpose::HandBack]
    );
    let handed_back = sim.run.node_at("a").unwrap().result.unwrap();
    assert_eq!(
        (handed_back.status, handed_back.stop_reason, handed_back.notes.as_str()),
        (Outcome::Partial, Some(StopReason::Deadline), "two cellars of three")
    );
    assert_eq!(sim.status("b"), Outcome::Ok);
}

#[test]
fn model_work_is_not_begun_shortly_before_the_deadline_e9_10() {
    let mut sim = goal("say hello", &json!({"budget": {"deadline": "100s"}}), |ask| {
        panic!("nobody is to be asked to {:?}", ask.purpose)
    });
    sim.run = {
        let mut run = Run::new(RunId::derived(&["test"]), Arc::new(Templates::new()));
        run.equip(Arc::new(equipment()));
        let (at, mut first) = sim.journal[0].clone();
        if let Event::RunStarted { deadline, .. } = &mut first {
            *deadline = Some(at.plus(Duration::from_secs(100)));
        }
        run.apply(at, &first).unwrap();
        run
    };
    sim.now = sim.now.plus(Duration::from_secs(95));
    let sim = sim.driven_on();
    assert_eq!(
        (sim.status(""), reason(&sim, "")),
        (Outcome::Failed, Some(StopReason::Deadline))
    );
}

#[test]
fn task_concurrency_limits_its_calls_in_flight_e9_10() {
    let steps = json!([{"parallel": [echo("a"), echo("b"), echo("c")]}]);
    let mut sim = inside(&json!({"concurrency": 1}), &steps);
    let mut most = 0;
    loop {
        sim.derive();
        let below = |call: &&CallAction| sim.run.node(call.node).unwrap().path.starts_with("part/");
        most = most.max(sim.under_way.iter().filter(below).count());
        if !sim.end_one() {
            break;
        }
    }
    assert_eq!((most, sim.status("")), (1, Outcome::Ok));
}

#[test]
fn task_budget_limits_nodes_items_and_output_bytes_e9_10() {
    // One that is written out is held against the budget before the run.
    let list = json!([{"id": "each", "for_each": "{{ [1, 2, 3, 4] }}", "step": echo("one")}]);
    let sim = inside(&json!({"nodes": 4}), &list).driven_on();
    assert_eq!(reason(&sim, "part/each"), Some(StopReason::BudgetNodes));
    let sim = inside(&json!({"items": 3}), &list).driven_on();
    assert_eq!(reason(&sim, "part/each"), Some(StopReason::BudgetChildren));
    assert_eq!(
        notes(&sim, "part/each"),
        "4 items are more than the `items` of the budget, 3; none was begun"
    );
    let long = json!([{"id": "a", "do": {"tool": "echo", "args": {"text": "a long answer"}}}]);
    let sim = inside(&json!({"output_bytes": 8}), &long).driven_on();
    assert_eq!(reason(&sim, "part/a"), Some(StopReason::BudgetBytes));
    let sim = inside(&json!({"nodes": 5, "items": 4, "output_bytes": 800}), &list).driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn steps_inside_groups_count_against_the_node_limit_e9_10() {
    // Of each item a group of two, which is three nodes: nine beside the list. The task whose budget it is counts for
    // none.
    let group = json!({"parallel": [echo("a"), echo("b")]});
    let list = json!([{"id": "each", "for_each": [1, 2, 3], "step": group}]);
    let sim = inside(&json!({"nodes": 9}), &list).driven_on();
    assert_eq!(reason(&sim, "part/each"), Some(StopReason::BudgetNodes));
    assert!(sim.calls.iter().all(|(path, _)| path == "beside"), "{:?}", sim.calls);
    let sim = inside(&json!({"nodes": 10}), &list).driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
    // A plan within a task is counted with what is in its groups, too.
    let inner = json!([{"id": "inner", "plan": {"steps": [group]}}]);
    let sim = inside(&json!({"nodes": 3}), &inner).driven_on();
    assert_eq!(reason(&sim, "part/inner"), Some(StopReason::BudgetNodes));
    let sim = inside(&json!({"nodes": 4}), &inner).driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn node_limit_counts_plan_steps_but_not_the_run_itself_e9_10() {
    let plan = |nodes: u32, more: &str| {
        format!("budget: {{nodes: {nodes}}}\nsteps:\n  - {{id: a, do: {{tool: echo, args: {{}}}}}}\n{more}")
    };
    let list = "  - {id: each, for_each: [1, 2], step: {id: one, do: {tool: echo, args: {}}}}";
    let mut sim = Sim::new(&plan(4, list));
    assert_eq!(sim.run.planned_nodes(), 0, "the run itself stands in no plan");
    sim = sim.driven_on();
    assert_eq!((sim.status(""), sim.run.planned_nodes()), (Outcome::Ok, 4));
    // One less has room for what is written, and not for every item.
    let sim = Sim::new(&plan(3, list)).driven_on();
    assert_eq!(sim.run.planned_nodes(), 2);
    assert_eq!(
        notes(&sim, "each"),
        "2 more nodes beside 2 would be more than the budget of 3"
    );
    // It is no smaller than what is made and what is still to be made.
    let lowered = |sim: &Sim, nodes| {
        let limits = NewLimits {
            nodes: Some(nodes),
            ..NewLimits::default()
        };
        let event = sim.run.change_limits(None, limits, "ada", sim.now);
        event.map(|_| ()).map_err(|error| error.to_string())
    };
    let mut sim = Sim::new(&plan(9, list));
    assert_eq!(lowered(&sim, 3), Ok(()));
    assert_eq!(lowered(&sim, 200_000), Ok(()));
    assert_eq!(
        lowered(&sim, 200_001).unwrap_err(),
        "these limits are larger than a plan may have: `nodes` is 200001; at most 200000 is allowed"
    );
    let refused = |text: &str| Err(text.to_owned());
    assert_eq!(
        lowered(&sim, 0),
        refused("the limit on nodes cannot be 0: the plan has 3 nodes")
    );
    sim = sim.driven_on();
    assert_eq!(
        lowered(&sim, 3),
        refused("the limit on nodes cannot be 3: 4 are already used or set aside")
    );
    let alone = Sim::new(&plan(9, ""));
    assert_eq!(
        lowered(&alone, 0),
        refused("the limit on nodes cannot be 0: the plan has 1 node")
    );
}

#[test]
fn plan_that_allows_itself_too_many_nodes_is_refused() {
    let parsed = |nodes: u32| {
        let plan = format!("{{budget: {{nodes: {nodes}}}, steps: [{{id: a, do: {{tool: list}}}}]}}");
        let parsed = plan::parse(&plan, &Known::default());
        parsed.map(|_| ()).map_err(|errors| errors.to_string())
    };
    assert_eq!(parsed(200_000), Ok(()));
    let refused = "1:18 budget.nodes: P014 `nodes` is 200001; at most 200000 is allowed";
    assert_eq!(parsed(200_001), Err(refused.to_owned()));
}

#[test]
fn group_without_enough_budget_explains_why_nothing_began_e9_10() {
    let group = json!([{"id": "g", "parallel": [echo("a"), echo("b")]}]);
    let sim = inside(&json!({"tool_calls": 1}), &group).driven_on();
    assert_eq!(
        [notes(&sim, "part/g"), notes(&sim, "part/g/a")],
        [
            "its 2 members need at least 2 tool calls, and 1 is left; none was begun",
            "not begun, because the step that it is in failed"
        ]
    );
}

#[test]
fn depth_budget_of_a_task_limits_nested_plans_e9_10() {
    let deeper = json!([{"id": "inner", "plan": {"steps": [echo("a")]}}]);
    let sim = inside(&json!({"depth": 1}), &deeper).driven_on();
    assert_eq!(reason(&sim, "part/inner"), Some(StopReason::BudgetDepth));
    let sim = inside(&json!({"depth": 2}), &deeper).driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
    // A model's task that says 0 is done directly, without a plan.
    let extra = json!({"steps": [{"id": "a", "title": "walk through cellars", "budget": {"depth": 0}}]});
    let sim = goal_with("survey the house", &extra, equipment(), |_| finish("done")).driven_on();
    assert_eq!(purposes(&sim), [Purpose::Work]);
}

#[test]
fn default_limits_apply_without_a_budget_e9_10() {
    let sim = Sim::new("steps: [{id: a, do: {tool: echo, args: {}}}]");
    let limits = sim.run.limits();
    assert_eq!(
        [
            limits.depth_max,
            limits.children_max,
            limits.fan_in_max,
            limits.concurrency
        ],
        [8, 64, 12, 4]
    );
    assert_eq!(limits.nodes_max, 201, "200 besides what stands in the plan");
    assert_eq!([limits.replans_max, limits.replans_in_run_max], [2, 6]);
    assert_eq!(limits.deadline, Duration::from_secs(30 * 60));
    let Allowance { tokens, bytes, .. } = limits.allowance;
    assert_eq!((tokens, bytes), (Some(2_000_000), Some(4 << 30)));
    let most = plan::Limits::default();
    assert_eq!((most.depth, most.children), (8, 64));
    let listed = plan::parse(
        "steps: [{id: a, for_each: [1], do: {tool: echo, args: {}}}]",
        &Known::default(),
    );
    let plan::Step::ForEach(list) = &listed.unwrap().steps[0] else {
        panic!("a list")
    };
    assert_eq!(list.max_items, 64);
    // Plans of models are three deep, whatever a written one may be.
    let sim = goal("0", &json!({"criteria": ["x"]}), |ask| {
        let task = task_named(ask);
        match ask.purpose {
            Purpose::Decide => plan_answer(json!([
                {"id": "l", "title": format!("{task}l"), "criteria": ["x"], "satisfies": ["c1"]},
                {"id": "r", "title": format!("{task}r"), "criteria": ["x"], "atomic": true},
            ])),
            Purpose::Work => finish("done"),
            Purpose::Judge => verdict_answer("met"),
            _ => text_answer("{\"notes\": \"done\"}"),
        }
    })
    .driven_on();
    let decided = |path: &str| {
        let node = sim.run.node_at(path).unwrap().id;
        sim.journal.iter().find_map(|(_, event)| match event {
            Event::Decided { node: of, by, .. } if *of == node => Some(by.clone()),
            Event::Planned { node: of, .. } if *of == node => Some("a plan".to_owned()),
            _ => None,
        })
    };
    let by = ["", "l", "l/l", "l/l/l", "l/l/r"].map(|path| decided(path).unwrap());
    assert_eq!(by, ["a plan", "a plan", "a plan", "depth", "atomic"]);
}

#[test]
fn task_is_planned_only_if_budget_allows_a_step_e9_3() {
    let within = |tokens: u64| {
        let mut equipment = equipment();
        (equipment.planner.answer_tokens, equipment.executor.answer_tokens) = (8_192, 8_192);
        let extra = json!({"budget": {"tokens": tokens}});
        let sim = goal_with("paint the garden fence", &extra, equipment, |ask| {
            let answer = match ask.purpose {
                Purpose::Decide if task_named(ask) == "paint the garden fence" => plan_answer(json!([
                    {"id": "buy", "title": "buy blue paint", "criteria": ["x"]},
                    {"id": "brush", "title": "brush every board", "criteria": ["x"]}
                ])),
                Purpose::Decide => execute("echo", json!({"text": "x"})),
                Purpose::Work => finish("done"),
                _ => text_answer("{\"notes\": \"what there is\", \"status\": \"ok\"}"),
            };
            let ModelAnswer::Replied { reply, model, .. } = answer else {
                panic!("it answers")
            };
            // Nothing of what was set aside for a call comes back.
            let used = Some(ask.reserved);
            ModelAnswer::Replied { reply, used, model }
        })
        .driven_on();
        let is_planned = sim
            .journal
            .iter()
            .any(|(_, event)| matches!(event, Event::Planned { .. }));
        let worked = sim.asks.iter().filter(|ask| ask.purpose == Purpose::Work).count();
        (is_planned, worked)
    };
    let mut planned = 0;
    for tokens in (4_000..40_000).step_by(500) {
        let (is_planned, worked) = within(tokens);
        assert!(
            !is_planned || worked > 0,
            "{tokens}: a plan of which nothing can be done"
        );
        assert!(is_planned || planned == 0, "{tokens}: with less it was taken apart");
        planned += usize::from(is_planned);
    }
    assert!((10..70).contains(&planned), "{planned} of 72");
}

#[test]
fn deadline_and_node_limit_of_a_task_can_be_raised_e9_10() {
    let budget = json!({"deadline": "10s", "nodes": 2});
    let mut sim = inside(&budget, &json!([echo("a"), echo("b")]));
    sim.derive();
    let began = sim.now;
    let part = sim.run.node_at("part").unwrap().id;
    let more = |seconds, nodes| NewLimits {
        deadline: Some(began.plus(Duration::from_secs(seconds))),
        nodes: Some(nodes),
        ..NewLimits::default()
    };
    let of_run = (sim.run.deadline(), sim.run.limits().nodes_max);
    assert_eq!(
        sim.run.deadline_of(part, began),
        Some(began.plus(Duration::from_secs(10)))
    );
    assert_eq!(sim.run.nodes_within(part), Some((2, 2)));
    let too_few = sim.run.change_limits(Some(part), more(60, 1), "ada", began);
    assert_eq!(
        too_few.unwrap_err().to_string(),
        "the limit on nodes cannot be 1: 2 are already used or set aside"
    );
    // What is planned around it does not count.
    assert!(sim.run.change_limits(Some(part), more(60, 2), "ada", began).is_ok());
    let event = sim.run.change_limits(Some(part), more(60, 5), "ada", began).unwrap();
    sim.record(event);
    assert_eq!(
        sim.run.deadline_of(part, began),
        Some(began.plus(Duration::from_secs(60)))
    );
    assert_eq!(sim.run.nodes_within(part), Some((2, 5)));
    // Earlier versions, which read it as they know it, change nothing of the run.
    assert_eq!((sim.run.deadline(), sim.run.limits().nodes_max), of_run);
    sim.now = began.plus(Duration::from_secs(30));
    sim.derive();
    let late = Sim::resumed(&sim.journal);
    assert_eq!(late.run.wakes_at(), Some(began.plus(Duration::from_secs(60))));
    assert_eq!(sim.driven_on().status("part"), Outcome::Ok);
}

#[test]
fn node_limit_of_a_task_counts_nodes_at_any_depth() {
    let steps = json!([echo("x"), echo("y")]);
    let inner = json!({"id": "inner", "title": "inner", "needs": [], "budget": {"nodes": 7}, "plan": {"steps": steps}});
    let group = json!({"id": "group", "title": "group", "needs": [], "plan": {"steps": [inner, echo("z")]}});
    let mut sim = inside(&json!({"nodes": 20}), &json!([group, echo("a")]));
    sim.derive();
    let within = |path| sim.run.nodes_within(sim.run.node_at(path).unwrap().id);
    assert_eq!(within("part"), Some((6, 20)));
    assert_eq!(within("part/group/inner"), Some((2, 7)));
    assert_eq!(within("part/group"), None);
}

#[test]
fn task_with_a_zero_deadline_is_not_begun_e9_10() {
    let mut sim = Sim::new(
        "steps:
          - {id: call, budget: {deadline: 0}, do: {tool: echo, args: {}}}
          - {id: part, budget: {deadline: 0}, plan: {steps: [{id: a, do: {tool: echo, args: {}}}]}}
          - {id: model, title: paint the fence, budget: {deadline: 0}}",
    );
    sim.run.equip(Arc::new(equipment()));
    let sim = sim.driven_on();
    assert!(sim.calls.is_empty() && sim.asks.is_empty(), "{:?}", sim.calls);
    for path in ["call", "part", "model"] {
        assert_eq!(reason(&sim, path), Some(StopReason::Deadline), "{path}");
        assert_eq!(notes(&sim, path), "not begun, because its budget gives it no time");
    }
    let of_part = sim.run.limit_met(StopReason::Deadline).unwrap();
    assert_eq!(sim.run.node(of_part.node).unwrap().path, "call");
}

/// The messages about a model's plan with `steps` for a goal with `budget`, and the run.
fn plan_messages(budget: &Value, steps: Value) -> (Vec<String>, Sim) {
    let seen = || json!({"notes": "seen", "criteria": [{"id": "c1", "met": true}]});
    let extra = json!({"budget": budget});
    let sim = goal_with("survey the house", &extra, equipment(), move |ask| match ask.purpose {
        Purpose::Decide if task_named(ask) == "survey the house" => plan_answer(steps.clone()),
        Purpose::Decide => execute("finish", seen()),
        Purpose::Work => calls_answer(&[("finish", seen())]),
        _ => text_answer("{\"notes\": \"all of it\"}"),
    })
    .driven_on();
    let told = sim.journal.iter().find_map(|(_, event)| match event {
        Event::Rejected { problems, .. } => Some(problems.clone()),
        _ => None,
    });
    (told.unwrap_or_default(), sim)
}

/// `levels` nested plans.
fn levels(levels: u32) -> Value {
    let mut steps = json!([{"id": "in", "title": "look inside", "criteria": ["seen"]}, echo("beside")]);
    for level in 1..levels {
        let inner = json!({"id": format!("l{level}"), "title": format!("floor {level}"), "plan": {"steps": steps}});
        steps = json!([inner, echo(&format!("e{level}"))]);
    }
    steps
}

#[test]
fn planner_is_told_of_subplans_nested_too_deep_e9_1() {
    for (budget, deepest) in [(json!({}), 3), (json!({"depth": 2}), 2), (json!({"depth": 1}), 1)] {
        let (told, sim) = plan_messages(&budget, levels(deepest));
        assert_eq!((told, sim.status("")), (vec![], Outcome::Ok), "{budget}");
        let (told, sim) = plan_messages(&budget, levels(deepest + 1));
        let [told] = told.as_slice() else { panic!("{told:?}") };
        let words = format!("plans are nested more than {deepest} levels deep here");
        assert!(told.contains(&words), "{told}");
        let too_deep = |node: &NodeView<'_>| {
            let result = node.result.unwrap();
            result.stop_reason == Some(StopReason::BudgetDepth)
        };
        assert!(!sim.run.tree().iter().any(too_deep), "it was not begun: {budget}");
    }
}

#[test]
fn planner_is_told_of_every_limit_that_a_subplan_exceeds_e9_1() {
    // On the second level of three there may be one more.
    let inner = |budget: Value, steps: Value| json!([echo("a"), {"id": "p", "title": "floors", "budget": budget, "plan": {"steps": steps}}]);
    let many: Vec<Value> = (0..13).map(|n| echo(&format!("s{n}"))).collect();
    let (told, _) = plan_messages(&json!({}), inner(json!({}), json!(many)));
    let [told] = told.as_slice() else { panic!("{told:?}") };
    assert!(
        told.contains("a plan inside the plan has 13 steps; at most 12 are allowed"),
        "{told}"
    );
    let (told, _) = plan_messages(&json!({}), inner(json!({"children": 1, "depth": 1}), levels(2)));
    let told = told.join("\n");
    assert!(
        told.contains("has 2 steps; at most 1 are allowed") && told.contains("more than 2 levels deep"),
        "{told}"
    );
    // What a person writes goes as far as its budgets say when it is carried out.
    let plan = json!({"steps": inner(json!({}), json!(many))}).to_string();
    assert_eq!(Sim::new(&plan).driven_on().status(""), Outcome::Ok);
}

#[test]
fn every_limit_that_stopped_something_is_known_for_a_fork_e9_10() {
    let call = |id: &str| format!("{{id: {id}, do: {{tool: echo, args: {{}}}}}}");
    let met = |plan: &str| {
        let sim = Sim::new(plan).driven_on();
        let met = sim.run.limits_met();
        let path = |node: NodeId| sim.run.node(node).unwrap().path.to_owned();
        met.map(|(_, limit)| path(limit.node)).collect::<Vec<_>>()
    };
    let (a, b, c, d) = (call("a"), call("b"), call("c"), call("d"));
    // The part stops first, and then the run.
    let both = format!(
        "budget: {{tool_calls: 2}}\nsteps: [{{id: s, budget: {{tool_calls: 1}}, plan: {{steps: [{a}, {b}]}}}}, {c}, {d}]"
    );
    assert_eq!(met(&both), ["s", ""]);
    // Both are used up at once.
    let at_once = format!(
        "budget: {{tool_calls: 1}}\nsteps: [{{id: s, budget: {{tool_calls: 1}}, plan: {{steps: [{a}, {b}]}}}}]"
    );
    assert_eq!(met(&at_once), ["s", ""]);
    let part = format!(
        "budget: {{tool_calls: 9}}\nsteps: [{{id: s, budget: {{tool_calls: 1}}, plan: {{steps: [{a}, {b}]}}}}]"
    );
    assert_eq!(met(&part), ["s"]);
}
