//! What is handed back when a limit is reached, and what happens if the call for it fails or the limit is raised
//! meanwhile (E9.10).

use super::models::{
    calls_answer, equipment, execute, finish, goal, goal_with, plan_answer, purposes, reply_answer, root, task_named,
    text_answer, verdict_answer,
};
use super::*;
use crate::event::NewLimits;
use crate::result::Output;
use crate::run::{LimitError, ModelFailure, ModelFailureKind};
use crate::spend::Allowance;
use crate::talk::{Purpose, Reply, Stop};

fn refused() -> ModelAnswer {
    reply_answer(Reply {
        text: "I will not.".to_owned(),
        calls: Vec::new(),
        stop: Stop::Refusal,
        permissions: Vec::new(),
    })
}

fn failed() -> ModelAnswer {
    ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::Invalid, "not like this"))
}

/// Counts until it is asked to hand back its result, and then answers `last`.
fn counting(last: fn() -> ModelAnswer) -> impl Fn(&AskAction) -> ModelAnswer + Clone + 'static {
    move |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"n": 1})),
        Purpose::Work if ask.messages.len() < 6 => calls_answer(&[("echo", json!({"n": ask.call}))]),
        Purpose::Work => finish("counted"),
        Purpose::HandBack => last(),
        other => panic!("{other:?}"),
    }
}

/// A run whose model is being asked to hand back what it has.
fn at_the_limit(model: impl Fn(&AskAction) -> ModelAnswer + 'static) -> Sim {
    at_the_limit_with(&json!({}), model)
}

/// The same, with more of its plan.
fn at_the_limit_with(plan: &Value, model: impl Fn(&AskAction) -> ModelAnswer + 'static) -> Sim {
    let mut plan = plan.clone();
    plan["budget"] = json!({"model_calls": 3});
    let mut sim = goal_with("count", &plan, equipment(), model);
    sim.concurrency = 1;
    loop {
        sim.derive();
        if purposes(&sim).last() == Some(&Purpose::HandBack) {
            return sim;
        }
        assert!(sim.end_one());
    }
}

fn raise(sim: &mut Sim) {
    let more = NewLimits::from(Allowance {
        model_calls: Some(30),
        ..Allowance::default()
    });
    let event = sim.run.change_limits(None, more, "ada", sim.now).unwrap();
    sim.record(event);
}

#[test]
fn failed_hand_back_keeps_stop_reason_and_partial_result_e9_10() {
    for last in [refused, failed] {
        let sim = at_the_limit(counting(last)).driven_on();
        let result = root(&sim);
        assert_eq!(
            (result.status, result.stop_reason),
            (Outcome::Partial, Some(StopReason::BudgetModelCalls)),
            "{}",
            result.notes
        );
    }
}

#[test]
fn hand_back_failing_after_the_limit_was_raised_is_ignored_e9_10() {
    for last in [refused, failed] {
        let mut sim = at_the_limit(counting(last));
        raise(&mut sim);
        let sim = sim.driven_on();
        assert_eq!((root(&sim).status, root(&sim).notes.as_str()), (Outcome::Ok, "counted"));
    }
}

#[test]
fn raised_limit_continues_a_task_after_its_failed_hand_back_e9_10() {
    for last in [refused, failed] {
        let mut sim = at_the_limit(counting(last));
        assert!(sim.end_one());
        raise(&mut sim);
        let sim = sim.driven_on();
        assert_eq!((root(&sim).status, root(&sim).notes.as_str()), (Outcome::Ok, "counted"));
    }
}

#[test]
fn raised_limit_of_the_run_continues_the_tasks_inside_it_e9_10() {
    let plan = json!({"steps": [{"id": "a", "title": "count"}]});
    let mut sim = at_the_limit_with(&plan, counting(failed));
    raise(&mut sim);
    assert_eq!(sim.run.limits().allowance.model_calls, Some(30));
    let sim = sim.driven_on();
    let result = sim.run.node_at("a").unwrap().result.unwrap();
    assert_eq!((result.status, result.notes.as_str()), (Outcome::Ok, "counted"));
}

#[test]
fn raised_limit_of_one_task_leaves_that_of_the_run_e9_10() {
    let plan = json!({"steps": [{"id": "a", "title": "count", "budget": {"model_calls": 2}}]});
    let mut sim = at_the_limit_with(&plan, counting(failed));
    let part = sim.run.node_at("a").unwrap().id;
    let more = NewLimits::from(Allowance {
        model_calls: Some(30),
        ..Allowance::default()
    });
    let event = sim.run.change_limits(Some(part), more, "ada", sim.now).unwrap();
    sim.record(event);
    assert_eq!(sim.run.limits().allowance.model_calls, Some(3));
}

#[test]
fn limit_may_become_exactly_what_is_used_e9_10() {
    let steps = "{id: a, do: {tool: echo, args: {n: 1}}}, {id: b, do: {tool: echo, args: {n: 2}}}";
    let mut sim = Sim::new(&format!("budget: {{tool_calls: 9}}\nsteps: [{steps}]"));
    sim.derive();
    assert!(sim.end_one());
    let changed = |calls| {
        let limits = NewLimits::from(Allowance {
            tool_calls: Some(calls),
            ..Allowance::default()
        });
        sim.run.change_limits(None, limits, "ada", sim.now)
    };
    assert!(matches!(changed(0), Err(LimitError::Used { wanted: 0, used: 1, .. })));
    // Of the whole run, and so of no part.
    assert!(matches!(changed(1), Ok(Event::LimitsChanged { node: None, .. })));
}

#[test]
fn work_request_after_resume_gets_a_new_idempotency_key_e9_9() {
    let model = counting(|| text_answer("{\"notes\": \"some\"}"));
    let mut sim = at_the_limit(model.clone());
    let handed_back = sim.asks.last().unwrap().clone();
    raise(&mut sim);
    let mut resumed = Sim::resumed_with(&sim.journal, equipment(), Arc::new(model));
    resumed.derive();
    let next = resumed.asks.first().unwrap();
    assert_eq!(
        (next.purpose, next.call),
        (Purpose::Work, handed_back.call + 1),
        "another request has another key"
    );
}

#[test]
fn decide_and_replan_requests_carry_budget_warnings_e9_10() {
    let sim = goal_with(
        "count",
        &json!({"budget": {"model_calls": 8}}),
        equipment(),
        |ask| match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "count") => plan_answer(json!([
                {"id": "one", "title": "the first of them", "criteria": ["x"]},
                {"id": "two", "title": "the second of them", "criteria": ["x"]},
                {"id": "three", "title": "the third of them", "criteria": ["x"]},
                {"id": "four", "title": "the fourth of them", "criteria": ["x"]},
            ])),
            (Purpose::Decide, _) => execute("finish", json!({"status": "failed", "notes": "lost"})),
            (Purpose::Replan, _) => text_answer("{\"root_cause\": \"x\", \"changes\": \"y\", \"give_up\": true}"),
            _ => text_answer("{\"status\": \"partial\", \"notes\": \"some\"}"),
        },
    )
    .driven_on();
    let warned = |ask: &AskAction| {
        let last = &ask.messages.last().unwrap().text;
        let per_cent = last.strip_prefix("More than ").and_then(|rest| rest.split(' ').next());
        (ask.purpose, per_cent.map(str::to_owned))
    };
    let told: Vec<_> = sim.asks.iter().map(warned).collect();
    let at = |per_cent: &str| Some(per_cent.to_owned());
    assert_eq!(
        told,
        [
            (Purpose::Decide, None),
            (Purpose::Decide, None),
            (Purpose::Decide, None),
            (Purpose::Decide, None),
            (Purpose::Decide, at("50")),
            (Purpose::Aggregate, None),
            (Purpose::Replan, at("80")),
        ]
    );
}

/// A model that keeps making tool calls, each of which uses what `used` says.
pub(super) fn endless_calls(budget: &Value, used: impl Fn(&AskAction) -> Spend + 'static) -> Sim {
    goal("say hello", &json!({"budget": budget}), move |ask| {
        let answer = match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "x"})),
            Purpose::Work => calls_answer(&[("echo", json!({"text": format!("{}", ask.call)}))]),
            _ => text_answer("{\"notes\": \"what there is\", \"status\": \"ok\"}"),
        };
        let ModelAnswer::Replied { reply, model, .. } = answer else {
            panic!("it answers")
        };
        let used = Some(used(ask));
        ModelAnswer::Replied { reply, used, model }
    })
}

/// The steps, in the order of the calls, at which a model was warned that keeps working with calls that each use this
/// much.
fn warned_at(budget: &Value, used: Spend) -> Vec<u64> {
    let sim = endless_calls(budget, move |_| used).driven_on();
    let work = sim.asks.iter().filter(|ask| ask.purpose == Purpose::Work);
    let steps = work.filter_map(|ask| {
        let said = ask
            .messages
            .iter()
            .find_map(|message| message.text.split_once("More than "));
        said?.1.split_once(" per cent of the budget")?.0.parse().ok()
    });
    let mut steps: Vec<u64> = steps.collect();
    steps.dedup();
    steps
}

#[test]
fn model_is_warned_at_fixed_percentages_of_each_budget_e9_10() {
    let used = Spend {
        tokens_in: 10_000,
        tokens_out: 2_000,
        micro_usd: 20_000,
        model_calls: 1,
        ..Spend::default()
    };
    for budget in [
        json!({"tokens": 400_000}),
        json!({"tokens_in": 330_000}),
        json!({"usd": 0.7}),
        json!({"model_calls": 35}),
        json!({"tool_calls": 30}),
    ] {
        assert_eq!(warned_at(&budget, used), [50, 80, 95], "{budget}");
    }
}

#[test]
fn model_call_timeout_keeps_a_tenth_of_the_remaining_time_e9_10() {
    let timeouts = |seconds: u64| {
        let mut sim = goal("say hello", &json!({}), |ask| match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "x"})),
            _ => finish("hello"),
        });
        sim.run.time.set(sim.now.plus(Duration::from_secs(seconds)));
        let asked = sim.driven_on().asks;
        asked.iter().map(|ask| ask.timeout.as_secs()).collect::<Vec<_>>()
    };
    assert_eq!(timeouts(1_000), [60, 60], "as long as any call may take");
    assert_eq!(timeouts(20), [18, 18], "a tenth is kept");
}

#[test]
fn last_call_before_a_short_deadline_leaves_half_of_the_kept_time_e9_10() {
    for seconds in [1, 5, 10, 100] {
        let mut sim = goal("say hello", &json!({}), |ask| match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "x"})),
            _ => finish("hello"),
        });
        let whole = Duration::from_secs(seconds);
        let deadline = sim.now.plus(whole);
        sim.run.time.set(deadline);
        sim.derive();
        sim.end_one();
        sim.derive();
        sim.end_one();
        // The tenth that is kept begins in a moment.
        sim.now = sim.now.plus(whole * 9 / 10).minus(Duration::from_millis(1));
        sim.derive();
        let ask = sim.asking.first().expect("the work goes on");
        let left = deadline.since(sim.now.plus(ask.timeout));
        assert!(
            left >= whole / 20,
            "{seconds} s: {left:?} are left of {:?}",
            ask.timeout
        );
    }
}

#[test]
fn small_window_hands_back_before_an_answer_has_no_room_e9_10() {
    let mut equipment = equipment();
    for model in [&mut equipment.planner, &mut equipment.executor] {
        (model.window, model.answer_tokens) = (6_000, 3_000);
    }
    let mut rooms = Vec::new();
    let mut ends = Vec::new();
    for words in (0..6_000).step_by(150) {
        let long = format!("say hello {}", "word ".repeat(words));
        let sim = goal_with(&long, &json!({}), equipment.clone(), |ask| match ask.purpose {
            Purpose::Decide => execute("finish", json!({"notes": "hello"})),
            _ => text_answer("{\"notes\": \"some\"}"),
        })
        .driven_on();
        let began = sim.asks.iter().filter(|ask| !ask.purpose.is_last());
        rooms.extend(began.map(|ask| ask.answer_tokens));
        ends.push(root(&sim).stop_reason);
    }
    let least = rooms.iter().min().copied();
    assert!(least.is_some_and(|least| least >= 6_000 / 16), "{rooms:?}");
    assert!(
        ends.contains(&None) && ends.contains(&Some(StopReason::WindowFull)),
        "{ends:?}"
    );
}

/// A part whose own limit is reached and that is being asked to hand back what it has, below a run with room.
fn part_at_its_limit() -> Sim {
    let plan = json!({
        "budget": {"model_calls": 9, "tool_calls": 9},
        "steps": [{"id": "part", "title": "count", "budget": {"model_calls": 3}}],
    });
    let mut sim = goal_with(
        "count",
        &plan,
        equipment(),
        counting(|| text_answer("{\"notes\": \"some\"}")),
    );
    sim.concurrency = 1;
    loop {
        sim.derive();
        if purposes(&sim).last() == Some(&Purpose::HandBack) {
            return sim;
        }
        assert!(sim.end_one());
    }
}

#[test]
fn hand_back_goes_on_when_another_limit_is_changed_e9_10() {
    let of_run = |model_calls, tool_calls| Allowance {
        model_calls,
        tool_calls,
        ..Allowance::default()
    };
    for other in [of_run(Some(30), None), of_run(Some(5), None), of_run(None, Some(30))] {
        let mut sim = part_at_its_limit();
        let event = sim.run.change_limits(None, other.into(), "ada", sim.now).unwrap();
        sim.record(event);
        let sim = sim.driven_on();
        let part = sim.run.node_at("part").unwrap().result.unwrap();
        assert_eq!(
            (part.status, part.stop_reason, part.notes.as_str()),
            (Outcome::Partial, Some(StopReason::BudgetModelCalls), "some"),
            "{other:?}"
        );
    }
    // Neither does a limit that stays as it is.
    for (limit, notes) in [(3, "some"), (30, "counted")] {
        let mut sim = part_at_its_limit();
        let part = sim.run.node_at("part").unwrap().id;
        let own = of_run(Some(limit), None);
        let event = sim.run.change_limits(Some(part), own.into(), "ada", sim.now).unwrap();
        sim.record(event);
        let sim = sim.driven_on();
        assert_eq!(sim.run.node_at("part").unwrap().result.unwrap().notes, notes, "{limit}");
    }
}

/// What the model is asked when it hands back what it has.
fn asked_to_hand_back(sim: &Sim) -> Option<&str> {
    let ask = sim.asks.iter().find(|ask| ask.purpose == Purpose::HandBack)?;
    Some(&ask.messages[1].text)
}

#[test]
fn result_that_was_sent_back_is_handed_back_at_a_limit_e9_10() {
    let extra = json!({"budget": {"model_calls": 4}, "criteria": [{"id": "c1", "text": "the proof is there"}]});
    let sim = goal_with("find the number", &extra, equipment(), |ask| match ask.purpose {
        Purpose::Decide => execute(
            "finish",
            json!({"status": "ok", "notes": "it is 42", "output": {"number": 42}}),
        ),
        Purpose::Judge => verdict_answer("unmet"),
        Purpose::Work => text_answer(""),
        Purpose::HandBack => text_answer(r#"{"notes": "it is 42, without a proof"}"#),
        other => panic!("{other:?}"),
    })
    .driven_on();
    let told = asked_to_hand_back(&sim).expect("its model hands back what it found");
    assert!(
        told.contains(r#"finish {"notes":"it is 42","output":{"number":42},"status":"ok"}"#),
        "{told}"
    );
    assert!(
        told.contains("The result is not accepted yet") && told.contains("the proof"),
        "{told}"
    );
    assert_eq!(root(&sim).notes, "it is 42, without a proof");
}

#[test]
fn answer_of_a_person_is_handed_back_at_a_limit_e9_10() {
    let mut equipment = equipment();
    equipment.has_person = true;
    let extra = json!({"budget": {"model_calls": 2}});
    let mut sim = goal_with("name the colour", &extra, equipment, |ask| match ask.purpose {
        Purpose::Decide => execute("ask_person", json!({"question": "Which colour?"})),
        Purpose::HandBack => text_answer(r#"{"notes": "green is wanted"}"#),
        other => panic!("{other:?}"),
    });
    let (node, _) = judged::drive_to_question(&mut sim).unwrap();
    judged::answer_question(&mut sim, node, "green");
    let sim = sim.driven_on();
    let told = asked_to_hand_back(&sim).expect("its model hands back what it was told");
    assert!(told.contains("- Which colour? -> green"), "{told}");
    assert_eq!(root(&sim).notes, "green is wanted");
}

#[test]
fn sent_back_result_is_kept_if_nobody_hands_it_back_e9_10() {
    for last in [refused, failed] {
        let extra = json!({"budget": {"model_calls": 4}, "criteria": [{"id": "c1", "text": "the proof is there"}]});
        let sim = goal_with("find the number", &extra, equipment(), move |ask| match ask.purpose {
            Purpose::Decide => execute("finish", json!({"notes": "it is 42", "output": {"number": 42}})),
            Purpose::Judge => verdict_answer("unmet"),
            Purpose::Work => text_answer(""),
            _ => last(),
        })
        .driven_on();
        let result = root(&sim);
        assert_eq!(
            (result.status, &result.output),
            (Outcome::Partial, &Output::of(json!({"number": 42})))
        );
        assert!(
            result.notes.contains("its last result was not accepted: it is 42"),
            "{}",
            result.notes
        );
    }
}

#[test]
fn hand_back_after_a_loop_reads_the_refused_calls_and_its_result_names_them_e9_10() {
    let sim = goal_with("look", &json!({}), equipment(), |ask| match ask.purpose {
        Purpose::Decide => execute("ecko", json!({"text": "x"})),
        Purpose::Work => calls_answer(&[("ecko", json!({"text": "y"}))]),
        _ => text_answer(r#"{"notes": "nothing was seen"}"#),
    })
    .driven_on();
    let told = asked_to_hand_back(&sim).unwrap();
    for part in [
        "Limit reached: loop (3 rounds of calls in a row were rejected; the last because: unknown tool ecko",
        "# Calls that were not made\n",
        "- ecko text=y -> unknown tool ecko",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let result = root(&sim);
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::Loop))
    );
    assert!(
        result
            .notes
            .contains("nothing was seen (stopped: 3 rounds of calls in a row were rejected"),
        "{}",
        result.notes
    );
}

#[test]
fn sent_back_result_is_kept_when_the_deadline_passes_e9_10() {
    let extra = json!({"criteria": [{"id": "c1", "text": "the proof is there"}]});
    let mut sim = goal("find the number", &extra, |ask| match ask.purpose {
        Purpose::Decide => execute("finish", json!({"notes": "it is 42", "output": {"number": 42}})),
        Purpose::Judge => verdict_answer("unmet"),
        Purpose::Work => text_answer(""),
        other => panic!("{other:?}"),
    });
    let deadline = sim.now.plus(Duration::from_secs(1_000));
    sim.run.time.set(deadline);
    while purposes(&sim).last() != Some(&Purpose::Work) {
        sim.derive();
        if purposes(&sim).last() != Some(&Purpose::Work) {
            assert!(sim.end_one());
        }
    }
    sim.now = deadline.plus(Duration::from_secs(1));
    let sim = sim.driven_on();
    let result = root(&sim);
    assert_eq!(
        (result.status, &result.output, result.stop_reason),
        (
            Outcome::Partial,
            &Output::of(json!({"number": 42})),
            Some(StopReason::Deadline)
        )
    );
}
