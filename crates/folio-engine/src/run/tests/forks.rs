//! Forks of runs.

use std::sync::atomic::{AtomicU32, Ordering};

use super::models::{equipment, execute, goal, goal_with, house, nested, plan_answer, root, task_named, text_answer};
use super::pages::Pages;
use super::replans::{count_one, list_again, listed};
use super::*;
use crate::event::NewLimits;
use crate::projection;
use crate::run::{LimitKind, RequiredApproval};
use crate::spend::{Allowance, Dimension};
use crate::talk::Purpose;

/// A fork of a run.
#[derive(Debug)]
pub(super) struct Fork {
    pub(super) run: Run,
    pub(super) events: Vec<Event>,
}

/// The run `id`, forked from `source`, with `first` as its first event.
pub(super) fn forked(
    (source, journal): (RunId, &[(Timestamp, Event)]),
    at: ForkAt,
    id: RunId,
    first: Event,
    now: Timestamp,
) -> Result<Fork, ForkError> {
    let templates = Arc::new(Templates::new());
    let mut search = ForkSearch::new(source, at, &templates);
    let moment = loop {
        for (at, event) in journal {
            search.take(*at, event)?;
            if search.is_too_far() {
                break;
            }
        }
        match search.end()? {
            ForkSearchOutcome::Found(moment) => break *moment,
            ForkSearchOutcome::Earlier(again) => search = *again,
        }
    };
    let mut forking = ForkBuilder::new(moment, id, first, now);
    let mut events = Vec::new();
    for (at, event) in journal {
        events.extend(forking.rewrite_event(*at, event)?);
    }
    assert!(forking.is_over());
    let run = forking.into_run();
    Ok(Fork { run, events })
}

#[test]
fn fork_at_any_node_repeats_no_call_finished_before() {
    let mut whole = goal_with("survey the house", &house(), equipment(), nested);
    whole.concurrency = 2;
    let whole = whole.driven_on();
    let first = whole.journal[0].1.clone();
    let id = RunId::derived(&["forked"]);
    for view in whole.run.tree() {
        let made = forked(
            (whole.run.id(), &whole.journal),
            ForkAt::Node(view.id),
            id,
            first.clone(),
            whole.now,
        );
        let made = made.unwrap_or_else(|error| panic!("{}: {error}", view.path));
        assert!(
            made.run.in_flight().is_empty(),
            "{}: what was under way has not begun",
            view.path
        );
        assert!(made.run.node(view.id).is_none(), "ids are those of the new run");
        let mut sim = Sim::empty();
        sim.run = made.run;
        sim.run.equip(Arc::new(equipment()));
        sim.model = Arc::new(nested);
        sim.journal = made.events.into_iter().map(|event| (whole.now, event)).collect();
        sim.pages = Pages::of(sim.run.id(), &sim.journal);
        let before: Vec<String> = sim
            .run
            .tree()
            .iter()
            .filter(|v| v.result.is_some())
            .map(|v| v.path.to_owned())
            .collect();
        let sim = sim.driven_on();
        let statuses = |sim: &Sim| -> Vec<(String, Outcome, String)> {
            let views = sim.run.tree();
            views
                .iter()
                .map(|v| {
                    (
                        v.path.to_owned(),
                        v.result.unwrap().status,
                        v.result.unwrap().notes.clone(),
                    )
                })
                .collect()
        };
        assert_eq!(statuses(&sim), statuses(&whole), "forked at {}", view.path);
        for (path, _) in &sim.calls {
            assert!(!before.contains(path), "{path} was done again");
        }
        // Its journal folds by itself.
        let mut again = Run::new(id, Arc::new(Templates::new()));
        for (at, event) in &sim.journal {
            again.apply(*at, event).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    let unknown = NodeId::root(RunId::derived(&["nobody"]));
    let refused = forked(
        (whole.run.id(), &whole.journal),
        ForkAt::Node(unknown),
        id,
        first,
        whole.now,
    );
    assert!(matches!(refused, Err(ForkError::NotBegun { .. })));
}

#[test]
fn branches_of_one_path_are_told_apart_in_a_fork() {
    // The roof fails, and is made anew under its old name.
    let whole = goal("build a house", &json!({}), |ask| {
        let task = task_named(ask);
        match (ask.purpose, task.as_str()) {
            (Purpose::Decide, "build a house") => plan_answer(json!([
                {"id": "roof", "title": "lay tiles", "criteria": ["it holds"]},
                {"id": "paint", "title": "mix paint", "criteria": ["it is blue"]},
            ])),
            (Purpose::Decide, "lay tiles") => execute("finish", json!({"status": "failed", "notes": "no tiles"})),
            (Purpose::Decide, task) => execute(
                "finish",
                json!({"notes": format!("{task}: done"), "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Replan, _) => text_answer(
                &json!({"root_cause": "no tiles", "changes": "thatch", "steps": [
                    {"id": "roof", "title": "lay thatch", "criteria": ["it holds"]},
                    {"id": "door", "title": "hang a door", "criteria": ["it opens"]},
                ]})
                .to_string(),
            ),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    })
    .driven_on();
    let roofs = |run: &Run| -> Vec<NodeId> {
        let all = run.nodes.iter().filter(|node| &*node.path == "roof");
        all.map(|node| node.id).collect()
    };
    let first = whole.journal[0].1.clone();
    let fork = forked(
        (whole.run.id(), &whole.journal),
        ForkAt::Node(whole.id("door")),
        RunId::derived(&["forked"]),
        first,
        whole.now,
    );
    let fork = fork.unwrap().run;
    let (old, own) = (roofs(&whole.run), roofs(&fork));
    assert_eq!((old.len(), own.len()), (2, 2));
    for (old, own) in old.into_iter().zip(own) {
        let page = projection::branch_page(&whole.run, old);
        let in_place = fork.branch_in_place_of(&whole.run, page);
        assert_eq!(in_place, Some(projection::branch_page(&fork, own)));
    }
    // It has not begun.
    let door = projection::branch_page(&whole.run, whole.id("door"));
    assert_eq!(fork.branch_in_place_of(&whole.run, door), None);
}

/// Two consecutive steps, of which the first is under way.
fn one_of_two_under_way() -> Sim {
    let mut sim = Sim::new(
        "steps:\n  - {id: one, do: {tool: echo, args: {a: 1}}}\n  - {id: two, do: {tool: echo, args: {a: 2}}}",
    );
    sim.derive();
    sim
}

fn forked_and_driven_on(source: &Sim, at: ForkAt) -> Sim {
    let (first, id) = (source.journal[0].1.clone(), RunId::derived(&["forked"]));
    let made = forked((source.run.id(), &source.journal), at, id, first, source.now).unwrap();
    let mut sim = Sim::empty();
    sim.run = made.run;
    sim.journal = made.events.into_iter().map(|event| (source.now, event)).collect();
    sim.pages = Pages::of(sim.run.id(), &sim.journal);
    sim.driven_on()
}

#[test]
fn fork_at_an_item_taken_over_from_an_earlier_plan_names_the_node_that_did_it() {
    let group = json!({"sequence": [
        {"id": "look", "do": {"tool": "echo", "args": {"at": "{{ it }}"}}},
        {"id": "inner", "for_each": ["{{ it }}"], "as": "it", "step": count_one()},
    ]});
    for step in [count_one(), group] {
        let source = listed(&step, list_again(&step)).driven_on();
        let both = |path: &str| {
            let tree = source.run.tree().into_iter();
            let found: Vec<NodeId> = tree.filter(|view| view.path == path).map(|view| view.id).collect();
            <[NodeId; 2]>::try_from(found).unwrap()
        };
        let fork = |node| {
            let (first, id) = (source.journal[0].1.clone(), RunId::derived(&["forked"]));
            let journal = (source.run.id(), &*source.journal);
            forked(journal, ForkAt::Node(node), id, first, source.now)
        };
        let slug = source.run.children(both("each")[1])[0].slug().to_owned();
        let [old, new] = both(&format!("each/{slug}"));
        let refused = fork(new).map(|_| ()).unwrap_err();
        let expected = format!("each/{slug} was not done anew: node {old} did it for an earlier version of the plan");
        assert_eq!(refused.to_string(), expected);
        assert!(fork(old).is_ok());
        // What was done anew may be forked, and so may the list.
        let slug = source.run.children(both("each")[1])[2].slug().to_owned();
        assert!(fork(both(&format!("each/{slug}"))[1]).is_ok() && fork(both("each")[1]).is_ok());
    }
}

#[test]
fn fork_at_an_item_taken_over_twice_names_the_node_that_did_it() {
    let steps = |more: &str| {
        let mut steps = list_again(&count_one());
        let last = json!({"id": more, "do": {"tool": "echo", "args": {}}, "satisfies": ["c1", "c2"]});
        steps.as_array_mut().unwrap().push(last);
        steps
    };
    let mut first = steps("first");
    let list = json!({"id": "list", "do": {"tool": "echo", "args": {"all": ["a", "b"]}}});
    first.as_array_mut().unwrap().insert(0, list);
    let again = std::sync::Mutex::new(vec![steps("third"), steps("second")]);
    let (failures, judged) = (AtomicU32::new(0), AtomicU32::new(0));
    let mut source = goal(
        "count them",
        &json!({"criteria": ["half of it", "all of it"]}),
        move |ask| {
            match (ask.purpose, task_named(ask).as_str()) {
                (Purpose::Decide, "count them") => plan_answer(first.clone()),
                (Purpose::Replan, _) => {
                    let steps = again.lock().unwrap().pop().unwrap();
                    text_answer(&json!({"root_cause": "b", "changes": "once more", "steps": steps}).to_string())
                }
                (Purpose::Decide, "count b") if failures.fetch_add(1, Ordering::Relaxed) < 2 => {
                    execute("finish", json!({"status": "failed", "notes": "no b"}))
                }
                (Purpose::Decide, task) => {
                    let claims = json!([{"id": "c1", "met": true}]);
                    execute("finish", json!({"notes": task, "output": task, "criteria": claims}))
                }
                (Purpose::Judge, _) => {
                    // Each version meets one criterion more, so that another one may follow.
                    let met = judged.fetch_add(1, Ordering::Relaxed);
                    let finding = |at: u32| if at < met { "met" } else { "unmet" };
                    let verdicts = [("c1", 0), ("c2", 1)];
                    let verdicts =
                        verdicts.map(|(id, at)| json!({"criterion": id, "finding": finding(at), "gap": "that"}));
                    text_answer(&json!({ "verdicts": verdicts }).to_string())
                }
                _ => text_answer("{\"notes\": \"all of it\"}"),
            }
        },
    );
    source.concurrency = 1;
    let source = source.driven_on();
    let items = source.run.tree().into_iter().filter(|view| view.path == "each/one[0]");
    let [first, second, third] = items.map(|view| view.id).collect::<Vec<_>>().try_into().unwrap();
    for later in [second, third] {
        let (begun, id) = (source.journal[0].1.clone(), RunId::derived(&["forked"]));
        let journal = (source.run.id(), &*source.journal);
        let refused = forked(journal, ForkAt::Node(later), id, begun, source.now)
            .map(|_| ())
            .unwrap_err();
        assert!(
            matches!(refused, ForkError::TakenOver { earlier, .. } if earlier == first),
            "{refused}"
        );
    }
}

#[test]
fn fork_at_a_cancelled_node_precedes_the_cancel_request() {
    for node in [true, false] {
        let mut sim = one_of_two_under_way();
        let two = sim.run.node_at("two").unwrap().id;
        sim.record(Event::CancelRequested {
            node: node.then_some(two),
            by: "ada".to_owned(),
        });
        let sim = sim.driven_on();
        assert_eq!(sim.status("two"), Outcome::Cancelled);
        let again = forked_and_driven_on(&sim, ForkAt::Node(two));
        assert_eq!((again.status("one"), again.status("two")), (Outcome::Ok, Outcome::Ok));
    }
}

#[test]
fn fork_restarts_the_answer_deadline_of_a_question() {
    let mut sim = Sim::new(
        "steps:
  - id: both
    parallel:
    - {id: visit, executor: human, title: Look at it, timeout: 2h}
    - sequence:
      - {id: one, do: {tool: echo, args: {}}}
      - {id: two, do: {tool: echo, args: {}}}",
    );
    sim.run
        .set_approval_policy(Some(Arc::new(|_, _| RequiredApproval::Nothing)));
    sim.derive();
    while sim.end_one() {
        sim.derive();
    }
    let asked = |run: &Run| run.questions().first().map(|(_, question)| question.deadline.unwrap());
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    assert_eq!(asked(&sim.run), Some(sim.now.plus(hours(2))));
    let (first, id) = (sim.journal[0].1.clone(), RunId::derived(&["forked"]));
    let two = sim.run.tree().iter().find(|view| view.slug() == "two").unwrap().id;
    let now = sim.now.plus(hours(5));
    let made = forked((sim.run.id(), &sim.journal), ForkAt::Node(two), id, first, now).unwrap();
    assert_eq!(asked(&made.run), Some(now.plus(hours(2))));
}

#[test]
fn fork_before_a_limit_precedes_the_missed_deadline_e9_10() {
    let mut sim = one_of_two_under_way();
    sim.record(Event::CancelRequested {
        node: None,
        by: Run::DEADLINE.to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(sim.run.result().unwrap().status, Outcome::Failed);
    let again = forked_and_driven_on(&sim, ForkAt::Limit);
    assert_eq!(again.run.result().unwrap().status, Outcome::Ok);
}

#[test]
fn fork_before_a_limit_ends_like_an_unlimited_run_e9_10() {
    let driven = |mut sim: Sim| {
        sim.concurrency = 2;
        sim.driven_on()
    };
    let whole = driven(goal_with("survey the house", &house(), equipment(), nested));
    let notes = |sim: &Sim| -> Vec<_> {
        let views = sim.run.tree();
        let end = |v: &NodeView<'_>| {
            (
                v.path.to_owned(),
                v.result.unwrap().status,
                v.result.unwrap().notes.clone(),
            )
        };
        views.iter().map(end).collect()
    };
    for calls in 1..u64::try_from(whole.asks.len()).unwrap() {
        let mut limited = house();
        limited["budget"] = json!({"model_calls": calls});
        let short = |ask: &AskAction| match ask.purpose {
            Purpose::HandBack => text_answer("{\"notes\": \"some of it\"}"),
            _ => nested(ask),
        };
        let stopped = driven(goal_with("survey the house", &limited, equipment(), short));
        let (first, id) = (stopped.journal[0].1.clone(), RunId::derived(&["more"]));
        let source = (stopped.run.id(), stopped.journal.as_slice());
        let made = forked(source, ForkAt::Limit, id, first, stopped.now).unwrap();
        let mut sim = Sim::empty();
        sim.run = made.run;
        sim.run.equip(Arc::new(equipment()));
        sim.model = Arc::new(nested);
        sim.journal = made.events.into_iter().map(|event| (stopped.now, event)).collect();
        sim.pages = Pages::of(sim.run.id(), &sim.journal);
        let more = NewLimits::from(Allowance {
            model_calls: Some(1_000),
            ..Allowance::default()
        });
        let event = sim.run.change_limits(None, more, "ada", stopped.now).unwrap();
        sim.record(event);
        assert_eq!(notes(&driven(sim)), notes(&whole), "stopped after {calls}");
    }
    let first = whole.journal[0].1.clone();
    let source = (whole.run.id(), whole.journal.as_slice());
    let refused = forked(source, ForkAt::Limit, RunId::derived(&["x"]), first, whole.now);
    assert!(matches!(refused, Err(ForkError::Unlimited)));
}

#[test]
fn unreadable_judge_is_not_a_limit_to_fork_before_e9_10() {
    let sim = goal_with("survey the house", &house(), equipment(), |ask| match ask.purpose {
        Purpose::Judge => text_answer("words, words"),
        _ => nested(ask),
    })
    .driven_on();
    let is_unjudged = |(_, event): &(Timestamp, Event)| matches!(event, Event::Checked { limit: Some(_), .. });
    assert!(sim.journal.iter().any(is_unjudged));
    let first = sim.journal[0].1.clone();
    let source = (sim.run.id(), sim.journal.as_slice());
    let refused = forked(source, ForkAt::Limit, RunId::derived(&["x"]), first, sim.now);
    assert!(matches!(refused, Err(ForkError::Unlimited)), "{refused:?}");
}

#[test]
fn fork_at_a_skipped_step_begins_before_the_step_that_failed() {
    for (plan, at) in [
        (
            "steps:
  - {id: first, do: {tool: echo, args: {}}}
  - {id: second, do: {tool: deny, args: {}}}
  - {id: third, do: {tool: echo, args: {}}}",
            "third",
        ),
        (
            "steps:
  - {id: first, do: {tool: echo, args: {}}}
  - {id: second, do: {tool: deny, args: {}}}
  - {id: part, sequence: [{id: third, do: {tool: echo, args: {}}}]}",
            "part/third",
        ),
        (
            "steps:
  - {id: first, do: {tool: echo, args: {}}}
  - {id: both, parallel: [{id: second, do: {tool: deny, args: {}}}, {id: third, do: {tool: echo, args: {}}}], on_hard: cancel}",
            "both/third",
        ),
    ] {
        let mut whole = Sim::new(plan);
        whole.concurrency = 1;
        let whole = whole.driven_on();
        let node = whole.run.node_at(at).unwrap_or_else(|| panic!("no {at}"));
        assert!(node.attempt == 0, "{at} has not begun");
        let made = forked(
            (whole.run.id(), &whole.journal),
            ForkAt::Node(node.id),
            RunId::derived(&["forked"]),
            whole.journal[0].1.clone(),
            whole.now,
        )
        .unwrap();
        let mut sim = Sim::empty();
        sim.run = made.run;
        sim.journal = made.events.into_iter().map(|event| (whole.now, event)).collect();
        sim.pages = Pages::of(sim.run.id(), &sim.journal);
        sim.derive();
        let begun: Vec<&str> = sim.under_way.iter().map(|call| call.tool.as_str()).collect();
        assert!(begun.contains(&"deny"), "{at}: {begun:?}");
        assert!(!sim.calls.iter().any(|(path, _)| path == "first"), "{:?}", sim.calls);
        // It is done if the other one succeeds this time.
        let second = sim.under_way.iter().position(|call| call.tool == "deny").unwrap();
        let call = sim.under_way.remove(second);
        let answered = CallOutcome::Answered(CallAnswer::default());
        let event = sim.run.conclude(call.node, answered, Duration::ZERO, sim.now);
        sim.record(event);
        let sim = sim.driven_on();
        assert_eq!(sim.status(at), Outcome::Ok, "{at}");
    }
}

/// The fork of `source` at `at`, in which one may call tools as often as one likes.
pub(super) fn with_more_calls(source: &Sim, at: ForkAt) -> Sim {
    let (first, id) = (source.journal[0].1.clone(), RunId::derived(&["more"]));
    let made = forked((source.run.id(), &source.journal), at, id, first, source.now).unwrap();
    let mut sim = Sim::empty();
    sim.run = made.run;
    sim.journal = made.events.into_iter().map(|event| (source.now, event)).collect();
    sim.pages = Pages::of(sim.run.id(), &sim.journal);
    let more = NewLimits::from(Allowance {
        tool_calls: Some(1_000),
        ..Allowance::default()
    });
    let event = sim.run.change_limits(None, more, "ada", source.now).unwrap();
    sim.record(event);
    sim.driven_on()
}

#[test]
fn fork_before_a_limit_keeps_what_was_done_after_one_that_nobody_raised_e9_10() {
    let text = "a text that is too long";
    let part = "plan: [{id: in, for_each: '{{ range(2) }}', do: {tool: echo, args: {}}}]";
    for (early, is_raisable) in [
        (
            "for_each: '{{ range(65) }}', do: {tool: echo, args: {}}".to_owned(),
            false,
        ),
        (
            format!("budget: {{output_bytes: 5}}, do: {{tool: echo, args: {{text: {text}}}}}"),
            false,
        ),
        (format!("budget: {{items: 1}}, {part}"), false),
        (format!("budget: {{nodes: 2}}, {part}"), true),
        ("budget: {deadline: 0}, do: {tool: echo, args: {}}".to_owned(), true),
    ] {
        let step = |id: &str| format!("\n  - {{id: {id}, do: {{tool: echo, args: {{}}}}}}");
        let steps: String = ["a", "b", "c", "d", "e"].map(step).concat();
        let plan = format!("budget: {{tool_calls: 4}}\nsteps:\n  - {{id: early, optional: true, {early}}}{steps}");
        let stopped = Sim::new(&plan).driven_on();
        assert_eq!(root(&stopped).stop_reason, Some(StopReason::BudgetToolCalls), "{plan}");
        let was_done = |path: &str| stopped.run.node_at(path).unwrap().result.unwrap().status == Outcome::Ok;
        let missing: Vec<&str> = ["a", "b", "c", "d", "e"]
            .into_iter()
            .filter(|path| !was_done(path))
            .collect();
        let kinds = vec![LimitKind::Use(Dimension::ToolCalls)];
        let more = with_more_calls(&stopped, ForkAt::LimitOf(kinds));
        assert_eq!(more.called(), missing, "{plan}");
        assert_eq!(more.status("e"), Outcome::Ok);
        // Without a kind, it is the first limit that can be raised at all.
        let any = with_more_calls(&stopped, ForkAt::Limit);
        assert_eq!(any.called().contains(&"a"), is_raisable, "{plan}");
    }
}

#[test]
fn fork_before_limits_that_cannot_be_raised_precedes_the_first_of_them_e9_10() {
    // Its plan can be edited there.
    let plan = "steps:\n  - {id: a, do: {tool: echo, args: {}}}\n  - {id: l, for_each: '{{ range(65) }}', do: {tool: echo, args: {}}}";
    let stopped = Sim::new(plan).driven_on();
    for at in [
        ForkAt::Limit,
        ForkAt::LimitOf(vec![LimitKind::Use(Dimension::ToolCalls)]),
    ] {
        let again = forked_and_driven_on(&stopped, at);
        assert_eq!((again.called(), again.status("l")), (vec![], Outcome::Failed));
    }
}

#[test]
fn fork_at_an_item_with_a_plan_keeps_the_items_done_before_it() {
    let each = "step: {id: b, plan: [{id: q, do: {tool: echo, args: {}}}]}";
    for (plan, at, again) in [
        (format!("steps: [{{id: e, for_each: [1, 2, 3], {each}}}]"), "e/b[2]", vec!["e/b[2]/q"]),
        (format!("steps: [{{id: e, for_each: [1, 2, 3], {each}}}]"), "e/b[1]", vec!["e/b[1]/q", "e/b[2]/q"]),
        (
            format!("steps: [{{id: e, for_each: [1, 2, 3], {each}}}]"),
            "e/b[0]",
            vec!["e/b[0]/q", "e/b[1]/q", "e/b[2]/q"],
        ),
        // A group that waits for room.
        (
            "steps: [{id: g, parallel: [{id: a, do: {tool: echo, args: {}}}, {id: s, sequence: [{id: x, do: {tool: echo, args: {}}}]}]}]".to_owned(),
            "g/s",
            vec!["g/s/x"],
        ),
    ] {
        let mut whole = Sim::new(&plan);
        whole.concurrency = 1;
        let whole = whole.driven_on();
        let sim = forked_and_driven_on(&whole, ForkAt::Node(whole.id(at)));
        assert_eq!(sim.called(), again, "{at}: {plan}");
        assert_eq!(sim.run.result().unwrap().status, Outcome::Ok);
    }
}

#[test]
fn fork_at_a_part_that_began_as_it_was_opened_begins_before_it_was_opened() {
    let plan =
        "steps:\n  - {id: a, do: {tool: echo, args: {}}}\n  - {id: p, plan: [{id: q, do: {tool: echo, args: {}}}]}";
    let whole = Sim::new(plan).driven_on();
    let (first, id) = (whole.journal[0].1.clone(), RunId::derived(&["forked"]));
    let at = ForkAt::Node(whole.id("p"));
    let made = forked((whole.run.id(), &whole.journal), at, id, first, whole.now).unwrap();
    // So that its step can be edited.
    assert_eq!(made.run.node_at("p").unwrap().state, NodeState::Created);
}
