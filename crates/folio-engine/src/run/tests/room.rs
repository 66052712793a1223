//! Calls of models that do not fit into the budget for the moment (E9.10): whatever they are for, they wait for what
//! others give back, and no longer than something can come back.

use super::judged::answer_question;
use super::models::*;
use super::*;
use crate::run::FixedCosts;
use crate::talk::Purpose;

/// A budget of tokens that leaves this much besides what is kept for the end.
fn with_room(tokens: u64) -> Value {
    json!({"tokens": tokens * 10 / 9 + 1})
}

/// The calls for the node at `path` that were begun.
fn begun(sim: &Sim, path: &str) -> Vec<Purpose> {
    let node = sim.id(path);
    let own = sim.asks.iter().filter(|ask| ask.node == node);
    own.map(|ask| ask.purpose).collect()
}

/// The tokens that were set aside for the first call of the node at `path` for `purpose`.
fn aside(sim: &Sim, path: &str, purpose: Purpose) -> u64 {
    let node = sim.id(path);
    let mut own = sim.asks.iter().filter(|ask| ask.node == node);
    let first = own.find(|ask| ask.purpose == purpose);
    first.expect("it was asked").reserved.tokens()
}

/// Ends the call of a model for the node at `path`, and begins what follows.
fn answered(sim: &mut Sim, path: &str) {
    let node = sim.id(path);
    let at = sim.asking.iter().position(|ask| ask.node == node);
    let at = at.unwrap_or_else(|| panic!("{path} asks nothing"));
    sim.end_nth(sim.under_way.len() + at);
    sim.derive();
}

/// Ends the call of a tool for the node at `path`, and begins what follows.
fn called(sim: &mut Sim, path: &str) {
    let node = sim.id(path);
    let at = sim.under_way.iter().position(|call| call.node == node);
    sim.end_nth(at.unwrap_or_else(|| panic!("{path} is not called")));
    sim.derive();
}

/// About 4,000 tokens, so many times.
fn long(times: usize) -> String {
    "the walls, the floor and the windows of the room; ".repeat(320 * times)
}

/// A step whose call has most of the budget set aside until it is answered, which costs little.
fn other(needs: &Value) -> Value {
    json!({"id": "other", "title": "count swallows", "description": long(6), "atomic": true, "needs": needs})
}

/// People do what is below the task, and the first step meets these of its criteria.
fn planned_for_people(satisfies: &[&str]) -> ModelAnswer {
    let step = |id: &str, title: &str, satisfies: &[&str]| json!({"id": id, "title": title, "executor": "human", "criteria": ["seen"], "satisfies": satisfies});
    plan_answer(json!([
        step("a", "walk through cellars", satisfies),
        step("b", "weigh old stones", &[])
    ]))
}

fn with_people() -> Equipment {
    Equipment {
        has_person: true,
        human: Some("carries things".to_owned()),
        ..equipment()
    }
}

fn people_are_done(sim: &mut Sim, paths: [&str; 2]) {
    for path in paths {
        let node = sim.id(path);
        answer_question(sim, node, "it is done");
        sim.derive();
    }
}

#[test]
fn judge_waits_for_what_others_give_back_e9_10() {
    let wall = json!({"id": "wall", "do": {"tool": "echo", "args": {"text": "blue"}}, "criteria": ["it is blue"], "needs": []});
    let begin = |budget: &Value| {
        let extra = json!({"budget": budget, "steps": [wall, other(&json!([]))]});
        goal_with("paint", &extra, equipment(), |ask| match ask.purpose {
            Purpose::Judge => verdict_answer("met"),
            _ => finish("seven"),
        })
    };
    let free = begin(&json!({})).driven_on();
    let (judge, of_other) = (
        aside(&free, "wall", Purpose::Judge),
        aside(&free, "other", Purpose::Work),
    );
    let mut sim = begin(&with_room(judge + of_other - 10));
    sim.derive();
    called(&mut sim, "wall");
    assert_eq!(begun(&sim, "wall"), []);
    assert!(sim.run.node_at("wall").unwrap().result.is_none());
    answered(&mut sim, "other");
    assert_eq!(begun(&sim, "wall"), [Purpose::Judge]);
    let sim = sim.driven_on();
    assert_eq!(sim.status("wall"), Outcome::Ok);
    // One that never fits ends at once, whatever is under way.
    let mut sim = begin(&json!({"tokens": judge + 10, "model_calls": 9}));
    sim.derive();
    called(&mut sim, "wall");
    assert_eq!(sim.status("wall"), Outcome::Partial, "{:?}", root(&sim));
}

#[test]
fn combining_results_waits_for_what_others_give_back_e9_10() {
    let begin = |budget: &Value| {
        let steps = json!([
            {"id": "t", "do": {"tool": "echo", "args": {}}, "needs": []},
            {"id": "survey", "title": "survey the house", "description": long(1), "needs": []},
            other(&json!(["t"])),
        ]);
        goal_with(
            "tidy up",
            &json!({"budget": budget, "steps": steps}),
            with_people(),
            |ask| match (ask.purpose, task_named(ask).as_str()) {
                (Purpose::Decide, _) => planned_for_people(&[]),
                (Purpose::Work, _) => finish("seven"),
                _ => text_answer("{\"notes\": \"all of it\", \"status\": \"ok\"}"),
            },
        )
    };
    let driven = |mut sim: Sim, waits: bool| {
        sim.derive();
        answered(&mut sim, "survey");
        called(&mut sim, "t");
        people_are_done(&mut sim, ["survey/a", "survey/b"]);
        assert_eq!(begun(&sim, "survey").len(), if waits { 1 } else { 2 });
        answered(&mut sim, "other");
        assert_eq!(begun(&sim, "survey"), [Purpose::Decide, Purpose::Aggregate]);
        sim.driven_on()
    };
    let free = driven(begin(&json!({})), false);
    let sim = driven(begin(&with_room(aside(&free, "other", Purpose::Work) + 130)), true);
    assert_eq!(sim.run.node_at("survey").unwrap().result.unwrap().notes, "all of it");
}

#[test]
fn handing_back_waits_for_what_others_give_back_e9_10() {
    let begin = |budget: &Value| {
        let steps = json!([
            {"id": "t", "do": {"tool": "echo", "args": {}}, "needs": []},
            {"id": "a", "title": "walk through cellars", "description": long(1), "atomic": true,
             "budget": {"model_calls": 2}, "needs": []},
            other(&json!(["t"])),
        ]);
        goal_with(
            "tidy up",
            &json!({"budget": budget, "steps": steps}),
            equipment(),
            |ask| match (ask.purpose, task_named(ask).as_str()) {
                (Purpose::Work, "walk through cellars") => calls_answer(&[("echo", json!({"text": "a"}))]),
                (Purpose::Work, _) => finish("seven"),
                _ => text_answer("{\"notes\": \"half of it\"}"),
            },
        )
    };
    let driven = |mut sim: Sim, waits: bool| {
        sim.derive();
        answered(&mut sim, "a");
        called(&mut sim, "t");
        called(&mut sim, "a/call-1");
        assert_eq!(begun(&sim, "a").len(), if waits { 1 } else { 2 });
        answered(&mut sim, "other");
        assert_eq!(begun(&sim, "a"), [Purpose::Work, Purpose::HandBack]);
        sim.driven_on()
    };
    let free = driven(begin(&json!({})), false);
    let sim = driven(begin(&with_room(aside(&free, "other", Purpose::Work) + 130)), true);
    let notes = &sim.run.node_at("a").unwrap().result.unwrap().notes;
    assert!(notes.contains("half of it"), "{notes}");
}

#[test]
fn another_plan_waits_for_what_others_give_back_e9_8() {
    // A planner may answer at length, so another plan needs more than whoever judges the first.
    let equipment = || {
        let mut equipment = with_people();
        equipment.planner.answer_tokens = 8_000;
        equipment
    };
    let begin = |budget: &Value| {
        let steps = json!([
            {"id": "t", "do": {"tool": "echo", "args": {}}, "needs": []},
            {"id": "survey", "title": "survey the house", "criteria": ["the owner knows"], "needs": []},
            other(&json!(["t"])),
        ]);
        goal_with(
            "tidy up",
            &json!({"budget": budget, "steps": steps}),
            equipment(),
            |ask| match (ask.purpose, task_named(ask).as_str()) {
                (Purpose::Decide, _) => planned_for_people(&["c1"]),
                (Purpose::Work, _) => finish("seven"),
                (Purpose::Judge, _) => verdict_answer("unmet"),
                (Purpose::Replan, _) => ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::Refused, "no")),
                _ => text_answer("{\"notes\": \"all of it\", \"status\": \"ok\"}"),
            },
        )
    };
    let driven = |mut sim: Sim, waits: bool| {
        sim.derive();
        answered(&mut sim, "survey");
        people_are_done(&mut sim, ["survey/a", "survey/b"]);
        answered(&mut sim, "survey");
        called(&mut sim, "t");
        answered(&mut sim, "survey");
        assert_eq!(begun(&sim, "survey").len(), if waits { 3 } else { 4 });
        answered(&mut sim, "other");
        let all = [Purpose::Decide, Purpose::Aggregate, Purpose::Judge, Purpose::Replan];
        assert_eq!(begun(&sim, "survey"), all);
        sim
    };
    let free = driven(begin(&json!({})), false);
    let both = aside(&free, "survey", Purpose::Judge) + aside(&free, "other", Purpose::Work);
    driven(begin(&with_room(both + 500)), true);
}

#[test]
fn compactor_waits_for_what_others_give_back_e9_10() {
    let equipment = || {
        let mut equipment = equipment();
        for model in [&mut equipment.planner, &mut equipment.executor] {
            model.window = 6_000;
            model.answer_tokens = 600;
        }
        equipment.compactor = Some(ModelSpec {
            fixed: FixedCosts::default(),
            ..equipment.executor.clone()
        });
        equipment
    };
    let star = |n: u32| json!({"text": format!("star {n} {}", "shines brightly ".repeat(60))});
    let begin = |budget: &Value| {
        let stars = json!({"id": "stars", "title": "count the stars", "needs": []});
        let other = json!({"id": "other", "title": "count swallows", "atomic": true, "needs": []});
        let extra = json!({"budget": budget, "steps": [stars, other]});
        goal_with("count", &extra, equipment(), move |ask| match ask.purpose {
            _ if task_named(ask) == "count swallows" => finish("seven"),
            Purpose::Decide => execute("echo", star(1)),
            Purpose::Work if ask.call < 14 => calls_answer(&[("echo", star(ask.call)), ("echo", star(100 + ask.call))]),
            _ => finish("all are counted"),
        })
    };
    // Everything but the other call goes on for as long as it can.
    let go_on = |sim: &mut Sim| {
        sim.derive();
        while sim.compacting.is_empty() {
            let other = sim.id("other");
            if !sim.under_way.is_empty() {
                sim.end_nth(0);
            } else if let Some(at) = sim.asking.iter().position(|ask| ask.node != other) {
                sim.end_nth(at);
            } else {
                break;
            }
            sim.derive();
        }
    };
    let mut free = begin(&json!({}));
    go_on(&mut free);
    let purse = *free.run.purse().unwrap();
    let needed = purse.spent.tokens() + purse.reserved.tokens();
    let is_offloaded = |sim: &Sim| {
        sim.journal
            .iter()
            .any(|(_, event)| matches!(event, Event::Compacted { .. }))
    };
    let mut sim = begin(&with_room(needed - 50));
    go_on(&mut sim);
    assert!(sim.compacting.is_empty() && !is_offloaded(&sim), "it waits");
    answered(&mut sim, "other");
    assert_eq!(sim.compacting.len(), 1);
    assert_eq!(root(&sim.driven_on()).status, Outcome::Ok);
    // If nothing can come back, it is offloaded without a compactor at once.
    let mut sim = begin(&with_room(needed - 50));
    sim.derive();
    answered(&mut sim, "other");
    go_on(&mut sim);
    assert_eq!(sim.compacting.len(), 1, "there is room for it");
    let mut sim = begin(&with_room(
        purse.reserved.tokens() - aside(&free, "other", Purpose::Work) - 50,
    ));
    go_on(&mut sim);
    assert!(sim.compacting.is_empty() && is_offloaded(&sim));
}

#[test]
fn tasks_do_not_wait_for_a_tool_that_gives_nothing_back_e9_10() {
    // Every task needs more than its part, and only a call of a tool is under way: one has to give up its part.
    let mut steps: Vec<Value> = (0..4)
        .map(|n| json!({"id": format!("t{n}"), "title": format!("look at room {n}"), "description": long(1)}))
        .collect();
    steps.push(json!({"id": "slow", "do": {"tool": "echo", "args": {}}}));
    let extra = json!({"budget": {"tokens": 15_000}, "steps": [{"id": "g", "parallel": steps}]});
    let mut sim = goal_with("survey the house", &extra, equipment(), |ask| match ask.purpose {
        Purpose::Decide => execute("finish", json!({"notes": "seen"})),
        _ => finish("seen"),
    });
    sim.concurrency = 5;
    sim.derive_whole();
    while !sim.asking.is_empty() {
        sim.end_nth(sim.under_way.len());
        sim.derive_whole();
    }
    assert_eq!(sim.under_way.len(), 1, "it is still called");
    for n in 0..3 {
        assert_eq!(sim.status(&format!("g/t{n}")), Outcome::Ok);
    }
    let last = sim.run.node_at("g/t3").unwrap().result.unwrap();
    assert_eq!(last.stop_reason, Some(StopReason::BudgetTokens));
}

#[test]
fn tasks_do_not_wait_for_parts_of_tasks_that_wait_for_people_e9_10() {
    // One of the group asks a person, and keeps its part meanwhile; a tool beside it takes its time.
    let steps = json!([
        {"id": "slow", "do": {"tool": "echo", "args": {}}},
        {"id": "asks", "title": "ask the owner", "atomic": true},
        {"id": "long", "title": "look at a room", "description": long(1), "atomic": true},
    ]);
    let extra = json!({"budget": {"tokens": 10_000}, "steps": [{"id": "g", "parallel": steps}]});
    let mut sim = goal_with("survey the house", &extra, with_people(), |ask| match ask.purpose {
        Purpose::Work if task_named(ask) == "ask the owner" => {
            calls_answer(&[("ask_person", json!({"question": "Which room?"}))])
        }
        _ => finish("seen"),
    });
    sim.concurrency = 3;
    sim.derive_whole();
    while !sim.asking.is_empty() {
        sim.end_nth(sim.under_way.len());
        sim.derive_whole();
    }
    assert_eq!(sim.under_way.len(), 1, "it is still called");
    assert_eq!(sim.run.questions().len(), 1);
    let ended = sim.run.node_at("g/long").unwrap().result.unwrap();
    assert_eq!(ended.stop_reason, Some(StopReason::BudgetTokens));
}

#[test]
fn task_that_waits_for_room_hands_back_in_time_e9_10() {
    let begin = |budget: &Value| {
        let steps = json!([
            {"id": "t", "do": {"tool": "echo", "args": {}}, "needs": []},
            {"id": "a", "title": "walk through cellars", "atomic": true, "budget": {"deadline": "100s"}, "needs": []},
            other(&json!(["t"])),
        ]);
        let extra = json!({"budget": budget, "steps": steps});
        goal_with("tidy up", &extra, equipment(), |ask| {
            match (ask.purpose, task_named(ask).as_str(), ask.call) {
                (Purpose::Work, "walk through cellars", 1) => calls_answer(&[("echo", json!({"text": "a"}))]),
                (Purpose::Work, ..) => finish("seven"),
                _ => text_answer("{\"notes\": \"half of it\"}"),
            }
        })
    };
    let free = begin(&json!({})).driven_on();
    let mut sim = begin(&with_room(aside(&free, "other", Purpose::Work) + 260));
    sim.derive();
    answered(&mut sim, "a");
    called(&mut sim, "t");
    called(&mut sim, "a/call-1");
    assert_eq!(begun(&sim, "a"), [Purpose::Work], "the next call waits");
    let began = sim.now;
    let wakes_at = sim.run.wakes_after(Some(sim.now)).unwrap();
    assert_eq!(wakes_at, began.plus(Duration::from_secs(90)));
    sim.now = wakes_at;
    sim.derive();
    assert_eq!(begun(&sim, "a"), [Purpose::Work, Purpose::HandBack]);
    answered(&mut sim, "a");
    let result = sim.run.node_at("a").unwrap().result.unwrap();
    assert_eq!(result.stop_reason, Some(StopReason::Deadline));
    assert!(result.notes.contains("half of it"), "{}", result.notes);
}

#[test]
fn last_answer_waits_for_room_rather_than_being_cut_short_e9_10() {
    // Both hand back at once, and what is kept for that suffices for one of them at a time.
    let step = |id: &str, title: &str| json!({"id": id, "title": title, "description": long(1), "atomic": true, "budget": {"model_calls": 2, "deadline": "100s"}, "needs": []});
    let begin = |budget: &Value| {
        let steps = json!([step("a", "walk through cellars"), step("b", "weigh old stones")]);
        let extra = json!({"budget": budget, "steps": steps});
        goal_with("tidy up", &extra, equipment(), |ask| match ask.purpose {
            Purpose::Work => calls_answer(&[("echo", json!({"text": "a"}))]),
            _ => text_answer("{\"notes\": \"half of it\"}"),
        })
    };
    let driven = |mut sim: Sim| {
        sim.derive();
        for path in ["a", "b"] {
            answered(&mut sim, path);
        }
        let mut first = true;
        for path in ["a/call-1", "b/call-1"] {
            let node = sim.id(path);
            let at = sim.under_way.iter().position(|call| call.node == node).unwrap();
            sim.end_nth(at);
            if std::mem::take(&mut first) {
                // Both end before anything follows.
                continue;
            }
            sim.derive();
        }
        sim
    };
    let free = driven(begin(&json!({})));
    let first = aside(&free, "a", Purpose::HandBack);
    let read = free
        .asks
        .iter()
        .find(|ask| ask.purpose == Purpose::HandBack)
        .unwrap()
        .reserved
        .tokens_in;
    // Beside the first, which takes all that it may have, there is room to read and for few words.
    let budget = json!({"tokens": 240 + first + read + 150});
    let mut sim = driven(begin(&budget));
    assert_eq!(begun(&sim, "b"), [Purpose::Work], "it waits");
    answered(&mut sim, "a");
    assert_eq!(begun(&sim, "b"), [Purpose::Work, Purpose::HandBack]);
    let last = sim.asks.last().unwrap();
    assert!(last.answer_tokens >= 1_000, "{}", last.answer_tokens);
    assert!(sim.driven_on().run.result().is_some());
    // In the time that is kept for it, few words are better than none.
    let mut late = driven(begin(&budget));
    late.now = late.now.plus(Duration::from_secs(90));
    late.derive();
    assert_eq!(begun(&late, "b"), [Purpose::Work, Purpose::HandBack]);
    let last = late.asks.last().unwrap();
    assert!(last.answer_tokens < 1_000, "{}", last.answer_tokens);
}
