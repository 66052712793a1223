//! Model tasks: decisions, plans, criteria, budgets, questions, and invalid answers (E9.3 to E9.14).

use folio_memory::policy::ScratchbookPolicy;
use folio_memory::tokens::Estimate;
use insta::assert_snapshot;

use super::*;
use crate::argument::ArgKind;
use crate::event::LeafTests;
use crate::plan::KnownTool;
use crate::result::Finding;
use crate::run::{FixedCosts, Judging};
use crate::spend::Spend;
use crate::talk::{Need, Purpose, Reply, Stop, ToolOffer, Wanted};

pub(super) fn text_answer(text: &str) -> ModelAnswer {
    reply_answer(Reply {
        text: text.to_owned(),
        calls: Vec::new(),
        stop: Stop::Done,
        permissions: Vec::new(),
    })
}

pub(super) fn reply_answer(reply: Reply) -> ModelAnswer {
    ModelAnswer::Replied {
        reply,
        used: Some(Spend {
            tokens_in: 100,
            tokens_out: 20,
            ..Spend::default()
        }),
        model: "scripted".to_owned(),
    }
}

pub(super) fn calls_answer(calls: &[(&str, Value)]) -> ModelAnswer {
    let calls = calls.iter().enumerate().map(|(at, (tool, args))| Wanted {
        id: format!("w{at}"),
        tool: (*tool).to_owned(),
        args: args.clone(),
    });
    reply_answer(Reply {
        text: String::new(),
        calls: calls.collect(),
        stop: Stop::Done,
        permissions: Vec::new(),
    })
}

/// The end of a task whose only criterion, if it has one, is met.
pub(super) fn finish(notes: &str) -> ModelAnswer {
    let met = json!([{"id": "c1", "met": true}]);
    calls_answer(&[(
        "finish",
        json!({"status": "ok", "notes": notes, "output": {"said": notes}, "criteria": met}),
    )])
}

pub(super) fn execute(tool: &str, args: Value) -> ModelAnswer {
    let answer = json!({
        "decision": "execute", "reason": "it is small", "low_complexity": true, "resources_available": true,
        "criteria_testable": true, "action": {"tool": tool, "args": args},
    });
    text_answer(&answer.to_string())
}

pub(super) fn plan_answer(steps: Value) -> ModelAnswer {
    let answer = json!({
        "decision": "plan", "reason": "it has parts", "low_complexity": false, "resources_available": true,
        "criteria_testable": true, "steps": steps,
    });
    text_answer(&answer.to_string())
}

pub(super) fn verdict_answer(finding: &str) -> ModelAnswer {
    text_answer(&json!({"verdicts": [{"criterion": "c1", "finding": finding, "gap": "the proof"}]}).to_string())
}

fn spec() -> ModelSpec {
    ModelSpec {
        tokens: Arc::new(Estimate),
        window: 128_000,
        answer_tokens: 2_000,
        price: Some(Price {
            tokens_in: 1_000_000,
            tokens_cached: 100_000,
            tokens_out: 5_000_000,
            cache_written: None,
        }),
        program: None,
        fallback: None,
        fixed: FixedCosts::default(),
    }
}

pub(in crate::run) fn equipment() -> Equipment {
    let offer = |name: &str, writes| ToolOffer {
        name: name.to_owned(),
        description: format!("{name}s").into(),
        args_schema: Arc::new(json!({"type": "object", "properties": {"text": {"type": "string"}}})),
        writes,
        need: Need::default(),
    };
    Equipment {
        planner: spec(),
        executor: spec(),
        judge: spec(),
        compactor: None,
        executors: BTreeMap::new(),
        human: None,
        tools: vec![
            offer("echo", false),
            offer("write", true),
            offer("deny", false),
            offer("fail", false),
        ],
        offered: OfferedTools::default(),
        known: Known::default(),
        book: ScratchbookPolicy {
            include_tool_list_in_system_prompt: Some(false),
            ..ScratchbookPolicy::default()
        },
        has_person: false,
        plan: PlanMode::Auto,
        judging: Judging::default(),
        timeout: Duration::from_secs(60),
    }
}

/// A run with a goal and no plan.
pub(super) fn goal(goal: &str, extra: &Value, model: impl Fn(&AskAction) -> ModelAnswer + 'static) -> Sim {
    goal_with(goal, extra, equipment(), model)
}

pub(super) fn goal_with(
    goal: &str,
    extra: &Value,
    equipment: Equipment,
    model: impl Fn(&AskAction) -> ModelAnswer + 'static,
) -> Sim {
    let mut plan = json!({"version": 1, "title": goal, "goal": goal, "steps": []});
    let (mut granted, mut inputs, of_plan) = (Value::Null, BTreeMap::new(), extra.as_object().unwrap());
    for (key, value) in of_plan {
        match key.as_str() {
            "run" => granted = value.clone(),
            "given" => inputs.extend(value.as_object().unwrap().clone()),
            _ => plan[key] = value.clone(),
        }
    }
    let mut sim = Sim::empty();
    sim.run.equip(Arc::new(equipment));
    sim.model = Arc::new(model);
    sim.record(Event::RunStarted {
        format: FORMAT,
        goal: goal.to_owned(),
        plan,
        inputs,
        deadline: None,
        run: granted,
    });
    sim
}

/// What a model reads in the `nth` request, without the rules.
pub(super) fn prompt_text(sim: &Sim, nth: usize) -> String {
    let texts: Vec<&str> = sim.asks[nth].messages[1..]
        .iter()
        .map(|message| message.text.as_str())
        .collect();
    texts.join("\n")
}

pub(super) fn purposes(sim: &Sim) -> Vec<Purpose> {
    sim.asks.iter().map(|ask| ask.purpose).collect()
}

pub(super) fn root(sim: &Sim) -> &crate::NodeResult {
    sim.run.result().expect("the run has ended")
}

pub(super) fn task_named(ask: &AskAction) -> String {
    let text = &ask.messages[1].text;
    let at = text.find("# Task\n").unwrap();
    text[at..].lines().nth(1).unwrap().to_owned()
}

#[test]
fn small_goal_needs_one_decision_and_one_work_request_e9_3() {
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "hello {{ not a template }}"})),
        _ => finish("hello"),
    })
    .driven_on();
    assert_eq!(purposes(&sim), [Purpose::Decide, Purpose::Work]);
    assert_eq!(root(&sim).status, Outcome::Ok);
    assert_eq!(sim.calls[0].1, json!({"text": "hello {{ not a template }}"}));
    let decided = sim.journal.iter().find_map(|(_, event)| match event {
        Event::Decided { by, tests, .. } => Some((by.clone(), *tests)),
        _ => None,
    });
    let tests = LeafTests {
        low_complexity: true,
        resources_available: true,
        criteria_testable: true,
    };
    assert_eq!(decided, Some(("model".to_owned(), Some(tests))));
}

#[test]
fn decision_may_contain_the_whole_result_e9_3() {
    let sim = goal("say hello", &json!({}), |_| {
        execute("finish", json!({"notes": "hello"}))
    })
    .driven_on();
    assert_eq!(purposes(&sim), [Purpose::Decide]);
    assert_eq!(root(&sim).notes, "hello");
}

/// A goal in two steps, the second of which has a plan of its own.
pub(super) fn nested(ask: &AskAction) -> ModelAnswer {
    let task = task_named(ask);
    match (ask.purpose, task.as_str()) {
        (Purpose::Decide, "survey the house") => plan_answer(json!([
            {"id": "look", "title": "walk through", "criteria": ["every room was seen"], "satisfies": ["c1"]},
            [
                {"id": "cellar", "title": "check cellar beams", "criteria": ["dry"]},
                {"id": "roof", "title": "check roof tiles", "criteria": ["tight"]}
            ]
        ])),
        (Purpose::Decide, "check roof tiles") => plan_answer(json!([
            {"id": "north", "title": "north side", "criteria": ["seen"], "satisfies": ["c1"]},
            {"id": "south", "title": "south side", "criteria": ["seen"]}
        ])),
        (Purpose::Decide, task) => execute("echo", json!({"text": task})),
        (Purpose::Work, task) => calls_answer(&[(
            "finish",
            json!({"status": "ok", "notes": format!("{task} done"), "criteria": [{"id": "c1", "met": true}]}),
        )]),
        (Purpose::Aggregate, task) => text_answer(
            &json!({"status": "ok", "notes": format!("all of {task}"), "criteria": [{"id": "c1", "met": true}]})
                .to_string(),
        ),
        (Purpose::Judge, _) => verdict_answer("met"),
        (purpose, task) => panic!("{purpose:?} of {task}"),
    }
}

pub(super) fn house() -> Value {
    json!({"criteria": ["the owner knows what to mend"]})
}

#[test]
fn model_tasks_can_plan_subtasks_and_results_reach_the_goal_e9_3() {
    let sim = goal("survey the house", &house(), nested).driven_on();
    let outcomes: Vec<(String, Outcome)> = sim
        .run
        .tree()
        .iter()
        .filter(|node| node.kind != NodeKind::Action)
        .map(|node| (node.path.to_owned(), node.result.unwrap().status))
        .collect();
    let paths: Vec<&str> = outcomes.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "",
            "look",
            "group-2",
            "group-2/cellar",
            "group-2/roof",
            "group-2/roof/north",
            "group-2/roof/south"
        ]
    );
    assert!(
        outcomes.iter().all(|(_, status)| *status == Outcome::Ok),
        "{outcomes:?}"
    );
    assert_eq!(root(&sim).notes, "all of survey the house");
    assert_eq!(root(&sim).verdicts[0].finding, Finding::Met);
    // Only whoever wanted the goal has its criteria judged; the means to it are claimed.
    assert_eq!(purposes(&sim).iter().filter(|p| **p == Purpose::Judge).count(), 1);
}

#[test]
fn later_step_reads_earlier_results_but_not_parallel_branches_e9_2() {
    let sim = goal("survey the house", &house(), nested).driven_on();
    let of = |task: &str| {
        let nth = sim
            .asks
            .iter()
            .position(|ask| ask.purpose == Purpose::Decide && task_named(ask) == task)
            .unwrap();
        prompt_text(&sim, nth)
    };
    let cellar = of("check cellar beams");
    assert!(cellar.contains("look (ok) walk through: walk through done"), "{cellar}");
    assert!(cellar.contains("- survey the house [c1]"), "{cellar}");
    assert!(!cellar.contains("roof tiles"), "{cellar}");
    let south = of("south side");
    assert!(
        south.contains("group-2/roof/north (ok)") && south.contains("look (ok)"),
        "{south}"
    );
    assert!(
        !south.contains("cellar"),
        "what runs beside its own parent is not known to it:\n{south}"
    );
}

#[test]
fn model_prompts_do_not_depend_on_the_order_of_completion_e9_2() {
    // But for what memory holds, which is of its moment, and here always the same.
    let mut orders = std::collections::BTreeSet::new();
    let mut run = |seed| {
        let mut sim = goal("survey the house", &house(), nested);
        sim.seed = seed;
        let sim = sim.driven_on();
        let ended = sim.journal.iter().filter_map(|(_, event)| match event {
            Event::Finished { node, .. } => Some(*node),
            _ => None,
        });
        orders.insert(ended.collect::<Vec<_>>());
        let mut read: Vec<(String, String)> = sim
            .asks
            .iter()
            .map(|a| (format!("{} {:?}", a.node, a.purpose), format!("{:?}", a.messages)))
            .collect();
        read.sort();
        read
    };
    let first = run(1);
    for seed in 2..20 {
        assert_eq!(run(seed), first);
    }
    assert!(orders.len() > 4, "in so many orders it ended: {}", orders.len());
}

#[test]
fn model_run_resumed_after_any_event_repeats_no_request_e9_9() {
    let mut whole = goal("survey the house", &house(), nested);
    whole.concurrency = 1;
    let whole = whole.driven_on();
    for cut in 1..=whole.journal.len() {
        let mut sim = Sim::resumed_with(&whole.journal[..cut], equipment(), Arc::new(nested));
        sim.concurrency = 1;
        let answered: Vec<(NodeId, u32)> = sim
            .journal
            .iter()
            .filter_map(|(_, event)| match event {
                Event::Replied { node, call, .. } => Some((*node, *call)),
                _ => None,
            })
            .collect();
        let sim = sim.driven_on();
        for ask in &sim.asks {
            assert!(
                !answered.contains(&(ask.node, ask.call)),
                "cut at {cut}: {:?} was asked again",
                ask.purpose
            );
        }
        assert_eq!(sim.outcome(), whole.outcome(), "cut at {cut}");
    }
}

#[test]
fn interrupted_model_call_keeps_its_key_and_counts_twice_e9_9() {
    let mut sim = goal("say hello", &json!({}), |_| {
        execute("finish", json!({"notes": "hello"}))
    });
    sim.derive();
    let first = sim.asks[0].clone();
    let mut sim = Sim::resumed_with(
        &sim.journal,
        equipment(),
        Arc::new(|_| execute("finish", json!({"notes": "hello"}))),
    );
    sim.derive();
    let again = &sim.asks[0];
    assert_eq!(
        (&again.idempotency_key, &again.messages),
        (&first.idempotency_key, &first.messages)
    );
    let purse = sim.run.purse().unwrap();
    assert_eq!(
        purse.spent, first.reserved,
        "what was set aside for the first stands until somebody knows better"
    );
    let sim = sim.driven_on();
    assert_eq!(sim.run.purse().unwrap().spent.model_calls, 2);
    assert_eq!(sim.run.purse().unwrap().reserved, Spend::default());
    let root = sim.run.node(NodeId::root(sim.run.id())).unwrap();
    assert_eq!(
        (root.repeated, root.model_calls),
        (1, 1),
        "it was possibly paid for twice"
    );
}

#[test]
fn plan_mode_and_limits_decide_before_a_model_is_asked_e9_3() {
    let by = |extra: Value, mode| {
        let equipment = Equipment {
            plan: mode,
            ..equipment()
        };
        let sim = goal_with("say hello", &extra, equipment, |ask| match ask.purpose {
            Purpose::Work => finish("hello"),
            Purpose::HandBack => text_answer("{\"notes\": \"nothing\"}"),
            other => panic!("{other:?}"),
        })
        .driven_on();
        sim.journal
            .iter()
            .find_map(|(_, event)| match event {
                Event::Decided { by, .. } => Some(by.clone()),
                _ => None,
            })
            .unwrap()
    };
    assert_eq!(by(json!({}), PlanMode::Never), "never");
    assert_eq!(by(json!({"budget": {"depth": 0}}), PlanMode::Auto), "depth");
    assert_eq!(by(json!({"budget": {"nodes": 1}}), PlanMode::Auto), "nodes");
    assert_eq!(by(json!({"budget": {"tokens": 4000}}), PlanMode::Auto), "tokens");
}

#[test]
fn trivial_or_self_repeating_plan_is_done_directly_e9_3() {
    let by = |steps: Value| {
        let sim = goal("paint the garden fence", &json!({}), move |ask| match ask.purpose {
            Purpose::Decide => plan_answer(steps.clone()),
            _ => finish("painted"),
        })
        .driven_on();
        sim.journal
            .iter()
            .find_map(|(_, event)| match event {
                Event::Decided { by, .. } => Some(by.clone()),
                _ => None,
            })
            .unwrap()
    };
    assert_eq!(
        by(json!([{"id": "a", "title": "buy paint", "criteria": ["x"]}])),
        "one_step"
    );
    let again = json!([
        {"id": "a", "title": "buy paint", "criteria": ["x"]},
        {"id": "b", "title": "Paint the garden fence!", "criteria": ["x"]}
    ]);
    assert_eq!(by(again), "says_it_again");
}

#[test]
fn invalid_plan_reports_all_mistakes_before_direct_work_e9_13() {
    let wrong = json!([
        {"id": "a", "title": "buy paint", "needs": ["nobody"], "criteria": ["x"]},
        {"id": "a", "title": "mix colours"},
    ]);
    let sim = goal(
        "paint the garden fence",
        &json!({"criteria": ["it shines"]}),
        move |ask| match ask.purpose {
            Purpose::Decide => plan_answer(wrong.clone()),
            Purpose::Judge => verdict_answer("met"),
            _ => finish("painted"),
        },
    )
    .driven_on();
    assert_eq!(
        purposes(&sim)[..4],
        [Purpose::Decide, Purpose::Decide, Purpose::Decide, Purpose::Work]
    );
    let told = &sim.asks[1].messages.last().unwrap().text;
    assert_snapshot!(told, @r#"
    This answer cannot be used:
    - steps: no step satisfies c1 (it shines)
    - steps[0].needs[0]: there is no step `nobody`
    - steps[1]: `a` has no criteria; say how to tell that it is done
    - steps[1].id: the step at steps[0] already has the id `a`
    The required form, as JSON Schema: {"properties":{"steps":{"description":"With plan: the steps in order; an inner list runs in parallel.","items":{"anyOf":[{"properties":{"atomic":{"type":"boolean"},"budget_share":{"type":"number"},"criteria":{"items":{"type":"string"},"type":"array"},"description":{"type":"string"},"do":{"description":"One tool call that needs no model.","properties":{"args":{"type":"object"},"tool":{"type":"string"}},"required":["tool"],"type":"object"},"id":{"type":"string"},"needs":{"items":{"type":"string"},"type":"array"},"optional":{"type":"boolean"},"satisfies":{"items":{"type":"string"},"type":"array"},"title":{"type":"string"},"tools":{"items":{"type":"string"},"type":"array"}},"required":["id","title"],"type":"object"},{"properties":{"as":{"type":"string"},"for_each":{"type":"string"},"id":{"type":"string"},"needs":{"items":{"type":"string"},"type":"array"},"optional":{"type":"boolean"},"step":{"description":"A step, with its own criteria.","type":"object"},"title":{"type":"string"}},"required":["id","title","for_each","step"],"type":"object"},{"description":"Parallel steps.","type":"array"}]},"type":"array"}}}
    Answer again with every problem fixed.
    "#);
    assert_eq!(root(&sim).status, Outcome::Ok);
    assert_eq!(sim.asks[1].temperature, Some(0.0));
}

#[test]
fn very_long_invalid_decisions_end_in_direct_work_e9_13() {
    let step = |id: &str| json!({"id": id, "title": "mix colours", "needs": ["nobody"]});
    let many: Vec<Value> = (0..1_500).map(|n| step(&format!("s{n}"))).collect();
    let answers = [
        plan_answer(json!([step(&"a".repeat(120_000)), step("b")])),
        plan_answer(json!(many)),
        text_answer(&"[".repeat(120_000)),
        text_answer(&"first I would think ".repeat(6_000)),
    ];
    for answer in answers {
        let sim = goal("paint the garden fence", &json!({}), move |ask| match ask.purpose {
            Purpose::Decide => answer.clone(),
            _ => finish("painted"),
        })
        .driven_on();
        assert_eq!(
            purposes(&sim),
            [Purpose::Decide, Purpose::Decide, Purpose::Decide, Purpose::Work]
        );
        assert_eq!(root(&sim).status, Outcome::Ok);
    }
}

#[test]
fn planner_is_told_of_unacceptable_tool_arguments_e9_1() {
    let wait = KnownTool {
        required: vec!["ms".to_owned()],
        kinds: BTreeMap::from([("ms".to_owned(), ArgKind::Count)]),
        ..KnownTool::default()
    };
    let equipment = Equipment {
        known: Known {
            tools: Some(BTreeMap::from([("echo".to_owned(), wait)])),
            ..Known::default()
        },
        ..equipment()
    };
    let plan = |ms: &str| {
        plan_answer(json!([
            {"id": "dry", "title": "let it dry", "do": {"tool": "echo", "args": {"ms": ms}}},
            {"id": "look", "title": "look at it", "do": {"tool": "echo", "args": {"ms": "{{ 7 }}"}}},
        ]))
    };
    let sim = goal_with("paint the garden fence", &json!({}), equipment, move |ask| {
        match (ask.purpose, ask.call) {
            (Purpose::Decide, 1) => plan("a while"),
            (Purpose::Decide, _) => plan("20"),
            _ => finish("painted"),
        }
    })
    .driven_on();
    let told = prompt_text(&sim, 1);
    assert!(
        told.contains("`ms` is a whole number that is not negative, not \"a while\""),
        "{told}"
    );
    assert!(told.contains("args.ms"), "it says where: {told}");
    let called: Vec<&str> = sim.calls.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(called, ["dry", "look"]);
}

#[test]
fn plan_without_a_step_for_a_criterion_is_a_mistake_e9_6() {
    let sim = goal(
        "paint the garden fence",
        &json!({"criteria": ["it shines"]}),
        |ask| match (ask.purpose, ask.call) {
            (Purpose::Decide, 1) if ask.messages[1].text.contains("# Task\npaint the garden") => plan_answer(json!([
                {"id": "a", "title": "buy paint", "criteria": ["x"]},
                {"id": "b", "title": "put it on", "criteria": ["x"], "satisfies": ["c9"]}
            ])),
            (Purpose::Decide, _) => execute("finish", json!({"notes": "painted"})),
            _ => verdict_answer("met"),
        },
    )
    .driven_on();
    let told = prompt_text(&sim, 1);
    assert!(
        told.contains("no step satisfies c1 (it shines)")
            && told.contains("satisfies names \"c9\", which is not a criterion"),
        "{told}"
    );
}

#[test]
fn naming_and_criteria_mistakes_are_reported_together_across_subplans_e9_1() {
    let sim = goal("paint the garden fence", &json!({}), |ask| {
        match (ask.purpose, ask.call) {
            (Purpose::Decide, 1) if ask.messages[1].text.contains("# Task\npaint the garden") => plan_answer(json!([
                {"id": "a", "title": "buy paint", "needs": ["nobody"], "criteria": ["x"]},
                {"id": "b", "title": "put it on", "plan": [{"id": "c", "title": "stir it"}]},
            ])),
            _ => execute("finish", json!({"notes": "painted"})),
        }
    })
    .driven_on();
    let told = prompt_text(&sim, 1);
    assert!(told.contains("there is no step `nobody`"), "{told}");
    assert!(told.contains("`c` has no criteria"), "{told}");
}

#[test]
fn group_around_one_step_does_not_count_as_a_plan_e9_3() {
    let one = json!({"id": "a", "title": "buy paint", "criteria": ["x"]});
    for steps in [json!([[one]]), json!([{"sequence": [one]}])] {
        let sim = goal("paint the garden fence", &json!({}), move |ask| match ask.purpose {
            Purpose::Decide => plan_answer(steps.clone()),
            _ => finish("painted"),
        })
        .driven_on();
        assert_eq!(purposes(&sim), [Purpose::Decide, Purpose::Work]);
    }
}

#[test]
fn plan_mode_always_requires_a_plan_for_the_goal_only_e9_3() {
    let always = || Equipment {
        plan: PlanMode::Always,
        ..equipment()
    };
    let sim = goal_with("paint the garden fence", &json!({}), always(), |ask| {
        match ask.purpose {
            Purpose::Decide if ask.call == 2 => plan_answer(json!([
                {"id": "a", "title": "buy paint", "criteria": ["x"]},
                {"id": "b", "title": "put it on", "criteria": ["x"]},
            ])),
            Purpose::Decide => execute(
                "finish",
                json!({"notes": "did it", "criteria": [{"id": "c1", "met": true}]}),
            ),
            _ => text_answer(r#"{"status": "ok", "notes": "painted"}"#),
        }
    })
    .driven_on();
    assert!(
        prompt_text(&sim, 0).contains("a plan is required"),
        "{}",
        prompt_text(&sim, 0)
    );
    assert!(
        prompt_text(&sim, 1).contains("a plan is required"),
        "{}",
        prompt_text(&sim, 1)
    );
    assert_eq!([sim.status("a"), sim.status("b"), sim.status("")], [Outcome::Ok; 3]);
    // Whoever will not plan is not asked for ever.
    let sim = goal_with("paint the garden fence", &json!({}), always(), |ask| {
        match ask.purpose {
            Purpose::Decide => execute("echo", json!({})),
            _ => finish("painted"),
        }
    })
    .driven_on();
    assert_eq!((sim.asks.len(), sim.status("")), (4, Outcome::Ok));
}

#[test]
fn unmet_criterion_sends_back_once_then_fails_the_task_e9_8() {
    let sim = goal(
        "paint the garden fence",
        &json!({"criteria": ["it shines"]}),
        |ask| match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "paint"})),
            Purpose::Judge => verdict_answer("unmet"),
            _ => finish("painted"),
        },
    )
    .driven_on();
    assert_eq!(
        purposes(&sim),
        [
            Purpose::Decide,
            Purpose::Work,
            Purpose::Judge,
            Purpose::Work,
            Purpose::Judge
        ]
    );
    assert!(prompt_text(&sim, 3).contains("c1 (it shines) is not met: the proof"));
    assert_eq!(root(&sim).status, Outcome::Failed);
    assert_eq!(root(&sim).stop_reason, Some(StopReason::CriteriaUnmet));
}

#[test]
fn unreadable_or_unreachable_judge_leaves_criteria_unverifiable_e9_6() {
    for answer in [
        text_answer("I think it is fine."),
        ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::Unauthorised, "the key is refused")),
    ] {
        let sim = goal(
            "paint the garden fence",
            &json!({"criteria": ["it shines"]}),
            move |ask| match ask.purpose {
                Purpose::Decide => execute("finish", json!({"notes": "painted"})),
                Purpose::Judge => answer.clone(),
                other => panic!("{other:?}"),
            },
        )
        .driven_on();
        assert_eq!(root(&sim).status, Outcome::Partial);
        assert!(matches!(root(&sim).verdicts[0].finding, Finding::Unverifiable(_)));
    }
}

/// Two steps, of which the second fails until the plan is changed.
pub(super) fn mending(ask: &AskAction) -> ModelAnswer {
    let task = task_named(ask);
    match (ask.purpose, task.as_str()) {
        (Purpose::Decide, "mend the clock") => plan_answer(json!([
            {"id": "open", "title": "open the case", "criteria": ["it is open"]},
            {"id": "oil", "title": "oil its wheels", "criteria": ["it ticks"], "satisfies": ["c1"]}
        ])),
        (Purpose::Decide, "oil its wheels") => execute("finish", json!({"status": "failed", "notes": "a tooth is broken"})),
        (Purpose::Decide, task) => execute(
            "finish",
            json!({"notes": format!("{task}: done"), "criteria": [{"id": "c1", "met": true}]}),
        ),
        (Purpose::Aggregate, _) => text_answer("{\"notes\": \"see the steps\"}"),
        (Purpose::Judge, _) if ask.messages[1].text.contains("replace wheel") => verdict_answer("met"),
        (Purpose::Judge, _) => verdict_answer("unmet"),
        (Purpose::Replan, _) => text_answer(
            &json!({"root_cause": "a tooth is broken", "changes": "the wheel is replaced", "steps": [
                {"id": "replace", "title": "replace wheel", "needs": ["open"], "criteria": ["it fits"], "satisfies": ["c1"]}
            ]})
            .to_string(),
        ),
        (purpose, task) => panic!("{purpose:?} of {task}"),
    }
}

#[test]
fn replan_after_a_failure_keeps_the_steps_that_succeeded_e9_8() {
    let sim = goal("mend the clock", &json!({"criteria": ["it ticks"]}), mending).driven_on();
    assert_eq!(root(&sim).status, Outcome::Ok, "{}", root(&sim).notes);
    let begun = sim.asks.iter().filter(|ask| task_named(ask) == "open the case").count();
    assert_eq!(begun, 1, "a step that went well is not done again");
    let (reason, kept) = sim
        .journal
        .iter()
        .find_map(|(_, event)| match event {
            Event::Planned {
                version: 2,
                reason,
                kept,
                ..
            } => Some((reason.clone(), kept.clone())),
            _ => None,
        })
        .unwrap();
    assert_eq!(reason, "a tooth is broken; the wheel is replaced");
    assert_eq!(kept, [sim.run.node_at("open").unwrap().id]);
    let steps: Vec<String> = sim
        .run
        .steps(NodeId::root(sim.run.id()))
        .iter()
        .map(|s| s.path.to_owned())
        .collect();
    assert_eq!(steps, ["open", "replace"]);
    let asked = sim.asks.iter().position(|ask| ask.purpose == Purpose::Replan).unwrap();
    let told = prompt_text(&sim, asked);
    assert!(
        told.contains("oil (failed, criteria_unmet)") && told.contains("a tooth is broken"),
        "{told}"
    );
}

#[test]
fn repeated_plan_is_a_loop_and_replans_without_progress_stall_e9_8() {
    let again = |steps: fn(u32) -> Value| {
        let sim = goal(
            "mend the clock",
            &json!({"criteria": ["it ticks"]}),
            move |ask| match ask.purpose {
                Purpose::Replan => {
                    text_answer(&json!({"root_cause": "x", "changes": "y", "steps": steps(ask.call)}).to_string())
                }
                Purpose::Judge => verdict_answer("unmet"),
                Purpose::Decide if task_named(ask) != "mend the clock" => {
                    execute("finish", json!({"status": "failed", "notes": "no"}))
                }
                _ => mending(ask),
            },
        )
        .driven_on();
        let plans = sim
            .journal
            .iter()
            .filter(|(_, event)| matches!(event, Event::Planned { .. }))
            .count();
        (root(&sim).status, root(&sim).stop_reason, plans)
    };
    let same = again(|_| {
        json!([
            {"id": "open", "title": "open the case", "criteria": ["it is open"]},
            {"id": "oil", "title": "oil its wheels", "criteria": ["it ticks"], "satisfies": ["c1"]}
        ])
    });
    assert_eq!(same, (Outcome::Failed, Some(StopReason::Loop), 1));
    let other = again(|call| {
        json!([
            {"id": format!("a{call}"), "title": format!("hit it {call} times"), "criteria": ["it ticks"], "satisfies": ["c1"]},
            {"id": format!("b{call}"), "title": format!("wait {call} hours"), "criteria": ["it ticks"]}
        ])
    });
    assert_eq!(other, (Outcome::Failed, Some(StopReason::Stalled), 2));
}
