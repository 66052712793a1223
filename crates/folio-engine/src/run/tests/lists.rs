//! Replanned lists of groups: only what is not done again is taken into account (E9.8, E9.10).

use super::models::*;
use super::*;
use crate::spend::Dimension;
use crate::talk::Purpose;

/// A list of five whose step is `group`. The second call of the fourth item fails under the first plan.
fn listed(group: &str, tool_calls: u64) -> Sim {
    let step = json!({group: [
        {"id": "look", "do": {"tool": "echo", "args": {"at": "{{ it }}"}}},
        {"id": "note", "do": {"tool": "flaky", "args": {"at": "{{ it }}"}}},
    ]});
    listed_step(&step, tool_calls)
}

/// A list of five with this `step`.
fn listed_step(step: &Value, tool_calls: u64) -> Sim {
    let list = json!([{"id": "each", "for_each": [0, 1, 2, 3, 4], "as": "it", "step": step}]);
    let extra = json!({"budget": {"tool_calls": tool_calls}});
    let mut sim = goal_with("go through them", &extra, equipment(), move |ask| match ask.purpose {
        Purpose::Decide => plan_answer(list.clone()),
        Purpose::Replan => text_answer(
            &json!({"root_cause": "one failed", "changes": "once more", "steps": with_another(&list)}).to_string(),
        ),
        Purpose::Aggregate | Purpose::RollUp => text_answer("{\"status\": \"ok\", \"notes\": \"all of it\"}"),
        purpose => panic!("{purpose:?}"),
    });
    sim.concurrency = 4;
    sim
}

/// Changes the plan slightly: the same plan again would be a loop.
fn with_another(list: &Value) -> Value {
    let mut steps = list.clone();
    let another = json!({"id": "after", "optional": true, "do": {"tool": "fail", "args": {}}});
    steps.as_array_mut().unwrap().push(another);
    steps
}

/// Drives to the end: `note` of the fourth item fails the first time, and everything else succeeds.
fn driven(mut sim: Sim) -> Sim {
    let mut has_failed = false;
    loop {
        sim.derive_whole();
        if sim.run.result().is_some() {
            return sim;
        }
        if let Some(at) = sim.under_way.iter().position(|call| call.tool != "fail") {
            let call = sim.under_way.remove(at);
            let fails = call.tool == "flaky" && call.args["at"] == 3 && !std::mem::replace(&mut has_failed, true);
            let outcome = if fails {
                answer(&CallAction {
                    tool: "fail".to_owned(),
                    ..call.clone()
                })
            } else {
                CallOutcome::Answered(CallAnswer::default())
            };
            let event = sim.run.conclude(call.node, outcome, Duration::from_millis(1), sim.now);
            sim.record(event);
        } else {
            assert!(sim.end_one());
        }
    }
}

#[test]
fn replanned_list_of_groups_makes_no_calls_for_finished_items_e9_10() {
    for group in ["sequence", "parallel"] {
        // Ten calls, the one that is made again, and the one step that is new; a tenth is kept for the end of none of
        // them.
        for tool_calls in [12, 14, 40] {
            let sim = driven(listed(group, tool_calls));
            let calls = |end: &str| sim.calls.iter().filter(|(path, _)| path.ends_with(end)).count();
            assert_eq!(
                (sim.status("each"), calls("/look"), calls("/note")),
                (Outcome::Ok, 5, 6),
                "{group}, {tool_calls}: {:?}",
                sim.run.node_at("each").unwrap().result
            );
            budgets::check_accounts(&sim.journal);
        }
        // One fewer is too few: then that is said, of the one that is left to do.
        let sim = driven(listed(group, 10));
        let each = sim.run.node_at("each").unwrap().result.unwrap();
        assert_eq!(each.status, Outcome::Failed, "{group}");
    }
}

#[test]
fn replanned_list_of_groups_sets_nothing_aside_for_finished_items_e9_10() {
    let sim = driven(listed("sequence", 14));
    let is_second = |event: &Event| match event {
        Event::Expanded { set_aside, .. } => set_aside.as_ref().is_some_and(|set_aside| set_aside.rest_only),
        _ => false,
    };
    let at = sim.journal.iter().position(|(_, event)| is_second(event)).unwrap();
    let held = |journal: &[(Timestamp, Event)]| {
        let run = Sim::resumed(journal).run;
        run.purse().unwrap().held.get(Dimension::ToolCalls)
    };
    assert_eq!(held(&sim.journal[..=at]), 1, "one call is left to do");
    // What an earlier version recorded sets aside what it did then.
    let mut earlier = sim.journal[..=at].to_vec();
    let Event::Expanded {
        set_aside: Some(set_aside),
        ..
    } = &mut earlier[at].1
    else {
        panic!("it is the list")
    };
    set_aside.rest_only = false;
    assert!(held(&earlier) > 1, "{}", held(&earlier));
}

/// The number of calls of the step `name`, all items together, after the second of two plans.
fn calls_of(sim: &Sim, name: &str) -> usize {
    let end = format!("/{name}");
    sim.calls.iter().filter(|(path, _)| path.ends_with(&end)).count()
}

fn call(id: &str, tool: &str) -> Value {
    json!({"id": id, "do": {"tool": tool, "args": {"at": "{{ it }}"}}})
}

#[test]
fn what_waited_for_a_repeated_step_is_repeated_e9_8() {
    // The third step came after the failed one and may have read it.
    let step = json!({"sequence": [call("look", "echo"), call("note", "flaky"), call("sum", "echo")]});
    let sim = driven(listed_step(&step, 60));
    assert_eq!(sim.status("each"), Outcome::Ok);
    assert_eq!(["look", "note", "sum"].map(|name| calls_of(&sim, name)), [5, 6, 6]);
    budgets::check_accounts(&sim.journal);
}

#[test]
fn group_that_succeeded_is_not_repeated_for_its_optional_steps_e9_8() {
    let mut optional = call("extra", "fail");
    optional["optional"] = json!(true);
    for group in ["sequence", "parallel"] {
        let step = json!({group: [call("note", "flaky"), optional]});
        let sim = driven(listed_step(&step, 60));
        assert_eq!(sim.status("each"), Outcome::Ok, "{group}");
        assert_eq!(["note", "extra"].map(|name| calls_of(&sim, name)), [6, 6], "{group}");
        budgets::check_accounts(&sim.journal);
    }
}

#[test]
fn race_that_was_won_is_not_run_again_e9_8() {
    let step = json!({"parallel": [call("note", "flaky"), call("other", "fail")], "join": "first_ok"});
    let sim = driven(listed_step(&step, 60));
    assert_eq!(sim.status("each"), Outcome::Ok);
    // One of the losers had not begun.
    assert_eq!(["note", "other"].map(|name| calls_of(&sim, name)), [6, 5]);
    budgets::check_accounts(&sim.journal);
}

/// A model's plan with a step whose output a later one reads as a list, and each answer of the model that does it.
fn rooms(answers: &'static [&'static str]) -> Sim {
    goal("survey the house", &json!({}), move |ask| match (ask.purpose, &*task_named(ask)) {
        (Purpose::Decide, "survey the house") => plan_answer(json!([
            {"id": "rooms", "title": "list the rooms", "criteria": ["listed"], "atomic": true},
            {"id": "each", "title": "look at each", "for_each": "results.rooms.output.rooms", "as": "room",
             "step": {"id": "look", "title": "look at {{ room }}", "criteria": ["seen"], "atomic": true}},
            {"id": "sum", "title": "write about {{ results.rooms.output.count }} rooms", "criteria": ["written"], "atomic": true},
        ])),
        (Purpose::Work, "list the rooms") => {
            let answer = answers[(ask.call as usize - 1).min(answers.len() - 1)];
            let mut result: Value = serde_json::from_str(answer).unwrap();
            result["criteria"] = json!([{"id": "c1", "met": true}]);
            calls_answer(&[("finish", result)])
        }
        (Purpose::Work, _) => finish("done"),
        _ => text_answer(&json!({"notes": "all of it"}).to_string()),
    })
    .driven_on()
}

const PROSE: &str = r#"{"notes": "There are a hall and a bath."}"#;

#[test]
fn step_is_told_what_later_steps_read_and_sends_the_list_that_it_left_out_e9_1() {
    let sim = rooms(&[
        PROSE,
        r#"{"notes": "two", "output": {"rooms": ["hall", "bath"], "count": 2}}"#,
    ]);
    let of_rooms = |ask: &&AskAction| ask.purpose == Purpose::Work && task_named(ask) == "list the rooms";
    let asks: Vec<&AskAction> = sim.asks.iter().filter(of_rooms).collect();
    let task = &asks[0].messages[1].text;
    assert!(
        task.contains("\nLater steps read: output.count, output.rooms (a list)\n"),
        "{task}"
    );
    let again = &asks[1].messages.last().unwrap().text;
    assert!(
        again.contains("output.rooms must be a list: a later step is done for each of its items"),
        "{again}"
    );
    assert_eq!(
        (asks.len(), sim.status("each"), root(&sim).status),
        (2, Outcome::Ok, Outcome::Ok)
    );
    let others = sim.asks.iter().filter(|ask| task_named(ask) != "list the rooms");
    assert!(
        others
            .into_iter()
            .all(|ask| !ask.messages[1].text.contains("Later steps read"))
    );
}

#[test]
fn result_without_the_list_counts_once_asking_again_was_in_vain_e9_13() {
    let sim = rooms(&[PROSE]);
    assert_eq!(
        (sim.status("rooms"), sim.status("each")),
        (Outcome::Ok, Outcome::Failed)
    );
}
