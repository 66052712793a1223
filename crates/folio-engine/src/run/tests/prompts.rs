//! What prompts tell: what a task may use, what it was given, and what is wanted of it (E9.2, E9.6, E9.8, E9.10).

use super::models::*;
use super::*;
use crate::talk::Purpose;

/// What each request for `purpose` reads as the task, with everything around it.
fn told(sim: &Sim, purpose: Purpose) -> Vec<String> {
    let asks = sim.asks.iter().filter(|ask| ask.purpose == purpose);
    asks.map(|ask| ask.messages[1].text.clone()).collect()
}

fn rules_of(sim: &Sim, purpose: Purpose) -> String {
    let ask = sim.asks.iter().find(|ask| ask.purpose == purpose).unwrap();
    ask.messages[0].text.clone()
}

#[test]
fn judge_reads_what_a_task_was_given_and_what_its_result_rests_on_e9_6() {
    let extra = json!({"steps": [
        {"id": "look", "do": {"tool": "echo", "args": {"text": "the lamp is green"}}},
        {"id": "say", "title": "say which colour it has", "criteria": [{"id": "s1", "text": "the colour is right"}]},
    ]});
    let sim = goal_with("name the colour", &extra, equipment(), |ask| match ask.purpose {
        Purpose::Judge => text_answer(&json!({"verdicts": [{"criterion": "s1", "finding": "met"}]}).to_string()),
        _ => {
            let given = &ask.messages[1].text;
            let id = given.split_once("id: ").unwrap().1.lines().next().unwrap();
            let evidence = json!([{"kind": "node", "id": id}]);
            execute(
                "finish",
                json!({"status": "ok", "notes": "green", "evidence": evidence}),
            )
        }
    })
    .driven_on();
    assert_eq!(root(&sim).status, Outcome::Ok, "{}", root(&sim).notes);
    let judged = told(&sim, Purpose::Judge).remove(0);
    let (given, result) = judged.split_once("# Result\n").unwrap();
    assert!(
        given.contains("# Earlier results\n") && given.contains("the lamp is green"),
        "{judged}"
    );
    assert!(
        result.contains("evidence: tool_call ") || result.contains("evidence: node "),
        "{judged}"
    );
}

#[test]
fn another_plan_is_asked_for_with_its_form_and_with_what_came_of_the_last_e9_8() {
    let sim = replans::house();
    let rules = rules_of(&sim, Purpose::Replan);
    assert!(
        rules.contains("A step is {\"id\"") && rules.contains("steps in an inner list run in parallel"),
        "{rules}"
    );
    let told = told(&sim, Purpose::Replan).remove(0);
    assert!(
        told.contains("# Combined result\n") && told.contains("- partial: all of it"),
        "{told}"
    );
}

#[test]
fn planner_is_told_the_limits_of_the_run_and_of_a_plan_e9_10() {
    let extra = json!({"budget": {"tool_calls": 4, "children": 5, "depth": 2}});
    let sim = goal_with("look around", &extra, equipment(), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => finish("seen"),
    })
    .driven_on();
    let told = told(&sim, Purpose::Decide).remove(0);
    assert!(told.contains("children 5, depth 2, tool calls 4\n"), "{told}");
    assert!(
        told.contains("A plan has at most 5 steps in one list, and 20 in all; its steps may be split once more."),
        "{told}"
    );
}

#[test]
fn last_call_of_a_task_reads_the_limit_what_was_given_and_what_its_model_wrote_e9_10() {
    let extra = json!({"steps": [
        {"id": "look", "do": {"tool": "echo", "args": {"text": "the lamp is green"}}},
        {"id": "think", "title": "think about it", "budget": {"model_calls": 3}},
    ]});
    let sim = goal_with("think", &extra, equipment(), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "a thought"})),
        Purpose::Work => {
            let call = crate::talk::Wanted {
                id: "w0".to_owned(),
                tool: "echo".to_owned(),
                args: json!({"text": "another thought"}),
            };
            reply_answer(crate::talk::Reply {
                text: "Green means go.".to_owned(),
                calls: vec![call],
                stop: crate::talk::Stop::Done,
                permissions: Vec::new(),
            })
        }
        _ => text_answer(r#"{"notes": "it is green"}"#),
    })
    .driven_on();
    let rules = rules_of(&sim, Purpose::HandBack);
    assert!(
        rules.contains(r#""criteria": [{"id": "c1", "met": true|false"#),
        "{rules}"
    );
    let told = told(&sim, Purpose::HandBack).remove(0);
    for part in [
        "Limit reached: budget_model_calls",
        "# Earlier results\n",
        "the lamp is green",
        "# What you wrote meanwhile\n",
        "- Green means go.",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn step_reads_the_text_of_the_criterion_that_it_is_there_to_meet_e9_6() {
    let extra = json!({"criteria": [{"id": "c1", "text": "the lamp is lit"}]});
    let sim = goal_with("light the lamp", &extra, equipment(), |ask| match (ask.purpose, task_named(ask).as_str()) {
        (Purpose::Decide, "light the lamp") => plan_answer(json!([
            {"id": "fill", "title": "fill it", "criteria": ["full"], "satisfies": ["c1"]},
            {"id": "light", "title": "strike a match", "criteria": ["lit"]},
        ])),
        (Purpose::Decide, _) => execute("echo", json!({"text": "x"})),
        (Purpose::Judge, _) => text_answer(&json!({"verdicts": [{"criterion": "c1", "finding": "met"}]}).to_string()),
        (Purpose::Work, _) => calls_answer(&[(
            "finish",
            json!({"status": "ok", "notes": "done", "criteria": [{"id": "c1.1", "met": true}, {"id": "c1", "met": true}]}),
        )]),
        _ => text_answer(r#"{"notes": "lit"}"#),
    })
    .driven_on();
    let told = told(&sim, Purpose::Decide);
    assert!(
        told.iter()
            .any(|told| told.contains("this task is there to meet c1 (the lamp is lit)")),
        "{told:?}"
    );
}

#[test]
fn judge_reads_what_a_person_answered_the_task_e9_6() {
    let mut equipment = equipment();
    equipment.has_person = true;
    let extra = json!({"criteria": [{"id": "c1", "text": "the colour is the wanted one"}]});
    let mut sim = goal_with("name the colour", &extra, equipment, |ask| match ask.purpose {
        Purpose::Decide => execute("ask_person", json!({"question": "Which colour?"})),
        Purpose::Judge => text_answer(&json!({"verdicts": [{"criterion": "c1", "finding": "met"}]}).to_string()),
        _ => finish("green"),
    });
    let (node, _) = judged::drive_to_question(&mut sim).unwrap();
    judged::answer_question(&mut sim, node, "green");
    let sim = sim.driven_on();
    let judged = told(&sim, Purpose::Judge).remove(0);
    assert!(
        judged.contains("# Answers from people\n- Which colour? -> green"),
        "{judged}"
    );
}

#[test]
fn another_plan_and_the_combined_result_of_a_nested_task_rest_on_what_it_was_given_e9_8() {
    let mut equipment = equipment();
    equipment.has_person = true;
    let mut sim = goal_with("mend the house", &json!({}), equipment, |ask| {
        let met = json!([{"id": "c1", "met": true}]);
        match (ask.purpose, &*task_named(ask)) {
            (Purpose::Decide, "mend the house") => plan_answer(json!([
                {"id": "rooms", "title": "list the rooms", "criteria": ["listed"]},
                {"id": "fix", "title": "repair the windows", "criteria": ["they are tight", "the bill is low"]},
            ])),
            (Purpose::Decide, "repair the windows") => plan_answer(json!([
                {"id": "hall", "title": "do the hall", "criteria": ["done"], "satisfies": ["c1"]},
                {"id": "bath", "title": "do the bath", "criteria": ["done"], "satisfies": ["c2"]},
            ])),
            (Purpose::Decide, "list the rooms") if ask.call == 1 => {
                execute("ask_person", json!({"question": "Which house?"}))
            }
            (Purpose::Decide | Purpose::Work, task) => execute_or_finish(
                ask,
                json!({"notes": format!("{task}: done"), "output": ["hall", "bath"], "criteria": met}),
            ),
            (Purpose::Aggregate, "repair the windows") => text_answer(
                &json!({"notes": "half of it", "criteria": [
                    {"id": "c1", "met": false, "gap": "the bath is open"},
                    {"criterion": "c2", "finding": "unverifiable", "gap": "no bill was seen"},
                ]})
                .to_string(),
            ),
            (Purpose::Replan, _) => {
                text_answer(&json!({"root_cause": "no glass", "changes": "none", "give_up": true}).to_string())
            }
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    });
    let (node, _) = judged::drive_to_question(&mut sim).unwrap();
    judged::answer_question(&mut sim, node, "the red one");
    assert_eq!(judged::drive_to_question(&mut sim), None);
    let replan = told(&sim, Purpose::Replan).remove(0);
    assert!(
        replan.contains("- c1 (they are tight) is not met: the bath is open\n")
            && replan.contains("- c2 (the bill is low) could not be checked: no bill was seen\n"),
        "{replan}"
    );
    for told in [replan, told(&sim, Purpose::Aggregate).remove(0)] {
        let (given, _) = told.split_once("# Step results\n").unwrap();
        assert!(
            given.contains("# Earlier results\n") && given.contains("list the rooms: list the rooms: done"),
            "{told}"
        );
        assert_eq!(told.matches("Which house? -> the red one").count(), 1, "{told}");
    }
}

/// The arguments `result` of `finish`, in the form that `ask` wants.
fn execute_or_finish(ask: &AskAction, result: Value) -> ModelAnswer {
    match ask.purpose {
        Purpose::Decide => execute("finish", result),
        _ => calls_answer(&[("finish", result)]),
    }
}

/// What each task of a plan with inputs reads of them, by its title.
fn inputs_told(steps: Value, run: Value) -> BTreeMap<String, Option<String>> {
    let inputs = json!({"place": "string", "colour": "string", "long": "string"});
    let given = json!({"place": "the harbour", "colour": "green", "long": "x".repeat(90_000)});
    let mut with_read = equipment();
    with_read.tools[0].name = "read".to_owned();
    let extra = json!({"inputs": inputs, "given": given, "steps": steps, "run": run});
    let sim = goal_with("look", &extra, with_read, |_| {
        execute("finish", json!({"notes": "seen"}))
    })
    .driven_on();
    let line = |ask: &AskAction| {
        let told = &ask.messages[1].text;
        let inputs = told.lines().find(|line| line.starts_with("Inputs: "));
        (task_named(ask), inputs.map(str::to_owned))
    };
    sim.asks.iter().map(line).collect()
}

#[test]
fn step_of_a_written_plan_reads_the_inputs_that_it_names_and_the_goal_all_e9_2() {
    let told = inputs_told(
        json!([
            {"id": "a", "title": "look at {{ inputs.place }}"},
            {"id": "b", "title": "think"},
            {"id": "c", "title": "paint", "criteria": [
                {"id": "c1", "text": "it is right", "check": {"regex": {"pattern": "green", "of": "inputs.colour"}}},
            ]},
        ]),
        Value::Null,
    );
    let of = |title: &str| told[title].as_deref();
    assert_eq!(of("look at the harbour"), Some(r#"Inputs: {"place":"the harbour"}"#));
    assert_eq!(of("think"), None);
    assert_eq!(of("paint"), Some(r#"Inputs: {"colour":"green"}"#));
    let goal = inputs_told(json!([]), Value::Null);
    let all = goal["look"].as_deref().unwrap();
    assert!(all.contains("the harbour") && all.contains("green") && all.len() > 90_000);
}

#[test]
fn folders_of_a_prompt_are_those_that_the_run_has_e9_2() {
    let told = |run: Value| {
        let mut with_read = equipment();
        with_read.tools[0].name = "read".to_owned();
        let sim = goal_with("look", &json!({"run": run}), with_read, |_| {
            execute("finish", json!({"notes": "seen"}))
        })
        .driven_on();
        told(&sim, Purpose::Decide).remove(0)
    };
    let with = told(json!({"folder": "/home/ada"}));
    assert!(with.contains("Folders: read in `here:`; write in `run:`"), "{with}");
    let without = told(Value::Null);
    assert!(
        without.contains("Folders: read and write in `run:`") && !without.contains("`here:`"),
        "{without}"
    );
}
