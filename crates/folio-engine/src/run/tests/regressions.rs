//! Bugs of other engines: one case each, in addition to those in the tests of a rule (`docs/regressions.md` lists
//! all).

use super::models::*;
use super::*;
use crate::result::Output;
use crate::spend::Dimension;
use crate::talk::Purpose;

/// What all calls for `purpose` read.
fn prompts_for(sim: &Sim, purpose: Purpose) -> Vec<String> {
    (0..sim.asks.len())
        .filter(|nth| sim.asks[*nth].purpose == purpose)
        .map(|nth| prompt_text(sim, nth))
        .collect()
}

/// A task with two parallel steps after another one, of which `second` does the second.
fn pair(ask: &AskAction, second: impl Fn() -> ModelAnswer) -> ModelAnswer {
    match (ask.purpose, task_named(ask).as_str()) {
        (Purpose::Decide, "mend the clock") => plan_answer(json!([
            {"id": "open", "title": "open the case", "criteria": ["it is open"]},
            [
                {"id": "left", "title": "mend the left hand", "criteria": ["it turns"], "satisfies": ["c1"]},
                {"id": "right", "title": "mend the right hand", "criteria": ["it turns"]}
            ]
        ])),
        (_, "mend the right hand") => second(),
        (Purpose::Decide, _) => execute(
            "finish",
            json!({"notes": "it turns", "criteria": [{"id": "c1", "met": true}]}),
        ),
        (Purpose::HandBack | Purpose::Aggregate, _) => text_answer("{\"notes\": \"see the steps\"}"),
        (Purpose::Judge, _) => verdict_answer("unmet"),
        (Purpose::Replan, _) => text_answer("{\"root_cause\": \"rust\", \"changes\": \"none\", \"give_up\": true}"),
        (purpose, task) => panic!("{purpose:?} of {task}"),
    }
}

#[test]
fn aggregation_is_told_which_steps_failed_and_why() {
    let broken = || execute("finish", json!({"status": "failed", "notes": "a tooth is broken"}));
    let sim = goal("mend the clock", &json!({"criteria": ["it ticks"]}), move |ask| {
        pair(ask, broken)
    })
    .driven_on();
    let told = prompts_for(&sim, Purpose::Aggregate);
    assert_eq!(told.len(), 1, "results come together once");
    assert!(
        told[0].contains("right (failed") && told[0].contains("a tooth is broken"),
        "{}",
        told[0]
    );
    assert_ne!(root(&sim).status, Outcome::Ok);
}

#[test]
fn answer_text_mentioning_an_error_is_not_a_failure_e9_4() {
    let sim =
        Sim::new("- {id: look, do: {tool: echo, args: {text: 'error: failed to fail, exception none'}}}").driven_on();
    assert_eq!(sim.status("look"), Outcome::Ok);
    let sim = goal("look at the log", &json!({}), |_| {
        execute(
            "finish",
            json!({"notes": "Error: the log says \"failed\" twice", "output": {"error": "E42"}}),
        )
    })
    .driven_on();
    assert_eq!(root(&sim).status, Outcome::Ok);
}

#[test]
fn need_for_an_unknown_step_is_reported_to_the_planner() {
    let sim = goal("mend the clock", &json!({}), |ask| match ask.call {
        1 => plan_answer(json!([
            {"id": "oil", "title": "oil its wheels", "criteria": ["it ticks"], "needs": ["nowhere"]},
            {"id": "look", "title": "look at it", "criteria": ["it was seen"]}
        ])),
        _ => execute("finish", json!({"notes": "done"})),
    })
    .driven_on();
    let told = format!("{:?}", sim.asks[1].messages);
    assert!(told.contains("nowhere"), "{told}");
    assert!(sim.run.node_at("oil").is_none(), "no step of it was begun");
}

#[test]
fn step_may_only_satisfy_criteria_of_its_own_task() {
    let sim = goal("survey the house", &house(), |ask| {
        match (ask.purpose, task_named(ask).as_str(), ask.call) {
            // The goal has c1 only, and so has each task below: c2 is of nobody.
            (Purpose::Decide, "check roof tiles", 1) => plan_answer(json!([
                {"id": "north", "title": "north side", "criteria": ["seen"], "satisfies": ["c2"]},
                {"id": "south", "title": "south side", "criteria": ["seen"], "satisfies": ["c1"]}
            ])),
            _ => nested(ask),
        }
    })
    .driven_on();
    let again = sim
        .asks
        .iter()
        .find(|ask| task_named(ask) == "check roof tiles" && ask.call == 2)
        .expect("it is asked again");
    let told = again.messages.last().unwrap();
    assert_eq!(told.speaker, crate::talk::Speaker::User, "{told:?}");
    assert!(told.text.contains("c2"), "it is told which: {}", told.text);
    for (_, event) in &sim.journal {
        let Event::Planned { node, steps, .. } = event else {
            continue;
        };
        let known = match sim.run.node(*node).expect("a node").path {
            "" | "group-2/roof" => ["c1"],
            other => panic!("{other} has a plan"),
        };
        for name in serde_json::to_value(steps)
            .expect("JSON")
            .to_string()
            .split("\"satisfies\":[")
            .skip(1)
        {
            let named = name.split(']').next().unwrap_or_default().replace('"', "");
            assert!(named.is_empty() || known.contains(&&*named), "{named}");
        }
    }
}

#[test]
fn task_at_its_turn_cap_is_reported_as_partial() {
    let sim = goal("mend the clock", &json!({"criteria": ["it ticks"]}), |ask| {
        match ask.purpose {
            Purpose::Decide if task_named(ask) == "mend the right hand" => execute("write", json!({"text": "0"})),
            Purpose::Work => calls_answer(&[("write", json!({"text": ask.call.to_string()}))]),
            _ => pair(ask, || text_answer("{\"notes\": \"still at it\"}")),
        }
    })
    .driven_on();
    let child = sim
        .run
        .node_at("group-2/right")
        .expect("a node")
        .result
        .expect("a result");
    assert_eq!(
        (child.status, child.stop_reason),
        (Outcome::Partial, Some(StopReason::TurnCap))
    );
    let told = prompts_for(&sim, Purpose::Aggregate).concat();
    assert!(told.contains("right (partial, turn_cap)"), "{told}");
    assert_ne!(root(&sim).status, Outcome::Ok, "what did not end did not go well");
}

#[test]
fn task_may_make_more_model_calls_than_usual_if_its_own_budget_says_so_e9_10() {
    let calls = |budget: Value| {
        let extra = json!({"budget": budget});
        let sim = goal("count", &extra, |ask| match ask.purpose {
            Purpose::Decide => execute("write", json!({"text": "0"})),
            Purpose::Work if ask.call == 60 => finish("counted"),
            Purpose::Work => calls_answer(&[("write", json!({"text": ask.call.to_string()}))]),
            _ => text_answer("{\"notes\": \"some of it\"}"),
        })
        .driven_on();
        (root(&sim).status, root(&sim).stop_reason, sim.asks.len())
    };
    let capped = (Outcome::Partial, Some(StopReason::TurnCap), 41);
    assert_eq!(calls(json!({})), capped, "40 calls, and one to hand back");
    assert_eq!(calls(json!({"model_calls": 100})), (Outcome::Ok, None, 60));
}

#[test]
fn looping_task_is_partial_and_reported_to_its_parent() {
    let sim = goal("mend the clock", &json!({"criteria": ["it ticks"]}), |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "mend the right hand") => execute("echo", json!({"text": "look"})),
            // The same look again and again, which it is not given again.
            (Purpose::Work, _) => calls_answer(&[("echo", json!({"text": "look"}))]),
            _ => pair(ask, || text_answer("{\"status\": \"ok\", \"notes\": \"all is well\"}")),
        }
    })
    .driven_on();
    let child = sim
        .run
        .node_at("group-2/right")
        .expect("a node")
        .result
        .expect("a result");
    assert_eq!(
        (child.status, child.stop_reason),
        (Outcome::Partial, Some(StopReason::Loop))
    );
    assert_eq!(sim.calls.iter().filter(|(path, _)| path.contains("right")).count(), 1);
    let told = prompts_for(&sim, Purpose::Aggregate).concat();
    assert!(told.contains("right (partial, loop)"), "{told}");
    assert_ne!(root(&sim).status, Outcome::Ok);
}

#[test]
fn concurrent_requests_cannot_overspend_the_last_model_calls_e9_10() {
    for seed in 0..20 {
        // Of seven, one is kept for the end; the plan and its first step cost one each, and each hand wants three.
        let mut sim = goal(
            "mend the clock",
            &json!({"criteria": ["it ticks"], "budget": {"model_calls": 7}}),
            |ask| match ask.purpose {
                Purpose::Decide if task_named(ask).contains("hand") => {
                    execute("write", json!({"text": task_named(ask)}))
                }
                Purpose::Work if ask.call < 3 => {
                    calls_answer(&[("write", json!({"text": format!("{} {}", task_named(ask), ask.call)}))])
                }
                Purpose::Work => finish("it turns"),
                _ => pair(ask, || text_answer("{\"notes\": \"not done\"}")),
            },
        );
        sim.seed = seed;
        let sim = sim.driven_on();
        let mut run = Run::new(sim.run.id(), Arc::new(Templates::new()));
        for (at, event) in &sim.journal {
            run.apply(*at, event).expect("it was applied before");
            let purse = run.purse().expect("a purse");
            let free = purse.free(Dimension::ModelCalls).expect("a limit");
            assert_eq!(purse.used(Dimension::ModelCalls) + free, 7, "{seed}, {}", event.name());
        }
        let over = |path: &str| {
            let result = sim.run.node_at(path).expect("a node").result.expect("a result");
            let is_over = result.stop_reason == Some(StopReason::BudgetModelCalls);
            assert!(!is_over || result.status == Outcome::Partial, "{seed}: {result:?}");
            result.stop_reason
        };
        let stopped = [over("group-2/left"), over("group-2/right")];
        assert!(
            stopped.contains(&Some(StopReason::BudgetModelCalls)),
            "{seed}: {stopped:?}"
        );
        assert_eq!(
            sim.run.purse().expect("a purse").spent.model_calls,
            sim.asks.len() as u64
        );
    }
}

#[test]
fn spending_before_a_crash_is_kept_after_resume_e9_10() {
    let whole = goal("survey the house", &house(), nested).driven_on();
    let mut run = Run::new(whole.run.id(), Arc::new(Templates::new()));
    for (cut, (at, event)) in whole.journal.iter().enumerate() {
        run.apply(*at, event).expect("it was applied before");
        let resumed = Sim::resumed_with(&whole.journal[..=cut], equipment(), Arc::new(nested));
        let (before, after) = (
            run.purse().expect("a purse").spent,
            resumed.run.purse().expect("a purse").spent,
        );
        // A call that was under way counts as well: nobody knows that it did not happen.
        assert!(
            after.tokens() >= before.tokens() && after.model_calls >= before.model_calls,
            "{cut}"
        );
        let end = resumed.driven_on();
        let spent = end.run.purse().expect("a purse").spent;
        assert!(
            spent.model_calls >= whole.run.purse().expect("a purse").spent.model_calls,
            "{cut}"
        );
    }
}

#[test]
fn replan_count_survives_a_crash() {
    let model = |ask: &AskAction| {
        match ask.purpose {
        Purpose::Replan => text_answer(
            &json!({"root_cause": "x", "changes": "y", "steps": [
                {"id": format!("a{}", ask.call), "title": format!("hit it {} times", ask.call), "criteria": ["it ticks"], "satisfies": ["c1"]},
                {"id": format!("b{}", ask.call), "title": format!("wait {} hours", ask.call), "criteria": ["it ticks"]}
            ]})
            .to_string(),
        ),
        _ => pair(ask, || execute("finish", json!({"status": "failed", "notes": "no"}))),
    }
    };
    let plans = |sim: &Sim| {
        let is_plan = |(_, event): &&(Timestamp, Event)| matches!(event, Event::Planned { .. });
        sim.journal.iter().filter(is_plan).count()
    };
    let whole = goal("mend the clock", &json!({"criteria": ["it ticks"]}), model).driven_on();
    assert!(plans(&whole) > 1, "it is planned again");
    for cut in 1..=whole.journal.len() {
        let sim = Sim::resumed_with(&whole.journal[..cut], equipment(), Arc::new(model)).driven_on();
        assert_eq!(plans(&sim), plans(&whole), "{cut}");
        assert_eq!(root(&sim).stop_reason, root(&whole).stop_reason, "{cut}");
    }
}

#[test]
fn two_simultaneous_failures_cause_one_replan() {
    for seed in 0..20 {
        let mut sim = goal("mend the clock", &json!({"criteria": ["it ticks"]}), |ask| {
            match ask.purpose {
                Purpose::Decide if task_named(ask).contains("hand") => {
                    execute("finish", json!({"status": "failed", "notes": "rust"}))
                }
                _ => pair(ask, || text_answer("{\"notes\": \"no\"}")),
            }
        });
        sim.seed = seed;
        let sim = sim.driven_on();
        assert_eq!(prompts_for(&sim, Purpose::Replan).len(), 1, "{seed}");
        assert!(sim.run.result().is_some());
    }
}

#[test]
fn each_aggregation_is_answered_once_despite_crashes() {
    let whole = goal("survey the house", &house(), nested).driven_on();
    let together = |sim: &Sim| {
        let (mut asked, mut of) = (BTreeMap::new(), BTreeMap::<NodeId, usize>::new());
        for (_, event) in &sim.journal {
            match event {
                Event::Asked {
                    node, call, purpose, ..
                } => drop(asked.insert((*node, *call), *purpose)),
                Event::Replied { node, call, .. } if asked[&(*node, *call)] == Purpose::Aggregate => {
                    *of.entry(*node).or_default() += 1;
                }
                _ => {}
            }
        }
        of
    };
    let expected = together(&whole);
    assert_eq!(expected.len(), 2);
    assert!(expected.values().all(|times| *times == 1));
    for cut in 1..=whole.journal.len() {
        let sim = Sim::resumed_with(&whole.journal[..cut], equipment(), Arc::new(nested)).driven_on();
        assert_eq!(together(&sim), expected, "{cut}");
    }
}

#[test]
fn nested_groups_deeper_than_the_concurrency_limit_finish() {
    let mut steps = json!({"id": "leaf", "do": {"tool": "echo", "args": {}}});
    for depth in 0..6 {
        steps = json!({"id": format!("d{depth}"), "plan": {"steps": [
            {"parallel": [steps, {"id": format!("beside{depth}"), "do": {"tool": "echo", "args": {}}}]}
        ]}});
    }
    let plan = json!({"version": 1, "title": "deep", "goal": "deep", "steps": [steps]}).to_string();
    for concurrency in 1..=3 {
        let mut sim = Sim::new(&plan);
        sim.concurrency = concurrency;
        let sim = sim.driven_on();
        assert_eq!((sim.status(""), sim.calls.len()), (Outcome::Ok, 7), "{concurrency}");
    }
}

#[test]
fn too_long_request_is_not_resent_forever() {
    let sim = goal("say hello", &json!({}), |_| {
        ModelAnswer::Failed(ModelFailure::new(
            ModelFailureKind::TooLong,
            "413: the request has 300,000 tokens",
        ))
    })
    .driven_on();
    assert!(sim.asks.len() <= 2, "{}", sim.asks.len());
    assert_eq!(root(&sim).stop_reason, Some(StopReason::WindowFull));
}

#[test]
fn queued_calls_end_when_the_run_is_cancelled() {
    let steps: Vec<Value> = (0..12)
        .map(|n| json!({"id": format!("s{n}"), "do": {"tool": "echo", "args": {}}}))
        .collect();
    let plan = json!({"version": 1, "title": "many", "goal": "many", "steps": [{"parallel": steps}]}).to_string();
    let mut sim = Sim::new(&plan);
    sim.concurrency = 2;
    sim.derive();
    sim.record(Event::CancelRequested {
        node: None,
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(sim.calls.len(), 2, "nothing new begins");
    let ended = sim.run.tree().iter().filter(|node| node.result.is_some()).count();
    assert_eq!(ended, sim.run.tree().len(), "and nothing is left behind");
}

#[test]
fn call_of_a_nested_task_waits_for_approval() {
    let model = |ask: &AskAction| match (ask.purpose, task_named(ask).as_str()) {
        (Purpose::Decide, "north side") => execute("write", json!({"text": "x"})),
        _ => nested(ask),
    };
    let mut sim = goal("survey the house", &house(), model);
    sim.run
        .set_approval_policy(Some(Arc::new(|tool: &str, _: &Value| (tool == "write").into())));
    sim.derive();
    while sim.end_one() {
        sim.derive();
    }
    let waiting = sim.run.pending_approvals();
    assert_eq!(waiting.len(), 1, "a call three levels down waits for a yes");
    assert!(
        sim.calls
            .iter()
            .all(|(path, _)| !path.starts_with("group-2/roof/north")),
        "{:?}",
        sim.calls
    );
}

#[test]
fn too_deeply_nested_model_values_are_rejected_and_not_recorded_e9_13() {
    let deep = || (0..110).fold(json!(1), |inner, _| json!([inner]));
    let asked = std::sync::atomic::AtomicU32::new(0);
    let model = move |ask: &AskAction| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"n": 1})),
        _ => match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => calls_answer(&[("echo", json!({"n": deep()}))]),
            1 => calls_answer(&[("finish", json!({"status": "ok", "notes": "deep", "output": deep()}))]),
            _ => finish("counted"),
        },
    };
    let sim = goal_with("count", &json!({}), equipment(), model).driven_on();
    assert_eq!((root(&sim).status, root(&sim).notes.as_str()), (Outcome::Ok, "counted"));
    // A store reads back a hundred, with what stands around an event.
    assert!(sim.journal.iter().all(|(_, event)| levels(&json!(event)) < 80));
}

/// `inner` nested in so many lists, as JSON.
fn in_lists(levels: usize, inner: &str) -> String {
    [&"[".repeat(levels), inner, &"]".repeat(levels)].concat()
}

#[test]
fn too_deeply_nested_template_values_are_refused_e9_5() {
    let deep = in_lists(50, "1");
    let around = in_lists(40, "'{{ results.x.output.value }}'");
    let x = format!("{{id: x, do: {{tool: echo, args: {{value: {deep}}}}}}}");
    let sim = Sim::new(&format!("output: {around}\nsteps: [{x}]")).driven_on();
    let result = sim.run.result().unwrap();
    assert_eq!(
        (result.status, &result.output),
        (Outcome::Partial, &Output::of(Value::Null))
    );
    assert!(
        result.notes.contains("nested more than 80 levels deep"),
        "{}",
        result.notes
    );
    let each = format!("{{id: each, for_each: [{around}], do: {{tool: echo, args: {{}}}}}}");
    let sim = Sim::new(&format!("steps: [{x}, {each}]")).driven_on();
    let result = sim.run.node_at("each").unwrap().result.unwrap();
    assert_eq!(result.stop_reason, Some(StopReason::InvalidInput));
    assert!(
        result.notes.contains("nested more than 80 levels deep"),
        "{}",
        result.notes
    );
}

fn levels(value: &Value) -> usize {
    let inside = |values: &mut dyn Iterator<Item = &Value>| 1 + values.map(levels).max().unwrap_or(0);
    match value {
        Value::Array(items) => inside(&mut items.iter()),
        Value::Object(map) => inside(&mut map.values()),
        _ => 0,
    }
}

#[test]
fn sliced_result_is_read_and_counts_as_a_dependency_e9_2() {
    let sim = Sim::new(
        "steps:
  - {id: l, do: {tool: echo, args: {value: [1, 2, 3]}}}
  - {id: c, do: {tool: echo, args: {n: '{{ results.l.output.value[:2] }}'}}}
  - {id: each, for_each: '{{ results.l.output.value[1:] }}', step: {id: look, do: {tool: echo, args: {n: '{{ item }}'}}}}
output: '{{ results.l.output.value[2:] }}'
report: '{% for n in results.l.output.value[:2] %}{{ n }},{% endfor %}'",
    )
    .driven_on();
    assert_eq!(sim.args("c"), json!({"n": [1, 2]}));
    assert_eq!(sim.args("each/look[1]"), json!({"n": 3}));
    assert_eq!(json!(sim.run.result().unwrap().output), json!({"inline": [3]}));
    assert_eq!(sim.run.report().unwrap().1, "1,2,");
    let sim = Sim::new(
        "steps:
  - {id: a, do: {tool: fail, args: {}}}
  - {id: b, do: {tool: echo, args: {x: '{{ results.a.output[:2] }}'}}}",
    )
    .driven_on();
    assert_eq!(
        (sim.severity("a"), sim.status("b")),
        (Some(Severity::Hard), Outcome::Skipped)
    );
}
